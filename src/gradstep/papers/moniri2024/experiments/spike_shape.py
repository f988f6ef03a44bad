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
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradstep.gaussian import hermite_values, moments
from gradstep.overlay import Overlay
from gradstep.papers.charts import Curve, charts
from gradstep.papers.figure import Figure
from gradstep.papers.moniri2024.experiments.limits import arguments
from gradstep.papers.moniri2024.finite import spike_coefficients
from gradstep.papers.moniri2024.gains import PUBLISHED, Delta, direction
from gradstep.papers.moniri2024.staircase import windows
from gradstep.papers.outcome import Check, Outcome
from gradstep.papers.panels import Line, Panel
from gradstep.papers.places import Place, Sample
from gradstep.problem import Problem
from gradstep.simulation import Network
from gradstep.theory import predict_many

__all__ = ["measure", "outcome", "places"]

Array = NDArray[np.float64]

LARGE = 1e16
"""Samples at which the equations for every step size stand for the limit."""


def places(figure: Figure, preset: Mapping[str, Any]) -> Iterator[Place]:
    """Real steps of every exponent, at each of which all degrees are measured."""
    degrees = [int(entry["degree"]) for entry in figure.settings["degrees"]]
    for alpha in preset["points"]:
        step = {"n": int(preset["n"]), "alpha": float(alpha), "degrees": degrees}
        yield Place(measure, {**figure.settings["base"], **step}, "step", alpha)


def measure(parameters: Mapping[str, Any], seed: int) -> dict[str, list[float]]:
    """Return the coefficients of ``F - F_0``, divided by the square root of n."""
    settings = dict(parameters)
    degrees = settings.pop("degrees")
    problem = Problem.moniri2024(**settings, residual="y")
    network = Network(problem, seed)
    inputs, _ = network.fit_data()
    change = network.features(inputs) - network.initial.features(inputs)
    kappa = inputs @ network.spike.direction
    squares = network.readout**2 / np.linalg.norm(network.readout**2)
    along = hermite_values(kappa, max(degrees)) @ (change @ squares) / len(kappa)
    return {"coefficient": [float(along[p]) for p in degrees]}


def outcome(figure: Figure, preset: Mapping[str, Any], samples: Sequence[Sample]) -> Outcome:
    """Put the published and the network's coefficients under the measured ones, and compare the gains in the limit."""
    settings, base, n = figure.settings, figure.settings["base"], preset["n"]
    grid = np.linspace(0, float(settings["largest"]), int(preset["grid"]))
    found = Outcome()
    rejected = []
    for k, entry in enumerate(settings["degrees"]):
        p, own = int(entry["degree"]), [sample.item(k) for sample in samples]
        published, corrected = _second(base, n, grid, p)
        lines = [Line.of(grid, published, "published", "initial", "dashed")]
        if p == 0:
            lines.append(Line.of(grid, corrected, "with τ", "few", "dotted"))
            printed = _second(base, n, np.array([sample.x for sample in own]), p)[0]
            for sample, value in zip(own, printed, strict=True):
                rejected.append(abs(Overlay.of(value, sample["coefficient"]).z))
        axes = Panel(entry["label"], "exponent α of the step size", "coefficient / √n", lines=lines)
        allowance = settings["allowance"]
        curve = Curve("network", "large", partial(_coefficients, base, n, p), own, f"degree {p}", allowance=allowance)
        found += charts([curve], grid, {"coefficient": axes}, {"coefficient": "coefficient"})
    panel, check = _gain_panel(settings)
    bound = float(figure.criterion["largest_z"])
    most = Check.at_least("largest |z| of the published constant part, on the same networks", max(rejected), bound)
    return found + Outcome([panel], checks=[check, most])


def _problem(base: Mapping[str, Any], n: float, alpha: float) -> Problem:
    return Problem.moniri2024(**base, n=n, alpha=alpha, residual="y")


def _coefficients(base: Mapping[str, Any], n: float, p: int, alphas: Array) -> dict[str, list[float]]:
    """Return the coefficients to all powers; a^2 has length sqrt(3 N), and overlaps h_0 and h_2 as 1 and sqrt 2."""
    width = _problem(base, n, 0.0).real_sizes().width
    tables = [spike_coefficients(_problem(base, n, float(alpha))) for alpha in alphas]
    return {"coefficient": [float(math.sqrt(width / 3) * (C[p, 0] + math.sqrt(2) * C[p, 2])) for C in tables]}


def _second(base: Mapping[str, Any], n: float, alphas: Array, p: int) -> tuple[Array, Array]:
    """Return the published second spike's coefficient, and the one with tau."""
    problem = _problem(base, n, 0.0)
    student = moments(problem.activation)
    v = direction(base["activation"], base["teacher"], phi=base["phi"], sigma_eps=base["noise"], residual="y")
    N = problem.real_sizes().width
    s_squared = (float(n) ** alphas * student.linear * float(v.norm)) ** 2 / N
    published = math.sqrt(3 * N) * student.quadratic / math.sqrt(2) * s_squared * (1 if p == 0 else math.sqrt(2))
    return published, published * (1 + float(v.rho)) if p == 0 else published


def _gain_panel(settings: Mapping[str, Any]) -> tuple[Panel, Check]:
    """Second spike's gain over the published one: 3 / (3 + 2 rho + rho^2) for rows of norm one."""
    base, (low, high) = settings["base"], settings["ratios"]
    phi = np.geomspace(low, high, 60)

    def second(at: Array, **options: Any) -> Array:
        setting = {**arguments(base), "residual": "y", "phi": at, **options}
        return Delta(2, **setting) - Delta(1, **setting)

    published = second(phi, **PUBLISHED)
    ratios = np.geomspace(low, high, 13)
    problems = [
        Problem.moniri2024(**{**base, "phi": float(p)}, n=LARGE, alpha=sum(windows(l)) / 2, residual="y")
        for p in ratios
        for l in (1, 2)  # noqa: E741
    ]
    losses = np.array([f.train_loss for f in predict_many(problems)]).reshape(-1, 2)
    solver = (losses[:, 0] - losses[:, 1]) / second(ratios, **PUBLISHED)
    expected = second(ratios) / second(ratios, **PUBLISHED)
    apart = float(np.max(np.abs(solver / expected - 1)))
    lines = [
        Line.of(phi, second(phi) / published, "Gaussian rows", "large"),
        Line.of(phi, second(phi, rows="sphere") / published, "rows of norm one", "infinite"),
        Line.of(phi, 1.0, "published", "initial", "dashed"),
        Line.of(ratios, solver, "n = 1e16", "teacher", "dotted"),
    ]
    panel = Panel("gain of the second spike, computed", "d/n", "over the published gain", "log", lines=lines)
    return panel, Check.at_most("gain of the second spike at n = 1e16, relative to the limit", apart, 0.03)
