"""The plain step against the damped one: what each learns and the error after it, at several correlations.

Settings, beside those of `gradstep.papers.experiment.Curves`
-------------------------------------------------------------
base : parameters of the problem; ``per_d``, its sizes and penalty divided by d.
curves : the ``exponent`` of the eigenvalues of each; ``teacher_exponent`` is that of the teacher's part of them.
gained : least relative fall of the predicted error, from the plain step to the best damping, at the largest exponent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from gradstep.inputs import Inputs
from gradstep.panels import Scale
from gradstep.papers.claims import in_standard_errors
from gradstep.papers.experiment import Array, Curves
from gradstep.papers.outcome import Check, Outcome
from gradstep.papers.places import Sample, Settings, on_curve, sizes_at
from gradstep.problem import Problem
from gradstep.simulation import simulate
from gradstep.theory import predict_many


def _problem(parameters: Settings) -> Problem:
    own = dict(parameters)
    d, per_d = int(own["d"]), own.pop("per_d")
    law = Inputs.power_law(own.pop("exponent"), own.pop("teacher_exponent"), d=d)
    return Problem.from_dict({**own, **sizes_at(d, per_d), "inputs": law})


def measure(parameters: Settings, seed: int) -> dict[str, float]:
    """Simulate one network."""
    measured = simulate(_problem(parameters), seeds=[seed])
    return {name: float(measured[name][0]) for name in ("alignment", "test_error")}


class Damping(Curves):
    """Alignment and test error against the damping."""

    measure = staticmethod(measure)
    names: ClassVar = {"alignment": "alignment with the teacher", "test_error": "test error"}
    y_scale: ClassVar[Scale] = "linear"

    def theory(self, curve: Settings, x: Array) -> dict[str, Any]:
        """Return what is predicted at every damping."""
        found = predict_many([_problem(self.parameters(curve, float(damping))) for damping in x])
        return {name: [getattr(prediction, name) for prediction in found] for name in self.names}

    def drawn(self, curve: Settings, x: Any) -> tuple[str, object] | None:
        """Return the networks: all dampings of a curve share them."""
        return ("networks", curve["label"])

    def outcome(self, samples: Sequence[Sample]) -> Outcome:
        """Add what the best damping gains, on the networks and in theory."""
        found = super().outcome(samples)
        return found + Outcome(checks=[check for curve in self.curves for check in self._gain(curve, samples)])

    def _gain(self, curve: Settings, samples: Sequence[Sample]) -> Sequence[Check]:
        """Return that the plain step is behind; it is the last place measured, with the largest damping."""
        label, own = curve["label"], on_curve(samples, curve["label"])
        plain, best = own[-1], min(own[:-1], key=lambda sample: float(sample["test_error"].mean()))
        checks = [
            Check.at_least(
                f"{label}: the {words} is better by {{}} standard errors with the damping {best.x:g} than without one",
                in_standard_errors(sign * (best[name] - plain[name])),
                3.0,
            )
            for name, words, sign in (("alignment", "alignment", 1), ("test_error", "test error", -1))
        ]
        if curve is not self.curves[-1]:
            return checks
        without, with_it = predict_many([_problem(self.parameters(curve, value)) for value in (math.inf, best.x)])
        fall = 1 - with_it.test_error / without.test_error
        sentence = f"{label}: the damping {best.x:g} lowers the predicted test error by the part {{}}"
        return [*checks, Check.at_least(sentence, fall, self.settings["gained"])]
