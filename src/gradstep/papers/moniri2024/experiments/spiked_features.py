"""How near the spiked features F_l are to the features F, and whether they give the same errors.

Settings
--------
base : fixed parameters of `Problem.moniri2024`.
order : largest l.
alphas : exponents with a panel each (distance); points of the presets are numbers of samples.
test_factor : optional; then errors are compared, on ``test_factor * n`` fresh inputs, and points are exponents, at
    each of the preset's two ``sizes``.
falls : largest ratio of the gap between the training errors of F_l and of F at the larger size to that at the smaller.
Presets hold `points`; for the errors `sizes` and ``published_z``, the z-score that the gap between the test errors of
the published F_l and of F must exceed at the largest exponent (none where the seeds are too few).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import svds

from gradstep.overlay import Overlay
from gradstep.papers.figure import Figure, point_seeds
from gradstep.papers.moniri2024.features import Spikes, gaussian_equivalent, spike_sizes, spikes
from gradstep.papers.outcome import Check, Outcome, compare
from gradstep.papers.panels import Guide, Line, Panel, Points
from gradstep.problem import Problem
from gradstep.simulation import Network
from gradstep.simulation.ridge import fit_rows
from gradstep.simulation.streams import Purpose, generator
from gradstep.sweeps import Result, Task
from gradstep.theory.step import step_statistics

__all__ = ["assemble", "measure", "measure_errors", "tasks"]

Array = NDArray[np.float64]

_REGIMES = ("initial", "few", "small", "large", "between")


def tasks(figure: Figure, preset: Mapping[str, Any]) -> list[Task]:
    """List one instance a point and seed."""
    settings = figure.settings
    if "test_factor" in settings:
        points = [{"alpha": a, "n": n} for n in preset["sizes"] for a in preset["points"]]
        function, more = "measure_errors", {"test_factor": settings["test_factor"]}
    else:
        points = [{"alpha": a, "n": n} for a in settings["alphas"] for n in preset["points"]]
        function, more = "measure", {}
    return [
        Task(f"{__name__}:{function}", {"base": {**settings["base"], **p}, "order": settings["order"], **more}, seed)
        for p in points
        for seed in point_seeds(figure.name, "features", sorted(p.items()), preset)
    ]


def _gradient_rest(problem: Problem) -> tuple[float, float]:
    """Return the limit of ``|beta|`` and the variance of the rest of the gradient."""
    d, width, n_step = float(problem.d), float(problem.width), float(problem.n_step)  # type: ignore[arg-type]
    step = step_statistics(problem, d, width, n_step)
    return step.gradient_norm, width * step.bulk


def _terms(network: Network, inputs: Array, order: int, rest: float) -> Spikes:
    problem, readout = network.problem, network.readout / math.sqrt(len(network.readout))
    along = inputs @ network.gradient.linear
    return spikes(problem.activation, along, readout, eta=problem.step_size, order=order, rest=rest)


def _norm(matrix: Array) -> float:
    # A fixed start of the iteration: the same bits every time.
    start = np.ones(min(matrix.shape))
    return float(svds(matrix, k=1, v0=start, tol=1e-10, return_singular_vectors=False)[0])


def measure(parameters: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Measure ``||F - F_l|| / sqrt(n)``, published and corrected, and the norm of every corrected term."""
    problem = Problem.moniri2024(**parameters["base"])
    order, network = parameters["order"], Network(problem, seed)
    inputs, _ = network.fit_data()
    n = len(inputs)
    difference = network.features(inputs) - network.initial.features(inputs)
    corrected = _terms(network, inputs, order, _gradient_rest(problem)[1])
    distances = {}
    for name, terms in (("published", _terms(network, inputs, order, 0.0)), ("corrected", corrected)):
        left, right = terms
        distances[name] = [_norm(difference - left[:, :k] @ right[:, :k].T) / math.sqrt(n) for k in range(order + 1)]
    return {**distances, "terms": corrected.norms.tolist()}


