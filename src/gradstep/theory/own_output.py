r"""The step of a network whose output at initialisation is of order one (``output_scale = "1/sqrt(N)"``).

The linear part of that output is ``mu_1 <b, x>`` with ``b = W_0^T a / sqrt(N)``: a sum of all rows of the first layer.
The residual holds it, so that the gradient points partly along ``b``, and with it along every row that it is added to.
Given ``b`` the rows are independent again::

    W_0 = a b^T / (sqrt(N) E a^2) + (1 - a a^T / |a|^2) G,

``G`` being a copy of the first layer that knows nothing of ``b``. With ``e = eta / sqrt(N)`` and ``g = g' - mu_1 b``,
where ``g'`` has the teacher and the step's samples, the rank-one part of the step is ``e E[sigma'] a g^T``. Together::

    W_1 = a u^T + (1 - a a^T / |a|^2) G + ...,      u = (1 / (sqrt(N) E a^2) - e E[sigma'] mu_1) b + e E[sigma'] g':

one spike, along ``u``, on rows whose component along the readout is gone.

Of an activation with a mean the output has a constant too, ``E[sigma] sum_i a_i / sqrt(N)``: it is of order one,
another in each draw of a Gaussian readout, and the step takes it for a mean of the labels. Errors are averaged over it.
This project.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gradstep.gaussian import moments
from gradstep.problem import Problem
from gradstep.theory.groups import RowLaw
from gradstep.theory.step import StepStatistics

__all__ = ["given_own_output", "independent_rows", "left_of_output", "output_constants"]

Array = NDArray[np.float64]

#: Nodes of the average over the output's constant, where it is less than the rest of the residual and where it is more.
_NODES, _MORE_NODES = 5, 9
#: Standard deviations of the constant that are covered; beyond lies less than 1e-7 of its mean square.
_RANGE = 6.0
#: A mean of the activation below the smallest is rounding.
_NO_MEAN = 1e-12


def output_constants(problem: Problem, refine: int = 1) -> list[tuple[float, float | None]]:
    """Return nodes of the law of the constant in the initial output, over which a prediction is averaged.

    Parameters
    ----------
    problem : Problem
    refine : int
        Multiplies the number of nodes.

    Returns
    -------
    list of (float, float or None)
        Probabilities, and constants for `gradstep.theory.step.step_statistics`, of the law ``N(0, E[a^2] E[sigma]^2)``.
        One None without a step, or where there is no such constant.
    """
    if problem.output_scale == "1/N" or problem.readout.kind == "vocabulary" or problem.eta.coefficient == 0:
        return [(1.0, None)]
    activation, teacher, power = moments(problem.activation), moments(problem.teacher), problem.readout.second_moment
    if abs(activation.mean) < _NO_MEAN:
        return [(1.0, None)]
    square = power * activation.mean**2
    rest = teacher.second_moment - teacher.mean**2 + problem.noise**2 + power * activation.second_moment - square
    count = refine * (_MORE_NODES if square > rest else _NODES)
    # All turns where the mean of the residual vanishes, within the size of the rest.
    scale = math.sqrt(max(rest, 1e-6 * square))
    constants, weights = _gaussian_rule_in_asinh(math.sqrt(square), teacher.mean, scale, count)
    return list(zip(weights.tolist(), constants.tolist(), strict=True))


def _gaussian_rule_in_asinh(deviation: float, centre: float, scale: float, count: int) -> tuple[Array, Array]:
    """Return the Gaussian rule of ``N(0, deviation^2)`` for functions of an angle.

    It is exact for polynomials in ``asinh((x - centre) / scale)``: in `x` itself near the centre, in its logarithm far
    from it. Powers of `x` are exponentials there: the second moment is exact to 1e-5 with nine nodes, and to 1e-4 with
    five where `scale` is above `deviation`.
    """
    low, high = (math.asinh((end * _RANGE * deviation - centre) / scale) for end in (-1, 1))
    # The trapezoidal rule: smooth, and nothing at the ends.
    fine = np.linspace(-1, 1, 64 * count)
    half, middle = (high - low) / 2, (high + low) / 2
    angles = middle + half * fine
    root = np.sqrt(np.cosh(angles)) * np.exp(-np.square((centre + scale * np.sinh(angles)) / deviation) / 4)
    # Golub and Welsch: nodes are the eigenvalues of the multiplication by the angle, among polynomials of low degree.
    basis, _ = np.linalg.qr(root[:, None] * np.polynomial.chebyshev.chebvander(fine, count - 1))
    nodes, vectors = np.linalg.eigh(basis.T @ (fine[:, None] * basis))
    return centre + scale * np.sinh(middle + half * nodes), np.square(vectors[0])


def independent_rows(
    problem: Problem, literal: StepStatistics, width: float, rows: RowLaw
) -> tuple[StepStatistics, float]:
    """Return the step for independent rows, and the factor of their bulk along the readout at initialisation.

    The spiked random features model has no such factor, but for an output of order one.
    """
    step = given_own_output(problem, literal, width)
    return step, step.readout_shrinkage if rows == "network" or step is not literal else 1.0


def left_of_output(problem: Problem, step: StepStatistics, width: float) -> float:
    """Return the component of ``u`` along ``b``, over ``b``: what was there, less what the step takes back."""
    before = 1 / (math.sqrt(width) * problem.readout.second_moment)
    return before - step.spike / step.gradient_norm * moments(problem.activation).linear


def given_own_output(problem: Problem, step: StepStatistics, width: float) -> StepStatistics:
    """Return the step in the form that holds for independent rows: a spike along ``u``.

    Parameters
    ----------
    problem : Problem
    step : StepStatistics
        The step itself, its spike along the gradient.
    width : float

    Returns
    -------
    StepStatistics
        With the `alignment` of ``u``, a `spike` and an `initial_overlap` that sum to ``|u|``, and a `readout_shrinkage`
        of zero; `step` itself where the initial output is small or the step has no spike. What concerns the bulk is
        left as it is along the gradient: it matters once the step is of order ``sqrt(N)``, and then ``u`` is along it.
    """
    if problem.output_scale == "1/N" or step.spike == 0:
        return step
    activation, power = moments(problem.activation), problem.readout.second_moment
    gain = step.spike / step.gradient_norm
    along_output = left_of_output(problem, step, width)
    without_output = step.gradient_norm**2 - activation.linear**2 * power
    norm = math.sqrt(along_output**2 * power + gain**2 * without_output)
    overlap = along_output / (math.sqrt(width) * norm)
    return replace(
        step,
        alignment=gain * step.alignment * step.gradient_norm / norm,
        spike=norm - overlap,
        initial_overlap=overlap,
        readout_shrinkage=0.0,
    )
