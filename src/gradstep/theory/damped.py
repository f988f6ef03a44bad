r"""The direction of a damped step: the gradient times ``(1 + delta) (X^T X / n_step + delta)^-1``.

Without the nonlinear part of the network the common direction of the gradient is then a ridge regression of the
residuals on the inputs, whose deterministic equivalents are known for every spectrum of the inputs
(`gradstep.theory.step.damped_samples`). Errors after a damped step are those of `gradstep.predict`. This project.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from gradstep.errors import InvalidInput
from gradstep.gaussian import moments
from gradstep.problem import Problem, link_of
from gradstep.theory.equivalent.tables import sizes_of
from gradstep.theory.step.correlated_samples import ISOTROPIC, CorrelatedSamples
from gradstep.theory.step.damped_samples import DampedSamples
from gradstep.theory.step.statistics import LEAST_RATIO, step_statistics
from gradstep.theory.step.weighted_samples import residual_law

__all__ = ["DampedDirection", "damped_direction"]


class DampedDirection(NamedTuple):
    """The part of a damped step that all neurons share.

    Attributes
    ----------
    alignment : float
        Correlation of an input's projection on the direction with that on the teacher's.
    gradient_norm : float
        Standard deviation of the projection of an input on the damped gradient.
    spike : float
        The same for what the step adds to a neuron of readout one: the gradient's, times ``e E[sigma']``.
    """

    alignment: float
    gradient_norm: float
    spike: float


def damped_direction(problem: Problem) -> DampedDirection:
    r"""Return the common direction of a damped step.

    With the effective ridge :math:`\kappa`, the weights :math:`\tau` of the teacher and means
    :math:`\langle\cdot\rangle` over the eigenvalues c of the inputs' covariance

    .. math::

        \delta=\kappa\Bigl(1-\phi_0\left\langle\frac c{c+\kappa}\right\rangle\Bigr),\qquad
        \gamma=\frac{(1+\delta)\,\mu_1^*}{|\theta|}\sum\frac{\tau c}{c+\kappa}.

    The problem has a finite damping and samples of the step, on isotropic or correlated inputs. Raises `InvalidInput`
    without a damping, or if an initial output of order one diverges with the width.

    Docs, "Damped steps", equation (N1).
    """
    delta = problem.damping
    if not delta < math.inf:
        raise InvalidInput("damping", delta, "a finite number: gradstep.predict has the direction of the plain step")
    d, width, n_step, *_ = sizes_of(problem)
    if problem.output_scale != "1/N":
        step = step_statistics(problem, d, width, n_step)
        return DampedDirection(step.alignment, step.gradient_norm, step.gain * step.gradient_norm)
    plain = step_statistics(problem.replace(damping=math.inf), d, width, n_step)
    known = plain.correlated.spectrum if plain.correlated else ISOTROPIC
    link = link_of(problem.teacher)
    law = residual_law(link, plain.residual_offset, plain.residual_noise)
    undamped = CorrelatedSamples(law, max(d / n_step, LEAST_RATIO), moments(link).linear, known)
    samples = DampedSamples(undamped, problem.damping)
    # The network's own output adds the direction of the sum of all rows, of order N^-1/2.
    own = plain.own_gradient**2 / undamped.own_gain * samples.own_gain
    whole = math.sqrt(samples.norm**2 + own)
    alignment = samples.alignment * samples.norm / whole if whole > 0 else 1.0
    e = problem.eta.size(width) / math.sqrt(width)
    return DampedDirection(alignment, whole, e * moments(problem.activation).derivative_mean * whole)
