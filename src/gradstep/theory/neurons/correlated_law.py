"""The law of a row's covariance after a step on correlated inputs, ``A = C + t C S C``.

``S = Z^T diag(w) Z / n_step`` are the samples of the step, whitened and weighted by ``w = r^2 / E r^2``. One sample
left out at a time closes the resolvent ``Q = (A - z)^-1`` with one number,

    Q(c) = 1 / (c - z + t Y c^2),    Y = E[w / (1 + t w M)],    M = phi0 <c^2 Q(c)>,

and the few directions that know the samples, bt and ``C g``, follow by a change of rank two. This project.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    """The resolvent at points z, and derivatives in z."""

    #: ``Q(c)`` for each eigenvalue of C, shape (points, classes).
    resolvent: Complex
    d_resolvent: Complex
    sampled: Complex  #: ``1 / (1 + t w M)``, shape (points, nodes).
    #: ``M``, shape (points,).
    gain: Complex
    d_gain: Complex
    #: ``Y``, shape (points,).
    weight: Complex
    d_weight: Complex


@dataclass(frozen=True)
class CorrelatedLaw(RowLaw[LawPoints]):
    """The covariance of the rows of one readout."""

    samples: CorrelatedSamples
    strength: float  #: ``t``, the variance that the step adds per unit of ``C S C``.

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

        Docs, "Correlated inputs", equation (C9).
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

        The first have shape (points, classes), are at least zero and have the sum one; the second have shape (points,).

        Docs, "Bases of stretched rows", equation (B10).
        """
        known, points = self.samples.spectrum, self.at(z)
        density = (points.resolvent * known.share).imag
        whole = density.sum(axis=1)
        sampled = (points.weight * (points.resolvent @ (known.share * known.eigenvalue**2))).imag
        return density / whole[:, None], sampled / whole

    def between(self, z: Complex, frame: Array) -> tuple[Complex, Complex]:
        """Return the resolvent between vectors and its derivative, shape (points, vectors, vectors).

        The vectors are the columns of `frame`, shape (2 directions + 1, vectors), in terms of bt, ``C bt`` and
        ``C Z_perp^T r / n_step``, or of `CorrelatedSamples.among` with an own output.

        Docs, "Correlated inputs", equation (C10).
        """
        points = self.at(z)
        among, across, inner = self._blocks(points)
        d_among, d_across, d_inner = self._d_blocks(points)
        coupling, one = self._coupling(points), np.eye(inner.shape[-1])
        d_coupling = np.zeros_like(coupling)
        for k in range(len(one) // 2):
            d_coupling[:, k, k] = -self.strength * points.d_weight
        turn = np.linalg.inv(one + coupling @ inner)
        dressed = turn @ coupling
        d_dressed = turn @ d_coupling @ turn.mT - dressed @ d_inner @ dressed
        found = among - across @ dressed @ across.mT
        change = d_across @ dressed @ across.mT
        slope = d_among - change - change.mT - across @ d_dressed @ across.mT
        return frame.T @ found @ frame, frame.T @ slope @ frame

    def _blocks(self, points: LawPoints) -> tuple[Complex, Complex, Complex]:
        """Return the resolvent without the coupling, between vectors, those of the coupling, and both."""
        law, (_, noise) = self.samples.law, self.samples.turned
        p, r = law.weight, law.residual
        gain, direct = (self._with_noise(points.resolvent, noise**k) for k in (1, 2))
        left = points.sampled @ (p * r**2)
        # A sample's own part, and what factors that differ between the classes leave.
        share = gain / points.gain
        e_e = left * gain * share + law.square * (direct - gain * share)
        crossed, products = self._weights
        e_y = [gain * (points.sampled @ each) for each in crossed]
        y_y = [[points.gain * (points.sampled @ each) for each in row] for row in products]
        return self._matrices(points.resolvent, e_e, e_y, y_y)

    def _d_blocks(self, points: LawPoints) -> tuple[Complex, Complex, Complex]:
        """Return the derivatives of `_blocks` in z."""
        law, (_, noise) = self.samples.law, self.samples.turned
        p, r = law.weight, law.residual
        gain, d_gain = (self._with_noise(of, noise) for of in (points.resolvent, points.d_resolvent))
        d_direct = self._with_noise(points.d_resolvent, noise**2)
        sampled, d_sampled = self._sampled(points)
        left, d_left = (of @ (p * r**2) for of in (sampled, d_sampled))
        share = gain / points.gain
        d_square = (2 * d_gain - share * points.d_gain) * share
        d_e_e = d_left * gain * share + left * d_square + law.square * (d_direct - d_square)
        crossed, products = self._weights
        d_e_y = [d_gain * (sampled @ each) + gain * (d_sampled @ each) for each in crossed]
        d_y_y = [
            [points.d_gain * (sampled @ each) + points.gain * (d_sampled @ each) for each in row] for row in products
        ]
        return self._matrices(points.d_resolvent, d_e_e, d_e_y, d_y_y)

    @property
    def _weights(self) -> tuple[list[Array], list[list[Array]]]:
        """Weights of the nodes in products of the samples' sums along the directions with e, and among each other."""
        law, (x, hidden, _) = self.samples.law, self.samples.directions
        p, r, omega = law.weight, law.residual, law.relative_squares
        crossed = [p * r * omega * u for u in x]
        products = [[p * ((omega * u) * (omega * v)) for v in x] for u in x]
        for k, variance in enumerate(hidden):
            products[k][k] = products[k][k] + variance * (p * omega**2)
        return crossed, products

    def _sampled(self, points: LawPoints) -> tuple[Complex, Complex]:
        """Return ``1 / (1 + t w M)`` and its derivative in z, shape (points, nodes)."""
        omega = self.strength * self.samples.law.relative_squares
        return points.sampled, -omega * points.sampled**2 * points.d_gain[:, None]

    def _with_noise(self, resolvent: Complex, factor: Array) -> Complex:
        """Return ``phi0 <c^2 Q>`` with a factor for each class."""
        known = self.samples.spectrum
        return np.asarray(self.samples.ratio * (resolvent @ (known.share * known.eigenvalue**2 * factor)))

    def _matrices(
        self, resolvent: Complex, e_e: Complex, e_y: Sequence[Complex], y_y: Sequence[Sequence[Complex]]
    ) -> tuple[Complex, Complex, Complex]:
        """Return the three matrices of `_blocks` from their last entries."""
        c, (_, _, part), size = self.samples.spectrum.eigenvalue, self.samples.directions, len(e_e)
        count = len(part)
        among = np.zeros((size, 2 * count + 1, 2 * count + 1), dtype=complex)
        across = np.zeros((size, 2 * count + 1, 2 * count), dtype=complex)
        inner = np.zeros((size, 2 * count, 2 * count), dtype=complex)
        for k, signal in enumerate(self.samples.signals):
            q_0, q_1, q_2 = (resolvent @ (part[k] * c**power) for power in (0, 1, 2))
            s_1, s_2 = (resolvent @ (part[k] * (c * signal) ** power) for power in (1, 2))
            first, last = k, count + k
            among[:, first, first], among[:, last, last] = q_0, s_2
            among[:, first, last] = among[:, last, first] = s_1
            across[:, first, k], across[:, last, k] = q_1, resolvent @ (part[k] * c**2 * signal)
            across[:, -1, last] = e_y[k]
            inner[:, k, k] = q_2
            for other in range(count):
                inner[:, last, count + other] = y_y[k][other]
        among[:, -1, -1] = e_e
        return among, across, inner

    def _coupling(self, points: LawPoints) -> Complex:
        """Return the change along the directions, between the vectors of the coupling."""
        law, t, (x, hidden, _) = self.samples.law, self.strength, self.samples.directions
        count, omega = len(x), self.samples.law.relative_squares
        coupling = np.zeros((len(points.gain), 2 * count, 2 * count), dtype=complex)
        for k, u in enumerate(x):
            for other, v in enumerate(x):
                coupling[:, k, other] = t * law.mean(omega * (u * v))
            coupling[:, k, k] = t * (law.mean(omega * (u**2 + hidden[k])) - points.weight)
            coupling[:, k, count + k] = coupling[:, count + k, k] = t
        return coupling

    def others(self, z: Complex, frame: Array) -> Others:
        """Return the products of vectors with those that the samples make, plain and with the resolvent between.

        These are ``C g``, ``C h`` and ``C h_3`` in the places that they have in `StretchedLaw.others`; what rows have
        along the others is zero for an odd activation.

        The frame is as in `between`.

        Docs, "Structured bulk", equation (A7a).
        """
        known, law, points = self.samples.spectrum, self.samples.law, self.at(z)
        r, p, omega = law.residual, law.weight, law.relative_squares
        x, _, part = self.samples.directions
        noise, count = self.samples.turned.noise, len(x)
        c, gain = known.eigenvalue, self._with_noise(points.resolvent, noise)
        _, across, inner = self._blocks(points)
        coupling = self._coupling(points)
        dressed = np.linalg.inv(np.eye(2 * count) + coupling @ inner) @ coupling
        plain, resolved = np.zeros((2 * count + 1, 5)), np.zeros((len(z), 2 * count + 1, 5), dtype=complex)
        for column, power in zip((0, 2, 4), (r, r**2, r**3), strict=True):
            direct: Complex = np.zeros(across.shape[:2], dtype=complex)
            sides: Complex = np.zeros(inner.shape[:2], dtype=complex)
            for k, (u, signal) in enumerate(zip(x, self.samples.signals, strict=True)):
                along = law.mean(power * u)
                direct, sides = direct + along * across[..., k], sides + along * inner[:, k]
                plain[k, column] = along * float(part[k] @ c)
                plain[count + k, column] = along * float(part[k] @ (c**2 * signal))
            direct[:, -1] += gain * (points.sampled @ (p * r * power))
            for k, u in enumerate(x):
                sides[:, count + k] += points.gain * (points.sampled @ (p * power * omega * u))
            resolved[..., column] = direct - np.matvec(across @ dressed.mT, sides)
            plain[-1, column] = self.samples.ratio * float(known.share @ (c**2 * noise)) * law.mean(r * power)
        return Others(frame.T @ plain, np.asarray(frame.T @ resolved, dtype=complex))

    def average(self, frame: Array) -> Array:
        """Return A itself between the vectors of `between`."""
        samples, known, law = self.samples, self.samples.spectrum, self.samples.law
        c, (x, hidden, part), noise, count = (
            known.eigenvalue,
            samples.directions,
            samples.turned.noise,
            len(samples.directions[0]),
        )
        spread = np.zeros((2 * count + 1, 2 * count + 1))
        mean = np.zeros((2 * count + 1, len(law.weight)))
        for k, signal in enumerate(samples.signals):
            own, turned = part[k] @ c, part[k] @ (c**2 * signal)
            mean[k], mean[count + k] = own * x[k], turned * x[k]
            seen = 1 - hidden[k]
            spread[k, k] = part[k] @ c**2 - seen * own**2
            spread[k, count + k] = spread[count + k, k] = part[k] @ (c**3 * signal) - seen * own * turned
            spread[count + k, count + k] = part[k] @ (c**4 * signal**2) - seen * turned**2
        spread[-1, -1] = samples.ratio * law.square * float(known.share @ (c**4 * noise**2))
        mean[-1] = samples.ratio * float(known.share @ (c**2 * noise)) * law.residual
        weighed = law.weight * law.relative_squares
        sampled = (weighed * mean) @ mean.T + spread
        return np.asarray(frame.T @ (samples.among(1) + self.strength * sampled) @ frame)
