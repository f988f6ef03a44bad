"""The spike of a step and the nodes of its samples, for the equations of the weights.

The spike is a rank-one part of the layer along the readout, `Spike`. It holds what the step adds and what it takes back
of the initial weights. This project.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradstep.gaussian import gaussian_rule, hermite_rule, moments
from gradstep.problem import Problem, link_of
from gradstep.theory.step.correlated_output import ClassMeanRow
from gradstep.theory.step.correlated_samples import CorrelatedSamples, Spectrum
from gradstep.theory.step.damped_samples import DampedSamples
from gradstep.theory.step.own_output import MeanRow
from gradstep.theory.step.statistics import StepStatistics
from gradstep.theory.step.weighted_samples import largest_residual

__all__ = ["Direction", "SampleNodes", "Spike", "sample_nodes", "spike_of"]

Array = NDArray[np.float64]

#: Nodes for the label noise, which enters through a rational function.
_NOISE_NODES = 16
#: Panels of the projections, without and with label noise, which has nodes of its own. In the tail of an unbounded law
#: each node must weigh less than a sample of the step, or the density there falls apart into one band a node.
_PANEL, _PANEL_WITH_NOISE = 0.06, 0.125
#: Nodes that weigh less are left out.
_LEAST_WEIGHT = 1e-13


class SampleNodes(NamedTuple):
    """Nodes of the law of a sample of the step."""

    weight: Array  #: They sum to one, shape (nodes,).
    #: Mean projections, given the residual, on the fixed directions: the teacher's whitened one and, after an initial
    #: output of order one, ``b = W_0^T a``. Shape (fixed, nodes).
    projection: Array
    spread: Array  #: Variances of these given the residual, shape (fixed,).
    #: ``r``, and ``r^2`` normalised. Shape (nodes,).
    residual: Array
    omega: Array
    summed: Array  #: Weights of the samples in the sum of which a `Direction` is made, shape (nodes,).

    @property
    def square(self) -> float:
        """``E r^2``."""
        return float(self.weight @ self.residual**2)


class Direction(NamedTuple):
    """A unit vector in input space, made of the fixed directions and of ``P C^(1/2)`` times a sum of the samples."""

    #: Factors of the fixed directions in each class, without and with ``P C^(1/2)``. Shape (fixed, classes).
    outer: Array
    inner: Array
    #: Factor of ``P C^(1/2)`` times the sum of the samples over their number, orthogonal to the fixed directions.
    sampled: float

    @classmethod
    def of(cls, *, outer: ArrayLike = 0.0, inner: ArrayLike = 0.0, sampled: float = 0.0, classes: int = 1) -> Direction:
        """Return a vector of parts that need not be given for each class, nor be there at all."""
        parts = [np.atleast_1d(np.asarray(values, dtype=np.float64)) for values in (outer, inner)]
        parts = [values if values.ndim == 2 else values[:, None] for values in parts]
        shape = max(map(len, parts)), classes
        return cls(np.broadcast_to(parts[0], shape), np.broadcast_to(parts[1], shape), sampled)

    def times(self, factor: float) -> Direction:
        """Return a multiple of the vector."""
        return Direction(factor * self.outer, factor * self.inner, factor * self.sampled)

    @property
    def apart(self) -> Direction:
        """The vector in isotropic inputs, with the sum of the samples as one more fixed direction."""
        whole = (self.outer + self.inner)[:, 0]
        rest = math.sqrt(max(1 - float(whole @ whole), 0.0)) if self.sampled else 0.0
        return Direction.of(outer=[*whole, rest])


class Spike(NamedTuple):
    """The rank-one part that the step adds along the readout."""

    strength: float  #: Squared operator norm.
    #: Directions of the spike and of ``X^T (y - f)``, which differ if the initial output is of order one.
    direction: Direction
    gradient: Direction
    teacher: Direction  #: The teacher's direction.
    shrink: float  #: Multiple of the initial weights along the readout that is taken back.
    part: Array  #: Parts of the fixed directions in the classes of the inputs' directions, shape (fixed, classes).
    #: Part of the initial weights along the readout that is taken back in each class, for each unit of `shrink`.
    #: Shape (classes,).
    returned: Array | None = None

    def beside_output(self, known: Spectrum) -> Spike:
        """Return a spike along the gradient with ``f / |f|`` as a second fixed direction, of which it has nothing."""
        gradient, teacher = (
            Direction(np.repeat(each.outer, 2, axis=0), np.repeat(each.inner, 2, axis=0), each.sampled)
            for each in (self.gradient, self.teacher)
        )
        for rows in (gradient.outer, gradient.inner, teacher.outer, teacher.inner):
            rows[1] = 0
        part = np.concatenate([self.part, (known.share * known.eigenvalue)[None]])
        return self._replace(direction=gradient, gradient=gradient, teacher=teacher, part=part)

    @property
    def apart(self) -> Spike:
        """The spike beside a bulk that is independent of the samples: their sum is one more fixed direction."""
        direction, gradient, teacher = (vector.apart for vector in (self.direction, self.gradient, self.teacher))
        return self._replace(
            direction=gradient if self.direction is self.gradient else direction,
            gradient=gradient,
            teacher=teacher,
            part=np.ones((len(gradient.outer), 1)),
        )


def spike_of(problem: Problem, step: StepStatistics, width: float) -> Spike:
    """Return the spike of the step."""
    if step.correlated is not None and step.correlated.own is not None:
        return _spike_with_output(problem, step, width)
    if step.correlated is not None:
        samples = step.correlated
        if isinstance(samples, DampedSamples):
            spike = _damped_spike(problem, step, samples, width)
        else:
            spike = _correlated_spike(problem, step, samples, width)
        # An output of order one may have no linear part.
        return spike if _fixed(problem) == 1 else spike.beside_output(samples.spectrum)
    norm, power = step.gradient_norm, problem.readout.second_moment
    if problem.output_scale == "1/N" or moments(problem.activation).linear == 0:
        # Labels without a linear part leave a population step no gradient.
        along = np.eye(_fixed(problem))[0]
        gradient = Direction.of(inner=step.alignment * along, sampled=1 / norm if norm > 0 else 0.0)
        strength, part = step.spike**2 * width * power, np.ones((len(along), 1))
        return Spike(strength, gradient, gradient, Direction.of(outer=along), 1 - step.readout_shrinkage, part)
    # The spike is all of the mean row, and nothing of the initial weights is left along the readout.
    # The bulk is that of the proportional limit, and so is what stretches the mean row.
    row = MeanRow.of(problem, replace(step, own_drift=(0.0, 0.0)), width)
    total = float(np.linalg.norm(row.after))
    whole = row.taught - row.slope * row.output
    # A population gradient has no part along the samples.
    by_samples = row.after[2] / row.taught[2] if row.taught[2] > 0 else row.gain
    return Spike(
        total**2 * width * power,
        Direction.of(inner=row.after[:2] / total, sampled=by_samples / total),
        Direction.of(inner=whole[:2] / norm, sampled=1 / norm),
        Direction.of(outer=[1.0, 0.0]),
        row.stretch,
        np.ones((2, 1)),
    )


def _correlated_spike(problem: Problem, step: StepStatistics, samples: CorrelatedSamples, width: float) -> Spike:
    """Return the spike of a plain step on correlated inputs, in the inputs' own coordinates."""
    c, power, norm = samples.spectrum.eigenvalue, problem.readout.second_moment, math.sqrt(samples.form(1))
    gradient = Direction.of(inner=samples.linear / norm, sampled=1 / norm, classes=len(c))
    # Nothing is along directions without variance.
    inward = np.divide(1.0, np.sqrt(c), out=np.zeros_like(c), where=c > 0)
    teacher = Direction.of(outer=(inward / math.sqrt(inward**2 @ samples.spectrum.teacher))[None], classes=len(c))
    taken = step.gain * moments(problem.activation).linear * power
    strength = (step.gain * norm) ** 2 * width * power
    return Spike(strength, gradient, gradient, teacher, taken, samples.spectrum.teacher[None])


