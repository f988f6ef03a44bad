"""Proposition 1: ridge regression with four fixed kernels never gets below the nonlinear part of the teacher.

Settings
--------
base : activation, teacher, psi2 and sigma_eps.
ridge : what is added to the kernel matrix in the first panel.
psi1 : sample ratio of the second panel.
curves : label, regime and kernel (``conjugate``, ``tangent``, ``inner_product`` or ``distance``).
trained : psi1, ridge and step size of the conjugate kernel after a step, which is not fixed and may break the bound.
Presets hold d, the sample ratios ``points``, the penalties ``ridges`` and ``test_samples``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gradstep.panels import Line, Panel
from gradstep.papers.ba2022 import kernels
from gradstep.papers.ba2022.coefficients import coefficients
from gradstep.papers.ba2022.risk import R_0, kernel_lower_bound
from gradstep.papers.charts import Curve, charts
from gradstep.papers.claims import below, not_below
from gradstep.papers.experiment import Array, Experiment
from gradstep.papers.outcome import Check, Judged, Outcome
from gradstep.papers.places import Place, Sample, Settings, on_curve
from gradstep.problem import Problem
from gradstep.simulation import Network
from gradstep.simulation.instance import TEACHER_AXIS
from gradstep.theory import predict


def kernel_matrix(kind: str, problem: Problem, weights: Array, rows: Array, columns: Array) -> Array:
    """Return the kernel of (3.1) or (3.2) between two sets of inputs (., d), at weights (N, d).

    It is ``"conjugate"``, ``"tangent"``, ``"inner_product"``, which is ``exp(<x, y> / d)``, or ``"distance"``, which is
    ``exp(-|x - y|^2 / 2d)``. The problem names the activation.
    """
    N, d = weights.shape
    if kind == "conjugate":
        left, right = (problem.activation(x @ weights.T) for x in (rows, columns))
        return np.asarray(left @ right.T / N)
    inner = rows @ columns.T / d
    if kind == "tangent":
        left, right = (problem.activation.derivative(x @ weights.T) for x in (rows, columns))
        return np.asarray(inner * (left @ right.T) / N)
    if kind == "inner_product":
        return np.asarray(np.exp(inner))
    sizes = [(x**2).sum(axis=1) / (2 * d) for x in (rows, columns)]
    return np.asarray(np.exp(inner - sizes[0][:, None] - sizes[1][None, :]))


def theory(kind: str, base: Settings, ridge: ArrayLike, psi1: ArrayLike) -> Array:
    """Return the limit of the risk of one kernel when `ridge` is added to its matrix."""
    sigma, sigma_star, psi2 = base["activation"], base["teacher"], base["psi2"]
    law = {"psi1": psi1, "sigma_eps": base["sigma_eps"]}
    if kind in ("conjugate", "tangent"):
        lam = np.asarray(ridge) * psi2 / np.asarray(psi1)
        if kind == "conjugate":
            return R_0(sigma, sigma_star, lam=lam, psi2=psi2, **law)
        return kernels.R_NTK(sigma, sigma_star, lam=lam, psi2=psi2, **law)
    if kind == "inner_product":
        equivalent = kernels.inner_product_kernel(1.0, math.e, 1.0)
    else:
        equivalent = kernels.distance_kernel(1.0, math.exp(-1), -0.5 * math.exp(-1))
    return kernels.R_ker(equivalent, sigma_star, ridge=ridge, **law)


def _problem(parameters: Settings) -> Problem:
    return Problem.from_dict({"convention": "ba2022", "eta": 0.0, "lam": 1.0, **parameters})


def measure(parameters: Settings, seed: int) -> dict[str, list[float]]:
    """Fit one kernel on real data and return its risk for every penalty.

    The risk is a mean over fresh inputs, less the sampled mean square of the part of the teacher orthogonal to linear
    functions, plus its exact mean square: most of the sampling noise cancels.
    """
    problem = _problem({k: v for k, v in parameters.items() if k not in ("kernel", "ridges", "test_samples")})
    network = Network(problem, seed)
    weights, kind = network.after, parameters["kernel"]
    inputs, labels = network.fit_data()
    test, target = network.test_data(parameters["test_samples"])
    gram = kernel_matrix(kind, problem, weights, inputs, inputs)
    identity = np.eye(len(labels))
    solved = np.stack([np.linalg.solve(gram + r * identity, labels) for r in parameters["ridges"]], axis=1)
    predicted = kernel_matrix(kind, problem, weights, test, inputs) @ solved
    along = test[:, TEACHER_AXIS]
    values = coefficients(parameters["activation"], parameters["teacher"])
    nonlinear = target - values.mu1_star * along
    excess = ((predicted - target[:, None]) ** 2 - (nonlinear**2)[:, None]).mean(axis=0)
    return {"risk": (excess + values.mu2_star_squared).tolist()}


class KernelRidge(Experiment):
    """Limits under the fits of four kernels, and all of them above the bound (3.3)."""

    def places(self) -> Iterator[Place]:
        """Yield fits of every kernel at every sample ratio, and of a path of penalties; the trained kernel is last."""
        settings, trained = self.settings, self.settings["trained"]
        shared = {**settings["base"], "d": self.preset["d"], "test_samples": self.preset["test_samples"]}
        ridge, path = [float(settings["ridge"])], [float(r) for r in self.preset["ridges"]]
        places = [*(("psi1", x, ridge) for x in self.preset["points"]), ("penalty", settings["psi1"], path)]
        for curve in settings["curves"]:
            for axis, psi1, ridges in places:
                fit = {"kernel": curve["kernel"], "psi1": float(psi1), "ridges": ridges}
                drawn = (curve["label"], [float(psi1), ridges])
                yield Place(measure, {**shared, **fit}, f"{curve['label']}/{axis}", float(psi1), drawn)
        psi1, ridge = float(trained["psi1"]), [float(trained["ridge"])]
        fit = {"kernel": trained["kernel"], "eta": trained["eta"], "psi1": psi1, "ridges": ridge}
        yield Place(measure, {**shared, **fit}, trained["label"], psi1, (trained["label"], [psi1, ridge]))

    def _risk(self, kind: str, x: Array, **fixed: float) -> dict[str, Array]:
        """Return the limit of a kernel along the sample ratio at a given penalty, or the other way round."""
        at: dict[str, Any] = {"ridge": x, "psi1": x, **fixed}
        return {"risk": theory(kind, self.settings["base"], **at)}

    def outcome(self, samples: Sequence[Sample]) -> Outcome:
        """Draw risks against the sample ratio and against the penalty, and judge the bound."""
        settings, base = self.settings, self.settings["base"]
        ridge, psi1 = float(settings["ridge"]), float(settings["psi1"])
        floor, found = kernel_lower_bound(base["teacher"]), Outcome()
        ratios, penalties = np.geomspace(0.5, 12, 60), np.geomspace(1e-3, 1e2, 60)
        for along, title, axis, grid, best in (
            ("psi1", f"penalty {ridge:g}", "samples per dimension n/d", ratios, _best_linear(base, ratios)),
            ("penalty", f"n/d = {psi1:g}", "penalty added to the kernel matrix", penalties, _best_linear(base, psi1)),
        ):
            curves = []
            for curve in settings["curves"]:
                kind, label, own = curve["kernel"], curve["label"], on_curve(samples, f"{curve['label']}/{along}")
                if along == "psi1":
                    limit, own = partial(self._risk, kind, ridge=ridge), [sample.item(0) for sample in own]
                else:
                    limit, own = partial(self._risk, kind, psi1=psi1), own[0].spread("ridges")
                curves.append(Curve(label, curve["regime"], limit, own, f"{label}, {title}"))
            lines = [
                Line.of(grid, best, "best linear ridge", "teacher", "dotted"),
                Line.of(grid, floor, "bound (3.3)", "teacher", "dashed"),
            ]
            found += charts(curves, grid, {"risk": Panel(title, axis, "prediction risk", "log", "log", lines)})
        trained = self._trained(samples[-1].item(0))
        checks = (
            not_below("no fixed kernel", "the bound (3.3)", below(floor, found.comparisons)),
            Check.at_least(
                "the conjugate kernel after a large step lies {} standard errors below it", below(floor, [trained]), 3.0
            ),
        )
        return found + Outcome(comparisons=[trained], checks=checks)

    def _trained(self, sample: Sample) -> Judged:
        base, trained = self.settings["base"], self.settings["trained"]
        lam = trained["ridge"] * base["psi2"] / trained["psi1"]
        step = {"d": self.preset["d"], "psi1": trained["psi1"], "eta": trained["eta"], "lam": lam}
        return sample.compare(predict(_problem({**base, **step})).test_error, "risk", quantity="prediction risk")


def _best_linear(base: Settings, psi1: ArrayLike) -> Array:
    values = coefficients(base["activation"], base["teacher"])
    penalty = (values.mu2_star_squared + base["sigma_eps"] ** 2) / (np.asarray(psi1) * values.mu1_star**2)
    return kernels.R_linear(base["teacher"], penalty=penalty, psi1=psi1, sigma_eps=base["sigma_eps"])
