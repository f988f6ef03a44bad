"""The law of a row's covariance after a step that stretches it, ``A = C + 2 k CBC + q^2 CBCBC + t CSC``.

``B`` and ``S`` are the samples of the step, whitened and weighted by ``r`` and by ``r^2 / E r^2``: the same samples in
both. A row of readout ``a`` has the covariance ``L C L^T + a^2 t CSC`` with ``L = 1 + a k CB``, the linear part of a
step whose activation is not odd, so that ``q = a k``; means over several readouts have a larger ``q``. With the matrix

    H = [[ C + 2 k CBC + t CSC - z,  q CBC ], [ q CBC,  -C ]]

in twice as many coordinates, ``(A - z)^-1`` is the first block of the inverse, and a sample adds to H one matrix of
two by two, ``m = [[t w + 2 k r, q r], [q r, 0]]``, times ``C z z^T C``. One sample left out at a time closes the
inverse with matrices of two by two. All of these are rational functions of the residual, with the same denominator
``det(1 + M m)``. This project.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradstep.errors import NotConverged
from gradstep.theory.neurons.rational_rule import Others
from gradstep.theory.step.correlated_samples import CorrelatedSamples, Spectrum, SpikeBeside, Turn
from gradstep.theory.step.row_law import RowLaw
from gradstep.theory.step.sample_forms import SampleForms
from gradstep.theory.step.weighted_samples import Residual
from gradstep.theory.together import Computation, asked

__all__ = ["StretchedLaw", "StretchedPoints"]

Array = NDArray[np.float64]
Complex = NDArray[np.complexfloating[Any, Any]]

#: Relative residual of the fixed point; the most steps to it, and the most in a row that do not halve the residual.
_TOLERANCE, _MAX_STEPS, _PATIENCE = 1e-12, 500, 40
#: Where a solution is followed to a point near zero: how much the logarithm of the distance from zero falls from one
#: place to the next, and the relative residual that is small enough on the way.
_STRIDE, _ON_THE_WAY = 0.5, 1e-6
#: The residual that rounding leaves at a point as far from the real axis as from zero; nearer to the axis it is larger.
_ROUNDING = 1e-15
#: Least eigenvalue of C that another number is divided by: the quotient is multiplied by its square later.
_LEAST = 1e-60
#: Symmetric matrices of two by two, of which all others are sums.
_BASIS = np.array([[[1, 0], [0, 0]], [[0, 1], [1, 0]], [[0, 0], [0, 1]]], dtype=np.float64)
#: The first block, where z is.
_FIRST = _BASIS[0]
#: Signs of the entries of an adjugate, and where a symmetric matrix has its three numbers.
_ADJUGATE = np.array([[1, -1], [-1, 1]])
_ROWS, _COLUMNS = np.triu_indices(2)


class StretchedPoints(NamedTuple):
    """The inverse of H at points z, and derivatives in z."""

    #: ``G(c)`` for each eigenvalue of C, shape (points, classes, 2, 2).
    inverse: Complex
    d_inverse: Complex
    #: ``M``, shape (points, 2, 2).
    gain: Complex
    d_gain: Complex
    determinant: Array  #: Real and imaginary parts of ``1 / det(1 + M m)``, shape (2, points, nodes).
    #: ``Y``, the mean of ``m (1 + M m)^-1``. Shape (points, 2, 2).
    weight: Complex
    d_weight: Complex


class _Iterate(NamedTuple):
    """A step of the iteration of ``M``, with what it was judged by."""

    gain: Complex
    off: Array  # Relative residual at each point.
    determinant: Array  # As in `StretchedPoints`.
    parts: tuple[Array, Complex]  # As `StretchedLaw._parts` returns them.
    weight: Complex  # Y.
    squared: Complex  # Means of r^2, r^3 and r^4 over the square of the determinant.
    inverse: Complex  # G.
    bend: Complex  # Change of the equation's gap for a change of each part of M.


class Resolvents(NamedTuple):
    """A law at points, as `StretchedLaw.transform` and `StretchedLaw.between` return it."""

    points: StretchedPoints
    transform: Complex
    slope: Complex
    between: Complex
    d_between: Complex


class _Vectors(NamedTuple):
    """Parts of vectors along the functions of `SampleForms` and their derivatives, shape (functions, points, 2, 2)."""

    value: Complex
    slope: Complex


class _Drawn(NamedTuple):
    """Change of the inverse of H in a draw, whose samples have other products with each other.

    Docs, "Spread", equation (D14).
    """

    matrices: Array  # Q and P, shape (2, functions, functions).
    # Shape (2, points, 2, 2): what stands between two vectors for each of the matrices, and its derivative.
    middle: Complex
    d_middle: Complex
    pairs: _Vectors  # The pairs of the coupling.

    def of(self, left: _Vectors, right: _Vectors) -> Complex:
        """Return the change between vectors."""
        return self._product(left.value, self.middle, right.value)

    def d_of(self, left: _Vectors, right: _Vectors) -> Complex:
        """Return the derivative of that change."""
        found = self._product(left.slope, self.middle, right.value) + self._product(
            left.value, self.middle, right.slope
        )
        return np.asarray(found + self._product(left.value, self.d_middle, right.value))

    def with_pairs(self, left: _Vectors) -> Complex:
        """Return the change between vectors and the pairs of the coupling."""
        return self.of(left, self.pairs)[None]

    def d_with_pairs(self, left: _Vectors) -> Complex:
        """Return the derivative of that change."""
        return self.d_of(left, self.pairs)[None]

    @property
    def pairs_form(self) -> Complex:
        """The change between the pairs."""
        return self.of(self.pairs, self.pairs)

    @property
    def d_pairs_form(self) -> Complex:
        """The derivative of that change."""
        return self.d_of(self.pairs, self.pairs)

    def _product(self, left: Complex, middle: Complex, right: Complex) -> Complex:
        turned = np.einsum("mab,bzij->mazij", self.matrices, right)
        return np.asarray((left @ middle[:, None] @ turned.mT).sum(axis=(0, 1)))


@dataclass(frozen=True)
class StretchedLaw(RowLaw[StretchedPoints]):
    """The covariance of rows, of one readout or in the mean over several.

    The equations are solved point by point. So the law may be another at each of the points z of a method: `linear`,
    `root`, `strength` and the ratio of the samples then have a number for each, shape (points,), and a frame has a
    leading axis.
    """

    samples: CorrelatedSamples
    linear: float | Array  #: ``k``, of the readout's sign.
    root: float | Array  #: ``q``; of rows of one readout it is `linear`.
    #: ``t``, the variance that the step adds per unit of ``C S C``, without what its linear part adds.
    strength: float | Array
    #: Shape (nodes,): mean of a sample's projection on a second direction that its residual depends on, at the nodes of
    #: its law. It is orthogonal to the teacher's and lies in the classes of C as a row does.
    output: Array | None = None
    output_variance: float = 0.0  #: Variance of that projection there.
    #: Changes of the products of samples in a draw, for inputs of one eigenvalue and without a second direction.
    forms: SampleForms | None = None
    #: The equations are solved with this part of the first coordinate of H added to the second one. It is not zero only
    #: where they lose their digits otherwise.
    removed: float | Array = 0.0

    @property
    def stretched(self) -> bool:
        """Whether the samples of the step stretch the rows."""
        return True

    @property
    def mean(self) -> float:
        """``(1/d) tr A``."""
        samples, c2 = self.samples, self.samples.spectrum.moment(2)
        square = samples.moment_of_b(3, 2) + samples.ratio * samples.law.square * c2
        return float(1 + 2 * self.linear * samples.moment_of_b(2) + self.root**2 * square + self.strength * c2)

    def _solve(self, z: Complex) -> StretchedPoints:
        """Solve the equation of ``M`` at points in the upper half-plane.

        Docs, "Bases of stretched rows", equation (B1).
        """
        tolerance = np.maximum(_TOLERANCE, _ROUNDING * np.abs(z) / z.imag)
        found = self._iterated(z, self._first(z), tolerance)
        if np.all(found.off <= tolerance):
            return self._with_slopes(found)
        # Where the step leaves hardly anything of some rows, all entries of M are large and almost the same but for
        # their signs. In other coordinates only the first one is large.
        root = np.asarray(self.root, dtype=np.float64)
        removed = np.divide(self.linear, root, out=np.zeros_like(root), where=root != 0)
        apart = replace(self, removed=removed)
        found = apart._iterated(z, apart._followed(z), tolerance)
        if not np.all(found.off <= tolerance):
            at, advice = int(np.argmax(found.off / tolerance)), "Take more samples in the step."
            raise NotConverged("the law of the rows after the step", float(found.off[at]), float(tolerance[at]), advice)
        return _in_coordinates(apart._with_slopes(found), _at_points(removed))

    def _with_slopes(self, found: _Iterate) -> StretchedPoints:
        """Return a solution with its derivatives."""
        c, turned = self.samples.spectrum.eigenvalue, found.inverse @ _FIRST @ found.inverse
        d_gain = -_solved(found.bend, self._sum(turned))
        d_weight = _d_left(found.parts, found.squared, d_gain)
        d_inverse = turned - c[:, None, None] ** 2 * (found.inverse @ d_weight[:, None] @ found.inverse)
        return StretchedPoints(found.inverse, d_inverse, found.gain, d_gain, found.determinant, found.weight, d_weight)

    def _first(self, z: Complex) -> Complex:
        """Return ``M`` without the samples' own part in the inverse, a first guess."""
        return self._sum(self._inverse(z, np.zeros((len(z), 2, 2))))

    def _sum(self, blocks: Complex) -> Complex:
        """Return ``phi0 <c^2 G>`` for blocks of shape (points, classes, 2, 2)."""
        known = self.samples.spectrum
        blocks = np.einsum("zcij,c->zij", blocks, known.share * known.eigenvalue**2)
        return np.asarray(_at_points(self.samples.ratio) * blocks)

    def _iterated(self, z: Complex, gain: Complex, tolerance: Array | float) -> _Iterate:
        """Improve ``M`` by Newton's method until its relative residual is small at all points, or falls no more."""
        known, ratio, powers = self.samples.spectrum, self.samples.ratio, self._powers(self.samples.law.weight[None])
        by_fourth = known.share * known.eigenvalue**4
        least, last = math.inf, 0
        for step in range(_MAX_STEPS):
            determinant, parts = self._determinant(gain), self._parts(gain)
            weight = _left(parts, _sums(determinant, powers[:, :2]))[:, 0]
            squared = _sums(_square(determinant), powers[:, 1:])[:, 0]
            inverse = self._inverse(z, weight)
            gap = self._sum(inverse) - gain
            # The change of the sum for a change of each part of M, less that change.
            change = _sandwich(inverse, _d_left(parts, squared[:, None], _BASIS), by_fourth)
            bend = -_at_points(ratio)[:, None] * change - _BASIS
            size, worst = (np.abs(each).max(axis=(1, 2)) for each in (gain, gap))
            off = worst / size
            excess = float((off / tolerance).max())
            least, last = (excess, step) if excess < least / 2 else (least, last)
            if excess <= 1 or step - last == _PATIENCE or step == _MAX_STEPS - 1:
                break
            newton = gain - _solved(bend, gap)
            # Imaginary parts are matrices that are at least zero, as that of the first block of H is.
            positive = np.linalg.eigvalsh(newton.imag).min(axis=1) > 0
            gain = np.where(positive[:, None, None], newton, gain + gap)
        return _Iterate(gain, off, determinant, parts, weight, squared, inverse, bend)

    def _followed(self, z: Complex) -> Complex:
        """Return ``M`` near points, followed to them from the unit circle along rays to zero.

        Near zero a step may leave one entry of ``M`` large and almost free while the last one is as small. From the
        first guess Newton's method then leads to the edge of what ``M`` can be, where it ends.
        """
        inward = np.minimum(np.log(np.abs(z)), 0.0)
        on_circle = z * np.exp(-inward)
        gain = self._first(on_circle)
        for part in np.linspace(0, 1, math.ceil(-float(inward.min()) / _STRIDE), endpoint=False):
            gain = self._iterated(on_circle * np.exp(part * inward), gain, _ON_THE_WAY).gain
        return gain

    @cached_property
    def _own(self) -> Array:
        """The matrices of which a sample adds r and r^2 times to H, shape (2, 1 or points, 2, 2)."""
        linear = _at_points(self.linear - self.removed * self.root)
        one = _at_points(self.root) * _BASIS[1] + 2 * linear * _FIRST
        return np.stack([one, _at_points(self.strength) / self.samples.law.square * _FIRST])

    def _determinant(self, gain: Complex) -> Array:
        """Return the real and the imaginary part of ``1 / det(1 + M m)``, shape (2, points, nodes)."""
        (one, two), (own, across, last) = self._own, gain[:, _ROWS, _COLUMNS].T
        # A polynomial of the residual.
        first = one[:, 0, 0] * own + 2 * one[:, 0, 1] * across
        second = two[:, 0, 0] * own - self.root**2 * (own * last - across * across)
        coefficients = np.stack([np.ones_like(own), first, second], axis=1)
        # The reciprocal of a number is its complex conjugate over its squared size.
        parts = np.stack([coefficients.real, -coefficients.imag]) @ self.samples.law.powers[:3]
        size = np.square(parts[0])
        size += np.square(parts[1])
        parts *= np.reciprocal(size, out=size)
        return np.asarray(parts)

    def _parts(self, gain: Complex) -> tuple[Array, Complex]:
        """Return the coefficients of r and r^2 in ``det(1 + M m) m (1 + M m)^-1``, shape (1 or points, 2, 2)."""
        one, two = self._own
        return one, two - _at_points(self.root) ** 2 * gain[:, ::-1, ::-1] * _ADJUGATE

    def _powers(self, weights: Array) -> Array:
        """Return weights at the nodes times the powers 1 to 4 of r, shape (weights, 4, nodes)."""
        return np.asarray(weights[:, None] * self.samples.law.powers[1:])

    def _inverse(self, z: Complex, weight: NDArray[Any]) -> Complex:
        """Return ``G(c)``, shape (points, classes, 2, 2)."""
        c, (own, _) = self.samples.spectrum.eigenvalue, self._own
        # `by_output` is no sum over samples: it stands beside Y, with the matrix that a sample has for each unit of r.
        whole_first, whole_across = (
            weight[:, 0, column, None] + own[:, 0, column, None] * self.samples.added for column in range(2)
        )
        removed = np.reshape(self.removed, (-1, 1))
        first = (1 - removed**2) * c + c**2 * whole_first - z[:, None]
        across, last = removed + c * whole_across, c * weight[:, 1, 1, None] - 1
        whole = first * last - c * across**2
        inverse = np.empty((*whole.shape, 2, 2), dtype=complex)
        inverse[..., 0, 0], inverse[..., 1, 1] = last / whole, first / np.maximum(c, _LEAST) / whole
        inverse[..., 0, 1] = inverse[..., 1, 0] = -across / whole
        return inverse

    def ask(self, z: Complex, frame: Array) -> Computation[Resolvents]:
        """Ask for the law at points together with others of the same samples.

        The law is the same at all points, and the frame is as in `between`.
        """
        known = self.samples
        numbers = np.array([known.ratio, self.linear, self.root, self.strength, self.output_variance])
        shared = known.law, known.spectrum, known.turn, known.beside, self.output, self.forms
        work = len(z) * len(known.law.weight)
        found = yield from asked(_resolvents, z, frame, numbers, known.added, shared=shared, work=work)
        self._solved[z.tobytes()] = found.points
        return found

    def transform(self, z: Complex) -> tuple[Complex, Complex]:
        """Return the Stieltjes transform of the spectral law and its derivative."""
        points, share = self.at(z), self.samples.spectrum.share
        return points.inverse[..., 0, 0] @ share, points.d_inverse[..., 0, 0] @ share

    def products(self, z: Complex) -> tuple[Complex, Complex, Complex]:
        """Return the traces of the resolvent over d, and of C and ``q CBC`` times it, shape (points,) each.

        Docs, "Bases of stretched rows", equation (B4).
        """
        inverse, known = self.at(z).inverse, self.samples.spectrum
        weights = known.share * known.eigenvalue
        return inverse[..., 0, 0] @ known.share, inverse[..., 0, 0] @ weights, inverse[..., 1, 0] @ weights

    @property
    def product_means(self) -> Array:
        """The traces of C and ``q CBC`` themselves over d."""
        return np.array([1.0, self.root * self.samples.moment_of_b(2)])

    @property
    def _directions(self) -> tuple[Array, Array, Array]:
        """The directions that a residual depends on.

        They come as mean projections of a sample on them, shape (directions, nodes), the covariance of these, shape
        (directions, directions), and the part of each in the classes of C, shape (directions, classes).
        """
        u, known = self.samples.law.projection, self.samples.spectrum
        if self.output is None:
            return u[None], np.zeros((1, 1)), known.teacher[None]
        parts = np.stack([known.teacher, known.share * known.eigenvalue])
        return np.stack([u, self.output]), np.diag([0.0, self.output_variance]), parts

    @property
    def _signals(self) -> Array:
        """Factors in each class of C times the directions."""
        both = [self.samples.turned.signal, self.samples.output_signal]
        return np.stack(both[: 1 if self.output is None else 2])

    def between(self, z: Complex, frame: Array) -> tuple[Complex, Complex]:
        """Return the resolvent between vectors and its derivative, shape (points, vectors, vectors).

        The vectors are the columns of `frame`, shape (2 directions + 1, vectors) or
        (points, 2 directions + 1, vectors), in terms of bt and the second direction, where there is one, ``C`` times
        these, and ``C Z_perp^T r / n_step``.

        Docs, "Bases of stretched rows", equation (B2).
        """
        points, law = self.at(z), self.samples.law
        (left, d_left), seen, count = self._sampled(points), self._seen, len(self._directions[0])
        m, square = self._with_noise(points.inverse, points.gain)
        d_m, d_square = self._with_noise(points.d_inverse, points.d_gain)
        e_e = square * law.square - m @ left[0] @ m
        d_e_e = d_square * law.square - d_m @ left[0] @ m - m @ d_left[0] @ m - m @ left[0] @ d_m
        crossed, d_crossed = left[1 : count + 1], d_left[1 : count + 1]
        e_y, d_e_y = m @ crossed, d_m @ crossed + m @ d_crossed
        among_pairs, d_among_pairs = self._among_pairs(seen, left), self._among_pairs(0 * seen, d_left)
        if self.forms is not None:
            own, drawn = self._drawn(points)
            e_e, e_y, among_pairs = (
                e_e + drawn.of(own, own),
                e_y + drawn.with_pairs(own),
                among_pairs + drawn.pairs_form,
            )
            d_e_e, d_e_y = d_e_e + drawn.d_of(own, own), d_e_y + drawn.d_with_pairs(own)
            d_among_pairs = d_among_pairs + drawn.d_pairs_form
        among, across = self._blocks(points.inverse, e_e, e_y)
        d_among, d_across = self._blocks(points.d_inverse, d_e_e, d_e_y)
        inner, coupling = self._inner(points.inverse, among_pairs), self._coupling(points.weight, seen)
        d_inner, d_coupling = self._inner(points.d_inverse, d_among_pairs), np.zeros_like(coupling)
        for k in range(count):
            d_coupling[:, 2 * k : 2 * k + 2, 2 * k : 2 * k + 2] = -points.d_weight
        turn = np.linalg.inv(np.eye(4 * count) + coupling @ inner)
        dressed = turn @ coupling
        d_dressed = turn @ d_coupling @ turn.mT - dressed @ d_inner @ dressed
        found = among - across @ dressed @ across.mT
        change = d_across @ dressed @ across.mT
        slope = d_among - change - change.mT - across @ d_dressed @ across.mT
        return frame.mT @ found @ frame, frame.mT @ slope @ frame

    def products_between(self, z: Complex, frame: Array) -> tuple[Complex, Complex, Complex]:
        """Return the resolvent, and C and ``q CBC`` times it, between vectors, shape (points, vectors, vectors) each.

        The frame is as in `between`.

        Docs, "Bases of stretched rows", equation (B4).
        """
        points, known, law = self.at(z), self.samples.spectrum, self.samples.law
        (left, _), seen, count = self._sampled(points), self._seen, len(self._directions[0])
        (m, square), crossed = self._with_noise(points.inverse, points.gain), left[1 : count + 1]
        noise, ratio = self.samples.turned.noise, _at_points(self.samples.ratio)
        by_third = known.share * known.eigenvalue**3 * noise
        higher, highest = (ratio * np.einsum("zcij,c->zij", points.inverse, by_third * factor) for factor in (1, noise))
        coupling, among_pairs = self._coupling(points.weight, seen), self._among_pairs(seen, left)
        changed_e_e, changed_e_y = np.zeros((1, 2, 2), dtype=complex), np.zeros((1, 1, 2, 2), dtype=complex)
        if self.forms is not None:
            own, drawn = self._drawn(points)
            changed_e_e, changed_e_y = drawn.of(own, own), drawn.with_pairs(own)
            among_pairs = among_pairs + drawn.pairs_form
        dressed = np.linalg.inv(np.eye(4 * count) + coupling @ self._inner(points.inverse, among_pairs)) @ coupling
        e_e = square * law.square - m @ left[0] @ m + changed_e_e
        among, across = self._blocks(points.inverse, e_e, m @ crossed + changed_e_y)
        found = [among - across @ dressed @ across.mT]
        for row in range(2):
            # A draw has inputs of one eigenvalue: C is one, and its products change as the resolvent itself does.
            e_e = highest * law.square - higher @ left[0] @ m + changed_e_e
            among, from_left = self._blocks(points.inverse, e_e, higher @ crossed + changed_e_y, power=1, row=row)
            found.append(among - from_left @ dressed @ across.mT)
        plain, by_c, by_samples = (frame.mT @ each @ frame for each in found)
        return plain, by_c, by_samples

    def others(self, z: Complex, frame: Array) -> Others:
        """Return the products of vectors with those that the samples make, plain and with the resolvent between.

        These are ``C g``, ``C B C g``, ``C h``, ``C B C h`` and ``C h_3``, where g, h and h_3 are ``Z^T r^p / n_step``
        with ``p = 1, 2, 3``.

        The frame is as in `between`.

        Docs, "Structured bulk", equation (A7a).
        """
        points, law, (x, _, _) = self.at(z), self.samples.law, self._directions
        (left, _), count, plain, r = self._sampled(points), len(x), points.gain, law.residual
        m, _ = self._with_noise(points.inverse, plain)
        powers = law.powers[1:4]
        with_samples, with_directions = law.weight * r * powers, (law.weight * powers)[:, None] * x
        weights = self._powers(np.concatenate([with_samples, with_directions.reshape(3 * count, -1)]))
        of_powers = np.moveaxis(_left(self._parts(plain), _sums(points.determinant, weights[:, :2])), 1, 0)
        coupling, among_pairs = self._coupling(points.weight, self._seen), self._among_pairs(self._seen, left)
        e_y = m @ left[1 : count + 1]
        if self.forms is not None:
            own, drawn = self._drawn(points)
            e_y, among_pairs = e_y + drawn.with_pairs(own), among_pairs + drawn.pairs_form
        dressed = np.linalg.inv(np.eye(4 * count) + coupling @ self._inner(points.inverse, among_pairs)) @ coupling
        _, across = self._blocks(points.inverse, m, e_y)
        resolved: Complex = np.empty((len(z), len(frame), 5), dtype=complex)
        for column, (row, power) in enumerate(((0, 0), (1, 0), (0, 1), (1, 1), (0, 2))):
            e_e = m * law.mean(r * powers[power]) - plain @ of_powers[power] @ m
            e_y = plain @ of_powers[3 + power * count : 3 + (power + 1) * count]
            if self.forms is not None:
                vectors = self._drawn_vectors(points, powers[power])
                e_e, e_y = e_e + drawn.of(vectors, own), e_y + drawn.with_pairs(vectors)
            among, from_left = self._blocks(points.inverse, e_e, e_y, row=row, turned=False)
            vector = np.concatenate([np.zeros(count), x @ (law.weight * powers[power]), [1.0]])
            resolved[..., column] = np.vecmat(vector, among - from_left @ dressed @ across.mT)
        resolved[..., [1, 3]] /= self.root or math.inf  # without a root nothing is along these
        return Others(frame.T @ self._products_of(powers), np.asarray(frame.T @ resolved, dtype=complex))

    def _products_of(self, powers: Array) -> Array:
        """Return the products of the terms of a frame with the vectors of `others`, from the powers of r."""
        (x, hidden, part), known, law = self._directions, self.samples.spectrum, self.samples.law
        r, phi0, mean = law.residual, self.samples.ratio, law.mean(law.residual)
        signal, noise = self._signals, self.samples.turned.noise
        c, mean_b = known.eigenvalue, self.samples.mean_b
        one, two = part @ c, part @ (c**2 * mean_b)
        turned, last_turned = ((part * signal) @ values for values in (c**2, c**3 * mean_b))
        second, third = (float(known.share @ (noise * values)) for values in (c**2, c**3 * mean_b))
        found = np.empty((2 * len(x) + 1, 5))
        for column, power in zip((0, 2, 4), powers, strict=True):
            vector = x @ (law.weight * power)
            found[:, column] = [*(one * vector), *(turned * vector), phi0 * second * law.mean(r * power)]
        for column, power in zip((1, 3), powers, strict=False):
            # The projection of a sample on C h, of which it has made a part.
            vector = x @ (law.weight * power)
            along = (one * vector) @ x + phi0 * power
            taken = x @ (law.weight * r * along) + mean * (np.diag(hidden) - 1) * one * vector
            last = phi0 * (second * law.mean(r**2 * along) + third * law.mean(r * power))
            by_signal = turned * taken + last_turned * vector
            found[:, column] = [*(one * taken + two * vector), *by_signal, last]
        if self.forms is None:
            return found
        u, between = law.projection, self.forms.between
        for column, power in zip((0, 2, 4), powers, strict=True):
            found[-1, column] += between(r, power)
        for column, power in zip((1, 3), powers, strict=False):
            found[0, column] += between(r * u, power)
            found[-1, column] += law.mean(u * power) * between(r * u, r) + self.forms.sampled(r, r, power)
        return found

    @cached_property
    def _weights(self) -> Array:
        """Powers 1 to 4 of the residual with the weights ``r^2``, ``r x`` and ``x x^T``, shape (weights, 4, nodes)."""
        (x, *_), p, r = self._directions, self.samples.law.weight, self.samples.law.residual
        products = self._projections
        return self._powers(np.concatenate([[p * r**2], p * r * x, products.reshape(-1, len(r))]))

    @property
    def _projections(self) -> Array:
        """Second moments of a sample's projections with the weights of the nodes, (directions, directions, nodes)."""
        x, hidden, _ = self._directions
        return np.asarray(self.samples.law.weight * (x[:, None] * x + hidden[..., None]))

    @property
    def _seen(self) -> Array:
        """Mean of ``x x^T`` times m, shape (1 or points, directions, 2, directions, 2)."""
        r = self.samples.law.residual
        moments = np.einsum("pn,kln->pkl", [r, r**2], self._projections)
        return np.asarray(np.einsum("pzij,pkl->zkilj", self._own, moments))

    def _sampled(self, points: StretchedPoints) -> tuple[Complex, Complex]:
        """Return means of ``m (1 + M m)^-1`` with `_weights` and their derivatives, shape (weights, points, 2, 2)."""
        return self._averaged(points, self._weights)

    def _with_noise(self, inverse: Complex, gain: Complex) -> tuple[Complex, Complex]:
        """Return ``phi0 <c^2 G>`` with the factor of the noise in each class, and with its square.

        It is the gain itself where no gradient is turned.
        """
        if self.samples.turn is None:
            return gain, gain
        known, noise = self.samples.spectrum, self.samples.turn.noise
        by_second, ratio = known.share * known.eigenvalue**2 * noise, _at_points(self.samples.ratio)
        once, twice = (ratio * np.einsum("zcij,c->zij", inverse, by_second * factor) for factor in (1, noise))
        return once, twice

    def _blocks(
        self, inverse: Complex, e_e: Complex, e_y: Complex, *, power: int = 0, row: int = 0, turned: bool = True
    ) -> tuple[Complex, Complex]:
        """Return the inverse of H without the coupling between the vectors, and of these with its pairs.

        The vectors on the left are multiplied by a power of C, and lie in this row of H. They are those of the mean
        gradient unless they are `turned` as those on the right are.
        """
        signals = self._signals
        (_, _, part), c, size = self._directions, self.samples.spectrum.eigenvalue, len(inverse)
        count = len(part)
        among = np.zeros((size, 2 * count + 1, 2 * count + 1), dtype=complex)
        across = np.zeros((size, 2 * count + 1, 4 * count), dtype=complex)
        for k in range(count):
            first, last, pair, signal = k, count + k, slice(2 * k, 2 * k + 2), signals[k]
            from_left = signal if turned else np.ones_like(signal)
            for place, weight in ((first, part[k] * c**power), (last, part[k] * c ** (power + 1) * from_left)):
                to_first, to_last, to_pair = (
                    np.einsum("zcj,c->zj", inverse[:, :, row], weight * other) for other in (1, c * signal, c)
                )
                among[:, place, first], among[:, place, last] = to_first[:, 0], to_last[:, 0]
                across[:, place, pair] = to_pair
            across[:, -1, 2 * (count + k) : 2 * (count + k) + 2] = e_y[k, :, row]
        among[:, -1, -1] = e_e[:, row, 0]
        return among, across

    def _drawn(self, points: StretchedPoints) -> tuple[_Vectors, _Drawn]:
        """Return what the products of the samples of a draw change, with the vectors that are made by the residuals."""
        assert self.forms is not None
        law, functions = self.samples.law, self.forms.functions
        weights = law.weight * np.concatenate([law.projection * functions, law.residual[None]])
        left, d_left = self._averaged(points, self._powers(weights))
        gain, d_gain, by_residual, d_by_residual = points.gain, points.d_gain, left[-1], d_left[-1]
        middle = -gain @ by_residual @ gain / self.forms.scale
        d_middle = d_gain @ by_residual @ gain + gain @ d_by_residual @ gain + gain @ by_residual @ d_gain
        matrices = np.stack([self.forms.plain, self.forms.by_residual])
        both = np.stack([gain, middle]), np.stack([d_gain, -d_middle / self.forms.scale])
        return self._drawn_vectors(points, law.residual), _Drawn(matrices, *both, _Vectors(left[:-1], d_left[:-1]))

    def _drawn_vectors(self, points: StretchedPoints, values: Array) -> _Vectors:
        """Return the parts of ``(1 + M m)^-1`` times a function of a sample along the functions of the forms."""
        assert self.forms is not None
        weights = self.samples.law.weight * values * self.forms.functions
        left, d_left = self._averaged(points, self._powers(weights))
        whole = self.forms.parts(values)[:, None, None, None] * np.eye(2)
        return _Vectors(whole - points.gain @ left, -points.d_gain @ left - points.gain @ d_left)

    def _averaged(self, points: StretchedPoints, powers: Array) -> tuple[Complex, Complex]:
        """Return the same means with the weights of some `_powers`."""
        parts = self._parts(points.gain)
        left = _left(parts, _sums(points.determinant, powers[:, :2]))
        d_left = _d_left(parts, _sums(_square(points.determinant), powers[:, 1:]), points.d_gain[:, None])
        return np.moveaxis(left, 1, 0), np.moveaxis(d_left, 1, 0)

    def _among_pairs(self, seen: Array, left: Complex) -> Complex:
        """Return the inverse of H without the coupling between the pairs that the samples make."""
        count, size = seen.shape[1], left.shape[1]
        between = left[count + 1 :].reshape(count, count, size, 2, 2).transpose(2, 0, 3, 1, 4)
        return np.asarray((seen - between).reshape(size, 2 * count, 2 * count))

    def _inner(self, inverse: Complex, among_pairs: Complex) -> Complex:
        """Return the inverse of H without the coupling, between the pairs of the coupling."""
        (_, _, part), c, size = self._directions, self.samples.spectrum.eigenvalue, len(inverse)
        count = len(part)
        inner = np.zeros((size, 4 * count, 4 * count), dtype=complex)
        for k in range(count):
            inner[:, 2 * k : 2 * k + 2, 2 * k : 2 * k + 2] = np.einsum("zcij,c->zij", inverse, part[k] * c**2)
        inner[:, 2 * count :, 2 * count :] = among_pairs
        return inner

    def _coupling(self, weight: Complex, seen: Array) -> Complex:
        """Return the change of H along the directions, between the pairs of the coupling."""
        count = seen.shape[1]
        coupling = np.zeros((len(weight), 4 * count, 4 * count), dtype=complex)
        coupling[:, : 2 * count, : 2 * count] = seen.reshape(-1, 2 * count, 2 * count)
        for k in range(count):
            coupling[:, 2 * k : 2 * k + 2, 2 * k : 2 * k + 2] -= weight
        coupling[:, : 2 * count, 2 * count :] = coupling[:, 2 * count :, : 2 * count] = np.eye(2 * count)
        return coupling

    def average(self, frame: Array) -> Array:
        """Return A itself between the vectors of `between`.

        Docs, "Bases of stretched rows", equation (B3).
        """
        return np.asarray(frame.T @ self._averages[0] @ frame)

    def product_averages(self, frame: Array) -> tuple[Array, Array]:
        """Return C and ``q CBC`` themselves between the vectors of `between`, from the same equation."""
        _, by_c, by_samples = self._averages
        return np.asarray(frame.T @ by_c @ frame), np.asarray(frame.T @ by_samples @ frame)

    @cached_property
    def _averages(self) -> tuple[Array, Array, Array]:
        """A, C and ``q CBC`` between the vectors of which a frame is made."""
        known, law = self.samples.spectrum, self.samples.law
        (x, hidden, part), r, phi0 = self._directions, law.residual, self.samples.ratio
        count = len(x)
        third = slice(0, count), slice(count, 2 * count)
        c, signal, noise = known.eigenvalue, self._signals, self.samples.turned.noise

        def among(values: Array) -> Array:
            """Return a function of C between the vectors."""
            whole = np.zeros((2 * count + 1, 2 * count + 1))
            for i in range(2):
                for j in range(2):
                    whole[third[i], third[j]] = np.diag((part * (signal * c) ** (i + j)) @ values)
            whole[-1, -1] = phi0 * law.square * float(known.share @ (values * (c * noise) ** 2))
            return whole

        def to_directions(values: Array) -> Array:
            """Return a function of C between the vectors and the directions that a residual depends on."""
            own, turned = part @ values, (part * signal) @ (c * values)
            return np.concatenate([np.diag(own), np.diag(turned), np.zeros((1, count))])

        # Projections of a sample on C times the vectors, given its residual, and their covariance there.
        turn = to_directions(c)
        along = turn @ x
        along[-1] = phi0 * float(known.share @ (c**2 * noise)) * r
        spread = among(c**2) + turn @ (hidden - np.eye(count)) @ turn.T

        def sampled(weight: Array) -> Array:
            return np.asarray((law.weight * weight * along) @ along.T + law.mean(weight) * spread)

        # B C x is along the directions, along C x by the mean of B in each class, and a sum over samples that are
        # independent else.
        mean_b = self.samples.mean_b
        parts = along @ (law.weight * r * x).T + law.mean(r) * turn @ (hidden - np.eye(count))
        crossed = parts @ to_directions(mean_b * c**2).T
        crossed[:, -1] += phi0 * float(known.share @ (mean_b * c**3 * noise)) * (along @ (law.weight * r**2))
        twice = parts @ np.diag(part @ c) @ parts.T + among(mean_b**2 * c**3) + crossed + crossed.T
        twice = twice + phi0 * sampled(r**2)
        by_c, by_samples = among(c), sampled(r) + among(self.samples.added * c**2)
        by_squares = sampled(law.relative_squares)
        if self.forms is not None:
            changes = self._drawn_averages(self.forms)
            by_c, by_samples, by_squares, twice = (
                each + change for each, change in zip((by_c, by_samples, by_squares, twice), changes, strict=True)
            )
        whole = by_c + 2 * self.linear * by_samples + self.root**2 * twice
        return whole + self.strength * by_squares, by_c, self.root * by_samples

    def _drawn_averages(self, forms: SampleForms) -> Array:
        """Return the changes of one, B, S and ``B^2`` in a draw, shape (4, 3, 3)."""
        law = self.samples.law
        r, u, squares = law.residual, law.projection, law.relative_squares
        along, crossed, plain = law.mean(r * u**2), law.mean(r**2 * u) * forms.ratio, forms.between(r * u, r)
        found = np.zeros((4, 3, 3))
        found[:, -1, -1] = [
            forms.between(r, r),
            forms.sampled(r, r, r),
            forms.sampled(r, squares, r),
            (2 * crossed + plain) * plain + forms.sampled_twice(r, r),
        ]
        across = [0.0, plain, forms.between(squares * u, r), along * plain + forms.sampled(r * u, r, r)]
        found[:, -1, :2] = found[:, :2, -1] = np.array(across)[:, None]
        found[3, :2, :2] = forms.between(r * u, r * u)
        return found


