r"""A bias common to all neurons, given or trained with the readout (appendix C.8, (130) to (132))."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradstep.checks import bounded
from gradstep.gaussian import ScalarFunction
from gradstep.papers.cui2024.bounds import lower_bound
from gradstep.papers.cui2024.errors import SummaryStatistics, solve
from gradstep.papers.cui2024.spiked import equivalent_features

__all__ = ["TrainedBias", "biased_lower_bound", "biased_statistics", "trained_bias"]

Array = NDArray[np.float64]

_GRID = 41


def _minima(function: Callable[[ArrayLike], Array], largest: float) -> list[tuple[float, float]]:
    """Return the value and the place of every local minimum up to an absolute value, the lowest first."""
    from scipy.optimize import minimize_scalar  # here: the app starts faster without

    largest = bounded("largest", largest, positive=True)
    grid = np.linspace(-largest, largest, _GRID)
    padded = np.concatenate([[np.inf], function(grid), [np.inf]])
    valleys = np.flatnonzero((padded[1:-1] <= padded[:-2]) & (padded[1:-1] < padded[2:]))
    found = []
    for index in map(int, valleys):
        around = float(grid[max(index - 1, 0)]), float(grid[min(index + 1, _GRID - 1)])
        best = minimize_scalar(lambda b: float(function(b)), bounds=around, method="bounded", options={"xatol": 1e-9})
        found.append((float(best.fun), float(best.x)))
    return sorted(found)


def biased_statistics(
    sigma: str | ScalarFunction,
    sigma_star: str | ScalarFunction,
    *,
    r: float,
    c: float,
    gamma: float,
    b: ArrayLike,
    alpha: ArrayLike,
    lam: ArrayLike,
    beta: ArrayLike = 1.0,
    sigma_eps: ArrayLike = 0.0,
) -> SummaryStatistics:
    r"""Result 3.3 for :math:`\sigma(\langle w_i,x\rangle+b)` with a given bias: (131) in place of (15).

    Parameters are those of :func:`~gradstep.papers.cui2024.equivalent_features` (functions, spike and bias) and of
    :func:`~gradstep.papers.cui2024.summary_statistics`, whose error is raised; they broadcast with ``b``.
    """
    features = equivalent_features(sigma, sigma_star, r=r, c=c, gamma=gamma, b=b, folded=True)
    return solve(features, alpha=alpha, lam=lam, beta=beta, sigma_eps=sigma_eps)


@dataclass(frozen=True)
class TrainedBias:
    """The bias that minimises the training loss.

    Attributes
    ----------
    bias : float
        The minimiser :math:`b`.
    test_error, train_loss : float
        Errors at this bias.
    minima : tuple of float
        Every local minimum found, in increasing order of the training loss.
    """

    bias: float
    test_error: float
    train_loss: float
    minima: tuple[float, ...]


def trained_bias(
    sigma: str | ScalarFunction,
    sigma_star: str | ScalarFunction,
    *,
    r: float,
    c: float,
    gamma: float,
    alpha: float,
    lam: float,
    beta: float = 1.0,
    sigma_eps: float = 0.0,
    largest: float = 4.0,
) -> TrainedBias:
    """Train the bias together with the readout.

    Biases of absolute value up to ``largest``, which is positive, are searched; the others are as in
    :func:`biased_statistics`.

    Notes
    -----
    The paper takes a stationary point of the free energy in :math:`b`. There can be several; the one returned has the
    least training loss, the minimum of (82).
    """

    def at(b: ArrayLike) -> SummaryStatistics:
        return biased_statistics(
            sigma, sigma_star, r=r, c=c, gamma=gamma, b=b, alpha=alpha, lam=lam, beta=beta, sigma_eps=sigma_eps
        )

    found = _minima(lambda b: at(b).train_loss, largest)
    loss, bias = found[0]
    return TrainedBias(bias, float(at(bias).test_error), loss, tuple(b for _, b in found))


def biased_lower_bound(
    sigma: str | ScalarFunction,
    sigma_star: str | ScalarFunction,
    *,
    r: float,
    c: float = 1.0,
    gamma: float = 1.0,
    largest: float = 4.0,
) -> tuple[float, float]:
    """Lower bound (132): (27) at the best bias.

    The bound comes with that bias. Biases of absolute value up to ``largest`` are searched; the others are as in
    :func:`biased_statistics`.
    """

    def at(b: ArrayLike) -> Array:
        return lower_bound(sigma, sigma_star, r=r, c=c, gamma=gamma, b=b)

    return _minima(at, largest)[0]
