"""Rules for the law of the rows: classes of directions, and the variances of rows of several readouts in them.

All rows of one readout have the eigenvectors of one matrix, and the variance of a row along an eigenvector is the
eigenvalue. Rows of several readouts ``a`` that a step stretches have one matrix each,

    Sigma_a = C + 2 a k CBC + a^2 (k^2 CBCBC + t CSC).

All directions then get the eigenvectors of their mean ``A`` (`gradstep.theory.neurons.stretched_law`), and the
variances are the diagonals of ``Sigma_a`` there. Because ``A`` is made of the same three matrices, only those of ``C``
and ``CBC`` are to be found (`gradstep.theory.neurons.diagonals`). The variances spread around these diagonals
(`gradstep.theory.neurons.readout_directions`). This project.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradstep.errors import NotConverged
from gradstep.gaussian.quadrature import hermite_rule
from gradstep.problem import Readout
from gradstep.theory.neurons.correlated_law import CorrelatedLaw
from gradstep.theory.neurons.diagonals import DiagonalBounds, Diagonals, nearest_diagonals, readout_variances
from gradstep.theory.neurons.groups import Groups
from gradstep.theory.neurons.longest import Longest
from gradstep.theory.neurons.rational_rule import FAINT, LawAtPoints, Others, sparse_rule
from gradstep.theory.neurons.readout_directions import (
    ManyReadouts,
    Readouts,
    Resolvents,
    TwoReadouts,
    directions_of_vectors,
    laws_of_sums,
    misfit,
    spread_directions,
)
from gradstep.theory.neurons.stretched_law import StretchedLaw
from gradstep.theory.step.correlated_samples import CorrelatedSamples
from gradstep.theory.step.damped_law import DampedLaw
from gradstep.theory.step.damped_samples import DampedSamples
from gradstep.theory.step.statistics import StepStatistics, readout_values
from gradstep.theory.together import Computation, asked

__all__ = [
    "LEAST",
    "LEVELS",
    "ResolvedLaw",
    "RowRules",
    "levels",
    "mean_law",
    "readout_coefficients",
    "resolved_law",
    "row_variances",
    "rules",
    "several_readouts",
    "vectors_rule",
]

#: Decades of the levels that a pole of the fit may have, in units of the mean variance, and points for each decade.
LEVELS, _PER_DECADE = (-2.0, 3.0), 16 / 5
_TOLERANCE = 1e-8
#: Squares of readouts over that of the rule for which there are poles too, if there are several: readouts of twice and
#: four times the size. Two per cent of Gaussian readouts are larger still.
_LONGER = (1.0, 4.0, 16.0)
#: Largest readout over the smallest for which all count as of one size. Values that differ by rounding do not change
#: the points, on which the functions that stand for diagonals depend.
_SAME_SIZE = 1.05
#: Faintest directions of the rules (`LawAtPoints.faint`) for correlated inputs and damped steps, where the usual number
#: let rounding change errors by up to 2e-5, and with two readouts by up to .2 %. After a plain step on isotropic inputs
#: errors have not been seen to jump.
_FAINT_OF_SEVERAL = 1e-10
#: The same for a damped step, times ``delta / kappa``: with hardly any damping resolvents have lost so many digits.
_FAINT_OF_DAMPED = 1e-15
#: Factor of the tolerance for a rule that has other vectors, whose components have the square root of its errors.
_FINER = 0.01
#: Points beside the law of A, seen from its mean in standard deviations. Readouts of opposite signs differ in ``CBC``,
#: which their mean need not resolve: with the poles of the fit alone errors of some problems jumped by up to 4e-5.
_BESIDE = np.array([-1.0, 0.0, 1.0, 2.5]) + 1j
#: Least standard deviation of the law there, over its mean.
_NARROW = 1e-4
#: Least variance over the mean.
LEAST = 1e-12
#: Least variance over the mean of rows that are known by diagonals of matrices. A diagonal may come out below zero, and
#: with a variance next to nothing the fit would lose its digits. All numbers from 1e-9 to 1e-4 give the same errors.
_LEAST_DIAGONAL = 1e-9

#: Difference of two readouts, over the largest one, up to which they count as one: its square is what errors change by.
_ALIKE = 1e-3
#: Share of a readout in the neurons and in the mean square, up to which the others have the variances of all.
_HARDLY_ANY = 1e-3
#: Number of values that stand for a Gaussian readout in the sums of covariances.
_GAUSSIAN = 40
#: Largest error of the resolvents of more than two readouts with which directions have the diagonals alone.
_MISFIT = 0.03
#: Decades of the points at which the resolvents of several readouts are reproduced, and how many there are.
_REPRODUCED, _AT_POINTS = (-3.0, 2.0), 10
#: Distance of these points from the negative axis, over that from zero.
_BESIDE_AXIS = 0.1

#: Angle of the points near the law that a rule for a spectrum knows, and its tolerance.
_ANGLE, _SPECTRUM_TOLERANCE = 0.15, 1e-5

Array = NDArray[np.float64]
Complex = NDArray[np.complexfloating[Any, Any]]


class RowRules(NamedTuple):
    """Rules of the law of A and of the law of some vectors."""

    #: Eigenvalues and shares of the directions, shape (classes,).
    nodes: Array
    share: Array
    special: Array  #: Nodes of the vectors, shape (special,).
    overlap: Array  #: Components of the vectors there, shape (special, vectors).
    #: Diagonals of C and of ``q CBC`` at the nodes, if they were asked for, shape (2, classes). For several readouts a
    #: node may occur several times, and these are the numbers with which (B5) gives the variances that were found.
    diagonals: Array
    special_diagonals: Array  #: The same for the vectors, shape (2, special).
    #: The diagonals of C and ``q CBC`` in the plane of the first two vectors, always. Shape (2, special).
    plane_diagonals: Array
    #: Components of the vectors that the samples make (`others` of the laws), if they were asked for and are known.
    #: Shape (special, vectors).
    components: Array
    #: Part of each class that belongs to the longest directions, zero where none count. Shape (classes,).
    longest: Array


def mean_law(
    samples: CorrelatedSamples | DampedSamples,
    step: StepStatistics,
    readout: Readout,
    output: Array | None = None,
    variance: float = 0.0,
) -> StretchedLaw | DampedLaw:
    """Return the mean law of the rows over all readouts, of an activation that is not odd.

    It is in units of the square of what the network's own output makes of a row, of the mean over the readouts.

    The law of a second direction is `output` and `variance`, as in
    `gradstep.theory.neurons.stretched_law.StretchedLaw`.
    """
    linear = step.curvature**2 * samples.ratio * samples.law.square
    own, second = _own(step, readout), readout.second_moment
    strength = max(step.bulk / samples.bulk_trace - linear, 0.0) * second / own**2
    root = step.curvature * math.sqrt(second) / own
    mean = step.curvature * readout.mean / own
    if isinstance(samples, DampedSamples):
        return DampedLaw(samples, strength, mean, root)
    return StretchedLaw(samples, mean, root, strength, output, variance)


def _own(step: StepStatistics, readout: Readout) -> float:
    """Return what the network's own output makes of a row, in the mean over the readouts."""
    return float(step.own_stretch(readout.mean, readout.second_moment))


