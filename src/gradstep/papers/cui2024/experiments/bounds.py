"""The bounds (26) to (28) with the functions that realise them, against drawn spiked random features.

Settings
--------
activation, teacher : functions; the step is of a population gradient: c = 1 and gamma = 1.
shown : learning rate whose functions are drawn.
axis : range of learning rates (``from``, ``to``, ``count``).
alpha, beta : sample and width ratio of the fits.
large_penalty : penalty of the models drawn on the upper bound: large, but small next to d. The others are drawn at the
    penalty of least test error up to this one, as the bounds assume.
range : the projection runs from minus to plus this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradstep.gaussian import scalar_function
from gradstep.papers.cui2024.bounds import (
    best_lower_bound,
    best_upper_bound,
    lower_bound,
    realised_functions,
    upper_bound,
)
from gradstep.papers.cui2024.drawn import fit, spiked_layer
from gradstep.papers.cui2024.errors import learned_function, summary_statistics
from gradstep.papers.cui2024.experiments.learned import conditional_mean
from gradstep.papers.cui2024.experiments.measured import extrapolate
from gradstep.papers.cui2024.spiked import equivalent_srf
from gradstep.papers.figure import Figure, by_point, point_seeds
from gradstep.papers.outcome import Check, Comparison, Outcome, compare, points_of
from gradstep.papers.panels import Line, Mark, Panel, Points
from gradstep.sweeps import Result, Task
from gradstep.theory.large_step import LargeStep

__all__ = ["assemble", "measure", "tasks"]

Array = NDArray[np.float64]


def _strength(figure: Figure, eta: Any) -> Array:
    settings = figure.settings
    model = equivalent_srf(settings["activation"], settings["teacher"], eta_tilde=eta, alpha0=np.inf)
    return model.strength


def _penalties(figure: Figure, rates: Sequence[float]) -> dict[str, Array]:
    """Penalties of the drawn models: the large one, and for each learning rate the best up to it."""
    largest = float(figure.settings["large_penalty"])
    grid = np.geomspace(1e-3 * largest, largest, 31)
    errors = _statistics(figure, np.asarray(rates)[:, None], lam=grid).test_error
    return {"large": np.full(len(rates), largest), "best": grid[np.argmin(errors, axis=1)]}


def tasks(figure: Figure, preset: Mapping[str, Any]) -> list[Task]:
    """List one model a learning rate, penalty and seed."""
    settings = figure.settings
    shared = {name: settings[name] for name in ("activation", "teacher", "alpha", "beta")}
    shared |= {"d": int(preset["d"]), "points": [float(t) for t in preset["points"]]}
    return [
        Task(f"{__name__}:measure", {**shared, "r": float(_strength(figure, eta)), "lam": float(lam)}, seed)
        for kind, penalties in _penalties(figure, preset["rates"]).items()
        for eta, lam in zip(preset["rates"], penalties, strict=True)
        for seed in point_seeds(figure.name, kind, eta, preset)
    ]


def measure(parameters: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Fit a drawn model at d and at d/2, and extrapolate its error and learned function to infinite d."""
    found = extrapolate(lambda d: _drawn(parameters, d, seed), int(parameters["d"]))
    return {name: value.tolist() for name, value in found.items()}


def _drawn(parameters: Mapping[str, Any], d: int, seed: int) -> dict[str, Array]:
    sigma, sigma_star = scalar_function(parameters["activation"]), scalar_function(parameters["teacher"])
    width, n = (round(float(parameters[name]) * d) for name in ("beta", "alpha"))
    layer = spiked_layer(seed, width, d, r=float(parameters["r"]), c=1.0, gamma=1.0)
    fitted = fit(layer, sigma, sigma_star, n=n, lam=float(parameters["lam"]), seed=seed)
    points = np.asarray(parameters["points"], dtype=np.float64)
    return {
        "test_error": np.asarray(fitted.test_error),
        "function": conditional_mean(layer, fitted.readout, sigma, layer.direction, points),
    }


def _statistics(figure: Figure, eta: Any, **ratios: Any) -> LargeStep:
    settings = figure.settings
    chosen = {"alpha": settings["alpha"], "beta": settings["beta"]} | ratios
    return summary_statistics(settings["activation"], settings["teacher"], eta_tilde=eta, alpha0=np.inf, **chosen)


