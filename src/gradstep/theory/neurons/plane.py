"""Features that bend along the teacher as well as along the spike: both directions are resolved.

In the limit one direction suffices, that of the spike: along each other one a row has a component of order ``d**-1/2``,
on which a feature depends linearly to leading order. Through the curvature of features along the teacher's rest, the
part of its direction orthogonal to the spike, a fit learns the even part of the teacher. This falls like ``1/d``: at a
hundred dimensions it is some per cent of the error. If a step makes the variance of rows along the teacher ``chi``
times as large, it is ``chi^2`` times as much, which may be half of the error. So features are then functions of two
coordinates, and a group of neurons has a projection on each direction. The second direction ``zeta`` is the teacher's
rest, bent towards where the rows are stretched.
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

__all__ = ["added_by_quadratic_part", "groups_in_plane", "share_in_plane", "variance_along_teacher"]

Array = NDArray[np.float64]

#: Nodes of a row's projection on the second direction: they reproduce its moments up to the fifth.
_NODES = 3
#: The plane takes over from the spike alone where the measure of what a fit learns from it is between these, see
#: `share_in_plane`. Without a stretch, it lowers errors by one to ten times the measure.
_LEARNED = (3e-4, 1.5e-3)
#: Bounds for a Gaussian readout, of the part of the measure that the stretch has. The plane's nodes cost twenty to
#: fifty times as much as one direction there after a small step, and their error is .13 per cent.
_STRETCHED = (1e-3, 1e-2)
#: Least variance of rows along a special direction, over the mean of all. With less, digits are lost beside the pull.
_LEAST = 1e-7
#: Least share of the variance of a row that is left for the other directions.
_LEAST_LEFT = 0.1
#: Length of a part of a unit vector below which there is none.
_NO_LENGTH = 1e-6
#: Fields of a bulk that all groups share.
_SHARED = ("share", "teacher", "spike", "second")
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
        Zero in the limit of many dimensions, where activation or teacher have no quadratic part, and where the spike
        is along the teacher. It grows with ``(E_a[(chi - chi0)^2] + E_a[chi0^2] omega) / d``. ``chi`` is the variance
        of a row along the teacher after a step of many samples, over the mean of all directions. ``chi0`` is the same
        without the quadratic part of the teacher: one for a plain step on isotropic inputs. ``omega`` is the share of
        the quadratic part in the activation's power beyond a linear function, times its share in the teacher's
        variance. For a Gaussian readout the second term does not count.
    """
    values, shares = readout_values(problem.readout)
    quadratic = moments(link_of(problem.teacher)).quadratic
    stretched, before = (variance_along_teacher(step, values, values**2, part) for part in (quadratic, 0.0))
    measure = float(shares @ (stretched - before) ** 2)
    if problem.readout.kind == "gaussian":
        share = smooth_rise(measure / d, *_STRETCHED)
    else:
        share = smooth_rise((measure + float(shares @ before**2) * _quadratic(problem)) / d, *_LEARNED)
    return share * smooth_rise(1 - step.alignment**2, *_REST)


def variance_along_teacher(step: StepStatistics, a: Array, a_square: Array, quadratic: float) -> Array:
    """Return the variance of rows along the teacher after a step of many samples, over the mean of all directions.

    Docs, "Uniform equivalent", equation (E19a).

    Parameters
    ----------
    step : StepStatistics
    a, a_square : ndarray, shape (rows,)
        Readouts and their squares, or their means over neurons that are described together.
    quadratic : float
        The teacher's second Hermite coefficient, or zero for the variance without that part of the teacher.
    """
    bent = step.curvature * math.sqrt(2) * quadratic
    if step.correlated is None:
        along, sampled = (step.stretch(a, a_square) + bent * a) ** 2, step.bulk
    else:
        samples, spectrum = step.correlated, step.correlated.spectrum
        c, teacher = spectrum.eigenvalue, spectrum.teacher
        # The linear part of the step adds to a row this multiple of it in each class.
        factor = samples.stretch[0] / np.maximum(c, NOTHING)
        added = step.drift * factor + bent * float(teacher @ factor)
        initial, mixed, square = (float(teacher @ (c * added**power)) for power in (0, 1, 2))
        own = step.own_stretch(a, a_square)
        along = own**2 * initial + 2 * own * a * mixed + a_square * square
        sampled = step.bulk / samples.bulk_trace * float(teacher @ samples.sampled)
    return np.asarray((along + sampled * a_square) / step.mean_variance(a, a_square))