def resolved_law(
    law: CorrelatedLaw | DampedLaw | StretchedLaw,
    frame: Array,
    refine: float,
    *,
    lowest: float = LEVELS[0],
    smallest: float = 0.0,
    values: Array | None = None,
    joint: bool = True,
    sampled: bool = False,
    readouts: Readouts | None = None,
    spectrum: bool = False,
    longest: Longest | None = None,
) -> Computation[ResolvedLaw]:
    """Return a law with all that its `rules` take.

    Parameters
    ----------
    frame : ndarray
        The vectors, as columns, in the terms of the law: the spike, the teacher's rest and perhaps others.
    refine : float
        Divides the tolerance of the rules, by a hundred for each step beyond one.
    lowest : float, optional
        Decade of the lowest level that a pole of the fit may have, in units of the mean variance.
    smallest : float, optional
        No variance of a row is below it.
    values : ndarray, optional
        Of the readouts. If there are several, a law of rows that are stretched has its `diagonals`; if their sizes
        differ, there are poles for larger ones.
    joint : bool, optional
        Whether the vectors are resolved together; otherwise the second of two alone, in the complement of the first.
    sampled : bool, optional
        Whether the rules have the components of the vectors that the samples make.
    readouts : TwoReadouts or ManyReadouts, optional
        Of several values (`several_readouts`). With them directions have variances that reproduce the resolvents of
        sums of their covariances.
    spectrum : bool, optional
        Whether the rules are for a spectrum, whose equations have their poles near the law itself. The vectors' rule is
        then that of the vectors that rows of several readouts know, all but the second one, or else of the first alone.
        It has the components of the others.
    longest : Longest, optional
        Which directions count as the longest. The rules know the law at the poles of their part, too.

    Raises
    ------
    NotConverged
        If a transform is not found, or rounding leaves nothing of it.
    """
    count = round((LEVELS[1] - lowest) * _PER_DECADE * refine) + 1
    level = levels(lowest, count)
    # The fit needs 1/(Sigma_a + level), and Sigma_a is about c + l (A - c) with l the square of the readout over the
    # reference and c the smallest eigenvalue of C. So the pole is at A = c - (c + level) / l; the factor 1 - i/2 takes
    # it off the real axis. Rows of larger readouts have poles where A is nearer to c.
    size = np.abs(np.ones(1) if values is None else values)
    sizes = np.array(_LONGER if size.max() > _SAME_SIZE * size.min() else _LONGER[:1])
    z = (smallest - (smallest + level * law.mean) * (1 - 0.5j) / sizes[:, None]).ravel()
    importance = 1 + np.tile(level, len(sizes))
    tolerance = _TOLERANCE * 100.0 ** (1 - refine)
    points = yield from _points(law, z, frame)
    mixed = law if len(size) > 1 and not isinstance(law, CorrelatedLaw) and law.stretched else None
    if sampled or mixed is not None:
        more = yield from _points(law, _beside(law.mean, z, points.transform), frame)
        points, importance = points.with_others(more), np.concatenate([importance, np.ones(len(_BESIDE))])
    functions = None if mixed is None else _diagonals(mixed, points, frame)
    wanted = []
    if spectrum:
        wanted.append(_near_axis(lowest))
    if longest is not None:
        wanted.append(longest.poles)
    for near in wanted:
        more = yield from _points(law, law.mean * near, frame)
        points, importance = points.with_others(more), np.concatenate([importance, np.ones(len(near))])
    along = np.diagonal(points.between.imag, axis1=1, axis2=2)
    # Imaginary parts of a resolvent are above zero, unless rounding has taken them.
    if not (np.all(points.transform.imag > 0) and np.all(along > 0)):
        advice = "Take more samples in the step, or a smaller step."
        raise NotConverged("the law of the rows after the step", math.inf, _TOLERANCE, advice)
    others = None
    if sampled:
        plain, resolved = zip(*(law.others(each, frame) for each in points.sets), strict=True)
        others = Others(plain[0], np.concatenate(resolved))
    # While rules are waited for, the arrays over all points and nodes are not kept.
    for each in points.sets:
        law.forget(each)
    several = None
    if readouts is not None and mixed is not None:
        several = _Several(readouts, (yield from _of_readouts(mixed, readouts, frame, lowest)), refine)
    isotropic = len(law.samples.spectrum.share) == 1 and not isinstance(law, DampedLaw)
    faint = FAINT if isotropic else max(_FAINT_OF_SEVERAL * min(1.0, 100.0 ** (1 - refine)), FAINT)
    if isinstance(law, DampedLaw):
        faint = max(faint, _FAINT_OF_DAMPED / law.samples.left)
    count, average = frame.shape[1], law.average(frame)
    bounds = None if mixed is None else diagonal_bounds(mixed)
    found = ResolvedLaw(
        points, law.mean, average, importance, tolerance, faint, joint, others, functions, bounds, several,
        list(range(count)), longest,
    )  # fmt: skip
    return found.of_some([0] if mixed is None else [0, *range(2, count)]) if spectrum else found


