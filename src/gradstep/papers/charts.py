"""Curves of theory with the measurements that they are judged by: drawn, and compared at every place measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradstep.panels import Line, Panel, Points, Style, Table
from gradstep.papers.outcome import Judged, Outcome, points_of
from gradstep.papers.places import Sample, Settings

__all__ = ["Curve", "Theory", "charts", "excuse", "grid_of", "measured_points", "table_of"]

Array = NDArray[np.float64]
Theory = Callable[[Array], Mapping[str, ArrayLike]]
"""What theory says at places on the axis: quantities by the names that they have in the results."""


@dataclass(frozen=True)
class Curve:
    """A curve of theory, and what was measured on it."""

    #: Label and regime with which the curve is drawn.
    label: str
    regime: str
    #: Function of an array of places that returns quantities. A quantity that it does not return is neither drawn nor
    #: compared.
    theory: Theory
    #: Measurements, with the same names of quantities; each is compared with the theory at its place.
    samples: Sequence[Sample] = ()
    name: str = ""  #: Name of the curve in comparisons; its label if empty.
    #: Further lines of the same colour without a label, by style: a limit, a published form.
    beside: Mapping[Style, Theory] = field(default_factory=dict)
    line: bool = True  #: Whether the theory is drawn, and not only compared.
    #: Documented error of the theory: ``relative``, ``reason``, and ``up_to`` on the axis.
    allowance: Settings = field(default_factory=dict)


def charts(
    curves: Sequence[Curve], grid: ArrayLike, panels: Mapping[str, Panel], quantities: Mapping[str, str] | None = None
) -> Outcome:
    """Draw curves, one panel for each quantity, and compare every measurement on them with the theory at its place.

    Lines are drawn on the grid. The measured places are added to it, so that the lines have the compared values.
    `panels` has for each quantity that is drawn its panel, without its curves. `quantities` has for each quantity that
    is compared, by its name in the results, how it is written; by default these are the quantities that are drawn, as
    written at the vertical axis.
    """
    written = quantities or {name: panel.y_label for name, panel in panels.items()}
    lines: dict[str, list[Line]] = {name: [] for name in panels}
    points: dict[str, list[Points]] = {name: [] for name in panels}
    comparisons: list[Judged] = []
    for curve in curves:
        measured = [sample.x for sample in curve.samples]
        x = np.union1d(np.asarray(grid, dtype=np.float64), measured) if panels and curve.line else np.unique(measured)
        theory = {name: np.asarray(values) for name, values in curve.theory(x).items()}
        for name, text in written.items():
            if name not in theory:
                continue
            words = {"curve": curve.name or curve.label, "quantity": text}
            own = [
                sample.compare(value, name, **words, **excuse(curve.allowance, sample.x))
                for sample, value in zip(curve.samples, theory[name][np.searchsorted(x, measured)], strict=True)
                if not _certain(value, sample[name])
            ]
            comparisons += own
            if own and name in panels:
                points[name].append(points_of(own, curve.label, curve.regime))
        if curve.line:
            beside = {style: other(x) for style, other in curve.beside.items()}
            for name in [name for name in panels if name in theory]:
                lines[name].append(Line.of(x, theory[name], curve.label, curve.regime))
                lines[name] += [Line.of(x, other[name], "", curve.regime, style) for style, other in beside.items()]
    drawn = [
        replace(panel, lines=[*lines[name], *panel.lines], points=[*points[name], *panel.points])
        for name, panel in panels.items()
    ]
    return Outcome(drawn, comparisons)


def _certain(theory: float, values: Array) -> bool:
    """Return whether theory and all measurements are equal: such values do not vary and cannot be compared."""
    return bool(np.ptp(values) == 0 and abs(theory - values[0]) <= 1e-9 * abs(theory))


def excuse(known: Settings, x: float = 0.0) -> dict[str, Any]:
    """Return an allowance of the settings with its reason, as a comparison has them, if it holds at a place."""
    if not known or x > known.get("up_to", math.inf):
        return {}
    return {"allowance": known["relative"], "reason": known["reason"]}


def measured_points(samples: Sequence[Sample], name: str, label: str, regime: str) -> Points:
    """Return a measured quantity along the axis, to be drawn without a comparison."""
    return Points.measured([sample.x for sample in samples], [sample[name] for sample in samples], label, regime)


def grid_of(axis: Settings, preset: Settings) -> Array:
    """Return the places of the lines along an axis of the settings: ``from``, ``to``, ``count``, ``scale``.

    A preset has its own count, ``line``, if computing the theory takes longer than the measurements.
    """
    space = np.geomspace if axis.get("scale") == "log" else np.linspace
    count = preset.get("line", axis.get("count"))
    return np.asarray(space(axis["from"], axis["to"], int(count)), dtype=np.float64)


def table_of(header: Sequence[str], comparisons: Sequence[Judged]) -> Table:
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
