"""From a problem to its prediction: which equations to use, tables shared between problems, batches."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gradstep.errors import GradstepError, InvalidInput, NotConverged, within_range
from gradstep.gaussian import ScalarFunction, smoothed
from gradstep.memory import remembered
from gradstep.problem import Problem, check_problem, link_of
from gradstep.theory.arguments import checked_refine, listed_problems
from gradstep.theory.caveats import caveats_of, fit_indicators, largest_caveats, step_indicators
from gradstep.theory.equivalent.batches import Fit, solve_fits
from gradstep.theory.equivalent.tables import (
    LARGE_DIMENSION,
    SteppedNetwork,
    Tables,
    sizes_of,
    stepped_networks,
    without_fit,
)
from gradstep.theory.equivalent.uniform import UniformSolution
from gradstep.theory.models import BulkModel, RowLaw, check_models, models_for
from gradstep.theory.prediction import QUANTITIES, Curve, Prediction, mean_curve, mean_of
from gradstep.theory.step.own_output import output_constants
from gradstep.theory.step.statistics import readout_values
from gradstep.theory.together import Computation, together
from gradstep.threads import one_thread

__all__ = ["predict", "predict_each", "predict_many", "predict_roughly"]

#: Models of rows and bulk to what a prediction is called: of the real network, and of the model of Cui et al. 2024.
_METHODS = {("network", "structured"): "uniform equivalent", ("isotropic", "isotropic"): "spiked random features"}

#: Largest rounding of a test error, beside itself or beside the labels' power: it is a difference of two numbers of the
#: size of the label noise's.
_ROUNDING = 1e-6
#: Bytes of tables that are kept, and that problems hold while they wait to be solved together. The curves of a page
#: have a quarter of it as a rule; after a step so strong that the features are steep one table has as much.
_REMEMBERED = 2.0**26
#: Problems whose tables are made together.
_AT_ONCE = 64
#: What multiplies the number of nodes of a prediction that is wanted roughly.
_ROUGH = 0.7

Array = NDArray[np.float64]


@dataclass(frozen=True)
class _Prepared:
    """All of a prediction that is independent of the ridge fit."""

    method: str
    #: Of the whole gradient with the teacher.
    alignment: float
    tables: Tables
    #: What a prediction says of the step alone.
    spike_strength: float
    bulk_variance: float
    kappa: Array
    target: Array
    #: Overlaps of the spike with the direction along which features are resolved (`StepStatistics.turn`).
    turn: tuple[float, float]
    #: Of what the equations leave out, see `gradstep.theory.caveats`; none of a model, which is not the network.
    indicators: Mapping[str, float]


def _memory(parts: Sequence[tuple[float, _Prepared]]) -> float:
    """Return the bytes that tables take, about and at most."""
    return sum(prepared.tables.memory for _, prepared in parts)


_Asked: TypeAlias = tuple[Problem, RowLaw, BulkModel, float, float | None]
_Parts: TypeAlias = tuple[tuple[float, _Prepared], ...]


class _Waiting(NamedTuple):
    """A problem that waits to be solved."""

    problem: int  # Number of the problem.
    place: tuple[int, int]  # Place of this description among those over which the prediction is averaged.
    share: float  # Weight of this description in the mean.
    prepared: _Prepared


def predict(
    problem: Problem, *, rows: RowLaw | None = None, bulk: BulkModel | None = None, refine: int = 1
) -> Prediction:
    """Predict the errors of the network after one step and a ridge fit.

    This solves the uniform equivalent of this project, one set of equations for every step size, readout law and
    activation. The predictions are about the real network at every dimension. In the proportional limit (``d = inf``)
    the equations are solved at a dimension so large that effects of finite size are negligible.

    Cui et al. 2024 replace the network by a model, spiked random features. It leaves out that the rows of the network
    fluctuate and that its bulk is not isotropic; after a large step from few samples the limit of its error differs.
    ``rows="isotropic", bulk="isotropic"`` predicts this model. The closed equations of the papers are the functions of
    `gradstep.papers`.

    All results are means over draws. With ``output_scale="1/sqrt(N)"`` and an activation with a mean the initial output
    has a constant of order one that differs from draw to draw; the equations are then solved for several constants.

    The step is described by `gradstep.theory.step.statistics.step_statistics`, the rows after it by
    `gradstep.theory.neurons.groups.neuron_groups`, the features by
    `gradstep.theory.equivalent.features.conditional_features`, and the fit by
    `gradstep.theory.equivalent.uniform.solve`.
    Docs, "Uniform equivalent", equations (E9), (E10), (E17) and (E18).

    Parameters
    ----------
    problem : Problem
    rows : {"network", "isotropic"}, optional
        Law of the rows after the step: the real network's fluctuating projections and norms (default), or those of the
        spiked random features model of Cui et al. 2024.
    bulk : {"structured", "isotropic"}, optional
        Directions of the rows off the spike: those of the step's own samples, as in the real network (default with
        ``rows="network"``), or all alike, as in the spiked random features model (default otherwise).
    refine : int, optional
        Multiplies the number of quadrature nodes; compare with 1 to see the discretisation error.

    Returns
    -------
    Prediction

    Raises
    ------
    InvalidInput
        On a step ``width**exponent`` in the proportional limit with an exponent that is neither 0 nor 1/2 (between them
        the error is a staircase in the exponent that no finite size is near, above the features grow without end), or
        an initial output that diverges with the width (``output_scale="1/sqrt(N)"``, activation and readout both with a
        mean). With correlated inputs or a damped step, on a model of `rows` or `bulk`.
    NotConverged
        If the equations' true residual stays above 1e-10.
    """
    return predict_many([problem], rows=rows, bulk=bulk, refine=refine)[0]


@one_thread()
@within_range("the prediction")
def predict_many(
    problems: Iterable[Problem], *, rows: RowLaw | None = None, bulk: BulkModel | None = None, refine: int = 1
) -> list[Prediction]:
    """Predict a batch of problems; those that share everything but `n` and `ridge` share their tables.

    Parameters
    ----------
    problems : iterable of Problem
    rows, bulk, refine
        As in `predict`.

    Returns
    -------
    list of Prediction
        In the order given.

    Raises
    ------
    InvalidInput, NotConverged
        As in `predict`, for a problem that fails.
    """
    problems = listed_problems(problems)
    check_models(rows, bulk)
    refine = checked_refine(refine)
    return _predictions(problems, models_for(rows, bulk), refine)


@one_thread()
@within_range("the prediction")
def predict_roughly(problems: Sequence[Problem]) -> list[Prediction]:
    """Predict a batch with fewer nodes, for a search: errors are off by some 1e-5 as a rule, in half the time or less.

    Predictions are in the order given. Raises `InvalidInput` and `NotConverged` as `predict_many` does.
    """
    return _predictions(problems, models_for(None, None), _ROUGH)


def _predictions(problems: Sequence[Problem], models: tuple[RowLaw, BulkModel], refine: float) -> list[Prediction]:
    """Predict a batch, with any factor on the numbers of nodes."""
    asked: dict[_Asked, list[tuple[int, int, float]]] = {}
    for index, problem in enumerate(problems):
        check_problem(problem)
        if (problem.inputs is not None or problem.is_damped) and models != ("network", "structured"):
            named = ("rows", models[0]) if models[0] == "isotropic" else ("bulk", models[1])
            allowed = (
                "None for correlated inputs or a damped step: the model is one of isotropic inputs and a plain step"
            )
            raise InvalidInput(*named, allowed)
        bare = without_fit(problem)
        for place, (share, constant) in enumerate(output_constants(problem, math.ceil(refine))):
            asked.setdefault((bare, *models, refine, constant), []).append((index, place, share))
    results: dict[int, dict[tuple[int, int], tuple[float, Prediction]]] = {}
    waiting: list[_Waiting] = []
    held = 0.0
    for those, parts in _prepared.each(asked):
        for index, place, share in asked[those]:
            described = enumerate(parts)
            waiting += [_Waiting(index, (place, of), share * part, prepared) for of, (part, prepared) in described]
        held += _memory(parts)
        if held > _REMEMBERED:
            _solve_all(problems, waiting, results)
            waiting.clear()
            held = 0.0
    _solve_all(problems, waiting, results)
    # In the order of the descriptions, whatever else was solved with them.
    return [_mean([parts for _, parts in sorted(results[index].items())]) for index in range(len(problems))]


def predict_each(problems: Sequence[Problem], *, some: bool = False) -> list[Prediction | GradstepError]:
    """Predict what can be of a batch: a problem that has no prediction has the error that says why in its place.

    The results are in the order given. If `some` is true and there is no prediction at all, the first error is raised.
    Raises `InvalidInput` if one of them is no `Problem`.
    """
    for problem in problems:
        check_problem(problem)
    with suppress(GradstepError):
        return [*predict_many(problems)]
    found: list[Prediction | GradstepError] = []
    for problem in problems:
        try:
            found.append(predict(problem))
        except GradstepError as error:
            found.append(error)
    if some and isinstance(found[0], GradstepError) and not any(isinstance(each, Prediction) for each in found):
        raise found[0]
    return found


def _solve_all(
    problems: Sequence[Problem],
    waiting: Sequence[_Waiting],
    results: dict[int, dict[tuple[int, int], tuple[float, Prediction]]],
) -> None:
    """Solve what waits and add it to the results."""
    fits = [_fit(problems[member.problem], member.prepared) for member in waiting]
    for place, solution, index in solve_fits(fits):
        member = waiting[place]
        prediction = _prediction(problems[member.problem], member.prepared, solution, index)
        results.setdefault(member.problem, {})[member.place] = member.share, prediction


def _fit(problem: Problem, prepared: _Prepared) -> Fit:
    return Fit(prepared.tables, sizes_of(problem), problem.noise)


def _mean(parts: Sequence[tuple[float, Prediction]]) -> Prediction:
    """Return the mean of predictions, each with its probability; the curve is at the nodes of the middle one."""
    if len(parts) == 1:
        return parts[0][1]
    mean = mean_of(parts, QUANTITIES, ("residual", "iterations"))
    kappa, curves = mean.curve.kappa, [(share, p.curve) for share, p in parts]
    learned = mean_curve([(share, c.kappa, c.learned) for share, c in curves], kappa)
    target = mean_curve([(share, c.kappa, c.target) for share, c in curves], kappa)
    slope = mean_curve([(share, c.kappa, c.slope) for share, c in curves], kappa)
    caveats = largest_caveats(caveat for _, part in parts for caveat in part.caveats)
    return replace(mean, curve=Curve(kappa, learned, target, slope), caveats=caveats)


@remembered(_REMEMBERED, _memory)
def _prepared(asked: Sequence[_Asked]) -> Iterator[tuple[_Asked, _Parts]]:
    """Yield what predictions are the means of, with weights."""
    for start in range(0, len(asked), _AT_ONCE):
        those = asked[start : start + _AT_ONCE]
        for place, parts in together(_parts(*each) for each in those):
            yield those[place], parts


def _parts(
    problem: Problem, rows: RowLaw, model: BulkModel, refine: float, constant: float | None = None
) -> Computation[_Parts]:
    """Return what a prediction is the mean of, with weights."""
    found = yield from stepped_networks(problem, rows, model, refine, constant, plane=rows == "network")
    return tuple((share, _prepare(problem, rows, model, network)) for share, network in found)


def _prepare(problem: Problem, rows: RowLaw, model: BulkModel, network: SteppedNetwork) -> _Prepared:
    """Return all of a prediction that is independent of the ridge fit, for one description of the network."""
    sizes, literal, step, tables = network.sizes, network.gradient_step, network.step, network.tables
    features = tables.features
    spike_strength = abs(literal.whole_spike) * math.sqrt(sizes.width * problem.readout.second_moment)
    if problem.is_limit and problem.eta.exponent > 0 and literal.spike != 0:
        spike_strength = math.inf
    values, shares = readout_values(problem.readout)
    stretched = literal.stretch_square(values, values**2)
    own_norm = (literal.own_norm[0] + literal.own_component_norm + literal.own_norm[1] * values) * values**2
    bulk_variance = float(shares @ (stretched + own_norm)) + literal.bulk * problem.readout.second_moment
    kappa, (target, _) = features.kappa[features.first], features.along_spike(features.teacher_mean)
    if step.influence < 1:
        target = _seen(link_of(problem.teacher), step.alignment, kappa, odd=kappa[0] > 0)
    if kappa[0] > 0:
        # An odd activation: the tables hold the positive half; the target's even part is invisible to the features.
        kappa, target = _mirrored(kappa), _mirrored(target)
    # All predictions that share these tables hand them out.
    kappa.flags.writeable = target.flags.writeable = False
    method = _METHODS.get((rows, model), f"uniform equivalent, {rows} rows, {model} bulk")
    return _Prepared(
        method,
        network.alignment,
        tables,
        spike_strength,
        bulk_variance,
        kappa,
        target,
        step.turn,
        step_indicators(problem, literal) if rows == "network" else {},
    )


def _seen(teacher: ScalarFunction, alignment: float, kappa: Array, *, odd: bool) -> Array:
    """Return the teacher's mean given the projection on a direction of this overlap with it, or the odd part of it."""
    rest = math.sqrt(max(1 - alignment**2, 0.0))
    mean = smoothed(teacher, alignment * kappa, rest).mean
    return (mean - smoothed(teacher, -alignment * kappa, rest).mean) / 2 if odd else mean