def rules(law: ResolvedLaw) -> Computation[RowRules]:
    """Return the rules of the spectral law of A, and of the law of some vectors.

    Raises `NotConverged` if a rule is not found, or rounding leaves nothing of it.
    """
    nodes, root = yield from sparse_rule(law.of_all)
    share = np.square(root[:, 0])
    if law.several is not None and isinstance(law.several.readouts, TwoReadouts):
        return (yield from _of_several(law, law.several, nodes, share))
    longest = np.zeros_like(share) if law.longest is None else law.longest.part(share, nodes)
    special, overlap = yield from vectors_rule(law.of_vectors, joint=law.joint, others=law.others)
    overlap, components = np.split(overlap, [len(law.columns)], axis=1)
    if law.columns != sorted(law.columns):
        overlap = overlap[:, law.columns]
    if law.functions is None:
        none = np.zeros((0, len(special)))
        return RowRules(nodes, share, special, overlap, np.zeros((0, len(nodes))), none, none, components, longest)
    over_all, in_plane = law.over_all(nodes, share), law.in_plane(special, overlap)
    if law.several is not None:
        readouts, resolvents, _ = law.several
        if misfit(readouts, resolvents, (nodes, share, over_all), (special, overlap, in_plane)) > _MISFIT:
            return (yield from _of_several(law, law.several, nodes, share))
    return RowRules(nodes, share, special, overlap, over_all, in_plane, in_plane, components, longest)


