r"""Proposition 2: the gradient of (2.1) is almost of rank one; norms of the weights and of the step.

Matrices have the paper's layout here: ``W`` is ``(d, N)``, one neuron a column.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradstep.checks import nonnegative, positive
from gradstep.errors import InvalidInput
from gradstep.gaussian.functions import ScalarFunction, scalar_function
from gradstep.gaussian.moments import moments
from gradstep.papers.ba2022.coefficients import coefficients
from gradstep.papers.ba2022.spike import theta

__all__ = ["Norms", "error_bound", "first_gradient", "norms", "rank_one"]

Array = NDArray[np.float64]

TRACY_WIDOM_MEAN = -1.2065335745820
"""Mean of the Tracy-Widom law of real matrices."""


def first_gradient(W0: Array, W1: Array, eta: float) -> Array:
    r"""Gradient :math:`G_0=(W_1-W_0)/(\eta\sqrt N)` of (2.1).

    Proposition 2 prints :math:`n` in the place of :math:`\eta`, which contradicts (2.1) and the statement itself, whose
    :math:`A` is close to the gradient as it is here.

    The weights before and after the step have shape (d, N), with the learning rate ``eta``. Raises `InvalidInput` on a
    learning rate that is not positive.
    """
    return np.asarray((W1 - W0) / (positive("eta", eta) * np.sqrt(W0.shape[1])))


def rank_one(X: Array, y: Array, a: Array, mu1: float) -> Array:
    r"""The matrix :math:`A=\frac{\mu_1}{n\sqrt N}X^\top y a^\top` of Proposition 2.

    The inputs have shape (n, d) and the labels (n,). The readout ``a`` of (1.1), shape (N,), has entries of variance
    :math:`1/N`. The matrix has shape (d, N).
    """
    n, N = y.size, a.size
    return np.asarray(mu1 / (n * np.sqrt(N)) * np.outer(X.T @ y, a))


def error_bound(n: ArrayLike, C: ArrayLike) -> Array:
    r"""The bound :math:`C\log^2 n/\sqrt n` of Proposition 2 on :math:`\|G_0-A\|/\|G_0\|`.

    The proposition does not name the constant ``C``.
    """
    samples = positive("n", n)
    return np.asarray(nonnegative("C", C) * np.log(samples) ** 2 / np.sqrt(samples))


@dataclass(frozen=True)
class Norms:
    r"""Limits of the norms of section 3.2; operator norms without suffix.

    Attributes
    ----------
    weights : ndarray
        :math:`\|W_0\|\to1+\sqrt{\psi_2}`; at finite :math:`d` the mean of the Tracy-Widom law there.
    weights_frobenius : ndarray
        :math:`\|W_0\|_F/\sqrt N\to1`.
    gradient : ndarray
        :math:`\sqrt N\|G_0\|\to|\mu_1|\theta`.
    gradient_frobenius : ndarray
        :math:`\sqrt N\|G_0\|_F`, whose square is :math:`\mu_1^2\theta^2+(E\sigma'^2-\mu_1^2)E y^2/\psi_1`: the
        remainder :math:`G_0-A` vanishes in operator norm, not in Frobenius norm.
    """

    weights: Array
    weights_frobenius: Array
    gradient: Array
    gradient_frobenius: Array


def norms(
    sigma: str | ScalarFunction,
    sigma_star: str | ScalarFunction,
    *,
    psi1: ArrayLike,
    psi2: ArrayLike,
    sigma_eps: ArrayLike = 0.0,
    d: ArrayLike = np.inf,
) -> Norms:
    r"""Limits of the norms of :math:`W_0` and :math:`G_0` (section 3.2); their values are this project's.

    A step with :math:`\eta=\Theta(1)` has operator norm :math:`\eta\sqrt N\|G_0\|\asymp\|W_0\|`; one with
    :math:`\eta=\bar\eta\sqrt N` has Frobenius norm :math:`\bar\eta\sqrt N\cdot\sqrt N\|G_0\|_F\asymp\|W_0\|_F`.

    The teacher is centred. The input dimension ``d`` is for the mean of :math:`\|W_0\|` at finite size. Raises
    `InvalidInput` on an argument out of range, or sizes of less than one input or neuron.
    """
    student = moments(scalar_function(sigma))
    label_variance = coefficients(sigma, sigma_star).second_moment + np.square(sigma_eps)
    spike = abs(student.derivative_mean) * theta(sigma_star, psi1=psi1, sigma_eps=sigma_eps)
    remainder = student.derivative_variance * label_variance / positive("psi1", psi1)
    psi2, spike, remainder, d = np.broadcast_arrays(
        positive("psi2", psi2), spike, remainder, positive("d", d, infinite=True)
    )
    if not ((d >= 1) & (psi2 * d >= 1)).all():
        raise InvalidInput("d", d, "at least one input, and psi2 d at least one neuron")
    return Norms(_edge(psi2, d), np.ones_like(psi2), spike, np.sqrt(spike**2 + remainder))


def _edge(psi2: Array, d: Array) -> Array:
    """Mean largest singular value of a (d, psi2 d) matrix of variance 1/d, to second order (Johnstone and Ma 2012)."""
    with np.errstate(invalid="ignore"):
        rows, columns = np.sqrt(1 - 0.5 / d), np.sqrt(psi2 - 0.5 / d)
        centre = rows + columns
        width = centre * (1 / rows + 1 / columns) ** (1 / 3) * np.asarray(d, dtype=np.float64) ** (-2 / 3)
    return np.asarray(np.sqrt(centre**2 + TRACY_WIDOM_MEAN * width))
