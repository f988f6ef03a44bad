"""Memory: whether arrays can be held before any work, and how much of it results may keep afterwards."""

from __future__ import annotations

import math
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar, cast

from gradstep.errors import InvalidInput

_T = TypeVar("_T")
_A = TypeVar("_A", bound=tuple[Any, ...])
_Function: TypeAlias = Callable[[Sequence[_A]], Iterable[tuple[_A, _T]]]


class _Info(NamedTuple):
    """Counts of a `Remembered` function: how often it found a result, and how many it keeps, of `held` bytes."""

    hits: int
    misses: int
    held: float
    kept: int


class Remembered(Generic[_A, _T]):
    """A function that keeps its results up to so many bytes together: see `remembered`."""

    def __init__(self, function: _Function[_A, _T], most: float, size: Callable[[_T], float]) -> None:
        self._function, self._most, self._size = function, most, size
        self._lock = threading.Lock()
        self.cache_clear()

    def __call__(self, *arguments: Any) -> _T:
        """Return the result for one set of arguments."""
        ((_, value),) = self.each([cast(_A, arguments)])
        return value

    def each(self, asked: Iterable[_A]) -> Iterator[tuple[_A, _T]]:
        """Yield the results for sets of arguments, each with these: first what is known, then what is computed."""
        missing = []
        for arguments in dict.fromkeys(asked):
            with self._lock:
                known = self._known.get(arguments)
                if known is not None:
                    self._hits += 1
                    self._known.move_to_end(arguments)
                else:
                    self._misses += 1
            if known is not None:
                yield arguments, known[0]
            else:
                missing.append(arguments)
        for arguments, value in self._function(missing) if missing else ():
            self._keep(arguments, value)
            yield arguments, value

    def _keep(self, arguments: _A, value: _T) -> None:
        size = self._size(value)
        with self._lock:
            # Another thread may have found the same meanwhile.
            if size <= self._most and arguments not in self._known:
                self._known[arguments] = value, size
                self._held += size
            while self._held > self._most:
                _, (_, forgotten) = self._known.popitem(last=False)
                self._held -= forgotten

    def cache_clear(self) -> None:
        """Forget all results."""
        with self._lock:
            self._known: OrderedDict[_A, tuple[_T, float]] = OrderedDict()
            self._hits = self._misses = 0
            self._held = 0.0

    def cache_info(self) -> _Info:
        """Return how often a result was known, how often not, and what is kept."""
        with self._lock:
            return _Info(self._hits, self._misses, self._held, len(self._known))


def remembered(most: float, size: Callable[[_T], float]) -> Callable[[_Function[_A, _T]], Remembered[_A, _T]]:
    """Let a function keep its results for the same arguments to come; the least recently used are forgotten first.

    Unlike `functools.lru_cache` it bounds their memory, not their number: results may differ a thousandfold in size.
    And it is for functions of a sequence of sets of hashable arguments, whose results may have work in common. Such a
    function yields each set with its result, in any order.

    All results kept may take `most` bytes together; a larger result is returned and not kept. The bytes that a result
    takes are what `size` returns.
    """
    return lambda function: Remembered(function, most, size)


def check_fits(field: str, value: int, needed: float, sizes: str, available: float | None = None) -> None:
    """Refuse a size, such as a width, for which the largest arrays do not fit in memory together.

    The arrays need `needed` bytes of those `available`, by default those of the machine. `sizes` says in words what the
    memory is for, beside the field. Raises `InvalidInput`.
    """
    available = _of_machine() if available is None else available
    if needed > available:
        share = f"{needed / 2**30:.3g} GiB of {available / 2**30:.3g} GiB"
        raise InvalidInput(field, value, f"sizes that fit in memory ({sizes} and {field} = {value} need {share})")


def _of_machine() -> float:
    try:
        return float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # a system that does not say
        return math.inf
