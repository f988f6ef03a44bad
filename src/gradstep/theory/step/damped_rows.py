"""The joint law of a row's projection on the spike and of its squared norm, after a damped step.

It is that of `gradstep.theory.step.correlated_rows` with the damped metric P in place of C in the step
(`gradstep.theory.step.damped_samples`): a row of readout ``a`` becomes

    om = L om_0 + a e s_1 theta + a e P xi,    L = 1 + a k P B.

P and the samples of B are the same, and their products have the traces of `gradstep.theory.step.damped_traces`. For an
odd activation ``k`` is zero. This project. Docs, "Correlated inputs", equations (C3), (C4) and (C5).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gradstep.gaussian import ScalarFunction
from gradstep.theory.step.damped_law import DampedLaw
from gradstep.theory.step.damped_samples import DampedSamples
from gradstep.theory.step.damped_traces import DampedTraces
from gradstep.theory.step.row_fluctuations import (
    DerivativeMoments,
    RowFluctuations,
    damped_norm_vector,
    derivative_moments,
    linear_norm,
)

__all__ = ["damped_fluctuations"]

Array = NDArray[np.float64]


def damped_fluctuations(
    activation: ScalarFunction, samples: DampedSamples, e: float, *, sphere: bool
) -> RowFluctuations:
    """Return the fluctuations of rows after a damped step whose gradient is not zero, with ``e = eta / sqrt(N)``.

    Initial rows ``w`` have length one on the `sphere`; otherwise they are Gaussian.

    Docs, "Correlated inputs", equations (C3), (C4) and (C5).
    """
    psi = derivative_moments(activation)
    traces = DampedTraces(samples)
    terms = _Terms(samples, traces, psi, e, odd=activation.parity == "odd")
    square, known = samples.law.square, samples.spectrum
    frame = samples.frame(samples.alignment)
    gain = float(DampedLaw(samples, 1.0).sampled_along(frame)[0, 0])
    constant = samples.quadratic(known.eigenvalue) / samples.norm**2
    along, along_twice, *_ = terms.stretched
    slope = terms.slope(constant**0.5)
    joint, norm_variance = terms.quadratic(sphere=sphere)
    joint_higher, higher = terms.higher
    norm_variance[2:] += terms.linear_variance + higher
    # Of these the part that follows <om_0, v>.
    norm_variance[2:] -= [slope[0] ** 2, 2 * slope[0] * slope[1], slope[1] ** 2]
    following = terms.spike * samples.norm
    return RowFluctuations(
        projection_variance=(
            constant, terms.k * along, terms.k**2 * along_twice + e**2 * samples.ratio * psi.square * square * gain
        ),
        spike_variance=following**2 / 2 * (known.moment(2) - sphere),
        norm_slope=slope,
        covariance=tuple((terms.linear + joint + joint_higher).tolist()),
        norm_variance=tuple(norm_variance.tolist()),
        sample_gain=gain,
        spike_covariance=tuple((following * terms.length_form(sphere=sphere)).tolist()),
        linear_norm=terms.linear_norm,
        sample_length=samples.ratio * traces.twice,
        norm_vector=damped_norm_vector(
            psi, e, samples.ratio, terms.residual, traces.once, traces.twice, traces.with_others, traces.repelled
        ),
    )  # fmt: skip


@dataclass(frozen=True)
class _Terms:
    """The projection ``p`` on the spike and the squared norm ``c`` off it by degrees in ``om_0``.

    Each is a polynomial of the readout.

    Attributes
    ----------
    samples : DampedSamples
    traces : DampedTraces
    psi : DerivativeMoments
    e : float
        ``eta / sqrt(N)``.
    odd : bool
        Whether the activation is odd.
    """

    samples: DampedSamples
    traces: DampedTraces
    psi: DerivativeMoments
    e: float
    odd: bool

    @property
    def k(self) -> float:
        """``e s_2``."""
        return 0.0 if self.odd else self.e * self.psi.linear

    @property
    def spike(self) -> float:
        """``e s_3``."""
        return self.e * self.psi.second

    @property
    def residual(self) -> float:
        """The mean of B over the classes."""
        return self.samples.mean_over_classes

    @cached_property
    def stretched(self) -> tuple[float, float, float, float, float, float]:
        """Return coefficients of powers of k in ``L C L^T`` with ``L = 1 + k P B``.

        The first two are those of ``k`` and ``k^2`` along v, the others those of the powers one to four in the mean
        square of its eigenvalues.
        """
        if self.odd:
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

    @cached_property
    def linear_norm(self) -> tuple[float, float, float]:
        """``l_1``, ``l_2`` and ``l_3``."""
        traces = self.traces
        found = linear_norm(
            self.psi, self.e, self.samples.ratio, self.residual, traces.once, traces.twice, traces.with_others
        )
        return (found[0], 0.0, 0.0) if self.odd else found

    @cached_property
    def _beside_spike(self) -> tuple[float, float, float, float]:
        """``v.C.g``, ``v.C.h``, and both with ``BP`` after v."""
        r, norm = self.samples.law.residual, self.samples.norm
        (g_v, g_b_v), (h_v, h_b_v) = (self.traces.projected(weight) for weight in (r, r**2))
        added, plain = self.samples.added * self._values(1, 2), self.samples.plain
        g_b_v, h_b_v = g_b_v + plain.form_of(added), h_b_v + plain.crossed_form_of(added)
        return g_v / norm, h_v / norm, g_b_v / norm, h_b_v / norm

    def _values(self, power: int, made: int) -> Array:
        """Return a power of C times a power of the mean of P, in each class."""
        return np.asarray(self.samples.spectrum.eigenvalue**power * self.samples.made**made)

    def _added(self, power: int, made: int, times: int = 1) -> float:
        """Return ``<c^k p^l D^m>``, where D is `CorrelatedSamples.added`."""
        return float(self.samples.spectrum.share @ (self._values(power, made) * self.samples.added**times))

    @property
    def linear(self) -> Array:
        """The covariance of the parts of degree one, ``<om_0, L^T v>`` in p and ``<om_0, l>`` in c."""
        (l_1, l_2, l_3), (g_v, h_v, g_b_v, h_b_v), k = self.linear_norm, self._beside_spike, self.k
        return np.array([l_1 * g_v, l_2 * g_v + l_3 * h_v + k * l_1 * g_b_v, k * (l_2 * g_b_v + l_3 * h_b_v)])

    @property
    def linear_variance(self) -> Array:
        """The variance of that of c."""
        (l_1, l_2, l_3), plain = self.linear_norm, self.samples.plain
        form, crossed = plain.form(1), plain.crossed_form(1)
        both = l_2**2 * form + 2 * l_2 * l_3 * crossed + l_3**2 * plain.squares_form(1)
        return np.array([l_1**2 * form, 2 * l_1 * (l_2 * form + l_3 * crossed), both])

    def slope(self, scale: float) -> tuple[float, float]:
        """Return the slope of c along ``<om_0, v>``, of this standard deviation, over it."""
        (l_1, l_2, l_3), (g_v, h_v, *_) = self.linear_norm, self._beside_spike
        return l_1 * g_v / scale, (l_2 * g_v + l_3 * h_v) / scale

    def quadratic(self, *, sphere: bool) -> tuple[Array, Array]:
        """Return the covariance and the variance of c of the parts of degree two.

        They are ``(a spike / 2) om_0.W.om_0`` in p and ``om_0.M.om_0`` in c: equation (C5). M is ``L^T L`` and samples
        weighted by ``(a m_1 + a^2 m_2) r + a^2 m_3 r^2``.
        """
        samples, traces, law, k = self.samples, self.traces, self.samples.law, self.k
        r, square, weights = law.residual, samples.spectrum.moment(2), self._weights
        followed = r * samples.along / samples.norm
        r0, phi0 = law.mean(r), samples.ratio

        def with_stretch(x: Array, share: float = 0.0) -> Array:
            """Return ``tr L^T L C X C`` for samples with these weights and a multiple of `added` as X.

            In products with `added` the metric P has its mean in each class.
            """
            if self.odd:
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
            """Return ``tr XCYC`` for two such sums."""
            found = of_x * law.mean(y) + of_y * law.mean(x)
            return traces.plain(x, y) + found * self._added(2, 0) + of_x * of_y * self._added(2, 0, 2)

        quadratic = np.array([square, *(k**power * self.stretched[1 + power] for power in (1, 2, 3, 4))])
        joint, shares = with_stretch(followed), self._shares
        for power in (1, 2):
            quadratic[power : power + 3] += 2 * with_stretch(weights[power], shares[power])
            joint[power] += plain(followed, weights[power], 0.0, shares[power])
            for other in (1, 2):
                quadratic[power + other] += plain(weights[power], weights[other], shares[power], shares[other])
        quadratic, joint = 2 * quadratic, self.spike * joint
        if sphere:
            mean_form = self._form_with(0)
            quadratic -= 2 * np.convolve(mean_form, mean_form)
            joint -= self.spike * law.mean(followed) * mean_form
        return joint, quadratic

    @cached_property
    def _weights(self) -> Array:
        """The weights of the samples in M, for powers 0 to 2 of the readout."""
        samples, traces, r = self.samples, self.traces, self.samples.law.residual
        length = 0.0 if self.odd else self.e * self.psi.third
        weights = self._shares[:, None] * r
        bend = self.k * length + self.e**2 * self.psi.square_bend
        weights[2] += samples.ratio * traces.twice * bend * r**2
        return weights

    @property
    def _shares(self) -> Array:
        """The multiples of B among the samples of M, for powers 0 to 2 of the readout."""
        traces, length = self.traces, 0.0 if self.odd else self.e * self.psi.third
        return np.array([0.0, length * traces.once, length * self.k * self.residual * traces.with_others])

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

    @property
    def higher(self) -> tuple[Array, Array]:
        """The covariance and the variance of c of the parts above degree two.

        For each sample these are ``a e r <z, P v> psi`` in p, and ``2 a e r psi y + a^2 e^2 phi0 r^2 z.P^2.z psi^2`` in
        c, where y is ``alpha z_mu + y'``.
        """
        samples, traces, psi, k, r0, e = self.samples, self.traces, self.psi, self.k, self.residual, self.e
        r, mean, phi0 = samples.law.residual, samples.law.mean, samples.ratio
        m2, m4, beta = mean(r**2), mean(r**4), traces.twice
        alpha = [np.full_like(r, traces.once), np.zeros_like(r)]
        rest = [traces.around - traces.once**2, 0.0, 0.0]
        if k:
            other = traces.with_others
            alpha[1] = k * (r0 * other + phi0 * beta * r)
            shared, pairs = traces.around_others
            own = mean(r)
            rest[1] = 2 * k * (own * traces.thrice + self._added(2, 2) - traces.once * r0 * other)
            pairs = own**2 * pairs + 2 * own * self._added(3, 2) + self._added(3, 2, 2)
            rest[2] = k**2 * (pairs - (r0 * other) ** 2 + phi0 * m2 * shared)
        squares = [alpha[0] ** 2, 2 * alpha[0] * alpha[1], alpha[1] ** 2]
        product, cross = 4 * e**2 * psi.product, 0.0 if self.odd else 4 * e**3 * phi0 * beta * psi.cross
        variance = np.array(
            [
                product * mean(r**2 * part) + 4 * e**2 * m2 * psi.square * y
                for part, y in zip(squares, rest, strict=True)
            ]
        )
        variance[1:] += [cross * mean(r**3 * part) for part in alpha]
        variance[2] += e**4 * phi0**2 * beta**2 * psi.square_square * m4
        variance *= phi0
        # Pairs of samples.
        both = 2 * (e**2 * phi0 * psi.square) ** 2 * (m2**2 * samples.sampled_square - phi0 * m4 * beta**2)
        variance[2] += max(both, 0.0)
        followed = r * samples.along / samples.norm
        together = 0.0 if self.odd else 2 * e**2 * phi0 * psi.with_product
        joint = np.array([0.0, together * mean(r * followed * alpha[0]), together * mean(r * followed * alpha[1])])
        joint[2] += e**3 * phi0**2 * beta * psi.with_square * mean(r**2 * followed)
        return joint, variance
