"""What the figures of spectra share: problems from parameters, laws as curves, measurements as points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gradstep.papers.outcome import Check
from gradstep.papers.panels import Line, Points
from gradstep.problem import Problem
from gradstep.theory.stieltjes import Law

__all__ = ["at_most", "density", "measured_points", "problem_of"]


def problem_of(parameters: Mapping[str, Any]) -> Problem:
    """Return the problem of a task: ``constructor`` names the convention, ``base`` its arguments."""
    problem: Problem = getattr(Problem, parameters["constructor"])(**parameters["base"])
    return problem


def measured_points(x: Sequence[float], values: Sequence[Sequence[float]], label: str, regime: str) -> Points:
    """Return means over the seeds with their standard errors, one point a place."""
    mean = [float(np.mean(v)) for v in values]
    error = [float(np.std(v, ddof=1) / np.sqrt(len(v))) for v in values]
    return Points(list(x), mean, error, label, regime)


def density(law: Law, label: str, regime: str, share: float = 1.0) -> list[Line]:
    """Return the density of the singular values, a line a band; the label is at the first.

    Parameters
    ----------
    law : Law
        Of the eigenvalues.
    label, regime : str
    share : float
        What the density is normalised to where zeros are not counted.
    """
    lines = []
    for place, band in enumerate(law.bands):
        inside = 2 * np.sqrt(band.eigenvalue) * band.density / share
        lower = float(inside[0]) if band.lower == 0 else 0.0  # at zero the density is finite
        s = np.sqrt([band.lower, *band.eigenvalue, band.upper])
        lines.append(Line(s.tolist(), [lower, *inside.tolist(), 0.0], "" if place else label, regime))
    return lines


def at_most(label: str, value: float, bound: float) -> Check:
    """Return the check that a value does not exceed its bound."""
    return Check(label, value, bound, value <= bound)
