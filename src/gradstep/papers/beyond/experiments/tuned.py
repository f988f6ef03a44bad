"""Tuned curves: the best ridge, step size and split against the budget of samples, theory over the network's own.

On the network each parameter takes its predicted optimum and one value on either side, with the same seeds; the
parabola through the three mean errors has its vertex at the network's own optimum. Theory's parabola through the same
places removes the bias of the parabola from the comparison.

Settings
--------
base : parameters of the problem; per_d : its width and penalty divided by d.
budget_range : range of (n_step + n)/d.
neighbours : factors of the penalty and of the step size, and shift of the log-odds of the split, to the neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradstep.papers.claims import in_standard_errors
from gradstep.papers.figure import Figure
from gradstep.papers.outcome import Check, Judged, Outcome, points_of
from gradstep.papers.panels import Line, Panel, Points, Scale
from gradstep.papers.places import Place, Sample, on_curve, point_seeds
from gradstep.problem import Problem, Step
from gradstep.simulation import simulate
from gradstep.theory import predict_many
from gradstep.theory.tuning import PARAMETERS, tune

__all__ = ["measure", "outcome", "places"]

Array = NDArray[np.float64]

#: Standard errors by which a neighbour may be better than the predicted optimum on the network.
_BETTER = 2.5
_BUDGET = "budget (n_step + n)/d"
_REGIMES = {"ridge": "first kind", "eta": "second kind", "split": "third kind"}
_LABELS = {"ridge": "best ridge / d", "eta": "best eta / √N", "split": "best n_step / (n_step + n)"}


def _problem(figure: Figure, budget: float, d: int) -> Problem:
    settings, total = figure.settings, round(budget * d)
    sizes = {"d": d, "width": round(settings["per_d"]["width"] * d), "n_step": total // 2, "n": total - total // 2}
    return Problem.from_dict({**settings["base"], **sizes, "ridge": settings["per_d"]["ridge"] * d})


def _coordinate(name: str, problem: Problem) -> float:
    """Return the coordinate in which the parabola is drawn: a logarithm, or the log-odds of the split."""
    if name == "ridge":
        return math.log(problem.ratio("ridge"))
    if name == "eta":
        return math.log(problem.eta.coefficient)
    return math.log(problem.ratio("n_step") / problem.ratio("n"))


def _shown(name: str, coordinate: float) -> float:
    return 1 / (1 + math.exp(-coordinate)) if name == "split" else math.exp(coordinate)


def _neighbours(name: str, best: Problem, shift: float) -> list[Problem]:
    """Return the problem at the optimum between its neighbours."""
    if name == "ridge":
        return [best.replace(ridge=best.sizes.ridge * factor) for factor in (1 / shift, 1.0, shift)]
    if name == "eta":
        size, exponent = best.eta.coefficient, best.eta.exponent
        return [best.replace(eta=Step(size * factor, exponent)) for factor in (1 / shift, 1.0, shift)]
    total, odds = best.sizes.n_step + best.sizes.n, math.exp(_coordinate("split", best))
    steps = [round(total / (1 + math.exp(-move) / odds)) for move in (-shift, 0.0, shift)]
    return [best.replace(n_step=n_step, n=total - n_step) for n_step in steps]


def places(figure: Figure, preset: Mapping[str, Any]) -> Iterator[Place]:
    """Budgets on the lines, computed, then networks of every parameter at every budget."""
    d, (low, high) = int(preset["d"]), figure.settings["budget_range"]
    for budget in map(float, np.linspace(low, high, preset["count"])):
        yield Place(measure, {"problem": _problem(figure, budget, d).to_dict()}, "lines", budget, seeds=(0,))
    for name in PARAMETERS:
        for budget in map(float, preset["budgets"]):
            seeds = point_seeds(figure.name, name, budget, preset)
            parameters = {
                "problem": _problem(figure, budget, d).to_dict(),
                "over": name,
                "shift": figure.settings["neighbours"][name],
                "seeds": list(seeds),
            }
            yield Place(measure, parameters, name, budget, seeds=seeds[:1])


def measure(parameters: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Tune each parameter alone and all together, or simulate an optimum and its neighbours."""
    problem = Problem.from_dict(dict(parameters["problem"]))
    if "over" not in parameters:
        alone = {name: tune(problem, over=name) for name in PARAMETERS}
        pair = tune(problem, over=("ridge", "eta"))
        best = {name: _shown(name, _coordinate(name, tuned.problem)) for name, tuned in alone.items()}
        errors = {name: tuned.prediction.test_error for name, tuned in alone.items()}
        return {"best": best, "errors": errors | {"none": pair.before.test_error, "pair": pair.prediction.test_error}}
    name = parameters["over"]
    around = _neighbours(name, tune(problem, over=name).problem, parameters["shift"])
    if name == "ridge":
        ridges = [p.sizes.ridge for p in around]
        errors_by_seed = simulate(around[1], parameters["seeds"], ridge=ridges)["test_error"].T
    else:
        errors_by_seed = np.array([simulate(p, parameters["seeds"])["test_error"] for p in around])
    return {"around": [p.to_dict() for p in around], "errors": errors_by_seed.tolist()}


