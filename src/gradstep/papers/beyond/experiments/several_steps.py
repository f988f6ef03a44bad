"""Errors after several steps against the samples of the fit: expected fits on drawn layers, and plain fits on the same.

Settings
--------
base : parameters of the problem; per_d : its sizes divided by d.
teachers : title and ``teacher``; each has a row of panels.
trainings : label, regime, ``steps`` and ``fresh``; those of a title share a panel. Without steps the first layer is as
    drawn.
n_range : range of n/d of the lines.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from gradstep.panels import Line, Panel, Points
from gradstep.papers.experiment import Experiment
from gradstep.papers.outcome import Outcome
from gradstep.papers.places import Place, Sample, Settings, on_curve, sizes_at
from gradstep.problem import Problem
from gradstep.simulation import Network


def measure(parameters: Settings, seed: int) -> dict[str, Any]:
    """Train a network, and return the expected errors of fits on its layer, and the errors of single fits."""
    problem, steps = Problem.from_dict(dict(parameters["problem"])), int(parameters["steps"])
    network = Network(problem if steps else problem.replace(eta=0.0), seed)
    if steps:
        network = network.train(steps, fresh=parameters["fresh"])
    curve = network.learning_curve(parameters["n"], pool=parameters["pool"])
    fits = []
    for n in parameters["fits"]:
        fitted = replace(network, problem=network.problem.replace(n=n))
        fits.append(float(fitted.risk(fitted.fit().readouts).test_error[0]))
    return {"expected": curve.test_error[:, 0].tolist(), "fits": fits}


class SeveralSteps(Experiment):
    """A panel for each teacher and kind of samples, with a line for each number of steps."""

    def _sizes(self) -> tuple[list[int], list[int]]:
        """Return the numbers of samples of the lines, and those of the fits, which are among them."""
        d, (low, high) = int(self.preset["d"]), self.settings["n_range"]
        fits = [round(ratio * d) for ratio in self.preset["points"]]
        line = {round(ratio * d) for ratio in np.geomspace(low, high, self.preset["line"])}
        return sorted(line.union(fits)), fits

    def _problem(self, teacher: str) -> dict[str, Any]:
        d = int(self.preset["d"])
        sizes = {**sizes_at(d, self.settings["per_d"]), "d": d, "n": d}
        return Problem.from_dict({**self.settings["base"], **sizes, "teacher": teacher}).to_dict()

    def places(self) -> Iterator[Place]:
        """Yield every training of every teacher."""
        line, fits = self._sizes()
        for teacher in self.settings["teachers"]:
            for training in self.settings["trainings"]:
                parameters = {
                    "problem": self._problem(teacher["teacher"]),
                    "steps": training["steps"],
                    "fresh": training.get("fresh", True),
                    "n": line,
                    "fits": fits,
                    "pool": round(self.preset["pool"] * self.preset["d"]),
                }
                curve = f"{teacher['title']}, {training['title']}, {training['label']}"
                # All trainings of a teacher begin with the same networks.
                yield Place(measure, parameters, curve, 0.0, (teacher["title"], "layers"))

    def outcome(self, samples: Sequence[Sample]) -> Outcome:
        """Draw the lines with the fits, and compare these with the lines layer by layer."""
        teachers = [teacher["title"] for teacher in self.settings["teachers"]]
        titles = dict.fromkeys(training["title"] for training in self.settings["trainings"])
        return sum((self._panel(*names, samples) for names in product(teachers, titles)), Outcome())

    def _panel(self, teacher: str, title: str, samples: Sequence[Sample]) -> Outcome:
        d, (line, fits) = int(self.preset["d"]), self._sizes()
        lines, points, comparisons = [], [], []
        for training in self.settings["trainings"]:
            if training["title"] != title:
                continue
            curve = f"{teacher}, {title}, {training['label']}"
            (sample,) = on_curve(samples, curve)
            expected = sample["expected"].mean(axis=0)
            lines.append(Line.of(np.array(line) / d, expected, training["label"], training["regime"]))
            places = [line.index(n) for n in fits]
            # Layers differ, and their own fits with them: a fit is compared with what is expected of its layer.
            apart = sample["fits"] - sample["expected"][:, places] + expected[places]
            own = [
                sample.compare(
                    expected[place], apart[:, k], place=f"n/d = {n / d:g}", sample=f"{sample.place.networks}/{n}"
                )
                for k, (n, place) in enumerate(zip(fits, places, strict=True))
            ]
            comparisons += own
            error = [judged.standard_error for judged in own]
            mean = [judged.mean for judged in own]
            points.append(Points([n / d for n in fits], mean, error, training["label"], training["regime"]))
        panel = Panel(f"{teacher}, {title}", "samples of the fit n/d", "test error", "log", "log", lines, points)
        return Outcome([panel], [judged for judged in comparisons if math.isfinite(judged.z)])
