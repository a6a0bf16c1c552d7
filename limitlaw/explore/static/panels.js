// Panels: how an answer looks, and how it is downloaded.

import { make } from "./form.js";

// Dashed lines lie on wider solid ones, so that curves which coincide are all seen.
const STYLES = {
  finite: { color: "finite", dash: "solid", width: 4 },
  limit: { color: "limit", dash: "9px,5px", width: 2.5 },
  heads: { color: "heads", dash: "3px,4px", width: 2.5 },
  gaussian: { color: "gaussian", dash: "10px,3px,2px,3px", width: 2 },
  linear_attention: { color: "limit", dash: "solid", width: 2.5, symbol: "square" },
  erf_best: { color: "heads", dash: "solid", width: 2.5, symbol: "diamond" },
  best_pointwise: { color: "fifth", dash: "6px,4px", width: 2, symbol: "triangle-up" },
  softmax: { color: "finite", dash: "solid", width: 6, symbol: "circle" },
  bayes_full: { color: "gaussian", dash: "solid", width: 2.5, symbol: "x" },
  softmax_best: { color: "sixth", dash: "5px,4px", width: 2.5, symbol: "circle-open" },
};
const PATH = "#ff5a5a"; // is seen on every colour of a map
const START = 11; // the size of the point where a path starts
const NARROW = 640; // px of a figure below which maps stand one above the other
const MOST_TICKS = 6;
const DECADES = 7; // below its peak a density is not followed further

const script = document.getElementById("plotly");
const loaded = globalThis.Plotly
  ? Promise.resolve()
  : new Promise((resolve, reject) => {
      script.addEventListener("load", resolve);
      script.addEventListener("error", () => reject(new Error("plotly.js cannot be loaded. Reload the page")));
      if (globalThis.Plotly) resolve();
    });

export class Panel {
  constructor(part, { logarithmic, toggled, chosen, hovered, valueOf }) {
    Object.assign(this, { part, logarithmic, chosen, hovered, valueOf });
    this.answer = null;
    this.state = null; // of the answer, null for a first look
    this.text = ""; // of the answer
    this.added = null; // what another part adds to it
    this.hidden = new Set(); // curves that are switched off
    this.drawn = null; // a promise
    this.scale = button("log", "Logarithmic y axis", () => {
      this.logarithmic = !this.logarithmic;
      this.draw();
      toggled();
    });
    this.images = ["svg", "png"].map((format) => button(format.toUpperCase(), `Download as ${format.toUpperCase()}`, () => this.image(format)));
    this.csv = button("CSV", "Download the data as CSV", () => this.data());
    this.content = make("div", { className: "content" });
    const heading = make("h2", { textContent: part.title, id: `title-${part.name}` });
    this.first = make("span", { className: "first", textContent: "first look", title: "The full answer follows", hidden: true });
    const buttons = [this.scale, ...this.images, this.csv];
    this.element = make("section", { className: "panel stale", id: `panel-${part.name}` }, make("header", {}, heading, this.first, ...buttons), this.content);
    this.element.classList.toggle("wide", part.wide);
    this.element.setAttribute("aria-labelledby", heading.id);
    this.offer();
  }

  wait() {
    this.element.classList.add("stale");
    this.offer();
  }

