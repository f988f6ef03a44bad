r"""Errors after one large gradient step from a constant readout, in the proportional limit.

For the tables of the spiked random features model two scalars solve a fixed point; every other quantity follows from
linear equations.

Conventions
-----------
Those of :mod:`gradstep.theory.spiked_features`, with ``sample_ratio`` :math:`\alpha=n/d` and ``width_ratio``
:math:`\beta=N/d` of the ridge fit. ``penalty`` is :math:`\lambda` of

.. math:: \min_a \sum_\mu\Big(y_\mu-\frac1{\sqrt N}\sum_i a_i\sigma(\langle w_i,x_\mu\rangle)\Big)^2+\lambda|a|^2,

so :math:`\Lambda=\lambda N`. Test errors are measured against the noiseless teacher unless said otherwise.

References
----------
.. [1] H. Cui, L. Pesce, Y. Dandi, F. Krzakala, Y. M. Lu, L. Zdeborova, B. Loureiro, "Asymptotics of feature learning in
       two-layer networks after one gradient-step", ICML 2024. Result 3.3.

The closed form of the bulk traces at any width ratio, with the overlap of the readout with the bulk's component along
the spike, is a derivation of this project.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradstep.errors import NotConverged
from gradstep.gaussian.functions import ScalarFunction, scalar_function
from gradstep.gaussian.smoothing import hermite_smoothed, smoothed
from gradstep.theory.arguments import nonnegative, positive
from gradstep.theory.spiked_features import ConditionalMoments, Spike, conditional_moments, spike

__all__ = ["LargeStep", "large_step", "learned_along_teacher", "learned_function", "solve"]

Array = NDArray[np.float64]

TOLERANCE = 1e-10
"""Largest relative residual of the self-consistent equations that is ever returned."""
MAXIMUM_ITERATIONS = 200
#: Largest difference of two ways to one quantity, relative; rounding of the labels' power.
_ON_SHELL, _LABEL_ROUNDING = 1e-6, 1e-12
# Points times nodes handled at once: keeps the working arrays in the processor's cache.
CHUNK = 400_000


@dataclass(frozen=True)
class LargeStep:
    r"""Solution of Result 3.3; every field has the broadcast shape of the arguments.

    Attributes
    ----------
    test_error : ndarray
        :math:`E(\hat f-f^*)^2`, no label noise.
    noisy_test_error : ndarray
        The same plus the variance of the label noise: :math:`\varepsilon_{test}` against noisy labels.
    train_error : ndarray
        Mean squared residual on the training set.
    train_loss : ndarray
        ``train_error`` plus :math:`\lambda|a|^2/n`: the minimum of the objective per sample.
    readout_mean : ndarray
        :math:`m=1^\top a/\sqrt N`.
    bulk_overlap : ndarray
        :math:`\theta`: overlap of the readout with the component of the bulk along the spike.
    teacher_overlap : ndarray
        :math:`\psi`: overlap with the teacher's part orthogonal to the spike.
    bulk_norm, readout_norm : ndarray
        :math:`q_1=|\Pi\tilde W^\top a|^2/N` and :math:`q_2=|a|^2/N`.
    bulk_response, readout_response : ndarray
        :math:`V_1` and :math:`V_2`.
    spike : Spike
        The strengths that were used.
    residual : ndarray
        True relative residual of the whole system, at most 1e-10.
    """

    test_error: Array
    noisy_test_error: Array
    train_error: Array
    train_loss: Array
    readout_mean: Array
    bulk_overlap: Array
    teacher_overlap: Array
    bulk_norm: Array
    readout_norm: Array
    bulk_response: Array
    readout_response: Array
    spike: Spike
    residual: Array


def large_step(
    activation: str | ScalarFunction,
    teacher: str | ScalarFunction,
    *,
    step_size: ArrayLike,
    step_sample_ratio: ArrayLike,
    sample_ratio: ArrayLike,
    width_ratio: ArrayLike,
    penalty: ArrayLike,
    noise: ArrayLike = 0.0,
) -> LargeStep:
    r"""Errors and order parameters after one large step from a constant readout.

    Parameters
    ----------
    activation, teacher : str or ScalarFunction
        Activation of the network and teacher.
    step_size, step_sample_ratio : array_like
        :math:`\tilde\eta` and :math:`\alpha_0`, as in :func:`spike`.
    sample_ratio, width_ratio : array_like
        :math:`\alpha=n/d` of the ridge fit and :math:`\beta=N/d`, positive.
    penalty : array_like
        :math:`\lambda=\Lambda/N`, positive.
    noise : array_like
        Standard deviation of the label noise, in the step and in the fit.

    Returns
    -------
    LargeStep

    Raises
    ------
    InvalidInput
        An argument out of range.
    NotConverged
        The true residual is above 1e-10.

    Notes
    -----
    A step of size zero removes the spike, and the result is that of random features. For any positive size, however
    small, the spike is infinitely strong in the limit (its norm is :math:`r\sqrt N`) and :math:`m` is free.

    References
    ----------
    Cui et al. 2024, Results 3.1 to 3.3.
    """
    student, target = scalar_function(activation), scalar_function(teacher)
    model = spike(student, target, step_size=step_size, step_sample_ratio=step_sample_ratio, noise=noise)
    return solve(
        conditional_moments(student, target, model, folded=True),
        model,
        sample_ratio=sample_ratio,
        width_ratio=width_ratio,
        penalty=penalty,
        noise=noise,
    )


def solve(
    table: ConditionalMoments,
    model: Spike,
    *,
    sample_ratio: ArrayLike,
    width_ratio: ArrayLike,
    penalty: ArrayLike,
    noise: ArrayLike = 0.0,
    bulk_overlap: bool = True,
) -> LargeStep:
    r"""Solve Result 3.3 for given conditional moments; the arguments broadcast with the spike.

    Parameters
    ----------
    table : ConditionalMoments
        From :func:`conditional_moments`.
    model : Spike
        The spike that ``table`` was made for.
    sample_ratio, width_ratio, penalty, noise : array_like
        As in :func:`large_step`.
    bulk_overlap : bool
        False leaves out the overlap :math:`\theta`, which does not vanish: an approximation.

    Returns
    -------
    LargeStep

    Raises
    ------
    InvalidInput, NotConverged
        As :func:`large_step`.
    """
    spike_shape = table.bulk_variance.shape
    alpha, beta, lam, noise_sd, c = np.broadcast_arrays(
        positive("sample_ratio", sample_ratio),
        positive("width_ratio", width_ratio),
        positive("penalty", penalty),
        nonnegative("noise", noise),
        table.bulk_variance,
    )
    shape = alpha.shape
    row = np.broadcast_to(np.arange(table.bulk_variance.size).reshape(spike_shape), shape).ravel()
    nodes = table.nodes.shape[-1]
    columns = [
        column.reshape(-1, nodes)
        for column in (
            table.nodes,
            table.weights,
            table.mean,
            table.slope,
            table.variance,
            table.teacher_mean,
            table.teacher_slope,
            table.teacher_variance,
        )
    ]
    points = [np.ascontiguousarray(np.ravel(array)) for array in (alpha, beta, lam, noise_sd, c)]
    size = max(1, CHUNK // nodes)
    parts = [
        _solve_chunk(
            [column[row[begin : begin + size]] for column in columns],
            *(array[begin : begin + size] for array in points),
            bulk_overlap=bulk_overlap,
        )
        for begin in range(0, row.size, size)
    ]
    fields = [np.concatenate(columns).reshape(shape) for columns in zip(*parts, strict=True)]
    residual = fields.pop()
    if not (residual <= TOLERANCE).all():
        raise NotConverged(
            "large step",
            float(np.max(residual)),
            TOLERANCE,
            "Ratios between 0.01 and 100 and penalties between 1e-10 and 1e10 are supported; rescale the problem.",
        )
    used = Spike(*(np.broadcast_to(value, shape) for value in (model.strength, model.bulk_variance, model.alignment)))
    return LargeStep(
        test_error=fields[0],
        noisy_test_error=fields[1],
        train_error=fields[2],
        train_loss=fields[3],
        readout_mean=fields[4],
        bulk_overlap=fields[5],
        teacher_overlap=fields[6],
        bulk_norm=fields[7],
        readout_norm=fields[8],
        bulk_response=fields[9],
        readout_response=fields[10],
        spike=used,
        residual=residual,
    )


def _bulk_responses(v1_hat: Array, v2_hat: Array, beta: Array, lam: Array) -> tuple[Array, Array, Array, Array, Array]:
    r"""Traces of the Marchenko-Pastur bulk of unit variance: :math:`V_1, V_2, s_0, s_1, s_2`.

    :math:`V_2=\frac1p\mathrm{tr}S^{-1}`, :math:`V_1=\frac1p\mathrm{tr}\,\Omega S^{-1}`,
    :math:`s_k=\frac1p\mathrm{tr}\,\Omega^kS^{-2}` with :math:`S=\lambda+\hat V_2+\hat V_1\Omega`, without cancellation.
    """
    shift = lam + v2_hat
    linear = shift + v1_hat * (1 - beta)
    discriminant = np.sqrt(linear**2 + 4 * beta * v1_hat * shift)
    total = discriminant + np.abs(linear)
    v2 = np.where(linear >= 0, 2 / total, total / (2 * beta * shift * np.where(v1_hat > 0, v1_hat, 1.0)))
    ratio = 1 + beta * v1_hat * v2
    v1 = v2 / ratio
    s0 = v2 / discriminant
    # 1 + beta - beta (1 - beta) T with T = v1_hat * v2.
    s2 = s0 * (1 + beta - beta * (1 - beta) * v1_hat * v2) / ratio**2
    return v1, v2, s0 * ratio, s0 / ratio, s2


def _solve_chunk(
    table: Sequence[Array], alpha: Array, beta: Array, lam: Array, noise: Array, c: Array, *, bulk_overlap: bool
) -> tuple[Array, ...]:
    """Solve a batch of points; eight tables of shape (points, nodes). Internally the bulk has unit variance."""
    kappa, weight, mean, slope, variance, label_mean, label_slope, label_variance = table
    slope_squared = slope**2
    hats = _Hats(weight, slope_squared, variance, alpha / beta)
    v1, v2 = _newton(hats, beta, lam)

    gain = 1 / (1 + slope_squared * v1[:, None] + variance * v2[:, None])
    first, second = weight * gain, weight * gain**2

    # Means: project out the common mean from the component along the spike, then solve for theta.
    tilt = kappa * slope if bulk_overlap else np.zeros_like(slope)
    mean_norm = _dot(first, mean, mean)
    carries_mean = _dot(weight, mean, mean) > 1e-24 * (
        _dot(weight, mean, mean) + _dot(weight, slope, slope) + _dot(weight, variance)
    )
    safe = np.where(carries_mean, mean_norm, 1.0)
    mean_tilt = np.where(carries_mean, _dot(first, mean, tilt) / safe, 0.0)
    rest = tilt - mean_tilt[:, None] * mean
    theta = alpha * v2 * _dot(first, rest, label_mean) / (1 + alpha * v2 * _dot(first, rest, rest))
    m = np.where(carries_mean, _dot(first, mean, label_mean) / safe, 0.0) - mean_tilt * theta
    miss = label_mean - mean * m[:, None] - tilt * theta[:, None]
    psi = alpha * v1 * _dot(first, slope, label_slope)

    # Fluctuations: two linear equations. `fixed` is R without its q terms.
    noise_variance = noise**2
    label_rest = label_variance + noise_variance[:, None]
    fixed = miss**2 + label_rest + label_slope**2 - 2 * psi[:, None] * slope * label_slope
    v1_hat, v2_hat = hats(v1, v2)
    _, _, s0, s1, s2 = _bulk_responses(v1_hat, v2_hat, beta, lam)
    ratio = alpha / beta
    h11 = ratio * _dot(second, slope_squared, slope_squared)
    h12 = ratio * _dot(second, slope_squared, variance)
    h22 = ratio * _dot(second, variance, variance)
    source1 = ratio * _dot(second, slope_squared, fixed) + psi**2 / (beta * v1**2)
    source2 = ratio * _dot(second, variance, fixed) + theta**2 / (beta * v2**2)
    q1, q2 = _solve_two(
        1 - (s2 * h11 + s1 * h12),
        -(s2 * h12 + s1 * h22),
        -(s1 * h11 + s0 * h12),
        1 - (s1 * h12 + s0 * h22),
        s2 * source1 + s1 * source2,
        s1 * source1 + s0 * source2,
    )
    spread = slope_squared * q1[:, None] + variance * q2[:, None]
    error = (
        miss**2
        + label_variance
        + (label_slope - slope * psi[:, None]) ** 2
        + slope_squared * (q1 - psi**2)[:, None]
        + variance * q2[:, None]
    )
    test_error = _dot(weight, error)
    train_error = _dot(second, fixed + spread)

    # True residuals, from the equations as stated.
    f1, f2, *_ = _bulk_responses(*hats(v1, v2), beta, lam)
    theta_hat = ratio * _dot(first, tilt, miss)
    q1_hat = ratio * _dot(second, slope_squared, fixed + spread) + psi**2 / (beta * v1**2)
    q2_hat = ratio * _dot(second, variance, fixed + spread) + theta**2 / (beta * v2**2)
    label_size = np.sqrt(_dot(weight, label_mean, label_mean)) + 1e-300
    residual = np.max(
        [
            np.abs(f1 / v1 - 1),
            np.abs(f2 / v2 - 1),
            np.abs(theta - beta * v2 * theta_hat)
            / (np.abs(theta) + beta * v2 * ratio * _dot(first, np.abs(tilt), np.abs(label_mean)) + 1e-300),
            np.where(carries_mean, np.abs(_dot(first, mean, miss)), 0.0)
            / (_dot(first, np.abs(mean)) * label_size + 1e-300),
            np.abs(s2 * q1_hat + s1 * q2_hat - q1) / (q1 + 1e-300),
            np.abs(s1 * q1_hat + s0 * q2_hat - q2) / (q2 + 1e-300),
        ],
        axis=0,
    )
    # What these do not see. The traces of the bulk belong together: tr S S^-2 = tr S^-1, and so with Omega. The minimum
    # of the objective is the mean of y (y - f) too, which the means give alone.
    train_loss = train_error + lam * beta / alpha * q2
    on_shell = _dot(first, label_rest + label_mean * miss + label_slope * (label_slope - slope * psi[:, None]))
    power = _dot(weight, label_mean, label_mean) + _dot(weight, label_slope, label_slope) + _dot(weight, label_rest)
    defect = np.max(
        [
            np.abs((lam + v2_hat) * s0 + v1_hat * s1 - v2) / v2,
            np.abs((lam + v2_hat) * s1 + v1_hat * s2 - v1) / v1,
            np.abs(train_loss - on_shell) / (train_loss + _LABEL_ROUNDING / _ON_SHELL * power + 1e-300),
            np.where((v1 > 0) & (v2 > 0), 0.0, np.inf),
        ],
        axis=0,
    )
    residual = np.where(defect <= _ON_SHELL, residual, np.maximum(residual, defect))
    root = np.sqrt(c)
    return (
        test_error,
        test_error + noise_variance,
        train_error,
        train_loss,
        m,
        root * theta,
        root * psi,
        c * q1,
        q2,
        c * v1,
        v2,
        residual,
    )


def _dot(*factors: Array) -> Array:
    """Sum over the nodes of the product of the factors."""
    letters = ",".join(["pm"] * len(factors))
    return np.asarray(np.einsum(f"{letters}->p", *factors))


def _solve_two(a: Array, b: Array, c: Array, d: Array, x: Array, y: Array) -> tuple[Array, Array]:
    """Solve the 2 by 2 systems with matrix ((a, b), (c, d)) and right-hand side (x, y)."""
    determinant = a * d - b * c
    return (x * d - b * y) / determinant, (a * y - x * c) / determinant


class _Hats:
    r"""The maps :math:`\hat V_j(V)=\frac\alpha\beta E\frac{\mu_j^2}{1+V}` and their derivatives."""

    def __init__(self, weight: Array, slope_squared: Array, variance: Array, ratio: Array) -> None:
        self.slope_squared, self.variance, self.ratio = slope_squared, variance, ratio
        self.first1, self.first2 = weight * slope_squared, weight * variance
        # Products of two, once: the averages of every Newton step are then dot products.
        self.second11, self.second12 = self.first1 * slope_squared, self.first1 * variance
        self.second22 = self.first2 * variance

    def gain(self, v1: Array, v2: Array) -> Array:
        return np.asarray(1 / (1 + self.slope_squared * v1[:, None] + self.variance * v2[:, None]))

    def __call__(self, v1: Array, v2: Array) -> tuple[Array, Array]:
        gain = self.gain(v1, v2)
        return self.ratio * _dot(self.first1, gain), self.ratio * _dot(self.first2, gain)

    def with_slopes(self, v1: Array, v2: Array) -> tuple[Array, Array, Array, Array, Array]:
        gain = self.gain(v1, v2)
        squared = gain**2
        return (
            self.ratio * _dot(self.first1, gain),
            self.ratio * _dot(self.first2, gain),
            self.ratio * _dot(self.second11, squared),
            self.ratio * _dot(self.second12, squared),
            self.ratio * _dot(self.second22, squared),
        )


def _newton(hats: _Hats, beta: Array, lam: Array) -> tuple[Array, Array]:
    """Solve log V = log F(V) by Newton, safeguarded by monotone bounds.

    F is increasing and F(tV) < t F(V) for t > 1, so the solution is unique, F maps lower bounds to lower bounds and
    upper bounds to upper bounds, and the Jacobian in log V is an M-matrix.
    """
    zero = np.zeros_like(lam)
    low1, low2, *_ = _bulk_responses(*hats(zero, zero), beta, lam)
    high1, high2, *_ = _bulk_responses(zero, zero, beta, lam)
    low, high = np.log([low1, low2]), np.log([high1, high2])
    # With fewer samples than neurons the readout's response is of order 1/penalty.
    start = np.where(hats.ratio < 1, high, low)
    u = start
    previous = np.full_like(lam, np.inf)
    for _ in range(MAXIMUM_ITERATIONS):
        v1, v2 = np.exp(u)
        v1_hat, v2_hat, h11, h12, h22 = hats.with_slopes(v1, v2)
        f1, f2, s0, s1, s2 = _bulk_responses(v1_hat, v2_hat, beta, lam)
        image = np.log([f1, f2])
        gap = image - u
        size = np.abs(gap).max(axis=0)
        # At the peak of interpolation the last digits of the residual still matter: stop when rounding rules.
        if ((size <= 1e-15) | ((size <= 1e-12) & (size >= 0.5 * previous))).all():
            break
        previous = size
        low = np.where((gap >= 0).all(axis=0), np.maximum(low, image), low)
        high = np.where((gap <= 0).all(axis=0), np.minimum(high, image), high)
        # Jacobian of log F in log V; its row sums are below one.
        j11, j12 = (s2 * h11 + s1 * h12) * v1 / f1, (s2 * h12 + s1 * h22) * v2 / f1
        j21, j22 = (s1 * h11 + s0 * h12) * v1 / f2, (s1 * h12 + s0 * h22) * v2 / f2
        step = np.array(_solve_two(1 - j11, -j12, -j21, 1 - j22, gap[0], gap[1]))
        proposal = u + step
        inside = (proposal >= low) & (proposal <= high)
        u = np.where(inside, proposal, np.where(step > 0, 0.5 * (u + high), 0.5 * (u + low)))
    return v1, v2


def learned_function(
    activation: str | ScalarFunction, solution: LargeStep, kappa: ArrayLike, *, bias: ArrayLike = 0.0
) -> Array:
    r"""Mean prediction given the projection on the spike, :math:`\omega_0(\kappa)=m\mu_0+\kappa\theta\mu_1`.

    Parameters
    ----------
    activation : str or ScalarFunction
        The activation that ``solution`` was made with.
    solution : LargeStep
        From :func:`large_step`, of any shape.
    kappa : array_like
        Projections, of any shape.
    bias : array_like
        The bias, when there is one.

    Returns
    -------
    ndarray
        Shape of the solution followed by that of ``kappa``.
    """
    projections = np.asarray(kappa, dtype=np.float64)
    expand = (...,) + (None,) * projections.ndim
    strength, scale = solution.spike.strength[expand], np.sqrt(solution.spike.bulk_variance[expand])
    features = smoothed(scalar_function(activation), strength * projections + np.asarray(bias), scale)
    mean, overlap = solution.readout_mean[expand], solution.bulk_overlap[expand]
    return np.asarray(mean * features.mean + projections * overlap * features.slope / scale)


def learned_along_teacher(activation: str | ScalarFunction, solution: LargeStep, projection: ArrayLike) -> Array:
    r"""Mean prediction given the projection :math:`t=\langle w_*,x\rangle` on the teacher's direction.

    Parameters
    ----------
    activation : str or ScalarFunction
        The activation that ``solution`` was made with.
    solution : LargeStep
        From :func:`large_step`, of any shape.
    projection : array_like
        :math:`t`, of any shape.

    Returns
    -------
    ndarray
        Shape of the solution followed by that of ``projection``.

    Notes
    -----
    Given :math:`t` the spike sees :math:`\kappa=\gamma t+\rho z`, with :math:`\rho^2=1-\gamma^2`, and the teacher's
    other coordinate is :math:`\zeta=\rho t-\gamma z`. With :math:`u=r\gamma t+\sqrt{r^2\rho^2+c}\,z'` the average of
    :math:`m\mu_0+\kappa\theta\mu_1+\psi\zeta\mu_1` is

    .. math:: m\,E\sigma(u)+(\gamma\theta+\rho\psi)\,t\,E\sigma'(u)+\rho r(\rho\theta-\gamma\psi)\,E\sigma''(u)

    by Stein's lemma (this project).
    """
    t = np.asarray(projection, dtype=np.float64)
    expand = (...,) + (None,) * t.ndim
    r, c, gamma = (
        value[expand] for value in (solution.spike.strength, solution.spike.bulk_variance, solution.spike.alignment)
    )
    rho = np.sqrt(np.maximum(1 - gamma**2, 0.0))
    scale = np.sqrt((r * rho) ** 2 + c)
    mean, first, second = hermite_smoothed(scalar_function(activation), r * gamma * t, scale, 2)
    m, theta, psi = (
        value[expand] for value in (solution.readout_mean, solution.bulk_overlap, solution.teacher_overlap)
    )
    curvature = np.sqrt(2) * second / scale**2
    tilt = (gamma * theta + rho * psi) * t * first / scale
    return np.asarray(m * mean + tilt + rho * r * (rho * theta - gamma * psi) * curvature)
