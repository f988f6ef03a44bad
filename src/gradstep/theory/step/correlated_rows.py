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
from typing import Any

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
from gradstep.theory.step.weighted_samples import Residual

__all__ = ["RowTerms", "correlated_fluctuations", "correlated_rows_without_a_step"]

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


@dataclass(frozen=True)
class RowTerms:
    """The projection ``p`` on the spike and the squared norm ``c`` off it by degrees in ``om_0``, without the second.

    Each is a polynomial of the readout, and so are their covariance and variances, with the coefficients that
    `RowFluctuations` has. After a damped step the metric P is in the place of C, and means are those of
    `gradstep.theory.step.damped_rows`.
    """

    psi: DerivativeMoments
    e: float  #: ``eta / sqrt(N)``.
    ratio: float  #: ``phi0``.
    law: Residual  #: The law of a sample.
    residual: float  #: ``r0``, the mean of B over the classes, with the weights of the terms that it is a factor of.
    products: tuple[float, float, float]  #: `once`, `twice` and `with_others` of `damped_norm_vector`.
    along: float  #: The variance of ``<om_0, v>``.
    beside_spike: tuple[float, float, float, float]  #: ``v.C.g``, ``v.C.h``, and both with ``CB`` after v.
    forms: tuple[float, float, float]  #: ``g.C.g``, ``g.C.h`` and ``h.C.h``.
    followed: Array  #: The mean of ``r <z, C v>``, shape (nodes,).
    beside_sample: list[float]  #: The variance of ``y'`` of `higher`, by powers of the readout.
    between_samples: float  #: The mean square of ``r_mu r_nu`` times the product of two different samples.

    @property
    def k(self) -> float:
        """``e s_2``."""
        return self.e * self.psi.linear

    @property
    def spike(self) -> float:
        """``e s_3``."""
        return self.e * self.psi.second

    @cached_property
    def linear_norm(self) -> tuple[float, float, float]:
        """``l_1``, ``l_2`` and ``l_3``."""
        return linear_norm(self.psi, self.e, self.ratio, self.residual, *self.products)

    @property
    def linear(self) -> Array:
        """The covariance of the parts of degree one, ``<om_0, L^T v>`` in p and ``<om_0, l>`` in c."""
        (l_1, l_2, l_3), (g_v, h_v, g_b_v, h_b_v), k = self.linear_norm, self.beside_spike, self.k
        return np.array([l_1 * g_v, l_2 * g_v + l_3 * h_v + k * l_1 * g_b_v, k * (l_2 * g_b_v + l_3 * h_b_v)])

    @property
    def linear_variance(self) -> Array:
        """The variance of the part of c of degree one, for ``a^2`` to ``a^4``."""
        (l_1, l_2, l_3), (form, crossed, squares) = self.linear_norm, self.forms
        both = l_2**2 * form + 2 * l_2 * l_3 * crossed + l_3**2 * squares
        return np.array([l_1**2 * form, 2 * l_1 * (l_2 * form + l_3 * crossed), both])

    @property
    def slope(self) -> tuple[float, float]:
        """The slope of c along ``<om_0, v>``, for each standard deviation of the latter."""
        (l_1, l_2, l_3), (g_v, h_v, *_), scale = self.linear_norm, self.beside_spike, self.along**0.5
        return l_1 * g_v / scale, (l_2 * g_v + l_3 * h_v) / scale

    @property
    def higher(self) -> tuple[Array, Array]:
        """The covariance of the parts of p and c above degree two, and the variance of that of c (from ``a^2`` on).

        For each sample these are ``a e r <z, C v> psi`` in p, and ``2 a e r psi y + a^2 e^2 phi0 c2 r^2 psi^2`` in c,
        where y is ``alpha z_mu + y'`` with ``alpha = c2 + a k (r0 c3 + phi0 c2 r)``.
        """
        psi, e, phi0, (once, twice, other) = self.psi, self.e, self.ratio, self.products
        r, mean = self.law.residual, self.law.mean
        alpha = [np.full_like(r, once), self.k * (self.residual * other + phi0 * twice * r)]
        squares = [alpha[0] ** 2, 2 * alpha[0] * alpha[1], alpha[1] ** 2]
        by_rest = 4 * e**2 * self.law.square * psi.square * np.array(self.beside_sample)
        variance = 4 * e**2 * psi.product * np.array([mean(r**2 * part) for part in squares]) + by_rest
        variance[1:] += [4 * e**3 * phi0 * twice * psi.cross * mean(r**3 * part) for part in alpha]
        variance[2] += e**4 * phi0**2 * twice**2 * psi.square_square * mean(r**4)
        variance *= phi0
        # Pairs of samples.
        variance[2] += 2 * (e**2 * phi0 * psi.square) ** 2 * self.between_samples
        along = [2 * e**2 * phi0 * psi.with_product * mean(r * self.followed * part) for part in alpha]
        joint = np.array([0.0, *along])
        joint[2] += e**3 * phi0**2 * twice * psi.with_square * mean(r**2 * self.followed)
        return joint, variance

    def fluctuations(self, joint: Array, norm_variance: Array, **known: Any) -> RowFluctuations:
        """Return the fluctuations of the rows.

        `joint` is the covariance of the parts of degree two of p and c, and `norm_variance` the variance of that of c,
        as polynomials like those of `RowFluctuations`. `known` has the fields of the latter that depend on more.
        """
        slope, (joint_higher, higher) = self.slope, self.higher
        norm_variance[2:] += self.linear_variance + higher
        # These are without the part that follows <om_0, v>.
        norm_variance[2:] -= [slope[0] ** 2, 2 * slope[0] * slope[1], slope[1] ** 2]
        return RowFluctuations(
            norm_slope=slope,
            covariance=tuple((self.linear + joint + joint_higher).tolist()),
            norm_variance=tuple(norm_variance.tolist()),
            linear_norm=self.linear_norm,
            sample_length=self.ratio * self.products[1],
            **known,
        )


