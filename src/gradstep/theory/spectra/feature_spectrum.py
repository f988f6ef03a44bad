r"""Spectrum of the feature covariance :math:`F^\top F/n` after a step of any size: bulk, outliers, and their vectors.

At ridge :math:`-zn` the leverage equations (see `gradstep.theory.equivalent.leverage`) give the Stieltjes transform

.. math:: \frac1N\mathrm{tr}\Big(\frac{F^\top F}n-z\Big)^{-1}=\frac nN\sum_g v_g,\qquad v_g=\frac{N_g}{A_g}.

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

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from gradstep.checks import one_of
from gradstep.errors import InvalidInput, NotConverged, within_range
from gradstep.gaussian.hermite import hermite_values
from gradstep.problem import Problem, Readout, check_problem
from gradstep.readout import readout_polynomials
from gradstep.summary import Summarised, Summary
from gradstep.text_table import Table, number
from gradstep.theory.arguments import check_refine
from gradstep.theory.equivalent.stacks import scaled_factors
from gradstep.theory.equivalent.tables import stepped_network
from gradstep.theory.models import RowLaw
from gradstep.theory.neurons.groups import Groups
from gradstep.theory.spectra.stieltjes import (
    COARSE,
    EDGE_MARGIN,
    FINE,
    Law,
    Point,
    around,
    averaged_tail,
    find_law,
    newton_step,
    start,
)
from gradstep.theory.step.residual import largest_residual, residual_law
from gradstep.theory.step.statistics import StepStatistics
from gradstep.threads import one_thread

__all__ = ["FeatureEquations", "Outlier", "Spectrum", "check_finite", "feature_spectrum", "outliers_above"]

Array = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]

#: Degrees of the functions of kappa and of the readout that outliers are compared with.
_DEGREE = 4
#: Shares of the neurons, and of the inputs far out along the spike, whose bulk is averaged, one pair after the other,
#: where the tails of their laws split into bands of single ones.
_TAILS = ((5e-3, 1e-3), (1e-2, 4e-3), (2e-2, 1.2e-2))
#: Where nothing is an eigenvalue, over a bound of the bulk.
_FAR = 16.0
#: How many times fewer factors than unknowns are worth it; singular value that counts, over the largest.
_WORTH_FACTORS, _DIMENSION = 3, 1e-14
#: Least singular value of a table that has factors, over the largest.
_WEAK = 1e-6


@dataclass(frozen=True)
class Outlier:
    r"""An eigenvalue above the bulk, and what its vectors are.

    Attributes
    ----------
    eigenvalue : float
        Of :math:`F^\top F/n`.
    sample_overlap : ndarray, shape (5,)
        Squared cosines of the left singular vector of F with :math:`h_p(\kappa)/\sqrt n`, p = 0..4, orthonormal
        Hermite polynomials of the inputs' projections on the spike direction.
    neuron_overlap : ndarray
        Squared cosines of the right singular vector with :math:`p_q(\tilde a)/\sqrt N`, where :math:`p_q` are the
        orthonormal polynomials of the readout's law (Hermite for a Gaussian readout; for a vocabulary as many as it has
        values).
    teacher_overlap : ndarray, shape (5,)
        Squared cosines of the left singular vector with :math:`h_p(\langle x,\beta_*\rangle)/\sqrt n`.
    """

    eigenvalue: float
    sample_overlap: Array
    neuron_overlap: Array
    teacher_overlap: Array

    @property
    def singular_value(self) -> float:
        """Singular value of ``F / sqrt(n)``."""
        return float(np.sqrt(self.eigenvalue))

    @property
    def sample_degree(self) -> int:
        """Degree of the Hermite polynomial of kappa that the left vector is closest to."""
        return int(np.argmax(self.sample_overlap))

    @property
    def neuron_degree(self) -> int:
        """Degree of the polynomial of the readout that the right vector is closest to."""
        return int(np.argmax(self.neuron_overlap))


@dataclass(frozen=True, repr=False)
class Spectrum(Summarised):
    """Spectrum of the feature covariance.

    Attributes
    ----------
    bulk : Law
        Law of the eigenvalues.
    outliers : tuple of Outlier
        Eigenvalues above the bulk, the largest first.
    alignment : float
        Overlap of the spike direction with the teacher's.
    sample_outlier : float, optional
        Where the step's sample with the largest residual typically (the median over draws) puts an eigenvalue above the
        bulk; none if that would not leave it. This differs from draw to draw and is not among `outliers`, samples with
        smaller residuals may add others below it, and the bulk of a network ends among them: its edge is then not
        that of `bulk`.
    """

    bulk: Law
    outliers: tuple[Outlier, ...]
    alignment: float
    sample_outlier: float | None = None

    def summary(self) -> Summary:
        """Return the summary that is printed."""
        rows = [["edge of the bulk", number(self.bulk.edge)]]
        for rank, outlier in enumerate(self.outliers, 1):
            rows.append([f"outlier {rank}, along h{outlier.sample_degree}", number(outlier.eigenvalue)])
        return Summary("Spectrum of the feature covariance", table=Table(["eigenvalue", "theory"], rows))


class _Factors(NamedTuple):
    """Slopes as ``left @ right``; products of their factors and the variances' factors, of groups and of nodes."""

    left: Array
    right: Array
    by_group: Array
    by_node: Array
    first: NDArray[np.intp]
    second: NDArray[np.intp]
    double: Array

    def square(self, matrix: NDArray[Any]) -> NDArray[Any]:
        """Return the matrix that turns products of right factors into squares of ``u @ matrix @ v``."""
        first, second = self.first[:, None], self.second[:, None]
        kept = matrix[first, first.T] * matrix[second, second.T]
        swapped = matrix[first, second.T] * matrix[second, first.T]
        return np.asarray((kept + swapped) / 2 * self.double[:, None] * self.double)

    def diagonal(self, matrix: NDArray[Any]) -> NDArray[Any]:
        """Return the vector that turns products of factors into ``u @ matrix @ u``."""
        both = matrix[self.first, self.second] + matrix[self.second, self.first]
        return np.asarray(both / 2 * self.double)


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

    Attributes
    ----------
    kappa, weight : ndarray, shape (nodes,)
    shared : ndarray, shape (groups, nodes) or (groups, 2 nodes)
        ``g0``, then its slope along the input's length if any (`ConditionalFeatures.shared_mean`).
    slope, variance : ndarray, shape (groups, nodes)
        ``g1``, ``g2``.
    neurons : ndarray, shape (groups,)
    dimension, samples : float
        ``d - 1`` and ``n``.
    direction : ndarray, shape (groups,), optional
        The readout at initialisation in the basis of normalised groups, a unit vector.
    resolved_share, removed : float
        Share of the readout's power that the groups resolve, and of the bulk's that the step takes from along the
        readout (``1 - s^2``).
    """

    kappa: Array
    shared: Array
    slope: Array
    variance: Array
    weight: Array
    neurons: Array
    dimension: float
    samples: float
    direction: Array | None = None
    resolved_share: float = 1.0
    removed: float = 0.0

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

    @cached_property
    def _rank(self) -> tuple[float, bool]:
        # A linear activation has no noise of its own: the rank is that of a product of two matrices.
        sizes = [self.width, self.samples]
        if self.variance.max() <= 1e-12 * np.square(self.slope).max():
            sizes.append(self.dimension)
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

    @cached_property
    def orientation(self) -> Array:
        """``V`` maps the upper half-plane to itself, ``A`` to the lower one."""
        return np.concatenate([np.ones(len(self.weight)), -np.ones(len(self.neurons))])

    def start(self, z: complex) -> ComplexArray:
        """Return the logarithms of ``V`` and ``A`` for a large ``z``."""
        inverse = np.full(len(self.neurons), -z * self.samples)
        leverage = (self.neurons / inverse) @ (self.slope**2 + self.variance)
        return np.log(np.concatenate([leverage, inverse]).astype(np.complex128))

    def linearise(self, z: complex, state: ComplexArray) -> tuple[ComplexArray, ComplexArray, ComplexArray]:
        """Return the gap, the Newton matrix and the drift in z."""
        g1, g2, groups, nodes = self.slope, self.variance, *self.slope.shape
        values = np.exp(state)
        leverage, inverse = values[:nodes], values[nodes:]
        sample_weight = self.samples * self.weight / (1 + leverage)
        density = self.neurons / (self.dimension * inverse)
        # (I + V1 D)^-1 g1, through the matrix of the groups or of the nodes, whichever are fewer.
        if groups < nodes:
            dressed = np.linalg.solve(np.eye(groups) + ((g1 * sample_weight) @ g1.T) * density, g1)
        else:
            inner = np.eye(nodes) + (g1.T @ (density[:, None] * g1)) * sample_weight
            dressed = np.linalg.solve(inner, g1.T).T
        weighted = dressed * sample_weight
        psi = weighted @ g1.T
        next_inverse = -z * self.samples + g2 @ sample_weight + np.einsum("gk,gk->g", weighted, g1)
        next_leverage = self.dimension * (density @ (g1 * dressed + g2))
        gap = np.log(np.concatenate([next_leverage, next_inverse]) / values)

        response = sample_weight * leverage / (1 + leverage)
        source = dressed**2 + g2
        coupling = (g1.T * density) @ dressed
        matrix = np.eye(len(state), dtype=np.complex128)
        matrix[:nodes, :nodes] -= self.dimension * coupling**2 * response / next_leverage[:, None]
        matrix[:nodes, nodes:] += (self.neurons / inverse * source.T) / next_leverage[:, None]
        matrix[nodes:, :nodes] += source * response / next_inverse[:, None]
        matrix[nodes:, nodes:] -= psi**2 * density / next_inverse[:, None]
        drift = np.concatenate([np.zeros(nodes), -self.samples / next_inverse])
        return gap, matrix, drift

    @cached_property
    def _factors(self) -> _Factors | None:
        """The tables as products, if they have few dimensions to rounding: those of polynomials have."""
        slope, variance = _product(self.slope), _product(self.variance)
        if slope is None or variance is None:
            return None
        (left, right), (own, of_nodes) = slope, variance
        # Squares of products of the slopes are products of these.
        dimensions = left.shape[1]
        first, second = np.triu_indices(dimensions)
        double = np.where(first == second, 1.0, np.sqrt(2.0))
        factors = _Factors(
            left,
            right,
            np.concatenate([left[:, first] * left[:, second] * double, own], axis=1),
            np.concatenate([right[first] * right[second] * double[:, None], of_nodes]),
            first,
            second,
            double,
        )
        return factors if _WORTH_FACTORS * len(factors.by_node) < sum(self.slope.shape) else None

    def newton(self, z: complex, state: ComplexArray) -> tuple[ComplexArray, ComplexArray, ComplexArray]:
        """Return the gap, Newton's step and the tangent in z: as from `linearise`, from the factors if there are."""
        if (factors := self._factors) is None:
            return newton_step(*self.linearise(z, state))
        left, right, by_group, by_node, *_ = factors
        groups, nodes = self.slope.shape
        squares = len(factors.first)
        values = np.exp(state)
        leverage, inverse = values[:nodes], values[nodes:]
        sample_weight = self.samples * self.weight / (1 + leverage)
        density = self.neurons / (self.dimension * inverse)
        gain, density_product = (right * sample_weight) @ right.T, (left.T * density) @ left
        damping = np.linalg.inv(np.eye(len(gain)) + gain @ density_product)
        coupling, psi = (factors.square(matrix) for matrix in (density_product @ damping, damping @ gain))
        # Diagonals of products of the slopes, as sums over the products' own products.
        of_nodes, of_groups = (factors.diagonal(matrix) for matrix in (density_product @ damping, damping @ gain))
        own_group, own_node = by_group[:, squares:], by_node[squares:]
        next_inverse = -z * self.samples + by_group[:, :squares] @ of_groups + own_group @ (own_node @ sample_weight)
        next_leverage = self.dimension * (of_nodes @ by_node[:squares] + (density @ own_group) @ own_node)
        gap = np.log(np.concatenate([next_leverage, next_inverse]) / values)

        # The matrix is the identity less left @ core @ right, with few columns and rows.
        size = len(by_node)
        core = np.zeros((2 * size, 2 * size), dtype=np.complex128)
        core[:squares, :squares] = self.dimension * coupling
        core[size : size + squares, size : size + squares] = psi
        source = np.eye(size, dtype=np.complex128)
        source[:squares, :squares] = factors.square(damping)
        core[:size, size:], core[size:, :size] = -self.dimension * source.T, -source
        left_node, left_group = (by_node / next_leverage).T, by_group / next_inverse[:, None]
        right_node = by_node * (sample_weight * leverage / (1 + leverage))
        right_group = by_group.T * density
        right_sides = np.zeros((nodes + groups, 2), dtype=np.complex128)
        right_sides[:, 0], right_sides[nodes:, 1] = gap, -self.samples / next_inverse
        projected = np.concatenate([right_node @ right_sides[:nodes], right_group @ right_sides[nodes:]])
        turned = np.zeros_like(core)
        turned[:, :size] = core[:, :size] @ (right_node @ left_node)
        turned[:, size:] = core[:, size:] @ (right_group @ left_group)
        added = np.linalg.solve(np.eye(2 * size) - turned, core @ projected)
        right_sides[:nodes] += left_node @ added[:size]
        right_sides[nodes:] += left_group @ added[size:]
        return gap, right_sides[:, 0], right_sides[:, 1]

    def transform(self, state: ComplexArray, tangent: ComplexArray) -> tuple[complex, complex]:
        """Return the Stieltjes transform and its derivative."""
        nodes = len(self.weight)
        terms = self.samples / self.width * self.neurons * np.exp(-state[nodes:])
        return complex(terms.sum()), complex(-(terms * tangent[nodes:]).sum())

    def _missing(self, point: Point) -> tuple[float, float]:
        """Return the bulk that is missing along the readout, over ``A`` there, and its derivative in z."""
        if self.direction is None or self.removed == 0:
            return 0.0, 0.0
        nodes, along = len(self.weight), np.square(self.direction)
        values, tangent = np.exp(point.state).real, point.tangent.real
        sample_weight = self.samples * self.weight / (1 + values[:nodes])
        change = -sample_weight * values[:nodes] / (1 + values[:nodes]) * tangent[:nodes]
        variance = along @ self.variance
        inverse, d_inverse = along @ values[nodes:], along @ (values[nodes:] * tangent[nodes:])
        lost = inverse + point.z.real * self.samples - variance @ sample_weight
        d_lost = d_inverse + self.samples - variance @ change
        slope = (d_lost - lost * d_inverse / inverse) / inverse
        return float(self.removed * lost / inverse), float(self.removed * slope)

    @cached_property
    def _readout(self) -> Array:
        """The readout over normalised groups, and what they do not resolve of it: a unit vector."""
        along = np.zeros(len(self.neurons)) if self.direction is None else np.sqrt(self.resolved_share) * self.direction
        return np.append(along, np.sqrt(max(1 - self.resolved_share, 0.0)))

    def _root(self, point: Point) -> Array:
        """Return ``|v|^1/2``; the last entry is that of an average neuron along the readout."""
        inverse = np.exp(point.state[len(self.weight) :]).real
        average = inverse.mean() if self.direction is None else np.square(self.direction) @ inverse
        sizes = np.append(self.neurons, self.width), np.append(inverse, average)
        return np.asarray(np.sqrt(np.maximum(-sizes[0] / sizes[1], 0.0)))

    def spikes(self, point: Point) -> tuple[Array, Array]:
        """Return vectors over the groups and what they do not resolve of the readout, and strengths above the bulk.

        These are eigenvectors of ``|v|^1/2 G0 |v|^1/2``, with what the missing bulk adds along the readout. There ``V``
        is in (-1, 0) and every ``A`` negative, except where a band too light to be found lies higher still: what makes
        it is left out. ``det Q = 0`` where a strength is one, and ``|v|^1/2`` times the vector is then its null vector.
        """
        root, leverage = self._root(point), np.exp(point.state[: len(self.weight)]).real
        half_weight = np.sqrt(np.maximum(self.samples * self.weight / (1 + leverage), 0.0))
        rows = root[:-1, None] * self.shared * self.at_shared(half_weight)
        missing, _ = self._missing(point)
        if missing == 0:
            # Singular vectors keep the digits of weak spikes.
            left, singular, _ = np.linalg.svd(rows, full_matrices=False)
            return np.concatenate([left, np.zeros((1, left.shape[1]))]), np.square(singular)
        rows = np.concatenate([rows, np.zeros((1, rows.shape[1]))])
        strengths, vectors = np.linalg.eigh(rows @ rows.T + missing * np.outer(self._readout, self._readout))
        return vectors[:, ::-1], strengths[::-1]

    def null_vector(self, point: Point, vector: Array) -> Array:
        """Return the null vector of ``Q`` that belongs to one of the `spikes` of strength one."""
        return self._root(point) * vector

    def slope_of_strength(self, point: Point, vector: Array) -> float:
        """Return the derivative in z of the strength of one of the `spikes`."""
        nodes = len(self.weight)
        values, tangent = np.exp(point.state).real, point.tangent.real
        null = self.null_vector(point, vector)[:-1]
        along, turned = null @ self.shared, (null * tangent[nodes:]) @ self.shared
        sample_weight = self.samples * self.weight / (1 + values[:nodes])
        response = sample_weight * values[:nodes] / (1 + values[:nodes])
        _, d_missing = self._missing(point)
        by_nodes = self.at_shared(response * tangent[:nodes]) @ np.square(along)
        by_weight = turned @ (self.at_shared(sample_weight) * along)
        return float(d_missing * (self._readout @ vector) ** 2 - by_nodes - by_weight)


