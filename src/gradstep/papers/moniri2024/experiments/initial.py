"""Training loss and test error before the step, against the penalty: the system of m_1 and m_2.

Settings
--------
activation, teacher, psi, noise : of every curve.
curves : label, regime and phi.
axis : range of the penalty (``from``, ``to``, ``count``).
allowance : the documented relative error of the limit at finite n, and its reason.
Presets hold n and the penalties (``points``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gradstep.gaussian import moments
from gradstep.papers.figure import Figure, point_seeds
from gradstep.papers.moniri2024.resolvent import L_te_0, L_tr_0, limiting_traces, published_system
from gradstep.papers.outcome import Check, Outcome, compare, points_of
from gradstep.papers.panels import Line, Panel, Points
from gradstep.problem import Problem
from gradstep.simulation import simulate
from gradstep.sweeps import Result, Task

__all__ = ["assemble", "measure", "tasks"]

QUANTITIES = {"L_tr": "training loss", "L_te": "test error (with label noise)"}


def tasks(figure: Figure, preset: Mapping[str, Any]) -> list[Task]:
    """List one network a curve, penalty and seed."""
    shared = {name: figure.settings[name] for name in ("activation", "teacher", "psi", "noise")}
    return [
        Task(f"{__name__}:measure", {**shared, "phi": curve["phi"], "n": int(preset["n"]), "lam": float(lam)}, seed)
        for curve in figure.settings["curves"]
        for lam in preset["points"]
        for seed in point_seeds(figure.name, curve["label"], lam, preset)
    ]


def measure(parameters: Mapping[str, Any], seed: int) -> dict[str, float]:
    """Return L_tr and L_te."""
    problem = Problem.moniri2024(**parameters, alpha=0.0, c=0.0)
    found = simulate(problem, seeds=[seed])
    return {"L_tr": float(found["train_loss"][0]), "L_te": float(found["test_error"][0]) + problem.noise**2}


def assemble(figure: Figure, preset: Mapping[str, Any], results: Sequence[Result]) -> Outcome:
    """Put the limits under the points, and check the system itself on a wide grid."""
    settings, count = figure.settings, int(preset["seeds"])
    sigma, sigma_star, axis = settings["activation"], settings["teacher"], settings["axis"]
    grid = np.geomspace(axis["from"], axis["to"], axis["count"])
    comparisons = []
    lines: dict[str, list[Line]] = {name: [] for name in QUANTITIES}
    points: dict[str, list[Points]] = {name: [] for name in QUANTITIES}
    penalties = [float(lam) for lam in preset["points"]]
    measured = {
        name: np.array([r[name] for r in results]).reshape(len(settings["curves"]), len(penalties), count)
        for name in QUANTITIES
    }
    for i, curve in enumerate(settings["curves"]):
        label, regime = curve["label"], curve["regime"]
        setting = {"phi": curve["phi"], "psi": settings["psi"], "sigma_eps": settings["noise"]}
        for name, limit in (("L_tr", L_tr_0), ("L_te", L_te_0)):
            expected = limit(sigma, sigma_star, lam=np.array(penalties), **setting)
            own = [
                compare(
                    float(theory),
                    values.tolist(),
                    curve=label,
                    place=lam,
                    quantity=QUANTITIES[name],
                    allowance=settings["allowance"]["relative"],
                    reason=settings["allowance"]["reason"],
                    sample=f"{label}, {lam:g}",
                )
                for lam, theory, values in zip(penalties, expected, measured[name][i], strict=True)
            ]
            comparisons += own
            curve_values = limit(sigma, sigma_star, lam=grid, **setting)
            lines[name].append(Line(grid.tolist(), curve_values.tolist(), label, regime))
            points[name].append(points_of(own, label, regime))
    panels = tuple(
        Panel(text, "penalty λ", text, "log", "log", lines=lines[name], points=points[name])
        for name, text in QUANTITIES.items()
    )
    return Outcome(panels, tuple(comparisons), (_system(sigma),), notes=NOTES)


NOTES = "Lines: limits, from the traces m_1, m_2 and their derivatives in λ. Points: real networks before the step."


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
