"""The second spike of the real network: its coefficients on real features, and what they do to the gain.

``F - F_0`` is projected on the spike's readout vector (the squares of the readouts) on one side, and on the constant
and the second Hermite polynomial of the projected inputs on the other. The published spike is c_2 (s kappa)^2; the
network's is c_2 (s^2 kappa^2 + tau), and to all powers of the step a smoothed activation.

Settings
--------
base : activation, teacher, phi, psi, lam and noise, with the residual y.
degrees : Hermite degrees of the inputs, with their labels.
largest : end of the horizontal axis; ``ratios``, range of d/n in the panel of the gains.
Presets hold n, the exponents (``points``) and the places on a curve (``grid``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradstep.gaussian import hermite_values, moments
from gradstep.overlay import Overlay
from gradstep.papers.figure import Figure, point_seeds
from gradstep.papers.moniri2024.finite import spike_coefficients
from gradstep.papers.moniri2024.gains import Delta, direction
from gradstep.papers.moniri2024.staircase import windows
from gradstep.papers.outcome import Check, Comparison, Outcome, compare
from gradstep.papers.panels import Line, Panel, Points
from gradstep.problem import Problem
from gradstep.simulation import Network
from gradstep.sweeps import Result, Task
from gradstep.theory import predict_many

__all__ = ["assemble", "measure", "tasks"]

Array = NDArray[np.float64]

LARGE = 1e16
"""Samples at which the equations for every step size stand for the limit."""


def tasks(figure: Figure, preset: Mapping[str, Any]) -> list[Task]:
    """List one real step an exponent and seed."""
    degrees = [int(entry["degree"]) for entry in figure.settings["degrees"]]
    return [
        Task(
            f"{__name__}:measure",
            {**figure.settings["base"], "n": int(preset["n"]), "alpha": float(alpha), "degrees": degrees},
            seed,
        )
        for alpha in preset["points"]
        for seed in point_seeds(figure.name, "step", alpha, preset)
    ]


def measure(parameters: Mapping[str, Any], seed: int) -> dict[str, list[float]]:
    """Return the coefficients of ``F - F_0``, divided by the square root of n."""
    settings = dict(parameters)
    degrees = settings.pop("degrees")
    problem = Problem.moniri2024(**settings, residual="y")
    network = Network(problem, seed)
    inputs, _ = network.fit_data()
    change = network.features(inputs) - network.initial.features(inputs)
    kappa = inputs @ (network.gradient.linear / np.linalg.norm(network.gradient.linear))
    squares = network.readout**2 / np.linalg.norm(network.readout**2)
    along = hermite_values(kappa, max(degrees)) @ (change @ squares) / len(kappa)
    return {"coefficient": [float(along[p]) for p in degrees]}


def assemble(figure: Figure, preset: Mapping[str, Any], results: Sequence[Result]) -> Outcome:
    """Put the published and the network's coefficients under the measured ones, and compare the gains in the limit."""
    settings, count = figure.settings, int(preset["seeds"])
    base, alphas = settings["base"], [float(a) for a in preset["points"]]
    grid = np.linspace(0, float(settings["largest"]), int(preset["grid"]))
    panels, comparisons, rejected = [], [], []
    for place, entry in enumerate(settings["degrees"]):
        p, label = int(entry["degree"]), entry["label"]
        own: list[Comparison] = []
        for i, alpha in enumerate(alphas):
            values = [r["coefficient"][place] for r in results[i * count : (i + 1) * count]]
            theory = _resummed(base, preset["n"], alpha, p)
            own.append(
                compare(
                    theory,
                    values,
                    curve=f"degree {p}",
                    place=alpha,
                    quantity="coefficient",
                    allowance=settings["allowance"]["relative"],
                    reason=settings["allowance"]["reason"],
                    sample=f"alpha = {alpha:g}",
                )
            )
            if p == 0:
                printed = _second(base, preset["n"], np.array([alpha]), p)[0]
                rejected.append(abs(Overlay.of(printed[0], values).z))
        comparisons += own
        resummed = [_resummed(base, preset["n"], float(a), p) for a in grid]
        published, corrected = _second(base, preset["n"], grid, p)
        x = grid.tolist()
        lines = [
            Line(x, resummed, "network", "large"),
            Line(x, published.tolist(), "published", "initial", "dashed"),
        ]
        if p == 0:
            lines.append(Line(x, corrected.tolist(), "with τ", "few", "dotted"))
        points = Points(alphas, [c.mean for c in own], [c.standard_error for c in own], "network", "large")
        panels.append(Panel(label, "exponent α of the step size", "coefficient / √n", lines=lines, points=[points]))
    panel, check = _gain_panel(settings)
    bound = float(figure.criterion["largest_z"])
    most = Check.at_least("largest |z| of the published constant part, on the same networks", max(rejected), bound)
    return Outcome((*panels, panel), tuple(comparisons), (check, most), NOTES)


