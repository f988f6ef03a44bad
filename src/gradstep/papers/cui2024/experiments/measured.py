"""What several experiments do: go over the points of all curves, extrapolate in 1/d, list comparisons in a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from gradstep.papers.figure import Figure
from gradstep.papers.outcome import Comparison
from gradstep.papers.panels import Table

__all__ = ["extrapolate", "places", "table"]

Value = TypeVar("Value", float, NDArray[np.float64])


def extrapolate(draw: Callable[[int], Mapping[str, Value]], d: int) -> dict[str, Value]:
    """Measure at d and at d/2, and extrapolate to infinite d: terms of order 1/d cancel in 2 q(d) - q(d/2)."""
    whole, half = draw(d), draw(d // 2)
    return {name: 2 * value - half[name] for name, value in whole.items()}


def places(figure: Figure, preset: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], float]]:
    """Yield every curve with every point of the preset, in the order of the tasks."""
    for curve in figure.settings["curves"]:
        for x in map(float, preset["points"]):
            yield curve, x


def table(header: Sequence[str], comparisons: Sequence[Comparison]) -> Table:
    """List comparisons: curve, place, quantity, theory, measurement and z, under a header of six."""
    rows = [
        [
            c.curve,
            f"{float(c.place):g}",
            c.quantity,
            f"{c.theory:.5f}",
            f"{c.mean:.5f} +- {c.standard_error:.5f}",
            f"{c.excess_z:+.1f}",
        ]
        for c in comparisons
    ]
    return Table(header, rows)
