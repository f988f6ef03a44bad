"""A sample of the gradient step when inputs are correlated: its projections on the gradient and on what C makes of it.

Inputs are ``x = C^(1/2) z`` with isotropic ``z``, and rows are told by what they do to ``z``: ``om = C^(1/2) w``, of
covariance ``C / d`` before the step. The teacher's direction is ``bt = C^(1/2) beta*``, a unit vector. With ``g = Z^T r
/ n_step`` the step adds ``C g`` to every row, so that ``v = C g / |C g|``. Given the residual r of a sample and its
projection u on bt,

    <z, C^k g>  =  mu_1* <c^k>_bt u  +  phi0 <c^k> r  +  noise,

where ``<c^k>`` is the mean over all directions and ``<c^k>_bt`` the mean with the teacher's weights. This project.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache, reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradstep.inputs import Inputs
from gradstep.resolution import NOTHING
from gradstep.theory.step.weighted_samples import Residual

__all__ = [
    "ISOTROPIC",
    "CorrelatedSamples",
    "OwnOutput",
    "Spectrum",
    "SpikeBeside",
    "Turn",
    "completed_frame",
    "plane_frame",
    "words_trace",
]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Spectrum:
    """Classes of eigenvectors of the inputs' covariance."""

    #: Eigenvalues, the share of the directions in each class, and the teacher's part ``|bt|^2`` there. Both sum to one,
    #: and so does ``share * eigenvalue``. Shape (classes,).
    eigenvalue: Array
    share: Array
    teacher: Array

    @classmethod
    def of(cls, inputs: Inputs) -> Spectrum:
        """Return the classes of a law of the inputs."""
        return cls(np.asarray(inputs.eigenvalues), np.asarray(inputs.share), np.asarray(inputs.teacher))

    @cached_property
    def _moments(self) -> dict[int, float]:
        """The moments that somebody has asked for."""
        return {}

    def moment(self, power: int) -> float:
        """Return ``<c^k>``, the mean power over all directions."""
        if power not in self._moments:
            self._moments[power] = float(self.share @ self.eigenvalue**power)
        return self._moments[power]

    def teacher_moment(self, power: int) -> float:
        """Return ``<c^k>_bt = bt.C^k.bt``."""
        return float(self.teacher @ self.eigenvalue**power)


#: The spectrum of isotropic inputs.
ISOTROPIC = Spectrum(np.ones(1), np.ones(1), np.ones(1))


class Turn(NamedTuple):
    """The gradient of one draw: factors in each class of directions. In the mean gradient they are the same in all."""

    signal: Array  #: The component along bt, over that of bt: ``mu_1*`` in the mean. Shape (classes,).
    noise: Array  #: The length of ``Z_perp^T r / n_step``, over its mean. Shape (classes,).


class OwnOutput(NamedTuple):
    """The part of a residual that is the linear part of an initial output of order one.

    That part is ``mu_1 |f| u_f`` with ``u_f = <f, z> / |f|``. The vector ``f`` is a sum of all rows and lies in the
    classes of directions as a row does.
    """

    linear: float  #: ``E[u_f r]``, which is ``-mu_1 |f|``.
    mean: Array  #: ``E[u_f | u, r]`` at the nodes of the law. Shape (nodes,).
    variance: float  #: ``Var(u_f | u, r)``.


class SpikeBeside(NamedTuple):
    """What a spike has beside its part along the teacher."""

    #: Its parts along ``f / |f|`` and along C times it.
    output: float
    output_by_c: float
    signal: Array  #: A factor of the latter in each class, shape (classes,).
    random: float  #: The multiple of ``C Z_perp^T r / n_step``, which is one for the gradient.


