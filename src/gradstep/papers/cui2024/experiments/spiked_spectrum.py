"""Spectrum of the features of drawn spiked random features: the law (190) and its outlier (191).

Settings
--------
base : activation, teacher, c, gamma, alpha, beta.
histograms : spike strengths that get a histogram each; the first eigenvalue is left out where there is a spike.
axis : range of strengths (``from``, ``to``).
distance : bound on the Kolmogorov distance between the eigenvalues and the law.
Presets have d, the ``points`` drawn (spike strengths), and ``line``, the count of strengths along the axis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradstep.papers.charts import Curve, charts, grid_of
from gradstep.papers.cui2024.drawn import feature_eigenvalues
from gradstep.papers.cui2024.experiments.measured import layer_of
from gradstep.papers.cui2024.spectrum import outlier, spectral_law
from gradstep.papers.experiments.spectra import density, histogram
from gradstep.papers.figure import Figure
from gradstep.papers.outcome import Check, Outcome
from gradstep.papers.panels import Guide, Line, Panel, Points
from gradstep.papers.places import Place, Sample
from gradstep.theory.spectra.stieltjes import Law

__all__ = ["measure", "outcome", "places"]

Array = NDArray[np.float64]


def places(figure: Figure, preset: Mapping[str, Any]) -> Iterator[Place]:
    """Drawn models at every spike strength."""
    shared = {**figure.settings["base"], "d": int(preset["d"])}
    for r in preset["points"]:
        shown = {"r": float(r), "histogram": r in figure.settings["histograms"]}
        yield Place(measure, {**shared, **shown}, "features", r)


def measure(parameters: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Return the largest eigenvalue of the features of one drawn model, and the others where they are shown."""
    d = int(parameters["d"])
    n = round(float(parameters["alpha"]) * d)
    eigenvalues = feature_eigenvalues(layer_of(parameters, d, seed), parameters["activation"], n=n, seed=seed)
    # Without a spike all of them belong to the bulk.
    bulk = eigenvalues if parameters["r"] == 0 else eigenvalues[:-1]
    return {"largest": float(eigenvalues[-1]), "bulk": bulk.tolist() if parameters["histogram"] else []}


def _model(figure: Figure) -> dict[str, Any]:
    base = figure.settings["base"]
    return {"sigma": base["activation"], "sigma_star": base["teacher"], "c": base["c"], "gamma": base["gamma"]}


def _law(figure: Figure, r: float) -> Law:
    base = figure.settings["base"]
    return spectral_law(**_model(figure), r=r, alpha=base["alpha"], beta=base["beta"])


def _outliers(figure: Figure, preset: Mapping[str, Any], r: Array, *, published: bool = False) -> Array:
    base, d = figure.settings["base"], int(preset["d"])
    width, n = (round(float(base[name]) * d) for name in ("beta", "alpha"))
    sizes: dict[str, Any] = {"p": width, "n": n, "d": d}
    return np.array([float(outlier(**_model(figure), r=float(own), published=published, **sizes)) for own in r])


def outcome(figure: Figure, preset: Mapping[str, Any], samples: Sequence[Sample]) -> Outcome:
    """Put the law under the histograms, and the outlier under the largest eigenvalues."""
    settings = figure.settings
    panels: list[Panel] = []
    checks: list[Check] = []
    for sample in samples:
        if sample.x in settings["histograms"]:
            panel, own = _histogram(figure, sample)
            panels.append(panel)
            checks += own

    def eigenvalue(r: Array) -> dict[str, Array]:
        return {"largest": _outliers(figure, preset, r)}

    def published(r: Array) -> Array:
        return _outliers(figure, preset, r, published=True)

    grid = grid_of(settings["axis"], preset)
    lines = [
        Line.of(grid, published(grid), "(191)", "few", "dashed"),
        # A whole law a place, and hardly bent.
        Line.of(grid[::5], [_law(figure, float(r)).edge for r in grid[::5]], "edge", "small", "dashed"),
    ]
    axes = Panel("the outlier", "spike strength r", "eigenvalue", y_scale="log", lines=lines)
    curve = Curve("outlier", "large", eigenvalue, [sample for sample in samples if sample.x > 0])
    found = charts([curve], grid, {"largest": axes})
    strongest = found.comparisons[-1]
    (leading,) = published(np.array([strongest.place]))
    gap = abs(leading / strongest.mean - 1)
    checks.append(Check.at_most("distance of (191) from the outlier of the strongest spike (relative)", gap, 0.05))
    (line, *_), (points,) = found.panels[0].lines, found.panels[0].points
    scaled = _over_published(line, points, published)
    return Outcome(panels) + found + Outcome([scaled], checks=checks)


def _over_published(line: Line, points: Points, published: Callable[[Array], Array]) -> Panel:
    """Show what the leading order leaves."""
    x = np.array(points.x)
    mean, error = (np.array(values) / published(x) for values in (points.mean, points.error))
    return Panel(
        "the outlier over its leading order",
        "spike strength r",
        "outlier / (191)",
        lines=[replace(line, y=(np.array(line.y) / published(np.array(line.x))).tolist())],
        points=[replace(points, mean=mean.tolist(), error=error.tolist())],
        guides=[Guide("(191)", height=1.0)],
    )


def _histogram(figure: Figure, sample: Sample) -> tuple[Panel, tuple[Check, ...]]:
    r, law = sample.x, _law(figure, sample.x)
    pooled = np.sort(sample["bulk"], axis=None)
    ranks = (np.arange(pooled.size) + 0.5) / pooled.size
    distance = float(np.abs(law.cumulative(pooled) - ranks).max())
    mass = abs(law.atom + float(law.weight.sum()) - 1)
    checks = (
        Check.at_most(f"Kolmogorov distance to (190), r = {r:g}", distance, figure.settings["distance"]),
        Check.at_most(f"distance of the integral of (190) from one, r = {r:g}", mass, 1e-6),
    )
    bars = histogram(np.sqrt(pooled), float(np.sqrt(law.edge)), "drawn", "initial")
    lines = density(law, "(190)", "small")
    return Panel(f"r = {r:g}", "singular value", "density", lines=lines, histograms=[bars]), checks
