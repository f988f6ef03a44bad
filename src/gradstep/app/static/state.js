// The state of the page, and its form in the address: what differs from the defaults, in names one can read.

export const LETTERS = ["A", "B", "C", "D"];

/** What multiplies a penalty. */
export const UNITS = { per_d: "d", per_n: "n", per_width: "N" };

export const copy = (value) => structuredClone(value);
export const keyOf = (value) => JSON.stringify(value);

/** Text of one setting's fields; a field that holds several values is written as the command line writes it. */
const FIELDS = {
  activation: text("activation"),
  teacher: text("teacher"),
  d: { get: (p) => String(p.d), set: (p, v) => (p.d = v === "inf" ? "inf" : Number(v)) },
  width: ratio("width"),
  n: ratio("n"),
  n_step: {
    get: (p) => (typeof p.n_step === "string" ? p.n_step : String(p.n_step.per_d)),
    set: (p, v) => (p.n_step = v === "n" || v === "inf" ? v : { per_d: Number(v) }),
  },
  c: { get: (p) => String(p.eta.coefficient), set: (p, v) => (p.eta.coefficient = Number(v)) },
  alpha: { get: (p) => String(p.eta.exponent), set: (p, v) => (p.eta.exponent = Number(v)) },
  of: { get: (p) => p.eta.of, set: (p, v) => (p.eta.of = v === "n" ? "n" : "width") },
  ridge: {
    get: (p) => Object.entries(p.ridge).map(([unit, value]) => value + UNITS[unit])[0],
    set: (p, v) => {
      const unit = Object.keys(UNITS).find((name) => UNITS[name] === v.slice(-1)) ?? "per_d";
      p.ridge = { [unit]: Number(v.replace(/[dnN]$/, "")) };
    },
  },
  noise: { get: (p) => String(p.noise), set: (p, v) => (p.noise = Number(v)) },
  readout: { get: (p) => readoutText(p.readout), set: (p, v) => (p.readout = readoutValue(v)) },
  initial_weights: text("initial_weights"),
  inputs: { get: (p) => inputsText(p.inputs), set: (p, v) => (p.inputs = inputsValue(v)) },
  damping: { get: (p) => String(p.damping), set: (p, v) => (p.damping = v === "inf" ? "inf" : Number(v)) },
  steps: { get: (p) => String(p.training.steps), set: (p, v) => (p.training.steps = Number(v)) },
  samples: { get: (p) => (p.training.fresh ? "fresh" : "reused"), set: (p, v) => (p.training.fresh = v !== "reused") },
  optimiser: { get: (p) => p.training.optimiser, set: (p, v) => (p.training.optimiser = v) },
};

/** Rules of training in words, by their names. */
export const OPTIMISERS = {
  gradient: "gradient descent", damped: "damped gradient descent", sign: "sign descent", adam: "Adam", spectral: "spectral descent (Muon)",
};

/** Fields whose values in an address are some words. */
const CHOICES = { of: ["width", "n"], samples: ["fresh", "reused"], optimiser: Object.keys(OPTIMISERS) };

/** Whether the network is trained otherwise than by the one step that theory predicts. */
export const beyondTheory = ({ training }) => training.steps !== 1 || training.optimiser !== "gradient";

/** What theory is about: a setting without its training. */
export const theoryOf = (problem) => ({ ...problem, training: null });

function text(name) {
  return { get: (p) => p[name], set: (p, v) => (p[name] = v) };
}

function ratio(name) {
  return { get: (p) => String(p[name].per_d), set: (p, v) => (p[name] = { per_d: Number(v) }) };
}

/** A readout's law as text: a name, or VALUE:WEIGHT pairs. */
export function readoutText(readout) {
  if (typeof readout === "string") return readout;
  return Object.entries(readout).map(([value, weight]) => `${value}:${weight}`).join(",");
}

/** Which kind of spectrum the inputs have, of those that have a slider. */
export function kindOf(inputs) {
  if (!inputs) return "isotropic";
  return ["exponent", "strength"].find((name) => typeof inputs === "object" && name in inputs) ?? "other";
}

/** A law of the inputs as text: what its slider says and where the teacher lies, or as the command line writes it. */
export function inputsText(inputs) {
  const kind = kindOf(inputs);
  if (kind === "isotropic") return kind;
  if (kind === "other") return typeof inputs === "string" ? inputs : JSON.stringify(inputs);
  return `${kind}:${inputs[kind]}:${inputs.teacher}`;
}

/** The same in few words. */
export function lawLabel(inputs) {
  const kind = kindOf(inputs);
  return { isotropic: "isotropic", exponent: `exponent ${inputs?.exponent}`, strength: `one direction θ ${inputs?.strength}` }[kind] ?? "other inputs";
}

