r"""Spectrum of the first layer after a step of any size: a deformed Marchenko-Pastur bulk and its outlier.

The rows become :math:`w_i=(1+a_ikPB)w_i(0)+\Delta_i` with matrices P and B of the step's samples, plus the spike. The
equations of this bulk are those of `gradstep.theory.spectra.weight_equations`. The spike :math:`\sigma\hat av^\top` is
added to it. The network's own output multiplies the weights along :math:`\hat a` by :math:`1-\varepsilon` (Ba et al.
2022 leave it out). If that output is of order one, the spike contains what is left of these weights
(`gradstep.theory.step.own_output`). An outlier is a zero of

.. math:: \Delta(z)=zh\,(\sigma^2r_v+\varepsilon^2k_2)-(1-\varepsilon k_1)^2 ,

with resolvents of the bulk W, :math:`h=\hat a^\top(WW^\top-z)^{-1}\hat a` and :math:`r_v=v^\top Rv`,
:math:`R=(W^\top W-z)^{-1}`, and :math:`k_1=\hat a^\top WRW_0^\top\hat a`, :math:`k_2=\hat a^\top W_0RW_0^\top\hat a`.
It may also be an eigenvalue that the bulk has by itself along the samples' projections.

This project; for a small step it is the spiked Marchenko-Pastur law of Ba et al. 2022.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtri

from gradstep.errors import within_range
from gradstep.gaussian import gaussian_rule, moments
from gradstep.problem import Problem
from gradstep.summary import Summarised, Summary
from gradstep.text_table import Table, number
from gradstep.theory.equivalent.tables import sizes_of, without_fit
from gradstep.theory.models import RowLaw
from gradstep.theory.spectra.feature_spectrum import REMEMBERED, check_finite
from gradstep.theory.spectra.spike import SampleNodes, Spike, sample_nodes, spike_of
from gradstep.theory.spectra.stieltjes import (
    COARSE,
    EDGE_MARGIN,
    FINE,
    Law,
    advance,
    around_nearest,
    find_law,
    first_law,
    lightest_band,
    start,
)
from gradstep.theory.spectra.weight_equations import WeightEquations
from gradstep.theory.step.correlated_samples import ISOTROPIC
from gradstep.theory.step.damped_samples import DampedSamples
from gradstep.theory.step.row_fluctuations import derivative_slope
from gradstep.theory.step.statistics import StepStatistics, step_statistics
from gradstep.theory.step.weighted_samples import Residual
from gradstep.threads import one_thread

__all__ = ["WeightOutlier", "WeightSpectrum", "weight_spectrum", "whole_spectrum"]

Array = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]

#: Where to differentiate, off the real axis.
_BESIDE = 1e-7
#: Shares of rows and samples that are averaged, one after the other, where the tail of their law splits into bands of
#: single ones.
_TAILS = (2e-3, 5e-3, 1.2e-2)
#: Share of a variance that is rounding.
_ROUNDING = 1e-12
#: Points at which an outlier is looked for if there is another eigenvalue below it, and how near it may be to one.
_SCAN, _NEAR = 40, 1e-9


@dataclass(frozen=True)
class WeightOutlier:
    """The largest singular value above the bulk, and its vectors.

    Attributes
    ----------
    singular_value : float
    gradient_overlap, teacher_overlap : float
        Squared cosines of its vector in input space with ``X^T (y - f)`` and with the teacher's direction.
    readout_overlap : float
        Squared cosine of its vector over the neurons with the readout at initialisation.
    """

    singular_value: float
    gradient_overlap: float
    teacher_overlap: float
    readout_overlap: float


@dataclass(frozen=True, repr=False)
class WeightSpectrum(Summarised):
    """Spectrum of ``W^T W``, a d x d matrix, before and after the step; `outlier` is None if all is in the bulk."""

    before: Law
    after: Law
    outlier: WeightOutlier | None

    def summary(self) -> Summary:
        """Return the summary that is printed."""
        rows = [
            [f"edge of the bulk {when} the step", number(math.sqrt(law.edge))]
            for when, law in (("before", self.before), ("after", self.after))
        ]
        rows.append(["outlier", "none" if self.outlier is None else number(self.outlier.singular_value)])
        return Summary("Spectrum of the first layer", table=Table(["singular value", "theory"], rows))


@one_thread()
@within_range("the spectrum")
def weight_spectrum(problem: Problem, *, rows: RowLaw = "network") -> WeightSpectrum:
    """Predict the singular values of the first layer before and after the step.

    Rows are in the coordinates of the inputs: a neuron computes ``<w, x>``, and before the step rows are isotropic,
    whatever the inputs are. In `WeightOutlier` the teacher's direction is ``beta*`` over its length.

    Docs, "Spectra", equation (Z7).

    Parameters
    ----------
    problem : Problem
        With finite `d` and width; the sizes of the fit do not matter.
    rows : {"network", "isotropic"}
        Whether the rest of the gradient has the covariance of its samples or is isotropic (spiked random features of
        Cui et al. 2024).

    Returns
    -------
    WeightSpectrum

    Raises
    ------
    InvalidInput
        For infinite sizes, correlated inputs or a damped step with ``rows="isotropic"``, or an initial output that
        diverges with the width (``output_scale="1/sqrt(N)"``, activation and readout both with a mean).
    NotConverged
        If the density does not integrate to one.

    Notes
    -----
    Exact in the proportional limit, for activations, readouts and steps of all kinds, but for ``rows="isotropic"`` and
    ``output_scale="1/sqrt(N)"``. Of eigenvalues outside of the bulk only the largest is predicted.
    """
    check_finite(problem, rows)
    return whole_spectrum(without_fit(problem), rows)


@lru_cache(maxsize=REMEMBERED)
def whole_spectrum(problem: Problem, rows: RowLaw) -> WeightSpectrum:
    """Return the spectrum of a problem of which the fit is left out: that of all places of a curve over it."""
    d, width, n_step, *_ = sizes_of(problem)
    step = step_statistics(problem, d, width, n_step, own_output=rows == "network")
    before = _before(width / d)
    # Without a step, or labels to follow.
    if step.spike == step.bulk == step.curvature == 0:
        return WeightSpectrum(before, before, None)
    equations, spike = _layer(problem, step, rows)
    equations, after = _law(equations, d)
    return WeightSpectrum(before, after, _outlier(equations, spike, after.edge))


@lru_cache(maxsize=16)
def _before(aspect: float) -> Law:
    """Return the law before the step, that of Marchenko and Pastur."""
    one = np.ones(1)
    nodes = SampleNodes(one, one[None], one, one, one, one)
    return find_law(WeightEquations(one, np.ones((2, 1)), nodes, ISOTROPIC, aspect, 0.0, 0.0, 0.0))


def _readout(problem: Problem) -> tuple[Array, Array]:
    """Return weights and values of the readout, of a Gaussian one those of as many draws as there are neurons.

    What is beyond the median of the largest square is reflected there, and the mean square is one again.
    """
    if problem.readout.kind != "gaussian":
        return np.asarray(problem.readout.weights), np.asarray(problem.readout.values)
    readout, weight = gaussian_rule(resolution=1.0, order=8, half_range=6.5)
    weight, square = weight / weight.sum(), readout**2
    largest = float(ndtri(math.log(2) / 2 / problem.real_sizes().width)) ** 2
    square = np.clip(2 * largest - square, 0, square)
    return weight, np.copysign(np.sqrt(square / (weight @ square)), readout)


def _layer(problem: Problem, step: StepStatistics, rows: RowLaw) -> tuple[WeightEquations, Spike]:
    """Return the equations of the first layer after the step, and its spike."""
    d, width, n_step, *_ = sizes_of(problem)
    known, nodes, ratio = step.correlated, sample_nodes(problem, step), d / n_step
    if isinstance(known, DampedSamples):
        # The nodes of the samples' law that suit a spectrum, for all averages over it.
        law = Residual(nodes.projection[0], nodes.residual, nodes.weight)
        own = known.own and known.own._replace(mean=nodes.projection[-1], variance=float(nodes.spread[-1]))
        known = replace(known, plain=replace(known.plain, law=law, own=own), turn=None)
        nodes = nodes._replace(
            projection=np.stack([known.law.projection, *nodes.projection[1:]]),
            residual=known.law.residual,
            summed=known.sources.weight,
        )
    if known is not None:
        ratio = known.ratio
    spike = spike_of(problem, replace(step, correlated=known), width)
    if rows == "isotropic":
        ratio, spike = 0.0, spike.apart
        nodes = _apart(nodes, len(spike.part))
    bulk = step.bulk / (1.0 if known is None else known.bulk_trace)
    share = _linear_share(problem)
    linear = step.curvature if share > 0 else 0.0
    weight, readout = _readout(problem)
    equations = WeightEquations(
        weight,
        readout ** (np.arange(3) if linear else np.array([0, 2]))[:, None],
        nodes,
        ISOTROPIC if known is None else known.spectrum,
        width / d,
        ratio,
        linear,
        # What is linear is noise to a rest that knows nothing of the samples.
        bulk * (1 - share) if ratio > 0 else bulk,
        known if isinstance(known, DampedSamples) else None,
        spike.returned,
    )
    return equations, spike


def _linear_share(problem: Problem) -> float:
    """Return the share of a derivative's variance that is linear, without rounding at its ends."""
    activation = problem.activation
    variance = moments(activation).derivative_variance
    if activation.parity == "odd" or variance == 0:
        return 0.0
    share = derivative_slope(activation) ** 2 / variance
    return 0.0 if share < _ROUNDING else 1.0 if share > 1 - _ROUNDING else share


