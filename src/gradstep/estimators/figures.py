"""The figures: a diagnosis, what a network has learned, learning curves in R^2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.ticker import MaxNLocator, NullLocator

from gradstep.learning.figure import draw_against_penalty
from gradstep.picture import side_by_side

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from gradstep.estimators.diagnosis import Diagnosis
    from gradstep.estimators.learned import Learned, LearnedLink
    from gradstep.estimators.link import Bins
    from gradstep.estimators.score_curve import ScoreCurve

__all__ = ["draw_diagnosis", "draw_learned", "draw_link", "draw_scores"]

_GREY, _BLUE, _RED, _INK = "#8a8b95", "#4c92fd", "#cc1a00", "#22252b"
#: Colours of models on the same rows, at most three; lines that only guide the eye have the last of them, too.
_MODELS = ("#d6453d", "#2f80d0", "#7f7f8c")
#: Columns and eigenvalues shown at most, and places for directions at least.
_COLUMNS, _EIGENVALUES, _DIRECTIONS = 15, 30, 5
#: Numbers of rows of which the score is drawn against the penalty.
_SIZES = 4


def _bare(*axes: Axes) -> None:
    """Take away the upper and the right line of axes."""
    for one in axes:
        one.spines[["top", "right"]].set_visible(False)


def _draw_along(axes: Axes, bins: Bins) -> None:
    """Draw the targets and the network along a direction."""
    axes.errorbar(bins.kappa, bins.target, bins.target_error, fmt="o", ms=3, color=_INK, lw=1, label="targets")
    axes.plot(bins.kappa, bins.learned, color=_RED, label="network")


def draw_diagnosis(diagnosis: Diagnosis, ax: Any) -> Figure:
    """Draw three panels: spectrum, function along the direction, error against the size of the step."""
    figure, (spectrum, curve, errors) = side_by_side(3, (13, 4.2), ax)

    shown, outliers = min(_EIGENVALUES, len(diagnosis.spectrum.stepped)), diagnosis.spectrum.outliers
    rank = np.arange(1, shown + 1)
    for values, label, colour in (
        (diagnosis.spectrum.initial, "initial", _GREY),
        (diagnosis.spectrum.shuffled, "step on shuffled targets", _BLUE),
        (diagnosis.spectrum.stepped, "step", _RED),
    ):
        spectrum.semilogy(rank, np.maximum(values[:shown], 1e-16), "o-", ms=3, lw=1, color=colour, label=label)
    spectrum.set(
        xlabel="rank",
        ylabel="share of the features' variance",
        title=f"Spectrum: {outliers} outlier{'s' * (outliers != 1)}",
    )

    bins = diagnosis.bins
    of_what = "\nof one combination of outputs" if len(diagnosis.combination) > 1 else ""
    grid = np.linspace(bins.kappa[0], bins.kappa[-1], 200)
    _draw_along(curve, bins)
    curve.plot(grid, diagnosis.link.curve(grid), color=_BLUE, label="fitted link")
    curve.set(
        xlabel="projection on the index (normal score)",
        ylabel="standardised target",
        title=f"One direction explains {max(1 - diagnosis.link.noise**2, 0):.0%}{of_what}",
    )

    steps = diagnosis.steps
    deviation = np.array([steps.gain(move)[1] for move in steps.moves])
    shown_errors = np.where(np.isfinite(steps.errors), steps.errors, np.nan)  # features overflow after the others
    single = np.array([not move.rounds for move in steps.moves])
    scales = np.array(steps.scales)[single]
    errors.errorbar(scales, shown_errors[single], deviation[single], fmt="o-", ms=3, lw=1, color=_RED)
    if diagnosis.rounds:
        label = f"drawn again in {diagnosis.rounds} round{'s' * (diagnosis.rounds != 1)} (taken)"
        errors.axhline(shown_errors[steps.moves.index(diagnosis.taken)], color=_INK, ls=":", lw=1, label=label)
    else:
        errors.axvline(diagnosis.step_scale, color=_GREY, ls=":", lw=1)
        errors.text(diagnosis.step_scale, 0.97, " taken", color=_GREY, va="top", transform=errors.get_xaxis_transform())
    if diagnosis.theory is not None:
        network = "theory of a plain network" if diagnosis.theory_note else "theory"
        for value, step, colour in zip(diagnosis.theory.unexplained, ("no", "this"), (_GREY, _BLUE), strict=True):
            errors.axhline(value, color=colour, ls="--", lw=1, label=f"{network}, {step} step")
    errors.set(
        xlabel="change of the pre-activations / their size",
        ylabel="leave-one-out error / variance",
        title=f"Size of the step ({diagnosis.compared_width} neurons)",
    )
    _bare(spectrum, curve, errors)
    for axes in (spectrum, curve, errors):
        if axes.get_legend_handles_labels()[0]:
            # Below the axes, where no data are.
            axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3, columnspacing=1.2)
    return figure


def draw_learned(learned: Learned, ax: Any) -> Figure:
    """Draw the importances of the columns, and the shares of the directions."""
    importances = learned.importances
    order = np.argsort(-importances, kind="stable")[:_COLUMNS][::-1]
    figure, (columns, directions) = side_by_side(2, (9, 1.6 + 0.24 * len(order)), ax)
    columns.barh([learned.columns[k] for k in order], importances[order], color=_BLUE)
    columns.set(xlabel="share of the mean squared gradient", title="Columns")
    directions.bar(np.arange(len(learned.shares)), learned.shares, color=_RED)
    directions.set(xlabel="direction", ylabel="share", title=f"Directions: {learned.effective:.1f} effective")
    # A single bar as wide as one of several.
    directions.set_xlim(-0.6, max(len(learned.shares), _DIRECTIONS) - 0.4)
    directions.xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 2.5, 5, 10], integer=True))
    _bare(columns, directions)
    return figure


def draw_link(link: LearnedLink, ax: Any) -> Figure:
    """Draw the targets and the network along one direction."""
    figure, (axes,) = side_by_side(1, (5.5, 3.8), ax)
    _draw_along(axes, link.bins)
    axes.set(
        xlabel=link.label,
        ylabel=f"{link.target}, standardised",
        title=f"Alone it explains {max(link.explained, 0):.0%}",
    )
    axes.legend(frameon=False)
    _bare(axes)
    return figure


def draw_scores(curves: Mapping[str, ScoreCurve], ax: Any = None) -> Figure:
    """Draw R^2 at the best penalty against the number of rows and, for one model, against the penalty."""
    several = len(curves) == 1 and all(len(curve.ridge) > 1 for curve in curves.values())
    figure, (left, *right) = side_by_side(1 + several, (9.6, 3.8) if several else (6.0, 4.0), ax)
    for (name, curve), colour in zip(curves.items(), _MODELS, strict=False):
        _draw_against_rows(left, name, curve, colour)
    curve = next(iter(curves.values()))
    of = " of the codes" if curve.classes else ""
    left.set(xscale="log", xlabel="rows", ylabel=f"$R^2$ of new rows{of}, best penalty")
    ticks = np.unique([curve.n.min(), *curve.n[(curve.n == curve.rows) | (curve.n == 2 * curve.rows)]])
    left.set_xticks(ticks, [f"{n}" for n in ticks])
    left.xaxis.set_minor_locator(NullLocator())
    if curve.n.max() > curve.rows:
        left.axvline(curve.rows, color=_MODELS[-1], ls=":", lw=1)
        left.text(
            curve.rows, 0.02, "rows at hand ", color=_MODELS[-1], ha="right", transform=left.get_xaxis_transform()
        )
    if len(curves) > 1:
        left.legend(frameon=False)
    for axes in right:
        draw_against_penalty(axes, curve.n, curve.ridge, curve.r2, curve.best, "{} rows", _MODELS[0], _SIZES)
        axes.axvline(curve.chosen, color=_MODELS[-1], ls=":", lw=1)
        axes.text(curve.chosen, 0.02, " of the fit", color=_MODELS[-1], transform=axes.get_xaxis_transform())
        axes.set(xlabel="penalty", ylabel="$R^2$ of new rows")
    _bare(left, *right)
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
