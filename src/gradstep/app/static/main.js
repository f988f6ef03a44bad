// The page: state in, figures out.

import { Controls, controlOf, nameOf, plainly, trainingText, written } from "./controls.js";
import * as downloads from "./downloads.js";
import * as figures from "./figures.js";
import * as model from "./model.js";
import { Latest, Passing, Slow, follow, get, post } from "./requests.js";
import { DRAWING, LETTERS, UNITS, beyondTheory, copy, decode, differences, encode, fieldText, initial, isDrawable, keyOf, lawLabel, span, theoryOf, unread } from "./state.js";

const byId = (id) => document.getElementById(id);
const element = (tag, properties) => Object.assign(document.createElement(tag), properties);
const POINTS = 60;
/** Each damping has a law of its own rows, which takes a fifth of a second. So does each place of a slow setting. */
const FEWER = 24;
/** Milliseconds that all points may take; a setting that takes longer has fewer of them. */
const LONG = 6000;
const MOST = 4;
/** The fields that say what is drawn. */
const DRAWN = { seeds: "seeds", places: "places", d: "simulated-d" };
/** Milliseconds of rest, with all curves drawn, before what takes seconds is asked for. */
const REST = 350;
/** After so many milliseconds what is shown is said to be of the setting before. */
const SLOW = 1000;

const facts = await get("start").catch((error) => {
  say("regime-title", "No answer");
  say("regime-text", error.message);
  throw error;
});
let state = null;
state = read(location.hash.slice(1));
let colours = figures.palette();

/** Words of the figures with their formulas typeset, as an element or as plain text; others, of an address, as they are. */
function typeset(text, tag = "span") {
  const found = facts.typeset[text];
  return element(tag, found ? { innerHTML: found.html } : { textContent: text });
}
const plainText = (text) => facts.typeset[text]?.plain ?? text;

/** The card in which a preset shows most. */
function cardOf({ shows }) {
  return shows === "weights" ? "spectrum" : shows;
}

function stateOf(preset) {
  return {
    axis: { ...preset.axis },
    slots: preset.shown.map((k) => ({ label: preset.settings[k].label, problem: copy(preset.settings[k].problem) })),
    active: cardOf(preset) === "spectrum" ? 0 : preset.shown.length - 1,
    preset: preset.name,
    noise: state?.noise ?? "neither",
    matrix: preset.shows === "weights" ? "weights" : "features",
    drawing: state?.drawing,
  };
}

/** The state in an address; a figure alone stands for its settings. */
function read(fragment) {
  const lost = unread(fragment, facts);
  if (lost.length) setTimeout(() => toast(`Not read in the address: ${lost.join(", ").slice(0, 200)}`));
  const found = decode(fragment, facts);
  const alone = found.preset && ![...new URLSearchParams(fragment).keys()].some((key) => key.includes("."));
  return alone ? { ...stateOf(facts.presets.find((p) => p.name === found.preset)), drawing: found.drawing } : found;
}

/** Answers by what they answer; the oldest go first. */
class Memory extends Map {
  keep(key, value) {
    this.delete(key);
    this.set(key, value);
    if (this.size > 200) this.delete(this.keys().next().value);
    return value;
  }
}
const known = { curves: new Memory(), learned: new Memory(), spectrum: new Memory(), best: new Memory(), points: new Memory(), unstepped: new Memory() };

const mine = () => state.slots[state.active];
const spectrumKey = (problem) => keyOf([theoryOf(problem), state.matrix]);
/** Whether the curve that was asked for last took long. */
let slow = false;
const pointCount = () => (state.axis.name === "damping" || slow ? FEWER : POINTS);
const axisRequest = () => ({ ...state.axis, count: pointCount() });
/** A curve does not depend on where the setting lies on it. */
const curveKey = (problem) => keyOf([theoryOf(problem), state.axis]);
const pointsKey = (problem) => {
  const elsewhere = copy(beyondTheory(problem) ? problem : theoryOf(problem));
  const { name } = state.axis;
  if (name === "eta") elsewhere.eta.coefficient = null;
  else if (name === "alpha") elsewhere.eta.exponent = null;
  else if (name === "ridge") elsewhere.ridge = Object.keys(problem.ridge);
  else elsewhere[name] = null;
  return keyOf([elsewhere, name]);
};
/** The network without a step is that of every step: the same key for all of them. */
const unsteppedKey = (problem, count) => keyOf([count, { ...theoryOf(problem), eta: null, damping: null, n_step: problem.n_step === "n" ? "n" : null }, state.axis]);

// --- words ---------------------------------------------------------------------------------------------------------

const NAMES = { n: "n/d", width: "N/d", n_step: "n₀/d", c: "c", alpha: "α", ridge: "ridge", noise: "noise", d: "d", damping: "δ", steps: "steps", samples: "samples" };

function labelOf(k) {
  const { label, problem } = state.slots[k];
  if (label) return label;
  const others = differences(state.slots.map((slot) => slot.problem));
  const parts = others.slice(0, 3).map((name) =>
    name === "inputs" ? lawLabel(problem.inputs) : `${NAMES[name] ?? ""} ${fieldText(problem, name)}`.trim());
  return parts.join(", ") || `${problem.activation} on ${problem.teacher}`;
}

function say(id, text) {
  text = text.replace(/(\d) %/g, "$1\u00a0%"); // a number and its unit are never on two lines
  // Screen readers repeat what is set again.
  if (byId(id).textContent !== text) byId(id).textContent = text;
}

let toastTimer = null;
function toast(text) {
  say("toast", text);
  byId("toast").classList.add("shown");
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => byId("toast").classList.remove("shown"), Math.max(2500, 60 * text.length));
}

const noisy = () => state.noise === "both";
/** What label noise adds to the error of every function. */
const added = ({ noise }) => (noisy() ? Number(noise) ** 2 : 0);

const quantities = () => ({
  test_error: ["Test error", noisy() ? "E (f̂ − y)², with label noise" : "E (f̂ − f*)², without label noise"],
  train_error: ["Training error", noisy() ? "mean square on the noisy labels of the fit" : "the same mean square on the samples of the fit"],
  alignment: ["Alignment", "cosine of the spike with the teacher's direction"],
  spike_strength: ["Spike", "operator norm of what the step adds along it"],
  bulk_variance: ["Bulk", "mean square of a weight row off the spike, 1 at first"],
  degrees_of_freedom: ["Degrees of freedom", "of the ridge fit; per d in the limit"],
});

