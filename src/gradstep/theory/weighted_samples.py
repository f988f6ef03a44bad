"""Laws of the matrix ``A = X^T diag(omega) X / n_step`` of the step's own samples, weighted by their residuals.

Of ``A`` a ridge fit knows the spectral law and the resolvent between the spike direction ``v`` and the teacher's rest
``zeta`` (``beta* = gamma v + rho zeta``), which share samples and residuals with it. With ``phi0 = d / n_step``,
``u = <beta*, x>``, ``r`` the residual and

    m = 1 / ( -z + E[ omega / (1 + phi0 omega m) ] ),      q = phi0 m / (1 + phi0 omega m)

the resolvent between ``beta*`` and ``e = X_perp^T r / n_step`` is, by Schur's complement,

    R_11 = 1 / ( E[omega u^2 / (1 + phi0 omega m)] - z ),      K = E[r omega u q],
    R_12 = -R_11 K,                                            R_22 = E[r^2 q] + R_11 K^2.

This project.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.polynomial import Polynomial
from numpy.typing import NDArray
from scipy.linalg import hankel

from gradstep.errors import NotConverged
from gradstep.theory.residual import Residual

__all__ = ["WeightedSamples", "rational_rule"]

_TOLERANCE = 1e-12
_MAX_STEPS = 500
#: Directions of the span that are fainter than this are rounding.
_RANK = 1e-11

Array = NDArray[np.float64]
Complex = NDArray[np.complexfloating[Any, Any]]


@dataclass(frozen=True)
class WeightedSamples:
    """The matrix for given weights of the samples.

    Attributes
    ----------
    law : Residual
    weight : ndarray, shape (nodes,)
        ``omega`` at the nodes of the law.
    ratio : float
        ``phi0 = d / n_step``.
    """

    law: Residual
    weight: Array
    ratio: float

    def transform(self, z: Complex) -> Complex:
        """Return ``m(z)``, the Stieltjes transform of the spectral law, for ``z`` in the upper half-plane.

        Raises
        ------
        NotConverged
            If the fixed point is not found.
        """
        omega, p = self.ratio * self.weight, self.law.weight
        m = -1 / z
        for _ in range(_MAX_STEPS):
            part = 1 / (1 + np.multiply.outer(m, omega))
            mean = _mean(part, p * omega) / self.ratio
            gap = 1 / (mean - z) - m
            if np.all(np.abs(gap) <= _TOLERANCE * np.abs(m)):
                return m
            # d(1 / (mean - z)) / dm; Newton's step while it stays in the half-plane, the contraction otherwise.
            slope = _mean(part**2, p * omega**2) / self.ratio / (mean - z) ** 2
            newton = m + gap / (1 - slope)
            m = np.where(newton.imag > 0, newton, m + gap)
        worst = float(np.max(np.abs(gap / m)))
        raise NotConverged(
            "the law of the step's weighted samples", worst, _TOLERANCE, "Take more samples in the step."
        )

    def transform_slope(self, m: Complex) -> Complex:
        """Return ``m'(z)`` at a solution."""
        omega, p = self.ratio * self.weight, self.law.weight
        part = 1 / (1 + np.multiply.outer(m, omega))
        return np.asarray(m**2 / (1 - m**2 * _mean(part**2, p * omega**2) / self.ratio))

    def resolvent(self, z: Complex, m: Complex, slope: Complex, alignment: float) -> tuple[Complex, Complex]:
        """Return the resolvent ``(A - z)^-1`` between ``v`` and ``zeta``, and its derivative, shape (..., 2, 2).

        Parameters
        ----------
        z, m, slope : ndarray
            Points in the upper half-plane, and the transform and its derivative there.
        alignment : float
        """
        r, u, p = self.law.residual, self.law.projection, self.law.weight
        omega, ratio = self.weight, self.ratio
        part = 1 / (1 + ratio * np.multiply.outer(m, omega))
        turn = -ratio * slope[..., None] * omega * part**2
        square = self.law.square
        scale = math.sqrt(ratio / square)
        r11 = 1 / (_mean(part, p * omega * u**2) - z)
        d11 = -(r11**2) * (_mean(turn, p * omega * u**2) - 1)
        coupling = scale * m * _mean(part, p * r * omega * u)
        d_coupling = scale * (slope * _mean(part, p * r * omega * u) + m * _mean(turn, p * r * omega * u))
        r12 = -r11 * coupling
        d12 = -d11 * coupling - r11 * d_coupling
        r22 = m * _mean(part, p * r**2) / square + r11 * coupling**2
        d22 = (slope * _mean(part, p * r**2) + m * _mean(turn, p * r**2)) / square
        d22 = d22 + d11 * coupling**2 + 2 * r11 * coupling * d_coupling
        return _turned(r11, r12, r22, alignment), _turned(d11, d12, d22, alignment)

    def mean(self, alignment: float) -> Array:
        """Return the matrix itself between ``v`` and ``zeta``, shape (2, 2)."""
        r, u, omega, ratio = self.law.residual, self.law.projection, self.weight, self.ratio
        square = self.law.square
        a11 = self.law.mean(omega * u**2)
        a12 = math.sqrt(ratio / square) * self.law.mean(r * omega * u)
        a22 = self.law.mean(omega) + ratio * self.law.mean(omega * r**2) / square
        turned = _turned(np.array(a11 + 0j), np.array(a12 + 0j), np.array(a22 + 0j), alignment)
        return np.asarray(turned.real, dtype=np.float64)

    def moments(self) -> Array:
        """Return ``(1/d) tr A^k`` for k = 0..4: the free cumulants of ``A`` are ``phi0^(k-1) E omega^k``."""
        k1, k2, k3, k4 = (self.ratio ** (k - 1) * self.law.mean(self.weight**k) for k in range(1, 5))
        third = k3 + 3 * k1 * k2 + k1**3
        return np.array([1, k1, k2 + k1**2, third, k4 + 4 * k1 * k3 + 2 * k2**2 + 6 * k1**2 * k2 + k1**4])

    def diagonal(self, other: Array) -> Polynomial:
        """Return the diagonal, in this eigenbasis, of the matrix of the same samples with other weights.

        As a function of the eigenvalue: the parabola nearest to it in mean square, from ``(1/d) tr(A' A^k)``.
        """
        omega, ratio, mean = self.weight, self.ratio, self.law.mean
        powers = self.moments()
        first, second = ratio * mean(other * omega), ratio**2 * mean(other * omega**2)
        total = mean(other)
        target = [total, total * powers[1] + first, total * powers[2] + 2 * first * powers[1] + second]
        return Polynomial(np.linalg.solve(hankel(powers[:3], powers[2:]), target))


