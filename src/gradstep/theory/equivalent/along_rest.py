"""Nodes of a second coordinate for each node of kappa, and the teacher at them.

Features are resolved along a second direction, which is the teacher's rest or near it. With the coordinates kappa on
the spike, t on that direction and y on the rest, all standard normal, the teacher is a function of their sum with the
overlaps of the teacher as weights. The average over y is taken here.

The square loss asks for the teacher's projection on polynomials only, and the Gauss-Hermite rule has the fewest nodes.
Other losses ask for the law of the label at each node, and turn it into pulls that bend over shorter lengths. Where the
teacher jumps or bends, each side has nodes of its own, so that a node has one label.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradstep.gaussian import ScalarFunction, hermite_rule, smoothed
from gradstep.gaussian.orthogonal_polynomials import orthogonal_polynomials
from gradstep.gaussian.panels import legendre_rule
from gradstep.gaussian.quadrature import gaussian_density

__all__ = [
    "RANGE",
    "AlongRest",
    "Overlaps",
    "breakpoints",
    "on_a_lattice",
    "on_either_side",
    "on_the_whole_line",
    "teacher_along_rest",
]

Array = NDArray[np.float64]

#: Standard deviations that are covered; what is beyond changes errors by less than 1e-9 as a rule, and more only where
#: a few inputs hide all others, which is refused later.
RANGE = 7.6
#: Largest and least length of a panel in the coordinate along the teacher's rest, and its nodes.
_PANEL, _PANEL_LEAST, _PANEL_NODES = 0.95, 0.1, 12
#: Distance of the teacher's poles, in the coordinate along its rest, below which each change of its sign has nodes of
#: its own; and how far these reach, in units of that distance.
_STEEP, _WIDE = 0.7, 2.5
#: Reach of the lattice.
_LATTICE = 5.4
#: Where a steep teacher may change its sign.
_PLACES = np.linspace(-9.0, 9.0, 3601)
#: A side of a jump with less probability than the first is left out. The others have as many nodes as their probability
#: to the second, a power, times the most.
_NONE, _FEWER = 1e-12, 0.1
#: Least probability of a node of the Gauss-Hermite rule. At the outermost of hundreds of nodes polynomials overflow.
_LEAST_NODE = 1e-100


class Overlaps(NamedTuple):
    """Overlaps of the teacher with the spike, the second direction, and what is orthogonal to both: squares sum to one.

    The last two are not negative, and not both zero.
    """

    spike: float
    second: float
    rest: float

    @classmethod
    def of(cls, alignment: float, second: float) -> Overlaps:
        """Return the overlaps, given that with the spike and that of the second direction with the teacher's rest."""
        off_spike = math.sqrt(max(1 - alignment**2, 0.0))
        return cls(alignment, off_spike * second, off_spike * math.sqrt(max(1 - second**2, 0.0)))


class AlongRest(NamedTuple):
    """Nodes along the second direction, shape (kappas, nodes)."""

    #: Coordinates and their probabilities given kappa. A share of zero is that of no node.
    t: Array
    share: Array
    #: The teacher's mean at the nodes, and its slope along the rest.
    mean: Array
    slope: Array
    hidden: Array  #: The mean square of what mean and slope do not have of the teacher.


def on_the_whole_line(known: Array, square: Array, second: float) -> AlongRest:
    """Return the nodes of the Gauss-Hermite rule, one less than there are coefficients, as far as they count.

    The coefficients of the teacher along its part off the spike are `known`, shape (nodes + 1, kappas), see
    `teacher_along_rest`. The mean square of the teacher is `square`, shape (kappas,), and the overlap of the second
    direction with the teacher's part off the spike is `second`.
    """
    degree = np.arange(len(known) - 1)[:, None]
    # The average over the rest lowers a coefficient by a power of the overlap. That of the degree above is the slope.
    shrunk = second**degree
    mean, slope = shrunk * known[:-1], math.sqrt(max(1 - second**2, 0.0)) * np.sqrt(degree + 1) * shrunk * known[1:]
    t, share = hermite_rule(len(degree))
    counts = share > _LEAST_NODE
    t, share = t[counts], share[counts]
    # The fit knows the teacher's projection on polynomials; the rest of it acts as noise.
    hidden = np.maximum(square - (mean**2 + slope**2).sum(axis=0), 0.0)
    t, share, hidden = np.broadcast_arrays(t, share, hidden[:, None])
    values = _hermite(t[0], len(degree))
    return AlongRest(t, share, mean.T @ values, slope.T @ values, hidden)


def _averaged(teacher: ScalarFunction, places: Array, overlaps: Overlaps) -> tuple[Array, Array, Array]:
    """Return mean, slope and what is left of the mean square of the teacher at places, over the coordinate y."""
    if overlaps.rest == 0:
        values = np.asarray(teacher(places))
        return values, np.zeros_like(values), np.zeros_like(values)
    found = smoothed(teacher, places, overlaps.rest)
    return found.mean, found.slope, np.maximum(found.second_moment - found.mean**2 - found.slope**2, 0.0)


def _hermite(t: Array, count: int) -> Array:
    """Return normalised Hermite polynomials below a degree, shape (count, ...)."""
    values = [np.ones_like(t), t]
    for degree in range(2, count):
        values.append((t * values[-1] - math.sqrt(degree - 1) * values[-2]) / math.sqrt(degree))
    return np.stack(values[:count])