/** What a misspelt name may have meant, as a question. */
const meant = ({ guess }) => (guess ? ` Did you mean ${guess}?` : "");

/** Which part of a field that holds several is meant: " weights" of the readout's values and weights. */
const partOf = ({ field }) => (field?.startsWith("readout ") ? ` ${field.slice("readout ".length)}s` : "");

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** An error in words, with the page's name for the field. */
const told = (error) => {
  const { field, allowed, reason, message } = error;
  return brief(field && allowed ? `${nameOf(field)}${partOf(error)}: ${reason || allowed}.` : sentence(message)) + meant(error);
};

// --- drawing -------------------------------------------------------------------------------------------------------

/**
 * Errors as they are shown: both with the label noise, or neither. Sizes are whole numbers, so that in a small dimension
 * several places that were asked for are one.
 */
function curveShown({ x, ...lists }, problem, unstepped) {
  const distinct = (values) => values?.filter((_, k) => x[k] !== x[k - 1]) ?? null;
  const plus = (values) => distinct(values)?.map((v) => (v === null ? null : v + added(problem))) ?? null;
  return {
    x: distinct(x), test_error: plus(lists.test_error), without_step: plus(unstepped),
    train_error: distinct(noisy() ? lists.train_error : lists.noiseless_train_error),
  };
}

function hereShown(here, problem) {
  const plus = Object.fromEntries(["test_error", "without_step", "kernel_bound", "best_linear"].map((name) =>
    [name, here[name] === null ? null : here[name] + added(problem)]));
  return { ...here, ...plus, train_error: noisy() ? here.train_error : here.noiseless_train_error };
}

function placeShown(place, problem) {
  if (!place.test_error) return place;
  const test = { ...place.test_error, mean: place.test_error.mean + added(problem) };
  return { ...place, test_error: test, train_error: noisy() ? place.train_error : place.noiseless_train_error };
}

/** The simulated points of a setting, or, grey, those of the setting before it. */
function pointsOf(slot) {
  const key = pointsKey(slot.problem);
  if (known.points.has(key)) slot.simulated = { key, axis: state.axis.name };
  if (slot.simulated?.axis !== state.axis.name) return null;
  const found = known.points.get(slot.simulated.key);
  return found ? { ...found, old: slot.simulated.key !== key, problem: slot.problem } : null;
}

/** The points that were simulated last, on whatever axis; `old` if they are not those of the setting and the axis. */
function lastPointsOf(slot) {
  pointsOf(slot); // finds those of the setting first
  const found = known.points.get(slot.simulated?.key);
  return found?.places.some((place) => place.test_error) ? { ...found, axis: slot.simulated.axis, old: slot.simulated.key !== pointsKey(slot.problem) } : null;
}

/** The settings whose curves are known, with their colours. */
function shownCurves() {
  const found = state.slots.map((slot, k) => ({ k, slot, ...known.curves.get(curveKey(slot.problem)) })).filter((c) => c.curve);
  const tints = figures.coloursOf(found.map((c) => c.here.regime.key), colours);
  return found.map(({ k, slot, curve, here, failure }, j) => {
    const { problem } = slot;
    const points = pointsOf(slot);
    const active = k === state.active;
    return {
      k, failure, problem, active, beyond: beyondTheory(problem), letter: LETTERS[k], label: labelOf(k), colour: tints[j], here: hereShown(here, problem),
      curve: curveShown(curve, problem, active ? unsteppedOf(problem, curve, here) : null),
      points: points && { ...points, places: points.places.map((place) => placeShown(place, problem)) },
    };
  });
}

/** The test error without a step along the axis; null if the setting has no step itself. */
function unsteppedOf(problem, { x }, { without_step: level }) {
  if (!problem.eta.coefficient) return null;
  if (["eta", "alpha", "n_step", "damping"].includes(state.axis.name)) return x.map(() => level);
  return known.unstepped.get(unsteppedKey(problem, x.length)) ?? null;
}

function guidesOf({ kernel_bound: kernel, best_linear: linear }) {
  if (kernel === null) return []; // known for isotropic inputs
  if (Math.abs(linear - kernel) < 1e-9 * Math.max(1, kernel)) {
    return [{ y: kernel, label: `kernel bound = best linear, ${written(kernel)}`, short: `kernel bound ${written(kernel)}`, dash: "dash" }];
  }
  return [[kernel, "kernel bound", "dash"], [linear, "best linear", "dot"]].map(([y, name, dash]) => {
    const label = `${name} ${written(y)}`;
    return { y, label, short: label, dash };
  });
}

function axisLabel() {
  const { name } = state.axis;
  const { label } = facts.axes[name];
  if (name !== "ridge") return label;
  return `${label} Λ/${UNITS[Object.keys(mine().problem.ridge)[0]]}`;
}

function bestOnAxis() {
  const over = { ridge: "ridge", eta: "eta" }[state.axis.name];
  const found = over && !beyondTheory(mine().problem) && known.best.get(keyOf([theoryOf(mine().problem), over]));
  if (!found || !(found.values[over] >= state.axis.from && found.values[over] <= state.axis.to)) return null;
  return { x: found.values[over], y: found.test_error + added(mine().problem) };
}

function errorsFigure(curves, ink = colours, onPaper = false) {
  const active = curves.find((c) => c.active) ?? curves[0];
  const shows = { curves, axis: state.axis, axisLabel: axisLabel(), yLabel: noisy() ? "error, with label noise" : "error", guides: guidesOf(active.here), best: bestOnAxis() };
  return figures.errors({ ...shows, width: onPaper ? 820 : byId("errors").clientWidth - 76, named: onPaper || curves.length === 1 }, ink);
}