@one_thread()
@within_range("the spectrum")
def feature_spectrum(problem: Problem, *, rows: RowLaw = "network", refine: int = 1) -> Spectrum:
    r"""Predict the spectrum of :math:`F^\top F/n` on fresh samples after the step.

    Docs, "Spectra", equation (Z1).

    Parameters
    ----------
    problem : Problem
        With finite sizes; its ridge and noise of the fit do not matter. For a proportional limit take a large `d`.
    rows : {"network", "isotropic"}
        Law of the rows after the step, as in `gradstep.predict`.
    refine : int
        Multiplies the number of quadrature nodes.

    Returns
    -------
    Spectrum

    Raises
    ------
    InvalidInput
        For infinite sizes, or an initial output that diverges with the width (``output_scale="1/sqrt(N)"``, activation
        and readout both with a mean).
    NotConverged
        If the solution cannot be followed to the real axis, or the density does not integrate to one.

    Notes
    -----
    Directions off the spike are all alike here, as with ``bulk="isotropic"`` in `gradstep.predict`. With
    ``output_scale="1/sqrt(N)"`` and a large step the spike is along the gradient and the common part of all rows
    together (`gradstep.theory.step.own_output`).
    """
    check_refine(refine)
    check_finite(problem, rows)
    # Folding would lose which value of a vocabulary a group has.
    network = stepped_network(problem, rows, "isotropic", refine, fold=problem.readout.kind == "gaussian")
    sizes, step, groups, features = network.sizes, network.step.resolved, network.tables.groups, network.tables.features
    share, direction = groups.readout_direction
    equations = FeatureEquations(
        features.kappa,
        features.shared_mean,
        features.slope,
        features.variance,
        features.weight,
        sizes.width * groups.weight,
        sizes.d - 1,
        sizes.n,
        direction,
        float(share[0]),
        1 - network.shrinkage**2,
    )
    equations, bulk = _law(equations, groups.weight)
    odd = problem.activation.parity == "odd" and problem.readout.kind == "gaussian"
    polynomials = _readout_polynomials(problem.readout, groups, step, odd=odd)
    outliers = outliers_above(bulk.edge, equations, polynomials, alignment=step.alignment, gaussian=not groups.resolved)
    sample_outlier = _sample_outlier(problem, step, groups, equations, bulk.edge) if rows == "network" else None
    return Spectrum(bulk, outliers, network.step.alignment, sample_outlier)


