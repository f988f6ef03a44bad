"""Maps of the best candidate over samples and neurons per dimension, each candidate at its best ridge.

Settings
--------
maps : title, base (parameters of the problem), candidates (label, regime, changed parameters, allowance with its
    reason), ``step_samples`` (samples of the step per dimension; as many as those of the fit if not given).
x_range, y_range : ranges of n/d and N/d.
ridge_range, ridge_points : the scan of the penalty (divided by d) behind every cell of a map.
full_lead : relative lead of the winner over the next that gets the full colour.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradstep.papers.claims import in_standard_errors
from gradstep.papers.figure import Figure
from gradstep.papers.outcome import Check, Judged, Outcome
from gradstep.papers.panels import Image, Panel, Points
from gradstep.papers.places import Place, Sample, on_curve, point_seeds
from gradstep.problem import Problem
from gradstep.simulation import simulate
from gradstep.theory import predict_many
from gradstep.theory.tuning import tune

__all__ = ["measure", "outcome", "places"]

_NOT_OF_THE_PROBLEM = ("label", "regime", "allowance", "reason")
#: Standard errors by which another candidate may be ahead of the theory's winner on the network.
_BEHIND = 2.5


def _problem(chart: Mapping[str, Any], candidate: Mapping[str, Any], x: float, y: float, d: int) -> Problem:
    changes = {key: value for key, value in candidate.items() if key not in _NOT_OF_THE_PROBLEM}
    n_step = chart.get("step_samples", x)
    sizes = {"d": d, "width": round(y * d), "n": round(x * d), "n_step": round(n_step * d)}
    return Problem.from_dict({**chart["base"], **sizes, "ridge": 1.0, **changes})


def _grid(figure: Figure, preset: Mapping[str, Any]) -> tuple[list[float], list[float]]:
    (left, right), (low, high) = figure.settings["x_range"], figure.settings["y_range"]
    columns, rows = np.geomspace(left, right, preset["columns"]), np.geomspace(low, high, preset["rows"])
    return list(map(float, columns)), list(map(float, rows))


def places(figure: Figure, preset: Mapping[str, Any]) -> Iterator[Place]:
    """Rows of every map, computed, then networks of every candidate at every place simulated."""
    settings, d = figure.settings, int(preset["d"])
    columns, rows = _grid(figure, preset)
    scan = {"low": settings["ridge_range"][0], "high": settings["ridge_range"][1], "count": settings["ridge_points"]}
    for index, chart in enumerate(settings["maps"]):
        for y in rows:
            yield Place(
                measure, {"chart": chart, "x": columns, "y": y, "d": d, "scan": scan}, f"map {index}", y, seeds=(0,)
            )
    for index, points in enumerate(preset["points"]):
        chart = settings["maps"][index]
        for x, y in points:
            # The candidates of a place share their seeds, so that differences are paired.
            seeds = point_seeds(figure.name, str(index), (x, y), preset)
            for candidate in chart["candidates"]:
                problem = _problem(chart, candidate, x, y, d).to_dict()
                parameters = {"problem": problem, "seeds": list(seeds)}
                yield Place(measure, parameters, f"network {index}", (x, y), (str(index), (x, y)), seeds[:1])


def measure(parameters: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Predict one row of a map, or tune one candidate's ridge and simulate it."""
    if "problem" in parameters:
        best = tune(Problem.from_dict(dict(parameters["problem"])), over="ridge")
        measured = simulate(best.problem, parameters["seeds"])["test_error"]
        return {"ridge": best["ridge"].value, "test_error": measured.tolist()}
    chart, d, scan = parameters["chart"], parameters["d"], parameters["scan"]
    ridges = d * np.geomspace(scan["low"], scan["high"], scan["count"])
    errors = []
    for x in parameters["x"]:
        problems = [_problem(chart, candidate, x, parameters["y"], d) for candidate in chart["candidates"]]
        family = [problem.replace(ridge=float(ridge)) for problem in problems for ridge in ridges]
        values = np.array([p.test_error for p in predict_many(family)]).reshape(len(problems), -1)
        errors.append([_lowest(row) for row in values])
    return {"errors": errors}


def _lowest(values: NDArray[np.float64]) -> float:
    """Return the lowest value of the parabola through the lowest point of a scan and its neighbours."""
    k = int(np.argmin(values))
    if k in (0, len(values) - 1):
        return float(values[k])
    left, centre, right = values[k - 1 : k + 2]
    curvature = left - 2 * centre + right
    return float(centre - (right - left) ** 2 / (8 * curvature)) if curvature > 0 else float(centre)


def outcome(figure: Figure, preset: Mapping[str, Any], samples: Sequence[Sample]) -> Outcome:
    """Draw the maps, and the winners on the network at the places simulated."""
    settings, d = figure.settings, int(preset["d"])
    columns, rows = _grid(figure, preset)
    panels: list[Panel] = []
    comparisons: list[Judged] = []
    checks: list[Check] = []
    for index, chart in enumerate(settings["maps"]):
        candidates = chart["candidates"]
        networks, dots = iter(on_curve(samples, f"network {index}")), []
        for x, y in preset["points"][index]:
            found = [next(networks) for _ in candidates]
            problems = [
                _problem(chart, c, x, y, d).replace(ridge=float(s["ridge"][0]))
                for c, s in zip(candidates, found, strict=True)
            ]
            theory = [prediction.test_error for prediction in predict_many(problems)]
            measured = np.array([s["test_error"][0] for s in found])
            place = f"n/d = {x:g}, N/d = {y:g}"
            for candidate, own, value, values in zip(candidates, found, theory, measured, strict=True):
                known = {name: candidate[name] for name in ("allowance", "reason") if name in candidate}
                curve = f"{chart['title']}: {candidate['label']}"
                comparisons.append(own.compare(value, values, curve=curve, place=place, **known))
            best = int(np.argmin(theory))
            behind = max(in_standard_errors(measured[best] - v) for k, v in enumerate(measured) if k != best)
            label = f"{chart['title']}, {place}: {candidates[best]['label']} behind another, in standard errors"
            checks.append(Check.at_most(label, behind, _BEHIND))
            winner = candidates[int(np.argmin(measured.mean(axis=1)))]["regime"]
            dots.append(Points([x], [y], None, "", winner))
        errors = np.array([row["errors"][0] for row in on_curve(samples, f"map {index}")])
        ordered = np.sort(errors, axis=-1)
        lead = np.clip((ordered[..., 1] / ordered[..., 0] - 1) / settings["full_lead"], 0, 1)
        labels = [(c["label"], c["regime"]) for c in candidates]
        image = Image(columns, rows, np.argmin(errors, axis=-1).tolist(), lead.tolist(), labels)
        panels.append(Panel(chart["title"], "samples n/d", "neurons N/d", "log", "log", points=dots, image=image))
    return Outcome(panels, comparisons, checks)
