r"""Weighted fits for many pairs of n and ridge at once: the resolvent is diagonal in the eigenbasis of the pool.

Where all rows have the same weight, the Gram matrix of the weighted fit is diagonal in that basis. Where they have not,
its other entries are sums of much noise and little else. Without them the equations keep their form, and all that
follows from it: the weights are the maximum of a strictly concave function, and the errors need the inverse of the
matrix of Newton's method. A sum over pairs of rows becomes two products with the squares of the features. Docs,
"Learning curve", equation (F10).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from gradstep.learning.conjugate_gradient import conjugate_gradient
from gradstep.learning.pool import Array, Pool

__all__ = ["DiagonalResolvent"]


@dataclass(frozen=True, eq=False)
class DiagonalResolvent:
    """The diagonal of the resolvents of G fits, with the methods of `gradstep.learning.resolvent.Resolvent`.

    Predictions are those of the whole resolvent: only sums over pairs of rows are simplified.

    Parameters
    ----------
    pool : Pool
    ridge : array, shape (G,)
        Positive.
    weights : array, shape (M, G)
        Positive.
    """

    pool: Pool
    ridge: Array
    weights: Array

    @property
    def targets(self) -> Array:
        """Targets of the pool, shape (M, K, 1)."""
        return self.pool.targets[:, :, None]

    @property
    def mass(self) -> Array:
        """Sample weights of the pool, shape (M, 1)."""
        return self.pool.mass[:, None]

    @cached_property
    def spectrum(self) -> Array:
        """Diagonal of the inverse of R, shape (r, G)."""
        return self.ridge + self._sums(self.weights)

    def _sums(self, values: Array) -> Array:
        features = self.pool.features
        return sum((features[part, :] ** 2).T @ values[part, :] for part in self.pool.blocks())

    @cached_property
    def bare_leverage(self) -> Array:
        """``phi^T R phi``, shape (M, G)."""
        return self.quadratic(1 + 0 * self.spectrum)

    @cached_property
    def identity(self) -> Array:
        """Diagonal of R, for use in place of a `moment`, shape (r, G)."""
        return 1 / self.spectrum

    def moment(self, values: Array) -> Array:
        """Return the diagonal of the sum over rows of ``psi psi^T`` times values (M, G), shape (r, G)."""
        return self._sums(values) / self.spectrum

    def shifted(self, moment: Array, ridge: float) -> Array:
        """Return moments with the identity times a number added."""
        return moment + ridge * self.identity

    def product(self, first: Array, second: Array) -> Array:
        """Return the product of two moments."""
        return first * second

    def quadratic(self, moment: Array) -> Array:
        """Return ``psi^T moment psi`` for all rows, shape (M, G)."""
        features, scaled = self.pool.features, moment / self.spectrum
        return self.pool.xp.concat([features[part, :] ** 2 @ scaled for part in self.pool.blocks()])

    def correlated(self, values: Array, moment: Array | None = None) -> Array:
        """Return the sum over rows k of ``(phi_m^T R phi_k)^2`` times values (M, G) for each row m, shape (M, G)."""
        return self.quadratic(self.moment(values) if moment is None else moment)

    @cached_property
    def _own_share(self) -> Array:
        features, scaled = self.pool.features, 1 / self.spectrum**2
        fourth = self.pool.xp.concat([features[part, :] ** 4 @ scaled for part in self.pool.blocks()])
        return fourth / self.pool.xp.clip(self.bare_leverage**2, 1e-300, None)

    def own(self, values: Array) -> Array:
        xp, share = self.pool.xp, self._own_share
        apart = self.bare_leverage**2 * (1 - share)
        return share * values + (1 - share) * xp.sum(apart * values, axis=0) / xp.sum(apart, axis=0)

    def predictions(self, targets: Array, moment: Array | None = None, tolerance: float = 1e-6) -> Array:
        """Return ``phi_m^T R sum_k phi_k t_k``, or with R R if there is a moment, for targets (M, K, G).

        The tolerance is that of the relative residual.
        """
        xp, blocks, columns = self.pool.xp, list(self.pool.blocks()), tuple(targets.shape[1:])
        features, spectrum = self.pool.features, self.spectrum[:, None, :]

        def applied(matrix: Array, values: Array) -> Array:
            return xp.reshape(matrix @ xp.reshape(values, (values.shape[0], -1)), (-1, *columns))

        def gram(readout: Array) -> Array:
            weighted = (self.weights[part, None, :] * applied(features[part, :], readout) for part in blocks)
            sums = (applied(features[part, :].T, w) for part, w in zip(blocks, weighted, strict=True))
            return self.ridge * readout + sum(sums)

        readout = sum(applied(features[part, :].T, targets[part, :, :]) for part in blocks)
        for _ in range(1 if moment is None else 2):
            readout, _ = conjugate_gradient(gram, readout, spectrum + 0 * readout, tolerance)
        return xp.concat([applied(features[part, :], readout) for part in blocks])
