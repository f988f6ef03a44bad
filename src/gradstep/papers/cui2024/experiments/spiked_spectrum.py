"""Spectrum of the features of drawn spiked random features: the law (190) and its outlier (191).

Settings, beside those of `gradstep.papers.experiment.Curves`
-------------------------------------------------------------
base : activation, teacher, c, gamma, alpha, beta.
histograms : spike strengths that get a histogram each; the first eigenvalue is left out where there is a spike.
distance : bound on the Kolmogorov distance between the eigenvalues and the law.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from gradstep.panels import Guide, Line, Panel, Points
from gradstep.papers.charts import Curve
from gradstep.papers.cui2024.drawn import feature_eigenvalues
from gradstep.papers.cui2024.experiments.measured import layer_of
from gradstep.papers.cui2024.spectrum import outlier, spectral_law
from gradstep.papers.experiment import Array, Curves
from gradstep.papers.experiments.spectra import integrals
from gradstep.papers.outcome import Check, Outcome
from gradstep.papers.places import Sample, Settings
from gradstep.spectra import density, histogram
from gradstep.theory.spectra.stieltjes import Law


def measure(parameters: Settings, seed: int) -> dict[str, Any]:
    """Return the largest eigenvalue of the features of one drawn model, and the others."""
    d = int(parameters["d"])
    n = round(float(parameters["alpha"]) * d)
    eigenvalues = feature_eigenvalues(layer_of(parameters, d, seed), parameters["activation"], n=n, seed=seed)
    # Without a spike all of them belong to the bulk.
    bulk = eigenvalues if parameters["r"] == 0 else eigenvalues[:-1]
    return {"largest": float(eigenvalues[-1]), "bulk": bulk.tolist() if parameters["histogram"] else []}


class SpikedSpectrum(Curves):
    """The law under the histograms, and the outlier under the largest eigenvalues."""

    measure = staticmethod(measure)
    names: ClassVar = {"largest": "eigenvalue"}

    def parameters(self, curve: Settings, x: Any = None) -> dict[str, Any]:
        """Return the parameters of a model."""
        return {**super().parameters(curve, x), "histogram": x in self.settings["histograms"]}

    @property
    def _model(self) -> dict[str, Any]:
        base = self.settings["base"]
        return {"sigma": base["activation"], "sigma_star": base["teacher"], "c": base["c"], "gamma": base["gamma"]}

    def _law(self, r: float) -> Law:
        base = self.settings["base"]
        return spectral_law(**self._model, r=float(r), alpha=base["alpha"], beta=base["beta"])

    def theory(self, curve: Settings, x: Array, published: bool = False) -> dict[str, Array]:
        """Return the outlier, of leading order as published, or with the terms of order one."""
        base, d = self.settings["base"], int(self.preset["d"])
        sizes: dict[str, Any] = {"p": round(float(base["beta"]) * d), "n": round(float(base["alpha"]) * d), "d": d}
        found = [outlier(**self._model, r=float(r), published=published, **sizes) for r in x]
        return {"largest": np.array(found, dtype=np.float64)}

    def chart(self, curve: Settings, samples: Sequence[Sample]) -> Curve:
        """Return the outlier where there is a spike."""
        return super().chart(curve, [sample for sample in samples if sample.x > 0])

    def panels(self, title: str) -> dict[str, Panel]:
        """Return the axes of the outlier, with its published form and the edge."""
        (curve,) = self.curves
        edges = self.grid[::2]  # a whole law a place, and hardly bent
        lines = [
            Line.of(
                self.grid,
                self.theory(curve, self.grid, published=True)["largest"],
                "leading order, (191)",
                "few",
                "dashed",
            ),
            Line.of(edges, [self._law(r).edge for r in edges], "edge", "small", "dashed"),
        ]
        return {"largest": Panel("the outlier", "spike strength r", "eigenvalue", y_scale="log", lines=lines)}

    def outcome(self, samples: Sequence[Sample]) -> Outcome:
        """Draw the histograms, the outlier, and the outlier over what is published."""
        shown, (curve,) = self.settings["histograms"], self.curves
        found = sum((self._histogram(sample) for sample in samples if sample.x in shown), Outcome())
        outliers = super().outcome(samples)
        (axes,), strongest = outliers.panels, outliers.comparisons[-1]
        published = {x: float(self.theory(curve, np.array([x]), published=True)["largest"][0]) for x in axes.lines[0].x}
        gap = abs(published[float(strongest.place)] / strongest.mean - 1)
        check = Check.at_most("(191) differs from the outlier of the strongest spike by {} of it", gap, 0.05)
        line, points = axes.lines[0], axes.points[0]
        scaled = Panel(
            "the outlier over its leading order",
            "spike strength r",
            "outlier / (191)",
            lines=[replace(line, y=[y / published[x] for x, y in zip(line.x, line.y, strict=True)])],
            points=[_over(points, published)],
            guides=[Guide("(191)", height=1.0)],
        )
        return found + outliers + Outcome([scaled], checks=[check])

    def _histogram(self, sample: Sample) -> Outcome:
        r, law = sample.x, self._law(sample.x)
        pooled = np.sort(sample["bulk"], axis=None)
        ranks = (np.arange(pooled.size) + 0.5) / pooled.size
        distance = float(np.abs(law.cumulative(pooled) - ranks).max())
        check = Check.at_most(
            f"r = {r:g}: the Kolmogorov distance to (190) is {{}}", distance, self.settings["distance"]
        )
        bars, lines = histogram(np.sqrt(pooled), law, "drawn", "initial"), density(law, "law (190)", "small")
        panel = Panel(f"r = {r:g}", "singular value", "density", lines=lines, histograms=[bars])
        return Outcome([panel], checks=[check, integrals([law], f", r = {r:g}")])


def _over(points: Points, published: Mapping[float, float]) -> Points:
    scale = np.array([published[x] for x in points.x])
    return replace(points, mean=(points.mean / scale).tolist(), error=(np.asarray(points.error) / scale).tolist())
