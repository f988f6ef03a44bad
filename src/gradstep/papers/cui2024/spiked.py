"""The spiked random features model of a network: Results 3.1 and 3.2."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from gradstep.gaussian.functions import ScalarFunction
from gradstep.papers.notation import in_cui2024
from gradstep.theory.spiked_features import ConditionalMoments, Spike, conditional_moments, spike

__all__ = ["equivalent_features", "equivalent_srf"]


@in_cui2024
def equivalent_srf(
    sigma: str | ScalarFunction,
    sigma_star: str | ScalarFunction,
    *,
    eta_tilde: ArrayLike,
    alpha0: ArrayLike,
    sigma_eps: ArrayLike = 0.0,
) -> Spike:
    r"""Strength :math:`r`, bulk variance :math:`c` and alignment :math:`\gamma` (Result 3.1, (9) to (12)).

    Parameters
    ----------
    sigma, sigma_star : str or ScalarFunction
        Activation and teacher.
    eta_tilde : array_like
        Step :math:`\tilde\eta`, as ``step_size`` of :mod:`gradstep.theory.large_step`.
    alpha0 : array_like
        :math:`n_0/d`; ``inf`` for the population gradient, 0 for no step.
    sigma_eps : array_like
        Standard deviation of the label noise.

    Returns
    -------
    Spike

    Raises
    ------
    InvalidInput
        On an argument out of range, or a function that is unknown.
    """
    return spike(sigma, sigma_star, step_size=eta_tilde, step_sample_ratio=alpha0, noise=sigma_eps)


@in_cui2024
def equivalent_features(
    sigma: str | ScalarFunction,
    sigma_star: str | ScalarFunction,
    *,
    r: ArrayLike,
    c: ArrayLike,
    gamma: ArrayLike,
    b: ArrayLike = 0.0,
) -> ConditionalMoments:
    r"""Functions :math:`\mu_0,\mu_1,\mu_2` of :math:`\kappa` on a quadrature (Result 3.2, (15); (131) with a bias).

    Parameters
    ----------
    sigma, sigma_star : str or ScalarFunction
        Activation and teacher.
    r, c, gamma : array_like
        Spike strength, bulk variance and alignment.
    b : array_like
        Bias common to all neurons (appendix C.8).

    Returns
    -------
    ConditionalMoments
        ``slope`` is :math:`\sqrt c\,\mu_1` and ``variance`` is :math:`\mu_2^2`.

    Raises
    ------
    InvalidInput
        On an argument out of range, or a function that is unknown.
    """
    model = Spike(*(np.asarray(value, dtype=np.float64) for value in (r, c, gamma)))
    return conditional_moments(sigma, sigma_star, model, bias=b)
