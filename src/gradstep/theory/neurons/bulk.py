"""The bulk of the rows after the step: its covariance has the eigenvectors of a matrix of the step's own samples.

With ``r`` the residual of the step, ``phi0 = d / n_step`` and ``B = X^T diag(r) X / n_step``, ``S = X^T diag(r^2) X /
(n_step E r^2)``, a row with readout ``a`` has, orthogonal to the spike direction, the covariance

    (1/d) ( (1 + a k B)^2 + a^2 t S ),     k = e E[z sigma'],     t = e^2 phi0 E[r^2] (Var sigma' - E[z sigma']^2)

(``e = eta / sqrt(N)``). For an odd activation ``k = 0``: all rows have the eigenvectors of ``S``, and ``S`` enters the
ridge fit only by its spectral law and by the spectral measure of ``zeta``, the teacher's direction orthogonal to the
spike. Otherwise rows of one readout have one matrix, whose law is that of correlated inputs with equal eigenvalues
(`gradstep.theory.neurons.stretched_law`). Rows of several readouts have several matrices. Directions then get the
eigenvectors of their mean, or those of ``B`` with the diagonal of ``S``, in the proportion of what each leaves out.

If each group has one readout, the spike direction is no eigenvector either. A row's projection on it is correlated with
the part of the row orthogonal to it, so that both are resolved together, and so is the row's norm. If the projection
determines a Gaussian readout, it contains no other information about the row. If the initial output is of order one,
the direction ``b`` of its linear part is resolved too, because the mean of a row then has a part that is not along the
spike (`gradstep.theory.step.statistics.CommonRow`).

The laws are known through their Stieltjes transforms. The equations of the fit are rational functions of an eigenvalue,
so that a rational Gauss rule needs few nodes, whose poles are chosen for each law. This project.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial.polynomial import polyval
from numpy.typing import NDArray

from gradstep.problem import Problem, Readout
from gradstep.resolution import NOTHING
from gradstep.theory.models import BulkModel
from gradstep.theory.neurons.correlated_bulk import correlated_classes
from gradstep.theory.neurons.groups import Groups
from gradstep.theory.neurons.lengths import lengths_of_readouts, seen_lengths
from gradstep.theory.neurons.longest import Longest
from gradstep.theory.neurons.rational_rule import LawAtPoints, Others, sparse_rule
from gradstep.theory.neurons.row_rules import (
    LEAST,
    LEVELS,
    levels,
    mean_law,
    readout_coefficients,
    resolved_law,
    row_variances,
    rules,
    vectors_rule,
)
from gradstep.theory.neurons.stretched_law import StretchedLaw
from gradstep.theory.step.correlated_samples import ISOTROPIC, CorrelatedSamples
from gradstep.theory.step.damped_samples import DampedSamples
from gradstep.theory.step.samples import StepSamples
from gradstep.theory.step.statistics import CommonRow, StepStatistics, readout_values
from gradstep.theory.step.transitions import smooth_rise
from gradstep.theory.step.weighted_samples import WeightedSamples, directions_frame
from gradstep.theory.together import Computation

__all__ = ["Bulk", "bulk_law", "isotropic", "variance_cells"]

#: Dimensions for each sample of the step below which its law is a point, to rounding.
_POINT = 1e-12
#: How much more the part of ``S`` off the diagonal costs than that of ``B``, which differs in sign between readouts:
#: from networks with readouts of several values.
_DEARER = 20.0
#: The basis of the mean of all rows is left out where its share of the directions is below the first number, and has
#: its whole share above the second. A small share has half of all nodes, and changes errors by less than its fiftieth.
_COUNTS = (0.03, 0.1)
#: Least variance of what the row does not explain of its norm, over the whole.
_LEAST_NOISE = 1e-9
#: Least variance of rows in a direction, over its mean over the readouts, that counts for what norms tell of them.
_LEAST_PART = 0.01
#: Least variance of a row in a direction, of mean one, that its norm may tell of. Rounding leaves nodes of no weight
#: next to zero, at which no row is known.
_LEAST_VARIANCE = 1e-6
#: Number of readouts for which the poles are computed.
_READOUTS = 4
#: Largest error of the rules at them. It jumps with the number of poles, which must not disturb a search over the step.
_TOLERANCE = 1e-8
#: Logarithm of the ratio of variances that special directions of a spectrum have at most to be taken together. With a
#: fifth its outliers change by at most 2e-4. An overlap jumps by about 1e-5 where a variance crosses a border of cells.
_NEAR = 1 / 6
#: Least height of a pole over the law's standard deviation.
_LEAST_HEIGHT = 0.02
#: Poles of one cell of this size are as one: in logarithms of size and in angles, seen from the law's mean. With cells
#: twice as large rules missed what is between the poles, and errors jumped by up to 1e-5 with every pole that came.
_CELL = 1 / 6
#: Their number is a multiple of this, so that those of the problems of a curve can be stacked.
_ALIKE_POINTS = 8

#: Largest length of a mean row, over that of a row, up to which the leading order of the second degree is followed.
_LONGEST_MEAN = 0.5
#: Share of a vector that is none.
_NO_SHARE = 1e-6

Array = NDArray[np.float64]
Complex = NDArray[np.complexfloating[Any, Any]]


@dataclass(frozen=True)
class Bulk:
    """Classes of directions off the spike, in which the rows of a group have different variances."""

    share: Array  #: Fraction of the directions in each class, of sum one, shape (classes,).
    profile: Array  #: Variance of a group's rows in a class over the mean of all directions, shape (groups, classes).
    #: Shape (special,): components of the teacher's rest, a unit vector, along the special directions that resolve it.
    #: Where features are resolved along a second direction, only of what is orthogonal to that one too, or zero if
    #: there is nothing.
    teacher: Array
    #: Shape (special,): components of the spike direction along the special directions, a unit vector too (or zero if
    #: they are orthogonal to it). The fit relies on the lengths of `teacher` and `spike` being one.
    spike: Array
    special_profile: Array  #: Variances as in `profile`, along the special directions, shape (groups, special).
    #: Shape (groups, special): mean components of a group's normalised rows along the special directions, which follow
    #: their projection on the spike; orthogonal to the spike.
    pull: Array
    #: Shape (groups,): variance of the part of a projection that is not due to the row's own component along the spike,
    #: in units of the mean variance of all directions.
    projection_noise: Array
    #: Shape (groups, special): slope of the squared norm off the spike with the row's components along the special
    #: directions. Zero if norms tell nothing of a row.
    norm_slope: Array
    #: Shape (groups,): variance of the part of the squared norm that is not due to the components of `norm_slope`.
    norm_noise: Array
    #: Shape (groups,): covariance of the part of the squared norm that has the variance `norm_noise` with the part of a
    #: projection that has the variance `projection_noise`. Rows have the mean square one in a direction, also in
    #: `norm_slope` and `norm_noise`.
    shared_noise: Array
    #: Shape (special,): the part of the teacher's rest along a second direction that features are resolved along: its
    #: length is the overlap of the two. Zero if features are resolved along the spike only.
    second: Array
    #: Shape (classes,): part of each class that belongs to the longest directions, where they count; zero otherwise.
    longest: Array
    #: Shape (groups, lengths): how much the rows see of each of a few independent lengths of an input. Isotropic rows
    #: see a single one, by the factor one (`gradstep.theory.neurons.lengths`).
    lengths: Array
    #: Shape (classes, 2): factors of a coordinate in a class in short inputs and in long ones, where features are
    #: resolved along the first length; ones otherwise.
    stretch: Array

    @property
    def known_noise(self) -> Array:
        """Covariances of what rows do not explain of what is known of them, shape (known, known, ..., groups).

        Known are projections on the spike, and norms where they tell of the rows.
        """
        if not self.norm_slope.any():
            return self.projection_noise[None, None]
        return np.array([[self.projection_noise, self.shared_noise], [self.shared_noise, self.norm_noise]])

    @property
    def covariance_given_known(self) -> Array:
        """Covariances of rows along the special directions given all that is known of them.

        Shape (groups, special, special). Known is the projection on the spike, and the norm where it tells of the row,
        up to the parts that are not due to the row.

        Docs, "Structured bulk", equation (A5b).
        """
        profile = self.special_profile
        whole = profile[..., None] * np.eye(len(self.spike))
        if not self.spike.any():
            return whole
        noise = np.moveaxis(self.known_noise, -1, 0)
        spike = np.broadcast_to(self.spike, profile.shape)
        vectors = np.stack([spike, self.norm_slope], axis=1)[:, : noise.shape[1]]
        known = vectors * profile[:, None]
        return np.asarray(whole - known.mT @ np.linalg.solve(known @ vectors.mT + noise, known))

    @property
    def overlap(self) -> float:
        """Overlap of the teacher's rest with a second direction that features are resolved along, or zero."""
        found = float(np.linalg.norm(self.second))
        return 1.0 if found > 0 and not self.teacher.any() else found


