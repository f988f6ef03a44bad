"""Caveats of a prediction: effects that the equations leave out and that may matter there, with their estimated size.

Each indicator is a number that takes hardly any time beside a prediction, is zero if its cause is absent, and grows
with it. A table below turns it into a deviation of the test error by a factor and a power. The factors are fitted to
the networks of the search for deviations and of settings drawn at random (`benchmarks/caveat_sizes`): a caveat suggests
a comparison with the network, no more.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradstep.gaussian import ScalarFunction, expectation, moments
from gradstep.problem import Problem, Readout, link_of
from gradstep.theory.equivalent.tables import sizes_of
from gradstep.theory.step.class_variances import leading_variance
from gradstep.theory.step.correlated_samples import CorrelatedSamples
from gradstep.theory.step.damped_samples import DampedSamples
from gradstep.theory.step.statistics import StepStatistics, readout_values, step_statistics

if TYPE_CHECKING:
    from gradstep.theory.prediction import Prediction

__all__ = [
    "Caveat",
    "caveat_lines",
    "caveats_of",
    "fit_indicators",
    "indicators",
    "largest_caveats",
    "spectrum_caveats",
    "spread_caveats",
    "step_indicators",
]


@dataclass(frozen=True)
class Caveat:
    """An effect that the equations leave out and that may matter.

    Attributes
    ----------
    name : str
        The effect, in a few words.
    size : float
        Estimated relative deviation of what `of` names, in (0, 1].
    page : str
        Section of the docs about this effect.
    of : str
        What may be off: the test error of the network ("network"), its standard deviation over draws ("spread"), or
        the singular values of the features above the bulk ("outliers").
    """

    name: str
    size: float
    page: str
    of: str = "network"

    def __str__(self) -> str:
        return f"{self.name}: the {self.of} may be off by about {100 * self.size:.0f} % ({self.page})"


class _Rule(NamedTuple):
    """The caveat of an indicator ``x``: its name, and its size as ``factor * x**power``."""

    name: str
    factor: float
    power: float


#: Indicator to what it stands for. The factors, and the least size that is shown, are fitted to measurements
#: (`benchmarks/caveat_sizes`).
_RULES: Mapping[str, _Rule] = {
    "growth": _Rule("features that grow fast", 0.6, 1.0),
    "interpolation": _Rule("near interpolation", 0.023, 0.4),
    "few_step_samples": _Rule("few step samples after a strong step", 0.2, 1.0),
    "mixed_bulk": _Rule("strong step, activation not odd", 0.21, 1.0),
    "stretch": _Rule("rows stretched along the teacher", 0.45, 1.0),
    "shared_sign": _Rule("constant readout, activation not odd", 0.69, 1.0),
    "own_output": _Rule("initial output of order one", 0.21, 0.5),
    "own_rows": _Rule("own output that changes the rows", 0.41, 1.0),
    "sizes": _Rule("small sizes", 0.85, 1.0),
    "direction": _Rule("rows along one direction", 0.3, 1.0),
    "leading": _Rule("rows stretched along leading directions", 0.02, 1.0),
    "swing": _Rule("spike that differs between draws", 0.19, 1.0),
    "step_interpolation": _Rule("damped step near interpolation", 0.065, 0.4),
}
#: Caveats are shown if all effects together have the first size. An effect is among them if it has this size alone, or
#: if it has at least the second number times the size of the largest.
_LEAST, _BESIDE = 0.041, 0.5
#: Spreads and outliers deviate by so many times the estimate for the test error (`benchmarks/spreads_and_spectra`).
_PER_ERROR = 2.0
#: Weight of a stretch of the whole row, where one along the teacher has weight one.
_AS_A_WHOLE = 0.2
#: The largest size: an estimate beyond it only says that the theory does not hold.
_MOST = 1.0
#: Least share of the samples that counts as free.
_LEAST_FREE = 1e-3
#: A number beyond says no more.
_OUT_OF_RANGE = 1e100
#: The docs' page that has a section for each name.
_PAGE = "theory/limits_of_validity.html"


def caveats_of(found: Mapping[str, float]) -> tuple[Caveat, ...]:
    """Return the caveats that some indicators ask for, the largest first.

    The effects are taken to be independent: the root of the sum of their squared sizes is how far predictions are off,
    in the root mean square. Where it is small none is shown.

    The indicators are those of `indicators` or `fit_indicators`.
    """
    sizes = {key: _size(key, value) for key, value in found.items() if not value <= 0}
    if math.hypot(*sizes.values()) < _LEAST:
        return ()
    least = min(_BESIDE * max(sizes.values()), _LEAST)
    named = sorted((key for key, size in sizes.items() if size >= least), key=lambda key: -sizes[key])
    return tuple(Caveat(_RULES[key].name, sizes[key], _page(_RULES[key].name)) for key in named)


def largest_caveats(caveats: Iterable[Caveat]) -> tuple[Caveat, ...]:
    """Return the largest caveat of each name, the largest first.

    The given caveats are those of several solutions of which a prediction is the mean.
    """
    largest: dict[str, Caveat] = {}
    for caveat in sorted(caveats, key=lambda caveat: -caveat.size):
        largest.setdefault(caveat.name, caveat)
    return tuple(largest.values())


def spread_caveats(problem: Problem, degrees_of_freedom: float) -> tuple[Caveat, ...]:
    """Return the caveats of the spread around a prediction: the same effects as for the error, with larger sizes.

    The problem has finite sizes, and the degrees of freedom are as in `Prediction`.
    """
    found = fit_indicators(problem, degrees_of_freedom, step_indicators(problem, _step_of(problem)))
    return _of_others(caveats_of(found), "spread")


def spectrum_caveats(problem: Problem) -> tuple[Caveat, ...]:
    """Return the caveats of the features' outliers, which do not depend on a fit; the problem has finite sizes."""
    found = step_indicators(problem, _step_of(problem)) | {"sizes": _of_sizes(problem)}
    return _of_others(caveats_of(found), "outliers")