def _of_several(law: ResolvedLaw, several: _Several, nodes: Array, share: Array) -> Computation[RowRules]:
    """Return the rules of several readouts: directions with variances of their own.

    Docs, "Bases of stretched rows", equation (B8).
    """
    readouts, rest = several.readouts, (several.readouts, several.resolvents, several.refine)
    diagonals = law.over_all(nodes, share)
    if law.longest is None:
        nodes, share, diagonals = spread_directions(nodes, share, diagonals, *rest)
        part = np.zeros_like(share)
    else:
        # The longest direction is a single eigenvector: it has the diagonals. The others make up for all else.
        part = law.longest.part(share, nodes)
        taken, left = part * share, (1 - part) * share
        others = several.resolvents.without(readouts, nodes, taken, diagonals)
        spread, spread_share, spread_diagonals = spread_directions(
            nodes, left, diagonals, readouts, others, several.refine
        )
        part = np.repeat([0.0, 1.0], [len(spread), len(nodes)])
        share = np.concatenate([left.sum() * spread_share, taken])
        diagonals = np.concatenate([spread_diagonals, diagonals], axis=1)
        nodes = np.concatenate([spread, nodes])
    vectors = yield from directions_of_vectors(law.of_vectors, law.others, law.over_all, *rest)
    special, overlap = vectors.eigenvalue, vectors.overlap
    return RowRules(
        nodes, share, special, overlap, diagonals, vectors.diagonals, law.in_plane(special, overlap), vectors.others,
        part,
    )  # fmt: skip


