"""All sizes and all penalties, from one pool."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import ArrayLike, NDArray

from gradstep.errors import NotConverged
from gradstep.host import to_host
from gradstep.learning.caveats import caveats_of, copies
from gradstep.learning.classification import are_classes, misclassification
from gradstep.learning.curve import LearningCurve
from gradstep.learning.equations import RowErrors, row_errors, weighted_fit
from gradstep.learning.given import checked_ridges, checked_rows, checked_sizes, default_ridges
from gradstep.learning.pool import Array, Pool, pool_of
from gradstep.learning.standard_error import influence_on_test_error, influence_on_training_error
from gradstep.resolution import NOTHING
from gradstep.threads import threads_for_products

__all__ = ["learning_curve"]

Host = NDArray[np.float64]

#: Solutions from which the next one is extrapolated.
_NODES = 3
#: Largest change of the logarithm of a weight that is extrapolated.
_FARTHEST = 3.0


def learning_curve(
    features: Any,
    targets: Any,
    *,
    n: ArrayLike | None = None,
    ridge: ArrayLike | None = None,
    sample_weight: Any = None,
) -> LearningCurve:
    r"""Estimate test and training error of ridge regression for every number of samples, from one pool of rows.

    The fit is :math:`\min_b\sum_{\mu\le n}|y_\mu-b^\top\phi_\mu|^2+\text{ridge}\,|b|^2`: a sum over the rows, not a
    mean, and without an intercept unless the features have a column of ones, which is then penalised like every other.
    What is estimated is the mean over draws of n training rows, and over a new row, from the population of which the
    pool is a sample. For as many samples as the pool has rows this is leave-one-out cross-validation; up to twice as
    many it is extrapolated. The derivation is on the docs' page Learning curve.

    Parameters
    ----------
    features : array_like, shape (M, N)
        What a first layer makes of M independent rows, or any other transformation that has not seen their targets.
        Arrays of NumPy, PyTorch and other array-API libraries, data frames and lists. For an intercept, which is then
        penalised too, append a column of ones.
    targets : array_like, shape (M,) or (M, K)
        One target or several a row. Squared errors are summed over the K outputs.
    n : array_like of int, optional
        Numbers of training rows, each at most 2 M; ten from M / 10 to M by default.
    ridge : array_like of float, optional
        Penalties; nine from 1e-3 to 10 times the mean eigenvalue of the Gram matrix of the pool by default.
    sample_weight : array_like, shape (M,), optional
        Weight of each row in the loss of the fit, drawn together with the row. The errors are then weighted means with
        the same weights: ``E[s (y - f)^2] / E[s]`` for a weight s.

    Returns
    -------
    LearningCurve
        Errors with standard errors for every pair of n and ridge.

    Raises
    ------
    InvalidInput
        On shapes that do not fit, values that are no finite numbers, sizes beyond twice the pool, and penalties that
        double precision does not resolve.
    NotConverged
        If no pair of n and ridge has a solution. Where only some have none, their errors are nan and a caveat says why;
        with n at most the number of rows this does not happen.

    Examples
    --------
    >>> import numpy as np, gradstep as gs
    >>> random = np.random.default_rng(0)
    >>> features = random.standard_normal((400, 50))
    >>> targets = features[:, 0] + 0.5 * random.standard_normal(400)
    >>> curve = gs.learning_curve(features, targets, n=[100, 200, 400, 800], ridge=[1, 10, 100])
    >>> curve.best_ridge
    array([10., 10., 10., 10.])
    """
    given = checked_rows(features, targets, sample_weight)
    rows, width = (int(size) for size in given.features.shape)
    sizes = checked_sizes(n, rows)
    with threads_for_products(rows, width, width):
        pool = pool_of(*given)
        eigenvalues = to_host(pool.eigenvalues)
        penalties = default_ridges(eigenvalues, width) if ridge is None else ridge
        ridges = checked_ridges(penalties, sizes, rows, float(eigenvalues.max()))
        solved = _Grid.solve(pool, sizes, ridges, are_classes(given.targets))
    notes = caveats_of(solved.failures, sizes, rows, copies(given.features), solved.deciding, solved.capped_share)
    return LearningCurve(
        n=sizes.astype(np.int64),
        ridge=ridges,
        **solved.tables,
        rows=rows,
        features=width,
        outputs=int(given.targets.shape[1]),
        caveats=notes,
    )


class _Cell(NamedTuple):
    """Estimates of one pair of n and ridge with the influences (M,) of the rows."""

    test: float
    training: float
    wrong: tuple[float, float]
    test_influence: Host
    training_influence: Host
    capped_share: float


@dataclass(frozen=True)
class _Grid:
    """Everything about all pairs of n and ridge, tables of shape (A, B)."""

    tables: dict[str, Any]
    deciding: float
    capped_share: float
    failures: dict[tuple[float, float], NotConverged]

    @classmethod
    def solve(cls, pool: Pool, sizes: Host, ridges: Host, classes: bool) -> _Grid:
        """Solve all pairs, for each n from the largest penalty down: each solution begins where the last ones point."""
        cells: dict[tuple[int, int], _Cell] = {}
        failures: dict[tuple[float, float], NotConverged] = {}
        for i, size in enumerate(sizes.tolist()):
            known: list[tuple[float, Array]] = []
            for ridge in np.unique(ridges)[::-1].tolist():
                try:
                    errors = row_errors(weighted_fit(pool, size, ridge, _start(known, ridge)))
                    cell = _cell(errors, classes)
                except NotConverged as failure:
                    failures[size, ridge] = failure
                    continue
                known.append((ridge, errors.fit.weights))
                cells |= {(i, int(j)): cell for j in np.flatnonzero(ridges == ridge)}
        if not cells:
            raise next(iter(failures.values()))
        return cls(*_tables(cells, (len(sizes), len(ridges)), classes), failures)


def _start(known: list[tuple[float, Array]], ridge: float) -> Array | None:
    """Return weights to begin with: logarithms of the last ones continued as a polynomial in that of the penalty."""
    nodes = known[-_NODES:]
    if not nodes:
        return None
    guess: Array = 1.0
    for k, (node, values) in enumerate(nodes):
        others = [other for i, (other, _) in enumerate(nodes) if i != k]
        share = math.prod(math.log(ridge / other) / math.log(node / other) for other in others)
        guess = guess * values**share
    last, xp = nodes[-1][1], array_namespace(nodes[-1][1])
    inside = bool(xp.all(guess < 1)) or bool(xp.all(guess > 1))
    far = float(xp.max(xp.abs(xp.log(guess / last)))) > _FARTHEST
    return last if far or not inside else guess


def _cell(errors: RowErrors, classes: bool) -> _Cell:
    influences = to_host(influence_on_test_error(errors)), to_host(influence_on_training_error(errors))
    wrong = (math.nan, math.nan)
    if classes:
        shares, mass = misclassification(errors), to_host(errors.fit.resolvent.pool.mass)
        mean = float(mass @ shares / mass.sum())
        deviations = mass * (shares - mean)
        wrong = mean, float(np.sqrt((deviations**2).sum()) / mass.sum())
    return _Cell(errors.test_error, errors.training_error, wrong, *influences, errors.fit.capped_share)


def _tables(
    cells: dict[tuple[int, int], _Cell], shape: tuple[int, int], classes: bool
) -> tuple[dict[str, Any], float, float]:
    """Return tables of everything, nan where a pair has no cell, and what `caveats_of` wants to know."""

    def table(values: list[float]) -> Host:
        full = np.full(shape, math.nan)
        for place, value in zip(cells, values, strict=True):
            full[place] = value
        return full

    found = list(cells.values())
    test = np.stack([cell.test_influence for cell in found])
    covariance = np.full((*shape, *shape), math.nan)
    for place, row in zip(cells, test @ test.T / test.shape[1] ** 2, strict=True):
        covariance[place] = table(row.tolist())
    squares = test**2
    # A quarter, since k rows far above the others raise these by as much as all others together lie below the mean.
    deciding = float((np.abs(test).sum(axis=1) ** 2 / np.maximum(4 * squares.sum(axis=1), NOTHING)).min())
    tables: dict[str, Any] = {
        "test_error": table([cell.test for cell in found]),
        "test_standard_error": table(np.sqrt((squares).mean(axis=1) / test.shape[1]).tolist()),
        "test_covariance": covariance,
        "training_error": table([cell.training for cell in found]),
        "training_standard_error": table(
            [float(np.sqrt((cell.training_influence**2).mean() / test.shape[1])) for cell in found]
        ),
        "classification_error": table([cell.wrong[0] for cell in found]) if classes else None,
        "classification_standard_error": table([cell.wrong[1] for cell in found]) if classes else None,
    }
    return tables, deciding, max(cell.capped_share for cell in found)
