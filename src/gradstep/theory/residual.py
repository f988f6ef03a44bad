"""Joint law of a sample's projection on the teacher and of its residual in the gradient step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from gradstep.gaussian import ScalarFunction, gaussian_rule, hermite_rule
from gradstep.gaussian.panels import resolved_panels

__all__ = ["Residual", "residual_law"]

Array = NDArray[np.float64]

#: Panels of the rule that serves for most teachers, and the relative error of a moment up to which it does.
_PANEL, _CLOSE = 2.0, 1e-5
#: Standard deviations of a projection that are covered; nodes that weigh less than the smallest are left out, unless
#: the teacher is so large there.
_RANGE, _LEAST_WEIGHT, _NOTHING = 12.0, 1e-13, 1e-300


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
def _resolved(teacher: ScalarFunction) -> tuple[Array, Array, Array]:
    """Return nodes, weights and values of the teacher: few, if more find the same mean square and fourth moment."""
    u, weight = gaussian_rule(teacher.kinks, resolution=_PANEL, order=8, half_range=_RANGE)
    edges = resolved_panels(teacher, teacher.kinks, _RANGE).edges
    fine, fine_weight = gaussian_rule(edges, resolution=_PANEL, half_range=_RANGE)
    values, fine_values = np.asarray(teacher(u)), np.asarray(teacher(fine))
    if all(
        math.isclose(float(weight @ values**power), float(fine_weight @ fine_values**power), rel_tol=_CLOSE)
        for power in (2, 4)
    ):
        return u, weight, values
    return fine, fine_weight, fine_values


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

    Raises
    ------
    NotConverged
        If the teacher varies too fast to be resolved.
    """
    u, weight, labels = _resolved(teacher)
    residual = labels - offset
    if noise_variance > 0:
        z, z_weight = hermite_rule(20)
        residual = (residual[:, None] + math.sqrt(noise_variance) * z).ravel()
        u, weight = np.repeat(u, len(z)), (weight[:, None] * z_weight).ravel()
    fourth = weight * residual**4
    kept = weight + fourth / max(fourth.sum(), _NOTHING) > _LEAST_WEIGHT
    return Residual(u[kept], residual[kept], weight[kept] / weight[kept].sum())