def _in_coordinates(points: StretchedPoints, removed: Array) -> StretchedPoints:
    """Return a solution in the coordinates of H, from those with a part of the first added to the second.

    The part `removed` has shape (1 or points, 1, 1).
    """
    turn, back = (np.eye(2) + sign * removed * np.eye(2, k=-1) for sign in (-1, 1))
    inverse, d_inverse = (turn[:, None] @ each @ turn[:, None].mT for each in (points.inverse, points.d_inverse))
    gain, d_gain = (turn @ each @ turn.mT for each in (points.gain, points.d_gain))
    weight, d_weight = (back.mT @ each @ back for each in (points.weight, points.d_weight))
    return StretchedPoints(inverse, d_inverse, gain, d_gain, points.determinant, weight, d_weight)


def _at_points(number: float | Array) -> Array:
    """Return a number, or one for each point, with the shape (1 or points, 1, 1)."""
    return np.reshape(number, (-1, 1, 1))


def _joined(
    law: Residual,
    spectrum: Spectrum,
    turn: Turn | None,
    beside: SpikeBeside | None,
    output: Array | None,
    forms: SampleForms | None,
    z: Complex,
    frame: Array,
    numbers: Array,
    added: Array,
) -> tuple[StretchedLaw, Complex, Array]:
    """Return laws as one that is another at each of the points.

    The first six arguments are as in `StretchedLaw` and its samples. For each law `numbers`, shape (laws, 5), has
    ``phi0``, ``k``, ``q``, ``t`` and the variance of the output, and `added`, shape (laws, classes), is what the own
    output adds to B. The points have shape (laws, points) and become (all points,); the frames have shape
    (laws, terms, vectors) and become (all points, terms, vectors).
    """
    ratio: Any
    ratio, linear, root, strength, _ = np.repeat(numbers.T, z.shape[1], axis=1)
    # The mean gradient is no part of the equations. The variance is that of the one output.
    by_output = np.repeat(added, z.shape[1], axis=0)
    samples = CorrelatedSamples(law, ratio, math.nan, spectrum, turn, beside=beside, by_output=by_output)
    whole = StretchedLaw(samples, linear, root, strength, output, float(numbers[0, -1]), forms)
    return whole, z.ravel(), np.repeat(frame, z.shape[1], axis=0)


