r"""Equations of the first layer's bulk after a step, and of its resolvent between the vectors of the spike.

In the inputs' own coordinates a row becomes ``(1 + a k P B) w_i(0)``, plus noise of the covariance ``a^2 t P S P / d``
and the spike. ``B`` and ``S`` are the covariance of the step's samples, weighed by r and by ``r^2 / E r^2``. A damped
step multiplies its gradient by ``P = (1 + delta) (X^T X / n_step + delta)^-1``, made of the same samples; in a plain
one P is one. Leaving out a row gives the bulk's resolvent

    R = (p_0 - z + p_1 k (PB + BP) + p_2 (k^2 P B^2 P + t P S P))^-1,    p_j = (1/d) sum_i a_i^j / (1 + M_i),

with ``M_i = s_0 + 2 a_i s_1 + a_i^2 s_2``, the traces over d of R and of what the ``p_j`` multiply in it. R is a block
of the inverse of a matrix that is linear in the samples. Its blocks are f, y, x and l, and with ``v = (-p_1, 1)`` in
the first two it is

    [[p_0 - z,  0,     0,        1     ],
     [ 0,       0,     k B,      0     ],      -  v v^T / p_2 .
     [ 0,       k B,   t p_2 S, -P^-1  ],
     [ 1,       0,    -P^-1,     0     ]]

In a plain step x is f, and there is no l. If nothing is stretched, k = 0, there is no y. Leaving out a sample closes
the blocks that hold samples. Every readout has its own law of rows here, so that nothing is approximated. This project.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradstep.theory.spectra.spike import SampleNodes, Spike
from gradstep.theory.spectra.stieltjes import averaged_tail, in_half_plane
from gradstep.theory.step.correlated_samples import Spectrum
from gradstep.theory.step.damped_law import (
    PRODUCT_POWERS,
    WEAKEST,
    reciprocal_parts,
    sample_parts,
    square_of_parts,
    sums_of_parts,
)
from gradstep.theory.step.damped_samples import DampedSamples

__all__ = ["SpikeResolvent", "WeightEquations"]

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]

#: Steps of Newton's method far from the spectrum, where the equations are almost linear.
_FIRST_STEPS = 8
#: What an imaginary part may be beyond its bound.
_ROUNDING = 1e-7


class SpikeResolvent(NamedTuple):
    """The bulk's resolvent between the vectors of a spike."""

    between: Complex  #: Between the spike's direction, the teacher's and the gradient's. Shape (3, 3).
    #: It vanishes at an eigenvalue that the bulk has by itself along the directions of the samples' projections.
    determinant: complex


class _Sums(NamedTuple):
    """Sums of the equations at given unknowns."""

    traces: Complex  # ``s_0``, ``s_1`` and ``s_2``, shape (powers,).
    gain: Complex  # ``Gamma``, shape (sampled, sampled).
    by_rows: Complex  # ``p_0``, ``p_1`` and ``p_2``, shape (3,).
    parts: Complex  # Coefficients of the powers of r in ``Delta K (1 + Gamma K)^-1``, shape (3, sampled, sampled).
    inverse: Array  # Real and imaginary parts of ``1 / Delta``, shape (2, nodes).
    once: Complex  # Means of powers of r over ``Delta``, shape (3,).
    squares: Complex  # Means of powers of r over the square of ``Delta``, shape (5,).
    weight: Complex  # ``Y``, zero where there are no samples, shape (rows, rows).
    inner: Complex  # ``H(c)``, shape (classes, rows, rows).


class _Changes(NamedTuple):
    """Derivatives of the sums in the traces, in the entries of ``<c H>`` and in z."""

    strength: Complex  # Derivatives of ``t p_2 / E r^2``, shape (unknowns + 1,).
    weight: Complex  # Derivatives of `weight`, shape (unknowns + 1, blocks, blocks).
    inner: Complex  # Derivatives of `inner`, shape (unknowns + 1, classes, blocks, blocks).


