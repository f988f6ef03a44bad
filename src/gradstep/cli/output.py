"""What a command prints: tables on a terminal, aligned lines elsewhere, JSON on request, progress on stderr."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from gradstep.plain import plain
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


@dataclass(frozen=True)
class Table:
    """Cells as text; the rows in `emphasised` stand out."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    emphasised: frozenset[int] = frozenset()


def number(value: float, digits: int = 6) -> str:
    """Return a number for people: `digits` significant digits, a dash for what is not a number."""
    if isinstance(value, float) and math.isnan(value):
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.{digits}g}"


def print_lines(*lines: str) -> None:
    """Print plain lines, whatever characters they hold."""
    for line in lines:
        print(line)


def print_table(table: Table) -> None:
    """Print a table: ruled on a terminal that is wide enough, aligned columns under one header line otherwise."""
    cells = [list(table.header), *map(list, table.rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    numeric = [_is_numeric(table, column) for column in range(len(widths))]
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table as RichTable
        from rich.text import Text

        console = Console()
        # A rule and two spaces belong to each column.
        if sum(widths) + 3 * len(widths) + 1 <= console.width:
            ruled = RichTable()
            for name, right in zip(table.header, numeric, strict=True):
                ruled.add_column(name, justify="right" if right else "left", no_wrap=True)
            for index, row in enumerate(table.rows):
                ruled.add_row(*map(Text, row), style="bold red" if index in table.emphasised else None)
            console.print(ruled)
            return
    for row in cells:
        padded = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ]
        print("  ".join(padded).rstrip())


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


def _is_numeric(table: Table, column: int) -> bool:
    """Return whether a column holds numbers, which stand to the right: a dash alone is a missing one."""
    cells = (row[column] for row in table.rows)
    return any(cell[:1].isdigit() or (cell[:1] in "-." and len(cell) > 1) for cell in cells)
