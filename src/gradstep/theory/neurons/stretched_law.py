"""The law of a row's covariance after a step on correlated inputs that stretches it, ``A = L C L^T + t C S C``.

``L = 1 + k C B`` is the step's linear part, of an activation that is not odd. ``B`` and ``S`` are the samples of the
step, whitened and weighted by ``r`` and by ``r^2 / E r^2``: the same samples in both. With the matrix

    H = [[ t C S C - z,  C + k C B C ], [ C + k C B C,  -C ]]

in twice as many coordinates, ``(A - z)^-1`` is the first block of the inverse, and a sample adds to H one matrix of two
by two, ``m = [[t w, k r], [k r, 0]]``, times ``C z z^T C``. One sample left out at a time closes the inverse with
matrices of two by two. This project.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradstep.errors import NotConverged
from gradstep.theory.neurons.row_law import RowLaw
from gradstep.theory.step.correlated_samples import CorrelatedSamples

__all__ = ["StretchedLaw", "StretchedPoints"]

Array = NDArray[np.float64]
Complex = NDArray[np.complexfloating[Any, Any]]

#: Relative residual of the fixed point, and steps after which it is given up.
_TOLERANCE, _MAX_STEPS = 1e-12, 500
#: Least eigenvalue of C that another number is divided by: the quotient is multiplied by its square later.
_LEAST = 1e-60
#: Symmetric matrices of two by two, of which all others are sums.
_BASIS = np.array([[[1, 0], [0, 0]], [[0, 1], [1, 0]], [[0, 0], [0, 1]]], dtype=np.float64)
#: The first block, where z is.
_FIRST = _BASIS[0]
#: Where `numpy.triu_indices(3)` has the product of the entries (i, a) and (b, j) of a symmetric matrix of two by two.
_ENTRY = np.array([[0, 1], [1, 2]])
_PRODUCTS = np.array([[0, 1, 2], [1, 3, 4], [2, 4, 5]])[_ENTRY[:, :, None, None], _ENTRY]


class StretchedPoints(NamedTuple):
    """The inverse of H at points z, and derivatives in z.

    Attributes
    ----------
    inverse, d_inverse : ndarray, shape (points, classes, 2, 2)
        ``G(c)`` for each eigenvalue of C.
    gain, d_gain : ndarray, shape (points, 2, 2)
        ``M``.
    left : ndarray, shape (points, nodes, 2, 2)
        ``m (1 + M m)^-1``, what is left of a sample next to itself.
    weight, d_weight : ndarray, shape (points, 2, 2)
        ``Y``, its mean.
    """

    inverse: Complex
    d_inverse: Complex
    gain: Complex
    d_gain: Complex
    left: Complex
    weight: Complex
    d_weight: Complex


@dataclass(frozen=True)
class StretchedLaw(RowLaw[StretchedPoints]):
    """The covariance of the rows of one readout.

    Attributes
    ----------
    samples : CorrelatedSamples
    stretch : float
        ``k``, of the readout's sign.
    strength : float
        ``t``, the variance that the step adds per unit of ``C S C``, without what its linear part adds.
    """

    samples: CorrelatedSamples
    stretch: float
    strength: float

    @property
    def mean(self) -> float:
        """``(1/d) tr A``."""
        known, r, mean = self.samples.spectrum, self.samples.law.residual, self.samples.mean
        c2, c3, k = known.moment(2), known.moment(3), self.stretch
        linear = 2 * k * mean(r) * c2 + k**2 * (mean(r) ** 2 * c3 + self.samples.ratio * mean(r**2) * c2)
        return 1 + linear + self.strength * c2

    def _solve(self, z: Complex) -> StretchedPoints:
        """Solve the equation of ``M`` at points in the upper half-plane.

        Docs, "Correlated inputs", equation (C7a).
        """
        share, c = self.samples.spectrum.share, self.samples.spectrum.eigenvalue
        by_second, by_fourth = self.samples.ratio * share * c**2, self.samples.ratio * share * c**4
        p = self.samples.law.weight
        gain = np.einsum("zcij,c->zij", self._inverse(z, np.zeros((len(z), 2, 2))), by_second)
        for _ in range(_MAX_STEPS):
            left = self._left(gain)
            weight = np.einsum("zkij,k->zij", left, p)
            inverse = self._inverse(z, weight)
            gap = np.einsum("zcij,c->zij", inverse, by_second) - gain
            # The change of the sum for a change of each part of M, less that change.
            bend = _sandwich(inverse, _sandwich(left, _BASIS, p), by_fourth) - _BASIS
            size, worst = (np.abs(each).max(axis=(1, 2)) for each in (gain, gap))
            if np.all(worst <= _TOLERANCE * size):
                break
            newton = gain - _solved(bend, gap)
            # Imaginary parts are matrices that are at least zero, as that of the first block of H is.
            positive = np.linalg.eigvalsh(newton.imag).min(axis=1) > 0
            gain = np.where(positive[:, None, None], newton, gain + gap)
        else:
            off = float(np.max(worst / size))
            raise NotConverged("the law of the rows after the step", off, _TOLERANCE, "Take more samples in the step.")
        turned = inverse @ _FIRST @ inverse
        d_gain = -_solved(bend, np.einsum("zcij,c->zij", turned, by_second))
        d_weight = -_sandwich(left, d_gain[:, None], p)[:, 0]
        d_inverse = turned - c[:, None, None] ** 2 * (inverse @ d_weight[:, None] @ inverse)
        return StretchedPoints(inverse, d_inverse, gain, d_gain, left, weight, d_weight)

    @property
    def _own(self) -> Array:
        """The matrix m that a sample adds to H, at each node of their law, shape (nodes, 2, 2)."""
        law = self.samples.law
        squares, residual = self.strength * law.relative_squares, self.stretch * law.residual
        return np.stack([np.stack([squares, residual], -1), np.stack([residual, 0 * residual], -1)], -1)

    def _left(self, gain: Complex) -> Complex:
        """Return ``m (1 + M m)^-1``, shape (points, nodes, 2, 2); ``m`` itself may be singular."""
        own = self._own
        squares, residual = own[:, 0, 0], own[:, 0, 1]
        first, across, last = (each[:, None] for each in (gain[:, 0, 0], gain[:, 0, 1], gain[:, 1, 1]))
        turned = 1 + across * residual
        reduced = squares - residual**2 * last
        whole = turned**2 + first * reduced
        left = np.empty((*whole.shape, 2, 2), dtype=complex)
        left[..., 0, 0], left[..., 1, 1] = reduced / whole, -first * residual**2 / whole
        left[..., 0, 1] = left[..., 1, 0] = turned * residual / whole
        return left

    def _inverse(self, z: Complex, weight: NDArray[Any]) -> Complex:
        """Return ``G(c)``, shape (points, classes, 2, 2)."""
        c = self.samples.spectrum.eigenvalue
        first, across, last = (
            c**2 * weight[:, 0, 0, None] - z[:, None],
            1 + c * weight[:, 0, 1, None],
            1 - c * weight[:, 1, 1, None],
        )
        whole = first * last + c * across**2
        inverse = np.empty((*whole.shape, 2, 2), dtype=complex)
        inverse[..., 0, 0], inverse[..., 1, 1] = last / whole, -first / np.maximum(c, _LEAST) / whole
        inverse[..., 0, 1] = inverse[..., 1, 0] = across / whole
        return inverse

    def transform(self, z: Complex) -> tuple[Complex, Complex]:
        """Return the Stieltjes transform of the spectral law and its derivative."""
        points, share = self.at(z), self.samples.spectrum.share
        return points.inverse[..., 0, 0] @ share, points.d_inverse[..., 0, 0] @ share

    def between(self, z: Complex, frame: Array) -> tuple[Complex, Complex]:
        """Return the resolvent between vectors and its derivative, shape (points, vectors, vectors).

        Docs, "Correlated inputs", equation (C7b).

        Parameters
        ----------
        z : ndarray, shape (points,)
        frame : ndarray, shape (3, vectors)
            The vectors, as columns, in terms of bt, ``C bt`` and ``C Z_perp^T r / n_step``.
        """
        known, law, points = self.samples.spectrum, self.samples.law, self.at(z)
        p, u, r, own = law.weight, law.projection, law.residual, self._own
        teacher = [known.teacher * known.eigenvalue**k for k in (0, 1, 2)]
        # E[weight m (1 + M m)^-1] and its derivative, for the weights r^2, r u and u^2.
        squares, crossed, projections = (p * r**2, p * r * u, p * u**2)
        seen = np.einsum("kij,k->ij", own, projections)

        def sums(weights: Array) -> tuple[Complex, Complex]:
            value = np.einsum("zkij,k->zij", points.left, weights)
            return value, -_sandwich(points.left, points.d_gain[:, None], weights)[:, 0]

        (of_squares, d_squares), (of_crossed, d_crossed), (of_projections, d_projections) = map(
            sums, (squares, crossed, projections)
        )
        m, d_m = points.gain, points.d_gain
        # Between the vectors, of the vectors with the two pairs of the coupling, and between these pairs.
        e_e = m * law.square - m @ of_squares @ m
        d_e_e = d_m * law.square - d_m @ of_squares @ m - m @ d_squares @ m - m @ of_squares @ d_m
        e_y, d_e_y = m @ of_crossed, d_m @ of_crossed + m @ d_crossed

        def blocks(inverse: Complex, e_e: Complex, e_y: Complex, y_y: Complex) -> tuple[Complex, Complex, Complex]:
            q_0, q_1, q_2 = (np.einsum("zcij,c->zij", inverse, weights) for weights in teacher)
            count = len(inverse)
            among, across = np.zeros((count, 3, 3), dtype=complex), np.zeros((count, 3, 4), dtype=complex)
            inner = np.zeros((count, 4, 4), dtype=complex)
            among[:, 0, 0], among[:, 1, 1], among[:, 2, 2] = q_0[:, 0, 0], q_2[:, 0, 0], e_e[:, 0, 0]
            among[:, 0, 1] = among[:, 1, 0] = q_1[:, 0, 0]
            across[:, 0, :2], across[:, 1, :2], across[:, 2, 2:] = q_1[:, 0], q_2[:, 0], e_y[:, 0]
            inner[:, :2, :2], inner[:, 2:, 2:] = q_2, y_y
            return among, across, inner

        among, across, inner = blocks(points.inverse, e_e, e_y, seen - of_projections)
        d_among, d_across, d_inner = blocks(points.d_inverse, d_e_e, d_e_y, -d_projections)
        coupling, d_coupling = np.zeros((2, len(z), 4, 4), dtype=complex)
        coupling[:, :2, :2], coupling[:, :2, 2:], coupling[:, 2:, :2] = seen - points.weight, np.eye(2), np.eye(2)
        d_coupling[:, :2, :2] = -points.d_weight
        turn = np.linalg.inv(np.eye(4) + coupling @ inner)
        dressed = turn @ coupling
        d_dressed = turn @ d_coupling @ turn.mT - dressed @ d_inner @ dressed
        found = among - across @ dressed @ across.mT
        change = d_across @ dressed @ across.mT
        slope = d_among - change - change.mT - across @ d_dressed @ across.mT
        return frame.T @ found @ frame, frame.T @ slope @ frame

    def average(self, frame: Array) -> Array:
        """Return A itself between the vectors of `between`.

        Docs, "Correlated inputs", equation (C7c).
        """
        samples, known, law = self.samples, self.samples.spectrum, self.samples.law
        u, r, phi0, k = law.projection, law.residual, self.samples.ratio, self.stretch
        t_1, t_2, t_3, t_4 = (known.teacher_moment(power) for power in (1, 2, 3, 4))
        # Projections of a sample on C times the three vectors, given u and r, and their covariance there.
        along = np.stack([t_1 * u, t_2 * u, phi0 * known.moment(2) * r])
        spread = np.zeros((3, 3))
        spread[:2, :2] = np.array([[t_2, t_3], [t_3, t_4]]) - np.outer([t_1, t_2], [t_1, t_2])
        spread[2, 2] = phi0 * law.square * known.moment(4)

        def sampled(weight: Array) -> Array:
            return np.asarray((law.weight * weight * along) @ along.T + law.mean(weight) * spread)

        # B C x is along bt, along C x by the mean of r, and a sum over samples that are independent else.
        mean = law.mean(r)
        part = along @ (law.weight * r * u) - mean * np.array([t_1, t_2, 0.0])
        third = np.array([[t_3, t_4, 0.0], [t_4, known.teacher_moment(5), 0.0], [0.0, 0.0, 0.0]])
        third[2, 2] = phi0 * law.square * known.moment(5)
        crossed = mean * np.outer(part, [t_2, t_3, 0.0])
        crossed[:, 2] += mean * phi0 * known.moment(3) * (along @ (law.weight * r**2))
        twice = t_1 * np.outer(part, part) + mean**2 * third + crossed + crossed.T + phi0 * sampled(r**2)
        whole = samples.among(1) + 2 * k * sampled(r) + k**2 * twice
        return np.asarray(frame.T @ (whole + self.strength * sampled(law.relative_squares)) @ frame)


def _sandwich(outer: Complex, inner: NDArray[Any], weight: Array) -> Complex:
    """Return sums of ``X E X`` over the second axis of X, with weights.

    Parameters
    ----------
    outer : ndarray, shape (points, terms, 2, 2)
        Symmetric matrices X.
    inner : ndarray, shape (points, matrices, 2, 2) or (matrices, 2, 2)
        The matrices E.
    weight : ndarray, shape (terms,)

    Returns
    -------
    ndarray, shape (points, matrices, 2, 2)
    """
    parts = outer[..., 0, 0], outer[..., 0, 1], outer[..., 1, 1]
    products = np.stack([(parts[i] * parts[j]) @ weight for i, j in zip(*np.triu_indices(3), strict=True)])
    whole = np.broadcast_to(inner, (len(outer), *inner.shape[-3:]))
    return np.asarray(np.einsum("iabjz,zkab->zkij", products[_PRODUCTS], whole))


def _solved(bend: Complex, gap: Complex) -> Complex:
    """Return the symmetric matrix that a linear map turns into the gap, shape (points, 2, 2).

    Parameters
    ----------
    bend : ndarray, shape (points, 3, 2, 2)
        What the map makes of each matrix of `_BASIS`.
    gap : ndarray, shape (points, 2, 2)
    """
    rows, columns = np.triu_indices(2)
    parts = np.linalg.solve(bend[..., rows, columns].mT, gap[..., rows, columns, None])[..., 0]
    return np.asarray(np.einsum("zk,kij->zij", parts, _BASIS))
