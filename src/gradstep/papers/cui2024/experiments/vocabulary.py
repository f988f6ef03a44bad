"""Readouts of several values at initialisation: learning curves of drawn models and of the real network.

Settings
--------
base : activation, teacher, eta_tilde, alpha0, beta, lam.
axis : range of the lines in alpha (``from``, ``to``, ``count``; a preset may have fewer, ``line``).
curves : label, regime, ``values`` and ``weights`` of the readout, from few values to many. The values are scaled to a
    mean square of one, so that every vocabulary makes a step of the same strength.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradstep.papers.charts import Curve, Theory, charts, grid_of
from gradstep.papers.claims import total_fall
from gradstep.papers.cui2024.bounds import best_linear
from gradstep.papers.cui2024.drawn import fit, spiked_layer, stepped_layer
from gradstep.papers.cui2024.experiments.measured import problem_of, samples_of, spike_of
from gradstep.papers.cui2024.letters import (
    Bulk,
    LetterBounds,
    Letters,
    density_letters,
    letter_bounds,
    letter_statistics,
    stepped_letters,
)
from gradstep.papers.figure import Figure
from gradstep.papers.outcome import Check, Judged, Outcome
from gradstep.papers.panels import Guide, Panel, Table
from gradstep.papers.places import Place, Sample, along, on_curve
from gradstep.problem import Problem
from gradstep.simulation.instance import initial_readout
from gradstep.theory import predict_many

__all__ = ["measure", "outcome", "places"]

Array = NDArray[np.float64]

_MODELS = {
    "orthogonal": "orthonormal rows",
    "gaussian": "independent rows",
    "network": "real network",
}


def _parameters(figure: Figure, curve: Mapping[str, Any]) -> dict[str, Any]:
    values, weights = np.asarray(curve["values"], dtype=np.float64), np.asarray(curve["weights"], dtype=np.float64)
    size = np.sqrt(weights @ values**2 / weights.sum())
    return {**figure.settings["base"], "values": (values / size).tolist(), "weights": weights.tolist()}


def places(figure: Figure, preset: Mapping[str, Any]) -> Iterator[Place]:
    """Models of every kind with every readout, at every point."""
    for model in _MODELS:
        for curve, alpha in along(figure.settings, preset):
            parameters = {**_parameters(figure, curve), "model": model, "alpha": alpha, "d": int(preset["d"])}
            yield Place(measure, parameters, f"{curve['label']}/{model}", alpha)


def _problem(parameters: Mapping[str, Any], alpha: float, d: float) -> Problem:
    return problem_of({**parameters, "alpha": alpha}, d, readout=_law(parameters))


def _law(parameters: Mapping[str, Any]) -> dict[float, float]:
    """Return the law of the readout's values."""
    return dict(zip(parameters["values"], parameters["weights"], strict=True))


def measure(parameters: Mapping[str, Any], seed: int) -> dict[str, float]:
    """Fit a drawn model and return its test error."""
    d = int(parameters["d"])
    problem = _problem(parameters, float(parameters["alpha"]), d)
    if parameters["model"] == "network":
        layer = stepped_layer(problem, seed)
    else:
        width = round(float(parameters["beta"]) * d)
        r, c, gamma = (float(value) for value in spike_of(parameters))
        # Every neuron is a letter of its own.
        neurons = density_letters(initial_readout(seed, width, problem.readout), np.ones(width), r=r, c=c, gamma=gamma)
        kinds = {"r": neurons.strengths, "c": neurons.variances, "gamma": neurons.alignments}
        layer = spiked_layer(seed, width, d, **kinds, orthogonal=parameters["model"] == "orthogonal")
    return {"test_error": fit(layer, **samples_of(parameters, d, seed)).test_error}


def _letters(parameters: Mapping[str, Any]) -> Letters:
    functions, law = (parameters["activation"], parameters["teacher"]), _law(parameters)
    eta_tilde, alpha0 = (float(parameters[name]) for name in ("eta_tilde", "alpha0"))
    return stepped_letters(*functions, law, eta_tilde=eta_tilde, alpha0=alpha0)


def _theory(model: str, parameters: Mapping[str, Any], d: float) -> Theory:
    """Errors of the equations with letters; for the network, of the uniform equivalent."""
    options = {"lam": parameters["lam"], "beta": parameters["beta"], "d": d}
    functions, letters = (parameters["activation"], parameters["teacher"]), _letters(parameters)
    bulk: Bulk = "orthogonal" if model == "orthogonal" else "gaussian"

    def errors(alphas: Array) -> dict[str, list[float]]:
        if model == "network":
            found: Any = predict_many(_problem(parameters, float(a), d) for a in alphas)
        else:
            found = (letter_statistics(*functions, letters, alpha=float(a), bulk=bulk, **options) for a in alphas)
        return {"test_error": [own.test_error for own in found]}

    return errors


def outcome(figure: Figure, preset: Mapping[str, Any], samples: Sequence[Sample]) -> Outcome:
    """Put the theory of each model under the models drawn."""
    settings, d = figure.settings, float(preset["d"])
    guide = Guide("best linear", height=best_linear(settings["base"]["teacher"]))
    found = Outcome(table=_table(figure))
    for model, title in _MODELS.items():
        curves = [
            Curve(
                curve["label"],
                curve["regime"],
                _theory(model, _parameters(figure, curve), d),
                on_curve(samples, f"{curve['label']}/{model}"),
                name=f"{curve['label']}, {title}",
                beside={"dashed": _theory(model, _parameters(figure, curve), np.inf)},
            )
            for curve in settings["curves"]
        ]
        panel = Panel(title, "samples per dimension n/d", "test error", y_scale="log", guides=[guide])
        found += charts(curves, grid_of(settings["axis"], preset), {"test_error": panel})
    return found + Outcome(checks=_checks(figure, preset, found.comparisons))


def _bounds(figure: Figure) -> list[tuple[list[float], LetterBounds]]:
    """Return the values of each readout and its bounds."""
    every = [_parameters(figure, curve) for curve in figure.settings["curves"]]
    return [(p["values"], letter_bounds(p["activation"], p["teacher"], _letters(p))) for p in every]


def _checks(figure: Figure, preset: Mapping[str, Any], comparisons: Sequence[Judged]) -> tuple[Check, ...]:
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
    alphas = np.array(preset["points"], dtype=np.float64)
    for model, title in _MODELS.items():
        limits = [np.array(_theory(model, _parameters(figure, c), np.inf)(alphas)["test_error"]) for c in curves]
        ratio = max(float((after / before).max()) for before, after in pairwise(limits))
        checks.append(Check.at_most(f"limit, {title}: error over that of the readout before", ratio, 1.0))
        names = [f"{curves[k]['label']}, {title}" for k in (0, -1)]
        fall = total_fall(*([c for c in comparisons if c.curve == name] for name in names))
        text = f"{title}: measured fall from the fewest values to the most, in standard errors"
        checks.append(Check.at_least(text, fall, 2.0))
    return tuple(checks)


def _table(figure: Figure) -> Table:
    rows = [
        [", ".join(f"{v:.3g}" for v in values), str(own.dimension), f"{own.upper:.5f}", f"{own.lower:.5f}"]
        for values, own in _bounds(figure)
    ]
    return Table(["values of the readout", "dimension of the basis", "upper bound (26)", "lower bound (27)"], rows)
