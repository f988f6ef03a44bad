"""Singular values of the first layer before and after the step, its outlier, and how far the gradient is from rank one.

Settings
--------
constructor, base : `Problem` constructor and its fixed parameters.
vary, vary_label : the parameter of the step, and how it is written.
histograms : values of it that get a histogram each.
resolved : an outlier is compared when it is this far above the edge, relative to it.
displaced : largest number of singular values of an instance out of place in a histogram (see `displaced`).
moved : histograms in which the law before the step has to fail by the same measure.
gradient : optional; ``vary`` and its ``label`` for panels of the alignment with the teacher and of the distance from
    rank one, with the largest distance ``slope_tolerance`` of its exponent in n from -1/2 at the preset's ``samples``.
Presets hold the sizes (merged into `base`), `points`, `grid` (number of predicted values), and for the gradient
`ratios` and `samples`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradstep.gaussian import moments
from gradstep.papers.charts import Curve, charts, measured_points
from gradstep.papers.claims import power_law
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
from gradstep.papers.outcome import Check, Outcome
from gradstep.papers.panels import Line, Panel
from gradstep.papers.places import Place, Sample, on_curve
from gradstep.simulation import Network
from gradstep.theory.spectra.weight_spectrum import WeightSpectrum, weight_spectrum
from gradstep.theory.step.statistics import step_statistics

__all__ = ["measure", "measure_gradient", "outcome", "places"]

Array = NDArray[np.float64]
#: What the vectors of the outlier are compared with: quantity, how it is written, colour.
_OVERLAPS = (
    ("readout_overlap", "readout a", "between"),
    ("gradient_overlap", "gradient β", "large"),
    ("teacher_overlap", "teacher β*", "teacher"),
)


def places(figure: Figure, preset: Mapping[str, Any]) -> Iterator[Place]:
    """Instances for the spectra at every point, then for the gradient."""
    settings = figure.settings
    for x in preset["points"]:
        parameters = parameters_of(figure, preset, {settings["vary"]: x})
        yield Place(measure, {**parameters, "histogram": x in settings["histograms"]}, "weights", x)
    if "gradient" in settings:
        # The ratio of the gradient's samples changes, then their number.
        name, still = settings["gradient"]["vary"], {settings["vary"]: 0.0}
        for label, x, change in [
            *(("ratio", x, {**still, name: x}) for x in preset["ratios"]),
            *(("samples", n, {**still, "n": n}) for n in preset["samples"]),
        ]:
            drawn = ("gradient", sorted(change.items()))
            yield Place(measure_gradient, parameters_of(figure, preset, change), label, x, drawn)


def measure(parameters: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Measure the singular values of one instance."""
    measured = Network(problem_of(parameters), seed).weight_spectrum()
    top, shown = measured.leading[0], parameters["histogram"]
    return {
        "singular_value": top.singular_value,
        **{name: getattr(top, name) for name, _, _ in _OVERLAPS},
        "before": measured.before.tolist() if shown else [],
        "after": measured.after.tolist() if shown else [],
    }


