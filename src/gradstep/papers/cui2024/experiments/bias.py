"""A bias common to all neurons: errors against a given bias, and the bias that training finds.

Settings
--------
base : activation, teacher, r, c, gamma, alpha, beta, lam, sigma_eps.
axis : range of the lines in b (``from``, ``to``, ``count``).
bracket : where the drawn models look for their trained bias.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from gradstep.gaussian import ScalarFunction, scalar_function
from gradstep.papers.cui2024.bias import biased_lower_bound, biased_statistics, trained_bias
from gradstep.papers.cui2024.bounds import lower_bound
from gradstep.papers.cui2024.drawn import fit, network_of, spiked_layer
from gradstep.papers.cui2024.experiments.measured import extrapolate
from gradstep.papers.figure import Figure, by_point, point_seeds
from gradstep.papers.outcome import Check, Comparison, Outcome, compare, points_of
from gradstep.papers.panels import Line, Mark, Panel
from gradstep.sweeps import Result, Task

__all__ = ["assemble", "measure", "tasks"]

_NAMES = {"test_error": "test error", "train_loss": "training loss"}


def tasks(figure: Figure, preset: Mapping[str, Any]) -> list[Task]:
    """List one drawn model a given bias and seed, then one a seed whose bias is trained."""
    shared = {**figure.settings["base"], "d": int(preset["d"])}
    return [
        Task(f"{__name__}:measure", {**shared, "b": float(b)}, seed)
        for b in preset["points"]
        for seed in point_seeds(figure.name, "given", b, preset)
    ] + [
        Task(f"{__name__}:measure", {**shared, "bracket": list(figure.settings["bracket"])}, seed)
        for seed in point_seeds(figure.name, "trained", "", preset)
    ]


def measure(parameters: Mapping[str, Any], seed: int) -> dict[str, float]:
    """Fit a drawn model at d and at d/2, and extrapolate to infinite d."""
    return extrapolate(lambda d: _drawn(parameters, d, seed), int(parameters["d"]))


def _drawn(parameters: Mapping[str, Any], d: int, seed: int) -> dict[str, float]:
    width, n = (round(float(parameters[name]) * d) for name in ("beta", "alpha"))
    layer = spiked_layer(seed, width, d, r=parameters["r"], c=parameters["c"], gamma=parameters["gamma"])
    teacher, lam, noise = scalar_function(parameters["teacher"]), float(parameters["lam"]), parameters["sigma_eps"]

    def loss_at(b: float) -> float:
        shifted = _shifted(parameters["activation"], b)
        drawn = network_of(layer, shifted, teacher, n=n, lam=lam, seed=seed, sigma_eps=noise)
        return float(drawn.fit().train_loss[0])

    if "bracket" in parameters:
        found = minimize_scalar(
            lambda b: loss_at(float(b)), bounds=parameters["bracket"], method="bounded", options={"xatol": 3e-3}
        )
        return {"trained": float(found.x)}
    shifted = _shifted(parameters["activation"], float(parameters["b"]))
    fitted = fit(layer, shifted, teacher, n=n, lam=lam, seed=seed, sigma_eps=noise)
    return {"test_error": fitted.test_error, "train_loss": fitted.train_loss}


def _shifted(activation: str, b: float) -> ScalarFunction:
    return scalar_function(f"{activation}(x + {b!r})" if b >= 0 else f"{activation}(x - {-b!r})")


def assemble(figure: Figure, preset: Mapping[str, Any], results: Sequence[Result]) -> Outcome:
    """Put the equations with a bias under the drawn models."""
    base, axis = figure.settings["base"], figure.settings["axis"]
    places, count = [float(b) for b in preset["points"]], int(preset["seeds"])
    given, free = results[: len(places) * count], results[len(places) * count :]
    grid = np.linspace(axis["from"], axis["to"], axis["count"])
    at_places, at_grid = (biased_statistics(**_arguments(base), b=b) for b in (np.asarray(places), grid))
    comparisons = {
        name: [
            compare(
                float(value),
                [r[name] for r in own],
                curve="bias",
                place=b,
                quantity=_NAMES[name],
                sample=f"b = {b}",
            )
            for b, value, own in zip(places, getattr(at_places, name), by_point(given, preset), strict=True)
        ]
        for name in _NAMES
    }
    best = trained_bias(**_arguments(base))
    trained = compare(best.bias, [r["trained"] for r in free], curve="bias", place="trained", quantity="b")
    marks = [Mark(best.bias, "trained", "infinite"), Mark(trained.mean, "", "infinite", measured=True)]
    spike = {name: base[name] for name in ("r", "c", "gamma")}
    bound, at = biased_lower_bound(base["activation"], base["teacher"], **spike)
    plain = float(lower_bound(base["activation"], base["teacher"], **spike))
    panels = tuple(
        _panel(name, grid.tolist(), getattr(at_grid, name).tolist(), own, marks) for name, own in comparisons.items()
    )
    check = Check.at_most("bound (132) with the best bias over (27) without", bound / plain, 1.0)
    d = int(preset["d"])
    notes = (
        f"The test error is at least {plain:.4f} without a bias (27), and {bound:.4f} at the best one, {at:.2f} (132). "
        f"Lines: Result 3.3 with (131). Points: spiked random features, extrapolated from d = {d // 2} and {d}."
    )
    every = (*(c for own in comparisons.values() for c in own), trained)
    return Outcome(panels, every, (check,), notes=notes)


def _arguments(base: Mapping[str, Any]) -> dict[str, Any]:
    arguments = dict(base)
    return {"sigma": arguments.pop("activation"), "sigma_star": arguments.pop("teacher"), **arguments}


def _panel(
    name: str,
    x: Sequence[float],
    y: Sequence[float],
    drawn: Sequence[Comparison],
    marks: Sequence[Mark],
) -> Panel:
    return Panel(
        _NAMES[name],
        "bias b",
        _NAMES[name],
        y_scale="log",
        lines=[Line(x, y, "", "large")],
        points=[points_of(drawn, "", "large")],
        marks=marks,
    )
