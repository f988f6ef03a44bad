"""How a figure looks: theory as lines, the real network as points with error bars, labels at the lines."""

from __future__ import annotations

from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gradstep.papers.ba2022 import kernel_lower_bound
from gradstep.papers.cui2024 import best_linear
from gradstep.papers.figure import FigureResult

__all__ = ["draw"]

#: One hue a regime, in every figure; curves of one regime differ in lightness. Legible on white and on dark grey.
_HUES = {
    "initial": "#7f7f8c",
    "small": "#2f80d0",
    "between": "#8a5bd1",
    "few": "#d9892b",
    "large": "#d6453d",
    "infinite": "#2a9d6f",
}


@dataclass(frozen=True)
class _Ink:
    text: str
    grid: str


_LIGHT = _Ink("#22252b", "#d8dbe2")
_DARK = _Ink("#e4e6ec", "#3c414d")


def _shade(colour: str, place: float) -> tuple[float, float, float]:
    """Mix a colour with white (place < 0) or black (place > 0)."""
    rgb = np.array(mpl.colors.to_rgb(colour))
    target = np.ones(3) if place < 0 else np.zeros(3)
    mixed = rgb + (target - rgb) * abs(place)
    return float(mixed[0]), float(mixed[1]), float(mixed[2])


def draw(result: FigureResult, *, dark: bool = False) -> Figure:
    """Draw a figure.

    Parameters
    ----------
    result : FigureResult
    dark : bool, optional
        Light ink for a dark page.

    Returns
    -------
    matplotlib.figure.Figure
        Not registered with pyplot; transparent background.
    """
    settings, ink = result.settings, _DARK if dark else _LIGHT
    figure = Figure(figsize=(7.4, 4.6), layout="constrained")
    axes = figure.subplots()
    figure.patch.set_alpha(0)
    axes.patch.set_alpha(0)
    log_x = settings.axis.get("scale") == "log"
    axes.set_xscale("log" if log_x else "linear")
    axes.set_yscale("log")
    labels: list[tuple[float, str, object]] = []
    for index, curve in enumerate(result.curves):
        same = [c for c in result.curves if c.regime == curve.regime]
        rank = [c.label for c in same].index(curve.label)
        place = 0.0 if len(same) == 1 else 0.45 * (rank / (len(same) - 1) - 0.6)
        colour = _shade(_HUES[curve.regime], place)
        axes.plot(curve.x, curve.theory, color=colour, lw=2, zorder=3 + index)
        if curve.limit is not None:
            axes.plot(curve.x, curve.limit, color=colour, lw=1, ls=(0, (4, 2)), alpha=0.8, zorder=2)
        if curve.points:
            axes.errorbar(
                [p.x for p in curve.points],
                [p.mean for p in curve.points],
                [p.standard_error for p in curve.points],
                fmt="o",
                ms=5,
                capsize=3,
                color=colour,
                mec=ink.text,
                mew=0.6,
                zorder=20,
            )
        labels.append((curve.theory[-1], curve.label, colour))
    low = min(min(c.theory) for c in result.curves)
    high = max(max(c.theory) for c in result.curves)
    _guides(axes, result, ink, low)
    axes.set_ylim(0.75 * low, 1.4 * high)
    _label_lines(axes, labels, right=settings.axis["to"])
    axes.set_xlabel(settings.axis["label"], color=ink.text)
    axes.set_ylabel("test error", color=ink.text)
    axes.set_title(settings.title, color=ink.text, loc="left", fontsize=12)
    steps = [m * 10.0**k for k in range(-8, 4) for m in (1, 2, 5)]
    marks = [t for t in steps if 0.75 * low <= t <= 1.4 * high]
    axes.set_yticks(marks, [f"{t:g}" for t in marks])
    axes.set_yticks([], minor=True)
    axes.tick_params(which="both", colors=ink.text)
    axes.grid(color=ink.grid, lw=0.6)
    if log_x:
        ticks = [t for t in (0.25, 0.5, 1, 2, 4, 8) if settings.axis["from"] <= t <= settings.axis["to"]]
        axes.set_xticks(ticks, [f"{t:g}" for t in ticks])
        axes.minorticks_off()
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(ink.text)
    d = result.settings.presets[result.preset]["d"]
    seeds = result.settings.presets[result.preset]["seeds"]
    note = f"lines: uniform equivalent at d = {d}; dashes: the paper's limit; points: real network, {seeds} seeds"
    figure.supxlabel(note, fontsize=8, color=ink.text)
    return figure


def _guides(axes: Axes, result: FigureResult, ink: _Ink, low: float) -> None:
    settings = result.settings
    x = np.array(result.curves[0].x)
    for guide in settings.guides:
        if guide["kind"] == "rate":
            axes.plot(x, guide["height"] / x, color=ink.text, lw=0.8, ls=":")
            axes.annotate(guide["label"], (x[-8], guide["height"] / x[-8]), color=ink.text, fontsize=8, va="bottom")
            continue
        teacher = settings.base["teacher"]
        height = kernel_lower_bound(teacher) if guide["kind"] == "kernel_lower_bound" else best_linear(teacher)
        axes.axhline(height, color=ink.text, lw=1, ls=(0, (6, 3)))
        axes.annotate(guide["label"], (x[0], height), color=ink.text, fontsize=8, va="bottom")


def _label_lines(axes: Axes, labels: list[tuple[float, str, object]], right: float) -> None:
    """Write each line's label at its right end, pushed apart where ends are close."""
    bottom, top = np.log(axes.get_ylim())
    gap = 0.055 * (top - bottom)
    last = -np.inf
    for height, label, colour in sorted(labels, key=lambda item: item[0]):
        place = max(float(np.log(height)), last + gap)
        last = place
        axes.annotate(
            label,
            (right, float(np.exp(place))),
            xytext=(6, 0),
            textcoords="offset points",
            color=colour,
            fontsize=9,
            va="center",
            annotation_clip=False,
        )
