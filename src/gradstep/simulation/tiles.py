"""Elementwise work on a symmetric matrix, in pieces that stay in the cache and only on one triangle."""

from __future__ import annotations

from collections.abc import Callable

from gradstep.simulation.backend import Array

TILE_ROWS = 256


def map_symmetric(matrix: Array, transform: Callable[[Array, slice, slice], Array]) -> None:
    """Replace a symmetric matrix, in place, by a symmetric function of its entries.

    The new values of ``matrix[rows, columns]`` are ``transform(tile, rows, columns)``, in an array of their own. The
    function may use `tile` as work space and is called on the lower triangle only.
    """
    size = matrix.shape[0]
    for start in range(0, size, TILE_ROWS):
        rows, columns = slice(start, min(start + TILE_ROWS, size)), slice(0, min(start + TILE_ROWS, size))
        tile = transform(matrix[rows, columns], rows, columns)
        matrix[rows, columns] = tile
        matrix[columns, rows] = tile.T
