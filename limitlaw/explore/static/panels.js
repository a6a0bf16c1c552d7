// Figures and tables: how an answer looks, and how it is taken away.

import { make } from "./form.js";

const DASHES = { limit: "dash", gaussian: "dot", heads: "dashdot" };
const ROLES = ["finite", "limit", "heads", "gaussian"];
const COLOURS = [...ROLES, "fifth", "sixth"];
const PATH = "#ff5a5a"; // is seen on every colour of a map
const START = 11; // the size of the point where a path starts
const NARROW = 640;
const MOST_TICKS = 6;

const HEAD_START = 2000; // ms in which the first answer may come and be seen before the large script holds up everything

// The script is large: it is run while answers are being computed, but after what is at hand has been painted.
let plotly = null;
function loaded() {
  plotly ??= new Promise((resolve, reject) => {
    document.head.append(make("script", { src: "/plotly.js", onload: resolve, onerror: () => reject(new Error("plotly.js cannot be loaded; reload the page")) }));
  });
  return plotly;
}

function painted() {
  return globalThis.Plotly ? Promise.resolve() : new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
}

export class Panel {
  constructor(part, { logarithmic, toggled, chosen, valueOf }) {
    this.part = part;
    this.logarithmic = logarithmic;
    this.chosen = chosen;
    this.valueOf = valueOf;
    this.answer = null;
    this.state = null; // what the answer is for
    this.sketched = null; // the last sketch, as text
    this.drawn = null; // a promise
    this.scale = button("log", "Logarithmic y axis", () => {
      this.logarithmic = !this.logarithmic;
      this.draw();
      toggled(part.name, this.logarithmic);
    });
    this.images = ["svg", "png"].map((format) => button(format.toUpperCase(), `Download as ${format.toUpperCase()}`, () => this.image(format)));
    this.csv = button("CSV", "Download the data as CSV", () => this.data());
    this.content = make("div", { className: "content" });
    const heading = make("h2", { textContent: part.title, id: `title-${part.name}` });
    this.first = make("span", { className: "first", textContent: "first look", title: "The answer proper follows", hidden: true });
    this.element = make(
      "section",
      { className: "panel stale", id: `panel-${part.name}` },
      make("header", {}, heading, this.first, this.scale, ...this.images, this.csv),
      this.content,
    );
    this.element.setAttribute("aria-labelledby", heading.id);
    this.offer();
  }

  wait() {
    this.element.classList.add("stale");
    this.offer();
    setTimeout(loaded, HEAD_START);
  }

  // whether it is what belongs to a state
  shows(state) {
    const does = this.answer !== null && this.state === state;
    if (does) this.element.classList.remove("stale");
    this.offer();
    return does;
  }

  get refused() {
    return this.answer === null && this.content.querySelector(".error") !== null;
  }

  refuse(message) {
    this.answer = this.state = this.sketched = null;
    this.offer();
    this.element.classList.remove("stale");
    this.content.replaceChildren(make("p", { className: "error", textContent: message }));
  }

  // what there is until the answer comes, unless it is what is seen; null where the answer is there
  sketch(answer) {
    const text = answer && JSON.stringify(answer);
    if (answer && text !== this.sketched) this.show(answer);
    this.sketched = text;
  }

  show(answer, state = null) {
    this.answer = answer;
    this.state = state;
    this.element.classList.remove("stale");
    this.offer();
    if (!globalThis.Plotly && isPlain(answer)) this.content.replaceChildren(preview(answer, this.content.clientWidth));
    this.drawn = painted().then(loaded).then(() => answer === this.answer && this.draw());
  }

  get isFigure() {
    return Boolean(this.answer?.curves?.length || this.answer?.maps?.length);
  }

  // only what belongs to the state can be downloaded, only curves can be seen on another axis
  offer() {
    const whole = this.state !== null && !this.element.classList.contains("stale");
    for (const image of this.images) image.hidden = !this.isFigure || !whole;
    this.scale.hidden = !this.isFigure || this.answer.maps.length > 0 || this.answer.logarithmic.includes("y");
    this.csv.hidden = !(this.isFigure || this.answer?.rows) || !whole;
    this.first.hidden = this.answer === null || this.state !== null;
  }

  draw() {
    if (!this.answer) return;
    this.offer();
    this.scale.setAttribute("aria-pressed", String(this.logarithmic));
    const notes = this.answer.notes.map((text) => make("p", { className: "note", textContent: text }));
    if (this.answer.rows) {
      this.element.classList.add("tall");
      this.content.replaceChildren(tableOf(this.answer), ...notes);
    } else if (this.isFigure) {
      this.plot ??= make("div", { className: "plot", role: "img" });
      if (this.plot.parentElement !== this.content) this.content.replaceChildren(this.plot);
      while (this.content.lastChild !== this.plot) this.content.lastChild.remove();
      this.content.append(...notes);
      this.drawPlot();
    } else {
      this.content.replaceChildren(...notes);
    }
  }

