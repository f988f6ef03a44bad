"""The second degree of a step on correlated inputs, which moves all rows together and stretches each of them.

A step moves a row by a function of the initial row ``om_0``. Its part of second degree is, for readout ``a``,

    (a e s_3 / 2) (1/n) sum_mu r_mu (<om_0, z_mu>^2 - 1) P z_mu,      s_3 = E[(z^2 - 1) sigma'],

with ``P = C`` for a plain step. Its mean over ``om_0 ~ N(0, C / d)`` is a part of the spike. The rest of it stretches a
row in proportion to the row's own component along the teacher. Both are as large as the square of that component,
``bt.C.bt / d``, which is ``1/d`` in isotropic inputs and may be ``1/20`` on the leading directions of others. This
project. Docs, "Correlated inputs", equations (C6), (C6a) and (C7) to (C8c).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gradstep.problem import Problem
from gradstep.resolution import NOTHING
from gradstep.theory.step.correlated_samples import CorrelatedSamples, Turn
from gradstep.theory.step.damped_samples import DampedSamples
from gradstep.theory.step.row_fluctuations import ROUNDING, derivative_moments
from gradstep.theory.step.statistics import StepStatistics

__all__ = ["with_second_degree"]

#: Sine between bt and v below which nothing of bt is left beside v.
_ALIGNED = 1e-6

Array = NDArray[np.float64]
_Vector: TypeAlias = tuple[float, float, float, float]


def with_second_degree(problem: Problem, step: StepStatistics, d: float, width: float) -> StepStatistics:
    """Return a step with what its second degree adds to the spike, to the norm, and to the law of the projection.

    The given step has its spike along the gradient, the one returned along the mean change of the rows. Both are the
    same without a step, in plain steps on isotropic inputs, and for an activation with ``s_3 = 0``, such as a ReLU.

    Docs, "Correlated inputs", equations (C6), (C7) and (C8) to (C8c).
    """
    samples, sphere = step.correlated, problem.initial_weights == "sphere"
    second = derivative_moments(problem.activation).second
    size = problem.eta.size(width) / math.sqrt(width) * (second if abs(second) > ROUNDING else 0.0)
    if samples is None or size == 0 or samples.law.square == 0:
        return step
    turned, known, made = step, samples.spectrum, samples.made
    if step.gain and np.ptp(known.eigenvalue):
        turned = step.along(_turn(samples, size / (2 * d), step.gain))
        assert turned.correlated is not None
        samples = turned.correlated
    form, alike = _Form.of(samples), _Form.of_isotropic(samples)
    # The norm is that of the part off the spike, so the stretch along the spike does not count.
    off_spike = samples.own_gain - samples.quadratic(samples.stretch[1]) / samples.norm**2 / d
    in_isotropic = float(known.share @ made) ** 2 * (1 - 1 / d)
    norm = (size * samples.linear) ** 2 * (form.component * off_spike - in_isotropic) / d
    vector = _row_vector(form.vector(d, sphere=sphere), alike.vector(d, sphere=sphere), size**2 / 2)
    fluctuations = replace(
        turned.fluctuations,
        # The sum with `spike_variance` must stay positive, also where isotropic inputs have more.
        bend_variance=max(
            size**2 / 2 * (form.variance(d, sphere=sphere) - alike.variance(d, sphere=sphere)),
            -turned.fluctuations.spike_variance / 2,
        ),
        bend_third=(
            3 * size * (form.along - alike.along),
            size**3 * (form.third_moment(d, sphere=sphere) - alike.third_moment(d, sphere=sphere)),
        ),
        bend_vector=vector,
        bend_rest=_along_rest(samples, vector),
        bend_norm=(norm * size * form.of_teacher(d, sphere=sphere) / form.component, 2 * d * norm**2),
    )
    return replace(turned, own_component_norm=norm, fluctuations=fluctuations)


def _row_vector(vector: _Vector, alike: _Vector, factor: float) -> _Vector:
    """Return `_Form.vector` times a factor, less its value `alike` for isotropic inputs.

    There ``P bt``, ``P C bt`` and ``P C^2 bt`` are the same vector, and ``P C P v`` has no part off the spike.
    """
    bt, once, twice, spike = vector
    bt -= sum(alike[:3])
    return factor * bt, factor * once, factor * twice, factor * spike


def _along_rest(samples: CorrelatedSamples | DampedSamples, vector: _Vector) -> float:
    """Return the component of `RowFluctuations.bend_vector` along the part of bt that is orthogonal to v."""
    known, c, p, cosine = samples.spectrum, samples.spectrum.eigenvalue, samples.made, samples.alignment
    sine = math.sqrt(max(1 - cosine**2, 0.0))
    if sine < _ALIGNED:
        return 0.0
    common = _common(samples)
    of_teacher, of_spike = p * sum(k * c**power for power, k in enumerate(vector[:3])), vector[3] * p**2 * c
    along = float(known.teacher @ of_teacher + common @ of_spike)
    taken = float(common @ of_teacher) + samples.quadratic(of_spike) / samples.norm**2
    return (along - cosine * taken) / sine


def _turn(samples: CorrelatedSamples | DampedSamples, first: float, gain: float) -> Turn:
    """Return the mean change of the rows over that of the gradient, in each class: equation (C6).

    It is a first order in ``first / gain``, and is cut where it would be no small part of the spike.
    """
    known, law = samples.spectrum, samples.law
    more, beyond = known.eigenvalue - 1, known.teacher_moment(1) - 1
    # Scaled so that a tiny gain leaves numbers.
    most = 2 * abs(first) * more.max()
    scale = max(abs(gain), most)
    factor = first / scale * (gain / scale) / ((gain / scale) ** 2 + (most / scale) ** 2)
    if isinstance(samples, DampedSamples):
        return _damped_turn(samples, factor)
    signal = samples.linear + factor * (2 * samples.linear * more + _third(samples) * beyond)
    return Turn(signal, np.maximum(1 + factor * (2 * more + _fourth(samples) / law.square), 0.0))


def _damped_turn(samples: DampedSamples, factor: float) -> Turn:
    """Return the same for a damped step, whose metric knows which samples have more weight.

    Docs, "Correlated inputs", equation (C6a).
    """
    known, law, linear, kept, ratio = samples.spectrum, samples.law, samples.linear, samples.kept, samples.ratio
    more, beyond, third = known.eigenvalue - 1, known.teacher_moment(1) - 1, _third(samples)
    taken, shared = (ratio * float(known.share @ (more * kept**power)) for power in (1, 2))
    signal = samples.made * (linear + factor * (2 * linear * (more - taken) + third * beyond))
    # The ridge regression of the step leaves e of a residual r. With the weights s of the noise, `square` is E[e r] and
    # `of_noise` is E[e s]. `weighted` is h of the equation.
    lost, left = float(known.teacher @ (1 - kept)), law.mean((law.residual - linear * law.projection) ** 2)
    weighted = _fourth(samples) - linear * third * beyond * float(known.teacher @ (kept * (2 - kept)))
    for direction in samples.directions:
        weighted -= 2 * direction.linear**2 * float(direction.part @ (kept * (more + (1 - kept) * (more - taken))))
    for direction in samples.directions[1:]:
        left -= direction.linear**2 * float(direction.part @ kept)
    square, of_noise = left + linear**2 * lost, left + (linear * lost) ** 2 * samples.left
    of_all = (2 * square * (shared - 2 * taken) + weighted) / max(samples.missed, NOTHING)
    of_class = 2 * square * (1 - samples.freedom) / max(samples.missed, NOTHING)
    # A change of the noise in one class, which P turns into others, makes a mean change too.
    shape = 2 * square / max(of_noise, NOTHING) * samples.left * more
    whole, along = samples.noise(np.ones_like(more)), samples.noise(more)
    up, down = (replace(samples, turn=Turn(signal, 1 + x)).noise(np.ones_like(more)) for x in (shape, -shape))
    noise = shape + of_all + (of_class * along - (up - down) / 4) / max(whole, NOTHING)
    return Turn(signal, np.maximum(1 + factor * noise, 0.0))


def _fourth(samples: CorrelatedSamples | DampedSamples) -> float:
    """Return ``E[r^2 (z.(C - 1).z - tr (C - 1))]``, the covariance of a squared residual with a sample's length."""
    law, known = samples.law, samples.spectrum
    found = law.mean(law.residual**2 * (law.projection**2 - 1)) * (known.teacher_moment(1) - 1)
    if samples.own is not None:
        found += 2 * samples.own.linear**2 * (known.moment(2) - 1)
    return found


