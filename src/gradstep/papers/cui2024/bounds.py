"""What can be learned with a single step: the baseline, the best penalty, and the bounds (26), (27) and (28)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradstep.gaussian import ScalarFunction, scalar_function, smoothed
from gradstep.papers.cui2024.spiked import equivalent_features
from gradstep.papers.notation import in_cui2024
from gradstep.theory import bounds as theory
from gradstep.theory.large_step import solve
from gradstep.theory.minimise import Axis, minimise
from gradstep.theory.spiked_features import Spike

__all__ = [
    "BestPenalty",
    "Realised",
    "best_linear",
    "best_lower_bound",
    "best_penalty",
    "best_upper_bound",
    "lower_bound",
    "realised_functions",
    "upper_bound",
]

Array = NDArray[np.float64]

#: Logarithms of the penalties searched, two a decade: from next to none to as good as infinite.
_PENALTIES = Axis(np.log(np.geomspace(1e-6, 1e8, 29)), spacing=0.05)


def best_linear(sigma_star: str | ScalarFunction) -> float:
    """Error of the best linear estimator (section 4.2).

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

    Raises
    ------
    InvalidInput
        On an argument out of range, or a function that is unknown.
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

    Raises
    ------
    InvalidInput
        On an argument out of range, or a function that is unknown.
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

    Raises
    ------
    InvalidInput
        On an argument out of range, or a function that is unknown.
    NotConverged
        If the equations are not solved.
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

    Raises
    ------
    InvalidInput
        On an argument out of range, or a function that is unknown.
    NotConverged
        If the equations are not solved.
    """
    return theory.best_step(sigma, sigma_star, bound="lower")


class BestPenalty(NamedTuple):
    r"""The penalty of least test error.

    Attributes
    ----------
    lam : float
        :math:`\lambda`; infinite where no finite penalty is better than the upper bound (26).
    test_error : float
        There.
    """

    lam: float
    test_error: float


@in_cui2024
def best_penalty(
    sigma: str | ScalarFunction,
    sigma_star: str | ScalarFunction,
    *,
    r: float,
    c: float = 1.0,
    gamma: float = 1.0,
    alpha: float,
    beta: float = 1.0,
    sigma_eps: float = 0.0,
) -> BestPenalty:
    r"""Minimise the test error (25) over the penalty: the error that (26) and (27) bracket.

    Parameters
    ----------
    sigma, sigma_star : str or ScalarFunction
        Activation and teacher.
    r, c, gamma : float
        Spike strength, bulk variance and alignment.
    alpha, beta, sigma_eps : float
        As in :func:`~gradstep.papers.cui2024.summary_statistics`.

    Returns
    -------
    BestPenalty

    Raises
    ------
    NotConverged
        If the minimum cannot be certified (:func:`gradstep.theory.minimise.minimise`).

    Notes
    -----
    Penalties from :math:`10^{-6}` to :math:`10^8` are searched, where a fit is as good as one without a penalty, and as
    one with an infinite penalty.
    """
    table = equivalent_features(sigma, sigma_star, r=r, c=c, gamma=gamma)
    spike = Spike(*(np.asarray(value, dtype=np.float64) for value in (r, c, gamma)))

    def error(logarithm: Array) -> Array:
        return solve(
            table,
            spike,
            sample_ratio=alpha,
            width_ratio=beta,
            penalty=np.exp(logarithm[:, 0]),
            noise=sigma_eps,
        ).test_error

    found = minimise(error, [_PENALTIES])
    if found.bounds[0] == "upper":
        return BestPenalty(np.inf, float(theory.upper_bound(table)))
    return BestPenalty(float(np.exp(found.point[0])), found.value)


class Realised(NamedTuple):
    r"""Functions of the projection on the spike that realise the bounds (Figure 3).

    Attributes
    ----------
    upper : ndarray
        The best multiple of :math:`\mu_0`: what is learned at infinite penalty, (165).
    lower : ndarray
        The best function of the span of :math:`\mu_0` and :math:`\kappa\mu_1`.
    """

    upper: Array
    lower: Array


def realised_functions(
    sigma: str | ScalarFunction,
    sigma_star: str | ScalarFunction,
    *,
    r: float,
    kappa: ArrayLike,
    c: float = 1.0,
    gamma: float = 1.0,
) -> Realised:
    """Return the functions that realise (26) and (27).

    Parameters
    ----------
    sigma, sigma_star : str or ScalarFunction
        Activation and teacher.
    r, c, gamma : float
        Spike strength, bulk variance and alignment.
    kappa : array_like
        Projections.

    Returns
    -------
    Realised
        Of the shape of ``kappa``.

    Raises
    ------
    InvalidInput
        On an argument out of range, or a function that is unknown.
    """
    table = equivalent_features(sigma, sigma_star, r=r, c=c, gamma=gamma)
    root = np.sqrt(table.weights)
    basis = np.stack([table.mean, table.nodes * table.slope / np.sqrt(c)], axis=1)
    weighted, target = root[:, None] * basis, root * table.teacher_mean
    # Least squares of smallest norm: without a spike, or for a linear activation, the two functions are dependent.
    first = np.linalg.lstsq(weighted[:, :1], target, rcond=1e-12)[0]
    both = np.linalg.lstsq(weighted, target, rcond=1e-12)[0]
    points = np.asarray(kappa, dtype=np.float64)
    features = smoothed(scalar_function(sigma), r * points, np.sqrt(c))
    tilt = points * features.slope / np.sqrt(c)
    return Realised(first[0] * features.mean, both[0] * features.mean + both[1] * tilt)
