"""The longest of all directions of a law of rows, as a smooth function of the law.

Where features are resolved along the leading direction of the inputs, it is no part of the bulk any more. The classes
of the bulk are nodes of a rule, which come and go, and a single node is no direction. So each class gives a part of its
directions. As a function of the variance the part is rational, and a rule that knows the law at its poles has the sums
over what is left exactly.
This project. Docs, "Leading directions", equations (V4) and (V6).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from gradstep.resolution import NOTHING

__all__ = ["Longest"]

Array = NDArray[np.float64]
Complex = NDArray[np.complexfloating[Any, Any]]

#: Power of the ratio between the variance of a class and the level from which on directions count as the longest: an
#: even number. With it, a class of half that level gives one direction in 250.
_SHARPNESS = 8
#: How far that level may be from all variances, in logarithms, and how often the interval around it is halved. It is
#: halved here because `scipy.optimize` takes longer to import than a prediction takes.
_FAR, _HALVINGS = 10.0, 60


class Longest(NamedTuple):
    """Which directions count as the longest."""

    share: float  #: Their share of all directions: that of one.
    #: Guess of the variance, over the mean of all directions, from which on they count. Only the poles depend on it:
    #: `part` finds the level of a rule itself.
    level: float

    @classmethod
    def of_classes(cls, share: float, of_class: Array, variance: Array) -> Longest:
        """Return the longest directions of classes with known shares and variances."""
        logarithm = np.log(np.maximum(variance / (of_class @ variance), NOTHING))
        return cls(share, float(np.exp(_level(of_class, logarithm, share))))

    @property
    def poles(self) -> Complex:
        """Poles of the part of a class, as a function of its variance over the mean: those in the upper half-plane.

        Docs, "Leading directions", equation (V6).
        """
        return np.asarray(self.level * np.exp(1j * np.pi * np.arange(1, _SHARPNESS, 2) / _SHARPNESS))

    def part(self, of_class: Array, variance: Array) -> Array:
        """Return the part of each class that belongs to the longest directions, from the shares of the classes.

        A class gives nearly all of its directions if its variance is well above a level, and hardly any far below it.
        The level is the one at which all classes together give the share of the longest directions.

        Docs, "Leading directions", equation (V4).
        """
        logarithm = np.log(np.maximum(variance, NOTHING))
        return np.asarray(expit(_SHARPNESS * (logarithm - _level(of_class, logarithm, self.share))))


def _level(of_class: Array, logarithm: Array, share: float) -> float:
    """Return the logarithm of the level of `Longest.part`, from those of the variances."""
    low, high = logarithm.min() - _FAR, logarithm.max() + _FAR
    for _ in range(_HALVINGS):
        level = (low + high) / 2
        part = expit(_SHARPNESS * (logarithm - level))
        low, high = (level, high) if of_class @ part > share else (low, level)
    return float(level)
