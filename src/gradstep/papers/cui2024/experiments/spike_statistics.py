"""Spike strength, bulk variance and alignment of real gradient steps against Result 3.1.

The parameters of the curves are activation, teacher, eta_tilde and sigma_eps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from gradstep.papers.cui2024.drawn import stepped_layer
from gradstep.papers.cui2024.experiments.measured import extrapolated, problem_of, spike_of
from gradstep.papers.experiment import Array, Curves
from gradstep.papers.places import Settings
from gradstep.simulation.instance import TEACHER_AXIS


@extrapolated
def measure(parameters: Settings, d: int, seed: int) -> dict[str, float]:
    """Make a step."""
    layer = stepped_layer(problem_of(parameters, d), seed)
    # The direction is only defined up to the sign of the spike.
    sign = float(np.sign(layer.spike[0]))
    along_spike = layer.weights @ layer.direction
    rest = np.mean((layer.weights**2).sum(axis=1) - along_spike**2)
    return {
        "strength": sign * float(layer.spike[0]),
        "bulk_variance": float(rest) * d / (d - 1),
        "alignment": sign * float(layer.direction[TEACHER_AXIS]),
    }


class SpikeStatistics(Curves):
    """Result 3.1 under the measured steps."""

    measure = staticmethod(measure)
    names: ClassVar = {
        "strength": "spike strength r",
        "bulk_variance": "bulk variance c",
        "alignment": "alignment gamma",
    }
    y_scale = "linear"

    def theory(self, curve: Settings, x: Array) -> Mapping[str, ArrayLike]:
        """Return the three of Result 3.1."""
        return spike_of(self.parameters(curve, x))._asdict()
