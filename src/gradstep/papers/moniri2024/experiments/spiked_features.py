"""Distance of the spiked features F_l from the features F, and the errors of both.

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
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import svds

from gradstep.overlay import Overlay
from gradstep.papers.claims import power_law
from gradstep.papers.figure import Figure
from gradstep.papers.moniri2024.features import Spikes, gaussian_equivalent, spike_sizes, spikes
from gradstep.papers.outcome import Check, Judged, Outcome
from gradstep.papers.panels import Guide, Line, Panel, Points
from gradstep.papers.places import Place, Sample, on_curve
from gradstep.problem import Problem
from gradstep.simulation import Network
from gradstep.simulation.ridge import fit_rows
from gradstep.simulation.streams import Purpose, generator
from gradstep.theory.step.statistics import step_statistics

__all__ = ["measure", "measure_errors", "outcome", "places"]

Array = NDArray[np.float64]

_REGIMES = ("initial", "few", "small", "large", "between")


def places(figure: Figure, preset: Mapping[str, Any]) -> Iterator[Place]:
    """Instances of every exponent and number of samples, for the distances or for the errors."""
    settings = figure.settings
    shared: dict[str, Any] = {"order": settings["order"]}
    if "test_factor" in settings:
        function, shared["test_factor"] = measure_errors, settings["test_factor"]
        points = [(alpha, n) for n in preset["sizes"] for alpha in preset["points"]]
    else:
        function, points = measure, [(alpha, n) for alpha in settings["alphas"] for n in preset["points"]]
    for alpha, n in points:
        point = {"alpha": alpha, "n": n}
        drawn = ("features", sorted(point.items()))
        yield Place(function, {"base": {**settings["base"], **point}, **shared}, f"α = {alpha:g}", n, drawn)


def _gradient_rest(problem: Problem) -> tuple[float, float]:
    """Return the limit of ``|beta|`` and the variance of the rest of the gradient."""
    d, width, n_step, *_ = problem.real_sizes()
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
    ridge, (inputs, labels) = problem.sizes.ridge, network.fit_data()
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


def outcome(figure: Figure, preset: Mapping[str, Any], samples: Sequence[Sample]) -> Outcome:
    """Judge the sizes of the terms and the distances, or the differences of the errors."""
    if "test_factor" in figure.settings:
        return _universality(figure, preset, samples)
    settings, points = figure.settings, preset["points"]
    panels: list[Panel] = []
    comparisons: list[Judged] = []
    checks: list[Check] = []
    for alpha, window in zip(settings["alphas"], settings["windows"], strict=True):
        own = on_curve(samples, f"α = {alpha:g}")
        sizes = {sample.x: _sizes(settings, alpha, sample.x) for sample in own}
        grid = np.unique(np.rint(np.geomspace(points[0], points[-1], 41)))
        predicted = np.array([_sizes(settings, alpha, float(n)) for n in grid])
        lines, marks = [], []
        for k in range(settings["order"]):
            label, regime = f"k = {k + 1}", _REGIMES[k + 1]
            lines.append(Line.of(grid, predicted[:, k], label, regime))
            terms = [sample["terms"][:, k] / math.sqrt(sample.x) for sample in own]
            marks.append(Points.measured(points, terms, label, regime))
            words = {"curve": f"α = {alpha:g}, {label}", "quantity": "norm of the term"}
            comparisons += [s.compare(sizes[s.x][k], values, **words) for s, values in zip(own, terms, strict=True)]
        title = f"α = {alpha:g}: terms, growing like n^((α-1/2)k+1/2)"
        panels.append(Panel(title, "samples n", "norm / √n", "log", "log", lines, marks))
        lines, marks = [], []
        for k, regime in enumerate(_REGIMES[: settings["order"] + 1]):
            label, distances = f"F_{k}", [sample["corrected"][:, k] for sample in own]
            mean = [values.mean() for values in distances]
            lines.append(Line.of(points, mean, label, regime))
            if k > 1:
                published = [sample["published"][:, k].mean() for sample in own]
                lines.append(Line.of(points, published, "", regime, "dashed"))
            marks.append(Points.measured(points, distances, label, regime))
            if k == window:
                name = f"exponent in n of ||F - F_{k}|| / sqrt n at alpha = {alpha:g}"
                checks.append(Check.at_most(name, power_law(points, mean)[0], 0.0))
        panels.append(Panel(f"α = {alpha:g}: F - F_l", "samples n", "||F - F_l|| / √n", "log", "log", lines, marks))
    return Outcome(panels, comparisons, checks)


def _sizes(settings: Mapping[str, Any], alpha: float, n: float) -> Array:
    """Return the norms of the terms of F_l, divided by the square root of n."""
    problem = Problem.moniri2024(**settings["base"], alpha=alpha, n=n)
    norm, rest = _gradient_rest(problem)
    sizes = {"n": float(n), "width": problem.real_sizes().width, "order": settings["order"]}
    found = spike_sizes(problem.activation, eta=problem.step_size, gradient_norm=norm, rest=rest, **sizes)
    return np.asarray(found / math.sqrt(n))


#: Name in the results, label and regime.
_CURVES = (
    ("F", "F", "teacher"),
    ("F_l", "F_l published", "few"),
    ("corrected", "F_l", "large"),
    ("equivalent", "equivalent + spikes", "small"),
)


def _universality(figure: Figure, preset: Mapping[str, Any], samples: Sequence[Sample]) -> Outcome:
    """Compare errors of the same samples: at the larger size one by one, and whether the gaps close."""
    settings, alphas, sizes = figure.settings, preset["points"], preset["sizes"]
    known = {"allowance": settings["allowance"], "reason": settings["reason"]}
    largest, shape = samples[-len(alphas) :], (len(sizes), len(alphas), int(preset["seeds"]))
    panels, comparisons, gaps = [], [], {}
    for side in ("train", "test"):
        lines, points = [], []
        for name, label, regime in _CURVES:
            shown = Points.measured(alphas, [sample[f"{name} {side}"] for sample in largest], label, regime)
            lines.append(Line.of(alphas, shown.mean, label, regime, "dashed" if name == "F_l" else "solid"))
            points.append(shown)
            gaps[name, side] = np.array([_gap(sample, name, side) for sample in samples]).reshape(shape)
            if name in ("corrected", "equivalent"):
                for alpha, sample in zip(alphas, largest, strict=True):
                    # Paired: the same weights, data and noise.
                    mean = float(sample[f"F {side}"].mean())
                    words = {"curve": label, "place": alpha, "quantity": f"{side} error", **known}
                    comparisons.append(sample.compare(mean, mean * (1 + _gap(sample, name, side)), **words))
        panels.append(Panel(f"{side}ing error, n = {sizes[-1]:g}", "α", f"{side} error", lines=lines, points=points))
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
    return Outcome(panels, comparisons, checks)


def _gap(sample: Sample, name: str, side: str) -> Array:
    """Return the error on some features less that on the network's own, over the mean of the latter."""
    network = sample[f"F {side}"]
    return np.asarray((sample[f"{name} {side}"] - network) / network.mean())


def _gap_panel(title: str, sizes: Sequence[float], gaps: Mapping[str, Array]) -> Panel:
    points = [Points.measured(sizes, gaps[name], label, regime) for name, label, regime in _CURVES[1:]]
    lines = [Line.of(p.x, p.mean, p.label, p.regime, "dashed" if "published" in p.label else "solid") for p in points]
    zero = Guide("F", height=0.0)
    return Panel(f"{title}: relative to F", "samples n", "gap", "log", lines=lines, points=points, guides=[zero])
