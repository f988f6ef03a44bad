"""What the gradient step does to the rows of the first layer: a rank-one spike and a rescaled bulk.

With ``r = y - E f`` the residual of the step and ``g = X^T r / n_step``, row ``i`` becomes
``w_i(0) + s_i v + bulk_i`` where ``v = g / |g|`` and, per unit of readout and ``e = eta / sqrt(N)``,

* ``s_i = a_i e E[sigma'] |g|`` is its spike,
* ``E |bulk_i|^2 = a_i^2 tau`` with ``tau = e^2 (d/n_step) E[r^2] Var(sigma')``.

``E[sigma']`` is the mean of the ordinary derivative, which is what the network's gradient uses; it differs from
``E[z sigma(z)]`` only for activations with jumps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from gradstep.errors import InvalidInput
from gradstep.gaussian import ScalarFunction, expectation, moments
from gradstep.problem import Problem
from gradstep.theory.residual import Residual, residual_law
from gradstep.theory.weighted_samples import WeightedSamples

__all__ = ["StepStatistics", "step_statistics"]


@dataclass(frozen=True)
class StepStatistics:
    """Deterministic limits of the gradient step, for a readout weight of one.

    Attributes
    ----------
    alignment : float
        Overlap ``gamma = <g, beta*> / |g|`` of the spike with the teacher direction, in [-1, 1].
    gradient_norm : float
        ``|g|``.
    own_gradient : float
        Length of the gradient's part along ``W0^T a``, in output scale ``"1/N"``, of order ``N**-1/2``. It is no part
        of ``g`` here, as all that it does is the `readout_shrinkage`; `whole_gradient` has it. Without a step: of all
        that the output adds to the gradient.
    spike : float
        Shift of a neuron with readout weight one along ``v``.
    bulk : float
        ``tau``, the variance that the step adds to the rest of such a neuron.
    curvature : float
        ``e E[z sigma']``: the bulk of a neuron of readout ``a`` holds ``a`` times this times ``B w_i(0)`` with
        ``B = X^T diag(r) X / n_step`` (zero for an odd activation).
    residual_offset, residual_noise : float
        ``r = f*(x) - residual_offset + N(0, residual_noise)``, the second being a variance.
    drift : float
        ``q`` such that the rest of the initial row is multiplied by ``1 + a q`` (zero when ``E r = 0`` or the
        activation is odd).
    initial_overlap : float
        Extra mean projection on ``v`` per unit of readout, from an initial output of order one
        (``output_scale = "1/sqrt(N)"``).
    readout_shrinkage : float
        Factor of ``W0^T a``: the residual holds the network's own output, and the step takes a part of it back
        (``1 - (eta / sqrt N) E[sigma'] E[z sigma] E[a^2]`` in output scale "1/N").
    projection_gain : float
        ``v.S.v``, the variance along ``v`` of a bulk made of the step's samples, over its mean of all directions.
    projection_variance : tuple of float
        ``d`` times the variance of the part along ``v`` of a row without its spike, less one: coefficients of ``a`` and
        ``a^2``.
    spike_variance : float
        ``d`` times the variance of the spike of a neuron of readout one: it follows the length of the initial row, as
        ``E sigma'`` does (zero for rows on the sphere).
    norm_slope : float
        Coefficient of ``a <w_i(0), v>`` in the squared norm of row ``i`` after the step.
    norm_covariance : tuple of float
        ``d`` times the covariance of a row's projection on ``v`` with its squared norm: coefficients of ``a``, ``a^2``,
        ``a^3``.
    norm_variance : tuple of float
        ``d`` times the variance of the squared norm of a row, at a given ``<w_i(0), v>``: coefficients of ``a^k``,
        k = 0..4.
    """

    alignment: float
    gradient_norm: float
    own_gradient: float
    spike: float
    bulk: float
    curvature: float
    residual_offset: float
    residual_noise: float
    drift: float
    initial_overlap: float
    readout_shrinkage: float
    projection_gain: float
    projection_variance: tuple[float, float]
    spike_variance: float
    norm_slope: float
    norm_covariance: tuple[float, float, float]
    norm_variance: tuple[float, ...]

    @property
    def whole_gradient(self) -> float:
        """``|g|`` of the network's gradient, with the part that its own output makes."""
        return math.hypot(self.gradient_norm, self.own_gradient)

    @property
    def whole_alignment(self) -> float:
        """Overlap of the whole gradient with the teacher direction."""
        return self.alignment * self.gradient_norm / self.whole_gradient if self.own_gradient else self.alignment

    @property
    def whole_spike(self) -> float:
        """Shift of a neuron with readout weight one along the whole gradient."""
        return self.spike * self.whole_gradient / self.gradient_norm if self.spike else 0.0


@dataclass(frozen=True)
class _DerivativeMoments:
    """Moments of ``psi = sigma' - E sigma' - z E[z sigma']`` that set the fluctuations of the row norms."""

    z2: float  # E psi z^2
    z3: float  # E psi z^3
    psi2: float  # E psi^2
    psi3: float  # E psi^3
    slope: float  # E z sigma'
    bend: float  # E psi^2 (z^2 - 1) / 2, the coefficient of z^2 - 1 in psi^2
    # (Co)variances of what z psi and psi^2 have beyond second degree.
    higher_product: float
    higher_cross: float
    higher_square: float


@lru_cache(maxsize=256)
def _derivative_moments(activation: ScalarFunction) -> _DerivativeMoments:
    mean = moments(activation).derivative_mean
    slope = float(expectation(lambda z: z * activation.derivative(z), kinks=activation.kinks).value)

    def integrand(z: NDArray[np.float64]) -> NDArray[np.float64]:
        psi = activation.derivative(z) - mean - slope * z
        square = psi**2
        powers = [psi * z**2, psi * z**3, square, square * z, square * z**2, square * psi, square * psi * z, square**2]
        return np.stack(powers)

    means = np.asarray(expectation(integrand, kinks=activation.kinks).value).tolist()
    z2, z3, psi2, psi2_z, psi2_z2, psi3, psi3_z, psi4 = means
    bend = (psi2_z2 - psi2) / 2
    return _DerivativeMoments(
        z2=z2,
        z3=z3,
        psi2=psi2,
        psi3=psi3,
        slope=slope,
        bend=bend,
        higher_product=max(psi2_z2 - z2**2 - z3**2 / 2, 0.0),
        higher_cross=psi3_z - z2 * psi2_z - z3 * bend,
        higher_square=max(psi4 - psi2**2 - psi2_z**2 - 2 * bend**2, 0.0),
    )


def step_statistics(
    problem: Problem,
    d: float,
    width: float,
    n_step: float,
    constant: float | None = None,
    *,
    own_output: bool = True,
) -> StepStatistics:
    """Return the limits of the gradient step at given sizes.

    Parameters
    ----------
    problem : Problem
        Gives the functions, step, noise and readout law.
    d, width, n_step : float
        The sizes to use (real numbers; `n_step` may be infinite).
    constant : float, optional
        Mean over inputs of an initial output of order one (`gradstep.theory.own_output.output_constants`), where it is
        given; of a Gaussian readout it otherwise counts as noise, like the rest of that output.
    own_output : bool, optional
        Whether an output of order ``N**-1/2`` (output scale ``"1/N"``) is noise to the step, as in the network; the
        spiked random features model has the statistics of the limit.

    Returns
    -------
    StepStatistics

    Raises
    ------
    InvalidInput
        If the initial output diverges with the width (`output_scale` ``"1/sqrt(N)"`` with a non-centred activation
        and a readout of non-zero mean).

    Notes
    -----
    Cui et al. 2024, Result 3.1 (constant readout); Ba et al. 2022, Proposition 2; row norms and the case of an
    initial output of order one: this project.
    """
    activation, teacher = moments(problem.activation), moments(problem.teacher)
    readout = problem.readout
    linear = teacher.linear
    output_mean = activation.mean * readout.mean
    # All neurons respond alike to the length of an input, at second order: N^2 weak correlations between them.
    alike = readout.mean**2 * activation.quadratic**2 * width / d
    output_variance = readout.second_moment * activation.second_moment + alike
    constant_variance = readout.second_moment * activation.mean**2
    small = problem.output_scale == "1/N"
    if small:
        if readout.kind == "vocabulary":
            output_variance -= constant_variance  # letters in exact proportions: a mean that does not vary
    else:
        if abs(output_mean) > 1e-12:
            raise InvalidInput(
                "output_scale",
                problem.output_scale,
                "'1/N' when both the activation and the readout have a non-zero mean",
            )
        if readout.kind == "vocabulary":
            constant = 0.0  # letters in exact proportions sum to nothing
        if constant is not None:
            output_mean = constant
            output_variance -= constant_variance
    # So far of the sum over neurons divided by sqrt(N).
    felt = 1.0 if not small else 1 / width if own_output else 0.0
    output_variance, own_square = felt * output_variance, felt * activation.linear**2 * readout.second_moment
    noise_variance = problem.noise**2 + output_variance
    residual_mean = teacher.mean - output_mean
    residual_square = teacher.second_moment - 2 * teacher.mean * output_mean + output_mean**2 + noise_variance

    phi0 = d / n_step
    correlated, own_gradient = (0.0, math.sqrt(own_square)) if small else (own_square, 0.0)
    gradient_norm = math.sqrt(linear**2 + correlated + phi0 * residual_square)
    step_size = problem.eta.size(width)
    e = step_size / math.sqrt(width)
    tau = e**2 * phi0 * residual_square * activation.derivative_variance
    if small and step_size == 0:
        # Rows without a step do not know their readout, and need not hear of it.
        plain = linear**2 + phi0 * (residual_square - output_variance)
        gradient_norm, own_gradient = math.sqrt(plain), math.sqrt(own_square + phi0 * output_variance)
    alignment = linear / gradient_norm if gradient_norm > 0 else 1.0

    linear_gain = activation.linear * readout.second_moment
    # Labels that the network has already leave no gradient.
    if step_size == 0 or residual_square == 0:
        return StepStatistics(
            alignment=alignment,
            gradient_norm=gradient_norm,
            own_gradient=own_gradient,
            spike=0.0,
            bulk=0.0,
            curvature=0.0,
            residual_offset=output_mean,
            residual_noise=noise_variance,
            drift=0.0,
            initial_overlap=0.0,
            readout_shrinkage=1.0,
            projection_gain=1.0,
            projection_variance=(0.0, 0.0),
            spike_variance=0.0,
            norm_slope=0.0,
            norm_covariance=(0.0, 0.0, 0.0),
            norm_variance=(2.0 if problem.initial_weights == "gaussian" else 0.0, 0.0, 0.0, 0.0, 0.0),
        )
    psi = _derivative_moments(problem.activation)

    law = residual_law(problem.teacher, output_mean, noise_variance)
    r, u = law.residual, law.projection
    curvature = e * psi.slope
    rest = tau - curvature**2 * phi0 * residual_square
    if phi0 > 0:
        # The step's samples make v: given (u, r) their projection on it is N(own, 1 - alignment^2).
        noise_part = 1 - alignment**2
        off_teacher = math.sqrt(phi0 / residual_square) * r
        own = alignment * u + math.sqrt(noise_part) * off_teacher
        square = law.mean(r**2 * (own**2 + noise_part))  # E r^2 <x, v>^2
        gain = square / residual_square  # v.S.v
        along = law.mean(r * (own**2 + noise_part))  # v.B.v
        # |B v|^2: its parts on the teacher, on the rest of the gradient, and on all that is orthogonal to both.
        to_teacher = law.mean(r * own * u)
        to_gradient = law.mean(r * own * off_teacher) + math.sqrt(noise_part) * law.mean(r)
        to_rest = phi0 * (square - law.mean(r**2 * own) ** 2 / residual_square)
        along_square = to_teacher**2 + to_gradient**2 + to_rest
        third = (phi0 * law.mean(r**4) + linear * law.mean(r**3 * u)) / gradient_norm
        samples_covariance = e**3 * phi0**2 * psi.psi3 * third
    else:
        gain, samples_covariance = 1.0, 0.0
        along = law.mean(r * u**2)
        along_square = along**2
    form, mean_form, higher = _norm_fluctuations(psi, law, e, phi0)
    # E sigma' of a neuron changes by z2 / 2 times |w(0)|^2 - 1, and its spike with it.
    following = e * psi.z2 * gradient_norm
    norm_slope = 2 * following
    if problem.initial_weights == "sphere":
        form = form - 2 * np.convolve(mean_form, mean_form)
        following = 0.0
    covariance = following * mean_form + [norm_slope, 0.0, samples_covariance]
    return StepStatistics(
        alignment=alignment,
        gradient_norm=gradient_norm,
        own_gradient=own_gradient,
        spike=e * activation.derivative_mean * gradient_norm,
        bulk=tau,
        curvature=curvature,
        residual_offset=output_mean,
        residual_noise=noise_variance,
        drift=e * psi.slope * residual_mean,
        initial_overlap=-activation.linear / gradient_norm / math.sqrt(width) if correlated else 0.0,
        # With an own output of order one the rows are taken given it (`gradstep.theory.own_output`).
        readout_shrinkage=1.0 if correlated else 1 - e * activation.derivative_mean * linear_gain,
        projection_gain=gain,
        projection_variance=(2 * curvature * along, curvature**2 * along_square + rest * gain),
        spike_variance=following**2 / 2,
        norm_slope=norm_slope,
        norm_covariance=tuple(covariance.tolist()),
        norm_variance=tuple((form + higher).tolist()),
    )


def _norm_fluctuations(
    psi: _DerivativeMoments, law: Residual, e: float, phi0: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the fluctuations of the squared norm of a row of Gaussian initial weights, as polynomials of its readout.

    With ``B`` and ``R`` the samples weighted by ``r`` and ``r^2`` over `n_step`, ``k`` the curvature and ``z_mu`` the
    pre-activations, the norm is ``|(1 + a k B) w(0)|^2`` and, from ``psi(z_mu)``, what follows ``w(0)`` as well: at
    second degree another quadratic form, beyond it terms as good as independent, of one sample each or of two.

    Parameters
    ----------
    psi : _DerivativeMoments
    law : Residual
        Of the residual ``r`` of the step.
    e, phi0 : float
        ``eta / sqrt(N)`` and ``d / n_step``.

    Returns
    -------
    form : ndarray, shape (5,)
        ``d`` times the variance of the quadratic form ``w(0)^T M w(0)``, ``2 tr M^2 / d``.
    mean_form : ndarray, shape (3,)
        ``tr M / d``.
    higher : ndarray, shape (5,)
        ``d`` times the variance of the rest.
    """
    r = law.residual
    m2, m3, m4 = (float(law.mean(r**power)) for power in (2, 3, 4))
    # tr B^k / d, and the same with R among the factors.
    _, b1, b2, b3, b4 = WeightedSamples(law, r, phi0).moments().tolist()
    rb, rr = phi0 * m3 + m2 * b1, phi0 * m4 + m2**2
    rbb = m2 * b2 + 2 * phi0 * b1 * m3 + phi0**2 * m4
    k = e * psi.slope
    # M = 1 + a first B + a^2 (k^2 B^2 + also B + bent R).
    first, also = 2 * k + e * psi.z3, k * e * psi.z3 * b1
    bent = phi0 * (k * e * psi.z3 + e**2 * psi.bend)
    second = k**2 * b2 + also * b1 + bent * m2
    second_first = k**2 * b3 + also * b2 + bent * rb
    second_second = k**4 * b4 + also**2 * b2 + bent**2 * rr
    second_second += 2 * (k**2 * also * b3 + k**2 * bent * rbb + also * bent * rb)
    form = [1.0, 2 * first * b1, first**2 * b2 + 2 * second, 2 * first * second_first, second_second]
    # A sample's pre-activation after the step's linear part is alpha z + N(0, a^2 k^2 phi0 m2), alpha = 1 + a k (b1 +
    # phi0 r); it meets 2 a e r psi, and a^2 e^2 phi0 r^2 psi^2 comes with it.
    product, cross = 4 * e**2 * psi.higher_product, 4 * e**3 * phi0 * psi.higher_cross
    square = e**4 * phi0**2 * psi.higher_square
    alone = [
        product * m2,
        product * 2 * k * (b1 * m2 + phi0 * m3) + cross * m3,
        product * k**2 * (b1**2 * m2 + 2 * b1 * phi0 * m3 + phi0**2 * m4)
        + cross * k * (b1 * m3 + phi0 * m4)
        + square * m4
        + 4 * e**2 * k**2 * phi0 * m2**2 * psi.psi2,
    ]
    pairs = 2 * (e**2 * phi0 * m2 * psi.psi2) ** 2
    higher = phi0 * np.array([0.0, 0.0, *alone])
    higher[4] += pairs
    return 2 * np.array(form), np.array([1.0, first * b1, second]), higher
