r"""Leave-one-out errors of ridge regression along a path of penalties, from one factorisation.

All copies of one input are left out together. With leverage ``h = W (1 / sum(omega) + f^T (A + Lambda)^-1 f)``, where
``f`` is the centred feature vector, ``A`` the weighted scatter matrix and ``W`` the weight of the copies, the
prediction without them is ``(fitted - h * mean) / (1 - h)`` with their mean target. Therefore a repeated row cannot
predict itself, and a weight has exactly the effect of repetition. Without copies this is the usual ``residual / (1 -
h)``, and without an intercept the first term of the leverage is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from gradstep.simulation.backend import to_host
from gradstep.simulation.ridge import Host, IndexedBlocks, Ridge, double, like

__all__ = [
    "PATH",
    "SCORED_ROWS",
    "Copies",
    "Mistaken",
    "Scores",
    "copies_of",
    "leave_one_out",
    "left_out",
    "penalty_path",
    "scores_of",
]

#: Called with outputs (rows, k, P) and targets (rows, k, 1); tells where they mean different classes, shape (rows, P).
Mistaken = Callable[[Host, Host], NDArray[np.bool_]]

PATH: Host = np.logspace(-7, 3, 31)
"""Penalties tried, relative to the mean eigenvalue of the scatter matrix."""

SCORED_ROWS = 16384
"""Rows on which leave-one-out errors are measured, where there are more."""

#: Where rows are interpolated, the errors of all small penalties have one limit, and differ by this much from rounding.
_EQUAL = 1e-6


@dataclass(frozen=True)
class Copies:
    """For every row, the total weight and the mean target of all rows with the same inputs.

    Parameters
    ----------
    weight : ndarray, shape (n,)
    mean : ndarray, shape (n, k)
    group : ndarray of int, shape (n,)
        A number that is equal for rows with the same inputs.
    """

    weight: Host
    mean: Host
    group: NDArray[np.intp]


def copies_of(hashes: NDArray[np.uint64], targets: Host, weights: Host) -> Copies:
    """Find the copies of every row by the hashes of its inputs."""
    distinct, group = np.unique(hashes, return_inverse=True)
    if len(distinct) == len(hashes):
        return Copies(weights, targets, group)
    weight = np.asarray(np.bincount(group, weights), dtype=np.float64)
    sums = np.stack([np.bincount(group, weights * column) for column in targets.T], axis=1)
    mean = sums / np.where(weight > 0, weight, 1.0)[:, None]
    return Copies(weight[group], mean[group], group)


@dataclass(frozen=True)
class Scores:
    """Leave-one-out errors along a path.

    Parameters
    ----------
    penalties : ndarray, shape (P,)
    squares : ndarray, shape (P, rows)
        Squared error of each scored row, mean over outputs.
    weights : ndarray, shape (rows,)
    wrong : ndarray, shape (P, rows), optional
        Where the outputs mean another class than the targets; None for numbers.
    """

    penalties: Host
    squares: Host
    weights: Host
    wrong: NDArray[np.bool_] | None = None

    @property
    def errors(self) -> Host:
        """Return the weighted mean square for each penalty, shape (P,)."""
        return np.asarray(self.squares @ self.weights / self.weights.sum())

    def of(self, rows: NDArray[np.bool_]) -> Self:
        """Return the errors of some of the scored rows."""
        wrong = None if self.wrong is None else self.wrong[:, rows]
        return replace(self, squares=self.squares[:, rows], weights=self.weights[rows], wrong=wrong)

    @property
    def best(self) -> int:
        """Return the index of the least error; of errors that are equal up to rounding, that of the largest penalty."""
        errors = self.errors
        return int(np.flatnonzero(errors <= errors.min() * (1 + _EQUAL))[-1])


def penalty_path(ridge: Ridge) -> Host:
    """Return the path of penalties from which one is chosen."""
    scale = float(ridge.eigenvalues.sum()) / ridge.mean.shape[0]
    return np.maximum(PATH * (scale or 1.0), 10 * ridge.floor)


def leave_one_out(
    ridge: Ridge,
    blocks: IndexedBlocks,
    targets: Host,
    weights: Host,
    copies: Copies,
    penalties: Host,
    mistaken: Mistaken | None = None,
) -> Scores:
    """Measure leave-one-out errors on rows of the fit.

    Parameters
    ----------
    ridge : Ridge
        As `gradstep.simulation.ridge.factorise` returns it.
    blocks : callable
        A pass over the features of the rows to score.
    targets, weights, copies
        Values for all rows of the fit.
    penalties : ndarray, shape (P,)
    mistaken : callable, optional
        Says of outputs (rows, k, P) and targets (rows, k, 1) where they mean different classes, shape (rows, P).

    Returns
    -------
    Scores
    """
    return scores_of(left_out(ridge, blocks, copies, penalties), targets, weights, penalties, mistaken)


def scores_of(
    found: Iterable[tuple[NDArray[np.intp], Host]],
    targets: Host,
    weights: Host,
    penalties: Host,
    mistaken: Mistaken | None = None,
) -> Scores:
    """Return the errors of outputs that `left_out` has found at these penalties; arguments as for `leave_one_out`."""
    pieces, places, wrong = [], [], []
    for index, outputs in found:
        pieces.append(((targets[index, :, None] - outputs) ** 2).mean(axis=1))
        places.append(index)
        if mistaken is not None:
            wrong.append(mistaken(outputs, targets[index, :, None]))
    classes = np.concatenate(wrong).T if wrong else None
    return Scores(penalties, np.concatenate(pieces).T, weights[np.concatenate(places)], classes)


def left_out(
    ridge: Ridge, blocks: IndexedBlocks, copies: Copies, penalties: Host
) -> Iterator[tuple[NDArray[np.intp], Host]]:
    """Yield places of rows with the outputs for them of fits to all other rows, shape (rows, k, P).

    Parameters
    ----------
    ridge, blocks, copies, penalties
        As for `leave_one_out`.
    """
    inverse = 1 / (ridge.eigenvalues[:, None] + penalties)
    for features, index in blocks():
        place = to_host((double(features) - like(ridge.vectors, ridge.mean)) @ ridge.vectors)
        bare = place**2 @ (ridge.leverage_scale[:, None] * inverse)
        leverage = np.minimum(copies.weight[index][:, None] * (1 / ridge.total + bare), 1 - 1e-12)
        outputs = np.empty((len(index), ridge.projected.shape[1], len(penalties)))
        for k in range(outputs.shape[1]):
            fitted = ridge.target_mean[k] + place @ (ridge.projected[:, k, None] * inverse)
            outputs[:, k] = (fitted - leverage * copies.mean[index, k, None]) / (1 - leverage)
        yield index, outputs
