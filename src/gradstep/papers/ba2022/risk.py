r"""Prediction risk of ridge regression before and after one step with :math:`\eta=\Theta(1)` (section 4.2)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradstep.gaussian.functions import ScalarFunction
from gradstep.papers.ba2022.coefficients import coefficients
from gradstep.papers.notation import in_ba2022
from gradstep.theory.small_step import (
    SmallStep,
    gain_many_samples,
    gain_unbounded_step,
    gain_wide_coefficient,
    small_step,
)

__all__ = [
    "R_0",
    "R_1",
    "delta",
    "delta_large_sample",
    "delta_large_step",
    "delta_large_width",
    "kernel_lower_bound",
]

Array = NDArray[np.float64]


@in_ba2022
def R_0(
    sigma: str | ScalarFunction,
    sigma_star: str | ScalarFunction,
    *,
    lam: ArrayLike,
    psi1: ArrayLike,
    psi2: ArrayLike,
    sigma_eps: ArrayLike = 0.0,
    centred: bool = True,
) -> Array:
    r"""Prediction risk :math:`\mathcal R_0(\lambda)` of the initial random features, (3.1) and (4.1).

    Parameters
    ----------
    sigma, sigma_star : str or ScalarFunction
        Activation and teacher.
    lam : array_like
        :math:`\lambda` of (4.1).
    psi1, psi2 : array_like
        :math:`n/d` and :math:`N/d`.
    sigma_eps : array_like
        Standard deviation of the label noise; the risk does not include it.
    centred : bool
        See :func:`~gradstep.papers.ba2022.coefficients`.

    Returns
    -------
    ndarray

    Raises
    ------
    InvalidInput
        On an argument out of range, or a function that is unknown.
    NotConverged
        If the equations are not solved.
    """
    return _step(sigma, sigma_star, 0.0, lam, psi1, psi2, sigma_eps, None, centred).initial.test_error


@in_ba2022
def R_1(
    sigma: str | ScalarFunction,
    sigma_star: str | ScalarFunction,
    *,
    eta: ArrayLike,
    lam: ArrayLike,
    psi1: ArrayLike,
    psi2: ArrayLike,
    sigma_eps: ArrayLike = 0.0,
    N: ArrayLike | None = None,
    centred: bool = True,
) -> Array:
    r"""Prediction risk :math:`\mathcal R_1(\lambda)=\mathcal R_0(\lambda)-\delta` after one step, Theorem 5.

    Parameters
    ----------
    sigma, sigma_star, lam, psi1, psi2, sigma_eps, centred
        As in :func:`R_0`.
    eta : array_like
        Learning rate of (2.1), of order one.
    N : array_like, optional
        Width, for the leading finite-width correction of this project; by default the limit of the theorem.

    Returns
    -------
    ndarray

    Raises
    ------
    InvalidInput
        On an argument out of range, or a function that is unknown.
    NotConverged
        If the equations are not solved.
    """
    return _step(sigma, sigma_star, eta, lam, psi1, psi2, sigma_eps, N, centred).test_error


@in_ba2022
def delta(
    sigma: str | ScalarFunction,
    sigma_star: str | ScalarFunction,
    *,
    eta: ArrayLike,
    lam: ArrayLike,
    psi1: ArrayLike,
    psi2: ArrayLike,
    sigma_eps: ArrayLike = 0.0,
    N: ArrayLike | None = None,
    centred: bool = True,
) -> Array:
    r"""Improvement :math:`\delta(\eta,\lambda,\psi_1,\psi_2)` of Theorem 5.

    Parameters
    ----------
    sigma, sigma_star, eta, lam, psi1, psi2, sigma_eps, N, centred
        As in :func:`R_1`.

    Returns
    -------
    ndarray

    Raises
    ------
    InvalidInput
        On an argument out of range, or a function that is unknown.
    NotConverged
        If the equations are not solved.

    Notes
    -----
    The theorem names :math:`\mu_1^*,\mu_1,\mu_2` as the parameters of (C.19). :math:`\delta` also depends on
    :math:`\mu_2^{*2}+\sigma_\epsilon^2` at finite :math:`\psi_1`, through the norm of the gradient.
    """
    return _step(sigma, sigma_star, eta, lam, psi1, psi2, sigma_eps, N, centred).gain


@in_ba2022
def delta_large_sample(
    sigma: str | ScalarFunction,
    sigma_star: str | ScalarFunction,
    *,
    eta: ArrayLike,
    lam: ArrayLike,
    psi2: ArrayLike,
    centred: bool = True,
) -> Array:
    r"""Limit of :math:`\delta` as :math:`\psi_1\to\infty`, increasing in :math:`\eta` (large sample regime).

    Parameters
    ----------
    sigma, sigma_star, eta, lam, psi2, centred
        As in :func:`R_1`. The noise drops out.

    Returns
    -------
    ndarray

    Raises
    ------
    InvalidInput
        On an argument out of range, or a function that is unknown.
    """
    values = coefficients(sigma, sigma_star, centred=centred)
    return gain_many_samples(
        width_ratio=psi2,
        penalty=lam,
        step_size=eta,
        activation_linear=values.mu1,
        activation_nonlinear=values.mu2_squared,
        teacher_linear=values.mu1_star,
    )


@in_ba2022
def delta_large_width(
    sigma: str | ScalarFunction,
    sigma_star: str | ScalarFunction,
    *,
    eta: ArrayLike,
    psi1: ArrayLike,
    psi2: ArrayLike,
    centred: bool = True,
) -> Array:
    r"""Leading order of :math:`\delta\to0` as :math:`\psi_2\to\infty` (large width regime), of order :math:`1/\psi_2`.

    Parameters
    ----------
    sigma, sigma_star, eta, psi1, psi2, centred
        As in :func:`R_1`. The penalty and the noise drop out.

    Returns
    -------
    ndarray

    Raises
    ------
    InvalidInput
        On an argument out of range, or a function that is unknown.
    """
    values = coefficients(sigma, sigma_star, centred=centred)
    coefficient = gain_wide_coefficient(
        sample_ratio=psi1,
        step_size=eta,
        activation_linear=values.mu1,
        activation_nonlinear=values.mu2_squared,
        teacher_linear=values.mu1_star,
    )
    return np.asarray(coefficient / np.asarray(psi2))


@in_ba2022
def delta_large_step(
    sigma: str | ScalarFunction,
    sigma_star: str | ScalarFunction,
    *,
    lam: ArrayLike,
    psi1: ArrayLike,
    psi2: ArrayLike,
    sigma_eps: ArrayLike = 0.0,
    centred: bool = True,
) -> Array:
    r"""Limit of :math:`\delta` as :math:`\eta\to\infty` after the proportional limit: its supremum over the step.

    Parameters
    ----------
    sigma, sigma_star, lam, psi1, psi2, sigma_eps, centred
        As in :func:`R_1`.

    Returns
    -------
    ndarray

    Raises
    ------
    InvalidInput
        On an argument out of range, or a function that is unknown.
    """
    return gain_unbounded_step(**_law(sigma, sigma_star, lam, psi1, psi2, sigma_eps, centred))


def _step(
    sigma: str | ScalarFunction,
    sigma_star: str | ScalarFunction,
    eta: ArrayLike,
    lam: ArrayLike,
    psi1: ArrayLike,
    psi2: ArrayLike,
    sigma_eps: ArrayLike,
    N: ArrayLike | None,
    centred: bool,
) -> SmallStep:
    law = _law(sigma, sigma_star, lam, psi1, psi2, sigma_eps, centred)
    return small_step(**law, step_size=eta, width=N)


def _law(
    sigma: str | ScalarFunction,
    sigma_star: str | ScalarFunction,
    lam: ArrayLike,
    psi1: ArrayLike,
    psi2: ArrayLike,
    sigma_eps: ArrayLike,
    centred: bool,
) -> dict[str, ArrayLike]:
    """Return the arguments of the theory's functions by the theory's names."""
    values = coefficients(sigma, sigma_star, centred=centred)
    return {
        "sample_ratio": psi1,
        "width_ratio": psi2,
        "penalty": lam,
        "activation_linear": values.mu1,
        "activation_nonlinear": values.mu2_squared,
        "teacher_linear": values.mu1_star,
        "teacher_unlearned": values.unlearned,
        "teacher_second_moment": values.second_moment,
        "noise": sigma_eps,
    }


def kernel_lower_bound(sigma_star: str | ScalarFunction) -> float:
    r"""The floor :math:`\|P_{>1}f^*\|^2=\mu_2^{*2}` of (3.3) and Fact 4, below which no fixed kernel gets.

    Parameters
    ----------
    sigma_star : str or ScalarFunction

    Returns
    -------
    float

    Raises
    ------
    InvalidInput
        On an argument out of range, or a function that is unknown.
    """
    return coefficients(sigma_star, sigma_star).mu2_star_squared
