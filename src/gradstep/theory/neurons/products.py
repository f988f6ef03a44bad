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
from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradstep.resolution import NOTHING
from gradstep.theory.neurons.bulk import Bulk

__all__ = ["OffResolved", "Products", "products_of"]

Array = NDArray[np.float64]

#: Distance of the cells of directions, and of the classes of their products, in the logarithm of their variance.
_CELL, _CLASS = 0.5, 0.7
#: Cells reach down to where less than this share of the power is left, and classes to this variance along a product:
#: with less, a product is next to noise.
_LEAST_POWER, _LEAST_PROFILE = 0.003, 0.003
#: Least part of a moment that is left where the directions that are resolved are taken out.
_LEAST_LEFT = 1e-3
#: Change of a variance by the length of an input, over the variance, that is not reached.
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
        """Return the cells, whose first two moments are those of the covariance off the resolved directions.

        The resolved directions are orthonormal vectors of shape (resolved, special). With the projector ``P`` that
        takes out a direction ``v``, ``tr(P S)`` is ``tr S - v.S.v``, and ``tr(P S P S)`` is ``tr S^2 - 2 v.S^2.v +
        (v.S.v)^2``.
        """
        # Where the bulk is that of isotropic rows the spike is none of its directions.
        count, gain = bulk.share * (d if bulk.spike.any() else d - 1), weight @ bulk.profile
        grid = _grid(count, gain, _CELL)
        near = _near(gain, grid)
        first, square = _moments(weight, count, bulk.profile, near)
        if len(resolved):
            # No variance is larger than that of the longest direction.
            mean = weight @ bulk.special_profile
            shorter = np.minimum(math.exp(grid[-1]) / mean, 1.0)
            mean, variance = shorter * mean, shorter * bulk.special_profile
            near = _near(mean, grid)
            along, between = np.square(resolved).sum(axis=0), (resolved * mean) @ resolved.T
            twice = 2 * along * mean**2 - np.vecdot(resolved.T, (resolved * mean).T @ between)
            first = np.maximum(first - (along * variance) @ near, _LEAST_LEFT * first)
            square = np.maximum(square - twice @ near, _LEAST_LEFT * square)
        number, variance = _cells(weight, first, square)
        return cls(weight, number, variance * ((d - 1) / (variance @ number))[:, None], d - 1)

    def repeated(self, times: int) -> OffResolved:
        """Return the same for groups that are divided into as many alike."""
        weight, variance = np.repeat(self.weight / times, times), np.repeat(self.variance, times, axis=0)
        return OffResolved(weight, self.number, variance, self.directions)

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
        seen = self.variance @ (self.number * (self.weight @ self.variance)) / self.directions
        return _bounded(self._stretch_of_unit * seen)

    def stretch(self, variance: Array) -> Array:
        """Return the squared factors of coordinates in short inputs and in long ones, shape (directions, 2).

        The mean variances of the rows in the directions are `variance`, shape (directions,).

        Docs, "Uniform equivalent", equation (E8c).
        """
        change = _bounded(self._stretch_of_unit * variance)
        return np.stack([1 - change, 1 + change], axis=1)


def products_of(off: OffResolved, degree: int) -> Products:
    """Return the classes of the products of two coordinates, or of three: as many as the degree.

    Docs, "Uniform equivalent", equation (E8b).
    """
    chosen = np.array(list(itertools.combinations_with_replacement(range(len(off.number)), degree)))
    # Products that differ in the order of their factors are the same.
    orders = [math.prod(map(math.factorial, Counter(each).values())) for each in chosen.tolist()]
    number, variance = off.number[chosen].prod(axis=1) / orders, off.variance[:, chosen].prod(axis=2)
    stretch = off.stretch(off.weight @ off.variance)[chosen].prod(axis=1)
    variance *= (off.directions / (variance @ number))[:, None]
    gain = off.weight @ variance
    power, grid = number * gain, _grid(number, gain, _CLASS)
    near = _near(gain, grid[grid >= min(math.log(_LEAST_PROFILE), grid[-1])])
    count, profile = _cells(off.weight, *_moments(off.weight, number, variance, near))
    stretched = near.T @ (power[:, None] * stretch) / np.maximum(near.T @ power, NOTHING)[:, None]
    return Products(count / off.directions, profile, np.sqrt(stretched))


def _bounded(change: Array) -> Array:
    """Return changes, smoothly kept below one: no variance may be less than zero."""
    return np.asarray(change / (1 + (change / _LARGEST) ** 4) ** 0.25)


def _grid(count: Array, gain: Array, distance: float) -> Array:
    """Return equidistant logarithms of variances, from that of the longest direction down to where no power is left."""
    order = np.argsort(-gain)
    number, variance = count[order], gain[order]
    power, cumulated = np.cumsum(number * variance), np.cumsum(number)
    # One direction has the largest variance of all, which may be the mean of a few classes.
    one = min(1.0, cumulated[-1])
    top = math.log(np.interp(one, np.concatenate([[0.0], cumulated]), np.concatenate([[0.0], power])) / one)
    low = math.log(variance[np.searchsorted(power, (1 - _LEAST_POWER) * power[-1])])
    return np.asarray(top - distance * np.arange(max(math.ceil((top - low) / distance), 0), -1, -1))


def _near(gain: Array, grid: Array) -> Array:
    """Return how numbers are shared between cells, in proportion to their logarithms, so that nothing jumps with them.

    Shape (numbers, cells).
    """
    if len(grid) == 1:
        return np.ones((len(gain), 1))
    place = np.clip((np.log(gain) - grid[0]) / (grid[1] - grid[0]), 0, len(grid) - 1)
    return np.asarray(np.maximum(1 - np.abs(place[:, None] - np.arange(len(grid))), 0.0))


def _moments(weight: Array, count: Array, variance: Array, near: Array) -> tuple[Array, Array]:
    """Return the sums over directions, in each cell, that `_cells` takes.

    There are `count` directions, shape (numbers,), of each variance, shape (groups, numbers), and `near` shares them
    between the cells.
    """
    return (count * variance) @ near, (count * (weight @ np.square(variance))) @ near


def _cells(weight: Array, first: Array, square: Array) -> tuple[Array, Array]:
    """Return numbers of directions and their variances, shapes (cells,) and (groups, cells).

    Sums of the variances are `first`, shape (groups, cells), and sums of their mean squares over the groups are
    `square`, shape (cells,).
    """
    mean = weight @ first
    count = np.square(mean) / np.maximum(square, NOTHING)
    filled = (mean > 0) & (count > 0)
    count = np.where(filled, count, NOTHING)
    return count, np.where(filled, first / count, 1.0)
