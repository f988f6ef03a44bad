"""Convex losses and penalties of the readout fit (appendix C): finite-size theory over the real network.

Settings
--------
axis : parameter on the horizontal axis (``alpha`` or ``lam``), its label, the range of the lines, its scale.
quantities : what is compared, a panel each: fields of `gradstep.theory.convex.convex_loss.ConvexPrediction`.
base, curves : parameters of `Problem.cui2024`, and loss, penalty, channel, flip.
Presets have ``points`` on the axis, the ``line`` count of theory along it beside them, and ``test_samples`` a network.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gradstep.papers.charts import Theory, charts, curves_of, grid_of
from gradstep.papers.figure import Figure
from gradstep.papers.outcome import Check, Outcome
from gradstep.papers.panels import Panel
from gradstep.papers.places import Place, Sample, along, on_curve
from gradstep.problem import Problem
from gradstep.simulation.convex_measurement import convex_measurement
from gradstep.theory.convex.convex_loss import TOLERANCE, convex_prediction

__all__ = ["measure", "outcome", "places", "predict"]

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
    return sorted({float(x) for x in [*grid_of(figure.settings["axis"], preset), *preset["points"]]})


def places(figure: Figure, preset: Mapping[str, Any]) -> Iterator[Place]:
    """The theory along each line, then networks of every curve at every point."""
    for curve in figure.settings["curves"]:
        for x in _line(figure, preset):
            yield Place(predict, _parameters(figure, preset, curve, x), f"{curve['label']}/theory", x, seeds=(0,))
    for curve, x in along(figure.settings, preset):
        drawn = {**_parameters(figure, preset, curve, x), "test_samples": int(preset["test_samples"])}
        yield Place(measure, drawn, curve["label"], x)


def outcome(figure: Figure, preset: Mapping[str, Any], samples: Sequence[Sample]) -> Outcome:
    """Put the lines of the theory under the points."""
    axis, names = figure.settings["axis"], figure.settings["quantities"]
    panels = {name: Panel(_NAMES[name], axis["label"], _NAMES[name], axis.get("scale", "linear")) for name in names}

    def solved(curve: Mapping[str, Any]) -> Theory:
        theory = on_curve(samples, f"{curve['label']}/theory")
        values = {name: np.concatenate([sample[name] for sample in theory]) for name in names}
        return lambda _: values

    worst = max(float(s["residual"][0]) for s in samples if "residual" in s.results[0])
    check = Check.at_most("largest residual of the equations", worst, TOLERANCE)
    return charts(curves_of(figure, samples, solved), _line(figure, preset), panels) + Outcome(checks=[check])
