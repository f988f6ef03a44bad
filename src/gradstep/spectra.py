"""Spectra of the features or the weights: theory over the real network, and their parts for a figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gradstep.checks import one_of
from gradstep.overlay import Overlay
from gradstep.panels import Histogram, Line, Mark
from gradstep.plain import plain
from gradstep.problem import CONVENTION, Problem
from gradstep.simulation import Network
from gradstep.simulation.arguments import chosen_seeds, finite_sizes
from gradstep.summary import Summarised, Summary
from gradstep.text_table import Table, measured, number
from gradstep.theory.caveats import Caveat, spectrum_caveats
from gradstep.theory.spectra.feature_spectrum import Spectrum, feature_spectrum
from gradstep.theory.spectra.stieltjes import Law
from gradstep.theory.spectra.weight_spectrum import WeightSpectrum, weight_spectrum

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["SpectrumOverlay", "density", "histogram", "outlier_marks", "spectrum"]

#: Most bars of a histogram; values of each, about and at least.
_BINS, _FEWEST = 50, 8
#: The spectra by name, each with the matrix whose singular values are shown.
_MATRIX = {"features": "F/√n", "weights": "W"}
_REGIMES = ("large", "between", "few")
#: The line that explains the labels of outliers.
_DEGREE = (
    "h1, h2, ...: the Hermite polynomial of the projection on the spike to which an outlier's vector is closest; "
    "h0: the constant"
)

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class SpectrumOverlay(Summarised):
    """Singular values of the features or the weights after the step: their law, outliers, and measured ones.

    Attributes
    ----------
    problem : Problem
    of : {"features", "weights"}
        The matrix: features ``F / sqrt(n)`` of the fit's samples, or the first layer ``W``.
    theory : Spectrum or WeightSpectrum
    before : Law
        Law of the eigenvalues without the step.
    seeds : tuple of int
        Seeds of the networks that were measured.
    measured : ndarray, shape (seeds, values)
        Their singular values, increasing, without those that are zero because of the rank.
    """

    problem: Problem
    of: str
    theory: Spectrum | WeightSpectrum
    before: Law
    seeds: tuple[int, ...]
    measured: Array

    @property
    def bulk(self) -> Law:
        """Law of the eigenvalues after the step."""
        return self.theory.bulk if isinstance(self.theory, Spectrum) else self.theory.after

    @property
    def outliers(self) -> tuple[tuple[float, str], ...]:
        """Singular values that theory has above the bulk, the largest first, with what their vectors are closest to."""
        if isinstance(self.theory, Spectrum):
            named = ((x, x.closest if x.of_inputs else f"{x.closest}(κ)") for x in self.theory.outliers)
            return tuple((each.singular_value, name) for each, name in named)
        found = self.theory.outlier
        return () if found is None else ((found.singular_value, "outlier"),)

    @property
    def caveats(self) -> tuple[Caveat, ...]:
        """Effects that are left out and may move the outliers of the features, the largest first."""
        return spectrum_caveats(self.problem) if self.of == "features" else ()

    @property
    def overlay(self) -> Overlay:
        """Outliers in theory over the largest singular values of the networks, the largest first."""
        theory = np.array([value for value, _ in self.outliers])
        if not len(self.seeds):
            nan = np.full(len(theory), np.nan)
            return Overlay(theory, nan, nan, np.zeros(len(theory), dtype=int))
        return Overlay.of(theory, self.measured[:, ::-1][:, : len(theory)])

    def plot(self, *, dark: bool = False, ax: Any = None) -> Figure:
        """Draw the bulk before and after the step, the outliers, and the histogram of the measured values.

        Parameters
        ----------
        dark : bool, optional
            Light ink for a dark page.
        ax : matplotlib.axes.Axes, optional
            Where to draw, without the small print; by default in a new figure.

        Returns
        -------
        matplotlib.figure.Figure
        """
        from gradstep.drawing import draw
        from gradstep.panels import Panel
        from gradstep.picture import offer

        share = 1 - self.bulk.atom
        lines = [*density(self.before, "before the step", "initial", 1 - self.before.atom)] if self._moved else []
        lines += density(self.bulk, "bulk" if not self._moved else "after the step", "small", share)
        histograms, marks = [], []
        for rank, (value, label) in enumerate(self.outliers):
            regime = _REGIMES[rank % len(_REGIMES)]
            if len(self.seeds):
                marks += outlier_marks(value, self.measured[:, -1 - rank], label, regime)
            else:
                marks.append(Mark(value, label, regime))
        if len(self.seeds):
            histograms.append(histogram(self.measured.ravel(), self.bulk, "networks", "initial"))
        count = ""
        if len(self.seeds):
            what = "bars and triangles: {}; dashed: outliers" if self.outliers else "bars: {}"
            count = "\n" + what.format(self._networks)
        if self.outliers and self.of == "features":
            count += f"\n{_DEGREE}"
        panel = Panel(
            "",
            f"singular value of {_MATRIX[self.of]}",
            "density",
            lines=lines,
            histograms=histograms,
            marks=marks,
        )
        return offer(draw([panel], note=f"{self.problem}{count}", dark=dark, ax=ax))

    @property
    def _moved(self) -> bool:
        """Whether the step changes the bulk visibly."""
        return bool(abs(self.before.edge - self.bulk.edge) > 1e-3 * self.before.edge)

    @property
    def _networks(self) -> str:
        """How many networks are measured, in words."""
        return f"{len(self.seeds)} networks" if len(self.seeds) > 1 else "1 network"

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, numbers and strings, fit for JSON: the law at its nodes, outliers, measured values."""
        bulk = self.bulk
        found: dict[str, Any] = plain(
            {
                "convention": CONVENTION,
                "problem": self.problem.to_dict(),
                "of": self.of,
                "bulk": {
                    "edges": [[band.lower, band.upper] for band in bulk.bands],
                    "atom": bulk.atom,
                    "eigenvalue": bulk.eigenvalue,
                    "density": bulk.density,
                },
                "outliers": [{"singular_value": value, "label": label} for value, label in self.outliers],
                "caveats": [asdict(caveat) for caveat in self.caveats],
                "seeds": list(self.seeds),
                "measured": self.measured,
            }
        )
        return found

    def table(self) -> Table:
        """Return a row of text for the edge of the bulk and for each outlier."""
        overlay = self.overlay
        rows = [["edge of the bulk", number(float(np.sqrt(self.bulk.edge))), "", "", ""]]
        for rank, (value, label) in enumerate(self.outliers):
            name = f"outlier {rank + 1}" + (f", along {label.removesuffix('(κ)')}" if self.of == "features" else "")
            cells = ["", "", ""]
            if len(self.seeds):
                mean, error = measured(float(overlay.mean[rank]), float(overlay.standard_error[rank]))
                z = float(overlay.z[rank])  # one network has no standard error
                cells = [mean, error, f"{z:+.2f}" if np.isfinite(z) else number(z)]
            rows.append([name, number(value), *cells])
        header = ["singular value", "theory", "network", "standard error", "z"]
        return Table(header, rows) if len(self.seeds) else Table(header[:2], [row[:2] for row in rows])

    def summary(self) -> Summary:
        """Return the summary that is printed."""
        networks = f", theory over {self._networks}" if len(self.seeds) else ""
        notes = [] if self.outliers else ["no outlier: the step leaves no singular value above the bulk"]
        if self.outliers and self.of == "features":
            notes.append(_DEGREE)
        notes += [f"caveat: {caveat}" for caveat in self.caveats]
        return Summary(f"Spectrum of the {self.of}{networks}", [str(self.problem)], self.table(), notes)


