"""One deterministic equivalent for every step size, at finite sizes (this project).

`solve` takes sizes and tables of conditional features, and solves the fixed point for the leverage. All other results
follow by linear algebra: first the means along the spike, then the conditional error as one small linear system. All
arrays have a leading batch axis, of length one where a table is shared.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradstep.errors import NotConverged
from gradstep.resolution import NOTHING
from gradstep.theory.equivalent.certificate import (
    check_errors,
    check_loss,
    check_point,
    check_response,
    check_solution,
    response_defect,
)
from gradstep.theory.equivalent.features import ConditionalFeatures
from gradstep.theory.equivalent.leverage import (
    TOLERANCE,
    Directions,
    Leverage,
    LeverageEquations,
    Separable,
    Undamped,
    couplings_times,
    inner,
    linear_gain,
    linearised,
    near_point,
    solve_leverage,
)
from gradstep.theory.equivalent.linearised import Linearised, LinearisedByPairs
from gradstep.theory.equivalent.stacks import cholesky, identity, inverses, least_squares, solved
from gradstep.theory.equivalent.tables import Tables
from gradstep.theory.neurons.groups import Groups

__all__ = ["Fluctuations", "UniformSolution", "WeightOffset", "solve"]

#: Largest share of the error that a node of kappa may contribute where it should contribute none.
_LOST = 1e-6
#: Largest matrix of the normal equations in which the penalty, which is one, keeps enough digits.
_STEEP = 1e8
#: Least variance of a group's weights, over that without the missing bulk. Along the readout at initialisation means
#: and powers are known to leading order, which may differ by more in the tail of its law.
_LEAST_SPREAD = 1e-2

Array = NDArray[np.float64]


class WeightOffset(NamedTuple):
    """The part of a neuron's weight that a penalty other than a ridge adds to its linear response to the fit."""

    #: Shape (batch, groups).
    mean: Array
    variance: Array


class Fluctuations(NamedTuple):
    """Variances, without the digits that are lost between a mean square and a squared mean."""

    #: Variance of the trained network's output, given kappa and the coordinate along a second direction, if any.
    #: Shape (batch, nodes).
    output: Array
    #: Variance of a neuron's weight in each group, without that of the `WeightOffset`. Shape (batch, groups).
    weight: Array


class UniformSolution(NamedTuple):
    """Results of a batch."""

    #: Shape (batch,).
    test_error: Array
    train_error: Array
    train_loss: Array
    degrees_of_freedom: Array
    residual: Array
    readout_norm: Array  #: ``|b|^2`` of the trained readout, shape (batch,).
    readout_power: Array  #: Contribution of each group to ``|b|^2``, shape (batch, groups).
    learned: Array  #: ``M(kappa)``, the mean output of the trained network. Shape (batch, nodes).
    #: ``T(kappa)``, the slope of the trained network along the teacher's rest, off a second direction if any.
    #: Shape (batch, nodes).
    rest_slope: Array
    #: Slopes of the trained network along the input's lengths, standard normal numbers. Shape (batch, lengths, nodes).
    length_slopes: Array
    #: Slopes of the trained network along the special directions of the bulk, shape (batch, special, nodes).
    slopes: Array
    #: ``(N_g / A_g)^1/2 mhat_g``: what the means ask of each neuron of a group (and the `WeightOffset`).
    #: Shape (batch, groups).
    mean_field: Array
    #: ``(N_g A_g)^1/2`` times a neuron's mean weight. It differs along the readout at initialisation, where the bulk is
    #: smaller. Shape (batch, groups).
    weight_field: Array
    #: Overlaps of the groups with the special directions beyond what follows the means, over ``D_j^1/2``; of a joint
    #: fit also with the parts of the projections, and of norms that tell of the rows, that are not due to the rows.
    #: Shape (batch, special + known, groups).
    free_overlap: Array
    conditional_error: Array  #: ``E[(y - f_hat)^2 | kappa]``, shape (batch, nodes).
    point: Leverage  #: Solution of the fixed point.
    iterations: int
    fluctuations: Fluctuations | None = None  #: With a weight_offset.


