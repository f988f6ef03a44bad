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

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradstep.overlay import Overlay
from gradstep.papers.figure import Figure, point_seeds
from gradstep.papers.outcome import Check, Outcome, compare
from gradstep.papers.panels import Image, Panel, Points
from gradstep.problem import Problem
from gradstep.simulation import simulate
from gradstep.sweeps import Result, Task
from gradstep.theory import predict_many
from gradstep.theory.tuning import tune

__all__ = ["assemble", "measure", "tasks"]

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


def _places(preset: Mapping[str, Any]) -> list[tuple[int, float, float]]:
    return [(index, x, y) for index, points in enumerate(preset["points"]) for x, y in points]


def tasks(figure: Figure, preset: Mapping[str, Any]) -> list[Task]:
    """List one task a row of every map, then one a candidate at every place simulated."""
    settings, d = figure.settings, int(preset["d"])
    columns, rows = _grid(figure, preset)
    scan = {"low": settings["ridge_range"][0], "high": settings["ridge_range"][1], "count": settings["ridge_points"]}
    listed = [
        Task(f"{__name__}:measure", {"chart": chart, "x": columns, "y": y, "d": d, "scan": scan}, 0)
        for chart in settings["maps"]
        for y in rows
    ]
    for index, x, y in _places(preset):
        # The candidates of a place share their seeds, so that differences are paired.
        seeds = point_seeds(figure.name, str(index), (x, y), preset)
        for candidate in settings["maps"][index]["candidates"]:
            problem = _problem(settings["maps"][index], candidate, x, y, d).to_dict()
            listed.append(Task(f"{__name__}:measure", {"problem": problem, "seeds": list(seeds)}, seeds[0]))
    return listed


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


def assemble(figure: Figure, preset: Mapping[str, Any], results: Sequence[Result]) -> Outcome:
    """Draw the maps, and the winners on the network at the places simulated."""
    settings, d = figure.settings, int(preset["d"])
    columns, rows = _grid(figure, preset)
    charts = settings["maps"]
    networks = iter(results[len(charts) * len(rows) :])
    comparisons, checks, dots = [], [], []
    for index, x, y in _places(preset):
        chart, place = charts[index], f"n/d = {x:g}, N/d = {y:g}"
        candidates = chart["candidates"]
        found = [next(networks) for _ in candidates]
        problems = [
            _problem(chart, c, x, y, d).replace(ridge=r["ridge"]) for c, r in zip(candidates, found, strict=True)
        ]
        theory = [prediction.test_error for prediction in predict_many(problems)]
        measured = np.array([r["test_error"] for r in found])
        for candidate, value, sample in zip(candidates, theory, measured, strict=True):
            curve = f"{chart['title']}: {candidate['label']}"
            comparisons.append(
                compare(
                    value,
                    sample,
                    curve=curve,
                    place=place,
                    allowance=candidate.get("allowance", 0.0),
                    reason=candidate.get("reason", ""),
                    sample=f"{index}, {place}",
                )
            )
        best = int(np.argmin(theory))
        behind = max(float(Overlay.of(0.0, measured[best] - other).t) for k, other in enumerate(measured) if k != best)
        label = f"{chart['title']}, {place}: {candidates[best]['label']} behind another, in standard errors"
        checks.append(Check.at_most(label, behind, _BEHIND))
        winner = candidates[int(np.argmin(measured.mean(axis=1)))]["regime"]
        dots.append((index, Points([x], [y], None, "", winner)))
    panels = []
    for index, chart in enumerate(charts):
        errors = np.array([r["errors"] for r in results[index * len(rows) : (index + 1) * len(rows)]])
        ordered = np.sort(errors, axis=-1)
        lead = np.clip((ordered[..., 1] / ordered[..., 0] - 1) / settings["full_lead"], 0, 1)
        labels = [(c["label"], c["regime"]) for c in chart["candidates"]]
        image = Image(columns, rows, np.argmin(errors, axis=-1).tolist(), lead.tolist(), labels)
        own = [points for k, points in dots if k == index]
        panels.append(Panel(chart["title"], "samples n/d", "neurons N/d", "log", "log", points=own, image=image))
    notes = f"Theory and network at d = {d}; the candidates of a dot share their seeds."
    return Outcome(tuple(panels), tuple(comparisons), tuple(checks), notes)
