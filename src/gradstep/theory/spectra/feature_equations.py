r"""The equations of the features' spectrum where all directions off the spike are alike.

At ridge :math:`-zn` the leverage equations (see `gradstep.theory.equivalent.leverage`) give the Stieltjes transform

.. math:: \frac1N\mathrm{tr}\Big(\frac{F^\top F}n-z\Big)^{-1}=\frac nN\sum_g v_g,\qquad v_g=N_gR_g.

The mean features, functions of :math:`\kappa=\langle x,v\rangle` times functions of a neuron's group, make a low-rank
part. Summed over the neurons of groups :math:`g,h`, the resolvent is :math:`Q^{-1}` with
:math:`Q=\mathrm{diag}(1/v)+G_0` and :math:`G_0=nE[(g_0g_0^\top+g_\ell g_\ell^\top)/(1+V)]`, :math:`g_\ell` being the
slope of :math:`g_0` along the input's length. An outlier is a real :math:`z` outside the bulk with :math:`\det Q=0`;
the residues of :math:`Q^{-1}` there are the overlaps of its singular vectors with functions of :math:`\kappa` and of
the readout. The step reduces the network's own output: along the readout at initialisation the bulk is smaller by a
factor :math:`s`, which turns :math:`1/A` into :math:`1/(A-(1-s^2)\Psi)` in that one direction and moves outliers only.
This assumes one resolvent for all groups along the readout, which is inaccurate if ``|s|`` is above two. The Stieltjes
transform is that of Cui et al. 2024, appendix F, for a constant readout; the rest is of this project.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradstep.theory.equivalent.leverage import (
    Directions,
    LeverageEquations,
    LeverageTable,
    evaluate,
    linearised,
)
from gradstep.theory.equivalent.linearised import SymmetricPairs
from gradstep.theory.equivalent.stacks import LARGEST_STACK, scaled_factors, solved_definite
from gradstep.theory.spectra.stieltjes import Point, in_half_plane

__all__ = ["FeatureEquations"]

Array = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]

#: Step along the imaginary axis that stands for a derivative: nothing is lost in it, however small it is.
_IMAGINARY = 1e-20
#: Least number of points that are worth a stack: guesses from a walk are better.
_WORTH_A_STACK = 6
#: How many times fewer factors than unknowns are worth it; singular value that counts, over the largest.
_WORTH_FACTORS, _DIMENSION = 3, 1e-14
#: Least singular value of a table that has factors, over the largest.
_WEAK = 1e-6


class _Factors(NamedTuple):
    """Slopes as ``left @ right``; products of their factors and the variances' factors, of groups and of nodes."""

    left: Array
    right: Array
    by_group: Array
    by_node: Array
    pairs: SymmetricPairs

    def diagonal(self, matrix: NDArray[Any]) -> NDArray[Any]:
        """Return the vector that turns products of factors into ``u @ matrix @ u``."""
        return self.pairs.of_symmetric((matrix + matrix.mT) / 2)


def _product(table: Array) -> tuple[Array, Array] | None:
    """Return factors of a table, each entry right to rounding relative to its row and column.

    None if a dimension is weak: neurons that are nearly alike differ by little, and factors would lose its digits.
    """
    left, right, weakest = scaled_factors(table, _DIMENSION)
    return None if weakest < _WEAK else (left, right)


