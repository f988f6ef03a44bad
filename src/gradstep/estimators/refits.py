"""Errors on rows that neither the step nor the readout has used, with the step on more and on fewer of the rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradstep.estimators.layer import FirstLayer
from gradstep.estimators.metric import HOST, Metric
from gradstep.estimators.moves import NO_STEP, Move, Sample, moved_on
from gradstep.estimators.targets import mistaken
from gradstep.simulation.backend import Array
from gradstep.simulation.leave_one_out import Copies, copies_of, left_out
from gradstep.simulation.ridge import OutOfRange, factorise

__all__ = ["LeftOut", "Levels", "Model", "Pool", "left_out_errors"]

Host = NDArray[np.float64]
Rows = NDArray[np.bool_]

#: Parts of the rows: each is scored by a step on the others.
_PARTS = 10


@dataclass(frozen=True, eq=False)
class Pool:
    """Rows of a readout.

    Parameters
    ----------
    features : ndarray, shape (M, N)
    targets : ndarray, shape (M, K)
        Standardised numbers, or classes coded as +1 and -1.
    weights : ndarray, shape (M,)
        Positive.
    copies : Copies
    classes : bool
        Whether the targets are classes.
    """

    features: Host
    targets: Host
    weights: Host
    copies: Copies
    classes: bool


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Errors of rows left out, each of shape (M, penalties).

    Parameters
    ----------
    squares : ndarray
        Squared errors, sum over outputs.
    wrong : ndarray
        One where another class wins, zero elsewhere; without meaning for numbers.
    """

    squares: Host
    wrong: Host


@dataclass(frozen=True, eq=False)
class Levels:
    """Errors with a step on most rows, and with a step on half of them.

    Parameters
    ----------
    share : float
        Part of the step's rows behind `most`.
    most : LeftOut
    half : LeftOut or None
        None without a step.
    """

    share: float
    most: LeftOut
    half: LeftOut | None


@dataclass(frozen=True, eq=False)
class Model:
    """A fitted model with rows of a table, and all that it takes to fit it to parts of them.

    Parameters
    ----------
    initial, stepped : FirstLayer
        As drawn, and as fitted.
    sample : Sample
    targets : ndarray, shape (n, K)
        Those of the readout: standardised numbers, or classes coded as +1 and -1.
    classes : bool
    metric : Metric
    move : Move
        The step that was taken.
    eta : float or None
        Its size, where that was given.
    n_steps : int
    unit : float
        Unit of the sample's weights.
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

    def pool(self) -> Pool:
        """Return the rows of the readout with the features that the fit has."""
        return self._pool(self.stepped.features(HOST, self.sample.z[self.sample.fit_rows]))

    def inputs(self) -> Pool:
        """Return the same rows with the standardised inputs for features."""
        return self._pool(self.sample.z[self.sample.fit_rows])

    def levels(self, penalties: Host) -> Levels:
        """Return the errors of networks of which neither step nor readout has used the row.

        With rows of their own for step and readout, the step uses all of its rows, or either half of them. Otherwise it
        uses all rows but a tenth, or but a half, for the rows of that part. The readout is always fitted to all rows
        but one.
        """
        sample = self.sample
        if self.move == NO_STEP:
            return Levels(1.0, self._left_out([(self.initial, sample.fit_rows)], penalties), None)
        if not (sample.step_rows & sample.fit_rows).any():
            own = self._left_out([(self._stepped(sample.step_rows), sample.fit_rows)], penalties)
            halves = ((self._stepped(sample.step_rows & self._part(k, 2)), sample.fit_rows) for k in range(2))
            return Levels(1.0, own, self._left_out(halves, penalties))
        most, half = (
            self._left_out(
                ((self._stepped(sample.step_rows & ~self._part(k, parts)), self._part(k, parts)) for k in range(parts)),
                penalties,
            )
            for parts in (_PARTS, 2)
        )
        return Levels(1 - 1 / _PARTS, most, half)

    def _pool(self, features: Host) -> Pool:
        if not np.isfinite(features).all():
            raise OutOfRange
        rows = self.sample.fit_rows
        targets, weights = self.targets[rows], self.sample.weights[rows] * self.unit
        groups = self.sample.copies.group[rows].astype(np.uint64)
        return Pool(features, targets, weights, copies_of(groups, targets, weights), self.classes)

    def _part(self, number: int, parts: int) -> Rows:
        """Mark one of so many parts of the rows; the numbers of groups are in random order."""
        return np.asarray(self.sample.copies.group % parts == number)

    def _stepped(self, rows: Rows) -> FirstLayer:
        return moved_on(self.initial, self.sample, rows, self.metric, self.move, self.n_steps, eta=self.eta)

    def _left_out(self, layers: Iterable[tuple[FirstLayer, Rows]], penalties: Host) -> LeftOut:
        """Score rows by the layer that stands with them; rows with several have the mean."""
        fit = self.sample.fit_rows
        shape = (int(fit.sum()), len(penalties))
        squares, wrong, times = np.zeros(shape), np.zeros(shape), np.zeros((shape[0], 1))
        for layer, rows in layers:
            found = left_out_errors(self._pool(layer.features(HOST, self.sample.z[fit])), rows[fit], penalties)
            squares[rows[fit]] += found.squares
            wrong[rows[fit]] += found.wrong
            times[rows[fit]] += 1
        return LeftOut(squares / times, wrong / times)


def left_out_errors(pool: Pool, scored: Rows, penalties: Host) -> LeftOut:
    """Score some rows of a pool, each by a fit to all others.

    Parameters
    ----------
    pool : Pool
    scored : ndarray of bool, shape (M,)
    penalties : ndarray, shape (P,)

    Returns
    -------
    LeftOut
        Of the scored rows.
    """
    rows, width = pool.features.shape
    empty = np.empty((0, len(penalties)))
    squares, wrong = [empty], [empty]

    def every() -> Iterator[tuple[Array, NDArray[np.intp]]]:
        yield pool.features.copy(), np.arange(rows)

    def some() -> Iterator[tuple[Array, NDArray[np.intp]]]:
        yield pool.features[scored], np.flatnonzero(scored)

    ridge = factorise(every, rows, width, pool.targets, pool.weights)
    for index, outputs in left_out(ridge, some, pool.copies, penalties) if scored.any() else ():
        targets = pool.targets[index, :, None]
        squares.append(((targets - outputs) ** 2).sum(axis=1))
        wrong.append(mistaken(outputs, targets).astype(np.float64))
    return LeftOut(np.concatenate(squares), np.concatenate(wrong))
