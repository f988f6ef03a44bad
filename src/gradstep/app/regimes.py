"""Which regime a problem is in, in words; the keys are those of the colours in `gradstep.papers.drawing`."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gradstep.papers.moniri2024.staircase import degree
from gradstep.problem import Problem
from gradstep.theory import Prediction

__all__ = ["Regime", "regime_of", "verdict"]

#: Samples of the step per dimension below which a large step still points far from the teacher.
_FEW = 2.0
#: Test errors nearer to the bound than this share of it are at the bound.
_AT_BOUND = 0.02


@dataclass(frozen=True)
class Regime:
    """A name for the colour, a title and a sentence."""

    key: str
    title: str
    text: str


def regime_of(problem: Problem, alignment: float) -> Regime:
    """Name the regime of the step.

    Parameters
    ----------
    problem : Problem
    alignment : float
        Overlap of the spike with the teacher, for the sentence.
    """
    exponent, ratio = problem.eta.exponent, problem.n_step if problem.n_step == math.inf else problem.ratio("n_step")
    if problem.eta.coefficient == 0:
        return Regime("initial", "No step: random features", "The first layer stays as it was drawn.")
    if exponent == 0:
        return Regime(
            "small",
            "Small step, η of order one: a better kernel",
            "One direction is added to all weights, yet the features still act like a noisy linear map: the error "
            "falls, but as N grows not below the kernel bound (Ba et al. 2022).",
        )
    if exponent < 0.5:
        powers = int(degree(min(exponent, 0.499)))
        reach = "its projection" if powers == 1 else f"powers of its projection up to degree {powers}"
        return Regime(
            "between",
            f"In between, η growing like N^{exponent:g}: the staircase",
            f"As N grows, {reach} on the learned direction become features (Moniri et al. 2024). At finite sizes the "
            "stairs are a ramp.",
        )
    if exponent > 0.5:
        return Regime(
            "large",
            f"Beyond √N, η growing like N^{exponent:g}",
            "As N grows every neuron moves without bound and its activation saturates or follows its largest power.",
        )
    if problem.n_step == math.inf:
        return Regime(
            "infinite",
            "Large step on the population gradient: features are learned",
            "Every neuron moves by order one exactly along the teacher's direction (Cui et al. 2024).",
        )
    if ratio < _FEW:
        return Regime(
            "few",
            "Large step from few samples",
            f"Every neuron moves by order one, but with n₀/d = {ratio:.3g} samples per dimension the spike points only "
            f"partly at the teacher: alignment {abs(alignment):.2f}.",
        )
    return Regime(
        "large",
        "Large step, η of order √N: features are learned",
        f"Every neuron moves by order one, mostly along the teacher (alignment {abs(alignment):.2f}), and a nonlinear "
        "function of that direction is within reach (Ba et al. 2022, Cui et al. 2024).",
    )


def verdict(prediction: Prediction, kernel_bound: float) -> str:
    """Say where the test error lies with respect to the kernel bound."""
    error = prediction.test_error
    if kernel_bound < 1e-12:
        return "The teacher is linear: kernels can learn all of it."
    share = error / kernel_bound - 1
    if abs(share) < _AT_BOUND:
        return "The test error is at the kernel bound."
    if share < 0:
        return f"The test error is {-100 * share:.0f} % below the kernel bound: no fixed kernel gets there."
    return (
        f"The test error is {100 * share:.0f} % above the kernel bound."
        if share < 1
        else (f"The test error is {1 + share:.1f} times the kernel bound.")
    )
