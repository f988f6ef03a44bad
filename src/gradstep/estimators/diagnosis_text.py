"""The text of a diagnosis: a verdict, and a paragraph for each thing that was measured."""

from __future__ import annotations

import math
from html import escape
from typing import NamedTuple

import numpy as np

from gradstep.estimators.comparison import Gains
from gradstep.estimators.diagnosis import Diagnosis
from gradstep.estimators.moves import ROUNDS
from gradstep.estimators.rows import FOLDS
from gradstep.estimators.step_choice import CLEARLY
from gradstep.summary import wrapped

__all__ = ["describe", "describe_html"]

#: Gains that print as zero are none, however small the standard error (which is rounding, too, on degenerate data).
_NO_GAIN = 5e-5
#: With fewer distinct rows than this, standard errors mean nothing.
_FEW = 10
#: Characters of the names of the lines.
_NAME = 12
#: Shares of the function below which its linear part is worth a word: the step of the theory sees nothing else.
_HARDLY_LINEAR = 0.1


class _Told(NamedTuple):
    """The parts of the text: a head line, the verdict, and rows of a name and a text."""

    head: str
    advice: str
    rows: list[tuple[str, str]]


def describe(diagnosis: Diagnosis) -> str:
    """Write a verdict, and a paragraph for each thing that was measured, in lines of at most 80 characters."""
    told = _told(diagnosis)
    lines = [*wrapped(told.head), *wrapped(told.advice), ""]
    for name, text in told.rows:
        lines += wrapped(f"{name:{_NAME}}{text}", indent=_NAME)
    return "\n".join(lines).rstrip()


def describe_html(diagnosis: Diagnosis) -> str:
    """Write the same as HTML that needs no style sheet; arguments as in `describe`."""
    told = _told(diagnosis)
    style = "text-align:left;vertical-align:top;padding:.1em .7em"
    first, second = f'<td style="{style};white-space:nowrap">', f'<td style="{style}">'
    body = "".join(f"<tr>{first}{escape(name)}</td>{second}{escape(text)}</td></tr>" for name, text in told.rows)
    table = f'<table style="border-collapse:collapse">{body}</table>' if body else ""
    advice = f'<div style="font-size:1.1em;margin:.4em 0">{escape(told.advice)}</div>'
    return f'<div style="max-width:60em"><b>{escape(told.head)}</b>{advice}{table}</div>'


def _told(diagnosis: Diagnosis) -> _Told:
    steps, scale, width = diagnosis.steps, diagnosis.step_scale, diagnosis.compared_width
    scored = _scored(diagnosis)[1]
    fit, outputs = len(steps.weights), len(diagnosis.combination)
    split = f" ({diagnosis.rows - fit} for the step, {fit} for the readout)" if fit < diagnosis.rows else ""
    outliers = diagnosis.spectrum.outliers
    inputs = f"{diagnosis.inputs} input{'s' * (diagnosis.inputs != 1)}"
    head = f"One-step diagnosis: {diagnosis.rows} rows{split}, {inputs}, {diagnosis.width} neurons"
    if math.isnan(diagnosis.network):
        return _Told(head, "The targets of these rows do not vary: there is nothing to learn.", [])
    function = "a function" if outputs == 1 else "functions"
    what = "codes" if diagnosis.accuracy else "outputs"
    share = f" of all {outputs} {what}" if outputs > 1 else " of the code" if diagnosis.accuracy else ""
    step = "twice the step" if scale > 0 else f"a step of scale {min(size for size in steps.scales if size > 0):g}"
    if diagnosis.rounds:
        step = "twice the rounds"
    one = outputs == 1
    less = width < diagnosis.width
    fitted = f" (the fit has {diagnosis.width})" if less else ""
    rows = [
        ("step", f"{_move(diagnosis)}; ridge = {diagnosis.ridge:.4g}"),
        (
            "errors",
            f"of {width} neurons drawn anew{fitted}, after a step on {_seen(diagnosis)}; no row is scored by a fit "
            "that has seen it",
        ),
        ("gain", _gain(diagnosis)),
        ("learned", _learned(diagnosis)),
        (
            "direction",
            f"{'networks' if diagnosis.rounds else 'steps'} on two halves of the rows agree to {diagnosis.halves:.3f}; "
            f"alignment with that on infinitely many rows {diagnosis.alignment:.3f}",
        ),
        (
            "one index",
            f"{function} of one direction alone explain{'s' if one else ''} {_share(diagnosis.single_index)} "
            f"of the variance{share}, the {width} neurons {_share(diagnosis.network)}; it is the direction along which "
            f"fitted networks vary most, and known to an alignment of {diagnosis.index_alignment:.3f}",
        ),
        (
            "spectrum",
            f"{outliers} outlier{'s' * (outliers != 1)} above a step on shuffled targets; leading share "
            f"{diagnosis.spectrum.initial[0]:.3f} -> {diagnosis.spectrum.stepped[0]:.3f}",
        ),
        *_more_rows(diagnosis),
        (
            "more rounds" if diagnosis.rounds else "larger step",
            f"none: the rounds ended by themselves after {diagnosis.rounds}"
            if 0 < diagnosis.rounds < ROUNDS
            else f"{step}, {width} neurons: {_verdict(diagnosis, scored.larger, scored.larger_error)}",
        ),
        (
            "more width",
            f"{width} -> {2 * width} neurons{f' (at most {width} are doubled)' if less else ''}: "
            f"{_verdict(diagnosis, scored.wider, scored.wider_error)}",
        ),
    ]
    return _Told(head, _advice(diagnosis), rows)


