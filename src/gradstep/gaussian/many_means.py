"""Averages at many means of one scale, from those at the Chebyshev points of panels in the mean.

An average ``E f(m + s z)`` is an entire function of ``m``, whatever `f` is: at ``m + i y`` it is larger than on the
real axis by ``exp(y^2 / 2 s^2)`` at most. Over panels of a few scales a polynomial of low degree therefore has all its
digits. Tables with a node for every pair of two coordinates have hundreds of means a panel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import NDArray

__all__ = ["at_many_means"]

Array = NDArray[np.float64]

#: Half the width of a panel, in scales, and its points. The error of a mean square is ``exp(h^2 sinh(t)^2 - t points)``
#: for any ``t``: 1e-14 of the largest in the panel at ``t = 1.7``.
_HALF, _POINTS = 2.0, 38
#: There have to be so many means for each point, or the averages are taken one by one.
_GAIN = 2


class _Panels(NamedTuple):
    """Panels of one scale, for the elements `members`: from `low` on, each of the same width."""

    members: NDArray[np.intp]
    scale: float
    low: float
    width: float
    number: int

    @property
    def means(self) -> Array:
        """The means at which averages are taken, shape (number, points)."""
        return self.low + self.width * (np.arange(self.number)[:, None] + (1 + _points()) / 2)

    def at(self, mean: Array, averages: Array) -> Array:
        """Return averages at the members' means, from those of shape (statistics, number, points)."""
        place = (mean[self.members] - self.low) / self.width
        panel = np.clip(place.astype(np.intp), 0, self.number - 1)
        polynomials = chebyshev.chebvander(2 * (place - panel) - 1, _POINTS - 1)
        return np.asarray(np.vecdot((averages @ _transform())[:, panel], polynomials))


def at_many_means(averages: Callable[[Array, Array], Array], mean: Array, scale: Array) -> Array:
    """Return averages at elements of which many share their scale.

    Docs, "Gaussian calculus", equation (G4a).

    Parameters
    ----------
    averages : callable
        From means and scales, shape (elements,), to averages, shape (statistics, elements).
    mean, scale : ndarray, shape (elements,)

    Returns
    -------
    ndarray, shape (statistics, elements)
    """
    if len(mean) <= _GAIN * _POINTS:
        return averages(mean, scale)
    scales, first, count = np.unique(np.sort(scale), return_index=True, return_counts=True)
    if count.max() <= _GAIN * _POINTS:
        return averages(mean, scale)
    order, shared = np.argsort(scale, kind="stable"), []
    for s, start, number in zip(scales, first, count, strict=True):
        members = order[start : start + number]
        low, reach = mean[members].min(), np.ptp(mean[members])
        if 0 < reach < number * s and number > _GAIN * _POINTS * (panels := int(np.ceil(reach / (2 * _HALF * s)))):
            shared.append(_Panels(members, float(s), float(low), float(reach / panels), panels))
    alone = np.ones(len(mean), dtype=bool)
    for panels_of in shared:
        alone[panels_of.members] = False
    means = [panels_of.means for panels_of in shared]
    sizes = [each.size for each in means]
    found = averages(
        np.concatenate([*(each.ravel() for each in means), mean[alone]]),
        np.concatenate([np.repeat([panels_of.scale for panels_of in shared], sizes), scale[alone]]),
    )
    result = np.empty((len(found), len(mean)))
    *parts, result[:, alone] = np.split(found, np.cumsum(sizes), axis=1)
    for panels_of, part in zip(shared, parts, strict=True):
        result[:, panels_of.members] = panels_of.at(mean, part.reshape(len(found), panels_of.number, _POINTS))
    return result


def _points() -> Array:
    return chebyshev.chebpts1(_POINTS)


def _transform() -> Array:
    """Return what takes values at the points, on the last axis, to coefficients of Chebyshev polynomials."""
    double = np.where(np.arange(_POINTS) > 0, 2.0, 1.0)
    return np.asarray(chebyshev.chebvander(_points(), _POINTS - 1) * double / _POINTS)
