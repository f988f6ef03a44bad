"""Readouts of several values at initialisation: learning curves of drawn models and of the real network.

Settings
--------
base : activation, teacher, eta_tilde, alpha0, beta, lam.
axis : range of the lines in alpha (``from``, ``to``); presets have the count of their points, ``line``.
curves : label, regime, ``values`` and ``weights`` of the readout, from few values to many. The values are scaled to a
    mean square of one, so that every vocabulary makes a step of the same strength.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from gradstep.gaussian import scalar_function
from gradstep.papers.cui2024.bounds import best_linear
from gradstep.papers.cui2024.drawn import fit, spiked_layer, stepped_layer
from gradstep.papers.cui2024.experiments.measured import places
from gradstep.papers.cui2024.letters import LetterBounds, Letters, letter_bounds, letter_statistics, stepped_letters
from gradstep.papers.cui2024.spiked import equivalent_srf
from gradstep.papers.figure import Figure, by_point, point_seeds
from gradstep.papers.outcome import Check, Comparison, Outcome, compare, points_of
from gradstep.papers.panels import Guide, Line, Panel, Table
from gradstep.problem import Problem
from gradstep.simulation.instance import initial_readout
from gradstep.sweeps import Result, Task
from gradstep.theory import predict_many

__all__ = ["assemble", "measure", "tasks"]

_MODELS = {
    "orthogonal": "orthonormal rows",
    "gaussian": "independent rows",
    "network": "real network",
}


def _parameters(figure: Figure, curve: Mapping[str, Any]) -> dict[str, Any]:
    values, weights = np.asarray(curve["values"], dtype=np.float64), np.asarray(curve["weights"], dtype=np.float64)
    size = np.sqrt(weights @ values**2 / weights.sum())
    return {**figure.settings["base"], "values": (values / size).tolist(), "weights": weights.tolist()}


def _places(figure: Figure, preset: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], float]]:
    for model in _MODELS:
        for curve, alpha in places(figure, preset):
            yield model, curve, alpha


def tasks(figure: Figure, preset: Mapping[str, Any]) -> list[Task]:
    """List one model a curve, place and seed."""
    return [
        Task(
            f"{__name__}:measure",
            {**_parameters(figure, curve), "model": model, "alpha": alpha, "d": int(preset["d"])},
            seed,
        )
        for model, curve, alpha in _places(figure, preset)
        for seed in point_seeds(figure.name, f"{curve['label']}/{model}", alpha, preset)
    ]


def _problem(parameters: Mapping[str, Any], alpha: float, d: float) -> Problem:
    names = ("activation", "teacher", "eta_tilde", "alpha0", "beta", "lam")
    readout = dict(zip(parameters["values"], parameters["weights"], strict=True))
    return Problem.cui2024(alpha=alpha, d=d, readout=readout, **{name: parameters[name] for name in names})


def measure(parameters: Mapping[str, Any], seed: int) -> dict[str, float]:
    """Fit a drawn model and return its test error."""
    d = int(parameters["d"])
    problem = _problem(parameters, float(parameters["alpha"]), d)
    sigma, sigma_star = problem.activation, problem.teacher
    if parameters["model"] == "network":
        layer = stepped_layer(problem, seed)
    else:
        width = round(float(parameters["beta"]) * d)
        model = equivalent_srf(sigma, sigma_star, eta_tilde=parameters["eta_tilde"], alpha0=float(parameters["alpha0"]))
        value = initial_readout(seed, width, problem.readout)
        layer = spiked_layer(
            seed,
            width,
            d,
            r=value * float(model.strength),
            c=1 + value**2 * (float(model.bulk_variance) - 1),
            gamma=model.alignment,
            orthogonal=parameters["model"] == "orthogonal",
        )
    n = round(float(parameters["alpha"]) * d)
    fitted = fit(layer, sigma, sigma_star, n=n, lam=float(parameters["lam"]), seed=seed)
    return {"test_error": fitted.test_error}


def _letters(parameters: Mapping[str, Any]) -> Letters:
    return stepped_letters(
        parameters["activation"],
        parameters["teacher"],
        dict(zip(parameters["values"], parameters["weights"], strict=True)),
        eta_tilde=parameters["eta_tilde"],
        alpha0=float(parameters["alpha0"]),
    )


def _theory(model: str, parameters: Mapping[str, Any], alphas: Sequence[float], d: float) -> list[float]:
    """Errors of the equations with letters; for the network, of the uniform equivalent."""
    if model == "network":
        return [p.test_error for p in predict_many([_problem(parameters, a, d) for a in alphas])]
    letters = _letters(parameters)
    return [
        letter_statistics(
            parameters["activation"],
            parameters["teacher"],
            letters,
            alpha=alpha,
            lam=parameters["lam"],
            beta=parameters["beta"],
            bulk="orthogonal" if model == "orthogonal" else "gaussian",
            d=d,
        ).test_error
        for alpha in alphas
    ]


def assemble(figure: Figure, preset: Mapping[str, Any], results: Sequence[Result]) -> Outcome:
    """Put the theory of each model under the models drawn."""
    d = int(preset["d"])
    found: dict[str, list[tuple[str, Comparison]]] = {model: [] for model in _MODELS}
    for (model, curve, alpha), own in zip(_places(figure, preset), by_point(results, preset), strict=True):
        comparison = compare(
            _theory(model, _parameters(figure, curve), [alpha], d)[0],
            [r["test_error"] for r in own],
            curve=f"{curve['label']}, {_MODELS[model]}",
            place=alpha,
        )
        found[model].append((curve["label"], comparison))
    panels = tuple(_panel(figure, preset, model, own) for model, own in found.items())
    notes = (
        "Solid lines: the equations with letters, for orthonormal (the special case) and for independent rows, and "
        f"for the network the uniform equivalent, all at d = {d}; dashes: their limit, which several values approach "
        f"slowly, because their functions differ little. Points: drawn models at d = {d}."
    )
    comparisons = tuple(comparison for own in found.values() for _, comparison in own)
    return Outcome(panels, comparisons, _checks(figure, preset, found), notes=notes, table=_table(figure))


def _panel(figure: Figure, preset: Mapping[str, Any], model: str, found: Sequence[tuple[str, Comparison]]) -> Panel:
    axis, d = figure.settings["axis"], int(preset["d"])
    grid = np.linspace(axis["from"], axis["to"], int(preset["line"])).tolist()
    lines, points = [], []
    for curve in figure.settings["curves"]:
        label, regime = curve["label"], curve["regime"]
        parameters = _parameters(figure, curve)
        lines.append(Line(grid, _theory(model, parameters, grid, d), label, regime))
        lines.append(Line(grid, _theory(model, parameters, grid, np.inf), "", regime, style="dashed"))
        own = [comparison for name, comparison in found if name == label]
        points.append(points_of(own, label, regime))
    guide = Guide("best linear", height=best_linear(scalar_function(figure.settings["base"]["teacher"])))
    return Panel(
        _MODELS[model],
        "samples per dimension n/d",
        "test error",
        y_scale="log",
        lines=lines,
        points=points,
        guides=[guide],
    )


def _bounds(figure: Figure) -> list[tuple[list[float], LetterBounds]]:
    """Return the values of each readout and its bounds."""
    every = [_parameters(figure, curve) for curve in figure.settings["curves"]]
    return [(p["values"], letter_bounds(p["activation"], p["teacher"], _letters(p))) for p in every]


def _checks(
    figure: Figure, preset: Mapping[str, Any], found: Mapping[str, Sequence[tuple[str, Comparison]]]
) -> tuple[Check, ...]:
    """Judge that more values offer more functions, and that these are learned: by the limit and by the drawn models."""
    curves, bounds = figure.settings["curves"], _bounds(figure)
    least = min(own.dimension / (2 * len(values)) for values, own in bounds)
    checks = [
        Check.at_least("dimension of the basis over twice the number of values, least", least, 1.0),
        *(
            Check.at_most(
                f"{name} bound over that of the readout before, largest",
                max(getattr(b, name) / getattr(a, name) for (_, a), (_, b) in pairwise(bounds)),
                1.0,
            )
            for name in ("upper", "lower")
        ),
    ]
    alphas = [float(alpha) for alpha in preset["points"]]
    for model in _MODELS:
        limits = [np.array(_theory(model, _parameters(figure, curve), alphas, np.inf)) for curve in curves]
        ratio = max(float((after / before).max()) for before, after in pairwise(limits))
        checks.append(Check.at_most(f"limit, {_MODELS[model]}: error over that of the readout before", ratio, 1.0))
        few, many = ([c for name, c in found[model] if name == curves[k]["label"]] for k in (0, -1))
        fall = sum(a.mean - b.mean for a, b in zip(few, many, strict=True))
        noise = np.sqrt(sum(c.standard_error**2 for c in (*few, *many)))
        text = f"{_MODELS[model]}: measured fall from the fewest values to the most, in standard errors"
        checks.append(Check.at_least(text, fall / noise, 2.0))
    return tuple(checks)


def _table(figure: Figure) -> Table:
    rows = [
        [", ".join(f"{v:.3g}" for v in values), str(own.dimension), f"{own.upper:.5f}", f"{own.lower:.5f}"]
        for values, own in _bounds(figure)
    ]
    return Table(["values of the readout", "dimension of the basis", "upper bound (26)", "lower bound (27)"], rows)
