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

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradstep.papers.experiments.spectra import (
    along_parameter,
    density,
    histogram,
    outlier_marks,
    parameters_of,
    placed,
    problem_of,
)
from gradstep.papers.figure import Figure
from gradstep.papers.outcome import Check, Judged, Outcome
from gradstep.papers.panels import Guide, Line, Panel, Points
from gradstep.papers.places import Place, Sample
from gradstep.simulation import Network
from gradstep.theory.spectra.feature_spectrum import Outlier, Spectrum, feature_spectrum

__all__ = ["counted", "measure", "outcome", "places"]

Array = NDArray[np.float64]
_REGIMES = ("large", "between", "few")


def places(figure: Figure, preset: Mapping[str, Any]) -> Iterator[Place]:
    """Instances at every point."""
    settings = figure.settings
    for x in preset["points"]:
        parameters = parameters_of(figure, preset, {settings["vary"]: x})
        shown = {"leading": settings["outliers"], "histogram": x in settings["histograms"]}
        yield Place(measure, {**parameters, **shown}, "features", x)


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


def outcome(figure: Figure, preset: Mapping[str, Any], samples: Sequence[Sample]) -> Outcome:
    """Put predicted densities, outliers and overlaps beside the measured ones."""
    settings = figure.settings
    spectra = along_parameter(figure, preset, feature_spectrum)
    panels, checks = [], []
    for sample in samples:
        if sample.x in settings["histograms"]:
            panels.append(_histogram(settings, spectra[sample.x], sample))
            checks += _placed(figure, preset, spectra[sample.x], sample)
    lost = max(abs(s.bulk.atom + s.bulk.weight.sum() - 1) for s in spectra.values())
    checks.append(Check.at_most("distance of the integral of the density from one", float(lost), 1e-6))
    if len(samples) > 1:
        panels += [_outliers(settings, spectra, samples), _overlaps(settings, spectra, samples)]
    if preset.get("count", False):
        panel, check = counted(figure, preset, spectra)
        panels.append(panel)
        checks.append(check)
    comparisons = [c for sample in samples for c in _compare(settings, spectra[sample.x], sample)]
    return Outcome(panels, comparisons, checks)


def _resolved(spectrum: Spectrum, margin: float) -> list[Outlier]:
    edge = np.sqrt(spectrum.bulk.edge)
    return [o for o in spectrum.outliers if o.singular_value > (1 + margin) * edge]


def _compare(settings: Mapping[str, Any], spectrum: Spectrum, measured: Sample) -> list[Judged]:
    known = {"allowance": settings.get("allowance", 0.0), "reason": settings.get("reason", "")}
    found = []
    for rank, outlier in enumerate(_resolved(spectrum, settings["resolved"])[: settings["outliers"]]):
        sample, neuron, curve = outlier.sample_degree, outlier.neuron_degree, f"outlier {rank + 1}"
        pairs = [
            ("outlier", outlier.singular_value, measured["outliers"][:, rank]),
            (f"overlap h{sample}(κ)", outlier.sample_overlap[sample], measured["sample"][:, rank, sample]),
            (f"overlap p{neuron}(a)", outlier.neuron_overlap[neuron], measured["neuron"][:, rank, neuron]),
        ]
        found += [measured.compare(theory, v, curve=curve, quantity=name, **known) for name, theory, v in pairs]
    return found


def _nonzero(spectrum: Spectrum, sample: Sample) -> Array:
    """Return the eigenvalues of every instance without those that are zero because of the ranks."""
    values = sample["eigenvalues"]
    return values[:, round(spectrum.bulk.atom * values.shape[1]) :]


def _placed(figure: Figure, preset: Mapping[str, Any], spectrum: Spectrum, sample: Sample) -> list[Check]:
    settings, before = figure.settings, None
    if sample.x in settings["moved"]:
        problem = problem_of(parameters_of(figure, preset, {settings["vary"]: sample.x}))
        before = feature_spectrum(problem.replace(eta=0.0)).bulk
    label = f"{settings['vary_label']} = {sample.x:g}"
    return placed(label, spectrum.bulk, before, _nonzero(spectrum, sample), settings["displaced"])


def _histogram(settings: Mapping[str, Any], spectrum: Spectrum, sample: Sample) -> Panel:
    law, singular = spectrum.bulk, np.sqrt(_nonzero(spectrum, sample))
    leading = zip(spectrum.outliers[: settings["outliers"]], sample["outliers"].T, _REGIMES, strict=False)
    return Panel(
        f"{settings['vary_label']} = {sample.x:g}",
        "singular value of F / √n",
        "density",
        lines=density(law, "bulk", "small"),
        histograms=[histogram(singular, float(np.sqrt(law.edge)), "network", "initial", 1 - law.atom)],
        marks=[
            mark
            for outlier, measured, regime in leading
            for mark in outlier_marks(outlier.singular_value, measured, f"h{outlier.sample_degree}(κ)", regime)
        ],
    )


def _outliers(settings: Mapping[str, Any], spectra: Mapping[float, Spectrum], samples: Sequence[Sample]) -> Panel:
    """Draw outliers against the varied parameter, with the edge of the bulk."""
    edge = [float(np.sqrt(s.bulk.edge)) for s in spectra.values()]
    x, lines, points = [sample.x for sample in samples], [Line.of([*spectra], edge, "edge", "small", "dashed")], []
    for rank in range(settings["outliers"]):
        label, regime = f"outlier {rank + 1}", _REGIMES[rank]
        there = {x: s.outliers[rank].singular_value for x, s in spectra.items() if len(s.outliers) > rank}
        lines.append(Line.of([*there], [*there.values()], label, regime))
        points.append(Points.measured(x, [sample["outliers"][:, rank] for sample in samples], label, regime))
    guides = _windows(settings, edge)
    return Panel("outliers", settings["vary_label"], "singular value", lines=lines, points=points, guides=guides)


def _overlaps(settings: Mapping[str, Any], spectra: Mapping[float, Spectrum], samples: Sequence[Sample]) -> Panel:
    """Draw what the left vectors are."""
    lines, points = [], []
    for rank in range(settings["outliers"]):
        there = {x: s.outliers[rank] for x, s in spectra.items() if len(s.outliers) > rank}
        if not there:
            continue
        first, main = min(there), there[max(there)].sample_degree
        seen = [sample for sample in samples if sample.x >= first]
        for degree in range(5):
            curve = [float(outlier.sample_overlap[degree]) for outlier in there.values()]
            if max(curve) < 0.05:
                continue
            label, regime = f"{rank + 1}: h{degree}(κ)", _REGIMES[rank]
            lines.append(Line.of([*there], curve, label, regime, "solid" if degree == main else "dashed"))
            values = [sample["sample"][:, rank, degree] for sample in seen]
            points.append(Points.measured([sample.x for sample in seen], values, label, regime))
    guides, title = _windows(settings, [0.0, 1.0]), "what the left vectors are"
    return Panel(title, settings["vary_label"], "squared cosine", lines=lines, points=points, guides=guides)


def counted(figure: Figure, preset: Mapping[str, Any], spectra: Mapping[float, Spectrum]) -> tuple[Panel, Check]:
    """Draw how many outliers there are, at the size that is simulated and at one that stands for the limit."""
    settings, wanted = figure.settings, figure.settings["counted"]
    size = {"sizes": wanted["size"]}

    def outliers(x: float) -> int:
        return len(feature_spectrum(problem_of(parameters_of(figure, size, {settings["vary"]: x}))).outliers)

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
