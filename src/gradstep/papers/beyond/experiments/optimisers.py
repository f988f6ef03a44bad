r"""One step of several optimisers on correlated inputs: what each learns, and the errors of the fits after it.

Inputs are :math:`x\sim N(0,C)` with eigenvalues :math:`c_j\propto j^{-\alpha}` of mean one. The teacher is a function
of :math:`\langle x,\beta\rangle`, which has variance one; its direction has of every eigenvector what a random one has
in the mean. Every optimiser shifts the pre-activations by the same root mean square. Sign steps work in random
coordinates.

Settings
--------
base : activation, teacher, noise; ``width``, ``n_step``, ``n`` and ``ridge`` divided by d; ``step``, the root mean
    square of the shift of a pre-activation.
optimisers : label, regime, ``optimiser`` and its ``options``.
lost : least alignment that the plain step loses from the first exponent to the last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gradstep.inputs import Inputs
from gradstep.panels import Panel, Scale
from gradstep.papers.charts import measured_points
from gradstep.papers.claims import in_standard_errors
from gradstep.papers.experiment import Experiment
from gradstep.papers.outcome import Check, Outcome
from gradstep.papers.places import Place, Sample, Settings, on_curve
from gradstep.problem import Problem
from gradstep.simulation import Network
from gradstep.sizes import Proportional


def one_step(parameters: Settings, seed: int) -> dict[str, Any]:
    """Take one step; return the alignment in the metric of the inputs, and the expected error of fits."""
    d = int(parameters["d"])
    problem = Problem.from_dict(
        {name: parameters[name] for name in ("activation", "teacher", "noise")}
        | {name: Proportional(parameters[name]) for name in ("width", "n_step", "n", "ridge")}
        | {"d": d, "eta": "N^0.5", "inputs": Inputs.power_law(parameters["exponent"], d=d, classes=d)}
    )
    network = Network(problem, seed)
    stepped = network.train(1, optimiser=parameters["optimiser"], **parameters["options"])
    change = stepped.after - network.before
    shift = float(np.sqrt((network.law.times_root(change) ** 2).sum(axis=1).mean()))
    layer = network.with_weights(network.before + change * (parameters["step"] / shift))
    curve = layer.learning_curve(pool=round(parameters["pool"] * d))
    return {"alignment": abs(stepped.spike.alignment), "test_error": float(curve.test_error[0, 0])}


class Optimisers(Experiment):
    """Alignment and error of every optimiser against the exponent of the eigenvalues."""

    def places(self) -> Iterator[Place]:
        """Yield every optimiser at every exponent, on the same samples."""
        sizes = {name: self.preset[name] for name in ("d", "pool")}
        for rule in self.settings["optimisers"]:
            for exponent in map(float, self.preset["points"]):
                own = {"optimiser": rule["optimiser"], "options": rule.get("options", {}), "exponent": exponent}
                parameters = {**self.settings["base"], **sizes, **own}
                yield Place(one_step, parameters, rule["label"], exponent, ("samples", exponent))

    def outcome(self, samples: Sequence[Sample]) -> Outcome:
        """Draw both quantities, and check that damping is worth most where the inputs vary most."""
        panels = []
        for name, words in {"alignment": "alignment with the teacher", "test_error": "expected test error"}.items():
            points = [
                measured_points(on_curve(samples, rule["label"]), name, rule["label"], rule["regime"])
                for rule in self.settings["optimisers"]
            ]
            scale: Scale = "log" if name == "test_error" else "linear"
            panels.append(Panel("", "exponent of the eigenvalues", words, y_scale=scale, points=points))
        return Outcome(panels, checks=list(self._claims(samples)))

    def _claims(self, samples: Sequence[Sample]) -> Iterator[Check]:
        plain, damped = (
            on_curve(samples, next(rule["label"] for rule in self.settings["optimisers"] if rule["optimiser"] == name))
            for name in ("gradient", "damped")
        )
        last = damped[-1]["alignment"] - plain[-1]["alignment"]
        yield Check.at_least(
            "at the largest exponent the damped step is ahead of the plain one by {} standard errors",
            in_standard_errors(last),
            4.0,
        )
        fallen = plain[0]["alignment"].mean() - plain[-1]["alignment"].mean()
        yield Check.at_least(
            "the plain step loses {} of its alignment from the first exponent to the last",
            fallen,
            self.settings["lost"],
        )
        gained = in_standard_errors(plain[-1]["test_error"] - damped[-1]["test_error"])
        yield Check.at_least(
            "there the error after the plain step is {} standard errors above that after the damped one", gained, 3.0
        )
