"""What is kept of many measured values: their number, their mean and their scatter. Two of these can be pooled."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["Sample"]

Array = np.ndarray


@dataclass(frozen=True)
class Sample:
    """Count, mean and scatter of independent values, one entry of the arrays for each measured quantity.

    Attributes
    ----------
    count : int
        How many values.
    mean : ndarray
        Their mean.
    squares : ndarray
        Sum of the squares of their distances to the mean.
    """

    count: int
    mean: Array
    squares: Array

    @classmethod
    def of(cls, values: ArrayLike) -> Sample:
        """Return the sample of some values, shape (count, ...)."""
        each = np.asarray(values, dtype=np.float64)
        mean = each.mean(axis=0)
        return cls(len(each), mean, ((each - mean) ** 2).sum(axis=0))

    @classmethod
    def from_error(cls, count: int, mean: ArrayLike, error: ArrayLike) -> Sample:
        """Return the sample with this mean and this standard error of the mean."""
        return cls(
            count, np.asarray(mean, dtype=np.float64), np.asarray(error, dtype=np.float64) ** 2 * count * (count - 1)
        )

    def pooled(self, other: Sample) -> Sample:
        """Return the sample of the values of both (Chan, Golub and LeVeque 1983, equation 2.1)."""
        count = self.count + other.count
        apart = other.mean - self.mean
        return Sample(
            count,
            self.mean + apart * (other.count / count),
            self.squares + other.squares + apart**2 * (self.count * other.count / count),
        )

    @property
    def error(self) -> Array:
        """Standard error of the mean."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(np.sqrt(np.divide(self.squares, self.count * (self.count - 1.0))))
