"""Laws of the matrix ``A = X^T diag(omega) X / n_step`` of the step's own samples, weighted by their residuals.

``A`` enters a ridge fit by its spectral law and by its resolvent between the spike direction ``v`` and the teacher's
direction orthogonal to it, ``zeta`` (``beta* = gamma v + rho zeta``). Both depend on the same samples as ``A``. With
``phi0 = d / n_step``, ``u = <beta*, x>``, ``r`` the residual and

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
from numpy.typing import NDArray
from scipy.linalg import hankel

from gradstep.errors import NotConverged
from gradstep.theory.step.residual import Residual

__all__ = ["WeightedSamples"]

_TOLERANCE = 1e-12
_MAX_STEPS = 500

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

        Docs, "Structured bulk", equation (A6).

        Raises
        ------
        NotConverged
            If the fixed point is not found.
        """
        omega, p = self.ratio * self.weight, self.law.weight
        m = -1 / z
        for _ in range(_MAX_STEPS):
            part = _reciprocal(1 + np.multiply.outer(m, omega))
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
        part = _reciprocal(1 + np.multiply.outer(m, omega))
        return np.asarray(m**2 / (1 - m**2 * _mean(part**2, p * omega**2) / self.ratio))

    def resolvent(self, z: Complex, m: Complex, slope: Complex, alignment: float) -> tuple[Complex, Complex]:
        """Return the resolvent ``(A - z)^-1`` between ``v`` and ``zeta``, and its derivative, shape (..., 2, 2).

        Docs, "Structured bulk", equation (A7).

        Parameters
        ----------
        z, m, slope : ndarray
            Points in the upper half-plane, and the transform and its derivative there.
        alignment : float
        """
        r, u, p = self.law.residual, self.law.projection, self.law.weight
        omega, ratio = self.weight, self.ratio
        part = _reciprocal(1 + np.multiply.outer(m, ratio * omega))
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

    def diagonal(self, other: Array) -> Array:
        """Return the diagonal, in this eigenbasis, of the matrix of the same samples with other weights.

        As coefficients of powers of the eigenvalue, from zero: the parabola nearest to it in mean square, from
        ``(1/d) tr(A' A^k)``.
        """
        omega, ratio, mean = self.weight, self.ratio, self.law.mean
        # From the law's mean, where nothing is lost of a law that is nearly a point.
        centre, *(k2, k3, k4) = (ratio ** (k - 1) * mean(omega**k) for k in range(1, 5))
        total = mean(other)
        target = [total, ratio * mean(other * omega), total * k2 + ratio**2 * mean(other * omega**2)]
        # In units of its standard deviation.
        units = k2 ** (-0.5 * np.arange(3))
        moments = hankel([1, 0, k2], [k2, k3, k4 + 2 * k2**2]) * units * units[:, None]
        c0, c1, c2 = units * np.linalg.solve(moments, units * target)
        return np.array([c0 - c1 * centre + c2 * centre**2, c1 - 2 * c2 * centre, c2])


def _reciprocal(values: Complex) -> Complex:
    """Return the reciprocals, several times faster than by NumPy's division (which also serves numbers near 1e300)."""
    return np.asarray(values.conj() * (1 / (values.real**2 + values.imag**2)))


def _mean(values: NDArray[Any], weight: Array) -> NDArray[Any]:
    """Return the weighted sum over the last axis; BLAS would give these few numbers to several threads."""
    return np.asarray(np.einsum("...k,k->...", values, weight))


def _turned(r11: Complex, r12: Complex, r22: Complex, alignment: float) -> Complex:
    """Return a symmetric matrix of ``beta*`` and ``e`` between ``v`` and ``zeta`` instead."""
    c, s = alignment, math.sqrt(max(1 - alignment**2, 0.0))
    matrix = np.stack([np.stack([r11, r12], axis=-1), np.stack([r12, r22], axis=-1)], axis=-2)
    rotation = np.array([[c, s], [s, -c]])
    return np.asarray(rotation @ matrix @ rotation)