class _AlongReadout(NamedTuple):
    """Change of the resolvent by the bulk that is missing along the readout at initialisation.

    Vectors over the neurons are resolved in the space of the normalised groups ``e_g`` and of the readout within each
    group, a unit vector of overlap ``cosine`` with ``e_g``. In units of ``A^-1/2``, the inverse of the resolvent is
    there the identity less a matrix between these readouts.
    """

    # Shape (batch or 1, groups): root mean square of the readout in a group, over that of all neurons, times the parts
    # of a row that are those of the initial row, without what the step takes and with it.
    before: Array
    after: Array
    cosine: Array  # Shape (batch or 1, groups).
    # Shape (batch, groups, groups): the matrix, and the inverse of the identity less it.
    lost: Array
    whole: Array
    # Shape (batch, groups, groups): the resolvent of the ``e_g``, in units of ``A^-1``, and its triangular root.
    resolvent: Array
    root: Array


def _along_readout(equations: LeverageEquations, point: Leverage, groups: Groups) -> _AlongReadout:
    """Return the change at a solution of the fixed point.

    Docs, "Uniform equivalent", equations (E12) and (E12a).
    """
    length = np.sqrt(groups.readout_square)
    cosine = np.divide(groups.readout, length, out=np.zeros_like(length), where=length > 0)
    before, after = length * groups.initial, length * (groups.initial - groups.taken)
    # D^1/2 Psi D^1/2, for the directions on average.
    taken = equations.table.linear.mixed(point.matrices[0].of_groups())
    lost = before[..., None] * before[..., None, :] - after[..., None] * after[..., None, :]
    lost = (equations.directions / equations.width)[:, None, None] * taken * lost
    one = identity(lost.shape[1])
    whole = inverses(one - lost)
    resolvent = one + cosine[..., None] * (whole - one) * cosine[..., None, :]
    return _AlongReadout(before, after, cosine, lost, whole, resolvent, cholesky(resolvent))


def _penalised(rows: Array, values: Array, root: Array, target: Array) -> Array:
    """Return the minimum of ``|rows x - values|^2 + |root x - target|^2``, shape (batch, unknowns)."""
    return least_squares(np.concatenate([rows, root], axis=1), np.concatenate([values, target], axis=1))


class _Fit(NamedTuple):
    """Unknowns of the means, overlaps of the groups with the special directions, their free part over ``D_j^1/2``.

    A joint fit has more free parts: that of the projections which is not due to the rows, and that of the norms.
    """

    unknowns: Array
    overlap: Array
    free: Array


def _separate_fit(
    spikes: Array, values: Array, slopes: Array, slope_values: Array, teacher: Array, root: Array, linear_gain: Array
) -> _Fit:
    """Fit the teacher along the spike, and its rest by the bulk, which then know nothing of each other.

    Docs, "Structured bulk", equation (A4).

    At the weighed nodes there are the means (batch, nodes, groups) of the features, a unit of each unknown, and those
    of the teacher, the values (batch, nodes); and the slopes of both. Along the special directions there are the
    components of the teacher's rest (batch, special) and the root ``D_j^1/2``, shape (batch, special, groups). The
    linear gain is ``V1``.
    """
    batch, _, groups = spikes.shape
    one, zero = np.broadcast_to(identity(groups), (batch, groups, groups)), np.zeros((batch, groups))
    unknowns = _penalised(spikes, values, one, zero)
    matrix = inner(linear_gain, root)
    if matrix.max() < _STEEP:
        level = teacher[..., None] * np.vecmat(slope_values, slopes)[:, None]
        free = solved(matrix, (root * level)[..., None])[..., 0]
    else:
        special = root.shape[1]
        rows = np.concatenate([slopes * root[:, j, None] for j in range(special)])
        targets = np.concatenate([slope_values * teacher[:, j, None] for j in range(special)])
        costs, nothing = np.broadcast_to(one[:1], (len(rows), groups, groups)), np.zeros((len(rows), groups))
        free = _penalised(rows, targets, costs, nothing).reshape(special, batch, groups).swapaxes(0, 1)
    return _Fit(unknowns, root * free, free)


