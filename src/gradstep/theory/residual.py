"""Joint law of a sample's projection on the teacher and of its residual in the gradient step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from gradstep.gaussian import ScalarFunction, gaussian_rule

__all__ = ["Residual", "residual_law"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Residual:
    """Nodes of the joint law of a sample's projection on the teacher and its residual.

    Attributes
    ----------
    projection, residual, weight : ndarray, shape (nodes,)
        ``u``, ``r`` and probabilities.
    """

    projection: Array
    residual: Array
    weight: Array

    def mean(self, values: Array) -> float:
        """Return the expectation of values at the nodes."""
        return float(self.weight @ values)

    @cached_property
    def square(self) -> float:
        """``E r^2``."""
        return self.mean(self.residual**2)


@lru_cache(maxsize=128)
def residual_law(teacher: ScalarFunction, offset: float, noise_variance: float) -> Residual:
    """Return the law of ``(u, f*(u) - offset + noise)``.

    Parameters
    ----------
    teacher : ScalarFunction
    offset, noise_variance : float

    Returns
    -------
    Residual
    """
    u, weight = gaussian_rule(teacher.kinks, resolution=2.0, order=8, half_range=8.0)
    residual = teacher(u) - offset
    if noise_variance > 0:
        z, z_weight = np.polynomial.hermite_e.hermegauss(20)
        z_weight = z_weight / z_weight.sum()
        residual = (residual[:, None] + math.sqrt(noise_variance) * z).ravel()
        u, weight = np.repeat(u, len(z)), (weight[:, None] * z_weight).ravel()
    kept = weight > 1e-13
    return Residual(u[kept], residual[kept], weight[kept] / weight[kept].sum())
