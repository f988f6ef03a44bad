"""Draw panels: theory as lines, the real network as points with error bars, labels at the lines."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import BoundaryNorm, ListedColormap, LogNorm
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator
from scipy.optimize import isotonic_regression

from gradstep.checks import flag
from gradstep.panels import SCALE, Field, Guide, Histogram, Image, Line, Mark, Panel, Points
from gradstep.picture import Picture, given_axes
from gradstep.text_table import filled
from gradstep.typesetting import to_mathtext

__all__ = ["DARK", "HUES", "LIGHT", "Ink", "draw"]

#: Each regime has one hue in every figure; its curves differ in lightness. All are legible on white and on dark grey,
#: and can be told apart by eyes that lack one kind of cone.
HUES = {
    "initial": "#8a8b95",
    "small": "#4c92fd",
    "between": "#944bb9",
    "few": "#c18a16",
    "large": "#cc1a00",
    "infinite": "#267458",
    # Colours for what is compared within one regime: functions, kernels, norms, parameters.
    "first kind": "#26a0c2",
    "second kind": "#ba125c",
    "third kind": "#a38f07",
    "fourth kind": "#5f4ec6",
}
_STYLES = {"solid": "-", "dashed": (0, (4, 2)), "dotted": (0, (1, 1.6))}
#: Luminance that stands out from white and from dark grey by as much.
_MIDDLE = 0.2
_COLUMNS = 3
#: Least distance between labels beside the axes, as a share of the height of the axes.
_LINE_HEIGHT = 0.058
#: Characters of a label beside the axes, if it can be broken at a comma.
_LABEL_WIDTH = 28
#: Height of a line of small print, in inches, and so many lines of it for which a figure has room.
_SMALL_PRINT, _FEW_LINES = 0.14, 2
#: Least distance between tick labels on a logarithmic axis, as a share of its length.
_TICK_ROOM = {"x": 0.085, "y": 0.05}
#: Decades of a logarithmic axis below which the numbers 1 to 9 may be too few labels.
_NARROW = 0.5

#: Values over a plane that differ by more than this factor have logarithmic colours.
_WIDE_FIELD = 4.0
#: Most that logarithmic colours tell apart: what is smaller has one colour.
_DECADES = 1e4

#: Part of the scale of colours that is legible on white and on dark grey.
_LEGIBLE = (0.0, 0.9), (0.25, 1.0)
#: Most labels beside the scale.
_MOST_LABELS = 30

Colour = tuple[float, float, float]


@dataclass(frozen=True)
class Ink:
    """Colours of text and axes, and of the grid."""

    text: str
    grid: str


#: Colours on a light page.
LIGHT = Ink("#22252b", "#d8dbe2")
#: Colours on a dark page.
DARK = Ink("#e4e6ec", "#3c414d")


def draw(panels: Sequence[Panel], *, title: str = "", note: str = "", dark: bool = False, ax: Any = None) -> Figure:
    """Draw panels as one figure.

    There is at least one panel. The title stands above them and the note, lines of small print, below. A `dark` page
    has light ink and a transparent background, which otherwise is white. The picture is unknown to pyplot until
    `gradstep.picture.offer` hands it over. Where axes `ax` are given, one for each panel, the panels are drawn there,
    without title and note.
    """
    ink = DARK if flag("dark", dark) else LIGHT
    if ax is not None:
        figure, given = given_axes(ax, len(panels))
        _draw_panels(given, panels, ink)
        return figure
    columns = min(len(panels), _COLUMNS if len(panels) != 4 else 2)
    rows = -(-len(panels) // columns)
    width, height = (7.4, 4.6) if len(panels) == 1 else (4.9 * columns, 3.9 * rows)
    lines = [line for text in note.splitlines() for line in textwrap.wrap(text, round(15 * width))]
    size = (width, height + _SMALL_PRINT * max(len(lines) - _FEW_LINES, 0))
    # Labels beside one panel must not touch the axis of the next.
    layout = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.06)
    canvas = Picture(figsize=size, layout=layout, facecolor="none" if dark else "white")
    every = canvas.subplots(rows, columns, squeeze=False).ravel()
    for axes in every[len(panels) :]:
        axes.set_axis_off()
    _draw_panels(list(every[: len(panels)]), panels, ink)
    if title:
        canvas.suptitle(to_mathtext(title), color=ink.text, x=0.01, ha="left", fontsize=12)
    if note:
        # A name in the note may hold characters that Matplotlib would read as mathematics.
        small = "\n".join(lines).replace("$", r"\$")
        canvas.supxlabel(small, color=ink.text, alpha=0.75, x=0.01, ha="left", fontsize=8)
    # Laid out once here, not again for every format it is saved in.
    layout.execute(canvas)
    canvas.set_layout_engine("none")
    return canvas


def _draw_panels(every: Sequence[Axes], panels: Sequence[Panel], ink: Ink) -> None:
    """Draw panels, each in axes of its own."""
    colours = _colours(panels, ink)
    for axes, panel in zip(every, panels, strict=True):
        _draw_panel(axes, panel, colours, ink)
    _draw_scale(every, colours, ink)


def _shade(colour: str, place: float) -> Colour:
    """Mix a colour with white (place < 0) or black (place > 0)."""
    rgb = np.array(mpl.colors.to_rgb(colour))
    target = np.ones(3) if place < 0 else np.zeros(3)
    mixed = rgb + (target - rgb) * abs(place)
    return float(mixed[0]), float(mixed[1]), float(mixed[2])


def _luminance(colour: str) -> float:
    """Return the relative luminance of sRGB, from 0 for black to 1 for white."""
    rgb = np.array(mpl.colors.to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return float(linear @ (0.2126, 0.7152, 0.0722))


def _colours(panels: Sequence[Panel], ink: Ink) -> dict[tuple[str, str], Colour]:
    """Return a colour for each pair of regime and label, the same in all panels."""
    items: list[Line | Points | Histogram | Mark] = []
    for panel in panels:
        items += [*panel.lines, *panel.points, *panel.histograms, *panel.marks]
    shown = [(item.regime, item.label) for item in items]
    colours: dict[tuple[str, str], Colour] = {}
    for regime in dict.fromkeys(regime for regime, _ in shown):
        labels = [label for label in dict.fromkeys(label for r, label in shown if r == regime) if label]
        scale = np.linspace(*_LEGIBLE[ink is DARK], len(labels))
        for rank, label in enumerate(labels):
            if regime == SCALE:
                red, green, blue, _ = mpl.colormaps["viridis"](scale[rank])
                colours[regime, label] = (red, green, blue)
                continue
            hue = HUES.get(regime, ink.text)
            # Dark hues become lighter and light ones darker, so that all shades are legible on white and on dark grey.
            lightest = -0.45 if _luminance(hue) < _MIDDLE else -0.15
            place = 0.0 if len(labels) == 1 else lightest + 0.45 * rank / (len(labels) - 1)
            colours[regime, label] = _shade(hue, place)
        colours[regime, ""] = _shade(HUES.get(regime, ink.text), 0.0)
    return colours


def _draw_scale(axes: Sequence[Axes], colours: dict[tuple[str, str], Colour], ink: Ink) -> None:
    """Draw the scale of colours beside the panels, with the labels of its curves, if there are such curves."""
    labels = [label for regime, label in colours if regime == SCALE and label]
    if not labels:
        return
    bounds = BoundaryNorm(np.arange(len(labels) + 1) - 0.5, len(labels))
    scale = ScalarMappable(bounds, ListedColormap([colours[SCALE, label] for label in labels]))
    shown = range(0, len(labels), -(-len(labels) // _MOST_LABELS))
    bar = axes[0].figure.colorbar(scale, ax=axes, pad=0.02, aspect=30, ticks=list(shown))
    bar.ax.set_yticklabels([to_mathtext(labels[place]) for place in shown], fontsize=8)
    bar.ax.minorticks_off()
    bar.ax.tick_params(colors=ink.text, length=0)
    bar.outline.set_visible(False)


def _draw_panel(axes: Axes, panel: Panel, colours: dict[tuple[str, str], Colour], ink: Ink) -> None:
    axes.patch.set_alpha(0)
    axes.set(xscale=panel.x_scale, yscale=panel.y_scale, xmargin=0.02, ymargin=0.08)
    if panel.image is not None:
        _draw_image(axes, panel.image, panel, ink)
    if panel.field is not None:
        _draw_field(axes, panel.field, ink)
    for histogram in panel.histograms:
        colour = colours[histogram.regime, histogram.label]
        axes.stairs(histogram.density, histogram.edges, fill=True, color=(*colour, 0.28), zorder=1)
    _draw_lines(axes, panel.lines, colours)
    _draw_points(axes, panel, colours, ink)
    for mark in panel.marks:
        _draw_mark(axes, mark, colours[mark.regime, mark.label], ink)
    if panel.span is not None:
        axes.set(xlim=panel.span, ylim=panel.span, aspect="equal")
    for guide in panel.guides:
        _draw_guide(axes, guide, ink)
    if panel.image is None and panel.field is None and panel.span is None:
        axes.autoscale_view()
    _label_curves(axes, panel, colours, ink)
    _label_marks(axes, panel, colours)
    _dress(axes, panel, ink)


def _draw_lines(axes: Axes, lines: Sequence[Line], colours: dict[tuple[str, str], Colour]) -> None:
    previous = (0.0, 0.0, 0.0)
    for index, line in enumerate(lines):
        # A line without a label belongs to the one before it: its limit, or its published form.
        colour = colours[line.regime, line.label] if line.label or not index else previous
        previous = colour
        width = 2.0 if line.style == "solid" else 1.2
        axes.plot(line.x, line.y, color=colour, lw=width, ls=_STYLES[line.style], zorder=3 + index / 100)


def _draw_points(axes: Axes, panel: Panel, colours: dict[tuple[str, str], Colour], ink: Ink) -> None:
    for points in panel.points:
        colour = colours[points.regime, points.label]
        axes.errorbar(
            points.x,
            points.mean,
            points.error,
            fmt="o",
            ms=4.5 if panel.image is None else 8,
            capsize=2.5,
            color=colour,
            mfc="none" if points.hollow else colour,
            mec=colour if points.hollow else ink.text,
            mew=1.2 if points.hollow else 0.6,
            zorder=20,
        )


def _draw_mark(axes: Axes, mark: Mark, colour: Colour, ink: Ink) -> None:
    """Draw a measured place as a triangle at the foot of the axes, a predicted one as a line through them."""
    foot = axes.get_xaxis_transform()
    if mark.measured:
        axes.plot([mark.x], [0.03], "^", ms=7, color=colour, mec=ink.text, mew=0.6, transform=foot, zorder=21)
    else:
        axes.plot([mark.x, mark.x], [0, 1], color=colour, lw=1.4, ls=_STYLES["dashed"], transform=foot, zorder=2)


def _dress(axes: Axes, panel: Panel, ink: Ink) -> None:
    """Give the axes their names, ticks, grid and spines."""
    axes.set_xlabel(to_mathtext(panel.x_label), color=ink.text)
    axes.set_ylabel(to_mathtext(panel.y_label), color=ink.text)
    if panel.title:
        axes.set_title(to_mathtext(panel.title), color=ink.text, loc="left", fontsize=10)
    for axis, scale in ((axes.xaxis, panel.x_scale), (axes.yaxis, panel.y_scale)):
        if scale == "log":
            _log_ticks(axis, _TICK_ROOM[axis.axis_name])
    axes.tick_params(which="both", colors=ink.text)
    if panel.x_scale == "linear" and _counts(panel):
        axes.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True))
    if panel.x_ticks:
        axes.set_xticks([place for place, _ in panel.x_ticks], [to_mathtext(text) for _, text in panel.x_ticks])
    if panel.infinity is not None:
        _tick_infinity(axes, *panel.infinity)
    if panel.image is None and panel.field is None:
        axes.grid(color=ink.grid, lw=0.6)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(ink.text)


def _tick_infinity(axes: Axes, largest: float, place: float) -> None:
    """Label the place of infinity, and none between that and the largest finite number."""
    ticks = [tick for tick in axes.get_xticks() if axes.get_xlim()[0] <= tick <= largest]
    labels = axes.xaxis.get_major_formatter().format_ticks(ticks)
    axes.set_xticks([*ticks, place], [*labels, r"$\infty$"])


def _counts(panel: Panel) -> bool:
    """Whether all that is drawn lies at whole numbers, as numbers of steps do: between them there is nothing."""
    drawn = [*(line.x for line in panel.lines), *(points.x for points in panel.points)]
    places = np.concatenate([np.asarray(x, dtype=float).ravel() for x in drawn]) if drawn else np.empty(0)
    return places.size > 0 and bool((places == np.round(places)).all())


def _draw_image(axes: Axes, image: Image, panel: Panel, ink: Ink) -> None:
    """Fill the cells around the points of the grid; the name of a category stands where it is clearest."""
    category, strength = np.asarray(image.category), np.asarray(image.strength, dtype=float)
    hues = np.array([mpl.colors.to_rgb(HUES[regime]) for _, regime in image.labels])
    cells = np.concatenate([hues[category], (0.15 + 0.85 * strength)[..., None]], axis=-1)
    edges = [_edges(np.asarray(v, dtype=float), s) for v, s in ((image.x, panel.x_scale), (image.y, panel.y_scale))]
    axes.pcolormesh(*edges, cells, zorder=0, rasterized=True)
    axes.set_xlim(edges[0][0], edges[0][-1])
    axes.set_ylim(edges[1][0], edges[1][-1])
    for k, (label, _) in enumerate(image.labels):
        rows, columns = np.nonzero(category == k)
        if rows.size:
            # The member nearest to the middle of its category lies inside it, whatever its shape.
            middle = np.argmin((rows - rows.mean()) ** 2 + (columns - columns.mean()) ** 2)
            place = (image.x[columns[middle]], image.y[rows[middle]])
            axes.annotate(
                to_mathtext(label),
                place,
                color=ink.text,
                fontsize=10,
                weight="bold",
                ha="center",
                va="center",
                zorder=25,
            )


def _draw_field(axes: Axes, field: Field, ink: Ink) -> None:
    """Fill the plane with colours and draw contours with their heights."""
    shown = np.ma.masked_invalid(field.values)
    low, high = float(shown.min()), float(shown.max())
    wide = low > 0 and high > _WIDE_FIELD * low
    low = max(low, high / _DECADES) if wide else low
    subs = (1, 1.5, 2, 3, 4, 6, 8) if high < 50 * low else (1, 2, 5)
    locator = LogLocator(subs=subs, numticks=99) if wide else MaxNLocator(nbins=12, min_n_ticks=5)
    levels = np.asarray(locator.tick_values(low, high))
    levels = levels[max(np.searchsorted(levels, low, "right") - 1, 0) : np.searchsorted(levels, high) + 1]
    norm = LogNorm() if wide else None
    filled = axes.contourf(
        field.x, field.y, shown, levels=levels, norm=norm, cmap="viridis", extend="min" if wide else "neither", zorder=0
    )
    lines = axes.contour(field.x, field.y, shown, levels=levels[1:-1], colors="white", linewidths=0.6, zorder=1)
    axes.clabel(lines, levels[1:-1:2], fmt="%g", fontsize=8)
    if field.measured is not None:
        x, y = np.meshgrid(field.measured_x, field.measured_y)
        colours = filled.cmap(filled.norm(np.ravel(field.measured)))
        axes.scatter(x.ravel(), y.ravel(), c=colours, s=34, edgecolors="white", lw=1.1, zorder=20)
    bar = axes.figure.colorbar(filled, ax=axes, pad=0.02, aspect=30, ticks=levels, format="%g")
    bar.ax.minorticks_off()
    bar.outline.set_visible(False)
    bar.ax.tick_params(colors=ink.text)


def _edges(places: np.ndarray, scale: str) -> np.ndarray:
    on_axis = np.log(places) if scale == "log" else places
    middle = (on_axis[1:] + on_axis[:-1]) / 2
    edges = np.concatenate([[2 * on_axis[0] - middle[0]], middle, [2 * on_axis[-1] - middle[-1]]])
    return np.exp(edges) if scale == "log" else edges


def _log_ticks(axis: mpl.axis.Axis, room: float) -> None:
    """Label as many places of each decade as there is room for."""
    low, high = sorted(axis.get_view_interval())
    decades = math.log10(high / low) if low > 0 else 9.0
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())
    if decades > 3:
        return
    if decades < _NARROW:
        axis.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 2.5, 5, 10]))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        return
    for subs in (tuple(range(1, 10)), (1, 2, 3, 5), (1, 2, 5), (1, 3), (1,)):
        if np.diff(np.log10([*subs, 10])).min() >= room * decades:
            break
    axis.set_major_locator(LogLocator(subs=subs))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _draw_guide(axes: Axes, guide: Guide, ink: Ink) -> None:
    """Draw a level, for which the axes make room, or a curve, for which they do not."""
    if guide.height is not None:
        axes.axhline(guide.height, color=ink.text, lw=1, ls=(0, (6, 3)))
    else:
        axes.add_artist(Line2D(guide.x, guide.y, color=ink.text, lw=0.8, ls=":", transform=axes.transData))


def _label_curves(axes: Axes, panel: Panel, colours: dict[tuple[str, str], Colour], ink: Ink) -> None:
    """Write each label beside the axes, at the end of its line (or points), pushed apart where ends are close."""
    ends: dict[str, tuple[float, Colour | str]] = {}
    for guide in panel.guides:
        ends[guide.label] = (guide.height if guide.height is not None else float(guide.y[-1]), ink.text)
    curves = [(p.label, p.regime, p.mean) for p in panel.points] + [(c.label, c.regime, c.y) for c in panel.lines]
    top = axes.get_ylim()[1]
    # Densities all end at zero: their names are a list from the top.
    curves += [(h.label, h.regime, [top]) for h in panel.histograms]
    for label, regime, values in curves:
        finite = [float(v) for v in values if math.isfinite(v)]
        if label and finite and regime != SCALE:
            ends[label] = (top if panel.histograms else finite[-1], colours[regime, label])
    if not ends:
        return
    edge, inverse = axes.get_xlim()[1], axes.transAxes.inverted()
    places = {k: float(inverse.transform(axes.transData.transform((edge, y)))[1]) for k, (y, _) in ends.items()}
    order = sorted(places, key=lambda label: places[label])
    written = [filled([part for part in re.split(r"(?<=, )", label) if part], _LABEL_WIDTH) for label in order]
    heights = _spread([places[label] for label in order], [len(lines) for lines in written])
    for label, lines, height in zip(order, written, heights, strict=True):
        axes.annotate(
            "\n".join(map(to_mathtext, lines)),
            (1.0, height),
            xycoords="axes fraction",
            xytext=(6, 0),
            textcoords="offset points",
            color=ends[label][1],
            fontsize=9,
            va="center",
            annotation_clip=False,
        )


def _spread(heights: Sequence[float], lines: Sequence[int]) -> list[float]:
    """Move increasing heights as little as possible so that labels of so many lines do not touch, within the axes."""
    half = _LINE_HEIGHT * np.asarray(lines) / 2
    steps = np.cumsum([0, *(half[1:] + half[:-1])])
    moved = isotonic_regression(np.asarray(heights) - steps).x
    return list(map(float, np.clip(moved, 0, max(1 - steps[-1], 0)) + steps))


def _label_marks(axes: Axes, panel: Panel, colours: dict[tuple[str, str], Colour]) -> None:
    """Write the name of a place left of its line, each one line of text below the one before."""
    named = {mark.label: mark for mark in reversed(panel.marks) if mark.label}
    for row, mark in enumerate(sorted(named.values(), key=lambda mark: mark.x)):
        axes.annotate(
            to_mathtext(mark.label),
            (mark.x, 0.99 - _LINE_HEIGHT * 1.1 * row),
            xycoords=axes.get_xaxis_transform(),
            xytext=(-4, 0),
            textcoords="offset points",
            color=colours[mark.regime, mark.label],
            fontsize=9,
            ha="right",
            va="top",
        )