@dataclass(frozen=True)
class CorrelatedSamples:
    """Averages over the samples of the step.

    Docs, "Own output", equation (W6).
    """

    law: Residual  #: The law of ``u`` and ``r``.
    ratio: float  #: ``phi0 = d / n_step``.
    linear: float  #: ``mu_1* = E u r``.
    spectrum: Spectrum
    #: The gradient g of one draw; otherwise it is the mean one. Only its direction and length know of it: `norm`,
    #: `alignment`, `frame`, and the law of the rows along it.
    turn: Turn | None = None
    #: An initial output of order one: the gradient then has the part ``E[u_f r] f / |f|`` beside that of the
    #: teacher.
    own: OwnOutput | None = None
    #: Parts of the spike beside that along the teacher, where they differ from those of the gradient.
    beside: SpikeBeside | None = None
    #: Shape (classes,): the mean that the quadratic part of the network's own output gives B in each class, equation
    #: (W6). The gradient does not know of it.
    by_output: Array | None = None

    def up_to(self, largest: float) -> CorrelatedSamples:
        """Return the samples with larger residuals as large as this, and their products with what they depend on."""
        law, own = self.law.up_to(largest), self.own
        if own is not None:
            own = own._replace(linear=law.mean(own.mean * law.residual))
        return replace(self, law=law, linear=law.mean(law.projection * law.residual), own=own)

    @cached_property
    def norm(self) -> float:
        """``|C g|``."""
        return math.sqrt(self.spike @ self.among(0) @ self.spike)

    @cached_property
    def alignment(self) -> float:
        """``<v, bt>``, or one without a gradient."""
        return float(self.among(0)[0] @ self.spike) / self.norm if self.norm > 0 else 1.0

    @property
    def spike(self) -> Array:
        """``C g`` in the terms of `among`, or what else the spike is along."""
        linear, beside = self.linear if self.turn is None else 1.0, self.beside
        if self.own is None:
            return np.array([0.0, linear, 1.0 if beside is None else beside.random])
        if beside is None:
            return np.array([0.0, 0.0, linear, self.own.linear, 1.0])
        return np.array([0.0, beside.output, linear, beside.output_by_c, beside.random])

    @property
    def directions(self) -> tuple[Array, Array, Array]:
        """The directions that a residual depends on: bt and, with an own output, ``f / |f|``.

        They come as mean projections of a sample on them, shape (directions, nodes), the variances of these at a node,
        shape (directions,), and the part of each in the classes of C, shape (directions, classes).
        """
        u, known = self.law.projection, self.spectrum
        if self.own is None:
            return u[None], np.zeros(1), known.teacher[None]
        parts = np.stack([known.teacher, known.share * known.eigenvalue])
        return np.stack([u, self.own.mean]), np.array([0.0, self.own.variance]), parts

    @cached_property
    def turned(self) -> Turn:
        """Factors of ``C bt`` and of ``C Z_perp^T r / n_step`` in each class: one in the mean."""
        one = np.ones_like(self.spectrum.eigenvalue)
        return Turn(one, one) if self.turn is None else self.turn

    @property
    def signal(self) -> Array:
        """The component of g along bt in each class, over that of bt: ``mu_1*`` if it is the mean one."""
        return np.full_like(self.spectrum.eigenvalue, self.linear) if self.turn is None else self.turn.signal

    @property
    def taught(self) -> Array:
        """The component of ``C g`` along bt in each class, over that of bt."""
        return self.made * self.signal

    @property
    def signals(self) -> list[Array]:
        """Factors in each class of C times the `directions`: those of `turned`, of which f knows nothing.

        That of f has the spike's own part along it, where the spike has another one than the gradient.
        """
        return [self.turned.signal] if self.own is None else [self.turned.signal, self.output_signal]

    @property
    def output_signal(self) -> Array:
        """The factor in each class of C times f."""
        return np.ones_like(self.spectrum.eigenvalue) if self.beside is None else self.beside.signal

    @property
    def added(self) -> Array:
        """`by_output`, or zeros where the own output adds nothing to B."""
        return np.zeros_like(self.spectrum.eigenvalue) if self.by_output is None else self.by_output

    @property
    def mean_b(self) -> Array:
        """The mean of B in each class: ``E r`` and what the own output adds."""
        return np.asarray(self.mean(self.law.residual) + self.added)

    @cached_property
    def _moments_of_b(self) -> dict[tuple[int, int], float]:
        """The means that somebody has asked `moment_of_b` for."""
        return {}

    def moment_of_b(self, power: int, times: int = 1) -> float:
        """Return the mean of ``c^power`` times a power of `mean_b` over all directions."""
        known, key = self._moments_of_b, (power, times)
        if key not in known:
            known[key] = float(self.spectrum.share @ (self.spectrum.eigenvalue**power * self.mean_b**times))
        return known[key]

    @property
    def without_output(self) -> CorrelatedSamples:
        """The samples without what the own output adds to B."""
        return replace(self, by_output=None)

    @property
    def made(self) -> Array:
        """What the step makes of a direction that the residuals hold, in each class: C."""
        return self.spectrum.eigenvalue

    @property
    def random_square(self) -> float:
        """``|C Z_perp^T r / n_step|^2``."""
        return self.random_form(np.ones_like(self.spectrum.eigenvalue))

    def random_form(self, values: Array) -> float:
        """Return the same with a function of C between, given by its values."""
        return self.ratio * self.law.square * float(self.spectrum.share @ (values * self.spectrum.eigenvalue**2))

    @property
    def stretch(self) -> tuple[Array, Array]:
        """Mean products of rows with what the step's linear part makes of them, and its mean squares, in each class."""
        c = self.spectrum.eigenvalue
        return c**2, c**3

    @property
    def pairs(self) -> Array:
        """``C E C F C`` with the matrices E and F of different samples, of weights one, in each class of directions."""
        return np.asarray(self.spectrum.eigenvalue**3)

    @property
    def own_gain(self) -> float:
        """Mean square of what the mean of the step's linear part makes of a row; the rest of it counts as noise."""
        return self.spectrum.moment(3)

    @property
    def bulk_trace(self) -> float:
        """``(1/d) tr C S C`` of samples with weights of mean one."""
        return self.spectrum.moment(2)

    @property
    def sampled(self) -> Array:
        """The diagonal of ``C S C`` in each class of directions."""
        return np.asarray(self.spectrum.eigenvalue**2)

    def form(self, power: int) -> float:
        """Return ``g.C^k.g``."""
        return self.form_of(self.spectrum.eigenvalue**power)

    def form_of(self, values: Array) -> float:
        """Return the same with a function of C in place of its power, given by its values."""
        own = self.own.linear**2 if self.own else 0.0
        return self._form(self.linear**2, self.law.square, own, values)

    def _form(self, by_teacher: float, by_samples: float, by_output: float, values: Array) -> float:
        """Return a function of C between two sums over samples, from the products of their parts."""
        known = self.spectrum
        noise = self.ratio * by_samples * float(known.share @ values)
        own = by_output * float(known.share @ (known.eigenvalue * values))
        return by_teacher * float(known.teacher @ values) + noise + own

    @property
    def relative_variance_of_square(self) -> float:
        """``n_step`` times the relative variance of ``|C g|^2`` that the averages of ``u r`` and ``r^2`` make."""
        r, u = self.law.residual, self.law.projection
        signal, noise = self.linear * self.spectrum.teacher_moment(2), self.ratio * self.spectrum.moment(2)
        return self.law.relative_variance(2 * signal * u * r + noise * r**2, self.norm**2)

    def quadratic(self, values: Array) -> float:
        """Return the form of the vector of `norm` with a function of C, given by its values."""
        return float(self.spike @ self._among(values) @ self.spike)

    def among(self, power: int) -> Array:
        """Return ``C^k`` between bt, ``C bt`` and ``C Z_perp^T r / n_step``, of which `frame` is made.

        The last two are `turned`. With an own output ``f / |f|`` comes after bt, and C times it after ``C bt``.
        """
        return self._among(self.spectrum.eigenvalue**power)

    def _among(self, values: Array) -> Array:
        known, (signal, noise) = self.spectrum, self.turned
        c = known.eigenvalue
        one, two, three = (known.teacher @ (values * (signal * c) ** k) for k in (0, 1, 2))
        last = self.ratio * self.law.square * float(known.share @ (values * (noise * c) ** 2))
        if self.own is None:
            return np.array([[one, two, 0.0], [two, three, 0.0], [0.0, 0.0, last]])
        found = np.zeros((5, 5))
        first, second, third = (known.share @ (values * c * (self.output_signal * c) ** k) for k in (0, 1, 2))
        found[:4:2, :4:2] = [[one, two], [two, three]]
        found[1:4:2, 1:4:2] = [[first, second], [second, third]]
        found[-1, -1] = last
        return found

    def frame(self, alignment: float) -> Array:
        """Return a unit vector in the plane of v and bt, and one orthogonal to it there, as columns.

        The first one has the overlap `alignment` with bt.
        """
        spike = self.spike / self.norm
        return plane_frame(alignment, self.alignment, np.eye(len(spike))[0], spike)

    def whole_frame(self, alignment: float) -> Array:
        """Return `frame` and, with an own output, the unit vector of the rest of ``f`` as a third column."""
        return completed_frame(self.frame(alignment), self.among(0), 1) if self.own else self.frame(alignment)

    def with_output(self, frame: Array) -> Array:
        """Return the components of ``f / |f|`` along the vectors of a frame."""
        return np.asarray(frame.T @ self.among(0)[1])

    def form_along(self, alignment: float, power: int = 1) -> float:
        """Return ``C^k`` along the first vector of `frame`; C itself is the variance of initial rows there, times d."""
        vector = self.frame(alignment)[:, 0]
        return float(vector @ self.among(power) @ vector)

    def mean(self, values: Array) -> float:
        """Return the average of values at the nodes of the law."""
        return self.law.mean(values)

    def along(self, power: int) -> Array:
        """Return the mean of ``<z, C^k g>`` at the nodes.

        Docs, "Own output", equation (W3).
        """
        by_teacher = self.linear * self.spectrum.teacher_moment(power) * self.law.projection
        along = np.asarray(by_teacher + self.ratio * self.spectrum.moment(power) * self.law.residual)
        if self.own is not None:
            along += self.own.linear * self.spectrum.moment(power + 1) * self.own.mean
        return along

    def spread(self, one: int, other: int) -> float:
        """Return the covariance of ``<z, C^k g>`` and ``<z, C^l g>`` at a node."""
        known = self.spectrum.teacher_moment
        by_teacher = self.linear**2 * (known(one + other) - known(one) * known(other))
        by_output = self.own.linear**2 * self._spread_of_output(one, other) if self.own else 0.0
        return by_teacher + self.ratio * self.law.square * self.spectrum.moment(one + other) + by_output

    def _spread_of_output(self, one: int, other: int) -> float:
        """Return the covariance at a node of a sample's projections on ``C^k f`` and ``C^l f``, over ``|f|^2``."""
        assert self.own is not None
        moment = self.spectrum.moment
        return moment(one + other + 1) - (1 - self.own.variance) * moment(one + 1) * moment(other + 1)

    def square(self, weight: Array, one: int = 2, other: int = 2) -> float:
        """Return ``E[weight <z, C^k g> <z, C^l g>]``."""
        return self.mean(weight * (self.along(one) * self.along(other) + self.spread(one, other)))

    def through_b(self, one: int, other: int) -> float:
        """Return ``g.C^k B C^l.g``."""
        added = self.form_of(self.added * self.spectrum.eigenvalue ** (one + other))
        return self.square(self.law.residual, one, other) + added

    @cached_property
    def squares_to_teacher(self) -> float:
        """``E[r^2 u]``."""
        return self.mean(self.law.residual**2 * self.law.projection)

    @cached_property
    def squares_to_output(self) -> float:
        """``E[r^2 u_f]``, or zero if the initial output is small."""
        return self.mean(self.law.residual**2 * self.own.mean) if self.own else 0.0

    def squares_form(self, power: int) -> float:
        """Return ``h.C^k.h`` with ``h = Z^T r^2 / n_step``."""
        fourth = self.mean(self.law.residual**4)
        values = self.spectrum.eigenvalue**power
        return self._form(self.squares_to_teacher**2, fourth, self.squares_to_output**2, values)

    def crossed_form(self, power: int) -> float:
        """Return ``g.C^k.h``."""
        return self.crossed_form_of(self.spectrum.eigenvalue**power)

    def crossed_form_of(self, values: Array) -> float:
        """Return the same with a function of C in place of its power, given by its values."""
        third, own = self.mean(self.law.residual**3), self.own.linear if self.own else 0.0
        return self._form(self.linear * self.squares_to_teacher, third, own * self.squares_to_output, values)

    def squares_between(self) -> float:
        """Return ``h.C.B.C^2.g``: what a sample has along ``C h`` and along ``C^2 g``, weighted by its residual."""
        r, known, along = self.law.residual, self.spectrum, self.along(2)
        t_1, t_2 = known.teacher_moment(1), known.teacher_moment(2)
        made = self.ratio * r**2 + self.squares_to_teacher * t_1 * self.law.projection
        apart = self.linear * self.squares_to_teacher * t_1 * t_2
        if self.own is not None:
            made = made + self.squares_to_output * known.moment(2) * self.own.mean
            seen = self.own.linear * self.squares_to_output * known.moment(2) * known.moment(3)
            apart += (1 - self.own.variance) * seen
        whole = self.crossed_form_of(self.mean_b * known.eigenvalue**3)
        return self.mean(r * made * along) - self.mean(r) * apart + whole

    def stretched_form(self) -> float:
        """Return ``|C^1/2 B C^2 g|^2``.

        ``B C^2 g`` has parts along bt and along f, the mean of B in each class times ``C^2 g``, and a sum over samples
        that are independent else.
        """
        r, phi0, known, along = self.law.residual, self.ratio, self.spectrum, self.along(2)
        c, r0, mean_b = known.eigenvalue, self.mean(r), self.mean_b
        to_teacher = self.mean(r * self.law.projection * along) - r0 * self.linear * known.teacher_moment(2)
        square = to_teacher**2 * known.teacher_moment(1) + self.form_of(mean_b**2 * c**5)
        square += 2 * to_teacher * self.linear * float(known.teacher @ (mean_b * c**3))
        square += 2 * phi0 * self.moment_of_b(3) * self.mean(r**2 * along)
        if self.own is not None:
            hidden = (1 - self.own.variance) * self.own.linear * known.moment(3)
            to_output = self.mean(r * self.own.mean * along) - r0 * hidden
            square += to_output**2 * known.moment(2) + 2 * to_output * self.own.linear * self.moment_of_b(4)
        return square + phi0 * self.square(r**2)


