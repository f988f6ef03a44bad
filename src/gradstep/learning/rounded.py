r"""Sums over pairs of rows in single precision, for several columns of values at once.

They are most of the work of errors and of standard errors. The vectors :math:`\psi` have
:math:`\psi_m^\top\psi_k=\phi_m^\top R\phi_k`, whatever the features are, so that seven digits of them are left; values
are scaled to at most one before they are rounded. What is added up and solved for stays in double precision.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from array_api_compat import array_namespace

from gradstep.learning.pool import Array, Pool
from gradstep.learning.resolvent import Resolvent, holds_pairs

__all__ = ["RoundedResolvent", "rounded_product"]


def rounded_product(matrix: Array, values: Array) -> Array:
    """Return the product of a matrix in single precision with values of any size, column by column.

    Parameters
    ----------
    matrix : array, shape (A, B)
    values : array, shape (B, C)
        Each column is divided by its largest value before it is rounded.

    Returns
    -------
    array, shape (A, C)
        In double precision.
    """
    xp = array_namespace(values)
    largest = xp.max(xp.abs(values), axis=0)
    largest = xp.where(largest > 0, largest, 1 + 0 * largest)
    return xp.astype(matrix @ xp.astype(values / largest, xp.float32), xp.float64) * largest


@dataclass(frozen=True, eq=False)
class RoundedResolvent:
    """A resolvent for C columns of values, with the methods of `gradstep.learning.resolvent.Resolvent`.

    Parameters
    ----------
    whole : Resolvent
    """

    whole: Resolvent

    @property
    def pool(self) -> Pool:
        """Rows of the fit."""
        return self.whole.pool

    @property
    def ridge(self) -> float:
        """Penalty."""
        return self.whole.ridge

    @property
    def targets(self) -> Array:
        """Targets of the pool, shape (M, K, 1)."""
        return self.pool.targets[:, :, None]

    @property
    def mass(self) -> Array:
        """Sample weights of the pool, shape (M, 1)."""
        return self.pool.mass[:, None]

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
        return self.pool.xp.astype(self.whole.whitened, self.pool.xp.float32)

    @cached_property
    def _pairs(self) -> Array:
        """Squares of ``phi_m^T R phi_k``, shape (M, M)."""
        found = self.whitened @ self.whitened.T
        found *= found
        return found

    def rounded(self, values: Array) -> tuple[Array, Any]:
        """Return values divided by the largest, in single precision, and the largest."""
        xp = self.pool.xp
        largest = float(xp.max(xp.abs(values))) or 1.0
        return xp.astype(values / largest, xp.float32), largest

    def restored(self, values: Array, size: Any) -> Array:
        """Return products in double precision, times what was divided by."""
        return self.pool.xp.astype(values, self.pool.xp.float64) * size

    def moment(self, values: Array) -> Array:
        """Return the sums over rows of ``psi psi^T`` times values (M, C) of any sign, shape (C, r, r)."""
        psi, (scaled, size) = self.whitened, self.rounded(values)
        sums = [
            sum(psi[part, :].T @ (scaled[part, column, None] * psi[part, :]) for part in self.pool.blocks())
            for column in range(values.shape[1])
        ]
        return self.restored(self.pool.xp.stack(sums), size)

    def shifted(self, moment: Array, ridge: Array) -> Array:
        """Return moments (C, r, r) with the identity times a number (C,) added."""
        return moment + ridge[:, None, None] * self.identity

    def product(self, first: Array, second: Array) -> Array:
        """Return the products of moments."""
        return first @ second

    def quadratic(self, moment: Array) -> Array:
        """Return ``psi^T moment psi`` for all rows and moments (C, r, r), shape (M, C)."""
        xp, psi, (scaled, size) = self.pool.xp, self.whitened, self.rounded(moment)
        columns = [
            xp.concat([xp.sum((psi[part, :] @ own) * psi[part, :], axis=1) for part in self.pool.blocks()])
            for own in (scaled[place, :, :] for place in range(moment.shape[0]))
        ]
        return self.restored(xp.stack(columns, axis=1), size)

    def correlated(self, values: Array, moment: Array | None = None) -> Array:
        """Return the sum over rows k of ``(phi_m^T R phi_k)^2`` times values (M, C) for each row m, shape (M, C)."""
        if not holds_pairs(self.pool):
            return self.quadratic(self.moment(values) if moment is None else moment)
        columns = (rounded_product(self._pairs, values[:, column, None]) for column in range(values.shape[1]))
        return self.pool.xp.concat(list(columns), axis=1)

    def own(self, values: Array) -> Array:
        """Return what a row's own term is multiplied by in a sum over rows, shape (M, C): its own value."""
        return values

    def predictions(self, targets: Array, moment: Array | None = None, tolerance: float = 0.0) -> Array:
        """Return ``psi_m^T sum_k psi_k t_k`` for targets (M, K, C), with a moment (1, r, r) between if there is one."""
        xp, psi = self.pool.xp, self.whitened
        sums = rounded_product(psi.T, xp.reshape(targets, (targets.shape[0], -1)))
        found = rounded_product(psi, sums if moment is None else moment[0, :, :] @ sums)
        return xp.reshape(found, targets.shape)
