"""Features and teacher given the projection ``kappa = <x, v>`` of an input on the spike direction.

For ridge regression and given ``kappa``, a neuron of a group with row ``(s, c)`` is equivalent to
``g0 + g1 <w, x_perp> + sqrt(g2) xi`` with independent Gaussian ``<w, x_perp>`` and ``xi`` of variance one
(conditional Gaussian equivalence; Cui et al. 2024, Result 3.2, for one group).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradstep.errors import InvalidInput, NotConverged
from gradstep.gaussian import (
    ScalarFunction,
    Smoothed,
    gaussian_rule,
    smoothed,
    structure,
    trapezoidal_rule,
)
from gradstep.gaussian.quadrature import THINNING
from gradstep.resolution import NOTHING
from gradstep.theory.equivalent.along_rest import (
    RANGE,
    AlongRest,
    Overlaps,
    breakpoints,
    on_a_lattice,
    on_either_side,
    on_the_whole_line,
    teacher_along_rest,
)
from gradstep.theory.equivalent.stacks import scaled_factors
from gradstep.theory.models import RowLaw
from gradstep.theory.neurons.groups import Groups
from gradstep.theory.step.transitions import kept_below

__all__ = [
    "ConditionalFeatures",
    "conditional_features",
    "kappa_rule",
    "length_dimension",
    "row_features",
]

#: Largest mean square of a feature: the equations multiply two of them, and numbers end at 2e308.
_LARGEST_MOMENT = 1e160
#: Advice in errors about moments that are too large.
_SLOWER = "one that grows less fast, or a smaller step"


@dataclass(frozen=True)
class ConditionalFeatures:
    """Tables over groups and nodes of kappa."""

    #: Nodes and probability weights. With an odd activation only the positive half is kept (weights doubled) and the
    #: teacher's tables hold the parity that the features can see. Shape (nodes,).
    kappa: NDArray[np.float64]
    weight: NDArray[np.float64]
    #: ``g0``, ``g1`` and ``g2``. Shape (groups, nodes).
    mean: NDArray[np.float64]
    slope: NDArray[np.float64]
    variance: NDArray[np.float64]
    #: ``h0 = E f*``, ``h1 = E t f*`` and ``E f*^2`` given kappa, ``t`` the teacher's coordinate off the spike.
    #: Shape (nodes,).
    teacher_mean: NDArray[np.float64]
    teacher_slope: NDArray[np.float64]
    teacher_square: NDArray[np.float64]
    #: Slope of ``g0`` along the length of an isotropic input, a standard normal. The square of that length off the
    #: spike has the relative variance ``2/(d-1)``, and scales the variance of every pre-activation. This is a small
    #: change of each neuron, but the same for all. If neurons share the sign of the spike, it has the same effect on
    #: the fit as a spike of order ``d**-1/2``. Shape (groups, nodes) or (groups, 0).
    length_slope: NDArray[np.float64]
    #: Coordinates along a second direction at the nodes, where that is resolved; zero otherwise. Nodes of one kappa
    #: then follow each other, and t is the teacher's coordinate off both directions. Shape (nodes,).
    rest: NDArray[np.float64]
    #: Slopes along products of two and of three coordinates of variance one: coefficients of the normalised Hermite
    #: polynomials of degree two and three in the pre-activation off the spike, without what depends on the length of
    #: the input only. Shape (2, groups, nodes) or (0, groups, nodes).
    higher: NDArray[np.float64]
    #: Factor of the variance of a pre-activation. Where features are resolved along the length of an input, nodes of
    #: short and of long inputs take turns; elsewhere it is one. Shape (groups, nodes).
    stretch: NDArray[np.float64]

    @cached_property
    def first(self) -> NDArray[np.intp]:
        """Index of the first node of each kappa, shape (kappas,)."""
        return np.flatnonzero(np.diff(self.kappa, prepend=-np.inf))

    def along_spike(self, values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the mean given kappa of values at the nodes, and their slope along the teacher's rest."""
        if len(self.first) == len(self.kappa):
            return values, np.zeros_like(values)
        weight = np.add.reduceat(self.weight, self.first)
        mean, slope = np.add.reduceat(
            self.weight * values * np.stack([np.ones_like(self.rest), self.rest]), self.first, axis=1
        )
        return mean / weight, slope / weight


