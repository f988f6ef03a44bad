"""Spread of single networks around their prediction: the standard deviation of the errors over draws.

Given the samples of the step, the test error is the derivative of the minimal loss with respect to a weight of the
population in the objective. The training error is the loss less ``ridge`` times its derivative with respect to the
penalty. Both follow from the envelope theorem. The variances of the errors are therefore derivatives of the covariance
of the losses of two fits (`gradstep.theory.equivalent.loss_covariance`). The samples of the step contribute through the
alignment, the spike and the bulk, which depend on four random numbers: the averages of ``r u``, ``r^2`` and ``r``, and
``|X_perp^T r|^2``. An initial output of order one adds its direction ``b`` (`gradstep.theory.step.own_output`): its
length, its overlap with the teacher, and the average of ``r <b, x>``. This project.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gradstep.errors import InvalidInput, NotConverged, within_range
from gradstep.gaussian import moments
from gradstep.problem import Problem, check_problem, link_of
from gradstep.resolution import NOTHING
from gradstep.summary import Summarised, Summary
from gradstep.text_table import Table, number
from gradstep.theory.arguments import check_labels
from gradstep.theory.equivalent.features import ConditionalFeatures
from gradstep.theory.equivalent.loss_covariance import SharedDraw, loss_covariance, square_variance
from gradstep.theory.equivalent.tables import SteppedNetwork, Tables, sizes_of, stepped_networks, tables_of
from gradstep.theory.equivalent.uniform import UniformSolution, solve
from gradstep.theory.step.correlated_samples import CorrelatedSamples, Turn
from gradstep.theory.step.damped_samples import DampedSamples
from gradstep.theory.step.direction_draws import DirectionDraws, direction_draws
from gradstep.theory.step.own_output import MeanRow, output_constants
from gradstep.theory.step.statistics import StepStatistics
from gradstep.threads import one_thread

__all__ = ["Spread", "predict_spread"]

#: Relative changes of the population's weight and of the penalty in the differences that stand for derivatives.
_POPULATION_CHANGE = 1e-4
_RIDGE_CHANGE = 1e-3
#: Share of the loss below which the training error is rounding.
_INTERPOLATES = 1e-3
#: A variance that is this much below zero, over the square of the error, is rounding.
_ROUNDING = 1e-9
#: Largest standard deviation of the test error, in units of the error, that a leading order can mean.
_WIDEST = 2.0
#: An error below, in units of the labels' mean square, is rounding.
_VANISHING = 1e-6
#: Highest degree of the polynomials of the eigenvalues by which the gradient of a draw differs from the mean one.
_DEGREE = 4
#: Largest relative distance of the loss's difference quotients from the test error and the readout's norm.
_TOLERANCE = 0.02

Array = NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class Spread(Summarised):
    """Standard deviations.

    Attributes
    ----------
    test_error, train_error : float
        Standard deviations of the errors over independent draws of first layer, readout, and both sets of samples.
        `train_error` is nan where the fit interpolates: there the loss is all penalty.
    squared_error : float
        Of ``(f_hat - f*)^2`` over fresh inputs, for one network: a test error that is measured on ``m`` inputs has the
        variance ``test_error^2 + squared_error^2 / m``.
    problem : Problem
    """

    test_error: float
    train_error: float
    squared_error: float
    problem: Problem

    def to_dict(self) -> dict[str, float]:
        """Return the standard deviations by name, fit for JSON once nan is replaced."""
        return {name: getattr(self, name) for name in ("test_error", "train_error", "squared_error")}

    def summary(self) -> Summary:
        """Return the summary that is printed."""
        of = {
            "test_error": "test error of a network",
            "train_error": "training error of a network",
            "squared_error": "squared error of one network at one input",
        }
        rows = [[text, number(getattr(self, name), 3)] for name, text in of.items()]
        table = Table(["quantity", "standard deviation"], rows)
        return Summary("Spread of single networks around their prediction", [str(self.problem)], table)


@one_thread()
@within_range("the spread")
def predict_spread(problem: Problem) -> Spread:
    """Predict the standard deviation of the errors over draws, at finite sizes.

    One network lies this far from `predict`, and the mean of ``k`` networks ``k**0.5`` times less. To leading order: at
    fixed ratios the relative deviations fall like ``d**-0.5``. Takes as long as a dozen predictions.

    Docs, "Spread", equation (D2).

    Parameters
    ----------
    problem : Problem
        With finite sizes.

    Returns
    -------
    Spread

    Raises
    ------
    InvalidInput
        In the proportional limit, where nothing fluctuates; for labels that are all zero; for an initial output that
        diverges with the width.
    NotConverged
        If the equations' true residual stays above 1e-10, or differences of losses do not have the errors for
        derivatives (almost without ridge, near interpolation), or the deviations are above twice the error itself or
        their variance is below zero.

    Examples
    --------
    >>> import gradstep as gs
    >>> problem = gs.Problem(activation="tanh", teacher="sin", d=256, width=256, n_step=512, n=512, eta=1.0, ridge=2.0)
    >>> relative = gs.predict_spread(problem).test_error / gs.predict(problem).test_error
    >>> print(f"{relative:.1%}")
    8.2%
    """
    check_problem(problem)
    if problem.is_limit:
        raise InvalidInput("d", problem.d, "a finite dimension: in the limit nothing fluctuates")
    check_labels(problem)
    shares, given = zip(
        *((share, _given_constant(problem, constant)) for share, constant in output_constants(problem)), strict=True
    )
    errors, variances, squares = (np.stack(column) for column in zip(*given, strict=True))
    weight = np.array(shares)
    # The variance of the means given the constant adds to the mean of the variances.
    total = weight @ variances + weight @ (errors - weight @ errors) ** 2
    size = max(float(weight @ errors[:, 0]), _VANISHING * moments(link_of(problem.teacher)).second_moment)
    advice = "Use larger sizes, or an activation that grows more slowly."
    if (least := float(np.nanmin(total)) / size**2) < -_ROUNDING:
        reason = f"is {least:.3g} times the square of the error: small deviations say nothing"
        raise NotConverged("the predicted variance", -least, _ROUNDING, advice, reason)
    test, train = np.sqrt(np.maximum(total, 0.0)).tolist()
    if not test <= _WIDEST * size:
        reason = f"is {test / size:.3g} times the error; above {_WIDEST:g} times, small deviations say nothing"
        raise NotConverged("the predicted spread", test / size, _WIDEST, advice, reason)
    return Spread(test, train, math.sqrt(max(float(weight @ squares), 0.0)), problem)


def _given_constant(problem: Problem, constant: float | None) -> tuple[Array, Array, float]:
    """Return errors and their variances, for test and training, and the variance of squared test errors.

    Given the constant in the initial output. The training error is nan where the fit interpolates.
    """
    networks = stepped_networks(problem, constant=constant)
    shares, given = zip(*((share, _of_network(problem, network)) for share, network in networks), strict=True)
    errors, variances, squares = (np.stack(column) for column in zip(*given, strict=True))
    weight = np.array(shares)
    return weight @ errors, weight @ variances, float(weight @ squares)


def _of_network(problem: Problem, network: SteppedNetwork) -> tuple[Array, Array, float]:
    """Return the results of `_given_constant` for one description of the network."""
    (d, width, _, samples, ridge), tables, step = network.sizes, network.tables, network.step.resolved
    here = _solve(problem, step, tables, np.array([ridge]))
    # The population changes the fit if its weight is that of the samples.
    weight = tables.features.weight
    change = _POPULATION_CHANGE * float(weight @ here.point.remaining[0])
    fits = _solve(problem, step, tables, ridge * np.array([1, 1, 1 + _RIDGE_CHANGE]), np.array([0, change, 0]))
    _check_derivatives(problem, tables.features, fits, change)

    draw = SharedDraw(tables, link_of(problem.teacher), step.alignment, problem.noise, d - 1, width, samples)
    covariance, error = loss_covariance(draw, fits)
    derivatives = np.array([[-1 / change, 1 / change, 0], [1 + 1 / _RIDGE_CHANGE, 0, -1 / _RIDGE_CHANGE]]) / samples
    variance = np.diagonal(derivatives @ covariance @ derivatives.T)
    variance = variance + _step_variance(problem, network, here)
    if here.train_error[0] < _INTERPOLATES * here.train_loss[0]:
        variance[1] = math.nan
    return _errors(here), variance, float(square_variance(draw, fits, error)[0])


def _solve(
    problem: Problem, step: StepStatistics, tables: Tables, ridge: Array, population: Array | None = None
) -> UniformSolution:
    d, width, _, samples, _ = sizes_of(problem)
    alike = np.ones(len(ridge))
    return solve(
        tables.shared,
        noise=problem.noise * alike,
        dimension=d * alike,
        width=width * alike,
        samples=samples * alike,
        ridge=ridge,
        shrinkage=step.readout_shrinkage * alike,
        population=population,
    )


def _check_derivatives(problem: Problem, features: ConditionalFeatures, fits: UniformSolution, change: float) -> None:
    """Compare the difference quotients of the losses with what theory has for the derivatives."""
    along = features.teacher_mean * fits.learned + features.teacher_slope * fits.rest_slope
    label_square = features.teacher_square + problem.noise**2
    loss = (fits.point.sample_weight * (label_square - along)).sum(axis=1)
    by_population = (loss[1] - loss[0]) / (change * sizes_of(problem).n)
    by_ridge = (loss[2] - loss[0]) / (_RIDGE_CHANGE * sizes_of(problem).ridge)
    off = max(
        abs(by_population / (fits.test_error[0] + problem.noise**2) - 1), abs(by_ridge / fits.readout_norm[0] - 1)
    )
    if not off <= _TOLERANCE:
        raise NotConverged("the derivatives of the loss", float(off), _TOLERANCE, "Raise the ridge.")


def _step_variance(problem: Problem, network: SteppedNetwork, here: UniformSolution) -> Array:
    """Return the variances of test and training error from the samples of the step and the mean of the readouts.

    That of a parabola in each of the independent directions: for an even teacher the slope in ``E r u`` vanishes.
    """
    variance = np.zeros(2)
    for up, down in _shifted_errors(problem, network):
        variance += ((up - down) / 2) ** 2 + (up + down - 2 * _errors(here)) ** 2 / 2
    return variance


def _errors(solution: UniformSolution) -> Array:
    return np.array([solution.test_error[0], solution.train_error[0]])


def _shifted_errors(problem: Problem, network: SteppedNetwork) -> Iterator[tuple[Array, Array]]:
    """Yield the errors a standard deviation up and down each of the independent directions of the step's numbers."""
    sizes, resolve = network.sizes, network.resolve
    if network.gradient_step.spike == 0:
        return
    correlated = network.gradient_step.correlated
    if correlated is None:
        pairs = _Numbers.of(problem, network).steps()
    elif isinstance(correlated, DampedSamples):
        pairs = _DampedNumbers.of(problem, network, correlated).steps()
    else:
        pairs = _turned_steps(problem, network, correlated)
    for pair in pairs:
        tables = [tables_of(problem, step, sizes, resolve=resolve) for step in pair]
        ridge = np.array([sizes.ridge])
        up, down = (_solve(problem, step, table, ridge) for step, table in zip(pair, tables, strict=True))
        yield _errors(up), _errors(down)


