"""Convex losses and penalties of the readout fit (appendix C): finite-size theory over the real network.

Settings, beside those of `gradstep.papers.experiment.Curves`
-------------------------------------------------------------
base, curves : parameters of `Problem.cui2024`, and loss, penalty, channel, flip.
Presets have ``test_samples`` a network.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from gradstep.papers.charts import Curve
from gradstep.papers.experiment import Curves
from gradstep.papers.outcome import Check, Outcome
from gradstep.papers.places import Place, Sample, Settings, on_curve
from gradstep.problem import Problem
from gradstep.simulation.convex_measurement import convex_measurement
from gradstep.theory.convex.convex_loss import TOLERANCE, convex_prediction

_OF_THE_FIT = ("loss", "penalty", "channel", "flip")


def _split(parameters: Settings) -> tuple[Problem, dict[str, Any], list[str]]:
    """Return the problem, the options of the fit, and the quantities asked for."""
    chosen = dict(parameters)
    quantities = chosen.pop("quantities")
    chosen.pop("test_samples", None)
    fit = {name: chosen.pop(name) for name in _OF_THE_FIT if name in chosen}
    return Problem.cui2024(**{**chosen, "alpha0": float(chosen["alpha0"])}), fit, quantities


def measure(parameters: Settings, seed: int) -> dict[str, float]:
    """Draw and fit one network."""
    problem, fit, quantities = _split(parameters)
    measured = convex_measurement(problem, [seed], test_samples=int(parameters["test_samples"]), **fit)
    return {name: float(measured[name][0]) for name in quantities}


def predict(parameters: Settings, seed: int) -> dict[str, float]:
    """Predict one place; the seed is not used."""
    problem, fit, quantities = _split(parameters)
    prediction = convex_prediction(problem, **fit)
    return {name: float(getattr(prediction, name)) for name in [*quantities, "residual"]}


class Convex(Curves):
    """Fields of `gradstep.theory.convex.convex_loss.ConvexPrediction`. They take long: the workers compute them too."""

    measure = staticmethod(measure)
    names: ClassVar = {
        "test_error": "test error",
        "test_loss": "mean loss on fresh samples",
        "classification_error": "classification error",
        "train_error": "mean loss on the training samples",
        "train_loss": "training loss with the penalty",
        "train_classification_error": "training classification error",
        "active_fraction": "share of neurons in use",
    }
    y_scale = "linear"

    def parameters(self, curve: Settings, x: Any = None) -> dict[str, Any]:
        """Return the parameters of both."""
        return {**super().parameters(curve, x), "quantities": list(self.quantities)}

    def places(self) -> Iterator[Place]:
        """Yield the theory along each line, and where networks are drawn; then the networks."""
        for curve in self.curves:
            for x in sorted({*self.grid.tolist(), *map(float, self.preset["points"])}):
                yield Place(predict, self.parameters(curve, x), f"{curve['label']}/theory", x, seeds=(0,))
        yield from super().places()

    def chart(self, curve: Settings, samples: Sequence[Sample]) -> Curve:
        """Return a curve with the theory that was computed."""
        solved = on_curve(samples, f"{curve['label']}/theory")
        values = {name: np.concatenate([sample[name] for sample in solved]) for name in self.quantities}
        return replace(super().chart(curve, samples), theory=lambda _: values)

    def outcome(self, samples: Sequence[Sample]) -> Outcome:
        """Put the lines under the points, and judge that the equations are solved."""
        worst = max(float(s["residual"][0]) for s in samples if "residual" in s.results[0])
        check = Check.at_most("the equations are solved to {}", worst, TOLERANCE)
        return super().outcome(samples) + Outcome(checks=[check])
