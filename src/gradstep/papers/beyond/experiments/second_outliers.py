"""Singular values of the first layer after two steps on fresh samples, against the number of neurons.

Settings
--------
axis : range and ``count`` of the widths of the lines.
base : parameters of the first step, without sizes; ``eta`` and ``second`` are coefficients and exponents of the steps.
per_width : d and n_step divided by the width.
outliers : label and regime of each outlier that is drawn, from the largest on.
resolved : least ratio of an outlier to the edge of the bulk at which it is judged.
allowance : documented error of the theory with its reason.
powers : widths between which the growth of the predicted outliers is compared with the powers, and its tolerance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gradstep.panels import Line, Panel, Points
from gradstep.papers.charts import excuse, grid_of
from gradstep.papers.experiment import Experiment
from gradstep.papers.outcome import Check, Judged, Outcome, points_of
from gradstep.papers.places import Place, Sample, Settings
from gradstep.problem import Problem, Step
from gradstep.simulation import Network
from gradstep.theory.spectra.second_step import SecondStep, second_step

_SECOND_SAMPLES = 1 << 31
"""Added to a seed for the samples of the second step."""


def measure(parameters: Settings, seed: int) -> dict[str, Any]:
    """Take two steps of different sizes; return the largest singular values, and their overlaps with the teacher."""
    problem, count = Problem.from_dict(dict(parameters["problem"])), parameters["count"]
    first = Network(problem, seed)
    second = problem.replace(eta=Step(**parameters["second"]))
    network = replace(first, problem=second, before=first.after, seed=(seed + _SECOND_SAMPLES) % (1 << 32))
    _, values, vectors = np.linalg.svd(network.after, full_matrices=False)
    return {"singular_value": values[:count].tolist(), "overlap": (vectors[:count, 0] ** 2).tolist()}


class SecondOutliers(Experiment):
    """Outliers and their overlaps with the teacher, one curve for each outlier."""

    def _problem(self, width: float) -> Problem:
        per_width = self.settings["per_width"]
        sizes = {name: round(value * width) for name, value in per_width.items()}
        return Problem.from_dict({**self.settings["base"], **sizes, "width": round(width), "n": 1, "ridge": 1.0})

    def _theory(self, width: float) -> SecondStep:
        return second_step(self._problem(width), Step(**self.settings["second"]))

    def places(self) -> Iterator[Place]:
        """Yield networks of every width."""
        shared = {"second": self.settings["second"], "count": len(self.settings["outliers"])}
        for width in self.preset["points"]:
            yield Place(measure, {"problem": self._problem(width).to_dict(), **shared}, "networks", float(width))

    def outcome(self, samples: Sequence[Sample]) -> Outcome:
        """Draw and judge singular values and overlaps, and check the powers of the growth."""
        grid = np.union1d(grid_of(self.settings["axis"], self.preset), [sample.x for sample in samples])
        theory = dict(zip(grid.tolist(), map(self._theory, grid), strict=True))
        edges = Line.of(grid, [theory[x].edge for x in grid], "edge", "initial", "dashed")
        values = Panel("", "neurons N", "singular value of W", "log", "log", lines=[edges])
        overlaps = Panel("", "neurons N", "overlap with the teacher", "log")
        comparisons: list[Judged] = []
        for place, curve in enumerate(self.settings["outliers"]):
            words = curve["label"], curve["regime"]
            there = [x for x in grid if len(theory[x].outliers) > place]
            size = [theory[x].outliers[place].singular_value for x in there]
            cosine = [theory[x].outliers[place].teacher_overlap for x in there]
            own = list(self._judged(place, samples, theory))
            comparisons += own
            drawn = Points.measured([s.x for s in samples], [s["singular_value"][:, place] for s in samples], *words)
            values = replace(
                values, lines=[*values.lines, Line.of(there, size, *words)], points=[*values.points, drawn]
            )
            seen = [judged for judged in own if judged.quantity == "overlap with the teacher"]
            overlaps = replace(
                overlaps,
                lines=[*overlaps.lines, Line.of(there, cosine, *words)],
                points=[*overlaps.points, *([points_of(seen, *words)] if seen else [])],
            )
        return Outcome([values, overlaps], comparisons, list(self._powers()))

    def _judged(self, place: int, samples: Sequence[Sample], theory: dict[float, SecondStep]) -> Iterator[Judged]:
        """Yield the comparisons of an outlier where it is far enough from the bulk."""
        for sample in samples:
            found = theory[sample.x]
            if len(found.outliers) <= place:
                continue
            outlier = found.outliers[place]
            if outlier.singular_value < self.settings["resolved"] * found.edge:
                continue
            curve, known = self.settings["outliers"][place]["label"], excuse(self.settings["allowance"])
            value = sample["singular_value"][:, place]
            yield sample.compare(outlier.singular_value, value, curve=curve, quantity="singular value", **known)
            if not place:
                overlap = sample["overlap"][:, place]
                yield sample.compare(outlier.teacher_overlap, overlap, curve=curve, quantity="overlap with the teacher")

    def _powers(self) -> Iterator[Check]:
        """Yield how far the growth of the predicted outliers at large widths is from the powers."""
        low, high, tolerance = (float(value) for value in self.settings["powers"])
        pair = [[outlier.singular_value for outlier in self._theory(width).outliers] for width in (low, high)]
        first, second = self.settings["base"]["eta"]["exponent"], self.settings["second"]["exponent"]
        for place, curve in enumerate(self.settings["outliers"]):
            power = second - place * (0.5 - first)
            growth = np.log(pair[1][place] / pair[0][place]) / np.log(high / low)
            label = f"{curve['label']}: the power of N is {{}} away from {power:.2f}"
            yield Check.at_most(label, abs(growth - power), tolerance)
