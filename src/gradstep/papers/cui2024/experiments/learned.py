"""The learned function along the target's direction and along the spike, for several samples of the step.

The parameters are activation, teacher, eta_tilde, alpha, beta, lam and, of the curves, alpha0 (0 and inf allowed).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from gradstep.gaussian import ScalarFunction, scalar_function, smoothed
from gradstep.panels import Line, Panel, Style
from gradstep.papers.charts import Theory
from gradstep.papers.cui2024.drawn import FirstLayer, network_of
from gradstep.papers.cui2024.errors import learned_along_target, learned_function, summary_statistics
from gradstep.papers.cui2024.experiments.measured import extrapolated, layer_of, samples_of, with_models
from gradstep.papers.experiment import Array, Curves
from gradstep.papers.places import Settings
from gradstep.problem import Problem
from gradstep.simulation.instance import TEACHER_AXIS
from gradstep.theory import predict
from gradstep.theory.prediction import mean_curve


def conditional_mean(
    layer: FirstLayer, readout: Array, sigma: str | ScalarFunction, direction: Array, projections: Array
) -> Array:
    """Return the mean output of a network given the projections (m,) of inputs on a direction, given its weights.

    It is exact. The direction (d,) is a unit vector, and the readout (p,) that of the raw features.
    """
    along = layer.weights @ direction
    rest = np.sqrt(np.maximum((layer.weights**2).sum(axis=1) - along**2, 0.0))
    return np.asarray(smoothed(scalar_function(sigma), along[:, None] * projections, rest[:, None]).mean.T @ readout)


@extrapolated
def measure(parameters: Settings, d: int, seed: int) -> dict[str, Array]:
    """Train a model, and return its conditional means along both directions."""
    layer, sigma = layer_of(parameters, d, seed), parameters["activation"]
    readout = network_of(layer, **samples_of(parameters, d, seed)).fit().readouts[:, 0]
    points = np.asarray(parameters["points"], dtype=np.float64)
    directions = {"target": np.eye(1, d, TEACHER_AXIS)[0], "spike": layer.direction}
    return {name: conditional_mean(layer, readout, sigma, v, points) for name, v in directions.items()}


class Learned(Curves):
    """The learned functions of networks, drawn, and of spiked random features, which are compared only."""

    measure = staticmethod(measure)
    names: ClassVar = {"target": "along the target's direction", "spike": "along the spike"}

    @property
    def curves(self) -> Sequence[Settings]:
        """Every curve with both models."""
        return with_models(self.settings["curves"], {"network": "network", "srf": "spiked features"})

    def parameters(self, curve: Settings, x: Any = None) -> dict[str, Any]:
        """Return the parameters of a model."""
        return {**super().parameters(curve, x), "model": curve["model"]}

    def drawn(self, curve: Settings, x: Any) -> tuple[str, object] | None:
        """Return what seeds are drawn for."""
        return curve["label"], curve["model"]

    def theory(self, curve: Settings, x: Array) -> Mapping[str, ArrayLike]:
        """Return what the network learns in its own limit; of spiked random features, Result 3.3."""
        if curve["model"] == "srf":
            return self._published(curve, x)
        found = predict(Problem.cui2024(**self.settings["base"], **curve["parameters"]))
        spike = mean_curve([(1.0, found.curve.kappa, found.curve.learned)], x)
        return _along(curve, found.curve.along_teacher(x, found.alignment), spike)

    def _published(self, curve: Settings, x: Array) -> Mapping[str, ArrayLike]:
        given = {**self.settings["base"], **curve["parameters"]}
        sigma = given.pop("activation")
        found = summary_statistics(sigma, given.pop("teacher"), **given)
        return _along(curve, learned_along_target(sigma, found, x), learned_function(sigma, found, x))

    def beside(self, curve: Settings) -> Mapping[Style, Theory]:
        """Return the paper's model, over that of the network."""
        return {"dashed": partial(self._published, curve)}

    def panels(self, title: str) -> dict[str, Panel]:
        """Return the axes of the network, with the target."""
        if title != "network":
            return {}
        target = scalar_function(self.settings["base"]["teacher"])(self.grid)
        panels = {name: Panel(text, "projection of the input", "mean output") for name, text in self.names.items()}
        panels["target"] = replace(panels["target"], lines=[Line.of(self.grid, target, "target", "teacher")])
        return panels


def _along(curve: Settings, target: Array, spike: Array) -> dict[str, Array]:
    """Return what is learned along both directions; without a step there is no direction of a spike."""
    return {"target": target} | ({"spike": spike} if curve["parameters"]["alpha0"] > 0 else {})
