"""Lemma 6: the student built from the neurons that the step gave the right slope, and its exact risk.

Settings
--------
base : psi2, lam (unused by the student) and sigma_eps.
curves : label, regime, activation and teacher.
eta_bar : the step is eta = eta_bar sqrt N.
window : half-width of the slopes accepted, relative to the best slope.
Presets hold d and the sample ratios ``points``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gradstep.gaussian import moments
from gradstep.papers.ba2022.risk import kernel_lower_bound
from gradstep.papers.ba2022.student import constructed_readout, constructed_risk, tau_star
from gradstep.papers.figure import Figure
from gradstep.papers.outcome import Check, Judged, Outcome, points_of
from gradstep.papers.panels import Line, Panel
from gradstep.papers.places import Place, Sample, along, on_curve
from gradstep.problem import Problem, Step
from gradstep.simulation import Network

__all__ = ["measure", "outcome", "places"]


def places(figure: Figure, preset: Mapping[str, Any]) -> Iterator[Place]:
    """Large steps of every pair of functions at every sample ratio."""
    settings = figure.settings
    shared = {**settings["base"], "d": preset["d"], "eta_bar": settings["eta_bar"], "window": settings["window"]}
    for curve, psi1 in along(settings, preset):
        functions = {name: curve[name] for name in ("activation", "teacher")}
        yield Place(measure, {**shared, **functions, "psi1": psi1}, curve["label"], psi1)


def measure(parameters: Mapping[str, Any], seed: int) -> dict[str, float]:
    """Take one large step, average the chosen neurons, and return the exact risk, their number and mean slope."""
    settings = dict(parameters)
    eta_bar, window = settings.pop("eta_bar"), settings.pop("window")
    problem = Problem.ba2022(eta=Step(eta_bar, exponent=0.5), **settings)
    network = Network(problem, seed)
    readout = network.readout
    student, target = moments(problem.activation), moments(problem.teacher)
    slopes = eta_bar * student.derivative_mean * target.linear * readout
    kappa = tau_star(problem.activation, problem.teacher).kappa
    chosen = constructed_readout(slopes, kappa, tolerance=window * abs(kappa))
    direction = (network.after - network.before).T @ readout
    direction /= np.linalg.norm(direction)
    used = chosen > 0
    student_network = Network(problem.replace(width=int(used.sum()), eta=0.0), seed, before=network.after[used])
    risk = student_network.risk(chosen[used], along=direction, tolerance=1e-7)
    return {"risk": float(risk.test_error), "neurons": float(used.sum()), "slope": float(slopes[used].mean())}


def outcome(figure: Figure, preset: Mapping[str, Any], samples: Sequence[Sample]) -> Outcome:
    """Put the risk at finite sample ratio under the measured ones, above tau*."""
    noise = figure.settings["base"]["sigma_eps"]
    grid = np.geomspace(0.8 * min(preset["points"]), 1.5 * max(preset["points"]), 50)
    # The noise of the gradient lives in the directions orthogonal to the teacher.
    directions = (preset["d"] - 1) / preset["d"]
    panels: list[Panel] = []
    comparisons: list[Judged] = []
    checks: list[Check] = []
    for curve in figure.settings["curves"]:
        name, functions, own = curve["label"], (curve["activation"], curve["teacher"]), []
        for sample in on_curve(samples, curve["label"]):
            # The harmonic mean: the risk is linear in one over the number of neurons.
            neurons = float(1 / (1 / sample["neurons"]).mean())
            law = {"neurons": neurons, "kappa": float(sample["slope"].mean()), "psi1": sample.x / directions}
            predicted = float(constructed_risk(*functions, sigma_eps=noise, **law))
            own.append(sample.compare(predicted, "risk", quantity="prediction risk"))
        best, floor = tau_star(*functions), kernel_lower_bound(curve["teacher"])
        lines = [
            Line.of(
                grid,
                constructed_risk(*functions, psi1=grid, sigma_eps=noise, neurons=neurons),
                "student",
                curve["regime"],
            ),
            Line.of(grid, constructed_risk(*functions, psi1=grid, sigma_eps=noise), "", curve["regime"], "dashed"),
            Line.of(grid, floor, "kernels", "teacher", "dashed"),
        ]
        if best.tau > 1e-3 * floor:
            lines.append(Line.of(grid, best.tau, "tau*", "infinite", "dotted"))
        points = [points_of(own, "student", curve["regime"])]
        panels.append(Panel(name, "samples per dimension n/d", "prediction risk", "log", "log", lines, points))
        comparisons += own
        far = constructed_risk(*functions, psi1=[1e5, 1e6], sigma_eps=noise)
        rate = float((far[0] - best.tau) / (far[1] - best.tau))
        checks += [
            Check.at_most(f"{name}: last measured risk over the bound (3.3)", own[-1].mean / floor, 1.0),
            Check.at_most(f"{name}: excess over tau* at n/d = 1e5 over that at 1e6, from 10", abs(rate - 10), 0.1),
        ]
    return Outcome(panels, comparisons, checks)
