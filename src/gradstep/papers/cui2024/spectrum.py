"""Spectrum of the features' empirical covariance: appendix F, equations (173) to (191)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradstep.checks import nonnegative, positive
from gradstep.errors import InvalidInput
from gradstep.gaussian.functions import ScalarFunction, scalar_function
from gradstep.gaussian.smoothing import hermite_smoothed
from gradstep.papers.cui2024.spiked import equivalent_features
from gradstep.theory.equivalent.features import conditional_features
from gradstep.theory.neurons.groups import Groups
from gradstep.theory.spectra.feature_equations import FeatureEquations
from gradstep.theory.spectra.stieltjes import Law, find_law

__all__ = ["outlier", "spectral_law"]

Array = NDArray[np.float64]


def spectral_law(
    sigma: str | ScalarFunction,
    sigma_star: str | ScalarFunction,
    *,
    r: float,
    c: float,
    gamma: float,
    alpha: float,
    beta: float = 1.0,
) -> Law:
    r"""Limiting law of the eigenvalues of :math:`\Phi^\top\Phi/n`, from the Stieltjes transform (190).

    The spike is as in `equivalent_features`, and the law does not depend on the teacher. Its single outlier, of order
    :math:`p`, is `outlier`.

    Notes
    -----
    The paper has :math:`p=d`; any width ratio is of this project. With :math:`\lambda\to-z` the saddle point is

    .. math:: V_2=\Big[-z+\hat V_2+\frac{c\hat V_1}{1+\beta c\hat V_1V_2}\Big]^{-1},\quad
              V_1=\frac{cV_2}{1+\beta c\hat V_1V_2},\quad
              \hat V_j=\frac\alpha\beta E\frac{\mu_j^2}{1+\mu_1^2V_1+\mu_2^2V_2},

    and :math:`V_2` the transform of :math:`\Phi^\top\Phi/p`.
    """
    one, zero, alpha, beta = np.ones(1), np.zeros(1), float(positive("alpha", alpha)), float(positive("beta", beta))
    r, c = float(nonnegative("r", r)), float(positive("c", c))
    table = conditional_features(
        scalar_function(sigma),
        scalar_function(sigma_star),
        Groups(one, r * one, c * one, zero, one, one, zero, zero, zero, one, zero, zero, one, one, zero),
        gamma,
    )
    equations = FeatureEquations(
        table.kappa, table.mean, table.slope, table.variance, table.weight, beta * one, 1.0, alpha
    )
    return find_law(equations)


def outlier(
    sigma: str | ScalarFunction,
    sigma_star: str | ScalarFunction,
    *,
    r: float,
    c: float,
    gamma: float,
    p: ArrayLike,
    n: ArrayLike,
    d: ArrayLike,
    published: bool = False,
) -> Array:
    r"""Outlier of :math:`\Phi^\top\Phi/n`, with its terms of order one, or (191) as published.

    The spike is as in `spectral_law`, with the width ``p``, ``n`` samples and the input dimension ``d``. With
    `published` it is :math:`p\,E\mu_0^2`, the leading order (191).

    Docs, "Spectra", equation (Z4).

    Notes
    -----
    The bulk of the rows, their projections on the spike (of variance :math:`c/d`) and the finite sample all shift it:

    .. math:: z=p\,E\mu_0^2+E\tau+\frac pn\frac{E\mu_0^2\tau}{E\mu_0^2}
              +\frac pd\Big(c\frac{(E\mu_0\mu_1\kappa)^2}{E\mu_0^2}
              +E\big[\mu_0\kappa^2(\zeta^2-1)\sigma(r\kappa+\sqrt c\zeta)\big]\Big),\qquad \tau=c\mu_1^2+\mu_2^2 .

    This project.
    """
    table = equivalent_features(sigma, sigma_star, r=r, c=c, gamma=gamma)
    p, n, d = positive("p", p), positive("n", n, infinite=True), positive("d", d, infinite=True)
    square, noise = table.mean**2, table.slope**2 + table.variance
    size = float(table.weights @ square)
    if size == 0:
        raise InvalidInput("r", r, "a spike along which the features have a mean: without there is no outlier")
    if published:
        return np.asarray(p * size)
    curvature = (
        math.sqrt(2)
        * hermite_smoothed(scalar_function(sigma), r * table.nodes, np.full_like(table.nodes, math.sqrt(c)), 2)[2]
    )
    from_samples = table.weights @ (square * noise) / size
    projected = (table.weights @ (table.mean * table.nodes * table.slope)) ** 2 / size
    projected += table.weights @ (table.mean * table.nodes**2 * curvature)
    return np.asarray(p * size + table.weights @ noise + p / n * from_samples + p / d * projected)
