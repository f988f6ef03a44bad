"""How much of an error is scatter that few rows make: there the equations, which are those of many rows, may be wrong.

Docs, "Learning curve", equation (F16).
"""

from __future__ import annotations

from array_api_compat import device

from gradstep.learning.equations import RowErrors
from gradstep.resolution import NOTHING

__all__ = ["scatter_by_few"]

#: Rows that are few.
_FEW = 10


def scatter_by_few(errors: RowErrors) -> float:
    """Return the share of the test error that is scatter between fits which few rows make, for one fit with n < M.

    The scatter on a row is a sum over the other rows. It is made by few of them if the effective number of its terms is
    below ten, as on rows of a category that hardly any other row has. Some rows of the pool stand for all.

    Docs, "Learning curve", equation (F16).
    """
    errors = errors.rounded
    fit, psi = errors.fit, errors.fit.resolvent.whitened
    pool, xp = fit.resolvent.pool, fit.resolvent.pool.xp
    probes, double = pool.probes(), errors.squares.dtype
    few, sums, fourth = xp.take(psi, probes, axis=0), 0.0, 0.0
    for part in pool.blocks():
        every = xp.arange(pool.rows, device=device(psi))[part]
        others = xp.astype(probes[:, None] != every[None, :], double)
        terms = others * (fit.weights[part, 0] * xp.astype(few @ psi[part, :].T, double)) ** 2
        sums, fourth = sums + xp.sum(terms, axis=1), fourth + xp.sum(terms**2, axis=1)
    by_few = xp.astype(sums**2 < _FEW * fourth, double)
    square = xp.take(errors.squares[:, 0], probes, axis=0)
    scatter = square - xp.take(xp.sum(errors.residuals**2, axis=1)[:, 0], probes, axis=0)
    return float(xp.sum(by_few * scatter)) / max(float(xp.sum(square)), NOTHING)
