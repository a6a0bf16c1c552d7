// Figures and tables: how an answer looks, and how it is taken away.

import { make } from "./form.js";

const DASHES = { limit: "dash", gaussian: "dot", heads: "dashdot" };
const ROLES = ["finite", "limit", "heads", "gaussian"];
const COLOURS = [...ROLES, "fifth", "sixth"];
const PATH = "#ff5a5a"; // is seen on every colour of a map
const NARROW = 640;
const MOST_TICKS = 6;

// The script is large: it is read while the first answer is being computed.
let plotly = null;
function loaded() {
  plotly ??= new Promise((resolve, reject) => {
    document.head.append(make("script", { src: "/plotly.js", onload: resolve, onerror: () => reject(new Error("plotly.js cannot be loaded; reload the page")) }));
  });
  return plotly;
}

export class Panel {
  constructor(part, { logarithmic, toggled, clicked }) {
    this.part = part;
    this.logarithmic = logarithmic;
    this.clicked = clicked;
    this.answer = null;
    this.scale = button("log", "Logarithmic y axis", () => {
      this.logarithmic = !this.logarithmic;
      this.draw();
      toggled(part.name, this.logarithmic);
    });
    this.images = ["svg", "png"].map((format) => button(format.toUpperCase(), `Download as ${format.toUpperCase()}`, () => this.image(format)));
    this.csv = button("CSV", "Download the data as CSV", () => this.data());
    this.content = make("div", { className: "content" });
    const heading = make("h2", { textContent: part.title, id: `title-${part.name}` });
    this.element = make(
      "section",
      { className: "panel stale", id: `panel-${part.name}` },
      make("header", {}, heading, this.scale, ...this.images, this.csv),
      this.content,
    );
    this.element.setAttribute("aria-labelledby", heading.id);
    this.offer();
  }

  wait() {
    this.element.classList.add("stale");
    loaded();
  }

  refuse(message) {
    this.answer = null;
    this.offer();
    this.element.classList.remove("stale");
    this.content.replaceChildren(make("p", { className: "error", textContent: message }));
  }

  async show(answer) {
    await loaded();
    this.answer = answer;
    this.draw();
    this.element.classList.remove("stale");
  }

  get isFigure() {
    return Boolean(this.answer?.curves?.length || this.answer?.maps?.length);
  }

  // only what there is can be downloaded, only curves can be seen on another axis
  offer() {
    for (const image of this.images) image.hidden = !this.isFigure;
    this.scale.hidden = !this.isFigure || this.answer.maps.length > 0 || this.answer.logarithmic.includes("y");
    this.csv.hidden = !(this.isFigure || this.answer?.rows);
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
    this.plot.removeAllListeners("plotly_click");
    const fields = this.answer.click;
    if (fields.length) {
      this.plot.on("plotly_click", ({ points: [point] }) => {
        this.clicked(Object.fromEntries(fields.map((name, i) => [name, String(Number([point.x, point.y][i].toPrecision(4)))])));
      });
    }
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
  };
}

function axis(title, logarithmic) {
  const lines = { gridcolor: colour("grid"), zerolinecolor: colour("line"), linecolor: colour("line"), automargin: true };
  const log = { type: "log", exponentformat: "power", dtick: 1, showexponent: "all" };
  return { title: { text: title, standoff: 8 }, ...lines, ...(logarithmic ? log : { type: "linear" }) };
}

// a tick for every power of ten, or every other one, ..., so that there are few
function everyDecade(curves) {
  const sizes = curves.flatMap((curve) => curve.y).filter((y) => y > 0).map(Math.log10);
  return Math.max(1, Math.ceil((Math.max(...sizes) - Math.min(...sizes)) / MOST_TICKS));
}

function curveFigure(answer, logarithmic) {
  const [logX, logY] = [answer.logarithmic.includes("x"), logarithmic || answer.logarithmic.includes("y")];
  const traces = answer.curves.flatMap((curve, i) => curveTraces(curve, i, logY));
  const xaxis = axis(answer.x, logX);
  if (logX) Object.assign(xaxis, { tickmode: "array", tickvals: answer.curves[0].x });
  const yaxis = axis(answer.y, logY);
  if (logY) yaxis.dtick = everyDecade(answer.curves);
  return { traces, layout: { xaxis, yaxis } };
}

function styleOf(curve, i) {
  const role = ROLES.includes(curve.role) ? curve.role : COLOURS[i % COLOURS.length];
  return { color: colour(role), dash: DASHES[curve.role] ?? "solid" };
}

function curveTraces(curve, i, logY) {
  const { color, dash } = styleOf(curve, i);
  const trace = { type: "scatter", name: curve.name, x: curve.x, y: curve.y, mode: curve.mode, line: { color, dash, width: 2 }, marker: { color, size: 7 } };
  if (!curve.error) return [trace];
  const twice = curve.error.map((e) => 2 * (e ?? 0));
  if (curve.mode === "markers") {
    const down = logY ? twice.map((e, k) => Math.min(e, 0.9 * curve.y[k])) : twice;
    return [{ ...trace, error_y: { type: "data", symmetric: false, array: twice, arrayminus: down, color, thickness: 1 } }];
  }
  return [band(curve, twice, color, logY), trace];
}

function band(curve, reach, color, logY) {
  const known = curve.y.flatMap((y, k) => (y === null ? [] : [k]));
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
    if (map.boundary) {
      traces.push({ type: "contour", x: map.x, y: map.y, z: map.boundary, showscale: false, hoverinfo: "skip", xaxis: `x${n}`, yaxis: `y${n}`, contours: { type: "constraint", operation: "=", value: 0 }, line: { color: PATH, width: 2.5 } });
    }
  });
  answer.curves.forEach((curve) => {
    const n = curve.on_map ? String(curve.on_map + 1) : "";
    traces.push({ type: "scatter", name: curve.name, x: curve.x, y: curve.y, mode: curve.mode, xaxis: `x${n}`, yaxis: `y${n}`, line: { color: PATH, width: 2.5 }, marker: { color: PATH, size: 5 } });
  });
  return { traces, layout };
}
