"""Figures of the command line."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gradstep.cli.grid import Axis, Grid
from gradstep.errors import InvalidInput
from gradstep.whole_file import replace_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gradstep.comparison import Comparison
    from gradstep.overlay import Overlay
    from gradstep.problem import Problem
    from gradstep.theory import Prediction

_FORMATS = (".png", ".pdf", ".svg")
_DRAWN = ("test_error", "train_error", "alignment")
#: Most lines in one panel.
_MOST_LINES = 12


def check_plot_path(path: Path | None) -> None:
    """Raise `InvalidInput` before any work if a figure cannot be written there."""
    if path is None:
        return
    if path.suffix.lower() not in _FORMATS:
        raise InvalidInput("plot", str(path), f"a file name that ends in {', '.join(_FORMATS)}")
    if path.is_dir():
        raise InvalidInput("plot", str(path), "a file, not a directory")
    if not path.parent.is_dir():
        raise InvalidInput("plot", str(path), f"a file in a directory that exists ({path.parent} does not)")
    try:
        folder = path.resolve().parent
    except (OSError, RuntimeError):  # the working directory was deleted; a link to itself
        raise InvalidInput("plot", str(path), "a file in a directory that exists") from None
    if not os.access(folder, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise InvalidInput("plot", str(path), "a file that may be written, in a directory that may be too")


def check_drawable(path: Path | None, grid: Grid) -> None:
    """Raise `InvalidInput` before any work if a grid has more lines than a figure can show."""
    lines = len(grid.problems) // len(grid.axes[0].values) if grid.axes else 1
    if path is not None and lines > _MOST_LINES:
        raise InvalidInput(
            "plot", str(path), f"at most {_MOST_LINES} lines ({lines} combinations after the first range)"
        )


def save(figure: Figure, path: Path) -> None:
    """Write a figure in the format its name ends in, whole or not at all.

    Raises
    ------
    InvalidInput
        If the file cannot be written.
    """
    drawn = BytesIO()
    figure.savefig(drawn, dpi=150, bbox_inches="tight", format=path.suffix[1:].lower())
    try:
        replace_file(path.resolve(), drawn.getvalue())  # through a link, as plain writing would
    except OSError as error:
        raise InvalidInput("plot", str(path), f"a file that can be written ({error.strerror})") from None


def draw_predictions(grid: Grid, predictions: Sequence[Prediction]) -> Figure:
    """Draw what one network learns, or the curves of several problems."""
    if len(predictions) == 1:
        return _draw_learned_function(predictions[0])
    return _draw_curves(grid, {name: [getattr(p, name) for p in predictions] for name in _DRAWN})


def draw_comparison(grid: Grid, comparison: Comparison) -> Figure:
    """Draw measured over predicted of one problem, or the curves of several with their measurements."""
    if len(comparison.problems) == 1:
        return _draw_ratios(grid.problems[0], comparison.overlays)
    return _draw_curves(grid, {name: comparison[name].theory for name in _DRAWN}, comparison.overlays)


def _draw_curves(
    grid: Grid, theory: Mapping[str, Sequence[float]], measured: Mapping[str, Overlay] | None = None
) -> Figure:
    """Draw errors and alignment against the first range, a line for every combination of the others.

    Parameters
    ----------
    grid : Grid
        With at least one axis.
    theory : mapping
        Quantity to its values at the problems, drawn as lines.
    measured : mapping, optional
        Drawn as points with one standard error either way.
    """
    figure = _figure(4.2 * len(_DRAWN), 3.8)
    panels = figure.subplots(1, len(_DRAWN))
    axis = grid.axes[0]
    for label, members in _lines(grid).items():
        x = [grid.points[index][0] for index in members]
        for panel, quantity in zip(panels, _DRAWN, strict=True):
            (line,) = panel.plot(x, [theory[quantity][i] for i in members], label=label or "theory")
            if measured is None:
                if len(x) <= 40:
                    line.set_marker(".")
                continue
            means, errors = measured[quantity].mean[members], measured[quantity].standard_error[members]
            name = f"{label} (network)" if label else "network, one standard error"
            panel.errorbar(x, means, yerr=errors, fmt="o", markersize=4, color=line.get_color(), label=name)
    for panel, quantity in zip(panels, _DRAWN, strict=True):
        panel.set_xlabel(axis.name)
        panel.set_title(quantity.replace("_", " "))
        if axis.is_logarithmic:
            panel.set_xscale("log")
    if measured is not None or len(grid.axes) > 1:
        panels[0].legend(fontsize=7)
    _subtitle(figure, str(grid.problems[0]), grid.axes)
    return figure


def _draw_learned_function(prediction: Prediction) -> Figure:
    """Draw what the network learns along the spike, beside the mean of the teacher there."""
    curve = prediction.curve
    figure = _figure(6.4, 4.4)
    panel = figure.subplots()
    visible = abs(curve.kappa) <= 4  # beyond, one input in 16,000 falls
    panel.plot(curve.kappa[visible], curve.target[visible], "--", color="0.4", label="teacher")
    panel.plot(curve.kappa[visible], curve.learned[visible], label="trained network")
    panel.set_xlabel("projection of the input on the spike direction")
    panel.set_ylabel("mean output")
    panel.set_title(f"test error {prediction.test_error:.4g}, alignment {prediction.alignment:.3f}", fontsize=10)
    panel.legend()
    _subtitle(figure, str(prediction.problem), [])
    return figure


def _draw_ratios(problem: Problem, overlays: Mapping[str, Overlay]) -> Figure:
    """Draw measured over predicted with its standard error, one row per quantity."""
    figure = _figure(6.4, 3.6)
    panel = figure.subplots()
    shown = {name: o for name, o in overlays.items() if np.isfinite(o.relative_difference).all()}
    ratios = [float(np.ravel(o.mean / o.theory)[0]) for o in shown.values()]
    errors = [float(np.ravel(np.abs(o.standard_error / o.theory))[0]) for o in shown.values()]
    rows = range(len(shown))
    panel.axvline(1.0, color="0.4", linestyle="--", label="theory")
    panel.errorbar(ratios, rows, xerr=errors, fmt="o", label="network, one standard error")
    panel.set_yticks(list(rows), [name.replace("_", " ") for name in shown])
    panel.invert_yaxis()
    panel.set_xlabel("network / theory")
    panel.legend(fontsize=8)
    _subtitle(figure, str(problem), [])
    return figure


def _figure(width: float, height: float) -> Figure:
    # The class itself, not pyplot: no backend is chosen and no window opens.
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _lines(grid: Grid) -> dict[str, list[int]]:
    lines: dict[str, list[int]] = {}
    for index, point in enumerate(grid.points):
        others = zip(grid.axes[1:], point[1:], strict=True)
        lines.setdefault(", ".join(f"{axis.name} = {value:g}" for axis, value in others), []).append(index)
    return {label: sorted(members, key=lambda i: grid.points[i][0]) for label, members in lines.items()}


def _subtitle(figure: Figure, problem: str, axes: Sequence[Axis]) -> None:
    import textwrap

    varied = f"Varied: {', '.join(axis.name for axis in axes)}; first problem: " if axes else ""
    text: dict[str, Any] = {"fontsize": 7, "color": "0.35"}
    # A formula in the problem may hold characters that Matplotlib would read as mathematics.
    figure.suptitle("\n".join(textwrap.wrap(varied + problem, 130)).replace("$", r"\$"), **text)
