r"""Ridge regression on random features at initialisation, (3.1), in the proportional limit.

The features :math:`\sigma(\langle w_i, x\rangle)` of :math:`N` random neurons are, for ridge regression,
equivalent to the noisy linear map :math:`\mu_1 W^\top x + \mu_2 z`. The training and the test error then follow
from one number, the effective ridge :math:`\kappa`, which solves a scalar equation. The penalty :math:`\lambda` is
that of (4.1),

.. math:: \min_b \frac1n \sum_\mu \Big(y_\mu - \sum_i b_i \sigma(\langle w_i, x_\mu\rangle)\Big)^2
          + \lambda |b|^2 ,

on the raw features: :math:`\Lambda/n` in the package's convention. Test errors are measured against the noiseless
teacher. The derivation is on the page "Random features" of the docs. The errors are those of S. Mei and
A. Montanari, "The generalization error of random features regression", CPAM 75 (2022).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradstep.checks import finite, nonnegative, positive
from gradstep.errors import InvalidInput, NotConverged
from gradstep.papers.ba2022.coefficients import Coefficients

__all__ = ["RandomFeatures", "bulk_resolvent", "random_features"]

Array = NDArray[np.float64]

TOLERANCE = 1e-10
"""Largest relative residual of the self-consistent equations that is ever returned."""

MAXIMUM_ITERATIONS = 200
#: Largest defect of the branch and of the slopes (rounding leaves some 1e-16).
_SLOPES = 1e-9


@dataclass(frozen=True)
class RandomFeatures:
    r"""Solution of the equations of random features; every field has the broadcast shape of the arguments.

    Attributes
    ----------
    kappa : ndarray
        Effective ridge :math:`\kappa \ge \lambda`.
    kappa_slope : ndarray
        :math:`d\kappa/d\lambda = (1 - \mathrm{df}_2/n)^{-1} \ge 1`.
    q : ndarray
        :math:`\kappa + \mu_2^2`.
    g, g_slope : ndarray
        :math:`g(q) = \lim \frac1d \mathrm{Tr}(\mu_1^2 W W^\top + q)^{-1}` and :math:`g'(q)`.
    m1, m2 : ndarray
        :math:`\lim \frac1n\mathrm{Tr}\,R` and :math:`\lim\frac1{nd}\mathrm{Tr}\,X^\top R X`, with
        :math:`R=(\Phi\Phi^\top+\zeta)^{-1}`, :math:`\Phi=\sigma(XW)/\sqrt N` and :math:`\zeta=\lambda n/N`.
    m1_slope, m2_slope : ndarray
        Their derivatives with respect to :math:`\zeta`.
    test_error : ndarray
        :math:`\mathcal R_0=E(\hat f - f^*)^2`, no label noise.
    train_error : ndarray
        Mean squared residual on the training set.
    train_loss : ndarray
        ``train_error`` plus the penalty: the minimum of the objective.
    degrees_of_freedom_per_sample : ndarray
        Trace of the ridge hat matrix divided by :math:`n`.
    residual : ndarray
        True relative residual of the self-consistent equations, at most 1e-10.
    """

    kappa: Array
    kappa_slope: Array
    q: Array
    g: Array
    g_slope: Array
    m1: Array
    m2: Array
    m1_slope: Array
    m2_slope: Array
    test_error: Array
    train_error: Array
    train_loss: Array
    degrees_of_freedom_per_sample: Array
    residual: Array


def bulk_resolvent(q: Array, mu1_squared: Array, psi2: Array) -> tuple[Array, Array]:
    r"""Marchenko-Pastur resolvent :math:`g(q)=\lim\frac1d\mathrm{Tr}(\mu_1^2WW^\top+q)^{-1}`, and :math:`g'(q)`.

    The positive root of :math:`\mu_1^2 q g^2 + (q + \mu_1^2(\psi_2 - 1)) g = 1`, written without cancellation.

    Docs, "Random features", equations (R3) and (R4).
    """
    linear = q + mu1_squared * (psi2 - 1)
    discriminant = np.sqrt(linear**2 + 4 * mu1_squared * q)
    # Each of the two forms of the root would cancel on the other sign of `linear`.
    total = discriminant + np.abs(linear)
    g = np.where(linear >= 0, 2 / total, total / np.where(mu1_squared > 0, 2 * mu1_squared * q, 1.0))
    return g, -g * (1 + mu1_squared * g) / discriminant


def _used_fraction(kappa: Array, mu1_squared: Array, mu2_squared: Array, psi2: Array) -> tuple[Array, Array]:
    r"""Fraction :math:`F = \mathrm{df}_1/N` of the features in use at effective ridge kappa, and :math:`dF/d\kappa`.

    :math:`F = (\mu_2^2 + \kappa h)/q` with :math:`h = \mu_1^2 g/(1+\mu_1^2 g)`; both terms of the derivative are
    negative, so nothing cancels.

    Docs, "Random features", equation (R3).
    """
    q = kappa + mu2_squared
    g, g_slope = bulk_resolvent(q, mu1_squared, psi2)
    denominator = 1 + mu1_squared * g
    h = mu1_squared * g / denominator
    h_slope = mu1_squared * g_slope / denominator**2
    fraction = (mu2_squared + kappa * h) / q
    slope = h_slope * kappa / q - mu2_squared / (denominator * q**2)
    return fraction, slope


def _effective_ridge(lam: Array, mu1_squared: Array, mu2_squared: Array, psi1: Array, psi2: Array) -> Array:
    r"""Solve :math:`\lambda = \kappa(1 - \mathrm{df}_1(\kappa)/n)` by Newton from above.

    :math:`\lambda(\kappa)` is increasing and convex to the right of the root and the starting point is an upper bound,
    so that the iterates decrease to the root.

    Docs, "Random features", equation (R2).
    """
    aspect = psi2 / psi1
    kappa = lam + aspect * (mu1_squared + mu2_squared)
    for _ in range(MAXIMUM_ITERATIONS):
        fraction, slope = _used_fraction(kappa, mu1_squared, mu2_squared, psi2)
        excess = kappa * (1 - aspect * fraction) - lam
        step = excess / (1 - aspect * (fraction + kappa * slope))
        # The root is never below the penalty; close to it the sign of the step is only due to rounding.
        updated = np.maximum(kappa - step, np.maximum(lam, 0.01 * kappa))
        done = np.abs(updated - kappa) <= 4e-16 * kappa
        kappa = updated
        if done.all():
            break
    return kappa


def random_features(
    values: Coefficients, *, lam: ArrayLike, psi1: ArrayLike, psi2: ArrayLike, sigma_eps: ArrayLike = 0.0
) -> RandomFeatures:
    r"""Test and training error of random features at initialisation.

    The coefficients are those of :func:`~gradstep.papers.ba2022.coefficients`, and :math:`\lambda`, :math:`\psi_1` and
    :math:`\psi_2` are positive. Raises `InvalidInput` if a ratio or the penalty is not positive, a second moment is
    negative, or the activation is constant. Raises `NotConverged` if the true residual is above 1e-10.

    Docs, "Random features", equation (R5).

    Notes
    -----
    With :math:`\rho = n/N`, :math:`s=1/(1+\rho u)` and :math:`u=\mu_2^2 m_1+\mu_1^2 m_2` the equations are
    :math:`m_2 (1+s\mu_1^2\psi_1 m_1) = m_1` and :math:`\zeta m_1+su=1`, equivalent to the scalar one for
    :math:`\kappa = 1/(\rho m_1)`. The errors are

    .. math:: R_0 = \frac{d\kappa}{d\lambda}\big[\mu_2^{*2}+\sigma_\epsilon^2
              + \mu_1^{*2}(\mu_2^2 g - \kappa q g')\big] - \sigma_\epsilon^2, \qquad
              E_{train} = (\lambda/\kappa)^2 (R_0 + \sigma_\epsilon^2) .

    Examples
    --------
    >>> from gradstep.papers.ba2022 import coefficients
    >>> result = random_features(coefficients("tanh", "softplus"), lam=1e-4, psi1=5, psi2=2, sigma_eps=0.25)
    >>> round(float(result.test_error), 3)
    0.104
    """
    psi1, psi2, lam, mu1, mu2_squared, mu1_star, unlearned, sigma_eps = np.broadcast_arrays(
        positive("psi1", psi1),
        positive("psi2", psi2),
        positive("lam", lam),
        finite("mu1", values.mu1),
        nonnegative("mu2_squared", values.mu2_squared),
        finite("mu1_star", values.mu1_star),
        nonnegative("mu2_star_squared", values.unlearned),
        nonnegative("sigma_eps", sigma_eps),
    )
    mu1_squared = mu1**2
    if not (mu1_squared + mu2_squared > 0).all():
        raise InvalidInput("sigma", "a constant", "an activation of non-zero variance")

    kappa = _effective_ridge(lam, mu1_squared, mu2_squared, psi1, psi2)
    q = kappa + mu2_squared
    g, g_slope = bulk_resolvent(q, mu1_squared, psi2)
    fraction, fraction_slope = _used_fraction(kappa, mu1_squared, mu2_squared, psi2)
    aspect = psi2 / psi1
    kept = lam / kappa  # 1 - df1/n on shell
    kappa_slope = 1 / (kept - kappa * aspect * fraction_slope)

    rho = psi1 / psi2
    m1 = 1 / (rho * kappa)
    m2 = m1 * q * g
    bias = mu2_squared * g - kappa * q * g_slope
    slopes = (-(m1**2) * kappa_slope, -(m1**2) * kappa_slope * bias)
    residual, defect = _missed((m1, m2), slopes, q * g, lam * rho, rho, psi1, mu1_squared, mu2_squared)
    advice = "Ratios and penalties between 1e-10 and 1e10 are supported; rescale the problem."
    if not (residual <= TOLERANCE).all():
        raise NotConverged("random features", float(np.max(residual)), TOLERANCE, advice)
    if not (defect <= _SLOPES).all():
        reason = "has another branch of its equations, or slopes that are not theirs"
        raise NotConverged("random features", float(np.max(defect)), _SLOPES, advice, reason)
    noise_variance = sigma_eps**2
    # kappa_slope - 1 = df2/(n - df2), so that no noise variance is added and subtracted again.
    inflation = aspect * (fraction + kappa * fraction_slope) * kappa_slope
    test_error = unlearned + inflation * (unlearned + noise_variance) + kappa_slope * mu1_star**2 * bias
    return RandomFeatures(
        kappa=kappa,
        kappa_slope=kappa_slope,
        q=q,
        g=g,
        g_slope=g_slope,
        m1=m1,
        m2=m2,
        m1_slope=slopes[0],
        m2_slope=slopes[1],
        test_error=test_error,
        train_error=kept**2 * (test_error + noise_variance),
        train_loss=kept * (unlearned + noise_variance + mu1_star**2 * q * g),
        degrees_of_freedom_per_sample=aspect * fraction,
        residual=residual,
    )


def _missed(
    values: tuple[Array, Array],
    slopes: tuple[Array, Array],
    left: Array,
    zeta: Array,
    rho: Array,
    psi1: Array,
    mu1_squared: Array,
    mu2_squared: Array,
) -> tuple[Array, Array]:
    """Return the residual of the equations, and how far the solution is from their right branch and from their slopes.

    The errors depend on the slopes in the penalty, which the residual does not check. The wrong root of the bulk's
    resolvent solves all equations: the share `left` of a direction that is not fitted is then negative.
    """
    (m1, m2), (d1, d2) = values, slopes
    u, du = mu2_squared * m1 + mu1_squared * m2, mu2_squared * d1 + mu1_squared * d2
    s = 1 / (1 + rho * u)
    residual = np.maximum(np.abs(m2 * (1 + s * mu1_squared * psi1 * m1) / m1 - 1), np.abs(zeta * m1 + s * u - 1))
    # Derivatives of both equations in zeta, over their largest terms.
    first = (d2 * (1 + s * mu1_squared * psi1 * m1), m2 * mu1_squared * psi1 * (s * d1 - rho * s**2 * du * m1), -d1)
    second = (m1, zeta * d1, s**2 * du)
    parts = [np.abs(sum(terms)) / sum(np.abs(term) for term in terms) for terms in (first, second)]
    return np.asarray(residual), np.asarray(np.max([*parts, -left, left - 1, d1 / m1], axis=0))
