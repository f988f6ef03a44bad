r"""A sample of a damped step: its projections on what the damped metric makes of the gradient.

In whitened inputs (`gradstep.theory.step.correlated_samples`) a damped step multiplies the gradient by

    P = (1 + delta) (Z^T Z / n_step + delta C^-1)^-1,

where the plain step has C. The matrix knows the samples whose sum it multiplies. With the effective ridge ``kappa``,

    delta = kappa (1 - phi0 <c / (c + kappa)>),    k = c / (c + kappa),    f = phi0 <k^2>,

what ``P Z^T Z / n_step`` makes of a direction has the mean ``(1 + delta) k``, and the noise of samples left out is
``1/(1 - f)`` times as large as if the matrix did not know them. This project.
Docs, "Damped steps", equation (N1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradstep.resolution import NOTHING
from gradstep.theory.step.correlated_samples import (
    CorrelatedSamples,
    OwnOutput,
    Spectrum,
    Turn,
    completed_frame,
)
from gradstep.theory.step.weighted_samples import Residual

__all__ = ["DampedSamples", "Directed", "ResidualRule", "Sources"]

#: Least eigenvalue of C that another number is divided by.
_LEAST = 1e-12
#: Digits up to which residuals are equal.
_DIGITS = 13
#: Parts of the law of a residual that have two nodes each where few are enough.
_CELLS = 24

Array = NDArray[np.float64]


class ResidualRule(NamedTuple):
    """A rule for a sample's residual."""

    powers: Array  #: Powers 0 to 4 of the residual, shape (5, nodes).
    weighted: Array  #: These with the weights of the nodes, shape (nodes, 5).
    place: NDArray[np.intp]  #: Where the nodes of the law are among those of the rule, shape (all nodes,).

    @classmethod
    def of(cls, residual: Array, weight: Array) -> ResidualRule:
        """Return the rule of given nodes, where equal ones are one."""
        _, first, place = np.unique(np.round(residual, _DIGITS), return_index=True, return_inverse=True)
        powers = residual[first] ** np.arange(5)[:, None]
        return cls(powers, np.ascontiguousarray((np.bincount(place, weight) * powers).T), place)

    def gathered(self, weights: Array) -> Array:
        """Return the sums of weights over the nodes of the law that are one here, shape (weights, nodes)."""
        return np.stack([np.bincount(self.place, each) for each in weights])

    def few(self) -> ResidualRule:
        """Return a rule of few nodes: in each of some cells two that have its moments up to the third."""
        # Nodes are in the order of the residual.
        residual, weight, fourth = self.powers[1], self.weighted[:, 0], self.weighted[:, 4]
        important = np.cumsum(weight + fourth / fourth.sum())
        cell = np.minimum((_CELLS * important / important[-1]).astype(int), _CELLS - 1)
        cell = np.cumsum(np.diff(cell, prepend=cell[0]) > 0)
        whole = np.bincount(cell, weight)
        mean = np.bincount(cell, weight * residual) / whole
        off = residual - mean[cell]
        square, cube = (np.bincount(cell, weight * off**power) / whole for power in (2, 3))
        scale = np.sqrt(np.maximum(square, (1e-9 * (1 + np.abs(mean))) ** 2))
        skew = cube / scale**3 / 2
        upper, lower = skew + np.hypot(skew, 1), skew - np.hypot(skew, 1)
        nodes = np.concatenate([mean + scale * upper, mean + scale * lower])
        return self.of(nodes, np.concatenate([-whole * lower, whole * upper]) / np.tile(upper - lower, 2))


class Sources(NamedTuple):
    """A vector as a sum: a function of C times bt, and ``P`` times another such function and a sum of the samples."""

    directly: float  #: The part along bt itself. It is kept apart because the others would lose digits beside it.
    #: The functions of C along bt, without and with P. Shape (classes,).
    direct: Array
    inner: Array
    weight: Array  #: Of the samples, of which the sum is orthogonal to bt. Shape (nodes,).
    noise: Array  #: A function of C that multiplies the sum, of mean one, shape (classes,).