def _joint_fit(
    spikes: Array,
    values: Array,
    level: Array,
    root: Array,
    inverse: Undamped,
    spread: Array,
    point: Leverage,
    gain: Array,
    tables: Tables,
    weight_offset: Array | None,
) -> _Fit:
    """Fit both at once where a row's mean orthogonal to the spike depends on its projection on the spike.

    In special direction ``j`` the rows, weighted by the fit, have the overlap ``P_j m + D_j^1/2 f_j`` (groups) with the
    inputs. The first term is the pull times the means ``m = spread @ unknowns``; the second is free at the cost
    ``f_j^2``. The projections on the spike are given, which is the constraint ``sum_j spike_j D_j^1/2 f_j + y = 0``:
    fluctuations of the row's component along the spike are compensated by the part ``y`` of the projection that is not
    due to the row, of the variance `projection_noise` of the bulk. Where norms tell of the rows, they are a second
    constraint with `norm_slope` in place of the spike. Where features are resolved along a second direction,
    projections on it are given too: one more constraint, with its components, all due to the row. Given the means and
    multipliers ``mu`` of the constraints, the
    directions are independent,

        (I + D_j^1/2 V1 D_j^1/2) f_j = D_j^1/2 (level_j + spike_j mu_1 + slope_j mu_2 - V1 P_j m),

    and the objective is quadratic in the means: minus half its gradient is ``sum_j P_j (D_j^-1/2 f_j - slope_j mu_2)``,
    because the pull is orthogonal to the spike. Parameters are as in `_separate_fit`; `level` is the source of each
    special direction from the teacher's component orthogonal to the spike, and there is the `inverse` of
    ``I + D_j^1/2 V1 D_j^1/2``; `spread` turns unknowns into means, to which those of `weight_offset` add.

    Docs, "Structured bulk", equations (A5) and (A5b). Docs, "Uniform equivalent", equation (E19).
    """
    (batch, _, groups), bulk = root.shape, tables.bulk
    pull, noise = bulk.pull.mT, point.density * bulk.known_noise
    ratio, along = pull / root, [bulk.spike[..., None] * root, bulk.norm_slope.mT * root][: len(noise)]
    if tables.in_plane:
        along.append(tables.second_direction[..., None] * root)
    # The free parts f_j without a multiplier: of the source alone, and with the means that are given.
    source = root * level
    given = source + inverse.less_one(source)
    if weight_offset is not None:
        given += inverse.less_one(ratio * weight_offset[:, None])
    # Sums over the directions, for each group, per unit of each mean and for what is given: of the constraints, and of
    # the slope downwards; and of the constraints per unit of each multiplier. The slope that a multiplier makes is its
    # constraint of a mean, transposed: the inverse is symmetric, and less one for the term with the multiplier itself.
    taken = inverse.taken([*along, ratio], partial(_separable, tables, point.density, len(noise)))
    *constraints, downwards = (
        np.concatenate([-of[-1], (rows * given).sum(axis=1)[..., None]], axis=2)
        for of, rows in zip(taken, (*along, ratio), strict=True)
    )
    constraint = np.concatenate(constraints, axis=1)
    of_multiplier = -np.block([of[:-1] for of in taken[:-1]])
    _add_blocks(of_multiplier, [[(rows * columns).sum(axis=1) for columns in along] for rows in along])
    # The parts of projection and norm that are not due to the row add y = U l to the sums of the constraints, at the
    # cost l^T U l. The row's component along the spike is then -y_1, on which the features orthogonal to the spike do
    # not depend, so that mu_1 = l_1 - V1 y_1.
    noisy, first = len(noise) * groups, noise[0].reshape(-1, batch, groups).swapaxes(0, 1).reshape(batch, 1, -1)
    of_price = of_multiplier.copy()
    of_price[..., :noisy] -= np.tile(of_multiplier[..., :groups] @ gain, len(noise)) * first
    _add_blocks(of_price, noise)
    # Resolvents of groups may be a hundred decades apart: in the unit of each, pivots keep the digits of all.
    unit = np.sqrt(np.abs(np.diagonal(of_price, axis1=1, axis2=2)))[..., None]
    price = solved(of_price / unit / unit.mT, constraint / unit) / unit
    check_solution(of_price, price, constraint)
    multiplier = price.copy()
    multiplier[:, :groups] -= gain @ (first.mT * price[:, :noisy]).reshape(batch, len(noise), groups, -1).sum(axis=1)
    downwards = spread.mT @ (downwards - constraint[..., :groups].mT @ multiplier)
    factor = cholesky(identity(groups) - downwards[..., :groups] @ spread)
    target = solved(factor, downwards[..., groups:])[..., 0]
    unknowns = _penalised(spikes, values, factor.mT, target)
    mean = np.matvec(spread, unknowns)
    state = np.concatenate([mean, np.ones((batch, 1))], axis=1)
    multipliers = np.matvec(multiplier, state).reshape(batch, len(along), 1, groups)
    multiplied = sum((rows * multipliers[:, k] for k, rows in enumerate(along)), start=np.zeros_like(root))
    rest = given - multiplied + inverse.less_one(ratio * mean[:, None] - multiplied)
    overlap = pull * (mean if weight_offset is None else mean + weight_offset)[:, None] + root * rest
    for direction in [bulk.spike, tables.second_direction] if tables.in_plane else [bulk.spike]:
        overlap -= direction[..., None] * np.vecmat(direction, overlap)[:, None]
    prices = np.matvec(price, state).reshape(batch, len(along), groups)
    return _Fit(unknowns, overlap, np.concatenate([rest, _root_of_cost(noise, prices[:, : len(noise)])], axis=1))


