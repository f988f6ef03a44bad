"""Effect of the gradient step on the rows of the first layer: a rank-one spike and a rescaled bulk.

With ``r = y - E f`` the residual of the step and ``g = X^T r / n_step``, row ``i`` becomes
``w_i(0) + s_i v + bulk_i`` where ``v = g / |g|`` and, per unit of readout and ``e = eta / sqrt(N)``,

* ``s_i = a_i e E[sigma'] |g|`` is its spike,
* ``E |bulk_i|^2 = a_i^2 tau`` with ``tau = e^2 (d/n_step) E[r^2] Var(sigma')``,
* the rest of ``w_i(0)`` is multiplied by ``1 + a_i e E[z sigma'] E r``, and by what the network's own output adds.

How single rows fluctuate around these limits is `gradstep.theory.step.row_fluctuations`.

``E[sigma']`` is the mean of the ordinary derivative, which is what the network's gradient uses; it differs from
``E[z sigma(z)]`` only for activations with jumps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradstep.errors import InvalidInput
from gradstep.gaussian import moments
from gradstep.inputs import Inputs
from gradstep.problem import Problem, Readout, link_of
from gradstep.theory.step.correlated_rows import correlated_fluctuations, correlated_rows_without_a_step
from gradstep.theory.step.correlated_samples import ISOTROPIC, CorrelatedSamples, OwnOutput, Spectrum, Turn
from gradstep.theory.step.damped_rows import damped_fluctuations
from gradstep.theory.step.damped_samples import DampedSamples
from gradstep.theory.step.row_fluctuations import (
    ROUNDING,
    RowFluctuations,
    derivative_slope,
    own_output_slopes,
    row_fluctuations,
    rows_without_a_step,
)
from gradstep.theory.step.samples import StepSamples, step_samples
from gradstep.theory.step.transitions import smooth_rise
from gradstep.theory.step.weighted_samples import largest_residual, noise_nodes, residual_nodes

__all__ = ["LEAST_RATIO", "CommonRow", "StepStatistics", "readout_values", "rows_after_a_step", "step_statistics"]

#: Mean square of what a step adds to a row, times N d: below the first value features are resolved along the teacher,
#: above the second along the gradient. Over d it is how much the step may change of an error, relatively.
_INFLUENCE = (0.02, 2.0)
#: Least ``d / n_step`` of correlated inputs: the direction of the samples stays defined.
LEAST_RATIO = 1e-9
#: Mean of a neuron's output, over its root mean square, that is rounding of the numbers that it was typed with.
_TYPED = 1e-6


@dataclass(frozen=True)
class CommonRow:
    """Part of the mean of a row that is proportional to the squared readout, if the initial output is of order one.

    A row of readout ``a`` has the mean ``a u + (a^2 - a E[a^3] / E[a^2]) k B b / (sqrt(N) E a^2)``. The step's linear
    part multiplies ``b`` by a matrix, in proportion to the readout, and the spike ``u`` contains the regression of this
    on the readout. This project. Docs, "Uniform equivalent", equation (E14d).
    """

    alignment: float  #: ``<v, b> / |b|``.
    length: float  #: ``|b| / (sqrt(N) E a^2)``.
    skewness: float  #: ``E[a^3] / E[a^2]``.
    projection: float  #: Projection of the vector on ``v``.

    def of(self, a: NDArray[np.float64], a_square: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the coefficient of the vector, from a readout and its square or their means."""
        return np.asarray(a_square - self.skewness * a)


