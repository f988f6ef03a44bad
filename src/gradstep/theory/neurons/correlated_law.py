"""The law of a row's covariance after a step on correlated inputs, ``A = C + t C S C``.

``S = Z^T diag(w) Z / n_step`` are the samples of the step, whitened and weighted by ``w = r^2 / E r^2``. One sample
left out at a time closes the resolvent ``Q = (A - z)^-1`` with one number,

    Q(c) = 1 / (c - z + t Y c^2),    Y = E[w / (1 + t w M)],    M = phi0 <c^2 Q(c)>,

and the few directions that know the samples, bt and ``C g``, follow by a change of rank two. This project.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradstep.errors import NotConverged
from gradstep.theory.neurons.rational_rule import Others
from gradstep.theory.step.correlated_samples import CorrelatedSamples
from gradstep.theory.step.row_law import RowLaw

__all__ = ["CorrelatedLaw", "LawPoints"]

Array = NDArray[np.float64]
Complex = NDArray[np.complexfloating[Any, Any]]

#: Relative residual of the fixed point, and steps after which it is given up.
_TOLERANCE, _MAX_STEPS = 1e-12, 500


class LawPoints(NamedTuple):
    """The resolvent at points z, and derivatives in z.

    Attributes
    ----------
    resolvent, d_resolvent : ndarray, shape (points, classes)
        ``Q(c)`` for each eigenvalue of C.
    sampled : ndarray, shape (points, nodes)
        ``1 / (1 + t w M)``.
    gain, d_gain : ndarray, shape (points,)
        ``M``.
    weight, d_weight : ndarray, shape (points,)
        ``Y``.
    """

    resolvent: Complex
    d_resolvent: Complex
    sampled: Complex
    gain: Complex
    d_gain: Complex
    weight: Complex
    d_weight: Complex


@dataclass(frozen=True)
class CorrelatedLaw(RowLaw[LawPoints]):
    """The covariance of the rows of one readout.

    Attributes
    ----------
    samples : CorrelatedSamples
    strength : float
        ``t``, the variance that the step adds per unit of ``C S C``.
    """

    samples: CorrelatedSamples
    strength: float

    @property
    def stretched(self) -> bool:
        """Whether the samples of the step stretch the rows."""
        return False

    @property
    def mean(self) -> float:
        """``(1/d) tr A``."""
        return 1 + self.strength * self.samples.spectrum.moment(2)

    def _solve(self, z: Complex) -> LawPoints:
        """Solve the equation of ``M`` at points in the upper half-plane.

        Docs, "Correlated inputs", equation (C6).
        """
        known, t = self.samples.spectrum, self.strength
        c, share, phi0 = known.eigenvalue, known.share, self.samples.ratio
        p, omega = self.samples.law.weight, t * self.samples.law.relative_squares
        gain = phi0 * ((share * c**2) / (c - z[:, None])).sum(axis=1)
        for _ in range(_MAX_STEPS):
            sampled = 1 / (1 + gain[:, None] * omega)
            part = sampled @ (p * omega)
            resolvent = 1 / (c - z[:, None] + part[:, None] * c**2)
            gap = phi0 * (resolvent @ (share * c**2)) - gain
            bend = phi0 * (resolvent**2 @ (share * c**4)) * (sampled**2 @ (p * omega**2))
            if np.all(np.abs(gap) <= _TOLERANCE * np.abs(gain)):
                break
            newton = gain + gap / (1 - bend)
            gain = np.where(newton.imag > 0, newton, gain + gap)
        else:
            worst = float(np.max(np.abs(gap / gain)))
            raise NotConverged(
                "the law of the rows after the step", worst, _TOLERANCE, "Take more samples in the step."
            )
        d_gain = phi0 * (resolvent**2 @ (share * c**2)) / (1 - bend)
        squared = sampled**2 @ (p * self.samples.law.relative_squares * omega)
        d_weight = -squared * d_gain
        d_resolvent = resolvent**2 * (1 - t * d_weight[:, None] * c**2)
        return LawPoints(
            resolvent, d_resolvent, sampled, gain, d_gain, sampled @ (p * self.samples.law.relative_squares), d_weight
        )

    def transform(self, z: Complex) -> tuple[Complex, Complex]:
        """Return the Stieltjes transform of the spectral law and its derivative."""
        points = self.at(z)
        share = self.samples.spectrum.share
        return points.resolvent @ share, points.d_resolvent @ share

    def diagonals(self, z: Complex) -> tuple[Array, Array]:
        """Return the parts of eigenvectors of A near an eigenvalue in the classes of C, and ``C S C`` along them.

        These are the parts of the points, over an interval as wide as their distance from the real axis.

        Docs, "Correlated inputs", equation (C8).

        Returns
        -------
        part : ndarray, shape (points, classes)
            At least zero, of sum one.
        sampled : ndarray, shape (points,)
        """
        known, points = self.samples.spectrum, self.at(z)
        density = (points.resolvent * known.share).imag
        whole = density.sum(axis=1)
        sampled = (points.weight * (points.resolvent @ (known.share * known.eigenvalue**2))).imag
        return density / whole[:, None], sampled / whole

    def between(self, z: Complex, frame: Array) -> tuple[Complex, Complex]:
        """Return the resolvent between vectors and its derivative, shape (points, vectors, vectors).

        Docs, "Correlated inputs", equation (C7).

        Parameters
        ----------
        z : ndarray, shape (points,)
        frame : ndarray, shape (3, vectors)
            The vectors, as columns, in terms of bt, ``C bt`` and ``C Z_perp^T r / n_step``.
        """
        points = self.at(z)
        among, across, inner = self._blocks(points)
        d_among, d_across, d_inner = self._d_blocks(points)
        coupling, one = self._coupling(points), np.eye(2)
        d_coupling = np.zeros_like(coupling)
        d_coupling[:, 0, 0] = -self.strength * points.d_weight
        turn = np.linalg.inv(one + coupling @ inner)
        dressed = turn @ coupling
        d_dressed = turn @ d_coupling @ turn.mT - dressed @ d_inner @ dressed
        found = among - across @ dressed @ across.mT
        change = d_across @ dressed @ across.mT
        slope = d_among - change - change.mT - across @ d_dressed @ across.mT
        return frame.T @ found @ frame, frame.T @ slope @ frame

    def _blocks(self, points: LawPoints) -> tuple[Complex, Complex, Complex]:
        """Return the resolvent without the coupling, between vectors, the two of the coupling, and both."""
        law, (_, noise) = self.samples.law, self.samples.turned
        p, u, r, omega = law.weight, law.projection, law.residual, law.relative_squares
        gain, direct = (self._with_noise(points.resolvent, noise**k) for k in (1, 2))
        left = points.sampled @ (p * r**2)
        # A sample's own part, and what factors that differ between the classes leave.
        share = gain / points.gain
        e_e = left * gain * share + law.square * (direct - gain * share)
        e_y = gain * (points.sampled @ (p * r * omega * u))
        y_y = points.gain * (points.sampled @ (p * (omega * u) ** 2))
        return self._matrices(points.resolvent, e_e, e_y, y_y)

    def _d_blocks(self, points: LawPoints) -> tuple[Complex, Complex, Complex]:
        """Return the derivatives of `_blocks` in z."""
        law, (_, noise) = self.samples.law, self.samples.turned
        p, u, r, omega = law.weight, law.projection, law.residual, law.relative_squares
        gain, d_gain = (self._with_noise(of, noise) for of in (points.resolvent, points.d_resolvent))
        d_direct = self._with_noise(points.d_resolvent, noise**2)
        (left, d_left), (y, d_y), (yy, d_yy) = (
            [of @ (p * weight) for of in self._sampled(points)] for weight in (r**2, r * omega * u, (omega * u) ** 2)
        )
        share = gain / points.gain
        d_square = (2 * d_gain - share * points.d_gain) * share
        d_e_e = d_left * gain * share + left * d_square + law.square * (d_direct - d_square)
        d_y_y = points.d_gain * yy + points.gain * d_yy
        return self._matrices(points.d_resolvent, d_e_e, d_gain * y + gain * d_y, d_y_y)

    def _sampled(self, points: LawPoints) -> tuple[Complex, Complex]:
        """Return ``1 / (1 + t w M)`` and its derivative in z, shape (points, nodes)."""
        omega = self.strength * self.samples.law.relative_squares
        return points.sampled, -omega * points.sampled**2 * points.d_gain[:, None]

    def _with_noise(self, resolvent: Complex, factor: Array) -> Complex:
        """Return ``phi0 <c^2 Q>`` with a factor for each class."""
        known = self.samples.spectrum
        return np.asarray(self.samples.ratio * (resolvent @ (known.share * known.eigenvalue**2 * factor)))

    def _matrices(
        self, resolvent: Complex, e_e: Complex, e_y: Complex, y_y: Complex
    ) -> tuple[Complex, Complex, Complex]:
        """Return the three matrices of `_blocks` from their last entries."""
        known, signal, zero = self.samples.spectrum, self.samples.turned.signal, np.zeros(len(e_e))
        q_0, q_1, q_2 = (resolvent @ (known.teacher * known.eigenvalue**k) for k in (0, 1, 2))
        s_1, s_2 = (resolvent @ (known.teacher * (known.eigenvalue * signal) ** k) for k in (1, 2))
        beside = resolvent @ (known.teacher * known.eigenvalue**2 * signal)
        among = np.array([[q_0, s_1, zero], [s_1, s_2, zero], [zero, zero, e_e]])
        across = np.array([[q_1, zero], [beside, zero], [zero, e_y]])
        inner = np.array([[q_2, zero], [zero, y_y]])
        return np.moveaxis(among, 2, 0), np.moveaxis(across, 2, 0), np.moveaxis(inner, 2, 0)

    def _coupling(self, points: LawPoints) -> Complex:
        """Return the change along the teacher, between the two vectors of the coupling."""
        law, t = self.samples.law, self.strength
        coupling = np.zeros((len(points.gain), 2, 2), dtype=complex)
        coupling[:, 0, 0] = t * (law.mean(law.relative_squares * law.projection**2) - points.weight)
        coupling[:, 0, 1] = coupling[:, 1, 0] = t
        return coupling

    def others(self, z: Complex, frame: Array) -> Others:
        """Return the products of vectors with those that the samples make, plain and with the resolvent between.

        These are ``C g``, ``C h`` and ``C h_3`` in the places that they have in `StretchedLaw.others`; what rows have
        along the others is zero for an odd activation.

        Docs, "Structured bulk", equation (A7a).

        Parameters
        ----------
        z : ndarray, shape (points,)
        frame : ndarray, shape (3, vectors)
            As in `between`.
        """
        known, law, points = self.samples.spectrum, self.samples.law, self.at(z)
        r, p, u, omega = law.residual, law.weight, law.projection, law.relative_squares
        signal, noise = self.samples.turned
        c, gain = known.eigenvalue, self._with_noise(points.resolvent, noise)
        _, across, inner = self._blocks(points)
        coupling = self._coupling(points)
        dressed = np.linalg.inv(np.eye(2) + coupling @ inner) @ coupling
        plain, resolved = np.zeros((3, 5)), np.zeros((len(z), 3, 5), dtype=complex)
        for column, power in zip((0, 2, 4), (r, r**2, r**3), strict=True):
            along = law.mean(power * u)
            direct, sides = along * across[..., 0], along * inner[:, 0]
            direct[:, 2] += gain * (points.sampled @ (p * r * power))
            sides[:, 1] += points.gain * (points.sampled @ (p * power * omega * u))
            resolved[..., column] = direct - np.matvec(across @ dressed.mT, sides)
            last = self.samples.ratio * float(known.share @ (c**2 * noise)) * law.mean(r * power)
            own, beside = float(known.teacher @ c), float(known.teacher @ (c**2 * signal))
            plain[:, column] = [along * own, along * beside, last]
        return Others(frame.T @ plain, np.asarray(frame.T @ resolved, dtype=complex))

    def average(self, frame: Array) -> Array:
        """Return A itself between the vectors of `between`."""
        samples, known, law = self.samples, self.samples.spectrum, self.samples.law
        c, teacher, (signal, noise) = known.eigenvalue, known.teacher, samples.turned
        own, turned = teacher @ c, teacher @ (c**2 * signal)
        noise_square = samples.ratio * law.square * float(known.share @ (c**4 * noise**2))
        u, weighed = law.projection, law.weight * self.samples.law.relative_squares
        by_noise = samples.ratio * float(known.share @ (c**2 * noise)) * law.residual
        mean = np.stack([own * u, turned * u, by_noise])
        across = teacher @ (c**3 * signal) - own * turned
        spread = np.array(
            [
                [teacher @ c**2 - own**2, across, 0.0],
                [across, teacher @ (c**4 * signal**2) - turned**2, 0.0],
                [0.0, 0.0, noise_square],
            ]
        )
        sampled = (weighed * mean) @ mean.T + spread
        return np.asarray(frame.T @ (samples.among(1) + self.strength * sampled) @ frame)