def _of_others(caveats: Iterable[Caveat], of: str) -> tuple[Caveat, ...]:
    """Return the caveats of a test error as caveats of a spread or of outliers."""
    return tuple(replace(caveat, size=min(_PER_ERROR * caveat.size, _MOST), of=of) for caveat in caveats)


def _step_of(problem: Problem) -> StepStatistics:
    d, width, n_step, *_ = sizes_of(problem)
    return step_statistics(problem, d, width, n_step)


def caveat_lines(predictions: Sequence[Prediction]) -> list[str]:
    """Return a line for each caveat of some predictions: of several the largest size, and how many have it."""
    if len(predictions) == 1:
        return [f"caveat: {caveat}" for caveat in predictions[0].caveats]
    every = [caveat for prediction in predictions for caveat in prediction.caveats]
    count = Counter(caveat.name for caveat in every)
    return [
        f"caveat at {count[caveat.name]} of {len(predictions)}, the largest: {caveat}"
        for caveat in largest_caveats(every)
    ]


def _size(key: str, value: float) -> float:
    rule = _RULES[key]
    # A number that is not known is no reassurance.
    return _MOST if math.isnan(value) else min(rule.factor * min(value, _OUT_OF_RANGE) ** rule.power, _MOST)


def _page(name: str) -> str:
    return f"{_PAGE}#{name.replace(',', '').replace(' ', '-')}"


def indicators(prediction: Prediction) -> dict[str, float]:
    """Return all indicators of a prediction, for instance to compare them with measured deviations.

    Parameters
    ----------
    prediction : Prediction

    Returns
    -------
    dict
        Indicator to value, at least zero; `fit_indicators` and `step_indicators` say what each is.
    """
    problem = prediction.problem
    return fit_indicators(problem, prediction.degrees_of_freedom, step_indicators(problem, _step_of(problem)))


