"""What the figures of spectra share: problems from parameters, laws as curves, measurements as points, checks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradstep.papers.outcome import Check
from gradstep.papers.panels import Line
from gradstep.problem import Problem
from gradstep.theory.stieltjes import Law

__all__ = ["density", "displaced", "placed", "problem_of"]

Array = NDArray[np.float64]


def problem_of(parameters: Mapping[str, Any]) -> Problem:
    """Return the problem of a task: ``constructor`` names the convention, ``base`` its arguments."""
    problem: Problem = getattr(Problem, parameters["constructor"])(**parameters["base"])
    return problem


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


def displaced(law: Law, eigenvalues: Array) -> float:
    """Return how many eigenvalues of an instance are out of place: its size times the Kolmogorov distance.

    Eigenvalues are rigid: those of one instance stay within a few places of their law, whatever its size, and so do the
    corrections to the law. Each outlier takes one of them out of the bulk.

    Parameters
    ----------
    law : Law
    eigenvalues : ndarray, shape (seeds, non-zero ones)
        Of several instances, which are pooled.
    """
    pooled, share = np.sort(eigenvalues, axis=None), 1 - law.atom
    measured = law.atom + share * (np.arange(pooled.size) + 0.5) / pooled.size
    return float(np.abs(law.cumulative(pooled) - measured).max() * eigenvalues.shape[1] / share)


def placed(label: str, law: Law, before: Law | None, eigenvalues: Array, bound: float) -> list[Check]:
    """Check that eigenvalues are where a law has them, and not where the law `before` the step (if given) has them."""
    checks = [Check.at_most(f"eigenvalues out of place, {label}", displaced(law, eigenvalues), bound)]
    if before is not None:
        name = f"the same for the law before the step, {label}"
        checks.append(Check.at_least(name, displaced(before, eigenvalues), bound))
    return checks