def _separable(tables: Tables, density: Array, known: int) -> list[Separable]:
    """Return the constraints of `_joint_fit` and the pull, times ``D_j^1/2``, of groups of which so much is known."""
    (profile, slope, pull), bulk = tables.separable_bulk, tables.bulk
    found = [profile.scaled(density, bulk.spike), slope.scaled(density)][:known]
    return [*found, profile.scaled(density, tables.second_direction), pull] if tables.in_plane else [*found, pull]


def _add_blocks(matrix: Array, diagonals: Sequence[Sequence[Array]] | Array) -> None:
    """Add diagonal blocks to the first rows and columns of a matrix, in place."""
    groups = diagonals[0][0].shape[-1]
    diagonal = np.arange(groups)
    for a, row in enumerate(diagonals):
        for b, values in enumerate(row):
            matrix[:, a * groups + diagonal, b * groups + diagonal] += values


def _root_of_cost(noise: Array, prices: Array) -> Array:
    """Return vectors whose squares sum to ``l^T U l``, for prices l of shape (batch, known, groups): its shape too."""
    first = np.sqrt(noise[0][0])
    if len(noise) == 1:
        return np.asarray(first[:, None] * prices)
    below = np.divide(noise[1][0], first, out=np.zeros_like(first), where=first > 0)
    last = np.sqrt(np.maximum(noise[1][1] - below**2, 0.0))
    return np.stack([first * prices[:, 0] + below * prices[:, 1], last * prices[:, 1]], axis=1)


class _Means(NamedTuple):
    """The fit's means: its output along the spike and along the special directions, and the fields on its weights."""

    # As in `UniformSolution`.
    learned: Array
    length_slopes: Array
    slopes: Array
    free: Array
    mean: Array  # Field on the weights, shape (batch, groups).
    # Shape (batch, groups): the field as the weights respond to it, with the bulk that is missing along the readout at
    # initialisation.
    pulled: Array
    # Shape (batch, groups): root of what the missing bulk adds to the squares of the weights within a group, in the
    # units of the field.
    within: Array
    # Shape (batch, groups): the part of the solution for the neurons' squares that is known beforehand. What is left
    # has no negative source.
    shift: Array
    # Shape (batch, nodes + groups): what the missing bulk adds to the sources of the errors, less than zero where it
    # takes from them.
    missing: Array


