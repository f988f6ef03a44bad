"""The spiked features F_l, as published and with the missing term, and the Gaussian equivalent of F_0."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.polynomial.polynomial import polyval
from numpy.typing import ArrayLike, NDArray

from gradstep.gaussian import ScalarFunction, hermite_rule, moments, scalar_function
from gradstep.papers.moniri2024.hermite import coefficients, smoothed_powers

__all__ = ["Spikes", "gaussian_equivalent", "spike_sizes", "spikes"]

Array = NDArray[np.float64]


class Spikes(NamedTuple):
    r"""Rank-one terms ``left[:, k-1] right[:, k-1]^T``, k = 1..l, of :math:`F_l-F_0`.

    Attributes
    ----------
    left : ndarray, shape (n, l)
    right : ndarray, shape (N, l)
        :math:`a^{\circ k}`.
    """

    left: Array
    right: Array

    @property
    def norms(self) -> Array:
        """Operator norm of each term."""
        return np.asarray(np.linalg.norm(self.left, axis=0) * np.linalg.norm(self.right, axis=0))

    def added_to(self, features: Array) -> Array:
        """Return ``features`` with all terms added."""
        return np.asarray(features + self.left @ self.right.T)


def spikes(
    activation: str | ScalarFunction, projection: Array, readout: Array, *, eta: float, order: int, rest: float = 0.0
) -> Spikes:
    r"""Terms of the spiked features :math:`F_l=F_0+\sum_{k\le l}`.

    .. math:: c_k\,E_u\big[(c_1\eta\,\tilde X\beta+\sqrt\rho\,u)^{\circ k}\big](a^{\circ k})^\top ,\qquad u\sim N(0,1).

    The activation is centred. The projection :math:`\tilde X\beta`, shape (n,), is that on :math:`\beta=X^\top y/n`,
    the readout, shape (N,), is :math:`a\sim N(0,I/N)`, and the order is :math:`l`.

    The rest is :math:`\rho=N\tau`, with :math:`\tau` the ``bulk`` of `gradstep.theory.step.statistics.StepStatistics`.
    Zero gives the published :math:`F_l`, which lacks terms of the same order as its own: the part of the gradient
    beyond rank one is small in operator norm but shifts every pre-activation as much as the spike (this project).

    Docs, "Intermediate step", equation (I2).
    """
    c = coefficients(activation, order)
    shift = c[1] * eta * projection
    left = c[1:] * polyval(shift, smoothed_powers(order, rest).T).T
    return Spikes(left, readout[:, None] ** np.arange(1, order + 1))


def spike_sizes(
    activation: str | ScalarFunction,
    *,
    eta: ArrayLike,
    gradient_norm: float,
    order: int,
    n: ArrayLike,
    width: ArrayLike,
    rest: ArrayLike = 0.0,
) -> Array:
    r"""Return the norm of each term of `spikes`, of order :math:`n^{(\alpha-1/2)k+1}` for :math:`\eta\asymp n^\alpha`.

    .. math:: |c_k|\sqrt{n\,E_\kappa\big(E_u(c_1\eta|\beta|\kappa+\sqrt\rho u)^k\big)^2}\;\sqrt{N^{1-k}(2k-1)!!}

    The limit of :math:`|\beta|` is ``gradient_norm``, there are ``n`` fresh samples and ``width`` neurons, and the
    others are as in `spikes`. The norms have shape (order, ...).

    Docs, "Intermediate step", equation (I3).
    """
    c = coefficients(activation, order)
    eta, n, width, rest = np.broadcast_arrays(*(np.asarray(v, dtype=np.float64) for v in (eta, n, width, rest)))
    kappa, weight = hermite_rule(2 * order + 2)
    powers = (c[1] * eta[..., None] * gradient_norm * kappa)[..., None] ** np.arange(order + 1)
    smoothed, sizes = smoothed_powers(order, rest), []
    for k in range(1, order + 1):
        mean = (powers @ smoothed[..., k - 1, :, None])[..., 0]
        right = width ** (1.0 - k) * math.prod(range(1, 2 * k, 2))
        sizes.append(abs(c[k]) * np.sqrt(n * (mean**2 @ weight) * right))
    return np.stack(sizes)


def gaussian_equivalent(
    activation: str | ScalarFunction, inputs: Array, weights: Array, draw: np.random.Generator
) -> Array:
    r"""Draw :math:`c_1\tilde XW_0^\top+c_{>1}Z`, which has the same errors as :math:`F_0`.

    The mean of the activation is left out. Inputs have shape (n, d), weights (N, d) and the features (n, N).
    """
    student = moments(scalar_function(activation))
    noise = draw.standard_normal((len(inputs), len(weights)))
    return np.asarray(student.linear * (inputs @ weights.T) + math.sqrt(student.nonlinear_second_moment) * noise)
