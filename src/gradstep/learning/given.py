"""Checks of features, targets, weights, sizes and penalties, before any work."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace, is_array_api_obj, is_numpy_array, is_torch_array
from numpy.typing import ArrayLike, NDArray

from gradstep.checks import LARGEST_NUMBER, is_whole, nonnegative, positive
from gradstep.errors import InvalidInput
from gradstep.learning.pool import Array

__all__ = ["LARGEST_RATIO", "LEAST_RIDGE", "Given", "checked_ridges", "checked_rows", "checked_sizes", "default_ridges"]

LARGEST_RATIO = 2
"""Number of samples over rows of the pool up to which a curve is extrapolated."""

LEAST_RIDGE = 1e-12
"""Smallest penalty over the largest eigenvalue of the Gram matrix of n rows: rounding moves results by more than a
thousandth below it."""

_FEWEST_ROWS = 4
_SIZES = 10
#: Penalties over the mean eigenvalue of the Gram matrix of the pool, where none are given.
_PENALTIES = np.logspace(-3, 1, 9)
Host = NDArray[np.float64]


class Given(NamedTuple):
    """Rows as arrays of one library, in double precision, on one device."""

    features: Array
    targets: Array
    sample_weight: Array | None


def checked_rows(features: Any, targets: Any, sample_weight: Any) -> Given:
    """Return the rows of a pool, features (M, N), targets (M, K) and weights (M,), as arrays of the features' library.

    Raises `InvalidInput` if shapes do not fit, values are not finite numbers, or weights are negative or all zero.
    """
    features = _doubles("features", features)
    if features.ndim != 2 or features.shape[0] < _FEWEST_ROWS or features.shape[1] < 1:
        allowed = f"an array of shape (M, N) with at least {_FEWEST_ROWS} rows, one row for each sample"
        raise InvalidInput("features", f"shape {tuple(features.shape)}", allowed)
    rows = int(features.shape[0])
    targets = _doubles("targets", targets, features)
    if targets.ndim not in (1, 2) or targets.shape[0] != rows or 0 in targets.shape:
        allowed = f"one target, or one row of targets, for each of the {rows} rows of features"
        raise InvalidInput("targets", f"shape {tuple(targets.shape)}", allowed)
    if targets.ndim == 1:
        targets = targets[:, None]
    if not float(array_namespace(features).max(array_namespace(features).abs(features))) > 1 / LARGEST_NUMBER:
        allowed = f"features of which at least one is larger than {1 / LARGEST_NUMBER:g} in size"
        raise InvalidInput("features", "zeros only, or nearly so", allowed)
    if sample_weight is None:
        return Given(features, targets, None)
    weight = _doubles("sample_weight", sample_weight, features)
    if tuple(weight.shape) != (rows,):
        raise InvalidInput("sample_weight", f"shape {tuple(weight.shape)}", f"one weight for each of the {rows} rows")
    nonnegative("sample_weight", float(array_namespace(weight).min(weight)))
    if not float(array_namespace(weight).sum(weight)) > 0:
        raise InvalidInput("sample_weight", "zeros only", "weights of which at least one is positive")
    return Given(features, targets, weight)


def _doubles(field: str, values: Any, like: Array | None = None) -> Array:
    """Return finite values in double precision: of their own library, or of that and the device of another array."""
    if "complex" in str(getattr(values, "dtype", "")):
        raise InvalidInput(field, "complex numbers", "real numbers: give their parts columns of their own")
    if is_array_api_obj(values) and not is_numpy_array(values):
        if is_torch_array(values):
            values = values.detach()
        xp = array_namespace(values)
        values = xp.astype(values, xp.float64)
    else:
        values = _numbers(field, values)
        if like is not None and not is_numpy_array(like):
            xp = array_namespace(like)
            values = xp.asarray(values, device=like.device)
    xp = array_namespace(values)
    if not bool(xp.all(xp.abs(values) <= LARGEST_NUMBER)):
        reason = "nan, infinity or too large a number among them"
        raise InvalidInput(field, reason, f"finite numbers of size {LARGEST_NUMBER:g} at most")
    if like is not None:
        try:
            array_namespace(values, like)
        except TypeError:
            allowed = f"an array of the library of the features, {type(like).__module__.split('.')[0]}"
            raise InvalidInput(field, type(values).__name__, allowed) from None
    return values


def _numbers(field: str, values: Any) -> Host:
    """Return what NumPy makes of lists and tables of numbers; columns of text are named."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        wrong = [str(name) for name in getattr(values, "columns", ()) if not _holds_numbers(values[name])]
        told = f"columns without numbers: {', '.join(wrong)}" if wrong else values
        raise InvalidInput(
            field, told, "numbers only: make columns of categories into columns of zeros and ones"
        ) from None


def _holds_numbers(column: Any) -> bool:
    try:
        np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError):
        return False
    return True


def checked_sizes(n: ArrayLike | None, rows: int) -> Host:
    """Return numbers of samples, shape (A,), in the order given; ten from a tenth of the pool to the pool by default.

    Raises `InvalidInput` outside of 1 to twice the pool, and for numbers that are no integers.
    """
    if n is None:
        return np.unique(np.round(np.geomspace(max(rows / 10, 1), rows, _SIZES)))
    sizes = np.atleast_1d(np.asarray(n, dtype=object))
    most = LARGEST_RATIO * rows
    if not sizes.size or sizes.ndim != 1 or not all(is_whole(size) and 1 <= size <= most for size in sizes.tolist()):
        allowed = (
            f"whole numbers from 1 to {most}, which is {LARGEST_RATIO} times the {rows} rows of the pool: "
            "for more samples give more rows"
        )
        raise InvalidInput("n", n, allowed)
    return sizes.astype(np.float64)


def default_ridges(eigenvalues: Host, width: int) -> Host:
    """Return penalties worth trying: from 1e-3 to 10 times the mean eigenvalue of the Gram matrix of the pool."""
    return _PENALTIES * float(eigenvalues.sum()) / width


def checked_ridges(ridge: ArrayLike, sizes: Host, rows: int, largest_eigenvalue: float) -> Host:
    """Return penalties, shape (B,), for the Gram matrix of a pool of so many rows, with this largest eigenvalue.

    Raises `InvalidInput` if one is not positive, or so small that rounding would decide.
    """
    penalties = np.atleast_1d(positive("ridge", ridge))
    if penalties.ndim != 1:
        raise InvalidInput("ridge", ridge, "one number or a sequence of them, finite and > 0")
    least = LEAST_RIDGE * largest_eigenvalue * float(sizes.max()) / rows
    if penalties.min() < least:
        allowed = f"finite and > 0, at least {least:.2g}: below, rounding decides with features of this size"
        raise InvalidInput("ridge", ridge, allowed)
    return penalties
