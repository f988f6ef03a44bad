r"""The equations of the features' spectrum where directions differ: after a step on samples, or with correlated inputs.

Directions off the spike are in the classes of the fit (`gradstep.theory.neurons.bulk`), with the density ``D_j`` of a
class in place of one for all. Only the direction of the spike itself knows more than its class: the rows of a group
have a mean along the covariance's image of the spike, and none has more along the spike than its projection says. So
an outlier is a real ``z`` outside the bulk at which the quadratic form of the fit is singular: that of the means, and
of what rows are free to have along the special directions (those that resolve the spike). This project.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

from gradstep.errors import NotConverged
from gradstep.resolution import NOTHING
from gradstep.theory.equivalent.leverage import LeverageTable
from gradstep.theory.equivalent.linearised import SymmetricPairs
from gradstep.theory.equivalent.stacks import scaled_factors
from gradstep.theory.neurons.bulk import Bulk, variance_cells
from gradstep.theory.spectra.feature_equations import FeatureEquations
from gradstep.theory.spectra.stieltjes import Point, around_nearest, start

__all__ = ["ClassEquations", "without_leading"]

Array = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]

#: Singular value of the slopes that counts, over the largest: traces change by its square.
_DIMENSION = 3e-4
#: Size of the largest slopes, over that of most inputs, beyond which small ones would be lost in the rounding of large
#: ones; how many are most.
_GRADED, _MOST = 1e5, 0.9
#: Error of a column of such slopes, over its size.
_OF_COLUMN = 0.03
#: Least norm of a combination of means and slopes that counts, over the largest.
_RANK = 1e-14
#: Relative step of a difference that stands for a derivative: its error is of the second order.
_STEP = 1e-4
#: Logarithm of the ratio of variances that classes have at most to be taken together, if none is a direction of the
#: inputs. Of a thousand eigenvalues less than one then changes its place.
_NEAR = 0.1
#: Singular value of the variances of the rows that counts, over the largest.
_FACTOR = 1e-12
#: Singular value that counts in Newton's matrix, of the products of slopes and the variances, over the largest.
_NEWTON = 1e-10
#: How near to one shares of all directions sum, but for rounding.
_ALL = 1e-9
#: Directions that a class must have at least to stand for itself, and how near to one is a single direction.
_WHOLE, _SINGLE = 0.9, 0.03
#: Where nothing is an eigenvalue, over a bound of the bulk; largest ratio of places where a direction is sought.
_FAR, _RATIO = 2.0, 0.98
#: Imaginary part of a transform, over its size, from which there is a density.
_DENSITY = 1e-8


class _Form(NamedTuple):
    """The quadratic form of means and free parts in units of their costs, in the space of the few rows that it has."""

    means: Array  # Columns of the means in these rows, shape (groups + 1, rows).
    slopes: Array  # Factors of the slopes, shape (groups, dimensions).
    # Shape (groups, special, special): covariance of what rows are free to have along the special directions, off the
    # spike.
    free: Array
    root: Array  # ``|v|^1/2``, shape (groups + 1,).
    strengths: Array  # Eigenvalues, the largest first, shape (rows,).
    coefficients: Array  # The eigenvectors are the rows combined by its columns, shape (rows, rows).


def _products(values: Array) -> tuple[SymmetricPairs, Array]:
    """Return the pairs of the dimensions, and their products for each node or group, shape (pairs, members).

    The dimensions have values at the nodes or in the groups, shape (dimensions, members).
    """
    pairs = SymmetricPairs.among(len(values))
    return pairs, pairs.of(values)


def _real_product(real: Array, values: NDArray[Any]) -> ComplexArray:
    """Return a real matrix times a complex one, at half of what two complex ones cost."""
    return (real @ np.ascontiguousarray(values).view(np.float64)).view(np.complex128)


def _graded_factors(table: Array) -> tuple[Array, Array]:
    """Return factors of a table, each column right relative to its own size.

    Pivots fall from the largest column to the smallest, so that no small number is a difference of large ones.
    """
    rows = np.maximum(np.abs(table).max(axis=1, keepdims=True), NOTHING)
    basis, triangle, order = qr(table / rows, mode="economic", pivoting=True)
    small, count = _DIMENSION * np.linalg.norm(triangle, axis=0), 1
    of_column = _OF_COLUMN * np.linalg.norm(table[:, order], axis=0)
    while count < len(triangle):
        rest = basis[:, count:] @ triangle[count:]
        if (np.linalg.norm(rest, axis=0) <= small).all() and (np.linalg.norm(rows * rest, axis=0) <= of_column).all():
            break
        count += 1
    pivots = np.maximum(np.abs(np.diagonal(triangle))[:count], NOTHING)
    right = np.empty_like(triangle[:count])
    right[:, order] = triangle[:count] / pivots[:, None]
    return rows * basis[:, :count] * pivots, right


@dataclass(frozen=True)
class ClassEquations(FeatureEquations):
    """The leverage equations at ridge ``-z n`` with classes of directions.

    Docs, "Spectra", equation (Z4a).
    """

    #: Classes of directions, whose shares may sum to less than one: what is missing are single directions that are
    #: outliers. Special directions resolve the spike alone, and ``teacher`` has the components of the teacher's rest in
    #: what they span.
    bulk: Bulk = field(kw_only=True)

    @property
    def directions(self) -> float:
        """Number of the directions of the bulk."""
        return self.dimension * float(self.bulk.share.sum())

    @cached_property
    def top(self) -> float:
        """A bound from the largest row variance in a direction."""
        largest = np.square(self.slope) * self.bulk.profile.max(axis=1)[:, None] + self.variance
        spread = 1 + np.sqrt(self.width / self.samples)
        return float(4 * largest.max() * (spread * (1 + np.sqrt(self.width / self.dimension))) ** 2)

    @cached_property
    def factors(self) -> tuple[Array, Array]:
        """Slopes as ``left @ right``, of as few dimensions as the mean square of every group needs."""
        size, weight = np.sqrt(np.square(self.slope) @ self.weight), np.sqrt(self.weight)
        by_node = np.abs(self.slope).max(axis=0)
        order = np.argsort(by_node)
        if by_node[order[-1]] > _GRADED * by_node[order[np.searchsorted(np.cumsum(self.weight[order]), _MOST)]]:
            return _graded_factors(self.slope)
        scale = 1 / np.maximum(size, NOTHING)[:, None]
        first, singular, last = np.linalg.svd(scale * self.slope * weight, full_matrices=False)
        kept = singular > _DIMENSION * max(singular[0], NOTHING)
        # Products with the slopes do not divide by the small weights.
        return (self.slope * weight) @ last[kept].T, (first[:, kept] / singular[kept]).T @ (scale * self.slope)

    @cached_property
    def _profile_factors(self) -> tuple[Array, Array]:
        """Factors of the variances of the rows, shapes (groups, factors) and (factors, classes), to rounding."""
        left, size, right = np.linalg.svd(self.bulk.profile, full_matrices=False)
        count = int(np.sum(size > _FACTOR * size[0]))
        return left[:, :count] * size[:count], right[:count]

    @cached_property
    def _at_nodes(self) -> tuple[SymmetricPairs, Array, Array, Array]:
        """Pairs among the dimensions of the slopes, and factors of their products at the nodes and of the variances.

        Products and variances are the second and the third table times the last one, which has few rows: all are smooth
        along the spike. Only Newton's matrix is made of these, so that no solution depends on what they leave out.
        """
        pairs, by_node = _products(self.factors[1])
        left, right, _ = scaled_factors(np.concatenate([by_node, self.variance]), _NEWTON)
        return pairs, left[: len(by_node)], left[len(by_node) :], right

    @cached_property
    def _group_pairs(self) -> tuple[SymmetricPairs, Array]:
        """Pairs among the dimensions of the slopes, in the groups."""
        return _products(self.factors[0].T)

    def start(self, z: complex) -> ComplexArray:
        """Return the logarithms of ``V`` and ``R`` for a large ``z``."""
        resolvent, mean = np.full(len(self.neurons), -1 / (z * self.samples)), self.bulk.profile @ self.bulk.share
        leverage = (self.neurons * resolvent) @ (mean[:, None] * self.slope**2 + self.variance)
        return np.log(np.concatenate([leverage, resolvent]).astype(np.complex128))

    @property
    def at_once(self) -> int:
        """Number of points of `newton`."""
        return 1 if self._by_factors else super().at_once

    @cached_property
    def _by_factors(self) -> bool:
        """Whether `newton` takes the slopes by their factors: unless all is small, or the factors have many dimensions.

        Without factors there may be no directions beside the classes.
        """
        if not math.isclose(self.bulk.share.sum(), 1, rel_tol=_ALL):
            return True
        few = SymmetricPairs.number(self.factors[0].shape[1]) <= sum(self.slope.shape)
        return few and super().at_once == 1

    @property
    def _classes(self) -> int:
        return len(self.bulk.share)

    @cached_property
    def _table(self) -> LeverageTable:
        table, bulk = super()._table, self.bulk
        return replace(table, kinds=(replace(table.linear, share=bulk.share[None], profile=bulk.profile.T[None]),))

    @cached_property
    def _factors(self) -> None:
        """None: `newton` has factors of its own."""
        return None

    def newton(self, z: Any, state: ComplexArray) -> tuple[ComplexArray, ComplexArray, ComplexArray]:
        """Return the gap, Newton's step and the tangent in z."""
        if not self._by_factors:
            return super().newton(z, state)
        (left, right), (pairs, of_pairs, of_variances, basis) = self.factors, self._at_nodes
        share, profile, nodes = self.bulk.share, self.bulk.profile, len(self.weight)
        leverage, resolvent = np.split(np.exp(state), [nodes])
        sample_weight, mean_density = (
            self.samples * self.weight / (1 + leverage),
            self.neurons * resolvent / self.dimension,
        )
        density = mean_density[:, None] * profile
        gain, product = (right * sample_weight) @ right.T, (left.T * density.T[:, None]) @ left
        damping = np.linalg.inv(np.eye(len(gain)) + gain @ product)
        form, psi = product @ damping, damping @ gain
        raised = (right * (np.tensordot(share, form, 1) @ right)).sum(axis=0) + mean_density @ self.variance
        own = ((left @ psi) * left).sum(axis=2)
        added = (profile * own.T) @ share + self.variance @ sample_weight
        following = np.concatenate([self.dimension * raised, 1 / (-z * self.samples + added)])
        gap = np.log(following / np.exp(state))

        # Minus the derivative, in the units of `Linearised`: blocks of nodes and groups.
        into = np.concatenate([raised, mean_density / following[nodes:]])
        out = np.concatenate([(1 + leverage) / (sample_weight * leverage), np.ones_like(resolvent)])
        of_nodes = of_pairs.T @ pairs.mean_square(form, share) @ of_pairs
        turned = (left @ damping).swapaxes(0, 1)
        across = of_pairs.T @ pairs.of_symmetric(turned.mT @ ((density * share)[..., None] * turned)).T
        across += of_variances.T * mean_density
        of_groups = np.diag(into[nodes:]) - self._between_groups(mean_density, psi)
        right_sides = into[:, None] * self._right_sides(gap, following)
        # The nodes are eliminated by Woodbury's formula.
        diagonal = (into * out)[:nodes, None]
        spread, known = _real_product(basis, basis.T / diagonal), _real_product(basis, right_sides[:nodes] / diagonal)
        damped = np.linalg.inv(np.eye(len(basis)) - of_nodes @ spread)
        groups = np.linalg.solve(
            of_groups - across.T @ spread @ damped @ across,
            right_sides[nodes:] + across.T @ (known + spread @ (damped @ (of_nodes @ known))),
        )
        at_nodes = (right_sides[:nodes] + basis.T @ (damped @ (of_nodes @ known + across @ groups))) / diagonal
        step, tangent = (out[:, None] * np.concatenate([at_nodes, groups])).T
        return gap, step, tangent

    def _between_groups(self, density: ComplexArray, psi: ComplexArray) -> ComplexArray:
        """Return how the resolvents of the groups raise each other, for densities of shape (groups,).

        It is a mean over the classes of squares of forms in the slopes, times the variances of both groups. In the few
        factors of the variances each pair of them has one such mean.
        """
        (pairs, products), (of_group, of_class), share = self._group_pairs, self._profile_factors, self.bulk.share
        count, size = len(of_class), len(products)
        forms = np.empty((count, size, count, size), dtype=np.complex128)
        for i in range(count):
            for j in range(i + 1):
                forms[i, :, j] = forms[j, :, i] = pairs.mean_square(psi, share * of_class[i] * of_class[j])
        by_group = (of_group.T[:, None] * products).reshape(count * size, -1)
        found = _real_product(by_group.T, forms.reshape(count * size, -1)) @ by_group
        return np.asarray(found * density * density[:, None])

    def strength_of(self, point: Point, profile: Array) -> float:
        """Return the strength above the bulk of one more direction: it is an outlier where that is one.

        The direction is off the spike, and has rows of variances `profile` (one for each group) over their means.
        """
        (left, right), (leverage, resolvent) = self.factors, self.unknowns(point)
        density = np.maximum(-self.neurons * profile * resolvent / self.dimension, 0.0)
        sample_weight = np.maximum(self.samples * self.weight / (1 + leverage), 0.0)
        rows = (np.sqrt(density)[:, None] * left) @ (right * np.sqrt(sample_weight))
        return float(np.linalg.norm(rows, ord=2)) ** 2

    def _free(self, density: Array) -> Array:
        """Return the covariance of what rows are free to have along the special directions, off the spike.

        It is that of the rows given their projections, and their norms where these tell of the rows, shape (groups,
        special, special), for densities above zero.

        Docs, "Structured bulk", equation (A5b).
        """
        spike, free = self.bulk.spike, density[:, None, None] * self.bulk.covariance_given_known
        off = np.eye(len(spike)) - np.outer(spike, spike)
        return np.asarray(off @ free @ off)

    def _form(self, z: float, leverage: Array, resolvent: Array) -> _Form:
        """Return the quadratic form of the fit at a real `z` above the bulk.

        Docs, "Spectra", equation (Z4a).
        """
        (left, right), pull = self.factors, self.bulk.pull
        sample_weight = np.maximum(self.samples * self.weight / (1 + leverage), 0.0)
        root = self._root(resolvent).real
        shared = root[:-1, None] * self.shared * self.at_shared(np.sqrt(sample_weight))
        first, size, _ = np.linalg.svd(shared, full_matrices=False)
        # Rows of the means, then of the slopes: for each dimension one for each special direction.
        slopes = left @ np.linalg.cholesky((right * sample_weight) @ right.T)
        free = self._free(np.maximum(-self.neurons * resolvent / self.dimension, 0.0))
        pulled = root[:-1, None, None] * slopes[:, :, None] * pull[:, None]
        means = np.concatenate([first * size, pulled.reshape(len(pull), -1), self._readout[:-1, None]], axis=1)
        means = np.concatenate([means, np.zeros((1, means.shape[1]))])
        means[-1, -1] = self._readout[-1]
        matrix, count, (dimensions, special) = means.T @ means, len(size), (slopes.shape[1], pull.shape[1])
        squares = (slopes[:, :, None] * slopes[:, None]).reshape(len(pull), -1).T @ free.reshape(len(pull), -1)
        matrix[count:-1, count:-1] += (
            squares.reshape(dimensions, dimensions, special, special).swapaxes(1, 2).reshape(dimensions * special, -1)
        )
        # The missing bulk changes the form along the readout, by a number that may be below zero.
        power, vectors = np.linalg.eigh(matrix)
        kept = power > _RANK * power[-1]
        vectors = vectors[:, kept] * np.sqrt(power[kept])
        signs = np.ones(len(matrix))
        signs[-1] = self._missing(z, leverage, resolvent)
        strengths, turned = np.linalg.eigh((vectors.T * signs) @ vectors)
        coefficients = (vectors / power[kept]) @ turned
        # Those that rounding has left out are none.
        none = (0, len(matrix) - len(strengths))
        found = np.pad(strengths[::-1], none), np.pad(coefficients[:, ::-1], ((0, 0), none))
        return _Form(means, slopes, free, root, *found)

    def _missing(self, z: float, leverage: Array, resolvent: Array) -> float:
        """Return what the missing bulk adds along the readout."""
        return float(np.real(self._strengths(z, leverage, resolvent)[1]))

    def spikes(self, point: Point) -> tuple[Array, Array]:
        """Return vectors over the groups and what they do not resolve of the readout, and strengths above the bulk."""
        form = self._form(point.z.real, *self.unknowns(point))
        return form.means @ form.coefficients, form.strengths

    def residue(self, point: Point, rank: int) -> tuple[Array, float]:
        """Return the null vector at an outlier, and what its square has in ``F``: the slope is that along the tangent.

        Docs, "Spectra", equation (Z3).
        """
        step, x = _STEP * point.z.real, point.z.real
        beside = [np.split(np.exp(point.state + h * point.tangent).real, [len(self.weight)]) for h in (-step, step)]
        low, high = (self._form(x + h, *each).strengths[rank] for h, each in zip((-step, step), beside, strict=True))
        null = self.null_vector(point, self.spikes(point)[0][:, rank])
        return null, float(-self.samples * 2 * step / (high - low))

    def slopes(self, point: Point, rank: int) -> tuple[Array, Array]:
        """Return the slopes of the vector over samples along the teacher's rest, and along each special direction.

        Shapes (nodes,) and (special, nodes), before the factor ``1/(1 + V)``.
        """
        form = self._form(point.z.real, *self.unknowns(point))
        own = form.coefficients[-1 - self.bulk.pull.shape[1] * form.slopes.shape[1] : -1, rank]
        null = form.root * (form.means @ form.coefficients[:, rank])
        along = form.slopes @ own.reshape(form.slopes.shape[1], -1)
        overlap = self.bulk.pull * null[:-1, None] + (form.free @ along[..., None])[..., 0]
        slopes = overlap.T @ self.slope
        return self.bulk.teacher @ slopes, slopes


