"""What the second degree of a step does on correlated inputs: it moves all rows together, and stretches each of them.

A step moves a row by a function of the initial row ``om_0``. Its part of second degree is, for readout ``a``,

    (a e s_3 / 2) (1/n) sum_mu r_mu (<om_0, z_mu>^2 - 1) P z_mu,      s_3 = E[(z^2 - 1) sigma'],

with ``P = C`` for a plain step. Its mean over ``om_0 ~ N(0, C / d)`` is a part of the spike. The rest of it stretches a
row in proportion to the row's own component along the teacher. Both are as large as the square of that component,
``bt.C.bt / d``, which is ``1/d`` in isotropic inputs and may be ``1/20`` on the leading directions of others. This
project. Docs, "Correlated inputs", equations (C5a), (C5b) and (C5c).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gradstep.problem import Problem
from gradstep.theory.step.correlated_samples import CorrelatedSamples, Turn
from gradstep.theory.step.damped_samples import DampedSamples
from gradstep.theory.step.row_fluctuations import derivative_moments
from gradstep.theory.step.statistics import StepStatistics

__all__ = ["with_second_degree"]


#: Largest moment of an activation's derivative that is rounding.
_ROUNDING = 1e-12


def with_second_degree(problem: Problem, step: StepStatistics, d: float, width: float) -> StepStatistics:
    """Return a step with what its second degree adds to the spike, to the norm, and to the law of the projection.

    Docs, "Correlated inputs", equations (C5a), (C5b) and (C5c).

    Parameters
    ----------
    problem : Problem
        Gives the activation, the size of the step, and whether initial rows are on a sphere.
    step : StepStatistics
        With its spike along the gradient.
    d, width : float
        The sizes.

    Returns
    -------
    StepStatistics
        With its spike along the mean change of the rows. It is the given one in isotropic inputs, without a spike, or
        for an activation with ``s_3 = 0``, such as a ReLU.
    """
    samples, second = step.correlated, derivative_moments(problem.activation).second
    if samples is None or step.spike == 0 or abs(second) < _ROUNDING or np.ptp(samples.spectrum.eigenvalue) == 0:
        return step
    form, bend = _Form.of(samples), problem.eta.size(width) / math.sqrt(width) * second
    c, made = samples.spectrum.eigenvalue, samples.made
    # Over the gain. It is a first order, and is cut where it would be no small part of the spike.
    size = bend / (2 * d * step.gain)
    size /= 1 + (2 * size * (c.max() - 1)) ** 2
    signal = samples.linear + size * (2 * samples.linear * (c - 1) + form.third * (form.component - 1))
    turned = step.along(Turn(made * signal if isinstance(samples, DampedSamples) else signal, np.ones_like(c)))
    # What the stretch has along the spike is no part of the norm.
    off = samples.own_gain - samples.quadratic(samples.stretch[1]) / samples.norm**2 / d
    alike = float(samples.spectrum.share @ made) ** 2 * (1 - 1 / d)
    fluctuations = replace(
        turned.fluctuations,
        bend=bend / 2 * form.along,
        bend_variance=bend**2 / 2 * form.variance(d, sphere=problem.initial_weights == "sphere"),
    )
    norm = (bend * samples.linear) ** 2 * (form.component * off - alike) / d
    return replace(turned, own_component_norm=norm, fluctuations=fluctuations)


class _Form(NamedTuple):
    """The quadratic form in ``om_0`` that the projection on v has, over ``a e s_3 / 2``: ``|theta| + X``.

    Docs, "Correlated inputs", equation (C5c).

    ``X = mu_1 (P v bt^T + bt v^T P) + E[r (u^3 - 3 u)] <bt, P v> bt bt^T``.

    Attributes
    ----------
    third : float
        ``E[r (u^3 - 3 u)]``.
    component : float
        ``bt.C.bt``.
    along : float
        ``v.C (|theta| + X) C.v / (v.C.v)^2``.
    norm : float
        ``|theta|``.
    trace, with_c, square : float
        ``tr X C``, ``tr X C^2`` and ``tr X C X C``.
    """

    third: float
    component: float
    along: float
    norm: float
    trace: float
    with_c: float
    square: float

    @classmethod
    def of(cls, samples: CorrelatedSamples | DampedSamples) -> _Form:
        """Return the form of a step."""
        known, law, made, linear, norm = samples.spectrum, samples.law, samples.made, samples.linear, samples.norm
        c, component = known.eigenvalue, known.teacher_moment(1)
        third = law.mean(law.residual * (law.projection**3 - 3 * law.projection))
        signal = samples.signal if isinstance(samples, DampedSamples) else made * samples.signal
        common = known.teacher * signal / norm
        v_b, v_cb, v_c2b = (float(common @ (made * c**power)) for power in (0, 1, 2))
        v_to_b = float(common @ c)
        own, with_p, with_c, both = (samples.quadratic(x) / norm**2 for x in (c, made * c, c**2, made**2 * c))
        across = third * v_b
        along = norm * with_c + 2 * linear * with_p * v_to_b + across * v_to_b**2
        square = 2 * linear**2 * (v_cb**2 + both * component)
        square += 4 * linear * across * v_cb * component + (across * component) ** 2
        return cls(
            third=third,
            component=component,
            along=along / own**2,
            norm=norm,
            trace=2 * linear * v_cb + across * component,
            with_c=2 * linear * v_c2b + across * known.teacher_moment(2),
            square=square,
        )

    def variance(self, d: float, *, sphere: bool) -> float:
        """Return d times the variance of the form, without that of ``|theta|``."""
        found = 2 * self.norm * (self.with_c - sphere * self.trace) + self.square - sphere * self.trace**2 / d
        return found / d
