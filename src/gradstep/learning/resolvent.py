r"""The matrix :math:`R=(\Lambda+\sum_mw_m\phi_m\phi_m^\top)^{-1}` of a weighted fit, and sums over rows with it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from array_api_compat import device

from gradstep.learning.pool import Array, Pool

__all__ = ["Resolvent"]

#: Up to so many rows, and so many for each feature, the correlations of all pairs of rows are held: they cost a product
#: of M x N with N x M, after which a sum over rows is a product with a vector. Measured at N = 200.
_MOST_PAIRED_ROWS = 4000
_PAIRED_ROWS_PER_FEATURE = 30


@dataclass(frozen=True, eq=False)
class Resolvent:
    """The inverse of a weighted Gram matrix with a penalty.

    Parameters
    ----------
    pool : Pool
    ridge : float
        Positive.
    weights : array, shape (M,)
        Positive.
    """

    pool: Pool
    ridge: float
    weights: Array

    @cached_property
    def _factor(self) -> Array:
        """Lower triangular factor of the inverse of R."""
        features, root = self.pool.features, self.pool.xp.sqrt(self.weights)
        gram = self.ridge * self.identity
        for part in self.pool.blocks():  # the product of a block with its own transpose is half the work of another
            block = root[part, None] * features[part, :]
            gram = gram + block.T @ block
        return self.pool.xp.linalg.cholesky(gram)

    @cached_property
    def matrix(self) -> Array:
        """R, shape (r, r)."""
        inverse = self.pool.xp.linalg.inv(self._factor)
        return inverse.T @ inverse

    @property
    def log_determinant(self) -> float:
        """Logarithm of the determinant of the inverse of R."""
        xp = self.pool.xp
        return 2 * float(xp.sum(xp.log(xp.linalg.diagonal(self._factor))))

    @cached_property
    def identity(self) -> Array:
        """The identity, shape (r, r)."""
        features = self.pool.features
        return self.pool.xp.eye(features.shape[1], dtype=features.dtype, device=device(features))

    def moment(self, values: Array) -> Array:
        """Return the sum of ``phi phi^T`` times values (M,) of any sign over all rows, shape (r, r)."""
        features = self.pool.features
        return sum(features[part, :].T @ (values[part, None] * features[part, :]) for part in self.pool.blocks())

    def quadratic(self, *moments: Array) -> Array:
        """Return ``phi^T R m_1 R m_2 R ... phi`` for all rows, shape (M,)."""
        xp, matrix, features = self.pool.xp, self._product(moments), self.pool.features
        parts = [xp.sum((features[part, :] @ matrix) * features[part, :], axis=1) for part in self.pool.blocks()]
        return xp.concat(parts)

    def correlated(self, values: Array) -> Array:
        """Return the sum over rows k of ``(phi_m^T R phi_k)^2`` times values (M,) for each row m, shape (M,)."""
        rows, rank = self.pool.features.shape
        if rows <= min(_MOST_PAIRED_ROWS, _PAIRED_ROWS_PER_FEATURE * rank):
            return self._pairs @ values
        return self.quadratic(self.moment(values))

    def predictions(self, targets: Array, *moments: Array) -> Array:
        """Return ``phi_m^T R m_1 R m_2 R ... sum_k phi_k t_k`` for all rows and each column t of targets (M, K)."""
        return self.pool.features @ (self._product(moments) @ (self.pool.features.T @ targets))

    @cached_property
    def _pairs(self) -> Array:
        """Squares of ``phi_m^T R phi_k``, shape (M, M)."""
        return (self.pool.features @ (self.matrix @ self.pool.features.T)) ** 2

    def _product(self, moments: tuple[Array, ...]) -> Array:
        matrix = self.matrix
        for moment in moments:
            matrix = matrix @ moment @ self.matrix
        return matrix
