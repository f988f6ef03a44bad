"""Training loss and test error against the exponent of the step size: staircase, finite n, real networks.

Every seed gives the errors before the step and after steps of every exponent, on the same samples: gains are paired.

Settings
--------
base : activation, teacher, phi, psi, lam, noise and residual, as `Problem.moniri2024` has them.
panels : quantities drawn, of ``L_tr``, ``L_te``, ``training_gain`` and ``test_gain``.
far : sizes whose curves are drawn without points, and ``regimes``, the colours of the sizes that are simulated.
largest : end of the horizontal axis.
allowance : documented errors of the theory for errors (``error``) and gains (``gain``): times d, relative; reasons.
Presets hold the simulated ``sizes``, the exponents (``points``) and the number of places on a curve (``grid``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradstep.papers.ba2022 import network
from gradstep.papers.figure import Figure, point_seeds
from gradstep.papers.moniri2024.finite import FiniteErrors, finite_errors
from gradstep.papers.moniri2024.gains import Delta, Lambda
from gradstep.papers.moniri2024.resolvent import L_te_0, L_tr_0
from gradstep.papers.moniri2024.staircase import degree, windows
from gradstep.papers.outcome import Comparison, Outcome, compare
from gradstep.papers.panels import Line, Panel, Points
from gradstep.problem import Problem
from gradstep.simulation.spectra import first_layer
from gradstep.sweeps import Result, Task
from gradstep.theory import predict, predict_many

__all__ = ["assemble", "measure", "tasks"]

Array = NDArray[np.float64]

LABELS = {
    "L_tr": "training loss",
    "L_te": "test error (with label noise)",
    "training_gain": "gain in training loss",
    "test_gain": "gain in test error",
}


def tasks(figure: Figure, preset: Mapping[str, Any]) -> list[Task]:
    """List one network a size and seed; all exponents share it."""
    test = any(name in figure.settings["panels"] for name in ("L_te", "test_gain"))
    shared = {**figure.settings["base"], "alphas": list(preset["points"]), "test": test}
    return [
        Task(f"{__name__}:measure", {**shared, "n": int(n)}, seed)
        for n in preset["sizes"]
        for seed in point_seeds(figure.name, "size", n, preset)
    ]


def measure(parameters: Mapping[str, Any], seed: int) -> dict[str, list[float]]:
    """Return L_tr, and L_te if asked for, before the step and after a step of every exponent."""
    settings = dict(parameters)
    alphas, test = settings.pop("alphas"), settings.pop("test")
    problem = Problem.moniri2024(**settings, alpha=0.0)
    n, ridge, noise = float(problem.n), float(problem.ridge), problem.noise  # type: ignore[arg-type]
    inputs, labels = network.data(problem, seed)
    layer = first_layer(problem, seed)
    v = layer.linear / np.linalg.norm(layer.linear)
    found: dict[str, list[float]] = {"L_tr": [], "L_te": []}
    for eta in [0.0, *(n**alpha for alpha in alphas)]:
        after = layer.before + eta / np.sqrt(len(layer.readout)) * layer.gradient
        fit = network.fit(network.features(problem, after, inputs), labels, [ridge])
        found["L_tr"].append(float(fit.squared_residual[0] + ridge * fit.squared_norm[0]) / n)
        if test:
            found["L_te"].append(float(network.risk(problem, after, fit.readouts, v)[0]) + noise**2)
    return found if test else {"L_tr": found["L_tr"]}


def assemble(figure: Figure, preset: Mapping[str, Any], results: Sequence[Result]) -> Outcome:
    """Put the staircase and the curves at finite n under the points, and compare errors and paired gains."""
    settings, count = figure.settings, int(preset["seeds"])
    alphas = [float(a) for a in preset["points"]]
    comparisons: list[Comparison] = []
    points: dict[str, list[Points]] = {name: [] for name in LABELS}
    for i, (n, regime) in enumerate(zip(preset["sizes"], settings["regimes"], strict=False)):
        sample = results[i * count : (i + 1) * count]
        theory = _finite(settings["base"], n, alphas)
        label = f"n = {n:g}"
        for error, gain in (("L_tr", "training_gain"), ("L_te", "test_gain")):
            if error not in sample[0]:
                continue
            values = np.array([r[error] for r in sample])
            gains, initial = getattr(theory, gain), float(getattr(theory, error)[0] + getattr(theory, gain)[0])
            comparisons.append(_compare(settings, n, "error", initial, values[:, 0], label, "before the step", error))
            own = [
                _compare(settings, n, "gain", float(expected), before_less_after, label, alpha, gain)
                for alpha, expected, before_less_after in zip(
                    alphas, gains, (values[:, :1] - values[:, 1:]).T, strict=True
                )
            ]
            comparisons += own
            mean, deviation = [c.mean for c in own], [c.standard_error for c in own]
            points[gain].append(Points(alphas, mean, deviation, label, regime))
            # What all exponents of a network share would hide the gains: the error before the step is the theory's.
            points[error].append(Points(alphas, [initial - m for m in mean], deviation, label, regime))
    lines = _lines(settings, preset)
    panels = tuple(
        Panel(LABELS[name], "exponent α of the step size", LABELS[name], lines=lines[name], points=points[name])
        for name in settings["panels"]
    )
    return Outcome(panels, tuple(comparisons), notes=settings["notes"])


def _compare(
    settings: Mapping[str, Any], n: float, kind: str, theory: float, values: Array, curve: str, place: Any, name: str
) -> Comparison:
    allowance = settings["allowance"][kind]
    return compare(
        theory,
        values.tolist(),
        curve=curve,
        place=place,
        quantity=LABELS[name],
        allowance=allowance["per_dimension"] / (settings["base"]["phi"] * n),
        reason=allowance["reason"],
    )


def _finite(base: Mapping[str, Any], n: float, alphas: Sequence[float]) -> FiniteErrors:
    return finite_errors(Problem.moniri2024(**base, n=n, alpha=float(a)) for a in alphas)


def _lines(settings: Mapping[str, Any], preset: Mapping[str, Any]) -> dict[str, list[Line]]:
    base, largest = settings["base"], float(settings["largest"])
    x = np.linspace(0, largest, int(preset["grid"])).tolist()
    lines: dict[str, list[Line]] = {name: [] for name in LABELS}
    for n, regime in zip(preset["sizes"], settings["regimes"], strict=False):
        theory = _finite(base, n, x)
        for name in LABELS:
            lines[name].append(Line(x, getattr(theory, name).tolist(), f"n = {n:g}", regime))
        if base["residual"] == "y":
            for name, values in _uniform(base, n, x).items():
                lines[name].append(Line(x, values.tolist(), "", regime, "dotted"))
    for n in settings["far"]:
        theory = _finite(base, n, x)
        for name in LABELS:
            lines[name].append(Line(x, getattr(theory, name).tolist(), f"n = {n:.0e}".replace("e+", "e"), "large"))
    for name, steps, label, style in _staircases(base, largest):
        lines[name].append(Line(steps[0], steps[1], label, "infinite", style))
    return lines


def _uniform(base: Mapping[str, Any], n: float, x: Sequence[float]) -> dict[str, Array]:
    """Return the same quantities by the equations for every step size."""
    problems = [Problem.moniri2024(**base, n=n, alpha=float(a)) for a in x]
    found = [predict(problems[0].replace(eta=0.0)), *predict_many(problems)]
    train, test = np.array([p.train_loss for p in found]), np.array([p.test_error for p in found])
    return {
        "L_tr": train[1:],
        "L_te": test[1:] + problems[0].noise ** 2,
        "training_gain": train[0] - train[1:],
        "test_gain": test[0] - test[1:],
    }


def _staircases(
    base: Mapping[str, Any], largest: float
) -> Iterator[tuple[str, tuple[list[float], list[float]], str, Any]]:
    """Yield the limit, of the real network and as published (with the missing factor of (3) and (4) restored)."""
    sigma, sigma_star = base["activation"], base["teacher"]
    setting = {"phi": base["phi"], "psi": base["psi"], "lam": base["lam"], "sigma_eps": base["noise"]}
    top = int(degree(largest))
    ends = [*(windows(l)[0] for l in range(1, top + 1)), largest]  # noqa: E741
    x = [end for pair in pairwise(ends) for end in pair]
    network_options = {"residual": base["residual"]}
    published: dict[str, Any] = {"residual": "y", "spikes": "published", "rows": "sphere"}
    for options, label, style in ((network_options, "n → ∞", "solid"), (published, "published", "dashed")):
        for start, gain_of, error, gain in (
            (L_tr_0, Delta, "L_tr", "training_gain"),
            (L_te_0, Lambda, "L_te", "test_gain"),
        ):
            initial = float(start(sigma, sigma_star, **setting))
            gains = [float(gain_of(l, sigma, sigma_star, **setting, **options)) for l in range(1, top + 1)]  # noqa: E741
            y = [value for value in gains for _ in range(2)]
            yield gain, (x, y), label, style
            yield error, (x, [initial - value for value in y]), label, style