class _Blocks(NamedTuple):
    """Places of the blocks f, y, x and l, of which a plain step has no l and takes x for f."""

    all: int  # Number of blocks.
    sampled: int  # Number of the blocks that hold samples, which are the last ones.
    f: int  # Place of f among all blocks.
    y: int  # Place of y among all blocks.
    sampled_x: int  # Place of x among the blocks that hold samples.
    seen: slice  # The blocks that hold samples.

    @classmethod
    def of(cls, *, stretched: bool, damped: bool) -> _Blocks:
        """Return the places for rows that are stretched or not."""
        x, first = int(stretched), int(damped)
        sampled = x + 1 + first
        return cls(sampled + first, sampled, 0 if damped else x, first, x, slice(first, None))


class _Unknowns(NamedTuple):
    """The state, for which Newton's method solves, as functions of the traces and of the entries of ``<c H>``."""

    # Shape (powers, powers): values of ``M`` as forms of the traces, and the other way round.
    forms: Array
    traces: Array
    # Shape (entries,): rows and columns of the entries of ``<c H>``. Those of its diagonal come first.
    row: NDArray[np.intp]
    column: NDArray[np.intp]
    size: int  # Number of rows of ``<c H>``.
    # Shape (others,): what an entry off the diagonal is divided by. Zero stands for the root of the product of the two
    # entries of the diagonal beside it.
    unit: Array
    units: Array  # Matrices that are one in an entry and zero elsewhere, shape (entries, size, size).
    multiple: Array  # How often each entry is in a symmetric matrix, shape (entries,).

    @classmethod
    def of(cls, forms: Array, size: int, last: float) -> _Unknowns:
        """Return them for some values of ``M`` and some number of rows, with the unit of the last entry."""
        places, diagonal = np.triu_indices(size, 1), np.arange(size)
        row, column = (np.concatenate([diagonal, other]) for other in places)
        units, entry = np.zeros((len(row), size, size)), np.arange(len(row))
        units[entry, row, column] = units[entry, column, row] = 1.0
        unit = np.zeros(len(row) - size)
        unit[-1:] = last
        return cls(
            forms, np.asarray(np.linalg.inv(forms), np.float64), row, column, size, unit, units, units.sum(axis=(1, 2))
        )

    @property
    def _logarithms(self) -> int:
        return len(self.forms) + self.size

    def _ends(self, state: Complex) -> tuple[Complex, Complex]:
        """Return the two entries of the diagonal beside each other entry."""
        diagonal = state[len(self.forms) : self._logarithms]
        return diagonal[self.row[self.size :]], diagonal[self.column[self.size :]]

    def _units(self, state: Complex) -> Complex:
        """Return what the other entries are divided by."""
        one, other = self._ends(state)
        return np.where(self.unit == 0, np.exp((one + other) / 2), self.unit)

    def matrix(self, known: Complex) -> Complex:
        """Return ``<c H>``."""
        matrix = np.empty((self.size, self.size), dtype=complex)
        matrix[self.row, self.column] = matrix[self.column, self.row] = known[len(self.forms) :]
        return matrix

    def state(self, known: Complex) -> Complex:
        """Return the state of traces and entries."""
        count, last = len(self.forms), self._logarithms
        # Negative numbers are reached from above.
        logarithms = np.log(-1j * np.concatenate([self.forms @ known[:count], known[count:last]])) + 0.5j * np.pi
        return np.concatenate([logarithms, known[last:] / self._units(logarithms)])

    def known(self, state: Complex) -> Complex:
        """Return the traces and entries of a state."""
        count, last = len(self.forms), self._logarithms
        values = np.exp(state[:last])
        return np.concatenate([self.traces @ values[:count], values[count:], state[last:] * self._units(state)])

    def gap(self, found: Complex, state: Complex) -> Complex:
        """Return what the state of other traces and entries is beyond a state, on the same branch of the logarithms."""
        count, last = len(self.forms), self._logarithms
        values = np.concatenate([self.forms @ found[:count], found[count:last]])
        gap = np.concatenate([np.log(values / np.exp(state[:last])), -state[last:]])
        gap[last:] += found[last:] / self._units(state + gap)
        return gap

    def slopes(self, known: Complex, state: Complex) -> Complex:
        """Return the derivatives of the state in traces and entries."""
        count, last = len(self.forms), self._logarithms
        slopes = np.zeros((len(state), len(state)), dtype=complex)
        slopes[:count, :count] = self.forms * np.exp(-state[:count, None])
        diagonal, others = np.arange(count, last), np.arange(last, len(state))
        slopes[diagonal, diagonal] = 1 / known[count:last]
        if len(others):
            slopes[others, others] = 1 / self._units(state)
            half = np.where(self.unit == 0, -state[last:] / 2, 0.0)
            for places in (self.row[self.size :], self.column[self.size :]):
                slopes[others, count + places] = half / known[count + places]
        return slopes

    def positive(self, state: Complex) -> bool:
        """Tell whether ``M`` and ``<c H>``, two rows at a time, have positive imaginary parts, up to rounding."""
        last = self._logarithms
        if not in_half_plane(state[:last]):
            return False
        ends = self._ends(state)
        turned = state[last:] * self._units(state) * np.exp(-(ends[0].real + ends[1].real) / 2)
        bound = np.sqrt(np.maximum(np.sin(ends[0].imag) * np.sin(ends[1].imag), 0.0))
        return bool((np.abs(turned.imag) <= bound + _ROUNDING * (1 + np.abs(turned))).all())


