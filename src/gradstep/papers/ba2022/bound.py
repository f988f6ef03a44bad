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

    Here :math:`\tau^*` is that of :func:`~gradstep.papers.ba2022.tau_star` and ``C`` the constant, which the theorem
    does not name.
    """
    floor, ratio = nonnegative("tau", tau), 1 / positive("psi1", psi1)
    return np.asarray(10 * floor + nonnegative("C", C) * _rate(floor, ratio))


def _rate(floor: Array, ratio: Array) -> Array:
    return np.asarray(np.sqrt(floor * ratio) + ratio)


def smallest_constant(risk: ArrayLike, tau: ArrayLike, *, psi1: ArrayLike) -> Array:
    r"""The smallest :math:`C\ge0` for which Theorem 7 holds at a measured risk.

    The risk is the measured :math:`\mathcal R_1(\lambda)`. The constant is bounded as :math:`\psi_1` grows if the
    theorem holds.
    """
    floor, ratio = nonnegative("tau", tau), 1 / positive("psi1", psi1)
    return np.asarray(np.maximum(nonnegative("risk", risk) - 10 * floor, 0.0) / _rate(floor, ratio))


def penalty_window(n: int, N: int, epsilon: float) -> tuple[float, float]:
    r"""Penalties that Theorem 7 covers: :math:`n^{\epsilon-1}<\lambda/N<n^{-\epsilon}`.

    The ends are for :math:`\lambda` of (4.1), with ``n`` samples, ``N`` neurons and :math:`\epsilon` in (0, 1/2).
    Raises `InvalidInput` on an argument out of range.
    """
    real("epsilon", epsilon, "in (0, 1/2)", lambda value: 0 < value < 0.5)
    samples, width = float(positive("n", n)), float(positive("N", N))
    return width * samples ** (epsilon - 1), width * samples**-epsilon


def beats_kernels(sigma: str | ScalarFunction, sigma_star: str | ScalarFunction) -> bool:
    r"""Return whether :math:`10\tau^*\le\|P_{>1}f^*\|^2`, the sufficient condition after Theorem 7.

    The activation is bounded in Lemma 6, and the teacher is centred.
    """
    return 10 * tau_star(sigma, sigma_star).tau <= kernel_lower_bound(sigma_star)
