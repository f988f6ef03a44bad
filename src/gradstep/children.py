"""Processes that this one starts: how many are worthwhile, how Ctrl-C spares them, and that they end with it."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from multiprocessing import parent_process, resource_tracker

from gradstep.errors import InvalidInput

#: A pool of processes on Windows cannot wait for more.
_MOST_ON_WINDOWS = 61


def available_cores() -> int:
    """Return the number of cores that this process may run on, which a batch system makes fewer than there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    cores = os.cpu_count() or 1
    return min(cores, _MOST_ON_WINDOWS) if sys.platform == "win32" else cores


def check_directory() -> None:
    """Refuse to start processes from a working directory that was deleted: they would begin there.

    Raises `InvalidInput`.
    """
    try:
        os.getcwd()
    except FileNotFoundError:
        allowed = "a directory that exists: change to one and run the same command again"
        raise InvalidInput("working directory", "deleted", allowed) from None


@contextlib.contextmanager
def deaf_children() -> Iterator[None]:
    """Let processes started here be deaf to Ctrl-C from their first instant, before they can say so themselves.

    The signal is blocked, which children inherit, and not ignored: one that comes meanwhile waits for this process.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield  # no such thing on Windows
        return
    # Its start unblocks the signal.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def enter_child() -> None:
    """Settle a process that was started with `deaf_children`."""
    # Ctrl-C reaches the whole process group; the parent alone decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A parent killed with -9 says nothing: without this its children would go on, or wait, for ever.
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
