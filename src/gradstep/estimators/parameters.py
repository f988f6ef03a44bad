"""Check the parameters of the estimators, before any work."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradstep.checks import LARGEST_NUMBER, integer, is_infinite, real
from gradstep.errors import InvalidInput
from gradstep.gaussian import ScalarFunction, scalar_function
from gradstep.problem import Step
from gradstep.simulation.backend import Backend, backend

__all__ = [
    "checked_activation",
    "checked_backend",
    "checked_damping",
    "checked_eta",
    "checked_real",
    "checked_split",
    "checked_steps",
    "checked_width",
]


#: Least and largest number of neurons that is chosen.
_WIDTHS = 512, 2048
#: Products of rows and squared neurons for which the width is chosen, about: their sum takes ten seconds.
_PRODUCTS = 2**37
#: Most gradient steps: each takes about as long as the first.
_MOST_STEPS = 1000


def checked_steps(value: Any) -> tuple[int, bool]:
    """Return a number of gradient steps, and whether rounds that draw the first layer again may take their place."""
    if isinstance(value, str) and value == "auto":
        return 1, True
    try:
        return integer("n_steps", value, 1, _MOST_STEPS), False
    except InvalidInput:
        raise InvalidInput("n_steps", value, f"'auto' or an integer from 1 to {_MOST_STEPS}") from None


def checked_real(name: str, value: Any, *, positive: bool = False, auto: bool = False) -> float | None:
    """Return a number of the right sign that is not too large; None for ``"auto"`` where that is allowed."""
    if auto and isinstance(value, str) and value == "auto":
        return None
    allowed = f"a number {'>' if positive else '>='} 0, at most {LARGEST_NUMBER:g}"
    return real(
        name,
        value,
        f"'auto' or {allowed}" if auto else allowed,
        lambda number: 0 <= number <= LARGEST_NUMBER and not (positive and number == 0),
    )


def checked_width(value: Any, rows: int) -> int:
    """Return a number of neurons; ``"auto"`` is 512, 1024 or 2048 by the number of rows."""
    if not (isinstance(value, str) and value == "auto"):
        try:
            return integer("width", value, 1)
        except InvalidInput as error:
            raise InvalidInput("width", value, f"'auto' or {error.allowed}") from None
    least, most = _WIDTHS
    width = least
    # The power of two next to twice the number of rows, as long as the products allow it.
    while width < most and 2 * width < 2 * rows * math.sqrt(2) and rows * (2 * width) ** 2 <= _PRODUCTS:
        width *= 2
    return width


def checked_eta(value: Any, width: int) -> float | None:
    """Return eta; None for ``"auto"``."""
    if isinstance(value, Step):
        return value.size(width)
    try:
        return checked_real("eta", value, auto=True)
    except InvalidInput:
        raise InvalidInput(
            "eta", value, f"'auto', a number >= 0, at most {LARGEST_NUMBER:g}, or a gradstep.Step"
        ) from None


def checked_damping(value: Any) -> float | None:
    """Return a positive number or infinity; None for ``"auto"``."""
    if is_infinite(value):
        return math.inf
    try:
        return checked_real("damping", value, positive=True, auto=True)
    except InvalidInput:
        raise InvalidInput("damping", value, f"'auto', a number > 0, at most {LARGEST_NUMBER:g}, or infinity") from None


def checked_split(value: Any) -> float:
    """Return the share of the rows that only the step sees; zero when step and fit share all rows."""
    if isinstance(value, bool | np.bool_):
        return 0.5 if value else 0.0
    return real("sample_split", value, "False, True or a number in (0, 1)", lambda share: 0 < share < 1)


def checked_activation(value: Any) -> tuple[ScalarFunction, bool]:
    """Return the function, and whether a smooth one may take its place: ``"auto"`` begins with ReLU."""
    if isinstance(value, str) and value == "auto":
        return scalar_function("relu"), True
    try:
        function = scalar_function(value)
    except InvalidInput as error:
        raise InvalidInput("activation", error.value, error.allowed, error.reason) from None
    if np.ptp(function(np.linspace(-8, 8, 257))) == 0:
        raise InvalidInput("activation", value, "a function that is not constant")
    return function, False


def checked_backend(device: Any, dtype: Any) -> Backend:
    """Return where to compute."""
    return backend(device, dtype)
