"""Feature kernels ``E sigma(u_i) sigma(u_j)`` in closed form, for Gaussian pre-activations of any covariance.

Each takes a tile of covariances ``C_ij = E u_i u_j`` with the variances ``q_i`` of its rows and ``q_j`` of its columns.
Sources: arcsine kernels, Williams 1997; arc-cosine kernel, Cho and Saul 2009; sine and cosine from the characteristic
function of the Gaussian.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from array_api_compat import array_namespace

from gradstep.gaussian import ScalarFunction
from gradstep.simulation.backend import Array

ClosedKernel = Callable[[Array, Array, Array], Array]
"""``kernel(C, q_rows, q_columns)`` with shapes (r, c), (r, 1), (1, c)."""


def linear_kernel(covariance: Array, row_variance: Array, column_variance: Array) -> Array:
    """``C``, in an array of its own."""
    return 1 * covariance


def relu_kernel(covariance: Array, row_variance: Array, column_variance: Array) -> Array:
    """``sqrt(q q') (sin t + (pi - t) cos t) / (2 pi)`` with ``cos t`` the correlation."""
    xp = array_namespace(covariance)
    size = xp.sqrt(row_variance * column_variance)
    cosine = _correlation(covariance, size)
    return size * (xp.sqrt((1 - cosine) * (1 + cosine)) + (math.pi - xp.acos(cosine)) * cosine) / (2 * math.pi)


def leaky_relu_kernel(slope: float) -> ClosedKernel:
    """Return the kernel of ``slope * u + (1 - slope) relu(u)``, with ``E u relu(u') = C / 2``."""

    def kernel(covariance: Array, row_variance: Array, column_variance: Array) -> Array:
        return slope * covariance + (1 - slope) ** 2 * relu_kernel(covariance, row_variance, column_variance)

    return kernel


def erf_kernel(covariance: Array, row_variance: Array, column_variance: Array) -> Array:
    """``(2 / pi) asin(2 C / sqrt((1 + 2 q)(1 + 2 q')))`` for ``erf(u)``."""
    return erf_scaled_kernel(2 * covariance, 2 * row_variance, 2 * column_variance)


def erf_scaled_kernel(covariance: Array, row_variance: Array, column_variance: Array) -> Array:
    """``(2 / pi) asin(C / sqrt((1 + q)(1 + q')))`` for ``erf(u / sqrt 2)``."""
    xp = array_namespace(covariance)
    return xp.asin(covariance / xp.sqrt((1 + row_variance) * (1 + column_variance))) * (2 / math.pi)


def sign_kernel(covariance: Array, row_variance: Array, column_variance: Array) -> Array:
    """``(2 / pi) asin(correlation)``."""
    xp = array_namespace(covariance)
    return xp.asin(_correlation(covariance, xp.sqrt(row_variance * column_variance))) * (2 / math.pi)


def sin_kernel(covariance: Array, row_variance: Array, column_variance: Array) -> Array:
    """``(exp(-E(u - u')^2 / 2) - exp(-E(u + u')^2 / 2)) / 2``."""
    xp = array_namespace(covariance)
    middle = -(row_variance + column_variance) / 2
    return (xp.exp(middle + covariance) - xp.exp(middle - covariance)) / 2


def cos_kernel(covariance: Array, row_variance: Array, column_variance: Array) -> Array:
    """``(exp(-E(u - u')^2 / 2) + exp(-E(u + u')^2 / 2)) / 2``."""
    xp = array_namespace(covariance)
    middle = -(row_variance + column_variance) / 2
    return (xp.exp(middle + covariance) + xp.exp(middle - covariance)) / 2


def closed_kernel(activation: ScalarFunction) -> ClosedKernel | None:
    """Return the closed form for an activation, or None if there is no closed form here."""
    if activation.name == "leaky_relu":
        return leaky_relu_kernel(float(-activation(-1.0)))
    return _CLOSED.get(activation.name)


_CLOSED: dict[str, ClosedKernel] = {
    "linear": linear_kernel,
    "relu": relu_kernel,
    "erf": erf_kernel,
    "erf_scaled": erf_scaled_kernel,
    "sign": sign_kernel,
    "sin": sin_kernel,
    "cos": cos_kernel,
}


def _correlation(covariance: Array, size: Array) -> Array:
    """Return the correlation, clipped to [-1, 1], and 0 for a neuron whose pre-activation is always zero."""
    xp = array_namespace(covariance)
    return xp.clip(covariance / xp.where(size > 0, size, 1 + 0 * size), -1.0, 1.0)
