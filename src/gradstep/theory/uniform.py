"""One deterministic equivalent for every step size, at finite sizes (this project).

`solve` takes tables of conditional features and sizes, solves the fixed point for the leverage, and gets everything
else by linear algebra: the means along the spike, then the conditional error as one small linear solve. All arrays
carry a leading batch axis, of length one where a table is shared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradstep.theory.bulk import Bulk, isotropic
from gradstep.theory.features import ConditionalFeatures
from gradstep.theory.leverage import TOLERANCE, Leverage, LeverageEquations, dress, dressings, identity, jacobian, solve_leverage

__all__ = ["UniformSolution", "solve"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class UniformSolution:
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
    conditional_error: Array
    point: Leverage
    iterations: int


def _column(matrix: NDArray[Any], vector: NDArray[Any]) -> Array:
    return np.asarray((matrix @ vector[..., None])[..., 0], dtype=np.float64)


class _Tilt(NamedTuple):
    """Change of the resolvent along the readout at initialisation, in the basis of normalised groups.

    There the bulk is smaller by `shrinkage`, so that ``1/A`` becomes ``1/(A - lost)`` with ``lost = (1 - shrinkage^2)
    Psi``: in units of ``1/A`` a matrix ``1 + excess d d^T``, the square of ``1 + stretch d d^T``. The others are minus
    the derivatives of `excess` with respect to ``A_g``, and to ``V2_g`` at fixed ``A``, over ``d_g^2``.
    """

    direction: Array
    excess: Array
    stretch: Array
    by_resolvent: Array
    by_variance: Array

    def apply(self, columns: Array) -> Array:
        """Return columns (batch, rows, groups) times the square root of the changed resolvent, in units of the old."""
        along = columns @ (self.stretch[:, None] * self.direction)[..., None]
        return np.asarray(columns + along * self.direction[:, None, :], dtype=np.float64)


def _readout_direction(inverse_resolvent: Array, own: Array, readout: Array, shrinkage: Array) -> _Tilt:
    """Return the change for groups whose share of the readout direction is `readout` (batch or 1, groups)."""
    square = (readout**2).sum(axis=1)
    # Without a step the projections tell nothing of the readout: any direction will do.
    unit = np.where(
        square[:, None] > 0, readout / np.sqrt(np.maximum(square, 1e-300))[:, None], readout.shape[1] ** -0.5
    )
    direction = np.broadcast_to(unit, inverse_resolvent.shape)
    # The correction is felt only where all neurons are nearly alike: one resolvent along the direction is enough.
    a = (direction**2 * inverse_resolvent).sum(axis=1)
    share = 1 - shrinkage**2
    lost = share * (direction**2 * own).sum(axis=1)
    excess = square * lost / (a - lost)
    scale = square / (a - lost) ** 2
    return _Tilt(direction, excess, np.sqrt(1 + excess) - 1, scale * (lost - share * a), scale * share * a)


def _least_squares(rows: Array, values: Array, prior: Array) -> Array:
    """Return the unknowns nearest to values (batch, rows) and, with weight one, to their prior (batch, unknowns)."""
    batch, count, unknowns = rows.shape
    stacked = np.concatenate([rows, np.broadcast_to(identity(unknowns), (batch, unknowns, unknowns))], axis=1)
    q, r = np.linalg.qr(stacked)
    projected = _column(np.swapaxes(q, 1, 2), np.concatenate([values, prior], axis=1))
    return np.asarray(np.linalg.solve(r, projected[..., None])[..., 0], dtype=np.float64)


def _separate_fit(
    spikes: Array, features: ConditionalFeatures, bulk: Bulk, point: Leverage
) -> tuple[Array, Array, Array]:
    """Fit the teacher along the spike, and its rest by the bulk, which then know nothing of each other.

    Returns the scaled means, the slopes along the special directions at each node, and per group the power that the
    fit puts into the bulk.
    """
    half_weight = np.sqrt(point.sample_weight)
    scaled_mean = _least_squares(spikes, half_weight * features.teacher_mean, np.zeros_like(point.density))
    profile = np.swapaxes(bulk.special_profile, 1, 2)
    dressed, _ = dress(features.slope, point.sample_weight, point.linear_gain, point.density, profile)
    field = (dressed @ (point.sample_weight * features.teacher_slope)[:, None, :, None])[..., 0]
    field = field * bulk.teacher[:, :, None]
    slopes = (point.density[:, None, :] * profile * field) @ features.slope
    return scaled_mean, slopes, (profile * field**2).sum(axis=1)


def _joint_fit(
    spikes: Array, root: Array, tilt: _Tilt | None, features: ConditionalFeatures, bulk: Bulk, point: Leverage
) -> tuple[Array, Array, Array]:
    """Fit both at once where a row's mean off the spike follows its projection on it (see `_separate_fit`).

    What the fit overlaps with in special direction ``j`` is ``o_j = P_j m + e_j`` (groups), ``P_j`` the pull, ``m`` the
    means, and ``e_j`` free at the price ``e_j^2 / D_j`` but for ``sum_j spike_j e_j = 0``: rows have no component along
    the spike beyond their projection. At given means a multiplier of this constraint leaves each direction alone,

        e_j = (1 + D_j V1)^-1 D_j (t_j that + spike_j mu - V1 P_j m),

    and what is left is quadratic in the means.
    """
    half_weight = np.sqrt(point.sample_weight)
    groups = spikes.shape[2]
    pull = np.swapaxes(bulk.pull, 1, 2)
    profile = np.swapaxes(bulk.special_profile, 1, 2)
    price = point.density[:, None, :] * profile
    level = _column(features.slope, point.sample_weight * features.teacher_slope)[:, None, :] * bulk.teacher[..., None]
    dressing = np.swapaxes(dressings(point.linear_gain, point.density, profile), 2, 3)
    # Overlaps at multiplier zero, per unit of each mean and at none; then per unit of each multiplier.
    by_multiplier = dressing * (bulk.spike[:, :, None] * price)[:, :, None, :]
    overlaps = np.concatenate([dressing * pull[:, :, None, :], dressing @ (price * level)[..., None]], axis=3)
    along = bulk.spike[..., None, None]
    multiplier = np.linalg.solve((along * by_multiplier).sum(axis=1), (along * overlaps).sum(axis=1))
    overlaps = overlaps - by_multiplier @ multiplier[:, None]
    # Minus the gradient of the whole by the means is `pulled - curvature @ means`.
    fitted = point.linear_gain[:, None] @ overlaps
    fitted[..., -1] -= level
    by_mean = root[..., None] * (pull[..., None] * fitted).sum(axis=1)
    curvature, pulled = by_mean[..., :-1] * root[:, None, :], -by_mean[..., -1]
    if tilt is not None:
        curvature = tilt.apply(np.swapaxes(tilt.apply(curvature), 1, 2))
        pulled = tilt.apply(pulled[:, None])[:, 0]
    factor = np.linalg.cholesky(identity(groups) + curvature)
    whitened = np.linalg.solve(factor, np.concatenate([np.swapaxes(spikes, 1, 2), pulled[..., None]], axis=2))
    solution = _least_squares(
        np.swapaxes(whitened[..., :-1], 1, 2), half_weight * features.teacher_mean, whitened[..., -1]
    )
    scaled_mean = np.linalg.solve(np.swapaxes(factor, 1, 2), solution[..., None])[..., 0]
    mean = root * (scaled_mean if tilt is None else tilt.apply(scaled_mean[:, None])[:, 0])
    overlap = _column(overlaps[..., :-1], mean[:, None]) + overlaps[..., -1]
    rest = overlap - pull * mean[:, None]
    return scaled_mean, overlap @ features.slope, (profile * (rest / price) ** 2).sum(axis=1)


def solve(
    features: ConditionalFeatures,
    group_weight: Array,
    noise: Array,
    dimension: Array,
    width: Array,
    samples: Array,
    ridge: Array,
    group_readout: Array | None = None,
    shrinkage: Array | None = None,
    bulk: Bulk | None = None,
    tolerance: float = TOLERANCE,
) -> UniformSolution:
    """Solve the equations for a batch of sizes and penalties.

    Parameters
    ----------
    features : ConditionalFeatures
        Tables with a leading axis of length one or batch.
    group_weight : ndarray, shape (1 or batch, groups)
        Fractions of the neurons.
    noise : ndarray, shape (batch,)
        Standard deviation of the label noise.
    dimension, width, samples, ridge : ndarray, shape (batch,)
        ``d``, ``N``, ``n`` and the penalty.
    group_readout : ndarray, shape (1 or batch, groups), optional
        Mean readout weight of each group over the root mean square of all.
    shrinkage : ndarray, shape (batch,), optional
        Factor of the bulk's component ``W^T a`` along the readout at initialisation (one if not given): the
        finite-width correction of a step of order one.
    bulk : Bulk, optional
        Classes of directions, with a leading axis of length one or batch (isotropic if not given).
    tolerance : float
        Largest true residual of the fixed point.

    Returns
    -------
    UniformSolution

    Raises
    ------
    NotConverged
        If the fixed point does not reach `tolerance`.
    """
    g0, g2 = features.mean, features.variance
    h0, h1, weight = features.teacher_mean, features.teacher_slope, features.weight
    label_square = features.teacher_square + noise[:, None] ** 2
    neurons = width[:, None] * group_weight
    bulk = bulk or isotropic(group_weight.shape[1]).batch()
    share, profile = bulk.share, np.swapaxes(bulk.profile, 1, 2)
    equations = LeverageEquations(features.slope, g2, weight, neurons, dimension - 1, samples, ridge, share, profile)
    point, iterations = solve_leverage(equations, tolerance)
    sample_weight, a = point.sample_weight, point.inverse_resolvent
    resolvent = neurons / a

    # Means: the spikes with their finite ridge cost. Solved as least squares, because near-equal groups make the normal
    # equations lose the digits that carry the overlap with the bulk.
    root = np.sqrt(resolvent)
    half_weight = np.sqrt(sample_weight)
    nodes_count = half_weight.shape[1]
    spikes = np.swapaxes(root[:, :, None] * g0 * half_weight[:, None, :], 1, 2)
    tilt = None
    if group_readout is not None and shrinkage is not None and np.any(shrinkage != 1):
        own = (equations.mix * np.diagonal(point.psi, axis1=2, axis2=3)).sum(axis=1)
        tilt = _readout_direction(a, own, np.sqrt(group_weight) * group_readout, shrinkage)
        spikes = tilt.apply(spikes)
    if bulk.spike.any():
        scaled_mean, slopes, rest_power = _joint_fit(spikes, root, tilt, features, bulk, point)
    else:
        scaled_mean, slopes, rest_power = _separate_fit(spikes, features, bulk, point)
    mean_hat = scaled_mean / root
    if tilt is not None:
        along = (scaled_mean * tilt.direction).sum(axis=1)
        mean_hat = (scaled_mean - (tilt.stretch / (1 + tilt.stretch) * along)[:, None] * tilt.direction) / root
    learned: Array = _column(spikes, scaled_mean) / half_weight
    rest_slope = (bulk.teacher[:, :, None] * slopes).sum(axis=1)

    # Fluctuations: the errors and the readout's power respond to each other as leverages and resolvents do.
    price = mean_hat**2 / a
    direct = np.zeros_like(price)
    if tilt is not None:
        by_group_mean = mean_hat * root * tilt.direction
        total = by_group_mean.sum(axis=1)[:, None]
        part = total**2 * tilt.direction**2
        price = price + (tilt.by_resolvent[:, None] * part + tilt.excess[:, None] * total * by_group_mean / a) / resolvent
        direct = tilt.by_variance[:, None] * part
    base = label_square - 2 * h0 * learned - 2 * h1 * rest_slope + learned**2 + (slopes**2).sum(axis=1)
    base = base + _column(np.swapaxes(g2, 1, 2), direct)
    rest_price = rest_power / ((dimension - 1)[:, None] * a)
    sources = np.concatenate([base / point.leverage, -price - rest_price], axis=1)
    response = np.linalg.solve(jacobian(equations, point), sources[..., None])[..., 0]
    error = point.leverage * response[:, :nodes_count]
    readout_norm = (direct - resolvent * response[:, nodes_count:]).sum(axis=1)
    train_error = (weight * error / (1 + point.leverage) ** 2).sum(axis=1)
    return UniformSolution(
        test_error=(weight * error).sum(axis=1) - noise**2,
        train_error=train_error,
        train_loss=train_error + ridge / samples * readout_norm,
        degrees_of_freedom=(sample_weight * point.leverage).sum(axis=1),
        residual=point.residual,
        readout_norm=readout_norm,
        learned=learned,
        rest_slope=rest_slope,
        conditional_error=error,
        point=point,
        iterations=iterations,
    )
