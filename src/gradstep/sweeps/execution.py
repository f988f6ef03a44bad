"""Carrying tasks out: in this process or in several, resuming from what is stored."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import get_context

from threadpoolctl import threadpool_limits

from gradstep.errors import InvalidInput
from gradstep.sweeps.store import Store
from gradstep.sweeps.task import Result, Task

__all__ = ["execute"]


def execute(tasks: Sequence[Task], store: Store, *, workers: int | None = None) -> Iterator[tuple[int, Result]]:
    """Yield each task's index and result as it is known: stored ones first, then those carried out now.

    Parameters
    ----------
    tasks : sequence of Task
    store : Store
        Read first; every new result is written before it is yielded.
    workers : int, optional
        Processes (default: one per core), each with one BLAS thread. Results do not depend on it.

    Yields
    ------
    index : int
    result : mapping

    Raises
    ------
    InvalidInput
        On a bad number of workers.
    """
    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
        raise InvalidInput("workers", workers, "an integer >= 1")
    return _execute(tasks, store, workers or os.cpu_count() or 1)


def _execute(tasks: Sequence[Task], store: Store, workers: int) -> Iterator[tuple[int, Result]]:
    missing = []
    for index, task in enumerate(tasks):
        result = store.read(task)
        if result is None:
            missing.append(index)
        else:
            yield index, result
    if min(workers, len(missing)) <= 1:
        for index in missing:
            yield index, _carry_out(tasks[index], store)
        return
    # Spawned, not forked: a fork inherits BLAS threads in an unusable state.
    # Ctrl-C reaches the whole process group: workers finish and write what they are at, the parent stops the rest.
    ignore = (signal.SIGINT, signal.SIG_IGN)
    pool = ProcessPoolExecutor(
        min(workers, len(missing)), mp_context=get_context("spawn"), initializer=signal.signal, initargs=ignore
    )
    try:
        pending: dict[Future[Result], int] = {pool.submit(_carry_out, tasks[index], store): index for index in missing}
        while pending:
            finished, _ = wait(pending, return_when=FIRST_COMPLETED)
            for future in finished:
                yield pending.pop(future), future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _carry_out(task: Task, store: Store) -> Result:
    with threadpool_limits(1):
        result = task.run()
    store.write(task, result)
    return result
