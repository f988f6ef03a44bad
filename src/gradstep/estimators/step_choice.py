r"""How far to step: leave-one-out errors of a narrower network whose steps did not see the rows they are scored on.

A step that has seen a row's label carries it into the features of that row, and a leave-one-out error of the ridge fit
alone is then too good: on small tables it would choose steps that fit noise. So the rows are dealt into `FOLDS` folds;
every fold is scored with the first layer that the other folds' gradient gives and the ridge fit's closed leave-one-out
errors. All of it happens on the first neurons of the network (`CHOICE_WIDTH` at most) and on `CHOICE_ROWS` rows at
most, which keeps the choice cheaper than the fit it serves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradstep.estimators.layer import FirstLayer
from gradstep.estimators.leave_one_out import Copies, Scores, factorise
from gradstep.simulation.backend import Array, backend

__all__ = ["SCALES", "Sample", "StepErrors", "choice_width", "movement", "score_steps"]

Host = NDArray[np.float64]

SCALES = (0.0, 1.0, 2.0, 4.0, 8.0)
"""Sizes of step tried: root mean square change of the pre-activations, relative to what they were."""

FOLDS = 4
CHOICE_WIDTH = 256
CHOICE_ROWS = 8192

_HOST = backend(None, "float64")


@dataclass(frozen=True)
class Sample:
    """Rows held in memory on which steps are compared.

    Parameters
    ----------
    z : ndarray, shape (n, d)
    y : ndarray, shape (n, k)
    weights : ndarray, shape (n,)
    copies : Copies
    fold : ndarray of int, shape (n,)
        In ``range(FOLDS)``; or, when the step has rows of its own, -1 for those and 0 for the rows of the fit.
    """

    z: Host
    y: Host
    weights: Host
    copies: Copies
    fold: NDArray[np.intp]


@dataclass(frozen=True)
class StepErrors:
    """Honest leave-one-out errors of steps of several sizes.

    Parameters
    ----------
    scales : tuple of float
    squares : ndarray, shape (scales, rows)
        Squared error of every scored row, each scale at its own best penalty.
    weights : ndarray, shape (rows,)
    groups : ndarray of int, shape (rows,)
        Equal for copies of one input, which are one observation for standard errors.
    """

    scales: tuple[float, ...]
    squares: Host
    weights: Host
    groups: NDArray[np.intp]

    @property
    def errors(self) -> Host:
        """Weighted mean squares, in units of the variance of the targets."""
        return np.asarray(self.squares @ self.weights / self.weights.sum())

    @property
    def chosen(self) -> float:
        """Scale of the least error, unless that is within one standard error of no step: then zero."""
        best = self.scales[int(np.argmin(self.errors))]
        gain, deviation = self.gain(best)
        return best if gain > deviation else 0.0

    def gain(self, scale: float, over: float = 0.0) -> tuple[float, float]:
        """Return how much lower the error is at one scale than at another, with the standard error over rows."""
        difference = self.squares[self.scales.index(over)] - self.squares[self.scales.index(scale)]
        share = self.weights / self.weights.sum()
        mean = float(share @ difference)
        return mean, float(np.linalg.norm(np.bincount(self.groups, share * (difference - mean))))


def choice_width(width: int, rows: int) -> int:
    """Return the number of neurons on which steps are compared."""
    return min(width, max(min(width // 4, rows // 2), 32), CHOICE_WIDTH)


def movement(layer: FirstLayer, gradient: Host, z: Host, weights: Host) -> float:
    """Return the relative change of the pre-activations for ``eta = sqrt(N)``; zero where there is no gradient.

    Parameters
    ----------
    layer : FirstLayer
        Before the step.
    gradient : ndarray, shape (N, d)
    z, weights
        Rows on which it is measured, shapes (n, d) and (n,).
    """
    before = float(weights @ ((z @ layer.weights.T) ** 2).sum(axis=1))
    change = float(weights @ ((z @ gradient.T) ** 2).sum(axis=1))
    return np.sqrt(change / before) if before > 0 else 0.0


def score_steps(layer: FirstLayer, sample: Sample, scales: Sequence[float], n_steps: int) -> StepErrors:
    """Measure honest leave-one-out errors of several sizes of step.

    Parameters
    ----------
    layer : FirstLayer
        As drawn; as wide as the comparison shall be.
    sample : Sample
    scales : sequence of float
        See `SCALES`; divided evenly among the steps.
    n_steps : int

    Returns
    -------
    StepErrors
    """
    fold = sample.fold
    own_rows = bool((fold < 0).any())
    folds = [k for k in range(FOLDS) if (fold == k).any()]
    fitted = fold >= 0
    gradients = _first_gradients(layer, sample, folds)
    lines = []
    for scale in scales:
        if scale == 0:
            lines.append(_fit(layer, sample, fitted, fitted))
            continue
        parts = []
        for k, gradient in zip(folds, gradients, strict=True):
            stepped = _stepped(layer, gradient, sample, fold < 0 if own_rows else fold != k, scale, n_steps)
            parts.append(_fit(stepped, sample, fitted, fold == k))
        lines.append(_joined(parts))
    # One penalty for all folds of a scale, as in the fit itself; penalties are relative, so folds can be compared.
    order = np.argsort(np.concatenate([np.flatnonzero(fold == k) for k in folds]), kind="stable")
    squares = [
        line.squares[line.best] if scale == 0 else line.squares[line.best][order]
        for scale, line in zip(scales, lines, strict=True)
    ]
    return StepErrors(tuple(scales), np.stack(squares), sample.weights[fitted], sample.copies.group[fitted])


def _joined(parts: Sequence[Scores]) -> Scores:
    squares = np.concatenate([part.squares for part in parts], axis=1)
    return Scores(parts[0].penalties, squares, np.concatenate([part.weights for part in parts]))


def _first_gradients(layer: FirstLayer, sample: Sample, folds: Sequence[int]) -> list[Host]:
    """Return, for every fold, the mean gradient over the rows outside it; each row is visited once."""

    def total(rows: NDArray[np.bool_]) -> tuple[Host, float]:
        w = sample.weights[rows]
        return layer.gradient(_HOST, [(sample.z[rows], sample.y[rows], w)]), float(w.sum())

    if (sample.fold < 0).any():
        gradient, weight = total(sample.fold < 0)
        return [gradient / weight for _ in folds]
    sums = [total(sample.fold == k) for k in folds]
    everything = np.sum([gradient for gradient, _ in sums], axis=0)
    weight = sum(w for _, w in sums)
    if len(folds) == 1:  # too few distinct rows to leave some out of the step
        return [everything / weight]
    return [(everything - gradient) / (weight - w) for gradient, w in sums]


def _stepped(
    layer: FirstLayer, gradient: Host, sample: Sample, rows: NDArray[np.bool_], scale: float, n_steps: int
) -> FirstLayer:
    z, y, w = sample.z[rows], sample.y[rows], sample.weights[rows]
    if not rows.any():
        return layer
    moved = movement(layer, gradient, z, w)
    eta = scale / n_steps / moved * np.sqrt(layer.width) if moved > 0 else 0.0
    for number in range(n_steps):
        if number:
            gradient = layer.gradient(_HOST, [(z, y, w)]) / w.sum()
        layer = layer.moved(gradient, eta)
    return layer


def _fit(layer: FirstLayer, sample: Sample, fitted: NDArray[np.bool_], scored: NDArray[np.bool_]) -> Scores:
    features = layer.features(_HOST, sample.z[fitted])
    place = np.flatnonzero(fitted)

    def all_rows() -> Iterator[tuple[Array, NDArray[np.intp]]]:
        yield features.copy(), place

    def some_rows() -> Iterator[tuple[Array, NDArray[np.intp]]]:
        yield features[scored[fitted]], np.flatnonzero(scored)

    ridge = factorise(_HOST, all_rows, len(place), layer.width, sample.y, sample.weights)
    return ridge.scores(_HOST, some_rows, sample.y, sample.weights, sample.copies, ridge.path)
