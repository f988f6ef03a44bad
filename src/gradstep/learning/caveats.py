"""Warnings that come with a learning curve."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from gradstep.errors import NotConverged
from gradstep.host import to_host
from gradstep.learning.parts import has_parts
from gradstep.learning.pool import Array

__all__ = ["caveats_of", "copies"]

#: Effective number of rows behind a standard error below which there is a caveat.
_FEW_DECIDING = 10
#: Share of the pool below which that number has a caveat. Gaussian residuals have twice this share.
_SMALL_SHARE = 0.06
#: Rows of a pool below which there is a caveat.
_FEW_ROWS = 50
#: Share of rows with a bounded weight above which there is a caveat.
_MUCH_CAPPED = 0.02
#: Samples below which there is a caveat: the equations are the leading order in their number.
_FEW_SAMPLES = 20
#: Share of an error that may be scatter which few rows make. With more, errors were off by a tenth to several times.
_MUCH_BY_FEW = 0.3
#: Numbers that are multiplied at once.
_BLOCK = 2**21


def caveats_of(
    failures: Mapping[tuple[float, float], NotConverged],
    sizes: NDArray[np.float64],
    rows: int,
    copied: int,
    deciding: float,
    capped_share: float,
    by_few: Mapping[tuple[float, float], float],
    classes: bool,
) -> tuple[str, ...]:
    """Return sentences about what may be wrong with a learning curve, from a pool of so many rows.

    Failures are by n and ridge. `copied` rows have the features of an earlier row, and `deciding` is the smallest
    effective number of rows behind a standard error. `capped_share` is the largest share of rows whose weight is
    bounded in the extrapolation, and `by_few` the share of each error that is scatter which few rows make. The error of
    `classes`, if there are any, is that of the equations also where the others are measured on parts of the pool.
    """
    notes = []
    if copied:
        notes.append(
            f"{copied} of the {rows} rows have the same features as an earlier row. They vouch for each other: the "
            "errors hold for a population with as many copies, and are too small for one without."
        )
    if deciding < min(_FEW_DECIDING, _SMALL_SHARE * rows):
        notes.append(
            f"The standard error rests on about {deciding:.0f} of the {rows} rows: a few rows have errors or features "
            "far larger than the others, and the true error may be outside of the band more often than it says."
        )
    if rows < _FEW_ROWS:
        notes.append(f"The standard error of {rows} rows is itself uncertain, by some ten per cent or more.")
    few = [size for size in sizes if size < _FEW_SAMPLES]
    unmeasured = any(not has_parts(size, rows) for size in few)
    if unmeasured or (few and classes):
        what = "estimate" if unmeasured else "classification error"
        notes.append(
            f"Below {_FEW_SAMPLES} samples the {what} may be biased: the equations are the leading order in the "
            "number of samples."
        )
    if sizes.max() > rows:
        notes.append(f"More than {rows} samples are an extrapolation: no fit of so many rows has been seen.")
    if capped_share > _MUCH_CAPPED:
        notes.append(
            f"Up to {capped_share:.0%} of the rows are so unlike all others that the extrapolation bounds their "
            "weights. The errors may be off there."
        )
    doubtful = {pair: share for pair, share in by_few.items() if share > _MUCH_BY_FEW}
    if doubtful:
        size, ridge = max(doubtful, key=lambda pair: doubtful[pair])
        notes.append(
            f"Errors may be far off with penalties up to {max(ridge for _, ridge in doubtful):.2g}: at "
            f"n = {size:g}, ridge = {ridge:.2g}, {doubtful[size, ridge]:.0%} of the error comes from features that "
            "hardly ten rows share, such as rare categories, and the equations are those of many rows."
        )
    if failures:
        (size, ridge), error = next(iter(failures.items()))
        pairs = "pairs of n and ridge have" if len(failures) > 1 else "pair of n and ridge has"
        notes.append(f"{len(failures)} {pairs} no estimate, the first n = {size:g}, ridge = {ridge:g}: {error}")
    return tuple(notes)


def copies(features: Array) -> int:
    """Return how many rows of features (M, N) are equal to one that comes before them."""
    values = to_host(features)
    factors = np.random.default_rng(0).standard_normal(values.shape[1])
    # Sums of products, not a matrix product: the order of its additions may depend on where a row stands.
    blocks = np.array_split(values, max(values.size // _BLOCK, 1))
    keys = np.concatenate([(np.ascontiguousarray(block) * factors).sum(axis=1) for block in blocks])
    order = np.argsort(keys, kind="stable")
    alike = np.flatnonzero(np.diff(keys[order]) == 0)
    return int((values[order[alike]] == values[order[alike + 1]]).all(axis=1).sum())
