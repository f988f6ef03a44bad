"""The second spike of the real network: its coefficients on real features, and their effect on the gain.

``F - F_0`` is projected on the spike's readout vector (the squares of the readouts) on one side, and on the constant
and the second Hermite polynomial of the projected inputs on the other. The published spike is c_2 (s kappa)^2; the
network's is c_2 (s^2 kappa^2 + tau), and to all powers of the step a smoothed activation.

Settings
--------
base : activation, teacher, phi, psi, lam and noise, with the residual y.
degrees : Hermite degrees of the inputs, with their labels.
largest : end of the horizontal axis; ``ratios``, range of d/n in the panel of the gains.
published_z : the z-score that the published constant part must exceed.
Presets hold n, the exponents (``points``) and the places on a curve (``grid``).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from gradstep.gaussian import hermite_values, moments
from gradstep.overlay import Overlay
from gradstep.panels import Line, Panel
from gradstep.papers.charts import Curve, charts
from gradstep.papers.experiment import Array, Experiment
from gradstep.papers.moniri2024.experiments.limits import arguments
from gradstep.papers.moniri2024.finite import spike_coefficients
from gradstep.papers.moniri2024.gains import PUBLISHED, Delta, direction
from gradstep.papers.moniri2024.staircase import windows
from gradstep.papers.outcome import Check, Outcome
from gradstep.papers.places import Place, Sample, Settings
from gradstep.problem import Problem
from gradstep.simulation import Network
from gradstep.theory import predict_many

LARGE = 1e16
"""Samples at which the equations for every step size stand for the limit."""


def measure(parameters: Settings, seed: int) -> dict[str, list[float]]:
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


class SpikeShape(Experiment):
    """The published and the network's coefficients under the measured ones, and the gains compared in the limit."""

    def places(self) -> Iterator[Place]:
        """Yield real steps of every exponent, at each of which all degrees are measured."""
        degrees = [int(entry["degree"]) for entry in self.settings["degrees"]]
        for alpha in self.preset["points"]:
            step = {"n": int(self.preset["n"]), "alpha": float(alpha), "degrees": degrees}
            yield Place(measure, {**self.settings["base"], **step}, "step", alpha)

    def outcome(self, samples: Sequence[Sample]) -> Outcome:
        """Draw a panel for each degree, and one of the gains."""
        settings, base, n = self.settings, self.settings["base"], self.preset["n"]
        grid = np.linspace(0, float(settings["largest"]), int(self.preset["grid"]))
        found, rejected = Outcome(), []
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
            theory, allowance = partial(_coefficients, base, n, p), settings["allowance"]
            curve = Curve("network", "large", theory, own, f"degree {p}", allowance=allowance)
            found += charts([curve], grid, {"coefficient": axes}, {"coefficient": "coefficient"})
        panel, check = _gain_panel(settings)
        text = "the published constant part lies up to {} standard errors from the same networks"
        return found + Outcome([panel], checks=[check, Check.at_least(text, max(rejected), settings["published_z"])])


def _problem(base: Settings, n: float, alpha: float) -> Problem:
    return Problem.moniri2024(**base, n=n, alpha=alpha, residual="y")


def _coefficients(base: Settings, n: float, p: int, alphas: Array) -> dict[str, list[float]]:
    """Return the coefficients to all powers; a^2 has length sqrt(3 N), and overlaps h_0 and h_2 as 1 and sqrt 2."""
    width = _problem(base, n, 0.0).real_sizes().width
    tables = [spike_coefficients(_problem(base, n, float(alpha))) for alpha in alphas]
    return {"coefficient": [float(math.sqrt(width / 3) * (C[p, 0] + math.sqrt(2) * C[p, 2])) for C in tables]}


def _second(base: Settings, n: float, alphas: Array, p: int) -> tuple[Array, Array]:
    """Return the published second spike's coefficient, and the one with tau."""
    problem = _problem(base, n, 0.0)
    student = moments(problem.activation)
    v = direction(base["activation"], base["teacher"], phi=base["phi"], sigma_eps=base["noise"], residual="y")
    N = problem.real_sizes().width
    s_squared = (float(n) ** alphas * student.linear * float(v.norm)) ** 2 / N
    published = math.sqrt(3 * N) * student.quadratic / math.sqrt(2) * s_squared * (1 if p == 0 else math.sqrt(2))
    return published, published * (1 + float(v.rho)) if p == 0 else published


def _gain_panel(settings: Settings) -> tuple[Panel, Check]:
    """Second spike's gain over the published one: 3 / (3 + 2 rho + rho^2) for rows of norm one."""
    base, (low, high) = settings["base"], settings["ratios"]
    phi = np.geomspace(low, high, 60)

    def second(at: Array, **options: Any) -> Array:
        setting = {**arguments(base), "residual": "y", "phi": at, **options}
        return Delta(2, **setting) - Delta(1, **setting)

    published = second(phi, **PUBLISHED)
    ratios = np.geomspace(low, high, 41)
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
    return panel, Check.at_most(
        "the gain of the second spike at n = 1e16 differs from its limit by {} of it", apart, 0.03
    )
