"""Errors for many pairs of n and ridge: each solved, or interpolated from those that are."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from array_api_compat import array_namespace, device
from numpy.typing import NDArray

from gradstep.errors import NotConverged
from gradstep.host import host_errors, to_host
from gradstep.learning.classification import misclassification
from gradstep.learning.equations import RowErrors, TooFewRows, diagonal_fits, row_errors, weighted_fit
from gradstep.learning.interpolation import refined, spline_weights
from gradstep.learning.parts import has_parts, measured_errors
from gradstep.learning.pool import Array, Pool
from gradstep.learning.rough import largest_leverages, rough_errors
from gradstep.learning.scatter import scatter_by_few
from gradstep.learning.standard_error import influences_on_errors
from gradstep.resolution import NOTHING

__all__ = ["FEW", "Cell", "extrapolated", "interpolated", "measured", "solved"]

Host = NDArray[np.float64]
Pair = tuple[float, float]

#: Up to so many pairs, each of them is solved.
FEW = 12
#: Tolerances of the factors between the whole resolvent and its diagonal, over those of the diagonal's own numbers.
_FACTORS = np.array([1.0, 1.0, 2.0, 2.0])
#: Largest change of the logarithm of a weight by its own equation, where others are interpolated: in the mean over rows
#: it is a tenth of that. And the relative residual of the equation of the errors.
_SOLVED, _TOLERANCE = 1e-3, 1e-4
#: Samples over rows of the pool up to which single precision is enough, since a row has at least 1 - n/M left. And from
#: which it is tried: a row has n/M - 1 over its weight left, unless its weight is the largest.
_SINGLE, _SINGLE_BEYOND = 0.98, 1.2
#: Training error over test error below which all digits are needed: influences on the training error are what two much
#: larger numbers leave of each other. Just below, standard errors from few digits were up to a tenth off.
_DIGITS = 1e-5
#: With more samples than rows, few digits are enough if each row of the fit keeps so much of its residual.
_LEFT = 0.03
#: Largest leverage of a row above which it may have a feature of its own. Below n = M it then has hardly any weight,
#: and the other rows have other eigenvectors than the pool: the diagonal lacks a single large number, which the bounds
#: of factors do not see.
_ALONE = 0.75
#: Samples over rows of the pool, and the largest leverage, above which a row's own terms hide those of others. From
#: there to n = M the factor between the standard errors of the whole resolvent and of its diagonal falls from about
#: two to less than the square of what the leverage leaves: no interpolation follows it.
_NEARLY_ALL, _HIDING = 0.97, 0.4
#: Least weight of a row over the largest, of which the condition number of that factor is the inverse.
_LEAST_WEIGHT = 1e-4


class Cell(NamedTuple):
    """Estimates of one pair of n and ridge."""

    test: float
    training: float
    wrong: tuple[float, float]  #: Expected share of wrong classes with its standard error, nan without classes.
    influences: Host  #: Of the rows on the test and the training error, shape (2, M).
    capped_share: float  #: Share of rows whose weight is bounded.
    by_few: float = 0.0  #: Share of the test error that is scatter which few rows make, zero where it is not known.
    #: If the errors are measured on parts of the pool: their deviations in each of D divisions of it, shape (2, D). The
    #: deviations contribute to the squared standard errors. All penalties of an n have the same divisions.
    deviations: Host = np.zeros((2, 0))


def _nothing() -> None:
    """Take no notice of what is done."""


def _cell(errors: RowErrors, classes: bool, influences: Host | None = None) -> Cell:
    """Return the estimates of a pair from its errors. Without influences (2, M), they are computed."""
    if influences is None:
        influences = np.stack([to_host(own) for own in influences_on_errors(errors)])
    wrong = (math.nan, math.nan)
    if classes:
        shares, mass = misclassification(errors), to_host(errors.fit.resolvent.pool.mass)
        mean = float(mass @ shares / mass.sum())
        wrong = mean, float(np.sqrt(np.square(mass * (shares - mean)).sum()) / mass.sum())
    by_few = scatter_by_few(errors) if errors.fit.ratio < 1 else 0.0
    test, training = float(errors.test_error), float(errors.training_error)
    return Cell(test, training, wrong, influences, errors.fit.capped_share, by_few)


def _alike(weights: Array) -> bool:
    """Return whether weights are near enough to each other for a factor in single precision."""
    xp = array_namespace(weights)
    return float(xp.min(weights)) > _LEAST_WEIGHT * float(xp.max(weights))


def extrapolated(
    pool: Pool, pairs: list[Pair], classes: bool, *, rough: bool, advance: Callable[[], None] = _nothing
) -> tuple[dict[Pair, Cell], dict[Pair, NotConverged]]:
    """Solve pairs with n > M, for each n from the largest penalty down: each begins where the last two lead.

    Where a penalty asks for more than the pool tells a smaller one does, too, and is not tried: leverages are larger.
    `classes` says whether the targets are classes, and `rough` whether pairs need no more digits than those that others
    are interpolated from. `advance` is called after each pair. Return the cells, and why pairs have no solution.
    """
    cells: dict[Pair, Cell] = {}
    failures: dict[Pair, NotConverged] = {}
    solved_for: dict[float, list[tuple[float, Array]]] = {}
    failed: dict[float, NotConverged] = {}
    for n, ridge in sorted(set(pairs), key=lambda pair: (pair[0], -pair[1])):
        if n in failed:
            failures[n, ridge] = failed[n]
            advance()
            continue
        before = solved_for.setdefault(n, [])
        try:
            start = _continued(before, ridge)
            errors = (_rough_errors if rough else _exact_errors)(pool, (n, ridge), start)
            cells[n, ridge] = _cell(errors, classes)
        except NotConverged as failure:
            failures[n, ridge] = failure
            if isinstance(failure, TooFewRows):
                failed[n] = failure
            continue
        finally:
            advance()
        before.append((ridge, errors.fit.weights))
    return cells, failures


def _exact_errors(pool: Pool, pair: Pair, start: Array | None) -> RowErrors:
    return row_errors(weighted_fit(pool, *pair, start))


def _rough_errors(pool: Pool, pair: Pair, start: Array | None) -> RowErrors:
    """Return the errors of a pair with the digits that interpolation needs, if possible from single precision.

    With more samples than rows, rows that have hardly anything left, or the largest weight, need all digits.
    """
    ratio = pair[0] / pool.rows
    single = (ratio < _SINGLE or ratio >= _SINGLE_BEYOND) and (start is None or _alike(start))
    try:
        # Rounding may leave nothing of a row for weights that are tried, and then not taken.
        with host_errors(), np.errstate(divide="ignore", invalid="ignore"):
            fit = weighted_fit(pool, *pair, start, _SOLVED, single=single)
            if ratio <= 1 or (fit.capped_share == 0 and float(pool.xp.min(fit.remainder)) > _LEFT):
                errors = row_errors(fit, _TOLERANCE, rounded=True)
                if float(errors.training_error) > _DIGITS * float(errors.test_error):
                    return errors
            start = fit.weights
    except TooFewRows:
        raise
    except (NotConverged, np.linalg.LinAlgError):
        if ratio <= 1:
            if not single:
                raise
            return row_errors(weighted_fit(pool, *pair, start, _SOLVED), _TOLERANCE, rounded=True)
    return _exact_errors(pool, pair, start)


def _continued(before: list[tuple[float, Array]], ridge: float) -> Array | None:
    """Return weights at a penalty on the line through those at the last two, in logarithms of both; None without any.

    They stay between one and the square of the last, as weights for n > M are above one.
    """
    if len(before) < 2:
        return before[-1][1] if before else None
    (first, away), (last, near) = before[-2:]
    found = near * (near / away) ** (math.log(ridge / last) / math.log(last / first))
    return array_namespace(near).clip(found, near**0.5, near**2)


def measured(pool: Pool, cells: dict[Pair, Cell]) -> dict[Pair, Cell]:
    """Return all cells, with errors of few samples measured on parts of the pool and influences of their size.

    Docs, "Learning curve", equation (F15).
    """
    found = dict(cells)
    for n in {n for n, _ in cells if has_parts(n, pool.rows)}:
        own = [pair for pair in cells if pair[0] == n]
        mean, apart = measured_errors(pool, int(n), np.array([ridge for _, ridge in own]))
        for pair, errors, deviations in zip(own, mean.T, apart.T, strict=True):
            cell = cells[pair]
            factors = errors / np.maximum([cell.test, cell.training], NOTHING)
            found[pair] = cell._replace(
                test=float(errors[0]),
                training=float(errors[1]),
                influences=factors[:, None] * cell.influences,
                by_few=0.0,
                deviations=deviations,
            )
    return found


def solved(pool: Pool, pairs: list[Pair], classes: bool, advance: Callable[[], None] = _nothing) -> dict[Pair, Cell]:
    """Solve each of some pairs with n at most M; `classes` says whether the targets are classes.

    `advance` is called after each.
    """
    cells = {}
    for pair in pairs:
        cells[pair] = _cell(_exact_errors(pool, pair, None), classes)
        advance()
    return cells


def interpolated(pool: Pool, pairs: list[Pair], advance: Callable[[], None] = _nothing) -> dict[Pair, Cell]:
    """Solve different pairs with n at most M: as many as the others can be interpolated from.

    `advance` is called after each that is solved.

    Three descriptions of a fit follow each other: equal weights, for all pairs; a diagonal resolvent, for some; the
    whole one, for few. The logarithms of the factors between the errors of one and the next are interpolated.
    Docs, "Learning curve", equation (F12).
    """
    if len(pairs) <= FEW:
        return solved(pool, pairs, classes=False, advance=advance)
    leverages = dict(zip(pairs, largest_leverages(pool, pairs).tolist(), strict=True))
    near = [pair for pair in pairs if pair[0] > _NEARLY_ALL * pool.rows and leverages[pair] > _HIDING]
    alone = solved(pool, near, classes=False, advance=advance)
    pairs = [pair for pair in pairs if pair not in alone]
    rough = rough_errors(pool, pairs) if len(pairs) > FEW else None
    if rough is None:
        return alone | solved(pool, pairs, classes=False, advance=advance)
    logarithms = np.log(np.vstack([rough.errors, rough.deviations])).T
    tolerances = rough.tolerances * _FACTORS
    # A factor counts as one if its bound is below twice the tolerance. Nearly all factors are below half their bound.
    known = np.where(rough.bounds.T[:, [0, 0, 1, 1]] < 2 * rough.tolerances, 0.0, math.nan)
    known[[leverages[pair] > _ALONE for pair in pairs]] = math.nan
    known[rough.whole, :2] = 0.0
    known[rough.scaled, 3] = math.nan
    # Most of the time of a pair goes into influences: those of the diagonal are kept where their bound is small enough.
    kept = (rough.bounds[1] < rough.tolerances[:, 2:].min(axis=1)) & ~np.isnan(known[:, 2:]).any(axis=1)
    cells: dict[int, Cell] = {}
    corrections: dict[int, Array] = {}

    def start_at(place: int) -> Array:
        """Return the weights with a diagonal resolvent, corrected by what other pairs are off by."""
        n, ridge = pairs[place]
        diagonal = rough.weights.get(place)
        if diagonal is None:
            n, ridge = (pool.xp.asarray([value], device=device(pool.features)) for value in (n, ridge))
            diagonal = rough.weights[place] = diagonal_fits(pool, n, ridge, _SOLVED).weights[:, 0]
        if not corrections:
            return diagonal
        known = list(corrections)
        shares = spline_weights(rough.places[known], rough.places[[place]], 1)[0]
        correction = sum(float(share) * corrections[other] for share, other in zip(shares, known, strict=True))
        return pool.xp.clip(diagonal * pool.xp.exp(correction), None, pairs[place][0] / pool.rows)

    def measure(place: int) -> Host:
        below = pairs[place][0] < pool.rows
        start = start_at(place) if below else None
        errors = _rough_errors(pool, pairs[place], start)
        if below:
            corrections[place] = pool.xp.log(errors.fit.weights / rough.weights[place])
        influences = rough.influences_of_size(place, rough.deviations[:, place]) if kept[place] else None
        cells[place] = cell = _cell(errors, False, influences)
        advance()
        found = np.log([cell.test, cell.training, *cell.influences.std(axis=1)])
        return np.asarray(found - logarithms[place])

    # With little penalty rows matter most: where it is least, both ends of what is not known; and the largest error.
    asked = np.flatnonzero(np.isnan(known[:, :2]).any(axis=1)).tolist()
    first = [min(asked, key=lambda place: (sign * pairs[place][0], pairs[place][1])) for sign in (1, -1) if asked]
    factors = refined(rough.places, [*first, int(rough.errors[0].argmax())], measure, tolerances, known)
    errors, deviations = np.exp(factors.T + logarithms.T).reshape(2, 2, -1)
    unknown = (math.nan, math.nan)
    found = {}
    for place, pair in enumerate(pairs):
        test, training = errors[:, place]
        found[pair] = Cell(
            float(test), float(training), unknown, rough.influences_of_size(place, deviations[:, place]), 0.0
        )
    return alone | found | {pairs[place]: cell for place, cell in cells.items()}
