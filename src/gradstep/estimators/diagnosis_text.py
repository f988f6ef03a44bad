"""The text of a diagnosis: a verdict, and a line for each thing that was measured."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from gradstep.estimators.step_choice import CLEARLY, FOLDS

if TYPE_CHECKING:
    from gradstep.estimators.diagnosis import Diagnosis

__all__ = ["describe", "describe_html"]

#: Gains that print as zero are none, however small the standard error (which is rounding, too, on degenerate data).
_NO_GAIN = 5e-5
#: With fewer distinct rows than this, standard errors mean nothing.
_FEW = 10
#: Characters of the names of the lines.
_NAME = 12
#: Shares of the function below which its linear part is worth a word: the step of the theory sees nothing else.
_HARDLY_LINEAR = 0.1


def describe(diagnosis: Diagnosis) -> str:
    """Write a verdict, and one line for each thing that was measured.

    Parameters
    ----------
    diagnosis : Diagnosis

    Returns
    -------
    str
    """
    steps, scale, width = diagnosis.steps, diagnosis.step_scale, diagnosis.compared_width
    fit, outputs = len(steps.weights), len(diagnosis.combination)
    split = f" ({diagnosis.rows - fit} for the step, {fit} for the readout)" if fit < diagnosis.rows else ""
    head = f"One-step diagnosis: {diagnosis.rows} rows{split}, {diagnosis.inputs} inputs, {diagnosis.width} neurons"
    if math.isnan(diagnosis.network):
        return f"{head}\n\nThe targets of these rows do not vary: there is nothing to learn."
    function, share = ("a function", "") if outputs == 1 else ("functions", f" of all {outputs} outputs")
    step = "twice the step" if scale > 0 else f"a step of scale {min(size for size in steps.scales if size > 0):g}"
    if diagnosis.rounds:
        step = "twice the rounds"
    one = outputs == 1
    less = width < diagnosis.width
    fitted = f" (the fit has {diagnosis.width})" if less else ""
    lines = [
        head,
        _advice(diagnosis),
        "",
        f"step        {_move(diagnosis)}; ridge = {diagnosis.ridge:.4g}",
        f"errors      of {width} neurons drawn anew{fitted}, after a step on {_seen(diagnosis)}; no row is scored by "
        "a fit that has seen it",
        f"gain        leave-one-out error of {width} neurons {steps.errors[0]:.4f} -> "
        f"{steps.errors[steps.moves.index(diagnosis.taken)]:.4f} "
        f"({_verdict(diagnosis, diagnosis.gain, diagnosis.gain_error)})",
        f"learned     {_learned(diagnosis)}",
        f"direction   {'networks' if diagnosis.rounds else 'steps'} on two halves of the rows agree to "
        f"{diagnosis.halves:.3f}; alignment with that on infinitely many rows {diagnosis.alignment:.3f}",
        f"one index   {function} of one direction alone explain{'s' if one else ''} {_share(diagnosis.single_index)} "
        f"of the variance{share}, the {width} neurons {_share(diagnosis.network)}; it is the direction along which "
        f"fitted networks vary most, and known to an alignment of {diagnosis.index_alignment:.3f}",
        f"spectrum    {diagnosis.spectrum.outliers} outlier(s) above a step on shuffled targets; leading share "
        f"{diagnosis.spectrum.initial[0]:.3f} -> {diagnosis.spectrum.stepped[0]:.3f}",
        *_more_rows(diagnosis),
        f"{'more rounds' if diagnosis.rounds else 'larger step'} {step}, {width} neurons: "
        f"{_verdict(diagnosis, diagnosis.larger, diagnosis.larger_error)}",
        f"more width  {width} -> {2 * width} neurons{f' (at most {width} are doubled)' if less else ''}: "
        f"{_verdict(diagnosis, diagnosis.wider, diagnosis.wider_error)}",
    ]
    return "\n".join(lines)


def describe_html(diagnosis: Diagnosis) -> str:
    """Write the same as HTML that needs no style sheet.

    Parameters
    ----------
    diagnosis : Diagnosis

    Returns
    -------
    str
    """
    top, _, rest = describe(diagnosis).partition("\n\n")
    head, *advice = map(escape, top.split("\n"))
    parts = [f"<b>{head}</b>", *(f'<div style="font-size:1.1em;margin:.4em 0">{line}</div>' for line in advice)]
    cell = '<td style="text-align:left;vertical-align:top;padding:.1em .7em;min-width:6em">'
    rows = [(line[:_NAME].strip(), line[_NAME:]) for line in rest.split("\n")]
    if advice:
        body = "".join(f"<tr>{cell}{escape(name)}</td>{cell}{escape(text)}</td></tr>" for name, text in rows)
        parts.append(f'<table style="border-collapse:collapse">{body}</table>')
    else:
        parts.append(f"<div>{escape(rest)}</div>")
    return f'<div style="max-width:60em">{"".join(parts)}</div>'


def _advice(diagnosis: Diagnosis) -> str:
    """Say in a sentence whether the step is worth it, in R^2 of rows that no fit has seen."""
    steps, gain, error = diagnosis.steps, diagnosis.gain, diagnosis.gain_error
    what, verb = ("rounds", "") if diagnosis.rounds else ("step", "s")
    after = 1 - steps.errors[steps.moves.index(diagnosis.taken)]
    if not diagnosis.rounds and diagnosis.step_scale == 0:
        return f"No step was taken: the features are random, with R^2 {after:.3f} on new rows."
    if not math.isfinite(gain):
        return f"The {what} make{verb} the features overflow: use a smaller step, or random features."
    if len(np.unique(steps.groups)) < _FEW:
        return f"There are too few rows to tell whether the {what} help{verb}."
    measured = (
        f"R^2 on new rows {1 - steps.errors[0]:.3f} -> {after:.3f}, gain {round(gain, 4) + 0.0:.4f} +- {error:.4f}"
    )
    if abs(gain) <= max(CLEARLY * error, _NO_GAIN):
        return f"The {what} make{verb} no clear difference here: {measured}; random features do as well."
    if gain < 0:
        return f"The {what} do{'es' if verb else ''} not help here: {measured}; use random features."
    return f"The {what} help{verb} here: {measured}."


def _learned(diagnosis: Diagnosis) -> str:
    learned, errors = diagnosis.learned, diagnosis.importance_errors
    shares = (
        f"{name} {part:.0%} +- {errors[learned.columns.index(name)]:.0%}" for name, part in learned.leading_columns(4)
    )
    return f"{learned.headline} ({learned.effective:.1f} effective); columns {', '.join(shares) or 'none'}"


def _move(diagnosis: Diagnosis) -> str:
    if diagnosis.rounds:
        return f"first layer drawn again in {diagnosis.rounds} rounds along the gradients of the fitted network"
    return (
        f"eta = {diagnosis.eta:.4g}, damping = {diagnosis.damping:.3g}: pre-activations changed by "
        f"{diagnosis.step_scale:.3g} times their size"
    )


def _seen(diagnosis: Diagnosis) -> str:
    """Say which rows the steps behind the errors have seen."""
    fit = len(diagnosis.steps.weights)
    if fit < diagnosis.rows:
        return f"{diagnosis.rows - fit} rows"
    parts = min(FOLDS, len(np.unique(diagnosis.steps.groups)))
    return f"{parts - 1}/{parts} of the rows"


def _more_rows(diagnosis: Diagnosis) -> list[str]:
    """Tell the learning curve; a theory beside it only if it is about the network that was fitted."""
    curve = diagnosis.curve
    own = diagnosis.theory is not None and not diagnosis.theory_note
    lines = [] if curve is None else [f"more rows   {curve.more_rows()}"]
    return [_theory(diagnosis), *lines] if own or curve is None else lines


def _theory(diagnosis: Diagnosis) -> str:
    if diagnosis.theory is None:
        return f"            ({diagnosis.theory_note})"
    before, after = diagnosis.theory.unexplained
    network = f"{diagnosis.theory_note}, not of the one fitted: " if diagnosis.theory_note else ""
    linear = diagnosis.link.linear
    sees = f"; the step of the theory sees its linear part only, {linear:.1%} of it" if linear < _HARDLY_LINEAR else ""
    return (
        f"theory      {network}isotropic data that follow this function, with these sizes, eta and ridge "
        f"{before:.4f} -> {after:.4f}{sees}"
    )


def _share(explained: float) -> str:
    return f"{explained:.1%}" if explained >= 0.0005 else "none"


def _verdict(diagnosis: Diagnosis, gain: float, error: float) -> str:
    if not math.isfinite(gain):
        return "features overflow"
    if len(np.unique(diagnosis.steps.groups)) < _FEW:
        verdict = "too few rows to tell"
    elif abs(gain) <= max(CLEARLY * error, _NO_GAIN):
        verdict = "makes no clear difference"
    else:
        verdict = "pays" if gain > 0 else "hurts"
    return f"gain {round(gain, 4) + 0.0:.4f} +- {error:.4f}, {verdict}"  # no -0.0000