def _vertex(places: Array, values: Array) -> float:
    """Return the vertex of the parabola through three points."""
    slope, curvature = np.polyfit(places - places[1], values, 2)[1::-1]
    return float(places[1] - slope / (2 * curvature))


def _pseudo_values(places: Array, errors: Array) -> list[float]:
    """Return the jackknife's pseudo-values of the vertex: their mean and scatter are those of the vertex."""
    count = errors.shape[1]
    whole = _vertex(places, errors.mean(axis=1))
    left_out = [_vertex(places, np.delete(errors, k, axis=1).mean(axis=1)) for k in range(count)]
    return [count * whole - (count - 1) * vertex for vertex in left_out]


def outcome(figure: Figure, preset: Mapping[str, Any], samples: Sequence[Sample]) -> Outcome:
    """Draw the optima and the errors that they buy."""
    lines = on_curve(samples, "lines")
    budgets = [sample.x for sample in lines]
    panels: list[Panel] = []
    comparisons: list[Judged] = []
    checks: list[Check] = []
    at_best: list[Points] = []
    for name in PARAMETERS:
        own, regime = on_curve(samples, name), _REGIMES[name]
        shown: list[tuple[float, float]] = []
        values: list[Judged] = []
        for sample in own:
            around = [Problem.from_dict(settings) for settings in sample.results[0]["around"]]
            places = np.array([_coordinate(name, problem) for problem in around])
            theory = np.array([prediction.test_error for prediction in predict_many(around)])
            errors = sample["errors"][0]
            words = {"curve": _LABELS[name], "quantity": "coordinate of the optimum"}
            where = sample.compare(_vertex(places, theory), np.array(_pseudo_values(places, errors)), **words)
            values.append(sample.compare(theory[1], errors[1], curve=f"{name} tuned"))
            comparisons += [where, values[-1]]
            # The parabola's own bias, known from theory, is taken out of the point that is drawn.
            centre = where.mean + places[1] - where.theory
            low, middle, high = (_shown(name, centre + sign * where.standard_error) for sign in (-1, 0, 1))
            shown.append((middle, (high - low) / 2))
            better = max(in_standard_errors(errors[1] - errors[k]) for k in (0, 2))
            label = f"{name}, budget {sample.x:g} d: a neighbour's lead over the optimum, in standard errors"
            checks.append(Check.at_most(label, better, _BETTER))
        best = Line.of(budgets, [sample.results[0]["best"][name] for sample in lines], name, regime)
        middles, errors = zip(*shown, strict=True)
        optima = Points([sample.x for sample in own], middles, errors, name, regime)
        scale: Scale = "linear" if name == "split" else "log"
        panels.append(Panel("", _BUDGET, _LABELS[name], y_scale=scale, lines=[best], points=[optima]))
        at_best.append(points_of(values, name, regime))
    curves = {"none": ("as given", "initial"), "pair": ("ridge and eta", "fourth kind")}
    curves |= {name: (name, _REGIMES[name]) for name in PARAMETERS}
    errors_bought = [
        Line.of(budgets, [sample.results[0]["errors"][key] for sample in lines], *curve)
        for key, curve in curves.items()
    ]
    panels.append(Panel("", _BUDGET, "test error, tuned", y_scale="log", lines=errors_bought, points=at_best))
    return Outcome(panels, comparisons, checks)
