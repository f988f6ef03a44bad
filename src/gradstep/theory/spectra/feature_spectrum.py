r"""Spectrum of the feature covariance :math:`F^\top F/n` after a step of any size: bulk, outliers, and their vectors.

The equations are those of `gradstep.theory.spectra.feature_equations` where all directions off the spike are alike, and
of `gradstep.theory.spectra.feature_classes` where they differ: after a step on samples, and with correlated inputs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from gradstep.checks import one_of
from gradstep.errors import InvalidInput, NotConverged, within_range
from gradstep.gaussian.hermite import hermite_values
from gradstep.problem import Problem, Readout, check_problem
from gradstep.readout import readout_polynomials
from gradstep.summary import Summarised, Summary
from gradstep.text_table import Table, number
from gradstep.theory.arguments import checked_refine
from gradstep.theory.equivalent.tables import SteppedNetwork, stepped_networks
from gradstep.theory.models import RowLaw
from gradstep.theory.neurons.groups import Groups
from gradstep.theory.spectra.feature_classes import ClassEquations, without_leading
from gradstep.theory.spectra.feature_equations import FeatureEquations
from gradstep.theory.spectra.stieltjes import (
    COARSE,
    EDGE_MARGIN,
    FINE,
    Law,
    Point,
    around,
    around_nearest,
    averaged_tail,
    first_law,
    lightest_band,
    mean_law,
    start,
)
from gradstep.theory.step.statistics import StepStatistics
from gradstep.theory.together import result_of
from gradstep.threads import one_thread

__all__ = ["REMEMBERED", "Outlier", "Spectrum", "check_finite", "feature_spectrum", "outliers_above", "whole_spectrum"]

Array = NDArray[np.float64]
_Kind = TypeVar("_Kind", bound=FeatureEquations)

#: Spectra that are kept: places of a curve may share theirs, and the one without a step.
REMEMBERED = 32
#: Degrees of the functions of kappa and of the readout that outliers are compared with.
_DEGREE = 4
#: Shares of the neurons, and of the inputs far out along the spike, whose bulk is averaged, one pair after the other,
#: where the tails of their laws split into bands of single ones.
_TAILS = ((5e-3, 1e-3), (1e-2, 4e-3), (2e-2, 1.2e-2))
#: Share of the features' mean square below which typical inputs and neurons have none of it that counts.
_TYPICAL = 0.01
#: How many nodes there are for a Gaussian readout where directions differ, over those of a prediction: edges change by
#: a thousandth.
_COARSER = 0.7
#: Where outliers are searched from, over the bound that they do not exceed.
_FAR = 1e3


@dataclass(frozen=True)
class Outlier:
    r"""An eigenvalue above the bulk, and what its vectors are.

    Attributes
    ----------
    eigenvalue : float
        Of :math:`F^\top F/n`.
    sample_overlap : ndarray, shape (5,)
        Squared cosines of the left singular vector of F with :math:`h_p(\kappa)/\sqrt n`, p = 0..4, orthonormal
        Hermite polynomials of the inputs' projections on the spike direction.
    neuron_overlap : ndarray
        Squared cosines of the right singular vector with :math:`p_q(\tilde a)/\sqrt N`, where :math:`p_q` are the
        orthonormal polynomials of the readout's law (Hermite for a Gaussian readout; for a vocabulary as many as it has
        values).
    teacher_overlap : ndarray, shape (5,)
        Squared cosines of the left singular vector with :math:`h_p(\langle x,\beta_*\rangle)/\sqrt n`.
    linear_overlap : float
        Squared cosine of the left singular vector with the nearest linear function of the inputs that is uncorrelated
        with their projections on the spike direction; zero where all directions off the spike are alike. It is large
        for the eigenvalue of a single leading direction of correlated inputs.
    """

    eigenvalue: float
    sample_overlap: Array
    neuron_overlap: Array
    teacher_overlap: Array
    linear_overlap: float = 0.0

    @property
    def singular_value(self) -> float:
        """Singular value of ``F / sqrt(n)``."""
        return float(np.sqrt(self.eigenvalue))

    @property
    def sample_degree(self) -> int:
        """Degree of the Hermite polynomial of kappa that the left vector is closest to."""
        return int(np.argmax(self.sample_overlap))

    @property
    def of_inputs(self) -> bool:
        """Whether the left vector is closer to a linear function of the inputs off the spike than to one of kappa."""
        return self.linear_overlap > float(self.sample_overlap.max())

    @property
    def closest(self) -> str:
        """Name of the function closest to the left vector: ``"h1"`` of kappa, or ``"a direction of the inputs"``."""
        return "a direction of the inputs" if self.of_inputs else f"h{self.sample_degree}"

    @property
    def neuron_degree(self) -> int:
        """Degree of the polynomial of the readout that the right vector is closest to."""
        return int(np.argmax(self.neuron_overlap))


@dataclass(frozen=True, repr=False)
class Spectrum(Summarised):
    """Spectrum of the feature covariance.

    Attributes
    ----------
    bulk : Law
        Law of the eigenvalues.
    outliers : tuple of Outlier
        Eigenvalues above the bulk, the largest first.
    alignment : float
        Overlap of the spike direction with the teacher's.
    """

    bulk: Law
    outliers: tuple[Outlier, ...]
    alignment: float

    def summary(self) -> Summary:
        """Return the summary that is printed."""
        rows = [["edge of the bulk", number(self.bulk.edge)]]
        for rank, outlier in enumerate(self.outliers, 1):
            rows.append([f"outlier {rank}, along {outlier.closest}", number(outlier.eigenvalue)])
        return Summary("Spectrum of the feature covariance", table=Table(["eigenvalue", "theory"], rows))


@one_thread()
@within_range("the spectrum")
def feature_spectrum(problem: Problem, *, rows: RowLaw = "network", refine: int = 1) -> Spectrum:
    r"""Predict the spectrum of :math:`F^\top F/n` on fresh samples after the step.

    Docs, "Spectra", equation (Z1).

    Parameters
    ----------
    problem : Problem
        With finite sizes; its ridge and noise of the fit do not matter. For a proportional limit take a large `d`.
    rows : {"network", "isotropic"}
        Law of the rows after the step, as in `gradstep.predict`.
    refine : int
        Multiplies the number of quadrature nodes.

    Returns
    -------
    Spectrum

    Raises
    ------
    InvalidInput
        For infinite sizes, an initial output that diverges with the width (``output_scale="1/sqrt(N)"``, activation
        and readout both with a mean), the model ``rows="isotropic"`` of correlated inputs or of a damped step, and as
        `gradstep.predict`.
    NotConverged
        If the solution cannot be followed to the real axis, or the density does not integrate to one.

    Notes
    -----
    Directions off the spike are in classes, by the samples of the step and by the covariance of the inputs. Without a
    step on isotropic inputs, after one on a whole population, and with ``rows="isotropic"`` they are all alike. The
    bulk ends where the largest eigenvalue along a single sample of the step typically is, which differs from draw to
    draw. A single leading direction of the inputs whose eigenvalue is above those of all directions behind it is no
    part of the bulk, but an outlier. Several directions of one eigenvalue are a band of the bulk. With
    ``output_scale="1/sqrt(N)"`` and a large step the spike is along the gradient and the common part of all rows
    together (`gradstep.theory.step.own_output`).
    """
    refine = checked_refine(refine)
    check_finite(problem, rows)
    return whole_spectrum(problem.replace(ridge=1.0), rows, refine)


@lru_cache(maxsize=REMEMBERED)
def whole_spectrum(problem: Problem, rows: RowLaw, refine: int) -> Spectrum:
    """Return the spectrum of a problem whose ridge does not matter: that of all places of a curve over it."""
    # Folding would lose which value of a vocabulary a group has.
    gaussian, differ = problem.readout.kind == "gaussian", _directions_differ(problem, rows)
    nodes = refine * _COARSER if gaussian and differ else refine
    networks = result_of(
        stepped_networks(problem, rows, "isotropic", nodes, fold=gaussian, spectrum=differ, products=False)
    )
    return _mean([(share, _spectrum(problem, rows, network)) for share, network in networks])


def _directions_differ(problem: Problem, rows: RowLaw) -> bool:
    """Tell whether the directions off the spike differ: by the inputs, by a damping, or by the samples of a step."""
    if problem.inputs is not None or problem.is_damped:
        return True
    return rows == "network" and problem.eta.coefficient != 0 and problem.real_sizes().n_step < np.inf


def _mean(parts: Sequence[tuple[float, Spectrum]]) -> Spectrum:
    """Return the mean over descriptions of a network; outliers that the weightiest has not are left out."""
    _, first = max(parts, key=lambda part: part[0])
    if len(parts) == 1:
        return first
    outliers = []
    for rank, outlier in enumerate(first.outliers):
        ranked = [(share, part.outliers[rank]) for share, part in parts if rank < len(part.outliers)]
        whole = sum(share for share, _ in ranked)
        names = [f.name for f in fields(Outlier)]
        outliers.append(replace(outlier, **{n: sum(s * getattr(o, n) for s, o in ranked) / whole for n in names}))
    bulk, alignment = mean_law([(share, part.bulk) for share, part in parts]), sum(s * p.alignment for s, p in parts)
    return Spectrum(bulk, tuple(outliers), alignment)


def _spectrum(problem: Problem, rows: RowLaw, network: SteppedNetwork) -> Spectrum:
    """Return the spectrum of one description of a network."""
    sizes, step, groups, features = network.sizes, network.step.resolved, network.tables.groups, network.tables.features
    share, direction = groups.readout_direction
    arguments = (
        features.kappa,
        network.tables.shared_mean,
        features.slope,
        features.variance,
        features.weight,
        sizes.width * groups.weight,
        sizes.d - 1,
        sizes.n,
        direction,
        float(share[0]),
        1 - network.step.readout_shrinkage**2,
    )
    equations: FeatureEquations
    if step.correlated is None:
        equations, typical = _typical(FeatureEquations(*arguments))
    else:
        classes, typical = _typical(ClassEquations(*arguments, bulk=network.tables.bulk))
        equations = without_leading(classes, correlated=problem.inputs is not None)
    equations, bulk = _law(equations, groups.weight, _TAILS[-1:] if typical else (None, *_TAILS))
    odd = problem.activation.parity == "odd" and problem.readout.kind == "gaussian"
    # Groups of projections that do not determine the readout have offsets too where directions differ.
    resolved = groups.resolved and network.resolve
    polynomials = _readout_polynomials(problem.readout, groups, step, odd=odd, resolved=resolved)
    outliers = outliers_above(bulk.edge, equations, polynomials, alignment=step.alignment, gaussian=not resolved)
    return Spectrum(bulk, outliers, network.step.alignment)


def check_finite(problem: Problem, rows: RowLaw) -> None:
    """Raise `InvalidInput` unless the problem has finite sizes, and the law of the rows a name that answers for it."""
    check_problem(problem)
    if problem.is_limit:
        raise InvalidInput("d", problem.d, "a finite integer; for the proportional limit take a large one")
    one_of("rows", rows, ("network", "isotropic"))
    if rows == "isotropic" and (problem.inputs is not None or problem.is_damped):
        case = "correlated inputs" if problem.inputs is not None else "a damped step"
        raise InvalidInput("rows", rows, f"'network' for {case}: the model is one of plain steps in isotropic inputs")


def _typical(equations: _Kind) -> tuple[_Kind, bool]:
    """Return the equations, of typical inputs and neurons if others have nearly all of the features' power, and if so.

    What is beyond the median of the largest mean square of as many inputs, or neurons, as there are is put there.

    Docs, "Spectra", equation (Z5a).
    """
    share = equations.neurons / equations.width
    power = equations.slope**2 + equations.variance + equations.mean**2
    nodes = _within(equations.weight, share @ power, equations.samples)
    groups = _within(share, power[:, nodes] @ equations.weight, equations.width)
    if share @ power[groups][:, nodes] @ equations.weight >= _TYPICAL * (share @ power @ equations.weight):
        return equations, False
    slope, variance, mean = (table[groups][:, nodes] for table in (equations.slope, equations.variance, equations.mean))
    along = equations.shared[:, len(nodes) :][groups]
    shared = np.concatenate([mean, along[:, nodes] if along.size else along], axis=1)
    return replace(equations, shared=shared, slope=slope, variance=variance), True


def _within(weight: Array, size: Array, count: float) -> NDArray[np.intp]:
    """Return for each member itself, or the first one that is not beyond the median of the largest of some draws."""
    order, found = np.argsort(-size), np.arange(len(size))
    beyond = np.cumsum(weight[order]) < math.log(2) / count
    found[order[beyond]] = order[min(int(beyond.sum()), len(order) - 1)]
    return found


def _law(
    equations: FeatureEquations, group_weight: Array, tails: Sequence[tuple[float, float] | None]
) -> tuple[FeatureEquations, Law]:
    """Return the law, and the equations that it was found with: those of the first average of tails that do."""

    def rounded() -> Iterator[tuple[FeatureEquations, Sequence[float], float]]:
        lightest = lightest_band(equations.width)
        for shares in tails:
            if shares is None:
                yield equations, COARSE[:1], lightest
                continue
            # g0 keeps the whole law of the readout, which outliers need.
            slope, variance = _without_tails(equations, group_weight, shares)
            averaged = replace(equations, slope=slope, variance=variance)
            yield (averaged, FINE, 0.0) if shares == _TAILS[-1] else (averaged, FINE[:1], lightest)

    return first_law(rounded())


def _without_tails(
    equations: FeatureEquations, group_weight: Array, shares: tuple[float, float]
) -> tuple[Array, Array]:
    """Return ``g1`` and ``g2`` averaged over the neurons, then the inputs, of extreme variance."""
    slope, variance = equations.slope, equations.variance
    laws = (group_weight, equations.weight), (equations.weight, group_weight)
    for (own, other), share in zip(laws, shares, strict=True):
        size = (slope**2 + variance) @ other
        if isinstance(equations, ClassEquations):
            # The mean keeps the dimensions of the slopes. What it leaves of their squares is the neurons' own.
            sign = np.where(slope @ (other * slope[size.argmax()]) < 0, -1.0, 1.0)[:, None]
            mean = sign * averaged_tail(own, size, sign * slope, share)
            square, variance = (averaged_tail(own, size, table, share) for table in (slope**2, variance))
            slope, variance = mean.T, np.maximum(variance + square - mean**2, 0.0).T
            continue
        # Squares, as the slopes of opposite neurons, or inputs, are opposite.
        square, variance = (averaged_tail(own, size, table, share).T for table in (slope**2, variance))
        slope = np.copysign(np.sqrt(square), slope.T)
    return slope, variance


def _readout_polynomials(readout: Readout, groups: Groups, step: StepStatistics, *, odd: bool, resolved: bool) -> Array:
    """Return the mean of the orthonormal polynomials of the readout in each group, shape (degrees, groups)."""
    if resolved:
        known = readout_polynomials(readout, groups.readout * np.sqrt(readout.second_moment), _DEGREE)
    else:
        # The readout is known from the projection up to a Gaussian error.
        spread = np.sqrt(groups.weight @ groups.projection**2)
        correlation = (step.spike + step.initial_overlap) / spread
        known = correlation ** np.arange(_DEGREE + 1)[:, None] * hermite_values(groups.projection / spread, _DEGREE)
    if odd:
        known[::2] = 0
    return known


def outliers_above(
    edge: float, equations: FeatureEquations, polynomials: Array, *, alignment: float, gaussian: bool = False
) -> tuple[Outlier, ...]:
    """Find the outliers above the edge of the bulk, the largest first.

    The means over each group of the functions of the readout to compare with are `polynomials`, shape
    (degrees, groups), and `alignment` is the overlap of the spike direction with the teacher's. With `gaussian` the
    readout is Gaussian, and its groups resolve a part of it only.

    Docs, "Spectra", equation (Z2).
    """
    points = _outlier_points(equations, edge)
    rest = polynomials, alignment, gaussian
    return tuple(_outlier(equations, point, rank, *rest) for rank, point in enumerate(points))


def _outlier_points(equations: FeatureEquations, edge: float) -> list[Point]:
    """Solve at every outlier above the bulk, the largest first."""
    own = np.square(equations.slope) @ equations.weight + equations.variance @ equations.weight
    highest = 2 * float(equations.neurons @ (own + np.square(equations.shared) @ equations.at_shared(equations.weight)))
    lowest = edge * (1 + EDGE_MARGIN)
    count = max(2, int(np.ceil(3 * np.log(highest / lowest))))
    # Features that grow fast have a few inputs that are far from their mean: there the bound is not far enough.
    far = start(equations, complex(_FAR * highest))
    walk = [around(equations, far, highest)]
    for x in np.geomspace(highest, lowest, count)[1:]:
        walk.append(around(equations, walk[-1], float(x)))
    strengths = np.array([equations.spikes(point)[1] for point in walk])
    # Nor is it where a step takes far more than all of the network's own output. Strengths fall like 1/z.
    while strengths[0].max() > 1:
        walk.insert(0, around(equations, far, 2 * float(strengths[0].max()) * walk[0].z.real))
        strengths = np.vstack([equations.spikes(walk[0])[1], strengths])

    def excess(x: float, known: list[Point], rank: int) -> float:
        # A strength falls about like 1/z, and this is about linear.
        return x * (float(equations.spikes(around_nearest(equations, known, x))[1][rank]) - 1)

    found = []
    for rank in range(int(np.sum(strengths[-1] > 1))):
        last = int(np.argmax(strengths[:, rank] > 1))
        above, below = walk[last - 1], walk[last]
        known = [above, below]
        bracket = below.z.real, above.z.real
        try:
            place = float(brentq(excess, *bracket, args=(known, rank), xtol=1e-12 * bracket[0], rtol=1e-12))
        except ValueError as error:
            # Light bands between the two change the solution.
            lost = f"the outlier between {below.z.real:.3g} and {above.z.real:.3g}"
            raise NotConverged(lost, np.inf, 1e-12, "Make the step smaller.") from error
        found.append(around_nearest(equations, known, place))
    return found


def _outlier(
    equations: FeatureEquations, point: Point, rank: int, polynomials: Array, alignment: float, gaussian: bool
) -> Outlier:
    """Return the outlier at a point, with the overlaps of its vectors.

    Docs, "Spectra", equation (Z3).
    """
    leverage, _ = equations.unknowns(point)
    x = point.z.real
    null, scale = equations.residue(point, rank)
    hermite = hermite_values(equations.kappa, _DEGREE)
    odd = equations.kappa[0] > 0
    if odd:
        hermite[::2] = 0  # an odd activation: only half of the line is kept, and the vector is odd
    by_sample = (hermite * equations.weight / (1 + leverage)) @ (equations.mean.T @ null[:-1])
    sample = scale / x * by_sample**2
    by_neuron = polynomials @ null[:-1]
    if gaussian:
        # Its first polynomial is the readout itself, of which the groups resolve a part.
        by_neuron[1] += np.sqrt(max(1 - equations.resolved_share, 0.0)) * null[-1]
    neuron = scale / equations.width * by_neuron**2
    if not isinstance(equations, ClassEquations):
        return Outlier(x, sample, neuron, alignment ** (2 * np.arange(_DEGREE + 1)) * sample)
    along_rest, slopes = equations.slopes(point, rank)
    remaining, degree = equations.weight / (1 + leverage), np.arange(1, _DEGREE + 1)
    # By Mehler's formula, with one power for the rest.
    part = np.sqrt(max(1 - alignment**2, 0.0) * degree) * alignment ** (degree - 1)
    below = part * (hermite_values(equations.kappa, _DEGREE)[:-1] @ (remaining * along_rest))
    by_teacher = alignment ** np.arange(_DEGREE + 1) * by_sample
    by_teacher[1:] += np.where(odd & (degree % 2 == 0), 0.0, below)
    linear = float(scale / x * np.square(slopes @ remaining).sum())
    return Outlier(x, sample, neuron, scale / x * by_teacher**2, linear)