def _sample_outlier(
    problem: Problem, step: StepStatistics, groups: Groups, equations: FeatureEquations, edge: float
) -> float | None:
    r"""Return the eigenvalue above the bulk along the step's sample with the largest residual.

    That residual is taken at its median over draws. Along its sample the rows of a group have ``u_g`` times their mean
    variance. Directions off the spike decouple: there is an eigenvalue where :math:`|D_u|^{1/2}V_1|D_u|^{1/2}` has the
    eigenvalue one, `D` being negative above the bulk. This project.
    """
    if problem.n_step == np.inf or step.bulk == 0:
        return None
    count = problem.real_sizes().n_step
    sample = largest_residual(problem.link, step.residual_offset, step.residual_noise, equations.dimension + 1, count)
    scale = problem.readout.second_moment
    a, a_square = groups.readout * np.sqrt(scale), groups.readout_square * scale
    mean = 1 + 2 * step.drift * a + (step.drift**2 + step.bulk) * a_square
    # The linear part of the bulk, and the rest (see `gradstep.theory.neurons.bulk`).
    residual = residual_law(problem.link, step.residual_offset, step.residual_noise)
    linear = step.curvature**2 * (equations.dimension + 1) / count * residual.square
    stretch = step.curvature * sample.weight
    along = 1 + 2 * stretch * a + (stretch**2 + (step.bulk - linear) * sample.squared_weight) * a_square
    profile = np.maximum(along / mean, 0.0)
    far = start(equations, complex(_FAR * equations.top * max(1.0, float(profile.max()))))

    def excess(log_x: float) -> float:
        values = np.exp(around(equations, far, float(np.exp(log_x))).state).real
        leverage, inverse = np.split(values, [len(equations.weight)])
        density = np.maximum(-equations.neurons * profile / (equations.dimension * inverse), 0.0)
        sample_weight = np.maximum(equations.samples * equations.weight / (1 + leverage), 0.0)
        rows = np.sqrt(density)[:, None] * equations.slope * np.sqrt(sample_weight)
        return float(np.linalg.norm(rows, ord=2)) ** 2 - 1

    bracket = np.log(edge * (1 + EDGE_MARGIN)), np.log(far.z.real)
    if excess(bracket[0]) <= 0:
        return None
    return float(np.exp(brentq(excess, *bracket, xtol=1e-10, rtol=1e-10)))


