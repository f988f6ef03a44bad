// Fields and sliders of one setting.

import { OPTIMISERS, UNITS, beyondTheory, kindOf, readoutText, readoutValue } from "./state.js";

const STEPS = 200;

/** A number as a person would write it. */
export function written(value, digits = 3) {
  if (value === null || value === undefined || value === "") return "–";
  const number = Number(value);
  if (value === "inf" || number === Infinity) return "∞";
  if (!Number.isFinite(number)) return "–";
  if (number !== 0 && (Math.abs(number) < 1e-3 || Math.abs(number) >= 1e5)) {
    return number.toExponential(digits - 1).replace(/\.?0*e/, "e").replace("e+", "e");
  }
  return String(Number(number.toPrecision(digits)));
}

const log = (low, high, zero = false) => ({
  at: (t) => (zero && t === 0 ? 0 : Number((low * (high / low) ** (t / STEPS)).toPrecision(3))),
  of: (v) => (v <= 0 ? 0 : Math.round((STEPS * Math.log(v / low)) / Math.log(high / low))),
});
const linear = (low, high) => ({
  at: (t) => Number((low + ((high - low) * t) / STEPS).toFixed(4)),
  of: (v) => Math.round((STEPS * (v - low)) / (high - low)),
});
const whole = (scale) => ({ at: (t) => Math.round(scale.at(t)), of: scale.of });

/** From a number to another, and at the right end infinity. */
const endless = (scale) => ({
  at: (t) => (t >= STEPS ? Infinity : scale.at(t)),
  of: (v) => (v === Infinity ? STEPS : Math.min(STEPS - 1, scale.of(v))),
});

const unit = (p) => Object.keys(p.ridge)[0];

/** Sliders: what they are called, where they go, and what they change. */
const SLIDERS = {
  n: slider("Samples of the fit", "n/d", log(0.1, 30), (p) => p.n.per_d, (p, v) => (p.n = { per_d: v })),
  width: slider("Neurons", "N/d", log(0.1, 30), (p) => p.width.per_d, (p, v) => (p.width = { per_d: v })),
  n_step: slider(
    "Samples of the step", "n₀/d", log(0.1, 100),
    (p) => (p.n_step === "n" ? p.n.per_d : p.n_step === "inf" ? Infinity : p.n_step.per_d),
    (p, v) => (p.n_step = v === Infinity ? "inf" : { per_d: v }),
  ),
  c: slider("Step scale", "c", log(0.01, 30, true), (p) => p.eta.coefficient, (p, v) => (p.eta.coefficient = v)),
  alpha: slider("Step exponent", "α", linear(0, 0.5), (p) => p.eta.exponent, (p, v) => (p.eta.exponent = v)),
  ridge: slider("Ridge penalty", "Λ", log(1e-6, 1e3), (p) => p.ridge[unit(p)], (p, v) => (p.ridge = { [unit(p)]: v })),
  noise: slider("Label noise", "sd", linear(0, 2), (p) => p.noise, (p, v) => (p.noise = v)),
  damping: slider(
    "Damping", "δ", endless(log(0.01, 100)),
    (p) => (p.damping === "inf" ? Infinity : p.damping), (p, v) => (p.damping = v === Infinity ? "inf" : v),
  ),
  exponent: slider("Exponent", "γ", linear(0, 1.5), (p) => p.inputs?.exponent ?? NaN, (p, v) => (p.inputs = { ...p.inputs, exponent: v })),
  strength: slider("Its extra variance", "θ", log(0.1, 1000), (p) => p.inputs?.strength ?? NaN, (p, v) => (p.inputs = { ...p.inputs, strength: v })),
  d: slider("Dimension", "d", whole(log(20, 5000)), (p) => (p.d === "inf" ? Infinity : p.d), (p, v) => (p.d = v === Infinity ? "inf" : v)),
};

/** Sliders whose value may be infinite. */
const ENDLESS = ["damping", "n_step", "d"];