def _apart(nodes: SampleNodes, fixed: int) -> SampleNodes:
    """Return a law with the same mean and square of the residual, whose projections are independent of it."""
    mean = float(nodes.weight @ nodes.residual)
    residual = mean + math.sqrt(max(nodes.square - mean**2, 0.0)) * np.array([-1.0, 1.0])
    return SampleNodes(
        np.full(2, 0.5), np.zeros((fixed, 2)), np.ones(fixed), residual, residual**2 / nodes.square, 0 * residual
    )


def _law(equations: WeightEquations, d: float) -> tuple[WeightEquations, Law]:
    """Return the law, and the equations that it was found with."""

    def rounded() -> Iterator[tuple[WeightEquations, Sequence[float], float]]:
        yield equations, COARSE, lightest_band(d)
        for share in _TAILS:
            yield equations.averaged(share), FINE, 0.0 if share == _TAILS[-1] else lightest_band(d)

    return first_law(rounded())


class _Resolvent(NamedTuple):
    """Parts of the resolvent of the layer with its spike."""

    h: complex  # The bulk's resolvent along the readout.
    added: complex  # That along all that the step adds, with its strength: the bracket in equation (Z7).
    delta: complex  # ``Delta`` of equation (Z7), which vanishes at an outlier.
    between: ComplexArray  # The bulk's resolvent between the vectors of the spike, shape (3, 3).
    bulk: complex  # It vanishes at an eigenvalue that the bulk has by itself outside of its bands.

    @classmethod
    def of(cls, equations: WeightEquations, spike: Spike, z: complex, state: ComplexArray) -> _Resolvent:
        """Return it from a solution of the equations.

        Docs, "Spectra", equation (Z7).
        """
        h, k1, k2 = equations.readout_resolvent(z, state)
        between, bulk = equations.spike_resolvent(z, state, spike)
        added = spike.strength * between[0, 0] + spike.shrink**2 * k2
        return cls(h, added, z * h * added - (1 - spike.shrink * k1) ** 2, between, bulk)

    @property
    def whole(self) -> float:
        """A number that changes its sign at each eigenvalue outside of the bands, seen from above."""
        return (self.delta * self.bulk).real

    def overlaps(self, z: complex, spike: Spike, initial_square: float) -> tuple[float, float, float]:
        """Return the squared cosines with the gradient, the teacher and the readout of an eigenvalue next to z.

        They are the residues there.
        """
        gradient, teacher = (
            self.between[k, k] - spike.strength * self.between[0, k] ** 2 * z * self.h / self.delta for k in (2, 1)
        )
        square = spike.strength + spike.shrink**2 * initial_square
        if spike.direction is spike.gradient and square > 0:
            # The gradient is all that the step adds, with what is taken back.
            gradient = -self.added / self.delta / square
        found = gradient, teacher, -self.h / self.delta
        one, two, three = (max(float(z.imag * part.imag), 0.0) for part in found)
        return one, two, three


