"""Groups of neurons: quadrature nodes of the joint law of a row's projection on the spike and of its squared norm.

After the step neuron ``i`` enters the features only through ``(s_i', c_i)``: the projection of its row on the spike
direction and the squared norm of the rest. Both keep fluctuations of order ``1/sqrt(d)`` however large ``d`` is, and
these matter at leading order: those of ``s'`` carry the overlap of the trained readout with the bulk along the
spike, those of ``c`` open the direction ``d g0 / d c`` (Cui et al. 2024 leave the second out).

Both follow the readout. A Gaussian readout is as good as known from the projection where the spike is strong, and
changes nothing but the spike where the step is weak. Where a strong step has hardly a spike (``E[sigma'] = 0``, say) it
decides the norm and is told by neither: then it has nodes of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gradstep.gaussian import trapezoidal_rule
from gradstep.problem import Readout
from gradstep.theory.step import StepStatistics

__all__ = ["Groups", "RowLaw", "neuron_groups"]

#: Law of the first layer's rows: the network's, or that of spiked random features (Cui et al. 2024).
RowLaw = Literal["network", "isotropic"]

_PROJECTION_NODES = 3
#: Standard deviations of a Gaussian readout that are covered; what is beyond changes errors by about 1e-8.
_READOUT_RANGE = 5.75
#: The same where each costs most.
_LETTER_RANGE = 5.5
#: Spreads beyond which no finer nodes are taken, of the two rules: neurons of so small a readout are too few.
_LARGEST_SPREAD, _LARGEST_LETTER_SPREAD = 1e6, 1e2
#: What a readout adds to the norm by its square, times the power 3/2 of its variance given the projection, from which
#: it is resolved: below, errors are off by about half a per cent at most.
_UNTOLD = 0.005


@dataclass(frozen=True)
class Groups:
    """Groups of exchangeable neurons.

    Attributes
    ----------
    weight : ndarray, shape (groups,)
        Fraction of the neurons; sums to one.
    projection : ndarray, shape (groups,)
        ``s'``, the projection of a row on the spike direction ``v``.
    variance : ndarray, shape (groups,)
        ``c``, the squared norm of the rest of the row.
    readout : ndarray, shape (groups,)
        Mean readout weight of the group, over the root mean square of all.
    readout_square : ndarray, shape (groups,)
        Mean squared readout weight of the group, over that of all.
    offset : ndarray, shape (groups,)
        ``s'`` less its mean given the readout, without what its spike has of it; zero where the readout is not resolved
        (Gaussian law, if the projection tells it or it changes no norm).
    """

    weight: NDArray[np.float64]
    projection: NDArray[np.float64]
    variance: NDArray[np.float64]
    readout: NDArray[np.float64]
    readout_square: NDArray[np.float64]
    offset: NDArray[np.float64]

    @cached_property
    def resolved(self) -> bool:
        """Whether each group has one readout weight."""
        return bool(self.offset.any())

    @cached_property
    def readout_direction(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the readout over normalised groups: the share of its power that they tell, and a unit vector."""
        readout = np.sqrt(self.weight) * self.readout
        square = (readout**2).sum(axis=-1, keepdims=True)
        # Without a step the projections tell nothing of the readout: any direction will do.
        unit = np.where(square > 0, readout / np.sqrt(np.maximum(square, 1e-300)), readout.shape[-1] ** -0.5)
        return square, unit