def plane_frame(alignment: float, of_spike: float, teacher: Array, spike: Array) -> Array:
    """Return a unit vector in the plane of the spike and the teacher, and one orthogonal to it there, as columns.

    The overlaps of the first vector and of the spike with the teacher are `alignment` and `of_spike`. `teacher` and
    `spike` are unit vectors, shape (coordinates,), and the columns have shape (coordinates, 2).
    """
    rest = math.sqrt(max(1 - of_spike**2, NOTHING))
    across, other = (spike - of_spike * teacher) / rest, math.sqrt(max(1 - alignment**2, 0.0))
    return np.stack([alignment * teacher + other * across, other * teacher - alignment * across], axis=1)


def completed_frame(frame: Array, products: Array, place: int) -> Array:
    """Return a frame with one more column: the unit vector of what is left of the term at a place.

    The frame, shape (terms, vectors), has orthonormal columns. `products`, shape (terms, terms), are the scalar
    products of the terms, and `place` is the number of the term.
    """
    term = np.eye(len(frame))[place]
    rest = term - frame @ (frame.T @ products @ term)
    return np.column_stack([frame, rest / math.sqrt(max(rest @ products @ rest, NOTHING))])


def _partitions(places: Sequence[int]) -> Iterator[list[list[int]]]:
    if not places:
        yield []
        return
    for partition in _partitions(places[1:]):
        yield [[places[0]], *partition]
        for k, block in enumerate(partition):
            yield [*partition[:k], [places[0], *block], *partition[k + 1 :]]