def _mirrored(half: Array) -> Array:
    """Return an odd function on the whole line, given on the positive half."""
    return np.concatenate([-half[::-1], half])


def _prediction(problem: Problem, prepared: _Prepared, solution: UniformSolution, index: int) -> Prediction:
    kappa, target = prepared.kappa, prepared.target
    features = prepared.tables.features
    nodes = len(features.weight)
    learned, at_nodes = features.along_spike(solution.learned[index, :nodes])
    # The teacher's rest is partly along a second direction that features are resolved along.
    overlap = prepared.tables.bulk.overlap
    slope = math.sqrt(max(1 - overlap**2, 0.0)) * features.along_spike(solution.rest_slope[index, :nodes])[0]
    slope = slope + overlap * at_nodes
    if len(kappa) > len(learned):
        # The slope of an odd function is even.
        learned, slope = _mirrored(learned), np.concatenate([slope[::-1], slope])
    curve = Curve(kappa, learned, target, slope)
    if prepared.turn[1] != 0:
        curve = curve.turned(target, *prepared.turn)
    freedom = float(solution.degrees_of_freedom[index])
    test_error = float(solution.test_error[index])
    labels, rounding = float(prepared.tables.label_square), problem.noise**2 * sys.float_info.epsilon
    # Labels of zero have nothing to hide.
    if labels > 0 and not rounding <= _ROUNDING * max(test_error, labels):
        rounding /= max(test_error, labels)
        raise NotConverged("the test error", rounding, _ROUNDING, "Use less label noise: it hides the labels.")
    freedom = freedom / LARGE_DIMENSION if problem.is_limit else freedom
    return Prediction(
        problem=problem,
        method=prepared.method,
        test_error=test_error,
        train_error=float(solution.train_error[index]),
        train_loss=float(solution.train_loss[index]),
        alignment=prepared.alignment,
        spike_strength=prepared.spike_strength,
        bulk_variance=prepared.bulk_variance,
        degrees_of_freedom=freedom,
        residual=float(solution.residual[index]),
        iterations=solution.iterations,
        curve=curve,
        caveats=caveats_of(fit_indicators(problem, freedom, prepared.indicators)) if prepared.indicators else (),
    )
