"""Arguments that several theories take: ranges and names, checked before any work."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gradstep.checks import integer
from gradstep.errors import InvalidInput
from gradstep.gaussian import moments
from gradstep.problem import Problem, link_of

__all__ = ["check_labels", "checked_refine", "listed_problems"]


def checked_refine(refine: object) -> int:
    """Return ``refine``, a small positive integer."""
    return integer("refine", refine, 1, 16)


def check_labels(problem: Problem) -> None:
    """Raise `InvalidInput` if all labels are zero: nothing is learned, and nothing fluctuates."""
    link = link_of(problem.teacher)
    if problem.noise == 0 and moments(link).second_moment == 0:
        raise InvalidInput("teacher", link.name, "one that is not zero everywhere, or label noise")


def listed_problems(problems: Any) -> list[Problem]:
    """Return the problems of a batch, or raise `InvalidInput` if this is one problem or nothing to iterate over."""
    if isinstance(problems, Problem) or not isinstance(problems, Iterable):
        raise InvalidInput("problems", problems, "an iterable of gradstep.Problem")
    return list(problems)
