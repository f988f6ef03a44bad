"""Convex losses and penalties of the readout fit (appendix C): finite-size theory over the real network.

Settings
--------
axis : parameter on the horizontal axis (``alpha`` or ``lam``), its label, the range of the lines, its scale.
quantities : what is compared, a panel each: fields of `gradstep.theory.convex_loss.ConvexPrediction`.
base, curves : parameters of `Problem.cui2024`, and loss, penalty, channel, flip.
Presets have ``points`` on the axis, the ``line`` count of theory along it beside them, and ``test_samples`` a network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gradstep.papers.cui2024.experiments.measured import places
from gradstep.papers.figure import Figure, by_point, point_seeds
from gradstep.papers.outcome import Check, Outcome, compare, points_of
from gradstep.papers.panels import Line, Panel
from gradstep.problem import Problem
from gradstep.simulation.convex_measurement import convex_measurement
from gradstep.sweeps import Result, Task
from gradstep.theory.convex_loss import TOLERANCE, convex_prediction

__all__ = ["assemble", "measure", "predict", "tasks"]

_NAMES = {
    "test_error": "test error",
    "test_loss": "mean loss on fresh samples",
    "classification_error": "classification error",
    "train_error": "mean loss on the training samples",
    "train_loss": "training loss with the penalty",
    "train_classification_error": "training classification error",
    "active_fraction": "share of neurons in use",
}
_OF_THE_FIT = ("loss", "penalty", "channel", "flip")


def _split(parameters: Mapping[str, Any]) -> tuple[Problem, dict[str, Any], list[str]]:
    """Return the problem, the options of the fit, and the quantities asked for."""
    chosen = dict(parameters)
    quantities = chosen.pop("quantities")
    chosen.pop("test_samples", None)
    fit = {name: chosen.pop(name) for name in _OF_THE_FIT if name in chosen}
    return Problem.cui2024(**{**chosen, "alpha0": float(chosen["alpha0"])}), fit, quantities


def measure(parameters: Mapping[str, Any], seed: int) -> dict[str, float]:
    """Draw and fit one network."""
    problem, fit, quantities = _split(parameters)
    measured = convex_measurement(problem, [seed], test_samples=int(parameters["test_samples"]), **fit)
    return {name: float(measured[name][0]) for name in quantities}


def predict(parameters: Mapping[str, Any], seed: int) -> dict[str, float]:
    """Predict one place; the seed is not used."""
    problem, fit, quantities = _split(parameters)
    prediction = convex_prediction(problem, **fit)
    return {name: float(getattr(prediction, name)) for name in [*quantities, "residual"]}


def _parameters(figure: Figure, preset: Mapping[str, Any], curve: Mapping[str, Any], x: float) -> dict[str, Any]:
    settings = figure.settings
    return {
        **settings["base"],
        **curve.get("parameters", {}),
        settings["axis"]["parameter"]: x,
        "d": int(preset["d"]),
        "quantities": list(settings["quantities"]),
    }


def _line(figure: Figure, preset: Mapping[str, Any]) -> list[float]:
    """Places of the theory: along the axis, and where networks are drawn."""
    axis = figure.settings["axis"]
    space = np.geomspace if axis.get("scale") == "log" else np.linspace
    along = space(axis["from"], axis["to"], int(preset["line"]))
    return sorted({float(x) for x in [*along, *preset["points"]]})


def tasks(figure: Figure, preset: Mapping[str, Any]) -> list[Task]:
    """List the theory along each line, then one network a point and seed."""
    return [
        Task(f"{__name__}:predict", _parameters(figure, preset, curve, x), 0)
        for curve in figure.settings["curves"]
        for x in _line(figure, preset)
    ] + [
        Task(
            f"{__name__}:measure",
            {**_parameters(figure, preset, curve, x), "test_samples": int(preset["test_samples"])},
            seed,
        )
        for curve, x in places(figure, preset)
        for seed in point_seeds(figure.name, curve["label"], x, preset)
    ]


def assemble(figure: Figure, preset: Mapping[str, Any], results: Sequence[Result]) -> Outcome:
    """Put the lines of the theory under the points."""
    curves, quantities = figure.settings["curves"], figure.settings["quantities"]
    line = _line(figure, preset)
    theory, measured = results[: len(curves) * len(line)], results[len(curves) * len(line) :]
    at = {(curve["label"], x): theory[i * len(line) + j] for i, curve in enumerate(curves) for j, x in enumerate(line)}
    comparisons = {
        (curve["label"], x, quantity): compare(
            at[curve["label"], x][quantity],
            [result[quantity] for result in own],
            curve=curve["label"],
            place=x,
            quantity=_NAMES[quantity],
            sample=f"{curve['label']}/{x}",
        )
        for (curve, x), own in zip(places(figure, preset), by_point(measured, preset), strict=True)
        for quantity in quantities
        if not _certain(at[curve["label"], x], quantity)
    }
    panels = []
    axis = figure.settings["axis"]
    for quantity in quantities:
        lines, points = [], []
        for curve in curves:
            values = [at[curve["label"], x][quantity] for x in line]
            lines.append(Line(line, values, curve["label"], curve["regime"]))
            drawn = [c for (label, _, name), c in comparisons.items() if (label, name) == (curve["label"], quantity)]
            if drawn:
                points.append(points_of(drawn, curve["label"], curve["regime"]))
        panels.append(
            Panel(
                title=_NAMES[quantity],
                x_label=axis["label"],
                y_label=_NAMES[quantity],
                x_scale=axis.get("scale", "linear"),
                lines=lines,
                points=points,
            )
        )
    worst = max(result["residual"] for result in theory)
    return Outcome(
        tuple(panels),
        tuple(comparisons.values()),
        checks=(Check.at_most("largest residual of the equations", worst, TOLERANCE),),
        notes=f"Lines: finite-size theory at d = {int(preset['d'])}. Points: the real network.",
    )


def _certain(theory: Result, quantity: str) -> bool:
    """Whether a quantity does not vary: without a kink in the penalty every neuron is in use."""
    return quantity == "active_fraction" and theory[quantity] > 1 - 1e-9
