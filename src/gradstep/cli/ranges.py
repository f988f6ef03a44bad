"""Numbers, lists and ranges as they are written on the command line."""

from __future__ import annotations

import math
import re
import sys
from typing import NamedTuple

from gradstep.errors import InvalidInput

#: Most values one option may stand for.
MOST_VALUES = 10_000

NUMBERS = "a number, a list 1,2,5 or a range first:last:count or first:last:logcount (for instance 1e-4:1e2:log7)"
STEPS = (
    "a number, or COEFFICIENT*N^EXPONENT such as 1.5*N^0.5 or N^0.25; either part may be a list or a range, "
    "the exponent in [0, 1]"
)

_POWER_OF_WIDTH = re.compile(r"(?:(?P<coefficient>[^*N]+?)\s*\*?\s*)?N(?:\s*(?:\^|\*\*)\s*(?P<exponent>[^N*^]+))?")


class StepRange(NamedTuple):
    """Coefficients and exponents of ``eta = coefficient * width**exponent``."""

    coefficients: tuple[float, ...]
    exponents: tuple[float, ...]


def parse_numbers(field: str, text: str, *, whole: bool = False) -> tuple[float, ...]:
    """Read one number, a list or a range.

    Parameters
    ----------
    field : str
        Name used in the error.
    text : str
        ``"3"``, ``"1,2,5"``, ``"500:4000:12"`` (12 values, evenly spaced, both ends included) or ``"1e-4:1e2:log7"``
        (7 values, evenly spaced in the logarithm).
    whole : bool
        Round the inner values of a range to integers, without repeating one; integral values become int.

    Returns
    -------
    tuple of float
        At least one value. Infinity is let through, for whoever uses the value to judge.

    Raises
    ------
    InvalidInput
        On anything else, on nan, and on more than `MOST_VALUES` values.
    """
    pieces = text.split(":")
    if len(pieces) == 1:
        values = [_number(field, piece, text) for piece in text.split(",")]
    elif len(pieces) == 3:
        first, last = _number(field, pieces[0], text), _number(field, pieces[1], text)
        values = _spaced(field, text, first, last, pieces[2].strip())
        if whole and first.is_integer() and last.is_integer():
            values = [float(round(value)) for value in values]
    else:
        raise InvalidInput(field, text, NUMBERS)
    if len(values) > MOST_VALUES:
        raise InvalidInput(field, text, f"at most {MOST_VALUES} values")
    if whole:
        values = [int(value) if value.is_integer() else value for value in values]
    return tuple(dict.fromkeys(values))


def parse_step(field: str, text: str) -> StepRange:
    """Read a step size: a number (or list or range), or such a coefficient times a power of the width ``N``.

    Parameters
    ----------
    field : str
        Name used in the error.
    text : str
        ``"0.3"``, ``"0:4:9"``, ``"N^0.25"``, ``"1.5*N^0.5"``, ``"N^0:0.5:11"``.

    Returns
    -------
    StepRange

    Raises
    ------
    InvalidInput
        On anything else.
    """
    stripped = text.strip()
    try:
        if "N" not in stripped:
            return StepRange(parse_numbers(field, stripped), (0.0,))
        power = _POWER_OF_WIDTH.fullmatch(stripped)
        if power is None:
            raise InvalidInput(field, text, STEPS)
        return StepRange(
            parse_numbers(field, power["coefficient"] or "1"), parse_numbers(field, power["exponent"] or "1")
        )
    except InvalidInput:
        raise InvalidInput(field, text, STEPS) from None


def parse_seeds(text: str) -> int | tuple[int, ...]:
    """Read how many seeds (``"16"``), or the seeds themselves (``"3,7,11"``).

    Raises
    ------
    InvalidInput
        On anything else; the simulation judges the values.
    """
    allowed = "a number of seeds >= 1 such as 16, or distinct seeds in [0, 2**32) such as 3,7,11"
    pieces = [piece.strip() for piece in text.split(",")]
    if not all(re.fullmatch(r"[0-9]{1,10}", piece) for piece in pieces):
        raise InvalidInput("seeds", text, allowed)
    seeds = tuple(map(int, pieces))
    if len(seeds) == 1:
        if not 1 <= seeds[0] <= 1_000_000:
            raise InvalidInput("seeds", text, "a number of seeds from 1 to 1000000, or distinct seeds such as 3,7,11")
        return seeds[0]
    if len(set(seeds)) != len(seeds) or max(seeds) >= 2**32:
        raise InvalidInput("seeds", text, allowed)
    return seeds


def _number(field: str, piece: str, text: str) -> float:
    try:
        value = float(piece)
    except ValueError:
        raise InvalidInput(field, text, NUMBERS) from None
    if math.isnan(value) or "_" in piece:
        raise InvalidInput(field, text, NUMBERS)
    if math.isinf(value) and "inf" not in piece.lower():
        raise InvalidInput(field, text, f"numbers up to {sys.float_info.max:.1e}; infinity is written inf")
    return value


def _spaced(field: str, text: str, first: float, last: float, count_text: str) -> list[float]:
    logarithmic = count_text.startswith("log")
    digits = count_text.removeprefix("log")
    if not re.fullmatch(r"[0-9]{1,6}", digits) or not 2 <= int(digits) <= MOST_VALUES:
        raise InvalidInput(field, text, f"first:last:count with a count from 2 to {MOST_VALUES} (or log before it)")
    if not (math.isfinite(first) and math.isfinite(last)) or first == last:
        raise InvalidInput(field, text, "two different finite ends: first:last:count")
    if logarithmic and not (first > 0 and last > 0):
        raise InvalidInput(field, text, "two ends > 0 for a range that is even in the logarithm")
    count = int(digits)
    parts = [k / (count - 1) for k in range(1, count - 1)]
    if logarithmic:
        inner = [first * (last / first) ** part for part in parts]
    else:
        inner = [first + (last - first) * part for part in parts]
    return [first, *inner, last]
