"""Worker processes of the server. The event loop only passes messages, and work for a request that is gone is ended."""

from __future__ import annotations

import asyncio
import os
import traceback
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from gradstep.children import deaf_children, enter_child
from gradstep.errors import GradstepError, InvalidInput, NotConverged, within_range

_CONTEXT = get_context("spawn")  # a fork inherits BLAS threads in an unusable state


#: Seconds that a process may take to start: imports, on a machine that does other things.
_START_LIMIT = 120.0


#: Seconds that a process has to finish the answer to a request that is gone. A new process takes as long to start:
#: most answers to a slider that has moved on are worth waiting for.
_GRACE = 1.5


class Busy(GradstepError):  # noqa: N818 - these read as what they say
    """Too many requests wait already."""


class TooLong(GradstepError):  # noqa: N818
    """A request took longer than it may."""


class Gone(GradstepError):  # noqa: N818
    """A process ended before it answered."""


class Ended(Gone):
    """All processes are being ended."""


class _Worker:
    """One process that calls functions of this package."""

    def __init__(self, niceness: int, family: bool) -> None:
        self._niceness, self._family = niceness, family
        self._process: Any = None
        self._pipe: Connection | None = None
        self._imported = self._stopped = False

    def start(self) -> None:
        """Start the process, unless it runs."""
        if self._stopped:
            raise Ended
        if self._process is not None and self._process.is_alive():
            return
        self._pipe, theirs = _CONTEXT.Pipe()
        # Only a process that is no daemon may start processes of its own.
        process = _CONTEXT.Process(target=_serve, args=(theirs, self._niceness), daemon=not self._family)
        with deaf_children():
            process.start()
        # From here on another thread can end it; what was to end before is ended now.
        self._process, self._imported = process, False
        theirs.close()
        if self._stopped:
            process.kill()

    def ready(self) -> None:
        """Wait until the process can be called."""
        self.start()
        if not self._imported:
            self.receive()
            self._imported = True

    def receive(self) -> tuple[str, Any]:
        """Wait for an answer: ``value`` or ``end``; an error is raised."""
        assert self._pipe is not None
        try:
            kind, value = self._pipe.recv()
        except (EOFError, OSError):
            raise self._lost() from None
        if kind == "error":
            raise value
        return kind, value

    def call(self, function: str, arguments: tuple[Any, ...]) -> tuple[str, Any]:
        """Call a function and wait for its answer, or the first of those it yields."""
        assert self._pipe is not None
        try:
            self._pipe.send((function, arguments))
        except OSError:
            raise self._lost() from None
        return self.receive()

    def _lost(self) -> Gone:
        return Ended() if self._stopped else Gone()

    def stop(self) -> None:
        """End the process at once, and start no other."""
        self._stopped = True
        self.kill()

    def kill(self) -> None:
        """End the process at once. A caller that waits for its answer gets `Gone`."""
        if self._process is not None:
            self._process.kill()

    def end(self) -> None:
        """End the process and wait until it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            if self._pipe is not None:
                self._pipe.close()
            self._process = self._pipe = None

    def renew(self) -> None:
        """End the process, and start the next one, which is ready the sooner."""
        self.end()
        self.start()


class Workers:
    """Some processes of one kind, each at work for one request at a time.

    Parameters
    ----------
    count : int
    niceness : int
        Added to the processes' own, so that the others go first.
    waiting : int
        Requests that may wait for a process; beyond, `Busy` is raised.
    limit : float
        Seconds that one answer may take; beyond, the process is ended and `TooLong` raised.
    family : bool
        Whether the processes start processes of their own.
    """

    def __init__(
        self,
        count: int,
        *,
        niceness: int = 0,
        waiting: int = 32,
        limit: float = 20.0,
        family: bool = False,
    ) -> None:
        self._all = [_Worker(niceness, family) for _ in range(count)]
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="gradstep")
        # The last one that was free comes first: it has been started.
        self._idle: asyncio.LifoQueue[_Worker] = asyncio.LifoQueue()
        for worker in reversed(self._all):
            self._idle.put_nowait(worker)
        self._waiting, self._most_waiting = 0, waiting
        self._limit = limit
        self._retiring: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._all)

    def start(self) -> None:
        """Start all processes now rather than at the first request."""
        for worker in self._all:
            worker.start()

    def stop(self) -> None:
        """End what is at work, and what waits; both are told so by `Ended`."""
        for worker in self._all:
            worker.stop()

    def close(self) -> None:
        """End all processes."""
        self.stop()
        self._threads.shutdown(wait=True)
        for worker in self._all:
            worker.end()

    async def ask(self, function: str, *arguments: Any) -> Any:
        """Call a function in a process.

        If the caller is cancelled, the process has a moment to finish, and is then replaced. The function is
        ``"module:name"`` in this package; the server itself does not import it. Raises `Busy`, `TooLong`, and what the
        function raised.
        """
        worker = await self._take()
        answer: asyncio.Future[Any] = self._threaded(worker.ready)
        # A process that starts serves the next request, if not this one.
        grace = _START_LIMIT
        try:
            async with asyncio.timeout(_START_LIMIT):
                await asyncio.shield(answer)
            answer, grace = self._threaded(worker.call, function, arguments), _GRACE
            async with asyncio.timeout(self._limit):
                _, value = await asyncio.shield(answer)
            return value
        except TimeoutError:
            grace = 0.0
            raise TooLong from None
        finally:
            self._retire(worker, answer, grace)

    async def follow(self, function: str, *arguments: Any) -> AsyncIterator[Any]:
        """Yield what a function yields in a process; the process is ended with the caller.

        Raises as `ask` does.
        """
        worker = await self._take()
        waiting: asyncio.Future[Any] = self._threaded(worker.ready)
        ended = False
        try:
            async with asyncio.timeout(_START_LIMIT):
                await asyncio.shield(waiting)
            waiting = self._threaded(worker.call, function, arguments)
            while True:
                async with asyncio.timeout(self._limit):
                    kind, value = await asyncio.shield(waiting)
                if kind == "end":
                    ended = True
                    return
                yield value
                waiting = self._threaded(worker.receive)
        except TimeoutError:
            raise TooLong from None
        except (InvalidInput, NotConverged):
            ended = True
            raise
        finally:
            # After each value the process computes the next one: there is no last answer to wait for.
            self._retire(worker, waiting, 0.0 if ended else None)

    async def _take(self) -> _Worker:
        # A process that has just answered, or is being replaced, is free in a moment.
        if self._idle.empty() and self._waiting >= self._most_waiting + len(self._retiring):
            raise Busy
        self._waiting += 1
        try:
            return await self._idle.get()
        finally:
            self._waiting -= 1

    def _threaded(self, function: Callable[..., Any], *arguments: Any) -> asyncio.Future[Any]:
        answer = asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)
        # An error is looked at even if no caller is left, so that asyncio does not report it when the server ends.
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())
        return answer

    def _retire(self, worker: _Worker, answer: asyncio.Future[Any], grace: float | None) -> None:
        """Make a worker free again, with a new process unless it answers within some seconds; None ends it anyway."""

        async def retire() -> None:
            await asyncio.wait([answer], timeout=grace or 0.0)
            killed = grace is None or not answer.done()
            if killed:
                worker.kill()
            # Its thread lets go of it: with the answer, or because the process is gone.
            await asyncio.wait([answer])
            if killed or isinstance(answer.exception(), Gone):
                await asyncio.wait([self._threaded(worker.renew)])
            self._idle.put_nowait(worker)

        task = asyncio.get_running_loop().create_task(retire())
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)


def _serve(pipe: Connection, niceness: int) -> None:
    """Answer calls until the pipe is closed: the body of a process."""
    enter_child()
    if hasattr(os, "nice"):
        os.nice(niceness)
    warnings.simplefilter("ignore")
    import numpy as np

    from gradstep.threads import one_thread

    import_module("gradstep.app.answers")
    pipe.send(("value", "ready"))
    with one_thread(), np.errstate(all="ignore"):
        while True:
            try:
                function, arguments = pipe.recv()
            except EOFError:
                return
            for message in _answers(function, arguments):
                try:
                    pipe.send(message)
                except OSError:
                    return


def _answers(function: str, arguments: tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
    """Yield what a function returns or yields, and what it raises."""
    module, _, name = function.partition(":")
    try:
        with within_range("these equations"):
            result = getattr(import_module(f"gradstep.app.{module}"), name)(*arguments)
            if isinstance(result, Iterator):
                for value in result:
                    yield "value", value
                yield "end", None
            else:
                yield "value", result
    except (InvalidInput, NotConverged) as error:
        yield "error", error
    except MemoryError:
        yield "error", InvalidInput("d", "too large", "sizes that fit in memory")
    except Exception as error:
        traceback.print_exc()
        yield "error", RuntimeError(f"{type(error).__name__}: {error}")
