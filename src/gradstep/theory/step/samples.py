"""A sample of the gradient step: its residual ``r`` and its projection on the gradient that it helped to make.

With ``u = <beta*, x>`` and ``t`` the projection on the direction of the linear part of an initial output of order one,
the gradient ``g = X^T r / n_step`` has the mean ``E[u r] beta* + E[t r] b``, and from the samples a random rest of
squared norm ``phi0 E r^2``. A sample overlaps with its own part of that rest, so that given ``(u, r)``

    <x, g>  =  E[u r] u + E[t r] t + phi0 r + N(0, phi0 E r^2).

The other averages that `gradstep.theory.step.row_fluctuations` needs follow from it. This project.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from gradstep.gaussian import ScalarFunction, moments
from gradstep.theory.step.sample_forms import SampleForms
from gradstep.theory.step.weighted_samples import Residual, WeightedSamples, noise_nodes, residual_nodes

__all__ = ["StepSamples", "step_samples"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class StepSamples:
    """Averages over the samples of the step, with ``v = g / |g|``."""

    law: Residual  #: The law of ``u`` and ``r``.
    ratio: float  #: ``phi0 = d / n_step``; zero for a population gradient.
    linear: float  #: ``E u r``.
    #: Shape (nodes,): the Gaussian part of ``r`` at the nodes of the law: noise of real labels, and the initial output.
    from_noise: Array
    noise_variance: float  #: The variance of `from_noise`.
    #: ``E[t r]``, what the residual has of the linear part of the initial output (zero if that output is small).
    own: float = 0.0
    forms: SampleForms | None = None  #: Changes of the products of samples in a draw, of a small initial output.

    @property
    def own_square(self) -> float:
        """``E[t r]^2``, of the variance of the noise."""
        return self.own**2

    @property
    def residual(self) -> Array:
        """``r`` at the nodes of the law."""
        return self.law.residual

    def mean(self, values: Array) -> float:
        """Return the average of values at the nodes of the law."""
        return self.law.mean(values)

    def weighted(self, weight: Array) -> WeightedSamples:
        """Return the matrix of the samples with given weights at the nodes of the law."""
        return WeightedSamples(self.law, weight, self.ratio, self.output, self.output_variance, self.forms)

    @cached_property
    def by_residual(self) -> WeightedSamples:
        """The matrix ``B`` of the samples weighted by their residuals."""
        return self.weighted(self.residual)

    @cached_property
    def by_square(self) -> WeightedSamples:
        """The matrix ``S`` of the samples weighted by the squares of these, over their mean."""
        return self.weighted(self.law.relative_squares)

    @cached_property
    def squares_by_residual(self) -> tuple[Array, float]:
        """Diagonal of ``S`` in the eigenbasis of ``B`` (`WeightedSamples.diagonal`), and mean square of its rest."""
        squares = self.law.relative_squares
        return self.by_residual.diagonal(squares), self.by_residual.off_diagonal(squares)

    @cached_property
    def norm(self) -> float:
        """``|g|``."""
        return math.sqrt(self.linear**2 + self.own_square + self._random_square)

    @property
    def relative_variance_of_square(self) -> float:
        """``n_step`` times the relative variance of ``|g|^2`` that the averages of ``u r`` and ``r^2`` make."""
        r, u = self.law.residual, self.law.projection
        return self.law.relative_variance(2 * self.linear * u * r + self.ratio * r**2, self.norm**2)

    @property
    def _random_square(self) -> float:
        """Square of the random rest of the gradient."""
        return self.ratio * self.law.square if self.forms is None else self.forms.square

    @cached_property
    def _output_given_sample(self) -> Array:
        """``E[t | u, r] / E[t r]`` at the nodes."""
        return self.from_noise / self.noise_variance if self.noise_variance > 0 else np.zeros_like(self.residual)

    @property
    def output(self) -> Array:
        """``E[t | u, r]`` at the nodes."""
        return self.own * self._output_given_sample

    @cached_property
    def output_variance(self) -> float:
        """``Var(t | u, r)``."""
        return 1 - self.own_square / self.noise_variance if self.noise_variance > 0 else 1.0

    @cached_property
    def along(self) -> Array:
        """``E[<x, v> | u, r]`` at the nodes."""
        u = self.law.projection
        if self.norm == 0:
            return u  # no gradient: any direction will do
        along = self.linear * u + self.ratio * self.residual + self.own_square * self._output_given_sample
        return np.asarray(along / self.norm)

    @cached_property
    def spread(self) -> float:
        """``Var(<x, v> | u, r)``."""
        if self.norm == 0:
            return 0.0
        return (self.ratio * self.law.square + self.own_square * self.output_variance) / self.norm**2

    @cached_property
    def _with_output(self) -> float:
        """``E[r <x, v> t] / E[t r]``."""
        if self.own_square == 0:
            return 0.0
        return self.mean(self.residual * (self.along * self._output_given_sample + self.output_variance / self.norm))

    @cached_property
    def gain(self) -> float:
        """``v.S.v``, with ``S`` the samples weighted by ``r^2``, of mean one."""
        return self.mean(self.residual**2 * (self.along**2 + self.spread)) / self.law.square + self._changed(2)

    @cached_property
    def form_along(self) -> float:
        """``v.B.v``, with ``B`` the samples weighted by ``r``."""
        return self.mean(self.residual * (self.along**2 + self.spread)) + self._changed(1)

    def _changed(self, power: int) -> float:
        """Return what a draw changes of the form of the samples weighted by ``r`` or by ``r^2 / E r^2`` along v."""
        if self.forms is None:
            return 0.0
        r, weight = self.residual, self.residual if power == 1 else self.law.relative_squares
        change = 2 * self.linear * self.forms.between(weight * self.law.projection, r)
        return (change + self.forms.sampled(r, weight, r)) / self.norm**2

    def _changed_along(self, power: int) -> float:
        """Return what a draw changes of ``<X^T r^power / n, v>``."""
        if self.forms is None:
            return 0.0
        return self.forms.between(self.law.powers[power], self.residual) / self.norm

    @cached_property
    def form_square(self) -> float:
        """``|B v|^2``: its parts on the teacher, on the output, on the rest of the gradient, and across all three."""
        if self.forms is not None:
            mean, forms, r, u = replace(self, forms=None), self.forms, self.residual, self.law.projection
            across = forms.between(r * u, r)
            change = (2 * self.mean(r * mean.along * u) * mean.norm + across) * across
            change += self.linear**2 * forms.between(r * u, r * u) + 2 * self.linear * forms.sampled(r * u, r, r)
            return (mean.form_square * mean.norm**2 + change + forms.sampled_twice(r, r)) / self.norm**2
        r, square, phi0 = self.residual, self.law.square, self.ratio
        to_teacher = self.mean(r * self.along * self.law.projection)
        to_output = self.own_square * self._with_output**2
        to_gradient = math.sqrt(phi0 / square) * self.squares_along + self._rest * self.mean(r)
        across = phi0 * (square * self.gain - self.squares_along**2 / square)
        return to_teacher**2 + to_output + to_gradient**2 + across

    @cached_property
    def _rest(self) -> float:
        """Component of ``v`` on the random rest of the gradient."""
        return math.sqrt(self.ratio * self.law.square) / self.norm if self.norm > 0 else 0.0

    @cached_property
    def squares_along(self) -> float:
        """``<h, v>``, with ``h = X^T r^2 / n_step``."""
        return self.mean(self.residual**2 * self.along) + self._changed_along(2)

    @cached_property
    def cubes_along(self) -> float:
        """``E[r^3 <x, v>]``."""
        return self.mean(self.law.powers[3] * self.along) + self._changed_along(3)

    @cached_property
    def powers(self) -> tuple[float, float, float]:
        """``E r^2``, ``E r^3`` and ``E r^4``."""
        two, three, four = (self.mean(power) for power in self.law.powers[2:])
        return two, three, four

    @cached_property
    def _squares_to_teacher(self) -> float:
        return self.mean(self.residual**2 * self.law.projection)

    @cached_property
    def _squares_to_output(self) -> float:
        """``E[r^2 t] / E[t r]``."""
        return self.mean(self.residual**2 * self._output_given_sample)

    @cached_property
    def squares_off(self) -> float:
        """``|h|^2 - <h, v>^2``."""
        to_output = self.own_square * self._squares_to_output**2
        square = self._squares_to_teacher**2 + to_output + self.ratio * self.mean(self.law.powers[4])
        if self.forms is not None:
            square += self.forms.between(self.law.powers[2], self.law.powers[2])
        return max(square - self.squares_along**2, 0.0)

    @cached_property
    def output_along_random(self) -> float:
        """``<B b, e> / |b|``, with ``e`` the unit vector along the random part of the gradient.

        Docs, "Uniform equivalent", equation (E14c).
        """
        return self.own * math.sqrt(self.ratio / self.law.square) * self._squares_to_output

    @cached_property
    def output_off_random(self) -> float:
        """Length of the part of ``B b / |b|`` that is orthogonal to the teacher, to ``b`` and to ``e``.

        Docs, "Uniform equivalent", equation (E14c).
        """
        given = self.output**2 + self.output_variance
        square = self.ratio * self.mean(self.residual**2 * given) - self.output_along_random**2
        return math.sqrt(max(square, 0.0))

    @cached_property
    def form_with_squares(self) -> float:
        """``h.B.v``."""
        r, phi0 = self.residual, self.ratio
        by_sample = self.mean(r * self.along * (self._squares_to_teacher * self.law.projection + phi0 * r**2))
        by_output = self.own_square * self._squares_to_output * self._with_output
        by_rest = self.mean(r) * phi0 * self.mean(self.law.powers[3]) / self.norm if self.norm > 0 else 0.0
        if self.forms is not None:
            u, forms = self.law.projection, self.forms
            changed = self._squares_to_teacher * forms.between(r * u, r) + self.linear * forms.between(r**2, r * u)
            by_rest += (changed + forms.sampled(r**2, r, r)) / self.norm
        return by_sample + by_output + by_rest


@lru_cache(maxsize=64)
def step_samples(
    teacher: ScalarFunction, offset: float, noise_variance: float, ratio: float, own: float, *, classes: bool = False
) -> StepSamples:
    """Return the samples of a step; steps that differ in their size alone share them, with all of their averages.

    The offset, the variance of the noise and the classes are as in
    `gradstep.theory.step.weighted_samples.residual_nodes`, which gives the law of a residual; `ratio` and `own` are as
    in `StepSamples`. Raises `NotConverged` if the teacher varies too fast to be resolved.
    """
    known = moments(teacher)
    label_square = 1.0 if classes else known.second_moment
    square = label_square - 2 * known.mean * offset + offset**2 + noise_variance
    nodes = noise_nodes(noise_variance / square if square > 0 else 1.0, ratio)
    law, from_noise = residual_nodes(teacher, offset, noise_variance, nodes, classes=classes)
    return StepSamples(law, ratio, known.linear, from_noise, noise_variance, own)
