"""The fixed point for the leverage ``V(kappa)`` and the resolvent ``R_g`` of a neuron of each group.

Equations (a group's index is ``g, h``, a node of kappa is ``k``; ``E_k`` averages over nodes):

    V1_gh = n E_k[ g1_g g1_h / (1 + V) ]               V2_g = n E_k[ g2_g / (1 + V) ]
    D_j   = diag( u_gj N_g R_g / (d - 1) )             Psi_j = V1 (I + D_j V1)^-1
    1/R_g = ridge + V2_g + sum_j p_j u_gj Psi_j,gg     calV = (d - 1) sum_j p_j (D_j^-1 + V1)^-1
    V(k)  = sum_gh g1_g g1_h calV_gh + sum_g g2_g N_g R_g

``j`` runs over classes of directions orthogonal to the spike. Class ``j`` holds a share ``p_j`` of the directions, in
which the rows of group ``g`` have ``u_gj`` times their mean variance. An isotropic bulk is one class.

Features may have further parts, each along directions of another kind: those along products of two or three coordinates
(`gradstep.theory.neurons.products`). Each kind has its own slopes and classes, and adds sums of the same form.

As a map from old to new values the equations increase ``V`` and ``R`` with every old value, by less than in proportion.
In ``(log V, log R)`` the map is monotone and contracts, and Newton's method with its exact Jacobian converges in a few
steps. All arrays have a leading batch axis. This project.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gradstep.errors import NotConverged
from gradstep.theory.equivalent.linearised import Linearised, LinearisedByPairs, SymmetricPairs
from gradstep.theory.equivalent.stacks import block_diagonal, identity, inverses, scaled_factors

__all__ = [
    "TOLERANCE",
    "Core",
    "Directions",
    "Leverage",
    "LeverageEquations",
    "LeverageTable",
    "Separable",
    "Undamped",
    "Whole",
    "couplings",
    "couplings_times",
    "evaluate",
    "inner",
    "linear_gain",
    "linearised",
    "near_point",
    "solve_leverage",
]

#: Largest residual of a solution, relative.
TOLERANCE = 1e-10
#: Steps of Newton's method, of the equations and of their first guess.
_MAX_STEPS = 60
#: How many times smaller a residual is asked for, at most, where the state is off by more than it.
_MARGIN = 10
#: Longest step of Newton's method in logarithms.
_LONGEST_STEP = 4.0
#: A variance below the smallest is none: the features of a saturated activation vanish, and a logarithm must not.
_SMALLEST = 1e-200
#: Residual that a step with an old matrix must promise: almost without ridge, errors of a solution are far larger.
_ROUNDING = 1e-14
#: Error of log V to which the first guess solves its equation.
_NEAR = 1e-3
_NAME = "the fixed point of the uniform equivalent"
_ADVICE = "Raise the ridge, use a smaller step, or move the sizes away from n = width."
#: Groups, or nodes, from which a product of slopes is worth looking for.
_WORTH_FACTORS, _WORTH_AT_NODES = 40, 400
#: Largest ratio of the sum of the terms' sizes to the size of their sum, up to which products of factors keep enough
#: digits.
_CANCELLED = 1e4
#: Dimensions of the slopes over groups, below which matrices of their size are cheaper; singular value of one that
#: counts, over the largest.
_FEW, _DIMENSION = 0.6, 1e-13
#: Cost of an entry of a matrix over pairs of slopes, in entries of a matrix over nodes, and fixed cost of that matrix
#: in the same unit (measured).
_NUMBER_OF_PAIRS, _MATRIX_OF_PAIRS = 20, 2e5
#: Numbers in the matrices of all classes together, beyond which they are made one after the other.
_AT_ONCE = 2**24
#: Nodes from which equations between pairs of slopes and groups may take less time than a matrix over the nodes, and
#: how many such unknowns for each node (measured).
_MANY_NODES, _FEW_UNKNOWNS = 150, 0.5

#: Real for a fit; complex for a spectrum, which is that of a fit at a complex penalty.
_Array = NDArray[Any]
_Near: TypeAlias = Linearised | LinearisedByPairs


class _Average(NamedTuple):
    """Squared slopes that all groups have in common, and what is the group's own.

    For each group and node, shape (1 or batch, groups, nodes), averaged over the neurons, shape (1 or batch, nodes),
    and averaged over both, a number for each member.
    """

    common: _Array
    rest: _Array
    mean_common: _Array
    mean_rest: _Array
    linear: list[float]
    nonlinear: list[float]


def _mixed(share: _Array, values: _Array) -> _Array:
    """Return the sum over classes of values of shape (batch, classes, rows, columns), with weights (batch, classes)."""
    batch, classes, rows, columns = values.shape
    if classes == 1:
        return np.asarray(share[:, :, None] * values[:, 0])
    return np.asarray(np.vecmat(share, values.reshape(batch, classes, rows * columns)).reshape(batch, rows, columns))


@dataclass(frozen=True)
class Directions:
    """Directions of one kind, along which features have slopes, with a batch axis (of length one where shared)."""

    slope: _Array  #: ``g1``, shape (1 or batch, groups, nodes).
    #: ``p_j``: how many directions a class has, over the number of directions of the inputs. Those of the inputs sum to
    #: one (default: one class). Shape (1 or batch, classes).
    share: _Array = field(default_factory=lambda: np.ones((1, 1)))
    #: ``u_gj``: the variance of rows in a class, of which the sum with the shares is one (default: one).
    #: Shape (1 or batch, classes, groups).
    profile: _Array = field(default_factory=lambda: np.ones((1, 1, 1)))
    #: Factors of the slopes in each class at even and at odd nodes, where these are for short and for long inputs; or
    #: the factor one for all nodes (default). Shape (1 or batch, classes, 2) or (1, 1, 1).
    stretch: _Array = field(default_factory=lambda: np.ones((1, 1, 1)))

    @cached_property
    def factors(self) -> tuple[_Array, _Array] | None:
        """Slopes of many groups as a product, if they have few dimensions to rounding (polynomials have few).

        The factors have shapes (1 or batch, groups, dimensions) and (1 or batch, dimensions, nodes). Each slope is
        right to rounding relative to its group's and its node's largest: a group of small slopes has a large resolvent,
        and counts as much as the others.
        """
        groups, nodes = self.slope.shape[1:]
        if groups < _WORTH_FACTORS and nodes < _WORTH_AT_NODES:
            return None
        left, right, _ = scaled_factors(self.slope, _DIMENSION)
        dimensions = left.shape[2]
        few = dimensions <= _FEW * groups or _by_pairs(self.parts * SymmetricPairs.number(dimensions), groups, nodes)
        return (left, right) if few else None

    @property
    def parts(self) -> int:
        """Number of parts of the nodes, in each of which the slopes in a class have a factor of their own."""
        return int(self.stretch.shape[2])

    def part(self, index: int) -> slice:
        """Return the nodes of one part."""
        return slice(index, None, self.parts)

    def stretched(self, slopes: _Array) -> _Array:
        """Return slopes with their factors in each class, shape (batch, classes or 1, slopes, nodes)."""
        if self.parts == 1:
            return slopes[:, None]
        return np.asarray(slopes[:, None] * self._at_nodes(self.stretch)[:, :, None])

    @property
    def average(self) -> _Array:
        """Slopes whose squares are the mean squares over the directions, shape (1 or batch, groups, nodes)."""
        if self.parts == 1:
            return self.slope
        power = (self.share[..., None] * self.profile).mT @ np.square(self.stretch)
        return self.slope * self._at_nodes(np.sqrt(power))

    def _at_nodes(self, factors: _Array) -> _Array:
        """Return factors of the parts at the nodes, which take turns; the last axis is theirs."""
        nodes = self.slope.shape[2]
        return np.tile(factors, -(-nodes // self.parts))[..., :nodes]

    def squared_stretch(self, one: int, other: int) -> _Array:
        """Return the shares times the squared factors at the nodes of two parts, shape (1 or batch, classes)."""
        return np.asarray(self.share * np.square(self.stretch[..., one] * self.stretch[..., other]))

    def of_class(self, index: int) -> Directions:
        """Return the directions of one class."""
        stretch = self.stretch if self.stretch.shape[1] == 1 else self.stretch[:, index : index + 1]
        alone = slice(index, index + 1)
        found = Directions(self.slope, self.share[:, alone], self.profile[:, alone], stretch)
        object.__setattr__(found, "factors", self.factors)
        return found

    def slopes_of(self, matrices: Whole | Core) -> _Array:
        """Return the slopes between which matrices of this kind are: of the factors, or of the groups."""
        return _factors(self)[1] if isinstance(matrices, Core) else self.slope

    def mixed(self, values: _Array) -> _Array:
        """Return the sum of values of shape (batch, classes, rows, columns) over classes, weighted by their shares."""
        return _mixed(self.share, values)

    def mixed_squares(self, values: _Array) -> _Array:
        """Return the sum of the squares of values of shape (batch, classes, columns), weighted by the shares."""
        return np.asarray(np.vecmat(self.share, np.square(values)))

    def take(self, index: NDArray[np.bool_]) -> Directions:
        """Return the directions of some members of the batch."""
        columns = (self.slope, self.share, self.profile, self.stretch)
        if all(len(column) == 1 for column in columns):
            return self
        found = Directions(*(column if len(column) == 1 else column[index] for column in columns))
        # The members keep the dimensions of the whole batch, which solutions of theirs may have.
        factors = self.factors and tuple(each if len(each) == 1 else each[index] for each in self.factors)
        object.__setattr__(found, "factors", factors)
        return found


@dataclass(frozen=True)
class LeverageTable:
    """Tables of the features for the fixed point, with a batch axis (of length one where shared)."""

    variance: _Array  #: ``g2``, shape (1 or batch, groups, nodes).
    weight: _Array  #: Probability weights of the nodes, shape (1 or batch, nodes).
    fraction: _Array  #: ``N_g / N``, shape (1 or batch, groups).
    #: The kinds of directions, those of the inputs first.
    kinds: tuple[Directions, ...]

    def __post_init__(self) -> None:
        if self.variance.min() < _SMALLEST:
            object.__setattr__(self, "variance", np.maximum(self.variance, _SMALLEST))

    @property
    def linear(self) -> Directions:
        """The directions of the inputs."""
        return self.kinds[0]

    @cached_property
    def average(self) -> _Average:
        """Averages over the neurons, for the first guess.

        All of the equations' ``V1`` is given to the slope that the groups have in common, up to a factor of each
        group's own. What is left of a slope is the group's own, like the variance, and so are slopes along other
        directions than those of the inputs.
        """
        share, slope = self.fraction[:, None], self.linear.average
        mean = share @ slope
        weighed = mean * self.weight[:, None]
        # An even activation has groups with opposite slopes: nothing in common.
        power = np.maximum((weighed * mean).sum(axis=2, keepdims=True), _SMALLEST)
        shared = (slope @ weighed.mT) / power * mean
        common, rest = shared**2, (slope - shared) ** 2 + self.variance
        for other in self.kinds[1:]:
            # A single direction has little of the leverage, however long it is.
            number = np.minimum(other.share.sum(axis=1), 1.0)
            rest = rest + number[:, None, None] * other.average**2
        mean_common, mean_rest = ((share @ part)[:, 0] for part in (common, rest))
        averages = (np.vecdot(mean, self.weight) for mean in (mean_common, mean_rest))
        of_slopes, nonlinear = np.broadcast_arrays(*averages)
        return _Average(common, rest, mean_common, mean_rest, of_slopes.tolist(), nonlinear.tolist())

    def take(self, index: NDArray[np.bool_]) -> LeverageTable:
        """Return the table of some members of the batch."""
        kinds = tuple(kind.take(index) for kind in self.kinds)
        columns = (self.variance, self.weight, self.fraction)
        alike = all(new is old for new, old in zip(kinds, self.kinds, strict=True))
        if alike and all(len(column) == 1 for column in columns):
            return self
        variance, weight, fraction = (column if len(column) == 1 else column[index] for column in columns)
        return LeverageTable(variance, weight, fraction, kinds)


@dataclass(frozen=True)
class LeverageEquations:
    """Coefficients of the fixed point, with a batch axis."""

    table: LeverageTable
    #: ``N``, ``d - 1``, ``n`` and the penalty. Shape (batch,).
    width: _Array
    directions: _Array
    samples: _Array
    ridge: _Array
    #: Weight at which the fit also knows the population, per sample: ``1/(1 + V) + population`` replaces ``1/(1 + V)``
    #: wherever samples are summed. Shape (batch,).
    population: _Array | None = None
    #: ``N_g`` and ``N_g / (d - 1)``, shape (batch, groups).
    neurons: _Array = field(init=False)
    per_direction: _Array = field(init=False)
    sampling: _Array = field(init=False)  #: ``n w``, shape (batch, nodes).

    def __post_init__(self) -> None:
        neurons = self.width[:, None] * self.table.fraction
        object.__setattr__(self, "neurons", neurons)
        object.__setattr__(self, "per_direction", neurons / self.directions[:, None])
        object.__setattr__(self, "sampling", self.samples[:, None] * self.table.weight)

    def weighed(self, remaining: _Array) -> _Array:
        """Return ``n w (remaining + population)``, shape (batch, nodes), for ``remaining = 1 / (1 + V)``."""
        return self.sampling * (remaining if self.population is None else remaining + self.population[:, None])

    def take(self, index: NDArray[np.bool_]) -> LeverageEquations:
        """Return the equations of some members of the batch."""
        population = None if self.population is None else self.population[index]
        width, directions, samples, ridge = (
            size[index] for size in (self.width, self.directions, self.samples, self.ridge)
        )
        return LeverageEquations(self.table.take(index), width, directions, samples, ridge, population)


class Whole(NamedTuple):
    """The matrices of the equations over the groups, one for each class of directions.

    Its methods return new arrays, which a caller may write into.
    """

    columns: _Array  #: ``D_j^1/2 g1``, shape (batch, classes, groups, nodes).
    inverse: _Array  #: ``(I + D_j^1/2 V1 D_j^1/2)^-1``, shape (batch, classes, groups, groups).
    dressed: _Array  #: Their product, shape (batch, classes, groups, nodes).

    def of_nodes(self, directions: Directions) -> _Array:
        """Return ``g1 (D_j^-1 + V1)^-1 g1`` between nodes, shape (batch, classes, nodes, nodes)."""
        return np.asarray(self.columns.mT @ self.dressed)

    def of_groups_and_nodes(self, directions: Directions) -> _Array:
        """Return `dressed`, shape (batch, classes, groups, nodes)."""
        return self.dressed.copy()

    def of_groups(self) -> _Array:
        """Return what the fit takes from the identity, shape (batch, classes, groups, groups)."""
        return identity(self.inverse.shape[2]) - self.inverse

    def from_groups(self, directions: Directions, vector: _Array) -> _Array:
        """Return `dressed` and `of_groups` summed over groups with the weights (batch, groups).

        Shape (batch, classes, nodes + groups).
        """
        weights = vector[:, None]
        return np.concatenate([np.vecmat(weights, self.dressed), weights - np.vecmat(weights, self.inverse)], axis=2)

    def of_class(self, index: int) -> Whole:
        """Return the matrices of one class of directions, as the only one."""
        return Whole(*(each[:, index : index + 1] for each in self))

    def take(self, index: NDArray[np.bool_]) -> Whole:
        """Return the matrices of some members of the batch."""
        return Whole(*(values[index] for values in self))


class Core(NamedTuple):
    """The matrices over the few dimensions of the slopes ``g1 = left right``, in place of `Whole`.

    With the products ``S_j = left^T D_j left`` and ``G`` of the factors (Delta and Gamma of the page), and ``K_j = (I +
    G S_j)^-1``, `dressed` of `Whole` is ``D_j^1/2 left K_j right``.

    Docs, "Uniform equivalent", equation (E9a).
    """

    rows: _Array  #: ``D_j^1/2 left``, shape (batch, classes, groups, dimensions).
    taken: _Array  #: ``D_j^1/2 left K_j G``, shape (batch, classes, groups, dimensions).
    damping: _Array  #: ``K_j``, shape (batch, classes, dimensions, dimensions).
    form: _Array  #: ``S_j K_j``, shape (batch, classes, dimensions, dimensions).

    def of_nodes(self, directions: Directions) -> _Array:
        """Return what `Whole.of_nodes` does."""
        right = directions.stretched(_factors(directions)[1])
        return np.asarray(right.mT @ (self.form @ right))

    def of_groups_and_nodes(self, directions: Directions) -> _Array:
        """Return what `Whole.of_groups_and_nodes` does."""
        return np.asarray((self.rows @ self.damping) @ directions.stretched(_factors(directions)[1]))

    def of_groups(self) -> _Array:
        """Return what `Whole.of_groups` does."""
        return np.asarray(self.taken @ self.rows.mT)

    def from_groups(self, directions: Directions, vector: _Array) -> _Array:
        """Return what `Whole.from_groups` does."""
        weights = vector[:, None]
        right = directions.stretched(_factors(directions)[1])
        nodes = np.vecmat(np.vecmat(np.vecmat(weights, self.rows), self.damping), right)
        return np.concatenate([nodes, np.matvec(self.rows, np.vecmat(weights, self.taken))], axis=2)

    def of_class(self, index: int) -> Core:
        """Return the matrices of one class of directions, as the only one."""
        return Core(*(each[:, index : index + 1] for each in self))

    def take(self, index: NDArray[np.bool_]) -> Core:
        """Return the matrices of some members of the batch."""
        return Core(*(values[index] for values in self))


def _factors(directions: Directions) -> tuple[_Array, _Array]:
    """Return the factors of slopes that have some."""
    assert directions.factors is not None
    return directions.factors


class Leverage(NamedTuple):
    """One evaluation of the equations at given ``V`` and ``R``; a solution when `residual` is small."""

    #: ``V(kappa)``; ``V / (1 + V)`` is the mean diagonal of the hat matrix at kappa. Shape (batch, nodes).
    leverage: _Array
    resolvent: _Array  #: ``R_g``, shape (batch, groups).
    remaining: _Array  #: ``1 / (1 + V)``: what the fit leaves of a sample's residual. Shape (batch, nodes).
    sample_weight: _Array  #: ``n w (1 / (1 + V) + population)``, shape (batch, nodes).
    density: _Array  #: ``D`` (diagonal), its mean over the directions. Shape (batch, groups).
    matrices: tuple[Whole | Core, ...]  #: Those of the classes, for each kind of directions.
    variance: _Array  #: ``D g2``, shape (batch, groups, nodes).
    load: _Array  #: ``D`` times what the samples add to a neuron's ridge, shape (batch, groups).
    following: _Array  #: Right-hand sides of the equations for ``V`` and ``R``, shape (batch, nodes + groups).
    #: Difference of logarithms between the two sides, of ``V`` and then of ``R``. Shape (batch, nodes + groups).
    gap: _Array
    residual: _Array  #: Largest absolute gap, shape (batch,).

    @property
    def inverse_resolvent(self) -> _Array:
        """``A_g = 1 / R_g``, the effective ridge of a neuron."""
        return 1 / self.resolvent

    def take(self, index: NDArray[np.bool_]) -> Leverage:
        """Return the evaluation for some members of the batch."""
        arrays = {name: values[index] for name, values in self._asdict().items() if name != "matrices"}
        return Leverage(matrices=tuple(each.take(index) for each in self.matrices), **arrays)


def evaluate(equations: LeverageEquations, state: _Array, *, stable: bool = False) -> Leverage:
    """Evaluate both sides of the equations at ``state``, the logarithms of ``V`` and then of ``R``.

    A spectrum evaluates them at a complex penalty and state (`gradstep.theory.spectra.feature_spectrum`).

    With `stable`, matrices come from a singular value decomposition of the square root of ``D^1/2 V1 D^1/2``: three
    times slower, and needed only where that matrix is so large that its inverse would lose all digits (features of
    low rank almost without ridge).

    Docs, "Uniform equivalent", equation (E9). Docs, "Structured bulk", equation (A3).
    """
    table, nodes = equations.table, equations.table.weight.shape[1]
    values = np.exp(state)
    leverage, resolvent = values[:, :nodes], values[:, nodes:]
    remaining = np.reciprocal(1 + leverage)
    sample_weight = equations.weighed(remaining)
    density = equations.per_direction * resolvent
    variance = density[:, :, None] * table.variance
    raised, load, matrices = np.add.reduce(variance, axis=1), np.matvec(variance, sample_weight), []
    for kind in table.kinds:
        root = np.sqrt(density[:, None] * kind.profile)
        if stable or kind.factors is None:
            found, of_kind, load_of_kind = _over_groups(kind, root, sample_weight, stable)
        else:
            found, of_kind, load_of_kind = _over_dimensions(kind, root, sample_weight)
        matrices.append(found)
        raised += of_kind
        load += load_of_kind
    next_leverage = equations.directions[:, None] * raised
    next_resolvent = density / (equations.ridge[:, None] * density + load)
    following = np.concatenate([next_leverage, next_resolvent], axis=1)
    gap = np.log(following / values)
    residual = _largest(gap)
    return Leverage(
        leverage,
        resolvent,
        remaining,
        sample_weight,
        density,
        tuple(matrices),
        variance,
        load,
        following,
        gap,
        residual,
    )


def _over_groups(
    directions: Directions, root: _Array, sample_weight: _Array, stable: bool
) -> tuple[Whole | Core, _Array, _Array]:
    """Return the matrices of one kind of directions, and what it adds to leverages for each direction and to `load`."""
    columns = root[..., None] * directions.stretched(directions.slope)
    if stable:
        inverse, dressed = _stably_dressed(columns, sample_weight)
    else:
        inverse = inverses(inner(linear_gain(directions, sample_weight), root))
        dressed = inverse @ columns
    # The part of a group in the leverage of a node is that of the node in the group's resolvent.
    gain = directions.mixed(columns * dressed)
    return Whole(columns, inverse, dressed), np.add.reduce(gain, axis=1), np.matvec(gain, sample_weight)


def _over_dimensions(directions: Directions, root: _Array, sample_weight: _Array) -> tuple[Core, _Array, _Array]:
    """Return what `_over_groups` does, from the factors of the slopes."""
    matrices, right, parts = _core(directions, root, sample_weight), _factors(directions)[1], directions.parts
    raised = np.empty((len(root), right.shape[2]), dtype=root.dtype)
    for index in range(parts):
        weight = directions.share * np.square(directions.stretch[..., index])
        here, form = right[..., directions.part(index)], _mixed(weight, matrices.form)
        raised[:, directions.part(index)] = np.add.reduce(here * (form @ here), axis=1)
    return matrices, raised, np.vecmat(directions.share, np.add.reduce(matrices.rows * matrices.taken, axis=3))


def _core(directions: Directions, root: _Array, sample_weight: _Array) -> Core:
    """Return the matrices over the dimensions of the slopes."""
    left, _ = _factors(directions)
    rows = root[..., None] * left[:, None]
    product = rows.mT @ rows
    one = identity(product.shape[-1])
    if np.iscomplexobj(root):
        gain = linear_gain(replace(directions, slope=_factors(directions)[1]), sample_weight)
        damping = np.linalg.inv(one + gain @ product)
        return Core(rows, rows @ (damping @ gain), damping, product @ damping)
    # The matrix to invert is symmetric, and at least the identity.
    triangle = _triangle(directions, sample_weight)
    middle = triangle.mT @ inverses(one + triangle @ product @ triangle.mT) @ triangle
    damping = one - middle @ product
    return Core(rows, rows @ middle, damping, product @ damping)


def _triangle(directions: Directions, sample_weight: _Array) -> _Array:
    """Return the triangular ``T`` with ``G = T^T T``, for the products ``G`` of factors at weighed nodes, by class.

    Shape (batch, classes or 1, dimensions, dimensions).
    """
    rows = (_factors(directions)[1] * np.sqrt(sample_weight)[:, None]).mT
    of_parts = [_triangular(rows[:, directions.part(index)])[:, None] for index in range(directions.parts)]
    if len(of_parts) == 1:
        return of_parts[0]
    # The triangles of all classes from those of the parts.
    scaled = [directions.stretch[..., [index], None] * each for index, each in enumerate(of_parts)]
    return _triangular(np.concatenate(scaled, axis=2))


def _triangular(rows: _Array) -> _Array:
    """Return the triangular ``T`` with ``T^T T = rows^T rows``."""
    return np.asarray(np.linalg.qr(rows, mode="r"))


def linear_gain(directions: Directions, sample_weight: _Array) -> _Array:
    """Return ``V1``, shape (batch, classes or 1, groups, groups), for weights of shape (batch, nodes)."""
    slope, found = directions.slope, np.zeros((1, 1, 1, 1))
    for index in range(directions.parts):
        here = slope[..., directions.part(index)]
        gain = (here * sample_weight[:, None, directions.part(index)]) @ here.mT
        found = found + np.square(directions.stretch[..., [index], None]) * gain[:, None]
    return np.asarray(found)


def _largest(values: _Array) -> _Array:
    """Return the largest absolute value of each row (without the overhead of the method of arrays)."""
    return np.asarray(np.maximum.reduce(np.abs(values), axis=1))


def inner(linear_gain: _Array, root: _Array) -> _Array:
    """Return ``I + D^1/2 V1 D^1/2`` for diagonal ``D^1/2`` of shape (batch, classes, groups), and V1 by class.

    It is symmetric and at least the identity: its inverse is safe however small the groups are.
    """
    matrix = root[..., :, None] * linear_gain * root[..., None, :]
    matrix += identity(root.shape[2])
    return matrix


class Undamped(NamedTuple):
    """The inverses of `inner` for many directions, to be multiplied with vectors and summed.

    They are matrices of shape (batch, classes, groups, groups). If the slopes have few dimensions they are kept as the
    identity less ``D_j^1/2 left middle_j left^T D_j^1/2``, which takes a small part of the time and memory.
    """

    root: _Array  #: ``D_j^1/2``, shape (batch, classes, groups).
    matrices: _Array | None
    left: _Array  #: ``V1`` is its square ``left left^T``, shape (batch, groups, dimensions).
    middle: _Array  #: Shape (batch, classes, dimensions, dimensions).

    @classmethod
    def of(cls, directions: Directions, root: _Array, sample_weight: _Array, gain: _Array) -> Undamped:
        """Return the inverses for ``D_j^1/2`` of shape (batch, classes, groups), weights (batch, nodes) and ``V1``.

        The directions have no factors of their own at different nodes.
        """
        if directions.factors is None:
            matrices = inverses(inner(gain, root))
            return cls(root, matrices, root[:, 0, :, None], matrices[..., :0, :0])
        left = directions.factors[0] @ _triangle(directions, sample_weight)[:, 0].mT
        weighed = root[..., None] * left[:, None]
        return cls(root, None, left, inverses(identity(left.shape[2]) + weighed.mT @ weighed))

    def less_one(self, vectors: _Array) -> _Array:
        """Return the matrices, less the identity, times vectors of shape (batch, classes, groups)."""
        if self.matrices is not None:
            return np.asarray(np.matvec(self.matrices, vectors) - vectors)
        taken = np.matvec(self.middle, (self.root * vectors) @ self.left)
        return np.asarray(-self.root * (taken @ self.left.mT))

    def taken(self, rows: Sequence[_Array], separable: Callable[[], Sequence[Separable]]) -> list[list[_Array]]:
        """Return the sums over the directions of the identity less the matrices, each between two diagonal matrices.

        The diagonal matrices are `rows`, shape (batch, classes, groups), and `separable` returns them times
        ``D_j^1/2``, in products. The sums, shape (batch, groups, groups), are listed for each diagonal matrix on the
        left, and each on the right.
        """
        if self.matrices is not None:
            taken = identity(self.root.shape[2]) - self.matrices
            return [[np.vecmat(a.mT, (taken * b[:, :, None]).swapaxes(1, 2)) for b in rows] for a in rows]
        diagonals, (batch, classes, count, _) = separable(), self.middle.shape
        middle, groups = self.middle.reshape(batch, classes, count**2), self.left.shape[1]
        # Products of the diagonals with the dimensions, between which the sums over the directions are.
        spread = [(of.left[..., None] * self.left[:, :, None]).reshape(batch, groups, -1) for of in diagonals]
        found: list[list[_Array]] = [[] for _ in diagonals]
        for a, row in enumerate(diagonals):
            for b, column in enumerate(diagonals[: a + 1]):
                products = row.right[:, :, None] * column.right[:, None]
                sums = products.reshape(len(products), -1, classes) @ middle
                sums = sums.reshape(batch, *products.shape[1:3], count, count).swapaxes(2, 3)
                sums = sums.reshape(batch, spread[a].shape[2], spread[b].shape[2])
                found[a].append(spread[a] @ sums @ spread[b].mT)
                if b < a:
                    found[b].append(found[a][b].mT)
        return found


class Separable(NamedTuple):
    """Numbers for each direction and group, as a sum of a few products of one for each."""

    left: _Array  #: Shape (batch, groups, products).
    right: _Array  #: Shape (batch, products, directions).

    @classmethod
    def of(cls, values: _Array) -> Separable:
        """Return values of shape (batch, groups, directions) as products, each right to rounding."""
        return cls(*scaled_factors(values, _DIMENSION)[:2])

    def scaled(self, by_group: _Array, by_direction: _Array | None = None) -> Separable:
        """Return the products with a factor for each group, shape (batch, groups), and for each direction."""
        right = self.right if by_direction is None else self.right * by_direction[:, None]
        return Separable(self.left * by_group[..., None], right)


def _stably_dressed(columns: _Array, sample_weight: _Array) -> tuple[_Array, _Array]:
    """Return what `evaluate` inverts, and its product with the columns, from their singular vectors when weighed."""
    half_weight = np.sqrt(sample_weight)[:, None, None, :]
    weighed = columns * half_weight
    left, singular, right = np.linalg.svd(weighed, full_matrices=False)
    damping = (1 + singular**2)[..., None]
    # Coefficients of the columns, each from the factor that holds more of its digits: a node that weighs nothing has
    # lost them in `right`, a direction that nothing spans is noise in `left`.
    size = np.linalg.norm(weighed, axis=2)[..., None, :]
    by_right = singular[..., None] * right / half_weight
    coefficients = np.where(singular[..., None] < size, by_right, left.mT @ columns)
    inverse = identity(columns.shape[2]) - left @ (singular[..., None] ** 2 / damping * left.mT)
    return inverse, left @ (coefficients / damping)


def _guess(equations: LeverageEquations) -> _Array:
    """Return a state near the solution: that of one average neuron, spread over the nodes and then over the groups."""
    average, ridge = equations.table.average, equations.ridge
    count = len(ridge) // len(average.linear)
    sizes = (equations.width, equations.directions, equations.samples, ridge)
    rows = zip(average.linear * count, average.nonlinear * count, *(size.tolist() for size in sizes), strict=True)
    try:
        resolvent, damping = np.array([_average_neuron(*row) for row in rows]).T
    except (ArithmeticError, ValueError) as error:
        raise NotConverged(_NAME, math.inf, TOLERANCE, _ADVICE) from error
    mass = (equations.width * resolvent)[:, None]
    leverage = mass * (average.mean_common / damping[:, None] + average.mean_rest)
    # Once more, with the average that the inputs' own leverages give.
    shared_gain = np.vecdot(average.mean_common, equations.weighed(1 / (1 + leverage)))[:, None]
    damping = 1 + mass / equations.directions[:, None] * shared_gain
    leverage = mass * (average.mean_common / damping + average.mean_rest)
    gain = average.common / damping[..., None] + average.rest
    inverse = ridge[:, None] + np.matvec(gain, equations.weighed(1 / (1 + leverage)))
    leverage = np.vecmat(equations.neurons / inverse, gain)
    return np.asarray(np.log(np.concatenate([leverage, 1 / inverse], axis=1)))


def _positive_root(b: float, c: float) -> float:
    """Return the positive root of ``x^2 - b x - c``, by the branch without cancellation."""
    root = math.hypot(b, 2 * math.sqrt(c))
    return (b + root) / 2 if b >= 0 else 2 * c / (root - b)


def _average_neuron(
    linear: float, nonlinear: float, width: float, directions: float, samples: float, ridge: float
) -> tuple[float, float]:
    """Solve the equations for one average neuron and one average input (random features without a spike).

    There ``1/R`` is the positive root of a quadratic given ``V``, and ``V`` the only root of a function that falls in
    ``log V``. Newton's method starts where no neuron is in the way of another, and a bisection keeps it from running
    away. Returns ``R`` and ``1 + D V1``, with an error of `_NEAR` in ``log V``; what is not a number stays so.
    """
    power = linear + nonlinear
    start = _positive_root((power * (width - samples) - ridge) / ridge, width * power / ridge)
    log_leverage, low, high = math.log(min(max(start, _SMALLEST), 1 / _SMALLEST)), -math.inf, math.inf
    for _ in range(_MAX_STEPS):
        leverage = math.exp(log_leverage)
        fitted = leverage / (1 + leverage)
        gain, base = linear * samples / (1 + leverage), nonlinear * samples / (1 + leverage)
        shared_gain = width / directions * gain
        b = ridge + base + gain - shared_gain
        a = _positive_root(b, (ridge + base) * shared_gain)
        damping = 1 + shared_gain / a
        image = linear / damping + nonlinear
        gap = math.log(width / a * image / leverage)
        if not abs(gap) > 0:
            break
        low, high = (log_leverage, high) if gap > 0 else (low, log_leverage)
        # Derivatives by log V, over the part of a sample that is fitted.
        slope_a = -((base + gain - shared_gain) * a + (2 * base + ridge) * shared_gain) / (2 * a - b)
        slope_damping = -shared_gain / a * (1 + slope_a / a)
        slope = fitted * (-slope_a / a - linear * slope_damping / (damping**2 * image)) - 1
        step = -gap / slope if slope < 0 else math.copysign(_LONGEST_STEP, gap)
        if abs(step) < _NEAR:
            break
        log_leverage += min(max(step, -_LONGEST_STEP), _LONGEST_STEP)
        if not low < log_leverage < high:
            log_leverage = (low + high) / 2
    return 1 / a, damping


def _mean_square(directions: Directions, matrices: Whole | Core, density: _Array, *, by_pairs: bool) -> _Array:
    """Return how the leverages raise each other: squares, averaged over the classes.

    A square at two nodes is a form in the products of two slopes. Where there are fewer of these products than nodes,
    it is quicker to take the mean of these forms, as is done with `by_pairs`.
    """
    slopes, classes = directions.slopes_of(matrices), directions.profile.shape[1]
    nodes = slopes.shape[2]
    numbers, products = classes * nodes**2, directions.parts * SymmetricPairs.number(slopes.shape[1])
    if by_pairs and _NUMBER_OF_PAIRS * products**2 + _MATRIX_OF_PAIRS < numbers:
        known, square = _pairs_of_slopes(directions, matrices, density)
        return np.asarray(known.mT @ square @ known)
    if numbers <= _AT_ONCE:
        return _mixed_squares(directions, matrices.of_nodes(directions))
    found = np.zeros((len(density), nodes, nodes), dtype=density.dtype)
    for index in range(classes):
        square = matrices.of_class(index).of_nodes(directions.of_class(index))[:, 0]
        np.square(square, out=square)
        square *= directions.share[:, index, None, None]
        found += square
    return found


def _pairs_of_slopes(directions: Directions, matrices: Whole | Core, density: _Array) -> tuple[_Array, _Array]:
    """Return the products of two slopes, and how two of them raise each other (see `LinearisedByPairs`).

    The products of different parts of the nodes follow each other. Shapes (1 or batch, pairs, nodes) and
    (batch, pairs, pairs).
    """
    slopes, parts = directions.slopes_of(matrices), range(directions.parts)
    pairs, forms = SymmetricPairs.among(slopes.shape[1]), _forms(directions, matrices, density)
    products = pairs.of(slopes)
    if len(parts) == 1:
        return products, pairs.mean_square(forms, directions.squared_stretch(0, 0))
    known = np.zeros((len(slopes), len(parts) * products.shape[1], slopes.shape[2]), dtype=slopes.dtype)
    for index, rows in enumerate(np.split(np.arange(known.shape[1]), len(parts))):
        known[:, rows, directions.part(index)] = products[..., directions.part(index)]
    square = [[pairs.mean_square(forms, directions.squared_stretch(one, other)) for other in parts] for one in parts]
    return known, np.block(square)


def _forms(directions: Directions, matrices: Whole | Core, density: _Array) -> _Array:
    """Return what two slopes are multiplied by in a leverage, shape (batch, classes, slopes, slopes)."""
    if isinstance(matrices, Core):
        return matrices.form
    root = np.sqrt(density[:, None] * directions.profile)
    return np.asarray(root[..., None] * matrices.inverse * root[..., None, :])


def _mixed_squares(directions: Directions, values: _Array) -> _Array:
    """Return the mean over the classes of the squares of values, whose memory is used: new memory costs more."""
    return directions.mixed(np.square(values, out=values))


def couplings(table: LeverageTable, point: Leverage, *, by_pairs: bool = True) -> _Array:
    """Return how leverages and resolvents raise each other, shape (batch, nodes + groups, nodes + groups).

    The matrix is symmetric and has no negative entries. Without `by_pairs` it takes more time, and keeps more digits
    where the terms of a leverage cancel.

    Docs, "Uniform equivalent", equation (E16).
    """
    batch, groups, nodes = point.variance.shape
    matrix = np.zeros((batch, nodes + groups, nodes + groups), dtype=point.following.dtype)
    matrix[:, nodes:, :nodes] = point.variance
    for kind, matrices in zip(table.kinds, point.matrices, strict=True):
        matrix[:, :nodes, :nodes] += _mean_square(kind, matrices, point.density, by_pairs=by_pairs)
        matrix[:, nodes:, :nodes] += _mixed_squares(kind, matrices.of_groups_and_nodes(kind))
        matrix[:, nodes:, nodes:] += _mixed_squares(kind, matrices.of_groups())
    matrix[:, :nodes, nodes:] = matrix[:, nodes:, :nodes].mT
    return matrix


def linearised(equations: LeverageEquations, point: Leverage, *, by_pairs: bool = True) -> Linearised:
    """Return the equations near a point, as a matrix, for which `by_pairs` is as in `couplings`.

    Docs, "Uniform equivalent", equation (E15).
    """
    into, out = _units(equations, point)
    matrix = couplings(equations.table, point, by_pairs=by_pairs)
    np.negative(matrix, out=matrix)
    matrix.reshape(len(matrix), -1)[:, :: matrix.shape[1] + 1] += into * out
    return Linearised(matrix, into, out)


def _units(equations: LeverageEquations, point: Leverage) -> tuple[_Array, _Array]:
    """Return the units of the equations near a point, each of shape (batch, nodes + groups)."""
    nodes = point.leverage.shape[1]
    fitted = equations.sampling * (point.leverage * point.remaining) * point.remaining
    into, out = np.empty_like(point.following), np.ones_like(point.following)
    np.divide(point.following[:, :nodes], equations.directions[:, None], out=into[:, :nodes])
    np.divide(point.density, point.following[:, nodes:], out=into[:, nodes:])
    np.reciprocal(fitted, out=out[:, :nodes])
    return into, out


def near_point(equations: LeverageEquations, point: Leverage) -> Linearised | LinearisedByPairs:
    """Return the equations near a point of a fit, in the form in which they are solved with the least work.

    Docs, "Uniform equivalent", equations (E15) and (E16).
    """
    kinds, (batch, groups, nodes) = equations.table.kinds, point.variance.shape
    every = [kind.slopes_of(matrices) for kind, matrices in zip(kinds, point.matrices, strict=True)]
    number = sum(kind.parts * SymmetricPairs.number(slopes.shape[1]) for kind, slopes in zip(kinds, every, strict=True))
    if not _by_pairs(number, groups, nodes):
        return linearised(equations, point)
    source, between = point.variance.copy(), np.zeros((batch, groups, groups), dtype=point.following.dtype)
    products, squares = [], []
    for kind, slopes, matrices in zip(kinds, every, point.matrices, strict=True):
        if isinstance(matrices, Core):
            of_groups = matrices.rows @ matrices.damping
        else:
            of_groups = matrices.inverse * np.sqrt(point.density[:, None] * kind.profile)[:, :, None]
        pairs = SymmetricPairs.among(slopes.shape[1])
        by_group = pairs.of(of_groups.mT)
        for index in range(kind.parts):
            here, weight = kind.part(index), kind.share * np.square(kind.stretch[..., index])
            source[..., here] += _mixed(weight, by_group).mT @ pairs.of(slopes[..., here])
        known, square = _pairs_of_slopes(kind, matrices, point.density)
        # Each member has its own, since those of some may be replaced.
        products.append(known if len(known) == batch else np.repeat(known, batch, axis=0))
        squares.append(square)
        between += _mixed_squares(kind, matrices.of_groups())
    known = products[0] if len(products) == 1 else np.concatenate(products, axis=1)
    return LinearisedByPairs(known, block_diagonal(squares), source, between, *_units(equations, point))


def _by_pairs(pairs: int, groups: int, nodes: int) -> bool:
    """Return whether equations between pairs of dimensions of the slopes take less time than a matrix over nodes."""
    return nodes >= _MANY_NODES and pairs + groups <= _FEW_UNKNOWNS * nodes


def couplings_times(
    equations: LeverageEquations, point: Leverage, near: Linearised | LinearisedByPairs, changes: _Array
) -> _Array:
    """Return the `couplings` times changes, shape (batch, nodes + groups), in the form of the equations near a point.

    Docs, "Uniform equivalent", equation (E16).
    """
    if isinstance(near, LinearisedByPairs):
        return near.couplings_times(changes)
    return np.asarray(np.matvec(couplings(equations.table, point), changes))


def solve_leverage(
    equations: LeverageEquations, tolerance: float = TOLERANCE, *, stable: bool = False
) -> tuple[Leverage, int]:
    """Solve the fixed point for a batch.

    The largest true residual allowed is `tolerance`, a difference of logarithms between the two sides. What is returned
    is evaluated at the solution and has its residual. It comes with the Newton steps taken, the most over the batch.
    Raises `NotConverged` if any member of the batch does not reach `tolerance`. With `stable`, matrices are as in
    `evaluate`; without, they are where that is needed.

    Docs, "Uniform equivalent", equation (E9). Docs, "Structured bulk", equation (A3).
    """
    # Lost digits, and numbers that leave their range, show in the residual.
    if not stable:
        try:
            found = _newton(equations, tolerance, stable=False)
            if not _cancelled(equations, found[0]):
                return found
        except (NotConverged, np.linalg.LinAlgError):
            pass
    try:
        return _newton(equations, tolerance, stable=True)
    except np.linalg.LinAlgError as error:
        raise NotConverged(_NAME, math.inf, tolerance, _ADVICE) from error


def _cancelled(equations: LeverageEquations, point: Leverage) -> bool:
    """Return whether terms cancel in the leverages by way of few dimensions, which the residual does not show.

    They do at nodes where the slopes of nearly all neurons vanish.
    """
    nodes = point.leverage.shape[1]
    for kind, matrices in zip(equations.table.kinds, point.matrices, strict=True):
        if isinstance(matrices, Core):
            size, form = np.abs(_factors(kind)[1]), np.abs(kind.mixed(matrices.form))
            terms = equations.directions[:, None] * np.add.reduce(size * (form @ size), axis=1)
            if (terms > _CANCELLED * point.following[:, :nodes]).any():
                return True
    return False


def _newton(equations: LeverageEquations, tolerance: float, *, stable: bool) -> tuple[Leverage, int]:
    """Follow Newton's method with one way to evaluate the equations (see `solve_leverage`)."""
    state = _guess(equations)
    here = solution = evaluate(equations, state, stable=stable)
    members, nodes = np.arange(len(state)), here.leverage.shape[1]
    enough = np.full(len(state), tolerance / _MARGIN)
    last, bound, near = here.residual, np.full(len(state), _LONGEST_STEP), None
    for count in range(_MAX_STEPS + 1):
        finished = here.residual <= enough
        done = np.count_nonzero(finished)
        if done == len(solution.residual):
            return here, count
        if done:
            _store(solution, members[finished], here.take(finished))
            if done == len(finished):
                return solution, count
            unfinished = ~finished
            equations, here, members = equations.take(unfinished), here.take(unfinished), members[unfinished]
            state, last, bound, enough = (values[unfinished] for values in (state, last, bound, enough))
            near = None if near is None else near.take(unfinished)
        if count == _MAX_STEPS:
            break
        near = near_point(equations, here) if near is None else _renewed(near, equations, here, last)
        step = near.out * near.response(near.into * here.gap, nodes)
        longest = _largest(step)
        # A state is off by more than its residual: the next one about as much more as this one.
        enough = tolerance * np.minimum(np.maximum(here.residual / np.maximum(longest, _SMALLEST), 1 / _MARGIN), 1)
        if np.count_nonzero(longest > bound):
            step *= (bound / np.maximum(longest, bound))[:, None]
        next_state = state + step
        trial = evaluate(equations, next_state, stable=stable)
        better = trial.residual < here.residual
        last = here.residual
        if np.count_nonzero(better) < len(better):
            # Rounding floor reached: Newton cannot improve a residual that is already certified.
            worse = ~better & ~(here.residual <= tolerance)
            if not worse.any() and not better.any():
                break
            # The plain iteration always moves towards the solution; follow it and trust smaller Newton steps.
            next_state = np.where(worse[:, None], state + here.gap, np.where(better[:, None], next_state, state))
            trial = evaluate(equations, next_state, stable=stable)
            bound, last = np.where(worse, bound / 4, bound), np.where(better, last, 0.0)
        # Steps that were too long once need not stay short.
        bound = np.minimum(2 * bound, _LONGEST_STEP)
        state, here = next_state, trial
    _store(solution, members, here)
    worst = float(solution.residual.max())
    if worst <= tolerance:
        return solution, count
    raise NotConverged(_NAME, worst, tolerance, _ADVICE)


def _renewed(near: _Near, equations: LeverageEquations, point: Leverage, last: _Array) -> _Near:
    """Return the equations near a point: those of the step before for members that need no others.

    With the derivatives of the last step a residual falls about as much as in that step, to its square over the `last`
    one. Where that is rounding new ones would be wasted.
    """
    stale = ~(np.square(point.residual) <= last * _ROUNDING)
    count = np.count_nonzero(stale)
    if count == len(stale):
        return near_point(equations, point)
    if count:
        _store(near, stale, near_point(equations.take(stale), point.take(stale)))
    return near


def _store(
    solution: Leverage | _Near | Whole | Core | tuple[Whole | Core, ...],
    members: NDArray[np.intp] | NDArray[np.bool_],
    found: Leverage | _Near | Whole | Core | tuple[Whole | Core, ...],
) -> None:
    """Write what was found for some members, of the same kind, into that of all."""
    values: Any
    new: Any
    for values, new in zip(solution, found, strict=True):
        if isinstance(values, tuple):
            _store(values, members, new)
        else:
            values[members] = new
