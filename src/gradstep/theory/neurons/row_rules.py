"""Rules for the law of the rows: classes of directions, and the variances of rows of several readouts in them.

All rows of one readout have the eigenvectors of one matrix, and the variance of a row along an eigenvector is the
eigenvalue. Rows of several readouts ``a`` that a step stretches have one matrix each,

    Sigma_a = C + 2 a k CBC + a^2 (k^2 CBCBC + t CSC).

All directions then get the eigenvectors of their mean ``A`` (`gradstep.theory.neurons.stretched_law`), and the
variances are the diagonals of ``Sigma_a`` there. Because ``A`` is made of the same three matrices, only those of ``C``
and ``CBC`` are to be found. This project.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradstep.errors import NotConverged
from gradstep.problem import Readout
from gradstep.theory.neurons.correlated_law import CorrelatedLaw
from gradstep.theory.neurons.groups import Groups
from gradstep.theory.neurons.rational_rule import Others, sparse_rule
from gradstep.theory.neurons.stretched_law import StretchedLaw
from gradstep.theory.step.correlated_samples import CorrelatedSamples
from gradstep.theory.step.damped_law import DampedLaw
from gradstep.theory.step.damped_samples import DampedSamples
from gradstep.theory.step.statistics import StepStatistics
from gradstep.theory.together import Computation, asked

__all__ = ["LEAST", "LEVELS", "RowRules", "law_rules", "levels", "mean_law", "row_variances", "vectors_rule"]

#: Decades of the levels that a pole of the fit may have, in units of the mean variance, and points for each decade.
LEVELS, _PER_DECADE = (-2.0, 3.0), 16 / 5
_TOLERANCE = 1e-8
#: Squares of readouts over that of the rule for which there are poles too, if there are several: readouts of twice and
#: four times the size. Two per cent of Gaussian readouts are larger still.
_LONGER = (1.0, 4.0, 16.0)
#: Factor of the tolerance for a rule that has other vectors, whose components have the square root of its errors.
_FINER = 0.01
#: Least variance over the mean.
LEAST = 1e-12

Array = NDArray[np.float64]
Complex = NDArray[np.complexfloating[Any, Any]]


class RowRules(NamedTuple):
    """Rules of the law of A and of the law of some vectors.

    Attributes
    ----------
    nodes, share : ndarray, shape (classes,)
        Eigenvalues and shares of the directions.
    special : ndarray, shape (special,)
        Nodes of the vectors.
    overlap : ndarray, shape (special, vectors)
        Components of the vectors there.
    diagonals : ndarray, shape (2, classes)
        Of C and of ``q CBC`` at the nodes, where they were asked for.
    special_diagonals : ndarray, shape (2, special)
    components : ndarray, shape (special, 5) or (special, 0)
        Of the vectors that the samples make (`others` of the laws), where they were asked for and are known.
    """

    nodes: Array
    share: Array
    special: Array
    overlap: Array
    diagonals: Array
    special_diagonals: Array
    components: Array


def mean_law(
    samples: CorrelatedSamples | DampedSamples,
    step: StepStatistics,
    readout: Readout,
    output: Array | None = None,
    variance: float = 0.0,
) -> StretchedLaw | DampedLaw:
    """Return the mean law of the rows over all readouts, of an activation that is not odd.

    It is in units of the square of what the network's own output makes of a row, of the mean over the readouts.

    Parameters
    ----------
    samples : CorrelatedSamples
    step : StepStatistics
    readout : Readout
    output, variance
        Law of a second direction, as in `gradstep.theory.neurons.stretched_law.StretchedLaw`.
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


