// The form of a view, built from the description of its fields. Values are texts; the server says what they mean.

const STEPS_PER_OCTAVE = 2;
const STEPS = 100;

export class Form {
  constructor(element, controls, changed) {
    this.element = element;
    this.controls = controls;
    this.changed = changed;
    this.fields = new Map();
    element.replaceChildren(...groups(controls).map(([name, members]) => this.group(name, members)));
  }

  group(name, members) {
    const set = make("fieldset", {}, make("legend", { textContent: name }));
    set.append(...members.map((control) => this.field(control)));
    return set;
  }

  field(control) {
    const id = `field-${control.name}`;
    const main = control.kind === "choice" ? choice(control) : text(control);
    main.id = id;
    main.name = control.name;
    const slider = sliderOf(control);
    const error = make("p", { className: "error", id: `${id}-error`, hidden: true });
    const hint = make("p", { className: "hint", id: `${id}-hint`, textContent: control.hint, hidden: !control.hint });
    main.setAttribute("aria-describedby", `${hint.id} ${error.id}`);
    const inputs = make("div", { className: "inputs" }, ...(slider ? [slider.element, main] : [main]));
    const label = make("label", { htmlFor: id, textContent: control.label });
    const whole = make("div", { className: "field" }, label, inputs, hint, error);
    this.fields.set(control.name, { control, main, slider, error, whole });
    main.addEventListener("input", () => {
      slider?.show(main.value);
      this.update();
    });
    slider?.element.addEventListener("input", () => {
      main.value = slider.value();
      slider.show(main.value);
      this.update();
    });
    return whole;
  }

  update() {
    this.arrange();
    this.changed();
  }

  arrange() {
    for (const { control, whole } of this.fields.values()) {
      if (control.only) whole.hidden = !control.only[1].includes(this.fields.get(control.only[0]).main.value);
    }
    for (const set of this.element.children) set.hidden = !set.querySelector(".field:not([hidden])");
  }

  // the values that differ from the defaults, of the fields that are shown
  get values() {
    const all = [...this.fields.values()].filter(({ whole }) => !whole.hidden).map(({ control, main }) => [control, main.value.trim()]);
    return Object.fromEntries(all.filter(([c, v]) => v !== c.default).map(([c, v]) => [c.name, v]));
  }

  // of these, the ones that a part depends on; a field without parts is read by the page alone
  valuesFor(part) {
    const concerns = ({ parts }) => !parts || parts.includes(part);
    return Object.fromEntries(Object.entries(this.values).filter(([name]) => concerns(this.fields.get(name).control)));
  }

  concernsAPart(name) {
    return Boolean(this.fields.get(name)?.control.parts?.length);
  }

  valueOf(name) {
    return this.fields.get(name).main.value;
  }

  set values(given) {
    for (const [name, { control, main, slider }] of this.fields) {
      const value = given[name] ?? control.default;
      if (control.kind === "choice" && !control.choices.includes(value)) main.append(new Option(value, value));
      main.value = value;
      slider?.show(value);
    }
    this.arrange();
    this.blame("", "");
  }

  // show a sentence beside a field, and none beside the others
  blame(name, message) {
    for (const [own, { main, error }] of this.fields) {
      const wrong = own === name && Boolean(message);
      error.hidden = !wrong;
      error.textContent = wrong ? message : "";
      main.setAttribute("aria-invalid", String(wrong));
    }
  }
}

export function make(tag, properties, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

function groups(controls) {
  const found = new Map();
  for (const control of controls) {
    if (!found.has(control.group)) found.set(control.group, []);
    found.get(control.group).push(control);
  }
  return [...found];
}

function choice(control) {
  return make("select", {}, ...control.choices.map((word) => new Option(control.words[word] ?? word, word)));
}

function text(control) {
  const numeric = control.kind === "number" || (control.kind === "count" && !control.infinite && !control.choices.length);
  return make("input", { type: "text", inputMode: numeric ? "decimal" : "text", autocomplete: "off", spellcheck: false });
}

// a slider for numbers; the text beside it is what counts
function sliderOf(control) {
  if (!["count", "number"].includes(control.kind) || control.choices.length) return null;
  const scale = control.stops.length ? among(control.stops) : control.logarithmic ? octaves(control) : evenly(control);
  const element = make("input", { type: "range", min: 0, max: scale.last + (control.infinite ? 1 : 0), step: 1 });
  element.setAttribute("aria-label", `${control.label}, slider`);
  element.dataset.for = control.name;
  return {
    element,
    value: () => (Number(element.value) > scale.last ? "inf" : scale.at(Number(element.value))),
    show(text) {
      element.value = text === "inf" ? scale.last + 1 : scale.place(Number(text));
      element.setAttribute("aria-valuetext", text);
    },
  };
}

function among(stops) {
  return {
    last: stops.length - 1,
    at: (place) => String(stops[place]),
    place: (value) => stops.reduce((best, stop, i) => (Math.abs(Math.log(stop / value)) <= Math.abs(Math.log(stops[best] / value)) ? i : best), 0),
  };
}

// each value once, so that every step of the slider is one
function octaves({ low, high }) {
  const steps = Math.round(STEPS_PER_OCTAVE * Math.log2(high / low));
  const values = Array.from({ length: steps }, (_, place) => Math.round(low * 2 ** (place / STEPS_PER_OCTAVE)));
  return among([...new Set([...values.filter((value) => value < high), high])]);
}

function evenly({ kind, low, high }) {
  const step = kind === "count" ? Math.max(1, Math.round((high - low) / STEPS)) : (high - low) / STEPS;
  return {
    last: Math.round((high - low) / step),
    at: (place) => String(Number((low + place * step).toPrecision(6))),
    place: (value) => Math.round((value - low) / step),
  };
}
