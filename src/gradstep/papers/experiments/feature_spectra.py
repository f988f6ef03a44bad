"""Singular values of the features: predicted density and outliers, measured histogram and outliers, and their vectors.

Settings
--------
constructor, base : `Problem` constructor and its fixed parameters.
vary, vary_label : the parameter on the horizontal axis, and how it is written there.
histograms : values of it that get a histogram each.
outliers : how many outliers to follow.
resolved : an outlier is compared when it is this far above the edge, relative to it.
displaced : largest number of eigenvalues of an instance out of place in a histogram (see `displaced`).
moved : histograms in which the law before the step has to fail by the same measure.
windows : optional, places of dotted vertical lines on the horizontal axis.
counted : optional; predicted numbers of outliers where the other parameters are ``size``, with the numbers ``expected``
    at the places ``at``.
Presets hold the sizes (merged into `base`), `points` (measured), `grid` (number of predicted values) and ``count``,
whether outliers are counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradstep.papers.experiments.spectra import density, placed, problem_of
from gradstep.papers.figure import Figure, point_seeds
from gradstep.papers.outcome import Check, Comparison, Outcome, compare
from gradstep.papers.panels import Guide, Histogram, Line, Mark, Panel, Points
from gradstep.simulation import Network
from gradstep.sweeps import Result, Task
from gradstep.theory.spectrum import Outlier, Spectrum, feature_spectrum

__all__ = ["assemble", "counted", "measure", "tasks"]

Array = NDArray[np.float64]

_BINS = 60
_REGIMES = ("large", "between", "few")


def tasks(figure: Figure, preset: Mapping[str, Any]) -> list[Task]:
    """List one instance a point and seed."""
    settings = figure.settings
    shown = settings["histograms"]
    return [
        Task(
            f"{__name__}:measure",
            {**_parameters(figure, preset, x), "leading": settings["outliers"], "histogram": x in shown},
            seed,
        )
        for x in preset["points"]
        for seed in point_seeds(figure.name, "features", x, preset)
    ]


def _parameters(figure: Figure, preset: Mapping[str, Any], x: float) -> dict[str, Any]:
    settings = figure.settings
    base = {**settings["base"], **preset["sizes"], settings["vary"]: x}
    return {"constructor": settings["constructor"], "base": base}


def measure(parameters: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Measure the spectrum of one instance."""
    measured = Network(problem_of(parameters), seed).feature_spectrum(leading=parameters["leading"])
    vectors = measured.leading
    return {
        "outliers": [v.eigenvalue**0.5 for v in vectors],
        "sample": [v.sample_overlap.tolist() for v in vectors],
        "neuron": [v.neuron_overlap.tolist() for v in vectors],
        "eigenvalues": measured.eigenvalues.tolist() if parameters["histogram"] else [],
    }


def assemble(figure: Figure, preset: Mapping[str, Any], results: Sequence[Result]) -> Outcome:
    """Put predicted densities, outliers and overlaps beside the measured ones."""
    settings, points, seeds = figure.settings, preset["points"], int(preset["seeds"])
    by_point = {x: results[i * seeds : (i + 1) * seeds] for i, x in enumerate(points)}
    grid = np.linspace(min(points), max(points), int(preset["grid"])).tolist()
    spectra = {x: feature_spectrum(problem_of(_parameters(figure, preset, x))) for x in sorted({*points, *grid})}
    panels, checks = [], []
    for x in settings["histograms"]:
        if x in points:
            panels.append(_histogram(settings, spectra[x], by_point[x], x))
            checks += _placed(figure, preset, spectra[x], by_point[x], x)
    lost = max(abs(s.bulk.atom + s.bulk.weight.sum() - 1) for s in spectra.values())
    checks.append(Check.at_most("distance of the integral of the density from one", float(lost), 1e-6))
    if len(points) > 1:
        panels += [_places(figure, spectra, by_point), _overlaps(figure, spectra, by_point)]
    if preset.get("count", False):
        panel, check = counted(figure, preset, spectra)
        panels.append(panel)
        checks.append(check)
    comparisons = [c for x in points for c in _compare(settings, spectra[x], by_point[x], x)]
    return Outcome(tuple(panels), tuple(comparisons), tuple(checks), notes=settings.get("notes", ""))


