"""How far one draw of the network lies from its prediction: the standard deviation of the errors over draws.

Given the samples of the step, the test error is the derivative of the minimal loss by the weight at which the fit knows
the population, and the training error is the loss less ``ridge`` times its derivative by the penalty (the envelope
theorem, twice). Their variances are derivatives of the covariance of the losses of two fits
(`gradstep.theory.loss_covariance`). The samples of the step add what follows from four numbers of theirs, ``E r u``,
``E r^2``, ``E r`` and ``|X_perp^T r|^2``, through the alignment, the spike and the bulk. This project.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gradstep.errors import InvalidInput, NotConverged
from gradstep.gaussian import moments
from gradstep.problem import Problem
from gradstep.theory.features import ConditionalFeatures
from gradstep.theory.loss_covariance import SharedDraw, loss_covariance, square_variance
from gradstep.theory.residual import residual_law
from gradstep.theory.step import StepStatistics, step_statistics
from gradstep.theory.tables import Tables, sizes_of, tables_of
from gradstep.theory.uniform import UniformSolution, solve

__all__ = ["Spread", "predict_spread"]

#: Relative changes of the population's weight and of the penalty in the differences that stand for derivatives.
_POPULATION_CHANGE = 1e-4
_RIDGE_CHANGE = 1e-3
#: Share of the loss below which the training error is rounding.
_INTERPOLATES = 1e-3
#: Largest relative distance of the loss's difference quotients from the test error and the readout's norm.
_TOLERANCE = 0.02

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Spread:
    """Standard deviations.

    Attributes
    ----------
    test_error, train_error : float
        Of the errors over independent draws of everything: first layer, readout, samples of the step and of the fit.
        `train_error` is nan where the fit interpolates: there the loss is all penalty.
    squared_error : float
        Of ``(f_hat - f*)^2`` over fresh inputs, for one network: a test error that is measured on ``m`` inputs has the
        variance ``test_error^2 + squared_error^2 / m``.
    """

    test_error: float
    train_error: float
    squared_error: float


def predict_spread(problem: Problem) -> Spread:
    """Predict the standard deviation of the errors over draws, at finite sizes.

    One network lies this far from `predict`, and the mean of ``k`` networks ``k**0.5`` times less. To leading order: at
    fixed ratios the relative deviations fall like ``d**-0.5``. Takes as long as a dozen predictions.

    Parameters
    ----------
    problem : Problem
        With finite sizes and ``output_scale="1/N"``.

    Returns
    -------
    Spread

    Raises
    ------
    InvalidInput
        In the proportional limit, where nothing fluctuates, and for an initial output of order one.
    NotConverged
        If the equations' true residual stays above 1e-10, or differences of losses do not have the errors for
        derivatives (almost without ridge, near interpolation).

    Examples
    --------
    >>> import gradstep as gs
    >>> problem = gs.Problem(activation="tanh", teacher="sin", d=256, width=256, n_step=512, n=512, eta=1.0, ridge=2.0)
    >>> relative = gs.predict_spread(problem).test_error / gs.predict(problem).test_error
    >>> print(f"{relative:.1%}")
    8.2%
    """
    if problem.is_limit:
        raise InvalidInput("d", problem.d, "a finite dimension: in the limit nothing fluctuates")
    if problem.output_scale != "1/N":
        raise InvalidInput("output_scale", problem.output_scale, "'1/N'")
    sizes = sizes_of(problem)
    d, width, n_step, samples, ridge = sizes
    step = step_statistics(problem, d, width, n_step)
    tables = tables_of(problem, step, sizes)
    here = _solve(problem, step, tables, np.array([ridge]))
    # The population is felt where its weight is that of the samples.
    weight = tables.features.weight
    change = _POPULATION_CHANGE * float(weight @ here.point.remaining[0])
    fits = _solve(problem, step, tables, ridge * np.array([1, 1, 1 + _RIDGE_CHANGE]), np.array([0, change, 0]))
    _check_derivatives(problem, tables.features, fits, change)

    draw = SharedDraw(tables, problem.teacher, step.alignment, problem.noise, d - 1, width, samples)
    covariance, error = loss_covariance(draw, fits)
    derivatives = np.array([[-1 / change, 1 / change, 0], [1 + 1 / _RIDGE_CHANGE, 0, -1 / _RIDGE_CHANGE]]) / samples
    variance = np.diagonal(derivatives @ covariance @ derivatives.T) + _step_variance(problem, step, here)
    test, train = np.sqrt(np.maximum(variance, 0.0)).tolist()
    if here.train_error[0] < _INTERPOLATES * here.train_loss[0]:
        train = math.nan
    return Spread(test, train, math.sqrt(max(float(square_variance(draw, fits, error)[0]), 0.0)))


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


def _step_variance(problem: Problem, step: StepStatistics, here: UniformSolution) -> Array:
    """Return the variances of test and training error from the samples of the step and the mean of the readouts.

    That of a parabola in each of the independent directions: for an even teacher the slope in ``E r u`` vanishes.
    """
    variance = np.zeros(2)
    for up, down in _shifted_errors(problem, step):
        variance += ((up - down) / 2) ** 2 + (up + down - 2 * _errors(here)) ** 2 / 2
    return variance


def _errors(solution: UniformSolution) -> Array:
    return np.array([solution.test_error[0], solution.train_error[0]])


def _shifted_errors(problem: Problem, step: StepStatistics) -> Iterator[tuple[Array, Array]]:
    """Yield the errors a standard deviation up and down each of the independent directions of the step's numbers."""
    if step.spike == 0:
        return
    sizes = sizes_of(problem)
    d, width, n_step, _, ridge = sizes
    law = residual_law(problem.teacher, step.residual_offset, step.residual_noise)
    r, u = law.residual, law.projection
    mean, linear = law.mean(r), law.mean(r * u)
    values = np.stack([r * u - linear, r**2 - law.square, r - mean])
    covariance = np.zeros((4, 4))
    covariance[:3, :3] = (law.weight * values) @ values.T / n_step
    # |X_perp^T r|^2 is a chi-square of d - 1 degrees, and the readouts' mean moves the residuals.
    covariance[3, 3] = 2 / (d - 1)
    readout = problem.readout
    moved = np.array([0, -2 * mean, -1]) * moments(problem.activation).mean
    covariance[:3, :3] += np.outer(moved, moved) * (readout.second_moment - readout.mean**2) / width
    scale, axes = np.linalg.eigh(covariance)
    for axis in (axes * np.sqrt(np.maximum(scale, 0.0))).T:
        errors = []
        for change in (axis, -axis):
            square = max(law.square + change[1], 0.05 * law.square)
            gradient = linear + change[0]
            norm = math.hypot(gradient, math.sqrt(d / n_step * square * max(1 + change[3], 0.05)))
            shifted = replace(
                step,
                alignment=gradient / norm,
                gradient_norm=norm,
                spike=step.spike * norm / step.gradient_norm,
                bulk=step.bulk * square / law.square,
                drift=step.drift + step.curvature * change[2],
            )
            errors.append(_errors(_solve(problem, shifted, tables_of(problem, shifted, sizes), np.array([ridge]))))
        yield errors[0], errors[1]