def _axes(covariance: Array) -> Iterator[Array]:
    """Yield a standard deviation along each principal axis along which there is any."""
    scale, axes = np.linalg.eigh(covariance)
    yield from (axis for axis in (axes * np.sqrt(np.maximum(scale, 0.0))).T if axis.any())


@dataclass(frozen=True)
class _Numbers:
    """Random numbers of the step, and what it is without their fluctuations.

    In the order of `covariance`: ``E r u``, ``E r^2``, ``E r`` and ``E r t`` over the samples, the relative
    ``|X_perp^T r|^2``, ``<b, beta*>`` and the relative ``|b|^2``, where ``t`` is the projection on ``b / |b|``.

    Attributes
    ----------
    step : StepStatistics
        The step itself, its spike along the gradient.
    covariance : ndarray, shape (7, 7)
    linear, square : float
        ``E r u`` and ``E r^2``.
    sampled : float
        ``d / n_step``.
    row : MeanRow
        The mean row of the network, for an initial output of order one only.
    """

    step: StepStatistics
    covariance: Array
    linear: float
    square: float
    sampled: float
    row: MeanRow

    @classmethod
    def of(cls, problem: Problem, network: SteppedNetwork) -> _Numbers:
        step = network.gradient_step
        d, width, n_step, *_ = sizes_of(problem)
        activation, readout = moments(problem.activation), problem.readout
        samples = step.samples
        assert samples is not None
        law = samples.law
        r, u = law.residual, law.projection
        mean, linear = law.mean(r), law.mean(r * u)
        order_one = problem.output_scale != "1/N"
        row = MeanRow.of(problem, step, width, network.along_common)
        values = np.stack([r * u - linear, r**2 - law.square, r - mean, r * samples.output - samples.own])
        covariance = np.zeros((7, 7))
        covariance[:4, :4] = (law.weight * values) @ values.T / n_step
        if order_one:
            covariance[3, 3] += law.square * samples.output_variance / n_step
            covariance[5, 5], covariance[6, 6] = readout.second_moment / d, 2 / d
        # |X_perp^T r|^2 is a chi-square of d - 1 degrees. The mean of Gaussian readouts moves the residuals; that of a
        # vocabulary is fixed, and an output of order one is given.
        covariance[4, 4] = 2 / (d - 1)
        if not order_one:
            covariance[:3, :3] += _of_mean_readout(problem, width, np.array([0, -2 * mean, -1]))
        return cls(step, covariance, linear, law.square, d / n_step, row)

    def steps(self) -> Iterator[tuple[StepStatistics, StepStatistics]]:
        """Yield the step a standard deviation up and down each principal axis."""
        yield from ((self.shifted(axis), self.shifted(-axis)) for axis in _axes(self.covariance))

    def shifted(self, change: Array) -> StepStatistics:
        """Return the step, for independent rows, of numbers that are off by `change`."""
        by_linear, by_square, by_mean, by_own, by_norm, overlap, by_length = change.tolist()
        row = self.row
        by_square += row.slope * (row.slope * float(row.output @ row.output) * by_length - 2 * overlap * self.linear)
        square = max(self.square + by_square, 0.05 * self.square)
        sampled = math.sqrt(self.sampled * square * max(1 + by_norm, 0.05))
        taught, output = np.array([self.linear + by_linear, by_own, sampled, 0.0]), row.output
        if not row.independent:
            # Rows that hold their own b have its fluctuations like all others of theirs.
            output = np.array([overlap, row.output[1] * math.sqrt(max(1 + by_length, 0.05)), 0.0, 0.0])
        step = replace(
            self.step,
            bulk=self.step.bulk * square / self.square,
            drift=self.step.drift + self.step.curvature * by_mean,
        )
        return replace(row, taught=taught, output=output).resolved(step).resolved


