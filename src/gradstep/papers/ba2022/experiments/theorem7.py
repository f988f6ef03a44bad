"""Theorem 7 and Corollary 8: the ridge estimator after a large step falls like d/n, below every fixed kernel.

Settings
--------
base : psi2 and sigma_eps.
curves : label, regime, activation and teacher.
eta_bar : the step is eta = eta_bar sqrt N.
penalty_exponent : lam / N = n ** -penalty_exponent, within the window of Theorem 7 for its epsilon.
epsilon : that epsilon.
limit_d : dimension that stands for the limit.
Presets hold d, the sample ratios ``points``, and ``rate_from``: where the fit of the measured rate starts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradstep.papers.ba2022.bound import beats_kernels, penalty_window, risk_bound, smallest_constant
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
    panels, checks = [], [_window_check(settings, [p for *_, p in places])]
    for curve in settings["curves"]:
        own = comparisons[curve["label"]]
        limit = np.array([p.test_error for p in _predicted(settings, curve, grid, settings["limit_d"])])
        finite = np.array([p.test_error for p in _predicted(settings, curve, grid, preset["d"])])
        panels.append(_panel(curve, grid, finite, limit, own))
        checks += _checks(curve, grid, limit, own, float(preset["rate_from"]))
    return Outcome(tuple(panels), tuple(c for own in comparisons.values() for c in own), tuple(checks), notes=NOTES)


NOTES = (
    "Line: uniform equivalent at the simulated size, which levels off because a finite network has few neurons of the "
    "right slope; dashes: the same equations at a dimension that stands for the limit of the theorem. The constant of "
    "the bound is the smallest that the limit allows; the theorem names none."
)


def _predicted(settings: Mapping[str, Any], curve: Mapping[str, Any], grid: Array, d: int) -> list[Any]:
    return list(predict_many(_problem(settings, curve, float(psi1), d) for psi1 in grid))


def _constant(curve: Mapping[str, Any], grid: Array, risk: Array) -> float:
    tau = tau_star(curve["activation"], curve["teacher"]).tau
    return float(smallest_constant(risk, tau, psi1=grid).max())


def _panel(curve: Mapping[str, Any], grid: Array, finite: Array, limit: Array, own: Sequence[Comparison]) -> Panel:
    x, regime = grid.tolist(), curve["regime"]
    tau, floor = tau_star(curve["activation"], curve["teacher"]).tau, kernel_lower_bound(curve["teacher"])
    bound = risk_bound(tau, psi1=grid, C=_constant(curve, grid, limit))
    lines = [
        Line(x, finite.tolist(), "one large step", regime),
        Line(x, limit.tolist(), "", regime, "dashed"),
        Line(x, bound.tolist(), "Theorem 7", "initial", "dotted"),
        Line([x[0], x[-1]], [floor, floor], "kernels", "teacher", "dashed"),
    ]
    points = [points_of(own, "one large step", regime)]
    return Panel(curve["label"], "samples per dimension n/d", "prediction risk", "log", "log", lines, points)


def _window_check(settings: Mapping[str, Any], problems: Sequence[Problem]) -> Check:
    inside = []
    for problem in problems:
        n, width = float(problem.n), float(problem.width)  # type: ignore[arg-type]
        low, high = penalty_window(int(n), int(width), settings["epsilon"])
        inside.append(low < float(problem.ridge) / n < high)  # type: ignore[arg-type]
    outside = float(len(inside) - sum(inside))
    return Check("penalties outside the window of Theorem 7", outside, 0.0, outside == 0)


def _checks(
    curve: Mapping[str, Any], grid: Array, limit: Array, own: Sequence[Comparison], rate_from: float
) -> list[Check]:
    name, sigma, sigma_star = curve["label"], curve["activation"], curve["teacher"]
    floor = kernel_lower_bound(sigma_star)
    far = [c for c in own if float(c.place) >= rate_from]
    slope = float(np.polyfit(np.log([float(c.place) for c in far]), np.log([c.mean for c in far]), 1)[0])
    tail = grid > grid[-1] / 8
    rate = float(np.polyfit(np.log(grid[tail]), np.log(limit[tail]), 1)[0])
    margin = (floor - own[-1].mean) / own[-1].standard_error
    needed = max(float(smallest_constant(c.mean, tau_star(sigma, sigma_star).tau, psi1=float(c.place))) for c in far)
    return [
        Check(f"{name}: 10 tau* over the bound (3.3), at most", *_sufficient(sigma, sigma_star, floor)),
        Check(f"{name}: exponent of the measured risk in n/d, at most", slope, -0.8, slope <= -0.8),
        Check(f"{name}: exponent of the limit in n/d, at most", rate, -0.95, rate <= -0.95),
        Check(f"{name}: constant of Theorem 7 that the measured risks need", needed, 1.0, needed <= 1),
        Check(f"{name}: standard errors of the last risk below the bound (3.3), at least", margin, 5.0, margin >= 5),
    ]


def _sufficient(sigma: str, sigma_star: str, floor: float) -> tuple[float, float, bool]:
    return 10 * tau_star(sigma, sigma_star).tau / floor, 1.0, beats_kernels(sigma, sigma_star)