def _resolvents(*joined: Any) -> list[Resolvents]:
    """Return laws at points, from the parameters of `_joined`."""
    whole, z, frame = _joined(*joined)
    *_, numbers, added = joined
    count = len(numbers)
    if whole.forms is not None and count == 1:
        # Draws of one law differ in what comes after its solution.
        key, known = b"".join(each.tobytes() for each in (z, numbers, added)), whole.forms.solutions
        if key in known:
            whole.keep(z, known[key])
        known[key] = whole.at(z)
    points = whole.at(z)
    of_nodes = points.determinant.swapaxes(0, 1)
    found = *points._replace(determinant=of_nodes), *whole.transform(z), *whole.between(z, frame)
    each = zip(*(np.split(values, count) for values in found), strict=True)
    split = ((StretchedPoints(*values[:7]), *values[7:]) for values in each)
    return [Resolvents(p._replace(determinant=p.determinant.swapaxes(0, 1)), *rest) for p, *rest in split]


def _square(parts: Array) -> Array:
    """Return the real and imaginary parts of squares of numbers given by theirs."""
    real, imaginary = parts
    found = np.empty_like(parts)
    np.multiply(real + imaginary, real - imaginary, out=found[0])
    np.multiply(real, imaginary, out=found[1])
    found[1] *= 2
    return found


