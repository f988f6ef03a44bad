"""Print results: tables on a terminal, aligned lines elsewhere, JSON on request, progress on standard error."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from gradstep.plain import plain
from gradstep.text_table import Table, number
from gradstep.versions import versions

__all__ = [
    "Report",
    "Table",
    "number",
    "print_json",
    "print_lines",
    "print_table",
    "progress",
    "versions",
]

#: Called as ``progress(done, total, label)``.
Report = Callable[[int, int, str], None]


def print_lines(*lines: str) -> None:
    """Print plain lines, whatever characters they hold."""
    for line in lines:
        print(line)


def print_table(table: Table) -> None:
    """Print a table: ruled on a terminal that is wide enough, aligned columns under one header line otherwise."""
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table as RichTable
        from rich.text import Text

        console = Console()
        # A rule and two spaces belong to each column.
        if sum(table.widths) + 3 * len(table.header) + 1 <= console.width:
            ruled = RichTable()
            for name, right in zip(table.header, table.numeric, strict=True):
                ruled.add_column(name, justify="right" if right else "left", no_wrap=True)
            for index, row in enumerate(table.rows):
                ruled.add_row(*map(Text, row), style="bold red" if index in table.emphasised else None)
            console.print(ruled)
            return
    print_lines(*table.lines())


def print_json(value: Mapping[str, Any]) -> None:
    """Print one JSON document: numbers in full precision, null for nan and infinities."""
    print(json.dumps(plain(value), indent=2, allow_nan=False))


@contextmanager
def progress(unit: str) -> Iterator[Report]:
    """Show progress on stderr: a bar on a terminal, otherwise a line such as ``3/12 problems`` now and then.

    Parameters
    ----------
    unit : str
        What is counted.

    Yields
    ------
    callable
        To be called with the number done, the number of all and a note.
    """
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(unit, total=None)

            def move(done: int, total: int, label: str) -> None:
                bar.update(task, completed=done, total=total, description=label or unit)

            yield move
        return

    from time import monotonic

    last_line, last_time = "", -math.inf

    def say(done: int, total: int, label: str) -> None:
        nonlocal last_line, last_time
        line = f"{done}/{total} {label or unit}"
        if line != last_line and (done >= total or monotonic() - last_time >= 5.0):
            print(line, file=sys.stderr, flush=True)
            last_line, last_time = line, monotonic()

    yield say
