"""Spike strength, bulk variance and alignment of real gradient steps against Result 3.1.

Settings
--------
axis : range of the lines in alpha0 (``from``, ``to``, ``count``).
curves : label, regime, activation, teacher, eta_tilde, sigma_eps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gradstep.papers.cui2024.drawn import stepped_layer
from gradstep.papers.cui2024.experiments.measured import extrapolate, places, table
from gradstep.papers.cui2024.spiked import Spike, equivalent_srf
from gradstep.papers.figure import Figure, by_point, point_seeds
from gradstep.papers.outcome import Outcome, compare, points_of
from gradstep.papers.panels import Line, Panel
from gradstep.problem import Problem
from gradstep.simulation.instance import TEACHER_AXIS
from gradstep.sweeps import Result, Task

__all__ = ["assemble", "measure", "tasks"]

_QUANTITIES = {"strength": "spike strength r", "bulk_variance": "bulk variance c", "alignment": "alignment gamma"}


def tasks(figure: Figure, preset: Mapping[str, Any]) -> list[Task]:
    """List one step a curve, place and seed."""
    names = ("activation", "teacher", "eta_tilde", "sigma_eps")
    return [
        Task(
            f"{__name__}:measure",
            {**{name: curve[name] for name in names}, "alpha0": alpha0, "d": int(preset["d"])},
            seed,
        )
        for curve, alpha0 in places(figure, preset)
        for seed in point_seeds(figure.name, curve["label"], alpha0, preset)
    ]


def measure(parameters: Mapping[str, Any], seed: int) -> dict[str, float]:
    """Make a step at d and at d/2, and extrapolate to infinite d."""
    return extrapolate(lambda d: _step(parameters, d, seed), int(parameters["d"]))


def _step(parameters: Mapping[str, Any], d: int, seed: int) -> dict[str, float]:
    problem = Problem.cui2024(
        alpha=1.0,
        alpha0=float(parameters["alpha0"]),
        eta_tilde=float(parameters["eta_tilde"]),
        lam=1.0,
        d=d,
        activation=parameters["activation"],
        teacher=parameters["teacher"],
        noise=float(parameters["sigma_eps"]),
    )
    layer = stepped_layer(problem, seed)
    # The direction is only defined up to the sign of the spike.
    sign = float(np.sign(layer.spike[0]))
    along = layer.weights @ layer.direction
    rest = np.mean((layer.weights**2).sum(axis=1) - along**2)
    return {
        "strength": sign * float(layer.spike[0]),
        "bulk_variance": float(rest) * d / (d - 1),
        "alignment": sign * float(layer.direction[TEACHER_AXIS]),
    }


def _theory(curve: Mapping[str, Any], alpha0: Any) -> Spike:
    return equivalent_srf(
        curve["activation"],
        curve["teacher"],
        eta_tilde=curve["eta_tilde"],
        alpha0=alpha0,
        sigma_eps=curve["sigma_eps"],
    )


def assemble(figure: Figure, preset: Mapping[str, Any], results: Sequence[Result]) -> Outcome:
    """Put Result 3.1 under the measured steps."""
    axis = figure.settings["axis"]
    comparisons = [
        compare(
            float(getattr(_theory(curve, alpha0), name)),
            [r[name] for r in own],
            curve=curve["label"],
            place=alpha0,
            quantity=text,
            sample=f"{curve['label']}/{alpha0}",
        )
        for (curve, alpha0), own in zip(places(figure, preset), by_point(results, preset), strict=True)
        for name, text in _QUANTITIES.items()
    ]
    grid = np.geomspace(axis["from"], axis["to"], axis["count"])
    panels = []
    for name, text in _QUANTITIES.items():
        lines, points = [], []
        for curve in figure.settings["curves"]:
            label, regime = curve["label"], curve["regime"]
            lines.append(Line(grid.tolist(), getattr(_theory(curve, grid), name).tolist(), label, regime))
            own = [c for c in comparisons if (c.curve, c.quantity) == (label, text)]
            points.append(points_of(own, label, regime))
        panels.append(Panel(text, "samples of the step per dimension n0/d", text, "log", "linear", lines, points))
    header = ["step", "n0/d", "quantity", "Result 3.1", "measured", "z"]
    d = int(preset["d"])
    notes = f"Lines: Result 3.1. Points: real gradient steps, extrapolated from d = {d // 2} and {d}."
    return Outcome(tuple(panels), tuple(comparisons), notes=notes, table=table(header, comparisons))
