"""The functions that a step makes available: mu_0 and kappa mu_1 for several learning rates, and in real networks.

Settings
--------
activation, teacher, alpha0 : functions, and samples of the step per dimension.
curves : label, regime, eta_tilde, and ``up_to``, the largest projection measured: beyond, the neurons have saturated,
    and what is left to compare is exponentially small and set by the chance length of each network's spike.
range : the projection runs from minus to plus this.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradstep.gaussian import scalar_function, smoothed
from gradstep.papers.charts import Curve, Theory, charts
from gradstep.papers.cui2024.drawn import stepped_layer
from gradstep.papers.cui2024.experiments.measured import extrapolate, problem_of, projections
from gradstep.papers.cui2024.spiked import conditional_features, equivalent_srf
from gradstep.papers.figure import Figure
from gradstep.papers.outcome import Outcome
from gradstep.papers.panels import Panel
from gradstep.papers.places import Place, Sample

__all__ = ["measure", "outcome", "places"]

Array = NDArray[np.float64]

_FUNCTIONS = {"mean": "mu_0", "tilt": "kappa mu_1"}


def places(figure: Figure, preset: Mapping[str, Any]) -> Iterator[Place]:
    """Steps of every curve, at each of which all projections are measured."""
    settings = figure.settings
    shared = {name: settings[name] for name in ("activation", "teacher", "alpha0")} | {"d": int(preset["d"])}
    for curve in settings["curves"]:
        kappas = [float(kappa) for kappa in preset["points"] if kappa <= curve["up_to"]]
        step = {"eta_tilde": float(curve["eta_tilde"]), "kappas": kappas}
        yield Place(measure, {**shared, **step}, curve["label"], "")


def measure(parameters: Mapping[str, Any], seed: int) -> dict[str, list[float]]:
    """Average the conditional features over the neurons of a network at d and at d/2, and extrapolate."""
    return extrapolate(lambda d: _drawn(parameters, d, seed), int(parameters["d"]))


def _drawn(parameters: Mapping[str, Any], d: int, seed: int) -> dict[str, Array]:
    layer = stepped_layer(problem_of(parameters, d), seed)
    along = layer.weights @ layer.direction
    rest = np.sqrt((layer.weights**2).sum(axis=1) - along**2)[:, None]
    kappa = np.asarray(parameters["kappas"], dtype=np.float64)
    features = smoothed(scalar_function(parameters["activation"]), along[:, None] * kappa, rest)
    return {"mean": features.mean.mean(axis=0), "tilt": kappa * (features.slope / rest).mean(axis=0)}


def _theory(figure: Figure, curve: Mapping[str, Any]) -> Theory:
    settings = figure.settings
    activation, step = settings["activation"], {"eta_tilde": curve["eta_tilde"], "alpha0": settings["alpha0"]}
    spike = equivalent_srf(activation, settings["teacher"], **step)

    def functions(kappa: Array) -> dict[str, Array]:
        mean, slope, _ = conditional_features(activation, kappa, r=spike.strength, c=spike.bulk_variance)
        return {"mean": mean, "tilt": kappa * slope}

    return functions


def outcome(figure: Figure, preset: Mapping[str, Any], samples: Sequence[Sample]) -> Outcome:
    """Put the functions of Result 3.2 under the averages over neurons."""
    settings = figure.settings
    curves = [
        Curve(curve["label"], curve["regime"], _theory(figure, curve), sample.spread("kappas"))
        for curve, sample in zip(settings["curves"], samples, strict=True)
    ]
    panels = {name: Panel(title, "projection on the spike", title) for name, title in _FUNCTIONS.items()}
    return charts(curves, projections(settings), panels)
