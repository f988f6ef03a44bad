r"""Theorem 7 and Corollary 8: the ridge estimator after a step with :math:`\eta=\Theta(\sqrt N)`."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradstep.checks import nonnegative, positive, real
from gradstep.gaussian.functions import ScalarFunction
from gradstep.papers.ba2022.risk import kernel_lower_bound
from gradstep.papers.ba2022.student import tau_star

__all__ = ["beats_kernels", "penalty_window", "risk_bound", "smallest_constant"]

Array = NDArray[np.float64]


def risk_bound(tau: ArrayLike, *, psi1: ArrayLike, C: ArrayLike) -> Array:
    r"""The bound of Theorem 7, :math:`10\tau^*+C(\sqrt{\tau^*}\sqrt{d/n}+d/n)`.

    Parameters
    ----------
    tau : array_like
        :math:`\tau^*` of (5.1), from :func:`~gradstep.papers.ba2022.tau_star`.
    psi1 : array_like
        :math:`n/d`.
    C : array_like
        The constant, which the theorem does not name.
    """
    floor, ratio = nonnegative("tau", tau), 1 / positive("psi1", psi1)
    return np.asarray(10 * floor + nonnegative("C", C) * _rate(floor, ratio))


def _rate(floor: Array, ratio: Array) -> Array:
    return np.asarray(np.sqrt(floor * ratio) + ratio)


def smallest_constant(risk: ArrayLike, tau: ArrayLike, *, psi1: ArrayLike) -> Array:
    r"""The smallest :math:`C\ge0` for which Theorem 7 holds at a measured risk.

    Parameters
    ----------
    risk : array_like
        Measured :math:`\mathcal R_1(\lambda)`.
    tau, psi1
        As in :func:`risk_bound`.

    Returns
    -------
    ndarray
        Bounded as :math:`\psi_1` grows if the theorem holds.
    """
    floor, ratio = nonnegative("tau", tau), 1 / positive("psi1", psi1)
    return np.asarray(np.maximum(nonnegative("risk", risk) - 10 * floor, 0.0) / _rate(floor, ratio))


def penalty_window(n: int, N: int, epsilon: float) -> tuple[float, float]:
    r"""Penalties that Theorem 7 covers: :math:`n^{\epsilon-1}<\lambda/N<n^{-\epsilon}`.

    Parameters
    ----------
    n, N : int
        Samples and neurons.
    epsilon : float
        In (0, 1/2).

    Returns
    -------
    tuple of float
        The ends, for :math:`\lambda` of (4.1).

    Raises
    ------
    InvalidInput
        On an argument out of range.
    """
    real("epsilon", epsilon, "in (0, 1/2)", lambda value: 0 < value < 0.5)
    samples, width = float(positive("n", n)), float(positive("N", N))
    return width * samples ** (epsilon - 1), width * samples**-epsilon


def beats_kernels(sigma: str | ScalarFunction, sigma_star: str | ScalarFunction) -> bool:
    r"""Return whether :math:`10\tau^*\le\|P_{>1}f^*\|^2`, the sufficient condition after Theorem 7.

    Parameters
    ----------
    sigma, sigma_star : str or ScalarFunction
        Activation, which is bounded in Lemma 6, and centred teacher.
    """
    return 10 * tau_star(sigma, sigma_star).tau <= kernel_lower_bound(sigma_star)
