"""From the options of a command to the problems it is about: a cartesian grid."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradstep import reading
from gradstep.checks import is_real
from gradstep.cli.ranges import parse_numbers, parse_step
from gradstep.errors import InvalidInput

if TYPE_CHECKING:
    from gradstep.problem import Problem

#: Most problems one command may stand for.
MOST_PROBLEMS = 100_000

#: Largest finite size; what is larger is the limit to every digit.
_LARGEST = 1e12

#: What is not said: a large step that visibly learns, small enough to simulate in a second.
DEFAULTS: Mapping[str, Any] = {
    "activation": "tanh",
    "teacher": "sin",
    "d": 128,
    "width": "1.5d",
    "n_step": "4d",
    "n": "3d",
    "eta": "N^0.5",
    "ridge": "0.015625d",
    "noise": 0.1,
}

_WHOLE = ("d", "width", "n_step", "n")
_PER_D = ("width", "n_step", "n", "ridge")
_TEXT = frozenset(
    {"activation", "teacher", "readout", "initial_weights", "output_scale", "convention", "origin", "residual"}
)
_READOUT = "gaussian, constant, or VALUE:WEIGHT pairs such as -1:0.5,1:0.5"


@dataclass(frozen=True)
class Axis:
    """One option that takes several values."""

    name: str
    values: tuple[float, ...]

    @property
    def is_logarithmic(self) -> bool:
        """Whether the values are positive and spread over more than a factor of thirty, evenly in the logarithm."""
        smallest, largest = min(self.values), max(self.values)
        if smallest <= 0 or largest / smallest < 30 or not math.isfinite(largest):
            return False
        middle = sorted(self.values)[len(self.values) // 2]
        return middle < (smallest + largest) / 4


@dataclass(frozen=True)
class Grid:
    """Problems at every combination of the axes; the last axis varies fastest."""

    axes: tuple[Axis, ...]
    points: tuple[tuple[float, ...], ...]
    problems: tuple[Problem, ...]

    def coordinates(self, index: int) -> dict[str, float]:
        """Return the value of every axis at a problem."""
        return {axis.name: value for axis, value in zip(self.axes, self.points[index], strict=True)}


def read_toml(path: Path) -> dict[str, Any]:
    """Return the tables of a TOML file.

    Raises
    ------
    InvalidInput
        If it cannot be read or is not TOML.
    """
    try:
        return reading.read_toml(path)
    except OSError as error:
        raise InvalidInput("settings", str(path), f"a readable TOML file ({error.strerror})") from None
    except ValueError as error:
        raise InvalidInput("settings", str(path), f"valid TOML ({error})") from None


def read_settings(path: Path) -> dict[str, Any]:
    """Return the parameters in a TOML file (its ``[problem]`` table where there is one).

    Raises
    ------
    InvalidInput
        As `read_toml`, if its ``problem`` is not a table, and if there are other tables beside it.
    """
    settings = read_toml(path)
    problem = settings.get("problem", settings)
    if not isinstance(problem, dict):
        raise InvalidInput("settings", str(path), "a [problem] table")
    others = [f"[{name}]" for name in settings if name != "problem"]
    if problem is not settings and others:
        raise InvalidInput("settings", ", ".join(others), "a [problem] table alone; the others are for gradstep sweep")
    return problem


def read_pairs(pairs: Sequence[str], field: str = "set", example: str = "psi1=4") -> dict[str, str]:
    """Read ``NAME=VALUE`` pairs of an option.

    Raises
    ------
    InvalidInput
        On text without a name and an equals sign, and on a name given twice.
    """
    values: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        name, value = name.strip(), value.strip()
        if not equals or not name or not value:
            raise InvalidInput(field, pair, f"NAME=VALUE, for instance {example}")
        if name in values:
            raise InvalidInput(field, pair, f"{name} only once")
        values[name] = value
    return values


def build_grid(given: Mapping[str, Any]) -> Grid:
    """Build the problems at every combination of the values given.

    Parameters
    ----------
    given : mapping
        Parameters of `Problem.from_dict`, where text stands for numbers, lists and ranges. In the canonical convention
        `DEFAULTS` fill what is missing.

    Returns
    -------
    Grid

    Raises
    ------
    InvalidInput
        Naming the parameter, its value and what is allowed; also if there are more than `MOST_PROBLEMS` problems.
    """
    from gradstep.problem import Problem

    convention = given.get("convention", "canonical")
    named = {**DEFAULTS, **given} if convention == "canonical" else dict(given)
    fixed: dict[str, Any] = {}
    axes: list[Axis] = []
    per_d = frozenset(name for name, value in named.items() if is_per_d(name, value))
    for name, value in named.items():
        for part, choices in _read(name, value, multiple=name in per_d).items():
            if len(choices) > 1:
                axes.append(Axis(part, choices))
            else:
                fixed[part] = choices[0]
    count = math.prod(len(axis.values) for axis in axes)
    if count > MOST_PROBLEMS:
        ranges = " x ".join(f"{axis.name} ({len(axis.values)})" for axis in axes)
        raise InvalidInput("ranges", ranges, f"at most {MOST_PROBLEMS} problems in one command")
    points = tuple(itertools.product(*(axis.values for axis in axes)))
    names = [axis.name for axis in axes]
    problems = tuple(
        Problem.from_dict(_settings(fixed | dict(zip(names, point, strict=True)), per_d)) for point in points
    )
    return Grid(tuple(axes), points, problems)


def is_per_d(name: str, value: Any) -> bool:
    """Return whether a value is a multiple of the dimension, as in ``1.5d``."""
    return name in _PER_D and isinstance(value, str) and value.endswith("d")


def _read(name: str, value: Any, *, multiple: bool) -> dict[str, tuple[Any, ...]]:
    try:
        return _choices(name, value[:-1] if multiple else value, whole=not multiple)
    except InvalidInput as error:
        if multiple and error.value == value[:-1]:  # say what was given, and its d too
            raise InvalidInput(error.field, value, f"{error.allowed}, with one d at the end for all of it") from None
        raise


def _choices(name: str, value: Any, whole: bool) -> dict[str, tuple[Any, ...]]:
    if isinstance(value, list) and value and name not in _TEXT:
        if not all(map(is_real, value)):
            other = "; steps with an exponent are text such as '1,2N^0.5'" if name == "eta" else ""
            raise InvalidInput(name, value, f"numbers in a list{other}")
        return {name: tuple(value)}
    if not isinstance(value, str):
        return {name: (value,)}
    if name == "readout":
        return {name: (_readout(value),)}
    if name in _TEXT:
        return {name: (value,)}
    if value in ("true", "false"):
        return {name: (value == "true",)}
    if name == "eta":
        steps = parse_step(name, value)
        if steps.exponents == (0.0,):
            return {name: steps.coefficients}
        return {"eta": steps.coefficients, "eta_exponent": steps.exponents}
    return {name: parse_numbers(name, value, whole=whole and name in _WHOLE)}


def multiple_of_d(name: str, ratio: float, d: Any) -> Any:
    """Return a multiple of the dimension, as `Problem.from_dict` takes it.

    Raises
    ------
    InvalidInput
        If the multiple is not positive and finite.
    """
    if not 0 < ratio < math.inf:
        raise InvalidInput(name, f"{ratio:g}d", "a positive multiple of d")
    if not isinstance(d, int | float) or not math.isfinite(d):
        return {"per_d": ratio}
    return ratio * d if name == "ridge" else max(1, round(ratio * d))


def _settings(values: dict[str, Any], per_d: frozenset[str]) -> dict[str, Any]:
    d = values.get("d", math.nan)
    infinite = d in (math.inf, "inf", "infinity")
    for name in sorted(per_d):
        values[name] = multiple_of_d(name, values[name], d)
    for name in _WHOLE:
        if isinstance(values.get(name), int | float) and _LARGEST < values[name] < math.inf:
            raise InvalidInput(name, float(values[name]), f"an integer <= {_LARGEST:.0e}, or inf for the limit")
    if infinite and values.get("convention", "canonical") == "canonical":
        for name in _PER_D:
            if (
                name not in per_d
                and isinstance(values.get(name), int | float)
                and not (name == "n_step" and values[name] == math.inf)
            ):
                raise InvalidInput(name, values[name], "a multiple of d such as 1.5d where d is infinite")
    exponent = values.pop("eta_exponent", None)
    if exponent is not None:
        values["eta"] = {"coefficient": values["eta"], "exponent": exponent}
    return values


def _readout(text: str) -> str | dict[float, float]:
    if ":" not in text:
        return text
    law: dict[float, float] = {}
    for pair in text.split(","):
        try:
            value, weight = map(float, pair.split(":"))
        except ValueError:
            raise InvalidInput("readout", text, _READOUT) from None
        if value in law:
            raise InvalidInput("readout", text, "every value once")
        law[value] = weight
    return law
