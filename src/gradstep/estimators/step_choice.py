r"""How far to step, and in which metric: leave-one-out errors of steps that have not seen the rows they are scored on.

A step that has seen a row's label carries it into the features of that row, and a leave-one-out error of the ridge fit
alone is then too good: on small tables it would choose steps that fit noise. But a gradient is a sum over rows. So each
row is scored on the features that it would have had without its own term of that sum, by a ridge fit without the row.
Both are closed formulas; a step is compared at the cost of one fit. (Exact for one step, but for the traces that the
row's label leaves in the features of all others; these are of order 1/n and do not know the row's target. Of several
steps each is freed of the row's own term at the network where it was taken.)

All of it happens on the first neurons of the network (`CHOICE_WIDTH` at most) and on `CHOICE_ROWS` rows at most, which
keeps the choice cheaper than the fit it serves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradstep.estimators.layer import FirstLayer
from gradstep.estimators.leave_one_out import Copies, Scores, factorise
from gradstep.estimators.metric import HOST, Metric
from gradstep.simulation.backend import Array

__all__ = ["NO_STEP", "SCALES", "Move", "Sample", "StepErrors", "candidates", "choice_width", "eta_of", "score_steps"]

Host = NDArray[np.float64]

SCALES = (1.0, 2.0, 4.0, 8.0)
"""Sizes of step tried: root mean square change of the pre-activations, relative to what they were."""

CHOICE_WIDTH = 256
CHOICE_ROWS = 4096


class Move(NamedTuple):
    """A step: its size as one of `SCALES`, and the damping of its gradient (`gradstep.estimators.metric`)."""

    scale: float
    damping: float


NO_STEP = Move(0.0, math.inf)


def candidates(dampings: Sequence[float]) -> list[Move]:
    """Return the steps to compare: none, and every size with every damping."""
    return [NO_STEP, *(Move(scale, damping) for damping in dampings for scale in SCALES)]


@dataclass(frozen=True)
class Sample:
    """Rows held in memory on which steps are compared.

    Parameters
    ----------
    z : ndarray, shape (n, d)
    y : ndarray, shape (n, k)
    weights : ndarray, shape (n,)
    copies : Copies
    step_rows, fit_rows : ndarray of bool, shape (n,)
        Rows of the step and of the ridge fit: all of them, or disjoint.
    """

    z: Host
    y: Host
    weights: Host
    copies: Copies
    step_rows: NDArray[np.bool_]
    fit_rows: NDArray[np.bool_]


@dataclass(frozen=True)
class StepErrors:
    """Honest leave-one-out errors of several steps.

    Parameters
    ----------
    moves : tuple of Move
    squares : ndarray, shape (moves, rows)
        Squared error of every scored row, each step at its own best penalty.
    weights : ndarray, shape (rows,)
    groups : ndarray of int, shape (rows,)
        Equal for copies of one input, which are one observation for standard errors.
    """

    moves: tuple[Move, ...]
    squares: Host
    weights: Host
    groups: NDArray[np.intp]

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
        """Step of the least error; the first of equal ones."""
        return self.moves[int(np.argmin(self.errors))]

    def gain(self, move: Move, over: Move = NO_STEP) -> tuple[float, float]:
        """Return how much lower the error of one step is than that of another, with the standard error over rows."""
        return self.gain_over(self, over, move)

    def gain_over(self, other: StepErrors, over: Move, move: Move | None = None) -> tuple[float, float]:
        """Return the same for a step of another comparison on the same rows; `move` is by default the same step."""
        ours = self.squares[self.moves.index(over if move is None else move)]
        difference = other.squares[other.moves.index(over)] - ours
        share = self.weights / self.weights.sum()
        mean = float(share @ difference)
        return mean, float(np.linalg.norm(np.bincount(self.groups, share * (difference - mean))))


def choice_width(width: int, rows: int) -> int:
    """Return the number of neurons on which steps are compared."""
    return min(width, max(min(width // 4, rows // 2), 32), CHOICE_WIDTH)


def score_steps(layer: FirstLayer, sample: Sample, metric: Metric, moves: Sequence[Move], n_steps: int) -> StepErrors:
    """Measure honest leave-one-out errors of several steps.

    Parameters
    ----------
    layer : FirstLayer
        As drawn; as wide as the comparison shall be.
    sample : Sample
    metric : Metric
    moves : sequence of Move
        Their scales are divided evenly among the steps.
    n_steps : int

    Returns
    -------
    StepErrors
    """
    first = _slopes(layer, sample)
    squares = []
    for move in moves:
        if move.scale == 0:
            scores = _scores(layer.features(HOST, sample.z[sample.fit_rows]), None, sample)
        else:
            scores = _scores(*_stepped(layer, first, sample, metric, move, n_steps), sample)
        squares.append(scores.squares[scores.best])
    rows = sample.fit_rows
    return StepErrors(tuple(moves), np.stack(squares), sample.weights[rows], sample.copies.group[rows])


def _slopes(layer: FirstLayer, sample: Sample) -> Host:
    """Return what every row of the step, all copies together, contributes to the gradient beside its inputs."""
    rows = sample.step_rows
    return np.asarray(layer.slopes(HOST, sample.z[rows], sample.copies.mean[rows], sample.copies.weight[rows]))


def _stepped(
    layer: FirstLayer, slopes: Host, sample: Sample, metric: Metric, move: Move, n_steps: int
) -> tuple[Host, Host | None]:
    """Return the features of the rows of the fit after the step, and those without each row's own label.

    The latter are None where the step has not seen any of these rows.
    """
    seen, fitted = sample.step_rows, sample.fit_rows
    z, weight, total = sample.z[seen], sample.copies.weight[seen], float(sample.weights[seen].sum())
    share = (sample.weights[seen] / weight)[:, None]
    reach = np.sum(metric.damped(z, move.damping) * z, axis=1)
    eta, unseen = 0.0, sample.z[fitted] @ layer.weights.T
    for number in range(n_steps):
        if number:
            slopes = _slopes(layer, sample)
        change = metric.damped((slopes * share).T @ z / total, move.damping)
        if not number:
            eta = eta_of(move, layer, change, metric, n_steps)
        layer = layer.moved(change, eta, metric)
        if seen is fitted:
            left = (total - weight)[:, None]  # nothing where all rows are copies of one
            own = (z @ change.T) * total - slopes * reach[:, None]
            unseen += eta / math.sqrt(layer.width) * np.divide(own, left, out=np.zeros_like(own), where=left > 0)
    features = layer.features(HOST, sample.z[fitted])
    return features, layer.activation(unseen + layer.offsets) if seen is fitted else None


def eta_of(move: Move, layer: FirstLayer, change: Host, metric: Metric, n_steps: int) -> float:
    """Return the eta that moves the pre-activations by ``move.scale / n_steps``; zero where `change` does not."""
    moved = metric.movement(layer.weights, change)
    return move.scale / n_steps / moved * math.sqrt(layer.width) if moved > 0 else 0.0


def _scores(features: Host, unseen: Host | None, sample: Sample) -> Scores:
    place = np.flatnonzero(sample.fit_rows)

    def blocks() -> Iterator[tuple[Array, NDArray[np.intp]]]:
        yield features.copy(), place

    ridge = factorise(HOST, blocks, len(place), features.shape[1], sample.y, sample.weights)
    seen = None if unseen is None else lambda index: unseen
    return ridge.scores(HOST, blocks, sample.y, sample.weights, sample.copies, ridge.path[::2], unseen=seen)
