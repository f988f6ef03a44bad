"""Arguments that several theories take: ranges and names, checked before any work."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradstep.errors import InvalidInput
from gradstep.gaussian import moments
from gradstep.problem import Problem

__all__ = ["check_labels", "check_refine", "finite", "nonnegative", "positive"]

Array = NDArray[np.float64]


def positive(field: str, value: ArrayLike) -> Array:
    """Return ``value`` as floats, or raise `InvalidInput` unless all are finite and positive."""
    return _floats(field, value, "finite and > 0", lambda array: array > 0)


def nonnegative(field: str, value: ArrayLike) -> Array:
    """Return ``value`` as floats, or raise `InvalidInput` unless all are finite and non-negative."""
    return _floats(field, value, "finite and >= 0", lambda array: array >= 0)


def finite(field: str, value: ArrayLike) -> Array:
    """Return ``value`` as floats, or raise `InvalidInput` unless all are finite."""
    return _floats(field, value, "finite", np.isfinite)


def _floats(field: str, value: ArrayLike, allowed: str, within: Callable[[Array], NDArray[np.bool_]]) -> Array:
    """Return ``value`` as floats, at least one, that are finite and `within` what is allowed."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput(field, value, f"numbers, {allowed}") from None
    if array.size == 0:
        raise InvalidInput(field, value, f"at least one number, {allowed}")
    if not (np.isfinite(array) & within(array)).all():
        raise InvalidInput(field, value, allowed)
    return array


def check_refine(refine: object) -> None:
    """Raise `InvalidInput` unless ``refine`` is a small positive integer."""
    if isinstance(refine, bool) or not isinstance(refine, (int, np.integer)) or not 1 <= refine <= 16:
        raise InvalidInput("refine", refine, "an integer in [1, 16]")


def check_labels(problem: Problem) -> None:
    """Raise `InvalidInput` if all labels are zero: nothing is learned, and nothing fluctuates."""
    if problem.noise == 0 and moments(problem.teacher).second_moment == 0:
        raise InvalidInput("teacher", problem.teacher.name, "one that is not zero everywhere, or label noise")
