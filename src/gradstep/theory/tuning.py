"""The best ridge, step size, damping and split of a sample budget: minimisers of the predicted test error.

The predicted error is smooth in the logarithms of the penalty, the step size and the damping and in the number of
samples of the step (its equations are solved to 1e-10), so its minimum can be found and certified rather than read off
a grid.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradstep.checks import LARGEST_NUMBER, function_or_none, one_of
from gradstep.errors import InvalidInput, NotConverged
from gradstep.gaussian import moments
from gradstep.problem import CONVENTION, Problem, Step, check_problem, link_of
from gradstep.sizes import Proportional
from gradstep.summary import Summarised, Summary
from gradstep.text_table import Table, number
from gradstep.theory.arguments import check_labels
from gradstep.theory.caveats import caveat_lines
from gradstep.theory.equivalent.tables import sizes_of
from gradstep.theory.minimise import RESOLUTION, Axis, Bound, Minimum, minimise
from gradstep.theory.predict import predict, predict_many, predict_roughly
from gradstep.theory.prediction import Prediction
from gradstep.theory.references import reference_lines
from gradstep.theory.step.statistics import readout_values, step_statistics
from gradstep.threads import one_thread

__all__ = ["PARAMETERS", "Tuned", "TunedParameter", "tune"]

Array = NDArray[np.float64]
Parameter = Literal["ridge", "eta", "damping", "split"]

#: What can be tuned.
PARAMETERS: tuple[Parameter, ...] = ("ridge", "eta", "damping", "split")

_NOTHING_TO_LEARN = "Use a smaller ridge: there is nothing to learn but noise, and predicting zero has no error."
_NO_ERROR = "Add label noise, or narrow the bounds to where there is an error."
#: Points of the coarse scan by how many parameters are tuned at once: a decade of the first three, of the split.
_SCAN = {
    "ridge": {1: 4, 2: 2, 3: 1, 4: 1},
    "eta": {1: 5, 2: 3, 3: 2, 4: 1},
    "damping": {1: 3, 2: 2, 3: 1, 4: 1},
    "split": {1: 33, 2: 17, 3: 9, 4: 5},
}
#: Points of the scan between two reports of progress.
_BATCH = 64
#: Distance of the certificate's neighbours in the logarithm (or the logit of the split in the limit).
_SPACING = 0.05
#: Penalties searched, in units of the features' mean square times samples plus neurons.
_RIDGE_RANGE = (1e-8, 1e6)
#: Step sizes searched: from a spike that is lost in the bulk's spectrum to one of twenty a neuron.
_SMALLEST_SPIKE, _LARGEST_SPIKE = 0.03, 20.0
#: Dampings searched. The largest, in units of the largest eigenvalue of the inputs' covariance, stands for none.
_DAMPING_RANGE = (1e-4, 1e4)
#: Relative gain, times the dimension, that is no reason for a step, nor for a damped one: what is left out after it and
#: not without it.
_LEFT_OUT = 0.3
#: Largest value of a bound that is given, and one over the smallest: with room for the certificate's neighbours.
_FARTHEST_BOUND = LARGEST_NUMBER / 10
#: Least samples on either side of a split, and their share of the budget by default.
_FEWEST, _SMALLEST_SHARE = 3, 0.05
#: Error above the minimum by which the range of good values is defined.
_NEAR = 0.01
#: Relative differences of the error, over all values of a parameter, that are none.
_SWAY = 1e-9
#: Slope on a bound beyond which the bound is not the limit that it stands for.
_STILL_FALLING = 0.01
_OVER = "one or more of 'ridge', 'eta', 'damping', 'split', each once"
#: Relative steps of the error in correlated inputs with readouts of several sizes, whose rows have variances that vary
#: between classes of directions faster than nodes resolve.
_UNEVEN = 1e-6
#: Discretisation errors that are worth a word.
_VISIBLE = 1e-6
_UNITS = {"ridge": "ridge", "eta": "eta", "damping": "damping", "split": "n_step"}
_AT_BOUND = {
    ("ridge", "lower"): "ridge -> 0: as little as possible",
    ("ridge", "upper"): "ridge -> infinity: nothing better than predicting zero",
    ("eta", "lower"): "eta = 0: no step is best",
    ("eta", "upper"): "eta -> infinity: the larger the better",
    ("damping", "lower"): "damping -> 0: the direction of least squares",
    ("damping", "upper"): "damping = infinity: the plain gradient is best",
    ("split", "lower"): "fewest samples for the step",
    ("split", "upper"): "fewest samples for the fit",
}


@dataclass(frozen=True)
class TunedParameter:
    """One parameter at the optimum, and the certificate along it.

    Attributes
    ----------
    name : {"ridge", "eta", "damping", "split"}
    value : float
        The penalty (divided by ``d`` in the proportional limit), the coefficient of the step size, the damping, or the
        samples of the step (divided by ``d`` in the limit).
    low, high : float
        Bounds of the search.
    at_bound : {"lower", "upper", None}
        Whether the optimum lies on a bound; a step size at its lower bound is zero, a damping at its upper infinite.
    neighbours : tuple of float
        The values on either side at which the error was compared; nan beyond a bound.
    neighbour_errors : tuple of float
        Test errors there, both at least that of the optimum; nan beyond a bound.
    slope : float
        ``d log(error) / d log(value)``: zero inside the bounds, pointing out of them on a bound.
    curvature : float
        ``d^2 log(error) / d log(value)^2``; nan on a bound.
    uncertainty : float
        Relative numerical uncertainty of `value`; nan on a bound.
    near : tuple of float
        Range of values around the optimum whose error is within one per cent of it, the other parameters held.
    sway : float
        Largest relative difference between the error at the optimum and anywhere on a scan of the whole range, the
        other parameters held.
    meaning : str
        The meaning of a bound that was reached, or that the parameter changes nothing; otherwise empty.
    """

    name: Parameter
    value: float
    low: float
    high: float
    at_bound: Bound | None
    neighbours: tuple[float, float]
    neighbour_errors: tuple[float, float]
    slope: float
    curvature: float
    uncertainty: float
    near: tuple[float, float]
    sway: float
    meaning: str


@dataclass(frozen=True, eq=False, repr=False)
class Tuned(Summarised):
    """The best problem found and why it is the best.

    Attributes
    ----------
    problem : Problem
        The given problem with the tuned values in place.
    prediction : Prediction
        What theory says there.
    before : Prediction
        What theory says at the problem as given.
    parameters : tuple of TunedParameter
    others : tuple of (mapping, float)
        Other local minima that were followed to their bottom: values by parameter, and their test error.
    discretisation : float
        Relative change of the optimum's error when the theory's quadrature is refined.
    evaluations : int
        Predictions made.
    """

    problem: Problem
    prediction: Prediction
    before: Prediction
    parameters: tuple[TunedParameter, ...]
    others: tuple[tuple[Mapping[str, float], float], ...]
    discretisation: float
    evaluations: int

    def __getitem__(self, name: str) -> TunedParameter:
        """Return a parameter by its name, or raise `InvalidInput` with the names there are."""
        names = tuple(self)
        return self.parameters[names.index(one_of("parameter", name, names))]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the parameters."""
        return (parameter.name for parameter in self.parameters)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, with the convention spelled out; an infinite damping is the text "inf".

        JSON has no word for infinity, and None stands for what does not exist: a neighbour beyond a bound.
        """
        return {
            "convention": CONVENTION,
            "problem": self.problem.to_dict(),
            "test_error": self.prediction.test_error,
            "test_error_before": self.before.test_error,
            "method": self.prediction.method,
            "caveats": [asdict(caveat) for caveat in self.prediction.caveats],
            "parameters": {
                p.name: {
                    "value": _told(p.value),
                    "bounds": [_told(p.low), _told(p.high)],
                    "at_bound": p.at_bound,
                    "meaning": p.meaning,
                    "neighbours": [_told(value) for value in p.neighbours],
                    "neighbour_errors": list(p.neighbour_errors),
                    "slope": p.slope,
                    "curvature": p.curvature,
                    "uncertainty": p.uncertainty,
                    "sway": _told(p.sway),
                    "within_one_per_cent": [_told(value) for value in p.near],
                }
                for p in self.parameters
            },
            "other_minima": [
                {"values": {name: _told(value) for name, value in values.items()}, "test_error": error}
                for values, error in self.others
            ],
            "discretisation": self.discretisation,
            "evaluations": self.evaluations,
        }

    def table(self) -> Table:
        """Return a row of text for each parameter: its best value, and the certificate of the minimum."""
        header = ["parameter", "best", "within 1 %", "errors 5 % lower, higher", "slope"]
        if any(p.name == "split" for p in self.parameters):
            header[3] = "errors of its neighbours"
        rows = [
            [
                self._called(p.name),
                number(p.value),
                f"{p.near[0]:.4g} to {p.near[1]:.4g}",
                ", ".join(number(error, 8) for error in p.neighbour_errors),
                f"{p.slope:.0e}" + ("" if p.at_bound else f" +- {p.uncertainty:.0e}"),
            ]
            for p in self.parameters
        ]
        return Table(header, rows, index=1)

    def _called(self, name: str) -> str:
        """Return what a number in the table is: of a step size that grows with the width, the coefficient."""
        power = self.problem.eta.exponent if name == "eta" else 0.0
        return f"{_UNITS[name]} / N^{power:g}" if power else _UNITS[name]

    def notes(self) -> list[str]:
        """Return lines about the bounds that were reached, other minima, and what the theory leaves out."""
        lines = [f"on a bound: {p.meaning}" if p.at_bound and p.sway > _SWAY else p.meaning for p in self.parameters]
        lines = [line for line in lines if line]
        for values, error in self.others:
            place = ", ".join(f"{self._called(name)} = {value:.4g}" for name, value in values.items())
            ends = [name for name, value in values.items() if value in (self[name].low, self[name].high)]
            # Zero and infinity are limits, beyond which there is nothing.
            cut = [_UNITS[name] for name in ends if 0 < values[name] < math.inf]
            where = f", on a bound of {' and '.join(cut)}" if cut else ""
            lines.append(f"another minimum: {place}, test error {error:.6g}{where}")
        if self.discretisation > _VISIBLE:
            lines.append(f"relative discretisation error of the theory: {self.discretisation:.0e}")
        return [*lines, *reference_lines([self.prediction]), *caveat_lines([self.prediction])]

    def summary(self) -> Summary:
        """Return the summary that is printed."""
        before, after = self.before.test_error, self.prediction.test_error
        title = f"Tuned {' and '.join(p.name for p in self.parameters)}: test error {after:.6g}, from {before:.6g}"
        method = f"method: {self.prediction.method}; {self.evaluations} predictions"
        return Summary(title, [str(self.problem)], self.table(), [*self.notes(), method])


def _told(value: float) -> float | str:
    return "inf" if value == math.inf else value


def tune(
    problem: Problem,
    over: str | Iterable[str] = ("ridge", "eta"),
    *,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Tuned:
    """Find the parameters that minimise the predicted test error, with a certificate.

    Parameters
    ----------
    problem : Problem
        Everything that is not tuned is held; the values given for what is tuned do not matter, except that `eta` keeps
        its exponent (its coefficient is tuned) and `split` keeps the budget ``n_step + n``.
    over : str or iterable of {"ridge", "eta", "damping", "split"}, optional
        What to tune; any combination.
    bounds : mapping, optional
        Name to (low, high) in place of the default bounds: the penalty (divided by ``d`` in the proportional limit),
        the coefficient of the step size (low may be zero), the damping (high may be infinite), the samples of the step
        (divided by ``d`` in the limit).
    progress : callable, optional
        Called now and then with the number of predictions made so far. How many it will be is not known before. Three
        parameters take some two thousand, and thus minutes where one takes a tenth of a second (strong steps of
        activations that are not odd).

    Returns
    -------
    Tuned

    Raises
    ------
    InvalidInput
        On unknown or repeated names, bounds out of order, a split of an infinite or tiny budget, a damping where there
        is no step, labels that are all zero, a ridge together with others where there is nothing to learn, and as
        `predict`.
    NotConverged
        If the certificate fails, or the error is rounding somewhere.

    Notes
    -----
    By default penalties from 1e-8 to 1e6 times ``(n + N) E[sigma^2]`` are searched, step sizes from a spike lost in
    the spectrum of the bulk to twenty a neuron, dampings from 1e-4 to the plain gradient, and splits with at least five
    per cent of the budget on either side.
    The coarse scan alone vouches for the minimum being the lowest; its other valleys are reported in `others`.

    Examples
    --------
    >>> import gradstep as gs
    >>> problem = gs.Problem(
    ...     activation="erf", teacher="H1", d=200, width=300, n_step=400, n=600, eta=0.0, ridge=1.0, noise=0.5
    ... )
    >>> best = gs.tune(problem, over="ridge")
    >>> best.prediction.test_error < best.before.test_error
    True
    """
    check_problem(problem)
    if bounds is not None and not isinstance(bounds, Mapping):
        raise InvalidInput("bounds", bounds, "a mapping of parameter to (low, high)")
    check_labels(problem)
    function_or_none("progress", progress, "a function of the number of predictions made")
    search = _Search(problem, _names(over), bounds or {}, progress)
    if search.nothing_to_learn and "ridge" in search.names and len(search.names) > 1:
        told = (
            "'ridge' alone for a teacher of zero: with an infinite penalty there is no error, whatever else is chosen"
        )
        raise InvalidInput("over", over, told)
    # Matrices this small gain nothing by several threads, which beside other work wait for each other.
    with one_thread():
        try:
            found = minimise(
                search.errors,
                search.axes,
                scanned=search.rough_errors,
                resolution=search.resolution,
                nothing_left=_NOTHING_TO_LEARN if search.nothing_to_learn else _NO_ERROR,
            )
        except NotConverged as failure:
            # Why there is no prediction says more than that there is none anywhere.
            if math.isnan(failure.residual) and search.refusal is not None:
                raise search.refusal from None
            raise
        best = search.problem_at(found.point)
        prediction, refined = predict(best), predict(best, refine=2)
    discretisation = abs(refined.test_error / prediction.test_error - 1)
    return Tuned(
        problem=best,
        prediction=prediction,
        before=predict(problem),
        parameters=tuple(search.parameter(k, found, discretisation) for k in range(len(search.names))),
        others=tuple((search.values(place), error) for place, error in found.others),
        discretisation=discretisation,
        evaluations=found.evaluations,
    )


class _Range(NamedTuple):
    """The ends of a search, finite and above zero, and whether they stand for zero and for infinity."""

    low: float
    high: float
    from_zero: bool = False
    to_infinity: bool = False


class _Search:
    """The predicted error as a function of coordinates in which it is smooth: logarithms, and samples of the step."""

    def __init__(
        self,
        problem: Problem,
        names: Sequence[Parameter],
        bounds: Mapping[str, tuple[float, float]],
        progress: Callable[[int], None] | None = None,
    ) -> None:
        self.problem, self.names = problem, names
        self.progress, self.made = progress or (lambda made: None), 0
        self.refusal: NotConverged | None = None  # of the first problem without a prediction
        if "damping" in names and "eta" not in names and problem.eta.coefficient == 0:
            raise InvalidInput("over", "damping", "'ridge' or 'split' without a step", "which changes nothing")
        for name in bounds:
            if name not in names:
                raise InvalidInput("bounds", name, f"the parameters tuned: {', '.join(names)}")
        self.budget = _budget(problem) if "split" in names else math.nan
        self.usual = {name: _DEFAULTS[name](problem, self.budget) for name in names}
        self.bounds = {name: _bounds(name, problem, self.budget, self.usual[name], bounds.get(name)) for name in names}
        # Smallest step, which stands for none, and largest damping, which stands for the plain gradient.
        self.zero_step = self.bounds["eta"].low if "eta" in names and self.bounds["eta"].from_zero else 0.0
        self.plain = (
            self.bounds["damping"].high if "damping" in names and self.bounds["damping"].to_infinity else math.inf
        )
        self.axes = [self._axis(name) for name in names]
        sizes, _ = readout_values(problem.readout)
        uneven = problem.inputs is not None and len(set(np.abs(sizes))) > 1
        self.resolution = _UNEVEN if uneven else RESOLUTION
        self.nothing_to_learn = moments(link_of(problem.teacher)).second_moment == 0

    def _axis(self, name: Parameter) -> Axis:
        low, high, *_ = self.bounds[name]
        points = _SCAN[name][len(self.names)]
        if name != "split":
            count = 2 + math.ceil(points * (math.log10(high) - math.log10(low)))
            axis = Axis(np.log(np.geomspace(low, high, count)), _SPACING)
            lower, upper = axis.reluctance
            left_out = 0.0 if self.problem.is_limit else _LEFT_OUT / self.problem.d
            if name == "eta" and self.zero_step > 0:
                lower = max(lower, left_out)
            if name == "damping" and self.plain < math.inf:
                # Where nothing depends on the damping there is none.
                upper = max(2 * upper, left_out)
            return replace(axis, reluctance=(lower, upper))
        scan = np.linspace(_logit(low / self.budget), _logit(high / self.budget), points)
        if self.problem.is_limit:
            return Axis(scan, _SPACING)
        whole = np.unique(np.rint(self.budget / (1 + np.exp(-scan))))
        return Axis(whole, max(1, int(min(low, self.budget - high)) // 3), whole=True)

    def value(self, name: Parameter, coordinate: float) -> float:
        """Return the value of a parameter, in the units of `TunedParameter`."""
        if name == "split":
            return self.budget / (1 + math.exp(-coordinate)) if self.problem.is_limit else coordinate
        value = math.exp(coordinate)
        if name == "damping":
            return math.inf if value >= self.plain * (1 - 1e-12) else value
        return 0.0 if name == "eta" and value <= self.zero_step * (1 + 1e-12) else value

    def values(self, point: Array) -> dict[str, float]:
        return {name: self.value(name, float(u)) for name, u in zip(self.names, point, strict=True)}

    def problem_at(self, point: Array) -> Problem:
        limit = self.problem.is_limit
        changes: dict[str, Any] = {}
        for name, value in self.values(point).items():
            if name == "ridge":
                changes["ridge"] = Proportional(value) if limit else value
            elif name == "eta":
                changes["eta"] = Step(value, self.problem.eta.exponent)
            elif name == "damping":
                changes["damping"] = value
            elif limit:
                changes |= {"n_step": Proportional(value), "n": Proportional(self.budget - value)}
            else:
                changes |= {"n_step": round(value), "n": round(self.budget - value)}
        return self.problem.replace(**changes)

    def errors(self, points: Array) -> Array:
        return self._errors(points, predict_many)

    def rough_errors(self, points: Array) -> Array:
        """Return the errors to some 1e-5, which is enough to find valleys."""
        # A penalty that is named first varies fastest: problems that differ in nothing else are prepared once.
        order = np.lexsort(points.T)
        batches = np.split(order, range(_BATCH, len(order), _BATCH))
        values = np.empty(len(points))
        for batch in batches:
            values[batch] = self._errors(points[batch], predict_roughly)
        return values

    def _errors(self, points: Array, predicted: Callable[[Sequence[Problem]], Sequence[Prediction]]) -> Array:
        problems = [self.problem_at(point) for point in points]
        with np.errstate(all="ignore"):  # at the ends of the scan
            try:
                values = np.array([each.test_error for each in predicted(problems)])
            except NotConverged:
                values = np.array([self._error(problem, predicted) for problem in problems])
        self.made += len(problems)
        self.progress(self.made)
        return np.where(np.isfinite(values), values, np.inf)

    def _error(self, problem: Problem, predicted: Callable[[Sequence[Problem]], Sequence[Prediction]]) -> float:
        try:
            return predicted([problem])[0].test_error
        except NotConverged as failure:
            self.refusal = self.refusal or failure
            return math.inf

    def parameter(self, k: int, found: Minimum, discretisation: float) -> TunedParameter:
        name, axis, u = self.names[k], self.axes[k], float(found.point[k])
        value, error = self.value(name, u), found.value
        # d(coordinate) / d log(value)
        stretch = 1.0
        if name == "split":
            stretch = 1 / (1 - value / self.budget) if self.problem.is_limit else value
        around = (float(found.below[k]), float(found.above[k]))
        shift = float(found.displacement[k]) + discretisation * error / float(found.curvature[k])
        if axis.whole:
            shift = max(shift, 0.5)
        (lower, below), (upper, above) = (self._near(found, k, side) for side in (-1, 1))
        sway, slope = max(below, above), float(found.gradient[k]) * stretch / error
        return TunedParameter(
            name=name,
            value=value,
            low=self.value(name, float(axis.scan[0])),
            high=self.value(name, float(axis.scan[-1])),
            at_bound=found.bounds[k],
            neighbours=(
                self.value(name, u - axis.spacing) if math.isfinite(around[0]) else math.nan,
                self.value(name, u + axis.spacing) if math.isfinite(around[1]) else math.nan,
            ),
            neighbour_errors=(
                around[0] if math.isfinite(around[0]) else math.nan,
                around[1] if math.isfinite(around[1]) else math.nan,
            ),
            slope=slope,
            curvature=float(found.curvature[k]) * stretch**2 / error,
            uncertainty=math.nan if found.bounds[k] else shift / stretch,
            near=(self.value(name, lower), self.value(name, upper)),
            sway=sway,
            meaning=self._meaning(name, value, found.bounds[k], slope, sway),
        )

    def _meaning(self, name: Parameter, value: float, bound: Bound | None, slope: float, sway: float) -> str:
        if sway <= _SWAY:
            return f"the error does not depend on {_UNITS[name]}: any value will do"
        if bound is None:
            return ""
        if self.nothing_to_learn and (name, bound) == ("ridge", "upper"):
            return "ridge -> infinity: nothing to learn but noise, and predicting zero has no error"
        if name != "split" and 0 < value < math.inf and abs(slope) > _STILL_FALLING:
            return "the error still falls at the bound of the search: widen it"
        own, usual = self.bounds[name], self.usual[name]
        if name != "split" and (own.low > usual.low if bound == "lower" else own.high < usual.high):
            further = "smaller" if bound == "lower" else "larger"
            return f"{_UNITS[name]} at a bound that was given: {further} values may be better"
        return _AT_BOUND[name, bound]

    def _near(self, found: Minimum, k: int, side: int) -> tuple[float, float]:
        """Look at one side of the minimum.

        Return the coordinate where the error is one per cent larger (or the bound), and the largest relative difference
        from the error of the minimum up to the bound.
        """
        axis, u = self.axes[k], float(found.point[k])
        edge = float(axis.scan[-1] if side > 0 else axis.scan[0])
        offsets = [0.0]
        while u + side * offsets[-1] != edge:
            offsets.append(min(max(2 * offsets[-1], axis.spacing), abs(edge - u)))
            if offsets[-1] == abs(edge - u):
                break
        points = np.repeat(found.point[None], len(offsets), axis=0)
        points[:, k] = u + side * np.array(offsets)
        excess = self.errors(points) / found.value - 1
        beyond, sway = np.flatnonzero(excess > _NEAR), float(np.abs(excess).max())
        if not beyond.size:
            return edge, sway
        # The excess grows like the square of the distance.
        last = int(beyond[0])
        root = np.sqrt(np.maximum(excess[last - 1 : last + 1], 0.0))
        distance = offsets[last - 1] + (math.sqrt(_NEAR) - root[0]) / (root[1] - root[0]) * (
            offsets[last] - offsets[last - 1]
        )
        place = u + side * float(distance)
        return (round(place) if axis.whole else place), sway


def _logit(fraction: float) -> float:
    return math.log(fraction / (1 - fraction))


def _names(over: object) -> tuple[Parameter, ...]:
    given = [over] if isinstance(over, str) else over
    if not isinstance(given, Iterable):
        raise InvalidInput("over", over, _OVER)
    names = list(given)
    if not names or any(not isinstance(n, str) or n not in PARAMETERS for n in names) or len(set(names)) < len(names):
        raise InvalidInput("over", over, _OVER)
    return tuple(names)


def _budget(problem: Problem) -> float:
    if problem.n_step == math.inf:
        raise InvalidInput("n_step", problem.n_step, "a finite number of samples, to split the budget n_step + n")
    if problem.is_limit:
        return problem.ratio("n_step") + problem.ratio("n")
    budget = problem.sizes.n_step + problem.sizes.n
    if budget < 4 * _FEWEST:
        raise InvalidInput("n_step + n", budget, f"a budget of at least {4 * _FEWEST} samples to split")
    return budget


def _bounds(
    name: Parameter, problem: Problem, budget: float, default: _Range, given: tuple[float, float] | None
) -> _Range:
    """Return the bounds of a parameter in the units of `TunedParameter`: the default, or those that are given."""
    if given is None:
        return default
    least, most = 0.0, math.inf
    if name == "split":
        least = 0.0 if problem.is_limit else _FEWEST - 1
        most = budget if problem.is_limit else budget - _FEWEST + 1
    below, above = "<=" if name == "eta" else "<", "<=" if name == "damping" else "<"
    largest = f"{most:g}" if most < math.inf else "infinity"
    allowed = f"(low, high) with {least:g} {below} low < high {above} {largest}"
    low, high = _pair(name, given, allowed)
    from_zero, to_infinity = name == "eta" and low == 0, name == "damping" and high == math.inf
    if from_zero:
        low = min(default.low, high / 10)
    if to_infinity:
        high = max(default.high, 10 * low)
    if not least < low < high < most:
        raise InvalidInput(f"bounds of {name}", given, allowed)
    if name == "split":
        if not problem.is_limit and not (low := math.ceil(low)) < (high := math.floor(high)):
            raise InvalidInput(f"bounds of {name}", given, f"{allowed}, and two whole numbers between them")
        return _Range(low, high)
    power = problem.eta.exponent if name == "eta" and not problem.is_limit else 0.0
    farthest = _FARTHEST_BOUND / problem.real_sizes().width ** power if power else _FARTHEST_BOUND
    if not (low >= 1 / _FARTHEST_BOUND and high <= farthest):
        told = f"{allowed}, and what is neither zero nor infinity from {1 / _FARTHEST_BOUND:.0e} to {farthest:.3g}"
        raise InvalidInput(f"bounds of {name}", given, told)
    return _Range(low, high, from_zero, to_infinity)


def _pair(name: str, given: object, allowed: str) -> tuple[float, float]:
    try:
        low, high = map(float, given)  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput(f"bounds of {name}", given, allowed) from None
    return low, high


def _ridge_bounds(problem: Problem, budget: float) -> _Range:
    per_d = problem.ratio("n") + problem.ratio("width")
    unit = per_d * (1.0 if problem.is_limit else problem.d) * float(moments(problem.activation).second_moment)
    return _Range(_RIDGE_RANGE[0] * unit, _RIDGE_RANGE[1] * unit)


def _eta_bounds(problem: Problem, budget: float) -> _Range:
    limit, exponent = problem.is_limit, problem.eta.exponent
    sizes = sizes_of(problem)
    unit = step_statistics(problem.replace(eta=Step(1.0, 0.5)), sizes.d, sizes.width, sizes.n_step)
    moved = math.hypot(unit.spike, math.sqrt(unit.bulk))
    if not moved > 0:
        raise InvalidInput("over", "eta", "'ridge' or 'split' where no step moves a weight", "which changes nothing")
    # Step size (over sqrt N) that moves a neuron by one.
    one = 1 / moved
    if limit:
        low, high = (_SMALLEST_SPIKE, 1e3) if exponent == 0 else (1e-3, _LARGEST_SPIKE)
        return _Range(low * one, high * one, from_zero=True)
    power = sizes.width ** (0.5 - exponent)
    smallest = _SMALLEST_SPIKE / math.sqrt(sizes.width)
    return _Range(smallest * one * power, _LARGEST_SPIKE * one * power, from_zero=True)


def _damping_bounds(problem: Problem, budget: float) -> _Range:
    largest = 1.0 if problem.inputs is None else max(problem.inputs.eigenvalues)
    return _Range(_DAMPING_RANGE[0], _DAMPING_RANGE[1] * largest, to_infinity=True)


def _split_bounds(problem: Problem, budget: float) -> _Range:
    least = _SMALLEST_SHARE * budget
    if not problem.is_limit:
        least = max(_FEWEST, math.ceil(least))
    return _Range(least, budget - least)


#: The ranges that are searched where no bounds are given.
_DEFAULTS: Mapping[Parameter, Callable[[Problem, float], _Range]] = {
    "ridge": _ridge_bounds,
    "eta": _eta_bounds,
    "damping": _damping_bounds,
    "split": _split_bounds,
}