def law_rules(
    law: CorrelatedLaw | DampedLaw | StretchedLaw,
    frame: Array,
    refine: float,
    *,
    lowest: float = LEVELS[0],
    smallest: float = 0.0,
    longer: bool = False,
    several: bool = False,
    width: float,
    joint: bool = True,
    sampled: bool = False,
) -> Computation[RowRules]:
    """Return the rules of the spectral law of A, and of the law of some vectors.

    Parameters
    ----------
    law : CorrelatedLaw, DampedLaw or StretchedLaw
    frame : ndarray
        The vectors, as columns, in the terms of the law: the spike, the teacher's rest and perhaps others.
    refine : float
        Divides the tolerance of the rules, by a hundred for each step beyond one.
    lowest : float, optional
        Decade of the lowest level that a pole of the fit may have, in units of the mean variance.
    smallest : float, optional
        No variance of a row is below it.
    longer : bool, optional
        Whether readouts have several sizes: there are poles for larger ones.
    several : bool, optional
        Whether they have several values: a law of rows that are stretched has its `diagonals`.
    width : float
        Distance from the real axis, over the eigenvalue, at which diagonals are taken.
    joint : bool, optional
        Whether the vectors are resolved together; otherwise the second of two alone, in the complement of the first.
    sampled : bool, optional
        Whether the rules have the components of the vectors that the samples make.

    Returns
    -------
    RowRules

    Raises
    ------
    NotConverged
        If a transform or a rule is not found, or rounding leaves nothing of one.
    """
    count = round((LEVELS[1] - lowest) * _PER_DECADE * refine) + 1
    level = levels(lowest, count)
    # The fit needs 1/(Sigma_a + level), and Sigma_a is about c + l (A - c) with l the square of the readout over the
    # reference and c the smallest eigenvalue of C. So the pole is at A = c - (c + level) / l; the factor 1 - i/2 takes
    # it off the real axis. Rows of larger readouts have poles where A is nearer to c.
    sizes = np.array(_LONGER if longer else _LONGER[:1])
    z = (smallest - (smallest + level * law.mean) * (1 - 0.5j) / sizes[:, None]).ravel()
    importance = 1 + np.tile(level, len(sizes))
    tolerance = _TOLERANCE * 100.0 ** (1 - refine)
    if isinstance(law, StretchedLaw):
        transform, slope, between, d_between = (yield from law.ask(z, frame))[1:]
    else:
        work = len(z) * len(law.samples.law.weight)
        transform, slope, between, d_between = yield from asked(_resolvents, z, frame, shared=(law,), work=work)
    transform, slope = transform[:, None, None], slope[:, None, None]
    along = np.diagonal(between.imag, axis1=1, axis2=2)
    # Imaginary parts of a resolvent are above zero, unless rounding has taken them.
    if not (np.all(transform.imag > 0) and np.all(along > 0)):
        advice = "Take more samples in the step, or a smaller step."
        raise NotConverged("the law of the rows after the step", math.inf, _TOLERANCE, advice)
    others = None if not sampled or isinstance(law, DampedLaw) else law.others(z, frame)
    # While rules are waited for, the arrays over all points and nodes are not kept.
    law.forget(z)
    nodes, root = yield from sparse_rule(z, transform, slope, law.mean * np.ones((1, 1)), importance, tolerance)
    share = root[:, 0] ** 2
    special, overlap = yield from vectors_rule(
        z, between, d_between, law.average(frame), importance, tolerance,
        joint=joint, others=others,
    )  # fmt: skip
    overlap, components = np.split(overlap, [frame.shape[1]], axis=1)
    diagonals, special_diagonals = np.zeros((0, len(nodes))), np.zeros((0, len(special)))
    if several and not isinstance(law, CorrelatedLaw) and law.stretched:
        # The equations are solved at both kinds of nodes at once.
        away = np.maximum(np.concatenate([nodes, special]), 10.0**lowest * law.mean) * (1 + width * 1j)
        if isinstance(law, DampedLaw):
            traces, in_plane = law.products(away), law.products_in_plane(away)
        else:
            # In the plane of the two vectors.
            traces, plane = yield from law.ask_products(away, frame[:, :2])
            in_plane = tuple(np.trace(of, axis1=1, axis2=2) for of in plane)
        plain, *products = (of.imag[: len(nodes)] for of in traces)
        diagonals = np.stack(products) / plain
        # Their means over all directions are known.
        diagonals += (law.product_means - diagonals @ share)[:, None]
        plain, *products = (of.imag[len(nodes) :] for of in in_plane)
        special_diagonals = np.stack(products) / plain
    return RowRules(nodes, share, special, overlap, diagonals, special_diagonals, components)