def _of_mean_readout(problem: Problem, width: float, moved: Array) -> Array:
    """Return the covariance of numbers that the mean of a Gaussian readout moves, by so much for each unit of output.

    The values of a vocabulary are in exact proportions.
    """
    readout = problem.readout
    mean_square = moments(problem.activation).mean ** 2 * readout.second_moment / width
    return np.outer(moved, moved) * (mean_square if readout.kind == "gaussian" else 0.0)


@dataclass(frozen=True)
class _DampedNumbers:
    """The same for a damped step in isotropic inputs, whose direction is ``theta``.

    In the order of `covariance`: ``bt.theta``, ``E r^2``, ``E r`` and the relative ``|theta|^2`` off bt, without what
    it follows ``E r^2``.

    Attributes
    ----------
    step : StepStatistics
    covariance : ndarray, shape (4, 4)
    draws : DirectionDraws
    """

    step: StepStatistics
    covariance: Array
    draws: DirectionDraws

    @classmethod
    def of(cls, problem: Problem, network: SteppedNetwork, samples: DampedSamples) -> _DampedNumbers:
        d, width, n_step, *_ = sizes_of(problem)
        draws = direction_draws(samples, n_step)
        along, _, mean, whole = draws.mean
        # The mean of Gaussian readouts moves the residuals.
        moved = np.array([0, -2 * mean, -1, -2 * mean * draws.square_slope])
        covariance = draws.covariance + _of_mean_readout(problem, width, moved)
        off, turn = max(whole - along**2, NOTHING), np.eye(4)
        turn[3] = np.array([-2 * along, -draws.square_slope, 0.0, 1.0]) / off
        covariance = turn @ covariance @ turn.T
        # There is one direction less off bt.
        covariance[3, 3] *= d / (d - 1)
        return cls(network.gradient_step, covariance, draws)

    def steps(self) -> Iterator[tuple[StepStatistics, StepStatistics]]:
        """Yield the step a standard deviation up and down each principal axis."""
        yield from ((self.shifted(axis), self.shifted(-axis)) for axis in _axes(self.covariance))

    def shifted(self, change: Array) -> StepStatistics:
        """Return the step of numbers that are off by `change`."""
        by_along, by_square, by_mean, by_norm = change.tolist()
        along, square, _, whole = self.draws.mean.tolist()
        by_square = max(by_square, -0.95 * square)
        off = whole - along**2
        off = max(off * (1 + by_norm) + self.draws.square_slope * by_square, 0.05 * off)
        along += by_along
        norm = math.sqrt(along**2 + off)
        step = replace(self.step, alignment=along / norm, gradient_norm=norm, spike=self.step.gain * norm)
        return _scaled(step, 1 + by_square / square, by_mean)


