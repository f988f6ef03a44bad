"""Smooth changes from one description to another, and smooth limits, so that a search over a step meets no jump."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from gradstep.resolution import NOTHING

__all__ = ["kept_below", "smooth_rise"]


def kept_below(values: NDArray[np.float64], most: NDArray[np.float64] | float) -> NDArray[np.float64]:
    """Return values that stay as they are where their size is far below a limit, and approach it smoothly beyond."""
    return np.asarray(values / (1 + (values / most) ** 4) ** 0.25)


def smooth_rise(value: float, low: float, high: float) -> float:
    """Return a share that rises from zero at `low` to one at `high`, in the logarithm, with a continuous slope.

    `value` is at least zero, and `low` and `high` are positive.
    """
    x = math.log(max(value, NOTHING) / low) / math.log(high / low)
    x = min(max(x, 0.0), 1.0)
    return x * x * (3 - 2 * x)
