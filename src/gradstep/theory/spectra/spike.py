"""The spike of a step, the nodes of its samples and the layer's shape, for all equations of the weights.

The spike is a rank-one part of the layer along the readout, `Spike`. It holds what the step adds and what it takes back
of the initial weights. This project.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradstep.gaussian import gaussian_rule, hermite_rule, moments
from gradstep.problem import Problem, link_of
from gradstep.theory.step.correlated_samples import CorrelatedSamples
from gradstep.theory.step.damped_samples import DampedSamples
from gradstep.theory.step.own_output import MeanRow
from gradstep.theory.step.statistics import StepStatistics
from gradstep.theory.step.weighted_samples import largest_residual

__all__ = ["Direction", "Rectangular", "SampleNodes", "Spike", "sample_nodes", "spike_of"]

Array = NDArray[np.float64]

#: Nodes for the label noise, which enters through a rational function.
_NOISE_NODES = 16
#: Panels of the projections, without and with label noise, which has nodes of its own. In the tail of an unbounded law
#: each node must weigh less than a sample of the step, or the density there falls apart into one band a node.
_PANEL, _PANEL_WITH_NOISE = 0.06, 0.125
#: Nodes that weigh less are left out.
_LEAST_WEIGHT = 1e-13


class Rectangular:
    """Properties of the spectrum of ``W^T W`` that follow from the shape of W; `aspect` is ``N / d``."""

    aspect: float

    @property
    def mass(self) -> float:
        """Share of non-zero eigenvalues."""
        return min(self.aspect, 1.0)

    @property
    def hard_edge(self) -> bool:
        """Whether the matrix is square."""
        return self.aspect == 1


class SampleNodes(NamedTuple):
    """Nodes of the law of a sample of the step.

    Attributes
    ----------
    weight : ndarray, shape (nodes,)
    projection : ndarray, shape (2, nodes)
        Mean projections, given the residual, on the teacher and on ``b = W_0^T a``.
    spread : float
        Variance of the second.
    residual, omega : ndarray, shape (nodes,)
        ``r``, and ``r^2`` normalised.
    """

    weight: Array
    projection: Array
    spread: float
    residual: Array
    omega: Array


class Direction(NamedTuple):
    """A unit vector in input space.

    Attributes
    ----------
    fixed : ndarray, shape (2,)
        Components along the teacher's whitened direction and ``b``.
    sampled : float
        Factor of ``X_perp^T r / n_step``.
    exponent : float
        Power of the inputs' covariance in front of the first two.
    """

    fixed: Array
    sampled: float
    exponent: float = 0.5

    def power(self, eigenvalue: Array) -> Array:
        """Return that power of eigenvalues; nothing is along directions without variance."""
        positive = eigenvalue > 0
        return np.asarray(np.where(positive, np.where(positive, eigenvalue, 1.0) ** self.exponent, 0.0))


class Spike(NamedTuple):
    """The rank-one part that the step adds along the readout.

    Attributes
    ----------
    strength : float
        Squared operator norm.
    direction, gradient : Direction
        Directions of the spike and of ``X^T (y - f)``, which differ if the initial output is of order one.
    teacher : Direction
        The teacher's direction.
    shrink : float
        Share of the initial weights along the readout that is taken back.
    """

    strength: float
    direction: Direction
    gradient: Direction
    teacher: Direction
    shrink: float


def spike_of(problem: Problem, step: StepStatistics, width: float) -> Spike:
    """Return the spike of the step."""
    norm, teacher = step.gradient_norm, Direction(np.array([1.0, 0.0]), 0.0)
    if isinstance(step.correlated, DampedSamples):
        return _damped_spike(problem, step, step.correlated, width)
    if isinstance(step.correlated, CorrelatedSamples):
        # The plain gradient and the teacher's direction in the inputs' own coordinates.
        known, power = step.correlated, problem.readout.second_moment
        norm = math.sqrt(known.form(1))
        gradient = Direction(np.array([known.linear, 0.0]) / norm, 1 / norm)
        teacher = teacher._replace(exponent=-0.5)
        length = math.sqrt(teacher.power(known.spectrum.eigenvalue) ** 2 @ known.spectrum.teacher)
        teacher = teacher._replace(fixed=teacher.fixed / length)
        taken = step.gain * moments(problem.activation).linear * power
        return Spike((step.gain * norm) ** 2 * width * power, gradient, gradient, teacher, taken)
    if problem.output_scale == "1/N" or step.spike == 0:
        # Labels without a linear part leave a population step no gradient.
        gradient = Direction(np.array([step.alignment, 0.0]), 1 / norm if norm > 0 else 0.0)
        strength = step.spike**2 * width * problem.readout.second_moment
        return Spike(strength, gradient, gradient, teacher, 1 - step.readout_shrinkage)
    # The spike is all of the mean row, and nothing of the initial weights is left along the readout.
    # The bulk is that of the proportional limit, and so is what stretches the mean row.
    row = MeanRow.of(problem, replace(step, own_drift=(0.0, 0.0)), width)
    total = float(np.linalg.norm(row.after))
    whole = row.taught - row.slope * row.output
    # A population gradient has no part along the samples.
    by_samples = row.after[2] / row.taught[2] if row.taught[2] > 0 else row.gain
    return Spike(
        total**2 * width * problem.readout.second_moment,
        Direction(row.after[:2] / total, by_samples / total),
        Direction(whole[:2] / norm, 1 / norm),
        teacher,
        1.0,
    )


def _damped_spike(problem: Problem, step: StepStatistics, samples: DampedSamples, width: float) -> Spike:
    """Return the spike of a damped step: its directions are made of the vectors of `DampedSamples.sources`."""
    power, one = problem.readout.second_moment, np.ones_like(samples.divisor)
    norm = math.sqrt(samples.quadratic(1 / samples.divisor))
    off, directly = samples.off_teacher, samples.sources.directly
    gradient = Direction(np.array([samples.with_teacher(one) + off * directly, 0.0]) / norm, off / norm)
    length = math.sqrt(float(samples.spectrum.teacher @ (1 / samples.divisor)))
    taken = step.gain * moments(problem.activation).linear * power
    strength = (step.gain * norm) ** 2 * width * power
    return Spike(strength, gradient, gradient, Direction(np.array([1 / length, 0.0]), 0.0), taken)


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
        largest = largest_residual(
            link_of(problem.teacher), step.residual_offset, step.residual_noise, problem.d, count
        )
        omega = np.clip(2 * largest.residual**2 / (weights @ square) - omega, 0, omega)
        omega /= weights @ omega
    kept = weights > _LEAST_WEIGHT
    return SampleNodes(weights[kept], projections[:, kept], 1 - known**2, residual[kept], omega[kept])
