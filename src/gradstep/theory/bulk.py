"""The bulk of the rows after the step: its covariance has the eigenvectors of a matrix of the step's own samples.

With ``r`` the residual of the step, ``phi0 = d / n_step`` and ``B = X^T diag(r) X / n_step``, ``S = X^T diag(r^2) X /
(n_step E r^2)``, a row with readout ``a`` has, off the spike direction, the covariance

    (1/d) ( (1 + a k B)^2 + a^2 t S ),     k = e E[z sigma'],     t = e^2 phi0 E[r^2] (Var sigma' - E[z sigma']^2)

(``e = eta / sqrt(N)``). For an odd activation ``k = 0``: all rows have the eigenvectors of ``S``, and the ridge fit
knows of ``S`` only its spectral law and the spectral measure of the teacher's rest ``zeta``. Otherwise the eigenvectors
of ``B`` are used, with the diagonal of ``S`` among them: the linear term is exact, and what is left out is the part of
``S`` off that diagonal.

Where the groups have one readout each the spike direction is no eigenvector either: a row's projection on it tells of
the rest, so that both are resolved together. A projection that tells a Gaussian readout tells nothing else.

The laws are known through their Stieltjes transforms. The equations of the fit are rational functions of an eigenvalue,
so that the few nodes of a rational Gauss rule are exact to many digits. This project.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from gradstep.problem import Problem
from gradstep.theory.groups import Groups
from gradstep.theory.residual import residual_law
from gradstep.theory.step import StepStatistics
from gradstep.theory.weighted_samples import WeightedSamples, rational_rule

__all__ = ["Bulk", "BulkModel", "bulk_law", "isotropic"]

#: Law of the bulk: with the structure that the step's samples give it, or alike in all directions.
BulkModel = Literal["structured", "isotropic"]

#: Share of the bulk below which its linear part is left to the other law.
_NEGLIGIBLE = 1e-3

Array = NDArray[np.float64]
Complex = NDArray[np.complexfloating[Any, Any]]
Rule = tuple[Array, Array]


@dataclass(frozen=True)
class Bulk:
    """Classes of directions off the spike, in which the rows of a group have different variances.

    Attributes
    ----------
    share : ndarray, shape (classes,)
        Fraction of the directions; sums to one.
    profile : ndarray, shape (groups, classes)
        Variance of a group's rows there over the mean of all directions.
    teacher : ndarray, shape (special,)
        Components of the teacher's rest, a unit vector, along the special directions that resolve it.
    spike : ndarray, shape (special,)
        Components of the spike direction along them, a unit vector too (or zero if they are orthogonal to it). The
        fit relies on both lengths being one.
    special_profile : ndarray, shape (groups, special)
        The variances there.
    pull : ndarray, shape (groups, special)
        Mean components of a group's normalised rows there, which follow their projection on the spike; orthogonal to
        the spike.
    """

    share: Array
    profile: Array
    teacher: Array
    spike: Array
    special_profile: Array
    pull: Array


def isotropic(groups: int) -> Bulk:
    """Return one class: the bulk of the spiked random features model of Cui et al. 2024."""
    one, column = np.ones(1), np.ones((groups, 1))
    return Bulk(one, column, one, 0 * one, column, 0 * column)


def bulk_law(
    problem: Problem,
    step: StepStatistics,
    groups: Groups,
    d: float,
    n_step: float,
    model: BulkModel = "structured",
) -> Bulk:
    """Return the classes of directions for the rows after the step.

    Parameters
    ----------
    problem : Problem
        Gives the teacher and the readout law.
    step : StepStatistics
    groups : Groups
        Their readouts set the strength of the covariance.
    d, n_step : float
    model : {"structured", "isotropic"}

    Returns
    -------
    Bulk

    Raises
    ------
    NotConverged
        If a transform is not found.
    """
    scale = problem.readout.second_moment
    if model == "isotropic" or step.bulk * scale == 0 or not math.isfinite(n_step):
        return isotropic(len(groups.weight))
    a = (groups.readout * math.sqrt(scale))[:, None]
    a_square = (groups.readout_square * scale)[:, None]
    joint, largest = groups.resolved, float(a_square.max())
    if problem.readout.kind == "gaussian":
        # Those beyond 2.5 standard deviations are too few to be felt.
        largest = min(largest, 6 * scale)
    law = residual_law(problem.teacher, step.residual_offset, step.residual_noise)
    ratio = d / n_step
    linear_variance = step.curvature**2 * ratio * law.square
    if linear_variance <= _NEGLIGIBLE * step.bulk:
        samples = WeightedSamples(law, law.residual**2 / law.square, ratio)
        # The fit divides by a mixture of the groups' variances: its poles lie beyond that of the largest group.
        nearest = 1 / max(step.bulk * largest, 0.1)
        poles = -nearest * 4.0 ** np.arange(3) * (1 - 0.5j)

        def variance(nodes: Array) -> Array:
            return np.asarray((1 + step.drift * a) ** 2 + step.bulk * a_square * nodes)
    else:
        samples = WeightedSamples(law, law.residual, ratio)
        k, rest = step.curvature, step.bulk - linear_variance
        width = math.sqrt(ratio * law.square)
        # A group's variance vanishes, or nearly so, at -1 / (k a).
        reach = 1 / (abs(k) * math.sqrt(largest))
        near = max(reach, 0.5 * width) * np.array([-1.0, 1.0])
        # Real and imaginary parts must both be resolved where the poles are far from the law.
        height = max(width, 0.25 * reach)
        at = ((1, 0.4j), (1, 1.5j), (2, 1.5j), (6, 3j))
        poles = np.concatenate([times * near + above * height for times, above in at])
        diagonal = samples.diagonal(law.residual**2 / law.square)

        def variance(nodes: Array) -> Array:
            return np.asarray(1 + 2 * k * a * nodes + a_square * (k**2 * nodes**2 + rest * diagonal(nodes)))

    (values, share), (special, overlap) = _rules(samples, poles, step.alignment, joint=joint)
    profile, special_profile = variance(values), variance(special)
    mean = (profile @ share)[:, None]
    profile, special_profile = np.maximum(profile / mean, 1e-12), np.maximum(special_profile / mean, 1e-12)
    spike, teacher = overlap.T
    pull = np.zeros_like(special_profile)
    if joint:
        # Given its projection on v, a row's mean off v is the regression on it.
        regression = spike * special_profile
        regression /= (regression @ spike)[:, None]
        pull = (groups.offset / np.sqrt(groups.variance))[:, None] * (regression - spike)
    return Bulk(share, profile, teacher, spike, special_profile, pull)


def _rules(samples: WeightedSamples, poles: Complex, alignment: float, *, joint: bool) -> tuple[Rule, Rule]:
    """Return the rules of the spectral law, and of the spike direction and the teacher's rest.

    With `joint` both are resolved together; otherwise the teacher's rest alone, in the complement of the spike.
    """
    m = samples.transform(poles)
    slope = samples.transform_slope(m)
    one = np.ones((1, 1))
    values, share = rational_rule(poles, m[:, None, None], slope[:, None, None], samples.law.mean(samples.weight) * one)
    law = values, share[:, 0] ** 2
    resolvent, turn = samples.resolvent(poles, m, slope, alignment)
    mean = samples.mean(alignment)
    if joint:
        return law, rational_rule(poles, resolvent, turn, mean)
    (spike, cross), rest = resolvent[:, 0].T, resolvent[:, 1, 1]
    (d_spike, d_cross), d_rest = turn[:, 0].T, turn[:, 1, 1]
    alone = rest - cross**2 / spike
    d_alone = d_rest - 2 * cross * d_cross / spike + cross**2 * d_spike / spike**2
    special, overlap = rational_rule(poles, alone[:, None, None], d_alone[:, None, None], mean[1, 1] * one)
    return law, (special, np.concatenate([0 * overlap, overlap], axis=1))