def _outlier(equations: WeightEquations, spike: Spike, edge: float) -> WeightOutlier | None:
    """Return the largest outlier above the edge of the bulk."""
    # Every eigenvalue is below the square of the sum of the norms.
    far = start(equations, complex(16 * (equations.top + spike.strength)))
    known = [far]

    def at(x: float) -> _Resolvent:
        return _Resolvent.of(equations, spike, complex(x), around_nearest(equations, known, x).state)

    bracket = _bracket(at, math.log(edge * (1 + EDGE_MARGIN)), math.log(far.z.real))
    if bracket is None:
        return None
    z = math.exp(brentq(lambda log_x: at(math.exp(log_x)).whole, *bracket, xtol=1e-13, rtol=1e-13))
    here, beside = around_nearest(equations, known, z), complex(z, _BESIDE * z)
    found = _Resolvent.of(equations, spike, beside, advance(equations, here, beside).state)
    return WeightOutlier(math.sqrt(z), *found.overlaps(beside, spike, equations.initial_square))


def _bracket(at: Callable[[float], _Resolvent], low: float, high: float) -> tuple[float, float] | None:
    """Return logarithms of places around the largest outlier, None if there is none."""
    first = at(math.exp(high))

    def crossed(found: _Resolvent) -> tuple[bool, bool]:
        return found.whole * first.whole <= 0, found.bulk.real * first.bulk.real <= 0

    if crossed(at(math.exp(low)))[0]:
        return low, high
    # An even number of outliers, if the bulk has one of its own: this one is between two of the whole layer.
    above = high
    for x in np.linspace(high, low, _SCAN)[1:].tolist():
        whole, bulk = crossed(at(math.exp(x)))
        if whole:
            return x, high
        if bulk:
            own = brentq(lambda log_x: at(math.exp(log_x)).bulk.real, x, above, xtol=1e-13, rtol=1e-13)
            # It is one of the layer's own if the spike is orthogonal to it.
            return next(((end, high) for end in (own - _NEAR, own + _NEAR) if crossed(at(math.exp(end)))[0]), None)
        above = x
    return None
