"""Products of coordinates, along which features have parts of higher degree than the linear one.

Given the spike, a feature of second degree in the other coordinates is a sum over pairs of directions: a neuron with row
``w`` has the slope ``w_i w_j`` along the product ``x_i x_j``. There are ``d^2/2`` pairs, far more than neurons or
samples, so that to leading order they act as noise of each neuron's own. But where a step has moved all rows within few
directions, few pairs have most of that part, and neurons share them. The same holds for products of three coordinates.

Along a product rows have the product of their variances. The laws of these products follow from that of the directions
off the spike. This project.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradstep.resolution import NOTHING
from gradstep.theory.neurons.bulk import Bulk

__all__ = ["Products", "products_of"]

Array = NDArray[np.float64]

#: Cells of directions, and classes of the products of each degree.
_CELLS, _CLASSES = 8, 12
#: Least part of a moment that is left where the directions that are resolved are taken out.
_LEAST_LEFT = 1e-3


@dataclass(frozen=True)
class Products:
    """Classes of products of one degree."""

    share: Array  #: Number of products in each class over the number of directions, shape (classes,).
    #: Variance of a group's rows along the products of a class, of which the sum with the shares is one.
    #: Shape (groups, classes).
    profile: Array


def products_of(weight: Array, bulk: Bulk, second: Array, d: float) -> list[Products]:
    """Return the classes of the products of two and of three coordinates.

    The shares of the groups are `weight`. Features are resolved along the spike direction of the bulk and, unless it is
    zero, along a `second` one, shape (special,). Neither counts among the coordinates.

    Docs, "Uniform equivalent", equation (E8b).
    """
    count, variance = _off_resolved(weight, bulk, second, d)
    return [_of_degree(weight, count, variance, degree, d) for degree in (2, 3)]


def _of_degree(weight: Array, count: Array, variance: Array, degree: int, d: float) -> Products:
    """Return the classes of products of one degree, for numbers of directions and variances (groups, cells)."""
    chosen = np.array(list(itertools.combinations_with_replacement(range(len(count)), degree)))
    repeated = [math.prod(math.factorial(row.tolist().count(k)) for k in set(row.tolist())) for row in chosen]
    number, variances = count[chosen].prod(axis=1) / repeated, variance[:, chosen].prod(axis=2)
    gain = weight @ variances
    near = _near(_place(number * gain, gain), _CLASSES)
    moments = (number * variances) @ near, (number * (weight @ np.square(variances))) @ near
    found, profile = _cells(weight, *moments)
    return Products(found / (d - 1), profile * ((d - 1) / (profile @ found))[:, None])


def _off_resolved(weight: Array, bulk: Bulk, second: Array, d: float) -> tuple[Array, Array]:
    """Return numbers of directions off those that are resolved, and their variances, shape (groups, cells).

    The first two moments of the variances are those of the covariance on what is orthogonal to these directions. With
    the projector ``P`` and one direction ``v``, ``tr(P S)`` is ``tr S - v.S.v``, and ``tr(P S P S)`` is ``tr S^2 - 2
    v.S^2.v + (v.S.v)^2``.
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
    return _cells(weight, first, square)


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
