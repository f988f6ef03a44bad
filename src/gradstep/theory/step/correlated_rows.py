"""The joint law of a row's projection on the spike and of its squared norm, for correlated inputs.

It is that of `gradstep.theory.step.row_fluctuations` in whitened inputs (`gradstep.theory.step.correlated_samples`): a
row of readout ``a`` becomes, with ``om_0 ~ N(0, C / d)`` and ``z_mu = <om_0, z_mu>``,

    om = L om_0 + a e s_1 C g + a e C xi,     L = 1 + a k C B,     xi = (1/n) sum_mu r_mu psi(z_mu) z_mu.

Again both are sorted by their degree in ``om_0``. Traces of products of C and matrices of the samples are sums over
partitions without crossings. This project. Docs, "Correlated inputs", equations (C3), (C4) and (C5).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gradstep.gaussian import ScalarFunction
from gradstep.theory.step.correlated_samples import CorrelatedSamples, words_trace
from gradstep.theory.step.damped_samples import DampedSamples
from gradstep.theory.step.row_fluctuations import (
    DerivativeMoments,
    RowFluctuations,
    derivative_moments,
    linear_norm,
    norm_vector,
)

__all__ = ["correlated_fluctuations", "correlated_rows_without_a_step"]

Array = NDArray[np.float64]

#: A product of C and matrices of the samples: the power of the readout that it goes with, its coefficient, the power of
#: C in front, and each matrix (by the weights of the samples, None for B) with the power of C behind it.
_Term = tuple[int, float, int, list[tuple[Array | None, int]]]
#: ``C^-1`` in front and one C between leave tr M, of rows w themselves: tr (C^1/2 M C^1/2).
_ONE: list[_Term] = [(0, 1.0, -1, [])]


def correlated_rows_without_a_step(samples: CorrelatedSamples | DampedSamples, *, sphere: bool) -> RowFluctuations:
    """Return the fluctuations of the initial rows, along the spike of the step that is not taken."""
    length, along = 2 * (samples.spectrum.moment(2) - sphere), samples.form_along(samples.alignment)
    return RowFluctuations((along, 0.0, 0.0), 0.0, (0.0, 0.0), (0.0, 0.0, 0.0), (length, 0.0, 0.0, 0.0, 0.0), 1.0)


def correlated_fluctuations(
    activation: ScalarFunction, samples: CorrelatedSamples, e: float, *, sphere: bool
) -> RowFluctuations:
    """Return the fluctuations of rows after a step whose gradient is not zero, with ``e = eta / sqrt(N)``.

    Initial rows ``w`` have length one on the `sphere`; otherwise they are Gaussian.

    Docs, "Correlated inputs", equations (C3), (C4) and (C5).
    """
    moments, mean, norm = derivative_moments(activation), samples.mean, samples.norm
    terms = _Terms(samples, moments, e)
    linear, slope, constant = terms.linear, terms.slope, samples.form(3) / norm**2
    joint, norm_variance = terms.quadratic(sphere=sphere)
    joint_higher, higher = terms.higher
    norm_variance[2:] += np.array(terms.linear_variance) + higher
    # Of these the part that follows <om_0, v>.
    norm_variance[2:] -= [slope[0] ** 2, 2 * slope[0] * slope[1], slope[1] ** 2]
    r = samples.law.residual
    gain = samples.square(r**2) / norm**2
    square = samples.stretched_form() / norm**2
    projection_variance = (
        constant,
        2 * terms.k * samples.through_b(2, 2) / norm**2,
        terms.k**2 * square + e**2 * samples.ratio * moments.square * gain,
    )
    following = terms.spike * norm
    return RowFluctuations(
        projection_variance=projection_variance,
        spike_variance=following**2 / 2 * (samples.spectrum.moment(2) - sphere),
        norm_slope=slope,
        covariance=tuple((np.array(linear) + joint + joint_higher).tolist()),
        norm_variance=tuple(norm_variance.tolist()),
        sample_gain=gain / mean(r**2),
        spike_covariance=tuple((following * terms.length_form(sphere=sphere)).tolist()),
        linear_norm=terms.linear_norm,
        sample_length=samples.ratio * samples.spectrum.moment(2),
        norm_vector=norm_vector(
            moments, e, samples.ratio, terms.residual, samples.spectrum.moment(2), samples.spectrum.moment(3)
        ),
    )


@dataclass(frozen=True)
class _Terms:
    """The projection ``p`` on the spike and the squared norm ``c`` off it by degrees in ``om_0``.

    Each is a polynomial of the readout.

    Attributes
    ----------
    samples : CorrelatedSamples
    psi : DerivativeMoments
    e : float
        ``eta / sqrt(N)``.
    """

    samples: CorrelatedSamples
    psi: DerivativeMoments
    e: float

    @property
    def k(self) -> float:
        """``e s_2``."""
        return self.e * self.psi.linear

    @property
    def spike(self) -> float:
        """``e s_3``."""
        return self.e * self.psi.second

    @property
    def residual(self) -> float:
        """The mean of B over the classes, with the weights ``c^3`` of the terms that it is a factor of."""
        return self.samples.moment_of_b(3) / self.samples.spectrum.moment(3)

    @cached_property
    def linear_norm(self) -> tuple[float, float, float]:
        """``l_1``, ``l_2`` and ``l_3``."""
        c2, c3 = (self.samples.spectrum.moment(power) for power in (2, 3))
        return linear_norm(self.psi, self.e, self.samples.ratio, self.residual, c2, c2, c3)

    @cached_property
    def _beside_spike(self) -> tuple[float, float, float, float]:
        """``g.C.v``, ``h.C.v``, and both with one more sample between."""
        samples, mean = self.samples, self.samples.mean
        r, norm, along = samples.law.residual, samples.norm, samples.along(2)
        return norm, mean(r**2 * along) / norm, samples.through_b(1, 2) / norm, samples.squares_between() / norm

    @property
    def linear(self) -> list[float]:
        """The covariance of the parts of degree one, ``<om_0, L^T v>`` in p and ``<om_0, l>`` in c."""
        (l_1, l_2, l_3), (g_v, h_v, g_b_v, h_b_v), k = self.linear_norm, self._beside_spike, self.k
        return [l_1 * g_v, l_2 * g_v + l_3 * h_v + k * l_1 * g_b_v, k * (l_2 * g_b_v + l_3 * h_b_v)]

    @property
    def linear_variance(self) -> list[float]:
        """The variance of that of c."""
        (l_1, l_2, l_3), samples = self.linear_norm, self.samples
        form, crossed = samples.form(1), samples.crossed_form(1)
        both = l_2**2 * form + 2 * l_2 * l_3 * crossed + l_3**2 * samples.squares_form(1)
        return [l_1**2 * form, 2 * l_1 * (l_2 * form + l_3 * crossed), both]

    @property
    def slope(self) -> tuple[float, float]:
        """The slope of c along ``<om_0, v>``, over its standard deviation."""
        (l_1, l_2, l_3), (g_v, h_v, *_) = self.linear_norm, self._beside_spike
        scale = (self.samples.form(3) / self.samples.norm**2) ** 0.5
        return l_1 * g_v / scale, (l_2 * g_v + l_3 * h_v) / scale

    def quadratic(self, *, sphere: bool) -> tuple[Array, Array]:
        """Return the covariance and the variance of c of the parts of degree two.

        They are ``(a spike / 2) om_0.W.om_0`` in p and ``om_0.M.om_0`` in c: equation (C5).
        """
        samples, r, form = self.samples, self.samples.law.residual, self._form
        projection: list[_Term] = [(0, self.spike, 0, [(r * samples.along(2) / samples.norm, 0)])]
        quadratic = 2 * _polynomial(samples, form, form, 5)
        joint = _polynomial(samples, projection, form, 3)
        if sphere:
            mean_form = _polynomial(samples, _ONE, form, 3)
            quadratic -= 2 * np.convolve(mean_form, mean_form)
            joint -= _polynomial(samples, projection, _ONE, 1)[0] * mean_form
        return joint, quadratic

    def length_form(self, *, sphere: bool) -> Array:
        """Return half the covariance of ``|om_0|^2``, which a spike follows, and c, times d: a polynomial of a."""
        length: list[_Term] = [(0, 1.0, 0, [])]
        whole = _polynomial(self.samples, length, self._form, 3)
        return whole - _polynomial(self.samples, _ONE, self._form, 3) if sphere else whole

    @cached_property
    def _form(self) -> list[_Term]:
        """The matrix M."""
        samples, psi, k, r0, e = self.samples, self.psi, self.k, self.residual, self.e
        c2, c3 = (samples.spectrum.moment(power) for power in (2, 3))
        r, length = samples.law.residual, e * psi.third
        form: list[_Term] = [
            (0, 1.0, 0, []),
            (1, k, 0, [(None, 1)]),
            (1, k, 1, [(None, 0)]),
            (1, length * c2, 0, [(None, 0)]),
            (2, k**2, 0, [(None, 2), (None, 0)]),
            (2, k * length * r0 * c3, 0, [(None, 0)]),
            (2, samples.ratio * c2 * (k * length + e**2 * psi.square_bend), 0, [(r**2, 0)]),
        ]
        return [term for term in form if term[1] != 0]

    @property
    def higher(self) -> tuple[list[float], Array]:
        """The covariance and the variance of c of the parts above degree two.

        For each sample these are ``a e r <z, C v> psi`` in p, and ``2 a e r psi y + a^2 e^2 phi0 c2 r^2 psi^2`` in c,
        where y is ``alpha z_mu + y'`` with ``alpha = c2 + a k (r0 c3 + phi0 c2 r)``.
        """
        samples, psi, k, r0, e = self.samples, self.psi, self.k, self.residual, self.e
        c2, c3, c4 = (samples.spectrum.moment(power) for power in (2, 3, 4))
        r, mean, phi0 = samples.law.residual, samples.mean, samples.ratio
        m2, m4 = (mean(r**power) for power in (2, 4))
        alpha = [np.full_like(r, c2), k * (r0 * c3 + phi0 * c2 * r)]
        square = samples.moment_of_b(5, 2) - (r0 * c3) ** 2
        rest = [c3 - c2**2, 2 * k * (samples.moment_of_b(4) - c2 * r0 * c3), k**2 * (square + phi0 * m2 * c4)]
        squares = [alpha[0] ** 2, 2 * alpha[0] * alpha[1], alpha[1] ** 2]
        product, cross = 4 * e**2 * psi.product, 4 * e**3 * phi0 * c2 * psi.cross
        found = [
            product * mean(r**2 * part) + 4 * e**2 * m2 * psi.square * y for part, y in zip(squares, rest, strict=True)
        ]
        variance = np.array(found)
        variance[1:] += [cross * mean(r**3 * part) for part in alpha]
        variance[2] += e**4 * phi0**2 * c2**2 * psi.square_square * m4
        variance *= phi0
        # Pairs of samples.
        variance[2] += 2 * (e**2 * phi0 * m2 * psi.square) ** 2 * c4
        along = samples.along(2) / samples.norm
        together = 2 * e**2 * phi0 * psi.with_product
        joint = [0.0, together * mean(r**2 * along * alpha[0]), together * mean(r**2 * along * alpha[1])]
        joint[2] += e**3 * phi0**2 * c2 * psi.with_square * mean(r**3 * along)
        return joint, variance


def _polynomial(samples: CorrelatedSamples, left: list[_Term], right: list[_Term], count: int) -> Array:
    """Return ``(1/d) tr (left C right C)`` by powers of the readout."""
    total = np.zeros(count)
    if left is right:
        # A trace is the same backwards: each pair of different terms occurs twice.
        pairs = [(left[i], left[j], 1.0 + (i < j)) for i in range(len(left)) for j in range(i, len(left))]
    else:
        pairs = [(one, other, 1.0) for one in left for other in right]
    for (power, factor, front, word), (other_power, other_factor, other_front, other), times in pairs:
        letters = [letter for letter, _ in word + other]
        powers = [behind for _, behind in word + other]
        if word and other:
            powers[len(word) - 1] += 1 + other_front
            powers[-1] += 1 + front
        elif letters:
            powers[-1] += 2 + front + other_front
        else:
            powers = [2 + front + other_front]
        total[power + other_power] += times * factor * other_factor * words_trace(samples, letters, powers)
    return total
