r"""The Gaussian equivalent of (4.1) at given weights: its ridge risk for any first layer, trained or not.

Theorem 3 says that after a step with :math:`\eta=\Theta(1)` the network's risk is that of the features
:math:`\mu_1W^\top x+\mu_2z`. For these the risk given the weights is known at every :math:`W`, so that the equivalence
can be tested where no limit is known: after a large step, or after many steps (Appendix A.1).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gradstep.checks import nonnegative, positive
from gradstep.errors import NotConverged
from gradstep.gaussian import moments
from gradstep.papers.ba2022.coefficients import Coefficients
from gradstep.problem import Problem
from gradstep.simulation.instance import TEACHER_AXIS

__all__ = ["R_GE", "equivalent_risk"]

Array = NDArray[np.float64]

TOLERANCE = 1e-10
"""Largest relative residual of the effective ridge that is ever returned."""


def R_GE(
    values: Coefficients,
    W: Array,
    beta: Array,
    *,
    n: int,
    lam: float,
    sigma_eps: float = 0.0,
) -> float:
    r"""Risk :math:`\mathcal R_{GE}(\lambda)` of (4.1) given the weights, averaged over samples of size :math:`n`.

    The first layer ``W``, shape (d, N), has one neuron a column, and the teacher's direction ``beta``, shape (d,), is a
    unit vector. There are ``n`` samples of the ridge fit. The risk does not include the label noise, and is at least
    :math:`\|P_{>1}f^*\|^2` (Fact 4). Raises `InvalidInput` on a penalty or a number of samples that is not positive, or
    noise that is negative. Raises `NotConverged` if the effective ridge has a relative residual above 1e-10.

    Notes
    -----
    With the eigenvalues :math:`s_i` of :math:`WW^\top`, the squared overlaps :math:`o_i` of its eigenvectors with
    :math:`\beta_*`, the spectrum :math:`t=\mu_1^2s+\mu_2^2` of the features and :math:`q=\kappa+\mu_2^2`, the effective
    ridge solves :math:`\lambda=\kappa(1-\mathrm{df}_1/n)` with :math:`\mathrm{df}_k=\sum(t/(t+\kappa))^k` over all
    :math:`N` features, and

    .. math:: R+\sigma_\epsilon^2=\frac{\mu_2^{*2}+\sigma_\epsilon^2+\mu_1^{*2}\sum_i o_i\bigl[\mu_2^2/(\mu_1^2s_i+q)
              +\kappa q/(\mu_1^2s_i+q)^2\bigr]}{1-\mathrm{df}_2/n}

    up to relative fluctuations that vanish as the sizes grow (the deterministic equivalent of ridge regression with
    Gaussian features; the collapsed numerator is this project's).
    """
    penalty, samples = float(positive("lam", lam)), float(positive("n", n))
    noise = float(nonnegative("sigma_eps", sigma_eps)) ** 2
    d, N = W.shape
    s, vectors = np.linalg.eigh(W @ W.T)
    overlaps = (vectors.T @ beta) ** 2
    linear = values.mu1**2 * np.maximum(s, 0.0)

    def freedom(kappa: float, power: int) -> float:
        used = ((linear + values.mu2_squared) / (linear + values.mu2_squared + kappa)) ** power
        rest = (values.mu2_squared / (values.mu2_squared + kappa)) ** power
        return float(used.sum() + (N - d) * rest)

    def excess(kappa: float) -> float:
        return kappa * (1 - freedom(kappa, 1) / samples) - penalty

    trace = float(linear.sum() + N * values.mu2_squared)
    from scipy.optimize import brentq  # here: the app starts faster without

    kappa = float(brentq(excess, penalty, 2 * (penalty + trace / samples), xtol=1e-300, rtol=1e-14, maxiter=500))
    residual = abs(excess(kappa)) / kappa
    if not residual <= TOLERANCE:
        raise NotConverged("Gaussian equivalent", residual, TOLERANCE, "Use a larger penalty.")
    q = kappa + values.mu2_squared
    bias = (overlaps * (values.mu2_squared / (linear + q) + kappa / (linear + q) * (q / (linear + q)))).sum()
    numerator = values.unlearned + noise + values.mu1_star**2 * bias
    return float(numerator / (1 - freedom(kappa, 2) / samples) - noise)


def equivalent_risk(problem: Problem, weights: Array, readouts: Array) -> Array:
    r"""Return the exact risk on Gaussian equivalent features, shape (P,).

    .. math:: |\mu_1 W b-\mu_1^*\beta_*|^2+\mu_2^2|b|^2+\|P_{>1}f^*\|^2 ,

    plus the square of the teacher's mean, of which the linear features have none.
    """
    student, target = moments(problem.activation), moments(problem.link)
    linear = student.linear * (weights.T @ readouts)
    linear[TEACHER_AXIS] -= target.linear
    unlearned = target.nonlinear_second_moment + target.mean**2
    spread = student.nonlinear_second_moment * (readouts**2).sum(axis=0)
    return np.asarray((linear**2).sum(axis=0) + spread + unlearned)
