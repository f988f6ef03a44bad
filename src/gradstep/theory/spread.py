"""Spread of single networks around their prediction: the standard deviation of the errors over draws.

Given the samples of the step, the test error is the derivative of the minimal loss with respect to a weight of the
population in the objective. The training error is the loss less ``ridge`` times its derivative with respect to the
penalty. Both follow from the envelope theorem. The variances of the errors are therefore derivatives of the covariance
of the losses of two fits (`gradstep.theory.equivalent.loss_covariance`). How the step itself differs between draws is
`gradstep.theory.step.drawn_steps`. This project.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gradstep.errors import InvalidInput, NotConverged, within_range
from gradstep.gaussian import moments
from gradstep.problem import Problem, check_problem, link_of
from gradstep.summary import Summarised, Summary
from gradstep.text_table import Table, number
from gradstep.theory.arguments import check_labels, listed_problems
from gradstep.theory.caveats import Caveat, spread_caveats
from gradstep.theory.equivalent.batches import Fit, solve_fits
from gradstep.theory.equivalent.features import ConditionalFeatures
from gradstep.theory.equivalent.loss_covariance import SharedDraw, loss_covariance, square_variance
from gradstep.theory.equivalent.tables import SteppedNetwork, Tables, sizes_of, stepped_networks, tables_of, without_fit
from gradstep.theory.equivalent.uniform import UniformSolution, solve
from gradstep.theory.step.drawn_steps import Deviation, drawn_steps
from gradstep.theory.step.own_output import output_constants
from gradstep.theory.together import result_of, together
from gradstep.threads import one_thread

__all__ = ["Spread", "predict_spread", "predict_spread_many"]

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
#: Largest relative distance of the loss's difference quotients from the test error and the readout's norm.
_TOLERANCE = 0.02

Array = NDArray[np.float64]
#: Errors and their variances, for test and training, the variance of squared test errors, and the degrees of freedom,
#: given the constant in the initial output. The training error's is nan where the fit interpolates.
_Given: TypeAlias = tuple[Array, Array, float, float]


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
    caveats : tuple of Caveat
        Effects that are left out and may matter here, the largest first, with the estimated size of what they do to
        the standard deviation of the test error.
    """

    test_error: float
    train_error: float
    squared_error: float
    problem: Problem
    caveats: tuple[Caveat, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the standard deviations by name, and the caveats, fit for JSON once nan is replaced."""
        values = {name: getattr(self, name) for name in ("test_error", "train_error", "squared_error")}
        return values | {"caveats": [asdict(caveat) for caveat in self.caveats]}

    def summary(self) -> Summary:
        """Return the summary that is printed."""
        of = {
            "test_error": "test error of a network",
            "train_error": "training error of a network",
            "squared_error": "squared error of one network at one input",
        }
        rows = [[text, number(getattr(self, name), 3)] for name, text in of.items()]
        table = Table(["quantity", "standard deviation"], rows)
        notes = [f"caveat: {caveat}" for caveat in self.caveats]
        return Summary("Spread of single networks around their prediction", [str(self.problem)], table, notes)


@one_thread()
@within_range("the spread")
def predict_spread(problem: Problem) -> Spread:
    """Predict the standard deviation of the errors over draws, at finite sizes.

    One network lies this far from `predict`, and the mean of ``k`` networks ``k**0.5`` times less. To leading order: at
    fixed ratios the relative deviations fall like ``d**-0.5``. Takes as long as one to two dozen predictions.

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
    return predict_spread_many([problem])[0]


@one_thread()
@within_range("the spread")
def predict_spread_many(problems: Iterable[Problem]) -> list[Spread]:
    """Predict the spread of a batch of problems; those that share everything but `n` and `ridge` share their tables.

    Parameters
    ----------
    problems : iterable of Problem
        With finite sizes.

    Returns
    -------
    list of Spread
        In the order given.

    Raises
    ------
    InvalidInput, NotConverged
        As in `predict_spread`, for a problem that fails.
    """
    problems = listed_problems(problems)
    for problem in problems:
        check_problem(problem)
        if problem.is_limit:
            raise InvalidInput("d", problem.d, "a finite dimension: in the limit nothing fluctuates")
        check_labels(problem)
    constants = [output_constants(problem) for problem in problems]
    asked = [(problem, constant) for problem, of in zip(problems, constants, strict=True) for _, constant in of]
    given = iter([found for _, found in sorted(_given_constants(asked), key=itemgetter(0))])
    return [
        _over_constants(problem, [(share, next(given)) for share, _ in of])
        for problem, of in zip(problems, constants, strict=True)
    ]


def _over_constants(problem: Problem, given: Sequence[tuple[float, _Given]]) -> Spread:
    """Return the spread, from that given the constant in the initial output, with the constants' weights."""
    weight = np.array([share for share, _ in given])
    errors, variances, squares, freedom = (np.stack(column) for column in zip(*(of for _, of in given), strict=True))
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
    caveats = spread_caveats(problem, float(weight @ freedom))
    return Spread(test, train, math.sqrt(max(float(weight @ squares), 0.0)), problem, caveats)


def _given_constants(asked: Sequence[tuple[Problem, float | None]]) -> Iterator[tuple[int, _Given]]:
    """Yield the place of each problem with a constant in the initial output, in any order, and what is given that."""
    alike: dict[tuple[Problem, float | None], list[int]] = {}
    for place, (problem, constant) in enumerate(asked):
        alike.setdefault((without_fit(problem), constant), []).append(place)
    for (bare, constant), places in alike.items():
        # Not with tables of others: differences of losses would have other rounding there.
        networks = result_of(stepped_networks(bare, constant=constant))
        of_networks = [_of_network([asked[place][0] for place in places], network) for _, network in networks]
        weight = np.array([share for share, _ in networks])
        for place, found in zip(places, zip(*of_networks, strict=True), strict=True):
            errors, variances, *others = (np.stack(column) for column in zip(*found, strict=True))
            squares, freedom = (float(weight @ other) for other in others)
            yield place, (weight @ errors, weight @ variances, squares, freedom)


def _of_network(problems: Sequence[Problem], network: SteppedNetwork) -> list[_Given]:
    """Return what `_given_constants` does, for problems that share one description of their network."""
    moved, drawn = _drawn(problems[0], network)
    fits = [Fit(tables, sizes_of(problem), problem.noise) for tables in drawn for problem in problems]
    solved = {place: _Fitted.of(solution, index) for place, solution, index in solve_fits(fits)}
    count = len(problems)
    return [
        _of_fits(problem, network, moved, *(solved[index + count * number] for number in range(len(drawn))))
        for index, problem in enumerate(problems)
    ]


def _drawn(problem: Problem, network: SteppedNetwork) -> tuple[list[Deviation], list[Tables]]:
    """Return the draws of a network's step, and the tables of the network and then of the steps of the draws."""
    moved: list[Deviation] = []
    if network.gradient_step.spike != 0:
        moved += drawn_steps(problem, network.gradient_step, network.sizes, along_common=network.along_common)
    steps = [step for each in moved for step in (each.up, each.down) if step is not None]
    tables = dict(together(tables_of(problem, step, network.sizes, resolve=network.resolve) for step in steps))
    return moved, [network.tables, *(tables[place] for place in range(len(steps)))]


class _Fitted(NamedTuple):
    """Test and training error of a fit, its training loss, and ``1/(1 + V)`` at the nodes."""

    errors: Array
    train_loss: float
    remaining: Array

    @classmethod
    def of(cls, solution: UniformSolution, index: int) -> _Fitted:
        errors = np.array([solution.test_error[index], solution.train_error[index]])
        return cls(errors, float(solution.train_loss[index]), solution.point.remaining[index].copy())


def _of_fits(
    problem: Problem, network: SteppedNetwork, moved: Sequence[Deviation], here: _Fitted, *ends: _Fitted
) -> _Given:
    """Return what `_given_constants` does for one description of the network, from its fit and those of its draws."""
    (d, width, _, samples, ridge), tables, step = sizes_of(problem), network.tables, network.step.resolved
    # The population changes the fit if its weight is that of the samples.
    weight = tables.features.weight
    change = _POPULATION_CHANGE * float(weight @ here.remaining[: len(weight)])
    fits = _solve(problem, tables, ridge * np.array([1, 1, 1 + _RIDGE_CHANGE]), np.array([0, change, 0]))
    _check_derivatives(problem, tables.features, fits, change)

    draw = SharedDraw(tables, link_of(problem.teacher), step.alignment, problem.noise, d - 1, width, samples)
    covariance, error = loss_covariance(draw, fits)
    derivatives = np.array([[-1 / change, 1 / change, 0], [1 + 1 / _RIDGE_CHANGE, 0, -1 / _RIDGE_CHANGE]]) / samples
    variance = np.diagonal(derivatives @ covariance @ derivatives.T)
    variance = variance + _step_variance(moved, here, ends)
    if here.errors[1] < _INTERPOLATES * here.train_loss:
        variance[1] = math.nan
    square = float(square_variance(draw, fits, error)[0])
    return here.errors, variance, square, float(fits.degrees_of_freedom[0])


def _solve(problem: Problem, tables: Tables, ridge: Array, population: Array | None = None) -> UniformSolution:
    d, width, _, samples, _ = sizes_of(problem)
    alike = np.ones(len(ridge))
    return solve(
        tables.shared,
        noise=problem.noise * alike,
        dimension=d * alike,
        width=width * alike,
        samples=samples * alike,
        ridge=ridge,
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


def _step_variance(moved: Sequence[Deviation], here: _Fitted, ends: Sequence[_Fitted]) -> Array:
    """Return the variances of test and training error from the samples of the step and the mean of the readouts.

    That of a parabola in each of the independent directions of which there are both ends: for an even teacher the
    slope in ``E r u`` vanishes.
    """
    variance, rest = np.zeros(2), iter(ends)
    for each in moved:
        up = next(rest).errors - here.errors
        if each.down is None:
            variance += (up / each.share) ** 2
            continue
        down = next(rest).errors - here.errors
        variance += ((up - down) / 2) ** 2 + (up + down) ** 2 / 2
    return variance
