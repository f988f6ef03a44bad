"""SIGTERM, which schedulers send before they kill, taken as Ctrl-C is."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Terminated(KeyboardInterrupt):
    """The system's polite request to end."""


@contextmanager
def terminable() -> Iterator[None]:
    """Raise `Terminated` on SIGTERM inside, so that workers are ended and what is finished is said."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may handle signals
        return

    def end(number: int, frame: FrameType | None) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
