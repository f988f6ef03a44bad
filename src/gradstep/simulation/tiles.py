"""Elementwise work on a symmetric matrix, in pieces that stay in the cache and only on one triangle."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from array_api_compat import array_namespace, device
from numpy.typing import NDArray

from gradstep.simulation.backend import Array

TILE_ROWS = 256


def map_symmetric(matrix: Array, transform: Callable[[Array, slice, slice], Array]) -> None:
    """Replace a symmetric matrix, in place, by a symmetric function of its entries.

    Parameters
    ----------
    matrix : array, shape (N, N)
        Symmetric; overwritten.
    transform : callable
        ``transform(tile, rows, columns)`` gives the new values of ``matrix[rows, columns]``, in an array of their own.
        It may use `tile` as work space and is called on the lower triangle only.
    """
    size = matrix.shape[0]
    for start in range(0, size, TILE_ROWS):
        rows, columns = slice(start, min(start + TILE_ROWS, size)), slice(0, min(start + TILE_ROWS, size))
        tile = transform(matrix[rows, columns], rows, columns)
        matrix[rows, columns] = tile
        matrix[columns, rows] = tile.T


def set_diagonal(matrix: Array, values: NDArray[np.float64]) -> None:
    """Replace the diagonal of a square matrix, whose rows follow one another in memory, in place."""
    xp = array_namespace(matrix)
    numbers = xp.reshape(matrix, (-1,), copy=False)
    numbers[:: matrix.shape[0] + 1] = xp.asarray(values, dtype=matrix.dtype, device=device(matrix))
