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
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gradstep.gaussian import moments
from gradstep.papers.experiments.spectra import density, placed, problem_of
from gradstep.papers.figure import Figure, point_seeds
from gradstep.papers.outcome import Check, Outcome, compare
from gradstep.papers.panels import Histogram, Line, Mark, Panel, Points
from gradstep.simulation import Network
from gradstep.sweeps import Result, Task
from gradstep.theory.step import step_statistics
from gradstep.theory.weights_spectrum import WeightSpectrum, weight_spectrum

__all__ = ["assemble", "measure", "measure_gradient", "tasks"]

_BINS = 50
#: What the vectors of the outlier are compared with: quantity, how it is written, colour.
_OVERLAPS = (
    ("readout_overlap", "readout a", "between"),
    ("gradient_overlap", "gradient β", "large"),
    ("teacher_overlap", "teacher β*", "teacher"),
)


def tasks(figure: Figure, preset: Mapping[str, Any]) -> list[Task]:
    """List one instance a point and seed: first for the spectra, then for the gradient."""
    settings = figure.settings
    spectra = [
        Task(
            f"{__name__}:measure",
            {**_parameters(figure, preset, {settings["vary"]: x}), "histogram": x in settings["histograms"]},
            seed,
        )
        for x in preset["points"]
        for seed in point_seeds(figure.name, "weights", x, preset)
    ]
    gradients = [
        Task(f"{__name__}:measure_gradient", _parameters(figure, preset, change), seed)
        for change in _gradient_points(figure, preset)
        for seed in point_seeds(figure.name, "gradient", sorted(change.items()), preset)
    ]
    return spectra + gradients