def assemble(figure: Figure, preset: Mapping[str, Any], results: Sequence[Result]) -> Outcome:
    """Put the bounds and their functions under the drawn models."""
    settings = figure.settings
    rates = [float(eta) for eta in preset["rates"]]
    points = np.asarray(preset["points"], dtype=np.float64)
    place = rates.index(float(settings["shown"]))
    errors: dict[str, list[Comparison]] = {}
    functions: dict[str, list[Comparison]] = {}
    for index, (kind, penalties) in enumerate(_penalties(figure, rates).items()):
        groups = by_point(results, preset)[index * len(rates) : (index + 1) * len(rates)]
        theory = _statistics(figure, rates, lam=penalties)
        label = f"{kind} penalty"
        errors[kind] = [
            compare(float(value), [r["test_error"] for r in own], curve=label, place=eta)
            for eta, value, own in zip(rates, theory.test_error, groups, strict=True)
        ]
        shown = _statistics(figure, rates[place], lam=penalties[place])
        functions[kind] = [
            compare(
                float(value),
                [r["function"][k] for r in groups[place]],
                curve=label,
                place=float(t),
                quantity="mean output",
            )
            for k, (t, value) in enumerate(
                zip(points, learned_function(settings["activation"], shown, points), strict=True)
            )
        ]
    panels = (_functions(figure, functions), _errors(figure, errors))
    d = int(preset["d"])
    notes = (
        "Left: at one learning rate, the best multiple of mu_0, which infinite penalty learns, and the best function "
        "of the span of mu_0 and kappa mu_1, which bounds every fit. Right: the bounds against the learning rate. "
        f"Points: spiked random features, judged against Result 3.3, extrapolated from d = {d // 2} and {d}."
    )
    every = [c for group in (errors, functions) for own in group.values() for c in own]
    return Outcome(panels, tuple(every), _checks(figure), notes=notes)


def _points(drawn: Mapping[str, Sequence[Comparison]]) -> list[Points]:
    labels = {"large": ("(26)", "few"), "best": ("best penalty", "large")}
    return [points_of(own, *labels[kind]) for kind, own in drawn.items()]


def _functions(figure: Figure, drawn: Mapping[str, Sequence[Comparison]]) -> Panel:
    settings = figure.settings
    pair, shown = (settings["activation"], settings["teacher"]), float(settings["shown"])
    grid = np.linspace(-float(settings["range"]), float(settings["range"]), 121)
    realised = realised_functions(*pair, r=float(_strength(figure, shown)), kappa=grid)
    statistics = _statistics(figure, shown, lam=_penalties(figure, [shown])["best"][0])
    x = grid.tolist()
    lines = [
        Line(x, scalar_function(settings["teacher"])(grid).tolist(), "target", "teacher"),
        Line(x, realised.upper.tolist(), "(26)", "few"),
        Line(x, learned_function(pair[0], statistics, grid).tolist(), "best penalty", "large"),
        Line(x, realised.lower.tolist(), "(27)", "infinite"),
    ]
    title = f"functions at learning rate {shown:g}"
    return Panel(title, "projection on the spike", "mean output", lines=lines, points=_points(drawn))


def _errors(figure: Figure, drawn: Mapping[str, Sequence[Comparison]]) -> Panel:
    settings = figure.settings
    pair = settings["activation"], settings["teacher"]
    axis = settings["axis"]
    grid = np.linspace(axis["from"], axis["to"], axis["count"])
    strengths = _strength(figure, grid)
    best_fit = _statistics(figure, grid, lam=_penalties(figure, grid.tolist())["best"]).test_error
    curves = (
        ("(26)", "few", upper_bound(*pair, r=strengths)),
        ("best penalty", "large", best_fit),
        ("(27)", "infinite", lower_bound(*pair, r=strengths)),
    )
    lines = [Line(grid.tolist(), values.tolist(), name, regime) for name, regime, values in curves]
    marks = [
        Mark(best.step_size, label, regime)
        for best, label, regime in (
            (best_upper_bound(*pair), "best rate, (26)", "few"),
            (best_lower_bound(*pair), "best rate, (27)", "infinite"),
        )
        if np.isfinite(best.step_size) and best.step_size <= axis["to"]
    ]
    return Panel(
        "bounds on the test error",
        "learning rate (eta_tilde)",
        "test error",
        y_scale="log",
        lines=lines,
        points=_points(drawn),
        marks=marks,
    )


def _checks(figure: Figure) -> tuple[Check, ...]:
    settings = figure.settings
    pair, shown = (settings["activation"], settings["teacher"]), float(settings["shown"])
    perfect = best_upper_bound("erf", "erf")
    rate = abs(perfect.step_size / (3 * np.sqrt(3) * np.pi / 4) - 1)
    strength = float(_strength(figure, shown))
    lower, upper = float(lower_bound(*pair, r=strength)), float(upper_bound(*pair, r=strength))
    stiff = abs(float(_statistics(figure, shown, lam=1e8).test_error) / upper - 1)
    rich = float(_statistics(figure, shown, alpha=1e6, beta=1e3, lam=1e-9).test_error) / lower - 1
    found = (
        ("(28) vanishes for matching erf functions", perfect.error, 1e-10),
        ("their best learning rate is 3 sqrt(3) pi / 4 (relative)", rate, 1e-6),
        ("distance to (26) at a penalty of 1e8 (relative)", stiff, 1e-6),
        ("distance to (27) of a wide network with many samples (relative)", rich, 0.02),
    )
    return tuple(Check(label, float(value), bound, bool(0 <= value <= bound)) for label, value, bound in found)
