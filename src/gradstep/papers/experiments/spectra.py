"""Parts of all figures of spectra: problems from parameters, laws as curves, measurements as points, checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from gradstep.papers.figure import Figure
from gradstep.papers.outcome import Check
from gradstep.papers.panels import Histogram, Line, Mark
from gradstep.problem import Problem
from gradstep.theory.spectra.stieltjes import Law

__all__ = [
    "along_parameter",
    "density",
    "displaced",
    "histogram",
    "outlier_marks",
    "parameters_of",
    "placed",
    "problem_of",
]

Array = NDArray[np.float64]
Found = TypeVar("Found")

BINS = 50
"""Bars of a histogram."""


def problem_of(parameters: Mapping[str, Any]) -> Problem:
    """Return the problem of a task: ``constructor`` names the convention, ``base`` its arguments."""
    problem: Problem = getattr(Problem, parameters["constructor"])(**parameters["base"])
    return problem


def parameters_of(figure: Figure, preset: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of `problem_of` in a figure: its base, the preset's sizes and what changes."""
    settings = figure.settings
    return {"constructor": settings["constructor"], "base": {**settings["base"], **preset["sizes"], **change}}


def along_parameter(
    figure: Figure, preset: Mapping[str, Any], spectrum: Callable[[Problem], Found]
) -> dict[float, Found]:
    """Return the spectrum along the varied parameter: at the points measured, and at ``grid`` values between them."""
    points, name = preset["points"], figure.settings["vary"]
    grid = np.linspace(min(points), max(points), int(preset["grid"])).tolist()
    return {x: spectrum(problem_of(parameters_of(figure, preset, {name: x}))) for x in sorted({*points, *grid})}


def histogram(values: Array, edge: float, label: str, regime: str, share: float = 1.0) -> Histogram:
    """Return the density of singular values up to the `edge` of their law, normalised to `share`."""
    edges = np.linspace(0, 1.02 * edge, BINS + 1)
    heights = share * np.histogram(values, edges)[0] / (values.size * np.diff(edges))
    return Histogram(edges.tolist(), heights.tolist(), label, regime)


def outlier_marks(predicted: float, measured: Array, label: str, regime: str) -> list[Mark]:
    """Mark a predicted place, and the mean of those measured."""
    return [Mark(predicted, label, regime), Mark(float(measured.mean()), label, regime, measured=True)]


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