def step_indicators(problem: Problem, step: StepStatistics) -> dict[str, float]:
    r"""Return the indicators that do not depend on the samples and the penalty of the fit.

    Parameters
    ----------
    problem : Problem
    step : StepStatistics

    Returns
    -------
    dict
        With :math:`t` the strength of the step, the mean square of what it adds to a row over the whole row's,

        * ``growth``: :math:`(2k)^2/(2d\,(1-t)^{(k-1)/2})`, the relative variance of the features' power that the length
          of an input makes, if this power grows like that of a polynomial of degree :math:`k`. A step lengthens the
          rows, which makes it larger for all but straight functions (:math:`k\le1`);
        * ``few_step_samples``: :math:`t_b^2\,(d/n_{\text{step}})\,E r^4/(E r^2)^2/\sqrt d`, with the bulk's part
          :math:`t_b` of the strength. Few samples have few directions. Fewer of these matter if a few residuals
          :math:`r` are much larger than the rest, and in correlated inputs. For eigenvalues :math:`c` of the inputs'
          covariance, :math:`\langle c^4\rangle/\langle c^2\rangle^2-1`, but no more than :math:`\sqrt d`, is added
          to :math:`(d/n_{\text{step}})\,E r^4/(E r^2)^2`. Both are terms of the second moment of the bulk's covariance;
        * ``mixed_bulk``: if the activation is not odd the bulk is made of two matrices. If the readout has several
          values, the equations know them by diagonals in isotropic inputs, and by more in correlated ones. This is the
          product of the matrices' shares, whatever the readout and the inputs, and does not fall with the dimension;
        * ``stretch``: :math:`e|E z\sigma'|(|E r|/5+|E r(u^2-1)|)/\sqrt d`, by how much rows are stretched as a whole,
          which matters less, and along the teacher;
        * ``shared_sign``: share of the features' power that is quadratic, times that of the readout's mean, times the
          strength of the spike in the weights' spectrum, over :math:`\sqrt d`;
        * ``own_output``: share of the features' power that is not linear, times the strength, over :math:`\sqrt d`, for
          an initial output of order one;
        * ``own_rows``: by how much an initial output of order :math:`N^{-1/2}` changes the mean squared norm of the
          rows, relatively, to first order: what the equations leave out is its square;
        * ``direction``: the largest part of a row's mean square, without its spike, that is in one direction of
          correlated inputs, in the mean over the readouts. Without a step it is the largest eigenvalue over :math:`d`;
        * ``leading``: :math:`|q|\sqrt{E a^2}\,c_{\max}\sqrt{d/n_{\text{step}}}`, by how much the samples of the step
          stretch rows along the leading directions of correlated inputs, differently from draw to draw. A damped step
          has :math:`(1+\delta)c/(c+\kappa)` in place of :math:`c`;
        * ``swing``: :math:`\operatorname{Var}(s)\,E[z^2\sigma'(\varrho z)^2]/E[\sigma(\varrho z)^2]` times the
          probability that two neurons have readouts of one size. The spike :math:`s` differs between draws of the
          step's samples; :math:`\varrho` is the length of a row after the step;
        * ``step_interpolation``: :math:`t^2/(d\,(1-f)^2)`, with the share :math:`f` of the step's samples that the
          metric of a damped step takes up. It is near one where there are about as many samples as directions and
          hardly any damping.
    """
    d, width, *_ = problem.real_sizes()
    activation, teacher, power = (
        moments(problem.activation),
        moments(link_of(problem.teacher)),
        problem.readout.second_moment,
    )
    varying = activation.second_moment - activation.mean**2
    per_sample = 0.0 if problem.n_step == math.inf else 1 / problem.ratio("n_step")
    offset = step.residual_offset
    residual = teacher.second_moment - 2 * teacher.mean * offset + offset * offset + step.residual_noise
    # Products, not powers: Python's powers raise where numbers are out of range.
    spike, bulk = (min(part, _OUT_OF_RANGE) for part in (step.spike * step.spike * power, step.bulk * power))
    strength, bulk_strength = ((part / (1 + spike + bulk)) for part in (spike + bulk, bulk))
    linear_bulk = min(step.curvature * step.curvature * per_sample * residual * power, bulk) if per_sample else 0.0
    stretched = _AS_A_WHOLE * abs(teacher.mean - offset) + abs(math.sqrt(2) * teacher.quadratic)
    whole_spike = spike * width if spike > 0 else 0.0
    shared = problem.readout.mean**2 / power * activation.quadratic**2 / varying
    nonlinear = activation.nonlinear_second_moment / varying if problem.output_scale != "1/N" else 0.0
    growth = _growth(problem.activation)
    longer = max(growth / 2 - 1, 0.0) / 2 * math.log(1 + spike + bulk)
    return {
        "growth": growth**2 / (2 * d) * math.exp(min(longer, math.log(_OUT_OF_RANGE))),
        "few_step_samples": bulk_strength**2 * (per_sample * _unequal(step) + _excess(step, d)) / math.sqrt(d),
        "mixed_bulk": linear_bulk * (bulk - linear_bulk) / (1 + bulk) ** 2,
        "stretch": abs(step.curvature) * math.sqrt(power) * stretched / math.sqrt(d),
        "shared_sign": shared * (1 - 1 / (1 + whole_spike)) / math.sqrt(d),
        "own_output": nonlinear * strength / math.sqrt(d),
        "own_rows": _changed_by_own_output(problem, step) if problem.output_scale == "1/N" else 0.0,
        **_of_inputs(problem, step, d, per_sample),
        "swing": _swing(problem, step, d, per_sample),
        "step_interpolation": strength**2 * _step_interpolation(step) / d,
    }


