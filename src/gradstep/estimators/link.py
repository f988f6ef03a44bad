"""The function of one projection of the inputs that the targets show."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import make_smoothing_spline
from scipy.linalg import solveh_banded
from scipy.optimize import minimize_scalar
from scipy.special import ndtri

from gradstep.gaussian import hermite_rule, hermite_values

__all__ = ["Bins", "Link", "binned", "fit_link", "normal_scores"]

Host = NDArray[np.float64]

#: Bins at most, and rows of each at least.
_BINS, _FEWEST_ROWS = 20, 10
_DEGREE = 9
_KNOTS = 200
#: Different projections from which there is a spline.
_FEWEST = 5
#: Projections that differ by less than this part of the largest are equal. Rounding moves them by some 1e-15 of it.
_EQUAL = 1e-12
#: Degrees of freedom count so many times in the error of cross-validation; a fit leaves this share of them at least.
_INFLATED, _ROUNDING = 1.4, 1e-6
#: Error of a fit that leaves none: a search goes on where it is finite.
_REFUSED = 1e100
#: The roughness penalty about which the smoother is decomposed, and factors of it: the least error is near one of them.
_ROUGHNESS, _FACTORS = 1e-2, np.logspace(-7, 7, 57)
#: Points that are closer count as so far from each other: squares of differences over less have too few digits.
_SHORTEST = 1e-6


@dataclass(frozen=True, eq=False)
class Link:
    """``y = curve(kappa) + noise``, where kappa is standard normal.

    Parameters
    ----------
    curve : callable
        Smoothing spline, linear beyond the data. With fewer than five different projections it is straight lines
        between the means there, and constant beyond.
    coefficients : ndarray, shape (degree + 1,)
        ``E curve(kappa) h_k(kappa)`` with orthonormal Hermite polynomials ``h_k = He_k / sqrt(k!)``.
    noise : float
        Standard deviation of what the curve leaves unexplained in targets that it was not fitted to.
    """

    curve: Callable[[Host], Host]
    coefficients: Host
    noise: float

    @property
    def linear(self) -> float:
        """Share of the curve's variance that is linear in the projection; zero for a curve that is constant."""
        powers = self.coefficients[1:] ** 2
        return float(powers[0] / (powers.sum() or 1.0))

    def seen_through(self, alignment: float) -> tuple[str, float]:
        """Return the link on the index itself, when this one was fitted on a projection that has `alignment` with it.

        A projection with alignment gamma shows ``gamma^k`` times the k-th coefficient. What would exceed the variance
        of the targets (noise in small coefficients, blown up) is scaled back. The link is a formula without its
        constant, as `gradstep.Problem` reads it, empty where there is none, with the standard deviation of its noise.
        """
        k = np.arange(len(self.coefficients))
        grown = np.where(k > 0, self.coefficients / alignment**k, 0.0)
        variance = self.noise**2 + float(np.sum(self.coefficients[1:] ** 2))
        explained = float(grown @ grown)
        if explained > variance:
            grown *= math.sqrt(variance / explained)
        terms = [f"{c / math.sqrt(math.factorial(k)):+.9g}*H{k}" for k, c in enumerate(grown) if abs(c) > 1e-9]
        return "".join(terms).lstrip("+"), math.sqrt(max(variance - float(grown @ grown), 0.0))


def normal_scores(values: Host, weights: Host) -> Host:
    """Return standard normal quantiles of the ranks of values: the increasing map that makes them Gaussian.

    Values that are equal up to rounding share the middle of their ranks: products of matrices round copies of a row
    one way here and another there.
    """
    order = np.argsort(values, kind="stable")
    rises = np.diff(values[order]) > _EQUAL * float(np.abs(values).max())
    place = np.empty(len(values), dtype=np.intp)
    place[order] = np.concatenate([[0], np.cumsum(rises)])
    mass = np.bincount(place, weights)
    return np.asarray(ndtri((np.cumsum(mass) - mass / 2) / mass.sum())[place])