function inputsValue(written) {
  if (written === "isotropic" || written === "") return null;
  const [kind, value, teacher] = written.split(":");
  if (["exponent", "strength"].includes(kind)) return { [kind]: Number(value), teacher: teacher ?? "random" };
  try {
    return JSON.parse(written);
  } catch {
    return written;
  }
}

export function readoutValue(written) {
  if (!written.includes(":")) return written;
  return Object.fromEntries(
    written.split(",").map((pair) => {
      const [value, weight] = pair.split(":").map((part) => part.trim());
      return [value, weight === "" || weight === undefined ? null : Number(weight)];
    }),
  );
}

/** The fields in which settings differ, for their labels. */
export function differences(problems) {
  return Object.keys(FIELDS).filter((name) => new Set(problems.map((p) => FIELDS[name].get(p))).size > 1);
}

export const fieldText = (problem, name) => FIELDS[name].get(problem);

/** How many networks are drawn, and of which dimension in the limit: the names in an address, and what is allowed. */
export const DRAWING = {
  seeds: { name: "networks", usual: 8, least: 2, most: 100 },
  places: { name: "places", usual: 8, least: 2, most: 40 },
  d: { name: "dimension", usual: 200, least: 2, most: 5000 },
};

/** What is drawn unless something else is said: as much as there are points of, if there are any. */
function usualDrawing(points) {
  const drawn = points?.places.filter((place) => place.test_error) ?? [];
  if (drawn.length) return { seeds: Math.max(...drawn.map(({ seeds }) => seeds)), places: drawn.length, d: points.d };
  return Object.fromEntries(Object.entries(DRAWING).map(([part, { usual }]) => [part, usual]));
}

/** Whether a text is a number that a field of the drawing allows. */
export function isDrawable(part, text) {
  const { least, most } = DRAWING[part];
  return /^\d{1,4}$/.test(text) && Number(text) >= least && Number(text) <= most;
}

export function initial(facts) {
  return {
    axis: { name: "n", ...span(facts, "n") },
    slots: [{ problem: copy(facts.default), label: "" }],
    active: 0,
    preset: "",
    noise: "neither",
    matrix: "features",
    drawing: usualDrawing(null),
  };
}

export function span(facts, name) {
  const { from, to, scale } = facts.axes[name];
  return { from, to, scale };
}

/** What is measured at a place, in the order in which an address has it. */
const MEASURED = ["test_error", "train_error", "noiseless_train_error"];

/** Simulated points as text: the dimension, then for each place its x, networks, and means with standard errors. */
function pointsText({ d, x, places }) {
  const short = (value) => String(Number(Number(value ?? 0).toPrecision(4))).replace("e+", "e");
  const rows = places.flatMap((place, k) => (place.test_error
    ? [[x[k], place.seeds, ...MEASURED.flatMap((name) => [place[name].mean, place[name].standard_error])].map(short).join("*")] : []));
  return [d, ...rows].join("_");
}

function pointsValue(text) {
  const [d, ...rows] = text.split("_").map((row) => row.split("*").map((part) => (part === "" ? NaN : Number(part))));
  if (d.length !== 1 || !rows.length || rows.length > 40 || [d, ...rows].flat().some((v) => !Number.isFinite(v))) return null;
  if (rows.some((row) => row.length !== 2 + 2 * MEASURED.length)) return null;
  if (d[0] < 2 || rows.some(([x, seeds, ...values]) => x < 0 || seeds < 1 || values.some((v, k) => k % 2 && v < 0))) return null;
  const places = rows.map(([, seeds, ...values]) => ({
    seeds, ...Object.fromEntries(MEASURED.map((name, k) => [name, { mean: values[2 * k], standard_error: values[2 * k + 1] }])),
  }));
  return { d: d[0], x: rows.map(([x]) => x), places };
}

/** Points of the setting before as text: the axis along which they were drawn comes first. */
function beforeText(points) {
  return `${points.axis}.${pointsText(points)}`;
}

function beforeValue(text, axes) {
  const end = text.indexOf(".");
  const [axis, points] = [text.slice(0, Math.max(end, 0)), pointsValue(text.slice(end + 1))];
  return Object.hasOwn(axes, axis) && points ? { ...points, axis } : null;
}

/**
 * The state as the fragment of an address.
 *
 * @param pointsOf the simulated points of a setting, by its place, with the axis along which they were drawn, and whether
 *   they are those of the setting before, `old`; null if there are none
 */
