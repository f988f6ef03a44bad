"""How many threads BLAS uses: one inside where matrices are small, what it was before afterwards."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import gradstep as gs
from gradstep import threads
from gradstep.estimators import base, readout
from gradstep.sweeps import Task
from gradstep.sweeps.task import carry_out
from gradstep.theory.equivalent import batches
from gradstep.threads import blas_threads, one_thread, threads_for_factorisation, threads_for_products

PROBLEM = gs.Problem(activation="tanh", teacher="sin", d=12, width=16, n_step=40, n=30, eta=1.0, ridge=1.0, noise=0.1)


def counted() -> list[int]:
    """Return the threads of every BLAS library, as the libraries themselves say."""
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    """Let BLAS use two threads, as on a machine with two cores, and see that it has them again at the end."""
    before = [(library, library.num_threads) for library in threads._libraries()]
    # threadpool_limits would claim the number for this Python thread.
    for library, _ in before:
        assert threads._use(library, 2)
    try:
        yield
        assert set(counted()) == {2}
    finally:
        for library, number in before:
            threads._use(library, number)


def test_one_thread_is_left_to_every_library_and_taken_back() -> None:
    assert len(counted()) >= 1
    with one_thread():
        assert set(counted()) == {blas_threads()} == {1}
        with one_thread():
            pass
        assert blas_threads() == 1
    assert blas_threads() == 2
    with pytest.raises(ZeroDivisionError), one_thread():
        raise ZeroDivisionError


@pytest.mark.parametrize("first_to_leave", [0, 1])
def test_python_threads_that_overlap_put_back_what_was_before(first_to_leave: int) -> None:
    entered, leave = [threading.Event(), threading.Event()], [threading.Event(), threading.Event()]

    def limited(which: int) -> None:
        with one_thread():
            entered[which].set()
            leave[which].wait(60)

    others = [threading.Thread(target=limited, args=(which,)) for which in range(2)]
    for other, inside in zip(others, entered, strict=True):
        other.start()
        inside.wait(60)
    assert blas_threads() == 1
    for which in (first_to_leave, 1 - first_to_leave):
        leave[which].set()
        others[which].join()
    assert blas_threads() == 2
    with one_thread():
        assert blas_threads() == 1


def test_a_number_that_another_python_thread_has_claimed_is_left_alone() -> None:
    with threadpool_limits(3, user_api="blas"), ThreadPoolExecutor(1) as other:
        other.submit(gs.simulate, PROBLEM, 1).result()
        assert blas_threads() == 3
    assert blas_threads() == 2


@pytest.mark.parametrize(("rows", "inputs", "width", "number"), [(512, 128, 192, 1), (4096, 1024, 1536, 2)])
def test_small_products_get_one_thread_and_large_ones_keep_theirs(
    rows: int, inputs: int, width: int, number: int
) -> None:
    with threads_for_products(rows, inputs, width):
        assert blas_threads() == number


@pytest.mark.parametrize(("order", "number"), [(512, 1), (2048, 2)])
def test_small_factorisations_get_one_thread_and_large_ones_keep_theirs(order: int, number: int) -> None:
    with threads_for_factorisation(order):
        assert blas_threads() == number


def seen_by(monkeypatch: pytest.MonkeyPatch, home: object, name: str) -> list[int]:
    """Return a list that gets the number of threads at every call of a function."""
    seen: list[int] = []
    real: Callable[..., object] = getattr(home, name)

    def watched(*arguments: object, **options: object) -> object:
        seen.extend(counted())
        return real(*arguments, **options)

    monkeypatch.setattr(home, name, watched)
    return seen


def test_a_small_network_is_simulated_on_one_thread() -> None:
    seen: list[int] = []
    gs.simulate(PROBLEM, 1, progress=lambda *_: seen.extend(counted()))
    assert set(seen) == {1}


def test_spectra_are_measured_on_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = seen_by(monkeypatch, np.linalg, "eigh")
    gs.Network(PROBLEM, 0).feature_spectrum()
    assert set(seen) == {1}


def test_theory_uses_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = seen_by(monkeypatch, batches, "solve")
    gs.predict(PROBLEM)
    assert set(seen) == {1}


def test_a_task_of_a_sweep_uses_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = seen_by(monkeypatch, Task, "run")
    carry_out(Task("gradstep.sweeps.task:digest", {}, 0))
    assert set(seen) == {1}


def test_an_estimator_of_a_small_table_uses_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = seen_by(monkeypatch, readout, "factorise")
    seen_after = seen_by(monkeypatch, base, "to_host")
    x = np.random.default_rng(0).standard_normal((40, 3))
    gs.OneStepRegressor(width=16, random_state=0).fit(x, x[:, 0]).predict(x)
    assert set(seen) == set(seen_after) == {1}
