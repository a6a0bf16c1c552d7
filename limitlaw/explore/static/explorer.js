// The page: its state is the URL; parts of a view are asked for one after the other, and a newer state takes the place of an older one.

import { Form, make } from "./form.js";
import { Panel } from "./panels.js";

const PAUSE = 120; // ms without a change before a state is asked for
const PATIENCE = 600; // ms before progress is shown
const LONG = 3; // seconds from which it is said why
const tab = crypto.getRandomValues(new Uint32Array(2)).join("-");
const $ = (id) => document.getElementById(id);

const page = { views: {}, name: "", form: null, panels: new Map(), logarithmic: new Set(), asking: null, timer: 0, left: new Map() }; // left: the states of the other views

async function ask(path, signal) {
  const response = await fetch(path, { signal, headers: { "x-limitlaw-tab": tab } });
  const body = await response.json().catch(() => ({ message: `the server failed (${response.status})`, field: "" }));
  if (!response.ok) throw Object.assign(new Error(body.message), { field: body.field, status: response.status });
  return body;
}

function query(values = page.form.values) {
  return new URLSearchParams(values).toString();
}

function address() {
  const log = [...page.logarithmic].join(",");
  const all = { view: page.name, ...page.form.values, ...(log ? { log } : {}), ...(page.access ? { access: page.access } : {}) };
  return `/?${new URLSearchParams(all)}`;
}

function read() {
  const { view, log, access, ...values } = Object.fromEntries(new URLSearchParams(location.search));
  page.access = access ?? page.access; // who is given a link needs it
  page.logarithmic = new Set((log ?? "").split(",").filter(Boolean));
  open(Object.hasOwn(page.views, view ?? "") ? view : Object.keys(page.views)[0], values);
}

