"""How one description gives way to another where both hold: smoothly, since a search over a step must not feel it."""

from __future__ import annotations

import math

__all__ = ["smooth_rise"]

_SMALLEST = 1e-300


def smooth_rise(value: float, low: float, high: float) -> float:
    """Return a share that rises from zero at `low` to one at `high`, in the logarithm, with a continuous slope.

    Parameters
    ----------
    value : float
        At least zero.
    low, high : float
        Positive.

    Returns
    -------
    float
        In [0, 1].
    """
    x = math.log(max(value, _SMALLEST) / low) / math.log(high / low)
    x = min(max(x, 0.0), 1.0)
    return x * x * (3 - 2 * x)
