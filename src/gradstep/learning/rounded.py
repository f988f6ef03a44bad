r"""Sums over pairs of rows, in single precision where that is enough, for several columns of values at once.

They are most of the work of errors and of standard errors. The vectors :math:`\psi` have
:math:`\psi_m^\top\psi_k=\phi_m^\top R\phi_k`, whatever the features are, so that seven digits of them are left; values
are scaled to at most one before they are rounded. What is added up and solved for stays in double precision.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from gradstep.learning.pool import Array, Pool
from gradstep.learning.resolvent import Resolvent, Summed, holds_pairs, quadratic_forms, squares_of_others

__all__ = ["RoundedResolvent", "SingleResolvent", "rounded_product"]

#: Solutions with a factor in single precision that are added up.
_REFINEMENTS = 3
#: Rows for each feature up to which matrices of pairs of rows are less work than those of pairs of features.
_ROWS_PER_FEATURE = 2


def rounded_product(matrix: Array, values: Array, *, transposed: bool = False) -> Array:
    """Return the product of a matrix (A, B), or of the transpose of one (B, A), with values (B, C).

    It is computed in the precision of the matrix: each column of values is divided by its largest before it is rounded.
    What is returned is in double precision.
    """
    xp, largest = array_namespace(values), _sizes(values, 0)
    scaled = xp.astype(values / largest, matrix.dtype)
    # A product of small matrices in single precision may raise a flag for what the library reads beside them.
    with np.errstate(invalid="ignore"):
        found = (scaled.T @ matrix).T if transposed else matrix @ scaled  # the transpose of many rows is slow
    return xp.astype(found, xp.float64) * largest


def _sizes(values: Array, axes: Any) -> Array:
    """Return the largest sizes of values along some axes, or one where all are zero."""
    xp = array_namespace(values)
    largest = xp.max(xp.abs(values), axis=axes)
    return xp.where(largest > 0, largest, 1 + 0 * largest)


class SingleResolvent(Resolvent):
    """A resolvent whose factor and whitened rows are in single precision.

    The columns are scaled so that all directions count alike where weights are equal: what is left for the factor has
    a condition number of no more than the largest over the smallest weight.
    """

    @cached_property
    def _scale(self) -> Array:
        """Scale of the columns of the unit features, shape (r,)."""
        xp, eigenvalues = self.pool.xp, self.pool.eigenvalues
        return 1 / xp.sqrt(xp.mean(self.weights) + self.ridge / eigenvalues)

    @property
    def _basis(self) -> tuple[Array, Array]:
        xp, scale = self.pool.xp, self._scale
        return self.pool.unit * xp.astype(scale, xp.float32), self.ridge / self.pool.eigenvalues * scale**2

    @property
    def log_determinant(self) -> float:
        """Logarithm of the determinant of the inverse of R."""
        xp = self.pool.xp
        return super().log_determinant + float(xp.sum(xp.log(self.pool.eigenvalues / self._scale**2)))

    @cached_property
    def bare_leverage(self) -> Array:
        """``phi^T R phi`` for all rows, shape (M,)."""
        return self.pool.xp.astype(super().bare_leverage, self.pool.xp.float64)

    @cached_property
    def identity(self) -> Array:
        """The identity in the basis of `whitened`, for use in place of a `moment`, shape (r, r)."""
        xp = self.pool.xp
        inverse = xp.astype(self._inverse_factor, xp.float64) * (self._scale / xp.sqrt(self.pool.eigenvalues))
        return inverse @ inverse.T

    def others(self, values: Array, moment: Array | None = None, *, symmetric: bool = False) -> Array:
        """Return for each row m the sum over the other rows k of ``(phi_m^T R phi_k)^2`` times values (M,), (M,)."""
        return self._columns.others(values[:, None], moment)[:, 0]

    @cached_property
    def _columns(self) -> RoundedResolvent:
        return RoundedResolvent(self)

    def predictions(self, targets: Array, moment: Array | None = None, tolerance: float = 0.0) -> Array:
        """Return ``phi_m^T R sum_k phi_k t_k`` for all rows and each column t of targets (M, K), shape (M, K).

        What the factor leaves of the right side is solved for again, so that the result is in double precision.
        """
        if moment is not None:
            return self._columns.predictions(targets[:, :, None], moment[None, :, :])[:, :, 0]
        features, inverse = self.pool.features, self._inverse_factor
        scale = (self._scale / self.pool.xp.sqrt(self.pool.eigenvalues))[:, None]
        right = features.T @ targets
        readout = 0 * right
        for _ in range(_REFINEMENTS):
            applied = features.T @ (self.weights[:, None] * (features @ readout)) + self.ridge * readout
            rest = rounded_product(inverse, scale * (right - applied))
            readout = readout + scale * rounded_product(inverse.T, rest)
        return features @ readout


@dataclass(frozen=True, eq=False)
class RoundedResolvent:
    """A whole resolvent for C columns of values, with its methods."""

    whole: Resolvent
    single: bool = True  #: Whether single precision is enough.

    @property
    def pool(self) -> Pool:
        """Rows of the fit."""
        return self.whole.pool

    @property
    def ridge(self) -> float:
        """Penalty."""
        return self.whole.ridge

    @property
    def bare_leverage(self) -> Array:
        """``phi^T R phi``, shape (M, 1)."""
        return self.whole.bare_leverage[:, None]

    @cached_property
    def identity(self) -> Array:
        """The identity in the basis of `whitened`, for use in place of a `moment`, shape (1, r, r)."""
        return self.whole.identity[None, :, :]

    @cached_property
    def whitened(self) -> Array:
        """Features ``psi`` with ``phi_m^T R phi_k = psi_m^T psi_k``, shape (M, r)."""
        whitened = self.whole.whitened
        return self.pool.xp.astype(whitened, self.pool.xp.float32) if self.single else whitened

    @cached_property
    def _pairs(self) -> Array:
        """Squares of ``phi_m^T R phi_k`` of different rows, and zeros on the diagonal, shape (M, M)."""
        return squares_of_others(self.whitened)

    def rounded(self, values: Array) -> tuple[Array, Array]:
        """Return values (M, C) in the precision of sums, each column divided by its largest, and the largest (C,)."""
        largest = _sizes(values, 0)
        return self.pool.xp.astype(values / largest, self.whitened.dtype), largest

    def restored(self, values: Array, size: Any = 1.0) -> Array:
        """Return products in double precision, times what was divided by."""
        return self.pool.xp.astype(values, self.pool.xp.float64) * size

    def moment(self, values: Array) -> Array:
        """Return the sums over rows of ``psi psi^T`` times values (M, C) of any sign, shape (C, r, r)."""
        psi, (scaled, size) = self.whitened, self.rounded(values)
        signs = [_sign(values[:, column]) for column in range(values.shape[1])]
        sums = [
            sum(_weighted(psi[part, :], scaled[part, column], sign) for part in self.pool.blocks())
            for column, sign in enumerate(signs)
        ]
        return self.restored(self.pool.xp.stack(sums), size[:, None, None])

    def double(self) -> Array:
        """Return ``phi^T R R phi`` for all rows, shape (M, 1)."""
        return self.quadratic(self.identity)

    @property
    def _few_rows(self) -> bool:
        """Whether products of matrices (M, M) are less work than those of matrices (r, r) with all rows."""
        rows, rank = self.pool.features.shape
        return holds_pairs(self.pool) and bool(rows < _ROWS_PER_FEATURE * rank)

    def summed(self, values: Array) -> Summed:
        """Return sums over rows of ``psi psi^T`` times values (M, C) of any sign."""
        return Summed(values, None if self._few_rows else self.moment(values))

    def chained(self, first: Summed, ridge: Array, second: Summed) -> Array:
        """Return ``psi^T (A + ridge I) B psi`` for all rows, shape (M, C): sums A (M, C) and B (M, 1), numbers (C,).

        ``I`` is the `identity`. With few rows the sums stand between correlations of pairs of rows, as a product of two
        matrices entry by entry that all columns share.
        """
        if first.moment is not None and second.moment is not None:
            return self._through(first.moment + ridge[:, None, None] * self.identity, second.moment)
        correlations, (scaled, size) = self.whitened @ self.whitened.T, self.rounded(second.values)
        correlations *= _weighted(correlations, scaled[:, 0], _sign(second.values[:, 0]))
        found = self._columns_of(correlations, first.values) * size
        return found + ridge * self._through(self.identity, self.moment(second.values))

    def _through(self, left: Array, right: Array) -> Array:
        """Return ``psi^T left right psi`` for all rows, shape (M, C), and matrices (C, r, r) and (1, r, r)."""
        sizes = _sizes(left, (1, 2)), _sizes(right, (1, 2))
        scaled, other = (
            self.pool.xp.astype(matrices / size[:, None, None], self.whitened.dtype)
            for matrices, size in zip((left, right), sizes, strict=True)
        )
        return self.quadratic(scaled @ other) * (sizes[0] * sizes[1])

    def quadratic(self, moment: Array) -> Array:
        """Return ``psi^T moment psi`` for all rows and moments (C, r, r), shape (M, C)."""
        xp, psi, size = self.pool.xp, self.whitened, _sizes(moment, (1, 2))
        scaled = xp.astype(moment / size[:, None, None], psi.dtype)
        columns = [
            xp.concat([quadratic_forms(psi[part, :], own) for part in self.pool.blocks()])
            for own in (scaled[place, :, :] for place in range(moment.shape[0]))
        ]
        return self.restored(xp.stack(columns, axis=1), size)

    def others(self, values: Array, moment: Array | None = None, *, symmetric: bool = False) -> Array:
        """Return for each row m the sum over the other rows k of ``(phi_m^T R phi_k)^2`` times values, both (M, C)."""
        if holds_pairs(self.pool):
            return self._columns_of(self._pairs, values)
        moment = self.moment(values) if moment is None else moment
        return self.quadratic(moment) - self.bare_leverage**2 * values

    def _columns_of(self, matrix: Array, values: Array) -> Array:
        """Return the product of a matrix (M, M) with each column of values (M, C)."""
        columns = (rounded_product(matrix, values[:, column, None]) for column in range(values.shape[1]))
        return self.pool.xp.concat(list(columns), axis=1)

    def own(self, values: Array) -> Array:
        """Return what a row's own term is multiplied by in a sum over rows, shape (M, C): its own value."""
        return values

    def predictions(self, targets: Array, moment: Array | None = None, tolerance: float = 0.0) -> Array:
        """Return ``psi_m^T sum_k psi_k t_k`` for targets (M, K, C), with a moment (1, r, r) between if there is one."""
        xp, psi = self.pool.xp, self.whitened
        sums = rounded_product(psi, xp.reshape(targets, (targets.shape[0], -1)), transposed=True)
        found = rounded_product(psi, sums if moment is None else moment[0, :, :] @ sums)
        return xp.reshape(found, targets.shape)


def _sign(values: Array) -> float:
    """Return one if no value (M,) is negative, minus one if none is positive, and otherwise zero."""
    xp = array_namespace(values)
    return 1.0 if float(xp.min(values)) >= 0 else -1.0 if float(xp.max(values)) <= 0 else 0.0


def _weighted(rows: Array, values: Array, sign: float) -> Array:
    """Return the sum over rows (B, r) of their squares (r, r) times values (B,) of one sign, or of either with zero."""
    if not sign:
        return rows.T @ (values[:, None] * rows)
    # The product of a matrix with itself is half the work of another.
    scaled = array_namespace(rows).sqrt(sign * values)[:, None] * rows
    return sign * (scaled.T @ scaled)
