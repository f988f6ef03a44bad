r"""Prediction risk of ridge regression before and after one step with :math:`\eta=\Theta(1)` (section 4.2).

The step adds a rank-one matrix of operator norm of order one to the first layer. The linear equivalent of the network
remains valid, and only the resolvent of :math:`W_1W_1^\top` along the teacher's direction changes. This gives the gain
:math:`\delta` of Theorem 5 in closed form, for every sample ratio, width ratio and penalty; the closed form is a
derivation of this project (page "Small step" of the docs), the paper states :math:`\delta` as (C.19). The readout at
initialisation is Gaussian, :math:`a_i\sim N(0,1/N)`, and the ridge fit uses samples that the step has not seen.

All functions take the same parameters, numbers or arrays that broadcast:

* ``values``: the `coefficients` of the activation and the teacher;
* ``eta``: the learning rate of (2.1), not negative;
* ``lam``: the penalty of (4.1), positive;
* ``psi1``, ``psi2``: :math:`n/d` and :math:`N/d`, positive;
* ``sigma_eps``: the standard deviation of the label noise, which no risk includes.

Each raises `InvalidInput` on an argument out of range, and for a step with an activation that has jumps, because the
step follows the ordinary derivative. Each raises `NotConverged` if the equations are not solved.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradstep.checks import finite, nonnegative, positive
from gradstep.gaussian.functions import ScalarFunction
from gradstep.papers.ba2022.coefficients import Coefficients, coefficients
from gradstep.papers.ba2022.initialisation import RandomFeatures, bulk_resolvent, random_features

__all__ = [
    "R_0",
    "R_1",
    "SmallStep",
    "delta",
    "delta_large_sample",
    "delta_large_step",
    "delta_large_width",
    "kernel_lower_bound",
    "rotated_neuron",
    "small_step",
    "theta_squared",
]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class SmallStep:
    r"""Errors before and after one small step; every field has the broadcast shape of the arguments.

    Attributes
    ----------
    initial : RandomFeatures
        The same ridge regression at initialisation.
    delta : ndarray
        :math:`\delta = \mathcal R_0 - \mathcal R_1 \ge 0`.
    test_error, train_error, train_loss : ndarray
        After the step, with the conventions of `RandomFeatures`; the first is :math:`\mathcal R_1`.
    theta_squared : ndarray
        :math:`\theta^2 = \lim |X^\top y/n|^2`.
    alignment : ndarray
        Cosine between the gradient's direction and the teacher's.
    spike_strength : ndarray
        Operator norm :math:`\eta|\mu_1|\theta` of the rank-one part of the step.
    """

    initial: RandomFeatures
    delta: Array
    test_error: Array
    train_error: Array
    train_loss: Array
    theta_squared: Array
    alignment: Array
    spike_strength: Array


def theta_squared(values: Coefficients, psi1: ArrayLike, sigma_eps: ArrayLike = 0.0) -> Array:
    r"""Squared norm of the gradient's direction, :math:`\theta^2=\mu_1^{*2}+E y^2/\psi_1` (Proposition 2).

    The samples of the step per input dimension are :math:`\psi_1`, ``inf`` for the population gradient. Raises
    `InvalidInput` on an argument out of range.

    Docs, "Small step", equation (S2).
    """
    ratio = positive("psi1", psi1, infinite=True)
    labels = values.second_moment + np.square(nonnegative("sigma_eps", sigma_eps))
    return np.asarray(np.square(finite("mu1_star", values.mu1_star)) + labels / ratio)


def rotated_neuron(eta: Array, mu1_squared: Array, theta2: Array, N: ArrayLike | None = None) -> Array:
    r"""Squared norm :math:`\omega+\eta^2\mu_1^2\theta^2` of the neuron that the step moves, along the readout.

    The network's own output in the residual :math:`y - f(x)` shrinks :math:`W_0` along the readout by
    :math:`1-\eta\mu_1^2/\sqrt N`. Its square is :math:`\omega`, the leading finite-width correction. In the limit
    (``N`` is None) it is one.
    """
    shrunk = np.ones_like(eta) if N is None else (1 - eta * mu1_squared / np.sqrt(positive("N", N))) ** 2
    return np.asarray(shrunk + eta**2 * mu1_squared * theta2)


def _captured(
    g: Array, g_slope: Array, eta: Array, mu1_squared: Array, mu1_star: Array, neuron: Array
) -> tuple[Array, Array]:
    r"""Return the decrease :math:`f(q)` of the resolvent along the teacher, and :math:`f'(q)` (Sherman-Morrison).

    Docs, "Small step", equation (S3).
    """
    strength = eta**2 * mu1_squared**2 * mu1_star**2
    denominator = 1 + mu1_squared * g * neuron
    drop = strength * g**2 / denominator
    slope = strength * g * g_slope * (1 + denominator) / denominator**2
    return drop, slope


def small_step(
    values: Coefficients,
    *,
    eta: ArrayLike,
    lam: ArrayLike,
    psi1: ArrayLike,
    psi2: ArrayLike,
    sigma_eps: ArrayLike = 0.0,
    psi1_step: ArrayLike | None = None,
    N: ArrayLike | None = None,
) -> SmallStep:
    r"""Errors after one step of size :math:`\eta=\Theta(1)`, and the gain over random features (Theorem 5).

    The samples of the step per input dimension are ``psi1_step``, by default those of the ridge fit; ``inf`` is the
    population gradient. The width ``N`` is for the leading finite-width correction of this project; by default it is
    the limit of the theorem.

    Docs, "Small step", equations (S3) and (S4).

    Notes
    -----
    With :math:`g`, :math:`q`, :math:`\kappa` at initialisation,

    .. math::
        f(q) &= \frac{\eta^2\mu_1^4\mu_1^{*2} g^2}{1+\mu_1^2 g(\omega+\eta^2\mu_1^2\theta^2)}, \\
        \delta &= \frac{d\kappa}{d\lambda}\,\mu_1^{*2}\,[\mu_2^2 f(q) - \kappa q f'(q)],

    where :math:`\omega=1` in the limit and :math:`\omega=(1-\eta\mu_1^2/\sqrt N)^2` at width :math:`N`.

    Examples
    --------
    >>> result = small_step(coefficients("tanh", "softplus"), eta=[0, 2, 4], lam=1e-4, psi1=5, psi2=2, sigma_eps=0.25)
    >>> result.test_error.round(3)
    array([0.104, 0.1  , 0.094])
    """
    eta, mu1, mu2_squared, mu1_star = np.broadcast_arrays(
        values.check_step(eta), values.mu1, values.mu2_squared, values.mu1_star
    )
    initial = random_features(values, lam=lam, psi1=psi1, psi2=psi2, sigma_eps=sigma_eps)
    theta2 = theta_squared(values, psi1 if psi1_step is None else psi1_step, sigma_eps)
    g, q, kappa = initial.g, initial.q, initial.kappa
    neuron = rotated_neuron(eta, mu1**2, theta2, N)
    drop, drop_slope = _captured(g, initial.g_slope, eta, mu1**2, mu1_star, neuron)
    gain = initial.kappa_slope * mu1_star**2 * (mu2_squared * drop - kappa * q * drop_slope)
    kept = np.asarray(lam) / kappa
    gain, theta2, eta, mu1, mu1_star = np.broadcast_arrays(gain, theta2, eta, mu1, mu1_star)
    theta = np.sqrt(theta2)
    return SmallStep(
        initial=initial,
        delta=gain,
        test_error=initial.test_error - gain,
        train_error=initial.train_error - kept**2 * gain,
        train_loss=initial.train_loss - kept * mu1_star**2 * q * drop,
        theta_squared=theta2,
        alignment=mu1_star / np.where(theta > 0, theta, 1.0),
        spike_strength=eta * np.abs(mu1) * theta,
    )


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

    The teacher is `centred` as in :func:`~gradstep.papers.ba2022.coefficients`.

    Docs, "Small step", equation (S1).
    """
    values = coefficients(sigma, sigma_star, centred=centred)
    return random_features(values, lam=lam, psi1=psi1, psi2=psi2, sigma_eps=sigma_eps).test_error


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

    Parameters are those of :func:`R_0`, with the ``eta`` and the ``N`` of :func:`small_step`.
    """
    values = coefficients(sigma, sigma_star, centred=centred)
    return small_step(values, eta=eta, lam=lam, psi1=psi1, psi2=psi2, sigma_eps=sigma_eps, N=N).test_error


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

    Docs, "Small step", equation (S4).

    Parameters are those of :func:`R_1`. The theorem names :math:`\mu_1^*,\mu_1,\mu_2` as the parameters of (C.19).
    At finite :math:`\psi_1` it also depends on :math:`\mu_2^{*2}+\sigma_\epsilon^2`, through the norm of the gradient.
    """
    values = coefficients(sigma, sigma_star, centred=centred)
    return small_step(values, eta=eta, lam=lam, psi1=psi1, psi2=psi2, sigma_eps=sigma_eps, N=N).delta


def delta_large_sample(values: Coefficients, *, eta: ArrayLike, lam: ArrayLike, psi2: ArrayLike) -> Array:
    r"""Limit of :math:`\delta` as :math:`\psi_1\to\infty`, in the step and in the fit, at fixed penalty.

    The effective ridge becomes the penalty and the gradient the teacher's direction, so that the noise drops out.
    Increasing in :math:`\eta` (large sample regime, after Theorem 5).
    """
    psi2, lam, eta = positive("psi2", psi2), positive("lam", lam), values.check_step(eta)
    mu1_squared, mu1_star = np.square(values.mu1), values.mu1_star
    q = lam + values.mu2_squared
    g, g_slope = bulk_resolvent(q, mu1_squared, psi2)
    neuron = rotated_neuron(eta, mu1_squared, mu1_star**2)
    drop, drop_slope = _captured(g, g_slope, eta, mu1_squared, mu1_star, neuron)
    return np.asarray(mu1_star**2 * (values.mu2_squared * drop - lam * q * drop_slope))


def delta_large_width(values: Coefficients, *, eta: ArrayLike, psi1: ArrayLike, psi2: ArrayLike) -> Array:
    r"""Leading order of :math:`\delta\to0` as :math:`\psi_2\to\infty`, of order :math:`1/\psi_2`.

    At fixed :math:`\lambda` a wide network is ridgeless, so that the penalty and the noise drop out (large width
    regime, after Theorem 5). The activation must not be linear.
    """
    psi1, eta = positive("psi1", psi1), values.check_step(eta)
    mu1_squared, mu2_squared = np.square(values.mu1), positive("mu2_squared", values.mu2_squared)
    # kappa ~ psi2 k with psi1 = mu2^2/k + mu1^2/(k + mu1^2): the positive root of a quadratic in k.
    half = (psi1 * mu1_squared - mu1_squared - mu2_squared) / (2 * psi1)
    root = np.sqrt(half**2 + mu1_squared * mu2_squared / psi1)
    k = np.where(half > 0, mu1_squared * mu2_squared / psi1 / (root + np.abs(half)), root + np.abs(half))
    slope = (psi1 / k) / (mu2_squared / k**2 + mu1_squared / (k + mu1_squared) ** 2)
    strength = eta**2 * mu1_squared**2 * values.mu1_star**4
    return np.asarray(2 * strength * slope * k**2 / (k + mu1_squared) ** 3 / positive("psi2", psi2))


def delta_large_step(
    values: Coefficients,
    *,
    lam: ArrayLike,
    psi1: ArrayLike,
    psi2: ArrayLike,
    sigma_eps: ArrayLike = 0.0,
    psi1_step: ArrayLike | None = None,
) -> Array:
    r"""Limit of :math:`\delta` as :math:`\eta\to\infty` after the proportional limit: its supremum over the step.

    The gradient's direction is then fitted at no cost. It is also the test error's gain for
    :math:`\eta=N^\alpha`, :math:`0<\alpha<1/4` (Moniri et al. 2024), a step that is large and learns no nonlinearity.
    Parameters are those of :func:`small_step`.
    """
    values.check_step()
    initial = random_features(values, lam=lam, psi1=psi1, psi2=psi2, sigma_eps=sigma_eps)
    theta2 = theta_squared(values, psi1 if psi1_step is None else psi1_step, sigma_eps)
    bias = values.mu2_squared * initial.g - initial.kappa * initial.q * initial.g_slope
    # Without a gradient there is no step.
    captured = np.divide(values.mu1_star**4, theta2, out=np.zeros_like(theta2), where=theta2 > 0)
    return np.asarray(initial.kappa_slope * captured * bias)


def kernel_lower_bound(sigma_star: str | ScalarFunction) -> float:
    r"""Lower bound :math:`\|P_{>1}f^*\|^2=\mu_2^{*2}` of (3.3) and Fact 4 on the risk of every fixed kernel.

    Raises `InvalidInput` if the function is unknown.
    """
    return float(coefficients(sigma_star, sigma_star).mu2_star_squared)
