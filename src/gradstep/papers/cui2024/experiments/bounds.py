"""The bounds (26) to (28) with the functions that realise them, against drawn spiked random features.

Settings
--------
activation, teacher : functions; the step is of a population gradient: c = 1 and gamma = 1.
shown : learning rate whose functions are drawn.
axis : range of learning rates (``from``, ``to``).
alpha, beta : sample and width ratio of the fits.
large_penalty : penalty of the models drawn close to the upper bound: large, but small next to n. The others are drawn
    at the penalty of least test error, as the bounds assume.
range : the projection runs from minus to plus this.
Presets have ``rates`` drawn, ``points`` of the functions, and ``line``, the count of learning rates along the axis.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradstep.gaussian import scalar_function
from gradstep.papers.charts import grid_of
from gradstep.papers.cui2024.bounds import (
    best_penalty,
    best_step,
    lower_bound,
    realised_functions,
    upper_bound,
)
from gradstep.papers.cui2024.drawn import fit
from gradstep.papers.cui2024.errors import SummaryStatistics, learned_function, summary_statistics
from gradstep.papers.cui2024.experiments.learned import conditional_mean
from gradstep.papers.cui2024.experiments.measured import extrapolate, layer_of, projections, samples_of
from gradstep.papers.cui2024.spiked import equivalent_srf
from gradstep.papers.figure import Figure
from gradstep.papers.outcome import Check, Judged, Outcome, points_of
from gradstep.papers.panels import Line, Mark, Panel
from gradstep.papers.places import Place, Sample

__all__ = ["measure", "outcome", "places"]

Array = NDArray[np.float64]

#: Relative slack of a bound: twice what the equations are solved to.
_SLACK = 1e-9


def _strength(figure: Figure, eta: Any) -> Array:
    settings = figure.settings
    model = equivalent_srf(settings["activation"], settings["teacher"], eta_tilde=eta, alpha0=np.inf)
    return model.strength


def _best(figure: Figure, strength: float) -> tuple[float, float]:
    """Return the best penalty at a spike strength, and its test error."""
    settings = figure.settings
    return best_penalty(
        settings["activation"], settings["teacher"], r=strength, alpha=settings["alpha"], beta=settings["beta"]
    )


def places(figure: Figure, preset: Mapping[str, Any]) -> Iterator[Place]:
    """Models at a large and at the best penalty, for every learning rate."""
    settings = figure.settings
    shared = {name: settings[name] for name in ("activation", "teacher", "alpha", "beta")}
    shared |= {"d": int(preset["d"]), "points": [float(t) for t in preset["points"]]}
    for eta in map(float, preset["rates"]):
        strength = float(_strength(figure, eta))
        # Rounded, so that the last bits of a search do not make new measurements of finished ones.
        best = float(f"{_best(figure, strength)[0]:.3g}")
        for kind, lam in (("large", float(settings["large_penalty"])), ("best", best)):
            yield Place(measure, {**shared, "r": strength, "lam": lam}, kind, eta)


def measure(parameters: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Fit a drawn model at d and at d/2, and extrapolate its error and learned function to infinite d."""
    return extrapolate(lambda d: _drawn(parameters, d, seed), int(parameters["d"]))


def _drawn(parameters: Mapping[str, Any], d: int, seed: int) -> dict[str, Array]:
    layer = layer_of({**parameters, "c": 1.0, "gamma": 1.0}, d, seed)
    fitted = fit(layer, **samples_of(parameters, d, seed))
    points = np.asarray(parameters["points"], dtype=np.float64)
    return {
        "test_error": np.asarray(fitted.test_error),
        "function": conditional_mean(layer, fitted.readout, parameters["activation"], layer.direction, points),
    }


def _statistics(figure: Figure, eta: Any, **ratios: Any) -> SummaryStatistics:
    settings = figure.settings
    chosen = {"alpha": settings["alpha"], "beta": settings["beta"]} | ratios
    return summary_statistics(settings["activation"], settings["teacher"], eta_tilde=eta, alpha0=np.inf, **chosen)


def outcome(figure: Figure, preset: Mapping[str, Any], samples: Sequence[Sample]) -> Outcome:
    """Put the bounds and their functions under the drawn models."""
    labels = {"large": (f"penalty {figure.settings['large_penalty']:g}", "few"), "best": ("best penalty", "large")}
    errors: dict[str, list[Judged]] = {kind: [] for kind in labels}
    functions: dict[str, list[Judged]] = {}
    for sample in samples:
        kind, rate = sample.place.curve, sample.x
        found = _statistics(figure, rate, lam=sample.place.parameters["lam"])
        errors[kind].append(sample.compare(float(found.test_error), "test_error", curve=labels[kind][0]))
        if rate == float(figure.settings["shown"]):
            at = sample.spread("points")
            learned = learned_function(figure.settings["activation"], found, [t.x for t in at])
            words = {"curve": labels[kind][0], "quantity": "mean output"}
            functions[kind] = [t.compare(v, "function", **words) for t, v in zip(at, learned, strict=True)]
    panel, checks = _errors(figure, preset, errors)
    panels = [
        replace(axes, points=[points_of(own, *labels[kind]) for kind, own in drawn.items()])
        for axes, drawn in ((_functions(figure), functions), (panel, errors))
    ]
    every = [c for group in (errors, functions) for own in group.values() for c in own]
    return Outcome(tuple(panels), tuple(every), (*checks, *_limits(figure)))


