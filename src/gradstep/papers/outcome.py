"""The outcome of a figure's run: theory against measurement, the numeric verdict, and the panels to draw."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from gradstep.overlay import FAR, Overlay, mean_and_error
from gradstep.panels import Panel, Points, Table

__all__ = ["Check", "Judged", "Outcome", "Verdict", "median_bound", "points_of"]


@dataclass(frozen=True, eq=False)
class Judged(Overlay):
    """One quantity in theory and as measured, at one place of a figure."""

    curve: str
    place: float | str  #: Place on the horizontal axis, or row of a table.
    quantity: str = "test error"
    allowance: float = 0.0  #: Relative error of the theory that `reason` explains.
    reason: str = ""  #: The documented limit of validity behind the allowance.
    #: Name of the measured networks. Comparisons with the same name are not independent. If it is empty, no other
    #: comparison uses these networks.
    sample: str = ""

    def __post_init__(self) -> None:
        """Refuse an allowance without a reason."""
        if self.allowance and not self.reason:
            raise ValueError("an allowance needs a reason")

    @classmethod
    def at(cls, theory: float, values: ArrayLike, **place: Any) -> Self:
        """Lay a predicted value over measurements on several networks.

        There is one measurement for each network. If one of them is nan, so is the mean, and the comparison fails.
        `place` has the attributes of `Judged`, of which curve and place have no default.
        """
        mean, error, count = mean_and_error(values)
        mean = mean if count == np.size(values) else math.nan
        return cls(float(theory), float(mean), float(error), np.size(values), **place)

    @property
    def excess_z(self) -> float:
        """The part of z that is beyond the allowance."""
        return float(self.z_beyond(self.allowance))


@dataclass(frozen=True)
class Check:
    """A numeric criterion that is not a z-score."""

    label: str  #: A sentence, in which ``{}`` stands for the value.
    value: float
    bound: float
    passed: bool
    relation: str = ""  #: Between value and bound, as written.
    unit: str = ""  #: What the bound counts, if the label does not end with it.

    @property
    def sentence(self) -> str:
        """The result of the check in words."""
        return self.label.replace("{}", f"{self.value:.3g}" if math.isfinite(self.value) else "–")

    @classmethod
    def at_most(cls, label: str, value: float, bound: float, unit: str = "") -> Self:
        """Return a check that fails when `value` exceeds `bound`, or is nan."""
        return cls(label, float(value), float(bound), bool(value <= bound), "≤", unit)

    @classmethod
    def at_least(cls, label: str, value: float, bound: float) -> Self:
        """Return a check that fails when `value` is below `bound`, or is nan."""
        return cls(label, float(value), float(bound), bool(value >= bound), "≥")


@dataclass(frozen=True)
class Outcome:
    """The panels that an experiment draws and the comparisons that judge it. The sum of two has the parts of both."""

    panels: Sequence[Panel] = ()
    comparisons: Sequence[Judged] = ()
    checks: Sequence[Check] = ()
    notes: str = ""
    table: Table | None = None

    def __add__(self, more: Outcome) -> Outcome:
        """Return both, one after the other; notes and table are those of the first that has them."""
        return Outcome(
            (*self.panels, *more.panels),
            (*self.comparisons, *more.comparisons),
            (*self.checks, *more.checks),
            self.notes or more.notes,
            self.table or more.table,
        )


@dataclass(frozen=True)
class Verdict:
    """The criterion of a settings file applied to an outcome; nan where there is no comparison.

    Comparisons on the same networks are correlated: if ten quantities of one set of networks counted as ten, the random
    error of that set would move the median as far as a wrong theory does. Therefore each set of networks
    (`Judged.sample`) enters the median once, with the median within it.
    """

    largest_z: float  #: Largest absolute z.
    median_z: float  #: Median over the samples, without allowances.
    beyond_three: float  #: Share of absolute z above three, over all comparisons.
    samples: int  #: Independent samples behind the median.
    bounds: Mapping[str, float]  #: Bounds on the three.
    passed: bool

    @classmethod
    def of(cls, outcome: Outcome, criterion: Mapping[str, float]) -> Verdict:
        """Judge an outcome.

        The bounds ``largest_z`` and ``beyond_three`` (share of comparisons) hold with the allowances, ``median_z``
        without. The last is for many samples; with few samples the bound is `median_bound` if that is larger.
        """
        z = np.abs([c.excess_z for c in outcome.comparisons])
        by_sample: dict[str | int, list[float]] = {}
        for place, comparison in enumerate(outcome.comparisons):
            by_sample.setdefault(comparison.sample or place, []).append(abs(comparison.z))
        found = {
            "largest_z": float(z.max()) if z.size else math.nan,
            "median_z": float(np.median([np.median(own) for own in by_sample.values()])) if z.size else math.nan,
            "beyond_three": float(np.mean(z > FAR)) if z.size else math.nan,
        }
        bounds = dict(criterion)
        if by_sample and "median_z" in bounds:
            bounds["median_z"] = max(bounds["median_z"], median_bound(len(by_sample)))
        # An outcome without comparisons is judged by its checks alone, but a nan among the z-scores must fail.
        unknown = bool(z.size) and bool(np.isnan(z).any())
        within = all(not found[name] > bound for name, bound in bounds.items())
        passed = within and not unknown and all(check.passed for check in outcome.checks)
        passed = passed and bool(outcome.comparisons or outcome.checks)
        return cls(samples=len(by_sample), bounds=bounds, passed=passed, **found)


def median_bound(samples: int) -> float:
    """Return what the median of the absolute values of independent standard normals exceeds once in a thousand.

    It is 3.3 for one, 1.8 for seven, 1.2 for thirty. For an even number of samples it is that of the next odd one,
    which is a little stricter.
    """
    half = samples // 2 + 1
    # The median of `samples` shares between 0 and 1 has a beta law; scipy.stats takes a second to load.
    share = special.betaincinv(half, half, 0.999)
    return float(special.ndtri((1 + share) / 2))


def points_of(comparisons: Sequence[Judged], label: str, regime: str) -> Points:
    """Return the measured side of comparisons along an axis, to be drawn."""
    x, mean, error = zip(*((float(c.place), c.mean, c.standard_error) for c in comparisons), strict=True)
    return Points(x, mean, error, label, regime)