def fit_link(kappa: Host, y: Host, weights: Host, observations: int | None = None) -> Link:
    """Fit a spline to n targets against normal scores, as smooth as generalised cross-validation finds best.

    Between fewer than five different scores it is straight lines, or constant if that is better. So many `observations`
    are independent, by default all rows: a copy of a row says nothing about the noise.
    """
    place = _knots(kappa, weights)
    means = _averaged(place, kappa, y, y, weights)
    within = float(weights @ (y - means.target[np.unique(place, return_inverse=True)[1]]) ** 2 / weights.sum())
    knots = len(means.kappa)
    count = max(len(y) if observations is None else observations, knots)
    if knots < _FEWEST:
        curve, freedom = _through(means, within, count)
    else:
        shares = means.weight / means.weight.mean()
        penalty, freedom = roughness_penalty(means.kappa, means.target, shares, within=within, observations=count)
        curve = make_smoothing_spline(means.kappa, means.target, shares, penalty)
    # The curve is closer to these targets than to others by its degrees of freedom. One is that of their mean.
    unseen = (count - 1) / (count - freedom) if count > freedom else 1.0
    noise = math.sqrt(unseen * (weights @ (y - curve(kappa)) ** 2) / weights.sum())
    # Projections on high polynomials are integrals of the curve: sums over data would be carried by the few farthest.
    nodes, masses = hermite_rule(100)
    coefficients = hermite_values(nodes, _DEGREE) @ (masses * curve(nodes))
    return Link(curve, np.asarray(coefficients), noise)


def _through(means: Bins, within: float, observations: int) -> tuple[Callable[[Host], Host], float]:
    """Return straight lines through the means, or their mean if its error of cross-validation is less."""
    knots, share = len(means.kappa), means.weight / means.weight.sum()
    level = float(share @ means.target)
    constant = within + float(share @ (means.target - level) ** 2)
    flat, lines = _error(constant, 1, observations), _error(within, knots, observations)
    if knots > 1 and lines < flat:
        straight: Any = partial(np.interp, xp=means.kappa, fp=means.target)
        return straight, float(knots)
    return partial(np.full_like, fill_value=level), 1.0


def _error(squares: Any, freedom: Any, observations: int) -> Any:
    """Return errors of generalised cross-validation, from mean squares of residuals and degrees of freedom."""
    left = 1 - _INFLATED * freedom / observations
    return np.where(left > _ROUNDING, squares / np.maximum(left, _ROUNDING) ** 2, _REFUSED)