def without_leading(equations: ClassEquations, *, correlated: bool) -> ClassEquations:
    """Return the equations without the single directions that are outliers; these stay among the special directions.

    From the top of the law of `correlated` inputs, classes that are one direction together leave the bulk if its
    eigenvalue is above those of all directions behind it. What is less than one direction at either end of the rest is
    a part of the next class. On other inputs classes of nearly the same variance are taken together first.

    Docs, "Spectra", equation (Z4b).
    """
    weight, below = equations.neurons / equations.width, np.inf
    if not correlated:
        equations = replace(equations, bulk=_together(equations))
    while correlated and (found := _single(equations)) is not None:
        profile, rest, between = found
        if not _leaves(replace(equations, bulk=_whole(rest, equations)), profile):
            break
        special, above, below = weight @ rest.special_profile, below, between
        equations = replace(equations, bulk=_alone(rest, (special > below) & (special <= above), profile))
    bulk = _whole(equations.bulk, equations)
    size, special = weight @ bulk.profile, weight @ bulk.special_profile
    # The rule of the spike has other nodes. None of its directions is above all others without being an outlier.
    beyond = (special > size.max()) & (special <= below)
    if beyond.any():
        bulk = _alone(bulk, beyond, bulk.profile[:, size.argmax()])
    return replace(equations, bulk=bulk)


