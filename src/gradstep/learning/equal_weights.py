r"""Fits in which all rows have the same weight and the same leverage: the errors take one number for each direction.

What is left of the equations is generalised cross-validation, continued to other n. It is not accurate where rows
differ, but it has all that changes fast from one pair of n and ridge to the next: what more accurate errors differ by
is smooth. Docs, "Learning curve", equation (F10).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from array_api_compat import device
from numpy.typing import NDArray

from gradstep.host import to_host
from gradstep.learning.pool import Pool

__all__ = ["EqualFits", "equal_fits", "left_out_errors"]

Host = NDArray[np.float64]

_STEPS = 60
_TOLERANCE = 1e-12


@dataclass(frozen=True, eq=False)
class EqualFits:
    """Weights of all rows (G,), and test and training errors (2, G), of G fits."""

    weights: Host
    errors: Host


def equal_fits(pool: Pool, samples: Host, ridges: Host) -> EqualFits:
    """Return the fits that stand for those to n rows if all rows have the mean leverage.

    The numbers n, shape (G,), are at most those of the pool. Docs, "Learning curve", equation (F10).
    """
    eigenvalues, targets = to_host(pool.eigenvalues)[:, None], to_host(pool.targets)
    explained = np.square(to_host(pool.features.T @ pool.targets)).sum(axis=1)[:, None] / eigenvalues
    ratio = samples / pool.rows
    weights = _weights(eigenvalues, ratio, ridges, pool.rows)
    kept = weights * eigenvalues / (ridges + weights * eigenvalues)
    rest = 1 - kept.sum(axis=0) / pool.rows
    residual = np.square(targets).sum() - (explained * kept * (2 - kept)).sum(axis=0)
    spread = (np.square(kept).sum(axis=0) / pool.rows - (1 - rest) ** 2) / rest**2
    test = residual / rest**2 / (1 - (1 / ratio - 1) * spread) / pool.total
    training = test / (1 + (1 - rest) / (weights * rest)) ** 2
    return EqualFits(weights, np.stack([test, training]))


def left_out_errors(pool: Pool, ridges: Host) -> Host:
    """Return the errors for as many samples as the pool has rows, where all weights are one: those of leave-one-out.

    They are test and training error, shape (2, B), at B penalties.
    """
    xp, features, targets = pool.xp, pool.features, pool.targets
    spectrum = pool.eigenvalues[:, None] + xp.asarray(ridges, device=device(features))
    moment = features.T @ targets
    sums = xp.zeros((2, len(ridges)), dtype=features.dtype, device=device(features))
    for part in pool.blocks():
        rest = 1 - features[part, :] ** 2 @ (1 / spectrum)
        for output in range(targets.shape[1]):
            within = targets[part, output, None] - features[part, :] @ (moment[:, output, None] / spectrum)
            sums = sums + xp.stack([xp.sum((within / rest) ** 2, axis=0), xp.sum(within**2, axis=0)])
    return to_host(sums) / pool.total


def _weights(eigenvalues: Host, ratio: Host, ridges: Host, rows: int) -> Host:
    """Return the root of ``(1 - w) (1 - u(w)) = 1 - n/M`` in w, which lies below n/M, shape (G,).

    The left side falls with w, so that the root stays between two bounds; Newton's steps end in it.
    """
    low, high = np.zeros_like(ratio), ratio.copy()
    weights = ratio.copy()
    for _ in range(_STEPS):
        scaled = ridges + weights * eigenvalues
        rest = 1 - (weights * eigenvalues / scaled).sum(axis=0) / rows
        excess = (1 - weights) * rest - (1 - ratio)
        low, high = np.where(excess >= 0, weights, low), np.where(excess <= 0, weights, high)
        slope = -rest - (1 - weights) * (ridges * eigenvalues / scaled**2).sum(axis=0) / rows
        following = weights - excess / slope
        inside = (following >= low) & (following <= high)
        following = np.where(inside, following, (low + high) / 2)
        done = bool((np.abs(following - weights) <= _TOLERANCE * weights).all())
        weights = following
        if done:
            break
    return np.asarray(weights)
