r"""Hermite coefficients of the slides: :math:`c_k` of a function, and :math:`\xi_{p,i}` of the powers."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradstep.gaussian import ScalarFunction, hermite_coefficients

__all__ = ["coefficients", "smoothed_powers"]

Array = NDArray[np.float64]


def coefficients(function: str | ScalarFunction, order: int) -> Array:
    r"""Return :math:`c_k=E[\sigma(Z)H_k(Z)]/k!`, k = 0..order."""
    factorials = [float(math.factorial(k)) for k in range(order + 1)]
    return np.asarray(hermite_coefficients(function, order) / np.sqrt(factorials))


def smoothed_powers(order: int, variance: ArrayLike) -> Array:
    r"""Return the coefficients of :math:`E_u(x+\sqrt v\,u)^k`, :math:`u\sim N(0,1)`, k = 1..order, in powers of x.

    There is a row for each k, with the coefficients of :math:`1,x,x^2` and so on: shape (..., order, order + 1). The
    variance is :math:`v`. With :math:`1+v` in its place the coefficients are those of the Hermite polynomials of x: at
    one they are the slides' :math:`\xi_{k,i}`, :math:`x^k=\sum_i\xi_{k,i}H_i(x)`.
    """
    variance = np.asarray(variance, dtype=np.float64)
    coefficients = np.zeros((*variance.shape, order, order + 1))
    for k in range(1, order + 1):
        for j in range(k // 2 + 1):
            # binom(k, 2j) (2j - 1)!! v^j
            coefficients[..., k - 1, k - 2 * j] = math.comb(k, 2 * j) * math.prod(range(1, 2 * j, 2)) * variance**j
    return coefficients