class ResolvedLaw(NamedTuple):
    """A law of rows at the points that its rules take."""

    points: _Points
    mean: float  #: Of the law.
    average: Array  #: A between the vectors, shape (vectors, vectors).
    #: As in `LawAtPoints`.
    importance: Array
    tolerance: float
    faint: float
    #: As in `vectors_rule`.
    joint: bool
    others: Others | None
    #: Diagonals of C and ``q CBC`` over all directions, and in the plane of the first two vectors.
    functions: tuple[Diagonals, Diagonals] | None
    bounds: DiagonalBounds | None  #: Of these diagonals.
    several: _Several | None  #: What several readouts add.
    columns: list[int]  #: In which columns of the vectors' rule the components of the vectors are.
    longest: Longest | None  #: As in `resolved_law`.

    @property
    def of_all(self) -> LawAtPoints:
        """The mean over all directions, as `sparse_rule` takes it."""
        transform, slope = self.points.transform[:, None, None], self.points.slope[:, None, None]
        mean = self.mean * np.ones((1, 1))
        return LawAtPoints(self.points.z, transform, slope, mean, self.importance, self.tolerance, self.faint)

    @property
    def of_vectors(self) -> LawAtPoints:
        """The law between the vectors, as `vectors_rule` takes it."""
        points = self.points
        between, slope = points.between, points.d_between
        return LawAtPoints(points.z, between, slope, self.average, self.importance, self.tolerance, self.faint)

    def of_some(self, some: list[int]) -> ResolvedLaw:
        """Return the same law with some of the vectors: those left out are the first of the `others`."""
        points, others, left = self.points, self.others, [k for k in self.columns if k not in some]
        plain, resolved = np.zeros((len(some), len(left))), points.between[:, some][:, :, left]
        if others is not None:
            plain = np.concatenate([plain, others.plain[some]], axis=1)
            resolved = np.concatenate([resolved, others.resolved[:, some]], axis=2)
        between, d_between = (of[:, some][:, :, some] for of in (points.between, points.d_between))
        order = some + left
        return self._replace(
            points=points._replace(between=between, d_between=d_between),
            average=self.average[np.ix_(some, some)],
            others=Others(plain, resolved),
            tolerance=_SPECTRUM_TOLERANCE,
            faint=FAINT,
            several=None,
            columns=[order.index(k) for k in self.columns],
        )

    def over_all(self, eigenvalues: Array, weight: Array) -> Array:
        """Return the diagonals over all directions at eigenvalues with weights, shape (2, eigenvalues)."""
        assert self.functions is not None
        assert self.bounds is not None
        return self.bounds.of_eigenvectors(eigenvalues, weight, self.functions[0].at(eigenvalues))

    def in_plane(self, eigenvalues: Array, overlap: Array) -> Array:
        """Return the diagonals in the plane of the first two vectors at eigenvalues, shape (2, eigenvalues)."""
        assert self.functions is not None
        assert self.bounds is not None
        weight = np.square(overlap[:, :2]).sum(axis=1)
        return self.bounds.of_vectors(weight, self.functions[1].at(eigenvalues))

    @property
    def diagonal_squares(self) -> Array:
        """Mean squares of the diagonals over all directions."""
        assert self.functions is not None
        return self.functions[0].mean_squares(self.points.transform, self.points.slope)


class _Several(NamedTuple):
    """Several readouts, resolvents of their covariances, and how much finer their directions are than by default."""

    readouts: Readouts
    resolvents: Resolvents
    refine: float


class _Points(NamedTuple):
    """A law at points, some of which may have been solved after others."""

    sets: tuple[Complex, ...]  # The points that were solved together.
    # Shape (points,): mean of the resolvent over all directions, and its derivative.
    transform: Complex
    slope: Complex
    # Shape (points, vectors, vectors): the resolvent between the vectors, and its derivative.
    between: Complex
    d_between: Complex

    @property
    def z(self) -> Complex:
        """All points."""
        return np.concatenate(self.sets)

    def with_others(self, other: _Points) -> _Points:
        """Return these points and others."""
        arrays = (np.concatenate(pair) for pair in zip(self[1:], other[1:], strict=True))
        return _Points(self.sets + other.sets, *arrays)


def _points(law: CorrelatedLaw | DampedLaw | StretchedLaw, z: Complex, frame: Array) -> Computation[_Points]:
    """Return a law at points."""
    if isinstance(law, StretchedLaw):
        found = yield from law.ask(z, frame)
        return _Points((z,), found.transform, found.slope, found.between, found.d_between)
    work = len(z) * len(law.samples.law.weight)
    return _Points((z,), *(yield from asked(_resolvents, z, frame, shared=(law,), work=work)))


def _beside(mean: float, z: Complex, transform: Complex) -> Complex:
    """Return points beside a law, from its mean and its transform at other points."""
    # Where z is far from the law, 1 / (l - z) is almost linear in l, and its variance tells that of l. Rounding grows
    # with the distance: at about that of the mean both errors are small.
    at = int(np.abs(np.abs(z) - mean).argmin())
    variance = transform[at].imag / z[at].imag - abs(transform[at]) ** 2
    deviation = math.sqrt(max(variance, 0.0)) * abs(z[at] - mean) ** 2
    return np.asarray(mean + max(deviation, _NARROW * mean) * _BESIDE)


