"""The figure of learning curves in R^2, of one model or of several on the same rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.ticker import NullLocator

from gradstep.picture import Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from gradstep.estimators.score_curve import ScoreCurve

__all__ = ["draw_scores"]

_COLOURS = ("#d6453d", "#2f80d0", "#7f7f8c")
_GREY = "#7f7f8c"
#: Numbers of rows of which the right panel draws the score against the penalty.
_SHOWN = 4


def draw_scores(curves: Mapping[str, ScoreCurve]) -> Picture:
    """Draw R^2 at the best penalty against the number of rows and, for one model, against the penalty.

    Parameters
    ----------
    curves : mapping of name to ScoreCurve
        At most three models, on the same rows.

    Returns
    -------
    Picture
    """
    several = len(curves) == 1 and all(len(curve.ridge) > 1 for curve in curves.values())
    figure = Picture(figsize=(9.6, 3.8) if several else (6.0, 4.0), layout="constrained")
    left, *right = np.atleast_1d(figure.subplots(1, 1 + several))
    for (name, curve), colour in zip(curves.items(), _COLOURS, strict=False):
        _draw_against_rows(left, name, curve, colour)
    curve = next(iter(curves.values()))
    of = " of the codes" if curve.classes else ""
    left.set(xscale="log", xlabel="rows", ylabel=f"$R^2$ of new rows{of}, best penalty")
    ticks = np.unique([curve.n.min(), *curve.n[(curve.n == curve.rows) | (curve.n == 2 * curve.rows)]])
    left.set_xticks(ticks, [f"{n}" for n in ticks])
    left.xaxis.set_minor_locator(NullLocator())
    if curve.n.max() > curve.rows:
        left.axvline(curve.rows, color=_GREY, ls=":", lw=1)
        left.text(curve.rows, 0.02, "rows there are ", color=_GREY, ha="right", transform=left.get_xaxis_transform())
    if len(curves) > 1:
        left.legend(frameon=False)
    for axes in right:
        _draw_against_penalty(axes, curve)
    for axes in (left, *right):
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def _draw_against_rows(axes: Axes, name: str, curve: ScoreCurve, colour: str) -> None:
    order = np.argsort(curve.n)
    n = curve.n[order]
    scores = [curve.at(int(size)) for size in n]
    value, error = (np.array([getattr(score, part) for score in scores]) for part in ("value", "standard_error"))
    axes.fill_between(n, value - 1.96 * error, value + 1.96 * error, color=colour, alpha=0.15, lw=0)
    known = n <= curve.rows
    axes.plot(n[known], value[known], "o-", ms=4, color=colour, label=name or None)
    joined = n >= n[known].max() if known.any() else ~known
    axes.plot(n[joined], value[joined], "--", color=colour)
    axes.plot(n[~known], value[~known], "o", ms=4, color=colour, mfc="white")
    if not name and n[-1] == 2 * curve.rows and np.isfinite(value[-1]):
        note = f"with twice the rows: $R^2$ {scores[-1]}".replace("+-", "±")
        axes.set_title(note, color=colour, loc="right", fontsize=11)


def _draw_against_penalty(axes: Axes, curve: ScoreCurve) -> None:
    order, penalties = np.argsort(curve.n), np.argsort(curve.ridge)
    shown = np.unique(np.linspace(0, len(order) - 1, _SHOWN).round().astype(int))
    for place in shown:
        row = order[place]
        shade = str(0.75 - 0.75 * place / max(len(order) - 1, 1))
        axes.plot(curve.ridge[penalties], curve.r2[row, penalties], color=shade, label=f"{curve.n[row]} rows")
        axes.plot(curve.best_ridge[row], curve.r2[row, curve.best[row]], "o", ms=4, color=_COLOURS[0])
    axes.axvline(curve.chosen, color=_GREY, ls=":", lw=1)
    axes.text(curve.chosen, 0.02, " of the fit", color=_GREY, transform=axes.get_xaxis_transform())
    axes.set(xscale="log", xlabel="penalty", ylabel="$R^2$ of new rows")
    axes.legend(frameon=False)
