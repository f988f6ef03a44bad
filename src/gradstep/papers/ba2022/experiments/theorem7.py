"""Theorem 7 and Corollary 8: the ridge estimator after a large step falls like d/n, below every fixed kernel.

Settings
--------
base : psi2 and sigma_eps.
curves : label, regime, activation and teacher.
eta_bar : the step is eta = eta_bar sqrt N.
penalty_exponent : lam / N = n ** -penalty_exponent, in the window of Theorem 7.
rate_from : the measured rate is fitted from this n/d on.
constant_up_to : the constant of Theorem 7 is fixed up to this n/d, and tried beyond.
limit_d : dimension that stands for the limit.
Presets hold d and the sample ratios ``points``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradstep.papers.ba2022.bound import beats_kernels, risk_bound, smallest_constant
from gradstep.papers.ba2022.risk import kernel_lower_bound
from gradstep.papers.ba2022.student import tau_star
from gradstep.papers.experiments.learning_curves import simulations
from gradstep.papers.figure import Figure, by_point
from gradstep.papers.outcome import Check, Comparison, Outcome, compare, points_of
from gradstep.papers.panels import Line, Panel
from gradstep.problem import Problem, Step
from gradstep.sweeps import Result, Task
from gradstep.theory import predict_many

__all__ = ["assemble", "tasks"]

Array = NDArray[np.float64]


def _problem(settings: Mapping[str, Any], curve: Mapping[str, Any], psi1: float, d: int) -> Problem:
    base = settings["base"]
    n, width = round(psi1 * d), round(base["psi2"] * d)
    return Problem.ba2022(
        psi1=psi1,
        psi2=base["psi2"],
        eta=Step(settings["eta_bar"], exponent=0.5),
        lam=width * float(n) ** -settings["penalty_exponent"],
        sigma_eps=base["sigma_eps"],
        d=d,
        activation=curve["activation"],
        teacher=curve["teacher"],
    )


def _places(figure: Figure, preset: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], float, Problem]]:
    for curve in figure.settings["curves"]:
        for psi1 in map(float, preset["points"]):
            yield curve, psi1, _problem(figure.settings, curve, psi1, preset["d"])


def tasks(figure: Figure, preset: Mapping[str, Any]) -> list[Task]:
    """List one network a pair of functions, sample ratio and seed."""
    return simulations(figure, preset, _places(figure, preset))


def assemble(figure: Figure, preset: Mapping[str, Any], results: Sequence[Result]) -> Outcome:
    """Compare with the uniform equivalent, with the bound of the theorem, and with the kernels."""
    settings = figure.settings
    places = list(_places(figure, preset))
    comparisons: dict[str, list[Comparison]] = {curve["label"]: [] for curve in settings["curves"]}
    predicted = predict_many(p for *_, p in places)
    for (curve, psi1, _), theory, networks in zip(places, predicted, by_point(results, preset), strict=True):
        sample, name = [r["test_error"] for r in networks], curve["label"]
        found = compare(theory.test_error, sample, curve=name, place=psi1, quantity="prediction risk")
        comparisons[name].append(found)
    grid = np.geomspace(min(preset["points"]), 256, 22)
    panels, checks = [], []
    for curve in settings["curves"]:
        own = comparisons[curve["label"]]
        limit = np.array([p.test_error for p in _predicted(settings, curve, grid, settings["limit_d"])])
        finite = np.array([p.test_error for p in _predicted(settings, curve, grid, preset["d"])])
        fixed = grid <= settings["constant_up_to"]
        tau = tau_star(curve["activation"], curve["teacher"]).tau
        constant = float(smallest_constant(limit[fixed], tau, psi1=grid[fixed]).max())
        panels.append(_panel(curve, grid, finite, limit, risk_bound(tau, psi1=grid, C=constant), own))
        checks += _checks(curve, grid, limit, constant, own, settings)
    return Outcome(tuple(panels), tuple(c for own in comparisons.values() for c in own), tuple(checks), notes=NOTES)


NOTES = (
    "Line: uniform equivalent at the simulated size, which levels off because a finite network has few neurons of the "
    "right slope; dashes: the same equations at a dimension that stands for the limit of the theorem. The constant of "
    "the bound, which the theorem does not name, is fixed where samples are few, and tried where they are many."
)


def _predicted(settings: Mapping[str, Any], curve: Mapping[str, Any], grid: Array, d: int) -> list[Any]:
    return list(predict_many(_problem(settings, curve, float(psi1), d) for psi1 in grid))


def _panel(
    curve: Mapping[str, Any], grid: Array, finite: Array, limit: Array, bound: Array, own: Sequence[Comparison]
) -> Panel:
    x, regime = grid.tolist(), curve["regime"]
    floor = kernel_lower_bound(curve["teacher"])
    lines = [
        Line(x, finite.tolist(), "one large step", regime),
        Line(x, limit.tolist(), "", regime, "dashed"),
        Line(x, bound.tolist(), "Theorem 7", "initial", "dotted"),
        Line([x[0], x[-1]], [floor, floor], "kernels", "teacher", "dashed"),
    ]
    points = [points_of(own, "one large step", regime)]
    return Panel(curve["label"], "samples per dimension n/d", "prediction risk", "log", "log", lines, points)


def _checks(
    curve: Mapping[str, Any],
    grid: Array,
    limit: Array,
    constant: float,
    own: Sequence[Comparison],
    settings: Mapping[str, Any],
) -> list[Check]:
    name, sigma, sigma_star = curve["label"], curve["activation"], curve["teacher"]
    floor, start = kernel_lower_bound(sigma_star), float(settings["constant_up_to"])
    many, tail = grid > start, grid > grid[-1] / 8
    rate = _exponent(grid[tail], limit[tail])
    far = [c for c in own if float(c.place) >= settings["rate_from"]]
    slope = _exponent([float(c.place) for c in far], [c.mean for c in far])
    tau, last = tau_star(sigma, sigma_star).tau, own[-1]
    margin = (floor - last.mean) / last.standard_error
    beyond = limit[many] / risk_bound(tau, psi1=grid[many], C=constant)
    measured = last.mean / float(risk_bound(tau, psi1=float(last.place), C=constant))
    return [
        Check(f"{name}: 10 tau* over the bound (3.3)", 10 * tau / floor, 1.0, beats_kernels(sigma, sigma_star), "≤"),
        Check.at_most(f"{name}: exponent of the measured risk in n/d", slope, -0.8),
        Check.at_most(f"{name}: exponent of the limit in n/d", rate, -0.95),
        Check.at_most(f"{name}: limit over Theorem 7 beyond n/d = {start:g}, constant from below", beyond.max(), 1.0),
        Check.at_most(f"{name}: measured risk over it at n/d = {last.place:g}", measured, 1.0),
        Check.at_least(f"{name}: standard errors of that risk below the bound (3.3)", margin, 5.0),
    ]


def _exponent(x: ArrayLike, y: ArrayLike) -> float:
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])
