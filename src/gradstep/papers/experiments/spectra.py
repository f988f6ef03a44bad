"""Parts of all figures of spectra: problems from parameters, laws as curves, measurements as points, checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np

from gradstep.papers.experiment import Array, Experiment
from gradstep.papers.outcome import Check
from gradstep.problem import Problem
from gradstep.theory.spectra.stieltjes import Law

Found = TypeVar("Found")


class Spectra(Experiment):
    """Spectra along a parameter of the problem: predicted at every value, measured at the points.

    Settings
    --------
    base : fixed parameters, as `Problem.from_dict` has them.
    vary, vary_label, vary_axis : the parameter on the horizontal axis, its symbol, and the text at the axis.
    histograms : values of it that get a histogram each.
    resolved : an outlier is compared when it is this far above the edge, relative to it.
    displaced : largest number of values of an instance out of place in a histogram (see `displaced`).
    moved : histograms that the law before the step must not describe, by the same measure.
    Presets hold the sizes (merged into `base`), ``points`` and ``grid``, the number of predicted values.
    """

    def parameters(self, x: float, **change: float) -> dict[str, Any]:
        """Return the parameters of the problem at a value on the axis."""
        return {**self.settings["base"], **self.preset["sizes"], self.settings["vary"]: x, **change}

    def problem(self, x: float, **change: float) -> Problem:
        """Return that problem."""
        return Problem.from_dict(self.parameters(x, **change))

    def along(self, spectrum: Callable[[Problem], Found]) -> dict[float, Found]:
        """Return the spectrum at the points measured, and at ``grid`` values between them."""
        points = self.preset["points"]
        grid = np.linspace(min(points), max(points), int(self.preset["grid"])).tolist()
        return {x: spectrum(self.problem(x)) for x in sorted({*points, *grid})}

    @property
    def axis(self) -> str:
        """The text at the horizontal axis."""
        return str(self.settings["vary_axis"])

    def called(self, x: float) -> str:
        """Return the text for a value on the axis."""
        return f"{self.settings['vary_label']} = {x:g}"


def integrals(laws: Iterable[Law], where: str = "") -> Check:
    """Check that the densities of laws integrate to one."""
    lost = max(abs(law.atom + law.weight.sum() - 1) for law in laws)
    return Check.at_most(f"the integral of the density differs from one by {{}}{where}", float(lost), 1e-6)


def displaced(law: Law, eigenvalues: Array) -> float:
    """Return how many eigenvalues of an instance are out of place: its size times the Kolmogorov distance.

    Eigenvalues are rigid: at any size those of one instance are within a few places of their law, and the corrections
    to the law are of the same order. Each outlier removes one of them from the bulk.

    The eigenvalues of several instances, shape (seeds, non-zero ones), are pooled.
    """
    pooled, share = np.sort(eigenvalues, axis=None), 1 - law.atom
    measured = law.atom + share * (np.arange(pooled.size) + 0.5) / pooled.size
    return float(np.abs(law.cumulative(pooled) - measured).max() * eigenvalues.shape[1] / share)


def placed(label: str, law: Law, before: Law | None, eigenvalues: Array, bound: float) -> list[Check]:
    """Check that eigenvalues are where a law has them, and not where the law `before` the step (if given) has them."""
    checks = [Check.at_most(f"{label}: {{}} eigenvalues are out of place", displaced(law, eigenvalues), bound)]
    if before is not None:
        name = f"{label}: {{}} are out of place in the law before the step"
        checks.append(Check.at_least(name, displaced(before, eigenvalues), bound))
    return checks
