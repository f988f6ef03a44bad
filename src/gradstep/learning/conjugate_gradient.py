"""Symmetric positive definite systems that are known by their products with vectors."""

from __future__ import annotations

from collections.abc import Callable

from array_api_compat import array_namespace

from gradstep.learning.pool import Array
from gradstep.resolution import NOTHING

__all__ = ["NotDefinite", "conjugate_gradient"]

_STEPS = 1000


class NotDefinite(ArithmeticError):  # noqa: N818
    """The matrix has shown a direction in which it is not positive."""


def conjugate_gradient(
    product: Callable[[Array], Array], right: Array, diagonal: Array, tolerance: float, *, certified: bool = False
) -> tuple[Array, float]:
    """Solve systems by conjugate gradients, preconditioned by the inverse of a positive diagonal.

    The right side has the shape (M,), or (M, G) for one column of each of G matrices, and so have the solution and what
    `product` takes and returns. The tolerance is the norm of the residual over that of the right side, both in the
    metric of the preconditioner. The residual returned is the same relative norm, the largest over columns: what the
    steps have made of it or, if it is `certified`, computed anew from the solution with one more product. Raises
    `NotDefinite` if a matrix is not positive definite.
    """
    xp = array_namespace(right)

    def dot(a: Array, b: Array) -> Array:
        return xp.sum(a * b, axis=0)

    solution, rest = 0 * right, right
    direction = rest / diagonal
    size = dot(rest, direction)
    scale = size + NOTHING
    for _ in range(_STEPS):
        open_ = size > tolerance**2 * scale
        if not bool(xp.any(open_)):
            break
        image = product(direction)
        curvature = dot(direction, image)
        if not bool(xp.all((curvature > 0) | ~open_)):
            raise NotDefinite("a matrix that is to be positive definite is not")
        step = xp.where(open_, size, 0 * size) / xp.where(open_, curvature, 1 + 0 * size)
        solution = solution + step * direction
        rest = rest - step * image
        scaled = rest / diagonal
        following = dot(rest, scaled)
        direction = scaled + (following / xp.where(open_, size, 1 + 0 * size)) * direction
        size = following
    if certified:
        rest = right - product(solution)
        size = dot(rest, rest / diagonal)
    return solution, float(xp.max(size / scale)) ** 0.5