def _scaled(step: StepStatistics, square: float, by_mean: float) -> StepStatistics:
    """Return the step with another ``E r^2``, over what it was, and ``E r``."""
    return replace(step, bulk=step.bulk * square, drift=step.drift + step.curvature * by_mean).resolved


def _turned_steps(
    problem: Problem, network: SteppedNetwork, samples: CorrelatedSamples
) -> Iterator[tuple[StepStatistics, StepStatistics]]:
    """Yield the step on correlated inputs a standard deviation up and down each of the independent directions.

    Docs, "Spread", equation (D9).
    """
    d, width, n_step, *_ = sizes_of(problem)
    law, known, step = samples.law, samples.spectrum, network.gradient_step
    r, u, one = law.residual, law.projection, np.ones_like(known.eigenvalue)
    mean = law.mean(r)
    values = np.stack([r * u - samples.linear, r**2 - law.square, r - mean])
    covariance = (law.weight * values) @ values.T / n_step
    covariance += _of_mean_readout(problem, width, np.array([0, -2 * mean, -1]))

    def moved(by_linear: float, by_square: float, by_mean: float) -> StepStatistics:
        square = max(1 + by_square / law.square, 0.05)
        return _scaled(_turned(step, samples, samples.linear + by_linear * one, square * one), square, by_mean)

    for axis in _axes(covariance):
        yield moved(*axis.tolist()), moved(*(-axis).tolist())
    scale = math.sqrt(law.square / n_step)
    for part in _polynomials(known.eigenvalue, known.teacher)[1:]:
        up, down = (_turned(step, samples, samples.linear + sign * scale * part, one) for sign in (1, -1))
        yield up.resolved, down.resolved
    # Of a class in which the teacher lies one direction is bt's.
    free = np.maximum(known.share - (known.teacher > 0) / d, 0.0)
    for part in _polynomials(known.eigenvalue, free):
        change = math.sqrt(2 / d) * free / known.share * part
        squares = (np.maximum(1 + sign * change, 0.05) for sign in (1, -1))
        up, down = (_turned(step, samples, samples.linear * one, square) for square in squares)
        yield up.resolved, down.resolved


def _turned(step: StepStatistics, samples: CorrelatedSamples, signal: Array, noise_square: Array) -> StepStatistics:
    """Return the step with another gradient, see `gradstep.theory.step.correlated_samples.Turn`."""
    turned = replace(samples, turn=Turn(signal, np.sqrt(noise_square)))
    _, one, two = step.fluctuations.projection_variance
    along = turned.form_along(turned.alignment)
    return replace(
        step,
        alignment=turned.alignment,
        gradient_norm=turned.norm,
        spike=step.gain * turned.norm,
        fluctuations=replace(step.fluctuations, projection_variance=(along, one, two)),
        correlated=turned,
    )


def _polynomials(values: Array, weight: Array) -> Array:
    """Return polynomials of values that are orthonormal with weights, as far as there are such, (degrees, classes)."""
    seen = weight > 0
    x, root = values[seen], np.sqrt(weight[seen])
    degree = min(_DEGREE, len(x) - 1)
    centre, size = float(root**2 @ x), float(np.ptp(x)) or 1.0
    basis, _ = np.linalg.qr(root[:, None] * np.polynomial.legendre.legvander((x - centre) / size, degree))
    found = np.zeros((degree + 1, len(values)))
    found[:, seen] = basis.T / root
    return found