#: Nodes along the second direction for each of kappa, of neurons that are hardly curved along it, at a refinement of
#: one: for the square loss, and for others on one side of a kink of the labels; and their distance for smooth labels.
_ACROSS, _ON_A_SIDE, _LATTICE_STEP = 13.0, 8.0, 0.54
#: How many more on a side where the teacher is averaged over its rest, which turns a kink within a short length.
_AVERAGED = 1.5
#: Dimension of the slopes in the plane that counts, over the largest: errors change by less than 1e-6. Few dimensions,
#: over the groups, take less time.
_DIMENSION, _FEW = 1e-5, 0.5
#: Relative change of the variance in the differences that stand for derivatives: first ones are right to about its
#: square, and second ones lose few digits.
_CHANGE = 3e-3
#: Least share of the residual variance that remains when what follows the length of an input is taken out.
_LEAST_LEFT = 1e-3
#: Added to the range for each degree above three of a polynomial teacher, whose square grows farther out; and the most.
_RANGE_OF_DEGREE, _LARGEST_RANGE = 0.3, 20.0
#: By how much less is covered in the plane, where errors of 1e-4 are accepted: it changes errors by less than 1e-5.
_LESS_IN_PLANE = 1.0
#: Step of the trapezoidal rule for integrands as smooth as the Gaussian weight itself, with neurons of all slopes and
#: with neurons that are nearly alike: these may all saturate together, so that what is left to a fit turns sharply.
_MIXED_STEP, _ALIKE_STEP = 0.6, 0.5
#: Width of the average over a teacher below which the smaller step is taken for either: a cubic teacher needs it.
_SEEN = 0.1
#: Share of the readout's power in groups so steep that they need no resolution of their own (a Gaussian law's tail).
_UNRESOLVED = 0.05
#: Numbers in the largest table, and nodes that are kept and groups (each pair of them has numbers too). Steps of any
#: use take a tenth; far beyond, the memory would not suffice.
_LARGEST_TABLE, _MOST_NODES, _MOST_GROUPS = 2**21, 2**12, 2**11
#: Nodes in the plane above which they are fewer than wanted, before those beyond the radius are left out. Errors change
#: by less than 1e-5 as a rule, and by 7e-4 for a kink and a Gaussian readout after 1.6 sqrt N, where one direction
#: alone is off by more than the error itself. The time grows faster than the nodes.
_MOST_IN_PLANE = 2**12
#: Nodes along the spike that may be wanted there, before they are made fewer. Where half as many as this were wanted
#: (relu, d = 1000, an eigenvalue near the bound d/8), errors were right to 5e-4.
_MOST_WANTED = 2**14


def _teacher_breakpoints(teacher: ScalarFunction, alignment: float, scale: float) -> list[float]:
    """Return points of kappa that resolve the teacher's kinks, smoothed over `scale`, by graded panels."""
    points: list[float] = []
    for kink in teacher.kinks:
        centre = kink / alignment
        points.append(centre)
        reach = 4 * max(scale, 1e-9)
        while reach < RANGE:
            points += [centre - reach, centre + reach]
            reach *= 4
    return [p for p in points if abs(p) < RANGE]


def _finer(projection: NDArray[np.float64], groups: Groups) -> float:
    """Return how much finer nodes must be along a direction on which the rows have these projections."""
    slopes = np.abs(projection) / np.sqrt(groups.variance)
    steepest = np.argsort(-slopes)
    power = np.cumsum((groups.weight * groups.readout_square)[steepest])
    steepness = slopes[steepest][np.searchsorted(power, _UNRESOLVED)]
    return float(np.sqrt(1 + 2.5 * steepness**2))


def _reach(teacher: ScalarFunction) -> float:
    """Return how many standard deviations are covered."""
    degree = None if teacher.expression is None else structure.degree(teacher.expression)
    return min(RANGE + _RANGE_OF_DEGREE * max((degree or 0) - 3, 0), _LARGEST_RANGE)