/** A number as people write it, also a fraction such as 1/2; NaN if it is none. */
function numberOf(text, endless) {
  if (endless && /^(∞|inf|infinity)$/i.test(text)) return Infinity;
  const [above, below = 1, ...more] = text.split("/").map((part) => (part.trim() ? Number(part) : NaN));
  return Number.isFinite(above / below) && !more.length ? above / below : NaN;
}

function slider(label, symbol, scale, get, set) {
  return { label, symbol, scale, get, set };
}

/** What the inputs are at first when a kind of spectrum is chosen. */
const LAWS = { isotropic: null, exponent: { exponent: 0.5, teacher: "even" }, strength: { strength: 20, teacher: "last" } };

const OPTIONS = {
  law: [["isotropic", "isotropic, all alike"], ["exponent", "power law of the rank"], ["strength", "one large direction"], ["other", "as given"]],
  lies: [["random", "in a random direction"], ["even", "in all directions alike"], ["leading", "where inputs vary most"], ["last", "where they vary least"]],
  n_step_kind: [["own", "as the slider says"], ["n", "n₀ = n, as the fit"], ["inf", "∞: population"]],
  ridge_unit: [["per_d", "Λ = value × d"], ["per_n", "Λ = value × n  (Ba, Moniri)"], ["per_width", "Λ = value × N  (Cui)"]],
  of: [["width", "η = c N^α"], ["n", "η = c n^α  (Moniri)"]],
  readout: [["gaussian", "Gaussian"], ["constant", "constant, all 1"], ["-1:0.5,1:0.5", "signs ±1"], ["readout-values", "values with weights …"]],
  initial_weights: [["gaussian", "Gaussian rows"], ["sphere", "on the sphere"]],
  optimiser: [["gradient", "gradient"], ["damped", "damped gradient"], ["sign", "sign of the gradient"], ["adam", "Adam"], ["spectral", "spectral (Muon)"]],
  samples: [["fresh", "fresh in every step"], ["reused", "the same in every step"]],
};

/** A training in words. */
export function trainingText({ steps, fresh, optimiser }) {
  const rule = OPTIMISERS[optimiser];
  if (steps === 1) return `one step of ${rule}`;
  return `${steps} steps of ${rule} (${fresh ? "fresh samples in each" : "the same samples in all"})`;
}

/** How many networks a simulation draws, and at how many places of the axis. */
const COUNTS = { seeds: "networks", places: "places", "axis.count": "places" };

/** Which control a field of the server belongs to. */
export function controlOf(field) {
  if (!field) return null;
  const name = field.split(" ")[0];
  const known = { eta: "c", "eta.coefficient": "c", "eta.exponent": "alpha", "eta.of": "c", "bounds": "ridge" };
  if (Object.hasOwn(COUNTS, name)) return "simulate";
  if (name.startsWith("axis")) return "axis";
  if (name.startsWith("inputs")) return "inputs";
  const id = known[name] ?? name;
  return document.getElementById(`error-${id}`) ? id : null;
}

/** What the page calls a field of the server. */
export function nameOf(field) {
  const id = controlOf(field);
  if (id === "simulate") return COUNTS[field];
  if (id === "axis") return "Range of the axis";
  return SLIDERS[id]?.label ?? (id ? id[0].toUpperCase() + id.slice(1).replace("_", " ") : field);
}

/** What the server allows, in the words of the page: fields have forms there that nobody types here. */
const FORMS = [
  [/eigenvalues of at most d\/8: features bend along directions with more/g, "directions that hold less than an eighth of all variance each"],
  [/'isotropic', 'power_law\(0\.5\)', 'spiked.*/, "isotropic, power_law(0.5) or spiked([9, 9], d=300)"],
  [/, as \{per_d\}, \{per_n\} or \{per_width\}/g, ""],
  [/\{per_d: ([^}]*)\}/g, "$1"],
  [/'inf' for the proportional limit/g, "the proportional limit"],
  [/numeric values as keys, for instance .*|'gaussian', 'constant', a mapping.*/g, "values with weights, such as -1:0.5, 1:0.5"],
  [/\bwhose moments/, "its moments"],
  [/(there is theory): gradstep\..* for several/g, "$1"],
  [/a number >= 0, or \{coefficient, exponent, of\}/g, "a number >= 0"],
];
export const plainly = (text) => FORMS.reduce((words, [form, said]) => words.replace(form, said), text).replaceAll(">=", "≥").replaceAll("->", "→");

