"""The curves, points and comparisons of a figure as CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Sequence

from gradstep.panels import Panel
from gradstep.papers.outcome import Judged

__all__ = ["compared", "drawn"]

_DRAWN = ("panel", "axes", "kind", "label", "x", "y", "standard_error")
_COMPARED = ("curve", "quantity", "place", "theory", "mean", "standard_error", "seeds", "z", "allowance")


def drawn(panels: Sequence[Panel]) -> str:
    """Return every line, point, bar, mark and guide, one row a place."""
    return _csv(_DRAWN, (row for number, panel in enumerate(panels, 1) for row in _rows(number, panel)))


def compared(comparisons: Sequence[Judged]) -> str:
    """Return every comparison of theory and measurement, one row each."""
    rows = (
        (c.curve, c.quantity, c.place, c.theory, c.mean, c.standard_error, c.seeds, c.z, c.allowance)
        for c in comparisons
    )
    return _csv(_COMPARED, rows)


def _rows(number: int, panel: Panel) -> Iterator[tuple[object, ...]]:
    axes = f"{panel.y_label} against {panel.x_label}"
    for kind, label, x, y, error in _values(panel):
        yield number, axes, kind, label, x, y, error


def _values(panel: Panel) -> Iterator[tuple[str, str, object, object, object]]:
    for line in panel.lines:
        yield from ((f"line, {line.style}", line.label, x, y, "") for x, y in zip(line.x, line.y, strict=True))
    for points in panel.points:
        errors = points.error or [math.nan] * len(points.x)
        for x, mean, error in zip(points.x, points.mean, errors, strict=True):
            yield "points", points.label, x, mean, error
    for bars in panel.histograms:
        for low, high, y in zip(bars.edges, bars.edges[1:], bars.density, strict=False):
            yield "histogram", bars.label, (low + high) / 2, y, ""
    for mark in panel.marks:
        yield "measured place" if mark.measured else "predicted place", mark.label, mark.x, "", ""
    for guide in panel.guides:
        if guide.height is not None:
            yield "guide", guide.label, "", guide.height, ""
        yield from (("guide", guide.label, x, y, "") for x, y in zip(guide.x, guide.y, strict=True))
    if panel.image is not None:
        for y, row in zip(panel.image.y, panel.image.category, strict=True):
            yield from (("map", panel.image.labels[c][0], x, y, "") for x, c in zip(panel.image.x, row, strict=True))


def _csv(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([f"{v:.6g}" if isinstance(v, float) else v for v in row] for row in rows)
    return text.getvalue()
