"""The bounds (26) to (28) with the functions that realise them, against drawn spiked random features.

Settings
--------
activation, teacher : functions; the step is of a population gradient: c = 1 and gamma = 1.
shown : learning rate whose functions are drawn.
axis : range of learning rates (``from``, ``to``).
alpha, beta : sample and width ratio of the fits.
large_penalty : penalty of the models drawn close to the upper bound: large, but small next to n. The others are drawn
    at the penalty of least test error, as the bounds assume.
range : the projection runs from minus to plus this.
Presets have ``rates`` drawn, ``points`` of the functions, and ``line``, the count of learning rates along the axis.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gradstep.gaussian import scalar_function
from gradstep.panels import Line, Mark, Panel
from gradstep.papers.charts import grid_of
from gradstep.papers.cui2024.bounds import best_penalty, best_step, lower_bound, realised_functions, upper_bound
from gradstep.papers.cui2024.drawn import fit
from gradstep.papers.cui2024.errors import SummaryStatistics, learned_function, summary_statistics
from gradstep.papers.cui2024.experiments.learned import conditional_mean
from gradstep.papers.cui2024.experiments.measured import extrapolated, layer_of, samples_of
from gradstep.papers.cui2024.spiked import equivalent_srf
from gradstep.papers.experiment import Array, Experiment
from gradstep.papers.outcome import Check, Judged, Outcome, points_of
from gradstep.papers.places import Place, Sample, Settings

#: Relative slack of a bound: twice what the equations are solved to.
_SLACK = 1e-9


@extrapolated
def measure(parameters: Settings, d: int, seed: int) -> dict[str, Array]:
    """Fit a drawn model, and return its error and its learned function."""
    layer = layer_of({**parameters, "c": 1.0, "gamma": 1.0}, d, seed)
    fitted = fit(layer, **samples_of(parameters, d, seed))
    points = np.asarray(parameters["points"], dtype=np.float64)
    return {
        "test_error": np.asarray(fitted.test_error),
        "function": conditional_mean(layer, fitted.readout, parameters["activation"], layer.direction, points),
    }


class Bounds(Experiment):
    """The bounds and their functions under the drawn models."""

    @property
    def _pair(self) -> tuple[str, str]:
        return self.settings["activation"], self.settings["teacher"]

    def _strength(self, eta: Any) -> Array:
        return equivalent_srf(*self._pair, eta_tilde=eta, alpha0=np.inf).strength

    def _best(self, strength: float) -> tuple[float, float]:
        """Return the best penalty at a spike strength, and its test error."""
        return best_penalty(*self._pair, r=float(strength), alpha=self.settings["alpha"], beta=self.settings["beta"])

    def _statistics(self, eta: float, **ratios: float) -> SummaryStatistics:
        chosen = {"alpha": self.settings["alpha"], "beta": self.settings["beta"]} | ratios
        return summary_statistics(*self._pair, eta_tilde=eta, alpha0=np.inf, **chosen)

    def places(self) -> Iterator[Place]:
        """Yield models at a large and at the best penalty, for every learning rate."""
        shared = {name: self.settings[name] for name in ("activation", "teacher", "alpha", "beta")}
        shared |= {"d": int(self.preset["d"]), "points": [float(t) for t in self.preset["points"]]}
        for eta in map(float, self.preset["rates"]):
            strength = float(self._strength(eta))
            # Rounded, so that the last bits of a search do not make new measurements of finished ones.
            best = float(f"{self._best(strength)[0]:.3g}")
            for kind, lam in (("large", float(self.settings["large_penalty"])), ("best", best)):
                yield Place(measure, {**shared, "r": strength, "lam": lam}, kind, eta)

    def outcome(self, samples: Sequence[Sample]) -> Outcome:
        """Draw functions and errors, and judge that the bounds bracket these and are attained."""
        labels = {"large": (f"penalty {self.settings['large_penalty']:g}", "few"), "best": ("best penalty", "large")}
        errors: dict[str, list[Judged]] = {kind: [] for kind in labels}
        functions: dict[str, list[Judged]] = {}
        for sample in samples:
            kind, rate = sample.place.curve, sample.x
            found = self._statistics(rate, lam=sample.place.parameters["lam"])
            errors[kind].append(sample.compare(float(found.test_error), "test_error", curve=labels[kind][0]))
            if rate == float(self.settings["shown"]):
                at = sample.spread("points")
                learned = learned_function(self.settings["activation"], found, [t.x for t in at])
                words = {"curve": labels[kind][0], "quantity": "mean output"}
                functions[kind] = [t.compare(v, "function", **words) for t, v in zip(at, learned, strict=True)]
        panel, checks = self._errors(errors["best"])
        panels = [
            replace(axes, points=[points_of(own, *labels[kind]) for kind, own in drawn.items()])
            for axes, drawn in ((self._functions(), functions), (panel, errors))
        ]
        every = [c for group in (errors, functions) for own in group.values() for c in own]
        return Outcome(panels, every, (*checks, *self._limits()))

    def _functions(self) -> Panel:
        shown, reach = float(self.settings["shown"]), float(self.settings["range"])
        grid, strength = np.linspace(-reach, reach, 121), float(self._strength(shown))
        realised = realised_functions(*self._pair, r=strength, kappa=grid)
        statistics = self._statistics(shown, lam=self._best(strength)[0])
        lines = [
            Line.of(grid, scalar_function(self.settings["teacher"])(grid), "target", "teacher"),
            Line.of(grid, realised.upper, "upper bound (26)", "few"),
            Line.of(grid, learned_function(self._pair[0], statistics, grid), "best penalty", "large"),
            Line.of(grid, realised.lower, "lower bound (27)", "infinite"),
        ]
        return Panel(f"functions at learning rate {shown:g}", "projection on the spike", "mean output", lines=lines)

    def _errors(self, drawn: Sequence[Judged]) -> tuple[Panel, tuple[Check, ...]]:
        """Draw the bounds over the learning rate, and judge that they bracket the error at the best penalty."""
        axis, pair = self.settings["axis"], self._pair
        highest, lowest = best_step(*pair, bound="upper"), best_step(*pair, bound="lower")
        # The best rates are the places of the sharpest turns.
        turns = [(highest.step_size, "few"), (lowest.step_size, "infinite")]
        turns = [(rate, regime) for rate, regime in turns if rate <= axis["to"]]
        rates = np.unique([*grid_of(axis, self.preset), *(rate for rate, _ in turns)])
        strengths = self._strength(rates)
        upper, lower = upper_bound(*pair, r=strengths), lower_bound(*pair, r=strengths)
        best = np.array([self._best(r)[1] for r in strengths])
        curves = (
            ("upper bound (26)", "few", upper),
            ("best penalty", "large", best),
            ("lower bound (27)", "infinite", lower),
        )
        least = min(float(best.min()), self._best(highest.strength)[1])
        outside = [
            max(c.mean - float(above), float(under) - c.mean) / c.standard_error
            for c in drawn
            for above, under in [(f(*pair, r=float(self._strength(c.place))) for f in (upper_bound, lower_bound))]
        ]
        checks = (
            Check.at_most(
                "the error at the best penalty is at most {} times (26)", float((best / upper).max()), 1 + _SLACK
            ),
            Check.at_least(
                "the error at the best penalty is at least {} times (27)", float((best / lower).min()), 1 - _SLACK
            ),
            Check.at_most("the least error is {} times the upper bound (28)", least / highest.error, 1 + _SLACK),
            Check.at_least("the least error is {} times the lower bound (28)", least / lowest.error, 1 - _SLACK),
            Check.at_most(
                "drawn models at the best penalty lie at most {} standard errors out of the bracket", max(outside), 3
            ),
        )
        panel = Panel(
            "bounds on the test error",
            "learning rate (eta_tilde)",
            "test error",
            y_scale="log",
            lines=[Line.of(rates, values, name, regime) for name, regime, values in curves],
            marks=[Mark(rate, "best", regime) for rate, regime in turns],
        )
        return panel, checks

    def _limits(self) -> tuple[Check, ...]:
        """Judge that the bounds are attained: in their limits, and by functions of the same kind."""
        shown, perfect = float(self.settings["shown"]), best_step("erf", "erf")
        rate = abs(perfect.step_size / (3 * np.sqrt(3) * np.pi / 4) - 1)
        strength = float(self._strength(shown))
        lower, upper = (float(bound(*self._pair, r=strength)) for bound in (lower_bound, upper_bound))
        stiff = abs(float(self._statistics(shown, lam=1e8).test_error) / upper - 1)
        rich = float(self._statistics(shown, alpha=1e7, beta=1e4, lam=1e-9).test_error) / lower - 1
        return (
            Check.at_most("for matching erf functions (28) is {}", perfect.error, 1e-10),
            Check.at_most("their best learning rate differs from 3 sqrt(3) pi / 4 by {} of it", rate, 1e-6),
            Check.at_most("at a penalty of 1e8 the error differs from (26) by {} of it", stiff, 1e-6),
            Check.at_least("a wide network with many samples lies {} above (27), relative to it", rich, 0.0),
            Check.at_most("which is no more than {}", rich, 0.01),
        )
