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
from scipy.linalg import LinAlgError, cho_solve, cholesky, solve_triangular

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
    "left_out_directly",
    "penalty_path",
    "scores_of",
]

#: Called with outputs (rows, k, P) and targets (rows, k, 1); tells where they mean different classes, shape (rows, P).
Mistaken = Callable[[Host, Host], NDArray[np.bool_]]

PATH: Host = np.logspace(-7, 3, 31)
"""Penalties tried, relative to the mean eigenvalue of the scatter matrix."""

SCORED_ROWS = 16384
"""Rows on which leave-one-out errors are measured, where there are more."""

#: Penalties for which a factorisation of each is less work than all eigenvectors, and the smallest over the trace of
#: the scatter matrix that its factor resolves to seven digits.
_FEW, _RESOLVED = 8, 1e-9
#: Where rows are interpolated, the errors of all small penalties have one limit, and differ by this much from rounding.
_EQUAL = 1e-6


@dataclass(frozen=True)
class Copies:
    """For every row, the total weight and the mean target of all rows with the same inputs."""

    weight: Host  #: Shape (n,).
    mean: Host  #: Shape (n, k).
    group: NDArray[np.intp]  #: A number that is equal for rows with the same inputs, shape (n,).

    def squared_shares(self, share: Host) -> float:
        """Return the sum of the squared shares of different rows: one over their number, if they have equal ones.

        The shares of all rows, shape (n,), add up to one. Copies of a row are one row with all of their shares.
        """
        whole = np.bincount(self.group, share)
        return float(whole @ whole)


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
    """Leave-one-out errors along a path."""

    penalties: Host  #: Shape (P,).
    squares: Host  #: Squared error of each scored row, mean over outputs. Shape (P, rows).
    weights: Host  #: Shape (rows,).
    #: Where the outputs mean another class than the targets; None for numbers. Shape (P, rows).
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

    The fit is one of `gradstep.simulation.ridge.factorise`, and `blocks` is a pass over the features of the rows to
    score. Targets, weights and copies are of all rows of the fit. For classes `mistaken` says of outputs (rows, k, P)
    and targets (rows, k, 1) where they mean different ones, shape (rows, P).
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

    The arguments are as for `leave_one_out`.
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


def left_out_directly(features: Host, copies: Copies, scored: NDArray[np.bool_], penalties: Host) -> Host | None:
    """Return what `left_out` yields for some rows of a fit that is held in memory, without eigenvectors.

    Each penalty takes a Cholesky factor of its own.

    The features have shape (n, N), and all weights of the copies are positive. `scored`, shape (n,), says of each row
    whether its outputs are wanted. The outputs have shape (rows, k, P). The function returns None where it would be
    more work or less accurate.
    """
    if len(penalties) > _FEW:
        return None
    # Copies are one row with their mean target, which leaves no direction that only copies have.
    _, first, which = np.unique(copies.group, return_index=True, return_inverse=True)
    features, targets, weights = features[first], copies.mean[first], copies.weight[first]
    asked, place_of = np.unique(which[scored], return_inverse=True)
    total, root = float(weights.sum()), np.sqrt(weights)[:, None]
    mean, target_mean = weights @ features / total, weights @ targets / total
    centred, y = root * (features - mean), root * (targets - target_mean)
    dual = len(features) <= features.shape[1]
    gram = centred @ centred.T if dual else centred.T @ centred
    size = float(np.trace(gram))
    if not float(penalties.min()) >= _RESOLVED * size:
        return None
    if dual:  # the direction that centring leaves without variance gets the mean one, and is taken out again below
        gram += (size / len(gram) / total) * (root * root.T)
    right, known = (y, np.eye(len(y))[:, asked]) if dual else (centred.T @ y, (features[asked] - mean).T)
    outputs = np.empty((len(asked), y.shape[1], len(penalties)))
    for place, penalty in enumerate(penalties):
        matrix = gram.copy()
        matrix.flat[:: len(matrix) + 1] += penalty
        try:
            factor = cholesky(matrix, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:
            return None
        solved = cho_solve((factor, True), right, check_finite=False)
        squares = np.sum(solve_triangular(factor, known, lower=True, check_finite=False) ** 2, axis=0)
        w = weights[asked]
        if dual:  # what is left of a target, over what is left of the leverage; both have the penalty as a factor
            rest = squares - w / total / (size / len(gram) + penalty)
            residual = solved[asked] / root[asked] / np.maximum(rest, 1e-12 / penalty)[:, None]
            outputs[:, :, place] = targets[asked] - residual
        else:
            leverage = np.minimum(w * (1 / total + squares), 1 - 1e-12)[:, None]
            outputs[:, :, place] = (target_mean + known.T @ solved - leverage * targets[asked]) / (1 - leverage)
    return np.asarray(outputs[place_of])