/** What the marks mean: those that are there. */
function showKey(curves) {
  const marks = [
    ["solid", "test", true],
    ["dots", "training", true],
    ["faint", "theory of one gradient step", curves.some((c) => c.beyond)],
    ["dot", "this setting", curves.some((c) => c.active && !c.beyond && figures.onAxis(c.here?.x, state.axis))],
    ["star", "best on this axis", bestOnAxis()],
    ["points", "real network, ± standard error", curves.some((c) => c.points && !c.points.old)],
    ["points old", "of the setting before", curves.some((c) => c.points?.old)],
    ["grey", "no step", curves.length > 1 && curves.some((c) => c.curve.without_step)],
    // Among several curves there is no room at the lines themselves.
    ...(curves.length > 1 ? guidesOf((curves.find((c) => c.active) ?? curves[0]).here) : []).map((g) => [g.dash === "dash" ? "dash" : "fine", g.label, true]),
  ];
  const words = marks.filter(([, , there]) => there).map(([look, text]) => `<span><i class="${look}"></i>${text}</span>`).join("");
  if (byId("key").innerHTML !== words) byId("key").innerHTML = words;
}

/** Dim what the fields no longer say. */
function dim(on) {
  for (const id of ["errors", "learned", "numbers", "regime"]) byId(id).classList.toggle("stale", on);
  // The spectrum comes later than the curves, and says itself when it is there.
  if (on) byId("spectrum").classList.add("stale");
  else byId("errors").classList.remove("waiting");
}

/** Say that an answer takes its time, if it does; the function returned takes that back. */
function patience() {
  const timer = setTimeout(() => {
    dim(true);
    byId("errors").classList.add("waiting");
  }, SLOW);
  return () => clearTimeout(timer);
}

/** What the step does to the test error. The picture may have the label noise in it, of which the verdict knows nothing. */
function verdictOf({ here, problem }) {
  const { verdict } = here.regime;
  return verdict && added(problem) ? `${verdict} This is without the label noise.` : verdict;
}

async function drawErrors() {
  const curves = shownCurves();
  if (!curves.length) return;
  await figures.draw("errors", errorsFigure(curves));
  showKey(curves);
  const active = curves.find((c) => c.active);
  if (!active) return;
  dim(false);
  const { here } = active;
  document.documentElement.style.setProperty("--regime", `var(--${here.regime.key})`);
  say("regime-title", here.regime.title);
  say("regime-verdict", verdictOf(active));
  say("regime-text", here.regime.text);
  showBeyond(active);
  controls.drawLaw(here.inputs, here.problem.d);
  const caveats = here.caveats.map((c) => `${c.name} (the network may be off by about ${Math.round(100 * c.size)} %)`);
  say("caveats", caveats.length ? `Caveats: ${caveats.join("; ")}. The docs' page on the limits of validity has a section for each.` : "");
  byId("errors").setAttribute("aria-label",
    `Test and training error against ${axisLabel()}. At ${written(here.x)}: test error ${written(here.test_error)}, training error ` +
    `${written(here.train_error)}${here.kernel_bound === null ? "" : `; kernel bound ${written(here.kernel_bound)}`}. The data is below.`);
  byId("numbers").innerHTML = Object.entries(quantities())
    .map(([name, [title, meaning]]) => `<div><dt>${title} <small>${meaning}</small></dt><dd>${written(here[name], 4)}</dd></div>`).join("");
  model.show(document.querySelector(".model"), here.problem, active.problem.training);
  say("method", `Method: ${here.method}.`);
  const missing = active.curve.test_error.filter((v) => v === null).length;
  byId("failure").classList.toggle("partial", true);
  say("failure", active.failure ? `No prediction at ${missing} of ${active.curve.x.length} places. ${told(active.failure)}` : "");
  showChips(curves);
  showAgain(curves);
  fillErrorsData(curves);
}

/** Say where theory ends: all lines and numbers are of one step, whatever the training. */
function showBeyond({ beyond, problem, points }) {
  byId("beyond").hidden = !beyond;
  if (!beyond) return;
  say("beyond-training", trainingText(problem.training));
  byId("beyond-run").hidden = Boolean(simulation) || Boolean(points && !points.old);
}

/** Points of another setting or axis are not of this one: the button draws them again. */
function showAgain(curves) {
  const apart = state.slots.map(({ simulated }) => simulated?.axis).find((name) => name && name !== state.axis.name);
  const words = curves.some((c) => c.points?.old) ? `${BEFORE} are grey: they are of another setting.`
    : apart ? `${BEFORE} are along another axis, ${facts.axes[apart].label}.` : "";
  say("run", words ? "Simulate again" : "Simulate");
  if (!simulation && (words || ofBefore())) say("simulation-status", words);
}
const BEFORE = "The points drawn before";
/** Whether the words beside the button are about points of another setting. */
const ofBefore = () => byId("simulation-status").textContent.startsWith(BEFORE);

function drawLearned() {
  const curves = shownCurves().map((c) => ({ ...c, learned: known.learned.get(keyOf(theoryOf(c.problem))) })).filter((c) => c.learned);
  if (!curves.length) return;
  figures.draw("learned", figures.learned(curves, colours));
  const active = curves.find((c) => c.active) ?? curves[0];
  say("learned-caption", "Dashed: the teacher, averaged over all other directions.");
  byId("learned").setAttribute("aria-label", `Learned function along the spike against the teacher; alignment ${written(active.here.alignment)}.`);
  fill("learned-data", () => figures.table(["κ", "teacher", ...curves.map((c) => `${c.letter} learned`)],
    active.learned.kappa.map((k, i) => [k, active.learned.teacher[i], ...curves.map((c) => nearest(c.learned, k))])));
}

function nearest({ kappa, learned }, at) {
  const i = kappa.findIndex((k) => k >= at);
  if (i < 0) return null;
  if (i === 0 || kappa[i] === at) return learned[i];
  const t = (at - kappa[i - 1]) / (kappa[i] - kappa[i - 1]);
  return (1 - t) * learned[i - 1] + t * learned[i];
}

