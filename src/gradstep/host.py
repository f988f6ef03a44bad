"""Differences between array libraries: how to get arrays of NumPy, to set a diagonal, and to catch PyTorch's errors."""

from __future__ import annotations

import numbers
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device, is_array_api_obj, is_numpy_array, is_torch_array
from numpy.typing import ArrayLike, NDArray

from gradstep.errors import InvalidInput

__all__ = ["as_floats", "detached", "host_errors", "set_diagonal", "to_host"]

#: Rows of the blocks along a diagonal, which are small enough for the processor's cache.
_TILE = 256


def detached(values: Any) -> Any:
    """Return values of any array library, on any device, as what NumPy makes arrays of; all else as it is."""
    return values.detach().cpu() if is_torch_array(values) else values


def to_host(values: Any) -> NDArray[np.float64]:
    """Return values of any array library, on any device, as a NumPy array in double precision."""
    return np.asarray(detached(values), dtype=np.float64)


def as_floats(field: str, values: Any) -> Any:
    """Return an array of floats as it is; numbers, lists and other arrays of NumPy become arrays in double precision.

    Arrays of other libraries are returned as they are. Raises `InvalidInput` on what is no array of real numbers, such
    as text; the field is for its message.
    """
    if is_array_api_obj(values) and not isinstance(values, np.ndarray | np.generic):
        return values
    try:
        given = values if isinstance(values, np.ndarray) else np.asarray(values)
        kind = given.dtype.kind
        if kind in "biuf" or (kind == "O" and all(isinstance(value, numbers.Number) for value in given.flat)):
            return given if kind == "f" and given is values else given.astype(np.float64)
    except (TypeError, ValueError, OverflowError):  # ragged lists, and whole numbers beyond all floats
        pass
    raise InvalidInput(field, values, "real numbers")


def set_diagonal(matrix: Any, values: ArrayLike) -> None:
    """Replace the diagonal of a square matrix in place, by numbers or by one number."""
    if is_numpy_array(matrix):
        np.fill_diagonal(matrix, values)
        return
    xp, where, size = array_namespace(matrix), device(matrix), matrix.shape[0]
    diagonal = xp.asarray(np.broadcast_to(values, size).copy(), dtype=matrix.dtype, device=where)
    for start in range(0, size, _TILE):  # the array standard has no strided view of a diagonal
        part = slice(start, min(start + _TILE, size))
        own = xp.eye(part.stop - start, dtype=xp.bool, device=where)
        matrix[part, part] = xp.where(own, diagonal[part], matrix[part, part])


@contextmanager
def host_errors() -> Iterator[None]:
    """Raise what NumPy raises where PyTorch has no memory left, or finds no decomposition; also a decorator."""
    try:
        yield
    except RuntimeError as error:
        torch = sys.modules.get("torch")
        if torch is None:
            raise
        # PyTorch has no type of error for a lack of the machine's own memory, only this text.
        if isinstance(error, torch.cuda.OutOfMemoryError) or "DefaultCPUAllocator: can't allocate" in str(error):
            raise MemoryError(str(error)) from error
        if isinstance(error, torch.linalg.LinAlgError):
            raise np.linalg.LinAlgError(str(error)) from error
        raise