@dataclass(frozen=True)
class StepStatistics:
    """Deterministic limits of the gradient step, for a readout weight of one.

    What has a default has that value without a step.
    """

    alignment: float  #: Overlap ``gamma = <g, beta*> / |g|`` of the spike with the teacher direction, in [-1, 1].
    gradient_norm: float  #: ``|g|``.
    #: Length of the gradient's part along ``W0^T a``, in output scale ``"1/N"``, of order ``N**-1/2``. It is no part of
    #: ``g`` here, as all that it does is the `readout_shrinkage`; `whole_gradient` has it.
    own_gradient: float
    #: ``r = f*(x) - residual_offset + N(0, residual_noise)``, the second being a variance.
    residual_offset: float
    residual_noise: float
    fluctuations: RowFluctuations  #: Law of a row's projection on ``v`` and of its squared norm around these limits.
    #: ``e E[sigma']``, what the step adds to a row of readout weight one for each unit of the gradient.
    gain: float = 0.0
    spike: float = 0.0  #: Shift of a neuron with readout weight one along ``v``.
    bulk: float = 0.0  #: ``tau``, the variance that the step adds to the rest of such a neuron.
    #: ``e E[z sigma']``: the bulk of a neuron of readout ``a`` holds ``a`` times this times ``B w_i(0)`` with ``B = X^T
    #: diag(r) X / n_step`` (zero for an odd activation).
    curvature: float = 0.0
    #: ``q = e E[z sigma'] E r``: the rest of the initial row is multiplied by ``1 + a q`` (zero when ``E r = 0`` or the
    #: activation is odd) and by what `own_drift` adds.
    drift: float = 0.0
    #: What the network's own output adds to that factor, of order ``N**-1/2`` if it is of order one, and of order
    #: ``1/N`` otherwise: coefficients of ``a``, from the part of the output that follows the length of an input as the
    #: row's own feature does, and of ``a^2``, from the row's own feature in the output. What the linear part of that
    #: feature stretches is in `own_norm`. On correlated inputs and of a damped step the first is zero: what it stands
    #: for differs between the classes of directions, and is a part of `class_drift`.
    own_drift: tuple[float, float] = (0.0, 0.0)
    #: What the network's own output adds to a row's squared norm, because every row has a mean component along the
    #: gradient before the step: coefficients of ``a^2`` and ``a^3``.
    own_norm: tuple[float, float] = (0.0, 0.0)
    #: Extra mean projection on ``v`` per unit of readout, from an initial output of order one (``output_scale =
    #: "1/sqrt(N)"``).
    initial_overlap: float = 0.0
    #: Factor of ``W0^T a``: the residual holds the network's own output, and the step takes a part of it back (``1 -
    #: (eta / sqrt N) E[sigma'] E[z sigma] E[a^2]`` in output scale "1/N").
    readout_shrinkage: float = 1.0
    #: Zero without a step, one with a step that changes more than terms of order ``1/d``, see `resolved`.
    influence: float = 0.0
    samples: StepSamples | None = None  #: Law of a sample of the step; None without a step.
    #: Mean of the rows beside their spike, if they are described given an initial output of order one
    #: (`gradstep.theory.step.own_output`).
    common: CommonRow | None = None
    #: Law of a sample if inputs are correlated or the step is damped, in place of `samples`. All of the above is then
    #: about whitened inputs, and a step that multiplies the rest of an initial row by ``1 + a q`` elsewhere multiplies
    #: it by ``1 + a q C``.
    correlated: CorrelatedSamples | DampedSamples | None = None
    #: Part of the squared norm of a row that comes from the row's second degree: the coefficient of ``a^2``
    #: (`gradstep.theory.step.second_degree`).
    own_component_norm: float = 0.0
    #: Whether the rows are taken given an initial output of order one: `readout_shrinkage` is then that of the rows
    #: with their stretch.
    given_output: bool = False
    #: On correlated inputs and of a damped step, the share of ``W0^T a`` that the step takes back where the covariance
    #: of the inputs is one.
    taken: float = 0.0

    @property
    def resolved(self) -> StepStatistics:
        """The step with its spike along the direction that features are resolved along.

        This is the spike's own. But rows without a step know nothing of the gradient, and neither do errors: to leading
        order any direction will do. Terms of order ``1/d`` are all there along the teacher only. So a step too weak to
        change more than these is taken for the part of its spike that is along a direction between the two, and their
        angle falls to nothing with the step. This project.
        """
        if self.influence == 1:
            return self
        alignment, (cosine, _) = math.copysign(math.cos(self.influence * self._angle), self.alignment), self.turn
        fluctuations = self.fluctuations.turned(cosine)
        if self.correlated is not None:
            _, one, two = fluctuations.projection_variance
            along = self.correlated.form_along(alignment)
            fluctuations = replace(fluctuations, projection_variance=(along, one, two))
        return replace(
            self,
            alignment=alignment,
            spike=cosine * self.spike,
            initial_overlap=cosine * self.initial_overlap,
            fluctuations=fluctuations,
            influence=1.0,
        )

    def along(self, turn: Turn) -> StepStatistics:
        """Return the step on correlated inputs with its spike along another direction."""
        assert self.correlated is not None
        samples = replace(self.correlated, turn=turn)
        known, one, two = self.fluctuations.projection_variance
        along = samples.form_along(samples.alignment)
        if one**2 >= 4 * along * two:
            # Along the new direction the variance of the initial rows is known. The two other terms are kept, unless
            # some row would then have a variance below zero: there they change in proportion to the first.
            one, two = one * along / known, two * along / known
        return replace(
            self,
            alignment=samples.alignment,
            gradient_norm=samples.norm,
            spike=self.gain * samples.norm - self.initial_overlap,
            fluctuations=replace(self.fluctuations, projection_variance=(along, one, two)),
            correlated=samples,
        )

    @property
    def turn(self) -> tuple[float, float]:
        """Overlaps of the spike with the direction of `resolved`, and with the teacher's part orthogonal to it."""
        angle_left = (1 - self.influence) * self._angle
        return math.cos(angle_left), -math.copysign(math.sin(angle_left), self.alignment)

    @property
    def _angle(self) -> float:
        """Between the spike and the teacher, or its opposite."""
        return math.acos(min(abs(self.alignment), 1.0))

    def own_stretch(self, a: ArrayLike, a_square: ArrayLike) -> NDArray[np.float64]:
        """Return one and what the network's own output adds to the factor of the rest of an initial row.

        The readout and its square may be means over neurons that are described together.
        """
        alike, own = self.own_drift
        return np.asarray(1 + alike * np.asarray(a) + own * np.asarray(a_square))

    def stretch(self, a: ArrayLike, a_square: ArrayLike) -> NDArray[np.float64]:
        """Return the whole factor of the rest of an initial row, from a readout and its square as in `own_stretch`."""
        return np.asarray(self.own_stretch(a, a_square) + self._drift * np.asarray(a))

    def stretch_square(self, a: NDArray[np.float64], a_square: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the mean squared norm of a stretched initial row, from a readout and its square or their means."""
        if self.correlated is None:
            return np.asarray(self.stretch(a, a_square) ** 2)
        (first, second), pairs, share = self.correlated.stretch, self.correlated.pairs, self.correlated.spectrum.share
        own, drift = self.own_stretch(a, a_square), self.class_drift
        once = float(share @ (drift * first))
        # For a damped step only the mean of the pairs over the classes is known.
        twice = self.drift**2 * float(share @ pairs) + float(share @ ((drift**2 - self.drift**2) * second))
        return np.asarray(own**2 + 2 * once * a * own + twice * a_square)

    def mean_variance(self, a: NDArray[np.float64], a_square: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ``d`` times a row's variance in the mean direction, from a readout and its square or their means."""
        return np.asarray(self.stretch_square(a, a_square) + self.bulk * a_square)

    @property
    def whole_drift(self) -> float:
        """The coefficient of the readout in `stretch`."""
        return self._drift + self.own_drift[0]

    @property
    def _drift(self) -> float:
        """``q``, with the mean over a row's directions of what the own output adds to it in each class."""
        samples = self.correlated
        if samples is None:
            return self.drift
        return self.drift + self.curvature * float(samples.spectrum.share @ (samples.added * samples.stretch[0]))

    @property
    def class_drift(self) -> NDArray[np.float64]:
        """``q`` in each class of directions of correlated inputs, where rows are multiplied by ``1 + a q C``.

        Docs, "Own output", equation (W6).
        """
        assert self.correlated is not None
        return np.asarray(self.drift + self.curvature * self.correlated.added)

    @property
    def whole_gradient(self) -> float:
        """``|g|`` of the network's gradient, with the part that its own output makes."""
        return math.hypot(self.gradient_norm, self.own_gradient)

    @property
    def whole_alignment(self) -> float:
        """Overlap of the whole gradient with the teacher direction."""
        return self.alignment * self.gradient_norm / self.whole_gradient if self.own_gradient else self.alignment

    @property
    def whole_spike(self) -> float:
        """Shift of a neuron with readout weight one along the whole gradient."""
        return self.gain * self.whole_gradient


@lru_cache(maxsize=64)
def readout_values(readout: Readout) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the values of the readout and their proportions; of a Gaussian one three with its first five moments.

    All values are different. Both arrays have shape (values,) and are read-only.
    """
    if readout.kind == "gaussian":
        values, shares = np.array([-math.sqrt(3), 0.0, math.sqrt(3)]), np.array([1, 4, 1]) / 6
    else:
        values, which = np.unique(np.asarray(readout.values, dtype=float), return_inverse=True)
        shares = np.bincount(which, weights=readout.weights).astype(float)
    values.flags.writeable = shares.flags.writeable = False
    return values, shares


def step_statistics(
    problem: Problem,
    d: float,
    width: float,
    n_step: float,
    constant: float | None = None,
    *,
    own_output: bool = True,
    classes: bool = False,
    spectrum: bool = False,
) -> StepStatistics:
    """Return the limits of the gradient step at given sizes.

    Docs, "Uniform equivalent", equations (E1), (E2) and (E11).

    Parameters
    ----------
    problem : Problem
        Gives the functions, step, noise and readout law.
    d, width, n_step : float
        The sizes to use (real numbers; `n_step` may be infinite).
    constant : float, optional
        Mean over inputs of an initial output of order one (`gradstep.theory.step.own_output.output_constants`), where
        it is given; of a Gaussian readout it otherwise counts as noise, like the rest of that output.
    own_output : bool, optional
        Whether an output of order ``N**-1/2`` (output scale ``"1/N"``) is noise to the step, as in the network; the
        spiked random features model has the statistics of the limit.
    classes : bool, optional
        Whether the labels are -1 and 1, with the teacher as their mean and the noise as the root mean square of the
        rest (`gradstep.labels.Labels`). If not, the noise is Gaussian.
    spectrum : bool, optional
        Whether the step is described as spectra need it: with `correlated` in place of `samples` on isotropic inputs
        too, and with residuals of which no one is larger than the largest of a typical step. Docs, "Spectra", equation
        (Z5).

    Raises
    ------
    InvalidInput
        If the initial output diverges with the width (`output_scale` ``"1/sqrt(N)"`` with a non-centred activation
        and a readout of non-zero mean).

    Notes
    -----
    Cui et al. 2024, Result 3.1 (constant readout); Ba et al. 2022, Proposition 2; row norms and the case of an
    initial output of order one: this project.
    """
    if problem.inputs is not None or problem.is_damped or spectrum:
        return _correlated_statistics(problem, d, width, n_step, constant, classes=classes, typical=spectrum)
    activation, teacher, readout = moments(problem.activation), moments(problem.link), problem.readout
    output = _initial_output(problem, d, width, constant, own_output=own_output)
    noise_variance = problem.noise**2 + output.variance
    residual_mean = teacher.mean - output.mean
    residual_square = teacher.second_moment - 2 * teacher.mean * output.mean + output.mean**2 + noise_variance

    phi0, small = d / n_step, problem.output_scale == "1/N"
    correlated, own_gradient = (0.0, math.sqrt(output.linear)) if small else (output.linear, 0.0)
    gradient_norm = math.sqrt(teacher.linear**2 + correlated + phi0 * residual_square)
    step_size = problem.eta.size(width)
    e = step_size / math.sqrt(width)
    limits = StepStatistics(
        alignment=teacher.linear / gradient_norm if gradient_norm > 0 else 1.0,
        gradient_norm=gradient_norm,
        own_gradient=own_gradient,
        residual_offset=output.mean,
        residual_noise=noise_variance,
        fluctuations=rows_without_a_step(problem.initial_weights),
    )
    # Labels that the network has already leave no gradient.
    if step_size == 0 or residual_square == 0:
        return limits
    own = -activation.linear * math.sqrt(readout.second_moment) if correlated else 0.0
    gaussian = output.variance if classes else noise_variance
    samples = step_samples(problem.link, output.mean, gaussian, phi0, own, classes=classes)
    curvature = e * derivative_slope(problem.activation)
    fluctuations = rows_after_a_step(problem, samples, d, width, own_output=own_output)
    own_drift, own_norm = (0.0, 0.0), (0.0, 0.0)
    if own_output:
        own_drift, own_norm = _own_output_terms(problem, d, width, residual_mean, fluctuations)
    strength = step_size**2 * readout.second_moment * activation.derivative_second_moment * residual_square
    gain = e * activation.derivative_mean
    taken = gain * activation.linear * readout.second_moment
    return replace(
        limits,
        gain=gain,
        spike=gain * gradient_norm,
        bulk=e**2 * phi0 * residual_square * activation.derivative_variance,
        curvature=curvature,
        drift=curvature * residual_mean,
        own_drift=own_drift,
        own_norm=own_norm,
        initial_overlap=-activation.linear / gradient_norm / math.sqrt(width) if correlated else 0.0,
        # With an own output of order one the rows are taken given it (`gradstep.theory.step.own_output`).
        readout_shrinkage=1.0 if correlated else 1 - taken,
        fluctuations=fluctuations,
        influence=smooth_rise(strength * d, *_INFLUENCE),
        samples=samples,
    )


def _correlated_statistics(
    problem: Problem, d: float, width: float, n_step: float, constant: float | None, *, classes: bool, typical: bool
) -> StepStatistics:
    """Return the limits of a step on correlated inputs, or of a damped one.

    Of the network's own output, terms of order ``1/N`` are noise only.

    Docs, "Correlated inputs", equations (C1) and (C2). Docs, "Damped steps", equation (N1).
    """
    inputs, spectrum = problem.inputs, ISOTROPIC
    if inputs is not None:
        spectrum = _spectrum(inputs, None if problem.is_limit else int(d))
    link, readout, sphere = link_of(problem.teacher), problem.readout, problem.initial_weights == "sphere"
    activation, second = moments(problem.activation), spectrum.moment(2)
    output = _initial_output(problem, d / second, width, constant, own_output=True)
    ratio = max(d / n_step, LEAST_RATIO)
    noise_variance = problem.noise**2 + output.variance
    gaussian = output.variance if classes else noise_variance
    # Few nodes of a small noise are known to be enough in isotropic inputs only.
    law, noise = residual_nodes(link, output.mean, gaussian, noise_nodes(1.0, ratio), classes=classes)
    own = None if problem.output_scale == "1/N" else _own_output(problem, output, noise, gaussian)
    by_output = _quadratic_output(problem, spectrum, d, width)
    plain = CorrelatedSamples(law, ratio, moments(link).linear, spectrum, own=own, by_output=by_output)
    if typical:
        plain = plain.up_to(largest_residual(link, output.mean, noise_variance, n_step))
        law = plain.law
    samples = DampedSamples(plain, problem.damping) if problem.is_damped and law.square > 0 else plain
    step_size = problem.eta.size(width)
    e = step_size / math.sqrt(width)
    once, twice = (float(spectrum.share @ values) for values in samples.stretch)
    limits = StepStatistics(
        alignment=samples.alignment,
        gradient_norm=samples.norm,
        own_gradient=0.0 if own else math.sqrt(output.linear * samples.own_gain),
        residual_offset=output.mean,
        residual_noise=noise_variance,
        fluctuations=correlated_rows_without_a_step(samples, sphere=sphere),
        correlated=samples,
    )
    if step_size == 0 or law.square == 0:
        return limits
    curvature = e * derivative_slope(problem.activation)
    strength = step_size**2 * readout.second_moment * activation.derivative_second_moment * law.square
    gain = e * activation.derivative_mean
    taken = gain * activation.linear * readout.second_moment
    residual_mean = samples.law.mean(law.residual)
    bulk = e**2 * samples.ratio * law.square * activation.derivative_variance
    fluctuations = rows_after_a_step(problem, samples, d, width)
    own_drift, own_norm = (0.0, 0.0), (0.0, 0.0)
    if problem.output_scale != "1/N" or (inputs is None and not problem.is_damped):
        own_drift, own_norm = _own_output_terms(problem, d, width, residual_mean, fluctuations, samples)
    return replace(
        limits,
        gain=gain,
        spike=gain * samples.norm,
        bulk=bulk * samples.bulk_trace,
        curvature=curvature,
        drift=curvature * residual_mean,
        own_drift=own_drift,
        own_norm=own_norm,
        # Every class of directions has its own factor 1 - taken c, of which rows have the mean square.
        readout_shrinkage=math.copysign(math.sqrt(max(1 - 2 * taken * once + taken**2 * twice, 0)), 1 - taken * once),
        taken=taken,
        fluctuations=fluctuations,
        influence=smooth_rise(strength * d, *_INFLUENCE),
    )


@lru_cache(maxsize=64)
def _spectrum(inputs: Inputs, d: int | None) -> Spectrum:
    """Return the spectrum of inputs, the same object for all problems of a curve so that these share their laws."""
    return Spectrum.of(inputs if d is None else inputs.at_dimension(d))


def _own_output(
    problem: Problem, output: _InitialOutput, noise: NDArray[np.float64], variance: float
) -> OwnOutput | None:
    """Return the part of a residual that is the linear part of an initial output of order one.

    It is known given the Gaussian part of the residual, whose values at the nodes and variance are `noise` and
    `variance`.
    """
    if output.linear == 0:
        return None
    known = math.copysign(math.sqrt(output.linear), -moments(problem.activation).linear)
    return OwnOutput(known, known / variance * noise, 1 - known**2 / variance)


def rows_after_a_step(
    problem: Problem,
    samples: StepSamples | CorrelatedSamples | DampedSamples,
    d: float,
    width: float,
    *,
    own_output: bool = True,
) -> RowFluctuations:
    """Return the fluctuations of the rows after a step at some sizes.

    On isotropic inputs the network's `own_output` adds to B here; other samples know what it adds.
    """
    activation, sphere = problem.activation, problem.initial_weights == "sphere"
    e = problem.eta.size(width) / math.sqrt(width)
    if isinstance(samples, StepSamples):
        added = _quadratic_output(problem, ISOTROPIC, d, width) if own_output else None
        by_output = 0.0 if added is None else float(added[0])
        return row_fluctuations(activation, samples, e, samples.ratio, sphere=sphere, by_output=by_output)
    if isinstance(samples, DampedSamples):
        return damped_fluctuations(activation, samples, e, sphere=sphere)
    return correlated_fluctuations(activation, samples, e, sphere=sphere)


class _InitialOutput(NamedTuple):
    """Mean and variance of the network's output before the step, over inputs, and the square of its linear part."""

    mean: float
    variance: float
    linear: float


def _initial_output(
    problem: Problem, d: float, width: float, constant: float | None, *, own_output: bool
) -> _InitialOutput:
    """Return the law of the output that the residual of the step holds; arguments as in `step_statistics`."""
    activation, readout = moments(problem.activation), problem.readout
    mean, values = activation.mean * readout.mean, readout.kind == "vocabulary"
    constant_variance = readout.second_moment * activation.mean**2
    # All neurons respond alike to the length of an input, at second order: N^2 weak correlations between them.
    alike = readout.mean**2 * activation.quadratic**2 * width / d
    # So far of the sum over neurons divided by sqrt(N).
    variance = readout.second_moment * activation.second_moment + alike
    linear = activation.linear**2 * readout.second_moment
    if problem.output_scale == "1/N":
        if values:
            variance -= constant_variance  # values in exact proportions: a mean that does not vary
        scale = 1 / width if own_output else 0.0
        return _InitialOutput(mean, scale * variance, scale * linear)
    if abs(mean) > _TYPED * math.sqrt(readout.second_moment * activation.second_moment):
        raise InvalidInput(
            "output_scale", problem.output_scale, "'1/N' when both the activation and the readout have a non-zero mean"
        )
    if values:
        # Values in exact proportions sum to nothing, or to what is left of numbers that were typed.
        constant = 0.0 if problem.is_limit else math.sqrt(width) * mean
    if constant is not None:
        mean, variance = constant, variance - constant_variance
    return _InitialOutput(mean, variance, linear)


def _quadratic_output(problem: Problem, spectrum: Spectrum, d: float, width: float) -> NDArray[np.float64] | None:
    """Return what the quadratic part of the network's own output adds to B in each class of directions, if anything.

    Docs, "Own output", equation (W6).
    """
    alike, stretched = _alike(problem, d, width), derivative_slope(problem.activation)
    if alike == 0 or abs(stretched) < ROUNDING:
        return None
    by_length, _, _ = own_output_slopes(problem.activation)
    # By partial integration: what is along C times a row, and what is along the row.
    rest = (by_length - math.sqrt(2) * stretched) / stretched
    return -alike * (math.sqrt(2) * spectrum.eigenvalue + rest * spectrum.moment(2))


def _alike(problem: Problem, d: float, width: float) -> float:
    """Return the factor of what an input's length does to the network's output, which all neurons have in common."""
    term = 1 / width if problem.output_scale == "1/N" else 1 / math.sqrt(width)
    return term * width / d * problem.readout.mean * moments(problem.activation).quadratic


def _own_output_terms(
    problem: Problem,
    d: float,
    width: float,
    residual_mean: float,
    fluctuations: RowFluctuations,
    known: CorrelatedSamples | DampedSamples | None = None,
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return `own_drift` and `own_norm` of `StepStatistics`.

    What the network's own output does to a row has these factors: one term of a sum over all neurons, and what all have
    in common of an input's length, where of the readouts only the mean is left. The latter is a part of B on correlated
    inputs and of a damped step (`_quadratic_output`).

    Docs, "Uniform equivalent", equations (E14) and (E14a). Docs, "Own output", equation (W5).
    """
    activation, e = moments(problem.activation), problem.eta.size(width) / math.sqrt(width)
    term = 1 / width if problem.output_scale == "1/N" else 1 / math.sqrt(width)
    by_length, own, squares = own_output_slopes(problem.activation)
    in_proportion = -e * _alike(problem, d, width) * by_length
    if known is not None:
        in_proportion, own = 0.0, own * float(known.spectrum.share @ known.stretch[0])
    one, two, _ = fluctuations.linear_norm
    by_square = 2 * e**2 * fluctuations.sample_length * residual_mean * squares
    norm = -term * activation.linear * one, -term * (activation.linear * two + by_square)
    return (in_proportion, -e * term * own), norm
