"""Checks of what was given: each returns the value as what it is used as, or raises `InvalidInput`.

Every error names the field, the value and what is allowed. Truth values are never numbers here, though Python counts
them as integers.
"""

from __future__ import annotations

import math
import numbers
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard, cast

from gradstep.errors import InvalidInput

if TYPE_CHECKING:  # the command line shows its help without NumPy
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[np.float64]

__all__ = [
    "LARGEST_NUMBER",
    "MOST_SEEDS",
    "MOST_STEPS",
    "bounded",
    "chosen_seed",
    "finite",
    "flag",
    "function_or_none",
    "integer",
    "is_infinite",
    "is_real",
    "is_whole",
    "nonnegative",
    "one_of",
    "plain_number",
    "positive",
    "read_number",
    "real",
    "size",
    "worker_count",
]

#: Fourth powers of labels and of steps enter the theory together; beyond this they overflow.
LARGEST_NUMBER = 1e30
#: Networks of one problem: more are a slip of the pen, and their seeds alone would fill the memory.
MOST_SEEDS = 1_000_000
#: Steps of one training: those of the smallest networks take minutes then, and more never seem to end.
MOST_STEPS = 1_000_000
#: Processes that may be asked for: far more than a machine has cores.
_MOST_WORKERS = 4096
#: Sizes are 64-bit integers wherever they are stored.
_LARGEST_SIZE = 4 * 10**18


def is_real(value: object) -> TypeGuard[float]:
    """Return whether a value is a real number of any library, and no truth value."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def is_whole(value: object) -> TypeGuard[float]:
    """Return whether a value is a whole number of any library, maybe a float such as 1e3, and no truth value."""
    return is_real(value) and (isinstance(value, numbers.Integral) or (math.isfinite(value) and value == int(value)))


def is_infinite(value: object) -> bool:
    """Return whether a value is the number infinity."""
    return isinstance(value, numbers.Real) and bool(value == math.inf)


def plain_number(value: object) -> object:
    """Return the number in an array without dimensions, or of another library, as one of Python; all else as it is.

    Such arrays come from iterating over an array of xarray or PyTorch, or from ``numpy.asarray(1.0)``. What NumPy has
    masked stays what it is: there would be a zero under the mask.
    """
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item") and not getattr(value, "mask", False):
        return cast(Any, value).item()
    return value


def integer(field: str, value: object, low: int, high: int | None = None, *, allowed: str = "") -> int:
    """Return a whole number from `low` to `high`, which may be given as a float such as 1e3.

    The field is for the message, and so are the allowed values in words, if it should say more than the two ends.
    Without `high` there is no largest value.
    """
    value = plain_number(value)
    if not is_whole(value) or value < low or (high is not None and value > high):
        ends = f">= {low}" if high is None else f"from {low} to {high}"
        raise InvalidInput(field, value, allowed or f"an integer {ends}")
    return int(value)


def chosen_seed(value: object) -> int:
    """Return a seed of random numbers."""
    return integer("seed", value, 0, 2**32 - 1, allowed="an integer in [0, 2**32)")


def size(field: str, value: object, minimum: int = 1, *, also: str = "") -> int:
    """Return a whole number that fits in 64 bits.

    `also` is for the message: what else is allowed, in words.
    """
    allowed = f"an integer >= {minimum}{also}"
    whole = integer(field, value, minimum, allowed=allowed)
    if whole > _LARGEST_SIZE:
        raise InvalidInput(field, value, f"{allowed}, at most {_LARGEST_SIZE:g}")
    return whole


def worker_count(value: object) -> int:
    """Return a number of worker processes."""
    return integer("workers", value, 1, _MOST_WORKERS)


def real(
    field: str, value: object, allowed: str = "a finite real number", within: Callable[[float], bool] | None = None
) -> float:
    """Return a number that is not nan as a float.

    The field is for the message, and so are the allowed values in words. All numbers are allowed, infinities included,
    or those of which `within` says so.
    """
    value = plain_number(value)
    try:
        number = float(value) if is_real(value) else math.nan
    except OverflowError:
        number = math.nan
    if math.isnan(number) or (within is not None and not within(number)):
        raise InvalidInput(field, value, allowed)
    return number


def read_number(field: str, text: str, allowed: str = "a number") -> float:
    """Return the number that a text says: infinity only where it is written inf."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if math.isnan(value) or "_" in text:
        raise InvalidInput(field, text, allowed)
    if math.isinf(value) and "inf" not in text.lower():
        raise InvalidInput(field, text, f"numbers up to {sys.float_info.max:.1e}; infinity is written inf")
    return value


def bounded(field: str, value: object, allowed: str = "", *, positive: bool = False) -> float:
    """Return a number that is at least zero, or above it if `positive`, and at most `LARGEST_NUMBER`."""
    allowed = allowed or f"a finite number {'>' if positive else '>='} 0"
    number = real(field, value, allowed)
    if not 0 <= number <= LARGEST_NUMBER or (positive and number == 0):
        raise InvalidInput(field, value, f"{allowed}, at most {LARGEST_NUMBER:g}" if number > 0 else allowed)
    return number


def flag(field: str, value: object) -> bool:
    """Return a truth value, of Python or of NumPy."""
    import numpy as np

    if not isinstance(value, bool | np.bool_):
        raise InvalidInput(field, value, "True or False")
    return bool(value)


def function_or_none(field: str, value: object, allowed: str) -> None:
    """Refuse what is neither None nor can be called."""
    if value is not None and not callable(value):
        raise InvalidInput(field, value, allowed)


def one_of(field: str, value: object, choices: Sequence[str]) -> str:
    """Return one of a few words."""
    if not isinstance(value, str) or value not in choices:
        *others, last = map(repr, choices)
        raise InvalidInput(field, value, f"{', '.join(others)} or {last}" if others else last)
    return value


def positive(field: str, value: ArrayLike, *, infinite: bool = False) -> Array:
    """Return one number or several as an array of floats, all of them positive, and finite unless `infinite`."""
    return _floats(field, value, "> 0, or inf" if infinite else "finite and > 0", lambda array: array > 0, infinite)


def nonnegative(field: str, value: ArrayLike, *, infinite: bool = False) -> Array:
    """Return one number or several as an array of floats, all of them at least zero, and finite unless `infinite`."""
    return _floats(field, value, ">= 0, or inf" if infinite else "finite and >= 0", lambda array: array >= 0, infinite)


def finite(field: str, value: ArrayLike) -> Array:
    """Return one number or several as an array of floats, all of them finite; of data, truth values are 0 and 1."""
    return _floats(field, value, "finite", lambda array: array == array, refused="cmM")


def _floats(
    field: str,
    value: ArrayLike,
    allowed: str,
    within: Callable[[Array], NDArray[np.bool_]],
    infinite: bool = False,
    refused: str = "bcmMSU",
) -> Array:
    """Return a value as floats, at least one, that are `within` what is allowed, and finite unless `infinite`.

    `refused` are NumPy's letters for types that it would make floats of, such as truth values, dates and text. Arrays
    that mask some of their values are refused, too.
    """
    import numpy as np

    try:
        given = np.asarray(value)
        masked = hasattr(value, "mask") and np.ma.is_masked(value)  # loading this part of NumPy takes a while
        array = None if masked or given.dtype.kind in refused else np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        array = None
    if array is None:
        raise InvalidInput(field, value, f"numbers, {allowed}")
    if array.size == 0:
        raise InvalidInput(field, value, f"at least one number, {allowed}")
    if not (within(array) & (infinite | np.isfinite(array))).all():
        raise InvalidInput(field, value, allowed)
    return array
