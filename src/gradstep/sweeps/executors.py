"""Run tasks in this process, in several, or on a Dask cluster. The results are the same everywhere."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import queue
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from time import monotonic
from typing import Any, Protocol

from gradstep.checks import worker_count
from gradstep.children import available_cores, check_directory, deaf_children, enter_child
from gradstep.errors import GradstepError, InvalidInput, missing_extra
from gradstep.sweeps.task import Failure, Result, Task, carry_out

__all__ = ["Cluster", "Executor", "InProcess", "Processes", "WorkerLost"]

#: A task that takes its worker down this many times is given up.
_ATTEMPTS = 3
#: Tasks kept waiting for each worker, so that none is idle while results are written.
_AHEAD = 2
#: Seconds between looks at whether the scheduler is still there.
_HEARTBEAT = 2.0
#: Seconds in which a scheduler has to answer.
_CONNECT = 10.0

Finished = list[tuple[int, "Result | Failure"]]


class WorkerLost(GradstepError, RuntimeError):  # noqa: N818
    """Workers cannot be reached or started any more; what is finished is on disk."""


class Executor(Protocol):
    """Carries tasks out; the caller keeps at most `slots` of them in flight."""

    @property
    def slots(self) -> int:
        """The number of tasks that may be in flight."""

    def submit(self, index: int, task: Task) -> None:
        """Take a task."""

    def finished(self) -> Finished:
        """Wait for at least one task and return all that are finished."""

    def close(self) -> None:
        """End at once; tasks in flight are dropped."""


class InProcess:
    """One task after the other in this process."""

    slots = 1

    def __init__(self) -> None:
        self._waiting: list[tuple[int, Task]] = []

    def submit(self, index: int, task: Task) -> None:
        """Take a task."""
        self._waiting.append((index, task))

    def finished(self) -> Finished:
        """Run the tasks taken."""
        waiting, self._waiting = self._waiting, []
        return [(index, carry_out(task)) for index, task in waiting]

    def close(self) -> None:
        """Nothing is left to end."""


class Processes:
    """Worker processes on this machine, each with one BLAS thread.

    Parameters
    ----------
    workers : int, optional
        How many (default: one per core).

    Raises
    ------
    InvalidInput
        On a bad number, or if the working directory was deleted.
    """

    def __init__(self, workers: int | None = None) -> None:
        self._workers = _count(workers)
        check_directory()
        self._pool: ProcessPoolExecutor | None = None
        self._running: dict[Future[Result | Failure], tuple[int, Task]] = {}
        self._attempts: dict[int, int] = {}
        self._started = False

    @property
    def slots(self) -> int:
        """The number of tasks that may be in flight."""
        return _AHEAD * self._workers

    def submit(self, index: int, task: Task) -> None:
        """Take a task."""
        if self._pool is None:
            # Spawned, not forked: a fork inherits BLAS threads in an unusable state.
            self._pool = ProcessPoolExecutor(self._workers, mp_context=get_context("spawn"), initializer=enter_child)
        try:
            with deaf_children():
                future = self._pool.submit(carry_out, task)
        except BrokenProcessPool as error:
            # A worker was lost since the last look; `finished` begins again with all that is in flight.
            future = Future()
            future.set_exception(error)
        self._running[future] = (index, task)

    def finished(self) -> Finished:
        """Wait for at least one task; a lost worker's tasks are run again by new ones.

        Raises `WorkerLost` if workers end before they begin.
        """
        results: Finished = []
        while not results:
            done, _ = wait(self._running, return_when=FIRST_COMPLETED)
            if any(isinstance(future.exception(), BrokenProcessPool) for future in done):
                results += self._begin_again()
                continue
            for future in done:
                index, _ = self._running.pop(future)
                self._attempts.pop(index, None)
                self._started = True
                results.append((index, future.result()))
        return results

    def _begin_again(self) -> Finished:
        """Replace the workers after one was lost, and give them every task that was in flight."""
        lost = sorted(self._running.values(), key=lambda item: item[0])
        self._shut_down()
        if not self._started and self._attempts:
            # Twice in a row before any task was finished: it is not a task's fault.
            guard = "a script needs `if __name__ == '__main__':` around what starts them; or use workers=1"
            raise WorkerLost(f"worker processes end before they begin: {guard}")
        given_up: Finished = []
        for index, task in lost:
            self._attempts[index] = self._attempts.get(index, 0) + 1
            # Which of the tasks in flight took the worker down is not known: all of them count an attempt, so the
            # limit leaves room for innocent neighbours.
            if self._attempts[index] > _ATTEMPTS:
                given_up.append((index, Failure("WorkerLost", "its worker died again and again (out of memory?)")))
            else:
                self.submit(index, task)
        return given_up

    def _shut_down(self) -> None:
        pool, self._pool, self._running = self._pool, None, {}
        if pool is not None:
            # Public from Python 3.14 on as terminate_workers.
            workers = list((getattr(pool, "_processes", None) or {}).values())
            # It closes pipes that the library's own clean-up at exit may still write to.
            manager = getattr(pool, "_executor_manager_thread", None)
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in workers:
                worker.terminate()
            for worker in workers:
                worker.join(timeout=2)
            if manager is not None:
                manager.join(timeout=2)

    def close(self) -> None:
        """End the workers at once."""
        self._shut_down()


def _count(workers: int | None) -> int:
    """Return a number of workers, one per core if none is given."""
    return available_cores() if workers is None else worker_count(workers)


async def _reach(library: Any, address: str) -> None:
    """Connect to a scheduler once, or raise OSError or ValueError."""
    security = library.Security().get_connection_args("client")
    connection = await library.comm.connect(address, timeout=_CONNECT, **security)
    await connection.close()


def _quietened(library: str) -> dict[logging.Logger, int]:
    """Silence a library's loggers, and return them with the levels that they had.

    Lost connections are reported as one error of this package; the library's own log is a page of traceback.
    """
    names = [name for name in logging.root.manager.loggerDict if name.split(".")[0] == library]
    levels = {logger: logger.level for logger in map(logging.getLogger, names)}
    for logger in levels:
        logger.setLevel(logging.CRITICAL)
    return levels


class Cluster:
    """A Dask cluster: workers on other machines need this package, and no common file system.

    Parameters
    ----------
    address : str
        Scheduler's address such as ``tcp://host:8786``, or ``local`` for a cluster on this machine.
    workers : int, optional
        For ``local``: how many processes (default: one per core).

    Raises
    ------
    InvalidInput
        On a bad number, if the scheduler cannot be reached, or if Dask is not installed.
    """

    def __init__(self, address: str, workers: int | None = None) -> None:
        count = _count(workers)
        try:
            import distributed
        except ImportError:
            raise missing_extra("cluster", "cluster") from None
        self._library = distributed
        self._client: Any = None
        self._local: Any = None
        self._quiet = _quietened("distributed")
        try:
            if address == "local":
                self._local = distributed.LocalCluster(  # type: ignore[no-untyped-call]
                    n_workers=count,
                    threads_per_worker=1,
                    dashboard_address="127.0.0.1:0",  # without a number it warns if another cluster is running
                    scheduler_kwargs={"dashboard": False},
                    silence_logs=logging.CRITICAL,
                )
                address = self._local.scheduler_address
            else:
                # A client that never was connected would wait for its end when it is forgotten. In a thread: notebooks
                # have a loop of their own in this one.
                with ThreadPoolExecutor(1) as thread:
                    thread.submit(asyncio.run, _reach(distributed, address)).result()
            self._client = distributed.Client(address, timeout=_CONNECT, set_as_default=False)  # type: ignore[no-untyped-call]
        except BaseException as error:
            self._leave()
            if not isinstance(error, (OSError, ValueError, TypeError)):  # the last where TLS is not configured
                raise
            reason = f"the address of a running scheduler such as tcp://host:8786, or local ({error})"
            raise InvalidInput("cluster", address, reason) from None
        self._slots, self._counted = 0, -math.inf
        self._told = False
        self._running: dict[str, tuple[int, Any]] = {}
        self._done: queue.SimpleQueue[Any] = queue.SimpleQueue()

    @property
    def slots(self) -> int:
        """The number of tasks that may be in flight; it grows and shrinks with the cluster."""
        # Each look is a round trip to the scheduler: not for every task.
        if monotonic() - self._counted > _HEARTBEAT:
            threads = sum(self._ask(lambda: self._client.nthreads()).values())
            self._slots, self._counted = _AHEAD * max(threads, 1), monotonic()
        return self._slots

    def submit(self, index: int, task: Task) -> None:
        """Take a task."""
        future = self._ask(lambda: self._client.submit(carry_out, task, pure=False, retries=_ATTEMPTS))
        self._running[future.key] = (index, future)
        future.add_done_callback(self._done.put)

    def finished(self) -> Finished:
        """Wait for a task; Dask itself repeats those of a lost worker.

        Raises `WorkerLost` if the scheduler is gone, or has dropped the task.
        """
        while True:
            try:
                future = self._done.get(timeout=_HEARTBEAT)
                break
            except queue.Empty:
                if self._client.status != "running":
                    raise WorkerLost("the scheduler is gone; start it and run the same command again") from None
                if not self._told and not self._ask(lambda: self._client.nthreads()):
                    logging.getLogger(__name__).warning("the cluster has no workers; the sweep waits for one")
                    self._told = True
        index, _ = self._running.pop(future.key)
        if future.status == "finished":
            return [(index, self._ask(future.result))]
        killed = self._library.scheduler.KilledWorker
        if future.status == "error" and isinstance(self._ask(future.exception), killed):
            return [(index, Failure("WorkerLost", "its workers died again and again (out of memory?)"))]
        raise WorkerLost(f"the cluster dropped a task ({future.status}); run the same command again")

    def _ask(self, call: Callable[[], Any]) -> Any:
        """Call the cluster; a broken connection is one clear error."""
        try:
            return call()
        except (OSError, RuntimeError, self._library.CancelledError) as error:
            raise WorkerLost(
                f"the connection to the cluster is lost ({type(error).__name__}); run the same command again"
            ) from error

    def close(self) -> None:
        """Leave the cluster; end it if it was started here."""
        self._running.clear()  # releases the futures: tasks in flight are cancelled
        self._leave()

    def _leave(self) -> None:
        if self._client is not None:
            with contextlib.suppress(TimeoutError, OSError):
                self._client.close(timeout=2)
        if self._local is not None:
            with contextlib.suppress(TimeoutError, OSError):
                self._local.close(timeout=5)
        for logger, level in self._quiet.items():
            logger.setLevel(level)
