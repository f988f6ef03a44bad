"""Simulate several problems: those that differ in the penalty alone share their networks and one factorisation."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from gradstep.problem import Problem
from gradstep.simulation.arguments import finite_sizes
from gradstep.simulation.measurement import Measurement
from gradstep.simulation.simulate import simulate

__all__ = ["simulate_many"]


def simulate_many(
    problems: Sequence[Problem],
    seeds: int | Sequence[int] = 16,
    *,
    progress: Callable[[float, int], None] | None = None,
    **options: Any,
) -> list[Measurement]:
    """Measure networks of several problems.

    Parameters
    ----------
    problems : sequence of Problem
        Problems whose sizes are all finite.
    seeds : int or sequence of int
        As in `gradstep.simulate`, the same for all problems.
    progress : callable, optional
        Called as ``progress(done, total)`` with numbers of problems. Of a problem that is being simulated the fraction
        that is done is counted.
    **options
        ``fit``, ``rows``, ``replacement``, ``device``, ``dtype``, ``test_samples`` and ``kernel_tolerance`` of
        `gradstep.simulate`.

    Returns
    -------
    list of Measurement
        One for each problem, in the order given, each with one penalty.

    Raises
    ------
    InvalidInput, NotConverged
        For the reasons of `gradstep.simulate`. Infinite sizes are refused before any simulation.
    """
    families: dict[Problem, list[int]] = {}
    for index, problem in enumerate(problems):
        finite_sizes(problem)
        families.setdefault(problem.replace(ridge=1.0), []).append(index)
    measurements: dict[int, Measurement] = {}
    for members in families.values():
        before = len(measurements)

        def within(done: int, total: int, before: int = before, count: int = len(members)) -> None:
            if progress is not None:
                progress(before + count * done / total, len(problems))

        penalties = [problems[index].sizes.ridge for index in members]
        path = simulate(problems[members[0]], seeds, ridge=penalties, progress=within, **options)
        for column, index in enumerate(members):
            measurements[index] = _one_penalty(path, problems[index], column)
    return [measurements[index] for index in range(len(problems))]


def _one_penalty(path: Measurement, problem: Problem, column: int) -> Measurement:
    values = {name: value[:, column] if value.ndim == 2 else value for name, value in path.values.items()}
    return dataclasses.replace(path, problem=problem, ridge=problem.sizes.ridge, values=values)
