r"""Weighted fits for many pairs of n and ridge at once: the resolvent is diagonal in the eigenbasis of the pool.

Where all rows have the same weight, the Gram matrix of the weighted fit is diagonal in that basis. Where they have not,
its other entries are sums of much noise and little else. Without them the equations keep their form, and all that
follows from it: the weights are the maximum of a strictly concave function, and the errors need the inverse of the
matrix of Newton's method. A sum over pairs of rows becomes two products with the squares of the features. Docs,
"Learning curve", equation (F11).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from gradstep.learning.conjugate_gradient import conjugate_gradient
from gradstep.learning.pool import Array, Pool
from gradstep.learning.resolvent import Summed
from gradstep.learning.rounded import rounded_product
from gradstep.resolution import NOTHING

__all__ = ["DiagonalResolvent"]

#: Relative residual from which predictions are in single precision.
_ROUGH = 1e-3


@dataclass(frozen=True, eq=False)
class DiagonalResolvent:
    """The diagonal of the resolvents of G fits, with the methods of `gradstep.learning.resolvent.Resolvent`.

    Predictions are those of the whole resolvent: only sums over pairs of rows are simplified.
    """

    pool: Pool
    ridge: Array  #: Positive, shape (G,).
    weights: Array  #: Positive, shape (M, G).

    @cached_property
    def spectrum(self) -> Array:
        """Diagonal of the inverse of R, shape (r, G)."""
        return self.ridge + self._sums(self.weights)

    @cached_property
    def _ratio(self) -> Array:
        """Eigenvalues of the pool over those of the weighted fit, shape (r, G)."""
        return self.pool.eigenvalues[:, None] / self.spectrum

    def _sums(self, values: Array) -> Array:
        """Return the sums of squared features times values (M, G), shape (r, G)."""
        return self.pool.eigenvalues[:, None] * rounded_product(self.pool.shares, values, transposed=True)

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

    def double(self) -> Array:
        """Return ``phi^T R R phi`` for all rows, shape (M, G)."""
        return self.quadratic(self.identity)

    def summed(self, values: Array) -> Summed:
        """Return a sum over rows of ``psi psi^T`` times values (M, G)."""
        return Summed(values, self.moment(values))

    def chained(self, first: Summed, ridge: float, second: Summed) -> Array:
        """Return ``psi^T (A + ridge I) B psi`` for all rows, shape (M, G): sums A and B, and I is the `identity`."""
        return self.quadratic((first.moment + ridge * self.identity) * second.moment)

    def quadratic(self, moment: Array) -> Array:
        """Return ``psi^T moment psi`` for all rows, shape (M, G)."""
        return rounded_product(self.pool.shares, moment * self._ratio)

    def others(self, values: Array, moment: Array | None = None, *, symmetric: bool = False) -> Array:
        """Return for each row m the sum over the other rows k of ``(phi_m^T R phi_k)^2`` times values (M, G), (M, G).

        A row's own term is left out: the plain one if the sums are to be those of a `symmetric` matrix, and otherwise
        the better one of `own`.
        """
        every = self.quadratic(self.moment(values) if moment is None else moment)
        return every - self.bare_leverage**2 * (values if symmetric else self.own(values))

    @cached_property
    def _own_share(self) -> Array:
        """The part of the square of a row's leverage that the diagonal has, shape (M, G)."""
        parts = (rounded_product(self.pool.shares[part, :] ** 2, self._ratio**2) for part in self.pool.blocks())
        return self.pool.xp.concat(list(parts)) / self.pool.xp.clip(self.bare_leverage**2, NOTHING, None)

    def own(self, values: Array) -> Array:
        """Return what a row's own term is multiplied by in a sum over rows, shape (M, G).

        What the diagonal leaves out of a sum has the mean zero over all rows, so that the row's own part of it and the
        others' cancel but for what the row's value differs from the mean. Docs, "Learning curve", equation (F11).
        """
        xp, share = self.pool.xp, self._own_share
        apart = self.bare_leverage**2 * (1 - share)
        mean = xp.sum(apart * values, axis=0) / xp.clip(xp.sum(apart, axis=0), NOTHING, None)
        return share * values + (1 - share) * mean

    def predictions(self, targets: Array, moment: Array | None = None, tolerance: float = 1e-6) -> Array:
        """Return ``phi_m^T R sum_k phi_k t_k``, or with R R if there is a moment, for targets (M, K, G).

        The tolerance is that of the relative residual.
        """
        xp, pool, columns = self.pool.xp, self.pool, tuple(targets.shape[1:])
        # Readouts are those of the unit features.
        root = pool.xp.sqrt(pool.eigenvalues)[:, None, None]
        spectrum = self.spectrum[:, None, :] / root**2
        precise = tolerance < _ROUGH

        def forward(readout: Array, double: bool) -> Array:
            flat = xp.reshape(readout / root if double else readout, (readout.shape[0], -1))
            parts = (pool.features[part, :] @ flat for part in pool.blocks())
            found = xp.concat(list(parts)) if double else rounded_product(pool.unit, flat)
            return xp.reshape(found, (-1, *columns))

        def backward(values: Array, double: bool) -> Array:
            flat = xp.reshape(values, (values.shape[0], -1))
            parts = (pool.features[part, :].T @ flat[part, :] for part in pool.blocks())
            found = sum(parts) if double else rounded_product(pool.unit, flat, transposed=True)
            found = xp.reshape(found, (-1, *columns))
            return found / root if double else found

        def gram(readout: Array, double: bool = False) -> Array:
            weighted = self.weights[:, None, :] * forward(readout, double)
            return self.ridge / root**2 * readout + backward(weighted, double)

        readout = backward(targets, precise)
        for repeat in range(1 if moment is None else 2):
            right = readout / root**2 if repeat else readout
            readout, _ = conjugate_gradient(gram, right, spectrum + 0 * right, tolerance)
            if precise:  # what single precision has left of the right side is solved for again
                rest = right - gram(readout, double=True)
                more, _ = conjugate_gradient(gram, rest, spectrum + 0 * rest, tolerance)
                readout = readout + more
        return forward(readout, precise)
