r"""The rank-one gradient of Proposition 2 and the outlier of :math:`W_1` for :math:`\eta=\Theta(1)`."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradstep.gaussian.functions import ScalarFunction
from gradstep.papers.ba2022.coefficients import coefficients
from gradstep.papers.notation import in_ba2022
from gradstep.theory.arguments import nonnegative
from gradstep.theory.small_step import SpikeSpectrum, gradient_norm_squared, spike_spectrum

__all__ = ["outlier", "theta", "threshold"]

Array = NDArray[np.float64]


@in_ba2022
def theta(
    sigma_star: str | ScalarFunction, *, psi1: ArrayLike, sigma_eps: ArrayLike = 0.0, centred: bool = True
) -> Array:
    r"""Limit of :math:`|X^\top y|/n`, so that :math:`\sqrt N|G_0|\to|\mu_1|\theta` (Proposition 2).

    Parameters
    ----------
    sigma_star : str or ScalarFunction
        Teacher.
    psi1, sigma_eps : array_like
        :math:`n/d` and the standard deviation of the label noise.
    centred : bool
        See :func:`~gradstep.papers.ba2022.coefficients`.

    Returns
    -------
    ndarray

    Raises
    ------
    InvalidInput
        On an argument out of range, or a function that is unknown.
    """
    values = coefficients(sigma_star, sigma_star, centred=centred)
    variance = values.second_moment + np.square(nonnegative("sigma_eps", sigma_eps))
    return np.asarray(np.sqrt(gradient_norm_squared(values.mu1_star, variance, psi1)))


@in_ba2022
def outlier(
    sigma: str | ScalarFunction,
    sigma_star: str | ScalarFunction,
    *,
    eta: ArrayLike,
    psi1: ArrayLike,
    psi2: ArrayLike,
    sigma_eps: ArrayLike = 0.0,
    N: ArrayLike | None = None,
    centred: bool = True,
) -> SpikeSpectrum:
    r"""Largest singular value of :math:`W_1` and the overlaps of its singular vectors.

    Parameters
    ----------
    sigma, sigma_star : str or ScalarFunction
        Activation and teacher.
    eta, psi1, psi2, sigma_eps, N, centred
        As in :func:`~gradstep.papers.ba2022.R_1`.

    Returns
    -------
    SpikeSpectrum

    Raises
    ------
    InvalidInput
        On an argument out of range, or a function that is unknown.
    """
    values = coefficients(sigma, sigma_star, centred=centred)
    return spike_spectrum(
        width_ratio=psi2,
        step_size=eta,
        activation_linear=values.mu1,
        teacher_linear=values.mu1_star,
        gradient_norm_squared=theta(sigma_star, psi1=psi1, sigma_eps=sigma_eps, centred=centred) ** 2,
        width=N,
    )


@in_ba2022
def threshold(
    sigma: str | ScalarFunction,
    sigma_star: str | ScalarFunction,
    *,
    psi1: ArrayLike,
    psi2: ArrayLike,
    sigma_eps: ArrayLike = 0.0,
    centred: bool = True,
) -> Array:
    r"""Learning rate :math:`\eta_c=\psi_2^{1/4}/(|\mu_1|\theta)` above which :math:`W_1` has an outlier.

    Parameters
    ----------
    sigma, sigma_star, psi1, psi2, sigma_eps, centred
        As in :func:`outlier`.

    Returns
    -------
    ndarray

    Raises
    ------
    InvalidInput
        On an argument out of range, or a function that is unknown.
    """
    return outlier(sigma, sigma_star, eta=0.0, psi1=psi1, psi2=psi2, sigma_eps=sigma_eps, centred=centred).threshold
