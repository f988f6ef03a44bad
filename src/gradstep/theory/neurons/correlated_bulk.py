"""Classes of directions for the rows after a step on correlated inputs.

Rows of readout ``a`` have, in whitened inputs and off the spike, the covariance ``Sigma_a / d``. If all neurons have
one readout, all directions get its eigenvectors (`gradstep.theory.neurons.stretched_law` for activations that are not
odd). Of several readouts the matrix B of the samples enters by its mean,

    Sigma_a = C (1 + a q C)^2 + a^2 t' C S C,

and all directions get the eigenvectors of ``A = C + t C S C`` with the square ``(E a^2)^3 / E a^4`` of a readout in
``t``. Rows of this readout have its eigenvalues, those of others the diagonals of the other matrices in this basis. For
an odd activation that is exact for a readout of one size, for equal eigenvalues, and where the samples of the step are
many. For a Gaussian readout a third of the mean square is nearer to networks than all of it. This project.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from gradstep.problem import Readout
from gradstep.resolution import NOTHING
from gradstep.theory.neurons.correlated_law import CorrelatedLaw
from gradstep.theory.neurons.groups import Groups
from gradstep.theory.neurons.rational_rule import sparse_rule
from gradstep.theory.neurons.stretched_law import StretchedLaw
from gradstep.theory.step.correlated_samples import CorrelatedSamples
from gradstep.theory.step.damped_law import DampedLaw
from gradstep.theory.step.damped_samples import DampedSamples
from gradstep.theory.step.statistics import StepStatistics, readout_values

__all__ = ["correlated_classes"]

#: Decades of the levels that a pole of the fit may have, in units of the mean variance, and points for each decade. The
#: lowest is below the least eigenvalue of C, but no lower than the last number.
_LEVELS, _PER_DECADE, _LOWEST = (-2.0, 3.0), 16 / 5, -8.0
#: The last number for damped steps, whose law has fewer digits.
_LOWEST_DAMPED = -5.0
_TOLERANCE = 1e-8
#: Squares of readouts over that of the rule for which there are poles too, if there are several: readouts of twice and
#: four times the size. Two per cent of Gaussian readouts are larger still.
_LONGER = (4.0, 16.0)
#: Distance from the real axis, over the eigenvalue, at which diagonals are taken. Near the axis each class of C has a
#: band of its own, and errors differed by up to 2e-3 with the places of the nodes. At this distance they do so by 2e-5,
#: and differ from what they are at the axis by less than 1e-3.
_WIDTH = 0.2
#: Least variance over the mean.
_LEAST = 1e-12

Array = NDArray[np.float64]


def correlated_classes(
    step: StepStatistics,
    samples: CorrelatedSamples | DampedSamples,
    groups: Groups,
    readout: Readout,
    refine: float,
    *,
    odd: bool,
) -> tuple[Array, Array, Array, Array, Array]:
    """Return the classes of directions and the special directions.

    Docs, "Correlated inputs", equations (C8) and (C9).

    Parameters
    ----------
    step : StepStatistics
    samples : CorrelatedSamples or DampedSamples
    groups : Groups
    readout : Readout
    refine : float
        Divides the tolerance of the rules, by a hundred for each step beyond one.
    odd : bool
        Whether the activation is odd, so that a step stretches no rows.

    Returns
    -------
    share : ndarray, shape (classes,)
    profile : ndarray, shape (groups, classes)
    overlap : ndarray, shape (special, 2)
        Components of the spike direction and of the teacher's rest.
    special_profile : ndarray, shape (groups, special)
    mean_variance : ndarray, shape (groups,)
        ``(1/d) tr Sigma_a``.
    """
    known, (sizes, _) = samples.spectrum, readout_values(readout)
    power, law = readout.second_moment, _law(step, samples, readout, odd=odd)
    smallest, smallest_positive = known.eigenvalue.min(), known.eigenvalue[known.eigenvalue > 0].min()
    least = _LOWEST_DAMPED if isinstance(law, DampedLaw) else _LOWEST
    lowest = max(min(_LEVELS[0], math.log10(smallest_positive) - 1), least)
    # Rows that the samples stretch may be shorter than any before the step.
    smallest = 0.0 if isinstance(law, StretchedLaw) else smallest
    count = round((_LEVELS[1] - lowest) * _PER_DECADE * refine) + 1
    level = 10.0 ** np.linspace(lowest, _LEVELS[1], count)
    # The fit needs 1/(Sigma_a + level), and Sigma_a is about c + l (A - c) with l the square of the readout over the
    # reference and c the smallest eigenvalue of C. So the pole is at A = c - (c + level) / l; the factor 1 - i/2 takes
    # it off the real axis. Rows of larger readouts have poles where A is nearer to c.
    longer = np.array([1.0, *_LONGER] if len(set(np.abs(sizes))) > 1 else [1.0])
    z = (smallest - (smallest + level * law.mean) * (1 - 0.5j) / longer[:, None]).ravel()
    level = np.tile(level, len(longer))
    tolerance, frame = _TOLERANCE * 100.0 ** (1 - refine), samples.frame(step.alignment)
    transform, slope = (each[:, None, None] for each in law.transform(z))
    values, root = sparse_rule(z, transform, slope, law.mean * np.ones((1, 1)), 1 + level, tolerance)
    share = root[:, 0] ** 2
    special, overlap = sparse_rule(z, *law.between(z, frame), law.average(frame), 1 + level, tolerance)

    nodes = np.concatenate([values, special])
    if isinstance(law, StretchedLaw):
        both = np.broadcast_to(np.maximum(nodes, _LEAST), (len(groups.weight), len(nodes)))
    else:
        both = _variances(step, law, groups, nodes, power, level[0])
    profile, special_profile = both[:, : len(values)], both[:, len(values) :]
    # The mean of all directions is known.
    mean = profile @ share
    a, a_square = groups.readout * math.sqrt(power), groups.readout_square * power
    mean_variance = step.stretch_square(a, a_square) + step.bulk * a_square
    return share, profile / mean[:, None], overlap, special_profile / mean[:, None], mean_variance


def _law(
    step: StepStatistics, samples: CorrelatedSamples | DampedSamples, readout: Readout, *, odd: bool
) -> CorrelatedLaw | DampedLaw | StretchedLaw:
    """Return the law of the matrix whose eigenvectors all directions get."""
    values, shares = readout_values(readout)
    strength = step.bulk / samples.bulk_trace
    if isinstance(samples, CorrelatedSamples) and len(values) == 1 and not odd:
        linear = step.curvature**2 * samples.ratio * samples.law.square
        value = float(values[0])
        return StretchedLaw(samples, step.curvature * value, max(strength - linear, 0.0) * value**2)
    strength *= readout.second_moment**3 / float(shares @ values**4)
    return DampedLaw(samples, strength) if isinstance(samples, DampedSamples) else CorrelatedLaw(samples, strength)


def _variances(
    step: StepStatistics,
    law: CorrelatedLaw | DampedLaw,
    groups: Groups,
    nodes: Array,
    power: float,
    lowest_level: float,
) -> Array:
    """Return the variances of the rows of each group in the eigenbasis of A at eigenvalues, shape (groups, nodes).

    Docs, "Correlated inputs", equation (C9).
    """
    c = law.samples.spectrum.eigenvalue
    height = np.maximum(nodes, lowest_level * law.mean)
    part, sampled = law.diagonals(height * (1 + _WIDTH * 1j))
    plain = part @ c
    a, a_square = groups.readout * math.sqrt(power), groups.readout_square * power
    # Means over a group of c (1 + a q c)^2.
    once, twice = law.samples.stretch
    stretched = c + 2 * step.drift * a[:, None] * once + step.drift**2 * a_square[:, None] * twice
    first = int(c.argmin())
    above = (stretched - stretched[:, [first]]) @ part.T
    above += np.outer(step.bulk / law.samples.bulk_trace * a_square, sampled)
    # Rows with ``a^2 = (E a^2)^3 / E a^4`` that are not stretched have the eigenvalue itself. No row has a variance
    # below the smallest eigenvalue of C.
    known = np.maximum(plain - c[first] + law.strength * sampled, NOTHING)
    return np.asarray(np.maximum(stretched[:, [first]] + above * np.maximum(nodes - c[first], 0.0) / known, _LEAST))
