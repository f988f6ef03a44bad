"""Proposition 2: how far the first gradient is from rank one, and how large the step is beside the weights.

Settings
--------
base : activation, teacher, psi1, psi2 and sigma_eps.
slope_tolerance : largest distance of the measured rate from 1/2.
Presets hold the input dimensions ``points``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gradstep.gaussian import moments
from gradstep.papers.ba2022 import gradient
from gradstep.papers.figure import Figure, point_seeds
from gradstep.papers.outcome import Check, Outcome, compare
from gradstep.papers.panels import Line, Panel, Points
from gradstep.problem import Problem
from gradstep.simulation import Network
from gradstep.sweeps import Result, Task

__all__ = ["assemble", "measure", "tasks"]

QUANTITIES = {
    "weights": "||W0||",
    "weights_frobenius": "||W0||_F / sqrt N",
    "gradient": "sqrt N ||G0||",
    "gradient_frobenius": "sqrt N ||G0||_F",
}
REGIMES = {
    "weights": "initial",
    "weights_frobenius": "first kind",
    "gradient": "second kind",
    "gradient_frobenius": "third kind",
}


def tasks(figure: Figure, preset: Mapping[str, Any]) -> list[Task]:
    """List one real gradient a dimension and seed."""
    return [
        Task(f"{__name__}:measure", {**figure.settings["base"], "d": d}, seed)
        for d in preset["points"]
        for seed in point_seeds(figure.name, "gradient", d, preset)
    ]


def measure(parameters: Mapping[str, Any], seed: int) -> dict[str, float]:
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


def _norm(matrix: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    """Operator norm, from the smaller Gram matrix."""
    rows, columns = matrix.shape
    gram = matrix @ matrix.T if rows <= columns else matrix.T @ matrix
    return float(np.sqrt(np.linalg.eigvalsh(gram)[-1]))


def assemble(figure: Figure, preset: Mapping[str, Any], results: Sequence[Result]) -> Outcome:
    """Fit the rate, and put the limits of the norms under the measured ones."""
    settings, count = figure.settings, int(preset["seeds"])
    base, d = settings["base"], np.array(preset["points"], dtype=np.float64)
    n, N = np.rint(base["psi1"] * d), np.rint(base["psi2"] * d)
    names = ("relative_error", *QUANTITIES)
    measured = {name: np.array([r[name] for r in results]).reshape(len(d), count) for name in names}
    mean = {name: values.mean(axis=1) for name, values in measured.items()}

    limits = gradient.norms(
        base["activation"], base["teacher"], psi1=base["psi1"], psi2=base["psi2"], sigma_eps=base["sigma_eps"], d=d
    )
    comparisons = [
        compare(
            float(getattr(limits, name)[i]),
            measured[name][i].tolist(),
            curve=label,
            place=float(d[i]),
            quantity="norm",
            sample=f"d = {d[i]:g}",
        )
        for name, label in QUANTITIES.items()
        for i in range(len(d))
    ]
    ratio = mean["relative_error"]
    slope, intercept = np.polyfit(np.log(n), np.log(ratio), 1)
    tolerance = float(settings["slope_tolerance"])
    # The proposition names no constant: it is fixed at the smallest n, and tried at the others.
    constant = float(ratio[0] / gradient.error_bound(n[0], 1.0))
    exceeded = float((ratio[1:] / gradient.error_bound(n[1:], constant)).max())
    checks = (
        Check.at_most("distance of the exponent of ||G0 - A|| / ||G0|| in n from -1/2", abs(slope + 0.5), tolerance),
        Check.at_most("||G0 - A|| / ||G0|| over its bound, with C from the smallest n, at larger n", exceeded, 1.0),
    )
    fitted = (np.exp(intercept) * n**slope).tolist()
    rate = Panel(
        "distance from rank one",
        "samples n",
        "||G0 - A|| / ||G0||",
        "log",
        "log",
        lines=[
            Line(n.tolist(), fitted, f"n^{slope:.2f}", "second kind"),
            Line(
                n.tolist(),
                gradient.error_bound(n, constant).tolist(),
                f"{constant:.2f} log²n / √n",
                "teacher",
                "dashed",
            ),
        ],
        points=[Points.measured(n.tolist(), measured["relative_error"], f"n^{slope:.2f}", "second kind")],
    )
    norms = Panel(
        "norms",
        "input dimension d",
        "norm",
        "log",
        "log",
        lines=[Line(d.tolist(), getattr(limits, k).tolist(), v, REGIMES[k]) for k, v in QUANTITIES.items()],
        points=[Points.measured(d.tolist(), measured[k], v, REGIMES[k]) for k, v in QUANTITIES.items()],
    )
    return Outcome((rate, norms, _steps(N, limits, mean)), tuple(comparisons), checks, notes=NOTES)


NOTES = (
    "The remainder G0 - A vanishes in operator norm like 1/sqrt n, but not in Frobenius norm: that of G0 is above its "
    "operator norm in the limit, and at eta = sqrt N this is what the Frobenius norm of the step is made of. "
    "Right: the step against the weights, in operator norm and in Frobenius norm (F), at both scalings."
)


def _steps(N: Any, limits: gradient.Norms, mean: Mapping[str, Any]) -> Panel:
    lines, points = [], []
    for label, regime, eta in (("eta = 1", "small", np.ones_like(N)), ("eta = sqrt N", "large", np.sqrt(N))):
        operator = (limits.gradient / limits.weights, mean["gradient"] / mean["weights"], 1.0, label, "solid")
        frobenius = (
            limits.gradient_frobenius / limits.weights_frobenius,
            mean["gradient_frobenius"] / mean["weights_frobenius"],
            1 / np.sqrt(N),
            f"{label}, F",
            "dashed",
        )
        for limit, found, scale, name, style in (operator, frobenius):
            lines.append(Line(N.tolist(), (eta * limit * scale).tolist(), name, regime, style))  # type: ignore[arg-type]
            points.append(Points(N.tolist(), (eta * found * scale).tolist(), None, name, regime))
    return Panel("step beside weights", "width N", "||W1 - W0|| / ||W0||", "log", "log", lines, points)