function drawSpectrum() {
  const found = known.spectrum.get(spectrumKey(mine().problem));
  byId("matrix").value = state.matrix;
  byId("spectrum").classList.toggle("waiting", !found);
  byId("spectrum").classList.toggle("stale", !found);
  if (!found) return;
  byId("spectrum").hidden = false; // after a refusal it is hidden until there is another
  const active = shownCurves().find((c) => c.active);
  figures.draw("spectrum", figures.spectrum({ found, matrix: state.matrix, colour: active?.colour ?? colours.large, width: byId("spectrum").clientWidth - 70 }, colours));
  const names = found.outliers.map((o) => `${written(o.singular_value)} (${o.label.replace(/ \(.*/, "")})`);
  const many = names.length === 1 ? "One outlier" : `${names.length || "No"} outliers`;
  const whose = names.length === 1 ? "its singular vector" : "each one's singular vector";
  const label = state.matrix === "weights" ? `how close ${whose} is to the teacher's direction (squared cosine)`
    : `${mine().problem.inputs ? `what ${whose} is closest to, a power of κ or a direction of the inputs,` : `which power of κ ${whose} is closest to`} and how close`;
  const dashed = found.before ? " Dashed: before the step." : "";
  const detail = (names.length ? ` at ${names.join(", ")}. The label says ${label}.` : ".") + dashed;
  const limit = mine().problem.d === "inf" ? ` Drawn at d = ${found.d}: in the limit outliers move away without bound.` : "";
  say("spectrum-caption", `${many}${detail}${limit}`);
  byId("spectrum").setAttribute("aria-label", `Density of the singular values of the ${state.matrix}. ${many}${detail}`);
  fill("spectrum-data", () => figures.table(["kind", "singular value", "density or function"], [
    ...found.outliers.map((o) => ["outlier", o.singular_value, o.label]),
    ...found.bands.flatMap((b) => b.singular_value.map((s, k) => ["bulk", s, b.density[k]])),
    ...(found.before ?? []).flatMap((b) => b.singular_value.map((s, k) => ["before the step", s, b.density[k]])),
  ]));
}

/** A table is made when it is looked at. */
const tables = {};
function fill(id, make) {
  tables[id] = make;
  if (byId(id).open) byId(id).querySelector(".scroll").innerHTML = make();
}
for (const id of ["errors-data", "learned-data", "spectrum-data"]) {
  byId(id).addEventListener("toggle", () => {
    if (byId(id).open && tables[id]) byId(id).querySelector(".scroll").innerHTML = tables[id]();
  });
}

function fillErrorsData(curves) {
  fill("errors-data", () => figures.table(
    ["setting", "kind", axisLabel(), "test error", "± s.e.", "training error", "± s.e."],
    curves.flatMap(({ letter, curve, points }) => [
      ...(points?.places ?? []).flatMap((p, k) => (p.test_error
        ? [[letter, `${downloads.pointKind(points)} × ${p.seeds}`, points.x[k], p.test_error.mean, p.test_error.standard_error, p.train_error.mean, p.train_error.standard_error]] : [])),
      ...curve.x.map((x, k) => [letter, "theory", x, curve.test_error[k], "", curve.train_error[k], ""]),
    ])));
}

function showChips(curves = shownCurves()) {
  const place = byId("chips");
  const looks = keyOf([state.active, state.slots.map((_, k) => labelOf(k)), curves.map((c) => c.colour)]);
  if (place.dataset.looks === looks) return;
  place.dataset.looks = looks;
  const focused = document.activeElement?.dataset?.chip;
  // One setting has nothing to be told from.
  place.replaceChildren(...(state.slots.length > 1 ? state.slots : []).map((slot, k) => {
    const chip = element("span", { className: "chip" });
    chip.style.setProperty("--tint", curves.find((c) => c.k === k)?.colour ?? "var(--soft)");
    const pick = element("button", { type: "button" });
    pick.dataset.chip = `pick-${k}`;
    pick.setAttribute("aria-pressed", String(k === state.active));
    pick.append(element("b", { textContent: LETTERS[k] }), " ", typeset(labelOf(k)));
    pick.title = plainText(labelOf(k));
    pick.setAttribute("aria-label", `${LETTERS[k]} ${pick.title}`); // a phone shows the letter alone
    pick.addEventListener("click", () => {
      state.active = k;
      controls.clear();
      controls.show(mine().problem);
      changed();
    });
    const remove = element("button", { type: "button", textContent: "×", className: "remove" });
    remove.dataset.chip = `remove-${k}`;
    remove.setAttribute("aria-label", `Remove setting ${LETTERS[k]}`);
    remove.addEventListener("click", () => {
      state.slots.splice(k, 1);
      state.active = Math.min(state.active > k ? state.active - 1 : state.active, state.slots.length - 1);
      controls.show(mine().problem);
      changed();
    });
    chip.append(pick, remove);
    return chip;
  }));
  if (state.slots.length < MOST) {
    const add = element("button", { type: "button", textContent: "+ Compare", id: "compare" });
    add.title = "Keep this curve and change a copy of the setting";
    add.dataset.chip = "add";
    add.addEventListener("click", () => {
      state.slots.push({ problem: copy(mine().problem), label: "" });
      state.active = state.slots.length - 1;
      toast(`Setting ${LETTERS[state.active]}: change it, ${LETTERS.slice(0, state.active).join(", ")} stay.`);
      changed();
    });
    place.append(add);
  }
  // Whoever is here by keyboard stays here.
  if (focused) (place.querySelector(`[data-chip="${focused}"]`) ?? place.querySelector('[aria-pressed="true"], button')).focus();
}

// --- asking --------------------------------------------------------------------------------------------------------

/** The first sentence of what is allowed. */
const brief = (given) => {
  const text = plainly(given);
  return text.length > 160 && text.includes(";") ? text.slice(0, text.indexOf(";")) : text;
};

/** What a field says of its value. */
const atField = (error) => {
  const { reason, allowed, message } = error;
  return brief(reason ? `${reason}${meant(error) && "."}` : allowed ? `Allowed${partOf(error)}: ${allowed}` : message) + meant(error);
};

function refused(error) {
  failed = true;
  // What is shown is of this setting: another one's curve is missing.
  if (error instanceof Passing && known.curves.has(curveKey(mine().problem))) {
    say("failure", error.message);
    return;
  }
  controls.clear(); // what a field says may be about the value before
  const id = controlOf(error.field);
  if (id) controls.fail(id, atField(error));
  const before = byId("errors").data ? "The pale curves are of the setting before." : "";
  byId("failure").classList.toggle("partial", Boolean(id));
  say("failure", [id ? "" : sentence(brief(error.message)), before].join(" ").trim());
  say("caveats", "");
  controls.drawLaw(null);
  document.documentElement.style.setProperty("--regime", "var(--initial)");
  say("regime-title", "No prediction for this setting");
  say("regime-verdict", "");
  say("regime-text", told(error));
  dim(true);
  byId("regime").classList.remove("stale");
  for (const waiting of document.querySelectorAll(".waiting")) waiting.classList.remove("waiting");
}

