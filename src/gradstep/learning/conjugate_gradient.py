"""Symmetric positive definite systems that are known by their products with vectors."""

from __future__ import annotations

import math
from collections.abc import Callable

from gradstep.learning.pool import Array

__all__ = ["NotDefinite", "conjugate_gradient"]

_STEPS = 1000


class NotDefinite(ArithmeticError):  # noqa: N818
    """The matrix has shown a direction in which it is not positive."""


def conjugate_gradient(
    product: Callable[[Array], Array], right: Array, diagonal: Array, tolerance: float, *, certified: bool = False
) -> tuple[Array, float]:
    """Solve a system by conjugate gradients, preconditioned by a diagonal.

    Parameters
    ----------
    product : callable
        Product of the matrix with a vector (M,).
    right : array, shape (M,)
    diagonal : array, shape (M,)
        Positive; the preconditioner is its inverse.
    tolerance : float
        Norm of the residual over that of the right side, both in the metric of the preconditioner, at which to stop.
    certified : bool
        Whether the residual is computed anew from the solution, at the price of one more product.

    Returns
    -------
    solution : array, shape (M,)
    residual : float
        The same relative norm: what is left of the right side, or what the steps have made of it.

    Raises
    ------
    NotDefinite
        If the matrix is not positive definite.
    """
    solution, rest = 0 * right, right
    scale = _dot(right, right / diagonal)
    if scale == 0:
        return solution, 0.0
    direction = rest / diagonal
    size = _dot(rest, direction)
    for _ in range(_STEPS):
        if size <= tolerance**2 * scale:
            break
        image = product(direction)
        curvature = _dot(direction, image)
        if not curvature > 0:
            raise NotDefinite("a matrix that is to be positive definite is not")
        step = size / curvature
        solution = solution + step * direction
        rest = rest - step * image
        following = _dot(rest, rest / diagonal)
        direction = rest / diagonal + (following / size) * direction
        size = following
    if certified:
        rest = right - product(solution)
        size = _dot(rest, rest / diagonal)
    return solution, math.sqrt(size / scale)


def _dot(a: Array, b: Array) -> float:
    return float(a @ b)