def _means(
    equations: LeverageEquations,
    point: Leverage,
    tables: Tables,
    readout: _AlongReadout,
    weight_offset: WeightOffset | None,
    tolerance: float,
) -> _Means:
    """Fit the teacher by the features' means and slopes, the spikes at their finite ridge cost.

    Solved as least squares, because near-equal groups make the normal equations lose the digits that carry the overlap
    with the bulk.

    Docs, "Uniform equivalent", equations (E10) and (E12b).
    """
    features, bulk = tables.features, tables.bulk
    sample_weight, a = point.sample_weight, point.inverse_resolvent
    # The resolvent summed over the neurons of a group.
    mass = equations.neurons * point.resolvent
    spread = np.sqrt(mass)[:, :, None] * readout.root
    nodes, means = point.leverage.shape[1], tables.shared_mean
    # Along the spike, and along the input's lengths where the features follow them. The teacher does not follow them.
    sample_half = np.sqrt(sample_weight)
    half_weight = np.tile(sample_half, means.shape[2] // nodes)
    spikes = (means * half_weight[:, None, :]).mT @ spread
    fixed, target = None, tables.shared_target
    if weight_offset is not None:
        # The missing bulk acts on the whole weight, also on the part that does not follow the fit.
        given = np.sqrt(equations.neurons * a) * weight_offset.mean
        fixed = np.sqrt(mass) * np.matvec(readout.resolvent, given)
        target = target - np.vecmat(fixed, means)
    values = half_weight * target
    root = np.sqrt(point.density[:, None, :] * bulk.special_profile.mT)
    linear, special = tables.leverage_table.linear, Directions(tables.slope)
    gain = linear_gain(special, sample_weight)
    try:
        if tables.joint:
            level = bulk.teacher[..., None] * np.matvec(special.slope, sample_weight * features.teacher_slope)[:, None]
            inverse = Undamped.of(special, root, sample_weight, gain)
            unknowns, overlap, free = _joint_fit(
                spikes, values, level, root, inverse, spread, point, gain[:, 0], tables, fixed
            )
        else:
            slopes = (sample_half[:, None] * special.slope).mT
            unknowns, overlap, free = _separate_fit(
                spikes, values, slopes, sample_half * features.teacher_slope, bulk.teacher, root, gain
            )
    except np.linalg.LinAlgError as singular:
        # Features of low rank almost without ridge.
        raise NotConverged("the fit of the means", math.inf, tolerance, "Raise the ridge.") from singular
    fitted = np.matvec(spikes, unknowns) / half_weight
    mean, pulled = solved(readout.root.mT, unknowns[..., None])[..., 0], np.matvec(readout.root, unknowns)
    if fixed is not None:
        fitted += np.vecmat(fixed, means)
        mean, pulled = mean + given, pulled + np.matvec(readout.resolvent, given)
    own = np.matvec(readout.whole, readout.cosine * mean)
    within = np.sqrt(np.maximum(1 - np.square(readout.cosine), 0.0)) * np.matvec(readout.lost, own)
    # The missing bulk makes sources negative. A part of the solution is known, and without it no source is below zero.
    known, weight = own * np.sqrt(equations.directions[:, None]), tables.groups.weight
    missing = np.zeros((len(known), nodes + known.shape[1]))
    for sign, part in ((-1, readout.before), (1, readout.after)):
        along = known * part / np.sqrt(equations.width[:, None])
        missing += sign * linear.mixed_squares(point.matrices[0].from_groups(linear, along))
    less, more = (np.vecdot(weight, np.square(readout.before + sign * readout.after)) for sign in (-1, 1))
    shift = np.sqrt(less * more)[:, None] * np.square(own) / equations.neurons
    slopes = overlap @ special.slope
    along_lengths = fitted[:, nodes:].reshape(len(fitted), -1, nodes)
    return _Means(fitted[:, :nodes], along_lengths, slopes, free, mean, pulled, within, shift, missing)


def _sources(
    equations: LeverageEquations,
    point: Leverage,
    tables: Tables,
    means: _Means,
    noise_square: Array,
    weight_offset: WeightOffset | None,
) -> Array:
    """Return the sources of the errors: what the means leave of the labels at each node, and each group's power.

    Shape (batch, nodes + groups), for each direction off the spike.

    Docs, "Uniform equivalent", equation (E16).
    """
    features = tables.features
    base = tables.hidden_square + noise_square[:, None]
    base += np.square(means.learned - features.teacher_mean)
    missed = means.slopes - tables.teacher_slopes
    base += np.vecdot(missed.mT, missed.mT)
    base += np.square(means.length_slopes).sum(axis=1)
    power = np.square(means.pulled) + np.square(means.within) + np.vecdot(means.free.mT, means.free.mT)
    if weight_offset is not None:
        power += equations.neurons * point.inverse_resolvent * weight_offset.variance
    return (np.concatenate([base, power], axis=1) + means.missing) / equations.directions[:, None]


def _fluctuations(
    equations: LeverageEquations,
    point: Leverage,
    near: Linearised | LinearisedByPairs,
    tables: Tables,
    means: _Means,
    changes: Array,
) -> Fluctuations:
    """Return the variances of outputs and weights, from the response of the errors."""
    nodes, a = point.leverage.shape[1], point.inverse_resolvent
    grown = equations.directions[:, None] * couplings_times(equations, point, near, changes)
    # Parts of slopes across the teacher's rest, and along the lengths.
    across = np.square(means.slopes).sum(axis=1) - np.square(np.vecmat(tables.bulk.teacher, means.slopes))
    across += np.square(means.length_slopes).sum(axis=1)
    output = grown[:, :nodes] + means.missing[:, :nodes] + across
    # The bulk that is missing along the readout changes a neuron's mean square weight.
    own = grown[:, nodes:] + np.vecdot(means.free.mT, means.free.mT)
    changed = own + np.square(means.within) + means.missing[:, nodes:]
    return Fluctuations(output, np.maximum(changed, _LEAST_SPREAD * own) / a / equations.neurons)


def _solves(near: Linearised | LinearisedByPairs, sources: Array, changes: Array) -> bool:
    return bool(np.isfinite(changes).all() and (response_defect(near, sources, changes) <= 1).all())


def _response(
    equations: LeverageEquations, point: Leverage, near: Linearised | LinearisedByPairs, sources: Array
) -> tuple[Linearised | LinearisedByPairs, Array]:
    """Return the response to sources, refined once where that is needed, and the equations that it solves.

    Interpolating with hardly any ridge the matrix is almost singular: there a matrix over the nodes keeps digits that
    pairs lose.
    """
    nodes = point.leverage.shape[1]
    changes = near.response(sources, nodes)
    if _solves(near, sources, changes):
        return near, changes
    changes += near.response(sources - near.times(changes), nodes)
    if isinstance(near, LinearisedByPairs) and not _solves(near, sources, changes):
        return _response(equations, point, linearised(equations, point, by_pairs=False), sources)
    return near, changes


def _given_spike(values: Array, features: ConditionalFeatures) -> Array:
    """Return the means of values at all nodes of the same kappa, shape (batch, nodes).

    Of the errors they have a bound: where labels and fit cross along the teacher's rest, terms that the equations leave
    out may take more from an error than anything else adds.
    """
    if not features.rest.any():
        return values
    kappa, weights = (np.broadcast_to(of, values.shape) for of in (features.kappa, features.weight))
    place = np.cumsum(np.diff(kappa, axis=1, prepend=np.inf) != 0).reshape(values.shape) - 1
    total, weight = (np.bincount(place.ravel(), of.ravel()) for of in (weights * values, weights))
    return np.asarray((total / weight)[place])


def _check_average(part: Array, outermost: Array, label_power: Array) -> None:
    """Refuse errors whose average over kappa is cut off, or of which one is below zero by more than rounding.

    Both happen with features of which a few inputs are so large that they hide all others. The errors at the nodes,
    `part`, are weighted by the nodes' probabilities.
    """
    scale = np.abs(part).sum(axis=1) + label_power
    lost = float((np.maximum(-part, outermost * part).max(axis=1) / np.maximum(scale, NOTHING)).max())
    if not lost <= _LOST:
        advice = "Use a smaller step, or an activation that grows more slowly."
        raise NotConverged("the average of the errors along the spike", lost, _LOST, advice)


# Extreme members leave the range of numbers on the way: the residual and the errors then show that.
@np.errstate(divide="ignore", over="ignore", invalid="ignore")
def solve(
    tables: Tables,
    *,
    noise: Array,
    dimension: Array,
    width: Array,
    samples: Array,
    ridge: Array,
    population: Array | None = None,
    weight_offset: WeightOffset | None = None,
    tolerance: float = TOLERANCE,
) -> UniformSolution:
    """Solve the equations for a batch of sizes and penalties.

    Docs, "Uniform equivalent", equations (E10), (E17) and (E18). Docs, "Spread", equation (D1).

    Parameters
    ----------
    tables : Tables
        With a leading axis of length one or batch.
    noise : ndarray, shape (batch,)
        Standard deviation of the label noise.
    dimension, width, samples, ridge : ndarray, shape (batch,)
        ``d``, ``N``, ``n`` and the penalty.
    population : ndarray, shape (batch,), optional
        Adds ``n population (test_error + noise^2)`` to the objective of the fit, so that the derivative of its minimum
        is that error. `train_loss` does not contain it.
    weight_offset : WeightOffset, optional
        Offset of the quadratic penalty that replaces another one; if it is given, the fluctuations are returned too.
    tolerance : float
        Largest true residual of the fixed point.

    Raises
    ------
    NotConverged
        If the fixed point does not reach `tolerance`, the fit is singular to rounding, or the errors' average is.
    """
    equations = LeverageEquations(tables.leverage_table, width, dimension - 1, samples, ridge, population)
    given = equations, tables, np.square(noise), weight_offset, tolerance
    try:
        return _solved(*given)
    except NotConverged:
        if not tables.along_means:
            raise
        # The means may be so long that pairs of their slopes cancel, and that an inverse loses its digits.
        return _solved(*given, careful=True)


def _solved(
    equations: LeverageEquations,
    tables: Tables,
    noise_square: Array,
    weight_offset: WeightOffset | None,
    tolerance: float,
    *,
    careful: bool = False,
) -> UniformSolution:
    """Return what `solve` does, if `careful` by matrices that take more time and keep more digits."""
    point, iterations = solve_leverage(equations, tolerance, stable=careful)
    near = linearised(equations, point, by_pairs=False) if careful else near_point(equations, point)
    readout = _along_readout(equations, point, tables.groups)
    means = _means(equations, point, tables, readout, weight_offset, tolerance)
    features, weight, samples, ridge = tables.features, tables.features.weight, equations.samples, equations.ridge
    # Fluctuations: the errors and the readout's power respond to each other as leverages and resolvents do.
    nodes = point.leverage.shape[1]
    sources = _sources(equations, point, tables, means, noise_square, weight_offset)
    sources -= near.times_groups(means.shift)
    try:
        near, changes = _response(equations, point, near, sources)
    except np.linalg.LinAlgError as singular:
        raise NotConverged("the response of the errors", math.inf, tolerance, "Raise the ridge.") from singular
    errors = changes + np.concatenate([np.zeros_like(point.leverage), means.shift], axis=1)
    train_part = errors[:, :nodes] / samples[:, None]
    part = train_part / np.square(point.remaining)
    conditional, label_power = part / weight, tables.label_square + noise_square
    train_error = train_part.sum(axis=1)
    readout_power = equations.neurons * point.resolvent * errors[:, nodes:]
    readout_norm = readout_power.sum(axis=1)
    train_loss = train_error + ridge / samples * readout_norm
    fluctuations = None
    if weight_offset is not None:
        # The sweeps of a convex loss are judged at the end, by their losses: on the way a mean square may be negative.
        fluctuations = _fluctuations(equations, point, near, tables, means, errors)
    else:
        check_point(equations, point, near, tolerance)
        check_response(near, sources, changes)
        least = tables.hidden_square + noise_square[:, None]
        check_errors(_given_spike(conditional, features), _given_spike(least, features), label_power)
        if equations.population is None:
            explained = features.teacher_mean * means.learned + np.vecdot(tables.teacher_slopes.mT, means.slopes.mT)
            unexplained = features.teacher_square + noise_square[:, None] - explained
            check_loss(train_loss, np.vecdot(weight, point.remaining * unexplained), label_power)
        _check_average(part, tables.outermost, label_power)
    return UniformSolution(
        test_error=part.sum(axis=1) - noise_square,
        train_error=train_error,
        train_loss=train_loss,
        degrees_of_freedom=samples * np.vecdot(weight, point.leverage * point.remaining),
        residual=point.residual,
        readout_norm=readout_norm,
        readout_power=readout_power,
        learned=means.learned,
        rest_slope=np.vecmat(tables.bulk.teacher, means.slopes),
        length_slopes=means.length_slopes,
        slopes=means.slopes,
        mean_field=means.mean,
        weight_field=means.pulled,
        free_overlap=means.free,
        conditional_error=conditional,
        point=point,
        iterations=iterations,
        fluctuations=fluctuations,
    )
