"""Errors for many pairs of n and ridge: each solved, or interpolated from those that are."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from array_api_compat import device
from numpy.typing import NDArray

from gradstep.errors import NotConverged
from gradstep.host import to_host
from gradstep.learning.classification import misclassification
from gradstep.learning.equal_weights import equal_fits, left_out_errors
from gradstep.learning.equations import RowErrors, diagonal_fits, row_errors, weighted_fit
from gradstep.learning.interpolation import lattice, refined, refined_at_once
from gradstep.learning.parts import has_parts, measured_errors
from gradstep.learning.pool import Array, Pool
from gradstep.learning.standard_error import (
    influence_on_test_error,
    influence_on_training_error,
    influences_on_errors,
)
from gradstep.resolution import NOTHING

__all__ = ["Cell", "extrapolated", "interpolated", "measured", "solved"]

Host = NDArray[np.float64]
Pair = tuple[float, float]

#: Up to so many pairs with n at most M, each of them is solved.
_FEW = 12
#: Tolerance of the interpolation in standard errors.
_SHARE_OF_STANDARD_ERROR = 0.05
#: Tolerance of the interpolation of standard errors, as a share of them.
_OF_STANDARD_ERRORS = 0.05
#: Largest change of the logarithm of a weight by its own equation, where others are interpolated: of the diagonal, and
#: of those that are solved. In the mean over rows it is a tenth of that.
_TOLERANCE, _SOLVED = 1e-4, 3e-3
#: Samples over rows of the pool up to which single precision is enough: all that a row has left is 1 - n/M or more.
_SINGLE = 0.98
#: Units of ln n and ln ridge in the distance of two pairs.
_SCALES = np.array([1.0, 0.5])
#: Places along each axis of the pairs that a diagonal resolvent is solved for first.
_LATTICE = 5
#: Largest factors that were measured, see `_bounds`.
_ERROR_BOUND, _DEVIATION_BOUND = 2.0, 1.2
#: Tolerance of numbers that are interpolated without one.
_ANY = 1e9
#: Smallest bound that is told from zero.
_LEAST_BOUND = 1e-9
#: Numbers in the columns of all pairs that are treated at once.
_COLUMNS = 2**17


class Cell(NamedTuple):
    """Estimates of one pair of n and ridge.

    Parameters
    ----------
    test, training : float
    wrong : tuple of float
        Expected share of wrong classes with its standard error, nan without classes.
    influences : ndarray, shape (2, M)
        Of the rows on the test and the training error.
    capped_share : float
        Share of rows whose weight is bounded.
    deviations : ndarray, shape (2, D)
        What the errors deviate by in each of D divisions of the pool, if they are measured on its parts: further
        contributions to the square of their standard errors. The same divisions are behind all penalties of an n.
    """

    test: float
    training: float
    wrong: tuple[float, float]
    influences: Host
    capped_share: float
    deviations: Host = np.zeros((2, 0))


def _cell(errors: RowErrors, classes: bool) -> Cell:
    influences = np.stack([to_host(influences) for influences in influences_on_errors(errors)])
    wrong = (math.nan, math.nan)
    if classes:
        shares, mass = misclassification(errors), to_host(errors.fit.resolvent.pool.mass)
        mean = float(mass @ shares / mass.sum())
        wrong = mean, float(np.sqrt(np.square(mass * (shares - mean)).sum()) / mass.sum())
    return Cell(float(errors.test_error), float(errors.training_error), wrong, influences, errors.fit.capped_share)


def extrapolated(pool: Pool, pairs: list[Pair], classes: bool) -> tuple[dict[Pair, Cell], dict[Pair, NotConverged]]:
    """Solve pairs with n > M, for each n from the largest penalty down: each begins with the last weights.

    Parameters
    ----------
    pool : Pool
    pairs : list of (n, ridge)
    classes : bool
        Whether the targets are classes.

    Returns
    -------
    cells : dict of (n, ridge) to Cell
    failures : dict of (n, ridge) to NotConverged
        Pairs without a solution.
    """
    cells: dict[Pair, Cell] = {}
    failures: dict[Pair, NotConverged] = {}
    before, start = 0.0, None
    for n, ridge in sorted(set(pairs), key=lambda pair: (pair[0], -pair[1])):
        try:
            errors = row_errors(weighted_fit(pool, n, ridge, start if before == n else None))
            cells[n, ridge] = _cell(errors, classes)
        except NotConverged as failure:
            failures[n, ridge] = failure
            continue
        before, start = n, errors.fit.weights
    return cells, failures


def measured(pool: Pool, cells: dict[Pair, Cell]) -> dict[Pair, Cell]:
    """Measure the errors of few samples on parts of the pool.

    Docs, "Learning curve", equation (F13).

    Parameters
    ----------
    pool : Pool
    cells : dict of (n, ridge) to Cell

    Returns
    -------
    dict of (n, ridge) to Cell
        The same pairs; influences have the size of the errors.
    """
    found = dict(cells)
    for n in {n for n, _ in cells if has_parts(n, pool.rows)}:
        own = [pair for pair in cells if pair[0] == n]
        parts = measured_errors(pool, int(n), np.array([ridge for _, ridge in own]))
        for pair, errors, deviations in zip(own, parts.mean.T, parts.deviations.T, strict=True):
            cell = cells[pair]
            factors = errors / np.maximum([cell.test, cell.training], NOTHING)
            found[pair] = cell._replace(
                test=float(errors[0]),
                training=float(errors[1]),
                influences=factors[:, None] * cell.influences,
                deviations=deviations,
            )
    return found


def solved(pool: Pool, pairs: list[Pair], classes: bool) -> dict[Pair, Cell]:
    """Solve each of some pairs with n at most M.

    Parameters
    ----------
    pool : Pool
    pairs : list of (n, ridge)
    classes : bool
        Whether the targets are classes.

    Returns
    -------
    dict of (n, ridge) to Cell
    """
    return {pair: _cell(row_errors(weighted_fit(pool, *pair)), classes) for pair in pairs}


def interpolated(pool: Pool, pairs: list[Pair]) -> dict[Pair, Cell]:
    """Solve pairs with n at most M: as many as the others can be interpolated from.

    Three descriptions of a fit follow each other: equal weights, for all pairs; a diagonal resolvent, for some; the
    whole one, for few. The logarithms of the factors between the errors of one and the next are interpolated.
    Docs, "Learning curve", equation (F11).

    Parameters
    ----------
    pool : Pool
    pairs : list of (n, ridge)
        Different from each other.

    Returns
    -------
    dict of (n, ridge) to Cell
    """
    rough = _rough(pool, pairs) if len(pairs) > _FEW else None
    if rough is None:
        return solved(pool, pairs, classes=False)
    rows, places = pool.rows, _places(pairs)
    logarithms = np.log(np.vstack([rough.errors, rough.deviations])).T
    tolerances = _tolerances(rough.errors, rough.deviations, rows) * np.array([1, 1, 2, 2])
    known = np.where(rough.bounds.T[:, [0, 0, 1, 1]] < tolerances, 0.0, math.nan)
    known[rough.whole, :2] = 0.0
    cells: dict[int, Cell] = {}

    def measure(place: int) -> Host:
        start, single = rough.weights.get(place), pairs[place][0] < _SINGLE * rows
        fit = weighted_fit(pool, *pairs[place], start, _SOLVED, single=single)
        cells[place] = cell = _cell(row_errors(fit, _TOLERANCE, rounded=True), classes=False)
        return np.log([cell.test, cell.training, *cell.influences.std(axis=1)]) - logarithms[place]

    # With little penalty rows matter most: where it is least, both ends of what is not known; and the largest error.
    asked = np.flatnonzero(np.isnan(known[:, :2]).any(axis=1)).tolist()
    first = [min(asked, key=lambda place: (sign * pairs[place][0], pairs[place][1])) for sign in (1, -1) if asked]
    factors = refined(places, [*first, int(rough.errors[0].argmax())], measure, tolerances, known)
    errors, deviations = np.exp(factors.T + logarithms.T).reshape(2, 2, -1)
    unknown = (math.nan, math.nan)
    found = {}
    for place, pair in enumerate(pairs):
        influences = rough.influences[:, place]
        factor = deviations[:, place] / influences.std(axis=1)
        test, training = errors[:, place]
        found[pair] = Cell(float(test), float(training), unknown, influences * factor[:, None], 0.0)
    return found | {pairs[place]: cell for place, cell in cells.items()}


def _places(pairs: list[Pair]) -> Host:
    return np.asarray(np.log(np.array(pairs)) * _SCALES)


def _tolerances(errors: Host, deviations: Host, rows: int) -> Host:
    """Return the tolerances of the logarithms of errors (2, G) and of their standard errors, shape (G, 4)."""
    relative = _SHARE_OF_STANDARD_ERROR * deviations / errors / math.sqrt(rows)
    return np.vstack([relative, np.full_like(relative, _OF_STANDARD_ERRORS)]).T


class _Rough(NamedTuple):
    """Errors (2, G), deviations (2, G) of influences and influences (2, G, M) of a diagonal resolvent, for G pairs.

    With the weights (M,) of those that are solved, bounds (2, G) of the logarithms of the factors to the whole one, and
    the pairs with n = M (G,), whose errors are exact.
    """

    weights: dict[int, Array]
    errors: Host
    deviations: Host
    influences: Host
    bounds: Host
    whole: NDArray[np.bool_]


def _rough(pool: Pool, pairs: list[Pair]) -> _Rough | None:
    """Return what a diagonal resolvent tells, interpolated from as many pairs as it takes; None if nothing.

    For n = M it tells the errors exactly, so that these pairs are among them.
    """
    samples, ridges = np.array(pairs).T
    equal = equal_fits(pool, samples, ridges).errors
    weights: dict[int, Array] = {}
    influences: dict[int, Host] = {}

    def measure(chosen: list[int]) -> tuple[Host, Host]:
        found = _diagonal(pool, [pairs[place] for place in chosen])
        weights.update(zip(chosen, found.weights, strict=True))
        influences.update(zip(chosen, found.influences.swapaxes(0, 1), strict=True))
        if not ((found.errors > 0).all() and (found.deviations > 0).all()):
            raise NotConverged("The diagonal", math.nan, 0.0, "")
        values = np.log(np.vstack([found.errors, found.deviations]) / np.tile(equal[:, chosen], (2, 1)))
        tolerances = _tolerances(found.errors, found.deviations, pool.rows)
        bounds = np.log(np.maximum(found.bounds, _LEAST_BOUND)).T
        return np.hstack([values.T, bounds]), np.hstack([tolerances, np.full_like(bounds, _ANY)])

    places = _places(pairs)
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
    every = np.einsum("gj,jkm->kgm", spread, per_error) * equal[:, :, None]
    for node in nodes:
        every[:, node] = influences[node]
    return _Rough(weights, errors, deviations, every, bounds, whole)


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
    at_once = max(_COLUMNS // pool.rows, int(pool.features.shape[1]) // 16, 4)
    weights, errors, influences, bounds = [], [], [], []
    for first in range(0, len(pairs), at_once):
        samples, ridges = np.array(pairs[first : first + at_once]).T
        columns = (xp.asarray(values, device=device(pool.features)) for values in (samples, ridges))
        several = row_errors(diagonal_fits(pool, *columns, _TOLERANCE), _TOLERANCE)
        weights += [several.fit.weights[:, place] for place in range(len(samples))]
        errors.append([to_host(several.test_error), to_host(several.training_error)])
        bounds.append(_bounds(several))
        influences.append(
            [to_host(influence_on_test_error(several)).T, to_host(influence_on_training_error(several)).T]
        )
    found = np.concatenate(influences, axis=1)
    joined = (np.concatenate(values, axis=1) for values in (errors, bounds))
    errors_of, bounds_of = joined
    return _Diagonal(weights, errors_of, found.std(axis=2), found, bounds_of)


def _bounds(errors: RowErrors) -> Host:
    """Return how large the factors between a diagonal resolvent and the whole one may be, in the logarithm, (2, G).

    That of the errors is still to be multiplied by ``1 - n/M``.

    The diagonal lacks sums over rows of what their weights differ by, and each row meets them with its leverage. The
    numbers are the largest that were measured. Docs, "Learning curve", equation (F15).
    """
    xp, fit, leverage = errors.fit.resolvent.pool.xp, errors.fit, 1 - errors.fit.remainder
    # A weight is n/M times 1 - (1 - n/M) v.
    v, total = fit.leverage * fit.weights / fit.ratio, xp.sum(leverage, axis=0)
    means = (xp.sum(leverage * values, axis=0) / total for values in (v, fit.weights))
    mean_v, mean_weight = means
    differences = to_host(xp.mean((v - mean_v) ** 2, axis=0) ** 0.5 * fit.ratio / mean_weight)
    mean_leverage = to_host(total) / int(leverage.shape[0])
    return np.stack([_ERROR_BOUND * differences * mean_leverage, _DEVIATION_BOUND * mean_leverage])
