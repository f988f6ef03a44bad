"""Sizes of a problem: finite integers, or multiples of an infinite input dimension (the proportional limit)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from gradstep.checks import bounded, is_infinite, read_number, size
from gradstep.errors import InvalidInput

__all__ = ["Proportional", "Sizes", "apportioned", "at_dimension", "extent", "read_size"]

#: A multiple of the dimension as text: 1.5d, 1.5*d, d, d/64.
_MULTIPLE = re.compile(r"(?P<factor>[^d*/]*?)\s*\*?\s*d\s*(?:/\s*(?P<divisor>[^d*/]+))?")
_WRITTEN = "a number, or a multiple of d such as '1.5d' or 'd/64'"

_Number = TypeVar("_Number", bound=float, covariant=True)


class Sizes(NamedTuple, Generic[_Number]):
    """The sizes of a problem and its penalty as numbers.

    ``Sizes[int]`` are those of a network that can be drawn. ``Sizes[float]`` are those that equations take: in the
    proportional limit a large dimension stands for the infinite one, and `n_step` may be infinite.

    Attributes
    ----------
    d : int or float
        Input dimension.
    width : int or float
        Number of neurons.
    n_step : int or float
        Samples of the gradient step.
    n : int or float
        Samples of the ridge fit.
    ridge : float
        Penalty on the sum of squares.
    """

    d: _Number
    width: _Number
    n_step: _Number
    n: _Number
    ridge: float


@dataclass(frozen=True)
class Proportional:
    """A size (or penalty) that grows like the input dimension: ``ratio * d``.

    With ``d=math.inf`` only the ratios have a meaning. Where `d` is finite the size is the nearest integer.

    Parameters
    ----------
    ratio : float
        The size divided by ``d``; finite and positive.

    Raises
    ------
    InvalidInput
        If `ratio` is not a finite positive number.
    """

    ratio: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "ratio", bounded("Proportional.ratio", self.ratio, positive=True))


def at_dimension(value: float | Proportional, d: float) -> float:
    """Return a size (or penalty) as a real number, at an input dimension if it is proportional to it."""
    return value.ratio * d if isinstance(value, Proportional) else float(value)


def read_size(name: str, value: Any) -> Any:
    """Return a size or penalty that is given as text as what it says; other values are returned as they are.

    The name is for the message. Text is a number (``"300"``, ``"inf"``) or a multiple of the dimension (``"1.5d"``,
    ``"d/64"``). Raises `InvalidInput` on text that is neither.
    """
    if isinstance(value, Mapping) and set(value) == {"per_d"}:
        try:
            return Proportional(value["per_d"])
        except InvalidInput as error:
            raise InvalidInput(name, dict(value), f"{{per_d}} with {error.allowed}") from None
    if not isinstance(value, str):
        return value
    multiple = _MULTIPLE.fullmatch(value.strip())
    if multiple is None:
        return read_number(name, value.strip(), _WRITTEN)
    try:
        factor, divisor = (float(multiple[part] or 1) for part in ("factor", "divisor"))
        ratio = factor / divisor
    except (ValueError, ZeroDivisionError):
        ratio = math.nan
    if not 0 < ratio < math.inf:
        raise InvalidInput(name, value, _WRITTEN)
    return Proportional(ratio)


def extent(name: str, value: object, d: float) -> int | Proportional:
    """Return a size as a problem holds it: proportional to `d` if that is infinite, and otherwise an integer.

    Raises `InvalidInput` on a size of the other kind, and on what is none.
    """
    value = read_size(name, value)
    if isinstance(value, Proportional):
        return value if is_infinite(d) else size(name, max(1, round(value.ratio * d)))
    if is_infinite(d):
        raise InvalidInput(name, value, "a multiple of d such as '1.5d' or Proportional(1.5): d is infinite")
    return size(name, value, also=", or a multiple of d such as '1.5d'")


def apportioned(shares: Sequence[float], total: int) -> list[int]:
    """Round ``shares * total`` to integers that sum to `total`, by largest remainders; of equal ones the first."""
    exact = [share * total for share in shares]
    counts = [math.floor(value + 1e-9) for value in exact]  # 0.1 * 30 must give 3, not 2
    missing = total - sum(counts)
    for place in sorted(range(len(exact)), key=lambda k: counts[k] - exact[k])[:missing]:
        counts[place] += 1
    return counts