  // whether it shows a state
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
    this.answer = this.state = null;
    this.text = "";
    this.offer();
    this.element.classList.remove("stale");
    this.content.replaceChildren(make("p", { className: "error", textContent: message }));
  }

  show(answer, state, text) {
    const same = text === this.text;
    Object.assign(this, { answer, state, text });
    this.element.classList.remove("stale");
    this.offer();
    if (!same) this.drawn = loaded.then(() => answer === this.answer && this.draw());
  }

  // curves and notes of another part
  add(added) {
    this.added = added;
    if (this.answer) this.drawn = loaded.then(() => this.draw());
  }

  // the fields that the page alone reads have changed
  follow() {
    if (this.answer?.frames && this.plot) this.draw();
    else this.placeMarker();
  }

  get frame() {
    const { frames, frame } = this.answer;
    const at = Number(this.valueOf(frame));
    return frames[Number.isNaN(at) ? frames.length - 1 : Math.min(Math.max(at, 0), frames.length - 1)];
  }

  get curves() {
    const own = this.answer.frames ? this.frame.curves : this.answer.curves;
    return [...own, ...(this.added?.curves ?? [])];
  }

  get isFigure() {
    return Boolean(this.answer?.curves?.length || this.answer?.maps?.length);
  }

  // only a full answer can be downloaded, only curves can be seen on another axis
  offer() {
    const whole = this.state !== null && !this.element.classList.contains("stale");
    for (const image of this.images) image.hidden = !this.isFigure || !whole;
    this.scale.hidden = !this.isFigure || this.answer.maps.length > 0 || this.answer.logarithmic.includes("y");
    this.csv.hidden = !(this.isFigure || this.answer?.tables) || !whole;
    this.first.hidden = this.answer === null || this.state !== null;
  }

  draw() {
    if (!this.answer) return;
    this.offer();
    this.scale.setAttribute("aria-pressed", String(this.logarithmic));
    const texts = [...this.answer.notes, ...(this.added?.notes ?? [])];
    const notes = texts.map((text) => make("p", { className: "note", textContent: text }));
    if (this.answer.tables) {
      this.content.replaceChildren(make("div", { className: "tables" }, ...this.answer.tables.map(tableOf)), ...notes);
    } else if (this.isFigure) {
      this.legend ??= make("div", { className: "legend", role: "group", ariaLabel: "Curves" });
      this.plot ??= make("div", { className: "plot", role: "img" });
      if (this.plot.parentElement !== this.content) this.content.replaceChildren(this.legend, this.plot);
      while (this.content.lastChild !== this.plot) this.content.lastChild.remove();
      this.content.append(...notes);
      this.drawLegend();
      this.drawPlot();
    } else if (this.answer.curves) {
      this.content.replaceChildren(...notes);
    } else {
      this.content.replaceChildren(make("ul", { className: "sentences" }, ...texts.map((text) => make("li", { textContent: text }))));
    }
  }

  drawLegend() {
    this.legend.hidden = this.answer.maps.length > 0;
    this.legend.replaceChildren(
      ...this.curves.map((curve, i) => {
        const shown = !this.hidden.has(curve.role);
        const key = button("", `Show or hide: ${curve.name}`, () => {
          if (shown) this.hidden.add(curve.role);
          else this.hidden.delete(curve.role);
          this.draw();
          this.legend.children[i].focus();
        });
        key.append(swatch(styleOf(curve), curve.mode), curve.name);
        key.setAttribute("aria-pressed", String(shown));
        key.removeAttribute("aria-label");
        return key;
      }),
    );
  }

  get figure() {
    const maps = this.answer.maps.length > 0;
    const { traces, layout } = maps
      ? mapFigure(this.answer, this.curves, this.plot.clientWidth < NARROW)
      : curveFigure(this.answer, this.curves, this.logarithmic, this.hidden, this.frame_name);
    return { traces, layout: { ...themed(), ...layout } };
  }

  get frame_name() {
    return this.answer.frames ? ` ${this.frame.name}` : "";
  }

  drawPlot() {
    const { maps } = this.answer;
    this.plot.classList.toggle("maps", maps.length > 0);
    this.plot.classList.toggle("one", maps.length === 1);
    this.plot.setAttribute("aria-label", `${this.part.title}: ${[...maps, ...this.curves].map((c) => c.name).join(", ")}`);
    const { traces, layout } = this.figure;
    Plotly.react(this.plot, traces, layout, { displayModeBar: false, responsive: true });
    for (const event of ["plotly_click", "plotly_afterplot", "plotly_hover", "plotly_unhover"]) this.plot.removeAllListeners(event);
    const fields = this.answer.click ?? [];
    if (fields.length) {
      this.plot.on("plotly_click", ({ points: [point] }) => {
        this.chosen(Object.fromEntries(fields.map((name, i) => [name, String(Number([point.x, point.y][i].toPrecision(3)))])));
      });
    }
    if (this.answer.marker) {
      this.plot.on("plotly_hover", ({ points, event }) => event && this.hovered(this, points[0].x));
      this.plot.on("plotly_unhover", ({ event }) => event && this.hovered(this, null));
    }
    this.plot.on("plotly_afterplot", () => this.placeMarker());
    this.placeMarker();
  }

  // show the values at a place of the axis, which another figure shares
  point(at) {
    if (!this.answer?.marker || !this.plot?._fullLayout) return;
    if (at === null) Plotly.Fx.unhover(this.plot);
    else Plotly.Fx.hover(this.plot, { xval: at, yval: 0 });
  }

  // the line of a figure that has one, where the field has it
  placeMarker() {
    if (!this.answer?.marker || !this.plot?._fullLayout) return;
    this.marker ??= new Marker(this.part.title, (at) => this.chosen({ [this.answer.marker]: String(at) }));
    this.marker.place(this.plot, this.answer.curves[0].x, Number(this.valueOf(this.answer.marker)));
  }

  image(format) {
    const { traces, layout } = this.figure;
    const legend = { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 };
    const whole = { data: traces, layout: { ...layout, legend, showlegend: !this.answer.maps.length, margin: { l: 70, r: 20, t: 70, b: 55 } } };
    const size = { width: 900, height: this.answer.maps.length ? 500 : 560, scale: format === "png" ? 2 : 1 };
    Plotly.downloadImage(whole, { format, filename: `limitlaw-${this.part.name}`, ...size });
  }

  data() {
    const text = csvOf(this.answer, this.isFigure ? this.curves : []).map((row) => row.map(quoted).join(",")).join("\n");
    const link = make("a", { href: URL.createObjectURL(new Blob([`${text}\n`], { type: "text/csv" })), download: `limitlaw-${this.part.name}.csv` });
    link.click();
    URL.revokeObjectURL(link.href);
  }
}