  drawPlot() {
    const maps = this.answer.maps.length > 0;
    this.plot.classList.toggle("maps", this.answer.maps.length > 1);
    this.element.classList.toggle("wide", this.answer.maps.length > 1);
    this.plot.setAttribute("aria-label", `${this.part.title}: ${[...this.answer.maps, ...this.answer.curves].map((c) => c.name).join(", ")}`);
    const narrow = this.plot.clientWidth < NARROW;
    const { traces, layout } = maps ? mapFigure(this.answer, narrow) : curveFigure(this.answer, this.logarithmic);
    const config = { displayModeBar: false, responsive: true };
    Plotly.react(this.plot, traces, { ...themed(), ...layout }, config);
    for (const event of ["plotly_click", "plotly_afterplot"]) this.plot.removeAllListeners(event);
    const fields = this.answer.click;
    if (fields.length) {
      this.plot.on("plotly_click", ({ points: [point] }) => {
        this.chosen(Object.fromEntries(fields.map((name, i) => [name, String(Number([point.x, point.y][i].toPrecision(4)))])));
      });
    }
    this.plot.on("plotly_afterplot", () => this.placeMarker());
    this.placeMarker();
  }

  // the line of a figure that has one, where the field has it
  placeMarker() {
    if (!this.answer?.marker || !this.plot?._fullLayout) return;
    this.marker ??= new Marker(this.part.title, (at) => this.chosen({ [this.answer.marker]: String(at) }));
    this.marker.place(this.plot, this.answer.curves[0].x, Number(this.valueOf(this.answer.marker)));
  }

  image(format) {
    Plotly.downloadImage(this.plot, { format, filename: `limitlaw-${this.part.name}`, width: 900, height: this.answer.maps.length ? 500 : 560, scale: format === "png" ? 2 : 1 });
  }

  data() {
    const text = csvOf(this.answer).map((row) => row.map(quoted).join(",")).join("\n");
    const link = make("a", { href: URL.createObjectURL(new Blob([`${text}\n`], { type: "text/csv" })), download: `limitlaw-${this.part.name}.csv` });
    link.click();
    URL.revokeObjectURL(link.href);
  }
}

// A line across a figure; moved by the pointer, or by arrow keys, from one of the values of its axis to another.
class Marker {
  constructor(title, moved) {
    this.moved = moved;
    this.element = make("div", { className: "marker", tabIndex: 0, role: "slider" });
    this.element.setAttribute("aria-label", `${title}: where the law is seen`);
    this.element.addEventListener("pointerdown", (event) => {
      this.element.setPointerCapture(event.pointerId);
      event.preventDefault();
      this.element.focus();
    });
    this.element.addEventListener("pointermove", (event) => {
      if (this.element.hasPointerCapture(event.pointerId)) this.move(this.nearest(event.clientX));
    });
    this.element.addEventListener("keydown", (event) => {
      const steps = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, Home: -Infinity, End: Infinity };
      if (!(event.key in steps)) return;
      event.preventDefault();
      this.move(this.clamped(this.at + steps[event.key]));
    });
  }

  place(plot, values, at) {
    this.plot = plot;
    this.values = values;
    if (this.element.parentElement !== plot) plot.append(this.element);
    this.at = this.clamped(Number.isNaN(at) ? Infinity : Math.round(at)); // a word means the last
    const { xaxis, yaxis } = plot._fullLayout;
    Object.assign(this.element.style, { left: `${xaxis._offset + xaxis.l2p(this.at)}px`, top: `${yaxis._offset}px`, height: `${yaxis._length}px` });
    const shown = { min: values[0], max: values.at(-1), now: this.at, text: this.at ? `after block ${this.at}` : "input" };
    for (const [name, value] of Object.entries(shown)) this.element.setAttribute(`aria-value${name}`, value);
  }

  clamped(at) {
    return Math.min(Math.max(at, this.values[0]), this.values.at(-1));
  }

  nearest(clientX) {
    const { xaxis } = this.plot._fullLayout;
    return this.clamped(Math.round(xaxis.p2l(clientX - this.plot.getBoundingClientRect().left - xaxis._offset)));
  }

  move(at) {
    if (at !== this.at) this.moved(at);
  }
}

// curves over linear axes, before plotly is there
function isPlain(answer) {
  return Boolean(answer.curves?.length) && !answer.maps.length && !answer.logarithmic;
}

