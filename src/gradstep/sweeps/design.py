"""A grid of problems with seeds: what is to be done, point by point, without ever holding the whole list."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from gradstep.errors import InvalidInput
from gradstep.gaussian import ScalarFunction, scalar_function
from gradstep.problem import Problem, Proportional, Readout, Step
from gradstep.sweeps.task import Task, digest

__all__ = ["PRECISION_COST", "PREDICTED", "SIMULATED", "Axis", "Design", "design_of"]

PREDICTED = "gradstep.sweeps.measure:predicted"
SIMULATED = "gradstep.sweeps.measure:simulated"
PRECISION_COST = "gradstep.sweeps.measure:precision_cost"

#: Penalties of one fit: an axis of these alone costs one factorisation for all its values.
_PENALTY_NAMES = ("ridge", "lam")
_MOST_POINTS = 1_000_000
#: Between the seeds of a point: odd, near 2**32 over the golden ratio.
_STRIDE = 2654435769


class _Point(NamedTuple):
    """What all tasks of a point share."""

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
    """What a sweep measures.

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
                shared = digest({**plain, "ridge": None})
                words = [int(word) for word in np.frombuffer(bytes.fromhex(shared), dtype="<u4")]
            first = int(np.random.SeedSequence([self.first_seed, *words]).generate_state(1, np.uint32)[0])
            found = self._known[point] = _Point(plain, [_penalty(p) for p in problems], first)
        return found

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

    def tasks(self, shard: tuple[int, int] = (0, 1)) -> Iterator[tuple[int, Task]]:
        """Yield (point, task) for all that is to be done: predictions first, then all points seed by seed.

        Parameters
        ----------
        shard : (int, int)
            (i, N): every N-th task, from the i-th on.
        """
        number = itertools.count()
        mine, shards = shard
        if self.theory:
            for point in range(self.points):
                if next(number) % shards == mine:
                    yield point, self.theory_task(point)
        for seed in range(self.seeds):
            for point in range(self.points):
                if next(number) % shards == mine:
                    yield point, self.simulation_task(point, seed)

    @property
    def task_count(self) -> int:
        """Number of tasks of `tasks` without a shard."""
        return self.points * (self.seeds + self.theory)

    def check(self) -> None:
        """See that every point is a valid problem, before any work starts.

        Raises
        ------
        InvalidInput
            At the first point that is not, or that cannot be simulated.
        """
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
        """Read what `to_dict` has written."""
        axes = tuple(Axis(tuple(a["names"]), tuple(tuple(v) for v in a["values"])) for a in values["axes"])
        return cls(**{**values, "axes": axes})


def design_of(
    base: Problem | Mapping[str, Any],
    over: Mapping[str, Sequence[Any]],
    *,
    zipped: Sequence[Mapping[str, Sequence[Any]]] = (),
    seeds: int = 16,
    first_seed: int = 0,
    paired: bool = False,
    theory: bool = True,
    device: str | None = None,
    dtype: str = "float64",
) -> Design:
    """Build a design and check it whole.

    Parameters
    ----------
    base : Problem or mapping
        What all points share; a mapping is read by `Problem.from_dict`, in any paper's convention.
    over : mapping
        Parameter to its values: every combination is a point.
    zipped : sequence of mapping
        Each one an axis along which several parameters vary together: lists of the same length.
    seeds, first_seed, paired, theory, device, dtype
        As in `Design`.

    Raises
    ------
    InvalidInput
        On empty or repeated axes, lists of different lengths, bad counts, and any point that is no valid problem.
    """
    shared = base.to_dict() if isinstance(base, Problem) else {name: _plain(value) for name, value in base.items()}
    axes = [Axis((name,), tuple((_plain(v),) for v in _values(name, values))) for name, values in over.items()]
    for group in zipped:
        columns = {name: _values(name, values) for name, values in group.items()}
        lengths = {len(column) for column in columns.values()}
        if len(lengths) != 1:
            raise InvalidInput("zipped", {name: len(c) for name, c in columns.items()}, "lists of the same length")
        rows = zip(*columns.values(), strict=True)
        axes.append(Axis(tuple(columns), tuple(tuple(_plain(v) for v in row) for row in rows)))
    names = [name for axis in axes for name in axis.names]
    for name in names:
        if names.count(name) > 1:
            raise InvalidInput("over", name, "each parameter on one axis only")
        if name == "convention":
            raise InvalidInput("over", name, "parameters of one convention")
    for axis in axes:
        if len(set(map(digest, axis.values))) != len(axis):
            raise InvalidInput(axis.dimension, [v[0] if len(v) == 1 else v for v in axis.values], "distinct values")
    _whole("seeds", seeds, 0, 1_000_000)
    _whole("first_seed", first_seed, 0, 2**63 - 1)
    for name, flag in (("paired", paired), ("theory", theory)):
        if not isinstance(flag, bool):
            raise InvalidInput(name, flag, "True or False")
    if not seeds and not theory:
        raise InvalidInput("seeds", seeds, "at least one, or theory")
    if dtype not in ("float64", "float32"):
        raise InvalidInput("dtype", dtype, "'float64' or 'float32'")
    # A value on an axis takes the place of one in the base.
    shared = {name: value for name, value in shared.items() if name not in names}
    design = Design(shared, tuple(axes), seeds, first_seed, paired, theory, device, dtype)
    if design.points > _MOST_POINTS:
        raise InvalidInput("over", f"{design.points} points", f"at most {_MOST_POINTS} points")
    design.check()
    return design


def _penalty(problem: Problem) -> float:
    """Return the penalty, per input dimension in the proportional limit."""
    return problem.ridge.ratio if isinstance(problem.ridge, Proportional) else float(problem.ridge)


def _values(name: str, values: Sequence[Any]) -> list[Any]:
    if isinstance(values, str | bytes | Mapping) or not hasattr(values, "__iter__") or not len(values):
        raise InvalidInput(name, values, "a non-empty list of values")
    return list(values)


def _whole(name: str, value: object, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not low <= value <= high:
        raise InvalidInput(name, value, f"an integer in [{low}, {high}]")


def _plain(value: Any) -> Any:
    """Return a parameter's value as JSON has it."""
    if isinstance(value, Step):
        return {"coefficient": value.coefficient, "exponent": value.exponent}
    if isinstance(value, Readout):
        return value.to_plain()
    if isinstance(value, Proportional):
        return {"per_d": value.ratio}
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and math.isinf(value):
        return "inf"
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, ScalarFunction):
        try:
            named = scalar_function(value.name) == value
        except InvalidInput:
            named = False
        if not named:
            raise InvalidInput("function", value.name, "a registered name or a formula, to be written down")
        return value.name
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise InvalidInput("value", value, "a number, text, or a value of gradstep that can be written down")
