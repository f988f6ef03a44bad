r"""The law of a row's covariance after a damped step, ``A = C + k (PBC + CBP) + q^2 PBCBP + t PSP``.

``P`` is the damped metric in whitened inputs (`gradstep.theory.step.damped_samples`), and ``B`` and ``S`` are the
samples of the step, weighted by ``r`` and by ``r^2 / E r^2``. All three are made of the same samples. A row of readout
``a`` has the covariance ``L C L^T + a^2 t PSP`` with ``L = 1 + a k P B``, so that ``q = a k``; means over several
readouts have a larger ``q``. For an odd activation both are zero. With ``eta = 1 / (1 + delta)`` and ``rho = k / q``
the resolvent ``(A - z)^-1`` is a block of the inverse of

    [[(1 - rho^2) C - z,  rho,    0,      1     ],
     [ rho,              -C^-1,   q B,    0     ],
     [ 0,                 q B,    t S,   -P^-1  ],
     [ 1,                 0,     -P^-1,   0     ]],    P^-1 = eta Z^T Z / n_step + (1 - eta) C^-1,

which is linear in the samples. Each adds the block ``K = [[0, q r, 0], [q r, t w, -eta], [0, -eta, 0]]`` to the last
three rows. One sample left out at a time closes the equations with matrices of this size,

    H(c) = (L(c) + Y)^-1,    Y = E[K (1 + Gamma K)^-1],    Gamma = phi0 <H(c)>,

where ``L(c)`` is what the first row leaves of the others. If nothing is stretched the first of the three is left out.
K has rank two, so that ``K (1 + Gamma K)^-1`` is a parabola in r over another one, ``Delta``. This project.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradstep.errors import NotConverged
from gradstep.theory.step.damped_samples import DampedSamples, ResidualRule
from gradstep.theory.step.row_law import RowLaw

__all__ = [
    "PRODUCT_POWERS",
    "WEAKEST",
    "DampedLaw",
    "DampedPoints",
    "reciprocal_parts",
    "sample_parts",
    "square_of_parts",
    "sums_of_parts",
]

Array = NDArray[np.float64]
Complex = NDArray[np.complexfloating[Any, Any]]

#: Relative residual of the fixed point, the same with few nodes for the samples, and steps after which it is given up.
_TOLERANCE, _ROUGH, _MAX_STEPS = 1e-12, 1e-5, 40
#: How often the distance from the real axis is doubled to find where to start.
_DOUBLINGS = 12
#: What counts as zero of an imaginary part, over the number itself, and of the least eigenvalue of such parts.
_ROUNDING, _SINGULAR = 1e-12, 1e-6
#: Points of half a circle from which means are taken, and its radius over the size of the law and over its largest
#: eigenvalues, those of single samples: what is outside of the circle is missing in the means.
_FAR, _FAR_RADIUS, _TAIL_RADIUS = 8, 100.0, 2.0
#: Least strength that another number is divided by.
WEAKEST = 1e-60


class _Places(NamedTuple):
    """Where the entries of symmetric matrices are, and the map ``E -> sum X E Y`` among them."""

    # Shape (entries,): the row and the column of each entry.
    row: NDArray[np.intp]
    column: NDArray[np.intp]
    entry: NDArray[np.intp]  # The number of each entry, shape (rows, rows).
    # Shape (entries, entries): entries of X and of Y, in flat matrices, of which the map is made.
    left: NDArray[np.intp]
    right: NDArray[np.intp]
    left_again: NDArray[np.intp]
    right_again: NDArray[np.intp]
    twice: Array  # Shape (entries,): one off the diagonal, zero on it.

    @classmethod
    def of(cls, rows: int) -> _Places:
        """Return the places in matrices of this size."""
        row, column = np.array(list(combinations_with_replacement(range(rows), 2))).T
        entry = np.empty((rows, rows), dtype=np.intp)
        entry[row, column] = entry[column, row] = np.arange(len(row))
        a, b, c, d = row[:, None], column[:, None], row, column
        places = a * rows + c, d * rows + b, a * rows + d, c * rows + b
        return cls(row, column, entry, *places, (row != column).astype(float))

    def between(self, products: Complex) -> Complex:
        """Return the map, from sums of products of the entries of X with those of Y, (points, entries, entries)."""
        once = products[:, self.left, self.right]
        return np.asarray(once + self.twice * products[:, self.left_again, self.right_again])


_places = lru_cache(_Places.of)
#: Powers of r in the products of two parabolas.
PRODUCT_POWERS = np.add.outer(range(3), range(3))


@dataclass(frozen=True)
class DampedPoints:
    """The solution at points z, with derivatives in z."""

    gain: Complex  #: ``Gamma``, shape (points, rows, rows).
    #: Shape (points, classes, 1 + rows, 1 + rows): the inverse with the first row. The row of y has there what P adds
    #: to its mean p, and not P.
    apart: Complex
    metric: Array  #: ``p``, shape (classes,).
    inverse: Array  #: Real and imaginary parts of ``1 / Delta``, shape (2, points, nodes).
    parts: Complex  #: Coefficients of the powers of r in ``Delta K (1 + Gamma K)^-1``, shape (points, 3, rows, rows).
    sampled: Array  #: Powers of r at the nodes, with their weights, shape (nodes, 5).
    weights: Array  #: Weights of the mean over the classes that is Gamma, shape (classes,).

    def part(self, chosen: slice) -> DampedPoints:
        """Return some of the points, which do not keep the memory of the others."""
        gain, apart, parts = (each[chosen].copy() for each in (self.gain, self.apart, self.parts))
        return replace(self, gain=gain, apart=apart, parts=parts, inverse=self.inverse[:, chosen].copy())

    @cached_property
    def whole(self) -> Complex:
        """The inverse with the first row, shape (points, classes, 1 + rows, 1 + rows)."""
        return _with_mean_metric(self.apart, self.metric)

    @property
    def resolvent(self) -> Complex:
        """``Q(c)``, shape (points, classes)."""
        return self.whole[..., 0, 0]

    @property
    def turned(self) -> Complex:
        """Entries of the inverse between the first row and each other one, shape (points, classes, rows)."""
        return self.whole[..., 0, 1:]

    @property
    def inner(self) -> Complex:
        """``H(c)``, shape (points, classes, rows, rows)."""
        return self.whole[..., 1:, 1:]

    @cached_property
    def squares(self) -> Complex:
        """Means of powers of r over the square of ``Delta``, shape (points, 5)."""
        return sums_of_parts(square_of_parts(self.inverse), self.sampled)

    @cached_property
    def gap(self) -> Complex:
        """What Gamma lacks of the mean of H."""
        return np.asarray(_mean(self.inner, self.weights) - self.gain)

    @cached_property
    def _sizes(self) -> Array:
        """Sizes of the entries of Gamma, shape (points, entries)."""
        places = _places(self.gain.shape[-1])
        sizes = np.abs(self.gain[:, places.row, places.column])
        root = np.sqrt(sizes[:, np.diagonal(places.entry)])
        return np.asarray(np.maximum(sizes, root[:, places.row] * root[:, places.column]))

    @cached_property
    def missed(self) -> float:
        """The largest entry of the gap over its size."""
        places = _places(self.gain.shape[-1])
        return float((np.abs(self.gap[:, places.row, places.column]) / self._sizes).max())

    @cached_property
    def _bend(self) -> Complex:
        """What a change of Gamma changes of the gap, with another sign, shape (points, entries, entries)."""
        places, (count, classes, *_) = _places(self.gain.shape[-1]), self.inner.shape
        flat, flat_parts = self.inner.reshape(count, classes, -1), self.parts.reshape(count, 3, -1)
        of_inner = places.between((flat * self.weights[:, None]).mT @ flat)
        of_weight = places.between(flat_parts.mT @ self.squares[:, PRODUCT_POWERS] @ flat_parts)
        return np.asarray(np.eye(len(places.row)) - of_inner @ of_weight)

    def _solved(self, aim: Complex) -> Complex:
        """Return the change of Gamma that changes the gap by so much, shape (points, rows, rows)."""
        places, sizes = _places(self.gain.shape[-1]), self._sizes
        bend = self._bend * (sizes[:, None] / sizes[..., None])
        aims = aim[:, places.row, places.column] / sizes
        return np.asarray((np.linalg.solve(bend, aims[..., None])[..., 0] * sizes)[:, places.entry])

    @property
    def newton(self) -> Complex:
        """Gamma after a step of Newton's method."""
        return self.gain + self._solved(self.gap)

    @cached_property
    def d_gain(self) -> Complex:
        """The derivative of Gamma."""
        return self._solved((self.turned * self.weights[:, None]).mT @ self.turned)

    @cached_property
    def d_whole(self) -> Complex:
        """The derivative of the inverse with the first row."""
        return _with_mean_metric(self.d_apart, self.metric)

    @cached_property
    def d_apart(self) -> Complex:
        """The derivative of `apart`."""
        change: Complex = np.zeros((len(self.gain), 1, *self.apart.shape[-2:]), dtype=complex)
        change[..., 0, 0] = 1
        change[..., 1:, 1:] = _between_parts(self.parts, self.d_gain, self.squares[:, None])
        change = np.repeat(change, len(self.metric), axis=1)
        change[..., 0, :] += self.metric[:, None] * change[..., -2, :]
        change[..., 0] += self.metric[:, None] * change[..., -2]
        return np.asarray(self.apart @ change @ self.apart)

    @property
    def d_resolvent(self) -> Complex:
        """The derivative of Q."""
        return self.d_whole[..., 0, 0]

    @property
    def d_inner(self) -> Complex:
        """The derivative of H."""
        return self.d_whole[..., 1:, 1:]


