"""Progress of long work: a bar on a terminal and in a notebook, lines elsewhere if they are asked for."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

#: Called as ``progress(done, total, label)``.
Report = Callable[[float, int, str], None]
#: Seconds between two lines, and between two pictures of a bar in a notebook.
_LINES, _PICTURES = 5.0, 0.3


@contextmanager
def progress(unit: str, *, lines: bool = True) -> Iterator[Report]:
    """Show progress on standard error: a bar on a terminal or in a notebook, otherwise a line now and then.

    The `unit` is what is counted. What it yields is to be called with the number done, the number of all and a note.
    Without `lines`, such as ``3/12 problems``, nothing is printed where there is no place for a bar.
    """
    if sys.stderr.isatty() or "ipykernel" in sys.modules:
        yield from _bar(unit)
    elif lines:
        yield _lines(unit)
    else:
        yield lambda done, total, label: None


def _bar(unit: str) -> Iterator[Report]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task(unit, total=None)
    if not bar.console.is_jupyter:
        with bar:
            yield lambda done, total, label: bar.update(task, completed=done, total=total, description=label or unit)
        return
    # Rich moves bars in notebooks with the help of widgets, which are not there everywhere. A picture that takes the
    # place of the last one is. Short work shows none.
    from IPython.display import display  # type: ignore[import-not-found]

    place, last = None, monotonic()

    def move(done: float, total: int, label: str) -> None:
        nonlocal place, last
        bar.update(task, completed=done, total=total, description=label or unit)
        if monotonic() - last > _PICTURES:
            if place is None:
                place = display(bar, display_id=True)
            else:
                place.update(bar)
            last = monotonic()

    try:
        yield move
    finally:
        if place is not None:
            place.update({"text/plain": ""}, raw=True)


def _lines(unit: str) -> Report:
    last_line, last_time = "", -math.inf

    def say(done: float, total: int, label: str) -> None:
        nonlocal last_line, last_time
        line = f"{int(done)}/{total} {label or unit}"
        if line != last_line and (done >= total or monotonic() - last_time >= _LINES):
            print(line, file=sys.stderr, flush=True)
            last_line, last_time = line, monotonic()

    return say