def _of_inputs(problem: Problem, step: StepStatistics, d: float, per_sample: float) -> dict[str, float]:
    """Return the indicators of correlated inputs; `per_sample` is ``d / n_step``."""
    if step.correlated is None or problem.inputs is None:
        return {}
    # The largest factor by which the linear part of the step stretches a direction.
    c = step.correlated.spectrum.eigenvalue
    leading = float((step.correlated.stretch[0][c > 0] / c[c > 0]).max())
    return {
        "leading": abs(step.drift) * leading * math.sqrt(problem.readout.second_moment * per_sample),
        "direction": _along_one_direction(step, problem.readout, d),
    }


def _swing(problem: Problem, step: StepStatistics, d: float, per_sample: float) -> float:
    """Return the indicator of a spike that differs between draws; `per_sample` is ``d / n_step``."""
    samples, readout = step.correlated or step.samples, problem.readout
    spike, alike = step.spike * step.spike * readout.second_moment, _alike(readout)
    # Without a spike there is none that differs.
    if samples is None or spike == 0 or alike == 0 or not spike < _OUT_OF_RANGE:
        return 0.0
    variance = spike * samples.relative_variance_of_square * per_sample / (4 * d)
    length = math.sqrt(1 + spike + step.bulk * readout.second_moment)
    return variance * _sensitivity_to_length(problem.activation, length) * alike


def _step_interpolation(step: StepStatistics) -> float:
    """Return one over the square of the share of its samples that a damped step leaves free."""
    if not isinstance(step.correlated, DampedSamples):
        return 0.0
    return 1 / max(1 - step.correlated.freedom, _LEAST_FREE) ** 2


def _along_one_direction(step: StepStatistics, readout: Readout, d: float) -> float:
    """Return the largest part of a row's mean square, without its spike, that is in one direction."""
    values, shares = readout_values(readout)
    with np.errstate(over="ignore", invalid="ignore"):
        return float(shares @ leading_variance(step, values, values**2)) / d


def _changed_by_own_output(problem: Problem, step: StepStatistics) -> float:
    """Return what the network's own output changes of the rows' mean squared norm off the spike, over that norm."""
    if problem.is_limit or not any((*step.own_drift, *step.own_norm)):
        return 0.0
    values, shares = readout_values(problem.readout)
    first, second = step.own_norm
    with np.errstate(over="ignore", invalid="ignore"):
        alone = (1 + step.drift * values) ** 2
        change = step.stretch_square(values, values**2) - alone + (first + second * values) * values**2
        return abs(float(shares @ change)) / float(shares @ (alone + step.bulk * values**2))