def _name(outlier: Outlier) -> str:
    return f"h{outlier.sample_degree}(κ)"


def _resolved(spectrum: Spectrum, margin: float) -> list[Outlier]:
    edge = np.sqrt(spectrum.bulk.edge)
    return [o for o in spectrum.outliers if o.singular_value > (1 + margin) * edge]


def _compare(settings: Mapping[str, Any], spectrum: Spectrum, results: Sequence[Result], x: float) -> list[Comparison]:
    found = []
    for rank, outlier in enumerate(_resolved(spectrum, settings["resolved"])[: settings["outliers"]]):
        sample, neuron = outlier.sample_degree, outlier.neuron_degree
        pairs = [
            ("outlier", outlier.singular_value, [r["outliers"][rank] for r in results]),
            (f"overlap h{sample}(κ)", outlier.sample_overlap[sample], [r["sample"][rank][sample] for r in results]),
            (f"overlap p{neuron}(a)", outlier.neuron_overlap[neuron], [r["neuron"][rank][neuron] for r in results]),
        ]
        found += [
            compare(
                float(theory),
                values,
                curve=f"outlier {rank + 1}",
                place=x,
                quantity=quantity,
                allowance=settings.get("allowance", 0.0),
                reason=settings.get("reason", ""),
                sample=f"{x:g}",
            )
            for quantity, theory, values in pairs
        ]
    return found


def _nonzero(spectrum: Spectrum, results: Sequence[Result]) -> Array:
    """Return the eigenvalues of every instance without those that are zero because of the ranks."""
    values = np.array([r["eigenvalues"] for r in results])
    return np.asarray(values[:, round(spectrum.bulk.atom * values.shape[1]) :])


def _placed(
    figure: Figure, preset: Mapping[str, Any], spectrum: Spectrum, results: Sequence[Result], x: float
) -> list[Check]:
    settings, before = figure.settings, None
    if x in settings["moved"]:
        before = feature_spectrum(problem_of(_parameters(figure, preset, x)).replace(eta=0.0)).bulk
    label = f"{settings['vary_label']} = {x:g}"
    return placed(label, spectrum.bulk, before, _nonzero(spectrum, results), settings["displaced"])


def _histogram(settings: Mapping[str, Any], spectrum: Spectrum, results: Sequence[Result], x: float) -> Panel:
    law, eigenvalues = spectrum.bulk, _nonzero(spectrum, results)
    edges = np.linspace(0, 1.02 * np.sqrt(law.edge), _BINS + 1)
    counts = np.histogram(np.sqrt(eigenvalues), edges)[0]
    heights = (1 - law.atom) * counts / (eigenvalues.size * np.diff(edges))
    marks = []
    for rank, outlier in enumerate(spectrum.outliers[: settings["outliers"]]):
        regime = _REGIMES[rank]
        mean = float(np.mean([r["outliers"][rank] for r in results]))
        marks += [
            Mark(outlier.singular_value, _name(outlier), regime),
            Mark(mean, _name(outlier), regime, measured=True),
        ]
    title = f"{settings['vary_label']} = {x:g}"
    measured_bulk = Histogram(edges.tolist(), heights.tolist(), "network", "initial")
    lines = density(law, "bulk", "small")
    return Panel(title, "singular value of F / √n", "density", lines=lines, histograms=[measured_bulk], marks=marks)


