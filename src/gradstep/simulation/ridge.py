r"""Ridge regression of the readout: one factorisation for a whole path of penalties, and for its leave-one-out errors.

.. math:: \min_b \sum_\mu \bigl|y_\mu - b^\top F_\mu\bigr|^2 + \Lambda |b|^2

The factorisation is that of the smaller Gram matrix: ``F F^T`` (n x n, dual) when ``n <= N``, otherwise ``F^T F``
(N x N, primal), which is accumulated over blocks of rows so that ``F`` is never stored. `factorise` returns it, for
rows with weights and with an intercept if there is one; `fit_ridge` makes the fits without them, to full accuracy.

A Gram matrix squares the condition number, so its relative error ``epsilon * (largest eigenvalue) / (smallest
eigenvalue + penalty)`` is checked and, when it exceeds `ACCURACY`, the fit is done again from a singular value
decomposition of ``F`` (of its triangular factor, block by block, in the primal case), which squares nothing.

In the dual case the training residual is ``penalty * (F F^T + penalty)^-1 y``, exact to the last digits even when the
network interpolates. In the primal case it is ``|y|^2 - 2 <b, F^T y> + <b, F^T F b>``, which costs no second pass
over the data; when rounding could spoil it (a training error many orders of magnitude below the labels), the data are
generated again and the residuals summed one by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from array_api_compat import array_namespace, is_numpy_array, is_torch_array
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import lapack

from gradstep.resolution import NOTHING
from gradstep.simulation.backend import Array, to_host
from gradstep.threads import threads_for_factorisation

ACCURACY = 1e-9
"""Relative error above which a cheap formula is replaced by a stable one."""

_EPSILON = float(np.finfo(np.float64).eps)
#: Penalties and eigenvalues below this times the largest eigenvalue are lost in rounding.
_FLOOR = 1e-13
#: Squares of eigenvalues enter; beyond this they overflow.
_LARGEST = 1e150
#: Products of a matrix with a vector in an estimate of its largest eigenvalue.
_PRODUCTS = 6

Host = NDArray[np.float64]

Blocks = Callable[[], Iterator[tuple[Array, Array]]]
"""Called for a fresh pass over the blocks ``(F, y)`` of features (rows, N) and labels (rows,), double precision."""

IndexedBlocks = Callable[[], Iterator[tuple[Array, NDArray[np.intp]]]]
"""Called for a fresh pass over the features (rows, N) and the places (rows,) of their targets."""


class OutOfRange(ArithmeticError):  # noqa: N818
    """Features are so large that their products overflow."""


@dataclass(frozen=True)
class Ridge:
    """A factorised ridge problem; a fit with another penalty takes very little time."""

    eigenvalues: Host  #: Eigenvalues of the Gram matrix, not negative. Shape (r,).
    #: Matrix that turns weights of the eigenvectors into readouts, if needed by means of `features`.
    #: Shape (n, r) or (N, r).
    vectors: Array
    projected: Host  #: Targets in that basis, to be divided by ``eigenvalue + penalty``. Shape (r, k).
    features: Array | None  #: The features if the vectors are those of ``F F^T``, and None otherwise. Shape (n, N).
    #: ``f^T (F^T F + penalty)^-1 f = sum_r (f vectors)_r^2 leverage_scale_r / (eigenvalue_r + penalty)`` on rows of the
    #: fit, where the vectors have length N. Shape (r,).
    leverage_scale: Host
    mean: Host  #: Weighted mean of the features; zero without an intercept. Shape (N,).
    target_mean: Host  #: Weighted mean of the targets; zero without an intercept. Shape (k,).
    total: float  #: Sum of the weights; infinite without an intercept.

    @property
    def mean_square(self) -> float:
        """Mean squared length of a row of centred features; one where they do not vary."""
        return float(self.eigenvalues.sum()) / self.total or 1.0

    @property
    def floor(self) -> float:
        """Smallest penalty that double precision resolves."""
        return _FLOOR * float(self.eigenvalues[-1])

    def trusted(self, penalty: float) -> bool:
        """Whether the Gram matrix has kept enough digits for a penalty."""
        return _EPSILON * float(self.eigenvalues[-1]) <= ACCURACY * (float(self.eigenvalues[0]) + penalty)

    def degrees_of_freedom(self, penalties: ArrayLike) -> Host:
        """Return the trace of the hat matrix for each penalty, the intercept not included."""
        values = self.eigenvalues[:, None]
        return np.asarray(np.sum(values / (values + np.atleast_1d(penalties)), axis=0))

    def squared_residuals(self, penalties: ArrayLike, square: float) -> Host:
        """Return the weighted sum of squared residuals over all targets for each penalty, from that of the targets."""
        values, penalty = self.eigenvalues[:, None], np.atleast_1d(penalties)
        length = (np.sum(self.projected**2, axis=1) / self.leverage_scale)[:, None]
        explained = np.sum(length * (values + 2 * penalty) / (values + penalty) ** 2, axis=0)
        return np.maximum(square - np.asarray(explained), 0.0)

    def shrunk(self, penalties: ArrayLike) -> Host:
        """Return weights of the eigenvectors: one target for each penalty, or all targets (r, k) for one penalty."""
        return np.asarray(self.projected / (self.eigenvalues[:, None] + np.atleast_1d(penalties)))

    def readouts(self, penalties: ArrayLike) -> Array:
        """Return readouts (N, P) of one target, or (N, k) for one penalty, on the device."""
        readouts: Array = self.vectors @ like(self.vectors, self.shrunk(penalties))
        return readouts if self.features is None else self.features.T @ readouts

    def fitted(self, penalty: float) -> tuple[Host, Host]:
        """Return coefficients (N, k) and intercepts (k,)."""
        coefficients = to_host(self.readouts(penalty))
        return coefficients, self.target_mean - self.mean @ coefficients

    def lifted(self, targets: Host) -> Ridge:
        """Return the same with vectors over the features, and without directions that do not vary."""
        assert self.features is not None
        # A centred Gram matrix has a null vector at least; directions without variance carry no coefficient.
        values = self.eigenvalues
        kept = values > max(self.floor, NOTHING) if values[-1] > 0 else np.ones(len(values), dtype=bool)
        values, vectors = values[kept], to_host(self.vectors)[:, kept]
        return replace(
            self,
            eigenvalues=values,
            vectors=self.features.T @ like(self.features, vectors),
            projected=vectors.T @ targets,
            features=None,
            leverage_scale=1 / np.where(values > 0, values, 1.0),
        )


def factorise(
    blocks: IndexedBlocks, rows: int, width: int, targets: Host, weights: Host, *, intercept: bool = True
) -> Ridge:
    r"""Factorise :math:`\min_{b,b_0}\sum_\mu\omega_\mu|y_\mu-b_0-b^\top F_\mu|^2+\Lambda|b|^2`.

    `blocks` is a pass over the features of all rows of the fit, which may be overwritten. Products are formed in the
    precision of the features and added up in double. The targets have shape (n, k) and the weights (n,). Without an
    `intercept` :math:`b_0` is zero. The vectors of the result are over the features. Raises `OutOfRange` if the
    features are too large, infinite or not numbers.
    """
    side = _centred_gram if rows <= width else _centred_scatter
    return side(blocks, targets, weights, intercept)


def _centred_gram(blocks: IndexedBlocks, targets: Host, weights: Host, intercept: bool) -> Ridge:
    pieces = [(double(features), index) for features, index in blocks()]
    index = np.concatenate([place for _, place in pieces])
    features = array_namespace(pieces[0][0]).concat([block for block, _ in pieces], axis=0)
    w, y = weights[index], targets[index]
    total = float(w.sum()) if intercept else math.inf
    mean = like(features, w) @ features / total
    target_mean = w @ y / total
    root = np.sqrt(w)
    features = (features - mean) * like(features, root)[:, None]
    y = root[:, None] * (y - target_mean)
    gram, right = features @ features.T, like(features, y)
    return _factorised(gram, right, features, to_host(mean), target_mean, total).lifted(y)


def _centred_scatter(blocks: IndexedBlocks, targets: Host, weights: Host, intercept: bool) -> Ridge:
    scatter: Array = 0.0
    sums: Array = 0.0
    moments: Array = 0.0
    pilot: Array = None if intercept else 0.0
    total, target_sum = 0.0, np.zeros(targets.shape[1])
    for features, index in blocks():
        w, y = weights[index], targets[index]
        root = np.sqrt(w)
        if intercept:
            if pilot is None:  # any point near the mean: it keeps the subtraction below from losing digits
                pilot = array_namespace(features).mean(features, axis=0)
            features -= pilot
        if (w != 1).any():
            features *= like(features, root)[:, None]
        scatter += double(features.T @ features)  # NumPy calls the symmetric rank-k update for A^T A
        sums += double(features.T @ like(features, root))
        moments += double(features.T @ like(features, root[:, None] * y))
        total += float(w.sum())
        target_sum += w @ y
    if not intercept:
        total = math.inf
    target_mean = target_sum / total
    scatter -= sums[:, None] * sums[None, :] / total
    right = moments - sums[:, None] * like(sums, target_mean)[None, :]
    return _factorised(scatter, right, None, to_host(pilot + sums / total), target_mean, total)


def _factorised(
    gram: Array, right: Array, features: Array | None, mean: Host, target_mean: Host, total: float
) -> Ridge:
    linalg = array_namespace(gram).linalg
    if not float(linalg.trace(gram)) < _LARGEST:  # every feature that is not finite has its place on the diagonal
        raise OutOfRange("features overflow")
    with threads_for_factorisation(gram.shape[0]):
        values, vectors = linalg.eigh(gram)
    eigenvalues = np.maximum(to_host(values), 0.0)
    scale = np.ones(len(eigenvalues))
    return Ridge(eigenvalues, vectors, to_host(vectors.T @ right), features, scale, mean, target_mean, total)


def _plain(gram: Array, right: Array, features: Array | None = None) -> Ridge:
    """Factorise without weights and intercept, for one target."""
    return _factorised(gram, right[:, None], features, np.zeros(1), np.zeros(1), math.inf)


@dataclass(frozen=True)
class RidgePath:
    """Fitted readouts for a path of P penalties.

    Parameters
    ----------
    readouts : array, shape (N, P)
        Each column is a fitted readout, on the device of the features.
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
    """Fit the readout for every penalty, in their order.

    The penalties are positive, in any order. Each call of `blocks` gives a fresh pass over the features and labels.
    """
    if rows <= width:
        readouts, residual, freedom = dual(*_gathered(blocks), penalties)
    else:
        gram, moment, label_square = _accumulated(blocks)
        found = primal(gram, moment, label_square, penalties)
        readouts, residual, freedom = found or triangular(blocks, penalties)
        largest = float(np.max(_square_sums(readouts))) * float(array_namespace(gram).linalg.matrix_norm(gram))
        if found and _EPSILON * (label_square + largest) > ACCURACY * float(np.min(residual)):
            residual = _summed_residuals(blocks, readouts)
    return RidgePath(readouts, residual, _square_sums(readouts), freedom, tuple(penalties), rows)