function open(name, values) {
  const view = page.views[name];
  page.name = name;
  document.title = `${view.title} · limitlaw explore`;
  $("summary").textContent = view.summary;
  for (const link of $("views").children) {
    if (link.dataset.view === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  page.form = new Form($("form"), view.controls, later);
  page.form.values = values;
  page.panels = new Map(view.parts.map((part) => [part.name, new Panel(part, { logarithmic: page.logarithmic.has(part.name), toggled, chosen, valueOf: (field) => page.form.valueOf(field) })]));
  $("panels").replaceChildren(...[...page.panels.values()].map((panel) => panel.element));
  refresh(unknown(view, values));
}

// names in the URL that no field has: the server refuses them in its own words
function unknown(view, values) {
  const known = new Set(view.controls.map((control) => control.name));
  return Object.fromEntries(Object.entries(values).filter(([name]) => !known.has(name)));
}

function toggled(name, logarithmic) {
  if (logarithmic) page.logarithmic.add(name);
  else page.logarithmic.delete(name);
  history.replaceState(null, "", address());
}

// values picked in a figure
function chosen(values) {
  page.form.values = { ...page.form.values, ...values };
  later();
}

function later() {
  clearTimeout(page.timer);
  page.panels.forEach((panel) => panel.placeMarker());
  page.timer = setTimeout(() => {
    history.replaceState(null, "", address());
    refresh({});
  }, PAUSE);
}

async function refresh(strange) {
  page.asking?.abort();
  const asking = (page.asking = new AbortController());
  const state = (panel) => query({ ...page.form.valuesFor(panel.part.name), ...strange });
  const panels = [...page.panels.values()].filter((panel) => !panel.shows(state(panel)));
  panels.forEach((panel) => panel.wait());
  const waiting = new Waiting(asking);
  page.form.blame("", "");
  try {
    for (const [ask, wanted] of [[sketch, panels.filter((panel) => panel.part.sketched)], [answer, panels]]) {
      for (const panel of wanted) {
        waiting.now(panel.part.title);
        await ask(panel, state(panel), asking);
      }
    }
    await Promise.all(panels.map((panel) => panel.drawn));
    waiting.end(panels.some((panel) => panel.refused) ? "Some parts cannot be shown: see there" : "Up to date");
  } catch (error) {
    if (asking === page.asking) waiting.end(asking.signal.aborted ? "Cancelled; change a value to go on" : error.message);
    else waiting.stop();
  }
}

// what a part shows until its answer is there, or the answer itself where that comes as soon
function sketch(panel, state, asking) {
  return shown(panel, asking, async () => {
    const first = await ask(`/api/${page.name}/${panel.part.name}/sketch?${state}`, asking.signal);
    panel.sketch(first.sketch ? first : null);
    if (!first.sketch) panel.show(first, state);
  });
}

function answer(panel, state, asking) {
  if (panel.shows(state)) return null;
  return shown(panel, asking, async () => panel.show(await ask(`/api/${page.name}/${panel.part.name}?${state}`, asking.signal), state));
}

// a refusal that names a field is that of the whole state, unless it is a field of some parts; any other is that of the part
async function shown(panel, asking, show) {
  try {
    await show();
  } catch (error) {
    if (asking.signal.aborted) throw error;
    panel.refuse(error.message);
    if (error.field === undefined) throw new Error("The server does not answer; start limitlaw explore again and reload");
    if (!error.field) return;
    page.form.blame(error.field, error.message);
    if (page.form.concernsAPart(error.field)) return;
    throw new Error("A value cannot be used: see the field marked in red");
  }
}

// what is being computed, shown when it takes longer than a moment
class Waiting {
  constructor(asking) {
    this.asking = asking;
    this.title = "";
    this.start = performance.now();
    this.shown = setTimeout(() => this.show(), PATIENCE);
    $("status-text").textContent = "Computing";
    $("status-time").textContent = "";
  }

  now(title) {
    this.title = title;
  }

  show() {
    $("progress").removeAttribute("value");
    $("progress").hidden = $("cancel").hidden = false;
    $("cancel").onclick = () => this.asking.abort();
    this.poll = setInterval(() => this.look(), 400);
  }

  async look() {
    const seconds = Math.round((performance.now() - this.start) / 1000);
    const why = seconds < LONG || !page.views[page.name].compiles ? "" : "; a new kind of network is compiled first, once";
    const text = `Computing: ${this.title}${why}`;
    if ($("status-text").textContent !== text) $("status-text").textContent = text; // is read aloud; the time is not
    $("status-time").textContent = `${seconds} s`;
    try {
      const { done } = await ask("/api/progress", this.asking.signal);
      if (done) $("progress").value = done;
      else $("progress").removeAttribute("value");
    } catch {
      clearInterval(this.poll);
    }
  }

  stop() {
    clearTimeout(this.shown);
    clearInterval(this.poll);
  }

  end(text) {
    this.stop();
    $("progress").hidden = $("cancel").hidden = true;
    $("status-time").textContent = "";
    $("status-text").textContent = text;
  }
}

async function copyPython() {
  try {
    const { code } = await ask(`/api/${page.name}/python?${query()}`);
    $("code-text").textContent = code;
    $("code").showModal();
    await copy(code, "Python code");
  } catch (error) {
    $("status-text").textContent = error.message;
  }
}

// browsers copy only where they trust the page; the dialog and the address bar show the text in any case
async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    $("status-text").textContent = `${what} copied`;
  } catch {
    $("status-text").textContent = `${what} is shown, but the browser does not let it be copied`;
  }
}

function addView([name, view]) {
  const link = make("a", { href: `/?view=${name}`, textContent: view.title });
  link.dataset.view = name;
  link.addEventListener("click", (event) => {
    event.preventDefault();
    page.left.set(page.name, location.search);
    history.pushState(null, "", page.left.get(name) ?? link.href);
    read();
  });
  return link;
}

async function start() {
  try {
    page.views = await ask("/api/views");
  } catch (error) {
    $("status-text").textContent = error.message;
    return;
  }
  $("views").replaceChildren(...Object.entries(page.views).map(addView));
  $("copy-python").addEventListener("click", copyPython);
  $("copy-link").addEventListener("click", () => copy(location.href, "Link"));
  $("reset").addEventListener("click", () => {
    history.pushState(null, "", `/?view=${page.name}`);
    read();
  });
  $("form").addEventListener("submit", (event) => event.preventDefault());
  addEventListener("popstate", read);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => page.panels.forEach((panel) => panel.draw()));
  read();
}

start();