function sliderRow(name) {
  const { label, symbol } = SLIDERS[name];
  return `<div class="control" data-name="${name}">
    <label for="${name}">${label} <var>${symbol}</var></label>
    <input id="${name}-value" class="value" inputmode="decimal" aria-describedby="error-${name}">
    <div class="track"><input id="${name}" type="range" min="0" max="${STEPS}" step="1" aria-describedby="error-${name}">
      <span class="best" id="best-${name}" hidden></span></div>
    <button type="button" class="hint" id="hint-${name}" hidden>Best</button>
    <p class="error" id="error-${name}" role="alert"></p>
  </div>`;
}

function selectRow(name, label, described = "") {
  const options = OPTIONS[name].map(([value, text]) => `<option value="${value}">${text}</option>`).join("");
  return `<div class="control choice"><label for="${name}">${label}</label><select id="${name}"${described}>${options}</select></div>`;
}

function formulaRow(name, label) {
  return `<div class="control formula"><label for="${name}">${label}</label>
    <input id="${name}" list="functions" spellcheck="false" autocapitalize="off" aria-describedby="error-${name} formulas">
    <p class="error" id="error-${name}" role="alert"></p></div>`;
}

function group(title, ...rows) {
  return `<fieldset><legend>${title}</legend>${rows.join("")}</fieldset>`;
}

/** Builds the form and reports changes. */
export class Controls {
  /** @param hold called with true when a slider is pressed, and with false when it is let go */
  constructor(form, facts, hold, changed) {
    this.form = form;
    this.hold = hold;
    this.changed = changed;
    form.innerHTML = [
      `<datalist id="functions">${facts.functions.map((f) => `<option value="${f}">`).join("")}</datalist>`,
      group("Task", formulaRow("teacher", "Teacher"), sliderRow("noise"),
        `<p class="help" id="formulas">A name such as <code>relu</code>, or a formula: <code>tanh(x) + 0.3*x**2</code>, <code>H2 + 0.5*H3</code>.</p>`),
      group("Inputs", selectRow("law", "Spectrum", ` aria-describedby="error-inputs"`), sliderRow("exponent"), sliderRow("strength"),
        selectRow("lies", "Teacher lies"),
        `<figure id="eigenvalues" hidden><svg viewBox="0 0 300 96" role="img" aria-label="Eigenvalues of the inputs"></svg>
          <figcaption class="caption"></figcaption></figure>
        <p class="error" id="error-inputs" role="alert"></p>`),
      group("Network", formulaRow("activation", "Activation"), sliderRow("width")),
      group("Gradient step", sliderRow("c"), sliderRow("alpha"), sliderRow("n_step"), selectRow("n_step_kind", "How many"), sliderRow("damping"),
        `<details class="training"><summary>Several steps, other optimisers</summary>
          <div class="control"><label for="steps">Steps</label>
            <input id="steps" class="value" type="number" min="1" max="20" aria-describedby="error-steps"><p class="error" id="error-steps" role="alert"></p></div>
          ${selectRow("optimiser", "Optimiser")}${selectRow("samples", "Samples")}
          <p class="caption">Theory covers one gradient step. The network after any other training is drawn and measured.</p></details>`),
      group("Ridge fit", sliderRow("n"), sliderRow("ridge")),
      group("Size", sliderRow("d"),
        `<div class="control check"><label><input type="checkbox" id="limit"> proportional limit, d → ∞</label></div>`),
      `<details class="more"><summary>Conventions and initial law</summary><fieldset>
        ${selectRow("readout", "Readout at the start", ` aria-describedby="error-readout"`)}
        <div class="control formula" id="readout-values-row"><label for="readout-values">Values and weights</label>
          <input id="readout-values" spellcheck="false" aria-describedby="error-readout"></div>
        <p class="error" id="error-readout" role="alert"></p>
        ${selectRow("initial_weights", "First layer at the start", ` aria-describedby="error-initial_weights"`)}
        <p class="error" id="error-initial_weights" role="alert"></p>
        ${selectRow("ridge_unit", "Unit of the penalty")}
        ${selectRow("of", "Step size")}</fieldset></details>`,
      `<div class="finish"><div class="row"><button type="button" id="best-both">Set best ridge and step</button>
        <button type="button" class="quiet" id="reset">Reset</button></div>
        <p class="error" id="error-best" role="alert"></p></div>`,
    ].join("");
    this.#listen();
  }

