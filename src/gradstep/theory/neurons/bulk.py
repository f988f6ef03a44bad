"""The bulk of the rows after the step: its covariance has the eigenvectors of a matrix of the step's own samples.

With ``r`` the residual of the step, ``phi0 = d / n_step`` and ``B = X^T diag(r) X / n_step``, ``S = X^T diag(r^2) X /
(n_step E r^2)``, a row with readout ``a`` has, orthogonal to the spike direction, the covariance

    (1/d) ( (1 + a k B)^2 + a^2 t S ),     k = e E[z sigma'],     t = e^2 phi0 E[r^2] (Var sigma' - E[z sigma']^2)

(``e = eta / sqrt(N)``). For an odd activation ``k = 0``: all rows have the eigenvectors of ``S``, and ``S`` enters the
ridge fit only by its spectral law and by the spectral measure of ``zeta``, the teacher's direction orthogonal to the
spike. Otherwise the eigenvectors of ``B`` are used, with the diagonal of ``S`` in this basis: the linear term is exact,
and the part of ``S`` off the diagonal is left out. If the linear term has a small share of the bulk, the eigenvectors
of ``S`` are used, and ``B`` enters by its mean only.

If each group has one readout, the spike direction is no eigenvector either. A row's projection on it is correlated with
the part of the row orthogonal to it, so that both are resolved together. If the projection determines a Gaussian
readout, it contains no other information about the row. If the initial output is of order one, the direction ``b`` of
its linear part is resolved too, because the mean of a row then has a part that is not along the spike
(`gradstep.theory.step.statistics.CommonRow`).

The laws are known through their Stieltjes transforms. The equations of the fit are rational functions of an eigenvalue,
so that a rational Gauss rule needs few nodes, whose poles are chosen for each law. This project.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial.polynomial import polyval
from numpy.typing import NDArray

from gradstep.problem import Problem
from gradstep.theory.models import BulkModel
from gradstep.theory.neurons.correlated_bulk import correlated_classes
from gradstep.theory.neurons.groups import Groups
from gradstep.theory.neurons.rational_rule import sparse_rule
from gradstep.theory.step.correlated_samples import CorrelatedSamples
from gradstep.theory.step.damped_samples import DampedSamples
from gradstep.theory.step.samples import StepSamples
from gradstep.theory.step.statistics import StepStatistics
from gradstep.theory.step.transitions import smooth_rise
from gradstep.theory.step.weighted_samples import WeightedSamples, directions_frame

__all__ = ["Bulk", "bulk_law", "isotropic"]

#: Shares of the bulk that its linear part has, below which all directions have the eigenvectors of ``S`` and above
#: which all have those of ``B``. Between them a growing share of the directions has: networks do not jump.
_LINEAR = (0.01, 0.3)
#: Dimensions for each sample of the step below which its law is a point, to rounding.
_POINT = 1e-12
#: Decades of the levels that a pole of the fit may have, in units of the mean variance: below them poles do not
#: move, above them the mean is enough. Number of readouts for which the poles are computed.
_LEVELS, _READOUTS = (-2, 3), 4
#: Largest error of the rules at them. It jumps with the number of poles, which must not disturb a search over the step.
_TOLERANCE = 1e-8
#: Least height of a pole over the law's standard deviation, and least variance (and change of it).
_LEAST_HEIGHT, _LEAST = 0.02, 1e-12
#: Poles of one cell of this size are as one: in logarithms of size and in angles, seen from the law's mean. With cells
#: twice as large rules missed what is between the poles, and errors jumped by up to 1e-5 with every pole that came.
_CELL = 1 / 6

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
    projection_noise : ndarray, shape (groups,)
        Variance of the part of a projection that is not due to the row's own component along the spike, in units of
        the mean variance of all directions.
    """

    share: Array
    profile: Array
    teacher: Array
    spike: Array
    special_profile: Array
    pull: Array
    projection_noise: Array


def isotropic(groups: int) -> Bulk:
    """Return one class: the bulk of the spiked random features model of Cui et al. 2024."""
    one, column = np.ones(1), np.ones((groups, 1))
    return Bulk(one, column, one, 0 * one, column, 0 * column, np.zeros(groups))


