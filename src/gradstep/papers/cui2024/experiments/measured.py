"""Parts of all measurements on drawn models: problem, spike, layer, samples of the fit, extrapolation in 1/d.

Parameters are activation, teacher, and as many of alpha, beta, lam, sigma_eps, alpha0, eta_tilde as a measurement
needs. ``eta_per_d`` in place of eta_tilde is a learning rate that does not grow with the width. A spike that is given,
and not that of a step, has r, c and gamma.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any

import numpy as np

from gradstep.papers.cui2024.drawn import FirstLayer, spiked_layer, stepped_layer
from gradstep.papers.cui2024.spiked import Spike, equivalent_srf
from gradstep.papers.places import Settings
from gradstep.problem import Problem

_NAMES = ("activation", "teacher", "alpha", "alpha0", "beta", "lam")


def problem_of(parameters: Settings, d: float, **more: Any) -> Problem:
    """Return the problem of a real network; ``alpha`` and ``lam`` may be missing where nothing is fitted."""
    chosen = {"alpha": 1.0, "lam": 1.0} | {name: parameters[name] for name in _NAMES if name in parameters}
    noise = float(parameters.get("sigma_eps", 0.0))
    return Problem.cui2024(d=d, eta_tilde=_eta_tilde(parameters), noise=noise, **chosen, **more)


def _eta_tilde(parameters: Settings) -> float:
    if "eta_per_d" in parameters:
        return float(parameters["eta_per_d"]) / float(parameters["beta"])
    return float(parameters["eta_tilde"])


def spike_of(parameters: Settings) -> Spike:
    """Return the spike: as given, or that of a step (Result 3.1)."""
    if "r" in parameters:
        return Spike(*(np.asarray(parameters[name], dtype=np.float64) for name in ("r", "c", "gamma")))
    functions, noise = (parameters["activation"], parameters["teacher"]), parameters.get("sigma_eps", 0.0)
    alpha0 = np.asarray(parameters["alpha0"], dtype=np.float64)
    return equivalent_srf(*functions, eta_tilde=_eta_tilde(parameters), alpha0=alpha0, sigma_eps=noise)


def layer_of(parameters: Settings, d: int, seed: int) -> FirstLayer:
    """Return the first layer of a real network (``model`` says so), or of the spiked random features model."""
    if parameters.get("model") == "network":
        return stepped_layer(problem_of(parameters, d), seed)
    spike, width = spike_of(parameters), round(float(parameters["beta"]) * d)
    r, c, gamma = (float(value) for value in (spike.strength, spike.bulk_variance, spike.alignment))
    return spiked_layer(seed, width, d, r=r, c=c, gamma=gamma)


def samples_of(parameters: Settings, d: int, seed: int) -> dict[str, Any]:
    """Return functions, samples, penalty and noise of a fit, as `gradstep.papers.cui2024.drawn.network_of` has them."""
    return {
        "sigma": parameters["activation"],
        "sigma_star": parameters["teacher"],
        "n": round(float(parameters["alpha"]) * d),
        "lam": float(parameters["lam"]),
        "seed": seed,
        "sigma_eps": float(parameters.get("sigma_eps", 0.0)),
    }


def extrapolate(draw: Callable[[int], Mapping[str, Any]], d: int) -> dict[str, Any]:
    """Measure at d and at d/2, and extrapolate to infinite d: terms of order 1/d cancel in 2 q(d) - q(d/2)."""
    whole, half = draw(d), draw(d // 2)
    return {name: np.asarray(2 * value - half[name]).tolist() for name, value in whole.items()}


def extrapolated(draw: Callable[[Settings, int, int], Mapping[str, Any]]) -> Callable[[Settings, int], dict[str, Any]]:
    """Make a measurement of parameters and seed from one of parameters, size and seed: it is taken at d and at d/2."""

    @wraps(draw)
    def measure(parameters: Settings, seed: int) -> dict[str, Any]:
        return extrapolate(lambda d: draw(parameters, d, seed), int(parameters["d"]))

    return measure


def with_models(curves: Sequence[Settings], models: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return every curve with every model, by the names and the titles of the models; each model has its panels."""
    return [
        {
            **curve,
            "model": model,
            "panel": title,
            "name": f"{curve['label']}/{model}",
            "called": f"{curve['label']}, {title}",
        }
        for model, title in models.items()
        for curve in curves
    ]
