"""Errors for many pairs of n and ridge by a diagonal resolvent: solved for some pairs, interpolated for the others.

Docs, "Learning curve", equations (F10) to (F13).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from array_api_compat import device
from numpy.typing import NDArray

from gradstep.errors import NotConverged
from gradstep.host import to_host
from gradstep.learning.equal_weights import equal_fits, left_out_errors
from gradstep.learning.equations import RowErrors, diagonal_fits, row_errors
from gradstep.learning.interpolation import lattice, refined_at_once
from gradstep.learning.pool import Array, Pool
from gradstep.learning.rounded import rounded_product
from gradstep.learning.standard_error import influence_on_test_error, influence_on_training_error

__all__ = ["Rough", "largest_leverages", "rough_errors"]

Host = NDArray[np.float64]
Pair = tuple[float, float]

#: Tolerance of the interpolation in standard errors, and that of standard errors as a share of them.
_SHARE_OF_STANDARD_ERROR, _OF_STANDARD_ERRORS = 0.05, 0.05
#: Tolerance of numbers that are interpolated without one.
_ANY = 1e9
#: Largest change of the logarithm of a weight by its own equation, and relative residual of the errors.
_TOLERANCE = 1e-4
#: Units of ln n and ln ridge in the distance of two pairs.
_SCALES = np.array([1.0, 0.5])
#: Values of n and of ridge whose pairs are solved first: most grids have more decades of the latter.
_LATTICE = (4, 6)
#: Numbers in the columns of all pairs that are treated at once, and features for each such column.
_COLUMNS, _FEATURES_PER_COLUMN = 2**17, 16
#: Training error over test error below which the diagonal does not tell the influences on the training error, which are
#: the difference of two much larger numbers. Standard errors whose bound was below a tenth were up to 13 per cent off
#: just above this ratio, 20 per cent just below, and a factor of several hundred near zero.
_INTERPOLATES = 1e-2
#: Largest factors that were measured, see `_bounds`; and the smallest number that is told from zero.
_ERROR_BOUND, _DEVIATION_BOUND, _LEAST_BOUND = 2.0, 1.2, 1e-9


class Rough(NamedTuple):
    """Estimates for G pairs that do not need the whole resolvent."""

    places: Host  #: Of the pairs, as the interpolation measures distances. Shape (G, 2).
    weights: dict[int, Array]  #: Of the pairs for which the diagonal was solved, by their numbers. Shape (M,).
    #: Test and training error, and standard deviations of the influences of rows on them. Shape (2, G).
    errors: Host
    deviations: Host
    influences: Host  #: Shape (2, G, M).
    tolerances: Host  #: Of the logarithms of both errors and both deviations, shape (G, 4).
    #: How large the factors between these and the errors, or the deviations, of the whole resolvent may be, in the
    #: logarithm. Shape (2, G).
    bounds: Host
    whole: NDArray[np.bool_]  #: Pairs with n = M, whose errors are exact. Shape (G,).
    #: Pairs with a small training error: rows have the same relative influence on it as on the test error. That is good
    #: to a factor that bounds do not tell. Shape (G,).
    scaled: NDArray[np.bool_]

    def influences_of_size(self, place: int, deviations: Host) -> Host:
        """Return the influences (2, M) of a pair, scaled to standard deviations (2,)."""
        influences = self.influences[:, place]
        return np.asarray(influences * (deviations / influences.std(axis=1))[:, None])


def _tolerances(errors: Host, deviations: Host, rows: int) -> Host:
    """Return the tolerances of the logarithms of errors (2, G) and of their standard errors, shape (G, 4)."""
    relative = _SHARE_OF_STANDARD_ERROR * deviations / errors / math.sqrt(rows)
    return np.vstack([relative, np.full_like(relative, _OF_STANDARD_ERRORS)]).T


def rough_errors(pool: Pool, pairs: list[Pair]) -> Rough | None:
    """Return the errors by a diagonal resolvent, solved for as many pairs as the interpolation of the others needs.

    The pairs differ, and their n are at most the rows of the pool. Return None where an error is zero or has no
    solution. Docs, "Learning curve", equation (F12).
    """
    samples, ridges = np.array(pairs).T
    equal = equal_fits(pool, samples, ridges).errors
    if not (equal > 0).all():
        return None
    weights: dict[int, Array] = {}
    influences: dict[int, Host] = {}

    def measure(chosen: list[int]) -> tuple[Host, Host]:
        with np.errstate(over="ignore", invalid="ignore"):
            found = _diagonal(pool, [pairs[place] for place in chosen])
        weights.update(zip(chosen, found.weights, strict=True))
        influences.update(zip(chosen, found.influences.swapaxes(0, 1), strict=True))
        for values in (found.errors, found.deviations):
            if not ((values > 0) & np.isfinite(values)).all():
                raise NotConverged("The diagonal", math.nan, 0.0, "")
        values = np.log(np.vstack([found.errors, found.deviations]) / np.tile(equal[:, chosen], (2, 1)))
        tolerances = _tolerances(found.errors, found.deviations, pool.rows)
        bounds = np.log(np.maximum(found.bounds, _LEAST_BOUND)).T
        return np.hstack([values.T, bounds]), np.hstack([tolerances, np.full_like(bounds, _ANY)])

    places = np.log(np.array(pairs)) * _SCALES
    first = {*lattice(places, _LATTICE), *np.flatnonzero(samples == pool.rows).tolist()}
    try:
        factors, spread = refined_at_once(places, first, measure)
    except NotConverged:
        return None
    whole = samples == pool.rows
    errors, deviations, bounds = np.exp(factors.T).reshape(3, 2, -1)
    bounds[0] *= 1 - samples / pool.rows
    errors, deviations = errors * equal, deviations * equal
    errors[:, whole] = left_out_errors(pool, ridges[whole])
    nodes = sorted(influences)
    per_error = np.array([influences[node] / equal[:, node, None] for node in nodes])
    every = np.moveaxis(np.tensordot(spread, per_error, axes=1), 1, 0) * equal[:, :, None]
    for node in nodes:
        every[:, node] = influences[node]
    small = errors[1] < _INTERPOLATES * errors[0]
    every[1, small] = (errors[1] / errors[0])[small, None] * every[0, small]
    deviations[1, small] = every[1, small].std(axis=1)
    tolerances = _tolerances(errors, deviations, pool.rows)
    return Rough(places, weights, errors, deviations, every, tolerances, bounds, whole, small)


class _Diagonal(NamedTuple):
    """Weights (G, M), errors, deviations (2, G) and influences (2, G, M) of G pairs, and bounds (2, G) of factors."""

    weights: list[Array]
    errors: Host
    deviations: Host
    influences: Host
    bounds: Host


def _diagonal(pool: Pool, pairs: list[Pair]) -> _Diagonal:
    """Solve pairs with a diagonal resolvent, as many at once as take little memory."""
    xp = pool.xp
    at_once = max(_COLUMNS // pool.rows, int(pool.features.shape[1]) // _FEATURES_PER_COLUMN, 4)
    weights, errors, influences, bounds = [], [], [], []
    for first in range(0, len(pairs), at_once):
        samples, ridges = np.array(pairs[first : first + at_once]).T
        samples, ridges = (xp.asarray(values, device=device(pool.features)) for values in (samples, ridges))
        several = row_errors(diagonal_fits(pool, samples, ridges, _TOLERANCE), _TOLERANCE)
        weights += [several.fit.weights[:, place] for place in range(int(samples.shape[0]))]
        errors.append([to_host(several.test_error), to_host(several.training_error)])
        bounds.append(_bounds(several))
        influences.append(
            [to_host(influence_on_test_error(several)).T, to_host(influence_on_training_error(several)).T]
        )
    found = np.concatenate(influences, axis=1)
    return _Diagonal(weights, np.concatenate(errors, axis=1), found.std(axis=2), found, np.concatenate(bounds, axis=1))


def largest_leverages(pool: Pool, pairs: list[Pair]) -> Host:
    """Return the largest leverage of a row in the fit with equal weights n/M, shape (G,).

    In the eigenbasis of the pool the resolvent of this fit is diagonal, so that these leverages are exact.
    """
    samples, ridges = np.array(pairs).T
    scaled = to_host(pool.eigenvalues)[:, None] * samples / pool.rows
    kept = pool.xp.asarray(scaled / (ridges + scaled), device=device(pool.features))
    return to_host(pool.xp.max(rounded_product(pool.shares, kept), axis=0))


def _bounds(errors: RowErrors) -> Host:
    """Return how large the factors between a diagonal resolvent and the whole one may be, in the logarithm, (2, G).

    That of the errors is still to be multiplied by ``1 - n/M``.

    The diagonal lacks sums over rows of what their weights differ by, and each row meets them with its leverage. The
    numbers are the largest that were measured. Docs, "Learning curve", equation (F13).
    """
    xp, fit, leverage = errors.fit.resolvent.pool.xp, errors.fit, 1 - errors.fit.remainder
    # A weight is n/M times 1 - (1 - n/M) v.
    v, total = fit.leverage * fit.weights / fit.ratio, xp.sum(leverage, axis=0)
    mean_v, mean_weight = (xp.sum(leverage * values, axis=0) / total for values in (v, fit.weights))
    differences = to_host(xp.mean((v - mean_v) ** 2, axis=0) ** 0.5 * fit.ratio / mean_weight)
    mean_leverage = to_host(total) / int(leverage.shape[0])
    return np.stack([_ERROR_BOUND * differences * mean_leverage, _DEVIATION_BOUND * mean_leverage])
