"""Theorem 3 and Fact 4: network and Gaussian equivalent on the same weights, after small, large and repeated steps.

Settings
--------
base : activation, teacher, psi1, psi2, lam and sigma_eps.
eta : learning rate of the repeated steps, which use the same samples every time.
resolved : standard errors by which network and equivalent have to differ where the equivalence breaks.
Presets hold d and the exponents ``alphas`` of eta = N^alpha (first panel), the dimensions ``sizes`` (second panel; at
the first and the last exponent) with the largest relative ``gap`` accepted at the last of them after a small step,
``step_d`` and the numbers of ``steps`` (third panel).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradstep.overlay import Overlay
from gradstep.papers.ba2022.coefficients import coefficients
from gradstep.papers.ba2022.equivalence import R_GE, equivalent_features, equivalent_risk
from gradstep.papers.ba2022.risk import R_1, kernel_lower_bound
from gradstep.papers.figure import Figure, by_point, point_seeds
from gradstep.papers.outcome import Check, Comparison, Outcome, compare
from gradstep.papers.panels import Line, Panel, Points
from gradstep.problem import Problem
from gradstep.simulation import Network
from gradstep.simulation.instance import TEACHER_AXIS
from gradstep.simulation.ridge import fit_rows
from gradstep.simulation.streams import Purpose, generator
from gradstep.sweeps import Result, Task
from gradstep.theory import predict_many

__all__ = ["assemble", "measure", "tasks"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class _Place:
    d: int
    eta: Mapping[str, float]
    steps: tuple[int, ...] = (1,)

    def parameters(self, base: Mapping[str, Any]) -> dict[str, Any]:
        return {**base, "d": self.d, "eta": dict(self.eta), "steps": list(self.steps)}


def _power(alpha: float) -> dict[str, float]:
    return {"coefficient": 1.0, "exponent": float(alpha)}


def _places(figure: Figure, preset: Mapping[str, Any]) -> tuple[list[_Place], list[_Place], _Place]:
    alphas, constant = preset["alphas"], {"coefficient": float(figure.settings["eta"]), "exponent": 0.0}
    exponents = [_Place(preset["d"], _power(alpha)) for alpha in alphas]
    dimensions = [_Place(d, _power(alpha)) for alpha in (alphas[0], alphas[-1]) for d in preset["sizes"]]
    return exponents, dimensions, _Place(preset["step_d"], constant, tuple(preset["steps"]))


def tasks(figure: Figure, preset: Mapping[str, Any]) -> list[Task]:
    """List one network a place and seed."""
    exponents, dimensions, repeated = _places(figure, preset)
    return [
        Task(f"{__name__}:measure", place.parameters(figure.settings["base"]), seed)
        for place in (*exponents, *dimensions, repeated)
        for seed in point_seeds(figure.name, "equivalence", [place.d, *place.eta.values(), place.steps], preset)
    ]


def measure(parameters: Mapping[str, Any], seed: int) -> dict[str, list[float]]:
    """Train the first layer, and fit both features on the same fresh samples after some of the steps."""
    settings = dict(parameters)
    steps = settings.pop("steps")
    problem = Problem.from_dict({"convention": "ba2022", **settings})
    values = coefficients(problem.activation, problem.teacher)
    network = Network(problem, seed)
    inputs, labels = network.fit_data()
    teacher = np.eye(1, inputs.shape[1], TEACHER_AXIS)[0]
    penalties = [float(problem.ridge)]  # type: ignore[arg-type]
    found: dict[str, list[float]] = {"network": [], "equivalent": [], "formula": []}
    for step in range(max(steps) + 1):
        if step in steps:
            weights = network.before
            found["network"].append(float(network.initial.test_error(tolerance=1e-7)))
            draw = generator(seed, Purpose.TEST_INPUTS, step)
            fit = fit_rows(equivalent_features(values, weights, inputs, draw), labels, penalties)
            found["equivalent"].append(float(equivalent_risk(problem, weights, fit.readouts)[0]))
            law = {"n": len(labels), "lam": settings["lam"], "sigma_eps": problem.noise}
            found["formula"].append(R_GE(values, weights.T, teacher, **law))
        if step < max(steps):
            network = replace(network, before=network.after)
    return found


def assemble(figure: Figure, preset: Mapping[str, Any], results: Sequence[Result]) -> Outcome:
    """Compare the equivalent with its formula, the network with the uniform equivalent, and the two with each other."""
    settings = figure.settings
    base = settings["base"]
    exponents, dimensions, repeated = _places(figure, preset)
    every = [*exponents, *dimensions, repeated]
    found = {
        name: [np.array([r[name] for r in own]) for own in by_point(results, preset)]
        for name in ("network", "equivalent", "formula")
    }
    problems = [Problem.from_dict({"convention": "ba2022", **base, "d": p.d, "eta": dict(p.eta)}) for p in every]
    comparisons: list[Comparison] = []
    for i, (place, prediction) in enumerate(zip(every, predict_many(problems), strict=True)):
        name = f"d = {place.d}, eta = {problems[i].step_size:.3g}"
        for k, step in enumerate(place.steps):
            formula = found["formula"][i][:, k]
            # Paired: formula and fit share their weights, so the spread of the weights cancels.
            paired = found["equivalent"][i][:, k] - formula + formula.mean()
            comparisons.append(_compare(float(formula.mean()), paired, f"equivalent, {name}", step, str(i)))
            if step == 1:
                network_risks = found["network"][i][:, k]
                comparisons.append(_compare(prediction.test_error, network_risks, f"network, {name}", step, str(i)))
    floor = kernel_lower_bound(base["teacher"])
    split = len(exponents)
    ends = slice(split, split + len(dimensions))
    panels = (
        _exponent_panel(settings, preset, {k: np.array(v[:split])[:, :, 0] for k, v in found.items()}, floor),
        _size_panel(preset, {k: np.array(v[ends])[:, :, 0] for k, v in found.items()}),
        _step_panel(preset, {k: v[-1].T for k, v in found.items()}, floor),
    )
    return Outcome(panels, tuple(comparisons), _checks(settings, preset, found, floor, split), notes=NOTES)


NOTES = (
    "Network and equivalent are fitted on the same weights and the same fresh samples. Line of the equivalent: its "
    "limit, Theorem 5 (left), its formula given the measured weights (right). Line of the network: uniform equivalent. "
    "The repeated steps of constant size move the weights as far as one large step does, and break the equivalence too."
)


def _compare(theory: float, values: Array, curve: str, step: int, sample: str) -> Comparison:
    place, quantity = f"step {step}", "prediction risk"
    return compare(theory, values.tolist(), curve=curve, place=place, quantity=quantity, sample=sample)


def _floor(x: Sequence[float], floor: float) -> Line:
    return Line([float(x[0]), float(x[-1])], [floor, floor], "bound of Fact 4", "teacher", "dashed")


def _exponent_panel(
    settings: Mapping[str, Any], preset: Mapping[str, Any], found: Mapping[str, Array], floor: float
) -> Panel:
    base, alphas = settings["base"], np.linspace(preset["alphas"][0], preset["alphas"][-1], 21)
    problems = [Problem.from_dict({"convention": "ba2022", **base, "d": preset["d"], "eta": _power(a)}) for a in alphas]
    width = float(problems[0].width)  # type: ignore[arg-type]
    sigma, sigma_star = base["activation"], base["teacher"]
    rates = {k: base[k] for k in ("lam", "psi1", "psi2", "sigma_eps")}
    equivalent = R_1(sigma, sigma_star, eta=width**alphas, N=width, **rates)
    network_line = [p.test_error for p in predict_many(problems)]
    x = alphas.tolist()
    lines = [
        Line(x, equivalent.tolist(), "equivalent", "first kind"),
        Line(x, network_line, "network", "second kind"),
        _floor(x, floor),
    ]
    points = [
        Points.measured(preset["alphas"], found["equivalent"], "equivalent", "first kind"),
        Points.measured(preset["alphas"], found["network"], "network", "second kind"),
    ]
    title = f"one step, d = {preset['d']}"
    return Panel(title, "alpha in eta = N^alpha", "prediction risk", "linear", "log", lines, points)


def _size_panel(preset: Mapping[str, Any], found: Mapping[str, Array]) -> Panel:
    gap = found["equivalent"] - found["network"]
    relative = gap / found["equivalent"].mean(axis=1, keepdims=True)
    sizes, half = preset["sizes"], len(preset["sizes"])
    x = [float(sizes[0]), float(sizes[-1])]
    points = [
        Points.measured(sizes, relative[:half], "eta = 1", "small"),
        Points.measured(sizes, relative[half:], "eta = √N", "large"),
    ]
    lines = [Line(x, [0.0, 0.0], "equivalence", "teacher", "dotted")]
    return Panel("gap closes or stays", "input dimension d", "1 - network / equivalent", "log", "linear", lines, points)


def _step_panel(preset: Mapping[str, Any], found: Mapping[str, Array], floor: float) -> Panel:
    steps = [float(s) for s in preset["steps"]]
    lines = [Line(steps, found["formula"].mean(axis=1).tolist(), "equivalent", "first kind"), _floor(steps, floor)]
    points = [
        Points.measured(steps, found["equivalent"], "equivalent", "first kind"),
        Points.measured(steps, found["network"], "network", "second kind"),
    ]
    title = f"repeated steps, d = {preset['step_d']}"
    return Panel(title, "number of steps", "prediction risk", "linear", "log", lines, points)


def _checks(
    settings: Mapping[str, Any],
    preset: Mapping[str, Any],
    found: Mapping[str, Sequence[Array]],
    floor: float,
    split: int,
) -> tuple[Check, ...]:
    def distance(place: int, column: int) -> float:
        gap = found["equivalent"][place][:, column] - found["network"][place][:, column]
        return float(Overlay.of(0.0, gap).t)

    sizes, resolved = len(preset["sizes"]), float(settings["resolved"])
    largest = split + sizes - 1
    small = abs(1 - found["network"][largest].mean() / found["equivalent"][largest].mean())
    below = floor - found["network"][-1][:, -1]
    crossed = float(Overlay.of(0.0, below).t)
    large, last = distance(split - 1, 0), distance(-1, -1)
    return (
        Check.at_most(f"relative gap after eta = 1 at d = {preset['sizes'][-1]}", small, preset["gap"]),
        Check.at_least("standard errors between network and equivalent after eta = √N", large, resolved),
        Check.at_least("the same after the last of the repeated steps", last, resolved),
        Check.at_least("standard errors of the network then below the bound of Fact 4", crossed, 3.0),
    )
