"""Errors on rows that neither the step nor the readout has used, with the step on more and on fewer of the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier

from gradstep.estimators.layer import FirstLayer
from gradstep.estimators.metric import Metric, measure
from gradstep.estimators.moves import NO_STEP, Move, moved_on
from gradstep.estimators.rows import HOST, Sample, Training
from gradstep.estimators.score_curve import LeftOut, Levels, ScoreCurve, score_curve
from gradstep.estimators.targets import mistaken
from gradstep.simulation.leave_one_out import copies_of, left_out_directly, penalty_path, scores_of
from gradstep.simulation.ridge import OutOfRange

if TYPE_CHECKING:
    from gradstep.estimators.readout import OneStepReadout

__all__ = ["Model", "left_out_errors"]

Host = NDArray[np.float64]
Rows = NDArray[np.bool_]

#: Parts of the rows: each is scored by a step on the others.
_PARTS = 10
#: Rows of a fit over those of its curve from which its penalty says little about theirs.
_MANY_MORE = 2


@dataclass(frozen=True, eq=False)
class Model:
    """A fitted model with rows of a table, and all that it takes to fit it to parts of them.

    The first layers are the one drawn and the fitted one, `move` is the step that was taken, and `eta` its size, where
    that was given. The `targets`, shape (n, K), are those of the readout: standardised numbers, or classes coded as +1
    and -1. `unit` is that of the sample's weights, `ridge` the penalty of the fit, and `rows` the number of rows to
    which its readout was fitted.
    """

    initial: FirstLayer
    stepped: FirstLayer
    sample: Sample
    targets: Host
    classes: bool
    metric: Metric
    move: Move
    eta: float | None
    n_steps: int
    unit: float
    ridge: float
    rows: int

    @classmethod
    def of(cls, fit: OneStepReadout, training: Training, most: int) -> Self:
        """Return a fitted estimator with about so many rows of a table."""
        sample, classes = training.sample(most), bool(is_classifier(fit))
        chosen = None if fit.step_errors_ is None else fit.step_errors_.chosen._replace(smooth=False)
        return cls(
            initial=fit._initial,
            stepped=fit._layer,
            sample=sample,
            targets=np.sign(sample.y * training.scale + training.centre) if classes else sample.y,
            classes=classes,
            metric=measure(sample),
            move=chosen or Move(fit.step_scale_, fit.damping_),
            eta=fit.eta_ if chosen is None and fit.eta_ > 0 else None,
            n_steps=training.settings.n_steps,
            unit=training.unit,
            ridge=fit.ridge_,
            rows=fit.fit_samples_,
        )

    def curve(
        self,
        *,
        n: ArrayLike | None = None,
        ridge: ArrayLike | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> ScoreCurve:
        """Estimate its learning curve; arguments as for `score_curve`."""
        return score_curve(
            self.pool(self.stepped),
            self.levels,
            self.ridge,
            classes=self.classes,
            n=n,
            ridge=ridge,
            middle=self.middle,
            progress=progress,
        )

    @cached_property
    def middle(self) -> float:
        """Penalty around which those of a curve lie.

        That of the fit; if the fit has many more rows than there are here, its penalty is for another number of rows,
        and the one with the least leave-one-out error takes its place.
        """
        if self.rows < _MANY_MORE * int(self.sample.fit_rows.sum()):
            return self.ridge
        pool = self.pool(self.stepped)
        ridge = pool.ridge()
        scores = pool.scores(ridge, np.ones(len(pool.y), dtype=bool), penalty_path(ridge))
        return float(scores.penalties[scores.best])

    def levels(self, penalties: Host) -> Levels:
        """Return the errors of networks of which neither step nor readout has used the row.

        With rows of their own for step and readout, the step uses all of its rows, or either half of them. Otherwise it
        uses all rows but a tenth, or but a half, for the rows of that part. The readout is always fitted to all rows
        but one.
        """
        sample, step, fit = self.sample, self.sample.step_rows, self.sample.fit_rows
        if self.move == NO_STEP:
            return Levels(1.0, self._left_out([(step, fit)], penalties), None)
        if not sample.shared:
            halves = [(step & half, fit) for half in sample.parts(2)]
            return Levels(1.0, self._left_out([(step, fit)], penalties), self._left_out(halves, penalties))
        most, half = (
            self._left_out([(step & ~part, part) for part in sample.parts(count)], penalties) for count in (_PARTS, 2)
        )
        return Levels(1 - 1 / _PARTS, most, half)

    def pool(self, layer: FirstLayer | None = None) -> Sample:
        """Return the rows of the readout with the features of a layer, or the standardised inputs if there is none."""
        rows = self.sample.fit_rows
        seen, targets = self.sample.of(rows), self.targets[rows]
        features, weights = seen.z if layer is None else layer.features(HOST, seen.z), seen.weights * self.unit
        if not np.isfinite(features).all():
            raise OutOfRange
        copies = copies_of(seen.copies.group.astype(np.uint64), targets, weights)
        return replace(seen, z=features, y=targets, weights=weights, copies=copies)

    def _left_out(self, splits: Iterable[tuple[Rows, Rows]], penalties: Host) -> LeftOut:
        """For each pair, rows of a step and rows to score, take the step and score; rows in several have the mean."""
        fit = self.sample.fit_rows
        shape = (int(fit.sum()), len(penalties))
        squares, wrong, times = np.zeros(shape), np.zeros(shape), np.zeros((shape[0], 1))
        for step, rows in splits:
            layer = moved_on(self.initial, self.sample, step, self.metric, self.move, self.n_steps, eta=self.eta)
            found = left_out_errors(self.pool(layer), rows[fit], penalties)
            squares[rows[fit]] += found.squares
            wrong[rows[fit]] += found.wrong
            times[rows[fit]] += 1
        return LeftOut(squares / times, wrong / times)


def left_out_errors(pool: Sample, scored: Rows, penalties: Host) -> LeftOut:
    """Score some rows of a pool, each by a fit of its targets on its features to all others."""
    outputs = left_out_directly(pool.z, pool.copies, scored, penalties)
    if outputs is None:
        scores = pool.scores(pool.ridge(), scored, penalties, mistaken)
    else:
        scores = scores_of([(np.flatnonzero(scored), outputs)], pool.y, pool.weights, penalties, mistaken)
    assert scores.wrong is not None
    return LeftOut(scores.squares.T * pool.y.shape[1], scores.wrong.T.astype(np.float64))
