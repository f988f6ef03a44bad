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

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradstep.gaussian import scalar_function
from gradstep.papers.cui2024.drawn import feature_eigenvalues, spiked_layer
from gradstep.papers.cui2024.spectrum import outlier, spectral_law
from gradstep.papers.experiments.spectra import density
from gradstep.papers.figure import Figure, by_point, point_seeds
from gradstep.papers.outcome import Check, Comparison, Outcome, compare, points_of
from gradstep.papers.panels import Guide, Histogram, Line, Panel, Points
from gradstep.sweeps import Result, Task
from gradstep.theory.stieltjes import Law

__all__ = ["assemble", "measure", "tasks"]

Array = NDArray[np.float64]

_BINS = 50


def tasks(figure: Figure, preset: Mapping[str, Any]) -> list[Task]:
    """List one drawn model a strength and seed."""
    shared = {**figure.settings["base"], "d": int(preset["d"])}
    return [
        Task(
            f"{__name__}:measure",
            {**shared, "r": float(r), "histogram": r in figure.settings["histograms"]},
            seed,
        )
        for r in preset["points"]
        for seed in point_seeds(figure.name, "features", r, preset)
    ]


def measure(parameters: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Return the largest eigenvalue of the features of one drawn model, and the others where they are shown."""
    d = int(parameters["d"])
    width, n = (round(float(parameters[name]) * d) for name in ("beta", "alpha"))
    layer = spiked_layer(seed, width, d, **{name: parameters[name] for name in ("r", "c", "gamma")})
    eigenvalues = feature_eigenvalues(layer, scalar_function(parameters["activation"]), n=n, seed=seed)
    # Without a spike all of them belong to the bulk.
    bulk = eigenvalues if parameters["r"] == 0 else eigenvalues[:-1]
    return {"largest": float(eigenvalues[-1]), "bulk": bulk.tolist() if parameters["histogram"] else []}


def _model(figure: Figure) -> dict[str, Any]:
    base = figure.settings["base"]
    return {"sigma": base["activation"], "sigma_star": base["teacher"], "c": base["c"], "gamma": base["gamma"]}


def _law(figure: Figure, r: float) -> Law:
    base = figure.settings["base"]
    return spectral_law(**_model(figure), r=r, alpha=base["alpha"], beta=base["beta"])


def _outlier(figure: Figure, preset: Mapping[str, Any], r: float, *, published: bool = False) -> float:
    base, d = figure.settings["base"], int(preset["d"])
    width, n = (round(float(base[name]) * d) for name in ("beta", "alpha"))
    return float(outlier(**_model(figure), r=r, p=width, n=n, d=d, published=published))


def assemble(figure: Figure, preset: Mapping[str, Any], results: Sequence[Result]) -> Outcome:
    """Put the law under the histograms, and the outlier under the largest eigenvalues."""
    settings = figure.settings
    drawn = dict(zip(map(float, preset["points"]), by_point(results, preset), strict=True))
    panels: list[Panel] = []
    checks: list[Check] = []
    for r in map(float, settings["histograms"]):
        panel, own = _histogram(figure, r, drawn[r])
        panels.append(panel)
        checks += own
    comparisons = [
        compare(
            _outlier(figure, preset, r), [v["largest"] for v in own], curve="outlier", place=r, quantity="eigenvalue"
        )
        for r, own in drawn.items()
        if r > 0
    ]
    strongest = comparisons[-1]
    leading = _outlier(figure, preset, float(strongest.place), published=True)
    gap = abs(leading / strongest.mean - 1)
    checks.append(Check.at_most("distance of (191) from the outlier of the strongest spike (relative)", gap, 0.05))
    axis = settings["axis"]
    grid = np.linspace(axis["from"], axis["to"], int(preset["line"])).tolist()
    lines = [
        Line(grid, [_outlier(figure, preset, r) for r in grid], "outlier", "large"),
        Line(grid, [_outlier(figure, preset, r, published=True) for r in grid], "(191)", "few", "dashed"),
        Line(grid, [_law(figure, r).edge for r in grid], "edge", "small", "dashed"),
    ]
    panels.append(
        Panel(
            "the outlier",
            "spike strength r",
            "eigenvalue",
            y_scale="log",
            lines=lines,
            points=[points_of(comparisons, "outlier", "large")],
        )
    )
    panels.append(_over_published(figure, preset, grid, comparisons))
    d = int(preset["d"])
    notes = (
        "Bars: singular values of the features of spiked random features, the largest left out where there is a "
        f"spike; lines on them: (190). Points: the largest eigenvalue at d = {d}, judged against the solid line, "
        "which has the terms of order one beyond (191)."
    )
    return Outcome(tuple(panels), tuple(comparisons), tuple(checks), notes=notes)


def _over_published(
    figure: Figure, preset: Mapping[str, Any], grid: Sequence[float], comparisons: Sequence[Comparison]
) -> Panel:
    """Show what the leading order leaves."""
    published = {
        r: _outlier(figure, preset, r, published=True) for r in (*grid, *(float(c.place) for c in comparisons))
    }
    x = [float(c.place) for c in comparisons]
    return Panel(
        "the outlier over its leading order",
        "spike strength r",
        "outlier / (191)",
        lines=[Line(grid, [_outlier(figure, preset, r) / published[r] for r in grid], "outlier", "large")],
        points=[
            Points(
                x,
                [c.mean / published[r] for r, c in zip(x, comparisons, strict=True)],
                [c.standard_error / published[r] for r, c in zip(x, comparisons, strict=True)],
                "outlier",
                "large",
            )
        ],
        guides=[Guide("(191)", height=1.0)],
    )


def _histogram(figure: Figure, r: float, drawn: Sequence[Result]) -> tuple[Panel, tuple[Check, ...]]:
    law = _law(figure, r)
    pooled = np.sort(np.concatenate([np.asarray(own["bulk"]) for own in drawn]))
    ranks = (np.arange(pooled.size) + 0.5) / pooled.size
    distance = float(np.abs(law.cumulative(pooled) - ranks).max())
    mass = abs(law.atom + float(law.weight.sum()) - 1)
    checks = (
        Check.at_most(f"Kolmogorov distance to (190), r = {r:g}", distance, figure.settings["distance"]),
        Check.at_most(f"distance of the integral of (190) from one, r = {r:g}", mass, 1e-6),
    )
    edges = np.linspace(0.0, 1.02 * np.sqrt(law.edge), _BINS + 1)
    measured = np.histogram(np.sqrt(pooled), edges)[0] / (pooled.size * np.diff(edges))
    panel = Panel(
        f"r = {r:g}",
        "singular value",
        "density",
        lines=density(law, "(190)", "small"),
        histograms=[Histogram(edges.tolist(), measured.tolist(), "drawn", "initial")],
    )
    return panel, checks
