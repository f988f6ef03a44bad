r"""The matrix :math:`R=(\Lambda+\sum_mw_m\phi_m\phi_m^\top)^{-1}` of a weighted fit, and sums over rows with it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace, device, is_numpy_array
from scipy.linalg import get_blas_funcs, get_lapack_funcs, solve_triangular

from gradstep.host import set_diagonal
from gradstep.learning.pool import Array, Pool

__all__ = ["Resolvent", "Summed", "holds_pairs", "quadratic_forms", "squares_of_others"]

#: Up to so many rows, and so many for each feature, the correlations of all pairs of rows are held: they cost a product
#: of M x N with N x M, after which a sum over rows is a product with a vector. The first number is a matter of memory.
_MOST_PAIRED_ROWS = 8000
_PAIRED_ROWS_PER_FEATURE = 30


def holds_pairs(pool: Pool) -> bool:
    """Return whether the correlations of all pairs of rows are held."""
    rows, rank = pool.features.shape
    return bool(rows <= min(_MOST_PAIRED_ROWS, _PAIRED_ROWS_PER_FEATURE * rank))


def squares_of_others(rows: Array) -> Array:
    """Return the squares of the products of rows (M, r) with each other, and zeros on the diagonal, shape (M, M).

    Next to interpolation a row's own entry is larger than all others by so much that it could not be subtracted later.
    """
    squares = rows @ rows.T
    squares *= squares  # in place: of all that is held it is by far the largest
    set_diagonal(squares, 0.0)
    return squares


def quadratic_forms(rows: Array, matrix: Array) -> Array:
    """Return ``x^T matrix x`` for all rows x (B, r), shape (B,); the matrix (r, r) need not be symmetric."""
    xp = array_namespace(rows)
    if not is_numpy_array(rows):
        return xp.sum((rows @ matrix) * rows, axis=1)
    # Both halves of the matrix in one of them: the product with a triangle is half the work of another.
    half = np.tril(matrix) + np.tril(matrix.T, -1)
    product: Any = get_blas_funcs("trmm", (rows,))
    return np.vecdot(product(1.0, half.T, rows.T, lower=False).T, rows)


class Summed(NamedTuple):
    """A sum over rows of ``psi psi^T`` times values."""

    values: Array  #: Shape (M,) or (M, C).
    moment: Array | None  #: The sum, as `moment` of a resolvent returns it; None where it is not needed.


@dataclass(frozen=True, eq=False)
class Resolvent:
    """The inverse of a weighted Gram matrix with a penalty."""

    pool: Pool
    ridge: float  #: Positive.
    weights: Array  #: Positive, shape (M,).

    @property
    def _basis(self) -> tuple[Array, Array]:
        """Features (M, r) in some scale of their columns, and the penalty of each column in it (r,)."""
        return self.pool.features, self.ridge + 0 * self.pool.eigenvalues

    @cached_property
    def _factor(self) -> Array:
        """Lower triangular factor of the inverse of R."""
        xp, (features, penalties) = self.pool.xp, self._basis
        root = xp.astype(xp.sqrt(self.weights), features.dtype)
        gram = xp.astype(penalties, features.dtype) * xp.eye(
            features.shape[1], dtype=features.dtype, device=device(features)
        )
        for part in self.pool.blocks():  # the product of a block with its own transpose is half the work of another
            block = root[part, None] * features[part, :]
            gram = gram + block.T @ block
        return xp.linalg.cholesky(gram)

    @cached_property
    def _inverse_factor(self) -> Array:
        if is_numpy_array(self._factor):  # a sixth of the work of a matrix that is not triangular
            inverse_of: Any = get_lapack_funcs("trtri", (self._factor,))
            return np.ascontiguousarray(inverse_of(self._factor, lower=True)[0])
        return self.pool.xp.linalg.inv(self._factor)

    @cached_property
    def whitened(self) -> Array:
        """Features ``psi`` with ``phi_m^T R phi_k = psi_m^T psi_k``, shape (M, r)."""
        features, _ = self._basis
        if is_numpy_array(self._factor):  # half the work of a product with the inverse
            solved = solve_triangular(self._factor, features.T, lower=True, check_finite=False)
            return np.ascontiguousarray(solved.T)
        return features @ self._inverse_factor.T

    @property
    def log_determinant(self) -> float:
        """Logarithm of the determinant of the inverse of R."""
        xp = self.pool.xp
        return 2 * float(xp.sum(xp.log(xp.linalg.diagonal(self._factor))))

    @cached_property
    def bare_leverage(self) -> Array:
        """``phi^T R phi`` for all rows, shape (M,)."""
        return self.pool.xp.sum(self.whitened**2, axis=1)

    @cached_property
    def identity(self) -> Array:
        """The identity in the basis of `whitened`, for use in place of a `moment`, shape (r, r)."""
        return self._inverse_factor @ self._inverse_factor.T

    def moment(self, values: Array) -> Array:
        """Return the sum over rows of ``psi psi^T`` times values (M,) of any sign, shape (r, r)."""
        psi = self.whitened
        return sum(psi[part, :].T @ (values[part, None] * psi[part, :]) for part in self.pool.blocks())

    def double(self) -> Array:
        """Return ``phi^T R R phi`` for all rows, shape (M,)."""
        return self.quadratic(self.identity)

    def summed(self, values: Array) -> Summed:
        """Return a sum over rows of ``psi psi^T`` times values (M,) of any sign."""
        return Summed(values, self.moment(values))

    def chained(self, first: Summed, ridge: float, second: Summed) -> Array:
        """Return ``psi^T (A + ridge I) B psi`` for all rows, shape (M,): sums A and B, and I is the `identity`."""
        return self.quadratic((first.moment + ridge * self.identity) @ second.moment)

    def quadratic(self, moment: Array) -> Array:
        """Return ``psi^T moment psi`` for all rows, shape (M,)."""
        psi = self.whitened
        return self.pool.xp.concat([quadratic_forms(psi[part, :], moment) for part in self.pool.blocks()])

    def others(self, values: Array, moment: Array | None = None, *, symmetric: bool = False) -> Array:
        """Return for each row m the sum over the other rows k of ``(phi_m^T R phi_k)^2`` times values (M,), shape (M,).

        The moment is that of these values, where it is known. The sums are always those of a symmetric matrix.
        """
        if holds_pairs(self.pool):
            return self._pairs @ values
        moment = self.moment(values) if moment is None else moment
        return self.quadratic(moment) - self.bare_leverage**2 * values

    def own(self, values: Array) -> Array:
        """Return what a row's own term is multiplied by in a sum over rows, shape (M,): its own value."""
        return values

    def predictions(self, targets: Array, moment: Array | None = None, tolerance: float = 0.0) -> Array:
        """Return ``psi_m^T sum_k psi_k t_k`` for all rows and each column t of targets (M, K), shape (M, K).

        A moment, shape (r, r), stands between the two. The tolerance is for resolvents that solve for them.
        """
        sums = self.whitened.T @ targets
        return self.whitened @ (sums if moment is None else moment @ sums)

    @cached_property
    def _pairs(self) -> Array:
        """Squares of ``phi_m^T R phi_k`` of different rows, and zeros on the diagonal, shape (M, M)."""
        return squares_of_others(self.whitened)
