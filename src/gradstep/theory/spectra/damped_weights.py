r"""Equations of the first layer's bulk after a damped step, and of its resolvent between the vectors of the spike.

In the inputs' own coordinates a row becomes ``(1 + a k P B) w_i(0)``, plus noise of the covariance ``a^2 t P S P / d``
and the spike. ``P = (1 + delta) (X^T X / n_step + delta)^-1`` is made of the samples that ``B`` and ``S`` weigh by r
and by ``r^2 / E r^2``. Leaving out a row gives the bulk's resolvent

    R = (p_0 - z + p_1 k (PB + BP) + p_2 (k^2 P B^2 P + t P S P))^-1,    p_j = (1/d) sum_i a_i^j / (1 + M_i),

with ``M_i = s_0 + 2 a_i s_1 + a_i^2 s_2``, the traces over d of R and of what the ``p_j`` multiply in it. As in
`gradstep.theory.step.damped_law` R is a block of the inverse of a matrix that is linear in the samples, here

    [[p_0 - p_1^2 / p_2 - z,  p_1 / p_2,   0,        1     ],
     [ p_1 / p_2,            -1 / p_2,     k B,      0     ],
     [ 0,                     k B,         t p_2 S, -P^-1  ],
     [ 1,                     0,          -P^-1,     0     ]],

and leaving out a sample closes its last three rows. If nothing is stretched, k = 0, the second one is left out.
Every readout has its own law of rows here, so that nothing is approximated. This project.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradstep.theory.spectra.spike import Direction, Rectangular, Spike
from gradstep.theory.spectra.stieltjes import averaged_tail
from gradstep.theory.step.damped_law import between_parts, sample_parts
from gradstep.theory.step.damped_samples import DampedSamples

__all__ = ["DampedWeightEquations"]

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]

#: Least variance that the step adds, of which the equations have the limit at zero.
_WEAKEST = 1e-60
#: Steps of Newton's method far from the spectrum, where the equations are almost linear.
_FIRST_STEPS = 8


class _Sums(NamedTuple):
    """Sums of the equations at given unknowns.

    Attributes
    ----------
    traces : ndarray, shape (powers,)
        ``s_0``, ``s_1`` and ``s_2``.
    gain : ndarray, shape (rows, rows)
        ``Gamma``.
    by_rows : ndarray, shape (3,)
        ``p_0``, ``p_1`` and ``p_2``.
    apart : complex
        ``R_0``, one over the first entry of the matrix.
    parts : ndarray, shape (3, rows, rows)
        Coefficients of the powers of r in ``Delta K (1 + Gamma K)^-1``.
    inverse : ndarray, shape (nodes,)
        ``1 / Delta``.
    once, squares : ndarray, shape (3,), (5,)
        Means of powers of r over ``Delta`` and over its square.
    weight : ndarray, shape (rows, rows)
        ``Y``.
    inner : ndarray, shape (classes, rows, rows)
        ``H(c)``.
    to_first : ndarray, shape (rows,)
        What couples the rows to the first one, ``(p_1 / p_2, 0, 1)``.
    """

    traces: Complex
    gain: Complex
    by_rows: Complex
    apart: complex
    parts: Complex
    inverse: Complex
    once: Complex
    squares: Complex
    weight: Complex
    inner: Complex
    to_first: Complex


class _Changes(NamedTuple):
    """Derivatives of the sums in the traces, in the entries of Gamma and in z.

    Attributes
    ----------
    gain, weight : ndarray, shape (unknowns + 1, rows, rows)
    strength, apart : ndarray, shape (unknowns + 1,)
        The first is that of ``t p_2 / E r^2``.
    to_first : ndarray, shape (unknowns + 1, rows)
    inner : ndarray, shape (unknowns + 1, classes, rows, rows)
    """

    gain: Complex
    strength: Complex
    weight: Complex
    apart: Complex
    to_first: Complex
    inner: Complex


@dataclass(frozen=True)
class DampedWeightEquations(Rectangular):
    """The equations, for `gradstep.theory.spectra.stieltjes`.

    The unknowns are ``M`` at the readouts zero and plus (and minus) their root mean square, and Gamma by its diagonal
    and by its values at sums of two unit vectors: all of them have positive imaginary parts.

    Docs, "Spectra", equations (Z8c) and (Z8d).

    Attributes
    ----------
    weight : ndarray, shape (values,)
        Weights of the readout's values.
    powers : ndarray, shape (powers, values)
        Powers of these: zero and two, and one if the samples stretch the rows.
    samples : DampedSamples
    omega : ndarray, shape (nodes,)
        ``r^2 / E r^2`` at the nodes of the samples' law, in the matrices B and S.
    aspect : float
        ``N / d``.
    linear : float
        ``k = e E[z sigma']``.
    added : float
        ``t``, the variance that the step adds to a row of readout one for each unit of ``P S P``, without k.
    """

    weight: Array
    powers: Array
    samples: DampedSamples
    omega: Array
    aspect: float
    linear: float
    added: float

    @property
    def top(self) -> float:
        """A bound from the largest row."""
        samples, square = self.samples, float(self.omega.max())
        delta = samples.damping
        largest = float(samples.spectrum.eigenvalue.max()) * (1 + math.sqrt(samples.ratio)) ** 2
        # The largest eigenvalue of P X^T X P / n_step.
        metric = samples.scale**2 * min(delta, largest) / (min(delta, largest) + delta) ** 2
        stretched = 2 * self.linear**2 * samples.law.square * largest * metric
        row = 2 + float(self.powers[-1].max()) * square * (stretched + self.added * metric)
        return 4 * row * (1 + math.sqrt(self.aspect)) ** 2

    @property
    def energy(self) -> Array:
        """Share of each value of the readout of its mean square."""
        square = self.weight * self.powers[-1]
        return np.asarray(square / square.sum())

    @property
    def taken(self) -> Array:
        """The mean factor by which ``P X^T X / n_step`` multiplies an initial row, in each class of directions."""
        return np.asarray(self.samples.scale * self.samples.kept)

    @property
    def initial_square(self) -> float:
        """Mean square of the initial rows along the readout, multiplied by `taken`."""
        return float(self.samples.spectrum.share @ self.taken**2)

    @property
    def classes(self) -> int:
        """Number of the classes of the inputs' directions."""
        return len(self.samples.spectrum.share)

    def averaged(self, share: float) -> DampedWeightEquations:
        """Return the equations with shares of the rows and of the samples averaged where their laws end."""
        powers = averaged_tail(self.weight, self.powers[-1], self.powers.T, share).T
        omega = averaged_tail(self.samples.law.weight, self.omega, self.omega, share)
        return replace(self, powers=powers, omega=omega)

    @property
    def _stretched(self) -> bool:
        return self.linear != 0

    @property
    def _rows(self) -> int:
        return 3 if self._stretched else 2

    @property
    def _strength(self) -> float:
        """``t / E r^2``."""
        return max(self.added, _WEAKEST) / self.samples.law.square

    @cached_property
    def _residual(self) -> Array:
        """Residuals of the samples of B and S, or their sizes where signs make no difference."""
        sizes = np.sqrt(self.omega * self.samples.law.square)
        return np.copysign(sizes, self.samples.law.residual) if self._stretched else sizes

    @cached_property
    def _weighed(self) -> Array:
        """Powers 0 to 4 of the residuals with the weights of the nodes, shape (5, nodes)."""
        return np.asarray(self.samples.law.weight * self._residual ** np.arange(5)[:, None])

    @cached_property
    def _places(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Rows and columns of the entries of Gamma."""
        row, column = np.array(list(combinations_with_replacement(range(self._rows), 2))).T
        return row, column

    @cached_property
    def _multiple(self) -> Array:
        """How often each trace is in ``M``."""
        return np.array([1.0, 2.0, 1.0] if self._stretched else [1.0, 1.0])

    @cached_property
    def _forms(self) -> Array:
        """The unknowns as forms of the traces and of the entries of Gamma."""
        size = math.sqrt(float(self.weight @ self.powers[-1] / self.weight.sum()))
        by_trace = np.array([[1.0, 0.0, 0.0], [1.0, 2 * size, size**2], [1.0, -2 * size, size**2]])
        if not self._stretched:
            by_trace = by_trace[:2, ::2]
        count, (row, column) = len(self.powers), self._places
        forms = np.zeros((count + len(row), count + len(row)))
        forms[:count, :count] = by_trace
        diagonal = {int(i): count + k for k, (i, j) in enumerate(zip(row, column, strict=True)) if i == j}
        for k, (i, j) in enumerate(zip(row.tolist(), column.tolist(), strict=True)):
            if i == j:
                forms[count + k, count + k] = 1.0
            else:
                forms[count + k, [diagonal[i], diagonal[j], count + k]] = 1.0, 1.0, 2.0
        return forms

    @cached_property
    def _entries(self) -> Array:
        """The traces and the entries of Gamma as forms of the unknowns."""
        return np.asarray(np.linalg.inv(self._forms), dtype=np.float64)

    def start(self, z: complex) -> Complex:
        """Return the logarithms of the unknowns for a large ``z``."""
        samples, rows = self.samples, self._rows
        share, kept, f = samples.spectrum.share, samples.kept, samples.freedom
        p, y = samples.ridge / samples.damping, rows - 2
        second = float(self.aspect * self.weight @ self.powers[-1])
        mean = samples.law.mean(self._residual)
        by_step = self.added * samples.bulk_trace
        gain = np.zeros((rows, rows), dtype=complex)
        gain[y, y] = samples.ratio * (p * samples.scale) ** 2 / (1 - f) * float(share @ (kept**2 / samples.divisor))
        gain[y, y] /= -z
        gain[y, -1] = gain[-1, y] = (1 - p) * samples.scale
        gain[-1, -1] = -max(self.added, _WEAKEST) * second * f * samples.scale**2 / (1 - f)
        traces = [1.0, by_step]
        if self._stretched:
            gain[0, 0] = -second * samples.ratio
            pairs = float(share @ samples.pairs) * mean**2 + samples.ratio * samples.law.square * samples.bulk_trace
            # Without the eigenvalues of C beside them these are the right size.
            traces = [1.0, self.linear * mean * float(share @ self.taken), by_step + self.linear**2 * pairs]
        known = np.concatenate([np.array(traces) / -z, gain[self._places]])
        for _ in range(_FIRST_STEPS):
            found, slopes = self._found(self._sums(z, known))
            known = known + np.linalg.solve(np.eye(len(known)) - slopes[:, :-1], found - known)
        return np.asarray(np.log(self._forms @ known))

    def _at(self, z: complex, state: Complex) -> _Sums:
        """Return the sums of a state."""
        return self._sums(z, np.asarray(self._entries @ np.exp(state)))

    def _sums(self, z: complex, known: Complex) -> _Sums:
        """Return the sums at given traces and entries of Gamma."""
        count = len(self.powers)
        traces, gain = known[:count], np.empty((self._rows, self._rows), dtype=complex)
        row, column = self._places
        gain[row, column] = gain[column, row] = known[count:]
        rows = self.powers @ (self.aspect * self.weight / (1 + (self._multiple * traces) @ self.powers))
        by_rows = rows if self._stretched else np.array([rows[0], 0.0, rows[1]])
        p0, p1, p2 = by_rows
        apart = 1 / (p0 - p1**2 / p2 - z)
        eta, samples = 1 / self.samples.scale, self.samples
        delta, all_parts = sample_parts(gain[None], eta, self.linear, self._strength * p2)
        parts = np.asarray(all_parts[0], complex)
        inverse = 1 / (delta[0] @ self._residual ** np.arange(3)[:, None])
        once, squares = self._weighed[:3] @ inverse, self._weighed @ inverse**2
        weight = np.tensordot(once, parts, 1)
        still, to_first = self._still(by_rows, apart)
        inner = np.asarray(np.linalg.inv(samples.spectrum.eigenvalue[:, None, None] * weight + still), complex)
        return _Sums(traces, gain, by_rows, apart, parts, inverse, once, squares, weight, inner, to_first)

    def _still(self, by_rows: Complex, apart: complex) -> tuple[Complex, Complex]:
        """Return what the first row leaves of the others without the samples, and what couples them to it."""
        _, p1, p2 = by_rows
        to_first = np.array([p1 / p2, 0.0, 1.0])
        still = -apart * np.outer(to_first, to_first)
        still[0, 0] -= 1 / p2
        still[1, 2] = still[2, 1] = -self.samples.damping / self.samples.scale
        first = 3 - self._rows
        return still[first:, first:], to_first[first:]

    def newton(self, z: complex, state: Complex) -> tuple[Complex, Complex, Complex]:
        """Return the gap, Newton's step and the tangent in z."""
        sums = self._at(z, state)
        known = np.concatenate([sums.traces, sums.gain[self._places]])
        found, slopes = self._found(sums)
        forms, unknowns = self._forms @ found, self._forms @ known
        change = self._forms @ slopes / forms[:, None]
        gap = np.log(forms / unknowns)
        matrix = np.eye(len(known)) - (change[:, : len(known)] @ self._entries) * unknowns
        step, tangent = np.linalg.solve(matrix, np.stack([gap, change[:, -1]], axis=1)).T
        return gap, step, tangent

    def _found(self, sums: _Sums) -> tuple[Complex, Complex]:
        """Return traces and entries of Gamma by the equations, and their derivatives in the same and in z.

        Returns
        -------
        found : ndarray, shape (unknowns,)
        slopes : ndarray, shape (unknowns, unknowns + 1)
        """
        changes = self._changes(sums)
        ratio, (row, column) = self.samples.ratio, self._places
        weights = ratio * self.samples.spectrum.share * self.samples.spectrum.eigenvalue
        gain, d_gain = _means(weights, sums.inner), _means(weights, changes.inner)
        traces, d_traces = self._traces(sums, changes)
        found = np.concatenate([traces, gain[row, column]])
        return found, np.concatenate([d_traces, d_gain[:, row, column].T])

    def _changes(self, sums: _Sums) -> _Changes:
        """Return the derivatives of the sums."""
        (row, column), count, rows = self._places, len(self.powers), self._rows
        size, y, c = count + len(row) + 1, rows - 2, self.samples.spectrum.eigenvalue
        gain = np.zeros((size, rows, rows), dtype=complex)
        places = count + np.arange(len(row))
        gain[places, row, column] = gain[places, column, row] = 1.0
        by_rows = np.zeros((3, size), dtype=complex)
        left = self.aspect * self.weight / (1 + (self._multiple * sums.traces) @ self.powers) ** 2
        by_rows[:: 1 if self._stretched else 2, :count] = -(left * self.powers) @ self.powers.T * self._multiple
        # The samples.
        by_strength = -sums.gain[y, y] * np.tensordot(sums.squares[2:], sums.parts, 1)
        by_strength[y, y] += sums.once[2]
        strength = self._strength * by_rows[2]
        weight = np.asarray(-between_parts(sums.parts[None], gain, sums.squares[None, None])[:, 0], complex)
        weight += strength[:, None, None] * by_strength
        # The first row.
        _, p1, p2 = sums.by_rows
        rho, h, first = p1 / p2, sums.apart, sums.to_first
        apart = -(h**2) * (by_rows[0] - rho * (2 * by_rows[1] - rho * by_rows[2]))
        apart[-1] = h**2
        to_first = np.zeros((size, rows), dtype=complex)
        if self._stretched:
            to_first[:, 0] = (by_rows[1] - rho * by_rows[2]) / p2
        turned = to_first[:, :, None] * first
        still = -apart[:, None, None] * np.outer(first, first) - h * (turned + turned.mT)
        if self._stretched:
            still[:, 0, 0] += by_rows[2] / p2**2
        inner = -sums.inner @ (c[:, None, None] * weight[:, None] + still[:, None]) @ sums.inner
        return _Changes(gain, strength, weight, apart, to_first, inner)

    def _traces(self, sums: _Sums, changes: _Changes) -> tuple[Complex, Complex]:
        """Return the traces, shape (powers,), and their derivatives, shape (powers, unknowns + 1)."""
        share, h, first, y = self.samples.spectrum.share, sums.apart, sums.to_first, self._rows - 2
        mean, d_mean = _means(share, sums.inner), _means(share, changes.inner)
        form, d_form = first @ mean @ first, (d_mean @ first) @ first + 2 * changes.to_first @ (mean @ first)
        s0, d_s0 = h + h**2 * form, changes.apart * (1 + 2 * h * form) + h**2 * d_form
        # The noise of the samples along the rows.
        factor, square = self._strength / self.samples.ratio, sums.gain[y, y]
        noise = factor * square * sums.once[2]
        bend = np.einsum("pij,sij->sp", sums.parts, changes.gain)
        bend[:, 2] += square * changes.strength
        d_noise = factor * (changes.gain[:, y, y] * sums.once[2] - square * (bend @ sums.squares[2:]))
        if not self._stretched:
            return np.array([s0, noise]), np.stack([d_s0, d_noise])
        # As products with Y, which lose no digits far from the spectrum.
        c = self.samples.spectrum.eigenvalue
        once, d_once = _means(share * c, sums.inner), _means(share * c, changes.inner)
        twice, d_twice = _means(share * c**2, sums.inner), _means(share * c**2, changes.inner)
        own, d_own = sums.weight[0], changes.weight[:, 0]
        across = own @ once @ first
        d_across = (d_own @ once + own @ d_once) @ first + changes.to_first @ (own @ once)
        s1, d_s1 = -h * across, -changes.apart * across - h * d_across
        d_s2 = (own @ d_twice) @ own + 2 * d_own @ (twice @ own) - d_own[:, 0]
        s2 = own @ twice @ own - own[0]
        return np.array([s0, s1, s2 + noise]), np.stack([d_s0, d_s1, d_s2 + d_noise])

    def transform(self, state: Complex, tangent: Complex) -> tuple[complex, complex]:
        """Return the Stieltjes transform of ``W^T W`` and its derivative."""
        value = complex(np.exp(state[0]))
        return value, value * complex(tangent[0])

    def readout_resolvent(self, z: complex, state: Complex) -> tuple[complex, complex, complex]:
        """Return ``h``, ``k1`` and ``k2`` of equation (Z7).

        Docs, "Spectra", equation (Z8e).
        """
        sums, share, taken = self._at(z, state), self.samples.spectrum.share, self.taken
        turned = sums.inner @ sums.to_first
        resolvent = sums.apart + sums.apart**2 * (turned @ sums.to_first)
        total = 1 + (self._multiple * sums.traces) @ self.powers
        once, twice = share @ (taken * resolvent), share @ (taken**2 * resolvent)
        if self._stretched:
            stretched = -sums.apart * (turned @ sums.weight[0])
            once = once + self.powers[1] * ((share * self.samples.spectrum.eigenvalue * taken) @ stretched)
        h, k1, k2 = self.energy @ np.stack([-1 / (z * total), once / total, twice - once**2 / total], axis=1)
        return complex(h), complex(k1), complex(k2)

    def spike_resolvent(self, z: complex, state: Complex, spike: Spike) -> tuple[complex, complex, complex]:
        """Return the resolvent between the spike's direction and itself, the teacher's and the gradient's.

        Docs, "Spectra", equation (Z8f).
        """
        between = self._between(z, state)

        def of(vector: Direction) -> Array:
            return np.array([vector.fixed[0], vector.sampled])

        v = of(spike.direction) @ between
        along, teacher, gradient = (
            complex(v @ of(other)) for other in (spike.direction, spike.teacher, spike.gradient)
        )
        return along, teacher, gradient

    def _between(self, z: complex, state: Complex) -> Complex:
        """Return the resolvent between the teacher's direction and the other part of theta, shape (2, 2).

        The first is ``C^(-1/2) bt``, and the second is what `DampedSamples.sources` says that P is applied to.
        """
        sums, rows, samples = self._at(z, state), self._rows, self.samples
        (_, _, source, summed, _), c, teacher = samples.sources, samples.divisor, samples.spectrum.teacher
        law, y = samples.law, rows - 2
        inner = samples.spectrum.eigenvalue[:, None, None] * sums.inner
        turned = -sums.apart * (sums.inner @ sums.to_first)
        resolvent = sums.apart + sums.apart**2 * ((sums.inner @ sums.to_first) @ sums.to_first)
        # Means over the samples, given u and r.
        value = self._residual
        left = law.weight * sums.inverse
        weights = np.stack([(1 - law.projection**2) * left * value**power for power in range(3)])
        beside = np.tensordot(weights.sum(axis=1), sums.parts, 1)
        seen = np.array([(summed * law.projection * left) @ value**power for power in range(3)])
        crossed = sums.gain[y] @ np.tensordot(seen, sums.parts, 1)
        own = sums.gain[y, y] * (left @ summed**2)
        by_both = (teacher * source) @ turned[:, y]
        among = np.array(
            [[teacher @ (resolvent / c), by_both], [by_both, (teacher * source**2) @ inner[:, y, y] + own]]
        )
        sides = np.zeros((2, 2 * rows), dtype=complex)
        sides[0, :rows], sides[1, :rows], sides[1, rows:] = teacher @ turned, (teacher * source) @ inner[:, y], crossed
        one = np.eye(rows)
        change = np.block([[np.tensordot(teacher, inner, 1), one], [one, beside]])
        return np.asarray(among - sides @ np.linalg.solve(change, sides.T))


def _means(weights: Array, inner: Complex) -> Complex:
    """Return sums over the classes, the last axis but two."""
    return np.asarray(np.einsum("c,...cij->...ij", weights, inner))
