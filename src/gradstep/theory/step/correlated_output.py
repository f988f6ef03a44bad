r"""The step of a network whose initial output is of order one, on correlated inputs or damped.

In whitened inputs (`gradstep.theory.step.correlated_samples`) the linear part of that output is ``mu_1 <f, z>``, with
``f = Omega_0^T a / sqrt(N)`` of covariance ``E[a^2] C / d``. As in isotropic inputs (`gradstep.theory.step.own_output`)
rows are independent given ``f``. After the step their mean for each unit of readout is

    om = e E[sigma'] P g' + (S / (sqrt(N) E a^2) - e E[sigma'] mu_1 p) f,

where ``P`` is the metric of the step (``C`` without damping), of mean ``p`` on the samples' side, ``g'`` has the
teacher and the samples, and ``S`` is the stretch of the mean row. The factor of ``f`` differs between the classes of
directions: a step takes most of the output back along the leading ones. Again there are two ways to describe the rows,
with a spike along ``P g'`` or along ``om``. This project. Docs, "Own output", equations (W1) and (W2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gradstep.gaussian import moments
from gradstep.problem import Problem
from gradstep.resolution import NOTHING
from gradstep.theory.step.correlated_samples import CorrelatedSamples, SpikeBeside, Turn
from gradstep.theory.step.damped_samples import DampedSamples
from gradstep.theory.step.statistics import CommonRow, StepStatistics, readout_values

__all__ = ["ClassMeanRow"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ClassMeanRow:
    """The mean row for each unit of readout, as a multiple of ``f`` in each class of directions."""

    samples: CorrelatedSamples | DampedSamples  #: With the own output, and the spike along the gradient.
    power: float  #: ``E a^2``, the squared length of ``f``.
    #: ``e E[sigma']`` and ``mu_1``.
    gain: float
    slope: float
    unit: float  #: ``1 / (sqrt(N) E a^2)``, the mean row before the step, over ``f``.
    stretch: Array  #: The slope of ``S`` with ``p`` in each class, shape (classes,).
    skewness: float  #: ``E[a^3] / E[a^2]``.
    #: ``k E[a^3] / (sqrt(N) (E a^2)^2)``: this times ``P B f`` is added to the mean row by the step's samples.
    second: float

    @classmethod
    def of(cls, problem: Problem, step: StepStatistics, width: float) -> ClassMeanRow:
        """Return the mean row of a network."""
        samples, power = step.correlated, problem.readout.second_moment
        assert samples is not None
        values, shares = readout_values(problem.readout)
        square, unit = shares * values**2 / power, 1 / (math.sqrt(width) * power)
        skewness = float(square @ values)
        # The own stretch is known in the mean over the directions of a row, and is proportional to p.
        own = float(square @ step.own_stretch(values, values**2)) - 1
        second = unit * step.curvature * skewness
        slope = moments(problem.activation).linear
        own /= float(samples.spectrum.share @ samples.stretch[0])
        return cls(samples, power, step.gain, slope, unit, own + skewness * step.class_drift, skewness, second)

    @property
    def part(self) -> Array:
        """The part of ``f`` in each class."""
        return self.samples.spectrum.share * self.samples.spectrum.eigenvalue

    @property
    def before(self) -> Array:
        """The mean row before the step over ``f``, stretched as the rows are."""
        return self.unit * (1 + self.stretch * self.samples.made)

    @property
    def taken_back(self) -> Array:
        """The multiple of ``f`` by which the step lowers the mean row."""
        return self.gain * self.slope * self.samples.made

    @property
    def left(self) -> Array:
        """The mean row along ``f``, over ``f``, after the step."""
        return np.asarray(self.before - self.taken_back)

    def input_square(self, gain: float, along: Array) -> float:
        """Return the squared length, in the inputs' own coordinates, of a multiple of ``P g'`` and a part along f.

        The multiple is `gain`, and `along`, shape (classes,), is the part along f over f in each class.
        """
        known, samples = self.samples.spectrum, self.samples
        inward = np.divide(1.0, known.eigenvalue, out=np.zeros_like(along), where=known.eigenvalue > 0)
        taught = samples.linear**2 * float(known.teacher @ (samples.made**2 * inward)) + samples.random_form(inward)
        return gain**2 * taught + self.power * float(known.share @ along**2)

    @property
    def along(self) -> Array:
        """The part of ``om`` along ``f / |f|`` in each class, for each unit of the gain."""
        return np.asarray(math.sqrt(self.power) * self.left / self.gain)

    @property
    def taken(self) -> float:
        """The share of the output that the step takes back."""
        return float(self.part @ self.taken_back) / (float(self.part @ self.before) or NOTHING)

    @property
    def largely_taken(self) -> float:
        """The root mean square of that share over the classes.

        Docs, "Own output", equation (W2).

        A step that takes back about all of the output in the mean takes far more of it along leading directions.
        """
        square = float(self.part @ self.taken_back**2) / (float(self.part @ self.before**2) or NOTHING)
        return math.sqrt(square)

    @property
    def plain(self) -> CorrelatedSamples:
        """The samples without damping."""
        return self.samples.plain if isinstance(self.samples, DampedSamples) else self.samples

    @property
    def _by_random(self) -> float:
        """The part of ``P B f`` along ``P Z_perp^T r / n_step``, times `second`."""
        return self.second * math.sqrt(self.power) * self.plain.squares_to_output / self.plain.law.square

    @property
    def _off_random(self) -> float:
        """Squared length of the part of ``P B f`` in directions of its own, times the square of `second`."""
        samples, law, own = self.plain, self.plain.law, self.plain.own
        if own is None:
            return 0.0
        square = law.mean(law.residual**2 * (own.mean**2 + own.variance)) - samples.squares_to_output**2 / law.square
        return self.second**2 * self.power * samples.ratio * max(square, 0.0) * self.samples.bulk_trace

    def resolved(self, step: StepStatistics, *, along_common: bool) -> StepStatistics:
        """Return the step in the form that holds for independent rows, along ``P g'`` or along ``om``.

        Docs, "Own output", equations (W1) and (W2).
        """
        left, before = self.left, self.power * float(self.part @ self.before**2)
        random, off = self._by_random**2 * self.samples.random_square, self._off_random
        whole = before + random + off
        if along_common:
            # The part along f belongs to the spike.
            rest, along = off, self.along
            factor = 1 + self._by_random / self.gain
            samples = self._towards(factor, along)
            overlap = math.sqrt(self.power) * float(self.part @ (self.before * along)) / samples.norm
        else:
            rest, along = off + self.power * float(self.part @ left**2) + (1 - self.taken) ** 2 * random, 0 * left
            factor = 1 + self.slope / (float(self.part @ self.before) or NOTHING) * self._by_random
            samples = self._towards(factor, None)
            overlap = 0.0
        fluctuations = step.fluctuations.turned(self._overlap(samples, factor, along))
        _, one, two = fluctuations.projection_variance
        constant = samples.form_along(samples.alignment)
        return replace(
            step,
            alignment=samples.alignment,
            spike=self.gain * samples.norm - overlap,
            initial_overlap=overlap,
            readout_shrinkage=math.sqrt(rest / whole) if whole > 0 else 0.0,
            given_output=True,
            influence=1.0 if along_common else step.influence,
            common=self._common(samples, step, factor) if along_common else None,
            fluctuations=replace(fluctuations, projection_variance=(constant, one, two)),
            correlated=samples,
        )

    def _towards(self, random: float, along: Array | None) -> CorrelatedSamples | DampedSamples:
        """Return the samples with another spike: of the samples' noise times a factor, with a part along f or without.

        Without it the output is noise to the samples.
        """
        samples = self.samples
        if isinstance(samples, DampedSamples):
            noise = np.ones_like(samples.made) if samples.turn is None else samples.turn.noise
            turn = samples.turn if random == 1 else Turn(samples.signal, random * noise)
            return replace(samples, turn=turn, output=0 * samples.made if along is None else along)
        if along is None:
            return replace(samples, own=None, beside=SpikeBeside(0.0, 0.0, np.ones_like(samples.made), random))
        length, before = math.sqrt(self.power), self.unit / self.gain
        output, by_c = length * before, length * (before * self.stretch - self.slope)
        # One number has the sign, so that networks that differ by signs only round alike.
        largest = float(by_c[np.argmax(np.abs(by_c))]) or 1.0
        return replace(samples, beside=SpikeBeside(output, largest, by_c / largest, random))

    def _overlap(self, samples: CorrelatedSamples | DampedSamples, factor: float, along: Array) -> float:
        """Return the overlap of a spike with the gradient of the network."""
        known, made = self.samples.spectrum, self.samples.made
        by_teacher = float(known.teacher @ self.samples.taught**2)
        by_output = -math.sqrt(self.power) * self.slope * float(self.part @ (made * along))
        random = factor * self.samples.random_square
        return (by_teacher + random + by_output) / (samples.norm * self.samples.norm)

    def _common(
        self, samples: CorrelatedSamples | DampedSamples, step: StepStatistics, factor: float
    ) -> CommonRow | None:
        """Return the second-order part of the rows' mean, for the spike along ``om``."""
        if step.curvature == 0:
            return None
        along, length = self.part * self.along / samples.norm, self.unit * math.sqrt(self.power)
        random = step.curvature * self.plain.squares_to_output / self.plain.law.square
        projection = float(along @ (step.own_drift[0] + step.class_drift * samples.made))
        projection += random * factor * self.samples.random_square / samples.norm
        return CommonRow(float(along.sum()), length, self.skewness, length * projection)
