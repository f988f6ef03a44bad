r"""Feature kernel of any activation, by conditioning on the direction of the spike.

After a large step all neurons share a direction ``v``, and their pre-activations are far from independent. Given
``kappa = <v, x>``, however, ``u_i = m_i kappa + s_i z_i`` with ``m_i = <w_i, v>``, ``s_i = |w_i - m_i v|``, and the
``z_i`` are standard Gaussians whose correlations ``rho_ij`` are of order ``1 / sqrt(d)``. Mehler's formula then gives

.. math::

    E\,\sigma(u_i)\sigma(u_j) = \sum_k \rho_{ij}^k \; E_\kappa\bigl[ A_k(i, \kappa) A_k(j, \kappa) \bigr],
    \qquad A_k(i, \kappa) = E_z\, \sigma(m_i \kappa + s_i z)\, h_k(z),

a short sum of matrix products, each multiplied elementwise by a power of the correlation matrix. The contribution of
the orders after ``K`` is at most ``|rho_ij|^(K+1) (r_i r_j)^(1/2)``, where ``r_i`` is the part of ``E sigma(u_i)^2``
that is missing after K orders by Parseval's identity. Orders are added until this bound is small enough. The diagonal
(``rho = 1``) is set to ``E sigma(u_i)^2`` itself.

The expectation over ``kappa`` is a trapezoidal sum, which converges faster than any power here: after smoothing by
``s_i`` the integrand has a Gaussian Fourier transform of variance ``1 + 2 max (m_i / s_i)^2`` at most.

Docs, "Gaussian calculus", equation (G2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from gradstep.errors import NotConverged
from gradstep.gaussian import ScalarFunction, folded, hermite_smoothed, trapezoidal_rule
from gradstep.host import set_diagonal
from gradstep.resolution import NOTHING
from gradstep.simulation.backend import Array, to_host
from gradstep.simulation.tiles import TILE_ROWS, map_symmetric
from gradstep.threads import threads_for_factorisation

MAX_ORDER = 256
MAX_NODES = 4000
_REACH = 9.0  # the Gaussian weight beyond is 2e-18
_ALIASING = 1e-14
_TABLE_POINTS = 20_000  # (neuron, node) pairs smoothed at a time: bounds the memory of the quadrature
_FEW_NEURONS = 3  # over the nodes, up to which a product with all of them is faster than to find fewer columns


@dataclass(frozen=True)
class FeatureKernel:
    """Matrix of second moments of the features under the input law."""

    matrix: Array  #: ``E sigma(<w_i, x>) sigma(<w_j, x>)``, ``x ~ N(0, I)``. Shape (N, N).
    #: Bound on the spectral norm of the error made by leaving out higher orders; rounding is not included.
    error_bound: float


def conditional_kernel(
    activation: ScalarFunction,
    weights: Array,
    direction: Array,
    tolerance: float,
    second_moments: NDArray[np.float64],
) -> FeatureKernel:
    """Compute the feature kernel for any activation.

    The first layer, shape (N, d), is in double precision. The second moments ``E sigma(u_i)^2``, shape (N,), are the
    diagonal of the kernel. The direction, shape (d,), is the unit vector to condition on. Any gives the right answer;
    the one along which the neurons are most correlated gives it with the fewest orders.
    The orders that are left out have a spectral norm of at most `tolerance`, absolute, and the compression of the
    others adds a tenth of it to the bound on the error. Raises `NotConverged` if `MAX_ORDER` orders do not reach the
    tolerance: neurons that stay strongly correlated (small ``d``) with an activation that is not smooth.
    """
    xp = array_namespace(weights)
    along = weights @ direction
    across = weights - along[:, None] * direction[None, :]
    spread = xp.sqrt(xp.sum(across * across, axis=1))
    across /= xp.where(spread > 0, spread, 1 + 0 * spread)[:, None]
    correlation = across @ across.T
    set_diagonal(correlation, 0.0)
    mean, scale = to_host(along), to_host(spread)
    rule = _rule(mean, scale)
    nodes, node_weights = rule if activation.parity is None else folded(rule)  # A_k(i, -kappa) is then +-A_k(i, kappa)
    powers = _PowerSums(correlation)
    order = powers.order_for(float(second_moments.max()), tolerance, limit=24)
    while True:
        table = _hermite_table(activation, mean, scale, nodes, order) * np.sqrt(node_weights)
        captured = np.cumsum(np.sum(table**2, axis=2), axis=0)
        unexplained = np.max(np.maximum(second_moments - captured, 0.0), axis=1)
        bounds = np.array([unexplained[k] * powers.norm(k + 1) for k in range(order + 1)])
        if bounds.min() <= tolerance:
            break
        if order == MAX_ORDER:
            raise NotConverged(
                "Population kernel",
                float(bounds.min()),
                tolerance,
                "The neurons stay strongly correlated; use a larger d, a smoother activation or one with a closed "
                "form, or a looser kernel_tolerance.",
            )
        order = min(2 * order, MAX_ORDER)
    last = int(np.argmax(bounds <= tolerance))
    factors = [
        xp.asarray(f, dtype=xp.float64, device=getattr(weights, "device", None))
        for f in (_compressed(table[k], 0.1 * tolerance / (last + 1)) for k in range(last + 1))
    ]

    def horner(tile: Array, rows: slice, columns: slice) -> Array:
        total = factors[last][rows, :] @ factors[last][columns, :].T
        for factor in reversed(factors[:last]):
            total *= tile
            total += factor[rows, :] @ factor[columns, :].T
        return total

    map_symmetric(correlation, horner)
    set_diagonal(correlation, second_moments)
    return FeatureKernel(correlation, float(bounds[last]) + 0.1 * tolerance)


def _rule(mean: NDArray[np.float64], scale: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return nodes and weights of the trapezoidal rule for E_kappa, fine enough for the sharpest neuron."""
    with np.errstate(divide="ignore", invalid="ignore"):
        sharpness = np.where(mean == 0, 0.0, np.abs(mean) / scale).max()
    step = 2 * math.pi / math.sqrt(-2 * math.log(_ALIASING) * (1 + 2 * sharpness**2))
    if not MAX_NODES * step >= 2 * _REACH:
        raise NotConverged(
            "Population kernel",
            2 * _REACH / step,
            MAX_NODES,
            "Some neuron has lost all its components but the common direction; use more samples of the step, a "
            "smaller step or an activation with a closed form.",
        )
    return trapezoidal_rule(step, _REACH, thinning=math.inf)


