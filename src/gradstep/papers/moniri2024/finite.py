r"""Training loss and test error at finite n, for every step size with exponent below 1/2 (this project).

The staircase of the slides is the limit of infinitely many samples, and at any n that fits in a computer the curve
rises gradually. Here the spikes keep their finite strengths. With orthonormal Hermite polynomials :math:`h_p` of the
projection :math:`\kappa` of an input on the spike's direction and :math:`h_q` of a neuron's readout :math:`a`,

.. math:: F - F_0 \approx U C B^\top, \qquad C_{pq} = E\,h_p(\kappa) h_q(a)\, \sigma(s\kappa a+\sqrt{1+\tau a^2}\,u),

for all powers of the step at once. With :math:`D=\mathrm{diag}(t,s_2,t,\dots)`, :math:`T=N-n+\lambda nt`,
:math:`j_p=\sqrt{p!}\,c_{\star,p}\gamma^p` and :math:`J` the overlap of the step with the initial rows
(:math:`J_{11}=\omega\sqrt N Q`, :math:`Q = c_1s_2T/N`, only with the residual y - f),

.. math:: \mathcal L_{tr}/\lambda = s_2c_{\star,1}^2 + t(E y^2-c_{\star,1}^2) - b^\top A^{-1}b,\qquad b=C^\top Dj,
          \qquad A = C^\top D_\omega C + (I+JC)^\top(I+JC)/T,

where :math:`D_\omega` has :math:`(1-\omega^2)s_2+\omega^2Q(1+c_{>1}^2t)/c_1` in the place of :math:`s_2`. The test
error is :math:`-\partial_\lambda(\mathcal L_{tr}/\lambda)/t^2`.

Both forms include the two features beyond a Gaussian bulk whose cost remains of order one: c_2 times the fluctuations
of the rows' norms, and c_2 times those of the inputs' norms. The *dressed* form adds the effect of a step on the bulk,
of relative order :math:`s^2`: features of the inputs times their projection on the spike, the part of the gradient
beyond rank one next to the teacher's direction, and the changes of the rows' norms. An effect of the same order is
missing: that of a mean of the residual on the rows, which an initial output of order one has if the activation has a
mean.

Neither includes terms of relative order 1/d, which make the gains of real networks larger by about 20/d to 25/d of
themselves at small exponents. With sin(1.2 x + 0.6), teacher H1 + H2/sqrt 2, lam = 0.1 and the residual y, the
training gain is larger at alpha = 0.2 by 18(4) % at d = 120 and 9(2) % at d = 320 (phi = 0.2), and by 6(2) % at d = 300
and 3(2) % at d = 750 (phi = 0.5); at alpha = 0.36 by 5(2) %, 3(2) %, 0(2) % and 0(2) %; at alpha = 0 by 7(5) % at
d = 300 and 9(4) % at d = 750.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradstep.errors import InvalidInput
from gradstep.gaussian import ScalarFunction, gaussian_rule, hermite_coefficients, hermite_values, moments, smoothed
from gradstep.papers.moniri2024.resolvent import Traces, limiting_traces, loss_over_lambda, traces
from gradstep.problem import Problem
from gradstep.theory.step.own_output import output_constants
from gradstep.theory.step.statistics import StepStatistics, step_statistics

__all__ = ["FiniteErrors", "finite_errors", "spike_coefficients"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class FiniteErrors:
    """Errors of a batch of problems, arrays of shape (problems,).

    Attributes
    ----------
    L_tr : ndarray
        Training loss: mean squared residual plus the penalty.
    L_te : ndarray
        Test error, label noise included.
    training_gain, test_gain : ndarray
        Decrease of each by the step; the errors before the step are the sums.
    """

    L_tr: Array
    L_te: Array
    training_gain: Array
    test_gain: Array


def finite_errors(problems: Iterable[Problem], *, dressed: bool = True, order: int = 16) -> FiniteErrors:
    """Errors at finite sizes, uniformly in the exponent of the step size.

    Like those of `gradstep.predict` they are means over draws, where the initial output has a constant of order one.
    What the step does to the bulk is taken to the second order in the shift ``s`` of a neuron: errors are some per cent
    off at ``s = 1/2`` and more beyond, where `gradstep.predict` is not.

    The problems have finite sizes, a Gaussian readout, a centred teacher and an exponent below 1/2; either output
    scale. Sizes may be as large as floats are, so that the approach to the staircase can be followed. If `dressed`,
    what the step does to the bulk is included. The highest Hermite degree in the input's projection and in the readout
    is ``order``. Raises `InvalidInput` on problems outside of the above. Raises `NotConverged` if the traces do not
    converge.

    Docs, "Intermediate step", equation (I5).
    """
    rows = [_mean_errors(problem, dressed, order) for problem in problems]
    return FiniteErrors(*np.array(rows, dtype=np.float64).reshape(-1, 4).T)


def spike_coefficients(problem: Problem, order: int = 16) -> Array:
    r"""Coefficients of the spikes to all powers of the step, :math:`F-F_0\approx\sum_{pq}C_{pq}h_p(\kappa)h_q(a)^\top`.

    Means over draws where the initial output has a constant of order one, as in `finite_errors`.

    The coefficients have shape (order + 1, order + 1), a row for each degree in the input's projection and a column for
    each in the readout. Raises `InvalidInput` as `finite_errors` does.

    Docs, "Intermediate step", equation (I1).
    """
    _check(problem)
    table = np.zeros((order + 1, order + 1))
    for share, constant in output_constants(problem):
        step = _step(problem, constant)
        table += share * _smoothed_features(problem.activation, step.spike, step.bulk, order).table
    table[0, 0] -= moments(problem.activation).mean
    return table


def _step(problem: Problem, constant: float | None) -> StepStatistics:
    d, N, n_step, *_ = problem.real_sizes()
    return step_statistics(problem, d, N, n_step, constant)


def _check(problem: Problem) -> None:
    if problem.is_limit or problem.n_step == math.inf:
        raise InvalidInput("d", problem.d, "finite sizes: the limit is Delta and Lambda")
    if problem.readout.kind != "gaussian":
        raise InvalidInput("readout", problem.readout.to_plain(), "'gaussian'")
    if problem.eta.exponent >= 0.5 and problem.step_size > 0:
        raise InvalidInput("alpha", problem.eta.exponent, "a number in [0, 1/2)")
    teacher = moments(problem.link)
    if abs(teacher.mean) > 1e-9 * math.sqrt(teacher.second_moment):
        raise InvalidInput("teacher", problem.link.name, "a teacher of mean zero")


def _mean_errors(problem: Problem, dressed: bool, order: int) -> Array:
    """Return the fields of `FiniteErrors`: means over the constant of an initial output of order one."""
    _check(problem)
    shares, constants = zip(*output_constants(problem), strict=True)
    before = _errors_before(problem)
    if problem.step_size == 0:
        return np.concatenate([before, np.zeros(2)])
    after = [_errors(problem, _step(problem, constant), dressed, order) for constant in constants]
    errors = np.array(shares) @ np.array(after)
    return np.concatenate([errors, before - errors])


def _limiting_sizes(problem: Problem) -> dict[str, float]:
    """Return the ratios and the penalty in the paper's convention."""
    d, N, _, n, ridge = problem.real_sizes()
    return {"phi": d / n, "psi": d / N, "lam": ridge / n}