def isotropic(groups: int) -> Bulk:
    """Return one class: the bulk of the spiked random features model of Cui et al. 2024."""
    one, column = np.ones(1), np.ones((groups, 1))
    zero = 0 * one
    return Bulk(
        one, column, one, zero, column, 0 * column, np.zeros(groups), *_nothing(column), zero, zero, column,
        np.ones((1, 2)),
    )  # fmt: skip


def bulk_law(
    problem: Problem,
    step: StepStatistics,
    groups: Groups,
    d: float,
    n_step: float,
    model: BulkModel = "structured",
    refine: float = 1,
    *,
    spectrum: bool = False,
    longest: Longest | None = None,
) -> Computation[Bulk]:
    """Return the classes of directions for the rows after the step.

    The readouts of the groups set the strength of the covariance. The tolerance of the rules is divided by a hundred
    for each step of `refine` beyond one. With `spectrum` the classes of correlated inputs are those of a spectrum
    (`gradstep.theory.neurons.row_rules.resolved_law`), and `longest` says which of their directions count as the
    longest. Raises `NotConverged` if a transform or a rule is not found.

    Docs, "Structured bulk", equations (A1) and (A2).
    """
    scale = problem.readout.second_moment
    if step.correlated is not None:
        samples = step.correlated
        return (yield from _correlated(problem, step, samples, groups, refine, spectrum=spectrum, longest=longest))
    # In the proportional limit a step of order one leaves the bulk of every row as it was.
    unchanged = problem.is_limit and problem.eta.exponent == 0
    if model == "isotropic" or unchanged or step.bulk * scale == 0 or d <= _POINT * n_step:
        return isotropic(len(groups.weight))
    assert step.samples is not None
    parts = yield from _parts(problem, step, step.samples, groups, refine)
    # A part in which no group's variance varies leaves its directions to the other.
    whole = sum(part.share for part in parts)
    if not whole:
        return isotropic(len(groups.weight))
    directions = np.concatenate([part.share / whole * part.directions for part in parts])
    profile = np.concatenate([part.profile for part in parts], axis=1)
    special_profile = np.concatenate([part.special_profile for part in parts], axis=1)
    roots = [math.sqrt(part.share / whole) for part in parts]
    spike, teacher, *_ = np.concatenate([root * part.overlap for root, part in zip(roots, parts, strict=True)]).T
    a, a_square = groups.readouts(problem.readout)
    pull = np.zeros_like(special_profile)
    if step.common is not None:
        # The samples' matrix times b, without what it has along the spike.
        common = step.common.length * np.concatenate([r * part.common for r, part in zip(roots, parts, strict=True)])
        common -= spike * (spike @ common)
        pull += _common_pull(problem, step.common, groups, common)
    if groups.resolved:
        pull += _pull(groups, spike, special_profile)
    mean_variance = step.mean_variance(a, a_square)
    components = np.concatenate([root * part.components for root, part in zip(roots, parts, strict=True)])
    noise = groups.projection_noise / mean_variance
    lengths = _lengths(step.samples, step, groups, problem.readout, directions, profile)
    bulk = Bulk(
        directions, profile, teacher, spike, special_profile, pull, noise, *_nothing(pull), np.zeros_like(spike),
        np.zeros_like(directions), seen_lengths(groups.weight, lengths), np.ones((len(directions), 2)),
    )  # fmt: skip
    return _with_norms(bulk, problem, step, groups, mean_variance, components)


