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

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradstep.panels import Image, Panel, Points
from gradstep.papers.claims import in_standard_errors
from gradstep.papers.experiment import Experiment
from gradstep.papers.outcome import Check, Outcome
from gradstep.papers.places import Place, Sample, Settings, on_curve, point_seeds
from gradstep.problem import Problem
from gradstep.simulation import simulate
from gradstep.theory import predict_many
from gradstep.theory.tuning import tune

_NOT_OF_THE_PROBLEM = ("label", "regime", "allowance", "reason")
#: Standard errors by which another candidate may be ahead of the theory's winner on the network.
_BEHIND = 2.5


def _problem(chart: Settings, candidate: Settings, x: float, y: float, d: int) -> Problem:
    changes = {key: value for key, value in candidate.items() if key not in _NOT_OF_THE_PROBLEM}
    n_step = chart.get("step_samples", x)
    sizes = {"d": d, "width": round(y * d), "n": round(x * d), "n_step": round(n_step * d)}
    return Problem.from_dict({**chart["base"], **sizes, "ridge": 1.0, **changes})


def measure(parameters: Settings, seed: int) -> dict[str, Any]:
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


class Phases(Experiment):
    """Maps, and the winners on the network at the places simulated."""

    def _grid(self) -> tuple[list[float], list[float]]:
        (left, right), (low, high) = self.settings["x_range"], self.settings["y_range"]
        columns, rows = np.geomspace(left, right, self.preset["columns"]), np.geomspace(low, high, self.preset["rows"])
        return columns.tolist(), rows.tolist()

    def places(self) -> Iterator[Place]:
        """Yield rows of every map, computed, then networks of every candidate at every place simulated."""
        settings, d = self.settings, int(self.preset["d"])
        columns, rows = self._grid()
        low, high = settings["ridge_range"]
        shared = {"x": columns, "d": d, "scan": {"low": low, "high": high, "count": settings["ridge_points"]}}
        for index, chart in enumerate(settings["maps"]):
            for y in rows:
                yield Place(measure, {**shared, "chart": chart, "y": y}, f"map {index}", y, seeds=(0,))
        for index, points in enumerate(self.preset["points"]):
            chart = settings["maps"][index]
            for x, y in points:
                # The candidates of a place share their seeds, so that differences are paired.
                seeds = point_seeds(self.figure, str(index), (x, y), self.preset)
                for candidate in chart["candidates"]:
                    problem = _problem(chart, candidate, x, y, d).to_dict()
                    parameters = {"problem": problem, "seeds": list(seeds)}
                    yield Place(measure, parameters, f"network {index}", (x, y), (str(index), (x, y)), seeds[:1])

    def outcome(self, samples: Sequence[Sample]) -> Outcome:
        """Draw the maps with the winners on them, and judge these."""
        found = Outcome()
        for index, chart in enumerate(self.settings["maps"]):
            networks, dots = iter(on_curve(samples, f"network {index}")), []
            for x, y in self.preset["points"][index]:
                own, dot = self._place(chart, x, y, [next(networks) for _ in chart["candidates"]])
                found += own
                dots.append(dot)
            found += Outcome([self._map(chart, on_curve(samples, f"map {index}"), dots)])
        return found

    def _place(self, chart: Settings, x: float, y: float, samples: Sequence[Sample]) -> tuple[Outcome, Points]:
        """Compare the candidates of a place with theory and with each other, and mark the winner."""
        candidates = chart["candidates"]
        problems = [
            _problem(chart, candidate, x, y, self.preset["d"]).replace(ridge=float(sample["ridge"][0]))
            for candidate, sample in zip(candidates, samples, strict=True)
        ]
        theory = [prediction.test_error for prediction in predict_many(problems)]
        measured = np.array([sample["test_error"][0] for sample in samples])
        place, comparisons = f"n/d = {x:g}, N/d = {y:g}", []
        for candidate, own, value, values in zip(candidates, samples, theory, measured, strict=True):
            known = {name: candidate[name] for name in ("allowance", "reason") if name in candidate}
            curve = f"{chart['title']}: {candidate['label']}"
            comparisons.append(own.compare(value, values, curve=curve, place=place, **known))
        best = int(np.argmin(theory))
        behind = max(in_standard_errors(measured[best] - v) for k, v in enumerate(measured) if k != best)
        label = f"{chart['title']}, {place}: {candidates[best]['label']} lies {{}} standard errors behind another"
        winner = candidates[int(np.argmin(measured.mean(axis=1)))]["regime"]
        check = Check.at_most(label, behind, _BEHIND)
        return Outcome(comparisons=comparisons, checks=[check]), Points([x], [y], None, "", winner)

    def _map(self, chart: Settings, rows: Sequence[Sample], dots: Sequence[Points]) -> Panel:
        errors = np.array([row["errors"][0] for row in rows])
        ordered = np.sort(errors, axis=-1)
        lead = np.clip((ordered[..., 1] / ordered[..., 0] - 1) / self.settings["full_lead"], 0, 1)
        labels = [(c["label"], c["regime"]) for c in chart["candidates"]]
        image = Image(*self._grid(), np.argmin(errors, axis=-1).tolist(), lead.tolist(), labels)
        return Panel(chart["title"], "samples n/d", "neurons N/d", "log", "log", points=dots, image=image)
