"""The joint law of a row's projection on the spike and of its squared norm, after a damped step.

It is that of `gradstep.theory.step.correlated_rows` with the damped metric P in place of C in the step
(`gradstep.theory.step.damped_samples`): a row of readout ``a`` becomes

    om = L om_0 + a e s_1 theta + a e P xi,    L = 1 + a k P B.

P and the samples of B are the same, and their products have the traces of `gradstep.theory.step.damped_traces`. For an
odd activation ``k`` is zero. This project. Docs, "Correlated inputs", equations (C3), (C4) and (C5).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gradstep.gaussian import ScalarFunction
from gradstep.theory.step.correlated_rows import RowTerms
from gradstep.theory.step.damped_law import DampedLaw
from gradstep.theory.step.damped_samples import DampedSamples
from gradstep.theory.step.damped_traces import DampedTraces
from gradstep.theory.step.row_fluctuations import (
    DerivativeMoments,
    RowFluctuations,
    damped_norm_vector,
    derivative_moments,
)

__all__ = ["damped_fluctuations"]

Array = NDArray[np.float64]


def damped_fluctuations(
    activation: ScalarFunction, samples: DampedSamples, e: float, *, sphere: bool
) -> RowFluctuations:
    """Return the fluctuations of rows after a damped step whose gradient is not zero, with ``e = eta / sqrt(N)``.

    With `sphere` the initial rows ``w`` have length one; otherwise they are Gaussian.

    Docs, "Correlated inputs", equations (C3), (C4) and (C5).
    """
    psi, norm, phi0, law = derivative_moments(activation), samples.norm, samples.ratio, samples.law
    if activation.parity == "odd":
        # Means of odd functions, without rounding: rows are not stretched.
        psi = replace(psi, linear=0.0, third=0.0, square_slope=0.0, with_product=0.0, cross=0.0)
    traces, plain, known, fourth = DampedTraces(samples), samples.plain, samples.spectrum, law.mean(law.residual**4)
    parts = _Parts(samples, traces, psi, e)
    terms = RowTerms(
        psi,
        e,
        phi0,
        law,
        residual=samples.mean_over_classes,
        products=(traces.once, traces.twice, traces.with_others),
        along=samples.quadratic(known.eigenvalue) / norm**2,
        beside_spike=parts.beside_spike,
        forms=(plain.form(1), plain.crossed_form(1), plain.squares_form(1)),
        followed=parts.followed,
        beside_sample=parts.beside_sample,
        between_samples=max(law.square**2 * samples.sampled_square - phi0 * fourth * traces.twice**2, 0.0),
    )
    gain = float(DampedLaw(samples, 1.0).sampled_along(samples.frame(samples.alignment))[0, 0])
    (along, along_twice, *_), following = parts.stretched, terms.spike * norm
    by_samples = e**2 * phi0 * psi.square * law.square * gain
    return terms.fluctuations(
        *parts.quadratic(sphere=sphere),
        projection_variance=(terms.along, terms.k * along, terms.k**2 * along_twice + by_samples),
        spike_variance=following**2 / 2 * (known.moment(2) - sphere),
        sample_gain=gain,
        spike_covariance=tuple((following * parts.length_form(sphere=sphere)).tolist()),
        norm_vector=damped_norm_vector(psi, e, phi0, terms.residual, *terms.products, traces.repelled),
    )


@dataclass(frozen=True)
class _Parts:
    """Products of the samples of a damped step with each other, and what M has of them."""

    samples: DampedSamples
    traces: DampedTraces
    psi: DerivativeMoments
    e: float  # ``eta / sqrt(N)``.

    @property
    def k(self) -> float:
        """``e s_2``."""
        return self.e * self.psi.linear

    @property
    def followed(self) -> Array:
        """The mean of ``r <z, P v>`` at each node."""
        return np.asarray(self.samples.law.residual * self.samples.along / self.samples.norm)

    @cached_property
    def stretched(self) -> tuple[float, float, float, float, float, float]:
        """Return coefficients of powers of k in ``L C L^T`` with ``L = 1 + k P B``.

        The first two are those of ``k`` and ``k^2`` along v, the others those of the powers one to four in the mean
        square of its eigenvalues.
        """
        if not self.k:
            return 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        samples, found = self.samples, list[tuple[float, float]]()
        frame, square = samples.frame(samples.alignment), samples.spectrum.moment(2)
        for sign in (1.0, -1.0):
            law = DampedLaw(samples, 0.0, sign, sign)
            found.append((float(law.average(frame)[0, 0]), law.second_moment))
        (plus, plus_square), (minus, minus_square) = found
        before = samples.form_along(samples.alignment)
        odd, even = (plus_square - minus_square) / 2, (plus_square + minus_square) / 2 - square
        once, twice = self.traces.linear_square
        once = 2 * once + 4 * self._added(2, 1)
        if samples.plain.by_output is not None:
            # The traces do not know `added` next to two metrics. The mean square at half of k separates the powers.
            half = DampedLaw(samples, 0.0, 0.5, 0.5).second_moment - square
            twice = (16 * half - 6 * once - 2 * odd - even) / 3
        return (plus - minus) / 2, (plus + minus) / 2 - before, once, twice, odd - once, even - twice

    @property
    def beside_spike(self) -> tuple[float, float, float, float]:
        """``v.C.g``, ``v.C.h``, and both with ``PB`` after v."""
        r, norm = self.samples.law.residual, self.samples.norm
        (g_v, g_b_v), (h_v, h_b_v) = (self.traces.projected(weight) for weight in (r, r**2))
        added, plain = self.samples.added * self._values(1, 2), self.samples.plain
        g_b_v, h_b_v = g_b_v + plain.form_of(added), h_b_v + plain.crossed_form_of(added)
        return g_v / norm, h_v / norm, g_b_v / norm, h_b_v / norm

    def _values(self, power: int, made: int) -> Array:
        """Return ``c^k p^l``, powers of C times powers of the mean of P, in each class."""
        return np.asarray(self.samples.spectrum.eigenvalue**power * self.samples.made**made)

    def _added(self, power: int, made: int, times: int = 1) -> float:
        """Return ``<c^k p^l D^m>``, where D is `CorrelatedSamples.added`."""
        return float(self.samples.spectrum.share @ (self._values(power, made) * self.samples.added**times))

    @property
    def beside_sample(self) -> list[float]:
        """The variance of what is beside a sample in the sum of all, by powers of the readout."""
        samples, traces, k = self.samples, self.traces, self.k
        once = traces.around - traces.once**2
        if not k:
            return [once, 0.0, 0.0]
        own, mean = samples.law.mean(samples.law.residual), samples.mean_over_classes * traces.with_others
        shared, pairs = traces.around_others
        cross = own * traces.thrice + self._added(2, 2) - traces.once * mean
        pairs = own**2 * pairs + 2 * own * self._added(3, 2) + self._added(3, 2, 2)
        return [once, 2 * k * cross, k**2 * (pairs - mean**2 + samples.ratio * samples.law.square * shared)]

    def quadratic(self, *, sphere: bool) -> tuple[Array, Array]:
        """Return the covariance of the parts of degree two of p and c, and the variance of that of c.

        These parts are ``(a spike / 2) om_0.W.om_0`` in p and ``om_0.M.om_0`` in c: equation (C5). M is ``L^T L`` and
        samples weighted by ``(a m_1 + a^2 m_2) r + a^2 m_3 r^2``.
        """
        samples, traces, law, k = self.samples, self.traces, self.samples.law, self.k
        r, square, weights = law.residual, samples.spectrum.moment(2), self._weights
        followed, r0, phi0, spike = self.followed, law.mean(r), samples.ratio, self.e * self.psi.second

        def with_stretch(x: Array, share: float = 0.0) -> Array:
            """Return ``tr L^T L C X C``, where X is samples with the weights `x` and the multiple `share` of `added`.

            In products with `added` the metric P has its mean in each class.
            """
            if not k:
                return np.array([square * law.mean(x), 0.0, 0.0])
            found = np.array([square * law.mean(x), traces.with_one(x), traces.with_two(x)])
            if samples.plain.by_output is not None:
                x0 = law.mean(x)
                found[1] += x0 * self._added(2, 1)
                crossed = r0 * x0 * self._added(2, 2) + phi0 * law.mean(r * x) * self._added(1, 2)
                found[2] += 2 * crossed + x0 * self._added(2, 2, 2)
                pairs = r0**2 * self._added(2, 2) + phi0 * law.square * traces.twice * self._added(2, 0)
                pairs += 2 * r0 * self._added(2, 2, 2) + self._added(2, 2, 3)
                one = r0 * self._added(2, 1) + self._added(2, 1, 2)
                found += share * np.array([self._added(2, 0), one, pairs])
            return np.asarray(found * [1.0, 2 * k, k**2])

        def plain(x: Array, y: Array, of_x: float, of_y: float) -> float:
            """Return ``tr XCYC`` for two such sums, with the multiples `of_x` and `of_y` of `added`."""
            found = of_x * law.mean(y) + of_y * law.mean(x)
            return traces.plain(x, y) + found * self._added(2, 0) + of_x * of_y * self._added(2, 0, 2)

        quadratic = np.array([square, *(k**power * self.stretched[1 + power] for power in (1, 2, 3, 4))])
        joint, shares = with_stretch(followed), self._shares
        for power in (1, 2):
            quadratic[power : power + 3] += 2 * with_stretch(weights[power], shares[power])
            joint[power] += plain(followed, weights[power], 0.0, shares[power])
            for other in (1, 2):
                quadratic[power + other] += plain(weights[power], weights[other], shares[power], shares[other])
        quadratic, joint = 2 * quadratic, spike * joint
        if sphere:
            mean_form = self._form_with(0)
            quadratic -= 2 * np.convolve(mean_form, mean_form)
            joint -= spike * law.mean(followed) * mean_form
        return joint, quadratic

    @cached_property
    def _weights(self) -> Array:
        """The weights of the samples in M, for powers 0 to 2 of the readout, shape (3, nodes)."""
        samples, traces, r = self.samples, self.traces, self.samples.law.residual
        length = self.e * self.psi.third
        weights = self._shares[:, None] * r
        bend = self.k * length + self.e**2 * self.psi.square_bend
        weights[2] += samples.ratio * traces.twice * bend * r**2
        return weights

    @property
    def _shares(self) -> Array:
        """The multiples of B among the samples of M, for powers 0 to 2 of the readout, shape (3,)."""
        traces, length, residual = self.traces, self.e * self.psi.third, self.samples.mean_over_classes
        return np.array([0.0, length * traces.once, length * self.k * residual * traces.with_others])

    def _form_with(self, power: int) -> Array:
        """Return ``(1/d) tr C^(1 + power) M``, a polynomial of the readout."""
        samples, law, k = self.samples, self.samples.law, self.k
        r0 = law.mean(law.residual)
        c, share = samples.spectrum.eigenvalue**power, samples.spectrum.share
        mean = float(share @ (c * samples.spectrum.eigenvalue))
        once = r0 * float(share @ (c * samples.stretch[0])) + self._added(1 + power, 1)
        pairs = r0**2 * float(share @ samples.pairs_with(c)) + samples.ratio * law.square * self.traces.twice * mean
        pairs += 2 * r0 * self._added(1 + power, 2) + self._added(1 + power, 2, 2)
        by_weights = mean * (self._weights @ law.weight) + self._added(1 + power, 0) * self._shares
        return np.array([mean, 2 * k * once, k**2 * pairs]) + by_weights

    def length_form(self, *, sphere: bool) -> Array:
        """Return half the covariance of ``|om_0|^2``, which a spike follows, and c, times d: a polynomial of a."""
        return self._form_with(1) - sphere * self._form_with(0)
