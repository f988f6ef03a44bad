"""People's data, read in blocks of rows: standardised inputs, hashes of rows, folds that depend on content alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_array  # type: ignore[import-untyped, unused-ignore]

from gradstep.resolution import NOTHING
from gradstep.threads import threads_for_factorisation

__all__ = [
    "Standardisation",
    "Table",
    "columns_without_numbers",
    "is_only_sliced",
    "row_hashes",
    "rows_per_block",
    "standardisation",
    "standardised_targets",
]

BLOCK_BYTES = 2**25
"""Features, or inputs, held at a time."""

_ROUNDING = 8 * float(np.finfo(np.float64).eps)
#: Directions of the inputs with less variance than this times the largest are not whitened but left out.
_RANK = 1e-10
Array = NDArray[np.float64]


def is_only_sliced(X: Any) -> bool:
    """Return whether X is a table on disk that should never be read as a whole (HDF5, zarr, a lazy array).

    Anything two-dimensional with a `shape`, a `dtype` and slices counts, unless it is an array in memory, a data frame
    or a sparse matrix. A `numpy.memmap` needs no special treatment: scikit-learn's checks do not copy it.
    """
    if isinstance(X, (np.ndarray, list, tuple)) or any(
        hasattr(X, name) for name in ("columns", "iloc", "tocsr", "__array_namespace__", "requires_grad")
    ):
        return False
    return len(getattr(X, "shape", ())) == 2 and hasattr(X, "dtype") and hasattr(X, "__getitem__")


def columns_without_numbers(X: Any) -> list[str]:
    """Return the names of the columns of a data frame that hold text, dates or other things than numbers."""
    wrong = []
    for name in getattr(X, "columns", ()):
        values = np.asarray(X[name])
        try:
            values.astype(np.float64)
            number = values.dtype.kind not in "mM"
        except (TypeError, ValueError):
            number = False
        if not number:
            wrong.append(str(name))
    return wrong


@dataclass(frozen=True)
class Standardisation:
    """``z = ((x - centre) / scale) @ rotation``; columns that do not vary become zero.

    Parameters
    ----------
    centre, scale : ndarray, shape (d,)
        Weighted mean and standard deviation; the scale of a constant column is infinite.
    rotation : ndarray, shape (d, r), or None
        Principal directions divided by their standard deviations, when whitening.
    """

    centre: Array
    scale: Array
    rotation: Array | None = None

    @property
    def dimension(self) -> int:
        """Number of inputs that vary: what ``d`` is in the law of the first layer."""
        varying = int(np.isfinite(self.scale).sum()) if self.rotation is None else self.rotation.shape[1]
        return max(varying, 1)

    def __call__(self, block: Array) -> Array:
        """Return the standardised rows."""
        z = (block - self.centre) / self.scale
        return z if self.rotation is None else z @ self.rotation


@dataclass(frozen=True)
class Table:
    """Inputs that are only sliced, with standardised targets and weights.

    Parameters
    ----------
    inputs : array, shape (n, d)
        Only ever sliced by rows.
    targets : ndarray, shape (n, k)
    weights : ndarray, shape (n,)
        Not negative; rows of weight zero are skipped.
    standard : Standardisation
    block_rows : int
        Rows read at a time.
    """

    inputs: Any
    targets: Array
    weights: Array
    standard: Standardisation
    block_rows: int

    def blocks(self, rows: NDArray[np.bool_] | None = None) -> Iterator[tuple[Array, NDArray[np.intp]]]:
        """Yield standardised inputs (m, r) of the chosen rows with the indices (m,) of those rows.

        Parameters
        ----------
        rows : ndarray of bool, shape (n,), optional
            Which rows; default those of positive weight.
        """
        chosen = self.weights > 0 if rows is None else rows
        for part, block in raw_blocks(self.inputs, self.block_rows):
            index = np.flatnonzero(chosen[part])
            if len(index):
                yield self.standard(block if len(index) == len(block) else block[index]), part.start + index

    def gathered(self, rows: NDArray[np.bool_]) -> tuple[Array, NDArray[np.intp]]:
        """Return the chosen rows at once, as one block."""
        pieces = list(self.blocks(rows))
        return np.concatenate([z for z, _ in pieces]), np.concatenate([index for _, index in pieces])


def raw_blocks(X: Any, block_rows: int) -> Iterator[tuple[slice, Array]]:
    """Yield slices with the finite float64 rows they hold."""
    total = X.shape[0]
    for start in range(0, total, block_rows):
        part = slice(start, min(start + block_rows, total))
        block = X[part]
        if not isinstance(X, np.ndarray):
            block = check_array(block, dtype=np.float64, input_name="X")
        yield part, np.asarray(block, dtype=np.float64)


def rows_per_block(columns: int) -> int:
    """Return how many rows of `columns` doubles fit into `BLOCK_BYTES`."""
    return max(BLOCK_BYTES // (8 * columns), 16)


def standardisation(
    inputs: Any, weights: Array, *, whiten: bool, multipliers: NDArray[np.uint64]
) -> tuple[Standardisation, NDArray[np.uint64]]:
    """Measure centre and scale of every column, and hash every row.

    Extremes are measured first and everything else relative to them, so that columns of any size (1e300, 1e-300)
    neither overflow nor vanish. A column that varies by rounding only counts as constant.

    Parameters
    ----------
    inputs : array, shape (n, d)
    weights : ndarray, shape (n,)
    whiten : bool
        Rotate and scale so that the inputs are uncorrelated, too.
    multipliers : ndarray of uint64, shape (d,)
        Odd; define the hash.

    Returns
    -------
    Standardisation
    hashes : ndarray of uint64, shape (n,)
    """
    d = inputs.shape[1]
    rows = rows_per_block(d)
    lowest, highest = np.full(d, np.inf), np.full(d, -np.inf)
    hashes = np.empty(inputs.shape[0], dtype=np.uint64)
    for part, block in raw_blocks(inputs, rows):
        hashes[part] = row_hashes(block, multipliers)
        block, _ = _weighted(block, weights[part])
        lowest = np.minimum(lowest, block.min(axis=0, initial=np.inf))
        highest = np.maximum(highest, block.max(axis=0, initial=-np.inf))
    middle, half_range = lowest / 2 + highest / 2, highest / 2 - lowest / 2
    constant = half_range <= _ROUNDING * np.maximum(np.abs(lowest), np.abs(highest))
    half_range[constant] = np.inf
    mean, square = np.zeros(d), np.zeros(d)
    for part, block in raw_blocks(inputs, rows):
        block, w = _weighted(block, weights[part])
        mean += w @ ((block - middle) / half_range)
    mean /= weights.sum()
    covariance = np.zeros((d, d)) if whiten else None
    for part, block in raw_blocks(inputs, rows):
        block, w = _weighted(block, weights[part])
        z = (block - middle) / half_range - mean
        square += w @ z**2
        if covariance is not None:
            covariance += (z * w[:, None]).T @ z
    square /= weights.sum()
    deviation = np.sqrt(np.where(constant, 1.0, square))
    centre, scale = middle + np.where(constant, 0.0, half_range) * mean, half_range * deviation
    if covariance is None:
        return Standardisation(centre, scale), hashes
    with threads_for_factorisation(d):
        values, vectors = np.linalg.eigh(covariance / np.outer(deviation, deviation) / weights.sum())
    kept = values > _RANK * max(values[-1], NOTHING)
    if not kept.any():
        return Standardisation(centre, scale), hashes
    return Standardisation(centre, scale, vectors[:, kept] / np.sqrt(values[kept])), hashes


def _weighted(block: Array, weights: Array) -> tuple[Array, Array]:
    """Return the rows of positive weight: values of the others are of any size, and zero times infinity is no zero."""
    present = weights > 0
    return (block, weights) if present.all() else (block[present], weights[present])


def standardised_targets(targets: Array, weights: Array) -> tuple[Array, Array, Array]:
    """Return targets of mean zero and variance one, with what was subtracted and divided.

    Constants become zero, and so do targets of weight zero, which may be of any size.
    """
    standard, _ = standardisation(targets, weights, whiten=False, multipliers=np.ones(targets.shape[1], np.uint64))
    values = standard(np.where(weights[:, None] > 0, targets, standard.centre))
    return values, standard.centre, np.where(np.isfinite(standard.scale), standard.scale, 0.0)


def row_hashes(block: Array, multipliers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Hash rows by their values, bit by bit: equal rows have equal hashes wherever they stand.

    Folds and subsamples are made of these, so that copies of a row stay together, and neither the order of the rows nor
    whether a row is repeated or weighted makes a difference.
    """
    bits = (block + 0.0).view(np.uint64)  # -0.0 is 0.0
    bits = bits ^ (bits >> np.uint64(32))  # short numbers end in zeros, which a product would keep
    mixed = (bits * multipliers).sum(axis=1, dtype=np.uint64)
    for shift, factor in ((33, 0xFF51AFD7ED558CCD), (33, 0xC4CEB9FE1A85EC53)):  # the finaliser of MurmurHash3
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return np.asarray(mixed ^ (mixed >> np.uint64(33)))