def _nothing(pull: Array) -> tuple[Array, Array, Array]:
    """Return `norm_slope`, `norm_noise` and `shared_noise` of norms that tell nothing of a row."""
    zero = np.zeros(len(pull))
    return np.zeros_like(pull), zero + 1, zero


def _with_norms(
    bulk: Bulk,
    problem: Problem,
    step: StepStatistics,
    groups: Groups,
    mean_variance: Array,
    components: Array,
) -> Bulk:
    """Return the classes of directions with what the norm of a row tells of it.

    The mean variances of the rows over all directions are `mean_variance`, shape (groups,), and the components of the
    vectors of `RowFluctuations.norm_vector` have shape (special, vectors).

    Docs, "Structured bulk", equations (A5a) and (A5b).
    """
    if not groups.knows_norms:
        return bulk
    a, a_square = groups.readouts(problem.readout)
    powers = np.stack([a, a_square, a * a_square], axis=1)
    # Rows have the mean square one in a direction here, as for the variances.
    covariance = powers @ np.array(step.fluctuations.norm_vector) @ components.T / np.sqrt(mean_variance)[:, None]
    shared, noise = groups.norm_covariance / np.sqrt(mean_variance), bulk.projection_noise
    # Rows on the sphere that the step does not move have one norm. It tells nothing of them, whatever its variance.
    variance = np.where(groups.norm_variance > 0, groups.norm_variance, 1.0)
    left = variance - np.divide(shared**2, noise, out=np.zeros_like(noise), where=noise > 0)
    # If readouts have several values, the variances are diagonals of matrices, and some may be far too small.
    least = np.maximum(_LEAST_PART * (groups.weight @ bulk.special_profile), _LEAST_VARIANCE)
    slope = covariance / (bulk.special_profile**8 + least**8) ** (1 / 8)
    possible = _possible((slope * covariance).sum(axis=1) / np.maximum(left, _LEAST_NOISE * variance))
    covariance, slope = possible[:, None] * covariance, possible[:, None] * slope
    rest = np.maximum(left - (slope**2 * bulk.special_profile).sum(axis=1), _LEAST_NOISE * variance)
    across = covariance - np.outer(covariance @ bulk.spike, bulk.spike)
    pull = bulk.pull + (groups.norm_offset * np.sqrt(mean_variance / groups.variance))[:, None] * across
    norm_noise = variance - left + rest
    return replace(bulk, pull=pull, norm_slope=slope, norm_noise=norm_noise, shared_noise=shared)


