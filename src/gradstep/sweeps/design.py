"""A grid of problems with seeds: what is to be done, point by point, without ever holding the whole list."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from gradstep.checks import MOST_SEEDS, flag, integer, one_of
from gradstep.errors import InvalidInput
from gradstep.gaussian import ScalarFunction, scalar_function
from gradstep.inputs import Inputs
from gradstep.problem import Problem, Readout, Step
from gradstep.ranges import values_of
from gradstep.sizes import Proportional
from gradstep.sweeps.task import Task, digest

__all__ = ["DEVICE_AT_HAND", "PREDICTED", "SIMULATED", "Axis", "Design", "design_of"]

#: What a task of theory calls.
PREDICTED = "gradstep.sweeps.measure:predicted"
#: What a task of one network calls.
SIMULATED = "gradstep.sweeps.measure:simulated"
PRECISION_COST = "gradstep.sweeps.measure:precision_cost"
#: What a worker is asked before a sweep on a device begins.
DEVICE_AT_HAND = "gradstep.sweeps.measure:device_at_hand"

#: Penalties of one fit: an axis of these alone costs one factorisation for all its values.
_PENALTY_NAMES = ("ridge", "lam")
_MOST_POINTS = 1_000_000
#: Points whose settings are kept at hand: bounds the memory of large grids.
_AT_HAND = 10_000
#: Between the seeds of a point: odd, near 2**32 over the golden ratio.
_STRIDE = 2654435769


class _Point(NamedTuple):
    """The part of a task that all tasks of a point share."""

    problem: dict[str, Any]
    ridge: list[float]
    first_seed: int


@dataclass(frozen=True)
class Axis:
    """Parameters that vary together.

    Attributes
    ----------
    names : tuple of str
        One parameter, or several that are zipped.
    values : tuple of tuple
        At each place of the axis, one plain value a name.
    """

    names: tuple[str, ...]
    values: tuple[tuple[Any, ...], ...]

    def __len__(self) -> int:
        return len(self.values)

    @property
    def dimension(self) -> str:
        """Name of the dimension in a labelled dataset."""
        return "_".join(self.names)

    def at(self, place: int) -> dict[str, Any]:
        """Return the parameters at a place."""
        return dict(zip(self.names, self.values[place], strict=True))


@dataclass(frozen=True)
class Design:
    """The points, the seeds and the measurements of a sweep.

    Attributes
    ----------
    base : mapping
        Parameters shared by all points, as `Problem.from_dict` reads them.
    axes : tuple of Axis
        The points are every combination of their places; the last axis varies fastest.
    seeds : int
        Networks simulated at each point (0: theory only).
    first_seed : int
        Root of all the seeds.
    paired : bool
        Use the same seeds at all points, so that differences between points are less noisy; otherwise every point has
        seeds of its own, so that z-scores of points are independent.
    theory : bool
        Whether to predict.
    device, dtype : str or None, str
        As in `gradstep.simulate`.
    """

    base: Mapping[str, Any]
    axes: tuple[Axis, ...]
    seeds: int = 16
    first_seed: int = 0
    paired: bool = False
    theory: bool = True
    device: str | None = None
    dtype: str = "float64"
    _known: dict[int, _Point] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        for name, most in (("seeds", MOST_SEEDS), ("first_seed", 2**63 - 1)):
            object.__setattr__(self, name, integer(name, getattr(self, name), 0, most))

    # --- axes --------------------------------------------------------------------------------------------------------

    @cached_property
    def path(self) -> Axis | None:
        """The axis of penalties, where there is one: a single task fits them all."""
        for axis in self.axes:
            if len(axis.names) == 1 and axis.names[0] in _PENALTY_NAMES:
                return axis
        return None

    @cached_property
    def outer_axes(self) -> tuple[Axis, ...]:
        """The axes without the path of penalties."""
        return tuple(axis for axis in self.axes if axis is not self.path)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Number of places on each outer axis."""
        return tuple(len(axis) for axis in self.outer_axes)

    @cached_property
    def points(self) -> int:
        """Number of combinations, a path of penalties counted once."""
        return math.prod(self.shape)

    @property
    def penalties(self) -> int:
        """Number of penalties of each point."""
        return len(self.path) if self.path is not None else 1

    def problems(self, point: int) -> list[Problem]:
        """Return the problem of a point, or one for each penalty of the path."""
        settings = dict(self.base)
        for axis, place in zip(self.outer_axes, np.unravel_index(point, self.shape), strict=True):
            settings.update(axis.at(int(place)))
        if self.path is None:
            return [Problem.from_dict(settings)]
        return [Problem.from_dict({**settings, **self.path.at(place)}) for place in range(len(self.path))]

    # --- tasks -------------------------------------------------------------------------------------------------------

    def _point(self, point: int) -> _Point:
        found = self._known.get(point)
        if found is None:
            problems = self.problems(point)
            plain = problems[0].to_dict()
            words: list[int] = []
            if not self.paired:
                # All penalties of a path are fitted on one network; zipped penalties belong to points of their own.
                shared = digest(plain if self._zipped_penalties else {**plain, "ridge": None})
                words = [int(word) for word in np.frombuffer(bytes.fromhex(shared), dtype="<u4")]
            first = int(np.random.SeedSequence([self.first_seed, *words]).generate_state(1, np.uint32)[0])
            if len(self._known) >= _AT_HAND:
                self._known.clear()
            found = self._known[point] = _Point(plain, [_penalty(p) for p in problems], first)
        return found

    @cached_property
    def _zipped_penalties(self) -> bool:
        return any(name in _PENALTY_NAMES for axis in self.outer_axes for name in axis.names)

    def seed_number(self, point: int, index: int) -> int:
        """Return the index-th seed of a point: fixed, and distinct from the point's other seeds."""
        # An odd stride visits every 32-bit number before any comes again.
        return (self._point(point).first_seed + index * _STRIDE) % 2**32

    def theory_task(self, point: int) -> Task:
        """Return the task that predicts a point."""
        known = self._point(point)
        return Task(PREDICTED, {"problem": known.problem, "ridge": known.ridge}, 0)

    def simulation_task(self, point: int, index: int) -> Task:
        """Return the task that simulates the index-th network of a point."""
        known = self._point(point)
        parameters = {"problem": known.problem, "ridge": known.ridge, "device": self.device, "dtype": self.dtype}
        return Task(SIMULATED, parameters, self.seed_number(point, index))

    def precision_task(self) -> Task:
        """Return the task that compares single with double precision, at the first network of the first point."""
        task = self.simulation_task(0, 0)
        return Task(PRECISION_COST, task.parameters, task.seed)

    def task(self, number: int) -> tuple[int, Task]:
        """Return a task with its point: predictions first, then all points seed by seed.

        With float32, what it costs is measured once, between the two.
        """
        predictions = self.points if self.theory else 0
        if number < predictions:
            return number, self.theory_task(number)
        number -= predictions
        if self._measures_precision:
            if number == 0:
                return 0, self.precision_task()
            number -= 1
        index, point = divmod(number, self.points)
        return point, self.simulation_task(point, index)

    def single_tasks(self, point: int) -> Iterator[Task]:
        """Yield the tasks of a point that are no networks."""
        if self.theory:
            yield self.theory_task(point)
        if self._measures_precision and point == 0:
            yield self.precision_task()

    def tasks(self, shard: tuple[int, int] = (0, 1)) -> Iterator[tuple[int, Task]]:
        """Yield (point, task) for all that is to be done.

        Of a shard ``(i, N)`` these are every N-th task, from the i-th on.
        """
        mine, shards = shard
        return map(self.task, range(mine, self.task_count, shards))

    @property
    def task_count(self) -> int:
        """Number of tasks of `tasks` without a shard."""
        return self.points * (self.seeds + self.theory) + self._measures_precision

    @property
    def _measures_precision(self) -> bool:
        return self.dtype == "float32" and self.seeds > 0

    def check(self) -> None:
        """See that every value is of its kind and every point a valid problem, before any work starts.

        Raises `InvalidInput` at the first that is not, or at a point that cannot be simulated.
        """
        if not isinstance(self.base, Mapping):
            raise InvalidInput("problem", self.base, "parameters and their values")
        self._check_axes()
        self._check_options()
        self._check_points()

    def _check_axes(self) -> None:
        names = [name for axis in self.axes for name in axis.names]
        for name in names:
            if not isinstance(name, str):
                raise InvalidInput("over", name, "names of parameters")
            if names.count(name) > 1:
                raise InvalidInput("over", name, "each parameter on one axis only")
            if name == "convention":
                raise InvalidInput("over", name, "parameters of one convention")
        if self.points > _MOST_POINTS:
            raise InvalidInput("over", f"{self.points} points", f"at most {_MOST_POINTS} points")
        for axis in self.axes:
            if not axis.names or not axis.values or any(len(row) != len(axis.names) for row in axis.values):
                raise InvalidInput(axis.dimension, axis.values, "at each place one value for each name")
            if len({digest(_same_numbers(value)) for value in axis.values}) != len(axis):
                raise InvalidInput(axis.dimension, [v[0] if len(v) == 1 else v for v in axis.values], "distinct values")

    def _check_options(self) -> None:
        flag("paired", self.paired)
        flag("theory", self.theory)
        if not self.seeds and not self.theory:
            raise InvalidInput("seeds", self.seeds, "at least one, or theory")
        if self.device is not None and not isinstance(self.device, str):
            raise InvalidInput("device", self.device, "None, or the name of a device: 'cpu', 'cuda' or 'cuda:k'")
        one_of("dtype", self.dtype, ("float64", "float32"))

    def _check_points(self) -> None:
        for point in range(self.points):
            problem = self._point(point).problem
            for name in ("d", "n_step"):
                if self.seeds and problem[name] == "inf":
                    raise InvalidInput(name, math.inf, "finite sizes where networks are simulated (or seeds = 0)")

    # --- plain form --------------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that `from_dict` reads back."""
        return {
            "base": dict(self.base),
            "axes": [{"names": list(axis.names), "values": [list(v) for v in axis.values]} for axis in self.axes],
            "seeds": self.seeds,
            "first_seed": self.first_seed,
            "paired": self.paired,
            "theory": self.theory,
            "device": self.device,
            "dtype": self.dtype,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Design:
        """Read what `to_dict` has written.

        Raises `InvalidInput` on anything else.
        """
        try:
            axes = tuple(Axis(tuple(a["names"]), tuple(map(tuple, a["values"]))) for a in values["axes"])
            design = cls(**{**values, "axes": axes})
        except (TypeError, KeyError) as error:
            raise InvalidInput("design", values, f"what Design.to_dict returns ({error})") from None
        design.check()
        return design


def design_of(
    base: Problem | Mapping[str, Any],
    over: Mapping[str, Sequence[Any] | str],
    *,
    zipped: Sequence[Mapping[str, Sequence[Any] | str]] = (),
    seeds: int = 16,
    first_seed: int = 0,
    paired: bool = False,
    theory: bool = True,
    device: str | None = None,
    dtype: str = "float64",
) -> Design:
    """Build a design and check it whole.

    The problem and the axes are those of `gradstep.sweep`. A parameter of the problem may be on an axis: the values
    there take the place of the problem's. The others are as in `Design`. Raises `InvalidInput` on empty or repeated
    axes, lists of different lengths, bad counts, and any point that is no valid problem.
    """
    shared = base.to_dict() if isinstance(base, Problem) else _table("problem", base)
    shared = {name: _plain(name, value) for name, value in shared.items()}
    if isinstance(zipped, str | Mapping) or not isinstance(zipped, Sequence):
        raise InvalidInput("zipped", zipped, "a list of tables, each with parameters that vary together")
    groups = [*({name: values} for name, values in _table("over", over).items()), *zipped]
    for group in groups:  # before the values, whose text is read by their names
        Problem.check_names({**_table("zipped", group), "convention": shared.get("convention", "canonical")})
    axes = [_axis(group) for group in groups]
    on_axes = {name for axis in axes for name in axis.names}
    # A value on an axis takes the place of one in the base.
    shared = {name: value for name, value in shared.items() if name not in on_axes}
    design = Design(
        shared,
        tuple(axes),
        seeds,
        first_seed,
        _plain("paired", paired),
        _plain("theory", theory),
        device,
        dtype,
    )
    design.check()
    return design


def _table(name: str, values: Any) -> Mapping[str, Any]:
    if not isinstance(values, Mapping) or not all(isinstance(key, str) for key in values):
        raise InvalidInput(name, values, "a table: names of parameters and what they are")
    return values


def _axis(group: Mapping[str, Any]) -> Axis:
    columns = {name: _values(name, values) for name, values in group.items()}
    if len({len(column) for column in columns.values()}) != 1:
        raise InvalidInput("zipped", {name: len(c) for name, c in columns.items()}, "lists of the same length")
    return Axis(tuple(columns), tuple(zip(*columns.values(), strict=True)))


def _penalty(problem: Problem) -> float:
    """Return the penalty, per input dimension in the proportional limit."""
    return problem.real_sizes(1.0).ridge


def _values(name: str, values: Any) -> list[Any]:
    listed: list[Any] = []
    if isinstance(values, str):
        listed = list(values_of(name, values))
    elif not isinstance(values, bytes | Mapping | Set):  # a set has no order that the next run would find again
        with suppress(TypeError):
            listed = list(values)
    if not listed:
        raise InvalidInput(name, values, "a non-empty list of values")
    return [_plain(name, value) for value in listed]


def _same_numbers(value: Any) -> Any:
    """Return a plain value with whole numbers as integers: 48 and 48.0 are one place of an axis."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {key: _same_numbers(item) for key, item in value.items()}
    return [_same_numbers(item) for item in value] if isinstance(value, list | tuple) else value


def _plain(name: str, value: Any) -> Any:
    """Return a parameter's value as JSON has it."""
    if isinstance(value, Step):
        return {"coefficient": value.coefficient, "exponent": value.exponent}
    if isinstance(value, Readout | Inputs):
        return value.to_plain()
    if isinstance(value, Proportional):
        return {"per_d": value.ratio}
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and value == math.inf:
        return "inf"
    if isinstance(value, Mapping):
        return {str(key): _plain(name, item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(name, item) for item in value]
    if isinstance(value, ScalarFunction):
        try:
            named = scalar_function(value.name) == value
        except InvalidInput:
            named = False
        if not named:
            raise InvalidInput(name, value.name, "a registered name or a formula, to be written down")
        return value.name
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise InvalidInput(name, value, "a number, text, or a value of gradstep that can be written down")