def teacher_along_rest(teacher: ScalarFunction, alignment: float, kappa: Array, count: int) -> Array:
    """Return ``E[h_k(t) f*(gamma kappa + rho t)]`` for the normalised Hermite polynomials, shape (count, nodes).

    By Gauss-Legendre rules on panels in ``t`` that end at the teacher's kinks, which are elsewhere for each kappa.
    """
    rest = np.sqrt(1 - alignment**2)
    panel = _panel(teacher, rest)
    ends = np.tile(np.arange(-RANGE, RANGE + panel, panel), (len(kappa), 1))
    kinks = [np.clip((kink - alignment * kappa) / rest, ends[0, 0], ends[0, -1]) for kink in teacher.kinks]
    ends = np.sort(np.concatenate([ends, *(kink[:, None] for kink in kinks)], axis=1), axis=1)
    x, weight = legendre_rule(_PANEL_NODES)
    half = np.diff(ends)[..., None] / 2
    t = ends[:, :-1, None] + half * (1 + x)
    values = np.asarray(teacher(alignment * kappa[:, None, None] + rest * t))
    values = values * half * weight * gaussian_density(t)
    return np.asarray((_hermite(t, count) * values).sum(axis=(-2, -1)))


def _panel(teacher: ScalarFunction, rest: float) -> float:
    """Return the length of a panel on which a polynomial stands for the teacher."""
    return float(np.clip(teacher.pole_distance / rest, _PANEL_LEAST, _PANEL))


def on_a_lattice(teacher: ScalarFunction, overlaps: Overlaps, kappa: Array, step: float) -> AlongRest:
    """Return nodes at the distance of a step, shifted by half of it from one kappa to the next.

    What a loss makes of a smooth teacher turns faster than the teacher. A trapezoidal rule sees functions that are
    smooth over its step, and the leading error of these changes its sign with the shift.
    """
    count = math.ceil(_LATTICE / step)
    shift = np.where(np.arange(len(kappa)) % 2, 0.75, 0.25)[:, None]
    t = np.asarray(step * (np.arange(-count, count) + shift), dtype=np.float64)
    density = gaussian_density(t)
    seen = _averaged(teacher, overlaps.spike * kappa[:, None] + overlaps.second * t, overlaps)
    return AlongRest(t, density / density.sum(axis=1, keepdims=True), *seen)


def breakpoints(teacher: ScalarFunction, alignment: float) -> Array:
    """Return the teacher's kinks, and the ends of the intervals in which it changes its sign if it does so steeply.

    The points, shape (points,), are values of the teacher's argument. The overlap of the spike with the teacher, below
    one, is `alignment`.
    """
    kinks = np.array(teacher.kinks)
    if teacher.pole_distance >= _STEEP * np.sqrt(1 - alignment**2):
        return kinks
    values = np.asarray(teacher(_PLACES))
    before = np.flatnonzero(np.diff(values > 0))
    step = _PLACES[before + 1] - _PLACES[before]
    zeros = _PLACES[before] + step * values[before] / (values[before] - values[before + 1])
    width = _WIDE * teacher.pole_distance
    return np.union1d(kinks, np.concatenate([zeros - width, zeros + width]))


def on_either_side(teacher: ScalarFunction, overlaps: Overlaps, kappa: Array, ends: Array, count: int) -> AlongRest:
    """Return Gaussian rules of the pieces of a normal law between points.

    The rule of a piece comes from its orthogonal polynomials, made by Lanczos' method on a fine rule. The teacher at
    the nodes is its projection on the same polynomials, or its average over the rest if there is one.

    The ends of the pieces are values of the teacher's argument. A piece of probability one has `count` nodes; those of
    less have fewer.
    """
    places = np.clip((np.sort(ends) - overlaps.spike * kappa[:, None]) / overlaps.second, -RANGE, RANGE)
    edges = np.pad(places, ((0, 0), (1, 1)), constant_values=((0, 0), (-RANGE, RANGE)))
    panels = int(np.ceil(2 * RANGE / _panel(teacher, overlaps.second)))
    nodes, weight = legendre_rule(_PANEL_NODES)
    x = ((2 * np.arange(panels) + 1)[:, None] + nodes).ravel() / panels - 1
    half, middle = np.diff(edges)[..., None] / 2, (edges[:, 1:] + edges[:, :-1])[..., None] / 2
    t = middle + half * x
    density = half * np.tile(weight / panels, panels) * gaussian_density(t)
    mass = density.sum(axis=-1)
    values = np.asarray(teacher(overlaps.spike * kappa[:, None, None] + overlaps.second * t))
    # A piece of no length has no law: any will do.
    law = np.where(mass[..., None] > _NONE, density, 1.0)
    law /= law.sum(axis=-1, keepdims=True)
    jacobi, known = orthogonal_polynomials(x, law, values, count)
    square = (law * values**2).sum(axis=-1)
    of_piece = np.clip(np.ceil(count * mass**_FEWER), 1, count)
    found = np.zeros((4, *mass.shape, count))
    for size in range(1, count + 1):
        here = (of_piece == size) & (mass > _NONE)
        place, vectors = np.linalg.eigh(jacobi[here][:, :size, :size])
        first, coefficients = vectors[:, 0], known[here][:, :size]
        found[0, here, :size] = middle[here] + half[here] * place
        found[1, here, :size] = mass[here][:, None] * first**2
        found[2, here, :size] = np.vecmat(coefficients, vectors) / first
        found[3, here, :size] = np.maximum(square[here] - (coefficients**2).sum(axis=-1), 0.0)[:, None]
    t, share, mean, hidden = found.reshape(4, len(kappa), -1)
    if overlaps.rest:
        return AlongRest(t, share, *_averaged(teacher, overlaps.spike * kappa[:, None] + overlaps.second * t, overlaps))
    return AlongRest(t, share, mean, np.zeros_like(mean), hidden)