def kappa_rule(
    activation: ScalarFunction,
    teacher: ScalarFunction,
    groups: Groups,
    alignment: float,
    refine: float = 1,
    *,
    most: int | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return nodes and weights in kappa that resolve the features and the teacher.

    The pre-activation widens a feature over ``sqrt(c)/s`` and the teacher over ``sqrt(1 - gamma^2)/gamma``. Where
    these are not small the plain trapezoidal rule converges exponentially; a sharper kink of the teacher gets panels.

    The overlap of the spike direction with the teacher is `alignment`, and `refine` multiplies the number of nodes. The
    nodes are on the whole line; an average over a standard normal is a weighted sum. At most `most` of them may be
    needed; by default, as many as a table of features may have. Raises `NotConverged` if the features are so steep that
    they need more, or the readout has too many values.
    """
    alike = groups.resolved
    rest = np.sqrt(max(1 - alignment**2, 0.0))
    scale = rest / max(abs(alignment), 1e-12)
    step = _ALIKE_STEP if alike else _ALIKE_STEP + (_MIXED_STEP - _ALIKE_STEP) * min(scale / _SEEN, 1.0)
    step /= _finer(groups.projection, groups)
    kink_step = 0.8 * scale if teacher.kinks else np.inf
    pole_step = 0.2 * np.hypot(teacher.pole_distance / max(abs(alignment), 1e-12), 3 * scale)
    step = min(step, pole_step)
    # Before the nodes are made: an estimate that is too small by a few units at most.
    _check_resolution(RANGE / step, groups, activation, most)
    if kink_step >= 0.6 * step:
        # Nodes thin out far from zero where neurons have all slopes.
        thinning = np.inf if alike else THINNING
        nodes, weights = trapezoidal_rule(min(step, kink_step) / refine, _reach(teacher), thinning=thinning)
    else:
        points = _teacher_breakpoints(teacher, alignment, scale)
        panel = 2.5 * step
        if activation.parity == "odd":
            # The half that is kept must mirror the half that is folded onto it.
            points += [-p for p in points]
        points += list(np.arange(-np.floor(RANGE / panel), np.floor(RANGE / panel) + 1) * panel)
        nodes, weights = gaussian_rule(breakpoints=tuple(sorted(points)), resolution=panel / refine, order=10)
    _check_resolution(len(nodes), groups, activation, most)
    return nodes, weights


def _check_resolution(nodes: float, groups: Groups, activation: ScalarFunction, allowed: int | None = None) -> None:
    """Refuse a table that the memory would not take, or more nodes than are allowed."""
    if (count := len(groups.weight)) > _MOST_GROUPS:
        reason = f"would take {count} groups of neurons, at most {_MOST_GROUPS} are possible"
        advice = "Use a readout law with fewer values."
        raise NotConverged("resolution of the readout law", count, _MOST_GROUPS, advice, reason)
    most = allowed or min(_MOST_NODES * (2 if activation.parity == "odd" else 1), _LARGEST_TABLE / len(groups.weight))
    if not nodes <= most:
        advice = "Use a smaller step, or a teacher that is less steep."
        reason = f"would take {nodes:.3g} nodes, at most {most:.0f} are possible"
        raise NotConverged("resolution of the features along the spike", nodes, most, advice, reason)


class RowFeatures(NamedTuple):
    """Averages of the features of each group at each node, of shape (groups, nodes) but for `higher`."""

    row: Smoothed  #: Given all that features are resolved along.
    #: Coefficients of the normalised Hermite polynomials of degree two to five in the pre-activation off the spike,
    #: shape (4, groups, nodes); or (0, groups, nodes) in infinite dimension.
    higher: NDArray[np.float64]
    #: How fast the residual variance grows with the relative variance of the pre-activation, or zero.
    growth: NDArray[np.float64]


def row_features(
    activation: ScalarFunction,
    groups: Groups,
    kappa: NDArray[np.float64],
    dimension: float = np.inf,
    rest: NDArray[np.float64] | float = 0.0,
) -> RowFeatures:
    """Return averages of the features of each group, given kappa.

    The dimension may be infinite. Where a second direction is resolved, `rest`, shape (nodes,), are the coordinates
    along it.

    Coefficients of higher degree follow from how mean and slope change with the variance of the pre-activation. Raises
    `InvalidInput` if the activation grows so fast that its averages over rows after the step are infinite, or so large
    that their products are.

    Docs, "Uniform equivalent", equation (E7). Docs, "Gaussian calculus", equation (G3).
    """
    scales = np.ones(1) if dimension == np.inf else np.array([1, 1 + _CHANGE, 1 - _CHANGE])
    deviation = np.sqrt(scales[:, None, None] * groups.variance[:, None])
    try:
        centre = groups.projection[:, None] * kappa + groups.rest[:, None] * rest
        found = smoothed(activation, centre, deviation)
    except InvalidInput as error:
        if error.field != "scale":
            raise
        reason = f"whose moments are infinite or overflow at pre-activations of scale {error.value:.3g} after the step"
        raise InvalidInput("activation", activation.name, _SLOWER, reason) from None
    largest = float(found.second_moment.max())
    if largest > _LARGEST_MOMENT:
        scale = f"{largest:.1e} at pre-activations of scale {deviation.max():.1e} after the step"
        reason = f"whose mean square is {scale}: above {_LARGEST_MOMENT:.0e} products of two overflow"
        raise InvalidInput("activation", activation.name, _SLOWER, reason)
    # Copies: what tables keep must not hold on to the averages of the longer ones.
    row = Smoothed(*(values[0].copy() for values in found))
    if dimension == np.inf:
        return RowFeatures(row, np.empty((0, *row.mean.shape)), np.zeros_like(row.mean))
    # The slope over the deviation is the mean derivative. That of a linear activation is constant, so that its
    # differences are exactly zero.
    change, bend = _differences(found.mean)
    of_slope, bend_of_slope = deviation[0] * np.array(_differences(found.slope / deviation))
    higher = (
        math.sqrt(2) * change,
        math.sqrt(2 / 3) * of_slope,
        math.sqrt(2 / 3) * bend,
        math.sqrt(2 / 15) * bend_of_slope,
    )
    return RowFeatures(row, np.stack(higher), _differences(found.residual_variance)[0])


def _differences(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the first two derivatives in the relative variance, from values at one and at `_CHANGE` more and less."""
    here, more, less = values
    return (more - less) / (2 * _CHANGE), ((more - here) - (here - less)) / _CHANGE**2


def length_dimension(activation: ScalarFunction, rows: RowLaw, dimension: float) -> float:
    """Return the dimension for `row_features`: infinite where a model leaves the length out.

    Spiked random features do, if the activation is odd (Cui et al. 2024): it adds an error of order ``1/d``, but so may
    all of the error be after a large step. Otherwise it may be of leading order, and no model is without it.
    """
    return np.inf if rows == "isotropic" and activation.parity == "odd" else dimension


def conditional_features(
    activation: ScalarFunction,
    teacher: ScalarFunction,
    groups: Groups,
    alignment: float,
    refine: float = 1,
    dimension: float = np.inf,
    *,
    any_loss: bool = False,
    overlap: float = 0.0,
    lengths: NDArray[np.float64] | None = None,
) -> ConditionalFeatures:
    """Return the tables of conditional features for given groups.

    Docs, "Uniform equivalent", equation (E8).

    The alignment is the overlap of the spike direction with the teacher, and the overlap that of a second direction,
    which is resolved too, with the teacher's rest; it is zero if there is none. `refine` multiplies the resolution in
    kappa, and the dimension sets how much the length of an input fluctuates (by default not at all). For `any_loss` the
    nodes serve losses other than the square: those of an odd activation on either side of zero, and those along a
    second direction on either side of the teacher's kinks. If `lengths` are given, there are two nodes for each of
    kappa, for short and for long inputs, unless they were too many or a second direction is resolved: the features are
    then without the part that follows the length. They have the shape (groups,) and are the standard deviations of the
    relative variance of a pre-activation that is due to the length of an input.

    Raises `InvalidInput` as `row_features` does, and `NotConverged` if the features are so steep that resolving them
    would take the memory.
    """
    plane = overlap > 0
    # In the plane steep features need half the nodes: errors change by less than 1e-5.
    coarser = 0.5 + 0.5 / _finer(groups.projection, groups) if plane else 1.0
    wanted = _MOST_WANTED if plane else None
    kappa, weight = kappa_rule(activation, teacher, groups, alignment, coarser * refine, most=wanted)
    finer = refine * _finer(groups.rest, groups) if plane else 0.0
    if (nodes := len(kappa) * _ACROSS * finer) > _MOST_IN_PLANE:
        # Fewer along either direction: the features are very steep there.
        fewer = math.sqrt(_MOST_IN_PLANE / nodes)
        finer *= fewer
        kappa, weight = kappa_rule(activation, teacher, groups, alignment, fewer * coarser * refine, most=wanted)
    rest = np.sqrt(max(1 - alignment**2, 0.0))
    target = smoothed(teacher, alignment * kappa, rest)
    if plane and any_loss:
        across = _of_any_loss(teacher, Overlaps.of(alignment, overlap), kappa, finer)
        return _in_plane(activation, groups, dimension, kappa, weight, teacher, across, lengths)
    # Coefficients of the teacher along the rest: mean and slope, or as many as there are nodes.
    known = np.stack([target.mean, target.slope])
    if plane:
        known = teacher_along_rest(teacher, alignment, kappa, math.ceil(_ACROSS * finer) + 1)
    square = target.second_moment
    if activation.parity == "odd" and not any_loss:
        # Features only see the part that is odd under a change of sign of both coordinates.
        half, sign = kappa > 0, (-1.0) ** np.arange(len(known))[:, None]
        known = ((known - sign * known[:, ::-1]) / 2)[:, half]
        square = (square + square[::-1])[half] / 2
        kappa, weight = kappa[half], 2 * weight[half]
    if plane:
        across = on_the_whole_line(known, square, overlap)
        return _in_plane(activation, groups, dimension, kappa, weight, teacher, across, lengths)
    found, (h0, h1), stretch = row_features(activation, groups, kappa, dimension), known, np.ones((1, 1))
    row, higher = found.row, found.higher
    if lengths is not None and 2 * len(kappa) > _MOST_NODES:
        row, higher = _less_length(found, lengths[:, None])
    elif lengths is not None:
        # Two nodes of each have the mean and the variance of a length.
        kappa, weight, square, h0, h1 = (np.repeat(of, 2) for of in (kappa, weight / 2, square, h0, h1))
        row, higher, stretch = _by_length(found, lengths[:, None])
    tables = row.mean, row.slope, row.residual_variance, h0, h1, square, _length_slope(higher, dimension)
    stretch = np.broadcast_to(stretch, row.mean.shape)
    return ConditionalFeatures(kappa, weight, *tables, np.zeros_like(kappa), _of_coordinates(higher), stretch)


def _by_length(
    found: RowFeatures, lengths: NDArray[np.float64]
) -> tuple[Smoothed, NDArray[np.float64], NDArray[np.float64]]:
    """Return the averages in short inputs and in long ones, which take turns, and the stretch of the pre-activation.

    The lengths have shape (groups, 1). The second result are the slopes along products of two and of three coordinates.

    Docs, "Uniform equivalent", equation (E8d).
    """
    sign, row = np.array([-1.0, 1.0]), found.row
    coefficients = [row.mean, row.slope, *found.higher]
    shares = [_share_by_length(degree, lengths) for degree in range(len(coefficients))]
    values, left = [], row.residual_variance
    for degree, (own, share) in enumerate(zip(coefficients[:4], shares, strict=False)):
        change = np.sqrt(shares[degree + 2]) * coefficients[degree + 2]
        along = sign - degree * lengths[..., None]
        values.append(_turns((np.sqrt(1 - share) * own)[..., None], change[..., None] * along))
        if degree < 2:
            left = left - (1 - degree * np.square(lengths)) * np.square(change)
    whole = np.maximum(row.residual_variance, NOTHING)
    left = np.maximum(left, _LEAST_LEFT * row.residual_variance)[..., None]
    variance = _turns(left, left * sign * np.tanh(lengths * found.growth / whole)[..., None])
    stretch = _turns(np.ones((*left.shape[:2], 1)), sign * lengths[..., None])
    mean, slope, *higher = values
    slope = slope * np.sqrt(stretch)
    return Smoothed(mean, slope, mean**2 + slope**2 + variance, variance), np.array(higher), stretch


def _less_length(found: RowFeatures, lengths: NDArray[np.float64]) -> tuple[Smoothed, NDArray[np.float64]]:
    """Return the averages where only the means follow the length of an input.

    The noise, and the slopes along products, are without the part that follows it. The results are as in `_by_length`,
    but for the stretch.
    """
    share = np.stack([_share_by_length(degree, lengths) for degree in (2, 3)])
    parts = np.square(found.higher[:2])
    variance = np.maximum(found.row.residual_variance - share[0] * parts[0], _LEAST_LEFT * found.row.residual_variance)
    return found.row._replace(residual_variance=variance), np.sqrt(1 - share) * found.higher[:2]


def _share_by_length(degree: int, lengths: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the share in a part of some degree that is the length of an input times a part of two degrees less.

    To leading order it is ``degree (degree - 1) / 4`` times the square of the length; it stays below one.
    """
    share = degree * (degree - 1) / 4 * np.square(lengths)
    return kept_below(share, 1.0)


def _turns(middle: NDArray[np.float64], change: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return values in short and in long inputs, of shape (groups, nodes, 2), as values at nodes that take turns."""
    values = middle + change
    return values.reshape(len(values), -1)


def _length_slope(higher: NDArray[np.float64], dimension: float) -> NDArray[np.float64]:
    """Return `ConditionalFeatures.length_slope`."""
    return np.asarray(higher[0] / np.sqrt(dimension - 1)) if len(higher) else np.empty((higher.shape[1], 0))


def _of_coordinates(higher: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return `ConditionalFeatures.higher` from coefficients of degree two, three and more."""
    found = [_few_dimensions(part) for part in higher[:2]]
    return np.array(found).reshape(-1, *higher.shape[1:])


def _few_dimensions(slope: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return slopes with the dimensions that count, if these are few: equations are then solved between them.

    The slopes have shape (groups, nodes).
    """
    left, right, _ = scaled_factors(slope, _DIMENSION)
    return np.asarray(left @ right if left.shape[1] < _FEW * len(left) else slope)


def _of_any_loss(teacher: ScalarFunction, overlaps: Overlaps, kappa: NDArray[np.float64], finer: float) -> AlongRest:
    """Return the nodes along a second direction for a loss that asks for the law of the labels."""
    ends = breakpoints(teacher, overlaps.spike)
    if ends.size:
        count = _ON_A_SIDE * finer * (_AVERAGED if overlaps.rest else 1.0)
        return on_either_side(teacher, overlaps, kappa, ends, math.ceil(count))
    return on_a_lattice(teacher, overlaps, kappa, _LATTICE_STEP / finer)


def _in_plane(
    activation: ScalarFunction,
    groups: Groups,
    dimension: float,
    kappa: NDArray[np.float64],
    weight: NDArray[np.float64],
    teacher: ScalarFunction,
    across: AlongRest,
    lengths: NDArray[np.float64] | None,
) -> ConditionalFeatures:
    """Return tables at nodes of two coordinates. Nodes that are far out are left out.

    Docs, "Uniform equivalent", equations (E19) and (E19b).
    """
    kappa = np.broadcast_to(kappa[:, None], across.t.shape)
    near = (np.hypot(kappa, across.t) < _reach(teacher) - _LESS_IN_PLANE) & (across.share > 0)
    weight = (weight[:, None] * across.share)[near]
    kappa, t, mean, inclined, hidden = (
        values[near] for values in (kappa, across.t, across.mean, across.slope, across.hidden)
    )
    _check_resolution(len(kappa), groups, activation)
    found = row_features(activation, groups, kappa, dimension, t)
    row, higher = (found.row, found.higher) if lengths is None else _less_length(found, lengths[:, None])
    slope = _few_dimensions(row.slope)
    tables = row.mean, slope, row.residual_variance, mean, inclined, mean**2 + inclined**2 + hidden
    length, one = _length_slope(higher, dimension), np.ones_like(row.mean)
    return ConditionalFeatures(kappa, weight / weight.sum(), *tables, length, t, _of_coordinates(higher), one)
