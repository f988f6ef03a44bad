"""The second direction where rows have a large part of their mean square in one leading direction of the inputs.

Eigenvalues of the inputs' covariance may be large, and a step stretches rows most where they are. If one direction has
a tenth of a row, features bend along it. Two more things then differ from what many small directions do. The row's
component along it tells much of the projection on the spike, which has a part along it too. And the norm of the row
follows from that component: most of its fluctuation is there.
This project. Docs, "Correlated inputs", equations (C20a) to (C20d).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gradstep.problem import Readout
from gradstep.theory.neurons.bulk import Bulk
from gradstep.theory.neurons.groups import Groups
from gradstep.theory.neurons.plane import groups_in_plane, unit_vector
from gradstep.theory.step.class_variances import leading_part_of_norm, leading_variance
from gradstep.theory.step.statistics import StepStatistics, readout_values
from gradstep.theory.step.transitions import smooth_rise

__all__ = [
    "groups_along_leading",
    "in_units_off_spike",
    "leading_direction",
    "share_along_leading",
    "without_leading",
]

Array = NDArray[np.float64]

#: The plane takes over from the spike alone where the part of the variance of a row's squared norm that is due to the
#: leading direction is between these. Below .3 both descriptions are equally far from networks.
_PART = (0.2, 0.4)
#: Squared length of the teacher's part off the spike below which the spike alone is resolved, as without a step.
_REST = (1e-3, 1e-2)
#: A direction counts as clearly shorter than the leading one if its variance is that one's over this number, or less.
_BAND = 2.0
#: Least sum of squared variances that is left to other directions, over that of all.
_LEAST_LEFT = 0.005


def share_along_leading(step: StepStatistics, readout: Readout, d: float) -> float:
    """Return the weight of the description that resolves the leading direction, in [0, 1].

    Parameters
    ----------
    step : StepStatistics
    readout : Readout
    d : float

    Returns
    -------
    float
        Zero on isotropic inputs, in the limit of many dimensions, and where the spike is along the teacher.
    """
    if step.correlated is None:
        return 0.0
    values, shares = readout_values(readout)
    share = smooth_rise(float(shares @ leading_part_of_norm(step, values, values**2, d)), *_PART)
    return share * smooth_rise(1 - step.alignment**2, *_REST)


def leading_direction(groups: Groups, bulk: Bulk, step: StepStatistics, readout: Readout) -> Array:
    """Return the leading direction of the rows, as far as the spike has a part along it, a unit vector.

    The special directions have the spectral measure of the spike, in which a leading direction is a narrow band around
    the variance of the leading class.

    Docs, "Correlated inputs", equation (C20b).

    Parameters
    ----------
    groups : Groups
    bulk : Bulk
    step : StepStatistics
    readout : Readout

    Returns
    -------
    ndarray, shape (special,)
    """
    variance = groups.weight @ bulk.special_profile
    leading = float(groups.weight @ leading_variance(step, *groups.readouts(readout)))
    return unit_vector(np.square(variance / (variance + leading)) * bulk.spike)


def groups_along_leading(
    groups: Groups, bulk: Bulk, added: Array, step: StepStatistics, readout: Readout, d: float
) -> tuple[Groups, Bulk]:
    """Return groups that have a projection on the leading direction too, with the bulk of all other directions.

    Parameters
    ----------
    groups : Groups
    bulk : Bulk
    added, step
        As in `gradstep.theory.neurons.plane.groups_in_plane`.
    readout : Readout
    d : float

    Returns
    -------
    Groups, Bulk
    """
    direction, mean = leading_direction(groups, bulk, step, readout), step.mean_variance(*groups.readouts(readout))
    groups, bulk = without_leading(groups, bulk, direction, mean, d)
    bulk = in_units_off_spike(groups, bulk, mean)
    found, others = groups_in_plane(groups, bulk, direction, added, step, d)
    # The leading direction has taken its part of what was off the spike.
    left = (found.variance / np.repeat(groups.variance, len(found.weight) // len(groups.weight)))[:, None]
    return found, replace(others, special_profile=others.special_profile / left, profile=others.profile / left)


def in_units_off_spike(groups: Groups, bulk: Bulk, mean: Array) -> Bulk:
    """Return a bulk whose variances are over the mean of what rows have off the spike.

    As a rule this is the mean of all directions. But here the spike may have a large part of a row.

    Docs, "Correlated inputs", equation (C20d).

    Parameters
    ----------
    groups : Groups
    bulk : Bulk
        With variances over the mean of all directions.
    mean : ndarray, shape (groups,)
        That mean.

    Returns
    -------
    Bulk
    """
    ratio = mean / (groups.variance - groups.norm_deviation)
    return replace(
        bulk,
        profile=bulk.profile * ratio[:, None],
        special_profile=bulk.special_profile * ratio[:, None],
        projection_noise=bulk.projection_noise * ratio,
        norm_slope=bulk.norm_slope / np.sqrt(ratio)[:, None],
        shared_noise=bulk.shared_noise * np.sqrt(ratio),
    )


def without_leading(groups: Groups, bulk: Bulk, direction: Array, mean: Array, d: float) -> tuple[Groups, Bulk]:
    """Return groups whose norms fluctuate without the leading direction, and the classes of all other directions.

    Docs, "Correlated inputs", equation (C20c).

    Parameters
    ----------
    groups : Groups
    bulk : Bulk
    direction : ndarray, shape (special,)
        From `leading_direction`.
    mean : ndarray, shape (groups,)
        ``d`` times the mean variance of a row over all directions.
    d : float

    Returns
    -------
    Groups, Bulk
        The bulk has one more class, with the leading direction's variances. Its share is negative, and takes it away.
    """
    variance = bulk.special_profile @ direction**2
    deviation = _norm_of_others(groups, bulk, direction, mean, d)
    norms = groups.variance - groups.norm_deviation + deviation
    share = np.append(bulk.share, -1 / d) / (1 - 1 / d)
    profile = np.concatenate([bulk.profile, variance[:, None]], axis=1)
    bulk = replace(
        bulk,
        share=share,
        profile=profile,
        # The pull is that of rows of length one, which were longer or shorter before.
        pull=bulk.pull * np.sqrt(groups.variance / norms)[:, None],
    )
    return replace(groups, variance=norms, norm_deviation=deviation), bulk


def _norm_of_others(groups: Groups, bulk: Bulk, direction: Array, mean: Array, d: float) -> Array:
    """Return `Groups.norm_deviation` of what rows have off the spike and the leading direction.

    The variance of a squared norm is twice the sum of the squared variances of all directions. Of those directions, the
    part of the spike off the leading direction is left out too.
    """
    variance, deviation = bulk.special_profile @ direction**2, np.abs(groups.norm_deviation)
    off = unit_vector(bulk.spike - float(bulk.spike @ direction) * direction) ** 2
    # Where few directions are as long as the leading one, the sum over those that are clearly shorter has more digits
    # than the difference of two sums.
    parts = [1 / (1 + (_BAND * of / variance[:, None]) ** 8) for of in (bulk.profile, bulk.special_profile)]
    shorter = d * ((bulk.profile**2 * parts[0]) @ bulk.share) - _of_vector(bulk.special_profile, parts[1], off)
    whole = d * (bulk.profile**2 @ bulk.share)
    others = np.maximum(shorter, whole - variance**2 - _of_vector(bulk.special_profile, 1.0, off))
    found = mean * np.sqrt(2 * np.maximum(others, _LEAST_LEFT * whole)) / d
    # Rows of several readouts have no common eigenvectors, and the sum has the diagonals of their covariances only.
    found *= np.maximum(1.0, deviation / (mean * np.sqrt(2 * whole) / d))
    return np.asarray(np.sign(groups.norm_deviation) * np.minimum(found, deviation))


def _of_vector(variances: Array, parts: Array | float, square: Array) -> Array:
    """Return what a vector has of the sum of squared variances, from its squared components."""
    return np.asarray(2 * (variances**2 * parts) @ square - ((variances * parts) @ square) ** 2)
