"""Lemma 6: the student built from the neurons that the step gave the right slope, and its exact risk.

Settings, beside those of `gradstep.papers.experiment.Curves`
-------------------------------------------------------------
base : psi2, lam (unused by the student) and sigma_eps; the step is eta = ``eta_bar`` sqrt N, and slopes are accepted in
    a ``window`` around the best one, relative to it.
curves : activation and teacher; a panel each.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gradstep.gaussian import moments
from gradstep.panels import Line, Panel
from gradstep.papers.ba2022.risk import kernel_lower_bound
from gradstep.papers.ba2022.student import constructed_readout, constructed_risk, tau_star
from gradstep.papers.experiment import Array, Curves
from gradstep.papers.outcome import Check, Outcome, points_of
from gradstep.papers.places import Sample, Settings, on_curve
from gradstep.problem import Problem, Step
from gradstep.simulation import Network


def measure(parameters: Settings, seed: int) -> dict[str, float]:
    """Take one large step, average the chosen neurons, and return the exact risk, their number and mean slope."""
    settings = dict(parameters)
    eta_bar, window = settings.pop("eta_bar"), settings.pop("window")
    problem = Problem.ba2022(eta=Step(eta_bar, exponent=0.5), **settings)
    network = Network(problem, seed)
    readout = network.readout
    student, target = moments(problem.activation), moments(problem.link)
    slopes = eta_bar * student.derivative_mean * target.linear * readout
    kappa = tau_star(problem.activation, problem.link).kappa
    chosen = constructed_readout(slopes, kappa, tolerance=window * abs(kappa))
    direction = (network.after - network.before).T @ readout
    direction /= np.linalg.norm(direction)
    used = chosen > 0
    student_network = Network(problem.replace(width=int(used.sum()), eta=0.0), seed, before=network.after[used])
    risk = student_network.risk(chosen[used], along=direction, tolerance=1e-7)
    return {"risk": float(risk.test_error), "neurons": float(used.sum()), "slope": float(slopes[used].mean())}


class Student(Curves):
    """The risk at finite sample ratio under the measured ones, above tau*."""

    measure = staticmethod(measure)

    @property
    def grid(self) -> Array:
        """Places of the lines, from below the first one measured to beyond the last."""
        return np.geomspace(0.8 * min(self.preset["points"]), 1.5 * max(self.preset["points"]), 50)

    def outcome(self, samples: Sequence[Sample]) -> Outcome:
        """Draw a panel for each pair of functions."""
        return sum((self._panel(curve, on_curve(samples, curve["label"])) for curve in self.curves), Outcome())

    def _panel(self, curve: Settings, samples: Sequence[Sample]) -> Outcome:
        # This noise of the gradient is in the directions orthogonal to the teacher.
        directions = (self.preset["d"] - 1) / self.preset["d"]
        name, noise = curve["label"], self.settings["base"]["sigma_eps"]
        functions = curve["parameters"]["activation"], curve["parameters"]["teacher"]
        own, neurons = [], np.nan
        for sample in samples:
            # The harmonic mean: the risk is linear in one over the number of neurons.
            neurons = float(1 / (1 / sample["neurons"]).mean())
            law = {"neurons": neurons, "kappa": float(sample["slope"].mean()), "psi1": sample.x / directions}
            predicted = float(constructed_risk(*functions, sigma_eps=noise, **law))
            own.append(sample.compare(predicted, "risk", quantity="prediction risk"))
        best, floor = tau_star(*functions), kernel_lower_bound(functions[1])
        finite, many = (
            constructed_risk(*functions, psi1=self.grid, sigma_eps=noise, neurons=count) for count in (neurons, np.inf)
        )
        lines = [
            Line.of(self.grid, finite, "student", curve["regime"]),
            Line.of(self.grid, many, "", curve["regime"], "dashed"),
            Line.of(self.grid, floor, "kernel bound", "teacher", "dashed"),
        ]
        if best.tau > 1e-3 * floor:
            lines.append(Line.of(self.grid, best.tau, "tau*", "infinite", "dotted"))
        points = [points_of(own, "student", curve["regime"])]
        panel = Panel(name, self.settings["axis"]["label"], "prediction risk", "log", "log", lines, points)
        far = constructed_risk(*functions, psi1=[1e5, 1e6], sigma_eps=noise)
        rate = float((far[0] - best.tau) / (far[1] - best.tau))
        checks = [
            Check.at_most(f"{name}: the last measured risk is {{}} times the bound (3.3)", own[-1].mean / floor, 1.0),
            Check.at_most(
                f"{name}: the excess over tau* at n/d = 1e5 is 10 times that at 1e6, to within {{}}",
                abs(rate - 10),
                0.1,
            ),
        ]
        return Outcome([panel], own, checks)
