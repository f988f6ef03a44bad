"""Many computations side by side: what several of them need at the same time is computed by one call on larger arrays.

The arrays of one prediction are so small that a call of NumPy takes longer than its arithmetic. Along a curve there are
many predictions of one kind. A computation is therefore a generator: it yields what it needs as a `Call` of a function
of arrays, is handed the value, and returns its result in the end. `together` runs any number of them, and one as any.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["Call", "asked", "result_of", "together"]

T = TypeVar("T")

#: Numbers in the largest arrays of a call: half a megabyte is still in the cache when it is used next.
_LARGEST = 2**16
#: Numbers in the largest arrays of all computations that have been started, from which on no others are: a computation
#: may keep some such arrays until it ends.
_HELD = 2**21


class Call(NamedTuple):
    """What a computation needs."""

    #: Takes what is shared, and then arrays with a leading axis for the computations. It returns a sequence with a
    #: value for each of these.
    function: Callable[..., Sequence[Any]]
    arrays: tuple[NDArray[Any], ...]  #: Those of one computation, without that axis.
    shared: tuple[object, ...]  #: The same objects for all computations of a call.
    work: int  #: Numbers in the largest arrays of the function, for one computation.


Computation: TypeAlias = Generator[Call, Any, T]


def asked(
    function: Callable[..., Sequence[T]], *arrays: NDArray[Any], shared: tuple[object, ...] = (), work: int
) -> Computation[T]:
    """Ask for the value of a function: ``value = yield from asked(function, ...)`` in a computation, see `Call`."""
    value: T = yield Call(function, arrays, shared, work)
    return value


def result_of(computation: Computation[T]) -> T:
    """Return the result of one computation."""
    ((_, result),) = together([computation])
    return result


def together(computations: Iterable[Computation[T]]) -> Iterator[tuple[int, T]]:
    """Yield the results of computations as they come, each with its place among these.

    Calls of one function that share the same are one call, if their arrays have the same shapes and fit in the cache.
    Computations with large arrays are started only when others have ended. Raises what any of the computations or
    functions raises.
    """
    waiting: dict[Hashable, list[tuple[int, Computation[T], Call]]] = {}
    held: dict[int, int] = {}

    def resumed(place: int, computation: Computation[T], value: Any) -> Iterator[tuple[int, T]]:
        try:
            call = computation.send(value)
        except StopIteration as done:
            held.pop(place, None)
            yield place, done.value
        else:
            held[place] = max(held.get(place, 0), call.work)
            key = call.function, *map(id, call.shared), *(array.shape for array in call.arrays)
            waiting.setdefault(key, []).append((place, computation, call))

    coming = enumerate(computations)
    while True:
        while sum(held.values()) < _HELD and (started := next(coming, None)):
            yield from resumed(*started, None)
        if not waiting:
            return
        # Those that have waited longest: others have come as far meanwhile.
        key = next(iter(waiting))
        members = waiting.pop(key)
        work = np.cumsum([call.work for *_, call in members])
        taken = max(1, int(np.searchsorted(work, _LARGEST, side="right")))
        if len(members) > taken:
            waiting = {key: members[taken:], **waiting}
        _, _, (function, _, shared, _) = members[0]
        stacks = map(np.stack, zip(*(call.arrays for *_, call in members[:taken]), strict=True))
        for (place, computation, _), value in zip(members[:taken], function(*shared, *stacks), strict=True):
            yield from resumed(place, computation, value)