class _SampleSums(NamedTuple):
    """Sums of the samples beside the vectors of a law, and beside the change along bt."""

    among: Complex  # The resolvent before the change, shape (points, 2, sums).
    sides: Complex  # As in the law's `_blocks`, shape (points, sums, 2 rows).


class _Vectors(NamedTuple):
    """Vectors between which a law is known."""

    # Shape (vectors, directions, classes): the component along each direction that residuals depend on, over that of
    # the direction, with the mean of P.
    mean: Array
    # Shape (vectors, directions, classes): what P is multiplied by in that component. P has its mean and a rest.
    inner: Array
    sums: Array  # The part of each along P times the sum of samples in theta, shape (vectors,).


class _Means(NamedTuple):
    """Means over a sample of some weight times the powers 1 to 3 of the residual."""

    # Shape (points, 3): over ``Delta``, and the same times the residual.
    lowest: Complex
    next: Complex
    parts: Complex  # Times ``K (1 + Gamma K)^-1``, shape (points, 3, rows, rows).


@dataclass(frozen=True)
class DampedLaw(RowLaw[DampedPoints]):
    """The covariance of rows after a damped step, of one readout or in the mean over several."""

    samples: DampedSamples
    strength: float  #: ``t``, the variance that the step adds per unit of ``P S P``, without what its linear part adds.
    #: ``k``, of the readout's sign, and ``q``: zero if the step stretches no rows.
    linear: float = 0.0
    root: float = 0.0

    @property
    def stretched(self) -> bool:
        """Whether the samples of the step stretch the rows."""
        return self.root != 0

    @cached_property
    def mean(self) -> float:
        """``(1/d) tr A``."""
        if self.samples.plain.by_output is None or not self.root:
            return self._mean
        z = self._far
        return float(-(self.transform(z)[0] * z**2).real.mean())

    @property
    def _mean(self) -> float:
        """``(1/d) tr A`` from formulas in which B has one mean for all classes."""
        samples, share = self.samples, self.samples.spectrum.share
        own, pairs = samples.bulk_trace, float(share @ samples.pairs)
        r, square = samples.mean_over_classes, samples.law.square
        stretched = 2 * self.linear * r * float(share @ samples.stretch[0])
        return 1 + stretched + self.root**2 * (r**2 * pairs + samples.ratio * square * own) + self.strength * own

    @property
    def _added(self) -> float:
        """``t``, of which the equations have the limit at zero."""
        return max(self.strength, WEAKEST)

    @property
    def _eta(self) -> float:
        return 1 / self.samples.scale

    @property
    def _ratio(self) -> float:
        """``rho``."""
        return self.linear / self.root if self.root else 0.0

    @property
    def _rows(self) -> int:
        """Rows after the first one."""
        return 3 if self.root else 2

    @property
    def _rules(self) -> tuple[ResidualRule, ResidualRule]:
        """Rules for a sample's residual, of few nodes and of all; without a stretch its sign makes no difference."""
        return self.samples.rules if self.root else self.samples.unsigned_rules

    def _sampled(self, gain: Complex) -> tuple[Complex, Complex]:
        """Return `sample_parts` at given unknowns."""
        return sample_parts(gain, self._eta, self.root, self._added / self.samples.law.square)

    @cached_property
    def _metric(self) -> Array:
        """``p``, the mean of P in each class of directions."""
        share = self.samples.damping * self._eta
        return np.asarray(1 / (share / self.samples.ridge + share / self.samples.divisor))

    def _apart(self, weight: Complex, z: Complex) -> Complex:
        """Return the inverse with the first row from ``Y``, shape (points, classes, 1 + rows, 1 + rows).

        The row of y has what P adds to its mean p: the first row gets p times it, and itself loses p times the first
        one of the inverse. A vector may have next to nothing along small eigenvalues of C because what it has without
        P and with P add up to nothing. There the resolvent is large, so that digits would be lost.

        The row of ``-1 / c`` is taken out first and the others follow by their adjugate. The first row alone would be
        no divisor: if all readouts are almost equal, then ``(1 - rho^2) c - z`` is next to zero at small z.
        """
        rho, known, size, p = self._ratio, self.samples, weight.shape[-1], self._metric
        y, last, share = size - 1, size, known.damping * self._eta
        square, cross, corner = weight[:, -2, -2, None], weight[:, -2, -1, None], weight[:, -1, -1, None]
        first = (1 - rho**2) * known.spectrum.eigenvalue - z[:, None] + p**2 * square
        to_y, one = p * square, p * (cross + share / known.ridge)
        cross = cross - share / known.divisor
        if self.root:
            own, own_y, own_last = (weight[:, 0, k, None] for k in range(3))
            own = own - 1 / known.divisor
            # `added` is the mean of a sum over samples, of which P makes less than of a fixed matrix.
            own_y = own_y + self.root * known.left * known.added
            to_own = rho + p * own_y
            by_first, by_y, by_last = to_own / own, own_y / own, own_last / own
            first, to_y, one = first - to_own * by_first, to_y - to_own * by_y, one - to_own * by_last
            square, cross, corner = square - own_y * by_y, cross - own_y * by_last, corner - own_last * by_last
        whole = np.empty((*first.shape, size + 1, size + 1), dtype=complex)
        whole[..., 0, 0] = square * corner - cross**2
        whole[..., 0, y] = one * cross - to_y * corner
        whole[..., 0, last] = to_y * cross - one * square
        whole[..., y, y], whole[..., last, last] = first * corner - one**2, first * square - to_y**2
        whole[..., y, last] = to_y * one - first * cross
        whole[..., y, 0], whole[..., last, 0] = whole[..., 0, y], whole[..., 0, last]
        whole[..., last, y] = whole[..., y, last]
        determinant = first * whole[..., 0, 0] + to_y * whole[..., 0, y] + one * whole[..., 0, last]
        whole /= determinant[..., None, None]
        if self.root:
            for k in (0, y, last):
                of_own = by_first * whole[..., 0, k] + by_y * whole[..., y, k] + by_last * whole[..., last, k]
                whole[..., 1, k] = whole[..., k, 1] = -of_own
            of_own = by_first * whole[..., 0, 1] + by_y * whole[..., y, 1] + by_last * whole[..., last, 1]
            whole[..., 1, 1] = 1 / own - of_own
        return whole

    def _equations(self, gain: Complex, z: Complex, rule: ResidualRule) -> DampedPoints:
        """Return the equations at given unknowns, with the samples of a rule."""
        delta, parts = self._sampled(gain)
        inverse = reciprocal_parts(delta, rule.powers[:3])
        weight = (sums_of_parts(inverse, rule.weighted[:, :3])[:, None] @ parts.reshape(len(z), 3, -1)).reshape(
            gain.shape
        )
        weights = self.samples.ratio * self.samples.spectrum.share
        return DampedPoints(gain, self._apart(weight, z), self._metric, inverse, parts, rule.weighted, weights)

    def _beginning(self, z: Complex) -> Complex:
        """Return the unknowns of a step that adds nothing, and of the last ones what is proportional to it."""
        eta, ratio, share, c = self._eta, self.samples.ratio, self.samples.spectrum.share, self.samples.divisor
        p, freedom = self.samples.ridge / self.samples.damping, self.samples.freedom
        apart = 1 / (self.samples.spectrum.eigenvalue - z[:, None])
        size = self._rows
        gain = np.zeros((len(z), size, size), dtype=complex)
        y, last = size - 2, size - 1
        gain[:, y, y] = ratio * (apart @ (share * self._metric**2)) / (1 - freedom)
        gain[:, y, last] = gain[:, last, y] = (1 - p) / eta
        gain[:, last, last] = -self._added * freedom / (eta**2 * (1 - freedom))
        if self.root:
            gain[:, 0, 0] = -ratio * (1 / (1 / c + self._ratio**2 * apart) @ share)
        return gain

    def _solve(self, z: Complex) -> DampedPoints:
        """Solve the equations, at the first points together with those far away."""
        far = self._far
        if z.tobytes() == far.tobytes():
            # Far away the beginning is close to the solution, and a few nodes for the samples would save nothing.
            with np.errstate(all="ignore"):
                points = self._approached(z, self._beginning(z), self._rules[1], _TOLERANCE)
            return points if points.missed <= _TOLERANCE else self._fixed_point(z)
        if far.tobytes() in self._solved:
            return self._fixed_point(z)
        both = self._fixed_point(np.concatenate([z, far]))
        self._solved[far.tobytes()] = both.part(slice(len(z), None))
        return both.part(slice(len(z)))

    def _fixed_point(self, z: Complex) -> DampedPoints:
        """Return the solution at points in the upper half-plane.

        The equations have other solutions too. The one that is meant is the only one with an imaginary part of Gamma
        that is positive as a matrix, because the equations map the set of such matrices into itself. Where Newton's
        method leaves this set, that map is taken instead. Raises `NotConverged` if the fixed point is not found.

        Docs, "Damped steps", equation (N2).
        """
        with np.errstate(all="ignore"):
            points = self._approached(z, self._roughly(z).gain, self._rules[1], _TOLERANCE)
        if not points.missed <= _TOLERANCE:
            advice = "Change the damping or the step."
            raise NotConverged("the law of the rows after a damped step", points.missed, _TOLERANCE, advice)
        return points

    def _roughly(self, z: Complex, doublings: int = _DOUBLINGS) -> DampedPoints:
        """Return the solution with few nodes for the samples.

        Where it is not found at once it is followed from points that are twice as far from the real axis: with as many
        samples as directions and hardly any damping, the step has a wide law, and what it starts from is far off.
        """
        rule = self._rules[0]
        points = self._approached(z, self._beginning(z), rule, _ROUGH)
        if points.missed <= _ROUGH or not doublings:
            return points
        above = self._roughly(z + 1j * z.imag, doublings - 1)
        ahead = above.gain - 1j * z.imag[:, None, None] * above.d_gain
        return self._approached(z, np.where(_positive(ahead)[:, None, None], ahead, above.gain), rule, _ROUGH)

    def _approached(self, z: Complex, gain: Complex, rule: ResidualRule, tolerance: float) -> DampedPoints:
        """Return the equations after steps towards the solution, as many as it takes or as there are."""
        for _ in range(_MAX_STEPS):
            points = self._equations(gain, z, rule)
            if points.missed <= tolerance:
                break
            newton = points.newton
            gain = np.where(_positive(newton)[:, None, None], newton, gain + points.gap)
        return points

    def transform(self, z: Complex) -> tuple[Complex, Complex]:
        """Return the Stieltjes transform of the spectral law and its derivative."""
        points, share = self.at(z), self.samples.spectrum.share
        return points.resolvent @ share, points.d_resolvent @ share

    def diagonals(self, z: Complex) -> tuple[Array, Array]:
        """Return the parts of eigenvectors of A near an eigenvalue in the classes of C, and ``P S P`` along them.

        It is for rows that are not stretched.

        The first have shape (points, classes), are at least zero and have the sum one; the second have shape (points,).

        Docs, "Bases of stretched rows", equation (B10).
        """
        share, points = self.samples.spectrum.share, self.at(z)
        density = (points.resolvent * share).imag
        whole = density.sum(axis=1)
        # t P S P times the resolvent is -H_last,last times 1 / (c - z).
        apart = 1 / (self.samples.spectrum.eigenvalue - z[:, None])
        added = -((apart * points.inner[..., -1, -1]) @ share).imag / self._added
        return density / whole[:, None], added / whole

    def between(self, z: Complex, frame: Array) -> tuple[Complex, Complex]:
        """Return the resolvent between vectors and its derivative, shape (points, vectors, vectors).

        The vectors are the columns of `frame`, shape (terms, vectors), in terms of bt and of the unit vector orthogonal
        to it of which ``theta = P g`` is made, and of ``f / |f|`` with an own output (`DampedSamples.among`).

        Docs, "Damped steps", equation (N4).
        """
        points, vectors = self.at(z), self._vectors(frame)
        among, sides, change = self._before_change(points, vectors)
        d_among, d_sides, d_change = self._blocks(
            vectors, points.d_apart, points.d_whole, self._d_by_samples(points), one=0.0
        )
        solved = np.linalg.solve(change, sides.mT).mT
        twice = d_sides @ solved.mT
        slope = d_among - twice - twice.mT + solved @ d_change @ solved.mT
        return among - sides @ solved.mT, np.asarray(slope)

    def products(self, z: Complex) -> tuple[Complex, Complex, Complex]:
        """Return the traces of the resolvent over d, and of C and ``q CBP`` times it, shape (points,) each.

        It is for rows that are stretched.

        Docs, "Damped steps", equation (N3).
        """
        points, share, c = self.at(z), self.samples.spectrum.share, self.samples.spectrum.eigenvalue
        plain, by_c = points.resolvent @ share, points.resolvent @ (share * c)
        return plain, by_c, points.turned[..., 0] @ share - self._ratio * by_c

    @property
    def product_means(self) -> Array:
        """The traces of C and ``q CBP`` themselves over d."""
        samples = self.samples
        return np.array([1.0, self.root * float(samples.spectrum.share @ (samples.mean_b * samples.stretch[0]))])

    def products_with_teacher(self, z: Complex) -> tuple[Complex, Complex, Complex]:
        """Return the resolvent along bt, and C and ``q CBP`` times it, shape (points,) each.

        Docs, "Damped steps", equation (N3).
        """
        points, teacher, c = self.at(z), self.samples.spectrum.teacher, self.samples.spectrum.eigenvalue
        resolvent, turned, inner = points.resolvent, points.turned, points.inner
        *_, beside = self._by_samples(points)
        # What the samples add along bt, between the last rows.
        known = self._known(inner)
        change = np.linalg.solve(np.eye(known.shape[-1]) - beside @ known, beside)
        change = change[:, : self._rows, : self._rows]
        right = change @ (turned.mT @ teacher)[..., None]

        def changed(known: Complex, left: Complex) -> Complex:
            return np.asarray(known + (left[:, None] @ right)[:, 0, 0])

        plain = changed(resolvent @ teacher, turned.mT @ teacher)
        by_c = changed(resolvent @ (teacher * c), turned.mT @ (teacher * c))
        first = changed(turned[..., 0] @ teacher, inner[..., 0].mT @ teacher)
        return plain, by_c, first - self._ratio * by_c

    @property
    def product_means_with_teacher(self) -> Array:
        """C and ``q CBP`` themselves along bt."""
        _, *found = self.products_with_teacher(self._far)
        return np.asarray(-(np.stack(found) * self._far).real.mean(axis=1))

    @cached_property
    def _far(self) -> Complex:
        """Points of half a circle far from the law."""
        samples, square = self.samples, self.samples.law.square
        squares = self.strength + self.root**2 * (1 + samples.ratio) * square
        largest = squares * samples.sampled_square / samples.bulk_trace
        stretched = 1 + abs(self.root) * np.abs(samples.added) * samples.made
        size = max(self._mean, float((samples.spectrum.eigenvalue * stretched**2).max()), largest)
        # A sample far out in the tail of the residuals makes an eigenvalue of its own, about this large.
        tail = samples.ratio * samples.bulk_trace * float(np.square(samples.law.residual).max())
        tail *= self.strength / square + self.root**2 * samples.ratio * samples.spectrum.moment(2)
        radius = max(_FAR_RADIUS * size, _TAIL_RADIUS * tail)
        return np.asarray(radius * np.exp(1j * np.pi * (np.arange(_FAR) + 0.5) / _FAR))

    def average(self, frame: Array) -> Array:
        """Return A itself between the vectors of `between`."""
        z = self._far
        among, sides, change = self._before_change(self.at(z), self._vectors(frame))
        found = (among - sides @ np.linalg.solve(change, sides.mT)) * z[:, None, None] ** 2
        return np.asarray(-found.real.mean(axis=0))

    @cached_property
    def second_moment(self) -> float:
        """``(1/d) tr A^2``."""
        z = self._far
        transform = self.at(z).resolvent @ self.samples.spectrum.share
        return float(-(transform * z**3).real.mean())

    @cached_property
    def moments_with_products(self) -> tuple[float, float]:
        """``(1/d) tr A C`` and ``(1/d) tr A q CBP``, of rows that are stretched."""
        _, *products = self.products(self._far)
        with_c, with_b = (float(-(each * self._far**2).real.mean()) for each in products)
        return with_c, with_b

    def sampled_along(self, frame: Array) -> Array:
        """Return ``P S P`` between the vectors of `between`, of rows that are not stretched."""
        covariance = frame.T @ self.samples.among(1) @ frame
        return np.asarray((self.average(frame) - covariance) / self.strength)

    def _known(self, inner: Complex) -> Complex:
        """Return H between the directions that residuals depend on, as one matrix of blocks for each point."""
        rows, directions = inner.shape[-1], self.samples.directions
        known = np.zeros((len(inner), rows * len(directions), rows * len(directions)), dtype=complex)
        for k, direction in enumerate(directions):
            place = slice(k * rows, (k + 1) * rows)
            known[:, place, place] = _mean(inner, direction.part)
        return known

    @cached_property
    def _weights(self) -> Array:
        """Weights of the means that `_between` takes, times powers 0 to 4 of the residual, shape (5 weights, nodes).

        They are the square of the weights s in theta, these times the projection on each direction, and what the
        product of two projections lacks of its mean along other directions.
        """
        r, rule, directions = self.samples.sources.weight, self._rules[1], self.samples.directions
        # The square of a sample along bt is u^2. Along every other direction its mean is one.
        weights = [r**2, *(r * known.projection for known in directions)]
        for one in directions:
            for other in directions:
                weights.append((1 - one.variance if other is one else 0.0) - one.projection * other.projection)
        gathered = rule.gathered(np.stack(weights) * self.samples.law.weight)
        return np.asarray((gathered[:, None] * rule.powers).reshape(5 * len(weights), -1))

    def others(self, z: Complex, frame: Array) -> tuple[Array, Complex]:
        """Return the products of vectors with those that the samples make, plain and with the resolvent between.

        These are ``C g``, ``PBC g``, ``C h``, ``PBC h``, ``P h_3``, ``P h`` and ``P g``, where g, h and h_3 are
        ``Z^T r^p / n_step`` with ``p = 1, 2, 3``.

        The frame is as in `between`, and the shapes are (vectors, 7) and (points, vectors, 7).

        Docs, "Damped steps", equation (N11).
        """
        far = self._far
        vectors = self._vectors(frame)
        plain = -(self._with_sums(self.at(far), vectors) * far[:, None, None]).real.mean(axis=0)
        return plain, self._with_sums(self.at(z), vectors)

    def _with_sums(self, points: DampedPoints, vectors: _Vectors) -> Complex:
        """Return the resolvent between vectors and the sums of the samples of `others`."""
        sums = self._sums_of_samples(points, vectors)
        _, sides, change = self._before_change(points, vectors)
        found = sums.among - sides @ np.linalg.solve(change, sums.sides.mT)
        # The row that B leads to holds PBC times a vector, and the part rho of C times it.
        with_c, with_b, with_p = found[..., :2], found[..., 2:4], found[..., 4:]
        # Without a root nothing is along these.
        with_b = np.asarray((with_b - self._ratio * with_c) / (self.root or math.inf))
        ordered = [with_c[..., :1], with_b[..., :1], with_c[..., 1:], with_b[..., 1:], with_p]
        return np.concatenate(ordered, axis=-1)

    def _sums_of_samples(self, points: DampedPoints, vectors: _Vectors) -> _SampleSums:
        """Return the resolvent of the sums of samples with vectors, and with the change along bt.

        The columns are ``C g`` and ``C h`` in the first row, g and h in the row that B leads to, if there is one, and
        ``h_3``, h and g in the row of y.
        """
        known, sources, law = self.samples.spectrum, self.samples.sources, self.samples.law
        c, rows, directions = known.eigenvalue, self._rows, self.samples.directions
        gain, rest, resolvent, turned, y = points.gain, points.inner, points.resolvent, points.turned, rows - 2
        left, left_first = _left_of_metric(points.apart, points.metric), points.apart[..., -2, 0]
        powers = np.array([1, 2, 1, 2, 3, 2, 1])
        # The resolvent between each column and each of the last rows, in each class; between it and the first row; and
        # between it and the row of y without the mean of P.
        to_rows = np.stack([turned * c[:, None]] * 2 + [rest[..., 0]] * 2 + [rest[..., y]] * 3, axis=1)
        to_first = np.stack([resolvent * c] * 2 + [turned[..., 0]] * 2 + [turned[..., y]] * 3, axis=1)
        to_left = np.stack([left_first * c] * 2 + [left[..., 0]] * 2 + [left[..., y]] * 3, axis=1)
        to_samples = np.einsum("c,zkcr->zkr", points.weights, to_rows)
        along = [
            np.array([law.mean(law.residual**power * direction.projection) for power in powers])
            for direction in directions
        ]
        among: Complex = np.zeros((len(rest), len(vectors.sums), len(powers)), dtype=complex)
        for k, (each, direction) in enumerate(zip(along, directions, strict=True)):
            mean, inner = direction.part * vectors.mean[:, k], direction.part * vectors.inner[:, k]
            among += each * (to_first @ mean.T + to_left @ inner.T).mT
        # The resolvent between two sums over the samples: equation (N11).
        by_weight, *by_projection = self._sum_means(points)
        eta, q, square = self._eta, self.root, gain[:, y, y, None]
        one = (1 - eta * gain[:, y, -1, None]) * to_samples[..., y] + eta * square * to_samples[..., -1]
        together: Complex = one * by_weight.lowest[:, powers - 1]
        if q:
            first = gain[:, 0, y, None] * to_samples[..., y] - square * to_samples[..., 0]
            together = together + q * first * by_weight.next[:, powers - 1]
        if self.samples.turn is not None:
            more = np.einsum("c,zkc->zk", points.weights * (sources.noise - 1), to_rows[..., y])
            beside, _ = self._more(rest)
            means = np.array([law.mean(sources.weight * law.residual**power) for power in powers])
            inside = by_weight.parts[:, powers - 1]
            together = together + means * more - ((beside[:, None, None] @ inside)[..., 0, :] * to_samples).sum(axis=-1)
        among += vectors.sums[:, None] * together[:, None]
        count = len(directions)
        sides: Complex = np.empty((len(rest), len(powers), 2 * count * rows), dtype=complex)
        for k, (direction, by_known) in enumerate(zip(directions, by_projection, strict=True)):
            first, last = k * rows, (count + k) * rows
            seen = along[k][:, None] * np.einsum("c,zkcr->zkr", direction.part, to_rows)
            sides[..., first : first + rows] = seen
            sides[..., last : last + rows] = (to_samples[:, :, None] @ by_known.parts[:, powers - 1])[..., 0, :]
        return _SampleSums(among, sides * self._unit)

    def _sum_means(self, points: DampedPoints) -> list[_Means]:
        """Return means over a sample with the weights of theta, and with its projection on each direction."""
        means = sums_of_parts(points.inverse, self._sum_weights.T)
        means = means.reshape(len(means), -1, 3, 3)
        parts = np.einsum("zwkp,zpij->zwkij", means, points.parts)
        return [_Means(means[:, w, :, 0], means[:, w, :, 1], parts[:, w]) for w in range(means.shape[1])]

    @cached_property
    def _sum_weights(self) -> Array:
        """Weights of the means that `_sum_means` takes, shape (9 weights, nodes)."""
        law, rule = self.samples.law, self._rules[1]
        projections = [known.projection for known in self.samples.directions]
        weights = np.stack([self.samples.sources.weight, *projections])[:, None] * law.residual ** [[1], [2], [3]]
        gathered = rule.gathered((weights * law.weight).reshape(-1, len(law.weight)))
        return np.asarray((gathered[:, None] * rule.powers[:3]).reshape(3 * len(gathered), -1))

    @cached_property
    def _unit(self) -> Array:
        """Factors that make all numbers of `_blocks` about as large: the row of y is as large as the first unknown."""
        rows, large = self._rows, self.samples.ridge / self.samples.damping
        unit = np.ones(2 * rows)
        unit[rows - 2], unit[2 * rows - 2] = 1 / large, large
        count = len(self.samples.directions)
        return np.concatenate([np.tile(unit[:rows], count), np.tile(unit[rows:], count)])

    def _vectors(self, frame: Array) -> _Vectors:
        """Return the vectors of `between`."""
        sources, count = self.samples.sources, len(self.samples.directions)
        direct, inner = np.zeros((2, count, len(self._metric)))
        direct[0], inner[0] = sources.directly + sources.direct, sources.inner
        if count > 1:
            direct[1], inner[1] = self.samples.output_sources
        # The second vector is the one that is made of samples, too.
        own, sums = np.delete(frame, 1, axis=0), frame[1]
        inner = sums[:, None, None] * inner
        return _Vectors(own.T[..., None] + sums[:, None, None] * direct + self._metric * inner, inner, sums)

    def _before_change(self, points: DampedPoints, vectors: _Vectors) -> tuple[Complex, Complex, Complex]:
        """Return the blocks of a solution."""
        return self._blocks(vectors, points.apart, points.whole, self._by_samples(points))

    def _blocks(
        self, vectors: _Vectors, apart: Complex, whole: Complex, sampled: tuple[Complex, ...], one: float = 1.0
    ) -> tuple[Complex, Complex, Complex]:
        """Return the resolvent between vectors before the change along bt, what is beside it, and its inverse.

        The change is between bt in each row, and the sums of the samples that are seen along it. With an own output of
        order one it is along f, too.
        """
        own, crossed, beside = sampled
        parts = np.stack([direction.part for direction in self.samples.directions])
        size = self._rows * len(parts)
        mean, inner = parts * vectors.mean, parts * vectors.inner
        squares, products, rests = (
            np.einsum("akc,bkc->cab", left, right)
            for left, right in ((mean, vectors.mean), (mean, vectors.inner), (inner, vectors.inner))
        )
        among = np.tensordot(apart[..., 0, 0], squares, 1) + np.tensordot(apart[..., -2, -2], rests, 1)
        among += np.tensordot(apart[..., 0, -2], products + products.mT, 1)
        among += own[:, None, None] * np.outer(vectors.sums, vectors.sums)
        rest = _left_of_metric(apart, self._metric)
        seen = np.einsum("akc,zcr->zakr", mean, whole[..., 0, 1:]) + np.einsum("akc,zcr->zakr", inner, rest)
        sides: Complex = np.empty((*among.shape[:2], 2 * size), dtype=complex)
        sides[..., :size] = seen.reshape(*among.shape[:2], size)
        sides[..., size:] = vectors.sums[:, None] * crossed[:, None]
        change: Complex = np.zeros((len(among), 2 * size, 2 * size), dtype=complex)
        change[:, :size, :size], change[:, size:, size:] = self._known(whole[..., 1:, 1:]), beside
        change[:, :size, size:] = change[:, size:, :size] = one * np.eye(size)
        sides *= self._unit
        change *= np.outer(self._unit, self._unit)
        return among, sides, change

    def _by_samples(self, points: DampedPoints) -> tuple[Complex, Complex, Complex]:
        """Return what the samples make, with the weights s of the sum in theta.

        It is ``Gamma_yy E[s^2 / Delta]``, between this sum and itself, shape (points,); in the row of y, for bt and the
        other directions, ``E[s u Gamma K (1 + Gamma K)^-1]``, shape (points, directions rows); and for these ``E[(1 -
        u^2) K (1 + Gamma K)^-1]``, shape (points, directions rows, directions rows).
        """
        gain, eta, q, count = points.gain, self._eta, self.root, len(self.samples.directions)
        y = gain.shape[-1] - 2
        means = self._sample_means(points.inverse)
        own = gain[:, y, y] * means[:, 0, 0]
        constant, linear = means[:, 1 : count + 1, 0], means[:, 1 : count + 1, 1]
        crossed = np.zeros((len(gain), count, gain.shape[1]), dtype=complex)
        total = self._weights[5 : 5 * count + 5 : 5].sum(axis=1)
        crossed[..., y] = total - (1 - eta * gain[:, y, -1, None]) * constant
        crossed[..., -1] = -eta * gain[:, y, y, None] * constant
        if q:
            crossed[..., y] -= q * gain[:, 0, y, None] * linear
            crossed[..., 0] = q * gain[:, y, y, None] * linear
        parts = np.einsum("zwp,zpij->zwij", means[..., :3], points.parts)
        squares, products = parts[:, 0], parts[:, 1 : count + 1]
        if self.samples.turn is not None:
            more, most = self._more(points.inner)
            own = own + most * self._square - _form(more, squares, more + 2 * gain[:, y])
            crossed += (more[:, None, None] @ products)[..., 0, :]
        return own, crossed.reshape(len(gain), -1), _joined_blocks(parts[:, count + 1 :], count)

    def _sample_means(self, inverse: Array) -> Complex:
        """Return means over the samples with `_weights`, from parts of a function of the residual, by its powers."""
        means = sums_of_parts(inverse, self._weights.T)
        return means.reshape(len(means), -1, 5)

    def _more(self, inner: Complex) -> tuple[Complex, Complex]:
        """Return what the noise of the theta of one draw adds to Gamma in the row of y, shape (points, rows).

        The other one is what its square adds there, shape (points,).
        Docs, "Spread", equation (D11b).
        """
        noise, weights, y = self.samples.sources.noise, self.samples.ratio * self.samples.spectrum.share, -2
        return inner[..., y].mT @ (weights * (noise - 1)), inner[..., y, y] @ (weights * (noise - 1) * (noise + 1))

    @cached_property
    def _square(self) -> float:
        """Mean square of the weights of the sum in theta."""
        return self.samples.law.mean(self.samples.sources.weight**2)

    def _d_by_samples(self, points: DampedPoints) -> tuple[Complex, Complex, Complex]:
        """Return the derivatives of the same."""
        gain, d_gain, eta, q = points.gain, points.d_gain, self._eta, self.root
        y, count = gain.shape[-1] - 2, len(self.samples.directions)
        means, squares = self._sample_means(points.inverse), self._sample_means(square_of_parts(points.inverse))
        # The change of Delta, by powers of r: that of its logarithm is a trace.
        bend = np.einsum("zpij,zij->zp", points.parts, d_gain)
        moved = -sum(bend[:, k, None, None] * squares[..., k : k + 3] for k in range(3))
        loop, d_loop = gain[:, y, y], d_gain[:, y, y]
        seen, d_seen = means[:, 1 : count + 1], moved[:, 1 : count + 1]
        (constant, linear), (d_constant, d_linear) = ((of[..., 0].T, of[..., 1].T) for of in (seen, d_seen))
        crossed = np.zeros((count, *gain.shape[:2]), dtype=complex)
        crossed[..., y] = eta * d_gain[:, y, -1] * constant - (1 - eta * gain[:, y, -1]) * d_constant
        crossed[..., -1] = -eta * (d_loop * constant + loop * d_constant)
        if q:
            crossed[..., y] -= q * (d_gain[:, 0, y] * linear + gain[:, 0, y] * d_linear)
            crossed[..., 0] = q * (d_loop * linear + loop * d_linear)
        crossed = np.moveaxis(crossed, 0, 1)
        own = d_loop * means[:, 0, 0] + loop * moved[:, 0, 0]
        slopes = -_between_parts(points.parts, d_gain, squares)
        by_squares, by_products = slopes[:, 0], slopes[:, 1 : count + 1]
        if self.samples.turn is not None:
            (more, _), (d_more, d_most) = self._more(points.inner), self._more(points.d_inner)
            weighted = np.einsum("zwp,zpij->zwij", means[:, : count + 1, :3], points.parts)
            own = own + d_most * self._square - _form(more, by_squares, more + 2 * gain[:, y])
            own -= 2 * _form(d_more, weighted[:, 0], more + gain[:, y]) + 2 * _form(more, weighted[:, 0], d_gain[:, y])
            crossed = crossed + (d_more[:, None, None] @ weighted[:, 1:] + more[:, None, None] @ by_products)[..., 0, :]
        return own, crossed.reshape(len(gain), -1), _joined_blocks(slopes[:, count + 1 :], count)


