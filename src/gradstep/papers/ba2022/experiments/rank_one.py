"""Proposition 2: how far the first gradient is from rank one, and how large the step is beside the weights.

Settings
--------
base : activation, teacher, psi1, psi2 and sigma_eps.
slope_tolerance : largest distance of the measured rate from 1/2.
Presets hold the input dimensions ``points``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from gradstep.gaussian import moments
from gradstep.panels import Line, Panel, Points, Style
from gradstep.papers.ba2022 import gradient
from gradstep.papers.charts import Curve, charts
from gradstep.papers.claims import power_law
from gradstep.papers.experiment import Array, Experiment
from gradstep.papers.outcome import Check, Outcome
from gradstep.papers.places import Place, Sample, Settings
from gradstep.problem import Problem
from gradstep.simulation import Network

QUANTITIES = {
    "weights": ("||W0||", "initial"),
    "weights_frobenius": ("||W0||_F / sqrt N", "first kind"),
    "gradient": ("sqrt N ||G0||", "second kind"),
    "gradient_frobenius": ("sqrt N ||G0||_F", "third kind"),
}
"""How the norms are written and coloured, by their name in the results."""


def measure(parameters: Settings, seed: int) -> dict[str, float]:
    """Take one step and return the norms of section 3.2 and the relative error of the rank-one matrix."""
    problem = Problem.ba2022(lam=1.0, eta=1.0, **parameters)
    network = Network(problem, seed)
    before, readout = network.before, network.readout
    inputs, labels = network.step_data()
    width = len(readout)
    first = gradient.first_gradient(before.T, network.after.T, problem.step_size)
    mu1 = moments(problem.activation).derivative_mean
    error = first - gradient.rank_one(inputs, labels, readout / np.sqrt(width), mu1)
    root = np.sqrt(width)
    return {
        "relative_error": _norm(error) / _norm(first),
        "weights": _norm(before),
        "weights_frobenius": float(np.linalg.norm(before)) / root,
        "gradient": root * _norm(first),
        "gradient_frobenius": root * float(np.linalg.norm(first)),
    }


def _norm(matrix: Array) -> float:
    """Operator norm, from the smaller Gram matrix."""
    rows, columns = matrix.shape
    gram = matrix @ matrix.T if rows <= columns else matrix.T @ matrix
    return float(np.sqrt(np.linalg.eigvalsh(gram)[-1]))


class RankOne(Experiment):
    """The rate of the distance, and the limits of the norms under the measured ones."""

    def places(self) -> Iterator[Place]:
        """Yield real gradients at every dimension."""
        for d in self.preset["points"]:
            yield Place(measure, {**self.settings["base"], "d": d}, "gradient", d)

    def _limit(self, name: str, d: Array) -> dict[str, Array]:
        base = self.settings["base"]
        ratios = {ratio: base[ratio] for ratio in ("psi1", "psi2", "sigma_eps")}
        return {"norm": getattr(gradient.norms(base["activation"], base["teacher"], d=d, **ratios), name)}

    def outcome(self, samples: Sequence[Sample]) -> Outcome:
        """Fit the rate, and draw the norms and the steps beside the weights."""
        base, d = self.settings["base"], np.array(self.preset["points"], dtype=np.float64)
        curves = [
            Curve(label, regime, partial(self._limit, name), [sample.select(norm=name) for sample in samples])
            for name, (label, regime) in QUANTITIES.items()
        ]
        grid = np.geomspace(d[0], d[-1], 41)
        rate = _rate(np.rint(base["psi1"] * d), samples, float(self.settings["slope_tolerance"]))
        norms = charts(curves, grid, {"norm": Panel("norms", "input dimension d", "norm", "log", "log")})
        limits = {name: self._limit(name, grid)["norm"] for name in QUANTITIES}
        return rate + norms + Outcome([_steps(base["psi2"] * grid, limits, samples, np.rint(base["psi2"] * d))])


def _rate(n: Array, samples: Sequence[Sample], tolerance: float) -> Outcome:
    ratio = np.array([sample["relative_error"].mean() for sample in samples])
    slope, fitted = power_law(n, ratio)
    # The proposition names no constant: it is fixed at the smallest n, and tried at the others.
    constant = float(ratio[0] / gradient.error_bound(n[0], 1.0))
    exceeded = float((ratio[1:] / gradient.error_bound(n[1:], constant)).max())
    checks = (
        Check.at_most("the exponent of ||G0 - A|| / ||G0|| in n is {} away from -1/2", abs(slope + 0.5), tolerance),
        Check.at_most(
            "||G0 - A|| / ||G0|| is at most {} times its bound at larger n, with C from the smallest n", exceeded, 1.0
        ),
    )
    grid, label = np.geomspace(n[0], n[-1], 41), f"n^{slope:.2f}"
    bound = Line.of(grid, gradient.error_bound(grid, constant), f"{constant:.2f} log²n / √n", "teacher", "dashed")
    lines = [Line.of(n, fitted, label, "second kind"), bound]
    points = [Points.measured(n, [sample["relative_error"] for sample in samples], label, "second kind")]
    panel = Panel("distance from rank one", "samples n", "||G0 - A|| / ||G0||", "log", "log", lines, points)
    return Outcome([panel], checks=checks)


def _steps(widths: Array, limits: Settings, samples: Sequence[Sample], N: Array) -> Panel:
    """Draw the step beside the weights, in both norms, at both scalings."""
    mean = {name: np.array([sample[name].mean() for sample in samples]) for name in QUANTITIES}
    lines, points = [], []
    for label, regime, exponent in (("eta = 1", "small", 0.0), ("eta = sqrt N", "large", 0.5)):
        norms: list[tuple[str, str, float, Style]] = [
            ("", label, 0.0, "solid"),
            ("_frobenius", f"{label}, F", -0.5, "dashed"),
        ]
        for norm, name, power, style in norms:
            predicted = limits[f"gradient{norm}"] / limits[f"weights{norm}"] * widths ** (exponent + power)
            found = mean[f"gradient{norm}"] / mean[f"weights{norm}"] * N ** (exponent + power)
            lines.append(Line.of(widths, predicted, name, regime, style))
            points.append(Points(N.tolist(), found.tolist(), None, name, regime))
    return Panel("step beside weights", "width N", "||W1 - W0|| / ||W0||", "log", "log", lines, points)
