"""Tables as text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Table", "number"]


@dataclass(frozen=True)
class Table:
    """Cells as text; the rows in `emphasised` stand out."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    emphasised: frozenset[int] = frozenset()

    @property
    def widths(self) -> list[int]:
        """Characters of each column."""
        return [max(map(len, column)) for column in zip(self.header, *self.rows, strict=True)]

    @property
    def numeric(self) -> list[bool]:
        """Whether each column holds numbers, which stand to the right: a dash alone is a missing one."""
        columns = zip(*self.rows, strict=True)
        return [any(cell[:1].isdigit() or (cell[:1] in "+-." and len(cell) > 1) for cell in own) for own in columns]

    def lines(self) -> list[str]:
        """Return aligned columns under one header line."""
        pads = [str.rjust if right else str.ljust for right in self.numeric]
        return [
            "  ".join(pad(cell, width) for pad, cell, width in zip(pads, row, self.widths, strict=True)).rstrip()
            for row in (self.header, *self.rows)
        ]


def number(value: float, digits: int = 6) -> str:
    """Return a number for people: `digits` significant digits, a dash for what is not a number."""
    if isinstance(value, float) and math.isnan(value):
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.{digits}g}"
