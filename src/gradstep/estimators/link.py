"""The function of one projection of the inputs that the targets show."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import make_smoothing_spline
from scipy.special import ndtri

from gradstep.gaussian import hermite_rule, hermite_values

__all__ = ["Bins", "Link", "binned", "fit_link", "normal_scores"]

Host = NDArray[np.float64]

_DEGREE = 9
_KNOTS = 200


@dataclass(frozen=True, eq=False)
class Link:
    """``y = curve(kappa) + noise``, where kappa is standard normal.

    Parameters
    ----------
    curve : callable
        Smoothing spline, linear beyond the data.
    coefficients : ndarray, shape (degree + 1,)
        ``E curve(kappa) h_k(kappa)`` with orthonormal Hermite polynomials ``h_k = He_k / sqrt(k!)``.
    noise : float
        Standard deviation of what the curve leaves unexplained.
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
        of the targets (noise in small coefficients, blown up) is scaled back.

        Returns
        -------
        formula : str
            The link without its constant, as `gradstep.Problem` reads it; empty where there is none.
        noise : float
            Standard deviation of the remaining noise.
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

    Equal values share the middle of their ranks.
    """
    _, place = np.unique(values, return_inverse=True)
    mass = np.bincount(place, weights)
    return np.asarray(ndtri((np.cumsum(mass) - mass / 2) / mass.sum())[place])


def fit_link(kappa: Host, y: Host, weights: Host) -> Link:
    """Fit a smoothing spline, as smooth as generalised cross-validation finds best.

    Parameters
    ----------
    kappa, y, weights : ndarray, shape (n,)
        Normal scores of the projections, targets, weights.
    """
    means = binned(kappa, y, y, weights, most=_KNOTS, least_rows=1)
    if len(means.kappa) < 5 or np.ptp(means.kappa) == 0:
        level = float(weights @ y / weights.sum())
        curve: Callable[[Host], Host] = partial(np.full_like, fill_value=level)
    else:
        curve = make_smoothing_spline(means.kappa, means.target, means.weight / means.weight.mean())
    noise = math.sqrt(weights @ (y - curve(kappa)) ** 2 / weights.sum())
    # Projections on high polynomials are integrals of the curve: sums over data would be carried by the few farthest.
    nodes, masses = hermite_rule(100)
    coefficients = hermite_values(nodes, _DEGREE) @ (masses * curve(nodes))
    return Link(curve, np.asarray(coefficients), noise)


@dataclass(frozen=True, eq=False)
class Bins:
    """Means over bins of equal weight along the projection, each of shape (bins,)."""

    kappa: Host
    target: Host
    target_error: Host
    learned: Host
    weight: Host


def binned(kappa: Host, y: Host, learned: Host, weights: Host, *, most: int = 20, least_rows: int = 10) -> Bins:
    """Average along the projection.

    Parameters
    ----------
    kappa, y, learned, weights : ndarray, shape (n,)
    most, least_rows : int
        Number of bins at most, and of rows in each at least; rows with equal projections share a bin.
    """
    _, level = np.unique(kappa, return_inverse=True)
    share = np.cumsum(np.bincount(level, weights)) / weights.sum()
    count = int(np.clip(len(y) // least_rows, 1, most))
    place = np.minimum((share * count * (1 - 1e-12)).astype(int), count - 1)[level]
    columns = []
    for bin_number in np.unique(place):
        rows = place == bin_number
        total = weights[rows].sum()
        w = weights[rows] / total
        mean = w @ y[rows]
        columns.append((w @ kappa[rows], mean, math.sqrt(w**2 @ (y[rows] - mean) ** 2), w @ learned[rows], total))
    return Bins(*(np.array(column) for column in zip(*columns, strict=True)))
