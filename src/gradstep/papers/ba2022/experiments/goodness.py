r"""The scalars :math:`\tau^*` and :math:`\kappa^*` of (5.1) for pairs of functions, with two independent evaluations.

One is a sum over Hermite coefficients: by Mehler's formula the average over :math:`\xi_2` multiplies the coefficient
of order k of :math:`\sigma(\sqrt{1+\kappa^2}\,\cdot)` by the k-th power of :math:`\kappa/\sqrt{1+\kappa^2}`. The other
draws :math:`\xi_1` and several :math:`\xi_2` for each.

Settings
--------
pairs : activation and teacher of each row.
drawn : pairs whose objective is drawn, and ``regimes``, their colours.
order : Hermite coefficients used.
Presets hold the number of ``rows`` and of ``samples`` of a seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from gradstep.gaussian import hermite_coefficients, moments, scalar_function
from gradstep.panels import Line, Panel, Points, Table
from gradstep.papers.ba2022.bound import beats_kernels
from gradstep.papers.ba2022.risk import kernel_lower_bound
from gradstep.papers.ba2022.student import student_risk, tau_star
from gradstep.papers.experiment import Experiment
from gradstep.papers.outcome import Check, Outcome
from gradstep.papers.places import Place, Sample, Settings

DRAWS = 32
"""Draws of the second variable for each of the first."""

FAR = 1e8
"""Stands for an infinite slope in the sampled objective."""

LOWEST = 1e-5
"""Smaller ratios are drawn here."""

RESOLVED = 3.0
"""Slopes up to this size are resolved by a sum of 160 Hermite coefficients."""


def hermite_risk(sigma: str, sigma_star: str, kappa: float, order: int) -> float:
    """Return the objective of (5.1) for a centred teacher as a sum over Hermite coefficients; finite slopes only."""
    size = float(np.hypot(1.0, kappa))
    student = hermite_coefficients(sigma, order, scale=size) * (kappa / size) ** np.arange(order + 1)
    teacher = hermite_coefficients(sigma_star, order)
    values = moments(scalar_function(sigma_star))
    variance = values.linear**2 + values.nonlinear_second_moment
    return float(variance - 2 * (student[1:] * teacher[1:]).sum() + (student**2).sum())


def measure(parameters: Settings, seed: int) -> dict[str, float]:
    """Sample the objective of (5.1) at a slope, without bias."""
    sigma, target = scalar_function(parameters["activation"]), scalar_function(parameters["teacher"])
    draw = np.random.default_rng(seed)
    first = draw.standard_normal((parameters["samples"], 1))
    outputs = sigma(parameters["kappa"] * first + draw.standard_normal((parameters["samples"], DRAWS)))
    error = target(first[:, 0]) - moments(target).mean - outputs.mean(axis=1)
    # The mean of DRAWS outputs has a variance of its own, which its square would add.
    return {"risk": float((error**2 - outputs.var(axis=1, ddof=1) / DRAWS).mean())}


class Goodness(Experiment):
    """A table of the optima, compared with both evaluations."""

    def places(self) -> Iterator[Place]:
        """Yield the sampled objective of every pair, at its optimal slope."""
        for sigma, target in self.settings["pairs"][: self.preset["rows"]]:
            kappa = float(np.clip(tau_star(sigma, target).kappa, -FAR, FAR))
            parameters = {"activation": sigma, "teacher": target, "kappa": kappa, "samples": self.preset["samples"]}
            yield Place(measure, parameters, sigma, target)

    def outcome(self, samples: Sequence[Sample]) -> Outcome:
        """Tabulate the optima, and compare them with both evaluations."""
        order = int(self.settings["order"])
        slopes = np.concatenate([-np.geomspace(20, 1e-2, 60), [0.0], np.geomspace(1e-2, 20, 60)])
        near = slopes[np.abs(slopes) <= RESOLVED]
        comparisons, rows, differences, excesses = [], [], [], []
        for sample in samples:
            sigma, target = sample.place.curve, sample.place.x
            best, floor = tau_star(sigma, target), kernel_lower_bound(target)
            words = {"curve": f"{sigma} / {target}", "place": f"{best.kappa:.4g}", "quantity": "tau*"}
            found = sample.compare(best.tau, "risk", **words)
            comparisons.append(found)
            if abs(best.kappa) <= RESOLVED:
                differences.append(abs(hermite_risk(sigma, target, best.kappa, order) - best.tau))
            excesses.append(best.tau - min(hermite_risk(sigma, target, float(k), order) for k in near))
            verdict = "beats kernels" if beats_kernels(sigma, target) else ("below" if best.tau < floor else "above")
            kappa = f"{best.kappa:.5f}" if np.isfinite(best.kappa) else "infinite"
            tau = f"{best.tau:.3e}" if best.tau > 1e-12 else "0"
            sampled = f"{found.mean:.6f} ± {found.standard_error:.6f}"
            rows.append((sigma, target, kappa, tau, sampled, f"{floor:.5f}", verdict))
        header = ("activation", "teacher", "κ*", "τ*", "τ* sampled", "bound (3.3)", "10 τ* ≤ bound")
        erf = tau_star("erf", "erf")
        checks = (
            Check.at_most("tau* differs from its Hermite sum by at most {}", max(differences), 1e-8),
            Check.at_most("tau* exceeds the Hermite sum at other slopes by at most {}", max(excesses), 1e-9),
            Check.at_most("tau* of erf / erf is {}", erf.tau, 1e-12),
            Check.at_most("kappa* of erf / erf differs from √3 by {}", abs(erf.kappa - 3**0.5), 1e-5),
        )
        return Outcome((_panel(self.settings),), tuple(comparisons), checks, table=Table(header, rows))


def _panel(settings: Settings) -> Panel:
    lines, points = [], []
    for (sigma, target), regime in zip(settings["drawn"], settings["regimes"], strict=True):
        best, floor, name = tau_star(sigma, target), kernel_lower_bound(target), f"{sigma} / {target}"
        x = np.sort(np.append(np.linspace(0, 4, 121), best.kappa))
        ratio = np.maximum(student_risk(sigma, target, x) / floor, LOWEST)
        lines.append(Line.of(x, ratio, name, regime))
        points.append(Points([best.kappa], [max(best.tau / floor, LOWEST)], None, name, regime))
    lines.append(Line.of([0, 4], 1.0, "kernel bound", "teacher", "dashed"))
    lines.append(Line.of([0, 4], 0.1, "bound of Theorem 7", "teacher", "dotted"))
    return Panel("", "slope kappa", "objective of (5.1) / bound (3.3)", "linear", "log", lines, points)
