"""The panels of a figure as plain values, which `gradstep.drawing` draws."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from gradstep.overlay import mean_and_error

__all__ = ["SCALE", "Field", "Guide", "Histogram", "Image", "Line", "Mark", "Panel", "Points", "Table"]

SCALE = "scale"
"""Regime of curves that have their colours from a scale, in the order of their labels, and these beside it."""
Scale = Literal["linear", "log"]
Style = Literal["solid", "dashed", "dotted"]


@dataclass(frozen=True)
class Line:
    """A computed curve; `regime` is a key of the colours in `gradstep.drawing`; an empty label is not drawn."""

    x: Sequence[float]
    y: Sequence[float]
    label: str
    regime: str
    style: Style = "solid"

    @classmethod
    def of(cls, x: ArrayLike, y: ArrayLike, label: str, regime: str, style: Style = "solid") -> Self:
        """Return a line from arrays; a single `y` is a level."""
        places = np.asarray(x, dtype=np.float64)
        return cls(places.tolist(), np.broadcast_to(y, places.shape).tolist(), label, regime, style)


@dataclass(frozen=True)
class Points:
    """Measured values with standard errors (None: no error bars), in the colour of the line with the same label."""

    x: Sequence[float]
    mean: Sequence[float]
    error: Sequence[float] | None
    label: str
    regime: str
    hollow: bool = False

    @classmethod
    def measured(cls, x: Iterable[float], values: Iterable[ArrayLike], label: str, regime: str) -> Self:
        """Return means over seeds with their standard errors.

        Of each place there is a value for each seed.
        """
        means, errors, _ = zip(*map(mean_and_error, values), strict=True)
        return cls([float(v) for v in x], [*map(float, means)], [*map(float, errors)], label, regime)


@dataclass(frozen=True)
class Histogram:
    """A measured density: `edges` has one value more than `density`."""

    edges: Sequence[float]
    density: Sequence[float]
    label: str
    regime: str


@dataclass(frozen=True)
class Mark:
    """A place on the horizontal axis: an outlier predicted (a line) or measured (a triangle)."""

    x: float
    label: str
    regime: str
    measured: bool = False


@dataclass(frozen=True)
class Image:
    """A map of categories on a grid, with one row for each value of y.

    ``category[row][column]`` is a place in `labels`, the pairs of label and regime; `strength` in [0, 1] says how clear
    the category is, and shows as the depth of its colour.
    """

    x: Sequence[float]
    y: Sequence[float]
    category: Sequence[Sequence[int]]
    strength: Sequence[Sequence[float]]
    labels: Sequence[tuple[str, str]]


class Field(NamedTuple):
    """A quantity over a plane, drawn as colours with contours; measured values are circles filled with their colour."""

    #: Increasing or decreasing places, shape (columns,) and (rows,).
    x: Any
    y: Any
    values: Any  #: nan where there is none, shape (rows, columns).
    label: str
    #: Places and values of shape (rows, columns) that were measured.
    measured_x: Any = None
    measured_y: Any = None
    measured: Any = None


@dataclass(frozen=True)
class Guide:
    """A reference: a horizontal line at `height`, or the curve (x, y) when x is given."""

    label: str
    height: float | None = None
    x: Sequence[float] = ()
    y: Sequence[float] = ()


@dataclass(frozen=True)
class Panel:
    """One pair of axes; with `span` both show this range, in equal units; `x_ticks` are places with words.

    `infinity` holds the largest finite number of a horizontal axis that ends with infinity, and the place of that.
    """

    title: str
    x_label: str
    y_label: str
    x_scale: Scale = "linear"
    y_scale: Scale = "linear"
    lines: Sequence[Line] = ()
    points: Sequence[Points] = ()
    histograms: Sequence[Histogram] = ()
    marks: Sequence[Mark] = ()
    guides: Sequence[Guide] = ()
    image: Image | None = None
    field: Field | None = None
    span: tuple[float, float] | None = None
    x_ticks: Sequence[tuple[float, str]] = ()
    infinity: tuple[float, float] | None = None


@dataclass(frozen=True)
class Table:
    """Rows of text under a header."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