/** Whether the last request for the setting's curve was refused. */
let failed = false;

/** Ask for the curve of a setting, and with that at hand for the one without a step, unless they are known. */
async function ask(k, signal, fewer = false) {
  const { problem } = state.slots[k];
  const count = fewer ? FEWER : known.curves.get(curveKey(problem))?.curve.x.length ?? pointCount();
  const [key, unstepped, { name }] = [curveKey(problem), unsteppedKey(problem, count), state.axis];
  const both = k === state.active && problem.eta.coefficient && !["eta", "alpha", "n_step", "damping"].includes(name) && !known.unstepped.has(unstepped);
  if (known.curves.has(key) && !both) return;
  const began = performance.now();
  let found;
  try {
    found = await post("curves", { problem, axis: { ...state.axis, count }, without_step: Boolean(both) }, signal);
  } catch (error) {
    if (!(error instanceof Slow) || count === FEWER) throw error;
    slow = true;
    return ask(k, signal, true);
  }
  if (name !== "damping") slow = ((performance.now() - began) * POINTS) / count > LONG;
  known.curves.keep(key, found);
  if (both) known.unstepped.keep(unstepped, found.curve.without_step);
}

const curvesRequest = new Latest(
  async (signal) => {
    failed = false;
    const answered = patience();
    signal.addEventListener("abort", answered);
    const order = [state.active, ...state.slots.keys()].filter((k, j, all) => all.indexOf(k) === j);
    const others = [];
    for (const k of order) {
      const { problem } = state.slots[k] ?? {};
      if (!problem) continue;
      try {
        await ask(k, signal);
      } catch (error) {
        // Only the setting at hand has fields to say it at.
        if (k === state.active || error.name === "AbortError" || error instanceof Passing) {
          answered();
          throw error;
        }
        others.push(`Setting ${LETTERS[k]}: ${told(error)}`);
        continue;
      }
      if (k === state.active) {
        answered();
        controls.clear();
      }
      await drawErrors();
      if (k === state.active) document.dispatchEvent(new CustomEvent("gradstep:drawn"));
    }
    if (others.length) say("failure", others.join(" "));
    drawLearned();
    learnedRequest.ask();
  },
  { failed: refused, idle: settled },
);

const learnedRequest = new Latest(
  async (signal) => {
    for (const { problem } of state.slots) {
      const key = keyOf(theoryOf(problem));
      if (!known.learned.has(key)) known.learned.keep(key, await post("learned", { problem }, signal));
    }
    drawLearned();
  },
  { failed: (error) => say("learned-caption", brief(error.message)) },
);

/** What takes seconds: asked for at rest, and only for the setting at hand. */
const studies = {
  ridge: new Latest((signal) => best(signal, "ridge"), { patience: 0, failed: () => controls.mark("ridge", null) }),
  eta: new Latest((signal) => best(signal, "eta"), { patience: 0, failed: () => controls.mark("c", null) }),
  spectrum: new Latest(
    async (signal) => {
      const { problem } = mine();
      const key = spectrumKey(problem);
      known.spectrum.keep(key, await post("spectrum", { problem, of: state.matrix }, signal));
      drawSpectrum();
    },
    {
      patience: 0,
      failed: (error) => {
        byId("spectrum").hidden = true;
        fill("spectrum-data", () => "");
        say("spectrum-caption", error.reason ? `${sentence(error.reason)}.` : sentence(brief(error.message)));
      },
    },
  ),
};

async function best(signal, over) {
  const { problem } = mine();
  known.best.keep(keyOf([theoryOf(problem), over]), await post("best", { problem, over: [over] }, signal));
  showBest();
  drawErrors();
}

function showBest() {
  for (const [over, control] of [["ridge", "ridge"], ["eta", "c"]]) {
    const found = known.best.get(keyOf([theoryOf(mine().problem), over]));
    if (!found) controls.mark(control, null);
    else {
      const meaning = found.meanings[over];
      const value = meaning ? meaning.replaceAll("->", "→").replace(/^eta\b/, "η") : `Best ${written(found.values[over])}`;
      controls.mark(control, found.values[over], `${value} → error ${written(found.test_error + added(mine().problem))}`);
    }
  }
}

let resting = null;
let noted = null;

/** All curves asked for are drawn. */
function settled() {
  document.documentElement.dataset.state = "settled";
  clearTimeout(resting);
  resting = setTimeout(study, REST);
}

/** After any change of the state: the address, the labels, the requests. */
function changed() {
  clearTimeout(noted);
  noted = setTimeout(remember, 200);
  // What it says is about the setting before.
  if (!simulation && !ofBefore()) say("simulation-status", "");
  showChips();
  showAxis();
  showPreset();
  showBest();
  drawSpectrum();
  const ready = state.slots.every(({ problem }) => known.curves.has(curveKey(problem)));
  if (ready) drawErrors();
  document.documentElement.dataset.state = "working";
  curvesRequest.ask();
  for (const study of Object.values(studies)) study.drop();
  clearTimeout(resting);
}

function study() {
  if (failed) return;
  const { problem } = mine();
  const here = known.curves.get(curveKey(problem))?.here;
  if (!here) return;
  say("said", `${here.regime.title}. Test error ${written(here.test_error)}, training error ${written(here.train_error)}. ${verdictOf({ here, problem })}`);
  if (!known.best.has(keyOf([theoryOf(problem), "ridge"]))) studies.ridge.ask();
  if (!known.spectrum.has(spectrumKey(problem))) studies.spectrum.ask();
  if (!known.best.has(keyOf([theoryOf(problem), "eta"]))) studies.eta.ask();
}

let ownHash = location.hash.slice(1);
function remember() {
  if (location.hash.slice(1) !== ownHash) return; // another address was typed, and is about to be read
  const fragment = encode(state, facts, (k) => lastPointsOf(state.slots[k]));
  history.replaceState(null, "", `#${fragment}`);
  ownHash = location.hash.slice(1); // as the browser writes it
}

addEventListener("hashchange", () => {
  if (location.hash.slice(1) === ownHash) return;
  ownHash = location.hash.slice(1);
  adopt(read(location.hash.slice(1)));
});

