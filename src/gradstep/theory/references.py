"""Errors to compare a network with: what no fixed kernel can do, what the best linear function does, label noise."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gradstep.gaussian import moments
from gradstep.problem import Problem

__all__ = ["REFERENCES", "applicable"]


def _kernel_lower_bound(problem: Problem) -> float:
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
neurons are proportional to the dimension (Ba et al. 2022, (3.3)). The best linear error is that of the best multiple of
the best projection, without a constant (Cui et al. 2024, section 4.2): it is larger by the square of the teacher's mean.
Label noise is the variance of the noise, which is no part of the test error.
"""


def applicable(problem: Problem) -> dict[str, float]:
    """Return the bounds that a step can beat: none for a linear teacher, and one number where both are the same."""
    bound, linear = _kernel_lower_bound(problem), _best_linear_error(problem)
    if bound <= 1e-12 * moments(problem.teacher).second_moment:
        return {}
    found = {"kernel lower bound": bound}
    return found if abs(linear - bound) <= 1e-9 * linear else found | {"best linear error": linear}