def sample_parts(gain: Complex, eta: float, root: float, strength: complex) -> tuple[Complex, Complex]:
    """Return the coefficients of the powers of r in ``Delta = det(1 + Gamma K)``, and in ``Delta K (1 + Gamma K)^-1``.

    The gain ``Gamma`` has shape (points, rows, rows), `eta` is ``1 / (1 + delta)``, `root` is ``q`` (zero if there are
    two rows), and `strength` is ``t / E r^2``. The coefficients have shapes (points, 3) and (points, 3, rows, rows).
    """
    q, t = root, strength
    size = gain.shape[-1]
    y, last = size - 2, size - 1
    p, square, lost = 1 - eta * gain[:, y, last], gain[:, y, y], gain[:, last, last]
    delta = np.stack([p**2 - eta**2 * square * lost, 0 * p, t * square], axis=1)
    parts = np.zeros((len(gain), 3, size, size), dtype=complex)
    parts[:, 0, y, y], parts[:, 2, y, y] = -(eta**2) * lost, t
    parts[:, 0, y, last], parts[:, 0, last, last] = -eta * p, -(eta**2) * square
    if q:
        own, across, beside = gain[:, 0, 0], gain[:, 0, 1], gain[:, 0, 2]
        delta[:, 1] = 2 * q * (p * across + eta * square * beside)
        delta[:, 2] += q**2 * (across**2 - square * own)
        parts[:, 2, 0, 0], parts[:, 1, 0, 1], parts[:, 2, 0, 1] = -square * q**2, q * p, q**2 * across
        parts[:, 1, 0, 2], parts[:, 1, y, last] = eta * q * square, -eta * q * across
        parts[:, 1, y, y] = 2 * eta * q * beside
        parts[:, 2, y, y] -= q**2 * own
        parts[:, :, 1, 0], parts[:, :, 2, 0] = parts[:, :, 0, 1], parts[:, :, 0, 2]
    parts[:, :, last, y] = parts[:, :, y, last]
    return delta, parts


