"""The functions that a step makes available: mu_0 and kappa mu_1 for several learning rates, and in real networks.

Settings
--------
activation, teacher, alpha0 : functions, and samples of the step per dimension.
curves : label, regime, eta_tilde, and ``up_to``, the largest projection measured: beyond, the neurons have saturated,
    and what is left to compare is exponentially small and set by the chance length of each network's spike.
range : the projection runs from minus to plus this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradstep.gaussian import scalar_function, smoothed
from gradstep.papers.cui2024.drawn import stepped_layer
from gradstep.papers.cui2024.experiments.measured import extrapolate
from gradstep.papers.cui2024.spiked import equivalent_srf
from gradstep.papers.figure import Figure, by_point, point_seeds
from gradstep.papers.outcome import Comparison, Outcome, compare, points_of
from gradstep.papers.panels import Line, Panel
from gradstep.problem import Problem
from gradstep.sweeps import Result, Task

__all__ = ["assemble", "measure", "tasks"]

Array = NDArray[np.float64]

_FUNCTIONS = {"mean": "mu_0", "tilt": "kappa mu_1"}


def _kappas(curve: Mapping[str, Any], preset: Mapping[str, Any]) -> list[float]:
    return [float(kappa) for kappa in preset["points"] if kappa <= curve["up_to"]]


def tasks(figure: Figure, preset: Mapping[str, Any]) -> list[Task]:
    """List one gradient step a curve and seed."""
    settings = figure.settings
    shared = {name: settings[name] for name in ("activation", "teacher", "alpha0")} | {"d": int(preset["d"])}
    return [
        Task(
            f"{__name__}:measure",
            {**shared, "eta_tilde": float(curve["eta_tilde"]), "kappas": _kappas(curve, preset)},
            seed,
        )
        for curve in settings["curves"]
        for seed in point_seeds(figure.name, curve["label"], "", preset)
    ]


def measure(parameters: Mapping[str, Any], seed: int) -> dict[str, list[float]]:
    """Average the conditional features over the neurons of a network at d and at d/2, and extrapolate."""
    found = extrapolate(lambda d: _drawn(parameters, d, seed), int(parameters["d"]))
    return {name: value.tolist() for name, value in found.items()}


def _drawn(parameters: Mapping[str, Any], d: int, seed: int) -> dict[str, Array]:
    names = ("activation", "teacher", "eta_tilde", "alpha0")
    problem = Problem.cui2024(d=d, alpha=1.0, lam=1.0, **{name: parameters[name] for name in names})
    layer = stepped_layer(problem, seed)
    along = layer.weights @ layer.direction
    rest = np.sqrt((layer.weights**2).sum(axis=1) - along**2)[:, None]
    kappa = np.asarray(parameters["kappas"], dtype=np.float64)
    features = smoothed(problem.activation, along[:, None] * kappa, rest)
    return {"mean": features.mean.mean(axis=0), "tilt": kappa * (features.slope / rest).mean(axis=0)}


def _theory(figure: Figure, curve: Mapping[str, Any], kappa: Array) -> dict[str, Array]:
    settings = figure.settings
    spike = equivalent_srf(
        settings["activation"], settings["teacher"], eta_tilde=curve["eta_tilde"], alpha0=settings["alpha0"]
    )
    scale = np.sqrt(spike.bulk_variance)
    features = smoothed(scalar_function(settings["activation"]), spike.strength * kappa, scale)
    return {"mean": features.mean, "tilt": kappa * features.slope / scale}


def assemble(figure: Figure, preset: Mapping[str, Any], results: Sequence[Result]) -> Outcome:
    """Put the functions of Result 3.2 under the averages over neurons."""
    settings = figure.settings
    grid = np.linspace(-float(settings["range"]), float(settings["range"]), 121)
    comparisons: dict[tuple[str, str], list[Comparison]] = {}
    for curve, own in zip(settings["curves"], by_point(results, preset), strict=True):
        kappas = _kappas(curve, preset)
        theory = _theory(figure, curve, np.array(kappas))
        for name, title in _FUNCTIONS.items():
            comparisons[curve["label"], name] = [
                compare(
                    float(value),
                    [r[name][place] for r in own],
                    curve=curve["label"],
                    place=kappa,
                    quantity=title,
                    sample=curve["label"],
                )
                for place, (kappa, value) in enumerate(zip(kappas, theory[name], strict=True))
            ]
    panels = []
    for name, title in _FUNCTIONS.items():
        lines, points = [], []
        for curve in settings["curves"]:
            label, regime = curve["label"], curve["regime"]
            lines.append(Line(grid.tolist(), _theory(figure, curve, grid)[name].tolist(), label, regime))
            points.append(points_of(comparisons[label, name], label, regime))
        panels.append(Panel(title, "projection on the spike", title, lines=lines, points=points))
    d = int(preset["d"])
    notes = (
        "Lines: the two functions of Result 3.2. Points: averages over the neurons of real networks after their step, "
        "those of one curve from the same networks, as far as the neurons have not saturated; "
        f"extrapolated from d = {d // 2} and {d}."
    )
    return Outcome(tuple(panels), tuple(c for own in comparisons.values() for c in own), notes=notes)
