"""The figure that a result's ``plot()`` returns: a notebook shows it once, and pyplot knows it where it is in use."""

from __future__ import annotations

import sys
from io import BytesIO
from typing import Any

from matplotlib.figure import Figure

__all__ = ["Picture", "offer"]

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


def offer(picture: Picture) -> Picture:
    """Return a finished picture after making it the current figure of pyplot, if pyplot is in use.

    It is in use where it has been imported, and in a notebook, which shows the figures of pyplot at the end of a cell.
    Elsewhere a script that never asks for pyplot gets neither windows nor figures that stay open.
    """
    if "ipykernel" in sys.modules:
        import matplotlib.pyplot  # noqa: F401
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        # Pyplot makes the figures that it manages by calling a class; this "class" gives it the one that is there.
        pyplot.figure(FigureClass=lambda **_: picture)
    return picture


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
