"""Checks of figures other than z-scores: bounds, decreasing quantities, exponents of power laws."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradstep.overlay import FAR, Overlay
from gradstep.papers.outcome import Check, Judged
from gradstep.papers.places import Settings

__all__ = ["below", "in_standard_errors", "not_below", "power_law", "published_is_off", "total_fall"]


def in_standard_errors(values: ArrayLike) -> float:
    """Return the mean of independent values, one a seed, divided by its standard error."""
    return float(Overlay.of(0.0, values).t)


def below(bound: float, measured: Sequence[Judged]) -> float:
    """Return by how many standard errors the measured mean that is farthest below a bound is below it."""
    return max(float((bound - c.mean) / c.standard_error) for c in measured)


def not_below(who: str, bound: str, most: float) -> Check:
    """Return the check that nothing measured is below a bound by more than chance.

    What was measured and the bound are in words, and `most` is what `below` returns.
    """
    side = "below" if most > 0 else "above"
    sentence = (
        f"{who} lies below {bound} by more than chance (the lowest lies {abs(most):.3g} standard errors {side} it)"
    )
    return Check.at_most(sentence, most, FAR, "below it")


def total_fall(before: Sequence[Judged], after: Sequence[Judged]) -> float:
    """Return how far one measured curve is below another, over all places, in standard errors.

    All places are used because curves that are close can be in any order at a single place by chance.
    """
    falls = sum(b.mean - a.mean for b, a in zip(before, after, strict=True))
    return float(falls / math.sqrt(sum(c.standard_error**2 for c in (*before, *after))))


def published_is_off(sentence: str, z: float, preset: Settings) -> list[Check]:
    """Return the check that what is published is so many standard errors off; none if a preset has no ``published_z``.

    Presets without it have too few seeds to tell.
    """
    return [Check.at_least(sentence, z, preset["published_z"])] if "published_z" in preset else []


def power_law(x: ArrayLike, y: ArrayLike) -> tuple[float, NDArray[np.float64]]:
    """Fit a straight line to logarithms: return the exponent, and the fitted values at `x`."""
    places = np.asarray(x, dtype=np.float64)
    exponent, intercept = np.polyfit(np.log(places), np.log(np.asarray(y, dtype=np.float64)), 1)
    return float(exponent), np.exp(intercept) * places**exponent
