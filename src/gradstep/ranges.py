"""Lists and ranges of the values of a parameter, as they are written on the command line and in Python."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from gradstep.checks import LARGEST_NUMBER, plain_number, read_number
from gradstep.errors import InvalidInput
from gradstep.gaussian import MultivariateFunction
from gradstep.inputs import Inputs
from gradstep.problem import Step, named_function, readout_weights
from gradstep.sizes import Proportional, read_size

__all__ = ["MOST_VALUES", "parse_seeds", "values_of"]

#: Most values one parameter may stand for.
MOST_VALUES = 10_000
#: Most networks that text may ask for.
_MOST_SEEDS = 1_000_000

_WHOLE = ("d", "width", "n_step", "n")
_PER_D = ("width", "n_step", "n", "ridge")
_STEPS = ("eta", "eta_tilde")
_FUNCTIONS = ("activation", "teacher")
#: Parameters whose text is a name or a formula, not a number.
_TEXT = frozenset(
    {
        "activation",
        "teacher",
        "readout",
        "initial_weights",
        "output_scale",
        "inputs",
        "convention",
        "origin",
        "residual",
    }
)
_NUMBERS = "a number, a list 1,2,5 or a range first:last:count or first:last:logcount (for instance 1e-4:1e2:log7)"
_SIZES = f"{_NUMBERS}; each may be a positive multiple of d: 1.5d,2d or 1d:4d:7"
_POWERS = (
    f"{_NUMBERS}, from 0 to {LARGEST_NUMBER:g}, or with a power of the width N from N^0 to N^1: 0,1,2*N^0.5 or sqrt(N) "
    "or 0:4:9*N^0.5 or N^0:0.5:11"
)


def values_of(name: str, given: object) -> tuple[Any, ...]:
    """Return the values of a parameter: of text the list or the range that it says, of a list what is in it.

    `given` is one value, an iterable of values, or text: values between commas, each a value or a range. A range
    is ``"500:4000:12"`` (12 values, evenly spaced, both ends included) or ``"1e-4:1e2:log7"`` (7 values, evenly spaced
    in the logarithm). Sizes and penalties may be multiples of the dimension (``"0.5d:4d:8"``), step sizes powers of the
    width (``"0,1,N^0.5"``, ``"N^0:0.5:11"``). Activations and teachers are names or formulas between commas.

    At least one value is returned, and none twice: numbers, `Proportional`, `Step`, or text where text is meant. Raises
    `InvalidInput` on text that is none of these, on an empty list, and on more than `MOST_VALUES` values.
    """
    if isinstance(given, str):
        values = _written(name, given)
    elif isinstance(given, Iterable) and not isinstance(given, Mapping | bytes):
        values = [value for each in given for value in _each(name, each)]
    else:
        values = _each(name, given)
    if not values:
        raise InvalidInput(name, given, "at least one value")
    if len(values) > MOST_VALUES:
        raise InvalidInput(name, given, f"at most {MOST_VALUES} values")
    kept = [value for i, value in enumerate(values) if value not in values[:i]] if len(values) < 1000 else values
    return tuple(kept)


def _each(name: str, value: object) -> list[Any]:
    """Return one value of a list: numbers of any library as those of Python."""
    if isinstance(value, str):
        return _written(name, value)
    value = value.tolist() if getattr(value, "ndim", 0) and hasattr(value, "tolist") else plain_number(value)
    if name in _FUNCTIONS and callable(value) and not isinstance(value, MultivariateFunction):
        value = named_function(name, value)  # once, not at each problem; it has a name to print
    if name in _STEPS and isinstance(value, Mapping):
        value = Step.parse(value)
    elif isinstance(value, Mapping) and name == "inputs":
        value = Inputs.parse(value)
    elif isinstance(value, Mapping) and name in _PER_D:
        value = read_size(name, value)
    if name in _WHOLE and isinstance(value, float) and value.is_integer():
        value = int(value)
    return [value]


def _written(name: str, text: str) -> list[Any]:
    """Return the values that a text says."""
    if name == "readout" and ":" in text:
        return [readout_weights(text)]
    if text in ("true", "false"):
        return [text == "true"]
    pieces = [piece.strip() for piece in _split(text)]
    if name in _TEXT:
        return pieces
    allowed = _POWERS if name in _STEPS else _SIZES if name in _PER_D else _NUMBERS
    try:
        return [value for piece in pieces for value in _range(name, piece)]
    except InvalidInput as error:
        if error.allowed.startswith(("numbers up to", "two ", "first:last")):
            raise InvalidInput(name, text, error.allowed) from None
        raise InvalidInput(name, text, allowed) from None


def _split(text: str) -> list[str]:
    """Split at commas that stand in no bracket."""
    pieces, depth = [""], 0
    for character in text:
        depth += (character in "([") - (character in ")]")
        if character == "," and depth == 0:
            pieces.append("")
        else:
            pieces[-1] += character
    return pieces


def _range(name: str, text: str) -> list[Any]:
    """Return one value, or those of a range."""
    if text.count(":") == 0:
        return [_single(name, text)]
    if name in _STEPS and "N" in text:
        return _powers(text)
    ends = text.split(":")
    if len(ends) != 3:
        raise InvalidInput(name, text, _NUMBERS)
    first, last, count = (part.strip() for part in ends)
    if name in _PER_D and count.endswith("d"):  # 1:4:7d is 1d:4d:7
        first, last, count = f"{first}d", f"{last}d", count[:-1]
    low, high = _single(name, first), _single(name, last)
    if isinstance(low, Proportional) and isinstance(high, Proportional):
        return [Proportional(ratio) for ratio in _spaced(name, text, low.ratio, high.ratio, count)]
    if isinstance(low, Proportional | Step) or isinstance(high, Proportional | Step):
        raise InvalidInput(name, text, _NUMBERS)
    values = _spaced(name, text, float(low), float(high), count)
    if name in _WHOLE and float(low).is_integer() and float(high).is_integer():
        return [round(value) for value in values]
    return list(values)


def _single(name: str, text: str) -> Any:
    if name in _STEPS:
        step = Step.parse(text)
        return step if step.exponent else step.coefficient
    value = read_size(name, text) if name in _PER_D else read_number(name, text)
    whole = name in _WHOLE and isinstance(value, float) and value.is_integer()
    return int(value) if whole else value


def _powers(text: str) -> list[Step]:
    """Return step sizes of which the coefficient or the exponent is a range: 0:4:9*N^0.5, N^0:0.5:11."""
    head, found, tail = text.partition("N") if "sqrt" not in text else (text.replace("sqrt(N)", ""), "N", "^0.5")
    factor, power = head.strip().removesuffix("*").strip() or "1", tail.strip().lstrip("^*").strip() or "1"
    if not found or "N" in power:
        raise InvalidInput("eta", text, _POWERS)
    return [Step(c, e) for c in _range("coefficient", factor) for e in _range("exponent", power)]


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


def parse_seeds(text: str, least: int = 1) -> int | tuple[int, ...]:
    """Read how many seeds (``"16"``), not below the least number, or the seeds themselves (``"3,7,11"``).

    Raises `InvalidInput` on anything else.
    """
    allowed = f"an integer in [{least}, {_MOST_SEEDS}], or distinct integers in [0, 2**32) such as 3,7,11"
    pieces = [piece.strip() for piece in text.split(",")]
    if not all(re.fullmatch(r"-?[0-9]{1,10}", piece) for piece in pieces):
        raise InvalidInput("seeds", text, allowed)
    seeds = tuple(map(int, pieces))
    if len(seeds) == 1:
        if not least <= seeds[0] <= _MOST_SEEDS:
            raise InvalidInput("seeds", seeds[0], allowed)
        return seeds[0]
    if len(set(seeds)) != len(seeds) or min(seeds) < 0 or max(seeds) >= 2**32:
        raise InvalidInput("seeds", text, allowed)
    return seeds
