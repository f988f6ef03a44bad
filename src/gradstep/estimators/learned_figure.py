"""The figures of what a network has learned."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gradstep.picture import Picture

if TYPE_CHECKING:
    from gradstep.estimators.learned import Learned, LearnedLink

__all__ = ["draw_learned", "draw_link"]

_BLUE, _RED, _INK = "#4c92fd", "#cc1a00", "#22252b"
_SHOWN = 15
#: Places for directions, at least.
_FEW = 5


def draw_learned(learned: Learned) -> Picture:
    """Draw the importances of the columns, and the shares of the directions.

    Parameters
    ----------
    learned : Learned

    Returns
    -------
    Picture
    """
    importances = learned.importances
    order = np.argsort(-importances, kind="stable")[:_SHOWN][::-1]
    figure = Picture(figsize=(9, 1.6 + 0.24 * len(order)), layout="constrained")
    columns, directions = figure.subplots(1, 2)
    columns.barh([learned.columns[k] for k in order], importances[order], color=_BLUE)
    columns.set(xlabel="share of the mean squared gradient", title="Columns")
    directions.bar(np.arange(len(learned.shares)), learned.shares, color=_RED)
    directions.set(xlabel="direction", ylabel="share", title=f"Directions: {learned.effective:.1f} effective")
    # A single bar as wide as one of several.
    directions.set_xlim(-0.6, max(len(learned.shares), _FEW) - 0.4)
    directions.xaxis.get_major_locator().set_params(integer=True)
    for axes in (columns, directions):
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def draw_link(link: LearnedLink) -> Picture:
    """Draw the targets and the network along one direction.

    Parameters
    ----------
    link : LearnedLink

    Returns
    -------
    Picture
    """
    figure = Picture(figsize=(5.5, 3.8), layout="constrained")
    axes, bins = figure.subplots(), link.bins
    axes.errorbar(bins.kappa, bins.target, bins.target_error, fmt="o", ms=3, color=_INK, lw=1, label="targets")
    axes.plot(bins.kappa, bins.learned, color=_RED, label="network")
    axes.set(
        xlabel=link.label,
        ylabel=f"{link.target}, standardised",
        title=f"Alone it explains {max(link.explained, 0):.0%}",
    )
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return figure