function adopt(next) {
  simulation?.abort();
  state = next;
  for (const slot of state.slots) {
    const { problem, points, before } = slot;
    if (points) known.points.keep(pointsKey(problem), points);
    // Of which setting they are is not in the address: they have a key of their own.
    if (before) slot.simulated = { key: keyOf([before]), axis: before.axis };
    if (before) known.points.keep(slot.simulated.key, before);
  }
  byId("noise-in").value = state.noise;
  for (const [part, id] of Object.entries(DRAWN)) byId(id).value = state.drawing[part];
  controls.clear();
  controls.show(mine().problem);
  byId("preset").value = state.preset;
  changed();
  showSimulated(state.slots.map(({ points, before }) => points ?? before).find(Boolean));
}

/** Points that came with an address. */
function showSimulated(points) {
  if (!points) return;
  const seeds = Math.max(...points.places.map((place) => place.seeds));
  say("simulation-status", `From the link: ${seeds} networks at each of ${points.x.length} places.`);
}

// --- controls ------------------------------------------------------------------------------------------------------

/** Nothing above a slider changes its height while the slider is dragged, so that the slider stays under the pointer. */
function hold(on) {
  const narrow = matchMedia("(max-width: 720px)").matches;
  for (const part of document.querySelectorAll(`.controls .error${narrow ? ", #regime, #preset-note, .bar, #key, #failure" : ""}`)) {
    part.style.height = on ? `${part.getBoundingClientRect().height}px` : "";
    part.style.overflow = on ? "hidden" : "";
  }
}

const controls = new Controls(byId("controls"), facts, hold, (problem) => {
  mine().problem = problem;
  mine().label = "";
  changed();
});

const AXIS_NAMES = {
  damping: "damping, δ",
  n: "samples, n/d", width: "neurons, N/d", n_step: "samples of the step, n₀/d", eta: "step scale, c", alpha: "step exponent, α", ridge: "ridge, Λ",
};
byId("axis").innerHTML = Object.keys(facts.axes).map((name) => `<option value="${name}">${AXIS_NAMES[name]}</option>`).join("");
byId("axis").addEventListener("change", ({ target }) => {
  state.axis = { name: target.value, ...span(facts, target.value) };
  changed();
});
for (const part of ["from", "to", "scale"]) {
  byId(`axis-${part}`).addEventListener("change", ({ target }) => {
    const value = part === "scale" ? target.value : target.value.trim() === "" ? NaN : Number(target.value);
    if (Number.isNaN(value)) return controls.fail("axis", `“${target.value}” is not a number`);
    state.axis = { ...state.axis, [part]: value };
    changed();
  });
}

function showAxis() {
  byId("axis").value = state.axis.name;
  for (const part of ["from", "to", "scale"]) byId(`axis-${part}`).value = state.axis[part];
  byId("at-d").hidden = mine().problem.d !== "inf";
}

byId("noise-in").addEventListener("change", ({ target }) => {
  state.noise = target.value;
  changed();
});

byId("matrix").addEventListener("change", ({ target }) => {
  state.matrix = target.value;
  changed();
});

byId("reset").addEventListener("click", () => adopt(initial(facts)));

byId("best-both").addEventListener("click", async ({ currentTarget: button }) => {
  const { problem } = mine();
  const words = button.textContent;
  button.disabled = true;
  button.textContent = "Searching …";
  try {
    const found = await post("best", { problem, over: ["ridge", "eta"] });
    if (mine().problem !== problem) return;
    const next = copy(problem);
    const unit = Object.keys(next.ridge)[0];
    next.ridge = { [unit]: Number(found.values.ridge.toPrecision(4)) };
    next.eta.coefficient = Number(found.values.eta.toPrecision(4));
    mine().problem = next;
    mine().label = "";
    controls.show(next);
    changed();
    toast(`Test error ${written(found.before + added(next))} → ${written(found.test_error + added(next))}`);
  } catch (error) {
    controls.fail("best", brief(error.message));
  } finally {
    button.disabled = false;
    button.textContent = words;
  }
});

// --- presets -------------------------------------------------------------------------------------------------------

for (const paper of new Set(facts.presets.map((p) => p.paper))) {
  const group = element("optgroup", { label: paper });
  group.append(...facts.presets.filter((p) => p.paper === paper).map((p) => new Option(plainText(p.title), p.name)));
  byId("preset").append(group);
}
const elsewhere = element("optgroup", { label: "Not curves of problems: on the command line" });
elsewhere.append(...facts.elsewhere.map((f, k) => new Option(`${f.paper}: ${plainText(f.title)}`, `elsewhere ${k}`)));
byId("preset").append(elsewhere);

byId("preset").addEventListener("change", ({ target }) => {
  const preset = facts.presets.find((p) => p.name === target.value);
  if (target.value.startsWith("elsewhere")) return pointTo(facts.elsewhere[target.value.split(" ")[1]]);
  if (!preset) return adopt(initial(facts));
  adopt(stateOf(preset));
});

function heading(paper, title) {
  const words = element("b", {});
  words.append(`${paper}: `, typeset(title), ". ");
  return words;
}

/** A figure that the page cannot draw: where it is drawn. */
function pointTo({ name, paper, title, summary, reason, command }) {
  state.preset = "";
  byId("preset-note").hidden = false;
  byId("preset-note").dataset.shows = "elsewhere";
  const copier = element("button", { type: "button", className: "link", textContent: "Copy" });
  copier.addEventListener("click", () => copyText(command, "Command copied."));
  byId("preset-note").replaceChildren(
    heading(paper, title), typeset(summary), " The page cannot compute this figure: ", typeset(reason), ". A terminal does: ",
    element("code", { textContent: command }), " ",
    copier,
    element("img", { src: `/static/figures/${name}.webp`, alt: `${plainText(title)}, as the command draws it`, className: "figure" }),
  );
  byId("preset-note").scrollIntoView({ block: "nearest" });
}

/** The way to the card that shows what the figure has, if it is not the first one. */
function wayTo(preset) {
  if (preset.shows === "errors") return [];
  const card = byId(cardOf(preset)).closest(".card");
  const way = element("button", { type: "button", className: "link", textContent: CARDS[cardOf(preset)] });
  way.addEventListener("click", () => card.scrollIntoView({ block: "nearest", behavior: "smooth" }));
  return [" The figure is drawn below: ", way];
}
const CARDS = { learned: "what it learned", spectrum: "the spectrum", numbers: "the numbers" };

