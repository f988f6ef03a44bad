r"""Choose the step size by leave-one-out errors on rows that the step has not used.

A step that has used a row puts its label into the features of that row. A leave-one-out error of the ridge fit alone is
then too small, and on small tables it would choose steps that fit noise. The rows are therefore divided into `FOLDS`
folds. Every fold is scored with the first layer after a step on the other folds, by the closed leave-one-out errors of
the ridge fit. The comparison uses the first neurons of the network (`CHOICE_WIDTH` at most) and at most `CHOICE_ROWS`
rows, so that it takes less time than the fit.

The leave-one-out errors of the fit itself are too small, most of all for small penalties: on noise their minimum is at
penalties a thousand times too small. The difference is measured here on rows that were used by a step and left out of
another (`PenaltyPath`).

On many tables the errors of all steps agree within their noise. The least of them would be a matter of chance, and a
large step can do harm. A small step is therefore taken unless another choice is clearly better.

The rounds that draw the layer again (`gradstep.estimators.moves`) are one of the choices. Few neurons do not find the
directions of a target, so that the networks that look for them are wider than those that are compared.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from gradstep.estimators.layer import FirstLayer
from gradstep.estimators.metric import Metric
from gradstep.estimators.moves import NO_STEP, ROUNDS, Move, gradient_on, moved_on
from gradstep.estimators.rows import HOST, Sample
from gradstep.simulation.leave_one_out import Mistaken, Scores, penalty_path
from gradstep.simulation.ridge import OutOfRange

__all__ = [
    "CHOICE_WIDTH",
    "CLEARLY",
    "SCALES",
    "PenaltyPath",
    "StepErrors",
    "candidates",
    "choice_width",
    "score_steps",
    "standard_error",
]

Host = NDArray[np.float64]

SCALES = (0.25, 6.0)
"""Sizes of step tried: root mean square change of the pre-activations, relative to what they were."""

CLEARLY = 2.0
"""Standard errors by which a step must be better than the smallest one to be taken in its place."""

#: Rows by which classes are compared in addition to those there are, one in favour of each move.
_MORE = 2

CHOICE_WIDTH = 256
"""Largest number of neurons of the networks that are compared."""


def candidates(damping: float, *, redraw: bool, smooth: bool = False) -> list[Move]:
    """Return the moves to compare: no step, steps of this damping and, if `redraw`, rounds that draw the layer again.

    If `smooth`, no step and the rounds are among them with smooth neurons, too.
    """
    rounds = [Move(0.0, math.inf, ROUNDS)] if redraw else []
    again = [move._replace(smooth=True) for move in (NO_STEP, *rounds)] if smooth else []
    return [NO_STEP, *(Move(scale, damping) for scale in SCALES), *rounds, *again]


@dataclass(frozen=True)
class PenaltyPath:
    """Leave-one-out errors of the readout after a move along its penalties, in units of the variance of the targets."""

    penalties: Host  #: Increasing, over the mean squared length of a row of centred features. Shape (P,).
    #: Each row scored with a step that has not seen it, and with one that has. The same where no row of the fit is one
    #: of the step, or no step is taken. Shape (P,).
    unseen: Host
    seen: Host

    def corrected(self, penalties: Host, errors: Host) -> Host:
        """Return errors (Q,), at relative penalties (Q,), of a fit whose step has seen its rows, as if it had not.

        They are infinite for penalties with which unseen rows have larger errors than with hardly any fit.
        """
        unseen, seen = (np.interp(np.log(penalties), np.log(self.penalties), line) for line in (self.unseen, self.seen))
        return np.where(unseen <= self.unseen[-1], errors + unseen - seen, np.inf)

    def best(self, penalties: Host, errors: Host, least: int) -> int:
        """Choose a penalty for a fit with the same kind of step, whose own errors have seen it.

        They are corrected by what seeing the step saves here. The path itself is of no use for that: fewer neurons
        after a step on fewer rows need a larger penalty, whether or not anything was seen. But a penalty that makes
        them worse than hardly any fit does fits noise.

        Return the place of the penalty with the least corrected error; of equal ones, the largest. It is not below
        `least`, the place that the errors of the fit ask for.
        """
        corrected = self.corrected(penalties, errors)
        corrected[:least] = np.inf
        return len(corrected) - 1 - int(np.argmin(corrected[::-1]))


@dataclass(frozen=True)
class StepErrors:
    """Honest leave-one-out errors of several steps."""

    moves: tuple[Move, ...]
    #: Squared error of every scored row, each step at its own best penalty; infinite after a step whose features
    #: overflow. Shape (moves, rows).
    squares: Host
    weights: Host  #: Shape (rows,).
    #: Equal for copies of one input, which are one observation for standard errors. Shape (rows,).
    groups: NDArray[np.intp]
    paths: tuple[PenaltyPath | None, ...]  #: Errors of each move; None after a step whose features overflow.
    #: One where another class than the row's wins, otherwise zero; NaN after a step whose features overflow, None for
    #: numbers. Shape (moves, rows).
    wrong: Host | None = None

    @property
    def errors(self) -> Host:
        """Weighted mean squares, in units of the variance of the targets."""
        return np.asarray(self.squares @ self.weights / self.weights.sum())

    @property
    def scales(self) -> tuple[float, ...]:
        """Their sizes."""
        return tuple(move.scale for move in self.moves)

    @property
    def chosen(self) -> Move:
        """The best of the moves that are clearly better than the smallest step; that step where there are none.

        No step where it makes no difference to any row, as where targets or inputs do not vary. Steps whose features
        overflow are none of the moves. Raises `OutOfRange` if there are no others.
        """
        moves = [move for move, error in zip(self.moves, self.errors, strict=True) if math.isfinite(error)]
        if not moves:
            raise OutOfRange
        usual = min((move for move in moves if move.scale > 0), default=NO_STEP)
        gains = [self.gain(move, over=usual) for move in moves]
        rivals = [place for place, (gain, error) in enumerate(gains) if gain >= CLEARLY * error]
        return moves[max(rivals, key=lambda place: gains[place][0])]

    @property
    def path(self) -> PenaltyPath:
        """That of the chosen step."""
        path = self.paths[self.moves.index(self.chosen)]
        assert path is not None  # moves whose features overflow are not chosen
        return path

    @property
    def of_classes(self) -> StepErrors | None:
        """This comparison by the share of wrong classes instead of the squared error; None if targets are numbers."""
        return None if self.wrong is None else replace(self, squares=self.wrong)

    def error(self, move: Move) -> float:
        """Return the error of a move."""
        return float(self.errors[self.moves.index(move)])

    def gain(self, move: Move, over: Move = NO_STEP, *, of: StepErrors | None = None) -> tuple[float, float]:
        """Return how much lower the error of a move is than that of another, with the standard error over rows.

        The other may be one `of` another comparison on the same rows. Infinite or NaN, and zero, where the features of
        either overflow.

        Shares of wrong classes differ in the rows that only one of the moves gets right. Few of them tell little about
        their own number, and the standard error counts one more of either kind (Bonett and Price 2012).
        """
        other = of or self
        ours, theirs = self.squares[self.moves.index(move)], other.squares[other.moves.index(over)]
        share = self.weights / self.weights.sum()
        gain = float(share @ theirs) - float(share @ ours)
        if not math.isfinite(gain):
            return gain, 0.0
        difference = theirs - ours
        error = standard_error(difference, self.weights, self.groups)
        if self.squares is self.wrong and not (of is None and move == over):
            several = len(np.unique(self.groups))
            total = np.bincount(self.groups, share)
            error = math.hypot(error, math.sqrt(_MORE * float(total @ total) / several))
        return float(share @ difference), error


def standard_error(values: Host, weights: Host, groups: NDArray[np.intp]) -> float:
    """Return the standard error over rows of a weighted mean; copies of a row, equal in `groups`, count as one."""
    share = weights / weights.sum()
    return float(np.linalg.norm(np.bincount(groups, share * (values - share @ values))))


def choice_width(width: int, rows: int) -> int:
    """Return the number of neurons on which steps are compared, with so many different rows."""
    return min(width, max(min(width // 4, rows // 2), 32), CHOICE_WIDTH)


def score_steps(
    layer: FirstLayer,
    sample: Sample,
    metric: Metric,
    moves: Sequence[Move],
    n_steps: int,
    mistaken: Mistaken | None = None,
) -> StepErrors:
    """Measure honest leave-one-out errors of several steps of a layer as it was drawn.

    The scale of a move is divided evenly among its `n_steps`. `mistaken` says where outputs mean another class than
    the targets, as for `leave_one_out`.
    """
    folds, fit = list(sample.folds()), sample.of(sample.fit_rows)
    gradients = [gradient_on(layer, sample, seen) for seen, _ in folds]
    # One penalty for all folds of a step, as in the fit itself; penalties are relative, so folds can be compared.
    order = np.argsort(np.concatenate([np.flatnonzero(scored) for _, scored in folds]), kind="stable")

    @cache
    def without(k: int, move: Move) -> FirstLayer:
        return moved_on(layer, sample, folds[k][0], metric, move, n_steps, first=gradients[k])

    def scored_by(layer: FirstLayer, rows: NDArray[np.bool_], smooth: bool) -> Scores:
        """Fit the ridge readout to all rows of the fit, and score some; every other penalty of the path will do."""
        known = replace(fit, z=(layer.smooth() if smooth else layer).features(HOST, fit.z))
        ridge = known.ridge()
        scores = known.scores(ridge, rows[sample.fit_rows], penalty_path(ridge)[::2], mistaken)
        # Networks of other widths have penalties of other sizes.
        return replace(scores, penalties=scores.penalties / ridge.mean_square)

    def best_of(move: Move) -> tuple[Host, Host, PenaltyPath]:
        same = move._replace(smooth=False)  # the directions are those of kernel fits, whatever the neurons
        if same == NO_STEP:
            scores = scored_by(layer, sample.fit_rows, move.smooth)
            return *_best(scores), PenaltyPath(scores.penalties, scores.errors, scores.errors)
        unseen, seen = [], []
        for k, (_, scored) in enumerate(folds):
            # The next fold, if there is one that the step has seen: so every row is scored once in either way.
            _, met = folds[(k + 1) % len(folds)]
            both, rows = scored_by(without(k, same), scored | met, move.smooth), scored | met
            unseen.append(both.of(scored[rows]))
            seen.append(both.of(met[rows]))
        scores = _joined(unseen)
        squares, wrong = _best(scores)
        return squares[order], wrong[order], PenaltyPath(scores.penalties, scores.errors, _joined(seen).errors)

    squares = np.full((len(moves), len(order)), np.inf)
    wrong = np.full(squares.shape, np.nan)
    paths: list[PenaltyPath | None] = [None] * len(moves)
    for place, move in enumerate(moves):
        with suppress(OutOfRange):
            squares[place], wrong[place], paths[place] = best_of(move)
    about = fit.weights, fit.copies.group, tuple(paths), wrong if mistaken else None
    return StepErrors(tuple(moves), squares, *about)


def _best(scores: Scores) -> tuple[Host, Host]:
    """Return of each row the squared error at the best penalty, and one where another class wins (NaN for numbers)."""
    squares = scores.squares[scores.best]
    wrong = np.full(len(squares), np.nan) if scores.wrong is None else scores.wrong[scores.best].astype(np.float64)
    return squares, wrong


def _joined(parts: Sequence[Scores]) -> Scores:
    squares = np.concatenate([part.squares for part in parts], axis=1)
    wrong = [part.wrong for part in parts if part.wrong is not None]
    weights = np.concatenate([part.weights for part in parts])
    return Scores(parts[0].penalties, squares, weights, np.concatenate(wrong, axis=1) if wrong else None)