def bulk_law(
    problem: Problem,
    step: StepStatistics,
    groups: Groups,
    d: float,
    n_step: float,
    model: BulkModel = "structured",
    refine: float = 1,
) -> Bulk:
    """Return the classes of directions for the rows after the step.

    Docs, "Structured bulk", equations (A1) and (A2).

    Parameters
    ----------
    problem : Problem
        Gives the teacher and the readout law.
    step : StepStatistics
    groups : Groups
        Their readouts set the strength of the covariance.
    d, n_step : float
    model : {"structured", "isotropic"}
    refine : float
        Divides the tolerance of the rules, by a hundred for each step beyond one.

    Returns
    -------
    Bulk

    Raises
    ------
    NotConverged
        If a transform or a rule is not found.
    """
    scale = problem.readout.second_moment
    if step.correlated is not None:
        return _correlated(problem, step, step.correlated, groups, refine)
    # In the proportional limit a step of order one leaves the bulk of every row as it was.
    unchanged = problem.is_limit and problem.eta.exponent == 0
    if model == "isotropic" or unchanged or step.bulk * scale == 0 or d <= _POINT * n_step:
        return isotropic(len(groups.weight))
    a, a_square = groups.readout * math.sqrt(scale), groups.readout_square * scale
    assert step.samples is not None
    # Neurons whose Gaussian readout is beyond 2.5 standard deviations are too rare to matter.
    looked_at = a_square <= (6 * scale if problem.readout.kind == "gaussian" else math.inf)
    tolerance = _TOLERANCE * 100.0 ** (1 - refine)
    parts: list[_Part] = []
    joint = groups.resolved or step.common is not None
    for share, samples, variance, stretch in _bases(step, step.samples, a, a_square):
        moments = samples.moments
        mean_variance = moments[:3] @ variance
        relative = variance / mean_variance
        varying = looked_at & (np.abs(relative[1:]) > _LEAST).any(axis=0)
        if varying.any():
            points, level = _poles(relative[:, varying], a[varying], moments, refine)
            frame = directions_frame(step.alignment, None if step.common is None else step.common.alignment)
            rules = _rules(samples, points, 1 + level, frame, tolerance, joint=joint)
            parts.append(_Part(share, relative, stretch, frame, *rules))
    if not parts:
        return isotropic(len(a))
    # A part in which no group's variance varies leaves its directions to the other.
    whole = sum(part.share for part in parts)
    directions = np.concatenate([part.share / whole * part.law[1] for part in parts])
    profile = np.concatenate([part.profile(part.law[0]) for part in parts], axis=1)
    special_profile = np.concatenate([part.profile(part.special[0]) for part in parts], axis=1)
    roots = [math.sqrt(part.share / whole) for part in parts]
    spike, teacher, *_ = np.concatenate([root * part.special[1] for root, part in zip(roots, parts, strict=True)]).T
    pull = np.zeros_like(special_profile)
    if step.common is not None:
        # The samples' matrix times b, without what it has along the spike.
        common = step.common.length * np.concatenate([r * part.common for r, part in zip(roots, parts, strict=True)])
        common -= spike * (spike @ common)
        pull += (step.common.of(a, a_square) / np.sqrt(groups.variance))[:, None] * common
    if groups.resolved:
        pull += _pull(groups, spike, special_profile)
    noise = groups.projection_noise / mean_variance
    return Bulk(directions, profile, teacher, spike, special_profile, pull, noise)


def _correlated(
    problem: Problem, step: StepStatistics, samples: CorrelatedSamples | DampedSamples, groups: Groups, refine: float
) -> Bulk:
    """Return the classes of directions of correlated inputs.

    Docs, "Correlated inputs", equation (C10).
    """
    odd = problem.activation.parity == "odd"
    found = correlated_classes(step, samples, groups, problem.readout, refine, odd=odd)
    share, profile, overlap, special_profile, mean_variance = found
    spike, teacher = overlap.T
    # Orthogonal to rounding: a rule of a broad law has lost digits.
    teacher = teacher - spike * (spike @ teacher)
    teacher /= np.linalg.norm(teacher)
    pull = _pull(groups, spike, special_profile)
    return Bulk(share, profile, teacher, spike, special_profile, pull, groups.projection_noise / mean_variance)


def _pull(groups: Groups, spike: Array, special_profile: Array) -> Array:
    """Return the mean of a normalised row off the spike given its projection on the spike: the regression."""
    regression = spike * special_profile
    regression /= (regression @ spike)[:, None]
    return np.asarray((groups.offset / np.sqrt(groups.variance))[:, None] * (regression - spike))


class _Part(NamedTuple):
    """A share of the directions, in one basis, with the spectral law's rule and that of the special vectors.

    `variance` and `stretch` are polynomials of an eigenvalue: variances of the groups, of mean one, and how much longer
    the rows are for a unit of readout. `frame` has the special vectors as columns.
    """

    share: float
    variance: Array
    stretch: Array
    frame: Array
    law: Rule
    special: Rule

    @property
    def common(self) -> Array:
        """The stretch of the rows times the direction of the initial output, at the nodes of the special vectors."""
        nodes, overlap = self.special
        return np.asarray(polyval(nodes, self.stretch) * (overlap @ self.frame[1]))

    def profile(self, nodes: Array) -> Array:
        """Return the variances at eigenvalues, shape (groups, nodes)."""
        return np.maximum(polyval(nodes, self.variance), _LEAST)


