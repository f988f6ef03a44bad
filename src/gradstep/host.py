"""Differences between array libraries: how to get a NumPy array, to set a diagonal, and to catch PyTorch's errors."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device, is_numpy_array, is_torch_array
from numpy.typing import ArrayLike, NDArray

__all__ = ["detached", "host_errors", "set_diagonal", "to_host"]

#: Rows of the blocks along a diagonal, which are small enough for the processor's cache.
_TILE = 256


def detached(values: Any) -> Any:
    """Return values of any array library, on any device, as what NumPy makes arrays of; all else as it is."""
    return values.detach().cpu() if is_torch_array(values) else values


def to_host(values: Any) -> NDArray[np.float64]:
    """Return values of any array library, on any device, as a NumPy array in double precision."""
    return np.asarray(detached(values), dtype=np.float64)


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