function showPreset() {
  const preset = facts.presets.find((p) => p.name === state.preset);
  const others = (preset?.settings ?? []).filter(({ label }) => !state.slots.some((slot) => slot.label === label));
  const shows = keyOf([preset?.name, others.map(({ label }) => label)]);
  // What is set again is read again.
  if (byId("preset-note").dataset.shows === shows) return;
  byId("preset-note").dataset.shows = shows;
  byId("preset-note").hidden = !preset;
  if (!preset) return;
  const whose = element("details", {});
  whose.append(
    element("summary", { textContent: "Whose settings" }),
    "The paper states: ", typeset(preset.stated), ". Chosen here: ", typeset(preset.ours), ".",
  );
  const swaps = others.map(({ label, problem }) => {
    const swap = Object.assign(typeset(label, "button"), { type: "button" });
    swap.addEventListener("click", () => {
      Object.assign(mine(), { label, problem: copy(problem) });
      controls.show(mine().problem);
      changed();
      byId("preset-note").querySelector(".rest button").focus();
    });
    return swap;
  });
  const rest = element("p", { className: "rest" });
  if (swaps.length) rest.append("Also in the figure, to show in place of the chosen one: ", ...swaps);
  byId("preset-note").replaceChildren(heading(preset.paper, preset.title), typeset(preset.note), ...wayTo(preset), rest, whose);
}

// --- simulation ----------------------------------------------------------------------------------------------------

let simulation = null;

for (const [part, id] of Object.entries(DRAWN)) {
  byId(id).min = DRAWING[part].least;
  byId(id).max = DRAWING[part].most;
  byId(id).addEventListener("change", ({ target }) => {
    if (!isDrawable(part, target.value)) return;
    state.drawing = { ...state.drawing, [part]: Number(target.value) };
    remember();
  });
}

byId("simulate").addEventListener("submit", async (event) => {
  event.preventDefault();
  simulation?.abort();
  const run = (simulation = new AbortController());
  const [places, seeds, d] = ["places", "seeds", "simulated-d"].map((id) => Number(byId(id).value));
  const bar = byId("progress");
  const slots = state.slots.map((slot, k) => ({ letter: LETTERS[k], problem: copy(slot.problem) }));
  byId("cancel").hidden = bar.hidden = false;
  byId("run").hidden = true;
  bar.value = 0;
  say("error-simulate", "");
  say("simulation-status", "Starting …");
  const scores = [], trained = [];
  try {
    for (const [k, { problem, letter }] of slots.entries()) {
      const key = pointsKey(problem);
      const axis = { ...state.axis, count: places };
      let found = null;
      for await (const message of follow("simulate", { problem, axis, seeds, d }, run.signal)) {
        if (message.kind === "start") {
          found = { x: message.x, theory: message.theory, d: message.d, places: message.x.map(() => ({})) };
          known.points.keep(key, found);
        } else if (message.kind === "place") {
          const { place, seeds: count, test_error, train_error, noiseless_train_error } = message;
          found.places[place] = { seeds: count, test_error, train_error, noiseless_train_error };
          bar.value = (k + message.done / message.of) / slots.length;
          const whose = slots.length > 1 ? ` of ${letter}` : "";
          say("simulation-status", `${message.done} of ${message.of} networks${whose}${problem.d === "inf" ? ` at d = ${found.d}` : ""}`);
          drawSoon();
        } else if (message.kind === "end") {
          found.z = message.z;
          message.z.forEach((z, j) => z !== null && scores.push({ z, x: found.x[j], letter }));
          if (beyondTheory(problem)) trained.push(gained(found, problem, slots.length > 1 ? `${letter}: after` : "After"));
        } else throw new Error(message.message);
      }
    }
    const unseen = known.curves.has(curveKey(mine().problem)) ? "" : "The points have no place in the figure, as there is no prediction for this setting.";
    say("simulation-status", [agreement(scores, slots.length > 1), ...trained, unseen].filter(Boolean).join(" "));
    remember();
  } catch (error) {
    if (error.name === "AbortError") say("simulation-status", "Cancelled.");
    else {
      say("simulation-status", "");
      const id = controlOf(error.field);
      say("error-simulate", told(error));
      if (id && id !== "simulate") controls.fail(id, atField(error));
    }
  } finally {
    if (simulation === run) {
      simulation = null;
      byId("run").hidden = false;
      byId("cancel").hidden = bar.hidden = true;
    }
    drawErrors();
  }
});
byId("cancel").addEventListener("click", () => simulation?.abort());
byId("beyond-run").addEventListener("click", () => byId("simulate").requestSubmit());

let soon = null;
/** Points are drawn at most ten times a second. */
function drawSoon() {
  soon ??= setTimeout(() => {
    soon = null;
    drawErrors();
  }, 100);
}

/** What a training brings: its errors over those that theory has for one step. */
function gained({ theory, places }, { training }, after) {
  const ratios = places.flatMap(({ test_error: test }, k) => (test && theory[k] > 0 ? [test.mean / theory[k]] : [])).sort((a, b) => a - b);
  if (!ratios.length) return "";
  const change = 100 * (ratios[Math.floor(ratios.length / 2)] - 1);
  return `${after} ${trainingText(training)} the test error is ${written(Math.abs(change), 2)} % ${change < 0 ? "below" : "above"} that of ` +
    "one gradient step in theory, in the median of the places.";
}

function agreement(scores, several) {
  if (!scores.length) return "";
  const sizes = scores.map(({ z }) => Math.abs(z)).sort((a, b) => a - b);
  const worst = scores.reduce((a, b) => (Math.abs(a.z) > Math.abs(b.z) ? a : b));
  const middle = sizes[Math.floor(sizes.length / 2)];
  return `Theory is ${written(middle, 2)} standard errors off in the median, ${written(Math.abs(worst.z), 2)} at most ` +
    `(${several ? `setting ${worst.letter}, ` : ""}${axisLabel()} = ${written(worst.x)}).`;
}

// --- downloads -----------------------------------------------------------------------------------------------------

const title = () => {
  const { activation, teacher } = mine().problem;
  return state.slots.length > 1 ? state.slots.map((_, k) => `${LETTERS[k]}: ${plainText(labelOf(k))}`).join("   ") : `${activation} student, ${teacher} teacher`;
};