def _possible(share: Array) -> Array:
    """Return the factor of a covariance that would explain this share of a variance.

    With covariances of which only the diagonals are known it could be more than there is. Shares below .7 stay as they
    are.
    """
    large = np.minimum(1 / np.maximum(share, NOTHING), 1.0)
    return np.asarray(np.sqrt(large) * (np.minimum(share, 1.0) ** 16 + large**16) ** (-1 / 32))


def _correlated(
    problem: Problem,
    step: StepStatistics,
    samples: CorrelatedSamples | DampedSamples,
    groups: Groups,
    refine: float,
    *,
    spectrum: bool,
    longest: Longest | None,
) -> Computation[Bulk]:
    """Return the classes of directions of correlated inputs.

    Docs, "Bases of stretched rows", equation (B12).
    """
    odd = problem.activation.parity == "odd"
    found = yield from correlated_classes(
        step, samples, groups, problem.readout, refine, odd=odd, spectrum=spectrum, longest=longest
    )
    special_profile, mean_variance = found.special_profile, found.mean_variance
    spike, teacher, *_ = found.overlap.T
    # Orthogonal to rounding: a rule of a broad law has lost digits.
    teacher = teacher - spike * (spike @ teacher)
    if not spectrum:
        teacher /= np.linalg.norm(teacher)
    pull = _pull(groups, spike, special_profile)
    pull = pull + _bend_pull(problem, step, groups, spike, teacher, found.bend_factors)
    if step.common is not None:
        common = step.common.length * found.common
        pull = pull + _common_pull(problem, step.common, groups, common - spike * (spike @ common))
    noise = groups.projection_noise / mean_variance
    bulk = Bulk(
        found.share, found.profile, teacher, spike, special_profile, pull, noise, *_nothing(pull), np.zeros_like(spike),
        found.longest, seen_lengths(groups.weight, found.lengths), np.ones((len(found.share), 2)),
    )  # fmt: skip
    bulk = _with_norms(bulk, problem, step, groups, mean_variance, found.components)
    # The special directions of a spectrum resolve the spike and, if rows have a mean along it, what is common to them.
    return _special(bulk, found.overlap[:, [0, 2] if found.common.any() else [0]]) if spectrum else bulk


