r"""Influence of one row of the pool on the estimated errors.

The smallest value of the loss grows by :math:`\epsilon_j/(1+V_j)` when row j joins the other rows of a fit. Test and
training error are derivatives of that smallest value: by a weight p with which the fit knows the whole population, and
by the penalty. So the influences of a row on them are derivatives of :math:`\epsilon_j/(1+V_j)`: the linear response of
the equations of the weights and of the errors to p and to the penalty.

What depends on pairs of rows is in the influences of both, and so is counted twice in the sum of their squares. It is
known from the residuals and taken out.

Docs, "Learning curve", equations (F7) and (F14).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from array_api_compat import device

from gradstep.host import to_host
from gradstep.learning.equations import RowErrors
from gradstep.learning.pool import Array
from gradstep.resolution import NOTHING

__all__ = [
    "increment_response",
    "influence_on_test_error",
    "influence_on_training_error",
    "influences_on_errors",
    "pair_variances",
]

#: Relative residual of the linear systems, of which a standard error needs two digits.
_TOLERANCE = 1e-2
#: The influence on the training error is a difference of two numbers, which are larger than it by the root of the test
#: error over the training error. Where the inverse of that root is below the first number, the tolerance is smaller in
#: proportion. Above it standard errors were right to .5 per cent without that, at a tenth of it up to 10 per cent off.
#: The second number is the smallest part of the tolerance: with less, rounding in single precision would be left.
_SMALL, _LEAST_PART = 1 / 30, 2e-4


def influence_on_test_error(errors: RowErrors) -> Array:
    """Return the influence of each row on the estimated test error, without their mean, shape (M,).

    The variance of the estimate over pools is the mean square of these divided by M.
    """
    values = errors.squares + increment_response(errors, population=1.0)
    return _centred(errors, values, errors.test_error)


def influence_on_training_error(errors: RowErrors) -> Array:
    """Return the same as `influence_on_test_error` of the training error."""
    increment = errors.squares / (1 + errors.fit.leverage)
    values = increment - errors.fit.resolvent.ridge * increment_response(errors, ridge=1.0)
    return _centred(errors, values, errors.training_error)


def _centred(errors: RowErrors, values: Array, mean_error: Any) -> Array:
    """Return influences on a ratio of means over rows: a row of much sample weight moves the denominator, too."""
    pool = errors.fit.resolvent.pool
    values = values - mean_error * errors.fit.columns(pool.mass)
    return (values - pool.xp.mean(values, axis=0)) * (pool.rows / pool.total)


def increment_response(
    errors: RowErrors, *, population: Any = 0.0, ridge: Any = 0.0, tolerance: float = _TOLERANCE
) -> Array:
    r"""Return the derivative of :math:`\epsilon_j/(1+V_j)` of every row, shape (M,).

    The rates are those at which the weight p of the population grows, with :math:`p\,n\,E(y-b^\top\phi)^2` added to the
    loss, and the penalty. Docs, "Learning curve", equation (F8).
    """
    fit, e, squares = errors.fit, errors.residuals, errors.squares
    penalised = bool(np.any(to_host(ridge)))
    resolvent, w, rest, bare = fit.resolvent, fit.weights, fit.remainder, fit.bare_leverage
    xp, missing, gain = resolvent.pool.xp, fit.missing, 1 + fit.leverage

    # Weights and leverages.
    known = population * gain**2 / fit.ratio
    if penalised:
        known = known + missing * ridge * fit.double
    change = w**2 * fit.solved(fit.free * known, tolerance, fit.free)
    moved = resolvent.summed(change)
    first = resolvent.others(*moved)
    if penalised:
        first = first + ridge * fit.double * rest**2
    leverage = -first / rest**2

    # Residuals of rows left out: each sum is without the row itself.
    pulled = (
        resolvent.predictions((change * rest)[:, None, ...] * e, tolerance=tolerance)
        - (change * bare * rest)[:, None, ...] * e
    )
    shrunk = (
        resolvent.predictions(w[:, None, ...] * fit.columns(resolvent.pool.targets), resolvent.identity, tolerance)
        if penalised
        else 0 * e
    )
    residuals = (ridge * shrunk - pulled - (w * first)[:, None, ...] * e) / rest[:, None, ...]
    source = 2 * xp.sum(e * residuals, axis=1)

    # Fits to n rows vary more than the fit to the pool.
    source = source + fit.spread(2 * squares * (missing * change / w - population * gain / fit.ratio))
    if not isinstance(missing, float) or missing:
        varied, second = errors.variation
        own, own_varied = resolvent.own(change), resolvent.own(varied.values)
        both = resolvent.chained(moved, ridge, varied)
        both = both - bare * (own * second + own_varied * first) - own * own_varied * bare**3
        source = source - 2 * (both + w / rest * first * second) / rest**2
    return fit.solved(source, tolerance) / gain - squares * leverage / gain**2


def influences_on_errors(errors: RowErrors) -> tuple[Array, Array]:
    """Return the influences (M,) on test and training error of one fit, scaled to what estimates vary by between pools.

    Pairs of rows count once in their squares, and not twice as in those of the influences. Docs, "Learning curve",
    equation (F14).
    """
    errors = errors.rounded
    pool, gain, squares = errors.fit.resolvent.pool, 1 + errors.fit.leverage, errors.squares
    xp = pool.xp
    population, ridge = (xp.asarray(rates, device=device(gain)) for rates in ([1.0, 0.0], [0.0, 1.0]))
    kept = float(xp.min(errors.training_error)) / max(float(xp.min(errors.test_error)), NOTHING)
    tolerance = _TOLERANCE * min(1.0, max(math.sqrt(kept) / _SMALL, _LEAST_PART))
    response = increment_response(errors, population=population, ridge=ridge, tolerance=tolerance)
    found = [
        _centred(errors, squares + response[:, :1], errors.test_error),
        _centred(errors, squares / gain - errors.fit.resolvent.ridge * response[:, 1:], errors.training_error),
    ]
    twice = pair_variances(errors, xp.concat([1 / pool.total + 0 * gain, 1 / (pool.total * gain**2)], axis=1))
    scaled = []
    for influences, pairs in zip(found, twice, strict=True):
        variance = float(xp.mean(influences**2)) / pool.rows
        # At most half of a variance that has the pairs twice, and all else besides, is theirs.
        factor = (1 - min(pairs, variance / 2) / max(variance, NOTHING)) ** 0.5
        scaled.append(influences[:, 0] * factor)
    return scaled[0], scaled[1]


def pair_variances(errors: RowErrors, shares: Array, most: int = 64) -> list[float]:
    """Return the variances of C estimates between pools that come from pairs of rows, for a single pair of n and ridge.

    An estimate is the sum of its column of the shares (M, C) times the squares of the errors. At most so many rows,
    whose pairs with all others are summed, stand for the others. Docs, "Learning curve", equation (F14).
    """
    errors = errors.rounded
    fit, e, w, rest = errors.fit, errors.residuals, errors.fit.weights, errors.fit.remainder
    resolvent, xp = fit.resolvent, fit.resolvent.pool.xp
    rows, psi, drawn = resolvent.pool.rows, resolvent.whitened, w * e[:, :, 0]
    # The estimate is the sum of `a` times the squares of the residuals of the weighted fit.
    a = (w * rest) ** 2 * fit.solved(shares / (w * rest) ** 2, _TOLERANCE)
    own = (a / rest)[:, None, :] * e
    others = resolvent.predictions(own) - fit.bare_leverage[:, None, :] * own
    pull = (own - w[:, None, :] * others - fit.gathered(a)[:, None, :] * e) / rest[:, None, :]
    between, size = resolvent.rounded(a / rest**2)
    probes = resolvent.pool.probes(most)
    few, few_drawn, few_pull = (xp.take(values, probes, axis=0) for values in (psi, drawn, pull))
    count, blocks = int(shares.shape[1]), list(resolvent.pool.blocks())
    middles = [0 * few for _ in range(count)]
    for part in blocks:
        near = few @ psi[part, :].T
        for place in range(count):
            middles[place] = middles[place] + (near * between[None, part, place]) @ psi[part, :]
    sums = [0.0] * count
    for part in blocks:
        every = xp.arange(rows, device=device(e))[part]
        apart = xp.astype(probes[:, None] != every[None, :], e.dtype)
        both = apart * (few_drawn @ drawn[part, :].T)
        near = apart * resolvent.restored(few @ psi[part, :].T)
        for place in range(count):
            directly = few_pull[:, :, place] @ drawn[part, :].T + few_drawn @ pull[part, :, place].T
            through = resolvent.restored(middles[place] @ psi[part, :].T, float(size[place]))
            sums[place] += float(xp.sum((through * both - near * directly) ** 2))
    squares = xp.sum(e**2, axis=1)
    mean_fit = float(xp.sum(squares)) / max(float(xp.sum(squares + fit.spread(squares))), NOTHING)
    return [2 * mean_fit * found * rows / int(probes.shape[0]) for found in sums]
