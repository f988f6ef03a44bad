r"""Errors of fits to few samples, measured on parts of the pool.

The equations are the leading order in one over the number of samples. Where samples are few, the pool holds many fits
to so few: it is divided into parts of n rows, and the fit to each part is tested on rows of the others. Every row is
in one part of each division and is tested equally often, but for the rows that are left when n does not divide their
number. So what single rows bring to the mean error is nearly the same for every division, and what depends on the
company of a row scatters from one to the next.

Docs, "Learning curve", equation (F15).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradstep.host import to_host
from gradstep.learning.pool import Pool

__all__ = ["has_parts", "measured_errors"]

Host = NDArray[np.float64]

#: Samples above which the equations are better, and the range of rows of the pool for each.
_MOST_SAMPLES = 64
_LEAST_ROWS, _MOST_ROWS = 2.0, 40.0
#: Divisions at least; product of fits and cubed samples, and bounds of the fits.
_DIVISIONS, _CUBES, _FITS = 4, 1e7, (40, 200)
#: Rows on which a fit is tested, at most.
_TESTED = 500
_SEED = 20261125


def has_parts(samples: float, rows: int) -> bool:
    """Return whether errors of so few samples are measured on parts of a pool of so many rows."""
    return samples <= _MOST_SAMPLES and _LEAST_ROWS <= rows / samples <= _MOST_ROWS


def measured_errors(pool: Pool, samples: int, ridges: Host) -> tuple[Host, Host]:
    """Measure the errors of fits to so many rows, at most half of those of the pool, at B penalties.

    Return the mean test and training error over D divisions of the pool, shape (2, B), and deviations from it, shape
    (D, 2, B), whose squares sum to the variance of the mean over divisions. Docs, "Learning curve", equation (F15).
    """
    features, targets = to_host(pool.features), to_host(pool.targets)
    parts = pool.rows // samples
    fits = float(np.clip(_CUBES / samples**3, *_FITS))
    random = np.random.default_rng(_SEED)
    window = np.arange(samples + min(pool.rows - samples, _TESTED))
    errors, count = [], max(_DIVISIONS, math.ceil(fits / parts))
    for _ in range(count):
        mixed = random.permutation(pool.order)
        places = mixed[(np.arange(parts)[:, None] * samples + window) % pool.rows]
        errors.append(_errors_of_parts(features, targets, places[:, :samples], places[:, samples:], ridges))
    found = np.array(errors) * (pool.rows / pool.total)
    mean = found.mean(axis=0)
    return mean, (found - mean) / (count * (count - 1)) ** 0.5


def _errors_of_parts(features: Host, targets: Host, fitted: Any, tested: Any, ridges: Host) -> Host:
    """Return the mean square of fits to n rows each, on other rows and on these, shape (2, B).

    Rows are features (M, r) and targets (M, K), and numbers of them (parts, n) and (parts, T).
    """
    rows, truth = features[fitted], targets[fitted]
    values, vectors = np.linalg.eigh(rows @ rows.swapaxes(1, 2))
    turned = vectors.swapaxes(1, 2) @ truth
    shrunk = turned[:, :, None, :] / (np.maximum(values, 0.0)[:, :, None, None] + ridges[:, None])
    columns = shrunk.reshape(*shrunk.shape[:2], -1)
    readouts = rows.swapaxes(1, 2) @ (vectors @ columns)
    # One product for all parts, and then the rows on which each is tested.
    predicted = (features @ np.hstack(list(readouts))).reshape(len(features), len(rows), -1)
    missed = predicted[tested, np.arange(len(rows))[:, None]].reshape(*tested.shape, *shrunk.shape[2:])
    missed -= targets[tested][:, :, None, :]
    found = [np.square(missed).sum(axis=3), np.square(ridges[:, None] * shrunk).sum(axis=3)]
    return np.array([errors.mean(axis=(0, 1)) for errors in found])
