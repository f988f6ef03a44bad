"""By how much a step lowers the error of the same network, and what a paper claims of measured learning curves.

Settings, beside those of `gradstep.papers.experiments.learning_curves`
------------------------------------------------------------------------
paired : label of the curve before the step. All curves of a place then share their networks, and a second panel draws
    and judges their gains; ``label`` and ``scale`` of its axis.
claims : properties of the measured points that are checked. ``above``: curves that stay above the kernel lower bound.
    ``below``: one whose last point is under it. ``rate_from``: from this place on that curve falls at least like one
    over the place. ``order``: at every place the gains grow from curve to curve. ``wane``: the gain of every curve
    falls from place to place.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from gradstep.panels import Line, Panel
from gradstep.papers.ba2022 import kernel_lower_bound
from gradstep.papers.claims import below, in_standard_errors, not_below
from gradstep.papers.outcome import Check, Judged, points_of
from gradstep.papers.places import Settings

#: Standard errors by which a measured mean has to be on its side of the kernel lower bound, or may be beyond it.
RESOLVED = 3.0

Measured = Mapping[tuple[str, float], NDArray[np.float64]]
"""Errors of the networks, one a seed, by curve and place."""


def gain_comparisons(settings: Settings, errors: Sequence[Judged], measured: Measured) -> list[Judged]:
    """Compare the gain of every other curve over the paired one on the same networks, by the errors of all curves."""
    before = {float(c.place): c for c in errors if c.curve == settings["paired"]["curve"]}
    found = []
    for after in errors:
        x = float(after.place)
        if after.curve == settings["paired"]["curve"]:
            continue
        gain = before[x].theory - after.theory
        found.append(
            Judged.at(
                gain,
                measured[before[x].curve, x] - measured[after.curve, x],
                curve=after.curve,
                place=x,
                quantity="gain",
                # The allowance of the theory is relative to the error, not to the gain.
                allowance=after.allowance * abs(after.theory / gain),
                reason=after.reason,
                sample=after.sample,
            )
        )
    return found


def gain_panel(settings: Settings, lines: Sequence[Line], gains: Sequence[Judged]) -> Panel:
    """Draw the gains: predicted from the `lines` of the errors, measured on the same networks."""
    axis, paired = settings["axis"], settings["paired"]
    predicted = {line.label: line for line in lines if line.label}
    before = np.array(predicted.pop(paired["curve"]).y)
    return Panel(
        "what the step gains on the same network",
        axis["label"],
        paired["label"],
        axis.get("scale", "linear"),
        paired.get("scale", "linear"),
        lines=[Line.of(after.x, before - np.array(after.y), label, after.regime) for label, after in predicted.items()],
        points=[
            points_of([gain for gain in gains if gain.curve == label], label, after.regime)
            for label, after in predicted.items()
        ],
    )


def claim_checks(settings: Settings, errors: Sequence[Judged], measured: Measured) -> list[Check]:
    """Check what the settings claim of the measured points."""
    claims = settings.get("claims", {})
    floor = kernel_lower_bound(settings["base"]["teacher"])
    by_curve = {curve["label"]: [c for c in errors if c.curve == curve["label"]] for curve in settings["curves"]}
    checks = []
    for curve in claims.get("above", ()):
        most = below(floor, by_curve[curve])
        checks.append(not_below(f"{curve}: no risk", "the kernel bound", most))
    if "below" in claims:
        curve, own = claims["below"], by_curve[claims["below"]]
        margin = below(floor, own[-1:])
        checks.append(
            Check.at_least(f"{curve}: the last risk lies {{}} standard errors below the kernel bound", margin, RESOLVED)
        )
        if "rate_from" in claims:
            start = next(c for c in own if float(c.place) >= claims["rate_from"])
            growth, error = _growth(start, own[-1])
            label = f"{curve}: from n/d = {start.place:g} on, risk times n/d changes by {{}} standard errors"
            checks.append(Check.at_most(label, growth / error, RESOLVED))
    if claims.get("order", False):
        pairs = zip(list(by_curve)[:-1], list(by_curve)[1:], strict=True)
        steps = [measured[a, x] - measured[b, x] for a, b in pairs for x in dict.fromkeys(x for _, x in measured)]
        least = min(map(in_standard_errors, steps))
        checks.append(
            Check.at_least("a larger step gains more on the same networks, by {} standard errors or more", least, 0.0)
        )
    if claims.get("wane", False):
        before, *after = (np.array([c.mean for c in own]) for own in by_curve.values())
        growth = max(float(((before - own)[1:] / (before - own)[:-1]).max()) for own in after)
        checks.append(Check.at_most("a gain is at most {} times that at the place before", growth, 1.0))
    return checks


def _growth(start: Judged, last: Judged) -> tuple[float, float]:
    """Return the growth of the risk times its place, and its standard error; the two places are independent."""
    scaled = [(c.mean * float(c.place), c.standard_error * float(c.place)) for c in (start, last)]
    return scaled[1][0] - scaled[0][0], math.hypot(scaled[0][1], scaled[1][1])
