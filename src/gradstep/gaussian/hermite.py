"""Hermite expansions under the standard Gaussian, in the orthonormal basis ``h_k = He_k / sqrt(k!)``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradstep.gaussian.functions import ScalarFunction, scalar_function
from gradstep.gaussian.smoothing import hermite_smoothed, hermite_values

__all__ = ["hermite_coefficients", "hermite_values"]


def hermite_coefficients(
    function: str | ScalarFunction | Any, order: int, scale: ArrayLike = 1.0
) -> NDArray[np.float64]:
    """Return E f(scale * z) h_k(z) for k = 0..order, shape ``(order + 1, *scale.shape)``.

    These are the coefficients in the orthonormal probabilists' basis ``h_k = He_k / sqrt(k!)``; their squares sum to at
    most E f(scale * z)^2 (Parseval). The function is given by its name, as a callable, or as a ScalarFunction. Raises
    `InvalidInput` if `order` is not a non-negative integer, or the scale is negative or not finite.
    """
    return hermite_smoothed(scalar_function(function), 0.0, scale, order)
