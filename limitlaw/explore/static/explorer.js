// The page. Its state is the address; a request computes all parts of a state, and a newer one takes its place.

import { Form, make } from "./form.js";
import { Panel } from "./panels.js";

const PAUSE = 120; // ms without a change before a state is asked for
const PATIENCE = 600; // ms before progress is shown
const LONG = 3000; // ms from which it is said why
const $ = (id) => document.getElementById(id);

const page = { views: {}, name: "", form: null, panels: new Map(), asking: null, timer: 0, left: new Map() }; // left: the addresses of other views

class Refusal extends Error {
  constructor(message, field = "") {
    super(message);
    this.field = field;
  }
}

async function ask(path, signal) {
  let response;
  try {
    response = await fetch(path, { signal });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Refusal("The server does not answer. Start limitlaw explore again and reload.");
  }
  if (response.ok) return response;
  const body = await response.json().catch(() => ({ message: `The server failed (${response.status}).` }));
  throw new Refusal(body.message, body.field);
}

// the lines of an answer as they come
async function* linesOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    yield* lines;
  }
}

function query(values = page.form.values) {
  const parameters = new URLSearchParams(values);
  parameters.sort(); // equal states have equal texts
  return parameters.toString();
}

function address() {
  const panels = [...page.panels.values()];
  const usual = panels.every((panel) => panel.logarithmic === panel.part.logarithmic);
  const log = panels.filter((panel) => panel.logarithmic).map((panel) => panel.part.name).join(",") || "none";
  const all = { view: page.name, ...page.form.values, ...(usual ? {} : { log }), ...(page.access ? { access: page.access } : {}) };
  return `/?${new URLSearchParams(all)}`;
}

function read() {
  const { view, log, access, ...values } = Object.fromEntries(new URLSearchParams(location.search));
  page.access = access ?? page.access; // who is given a link needs it
  const known = Object.hasOwn(page.views, view ?? "");
  const name = known ? view : Object.keys(page.views)[0];
  $("notice").hidden = known || view === undefined;
  $("notice").textContent = known ? "" : `There is no view “${view}”. This is “${page.views[name].title}”.`;
  open(name, values, log?.split(","));
}

