"""Print results: tables on a terminal, aligned lines elsewhere, JSON on request, progress on standard error."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from gradstep.plain import plain
from gradstep.progress import progress
from gradstep.summary import COLUMNS, wrapped
from gradstep.text_table import Table, in_words, number
from gradstep.versions import versions

__all__ = [
    "Table",
    "number",
    "print_document",
    "print_json",
    "print_lines",
    "print_table",
    "print_wrapped",
    "progress",
    "versions",
]


#: Characters of the narrowest terminal for which columns are moved.
_NARROWEST = 40


def print_lines(*lines: str) -> None:
    """Print plain lines, whatever characters they hold."""
    for line in lines:
        print(line)


def print_wrapped(*texts: str) -> None:
    """Print sentences as lines of 80 characters."""
    for text in texts:
        print_lines(*(wrapped(text) or [""]))


def print_table(table: Table) -> None:
    """Print a table: ruled on a terminal that is wide enough, aligned columns of at most 80 characters otherwise."""
    width = COLUMNS
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table as RichTable
        from rich.text import Text

        console = Console()
        # A rule and two spaces belong to each column.
        if sum(table.widths) + 3 * len(table.header) + 1 <= console.width:
            ruled = RichTable()
            table = table.merged()
            for name, right in zip(table.header, table.numeric, strict=True):
                ruled.add_column(in_words(name), justify="right" if right else "left", no_wrap=True)
            for index, row in enumerate(table.rows):
                ruled.add_row(*map(Text, row), style="bold red" if index in table.emphasised else None)
            console.print(ruled)
            return
        width = max(min(width, console.width), _NARROWEST)
    print_lines(*table.lines(width))


def print_json(value: Mapping[str, Any]) -> None:
    """Print one JSON document: numbers in full precision, null for nan and infinities."""
    print(json.dumps(plain(value), indent=2, allow_nan=False))


def print_document(command: str, **content: Any) -> None:
    """Print the JSON of a command, with the versions of the packages."""
    print_json({"command": command, "versions": versions(), **content})
