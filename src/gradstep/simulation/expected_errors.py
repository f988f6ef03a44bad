r"""Expected errors of ridge fits on a given first layer, for inputs that can be drawn at will.

`gradstep.learning_curve` estimates them from a pool of rows, and what it says fluctuates as the pool does: by some per
cent for thousands of rows. Here pools are drawn until this is a small part of the error. Two things make that cheap.

**The noise is known.** The fit is linear in the labels and squared errors add over outputs, so that targets
:math:`(E[y|x],\ \sigma s_1/\sqrt K,\dots,\sigma s_K/\sqrt K)` with random signs have the errors of
:math:`E[y|x]+\sigma z`, averaged over K draws of the noise and without its products with the rest. The noise of the new
row is :math:`\sigma^2` exactly, and is left out.

**A readout of known risk is tested on the same rows.** What fluctuates most is the mean over rows of
:math:`(f^*-b^\top\phi)^2`, with the mean fit b. With a fixed readout near it, the difference between its error on the
pool and its risk is subtracted:

.. math::

    \hat\epsilon=\epsilon_{\text{pool}}-\frac1{1-\gamma}
    \Bigl(\frac1M\sum_{m}(f^*_m-b^\top\phi_m)^2-E(f^*-b^\top\phi)^2\Bigr),\qquad
    \gamma=\frac n{(1+V)^2}\operatorname{tr}(KR)^2,

with :math:`b=\frac n{1+V}R\,E[\phi f^*]`, :math:`R=(\Lambda+\frac n{1+V}K)^{-1}`, :math:`K=E\phi\phi^\top`,
:math:`V=\operatorname{tr}KR`. Any b and any factor leave the expectation as it is; these are the limit of one leverage
for all rows, where :math:`1/(1-\gamma)` is what the fit makes of an error that it cannot learn.

Docs, "Several steps", equation (M6).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradstep.learning import LearningCurve, learning_curve
from gradstep.memory import check_fits
from gradstep.resolution import NOTHING
from gradstep.simulation.backend import Array, to_host
from gradstep.simulation.streams import Purpose, generator

__all__ = ["Population", "Risk", "Rows", "expected_errors", "sampled_risk"]

Host = NDArray[np.float64]
Progress = Callable[[int, int], None]

#: Draws of the label noise that one pool averages over.
_NOISES = 16
#: Rows of a pool over features, at least, and rows of a small one.
_ROWS_PER_FEATURE, _FEWEST_ROWS = 4, 500
#: Rows over features from which the readouts of known risk are made.
_PILOT = 20
#: Pools at least, so that their scatter is a standard error, and at most.
_FEWEST_POOLS, _MOST_POOLS = 8, 128
#: Rows on which a risk is measured, and twice the deviation of one, over the risk, that decides between them.
_LEAST_RISK_ROWS, _MOST_RISK_ROWS, _DEVIATION = 1 << 16, 1 << 20, 5.0
#: Standard error over the one asked for, from which there is a caveat.
_MET = 1.1


class Rows(NamedTuple):
    """Rows of a pool: features (M, N), means of the labels (M,), root mean square of their noise (M,)."""

    features: Host
    means: Host
    deviation: Host


class Risk(NamedTuple):
    """Test errors (P,) of P readouts, without the noise, and the covariance (P, P) of these numbers."""

    errors: Host
    covariance: Host


@dataclass(frozen=True)
class Population:
    """A first layer with the law of its inputs and labels."""

    seed: int  #: Of the signs of the noise.
    width: int  #: Number of features.
    noise_variance: float  #: Mean square of the label noise.
    #: ``draw(turn, rows)`` yields blocks of `Rows`; turns are independent of one another.
    draw: Callable[[int, int], Iterator[Rows]]
    #: ``risk(readouts, rows)`` returns the `Risk` of readouts (N, P), independent of all draws; measured on that many
    #: rows if there is no exact one.
    risk: Callable[[Host, int], Risk]


def sampled_risk(blocks: Iterator[tuple[Array, Array]], readouts: Array) -> Risk:
    """Measure test errors of readouts (N, P) on blocks of features with targets, arrays of one library."""
    count, total, products = 0, np.zeros(readouts.shape[1]), np.zeros((readouts.shape[1],) * 2)
    for features, means in blocks:
        squares = to_host((means[:, None] - features @ readouts) ** 2)
        count, total, products = count + len(means), total + squares.sum(axis=0), products + squares.T @ squares
    mean = total / count
    return Risk(mean, (products / count - np.outer(mean, mean)) / count)


def expected_errors(
    population: Population,
    sizes: NDArray[np.int64],
    ridges: Host,
    *,
    tolerance: float,
    pool: int | None = None,
    progress: Progress | None = None,
) -> LearningCurve:
    """Return the expected errors of ridge fits for all sizes and penalties.

    Test errors are without the noise of the new row, training errors with that of the labels. There are A numbers of
    training rows and B penalties, and the standard error that is aimed at, over the test error, is the tolerance. A
    `pool` has the rows of all pools together, in place of as many as the tolerance needs. After each pool
    ``progress(done, total)`` is called; the total is an estimate. Raises `InvalidInput` if a pool of as many rows as
    the largest size does not fit in memory.
    """
    rows = max(int(sizes.max()), _ROWS_PER_FEATURE * population.width, _FEWEST_ROWS)
    # The blocks of a pool and what they are put together to.
    check_fits("n", int(sizes.max()), 16.0 * rows * (population.width + _NOISES), f"{population.width} features")
    least, most = _FEWEST_POOLS, _MOST_POOLS
    if pool is not None:
        least = most = max(round(pool / rows), 2)
    needed = _DEVIATION**2 * (tolerance**-2 if pool is None else pool)
    control = _Control.of(population, sizes, ridges, int(np.clip(needed, _LEAST_RISK_ROWS, _MOST_RISK_ROWS)))
    found: list[Host] = []
    notes: list[set[str]] = []
    while True:
        errors, caveats = _of_one_pool(population, control, len(found) + 1, rows, sizes, ridges)
        found.append(errors)
        notes.append(set(caveats))
        done = len(found)
        mean, scatter, known = _mean(found, control)
        wanted = _pools_wanted(mean, scatter, known, done, tolerance)
        total = done if done >= least and wanted <= done else min(max(wanted, least, done + 1), most)
        if progress is not None:
            progress(done, total)
        if done == total:
            break
    deviation = np.sqrt(np.diagonal(scatter[0] + known[0]))
    shared = sorted(set.intersection(*notes))  # about the sizes: what is about one pool differs from the next
    if pool is None:
        shared += _missed(float((deviation / np.maximum(np.abs(mean[0]), NOTHING)).max()), tolerance, done * rows)
    return _curve(population, mean, scatter + known, done * rows, sizes, ridges, tuple(shared))


@dataclass(frozen=True)
class _Control:
    """One readout of known risk for each pair, (N, P), with what is subtracted for its error on a pool.

    `gains` (2, P) are the factors of this error in the test and the training error.
    """

    readouts: Host
    gains: Host
    risk: Risk

    @classmethod
    def of(cls, population: Population, sizes: NDArray[np.int64], ridges: Host, risk_rows: int) -> _Control:
        gram, cross, count = np.zeros((population.width,) * 2), np.zeros(population.width), 0
        for features, means, _ in population.draw(0, max(_PILOT * population.width, _FEWEST_ROWS)):
            gram, cross, count = gram + features.T @ features, cross + features.T @ means, count + len(means)
        eigenvalues, vectors = np.linalg.eigh(gram / count)
        eigenvalues, cross = np.maximum(eigenvalues, 0.0), vectors.T @ (cross / count)
        readouts, gains = [], []
        for n in sizes.tolist():
            for ridge in ridges.tolist():
                leverage = _leverage(eigenvalues, n, ridge)
                samples = n / (1 + leverage)
                shrunk = eigenvalues / (ridge + samples * eigenvalues)
                gain = 1 / (1 - samples / (1 + leverage) * float(shrunk @ shrunk))
                readouts.append(vectors @ (samples * cross / (ridge + samples * eigenvalues)))
                gains.append((gain, gain / (1 + leverage) ** 2))
        columns = np.stack(readouts, axis=1)
        return cls(columns, np.array(gains).T, population.risk(columns, risk_rows))


def _leverage(eigenvalues: Host, n: float, ridge: float) -> float:
    r"""Solve :math:`V=\operatorname{tr}K(\Lambda+\frac n{1+V}K)^{-1}`, of which the right side over V decreases."""
    from scipy.optimize import brentq  # here: it loads for longer than many a network is drawn and fitted

    def excess(leverage: float) -> float:
        return float((eigenvalues / (ridge + n / (1 + leverage) * eigenvalues)).sum()) - leverage

    most = max(float(eigenvalues.sum()) / ridge, NOTHING)
    # With next to nothing but the penalty the two agree to rounding.
    return float(brentq(excess, 0.0, most, xtol=1e-12, rtol=1e-10)) if excess(most) < 0 else most


def _of_one_pool(
    population: Population, control: _Control, turn: int, rows: int, sizes: NDArray[np.int64], ridges: Host
) -> tuple[Host, tuple[str, ...]]:
    """Return test and training errors (2, P) from one pool, the control subtracted, and its caveats."""
    phi, f, deviation = map(np.concatenate, zip(*population.draw(turn, rows), strict=True))
    targets = [f]
    if population.noise_variance:
        signs = generator(population.seed, Purpose.POOL_SIGNS, turn).choice((-1.0, 1.0), size=(_NOISES, rows))
        targets += list(deviation * signs / math.sqrt(_NOISES))
    curve = learning_curve(phi, np.stack(targets, axis=1), n=sizes, ridge=ridges)
    errors = np.stack([np.ravel(curve.test_error) - population.noise_variance, np.ravel(curve.training_error)])
    on_pool = ((f[:, None] - phi @ control.readouts) ** 2).mean(axis=0)
    return errors - control.gains * (on_pool - control.risk.errors), curve.caveats


def _mean(found: list[Host], control: _Control) -> tuple[Host, Host, Host]:
    """Return the mean over pools (2, P), and its covariances (2, P, P) by their scatter and by the known risks."""
    values, gains = np.stack(found), control.gains
    deviations = values - values.mean(axis=0)
    scatter = np.einsum("bkp,bkq->kpq", deviations, deviations) / max(len(found) - 1, 1) / len(found)
    return values.mean(axis=0), scatter, gains[:, :, None] * gains[:, None, :] * control.risk.covariance


def _pools_wanted(mean: Host, scatter: Host, known: Host, done: int, tolerance: float) -> int:
    """Return how many pools will make all test errors as accurate as they should be, or as the risks known let them."""
    variance, least = np.diagonal(scatter[0]), np.diagonal(known[0])
    left = np.maximum(np.maximum((tolerance * mean[0]) ** 2 - least, least), NOTHING)
    return math.ceil(done * min(float((variance / left).max()), 1e6))


def _missed(worst: float, tolerance: float, rows: int) -> list[str]:
    """Return a caveat if the largest relative standard error is above the one asked for."""
    if worst <= _MET * tolerance:
        return []
    reached = f"up to {100 * worst:.2g} % of the test error, not the {100 * tolerance:.2g} % asked for"
    return [f"The standard error is {reached}: {rows} rows were not enough."]


def _curve(
    population: Population,
    mean: Host,
    covariance: Host,
    rows: int,
    sizes: NDArray[np.int64],
    ridges: Host,
    caveats: tuple[str, ...],
) -> LearningCurve:
    shape = (len(sizes), len(ridges))
    test, training = (np.reshape(errors, shape) for errors in mean)
    deviations = [np.reshape(np.sqrt(np.diagonal(own)), shape) for own in covariance]
    return LearningCurve(
        n=sizes,
        ridge=ridges,
        test_error=test,
        test_standard_error=deviations[0],
        test_covariance=np.reshape(covariance[0], (*shape, *shape)),
        training_error=training,
        training_standard_error=deviations[1],
        classification_error=None,
        classification_standard_error=None,
        rows=rows,
        features=population.width,
        outputs=1,
        caveats=caveats,
        noise_variance=population.noise_variance,
    )
