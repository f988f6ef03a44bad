r"""The steps of other draws: the mean step a standard deviation up and down each of the numbers in which draws differ.

The averages of ``r u``, ``r^2`` and ``r`` over the samples of a draw differ from their means, and so does that of ``r
u^2``, by which the step stretches the rows along the teacher. All other averages follow them. So each draw has a law of
its samples (`law_of_draw`).

In isotropic inputs alignment, spike and bulk depend on these averages and on ``|X_perp^T r|^2``. If the samples stretch
the rows, other products of sums over the samples count too (`gradstep.theory.step.sample_forms`). An initial output of
order one adds its direction ``b`` (`gradstep.theory.step.own_output`): its length, its overlap with the teacher, and
the average of ``r <b, x>``. A damped step in isotropic inputs has ``theta`` in place of the gradient
(`gradstep.theory.step.direction_draws`).

In correlated inputs the gradient has a part in each class of directions. A draw has there the component ``mu_1* + x_c``
of bt and the noise ``y_c`` in place of the mean ones. Errors are smooth functions of an eigenvalue of these, so that
polynomials of low degree in the eigenvalue have all that errors feel. Of a damped step the numbers in different classes
have covariances, and the noise is under the metric. This project.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gradstep.gaussian import moments
from gradstep.problem import Problem
from gradstep.resolution import NOTHING
from gradstep.sizes import Sizes
from gradstep.theory.step.correlated_output import ClassMeanRow
from gradstep.theory.step.correlated_samples import CorrelatedSamples, OwnOutput, Spectrum, Turn
from gradstep.theory.step.damped_samples import DampedSamples
from gradstep.theory.step.direction_draws import DirectionDraws, class_draws, direction_draws
from gradstep.theory.step.own_output import MeanRow, given_own_output
from gradstep.theory.step.row_fluctuations import RowFluctuations
from gradstep.theory.step.sample_forms import SampleForms, sample_forms
from gradstep.theory.step.samples import StepSamples
from gradstep.theory.step.statistics import StepStatistics, rows_after_a_step
from gradstep.theory.step.weighted_samples import Residual

__all__ = ["Deviation", "drawn_steps", "law_of_draw"]

Array = NDArray[np.float64]

#: Least value of a mean square over its mean, where a large deviation would leave less.
_LEAST = 0.05
#: Weight over the largest that is none.
_ROUNDING = 1e-12
#: Least eigenvalue of correlations of averages, over the largest: with less, some are the same number twice.
_SAME = 1e-10
#: Highest degree of the polynomials of the eigenvalues by which the gradient of a draw differs from the mean one.
#: With nine the deviations for a power law, in which leading classes have one direction each, are 1 to 2 % larger.
_DEGREE = 4
#: Share of a standard deviation by which products of samples are moved. Errors are taken to be linear in them: a whole
#: deviation may be more than the resolvents allow where the step shrinks rows to nothing in some direction.
_SHARE = 0.1


class Deviation(NamedTuple):
    """The step of draws in which one of the independent random numbers is off its mean."""

    up: StepStatistics
    down: StepStatistics | None  #: As far on the other side; None for a number in which errors are taken to be linear.
    share: float = 1.0  #: How far, in standard deviations.


Deviations: TypeAlias = Iterator[Deviation]


def law_of_draw(law: Residual, change: Array) -> Residual:
    """Return the law of the samples of a draw whose averages of ``r u``, ``r^2`` and ``r`` are not the means.

    `change`, shape (3,) or (4,), is what the averages of the draw are above the means, in this order, the fourth that
    of ``r u^2``. The law found has the same residuals with other weights. Without the fourth average the projections
    have the mean square one: rows that the samples do not stretch hardly feel it, and the equations of a damped step
    rely on it.

    Docs, "Spread", equation (D8a).
    """
    values = _averaged(law)[: len(change)]
    scale = np.sqrt(np.maximum(values**2 @ law.weight, NOTHING))
    values /= scale[:, None]
    # Averages may be the same number twice, as those of r u and r^2 if residuals are linear.
    known = np.linalg.pinv((law.weight * values) @ values.T, rtol=_SAME, hermitian=True)
    weight = law.weight * np.maximum(1 + (change / scale) @ known @ values, _LEAST)
    weight /= weight.sum()
    scale_of_u = math.sqrt(weight @ law.projection**2) if len(change) == 3 else 1.0
    return Residual(law.projection / scale_of_u, law.residual, weight)


def _stretched(problem: Problem) -> bool:
    """Return whether the samples of the step stretch the rows, along the teacher in proportion to ``r u^2``."""
    return problem.activation.parity != "odd"


def _averaged(law: Residual) -> Array:
    """Return ``r u``, ``r^2``, ``r`` and ``r u^2`` at the nodes, less their means, shape (4, nodes)."""
    r, u = law.residual, law.projection
    values = np.stack([r * u, r**2, r, r * u**2])
    return np.asarray(values - (values @ law.weight)[:, None])


def drawn_steps(
    problem: Problem, step: StepStatistics, sizes: Sizes[float], *, along_common: bool = False
) -> Deviations:
    """Yield the step a standard deviation up and down each of the independent directions of its random numbers.

    The mean step is given with its spike along the gradient. Each deviation is in the form that holds for independent
    rows, along the direction that features are resolved along: with `along_common` the common part of the rows
    (`gradstep.theory.step.own_output.MeanRow`).

    Docs, "Spread", equations (D9), (D10), (D11) and (D11b).
    """
    known, output = step.correlated, None
    if known is not None and problem.output_scale != "1/N":
        output = _OutputDraws.of(ClassMeanRow.of(problem, step, sizes.width), sizes.d, along_common=along_common)
        step = given_own_output(problem, step, sizes.width, along_common)
        known = step.correlated
    if isinstance(known, CorrelatedSamples):
        yield from _turned_steps(problem, step, known, sizes, output)
        return
    if known is not None and (problem.inputs is not None or output is not None):
        yield from _damped_turned_steps(problem, step, known, sizes, output)
        return
    numbers: _Numbers | _DampedNumbers
    if known is None:
        numbers = _Numbers.of(problem, step, sizes, along_common=along_common)
    else:
        numbers = _DampedNumbers.of(problem, step, known, sizes)
    yield from (Deviation(numbers.shifted(axis), numbers.shifted(-axis)) for axis in _axes(numbers.covariance))
    if isinstance(numbers, _Numbers):
        still = np.zeros(len(numbers.covariance))
        yield from (Deviation(numbers.shifted(still, forms), None, _SHARE) for forms in numbers.products)


def _axes(covariance: Array) -> Iterator[Array]:
    """Yield a standard deviation along each principal axis along which there is any."""
    scale, axes = np.linalg.eigh(covariance)
    yield from (axis for axis in (axes * np.sqrt(np.maximum(scale, 0.0))).T if axis.any())


@dataclass(frozen=True)
class _Numbers:
    """Random numbers of the step, and what it is without their fluctuations.

    In the order of `covariance`: ``E r u``, ``E r^2``, ``E r``, ``E r u^2`` and ``E r t`` over the samples, where ``t``
    is the projection on ``b / |b|``, the relative ``|X_perp^T r|^2``, ``<b, beta*>`` and the relative ``|b|^2``. Where
    `products` are followed, the sixth is one of them.
    """

    problem: Problem
    step: StepStatistics  # The step itself, its spike along the gradient.
    covariance: Array  # Shape (8, 8).
    products: list[SampleForms]  # Directions of the products of samples, the share `_SHARE` of a deviation long.
    linear: float  # ``E r u``.
    square: float  # ``E r^2``.
    sampled: float  # ``d / n_step``.
    row: MeanRow  # The mean row of the network, for an initial output of order one only.

    @classmethod
    def of(cls, problem: Problem, step: StepStatistics, sizes: Sizes[float], *, along_common: bool) -> _Numbers:
        d, width, n_step, *_ = sizes
        samples, readout = step.samples, problem.readout
        assert samples is not None
        law = samples.law
        r, mean, linear = law.residual, law.mean(law.residual), law.mean(law.residual * law.projection)
        order_one = problem.output_scale != "1/N"
        row = MeanRow.of(problem, step, width, along_common)
        values = np.concatenate([_averaged(law), [r * samples.output - samples.own]])
        covariance = np.zeros((8, 8))
        covariance[:5, :5] = (law.weight * values) @ values.T / n_step
        if order_one:
            covariance[4, 4] += law.square * samples.output_variance / n_step
            covariance[6, 6], covariance[7, 7] = readout.second_moment / d, 2 / d
        # |X_perp^T r|^2 is a chi-square of d - 1 degrees. The mean of Gaussian readouts moves the residuals; that of a
        # vocabulary is fixed, and an output of order one is given.
        # Where the samples do not stretch rows it is the one product that counts. A whole population has none.
        products: list[SampleForms] = []
        if order_one or not _stretched(problem) or samples.ratio == 0:
            covariance[5, 5] = 2 / (d - 1)
        else:
            products = sample_forms(law, samples.ratio, 2 / (d - 1) * _SHARE**2)
        if not order_one:
            covariance[:4, :4] += _of_mean_readout(problem, width, np.array([0, -2 * mean, -1, -1]))
        if not _stretched(problem):
            covariance[3] = covariance[:, 3] = 0.0
        return cls(problem, step, covariance, products, linear, law.square, d / n_step, row)

    def shifted(self, change: Array, forms: SampleForms | None = None) -> StepStatistics:
        """Return the step, for independent rows, of numbers that are off by `change`, or of other products."""
        by_linear, by_square, by_mean, _, by_own, by_norm, overlap, by_length = change.tolist()
        if forms is None:
            averages = change[: 4 if _stretched(self.problem) else 3]
            row, step = self.row, _with_law(self.problem, self.step, averages)
        else:
            assert self.step.samples is not None
            row, by_norm = self.row, forms.square / forms.mean_square - 1
            drawn = replace(self.step.samples, forms=forms)
            step = replace(self.step, samples=drawn, fluctuations=_rows(self.problem, self.step, drawn))
        by_square += row.slope * (row.slope * float(row.output @ row.output) * by_length - 2 * overlap * self.linear)
        square = max(self.square + by_square, _LEAST * self.square)
        sampled = math.sqrt(self.sampled * square * max(1 + by_norm, _LEAST))
        taught, output = np.array([self.linear + by_linear, by_own, sampled, 0.0]), row.output
        if not row.independent:
            # Rows that hold their own b have its fluctuations like all others of theirs.
            output = np.array([overlap, row.output[1] * math.sqrt(max(1 + by_length, _LEAST)), 0.0, 0.0])
        step = _scaled(step, square / self.square, by_mean)
        # A small initial output is not given to the rows, neither in the mean step nor in its draws.
        given = self.problem.output_scale != "1/N"
        return replace(replace(row, taught=taught, output=output).resolved(step).resolved, given_output=given)


def _of_mean_readout(problem: Problem, width: float, moved: Array) -> Array:
    """Return the covariance of numbers that the mean of a Gaussian readout moves, by so much for each unit of output.

    The values of a vocabulary are in exact proportions.
    """
    readout = problem.readout
    mean_square = moments(problem.activation).mean ** 2 * readout.second_moment / width
    return np.outer(moved, moved) * (mean_square if readout.kind == "gaussian" else 0.0)


@dataclass(frozen=True)
class _DampedNumbers:
    """Random numbers of a damped step in isotropic inputs, whose direction is ``theta``.

    In the order of `covariance`: ``bt.theta``, ``E r u``, ``E r^2``, ``E r`` and the relative ``|theta|^2`` off bt. The
    last is without what it gains with ``E r^2``.
    """

    problem: Problem
    step: StepStatistics
    covariance: Array  # Shape (5, 5).
    draws: DirectionDraws

    @classmethod
    def of(cls, problem: Problem, step: StepStatistics, samples: DampedSamples, sizes: Sizes[float]) -> _DampedNumbers:
        d, width, n_step, *_ = sizes
        draws = direction_draws(samples, n_step)
        along, *_, mean, whole = draws.mean
        # The mean of Gaussian readouts moves the residuals.
        moved = np.array([0, 0, -2 * mean, -1, -2 * mean * draws.square_slope])
        covariance = draws.covariance + _of_mean_readout(problem, width, moved)
        off, turn = max(whole - along**2, NOTHING), np.eye(5)
        turn[4] = np.array([-2 * along, 0.0, -draws.square_slope, 0.0, 1.0]) / off
        covariance = turn @ covariance @ turn.T
        # There is one direction less off bt.
        covariance[4, 4] *= d / (d - 1)
        return cls(problem, step, covariance, draws)

    def shifted(self, change: Array) -> StepStatistics:
        """Return the step of numbers that are off by `change`."""
        by_along, _, by_square, by_mean, by_norm = change.tolist()
        along, _, square, _, whole = self.draws.mean.tolist()
        by_square = max(by_square, (_LEAST - 1) * square)
        off = whole - along**2
        off = max(off * (1 + by_norm) + self.draws.square_slope * by_square, _LEAST * off)
        along += by_along
        norm = math.sqrt(along**2 + off)
        step = _with_law(self.problem, self.step, change[1:4])
        step = replace(step, alignment=along / norm, gradient_norm=norm, spike=step.gain * norm)
        return _scaled(step, 1 + by_square / square, by_mean).resolved


def _scaled(step: StepStatistics, square: float, by_mean: float) -> StepStatistics:
    """Return the step with another ``E r^2``, over what it was, and ``E r``."""
    return replace(step, bulk=step.bulk * square, drift=step.drift + step.curvature * by_mean)


class _OutputShift(NamedTuple):
    """Changes of the step if the vector ``f`` is that of another draw."""

    signal: Array  # Change of the spike along bt, over the part of bt, shape (classes,).
    square: Array  # Relative change of the squared part of the spike along ``f / |f|``, shape (classes,).
    residual: float  # Change of ``E r^2``.


@dataclass(frozen=True)
class _OutputDraws:
    """Draws of the direction of an initial output of order one, in correlated inputs or after a damped step."""

    row: ClassMeanRow
    d: float
    # Shape (classes,): the spike's part along ``f / |f|`` in each class: zero if the spike is independent of the rows.
    along: Array

    @classmethod
    def of(cls, row: ClassMeanRow, d: float, *, along_common: bool) -> _OutputDraws:
        """Return the draws for one way of describing the rows."""
        return cls(row, d, row.along if along_common else 0 * row.part)

    def shifts(self) -> Iterator[_OutputShift]:
        """Yield a standard deviation along each independent direction of the draws.

        The vector f has the lengths of a Gaussian one in each class, and overlaps with bt there.
        """
        known, row, none = self.row.samples.spectrum, self.row, 0 * self.along
        output = row.power * row.slope**2
        for part in _polynomials(known.eigenvalue, known.share):
            change = math.sqrt(2 / self.d) * part
            yield _OutputShift(none, change if self.along.any() else none, output * float(row.part @ change))
        for part in _polynomials(known.eigenvalue, known.teacher):
            overlap = np.sqrt(known.eigenvalue / self.d) * part
            by_residual = -2 * row.slope * math.sqrt(row.power) * row.samples.linear * float(known.teacher @ overlap)
            yield _OutputShift(self.along * overlap, none, by_residual)

    def by_own(self, change: float) -> Array:
        """Return the relative change of the squared part along ``f / |f|`` for one of ``E[u_f r]``."""
        if not self.along.any():
            return 0 * self.along
        after = self.along + change * self.row.samples.made
        return np.asarray(np.divide(after, self.along, out=np.ones_like(after), where=self.along != 0) ** 2 - 1)

    def over_noise(self, noise: Array) -> Array:
        """Return the squared part along ``f / |f|`` over another squared part in each class."""
        return np.asarray(self.row.part * self.along**2 / np.maximum(noise, NOTHING))


def _turned_steps(
    problem: Problem, step: StepStatistics, samples: CorrelatedSamples, sizes: Sizes[float], output: _OutputDraws | None
) -> Deviations:
    """Yield what `drawn_steps` does for correlated inputs."""
    d, width, n_step, *_ = sizes
    law, known = samples.law, samples.spectrum
    known_averages = 4 if _stretched(problem) else 3
    values, one, of_mean = _averaged(law)[:known_averages], np.ones_like(known.eigenvalue), samples.turned.noise
    own = None if output is None else output.row.plain.own
    if own is not None:
        values = np.concatenate([values, [law.residual * own.mean - own.linear]])
    covariance = (law.weight * values) @ values.T / n_step
    if output is None:
        covariance += _of_mean_readout(
            problem, width, np.array([0, -2 * law.mean(law.residual), -1, -1])[:known_averages]
        )
    elif own is not None:
        covariance[-1, -1] += law.square * own.variance / n_step
    random = samples.ratio * law.square * known.share * known.eigenvalue**2
    # A change of the part along f counts as one of the noise.
    beside = None if output is None else output.over_noise(random)

    def noise(square: float, change: Array) -> Array:
        """Return the factor of the noise for a factor of E r^2 and a relative change of the squared part along f."""
        whole = square * one if beside is None else square + beside * change
        return np.asarray(of_mean * np.sqrt(np.maximum(whole, _LEAST)))

    def moved(change: Array) -> StepStatistics:
        by_linear, by_square, by_mean, *_ = change.tolist()
        by_own = change[known_averages:].tolist()
        square = max(1 + by_square / law.square, _LEAST)
        along = one if output is None else output.by_own(*by_own or (0.0,))
        # The law of the draw has its own E r^2.
        turn = Turn(samples.signal + by_linear, noise(1.0, along / square))
        return _scaled(_with_law(problem, step, change[:known_averages]).along(turn), square, by_mean).resolved

    for axis in _axes(covariance):
        yield Deviation(moved(axis), moved(-axis))
    scale = math.sqrt(law.square / n_step)
    for part in _polynomials(known.eigenvalue, known.teacher)[1:]:
        turns = (Turn(samples.signal + sign * scale * part, of_mean) for sign in (1, -1))
        up, down = (step.along(turn) for turn in turns)
        yield Deviation(up.resolved, down.resolved)
    free = _free(known, d)
    for part in _polynomials(known.eigenvalue, free):
        change = math.sqrt(2 / d) * free / known.share * part
        squares = (np.maximum(1 + sign * change, _LEAST) for sign in (1, -1))
        turns = (Turn(samples.signal, of_mean * np.sqrt(square)) for square in squares)
        up, down = (step.along(turn) for turn in turns)
        yield Deviation(up.resolved, down.resolved)

    def of_output(shift: _OutputShift, sign: float) -> StepStatistics:
        square = max(1 + sign * shift.residual / law.square, _LEAST)
        by_signal = np.divide(shift.signal, known.eigenvalue, out=0 * one, where=known.eigenvalue > 0)
        turn = Turn(samples.signal + sign * by_signal, noise(square, sign * shift.square))
        return _scaled(step.along(turn), square, 0.0).resolved

    for shift in () if output is None else output.shifts():
        yield Deviation(of_output(shift, 1.0), of_output(shift, -1.0))


def _free(known: Spectrum, d: float) -> Array:
    """Return the share of the directions in each class that are orthogonal to bt, where it has a part of it."""
    return np.maximum(known.share - np.where(known.teacher > 0, (1 + _ROUNDING) / d, 0.0), 0.0)


def _damped_turned_steps(
    problem: Problem, step: StepStatistics, samples: DampedSamples, sizes: Sizes[float], output: _OutputDraws | None
) -> Deviations:
    """Yield what `drawn_steps` does for a damped step on correlated inputs, or with an own output of order one."""
    d, width, n_step, *_ = sizes
    law, known, one = samples.law, samples.spectrum, np.ones_like(samples.spectrum.eigenvalue)
    free = _free(known, d)
    along, across = _polynomials(known.eigenvalue, known.teacher), _polynomials(known.eigenvalue, free)
    draws, count, mean = class_draws(samples, n_step, along, across, free), len(along), law.mean(law.residual)
    covariance = draws.covariance
    if output is None:
        moved = np.concatenate([np.zeros(count + 1), [-2 * mean, -1], -2 * mean * draws.square_slope])
        covariance = covariance + _of_mean_readout(problem, width, moved)
    of_mean = one if samples.turn is None else samples.turn.noise

    def noise(change: Array) -> Array:
        """Return the sums of ``|theta|^2`` off bt for another noise."""
        turned = replace(samples, turn=Turn(samples.signal, of_mean * (1 + change)))
        return np.array([turned.noise(part) for part in across])

    # The sums are squares of the noise. What makes one of them grow by one, and no other one.
    slopes = np.array([noise(part / 2) - noise(-part / 2) for part in across])
    made = np.linalg.solve(slopes.reshape(2 * (len(across),)), across)

    def shifted(change: Array) -> StepStatistics:
        _, by_square, by_mean = change[count : count + 3].tolist()
        signal = samples.signal + change[:count] @ along
        turn = Turn(signal, of_mean * np.maximum(1 + change[count + 3 :] @ made, math.sqrt(_LEAST)))
        drawn = _with_law(problem, step, change[count : count + 3])
        assert isinstance(drawn.correlated, DampedSamples)
        # The other law makes a noise of another length out of the same function.
        before, after = (replace(each, turn=turn).noise(one) for each in (samples, drawn.correlated))
        turn = Turn(signal, math.sqrt(before / max(after, NOTHING)) * turn.noise)
        return _scaled(drawn.along(turn), max(1 + by_square / law.square, _LEAST), by_mean).resolved

    yield from (Deviation(shifted(axis), shifted(-axis)) for axis in _axes(covariance))
    if output is None:
        return
    slope = draws.square_slope @ made

    def of_output(shift: _OutputShift, sign: float) -> StepStatistics:
        factor = np.maximum(1 + sign * shift.residual * slope, math.sqrt(_LEAST))
        turn = Turn(samples.signal + sign * shift.signal, of_mean * factor)
        along = samples.along_output * np.sqrt(np.maximum(1 + sign * shift.square, _LEAST))
        moved = replace(step, correlated=replace(samples, output=along)).along(turn)
        return _scaled(moved, max(1 + sign * shift.residual / law.square, _LEAST), 0.0).resolved

    yield from (Deviation(of_output(shift, 1.0), of_output(shift, -1.0)) for shift in output.shifts())


def _with_law(problem: Problem, step: StepStatistics, change: Array) -> StepStatistics:
    """Return the step with the law of the samples of a draw, and with the rows after it, see `law_of_draw`."""
    samples = step.correlated or step.samples
    assert samples is not None
    law = law_of_draw(samples.law, change)
    linear = law.mean(law.residual * law.projection)
    if isinstance(samples, StepSamples):
        drawn = replace(samples, law=law, linear=linear)
        return replace(step, samples=drawn, fluctuations=_rows(problem, step, drawn))
    plain = samples.plain if isinstance(samples, DampedSamples) else samples
    # The turn of the mean step is that of its law. The draw gets its own.
    turn = None if samples.own is None else samples.turn
    plain = replace(plain, law=law, linear=linear, turn=None, own=_output_of_draw(samples.own, law))
    correlated = replace(samples, plain=plain, turn=turn) if isinstance(samples, DampedSamples) else plain
    return replace(step, correlated=correlated, fluctuations=_rows(problem, step, correlated))


def _rows(
    problem: Problem, step: StepStatistics, samples: StepSamples | CorrelatedSamples | DampedSamples
) -> RowFluctuations:
    """Return the fluctuations of rows with other samples, of which the second degree of the step knows nothing."""
    d, width, *_ = problem.real_sizes()
    found, known = rows_after_a_step(problem, samples, d, width), step.fluctuations
    return replace(
        found,
        bend_variance=known.bend_variance,
        bend_third=known.bend_third,
        bend_vector=known.bend_vector,
        bend_norm=known.bend_norm,
        bend_rest=known.bend_rest,
    )


def _output_of_draw(own: OwnOutput | None, law: Residual) -> OwnOutput | None:
    """Return what the residuals of a draw hold of an own output of order one, under the law of its samples.

    Projections on f stay uncorrelated with those on bt, and of mean square one: the equations rely on both.
    """
    if own is None:
        return None
    u = law.projection
    mean = own.mean - law.mean(own.mean * u) / law.mean(u**2) * u
    mean *= math.sqrt((1 - own.variance) / max(law.mean(mean**2), NOTHING))
    return own._replace(mean=mean, linear=law.mean(law.residual * mean))


def _polynomials(values: Array, weight: Array) -> Array:
    """Return polynomials of values that are orthonormal with weights, as far as there are such, (degrees, classes)."""
    seen = weight > _ROUNDING * weight.max()
    if not seen.any():
        return np.zeros((0, len(values)))
    x, root = values[seen], np.sqrt(weight[seen])
    degree = min(_DEGREE, len(x) - 1)
    centre, size = float(root**2 @ x), float(np.ptp(x)) or 1.0
    basis, _ = np.linalg.qr(root[:, None] * np.polynomial.legendre.legvander((x - centre) / size, degree))
    found = np.zeros((degree + 1, len(values)))
    found[:, seen] = basis.T / root
    return found