def check_finite(problem: Problem, rows: RowLaw) -> None:
    """Raise `InvalidInput` unless the problem has finite sizes, and the law of the rows a name."""
    check_problem(problem)
    if problem.is_limit:
        raise InvalidInput("d", problem.d, "a finite integer; for the proportional limit take a large one")
    one_of("rows", rows, ("network", "isotropic"))


def _law(equations: FeatureEquations, group_weight: Array) -> tuple[FeatureEquations, Law]:
    """Return the law, and the equations that it was found with."""
    try:
        return equations, find_law(equations, COARSE[:1])
    except NotConverged as error:
        failure = error
    for shares in _TAILS:
        # g0 keeps the whole law of the readout, which outliers need.
        slope, variance = _without_tails(equations, group_weight, shares)
        rounded = replace(equations, slope=slope, variance=variance)
        try:
            return rounded, find_law(rounded, FINE if shares == _TAILS[-1] else FINE[:1])
        except NotConverged as error:
            failure = error
    raise failure


def _without_tails(
    equations: FeatureEquations, group_weight: Array, shares: tuple[float, float]
) -> tuple[Array, Array]:
    """Return ``g1`` and ``g2`` averaged over the neurons, then the inputs, of extreme variance."""
    slope, variance = equations.slope, equations.variance
    laws = (group_weight, equations.weight), (equations.weight, group_weight)
    for (own, other), share in zip(laws, shares, strict=True):
        size = (slope**2 + variance) @ other
        # Squares, as the slopes of opposite neurons, or inputs, are opposite.
        square, variance = (averaged_tail(own, size, table, share).T for table in (slope**2, variance))
        slope = np.copysign(np.sqrt(square), slope.T)
    return slope, variance


