"""People's data, read in blocks of rows: standardised inputs, hashes of rows, folds that depend on content alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_array

__all__ = [
    "Standardisation",
    "Table",
    "cell_hashes",
    "has_factors_only",
    "is_only_sliced",
    "observations",
    "row_hashes",
    "rows_per_block",
    "standardisation",
    "standardised_targets",
    "table_hashes",
]

BLOCK_BYTES = 2**25
"""Features, or inputs, held at a time."""

#: Cells of a table of numbers at most, and rows of a cell at least.
_CELLS, _ROWS_PER_CELL = 20, 10

_ROUNDING = 8 * float(np.finfo(np.float64).eps)
#: Standard deviations from the mean at which values are clipped, and how often that is done.
_FARTHEST, _CLIPPED_TIMES = 5.0, 3
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


@dataclass(frozen=True)
class Standardisation:
    """Columns of mean zero and variance one, without gaps and without extreme values.

    A column is clipped, centred and scaled. A missing value becomes the mean, zero. For each column that had gaps in
    the fit there is one more column after all others, which says (standardised, too) where they are. Columns that do
    not vary are left out.
    """

    #: Weighted mean and standard deviation of the clipped column; the scale of a constant column is infinite.
    #: Shape (d,).
    centre: Array
    scale: Array
    #: Values beyond are replaced by these, shape (d,).
    lowest: Array
    highest: Array
    gaps: NDArray[np.intp]  #: Columns with missing values, shape (g,).
    missing: Array  #: Weighted share of their rows that are missing, above zero and below one. Shape (g,).

    @cached_property
    def varying(self) -> NDArray[np.intp]:
        """Columns whose values vary; the first one, which becomes zero, if the table says nothing at all."""
        found = np.flatnonzero(np.isfinite(self.scale))
        return found if len(found) or len(self.gaps) else np.zeros(1, dtype=np.intp)

    @property
    def dimension(self) -> int:
        """Number of columns after the standardisation: what ``d`` is in the law of the first layer."""
        return len(self.varying) + len(self.gaps)

    def __call__(self, block: Array) -> Array:
        """Return the standardised rows, shape (rows, dimension)."""
        gaps, block, own = np.isnan(block[:, self.gaps]), _columns(block, self.varying), self.varying
        z = (np.clip(block, self.lowest[own], self.highest[own]) - self.centre[own]) / self.scale[own]
        z = np.where(np.isnan(block), 0.0, z) if len(self.gaps) or np.isnan(block).any() else z
        if not len(self.gaps):
            return np.asarray(z)
        spread = np.sqrt(self.missing * (1 - self.missing))
        return np.concatenate([z, (gaps - self.missing) / spread], axis=1)


@dataclass(frozen=True)
class Table:
    """Inputs (n, d) that are only sliced by rows, with standardised targets (n, k) and weights (n,).

    Rows of weight zero are skipped, and `block_rows` are read at a time.
    """

    inputs: Any
    targets: Array
    weights: Array
    standard: Standardisation
    block_rows: int

    def blocks(self, rows: NDArray[np.bool_] | None = None) -> Iterator[tuple[Array, NDArray[np.intp]]]:
        """Yield standardised inputs (m, r) of chosen rows, or all of positive weight, with the rows' indices (m,)."""
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
    """Yield slices with the float64 rows they hold: finite numbers, and NaN where they are missing."""
    total = X.shape[0]
    for start in range(0, total, block_rows):
        part = slice(start, min(start + block_rows, total))
        block = X[part]
        if not isinstance(X, np.ndarray):
            block = check_array(block, dtype=np.float64, input_name="X", ensure_all_finite="allow-nan")
        # Sums of rows that lie column by column round otherwise, and a fit is to be the same for both.
        yield part, np.asarray(block, dtype=np.float64, order="C")


