"""Linear algebra on stacks of small matrices: what NumPy has, without its overhead where the stack is of one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dgels, dgesv, dposv, dpotrf, zsysv

__all__ = [
    "LARGEST_STACK",
    "block_diagonal",
    "cholesky",
    "identity",
    "inverses",
    "least_squares",
    "scaled_factors",
    "solved",
    "solved_definite",
]

LARGEST_STACK = 2**16
"""Numbers in the largest stack of matrices, half a megabyte. It is still in the cache when it is used next. The memory
of larger ones is given back to the system and asked for anew, which may take half as long as the work on it."""


#: Size from which a call of LAPACK for each matrix is worth its overhead.
_WORTH_A_CALL = 16
#: Columns that a factorisation of a symmetric complex matrix takes at once.
_BLOCK = 64
#: Least scale of a row or column of a table, or of all: zeros have it, and are divided by it.
_LEAST_SCALE = 1e-200

#: Real for a fit; complex for a spectrum, which is that of a fit at a complex penalty.
_Array = NDArray[Any]


@lru_cache(maxsize=64)
def identity(size: int) -> _Array:
    """Return a shared, read-only identity matrix."""
    matrix = np.eye(size)
    matrix.flags.writeable = False
    return matrix


def block_diagonal(blocks: Sequence[_Array]) -> _Array:
    """Return matrices with given blocks, each of shape (batch, size, size), on the diagonal and zero elsewhere."""
    if len(blocks) == 1:
        return blocks[0]
    ends = np.cumsum([0, *(block.shape[1] for block in blocks)])
    found = np.zeros((len(blocks[0]), ends[-1], ends[-1]), dtype=blocks[0].dtype)
    for start, stop, block in zip(ends, ends[1:], blocks, strict=False):
        found[:, start:stop, start:stop] = block
    return found


def solved(matrices: _Array, right: _Array) -> _Array:
    """Return the solutions of linear equations.

    The matrices have shape (..., size, size), the right-hand sides and the solutions (..., size, columns). Raises
    `numpy.linalg.LinAlgError` if a matrix is singular.
    """
    size, columns = right.shape[-2:]
    if matrices.size != size**2:
        return np.asarray(np.linalg.solve(matrices, right), dtype=np.float64)
    *_, solution, info = dgesv(matrices.reshape(size, size), right.reshape(size, columns))
    if info > 0:
        raise np.linalg.LinAlgError("Singular matrix")
    return np.asarray(solution.reshape(right.shape), dtype=np.float64)


def solved_definite(matrices: _Array, right: _Array) -> _Array:
    """Return the solutions of linear equations with positive definite matrices, or symmetric complex ones.

    The matrices have shape (batch, size, size), the right-hand sides and the solutions (batch, size, columns). Raises
    `numpy.linalg.LinAlgError` if a matrix is not positive definite. (In a batch, what is not singular may pass.)
    """
    if len(matrices) > 1 or np.iscomplexobj(matrices):
        # NumPy has only the factors of a general matrix, whose pivots different scales of rows would mislead.
        scale = 1 / np.sqrt(np.diagonal(matrices, axis1=1, axis2=2))[..., None]
        scaled = matrices * scale
        scaled *= scale.mT
        if len(matrices) > 1:
            return np.asarray(scale * np.linalg.solve(scaled, scale * right))
        # Half of the work, where it is done in blocks.
        *_, solution, info = zsysv(scaled[0].T, (scale * right)[0], lwork=_BLOCK * matrices.shape[1])
        if info > 0:
            raise np.linalg.LinAlgError("Singular matrix")
        return np.asarray(scale * solution)
    # LAPACK reads columns: the transpose of a symmetric matrix saves a copy.
    _, solution, info = dposv(matrices[0].T, right[0])
    if info > 0:
        raise np.linalg.LinAlgError("Matrix is not positive definite")
    return np.asarray(solution, dtype=np.float64)[None]


def cholesky(matrices: _Array) -> _Array:
    """Return the lower triangular factors of positive definite matrices, shape (batch, size, size).

    Raises `numpy.linalg.LinAlgError` if a matrix is not positive definite.
    """
    if len(matrices) > 1:
        return np.asarray(np.linalg.cholesky(matrices), dtype=np.float64)
    factor, info = dpotrf(matrices[0], lower=True, clean=True)
    if info > 0:
        raise np.linalg.LinAlgError("Matrix is not positive definite")
    return np.asarray(factor, dtype=np.float64)[None]


def inverses(matrices: _Array) -> _Array:
    """Return the inverses of positive definite matrices, shape (..., size, size).

    Matrices with entries that are not numbers give such entries. Raises `numpy.linalg.LinAlgError` if a matrix is
    singular. (What is not positive definite may raise it or not.)
    """
    size = matrices.shape[-1]
    stack = matrices.reshape(-1, size, size)
    if np.iscomplexobj(matrices) or (size < _WORTH_A_CALL and len(stack) > 1):
        return np.asarray(np.linalg.inv(matrices))
    # NumPy has only the factors of a general matrix: three times the work.
    found = np.empty_like(stack)
    for index, matrix in enumerate(stack):
        _, found[index], info = dposv(matrix, identity(size))
        if info > 0:
            if np.isfinite(matrix).all():
                raise np.linalg.LinAlgError("Singular matrix")
            found[index] = np.nan
    return found.reshape(matrices.shape)


def least_squares(matrices: _Array, values: _Array) -> _Array:
    """Return the minima of ``|matrix x - values|^2`` for matrices of full rank.

    The matrices have shape (batch, equations, unknowns), with at least as many equations as unknowns, the values
    (batch, equations) and the minima (batch, unknowns). Raises `numpy.linalg.LinAlgError` if a matrix is not of full
    rank.
    """
    unknowns = matrices.shape[2]
    if len(matrices) > 1:
        r = np.asarray(np.linalg.qr(np.concatenate([matrices, values[..., None]], axis=2), mode="r"))
        return np.asarray(np.linalg.solve(r[:, :unknowns, :unknowns], r[:, :unknowns, -1:])[..., 0], dtype=np.float64)
    _, solution, info = dgels(matrices[0], values[0])
    if info > 0:
        raise np.linalg.LinAlgError("Singular matrix")
    return np.asarray(solution[:unknowns], dtype=np.float64)[None]


def scaled_factors(tables: _Array, dimension: float) -> tuple[_Array, _Array, float]:
    """Return tables as products of few dimensions, each entry right to rounding relative to its row and column.

    A dimension counts if its singular value over the largest is above `dimension`, where rows and columns have the size
    one. The factors have shapes (..., rows, dimensions) and (..., dimensions, columns). The last number is the
    singular value of the last dimension, over the largest.
    """
    rows = np.maximum(np.abs(tables).max(axis=-1, keepdims=True), _LEAST_SCALE)
    columns = np.maximum(np.abs(tables / rows).max(axis=-2, keepdims=True), _LEAST_SCALE)
    left, singular, right = np.linalg.svd(tables / rows / columns, full_matrices=False)
    relative = singular / np.maximum(singular[..., :1], _LEAST_SCALE)
    count = max(1, int((relative > dimension).sum(axis=-1).max()))
    left = rows * left[..., :count] * singular[..., None, :count]
    return left, right[..., :count, :] * columns, float(relative[..., count - 1].min())
