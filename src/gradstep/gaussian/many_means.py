"""Averages at many means of one scale, from those at the Chebyshev points of panels in the mean.

An average ``E f(m + s z)`` is an entire function of ``m``, whatever `f` is: at ``m + i y`` it is larger than on the
real axis by ``exp(y^2 / 2 s^2)`` at most. Over panels of a few scales a polynomial of low degree therefore has all its
digits. Tables with a node for every pair of two coordinates have hundreds of means a panel.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

__all__ = ["at_many_means"]

Array = NDArray[np.float64]

#: Half the width of a panel, in scales, and the number of its points. With these the error of a variance is at most
#: ``exp(h^2 sinh(t)^2 - t points)`` of the averages near the panel, for any ``t``: 1e-14 at ``t = 1.7``.
_HALF, _POINTS = 2.0, 38
#: A panel is used if it has so many times as many means as points. With fewer means it takes more time than it saves.
_GAIN = 3
#: Means at which polynomials are evaluated at once.
_CHUNK = 1 << 12


class _Panels(NamedTuple):
    """Panels of one scale, all of the same width, for the elements `members`."""

    members: NDArray[np.intp]
    scale: float
    low: float
    width: float
    number: int

    @property
    def means(self) -> Array:
        """The means at which averages are taken, shape (number, points)."""
        return self.low + self.width * (np.arange(self.number)[:, None] + (1 + _points()) / 2)

    def located(self, mean: Array) -> tuple[NDArray[np.intp], Array]:
        """Return the panel of each mean of the members, and the place within it, from -1 to 1."""
        place = (mean[self.members] - self.low) / self.width
        panel = np.clip(place.astype(np.intp), 0, self.number - 1)
        return panel, 2 * (place - panel) - 1


def at_many_means(averages: Callable[[Array, Array], Array], mean: Array, scale: Array) -> Array:
    """Return averages at elements of which many share their scale.

    The callable maps means and scales, shape (elements,), to averages, shape (statistics, elements).

    Docs, "Gaussian calculus", equation (G4a).
    """
    shared = _panels(mean, scale) if len(mean) > _GAIN * _POINTS else []
    if not shared:
        return averages(mean, scale)
    alone = np.ones(len(mean), dtype=bool)
    for panels in shared:
        alone[panels.members] = False
    points = [panels.means.ravel() for panels in shared]
    scales = [np.full(len(each), panels.scale) for panels, each in zip(shared, points, strict=True)]
    found = averages(np.concatenate([*points, mean[alone]]), np.concatenate([*scales, scale[alone]]))
    count = sum(panels.number for panels in shared)
    result = np.empty((len(found), len(mean)))
    known, result[:, alone] = np.split(found, [count * _POINTS], axis=1)
    members = np.concatenate([panels.members for panels in shared])
    result[:, members] = _interpolated(known.reshape(len(found), count, _POINTS), shared, mean)
    return result


def _interpolated(known: Array, shared: list[_Panels], mean: Array) -> Array:
    """Return the averages of the members of all panels, in their order.

    The averages at the points of all panels are `known`, shape (statistics, panels, points), and the means have shape
    (elements,).
    """
    coefficients = known @ _transform()
    first = np.cumsum([0, *(panels.number for panels in shared)])
    located = [panels.located(mean) for panels in shared]
    panel = np.concatenate([start + each for start, (each, _) in zip(first, located, strict=False)])
    place = np.concatenate([each for _, each in located])
    order, found = np.argsort(panel, kind="stable"), np.empty((len(known), len(panel)))
    for chosen in np.split(order, range(_CHUNK, len(order), _CHUNK)):
        polynomials = chebyshev.chebvander(place[chosen], _POINTS - 1).T
        numbers, starts = np.unique(panel[chosen], return_index=True)
        for number, start, stop in zip(numbers, starts, [*starts[1:], len(chosen)], strict=True):
            found[:, chosen[start:stop]] = coefficients[:, number] @ polynomials[:, start:stop]
    return found


def _panels(mean: Array, scale: Array) -> list[_Panels]:
    """Return the panels of all scales that have enough means for them."""
    order, found = np.argsort(scale, kind="stable"), []
    scales, first = np.unique(scale[order], return_index=True)
    for s, members in zip(scales.tolist(), np.split(order, first[1:]), strict=True):
        if len(members) <= _GAIN * _POINTS:
            continue
        low, reach = float(mean[members].min()), float(np.ptp(mean[members]))
        # Means that are too far from each other for panels would have a number of panels out of range.
        if not 0 < reach < len(members) * s:
            continue
        number = int(np.ceil(reach / (2 * _HALF * s)))
        if len(members) > _GAIN * _POINTS * number:
            found.append(_Panels(members, s, low, reach / number, number))
    return found


@cache
def _points() -> Array:
    return chebyshev.chebpts1(_POINTS)


@cache
def _transform() -> Array:
    """Return what takes values at the points, on the last axis, to coefficients of Chebyshev polynomials."""
    double = np.where(np.arange(_POINTS) > 0, 2.0, 1.0)
    return np.asarray(chebyshev.chebvander(_points(), _POINTS - 1) * double / _POINTS)
