"""Joint law of a sample's projection on the teacher and of its residual in the gradient step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from gradstep.gaussian import ScalarFunction, gaussian_rule, hermite_rule
from gradstep.gaussian.panels import resolved_panels
from gradstep.resolution import NOTHING

__all__ = ["LargestResidual", "Residual", "largest_residual", "residual_law"]

Array = NDArray[np.float64]

#: Panels of the rule that serves for most teachers, and the relative error of a moment up to which it does.
_PANEL, _CLOSE = 2.0, 1e-5
#: Standard deviations of a projection that are covered; nodes that weigh less than the smallest are left out, unless
#: the teacher is so large there.
_RANGE, _LEAST_WEIGHT = 12.0, 1e-13
#: Points of the grid on which the largest of many residuals is looked for.
_GRID = 6001


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
    kept = weight + fourth / max(fourth.sum(), NOTHING) > _LEAST_WEIGHT
    return Residual(u[kept], residual[kept], weight[kept] / weight[kept].sum())


@dataclass(frozen=True)
class LargestResidual:
    """The largest residual of a step's samples, at its median over draws, and what its sample does.

    Attributes
    ----------
    residual : float
    squared_weight, weight : float
        Eigenvalues along the sample of the matrices of all samples, weighted by their squared residuals over
        the mean square, and by their residuals.
    """

    residual: float
    squared_weight: float
    weight: float


def largest_residual(
    teacher: ScalarFunction, offset: float, noise_variance: float, d: float, count: float
) -> LargestResidual:
    r"""Return the largest of a number of residuals, and the eigenvalues that belong to its sample.

    The matrix :math:`\frac1n\sum_\mu\omega_\mu x_\mu x_\mu^\top` has an eigenvalue
    :math:`\omega(\phi_0+E\,\omega'/(\omega-\omega'))`, :math:`\phi_0=d/n`, along a sample whose weight is far above
    those of all others, the mean being over these. The largest of ``n`` is at its median where the probability of a
    larger one is :math:`\log2/n`, the second largest at 1.678 over ``n``.

    Docs, "Spectra", equation (Z5).

    Parameters
    ----------
    teacher : ScalarFunction
    offset, noise_variance : float
    d, count : float
        Dimension, and number of samples.

    Returns
    -------
    LargestResidual
    """
    u = np.linspace(-_RANGE, _RANGE, _GRID)
    weight = np.exp(-(u**2) / 2)
    residual = np.asarray(teacher(u)) - offset
    if noise_variance > 0:
        z, z_weight = np.polynomial.hermite_e.hermegauss(40)
        residual = (residual[:, None] + math.sqrt(noise_variance) * z).ravel()
        weight = (weight[:, None] * z_weight).ravel()
    weight /= weight.sum()
    falling = np.argsort(-np.abs(residual))
    residual, weight = residual[falling], weight[falling]
    first, second = np.searchsorted(np.cumsum(weight), np.array([math.log(2), 1.678]) / count)
    square = float(weight @ residual**2)
    largest, rest, weight = float(residual[first]), residual[second + 1 :], weight[second + 1 :]
    by_square = d / count + float(weight @ (rest**2 / (largest**2 - rest**2)))
    by_residual = d / count + float(weight @ (rest / (largest - rest)))
    return LargestResidual(largest, largest**2 / square * by_square, largest * by_residual)
