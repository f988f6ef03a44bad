"""How far a prediction is from measurements, on a scale that does not depend on the number of seeds."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

__all__ = ["LARGEST", "student_z"]

LARGEST = 37.0
"""Beyond it the tail probability of the normal law is not a number any more."""


def student_z(
    prediction: ArrayLike, mean: ArrayLike, standard_error: ArrayLike, seeds: ArrayLike
) -> NDArray[np.float64]:
    """Return the distance of a mean from a prediction, Student's t mapped to the standard normal's scale.

    Parameters
    ----------
    prediction, mean, standard_error, seeds : array_like
        Broadcast against each other.

    Returns
    -------
    ndarray
        Standard normal if the prediction is right, whatever the number of seeds; nan with fewer than two.
    """
    prediction, mean, error, count = np.broadcast_arrays(
        *(np.asarray(v, dtype=np.float64) for v in (prediction, mean, standard_error, seeds))
    )
    difference = mean - prediction
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(difference == 0, 0.0, np.abs(difference) / error)
        # The tail probability of Student's law, read on the normal scale: 6 seeds must not look like 6 sigma.
        tail = special.stdtr(np.maximum(count - 1, 1), -t)
        z = np.where(tail > 1e-304, -special.ndtri(tail), LARGEST)
    unknown = (count < 2) | np.isnan(difference) | np.isnan(t)
    return np.where(unknown, math.nan, np.copysign(z, difference))
