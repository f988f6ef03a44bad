"""Classes of directions for the rows after a step on correlated inputs.

Rows of readout ``a`` have, in whitened inputs and off the spike, the covariance ``Sigma_a / d``. If the
activation is not odd, directions get the eigenvectors of the mean of all ``Sigma_a`` over the readouts
(`gradstep.theory.neurons.row_rules`). For an odd activation ``Sigma_a = C + a^2 t' C S C``, and they get those of
``A = C + t C S C`` with the square ``(E a^2)^3 / E a^4`` of a readout in ``t``. Rows of this readout have its
eigenvalues, those of others the diagonals of their matrices in this basis. That is exact for a readout of one size, for
equal eigenvalues, and where the samples of the step are many. For a Gaussian readout a third of the mean square is
nearer to networks than all of it. This project.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradstep.problem import Readout
from gradstep.resolution import NOTHING
from gradstep.theory.neurons.correlated_law import CorrelatedLaw
from gradstep.theory.neurons.groups import Groups
from gradstep.theory.neurons.lengths import lengths_of_readouts
from gradstep.theory.neurons.longest import Longest
from gradstep.theory.neurons.readout_directions import ManyReadouts
from gradstep.theory.neurons.row_rules import (
    LEAST,
    LEVELS,
    mean_law,
    readout_coefficients,
    resolved_law,
    row_variances,
    rules,
    several_readouts,
)
from gradstep.theory.neurons.stretched_law import StretchedLaw
from gradstep.theory.step.correlated_samples import CorrelatedSamples
from gradstep.theory.step.damped_law import DampedLaw
from gradstep.theory.step.damped_samples import DampedSamples
from gradstep.theory.step.statistics import StepStatistics, readout_values
from gradstep.theory.together import Computation

__all__ = ["correlated_classes"]

#: The lowest level that a pole of the fit may have, in decades of the mean variance, is below the least eigenvalue of
#: C, but no lower than this. The last number is for damped steps, whose law has fewer digits.
_LOWEST, _LOWEST_DAMPED = -8.0, -5.0
#: Distance from the real axis, over the eigenvalue, at which diagonals are taken if rows are not stretched. Near the
#: axis each class of C has a band of its own, and errors differed by up to 2e-3 with the places of the nodes. At this
#: distance they do so by 2e-5, and differ from what they are at the axis by less than 1e-3.
_WIDTH = 0.2
#: Least diagonal of C, of mean one, that what the samples make of f is divided by: f has next to nothing below it.
_LEAST_OF_OUTPUT = 0.01

Array = NDArray[np.float64]


class CorrelatedClasses(NamedTuple):
    """Classes of directions, and special ones."""

    share: Array  #: Shape (classes,).
    profile: Array  #: Shape (groups, classes).
    #: Components of the spike direction, of the teacher's rest, and of the rest of f given an own output.
    #: Shape (special, 2 or 3).
    overlap: Array
    special_profile: Array  #: Shape (groups, special).
    mean_variance: Array  #: ``(1/d) tr Sigma_a``, shape (groups,).
    #: Components of the vectors with which the norm of a row varies, if groups know of it
    #: (`gradstep.theory.step.row_fluctuations.norm_vector`). Shape (special, vectors).
    components: Array
    #: Components of what the samples make of the unit vector of f, in the mean of `StepStatistics.common`.
    #: Shape (special,).
    common: Array
    longest: Array  #: Part of each class that belongs to the longest directions, shape (classes,).
    #: Diagonals of ``P``, ``P C``, ``P C^2`` and ``P C P`` along the special directions: the factors of the components
    #: of bt and v in `gradstep.theory.step.row_fluctuations.RowFluctuations.bend_vector`. Shape (4, special).
    bend_factors: Array
    #: The lengths of an input that the rows see, as `gradstep.theory.neurons.lengths.seen_lengths` takes them.
    #: Shape (groups, numbers).
    lengths: Array


def correlated_classes(
    step: StepStatistics,
    samples: CorrelatedSamples | DampedSamples,
    groups: Groups,
    readout: Readout,
    refine: float,
    *,
    odd: bool,
    spectrum: bool = False,
    longest: Longest | None = None,
) -> Computation[CorrelatedClasses]:
    """Return the classes of directions and the special directions.

    With an `odd` activation a step stretches no rows. `refine` is as in `gradstep.theory.neurons.bulk.bulk_law`, and
    `spectrum` and `longest` are as in `gradstep.theory.neurons.row_rules.resolved_law`.

    Docs, "Bases of stretched rows", equations (B1), (B10) and (B11).
    """
    law, known, (values, _) = _law(step, samples, readout, odd=odd), samples.spectrum, readout_values(readout)
    smallest, smallest_positive = known.eigenvalue.min(), known.eigenvalue[known.eigenvalue > 0].min()
    least = _LOWEST_DAMPED if isinstance(law, DampedLaw) else _LOWEST
    lowest = max(min(LEVELS[0], math.log10(smallest_positive) - 1), least)
    # Rows that the samples stretch may be shorter than any before the step.
    frame = samples.frame(step.alignment) if step.common is None else samples.whole_frame(step.alignment)
    mixed = law if not isinstance(law, CorrelatedLaw) and law.stretched and not spectrum else None
    several = None if mixed is None else several_readouts(mixed, step, readout)
    if longest is not None and isinstance(several, ManyReadouts):
        # The errors are means over laws with many leading directions, and each law would take a fifth of a second.
        several = None
    resolved = yield from resolved_law(
        law, frame, refine,
        lowest=lowest, smallest=0.0 if law.stretched else smallest,
        values=values,
        sampled=groups.knows_norms, readouts=several, spectrum=spectrum, longest=longest,
    )  # fmt: skip
    found = yield from rules(resolved)
    a, a_square = groups.readouts(readout)
    if isinstance(law, StretchedLaw) or law.stretched:
        profile, special_profile = row_variances(found, groups, step, readout)
        part = None
    else:
        # The law is solved at all eigenvalues at once.
        eigenvalues = np.concatenate([found.nodes, found.special])
        both, part = _variances(step, law, a_square, eigenvalues, 10.0**lowest)
        profile, special_profile = np.split(both, [len(found.nodes)], axis=1)
        part = part[len(found.nodes) :]
    # The mean of all directions is known.
    mean = (profile @ found.share)[:, None]
    lengths = profile / mean * np.sqrt(found.share)
    if not isinstance(law, CorrelatedLaw) and law.stretched:
        lengths = lengths_of_readouts(law, readout_coefficients(groups, step, readout))
    mean_variance = step.mean_variance(a, a_square)
    common = np.zeros(len(found.special))
    if step.common is not None and not isinstance(law, CorrelatedLaw) and len(found.plane_diagonals):
        plain, stretched = found.plane_diagonals
        made = step.own_drift[0] + step.curvature / law.root * stretched / np.maximum(plain, _LEAST_OF_OUTPUT)
        common = made * (found.overlap @ samples.with_output(frame))
    factors = np.zeros((4, len(found.special)))
    if any(step.fluctuations.bend_vector) and groups.bend_offset.any():
        factors = _bend_factors(samples, found.special / law.mean, part)
    return CorrelatedClasses(
        found.share, profile / mean, found.overlap, special_profile / mean, mean_variance, found.components, common,
        found.longest, factors, lengths,
    )  # fmt: skip


def _law(
    step: StepStatistics, samples: CorrelatedSamples | DampedSamples, readout: Readout, *, odd: bool
) -> CorrelatedLaw | DampedLaw | StretchedLaw:
    """Return the law of the matrix whose eigenvectors directions get."""
    if not odd:
        own = samples.own if isinstance(samples, CorrelatedSamples) else None
        return mean_law(samples, step, readout, *((own.mean, own.variance) if own else (None, 0.0)))
    values, shares = readout_values(readout)
    strength = step.bulk / samples.bulk_trace * readout.second_moment**3 / float(shares @ values**4)
    return DampedLaw(samples, strength) if isinstance(samples, DampedSamples) else CorrelatedLaw(samples, strength)


def _bend_factors(samples: CorrelatedSamples | DampedSamples, special: Array, part: Array | None) -> Array:
    """Return `CorrelatedClasses.bend_factors`, from the parts of the special directions in the classes of C.

    The parts have the shape (special, classes). If they are not known, because rows are stretched, the eigenvalues of
    the special directions, over their mean, stand for those of C.
    """
    c, made = samples.spectrum.eigenvalue, samples.made
    if part is None:
        order = np.argsort(c)
        c = np.clip(special, c[order[0]], c[order[-1]])
        made = np.interp(c, samples.spectrum.eigenvalue[order], made[order])
    factors = made * np.stack([np.ones_like(c), c, c**2, c * made])
    return factors if part is None else np.asarray(factors @ _along_plane(samples, part).T)


def _along_plane(samples: CorrelatedSamples | DampedSamples, part: Array) -> Array:
    """Return how bt and the spike along each eigenvector are divided between the classes of C.

    It follows from `part`, which says the same of all vectors; both have the shape (directions, classes). A class of
    few directions has a small part of all vectors, but bt and the spike may lie mostly in it.
    """
    known = samples.spectrum
    spike = np.array([samples.quadratic(one) for one in np.eye(len(known.share))]) / samples.norm**2
    found = part * (known.teacher + spike) / np.maximum(known.share, NOTHING)
    return np.asarray(found / np.maximum(found.sum(axis=1, keepdims=True), NOTHING))


def _variances(
    step: StepStatistics, law: CorrelatedLaw | DampedLaw, a_square: Array, nodes: Array, lowest_level: float
) -> tuple[Array, Array]:
    """Return the variances of rows that are not stretched in the eigenbasis of A at eigenvalues, shape (groups, nodes).

    With them come the parts of the eigenvectors in the classes of C, shape (nodes, classes).

    Docs, "Bases of stretched rows", equation (B11).
    """
    c = law.samples.spectrum.eigenvalue
    height = np.maximum(nodes, lowest_level * law.mean)
    part, sampled = law.diagonals(height * (1 + _WIDTH * 1j))
    least, plain = c.min(), part @ c
    above = plain - least + np.outer(step.bulk / law.samples.bulk_trace * a_square, sampled)
    # Rows with ``a^2 = (E a^2)^3 / E a^4`` have the eigenvalue itself. No row has a variance below the smallest
    # eigenvalue of C.
    known = np.maximum(plain - least + law.strength * sampled, NOTHING)
    return np.asarray(np.maximum(least + above * np.maximum(nodes - least, 0.0) / known, LEAST)), part
