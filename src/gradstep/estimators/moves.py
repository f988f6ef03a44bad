r"""Moves of the first layer on some rows of a sample: gradient steps, and rounds that draw it again.

A gradient step turns the neurons towards one direction. Targets may depend on several. A function that was fitted to
them knows these directions: it varies along them and hardly along the others. They are found in rounds
(`gradstep.estimators.kernel_rounds`), as the average gradient outer product

.. math:: M = E\,\nabla f(z)\,\nabla f(z)^\top.

The neurons are then drawn again with rows :math:`w_i\sim N(0, M)`, scaled so that the pre-activations keep their size.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradstep.estimators.kernel_rounds import KERNEL_ROWS, kernel_gradients
from gradstep.estimators.layer import FirstLayer
from gradstep.estimators.metric import Metric
from gradstep.estimators.rows import HOST, Sample
from gradstep.simulation.leave_one_out import penalty_path

__all__ = [
    "NO_STEP",
    "REDRAW_ROWS",
    "ROUNDS",
    "Move",
    "average_gradients",
    "gradient_on",
    "gradient_rows",
    "moved_on",
    "redrawn_on",
    "stepped",
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
#: Gradients that are averaged, over rows and outputs, at most, but those of so many rows at least.
_GRADIENTS, _FEWEST_ROWS = 2048, 256


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


def gradient_on(layer: FirstLayer, sample: Sample, rows: Rows) -> Host:
    """Return the mean gradient over some rows of a sample; zero without rows."""
    w = sample.weights[rows]
    # No rows with a single fold: too few distinct ones to leave some out of the step.
    return layer.gradient(HOST, [(sample.z[rows], sample.y[rows], w)]) / (float(w.sum()) or 1.0)


def stepped(
    layer: FirstLayer,
    gradient: Callable[[FirstLayer], Host],
    metric: Metric,
    move: Move,
    n_steps: int,
    *,
    eta: float | None = None,
) -> tuple[FirstLayer, float]:
    """Take gradient steps that share a move, each along the damped gradient of the layer; return the layer and eta.

    Without a given `eta` the first step moves the pre-activations by ``move.scale / n_steps``; eta is zero where the
    gradient does not move them.
    """
    for _ in range(n_steps):
        change = metric.damped(gradient(layer), move.damping)
        if eta is None:
            moved = metric.movement(layer.weights, change)
            eta = move.scale / n_steps / moved * math.sqrt(layer.width) if moved > 0 else 0.0
        layer = layer.moved(change, eta, metric)
    return layer, float(eta or 0.0)


def moved_on(
    layer: FirstLayer,
    sample: Sample,
    rows: Rows,
    metric: Metric,
    move: Move,
    n_steps: int,
    *,
    eta: float | None = None,
    first: Host | None = None,
) -> FirstLayer:
    """Return the layer after a move on some rows: as `redrawn_on`, or as `stepped` with the gradient on these rows.

    `first` is the gradient of the first step, where it is known.
    """
    if move == NO_STEP:
        return layer
    if move.rounds:
        return redrawn_on(layer, sample, rows, metric, move.rounds)[0]

    def gradient(current: FirstLayer) -> Host:
        return first if first is not None and current is layer else gradient_on(current, sample, rows)

    return stepped(layer, gradient, metric, move, n_steps, eta=eta)[0]


def redrawn_on(layer: FirstLayer, sample: Sample, rows: Rows, metric: Metric, most: int) -> tuple[FirstLayer, int]:
    """Draw the layer again along the gradients of a function that is fitted to some rows, in rounds.

    The rounds are those of `kernel_gradients`, on `KERNEL_ROWS` distinct rows. If there are more than twice as many,
    two networks with layers that are drawn along its gradients are fitted to all of them, one after the other: they
    have less noise. Return the layer, itself if the function is constant, and the number of rounds, `most` at most.
    Raises `OutOfRange` if features overflow.
    """
    gradients, rounds, seen, distinct = _rounds_on(sample, rows, most)
    if gradients is None:
        return layer, rounds
    gradients = metric.resolved(gradients)
    if distinct > 2 * KERNEL_ROWS:
        gradients = _sharpened(layer.narrowed(_REDRAW_WIDTH), sample.of(seen), distinct, metric, gradients)
    return layer.redrawn(gradients, metric), rounds


def _rounds_on(sample: Sample, rows: Rows, most: int) -> tuple[Host | None, int, NDArray[np.intp], int]:
    """Return the gradients of kernel fits to some rows, how many rounds there were, these rows, and how many differ.

    The rows are in the order of their hashes. As no layer is part of it, all layers on the same rows share the result.
    """
    key = np.packbits(rows).tobytes(), most
    if key not in sample.kernel_fits:
        sample.kernel_fits[key] = _kernel_rounds(sample, rows, most)
    found: tuple[Host | None, int, NDArray[np.intp], int] = sample.kernel_fits[key]
    return found


def _kernel_rounds(sample: Sample, rows: Rows, most: int) -> tuple[Host | None, int, NDArray[np.intp], int]:
    place = np.flatnonzero(rows & (sample.weights > 0))
    if not len(place):
        return None, 0, place, 0
    # In the order of the rows' hashes, which is random: the first of them stand for all.
    place = place[np.argsort(sample.copies.group[place], kind="stable")]
    seen = sample.of(place)
    # Copies of a row are one row, with their mean target.
    _, first, which = np.unique(seen.copies.group, return_index=True, return_inverse=True)
    total = np.asarray(np.bincount(which, seen.weights), dtype=np.float64)
    mean = np.stack([np.bincount(which, seen.weights * column) for column in seen.y.T], axis=1) / total[:, None]
    some = slice(KERNEL_ROWS)
    gradients, rounds = kernel_gradients(seen.z[first[some]], mean[some], total[some], most)
    return gradients, 0 if gradients is None else rounds, place, len(first)


def _sharpened(layer: FirstLayer, sample: Sample, distinct: int, metric: Metric, gradients: Host) -> Host:
    """Return gradients of networks whose layers are drawn along the gradients before."""
    most = _SIDE if sample.z.shape[1] > _SIDE else max(REDRAW_ROWS // sample.y.shape[1], _SIDE)
    some = sample.of(np.arange(min(most, len(sample.y))))  # gradients of so many rows span the directions
    for _ in range(_SHARPENING):
        current = layer.redrawn(gradients, metric)
        found = metric.resolved(average_gradients(current, _readout(current, sample, distinct), some))
        if not np.isfinite(found).all() or not found.any():
            break
        gradients = found
    return gradients


def _readout(layer: FirstLayer, sample: Sample, distinct: int) -> Host:
    """Return the coefficients (N, k) of a ridge fit, with the penalty of generalised cross-validation."""
    ridge = replace(sample, z=layer.features(HOST, sample.z)).ridge()
    penalties = penalty_path(ridge)[::2]
    residual = ridge.squared_residuals(
        penalties, float(sample.weights @ ((sample.y - ridge.target_mean) ** 2).sum(axis=1))
    )
    freedom = 1 - (1 + ridge.degrees_of_freedom(penalties)) / distinct
    errors = np.where(freedom > _FREEDOM, residual / np.maximum(freedom, _FREEDOM) ** 2, np.inf)
    return ridge.fitted(float(penalties[len(errors) - 1 - int(np.argmin(errors[::-1]))]))[0]


def gradient_rows(outputs: int) -> int:
    """Return of how many rows the gradients are averaged, at most."""
    return max(_GRADIENTS // outputs, _FEWEST_ROWS)


def average_gradients(layer: FirstLayer, coefficients: Host, sample: Sample) -> Host:
    """Return a matrix R with ``R^T R`` equal to the average gradient outer product of a network over n rows.

    The readout has coefficients (N, k), and the outer products are added over its outputs. The matrix, shape (n k, d),
    has its rows in the order of the inputs, the outputs of one input together.
    """
    slopes = layer.slopes(sample.z) * np.sqrt(sample.weights / sample.weights.sum())[:, None]
    gradients = [(slopes * column) @ layer.weights for column in coefficients.T]
    return np.stack(gradients, axis=1).reshape(-1, sample.z.shape[1])