def spectrum(problem: Problem, seeds: int | Sequence[int] = 0, *, of: str = "features") -> SpectrumOverlay:
    """Predict the singular values of the features or of the weights after the step, and measure them if asked to.

    Parameters
    ----------
    problem : Problem
        With finite sizes.
    seeds : int or sequence of int, optional
        How many networks to measure, or their seeds; none if 0.
    of : {"features", "weights"}, optional
        Features ``F / sqrt(n)`` of the fit's samples, or the first layer ``W``.

    Returns
    -------
    SpectrumOverlay
        To print and to plot.

    Raises
    ------
    InvalidInput
        On sizes that are not finite, and as `gradstep.theory.spectra.feature_spectrum.feature_spectrum` and
        `gradstep.theory.spectra.weight_spectrum.weight_spectrum`.
    NotConverged
        As these.

    Examples
    --------
    >>> import gradstep as gs
    >>> problem = gs.Problem(
    ...     activation="tanh", teacher="sin", d=64, width="1.5d", n_step="4d", n="3d", eta="N^0.5", ridge="d/64"
    ... )
    >>> len(gs.spectrum(problem, of="weights").outliers)
    1
    """
    one_of("of", of, tuple(_MATRIX))
    finite_sizes(problem)
    chosen = chosen_seeds(seeds, 0)
    theory: Spectrum | WeightSpectrum
    if of == "features":
        theory = feature_spectrum(problem)
        bare = problem.eta.coefficient == 0
        before = theory.bulk if bare else feature_spectrum(problem.replace(eta=0.0)).bulk
    else:
        theory = weight_spectrum(problem)
        before = theory.before
    values = np.array([_measured(Network(problem, seed), of) for seed in chosen]) if chosen else np.empty((0, 0))
    return SpectrumOverlay(problem, of, theory, before, tuple(chosen), values)


def _measured(network: Network, of: str) -> Array:
    """Return the singular values of one network, without those that are zero because of the rank."""
    if of == "weights":
        return network.weight_spectrum().after
    values = network.feature_spectrum().eigenvalues
    sizes = network.problem.sizes
    return np.sqrt(values[max(sizes.width - sizes.n, 0) :])


def density(law: Law, label: str, regime: str, share: float = 1.0) -> list[Line]:
    """Return the density of the singular values, with one line for each band; the first line has the label.

    The law is that of the eigenvalues. The density is normalised to `share` where zeros are not counted.
    """
    lines = []
    for place, band in enumerate(law.bands):
        inside = 2 * np.sqrt(band.eigenvalue) * band.density / share
        lower = float(inside[0]) if band.lower == 0 else 0.0  # at zero the density is finite
        s = np.sqrt([band.lower, *band.eigenvalue, band.upper])
        lines.append(Line(s.tolist(), [lower, *inside.tolist(), 0.0], "" if place else label, regime))
    return lines


def histogram(values: Array, law: Law, label: str, regime: str, share: float = 1.0) -> Histogram:
    """Return the density of singular values up to the edge of a law of eigenvalues, normalised to `share`."""
    bins = int(np.clip(values.size // _FEWEST, 10, _BINS))
    edges = np.linspace(0, 1.02 * np.sqrt(law.edge), bins + 1)
    heights = share * np.histogram(values, edges)[0] / (values.size * np.diff(edges))
    return Histogram(edges.tolist(), heights.tolist(), label, regime)


def outlier_marks(predicted: float, measured: Array, label: str, regime: str) -> list[Mark]:
    """Mark a predicted place, and the mean of those measured."""
    return [Mark(predicted, label, regime), Mark(float(measured.mean()), label, regime, measured=True)]
