"""The figure of a diagnosis."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gradstep.picture import Picture

if TYPE_CHECKING:
    from gradstep.estimators.diagnosis import Diagnosis

__all__ = ["draw_diagnosis"]

_GREY, _BLUE, _RED, _INK = "#8a8b95", "#4c92fd", "#cc1a00", "#22252b"


def draw_diagnosis(diagnosis: Diagnosis) -> Picture:
    """Draw three panels: spectrum, function along the direction, error against the size of the step.

    Parameters
    ----------
    diagnosis : Diagnosis

    Returns
    -------
    Picture
    """
    figure = Picture(figsize=(13, 4.2), layout="constrained")
    spectrum, curve, errors = figure.subplots(1, 3)

    shown = min(30, len(diagnosis.spectrum.stepped))
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
        title=f"Spectrum: {diagnosis.spectrum.outliers} outlier(s)",
    )

    bins = diagnosis.bins
    of_what = " of one combination of outputs" if len(diagnosis.combination) > 1 else ""
    grid = np.linspace(bins.kappa[0], bins.kappa[-1], 200)
    curve.errorbar(bins.kappa, bins.target, bins.target_error, fmt="o", ms=3, color=_INK, lw=1, label="targets")
    curve.plot(grid, diagnosis.link.curve(grid), color=_BLUE, label="fitted link")
    curve.plot(bins.kappa, bins.learned, color=_RED, label="network")
    curve.set(
        xlabel="projection on the index (normal score)",
        ylabel="standardised target",
        title=f"One direction explains {1 - diagnosis.link.noise**2:.0%}{of_what}",
    )

    steps = diagnosis.steps
    deviation = np.array([steps.gain(move)[1] for move in steps.moves])
    shown_errors = np.where(np.isfinite(steps.errors), steps.errors, np.nan)  # features overflow after the others
    single = np.array([not move.rounds for move in steps.moves])
    scales = np.array(steps.scales)[single]
    errors.errorbar(scales, shown_errors[single], deviation[single], fmt="o-", ms=3, lw=1, color=_RED)
    if diagnosis.rounds:
        label = f"drawn again in {diagnosis.rounds} rounds (taken)"
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
    for axes in (spectrum, curve, errors):
        axes.spines[["top", "right"]].set_visible(False)
        if axes.get_legend_handles_labels()[0]:
            # Below the axes, where no data are.
            axes.legend(frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3, columnspacing=1.2)
    return figure
