"""All sizes and all penalties, from one pool."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradstep.checks import flag, function_or_none
from gradstep.host import to_host
from gradstep.learning.caveats import caveats_of, copies
from gradstep.learning.classification import are_classes
from gradstep.learning.curve import LearningCurve
from gradstep.learning.given import checked_ridges, checked_rows, checked_sizes, default_ridges
from gradstep.learning.pairs import FEW, Cell, extrapolated, interpolated, measured, solved
from gradstep.learning.pool import pool_of
from gradstep.learning.reach import with_neighbours
from gradstep.resolution import NOTHING
from gradstep.threads import threads_for_products

__all__ = ["learning_curve"]

Host = NDArray[np.float64]


def learning_curve(
    features: Any,
    targets: Any,
    *,
    n: ArrayLike | None = None,
    ridge: ArrayLike | None = None,
    sample_weight: Any = None,
    interpolate: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> LearningCurve:
    r"""Estimate test and training error of ridge regression for every number of samples, from one pool of rows.

    The fit is :math:`\min_b\sum_{\mu\le n}|y_\mu-b^\top\phi_\mu|^2+\text{ridge}\,|b|^2`: a sum over the rows, not a
    mean, and without an intercept unless the features have a column of ones, which is then penalised like every other.
    What is estimated is the mean over draws of n training rows, and over a new row, from the population of which the
    pool is a sample. For as many samples as the pool has rows this is leave-one-out cross-validation; up to twice as
    many it is extrapolated. Errors of up to 64 samples are measured on parts of the pool, where it has two to forty.
    The derivation is on the docs' page Learning curve.

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
    interpolate : bool
        Whether pairs of n and ridge with n at most M may be interpolated, in grids of more than twelve: within about a
        tenth of a standard error. False solves the equations of every pair, which takes up to thirty times as long.
    progress : callable, optional
        Called as ``progress(done, total)`` with numbers of pairs of n and ridge. Those that are interpolated are done
        all at once, at the end.

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
    interpolate = flag("interpolate", interpolate)
    function_or_none("progress", progress, "a function of two numbers of pairs: those done, and all")
    given = checked_rows(features, targets, sample_weight)
    rows, width = (int(size) for size in given.features.shape)
    sizes = checked_sizes(n, rows)
    with threads_for_products(rows, width, width):
        pool = pool_of(*given)
        eigenvalues = to_host(pool.eigenvalues)
        penalties = default_ridges(eigenvalues, width) if ridge is None else ridge
        ridges = checked_ridges(penalties, sizes, rows, float(eigenvalues.max()))
        classes = are_classes(given.targets)
        pairs = [(n, penalty) for n in sizes.tolist() for penalty in ridges.tolist()]
        different = list(dict.fromkeys(pairs))
        within = [pair for pair in different if pair[0] <= rows]
        interpolate = interpolate and not classes
        beyond = [pair for pair in different if pair[0] > rows]
        report, done, total = progress or (lambda done, total: None), 0, len(different)

        def advance() -> None:
            nonlocal done
            done += 1
            report(done, total)

        report(done, total)
        rough = interpolate and total > FEW
        cells, failures = extrapolated(pool, beyond, classes, rough=rough, advance=advance)
        few = interpolated(pool, within, advance) if interpolate else solved(pool, within, classes, advance)
        cells |= measured(pool, few)
        if done < total:
            report(total, total)
        if failures:
            (size, penalty), failure = next(iter(failures.items()))
            failures[size, penalty] = with_neighbours(pool, size, penalty, failure)
    if not cells:
        raise next(iter(failures.values()))
    tables, deciding = _tables(cells, pairs, (len(sizes), len(ridges)), classes)
    capped_share = max(cell.capped_share for cell in cells.values())
    by_few = {pair: cell.by_few for pair, cell in cells.items()}
    copied = copies(given.features)
    notes = caveats_of(failures, sizes, rows, copied, deciding, capped_share, by_few, classes)
    return LearningCurve(
        n=sizes.astype(np.int64),
        ridge=ridges,
        **tables,
        rows=rows,
        features=width,
        outputs=int(given.targets.shape[1]),
        caveats=notes,
    )


def _tables(
    cells: dict[tuple[float, float], Cell], pairs: list[tuple[float, float]], shape: tuple[int, int], classes: bool
) -> tuple[dict[str, Any], float]:
    """Return tables, nan where a pair has no cell, and the least number of rows that a standard error rests on."""
    places = [place for place, pair in enumerate(pairs) if pair in cells]
    found = [cells[pairs[place]] for place in places]

    def table(values: Any) -> Host:
        full = np.full(len(pairs), math.nan)
        full[places] = values
        return full.reshape(shape)

    test, training = np.stack([cell.influences for cell in found], axis=1)
    covariance = np.full((len(pairs), len(pairs)), math.nan)
    sizes = np.array([pairs[place][0] for place in places])
    divisions = [_products([cell.deviations[kind] for cell in found], sizes) for kind in (0, 1)]
    covariance[np.ix_(places, places)] = test @ test.T / test.shape[1] ** 2 + divisions[0]
    errors = [
        np.sqrt(np.square(own).mean(axis=1) / own.shape[1] + np.diag(further))
        for own, further in zip((test, training), divisions, strict=True)
    ]
    # A quarter, since k rows far above the others raise these by as much as all others together lie below the mean.
    deciding = np.abs(test).sum(axis=1) ** 2 / np.maximum(4 * np.square(test).sum(axis=1), NOTHING)
    tables: dict[str, Any] = {
        "test_error": table([cell.test for cell in found]),
        "test_standard_error": table(errors[0]),
        "test_covariance": covariance.reshape(*shape, *shape),
        "training_error": table([cell.training for cell in found]),
        "training_standard_error": table(errors[1]),
        "test_freedom": table(_freedom(test)),
        "training_freedom": table(_freedom(training)),
        "classification_error": table([cell.wrong[0] for cell in found]) if classes else None,
        "classification_standard_error": table([cell.wrong[1] for cell in found]) if classes else None,
    }
    return tables, float(deciding.min())


def _freedom(influences: Host) -> Host:
    """Return the degrees of freedom of the mean squares of influences (G, M), from their fourth powers, shape (G,)."""
    square, rows = np.square(influences), influences.shape[1]
    kurtosis = np.square(square).mean(axis=1) / np.maximum(np.square(square.mean(axis=1)), NOTHING)
    return np.asarray(2 * rows / np.maximum(kurtosis - 1, 1 / rows))


def _products(deviations: list[Host], sizes: Host) -> Host:
    """Return the sums over divisions of the pool of products of deviations, zero between different n, shape (G, G)."""
    found = np.zeros((len(sizes), len(sizes)))
    for n in np.unique(sizes):
        same = np.flatnonzero(sizes == n)
        own = np.array([deviations[place] for place in same])
        found[np.ix_(same, same)] = own @ own.T
    return found
