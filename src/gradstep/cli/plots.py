"""Files of figures: checked before any work, written whole or not at all."""

from __future__ import annotations

import os
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from gradstep.cli.output import print_lines
from gradstep.errors import InvalidInput
from gradstep.whole_file import replace_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gradstep.grid import Grid

_FORMATS = (".png", ".pdf", ".svg")


def check_plot_path(path: Path | None, grid: Grid | None = None) -> None:
    """Raise `InvalidInput` before any work if a figure cannot be written there, or cannot show so many curves."""
    if path is None:
        return
    if grid is not None:
        from gradstep.curve_figure import check_drawable

        check_drawable(grid)
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


def save(figure: Figure, path: Path) -> None:
    """Write a figure in the format its name ends in, whole or not at all.

    Raises `InvalidInput` if the file cannot be written.
    """
    drawn = BytesIO()
    figure.savefig(drawn, dpi=150, bbox_inches="tight", format=path.suffix[1:].lower())
    try:
        replace_file(path.resolve(), drawn.getvalue())  # through a link, as plain writing would
    except OSError as error:
        raise InvalidInput("plot", str(path), f"a file that can be written ({error.strerror})") from None


def attempt(figure: Figure, path: Path) -> InvalidInput | None:
    """Write a figure as `save` does, and return what kept it from being written: results are to be printed first."""
    try:
        save(figure, path)
    except InvalidInput as error:
        return error
    return None


def conclude(path: Path | None, failure: InvalidInput | None, *, silent: bool = False) -> None:
    """End a command whose results are printed: say where the figure is, unless `silent`.

    Raises what `attempt` has found.
    """
    if failure is not None:
        raise failure
    if path is not None and not silent:
        print_lines(f"figure: {path}")
