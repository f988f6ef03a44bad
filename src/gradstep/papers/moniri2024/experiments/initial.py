"""Training loss and test error before the step, against the penalty: the system of m_1 and m_2.

The parameters are activation, teacher, psi, noise and, of the curves, phi.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from gradstep.gaussian import moments
from gradstep.papers.experiment import Array, Curves
from gradstep.papers.moniri2024.experiments.limits import arguments
from gradstep.papers.moniri2024.resolvent import L_te_0, L_tr_0, limiting_traces, published_system
from gradstep.papers.outcome import Check, Outcome
from gradstep.papers.places import Settings
from gradstep.problem import Problem
from gradstep.simulation import simulate


def measure(parameters: Settings, seed: int) -> dict[str, float]:
    """Return L_tr and L_te."""
    problem = Problem.moniri2024(**parameters, alpha=0.0, c=0.0)
    found = simulate(problem, seeds=[seed])
    return {"L_tr": float(found["train_loss"][0]), "L_te": float(found["test_error"][0]) + problem.noise**2}


class Initial(Curves):
    """The limits under the networks before their step."""

    measure = staticmethod(measure)
    names: ClassVar = {"L_tr": "training loss", "L_te": "test error (with label noise)"}

    def theory(self, curve: Settings, x: Array) -> dict[str, Array]:
        """Return both limits at penalties."""
        setting = arguments(self.parameters(curve, x))
        return {"L_tr": L_tr_0(**setting), "L_te": L_te_0(**setting)}

    def claims(self, found: Outcome) -> Sequence[Check]:
        """Insert the solution into the two published equations on a wide grid, each relative to its largest term."""
        sigma = self.settings["base"]["activation"]
        phi, psi, lam = np.meshgrid(np.geomspace(0.01, 100, 13), np.geomspace(0.01, 100, 13), np.geomspace(1e-6, 10, 8))
        traces, values = limiting_traces(sigma, phi=phi, psi=psi, lam=lam), moments(sigma)
        m1, m2, c_1 = traces.m1, traces.m2, values.linear
        c_gt1 = values.nonlinear_second_moment**0.5
        both = published_system(m1, m2, c_1=c_1, c_gt1=c_gt1, phi=phi, psi=psi, lam=lam)
        common = c_1**2 * m1 * m2
        scales = phi * m1 * (c_gt1**2 * m1 + c_1**2 * m2) + common, phi / psi * (common + phi * m1) + common
        worst = max(float(np.max(np.abs(r) / scale)) for r, scale in zip(both, scales, strict=True))
        return [Check.at_most("the published equations for m1, m2 hold to {} on a wide grid", worst, 1e-10)]
