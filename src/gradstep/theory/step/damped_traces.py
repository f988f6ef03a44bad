r"""Traces of products of the damped metric and of samples with weights, to leading order.

``P`` is the metric of `gradstep.theory.step.damped_samples`, which knows all samples and gives them the same weight.
Matrices of samples with other weights are divided into their mean, which P knows, and a rest. The mean of a product is
a sum over the ways in which the rests share samples; of what is left, the resolvent of P closes every factor. Numbers
that are small differences if there is hardly any damping are written without them. This project.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gradstep.theory.step.damped_samples import DampedSamples, Directed

__all__ = ["DampedTraces"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class _Jet:
    """A symmetric function of two numbers near zero: its value, first and mixed second derivative."""

    value: Array
    first: Array
    mixed: Array

    def __mul__(self, other: _Jet | float | Array) -> _Jet:
        if not isinstance(other, _Jet):
            return _Jet(self.value * other, self.first * other, self.mixed * other)
        first = self.value * other.first + self.first * other.value
        mixed = self.value * other.mixed + 2 * self.first * other.first + self.mixed * other.value
        return _Jet(self.value * other.value, first, mixed)

    def plus(self, other: _Jet) -> _Jet:
        """Return the sum with another function."""
        return _Jet(self.value + other.value, self.first + other.first, self.mixed + other.mixed)

    def mean(self, share: Array) -> _Jet:
        """Return the mean over classes."""
        return _Jet(*(np.asarray(share @ each) for each in (self.value, self.first, self.mixed)))

    def over_one_less(self) -> _Jet:
        """Return the function over one less itself."""
        left = 1 - self.value
        return _Jet(self.value / left, self.first / left**2, self.mixed / left**2 + 2 * self.first**2 / left**3)


def _product(value: Array, slope: Array) -> _Jet:
    """Return the product of a function of the one number with the same function of the other."""
    return _Jet(value**2, value * slope, slope**2)


@dataclass(frozen=True)
class DampedTraces:
    """Traces over d, and products with a sample z, over d too."""

    samples: DampedSamples

    def _mean(self, values: Array) -> float:
        return float(self.samples.spectrum.share @ values)

    @property
    def _lost(self) -> float:
        """``f / (1 - f)``."""
        return self.samples.freedom / (1 - self.samples.freedom)

    @cached_property
    def _taken(self) -> float:
        """``phi0 <k>``."""
        return self.samples.ratio * self._mean(self.samples.kept)

    @cached_property
    def once(self) -> float:
        """``z.CP.z``.

        Docs, "Damped steps", equation (N5).
        """
        return self.samples.scale * self._mean(self.samples.spectrum.eigenvalue * self.samples.kept)

    @cached_property
    def twice(self) -> float:
        """``z.P^2.z``.

        Docs, "Damped steps", equation (N5).
        """
        return self.samples.bulk_trace

    @cached_property
    def around(self) -> float:
        """``z.PCP.z``."""
        return self.samples.trace(self.samples.spectrum.eigenvalue)

    @cached_property
    def with_others(self) -> float:
        """``z.P^2 E C.z`` with the matrix E of all other samples, of weights one.

        Docs, "Damped steps", equation (N5).
        """
        samples, c, k = self.samples, self.samples.spectrum.eigenvalue, self.samples.kept
        kept = self._mean(c * k**2) * (1 - self._taken)
        kept += samples.ratio * (self._mean(c * k) * self._mean(k - k**2) - self._mean(k**2))
        return samples.scale**2 * kept / (1 - samples.freedom)

    @cached_property
    def _resolvents(self) -> tuple[Array, Array, float]:
        """``k`` and its slope, and that of ``delta / kappa``, if ``P / (1 + delta)`` is the inverse of x more."""
        share_left = self.samples.left
        slope = self._lost
        kept = self.samples.kept
        return kept, slope * kept * (1 - kept) / share_left - kept**2 / share_left, slope

    @cached_property
    def around_others(self) -> tuple[float, float]:
        """``z.P^2 E P^2.z`` and ``z.P^2 E C F P^2.z``, E and F two different ones of the other samples.

        Docs, "Damped steps", equation (N8).
        """
        samples, c = self.samples, self.samples.spectrum.eigenvalue
        kept, slope, left_slope = self._resolvents
        left = np.array(samples.left)
        both, missed = _product(kept, slope), _product(1 - kept, -slope)
        outer = _product(left, np.array(left_slope))
        shared = (both.mean(samples.spectrum.share) * samples.ratio).over_one_less()
        one = outer * (shared * (1 / samples.ratio))
        missed_mean = (missed * c).mean(samples.spectrum.share)
        others = missed_mean.plus(_Jet(np.array(-1.0), np.array(0.0), np.array(0.0)))
        two = outer * (both * c).mean(samples.spectrum.share).plus(shared * others)
        return samples.scale**4 * float(one.mixed), samples.scale**4 * float(two.mixed)

    @cached_property
    def thrice(self) -> float:
        """``z.P^2 E C P.z`` with the matrix E of all other samples, of weights one.

        Docs, "Damped steps", equation (N8).
        """
        samples, k = self.samples, self.samples.kept
        left, lost, phi0 = samples.left, self._lost, samples.ratio
        lost_slope = 2 / left * (lost * samples.freedom - (1 + lost) * phi0 * self._mean(k**3))
        lost_slope /= (1 - samples.freedom) ** 2
        cube = (1 + lost) ** 2 * self._mean(k**3) / left**3 - lost_slope * self._mean(k**2) / (2 * left**2)
        # z.P^3.z: that of P without the sample, less what the sample takes.
        cube = samples.scale**3 * left**2 * cube - phi0 * self.twice**2 / (samples.scale * left)
        return samples.scale * self.around - samples.damping * cube - phi0 * self.twice * self.once

    # Weighted matrices. With B of the weights r, and X of the weights x.

    def _shared(self, *weights: Array) -> float:
        """Return the mean product of what weights have beyond their means."""
        mean, rest = self.samples.law.mean, np.ones_like(weights[0])
        for weight in weights:
            rest = rest * (weight - mean(weight))
        return mean(rest)

    @cached_property
    def _residual_mean(self) -> float:
        return self.samples.law.mean(self.samples.law.residual)

    def with_one(self, x: Array) -> float:
        """Return ``tr BPCXC`` for samples X with these weights at the nodes.

        Docs, "Damped steps", equation (N6).
        """
        samples, c, k, r = self.samples, self.samples.spectrum.eigenvalue, self.samples.kept, self.samples.law.residual
        square = samples.spectrum.moment(2)
        mean = samples.scale * (self._mean(c**2 * k) * (1 - self._taken) + self._taken * square)
        return samples.ratio * self.once * self._shared(r, x) + self._residual_mean * samples.law.mean(x) * mean

    def with_two(self, x: Array) -> float:
        """Return ``tr BP^2BCXC`` for samples X with these weights at the nodes.

        Docs, "Damped steps", equation (N6).
        """
        r, phi0, square = self.samples.law.residual, self.samples.ratio, self.samples.spectrum.moment(2)
        r0, x0 = self._residual_mean, self.samples.law.mean(x)
        found = r0**2 * x0 * self._with_two
        found += phi0**2 * self.twice * self._shared(r, r, x)
        found += phi0 * self._shared(r, r) * x0 * self.twice * (square + phi0)
        return found + 2 * phi0 * self._shared(r, x) * r0 * (self.with_others + phi0 * self.twice)

    @cached_property
    def _with_two(self) -> float:
        """``tr FP^2ECXC`` with three matrices of all samples, of weights one."""
        samples, c, k, y = self.samples, self.samples.spectrum.eigenvalue, self.samples.kept, self._taken
        known = y**2 * samples.spectrum.moment(2) + 2 * y * (1 - y) * self._mean(c**2 * k)
        known += (1 - y) ** 2 * (self._mean(c**2 * k**2) + self._lost * self._mean(c**2 * (1 - k) ** 2))
        return samples.scale**2 * known

    @property
    def repelled(self) -> tuple[float, float]:
        """``z.CPEC.z`` and ``z.CEP^2FC.z`` of a sample z, less those of a vector that is independent of P.

        E and F are two different ones of the other samples, of weights one.
        Docs, "Damped steps", equation (N10).
        """
        samples, c, k, phi0 = self.samples, self.samples.spectrum.eigenvalue, self.samples.kept, self.samples.ratio
        square = samples.spectrum.moment(2)
        once = samples.scale * self._taken * (square - self._mean(c**2 * k)) - phi0 * self.once
        twice = self._with_two - phi0**2 * self.twice - 2 * phi0 * self.with_others - phi0 * self.twice * square
        return once, twice - self._mean(samples.pairs_with(c))

    def plain(self, x: Array, y: Array) -> float:
        """Return ``tr XCYC`` for samples X and Y with these weights at the nodes."""
        mean = self.samples.law.mean
        return mean(x) * mean(y) * self.samples.spectrum.moment(2) + self.samples.ratio * mean(x * y)

    @cached_property
    def linear_square(self) -> tuple[float, float]:
        """Half of what ``tr (C + PBC + CBP + PBCBP)^2`` has of first degree in B, and what it has of second degree.

        Docs, "Damped steps", equation (N7).
        """
        samples, c, k = self.samples, self.samples.spectrum.eigenvalue, self.samples.kept
        phi0, r0, variance = (
            samples.ratio,
            self._residual_mean,
            self._shared(samples.law.residual, samples.law.residual),
        )
        scale, square = samples.scale, samples.spectrum.moment(2)
        twice = self._mean(c**2 * k**2)
        missed = self._lost * self._mean(c**2 * (1 - k) ** 2)
        beside = phi0 * self._mean(k * (1 - k)) * self._mean(c**2 * k * (1 - k)) / (1 - samples.freedom)
        # tr PBCBPC, tr PBCPBC and tr PBC^2BP.
        around = phi0 * variance * self.around + (r0 * scale) ** 2 * (twice + beside)
        after = phi0 * variance * self.once**2 + (r0 * scale) ** 2 * (twice + missed)
        between = phi0 * variance * square * self.twice + (r0 * scale) ** 2 * (twice + missed)
        return 2 * r0 * scale * self._mean(c**2 * k), 2 * around + 2 * after + 2 * between

    # Directions: theta, g, and h, the sum of the samples with the squares of their residuals.

    @cached_property
    def along(self) -> Array:
        """Mean of ``<z, C theta>`` at the nodes of the law."""
        samples, c = self.samples, self.samples.spectrum.eigenvalue
        seen = samples.ratio * self.once
        found = seen * samples.law.residual
        for linear, projection, _, part in samples.directions:
            made, kept = (float(part @ (values * samples.kept)) for values in (samples.scale * c, np.ones_like(c)))
            found = found + linear * (made - seen * kept) * projection
        return np.asarray(found)

    def _twice_with(self, known: Directed, values: Array) -> float:
        """Return ``V P theta`` along a direction that residuals depend on, times ``delta / kappa``."""
        samples, k, lost = self.samples, self.samples.kept, self._lost
        return samples.scale**2 * known.linear * float(known.part @ (values * ((1 + lost) * k**2 - lost * k)))

    def projected(self, weight: Array) -> tuple[float, float]:
        """Return ``theta.C.y`` and ``theta.PBC.y`` for a sum y of the samples with these weights at the nodes."""
        samples, law, c, one = self.samples, self.samples.law, self.samples.spectrum.eigenvalue, self.samples.along
        phi0, r = samples.ratio, law.residual
        first = law.mean(weight * self.along)
        # theta.PC.y times delta / kappa, less what of it is along the directions that residuals depend on.
        second, left, hidden, follows = 0.0, law.mean(weight * r), 0.0, phi0 * weight
        for known in samples.directions:
            seen, kept = law.mean(weight * known.projection), float(known.part @ samples.kept)
            second += seen * self._twice_with(known, c)
            second -= phi0 / samples.scale * self.once * seen * self._twice_with(known, np.ones_like(c))
            left -= seen * known.linear * kept
            # What a sample's <z, P theta> has of its projection.
            own = self._twice_with(known, np.ones_like(c)) - self._lost * samples.scale**2 * known.linear * kept
            mean = seen * float(known.part @ c)
            hidden += (1 - known.variance) * own * mean
            follows = follows + mean * known.projection
        second += phi0 * (self.around - phi0 / samples.scale * self.once * self.twice) * left
        # Off the directions: <z, P theta> and <z, C y>.
        together = second - phi0 / samples.scale * self.twice * first - hidden
        return first, law.mean(r * (one * follows + together))