def _readout_polynomials(readout: Readout, groups: Groups, step: StepStatistics, *, odd: bool) -> Array:
    """Return the mean of the orthonormal polynomials of the readout in each group, shape (degrees, groups)."""
    if groups.resolved:
        known = readout_polynomials(readout, groups.readout * np.sqrt(readout.second_moment), _DEGREE)
    else:
        # The readout is known from the projection up to a Gaussian error.
        spread = np.sqrt(groups.weight @ groups.projection**2)
        correlation = (step.spike + step.initial_overlap) / spread
        known = correlation ** np.arange(_DEGREE + 1)[:, None] * hermite_values(groups.projection / spread, _DEGREE)
    if odd:
        known[::2] = 0
    return known


def outliers_above(
    edge: float, equations: FeatureEquations, polynomials: Array, *, alignment: float, gaussian: bool = False
) -> tuple[Outlier, ...]:
    """Find the outliers above the edge of the bulk, the largest first.

    Docs, "Spectra", equation (Z2).

    Parameters
    ----------
    edge : float
    equations : FeatureEquations
    polynomials : ndarray, shape (degrees, groups)
        Means over each group of the functions of the readout to compare with.
    alignment : float
        Overlap of the spike direction with the teacher's.
    gaussian : bool
        Whether the readout is Gaussian; its groups then resolve a part of it only.
    """
    points = _outlier_points(equations, edge)
    rest = polynomials, alignment, gaussian
    return tuple(_outlier(equations, point, rank, *rest) for rank, point in enumerate(points))