def measure_errors(parameters: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Fit F, published and corrected F_l and the Gaussian equivalent with spikes; return their errors."""
    problem = Problem.moniri2024(**parameters["base"])
    network, order = Network(problem, seed), parameters["order"]
    ridge, (inputs, labels) = float(problem.ridge), network.fit_data()  # type: ignore[arg-type]
    fresh, truth = network.test_data(parameters["test_factor"] * len(labels))
    draw = generator(seed, Purpose.TEST_INPUTS, block=2**20)
    rest = _gradient_rest(problem)[1]

    def spiked(start: Array, x: Array, variance: float) -> Array:
        return _terms(network, x, order, variance).added_to(start)

    sides: dict[str, list[Array]] = {"F": [], "F_l": [], "corrected": [], "equivalent": []}
    for x in (inputs, fresh):
        initial = network.initial.features(x)
        sides["F"].append(network.features(x))
        sides["F_l"].append(spiked(initial, x, 0.0))
        sides["corrected"].append(spiked(initial, x, rest))
        sides["equivalent"].append(spiked(gaussian_equivalent(problem.activation, x, network.before, draw), x, rest))
    found: dict[str, Any] = {}
    for name, (train, test) in sides.items():
        fit = fit_rows(train, labels, [ridge])
        found[f"{name} train"] = float(fit.train_error[0])
        found[f"{name} test"] = float(np.mean((truth - test @ fit.readouts[:, 0]) ** 2))
    return found


def assemble(figure: Figure, preset: Mapping[str, Any], results: Sequence[Result]) -> Outcome:
    """Judge the sizes of the terms and the distances, or the differences of the errors."""
    if "test_factor" in figure.settings:
        return _universality(figure, preset, results)
    settings, points, seeds = figure.settings, preset["points"], int(preset["seeds"])
    order = settings["order"]
    panels, comparisons, checks = [], [], []
    for place, alpha in enumerate(settings["alphas"]):
        start = place * len(points) * seeds
        groups = [results[start + i * seeds : start + (i + 1) * seeds] for i in range(len(points))]
        problems = [Problem.moniri2024(**settings["base"], alpha=alpha, n=n) for n in points]
        lines, marks = [], []
        sizes = []
        for problem in problems:
            norm, rest = _gradient_rest(problem)
            size = spike_sizes(
                problem.activation,
                eta=problem.step_size,
                gradient_norm=norm,
                order=order,
                n=float(problem.n),  # type: ignore[arg-type]
                width=float(problem.width),  # type: ignore[arg-type]
                rest=rest,
            )
            sizes.append(size.tolist())
        for k in range(order):
            label, regime = f"k = {k + 1}", _REGIMES[k + 1]
            theory = [size[k] / math.sqrt(n) for size, n in zip(sizes, points, strict=True)]
            values = [[r["terms"][k] / math.sqrt(n) for r in group] for group, n in zip(groups, points, strict=True)]
            lines.append(Line(points, theory, label, regime))
            marks.append(Points.measured(points, values, label, regime))
            comparisons += [
                compare(
                    t,
                    v,
                    curve=f"α = {alpha:g}, {label}",
                    place=n,
                    quantity="norm of the term",
                    sample=f"{alpha:g}, {n:g}",
                )
                for t, v, n in zip(theory, values, points, strict=True)
            ]
        title = f"α = {alpha:g}: terms, growing like n^((α-1/2)k+1/2)"
        panels.append(Panel(title, "samples n", "norm / √n", "log", "log", lines=lines, points=marks))
        lines, marks, means = [], [], {}
        for k in range(order + 1):
            values = [[r["corrected"][k] for r in group] for group in groups]
            means[k] = [float(np.mean(v)) for v in values]
            published = [float(np.mean([r["published"][k] for r in group])) for group in groups]
            lines.append(Line(points, means[k], f"F_{k}", _REGIMES[k]))
            if k > 1:
                lines.append(Line(points, published, "", _REGIMES[k], "dashed"))
            marks.append(Points.measured(points, values, f"F_{k}", _REGIMES[k]))
        panels.append(
            Panel(f"α = {alpha:g}: F - F_l", "samples n", "||F - F_l|| / √n", "log", "log", lines=lines, points=marks)
        )
        window = settings["windows"][place]
        slope = float(np.polyfit(np.log(points), np.log(means[window]), 1)[0])
        checks.append(Check.at_most(f"exponent in n of ||F - F_{window}|| / sqrt n at alpha = {alpha:g}", slope, 0.0))
    return Outcome(tuple(panels), tuple(comparisons), tuple(checks), notes=settings.get("notes", ""))


#: Name in the results, label and regime.
_CURVES = (
    ("F", "F", "teacher"),
    ("F_l", "F_l published", "few"),
    ("corrected", "F_l", "large"),
    ("equivalent", "equivalent + spikes", "small"),
)


def _universality(figure: Figure, preset: Mapping[str, Any], results: Sequence[Result]) -> Outcome:
    """Compare errors of the same samples: at the larger size one by one, and whether the gaps close."""
    settings, alphas, sizes = figure.settings, preset["points"], preset["sizes"]
    shape = (len(sizes), len(alphas), int(preset["seeds"]))
    errors = {key: np.array([r[key] for r in results]).reshape(shape) for key in results[0]}
    panels, comparisons, gaps = [], [], {}
    for side in ("train", "test"):
        network_error = errors[f"F {side}"]
        scale = network_error.mean(axis=2, keepdims=True)
        lines, points = [], []
        for name, label, regime in _CURVES:
            own = errors[f"{name} {side}"]
            gaps[name, side] = (own - network_error) / scale
            shown = Points.measured(alphas, own[-1].tolist(), label, regime)
            lines.append(Line(alphas, shown.mean, label, regime, "dashed" if name == "F_l" else "solid"))
            points.append(shown)
            if name in ("corrected", "equivalent"):
                for alpha, base, gap in zip(alphas, scale[-1, :, 0], gaps[name, side][-1], strict=True):
                    # Paired: the same weights, data and noise.
                    comparison = compare(
                        float(base),
                        (base * (1 + gap)).tolist(),
                        curve=label,
                        place=alpha,
                        quantity=f"{side} error",
                        allowance=settings["allowance"],
                        reason=settings["reason"],
                        sample=f"{alpha:g}",
                    )
                    comparisons.append(comparison)
        title = f"{side}ing error, n = {sizes[-1]:g}"
        panels.append(Panel(title, "α", f"{side} error", lines=lines, points=points))
    training = {name: gaps[name, "train"].mean(axis=1) for name, *_ in _CURVES[1:]}
    testing = {name: gaps[name, "test"][:, -1] for name, *_ in _CURVES[1:]}
    panels.append(_gap_panel("training error, mean over α", sizes, training))
    panels.append(_gap_panel(f"test error, α = {alphas[-1]:g}", sizes, testing))
    first, last = np.abs(training["corrected"].mean(axis=1))
    name = f"gap between the training errors of F_l and F at n = {sizes[-1]:g} over that at n = {sizes[0]:g}"
    checks = [Check.at_most(name, last / first, settings["falls"])]
    if "published_z" in preset:
        z = abs(Overlay.of(0.0, testing["F_l"][-1]).z)
        name = f"|z| of the published F_l in test error, α = {alphas[-1]:g}, n = {sizes[-1]:g}"
        checks.append(Check.at_least(name, z, preset["published_z"]))
    return Outcome(tuple(panels), tuple(comparisons), tuple(checks), notes=settings.get("notes", ""))


def _gap_panel(title: str, sizes: Sequence[float], gaps: Mapping[str, Array]) -> Panel:
    points = [Points.measured(sizes, gaps[name].tolist(), label, regime) for name, label, regime in _CURVES[1:]]
    lines = [Line(p.x, p.mean, p.label, p.regime, "dashed" if "published" in p.label else "solid") for p in points]
    zero = Guide("F", height=0.0)
    return Panel(f"{title}: relative to F", "samples n", "gap", "log", lines=lines, points=points, guides=[zero])
