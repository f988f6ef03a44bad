"""Numbers of a table as they are written to its file: with a few digits, and nothing for what is no number."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

__all__ = ["rounded"]


def rounded(values: Any, digits: int) -> Any:
    """Return plain dictionaries and lists, with numbers to so many digits and None for those that are not finite."""
    if isinstance(values, dict):
        return {key: rounded(value, digits) for key, value in values.items()}
    if isinstance(values, list | tuple | np.ndarray):
        return [rounded(value, digits) for value in values]
    if isinstance(values, float):
        return float(f"{values:.{digits}g}") if math.isfinite(values) else None
    return values
