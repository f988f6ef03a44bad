"""Results in words, for people: one screen of text on a terminal, the same as HTML in a notebook."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from gradstep.text_table import Table, in_words

__all__ = ["Summarised", "Summary"]

#: Characters of a line, and rows of a table that are shown.
COLUMNS, ROWS = 80, 13
_STYLE = "border-collapse:collapse;font-variant-numeric:tabular-nums"


@dataclass(frozen=True)
class Summary:
    """A title, what it is about, a table, and notes; of a table with more than `rows` rows the middle is left out."""

    title: str
    about: Sequence[str] = ()
    table: Table | None = None
    notes: Sequence[str] = ()
    rows: int = ROWS

    def __str__(self) -> str:
        parts = [[line for text in (self.title, *self.about) for line in wrapped(text)]]
        if self.table is not None:
            parts.append(self.table.shortened(self.rows).lines(COLUMNS))
        if self.notes:
            parts.append([line for note in self.notes for line in wrapped(note)])
        return "\n\n".join("\n".join(part) for part in parts)

    def html(self) -> str:
        """Return the summary as HTML that needs no style sheet."""
        parts = [f"<b>{escape(self.title)}</b>", *(f"<div>{escape(text)}</div>" for text in self.about)]
        if self.table is not None:
            parts.append(_table(self.table.shortened(self.rows).merged()))
        parts += [f'<div style="opacity:.75">{escape(note)}</div>' for note in self.notes]
        return f'<div style="max-width:60em">{"".join(parts)}</div>'


class Summarised:
    """A result that shows a summary of itself wherever it is printed or displayed."""

    def summary(self) -> Summary:
        """Return the summary."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return str(self.summary())

    def __str__(self) -> str:
        return str(self.summary())

    def _repr_html_(self) -> str:
        return self.summary().html()


def wrapped(text: str, width: int = COLUMNS, indent: int = 2) -> list[str]:
    """Return a text as lines of at most so many characters; what goes on is indented, a number keeps its error."""
    joined = text.replace(" +- ", "\xa0+-\xa0")
    lines = textwrap.wrap(joined, width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False)
    return [line.replace("\xa0+-\xa0", " +- ") for line in lines]


def _table(table: Table) -> str:
    sides = ["right" if numeric else "left" for numeric in table.numeric]

    def row(cells: Sequence[str], tag: str, style: str = "") -> str:
        shown = (
            f'<{tag} style="text-align:{side};padding:.1em .7em">{escape(cell)}</{tag}>'
            for cell, side in zip(cells, sides, strict=True)
        )
        return f"<tr{style}>{''.join(shown)}</tr>"

    head = row([in_words(cell) for cell in table.header], "th")
    bold = ' style="font-weight:bold"'
    body = (row(cells, "td", bold if index in table.emphasised else "") for index, cells in enumerate(table.rows))
    return f'<table style="{_STYLE}"><thead>{head}</thead><tbody>{"".join(body)}</tbody></table>'
