// The model in formulas and sizes: for the card on the page, and below pictures that leave it.

import { trainingText, written } from "./controls.js";
import { beyondTheory, readoutText } from "./state.js";

const WEIGHTS = { gaussian: "Gaussian rows", sphere: "rows on the sphere" };
const READOUTS = { gaussian: "Gaussian", constant: "constant, 1", "-1:0.5,1:0.5": "±1" };

const digits = (value) => (Number.isInteger(value) ? String(value) : written(value, 4));
const readoutOf = ({ readout }) => READOUTS[readoutText(readout)] ?? `values ${readoutText(readout)}`;

/** Sizes as they are: whole numbers, or ratios to d in the limit. */
function sizes({ d, width, n_step: step, n, ridge }) {
  const size = (value) => (value === "inf" ? "∞" : typeof value === "object" ? `${written(value.per_d, 4)} d` : digits(value));
  return { d: d === "inf" ? "∞" : digits(d), N: size(width), "n₀": size(step), n: size(n), Λ: size(ridge) };
}

function stepText({ eta }) {
  const { coefficient: c, exponent } = eta;
  if (!c || !exponent) return written(c, 4);
  return exponent === 0.5 ? `${written(c, 4)} √N` : `${written(c, 4)} N^${written(exponent)}`;
}

/** The law of the inputs in words; empty if they are isotropic. */
function lawText({ inputs }) {
  if (!inputs) return "";
  return typeof inputs === "string" ? inputs : `${inputs.eigenvalues?.length ?? ""} classes of eigenvalues`;
}

/** What damping does to the step in words; empty if there is none. */
function dampingText({ damping }) {
  if (damping === undefined || damping === "inf") return "";
  return `damping δ = ${written(damping)}`;
}

/** What the axis of the page varies, by the symbol under which it stands here. */
const ON_AXIS = { n: "n", width: "N", n_step: "n₀", eta: "η", alpha: "η", ridge: "Λ", damping: "δ" };

/**
 * All parameters of a setting in one line of text.
 *
 * @param problem as the server resolved it
 * @param axis the name of the axis, whose parameter varies
 */
export function parameters(problem, axis) {
  const damped = axis === "damping" || dampingText(problem) ? { δ: written(problem.damping) } : {};
  const values = { ...sizes(problem), η: stepText(problem), ...damped };
  const law = lawText(problem) ? `; inputs ${lawText(problem)}` : "";
  const varied = ON_AXIS[axis];
  const said = Object.entries(values).map(([name, value]) => `${name} ${name === varied ? "on the axis" : `= ${value}`}`);
  return `${problem.activation} network, ${problem.teacher} teacher, label noise ${written(problem.noise)}; ${said.join(", ")}; ` +
    `readout ${readoutOf(problem)}, ${WEIGHTS[problem.initial_weights]}${law}`;
}

/** Fill the card; its formulas are the page's own. */
export function show(card, problem, training) {
  const { d, N, "n₀": step, n, Λ } = sizes(problem);
  const limit = problem.d === "inf";
  const eta = stepText(problem);
  const number = limit || !problem.eta.exponent ? "" : ` = ${written(problem.eta.coefficient * problem.width ** problem.eta.exponent, 4)}`;
  const words = {
    data: `f* = ${problem.teacher}; ${problem.noise ? `ε has standard deviation ${written(problem.noise)}` : "no label noise, ε = 0"}; d = ${d}` +
      (problem.inputs ? `; C with tr C = d: ${lawText(problem)}; ⟨β*, x⟩ has variance one` : ""),
    network: `σ = ${problem.activation}; N = ${N} neurons; readout ${readoutOf(problem)}; ${WEIGHTS[problem.initial_weights]}, of length about 1`,
    step: (dampingText(problem) ? `${dampingText(problem)}; ` : "") + (problem.eta.coefficient ? `η = ${eta}${number}; n₀ = ${step} samples` : "η = 0: no step") +
      (beyondTheory({ training }) ? `; the points are of ${trainingText(training)}` : ""),
    fit: `n = ${n} fresh samples; Λ = ${Λ}`,
  };
  for (const [part, there] of [["isotropic", !problem.inputs], ["correlated", problem.inputs], ["damped", dampingText(problem)]]) {
    for (const piece of card.querySelectorAll(`[data-if=${part}]`)) piece.style.display = there ? "" : "none";
  }
  const short = (text) => text.replace(/\d+\.\d{5,}/g, (number) => written(number, 4));
  for (const [name, text] of Object.entries(words)) card.querySelector(`[data-of=${name}]`).textContent = short(text);
}