def _places(figure: Figure, spectra: Mapping[float, Spectrum], by_point: Mapping[float, Sequence[Result]]) -> Panel:
    """Draw outliers against the varied parameter, with the edge of the bulk."""
    settings = figure.settings
    xs = list(spectra)
    edge = [float(np.sqrt(spectra[x].bulk.edge)) for x in xs]
    lines, points = [Line(xs, edge, "edge", "small", "dashed")], []
    for rank in range(settings["outliers"]):
        label, regime = f"outlier {rank + 1}", _REGIMES[rank]
        there = [x for x in xs if len(spectra[x].outliers) > rank]
        lines.append(Line(there, [spectra[x].outliers[rank].singular_value for x in there], label, regime))
        values = {x: [r["outliers"][rank] for r in results] for x, results in by_point.items()}
        points.append(Points.measured(list(values), list(values.values()), label, regime))
    return Panel(
        "outliers",
        settings["vary_label"],
        "singular value",
        lines=lines,
        points=points,
        guides=_windows(settings, edge),
    )


def _overlaps(figure: Figure, spectra: Mapping[float, Spectrum], by_point: Mapping[float, Sequence[Result]]) -> Panel:
    """Draw what the left vectors are."""
    settings = figure.settings
    lines, points = [], []
    for rank in range(settings["outliers"]):
        there = [x for x in spectra if len(spectra[x].outliers) > rank]
        if not there:
            continue
        main = spectra[there[-1]].outliers[rank].sample_degree
        for degree in range(5):
            curve = [float(spectra[x].outliers[rank].sample_overlap[degree]) for x in there]
            if max(curve) < 0.05:
                continue
            label, regime = f"{rank + 1}: h{degree}(κ)", _REGIMES[rank]
            lines.append(Line(there, curve, label, regime, "solid" if degree == main else "dashed"))
            values = {x: [r["sample"][rank][degree] for r in found] for x, found in by_point.items() if x >= there[0]}
            points.append(Points.measured(list(values), list(values.values()), label, regime))
    return Panel(
        "what the left vectors are",
        settings["vary_label"],
        "squared cosine",
        lines=lines,
        points=points,
        guides=_windows(settings, [0.0, 1.0]),
    )


def counted(figure: Figure, preset: Mapping[str, Any], spectra: Mapping[float, Spectrum]) -> tuple[Panel, Check]:
    """Draw how many outliers there are, at the size that is simulated and at one that stands for the limit."""
    settings, wanted = figure.settings, figure.settings["counted"]
    size = {"sizes": wanted["size"]}

    def outliers(x: float) -> int:
        return len(feature_spectrum(problem_of(_parameters(figure, size, x))).outliers)

    xs = list(spectra)
    simulated, far = (
        ", ".join(f"{k} = {v:g}" for k, v in s.items()).replace("e+", "e") for s in (preset["sizes"], wanted["size"])
    )
    lines = [
        _staircase(xs, [len(s.outliers) for s in spectra.values()], simulated, "small"),
        _staircase(xs, [outliers(x) for x in xs], far, "large"),
    ]
    panel = Panel(
        "predicted number of outliers",
        settings["vary_label"],
        "outliers",
        lines=lines,
        guides=_windows(settings, [max(wanted["expected"])]),
    )
    wrong = sum(outliers(x) != number for x, number in zip(wanted["at"], wanted["expected"], strict=True))
    return panel, Check.at_most(f"windows with another number of outliers than theirs, {far}", wrong, 0)


def _staircase(x: Sequence[float], counts: Sequence[int], label: str, regime: str) -> Line:
    """Draw whole numbers: each jump half way between the places that it separates."""
    ends = [x[0], *(middle for pair in pairwise(x) for middle in [sum(pair) / 2] * 2), x[-1]]
    return Line(ends, [float(count) for count in counts for _ in range(2)], label, regime)


def _windows(settings: Mapping[str, Any], heights: Sequence[float]) -> list[Guide]:
    return [Guide("", x=[place, place], y=[0.0, 10 * max(heights)]) for place in settings.get("windows", ())]