def reciprocal_parts(delta: Complex, powers: Array) -> Array:
    """Return the real and the imaginary part of one over a parabola in the residual, shape (2, points, nodes)."""
    parts = np.stack([delta.real, -delta.imag]) @ powers
    size = parts[0] * parts[0]
    size += parts[1] * parts[1]
    parts /= size
    return np.asarray(parts)


def _mean(inner: Complex, weights: Array) -> Complex:
    """Return sums over the classes, shape (points, rows, rows)."""
    count, classes, rows, _ = inner.shape
    return np.asarray((weights @ inner.reshape(count, classes, -1)).reshape(count, rows, rows))


def _left_of_metric(apart: Complex, metric: Array) -> Complex:
    """Return the inverse between what P adds to its mean and each of the last rows, shape (points, classes, rows)."""
    left = apart[..., -2, 1:].copy()
    left[..., -2] += metric * apart[..., -2, 0]
    return np.asarray(left)


def _with_mean_metric(apart: Complex, metric: Array) -> Complex:
    """Return the inverse with P in the row of y, from that with what P adds to its mean."""
    whole = apart.copy()
    whole[..., -2, :] += metric[:, None] * whole[..., 0, :]
    whole[..., -2] += metric[:, None] * whole[..., 0]
    return whole


def square_of_parts(parts: Array) -> Array:
    """Return the real and imaginary parts of squares of numbers given by theirs."""
    squares: Array = parts * parts[0]
    squares[0] -= parts[1] * parts[1]
    squares[1] *= 2
    return squares