@dataclass(frozen=True)
class WeightEquations:
    """The equations, for `gradstep.theory.spectra.stieltjes`.

    The unknowns are ``M`` at the readouts zero and plus (and minus) their root mean square, and ``<c H>`` by the
    logarithms of its diagonal and by its other entries over the roots of these: so are all of order one where the
    resolvent diverges, at the hard edge of a square layer.

    Docs, "Spectra", equations (Z6) and (Z6a).
    """

    weight: Array  #: Weights of the readout's values, shape (values,).
    powers: Array  #: Powers of these: zero and two, and one if the samples stretch the rows. Shape (powers, values).
    samples: SampleNodes
    spectrum: Spectrum  #: Classes of the inputs' directions.
    #: ``N / d``, and ``phi_0 = d / n_step``, zero for an isotropic rest.
    aspect: float
    ratio: float
    linear: float  #: ``k = e E[z sigma']``.
    #: ``t``, the variance that the step adds to a row of readout one for each unit of ``P S P``, without k.
    added: float
    damped: DampedSamples | None = None  #: What makes P.
    #: What the step takes of the initial rows along the readout in each class, for each unit of the spike's `shrink`;
    #: by default as `taken`. If the spike holds the mean row, it is what the step makes of that row. Shape (classes,).
    returned: Array | None = None

    @property
    def mass(self) -> float:
        """Share of non-zero eigenvalues."""
        return min(self.aspect, 1.0)

    @property
    def hard_edge(self) -> bool:
        """Whether the spectrum may reach zero.

        It does in a square layer. It also may without noise along the rows, which is what a quadratic activation has:
        rows of one readout are then all multiplied by the same matrix, which may have a spectrum about zero.
        """
        return self.aspect == 1 or (self._stretched and self.added == 0)

    @property
    def top(self) -> float:
        """A bound from the largest row."""
        largest = float(self.spectrum.eigenvalue.max()) * (1 + math.sqrt(self.ratio)) ** 2
        # The largest eigenvalue of P X^T X P / n_step.
        at = min(largest, (1 - self._eta) / self._eta) if self._eta else largest
        metric = at / (self._eta * at + 1 - self._eta) ** 2
        size, square = math.sqrt(float(self.powers[-1].max())), float((self._residual**2).max())
        row = (1 + size * abs(self.linear) * math.sqrt(square * largest * metric)) ** 2
        row += size**2 * self.added * metric * float(self.samples.omega.max())
        return 4 * row * (1 + math.sqrt(self.aspect)) ** 2

    @property
    def energy(self) -> Array:
        """Share of each value of the readout of its mean square."""
        square = self.weight * self.powers[-1]
        return np.asarray(square / square.sum())

    @cached_property
    def taken(self) -> Array:
        """The mean factor by which ``P X^T X / n_step`` multiplies an initial row, in each class of directions."""
        return self.spectrum.eigenvalue if self.damped is None else np.asarray(self.damped.scale * self.damped.kept)

    @property
    def initial_square(self) -> float:
        """Mean square of the initial rows along the readout, multiplied by `returned`."""
        return float(self.spectrum.share @ self._returned**2)

    @property
    def _returned(self) -> Array:
        return self.taken if self.returned is None else self.returned

    def averaged(self, share: float) -> WeightEquations:
        """Return the equations with shares of the rows and of the samples averaged where their laws end."""
        # Rows and samples of either sign are apart where they are stretched by their sign.
        samples, size, weighed = self.samples, self.powers[-1], self.samples.omega
        if self._stretched:
            size, weighed = self.powers[1], self._residual
        powers = averaged_tail(self.weight, size, self.powers.T, share).T
        omega = averaged_tail(samples.weight, weighed, samples.omega, share)
        return replace(self, powers=powers, samples=samples._replace(omega=omega))

    @property
    def _stretched(self) -> bool:
        return self.linear != 0

    @cached_property
    def _eta(self) -> float:
        """``1 / (1 + delta)``."""
        return 0.0 if self.damped is None else 1 / self.damped.scale

    @cached_property
    def _blocks(self) -> _Blocks:
        return _Blocks.of(stretched=self._stretched, damped=self.damped is not None)

    @cached_property
    def _strength(self) -> float:
        """``t / E r^2``."""
        return max(self.added, WEAKEST) / self.samples.square

    @cached_property
    def _residual(self) -> Array:
        """Residuals of the samples of B and S, or their sizes where signs make no difference."""
        sizes = np.sqrt(self.samples.omega * self.samples.square)
        return np.copysign(sizes, self.samples.residual) if self._stretched else sizes

    @cached_property
    def _nodes(self) -> tuple[Array, Array]:
        """Powers 0 to 2 of the residuals, and powers 0 to 4 with the weights of the nodes, as columns."""
        powers = self._residual ** np.arange(5)[:, None]
        return powers[:3].copy(), np.ascontiguousarray((self.samples.weight * powers).T)

    @cached_property
    def _shares(self) -> Array:
        """Weights of the means over the classes of matrices times powers of c, shape (3, classes)."""
        return np.asarray(self.spectrum.share * self.spectrum.eigenvalue ** np.arange(3)[:, None])

    @cached_property
    def _multiple(self) -> Array:
        """How often each trace is in ``M``."""
        return np.array([1.0, 2.0, 1.0] if self._stretched else [1.0, 1.0])

    @cached_property
    def _unknowns(self) -> _Unknowns:
        size = math.sqrt(float(self.weight @ self.powers[-1] / self.weight.sum()))
        values = np.array([0.0, size, -size] if self._stretched else [0.0, size])
        powers = np.arange(3) if self._stretched else np.array([0, 2])
        # Between x and l the matrix is of the size of its limit far from the spectrum, also at a hard edge.
        unit = 0.0 if self.damped is None else abs(self._sampled_far)
        return _Unknowns.of(self._multiple * values[:, None] ** powers, self._blocks.sampled, unit)

    @property
    def _sampled_far(self) -> float:
        """``<c H>`` between x and l far from the spectrum."""
        assert self.damped is not None
        return (1 - self.damped.ridge / self.damped.damping) * self.damped.scale / self.ratio

    def matters(self, state: Complex) -> Array:
        """Return one for each unknown: all are of order one."""
        return np.ones(len(state))

    def physical(self, state: Complex) -> bool:
        """Tell whether the unknowns have positive imaginary parts, up to rounding."""
        return self._unknowns.positive(state)

    def start(self, z: complex) -> Complex:
        """Return the state for a large ``z``."""
        known = self._far(z)
        for _ in range(_FIRST_STEPS):
            found, slopes = self._found(self._sums(z, known))
            known = known + np.linalg.solve(np.eye(len(known)) - slopes[:, :-1], found - known)
        return self._unknowns.state(known)

    def _far(self, z: complex) -> Complex:
        """Return roughly the traces and the entries of ``<c H>`` for a large ``z``."""
        x, size, samples, known = self._blocks.sampled_x, self._blocks.sampled, self.samples, self.damped
        share, added = self.spectrum.share, max(self.added, WEAKEST)
        second, mean = float(self.aspect * self.weight @ self.powers[-1]), float(samples.weight @ self._residual)
        gain = np.zeros((size, size), dtype=complex)
        gain[x, x], trace, pairs = 1.0, 1.0, self.spectrum.moment(2)
        if known is not None:
            p, f = known.ridge / known.damping, known.freedom
            gain[x, x] = (p * known.scale) ** 2 / (1 - f) * float(share @ (known.kept**2 / known.divisor))
            gain[x, -1] = gain[-1, x] = self._sampled_far
            gain[-1, -1] = -added * second * f * known.scale**2 / (1 - f) / self.ratio
            trace, pairs = known.bulk_trace, float(share @ known.pairs)
        gain[x, x] /= -z
        traces = [1.0, added * trace]
        if self._stretched:
            gain[0, 0] = -second
            square = pairs * mean**2 + self.ratio * samples.square * trace
            # Without the eigenvalues of C beside them these are the right size.
            traces = [1.0, self.linear * mean * float(share @ self.taken), added * trace + self.linear**2 * square]
        return np.concatenate([np.array(traces) / -z, gain[self._unknowns.row, self._unknowns.column]])

    def _at(self, z: complex, state: Complex) -> _Sums:
        """Return the sums of a state."""
        return self._sums(z, self._unknowns.known(state))

    def _sums(self, z: complex, known: Complex) -> _Sums:
        """Return the sums at given traces and entries of ``<c H>``."""
        traces, blocks = known[: len(self.powers)], self._blocks
        gain = self._unknowns.matrix(known)
        size = np.abs(np.diagonal(gain))
        gain = self.ratio * gain
        rows = self.powers @ (self.aspect * self.weight / (1 + (self._multiple * traces) @ self.powers))
        by_rows = rows if self._stretched else np.array([rows[0], 0.0, rows[1]])
        delta, parts = self._sample(gain, self._strength * by_rows[2])
        powers, weighed = self._nodes
        inverse = reciprocal_parts(delta, powers)
        once = np.asarray(sums_of_parts(inverse, weighed[:, :3]), complex)
        squares = np.asarray(sums_of_parts(square_of_parts(inverse), weighed), complex)
        weight = np.zeros((blocks.all, blocks.all), dtype=complex)
        weight[blocks.seen, blocks.seen] = (once @ parts.reshape(3, -1)).reshape(gain.shape)
        # Entries differ by many powers of ten at a hard edge.
        scale = np.sqrt(size if blocks.all == blocks.sampled else np.append(abs(traces[0]), size))
        matrix = self.spectrum.eigenvalue[:, None, None] * weight + self._still(z, by_rows)
        scales = np.outer(scale, scale)
        inner = np.asarray(np.linalg.inv(matrix * scales) * scales, complex)
        return _Sums(traces, gain, by_rows, parts, inverse, once, squares, weight, inner)

    def _sample(self, gain: Complex, strength: complex) -> tuple[Complex, Complex]:
        """Return the coefficients of the powers of r in ``Delta``, and in ``Delta K (1 + Gamma K)^-1``."""
        size = len(gain)
        if self.damped is None:
            # A damped step with eta = 0, without its last block.
            padded = np.zeros((size + 1, size + 1), dtype=complex)
            padded[:size, :size] = gain
            gain = padded
        delta, parts = sample_parts(gain[None], self._eta, self.linear, strength)
        return np.asarray(delta[0], complex), np.asarray(parts[0, :, :size, :size], complex)

    def _still(self, z: complex, by_rows: Complex) -> Complex:
        """Return the part of the matrix that holds no samples."""
        (f, y), (p0, p1, p2) = (self._blocks.f, self._blocks.y), by_rows
        still = np.zeros((self._blocks.all, self._blocks.all), dtype=complex)
        still[f, f] = p0 - z
        if self._stretched:
            still[f, f] -= p1**2 / p2
            still[f, y] = still[y, f] = p1 / p2
            still[y, y] = -1 / p2
        if self.damped is not None:
            still[f, -1] = still[-1, f] = 1.0
            still[-2, -1] = still[-1, -2] = -(1 - self._eta)
        return still

    @property
    def at_once(self) -> int:
        """Number of points of `newton`."""
        return 1

    def newton(self, z: complex, state: Complex) -> tuple[Complex, Complex, Complex]:
        """Return the gap, Newton's step and the tangent in z."""
        unknowns = self._unknowns
        known = unknowns.known(state)
        found, slopes = self._found(self._sums(z, known))
        gap, here = unknowns.gap(found, state), unknowns.slopes(known, state)
        # Next to the solution the state's slopes are those at what is found, too.
        there = here @ slopes
        moved = np.linalg.solve(here - there[:, :-1], np.array([gap, there[:, -1]]).T)
        step, tangent = (here @ moved).T
        return gap, step, tangent

    def _found(self, sums: _Sums) -> tuple[Complex, Complex]:
        """Return traces and entries of ``<c H>`` by the equations, and their derivatives in the same and in z.

        The first have shape (unknowns,), and the derivatives (unknowns, unknowns + 1).
        """
        blocks, (row, column) = self._blocks, (self._unknowns.row, self._unknowns.column)
        f, y, x, seen = blocks.f, blocks.y, blocks.sampled_x, blocks.seen
        changes = self._changes(sums)
        means, d_means = self._means(sums.inner), self._means(changes.inner)
        here, d_here = means[1][seen, seen], d_means[1][:, seen, seen]
        # The noise of the samples along the rows.
        noise = self._strength * here[x, x] * sums.once[2]
        bend = np.zeros((len(changes.strength), 3), dtype=complex)
        bend[len(self.powers) : -1] = self.ratio * (self._unknowns.multiple * sums.parts[:, row, column]).T
        bend[:, 2] += sums.gain[x, x] * changes.strength
        d_noise = self._strength * (d_here[:, x, x] * sums.once[2] - here[x, x] * (bend @ sums.squares[2:]))
        traces, d_traces = [means[0][f, f], noise], [d_means[0][:, f, f], d_noise]
        if self._stretched:
            # As products with Y, which lose no digits far from the spectrum.
            own, d_own = sums.weight[y], changes.weight[:, y]
            twice = own @ means[2]
            traces = [traces[0], own @ means[1][:, f], twice @ own - own[y] + noise]
            d_s1 = d_own @ means[1][:, f] + d_means[1][:, f] @ own
            d_traces = [d_traces[0], d_s1, (d_means[2] @ own) @ own + 2 * d_own @ twice - d_own[:, y] + d_noise]
        found = np.concatenate([traces, here[row, column]])
        return found, np.concatenate([d_traces, d_here[:, row, column].T])

    def _changes(self, sums: _Sums) -> _Changes:
        """Return the derivatives of the sums."""
        blocks, count, unknowns = self._blocks, len(self.powers), self._unknowns
        x, seen, size = blocks.sampled_x, blocks.seen, count + len(unknowns.row) + 1
        by_rows = np.zeros((3, size), dtype=complex)
        left = self.aspect * self.weight / (1 + (self._multiple * sums.traces) @ self.powers) ** 2
        by_rows[:: 1 if self._stretched else 2, :count] = -(left * self.powers) @ self.powers.T * self._multiple
        strength, flat = self._strength * by_rows[2], sums.parts.reshape(3, -1)
        by_strength = -sums.gain[x, x] * (sums.squares[2:] @ flat).reshape(sums.parts.shape[1:])
        by_strength[x, x] += sums.once[2]
        weight = np.zeros((size, blocks.all, blocks.all), dtype=complex)
        weight[:, seen, seen] = strength[:, None, None] * by_strength
        # Means of X E X, for E one in an entry of Gamma and zero elsewhere.
        other = (sums.squares[PRODUCT_POWERS] @ flat).reshape(sums.parts.shape)
        moved = (sums.parts[:, None] @ unknowns.units @ other[:, None]).sum(axis=0)
        weight[count:-1, seen, seen] -= self.ratio * moved
        still = (by_rows.T @ self._still_slopes(sums.by_rows).reshape(3, -1)).reshape(weight.shape)
        still[-1, blocks.f, blocks.f] -= 1
        whole = self.spectrum.eigenvalue[:, None, None] * weight[:, None] + still[:, None]
        return _Changes(strength, weight, -sums.inner @ whole @ sums.inner)

    def _still_slopes(self, by_rows: Complex) -> Complex:
        """Return the derivatives of the part without samples in the ``p_j``, shape (3, blocks, blocks)."""
        (f, y), (_, p1, p2) = (self._blocks.f, self._blocks.y), by_rows
        slopes = np.zeros((3, self._blocks.all, self._blocks.all), dtype=complex)
        slopes[0, f, f] = 1.0
        if self._stretched:
            rho = p1 / p2
            slopes[1, f, f], slopes[2, f, f], slopes[2, y, y] = -2 * rho, rho**2, 1 / p2**2
            slopes[1, f, y] = slopes[1, y, f] = 1 / p2
            slopes[2, f, y] = slopes[2, y, f] = -rho / p2
        return slopes

    def _means(self, inner: Complex) -> Complex:
        """Return means over the classes, the last axis but two, times the powers of c from 0 to 2, the first axis."""
        *others, classes, rows, _ = inner.shape
        flat = inner.reshape(-1, classes, rows * rows)
        return np.asarray((self._shares @ flat).swapaxes(0, 1).reshape(3, *others, rows, rows))

    def transform(self, state: Complex, tangent: Complex) -> tuple[complex, complex]:
        """Return the Stieltjes transform of ``W^T W`` and its derivative."""
        value = complex(np.exp(state[0]))
        return value, value * complex(tangent[0])

    def readout_resolvent(self, z: complex, state: Complex) -> tuple[complex, complex, complex]:
        """Return ``h``, ``k1`` and ``k2`` of equation (Z7).

        Docs, "Spectra", equation (Z8).
        """
        sums, share, taken, f = self._at(z, state), self.spectrum.share, self._returned, self._blocks.f
        total = 1 + (self._multiple * sums.traces) @ self.powers
        resolvent = sums.inner[:, f, f]
        once, twice = share @ (taken * resolvent), share @ (taken**2 * resolvent)
        if self._stretched:
            own, a = sums.weight[self._blocks.y], self.powers[1]
            once = once + a * ((share * self.spectrum.eigenvalue * taken) @ (sums.inner[:, f] @ own))
        h, k1, k2 = self.energy @ np.stack([-1 / (z * total), once / total, twice - once**2 / total], axis=1)
        return complex(h), complex(k1), complex(k2)

    def spike_resolvent(self, z: complex, state: Complex, spike: Spike) -> SpikeResolvent:
        """Return the resolvent between the spike's direction, the teacher's and the gradient's.

        Docs, "Spectra", equation (Z8a).
        """
        sums, samples, part, blocks = self._at(z, state), self.samples, spike.part, self._blocks
        c, x, seen = self.spectrum.eigenvalue, blocks.sampled_x, blocks.seen
        vectors = (spike.direction, spike.teacher, spike.gradient)
        rows = np.zeros((3, *part.shape, blocks.all), dtype=complex)
        rows[..., blocks.f] += np.stack([vector.outer for vector in vectors])
        rows[..., seen][..., x] += np.sqrt(c) * np.stack([vector.inner for vector in vectors])
        made = np.einsum("vfci,fc,cij->vfcj", rows, part, sums.inner)
        # Means over the samples, given their projections and residuals.
        sampled = np.array([vector.sampled for vector in vectors])
        left = samples.weight * (sums.inverse[0] + 1j * sums.inverse[1]) * self._residual ** np.arange(3)[:, None]
        seen_by = np.einsum("i,pij,fp->fj", sums.gain[x], sums.parts, (samples.projection * samples.summed) @ left.T)
        among = np.einsum("vfcj,wfcj->vw", made, rows)
        among += np.outer(sampled, sampled) * sums.gain[x, x] * (left[0] @ samples.summed**2)
        spread = np.einsum("fn,gn,pn->fgp", samples.projection, samples.projection, left)
        spread += np.einsum("fg,p->fgp", np.diag(samples.spread), left.sum(axis=1))
        lost = np.einsum("fg,p->fgp", np.eye(len(part)), left.sum(axis=1)) - spread
        fixed, size = len(part) * blocks.sampled, 2 * len(part) * blocks.sampled
        change = np.eye(size, k=fixed) + np.eye(size, k=-fixed) + 0j
        own = np.einsum("fc,cij->fij", part * c, sums.inner[:, seen, seen])
        change[:fixed, :fixed] = np.einsum("fg,fij->figj", np.eye(len(part)), own).reshape(fixed, fixed)
        change[fixed:, fixed:] = np.einsum("fgp,pij->figj", lost, sums.parts).reshape(fixed, fixed)
        by_class = np.einsum("vfcj,c->vfj", made[..., seen], np.sqrt(c)).reshape(3, fixed)
        sides = np.concatenate([by_class, np.outer(sampled, seen_by.ravel())], axis=1)
        between = among - sides @ np.linalg.solve(change, sides.T)
        return SpikeResolvent(between, complex((-1) ** fixed * np.linalg.det(change)))
