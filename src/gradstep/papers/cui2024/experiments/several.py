"""Spikes of larger rank and biases of several values: learning curves of drawn models.

Settings, beside those of `gradstep.papers.experiment.Curves`
-------------------------------------------------------------
base : activation, teacher, beta, lam, sigma_eps.
curves : the letters: ``fractions``, ``strengths`` (a row of spikes for each letter), ``variances``, ``alignments`` (one
    a spike), ``biases``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import ClassVar

import numpy as np

from gradstep.papers.charts import Theory
from gradstep.papers.cui2024.drawn import sampled_error, spiked_layer
from gradstep.papers.cui2024.experiments.measured import samples_of
from gradstep.papers.cui2024.letters import Letters, letter_statistics
from gradstep.papers.experiment import Array, Curves
from gradstep.papers.panels import Style
from gradstep.papers.places import Settings
from gradstep.problem import Readout
from gradstep.simulation.instance import initial_readout

__all__ = ["Several", "measure"]

_TEST_SAMPLES_PER_D = 20


def _letters(parameters: Settings) -> Letters:
    values = {name: parameters[name] for name in ("strengths", "variances", "alignments", "biases")}
    return Letters.of(parameters["fractions"], **values)


def measure(parameters: Settings, seed: int) -> dict[str, float]:
    """Draw one model, fit it, and return its errors."""
    d = int(parameters["d"])
    width = round(float(parameters["beta"]) * d)
    letters = _letters(parameters)
    # A vocabulary of the letters' numbers gives each its exact share of the neurons, in random order.
    law = Readout("vocabulary", tuple(float(k + 1) for k in range(letters.fractions.size)), tuple(letters.fractions))
    letter = initial_readout(seed, width, law).astype(np.intp) - 1
    strengths, variances = letters.strengths[letter], letters.variances[letter]
    test_error, train_error = sampled_error(
        spiked_layer(seed, width, d, r=strengths, c=variances, gamma=letters.alignments),
        test_samples=_TEST_SAMPLES_PER_D * d,
        biases=letters.biases[letter],
        **samples_of(parameters, d, seed),
    )
    return {"test_error": test_error, "train_error": train_error}


class Several(Curves):
    """The equations with letters under the drawn models."""

    measure = staticmethod(measure)
    names: ClassVar = {"test_error": "test error", "train_error": "training error"}

    def theory(self, curve: Settings, x: Array, d: float = np.nan) -> dict[str, list[float]]:
        """Return the errors at a size: that of the preset, if none is given."""
        given = self.parameters(curve)
        options = {name: given[name] for name in ("lam", "beta", "sigma_eps")} | {"d": given["d"] if np.isnan(d) else d}
        functions, letters = (given["activation"], given["teacher"]), _letters(given)
        found = [letter_statistics(*functions, letters, alpha=float(alpha), **options) for alpha in x]
        return {name: [getattr(own, name) for own in found] for name in self.names}

    def beside(self, curve: Settings) -> Mapping[Style, Theory]:
        """Return the limit."""
        return {"dashed": partial(self.theory, curve, d=np.inf)}
