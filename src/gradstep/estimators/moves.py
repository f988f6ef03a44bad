r"""Moves of the first layer on some rows of a sample: gradient steps, and rounds that draw it again.

A gradient step turns the neurons towards one direction. Targets may depend on several. A function that was fitted to
them knows these directions: it varies along them and hardly along the others. They are found in rounds
(`gradstep.estimators.kernel_rounds`), as the average gradient outer product

.. math:: M = E\,\nabla f(z)\,\nabla f(z)^\top.

The neurons are then drawn again with rows :math:`w_i\sim N(0, M)`, scaled so that the pre-activations keep their size.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradstep.estimators.kernel_rounds import KERNEL_ROWS, kernel_gradients
from gradstep.estimators.layer import FirstLayer
from gradstep.estimators.metric import HOST, Metric
from gradstep.simulation.backend import Array
from gradstep.simulation.leave_one_out import Copies, penalty_path
from gradstep.simulation.ridge import factorise

__all__ = [
    "NO_STEP",
    "REDRAW_ROWS",
    "ROUNDS",
    "Move",
    "Sample",
    "average_gradients",
    "eta_of",
    "fit_on",
    "gradient_on",
    "moved_on",
    "redrawn_on",
]

Host = NDArray[np.float64]
Rows = NDArray[np.bool_]

ROUNDS = 8
"""Rounds in which the directions are found, at most."""

REDRAW_ROWS = 16384
"""Rows to which the networks of the rounds are fitted, at most."""

#: Neurons of the networks that follow the kernel fits at most, and how many follow.
_REDRAW_WIDTH = 512
_SHARPENING = 2
#: Where there are more inputs than this, so many gradients span the directions.
_SIDE = 512
#: Degrees of freedom that a fit must leave, as a share of its distinct rows.
_FREEDOM = 1e-3


class Move(NamedTuple):
    """A move of the first layer: a gradient step, or rounds that draw it again.

    A step has a scale (the root mean square change of the pre-activations relative to what they were) and the damping
    of its gradient (`gradstep.estimators.metric`); rounds, so many at most, have neither. If `smooth`, the neurons are
    tanh in the place of what they were: on smooth functions they need fewer neurons than ReLU.
    """

    scale: float
    damping: float
    rounds: int = 0
    smooth: bool = False


NO_STEP = Move(0.0, math.inf)
"""The first layer stays as it was drawn."""


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
    fold : ndarray of int, shape (n,)
        In ``range(FOLDS)``.
    """

    z: Host
    y: Host
    weights: Host
    copies: Copies
    step_rows: Rows
    fit_rows: Rows
    fold: NDArray[np.intp]

    def folds(self) -> Iterator[tuple[Rows, Rows]]:
        """Yield rows for a step, and those rows of the fit that it has not seen: every row of the fit once."""
        if not (self.step_rows & self.fit_rows).any():
            yield self.step_rows, self.fit_rows
            return
        for k in np.unique(self.fold[self.fit_rows]):
            yield self.step_rows & (self.fold != k), self.fit_rows & (self.fold == k)


def gradient_on(layer: FirstLayer, sample: Sample, rows: Rows, *, mean: bool = True) -> Host:
    """Return the gradient on some rows of a sample: its mean over them, or its sum; zero without rows."""
    w = sample.weights[rows]
    # No rows with a single fold: too few distinct ones to leave some out of the step.
    total = float(w.sum()) if mean else 1.0
    return layer.gradient(HOST, [(sample.z[rows], sample.y[rows], w)]) / (total or 1.0)


def moved_on(
    layer: FirstLayer,
    sample: Sample,
    rows: Rows,
    metric: Metric,
    move: Move,
    n_steps: int,
    *,
    gradient: Host | None = None,
    eta: float | None = None,
) -> FirstLayer:
    """Return the layer after a move on some rows.

    Parameters
    ----------
    layer : FirstLayer
        As drawn.
    sample : Sample
    rows : ndarray of bool, shape (n,)
    metric : Metric
    move : Move
    n_steps : int
        Number of gradient steps that share the move.
    gradient : ndarray, shape (N, d), optional
        Gradient of the first step, where it is known.
    eta : float, optional
        Size of each step, in the place of the scale of the move.

    Returns
    -------
    FirstLayer

    Raises
    ------
    OutOfRange
        If features of a round overflow.
    """
    if move.rounds:
        return redrawn_on(layer, sample, rows, metric, move.rounds)[0]
    change = metric.damped(gradient_on(layer, sample, rows) if gradient is None else gradient, move.damping)
    if eta is None:
        eta = eta_of(move, layer, change, metric, n_steps)
    for number in range(n_steps):
        if number:
            change = metric.damped(gradient_on(layer, sample, rows), move.damping)
        layer = layer.moved(change, eta, metric)
    return layer