def _resolvents(
    law: CorrelatedLaw | DampedLaw, z: Complex, frame: Array
) -> list[tuple[Complex, Complex, Complex, Complex]]:
    """Return transforms and resolvents of a law, with their derivatives, for each set of points and its frame."""
    return [(*law.transform(of), *law.between(of, vectors)) for of, vectors in zip(z, frame, strict=True)]


@lru_cache(maxsize=64)
def levels(lowest: float, count: int) -> Array:
    """Return levels of poles up to the highest, evenly spaced in their logarithms; read-only."""
    level = np.asarray(10.0 ** np.linspace(lowest, LEVELS[1], count))
    level.flags.writeable = False
    return level


def vectors_rule(
    points: Complex,
    resolvent: Complex,
    slope: Complex,
    mean: Array,
    importance: Array,
    tolerance: float,
    *,
    joint: bool,
    others: Others | None = None,
) -> Computation[tuple[Array, Array]]:
    """Return the rule of the law of the spike and the teacher's rest, and of what vectors there are beside them.

    Parameters
    ----------
    points, resolvent, slope, mean, importance, tolerance
        As in `gradstep.theory.neurons.rational_rule.sparse_rule`.
    joint : bool
        As in `law_rules`.
    others : Others, optional
        As in `gradstep.theory.neurons.rational_rule.sparse_rule`; of vectors that are resolved together.

    Returns
    -------
    nodes, overlap : ndarray
    """
    if joint:
        finer = 1.0 if others is None else _FINER
        return (yield from sparse_rule(points, resolvent, slope, mean, importance, finer * tolerance, others))
    (spike, cross), rest = resolvent[:, 0].T, resolvent[:, 1, 1]
    (d_spike, d_cross), d_rest = slope[:, 0].T, slope[:, 1, 1]
    alone = (rest - cross**2 / spike)[:, None, None]
    d_alone = (d_rest - 2 * cross * d_cross / spike + cross**2 * d_spike / spike**2)[:, None, None]
    nodes, overlap = yield from sparse_rule(points, alone, d_alone, mean[1:, 1:], importance, tolerance)
    return nodes, np.concatenate([0 * overlap, overlap], axis=1)


def row_variances(rules: RowRules, groups: Groups, step: StepStatistics, readout: Readout) -> tuple[Array, Array]:
    """Return the variances of the rows of each group at the nodes of rules of a mean law, and of their vectors.

    They are in the units of `mean_law`.

    Docs, "Correlated inputs", equation (C7e).

    Parameters
    ----------
    rules : RowRules
    groups : Groups
    step : StepStatistics
    readout : Readout

    Returns
    -------
    profile : ndarray, shape (groups, classes)
    special_profile : ndarray, shape (groups, special)
    """
    scale, a, a_square = readout.second_moment, groups.readout[:, None], groups.readout_square[:, None]
    own = step.own_stretch(math.sqrt(scale) * a, scale * a_square) / _own(step, readout)

    def at(nodes: Array, diagonals: Array) -> Array:
        # Rows of one readout have the eigenvalues themselves.
        variance = np.tile(nodes, (len(a), 1))
        if len(rules.diagonals):
            plain, stretched = diagonals
            squares = nodes - plain - 2 * readout.mean / math.sqrt(scale) * stretched
            variance = own**2 * plain + 2 * own * a * stretched + a_square * squares
        return np.asarray(np.maximum(variance, LEAST))

    return at(rules.nodes, rules.diagonals), at(rules.special, rules.special_diagonals)