const EDGE = { left: 60, right: 15, top: 40, bottom: 45 };
const HEIGHT = 336;
const SVG = make("div", { innerHTML: "<svg></svg>" }).firstChild.namespaceURI;

function preview({ curves, x, y }, width) {
  const all = (name) => curves.flatMap((curve) => curve[name]).filter((value) => value !== null);
  const across = scaleOf(all("x"), EDGE.left, width - EDGE.right);
  const up = scaleOf([0, ...all("y")], HEIGHT - EDGE.bottom, EDGE.top);
  const svg = drawn("svg", { class: "plot preview", viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": curves.map((curve) => curve.name).join(", ") });
  svg.append(drawn("path", { d: `M${EDGE.left},${EDGE.top}V${HEIGHT - EDGE.bottom}H${width - EDGE.right}`, class: "frame" }));
  curves.forEach((curve, i) => {
    const { color, dash } = styleOf(curve, i);
    const points = curve.x.flatMap((at, k) => (curve.y[k] === null ? [] : [`${across.at(at)},${up.at(curve.y[k])}`]));
    svg.append(drawn("polyline", { points: points.join(" "), stroke: color, "stroke-dasharray": { solid: "none", dot: "2 3" }[dash] ?? "7 3" }));
    svg.append(drawn("text", { x: EDGE.left + (i % 2) * (width / 2 - EDGE.left), y: 14 + 16 * Math.floor(i / 2), fill: color }, curve.name));
  });
  for (const end of across.ends) svg.append(drawn("text", { x: across.at(end), y: HEIGHT - 28, "text-anchor": "middle" }, end.toPrecision(2)));
  svg.append(drawn("text", { x: EDGE.left - 6, y: EDGE.top + 4, "text-anchor": "end" }, up.ends[1].toPrecision(2)));
  svg.append(drawn("text", { x: width / 2, y: HEIGHT - 10, "text-anchor": "middle" }, `${y} against ${x}`));
  return svg;
}

function scaleOf(values, from, to) {
  const ends = [Math.min(...values), Math.max(...values)];
  return { ends, at: (value) => (from + ((value - ends[0]) / (ends[1] - ends[0] || 1)) * (to - from)).toFixed(1) };
}

function drawn(tag, attributes, text = "") {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.textContent = text;
  return element;
}

export function csvOf(answer) {
  if (answer.rows) return [answer.columns, ...answer.rows];
  if (answer.maps.length) {
    const cells = answer.maps.flatMap((map) => map.y.flatMap((y, i) => map.x.map((x, j) => [map.name, x, y, map.z[i][j]])));
    return [["map", answer.x, answer.y, "value"], ...cells, ...answer.curves.flatMap((c) => c.x.map((x, i) => [c.name, x, c.y[i], ""]))];
  }
  const rows = answer.curves.flatMap((c) => c.x.map((x, i) => [c.name, x, c.y[i], c.error?.[i] ?? ""]));
  return [["curve", answer.x, answer.y, "standard error"], ...rows];
}

function quoted(cell) {
  const text = String(cell ?? "");
  return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function button(text, label, act) {
  const made = make("button", { type: "button", textContent: text, title: label });
  made.setAttribute("aria-label", label);
  made.addEventListener("click", act);
  return made;
}

function tableOf({ columns, rows }) {
  const head = make("tr", {}, ...columns.map((text) => make("th", { textContent: text, scope: "col" })));
  const body = rows.map((row) => make("tr", { className: row.slice(1).some(Boolean) ? "" : "heading" }, ...row.map((text) => make("td", { textContent: text }))));
  const scroll = make("div", { className: "scroll", tabIndex: 0, role: "region" }, make("table", {}, make("thead", {}, head), make("tbody", {}, ...body)));
  scroll.setAttribute("aria-label", "Table");
  return scroll;
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function themed() {
  return {
    paper_bgcolor: colour("card"),
    plot_bgcolor: colour("card"),
    font: { color: colour("text"), size: 12, family: "system-ui, sans-serif" },
    margin: { l: 60, r: 15, t: 15, b: 45 },
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
    hovermode: "closest",
    showlegend: true,
    dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom", // a finger scrolls
  };
}

function axis(title, logarithmic) {
  const lines = { gridcolor: colour("grid"), zerolinecolor: colour("line"), linecolor: colour("line"), automargin: true };
  const log = { type: "log", exponentformat: "power", dtick: 1, showexponent: "all" };
  return { title: { text: title, standoff: 8 }, ...lines, ...(logarithmic ? log : { type: "linear" }) };
}

// a tick for every power of ten, or every other one, ..., so that there are few; within two of them, wherever there is room
function decades(curves) {
  const sizes = curves.flatMap((curve) => curve.y).filter((y) => y > 0).map(Math.log10);
  const span = Math.max(...sizes) - Math.min(...sizes);
  return span < 2 ? { dtick: undefined, nticks: MOST_TICKS, exponentformat: "none" } : { dtick: Math.ceil(span / MOST_TICKS) };
}

function curveFigure(answer, logarithmic) {
  const [logX, logY] = [answer.logarithmic.includes("x"), logarithmic || answer.logarithmic.includes("y")];
  const traces = answer.curves.flatMap((curve, i) => curveTraces(curve, i, logY));
  const xaxis = axis(answer.x, logX);
  if (logX) Object.assign(xaxis, { tickmode: "array", tickvals: answer.curves[0].x });
  const yaxis = axis(answer.y, logY);
  if (logY) Object.assign(yaxis, decades(answer.curves));
  return { traces, layout: { xaxis, yaxis } };
}

function styleOf(curve, i) {
  const role = ROLES.includes(curve.role) ? curve.role : COLOURS[i % COLOURS.length];
  return { color: colour(role), dash: DASHES[curve.role] ?? "solid" };
}

function curveTraces(curve, i, logY) {
  const { color, dash } = styleOf(curve, i);
  const y = logY ? curve.y.map((value) => (value > 0 ? value : null)) : curve.y;
  const trace = { type: "scatter", name: curve.name, x: curve.x, y, mode: curve.mode, line: { color, dash, width: 2 }, marker: { color, size: 7 } };
  if (!curve.error) return [trace];
  const twice = curve.error.map((e) => 2 * (e ?? 0));
  if (curve.mode === "markers") {
    const down = logY ? twice.map((e, k) => Math.min(e, 0.9 * curve.y[k])) : twice;
    return [{ ...trace, error_y: { type: "data", symmetric: false, array: twice, arrayminus: down, color, thickness: 1 } }];
  }
  return [band(curve, twice, color, logY), trace];
}

function band(curve, reach, color, logY) {
  const known = curve.y.flatMap((y, k) => (y === null || (logY && y <= 0) ? [] : [k]));
  const low = (k) => (logY ? Math.max(curve.y[k] - reach[k], 0.1 * curve.y[k]) : curve.y[k] - reach[k]);
  const back = [...known].reverse();
  return {
    type: "scatter", mode: "lines", fill: "toself", fillcolor: color, opacity: 0.2, line: { width: 0 }, hoverinfo: "skip", showlegend: false,
    x: [...known, ...back].map((k) => curve.x[k]),
    y: [...known.map((k) => curve.y[k] + reach[k]), ...back.map(low)],
  };
}

// maps side by side, one above the other where there is no room; each with the curves that belong to it
function mapFigure(answer, narrow) {
  const count = answer.maps.length;
  const all = answer.maps.flatMap((map) => map.z.flat()).filter((z) => z !== null);
  const layout = { annotations: [], grid: narrow ? { rows: count, columns: 1, pattern: "independent", ygap: 0.25 } : { rows: 1, columns: count, pattern: "independent", xgap: 0.15 } };
  layout.coloraxis = { colorscale: "Cividis", cmin: Math.min(...all), cmax: Math.max(...all), colorbar: { thickness: 12, outlinewidth: 0 } };
  layout.margin = { l: 60, r: 15, t: 40, b: 50 };
  layout.showlegend = false;
  const traces = [];
  answer.maps.forEach((map, i) => {
    const n = i ? String(i + 1) : "";
    layout[`xaxis${n}`] = { ...axis(answer.x), range: [map.x[0], map.x.at(-1)] };
    layout[`yaxis${n}`] = { ...axis(answer.y), range: [map.y[0], map.y.at(-1)] };
    layout.annotations.push({ text: map.name, showarrow: false, x: 0.5, y: 1.01, xref: `x${n} domain`, yref: `y${n} domain`, yanchor: "bottom" });
    traces.push({ type: "heatmap", name: map.name, x: map.x, y: map.y, z: map.z, coloraxis: "coloraxis", xaxis: `x${n}`, yaxis: `y${n}`, zsmooth: "best" });
  });
  answer.curves.forEach((curve) => {
    const n = curve.on_map ? String(curve.on_map + 1) : "";
    traces.push({ type: "scatter", name: curve.name, x: curve.x, y: curve.y, mode: curve.mode, xaxis: `x${n}`, yaxis: `y${n}`, line: { color: PATH, width: 2.5 }, marker: { color: PATH, size: curve.x.map((_, i) => (i ? 4 : START)), line: { width: 0 } } });
  });
  return { traces, layout };
}
