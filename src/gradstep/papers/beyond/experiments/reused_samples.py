"""Alignment with the teacher after two steps, with fresh samples for the second step and with those of the first.

Settings
--------
base : parameters of the problem; per_d : its width divided by d.
teachers : title, ``teacher``, and its information ``exponent``; each has a panel.
trainings : label, regime, ``fresh``.
range : range of n_step/d of the line of the closed theory, which fresh samples have.
allowance : documented error of that theory with its reason.
reused : least alignment of reused samples, and most of fresh ones, at the largest n_step, for exponents above one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gradstep.panels import Line, Panel, Points
from gradstep.papers.charts import excuse, grid_of
from gradstep.papers.claims import in_standard_errors
from gradstep.papers.experiment import Experiment
from gradstep.papers.outcome import Check, Outcome
from gradstep.papers.places import Place, Sample, Settings, on_curve
from gradstep.problem import Problem
from gradstep.simulation import Network
from gradstep.theory.spectra.second_step import second_step


def measure(parameters: Settings, seed: int) -> dict[str, Any]:
    """Take two steps, and return the cosine of the common direction with the teacher's."""
    network = Network(Problem.from_dict(dict(parameters["problem"])), seed)
    return {"alignment": abs(network.train(2, fresh=parameters["fresh"]).spike.alignment)}


class ReusedSamples(Experiment):
    """Fresh and reused samples, for teachers of several information exponents."""

    def _problem(self, teacher: str, ratio: float) -> Problem:
        d, width = int(self.preset["d"]), round(self.settings["per_d"]["width"] * self.preset["d"])
        sizes = {"d": d, "width": width, "n": d, "n_step": round(ratio * d)}
        return Problem.from_dict({**self.settings["base"], **sizes, "teacher": teacher, "ridge": 1.0})

    def places(self) -> Iterator[Place]:
        """Yield both kinds of samples at every ratio, on the same networks."""
        for teacher in self.settings["teachers"]:
            for training in self.settings["trainings"]:
                for x in map(float, self.preset["points"]):
                    problem = self._problem(teacher["teacher"], x).to_dict()
                    parameters = {"problem": problem, "fresh": training["fresh"]}
                    curve = f"{teacher['title']}, {training['label']}"
                    yield Place(measure, parameters, curve, x, (teacher["title"], x))

    def outcome(self, samples: Sequence[Sample]) -> Outcome:
        """Draw both kinds, judge fresh samples by theory where there is one, and check what is claimed."""
        return sum((self._panel(teacher, samples) for teacher in self.settings["teachers"]), Outcome())

    def _panel(self, teacher: Settings, samples: Sequence[Sample]) -> Outcome:
        points, lines, comparisons = [], [], []
        for training in self.settings["trainings"]:
            own = on_curve(samples, f"{teacher['title']}, {training['label']}")
            x, values = [sample.x for sample in own], [sample["alignment"] for sample in own]
            points.append(Points.measured(x, values, training["label"], training["regime"]))
            if training["fresh"] and teacher["exponent"] == 1:
                low, high = self.settings["range"]
                line = grid_of({"from": low, "to": high, "count": 41, "scale": "log"}, self.preset)
                grid = np.union1d(line, np.array(x))
                theory = [second_step(self._problem(teacher["teacher"], ratio)).alignment for ratio in grid]
                lines.append(Line.of(grid, theory, training["label"], training["regime"]))
                at = np.searchsorted(grid, x)
                words = {"quantity": "alignment", **excuse(self.settings["allowance"])}
                comparisons += [s.compare(theory[k], "alignment", **words) for s, k in zip(own, at, strict=True)]
        axes = ("samples of a step n_step/d", "alignment after two steps")
        panel = Panel(teacher["title"], *axes, x_scale="log", lines=lines, points=points)
        checks = list(self._claims(teacher["title"], samples)) if teacher["exponent"] > 1 else ()
        return Outcome([panel], comparisons, checks)

    def _claims(self, title: str, samples: Sequence[Sample]) -> Iterator[Check]:
        """Yield that reused samples find the direction at the largest ratio and fresh ones do not."""
        last = {
            training["fresh"]: on_curve(samples, f"{title}, {training['label']}")[-1]["alignment"]
            for training in self.settings["trainings"]
        }
        least, most = self.settings["reused"]
        yield Check.at_least(f"{title}: with reused samples the alignment is {{}}", last[False].mean(), least)
        yield Check.at_most(f"{title}: with fresh samples the alignment is {{}}", last[True].mean(), most)
        ahead = in_standard_errors(last[False] - last[True])
        yield Check.at_least(f"{title}: reused samples are ahead of fresh ones by {{}} standard errors", ahead, 4.0)
