"""Carrying tasks out: resuming from what is stored, storing what is new."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import closing

from gradstep.checks import worker_count
from gradstep.sweeps.executors import Executor, InProcess, Processes
from gradstep.sweeps.store import Store
from gradstep.sweeps.task import Failure, Result, Task

__all__ = ["execute", "here", "results_of"]

_READY: tuple[int, Result] = (-1, {})


def execute(
    tasks: Iterable[Task], store: Store, *, workers: int | None = None, executor: Executor | None = None
) -> Generator[tuple[int, Result | Failure]]:
    """Yield each task's index and result as it is known: from the store, or carried out now and stored.

    All work ends with the last result, with an error, or when the generator is closed or garbage-collected.

    Parameters
    ----------
    tasks : iterable of Task
        Taken one by one, as there is room: the list need not exist.
    store : Store
        Read first; every new result is written before it is yielded.
    workers : int, optional
        Processes on this machine (default: one per core; with one, this process does the work). Results do not depend
        on it.
    executor : Executor, optional
        Another place to run; closed at the end, whatever happens, and even if no result is asked for.

    Yields
    ------
    index : int
    result : mapping or Failure

    Raises
    ------
    InvalidInput
        On a bad number of workers, or a store that cannot be written; before any work.
    """
    place = executor or here(workers)

    def results() -> Generator[tuple[int, Result | Failure]]:
        with closing(place):
            store.prepare()
            yield _READY
            yield from results_of(tasks, store, place)

    found = results()
    # A generator that was never begun does not end either: closing it would leave the place open.
    next(found)
    return found


def here(workers: int | None) -> Executor:
    """Return this machine as a place to run: with one worker this process itself.

    Raises `InvalidInput` on a bad number of workers.
    """
    return InProcess() if workers is not None and worker_count(workers) == 1 else Processes(workers)


def results_of(tasks: Iterable[Task], store: Store, executor: Executor) -> Iterator[tuple[int, Result | Failure]]:
    """Yield as `execute`, in a store that is prepared and on an executor that stays open."""
    in_flight: dict[int, Task] = {}
    waiting = enumerate(tasks)
    exhausted = False
    while True:
        while not exhausted and len(in_flight) < executor.slots:
            index, task = next(waiting, (-1, None))
            if task is None:
                exhausted = True
                break
            stored = store.read(task)
            if stored is not None:
                yield index, stored
                continue
            in_flight[index] = task
            executor.submit(index, task)
        if not in_flight:
            return
        for index, result in executor.finished():
            task = in_flight.pop(index)
            if not isinstance(result, Failure):
                store.write(task, result)
            yield index, result