function open(name, values, log) {
  const view = page.views[name];
  page.name = name;
  document.title = `${view.title} · limitlaw explore`;
  $("summary").textContent = view.summary;
  for (const link of $("views").children) {
    if (link.dataset.view === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  $("presets").replaceChildren("Try:", ...Object.entries(view.presets).map(([text, preset]) => presetButton(text, preset)));
  $("about").replaceChildren($(`about-${name}`).content.cloneNode(true));
  page.form = new Form($("form"), view.controls, later);
  page.form.values = values;
  page.panels = new Map(view.parts.map((part) => [part.name, newPanel(part, log)]));
  $("panels").dataset.view = name;
  $("panels").replaceChildren(...[...page.panels.values()].map((panel) => panel.element));
  refresh();
}

function newPanel(part, log) {
  const logarithmic = log ? log.includes(part.name) : part.logarithmic;
  return new Panel(part, { logarithmic, toggled: remember, chosen, hovered, valueOf: (field) => page.form.valueOf(field) });
}

function presetButton(text, preset) {
  const button = make("button", { type: "button", textContent: text });
  button.addEventListener("click", () => {
    history.pushState(null, "", location.href);
    page.form.values = preset;
    later();
  });
  button.dataset.query = query(preset);
  return button;
}

// the parts of the page that say what the state is
function describe() {
  for (const place of $("about").querySelectorAll("[data-field]")) {
    const value = page.form.valueOf(place.dataset.field);
    place.textContent = value === "inf" ? "∞" : value;
  }
  for (const button of $("presets").querySelectorAll("button")) button.setAttribute("aria-pressed", String(button.dataset.query === query()));
}

function remember() {
  history.replaceState(null, "", address());
}

// values picked in a figure
function chosen(values) {
  page.form.values = { ...page.form.values, ...values };
  later();
}

// a place that is pointed at in one figure is shown in those beside it that have the same axis
function hovered(from, at) {
  for (const panel of page.panels.values()) if (panel !== from) panel.point(at);
}

function later() {
  clearTimeout(page.timer);
  page.panels.forEach((panel) => panel.follow());
  describe();
  page.timer = setTimeout(() => {
    remember();
    refresh();
  }, PAUSE);
}

async function refresh() {
  page.asking?.abort();
  const asking = (page.asking = new AbortController());
  describe();
  page.form.blame("", "");
  const key = (panel) => query(page.form.valuesFor(panel.part.name));
  const waiting = [...page.panels.values()].filter((panel) => !panel.shows(key(panel)));
  if (!waiting.length) return say("Up to date");
  waiting.forEach((panel) => panel.wait());
  const keys = new Map(waiting.map((panel) => [panel.part.name, key(panel)]));
  const progress = new Progress(asking);
  try {
    const response = await ask(`/api/${page.name}?${query()}`, asking.signal);
    for await (const line of linesOf(response)) receive(JSON.parse(line), line, keys, progress);
    await Promise.all([...page.panels.values()].map((panel) => panel.drawn));
    if (asking === page.asking) progress.end(waiting.some((panel) => panel.refused) ? "Some parts cannot be shown" : "Up to date");
  } catch (error) {
    if (asking !== page.asking) return progress.stop();
    waiting.forEach((panel) => panel.state === null && !asking.signal.aborted && panel.refuse(error.message));
    if (error.field) page.form.blame(error.field, error.message);
    progress.end(asking.signal.aborted ? "Cancelled. Change a value to go on" : error.field ? "A value cannot be used: see the field marked in red" : error.message);
  }
}

function receive(event, line, keys, progress) {
  if (event.failed) throw new Refusal(event.failed);
  if (event.progress !== undefined) return progress.show(event.progress, event.part);
  const panel = page.panels.get(event.part);
  const state = keys.get(event.part);
  if (state === undefined) return; // shown already
  if (event.refused) {
    panel.refuse(event.refused);
    if (event.field && page.form.concernsAPart(event.field)) page.form.blame(event.field, event.refused);
    return;
  }
  panel.show(event.panel, event.first ? null : state, line);
  const { elsewhere } = event.panel;
  if (elsewhere) page.panels.get(elsewhere.part).add(elsewhere);
}

function say(text) {
  $("status-text").textContent = text;
}

// how far a computation is, shown when it takes longer than a moment
class Progress {
  constructor(asking) {
    this.start = performance.now();
    this.part = "";
    say("Computing");
    $("status-time").textContent = "";
    $("cancel").onclick = () => asking.abort();
    this.timer = setTimeout(() => {
      $("progress").removeAttribute("value");
      $("progress").hidden = $("cancel").hidden = false;
      this.timer = setInterval(() => this.tick(), 500);
    }, PATIENCE);
  }

  show(done, part) {
    this.part = part;
    if (!$("progress").hidden) $("progress").value = done;
  }

  tick() {
    const passed = performance.now() - this.start;
    const why = passed < LONG ? "" : ". A new kind of network is compiled first, once";
    const text = `Computing: ${this.part}${why}`;
    if ($("status-text").textContent !== text) say(text); // is read aloud; the time is not
    $("status-time").textContent = `${Math.round(passed / 1000)} s`;
  }

  stop() {
    clearTimeout(this.timer);
    clearInterval(this.timer);
  }

  end(text) {
    this.stop();
    $("progress").hidden = $("cancel").hidden = true;
    $("status-time").textContent = "";
    say(text);
  }
}

async function showPython() {
  try {
    const { code } = await (await ask(`/api/${page.name}/python?${query()}`)).json();
    $("code-text").innerHTML = highlighted(code);
    $("code-copy").onclick = () => copy(code, "Code", $("code-status"));
    $("code-status").textContent = "";
    $("code").showModal();
    await copy(code, "Code", $("code-status"));
  } catch (error) {
    say(error.message);
  }
}

// Python, with words of the language, strings, numbers and comments marked
function highlighted(code) {
  const text = code.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
  const tokens = /(?<comment>#.*)|(?<string>"[^"\n]*"|'[^'\n]*')|\b(?<keyword>from|import|as|for|in|if|else|with)\b|\b(?<number>\d[\d._]*(?:e-?\d+)?|inf)\b/g;
  return text.replace(tokens, (match, ...rest) => {
    const [kind] = Object.entries(rest.at(-1)).find(([, found]) => found !== undefined);
    return `<span class="${kind}">${match}</span>`;
  });
}

// browsers copy only where they trust the page; the dialog and the address bar show the text in any case
async function copy(text, what, place) {
  try {
    await navigator.clipboard.writeText(text);
    place.textContent = `${what} copied`;
  } catch {
    place.textContent = `The browser does not allow copying. Select the text by hand`;
  }
}

function viewLink([name, view]) {
  const link = make("a", { href: `/?view=${name}`, textContent: view.title });
  link.dataset.view = name;
  link.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    page.left.set(page.name, location.search);
    history.pushState(null, "", page.left.get(name) ?? link.href);
    read();
  });
  return link;
}

async function start() {
  const narrow = matchMedia("(max-width: 800px)");
  const fold = () => ($("settings").open = !narrow.matches);
  narrow.addEventListener("change", fold);
  fold();
  try {
    page.views = await (await ask("/api/views")).json();
  } catch (error) {
    say(error.message);
    return;
  }
  $("views").replaceChildren(...Object.entries(page.views).map(viewLink));
  $("copy-python").addEventListener("click", showPython);
  $("copy-link").addEventListener("click", () => copy(location.href, "Link", $("status-text")));
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