def _outlier_points(equations: FeatureEquations, edge: float) -> list[Point]:
    """Solve at every outlier above the bulk, the largest first."""
    own = np.square(equations.slope) @ equations.weight + equations.variance @ equations.weight
    highest = 2 * float(equations.neurons @ (own + np.square(equations.shared) @ equations.at_shared(equations.weight)))
    lowest = edge * (1 + EDGE_MARGIN)
    count = max(2, int(np.ceil(3 * np.log(highest / lowest))))
    walk = [start(equations, complex(highest))]
    for x in np.geomspace(highest, lowest, count)[1:]:
        walk.append(around(equations, walk[-1], float(x)))
    strengths = np.array([equations.spikes(point)[1] for point in walk])

    def excess(log_x: float, above: Point, rank: int) -> float:
        return float(equations.spikes(around(equations, above, float(np.exp(log_x))))[1][rank]) - 1

    found = []
    for rank in range(int(np.sum(strengths[-1] > 1))):
        last = int(np.argmax(strengths[:, rank] > 1))
        above, below = walk[last - 1], walk[last]
        bracket = np.log(below.z.real), np.log(above.z.real)
        try:
            place = brentq(excess, *bracket, args=(above, rank), xtol=1e-12, rtol=1e-12)
        except ValueError as error:
            # Light bands between the two change the solution.
            lost = f"the outlier between {below.z.real:.3g} and {above.z.real:.3g}"
            raise NotConverged(lost, np.inf, 1e-12, "Make the step smaller.") from error
        found.append(around(equations, above, float(np.exp(place))))
    return found