def _hermite_table(
    activation: ScalarFunction,
    mean: NDArray[np.float64],
    scale: NDArray[np.float64],
    nodes: NDArray[np.float64],
    order: int,
) -> NDArray[np.float64]:
    """Return ``A_k(i, kappa_m)``, shape (order + 1, N, M)."""
    rows = max(1, _TABLE_POINTS // nodes.size)
    pieces = [
        hermite_smoothed(activation, mean[i : i + rows, None] * nodes, scale[i : i + rows, None], order)
        for i in range(0, mean.size, rows)
    ]
    return np.concatenate(pieces, axis=1)


def _compressed(factor: NDArray[np.float64], tolerance: float) -> NDArray[np.float64]:
    """Return a factor with the same ``A A^T`` up to `tolerance` in spectral norm; with fewer columns if that pays."""
    if factor.shape[0] <= _FEW_NEURONS * factor.shape[1]:
        return factor
    with threads_for_factorisation(factor.shape[1]):
        eigenvalues, vectors = np.linalg.eigh(factor.T @ factor)
    kept: NDArray[np.float64] = factor @ vectors[:, np.searchsorted(eigenvalues, tolerance) :]
    return kept


class _PowerSums:
    """Frobenius norms of the elementwise powers of a matrix.

    The logarithm of ``sum |rho|^(2p)`` is a convex function of p (Lyapunov), so its values at powers of two,
    each of which takes one squaring, bound it at all powers between them.
    """

    def __init__(self, correlation: Array) -> None:
        xp = array_namespace(correlation)
        self._exponents = [2**j for j in range(MAX_ORDER.bit_length() + 1)]
        sums = np.zeros(len(self._exponents))
        size = correlation.shape[0]
        for start in range(0, size, TILE_ROWS):
            power = correlation[start : min(start + TILE_ROWS, size), :] ** 2
            for j in range(sums.size):
                sums[j] += float(xp.sum(power))
                power *= power
        self._logs = np.log(np.maximum(sums, NOTHING))

    def norm(self, power: int) -> float:
        """Bound the Frobenius norm, hence the spectral norm, of the matrix of ``|rho_ij|^power``."""
        return math.exp(0.5 * float(np.interp(power, self._exponents, self._logs)))

    def order_for(self, size: float, tolerance: float, limit: int) -> int:
        """Return the first order after which ``size * norm`` is below the tolerance, at most `limit`."""
        for order in range(1, limit):
            if size * self.norm(order + 1) <= tolerance:
                return order
        return limit