class _Partition(NamedTuple):
    """A partition without crossings of places in a circle."""

    together: tuple[tuple[int, ...], ...]  # Blocks of several places.
    # Blocks of the gaps after the places: those of the complement (Kreweras). Each has the places that are blocks of
    # their own beside the gaps of the block.
    gaps: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]


@lru_cache
def _crossing_free(count: int) -> tuple[_Partition, ...]:
    """Return the partitions without crossings of places in a circle."""
    found = []
    for partition in _partitions(range(count)):
        # As a permutation whose cycles are the blocks. Its inverse after the turn by one place has the gaps as cycles:
        # with the blocks one more than there are places, and fewer with a crossing.
        back = {block[(k + 1) % len(block)]: block[k] for block in partition for k in range(len(block))}
        left, gaps = set(range(count)), []
        while left:
            cycle = [min(left)]
            while (place := back[(cycle[-1] + 1) % count]) != cycle[0]:
                cycle.append(place)
            left -= set(cycle)
            # The gaps before and after a place that is alone are in one block.
            gaps.append((tuple(cycle), tuple(place for place in cycle if back[place] == place)))
        if len(partition) + len(gaps) == count + 1:
            together = tuple(tuple(block) for block in partition if len(block) > 1)
            found.append(_Partition(together, tuple(gaps)))
    return tuple(found)


