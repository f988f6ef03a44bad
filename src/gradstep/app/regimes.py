"""Words for what the step does to a problem, chosen by the numbers of its prediction.

The keys are those of the colours in `gradstep.drawing`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradstep.errors import InvalidInput, NotConverged
from gradstep.gaussian.moments import Moments, moments
from gradstep.papers.moniri2024.staircase import degree
from gradstep.problem import Problem, link_of
from gradstep.resolution import NOTHING
from gradstep.theory import Prediction, predict
from gradstep.theory.equivalent.tables import LARGE_DIMENSION

#: Samples of the step per dimension that are few: by the noise of their gradient neurons differ from each other.
_FEW = 2.0
#: Changes of the test error, and distances from the bound, that are too small to speak of, as shares of either.
_CLEAR = 0.02
#: Movement of a neuron, in units of its length, from which on a step is large.
_LARGE = 0.3
#: Norm of the common part of the step up to which it is small, whatever the width.
_SMALL_STRENGTH = 2.0
#: Alignments from which on a direction is mostly, and partly, that of the teacher; less than the last is none.
_MOSTLY, _PARTLY, _NONE = 0.9, 0.3, 0.05
#: Shares of a second moment that are rounding.
_ROUNDING = 1e-9
#: Share of the teacher's variance below which nothing of it is learned along the direction.
_NOTHING = 0.01

_SIZES = {
    "initial": "No step",
    "small": "Small step",
    "between": "Medium step",
    "few": "Large step from few samples",
    "large": "Large step",
    "infinite": "Large step on the population gradient",
}


@dataclass(frozen=True)
class Regime:
    """A name for the colour, a title, a sentence on the errors, and some on what happens."""

    key: str
    title: str
    verdict: str
    text: str


@dataclass(frozen=True)
class _Step:
    """Numbers that say what the step does to the first layer."""

    strength: float  # Norm of what the step adds to all neurons in common.
    common: float  # By how much the common part moves a neuron, in units of its length (root mean square over neurons).
    moved: float  # By how much all that the step adds moves a neuron, in the same units.
    alignment: float  # Overlap of the common direction with the teacher, without its sign.
    # Nonlinear share of the variance of the learned function of the projection on the common direction; None where the
    # function hardly varies, or is not known.
    learned: float | None
    taught: float | None  # Nonlinear share of the teacher's variance.


def without_step(problem: Problem) -> Prediction | None:
    """Return the prediction for the network that takes no step; None if there is no step, or no such prediction."""
    return _known(problem.replace(eta=0.0, damping=math.inf)) if problem.eta.coefficient else None


def describe(prediction: Prediction, before: Prediction | None) -> Regime:
    """Describe a problem from its prediction: what the step does, and whether that pays.

    The prediction `before` is as `without_step` returns it.
    """
    problem = prediction.problem
    teacher, activation = moments(link_of(problem.teacher)), moments(problem.activation)
    size = _known(problem.at_dimension(int(LARGE_DIMENSION))) if problem.is_limit else prediction
    error = prediction.test_error
    bound = None  # known for isotropic inputs only
    if problem.inputs is None:
        bound = teacher.nonlinear_second_moment if _is_nonlinear(teacher) else 0.0
    change = error / before.test_error - 1 if before is not None and before.test_error > 0 else None
    step = _step_of(prediction if size is None else size)
    key = _key(problem, step)
    return Regime(
        key,
        f"{_SIZES[key]}: {_outcome(problem, error, bound, change, activation)}",
        _verdict(error, bound, change, teacher),
        " ".join(_sentences(problem, step, activation, teacher)),
    )


def _known(problem: Problem) -> Prediction | None:
    try:
        return predict(problem)
    except (InvalidInput, NotConverged):
        return None


def _is_nonlinear(function: Moments) -> bool:
    return function.nonlinear_second_moment > _ROUNDING * function.second_moment


def _step_of(prediction: Prediction) -> _Step:
    problem, strength = prediction.problem, abs(prediction.spike_strength)
    width = problem.real_sizes().width
    common = strength / math.sqrt(width) if math.isfinite(strength) else math.nan
    moved = math.hypot(common, math.sqrt(max(prediction.bulk_variance - 1, 0.0)))
    teacher, curve = moments(link_of(problem.teacher)), prediction.curve
    power = teacher.second_moment - teacher.mean**2
    learned = taught = None
    if power > _ROUNDING * teacher.second_moment:
        varies, share = _nonlinear(curve.kappa, curve.learned)
        learned = share if varies > _NOTHING * power else None
        varies, share = _nonlinear(curve.kappa, curve.target)
        taught = share if varies > _NOTHING * power else None
    return _Step(strength, common, moved, abs(prediction.alignment), learned, taught)


def _nonlinear(kappa: NDArray[np.float64], values: NDArray[np.float64]) -> tuple[float, float]:
    """Return the variance of a function of a standard normal variable, and the share of it that is not linear."""
    mass = np.exp(-(kappa**2) / 2) * np.gradient(kappa)
    mass /= mass.sum()
    kappa, values = kappa - mass @ kappa, values - mass @ values
    variance = float(mass @ values**2)
    linear = float(mass @ (kappa * values)) ** 2 / float(mass @ kappa**2)
    return variance, max(1 - linear / variance, 0.0) if variance > 0 else 0.0


def _key(problem: Problem, step: _Step) -> str:
    """Say how large the step is: by its exponent in the limit, elsewhere by what it does."""
    if problem.eta.coefficient == 0:
        return "initial"
    large = problem.eta.exponent > 0 if problem.is_limit else step.moved >= _LARGE
    if not large:
        return "small" if problem.is_limit or step.strength <= _SMALL_STRENGTH else "between"
    if problem.n_step == math.inf:
        return "infinite"
    return "few" if problem.ratio("n_step") < _FEW else "large"


def _outcome(problem: Problem, error: float, bound: float | None, change: float | None, activation: Moments) -> str:
    """Say in a few words what comes of the step; "features are learned" is what no kernel can do."""
    if problem.eta.coefficient == 0:
        return "random features"
    if change is not None and abs(change) <= _CLEAR:
        return "hardly any change"
    if change is not None and change > 0:
        return "a higher error"
    if bound is None:
        return "a lower error" if change is not None else "an error that is known, what the step does to it is not"
    if error < (1 - _CLEAR) * bound and _is_nonlinear(activation):
        return "features are learned"
    if change is None:
        return "an error that is known, what the step does to it is not"
    if bound == 0:
        return "a better fit of a linear teacher"
    if error <= (1 + _CLEAR) * bound:
        return "an error at the kernel bound"
    return "a lower error, above the kernel bound"


def _verdict(error: float, bound: float | None, change: float | None, teacher: Moments) -> str:
    """Say what the step does to the test error, and where that lies with respect to the kernel bound."""
    if bound is None:
        place, remark = "", ""
    elif bound == 0:
        constant = teacher.linear**2 <= _ROUNDING * teacher.second_moment
        place, remark = "", f" The teacher is {'constant' if constant else 'linear'}: kernels can learn all of it."
    else:
        place, remark = _place(error / bound), ""
    if change is None:
        return f"The test error is {place}.{remark}" if place else remark.strip()
    if abs(change) <= _CLEAR:
        first = f"The step changes the test error by less than {100 * _CLEAR:.0f} %"
        return f"{first}: it is {place}." if place else f"{first}.{remark}"
    much = f"by {100 * abs(change):.2g} %" if change < 1 else f"{_rounded(1 + change, 3)}-fold"
    first = f"The step {'raises' if change > 0 else 'lowers'} the test error {much}"
    return f"{first}, to {place}." if place else f"{first}.{remark}"


def _place(ratio: float) -> str:
    if abs(ratio - 1) < _CLEAR:
        return "the kernel bound"
    if ratio < 1:
        return (
            f"{100 * (1 - ratio):.0f} % below the kernel bound: no fixed kernel gets there with samples in proportion "
            "to d"
        )
    return f"{100 * (ratio - 1):.0f} % above the kernel bound" if ratio < 2 else f"{ratio:.1f} times the kernel bound"


def _sentences(problem: Problem, step: _Step, activation: Moments, teacher: Moments) -> list[str]:
    linear = "The activation is linear, and so is the network, whatever its weights."
    if problem.eta.coefficient == 0:
        return [
            "The first layer stays as it was drawn.",
            "Its features act like the inputs themselves with noise added (random features)."
            if _is_nonlinear(activation)
            else linear,
        ]
    if not step.strength > 1e-6 * max(problem.eta.coefficient, NOTHING):
        if activation.derivative_second_moment <= _ROUNDING * activation.second_moment:
            return ["The slope of the activation is zero almost everywhere: the neurons stay where they were."]
        spread = f", by {_lengths(step.moved)} their length" if step.moved > 0.005 else ""
        return [f"The step moves the neurons{spread}, but in no direction that they have in common."]
    exponent = problem.eta.exponent
    if problem.is_limit and exponent == 0:
        said = [f"All neurons together gain one direction, of strength {_rounded(step.strength)}; each hardly moves."]
    else:
        amount = f", by {_lengths(step.common)} its length," if math.isfinite(step.common) else ""
        said = [f"The step moves a neuron{amount} along a direction that all have in common."]
    said.append(_direction(problem, step, teacher))
    if not _is_nonlinear(activation):
        return [*said, linear]
    if step.learned is not None:
        of_teacher = f" (of the teacher's, {100 * step.taught:.0f} %)" if step.taught is not None else ""
        said.append(
            f"Of the function that the network learns along it, {100 * step.learned:.0f} % of the variance is nonlinear"
            f"{of_teacher}."
        )
    elif step.taught is not None or step.alignment < _NONE:
        said.append("Along it the network learns next to nothing.")
    # The papers prove it for isotropic inputs.
    return said if problem.inputs is not None else [*said, *_as_width_grows(exponent, step)]


def _rounded(amount: float, digits: int = 2) -> str:
    """Return a number with so many digits, large ones as 230 and not as 2.3e+02."""
    rounded = float(f"{amount:.{digits}g}")
    return f"{rounded:.{digits}g}" if rounded < 10**digits else f"{rounded:.0f}"


def _lengths(amount: float) -> str:
    """Return a multiple of a length in words, to stand before it."""
    return f"{amount:.2g} of" if amount < 1 else f"{_rounded(amount)} times"


def _direction(problem: Problem, step: _Step, teacher: Moments) -> str:
    told = f"alignment {step.alignment:.2f}"
    if step.alignment >= _MOSTLY:
        return f"The direction is mostly the teacher's ({told})."
    infinite = problem.n_step == math.inf
    noise = "" if infinite else f", n₀/d = {problem.ratio('n_step'):.3g} for the step"
    if step.alignment >= _PARTLY:
        return f"The direction is partly the teacher's ({told}{noise})."
    blind = teacher.linear**2 <= _ROUNDING * teacher.second_moment
    why = ": the teacher has no linear part, and the step sees no other" if blind else ""
    return f"The direction is {'not' if step.alignment < _NONE else 'hardly'} the teacher's ({told}{noise}){why}."


def _as_width_grows(exponent: float, step: _Step) -> list[str]:
    """Say what the papers prove of a step of this exponent, where they do."""
    if step.alignment < _PARTLY or not step.taught:
        return []
    if exponent == 0:
        return ["A step that does not grow with N stays above the kernel bound as N grows (Ba et al. 2022)."]
    if exponent < 0.5:
        powers = int(degree(min(exponent, 0.499)))
        reach = "the projection on it becomes a feature"
        if powers > 1:
            reach = f"powers of the projection on it, up to degree {powers}, become features"
        return [
            f"With η growing like N^{exponent:g}, {reach} as N grows, where activation and teacher contain them "
            "(Moniri et al. 2024)."
        ]
    if exponent > 0.5:
        return [f"With η growing like N^{exponent:g}, the neurons move without bound as N grows."]
    return ["With η growing like √N, they move by as much at every width (Ba et al. 2022, Cui et al. 2024)."]
