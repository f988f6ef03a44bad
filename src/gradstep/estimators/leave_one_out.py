r"""Ridge regression with an intercept for a path of penalties, and its leave-one-out errors, from one factorisation.

.. math:: \min_{b, b_0} \sum_\mu \omega_\mu \bigl|y_\mu - b_0 - b^\top F_\mu\bigr|^2 + \Lambda |b|^2

Left out together are all copies of one input: with leverage ``h = W (1 / sum(omega) + f^T (A + Lambda)^-1 f)``, where
``f`` is the centred feature vector, ``A`` the weighted scatter matrix and ``W`` the weight of the copies, the
prediction without them is ``(fitted - h * mean) / (1 - h)`` with their mean target. So a repeated row does not vouch
for itself, and weights do exactly what repetition does. Without copies this is the usual ``residual / (1 - h)``.

Features are never held as a whole when there are more rows than features: the scatter matrix (N x N) is accumulated
over blocks, and the leverages are measured on at most `SCORED_ROWS` rows in a second pass. Otherwise the Gram matrix
(n x n) is factorised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from gradstep.simulation.backend import Array, Backend, to_host
from gradstep.threads import threads_for_factorisation

__all__ = ["PATH", "Copies", "OutOfRange", "Ridge", "Scores", "copies_of", "factorise"]

Host = NDArray[np.float64]

PATH: Host = np.logspace(-7, 3, 31)
"""Penalties tried, relative to the mean eigenvalue of the scatter matrix."""

SCORED_ROWS = 16384
"""Rows on which leave-one-out errors are measured, where there are more."""

#: Penalties below this times the largest eigenvalue drown in rounding.
_FLOOR = 1e-13
#: Where rows are interpolated, the errors of all small penalties are one limit; this is how far rounding parts them.
_EQUAL = 1e-6
#: Squares of eigenvalues enter; beyond this they overflow.
_LARGEST = 1e150

Blocks = Callable[[], Iterator[tuple[Array, NDArray[np.intp]]]]
"""Called for a fresh pass over the features (rows, N) and the places (rows,) of their targets."""


class OutOfRange(ArithmeticError):  # noqa: N818
    """Features are so large that what is made of them overflows."""


@dataclass(frozen=True)
class Copies:
    """For every row, the weight and the mean target of all rows with its inputs.

    Parameters
    ----------
    weight : ndarray, shape (n,)
    mean : ndarray, shape (n, k)
    group : ndarray of int, shape (n,)
        Equal for copies.
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
    """

    penalties: Host
    squares: Host
    weights: Host

    @property
    def errors(self) -> Host:
        """Weighted mean squares, shape (P,)."""
        return np.asarray(self.squares @ self.weights / self.weights.sum())

    def of(self, rows: NDArray[np.bool_]) -> Self:
        """Return those of some of the scored rows."""
        return replace(self, squares=self.squares[:, rows], weights=self.weights[rows])

    @property
    def best(self) -> int:
        """Place of the least error; of equal ones, as nearly as rounding leaves them, the largest penalty."""
        errors = self.errors
        return int(np.flatnonzero(errors <= errors.min() * (1 + _EQUAL))[-1])


@dataclass(frozen=True)
class Ridge:
    """A factorised ridge problem; fitting for another penalty costs next to nothing.

    Parameters
    ----------
    mean : ndarray, shape (N,)
        Weighted mean of the features.
    eigenvalues : ndarray, shape (r,)
        Of the scatter matrix.
    basis : array, shape (N, r)
        Its eigenvectors, or ``F^T V`` on the Gram side, on the device.
    projected : ndarray, shape (r, k)
        Targets in that basis, to be divided by ``eigenvalue + penalty``.
    target_mean : ndarray, shape (k,)
    total : float
        Sum of the weights.
    leverage_scale : ndarray, shape (r,)
        ``f^T (A + penalty)^-1 f = sum_r (f basis)_r^2 leverage_scale_r / (eigenvalue_r + penalty)`` on rows of the fit.
    """

    mean: Host
    eigenvalues: Host
    basis: Array
    projected: Host
    target_mean: Host
    total: float
    leverage_scale: Host

    @property
    def path(self) -> Host:
        """Penalties worth trying."""
        scale = float(self.eigenvalues.sum()) / self.mean.shape[0]
        return np.maximum(PATH * (scale or 1.0), 10 * self.floor)

    @property
    def mean_square(self) -> float:
        """Mean squared length of a row of centred features; one where they do not vary."""
        return float(self.eigenvalues.sum()) / self.total or 1.0

    @property
    def floor(self) -> float:
        """Smallest penalty that double precision resolves."""
        return _FLOOR * float(self.eigenvalues[-1])

    def degrees_of_freedom(self, penalty: float) -> float:
        """Return the trace of the hat matrix, the intercept not included."""
        return float(np.sum(self.eigenvalues / (self.eigenvalues + penalty)))

    def fitted(self, penalty: float) -> tuple[Host, Host]:
        """Return coefficients (N, k) and intercepts (k,)."""
        shrunk = self.projected / (self.eigenvalues + penalty)[:, None]
        coefficients = to_host(self.basis @ _like(self.basis, shrunk))
        return coefficients, self.target_mean - self.mean @ coefficients

    def scores(
        self, backend: Backend, blocks: Blocks, targets: Host, weights: Host, copies: Copies, penalties: Host
    ) -> Scores:
        """Measure leave-one-out errors on rows of the fit.

        Parameters
        ----------
        backend : Backend
        blocks : callable
            A pass over the features of the rows to score.
        targets, weights, copies
            Of all rows of the fit.
        penalties : ndarray, shape (P,)
        """
        inverse = 1 / (self.eigenvalues[:, None] + penalties)
        k = self.projected.shape[1]
        pieces, places = [], []
        for features, index in blocks():
            place = to_host((backend.double(features) - backend.double(self.mean)) @ self.basis)
            bare = place**2 @ (self.leverage_scale[:, None] * inverse)
            leverage = np.minimum(copies.weight[index][:, None] * (1 / self.total + bare), 1 - 1e-12)
            squares = np.zeros(leverage.shape)
            for output in range(k):
                fitted = self.target_mean[output] + place @ (self.projected[:, output, None] * inverse)
                without = (fitted - leverage * copies.mean[index, output, None]) / (1 - leverage)
                squares += (targets[index, output, None] - without) ** 2 / k
            pieces.append(squares)
            places.append(index)
        return Scores(penalties, np.concatenate(pieces).T, weights[np.concatenate(places)])


def factorise(backend: Backend, blocks: Blocks, rows: int, width: int, targets: Host, weights: Host) -> Ridge:
    """Factorise the smaller of the two Gram matrices.

    Parameters
    ----------
    backend : Backend
        Where features are computed; products of features are formed in its precision and added up in double.
    blocks : callable
        A pass over the features of all rows of the fit.
    rows, width : int
        How many rows and features there are.
    targets : ndarray, shape (n, k)
    weights : ndarray, shape (n,)

    Returns
    -------
    Ridge

    Raises
    ------
    OutOfRange
        If the features are too large, infinite or no numbers.
    """
    return (_gram_side if rows <= width else _scatter_side)(backend, blocks, width, targets, weights)


def _gram_side(backend: Backend, blocks: Blocks, width: int, targets: Host, weights: Host) -> Ridge:
    pieces = [(backend.double(features), index) for features, index in blocks()]
    index = np.concatenate([place for _, place in pieces])
    features = array_namespace(pieces[0][0]).concat([block for block, _ in pieces], axis=0)
    w, y = weights[index], targets[index]
    total = float(w.sum())
    mean = backend.double(w) @ features / total
    target_mean = w @ y / total
    root = np.sqrt(w)
    features = (features - mean) * backend.double(root)[:, None]
    values, vectors = _eigh(features @ features.T)
    # A centred Gram matrix has a null vector at least; directions without variance carry no coefficient.
    kept = values > max(_FLOOR * values[-1], 1e-300) if values[-1] > 0 else np.ones(len(values), dtype=bool)
    values, host_vectors = values[kept], to_host(vectors)[:, kept]
    basis = features.T @ backend.double(host_vectors)
    projected = host_vectors.T @ (root[:, None] * (y - target_mean))
    scale = 1 / np.where(values > 0, values, 1.0)
    return Ridge(to_host(mean), values, basis, projected, target_mean, total, scale)


def _scatter_side(backend: Backend, blocks: Blocks, width: int, targets: Host, weights: Host) -> Ridge:
    scatter = backend.zeros((width, width))
    sums, moments = backend.zeros((width,)), backend.zeros((width, targets.shape[1]))
    total, target_sum, pilot = 0.0, np.zeros(targets.shape[1]), None
    for features, index in blocks():
        w, y = weights[index], targets[index]
        if pilot is None:  # any point near the mean: it keeps the subtraction below from losing digits
            pilot = array_namespace(features).mean(features, axis=0)
        root = np.sqrt(w)
        features -= pilot
        if (w != 1).any():
            features *= backend.data(root)[:, None]
        scatter += backend.double(features.T @ features)  # NumPy calls the symmetric rank-k update for A^T A
        sums += backend.double(features.T @ backend.data(root))
        moments += backend.double(features.T @ backend.data(root[:, None] * y))
        total += float(w.sum())
        target_sum += w @ y
    target_mean = target_sum / total
    scatter -= sums[:, None] * sums[None, :] / total
    values, vectors = _eigh(scatter)
    projected = to_host(vectors.T @ (moments - sums[:, None] * backend.double(target_mean)[None, :]))
    mean = to_host(backend.double(pilot) + sums / total)
    return Ridge(mean, values, vectors, projected, target_mean, total, np.ones(len(values)))


def _eigh(matrix: Array) -> tuple[Host, Array]:
    linalg = array_namespace(matrix).linalg
    if not float(linalg.trace(matrix)) < _LARGEST:  # every feature that is not finite has its place on the diagonal
        raise OutOfRange
    with threads_for_factorisation(matrix.shape[0]):
        values, vectors = linalg.eigh(matrix)
    return np.maximum(to_host(values), 0.0), vectors


def _like(array: Array, values: Host) -> Array:
    xp = array_namespace(array)
    return xp.asarray(values, dtype=array.dtype, device=getattr(array, "device", None))
