"""Sizes of a problem: finite integers, or multiples of an infinite input dimension (the proportional limit)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from gradstep.checks import bounded, size
from gradstep.errors import InvalidInput

__all__ = ["Proportional", "Sizes", "at_dimension", "extent"]

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

    Used with ``d=math.inf``, where only the ratios have a meaning.

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


def extent(name: str, value: object, infinite_d: bool) -> int | Proportional:
    """Return a size as a problem holds it: proportional to `d` if that is infinite, and otherwise an integer.

    Raises
    ------
    InvalidInput
        On a size of the other kind, and on what is none.
    """
    if isinstance(value, Mapping) and set(value) == {"per_d"}:
        value = Proportional(value["per_d"])
    if infinite_d:
        if not isinstance(value, Proportional):
            raise InvalidInput(name, value, "Proportional(ratio) when d is infinite")
        return value
    if isinstance(value, Proportional):
        raise InvalidInput(name, value, "an integer >= 1 when d is finite (use Problem.at_dimension)")
    return size(name, value)
