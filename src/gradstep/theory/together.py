"""Many computations side by side: what several of them need at the same time is computed by one call on larger arrays.

The arrays of one prediction are so small that a call of NumPy takes longer than its arithmetic. Along a curve there are
many predictions of one kind. A computation is therefore a generator: it yields what it needs as a `Call` of a function
of arrays, is handed the value, and returns its result in the end. `together` runs any number of them, and one as any.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["Call", "Computation", "asked", "result_of", "together"]

T = TypeVar("T")


class Call(NamedTuple):
    """What a computation needs.

    Attributes
    ----------
    function : callable
        Takes arrays with a leading axis for the computations, and returns a sequence with a value for each of them.
    arrays : tuple of ndarray
        Those of one computation, without that axis.
    shared : tuple
        What the function takes before the arrays; the same objects for all computations of a call.
    most : int
        For how many computations one call is made at most.
    """

    function: Callable[..., Sequence[Any]]
    arrays: tuple[NDArray[Any], ...]
    shared: tuple[object, ...]
    most: int


Computation: TypeAlias = Generator[Call, Any, T]


def asked(
    function: Callable[..., Sequence[T]], *arrays: NDArray[Any], shared: tuple[object, ...] = (), most: int = 64
) -> Computation[T]:
    """Ask for the value of a function: ``value = yield from asked(function, *arrays)`` in a computation."""
    value: T = yield Call(function, arrays, shared, most)
    return value


def result_of(computation: Computation[T]) -> T:
    """Return the result of one computation."""
    ((_, result),) = together([computation])
    return result


def together(computations: Iterable[Computation[T]]) -> Iterator[tuple[int, T]]:
    """Yield the results of computations as they come, each with its place among these.

    Calls of one function for arrays of the same shapes are one call.

    Raises
    ------
    Exception
        What any of the computations or functions raises.
    """
    running = dict(enumerate(computations))
    values: dict[int, Any] = dict.fromkeys(running)
    while running:
        alike: dict[Any, list[tuple[int, Call]]] = {}
        for place, computation in [*running.items()]:
            try:
                call = computation.send(values[place])
            except StopIteration as done:
                del running[place]
                yield place, done.value
            else:
                shapes = (array.shape for array in call.arrays)
                key = (call.function, *map(id, call.shared), *shapes)
                alike.setdefault(key, []).append((place, call))
        for members in alike.values():
            _, (function, _, shared, most) = members[0]
            for start in range(0, len(members), most):
                places, calls = zip(*members[start : start + most], strict=True)
                stacks = (np.stack(arrays) for arrays in zip(*(call.arrays for call in calls), strict=True))
                values.update(zip(places, function(*shared, *stacks), strict=True))