// A line across a figure, moved by the pointer or by arrow keys from one of the values of its axis to another.
class Marker {
  constructor(title, moved) {
    this.moved = moved;
    this.element = make("div", { className: "marker", tabIndex: 0, role: "slider" });
    this.element.setAttribute("aria-label", `${title}: the block whose density is shown`);
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

function csvOf(answer, curves) {
  if (answer.tables) return answer.tables.flatMap(({ columns, rows }) => [columns, ...rows]);
  if (answer.maps.length) {
    const cells = answer.maps.flatMap((map) => map.y.flatMap((y, i) => map.x.map((x, j) => [map.name, x, y, map.z[i][j]])));
    return [["map", answer.x, answer.y, "value"], ...cells, ...curves.flatMap((c) => c.x.map((x, i) => [c.name, x, c.y[i], ""]))];
  }
  const rows = curves.flatMap((c) => c.x.map((x, i) => [c.name, x, c.y[i], c.error?.[i] ?? ""]));
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
  const body = rows.map((row) => make("tr", {}, ...row.map((text) => make("td", { textContent: text }))));
  const scroll = make("div", { className: "scroll", tabIndex: 0, role: "region", ariaLabel: "Table" });
  scroll.append(make("table", {}, make("thead", {}, head), make("tbody", {}, ...body)));
  return scroll;
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function styleOf(curve) {
  const { color, ...style } = STYLES[curve.role] ?? STYLES.finite;
  return { ...style, color: colour(color) };
}

function swatch({ color, dash, width }, mode) {
  const box = make("span", {});
  const dashes = dash === "solid" ? "none" : dash.replaceAll("px", "");
  const line = `<line x1="1" x2="29" y1="5" y2="5" stroke="${color}" stroke-width="${Math.min(width, 5)}" stroke-dasharray="${dashes}"/>`;
  const dot = `<circle cx="15" cy="5" r="4" fill="${color}"/>`;
  box.innerHTML = `<svg viewBox="0 0 30 10" aria-hidden="true">${mode === "markers" ? "" : line}${mode === "lines" ? "" : dot}</svg>`;
  return box.firstChild;
}

function themed() {
  const coarse = matchMedia("(pointer: coarse)").matches;
  return {
    paper_bgcolor: colour("card"),
    plot_bgcolor: colour("card"),
    font: { color: colour("text"), size: 12, family: "system-ui, sans-serif" },
    margin: { l: 60, r: 15, t: 12, b: 45 },
    hovermode: "x unified",
    hoverlabel: { namelength: -1, bgcolor: colour("card"), bordercolor: colour("line"), font: { color: colour("text") } },
    showlegend: false,
    dragmode: coarse ? false : "zoom", // a finger scrolls
  };
}

function axis(title, logarithmic) {
  const lines = { gridcolor: colour("grid"), zerolinecolor: colour("line"), linecolor: colour("line"), automargin: true };
  const log = { type: "log", exponentformat: "power", dtick: 1, showexponent: "all" };
  return { title: { text: title, standoff: 8 }, hoverformat: ".4~g", ...lines, ...(logarithmic ? log : { type: "linear" }) };
}

// the decades that a logarithmic axis shows, and a tick for each, or every other one, so that there are few
function decades(curves, lines) {
  const sizes = curves.flatMap((curve) => curve.y).filter((y) => y > 0).map(Math.log10);
  const high = Math.max(...sizes);
  const low = Math.max(Math.min(...sizes), lines ? high - DECADES : -Infinity);
  const span = high - low;
  if (span < 2) return { dtick: undefined, nticks: MOST_TICKS, exponentformat: "none" };
  return { dtick: Math.ceil(span / MOST_TICKS), ...(lines ? { range: [low - 0.05 * span, high + 0.05 * span] } : {}) };
}

function curveFigure(answer, curves, logarithmic, hidden, suffix) {
  const [logX, logY] = [answer.logarithmic.includes("x"), logarithmic || answer.logarithmic.includes("y")];
  const traces = curves.flatMap((curve) => curveTraces(curve, logY, hidden.has(curve.role)));
  const xaxis = axis(answer.x + suffix, logX);
  if (logX) Object.assign(xaxis, { tickmode: "array", tickvals: curves[0].x });
  if (answer.marker) Object.assign(xaxis, { dtick: Math.ceil(curves[0].x.length / 12), tick0: 0 });
  const yaxis = axis(answer.y, logY);
  if (logY) Object.assign(yaxis, decades(curves, answer.y === "density"));
  return { traces, layout: { xaxis, yaxis } };
}

function curveTraces(curve, logY, off) {
  const { color, dash, width, symbol } = styleOf(curve);
  const y = logY ? curve.y.map((value) => (value > 0 ? value : null)) : curve.y;
  const marker = { color, size: symbol === "circle" ? 11 : 7, symbol: symbol ?? "circle" };
  const hovertemplate = `%{y:.4~g}<extra>${curve.name}</extra>`;
  const trace = { type: "scatter", name: curve.name, x: curve.x, y, mode: curve.mode, visible: !off, hovertemplate, line: { color, dash, width, simplify: false }, marker };
  if (!curve.error || off) return [trace];
  const twice = curve.error.map((e) => 2 * (e ?? 0));
  const errors = { ...trace, hovertemplate: `%{y:.4~g} ± %{customdata:.1g}<extra>${curve.name}</extra>`, customdata: curve.error };
  if (curve.mode === "markers") {
    const down = logY ? twice.map((e, k) => Math.min(e, 0.9 * curve.y[k])) : twice;
    return [{ ...errors, error_y: { type: "data", symmetric: false, array: twice, arrayminus: down, color, thickness: 1.5 } }];
  }
  return [band(curve, twice, color, logY), errors];
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
function mapFigure(answer, curves, narrow) {
  const count = answer.maps.length;
  const all = answer.maps.flatMap((map) => map.z.flat()).filter((z) => z !== null);
  const grid = narrow ? { rows: count, columns: 1, pattern: "independent", ygap: 0.25 } : { rows: 1, columns: count, pattern: "independent", xgap: 0.15 };
  const layout = { annotations: [], grid, hovermode: "closest", margin: { l: 60, r: 15, t: 40, b: 50 } };
  layout.coloraxis = { colorscale: "Cividis", cmin: Math.min(...all), cmax: Math.max(...all), colorbar: { thickness: 12, outlinewidth: 0 } };
  const traces = [];
  const [short_x, short_y] = [answer.x, answer.y].map((label) => label.split(",")[0]);
  const place = `${short_x} = %{x:.3~g}, ${short_y} = %{y:.3~g}`;
  answer.maps.forEach((map, i) => {
    const n = i ? String(i + 1) : "";
    layout[`xaxis${n}`] = { ...axis(answer.x), range: [map.x[0], map.x.at(-1)] };
    layout[`yaxis${n}`] = { ...axis(i && !narrow ? "" : answer.y), range: [map.y[0], map.y.at(-1)] };
    layout.annotations.push({ text: map.name, showarrow: false, x: 0.5, y: 1.01, xref: `x${n} domain`, yref: `y${n} domain`, yanchor: "bottom" });
    const hovertemplate = `${place}<br>${map.name} %{z:.3~g}<extra></extra>`;
    traces.push({ type: "heatmap", name: map.name, x: map.x, y: map.y, z: map.z, coloraxis: "coloraxis", xaxis: `x${n}`, yaxis: `y${n}`, zsmooth: "best", hovertemplate });
  });
  for (const { x, y, text, words } of answer.labels ?? []) {
    const share = (x - answer.maps[0].x[0]) / (answer.maps[0].x.at(-1) - answer.maps[0].x[0]);
    const xanchor = share < 0.3 ? "left" : share > 0.7 ? "right" : "center";
    layout.annotations.push({ x, y, text, xanchor, hovertext: words, showarrow: false, font: { color: "#ffffff", size: 13 }, bgcolor: "rgba(20, 30, 60, .55)", borderpad: 3 });
  }
  for (const curve of curves) {
    const n = curve.on_map ? String(curve.on_map + 1) : "";
    const path = curve.role === "path";
    const line = path ? { color: PATH, width: 2.5 } : { color: "#ffffff", width: 2.5 };
    const marker = { color: PATH, size: curve.x.map((_, i) => (i ? 4 : START)), line: { width: 0 } };
    const hovertemplate = path ? `${curve.name}<br>${place}<extra></extra>` : `${curve.name}<extra></extra>`;
    traces.push({ type: "scatter", name: curve.name, x: curve.x, y: curve.y, mode: curve.mode, xaxis: `x${n}`, yaxis: `y${n}`, line, marker, hovertemplate });
  }
  return { traces, layout };
}