def fit_rows(features: Array, labels: Array, penalties: Sequence[float]) -> RidgePath:
    """Fit the readout to features (n, N) that are held as a whole, and labels (n,)."""
    rows, width = features.shape
    return fit_ridge(lambda: iter([(features, labels)]), rows, width, penalties)


_Solution = tuple[Array, Host, Host]
"""Readouts (N, P), and for each penalty the squared residual and the degrees of freedom."""


def dual(features: Array, labels: Array, penalties: Sequence[float]) -> _Solution:
    """Fit from the n x n Gram matrix, or from the features themselves when that would lose too many digits."""
    gram = features @ features.T
    if len(penalties) == 1 and _has_cholesky(gram):
        solved = _cholesky(gram, labels, penalties[0])
        if solved is None:
            return _singular(features, labels, 0.0, penalties)
        weights, freedom = solved
        residual = np.array([penalties[0] ** 2 * float(weights @ weights)])
        return (features.T @ weights)[:, None], residual, np.array([freedom])
    ridge = _plain(gram, labels, features)
    if not ridge.trusted(min(penalties)):
        return _singular(features, labels, 0.0, penalties)
    residual = _square_sums(np.asarray(penalties) * ridge.shrunk(penalties))
    return ridge.readouts(penalties), residual, ridge.degrees_of_freedom(penalties)


