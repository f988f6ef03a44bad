"""Classes of directions for the rows after a step on correlated inputs.

Rows of readout ``a`` have, in whitened inputs and off the spike, the covariance ``Sigma_a / d``. After a step whose
activation is not odd, and of readouts that are alike, directions get the eigenvectors of its mean over the readouts
(`gradstep.theory.neurons.row_rules`). Of readouts without a mean the matrix B of the samples enters by its mean,

    Sigma_a = C (1 + a q C)^2 + a^2 t' C S C,

and directions get the eigenvectors of ``A = C + t C S C`` with the square ``(E a^2)^3 / E a^4`` of a readout in ``t``.
Rows of this readout have its eigenvalues, those of others the diagonals of the other matrices in this basis. For an odd
activation that is exact for a readout of one size, for equal eigenvalues, and where the samples of the step are many.
For a Gaussian readout a third of the mean square is nearer to networks than all of it. Between the two a share of the
directions has either basis. This project.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from gradstep.problem import Readout
from gradstep.resolution import NOTHING
from gradstep.theory.neurons.correlated_law import CorrelatedLaw
from gradstep.theory.neurons.groups import Groups
from gradstep.theory.neurons.row_rules import LEAST, LEVELS, mean_law, resolved_law, row_variances, rules
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

Array = NDArray[np.float64]


def correlated_classes(
    step: StepStatistics,
    samples: CorrelatedSamples | DampedSamples,
    groups: Groups,
    readout: Readout,
    refine: float,
    *,
    odd: bool,
) -> Computation[tuple[Array, Array, Array, Array, Array, Array]]:
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
    components : ndarray, shape (special, 5) or (special, 0)
        Of the vectors with which the norm of a row varies, if groups know of it
        (`gradstep.theory.step.row_fluctuations.norm_vector`).
    """
    power = readout.second_moment
    found = []
    for weight, law in _laws(step, samples, readout, odd=odd):
        found.append((weight, *(yield from _classes(step, samples, law, groups, readout, refine))))
    share = np.concatenate([weight * share for weight, share, *_ in found])
    overlap = np.concatenate([math.sqrt(weight) * overlap for weight, _, _, overlap, *_ in found])
    components = np.concatenate([math.sqrt(weight) * components for weight, *_, components in found])
    profile, special_profile = (np.concatenate([basis[i] for basis in found], axis=1) for i in (2, 4))
    a, a_square = groups.readout * math.sqrt(power), groups.readout_square * power
    mean_variance = step.stretch_square(a, a_square) + step.bulk * a_square
    return share, profile, overlap, special_profile, mean_variance, components


def _classes(
    step: StepStatistics,
    samples: CorrelatedSamples | DampedSamples,
    law: CorrelatedLaw | DampedLaw | StretchedLaw,
    groups: Groups,
    readout: Readout,
    refine: float,
) -> Computation[tuple[Array, Array, Array, Array, Array]]:
    """Return `share`, `profile`, `overlap`, `special_profile` and `components` in the basis of one law.

    They are those of `correlated_classes`.
    """
    known, (sizes, _) = samples.spectrum, readout_values(readout)
    smallest, smallest_positive = known.eigenvalue.min(), known.eigenvalue[known.eigenvalue > 0].min()
    least = _LOWEST_DAMPED if isinstance(law, DampedLaw) else _LOWEST
    lowest = max(min(LEVELS[0], math.log10(smallest_positive) - 1), least)
    # Rows that the samples stretch may be shorter than any before the step.
    resolved = yield from resolved_law(
        law, samples.frame(step.alignment), refine,
        lowest=lowest, smallest=0.0 if law.stretched else smallest,
        longer=len(set(np.abs(sizes))) > 1, several=len(sizes) > 1,
        sampled=groups.knows_norms,
    )  # fmt: skip
    found = yield from rules(resolved)
    if isinstance(law, StretchedLaw) or law.stretched:
        profile, special_profile = row_variances(found, groups, step, readout)
    else:
        power = readout.second_moment
        nodes = np.concatenate([found.nodes, found.special])
        both = _variances(step, law, groups, nodes, power, 10.0**lowest)
        profile, special_profile = both[:, : len(found.nodes)], both[:, len(found.nodes) :]
    # The mean of all directions is known.
    mean = (profile @ found.share)[:, None]
    return found.share, profile / mean, found.overlap, special_profile / mean, found.components


def _laws(
    step: StepStatistics, samples: CorrelatedSamples | DampedSamples, readout: Readout, *, odd: bool
) -> Iterator[tuple[float, CorrelatedLaw | DampedLaw | StretchedLaw]]:
    """Yield the laws of matrices whose eigenvectors directions get, with the shares of these."""
    values, shares = readout_values(readout)
    strength = step.bulk / samples.bulk_trace * readout.second_moment**3 / float(shares @ values**4)
    alike = 0.0 if odd else 1.0 if len(values) == 1 else readout.mean**2 / readout.second_moment
    if alike > 0:
        yield alike, mean_law(samples, step, readout)
    if alike < 1:
        if isinstance(samples, DampedSamples):
            yield 1 - alike, DampedLaw(samples, strength)
        else:
            yield 1 - alike, CorrelatedLaw(samples, strength)


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
    return np.asarray(np.maximum(stretched[:, [first]] + above * np.maximum(nodes - c[first], 0.0) / known, LEAST))
