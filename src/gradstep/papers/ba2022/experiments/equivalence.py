"""Theorem 3 and Fact 4: network and Gaussian equivalent on the same weights, after small, large and repeated steps.

Settings
--------
base : activation, teacher, psi1, psi2, lam and sigma_eps.
eta : learning rate of the repeated steps, which use the same samples every time.
resolved : standard errors by which network and equivalent have to differ where the equivalence breaks.
Presets hold d and the exponents ``alphas`` of eta = N^alpha (first panel), the dimensions ``sizes`` (second panel; at
the first and the last exponent) with the largest relative ``gap`` accepted at the last of them after a small step,
``step_d`` and the numbers of ``steps`` (third panel).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from gradstep.panels import Line, Panel, Points
from gradstep.papers.ba2022.coefficients import coefficients
from gradstep.papers.ba2022.equivalence import R_GE, equivalent_risk
from gradstep.papers.ba2022.risk import R_1, kernel_lower_bound
from gradstep.papers.charts import measured_points
from gradstep.papers.claims import in_standard_errors
from gradstep.papers.experiment import Experiment
from gradstep.papers.moniri2024.features import gaussian_equivalent
from gradstep.papers.outcome import Check, Judged, Outcome
from gradstep.papers.places import Place, Sample, Settings, on_curve
from gradstep.problem import Problem
from gradstep.simulation import Network
from gradstep.simulation.instance import TEACHER_AXIS
from gradstep.simulation.ridge import fit_rows
from gradstep.simulation.streams import Purpose, generator
from gradstep.theory import predict_many


def _power(alpha: float) -> dict[str, float]:
    return {"coefficient": 1.0, "exponent": float(alpha)}


def measure(parameters: Settings, seed: int) -> dict[str, list[float]]:
    """Train the first layer, and fit both features on the same fresh samples after some of the steps.

    The formula is taken after every step from the first of these on: its ``path``.
    """
    settings = dict(parameters)
    steps = settings.pop("after")
    problem = Problem.from_dict({"convention": "ba2022", **settings})
    values = coefficients(problem.activation, problem.link)
    network = Network(problem, seed)
    inputs, labels = network.fit_data()
    teacher = np.eye(1, inputs.shape[1], TEACHER_AXIS)[0]
    penalties = [problem.sizes.ridge]
    found: dict[str, list[float]] = {"network": [], "equivalent": [], "formula": [], "path": []}
    law = {"n": len(labels), "lam": settings["lam"], "sigma_eps": problem.noise}
    for step in range(max(steps) + 1):
        weights = network.before
        if step >= min(steps):
            found["path"].append(R_GE(values, weights.T, teacher, **law))
        if step in steps:
            found["network"].append(float(network.initial.test_error(tolerance=1e-7)))
            draw = generator(seed, Purpose.TEST_INPUTS, step)
            fit = fit_rows(gaussian_equivalent(problem.activation, inputs, weights, draw), labels, penalties)
            found["equivalent"].append(float(equivalent_risk(problem, weights, fit.readouts)[0]))
            found["formula"].append(found["path"][-1])
        if step < max(steps):
            network = replace(network, before=network.after)
    return found


class Equivalence(Experiment):
    """The equivalent over its formula, the network over the uniform equivalent, and the two over each other."""

    def places(self) -> Iterator[Place]:
        """Yield networks after a step of every exponent, at every size after the first and last, after many steps."""
        preset, constant = self.preset, {"coefficient": float(self.settings["eta"]), "exponent": 0.0}
        alphas = preset["alphas"]
        for curve, x, d, eta, steps in [
            *(("exponents", alpha, preset["d"], _power(alpha), (1,)) for alpha in alphas),
            *(("eta = 1", d, d, _power(alphas[0]), (1,)) for d in preset["sizes"]),
            *(("eta = √N", d, d, _power(alphas[-1]), (1,)) for d in preset["sizes"]),
            ("repeated", 0, preset["step_d"], constant, tuple(preset["steps"])),
        ]:
            parameters = {**self.settings["base"], "d": d, "eta": eta, "after": list(steps)}
            yield Place(measure, parameters, curve, x, ("equivalence", [d, *eta.values(), steps]))

    def outcome(self, samples: Sequence[Sample]) -> Outcome:
        """Draw risks against exponent, size and number of steps."""
        problems = [self._problem(s.place.parameters["d"], s.place.parameters["eta"]) for s in samples]
        comparisons: list[Judged] = []
        for sample, problem, prediction in zip(samples, problems, predict_many(problems), strict=True):
            name = f"d = {problem.d}, eta = {problem.step_size:.3g}"
            for own in sample.spread("after"):
                words = {"place": f"step {own.x:g}", "quantity": "prediction risk"}
                formula = own["formula"].mean()
                # Paired: formula and fit share their weights, so the spread of the weights cancels.
                paired = own["equivalent"] - own["formula"] + formula
                comparisons.append(own.compare(formula, paired, curve=f"equivalent, {name}", **words))
                if own.x == 1:
                    comparisons.append(own.compare(prediction.test_error, "network", curve=f"network, {name}", **words))
        exponents, small, large = (
            [sample.item(0) for sample in on_curve(samples, curve)] for curve in ("exponents", "eta = 1", "eta = √N")
        )
        repeated = samples[-1].spread("after")
        panels = (self._exponent_panel(exponents), _size_panel(small, large), self._step_panel(samples[-1]))
        return Outcome(panels, tuple(comparisons), self._checks(exponents[-1], small[-1], repeated[-1]))

    @property
    def _floor(self) -> float:
        return kernel_lower_bound(self.settings["base"]["teacher"])

    def _problem(self, d: int, eta: Settings) -> Problem:
        return Problem.from_dict({"convention": "ba2022", **self.settings["base"], "d": d, "eta": dict(eta)})

    def _exponent_panel(self, samples: Sequence[Sample]) -> Panel:
        base, d, ends = self.settings["base"], self.preset["d"], self.preset["alphas"]
        alphas = np.linspace(ends[0], ends[-1], 41)
        problems = [self._problem(d, _power(a)) for a in alphas]
        width = problems[0].real_sizes().width
        rates = {k: base[k] for k in ("lam", "psi1", "psi2", "sigma_eps")}
        equivalent = R_1(base["activation"], base["teacher"], eta=width**alphas, N=width, **rates)
        lines = [
            Line.of(alphas, equivalent, "equivalent", "first kind"),
            Line.of(alphas, [p.test_error for p in predict_many(problems)], "network", "second kind"),
            Line.of(alphas, self._floor, "bound of Fact 4", "teacher", "dashed"),
        ]
        title = f"one step, d = {d}"
        return Panel(title, "alpha in eta = N^alpha", "prediction risk", "linear", "log", lines, _pair(samples))

    def _step_panel(self, sample: Sample) -> Panel:
        path, measured = sample["path"].mean(axis=0), sample.spread("after")
        steps = measured[0].x + np.arange(len(path))
        lines = [
            Line.of(steps, path, "equivalent", "first kind"),
            Line.of(steps, self._floor, "bound of Fact 4", "teacher", "dashed"),
        ]
        title = f"repeated steps, d = {sample.place.parameters['d']}"
        return Panel(title, "number of steps", "prediction risk", "linear", "log", lines, _pair(measured))

    def _checks(self, large: Sample, largest: Sample, repeated: Sample) -> tuple[Check, ...]:
        resolved = float(self.settings["resolved"])
        small = abs(1 - largest["network"].mean() / largest["equivalent"].mean())
        gaps = [in_standard_errors(sample["equivalent"] - sample["network"]) for sample in (large, repeated)]
        crossed = in_standard_errors(self._floor - repeated["network"])
        size = self.preset["sizes"][-1]
        return (
            Check.at_most(
                f"after eta = 1 network and equivalent differ by {{}} of the error at d = {size}",
                small,
                self.preset["gap"],
            ),
            Check.at_least("network and equivalent lie {} standard errors apart after eta = √N", gaps[0], resolved),
            Check.at_least("after the last of the repeated steps they lie {} standard errors apart", gaps[1], resolved),
            Check.at_least("the network then lies {} standard errors below the bound of Fact 4", crossed, 3.0),
        )


def _pair(samples: Sequence[Sample]) -> list[Points]:
    kinds = (("equivalent", "first kind"), ("network", "second kind"))
    return [measured_points(samples, name, name, regime) for name, regime in kinds]


def _size_panel(small: Sequence[Sample], large: Sequence[Sample]) -> Panel:
    x = [sample.x for sample in small]
    points = [
        Points.measured(x, [(s["equivalent"] - s["network"]) / s["equivalent"].mean() for s in own], label, regime)
        for own, label, regime in ((small, "eta = 1", "small"), (large, "eta = √N", "large"))
    ]
    lines = [Line.of([x[0], x[-1]], 0.0, "equivalence", "teacher", "dotted")]
    return Panel("gap closes or stays", "input dimension d", "1 - network / equivalent", "log", "linear", lines, points)
