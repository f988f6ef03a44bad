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
from numpy.typing import NDArray

from gradstep.papers.ba2022.bound import beats_kernels, risk_bound, smallest_constant
from gradstep.papers.ba2022.risk import kernel_lower_bound
from gradstep.papers.ba2022.student import tau_star
from gradstep.papers.charts import Curve, charts
from gradstep.papers.claims import below, power_law
from gradstep.papers.experiments.learning_curves import measure
from gradstep.papers.figure import Figure
from gradstep.papers.outcome import Check, Judged, Outcome
from gradstep.papers.panels import Line, Panel
from gradstep.papers.places import Place, Sample, along, on_curve
from gradstep.problem import Problem, Step
from gradstep.theory import predict_many

__all__ = ["outcome", "places"]

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


def places(figure: Figure, preset: Mapping[str, Any]) -> Iterator[Place]:
    """Networks of every pair of functions at every sample ratio."""
    for curve, psi1 in along(figure.settings, preset):
        problem = _problem(figure.settings, curve, psi1, preset["d"])
        yield Place(measure, problem.to_dict(), curve["label"], psi1)


def outcome(figure: Figure, preset: Mapping[str, Any], samples: Sequence[Sample]) -> Outcome:
    """Compare with the uniform equivalent, with the bound of the theorem, and with the kernels."""
    settings = figure.settings
    grid = np.geomspace(min(preset["points"]), 256, 43)
    found = Outcome()
    for curve in settings["curves"]:

        def risk(psi1: Array, d: int = preset["d"], curve: Mapping[str, Any] = curve) -> dict[str, Array]:
            problems = [_problem(settings, curve, float(x), d) for x in psi1]
            return {"test_error": np.array([p.test_error for p in predict_many(problems)])}

        limit = risk(grid, settings["limit_d"])["test_error"]
        floor, tau = kernel_lower_bound(curve["teacher"]), tau_star(curve["activation"], curve["teacher"]).tau
        fixed = grid <= settings["constant_up_to"]
        constant = float(smallest_constant(limit[fixed], tau, psi1=grid[fixed]).max())
        lines = [
            Line.of(grid, limit, "", curve["regime"], "dashed"),
            Line.of(grid, risk_bound(tau, psi1=grid, C=constant), "Theorem 7", "initial", "dotted"),
            Line.of(grid, floor, "kernels", "teacher", "dashed"),
        ]
        panel = Panel(curve["label"], "samples per dimension n/d", "prediction risk", "log", "log", lines)
        ridge = Curve("one large step", curve["regime"], risk, on_curve(samples, curve["label"]), name=curve["label"])
        own = charts([ridge], grid, {"test_error": panel})
        found += own + Outcome(checks=_checks(curve, grid, limit, constant, own.comparisons, settings))
    return found


def _checks(
    curve: Mapping[str, Any],
    grid: Array,
    limit: Array,
    constant: float,
    own: Sequence[Judged],
    settings: Mapping[str, Any],
) -> list[Check]:
    name, sigma, sigma_star = curve["label"], curve["activation"], curve["teacher"]
    floor, start = kernel_lower_bound(sigma_star), float(settings["constant_up_to"])
    many, tail = grid > start, grid > grid[-1] / 8
    rate, _ = power_law(grid[tail], limit[tail])
    far = [c for c in own if float(c.place) >= settings["rate_from"]]
    slope, _ = power_law([float(c.place) for c in far], [c.mean for c in far])
    tau, last = tau_star(sigma, sigma_star).tau, own[-1]
    beyond = limit[many] / risk_bound(tau, psi1=grid[many], C=constant)
    measured = last.mean / float(risk_bound(tau, psi1=float(last.place), C=constant))
    return [
        Check(f"{name}: 10 tau* over the bound (3.3)", 10 * tau / floor, 1.0, beats_kernels(sigma, sigma_star), "≤"),
        Check.at_most(f"{name}: exponent of the measured risk in n/d", slope, -0.8),
        Check.at_most(f"{name}: exponent of the limit in n/d", rate, -0.95),
        Check.at_most(f"{name}: limit over Theorem 7 beyond n/d = {start:g}, constant from below", beyond.max(), 1.0),
        Check.at_most(f"{name}: measured risk over it at n/d = {last.place:g}", measured, 1.0),
        Check.at_least(f"{name}: standard errors of that risk below the bound (3.3)", below(floor, [last]), 5.0),
    ]
