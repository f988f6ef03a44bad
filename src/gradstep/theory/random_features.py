r"""Ridge regression on random features at initialisation, in the proportional limit.

The features :math:`\sigma(\langle w_i, x\rangle)` of :math:`N` random neurons are, for ridge regression,
equivalent to the noisy linear map :math:`\mu_1 W^\top x + \mu_2 z`. The training and the test error then follow
from one number, the effective ridge :math:`\kappa`, which solves a scalar equation.

Conventions
-----------
Ratios are ``sample_ratio`` :math:`\psi_1 = n/d` and ``width_ratio`` :math:`\psi_2 = N/d`. ``penalty`` is
:math:`\lambda` of

.. math:: \min_b \frac1n \sum_\mu \Big(y_\mu - \sum_i b_i \sigma(\langle w_i, x_\mu\rangle)\Big)^2
          + \lambda |b|^2 ,

on the raw features, that is :math:`\Lambda/n` in the package's canonical convention and :math:`\lambda` of Ba et al.
2022. Test errors are measured against the noiseless teacher.

References
----------
.. [1] J. Ba, M. A. Erdogdu, T. Suzuki, Z. Wang, D. Wu, G. Yang, "High-dimensional asymptotics of feature learning:
       how one gradient step improves the representation", NeurIPS 2022. Features (3.1), risk (4.1).
.. [2] S. Mei, A. Montanari, "The generalization error of random features regression", CPAM 75 (2022).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradstep.errors import InvalidInput, NotConverged
from gradstep.gaussian.functions import ScalarFunction, scalar_function
from gradstep.gaussian.moments import moments
from gradstep.theory.arguments import finite, nonnegative, positive

__all__ = [
    "EquivalentMoments",
    "RandomFeatures",
    "bulk_resolvent",
    "equivalent_moments",
    "random_features",
    "random_features_of",
]

Array = NDArray[np.float64]

TOLERANCE = 1e-10
"""Largest relative residual of the self-consistent equations that is ever returned."""

MAXIMUM_ITERATIONS = 200


@dataclass(frozen=True)
class EquivalentMoments:
    r"""The Gaussian moments that the linear equivalent of a network keeps.

    Attributes
    ----------
    activation_linear : ndarray
        :math:`\mu_1 = E z\sigma(z)`.
    activation_nonlinear : ndarray
        :math:`\mu_2^2 = E\sigma^2 - (E\sigma)^2 - \mu_1^2`.
    teacher_linear : ndarray
        :math:`\mu_1^* = E z\sigma_*(z)`.
    teacher_unlearned : ndarray
        The part of :math:`E\sigma_*^2` that no linear equivalent can fit: :math:`\mu_2^{*2}`, plus :math:`\mu_0^{*2}`
        when the activation has mean zero and the network has therefore no constant to offer.
    teacher_second_moment : ndarray
        :math:`E\sigma_*^2`, mean included: what the labels of the gradient step carry.
    """

    activation_linear: Array
    activation_nonlinear: Array
    teacher_linear: Array
    teacher_unlearned: Array
    teacher_second_moment: Array


def equivalent_moments(
    activation: str | ScalarFunction,
    teacher: str | ScalarFunction,
) -> EquivalentMoments:
    r"""Moments of an activation and a teacher for the linear equivalent.

    Parameters
    ----------
    activation, teacher : str or ScalarFunction
        Anything :func:`gradstep.gaussian.functions.scalar_function` accepts.

    Returns
    -------
    EquivalentMoments

    Notes
    -----
    An activation of non-zero mean adds the constant feature :math:`\mu_0`, whose fit costs nothing in the limit, so the
    mean of the teacher is learned. With an activation of mean zero it is not, and acts like one more nonlinear
    component; this is exact for odd activations and for weights of equal norm.
    """
    student = moments(scalar_function(activation))
    target = moments(scalar_function(teacher))
    unlearned = float(target.nonlinear_second_moment)
    if abs(float(student.mean)) <= 1e-9 * np.sqrt(float(student.second_moment)):
        unlearned += float(target.mean) ** 2
    return EquivalentMoments(
        activation_linear=np.asarray(student.linear, dtype=np.float64),
        activation_nonlinear=np.asarray(student.nonlinear_second_moment, dtype=np.float64),
        teacher_linear=np.asarray(target.linear, dtype=np.float64),
        teacher_unlearned=np.asarray(unlearned),
        teacher_second_moment=np.asarray(target.second_moment, dtype=np.float64),
    )


@dataclass(frozen=True)
class RandomFeatures:
    r"""Solution of the random-features equations; every field has the broadcast shape of the arguments.

    Attributes
    ----------
    effective_ridge : ndarray
        :math:`\kappa \ge \lambda`.
    effective_ridge_slope : ndarray
        :math:`d\kappa/d\lambda = (1 - \mathrm{df}_2/n)^{-1} \ge 1`.
    bulk_resolvent, bulk_resolvent_slope : ndarray
        :math:`g(q) = \lim \frac1d \mathrm{Tr}(\mu_1^2 W W^\top + q)^{-1}` and :math:`g'(q)` at ``shift``.
    shift : ndarray
        :math:`q = \kappa + \mu_2^2`.
    m1, m2 : ndarray
        :math:`\lim \frac1n\mathrm{Tr}\,R` and :math:`\lim\frac1{nd}\mathrm{Tr}\,X^\top R X`, with
        :math:`R=(\Phi\Phi^\top+\zeta)^{-1}`, :math:`\Phi=\sigma(XW)/\sqrt N` and :math:`\zeta=\lambda n/N`.
    m1_slope, m2_slope : ndarray
        Their derivatives with respect to :math:`\zeta`.
    test_error : ndarray
        :math:`E(\hat f - f^*)^2`, no label noise.
    train_error : ndarray
        Mean squared residual on the training set.
    train_loss : ndarray
        ``train_error`` plus the penalty: the minimum of the objective.
    degrees_of_freedom_per_sample : ndarray
        Trace of the ridge hat matrix divided by :math:`n`.
    residual : ndarray
        True relative residual of the self-consistent equations, at most 1e-10.
    """

    effective_ridge: Array
    effective_ridge_slope: Array
    bulk_resolvent: Array
    bulk_resolvent_slope: Array
    shift: Array
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
    """
    q = kappa + mu2_squared
    g, g_slope = bulk_resolvent(q, mu1_squared, psi2)
    denominator = 1 + mu1_squared * g
    h = mu1_squared * g / denominator
    h_slope = mu1_squared * g_slope / denominator**2
    fraction = (mu2_squared + kappa * h) / q
    slope = h_slope * kappa / q - mu2_squared / (denominator * q**2)
    return fraction, slope


