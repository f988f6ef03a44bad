"""How much of an error is scatter that few rows make: there the equations, which are those of many rows, may be wrong.

Docs, "Learning curve", equation (F16).
"""

from __future__ import annotations

import numpy as np
from array_api_compat import device
from numpy.typing import NDArray

from gradstep.host import to_host
from gradstep.learning.equations import RowErrors
from gradstep.learning.pool import Pool, spread_out
from gradstep.resolution import NOTHING

__all__ = ["scatter_by_few"]

#: Rows that are few; and rows with the most scatter, and rows that stand for all others, on which it is counted.
_FEW, _COUNTED = 10, 64


def scatter_by_few(errors: RowErrors) -> float:
    """Return the share of the test error that is scatter between fits which few rows make, for one fit with n < M.

    The scatter on a row is a sum over the other rows. It is made by few of them if the effective number of its terms is
    below ten, as on rows of a category that hardly any other row has. It is counted on the rows with the most scatter,
    which may make all of the error, and on some that stand for all others.

    Docs, "Learning curve", equation (F16).
    """
    errors = errors.rounded
    fit, psi = errors.fit, errors.fit.resolvent.whitened
    pool, xp, double = fit.resolvent.pool, fit.resolvent.pool.xp, errors.squares.dtype
    scatter = to_host(errors.squares[:, 0] - xp.sum(errors.residuals**2, axis=1)[:, 0])
    places, counts = _counted(pool, scatter)
    chosen = xp.asarray(places, device=device(psi))
    few, sums, fourth = xp.take(psi, chosen, axis=0), 0.0, 0.0
    for part in pool.blocks():
        every = xp.arange(pool.rows, device=device(psi))[part]
        others = xp.astype(chosen[:, None] != every[None, :], double)
        terms = others * (fit.weights[part, 0] * xp.astype(few @ psi[part, :].T, double)) ** 2
        sums, fourth = sums + xp.sum(terms, axis=1), fourth + xp.sum(terms**2, axis=1)
    by_few = to_host(xp.astype(sums**2 < _FEW * fourth, double))
    made = float((by_few * counts) @ scatter[places])
    return made / max(float(xp.sum(errors.squares)), NOTHING)


def _counted(pool: Pool, scatter: NDArray[np.float64]) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return the places of the rows on which scatter is counted, and for how many rows each of them stands."""
    order = pool.order
    # In an order that does not depend on how the rows were given, also if they are alike.
    most = order[np.argsort(-scatter[order], kind="stable")[:_COUNTED]]
    rest = order[~np.isin(order, most)]
    probes = spread_out(rest, _COUNTED)
    counts = np.full(len(probes), len(rest) / max(len(probes), 1))
    return np.concatenate([most, probes]), np.concatenate([np.ones(len(most)), counts])