NOTES = (
    "Left and middle: coefficient of F - F_0 on a∘a and on a function of the projected inputs. Red: to all powers of "
    "the step; dashes: the published spike; dots: with the variance that the rest of the gradient adds. Right: gain in "
    "training loss of the second spike, over the published one, in the limit; dots: equations for every step size at "
    "n = 1e16."
)


def _problem(base: Mapping[str, Any], n: float, alpha: float) -> Problem:
    return Problem.moniri2024(**base, n=n, alpha=alpha, residual="y")


def _resummed(base: Mapping[str, Any], n: float, alpha: float, p: int) -> float:
    """Return the coefficient to all powers; a^2 has length sqrt(3 N), and overlaps h_0 and h_2 as 1 and sqrt 2."""
    problem = _problem(base, n, alpha)
    C = spike_coefficients(problem)
    return float(math.sqrt(float(problem.width) / 3) * (C[p, 0] + math.sqrt(2) * C[p, 2]))  # type: ignore[arg-type]


def _second(base: Mapping[str, Any], n: float, alphas: Array, p: int) -> tuple[Array, Array]:
    """Return the published second spike's coefficient, and the one with tau."""
    problem = _problem(base, n, 0.0)
    student = moments(problem.activation)
    v = direction(base["activation"], base["teacher"], phi=base["phi"], sigma_eps=base["noise"], residual="y")
    N = float(problem.width)  # type: ignore[arg-type]
    s_squared = (float(n) ** alphas * student.linear * float(v.norm)) ** 2 / N
    published = math.sqrt(3 * N) * student.quadratic / math.sqrt(2) * s_squared * (1 if p == 0 else math.sqrt(2))
    return published, published * (1 + float(v.rho)) if p == 0 else published


def _gain_panel(settings: Mapping[str, Any]) -> tuple[Panel, Check]:
    """Second spike's gain over the published one: 3 / (3 + 2 rho + rho^2) for rows of norm one."""
    base, (low, high) = settings["base"], settings["ratios"]
    sigma, sigma_star = base["activation"], base["teacher"]
    phi = np.geomspace(low, high, 60)
    common = {"psi": base["psi"], "lam": base["lam"], "sigma_eps": base["noise"], "residual": "y"}

    def second(spikes: Any, rows: Any, at: Array) -> Array:
        options = {**common, "phi": at, "spikes": spikes, "rows": rows}
        return Delta(2, sigma, sigma_star, **options) - Delta(1, sigma, sigma_star, **options)

    published = second("published", "sphere", phi)
    places = np.geomspace(low, high, 13)
    problems = [
        Problem.moniri2024(**{**base, "phi": float(p)}, n=LARGE, alpha=sum(windows(l)) / 2, residual="y")
        for p in places
        for l in (1, 2)  # noqa: E741
    ]
    losses = np.array([f.train_loss for f in predict_many(problems)]).reshape(-1, 2)
    solver = (losses[:, 0] - losses[:, 1]) / second("published", "sphere", places)
    expected = second("network", "gaussian", places) / second("published", "sphere", places)
    apart = float(np.max(np.abs(solver / expected - 1)))
    x = phi.tolist()
    lines = [
        Line(x, (second("network", "gaussian", phi) / published).tolist(), "Gaussian rows", "large"),
        Line(x, (second("network", "sphere", phi) / published).tolist(), "rows of norm one", "infinite"),
        Line(x, np.ones_like(phi).tolist(), "published", "initial", "dashed"),
        Line(places.tolist(), solver.tolist(), "n = 1e16", "teacher", "dotted"),
    ]
    panel = Panel("gain of the second spike, computed", "d/n", "over the published gain", "log", lines=lines)
    return panel, Check.at_most("gain of the second spike at n = 1e16, relative to the limit", apart, 0.03)
