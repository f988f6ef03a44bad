"""How far a curve can be extrapolated: the pairs of n and ridge next to one that has no estimate."""

from __future__ import annotations

import math

from gradstep.errors import NotConverged
from gradstep.learning.equations import row_errors, weighted_fit
from gradstep.learning.pool import Pool

__all__ = ["has_estimate", "least_ridge", "most_samples", "with_neighbours"]

#: Factor by which the penalty is raised until there is an estimate, and how often.
_RAISE, _RAISES = 10.0, 12
#: Ratio of two penalties, and part of the pool, between which it does not matter where the bound is.
_RIDGES, _ROWS = 1.25, 0.02


def has_estimate(pool: Pool, samples: float, ridge: float) -> bool:
    """Return whether the pool tells the errors of so many samples with this penalty."""
    try:
        row_errors(weighted_fit(pool, samples, ridge))
    except NotConverged:
        return False
    return True


def least_ridge(pool: Pool, samples: float, ridge: float) -> float | None:
    """Return a penalty not much larger than the least one with an estimate.

    Parameters
    ----------
    pool : Pool
    samples : float
        Number of samples, above the rows of the pool.
    ridge : float
        Penalty without an estimate.

    Returns
    -------
    float or None
        At most a quarter above the least; None if none is found.
    """
    low = ridge
    for _ in range(_RAISES):
        high = low * _RAISE
        if has_estimate(pool, samples, high):
            break
        low = high
    else:
        return None
    while high / low > _RIDGES:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if has_estimate(pool, samples, middle) else (middle, high)
    return high


def most_samples(pool: Pool, samples: float, ridge: float) -> int:
    """Return a number of samples not much smaller than the largest with an estimate.

    Parameters
    ----------
    pool : Pool
    samples : float
        Number of samples without an estimate, above the rows of the pool.
    ridge : float
        Penalty.

    Returns
    -------
    int
        At least the rows of the pool, and within 2 % of these of the largest.
    """
    low, high = pool.rows, int(samples)
    while high - low > max(_ROWS * pool.rows, 1):
        middle = (low + high) // 2
        low, high = (middle, high) if has_estimate(pool, middle, ridge) else (low, middle)
    return low


def with_neighbours(pool: Pool, samples: float, ridge: float, failure: NotConverged) -> NotConverged:
    """Return the failure of a pair with advice that names pairs with an estimate.

    Parameters
    ----------
    pool : Pool
    samples, ridge : float
        The pair without an estimate, with more samples than the pool has rows.
    failure : NotConverged
        Why.

    Returns
    -------
    NotConverged
    """
    least, most = least_ridge(pool, samples, ridge), most_samples(pool, samples, ridge)
    larger = "" if least is None else f"for n = {samples:g} with a ridge of {_upwards(least):g}, and "
    advice = (
        f"There is an estimate {larger}for ridge = {ridge:g} up to n = {most}. A pool of more rows reaches further: "
        "one of twice as many rows as features leaves hardly any pair out."
    )
    return NotConverged(failure.solver, failure.residual, failure.tolerance, advice, failure.reason)


def _upwards(value: float) -> float:
    """Return the next larger number of two digits."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return math.ceil(value / unit) * unit
