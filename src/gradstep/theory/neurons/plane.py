"""Rows whose component along the teacher is as large as that along the spike: both directions are resolved.

As a rule one direction suffices, that of the spike: along each other one a row has a component of order ``d**-1/2``, on
which a feature depends linearly to leading order. A step that stretches the rows along the teacher by a factor ``T``
makes the curvature of a feature along the teacher's part ``zeta`` orthogonal to the spike ``T`` times as large. What a
fit learns through it falls like ``1/d``, but with a factor of ``T^2``: at a hundred dimensions it may be half of the
error. So features are then functions of two coordinates, and a group of neurons has a projection on each direction.
This project. Docs, "Uniform equivalent", equation (E19).
"""

from __future__ import annotations

import math
from dataclasses import fields, replace

import numpy as np
from numpy.typing import NDArray

from gradstep.gaussian import hermite_rule, moments
from gradstep.problem import Problem, link_of
from gradstep.resolution import NOTHING
from gradstep.theory.neurons.bulk import Bulk
from gradstep.theory.neurons.groups import Groups
from gradstep.theory.step.statistics import StepStatistics, readout_values
from gradstep.theory.step.transitions import smooth_rise

__all__ = ["groups_in_plane", "share_in_plane"]

Array = NDArray[np.float64]

#: Nodes of a row's projection on the teacher's rest: they reproduce its moments up to the fifth.
_NODES = 3
#: ``(T - 1)^2 / d``, a mean over the neurons, between which the plane takes over from the spike alone. ``T`` is the
#: variance of a row along the teacher, over that along other directions, after a step of many samples.
_STRETCHED = (0.001, 0.01)
#: Least variance of rows along a special direction, over the mean of all. With less, digits are lost beside the pull.
_LEAST = 1e-7
#: Fields of a bulk that all groups share.
_SHARED = ("share", "teacher", "spike")
#: Squared length of the teacher's rest below which there is nothing to resolve.
_REST = (1e-4, 1e-2)


def share_in_plane(problem: Problem, step: StepStatistics, d: float) -> float:
    """Return the weight of the description that resolves both directions, in [0, 1].

    Parameters
    ----------
    problem : Problem
    step : StepStatistics
        With the spike along the direction that features are resolved along.
    d : float

    Returns
    -------
    float
        Zero in the limit of many dimensions, and wherever rows are not stretched along the teacher.
    """
    if step.correlated is not None:
        return 0.0
    values, shares = readout_values(problem.readout)
    whole = step.stretch(values, values**2)
    along = whole + step.curvature * math.sqrt(2) * moments(link_of(problem.teacher)).quadratic * values
    excess = (along**2 - whole**2) / (whole**2 + step.bulk * values**2)
    return smooth_rise(float(shares @ excess**2) / d, *_STRETCHED) * smooth_rise(1 - step.alignment**2, *_REST)


def groups_in_plane(groups: Groups, bulk: Bulk, d: float) -> tuple[Groups, Bulk]:
    """Return groups that have a projection on the teacher's rest too, three for each, with their bulk.

    Parameters
    ----------
    groups : Groups
    bulk : Bulk
    d : float

    Returns
    -------
    Groups, Bulk
        The pull of the bulk follows both projections, and is orthogonal to both directions.
    """
    teacher, bulk = bulk.teacher, replace(bulk, special_profile=np.maximum(bulk.special_profile, _LEAST))
    with_rest = _known_covariance(bulk) @ teacher
    variance = np.maximum(with_rest @ teacher, NOTHING)
    z, weight = hermite_rule(_NODES)
    # Rows of length one have the mean variance 1 / (d - 1) in a direction.
    own = np.sqrt(variance / (d - 1))[:, None] * z
    known = bulk.pull @ teacher
    regression = with_rest / variance[:, None] - teacher
    regression -= np.outer(regression @ bulk.spike, bulk.spike)
    pull = (bulk.pull - np.outer(known, teacher))[:, None] + own[..., None] * regression[:, None]
    columns = {f.name: np.repeat(getattr(groups, f.name), _NODES) for f in fields(groups)}
    columns["weight"] = np.outer(groups.weight, weight).ravel()
    columns["rest"] = (np.sqrt(groups.variance)[:, None] * (known[:, None] + own)).ravel()
    of_groups = (f.name for f in fields(bulk) if f.name not in _SHARED)
    repeated = {name: np.repeat(getattr(bulk, name), _NODES, axis=0) for name in of_groups}
    return Groups(**columns), replace(bulk, **repeated | {"pull": pull.reshape(-1, len(teacher))})


def _known_covariance(bulk: Bulk) -> Array:
    """Return the covariances of rows along the special directions, given all that is known of them.

    Shape (groups, special, special). Known is the projection on the spike, and the norm where it tells of the row, up
    to the parts that are not due to the row.
    """
    profile = bulk.special_profile
    whole = profile[..., None] * np.eye(len(bulk.spike))
    if not bulk.spike.any():
        return whole
    noise = np.moveaxis(bulk.known_noise, -1, 0)
    spike = np.broadcast_to(bulk.spike, profile.shape)
    vectors = np.stack([spike, bulk.norm_slope], axis=1)[:, : noise.shape[1]]
    known = vectors * profile[:, None]
    return np.asarray(whole - known.mT @ np.linalg.solve(known @ vectors.mT + noise, known))
