"""Errors on the spiked features F_l, published and corrected, and on a Gaussian equivalent, beside the network's.

Settings
--------
base : fixed parameters of `Problem.moniri2024`.
order : l of F_l.
test_factor : errors are measured on this many fresh inputs for each sample.
falls : largest ratio of the gap between the training errors of F_l and of F at the larger size to that at the smaller.
allowance, reason : documented relative difference of the errors at finite n.
Presets hold the exponents ``points``, the two ``sizes``, and ``published_z``, the z-score that the gap between the test
errors of the published F_l and of F must exceed at the largest exponent (none where the seeds are too few).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from gradstep.overlay import Overlay
from gradstep.panels import Guide, Line, Panel, Points
from gradstep.papers.charts import grid_of
from gradstep.papers.claims import published_is_off
from gradstep.papers.experiment import Array, Experiment
from gradstep.papers.moniri2024.experiments.spiked_features import gradient_rest, terms_of
from gradstep.papers.moniri2024.features import gaussian_equivalent
from gradstep.papers.outcome import Check, Outcome
from gradstep.papers.places import Place, Sample, Settings
from gradstep.problem import Problem
from gradstep.simulation import Network
from gradstep.simulation.ridge import fit_rows
from gradstep.simulation.streams import Purpose, generator
from gradstep.theory import predict_many

#: Name in the results, label and regime.
_CURVES = (
    ("F", "F", "teacher"),
    ("F_l", "F_l published", "few"),
    ("corrected", "F_l", "large"),
    ("equivalent", "equivalent + spikes", "small"),
)
#: Sides of the errors in the results, and how they are written.
_SIDES = {"train": "training", "test": "test"}


def measure(parameters: Settings, seed: int) -> dict[str, float]:
    """Fit F, published and corrected F_l and the Gaussian equivalent with spikes; return their errors."""
    settings = dict(parameters)
    order, factor = settings.pop("order"), settings.pop("test_factor")
    problem = Problem.moniri2024(**settings)
    network = Network(problem, seed)
    ridge, (inputs, labels) = problem.sizes.ridge, network.fit_data()
    fresh, truth = network.test_data(factor * len(labels))
    draw = generator(seed, Purpose.TEST_INPUTS, block=2**20)
    rest = gradient_rest(problem)[1]

    def spiked(start: Array, x: Array, variance: float) -> Array:
        return terms_of(network, x, order, variance).added_to(start)

    sides: dict[str, list[Array]] = {"F": [], "F_l": [], "corrected": [], "equivalent": []}
    for x in (inputs, fresh):
        initial = network.initial.features(x)
        sides["F"].append(network.features(x))
        sides["F_l"].append(spiked(initial, x, 0.0))
        sides["corrected"].append(spiked(initial, x, rest))
        sides["equivalent"].append(spiked(gaussian_equivalent(problem.activation, x, network.before, draw), x, rest))
    found: dict[str, float] = {}
    for name, (train, test) in sides.items():
        fit = fit_rows(train, labels, [ridge])
        found[f"{name} train"] = float(fit.train_error[0])
        found[f"{name} test"] = float(np.mean((truth - test @ fit.readouts[:, 0]) ** 2))
    return found


class Universality(Experiment):
    """Errors of the same samples: at the larger size one by one, and whether the gaps close."""

    def places(self) -> Iterator[Place]:
        """Yield instances of every exponent at both sizes."""
        shared = {**self.settings["base"], "order": self.settings["order"], "test_factor": self.settings["test_factor"]}
        for n in self.preset["sizes"]:
            for alpha in self.preset["points"]:
                point = {"alpha": alpha, "n": n}
                yield Place(measure, {**shared, **point}, f"α = {alpha:g}", n, ("features", sorted(point.items())))

    def _predicted(self) -> dict[str, Line]:
        """Return the errors of the network at the larger size, by the equations for every step size."""
        points, n = self.preset["points"], self.preset["sizes"][-1]
        alphas = grid_of({"from": points[0], "to": points[-1], "count": 41}, self.preset)
        problems = [Problem.moniri2024(**self.settings["base"], alpha=float(alpha), n=n) for alpha in alphas]
        found = predict_many(problems)
        return {
            side: Line.of(alphas, [getattr(each, f"{side}_error") for each in found], "F", "teacher") for side in _SIDES
        }

    def outcome(self, samples: Sequence[Sample]) -> Outcome:
        """Compare errors at the larger size, and gaps between the sizes."""
        alphas, sizes = self.preset["points"], self.preset["sizes"]
        known = {name: self.settings[name] for name in ("allowance", "reason")}
        largest, shape = samples[-len(alphas) :], (len(sizes), len(alphas), int(self.preset["seeds"]))
        panels, comparisons, gaps, predicted = [], [], {}, self._predicted()
        for side in _SIDES:
            points = []
            for name, label, regime in _CURVES:
                points.append(Points.measured(alphas, [s[f"{name} {side}"] for s in largest], label, regime))
                gaps[name, side] = np.array([_gap(sample, name, side) for sample in samples]).reshape(shape)
                if name in ("corrected", "equivalent"):
                    for alpha, sample in zip(alphas, largest, strict=True):
                        # Paired: the same weights, data and noise.
                        mean = float(sample[f"F {side}"].mean())
                        words = {"curve": label, "place": alpha, "quantity": f"{side} error", **known}
                        comparisons.append(sample.compare(mean, mean * (1 + _gap(sample, name, side)), **words))
            error, axis = f"{_SIDES[side]} error", "exponent α of the step size"
            panels.append(Panel(f"{error}, n = {sizes[-1]:g}", axis, error, lines=[predicted[side]], points=points))
        training = {name: gaps[name, "train"].mean(axis=1) for name, *_ in _CURVES[1:]}
        testing = {name: gaps[name, "test"][:, -1] for name, *_ in _CURVES[1:]}
        panels.append(_gap_panel("training error, mean over α", sizes, training))
        panels.append(_gap_panel(f"test error, α = {alphas[-1]:g}", sizes, testing))
        first, last = np.abs(training["corrected"].mean(axis=1))
        name = f"training errors of F_l and F differ at n = {sizes[-1]:g} by {{}} times what they do at {sizes[0]:g}"
        checks = [Check.at_most(name, last / first, self.settings["falls"])]
        z = abs(Overlay.of(0.0, testing["F_l"][-1]).z)
        name = f"the published F_l is {{}} standard errors off in test error, α = {alphas[-1]:g}, n = {sizes[-1]:g}"
        checks += published_is_off(name, z, self.preset)
        return Outcome(panels, comparisons, checks)


def _gap(sample: Sample, name: str, side: str) -> Array:
    """Return the error on some features less that on the network's own, over the mean of the latter."""
    network = sample[f"F {side}"]
    return np.asarray((sample[f"{name} {side}"] - network) / network.mean())


def _gap_panel(title: str, sizes: Sequence[float], gaps: Mapping[str, Array]) -> Panel:
    points = [Points.measured(sizes, gaps[name], label, regime) for name, label, regime in _CURVES[1:]]
    zero = Guide("F", height=0.0)
    return Panel(f"{title}: relative to F", "samples n", "difference / error on F", "log", points=points, guides=[zero])
