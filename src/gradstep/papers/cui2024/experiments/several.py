"""Spikes of larger rank and biases of several values: learning curves of drawn models.

Settings, beside those of `gradstep.papers.experiment.Curves`
-------------------------------------------------------------
base : activation, teacher, beta, lam, sigma_eps.
curves : the groups of neurons: ``fractions``, ``strengths`` (for each group a row with one strength for each spike),
    ``variances``, ``alignments`` (one for each spike), ``biases``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import ClassVar

import numpy as np

from gradstep.panels import Style
from gradstep.papers.charts import Theory
from gradstep.papers.cui2024.drawn import sampled_error, spiked_layer
from gradstep.papers.cui2024.experiments.measured import samples_of
from gradstep.papers.cui2024.groups import NeuronGroups, group_statistics
from gradstep.papers.experiment import Array, Curves
from gradstep.papers.places import Settings
from gradstep.problem import Readout
from gradstep.simulation.instance import initial_readout

_TEST_SAMPLES_PER_D = 20


def _groups(parameters: Settings) -> NeuronGroups:
    values = {name: parameters[name] for name in ("strengths", "variances", "alignments", "biases")}
    return NeuronGroups.of(parameters["fractions"], **values)


def measure(parameters: Settings, seed: int) -> dict[str, float]:
    """Draw one model, fit it, and return its errors."""
    d = int(parameters["d"])
    width = round(float(parameters["beta"]) * d)
    groups = _groups(parameters)
    # A readout whose values are the numbers of the groups gives each group its exact fraction of the neurons, in random
    # order.
    law = Readout("vocabulary", tuple(float(k + 1) for k in range(groups.fractions.size)), tuple(groups.fractions))
    group = initial_readout(seed, width, law).astype(np.intp) - 1
    strengths, variances = groups.strengths[group], groups.variances[group]
    test_error, train_error = sampled_error(
        spiked_layer(seed, width, d, r=strengths, c=variances, gamma=groups.alignments),
        test_samples=_TEST_SAMPLES_PER_D * d,
        biases=groups.biases[group],
        **samples_of(parameters, d, seed),
    )
    return {"test_error": test_error, "train_error": train_error}


class Several(Curves):
    """Errors of drawn models, with the equations of `group_statistics` as their theory."""

    measure = staticmethod(measure)
    names: ClassVar = {"test_error": "test error", "train_error": "training error"}

    def theory(self, curve: Settings, x: Array, d: float = np.nan) -> dict[str, list[float]]:
        """Return the errors at a size: that of the preset, if none is given."""
        given = self.parameters(curve)
        options = {name: given[name] for name in ("lam", "beta", "sigma_eps")} | {"d": given["d"] if np.isnan(d) else d}
        functions, groups = (given["activation"], given["teacher"]), _groups(given)
        found = [group_statistics(*functions, groups, alpha=float(alpha), **options) for alpha in x]
        return {name: [getattr(own, name) for own in found] for name in self.names}

    def beside(self, curve: Settings) -> Mapping[Style, Theory]:
        """Return the limit."""
        return {"dashed": partial(self.theory, curve, d=np.inf)}
