"""Learning curves of one step, of random features and of plain ridge regression, on the same rows of a table."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradstep.estimators.classifier import OneStepClassifier
from gradstep.estimators.refits import Model, left_out_errors
from gradstep.estimators.regressor import OneStepRegressor
from gradstep.estimators.score_curve import Levels, ScoreCurve, score_curve
from gradstep.estimators.step_choice import CLEARLY
from gradstep.progress import Report

__all__ = ["MODELS", "compared_curves", "verdict"]

MODELS = ("one step", "random features", "plain ridge")
"""The models, from the most to the least that they learn."""


def compared_curves(
    X: Any,
    y: Any,
    *,
    classes: bool = False,
    width: int = 512,
    random_state: int = 0,
    n: ArrayLike | None = None,
    max_rows: int = 2048,
    progress: Report | None = None,
) -> dict[str, ScoreCurve]:
    """Estimate the learning curves of all `MODELS`.

    The table has shape (M, d), and `y` holds M numbers, or labels if there are `classes`. The first two models have a
    `width`, and `random_state` is the seed of their first layer. `n`, `max_rows` and the errors raised are those of
    `OneStepRegressor.learning_curve`, and of `OneStepRegressor.fit`. `progress` is called with the number of curves
    done, that of all, and what is done. A curve at work counts as the share of its pairs of n and ridge that are done.
    """
    kind: Any = OneStepClassifier if classes else OneStepRegressor
    curves = {}
    report = progress or (lambda done, total, label: None)
    for place, (name, eta) in enumerate(zip(MODELS, ("auto", 0.0), strict=False)):
        report(place, len(MODELS), name)
        model = kind(width, eta=eta, random_state=random_state).fit(X, y)
        pairs = partial(_part_of_a_curve, report, place, name)
        curves[name] = model.learning_curve(X, y, n, max_rows=max_rows, progress=pairs)
    report(len(MODELS) - 1, len(MODELS), MODELS[-1])
    rows = Model.of(model, model._read(X, y, None), max_rows)
    inputs = rows.pool()
    chosen = rows.metric.damping * float(inputs.weights.sum())

    def levels(penalties: NDArray[np.float64]) -> Levels:
        return Levels(1.0, left_out_errors(inputs, np.ones(len(inputs.y), dtype=bool), penalties), None)

    curves[MODELS[-1]] = score_curve(inputs, levels, chosen, classes=rows.classes, n=n)
    report(len(MODELS), len(MODELS), "models")
    return curves


def _part_of_a_curve(report: Report, before: int, name: str, done: int, total: int) -> None:
    """Report the pairs done of one curve as a share of it, after those that came before."""
    report(before + done / total, len(MODELS), name)


def verdict(curves: dict[str, ScoreCurve]) -> str:
    """Say in one sentence which model of `compared_curves` is the best, and what twice the rows would bring it."""
    best = max(curves, key=lambda name: -float(curves[name].weights @ curves[name].squares))
    leader, others = curves[best], [name for name in curves if name != best]
    gains = {name: leader.gain(curves[name]) for name in others}
    behind = [name for name, gain in gains.items() if gain.value > CLEARLY * gain.standard_error]
    told = ", ".join(f"{gain} above {name}" for name, gain in gains.items())
    if len(behind) == len(others):
        lead = f"with these {leader.rows} rows {best} is clearly the best, with R^2 {told}"
    else:
        level = " and ".join(name for name in others if name not in behind)
        lead = f"with these {leader.rows} rows {best} is not clearly better than {level}: its R^2 is {told}"
    more = leader.more_rows()
    return f"{lead}; {more}." if more else f"{lead}."