def _functions(figure: Figure) -> Panel:
    settings = figure.settings
    pair, shown = (settings["activation"], settings["teacher"]), float(settings["shown"])
    grid = projections(settings)
    strength = float(_strength(figure, shown))
    realised = realised_functions(*pair, r=strength, kappa=grid)
    statistics = _statistics(figure, shown, lam=_best(figure, strength)[0])
    lines = [
        Line.of(grid, scalar_function(settings["teacher"])(grid), "target", "teacher"),
        Line.of(grid, realised.upper, "(26)", "few"),
        Line.of(grid, learned_function(pair[0], statistics, grid), "best penalty", "large"),
        Line.of(grid, realised.lower, "(27)", "infinite"),
    ]
    return Panel(f"functions at learning rate {shown:g}", "projection on the spike", "mean output", lines=lines)


def _errors(
    figure: Figure, preset: Mapping[str, Any], drawn: Mapping[str, Sequence[Judged]]
) -> tuple[Panel, tuple[Check, ...]]:
    """Draw the bounds over the learning rate, and judge that they bracket the error at the best penalty."""
    axis, pair = figure.settings["axis"], (figure.settings["activation"], figure.settings["teacher"])
    highest, lowest = best_step(*pair, bound="upper"), best_step(*pair, bound="lower")
    # The best rates are the places of the sharpest turns.
    turns = [(highest.step_size, "few"), (lowest.step_size, "infinite")]
    turns = [(rate, regime) for rate, regime in turns if rate <= axis["to"]]
    rates = np.unique([*grid_of(axis, preset), *(rate for rate, _ in turns)])
    strengths = _strength(figure, rates)
    upper, lower = upper_bound(*pair, r=strengths), lower_bound(*pair, r=strengths)
    best = np.array([_best(figure, float(r))[1] for r in strengths])
    curves = (("(26)", "few", upper), ("best penalty", "large", best), ("(27)", "infinite", lower))
    least = min(float(best.min()), _best(figure, highest.strength)[1])
    outside = [
        max(c.mean - float(above), float(under) - c.mean) / c.standard_error
        for c in drawn["best"]
        for above, under in [(f(*pair, r=float(_strength(figure, c.place))) for f in (upper_bound, lower_bound))]
    ]
    checks = (
        Check.at_most("error at the best penalty over (26), largest", float((best / upper).max()), 1 + _SLACK),
        Check.at_least("error at the best penalty over (27), smallest", float((best / lower).min()), 1 - _SLACK),
        Check.at_most("least error over the upper bound (28)", least / highest.error, 1 + _SLACK),
        Check.at_least("least error over the lower bound (28)", least / lowest.error, 1 - _SLACK),
        Check.at_most("drawn at the best penalty: standard errors out of the bracket", max(outside), 3),
    )
    panel = Panel(
        "bounds on the test error",
        "learning rate (eta_tilde)",
        "test error",
        y_scale="log",
        lines=[Line.of(rates, values, name, regime) for name, regime, values in curves],
        marks=[Mark(rate, "best", regime) for rate, regime in turns],
    )
    return panel, checks


def _limits(figure: Figure) -> tuple[Check, ...]:
    """Judge that the bounds are attained: in their limits, and by functions of the same kind."""
    settings = figure.settings
    pair, shown = (settings["activation"], settings["teacher"]), float(settings["shown"])
    perfect = best_step("erf", "erf")
    rate = abs(perfect.step_size / (3 * np.sqrt(3) * np.pi / 4) - 1)
    strength = float(_strength(figure, shown))
    lower, upper = float(lower_bound(*pair, r=strength)), float(upper_bound(*pair, r=strength))
    stiff = abs(float(_statistics(figure, shown, lam=1e8).test_error) / upper - 1)
    rich = float(_statistics(figure, shown, alpha=1e7, beta=1e4, lam=1e-9).test_error) / lower - 1
    return (
        Check.at_most("(28) vanishes for matching erf functions", perfect.error, 1e-10),
        Check.at_most("their best learning rate is 3 sqrt(3) pi / 4 (relative)", rate, 1e-6),
        Check.at_most("distance to (26) at a penalty of 1e8 (relative)", stiff, 1e-6),
        Check.at_least("distance to (27) of a wide network with many samples (relative)", rich, 0.0),
        Check.at_most("the same", rich, 0.01),
    )