def _quadratic(problem: Problem) -> float:
    """Return the quadratic part's share of the activation, without what is linear, times that of the teacher."""
    features, labels = moments(problem.activation), moments(link_of(problem.teacher))
    power, variance = features.nonlinear_second_moment, labels.second_moment - labels.mean**2
    return float((features.quadratic * labels.quadratic) ** 2 / max(power * variance, NOTHING))


def added_by_quadratic_part(step: StepStatistics, a: Array, a_square: Array, quadratic: float) -> Array:
    """Return what the quadratic part of the teacher adds to the variances of a row, summed, over their mean.

    Docs, "Uniform equivalent", equation (E19c). Parameters are as in `variance_along_teacher`.
    """
    bent = step.curvature * math.sqrt(2) * quadratic
    if step.correlated is None:
        added = 2 * bent * a * step.stretch(a, a_square) + bent**2 * a_square
    else:
        spectrum, (once, twice) = step.correlated.spectrum, step.correlated.stretch
        c, teacher = spectrum.eigenvalue, spectrum.teacher
        made = float(teacher @ c) * float(teacher @ (twice / np.maximum(c, NOTHING)))
        own = step.own_stretch(a, a_square)
        added = 2 * bent * (own * a * float(teacher @ once) + step.drift * a_square * float(teacher @ twice))
        added += bent**2 * a_square * made
    return np.asarray(added / step.mean_variance(a, a_square))


def groups_in_plane(
    groups: Groups, bulk: Bulk, problem: Problem, step: StepStatistics, d: float
) -> tuple[Groups, Bulk]:
    """Return groups that have a projection on a second direction too, three for each, with their bulk.

    Parameters
    ----------
    groups : Groups
    bulk : Bulk
    problem : Problem
    step : StepStatistics
    d : float

    Returns
    -------
    Groups, Bulk
        The pull of the bulk follows both projections, and is orthogonal to both directions.
    """
    bulk = replace(bulk, special_profile=np.maximum(bulk.special_profile, _LEAST))
    power, quadratic = problem.readout.second_moment, moments(link_of(problem.teacher)).quadratic
    a, a_square = groups.readout * math.sqrt(power), groups.readout_square * power
    added = added_by_quadratic_part(step, a, a_square, quadratic)
    second = _second_direction(groups, bulk, added)
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
    pull /= np.sqrt(left)[:, None, None]
    overlap = float(second @ bulk.teacher)
    of_groups = (f.name for f in fields(bulk) if f.name not in _SHARED)
    repeated = {name: np.repeat(getattr(bulk, name), _NODES, axis=0) for name in of_groups}
    repeated |= {
        "pull": pull.reshape(-1, len(second)),
        "teacher": _unit(bulk.teacher - overlap * second),
        "second": overlap * second,
    }
    return Groups(**columns), replace(bulk, **repeated)


def _second_direction(groups: Groups, bulk: Bulk, added: Array) -> Array:
    """Return the direction orthogonal to the spike along which features bend most with the teacher's rest.

    Docs, "Uniform equivalent", equation (E19b).

    Parameters
    ----------
    groups, bulk
        As in `groups_in_plane`.
    added : ndarray, shape (groups,)
        From `added_by_quadratic_part`.

    Returns
    -------
    ndarray, shape (special,)
        That of the mean of a row, given its projection on the teacher's rest, for the mean covariance of all rows. It
        is the teacher's rest itself where nothing but the teacher stretches the rows.
    """
    # Directions with more are those of single samples with large residuals, which are many and have little in common.
    most = 1 + np.maximum(added, 0.0)
    covariance = groups.weight @ (bulk.special_profile / np.hypot(1.0, bulk.special_profile / most[:, None]))
    bent = covariance * bulk.teacher
    return _unit(bent - bulk.spike * float(bulk.spike @ bent))


def _unit(vector: Array) -> Array:
    """Return a vector of length one along another one, or zero for one that is zero but for rounding."""
    size = float(np.linalg.norm(vector))
    return vector / size if size > _NO_LENGTH else 0 * vector