def _of_readouts(
    law: DampedLaw | StretchedLaw, readouts: Readouts, frame: Array, lowest: float
) -> Computation[Resolvents]:
    """Return the resolvents of sums of the covariances."""
    level = 10.0 ** np.linspace(max(lowest, _REPRODUCED[0]), _REPRODUCED[1], _AT_POINTS)
    z = -law.mean * level * (1 - _BESIDE_AXIS * 1j)
    transform, between = [], []
    for of_sum, scale in laws_of_sums(law, readouts):
        points = yield from _points(of_sum, z / scale, frame)
        transform.append(points.transform / scale)
        between.append(points.between / scale)
        of_sum.forget(z / scale)
    return Resolvents(z, np.stack(transform), np.stack(between))


def _diagonals(law: DampedLaw | StretchedLaw, points: _Points, frame: Array) -> tuple[Diagonals, Diagonals]:
    """Return the diagonals of C and ``q CBC`` over all directions, and in the plane of the first two vectors."""

    def joined(products: Callable[[Complex], tuple[Complex, ...]]) -> Complex:
        """Return the products of C and ``q CBC`` with the resolvent at all points; the first is the resolvent alone."""
        return np.concatenate([np.stack(products(each)[1:]) for each in points.sets], axis=1)

    of_all = nearest_diagonals(points.z, points.transform, points.slope, law.product_means, joined(law.products))
    if isinstance(law, DampedLaw):
        # The products orthogonal to bt are not known: the diagonals of all directions stand for them.
        turn = frame[:2, :2]
        rest, d_rest = ((turn @ each[:, :2, :2] @ turn.T)[:, 1, 1] for each in (points.between, points.d_between))
        means, resolved = of_all.along(rest, d_rest)
        means, resolved = means + law.product_means_with_teacher, resolved + joined(law.products_with_teacher)
    else:
        plane = frame[:, :2]
        means = np.array([np.trace(each) for each in law.product_averages(plane)])
        resolved = np.trace(joined(partial(law.products_between, frame=plane)), axis1=2, axis2=3)
    transform, slope = (np.trace(of[:, :2, :2], axis1=1, axis2=2) for of in (points.between, points.d_between))
    return of_all, nearest_diagonals(points.z, transform / 2, slope / 2, means / 2, resolved / 2)


def _resolvents(
    law: CorrelatedLaw | DampedLaw, z: Complex, frame: Array
) -> list[tuple[Complex, Complex, Complex, Complex]]:
    """Return transforms and resolvents of a law, with their derivatives, for each set of points and its frame."""
    return [(*law.transform(of), *law.between(of, vectors)) for of, vectors in zip(z, frame, strict=True)]


@lru_cache(maxsize=64)
def _near_axis(lowest: float) -> Complex:
    """Return points near the positive axis, from a decade `lowest` on, evenly spaced in their logarithms; read-only."""
    first, last = math.log(10) * lowest, math.log(10) * LEVELS[1]
    points = np.exp(np.linspace(first, last, math.ceil((last - first) / _ANGLE))) * (1 + 1j * _ANGLE)
    points.flags.writeable = False
    return np.asarray(points)


@lru_cache(maxsize=64)
def levels(lowest: float, count: int) -> Array:
    """Return levels of poles up to the highest, evenly spaced in their logarithms; read-only."""
    level = np.asarray(10.0 ** np.linspace(lowest, LEVELS[1], count))
    level.flags.writeable = False
    return level


def vectors_rule(law: LawAtPoints, *, joint: bool, others: Others | None = None) -> Computation[tuple[Array, Array]]:
    """Return the rule of the law of the spike and the teacher's rest, and of what vectors there are beside them.

    If `joint` is true these are resolved together, as in `resolved_law`. Only then may there be `others`, as in
    `gradstep.theory.neurons.rational_rule.sparse_rule`.
    """
    if joint:
        finer = 1.0 if others is None else _FINER
        return (yield from sparse_rule(law._replace(tolerance=finer * law.tolerance), others))
    (spike, cross), rest = law.transform[:, 0].T, law.transform[:, 1, 1]
    (d_spike, d_cross), d_rest = law.slope[:, 0].T, law.slope[:, 1, 1]
    alone = (rest - cross**2 / spike)[:, None, None]
    d_alone = (d_rest - 2 * cross * d_cross / spike + cross**2 * d_spike / spike**2)[:, None, None]
    of_rest = law._replace(transform=alone, slope=d_alone, mean=law.mean[1:, 1:])
    nodes, overlap = yield from sparse_rule(of_rest)
    return nodes, np.concatenate([0 * overlap, overlap], axis=1)