def redrawn_on(layer: FirstLayer, sample: Sample, rows: Rows, metric: Metric, most: int) -> tuple[FirstLayer, int]:
    """Draw the layer again along the gradients of a function that is fitted to some rows, in rounds.

    The rounds are those of `kernel_gradients`, on `KERNEL_ROWS` distinct rows. If there are more than twice as many,
    two networks with layers that are drawn along its gradients are fitted to all of them, one after the other: they
    have less noise.

    Parameters
    ----------
    layer : FirstLayer
        As drawn.
    sample : Sample
    rows : ndarray of bool, shape (n,)
    metric : Metric
    most : int
        Rounds at most.

    Returns
    -------
    layer : FirstLayer
        The layer itself, if the function is constant.
    rounds : int
        Number of rounds.

    Raises
    ------
    OutOfRange
        If features overflow.
    """
    place = np.flatnonzero(rows & (sample.weights > 0))
    # In the order of the rows' hashes, which is random: the first of them stand for all.
    place = place[np.argsort(sample.copies.group[place], kind="stable")]
    if not len(place):
        return layer, 0
    z, y, weights = sample.z[place], sample.y[place], sample.weights[place]
    # Copies of a row are one row.
    groups, first, which = np.unique(sample.copies.group[place], return_index=True, return_inverse=True)
    total = np.asarray(np.bincount(which, weights), dtype=np.float64)
    mean = np.stack([np.bincount(which, weights * column) for column in y.T], axis=1) / total[:, None]
    some = slice(KERNEL_ROWS)
    gradients, rounds = kernel_gradients(z[first[some]], mean[some], total[some], most)
    if gradients is None:
        return layer, 0
    gradients = metric.resolved(gradients)
    if len(groups) > 2 * KERNEL_ROWS:
        gradients = _sharpened(layer.narrowed(_REDRAW_WIDTH), z, y, weights, len(groups), metric, gradients)
    return layer.redrawn(gradients, metric), rounds


def _sharpened(
    layer: FirstLayer, z: Host, y: Host, weights: Host, distinct: int, metric: Metric, gradients: Host
) -> Host:
    """Return gradients of networks whose layers are drawn along the gradients before."""
    # Gradients of so many rows span the directions.
    most = slice(_SIDE if z.shape[1] > _SIDE else max(REDRAW_ROWS // y.shape[1], _SIDE))
    for _ in range(_SHARPENING):
        current = layer.redrawn(gradients, metric)
        coefficients = _readout(current, z, y, weights, distinct)
        found = metric.resolved(average_gradients(current, coefficients, z[most], weights[most]))
        if not np.isfinite(found).all() or not found.any():
            break
        gradients = found
    return gradients


def _readout(layer: FirstLayer, z: Host, y: Host, weights: Host, distinct: int) -> Host:
    """Return the coefficients (N, k) of a ridge fit, with the penalty of generalised cross-validation."""
    every = np.arange(len(y))

    def blocks() -> Iterator[tuple[Array, NDArray[np.intp]]]:
        yield layer.features(HOST, z), every

    ridge = factorise(blocks, len(y), layer.width, y, weights)
    penalties = penalty_path(ridge)[::2]
    residual = ridge.squared_residuals(penalties, float(weights @ ((y - ridge.target_mean) ** 2).sum(axis=1)))
    freedom = 1 - (1 + ridge.degrees_of_freedom(penalties)) / distinct
    errors = np.where(freedom > _FREEDOM, residual / np.maximum(freedom, _FREEDOM) ** 2, np.inf)
    return ridge.fitted(float(penalties[len(errors) - 1 - int(np.argmin(errors[::-1]))]))[0]


def average_gradients(layer: FirstLayer, coefficients: Host, z: Host, weights: Host) -> Host:
    """Return a matrix R with ``R^T R`` equal to the average gradient outer product of a network over some rows.

    Parameters
    ----------
    layer : FirstLayer
    coefficients : ndarray, shape (N, k)
        Coefficients of the readout; the outer products are added over its outputs.
    z : ndarray, shape (n, d)
    weights : ndarray, shape (n,)

    Returns
    -------
    ndarray, shape (n k, d)
        Rows in the order of the inputs, the outputs of one input together.
    """
    slopes = layer.slopes(z) * np.sqrt(weights / weights.sum())[:, None]
    gradients = [(slopes * column) @ layer.weights for column in coefficients.T]
    return np.stack(gradients, axis=1).reshape(-1, z.shape[1])


def fit_on(
    layer: FirstLayer, sample: Sample, rows: Rows, metric: Metric, move: Move, n_steps: int, penalty: float
) -> tuple[FirstLayer, Host, Host]:
    """Take a step and fit the readout on some of the rows.

    Parameters
    ----------
    layer : FirstLayer
        As drawn.
    sample : Sample
    rows : ndarray of bool, shape (n,)
        The rows to use, those of the step for the step and those of the fit for the readout.
    metric : Metric
    move : Move
    n_steps : int
    penalty : float
        Relative to the mean squared length of a row of centred features.

    Returns
    -------
    layer : FirstLayer
        After the step.
    coefficients : ndarray, shape (N, k)
    intercepts : ndarray, shape (k,)

    Raises
    ------
    OutOfRange
        If features overflow.
    """
    if move != NO_STEP:
        layer = moved_on(layer, sample, sample.step_rows & rows, metric, move, n_steps)
    place = np.flatnonzero(sample.fit_rows & rows)

    def blocks() -> Iterator[tuple[Array, NDArray[np.intp]]]:
        yield layer.features(HOST, sample.z[place]), place

    ridge = factorise(blocks, len(place), layer.width, sample.y, sample.weights)
    return layer, *ridge.fitted(max(penalty * ridge.mean_square, ridge.floor))


def eta_of(move: Move, layer: FirstLayer, change: Host, metric: Metric, n_steps: int) -> float:
    """Return the eta that moves the pre-activations by ``move.scale / n_steps``; zero where `change` does not."""
    moved = metric.movement(layer.weights, change)
    return move.scale / n_steps / moved * math.sqrt(layer.width) if moved > 0 else 0.0