def _errors_before(problem: Problem) -> Array:
    """Return the training loss and the test error of the network that takes no step."""
    sizes = _limiting_sizes(problem)
    before = limiting_traces(problem.activation, **sizes)
    loss, slope = (float(v) for v in loss_over_lambda(problem.activation, problem.link, problem.noise, before))
    return np.array([sizes["lam"] * loss, -slope / float(before.t) ** 2])


def _errors(problem: Problem, step: StepStatistics, dressed: bool, order: int) -> tuple[float, float]:
    """Return the training loss and the test error after the step."""
    sizes, (_, N, _, n, _) = _limiting_sizes(problem), problem.real_sizes()
    # A row with a component along the spike before the step changes its norm by the step.
    added = step.bulk + (step.fluctuations.norm_slope[0] * step.initial_overlap if dressed else 0.0)
    smooth = _smoothed_features(problem.activation, step.spike, added, order)
    student = moments(problem.activation)
    if not dressed:
        smooth = replace(smooth, linear=student.linear, product=0.0, nonlinear=student.nonlinear_second_moment)
    after = traces(smooth.linear**2, smooth.nonlinear, product_squared=smooth.product**2, **sizes)
    omega = step.initial_overlap * math.sqrt(N)
    if problem.output_scale == "1/N":
        omega = -student.linear / step.gradient_norm / math.sqrt(N)
    gain, gain_slope = _learned(*_spikes(problem, step, smooth, dressed, order), smooth, after, omega, n, N)
    loss, slope = (float(v) for v in loss_over_lambda(problem.activation, problem.link, problem.noise, after))
    return sizes["lam"] * (loss - gain), -(slope - gain_slope) / float(after.t) ** 2


@dataclass(frozen=True)
class _Smoothed:
    """Averages of the features after the step over inputs and readouts."""

    table: Array  # E h_p(kappa) h_q(a) sigma
    linear: float  # E u sigma
    product: float  # E kappa a u sigma
    nonlinear: float  # what the two linear blocks leave of the variance