def _sums(values: Array, weights: Array) -> Complex:
    """Return sums of complex numbers over the nodes, shape (points, weights, powers).

    Their real and imaginary parts are `values`, shape (2, points, nodes), and the weights have shape
    (weights, powers, nodes).
    """
    _, points, nodes = values.shape
    real, imaginary = (values.reshape(-1, nodes) @ weights.reshape(-1, nodes).T).reshape(2, points, *weights.shape[:2])
    return np.asarray(real + 1j * imaginary)


def _left(parts: tuple[Array, Complex], sums: Complex) -> Complex:
    """Return means of ``m (1 + M m)^-1``, what is left of a sample next to itself, shape (points, weights, 2, 2).

    The coefficients of r and r^2 in it, times the determinant, are `parts`, shapes (1 or points, 2, 2) and
    (points, 2, 2). The means of the two over the determinant are `sums`, shape (points, weights, 2).
    """
    one, two = parts
    first, second = (sums[..., power, None, None] for power in range(2))
    return np.asarray(first * one[:, None] + second * two[:, None])


def _d_left(parts: tuple[Array, Complex], sums: Complex, change: NDArray[Any]) -> Complex:
    """Return the change of `_left` with a change of M, shape (points, ..., 2, 2).

    The parts are as in `_left`, and `sums`, shape (points, ..., 3), are the means of r^2, r^3 and r^4 over the square
    of the determinant.
    """
    one, two = (each.reshape(len(each), *(1,) * (sums.ndim - 2), 2, 2) for each in parts)
    lowest, middle, highest = (sums[..., power, None, None] for power in range(3))
    crossed = one @ change @ two
    return np.asarray(
        -(lowest * (one @ change @ one) + middle * (crossed + crossed.mT) + highest * (two @ change @ two))
    )


def _sandwich(outer: Complex, inner: NDArray[Any], weight: Array) -> Complex:
    """Return sums of ``X E X`` over the classes, with weights, shape (points, matrices, 2, 2).

    The symmetric matrices X are `outer`, shape (points, classes, 2, 2), and `inner`, shape (points, matrices, 2, 2),
    are the matrices E.
    """
    whole = outer[:, None] @ inner[:, :, None] @ outer[:, None]
    return np.asarray(np.einsum("zmcij,c->zmij", whole, weight))


def _solved(bend: Complex, gap: Complex) -> Complex:
    """Return the symmetric matrix that a linear map turns into the gap, shape (points, 2, 2).

    What the map makes of each matrix of `_BASIS` is `bend`, shape (points, 3, 2, 2).
    """
    parts = np.linalg.solve(bend[..., _ROWS, _COLUMNS].mT, gap[..., _ROWS, _COLUMNS, None])[..., 0]
    return np.asarray(np.einsum("zk,kij->zij", parts, _BASIS))
