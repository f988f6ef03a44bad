"""The second direction where rows have a large part of their mean square in one leading direction of the inputs.

Eigenvalues of the inputs' covariance may be large, and a step stretches rows most where they are. If one direction has
a tenth of a row, features bend along it. Two more things then differ from what many small directions do. The row's
component along it tells much of the projection on the spike, which has a part along it too. And it has most of the
fluctuation of the row's norm, which is no number of its own then.
This project. Docs, "Correlated inputs", equations (C20a) to (C20c).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gradstep.problem import Readout
from gradstep.theory.neurons.bulk import Bulk
from gradstep.theory.neurons.groups import Groups
from gradstep.theory.neurons.plane import unit_vector
from gradstep.theory.neurons.row_rules import LEVELS
from gradstep.theory.step.class_variances import leading_part_of_norm, leading_variance
from gradstep.theory.step.statistics import StepStatistics, readout_values
from gradstep.theory.step.transitions import smooth_rise

__all__ = ["leading_direction", "share_along_leading", "without_leading"]

Array = NDArray[np.float64]

#: The plane takes over from the spike alone where the part of the variance of a row's squared norm that is due to the
#: leading direction is between these. Below .3 both descriptions agree in the mean to a tenth of what they deviate by.
_PART = (0.2, 0.4)
#: Squared length of the teacher's part off the spike below which the spike alone is resolved, as without a step.
_REST = (1e-3, 1e-2)
#: Least sum of the squared variances of all other directions, over the square of the leading one.
_LEAST_LEFT = 0.05


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
    power = readout.second_moment
    a, a_square = groups.readout * math.sqrt(power), groups.readout_square * power
    variance = groups.weight @ bulk.special_profile
    leading = float(groups.weight @ leading_variance(step, a, a_square))
    return unit_vector(np.square(variance / (variance + leading)) * bulk.spike)


def without_leading(groups: Groups, bulk: Bulk, direction: Array, d: float) -> tuple[Groups, Bulk]:
    """Return groups whose norms fluctuate without the leading direction, and the classes of all other directions.

    Docs, "Correlated inputs", equation (C20c).

    Parameters
    ----------
    groups : Groups
    bulk : Bulk
    direction : ndarray, shape (special,)
        From `leading_direction`.
    d : float

    Returns
    -------
    Groups, Bulk
        The bulk has one more class, with the leading direction's variances. Its share is negative, and takes it away.
    """
    variance = bulk.special_profile @ direction**2
    # The variance of the squared norm is twice the sum of the squared variances of all directions.
    square, others = variance**2, d * (_bounded_square(bulk.profile) @ bulk.share) - _bounded_square(variance)
    others = np.maximum(others, _LEAST_LEFT * square)
    left = np.sqrt(others / (others + square))
    groups = replace(groups, variance=groups.variance - (1 - left) * groups.norm_deviation)
    share = np.append(bulk.share, -1 / d) / (1 - 1 / d)
    profile = np.concatenate([bulk.profile, variance[:, None]], axis=1)
    return groups, replace(bulk, share=share, profile=profile / (profile @ share)[:, None])


def _bounded_square(variance: Array) -> Array:
    """Return squares of variances that are less than the largest level of the fit, and for larger ones less than that.

    The rules of the classes are exact for functions whose poles are levels of the fit. For squares they are not.
    """
    return np.square(variance / (1 + variance / 10.0 ** LEVELS[1]))