def _bases(
    step: StepStatistics, samples: StepSamples, a: Array, a_square: Array
) -> Iterator[tuple[float, WeightedSamples, Array, Array]]:
    """Yield the bases that have a share of the directions; variances and stretch are polynomials of an eigenvalue."""
    linear_variance = step.curvature**2 * samples.ratio * samples.law.square
    share = smooth_rise(linear_variance / step.bulk, *_LINEAR)
    if share < 1:
        variance = np.stack([step.stretch(a, a_square) ** 2, step.bulk * a_square, 0 * a])
        yield 1 - share, samples.by_square, variance, np.array([step.whole_drift])
    if share > 0:
        weighted = samples.by_residual
        k, rest = step.curvature, (step.bulk - linear_variance) * weighted.diagonal(samples.law.relative_squares)
        # The samples' matrix holds the drift by its mean.
        own = step.own_stretch(a, a_square)
        variance = np.stack(
            [own**2 + rest[0] * a_square, 2 * k * a * own + rest[1] * a_square, (k**2 + rest[2]) * a_square]
        )
        yield share, weighted, variance, np.array([step.own_drift[0], k])


def _poles(variance: Array, readout: Array, moments: Array, refine: float) -> tuple[Complex, Array]:
    """Return where the fit has poles in an eigenvalue, as a rule: at which the variance of a group is minus a level.

    Parameters
    ----------
    variance : ndarray, shape (3, groups)
        Coefficients of the variances, of mean one.
    readout : ndarray, shape (groups,)
        Readouts of the groups, of which a few are used.
    moments : ndarray, shape (powers,)
        Moments of the law, from power zero.
    refine : float

    Returns
    -------
    points : ndarray, shape (points,)
        In the upper half-plane, none near another.
    level : ndarray, shape (points,)
    """
    even = np.linspace(readout.min(), readout.max(), _READOUTS)
    taken = np.unique(np.abs(readout - even[:, None]).argmin(axis=1))
    constant, linear, quadratic = variance[:, taken, None]
    level = 10.0 ** np.linspace(*_LEVELS, round(16 * refine) + 1)
    width = math.sqrt(moments[2] - moments[1] ** 2)
    if quadratic.any():
        height = np.sqrt((4 * quadratic * (constant + level) - linear**2).astype(complex)).real
        points = (-linear + 1j * height) / (2 * quadratic)
        # Where the parabola would leave a variance below zero.
        points.imag = np.maximum(points.imag, _LEAST_HEIGHT * width)
    else:
        points = -(constant + level) / linear * (1 - 0.5j)
    cell = np.round(np.log((points.ravel() - moments[1]) / width) / (_CELL / refine))
    _, first = np.unique(cell, return_index=True)
    return points.ravel()[first], np.tile(level, len(points))[first]


def _rules(
    samples: WeightedSamples, points: Complex, importance: Array, frame: Array, tolerance: float, *, joint: bool
) -> tuple[Rule, Rule]:
    """Return the rules of the spectral law, and of the special vectors: the spike direction, the teacher's rest.

    With `joint` all are resolved together; otherwise the teacher's rest alone, in the complement of the spike.
    """
    m = samples.transform(points)
    slope = samples.transform_slope(m)
    one = np.ones((1, 1))
    mean = samples.law.mean(samples.weight) * one
    values, share = sparse_rule(points, m[:, None, None], slope[:, None, None], mean, importance, tolerance)
    law = values, share[:, 0] ** 2
    resolvent, turn = samples.resolvent(points, m, slope, frame)
    mean = samples.mean(frame)
    if joint:
        return law, sparse_rule(points, resolvent, turn, mean, importance, tolerance)
    (spike, cross), rest = resolvent[:, 0].T, resolvent[:, 1, 1]
    (d_spike, d_cross), d_rest = turn[:, 0].T, turn[:, 1, 1]
    alone = (rest - cross**2 / spike)[:, None, None]
    d_alone = (d_rest - 2 * cross * d_cross / spike + cross**2 * d_spike / spike**2)[:, None, None]
    special, overlap = sparse_rule(points, alone, d_alone, mean[1, 1] * one, importance, tolerance)
    return law, (special, np.concatenate([0 * overlap, overlap], axis=1))
