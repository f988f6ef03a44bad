r"""The direction of a damped step: the gradient times ``(1 + delta) (X^T X / n_step + delta)^-1``.

Without the nonlinear part of the network the common direction of the gradient is then a ridge regression of the
residuals on the inputs, whose deterministic equivalents are known for every spectrum of the inputs. What the step does
besides to single rows is rational in two matrices of the same samples and is open: errors of damped steps are measured
only. This project.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from gradstep.errors import InvalidInput
from gradstep.gaussian import moments
from gradstep.problem import Problem, link_of
from gradstep.theory.equivalent.tables import sizes_of
from gradstep.theory.step.correlated_samples import Spectrum
from gradstep.theory.step.statistics import step_statistics
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
        \gamma=\mu_1^*\sum\frac{\tau c}{c+\kappa}\,/\,|\theta|.

    Docs, "Correlated inputs", equation (C11).

    Parameters
    ----------
    problem : Problem
        With a finite damping, samples of the step and output scale ``"1/N"``; of isotropic or correlated inputs.

    Returns
    -------
    DampedDirection

    Raises
    ------
    InvalidInput
        Without a damping, or with an initial output of order one.
    """
    delta = problem.damping
    if not delta < math.inf:
        raise InvalidInput("damping", delta, "a finite number: gradstep.predict has the direction of the plain step")
    if problem.output_scale != "1/N":
        raise InvalidInput("output_scale", problem.output_scale, "'1/N' for a damped step")
    d, width, n_step, *_ = sizes_of(problem)
    plain = step_statistics(problem.replace(damping=math.inf), d, width, n_step)
    one = np.ones(1)
    known = plain.correlated.spectrum if plain.correlated else Spectrum(one, one, one)
    c, ratio = known.eigenvalue, d / n_step
    law = residual_law(link_of(problem.teacher), plain.residual_offset, plain.residual_noise)
    linear = moments(link_of(problem.teacher)).linear
    rest = law.square - linear**2

    def gap(log_ridge: float) -> float:
        ridge = math.exp(log_ridge)
        return ridge * (1 - ratio * float(known.share @ (c / (c + ridge)))) - delta

    # The effective ridge is above the damping, and at most the sum of both terms.
    ridge = (
        math.exp(brentq(gap, math.log(delta) - 1e-9, math.log(delta + ratio) + 1e-9, xtol=1e-14))
        if ratio > 0
        else delta
    )
    kept = c / (c + ridge)
    freedom = ratio * float(known.share @ kept**2)
    overlap = linear * float(known.teacher @ kept)
    # Its mean, and the noise that the residuals make which it leaves of the population.
    missed = rest + linear**2 * float(known.teacher @ (1 - kept) ** 2)
    square = linear**2 * float(known.teacher @ kept**2) + freedom / (1 - freedom) * missed
    # The network's own output adds the direction of the sum of all rows, of order N^-1/2.
    own = plain.own_gradient**2 / known.moment(3) * float(known.share @ (c * kept**2))
    norm = math.sqrt(square + own)
    e = problem.eta.size(width) / math.sqrt(width)
    whole = (1 + delta) * norm
    return DampedDirection(
        overlap / norm if norm > 0 else 1.0, whole, e * moments(problem.activation).derivative_mean * whole
    )
