"""Row-wise work: every row once, whatever the number of threads; errors and limits get through."""

from __future__ import annotations

import numpy as np
import pytest

from gradstep.problem import Problem
from gradstep.simulation import simulate
from gradstep.simulation.rowwise import CHUNK_ROWS, for_rows


@pytest.mark.parametrize("threads", [None, 1, 3])
@pytest.mark.parametrize("rows", [1, CHUNK_ROWS, 5 * CHUNK_ROWS + 3])
def test_every_row_is_visited_once(rows: int, threads: int | None) -> None:
    visits = np.zeros(rows)

    def work(part: slice) -> None:
        visits[part] += 1

    for_rows(work, rows, threads)
    np.testing.assert_array_equal(visits, 1)


def test_an_error_in_a_thread_is_raised() -> None:
    def work(part: slice) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        for_rows(work, 10 * CHUNK_ROWS, 2)


@pytest.mark.parametrize("threads", [None, 1, 2])
def test_the_callers_handling_of_overflow_holds_in_threads(threads: int | None) -> None:
    large = np.full(10 * CHUNK_ROWS, 1e300)
    told = []

    def work(part: slice) -> None:
        large[part] * large[part]

    with np.errstate(all="ignore"):
        for_rows(work, len(large), threads)
    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
        for_rows(work, len(large), threads)
    with np.errstate(over="call", call=lambda *what: told.append(what)):
        for_rows(work, len(large), threads)
    assert told


def test_threads_do_not_change_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem(
        activation="tanh", teacher="sin", d=10, width=20, n_step=300, n=300, eta=1.0, ridge=0.1, noise=0.1
    )
    reference = simulate(problem, 1)
    monkeypatch.setattr("gradstep.simulation.backend.blas_threads", lambda: 3)
    threaded = simulate(problem, 1)
    for name in reference.values:
        np.testing.assert_array_equal(threaded[name], reference[name])