def correlated_fluctuations(
    activation: ScalarFunction, samples: CorrelatedSamples, e: float, *, sphere: bool
) -> RowFluctuations:
    """Return the fluctuations of rows after a step whose gradient is not zero, with ``e = eta / sqrt(N)``.

    With `sphere` the initial rows ``w`` have length one; otherwise they are Gaussian.

    Docs, "Correlated inputs", equations (C3), (C4) and (C5).
    """
    psi, norm, phi0, r = derivative_moments(activation), samples.norm, samples.ratio, samples.law.residual
    c2, c3, c4 = (samples.spectrum.moment(power) for power in (2, 3, 4))
    k, r0, along, m2 = e * psi.linear, samples.moment_of_b(3) / c3, samples.along(2), samples.mean(r**2)
    rest = samples.moment_of_b(5, 2) - (r0 * c3) ** 2 + phi0 * m2 * c4
    terms = RowTerms(
        psi,
        e,
        phi0,
        samples.law,
        residual=r0,
        products=(c2, c2, c3),
        along=samples.form(3) / norm**2,
        beside_spike=(
            norm,
            samples.mean(r**2 * along) / norm,
            samples.through_b(1, 2) / norm,
            samples.squares_between() / norm,
        ),
        forms=(samples.form(1), samples.crossed_form(1), samples.squares_form(1)),
        followed=r * along / norm,
        beside_sample=[c3 - c2**2, 2 * k * (samples.moment_of_b(4) - c2 * r0 * c3), k**2 * rest],
        between_samples=m2**2 * c4,
    )
    gain, following = samples.square(r**2) / norm**2, terms.spike * norm
    joint, norm_variance, length = _quadratic(samples, terms, sphere=sphere)
    return terms.fluctuations(
        joint,
        norm_variance,
        projection_variance=(
            terms.along,
            2 * k * samples.through_b(2, 2) / norm**2,
            k**2 * samples.stretched_form() / norm**2 + e**2 * phi0 * psi.square * gain,
        ),
        spike_variance=following**2 / 2 * (c2 - sphere),
        sample_gain=gain / m2,
        spike_covariance=tuple((following * length).tolist()),
        norm_vector=norm_vector(psi, e, phi0, r0, c2, c3),
    )


def _quadratic(samples: CorrelatedSamples, terms: RowTerms, *, sphere: bool) -> tuple[Array, Array, Array]:
    """Return three polynomials of the readout: the covariance of the parts of degree two, the variance of that of c.

    These parts are ``(a spike / 2) om_0.W.om_0`` in p and ``om_0.M.om_0`` in c: equation (C5). The third polynomial is
    half the covariance of c and ``|om_0|^2``, which a spike follows, times d.
    """
    form = _form(samples, terms)
    projection: list[_Term] = [(0, terms.spike, 0, [(terms.followed, 0)])]
    quadratic = 2 * _polynomial(samples, form, form, 5)
    joint = _polynomial(samples, projection, form, 3)
    length = _polynomial(samples, [(0, 1.0, 0, [])], form, 3)
    if sphere:
        mean_form = _polynomial(samples, _ONE, form, 3)
        quadratic -= 2 * np.convolve(mean_form, mean_form)
        joint -= _polynomial(samples, projection, _ONE, 1)[0] * mean_form
        length -= mean_form
    return joint, quadratic, length


def _form(samples: CorrelatedSamples, terms: RowTerms) -> list[_Term]:
    """Return the matrix M of equation (C5), the quadratic form of c in ``om_0``."""
    psi, k, r0, e, (c2, _, c3) = terms.psi, terms.k, terms.residual, terms.e, terms.products
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