def words_trace(samples: CorrelatedSamples, letters: Sequence[Array | None], powers: list[int]) -> float:
    """Return ``(1/d) tr X_1 C^p1 X_2 C^p2 ...`` for matrices ``X = Z^T diag(weight) Z / n_step`` of the samples.

    The sum is over partitions without crossings: a block of matrices that share a sample has ``phi0^(k-1)`` times the
    mean of the product of their weights, and a block of the complement has the mean of C to the sum of its powers. A
    matrix that shares its samples with no other stands for its mean. That of B differs between the classes of C, and so
    it is a part of the block of the complement around it.

    For each matrix `letters` has the weights of the samples at the nodes, shape (nodes,), or None for B: its weights
    are the residuals, and `by_output` is added. `powers` are those of C after each matrix.
    """
    if not letters:
        return samples.spectrum.moment(sum(powers))
    weights = [samples.law.residual if letter is None else letter for letter in letters]

    @cache
    def shared(block: tuple[int, ...]) -> float:
        product = reduce(np.multiply, (weights[k] for k in block))
        return float(samples.ratio ** (len(block) - 1) * samples.mean(product))

    @cache
    def between(gap: tuple[int, ...], alone: tuple[int, ...]) -> float:
        others = [k for k in alone if letters[k] is not None]
        power, times = sum(powers[k] for k in gap), len(alone) - len(others)
        return math.prod(shared((k,)) for k in others) * samples.moment_of_b(power, times)

    return sum(
        math.prod(map(shared, blocks)) * math.prod(between(*gap) for gap in gaps)
        for blocks, gaps in _crossing_free(len(letters))
    )
