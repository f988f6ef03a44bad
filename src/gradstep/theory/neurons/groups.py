"""Groups of neurons: quadrature nodes of the joint law of a row's projection on the spike and of its squared norm.

After the step neuron ``i`` enters the features only through ``(s_i', c_i)``: the projection of its row on the spike
direction, and the squared norm of the part orthogonal to it. Both have fluctuations of order ``1/sqrt(d)``, which
matter at leading order for every ``d``: those of ``s'`` let the trained readout use the bulk along the spike, and those
of ``c`` add the function ``d g0 / d c`` to those that the network can form (Cui et al. 2024 leave the second out).

Both depend on the readout. A Gaussian readout is almost determined by the projection if the spike is strong, and
changes only the spike if the step is weak. If a strong step has hardly any spike, for instance because ``E[sigma'] =
0``, the readout determines the norm, but neither the projection nor the norm determines the readout. It then has
quadrature nodes of its own. Between these cases results are means over both descriptions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradstep.gaussian import hermite_rule, trapezoidal_rule
from gradstep.problem import Readout
from gradstep.resolution import NOTHING
from gradstep.theory.models import RowLaw
from gradstep.theory.step.statistics import StepStatistics
from gradstep.theory.step.transitions import kept_below, smooth_rise

__all__ = ["UNRESOLVED", "Groups", "neuron_groups", "resolved_share"]

Array = NDArray[np.float64]
_Values = Array | float

_PROJECTION_NODES = 3
#: Least squared norm over its mean: at a handful of samples or dimensions the leading order may exceed the norm itself.
_LEAST_NORM = 0.1
#: Standard deviations of a Gaussian readout that are covered; what is beyond changes errors by about 1e-8.
_READOUT_RANGE = 5.75
#: The same where each costs most.
_VALUE_RANGE = 5.5
#: Spread beyond which no finer nodes are taken: neurons of so small a readout are too few.
_LARGEST_SPREAD = 1e6
#: What a readout adds to the norm by its square, times the power 3/2 of its variance given the projection. Below the
#: first value the projection is enough, and errors are off by about a per cent at most; above the second the
#: readout has nodes of its own. Between them both count: predictions must not jump where a search over the step passes
#: by.
_NORM_BY_READOUT = (0.0035, 0.007)
#: Largest factor of the square in a deviation that is skewed. The skewness of the three nodes is then 1.5, and the
#: leading order says no more.
_MOST_BENT = 0.3
#: Largest correlation of a projection and a norm up to which the second degree adds to it.
_MOST_ALIKE = 0.9
#: Least room below that bound, over the bound: where the correlation is there already, hardly anything is added, and
#: nothing is divided by zero.
_LEAST_ROOM = 1e-9
#: Stands for an infinite variance.
UNRESOLVED = 1e8


@dataclass(frozen=True)
class Groups:
    """Groups of exchangeable neurons."""

    weight: NDArray[np.float64]  #: Fraction of the neurons; sums to one. Shape (groups,).
    projection: NDArray[np.float64]  #: ``s'``, the projection of a row on the spike direction ``v``. Shape (groups,).
    #: ``c``, the squared norm of the part of the row orthogonal to ``v``. Shape (groups,).
    variance: NDArray[np.float64]
    #: By how much `variance` differs from its mean given the projection. There are two groups for each, in which it has
    #: opposite signs. Shape (groups,).
    norm_deviation: NDArray[np.float64]
    #: Mean readout weight of the group, over the root mean square of all. Shape (groups,).
    readout: NDArray[np.float64]
    readout_square: NDArray[np.float64]  #: Mean squared readout weight of the group, over that of all. Shape (groups,).
    #: Part of ``s'`` that is due to the row's own component along ``v``: its mean given ``s'`` and the readout. Zero
    #: where the readout is not resolved, for a Gaussian law if the projection determines it or it changes no norm.
    #: Shape (groups,).
    offset: NDArray[np.float64]
    #: ``d`` times the variance of the part of ``s'`` that is not due to that component: the spike follows the length of
    #: the initial row. `UNRESOLVED` where the readout is not resolved, so that ``s'`` contains no information about the
    #: row. Shape (groups,).
    projection_noise: NDArray[np.float64]
    #: Deviation of the squared norm from its mean given the projection, over its variance there (times ``d``). Zero
    #: where the norm tells nothing more of the row. Shape (groups,).
    norm_offset: NDArray[np.float64]
    #: ``d`` times the variance of the squared norm, and its covariance with the noise of the projection.
    #: Shape (groups,).
    norm_variance: NDArray[np.float64]
    norm_covariance: NDArray[np.float64]
    #: Projection of a row on a second direction orthogonal to ``v``, where features are resolved along one
    #: (`gradstep.theory.neurons.plane`); zero otherwise. Shape (groups,).
    rest: NDArray[np.float64]
    #: Correlation of a row with the row before the step, orthogonal to ``v``. Shape (groups,).
    initial: NDArray[np.float64]
    #: What the step takes from `initial` along the readout at initialisation, shape (groups,).
    taken: NDArray[np.float64]
    #: Deviation of ``s'`` from its mean given the readout, over its variance, times the square of the readout: what the
    #: part of second degree in ``s'`` tells of the row. Zero where the readout is not resolved. Shape (groups,).
    bend_offset: NDArray[np.float64]

    def readouts(self, readout: Readout) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the mean readout weight and the mean squared one of each group, in the units of the readout's law."""
        power = readout.second_moment
        return self.readout * math.sqrt(power), self.readout_square * power

    @cached_property
    def resolved(self) -> bool:
        """Whether some groups have one readout weight each."""
        return bool(self.offset.any())

    @cached_property
    def knows_norms(self) -> bool:
        """Whether the norm of a row tells of its directions."""
        return bool(self.norm_offset.any())

    @cached_property
    def readout_direction(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the readout over normalised groups: the share of its mean square there, and a unit vector."""
        readout = np.sqrt(self.weight) * self.readout
        square = (readout**2).sum(axis=-1, keepdims=True)
        # Without a step the projections are independent of the readout, and any direction will do.
        unit = np.where(square > 0, readout / np.sqrt(np.maximum(square, NOTHING)), readout.shape[-1] ** -0.5)
        return square, unit


def _readout_rule(spread: float, refine: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return a symmetric rule of even length for the Gaussian law of the projections.

    A neuron's equations bend where `spread` times its readout is of order one, perhaps very near zero; beyond, they
    follow powers of the readout. So the nodes are spaced evenly near zero and by ratios beyond: a trapezoidal rule
    needs few of them. For small spikes a few Gaussian nodes are exact.
    """
    if spread < 0.2:
        return hermite_rule(2 * round(4 * refine))
    bend = 1 / min(spread, _LARGEST_SPREAD)
    step = min(5.5 / (9 + 8 / bend), 0.18 * bend)
    return trapezoidal_rule(step / refine, _READOUT_RANGE + 0.5 * (refine - 1), thinning=min(4.0, bend))


def _values(spread: float, refine: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return values and proportions that stand for a Gaussian readout to a tenth of a per cent of the errors.

    Each is as costly as one of a vocabulary; where the equations bend, see `_readout_rule`.
    """
    bend = 1 / min(max(spread, 0.1), _LARGEST_SPREAD)
    nodes, weights = trapezoidal_rule(min(0.6, 0.27 * bend) / refine, _VALUE_RANGE, thinning=bend)
    weights = weights / weights.sum()
    return nodes / np.sqrt(weights @ nodes**2), weights


def neuron_groups(
    step: StepStatistics,
    readout: Readout,
    d: float,
    *,
    odd: bool,
    rows: RowLaw = "network",
    refine: float = 1,
    resolve: bool | None = None,
) -> Groups:
    """Return the groups for a readout law.

    Parameters
    ----------
    step : StepStatistics
        Effect of the step on a neuron of readout one.
    readout : Readout
        Law of the readout weights.
    d : float
        Input dimension.
    odd : bool
        Whether the activation is odd: then a row and its opposite give the same ridge fit, and groups are folded.
    rows : {"network", "isotropic"}
        Law of the rows: that of the real network, or that of the spiked random features model of Cui et al. 2024, in
        which the rest of a row is isotropic with a norm that does not fluctuate.
    refine : float
        Multiplies the number of nodes for a Gaussian readout.
    resolve : bool, optional
        Whether a Gaussian readout has nodes of its own; by default where its `resolved_share` is above a half.

    Notes
    -----
    The means and (co)variances of the two fluctuations are reproduced to leading order in ``1/d``: three Gaussian
    nodes in ``s'`` for each value of a finite vocabulary, or for each node of a Gaussian readout that ``s'`` does not
    determine; the full Gaussian law of ``s'`` if it determines the readout; and two nodes in ``c`` given ``s'``. This
    project.
    """
    if readout.kind == "vocabulary":
        values = np.asarray(readout.values), np.asarray(readout.weights)
        return _groups_of_values(step, values, d, odd=odd, rows=rows, scale=readout.second_moment)
    if resolve is None:
        resolve = resolved_share(step, readout, d, rows) > 0.5
    if not resolve:
        return _groups_of_projections(step, d, odd=odd, rows=rows, refine=refine)
    # The equations bend where the rest of a row or its projection changes by order one.
    spread = math.hypot(abs(step.whole_drift) + math.sqrt(step.bulk), step.spike + step.initial_overlap)
    values = _values(spread, refine)
    return _groups_of_values(step, values, d, odd=odd, rows=rows)


def resolved_share(step: StepStatistics, readout: Readout, d: float, rows: RowLaw) -> float:
    """Return the weight of the description whose readout has nodes of its own: one for a vocabulary.

    For a Gaussian readout it grows from zero to one with the contribution of the squared readout to the norm.
    """
    if readout.kind == "vocabulary":
        return 1.0
    total_spike, spread = step.spike + step.initial_overlap, _typical_spread(step, d, rows)
    norm_by_readout = (spread / (total_spike**2 + spread)) ** 1.5 * (step.bulk + step.whole_drift**2)
    return smooth_rise(norm_by_readout, *_NORM_BY_READOUT)


def _typical_spread(step: StepStatistics, d: float, rows: RowLaw) -> float:
    """Return the variance of ``s'`` at a typical readout."""
    total_spike = step.spike + step.initial_overlap
    # The bulk's own variance along v matters only where the spike is large: it is taken at the part of E a^2 that the
    # spike explains.
    return float(_projection_variance(step, d, rows, 0.0, total_spike**2 / (total_spike**2 + 1 / d)))


def _projection_variance(step: StepStatistics, d: float, rows: RowLaw, a: _Values, a_square: _Values) -> Array:
    """Return the variance of ``s'`` without what it has of its spike's mean, from the means of ``a`` and ``a^2``."""
    a, a_square = np.asarray(a), np.asarray(a_square)
    if rows == "isotropic":
        return np.asarray((1 + 2 * step.drift * a + (step.drift**2 + step.bulk) * a_square) / d)
    law = step.fluctuations
    constant, first, second = law.projection_variance
    return np.asarray((constant + first * a + (second + law.spike_variance) * a_square) / d)


class _NormKnown(NamedTuple):
    """Knowledge of a row from its norm, for pairs of groups: one has a larger norm than the other."""

    above: Array  # `norm_offset` of the upper one, and minus that of the lower, shape (groups,).
    # Shape (groups,): what a unit of `above` adds to the `offset` of a group, because a part of the projection is seen
    # to be that of the spike.
    offset: Array
    variance: Array  # `norm_variance`, shape (groups,).
    covariance: Array  # `norm_covariance`, shape (groups,).

    @classmethod
    def nothing(cls, like: Array) -> _NormKnown:
        """Return what is known where the norm tells nothing."""
        zero = np.zeros_like(like)
        return cls(zero, zero, np.ones_like(like), zero)

    def flipped(self, sign: Array) -> _NormKnown:
        """Return the same for the opposite rows."""
        return self._replace(offset=sign * self.offset, covariance=sign * self.covariance)


def _groups_of_values(
    step: StepStatistics, values: tuple[Array, Array], d: float, *, odd: bool, rows: RowLaw, scale: float = 1.0
) -> Groups:
    """Return the groups of a readout with given values and proportions, of mean square `scale`.

    Docs, "Correlated inputs", equation (C8b).
    """
    z, z_weight = hermite_rule(_PROJECTION_NODES)
    a = np.repeat(values[0], _PROJECTION_NODES)
    weight = (values[1][:, None] * z_weight).ravel()
    bent = step.fluctuations.bend_variance
    straight = _projection_variance(step, d, rows, a, a**2)
    variance = straight + bent * a**2 / d
    offset = np.tile(z, len(values[0])) * np.sqrt(variance)
    bend_offset = a**2 * offset / variance
    projection = (step.spike + step.initial_overlap) * a + _common_projection(step, a, a**2)
    projection = projection + _bent(step, a, offset, variance, d)
    mean, deviation = step.mean_variance(a, a**2), np.zeros_like(a)
    projection_noise = np.zeros_like(a)
    norm = _NormKnown.nothing(a)
    if rows == "network":
        law = step.fluctuations
        covariance = _polynomial(law.covariance, a) * a * _off_spike(step, d)
        with_bend, of_bend = _bent_norm(step, a, mean)
        norm_variance = _norm_variance(step, a, a**2, d) + of_bend
        covariance = covariance + _at_most(
            with_bend, covariance, _MOST_ALIKE * np.sqrt(d * variance * np.maximum(norm_variance, 0.0))
        )
        floor = _LEAST_NORM * mean
        mean = np.maximum(mean + _beside(step, a, a**2, straight, d) + covariance * offset / (d * variance), floor)
        # The norm depends on <w(0), v> and the initial length, which s' determines only in part.
        independent = np.maximum(norm_variance - covariance**2 / (d * variance), 0.0)
        deviation = np.sqrt(independent / d)
        projection_noise = (law.spike_variance + bent) * a**2
        of_row = 1 - projection_noise / (d * variance)
        offset = offset * of_row
        if law.norms_tell:
            above = np.divide(deviation, independent, out=np.zeros_like(a), where=independent > 0)
            with_spike = _polynomial(law.spike_covariance, a) * a * _off_spike(step, d)
            norm = _NormKnown(above, -covariance * of_row, norm_variance, with_spike)
    if odd and len(values[0]) > 1:
        # Merge opposite values, whose features differ by a sign only.
        flip = np.sign(np.where(a == 0, 1.0, a))
        projection, a, offset, norm = flip * projection, flip * a, flip * offset, norm.flipped(flip)
        bend_offset = flip * bend_offset
        keys = np.stack([np.round(projection, 14), np.round(mean, 14), np.round(deviation, 14)])
        _, first, inverse = np.unique(keys, axis=1, return_index=True, return_inverse=True)
        merged = np.asarray(np.bincount(inverse.ravel(), weights=weight), dtype=np.float64)
        projection, mean, deviation = projection[first], mean[first], deviation[first]
        # Without a step values of different sizes are alike.
        a, a_square, offset, bend_offset, projection_noise, *known = (
            np.bincount(inverse.ravel(), weights=weight * value) / merged
            for value in (a, a**2, offset, bend_offset, projection_noise, *norm)
        )
        norm = _NormKnown(*known)
        weight = merged
    else:
        a_square = a**2
    return _with_norms(
        weight, projection, mean, deviation, a / math.sqrt(scale), a_square / scale, offset, projection_noise, norm,
        _initial(step, a, a_square), bend_offset,
    )  # fmt: skip


def _groups_of_projections(step: StepStatistics, d: float, *, odd: bool, rows: RowLaw, refine: float) -> Groups:
    """Return the groups of a Gaussian readout that follows from ``s'``."""
    total_spike, spread = step.spike + step.initial_overlap, _typical_spread(step, d, rows)
    z, weight = _readout_rule(abs(total_spike) + math.sqrt(step.bulk) + d**-0.5, refine)
    projection = z * math.sqrt(total_spike**2 + spread)
    if odd:
        projection, weight = projection[z > 0], 2 * weight[z > 0]
    share = total_spike / (total_spike**2 + spread)
    a_variance = spread / (total_spike**2 + spread)
    a = share * projection
    a_square = a**2 + a_variance
    mean, deviation = step.mean_variance(a, a_square), np.zeros_like(a)
    if rows == "network":
        law = step.fluctuations
        variance = d * _projection_variance(step, d, rows, a, a_square)
        covariance = _polynomial(law.covariance, a) * a
        # E[a^k (s' - a s) | s'] drive the part of the norm that follows the projection.
        offset = projection - total_spike * a
        one, two, three = law.covariance
        following = one * (a * offset - total_spike * a_variance)
        following = following + two * (a_square * offset - 2 * total_spike * a * a_variance) + three * a**3 * offset
        floor = _LEAST_NORM * mean
        mean = np.maximum(mean + _beside(step, a, a_square, variance / d, d) + following / variance, floor)
        independent = (_norm_variance(step, a, a_square, d) - covariance**2 / variance) / d
        # Given s', the readout is uncertain by its variance and the offset moves against it.
        stretching = step.whole_drift + 2 * step.own_drift[1] * a
        slope = 2 * step.bulk * a + 2 * stretching * step.stretch(a, a**2) - total_spike * covariance / variance
        deviation = np.sqrt(np.maximum(independent, 0.0) + slope**2 * a_variance)
    if step.correlated is None:
        unresolved = np.full_like(a, UNRESOLVED)
        norm, initial = _NormKnown.nothing(a), _initial(step, a, a_square)
        return _with_norms(weight, projection, mean, deviation, a, a_square, 0 * a, unresolved, norm, initial, 0 * a)
    # v is no eigenvector of the initial rows: what a projection tells of its row is small, but the same for all alike.
    unknown = np.full_like(a, d * total_spike**2 + step.fluctuations.spike_variance)
    offset, norm = projection - total_spike * a, _NormKnown.nothing(a)
    initial = _initial(step, a, a_square)
    return _with_norms(weight, projection, mean, deviation, a, a_square, offset, unknown, norm, initial, 0 * a)


def _with_norms(
    weight: Array,
    projection: Array,
    mean: Array,
    deviation: Array,
    readout: Array,
    readout_square: Array,
    offset: Array,
    projection_noise: Array,
    norm: _NormKnown,
    initial: tuple[Array, Array],
    bend_offset: Array,
) -> Groups:
    """Return two groups for each, whose squared norms are a standard deviation below and above the mean."""
    deviation = np.minimum(deviation, (1 - _LEAST_NORM) * mean)
    if not np.any(deviation):
        fixed = 0 * norm.above
        return Groups(
            weight, projection, mean, fixed, readout, readout_square, offset, projection_noise,
            fixed, norm.variance, norm.covariance, fixed, *initial, bend_offset,
        )  # fmt: skip
    weight, projection, readout, readout_square, projection_noise, variance, covariance, bend_offset = (
        np.concatenate([column, column])
        for column in (
            weight / 2, projection, readout, readout_square, projection_noise, norm.variance, norm.covariance,
            bend_offset,
        )
    )  # fmt: skip
    mean, deviation = np.concatenate([mean, mean]), np.concatenate([-deviation, deviation])
    above = np.concatenate([-norm.above, norm.above])
    offset = np.concatenate([offset, offset]) + above * np.concatenate([norm.offset, norm.offset])
    row, taken = (np.concatenate([part, part]) for part in initial)
    return Groups(
        weight, projection, mean + deviation, deviation, readout, readout_square, offset, projection_noise,
        above, variance, covariance, 0 * above, row, taken, bend_offset,
    )  # fmt: skip


def _initial(step: StepStatistics, a: Array, a_square: Array) -> tuple[Array, Array]:
    """Return `Groups.initial` and `Groups.taken`.

    Docs, "Uniform equivalent", equations (E12) and (E12c).
    """
    variance, factor = np.maximum(step.mean_variance(a, a_square), NOTHING), step.stretch(a, a_square)
    if step.correlated is not None and not step.given_output:
        # Classes of directions are stretched unequally, and so is what the step takes of them: a pair of vectors with
        # the mean over the classes of what is missing.
        share, (one, two) = step.correlated.spectrum.share, step.correlated.stretch
        once, root = float(share @ one), math.sqrt(float(share @ two))
        stretched = float(share @ (step.class_drift * two))
        initial = (once * step.own_stretch(a, a_square) + stretched * a) / (root * np.sqrt(variance))
        return initial, step.taken * root / np.sqrt(variance)
    # After a damped step this square is a sum of moments of samples, and may be just below zero where it vanishes.
    square = np.maximum(step.stretch_square(a, a_square), 0.0)
    initial = np.copysign(np.sqrt(square / variance), factor)
    return initial, (1 - step.readout_shrinkage) * (initial if step.given_output else 1 / np.sqrt(variance))


def _common_projection(step: StepStatistics, a: Array, a_square: Array) -> Array:
    """Return the mean projection beyond the spike, of rows that are taken given an initial output of order one."""
    return np.zeros_like(a) if step.common is None else step.common.projection * step.common.of(a, a_square)


def _bent(step: StepStatistics, a: Array, offset: Array, variance: Array, d: float) -> Array:
    """Return a Gaussian deviation of the projection, made skewed by its part of second degree.

    The variance stays what it is. Docs, "Correlated inputs", equation (C8c).
    """
    law = step.fluctuations
    if not any(law.bend_third):
        return offset
    third = law.bend_third[0] * a + law.bend_third[1] * a**3
    normal = offset / np.sqrt(variance)
    bend = _MOST_BENT * np.tanh(third / d**2 / variance**1.5 / 6 / _MOST_BENT)
    return np.asarray(np.sqrt(variance) * (np.sqrt(1 - 2 * bend**2) * normal + bend * (normal**2 - 1)))


def _bent_norm(step: StepStatistics, a: Array, mean: Array) -> tuple[Array, Array]:
    """Return ``d`` times what the second degree adds to the covariance of projection and norm, and to its variance.

    It is a leading order, which ends where this part of the norm is no longer small beside the mean of the whole.
    """
    covariance, variance = step.fluctuations.bend_norm
    left = (1 + (2 * step.own_component_norm * a**2 / mean) ** 4) ** -0.5
    return left * covariance * a**3, left**2 * variance * a**4


def _at_most(added: Array, known: Array, bound: Array) -> Array:
    """Return what is added to a number, smoothly kept so small that the sum does not pass a bound of its size."""
    room = np.maximum(bound - np.sign(added) * known, _LEAST_ROOM * bound + NOTHING)
    return kept_below(added, room)


def _polynomial(coefficients: Sequence[float], a: Array) -> Array:
    return np.asarray(np.polynomial.polynomial.polyval(a, coefficients))


def _beside(step: StepStatistics, a: Array, a_square: Array, variance: Array, d: float) -> Array:
    """Return what else is in the norm, less what a row has along the spike beyond a direction's share.

    The spike's own variance is in the projection, but not in the norm of the rest.
    """
    one, two = step.own_norm
    added = (one + step.own_component_norm + two * a) * a_square
    if step.correlated is None:
        return added
    return added - (variance - (1 + step.fluctuations.spike_variance * a_square) / d)


def _norm_variance(step: StepStatistics, a: Array, a_square: Array, d: float) -> Array:
    """Return ``d`` times the variance of the squared norm, from the means of ``a`` and ``a^2``."""
    law = step.fluctuations
    coefficients = (across + along for across, along in zip(law.norm_variance, law.slope_square, strict=True))
    # Of the fluctuation before the step the factor enters once, of all that the step adds twice.
    off = [_off_spike(step, d) ** min(power + 1, 2) for power in range(5)]
    powers = (a_square ** (k // 2) * a ** (k % 2) for k in range(5))
    return np.asarray(sum(f * c * p for f, c, p in zip(off, coefficients, powers, strict=True)))


def _off_spike(step: StepStatistics, d: float) -> float:
    """Return what the directions off the spike have of ``tr C^2``, one to leading order.

    With correlated inputs the spike direction may have far more than its share.
    """
    if step.correlated is None:
        return 1.0
    first, second = (step.correlated.form_along(step.alignment, power) for power in (1, 2))
    return max(1 - (2 * second - first**2 - 1) / (d * step.correlated.spectrum.moment(2)), _LEAST_NORM)
