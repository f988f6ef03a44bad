"""The figure that a result's ``plot()`` returns: a notebook shows it once, and pyplot knows it where it is in use.

Where a result is drawn in axes that are given, it is the figure of these.
"""

from __future__ import annotations

import sys
from io import BytesIO
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gradstep.errors import InvalidInput

__all__ = ["Picture", "given_axes", "offer", "side_by_side"]

#: Dots per inch of a picture in a notebook that does not use pyplot.
_SCREEN = 110


class Picture(Figure):
    """A Matplotlib figure that a notebook shows once, whether pyplot knows it or not."""

    _shown = False

    def _repr_png_(self) -> bytes:
        drawn = BytesIO()
        self.savefig(drawn, format="png", dpi=_SCREEN, bbox_inches="tight")
        return drawn.getvalue()

    def _ipython_display_(self) -> None:
        """Show nothing if the cell has shown this picture already.

        A notebook shows the value of a cell and then, when the cell has ended, all figures that are open in pyplot. The
        second of the two is left out here. Raises `NotImplementedError`: this asks IPython to show the picture in the
        format that its settings name.
        """
        again = self._shown and _is_open(self)
        self._shown = not again and _is_open(self)
        if not again:
            raise NotImplementedError


def given_axes(ax: Any, count: int) -> tuple[Figure, list[Axes]]:
    """Return axes that were given for so many panels, as single axes or an array, and their figure.

    Raises `InvalidInput` if they are no axes, or another number.
    """
    axes = list(np.ravel(np.asarray(ax, dtype=object)))
    if len(axes) != count or not all(isinstance(each, Axes) for each in axes):
        allowed = f"{count} of Matplotlib's axes: the figure has {count} panel{'s' * (count > 1)}"
        raise InvalidInput("ax", ax, allowed)
    return axes[0].figure.figure, axes  # axes may be in a part of their figure


def side_by_side(count: int, size: tuple[float, float], ax: Any) -> tuple[Figure, list[Axes]]:
    """Return a figure with axes for so many panels: those given, or without any a picture of a size in inches."""
    if ax is not None:
        return given_axes(ax, count)
    picture = Picture(figsize=size, layout="constrained")
    return picture, list(picture.subplots(1, count, squeeze=False).ravel())


def offer(figure: Figure) -> Figure:
    """Return a finished figure after making it the current one of pyplot, if it is a new picture and pyplot is in use.

    It is in use where it has been imported, and in a notebook, which shows the figures of pyplot at the end of a cell.
    Elsewhere a script that never asks for pyplot gets neither windows nor figures that stay open. A figure whose axes
    were given stays as it is.
    """
    if not isinstance(figure, Picture) or figure.canvas.manager is not None:
        return figure
    if "ipykernel" in sys.modules:
        import matplotlib.pyplot  # noqa: F401
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        # Pyplot makes the figures that it manages by calling a class; this "class" gives it the one that is there.
        pyplot.figure(FigureClass=lambda **_: figure)
    return figure


def _is_open(picture: Picture) -> bool:
    """Return whether a notebook will show a picture as one of those open in pyplot when the cell has ended."""
    pyplot: Any = sys.modules.get("matplotlib.pyplot")
    manager = picture.canvas.manager
    if pyplot is None or manager is None or not pyplot.fignum_exists(manager.num):
        return False
    if not pyplot.isinteractive() or not pyplot.get_backend().endswith("inline"):
        return False
    # Another figure may have the number since this one was closed.
    current = pyplot.gcf()
    found = pyplot.figure(manager.num) is picture
    pyplot.figure(current.number)
    return bool(found)