def variance_cells(variance: Array, ratio: float) -> Array:
    """Return numbers that are the same for variances in one cell, which spans `ratio` in the logarithm."""
    # The mean variance, which many directions have, is in the middle of its cell.
    return np.asarray(np.rint(np.log(variance) / ratio))


def _special(bulk: Bulk, resolved: Array) -> Bulk:
    """Return few special directions that resolve some vectors: in each cell of variances those along the vectors.

    The components of the vectors are `resolved`, shape (special, vectors). Where none has any, a variance is rounding,
    and the direction is left out.
    """
    kept = np.flatnonzero((np.square(resolved) > _NO_SHARE).any(axis=1))
    cell = variance_cells(bulk.special_profile[:, kept].mean(axis=0), _NEAR)
    columns = []
    for members in (kept[cell == number] for number in np.unique(cell)):
        along = np.linalg.qr(resolved[members])[0]
        columns.append(np.zeros((len(resolved), along.shape[1])))
        columns[-1][members] = along
    turn = np.concatenate(columns, axis=1)
    spike = bulk.spike @ turn
    return replace(
        bulk,
        spike=spike / float(np.linalg.norm(spike)),
        teacher=bulk.teacher @ turn,
        pull=bulk.pull @ turn,
        norm_slope=bulk.norm_slope @ turn,
        special_profile=bulk.special_profile @ turn**2,
        second=turn.T @ bulk.second,
    )


def _bend_pull(
    problem: Problem, step: StepStatistics, groups: Groups, spike: Array, teacher: Array, factors: Array
) -> Array:
    """Return the mean of a normalised row off the spike given the part of second degree of its projection.

    Docs, "Correlated inputs", equation (C8a).
    """
    d = problem.real_sizes().d
    bt = step.alignment * spike + math.sqrt(max(1 - step.alignment**2, 0.0)) * teacher
    of_teacher, of_spike = np.split(np.array(step.fluctuations.bend_vector), [3])
    vector = (of_teacher @ factors[:3] * bt + of_spike @ factors[3:] * spike) / d**2
    # The rule of the special directions knows functions of C by their diagonals. What counts most is known exactly.
    vector -= spike * (spike @ vector) + teacher * (teacher @ vector - step.fluctuations.bend_rest / d**2)
    pull = np.outer(groups.bend_offset / np.sqrt(groups.variance), vector)
    # A mean row is shorter than its rows.
    return np.asarray(pull / (1 + np.square(pull).sum(axis=1, keepdims=True) ** 2 / _LONGEST_MEAN**4) ** 0.25)


def _common_pull(problem: Problem, common: CommonRow, groups: Groups, vector: Array) -> Array:
    """Return the mean of a normalised row off the spike along a vector that all rows of one readout share."""
    a, a_square = groups.readouts(problem.readout)
    return np.asarray((common.of(a, a_square) / np.sqrt(groups.variance))[:, None] * vector)


def _pull(groups: Groups, spike: Array, special_profile: Array) -> Array:
    """Return the mean of a normalised row off the spike given its projection on the spike: the regression."""
    regression = spike * special_profile
    regression /= (regression @ spike)[:, None]
    return np.asarray((groups.offset / np.sqrt(groups.variance))[:, None] * (regression - spike))


class _Part(NamedTuple):
    """A share of the directions, in one basis: the classes of all directions, and the special ones.

    `profile` and `special_profile` are the variances of the groups, of mean one, and `overlap` the components of the
    special vectors. `common` is the stretch of the rows times the direction of the initial output, in the special
    directions.
    """

    share: float
    directions: Array
    profile: Array
    special_profile: Array
    overlap: Array
    common: Array
    components: Array


