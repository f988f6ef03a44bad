"""Arguments that several measurements take, checked before any work."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from gradstep.checks import LARGEST_NUMBER, MOST_SEEDS, integer, is_real, is_whole, plain_number
from gradstep.errors import InvalidInput
from gradstep.problem import Problem, check_problem
from gradstep.simulation.streams import BLOCK_ROWS
from gradstep.sizes import Sizes
from gradstep.threads import threads_for_products

__all__ = ["MOST_TEST_SAMPLES", "chosen_seeds", "finite_sizes", "penalties_of", "threads_of"]


def finite_sizes(problem: Problem) -> Sizes[int]:
    """Return the sizes of a problem, or raise `InvalidInput` if it is not a problem or a size is infinite."""
    check_problem(problem)
    return problem.sizes


def threads_of(problem: Problem) -> AbstractContextManager[None]:
    """Let BLAS use one thread inside the block if the network of the problem is small; all sizes are finite."""
    sizes = finite_sizes(problem)
    rows = min(max(sizes.n_step, sizes.n), BLOCK_ROWS)
    return threads_for_products(rows, sizes.d, sizes.width)


def chosen_seeds(seeds: int | Sequence[int], least: int = 1) -> tuple[int, ...]:
    """Return the seeds, given by their number, not below the least one, or as a sequence, or raise `InvalidInput`."""
    allowed = f"an integer from {least} to {MOST_SEEDS}, or distinct integers in [0, 2**32)"
    if is_real(number := plain_number(seeds)):
        return tuple(range(integer("seeds", number, least, MOST_SEEDS, allowed=allowed)))
    chosen = _listed(seeds)
    valid = all(is_whole(s) and 0 <= s < 2**32 for s in chosen)
    if not chosen or not valid or len(set(chosen)) != len(chosen):
        raise InvalidInput("seeds", seeds, allowed)
    return tuple(int(s) for s in chosen)


def _listed(values: Any) -> tuple[Any, ...]:
    """Return the numbers of a sequence or of a one-dimensional array of any library, nothing of what is neither."""
    if not isinstance(values, Sequence) and getattr(values, "ndim", None) != 1:
        return ()
    return () if isinstance(values, (str, bytes)) else tuple(map(plain_number, values))


MOST_TEST_SAMPLES = 10**9
"""Largest number of fresh test inputs: their noise is then below the digits that are printed."""


def penalties_of(problem: Problem, ridge: float | Sequence[float] | None) -> tuple[tuple[float, ...], bool]:
    """Return penalties of a fit, by default the problem's, and whether they were given as a sequence."""
    given: Any = problem.ridge if ridge is None else plain_number(ridge)
    is_path = not is_real(given)
    penalties = _listed(given) if is_path else (given,)
    if not penalties or not all(is_real(value) and 0 < value <= LARGEST_NUMBER for value in penalties):
        allowed = f"a finite number > 0, at most {LARGEST_NUMBER:g}, or a non-empty sequence of them"
        raise InvalidInput("ridge", ridge, allowed)
    return tuple(float(value) for value in penalties), is_path