@lru_cache(maxsize=16)
def _hermite_rule(count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    nodes, weights = np.polynomial.hermite_e.hermegauss(count)
    return nodes, np.asarray(weights / weights.sum(), dtype=np.float64)


def _readout_rule(spread: float, refine: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return a symmetric rule of even length for the Gaussian law of the projections.

    A neuron's equations bend where `spread` times its readout is of order one, perhaps very near zero; beyond, they
    follow powers of the readout. So the nodes are spaced evenly near zero and by ratios beyond: a trapezoidal rule
    needs few of them. For small spikes a few Gaussian nodes are exact.
    """
    if spread < 0.2:
        return _hermite_rule(8 * refine)
    bend = 1 / min(spread, _LARGEST_SPREAD)
    step = min(5.5 / (9 + 8 / bend), 0.18 * bend)
    return trapezoidal_rule(step / refine, _READOUT_RANGE + 0.5 * (refine - 1), thinning=min(4.0, bend))


def _letters(spread: float, refine: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return letters and proportions that stand for a Gaussian readout to a tenth of a per cent of the errors.

    Each is as costly as one of a vocabulary; where the equations bend, see `_readout_rule`.
    """
    bend = 1 / min(max(spread, 0.1), _LARGEST_LETTER_SPREAD)
    nodes, weights = trapezoidal_rule(min(0.6, 0.3 * bend) / refine, _LETTER_RANGE, thinning=bend)
    weights = weights / weights.sum()
    return nodes / np.sqrt(weights @ nodes**2), weights


def neuron_groups(
    step: StepStatistics,
    readout: Readout,
    d: float,
    *,
    odd: bool,
    rows: RowLaw = "network",
    refine: int = 1,
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
    refine : int
        Multiplies the number of nodes for a Gaussian readout.

    Returns
    -------
    Groups

    Notes
    -----
    The means and (co)variances of the two fluctuations are reproduced to leading order in ``1/d``: three Gaussian
    nodes in ``s'`` for each value of a finite vocabulary, or each node of a Gaussian readout that ``s'`` does not tell;
    the full Gaussian law of ``s'`` for one that it tells; and two nodes in ``c`` given ``s'``. This project.
    """
    total_spike = step.spike + step.initial_overlap

    def projection_variance(a2: NDArray[np.float64] | float, a: NDArray[np.float64] | float) -> NDArray[np.float64]:
        if rows == "isotropic":
            return np.asarray(((1 + step.drift * np.asarray(a)) ** 2 + step.bulk * np.asarray(a2)) / d)
        first, second = step.projection_variance
        return np.asarray((1 + first * np.asarray(a) + (second + step.spike_variance) * np.asarray(a2)) / d)

    # The bulk's own variance along v is felt only where the spike is large: take it at the part of E a^2 that the spike
    # explains.
    spread = projection_variance(total_spike**2 / (total_spike**2 + 1 / d), 0.0)
    untold = float(spread / (total_spike**2 + spread)) ** 1.5 * (step.bulk + step.drift**2)
    letters: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None
    if readout.kind == "vocabulary":
        letters = np.asarray(readout.values), np.asarray(readout.weights)
    elif untold > _UNTOLD:
        letters = _letters(abs(step.drift) + float(np.sqrt(step.bulk)), refine)
    if letters is not None:
        a = np.repeat(letters[0], _PROJECTION_NODES)
        z, z_weight = _hermite_rule(_PROJECTION_NODES)
        offset = np.tile(z, len(letters[0])) * np.sqrt(projection_variance(a**2, a))
        weight = (letters[1][:, None] * z_weight).ravel()
        projection = total_spike * a + offset
        a_mean, a_square = a, a**2
        # E[a^k (s' - a s) | s'] drive the part of the norm that follows the projection.
        a_offset, a2_offset, a3_offset = a * offset, a**2 * offset, a**3 * offset
        a_variance = np.zeros_like(a)
    else:
        z, weight = _readout_rule(abs(total_spike) + float(np.sqrt(step.bulk)) + d**-0.5, refine)
        projection = z * np.sqrt(total_spike**2 + spread)
        offset = np.zeros_like(projection)
        share = total_spike / (total_spike**2 + spread)
        a_variance = np.broadcast_to(spread / (total_spike**2 + spread), projection.shape)
        a_mean = share * projection
        a_square = a_mean**2 + a_variance
        offset_mean = projection - total_spike * a_mean
        a_offset = a_mean * offset_mean - total_spike * a_variance
        a2_offset = a_square * offset_mean - 2 * total_spike * a_mean * a_variance
        a3_offset = a_mean**3 * offset_mean
    mean = (1 + step.drift * a_mean) ** 2 + step.bulk * a_square
    floor = 0.1 * mean
    if rows == "network":
        spread_of_projection = d * projection_variance(a_square, a_mean)
        one, two, three = step.norm_covariance
        covariance = a_mean * (one + a_mean * (two + a_mean * three))
        # An initial output of order one tilts every row towards v before the step.
        mean = mean + step.norm_slope * step.initial_overlap * a_square
        mean = mean + (one * a_offset + two * a2_offset + three * a3_offset) / spread_of_projection
        # The norm follows <w(0), v> and the initial length, of which s' tells only a part.
        independent = (
            sum(c * a_square ** (k // 2) * a_mean ** (k % 2) for k, c in enumerate(step.norm_variance))
            + step.norm_slope**2 * a_square
            - covariance**2 / spread_of_projection
        ) / d
        # Given s', the readout is uncertain by its variance and the offset moves against it.
        slope = (
            2 * step.bulk * a_mean
            + 2 * step.drift * (1 + step.drift * a_mean)
            - total_spike * covariance / spread_of_projection
        )
        # The spike's own part of the projection tells nothing of the row's direction.
        offset = offset * (1 - step.spike_variance * a_square / spread_of_projection)
        # At a handful of samples or dimensions the leading order may exceed the norm itself.
        mean = np.maximum(mean, floor)
        deviation = np.sqrt(np.maximum(independent, 0.0) + slope**2 * a_variance)
    else:
        deviation = np.zeros_like(mean)
    if odd:
        if letters is None:
            keep = projection > 0
            weight, projection = 2 * weight[keep], projection[keep]
            mean, deviation, a_mean, a_square = mean[keep], deviation[keep], a_mean[keep], a_square[keep]
            offset = offset[keep]
        elif len(letters[0]) > 1:
            # Merge opposite letters, whose features differ by a sign only.
            flip = np.sign(np.where(a_mean == 0, 1.0, a_mean))
            projection, a_mean, offset = flip * projection, flip * a_mean, flip * offset
            keys = np.stack([np.round(projection, 14), np.round(mean, 14), np.round(deviation, 14)])
            _, first, inverse = np.unique(keys, axis=1, return_index=True, return_inverse=True)
            merged = np.asarray(np.bincount(inverse.ravel(), weights=weight), dtype=np.float64)
            projection, mean, deviation = projection[first], mean[first], deviation[first]
            # Without a step letters of different sizes are alike.
            a_mean, a_square, offset = (
                np.bincount(inverse.ravel(), weights=weight * value) / merged for value in (a_mean, a_square, offset)
            )
            weight = merged
    deviation = np.minimum(deviation, 0.9 * mean)
    relative, square = a_mean / np.sqrt(readout.second_moment), a_square / readout.second_moment
    if not np.any(deviation):
        return Groups(weight, projection, mean, relative, square, offset)
    return Groups(
        np.concatenate([weight, weight]) / 2,
        np.concatenate([projection, projection]),
        np.concatenate([mean - deviation, mean + deviation]),
        np.concatenate([relative, relative]),
        np.concatenate([square, square]),
        np.concatenate([offset, offset]),
    )
