"""Theorem 7 and Corollary 8: the ridge estimator after a large step falls like d/n, below every fixed kernel.

Settings, beside those of `gradstep.papers.experiment.Curves`
-------------------------------------------------------------
base : psi2 and sigma_eps.
curves : activation and teacher; a panel each.
eta_bar : the step is eta = eta_bar sqrt N.
penalty_exponent : lam / N = n ** -penalty_exponent, in the window of Theorem 7.
rate_from : the measured rate is fitted from this n/d on.
constant_up_to : the constant of Theorem 7 is fixed up to this n/d, and tried beyond.
limit_d : dimension that stands for the limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gradstep.panels import Line, Panel
from gradstep.papers.ba2022.bound import beats_kernels, risk_bound, smallest_constant
from gradstep.papers.ba2022.risk import kernel_lower_bound
from gradstep.papers.ba2022.student import tau_star
from gradstep.papers.charts import charts
from gradstep.papers.claims import below, power_law
from gradstep.papers.experiment import Array, Curves
from gradstep.papers.experiments.learning_curves import measure
from gradstep.papers.outcome import Check, Judged, Outcome
from gradstep.papers.places import Sample, Settings
from gradstep.problem import Problem, Step
from gradstep.theory import predict_many


class Theorem7(Curves):
    """The uniform equivalent under the networks, with the bound of the theorem and that of the kernels."""

    measure = staticmethod(measure)

    def problem(self, curve: Settings, psi1: float, d: int) -> Problem:
        """Return the problem of a pair of functions at a sample ratio and a dimension."""
        base, n = self.settings["base"], round(psi1 * d)
        width, exponent = round(base["psi2"] * d), self.settings["penalty_exponent"]
        step, lam = Step(self.settings["eta_bar"], exponent=0.5), width * float(n) ** -exponent
        return Problem.ba2022(**base, **curve["parameters"], psi1=psi1, eta=step, lam=lam, d=d)

    def parameters(self, curve: Settings, x: Any = None) -> dict[str, Any]:
        """Return the parameters of the problem at the size simulated."""
        return self.problem(curve, x, self.preset["d"]).to_dict()

    def theory(self, curve: Settings, x: Array, d: int | None = None) -> dict[str, Array]:
        """Return the risk at a size, the one simulated if none is given."""
        problems = [self.problem(curve, float(psi1), d or self.preset["d"]) for psi1 in x]
        return {"test_error": np.array([p.test_error for p in predict_many(problems)])}

    @property
    def grid(self) -> Array:
        """Places of the lines, from the first one measured."""
        return np.geomspace(min(self.preset["points"]), 256, 43)

    def outcome(self, samples: Sequence[Sample]) -> Outcome:
        """Draw a panel for each pair of functions, and judge the rates and the bounds."""
        found = Outcome()
        for curve in self.curves:
            limit = self.theory(curve, self.grid, self.settings["limit_d"])["test_error"]
            pair = curve["parameters"]["activation"], curve["parameters"]["teacher"]
            floor, tau = kernel_lower_bound(pair[1]), tau_star(*pair).tau
            fixed = self.grid <= self.settings["constant_up_to"]
            constant = float(smallest_constant(limit[fixed], tau, psi1=self.grid[fixed]).max())
            lines = [
                Line.of(self.grid, limit, "", curve["regime"], "dashed"),
                Line.of(
                    self.grid, risk_bound(tau, psi1=self.grid, C=constant), "bound of Theorem 7", "initial", "dotted"
                ),
                Line.of(self.grid, floor, "kernel bound", "teacher", "dashed"),
            ]
            panel = Panel(curve["label"], "samples per dimension n/d", "prediction risk", "log", "log", lines)
            ridge = replace(self.chart(curve, samples), label="one large step", name=curve["label"])
            own = charts([ridge], self.grid, {"test_error": panel})
            found += own + Outcome(checks=self._checks(curve["label"], pair, limit, constant, own.comparisons))
        return found

    def _checks(
        self, name: str, pair: tuple[str, str], limit: Array, constant: float, own: Sequence[Judged]
    ) -> list[Check]:
        grid, tau, floor = self.grid, tau_star(*pair).tau, kernel_lower_bound(pair[1])
        start = self.settings["constant_up_to"]
        many, tail = grid > start, grid > grid[-1] / 8
        rate, _ = power_law(grid[tail], limit[tail])
        far = [c for c in own if float(c.place) >= self.settings["rate_from"]]
        slope, _ = power_law([float(c.place) for c in far], [c.mean for c in far])
        beyond, last = limit[many] / risk_bound(tau, psi1=grid[many], C=constant), own[-1]
        measured = last.mean / float(risk_bound(tau, psi1=float(last.place), C=constant))
        return [
            Check(f"{name}: 10 tau* is {{}} times the bound (3.3)", 10 * tau / floor, 1.0, beats_kernels(*pair), "≤"),
            Check.at_most(f"{name}: the measured risk has the exponent {{}} in n/d", slope, -0.8),
            Check.at_most(f"{name}: the limit has the exponent {{}} in n/d", rate, -0.95),
            Check.at_most(
                f"{name}: beyond n/d = {start:g} the limit is at most {{}} times Theorem 7 (constant from below)",
                beyond.max(),
                1.0,
            ),
            Check.at_most(f"{name}: the measured risk is {{}} times it at n/d = {last.place:g}", measured, 1.0),
            Check.at_least(
                f"{name}: that risk lies {{}} standard errors below the kernel bound (3.3)", below(floor, [last]), 5.0
            ),
        ]
