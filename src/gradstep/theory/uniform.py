"""One deterministic equivalent for every step size, at finite sizes (this project).

`solve` takes tables of conditional features and sizes, solves the fixed point for the leverage, and gets everything
else by linear algebra: the means along the spike, then the conditional error as one small linear solve. All arrays
carry a leading batch axis, of length one where a table is shared.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradstep.errors import NotConverged
from gradstep.theory.bulk import Bulk
from gradstep.theory.features import ConditionalFeatures
from gradstep.theory.groups import Groups
from gradstep.theory.leverage import TOLERANCE, Leverage, LeverageEquations, inner, response, solve_leverage
from gradstep.theory.stacks import identity, least_squares, solved

__all__ = ["UniformSolution", "solve"]

#: Largest share of the error that a node of kappa may contribute where it should contribute none.
_LOST = 1e-6

Array = NDArray[np.float64]


class UniformSolution(NamedTuple):
    """Results of a batch.

    Attributes
    ----------
    test_error, train_error, train_loss, degrees_of_freedom, residual : ndarray, shape (batch,)
    readout_norm : ndarray, shape (batch,)
        ``|b|^2`` of the trained readout.
    learned : ndarray, shape (batch, nodes)
        ``M(kappa)``, the mean output of the trained network.
    rest_slope : ndarray, shape (batch, nodes)
        ``T(kappa)``, the slope of the trained network along the teacher's rest.
    slopes : ndarray, shape (batch, special, nodes)
        Slopes of the trained network along the special directions of the bulk.
    mean_field : ndarray, shape (batch, groups)
        ``(N_g / A_g)^1/2 mhat_g``: what the means ask of each neuron of a group.
    free_overlap : ndarray, shape (batch, special, groups)
        Overlaps of the groups with the special directions beyond what follows the means, over ``D_j^1/2``.
    conditional_error : ndarray, shape (batch, nodes)
        ``E[(y - f_hat)^2 | kappa]``.
    point : Leverage
        Solution of the fixed point.
    iterations : int
    """

    test_error: Array
    train_error: Array
    train_loss: Array
    degrees_of_freedom: Array
    residual: Array
    readout_norm: Array
    learned: Array
    rest_slope: Array
    slopes: Array
    mean_field: Array
    free_overlap: Array
    conditional_error: Array
    point: Leverage
    iterations: int


def _column(matrix: NDArray[Any], vector: NDArray[Any]) -> Array:
    return np.asarray((matrix @ vector[..., None])[..., 0], dtype=np.float64)


class _Tilt(NamedTuple):
    """Change of the resolvent along the readout at initialisation, in the basis of normalised groups.

    There the bulk is smaller by `shrinkage`, so that ``1/A`` becomes ``1/(A - lost)`` with ``lost = (1 - shrinkage^2)
    Psi``: in units of ``1/A`` a matrix ``1 + excess d d^T``, the square of ``1 + stretch d d^T``. The others are minus
    the derivatives of `excess` with respect to ``A_g``, and to ``V2_g`` at fixed ``A``, over ``d_g^2``. The direction
    has shape (batch or 1, groups), all others (batch, 1).
    """

    direction: Array
    excess: Array
    stretch: Array
    by_resolvent: Array
    by_variance: Array


def _tilt(inverse_resolvent: Array, own: Array, groups: Groups, shrinkage: Array) -> _Tilt:
    """Return the change at ``A`` and ``A - ridge - V2``, both of shape (batch, groups)."""
    square, direction = groups.readout_direction
    # The correction is felt only where all neurons are nearly alike: one resolvent along the direction is enough.
    along = direction**2
    a = (along * inverse_resolvent).sum(axis=1, keepdims=True)
    share = 1 - shrinkage[:, None] ** 2
    lost = share * (along * own).sum(axis=1, keepdims=True)
    excess = square * lost / (a - lost)
    scale = square / (a - lost) ** 2
    return _Tilt(direction, excess, np.sqrt(1 + excess) - 1, scale * (lost - share * a), scale * share * a)


def _penalised(rows: Array, values: Array, root: Array, target: Array) -> Array:
    """Return the minimum of ``|rows x - values|^2 + |root x - target|^2``, shape (batch, unknowns)."""
    return least_squares(np.concatenate([rows, root], axis=1), np.concatenate([values, target], axis=1))


class _Fit(NamedTuple):
    """Unknowns of the means, overlaps of each group with the special directions, and their free part over its price."""

    unknowns: Array
    overlap: Array
    free: Array


def _separate_fit(spikes: Array, values: Array, level: Array, bulk: Bulk, point: Leverage) -> _Fit:
    """Fit the teacher along the spike, and its rest by the bulk, which then know nothing of each other.

    Parameters
    ----------
    spikes, values : ndarray, shape (batch, nodes, groups) and (batch, nodes)
        Means of the features, a unit of each unknown, and of the teacher at the weighed nodes.
    level : ndarray, shape (batch, special, groups)
        What the teacher's rest gives to each special direction.
    """
    one = np.broadcast_to(identity(spikes.shape[2]), (len(spikes), *spikes.shape[2:] * 2))
    unknowns = _penalised(spikes, values, one, np.zeros_like(point.density))
    root = np.sqrt(point.density[:, None, :] * np.swapaxes(bulk.special_profile, 1, 2))
    rest = solved(inner(point.linear_gain, root), (root * level)[..., None])[..., 0]
    return _Fit(unknowns, root * rest, rest)


def _joint_fit(spikes: Array, values: Array, spread: Array, level: Array, bulk: Bulk, point: Leverage) -> _Fit:
    """Fit both at once where a row's mean off the spike follows its projection on it.

    In special direction ``j`` the rows, weighed by the fit, overlap with the inputs by ``o_j = P_j m + e_j`` (groups):
    the pull times the means ``m = spread @ unknowns``, and a rest that is free at the price ``e_j^2 / D_j``. But
    ``sum_j spike_j e_j = 0``: beyond its projection a row has no component along the spike. At given means a multiplier
    ``mu`` of this constraint leaves each direction alone,

        e_j = (1 + D_j V1)^-1 D_j (level_j + spike_j mu - V1 P_j m),

    and what is left is quadratic in the means.
    """
    pull = np.swapaxes(bulk.pull, 1, 2)
    price = point.density[:, None, :] * np.swapaxes(bulk.special_profile, 1, 2)
    dressing = np.linalg.inv(identity(price.shape[2]) + price[..., None] * point.linear_gain[:, None])
    # Overlaps at multiplier zero, per unit of each mean and without means; then per unit of each multiplier.
    overlaps = np.concatenate([dressing * pull[:, :, None, :], dressing @ (price * level)[..., None]], axis=3)
    by_multiplier = dressing * (bulk.spike[:, :, None] * price)[:, :, None, :]
    along = bulk.spike[..., None, None]
    multiplier = solved((along * by_multiplier).sum(axis=1), (along * overlaps).sum(axis=1))
    overlaps -= by_multiplier @ multiplier[:, None]
    # Half the gradient by the unknowns, per unit of each mean and without means.
    excess = point.linear_gain[:, None] @ overlaps
    excess[..., -1] -= level
    gradient = np.swapaxes(spread, 1, 2) @ (pull[..., None] * excess).sum(axis=1)
    factor = np.linalg.cholesky(identity(spikes.shape[2]) + gradient[..., :-1] @ spread)
    target = solved(factor, -gradient[..., -1:])[..., 0]
    unknowns = _penalised(spikes, values, np.swapaxes(factor, 1, 2), target)
    mean = _column(spread, unknowns)[:, None]
    overlap = _column(overlaps[..., :-1], mean) + overlaps[..., -1]
    return _Fit(unknowns, overlap, (overlap - pull * mean) / np.sqrt(price))


def solve(
    features: ConditionalFeatures,
    groups: Groups,
    bulk: Bulk,
    *,
    noise: Array,
    dimension: Array,
    width: Array,
    samples: Array,
    ridge: Array,
    shrinkage: Array,
    population: Array | None = None,
    tolerance: float = TOLERANCE,
) -> UniformSolution:
    """Solve the equations for a batch of sizes and penalties.

    Parameters
    ----------
    features : ConditionalFeatures
    groups : Groups
    bulk : Bulk
        Tables with a leading axis of length one or batch.
    noise : ndarray, shape (batch,)
        Standard deviation of the label noise.
    dimension, width, samples, ridge : ndarray, shape (batch,)
        ``d``, ``N``, ``n`` and the penalty.
    shrinkage : ndarray, shape (batch,)
        Factor of the bulk's component ``W^T a`` along the readout at initialisation: the finite-width correction of a
        step of order one.
    population : ndarray, shape (batch,), optional
        Adds ``n population (test_error + noise^2)`` to the objective of the fit, so that the derivative of its minimum
        tells that error. `train_loss` leaves it out.
    tolerance : float
        Largest true residual of the fixed point.

    Returns
    -------
    UniformSolution

    Raises
    ------
    NotConverged
        If the fixed point does not reach `tolerance`, the fit is singular to rounding, or the errors' average is.
    """
    g0, g2 = features.mean, features.variance
    h0, h1, weight = features.teacher_mean, features.teacher_slope, features.weight
    label_square = features.teacher_square + noise[:, None] ** 2
    neurons, directions = width[:, None] * groups.weight, dimension - 1
    profile = np.swapaxes(bulk.profile, 1, 2)
    equations = LeverageEquations(
        features.slope, g2, weight, neurons, directions, samples, ridge, bulk.share, profile, population
    )
    point, iterations = solve_leverage(equations, tolerance)
    sample_weight, a = point.sample_weight, point.inverse_resolvent
    resolvent = neurons / a

    own = a - ridge[:, None] - _column(g2, sample_weight)
    tilt = _tilt(a, own, groups, shrinkage)

    # Means: the spikes with their finite ridge cost. Solved as least squares, because near-equal groups make the normal
    # equations lose the digits that carry the overlap with the bulk.
    stretched = tilt.stretch * tilt.direction
    spread = np.sqrt(resolvent)[:, :, None] * (identity(len(a[0])) + tilt.direction[:, :, None] * stretched[:, None, :])
    half_weight = np.sqrt(sample_weight)
    spikes = np.swapaxes(g0 * half_weight[:, None, :], 1, 2) @ spread
    values = half_weight * h0
    level = bulk.teacher[..., None] * _column(features.slope, sample_weight * h1)[:, None, :]
    try:
        if bulk.spike.any():
            unknowns, overlap, free = _joint_fit(spikes, values, spread, level, bulk, point)
        else:
            unknowns, overlap, free = _separate_fit(spikes, values, level, bulk, point)
    except np.linalg.LinAlgError as singular:
        # Features of low rank almost without ridge.
        raise NotConverged("the fit of the means", math.inf, tolerance, "Raise the ridge.") from singular
    learned = _column(spikes, unknowns) / half_weight
    slopes = overlap @ features.slope
    rest_slope = (bulk.teacher[:, :, None] * slopes).sum(axis=1)

    # Fluctuations: the errors and the readout's power respond to each other as leverages and resolvents do.
    along = (unknowns * tilt.direction).sum(axis=1, keepdims=True) / (1 + tilt.stretch)
    mean = unknowns - along * stretched
    part = (along * tilt.direction) ** 2
    direct = tilt.by_variance * part
    mean_power = mean * (mean + tilt.excess * along * tilt.direction) + a * tilt.by_resolvent * part
    base = label_square - 2 * h0 * learned - 2 * h1 * rest_slope + learned**2 + (slopes**2).sum(axis=1)
    base = base + _column(np.swapaxes(g2, 1, 2), direct)
    power = mean_power / neurons + (free**2).sum(axis=1) / (point.density * a * directions[:, None])
    sources = np.concatenate([base / point.leverage, -power], axis=1)
    try:
        changes = response(equations, point, sources)
    except np.linalg.LinAlgError as singular:
        raise NotConverged("the response of the errors", math.inf, tolerance, "Raise the ridge.") from singular
    nodes = base.shape[1]
    error = point.leverage * changes[:, :nodes]
    readout_norm = (direct - resolvent * changes[:, nodes:]).sum(axis=1)
    train_error = (weight * error / (1 + point.leverage) ** 2).sum(axis=1)
    # A mean square below zero is rounding, and much of it at the last nodes of kappa is an average cut off: both happen
    # with features of which a few inputs are so large that they hide all others.
    part = weight * error
    far = np.abs(features.kappa)
    last = far >= far.max(axis=1, keepdims=True)
    scale = np.abs(part).sum(axis=1) + (weight * label_square).sum(axis=1)
    lost = np.max(np.maximum(-part, np.where(last, part, 0.0)).max(axis=1) / scale)
    if not lost <= _LOST:
        advice = "Use a smaller step, or an activation that grows more slowly."
        raise NotConverged("the average of the errors along the spike", float(lost), _LOST, advice)
    return UniformSolution(
        test_error=(weight * error).sum(axis=1) - noise**2,
        train_error=train_error,
        train_loss=train_error + ridge / samples * readout_norm,
        degrees_of_freedom=(equations.sampling * point.leverage / (1 + point.leverage)).sum(axis=1),
        residual=point.residual,
        readout_norm=readout_norm,
        learned=learned,
        rest_slope=rest_slope,
        slopes=slopes,
        mean_field=mean,
        free_overlap=free,
        conditional_error=error,
        point=point,
        iterations=iterations,
    )
