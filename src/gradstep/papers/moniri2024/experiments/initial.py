"""Training loss and test error before the step, against the penalty: the system of m_1 and m_2.

Settings
--------
activation, teacher, psi, noise : of every curve.
curves : label, regime and phi.
axis : range of the penalty (``from``, ``to``, ``count``, ``scale``).
allowance : the documented relative error of the limit at finite n, and its reason.
Presets hold n and the penalties (``points``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradstep.gaussian import moments
from gradstep.papers.charts import Theory, charts, curves_of, grid_of
from gradstep.papers.figure import Figure
from gradstep.papers.moniri2024.experiments.limits import arguments
from gradstep.papers.moniri2024.resolvent import L_te_0, L_tr_0, limiting_traces, published_system
from gradstep.papers.outcome import Check, Outcome
from gradstep.papers.panels import Panel
from gradstep.papers.places import Place, Sample, along
from gradstep.problem import Problem
from gradstep.simulation import simulate

__all__ = ["measure", "outcome", "places"]

Array = NDArray[np.float64]

QUANTITIES = {"L_tr": "training loss", "L_te": "test error (with label noise)"}


def places(figure: Figure, preset: Mapping[str, Any]) -> Iterator[Place]:
    """Networks of every curve at every penalty."""
    shared = {name: figure.settings[name] for name in ("activation", "teacher", "psi", "noise")}
    for curve, lam in along(figure.settings, preset):
        parameters = {**shared, "phi": curve["phi"], "n": int(preset["n"]), "lam": lam}
        yield Place(measure, parameters, curve["label"], lam)


def measure(parameters: Mapping[str, Any], seed: int) -> dict[str, float]:
    """Return L_tr and L_te."""
    problem = Problem.moniri2024(**parameters, alpha=0.0, c=0.0)
    found = simulate(problem, seeds=[seed])
    return {"L_tr": float(found["train_loss"][0]), "L_te": float(found["test_error"][0]) + problem.noise**2}


def outcome(figure: Figure, preset: Mapping[str, Any], samples: Sequence[Sample]) -> Outcome:
    """Put the limits under the points, and check the system itself on a wide grid."""
    panels = {name: Panel(text, "penalty λ", text, "log", "log") for name, text in QUANTITIES.items()}
    curves = curves_of(figure, samples, partial(_limits, figure.settings), allowance=figure.settings["allowance"])
    system = Outcome(checks=[_system(figure.settings["activation"])])
    return charts(curves, grid_of(figure.settings["axis"]), panels) + system


def _limits(settings: Mapping[str, Any], curve: Mapping[str, Any]) -> Theory:
    def limits(lam: Array) -> dict[str, Array]:
        setting = arguments({**settings, "phi": curve["phi"], "lam": lam})
        return {"L_tr": L_tr_0(**setting), "L_te": L_te_0(**setting)}

    return limits


def _system(sigma: str) -> Check:
    """Put the solution into the two published equations, each relative to its largest term."""
    phi, psi, lam = np.meshgrid(np.geomspace(0.01, 100, 13), np.geomspace(0.01, 100, 13), np.geomspace(1e-6, 10, 8))
    found, values = limiting_traces(sigma, phi=phi, psi=psi, lam=lam), moments(sigma)
    m1, m2, c_1 = found.m1, found.m2, values.linear
    c_gt1 = values.nonlinear_second_moment**0.5
    both = published_system(m1, m2, c_1=c_1, c_gt1=c_gt1, phi=phi, psi=psi, lam=lam)
    common = c_1**2 * m1 * m2
    scales = phi * m1 * (c_gt1**2 * m1 + c_1**2 * m2) + common, phi / psi * (common + phi * m1) + common
    worst = max(float(np.max(np.abs(r) / scale)) for r, scale in zip(both, scales, strict=True))
    return Check.at_most("published equations for m1, m2 on a wide grid: largest residual", worst, 1e-10)
