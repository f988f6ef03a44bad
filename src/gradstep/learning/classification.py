r"""Expected share of wrong classes.

Leaving a row out, the weighted fit has an output for it. Fits to n rows vary around that output more than the pool
shows, with the variance :math:`\epsilon-e^2` that is missing. They do so by sums over many rows, which are Gaussian.

Docs, "Learning curve", equation (F9).
"""

from __future__ import annotations

import math

import numpy as np
from array_api_compat import device
from numpy.typing import NDArray
from scipy.special import ndtr

from gradstep.host import to_host
from gradstep.learning.equations import RowErrors
from gradstep.learning.pool import Array
from gradstep.resolution import NOTHING

__all__ = ["are_classes", "misclassification"]

#: Draws of the variation of several outputs; they are averaged over all rows, too.
_DRAWS = 16
_SEED = 20240229
Host = NDArray[np.float64]


def are_classes(targets: Array) -> bool:
    """Return whether targets (M, K) are plus and minus one, or rows with a single one among zeros."""
    values = to_host(targets)
    if values.shape[1] == 1:
        return bool((np.abs(values) == 1).all() and (values.min() < values.max()))
    return bool(np.isin(values, (0.0, 1.0)).all() and (values.sum(axis=1) == 1).all())


def misclassification(errors: RowErrors) -> Host:
    """Return the probability that a fit to n rows takes each row, left out, for another class, shape (M,).

    Targets are as `are_classes` wants them. The class is the sign of a single output, or the largest of several. All
    are nan for n > M, where the pool shows more variation than there is.
    """
    fit, pool = errors.fit, errors.fit.resolvent.pool
    if fit.missing < 0:
        return np.full(pool.rows, math.nan)
    root = np.sqrt(to_host(pool.mass))[:, None]
    usable = root > 0
    targets = to_host(pool.targets) / np.where(usable, root, 1.0)
    residuals = to_host(errors.residuals)
    outputs = targets - residuals / np.where(usable, root, 1.0)
    variance = (
        np.maximum(to_host(errors.squares) - (residuals**2).sum(axis=1), 0.0) / np.where(usable, root, 1.0)[:, 0] ** 2
    )
    if targets.shape[1] == 1:
        margin = (targets * outputs)[:, 0]
        deviation = np.sqrt(variance)
        certain = np.where(margin > 0, 0.0, 1.0)
        return np.where(deviation > 0, ndtr(-margin / np.where(deviation > 0, deviation, 1.0)), certain)
    varied = outputs[:, None, :] + np.sqrt(variance)[:, None, None] * _directions(errors)
    return np.asarray((varied.argmax(axis=2) != targets.argmax(axis=1)[:, None]).mean(axis=1))


def _directions(errors: RowErrors) -> Host:
    """Return draws of what the outputs vary by together, shape (M, draws, K): of mean square one, summed over outputs.

    Each row of the fit pulls along its own residual, with a random sign: its own too, wherever it lies in the table.
    """
    fit, pool = errors.fit, errors.fit.resolvent.pool
    residuals = to_host(errors.residuals)
    signs = np.empty((pool.rows, _DRAWS, 1))
    signs[pool.order] = np.random.default_rng(_SEED).choice([-1.0, 1.0], signs.shape)
    pulls = (to_host(fit.weights)[:, None, None] * signs * residuals[:, None, :]).reshape(pool.rows, -1)
    moved = to_host(fit.resolvent.predictions(pool.xp.asarray(pulls, device=device(pool.features))))
    moved = moved - to_host(fit.bare_leverage)[:, None] * pulls
    moved = moved / to_host(fit.remainder)[:, None]
    size = to_host(fit.spread(pool.xp.sum(errors.residuals**2, axis=1)))
    return np.asarray(moved.reshape(pool.rows, _DRAWS, -1) / np.sqrt(np.maximum(size, NOTHING))[:, None, None])
