r"""Ridge regression of the readout for a whole path of penalties from one factorisation.

.. math:: \min_b \sum_\mu \bigl(y_\mu - \langle b, F_\mu\rangle\bigr)^2 + \Lambda |b|^2

The factorisation is that of the smaller Gram matrix: ``F F^T`` (n x n, dual) when ``n <= N``, otherwise ``F^T F``
(N x N, primal), which is accumulated over blocks of rows so that ``F`` is never stored. A Gram matrix squares the
condition number, so its relative error ``epsilon * (largest eigenvalue) / (smallest eigenvalue + penalty)`` is checked
and, when it exceeds `ACCURACY`, the fit is done again from a singular value decomposition of ``F`` (of its triangular
factor, block by block, in the primal case), which squares nothing.

In the dual case the training residual is ``penalty * (F F^T + penalty)^-1 y``, exact to the last digits even when the
network interpolates. In the primal case it is ``|y|^2 - 2 <b, F^T y> + <b, F^T F b>``, which costs no second pass
over the data; when rounding could spoil it (a training error many orders of magnitude below the labels), the data are
generated again and the residuals summed one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from array_api_compat import array_namespace, is_numpy_array
from numpy.typing import NDArray
from scipy.linalg import lapack

from gradstep.simulation.backend import Array, to_host
from gradstep.threads import threads_for_factorisation

ACCURACY = 1e-9
"""Relative error above which a cheap formula is replaced by a stable one."""

_EPSILON = float(np.finfo(np.float64).eps)

Blocks = Callable[[], Iterator[tuple[Array, Array]]]
"""Called for a fresh pass over the blocks ``(F, y)`` of features (rows, N) and labels (rows,), double precision."""


@dataclass(frozen=True)
class RidgePath:
    """Fitted readouts for a path of P penalties.

    Parameters
    ----------
    readouts : array, shape (N, P)
        One fitted readout a column, on the device of the features.
    squared_residual : ndarray, shape (P,)
        ``sum_mu (y_mu - <b, F_mu>)^2``.
    squared_norm : ndarray, shape (P,)
        ``|b|^2``.
    degrees_of_freedom : ndarray, shape (P,)
        Trace of the hat matrix, ``tr F (F^T F + penalty)^-1 F^T``.
    penalties : sequence of float
    samples : int
        ``n``.
    """

    readouts: Array
    squared_residual: NDArray[np.float64]
    squared_norm: NDArray[np.float64]
    degrees_of_freedom: NDArray[np.float64]
    penalties: Sequence[float]
    samples: int

    @property
    def train_error(self) -> NDArray[np.float64]:
        """Mean squared residual, shape (P,)."""
        return self.squared_residual / self.samples

    @property
    def train_loss(self) -> NDArray[np.float64]:
        """Minimum of the objective divided by n, shape (P,)."""
        return (self.squared_residual + np.asarray(self.penalties) * self.squared_norm) / self.samples


def fit_ridge(blocks: Blocks, rows: int, width: int, penalties: Sequence[float]) -> RidgePath:
    """Fit the readout for every penalty.

    Parameters
    ----------
    blocks : callable
        Gives a fresh pass over the features and labels.
    rows, width : int
        Sample size ``n`` and number of features ``N``.
    penalties : sequence of float
        Positive penalties, in any order.

    Returns
    -------
    RidgePath
        In the order of `penalties`.
    """
    if rows <= width:
        features, labels = _gathered(blocks)
        return dual_path(features, labels, penalties)
    gram, moment, label_square = _accumulated(blocks)
    path = primal_path(gram, moment, label_square, rows, penalties)
    if path is None:
        return triangular_path(blocks, rows, penalties)
    largest = float(np.max(path.squared_norm)) * float(array_namespace(gram).linalg.matrix_norm(gram))
    if _EPSILON * (label_square + largest) > ACCURACY * float(np.min(path.squared_residual)):
        path = replace(path, squared_residual=_summed_residuals(blocks, path.readouts))
    return path


def fit_rows(features: Array, labels: Array, penalties: Sequence[float]) -> RidgePath:
    """Fit the readout to features (n, N) that are held as a whole, and labels (n,)."""
    rows, width = features.shape
    return fit_ridge(lambda: iter([(features, labels)]), rows, width, penalties)


def dual_path(features: Array, labels: Array, penalties: Sequence[float]) -> RidgePath:
    """Fit from the n x n Gram matrix, or from the features themselves when that would lose too many digits.

    Parameters
    ----------
    features : array, shape (n, N)
        Features, double precision.
    labels : array, shape (n,)
        Labels.
    penalties : sequence of float
        Positive penalties.

    Returns
    -------
    RidgePath
        Valid for any n and N; meant for ``n <= N``.
    """
    xp = array_namespace(features)
    gram = features @ features.T
    lam = _row(features, penalties)
    if len(penalties) == 1 and is_numpy_array(features):
        solved = _cholesky(gram, labels, penalties[0])
        if solved is not None:
            weights, freedom = solved
            readouts = (features.T @ weights)[:, None]
            residual = np.array([penalties[0] ** 2 * float(weights @ weights)])
            norm = _square_sums(readouts)
            return RidgePath(readouts, residual, norm, np.array([freedom]), penalties, len(labels))
        return _singular_path(features, labels, 0.0, labels.shape[0], penalties)
    eigenvalues, vectors = _eigh(gram)
    if not _trusted(eigenvalues, penalties):
        return _singular_path(features, labels, 0.0, labels.shape[0], penalties)
    shrunk = (vectors.T @ labels)[:, None] / (eigenvalues[:, None] + lam)
    readouts = features.T @ (vectors @ shrunk)
    freedom = xp.sum(eigenvalues[:, None] / (eigenvalues[:, None] + lam), axis=0)
    residual, norm = _square_sums(lam * shrunk), _square_sums(readouts)
    return RidgePath(readouts, residual, norm, to_host(freedom), penalties, labels.shape[0])


def primal_path(
    gram: Array, moment: Array, label_square: float, samples: int, penalties: Sequence[float]
) -> RidgePath | None:
    """Fit from the N x N Gram matrix.

    Parameters
    ----------
    gram : array, shape (N, N)
        ``F^T F``.
    moment : array, shape (N,)
        ``F^T y``.
    label_square : float
        ``|y|^2``.
    samples : int
        ``n``.
    penalties : sequence of float
        Positive penalties.

    Returns
    -------
    RidgePath or None
        None when the Gram matrix has lost too many digits for the smallest penalty.
    """
    xp = array_namespace(gram)
    lam = _row(gram, penalties)
    if len(penalties) == 1 and is_numpy_array(gram):
        solved = _cholesky(gram, moment, penalties[0])
        if solved is None:
            return None
        readouts, freedom = solved[0][:, None], np.array([solved[1]])
    else:
        eigenvalues, vectors = _eigh(gram)
        if not _trusted(eigenvalues, penalties):
            return None
        readouts = vectors @ ((vectors.T @ moment)[:, None] / (eigenvalues[:, None] + lam))
        freedom = to_host(xp.sum(eigenvalues[:, None] / (eigenvalues[:, None] + lam), axis=0))
    residual = label_square - 2 * (moment @ readouts) + xp.sum(readouts * (gram @ readouts), axis=0)
    residual = np.maximum(to_host(residual), 0.0)
    return RidgePath(readouts, residual, _square_sums(readouts), freedom, penalties, samples)


def triangular_path(blocks: Blocks, samples: int, penalties: Sequence[float]) -> RidgePath:
    """Fit from the triangular factor of ``[F, y]``, updated block by block; no condition number is squared.

    Parameters
    ----------
    blocks : callable
        Gives a fresh pass over the features and labels; at least N + 1 rows in all.
    samples : int
        ``n``.
    penalties : sequence of float
        Positive penalties.

    Returns
    -------
    RidgePath
        Accurate for any positive penalty.
    """
    factor: Array | None = None
    for features, labels in blocks():
        xp = array_namespace(features)
        stacked = xp.concat([features, labels[:, None]], axis=1)
        if factor is not None:
            stacked = xp.concat([factor, stacked], axis=0)
        with threads_for_factorisation(min(stacked.shape)):
            factor = xp.linalg.qr(stacked).R
    assert factor is not None
    width = factor.shape[1] - 1
    unexplained = float(factor[width, width]) ** 2
    return _singular_path(factor[:width, :width], factor[:width, width], unexplained, samples, penalties)


def _singular_path(
    features: Array, labels: Array, unexplained: float, samples: int, penalties: Sequence[float]
) -> RidgePath:
    """Fit from a singular value decomposition; `unexplained` is a residual that no readout can reach."""
    xp = array_namespace(features)
    lam = _row(features, penalties)
    with threads_for_factorisation(min(features.shape)):
        left, singular, right = xp.linalg.svd(features, full_matrices=False)
    projected = (left.T @ labels)[:, None]
    square = (singular**2)[:, None]
    readouts = right.T @ (singular[:, None] * projected / (square + lam))
    outside = labels - left @ projected[:, 0]  # rounding only, unless there are more rows than features
    residual = _square_sums(lam * projected / (square + lam)) + float(outside @ outside) + unexplained
    freedom = to_host(xp.sum(square / (square + lam), axis=0))
    return RidgePath(readouts, residual, _square_sums(readouts), freedom, penalties, samples)


def _gathered(blocks: Blocks) -> tuple[Array, Array]:
    pieces = list(blocks())
    if len(pieces) == 1:
        return pieces[0]
    xp = array_namespace(pieces[0][0])
    return xp.concat([f for f, _ in pieces], axis=0), xp.concat([y for _, y in pieces], axis=0)


def _accumulated(blocks: Blocks) -> tuple[Array, Array, float]:
    gram: Array = 0.0
    moment: Array = 0.0
    label_square = 0.0
    for features, labels in blocks():
        gram += features.T @ features  # NumPy calls the symmetric rank-k update for A^T A
        moment += features.T @ labels
        label_square += float(labels @ labels)
    return gram, moment, label_square


def _summed_residuals(blocks: Blocks, readouts: Array) -> NDArray[np.float64]:
    total = np.zeros(readouts.shape[1])
    for features, labels in blocks():
        total += _square_sums(labels[:, None] - features @ readouts)
    return total


def _cholesky(gram: Array, right_side: Array, penalty: float) -> tuple[Array, float] | None:
    """Solve ``(gram + penalty) x = right_side``; return x and the degrees of freedom, or None when ill-conditioned."""
    with threads_for_factorisation(gram.shape[0]):
        return _by_cholesky(gram, right_side, penalty)


def _by_cholesky(gram: Array, right_side: Array, penalty: float) -> tuple[Array, float] | None:
    shifted = gram.copy()
    size = shifted.shape[0]
    shifted.flat[:: size + 1] += penalty
    norm = float(np.max(np.sum(np.abs(shifted), axis=0)))
    factor, info = lapack.dpotrf(shifted.T, lower=1, overwrite_a=1, clean=0)
    if info != 0:
        return None
    reciprocal_condition, _ = lapack.dpocon(factor, norm, uplo="L")
    if ACCURACY * reciprocal_condition < _EPSILON:
        return None
    solution, _ = lapack.dpotrs(factor, right_side, lower=1)
    inverse, _ = lapack.dpotri(factor, lower=1, overwrite_c=1)
    freedom = size - penalty * float(np.sum(np.diagonal(inverse)))
    return solution, min(max(freedom, 0.0), float(size))


def _eigh(gram: Array) -> tuple[Array, Array]:
    xp = array_namespace(gram)
    with threads_for_factorisation(gram.shape[0]):
        eigenvalues, vectors = xp.linalg.eigh(gram)
    return xp.where(eigenvalues > 0, eigenvalues, 0 * eigenvalues), vectors


def _trusted(eigenvalues: Array, penalties: Sequence[float]) -> bool:
    smallest, largest = float(eigenvalues[0]), float(eigenvalues[-1])
    return _EPSILON * largest <= ACCURACY * (smallest + min(penalties))


def _row(like: Array, values: Sequence[float]) -> Array:
    xp = array_namespace(like)
    return xp.asarray([list(values)], dtype=xp.float64, device=getattr(like, "device", None))


def _square_sums(columns: Array) -> NDArray[np.float64]:
    return to_host(array_namespace(columns).sum(columns**2, axis=0))