export function encode(state, facts, pointsOf = () => null) {
  const out = new URLSearchParams();
  if (state.preset) out.set("figure", state.preset);
  out.set("axis", state.axis.name);
  const usual = span(facts, state.axis.name);
  for (const part of ["from", "to", "scale"]) {
    if (state.axis[part] !== usual[part]) out.set(part, state.axis[part]);
  }
  if (state.noise === "both") out.set("noise", "both");
  if (state.matrix === "weights") out.set("spectrum", "weights");
  if (state.active) out.set("active", LETTERS[state.active]);
  const drawn = state.slots.map((_, k) => pointsOf(k));
  const expected = usualDrawing(drawn.find(Boolean));
  for (const [part, { name }] of Object.entries(DRAWING)) {
    const shown = part !== "d" || state.slots.some(({ problem }) => problem.d === "inf");
    if (shown && state.drawing[part] !== expected[part]) out.set(name, state.drawing[part]);
  }
  state.slots.forEach(({ problem, label }, k) => {
    const letter = LETTERS[k];
    if (k || state.slots.length > 1) out.set(letter, label);
    for (const [name, field] of Object.entries(FIELDS)) {
      const written = field.get(problem);
      if (written !== field.get(facts.default)) out.set(`${letter}.${name}`, written);
    }
    const points = drawn[k];
    if (points) out.set(`${letter}.${points.old ? "before" : "points"}`, (points.old ? beforeText : pointsText)(points));
  });
  return out.toString();
}

/** Whether an address may say this of a field; what else is wrong with a value the server says. */
const isReadable = (field, written) => Object.hasOwn(FIELDS, field) && (CHOICES[field]?.includes(written) ?? true);

const isNumber = (text) => text.trim() !== "" && Number.isFinite(Number(text));

/** The state in the fragment of an address; what cannot be read is left at its default. */
export function decode(fragment, facts) {
  const given = new URLSearchParams(fragment);
  const state = initial(facts);
  const name = given.get("axis");
  if (Object.hasOwn(facts.axes, name)) {
    state.axis = { name, ...span(facts, name) };
    for (const end of ["from", "to"]) {
      if (given.has(end) && isNumber(given.get(end))) state.axis[end] = Number(given.get(end));
    }
    if (["log", "linear"].includes(given.get("scale"))) state.axis.scale = given.get("scale");
  }
  const has = (letter) => [...given.keys()].some((key) => key === letter || key.startsWith(`${letter}.`));
  state.slots = LETTERS.filter((letter, k) => k === 0 || has(letter)).map((letter) => {
    const problem = copy(facts.default);
    for (const [field, { set }] of Object.entries(FIELDS)) {
      const written = given.get(`${letter}.${field}`);
      if (written !== null && isReadable(field, written)) set(problem, written);
    }
    const [points, before] = ["points", "before"].map((name) => given.get(`${letter}.${name}`) ?? "");
    return { problem, label: given.get(letter) ?? "", points: pointsValue(points), before: beforeValue(before, facts.axes) };
  });
  state.drawing = usualDrawing(state.slots.map(({ points, before }) => points ?? before).find(Boolean));
  for (const [part, { name }] of Object.entries(DRAWING)) {
    if (isDrawable(part, given.get(name) ?? "")) state.drawing[part] = Number(given.get(name));
  }
  state.active = Math.min(Math.max(0, LETTERS.indexOf(given.get("active"))), state.slots.length - 1);
  state.noise = given.get("noise") === "both" ? "both" : "neither";
  state.matrix = given.get("spectrum") === "weights" ? "weights" : "features";
  state.preset = facts.presets.some((p) => p.name === given.get("figure")) ? given.get("figure") : "";
  return state;
}

/** The parts of an address that say nothing to this page. */
export function unread(fragment, facts) {
  const readable = {
    figure: (value) => !value || facts.presets.some((p) => p.name === value),
    axis: (value) => Object.hasOwn(facts.axes, value),
    from: isNumber,
    to: isNumber,
    scale: (value) => ["log", "linear"].includes(value),
    active: (value) => LETTERS.includes(value),
    noise: (value) => ["neither", "both"].includes(value),
    spectrum: (value) => ["features", "weights"].includes(value),
    ...Object.fromEntries(Object.entries(DRAWING).map(([part, { name }]) => [name, (value) => isDrawable(part, value)])),
  };
  const given = new URLSearchParams(fragment);
  const known = ([key, value]) => {
    const [letter, field, ...more] = key.split(".");
    if (LETTERS.includes(letter) && field === "points") return pointsValue(value) !== null;
    if (LETTERS.includes(letter) && field === "before") return beforeValue(value, facts.axes) !== null;
    if (LETTERS.includes(letter)) return !more.length && (field === undefined || isReadable(field, value));
    if (["from", "to", "scale"].includes(key) && !given.has("axis")) return false;
    return Object.hasOwn(readable, key) && readable[key](value);
  };
  return [...given].filter((part) => !known(part)).map((part) => part.join("="));
}