def _together(equations: ClassEquations) -> Bulk:
    """Return the classes with those of nearly the same variance as one."""
    bulk = equations.bulk
    cell = variance_cells(equations.neurons / equations.width @ bulk.profile, _NEAR)
    members = (np.unique(cell)[:, None] == cell).astype(np.float64)
    share = members @ bulk.share
    profile = (bulk.profile * bulk.share) @ members.T / share
    return replace(bulk, share=share, profile=profile)


def _single(equations: ClassEquations) -> tuple[Array, Bulk, float] | None:
    """Return the variances of the rows in the direction above all others, the other classes, and a size between.

    None if the classes at the top of the law are no single direction together.
    """
    bulk = equations.bulk
    size = equations.neurons / equations.width @ bulk.profile
    order = np.argsort(size)[::-1]
    together = np.cumsum(bulk.share[order]) * equations.dimension
    number = int(np.argmin(np.abs(together - 1))) + 1
    if number == len(order) or abs(together[number - 1] - 1) > _SINGLE:
        return None
    first, rest = order[:number], order[number:]
    profile = bulk.profile[:, first] @ bulk.share[first] / bulk.share[first].sum()
    between = float(np.sqrt(size[first[-1]] * size[rest[0]]))
    return profile, replace(bulk, share=bulk.share[rest], profile=bulk.profile[:, rest]), between


