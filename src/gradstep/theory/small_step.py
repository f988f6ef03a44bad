r"""One gradient step of size :math:`\eta=\Theta(1)` on the first layer, in the proportional limit.

The step adds a rank-one matrix of operator norm of order one to the first layer. The linear equivalent of the network
survives it, and only the resolvent of :math:`W_1W_1^\top` along the teacher's direction changes. This gives the gain
:math:`\delta` of Theorem 5 of Ba et al. 2022 in closed form, for every sample ratio, width ratio and penalty.

Ratios, penalty and errors are those of :mod:`gradstep.theory.random_features`. The readout at initialisation is
Gaussian, :math:`a_i\sim N(0,1/N)`, and the ridge fit uses samples that the step has not seen.

References
----------
.. [1] J. Ba, M. A. Erdogdu, T. Suzuki, Z. Wang, D. Wu, G. Yang, "High-dimensional asymptotics of feature learning:
       how one gradient step improves the representation", NeurIPS 2022. Proposition 2, Theorems 3 and 5, Fact 4.

The closed form of :math:`\delta` is a derivation of this project; the paper states it as (C.19).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradstep.errors import InvalidInput
from gradstep.gaussian.functions import ScalarFunction, scalar_function
from gradstep.gaussian.moments import is_continuous
from gradstep.theory.arguments import finite, nonnegative, positive
from gradstep.theory.random_features import (
    RandomFeatures,
    bulk_resolvent,
    equivalent_moments,
    random_features,
)

__all__ = [
    "SmallStep",
    "SpikeSpectrum",
    "gain_many_samples",
    "gain_unbounded_step",
    "gain_wide_coefficient",
    "gradient_norm_squared",
    "small_step",
    "small_step_of",
    "spike_spectrum",
]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class SmallStep:
    r"""Errors before and after one small step; every field has the broadcast shape of the arguments.

    Attributes
    ----------
    initial : RandomFeatures
        The same ridge regression at initialisation.
    gain : ndarray
        :math:`\delta = R_0 - R_1 \ge 0`.
    test_error, train_error, train_loss : ndarray
        After the step, with the conventions of `RandomFeatures`.
    gradient_norm_squared : ndarray
        :math:`\theta^2 = \lim |X^\top y/n_{step}|^2`.
    alignment : ndarray
        Cosine between the gradient's direction and the teacher's.
    spike_strength : ndarray
        Operator norm :math:`\eta|\mu_1|\theta` of the rank-one part of the step.
    """

    initial: RandomFeatures
    gain: Array
    test_error: Array
    train_error: Array
    train_loss: Array
    gradient_norm_squared: Array
    alignment: Array
    spike_strength: Array


def gradient_norm_squared(teacher_linear: ArrayLike, label_variance: ArrayLike, step_sample_ratio: ArrayLike) -> Array:
    r"""Squared norm of the gradient's direction, :math:`\theta^2=\mu_1^{*2}+E y^2/\psi_1`.

    Parameters
    ----------
    teacher_linear : array_like
        :math:`\mu_1^*`.
    label_variance : array_like
        Second moment :math:`E y^2` of the labels, noise included.
    step_sample_ratio : array_like
        Samples of the step per input dimension; ``inf`` for the population gradient.

    Returns
    -------
    ndarray

    Raises
    ------
    InvalidInput
        On an argument out of range.
    """
    ratio = np.asarray(step_sample_ratio, dtype=np.float64)
    if not (ratio > 0).all():
        raise InvalidInput("step_sample_ratio", step_sample_ratio, "> 0, or inf")
    square = nonnegative("label_variance", label_variance)
    return np.asarray(np.square(finite("teacher_linear", teacher_linear)) + square / ratio)


def _initial_row_variance(eta: Array, mu1_squared: Array, width: ArrayLike | None) -> Array:
    r"""Squared norm left of the initial weights along the readout.

    The network's own output in the residual :math:`y - f(x)` shrinks :math:`W_0` along the readout by
    :math:`1-\eta\mu_1^2/\sqrt N`: the leading finite-width correction.
    """
    if width is None:
        return np.ones_like(eta)
    return np.asarray((1 - eta * mu1_squared / np.sqrt(positive("width", width))) ** 2)


def _captured(
    g: Array, g_slope: Array, eta: Array, mu1_squared: Array, mu1_star: Array, neuron_variance: Array
) -> tuple[Array, Array]:
    r"""Drop :math:`f(q)` of the resolvent along the teacher, and :math:`f'(q)` (Sherman-Morrison).

    ``neuron_variance`` is :math:`|v|^2`, the squared norm of the one rotated neuron that the step moves.
    """
    strength = eta**2 * mu1_squared**2 * mu1_star**2
    denominator = 1 + mu1_squared * g * neuron_variance
    drop = strength * g**2 / denominator
    slope = strength * g * g_slope * (1 + denominator) / denominator**2
    return drop, slope


def small_step(
    *,
    sample_ratio: ArrayLike,
    width_ratio: ArrayLike,
    penalty: ArrayLike,
    step_size: ArrayLike,
    activation_linear: ArrayLike,
    activation_nonlinear: ArrayLike,
    teacher_linear: ArrayLike,
    teacher_unlearned: ArrayLike,
    teacher_second_moment: ArrayLike | None = None,
    noise: ArrayLike = 0.0,
    step_sample_ratio: ArrayLike | None = None,
    width: ArrayLike | None = None,
) -> SmallStep:
    r"""Errors after one step of size :math:`\eta=\Theta(1)`, and the gain over random features.

    Parameters
    ----------
    sample_ratio, width_ratio, penalty, noise : array_like
    activation_linear, activation_nonlinear, teacher_linear, teacher_unlearned : array_like
        As in :func:`gradstep.theory.random_features.random_features`.
    step_size : array_like
        :math:`\eta` of :math:`W_1=W_0+\eta\sqrt N G_0`, non-negative.
    teacher_second_moment : array_like, optional
        :math:`E\sigma_*^2`; by default ``teacher_linear**2 + teacher_unlearned``.
    step_sample_ratio : array_like, optional
        Samples of the step per input dimension, by default those of the ridge fit; ``inf`` is the population gradient.
    width : array_like, optional
        Number of neurons for the leading finite-width correction; by default the limit.

    Returns
    -------
    SmallStep

    Raises
    ------
    InvalidInput, NotConverged
        As :func:`gradstep.theory.random_features.random_features`.

    Notes
    -----
    With :math:`g`, :math:`q`, :math:`\kappa` at initialisation,

    .. math::
        f(q) &= \frac{\eta^2\mu_1^4\mu_1^{*2} g^2}{1+\mu_1^2 g(\omega+\eta^2\mu_1^2\theta^2)}, \\
        \delta &= \frac{d\kappa}{d\lambda}\,\mu_1^{*2}\,[\mu_2^2 f(q) - \kappa q f'(q)],

    where :math:`\omega=1` in the limit and :math:`\omega=(1-\eta\mu_1^2/\sqrt N)^2` at width :math:`N`.
    """
    eta, mu1, mu2_squared, mu1_star = np.broadcast_arrays(
        nonnegative("step_size", step_size),
        finite("activation_linear", activation_linear),
        nonnegative("activation_nonlinear", activation_nonlinear),
        finite("teacher_linear", teacher_linear),
    )
    initial = random_features(
        sample_ratio=sample_ratio,
        width_ratio=width_ratio,
        penalty=penalty,
        activation_linear=activation_linear,
        activation_nonlinear=activation_nonlinear,
        teacher_linear=teacher_linear,
        teacher_unlearned=teacher_unlearned,
        noise=noise,
    )
    noise_variance = np.square(nonnegative("noise", noise))
    if teacher_second_moment is None:
        teacher_second_moment = mu1_star**2 + np.asarray(teacher_unlearned)
    theta_squared = gradient_norm_squared(
        mu1_star,
        nonnegative("teacher_second_moment", teacher_second_moment) + noise_variance,
        sample_ratio if step_sample_ratio is None else step_sample_ratio,
    )
    mu1_squared = mu1**2
    neuron_variance = _initial_row_variance(eta, mu1_squared, width) + eta**2 * mu1_squared * theta_squared
    g, g_slope = initial.bulk_resolvent, initial.bulk_resolvent_slope
    drop, drop_slope = _captured(g, g_slope, eta, mu1_squared, mu1_star, neuron_variance)
    q, kappa = initial.shift, initial.effective_ridge
    gain = initial.effective_ridge_slope * mu1_star**2 * (mu2_squared * drop - kappa * q * drop_slope)
    kept = np.asarray(penalty) / kappa
    gain, theta_squared, eta, mu1, mu1_star = np.broadcast_arrays(gain, theta_squared, eta, mu1, mu1_star)
    theta = np.sqrt(theta_squared)
    return SmallStep(
        initial=initial,
        gain=gain,
        test_error=initial.test_error - gain,
        train_error=initial.train_error - kept**2 * gain,
        train_loss=initial.train_loss - kept * mu1_star**2 * q * drop,
        gradient_norm_squared=theta_squared,
        alignment=mu1_star / np.where(theta > 0, theta, 1.0),
        spike_strength=eta * np.abs(mu1) * theta,
    )


def small_step_of(
    activation: str | ScalarFunction,
    teacher: str | ScalarFunction,
    *,
    sample_ratio: ArrayLike,
    width_ratio: ArrayLike,
    penalty: ArrayLike,
    step_size: ArrayLike,
    noise: ArrayLike = 0.0,
    step_sample_ratio: ArrayLike | None = None,
    width: ArrayLike | None = None,
) -> SmallStep:
    """Errors after one small step for an activation and a teacher.

    Parameters
    ----------
    activation, teacher : str or ScalarFunction
        See :func:`gradstep.theory.random_features.equivalent_moments`.
    sample_ratio, width_ratio, penalty, step_size, noise, step_sample_ratio, width
        As in :func:`small_step`.

    Returns
    -------
    SmallStep

    Raises
    ------
    InvalidInput, NotConverged
        As :func:`small_step`, and for an activation with jumps and a step: the step follows the ordinary derivative.
    """
    function = scalar_function(activation)
    if np.any(step_size) and not is_continuous(function):
        raise InvalidInput("activation", function.name, "a function without jumps")
    equivalent = equivalent_moments(activation, teacher)
    return small_step(
        sample_ratio=sample_ratio,
        width_ratio=width_ratio,
        penalty=penalty,
        step_size=step_size,
        activation_linear=equivalent.activation_linear,
        activation_nonlinear=equivalent.activation_nonlinear,
        teacher_linear=equivalent.teacher_linear,
        teacher_unlearned=equivalent.teacher_unlearned,
        teacher_second_moment=equivalent.teacher_second_moment,
        noise=noise,
        step_sample_ratio=step_sample_ratio,
        width=width,
    )


def gain_many_samples(
    *,
    width_ratio: ArrayLike,
    penalty: ArrayLike,
    step_size: ArrayLike,
    activation_linear: ArrayLike,
    activation_nonlinear: ArrayLike,
    teacher_linear: ArrayLike,
) -> Array:
    r"""Gain :math:`\delta` when :math:`n/d\to\infty` in the step and in the fit, at fixed penalty.

    The effective ridge becomes the penalty and the gradient the teacher's direction. Increasing in ``step_size``
    (Ba et al. 2022, after Theorem 5).

    Parameters
    ----------
    width_ratio, penalty, step_size, activation_linear, activation_nonlinear, teacher_linear : array_like
        As in :func:`small_step`; the penalty may be any positive number.

    Returns
    -------
    ndarray

    Raises
    ------
    InvalidInput
        On an argument out of range.
    """
    psi2, lam, eta = positive("width_ratio", width_ratio), positive("penalty", penalty), finite("step_size", step_size)
    mu1_squared = np.square(finite("activation_linear", activation_linear))
    mu2_squared = nonnegative("activation_nonlinear", activation_nonlinear)
    mu1_star = finite("teacher_linear", teacher_linear)
    q = lam + mu2_squared
    g, g_slope = bulk_resolvent(q, mu1_squared, psi2)
    drop, drop_slope = _captured(g, g_slope, eta, mu1_squared, mu1_star, 1 + eta**2 * mu1_squared * mu1_star**2)
    return np.asarray(mu1_star**2 * (mu2_squared * drop - lam * q * drop_slope))


def gain_wide_coefficient(
    *,
    sample_ratio: ArrayLike,
    step_size: ArrayLike,
    activation_linear: ArrayLike,
    activation_nonlinear: ArrayLike,
    teacher_linear: ArrayLike,
) -> Array:
    r"""Coefficient :math:`C` of the wide limit :math:`\delta \sim C\,d/N` (Ba et al. 2022, after Theorem 5).

    The penalty drops out: at fixed :math:`\lambda` the wide network is ridgeless.

    Parameters
    ----------
    sample_ratio, step_size, activation_linear, activation_nonlinear, teacher_linear : array_like
        As in :func:`small_step`, with a positive ``activation_nonlinear``.

    Returns
    -------
    ndarray

    Raises
    ------
    InvalidInput
        On an argument out of range.
    """
    psi1, eta = positive("sample_ratio", sample_ratio), finite("step_size", step_size)
    mu1_squared = np.square(finite("activation_linear", activation_linear))
    mu2_squared = positive("activation_nonlinear", activation_nonlinear)
    # kappa ~ psi2 k with psi1 = mu2^2/k + mu1^2/(k + mu1^2): the positive root of a quadratic in k.
    half = (psi1 * mu1_squared - mu1_squared - mu2_squared) / (2 * psi1)
    root = np.sqrt(half**2 + mu1_squared * mu2_squared / psi1)
    k = np.where(half > 0, mu1_squared * mu2_squared / psi1 / (root + np.abs(half)), root + np.abs(half))
    slope = (psi1 / k) / (mu2_squared / k**2 + mu1_squared / (k + mu1_squared) ** 2)
    strength = eta**2 * mu1_squared**2 * finite("teacher_linear", teacher_linear) ** 4
    return np.asarray(2 * strength * slope * k**2 / (k + mu1_squared) ** 3)


def gain_unbounded_step(
    *,
    sample_ratio: ArrayLike,
    width_ratio: ArrayLike,
    penalty: ArrayLike,
    activation_linear: ArrayLike,
    activation_nonlinear: ArrayLike,
    teacher_linear: ArrayLike,
    teacher_unlearned: ArrayLike,
    teacher_second_moment: ArrayLike | None = None,
    noise: ArrayLike = 0.0,
    step_sample_ratio: ArrayLike | None = None,
) -> Array:
    r"""Gain :math:`\delta` when :math:`\eta\to\infty` after the limit of large sizes: its supremum over the step.

    The gradient's direction is then fitted at no cost. It is also the test error's gain for
    :math:`\eta=N^\alpha`, :math:`0<\alpha<1/4` (Moniri et al. 2024), a step that is large and learns no nonlinearity.

    Parameters
    ----------
    sample_ratio, width_ratio, penalty, activation_linear, activation_nonlinear, teacher_linear, teacher_unlearned
        As in :func:`small_step`.
    teacher_second_moment, noise, step_sample_ratio
        As in :func:`small_step`.

    Returns
    -------
    ndarray

    Raises
    ------
    InvalidInput, NotConverged
        As :func:`small_step`.
    """
    initial = random_features(
        sample_ratio=sample_ratio,
        width_ratio=width_ratio,
        penalty=penalty,
        activation_linear=activation_linear,
        activation_nonlinear=activation_nonlinear,
        teacher_linear=teacher_linear,
        teacher_unlearned=teacher_unlearned,
        noise=noise,
    )
    mu1_star = np.asarray(teacher_linear)
    if teacher_second_moment is None:
        teacher_second_moment = mu1_star**2 + np.asarray(teacher_unlearned)
    theta_squared = gradient_norm_squared(
        mu1_star,
        np.asarray(teacher_second_moment) + np.square(noise),
        sample_ratio if step_sample_ratio is None else step_sample_ratio,
    )
    bias = np.asarray(activation_nonlinear) * initial.bulk_resolvent
    bias = bias - initial.effective_ridge * initial.shift * initial.bulk_resolvent_slope
    return np.asarray(initial.effective_ridge_slope * mu1_star**4 / theta_squared * bias)


@dataclass(frozen=True)
class SpikeSpectrum:
    r"""Leading singular triple of the first layer :math:`W_1\in\mathbb R^{d\times N}` after a small step.

    Attributes
    ----------
    threshold : ndarray
        Step size :math:`\eta_c=\psi_2^{1/4}/(|\mu_1|\theta)` above which a singular value leaves the bulk.
    singular_value : ndarray
        The largest singular value; :math:`1+\sqrt{\psi_2}` below the threshold.
    gradient_overlap, teacher_overlap : ndarray
        Squared cosine of the left singular vector with the gradient :math:`X^\top y` and with the teacher's
        :math:`\beta_*`.
    readout_overlap : ndarray
        Squared cosine of the right singular vector with the readout :math:`a`.
    """

    threshold: Array
    singular_value: Array
    gradient_overlap: Array
    teacher_overlap: Array
    readout_overlap: Array


def spike_spectrum(
    *,
    width_ratio: ArrayLike,
    step_size: ArrayLike,
    activation_linear: ArrayLike,
    teacher_linear: ArrayLike,
    gradient_norm_squared: ArrayLike,
    width: ArrayLike | None = None,
) -> SpikeSpectrum:
    r"""Outlier of the first layer after one small step (spiked Marchenko-Pastur law).

    Parameters
    ----------
    width_ratio, step_size, activation_linear, teacher_linear : array_like
        As in :func:`small_step`; ``activation_linear`` not zero.
    gradient_norm_squared : array_like
        :math:`\theta^2`, from :func:`gradient_norm_squared`.
    width : array_like, optional
        Number of neurons for the finite-width correction, which does not move ``threshold``.

    Returns
    -------
    SpikeSpectrum

    Notes
    -----
    :math:`W_1W_1^\top` is a Wishart matrix without one of its neurons, plus :math:`vv^\top` with
    :math:`|v|^2=V=\omega+\eta^2\mu_1^2\theta^2`. For :math:`(V-1)^2>\psi_2` the largest eigenvalue is
    :math:`V(1+\psi_2/(V-1))`.

    Raises
    ------
    InvalidInput
        On an argument out of range.
    """
    psi2 = positive("width_ratio", width_ratio)
    eta, mu1_squared = nonnegative("step_size", step_size), np.square(activation_linear)
    theta_squared = positive("gradient_norm_squared", gradient_norm_squared)
    psi2, eta, mu1_squared, theta_squared, mu1_star = np.broadcast_arrays(
        psi2, eta, mu1_squared, theta_squared, np.asarray(teacher_linear, dtype=np.float64)
    )
    step_variance = eta**2 * mu1_squared * theta_squared
    total = _initial_row_variance(eta, mu1_squared, width) + step_variance
    excess = total - 1
    emerged = (excess > 0) & (excess**2 > psi2)
    safe = np.where(emerged, excess, 1.0)
    gradient_overlap = np.where(emerged, step_variance / total * (1 - psi2 / safe**2), 0.0)
    return SpikeSpectrum(
        threshold=np.asarray(psi2**0.25 / np.sqrt(mu1_squared * theta_squared)),
        singular_value=np.where(emerged, np.sqrt(np.where(emerged, total, 1.0) * (1 + psi2 / safe)), 1 + np.sqrt(psi2)),
        gradient_overlap=gradient_overlap,
        teacher_overlap=np.asarray(gradient_overlap * mu1_star**2 / theta_squared),
        readout_overlap=np.where(emerged, (safe**2 - psi2) / (safe * (psi2 + safe)), 0.0),
    )
