r"""Weighted fits for many pairs of n and ridge at once, with a resolvent that is diagonal in the eigenbasis of the pool.

Where all rows have the same weight, the Gram matrix of the weighted fit is diagonal in that basis. Where they have not,
its other entries are sums of much noise and little else. Without them the equations keep their form, and all that
follows from it: the weights are the maximum of a strictly concave function, and the errors need the inverse of the
matrix of Newton's method. A sum over pairs of rows becomes two products with the squares of the features. Docs,
"Learning curve", equation (F10).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from gradstep.errors import NotConverged
from gradstep.errors import NotConverged
from gradstep.learning.conjugate_gradient import conjugate_gradient
from gradstep.learning.equations import WeightedFit
from gradstep.learning.pool import Array, Pool

__all__ = ["DiagonalResolvent", "diagonal_fits"]

#: Largest change of the logarithm of a weight by its own equation, and relative residual of the readouts.
_TOLERANCE = 1e-6
_NEWTON_STEPS = 40
#: Largest change of the logarithm of a weight in one step.
_LONGEST_STEP = 1.0
#: Largest number of samples over rows of the pool: for as many samples as rows all weights are one.
_LARGEST_RATIO = 1 - 1e-9


@dataclass(frozen=True, eq=False)
class DiagonalResolvent:
    """What `gradstep.learning.resolvent.Resolvent` is, for G fits, without the entries beside the diagonal.

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

    def predictions(self, targets: Array, moment: Array | None = None) -> Array:
        """Return ``phi_m^T R sum_k phi_k t_k``, or with R R if there is a moment, for targets (M, K, G)."""
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
            readout, _ = conjugate_gradient(gram, readout, spectrum + 0 * readout, _TOLERANCE)
        return xp.concat([applied(features[part, :], readout) for part in blocks])


def diagonal_fits(pool: Pool, samples: Array, ridges: Array) -> WeightedFit:
    """Return the weights of G fits without the entries of the resolvent beside its diagonal.

    Docs, "Learning curve", equation (F10).

    Parameters
    ----------
    pool : Pool
    samples : array, shape (G,)
        Numbers of rows n that they stand for, at most those of the pool.
    ridges : array, shape (G,)

    Returns
    -------
    WeightedFit
        With weights of shape (M, G).

    Raises
    ------
    NotConverged
        If rounding hides a solution.
    """
    xp = pool.xp
    ratio = xp.clip(samples / pool.rows, None, _LARGEST_RATIO)

    def at(weights: Array) -> WeightedFit:
        return WeightedFit(ratio, weights, DiagonalResolvent(pool, ridges, weights))

    fits = at(ratio + 0 * pool.mass[:, None])
    fits = at(fits.own_weights)
    for _ in range(_NEWTON_STEPS):
        residual = float(xp.max(xp.abs(xp.log(fits.own_weights / fits.weights))))
        if residual <= _TOLERANCE:
            return fits
        step = fits.newton_step()
        length = _LONGEST_STEP / xp.clip(xp.max(xp.abs(step), axis=0), _LONGEST_STEP, None)
        fits = at(xp.minimum(fits.weights * xp.exp(length * step), (1 + fits.weights) / 2))
    raise NotConverged("The weights of a learning curve", residual, _TOLERANCE, "Use a larger ridge.")