def diagonal_bounds(law: DampedLaw | StretchedLaw) -> DiagonalBounds:
    """Return the bounds of the diagonals for the mean law of rows of several readouts."""
    c = law.samples.spectrum.eigenvalue
    # The derivative of a sign has no slope: then no row is stretched, and k and q are zero.
    return DiagonalBounds(float(c.min()), float(c.max()), float(law.linear / law.root) if law.root else 0.0)


def several_readouts(law: DampedLaw | StretchedLaw, step: StepStatistics, readout: Readout) -> Readouts | None:
    """Return the readouts of nearly all neurons, or nothing if they are alike or a step stretches no rows.

    The law is the mean law of the rows over all of them.
    """
    if step.curvature == 0:
        return None
    values, share = hermite_rule(_GAUSSIAN) if readout.kind == "gaussian" else readout_values(readout)
    of_one = np.cumsum(np.diff(values, prepend=values[0]) > _ALIKE * np.abs(values).max())
    whole = np.asarray(np.bincount(of_one, share), dtype=np.float64)
    values, scale = np.bincount(of_one, share * values) / whole, math.sqrt(readout.second_moment)
    part = whole * np.square(values) / readout.second_moment
    counted = (whole > _HARDLY_ANY) | (part > _HARDLY_ANY)
    if np.count_nonzero(counted) < 2:
        return None
    values, share = values[counted], whole[counted] / whole[counted].sum()
    own = np.asarray(step.own_stretch(values, values**2) / _own(step, readout))
    if len(values) == 2:
        return TwoReadouts(values / scale, share, own)
    return ManyReadouts.of(values / scale, share, own, diagonal_bounds(law), turned=bool(law.root < 0))


def readout_coefficients(groups: Groups, step: StepStatistics, readout: Readout) -> Array:
    """Return the coefficients of ``C``, ``q`` times its linear stretch and the rest in the covariance of each group.

    They are in the units of `mean_law`, and have shape (groups, 3).
    """
    own = _own_of_groups(groups, step, readout)
    return np.stack([own**2, own * groups.readout, groups.readout_square], axis=1)


def _own_of_groups(groups: Groups, step: StepStatistics, readout: Readout) -> Array:
    """Return what the network's own output makes of the rows of each group, over what it makes of a row in the mean."""
    scale = math.sqrt(readout.second_moment)
    own = step.own_stretch(scale * groups.readout, scale**2 * groups.readout_square) / _own(step, readout)
    return np.asarray(np.broadcast_to(own, groups.readout.shape))


def row_variances(rules: RowRules, groups: Groups, step: StepStatistics, readout: Readout) -> tuple[Array, Array]:
    """Return the variances of the rows of each group at the nodes of rules of a mean law, and of their vectors.

    They are in the units of `mean_law`, and have shape (groups, classes) at the nodes and (groups, special) of the
    vectors.

    Docs, "Bases of stretched rows", equation (B5).
    """
    scale, own = math.sqrt(readout.second_moment), _own_of_groups(groups, step, readout)
    a, a_square = groups.readout, groups.readout_square

    def at(nodes: Array, diagonals: Array) -> Array:
        # Rows of one readout have the eigenvalues themselves.
        variance = np.tile(nodes, (len(a), 1))
        if len(rules.diagonals):
            variance = readout_variances(nodes, diagonals, a, a_square, own, readout.mean / scale)
        return np.asarray(np.maximum(variance, _LEAST_DIAGONAL))

    return at(rules.nodes, rules.diagonals), at(rules.special, rules.special_diagonals)
