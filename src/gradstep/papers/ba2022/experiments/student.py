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
from gradstep.papers.figure import Figure, by_point, point_seeds
from gradstep.papers.outcome import Check, Comparison, Outcome, compare, points_of
from gradstep.papers.panels import Line, Panel
from gradstep.problem import Problem, Step
from gradstep.simulation import Network
from gradstep.sweeps import Result, Task

__all__ = ["assemble", "measure", "tasks"]


def _places(figure: Figure, preset: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], float]]:
    for curve in figure.settings["curves"]:
        for psi1 in preset["points"]:
            yield curve, float(psi1)


def tasks(figure: Figure, preset: Mapping[str, Any]) -> list[Task]:
    """List one large step a pair of functions, sample ratio and seed."""
    settings = figure.settings
    shared = {**settings["base"], "d": preset["d"], "eta_bar": settings["eta_bar"], "window": settings["window"]}
    return [
        Task(
            f"{__name__}:measure",
            {**shared, "activation": curve["activation"], "teacher": curve["teacher"], "psi1": psi1},
            seed,
        )
        for curve, psi1 in _places(figure, preset)
        for seed in point_seeds(figure.name, curve["label"], psi1, preset)
    ]


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


def assemble(figure: Figure, preset: Mapping[str, Any], results: Sequence[Result]) -> Outcome:
    """Put the risk at finite sample ratio under the measured ones, above tau*."""
    settings = figure.settings
    noise = settings["base"]["sigma_eps"]
    comparisons: dict[str, list[Comparison]] = {curve["label"]: [] for curve in settings["curves"]}
    members: dict[str, float] = {}
    # The noise of the gradient lives in the directions orthogonal to the teacher.
    directions = (preset["d"] - 1) / preset["d"]
    for (curve, psi1), own in zip(_places(figure, preset), by_point(results, preset), strict=True):
        neurons = np.array([r["neurons"] for r in own])
        # The harmonic mean: the risk is linear in one over the number of neurons.
        members[curve["label"]] = float(1 / (1 / neurons).mean())
        law = {"psi1": psi1 / directions, "sigma_eps": noise, "neurons": members[curve["label"]]}
        law["kappa"] = float(np.mean([r["slope"] for r in own]))
        predicted = float(constructed_risk(curve["activation"], curve["teacher"], **law))
        found = compare(
            predicted, [r["risk"] for r in own], curve=curve["label"], place=psi1, quantity="prediction risk"
        )
        comparisons[curve["label"]].append(found)
    grid = np.geomspace(0.8 * min(preset["points"]), 1.5 * max(preset["points"]), 50)
    panels, checks = [], []
    for curve in settings["curves"]:
        panels.append(_panel(curve, grid, noise, comparisons[curve["label"]], members[curve["label"]]))
        best, floor = tau_star(curve["activation"], curve["teacher"]), kernel_lower_bound(curve["teacher"])
        far = constructed_risk(curve["activation"], curve["teacher"], psi1=[1e5, 1e6], sigma_eps=noise)
        rate = float((far[0] - best.tau) / (far[1] - best.tau))
        last = comparisons[curve["label"]][-1]
        name = curve["label"]
        checks += [
            Check.at_most(f"{name}: last measured risk over the bound (3.3)", last.mean / floor, 1.0),
            Check.at_most(f"{name}: excess over tau* at n/d = 1e5 over that at 1e6, from 10", abs(rate - 10), 0.1),
        ]
    return Outcome(tuple(panels), tuple(c for own in comparisons.values() for c in own), tuple(checks), notes=NOTES)


NOTES = (
    "Points: exact risk of the average of the chosen neurons of real networks. Line: the risk at finite n/d for as "
    "many neurons; dashes: for infinitely many, which tends to tau* like d/n. Points are compared with the theory at "
    "the mean slope of their neurons, which the Gaussian density of the readout puts a little below kappa*."
)


def _panel(curve: Mapping[str, Any], grid: Any, noise: float, own: Sequence[Comparison], neurons: float) -> Panel:
    x, label, regime = grid.tolist(), curve["label"], curve["regime"]
    law = {"psi1": grid, "sigma_eps": noise}
    finite = constructed_risk(curve["activation"], curve["teacher"], neurons=neurons, **law)
    infinite = constructed_risk(curve["activation"], curve["teacher"], **law)
    best, floor = tau_star(curve["activation"], curve["teacher"]), kernel_lower_bound(curve["teacher"])
    lines = [
        Line(x, finite.tolist(), "student", regime),
        Line(x, infinite.tolist(), "", regime, "dashed"),
        Line([x[0], x[-1]], [floor, floor], "kernels", "teacher", "dashed"),
    ]
    if best.tau > 1e-3 * floor:
        lines.append(Line([x[0], x[-1]], [best.tau, best.tau], "tau*", "infinite", "dotted"))
    points = [points_of(own, "student", regime)]
    return Panel(label, "samples per dimension n/d", "prediction risk", "log", "log", lines, points)
