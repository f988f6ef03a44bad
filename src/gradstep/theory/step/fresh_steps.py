r"""Several steps on fresh samples from a constant readout: what every step does to the spike and the bulk.

After a step all rows are :math:`a\,u` and a bulk of variance c, so that the network is the function
:math:`aM(\kappa)` of the projection :math:`\kappa` on :math:`v=u/|u|`, and the next step sees the residual of that
function. Samples are independent of the rows, so that the law of the next rows is closed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from gradstep.checks import MOST_STEPS, integer
from gradstep.errors import InvalidInput
from gradstep.gaussian import ScalarFunction, gaussian_rule, smoothed
from gradstep.problem import Problem

__all__ = ["FreshStep", "derivative_of", "fresh_steps"]

#: Panel width and nodes of the quadrature over the projection, and over the rest of the teacher's input.
_PANEL, _NODES = 0.5, 8


@dataclass(frozen=True)
class FreshStep:
    """The rows after a step, for a readout ``a`` that all neurons share.

    Attributes
    ----------
    alignment : float
        ``<v, beta*>``.
    spike : float
        ``|u|``: a row has the projection ``a |u|`` on ``v``.
    bulk_variance : float
        Mean square of the rest of a row.
    """

    alignment: float
    spike: float
    bulk_variance: float


@lru_cache(maxsize=64)
def derivative_of(activation: ScalarFunction) -> ScalarFunction:
    """Return the derivative as a function of its own, to which jumps contribute nothing."""
    return ScalarFunction.from_callable(activation.derivative, kinks=activation.kinks)


def fresh_steps(problem: Problem, steps: int) -> tuple[FreshStep, ...]:
    r"""Return the rows after each of several plain steps on fresh samples.

    With the residual :math:`r=f^*(\gamma\kappa+\rho t)-aM(\kappa)`, :math:`e=\eta/\sqrt N` and :math:`\phi_0=d/n_0`

    .. math::

        u\leftarrow u+e\bigl(E[rD\kappa]\,v+E[rD\,t]\,\zeta+\text{noise}\bigr),\qquad
        |\text{noise}|^2=\phi_0E[(r^2+\sigma^2)D^2],

    and :math:`c\leftarrow c\,(1+ea\,E[rD'])^2+e^2a^2\phi_0E[(r^2+\sigma^2)(S-D^2)]`, where M, D, D' and S are the means
    over the bulk of :math:`\sigma,\sigma',\sigma''` and :math:`\sigma'^2` at :math:`a|u|\kappa`.

    Docs, "Several steps", equations (M7) and (M8).

    Parameters
    ----------
    problem : Problem
        With a constant readout and output scale ``"1/N"``. In the limit the exponent of the step is 1/2.
    steps : int
        How many, from one to a million.

    Returns
    -------
    tuple of FreshStep
        To leading order in ``1/d``, after steps 1, 2, ....

    Raises
    ------
    InvalidInput
        For other readouts and output scales, and where the step diverges or vanishes with the width.

    Examples
    --------
    >>> import gradstep as gs
    >>> from gradstep.theory.step.fresh_steps import fresh_steps
    >>> problem = gs.Problem(
    ...     activation="tanh",
    ...     teacher="sin",
    ...     d=500,
    ...     width=500,
    ...     n_step=2000,
    ...     n=1000,
    ...     eta=gs.Step(1.0, exponent=0.5),
    ...     ridge=1.0,
    ...     readout="constant",
    ... )
    >>> [round(step.alignment, 3) for step in fresh_steps(problem, 2)]
    [0.879, 0.954]
    """
    steps = integer("steps", steps, 1, MOST_STEPS)
    if problem.readout.kind != "vocabulary" or len(problem.readout.values) != 1:
        raise InvalidInput("readout", problem.readout.to_plain(), "one value for all neurons, for instance 'constant'")
    if problem.output_scale != "1/N":
        raise InvalidInput("output_scale", problem.output_scale, "'1/N'")
    if problem.is_limit and problem.eta.exponent != 0.5 and problem.eta.coefficient:
        raise InvalidInput("eta", problem.eta, "a step with the exponent 1/2 in the proportional limit")
    rate = problem.eta.coefficient if problem.is_limit else problem.step_size / math.sqrt(problem.real_sizes().width)
    ratio = problem.ratios.d / problem.ratios.n_step
    along, length, variance = 0.0, 0.0, 1.0  # <u, beta*>, |u|, c
    found = []
    for _ in range(steps):
        along, length, variance = _step(problem, rate, ratio, along, length, variance)
        found.append(FreshStep(along / length if length else math.nan, length, variance))
    return tuple(found)


def _step(
    problem: Problem, e: float, phi0: float, along: float, length: float, variance: float
) -> tuple[float, float, float]:
    """Return ``<u, beta*>``, ``|u|`` and ``c`` after one more step."""
    (a,), scale, link = problem.readout.values, math.sqrt(variance), problem.link
    gamma = along / length if length else 1.0  # without a spike any direction will do
    rho = math.sqrt(max(1 - gamma**2, 0.0))
    kappa, weight = (part[:, None] for part in gaussian_rule(resolution=_PANEL, order=_NODES))
    t, t_weight = gaussian_rule(resolution=_PANEL, order=_NODES)
    weight = weight * t_weight
    argument = a * length * kappa
    mean, slopes = (
        smoothed(problem.activation, argument, scale),
        smoothed(derivative_of(problem.activation), argument, scale),
    )
    D, S, bend = slopes.mean, slopes.second_moment, slopes.slope / scale
    r = np.asarray(link(gamma * kappa + rho * t)) - a * mean.mean
    square = r**2 + problem.noise**2

    def average(values: NDArray[np.float64]) -> float:
        return float((weight * values).sum())

    A, B = average(r * D * kappa), average(r * D * t)
    parallel, across = length + e * A, e * B
    noise = e**2 * phi0 * average(square * D**2)
    new_length = math.sqrt(parallel**2 + across**2 + noise)
    rest = variance * (1 + e * a * average(r * bend)) ** 2 + (e * a) ** 2 * phi0 * average(square * (S - D**2))
    return parallel * gamma + across * rho, new_length, rest
