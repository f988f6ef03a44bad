"""Pictures made while the docs are built: one style, each saved for light and for dark pages.

Scripts and pages draw with plain Matplotlib and say nothing about looks; the style is set here. The colours are those
of `gradstep.drawing`, one hue a regime, so that a page, a script of the gallery and a figure of a paper agree:
``C0`` is a large step, ``C1`` a small one, ``C2`` the steps between, ``C3`` no step, ``C4`` and ``C5`` what else is
compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from shutil import copyfile
from typing import Any

import matplotlib as mpl
from cycler import cycler
from matplotlib import pyplot as plt
from matplotlib.artist import Artist
from matplotlib.colors import to_hex, to_rgba
from matplotlib.figure import Figure
from sphinx.application import Sphinx

from gradstep.drawing import DARK, HUES, LIGHT

#: Ink of light pages to that of dark ones.
_INK = {to_hex(LIGHT.text): DARK.text, to_hex(LIGHT.grid): DARK.grid}

STYLE: dict[str, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": LIGHT.text,
    "axes.facecolor": "none",
    "axes.formatter.min_exponent": 4,  # 0.01, 1 and 300 rather than powers of ten
    "axes.grid": True,
    "axes.labelcolor": LIGHT.text,
    "axes.prop_cycle": cycler(color=[HUES[k] for k in ("large", "small", "between", "initial", "infinite", "few")]),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10.5,
    "errorbar.capsize": 2.5,
    "figure.constrained_layout.use": True,
    "figure.facecolor": "none",
    "figure.figsize": (7.0, 4.0),
    "font.size": 10,
    "grid.color": LIGHT.grid,
    "grid.linewidth": 0.6,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "lines.linewidth": 2.0,
    "lines.markersize": 4.5,
    "svg.fonttype": "path",
    "text.color": LIGHT.text,
    "xtick.color": LIGHT.text,
    "ytick.color": LIGHT.text,
}


def set_style() -> None:
    """Make the style that of everything drawn from now on."""
    mpl.use("agg")
    mpl.rcParams.update(STYLE)


def save(figure: Figure, path: Path) -> tuple[Path, Path]:
    """Write a figure as SVG twice and return both paths: in ink for light pages and, beside it, for dark ones."""
    dark = path.with_name(f"{path.stem}_dark.svg")
    figure.patch.set_alpha(0)
    for name in (path, dark):
        if name is dark:
            _darken(figure)
        # A fixed salt keeps the file the same from run to run.
        with mpl.rc_context({"svg.hashsalt": name.stem, "svg.fonttype": "path"}):
            figure.savefig(name, format="svg", bbox_inches="tight", metadata={"Date": None, "Creator": None})
    return path, dark


def described(figure: Figure) -> str:
    """Return what a reader who cannot see a figure should know is drawn."""
    panels = []
    for axes in figure.axes:
        names = [text for text in axes.get_legend_handles_labels()[1] if not text.startswith("_")]
        title = axes.get_title(loc="left") or axes.get_title()
        parts = [title] if title else []
        if axes.get_xlabel() and axes.get_ylabel():
            parts.append(f"{axes.get_ylabel()} against {axes.get_xlabel()}")
        if names:
            parts.append(", ".join(names))
        if parts:
            panels.append(": ".join(parts))
    return "; ".join(panels).replace("\n", " ").replace("$", "").replace("\\", "") or "figure"


def frame(figure: Figure) -> str:
    """Return the classes of what a figure stands in; on a narrow screen one of several panels side by side scrolls."""
    width, height = figure.get_size_inches()
    return "picture wide" if width > 2.3 * height else "picture"


def drawn(last: object) -> list[Figure]:
    """Return the figures open in pyplot, and the value of a last expression if it is one or several."""
    figures = [plt.figure(number) for number in plt.get_fignums()]
    more = last if isinstance(last, (list, tuple)) else [last]
    return figures + [item for item in more if isinstance(item, Figure) and item not in figures]


def scrape(block: object, block_vars: Mapping[str, Any], gallery_conf: Mapping[str, Any]) -> str:
    """Take the figures of a block of a gallery's script: a scraper of sphinx-gallery."""
    lines, names = [], block_vars["example_globals"]
    # The gallery keeps the value of a block's last expression under this name.
    figures = drawn(names.get("___"))
    for figure in figures:
        path = Path(next(block_vars["image_path_iterator"])).with_suffix(".svg")
        if len(figure.axes) > 1 and path.stem.endswith("_001"):
            _save_first_panel(figure, path.with_name(path.name.replace("_001", "_panel")))
        light, dark = save(figure, path)
        for path, when in ((light, "only-light"), (dark, "only-dark")):
            place = "/" + path.relative_to(gallery_conf["src_dir"]).as_posix()
            lines += [f".. container:: {frame(figure)}", "", f"   .. image:: {place}"]
            lines += [f"      :alt: {described(figure)}", f"      :class: {when}", ""]
    plt.close("all")
    if figures:
        names["___"] = None
    return "\n".join(lines)


