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
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradstep.papers.ba2022 import kernels
from gradstep.papers.ba2022.coefficients import coefficients
from gradstep.papers.ba2022.risk import R_0, kernel_lower_bound
from gradstep.papers.figure import Figure, by_point, point_seeds
from gradstep.papers.outcome import Check, Comparison, Outcome, compare, points_of
from gradstep.papers.panels import Line, Panel
from gradstep.problem import Problem
from gradstep.simulation import Network
from gradstep.simulation.instance import TEACHER_AXIS
from gradstep.sweeps import Result, Task
from gradstep.theory import predict

__all__ = ["assemble", "kernel_matrix", "measure", "tasks", "theory"]

Array = NDArray[np.float64]


def kernel_matrix(kind: str, problem: Problem, weights: Array, rows: Array, columns: Array) -> Array:
    """Return the kernel of (3.1) or (3.2) between two sets of inputs.

    Parameters
    ----------
    kind : {"conjugate", "tangent", "inner_product", "distance"}
        The last two are ``exp(<x, y> / d)`` and ``exp(-|x - y|^2 / 2d)``.
    problem : Problem
        Names the activation.
    weights : ndarray, shape (N, d)
    rows, columns : ndarray, shape (., d)
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


def theory(kind: str, base: Mapping[str, Any], ridge: ArrayLike, psi1: ArrayLike) -> Array:
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


def _places(figure: Figure, preset: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], float, list[float]]]:
    """List curve, sample ratio and penalties; the trained kernel comes last."""
    settings, trained = figure.settings, figure.settings["trained"]
    for curve in settings["curves"]:
        for psi1 in preset["points"]:
            yield curve, float(psi1), [float(settings["ridge"])]
        yield curve, float(settings["psi1"]), [float(r) for r in preset["ridges"]]
    yield trained, float(trained["psi1"]), [float(trained["ridge"])]


def tasks(figure: Figure, preset: Mapping[str, Any]) -> list[Task]:
    """List one fit a kernel, place and seed; a whole path of penalties in the second panel."""
    shared = {**figure.settings["base"], "d": preset["d"], "test_samples": preset["test_samples"]}
    return [
        Task(
            f"{__name__}:measure",
            {**shared, **{k: curve[k] for k in ("kernel", "eta") if k in curve}, "psi1": psi1, "ridges": ridges},
            seed,
        )
        for curve, psi1, ridges in _places(figure, preset)
        for seed in point_seeds(figure.name, curve["label"], [psi1, ridges], preset)
    ]


def _problem(parameters: Mapping[str, Any]) -> Problem:
    return Problem.from_dict({"convention": "ba2022", "eta": 0.0, "lam": 1.0, **parameters})


def measure(parameters: Mapping[str, Any], seed: int) -> dict[str, list[float]]:
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


def assemble(figure: Figure, preset: Mapping[str, Any], results: Sequence[Result]) -> Outcome:
    """Put the limits under the points, and all of them above the bound (3.3)."""
    settings = figure.settings
    base, ridge, psi1_path = settings["base"], float(settings["ridge"]), float(settings["psi1"])
    floor = kernel_lower_bound(base["teacher"])
    comparisons: dict[tuple[str, str], list[Comparison]] = {}
    *fixed, after_step = zip(_places(figure, preset), by_point(results, preset), strict=True)
    for (curve, psi1, ridges), own in fixed:
        sample = np.array([r["risk"] for r in own])
        predicted = theory(curve["kernel"], base, ridges, psi1)
        path = len(ridges) > 1
        for j, r in enumerate(ridges):
            found = compare(
                float(predicted[j]),
                sample[:, j].tolist(),
                curve=curve["label"] + (f", n/d = {psi1:g}" if path else ""),
                place=r if path else psi1,
                quantity="prediction risk",
                sample=f"{curve['label']} path" if path else "",
            )
            comparisons.setdefault((curve["label"], "penalty" if path else "psi1"), []).append(found)
    grids = {"psi1": np.geomspace(0.5, 12, 60), "penalty": np.geomspace(1e-3, 1e2, 60)}
    axes = {"psi1": "samples per dimension n/d", "penalty": "penalty added to the kernel matrix"}
    titles = {"psi1": f"penalty {ridge:g}", "penalty": f"n/d = {psi1_path:g}"}
    panels = []
    for axis, grid in grids.items():
        lines, points = [], []
        for curve in settings["curves"]:
            limit = theory(curve["kernel"], base, *((ridge, grid) if axis == "psi1" else (grid, psi1_path)))
            lines.append(Line(grid.tolist(), limit.tolist(), curve["label"], curve["regime"]))
            points.append(points_of(comparisons[curve["label"], axis], curve["label"], curve["regime"]))
        lines.append(_best_linear(base, grid, axis, psi1_path))
        lines.append(Line(grid.tolist(), [floor] * len(grid), "bound (3.3)", "teacher", "dashed"))
        panels.append(Panel(titles[axis], axes[axis], "prediction risk", "log", "log", lines, points))
    every = [c for own in comparisons.values() for c in own]
    trained = _trained(settings, int(preset["d"]), after_step[1])
    checks = (
        Check.at_most("standard errors of a fixed kernel's risk below the bound (3.3)", _below(every, floor), 3.0),
        Check.at_least("the same of the conjugate kernel after a large step", _below([trained], floor), 3.0),
    )
    return Outcome(tuple(panels), (*every, trained), checks, notes=NOTES)


NOTES = (
    "Points: real kernel ridge regressions; lines: proportional limits. The conjugate kernel after a large step, which "
    "is not drawn, is not a fixed kernel: that it gets below the bound shows that the same measurement could."
)


def _below(risks: Sequence[Comparison], floor: float) -> float:
    """Return by how many standard errors the lowest risk is below the bound."""
    return max((floor - c.mean) / c.standard_error for c in risks)


def _trained(settings: Mapping[str, Any], d: int, results: Sequence[Result]) -> Comparison:
    base, trained = settings["base"], settings["trained"]
    lam = trained["ridge"] * base["psi2"] / trained["psi1"]
    expected = predict(_problem({**base, "d": d, "psi1": trained["psi1"], "eta": trained["eta"], "lam": lam}))
    sample, quantity = [r["risk"][0] for r in results], "prediction risk"
    return compare(expected.test_error, sample, curve=trained["label"], place=trained["psi1"], quantity=quantity)


def _best_linear(base: Mapping[str, Any], grid: Array, axis: str, psi1_path: float) -> Line:
    psi1 = grid if axis == "psi1" else np.full_like(grid, psi1_path)
    values = coefficients(base["activation"], base["teacher"])
    penalty = (values.mu2_star_squared + base["sigma_eps"] ** 2) / (psi1 * values.mu1_star**2)
    best = kernels.R_linear(base["teacher"], penalty=penalty, psi1=psi1, sigma_eps=base["sigma_eps"])
    return Line(grid.tolist(), best.tolist(), "best linear ridge", "teacher", "dotted")
