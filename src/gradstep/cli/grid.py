"""From the options of a command to the problems it is about: a cartesian grid."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradstep import reading
from gradstep.errors import InvalidInput

if TYPE_CHECKING:
    from gradstep.grid import Grid
    from gradstep.problem import Problem

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
    "ridge": "d/64",
    "noise": 0.1,
}

_WHOLE = ("d", "width", "n_step", "n")


def read_toml(path: Path) -> dict[str, Any]:
    """Return the tables of a TOML file.

    Raises `InvalidInput` if it cannot be read or is not TOML.
    """
    try:
        return reading.read_toml(path)
    except OSError as error:
        raise InvalidInput("settings", str(path), f"a readable TOML file ({error.strerror})") from None
    except ValueError as error:
        raise InvalidInput("settings", str(path), f"valid TOML ({error})") from None


def read_settings(path: Path) -> dict[str, Any]:
    """Return the parameters in a TOML file (its ``[problem]`` table where there is one).

    Raises `InvalidInput` as `read_toml` does, if its ``problem`` is not a table, and if there are other tables beside
    it.
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

    Raises `InvalidInput` on text without a name and an equals sign, and on a name given twice.
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

    `given` has parameters of `Problem.from_dict`, where text stands for numbers, lists and ranges. In the canonical
    convention `DEFAULTS` fill what is missing. Raises `InvalidInput` naming the parameter, its value and what is
    allowed; also if there are more than `MOST_PROBLEMS` problems.
    """
    from gradstep.grid import Axis, Grid
    from gradstep.problem import Problem
    from gradstep.ranges import values_of

    Problem.check_names(given)  # before the values, which are read by their names
    convention = given.get("convention", "canonical")
    named = {**DEFAULTS, **given} if convention == "canonical" else dict(given)
    choices = {name: values_of(name, value) for name, value in named.items()}
    for name in _WHOLE:
        for value in choices.get(name, ()):
            if isinstance(value, int | float) and _LARGEST < value < math.inf:
                raise InvalidInput(name, float(value), f"an integer <= {_LARGEST:.0e}, or inf for the limit")
    axes = tuple(Axis(name, values) for name, values in choices.items() if len(values) > 1)
    fixed = {name: values[0] for name, values in choices.items() if len(values) == 1}
    grid = Grid(axes, partial(_problem, fixed))
    _ = grid.problems  # all are checked before any work
    return grid


def _problem(fixed: Mapping[str, Any], values: Mapping[str, Any]) -> Problem:
    from gradstep.problem import Problem

    return Problem.from_dict({**fixed, **values})
