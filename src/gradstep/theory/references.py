"""Errors to compare a network with: what no fixed kernel can do, what the best linear function does, label noise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from gradstep.errors import InvalidInput
from gradstep.gaussian import moments
from gradstep.problem import Problem
from gradstep.text_table import number

if TYPE_CHECKING:
    from gradstep.theory.prediction import Prediction

__all__ = ["REFERENCES", "reference_lines"]


def _kernel_lower_bound(problem: Problem) -> float:
    if problem.inputs is not None:
        raise InvalidInput("reference", "kernel lower bound", "best linear error or label noise: inputs are correlated")
    return float(moments(problem.teacher).nonlinear_second_moment)


def _best_linear_error(problem: Problem) -> float:
    known = moments(problem.teacher)
    return float(known.second_moment - known.linear**2)


REFERENCES: Mapping[str, Callable[[Problem], float]] = {
    "kernel lower bound": _kernel_lower_bound,
    "best linear error": _best_linear_error,
    "label noise": lambda problem: problem.noise**2,
}
r"""Test errors to compare with, as functions of a problem.

The kernel lower bound :math:`\|P_{>1}f^*\|^2` bounds every kernel and every network without a step where samples and
neurons are proportional to the dimension (Ba et al. 2022, (3.3)). The best linear error is that of the best linear
function without a constant (Cui et al. 2024, section 4.2): it is larger by the square of the teacher's mean.
Label noise is the variance of the noise, which is no part of the test error.
"""


def reference_lines(predictions: Sequence[Prediction]) -> list[str]:
    """Return a line for each bound that a step can beat: its value, and whether or how often it does.

    The problems have one teacher; otherwise there are no lines. There are none for correlated inputs either, for which
    the kernel bound is not known. A linear teacher has no bounds, and bounds that are the same number share a line.
    """
    if not predictions or len({each.problem.teacher for each in predictions}) > 1:
        return []
    problem = predictions[0].problem
    if any(each.problem.inputs is not None for each in predictions):
        return []
    names: dict[float, list[str]] = {}
    for name in ("kernel lower bound", "best linear error"):
        value = REFERENCES[name](problem)
        if value > 1e-12 * moments(problem.teacher).second_moment:
            names.setdefault(float(f"{value:.9g}"), []).append(name)
    lines = []
    for value, own in names.items():
        below = sum(each.test_error < value for each in predictions)
        where = (
            ("below" if below else "above") + " it"
            if len(predictions) == 1
            else f"below at {below} of {len(predictions)}"
        )
        lines.append(f"{' = '.join(own)} {number(value)}: the test error is {where}")
    return lines
