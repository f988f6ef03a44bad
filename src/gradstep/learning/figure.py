"""The figure of a learning curve."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.ticker import NullLocator
from numpy.typing import NDArray

from gradstep.picture import side_by_side

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from gradstep.learning.curve import LearningCurve

__all__ = ["draw_against_penalty", "draw_learning_curve"]

Numbers = NDArray[Any]

_GREY, _BLUE, _RED = "#8a8b95", "#4c92fd", "#cc1a00"
#: Numbers of samples of which the right panel draws the errors against the penalty.
_SHOWN = 5


def draw_learning_curve(curve: LearningCurve, ax: Any) -> Figure:
    """Draw the best test error against the number of samples and, if there are several, errors against the penalty."""
    several = len(curve.ridge) > 1
    figure, (left, *more) = side_by_side(1 + several, (9.6, 3.6) if several else (5, 3.6), ax)
    low, high = curve.interval()
    order = np.argsort(curve.n)
    n, best, place = curve.n[order], curve.best[order], np.arange(len(curve.n))[order]
    left.fill_between(n, low[place, best], high[place, best], color=_RED, alpha=0.2, lw=0, label="95 % band")
    left.plot(n, curve.test_error[place, best], "o-", ms=3, color=_RED, label="test")
    left.plot(n, curve.training_error[place, best], "o-", ms=3, color=_BLUE, label="training")
    if n[-1] > curve.rows:
        left.axvline(curve.rows, color=_GREY, ls=":", lw=1)
        left.text(curve.rows, 0.02, " rows at hand", color=_GREY, transform=left.get_xaxis_transform())
    title = "Best penalty at each n" if several else f"ridge = {curve.ridge[0]:.4g}"
    left.set(xscale="log", xlabel="training rows n", ylabel="mean squared error", title=title)
    ticks = np.unique([n[0], n[-1], *n[(n == curve.rows) | (n == 2 * curve.rows)]])
    left.set_xticks(ticks, [f"{place:g}" for place in ticks])
    left.xaxis.set_minor_locator(NullLocator())
    left.legend(frameon=False)
    for axes in more:
        draw_against_penalty(axes, curve.n, curve.ridge, curve.test_error, curve.best, "n = {}", _RED, _SHOWN)
        axes.set(yscale="log", xlabel="ridge", ylabel="test error", title="Test error at each penalty")
    for axes in (left, *more):
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def draw_against_penalty(
    axes: Axes, n: Numbers, ridge: Numbers, values: Numbers, best: Numbers, label: str, color: str, most: int
) -> None:
    """Draw values (A, B) of at most so many sizes n (A,) against the penalty (B,), with a dot at the best (A,) of each.

    In the label {} stands for the size; the colour is that of the dots.
    """
    order, ridges = np.argsort(n), np.argsort(ridge)
    for place in np.unique(np.linspace(0, len(order) - 1, most).round().astype(int)):
        row = order[place]
        shade = str(0.75 - 0.75 * place / max(len(order) - 1, 1))
        axes.plot(ridge[ridges], values[row, ridges], color=shade, label=label.format(n[row]))
        axes.plot(ridge[best[row]], values[row, best[row]], "o", ms=4, color=color)
    axes.set_xscale("log")
    axes.legend(frameon=False)
