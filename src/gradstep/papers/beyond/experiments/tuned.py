"""Tuned curves: the best ridge, step size and split against the budget of samples, in theory and on the network.

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
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gradstep.panels import Line, Panel, Points, Scale
from gradstep.papers.claims import in_standard_errors
from gradstep.papers.experiment import Array, Experiment
from gradstep.papers.outcome import Check, Judged, Outcome, points_of
from gradstep.papers.places import Place, Sample, Settings, on_curve, point_seeds, sizes_at
from gradstep.problem import Problem, Step
from gradstep.simulation import simulate
from gradstep.theory import predict_many
from gradstep.theory.tuning import tune

#: Standard errors by which a neighbour may be better than the predicted optimum on the network.
_BETTER = 2.5
_BUDGET = "budget (n_step + n)/d"
_REGIMES = {"ridge": "first kind", "eta": "second kind", "split": "third kind"}
_LABELS = {"ridge": "best ridge / d", "eta": "best eta / √N", "split": "best n_step / (n_step + n)"}


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


def measure(parameters: Settings, seed: int) -> dict[str, Any]:
    """Tune each parameter alone and all together, or simulate an optimum and its neighbours."""
    problem = Problem.from_dict(dict(parameters["problem"]))
    if "over" not in parameters:
        alone = {name: tune(problem, over=name) for name in _LABELS}
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


class Tuned(Experiment):
    """The optimal parameters, and the errors at them."""

    def _problem(self, budget: float) -> dict[str, Any]:
        d, total = int(self.preset["d"]), round(budget * self.preset["d"])
        sizes = {**sizes_at(d, self.settings["per_d"]), "d": d, "n_step": total // 2, "n": total - total // 2}
        return Problem.from_dict({**self.settings["base"], **sizes}).to_dict()

    def places(self) -> Iterator[Place]:
        """Yield budgets on the lines, computed, then networks of every parameter at every budget."""
        low, high = self.settings["budget_range"]
        for budget in map(float, np.linspace(low, high, self.preset["lines"])):
            yield Place(measure, {"problem": self._problem(budget)}, "lines", budget, seeds=(0,))
        for name in _LABELS:
            for budget in map(float, self.preset["budgets"]):
                seeds = point_seeds(self.figure, name, budget, self.preset)
                around = {"over": name, "shift": self.settings["neighbours"][name], "seeds": list(seeds)}
                yield Place(measure, {"problem": self._problem(budget), **around}, name, budget, seeds=seeds[:1])

    def outcome(self, samples: Sequence[Sample]) -> Outcome:
        """Draw a panel for each parameter, and one of the errors."""
        lines = on_curve(samples, "lines")
        found, at_best = Outcome(), []
        for name in _LABELS:
            own, tuned = _optimum(name, lines, on_curve(samples, name))
            found += own
            at_best.append(points_of(tuned, name, _REGIMES[name]))
        curves = {"none": ("as given", "initial"), "pair": ("ridge and eta", "fourth kind")}
        curves |= {name: (name, _REGIMES[name]) for name in _LABELS}
        bought = [_line(lines, "errors", key, *curve) for key, curve in curves.items()]
        panel = Panel("", _BUDGET, "test error, tuned", y_scale="log", lines=bought, points=at_best)
        return found + Outcome([panel])


def _line(samples: Sequence[Sample], what: str, key: str, label: str, regime: str) -> Line:
    budgets = [sample.x for sample in samples]
    return Line.of(budgets, [sample.results[0][what][key] for sample in samples], label, regime)


def _optimum(name: str, lines: Sequence[Sample], samples: Sequence[Sample]) -> tuple[Outcome, list[Judged]]:
    """Compare the places of a parameter's optimum and the errors there, and also return the errors."""
    shown: list[tuple[float, float]] = []
    comparisons, tuned, checks = [], [], []
    for sample in samples:
        around = [Problem.from_dict(settings) for settings in sample.results[0]["around"]]
        places = np.array([_coordinate(name, problem) for problem in around])
        theory = np.array([prediction.test_error for prediction in predict_many(around)])
        errors = sample["errors"][0]
        words = {"curve": _LABELS[name], "quantity": "coordinate of the optimum"}
        where = sample.compare(_vertex(places, theory), np.array(_pseudo_values(places, errors)), **words)
        tuned.append(sample.compare(theory[1], errors[1], curve=f"{name} tuned"))
        comparisons += [where, tuned[-1]]
        # The parabola's own bias, known from theory, is taken out of the point that is drawn.
        centre = where.mean + places[1] - where.theory
        low, middle, high = (_shown(name, centre + sign * where.standard_error) for sign in (-1, 0, 1))
        shown.append((middle, (high - low) / 2))
        better = max(in_standard_errors(errors[1] - errors[k]) for k in (0, 2))
        label = f"{name}, budget {sample.x:g} d: a neighbour leads over the optimum by {{}} standard errors"
        checks.append(Check.at_most(label, better, _BETTER))
    middles, spreads = zip(*shown, strict=True)
    optima = Points([sample.x for sample in samples], middles, spreads, name, _REGIMES[name])
    scale: Scale = "linear" if name == "split" else "log"
    best = _line(lines, "best", name, name, _REGIMES[name])
    panel = Panel("", _BUDGET, _LABELS[name], y_scale=scale, lines=[best], points=[optima])
    return Outcome([panel], comparisons, checks), tuned
