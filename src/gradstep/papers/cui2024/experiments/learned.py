"""The learned function along the target's direction and along the spike, for several samples of the step.

Settings
--------
base : activation, teacher, eta_tilde, alpha, beta, lam.
curves : label, regime, alpha0 (0 and inf allowed); ``theory_only`` draws nothing at random.
range : the projection runs from minus to plus this.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradstep.gaussian import ScalarFunction, scalar_function, smoothed
from gradstep.papers.cui2024.drawn import FirstLayer, network_of, spiked_layer, stepped_layer
from gradstep.papers.cui2024.errors import (
    SummaryStatistics,
    learned_along_target,
    learned_function,
    summary_statistics,
)
from gradstep.papers.cui2024.experiments.measured import extrapolate
from gradstep.papers.cui2024.spiked import equivalent_srf
from gradstep.papers.figure import Figure, by_point, point_seeds
from gradstep.papers.outcome import Comparison, Outcome, compare, points_of
from gradstep.papers.panels import Line, Panel
from gradstep.problem import Problem
from gradstep.simulation.instance import TEACHER_AXIS
from gradstep.sweeps import Result, Task
from gradstep.theory import predict
from gradstep.theory.prediction import mean_curve

__all__ = ["assemble", "conditional_mean", "measure", "tasks"]

Array = NDArray[np.float64]

_DIRECTIONS = {"target": "along the target's direction", "spike": "along the spike"}


def conditional_mean(
    layer: FirstLayer, readout: Array, sigma: ScalarFunction, direction: Array, projections: Array
) -> Array:
    """Mean output of a network given the projection of the input on a direction: exact, given the weights.

    Parameters
    ----------
    layer : FirstLayer
    readout : ndarray, shape (p,)
        Readout of the raw features.
    sigma : ScalarFunction
    direction : ndarray, shape (d,)
        Unit vector.
    projections : ndarray, shape (m,)

    Returns
    -------
    ndarray, shape (m,)
    """
    along = layer.weights @ direction
    rest = np.sqrt(np.maximum((layer.weights**2).sum(axis=1) - along**2, 0.0))
    return np.asarray(smoothed(sigma, along[:, None] * projections, rest[:, None]).mean.T @ readout)


def _draws(figure: Figure) -> Iterator[tuple[Mapping[str, Any], str]]:
    for curve in figure.settings["curves"]:
        if not curve.get("theory_only", False):
            yield curve, "network"
            yield curve, "srf"


def tasks(figure: Figure, preset: Mapping[str, Any]) -> list[Task]:
    """List one network and one spiked random features model a curve and seed."""
    sizes = {"d": int(preset["d"]), "points": [float(t) for t in preset["points"]]}
    return [
        Task(
            f"{__name__}:measure",
            {**figure.settings["base"], "alpha0": float(curve["alpha0"]), "model": model, **sizes},
            seed,
        )
        for curve, model in _draws(figure)
        for seed in point_seeds(figure.name, curve["label"], model, preset)
    ]


def measure(parameters: Mapping[str, Any], seed: int) -> dict[str, list[float]]:
    """Train a model at d and at d/2, and extrapolate its conditional means to infinite d."""
    found = extrapolate(lambda d: _drawn(parameters, d, seed), int(parameters["d"]))
    return {name: value.tolist() for name, value in found.items()}


def _drawn(parameters: Mapping[str, Any], d: int, seed: int) -> dict[str, Array]:
    names = ("activation", "teacher", "eta_tilde", "alpha", "beta", "lam", "alpha0")
    problem = Problem.cui2024(d=d, **{name: parameters[name] for name in names})
    if parameters["model"] == "network":
        layer = stepped_layer(problem, seed)
    else:
        spike = equivalent_srf(
            problem.activation, problem.teacher, eta_tilde=parameters["eta_tilde"], alpha0=parameters["alpha0"]
        )
        r, c, gamma = spike.strength, spike.bulk_variance, spike.alignment
        width = int(problem.width)  # type: ignore[arg-type]
        layer = spiked_layer(seed, width, d, r=r, c=c, gamma=gamma)
    sigma, n = problem.activation, round(float(parameters["alpha"]) * d)
    drawn = network_of(layer, sigma, problem.teacher, n=n, lam=float(parameters["lam"]), seed=seed)
    readout = np.asarray(drawn.fit().readouts[:, 0])
    target = np.eye(1, d, TEACHER_AXIS)[0]
    points = np.asarray(parameters["points"], dtype=np.float64)
    return {
        "target": conditional_mean(layer, readout, sigma, target, points),
        "spike": conditional_mean(layer, readout, sigma, layer.direction, points),
    }


def _of_network(figure: Figure, curve: Mapping[str, Any], name: str, points: Any) -> Array:
    """Return what the network learns along a direction, in its own limit."""
    found = predict(Problem.cui2024(**figure.settings["base"], alpha0=float(curve["alpha0"])))
    if name == "target":
        return found.curve.along_teacher(points, found.alignment)
    return mean_curve([(1.0, found.curve.kappa, found.curve.learned)], np.asarray(points, dtype=np.float64))


def _statistics(figure: Figure, curve: Mapping[str, Any]) -> SummaryStatistics:
    base = dict(figure.settings["base"])
    return summary_statistics(base.pop("activation"), base.pop("teacher"), alpha0=float(curve["alpha0"]), **base)


def assemble(figure: Figure, preset: Mapping[str, Any], results: Sequence[Result]) -> Outcome:
    """Put the learned functions of the theory under those of the networks."""
    settings = figure.settings
    base = settings["base"]
    points = [float(t) for t in preset["points"]]
    functions = {"target": learned_along_target, "spike": learned_function}
    comparisons: dict[tuple[str, str, str], list[Comparison]] = {}
    solutions = {curve["label"]: _statistics(figure, curve) for curve in settings["curves"]}
    for (curve, model), own in zip(_draws(figure), by_point(results, preset), strict=True):
        network = model == "network"
        for name, function in functions.items():
            # Without a step there is no spike to look along.
            if name == "spike" and float(curve["alpha0"]) == 0:
                continue
            theory = (
                _of_network(figure, curve, name, points)
                if network
                else function(base["activation"], solutions[curve["label"]], points)
            )
            comparisons[name, curve["label"], model] = [
                compare(
                    float(value),
                    [r[name][place] for r in own],
                    curve=f"{curve['label']}, {'network' if network else 'sRF'}, {_DIRECTIONS[name]}",
                    place=t,
                    quantity="mean output",
                    sample=f"{curve['label']}/{model}",
                )
                for place, (t, value) in enumerate(zip(points, theory, strict=True))
            ]
    grid = np.linspace(-float(settings["range"]), float(settings["range"]), 121)
    panels = []
    for name, function in functions.items():
        lines, drawn = [], []
        if name == "target":
            lines.append(Line(grid.tolist(), scalar_function(base["teacher"])(grid).tolist(), "target", "teacher"))
        for curve in settings["curves"]:
            label, regime = curve["label"], curve["regime"]
            if name == "target" or float(curve["alpha0"]) > 0:
                learned = _of_network(figure, curve, name, grid)
                published = function(base["activation"], solutions[label], grid)
                lines.append(Line(grid.tolist(), learned.tolist(), label, regime))
                lines.append(Line(grid.tolist(), published.tolist(), "", regime, style="dashed"))
            own_comparisons = comparisons.get((name, label, "network"), [])
            if own_comparisons:
                drawn.append(points_of(own_comparisons, label, regime))
        panels.append(Panel(_DIRECTIONS[name], "projection of the input", "mean output", lines=lines, points=drawn))
    d = int(preset["d"])
    notes = (
        "Lines: the network's theory (the uniform equivalent at infinite d); dashes: Result 3.3, the paper's model. "
        "Points: exact conditional means of networks, those of one curve from the same networks, extrapolated from "
        f"d = {d // 2} and {d}; spiked random features, not drawn, are compared with their own theory as well."
    )
    return Outcome(tuple(panels), tuple(c for own in comparisons.values() for c in own), notes=notes)
