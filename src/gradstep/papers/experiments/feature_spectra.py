"""Singular values of the features: predicted density and outliers, measured histogram and outliers, and their vectors.

Settings, beside those of `gradstep.papers.experiments.spectra.Spectra`
-----------------------------------------------------------------------
outliers : how many outliers to follow.
windows : optional, places of dotted vertical lines on the horizontal axis.
counted : optional; predicted numbers of outliers where the other parameters are ``size``, with the numbers ``expected``
    at the places ``at``.
Presets have ``count``, whether outliers are counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from gradstep.panels import Guide, Line, Panel, Points
from gradstep.papers.experiment import Array
from gradstep.papers.experiments.spectra import Spectra, integrals, placed
from gradstep.papers.outcome import Check, Judged, Outcome
from gradstep.papers.places import Place, Sample, Settings
from gradstep.problem import Problem
from gradstep.simulation import Network
from gradstep.spectra import density, histogram, outlier_marks
from gradstep.theory.spectra.feature_spectrum import Spectrum, feature_spectrum

_REGIMES = ("large", "between", "few")


def measure(parameters: Settings, seed: int) -> dict[str, Any]:
    """Measure the spectrum of one instance."""
    settings = dict(parameters)
    leading, shown = settings.pop("leading"), settings.pop("histogram")
    measured = Network(Problem.from_dict(settings), seed).feature_spectrum(leading=leading)
    vectors = measured.leading
    return {
        "outliers": [v.eigenvalue**0.5 for v in vectors],
        "sample": [v.sample_overlap.tolist() for v in vectors],
        "neuron": [v.neuron_overlap.tolist() for v in vectors],
        "eigenvalues": measured.eigenvalues.tolist() if shown else [],
    }


class FeatureSpectra(Spectra):
    """Predicted densities, outliers and overlaps beside the measured ones."""

    def places(self) -> Iterator[Place]:
        """Yield instances at every point."""
        for x in self.preset["points"]:
            shown = {"leading": self.settings["outliers"], "histogram": x in self.settings["histograms"]}
            yield Place(measure, {**self.parameters(x), **shown}, "features", x)

    def outcome(self, samples: Sequence[Sample]) -> Outcome:
        """Draw histograms, outliers and overlaps, and judge them."""
        spectra = self.along(feature_spectrum)
        found = Outcome(comparisons=[c for sample in samples for c in self._compare(spectra[sample.x], sample)])
        for sample in samples:
            if sample.x in self.settings["histograms"]:
                panel, checks = self._histogram(spectra[sample.x], sample), self._placed(spectra[sample.x], sample)
                found += Outcome([panel], checks=checks)
        found += Outcome(checks=[integrals(s.bulk for s in spectra.values())])
        if len(samples) > 1:
            found += Outcome([self._outliers(spectra, samples), self._overlaps(spectra, samples)])
        return found + self.counted(spectra) if self.preset.get("count", False) else found

    def _compare(self, spectrum: Spectrum, measured: Sample) -> Iterator[Judged]:
        edge = (1 + self.settings["resolved"]) * np.sqrt(spectrum.bulk.edge)
        resolved = [outlier for outlier in spectrum.outliers if outlier.singular_value > edge]
        for rank, outlier in enumerate(resolved[: self.settings["outliers"]]):
            sample, neuron = outlier.sample_degree, outlier.neuron_degree
            for name, theory, values in (
                ("outlier", outlier.singular_value, measured["outliers"][:, rank]),
                (f"overlap {_hermite(sample)}", outlier.sample_overlap[sample], measured["sample"][:, rank, sample]),
                (f"overlap p{neuron}(a)", outlier.neuron_overlap[neuron], measured["neuron"][:, rank, neuron]),
            ):
                yield measured.compare(theory, values, curve=f"outlier {rank + 1}", quantity=name)

    def _placed(self, spectrum: Spectrum, sample: Sample) -> list[Check]:
        before = None
        if sample.x in self.settings["moved"]:
            before = feature_spectrum(self.problem(sample.x).replace(eta=0.0)).bulk
        values = _nonzero(spectrum, sample)
        return placed(self.called(sample.x), spectrum.bulk, before, values, self.settings["displaced"])

    def _histogram(self, spectrum: Spectrum, sample: Sample) -> Panel:
        law, singular = spectrum.bulk, np.sqrt(_nonzero(spectrum, sample))
        leading = zip(spectrum.outliers[: self.settings["outliers"]], sample["outliers"].T, _REGIMES, strict=False)
        return Panel(
            self.called(sample.x),
            "singular value of F / √n",
            "density",
            lines=density(law, "bulk", "small"),
            histograms=[histogram(singular, law, "network", "initial", 1 - law.atom)],
            marks=[
                mark
                for outlier, measured, regime in leading
                for mark in outlier_marks(outlier.singular_value, measured, _hermite(outlier.sample_degree), regime)
            ],
        )

    def _outliers(self, spectra: Mapping[float, Spectrum], samples: Sequence[Sample]) -> Panel:
        """Draw outliers against the varied parameter, with the edge of the bulk."""
        edge = [float(np.sqrt(s.bulk.edge)) for s in spectra.values()]
        x, lines, points = [sample.x for sample in samples], [Line.of([*spectra], edge, "edge", "small", "dashed")], []
        for rank in range(self.settings["outliers"]):
            label, regime = f"outlier {rank + 1}", _REGIMES[rank]
            there = {x: s.outliers[rank].singular_value for x, s in spectra.items() if len(s.outliers) > rank}
            lines.append(Line.of([*there], [*there.values()], label, regime))
            points.append(Points.measured(x, [sample["outliers"][:, rank] for sample in samples], label, regime))
        axis, guides = self.axis, self._windows(edge)
        return Panel("outliers", axis, "singular value", lines=lines, points=points, guides=guides)

    def _overlaps(self, spectra: Mapping[float, Spectrum], samples: Sequence[Sample]) -> Panel:
        """Draw the overlaps of the left vectors."""
        lines, points = [], []
        for rank in range(self.settings["outliers"]):
            there = {x: s.outliers[rank] for x, s in spectra.items() if len(s.outliers) > rank}
            if not there:
                continue
            first, main = min(there), there[max(there)].sample_degree
            seen = [sample for sample in samples if sample.x >= first]
            for degree in range(5):
                curve = [float(outlier.sample_overlap[degree]) for outlier in there.values()]
                if max(curve) < 0.05:
                    continue
                label, regime = f"outlier {rank + 1}, {_hermite(degree)}", _REGIMES[rank]
                lines.append(Line.of([*there], curve, label, regime, "solid" if degree == main else "dashed"))
                values = [sample["sample"][:, rank, degree] for sample in seen]
                points.append(Points.measured([sample.x for sample in seen], values, label, regime))
        title, axis, guides = "their left vectors", self.axis, self._windows([0.0, 1.0])
        return Panel(title, axis, "squared cosine", lines=lines, points=points, guides=guides)

    def counted(self, spectra: Mapping[float, Spectrum]) -> Outcome:
        """Draw the number of outliers, at the size that is simulated and at one large enough to represent the limit."""
        wanted, xs = self.settings["counted"], list(spectra)

        def outliers(x: float) -> int:
            return len(feature_spectrum(self.problem(x, **wanted["size"])).outliers)

        simulated, far = (
            ", ".join(f"{k} = {v:g}" for k, v in s.items()).replace("e+", "e")
            for s in (self.preset["sizes"], wanted["size"])
        )
        lines = [
            _staircase(xs, [len(s.outliers) for s in spectra.values()], simulated, "small"),
            _staircase(xs, [outliers(x) for x in xs], far, "large"),
        ]
        axis, guides = self.axis, self._windows([max(wanted["expected"])])
        panel = Panel("predicted number of outliers", axis, "outliers", lines=lines, guides=guides)
        wrong = sum(outliers(x) != number for x, number in zip(wanted["at"], wanted["expected"], strict=True))
        check = Check.at_most(f"in {{}} windows the number of outliers is not the predicted one, {far}", wrong, 0)
        return Outcome([panel], checks=[check])

    def _windows(self, heights: Sequence[float]) -> list[Guide]:
        top = 10 * max(heights)
        return [Guide("", x=[place, place], y=[0.0, top]) for place in self.settings.get("windows", ())]


def _hermite(degree: int) -> str:
    """Return the name of a Hermite polynomial of the projection on the spike."""
    return f"h{chr(ord('₀') + degree)}(κ)"


def _nonzero(spectrum: Spectrum, sample: Sample) -> Array:
    """Return the eigenvalues of every instance, except for those that are zero because of the rank."""
    values = sample["eigenvalues"]
    return values[:, round(spectrum.bulk.atom * values.shape[1]) :]


def _staircase(x: Sequence[float], counts: Sequence[int], label: str, regime: str) -> Line:
    """Draw whole numbers: each jump half way between the places that it separates."""
    ends = [x[0], *(middle for pair in pairwise(x) for middle in [sum(pair) / 2] * 2), x[-1]]
    return Line(ends, [float(count) for count in counts for _ in range(2)], label, regime)
