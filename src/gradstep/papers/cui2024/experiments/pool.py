"""The functions that a step makes available: mu_0 and kappa mu_1 for several learning rates, and in real networks.

The parameters are activation, teacher, alpha0 and, of the curves, eta_tilde. Nothing is measured where the neurons have
saturated (``up_to``): kappa mu_1 is exponentially small there, and its size depends on the random length of each
network's spike.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from gradstep.gaussian import scalar_function, smoothed
from gradstep.papers.cui2024.drawn import stepped_layer
from gradstep.papers.cui2024.experiments.measured import extrapolated, problem_of, spike_of
from gradstep.papers.cui2024.spiked import conditional_features
from gradstep.papers.experiment import Array, Curves
from gradstep.papers.places import Settings


@extrapolated
def measure(parameters: Settings, d: int, seed: int) -> dict[str, Array]:
    """Average the conditional features over the neurons of a network."""
    layer = stepped_layer(problem_of(parameters, d), seed)
    along = layer.weights @ layer.direction
    rest = np.sqrt((layer.weights**2).sum(axis=1) - along**2)[:, None]
    kappa = np.asarray(parameters["kappas"], dtype=np.float64)
    features = smoothed(scalar_function(parameters["activation"]), along[:, None] * kappa, rest)
    return {"mean": features.mean.mean(axis=0), "tilt": kappa * (features.slope / rest).mean(axis=0)}


class Pool(Curves):
    """The functions of Result 3.2 under the averages over neurons."""

    measure = staticmethod(measure)
    names: ClassVar = {"mean": "mu_0", "tilt": "kappa mu_1"}
    y_scale = "linear"

    def theory(self, curve: Settings, x: Array) -> Mapping[str, ArrayLike]:
        """Return both functions of the projection."""
        given = self.parameters(curve)
        spike = spike_of(given)
        mean, slope, _ = conditional_features(given["activation"], x, r=spike.strength, c=spike.bulk_variance)
        return {"mean": mean, "tilt": x * slope}
