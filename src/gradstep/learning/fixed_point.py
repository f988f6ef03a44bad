"""Fixed points of many maps at once, by Anderson's acceleration."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from array_api_compat import array_namespace

from gradstep.learning.pool import Array
from gradstep.resolution import NOTHING

__all__ = ["accelerated"]

#: Smallest determinant, over the product of the diagonal, of the two differences of residuals that are combined.
_LEAST_DETERMINANT = 1e-8


def accelerated(image: Callable[[Array], Array], start: Array, steps: int, tolerance: float) -> tuple[Array, float]:
    """Return the fixed points of G maps, from at most so many images, and the residual.

    The next place is that at which the residual would be least, in the sense of least squares, if it were linear
    between the last three places. Places have the shape (M, G), and `image` takes them to their images, column by
    column, which are never above zero. The residual is the largest distance between a place and its image. What is
    returned is the first place where it is within the tolerance; if it is not, no fixed point was found.
    """
    xp = array_namespace(start)

    def dot(a: Array, b: Array) -> Array:
        return xp.sum(a * b, axis=0)

    place = start
    before: list[tuple[Array, Array]] = []
    residual: Any = None
    for _ in range(steps):
        missing = image(place) - place
        residual = float(xp.max(xp.abs(missing)))
        if residual <= tolerance:
            break
        following = place + missing
        differences = [(place - p, missing - m) for p, m in before]
        if len(differences) == 1:
            ((moved, changed),) = differences
            following = following - dot(changed, missing) / (dot(changed, changed) + NOTHING) * (moved + changed)
        elif differences:
            (moved, changed), (moved_more, changed_more) = differences
            a, b, c = dot(changed, changed), dot(changed, changed_more), dot(changed_more, changed_more)
            right, right_more = dot(changed, missing), dot(changed_more, missing)
            determinant = a * c - b * b
            # Two differences along the same line have no second direction: then the later one is enough.
            apart = determinant > _LEAST_DETERMINANT * a * c
            safe = xp.where(apart, determinant, 1 + 0 * determinant)
            later = xp.where(apart, (a * right_more - b * right) / safe, right_more / (c + NOTHING))
            earlier = xp.where(apart, (c * right - b * right_more) / safe, 0 * right)
            following = following - earlier * (moved + changed) - later * (moved_more + changed_more)
        before = [*before[-1:], (place, missing)]
        place = xp.clip(following, None, 0.0)
    return place, residual
