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
    spike : float
        Shift of a neuron with readout weight one along ``v``.
    bulk : float
        ``tau``, the variance that the step adds to the rest of such a neuron.
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
        Variance of the added bulk along ``v``, relative to its mean over directions.
    norm_slope : float
        Coefficient of ``a <w_i(0), v>`` in the squared norm of row ``i`` after the step.
    norm_slope_third : float
        The same for the part of order ``a^3``.
    norm_variance : tuple of float
        ``d`` times the variance of the squared norm of a row, given its projection: coefficients of 1, a^2, a^4.
    """

    alignment: float
    gradient_norm: float
    spike: float
    bulk: float
    drift: float
    initial_overlap: float
    readout_shrinkage: float
    projection_gain: float
    norm_slope: float
    norm_slope_third: float
    norm_variance: tuple[float, float, float]


@dataclass(frozen=True)
class _DerivativeMoments:
    """Moments of ``psi = sigma' - E sigma'`` that set the fluctuations of the row norms."""

    z2: float  # E psi z^2
    psi2_z2: float  # E psi^2 z^2
    psi3: float  # E psi^3
    psi2_variance: float  # Var psi^2
    slope: float  # E z sigma'


@lru_cache(maxsize=256)
def _derivative_moments(activation: ScalarFunction) -> _DerivativeMoments:
    mean = moments(activation).derivative_mean

    def integrand(z: NDArray[np.float64]) -> NDArray[np.float64]:
        psi = activation.derivative(z) - mean
        return np.stack([psi * z**2, psi**2, psi**2 * z**2, psi**3, psi**4, psi * z])

    z2, psi2, psi2_z2, psi3, psi4, slope = np.asarray(expectation(integrand, kinks=activation.kinks).value).tolist()
    return _DerivativeMoments(z2, psi2_z2, psi3, max(psi4 - psi2**2, 0.0), slope)


@lru_cache(maxsize=256)
def _teacher_moments(teacher: ScalarFunction) -> tuple[tuple[float, ...], ...]:
    """Return ``E[f*^k x^j]`` for k = 0..4 (rows) and j = 0..2 (columns)."""

    def integrand(x: NDArray[np.float64]) -> NDArray[np.float64]:
        value = teacher(x)
        return np.stack([value**k * x**j for k in range(5) for j in range(3)])

    table = np.asarray(expectation(integrand, kinks=teacher.kinks).value).reshape(5, 3)
    return tuple(map(tuple, table.tolist()))


def _residual_moment(teacher: ScalarFunction, mean: float, variance: float, power: int, x_power: int) -> float:
    """Return ``E[r^power x^x_power]`` for ``r = f*(x) - mean + N(0, variance)``."""
    table = _teacher_moments(teacher)
    gaussian_moments = {0: 1.0, 2: variance, 4: 3 * variance**2}
    return math.fsum(
        math.comb(power, k) * moment * math.comb(power - k, j) * (-mean) ** (power - k - j) * table[j][x_power]
        for k, moment in gaussian_moments.items()
        if k <= power
        for j in range(power - k + 1)
    )


def step_statistics(problem: Problem, d: float, width: float, n_step: float) -> StepStatistics:
    """Return the limits of the gradient step at given sizes.

    Parameters
    ----------
    problem : Problem
        Gives the functions, step, noise and readout law.
    d, width, n_step : float
        The sizes to use (real numbers; `n_step` may be infinite).

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
    output_variance = 0.0
    if problem.output_scale == "1/sqrt(N)":
        if abs(output_mean) > 1e-12:
            raise InvalidInput(
                "output_scale",
                problem.output_scale,
                "'1/N' when both the activation and the readout have a non-zero mean",
            )
        output_variance = readout.second_moment * activation.second_moment
    noise_variance = problem.noise**2 + output_variance
    residual_mean = teacher.mean - output_mean
    residual_square = teacher.second_moment - 2 * teacher.mean * output_mean + output_mean**2 + noise_variance

    phi0 = d / n_step
    correlated = activation.linear**2 * readout.second_moment if output_variance else 0.0
    gradient_norm = math.sqrt(linear**2 + correlated + phi0 * residual_square)
    step_size = problem.eta.size(width)
    e = step_size / math.sqrt(width)
    tau = e**2 * phi0 * residual_square * activation.derivative_variance
    alignment = linear / gradient_norm if gradient_norm > 0 else 1.0

    linear_gain = activation.linear * readout.second_moment
    if step_size == 0:
        return StepStatistics(alignment, gradient_norm, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, (2.0, 0.0, 0.0))
    psi = _derivative_moments(problem.activation)

    def residual_moment(power: int, x_power: int) -> float:
        return _residual_moment(problem.teacher, output_mean, noise_variance, power, x_power)

    if phi0 > 0:
        # v^T S v for S = X^T diag(r^2) X / (n_step E r^2), whose own samples make v.
        gain = (
            phi0**2 * residual_moment(4, 0)
            + 2 * phi0 * linear * residual_moment(3, 1)
            + linear**2 * residual_moment(2, 2)
            + phi0 * residual_square**2
        ) / (gradient_norm**2 * residual_square)
        third = (phi0 * residual_moment(4, 0) + linear * residual_moment(3, 1)) / gradient_norm
        norm_slope_third = e**3 * phi0**2 * psi.psi3 * third
        fourth = (
            e**4 * phi0**3 * residual_moment(4, 0) * psi.psi2_variance
            + 2 * (e**2 * phi0 * residual_square * activation.derivative_variance) ** 2
        )
    else:
        gain, norm_slope_third, fourth = 1.0, 0.0, 0.0
    return StepStatistics(
        alignment=alignment,
        gradient_norm=gradient_norm,
        spike=e * activation.derivative_mean * gradient_norm,
        bulk=tau,
        drift=e * psi.slope * residual_mean,
        initial_overlap=-activation.linear / gradient_norm / math.sqrt(width) if correlated else 0.0,
        # In scale "1/sqrt(N)" the own output is of order one, and the equations below do not cover it.
        readout_shrinkage=1.0 if correlated else 1 - e * activation.derivative_mean * linear_gain,
        projection_gain=gain,
        norm_slope=2 * e * psi.z2 * gradient_norm,
        norm_slope_third=norm_slope_third,
        norm_variance=(
            2.0 if problem.initial_weights == "gaussian" else 0.0,
            4 * e**2 * phi0 * residual_square * max(psi.psi2_z2 - psi.z2**2, 0.0),
            fourth,
        ),
    )
