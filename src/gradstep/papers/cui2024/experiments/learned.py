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
from gradstep.papers.charts import Curve, Theory, charts
from gradstep.papers.cui2024.drawn import FirstLayer, network_of
from gradstep.papers.cui2024.errors import learned_along_target, learned_function, summary_statistics
from gradstep.papers.cui2024.experiments.measured import extrapolate, layer_of, projections, samples_of
from gradstep.papers.figure import Figure
from gradstep.papers.outcome import Outcome
from gradstep.papers.panels import Line, Panel
from gradstep.papers.places import Place, Sample
from gradstep.problem import Problem
from gradstep.simulation.instance import TEACHER_AXIS
from gradstep.theory import predict
from gradstep.theory.prediction import mean_curve

__all__ = ["conditional_mean", "measure", "outcome", "places"]

Array = NDArray[np.float64]

_MODELS = ("network", "srf")

_DIRECTIONS = {"target": "along the target's direction", "spike": "along the spike"}


def conditional_mean(
    layer: FirstLayer, readout: Array, sigma: str | ScalarFunction, direction: Array, projections: Array
) -> Array:
    """Mean output of a network given the projection of the input on a direction: exact, given the weights.

    Parameters
    ----------
    layer : FirstLayer
    readout : ndarray, shape (p,)
        Readout of the raw features.
    sigma : str or ScalarFunction
    direction : ndarray, shape (d,)
        Unit vector.
    projections : ndarray, shape (m,)

    Returns
    -------
    ndarray, shape (m,)
    """
    along = layer.weights @ direction
    rest = np.sqrt(np.maximum((layer.weights**2).sum(axis=1) - along**2, 0.0))
    return np.asarray(smoothed(scalar_function(sigma), along[:, None] * projections, rest[:, None]).mean.T @ readout)


def places(figure: Figure, preset: Mapping[str, Any]) -> Iterator[Place]:
    """Networks and spiked random features models of every curve, measured at all projections."""
    sizes = {"d": int(preset["d"]), "points": [float(t) for t in preset["points"]]}
    for curve in figure.settings["curves"]:
        if not curve.get("theory_only", False):
            for model in _MODELS:
                parameters = {**figure.settings["base"], "alpha0": float(curve["alpha0"]), "model": model, **sizes}
                yield Place(measure, parameters, curve["label"], model)


def measure(parameters: Mapping[str, Any], seed: int) -> dict[str, list[float]]:
    """Train a model at d and at d/2, and extrapolate its conditional means to infinite d."""
    return extrapolate(lambda d: _drawn(parameters, d, seed), int(parameters["d"]))


def _drawn(parameters: Mapping[str, Any], d: int, seed: int) -> dict[str, Array]:
    layer, sigma = layer_of(parameters, d, seed), parameters["activation"]
    readout = network_of(layer, **samples_of(parameters, d, seed)).fit().readouts[:, 0]
    target = np.eye(1, d, TEACHER_AXIS)[0]
    points = np.asarray(parameters["points"], dtype=np.float64)
    return {
        "target": conditional_mean(layer, readout, sigma, target, points),
        "spike": conditional_mean(layer, readout, sigma, layer.direction, points),
    }


def _of_network(figure: Figure, curve: Mapping[str, Any]) -> Theory:
    """Return what the network learns along both directions, in its own limit."""
    found = predict(Problem.cui2024(**figure.settings["base"], alpha0=float(curve["alpha0"])))
    return lambda points: {
        "target": found.curve.along_teacher(points, found.alignment),
        "spike": mean_curve([(1.0, found.curve.kappa, found.curve.learned)], points),
    }


def _published(figure: Figure, curve: Mapping[str, Any]) -> Theory:
    """Return the same of spiked random features, by Result 3.3."""
    base = dict(figure.settings["base"])
    sigma = base.pop("activation")
    found = summary_statistics(sigma, base.pop("teacher"), alpha0=float(curve["alpha0"]), **base)
    return lambda points: {
        "target": learned_along_target(sigma, found, points),
        "spike": learned_function(sigma, found, points),
    }


def outcome(figure: Figure, preset: Mapping[str, Any], samples: Sequence[Sample]) -> Outcome:
    """Put the learned functions of the theory under those of the networks."""
    settings = figure.settings
    grid = projections(settings)
    measured = {(sample.place.curve, sample.place.x): sample.spread("points") for sample in samples}
    target = scalar_function(settings["base"]["teacher"])
    found = Outcome()
    for name, words in _DIRECTIONS.items():
        lines = [Line.of(grid, target(grid), "target", "teacher")] if name == "target" else []
        panel = Panel(words, "projection of the input", "mean output", lines=lines)
        # Without a step there is no spike to look along.
        shown = [curve for curve in settings["curves"] if name == "target" or float(curve["alpha0"]) > 0]
        networks, models = [], []
        for curve in shown:
            label, regime, published = curve["label"], curve["regime"], _published(figure, curve)
            network, srf = (measured.get((label, model), []) for model in _MODELS)
            learned = _of_network(figure, curve)
            name_of = f"{label}, {{}}, {words}".format
            networks.append(Curve(label, regime, learned, network, name_of("network"), {"dashed": published}))
            models.append(Curve(label, regime, published, srf, name_of("sRF")))
        found += charts(networks, grid, {name: panel}) + charts(models, grid, {}, {name: "mean output"})
    return found
