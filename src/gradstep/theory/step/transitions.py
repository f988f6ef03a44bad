"""Smooth change from one description to another where both hold, so that a search over a step meets no jump."""

from __future__ import annotations

import math

from gradstep.resolution import NOTHING

__all__ = ["smooth_rise"]


def smooth_rise(value: float, low: float, high: float) -> float:
    """Return a share that rises from zero at `low` to one at `high`, in the logarithm, with a continuous slope.

    `value` is at least zero, and `low` and `high` are positive.
    """
    x = math.log(max(value, NOTHING) / low) / math.log(high / low)
    x = min(max(x, 0.0), 1.0)
    return x * x * (3 - 2 * x)
