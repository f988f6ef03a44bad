"""What can be learned with a single step: the baseline and the bounds (26), (27) and (28)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradstep.gaussian.functions import ScalarFunction
from gradstep.papers.cui2024.spiked import equivalent_features
from gradstep.theory import large_step as theory

__all__ = ["best_linear", "best_lower_bound", "best_upper_bound", "lower_bound", "upper_bound"]

Array = NDArray[np.float64]


def best_linear(sigma_star: str | ScalarFunction) -> float:
    """Error of the best linear estimator (section 4.2).

    Parameters
    ----------
    sigma_star : str or ScalarFunction

    Returns
    -------
    float
    """
    return theory.best_linear_error(sigma_star)


def upper_bound(
    sigma: str | ScalarFunction,
    sigma_star: str | ScalarFunction,
    *,
    r: ArrayLike,
    c: ArrayLike = 1.0,
    gamma: ArrayLike = 1.0,
) -> Array:
    r"""Upper bound (26) on the test error at the best :math:`\lambda`, at any alignment.

    Parameters
    ----------
    sigma, sigma_star : str or ScalarFunction
        Activation and teacher.
    r, c, gamma : array_like
        Spike strength, bulk variance and alignment.

    Returns
    -------
    ndarray
    """
    return theory.upper_bound(equivalent_features(sigma, sigma_star, r=r, c=c, gamma=gamma))


def lower_bound(
    sigma: str | ScalarFunction,
    sigma_star: str | ScalarFunction,
    *,
    r: ArrayLike,
    c: ArrayLike = 1.0,
    gamma: ArrayLike = 1.0,
    b: ArrayLike = 0.0,
) -> Array:
    r"""Lower bound (27) on the test error, at any alignment; with a given bias the inner part of (132).

    Parameters
    ----------
    sigma, sigma_star : str or ScalarFunction
        Activation and teacher.
    r, c, gamma : array_like
        Spike strength, bulk variance and alignment.
    b : array_like
        Bias common to all neurons.

    Returns
    -------
    ndarray
    """
    return theory.lower_bound(equivalent_features(sigma, sigma_star, r=r, c=c, gamma=gamma, b=b))


def best_upper_bound(sigma: str | ScalarFunction, sigma_star: str | ScalarFunction) -> theory.BestStep:
    """Upper bound of (28): (26) at the best step size and with a population gradient.

    Parameters
    ----------
    sigma, sigma_star : str or ScalarFunction

    Returns
    -------
    BestStep
    """
    return theory.best_step(sigma, sigma_star, bound="upper")


def best_lower_bound(sigma: str | ScalarFunction, sigma_star: str | ScalarFunction) -> theory.BestStep:
    """Lower bound of (28): (27) at the best step size and with a population gradient.

    Parameters
    ----------
    sigma, sigma_star : str or ScalarFunction

    Returns
    -------
    BestStep
    """
    return theory.best_step(sigma, sigma_star, bound="lower")