def roughness_penalty(x: Host, y: Host, weights: Host, *, within: float, observations: int) -> tuple[float, float]:
    r"""Return the penalty at which a smoothing spline has the least error of cross-validation, and its freedom.

    The spline minimises :math:`\sum_iw_i(y_i-f(x_i))^2+\lambda\int (f'')^2` over m points x, and the error is

    .. math:: \frac{s^2+\frac1m\sum_iw_i(y_i-f(x_i))^2}{(1-\frac{1.4}n\operatorname{tr}A)^2}

    with the matrix A that takes y to the values of f, whose trace is the number of degrees of freedom. The y are
    means of n observations, which vary `within` their points by the mean square :math:`s^2`. With one in place of the
    factor 1.4 (Kim and Gu 2004), one spline in fifty or so would follow the noise from point to point.

    One decomposition gives all of this at every penalty: with
    :math:`c` an eigenvalue of :math:`W^{1/2}AW^{-1/2}` at :math:`\lambda_0`, what :math:`t\lambda_0` leaves of y along
    its eigenvector is :math:`t(1-c)/(c+t(1-c))`. These eigenvalues lie between zero and one; those of the penalty
    differ by so many powers of ten where points are close that the small ones would be rounding. There are at least
    three points x, which increase, and the weights have the mean one. The penalty is between a ten-millionth and ten
    million times `_ROUGHNESS`.
    """
    step, roots = np.maximum(np.diff(x), _SHORTEST), np.sqrt(weights)
    # Second differences Q of values, and the Gram matrix R of the hat functions that second derivatives are made of.
    differences = np.zeros((len(x) - 2, len(x)))
    row = np.arange(len(x) - 2)
    differences[row, row], differences[row, row + 2] = 1 / step[:-1], 1 / step[1:]
    differences[row, row + 1] = -(1 / step[:-1] + 1 / step[1:])
    differences /= roots
    bands = np.zeros((3, len(row)))
    for offset in range(3):
        products = differences[: len(row) - offset] * differences[offset:]
        bands[offset, : len(row) - offset] = _ROUGHNESS * products.sum(axis=1)
    bands[0] += (step[:-1] + step[1:]) / 3
    bands[1, :-1] += step[1:-1] / 6
    taken = _ROUGHNESS * differences.T @ solveh_banded(bands, differences, lower=True)
    lost, vectors = np.linalg.eigh((taken + taken.T) / 2)
    lost = np.clip(lost, 0.0, 1.0)
    squares = (vectors.T @ (roots * y)) ** 2

    def left(factors: Host) -> Host:
        return np.asarray(factors[:, None] * lost / (1 - lost + factors[:, None] * lost))

    def errors(factors: Host) -> Host:
        remains = left(factors)
        residual = within + remains**2 @ squares / len(x)
        return np.asarray(_error(residual, (1 - remains).sum(axis=1), observations))

    place = int(np.argmin(errors(_FACTORS)))
    low, high = (math.log(_FACTORS[at]) for at in (max(place - 1, 0), min(place + 1, len(_FACTORS) - 1)))
    found = minimize_scalar(lambda log: float(errors(np.exp([log]))[0]), bounds=(low, high), method="bounded")
    factor = math.exp(found.x)
    return _ROUGHNESS * factor, float((1 - left(np.array([factor]))).sum())


@dataclass(frozen=True, eq=False)
class Bins:
    """Means over bins of equal weight along the projection, each of shape (bins,)."""

    kappa: Host
    target: Host
    target_error: Host
    learned: Host
    weight: Host


def binned(kappa: Host, y: Host, learned: Host, weights: Host, observations: int) -> Bins:
    """Average n rows along the projection, in bins of equal weight; equal projections share a bin.

    Copies of a row are one of the `observations`, which decide how many bins there are.
    """
    count = int(np.clip(observations // _FEWEST_ROWS, 1, _BINS))
    return _averaged(_shared_out(kappa, weights, count), kappa, y, learned, weights)


def _knots(kappa: Host, weights: Host) -> NDArray[np.intp]:
    """Return the number of the bin of each row: one for each projection, or `_KNOTS` of equal weight if they are more.

    It does not depend on how often a row is repeated.
    """
    levels, place = np.unique(kappa, return_inverse=True)
    return place if len(levels) <= _KNOTS else _shared_out(kappa, weights, _KNOTS)


def _shared_out(kappa: Host, weights: Host, count: int) -> NDArray[np.intp]:
    """Return the number of the bin of each row, for bins of equal weight; some may remain empty."""
    _, level = np.unique(kappa, return_inverse=True)
    share = np.cumsum(np.bincount(level, weights)) / weights.sum()
    return np.asarray(np.minimum((share * count * (1 - 1e-12)).astype(np.intp), count - 1)[level])


def _averaged(place: NDArray[np.intp], kappa: Host, y: Host, learned: Host, weights: Host) -> Bins:
    columns = []
    for bin_number in np.unique(place):
        rows = place == bin_number
        total = weights[rows].sum()
        w = weights[rows] / total
        mean = w @ y[rows]
        columns.append((w @ kappa[rows], mean, math.sqrt(w**2 @ (y[rows] - mean) ** 2), w @ learned[rows], total))
    return Bins(*(np.array(column) for column in zip(*columns, strict=True)))
