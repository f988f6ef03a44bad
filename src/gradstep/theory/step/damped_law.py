r"""The law of a row's covariance after a damped step, ``A = C + t P S P``.

``P`` is the damped metric in whitened inputs (`gradstep.theory.step.damped_samples`) and ``S`` are the samples of the
step, weighted by ``w = r^2 / E r^2``. Both are made of the same samples. With ``eta = 1 / (1 + delta)`` the resolvent
``Q = (A - z)^-1`` is a block of the inverse of

    [[C - z, 0, 1], [0, t S, -P^-1], [1, -P^-1, 0]],    P^-1 = eta Z^T Z / n_step + (1 - eta) C^-1,

which is linear in the samples: each has the block ``K = [[t w, -eta], [-eta, 0]]`` in the last two rows. One sample
left out at a time closes the equations with matrices of this size,

    H(c) = (L(c) + Y)^-1,    L(c) = -[[0, (1 - eta) / c], [(1 - eta) / c, 1 / (c - z)]],
    Y = E[K (1 + Gamma K)^-1],    Gamma = phi0 <H(c)>,    Q(c) = 1 / (c - z) + H_22(c) / (c - z)^2.

Without damping ``eta`` is zero, and these are the equations of `gradstep.theory.neurons.correlated_law`. This project.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradstep.errors import NotConverged
from gradstep.theory.step.damped_samples import DampedSamples
from gradstep.theory.step.row_law import RowLaw

__all__ = ["DampedLaw"]

Array = NDArray[np.float64]
Complex = NDArray[np.complexfloating[Any, Any]]

#: Relative residual of the fixed point, the same where another point follows, and steps after which it is given up.
_TOLERANCE, _ON_THE_WAY, _MAX_STEPS = 1e-12, 1e-3, 500
#: Where the way to a point begins, over the size of the law; the first step on it, in logarithms, factors of the next
#: one after success and failure, and the largest relative change of what is expected there.
_BEGINNING, _FIRST_STEP, _LONGER, _SHORTER, _LARGEST_CHANGE = 30.0, 2.5, 1.5, 0.3, 0.3
#: Steps of Newton's method at one place, after which the way is taken in shorter steps.
_NEWTON_STEPS = 8
#: Points of a circle from which a derivative is taken, and its radius over the distance of the law.
_AROUND, _RADIUS = 12, 0.03
#: Points of a circle from which means are taken, and its radius over the size of the law.
_FAR, _FAR_RADIUS = 16, 100.0
#: Least eigenvalue of C that another number is divided by.
_LEAST = 1e-12


class _At(NamedTuple):
    """The equations at points z: what their unknowns and the means over the samples give.

    Attributes
    ----------
    unknown : ndarray, shape (points, 3)
        ``Gamma_11``, ``1 - eta Gamma_12`` and ``Gamma_22 / t``.
    one, weighed : ndarray, shape (points, nodes)
        ``1/Delta`` and ``s/Delta`` with ``Delta = (1 - eta Gamma_12)^2 + t Gamma_11 s`` and
        ``s = w - eta^2 Gamma_22 / t``.
    left : ndarray, shape (points,)
        ``Y_11 / t = E[s / Delta]``.
    apart : ndarray, shape (points, classes)
        ``1 / (c - z)``.
    cross, corner, determinant : ndarray, shape (points, classes)
        ``b``, ``h`` and ``b^2 + h Y_11``, of which H is made: ``H = [[h, -b], [-b, -Y_11]] / (b^2 + h Y_11)``.
    strength : float
        ``t``.
    """

    unknown: Complex
    one: Complex
    weighed: Complex
    left: Complex
    apart: Complex
    cross: Complex
    corner: Complex
    determinant: Complex
    strength: float

    @property
    def inner(self) -> Complex:
        """``H(c)``, shape (points, classes, 2, 2)."""
        left = np.broadcast_to(self.strength * self.left[:, None], self.cross.shape)
        return _symmetric(self.corner, -self.cross, -left) / self.determinant[:, :, None, None]

    @property
    def resolvent(self) -> Complex:
        """``Q(c)``, shape (points, classes)."""
        return np.asarray(self.apart - self.strength * self.left[:, None] * self.apart**2 / self.determinant)


@dataclass(frozen=True)
class DampedLaw(RowLaw[tuple[_At, Complex]]):
    """The covariance of the rows of one readout after a damped step.

    Attributes
    ----------
    samples : DampedSamples
    strength : float
        ``t``, the variance that the step adds per unit of ``P S P``.
    """

    samples: DampedSamples
    strength: float

    @cached_property
    def mean(self) -> float:
        """``(1/d) tr A``."""
        return 1 + self.strength * self.samples.trace(np.ones_like(self.samples.spectrum.eigenvalue))

    @property
    def _divisor(self) -> Array:
        """Eigenvalues of C to divide by: what is finite over almost nothing takes no part in the step."""
        return np.maximum(self.samples.spectrum.eigenvalue, _LEAST)

    @property
    def _eta(self) -> float:
        return 1 / self.samples.scale

    def _at(self, unknown: Complex, z: Complex) -> _At:
        """Return the equations at given unknowns."""
        eta, t, share, c = self._eta, self.strength, self.samples.law.weight, self.samples.spectrum.eigenvalue
        gain, p, lost = unknown.T
        s = self.samples.law.relative_squares - (eta**2 * lost)[:, None]
        one = 1 / ((p**2)[:, None] + t * gain[:, None] * s)
        weighed = s * one
        first, left, apart = one @ share, weighed @ share, 1 / (c - z[:, None])
        cross = self.samples.damping * eta / self._divisor + (eta * p * first)[:, None]
        corner = (eta**2 * gain * first)[:, None] + apart
        return _At(unknown, one, weighed, left, apart, cross, corner, cross**2 + t * corner * left[:, None], t)

    def _newton(self, at: _At) -> tuple[Complex, Complex, Complex]:
        """Return what the equations miss, the step of Newton's method, and the slope of the unknowns in z.

        The first two are in units of the unknowns.
        """
        eta, t, ratio, known = self._eta, self.strength, self.samples.ratio, self.samples.spectrum
        share, nodes = known.share, self.samples.law.weight
        gain, p, _ = at.unknown.T
        a, b, h, n = at.left, at.cross, at.corner, at.determinant
        following = np.stack([ratio * (h / n) @ share, 1 + eta * ratio * (b / n) @ share, -ratio * a * (1 / n @ share)])
        square = 1 / n**2
        bb, bh, hh = (b**2 * square) @ share, (b * h * square) @ share, (h**2 * square) @ share
        b_, bare = (b * square) @ share, square @ share
        # Derivatives of b, h and Y_11 by the unknowns. They are the same for all classes.
        first, one_one = at.one @ nodes, at.one**2 @ nodes
        one_s, s_s = (at.one * at.weighed) @ nodes, at.weighed**2 @ nodes
        of_first = np.stack([-t * one_s, -2 * p * one_one, t * eta**2 * gain * one_one])
        of_left = np.stack([-t * s_s, -2 * p * one_s, eta**2 * (t * gain * one_s - first)])
        of_cross, of_corner = eta * p * of_first, eta**2 * gain * of_first
        of_cross[1] += eta * first
        of_corner[0] += eta**2 * first
        jacobian = ratio * np.stack(
            [
                bb * of_corner - 2 * bh * of_cross - t * hh * of_left,
                eta * ((t * a * ((h * square) @ share) - bb) * of_cross - t * (a * b_ * of_corner + bh * of_left)),
                2 * a * b_ * of_cross + t * a**2 * bare * of_corner - bb * of_left,
            ]
        )
        apart = at.apart**2
        by_z = ratio * np.stack(
            [
                (b**2 * square * apart) @ share,
                -eta * t * a * ((b * square * apart) @ share),
                t * a**2 * ((square * apart) @ share),
            ]
        )
        # Each unknown in its own unit: they differ by powers of the damping and of the step.
        unit = at.unknown
        missed = following.T / unit - 1
        matrix = np.eye(3) - np.moveaxis(jacobian, 2, 0) * unit[:, None, :] / unit[:, :, None]
        solved = np.linalg.solve(matrix, np.stack([missed, by_z.T / unit], axis=-1))
        return missed, solved[:, :, 0], solved[:, :, 1] * unit

    @cached_property
    def _far(self) -> tuple[Array, Array]:
        """Coefficients of the unknowns in ``-1/z``: zeroth and first, far from all eigenvalues."""
        eta, t, f = self._eta, self.strength, self.samples.freedom
        share, kept, ratio = self.samples.spectrum.share, self.samples.kept, self.samples.ratio
        p = self.samples.ridge / self.samples.damping
        two, three, four = (ratio * float(share @ kept**power) * (p / eta) ** power for power in (2, 3, 4))
        lost = f / (1 - f)
        left, gain, corner = 1 / (p**2 * (1 - f)), two / (1 - f), 1 / (1 - f)
        p_slope = t * left * (f * gain * p - eta * corner * three) / (1 - f)
        cross = -eta / p**2 * (p_slope + t * gain * left * p)
        square = t * self.samples.law.mean((self.samples.law.relative_squares + lost) ** 2)
        bent = left * (2 * cross * three + t * left * corner * four)
        left_slope = -(eta**2 * bent / p**2 + 2 * p_slope * left / p + gain * square / p**4) / (1 - f)
        return np.array([0.0, p, -left * two]), np.array([gain, p_slope, bent - left_slope * two])

    def _solve(self, z: Complex) -> tuple[_At, Complex]:
        """Return the solution at points in the upper half-plane, and the slope of the unknowns in z.

        The equations have one solution there, and others elsewhere. So this one is followed from far away, where its
        expansion is known: along the imaginary axis, and then by halves of the angle towards the real one.

        Docs, "Correlated inputs", equation (C12).

        Raises
        ------
        NotConverged
            If the fixed point is not found.
        """
        way = _Way.towards(z, _BEGINNING * self._size)
        zeroth, slope = self._far
        every = np.arange(len(z))
        reached, length = way.whole, np.full(len(z), _FIRST_STEP)
        at = way.place(reached, every)
        good, unknown, slopes = self._corrected(zeroth - slope / at[:, None], at, np.full(len(z), _TOLERANCE))
        active = every
        # Where the expansion far away is no solution, there is none to follow.
        for _ in range(_MAX_STEPS if good.all() else 0):
            active = active[reached[active] > 0]
            if not len(active):
                # Slopes of these very unknowns: the rules that are made of them feel the last digit.
                final = self._at(unknown, z)
                return final, self._newton(final)[2]
            aim = np.maximum(reached[active] - length[active], 0.0)
            there, here = way.place(aim, active), unknown[active]
            power = slopes[active] * at[active, None] / here
            guess, enough = here * (there / at[active])[:, None] ** power, np.where(aim > 0, _ON_THE_WAY, _TOLERANCE)
            found, value, by_z = self._corrected(guess, there, enough)
            done = active[found]
            unknown[done], slopes[done], at[done], reached[done] = value[found], by_z[found], there[found], aim[found]
            length[active] *= np.where(found, _LONGER, _SHORTER)
        reason = "was not followed from far away to the points asked for"
        advice = "Change the damping or the step."
        raise NotConverged("the law of the rows after a damped step", float(reached.max()), 0.0, advice, reason)

    @cached_property
    def _size(self) -> float:
        """A bound of the places where the law is, roughly."""
        zeroth, slope = self._far
        return float(max(self.mean, self.samples.spectrum.eigenvalue.max(), *np.abs(slope[1:] / zeroth[1:])))

    def _corrected(self, unknown: Complex, z: Complex, tolerance: Array) -> tuple[NDArray[np.bool_], Complex, Complex]:
        """Return whether Newton's method finds solutions near a guess, these, and their slopes in z."""
        guess, good = unknown, np.zeros(len(z), dtype=bool)
        with np.errstate(all="ignore"):
            for _ in range(_NEWTON_STEPS):
                missed, move, slope = self._newton(self._at(unknown, z))
                good = np.abs(missed).max(axis=1) <= tolerance
                # Once more where it is good: means far away lose digits.
                unknown = unknown * (1 + move)
                if good.all():
                    break
            near = np.abs(unknown / guess - 1).max(axis=1) <= _LARGEST_CHANGE
        return good & near, unknown, slope

    def _with_slope(self, function: Any, z: Complex) -> tuple[Complex, Complex]:
        """Return a function of the solution and z, and its whole derivative in z, by Cauchy's formula.

        On a small circle around each point the unknowns are taken to be linear, which has the same derivative.
        """
        at, slope = self.at(z)
        turn = np.exp(2j * np.pi * np.arange(_AROUND) / _AROUND)
        # No eigenvalue is below the least one of C.
        below = np.maximum(self.samples.spectrum.eigenvalue.min() - z.real, 0.0)
        radius = _RADIUS * np.hypot(below, z.imag)
        change = (radius[:, None] * turn).ravel()
        moved = np.repeat(at.unknown, _AROUND, axis=0) + change[:, None] * np.repeat(slope, _AROUND, axis=0)
        points = np.repeat(z, _AROUND) + change
        values = function(self._at(moved, points))
        values = values.reshape(len(z), _AROUND, *values.shape[1:])
        found = np.einsum("k,zk...->z...", turn.conj() / _AROUND, values)
        return function(at), found / radius.reshape(-1, *(1,) * (found.ndim - 1))

    def transform(self, z: Complex) -> tuple[Complex, Complex]:
        """Return the Stieltjes transform of the spectral law and its derivative."""
        share = self.samples.spectrum.share
        return self._with_slope(lambda at: at.resolvent @ share, z)

    def diagonals(self, z: Complex) -> tuple[Array, Array]:
        """Return the parts of eigenvectors of A near an eigenvalue in the classes of C, and ``P S P`` along them.

        Docs, "Correlated inputs", equation (C8).

        Returns
        -------
        part : ndarray, shape (points, classes)
            At least zero, of sum one.
        sampled : ndarray, shape (points,)
        """
        share = self.samples.spectrum.share
        at, _ = self.at(z)
        density = (at.resolvent * share).imag
        whole = density.sum(axis=1)
        added = (at.left * ((at.apart / at.determinant) @ share)).imag
        return density / whole[:, None], added / whole

    def between(self, z: Complex, frame: Array) -> tuple[Complex, Complex]:
        """Return the resolvent between vectors and its derivative, shape (points, vectors, vectors).

        Docs, "Correlated inputs", equation (C13).

        Parameters
        ----------
        z : ndarray, shape (points,)
        frame : ndarray, shape (2, vectors)
            The vectors, as columns, in terms of bt and of the unit vector orthogonal to it of which ``theta = P g`` is
            made (`DampedSamples.frame`).
        """
        found, slope = self._with_slope(self._between, z)
        return frame.T @ found @ frame, frame.T @ slope @ frame

    def average(self, frame: Array) -> Array:
        """Return A itself between the vectors of `between`."""
        angle = np.exp(1j * np.pi * (np.arange(_FAR // 2) + 0.5) / (_FAR // 2))
        z = _FAR_RADIUS * self._size * angle
        at, _ = self.at(z)
        mean = -(self._between(at) * z[:, None, None] ** 2).real.mean(axis=0)
        return np.asarray(frame.T @ mean @ frame)

    def sampled_along(self, frame: Array) -> Array:
        """Return ``P S P`` between the vectors of `between`."""
        covariance = frame.T @ self.samples.among(1) @ frame
        return np.asarray((self.average(frame) - covariance) / self.strength)

    @cached_property
    def sampled_square(self) -> float:
        """``(1/d) tr (P S P)^2``."""
        _, slope = self._far
        return float(slope[2] / (self.samples.ratio * self.strength))

    def _between(self, at: _At) -> Complex:
        """Return the resolvent between bt and the unit vector along ``theta - m bt``, shape (points, 2, 2)."""
        samples, known, law = self.samples, self.samples.spectrum, self.samples.law
        eta, t, u = self._eta, self.strength, law.projection
        gain, p, _ = at.unknown.T
        # With any l, theta = (l / eta) bt + P (Z^T (r - l u) / n_step - l delta C^-1 bt). This one makes all parts of
        # theta - m bt about as large as the whole, so that they do not lose digits.
        length, found = samples.off_teacher, float(known.teacher @ samples.kept)
        lost, taken = samples.linear * (1 - found), samples.ratio * float(known.share @ samples.kept)
        part = samples.linear * found + lost * taken
        r, directly = (law.residual - part * u) / length, samples.scale * lost * taken / length
        source = (lost * (1 - taken) - part * samples.damping / self._divisor) / length
        # The first of the two rows in units of p.
        inner, teacher = at.inner, known.teacher
        first, both, last = inner[:, :, 0, 0] / (p**2)[:, None], inner[:, :, 0, 1] / p[:, None], inner[:, :, 1, 1]
        moved, apart = source * p[:, None], -at.apart
        among = _symmetric(
            at.resolvent @ teacher,
            (apart * both * moved) @ teacher,
            (first * moved**2) @ teacher + gain * (at.one @ (law.weight * r**2)),
        )
        zero = np.zeros_like(gain)
        # Between the vectors and bt in either row, and the sums of the samples with their projection on it.
        with_bt = [(apart * both) @ teacher, (apart * last) @ teacher, zero, zero]
        along = law.weight * r * u
        with_it = [(moved * first) @ teacher, (moved * both) @ teacher]
        with_it += [p * ((1 - p[:, None] * at.one) @ along), -eta * gain * (at.one @ along)]
        across = np.stack([np.stack(with_bt, axis=-1), np.stack(with_it, axis=-1)], axis=1)
        # The square of a sample along bt is u^2. Along every other direction its mean is one.
        beside = law.weight * (1 - u**2)
        ones = at.one @ beside
        coupling = np.zeros((len(gain), 4, 4), dtype=complex)
        coupling[:, :2, :2] = _symmetric(first @ teacher, both @ teacher, last @ teacher)
        coupling[:, 2:, 2:] = _symmetric(t * p**2 * (at.weighed @ beside), -eta * p**2 * ones, -(eta**2) * gain * ones)
        coupling[:, :2, 2:] = coupling[:, 2:, :2] = np.eye(2)
        together = np.array([[1.0, directly], [0.0, 1.0]])
        return np.asarray(together.T @ (among - across @ np.linalg.inv(coupling) @ across.mT) @ together)


@dataclass(frozen=True)
class _Way:
    """Ways from far away to points in the upper half-plane: along the imaginary axis, then towards the real one.

    Attributes
    ----------
    size, angle : ndarray, shape (points,)
        Size of the points, and their angle to the real axis.
    turn, whole : ndarray, shape (points,)
        Length of the second part of the way, by halves of the angle, and of both; in logarithms.
    right : ndarray, shape (points,)
        Whether a point is right of the imaginary axis.
    """

    size: Array
    angle: Array
    turn: Array
    whole: Array
    right: NDArray[np.bool_]

    @classmethod
    def towards(cls, z: Complex, beginning: float) -> _Way:
        """Return the ways to points from a distance."""
        size, angle = np.abs(z), np.angle(z)
        near = np.minimum(angle, np.pi - angle)
        turn = np.log(np.pi / 2 / near)
        return cls(size, near, turn, turn + np.maximum(np.log(beginning / size), 0.0), angle <= np.pi / 2)

    def place(self, left: Array, chosen: NDArray[np.intp]) -> Complex:
        """Return where some of the ways are, by the length that is left of them."""
        turn = self.turn[chosen]
        angle = self.angle[chosen] * np.exp(np.minimum(left, turn))
        angle = np.where(self.right[chosen], angle, np.pi - angle)
        return np.asarray(self.size[chosen] * np.exp(np.maximum(left - turn, 0.0) + 1j * angle))


def _symmetric(a: Complex, b: Complex, d: Complex) -> Complex:
    """Return symmetric matrices of two rows."""
    return np.stack([np.stack([a, b], axis=-1), np.stack([b, d], axis=-1)], axis=-2)
