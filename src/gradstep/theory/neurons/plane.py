"""Features that bend along a second direction as well as along the spike: both are resolved.

In the limit one direction suffices, that of the spike: along each other one a row has a component of order ``d**-1/2``,
on which a feature depends linearly to leading order. There are two cases in which another direction matters at the
sizes of networks: the teacher's, where a fit learns from the curvature of features along it
(`gradstep.theory.neurons.teacher_direction`), and one in which rows have a large part of their mean square
(`gradstep.theory.neurons.leading_direction`). Features are then functions of two coordinates, and a group of neurons
has a projection on each direction.
This project. Docs, "Uniform equivalent", equation (E19).
"""

from __future__ import annotations

import math
from dataclasses import fields, replace

import numpy as np
from numpy.typing import NDArray

from gradstep.gaussian import hermite_rule
from gradstep.resolution import NOTHING
from gradstep.theory.neurons.bulk import Bulk
from gradstep.theory.neurons.groups import Groups
from gradstep.theory.neurons.lengths import lengths_off
from gradstep.theory.step.statistics import StepStatistics

__all__ = ["groups_in_plane", "unit_vector"]

Array = NDArray[np.float64]

#: Nodes of a row's projection on the second direction: they reproduce its moments up to the fifth.
_NODES = 3
#: Least variance of rows along a special direction, over the mean of all. With less, digits are lost beside the pull.
_LEAST = 1e-7
#: Least share of the variance of a row that is left for the other directions.
_LEAST_LEFT = 0.1
#: Length of a part of a unit vector below which there is none.
_NO_LENGTH = 1e-6
#: Fields of a bulk that all groups share.
_SHARED = ("share", "teacher", "spike", "second", "longest", "stretch")


def groups_in_plane(
    groups: Groups, bulk: Bulk, direction: Array, added: Array, step: StepStatistics, d: float
) -> tuple[Groups, Bulk]:
    """Return groups that have a projection on a second direction too, three for each, with their bulk.

    The second `direction`, shape (special,), is not that of the spike; what it has along the spike is left out.
    `added`, shape (groups,), is from `gradstep.theory.neurons.teacher_direction.added_by_quadratic_part`. The pull of
    the bulk follows both projections, and is orthogonal to both directions.
    """
    bulk = replace(bulk, special_profile=np.maximum(bulk.special_profile, _LEAST))
    second = unit_vector(direction - bulk.spike * float(bulk.spike @ direction))
    # The sign is chosen so that the overlap with the teacher is positive.
    second = math.copysign(1.0, float(second @ bulk.teacher)) * second
    with_rest = bulk.covariance_given_known @ second
    variance = np.maximum(with_rest @ second, NOTHING)
    z, weight = hermite_rule(_NODES)
    # Rows of length one have the mean variance 1 / (d - 1) in a direction.
    own = np.sqrt(variance / (d - 1))[:, None] * z
    known = bulk.pull @ second
    regression = with_rest / variance[:, None] - second
    regression -= np.outer(regression @ bulk.spike, bulk.spike)
    pull = (bulk.pull - np.outer(known, second))[:, None] + own[..., None] * regression[:, None]
    # The variance of a group is that in all directions orthogonal to the spike, without the quadratic part of the
    # teacher. One of them is the second direction, along which a row has its projection now. On correlated inputs and
    # after damped steps the variance is without all that a row has along the spike. After plain steps on isotropic
    # inputs it is without an ordinary share of it only, and what the quadratic part adds there is left out here.
    off_spike = 1 - step.alignment**2 if step.correlated is None else 1.0
    left = np.maximum(1 + (off_spike * added - bulk.special_profile @ second**2) / d, _LEAST_LEFT)
    columns = {f.name: np.repeat(getattr(groups, f.name), _NODES) for f in fields(groups)}
    columns["weight"] = np.outer(groups.weight, weight).ravel()
    columns["rest"] = (np.sqrt(groups.variance)[:, None] * (known[:, None] + own)).ravel()
    columns["variance"] = np.repeat(left * groups.variance, _NODES)
    off_both = lengths_off(groups.weight, bulk.lengths, bulk.special_profile, second, d)
    bulk = replace(bulk, lengths=off_both)
    pull /= np.sqrt(left)[:, None, None]
    overlap = float(second @ bulk.teacher)
    of_groups = (f.name for f in fields(bulk) if f.name not in _SHARED)
    repeated = {name: np.repeat(getattr(bulk, name), _NODES, axis=0) for name in of_groups}
    repeated |= {
        "pull": pull.reshape(-1, len(second)),
        "teacher": unit_vector(bulk.teacher - overlap * second),
        "second": overlap * second,
    }
    return Groups(**columns), replace(bulk, **repeated)


def unit_vector(vector: Array) -> Array:
    """Return a vector of length one along another one, or zero for one that is zero but for rounding."""
    size = float(np.linalg.norm(vector))
    return vector / size if size > _NO_LENGTH else 0 * vector