  byId(id) {
    return this.form.querySelector(`#${id}`);
  }

  /** Show how formulas are written while one is; fields do not move under a pointer that is pressed on them. */
  #help() {
    let pressed = false;
    const show = () => {
      if (pressed) return;
      const formula = document.activeElement?.matches("[list=functions]");
      if (formula) document.activeElement.closest(".control").after(this.byId("formulas"));
      this.byId("formulas").classList.toggle("shown", Boolean(formula));
    };
    const press = (down) => () => {
      pressed = down;
      if (!down) setTimeout(show);
    };
    document.addEventListener("pointerdown", press(true), true);
    for (const end of ["pointerup", "pointercancel"]) document.addEventListener(end, press(false), true);
    this.form.addEventListener("focusin", show);
    this.form.addEventListener("focusout", () => setTimeout(show));
  }

  #listen() {
    this.#help();
    let dragged = false;
    this.form.addEventListener("pointerdown", ({ target }) => target.type === "range" && this.hold((dragged = true)));
    for (const end of ["pointerup", "pointercancel"]) {
      document.addEventListener(end, () => dragged && this.hold((dragged = false)), true);
    }
    const change = (how, id) => {
      const before = this.problem;
      this.problem = structuredClone(before);
      how(this.problem);
      this.show(this.problem, id);
      this.changed(this.problem);
    };
    for (const [name, { scale, set }] of Object.entries(SLIDERS)) {
      this.byId(name).addEventListener("input", (event) => change((p) => set(p, scale.at(Number(event.target.value))), name));
      const field = this.byId(`${name}-value`);
      field.addEventListener("change", () => {
        const text = field.value.trim();
        const value = numberOf(text, ENDLESS.includes(name));
        if (Number.isNaN(value)) this.fail(name, text ? `“${text}” is not a number` : "a number is missing");
        else change((p) => set(p, value), null);
      });
      this.byId(`hint-${name}`).addEventListener("click", (event) =>
        change((p) => set(p, Number(event.currentTarget.dataset.value)), null));
    }
    for (const name of ["activation", "teacher"]) {
      let timer = null;
      const take = () => {
        clearTimeout(timer);
        if (this.byId(name).value.trim() !== this.problem[name]) change((p) => (p[name] = this.byId(name).value.trim()), name);
      };
      // A formula is whole when the typing stops.
      this.byId(name).addEventListener("input", () => {
        clearTimeout(timer);
        timer = setTimeout(take, 350);
      });
      // A browser calls it no change if the text is again what it was when the field was entered.
      for (const end of ["change", "blur"]) this.byId(name).addEventListener(end, take);
    }
    this.byId("n_step_kind").addEventListener("change", ({ target }) =>
      change((p) => (p.n_step = target.value === "own" ? { per_d: p.n.per_d } : target.value)));
    this.byId("ridge_unit").addEventListener("change", ({ target }) =>
      change((p) => (p.ridge = { [target.value]: Number((Object.values(p.ridge)[0] * inD(p, unit(p)) / inD(p, target.value)).toPrecision(4)) })));
    this.byId("of").addEventListener("change", ({ target }) => change((p) => (p.eta.of = target.value)));
    this.byId("initial_weights").addEventListener("change", ({ target }) => change((p) => (p.initial_weights = target.value)));
    this.byId("readout").addEventListener("change", ({ target }) =>
      change((p) => (p.readout = readoutValue(target.value === "readout-values" ? "0.5:0.5,2:0.5" : target.value))));
    this.byId("readout-values").addEventListener("change", ({ target }) => change((p) => (p.readout = readoutValue(target.value))));
    this.byId("law").addEventListener("change", ({ target }) => change((p) => (p.inputs = structuredClone(LAWS[target.value] ?? null))));
    this.byId("lies").addEventListener("change", ({ target }) => change((p) => (p.inputs = { ...p.inputs, teacher: target.value })));
    this.byId("steps").addEventListener("change", ({ target }) => {
      const steps = Number(target.value);
      if (Number.isInteger(steps) && steps >= 1 && steps <= 20) change((p) => (p.training.steps = steps));
      else this.fail("steps", "a whole number from 1 to 20");
    });
    this.byId("optimiser").addEventListener("change", ({ target }) => change((p) => (p.training.optimiser = target.value)));
    this.byId("samples").addEventListener("change", ({ target }) => change((p) => (p.training.fresh = target.value === "fresh")));
    this.byId("limit").addEventListener("change", ({ target }) => change((p) => (p.d = target.checked ? "inf" : 256)));
    this.form.addEventListener("submit", (event) => event.preventDefault());
  }

  /** Show a setting; the field that is being typed in and the slider that is being dragged are left alone. */
  show(problem, typing = null) {
    this.problem = problem;
    for (const [name, { label, symbol, scale, get }] of Object.entries(SLIDERS)) {
      const value = get(problem);
      const unitOf = name === "ridge" ? `/${UNITS[unit(problem)]}` : "";
      this.form.querySelector(`label[for="${name}"] var`).textContent = symbol + unitOf;
      const range = this.byId(name);
      const fixed = (!Number.isFinite(value) && name !== "damping") || (name === "n_step" && problem.n_step === "n");
      range.disabled = this.byId(`${name}-value`).disabled = fixed;
      if ((Number.isFinite(value) || name === "damping") && typing !== name) range.value = scale.of(value);
      this.byId(`${name}-value`).value = written(value, name === "d" ? 6 : 4);
      range.setAttribute("aria-valuetext", `${written(value)}`);
      for (const field of [range, this.byId(`${name}-value`)]) field.setAttribute("aria-label", `${label} ${symbol}${unitOf}`);
      range.style.setProperty("--fill", `${(100 * range.value) / STEPS}%`);
    }
    for (const name of ["activation", "teacher"]) {
      if (typing !== name) this.byId(name).value = problem[name];
    }
    this.byId("n_step_kind").value = typeof problem.n_step === "string" ? problem.n_step : "own";
    this.byId("ridge_unit").value = unit(problem);
    this.byId("of").value = problem.eta.of;
    this.byId("initial_weights").value = problem.initial_weights;
    const readout = readoutText(problem.readout);
    const listed = OPTIONS.readout.some(([value]) => value === readout);
    this.byId("readout").value = listed ? readout : "readout-values";
    this.byId("readout-values-row").hidden = listed;
    this.byId("readout-values").value = readout;
    this.#showInputs(problem);
    this.byId("limit").checked = problem.d === "inf";
    const { steps, fresh, optimiser } = problem.training;
    this.byId("steps").value = steps;
    this.byId("optimiser").value = optimiser;
    this.byId("samples").value = fresh ? "fresh" : "reused";
    this.byId("samples").disabled = steps === 1;
    if (beyondTheory(problem)) this.form.querySelector(".training").open = true;
  }

  /** The fields that the kind of spectrum has. */
  #showInputs(problem) {
    const kind = kindOf(problem.inputs);
    this.byId("law").value = kind;
    this.byId("law").querySelector("[value=other]").hidden = kind !== "other";
    for (const name of ["exponent", "strength"]) this.form.querySelector(`[data-name=${name}]`).hidden = kind !== name;
    this.byId("lies").closest(".control").hidden = !["exponent", "strength"].includes(kind);
    // A random direction has its part of every eigenvector: no share of its own on one of them is "all alike".
    this.byId("lies").querySelector("[value=even]").hidden = kind === "strength";
    if (problem.inputs?.teacher) this.byId("lies").value = problem.inputs.teacher;
    if (kind === "isotropic") this.drawLaw(null);
  }

  /**
   * Draw the eigenvalues against their rank, both logarithmic; the width of a class is its share of the directions.
   *
   * @param law as the server resolved it; null if there is nothing to draw
   */
  drawLaw(law, d) {
    const figure = this.byId("eigenvalues");
    figure.hidden = !law;
    if (!law) return;
    const [left, right, top, bottom] = [4, 296, 8, 92];
    const least = d === "inf" ? 1 / 300 : 0.5 / d; // half a rank, so that the first direction has a width
    const ends = law.share.reduce((all, share) => [...all, all.at(-1) + share], [0]);
    const across = (rank) => left + (right - left) * (1 - Math.log(Math.max(rank, least)) / Math.log(least));
    const [high, low] = [Math.max(...law.eigenvalues), Math.max(Math.min(...law.eigenvalues), 1e-12)];
    const span = Math.max(Math.log(high / low), Math.log(2));
    const up = (value) => top + ((bottom - 14 - top) * Math.log(high / Math.max(value, low))) / span;
    const parts = law.teacher.map((part, k) => part / law.share[k]); // of one direction
    const most = Math.max(...parts);
    figure.querySelector("svg").innerHTML = law.eigenvalues.map((value, k) => {
      const x = k ? across(ends[k]) : left;
      const box = { x, y: up(value), width: Math.max(across(ends[k + 1]) - x, 1.5), height: bottom - up(value) };
      const at = Object.entries(box).map(([name, size]) => `${name}="${size.toFixed(1)}"`).join(" ");
      return `<rect ${at} style="--part:${(parts[k] / most).toFixed(3)}"></rect>`;
    }).join("");
    const words = `Eigenvalues by rank, from ${written(high)} to ${written(low)}, both axes logarithmic; darker where a direction has more of the ` +
      `teacher. Effective dimension ${written(law.effective_dimension, 2)}\u00a0d.`;
    figure.querySelector("svg").setAttribute("aria-label", words);
    figure.querySelector("figcaption").textContent = words;
  }

  /** Mark the best value of a slider; null takes the mark away. */
  mark(name, value, text = "") {
    const mark = this.byId(`best-${name}`);
    const hint = this.byId(`hint-${name}`);
    mark.hidden = hint.hidden = value === null;
    if (value === null) return;
    const share = Math.min(1, Math.max(0, SLIDERS[name].scale.of(value) / STEPS));
    mark.style.setProperty("--at", share);
    hint.dataset.value = Number(value.toPrecision(4));
    hint.textContent = text;
  }

  /** Say what is wrong at the fields that a message describes. */
  fail(name, message) {
    const place = document.getElementById(`error-${name}`);
    if (!place) return;
    place.textContent = message;
    for (const field of document.querySelectorAll(`[aria-describedby~="error-${name}"]`)) field.setAttribute("aria-invalid", "true");
    place.closest("details")?.setAttribute("open", "");
  }

  clear() {
    for (const place of document.querySelectorAll("p.error")) if (place.textContent) place.textContent = "";
    for (const field of document.querySelectorAll("[aria-invalid]")) field.removeAttribute("aria-invalid");
  }
}

/** How many d a unit of the penalty is. */
function inD(problem, name) {
  return name === "per_n" ? problem.n.per_d : name === "per_width" ? problem.width.per_d : 1;
}