def _effective_ridge(penalty: Array, mu1_squared: Array, mu2_squared: Array, psi1: Array, psi2: Array) -> Array:
    r"""Solve :math:`\lambda = \kappa(1 - \mathrm{df}_1(\kappa)/n)` by Newton from above.

    :math:`\lambda(\kappa)` is increasing and convex to the right of the root and the starting point is an upper bound,
    so that the iterates decrease to the root.
    """
    aspect = psi2 / psi1
    kappa = penalty + aspect * (mu1_squared + mu2_squared)
    for _ in range(MAXIMUM_ITERATIONS):
        fraction, slope = _used_fraction(kappa, mu1_squared, mu2_squared, psi2)
        excess = kappa * (1 - aspect * fraction) - penalty
        step = excess / (1 - aspect * (fraction + kappa * slope))
        # The root is never below the penalty; close to it rounding alone decides the sign of the step.
        updated = np.maximum(kappa - step, np.maximum(penalty, 0.01 * kappa))
        done = np.abs(updated - kappa) <= 4e-16 * kappa
        kappa = updated
        if done.all():
            break
    return kappa


def random_features(
    *,
    sample_ratio: ArrayLike,
    width_ratio: ArrayLike,
    penalty: ArrayLike,
    activation_linear: ArrayLike,
    activation_nonlinear: ArrayLike,
    teacher_linear: ArrayLike,
    teacher_unlearned: ArrayLike,
    noise: ArrayLike = 0.0,
) -> RandomFeatures:
    r"""Test and training error of random features at initialisation, from Gaussian moments.

    Parameters
    ----------
    sample_ratio, width_ratio : array_like
        :math:`\psi_1=n/d` and :math:`\psi_2=N/d`, positive.
    penalty : array_like
        :math:`\lambda = \Lambda/n`, positive (module docstring).
    activation_linear, activation_nonlinear : array_like
        :math:`\mu_1` and :math:`\mu_2^2` of the activation, not both zero.
    teacher_linear, teacher_unlearned : array_like
        :math:`\mu_1^*` and the unlearned second moment :math:`\mu_2^{*2}` of the teacher.
    noise : array_like
        Standard deviation of the label noise.

    Returns
    -------
    RandomFeatures

    Raises
    ------
    InvalidInput
        A ratio or the penalty is not positive, a second moment is negative, or the activation is constant.
    NotConverged
        The true residual is above 1e-10.

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
    >>> result = random_features(
    ...     sample_ratio=5,
    ...     width_ratio=2,
    ...     penalty=1e-4,
    ...     activation_linear=0.6057,
    ...     activation_nonlinear=0.0274,
    ...     teacher_linear=0.5,
    ...     teacher_unlearned=0.0215,
    ...     noise=0.25,
    ... )
    >>> round(float(result.test_error), 3)
    0.104
    """
    psi1, psi2, lam, mu1, mu2_squared, mu1_star, unlearned, noise_sd = np.broadcast_arrays(
        positive("sample_ratio", sample_ratio),
        positive("width_ratio", width_ratio),
        positive("penalty", penalty),
        finite("activation_linear", activation_linear),
        nonnegative("activation_nonlinear", activation_nonlinear),
        finite("teacher_linear", teacher_linear),
        nonnegative("teacher_unlearned", teacher_unlearned),
        nonnegative("noise", noise),
    )
    mu1_squared = mu1**2
    if not (mu1_squared + mu2_squared > 0).all():
        raise InvalidInput("activation", "a constant", "an activation of non-zero variance")

    kappa = _effective_ridge(lam, mu1_squared, mu2_squared, psi1, psi2)
    q = kappa + mu2_squared
    g, g_slope = bulk_resolvent(q, mu1_squared, psi2)
    fraction, fraction_slope = _used_fraction(kappa, mu1_squared, mu2_squared, psi2)
    aspect = psi2 / psi1
    kept = lam / kappa  # 1 - df1/n on shell
    ridge_slope = 1 / (kept - kappa * aspect * fraction_slope)

    rho = psi1 / psi2
    m1 = 1 / (rho * kappa)
    m2 = m1 * q * g
    residual = _residual(m1, m2, lam * rho, rho, psi1, mu1_squared, mu2_squared)
    if not (residual <= TOLERANCE).all():
        raise NotConverged(
            "random features",
            float(np.max(residual)),
            TOLERANCE,
            "Ratios and penalties between 1e-10 and 1e10 are supported; rescale the problem.",
        )

    noise_variance = noise_sd**2
    bias = mu2_squared * g - kappa * q * g_slope
    # ridge_slope - 1 = df2/(n - df2), so that no noise variance is added and subtracted again.
    inflation = aspect * (fraction + kappa * fraction_slope) * ridge_slope
    test_error = unlearned + inflation * (unlearned + noise_variance) + ridge_slope * mu1_star**2 * bias
    return RandomFeatures(
        effective_ridge=kappa,
        effective_ridge_slope=ridge_slope,
        bulk_resolvent=g,
        bulk_resolvent_slope=g_slope,
        shift=q,
        m1=m1,
        m2=m2,
        m1_slope=-(m1**2) * ridge_slope,
        m2_slope=-(m1**2) * ridge_slope * bias,
        test_error=test_error,
        train_error=kept**2 * (test_error + noise_variance),
        train_loss=kept * (unlearned + noise_variance + mu1_star**2 * q * g),
        degrees_of_freedom_per_sample=aspect * fraction,
        residual=residual,
    )