def _parts(
    problem: Problem, step: StepStatistics, samples: StepSamples, groups: Groups, refine: float
) -> Computation[list[_Part]]:
    """Return the bases that have a share of the directions; one in which no group's variance varies is left out.

    Docs, "Structured bulk", equation (A4a).
    """
    readout = problem.readout
    a, a_square = groups.readouts(readout)
    if problem.activation.parity == "odd":
        variance = np.stack([step.stretch(a, a_square) ** 2, step.bulk * a_square, 0 * a])
        stretch = np.array([step.whole_drift])
        return (yield from _in_samples(samples.by_square, 1.0, variance, stretch, step, groups, readout, refine))
    # The bulk without what is linear in the initial row.
    rest = step.bulk - step.curvature**2 * samples.ratio * samples.law.square
    values, shares = readout_values(readout)
    without = float(shares @ values**4) * rest**2 * samples.squares_by_residual[1]
    parts = yield from _in_mean(readout, step, samples, groups, refine, _DEARER * without)
    share = 1 - sum(part.share for part in parts)
    if share > 0:
        k, diagonal = step.curvature, rest * samples.squares_by_residual[0]
        # The samples' matrix holds the drift by its mean.
        own = step.own_stretch(a, a_square)
        variance = np.stack(
            [own**2 + diagonal[0] * a_square, 2 * k * a * own + diagonal[1] * a_square, (k**2 + diagonal[2]) * a_square]
        )
        stretch = np.array([step.own_drift[0], k])
        parts += yield from _in_samples(samples.by_residual, share, variance, stretch, step, groups, readout, refine)
    return parts


def _in_mean(
    readout: Readout, step: StepStatistics, samples: StepSamples, groups: Groups, refine: float, other: float
) -> Computation[list[_Part]]:
    """Return the directions in the basis of the mean law of the rows, if it has a share that counts.

    What the other basis leaves out, with its factor, is `other`; the rest is as in `bulk_law`.

    Docs, "Structured bulk", equation (A4a).
    """
    law = samples.law
    alike, step = _as_correlated(samples, step)
    frame, output = _frame(step), (None, 0.0) if step.common is None else (samples.output, samples.output_variance)
    mean = mean_law(alike, step, readout, *output)
    assert isinstance(mean, StretchedLaw)
    mean = replace(mean, forms=samples.forms)
    # In the terms of the law, which has directions twice and the gradient's rest in its own length.
    rest = frame[-1:] / math.sqrt(samples.ratio * law.square if samples.forms is None else samples.forms.square)
    values, shares = readout_values(readout)
    resolved = yield from resolved_law(
        mean,
        np.concatenate([frame[:-1], 0 * frame[:-1], rest]),
        refine,
        values=values,
        joint=_joint(step, groups),
        sampled=groups.knows_norms,
    )
    share = 1.0
    if len(values) > 1:
        # The part of B off the diagonal matters as much as the rows' stretches differ from the mean one.
        second = readout.second_moment
        differ = float(shares @ (values - values**2 * readout.mean / second) ** 2)
        square = float(mean.root) ** 2 * (samples.ratio * law.square + law.mean(law.residual) ** 2)
        left_out = 4 * differ / second * max(square - float(resolved.diagonal_squares[1]), 0.0)
        share = other / (left_out + other) if left_out > 0 else 1.0
        share *= smooth_rise(share, *_COUNTS)
    if share == 0:
        return []
    found = yield from rules(resolved)
    both = row_variances(found, groups, step, readout)
    whole = both[0] @ found.share
    profile, special_profile = (each / whole[:, None] for each in both)
    common = np.zeros(len(found.special))
    if len(values) > 1 and step.common is not None:
        stretch = step.curvature / mean.root * found.plane_diagonals[1]
        common = stretch * (found.overlap @ frame[1])
    return [_Part(share, found.share, profile, special_profile, found.overlap, common, found.components)]


def _as_correlated(samples: StepSamples, step: StepStatistics) -> tuple[CorrelatedSamples, StepStatistics]:
    """Return the samples and the step in the terms of correlated inputs, with equal eigenvalues."""
    by_output = None
    if step.curvature != 0:
        # The own output stretches all rows in proportion to their readouts, as B does: here it is a part of B.
        in_proportion, by_row = step.own_drift
        by_output, step = np.array([in_proportion / step.curvature]), replace(step, own_drift=(0.0, by_row))
    return CorrelatedSamples(samples.law, samples.ratio, samples.linear, ISOTROPIC, by_output=by_output), step


