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

__all__ = ["DampedLaw"]

Array = NDArray[np.float64]
Complex = NDArray[np.complexfloating[Any, Any]]

#: Relative residual of the fixed point, and steps after which it is given up.
_TOLERANCE, _MAX_STEPS = 1e-12, 500
#: Points of a circle around each, over whose size it is small, from which a derivative is taken.
_AROUND, _RADIUS = 6, 5e-3
#: Points of a circle in 1/z from which moments are taken, and its radius times the mean of the law.
_FAR, _INVERSE_RADIUS = 8, 1e-4


class _Solved(NamedTuple):
    """The equations' solution at points z: matrices of shape (points, 2, 2), and H of (points, classes, 2, 2)."""

    gain: Complex
    weight: Complex
    inner: Complex


@dataclass(frozen=True)
class DampedLaw:
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
    def _eta(self) -> float:
        return 1 / self.samples.scale

    @cached_property
    def _weight(self) -> Array:
        return np.asarray(self.strength * self.samples.law.residual**2 / self.samples.law.square)

    def _of_samples(self, gain: Complex) -> tuple[Complex, Complex, Complex]:
        """Return ``1/Delta`` and ``s/Delta`` at the nodes, and ``1 - eta Gamma_12``, of the samples' blocks."""
        p = 1 - self._eta * gain[:, 0, 1]
        s = self._weight - (self._eta**2 * gain[:, 1, 1])[:, None]
        one = 1 / ((p**2)[:, None] + gain[:, 0, 0, None] * s)
        return one, s * one, p

    def _known(self, gain: Complex, z: Complex) -> tuple[Complex, Complex, Complex]:
        """Return ``Y``, ``H(c)`` and the mean of ``Y_w (x) Y_w`` on symmetric matrices."""
        eta, share = self._eta, self.samples.law.weight
        one, s, p = self._of_samples(gain)
        first, g = one @ share, gain[:, 0, 0]
        weight = _symmetric(s @ share, -eta * p * first, -(eta**2) * g * first)
        ss, s_one, one_one = (s * s) @ share, (s * one) @ share, (one * one) @ share
        y11, y12, y22 = ss, -eta * p * s_one, eta**2 * p**2 * one_one
        across = -(eta**2) * g * s_one + y22
        last, lowest = eta**3 * p * g * one_one, eta**4 * g**2 * one_one
        products = np.stack(
            [
                np.stack([y11, 2 * y12, y22], axis=-1),
                np.stack([y12, across, last], axis=-1),
                np.stack([y22, 2 * last, lowest], axis=-1),
            ],
            axis=1,
        )
        c = self.samples.spectrum.eigenvalue
        x, far = (1 - eta) / c, c - z[:, None]
        a, b = weight[:, 0, 0, None], x - weight[:, 0, 1, None]
        corner = weight[:, 1, 1, None] * far - 1
        inverse = 1 / (a * corner - b**2 * far)
        inner = _symmetric(corner * inverse, b * far * inverse, a * far * inverse)
        return weight, inner, products

    def _solve(self, z: Complex) -> _Solved:
        """Return the solution at points in the upper half-plane.

        Docs, "Correlated inputs", equation (C12).

        Raises
        ------
        NotConverged
            If the fixed point is not found.
        """
        share, phi0 = self.samples.spectrum.share, self.samples.ratio
        gain = np.zeros((len(z), 2, 2), dtype=complex)
        units = np.array([[[1, 0], [0, 0]], [[0, 1], [1, 0]], [[0, 0], [0, 1]]], dtype=float)
        for step in range(_MAX_STEPS):
            weight, inner, products = self._known(gain, z)
            following = phi0 * np.einsum("c,zcij->zij", share, inner)
            gap = following - gain
            # Each entry in its own unit: they differ by powers of the damping.
            size = np.sqrt(np.abs(following[:, [0, 0, 1], [0, 0, 1]] * following[:, [0, 1, 1], [0, 1, 1]]))
            off = np.abs(gap[:, [0, 0, 1], [0, 1, 1]]) / size
            if step and np.all(off <= _TOLERANCE):
                return _Solved(gain, weight, inner)
            turned = phi0 * np.einsum("c,zcij,kjl,zcml->zimk", share, inner, units, inner)
            outer = turned[:, [0, 0, 1], [0, 1, 1]]
            jacobian = np.eye(3) - outer @ products
            vector = gap[:, [0, 0, 1], [0, 1, 1], None]
            move = np.linalg.solve(jacobian, vector)[..., 0]
            newton = gain + _symmetric(move[:, 0], move[:, 1], move[:, 2])
            imaginary = newton.imag
            inside = (imaginary[:, 0, 0] > 0) & (np.linalg.det(imaginary) > 0)
            gain = np.where((inside & (step > 3))[:, None, None], newton, gain + gap * (1.0 if step == 0 else 0.5))
        raise NotConverged(
            "the law of the rows after a damped step", float(off.max()), _TOLERANCE, "Change the damping or the step."
        )

    def _resolvent(self, solved: _Solved, z: Complex) -> Complex:
        """Return ``Q(c)``, shape (points, classes)."""
        far = self.samples.spectrum.eigenvalue - z[:, None]
        return np.asarray(1 / far + solved.inner[:, :, 1, 1] / far**2)

    def transform(self, z: Complex) -> tuple[Complex, Complex]:
        """Return the Stieltjes transform of the spectral law and its derivative."""
        share = self.samples.spectrum.share
        return _with_slope(lambda points: self._resolvent(self._solve(points), points) @ share, z)

    def diagonals(self, z: Complex) -> tuple[Array, Array]:
        """Return the parts of eigenvectors of A near an eigenvalue in the classes of C, and ``P S P`` along them.

        Docs, "Correlated inputs", equation (C8).

        Returns
        -------
        part : ndarray, shape (points, classes)
            At least zero, of sum one.
        sampled : ndarray, shape (points,)
        """
        known = self.samples.spectrum
        found = self._resolvent(self._solve(z), z)
        density = (found * known.share).imag
        whole = density.sum(axis=1)
        added = ((1 + (z[:, None] - known.eigenvalue) * found) @ known.share).imag
        return density / whole[:, None], added / whole / self.strength

    def between(self, z: Complex, frame: Array) -> tuple[Complex, Complex]:
        """Return the resolvent between vectors and its derivative, shape (points, vectors, vectors).

        Docs, "Correlated inputs", equation (C13).

        Parameters
        ----------
        z : ndarray, shape (points,)
        frame : ndarray, shape (2, vectors)
            The vectors, as columns, in terms of bt and ``theta = P g``.
        """
        found, slope = _with_slope(self._between, z)
        return frame.T @ found @ frame, frame.T @ slope @ frame

    def average(self, frame: Array) -> Array:
        """Return A itself between the vectors of `between`."""
        return np.asarray(frame.T @ self._moments(self._between)[0] @ frame)

    def sampled_along(self, frame: Array) -> Array:
        """Return ``P S P`` between the vectors of `between`."""
        covariance = frame.T @ self.samples.among(1) @ frame
        return np.asarray((self.average(frame) - covariance) / self.strength)

    @cached_property
    def sampled_square(self) -> float:
        """``(1/d) tr (P S P)^2``."""
        known, t = self.samples.spectrum, self.strength
        share = known.share
        _, square = self._moments(lambda z: (self._resolvent(self._solve(z), z) @ share)[:, None, None])
        crossed = 2 * t * self.samples.trace(known.eigenvalue)
        return (float(square[0, 0]) - known.moment(2) - crossed) / t**2

    def _moments(self, function: Any) -> tuple[Array, Array]:
        """Return the moments of degree one and two of a law, from its transform far away."""
        angle = np.exp(1j * np.pi * (np.arange(_FAR // 2) + 0.5) / (_FAR // 2))
        z = self.mean / _INVERSE_RADIUS * angle
        values = -function(z)
        point = z[:, None, None]
        zeroth = (values * point).real.mean(axis=0)
        first = (values * point**2).real.mean(axis=0)
        second = ((values * point - zeroth) * point**2).real.mean(axis=0)
        return first, second

    def _between(self, z: Complex) -> Complex:
        """Return the resolvent between bt and theta, shape (points, 2, 2)."""
        solved = self._solve(z)
        samples, known, law = self.samples, self.samples.spectrum, self.samples.law
        p_node, u, r, eta = law.weight, law.projection, law.residual, self._eta
        teacher, far, inner = known.teacher, known.eigenvalue - z[:, None], solved.inner
        one, s, p = self._of_samples(solved.gain)
        g = solved.gain[:, 0, 0]
        mu = samples.linear
        among = _symmetric(
            (1 / far + inner[:, :, 1, 1] / far**2) @ teacher,
            -mu * (inner[:, :, 1, 0] / far) @ teacher,
            mu**2 * inner[:, :, 0, 0] @ teacher + g * (one @ (p_node * r**2)),
        )
        zero = np.zeros_like(g)
        # Between the vectors and bt in either place, and the sums of the samples with their projection on it.
        own = [1 - p[:, None] * one, -eta * g[:, None] * one]
        across = np.stack(
            [
                np.stack([-(inner[:, :, 1, j] / far) @ teacher for j in (0, 1)] + [zero, zero], axis=-1),
                np.stack(
                    [mu * inner[:, :, 0, j] @ teacher for j in (0, 1)] + [each @ (p_node * r * u) for each in own],
                    axis=-1,
                ),
            ],
            axis=1,
        )
        alone = np.array([[p_node @ (self._weight * u**2), -eta], [-eta, 0.0]])
        left = _symmetric(
            s @ (p_node * u**2), -eta * p * (one @ (p_node * u**2)), -(eta**2) * g * (one @ (p_node * u**2))
        )
        inside = np.zeros((len(z), 4, 4), dtype=complex)
        inside[:, :2, :2] = np.einsum("c,zcij->zij", teacher, inner)
        inside[:, 2:, 2:] = alone - left
        coupling = np.zeros_like(inside)
        coupling[:, :2, :2] = alone - solved.weight
        coupling[:, :2, 2:] = coupling[:, 2:, :2] = np.eye(2)
        dressed = np.linalg.solve(np.eye(4) + coupling @ inside, coupling)
        return np.asarray(among - across @ dressed @ across.mT)


def _symmetric(a: Complex, b: Complex, d: Complex) -> Complex:
    """Return symmetric matrices of two rows."""
    return np.stack([np.stack([a, b], axis=-1), np.stack([b, d], axis=-1)], axis=-2)


def _with_slope(function: Any, z: Complex) -> tuple[Complex, Complex]:
    """Return an analytic function at points and its derivative, by Cauchy's formula on small circles around them."""
    turn = np.exp(2j * np.pi * np.arange(_AROUND) / _AROUND)
    radius = _RADIUS * np.abs(z)
    around = z[:, None] + radius[:, None] * turn
    values = function(around.ravel())
    values = values.reshape(len(z), _AROUND, *values.shape[1:])
    mean = values.mean(axis=1)
    slope = np.einsum("k,zk...->z...", turn.conj() / _AROUND, values)
    return mean, slope / radius.reshape(-1, *(1,) * (slope.ndim - 1))