def _third(samples: CorrelatedSamples | DampedSamples) -> float:
    """Return ``E[r (u^3 - 3 u)]``."""
    law = samples.law
    return law.mean(law.residual * (law.projection**3 - 3 * law.projection))


class _Form(NamedTuple):
    """The quadratic form W in ``om_0`` that the projection on v has, over ``a e s_3 / 2``.

    ``W = |theta| 1 + X`` with ``X = U K U^T`` and ``U = (bt, P v)``. Docs, "Correlated inputs", equation (C8).
    """

    norm: float  # ``|theta|``.
    third: float  # ``E[r (u^3 - 3 u)]``.
    coupling: Array  # K.
    among: Array  # ``U^T C^k U`` for k = 1, 2, 3, shape (3, 2, 2).
    along: float  # ``v.C W C.v``.
    cubes: tuple[float, float]  # ``<c^3>`` and ``<(c - 1)^3>``.

    @classmethod
    def of(cls, samples: CorrelatedSamples | DampedSamples) -> _Form:
        """Return the form of a step."""
        known, p, norm, third = samples.spectrum, samples.made, samples.norm, _third(samples)
        c, common = known.eigenvalue, _common(samples)

        def of_spike(values: Array) -> float:
            return samples.quadratic(values) / norm**2

        coupling = _coupling(samples.linear, third, float(common @ p))
        among = np.array(
            [
                [[known.teacher_moment(k), common @ (p * c**k)], [common @ (p * c**k), of_spike(p**2 * c**k)]]
                for k in (1, 2, 3)
            ]
        )
        across = np.array([float(common @ c), of_spike(p * c)])
        along = norm * of_spike(c**2) + across @ coupling @ across
        cubes = known.moment(3), float(known.share @ (c - 1) ** 3)
        return cls(norm, third, coupling, among, float(along), cubes)

    @classmethod
    def of_isotropic(cls, samples: CorrelatedSamples | DampedSamples) -> _Form:
        """Return the form of isotropic inputs with the same spike, which leave it out."""
        p, cosine, third = float(samples.spectrum.share @ samples.made), samples.alignment, _third(samples)
        coupling, across = _coupling(samples.linear, third, p * cosine), np.array([cosine, p])
        among = np.tile([[1.0, p * cosine], [p * cosine, p**2]], (3, 1, 1))
        along = samples.norm + across @ coupling @ across
        return cls(samples.norm, third, coupling, among, float(along), (1.0, 0.0))

    def variance(self, d: float, *, sphere: bool) -> float:
        """Return d times the variance of the form, without that of ``|theta|``."""
        once, twice, _ = self.coupling @ self.among
        found = 2 * self.norm * np.trace(twice - sphere * once) + np.trace(once @ once)
        return float(found - sphere * np.trace(once) ** 2 / d) / d

    def third_moment(self, d: float, *, sphere: bool) -> float:
        """Return ``d^2 / 8`` times the third central moment of the form, to leading order."""
        once, twice, thrice = self.coupling @ self.among
        # Rows on the sphere have the same ``om_0.C^-1.om_0``, so that C counts as C - 1.
        linear, square = np.trace(thrice), np.trace(twice @ once)
        if sphere:
            linear, square = linear + np.trace(once - 2 * twice), square - np.trace(once @ once)
        found = self.norm**3 * d * self.cubes[sphere] + 3 * self.norm**2 * linear + 3 * self.norm * square
        return float(found + np.trace(once @ once @ once)) / d

    @property
    def component(self) -> float:
        """The product ``bt.C.bt``."""
        return float(self.among[0, 0, 0])

    def mean(self, d: float) -> float:
        """Return the mean of the form, ``tr W C / d``. Of rows on the sphere this part does not fluctuate."""
        return self.norm + float(np.trace(self.coupling @ self.among[0])) / d

    def of_teacher(self, d: float, *, sphere: bool) -> float:
        """Return ``bt.C W C.bt``, of rows on the sphere with W less a multiple of ``C^-1``."""
        across = self.among[0, 0]
        found = float(self.norm * self.among[1, 0, 0] + across @ self.coupling @ across)
        return found - sphere * self.mean(d) * self.component

    def vector(self, d: float, *, sphere: bool) -> _Vector:
        """Return the covariance of the form with the second degree of a row off the spike.

        These are the coefficients of ``P bt``, ``P C bt``, ``P C^2 bt`` and ``P C P v``. Docs, "Correlated inputs",
        equation (C8a).
        """
        linear = 2 * float(self.coupling[0, 1])
        of_bt, of_spike = self.coupling @ self.among[0, 0]
        once = float(of_bt) - sphere * self.mean(d)
        of_teacher = self.of_teacher(d, sphere=sphere)
        return self.third * of_teacher, linear * once, linear * self.norm, linear * float(of_spike)


def _common(samples: CorrelatedSamples | DampedSamples) -> Array:
    """Return the products of bt and v in each class of directions."""
    return samples.spectrum.teacher * samples.taught / samples.norm


def _coupling(linear: float, third: float, with_teacher: float) -> Array:
    """Return K of `_Form`, with ``mu_1*``, ``E[r (u^3 - 3 u)]`` and ``bt.P.v``."""
    return np.array([[third * with_teacher, linear], [linear, 0.0]])