def _scored(diagnosis: Diagnosis) -> tuple[str, Gains]:
    """Return what people score by, with its values and gains: the accuracy of a classifier, R^2 of a regressor."""
    return ("accuracy", diagnosis.accuracy) if diagnosis.accuracy else ("R^2", diagnosis)


def _gain(diagnosis: Diagnosis) -> str:
    """Tell the gain once more: of a classifier in accuracy and in R^2 of its codes, of a regressor in its error."""
    width, found = diagnosis.compared_width, diagnosis.accuracy
    own = _verdict(diagnosis, diagnosis.gain, diagnosis.gain_error)
    if found is None:
        errors = f"{1 - diagnosis.before:.4f} -> {1 - diagnosis.after:.4f}"
        return f"leave-one-out error of {width} neurons {errors} ({own})"
    return (
        f"accuracy of {width} neurons on rows left out {found.before:.4f} -> {found.after:.4f} "
        f"({_verdict(diagnosis, found.gain, found.gain_error)}); R^2 of the codes +1 and -1 {diagnosis.before:.4f} -> "
        f"{diagnosis.after:.4f} ({own})"
    )


def _advice(diagnosis: Diagnosis) -> str:
    """Say in a sentence whether the step is worth it, in accuracy or R^2 of rows that no fit has seen."""
    unit, found = _scored(diagnosis)
    gain, error = found.gain, found.gain_error
    what, verb = ("rounds", "") if diagnosis.rounds else ("step", "s")
    if not diagnosis.rounds and diagnosis.step_scale == 0:
        return f"No step was taken: the features are random, with {unit} {found.after:.3f} on new rows."
    if not math.isfinite(gain):
        return f"The {what} make{verb} the features overflow: use a smaller step, or random features."
    if len(np.unique(diagnosis.steps.groups)) < _FEW:
        return f"There are too few different rows to tell whether the {what} help{verb}."
    measured = (
        f"{unit} on new rows {found.before:.3f} -> {found.after:.3f}, gain {round(gain, 4) + 0.0:.4f} +- {error:.4f}"
    )
    if abs(gain) <= max(CLEARLY * error, _NO_GAIN):
        return f"The {what} make{verb} no clear difference here: {measured}; random features do as well."
    if gain < 0:
        return f"The {what} do{'es' if verb else ''} not help here: {measured}; use random features."
    return f"The {what} help{verb} here: {measured}."


def _learned(diagnosis: Diagnosis) -> str:
    learned, errors = diagnosis.learned, diagnosis.importance_errors
    shares = (
        f"{name} {part:.1%} +- {errors[learned.columns.index(name)]:.1%}" for name, part in learned.leading_columns(4)
    )
    return f"{learned.headline} ({learned.effective:.1f} effective); columns {', '.join(shares) or 'none'}"


def _move(diagnosis: Diagnosis) -> str:
    if diagnosis.rounds:
        return f"first layer drawn again along the directions of the targets, which {_rounds(diagnosis.rounds)} found"
    return (
        f"eta = {diagnosis.eta:.4g}, damping = {diagnosis.damping:.3g}: pre-activations changed by "
        f"{diagnosis.step_scale:.3g} times their size"
    )


def _rounds(count: int) -> str:
    return f"{count} round{'s' * (count != 1)}"


def _seen(diagnosis: Diagnosis) -> str:
    """Say which rows the steps behind the errors have seen."""
    fit = len(diagnosis.steps.weights)
    if fit < diagnosis.rows:
        return f"{diagnosis.rows - fit} rows"
    parts = min(FOLDS, len(np.unique(diagnosis.steps.groups)))
    return f"{parts - 1}/{parts} of the rows"


def _more_rows(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    """Tell the learning curve; a theory beside it only if it is about the network that was fitted."""
    curve = diagnosis.curve
    own = diagnosis.theory is not None and not diagnosis.theory_note
    rows = [] if curve is None else [("more rows", curve.more_rows())]
    return [_theory(diagnosis), *rows] if own or curve is None else rows


def _theory(diagnosis: Diagnosis) -> tuple[str, str]:
    if diagnosis.theory is None:
        return "", f"({diagnosis.theory_note})"
    before, after = diagnosis.theory.unexplained
    network = f"{diagnosis.theory_note}, not of the one fitted: " if diagnosis.theory_note else ""
    linear = diagnosis.link.linear
    sees = f"; the step of the theory sees its linear part only, {linear:.1%} of it" if linear < _HARDLY_LINEAR else ""
    return (
        "theory",
        f"{network}isotropic data that follow this function, with these sizes, eta and ridge "
        f"{before:.4f} -> {after:.4f}{sees}",
    )


def _share(explained: float) -> str:
    return f"{explained:.1%}" if explained >= 0.0005 else "none"


def _verdict(diagnosis: Diagnosis, gain: float, error: float) -> str:
    if not math.isfinite(gain):
        return "features overflow"
    if len(np.unique(diagnosis.steps.groups)) < _FEW:
        verdict = "too few different rows to tell"
    elif abs(gain) <= max(CLEARLY * error, _NO_GAIN):
        verdict = "makes no clear difference"
    else:
        verdict = "pays" if gain > 0 else "hurts"
    return f"gain {round(gain, 4) + 0.0:.4f} +- {error:.4f}, {verdict}"  # no -0.0000
