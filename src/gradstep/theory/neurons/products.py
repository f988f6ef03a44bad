"""Products of coordinates, along which features have their parts of higher degree; and the length of an input.

Given the spike, the part of second degree of a feature is a sum over pairs of directions: a neuron with row ``w`` has
the slope ``w_i w_j`` along the product ``x_i x_j``. There are ``d^2/2`` pairs, far more than neurons or samples. To
leading order they therefore act as noise of each neuron's own. But where a step has moved all rows within few
directions, few pairs have most of that part, and neurons share them. Along a product rows have the product of their
variances. The part of third degree is the same with products of three coordinates.

The slopes along products have a mean that all neurons share. It is the slope along one more direction, the length of an
input. In long inputs coordinates are larger, and most so in the directions in which rows are long: given the length, a
coordinate has the variance ``1 + b u l``, where ``u`` is the variance of the rows in its direction, over the mean, and
``l`` the length, a standard normal number. Both effects are of order ``1/d`` and of opposite sign as a rule, so that
one must not be used without the other. This project.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from gradstep.gaussian.orthogonal_polynomials import orthogonal_polynomials
from gradstep.resolution import NOTHING
from gradstep.theory.neurons.bulk import Bulk
from gradstep.theory.step.transitions import kept_below

__all__ = ["OffResolved", "Products", "products_of"]

Array = NDArray[np.float64]

#: Cells of directions, and classes of their products, at most. With twelve of each, errors change by less than 1e-4 as
#: a rule, and by up to 2e-3 where rows of several readouts have few directions.
_CELLS, _CLASSES = 8, 8
#: Variance below which directions, and products, are next to noise: cells need not tell them apart.
_FLOOR = 0.003
#: Largest variance of directions in a cell, over that of the single longest direction. Traces of powers of drawn rows
#: agree with it; with one they would be a tenth to a half too small.
_HIGHEST = 2.0
#: How sharply directions count as longer than the border that the single longest one is above: like a power of their
#: variance.
_BORDER = 4
#: Distance of a border from all variances, in logarithms, beyond which nothing is on one side of it.
_FAR = 10
#: Steps to that border, and its error.
_MAX_STEPS, _TOLERANCE = 100, 1e-13
#: Width of the Gaussian weight by which laws are smoothed, in the logarithm of the variance.
_WIDTH = 0.25
#: Where more directions are to be taken than there are, none is left. Their number comes to zero smoothly, over about
#: this share of it.
_ROUND = 0.01
#: Least variance of a group in a cell, over the mean of all groups.
_LEAST_VALUE = 1e-6
#: A component of a vector that is none.
_NO_WEIGHT = 1e-10
#: Change of a variance by the length of an input, over the variance, that is not reached: no variance may be less than
#: zero.
_LARGEST = 0.9


@dataclass(frozen=True)
class Products:
    """Classes of products of two coordinates, or of three."""

    share: Array  #: Number of products in each class over the number of directions, shape (classes,).
    #: Variance of a group's rows along the products of a class, of which the sum with the shares is one.
    #: Shape (groups, classes).
    profile: Array
    stretch: Array  #: Factors of a product in short inputs and in long ones, shape (classes, 2).


class OffResolved(NamedTuple):
    """The directions off those that features are resolved along, in a few cells of like variance."""

    weight: Array  #: Shares of the groups in the neurons, shape (groups,).
    number: Array  #: Number of directions in each cell, shape (cells,).
    variance: Array  #: Variances of rows, of mean one over the directions of the inputs, shape (groups, cells).
    directions: float  #: ``d - 1``.

    @classmethod
    def of(cls, weight: Array, bulk: Bulk, resolved: Array, d: float) -> OffResolved:
        """Return the cells.

        The resolved directions are orthonormal vectors of shape (resolved, special).
        """
        # Where the bulk is that of isotropic rows the spike is none of its directions.
        count, gain = bulk.share * (d if bulk.spike.any() else d - 1), weight @ bulk.profile
        # Far out, a law has a part of a direction only: draws that few have. Their power is left to shorter directions.
        shorter = kept_below(gain, _HIGHEST * _longest(count, gain)) / gain
        shorter /= np.average(shorter, weights=count)  # where all are alike they stay as they are
        count, variance = count / shorter, shorter * bulk.profile
        if len(resolved):
            count = _without(count, weight @ variance, np.square(resolved), weight @ bulk.special_profile)
        number, variance, _ = _gathered(weight, count, variance, _CELLS)
        return cls(weight, number, variance * ((d - 1) / (variance @ number))[:, None], d - 1)

    def repeated(self, times: int) -> OffResolved:
        """Return the same for groups that are divided into as many alike."""
        weight, variance = np.repeat(self.weight / times, times), np.repeat(self.variance, times, axis=0)
        return OffResolved(weight, self.number, variance, self.directions)

    @property
    def along_means(self) -> Products:
        """A single direction along which all neurons of a group have the same component, as the means have.

        Docs, "Uniform equivalent", equation (E10a).
        """
        share = np.array([1 / self.directions])
        return Products(share, np.full((len(self.weight), 1), self.directions), np.ones((1, 2)))

    @property
    def _stretch_of_unit(self) -> float:
        """By how much the length of an input, one standard deviation, changes a coordinate of a mean variance one."""
        square = float(self.number @ np.square(self.weight @ self.variance)) / self.directions
        return float(np.sqrt(2 / (self.directions * square)))

    @property
    def lengths(self) -> Array:
        """Standard deviation of the relative variance of a pre-activation that is due to the length, shape (groups,).

        Docs, "Uniform equivalent", equation (E8c).
        """
        change = kept_below(self._stretch_of_unit * (self.weight @ self.variance), _LARGEST)
        return np.asarray(self.variance @ (self.number * change) / self.directions)

    def stretch(self, variance: Array) -> Array:
        """Return the squared factors of coordinates in short inputs and in long ones, shape (directions, 2).

        The mean variances of the rows in the directions are `variance`, shape (directions,).

        Docs, "Uniform equivalent", equation (E8c).
        """
        change = kept_below(self._stretch_of_unit * variance, _LARGEST)
        return np.stack([1 - change, 1 + change], axis=1)


def products_of(off: OffResolved, degree: int) -> Products:
    """Return the classes of the products of two coordinates, or of three: as many as the degree.

    Docs, "Uniform equivalent", equation (E8b).
    """
    chosen = np.array(list(itertools.combinations_with_replacement(range(len(off.number)), degree)))
    # Of n directions there are n (n + 1) / 2 pairs: the same may be taken twice.
    before = np.zeros_like(chosen)
    for place in range(1, degree):
        before[:, place] = (chosen[:, place] == chosen[:, place - 1]) * (before[:, place - 1] + 1)
    number = ((off.number[chosen] + before) / (before + 1)).prod(axis=1)
    variance = off.variance[:, chosen].prod(axis=2)
    stretch = off.stretch(off.weight @ off.variance)[chosen].prod(axis=1)
    stretch /= stretch.mean(axis=1, keepdims=True)
    variance *= (off.directions / (variance @ number))[:, None]
    count, profile, stretch = _gathered(off.weight, number, variance, _CLASSES, stretch.T)
    return Products(count / off.directions, profile, np.sqrt(stretch.T))


def _longest(count: Array, gain: Array) -> float:
    """Return the variance of the single longest of the directions, of which `count` have the variances `gain`.

    It is the mean of those above a smooth border, which is where it has one direction above it.
    """
    place, one = np.log(gain), min(1.0, 0.5 * float(count.sum()))
    # Below the first end all directions are above the border, and above the second none.
    low, high = float(place.min()) - _FAR, float(place.max()) + (_FAR + math.log1p(float(count.sum()))) / _BORDER
    border = float(place.max())
    for _ in range(_MAX_STEPS):
        share = expit(_BORDER * (place - border))
        number = float(count @ share)
        low, high = (border, high) if number > one else (low, border)
        # Newton's method for the logarithm of the number, and a bisection where it would leave the ends.
        slope = _BORDER * float(count @ (share * expit(_BORDER * (border - place)))) / number
        following = border + math.log(number / one) / max(slope, NOTHING)
        if not low < following < high:
            following = (low + high) / 2
        step, border = abs(following - border), following
        if not step > _TOLERANCE:
            break
    return float(count @ (expit(_BORDER * (place - border)) * gain)) / one


def _gathered(
    weight: Array, count: Array, variance: Array, cells: int, values: Array | None = None
) -> tuple[Array, Array, Array]:
    """Return few cells of directions, or of products, that stand for many.

    There are `count` of each variance, shapes (numbers,) and (groups, numbers). Cells are the nodes of a Gauss rule in
    the logarithm of the mean variance over the groups, so that sums over the cells are those over all to many digits.
    Other values, shape (values, numbers), become polynomials of that logarithm, as the variances of the groups do.

    Returns numbers, shape (cells,), variances, shape (groups, cells), and values, shape (values, cells). The sum of all
    variances of a group is as it was.
    """
    gain = weight @ variance
    power = count * gain
    of_each = np.concatenate([variance / gain, variance[:0] if values is None else values])
    jacobi, known = orthogonal_polynomials(_place(gain), power / power.sum(), of_each, min(cells, len(gain)))
    place, vectors = np.linalg.eigh(jacobi)
    kept = np.abs(vectors[0]) > _NO_WEIGHT
    first, mean = vectors[0, kept], np.maximum(_FLOOR * np.expm1(place[kept]), gain.min())
    # Polynomials of low degree through positive values may fall below zero.
    found = np.maximum((known @ vectors)[:, kept] / first, _LEAST_VALUE)
    number, found_variance = power.sum() * first**2 / mean, mean * found[: len(weight)]
    found_variance *= ((variance @ count) / (found_variance @ number))[:, None]
    return number, found_variance, found[len(weight) :]


def _place(gain: Array) -> Array:
    """Return the logarithms of variances, by which cells tell them apart."""
    return np.log1p(gain / _FLOOR)


def _without(count: Array, gain: Array, shares: Array, special: Array) -> Array:
    """Return how many directions of the variances `gain` are left off orthonormal vectors.

    The vectors have the `shares` in directions of the variances `special`, shape (vectors, special).

    The vectors are no eigenvectors. To project one of them out makes the longest directions shorter. With the
    covariance ``C``, the projection ``P`` off a vector ``u`` and ``mk = u^T C^k u``, the traces of ``C``, ``C^2`` and
    ``C^3`` are larger than those of powers of ``P C P`` by ``m1``, ``2 m2 - m1^2`` and ``3 m3 - 3 m1 m2 + m1^3``. So
    one direction is taken, of the mean variance ``m1``, but the variances deviate from this mean ``sqrt(2)`` times as
    much as those that ``u`` has. This would be right for the first two traces, and for the third but for the third
    central moment of ``u``, which counts ``2 sqrt(2)`` times in place of three times. Variances outside the law are
    moved to its ends, the smoothing moves others to where there are more directions, and products of two vectors are
    left out: less is taken from the longest directions than should be.
    """
    special = np.minimum(special, gain.max())
    mean = (shares @ special)[:, None]
    removed = np.clip(mean + math.sqrt(2) * (special - mean), gain.min(), gain.max())
    place = _place(gain)

    def smoothed(places: Array, numbers: Array) -> Array:
        # Both laws are smoothed alike, so that nodes of one need not be those of the other.
        return np.asarray(np.exp(-np.square((place[:, None] - places) / _WIDTH) / 2) @ numbers)

    share = smoothed(_place(removed).ravel(), shares.ravel()) / np.maximum(smoothed(place, count), NOTHING)
    share *= mean.sum() / max(gain @ (count * share), NOTHING)
    return np.asarray(count * _ROUND * np.logaddexp(0.0, (1 - share) / _ROUND))
