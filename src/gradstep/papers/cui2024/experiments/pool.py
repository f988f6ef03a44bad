"""The functions that a step makes available: mu_0 and kappa mu_1 for several learning rates, and in real networks.

Settings
--------
activation, teacher, alpha0 : functions, and samples of the step per dimension.
curves : label, regime, eta_tilde.
range : the projection runs from minus to plus this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradstep.gaussian import scalar_function, smoothed
from gradstep.papers.cui2024.drawn import stepped_layer
from gradstep.papers.cui2024.experiments.measured import extrapolate, places
from gradstep.papers.cui2024.spiked import equivalent_srf
from gradstep.papers.figure import Figure, by_point, point_seeds
from gradstep.papers.outcome import Outcome, compare, points_of
from gradstep.papers.panels import Line, Panel
from gradstep.problem import Problem
from gradstep.sweeps import Result, Task

__all__ = ["assemble", "measure", "tasks"]

Array = NDArray[np.float64]

_FUNCTIONS = {"mean": "mu_0", "tilt": "kappa mu_1"}


def tasks(figure: Figure, preset: Mapping[str, Any]) -> list[Task]:
    """List one gradient step a curve, place and seed."""
    settings = figure.settings
    shared = {name: settings[name] for name in ("activation", "teacher", "alpha0")} | {"d": int(preset["d"])}
    return [
        Task(f"{__name__}:measure", {**shared, "eta_tilde": float(curve["eta_tilde"]), "kappa": kappa}, seed)
        for curve, kappa in places(figure, preset)
        for seed in point_seeds(figure.name, curve["label"], kappa, preset)
    ]


def measure(parameters: Mapping[str, Any], seed: int) -> dict[str, float]:
    """Average the conditional features over the neurons of a network at d and at d/2, and extrapolate."""
    return extrapolate(lambda d: _drawn(parameters, d, seed), int(parameters["d"]))


def _drawn(parameters: Mapping[str, Any], d: int, seed: int) -> dict[str, float]:
    names = ("activation", "teacher", "eta_tilde", "alpha0")
    problem = Problem.cui2024(d=d, alpha=1.0, lam=1.0, **{name: parameters[name] for name in names})
    layer = stepped_layer(problem, seed)
    along = layer.weights @ layer.direction
    rest = np.sqrt((layer.weights**2).sum(axis=1) - along**2)
    kappa = float(parameters["kappa"])
    features = smoothed(problem.activation, along * kappa, rest)
    return {"mean": float(features.mean.mean()), "tilt": kappa * float((features.slope / rest).mean())}


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
    drawn = by_point(results, preset)
    grid = np.linspace(-float(settings["range"]), float(settings["range"]), 121)
    comparisons = {
        (curve["label"], name): [
            compare(
                float(_theory(figure, curve, np.array(kappa))[name]),
                [r[name] for r in own],
                curve=curve["label"],
                place=kappa,
                quantity=title,
            )
            for (owner, kappa), own in zip(places(figure, preset), drawn, strict=True)
            if owner is curve
        ]
        for curve in settings["curves"]
        for name, title in _FUNCTIONS.items()
    }
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
        f"extrapolated from d = {d // 2} and {d}."
    )
    return Outcome(tuple(panels), tuple(c for own in comparisons.values() for c in own), notes=notes)