def primal(gram: Array, moment: Array, label_square: float, penalties: Sequence[float]) -> _Solution | None:
    """Fit from ``F^T F``, ``F^T y`` and ``|y|^2``; return None if too many digits are lost."""
    if len(penalties) == 1 and _has_cholesky(gram):
        solved = _cholesky(gram, moment, penalties[0])
        if solved is None:
            return None
        readouts, freedom = solved[0][:, None], np.array([solved[1]])
    else:
        ridge = _plain(gram, moment)
        if not ridge.trusted(min(penalties)):
            return None
        readouts, freedom = ridge.readouts(penalties), ridge.degrees_of_freedom(penalties)
    quadratic = array_namespace(gram).sum(readouts * (gram @ readouts), axis=0)
    residual = label_square - 2 * (moment @ readouts) + quadratic
    return readouts, np.maximum(to_host(residual), 0.0), freedom


def triangular(blocks: Blocks, penalties: Sequence[float]) -> _Solution:
    """Fit from the triangular factor of ``[F, y]``, updated block by block; the sample has at least N + 1 rows."""
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
    return _singular(factor[:width, :width], factor[:width, width], float(factor[width, width]) ** 2, penalties)


def _singular(features: Array, labels: Array, unexplained: float, penalties: Sequence[float]) -> _Solution:
    """Fit from a singular value decomposition; `unexplained` is a residual that no readout can reach."""
    xp = array_namespace(features)
    lam = like(features, [list(penalties)])
    with threads_for_factorisation(min(features.shape)):
        left, singular, right = xp.linalg.svd(features, full_matrices=False)
    projected = (left.T @ labels)[:, None]
    square = (singular**2)[:, None]
    readouts = right.T @ (singular[:, None] * projected / (square + lam))
    outside = labels - left @ projected[:, 0]  # rounding only, unless there are more rows than features
    residual = _square_sums(lam * projected / (square + lam)) + float(outside @ outside) + unexplained
    return readouts, residual, to_host(xp.sum(square / (square + lam), axis=0))


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