class Directed(NamedTuple):
    """A direction that a residual depends on."""

    linear: float  #: Mean product of a sample's projection on it with the residual.
    projection: Array  #: Mean of that projection at the nodes of the law, shape (nodes,).
    variance: float  #: Its variance there.
    part: Array  #: The part of the direction in each class, shape (classes,).


@dataclass(frozen=True)
class DampedSamples:
    """Averages over the samples of a damped step, with ``theta = P g`` in place of the plain step's ``C g``."""

    plain: CorrelatedSamples  #: The same samples without damping.
    damping: float  #: ``delta``, finite.
    #: The theta of one draw; otherwise it is the mean one. The signal is its component along bt, over that of bt, and
    #: the noise multiplies what P is applied to in its other part. Only the direction and length of theta know of it:
    #: `norm`, `alignment`, `off_teacher`, `among`, `sources`, and the law of the rows along it.
    turn: Turn | None = None
    #: Shape (classes,): with an own output of order one, the part of theta along ``f / |f|`` in each class, if it is
    #: not that of the gradient. Only what knows of `turn` knows of it.
    output: Array | None = None

    @cached_property
    def law(self) -> Residual:
        """Law of ``u`` and ``r``, with ``E u^2 = 1`` and ``E u r = mu_1*`` to the last digit.

        What its nodes leave of them would be multiplied by ``1/delta``.
        """
        law = self.plain.law
        u = law.projection / math.sqrt(law.mean(law.projection**2))
        return replace(law, projection=u, residual=law.residual + (self.linear - law.mean(u * law.residual)) * u)

    def up_to(self, largest: float) -> DampedSamples:
        """Return the samples with larger residuals as large as this; see `CorrelatedSamples.up_to`."""
        return replace(self, plain=self.plain.up_to(largest))

    @cached_property
    def rules(self) -> tuple[ResidualRule, ResidualRule]:
        """Rules for the residual, of few nodes and of all."""
        whole = ResidualRule.of(self.law.residual, self.law.weight)
        return whole.few(), whole

    @cached_property
    def unsigned_rules(self) -> tuple[ResidualRule, ResidualRule]:
        """The same for its absolute value."""
        whole = ResidualRule.of(np.abs(self.law.residual), self.law.weight)
        return whole.few(), whole

    @property
    def added(self) -> Array:
        """The mean that the own output gives B in each class, as in `CorrelatedSamples`."""
        return self.plain.added

    @property
    def mean_b(self) -> Array:
        """The mean of B in each class, as in `CorrelatedSamples`."""
        return self.plain.mean_b

    @property
    def without_output(self) -> DampedSamples:
        """The samples without what the own output adds to B."""
        return replace(self, plain=self.plain.without_output)

    @property
    def mean_over_classes(self) -> float:
        """The mean of B over the classes, with the weights ``c p^2``: those of a plain step in its place."""
        weight = self.spectrum.share * self.stretch[1]
        return float(weight @ self.mean_b) / float(weight.sum())

    @property
    def ratio(self) -> float:
        """``phi0 = d / n_step``."""
        return self.plain.ratio

    @property
    def linear(self) -> float:
        """``mu_1* = E u r``."""
        return self.plain.linear

    @property
    def spectrum(self) -> Spectrum:
        """Eigenvalues of the inputs' covariance."""
        return self.plain.spectrum

    @property
    def own(self) -> OwnOutput | None:
        """What the residuals hold of an initial output of order one."""
        return self.plain.own

    @cached_property
    def directions(self) -> tuple[Directed, ...]:
        """The directions that a residual depends on: bt and, with an own output, ``f / |f|``."""
        known = self.spectrum
        found = [Directed(self.linear, self.law.projection, 0.0, known.teacher)]
        if self.own is not None:
            found.append(Directed(self.own.linear, self.own.mean, self.own.variance, known.share * known.eigenvalue))
        return tuple(found)

    @cached_property
    def ridge(self) -> float:
        """``kappa``, the effective ridge: above the damping, and at most the sum of both terms."""
        from scipy.optimize import brentq  # here: it loads for longer than a plain step takes to predict

        c, share, ratio, delta = self.spectrum.eigenvalue, self.spectrum.share, self.ratio, self.damping

        def gap(log_ridge: float) -> float:
            ridge = math.exp(log_ridge)
            return ridge * (1 - ratio * float(share @ (c / (c + ridge)))) - delta

        ends = math.log(delta) - 1e-9, math.log(delta + ratio) + 1e-9
        return math.exp(brentq(gap, *ends, xtol=1e-15, rtol=1e-14))

    @cached_property
    def kept(self) -> Array:
        """``k``, the part of each class of directions that the damped metric leaves of the whitened one."""
        return np.asarray(self.spectrum.eigenvalue / (self.spectrum.eigenvalue + self.ridge))

    @property
    def scale(self) -> float:
        """``1 + delta``."""
        return 1 + self.damping

    @cached_property
    def freedom(self) -> float:
        """``f``, the share of the samples that the metric takes up."""
        return self.ratio * float(self.spectrum.share @ self.kept**2)

    def trace(self, values: Array) -> float:
        """Return ``(1/d) z^T P V P z`` of a sample, for a function V of C given by its values."""
        known = float(self.spectrum.share @ (values * self.kept**2))
        return self.scale**2 * known / (1 - self.freedom)

    @property
    def bulk_trace(self) -> float:
        """``(1/d) tr P S P`` of samples with weights of mean one."""
        return self.trace(self._one)

    @property
    def sampled(self) -> Array:
        """The diagonal of ``P S P`` in each class of directions."""
        return np.asarray(self.scale**2 * self.kept**2 / (1 - self.freedom))

    @property
    def stretch(self) -> tuple[Array, Array]:
        """Products of rows with what the mean of ``P Z^T Z / n_step`` makes of them, and its squares, in each class."""
        made = self.scale * self.kept
        return self.spectrum.eigenvalue * made, self.spectrum.eigenvalue * made**2

    @property
    def pairs(self) -> Array:
        """``P E C F P`` with the matrices E and F of different samples, of weights one, in each class of directions.

        Docs, "Damped steps", equation (N8).
        """
        return self.pairs_with(self._one)

    def pairs_with(self, values: Array) -> Array:
        """Return ``P E V C F P`` for a function V of C given by its values: as `pairs`, in the mean over the classes.

        Docs, "Damped steps", equation (N8).
        """
        c, lost = values * self.spectrum.eigenvalue, self.freedom / (1 - self.freedom)
        mean = float(self.spectrum.share @ c)
        missed = c * (1 - self.kept) ** 2
        return np.asarray(self.scale**2 * (c * self.kept**2 + lost * (missed - mean)))

    @cached_property
    def sampled_square(self) -> float:
        """``(1/d) tr (P S P)^2`` with the samples weighted by ``r^2 / E r^2``."""
        eta, f, p = 1 / self.scale, self.freedom, self.ridge / self.damping
        two, three, four = (
            self.ratio * float(self.spectrum.share @ self.kept**power) * (p / eta) ** power for power in (2, 3, 4)
        )
        left, gain = 1 / (p**2 * (1 - f)), two / (1 - f)
        p_slope = left * (f * gain * p - eta * three / (1 - f)) / (1 - f)
        cross = -eta / p**2 * (p_slope + gain * left * p)
        square = self.law.mean((self.law.relative_squares + f / (1 - f)) ** 2)
        bent = left * (2 * cross * three + left * four / (1 - f))
        left_slope = -(eta**2 * bent / p**2 + 2 * p_slope * left / p + gain * square / p**4) / (1 - f)
        return float(bent - left_slope * two) / self.ratio

    @property
    def own_gain(self) -> float:
        """Mean square of what the mean of ``P Z^T Z / n_step`` makes of a row; the rest of it counts as noise."""
        return float(self.spectrum.share @ self.stretch[1])

    @cached_property
    def missed(self) -> float:
        """Mean square of the residuals that the ridge regression of them leaves of the population.

        Docs, "Damped steps", equation (N1). Docs, "Own output", equation (W4).
        """
        known, law = float(self.spectrum.teacher @ (1 - self.kept) ** 2), self.law
        missed = law.mean((law.residual - self.linear * law.projection) ** 2) + self.linear**2 * known
        for direction in self.directions[1:]:
            missed -= direction.linear**2 * (1 - float(direction.part @ (1 - self.kept) ** 2))
        return missed

    @property
    def random_square(self) -> float:
        """Squared length of the mean theta off the directions that residuals depend on."""
        return self.random_form(self._one)

    def random_form(self, values: Array) -> float:
        """Return the same with a function of C between, given by its values."""
        return self.ratio * self.trace(values) * self.missed

    @property
    def made(self) -> Array:
        """What the step makes of a direction that the residuals hold, in each class: ``(1 + delta) k``."""
        return np.asarray(self.scale * self.kept)

    @property
    def signal(self) -> Array:
        """The component of theta along bt in each class, over that of bt."""
        return np.asarray(self.scale * self.linear * self.kept) if self.turn is None else self.turn.signal

    @property
    def taught(self) -> Array:
        """The same, under the name that samples of a plain step have for it."""
        return self.signal

    @property
    def along_output(self) -> Array:
        """The component of theta along ``f / |f|`` in each class, over that of it: zero without an own output."""
        if self.own is None:
            return 0 * self._one
        return self.own.linear * self.made if self.output is None else self.output

    def _output_form(self, values: Array) -> float:
        """Return ``theta^T V theta`` of the part along f."""
        square = values * self.along_output**2
        return sum(float(direction.part @ square) for direction in self.directions[1:])

    def quadratic(self, values: Array) -> float:
        """Return ``theta^T V theta``, for a function V of C given by its values."""
        rest = self._output_form(values) + self.noise(values)
        if self.turn is not None:
            return float(self.spectrum.teacher @ (values * self.signal**2)) + rest
        # Factors that are the same in all classes stay outside: a theta almost along bt has few digits left.
        teacher = self.linear**2 * float(self.spectrum.teacher @ (values * self.kept**2))
        return self.scale**2 * teacher + rest

    def noise(self, values: Array) -> float:
        """Return ``theta^T V theta`` of the part of theta that is orthogonal to bt, and to f, in every class."""
        return self.ratio * self.trace(values) * self.missed if self.turn is None else self._turned_noise(values)

    def with_teacher(self, values: Array) -> float:
        """Return ``bt^T V theta``."""
        if self.turn is not None:
            return float(self.spectrum.teacher @ (values * self.signal))
        return self.scale * self.linear * float(self.spectrum.teacher @ (values * self.kept))

    @cached_property
    def _one(self) -> Array:
        return np.ones_like(self.spectrum.eigenvalue)

    @cached_property
    def norm(self) -> float:
        """``|theta|``."""
        return math.sqrt(self.quadratic(self._one))

    @property
    def relative_variance_of_square(self) -> float:
        """``n_step`` times the relative variance of ``|theta|^2`` that the averages over the samples make.

        The metric knows the samples: of a residual r its teacher's part fits some, and the average of u times the rest
        is what differs between draws.
        """
        r, u, known = self.law.residual, self.law.projection, self.spectrum.teacher
        signal = self.scale**2 * self.linear * float(known @ self.kept**2)
        left = r - self.linear * float(known @ self.kept) * u
        noise = self.ratio * self.trace(self._one)
        return self.law.relative_variance((2 * signal * u + noise * left) * left, self.norm**2)

    @cached_property
    def alignment(self) -> float:
        """``<v, bt>``, or one without a gradient."""
        return self.with_teacher(self._one) / self.norm if self.norm > 0 else 1.0

    @cached_property
    def off_teacher(self) -> float:
        """``nu``, the length of the part of theta that is orthogonal to bt."""
        return math.sqrt(max(self._among(self._one)[2], NOTHING))

    @property
    def divisor(self) -> Array:
        """Eigenvalues of C to divide by: what is finite over almost nothing takes no part in the step."""
        return np.maximum(self.spectrum.eigenvalue, _LEAST)

    @cached_property
    def _parts(self) -> Sources:
        """What makes the part of the mean theta that is orthogonal to bt.

        With any l, ``theta = (l / eta) bt + P (Z^T (r - l u) / n_step - l delta C^-1 bt)`` where
        ``eta = 1 / (1 + delta)``. This one makes all parts about as large as the whole, so that they lose no digits.
        """
        lost, taken, part = self._along_teacher
        inner = lost * self.left - part * self.damping / self.divisor
        weight = self.law.residual - part * self.law.projection
        return Sources(self.scale * lost * taken, 0 * self._one, inner, weight, self._one)

    @property
    def _along_teacher(self) -> tuple[float, float, float]:
        """The part of ``mu_1*`` that the step leaves out, ``phi0 <k>``, and the l of `_parts`."""
        found, taken = (float(of @ self.kept) for of in (self.spectrum.teacher, self.ratio * self.spectrum.share))
        lost = self.linear * (1 - found)
        return lost, taken, self.linear * found + lost * taken

    @cached_property
    def sources(self) -> Sources:
        """What makes the unit vector of theta that is orthogonal to bt."""
        (directly, direct, inner, weight, noise), turn, off = self._parts, self.turn, self.off_teacher
        if turn is not None:
            factor, changed = self._changed_noise
            along = self._along_noise[0]
            direct = turn.signal - self.with_teacher(self._one) - along - directly
            noise = 1 + self.left * changed
            inner, weight = factor * noise * inner, factor * weight
        return Sources(directly / off, direct / off, inner / off, weight / off, noise)

    @cached_property
    def output_sources(self) -> tuple[Array, Array]:
        """What makes the part of the same vector along ``f / |f|``, without P and with it, in each class."""
        if self.own is None:
            return 0 * self._one, 0 * self._one
        (factor, changed), off = self._changed_noise, self.off_teacher
        direct = 0 * self._one
        if self.turn is not None or self.output is not None:
            direct = self.along_output - self._along_noise[1]
        return direct / off, factor * (1 + self.left * changed) * self.own.linear / off

    @property
    def left(self) -> float:
        """``delta / kappa``, the weight of a sample beside all others."""
        return self.damping / self.ridge

    @cached_property
    def _changed_noise(self) -> tuple[float, Array]:
        """Mean factor of the noise of the theta of one draw, and what it has beside one over `left` in each class.

        P makes differences between classes ``1 / left`` times as large. They are kept in this size, because with hardly
        any damping they are small numbers beside one, and digits would be lost.
        """
        if self.turn is None:
            return 1.0, 0 * self._one
        factor = float(self.spectrum.share @ self.turn.noise)
        return factor, (self.turn.noise / factor - 1) / self.left if factor else 0 * self._one

    @cached_property
    def _hidden(self) -> tuple[tuple[float, Array], ...]:
        """What `_parts` hold along each of the `directions`, over `left`: beside P, and in each class before P.

        The first is the mean product of a sample's projection with the weights of the sum.
        """
        (_, changed), (lost, _, part) = self._changed_noise, self._along_teacher
        gain = self.ratio * float(self.spectrum.share @ (changed * self.kept))
        inner = part * self.ridge / self.divisor
        first = lost * self.left - inner + self.left * (changed * (lost - inner) - gain * lost)
        return (lost, first), *(
            (one.linear / self.left, one.linear * (1 + changed - gain)) for one in self.directions[1:]
        )

    @property
    def _along_noise(self) -> tuple[Array, ...]:
        """What the noise of the theta of one draw has along each of the `directions`, over the direction."""
        factor = self.scale * self._changed_noise[0]
        return tuple(factor * self.kept * inner for _, inner in self._hidden)

    def _turned_noise(self, values: Array) -> float:
        """Return `noise` of the theta of one draw.

        ``P V P`` is the derivative of P in a shift by V, and of the law of P between bt and the sums of the samples.
        Docs, "Spread", equation (D11b).
        """
        (factor, changed), ratio, share, kept = self._changed_noise, self.ratio, self.spectrum.share, self.kept
        moved = ratio * float(share @ (values * kept**2)) / (1 - self.freedom)
        slope = (moved + values) * kept**2
        left = 1 - ratio * float(share @ (changed * kept))
        once, twice = (ratio * float(share @ (changed**power * slope)) for power in (1, 2))
        found = (moved * left**2 + 2 * left * once + twice) * self.law.mean(self._parts.weight**2)
        along = 0.0
        for direction, (seen, inner) in zip(self.directions, self._hidden, strict=True):
            part = direction.part
            found += float(part @ (slope * inner**2))
            found -= 2 * self.left * seen * (moved * left + once) * float(part @ (kept * inner))
            along += float(part @ (values * (kept * inner) ** 2))
        return (self.scale * factor) ** 2 * (found - along)

    def _among(self, values: Array) -> tuple[float, float, float]:
        """Return V between bt and ``theta - m bt``, for a function V of C given by its values."""
        teacher, apart = self.spectrum.teacher * values, self.signal - self.with_teacher(self._one)
        rest = self._output_form(values) + self.noise(values)
        return float(teacher.sum()), float(teacher @ apart), float(teacher @ apart**2) + rest

    def among(self, power: int) -> Array:
        """Return ``C^k`` between bt and a unit vector orthogonal to it, of which theta is made.

        With an own output ``f / |f|`` is a third one.
        """
        values = self.spectrum.eigenvalue**power
        first, across, last = self._among(values)
        across, last = across / self.off_teacher, last / self.off_teacher**2
        if self.own is None:
            return np.array([[first, across], [across, last]])
        part = self.directions[1].part * values
        own, beside = float(part.sum()), float(part @ self.along_output) / self.off_teacher
        return np.array([[first, across, 0.0], [across, last, beside], [0.0, beside, own]])

    def frame(self, alignment: float) -> Array:
        """Return a unit vector in the plane of v and bt, and one orthogonal to it, as `CorrelatedSamples` does."""
        other = math.sqrt(max(1 - alignment**2, 0.0))
        frame = np.array([[alignment, other], [other, -alignment]])
        return frame if self.own is None else np.concatenate([frame, np.zeros((1, 2))])

    def whole_frame(self, alignment: float) -> Array:
        """Return `frame` and, with an own output, the unit vector of the rest of ``f`` as a third column."""
        return completed_frame(self.frame(alignment), self.among(0), 2) if self.own else self.frame(alignment)

    def with_output(self, frame: Array) -> Array:
        """Return the components of ``f / |f|`` along the vectors of a frame."""
        return np.asarray(frame.T @ self.among(0)[2])

    def form_along(self, alignment: float, power: int = 1) -> float:
        """Return ``C^k`` along the first vector of `frame`; C itself is the variance of initial rows there, times d."""
        vector = self.frame(alignment)[:, 0]
        return float(vector @ self.among(power) @ vector)

    @cached_property
    def along(self) -> Array:
        """Mean of ``<z, P theta>`` at the nodes of the law."""
        lost = self.freedom / (1 - self.freedom)
        found = lost * self.law.residual
        for linear, projection, _, part in self.directions:
            one, two = (float(part @ self.kept**power) for power in (1, 2))
            found = found + linear * ((1 + lost) * two - 2 * lost * one) * projection
        return np.asarray(self.scale**2 * found)
