"""Distance of the spiked features F_l from the features F, and the norms of their terms.

Settings
--------
base : fixed parameters of `Problem.moniri2024`.
order : largest l.
alphas : exponents, each with two panels; ``windows`` has the number l of spikes of each.
Presets hold ``points``, the numbers of samples.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse.linalg import svds

from gradstep.panels import Panel, Points
from gradstep.papers.charts import Curve, charts
from gradstep.papers.claims import power_law
from gradstep.papers.experiment import Array, Experiment
from gradstep.papers.moniri2024.features import Spikes, spike_sizes, spikes
from gradstep.papers.outcome import Check, Outcome
from gradstep.papers.places import Place, Sample, Settings, on_curve
from gradstep.problem import Problem
from gradstep.simulation import Network
from gradstep.theory.step.statistics import step_statistics

_REGIMES = ("initial", "few", "small", "large", "between")


def gradient_rest(problem: Problem) -> tuple[float, float]:
    """Return the limit of ``|beta|`` and the variance of the part of the gradient beyond rank one."""
    d, width, n_step, *_ = problem.real_sizes()
    step = step_statistics(problem, d, width, n_step)
    return step.gradient_norm, width * step.bulk


def terms_of(network: Network, inputs: Array, order: int, rest: float) -> Spikes:
    """Return the terms of F_l on some inputs, with the variance that the part of the gradient beyond rank one adds."""
    problem, readout = network.problem, network.readout / math.sqrt(len(network.readout))
    along = inputs @ network.gradient.linear
    return spikes(problem.activation, along, readout, eta=problem.step_size, order=order, rest=rest)


def _norm(matrix: Array) -> float:
    # A fixed start of the iteration: the same bits every time.
    start = np.ones(min(matrix.shape))
    return float(svds(matrix, k=1, v0=start, tol=1e-10, return_singular_vectors=False)[0])


def measure(parameters: Settings, seed: int) -> dict[str, Any]:
    """Measure ``||F - F_l|| / sqrt(n)``, published and corrected, and the norm of every corrected term."""
    settings = dict(parameters)
    order, problem = settings.pop("order"), Problem.moniri2024(**settings)
    network = Network(problem, seed)
    inputs, _ = network.fit_data()
    n = len(inputs)
    difference = network.features(inputs) - network.initial.features(inputs)
    corrected = terms_of(network, inputs, order, gradient_rest(problem)[1])
    distances = {}
    for name, terms in (("published", terms_of(network, inputs, order, 0.0)), ("corrected", corrected)):
        left, right = terms
        distances[name] = [_norm(difference - left[:, :k] @ right[:, :k].T) / math.sqrt(n) for k in range(order + 1)]
    return {**distances, "terms": (corrected.norms / math.sqrt(n)).tolist()}


class SpikedFeatures(Experiment):
    """The sizes of the terms over their predictions, and how the distances fall."""

    def parameters(self, alpha: float, n: float) -> dict[str, Any]:
        """Return the parameters of a problem."""
        return {**self.settings["base"], "alpha": alpha, "n": n}

    def places(self) -> Iterator[Place]:
        """Yield instances of every exponent and number of samples."""
        for alpha in self.settings["alphas"]:
            for n in self.preset["points"]:
                parameters = {**self.parameters(alpha, n), "order": self.settings["order"]}
                drawn = ("features", sorted({"alpha": alpha, "n": n}.items()))
                yield Place(measure, parameters, f"α = {alpha:g}", n, drawn)

    def outcome(self, samples: Sequence[Sample]) -> Outcome:
        """Draw two panels for each exponent."""
        found = Outcome()
        for alpha, window in zip(self.settings["alphas"], self.settings["windows"], strict=True):
            own = on_curve(samples, f"α = {alpha:g}")
            found += self._terms(alpha, own) + self._distances(alpha, window, own)
        return found

    def _size(self, alpha: float, k: int, n: Array) -> dict[str, list[float]]:
        """Return the norm of a term of F_l, divided by the square root of n."""
        found = []
        for size in map(float, n):
            problem = Problem.moniri2024(**self.parameters(alpha, size))
            norm, rest = gradient_rest(problem)
            sizes: dict[str, Any] = {"n": size, "width": problem.real_sizes().width, "order": k + 1}
            whole = spike_sizes(problem.activation, eta=problem.step_size, gradient_norm=norm, rest=rest, **sizes)
            found.append(float(whole[k]) / math.sqrt(size))
        return {"terms": found}

    def _terms(self, alpha: float, samples: Sequence[Sample]) -> Outcome:
        """Compare the norms of the terms, which grow with n."""
        curves = [
            Curve(
                f"k = {k + 1}",
                _REGIMES[k + 1],
                partial(self._size, alpha, k),
                [sample.item(k) for sample in samples],
                f"α = {alpha:g}, k = {k + 1}",
            )
            for k in range(self.settings["order"])
        ]
        grid = np.rint(np.geomspace(samples[0].x, samples[-1].x, 41))
        title = f"α = {alpha:g}: terms, growing like n^((α-1/2)k+1/2)"
        return charts(curves, grid, {"terms": Panel(title, "samples n", "norm / √n", "log", "log")})

    def _distances(self, alpha: float, window: int, samples: Sequence[Sample]) -> Outcome:
        """Draw the distances, and judge the exponent of that of the window."""
        points, measured, checks = [sample.x for sample in samples], [], []
        for k, regime in enumerate(_REGIMES[: self.settings["order"] + 1]):
            distances = [sample["corrected"][:, k] for sample in samples]
            measured.append(Points.measured(points, distances, f"F_{k}", regime))
            if k > 1:
                published = [sample["published"][:, k] for sample in samples]
                measured.append(Points.measured(points, published, f"F_{k} published", regime))
            if k == window:
                exponent, _ = power_law(points, [values.mean() for values in distances])
                name = f"at alpha = {alpha:g} the exponent of ||F - F_{k}|| / sqrt n in n is {{}}"
                checks.append(Check.at_most(name, exponent, 0.0))
        title, text = f"α = {alpha:g}: F - F_l", "||F - F_l|| / √n"
        return Outcome([Panel(title, "samples n", text, "log", "log", points=measured)], checks=checks)