def _whole(bulk: Bulk, equations: ClassEquations) -> Bulk:
    """Return classes with those of less than a direction at either end made a part of the next."""
    share, profile, count, weight = bulk.share, bulk.profile, equations.dimension, equations.neurons / equations.width
    for sign in (1, -1):
        order = np.argsort(sign * (weight @ profile))
        ends = int(np.argmax(np.cumsum(share[order]) * count >= _WHOLE)) + 1
        first, rest = order[:ends], order[ends:]
        whole = share[first].sum()
        merged = profile[:, first] @ share[first] / whole
        share = np.concatenate([[whole], share[rest]])
        profile = np.concatenate([merged[:, None], profile[:, rest]], axis=1)
    return replace(bulk, share=share, profile=profile)


def _alone(bulk: Bulk, along: NDArray[np.bool_], profile: Array) -> Bulk:
    """Return the special directions with some of them made one, of known variances.

    A direction that the spike does not know is one of its own.
    """
    length = float(np.linalg.norm(bulk.spike[along]))
    weights = bulk.spike[along] / length if length > 0 else np.zeros(int(along.sum()))

    def joined(values: Array) -> Array:
        return np.concatenate([values[..., ~along], (values[..., along] @ weights)[..., None]], axis=-1)

    return replace(
        bulk,
        spike=joined(bulk.spike),
        teacher=joined(bulk.teacher),
        pull=joined(bulk.pull),
        norm_slope=joined(bulk.norm_slope),
        special_profile=np.concatenate([bulk.special_profile[:, ~along], profile[:, None]], axis=1),
    )


def _leaves(equations: ClassEquations, profile: Array) -> bool:
    """Return whether one more direction has an eigenvalue above all others, down to which the solution is real."""
    known = [start(equations, complex(_FAR * equations.top))]
    if (strength := equations.strength_of(known[0], profile)) > 1:
        return True
    while strength <= 1:
        try:
            # A strength falls about like 1/z.
            point = around_nearest(equations, known, known[-1].z.real * min((1 + strength) / 2, _RATIO))
        except NotConverged:
            return False
        value = equations.transform(point.state, point.tangent)[0]
        if value.imag > _DENSITY * abs(value):
            return False
        strength = equations.strength_of(point, profile)
    return True