def _residual(
    m1: Array, m2: Array, zeta: Array, rho: Array, psi1: Array, mu1_squared: Array, mu2_squared: Array
) -> Array:
    u = mu2_squared * m1 + mu1_squared * m2
    s = 1 / (1 + rho * u)
    first = np.abs(m2 * (1 + s * mu1_squared * psi1 * m1) / m1 - 1)
    second = np.abs(zeta * m1 + s * u - 1)
    return np.asarray(np.maximum(first, second))


def random_features_of(
    activation: str | ScalarFunction,
    teacher: str | ScalarFunction,
    *,
    sample_ratio: ArrayLike,
    width_ratio: ArrayLike,
    penalty: ArrayLike,
    noise: ArrayLike = 0.0,
) -> RandomFeatures:
    """Test and training error of random features for an activation and a teacher.

    Parameters
    ----------
    activation, teacher : str or ScalarFunction
        See :func:`equivalent_moments`, which also says what happens to the teacher's mean.
    sample_ratio, width_ratio, penalty, noise : array_like
        As in :func:`random_features`.

    Returns
    -------
    RandomFeatures

    Raises
    ------
    InvalidInput, NotConverged
        As :func:`random_features`.
    """
    equivalent = equivalent_moments(activation, teacher)
    return random_features(
        sample_ratio=sample_ratio,
        width_ratio=width_ratio,
        penalty=penalty,
        activation_linear=equivalent.activation_linear,
        activation_nonlinear=equivalent.activation_nonlinear,
        teacher_linear=equivalent.teacher_linear,
        teacher_unlearned=equivalent.teacher_unlearned,
        noise=noise,
    )
