"""Errors against a parameter: lines of Result 3.3 over drawn models, and of the network's theory over networks.

Settings, beside those of `gradstep.papers.experiment.Curves`
-------------------------------------------------------------
base : activation, teacher, alpha, beta, lam, sigma_eps (0 where absent), and either r, c, gamma or eta_tilde, alpha0.
    ``eta_per_d`` in place of eta_tilde is a learning rate that does not grow with the width: eta_tilde = eta_per_d /
    beta.
curves : ``models``, what is drawn: ``srf`` (the spiked random features model), ``equivalent`` (the equivalent
    features), ``network`` (the real one). Where curves have several, each model has its panels.
best_linear : true draws the error of the best linear estimator.
falling : true judges that each curve lies below the one before it and has a weaker spike, in theory and as measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from gradstep.panels import Guide
from gradstep.papers.claims import total_fall
from gradstep.papers.cui2024 import best_linear
from gradstep.papers.cui2024.drawn import equivalent_fit, fit
from gradstep.papers.cui2024.errors import SummaryStatistics, solve
from gradstep.papers.cui2024.experiments.measured import (
    extrapolated,
    layer_of,
    problem_of,
    samples_of,
    spike_of,
    with_models,
)
from gradstep.papers.cui2024.spiked import equivalent_features
from gradstep.papers.experiment import Array, Curves
from gradstep.papers.outcome import Check, Judged, Outcome
from gradstep.papers.places import Settings
from gradstep.theory import predict_many

_MODELS = {"srf": "spiked features", "equivalent": "equivalent", "network": "network"}


def _statistics(parameters: Settings) -> SummaryStatistics:
    """Solve Result 3.3; the parameter on the axis may be an array."""
    functions, spike = (parameters["activation"], parameters["teacher"]), spike_of(parameters)
    features = equivalent_features(*functions, r=spike.strength, c=spike.bulk_variance, gamma=spike.alignment)
    ratios = {name: parameters[name] for name in ("alpha", "beta", "lam")}
    return solve(features, **ratios, sigma_eps=parameters.get("sigma_eps", 0.0))


@extrapolated
def measure(parameters: Settings, d: int, seed: int) -> dict[str, float]:
    """Draw a model, and return its errors and summary statistics."""
    samples = samples_of(parameters, d, seed)
    if parameters["model"] == "equivalent":
        r, c, gamma = (float(value) for value in spike_of(parameters))
        width = round(float(parameters["beta"]) * d)
        return equivalent_fit(width=width, d=d, r=r, c=c, gamma=gamma, **samples).numbers()
    return fit(layer_of(parameters, d, seed), **samples).numbers()


class DrawnCurves(Curves):
    """Errors and summary statistics of three models."""

    measure = staticmethod(measure)
    names: ClassVar = {
        "test_error": "test error",
        "train_error": "training error",
        "readout_mean": "m",
        "bulk_overlap": "theta",
        "teacher_overlap": "psi",
        "bulk_norm": "q1",
        "readout_norm": "q2",
    }

    @property
    def curves(self) -> Sequence[Settings]:
        """Every curve with every model."""
        given = self.settings["curves"]
        apart = len(given[0]["models"]) > 1
        every = [curve for curve in with_models(given, _MODELS) if curve["model"] in curve["models"]]
        return [{**curve, "panel": curve["panel"] if apart else ""} for curve in every]

    def parameters(self, curve: Settings, x: Any = None) -> dict[str, Any]:
        """Return the parameters of a model."""
        return {**super().parameters(curve, x), "model": curve.get("model")}

    def theory(self, curve: Settings, x: Array) -> Mapping[str, ArrayLike]:
        """Return the quantities along the axis: of the network its own limit, of all else Result 3.3."""
        if curve["model"] == "network":
            found = list(predict_many(problem_of(self.parameters(curve, float(at)), np.inf) for at in x))
            return {name: [float(getattr(p, name)) for p in found] for name in self.quantities}
        return {name: getattr(_statistics(self.parameters(curve, x)), name) for name in self.quantities}

    @property
    def guides(self) -> Sequence[Guide]:
        """The best linear estimator, where it is asked for."""
        wanted = self.settings.get("best_linear", False)
        return [Guide("best linear", height=best_linear(self.settings["base"]["teacher"]))] if wanted else []

    def claims(self, found: Outcome) -> Sequence[Check]:
        """Judge that spike and test error fall from curve to curve."""
        return falling(self, found.comparisons) if self.settings.get("falling", False) else ()


def falling(experiment: DrawnCurves, comparisons: Sequence[Judged]) -> list[Check]:
    """Judge that spike and test error fall from each curve of a model to the next, in theory and as drawn."""
    given = experiment.settings["curves"]
    solutions = [_statistics(experiment.parameters(curve, experiment.grid)) for curve in given]
    spikes = [float(np.max(a.spike.strength / b.spike.strength)) for b, a in pairwise(solutions)]
    errors = [float(np.max(a.test_error / b.test_error)) for b, a in pairwise(solutions)]
    checks = [
        Check.at_most("the spike strength is at most {} times that of the curve before", max(spikes), 1.0),
        Check.at_most("the test error in theory is at most {} times that of the curve before", max(errors), 1.0),
    ]
    for text in dict.fromkeys(c.curve.rpartition(", ")[2] for c in comparisons):
        drawn = [
            [c for c in comparisons if (c.curve, c.quantity) == (f"{curve['label']}, {text}", "test error")]
            for curve in given
        ]
        least = min(total_fall(before, after) for before, after in pairwise(drawn))
        label = f"{text}: each curve lies below the one before, by {{}} standard errors or more"
        checks.append(Check.at_least(label, least, 2.0))
    return checks
