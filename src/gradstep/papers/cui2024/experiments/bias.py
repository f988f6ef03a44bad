"""A bias common to all neurons: errors against a given bias, and the bias that training finds.

Settings
--------
base : activation, teacher, r, c, gamma, alpha, beta, lam, sigma_eps.
axis : range of the lines in b (``from``, ``to``, ``count``).
bracket : where the drawn models look for their trained bias.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from gradstep.papers.charts import Curve, charts, grid_of
from gradstep.papers.cui2024.bias import biased_lower_bound, biased_statistics, trained_bias
from gradstep.papers.cui2024.bounds import lower_bound
from gradstep.papers.cui2024.drawn import fit, network_of
from gradstep.papers.cui2024.experiments.measured import extrapolate, layer_of, samples_of
from gradstep.papers.figure import Figure
from gradstep.papers.outcome import Check, Outcome
from gradstep.papers.panels import Mark, Panel
from gradstep.papers.places import Place, Sample

__all__ = ["measure", "outcome", "places"]

Array = NDArray[np.float64]

_NAMES = {"test_error": "test error", "train_loss": "training loss"}


def places(figure: Figure, preset: Mapping[str, Any]) -> Iterator[Place]:
    """Drawn models at every given bias, then models whose bias is trained."""
    shared = {**figure.settings["base"], "d": int(preset["d"])}
    for b in preset["points"]:
        yield Place(measure, {**shared, "b": float(b)}, "given", b)
    yield Place(measure, {**shared, "bracket": list(figure.settings["bracket"])}, "trained", "")


def measure(parameters: Mapping[str, Any], seed: int) -> dict[str, float]:
    """Fit a drawn model at d and at d/2, and extrapolate to infinite d."""
    return extrapolate(lambda d: _drawn(parameters, d, seed), int(parameters["d"]))


def _drawn(parameters: Mapping[str, Any], d: int, seed: int) -> dict[str, float]:
    layer, samples = layer_of(parameters, d, seed), samples_of(parameters, d, seed)

    def at(b: float) -> dict[str, Any]:
        return {**samples, "sigma": _shifted(parameters["activation"], b)}

    if "bracket" in parameters:
        found = minimize_scalar(
            lambda b: float(network_of(layer, **at(float(b))).fit().train_loss[0]),
            bounds=parameters["bracket"],
            method="bounded",
            options={"xatol": 3e-3},
        )
        return {"trained": float(found.x)}
    fitted = fit(layer, **at(float(parameters["b"])))
    return {"test_error": fitted.test_error, "train_loss": fitted.train_loss}


def _shifted(activation: str, b: float) -> str:
    return f"{activation}(x + {b!r})" if b >= 0 else f"{activation}(x - {-b!r})"


def outcome(figure: Figure, preset: Mapping[str, Any], samples: Sequence[Sample]) -> Outcome:
    """Put the equations with a bias under the drawn models."""
    base, d = figure.settings["base"], int(preset["d"])
    *given, free = samples
    best = trained_bias(**_arguments(base))
    trained = free.compare(best.bias, "trained", curve="bias", place="trained", quantity="b")
    marks = [Mark(best.bias, "trained", "infinite"), Mark(trained.mean, "", "infinite", measured=True)]
    panels = {name: Panel(text, "bias b", text, y_scale="log", marks=marks) for name, text in _NAMES.items()}

    def result(b: Array) -> dict[str, Array]:
        found = biased_statistics(**_arguments(base), b=b)
        return {name: getattr(found, name) for name in _NAMES}

    curve = Curve("", "large", result, given, name="bias")
    found = charts([curve], grid_of(figure.settings["axis"]), panels)
    spike = {name: base[name] for name in ("r", "c", "gamma")}
    bound, at = biased_lower_bound(base["activation"], base["teacher"], **spike)
    plain = float(lower_bound(base["activation"], base["teacher"], **spike))
    check = Check.at_most("bound (132) with the best bias over (27) without", bound / plain, 1.0)
    notes = (
        f"The test error is at least {plain:.4f} without a bias (27), and {bound:.4f} at the best one, {at:.2f} (132). "
        f"Lines: Result 3.3 with (131). Points: spiked random features, extrapolated from d = {d // 2} and {d}."
    )
    return found + Outcome(comparisons=[trained], checks=[check], notes=notes)


def _arguments(base: Mapping[str, Any]) -> dict[str, Any]:
    arguments = dict(base)
    return {"sigma": arguments.pop("activation"), "sigma_star": arguments.pop("teacher"), **arguments}