def _unequal(step: StepStatistics) -> float:
    """Return ``E r^4 / (E r^2)^2`` of the residuals ``r`` of the step's samples: one if all are of one size."""
    samples = step.correlated or step.samples
    if samples is None:
        return 1.0
    return 1 + samples.law.relative_variance(samples.law.residual**2, samples.law.square)


def _excess(step: StepStatistics, d: float) -> float:
    """Return what correlation of the inputs adds to the second moment of a bulk that is made of samples of the step."""
    if not isinstance(step.correlated, CorrelatedSamples):
        return 0.0
    known = step.correlated.spectrum
    return min(known.moment(4) / known.moment(2) ** 2 - 1, math.sqrt(d))


def _alike(readout: Readout) -> float:
    """Return the probability that two neurons have readouts of one size, and so spikes of one length.

    In another draw of the step's samples, neurons of one size all do worse together. If sizes differ, some neurons do
    worse and others better, and the errors hardly change.
    """
    if readout.kind == "gaussian":
        return 0.0
    shares: dict[float, float] = {}
    for value, share in zip(readout.values, readout.weights, strict=True):
        shares[abs(value)] = shares.get(abs(value), 0.0) + share
    return sum(share * share for share in shares.values())


def _sensitivity_to_length(activation: ScalarFunction, length: float) -> float:
    """Return the mean square slope of a feature in the length of its row, over its mean square."""

    def squares(z: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.stack([(z * activation.derivative(length * z)) ** 2, activation(length * z) ** 2])

    with np.errstate(all="ignore"):
        slope, square = np.asarray(expectation(squares, kinks=tuple(k / length for k in activation.kinks)).value)
    return float(slope / square)


@lru_cache(maxsize=256)
def _growth(activation: ScalarFunction) -> float:
    """Return by which power of the inputs' length the variance of a feature grows."""
    known = moments(activation)
    # By parts, which holds for jumps too.
    with np.errstate(all="ignore"):
        slope = expectation(lambda z: (activation(z) - known.mean) ** 2 * (z * z - 1), kinks=activation.kinks)
    return abs(float(slope.value)) / (known.second_moment - known.mean * known.mean)


def fit_indicators(problem: Problem, degrees_of_freedom: float, of_step: Mapping[str, float]) -> dict[str, float]:
    r"""Return all indicators of a fit: those of the step, and those that know the samples and the penalty.

    Parameters
    ----------
    problem : Problem
    degrees_of_freedom : float
        As in `Prediction`, over `d` in the proportional limit.
    of_step : mapping
        From `step_indicators`.

    Returns
    -------
    dict
        * ``growth`` of the step, times the square of the share of the smaller of ``n`` and ``width`` that the fit uses:
          a strong penalty leaves little of what a few large features do;
        * ``interpolation``: :math:`1/(d\,x^2)`, where :math:`x` is the share of the larger of ``n`` and ``width`` that
          the fit leaves free: small where as many neurons as samples are used up;
        * ``sizes``: one over the smallest of the sizes;
        * the others of the step.
    """
    small, large = sorted((problem.ratio("n"), problem.ratio("width")))
    d = 1.0 if problem.is_limit else problem.d
    found = {**of_step, "growth": of_step["growth"] * min(degrees_of_freedom / (small * d), 1.0) ** 2}
    if problem.is_limit:
        return {**found, "interpolation": 0.0, "sizes": 0.0}
    free = 1 - degrees_of_freedom / (large * d)
    return {**found, "interpolation": 1 / (d * max(free, _LEAST_FREE) ** 2), "sizes": _of_sizes(problem)}


def _of_sizes(problem: Problem) -> float:
    """Return one over the smallest of the sizes."""
    sizes = problem.real_sizes()
    return 1 / min(sizes.d, sizes.n, sizes.width)
