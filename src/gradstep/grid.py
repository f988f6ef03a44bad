"""Problems at every combination of the values of some parameters; the values as numbers to draw and as words."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from gradstep.checks import is_real
from gradstep.errors import InvalidInput
from gradstep.gaussian import ScalarFunction
from gradstep.problem import Problem, Readout, Step
from gradstep.ranges import values_of
from gradstep.sizes import Proportional, at_dimension, extent
from gradstep.text_table import in_words, number

__all__ = ["MOST_PROBLEMS", "Axis", "Grid"]

#: Most problems of one grid.
MOST_PROBLEMS = 100_000
#: Most curves in one figure: beyond that two axes of numbers make a map.
MOST_CURVES = 8
#: How a parameter is called at an axis, and its symbol.
_CALLED = {
    "d": ("input dimension", "d"),
    "width": ("neurons", "N"),
    "n_step": ("samples of the step", "n0"),
    "n": ("samples of the fit", "n"),
    "eta": ("step size", "η"),
    "ridge": ("penalty", "Λ"),
    "noise": ("label noise", "sigma_eps"),
    "damping": ("damping of the step", "δ"),
}
_WHOLE = ("d", "width", "n_step", "n")
#: Parameters of which a prediction costs next to nothing once there is one.
_CHEAP = ("n", "ridge", "noise", "lam", "psi1")
_MANY, _FEW = 97, 41


@dataclass(frozen=True)
class Axis:
    """One parameter that takes several values.

    Attributes
    ----------
    name : str
        Name of the parameter, or ``"problem"`` for a list of problems.
    values : tuple
        Numbers, `Proportional`, `Step`, or text.
    """

    name: str
    values: tuple[Any, ...]

    @classmethod
    def of(cls, name: str, given: object) -> Self:
        """Return an axis of what is given in any form that `gradstep.ranges.values_of` takes."""
        return cls(name, values_of(name, given))

    @cached_property
    def unit(self) -> str:
        """Unit of the numbers: ``"d"``, a power of ``N``, or nothing.

        It is ``"N^"`` where the exponent of a step size varies, which then is the number on the axis.
        """
        if all(isinstance(value, Proportional) for value in self.values):
            return "d"
        if not self._has_steps:
            return ""
        steps = [Step.parse(value) for value in self.values]
        exponents = {step.exponent for step in steps if step.coefficient}
        if len(exponents) == 1:
            return str(Step(1.0, exponents.pop()))
        return "N^" if len({step.coefficient for step in steps}) == 1 else ""

    @property
    def _has_steps(self) -> bool:
        known = all(isinstance(value, Step) or is_real(value) for value in self.values)
        return known and any(isinstance(value, Step) and value.exponent for value in self.values)

    @cached_property
    def numbers(self) -> tuple[float, ...] | None:
        """The values as numbers in the unit of the axis, or None where some are none or units differ."""
        if self.unit == "d":
            return tuple(value.ratio for value in self.values)
        if self._has_steps:
            steps = [Step.parse(value) for value in self.values]
            if self.unit == "N^":
                return tuple(step.exponent for step in steps)
            return tuple(step.coefficient for step in steps) if self.unit else None
        return tuple(map(float, self.values)) if all(map(is_real, self.values)) else None

    def at(self, place: float) -> Any:
        """Return the value of the parameter at a number on the axis: whole numbers where only these have a meaning."""
        unit = self.unit
        if unit == "d":
            return Proportional(place)
        if unit == "N^":
            return Step(Step.parse(self.values[0]).coefficient, place)
        if unit:
            return Step(place, next(value.exponent for value in self.values if isinstance(value, Step)))
        return round(place) if self.name in _WHOLE and math.isfinite(place) else place

    def dense(self, count: int | None = None, d: float = math.inf) -> Axis:
        """Return the axis with many more values between its finite ends, its own among them.

        An axis that has as many as `count` values stays what it is. With the input dimension `d`, where it is the same
        everywhere, sizes that are multiples of it are those that problems have, which are whole: rounded sizes drawn at
        places that are not would make waves.
        """
        numbers = self.finite
        low, high = min(numbers), max(numbers)
        wanted = count or (_MANY if self.name in _CHEAP else _FEW)
        if low == high or len(numbers) >= wanted:
            return self
        spaced = np.geomspace if self.is_logarithmic else np.linspace
        between = [self.at(place) for place in spaced(low, high, wanted)[1:-1].tolist()]
        values = [*self.values, *between]
        if self.unit == "d" and self.name in _WHOLE and math.isfinite(d):
            values = [Proportional(at_dimension(extent(self.name, value, d), d) / d) for value in values]
        every = Axis(self.name, tuple(dict.fromkeys(values)))
        order = sorted(zip(every.numbers or (), every.values, strict=True), key=lambda pair: pair[0])
        return Axis(self.name, tuple(value for _, value in order))

    @property
    def finite(self) -> tuple[float, ...]:
        """The finite numbers of the axis; zero where there is none."""
        return tuple(filter(math.isfinite, self.numbers or ())) or (0.0,)

    @property
    def is_logarithmic(self) -> bool:
        """Whether the finite numbers are positive and spread over a factor of thirty, evenly in the logarithm."""
        numbers = self.finite
        smallest, largest = min(numbers), max(numbers)
        if smallest <= 0 or largest / smallest < 30:
            return False
        return sorted(numbers)[len(numbers) // 2] < (smallest + largest) / 4

    @property
    def head(self) -> str:
        """Name for the column of a table: it says the unit."""
        unit = self.unit
        if unit == "N^":
            return self.name
        return f"{self.name}/{unit}" if unit else self.name

    @property
    def texts(self) -> list[str]:
        """Return the values for the cells of that column."""
        numbers = None if self.unit == "N^" else self.numbers
        if numbers is not None and self.unit:
            return [number(value) for value in numbers]
        return [_written(value) for value in self.values]

    @property
    def label(self) -> str:
        """Name and symbol for the axis of a figure, with the unit."""
        called, symbol = _CALLED.get(self.name, (in_words(self.name), ""))
        unit = self.unit
        if unit == "N^":
            return f"exponent of the {called}, {symbol} = {_symbols(Step.parse(self.values[0]), 'α')}"
        over = {"": "", "d": "/d", "N^0.5": "/√N"}.get(unit, f"/{unit}")
        return f"{called}, {symbol}{over}" if symbol else called

    def legend(self, value: Any) -> str:
        """Return one value for the label of a curve."""
        if self.name == "eta" and Step.parse(value).coefficient == 0:
            return "no step"
        _, symbol = _CALLED.get(self.name, ("", ""))
        if symbol:
            return f"{symbol} = {_symbols(value)}"
        return in_words(self.said(value))

    def plain(self, value: Any) -> Any:
        """Return one value as a number or as text: of a multiple of d the ratio, if all values are multiples."""
        if isinstance(value, Proportional) and self.unit == "d":
            return value.ratio
        if isinstance(value, Step) and not value.exponent:
            return value.coefficient
        return value if is_real(value) else _written(value)

    def said(self, value: Any) -> str:
        """Return one value with the name of the parameter, in plain text."""
        return _written(value) if isinstance(value, str | ScalarFunction) else f"{self.name} {_written(value)}"


@dataclass(frozen=True)
class Grid:
    """Problems at every combination of the values of the axes; the last axis varies fastest.

    Attributes
    ----------
    axes : tuple of Axis
    make : callable
        Function of a mapping of the axes' names to values that returns the problem there.
    """

    axes: tuple[Axis, ...]
    make: Callable[[Mapping[str, Any]], Problem]

    def __post_init__(self) -> None:
        if math.prod(self.shape) > MOST_PROBLEMS:
            ranges = " x ".join(f"{axis.name} ({len(axis.values)})" for axis in self.axes)
            raise InvalidInput("ranges", ranges, f"at most {MOST_PROBLEMS} problems at once")

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of values of each axis."""
        return tuple(len(axis.values) for axis in self.axes)

    @cached_property
    def points(self) -> tuple[tuple[Any, ...], ...]:
        """Values of the axes at each problem."""
        return tuple(itertools.product(*(axis.values for axis in self.axes)))

    @cached_property
    def problems(self) -> tuple[Problem, ...]:
        """The problems."""
        names = [axis.name for axis in self.axes]
        return tuple(self.make(dict(zip(names, point, strict=True))) for point in self.points)

    @property
    def across(self) -> int:
        """Number of the axis that is the horizontal one of a figure: the one with the most numbers."""
        lengths = [len(axis.values) if axis.numbers is not None else 0 for axis in self.axes]
        return lengths.index(max(lengths))

    @property
    def is_map(self) -> bool:
        """Whether two parameters vary, both through more numbers than a figure has curves."""
        few = (axis.numbers is None or len(axis.values) <= MOST_CURVES for axis in self.axes)
        return len(self.axes) == 2 and not any(few)

    @property
    def heads(self) -> list[str]:
        """Names of the axes for the columns of a table."""
        return [axis.head for axis in self.axes]

    @cached_property
    def cells(self) -> list[tuple[str, ...]]:
        """Values of the axes at each problem for these columns."""
        return list(itertools.product(*(axis.texts for axis in self.axes)))

    def places(self) -> list[dict[str, str]]:
        """Return the cells of each problem by their heads."""
        return [dict(zip(self.heads, cells, strict=True)) for cells in self.cells]

    def coordinates(self, index: int) -> dict[str, Any]:
        """Return the value of every axis at a problem as a plain number or text, see `Axis.plain`."""
        return {axis.name: axis.plain(value) for axis, value in zip(self.axes, self.points[index], strict=True)}

    def dense(self, counts: Mapping[str, int | None]) -> Grid:
        """Return the grid with many more values along some of its axes."""
        dimensions = {problem.d for problem in self.problems}
        d = dimensions.pop() if len(dimensions) == 1 else math.inf
        axes = (axis.dense(counts[axis.name], d) if axis.name in counts else axis for axis in self.axes)
        return Grid(tuple(axes), self.make)


def _symbols(value: Any, exponent: str = "") -> str:
    """Return a number, a multiple of the dimension or a step size as a short formula."""
    if isinstance(value, Proportional):
        return f"{value.ratio:.4g}d".removeprefix("1d") or "d"
    if not isinstance(value, Step):
        return f"{value:.4g}"
    if not (value.exponent or exponent):
        return f"{value.coefficient:.4g}"
    power = "√N" if value.exponent == 0.5 and not exponent else f"N^{exponent or f'{value.exponent:.4g}'}"
    return power if value.coefficient == 1 else f"{value.coefficient:.4g} {power}"


def _written(value: Any) -> str:
    """Return a value of a parameter as it may be given in text."""
    if isinstance(value, Proportional):
        return f"{value.ratio:.6g}d"
    if value is None:  # the inputs alone may be nothing
        return "isotropic"
    if isinstance(value, ScalarFunction):
        return value.name
    if isinstance(value, Mapping):  # a readout
        return str(Readout.parse(value))
    return number(value) if is_real(value) else str(value)
