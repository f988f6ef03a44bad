"""Check the parameters of the estimators, before any work."""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np

from gradstep.errors import InvalidInput
from gradstep.gaussian import ScalarFunction, scalar_function
from gradstep.problem import LARGEST_NUMBER, Step
from gradstep.simulation.backend import Backend, backend

__all__ = [
    "checked_activation",
    "checked_backend",
    "checked_damping",
    "checked_eta",
    "checked_flag",
    "checked_real",
    "checked_size",
    "checked_split",
    "checked_steps",
]


#: Most gradient steps: each takes about as long as the first.
_MOST_STEPS = 1000


def checked_size(name: str, value: Any) -> int:
    """Return a positive integer."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 1:
        raise InvalidInput(name, value, "an integer >= 1")
    return int(value)


def checked_steps(value: Any) -> int:
    """Return a number of gradient steps."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or not 1 <= int(value) <= _MOST_STEPS:
        raise InvalidInput("n_steps", value, f"an integer from 1 to {_MOST_STEPS}")
    return int(value)


def checked_real(name: str, value: Any, *, positive: bool = False, auto: bool = False) -> float | None:
    """Return a number of the right sign that is not too large; None for ``"auto"`` where that is allowed."""
    if auto and isinstance(value, str) and value == "auto":
        return None
    good = isinstance(value, numbers.Real) and not isinstance(value, bool) and value <= LARGEST_NUMBER
    if not good or value < 0 or (positive and value == 0):
        allowed = f"a number {'>' if positive else '>='} 0, at most {LARGEST_NUMBER:g}"
        raise InvalidInput(name, value, f"'auto' or {allowed}" if auto else allowed)
    return float(value)


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
    if isinstance(value, numbers.Real) and value == math.inf:
        return math.inf
    try:
        return checked_real("damping", value, positive=True, auto=True)
    except InvalidInput:
        raise InvalidInput("damping", value, f"'auto', a number > 0, at most {LARGEST_NUMBER:g}, or infinity") from None


def checked_split(value: Any) -> float:
    """Return the share of the rows that only the step sees; zero when step and fit share all rows."""
    if isinstance(value, bool | np.bool_):
        return 0.5 if value else 0.0
    if not isinstance(value, numbers.Real) or not 0 < float(value) < 1:
        raise InvalidInput("sample_split", value, "False, True or a number in (0, 1)")
    return float(value)


def checked_flag(name: str, value: Any) -> bool:
    """Return a truth value."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidInput(name, value, "True or False")
    return bool(value)


def checked_activation(value: Any) -> ScalarFunction:
    """Return the function."""
    try:
        function = scalar_function(value)
    except InvalidInput as error:
        raise InvalidInput("activation", error.value, error.allowed, error.reason) from None
    if np.ptp(function(np.linspace(-8, 8, 257))) == 0:
        raise InvalidInput("activation", value, "a function that is not constant")
    return function


def checked_backend(device: Any, dtype: Any) -> Backend:
    """Return where to compute."""
    if not isinstance(dtype, str):
        raise InvalidInput("dtype", dtype, "'float64' or 'float32'")
    return backend(device, dtype)