def _save_first_panel(figure: Figure, path: Path) -> None:
    """Write the first panel of several by itself: at the size of a thumbnail all of them cannot be read."""
    figure.canvas.draw()
    box = figure.axes[0].get_tightbbox().padded(6).transformed(figure.dpi_scale_trans.inverted())
    # Saving would lay the figure out again, elsewhere than where the box was measured.
    layout = figure.get_layout_engine()
    figure.set_layout_engine("none")
    with mpl.rc_context({"svg.hashsalt": path.stem, "svg.fonttype": "path"}):
        figure.savefig(path, format="svg", bbox_inches=box, metadata={"Date": None, "Creator": None})
    figure.set_layout_engine(layout)


def use_first_panels(app: Sphinx) -> None:
    """Put first panels in the place of the thumbnails that the gallery has made of whole figures."""
    for panel in Path(app.srcdir, "gallery").glob("*/images/*_panel.svg"):
        copyfile(panel, panel.parent / "thumb" / panel.name.replace("_panel", "_thumb"))


def setup(app: Sphinx) -> dict[str, bool]:
    """Have the thumbnails replaced once the gallery is there."""
    app.connect("builder-inited", use_first_panels, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def reset(gallery_conf: Mapping[str, Any], script: str) -> None:
    """Set the style before each script of a gallery: a reset function of sphinx-gallery."""
    set_style()


class Order:
    """Order of the scripts of a gallery: those named here as they are named, then the others by name."""

    FIRST = ("plot_learning_curve.py", "plot_step_exponent.py", "plot_learned_function.py", "plot_feature_spectrum.py")

    def __init__(self, folder: str) -> None:
        pass

    def __call__(self, name: str) -> tuple[int, str]:
        return (self.FIRST.index(name) if name in self.FIRST else len(self.FIRST)), name


def _darken(figure: Figure) -> None:
    for artist in _everything(figure):
        for name in ("color", "facecolor", "edgecolor", "markeredgecolor", "markerfacecolor"):
            get, put = getattr(artist, f"get_{name}", None), getattr(artist, f"set_{name}", None)
            if get is None or put is None:
                continue
            colour = get()
            try:
                rgba = to_rgba(colour)
            except (TypeError, ValueError):
                if len(colour) != 1:  # a collection of several colours is data
                    continue
                rgba = to_rgba(colour[0])
            if to_hex(rgba) in _INK and rgba[3] > 0:
                put((*to_rgba(_INK[to_hex(rgba)])[:3], rgba[3]))


def _everything(figure: Figure) -> Iterator[Artist]:
    yield from figure.findobj()
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            # Ticks are made anew when drawn: their parameters have to change with them.
            axis.set_tick_params(which="both", colors=DARK.text, grid_color=DARK.grid)
