"""Readouts of several values at initialisation: learning curves of drawn models and of the real network.

Settings, beside those of `gradstep.papers.experiment.Curves`
-------------------------------------------------------------
base : activation, teacher, eta_tilde, alpha0, beta, lam.
curves : ``values`` and ``weights`` of the readout, from few values to many. The values are scaled to a mean square of
    one, so that every vocabulary makes a step of the same strength.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np

from gradstep.panels import Guide, Style, Table
from gradstep.papers.charts import Theory
from gradstep.papers.claims import total_fall
from gradstep.papers.cui2024.bounds import best_linear
from gradstep.papers.cui2024.drawn import fit, spiked_layer, stepped_layer
from gradstep.papers.cui2024.experiments.measured import problem_of, samples_of, spike_of, with_models
from gradstep.papers.cui2024.groups import (
    GroupBounds,
    NeuronGroups,
    density_groups,
    group_bounds,
    group_statistics,
    stepped_groups,
)
from gradstep.papers.experiment import Array, Curves
from gradstep.papers.outcome import Check, Outcome
from gradstep.papers.places import Sample, Settings
from gradstep.problem import Problem
from gradstep.simulation.instance import initial_readout
from gradstep.theory import predict_many

_MODELS = {
    "orthogonal": "orthonormal rows",
    "gaussian": "independent rows",
    "network": "real network",
}


def _problem(parameters: Settings, d: float) -> Problem:
    return problem_of(parameters, d, readout=_law(parameters))


def _law(parameters: Settings) -> dict[float, float]:
    """Return the law of the readout's values."""
    return dict(zip(parameters["values"], parameters["weights"], strict=True))


def measure(parameters: Settings, seed: int) -> dict[str, float]:
    """Fit a drawn model and return its test error."""
    d = int(parameters["d"])
    problem = _problem(parameters, d)
    if parameters["model"] == "network":
        layer = stepped_layer(problem, seed)
    else:
        width = round(float(parameters["beta"]) * d)
        r, c, gamma = (float(value) for value in spike_of(parameters))
        # Every neuron is a group of its own.
        neurons = density_groups(initial_readout(seed, width, problem.readout), np.ones(width), r=r, c=c, gamma=gamma)
        kinds = {"r": neurons.strengths, "c": neurons.variances, "gamma": neurons.alignments}
        layer = spiked_layer(seed, width, d, **kinds, orthogonal=parameters["model"] == "orthogonal")
    return {"test_error": fit(layer, **samples_of(parameters, d, seed)).test_error}


def groups_of(parameters: Settings) -> NeuronGroups:
    """Return the groups of neurons after the step, one for each readout value."""
    functions, law = (parameters["activation"], parameters["teacher"]), _law(parameters)
    eta_tilde, alpha0 = (float(parameters[name]) for name in ("eta_tilde", "alpha0"))
    return stepped_groups(*functions, law, eta_tilde=eta_tilde, alpha0=alpha0)


class Vocabulary(Curves):
    """The theory of each model under the models drawn."""

    measure = staticmethod(measure)

    @cached_property
    def curves(self) -> Sequence[Settings]:
        """Every readout in every model."""
        return with_models(self.settings["curves"], _MODELS)

    def parameters(self, curve: Settings, x: Any = None) -> dict[str, Any]:
        """Return the parameters of a model, with the values scaled."""
        values, weights = (np.asarray(curve[name], dtype=np.float64) for name in ("values", "weights"))
        size = np.sqrt(weights @ values**2 / weights.sum())
        own = {"model": curve.get("model"), "values": (values / size).tolist(), "weights": weights.tolist()}
        return {**super().parameters(curve, x), **own}

    def theory(self, curve: Settings, x: Array, d: float = np.nan) -> dict[str, list[float]]:
        """Return the errors that `group_statistics` predicts; for the network, those of the uniform equivalent."""
        given, model = self.parameters(curve), curve["model"]
        d = given["d"] if np.isnan(d) else d
        found: Any
        if model == "network":
            found = predict_many(_problem({**given, "alpha": float(alpha)}, d) for alpha in x)
        else:
            bulk = "orthogonal" if model == "orthogonal" else "gaussian"
            options = {"lam": given["lam"], "beta": given["beta"], "d": d, "bulk": bulk}
            functions, groups = (given["activation"], given["teacher"]), groups_of(given)
            found = [group_statistics(*functions, groups, alpha=float(alpha), **options) for alpha in x]
        return {"test_error": [own.test_error for own in found]}

    def beside(self, curve: Settings) -> Mapping[Style, Theory]:
        """Return the limit."""
        return {"dashed": partial(self.theory, curve, d=np.inf)}

    @property
    def guides(self) -> Sequence[Guide]:
        """The best linear estimator."""
        return [Guide("best linear", height=best_linear(self.settings["base"]["teacher"]))]

    @cached_property
    def _bounds(self) -> list[tuple[list[float], GroupBounds]]:
        """Return the values of each readout and its bounds."""
        every = [self.parameters(curve) for curve in self.settings["curves"]]
        return [(p["values"], group_bounds(p["activation"], p["teacher"], groups_of(p))) for p in every]

    def claims(self, found: Outcome) -> Sequence[Check]:
        """Judge that more values offer more functions, and that these are learned: in the limit and as drawn."""
        least = min(own.dimension / (2 * len(values)) for values, own in self._bounds)
        checks = [
            Check.at_least("the dimension of the basis is at least {} times twice the number of values", least, 1.0)
        ]
        for name in ("upper", "lower"):
            ratio = max(getattr(b, name) / getattr(a, name) for (_, a), (_, b) in pairwise(self._bounds))
            checks.append(
                Check.at_most(f"the {name} bound is at most {{}} times that of the readout before", ratio, 1.0)
            )
        alphas = np.array(self.preset["points"], dtype=np.float64)
        for model, title in _MODELS.items():
            own = [curve for curve in self.curves if curve["model"] == model]
            limits = [np.array(self.theory(curve, alphas, d=np.inf)["test_error"]) for curve in own]
            ratio = max(float((after / before).max()) for before, after in pairwise(limits))
            checks.append(
                Check.at_most(f"limit, {title}: the error is at most {{}} times that of the readout before", ratio, 1.0)
            )
            ends = ([c for c in found.comparisons if c.curve == own[k]["called"]] for k in (0, -1))
            text = f"{title}: the most values lie {{}} standard errors below the fewest"
            checks.append(Check.at_least(text, total_fall(*ends), 2.0))
        return checks

    def outcome(self, samples: Sequence[Sample]) -> Outcome:
        """Draw and judge, with a table of the bounds."""
        header = ["values of the readout", "dimension of the basis", "upper bound (26)", "lower bound (27)"]
        rows = [
            [", ".join(f"{v:.3g}" for v in values), str(own.dimension), f"{own.upper:.5f}", f"{own.lower:.5f}"]
            for values, own in self._bounds
        ]
        return super().outcome(samples) + Outcome(table=Table(header, rows))