def _damped_spike(problem: Problem, step: StepStatistics, samples: DampedSamples, width: float) -> Spike:
    """Return the spike of a damped step: its directions are made of the vectors of `DampedSamples.sources`."""
    power, one, source = problem.readout.second_moment, np.ones_like(samples.divisor), samples.sources
    norm, inward = math.sqrt(samples.quadratic(1 / samples.divisor)), 1 / np.sqrt(samples.divisor)
    off, classes = samples.off_teacher, len(one)
    along = (samples.with_teacher(one) + off * source.directly) / norm
    inner = (off / norm * source.inner)[None]
    gradient = Direction.of(outer=(along * inward)[None], inner=inner, sampled=off / norm, classes=classes)
    length = math.sqrt(float(samples.spectrum.teacher @ (1 / samples.divisor)))
    taken = step.gain * moments(problem.activation).linear * power
    strength = (step.gain * norm) ** 2 * width * power
    teacher = Direction.of(outer=(inward / length)[None], classes=classes)
    return Spike(strength, gradient, gradient, teacher, taken, samples.spectrum.teacher[None])


def _spike_with_output(problem: Problem, step: StepStatistics, width: float) -> Spike:
    """Return the spike of a step with an own output of order one, on correlated inputs or damped.

    It is all of the mean row, as in isotropic inputs: the fixed directions are bt and ``f / |f|``.
    """
    # The bulk is that of the proportional limit, and so is what stretches the mean row.
    assert step.correlated is not None
    alone = replace(step, own_drift=(0.0, 0.0), correlated=step.correlated.without_output)
    row = ClassMeanRow.of(problem, alone, width)
    samples, c, length = row.samples, row.samples.spectrum.eigenvalue, math.sqrt(row.power)
    inward, none = np.divide(1.0, np.sqrt(c), out=np.zeros_like(c), where=c > 0), np.zeros_like(c)
    outer, inner, sampled = none, np.full_like(c, samples.linear), 1.0
    if isinstance(samples, DampedSamples):
        # Those of the mean direction, to which the output is noise.
        samples = replace(samples, turn=None)
        sampled, one = samples.off_teacher, np.ones_like(c)
        outer = (samples.with_teacher(one) + sampled * samples.sources.directly) * inward
        inner = sampled * samples.sources.inner
    own = np.full_like(c, -row.slope * length)
    gradient = Direction.of(
        outer=np.stack([outer, none]), inner=np.stack([inner, own]), sampled=sampled, classes=len(c)
    )
    norm, total = (
        math.sqrt(row.input_square(1.0, -row.slope * samples.made)),
        math.sqrt(row.input_square(row.gain, row.left)),
    )
    mean = gradient.times(row.gain)
    mean = mean._replace(outer=mean.outer + np.stack([none, length * row.before * inward]))
    teacher = inward / math.sqrt(inward**2 @ samples.spectrum.teacher)
    return Spike(
        total**2 * width * row.power,
        mean.times(1 / total),
        gradient.times(1 / norm),
        Direction.of(outer=np.stack([teacher, none]), classes=len(c)),
        1.0,
        np.stack([samples.spectrum.teacher, row.part]),
        row.before / row.unit,
    )