def _has_cholesky(gram: Array) -> bool:
    """Whether `_cholesky` is for the library: the array standard has no solution by a Cholesky factor."""
    return is_numpy_array(gram) or is_torch_array(gram)


def _cholesky(gram: Array, right_side: Array, penalty: float) -> tuple[Array, float] | None:
    """Solve ``(gram + penalty) x = right_side``; return x and the degrees of freedom, or None when ill-conditioned."""
    size = gram.shape[0]
    with threads_for_factorisation(size):
        factorised = (_by_lapack if is_numpy_array(gram) else _by_torch)(gram, penalty)
        if factorised is None:
            return None
        solve, trace_of_inverse = factorised
        if not _keeps_digits(gram, penalty, solve):
            return None
        solution = solve(right_side)
        freedom = size - penalty * trace_of_inverse()
    return solution, min(max(freedom, 0.0), float(size))


def _keeps_digits(gram: Array, penalty: float, solve: Callable[[Array], Array]) -> bool:
    """Whether the condition number of ``gram + penalty`` leaves enough digits; `solve` multiplies by its inverse."""
    # No eigenvalue of the sum is larger than this trace, or smaller than the penalty: for most fits no more is needed.
    if _EPSILON * (float(array_namespace(gram).linalg.trace(gram)) + penalty) <= ACCURACY * penalty:
        return True
    size = gram.shape[0]
    start = like(gram, np.random.default_rng(size).standard_normal(size))
    condition = (_largest(lambda vector: gram @ vector, start) + penalty) * _largest(solve, start)
    return _EPSILON * condition <= ACCURACY


def _largest(times: Callable[[Array], Array], vector: Array) -> float:
    """Return the largest eigenvalue of a positive matrix by its products with a random vector, or a little less.

    After k products the vector grows by at least the eigenvalue times ``size^(-1 / (2 k))``, nearly always. Norms that
    are quicker to find may be ``sqrt(size)`` times too large, so that most large networks would be fitted by singular
    values.
    """
    length = _length(vector)
    for _ in range(_PRODUCTS):
        vector = times(vector / (length or 1.0))
        length = _length(vector)
    return length


def _length(vector: Array) -> float:
    xp = array_namespace(vector)
    scale = float(xp.max(xp.abs(vector))) or 1.0  # whose square may be out of range
    return scale * math.sqrt(float(xp.sum((vector / scale) ** 2)))


_Factorised = tuple[Callable[[Array], Array], Callable[[], float]]
"""Solves with a right-hand side (size,); and, as the last that is asked of it, gives the trace of the inverse."""


def _by_lapack(gram: Array, penalty: float) -> _Factorised | None:
    """Factorise ``gram + penalty``; return None if it is not positive definite in double precision."""
    shifted = gram.copy()
    shifted.flat[:: gram.shape[0] + 1] += penalty
    factor, info = lapack.dpotrf(shifted.T, lower=1, overwrite_a=1, clean=0)

    def solve(right_side: Array) -> Array:
        return lapack.dpotrs(factor, right_side, lower=1)[0]

    def trace_of_inverse() -> float:
        return float(np.sum(np.diagonal(lapack.dpotri(factor, lower=1, overwrite_c=1)[0])))

    return None if info else (solve, trace_of_inverse)


def _by_torch(gram: Array, penalty: float) -> _Factorised | None:
    """Do the same on PyTorch's device, where it takes a small part of the time of an eigendecomposition."""
    import torch

    shifted = gram.clone()
    shifted.diagonal().add_(penalty)
    factor, info = torch.linalg.cholesky_ex(shifted)

    def solve(right_side: Array) -> Array:
        return torch.cholesky_solve(right_side[:, None], factor)[:, 0]

    return None if int(info) else (solve, lambda: float(torch.trace(torch.cholesky_inverse(factor))))


def double(values: Array) -> Array:
    """Return values in double precision, on the same device."""
    xp = array_namespace(values)
    return xp.astype(values, xp.float64, copy=False)


def like(array: Array, values: ArrayLike) -> Array:
    """Move host values to where an array is, in its precision."""
    xp = array_namespace(array)
    return xp.asarray(values, dtype=array.dtype, device=getattr(array, "device", None))


def _square_sums(columns: Array) -> NDArray[np.float64]:
    return to_host(array_namespace(columns).sum(columns**2, axis=0))
