"""The second direction where a fit learns from the curvature of features along the teacher.

Through the curvature of features along the teacher's rest, the part of its direction orthogonal to the spike, a fit
learns the even part of the teacher. This falls like ``1/d``: at a hundred dimensions it is some per cent of the error.
If a step makes the variance of rows along the teacher ``chi`` times as large, it is ``chi^2`` times as much, which may
be half of the error. The second direction is the teacher's rest, bent towards where the rows are stretched.
This project. Docs, "Uniform equivalent", equations (E19a) to (E19c).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from gradstep.gaussian import moments
from gradstep.problem import Problem, link_of
from gradstep.resolution import NOTHING
from gradstep.theory.neurons.bulk import Bulk
from gradstep.theory.neurons.groups import Groups
from gradstep.theory.step.statistics import StepStatistics, readout_values
from gradstep.theory.step.transitions import smooth_rise

__all__ = ["added_by_quadratic_part", "share_along_teacher", "teacher_direction", "variance_along_teacher"]

Array = NDArray[np.float64]

#: The plane takes over from the spike alone where the measure of what a fit learns from it is between these, see
#: `share_along_teacher`. Without a stretch, it lowers errors by one to ten times the measure.
_LEARNED = (3e-4, 1.5e-3)
#: Bounds for a Gaussian readout, of the part of the measure that the stretch has. The plane's nodes cost twenty to
#: fifty times as much as one direction there after a small step, and their error is .13 per cent.
_STRETCHED = (1e-3, 1e-2)
#: Squared length of the teacher's rest below which there is nothing to resolve.
_REST = (1e-4, 1e-2)


def share_along_teacher(problem: Problem, step: StepStatistics, d: float) -> float:
    """Return the weight of the description that resolves both directions, in [0, 1].

    The step has its spike along the direction that features are resolved along. The weight is zero in the limit of many
    dimensions, where activation or teacher have no quadratic part, and where the spike is along the teacher. It grows
    with ``(E_a[(chi - chi0)^2] + E_a[chi0^2] omega) / d``. ``chi`` is the variance of a row along the teacher after a
    step of many samples, over the mean of all directions. ``chi0`` is the same without the quadratic part of the
    teacher: one for a plain step on isotropic inputs. ``omega`` is the share of the quadratic part in the activation's
    power beyond a linear function, times its share in the teacher's variance. For a Gaussian readout the second term
    does not count.
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

    `a` and `a_square`, shape (rows,), are readouts and their squares, or their means over neurons that are described
    together. The teacher's second Hermite coefficient is `quadratic`, or zero for the variance without that part of the
    teacher.

    Docs, "Uniform equivalent", equation (E19a).
    """
    bent = step.curvature * math.sqrt(2) * quadratic
    if step.correlated is None:
        along, sampled = (step.stretch(a, a_square) + bent * a) ** 2, step.bulk
    else:
        samples, spectrum = step.correlated, step.correlated.spectrum
        c, teacher = spectrum.eigenvalue, spectrum.teacher
        # The linear part of the step adds to a row this multiple of it in each class.
        factor = samples.stretch[0] / np.maximum(c, NOTHING)
        added = step.class_drift * factor + bent * float(teacher @ factor)
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
        stretched = float(teacher @ (step.class_drift * twice))
        added = 2 * bent * (own * a * float(teacher @ once) + a_square * stretched)
        added += bent**2 * a_square * made
    return np.asarray(added / step.mean_variance(a, a_square))


def teacher_direction(groups: Groups, bulk: Bulk, added: Array) -> Array:
    """Return a vector whose part orthogonal to the spike is where features bend most with the teacher's rest.

    The vector, shape (special,), is that of the mean of a row, given its projection on the teacher's rest, for the mean
    covariance of all rows. It is the teacher's rest itself where nothing but the teacher stretches the rows. `added`,
    shape (groups,), is from `added_by_quadratic_part`.

    Docs, "Uniform equivalent", equation (E19b).
    """
    # Directions with more are those of single samples with large residuals, which are many and have little in common.
    most = 1 + np.maximum(added, 0.0)
    covariance = groups.weight @ (bulk.special_profile / np.hypot(1.0, bulk.special_profile / most[:, None]))
    return np.asarray(covariance * bulk.teacher)