/** What stands below a picture that leaves the page: all parameters, and what its marks are. */
function notes(curves) {
  const networks = new Set(curves.flatMap(({ points }) => (points && !points.old ? points.places.map((place) => place.seeds) : [])));
  const points = networks.size ? ` Points: mean ± standard error of ${[...networks].filter(Boolean).join(" or ")} real networks each.` : "";
  const before = curves.some(({ points }) => points?.old) ? " Grey points: real networks of the setting before." : "";
  const grey = curves.some((c) => c.curve.without_step) ? ` Grey line: ${curves.length > 1 ? `setting ${LETTERS[state.active]} ` : ""}without the step.` : "";
  return {
    key: `Test error (solid), training error (dotted), ${noisy() ? "both with" : "both without"} label noise.${grey}${points}${before}`,
    parameters: curves.map(({ letter, here, beyond, problem }) =>
      `${curves.length > 1 ? `${letter}: ` : ""}${model.parameters(here.problem, state.axis.name)}` +
      `${beyond ? `; points after ${trainingText(problem.training)}, lines of one gradient step` : ""}.`).concat(`gradstep ${facts.version}`),
  };
}

/** Figures for paper are in the light colours whatever the page's are. */
function onPaper() {
  const root = document.createElement("div");
  root.style.colorScheme = "light";
  document.body.append(root);
  const light = figures.palette(root);
  root.remove();
  const kept = colours;
  colours = light;
  const figure = errorsFigure(shownCurves(), light, true);
  colours = kept;
  return [figure, light];
}

/** What is on the axis, as the column of a file is called. */
const SYMBOLS = { n: "n/d", width: "N/d", n_step: "n_step/d", eta: "c", alpha: "alpha", damping: "damping" };

async function download(kind) {
  const curves = shownCurves();
  if (!curves.length && kind !== "py") throw new Error("There is no curve of this setting.");
  const symbol = state.axis.name === "ridge" ? `ridge/${UNITS[Object.keys(mine().problem.ridge)[0]]}` : SYMBOLS[state.axis.name];
  const shown = { axis: { ...state.axis, symbol }, label_noise: state.noise };
  if (kind === "csv") downloads.save("gradstep.csv", downloads.csv(curves, shown), "text/csv");
  else if (kind === "json") downloads.save("gradstep.json", downloads.json(curves, shown, facts), "application/json");
  else if (kind === "py") await showCode();
  else {
    const [figure, light] = onPaper();
    downloads.save(`gradstep.${kind}`, await downloads.figure(kind, figure, title(), notes(curves), light));
  }
}

/** How many networks were drawn for the points of the settings, at how many places, and of which dimension. */
function simulatedAs() {
  const drawn = state.slots.map(pointsOf).filter((points) => points && !points.old && points.places.some((place) => place.test_error));
  if (!drawn.length) return {};
  const most = (numbers) => Math.max(...numbers);
  // A simulation that was cancelled may have left less than the two that a mean with its error needs.
  const seeds = Math.max(2, most(drawn.flatMap(({ places }) => places.map((place) => place.seeds ?? 0))));
  return { seeds, places: Math.max(2, most(drawn.map(({ x }) => x.length))), d: drawn[0].d };
}

async function showCode() {
  const shown = { problems: state.slots.map((slot) => slot.problem), axis: axisRequest(), active: state.active, noise: state.noise };
  const { code } = await post("code", { ...shown, ...simulatedAs() });
  byId("code").querySelector("code").textContent = code;
  byId("code").showModal();
}
for (const id of ["help", "help-too"]) byId(id).addEventListener("click", () => byId("guide").showModal());
byId("guide-close").addEventListener("click", () => byId("guide").close());
byId("code-close").addEventListener("click", () => byId("code").close());
byId("code-save").addEventListener("click", () => downloads.save("gradstep_page.py", byId("code").querySelector("code").textContent, "text/x-python"));
byId("code-copy").addEventListener("click", () => copyText(byId("code").querySelector("code").textContent, "Code copied."));

for (const button of document.querySelectorAll("[data-download]")) {
  button.addEventListener("click", () => {
    byId("downloads").open = false;
    download(button.dataset.download).catch((error) => toast(brief(error.message)));
  });
}

async function copyText(text, done) {
  try {
    await navigator.clipboard.writeText(text);
    toast(done);
  } catch {
    toast("The browser does not let the page copy.");
  }
}
byId("share").addEventListener("click", () => {
  remember();
  copyText(location.href, "Link to this state copied.");
});

addEventListener("click", ({ target }) => {
  if (!byId("downloads").contains(target)) byId("downloads").open = false;
});
addEventListener("keydown", ({ key }) => {
  if (key === "Escape" && byId("downloads").open) {
    byId("downloads").open = false;
    byId("downloads").querySelector("summary").focus();
  }
});

/** The fragment of the address is the state: a way within the page is not written there. */
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  byId("controls").querySelector("input").focus();
});

// --- room ----------------------------------------------------------------------------------------------------------

/** Heights that the style sheet reckons with: of the head, below which the panel of controls ends in sight, and of the
 * figure that stays in sight on a phone, below which what is focused comes to lie. */
for (const [name, selector] of [["--head", ".top"], ["--figure", ".errors"]]) {
  new ResizeObserver(([{ target }]) => document.documentElement.style.setProperty(name, `${target.offsetHeight}px`))
    .observe(document.querySelector(selector));
}

// --- theme ---------------------------------------------------------------------------------------------------------

const THEMES = { auto: "light dark", light: "light", dark: "dark" };
function setTheme(name) {
  document.documentElement.style.colorScheme = THEMES[name];
  byId("theme").textContent = `Theme: ${name}`;
  colours = figures.palette();
  showChips();
  drawErrors();
  drawLearned();
  drawSpectrum();
}
const remembered = () => {
  try {
    return localStorage.getItem("theme") in THEMES ? localStorage.getItem("theme") : "auto";
  } catch {
    return "auto"; // a browser that keeps nothing
  }
};
byId("theme").addEventListener("click", () => {
  const names = Object.keys(THEMES);
  const next = names[(names.indexOf(byId("theme").textContent.split(" ")[1]) + 1) % names.length];
  try {
    localStorage.setItem("theme", next);
  } catch {
    // as above
  }
  setTheme(next);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => setTheme(remembered()));

setTheme(remembered());
adopt(state);