def sums_of_parts(values: Array, weights: Array) -> Complex:
    """Return sums over the nodes of numbers given by their parts, shape (points, weights)."""
    real, imaginary = values @ weights
    return np.asarray(real + 1j * imaginary)


def _between_parts(parts: Complex, change: Complex, squares: Complex) -> Complex:
    """Return means of ``X E X`` for parabolas X in the residual, shape (points, weights, rows, rows).

    `parts`, shape (points, 3, rows, rows), are the coefficients of X, and `change`, shape (points, rows, rows), is E.
    `squares`, shape (points, weights, 5), are means of powers of the residual over the square of the denominator of X.
    """
    products = parts[:, :, None] @ change[:, None, None] @ parts[:, None]
    return np.asarray(np.einsum("zpqij,zwpq->zwij", products, squares[..., PRODUCT_POWERS]))


def _positive(gain: Complex) -> NDArray[np.bool_]:
    """Return whether imaginary parts of symmetric matrices are positive up to rounding, shape (points,)."""
    size = np.arange(gain.shape[-1])
    with np.errstate(all="ignore"):
        diagonal = gain[:, size, size].imag + _ROUNDING * np.abs(gain[:, size, size])
        scaled = gain.imag / np.sqrt(diagonal[:, :, None] * diagonal[:, None])
        scaled[:, size, size] = 1.0
    good = np.asarray((diagonal > 0).all(axis=1) & np.isfinite(scaled).all(axis=(1, 2)))
    good[good] = np.linalg.eigvalsh(scaled[good]).min(axis=1) > -_SINGULAR
    return good


def _form(left: Complex, matrices: Complex, right: Complex) -> Complex:
    """Return matrices between vectors, shape (points,)."""
    return np.asarray((left[:, None] @ matrices @ right[..., None])[:, 0, 0])


def _joined_blocks(blocks: Complex, count: int) -> Complex:
    """Return matrices made of ``count`` times ``count`` blocks, shape (points, count rows, count rows)."""
    points, _, rows, _ = blocks.shape
    square = blocks.reshape(points, count, count, rows, rows)
    return np.asarray(square.swapaxes(2, 3).reshape(points, count * rows, count * rows))