def rows_per_block(columns: int) -> int:
    """Return how many rows of `columns` doubles fit into `BLOCK_BYTES`."""
    return max(BLOCK_BYTES // (8 * columns), 16)


def standardisation(inputs: Any, weights: Array, *, clip: bool = True) -> Standardisation:
    """Measure centre, scale and bounds of every column.

    Extremes are measured first and everything else relative to them, so that columns of any size (1e300, 1e-300)
    neither overflow nor vanish. A column that varies by rounding only counts as constant.

    Values further than five standard deviations from the mean are clipped there. As they raise the deviation
    themselves, this is done three times.
    """
    d = inputs.shape[1]
    rows = rows_per_block(d)
    lowest, highest, missing = np.full(d, np.inf), np.full(d, -np.inf), np.zeros(d)
    for part, block in raw_blocks(inputs, rows):
        block, w = _weighted(block, weights[part])
        lowest = np.minimum(lowest, np.nanmin(block, axis=0, initial=np.inf))
        highest = np.maximum(highest, np.nanmax(block, axis=0, initial=-np.inf))
        missing += w @ np.isnan(block)
    present = weights.sum() - missing
    empty = lowest > highest
    lowest[empty] = highest[empty] = 0.0
    centre, half_range = lowest / 2 + highest / 2, highest / 2 - lowest / 2
    varying = np.flatnonzero(half_range > _ROUNDING * np.maximum(np.abs(lowest), np.abs(highest)))
    # The columns that do not vary are left out of all sums: with them the last digit of the others might differ, and a
    # fit is to be the same with and without them.
    middle, size = centre[varying], half_range[varying]

    def moments(low: Array | float, high: Array | float) -> tuple[Array, Array]:
        """Return mean and deviation of the clipped columns, relative to middle and half range."""
        mean, square = np.zeros(len(varying)), np.zeros(len(varying))
        for total, power in ((mean, 1), (square, 2)):
            for part, block in raw_blocks(inputs, rows):
                block, w = _weighted(_columns(block, varying), weights[part])
                relative = (block - middle) / size
                if not np.isinf(low).all():
                    relative = np.clip(relative, low, high)
                values = relative if power == 1 else (relative - mean) ** 2
                total += w @ (np.where(np.isnan(values), 0.0, values) if missing.any() else values)
            total /= present[varying]
        return mean, np.sqrt(square)

    mean, deviation = moments(-np.inf, np.inf)
    for _ in range(_CLIPPED_TIMES if clip else 0):
        low, high = mean - _FARTHEST * deviation, mean + _FARTHEST * deviation
        if ((low <= -1) & (high >= 1)).all():
            break
        mean, deviation = moments(low, high)
    centre[varying] = middle + size * mean
    scale, bounds = np.full(d, np.inf), (np.full(d, -np.inf), np.full(d, np.inf))
    scale[varying] = size * deviation
    if clip:
        with np.errstate(over="ignore"):  # beyond an infinite bound there is nothing to clip
            for end, near in zip(bounds, (low, high), strict=True):
                end[varying] = middle + size * near
    gaps = np.flatnonzero((missing > 0) & (present > 0))
    return Standardisation(centre, scale, *bounds, gaps, missing[gaps] / weights.sum())


def _columns(block: Array, columns: NDArray[np.intp]) -> Array:
    """Return some columns of a block, itself if they are all."""
    return block if len(columns) == block.shape[1] else block[:, columns]


def _weighted(block: Array, weights: Array) -> tuple[Array, Array]:
    """Return the rows of positive weight: values of the others are of any size, and zero times infinity is no zero."""
    present = weights > 0
    return (block, weights) if present.all() else (block[present], weights[present])


def standardised_targets(targets: Array, weights: Array) -> tuple[Array, Array, Array]:
    """Return targets of mean zero and variance one, with what was subtracted and divided.

    Constants become zero, and so do targets of weight zero, which may be of any size.
    """
    standard, values = standardisation(targets, weights, clip=False), np.zeros(targets.shape)
    values[:, standard.varying] = standard(np.where(weights[:, None] > 0, targets, standard.centre))
    return values, standard.centre, np.where(np.isfinite(standard.scale), standard.scale, 0.0)


def table_hashes(inputs: Any, columns: NDArray[np.intp], multipliers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Hash every row by its values in some columns, as `row_hashes` with an odd multiplier for each of these."""
    hashes = np.empty(inputs.shape[0], dtype=np.uint64)
    for part, block in raw_blocks(inputs, rows_per_block(inputs.shape[1])):
        hashes[part] = row_hashes(_columns(block, columns), multipliers)
    return hashes


def row_hashes(block: Array, multipliers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Hash rows by their values, bit by bit: equal rows have equal hashes wherever they stand.

    Folds and subsamples are made of these, so that copies of a row stay together, and neither the order of the rows nor
    whether a row is repeated or weighted makes a difference.
    """
    bits = np.where(np.isnan(block), np.nan, block + 0.0).view(np.uint64)  # -0.0 is 0.0, and all NaN are equal
    bits = bits ^ (bits >> np.uint64(32))  # short numbers end in zeros, which a product would keep
    mixed = (bits * multipliers).sum(axis=1, dtype=np.uint64)
    for shift, factor in ((33, 0xFF51AFD7ED558CCD), (33, 0xC4CEB9FE1A85EC53)):  # the finaliser of MurmurHash3
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return np.asarray(mixed ^ (mixed >> np.uint64(33)))


def observations(hashes: NDArray[np.uint64], targets: Array) -> int:
    """Return the number of different rows: those with equal inputs are different if their targets are."""
    odd = 2 * np.arange(targets.shape[1], dtype=np.uint64) + np.uint64(1)
    return len(np.unique(hashes ^ row_hashes(targets, odd)))


def has_factors_only(inputs: Any, weights: Array, columns: NDArray[np.intp]) -> bool:
    """Return whether each of some columns has two values at most, as those of categories have, where none is missing.

    Most tables of numbers have a third one in the first rows, and are not read further.
    """
    known = [np.empty(0)] * len(columns)
    for part, block in raw_blocks(inputs, rows_per_block(inputs.shape[1])):
        present = _weighted(block, weights[part])[0]
        for place, column in enumerate(columns):
            values = present[:, column]
            known[place] = np.unique(np.append(known[place], values[~np.isnan(values)]))
            if len(known[place]) > 2:
                return False
    return True


def cell_hashes(
    hashes: NDArray[np.uint64], targets: Array, weights: Array, factors: Callable[[], bool]
) -> NDArray[np.uint64]:
    """Return hashes of rows as observations: those of the inputs, but one for each row of a cell.

    Copies of a row are left out together, since a copy of it would predict it. Where many rows with different targets
    have one input, such as a level of a factor or a row without any values, it is a cell: a fit without all of its rows
    knows nothing of it, while new rows have the same input. There every row is an observation of its own; rows that
    agree in everything are numbered, so that the order of the rows makes no difference.

    An input is a cell if it has a twentieth of the rows, and ten of them, with several targets. If a table has twenty
    inputs at most, with ten rows for each on average, all of them are. More inputs may be groups, of which new rows
    have others (schools with one row for each pupil), unless all columns are those of `factors`: new rows have the same
    levels, and neither a twentieth nor twenty matters. This is only asked if an input has ten rows.
    """
    counted = np.flatnonzero(weights > 0)
    inputs, first, place, rows = np.unique(hashes[counted], return_index=True, return_inverse=True, return_counts=True)
    odd = 2 * np.arange(targets.shape[1] + 1, dtype=np.uint64) + np.uint64(3)
    if not (rows >= _ROWS_PER_CELL).any():
        return hashes
    most = np.inf if factors() else _CELLS
    if len(inputs) <= most and len(counted) >= _ROWS_PER_CELL * len(inputs):
        single = np.ones(len(hashes), dtype=bool)
    else:
        labels = row_hashes(targets[counted], odd[1:])
        several = np.bincount(place, labels != labels[first][place]) > 0
        cells = several & (rows >= max(_ROWS_PER_CELL, len(counted) / most))
        single = np.isin(hashes, inputs[cells])
    keys = hashes ^ row_hashes(np.column_stack([targets, weights]), odd)
    order = np.argsort(keys, kind="stable")
    start = np.concatenate([[True], keys[order][1:] != keys[order][:-1]])
    nth = np.arange(len(keys))
    number = np.empty(len(keys))
    number[order] = nth - np.maximum.accumulate(np.where(start, nth, 0))
    return np.where(single, keys ^ row_hashes(number[:, None], odd[:1]), hashes)
