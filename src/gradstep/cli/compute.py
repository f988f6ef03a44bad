"""The work behind the commands: predictions and measurements at every point of a grid."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from gradstep.errors import InvalidInput, within_range
from gradstep.memory import check_fits
from gradstep.progress import progress

if TYPE_CHECKING:
    from gradstep.curves import Curve
    from gradstep.grid import Grid
    from gradstep.problem import Problem
    from gradstep.sizes import Sizes
    from gradstep.theory import Prediction, Spread

_Answer = TypeVar("_Answer")

#: Problems predicted between two reports of progress, and problems whose spread is.
_BATCH, _SPREADS = 256, 16
#: Floating-point operations of one seed that would take a fast processor a month: more are refused.
_MOST_OPERATIONS = 1e18
#: The size that a paper's parameters may leave out, which means its limit.
_SIZE = {"ba2022": "d", "moniri2024": "n", "cui2024": "d"}


def predict_grid(grid: Grid) -> list[Prediction]:
    """Predict every problem of a grid, in batches.

    Raises `InvalidInput` and `NotConverged` as `gradstep.theory.predict_many` does; the latter also where numbers leave
    the range of double precision.
    """
    from gradstep.theory import predict_many

    with _in_range("prediction"), naming_the_size(grid):
        return _in_batches(predict_many, grid, _BATCH, "problems predicted")


def lines_of(curve: Curve) -> Curve:
    """Return a curve with the theory between its places, for a figure."""
    from gradstep.curves import with_lines

    with _in_range("prediction"), progress("problems predicted for the figure") as report:
        return with_lines(curve, report)


def spread_grid(grid: Grid) -> list[Spread]:
    """Predict the spread of every problem of a grid, in batches.

    Raises `InvalidInput` and `NotConverged` as `gradstep.theory.predict_spread_many` does; the latter also where
    numbers leave the range of double precision.
    """
    from gradstep.theory import predict_spread_many

    with _in_range("spread"), naming_the_size(grid):
        return _in_batches(predict_spread_many, grid, _SPREADS, "spreads predicted")


def _in_batches(
    answered: Callable[[Sequence[Problem]], list[_Answer]], grid: Grid, size: int, doing: str
) -> list[_Answer]:
    """Answer every problem of a grid, with a report of progress after each batch if there are several."""
    total = len(grid.problems)
    if total <= size:
        return answered(grid.problems)
    answers: list[_Answer] = []
    with progress(doing) as report:
        for start in range(0, total, size):
            answers += answered(grid.problems[start : start + size])
            report(len(answers), total, "")
    return answers


@contextmanager
def naming_the_size(grid: Grid) -> Iterator[None]:
    """Let an error that is about an infinite size, given or left out, say which finite one to give."""
    try:
        yield
    except InvalidInput as error:
        problem = grid.problems[0]
        size = _SIZE.get(problem.origin)
        if size is None or not problem.is_limit or error.field not in ("d", "eta.exponent"):
            raise
        allowed = f"{error.allowed}; give a finite --{size} ({problem.origin} without it is the limit)"
        raise InvalidInput(error.field, error.value, allowed, error.reason) from None


@contextmanager
def _in_range(work: str) -> Iterator[None]:
    """Let numbers out of range be one error, without NumPy's warnings before it."""
    import numpy as np

    with np.errstate(all="ignore"), within_range(work):
        yield


@contextmanager
def simulating(grid: Grid, device: str | None) -> Iterator[Callable[[float, int], None]]:
    """See that a grid can be simulated, and show how much of it is: the function inside is called with both numbers.

    Raises `InvalidInput` before any work, if a size is infinite or a problem cannot fit in memory.
    """
    from gradstep.simulation.arguments import finite_sizes
    from gradstep.simulation.backend import backend

    memory = backend(device, "float64").memory
    for problem in grid.problems:
        with naming_the_size(grid):
            sizes = finite_sizes(problem)
        _check_size(sizes, memory)
    with _in_range("simulation"), progress("problems simulated") as report:

        def tell(done: float, total: int) -> None:
            whole, percent = int(done), int(100 * (done % 1))
            report(whole, total, f"problems simulated ({percent}% of the next)" if percent else "")

        yield tell


def _check_size(sizes: Sizes[int], card: float | None) -> None:
    """Refuse what takes more than the memory of the machine, or so much of a card, or a month on a processor."""
    d, width, n_step, n, _ = sizes
    smaller = min(width, n)
    # Weights before and after the step with the gradient; Gram and kernel matrices with their factors.
    needed = 8.0 * (3 * width * d + 2 * smaller**2 + 2 * width**2)
    step, fit = 2.0 * n_step * d * width, 2.0 * n * width * (d + smaller)
    if card is None and (total := step + fit) > _MOST_OPERATIONS:
        allowed = f"sizes of at most {_MOST_OPERATIONS:.0e} operations a seed (these need {total:.1e})"
        raise InvalidInput(*(("n_step", n_step) if step >= fit else ("n", n)), allowed)
    check_fits("width", width, needed, f"d = {d}", card)
