"""Delta_l or Lambda_l for every l: as published, closed form, equations at n = 1e16, sharp spikes on real features.

No network that fits in a computer has more than two spikes that are sharp. So spikes of the network's shapes, but far
stronger than the bulk, are added to the features of real random layers: what each spike more takes off the training
loss and off the test error is compared with the limits.

Settings
--------
quantity : ``Delta`` (training loss) or ``Lambda`` (test error); both share their measurements.
activation, teacher, phi, psi, lam, noise : the setting, with the residual y and Gaussian rows.
strength : operator norm of every spike, in units of the square root of n.
Presets hold n, the number of ``spikes``, and how many ``test`` inputs there are for each sample.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.polynomial.polynomial import polyval
from numpy.typing import NDArray

from gradstep.papers.ba2022 import network
from gradstep.papers.figure import Figure, point_seeds
from gradstep.papers.moniri2024.features import smoothed_powers
from gradstep.papers.moniri2024.gains import Delta, Delta_by_matrix, Lambda, direction
from gradstep.papers.moniri2024.published import published_Delta, published_Lambda_1, published_Lambda_2
from gradstep.papers.moniri2024.staircase import windows
from gradstep.papers.outcome import Check, Outcome, compare
from gradstep.papers.panels import Line, Panel, Points, Table
from gradstep.problem import Problem
from gradstep.simulation.instance import TEACHER_AXIS, check_sample
from gradstep.sweeps import Result, Task
from gradstep.theory import predict

__all__ = ["assemble", "measure", "tasks"]

Array = NDArray[np.float64]

SIZES = (1e12, 1e16)
"""Samples at which the equations for every step size are solved: the gap to the staircase shrinks slowly."""


def tasks(figure: Figure, preset: Mapping[str, Any]) -> list[Task]:
    """List one random layer a seed; all numbers of spikes share it."""
    settings = figure.settings
    names = ("activation", "teacher", "phi", "psi", "lam", "noise", "strength")
    parameters = {name: settings[name] for name in names} | {name: preset[name] for name in ("n", "spikes", "test")}
    seeds = point_seeds("sharp_spikes", "spikes", preset["n"], preset)
    return [Task(f"{__name__}:measure", parameters, seed) for seed in seeds]


def measure(parameters: Mapping[str, Any], seed: int) -> dict[str, list[float]]:
    """Return what every spike more takes off the training loss and the test error."""
    settings = dict(parameters)
    strength, spikes, test = (settings.pop(name) for name in ("strength", "spikes", "test"))
    problem = Problem.moniri2024(**settings, residual="y", alpha=0.0)
    n, ridge = int(problem.n), float(problem.ridge)  # type: ignore[arg-type]
    weights, readout = network.initial(problem, seed)
    inputs, labels = network.data(problem, seed)
    fresh = np.concatenate([x for x, _ in check_sample(seed, int(test) * n, weights.shape[1]).blocks()])
    target = problem.teacher(fresh[:, TEACHER_AXIS])
    v = direction(problem.activation, problem.teacher, phi=settings["phi"], sigma_eps=problem.noise, residual="y")
    gamma, rho = float(v.gamma), float(v.rho)
    along = np.zeros(weights.shape[1])
    along[TEACHER_AXIS], along[1 - TEACHER_AXIS] = gamma, math.sqrt(1 - gamma**2)
    rows, fresh_rows = network.features(problem, weights, inputs), network.features(problem, weights, fresh)
    # Only the span of the powers of the readout matters for spikes this strong; an orthonormal basis keeps them so.
    basis = np.linalg.qr(readout[:, None] ** np.arange(1, spikes + 1))[0]
    losses, errors = [], []
    for l in range(spikes + 1):  # noqa: E741
        if l:
            spike = strength * basis[:, l - 1]
            rows = rows + np.outer(_power(inputs @ along, l, rho), spike)
            fresh_rows = fresh_rows + np.outer(_power(fresh @ along, l, rho), spike)
        fit = network.fit(rows, labels, [ridge])
        losses.append(float(fit.squared_residual[0] + ridge * fit.squared_norm[0]) / n)
        errors.append(float(np.mean((fresh_rows @ fit.readouts[:, 0] - target) ** 2)))
    return {"Delta": (-np.diff(losses)).tolist(), "Lambda": (-np.diff(errors)).tolist()}


def _power(kappa: Array, k: int, rho: float) -> Array:
    """Return ``E_u (kappa + sqrt(rho) u)^k``, divided by its root mean square over kappa."""
    in_hermite = smoothed_powers(k, 1 + rho)[-1]
    square = float(in_hermite**2 @ [math.factorial(p) for p in range(k + 1)])
    return np.asarray(polyval(kappa, smoothed_powers(k, rho)[-1])) / math.sqrt(square)


def assemble(figure: Figure, preset: Mapping[str, Any], results: Sequence[Result]) -> Outcome:
    """Tabulate the gains, and compare what every spike adds."""
    settings, top, name = figure.settings, int(preset["spikes"]), figure.settings["quantity"]
    sigma, sigma_star = settings["activation"], settings["teacher"]
    ratios = {"phi": settings["phi"], "psi": settings["psi"], "lam": settings["lam"], "sigma_eps": settings["noise"]}
    degrees = range(1, top + 1)
    gain = Delta if name == "Delta" else Lambda
    plain: dict[str, Any] = {"residual": "y", "spikes": "published", "rows": "sphere"}
    slides = [float(gain(l, sigma, sigma_star, **plain, **ratios)) for l in degrees]  # noqa: E741
    closed = [float(gain(l, sigma, sigma_star, residual="y", **ratios)) for l in degrees]  # noqa: E741
    fewer, solver = ([_solver(settings, l, n)[name] for l in degrees] for n in SIZES)  # noqa: E741
    values = np.array([r[name] for r in results])
    comparisons = tuple(
        compare(
            float(theory),
            values[:, l - 1].tolist(),
            curve=f"{name}_l",
            place=float(l),
            quantity=f"{name}_l - {name}_(l-1)",
            allowance=settings["allowance"]["relative"],
            reason=settings["allowance"]["reason"],
        )
        for l, theory in zip(degrees, np.diff([0.0, *closed]), strict=True)  # noqa: E741
    )
    if name == "Delta":
        printed = [f"{float(published_Delta(l, sigma, sigma_star, **ratios)):.5f}" for l in degrees]  # noqa: E741
    else:
        printed = [f"{float(f(sigma, sigma_star, **ratios)):.5g}" for f in (published_Lambda_1, published_Lambda_2)]
        printed += ["-"] * (top - 2)
    measured = np.cumsum(values, axis=1)
    mean, error = measured.mean(axis=0), measured.std(axis=0, ddof=1) / math.sqrt(len(measured))
    rows = [
        (
            str(l),
            printed[l - 1],
            f"{slides[l - 1]:.5f}",
            f"{closed[l - 1]:.5f}",
            f"{solver[l - 1]:.5f}",
            f"{mean[l - 1]:.4f} ± {error[l - 1]:.4f}",
        )
        for l in degrees  # noqa: E741
    ]
    header = ("l", "as printed", "published spikes", "network's spikes", "equations, n = 1e16", "sharp spikes")
    gaps = [max(abs(a / b - 1) for a, b in zip(found, closed, strict=True)) for found in (fewer, solver)]
    checks = [
        Check("equations at n = 1e16 against the limits, relative", gaps[1], 0.1, gaps[1] <= 0.1),
        Check("the same gap over that at n = 1e12", gaps[1] / gaps[0], 0.75, gaps[1] <= 0.75 * gaps[0]),
    ]
    if name == "Delta":
        theorem = [float(published_Delta(l, sigma, sigma_star, **ratios)) for l in degrees]  # noqa: E741
        matrix = [float(Delta_by_matrix(l, sigma, sigma_star, residual="y", **ratios)) for l in degrees]  # noqa: E741
        apart = max(abs(a / b - 1) for a, b in zip(theorem + matrix, slides + closed, strict=True))
        checks.append(Check("closed form against the theorem's matrix, relative", apart, 1e-9, apart <= 1e-9))
    x = [float(l) for l in degrees]  # noqa: E741
    panel = Panel(
        title="",
        x_label="number of spikes l",
        y_label="gain in training loss Δ_l" if name == "Delta" else "gain in test error Λ_l",
        lines=[Line(x, closed, "network", "large"), Line(x, slides, "published spikes", "initial", "dashed")],
        points=[Points(x, mean.tolist(), error.tolist(), "network", "large")],
    )
    return Outcome((panel,), comparisons, tuple(checks), NOTES, Table(header, rows))


NOTES = (
    "Solid: closed form for the real network's spikes and Gaussian rows; dashed: for the published spikes and rows of "
    "norm one. Points: spikes of the network's shape on real features."
)


def _solver(settings: Mapping[str, Any], l: int, n: float) -> dict[str, float]:  # noqa: E741
    """Return the gains by the equations for every step size, in the middle of the window of l."""
    names = ("activation", "teacher", "phi", "psi", "lam", "noise")
    base = {name: settings[name] for name in names}
    problem = Problem.moniri2024(**base, residual="y", n=n, alpha=sum(windows(l)) / 2)
    before, after = predict(problem.replace(eta=0.0)), predict(problem)
    return {"Delta": before.train_loss - after.train_loss, "Lambda": before.test_error - after.test_error}