def _fixed(problem: Problem) -> int:
    """Return the number of fixed directions."""
    return 1 if problem.output_scale == "1/N" else 2


def sample_nodes(problem: Problem, step: StepStatistics) -> SampleNodes:
    """Return nodes of the joint law of a sample's projections and its residual ``y - f``.

    An initial output of order one is Gaussian noise in it, of which ``mu_1 <b, x>`` is a part. The weights ``omega``
    are those of as many samples as the step has: what is beyond the median of the largest is reflected there.
    """
    projection, weight = gaussian_rule(
        link_of(problem.teacher).kinks, resolution=_PANEL if step.residual_noise == 0 else _PANEL_WITH_NOISE, order=8
    )
    noise, noise_weight, known = np.zeros(1), np.ones(1), 0.0
    if step.residual_noise > 0:
        noise, noise_weight = hermite_rule(_NOISE_NODES)
        if problem.output_scale == "1/sqrt(N)":
            own = moments(problem.activation).linear * math.sqrt(problem.readout.second_moment)
            known = -own / math.sqrt(step.residual_noise)
    residual = np.asarray(link_of(problem.teacher)(projection))[:, None] - step.residual_offset
    residual = (residual + math.sqrt(step.residual_noise) * noise).ravel()
    weights = (weight[:, None] * noise_weight).ravel()
    projections = np.stack([np.repeat(projection, len(noise)), np.tile(known * noise, len(projection))])
    # Residuals of nothing move no weight, whatever their law.
    square = residual**2 if residual.any() else np.ones_like(residual)
    omega, count = square / (weights @ square), problem.real_sizes().n_step
    if math.isfinite(count) and residual.any():
        largest = largest_residual(link_of(problem.teacher), step.residual_offset, step.residual_noise, count)
        omega = np.clip(2 * largest**2 / (weights @ square) - omega, 0, omega)
        omega /= weights @ omega
    kept = weights > _LEAST_WEIGHT
    weights, residual, fixed = weights[kept] / weights[kept].sum(), residual[kept], _fixed(problem)
    spread = np.array([0.0, 1 - known**2])[:fixed]
    return SampleNodes(weights, projections[:fixed, kept], spread, residual, omega[kept], residual)
