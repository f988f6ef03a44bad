"""A teacher of two directions, one of which can be learned only after the other.

Settings
--------
base : parameters of the problem; per_d : its sizes divided by d.
teachers : title, ``teacher`` and ``staircase``, whether the second direction is within reach after the first.
steps : numbers of steps.
learned : least cosine of a direction that is learned, most of one that is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gradstep.panels import Panel
from gradstep.papers.charts import measured_points
from gradstep.papers.experiment import Experiment
from gradstep.papers.outcome import Check, Outcome
from gradstep.papers.places import Place, Sample, Settings, on_curve, sizes_at
from gradstep.problem import Problem
from gradstep.simulation import Network

_DIRECTIONS = {"x1": "large", "x2": "small"}


def measure(parameters: Settings, seed: int) -> dict[str, Any]:
    """Train a network, and return the cosines of the direction that all rows share with both of the teacher's."""
    problem = Problem.from_dict(dict(parameters["problem"]))
    network = Network(problem, seed).train(parameters["steps"])
    cosine = np.abs(network.spike.direction[:2])
    return {"x1": float(cosine[0]), "x2": float(cosine[1])}


class TwoDirections(Experiment):
    """Cosines with both directions against the number of steps."""

    def _problem(self, teacher: str) -> dict[str, Any]:
        d = int(self.preset["d"])
        sizes = {**sizes_at(d, self.settings["per_d"]), "d": d, "n": d}
        return Problem.from_dict({**self.settings["base"], **sizes, "teacher": teacher, "ridge": 1.0}).to_dict()

    def places(self) -> Iterator[Place]:
        """Yield every number of steps for every teacher, on the same networks."""
        for teacher in self.settings["teachers"]:
            for steps in self.settings["steps"]:
                parameters = {"problem": self._problem(teacher["teacher"]), "steps": steps}
                yield Place(measure, parameters, teacher["title"], float(steps), (teacher["title"], "networks"))

    def outcome(self, samples: Sequence[Sample]) -> Outcome:
        """Draw what was learned, step by step, and check it."""
        panels: list[Panel] = []
        checks: list[Check] = []
        for teacher in self.settings["teachers"]:
            own = on_curve(samples, teacher["title"])
            points = [measured_points(own, name, name, regime) for name, regime in _DIRECTIONS.items()]
            panels.append(Panel(teacher["title"], "steps", "cosine with the direction", points=points))
            checks += self._claims(teacher, own)
        return Outcome(panels, checks=checks)

    def _claims(self, teacher: Settings, samples: Sequence[Sample]) -> Iterator[Check]:
        (least, most), title, last = self.settings["learned"], teacher["title"], samples[-1]
        if teacher["staircase"]:
            yield Check.at_least(f"{title}: after one step the cosine with x1 is {{}}", samples[0]["x1"].mean(), least)
            yield Check.at_most(f"{title}: after one step the cosine with x2 is {{}}", samples[0]["x2"].mean(), most)
            yield Check.at_least(f"{title}: after the last step the cosine with x2 is {{}}", last["x2"].mean(), least)
        else:
            for name in _DIRECTIONS:
                yield Check.at_most(
                    f"{title}: after the last step the cosine with {name} is {{}}", last[name].mean(), most
                )
