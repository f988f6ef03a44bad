"""Test error against a parameter of the problem: lines of the uniform equivalent over points of the real network.

Settings
--------
axis : parameter on the horizontal axis, its label, the range of the lines (``from``, ``to``, ``count``), its scale.
base : parameters shared by all curves, in the paper's convention.
curves : label, regime, changed parameters; ``limit`` draws the paper's model in the proportional limit as dashes,
    ``theory_only`` simulates nothing, ``allowance`` is a documented error of the theory: ``relative``, ``reason``, and
    ``up_to`` on the axis.
guides : reference lines: label and kind (``kernel_lower_bound``, ``best_linear``, ``rate`` with its height at one).
paired, claims : optional; see `gradstep.papers.experiments.paired_gains`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gradstep.papers.ba2022 import kernel_lower_bound
from gradstep.papers.cui2024 import best_linear
from gradstep.papers.experiments.paired_gains import claim_checks, gain_comparisons, gain_panel
from gradstep.papers.figure import Figure, by_point, point_seeds
from gradstep.papers.outcome import Outcome, compare, points_of
from gradstep.papers.panels import Guide, Line, Panel
from gradstep.problem import Problem
from gradstep.simulation import simulate
from gradstep.sweeps import Result, Task
from gradstep.theory import predict_many

__all__ = ["assemble", "measure", "simulations", "tasks"]


Places = Iterable[tuple[Mapping[str, Any], float, Problem]]
"""Curve with its label, place on the axis and problem of each point."""


def _problem(figure: Figure, curve: Mapping[str, Any], x: float, d: float | str) -> Problem:
    settings = figure.settings
    return Problem.from_dict({**settings["base"], "d": d, **curve["parameters"], settings["axis"]["parameter"]: x})


def _places(figure: Figure, preset: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], float, Problem]]:
    for curve in figure.settings["curves"]:
        if not curve.get("theory_only", False):
            for x in map(float, preset["points"]):
                yield curve, x, _problem(figure, curve, x, preset["d"])


def tasks(figure: Figure, preset: Mapping[str, Any]) -> list[Task]:
    """List one simulation a curve, place and seed."""
    return simulations(figure, preset, _places(figure, preset))


def simulations(figure: Figure, preset: Mapping[str, Any], places: Places) -> list[Task]:
    """List one simulation a place and seed, each with the result of `measure`."""
    return [
        Task(f"{__name__}:measure", problem.to_dict(), seed)
        for curve, x, problem in places
        for seed in point_seeds(figure.name, "network" if "paired" in figure.settings else curve["label"], x, preset)
    ]


def measure(parameters: Mapping[str, Any], seed: int) -> dict[str, float]:
    """Simulate one network and return its errors."""
    measured = simulate(Problem.from_dict(dict(parameters)), seeds=[seed])
    return {name: float(measured[name][0]) for name in ("test_error", "train_error", "train_loss")}


def assemble(figure: Figure, preset: Mapping[str, Any], results: Sequence[Result]) -> Outcome:
    """Put the lines of the theory under the points."""
    settings = figure.settings
    axis = settings["axis"]
    places = list(_places(figure, preset))
    values = [np.array([r["test_error"] for r in own]) for own in by_point(results, preset)]
    measured = {(curve["label"], x): sample for (curve, x, _), sample in zip(places, values, strict=True)}
    predictions = [p.test_error for p in predict_many(p for *_, p in places)]
    comparisons = []
    for (curve, x, _), theory, sample in zip(places, predictions, values, strict=True):
        allowance = curve.get("allowance", {})
        applies = bool(allowance) and x <= allowance.get("up_to", math.inf)
        comparisons.append(
            compare(
                theory,
                sample.tolist(),
                curve=curve["label"],
                place=x,
                allowance=allowance["relative"] if applies else 0.0,
                reason=allowance["reason"] if applies else "",
                sample=f"{axis['parameter']} = {x:g}" if "paired" in settings else "",
            )
        )
    lines, points = [], []
    finite: dict[str, list[float]] = {}
    space = np.geomspace if axis.get("scale") == "log" else np.linspace
    grid = [float(v) for v in space(axis["from"], axis["to"], axis["count"])]
    for curve in settings["curves"]:
        label, regime = curve["label"], curve["regime"]
        finite[label] = _errors(figure, curve, grid, preset["d"])
        lines.append(Line(grid, finite[label], label, regime))
        if curve.get("limit", False):
            limit = _errors(figure, curve, grid, "inf", rows="isotropic", bulk="isotropic")
            lines.append(Line(grid, limit, "", regime, style="dashed"))
        own = [c for c in comparisons if c.curve == label]
        if own:
            points.append(points_of(own, label, regime))
    panel = Panel(
        title="error" if "paired" in settings else "",
        x_label=axis["label"],
        y_label="test error",
        x_scale=axis.get("scale", "linear"),
        y_scale="log",
        lines=lines,
        points=points,
        guides=[_guide(guide, settings["base"]["teacher"], grid) for guide in settings.get("guides", ())],
    )
    notes = (
        f"Lines: theory of the network (the uniform equivalent) at d = {preset['d']}; points: the real network; "
        "dashes: the paper's model in the proportional limit."
    )
    checks = claim_checks(settings, comparisons, measured)
    if "paired" not in settings:
        return Outcome((panel,), tuple(comparisons), tuple(checks), notes)
    gains = gain_comparisons(settings, comparisons, measured)
    panels = (panel, gain_panel(settings, grid, finite, gains))
    return Outcome(panels, (*comparisons, *gains), tuple(checks), notes)


def _errors(
    figure: Figure, curve: Mapping[str, Any], grid: Sequence[float], d: float | str, **models: Any
) -> list[float]:
    return [p.test_error for p in predict_many([_problem(figure, curve, x, d) for x in grid], **models)]


def _guide(guide: Mapping[str, Any], teacher: str, grid: Sequence[float]) -> Guide:
    if guide["kind"] == "rate":
        return Guide(guide["label"], x=grid, y=[guide["height"] / x for x in grid])
    height = kernel_lower_bound(teacher) if guide["kind"] == "kernel_lower_bound" else best_linear(teacher)
    return Guide(guide["label"], height=float(height))