def _parameters(figure: Figure, preset: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    settings = figure.settings
    return {"constructor": settings["constructor"], "base": {**settings["base"], **preset["sizes"], **change}}


def _gradient_points(figure: Figure, preset: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what changes from point to point: the ratio of the gradient's samples, then their number."""
    if "gradient" not in figure.settings:
        return []
    name, still = figure.settings["gradient"]["vary"], {figure.settings["vary"]: 0.0}
    return [{**still, name: x} for x in preset["ratios"]] + [{**still, "n": n} for n in preset["samples"]]


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


def assemble(figure: Figure, preset: Mapping[str, Any], results: Sequence[Result]) -> Outcome:
    """Put predicted laws, outliers and overlaps beside the measured ones."""
    settings, points, seeds = figure.settings, preset["points"], int(preset["seeds"])
    by_point = {x: results[i * seeds : (i + 1) * seeds] for i, x in enumerate(points)}
    grid = np.linspace(min(points), max(points), int(preset["grid"])).tolist()
    spectra = {
        x: weight_spectrum(problem_of(_parameters(figure, preset, {settings["vary"]: x})))
        for x in sorted({*points, *grid})
    }
    panels, checks = [], []
    for x in settings["histograms"]:
        if x in points:
            panels.append(_histogram(settings, spectra[x], by_point[x], x))
            checks += _placed(settings, spectra[x], by_point[x], x)
    lost = max(abs(s.after.atom + s.after.weight.sum() - 1) for s in spectra.values())
    checks.append(Check.at_most("distance of the integral of the density from one", float(lost), 1e-6))
    panels += [_places(settings, spectra, by_point), _vectors(settings, spectra, by_point)]
    comparisons = []
    for x, found in by_point.items():
        outlier = spectra[x].outlier
        if outlier is None or outlier.singular_value < (1 + settings["resolved"]) * math.sqrt(spectra[x].after.edge):
            continue
        for name in ("singular_value", *(name for name, _, _ in _OVERLAPS)):
            values, quantity = [r[name] for r in found], name.replace("_", " ")
            theory = getattr(outlier, name)
            comparisons.append(
                compare(theory, values, curve="outlier", place=x, quantity=quantity, sample=f"outlier {x:g}")
            )
    if "gradient" in settings:
        count = len(points) * seeds
        more, alignments, check = _gradient(figure, preset, results[count:])
        panels += more
        comparisons += alignments
        checks.append(check)
    return Outcome(tuple(panels), tuple(comparisons), tuple(checks), notes=settings.get("notes", ""))


def _placed(settings: Mapping[str, Any], spectrum: WeightSpectrum, results: Sequence[Result], x: float) -> list[Check]:
    label, bound = f"{settings['vary_label']} = {x:g}", settings["displaced"]
    before, after = (np.array([r[name] for r in results]) ** 2 for name in ("before", "after"))
    rejected = spectrum.before if x in settings["moved"] else None
    return [
        *placed(f"before {label}", spectrum.before, None, before, bound),
        *placed(f"after {label}", spectrum.after, rejected, after, bound),
    ]


def _histogram(settings: Mapping[str, Any], spectrum: WeightSpectrum, results: Sequence[Result], x: float) -> Panel:
    pairs = (("before", spectrum.before, "initial"), ("after", spectrum.after, "small"))
    edges = np.linspace(0, 1.02 * math.sqrt(max(law.edge for _, law, _ in pairs)), _BINS + 1)
    histograms: list[Histogram] = []
    lines: list[Line] = []
    for name, law, regime in pairs:
        values = np.concatenate([r[name] for r in results])
        heights = np.histogram(values, edges)[0] / (len(values) * np.diff(edges))
        histograms.append(Histogram(edges.tolist(), heights.tolist(), "", regime))
        lines += density(law, name, regime, share=1 - law.atom)
    marks = []
    if spectrum.outlier is not None:
        mean = float(np.mean([r["singular_value"] for r in results]))
        marks = [
            Mark(spectrum.outlier.singular_value, "outlier", "large"),
            Mark(mean, "outlier", "large", measured=True),
        ]
    title = f"{settings['vary_label']} = {x:g}"
    return Panel(title, "singular value of W", "density", lines=lines, histograms=histograms, marks=marks)


def _places(
    settings: Mapping[str, Any],
    spectra: Mapping[float, WeightSpectrum],
    by_point: Mapping[float, Sequence[Result]],
) -> Panel:
    """Draw the outlier against the step, with the edge of the bulk."""
    there = {x: s.outlier.singular_value for x, s in spectra.items() if s.outlier is not None}
    edge = [math.sqrt(s.after.edge) for s in spectra.values()]
    lines = [
        Line(list(spectra), edge, "edge", "small", "dashed"),
        Line(list(there), list(there.values()), "outlier", "large"),
    ]
    values = {x: [r["singular_value"] for r in found] for x, found in by_point.items()}
    return Panel(
        "largest singular value",
        settings["vary_label"],
        "singular value",
        lines=lines,
        points=[Points.measured(list(values), list(values.values()), "outlier", "large")],
    )


def _vectors(
    settings: Mapping[str, Any], spectra: Mapping[float, WeightSpectrum], by_point: Mapping[float, Sequence[Result]]
) -> Panel:
    """Draw the overlaps of the leading singular vectors, zero below the threshold."""
    lines, points = [], []
    for name, label, regime in _OVERLAPS:
        curve = [0.0 if s.outlier is None else getattr(s.outlier, name) for s in spectra.values()]
        lines.append(Line(list(spectra), curve, label, regime))
        values = [[r[name] for r in found] for found in by_point.values()]
        points.append(Points.measured(list(by_point), values, label, regime))
    return Panel("its vectors", settings["vary_label"], "squared cosine", lines=lines, points=points)


def _gradient(
    figure: Figure, preset: Mapping[str, Any], results: Sequence[Result]
) -> tuple[list[Panel], list[Any], Check]:
    settings, seeds = figure.settings["gradient"], int(preset["seeds"])
    ratios, samples = preset["ratios"], preset["samples"]
    changes = _gradient_points(figure, preset)
    groups = [results[i * seeds : (i + 1) * seeds] for i in range(len(changes))]
    limits = {}
    for x, change in zip(ratios, changes, strict=False):
        problem = problem_of(_parameters(figure, preset, change))
        d, width, n_step = (float(size) for size in (problem.d, problem.width, problem.n_step))  # type: ignore[arg-type]
        limits[x] = step_statistics(problem, d, width, n_step).whole_alignment
    aligned = {x: [r["alignment"] for r in group] for x, group in zip(ratios, groups, strict=False)}
    comparisons = [
        compare(limits[x], values, curve="gradient", place=x, quantity="alignment") for x, values in aligned.items()
    ]
    label = "⟨β, β*⟩ / |β|"
    alignment = Panel(
        "alignment of the gradient",
        settings["label"],
        "cosine with the teacher",
        lines=[Line(list(limits), list(limits.values()), label, "large")],
        points=[Points.measured(ratios, list(aligned.values()), label, "large")],
    )
    errors = {n: [r["relative_error"] for r in group] for n, group in zip(samples, groups[len(ratios) :], strict=True)}
    means = [float(np.mean(values)) for values in errors.values()]
    slope, intercept = np.polyfit(np.log(samples), np.log(means), 1)
    fitted = np.exp(intercept) * np.array(samples, dtype=float) ** slope
    name = f"n^{slope:.2f}"
    distance = Panel(
        "distance from c1 a βᵀ",
        "samples n",
        "||G - c1 a βᵀ|| / ||G||",
        "log",
        "log",
        lines=[Line(samples, fitted.tolist(), name, "small")],
        points=[Points.measured(samples, list(errors.values()), name, "small")],
    )
    far, bound = float(abs(slope + 0.5)), float(settings["slope_tolerance"])
    check = Check.at_most("distance of the exponent of ||G - c1 a beta^T|| / ||G|| in n from -1/2", far, bound)
    return [alignment, distance], comparisons, check