def _mean(values: NDArray[Any], weight: Array) -> NDArray[Any]:
    """Return the weighted sum over the last axis; BLAS would give these few numbers to several threads."""
    return np.asarray(np.einsum("...k,k->...", values, weight))


def _turned(r11: Complex, r12: Complex, r22: Complex, alignment: float) -> Complex:
    """Return a symmetric matrix of ``beta*`` and ``e`` between ``v`` and ``zeta`` instead."""
    c, s = alignment, math.sqrt(max(1 - alignment**2, 0.0))
    matrix = np.stack([np.stack([r11, r12], axis=-1), np.stack([r12, r22], axis=-1)], axis=-2)
    rotation = np.array([[c, s], [s, -c]])
    return np.asarray(rotation @ matrix @ rotation)


def rational_rule(poles: Complex, transform: Complex, slope: Complex, mean: Array) -> tuple[Array, Array]:
    """Return the Gauss rule of a matrix-valued law for rational functions with given poles.

    The law is that of a symmetric matrix ``A`` between a few orthonormal vectors. The rule is exact for products of two
    of ``1, 1/(l - z_i), 1/(l - conj z_i)``, and for ``l`` times them: it consists of the Rayleigh-Ritz values and
    vectors of ``A`` on the span of the vectors and of ``(A - z_i)^-1`` times them, real and imaginary parts.

    Parameters
    ----------
    poles : ndarray, shape (poles,)
        ``z_i`` in the upper half-plane.
    transform, slope : ndarray, shape (poles, vectors, vectors)
        The resolvent ``(A - z_i)^-1`` between the vectors, and its derivative in ``z``.
    mean : ndarray, shape (vectors, vectors)
        ``A`` between the vectors.

    Returns
    -------
    nodes : ndarray, shape (nodes,)
    overlap : ndarray, shape (nodes, vectors)
        Components of the vectors, each of length one; ``sum_j f(l_j) overlap_ja overlap_jb`` integrates ``f`` against
        the law.
    """
    count, size = len(poles), len(mean)
    apart = poles[None, :] - poles[:, None] + np.eye(count)
    plain = (transform[None, :] - transform[:, None]) / apart[..., None, None]
    plain[np.arange(count), np.arange(count)] = slope
    across = poles[None, :] - poles.conj()[:, None]
    crossed = (transform[None, :] - transform.conj()[:, None]) / across[..., None, None]
    # Functions in the order 1, real parts, imaginary parts.
    real, imaginary = slice(1, count + 1), slice(count + 1, None)
    gram = np.empty((2 * count + 1, 2 * count + 1, size, size))
    gram[0, 0] = np.eye(size)
    gram[0, real], gram[0, imaginary] = transform.real, transform.imag
    gram[real, 0], gram[imaginary, 0] = transform.real, transform.imag
    gram[real, real] = (plain + crossed).real / 2
    gram[imaginary, imaginary] = (crossed - plain).real / 2
    gram[real, imaginary] = (plain + crossed).imag / 2
    gram[imaginary, real] = (plain - crossed).imag / 2
    # l / (l - z) = 1 + z / (l - z).
    x, y = poles.real[:, None, None], poles.imag[:, None, None]
    times = np.empty_like(gram)
    times[:, real] = gram[:, :1] + x * gram[:, real] - y * gram[:, imaginary]
    times[:, imaginary] = y * gram[:, real] + x * gram[:, imaginary]
    times[0, 0], times[1:, 0] = mean, times[0, 1:]
    metric, operator = (np.swapaxes(m, 1, 2).reshape(len(gram) * size, -1) for m in (gram, times))
    # A pole so near the real axis that its imaginary part is rounding has a real part only.
    square = np.diagonal(metric)
    felt = square > _RANK * np.concatenate([square[: (count + 1) * size], square[size : (count + 1) * size]])
    metric, operator, square = metric[np.ix_(felt, felt)], operator[np.ix_(felt, felt)], square[felt]
    scale = 1 / np.sqrt(square)
    metric, operator = metric * np.outer(scale, scale), operator * np.outer(scale, scale)
    spread, vectors = np.linalg.eigh(metric)
    kept = spread > _RANK * spread[-1]
    basis = vectors[:, kept] / np.sqrt(spread[kept])
    inner = basis.T @ operator @ basis
    nodes, rotation = np.linalg.eigh((inner + inner.T) / 2)
    overlap = (basis @ rotation).T @ metric[:, :size]
    return nodes, overlap / np.sqrt((overlap**2).sum(axis=0))
