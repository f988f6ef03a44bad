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
from gradstep.learning.equations import TOLERANCE, RowErrors, diagonal_fits, row_errors, weighted_fit
from gradstep.learning.interpolation import refined
from gradstep.learning.parts import has_parts, measured_errors
from gradstep.learning.pool import Array, Pool
from gradstep.learning.standard_error import (
    influence_on_test_error,
    influence_on_training_error,
    influences_on_errors,
)
from gradstep.resolution import NOTHING

__all__ = ["Cell", "extrapolated", "interpolated", "measured"]

Host = NDArray[np.float64]
Pair = tuple[float, float]

#: Up to so many pairs with n at most M, each of them is solved.
_FEW = 12
#: Tolerance of the interpolation in standard errors.
_SHARE_OF_STANDARD_ERROR = 0.05
#: Tolerance of the interpolation of standard errors, as a share of them.
_OF_STANDARD_ERRORS = 0.05
#: Largest change of the logarithm of a weight by its own equation, where others are interpolated.
_TOLERANCE = 1e-5
#: Units of ln n and ln ridge in the distance of two pairs.
_SCALES = np.array([1.0, 0.5])
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


def interpolated(pool: Pool, pairs: list[Pair], classes: bool) -> dict[Pair, Cell]:
    """Solve pairs with n at most M: all of them, or as many as the others can be interpolated from.

    Interpolated are the logarithms of the factors between errors and those of a diagonal resolvent.
    Docs, "Learning curve", equation (F11).

    Parameters
    ----------
    pool : Pool
    pairs : list of (n, ridge)
        Different from each other.
    classes : bool
        Whether the targets are classes; then all pairs are solved.

    Returns
    -------
    dict of (n, ridge) to Cell
    """
    every = classes or len(pairs) <= _FEW
    rough = None if every else _rough(pool, pairs)
    tolerance = TOLERANCE if rough is None else _TOLERANCE
    cells: dict[int, Cell] = {}

    def solved(place: int) -> Cell:
        start = None if rough is None else rough.weights[:, place]
        cells[place] = _cell(row_errors(weighted_fit(pool, *pairs[place], start, tolerance)), classes)
        return cells[place]

    if rough is None:
        return {pair: solved(place) for place, pair in enumerate(pairs)}
    deviations = rough.influences.std(axis=2)

    def measure(place: int) -> tuple[Host, Host]:
        cell, own = solved(place), cells[place].influences.std(axis=1)
        errors = np.array([cell.test, cell.training])
        values = np.log([errors / rough.errors[:, place], own / deviations[:, place]])
        relative = own / errors / math.sqrt(pool.rows)
        tolerances = np.array([_SHARE_OF_STANDARD_ERROR * relative, np.full(2, _OF_STANDARD_ERRORS)])
        return values.ravel(), tolerances.ravel()

    factors = refined(np.log(np.array(pairs)) * _SCALES, int(rough.errors[0].argmax()), measure)
    errors, influences = np.exp(factors.T).reshape(2, 2, -1)
    errors, influences = errors * rough.errors, influences[:, :, None] * rough.influences
    unknown = (math.nan, math.nan)
    found = {
        pair: Cell(float(errors[0, k]), float(errors[1, k]), unknown, influences[:, k], 0.0)
        for k, pair in enumerate(pairs)
    }
    return found | {pairs[place]: cell for place, cell in cells.items()}


class _Rough(NamedTuple):
    """Weights (M, G), errors (2, G) and influences (2, G, M) of a diagonal resolvent, for G pairs."""

    weights: Array
    errors: Host
    influences: Host


def _rough(pool: Pool, pairs: list[Pair]) -> _Rough | None:
    """Return what a diagonal resolvent tells, for as many pairs at once as take little memory; None if nothing."""
    xp, order = pool.xp, sorted(range(len(pairs)), key=lambda place: pairs[place][::-1])
    at_once = max(_COLUMNS // pool.rows, int(pool.features.shape[1]) // 32, 4)
    weights, errors, influences = [], [], []
    for first in range(0, len(order), at_once):
        samples, ridges = np.array([pairs[place] for place in order[first : first + at_once]]).T
        try:
            several = row_errors(
                diagonal_fits(pool, *(xp.asarray(v, device=device(pool.features)) for v in (samples, ridges)))
            )
        except NotConverged:
            return None
        weights.append(several.fit.weights)
        errors.append([to_host(several.test_error), to_host(several.training_error)])
        influences.append(
            [to_host(influence_on_test_error(several)).T, to_host(influence_on_training_error(several)).T]
        )
    back = np.argsort(order)
    places = xp.asarray(back, device=device(pool.features))
    found = _Rough(
        xp.take(xp.concat(weights, axis=1), places, axis=1),
        np.concatenate(errors, axis=1)[:, back],
        np.concatenate(influences, axis=1)[:, back],
    )
    positive = (found.errors > 0).all() and (found.influences.std(axis=2) > 0).all()
    return found if positive else None