def measure_gradient(parameters: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Measure the alignment of ``beta = X^T (y - f) / n`` and the distance of the gradient from ``c1 a beta^T``."""
    problem = problem_of(parameters)
    network = Network(problem, seed)
    rows, linear = network.gradient.rows, network.gradient.linear
    rank_one = moments(problem.activation).derivative_mean * np.outer(network.readout, linear)
    error = np.linalg.norm(rows - rank_one, 2) / np.linalg.norm(rows, 2)
    return {"alignment": float(linear[0] / np.linalg.norm(linear)), "relative_error": float(error)}


def outcome(figure: Figure, preset: Mapping[str, Any], samples: Sequence[Sample]) -> Outcome:
    """Put predicted laws, outliers and overlaps beside the measured ones."""
    settings = figure.settings
    weights = on_curve(samples, "weights")
    spectra = along_parameter(figure, preset, weight_spectrum)
    panels, checks, comparisons = [], [], []
    for sample in weights:
        spectrum = spectra[sample.x]
        if sample.x in settings["histograms"]:
            panels.append(_histogram(settings, spectrum, sample))
            checks += _placed(settings, spectrum, sample)
        outlier = spectrum.outlier
        if outlier and outlier.singular_value >= (1 + settings["resolved"]) * math.sqrt(spectrum.after.edge):
            for name in ("singular_value", *(name for name, _, _ in _OVERLAPS)):
                words = {"curve": "outlier", "quantity": name.replace("_", " ")}
                comparisons.append(sample.compare(getattr(outlier, name), name, **words))
    lost = max(abs(s.after.atom + s.after.weight.sum() - 1) for s in spectra.values())
    checks.append(Check.at_most("distance of the integral of the density from one", float(lost), 1e-6))
    panels += [_places(settings, spectra, weights), _vectors(settings, spectra, weights)]
    if "gradient" in settings:
        return Outcome(panels, comparisons, checks) + _gradient(settings["gradient"], samples)
    return Outcome(panels, comparisons, checks)


def _placed(settings: Mapping[str, Any], spectrum: WeightSpectrum, sample: Sample) -> list[Check]:
    label, bound = f"{settings['vary_label']} = {sample.x:g}", settings["displaced"]
    rejected = spectrum.before if sample.x in settings["moved"] else None
    return [
        *placed(f"before {label}", spectrum.before, None, sample["before"] ** 2, bound),
        *placed(f"after {label}", spectrum.after, rejected, sample["after"] ** 2, bound),
    ]


def _histogram(settings: Mapping[str, Any], spectrum: WeightSpectrum, sample: Sample) -> Panel:
    pairs = (("before", spectrum.before, "initial"), ("after", spectrum.after, "small"))
    edge = math.sqrt(max(law.edge for _, law, _ in pairs))
    outlier = spectrum.outlier
    return Panel(
        f"{settings['vary_label']} = {sample.x:g}",
        "singular value of W",
        "density",
        lines=[line for name, law, regime in pairs for line in density(law, name, regime, share=1 - law.atom)],
        histograms=[histogram(sample[name].ravel(), edge, "", regime) for name, _, regime in pairs],
        marks=outlier_marks(outlier.singular_value, sample["singular_value"], "outlier", "large") if outlier else [],
    )


def _places(settings: Mapping[str, Any], spectra: Mapping[float, WeightSpectrum], weights: Sequence[Sample]) -> Panel:
    """Draw the outlier against the step, with the edge of the bulk."""
    there = {x: s.outlier.singular_value for x, s in spectra.items() if s.outlier is not None}
    edge = [math.sqrt(s.after.edge) for s in spectra.values()]
    return Panel(
        "largest singular value",
        settings["vary_label"],
        "singular value",
        lines=[
            Line.of([*spectra], edge, "edge", "small", "dashed"),
            Line.of([*there], [*there.values()], "outlier", "large"),
        ],
        points=[measured_points(weights, "singular_value", "outlier", "large")],
    )


def _vectors(settings: Mapping[str, Any], spectra: Mapping[float, WeightSpectrum], weights: Sequence[Sample]) -> Panel:
    """Draw the overlaps of the leading singular vectors, zero below the threshold."""
    lines, points = [], []
    for name, label, regime in _OVERLAPS:
        curve = [0.0 if s.outlier is None else getattr(s.outlier, name) for s in spectra.values()]
        lines.append(Line.of([*spectra], curve, label, regime))
        points.append(measured_points(weights, name, label, regime))
    return Panel("its vectors", settings["vary_label"], "squared cosine", lines=lines, points=points)


def _gradient(settings: Mapping[str, Any], samples: Sequence[Sample]) -> Outcome:
    base = samples[0].place.parameters

    def limit(ratios: Array) -> dict[str, list[float]]:
        problems = [problem_of({**base, "base": {**base["base"], settings["vary"]: float(x)}}) for x in ratios]
        found = [step_statistics(p, *p.real_sizes()[:3]) for p in problems]
        return {"alignment": [step.whole_alignment for step in found]}

    ratios = on_curve(samples, "ratio")
    curve = Curve("⟨β, β*⟩ / |β|", "large", limit, ratios, name="gradient")
    axes = Panel("alignment of the gradient", settings["label"], "cosine with the teacher")
    grid = np.linspace(ratios[0].x, ratios[-1].x, 41)
    found = charts([curve], grid, {"alignment": axes}, {"alignment": "alignment"})

    numbers = on_curve(samples, "samples")
    n = [sample.x for sample in numbers]
    slope, fitted = power_law(n, [sample["relative_error"].mean() for sample in numbers])
    name = f"n^{slope:.2f}"
    distance = Panel(
        "distance from c1 a βᵀ",
        "samples n",
        "||G - c1 a βᵀ|| / ||G||",
        "log",
        "log",
        lines=[Line.of(n, fitted, name, "small")],
        points=[measured_points(numbers, "relative_error", name, "small")],
    )
    far, bound = abs(slope + 0.5), float(settings["slope_tolerance"])
    check = Check.at_most("distance of the exponent of ||G - c1 a beta^T|| / ||G|| in n from -1/2", far, bound)
    return found + Outcome([distance], checks=[check])