@dataclass(frozen=True)
class FeatureEquations:
    """The leverage equations at ridge ``-z n``, for `gradstep.theory.spectra.stieltjes`.

    Docs, "Spectra", equation (Z1).
    """

    kappa: Array  #: Shape (nodes,).
    #: ``g0``, then its slope along the input's length if any (`Tables.shared_mean`).
    #: Shape (groups, nodes) or (groups, 2 nodes).
    shared: Array
    slope: Array  #: ``g1``, shape (groups, nodes).
    variance: Array  #: ``g2``, shape (groups, nodes).
    weight: Array  #: Shape (nodes,).
    neurons: Array  #: Shape (groups,).
    dimension: float  #: ``d - 1``.
    samples: float  #: ``n``.
    #: The readout at initialisation in the basis of normalised groups, a unit vector. Shape (groups,).
    direction: Array | None = None
    resolved_share: float = 1.0  #: Share of the readout's power that the groups resolve.
    removed: float = 0.0  #: Share of the bulk's that the step takes from along the readout (``1 - s^2``).

    @property
    def mean(self) -> Array:
        """``g0``, shape (groups, nodes)."""
        return self.shared[:, : len(self.weight)]

    def at_shared(self, values: Array) -> Array:
        """Return values at the nodes, repeated for each column of what is shared."""
        return np.tile(values, self.shared.shape[1] // len(values))

    @cached_property
    def width(self) -> float:
        """Number of neurons."""
        return float(self.neurons.sum())

    @property
    def directions(self) -> float:
        """Number of the directions of the bulk."""
        return self.dimension

    @cached_property
    def _rank(self) -> tuple[float, bool]:
        # A linear activation has no noise of its own: the rank is that of a product of two matrices.
        sizes = [self.width, self.samples]
        if self.variance.max() <= 1e-12 * np.square(self.slope).max():
            sizes.append(self.directions)
        sizes.sort()
        # The groups' shares of the neurons sum to one but for rounding.
        return sizes[0], bool(np.isclose(sizes[0], sizes[1], rtol=1e-9))

    @property
    def mass(self) -> float:
        """Share of non-zero eigenvalues."""
        return self._rank[0] / self.width

    @property
    def hard_edge(self) -> bool:
        """Whether the two smallest sizes coincide."""
        return self._rank[1]

    @cached_property
    def top(self) -> float:
        """A bound from the largest row variance."""
        largest = float((np.square(self.slope) + self.variance).max())
        spread = 1 + np.sqrt(self.width / self.samples)
        return float(4 * largest * (spread * (1 + np.sqrt(self.width / self.dimension))) ** 2)

    def start(self, z: complex) -> ComplexArray:
        """Return the logarithms of ``V`` and ``R`` for a large ``z``."""
        resolvent = np.full(len(self.neurons), -1 / (z * self.samples))
        leverage = (self.neurons * resolvent) @ (self.slope**2 + self.variance)
        return np.log(np.concatenate([leverage, resolvent]).astype(np.complex128))

    @property
    def at_once(self) -> int:
        """Number of points whose matrices are together in the cache, or one where these are large."""
        count = LARGEST_STACK // (sum(self.slope.shape) ** 2 * self._classes)
        return count if count >= _WORTH_A_STACK else 1

    @property
    def _classes(self) -> int:
        """Number of classes of directions."""
        return 1

    def newton(self, z: Any, state: ComplexArray) -> tuple[ComplexArray, ComplexArray, ComplexArray]:
        """Return the gap, Newton's step and the tangent in z: from factors of the tables if these have few."""
        ridge = np.atleast_1d(-z * self.samples)
        width, dimension, samples = np.multiply.outer([self.width, self.dimension, self.samples], np.ones(len(ridge)))
        equations, states = LeverageEquations(self._table, width, dimension, samples, ridge), np.atleast_2d(state)
        if self._factors is not None:
            gap, moves = self._newton_of_factors(self._factors, equations, states)
        else:
            point = evaluate(equations, states)
            gap, (matrix, into, out) = point.gap, linearised(equations, point)
            right = into[..., None] * self._right_sides(gap, point.following)
            moves = out[..., None] * solved_definite(matrix, right)
        step, tangent = np.moveaxis(moves, -1, 0)
        return gap.reshape(state.shape), step.reshape(state.shape), tangent.reshape(state.shape)

    @cached_property
    def _table(self) -> LeverageTable:
        fraction = self.neurons / self.width
        kinds = (Directions(self.slope[None]),)
        return LeverageTable(self.variance[None], self.weight[None], fraction[None], kinds)

    def _right_sides(self, gap: ComplexArray, following: ComplexArray) -> ComplexArray:
        """Return the gap, and how z moves the right-hand sides, of which only those of the resolvents contain it."""
        drift = self.samples * following
        drift[..., : len(self.weight)] = 0
        return np.stack([gap, drift], axis=-1)

    def _newton_of_factors(
        self, factors: _Factors, equations: LeverageEquations, state: ComplexArray
    ) -> tuple[ComplexArray, ComplexArray]:
        """Return the gap, and step and tangent, of `newton`: the matrix is a diagonal one less one of few dimensions.

        With a leading axis for the points.
        """
        left, right, by_group, by_node, pairs = factors
        nodes, squares = len(self.weight), len(pairs.first)
        values = np.exp(state)
        leverage, resolvent = values[:, :nodes], values[:, nodes:]
        sample_weight, density = equations.sampling / (1 + leverage), equations.per_direction * resolvent
        gain, product = (right * sample_weight[:, None]) @ right.T, (left.T * density[:, None]) @ left
        damping = np.linalg.inv(np.eye(len(right)) + gain @ product)
        coupling, psi = product @ damping, damping @ gain
        raised = np.concatenate([factors.diagonal(coupling), density @ by_group[:, squares:]], axis=1) @ by_node
        load = np.concatenate([factors.diagonal(psi), sample_weight @ by_node[squares:].T], axis=1)
        following = np.concatenate(
            [self.dimension * raised, 1 / (equations.ridge[:, None] + load @ by_group.T)], axis=1
        )
        gap = np.log(following / values)

        into = np.concatenate([raised, density / following[:, nodes:]], axis=1)
        out = np.concatenate([(1 + leverage) / (sample_weight * leverage), np.ones_like(resolvent)], axis=1)
        size, one = len(by_node), np.eye(len(by_node))
        core = np.zeros((len(state), 2 * size, 2 * size), dtype=np.complex128)
        core[:, :size, size:], core[:, size:, :size] = one, one
        of_nodes, of_groups, source = slice(squares), slice(size, size + squares), pairs.square(damping)
        core[:, of_nodes, of_nodes], core[:, of_groups, of_groups] = pairs.square(coupling), pairs.square(psi)
        core[:, of_nodes, of_groups], core[:, of_groups, of_nodes] = source.mT, source
        rows = np.zeros((len(state), 2 * size, state.shape[1]), dtype=np.complex128)
        rows[:, :size, :nodes], rows[:, size:, nodes:] = by_node, by_group.T * density[:, None]
        # Woodbury's formula.
        alone = self._right_sides(gap, following) / out[..., None]
        spread = rows / (into * out)[:, None]
        missing = np.linalg.solve(np.eye(2 * size) - core @ (spread @ rows.mT), core @ (rows @ alone))
        return gap, out[..., None] * (alone + spread.mT @ missing)

    @cached_property
    def _factors(self) -> _Factors | None:
        """The tables as products, if they have few dimensions to rounding: those of polynomials have."""
        slope, variance = _product(self.slope), _product(self.variance)
        if slope is None or variance is None:
            return None
        (left, right), (own, of_nodes) = slope, variance
        # Squares of products of the slopes are products of these.
        pairs = SymmetricPairs.among(left.shape[1])
        by_group, by_node = (
            np.concatenate([pairs.of(left.T).T, own], axis=1),
            np.concatenate([pairs.of(right), of_nodes]),
        )
        factors = _Factors(left, right, by_group, by_node, pairs)
        return factors if _WORTH_FACTORS * len(factors.by_node) < sum(self.slope.shape) else None

    def matters(self, state: ComplexArray) -> Array:
        """Return one for resolvents; a leverage ``V`` is noticed in ``1 + V`` alone."""
        leverage = np.exp(state[: len(self.weight)])
        return np.concatenate([np.minimum(np.abs(leverage / (1 + leverage)), 1.0), np.ones(len(self.neurons))])

    def physical(self, state: ComplexArray) -> bool:
        """Tell whether leverages and resolvents have positive imaginary parts."""
        return in_half_plane(state)

    def transform(self, state: ComplexArray, tangent: ComplexArray) -> tuple[complex, complex]:
        """Return the Stieltjes transform and its derivative."""
        nodes = len(self.weight)
        terms = self.samples / self.width * self.neurons * np.exp(state[nodes:])
        return complex(terms.sum()), complex((terms * tangent[nodes:]).sum())

    @cached_property
    def _readout(self) -> Array:
        """The readout over normalised groups, and what they do not resolve of it: a unit vector."""
        along = np.zeros(len(self.neurons)) if self.direction is None else np.sqrt(self.resolved_share) * self.direction
        return np.append(along, np.sqrt(max(1 - self.resolved_share, 0.0)))

    @cached_property
    def _along(self) -> Array:
        """Weights of the groups along the readout, or equal ones."""
        count = len(self.neurons)
        return np.full(count, 1 / count) if self.direction is None else np.square(self.direction)

    def unknowns(self, point: Point) -> tuple[Array, Array]:
        """Return ``V`` and ``R`` at a real point outside the bulk."""
        leverage, resolvent = np.split(np.exp(point.state).real, [len(self.weight)])
        return leverage, resolvent

    def _root(self, resolvent: NDArray[Any]) -> NDArray[Any]:
        """Return ``|v|^1/2``; the last entry is that of an average neuron along the readout."""
        v = -np.append(self.neurons * resolvent, self.width / (self._along @ (1 / resolvent)))
        return np.asarray(np.sqrt(np.where(v.real > 0, v, 0)))

    def _strengths(
        self, z: complex, leverage: NDArray[Any], resolvent: NDArray[Any]
    ) -> tuple[NDArray[Any], complex | float]:
        """Return `rows` and `missing`: `rows` times its transpose, and what the missing bulk adds along the readout.

        The sum is ``|v|^1/2 G0 |v|^1/2`` with that bulk, an analytic function of its arguments.
        """
        sample_weight = self.samples * self.weight / (1 + leverage)
        half_weight = np.sqrt(np.where(sample_weight.real > 0, sample_weight, 0))
        rows = self._root(resolvent)[:-1, None] * self.shared * self.at_shared(half_weight)
        if self.direction is None or self.removed == 0:
            return rows, 0.0
        inverse = self._along @ (1 / resolvent)
        return rows, self.removed * (
            inverse + z * self.samples - (self._along @ self.variance) @ sample_weight
        ) / inverse

    def spikes(self, point: Point) -> tuple[Array, Array]:
        """Return vectors over the groups and what they do not resolve of the readout, and strengths above the bulk.

        These are eigenvectors of ``|v|^1/2 G0 |v|^1/2``, with what the missing bulk adds along the readout. There ``V``
        is in (-1, 0) and every ``R`` negative, except where a band too light to be found lies higher still: what makes
        it is left out. ``det Q = 0`` where a strength is one, and ``|v|^1/2`` times the vector is then its null vector.
        """
        rows, missing = self._strengths(point.z.real, *self.unknowns(point))
        if missing == 0:
            # Singular vectors keep the digits of weak spikes.
            left, singular, _ = np.linalg.svd(rows, full_matrices=False)
            none = len(rows) + 1 - len(singular)
            return np.pad(left, ((0, 1), (0, none))), np.pad(np.square(singular), (0, none))
        rows = np.concatenate([rows, np.zeros((1, rows.shape[1]))])
        strengths, vectors = np.linalg.eigh(rows @ rows.T + missing * np.outer(self._readout, self._readout))
        return vectors[:, ::-1], strengths[::-1]

    def null_vector(self, point: Point, vector: Array) -> Array:
        """Return the null vector of ``Q`` that belongs to one of the `spikes` of strength one."""
        return np.asarray(self._root(self.unknowns(point)[1]) * vector)

    def residue(self, point: Point, rank: int) -> tuple[Array, float]:
        """Return the null vector of ``Q`` at an outlier, where a strength is one, and what its square has in ``F``.

        The strength is that of the given rank. The null vector has shape (groups + 1,), and the number after it is
        ``-n`` over the derivative of the strength in z.

        Docs, "Spectra", equation (Z3).
        """
        vector = self.spikes(point)[0][:, rank]
        return self.null_vector(point, vector), -self.samples / self.slope_of_strength(point, vector)

    def slope_of_strength(self, point: Point, vector: Array) -> float:
        """Return the derivative in z of the strength of one of the `spikes`, from a step along the imaginary axis."""
        step = _IMAGINARY * point.z.real
        beside = np.split(np.exp(point.state).real * (1 + 1j * step * point.tangent.real), [len(self.weight)])
        rows, missing = self._strengths(point.z.real + 1j * step, *beside)
        strength = np.square(vector[:-1] @ rows).sum() + missing * (self._readout @ vector) ** 2
        return float(strength.imag / step)
