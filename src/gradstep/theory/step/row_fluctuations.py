"""The joint law of a row's projection on the spike and of its squared norm, at a given readout.

Given the samples of the step, a row after it is a function of the initial row ``w0`` alone. Write
``z_mu = <w0, x_mu>``, split the derivative as ``sigma' = s_1 + s_2 z + psi(z)``, and put ``k = e s_2``. A row of
readout ``a`` becomes::

    w = L w0 + a e s_1 g + a e xi,      L = 1 + a k B,      xi = (1/n) sum_mu r_mu psi(z_mu) x_mu.

Here ``B`` is the matrix of the samples weighted by their residuals ``r`` (`gradstep.theory.neurons.bulk`), and the
spike is along ``v = g / |g|``. This module has the variances and the covariance of::

    p = <w, v>,      c = |w - p v|^2 = |L w0|^2 + 2 a e <L w0, xi> + a^2 e^2 |xi|^2

to leading order, which is ``1/d``. Both are sorted by their degree in the Gaussian vector ``w0``, because parts of
different degree are uncorrelated:

* degree one: ``<w0, L v>`` in ``p``, and ``<w0, l>`` in ``c``;
* degree two: quadratic forms ``w0^T C w0`` in ``p`` and ``w0^T M w0`` in ``c``, of covariance ``2 tr(C M) / d^2``;
* higher degrees: functions of the pre-activation of one sample each, which are as good as independent between samples,
  and products of two of them.

This project; the derivation is on the page "Uniform equivalent" of the docs, in the section "Groups of neurons".
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from gradstep.gaussian import ScalarFunction, expectation, moments
from gradstep.theory.step.samples import StepSamples

__all__ = [
    "ROUNDING",
    "DerivativeMoments",
    "RowFluctuations",
    "damped_norm_vector",
    "derivative_moments",
    "derivative_slope",
    "linear_norm",
    "norm_vector",
    "own_output_slopes",
    "row_fluctuations",
    "rows_without_a_step",
]

Array = NDArray[np.float64]
#: Largest moment of an activation's derivative, and sum of products of these, that is rounding.
ROUNDING = 1e-12


@dataclass(frozen=True)
class RowFluctuations:
    """Fluctuations of rows of equal readout ``a``, times ``d``; each is a polynomial of ``a``, constants first."""

    #: Variance of the projection ``p``, without what the spike has of it: coefficients of ``1, a, a^2``.
    projection_variance: tuple[float, float, float]
    #: Variance of the spike of a neuron of readout one. The spike follows the length of the initial row, as ``E
    #: sigma'`` does (zero for rows on the sphere).
    spike_variance: float
    norm_slope: tuple[float, float]  #: Coefficients of ``a`` and ``a^2`` in the slope of ``c`` along ``<w0, v>``.
    covariance: tuple[float, float, float]  #: Covariance of ``p`` and ``c``: coefficients of ``a, a^2, a^3``.
    norm_variance: tuple[float, ...]  #: Variance of ``c`` at a given ``<w0, v>``: coefficients of ``1, a, ..., a^4``.
    #: ``v.S.v``: the variance along ``v`` of a bulk made of the step's samples, over its mean of all directions.
    sample_gain: float
    #: The part of `covariance` that the spike has, which follows the length of the initial row.
    spike_covariance: tuple[float, float, float] = (0.0, 0.0, 0.0)
    #: ``l_1``, ``l_2`` and ``l_3`` of the part of ``c`` that is linear in the initial row: see the function of this
    #: name.
    linear_norm: tuple[float, float, float] = (0.0, 0.0, 0.0)
    #: ``phi0`` times the mean square of the metric of the step. Times ``a^2 e^2 E[r^2 psi^2]`` it is what the samples
    #: add to ``c`` by their squares.
    sample_length: float = 0.0
    #: Covariance of the row itself, without its spike, with ``c``: the coefficients of `norm_vector`, or of
    #: `damped_norm_vector` after a damped step, for ``a, a^2, a^3``.
    norm_vector: tuple[tuple[float, ...], ...] = ()
    #: Variance of a part of ``p`` for a neuron of readout one. It is the part of second degree that does not follow the
    #: length of the initial row (`gradstep.theory.step.second_degree`).
    bend_variance: float = 0.0
    #: Coefficients of ``a`` and ``a^3`` in the third central moment of ``p``, times ``d`` once more.
    bend_third: tuple[float, float] = (0.0, 0.0)
    #: Covariance of the row itself, off the spike, with that part of ``p``: coefficients of ``P bt``, ``P C bt``,
    #: ``P C^2 bt`` and ``P C P v`` for a neuron of readout one, times ``d`` once more.
    bend_vector: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    #: Covariance of that part of ``p`` with what the second degree adds to ``c``, and the variance of the latter.
    bend_norm: tuple[float, float] = (0.0, 0.0)
    #: The component of `bend_vector` along the teacher's rest, the part of bt that is orthogonal to ``v``.
    bend_rest: float = 0.0

    @property
    def slope_square(self) -> tuple[float, ...]:
        """The square of the slope of ``c``, a polynomial of the readout like `norm_variance`."""
        one, two = self.norm_slope
        return (0.0, 0.0, one**2, 2 * one * two, two**2)

    @property
    def norms_tell(self) -> bool:
        """Whether the norm of a row is known to tell of the row: beyond rounding, as for a ReLU."""
        return any(abs(coefficient) > ROUNDING for vector in self.norm_vector for coefficient in vector)

    def turned(self, cosine: float) -> RowFluctuations:
        """Return the law of the projection on another direction, which has this overlap with ``v``.

        What ``c`` follows along ``v`` and not along that direction is independent of the projection.
        """
        off = (1 - cosine**2) * np.array(self.slope_square)
        one, two, three = self.covariance
        bt, once, twice, spike = self.bend_vector
        return replace(
            self,
            spike_variance=cosine**2 * self.spike_variance,
            norm_slope=(cosine * self.norm_slope[0], cosine * self.norm_slope[1]),
            covariance=(cosine * one, cosine * two, cosine * three),
            norm_variance=tuple((np.array(self.norm_variance) + off).tolist()),
            spike_covariance=tuple((cosine * np.array(self.spike_covariance)).tolist()),
            bend_variance=cosine**2 * self.bend_variance,
            bend_third=(cosine**3 * self.bend_third[0], cosine**3 * self.bend_third[1]),
            bend_vector=(cosine * bt, cosine * once, cosine * twice, cosine * spike),
            bend_norm=(cosine * self.bend_norm[0], self.bend_norm[1]),
            bend_rest=cosine * self.bend_rest,
        )


@dataclass(frozen=True)
class DerivativeMoments:
    """Moments of ``psi = sigma' - E sigma' - z E[z sigma']``, the derivative beyond its linear part."""

    linear: float  # s_2 = E z sigma'
    second: float  # s_3 = E (z^2 - 1) sigma'
    third: float  # s_4 = E (z^3 - 3 z) sigma'
    square: float  # E psi^2
    square_slope: float  # E z psi^2
    square_bend: float  # E (z^2 - 1) psi^2 / 2
    # Parts of third degree and above, of psi, z psi and psi^2: their covariances.
    with_product: float  # of psi and z psi
    with_square: float  # of psi and psi^2
    product: float  # variance of z psi
    cross: float  # of z psi and psi^2
    square_square: float  # variance of psi^2


@lru_cache(maxsize=256)
def derivative_moments(activation: ScalarFunction) -> DerivativeMoments:
    """Compute the moments of the activation's derivative beyond its linear part, by one-dimensional quadrature."""
    mean = moments(activation).derivative_mean
    linear = float(expectation(lambda z: z * activation.derivative(z), kinks=activation.kinks).value)

    def integrand(z: Array) -> Array:
        psi = activation.derivative(z) - mean - linear * z
        square = psi**2
        powers = [psi * z**2, psi * z**3, square, square * z, square * z**2, square * psi, square * psi * z, square**2]
        return np.stack(powers)

    means = np.asarray(expectation(integrand, kinks=activation.kinks).value).tolist()
    second, third, square, square_slope, square_z2, cube, cube_z, fourth = means
    bend = (square_z2 - square) / 2
    # Hermite coefficients of z psi are (s_3, s_4 / 2), of psi^2 (square_slope, bend), of psi (0, s_3 / 2), in degrees
    # one and two.
    return DerivativeMoments(
        linear=linear,
        second=second,
        third=third,
        square=square,
        square_slope=square_slope,
        square_bend=bend,
        with_product=square_slope - second * third / 2,
        with_square=cube - second * bend,
        product=max(square_z2 - second**2 - third**2 / 2, 0.0),
        cross=cube_z - second * square_slope - third * bend,
        square_square=max(fourth - square**2 - square_slope**2 - 2 * bend**2, 0.0),
    )


def derivative_slope(activation: ScalarFunction) -> float:
    """Return ``E[z sigma'(z)]``, of the ordinary derivative."""
    return derivative_moments(activation).linear


@lru_cache(maxsize=256)
def own_output_slopes(activation: ScalarFunction) -> tuple[float, float, float]:
    """Return what a feature of a network's own output does to a row, of the ordinary derivative.

    The first two are how it stretches the row: ``E[(z^2 - 1) z sigma'(z)] / sqrt(2)``, for what the output has of an
    input's length, and ``E[(sigma - mu_0 - mu_1 z) z sigma'(z)]``, for the row's own feature. Two parts of that feature
    are left out: the linear one turns the row instead (its stretch is in `StepStatistics.own_norm`), and the mean is no
    different from that of all others. The last number is ``E[(sigma - mu_0) (sigma' - E sigma')^2]``, for the squares
    that the samples add to the norm.

    Docs, "Uniform equivalent", equation (E14).
    """
    known = moments(activation)

    def integrand(z: Array) -> Array:
        slope = z * activation.derivative(z)
        feature = activation(z) - known.mean
        square = (activation.derivative(z) - known.derivative_mean) ** 2
        return np.stack([(z**2 - 1) * slope, (feature - known.linear * z) * slope, feature * square])

    with_length, own, squares = np.asarray(expectation(integrand, kinks=activation.kinks).value).tolist()
    return with_length / 2**0.5, own, squares


def rows_without_a_step(initial_weights: str) -> RowFluctuations:
    """Return the fluctuations of the initial rows."""
    length = 2.0 if initial_weights == "gaussian" else 0.0
    return RowFluctuations((1.0, 0.0, 0.0), 0.0, (0.0, 0.0), (0.0, 0.0, 0.0), (length, 0.0, 0.0, 0.0, 0.0), 1.0)


def linear_norm(
    psi: DerivativeMoments,
    e: float,
    phi0: float,
    residual: float,
    once: float = 1.0,
    twice: float = 1.0,
    with_others: float = 1.0,
) -> tuple[float, float, float]:
    """Return ``l_1``, ``l_2`` and ``l_3`` of a row's squared norm off the spike, in its part linear in the initial row.

    This part is ``<w0, l>`` with ``l = (a l_1 + a^2 l_2) g + a^2 l_3 h`` and ``h = X^T r^2 / n``. In the norm,
    ``sum_mu r_mu psi(z_mu) <L w0, x_mu>`` has ``s_3 E[z_mu <L w0, x_mu>] = s_3 (1 + a k (E r + phi0 r_mu))`` along
    ``x_mu``, and ``psi^2`` has its own slope.

    Here `e` and `phi0` are as in `row_fluctuations`, and `residual` is ``E r``. The products `once`, `twice` and
    `with_others` are as in `damped_norm_vector`, all one for inputs of equal eigenvalues. After a plain step the first
    two are the mean square of the eigenvalues and the last one is the mean cube.

    Docs, "Uniform equivalent", equation (E5). Docs, "Correlated inputs", equation (C4).
    """
    k, spike = e * psi.linear, e * psi.second
    l_3 = phi0 * twice * (2 * spike * k + e**2 * psi.square_slope)
    return 2 * spike * once, 2 * spike * k * residual * with_others, l_3


def norm_vector(
    psi: DerivativeMoments, e: float, phi0: float, residual: float, c2: float = 1.0, c3: float = 1.0
) -> tuple[tuple[float, ...], ...]:
    """Return the covariance of a row, without its spike, with its squared norm off the spike (times ``d``).

    This is a vector: the sum of ``g``, ``B g``, ``h``, ``B h`` and ``h_3`` with these coefficients, where
    ``h = X^T r^2 / n`` and ``h_3 = X^T r^3 / n``. Of correlated inputs the vectors are ``C g``, ``C B C g`` and so on.

    The coefficients of the five vectors are returned for ``a``, ``a^2`` and ``a^3``. `e` and `phi0` are as in
    `row_fluctuations`, `residual` is ``E r``, and `c2` and `c3` are the mean square and the mean cube of the
    eigenvalues of correlated inputs.

    Docs, "Structured bulk", equation (A5a). Docs, "Bases of stretched rows", equation (B13).
    """
    found = np.array(damped_norm_vector(psi, e, phi0, residual, c2, c2, c3))
    # A plain step has the same vector C h before the samples and after them, and its spike is along C g.
    found[:, 2] += found[:, 5]
    return tuple(tuple(row) for row in found[:, :5].tolist())


def damped_norm_vector(
    psi: DerivativeMoments,
    e: float,
    phi0: float,
    residual: float,
    once: float,
    twice: float,
    with_others: float,
    repelled: tuple[float, float] = (0.0, 0.0),
) -> tuple[tuple[float, ...], ...]:
    """Return the same covariance after a damped step, in which ``P`` knows the samples.

    The vectors are ``C g``, ``P B C g``, ``C h``, ``P B C h``, ``P h_3``, ``P h`` and ``P g``
    (`gradstep.theory.step.damped_law.DampedLaw.others`).

    The coefficients of the seven vectors are returned for ``a``, ``a^2`` and ``a^3``. `once`, `twice` and `with_others`
    are products of a sample with ``C P``, ``P^2`` and ``P^2 E C`` (equation (N5)), and `repelled` is
    `gradstep.theory.step.damped_traces.DampedTraces.repelled`; the others are as in `norm_vector`.

    Docs, "Damped steps", equation (N9).
    """
    k, spike, length = e * psi.linear, e * psi.second, e * psi.third
    stretch = k * residual
    drift = stretch * with_others
    l_1, l_2, l_3 = linear_norm(psi, e, phi0, residual, once, twice, with_others)
    by_square = phi0 * (spike * (2 * k + length) + 2 * e**2 * psi.with_product)
    cubes = spike * (k**2 + k * length + e**2 * psi.square_bend)
    cubes += 2 * e**2 * k * psi.with_product + e**3 * psi.with_square
    return (
        (l_1, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
        (l_2, k * l_1, l_3, 0.0, 0.0, by_square * once, 2 * spike * stretch * repelled[0]),
        (0.0, k * l_2, 0.0, k * l_3, phi0**2 * twice * cubes, by_square * drift, spike * stretch**2 * repelled[1]),
    )


def row_fluctuations(
    activation: ScalarFunction, samples: StepSamples, e: float, phi0: float, *, sphere: bool, by_output: float = 0.0
) -> RowFluctuations:
    """Return the fluctuations of rows after the step, with ``e = eta / sqrt(N)`` and ``phi0 = d / n_step``.

    With `sphere` the initial rows have length one; otherwise they are Gaussian. `by_output` is the multiple of the
    identity that the quadratic part of the network's own output adds to B.

    Docs, "Uniform equivalent", equations (E3), (E4), (E5) and (E6).

    Notes
    -----
    All terms of order ``1/d``. Products of pre-activations of different samples are left out where they are smaller by
    ``1/d``.
    """
    psi = derivative_moments(activation)
    terms = _Terms(samples, psi, e, phi0, by_output)
    joint, norm_variance, mean_form = terms.quadratic(sphere=sphere)
    joint_higher, higher = terms.higher
    norm_variance[2:] += higher
    norm_variance[4] += terms.linear_off_spike
    # The bulk of the samples along v, without degree one, which L v has.
    rest = e**2 * phi0 * samples.powers[0] * psi.square * samples.gain
    following = terms.spike * samples.norm
    return RowFluctuations(
        projection_variance=(1.0, 2 * terms.k * terms.form_along, terms.k**2 * terms.form_square + rest),
        spike_variance=0.0 if sphere else following**2 / 2,
        norm_slope=terms.slope,
        covariance=tuple((terms.linear + joint + joint_higher).tolist()),
        norm_variance=tuple(norm_variance.tolist()),
        sample_gain=samples.gain,
        spike_covariance=(0.0, 0.0, 0.0) if sphere else tuple((following * mean_form).tolist()),
        linear_norm=terms.linear_norm,
        sample_length=phi0,
        norm_vector=norm_vector(psi, e, phi0, terms.traces[0]),
    )


@dataclass(frozen=True)
class _Terms:
    """The projection ``p`` on the spike and the squared norm ``c`` off it by degrees in the initial row ``w0``.

    Each is a polynomial of the readout.
    """

    samples: StepSamples
    psi: DerivativeMoments
    # As in `row_fluctuations`.
    e: float
    phi0: float
    by_output: float

    @property
    def k(self) -> float:
        """``e s_2``."""
        return self.e * self.psi.linear

    @property
    def spike(self) -> float:
        """``e s_3``."""
        return self.e * self.psi.second

    @property
    def length(self) -> float:
        """``e s_4``."""
        return self.e * self.psi.third

    @property
    def traces(self) -> list[float]:
        """``tr B^j / d``, from power one."""
        moments, added = [float(moment) for moment in self.samples.by_residual.moments], self.by_output
        return [
            sum(math.comb(power, k) * added ** (power - k) * moments[k] for k in range(power + 1))
            for power in range(1, len(moments))
        ]

    @property
    def form_along(self) -> float:
        """``v.B.v``."""
        return self.samples.form_along + self.by_output

    @property
    def form_square(self) -> float:
        """``v.B^2.v``."""
        return self.samples.form_square + 2 * self.by_output * self.samples.form_along + self.by_output**2

    @cached_property
    def linear_norm(self) -> tuple[float, float, float]:
        """``l_1``, ``l_2`` and ``l_3``."""
        return linear_norm(self.psi, self.e, self.phi0, self.traces[0])

    @property
    def _along_spike(self) -> tuple[float, float]:
        """``l_1`` and ``l_2``, times ``|g|``."""
        l_1, l_2, _ = self.linear_norm
        return l_1 * self.samples.norm, l_2 * self.samples.norm

    @property
    def slope(self) -> tuple[float, float]:
        """The slope of c along ``<w0, v>``."""
        first, second = self._along_spike
        return first, second + self.linear_norm[2] * self.samples.squares_along

    @property
    def linear(self) -> Array:
        """The covariance of the parts of degree one: ``<w0, L v>`` in p and ``<w0, l>`` in c."""
        samples, (first, second), slope = self.samples, self._along_spike, self.slope
        with_squares = samples.form_with_squares + self.by_output * samples.squares_along
        last = second * self.form_along + self.linear_norm[2] * with_squares
        return np.array([slope[0], slope[1] + self.k * first * self.form_along, self.k * last])

    @property
    def linear_off_spike(self) -> float:
        """The variance of that of c, without what follows ``<w0, v>``: the coefficient of ``a^4``."""
        return self.linear_norm[2] ** 2 * self.samples.squares_off

    def quadratic(self, *, sphere: bool) -> tuple[Array, Array, Array]:
        """Return the covariance and the variance of c of the parts of degree two, and ``tr M / d``.

        The parts are ``w0.C.w0`` in p and ``w0.M.w0`` in c, where ``C = a (e s_3 / 2) sum_mu r_mu <x_mu, v> x_mu
        x_mu^T / n`` and ``M = 1 + a first B + a^2 (k^2 B^2 + also B + bent R)``, with R the samples weighted by r^2.
        """
        samples, phi0, k = self.samples, self.phi0, self.k
        (m2, m3, m4), (b1, b2, b3, b4) = samples.powers, self.traces
        first, also = 2 * k + self.length, k * self.length * b1
        bent = phi0 * (k * self.length + self.e**2 * self.psi.square_bend)
        # tr BR / d, tr R^2 / d and tr B^2 R / d.
        with_first, with_square = phi0 * m3 + m2 * b1, phi0 * m4 + m2**2
        with_second = m2 * b2 + 2 * phi0 * b1 * m3 + phi0**2 * m4
        second = k**2 * b2 + also * b1 + bent * m2
        second_first = k**2 * b3 + also * b2 + bent * with_first
        second_second = k**4 * b4 + also**2 * b2 + bent**2 * with_square
        second_second += 2 * (k**2 * also * b3 + k**2 * bent * with_second + also * bent * with_first)
        form = 2 * np.array([1.0, 2 * first * b1, first**2 * b2 + 2 * second, 2 * first * second_first, second_second])
        mean_form = np.array([1.0, first * b1, second])
        # E r^j <x, v>: tr C B / d and so on.
        v1, v2, v3 = samples.norm, samples.squares_along, samples.cubes_along
        c_first, c_squares = v1 * b1 + phi0 * v2, v1 * m2 + phi0 * v3
        c_second = v1 * b2 + 2 * phi0 * b1 * v2 + phi0**2 * v3
        joint = self.spike * np.array([v1, first * c_first, k**2 * c_second + also * c_first + bent * c_squares])
        if sphere:
            form -= 2 * np.convolve(mean_form, mean_form)
            joint -= self.spike * v1 * mean_form
        return joint, form, mean_form

    @property
    def higher(self) -> tuple[Array, Array]:
        """The covariance and the variance of c of the parts above degree two; the latter from ``a^2``.

        For each sample these are ``a e r <x, v> psi`` in p, and ``2 a e r psi (alpha z + N(0, a^2 k^2 phi0 m2)) + a^2
        e^2 phi0 r^2 psi^2`` in c, with ``alpha = 1 + a k (b1 + phi0 r)``.
        """
        samples, psi, e, phi0, k = self.samples, self.psi, self.e, self.phi0, self.k
        (m2, m3, m4), (b1, *_) = samples.powers, self.traces
        product, cross = 4 * e**2 * psi.product, 4 * e**3 * phi0 * psi.cross
        alpha_square = b1**2 * m2 + 2 * b1 * phi0 * m3 + phi0**2 * m4
        last = product * k**2 * alpha_square + cross * k * (b1 * m3 + phi0 * m4)
        last += e**4 * phi0**2 * psi.square_square * m4 + 4 * e**2 * k**2 * phi0 * m2**2 * psi.square
        variance = phi0 * np.array([product * m2, 2 * product * k * (b1 * m2 + phi0 * m3) + cross * m3, last])
        # Pairs of samples.
        variance[2] += 2 * (e**2 * phi0 * m2 * psi.square) ** 2
        v2, v3 = samples.squares_along, samples.cubes_along
        with_product, with_square = 2 * e**2 * phi0 * psi.with_product, e**3 * phi0**2 * psi.with_square
        joint = [0.0, with_product * v2, with_product * k * (b1 * v2 + phi0 * v3) + with_square * v3]
        return np.array(joint), variance