def _lengths(
    samples: StepSamples, step: StepStatistics, groups: Groups, readout: Readout, directions: Array, profile: Array
) -> Array:
    """Return the lengths of an input that the rows see, as `seen_lengths` takes them.

    If the samples stretch no rows, all have the eigenvectors of one matrix, and the classes of directions are enough.
    """
    if step.curvature == 0:
        return profile * np.sqrt(directions)
    alike, changed = _as_correlated(samples, step)
    mean = mean_law(alike, changed, readout)
    assert isinstance(mean, StretchedLaw)
    return lengths_of_readouts(mean, readout_coefficients(groups, changed, readout))


def _frame(step: StepStatistics) -> Array:
    """Return the special vectors."""
    return directions_frame(step.alignment, None if step.common is None else step.common.alignment)


def _joint(step: StepStatistics, groups: Groups) -> bool:
    """Return whether the special vectors are resolved together."""
    return groups.resolved or step.common is not None


def _in_samples(
    samples: WeightedSamples,
    share: float,
    variance: Array,
    stretch: Array,
    step: StepStatistics,
    groups: Groups,
    readout: Readout,
    refine: float,
) -> Computation[list[_Part]]:
    """Return the directions in the basis of weighted samples, if the variance of any group varies there.

    `variance` and `stretch` are polynomials of an eigenvalue: variances of the groups, and how much longer the rows are
    for a unit of readout.
    """
    moments = samples.moments
    relative = variance / (moments[:3] @ variance)
    # Neurons whose Gaussian readout is beyond 2.5 standard deviations are too rare to matter.
    looked_at = groups.readout_square <= (6 if readout.kind == "gaussian" else math.inf)
    varying = looked_at & (np.abs(relative[1:]) > LEAST).any(axis=0)
    if not varying.any():
        return []
    a = groups.readout * math.sqrt(readout.second_moment)
    points, importance = _poles(relative[:, varying], a[varying], moments, refine)
    frame, tolerance = _frame(step), _TOLERANCE * 100.0 ** (1 - refine)
    m, slope, between, d_between, *others = yield from samples.ask(points, frame, powers=groups.knows_norms)
    mean = samples.law.mean(samples.weight) * np.ones((1, 1))
    of_all = LawAtPoints(points, m[:, None, None], slope[:, None, None], mean, importance, tolerance)
    nodes, root = yield from sparse_rule(of_all)
    of_vectors = of_all._replace(transform=between, slope=d_between, mean=samples.mean(frame))
    beside = Others(*others) if others else None
    special, overlap = yield from vectors_rule(of_vectors, joint=_joint(step, groups), others=beside)
    overlap, components = np.split(overlap, [frame.shape[1]], axis=1)
    if groups.knows_norms:
        # In the basis of B; in that of S, of odd activations, nothing is along B g and B h.
        g, h, cubes = components.T
        components = np.stack([g, special * g, h, special * h, cubes], axis=1)
    profile, special_profile = (np.maximum(polyval(each, relative), LEAST) for each in (nodes, special))
    common = polyval(special, stretch) * (overlap @ frame[1]) if step.common is not None else np.zeros(len(special))
    return [_Part(share, root[:, 0] ** 2, profile, special_profile, overlap, common, components)]


def _poles(variance: Array, readout: Array, moments: Array, refine: float) -> tuple[Complex, Array]:
    """Return where the fit has poles in an eigenvalue, as a rule: at which the variance of a group is minus a level.

    `variance`, shape (3, groups), are the coefficients of the variances, which have the mean one. `readout`, shape
    (groups,), are the readouts, of which a few are used, and `moments`, shape (powers,), are those of the law, from
    power zero.

    The points are in the upper half-plane, none near another. The last may be repeated: problems that are alike then
    have as many. The importance of a pole for the fit is that of its level, and none of what is repeated.
    """
    even = np.linspace(readout.min(), readout.max(), _READOUTS)
    taken = sorted({*np.abs(readout - even[:, None]).argmin(axis=1).tolist()})
    constant, linear, quadratic = variance[:, taken, None]
    level = levels(LEVELS[0], round(16 * refine) + 1)
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
    more = np.repeat(first[-1:], -len(first) % _ALIKE_POINTS)
    return points.ravel()[[*first, *more]], np.concatenate([1 + level[first % len(level)], 0.0 * more])
