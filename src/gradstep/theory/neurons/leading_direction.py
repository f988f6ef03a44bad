"""The second direction where rows have a large part of their mean square in one leading direction of the inputs.

Eigenvalues of the inputs' covariance may be large, and a step stretches rows most where they are. If one direction has
a tenth of a row, features bend along it. Two more things then differ from what many small directions do. The row's
component along it tells much of the projection on the spike, which has a part along it too. And the norm of the row
follows from that component: most of its fluctuation is there.
This project. Docs, "Leading directions", equations (V2) to (V5).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gradstep.problem import Readout
from gradstep.theory.neurons.bulk import Bulk
from gradstep.theory.neurons.groups import Groups
from gradstep.theory.neurons.lengths import seen_lengths
from gradstep.theory.neurons.longest import Longest
from gradstep.theory.neurons.plane import groups_in_plane, unit_vector
from gradstep.theory.neurons.teacher_direction import added_by_quadratic_part
from gradstep.theory.step.class_variances import class_variances, leading_part_of_norm, leading_variance
from gradstep.theory.step.statistics import StepStatistics, readout_values
from gradstep.theory.step.transitions import smooth_rise

__all__ = [
    "groups_along_leading",
    "leading_direction",
    "longest_directions",
    "share_along_leading",
    "without_leading",
]

Array = NDArray[np.float64]

#: The plane takes over from the spike alone where the part of the variance of a row's squared norm that is due to the
#: leading direction is between these. Below .3 both descriptions are equally far from networks.
_PART = (0.2, 0.4)
#: Squared length of the teacher's part off the spike below which the spike alone is resolved, as without a step.
_REST = (1e-3, 1e-2)
#: Least sum of squared variances that is left to other directions, over that of all.
_LEAST_LEFT = 0.005


def share_along_leading(step: StepStatistics, readout: Readout, quadratic: float, d: float) -> float:
    """Return the weight of the description that resolves the leading direction, in [0, 1].

    The teacher's second Hermite coefficient is `quadratic`. The weight is zero on isotropic inputs, in the limit of
    many dimensions, where the spike is along the teacher, and where the quadratic part of the teacher adds twice the
    variance of the leading direction or more.
    """
    if step.correlated is None:
        return 0.0
    values, shares = readout_values(readout)
    # The quadratic part of the teacher makes rows longer along a single direction, too.
    added = added_by_quadratic_part(step, values, values**2, quadratic) * step.mean_variance(values, values**2)
    share = smooth_rise(float(shares @ leading_part_of_norm(step, values, values**2, d, added)), *_PART)
    return share * smooth_rise(1 - step.alignment**2, *_REST)


def longest_directions(step: StepStatistics, readout: Readout, d: float) -> Longest:
    """Return how the longest direction of the bulk is recognised: by its share, and a level that is nearly its own.

    The level is that of the variances in the classes of inputs. These have no fluctuations of the samples, and are
    known without a rule.

    The step is one on correlated inputs, or damped. One direction has a share of ``1/d``.
    """
    assert step.correlated is not None
    values, shares = readout_values(readout)
    variance = shares @ class_variances(step, values, values**2)
    return Longest.of_classes(1 / d, step.correlated.spectrum.share, variance)


def leading_direction(groups: Groups, bulk: Bulk, step: StepStatistics, readout: Readout) -> Array:
    """Return the leading direction of the rows, a unit vector of shape (special,), as far as the spike is along it.

    The special directions have the spectral measure of the spike, in which a leading direction is a narrow band around
    the variance of the leading class.

    Docs, "Leading directions", equation (V3).
    """
    variance = groups.weight @ bulk.special_profile
    leading = float(groups.weight @ leading_variance(step, *groups.readouts(readout)))
    return unit_vector(np.square(variance / (variance + leading)) * bulk.spike)


def groups_along_leading(
    groups: Groups, bulk: Bulk, quadratic: float, step: StepStatistics, readout: Readout, d: float
) -> tuple[Groups, Bulk]:
    """Return groups that have a projection on the leading direction too, with the bulk of all other directions.

    The teacher's second Hermite coefficient is `quadratic`.
    """
    direction, readouts = leading_direction(groups, bulk, step, readout), groups.readouts(readout)
    mean, added = step.mean_variance(*readouts), added_by_quadratic_part(step, *readouts, quadratic)
    groups, bulk = without_leading(groups, bulk, direction, mean, d)
    ratio = mean / (groups.variance - groups.norm_deviation)
    found, others = groups_in_plane(groups, _in_units_off_spike(bulk, ratio), direction, ratio * added, step, d)
    # The leading direction has taken its part of what was off the spike.
    left = (found.variance / np.repeat(groups.variance, len(found.weight) // len(groups.weight)))[:, None]
    return found, replace(
        others,
        special_profile=others.special_profile / left,
        profile=others.profile / left,
        # The leading direction is off all of them already, with its part that is along the spike.
        lengths=np.repeat(bulk.lengths, len(found.weight) // len(groups.weight), axis=0),
    )


def _in_units_off_spike(bulk: Bulk, ratio: Array) -> Bulk:
    """Return a bulk whose variances are over the mean of what rows have off the spike.

    As a rule this is the mean of all directions. But here the spike may have a large part of a row.

    The given variances are over the mean of all directions, and `ratio`, shape (groups,), is that mean over what rows
    have off the spike.

    Docs, "Leading directions", equation (V5).
    """
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

    The lengths of an input are those of these classes: of a long direction the traces of all would have few digits.

    The direction is that of `leading_direction`, and `mean`, shape (groups,), is ``d`` times the mean variance of a row
    over all directions.

    Docs, "Leading directions", equation (V4).
    """
    share = bulk.share * (1 - bulk.longest)
    deviation = _norm_of_others(groups, bulk, direction, share, mean, d)
    norms = groups.variance - groups.norm_deviation + deviation
    # The pull is that of rows of length one, which were longer or shorter before.
    pull = bulk.pull * np.sqrt(groups.variance / norms)[:, None]
    share /= share.sum()
    lengths = seen_lengths(groups.weight, bulk.profile / (bulk.profile @ share)[:, None] * np.sqrt(share))
    return replace(groups, variance=norms, norm_deviation=deviation), replace(
        bulk, share=share, pull=pull, longest=0 * share, lengths=lengths
    )


def _norm_of_others(groups: Groups, bulk: Bulk, direction: Array, share: Array, mean: Array, d: float) -> Array:
    """Return `Groups.norm_deviation` of what rows have off the spike and the leading direction.

    The variance of a squared norm is twice the sum of the squared variances of all directions. Of those directions, the
    part of the spike off the leading direction is left out too.
    """
    deviation = np.abs(groups.norm_deviation)
    off = unit_vector(bulk.spike - float(bulk.spike @ direction) * direction) ** 2
    whole, others = (d * (bulk.profile**2 @ of) for of in (bulk.share, share))
    others = others - 2 * bulk.special_profile**2 @ off + (bulk.special_profile @ off) ** 2
    found = mean * np.sqrt(2 * np.maximum(others, _LEAST_LEFT * whole)) / d
    # Rows of several readouts have no common eigenvectors, and the sum has the diagonals of their covariances only.
    found *= np.maximum(1.0, deviation / (mean * np.sqrt(2 * whole) / d))
    return np.asarray(np.sign(groups.norm_deviation) * np.minimum(found, deviation))