def _smoothed_features(activation: ScalarFunction, spike: float, added: float, order: int) -> _Smoothed:
    z, weight = gaussian_rule((0.0,), resolution=1.6, order=10, half_range=7.6)
    # Nothing changes when kappa and a change sign together: half the readouts are enough.
    half = z > 0
    kappa, a, a_weight = z[:, None], z[half], 2 * weight[half]
    values = smoothed(activation, spike * kappa * a, np.sqrt(np.maximum(1 + added * a**2, 0.1)))
    rows, columns = hermite_values(z, order) * weight, hermite_values(a, order) * a_weight
    degree = np.arange(order + 1)
    table = np.where((degree[:, None] + degree) % 2 == 0, rows @ values.mean @ columns.T, 0.0)
    linear = float(weight @ values.slope @ a_weight)
    product = float((weight * z) @ values.slope @ (a_weight * a))
    spread = float(weight @ (values.second_moment - values.mean**2) @ a_weight)
    return _Smoothed(table, linear, product, spread - linear**2 - product**2)


def _spikes(
    problem: Problem, step: StepStatistics, smooth: _Smoothed, dressed: bool, order: int
) -> tuple[Array, Array, Array]:
    """Return C, the teacher's overlaps j with its rows, and which rows are linear in the input.

    Rows: h_0, ..., h_order of kappa, then |x|^2/d - 1; dressed, also t, the coordinate along the teacher's part
    orthogonal to v, and kappa t.
    Columns: h_0, ..., h_order of a, then the rows' norms; dressed, also the bulk's own components along v and t.
    """
    d = float(problem.d)
    c_2 = moments(problem.activation).quadratic / math.sqrt(2)
    gamma, across = step.alignment, math.sqrt(max(1 - step.alignment**2, 0.0))
    target = hermite_coefficients(problem.link, order)  # c_star,p sqrt(p!)
    size = order + 1
    C = np.zeros((size + 3, size + 4))
    C[:size, :size] = smooth.table
    C[size, 0] = c_2 * math.sqrt(2 / d)
    C[0, size] = c_2 * math.sqrt(step.fluctuations.norm_variance[0] / d)
    j = np.zeros(size + 3)
    j[:size] = target * gamma ** np.arange(size)
    is_linear = np.zeros(size + 3, dtype=bool)
    is_linear[[1, size + 1]] = True
    if not dressed:
        # The teacher's direction orthogonal to v is still fitted by the bulk, without the spikes.
        return C[: size + 1, : size + 1], j[: size + 1], is_linear[: size + 1]
    quadratic = math.sqrt(2) * float(target[2])  # 2 c_star,2
    j[size + 1], j[size + 2] = target[1] * across, quadratic * gamma * across
    m, scale = quadratic / step.gradient_norm, smooth.product / math.sqrt(d)
    C[[0, 2, 1, size + 1], size + 1] = scale * np.array([1, math.sqrt(2), m * gamma**2, m * gamma * across])
    C[[size + 2, 1, size + 1], size + 2] = scale * np.array([1, m * gamma * across, m * across**2])
    gaussian_moments = [1, 0, 1, 0, 3]  # of the readout
    C[0, size] = c_2 * math.sqrt(np.dot(step.fluctuations.norm_variance, gaussian_moments) / d)
    C[0, size + 1] += c_2 * step.fluctuations.norm_slope[0] / math.sqrt(d)
    C[1, size + 3] = smooth.linear * math.sqrt(step.bulk * step.fluctuations.sample_gain / d)
    return C, j, is_linear


def _learned(
    C: Array, j: Array, is_linear: Array, smooth: _Smoothed, found: Traces, omega: float, n: float, N: float
) -> tuple[float, float]:
    """Return b^T A^-1 b and its derivative in lambda.

    Docs, "Intermediate step", equation (I9).
    """

    def costs(t: Any, s2: Any, theta: Any) -> NDArray[Any]:
        """Return D, what takes its place in A, the factor of J C and T, one after the other."""
        s1 = t / (1 + smooth.product**2 * t * theta / float(found.phi))
        Q = smooth.linear * s2 * n * theta / N
        D = np.where(is_linear, s2, t)
        replaced = D.copy()
        own = 1 + smooth.nonlinear * t + smooth.product**2 * s1
        replaced[1] = (1 - omega**2) * s2 + omega**2 * Q * own / smooth.linear
        return np.concatenate([D, replaced, [omega * math.sqrt(N) * Q, n * theta]])

    def split(values: Array) -> tuple[Array, Array, float, float]:
        return values[: len(j)], values[len(j) : -2], float(values[-2]), float(values[-1])

    D, cost, J, T = split(costs(found.t, found.s2, found.unused))
    dD, dcost, dJ, dT = split(found.derivative(costs))
    rest = np.eye(C.shape[1])
    rest[1] += J * C[1]
    # x = A^-1 b as a least-squares problem, which is accurate for spikes of very different strengths.
    root = np.sqrt(cost)
    q, r = np.linalg.qr(np.concatenate([root[:, None] * C, rest / math.sqrt(T)]))
    projected = q[: len(j)].T @ (D * j / root)
    x = np.linalg.solve(r, projected)
    Cx, kept = C @ x, rest @ x
    slope = 2 * float(Cx @ (dD * j)) - float(Cx @ (dcost * Cx))
    slope += float(kept @ kept) * dT / T**2 - 2 * float(kept[1] * dJ * Cx[1]) / T
    return float(projected @ projected), slope
