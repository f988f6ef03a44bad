"""How far a curve can be extrapolated: the pairs of n and ridge next to one that has no estimate."""

from __future__ import annotations

import math
from typing import NamedTuple

from gradstep.errors import NotConverged
from gradstep.learning.equations import row_errors, weighted_fit
from gradstep.learning.pool import Array, Pool

__all__ = ["Place", "least_ridge", "most_samples", "place_of", "with_neighbours"]

#: Factor by which the penalty is raised until there is an estimate, and how often.
_RAISE, _RAISES = 10.0, 12
#: Ratio of two penalties, and part of the pool, between which it does not matter where the bound is.
_RIDGES, _ROWS = 1.25, 0.02
#: Largest change of the logarithm of a weight by its own equation: whether there is an estimate needs no more digits.
_SOLVED = 1e-3


class Place(NamedTuple):
    """A pair of n and ridge that has an estimate, with the weights (M,) of the fit that stands for it."""

    samples: float
    ridge: float
    weights: Array


def place_of(pool: Pool, samples: float, ridge: float, near: Place | None = None) -> Place | None:
    """Return a pair if the pool tells its errors, otherwise None; the search begins at another pair that is near."""
    rows = pool.rows
    try:
        # All weights are one for as many samples as rows, and grow from there.
        start = None if near is None else near.weights ** ((samples - rows) / (near.samples - rows))
        fit = weighted_fit(pool, samples, ridge, start, _SOLVED)
        row_errors(fit)
    except NotConverged:
        return None
    return Place(samples, ridge, fit.weights)


def least_ridge(pool: Pool, samples: float, ridge: float) -> Place | None:
    """Return the place of a penalty at most a quarter above the least one with an estimate; None if none is found.

    There are more samples than the pool has rows, and this penalty has no estimate.
    """
    low = ridge
    for _ in range(_RAISES):
        high = place_of(pool, samples, low * _RAISE)
        if high is not None:
            break
        low *= _RAISE
    else:
        return None
    while high.ridge / low > _RIDGES:
        middle = (low * high.ridge) ** 0.5
        found = place_of(pool, samples, middle, high)
        low, high = (middle, high) if found is None else (low, found)
    return high


def most_samples(pool: Pool, samples: float, ridge: float, near: Place | None) -> int:
    """Return a number of samples below this one: the largest with an estimate, within 2 % of the rows of the pool.

    It is at least these rows. The search begins at the place of a larger penalty that is near.
    """
    low, high = pool.rows, int(samples)
    while high - low > max(_ROWS * pool.rows, 1):
        middle = (low + high) // 2
        found = place_of(pool, middle, ridge, near)
        if found is None:
            high = middle
        else:
            low, near = middle, found
    return low


def with_neighbours(pool: Pool, samples: float, ridge: float, failure: NotConverged) -> NotConverged:
    """Return the failure of a pair with more samples than rows, with advice that names pairs with an estimate."""
    least = least_ridge(pool, samples, ridge)
    most = most_samples(pool, samples, ridge, least)
    larger = "" if least is None else f"for n = {samples:g} with a ridge of {_upwards(least.ridge):g}, and "
    advice = (
        f"There is an estimate {larger}for ridge = {ridge:g} up to n = {most}. A pool of more rows reaches further: "
        "one of twice as many rows as features leaves hardly any pair out."
    )
    return NotConverged(failure.solver, failure.residual, failure.tolerance, advice, failure.reason)


def _upwards(value: float) -> float:
    """Return the next larger number of two digits."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return math.ceil(value / unit) * unit
