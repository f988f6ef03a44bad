"""Singular values of the first layer before and after the step, its outlier, and how far the gradient is from rank one.

Settings, beside those of `gradstep.papers.experiments.spectra.Spectra`
-----------------------------------------------------------------------
gradient : optional; ``vary`` and its ``label`` for panels of the alignment with the teacher and of the distance from
    rank one, with the largest distance ``slope_tolerance`` of its exponent in n from -1/2 at the preset's ``samples``.
Presets hold ``ratios`` and ``samples`` for the gradient.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gradstep.gaussian import moments
from gradstep.panels import Line, Panel
from gradstep.papers.charts import Curve, charts, grid_of, measured_points
from gradstep.papers.claims import power_law
from gradstep.papers.experiment import Array
from gradstep.papers.experiments.spectra import Spectra, integrals, placed
from gradstep.papers.outcome import Check, Judged, Outcome
from gradstep.papers.places import Place, Sample, Settings, on_curve
from gradstep.problem import Problem
from gradstep.simulation import Network
from gradstep.spectra import density, histogram, outlier_marks
from gradstep.text_table import in_words
from gradstep.theory.spectra.weight_spectrum import WeightSpectrum, weight_spectrum
from gradstep.theory.step.statistics import step_statistics

#: Overlaps of the outlier's vectors: quantity, how it is written, colour.
_OVERLAPS = (
    ("readout_overlap", "readout a", "between"),
    ("gradient_overlap", "gradient β", "large"),
    ("teacher_overlap", "teacher β*", "teacher"),
)


def measure(parameters: Settings, seed: int) -> dict[str, Any]:
    """Measure the singular values of one instance."""
    settings = dict(parameters)
    shown = settings.pop("histogram")
    measured = Network(Problem.from_dict(settings), seed).weight_spectrum()
    top = measured.leading[0]
    return {
        "singular_value": top.singular_value,
        **{name: getattr(top, name) for name, _, _ in _OVERLAPS},
        "before": measured.before.tolist() if shown else [],
        "after": measured.after.tolist() if shown else [],
    }


def measure_gradient(parameters: Settings, seed: int) -> dict[str, Any]:
    """Measure the alignment of ``beta = X^T (y - f) / n`` and the distance of the gradient from ``c1 a beta^T``."""
    problem = Problem.from_dict(dict(parameters))
    network = Network(problem, seed)
    rows, linear = network.gradient.rows, network.gradient.linear
    rank_one = moments(problem.activation).derivative_mean * np.outer(network.readout, linear)
    error = np.linalg.norm(rows - rank_one, 2) / np.linalg.norm(rows, 2)
    return {"alignment": float(linear[0] / np.linalg.norm(linear)), "relative_error": float(error)}


class WeightSpectra(Spectra):
    """Predicted laws, outliers and overlaps beside the measured ones."""

    def places(self) -> Iterator[Place]:
        """Yield instances for the spectra at every point, then for the gradient."""
        for x in self.preset["points"]:
            yield Place(measure, {**self.parameters(x), "histogram": x in self.settings["histograms"]}, "weights", x)
        if "gradient" in self.settings:
            # The ratio of the gradient's samples changes, then their number.
            step, name = self.settings["vary"], self.settings["gradient"]["vary"]
            for label, changed, values in (("ratio", name, "ratios"), ("samples", "n", "samples")):
                for x in self.preset[values]:
                    drawn = ("gradient", sorted({step: 0.0, changed: x}.items()))
                    yield Place(measure_gradient, self.parameters(0.0, **{changed: x}), label, x, drawn)

    def outcome(self, samples: Sequence[Sample]) -> Outcome:
        """Draw histograms, the outlier and its vectors, and judge them."""
        weights, spectra = on_curve(samples, "weights"), self.along(weight_spectrum)
        found = Outcome(comparisons=[c for sample in weights for c in self._compare(spectra[sample.x], sample)])
        for sample in weights:
            if sample.x in self.settings["histograms"]:
                panel, checks = self._histogram(spectra[sample.x], sample), self._placed(spectra[sample.x], sample)
                found += Outcome([panel], checks=checks)
        panels = [self._places(spectra, weights), self._vectors(spectra, weights)]
        found += Outcome(panels, checks=[integrals(s.after for s in spectra.values())])
        return found + self._gradient(samples) if "gradient" in self.settings else found

    def _compare(self, spectrum: WeightSpectrum, sample: Sample) -> Iterator[Judged]:
        outlier = spectrum.outlier
        if outlier and outlier.singular_value >= (1 + self.settings["resolved"]) * math.sqrt(spectrum.after.edge):
            for name in ("singular_value", *(name for name, _, _ in _OVERLAPS)):
                words = {"curve": "outlier", "quantity": in_words(name)}
                yield sample.compare(getattr(outlier, name), name, **words)

    def _placed(self, spectrum: WeightSpectrum, sample: Sample) -> list[Check]:
        label, bound = self.called(sample.x), self.settings["displaced"]
        rejected = spectrum.before if sample.x in self.settings["moved"] else None
        return [
            *placed(f"before {label}", spectrum.before, None, sample["before"] ** 2, bound),
            *placed(f"after {label}", spectrum.after, rejected, sample["after"] ** 2, bound),
        ]

    def _histogram(self, spectrum: WeightSpectrum, sample: Sample) -> Panel:
        pairs = (("before", spectrum.before, "initial"), ("after", spectrum.after, "small"))
        widest, outlier = max((law for _, law, _ in pairs), key=lambda law: law.edge), spectrum.outlier
        measured = sample["singular_value"]
        return Panel(
            self.called(sample.x),
            "singular value of W",
            "density",
            lines=[line for name, law, regime in pairs for line in density(law, name, regime, share=1 - law.atom)],
            histograms=[histogram(sample[name].ravel(), widest, "", regime) for name, _, regime in pairs],
            marks=outlier_marks(outlier.singular_value, measured, "outlier", "large") if outlier else [],
        )

    def _places(self, spectra: Mapping[float, WeightSpectrum], weights: Sequence[Sample]) -> Panel:
        """Draw the outlier against the step, with the edge of the bulk."""
        there = {x: s.outlier.singular_value for x, s in spectra.items() if s.outlier is not None}
        edge = [math.sqrt(s.after.edge) for s in spectra.values()]
        lines = [
            Line.of([*spectra], edge, "edge", "small", "dashed"),
            Line.of([*there], [*there.values()], "outlier", "large"),
        ]
        points, axis = [measured_points(weights, "singular_value", "outlier", "large")], self.axis
        return Panel("largest singular value", axis, "singular value", lines=lines, points=points)

    def _vectors(self, spectra: Mapping[float, WeightSpectrum], weights: Sequence[Sample]) -> Panel:
        """Draw the overlaps of the leading singular vectors, zero below the threshold."""
        lines, points = [], []
        for name, label, regime in _OVERLAPS:
            curve = [0.0 if s.outlier is None else getattr(s.outlier, name) for s in spectra.values()]
            lines.append(Line.of([*spectra], curve, label, regime))
            points.append(measured_points(weights, name, label, regime))
        return Panel("its vectors", self.axis, "squared cosine", lines=lines, points=points)

    def _gradient(self, samples: Sequence[Sample]) -> Outcome:
        settings, ratios, numbers = self.settings["gradient"], on_curve(samples, "ratio"), on_curve(samples, "samples")

        def limit(x: Array) -> dict[str, list[float]]:
            problems = [self.problem(0.0, **{settings["vary"]: float(ratio)}) for ratio in x]
            return {"alignment": [step_statistics(p, *p.real_sizes()[:3]).whole_alignment for p in problems]}

        curve = Curve("⟨β, β*⟩ / |β|", "large", limit, ratios, name="gradient")
        axes = Panel("alignment of the gradient", settings["label"], "cosine with the teacher")
        grid = grid_of({"from": ratios[0].x, "to": ratios[-1].x, "count": 41}, self.preset)
        found = charts([curve], grid, {"alignment": axes}, {"alignment": "alignment"})
        n = [sample.x for sample in numbers]
        slope, fitted = power_law(n, [sample["relative_error"].mean() for sample in numbers])
        label = f"n^{slope:.2f}"
        points, text = [measured_points(numbers, "relative_error", label, "small")], "||G - c1 a βᵀ|| / ||G||"
        lines = [Line.of(n, fitted, label, "small")]
        distance = Panel("distance from c1 a βᵀ", "samples n", text, "log", "log", lines, points)
        far, bound = abs(slope + 0.5), float(settings["slope_tolerance"])
        check = Check.at_most("the exponent of ||G - c1 a beta^T|| / ||G|| in n is {} away from -1/2", far, bound)
        return found + Outcome([distance], checks=[check])
