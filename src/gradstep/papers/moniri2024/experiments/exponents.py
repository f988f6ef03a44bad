"""Training loss and test error against the exponent of the step size: staircase, finite n, real networks.

No two points share networks, and each network is measured before and after the step on the same samples, so that gains
are paired. The theory at finite n leaves out terms of relative order 1/d (see `gradstep.papers.moniri2024.finite`),
which are larger than the standard errors. So what is judged is the difference between network and theory at two sizes,
extrapolated to where terms of order 1/d are gone.

Settings
--------
base : activation, teacher, phi, psi, lam, noise and residual, as `Problem.moniri2024` has them.
panels : quantities drawn, of ``L_tr``, ``L_te``, ``training_gain`` and ``test_gain``.
far : sizes whose curves are drawn without points, and ``regimes``, the colours of the sizes that are simulated.
largest : end of the horizontal axis.
Presets hold the two simulated ``sizes``, the exponents (``points``), the number of places on a curve (``grid``) and
``published_z``, the z-score that the published limit must exceed at the larger size (none where the seeds are too few).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from gradstep.overlay import Overlay
from gradstep.panels import Line, Panel, Points
from gradstep.papers.claims import published_is_off
from gradstep.papers.experiment import Array, Experiment
from gradstep.papers.moniri2024.experiments.limits import arguments, limit
from gradstep.papers.moniri2024.finite import FiniteErrors, finite_errors
from gradstep.papers.moniri2024.gains import PUBLISHED
from gradstep.papers.moniri2024.resolvent import L_te_0, L_tr_0
from gradstep.papers.moniri2024.staircase import degree, windows
from gradstep.papers.outcome import Judged, Outcome
from gradstep.papers.places import Place, Sample, Settings
from gradstep.problem import Problem
from gradstep.simulation import Network
from gradstep.theory import predict, predict_many

LABELS = {
    "L_tr": "training loss",
    "L_te": "test error (with label noise)",
    "training_gain": "gain in training loss",
    "test_gain": "gain in test error",
}
PAIRS = (("L_tr", "training_gain"), ("L_te", "test_gain"))
LIMITS = {"training_gain": "Delta", "test_gain": "Lambda"}


def measure(parameters: Settings, seed: int) -> dict[str, list[float]]:
    """Return L_tr, and L_te if asked for, before and after the step."""
    settings = dict(parameters)
    test = settings.pop("test")
    problem = Problem.moniri2024(**settings)
    network = Network(problem, seed)
    found: dict[str, list[float]] = {"L_tr": [], "L_te": []}
    for one in (network.initial, network):
        fit = one.fit()
        found["L_tr"].append(float(fit.train_loss[0]))
        if test:
            risk = one.risk(fit.readouts, along=network.spike.direction, tolerance=1e-7)
            found["L_te"].append(float(risk.test_error[0]) + problem.noise**2)
    return found if test else {"L_tr": found["L_tr"]}


def extrapolated(beyond: Array, sizes: Sequence[float]) -> Array:
    """Return the error of the theory without its part of order 1/n; networks of the two sizes are independent."""
    small, large = sizes
    return np.asarray((large * beyond[1] - small * beyond[0]) / (large - small))


class Exponents(Experiment):
    """The staircase and the curves at finite n under the networks, with errors and paired gains compared."""

    @property
    def _alphas(self) -> list[float]:
        return [float(alpha) for alpha in self.preset["points"]]

    def places(self) -> Iterator[Place]:
        """Yield networks of both sizes at every exponent."""
        shared = {**self.settings["base"], "test": "test_gain" in self.settings["panels"]}
        for n in self.preset["sizes"]:
            for alpha in self._alphas:
                yield Place(measure, {**shared, "n": int(n), "alpha": alpha}, f"n = {n}", alpha)

    def outcome(self, samples: Sequence[Sample]) -> Outcome:
        """Draw errors and gains, and judge their differences from theory without terms of order 1/n."""
        settings, sizes, alphas = self.settings, [float(n) for n in self.preset["sizes"]], self._alphas
        theory = [self._finite(n, alphas) for n in sizes]
        comparisons: list[Judged] = []
        points: dict[str, list[Points]] = {name: [] for name in LABELS}
        curve, rejected = f"n = {sizes[-1]:g}, extrapolated", 0.0
        for error, gain in PAIRS:
            if error not in samples[0].results[0]:
                continue
            # By size, exponent, seed, and before or after the step.
            values = np.array([sample[error] for sample in samples]).reshape(len(sizes), len(alphas), -1, 2)
            gains = values[..., 0] - values[..., 1]
            expected = np.array([getattr(found, gain) for found in theory])
            initial = np.array([getattr(found, error) for found in theory]) + expected
            for quantity, measured, predicted in (
                (f"{LABELS[error]} before the step", values[..., 0], initial),
                (LABELS[gain], gains, expected),
            ):
                beyond = extrapolated(measured - predicted[..., None], sizes)
                for at_alpha, t, own in zip(samples[-len(alphas) :], predicted[-1], beyond, strict=True):
                    comparisons.append(at_alpha.compare(t, t + own, curve=curve, quantity=quantity))
            for n, own, before, regime in zip(sizes, gains, initial, settings["regimes"], strict=True):
                shown = Points.measured(alphas, own, f"n = {n:g}", regime)
                points[gain].append(shown)
                # The error before the step fluctuates more than the gain, so the theory's value is used in its place.
                points[error].append(replace(shown, mean=(before - np.array(shown.mean)).tolist()))
            published = (limit(settings["base"], LIMITS[gain], int(l), **PUBLISHED) for l in degree(alphas))  # noqa: E741
            rejected = max(rejected, *(abs(Overlay.of(g, v).z) for g, v in zip(published, gains[-1], strict=True)))
        name = f"the published limit lies up to {{}} standard errors from networks at n = {sizes[-1]:g}"
        checks = published_is_off(name, rejected, self.preset)
        lines = self._lines()
        panels = tuple(
            Panel(LABELS[name], "exponent α of the step size", LABELS[name], lines=lines[name], points=points[name])
            for name in settings["panels"]
        )
        return Outcome(panels, comparisons, checks)

    def _problems(self, n: float, alphas: Iterable[float]) -> list[Problem]:
        return [Problem.moniri2024(**self.settings["base"], n=n, alpha=float(alpha)) for alpha in alphas]

    def _finite(self, n: float, alphas: Iterable[float]) -> FiniteErrors:
        return finite_errors(self._problems(n, alphas))

    def _lines(self) -> dict[str, list[Line]]:
        settings, largest = self.settings, float(self.settings["largest"])
        x = np.linspace(0, largest, int(self.preset["grid"]))
        lines: dict[str, list[Line]] = {name: [] for name in LABELS}
        for n, regime in zip(self.preset["sizes"], settings["regimes"], strict=False):
            theory = self._finite(n, x)
            for name in LABELS:
                lines[name].append(Line.of(x, getattr(theory, name), f"n = {n:g}", regime))
            if settings["base"]["residual"] == "y":
                for name, values in self._uniform(n, x).items():
                    lines[name].append(Line.of(x, values, "", regime, "dotted"))
        for n in settings["far"]:
            theory = self._finite(n, x)
            for name in LABELS:
                lines[name].append(Line.of(x, getattr(theory, name), f"n = {n:.0e}", "large"))
        for name, steps, label, style in _staircases(settings["base"], largest):
            lines[name].append(Line(steps[0], steps[1], label, "infinite", style))
        return lines

    def _uniform(self, n: float, x: Iterable[float]) -> dict[str, Array]:
        """Return the same quantities by the equations that hold for every step size."""
        problems = self._problems(n, x)
        found = [predict(problems[0].replace(eta=0.0)), *predict_many(problems)]
        train, test = np.array([p.train_loss for p in found]), np.array([p.test_error for p in found])
        return {
            "L_tr": train[1:],
            "L_te": test[1:] + problems[0].noise ** 2,
            "training_gain": train[0] - train[1:],
            "test_gain": test[0] - test[1:],
        }


def _staircases(base: Settings, largest: float) -> Iterator[tuple[str, tuple[list[float], list[float]], str, Any]]:
    """Yield the limit, of the real network and as published (with the missing factor of (3) and (4) restored)."""
    top = int(degree(largest))
    ends = [*(windows(l)[0] for l in range(1, top + 1)), largest]  # noqa: E741
    x = [end for pair in pairwise(ends) for end in pair]
    own = {"residual": base["residual"]}
    for options, label, style in ((own, "n → ∞", "solid"), (PUBLISHED, "published", "dashed")):
        for start, (error, gain) in zip((L_tr_0, L_te_0), PAIRS, strict=True):
            initial = float(start(**arguments(base)))
            y = [g for l in range(1, top + 1) for g in [limit(base, LIMITS[gain], l, **options)] * 2]  # noqa: E741
            yield gain, (x, y), label, style
            yield error, (x, [initial - value for value in y]), label, style
