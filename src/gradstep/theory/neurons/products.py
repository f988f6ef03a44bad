"""Products of two coordinates, along which features have their part of second degree; and the length of an input.

Given the spike, the part of second degree of a feature is a sum over pairs of directions: a neuron with row ``w`` has
the slope ``w_i w_j`` along the product ``x_i x_j``. There are ``d^2/2`` pairs, far more than neurons or samples, so that
to leading order they act as noise of each neuron's own. But where a step has moved all rows within few directions, few
pairs have most of that part, and neurons share them. Along a product rows have the product of their variances.

The sum over neurons of all ``w_i w_j`` is left along one more direction, the length of an input. In long inputs
coordinates are larger, and they are so most in the directions in which rows are long: given the length, a coordinate
has the variance ``1 + c u l``, where ``u`` is the variance of the rows in its direction, over the mean, and ``l`` the
length, a standard normal number. Both effects are of order ``1/d``, and they are taken along together. This project.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradstep.resolution import NOTHING
from gradstep.theory.neurons.bulk import Bulk

__all__ = ["OffResolved", "Products", "products_of"]

Array = NDArray[np.float64]

#: Cells of directions, and classes of their products.
_CELLS, _CLASSES = 8, 12
#: Least part of a moment that is left where the directions that are resolved are taken out.
_LEAST_LEFT = 1e-3
#: Change of a variance by the length of an input, over the variance, that is not reached.
_LARGEST = 0.9


@dataclass(frozen=True)
class Products:
    """Classes of products of two coordinates."""

    share: Array  #: Number of products in each class over the number of directions, shape (classes,).
    #: Variance of a group's rows along the products of a class, of which the sum with the shares is one.
    #: Shape (groups, classes).
    profile: Array
    stretch: Array  #: Factors of a product in short inputs and in long ones, shape (classes, 2).


class OffResolved(NamedTuple):
    """The directions off those that features are resolved along, in a few cells of like variance."""

    weight: Array  #: Shares of the groups in the neurons, shape (groups,).
    count: Array  #: Number of directions in each cell, shape (cells,).
    variance: Array  #: Variances of rows, of mean one over the directions of the inputs, shape (groups, cells).
    directions: float  #: ``d - 1``.

    @classmethod
    def of(cls, weight: Array, bulk: Bulk, second: Array, d: float) -> OffResolved:
        """Return the cells, whose first two moments are those of the covariance off the resolved directions.

        These are the spike direction of the bulk and, unless it is zero, a `second` one, shape (special,). With the
        projector ``P`` that takes out a direction ``v``, ``tr(P S)`` is ``tr S - v.S.v``, and ``tr(P S P S)`` is ``tr
        S^2 - 2 v.S^2.v + (v.S.v)^2``.
        """
        known = np.array([each / np.linalg.norm(each) for each in (bulk.spike, second) if each.any()])
        count = bulk.share * d
        gain = weight @ bulk.profile
        place = _place(count * gain, gain)
        near = _near(place, _CELLS)
        first, square = (count * bulk.profile) @ near, (count * (weight @ np.square(bulk.profile))) @ near
        if len(known):
            order, mean = np.argsort(gain), weight @ bulk.special_profile
            near = _near(np.interp(mean, gain[order], place[order]), _CELLS)
            along, between = np.square(known).sum(axis=0), (known * mean) @ known.T
            taken = (along * bulk.special_profile) @ near
            twice = (2 * along * mean**2 - np.vecdot(known.T, (known * mean).T @ between)) @ near
            first = np.maximum(first - taken, _LEAST_LEFT * first)
            square = np.maximum(square - twice, _LEAST_LEFT * square)
        number, variance = _cells(weight, first, square)
        return cls(weight, number, variance * ((d - 1) / (variance @ number))[:, None], d - 1)

    @property
    def _stretch_of_unit(self) -> float:
        """By how much the length of an input, one standard deviation, changes a coordinate of a mean variance one."""
        square = float(self.count @ np.square(self.weight @ self.variance)) / self.directions
        return float(np.sqrt(2 / (self.directions * square)))

    @property
    def lengths(self) -> Array:
        """Standard deviation of the relative variance of a pre-activation that is due to the length, shape (groups,).

        Docs, "Uniform equivalent", equation (E8b).
        """
        seen = self.variance @ (self.count * (self.weight @ self.variance)) / self.directions
        return _bounded(self._stretch_of_unit * seen)

    def stretch(self, variance: Array) -> Array:
        """Return the squared factors of coordinates in short inputs and in long ones, shape (directions, 2).

        The mean variances of the rows in the directions are `variance`, shape (directions,).

        Docs, "Uniform equivalent", equation (E8b).
        """
        change = _bounded(self._stretch_of_unit * variance)
        return np.stack([1 - change, 1 + change], axis=1)


def products_of(off: OffResolved) -> Products:
    """Return the classes of the products of two coordinates.

    Docs, "Uniform equivalent", equation (E8c).
    """
    i, j = np.triu_indices(len(off.count))
    number = np.where(i == j, 0.5, 1.0) * off.count[i] * off.count[j]
    variance, stretch = off.variance[:, i] * off.variance[:, j], off.stretch(off.weight @ off.variance)
    gain = off.weight @ variance
    power = number * gain
    near = _near(_place(power, gain), _CLASSES)
    count, profile = _cells(
        off.weight, (number * variance) @ near, (number * (off.weight @ np.square(variance))) @ near
    )
    stretched = near.T @ (power[:, None] * stretch[i] * stretch[j]) / np.maximum(near.T @ power, NOTHING)[:, None]
    scale = (off.directions / (profile @ count))[:, None]
    return Products(count / off.directions, profile * scale, np.sqrt(stretched))


def _bounded(change: Array) -> Array:
    """Return changes, smoothly kept below one: no variance may be less than zero."""
    return np.asarray(change / (1 + (change / _LARGEST) ** 4) ** 0.25)


def _place(power: Array, gain: Array) -> Array:
    """Return which part of the whole power is due to larger gains than each, and half of its own. Shape (classes,)."""
    order = np.argsort(-gain)
    cumulated = np.cumsum(power[order])
    found = np.empty_like(power)
    found[order] = (cumulated - power[order] / 2) / cumulated[-1]
    return found


def _near(place: Array, number: int) -> Array:
    """Return how numbers in [0, 1] are shared between equally spaced ones, so that nothing jumps with them.

    Shape (numbers, cells).
    """
    return np.asarray(np.maximum(1 - np.abs(place[:, None] * (number - 1) - np.arange(number)), 0.0))


def _cells(weight: Array, first: Array, square: Array) -> tuple[Array, Array]:
    """Return numbers and variances with given first moments (groups, cells), and mean squares over the groups."""
    mean = weight @ first
    count = np.square(mean) / np.maximum(square, NOTHING)
    filled = (mean > 0) & (count > 0)
    count = np.where(filled, count, NOTHING)
    return count, np.where(filled, first / count, 1.0)
