"""Tables as text."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

#: Between two columns, and where that lets all of them stand side by side; a header that is not broken.
_GAP, _NARROW, _SHORT = 2, 1, 5


@dataclass(frozen=True)
class Table:
    """Cells as text; the rows in `emphasised` stand out, the first `index` columns say what a row is about."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    emphasised: frozenset[int] = frozenset()
    index: int = 0

    def __str__(self) -> str:
        """Return the aligned columns."""
        return "\n".join(self.lines())

    @property
    def widths(self) -> list[int]:
        """Characters of each column, its header in one line."""
        return [max(map(len, column)) for column in zip(self.header, *self.rows, strict=True)]

    @property
    def numeric(self) -> list[bool]:
        """Whether each column holds numbers, which stand to the right: a dash alone is a missing one."""
        columns = zip(*self.rows, strict=True) if self.rows else ((),) * len(self.header)
        return [any(cell[:1].isdigit() or (cell[:1] in "+-." and len(cell) > 1) for cell in own) for own in columns]

    def shortened(self, most: int) -> Table:
        """Return the table with some rows from its middle left out, if it has more than `most`."""
        if len(self.rows) <= most:
            return self
        first = most // 2
        last = len(self.rows) - (most - first - 1)
        dots = ["…"] + [""] * (len(self.header) - 1)
        kept = {i: i for i in range(first)} | {i: i - last + first + 1 for i in range(last, len(self.rows))}
        marked = frozenset(kept[i] for i in self.emphasised if i in kept)
        return replace(self, rows=[*self.rows[:first], dots, *self.rows[last:]], emphasised=marked)

    def merged(self) -> Table:
        """Return the table with a column of the index blank where it repeats the row above."""
        rows, before = [], [""] * self.index
        for row in self.rows:
            same = [all(row[j] == before[j] for j in range(i + 1)) for i in range(self.index)]
            rows.append(["" if same[i] else cell for i, cell in enumerate(row[: self.index])] + list(row[self.index :]))
            before = list(row[: self.index])
        return replace(self, rows=rows)

    def lines(self, width: int | None = None) -> list[str]:
        """Return aligned columns under their header.

        Headers that do not fit into `width` characters are broken between words, columns come closer if they then fit,
        and those that do not stand in a block of their own below, each with the index.
        """
        table = replace(self.merged(), header=[in_words(name) for name in self.header])
        if width is None or sum(table.widths) + _GAP * (len(table.header) - 1) <= width:
            return table._block([[name] for name in table.header], range(len(table.header)))
        heads = [[word for word in re.split(r"(?<=[ /])", name) if word] for name in table.header]
        cells = [max((len(row[i]) for row in table.rows), default=0) for i in range(len(heads))]
        heads = [filled(words, max(cell, _SHORT)) for words, cell in zip(heads, cells, strict=True)]
        widths = [max(cell, *map(len, words)) for cell, words in zip(cells, heads, strict=True)]
        if sum(widths) + _GAP * (len(widths) - 1) > width >= sum(widths) + _NARROW * (len(widths) - 1):
            return table._block(heads, range(len(widths)), _NARROW)
        index = list(range(self.index))
        found: list[str] = []
        block = list(index)
        for column in range(self.index, len(heads)):
            # Words at the end may go on beyond the width: a terminal continues them below.
            words = column == len(heads) - 1 and not self.numeric[column]
            if not words and len(block) > len(index) and sum(widths[i] + _GAP for i in (*block, column)) - _GAP > width:
                found += [*table._block(heads, block), ""]
                block = list(index)
            block.append(column)
        return found + table._block(heads, block)

    def _block(self, heads: Sequence[Sequence[str]], columns: Sequence[int], space: int = _GAP) -> list[str]:
        """Return some of the columns; headers of several lines stand at the bottom of the highest."""
        height = max(len(heads[i]) for i in columns)
        top = [[([""] * (height - len(heads[i])) + list(heads[i]))[line] for i in columns] for line in range(height)]
        rows = [*top, *([row[i] for i in columns] for row in self.rows)]
        widths = [max(len(row[k]) for row in rows) for k in range(len(columns))]
        pads = [str.rjust if self.numeric[i] else str.ljust for i in columns]
        gap = " " * space
        return [
            gap.join(pad(cell, width) for pad, cell, width in zip(pads, row, widths, strict=True)).rstrip()
            for row in rows
        ]


def filled(words: Sequence[str], width: int) -> list[str]:
    """Return words as lines of at most this width, as far as the words allow."""
    lines: list[str] = []
    for word in words:
        if lines and len((lines[-1] + word).rstrip()) <= width:
            lines[-1] += word
        else:
            lines.append(word)
    return [line.rstrip() for line in lines]


def in_words(name: str) -> str:
    """Return the name of a field as people read it: "test error" for ``test_error``."""
    return name.replace("_", " ")


def number(value: float, digits: int = 6) -> str:
    """Return a number for people: `digits` significant digits, a dash for what is not a number."""
    if isinstance(value, float) and math.isnan(value):
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.{digits}g}"


def measured(mean: float, error: float) -> tuple[str, str]:
    """Return a mean to the last digit that its standard error has, and that error to two digits.

    A standard error that is zero or not a number leaves the mean six digits.
    """
    digits = 6
    if mean and math.isfinite(mean) and 0 < error < math.inf:
        digits = math.floor(math.log10(abs(mean))) - math.floor(math.log10(error)) + 2
    return _padded(mean, min(max(digits, 1), 6)), _padded(error, 2)


def _padded(value: float, digits: int) -> str:
    """Return a number with its zeros at the end, which say how well it is known."""
    return number(value, digits) if math.isnan(value) or not value else f"{value:#.{digits}g}".rstrip(".")
