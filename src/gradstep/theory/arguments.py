"""Ranges of array arguments, checked before any work."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradstep.errors import InvalidInput

__all__ = ["nonnegative", "positive"]

Array = NDArray[np.float64]


def positive(field: str, value: ArrayLike) -> Array:
    """Return ``value`` as floats, or raise `InvalidInput` unless all are finite and positive."""
    array = np.asarray(value, dtype=np.float64)
    if not (np.isfinite(array).all() and (array > 0).all()):
        raise InvalidInput(field, value, "finite and > 0")
    return array


def nonnegative(field: str, value: ArrayLike) -> Array:
    """Return ``value`` as floats, or raise `InvalidInput` unless all are finite and non-negative."""
    array = np.asarray(value, dtype=np.float64)
    if not (np.isfinite(array).all() and (array >= 0).all()):
        raise InvalidInput(field, value, "finite and >= 0")
    return array