def _outlier(
    equations: FeatureEquations, point: Point, rank: int, polynomials: Array, alignment: float, gaussian: bool
) -> Outlier:
    """Return the outlier at a point, with the overlaps of its vectors.

    Docs, "Spectra", equation (Z3).
    """
    nodes = len(equations.weight)
    values = np.exp(point.state).real
    x = point.z.real
    # Null vector of Q, and the residue of its inverse.
    vector = equations.spikes(point)[0][:, rank]
    null = equations.null_vector(point, vector)
    scale = -equations.samples / equations.slope_of_strength(point, vector)
    hermite = hermite_values(equations.kappa, _DEGREE)
    if equations.kappa[0] > 0:
        hermite[::2] = 0  # an odd activation: only half of the line is kept, and the vector is odd
    by_sample = (hermite * equations.weight / (1 + values[:nodes])) @ (equations.mean.T @ null[:-1])
    sample = scale / x * by_sample**2
    by_neuron = polynomials @ null[:-1]
    if gaussian:
        # Its first polynomial is the readout itself, of which the groups resolve a part.
        by_neuron[1] += np.sqrt(max(1 - equations.resolved_share, 0.0)) * null[-1]
    neuron = scale / equations.width * by_neuron**2
    return Outlier(x, sample, neuron, alignment ** (2 * np.arange(_DEGREE + 1)) * sample)
