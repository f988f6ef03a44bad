r"""The limiting traces m_1 and m_2, their derivatives in lambda, and the errors at initialisation.

With :math:`\bar R_0 = (F_0F_0^\top + \lambda n)^{-1}`, :math:`\phi = d/n` and :math:`\psi = d/N`,

.. math:: m_1 = \tfrac{\phi}{\psi}\lim \mathrm{tr}\,\bar R_0, \qquad
          m_2 = \tfrac{\phi}{\psi}\lim \tfrac1d \mathrm{tr}(\tilde X^\top\bar R_0\tilde X)

solve the two equations of the slide "Analysis of Training/Test Error" (`published_system`). They are found here from
one monotone scalar equation (this project): with :math:`t=\psi m_1/\phi`, :math:`\theta=\phi/\psi-1+\lambda t` and
:math:`u=t\theta`,

.. math:: \theta + c_{>1}^2 u + \frac{c_1^2 u}{1+c_1^2u/\phi} = \frac\phi\psi, \qquad
          m_2 = \frac{m_1}{1+c_1^2u/\phi},

whose left side grows with t wherever :math:`\theta>0`.

``sigma`` and ``sigma_star`` are the activation and the teacher, ``phi``, ``psi`` and ``lam`` are :math:`\phi`,
:math:`\psi` and the penalty, all positive, and ``sigma_eps`` is the standard deviation of the label noise. Functions
raise `InvalidInput` on an argument out of range, and `NotConverged` if the true residual exceeds 1e-12.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradstep.checks import nonnegative, positive
from gradstep.errors import InvalidInput, NotConverged
from gradstep.gaussian import ScalarFunction, moments, scalar_function

__all__ = ["L_te_0", "L_tr_0", "Traces", "limiting_traces", "loss_over_lambda", "published_system", "traces"]

Array = NDArray[np.float64]

TOLERANCE = 1e-12
"""Largest relative residual of the scalar equation that is ever returned."""

_ITERATIONS = 200


@dataclass(frozen=True)
class Traces:
    r"""The traces of :math:`\bar R_0` and their derivatives; arrays of one shape.

    Attributes
    ----------
    m1, m2 : ndarray
        As in the module's docstring.
    dm1, dm2 : ndarray
        Derivatives in :math:`\lambda`, negative.
    unused, dunused : ndarray
        :math:`\theta`, the limit of :math:`(N - n + \lambda n\,\mathrm{tr}\bar R_0)/n`, and its derivative.
    phi, psi : ndarray
    """

    m1: Array
    m2: Array
    dm1: Array
    dm2: Array
    unused: Array
    dunused: Array
    phi: Array
    psi: Array

    @property
    def t(self) -> Array:
        r""":math:`\mathrm{tr}\,\bar R_0 = \psi m_1/\phi`."""
        return self.psi / self.phi * self.m1

    @property
    def dt(self) -> Array:
        """Derivative of `t`."""
        return self.psi / self.phi * self.dm1

    @property
    def s2(self) -> Array:
        r""":math:`\mathrm{tr}(\tilde X^\top\bar R_0\tilde X)/d = \psi m_2/\phi`."""
        return self.psi / self.phi * self.m2

    @property
    def ds2(self) -> Array:
        """Derivative of `s2`."""
        return self.psi / self.phi * self.dm2

    def derivative(self, function: Callable[..., NDArray[Any]]) -> Array:
        r"""Return the derivative in :math:`\lambda` of an analytic function of t, s2 and `unused`.

        It is taken by a complex step: the imaginary part of :math:`f(x+ih\dot x)` is h times the derivative, to
        rounding, as no difference is taken that would cancel.
        """
        h = 1e-50
        traces = (self.t, self.dt), (self.s2, self.ds2), (self.unused, self.dunused)
        return np.asarray(function(*(x + 1j * h * slope for x, slope in traces)).imag / h)


def traces(
    linear_squared: ArrayLike,
    nonlinear_squared: ArrayLike,
    *,
    phi: ArrayLike,
    psi: ArrayLike,
    lam: ArrayLike,
    product_squared: ArrayLike = 0.0,
) -> Traces:
    """Solve for the traces, from the moments of the features.

    The moments are :math:`c_1^2` and :math:`c_{>1}^2`, not both zero, and the ratios and the penalty are positive.
    ``product_squared`` is the square :math:`e^2` of the coefficient of a second block of linear features, independent
    of the first: those that a step makes of the inputs times their projection on the spike. Raises `InvalidInput` on a
    ratio or penalty that is not positive, or squares that are negative or all zero. Raises `NotConverged` if the true
    residual exceeds 1e-12.

    Docs, "Intermediate step", equation (I4).
    """
    b, a, e2, phi, psi, lam = np.broadcast_arrays(
        nonnegative("linear_squared", linear_squared),
        nonnegative("nonlinear_squared", nonlinear_squared),
        nonnegative("product_squared", product_squared),
        positive("phi", phi),
        positive("psi", psi),
        positive("lam", lam),
    )
    total = a + b + e2
    if not (total > 0).all():
        raise InvalidInput("linear_squared", linear_squared, "> 0 where the other squares are zero")
    ratio = phi / psi
    least, more_neurons, fewer_neurons = np.minimum(ratio, 1), np.maximum(ratio - 1, 0), np.maximum(1 - ratio, 0)

    def gap(x: Array) -> tuple[Array, Array, Array, Array]:
        """Return t, theta, the residual of the scalar equation, and the sum of its terms' slopes in u."""
        t, theta = (x + fewer_neurons) / lam, x + more_neurons
        first, second = 1 + b * t * theta / phi, 1 + e2 * t * theta / phi
        value, slope = a + b / first + e2 / second, a + b / first**2 + e2 / second**2
        return t, theta, x - least + t * theta * value, slope

    # x = lam t - max(1 - phi/psi, 0), in which nothing cancels for few or for many neurons.
    low, high = 0.5 * least * lam / (lam + np.maximum(ratio, 1) * total), least
    x = np.sqrt(low * high)
    for _ in range(_ITERATIONS):
        t, theta, excess, slope = gap(x)
        low, high = np.where(excess < 0, x, low), np.where(excess > 0, x, high)
        newton = x * np.exp(-np.clip(excess / (x * (1 + (t + theta / lam) * slope)), -40, 40))
        inside = (newton >= low) & (newton <= high)
        updated = np.where(inside, newton, np.sqrt(low * high))
        done = np.abs(updated - x) <= 2e-16 * x
        x = updated
        if done.all():
            break
    t, theta, excess, slope = gap(x)
    residual = float(np.max(np.abs(excess) / least))
    if not residual <= TOLERANCE:
        raise NotConverged("limiting traces", residual, TOLERANCE, "Rescale the activation or the penalty.")
    u, stiffness = t * theta, lam + slope * (theta + lam * t)
    first = 1 + b * u / phi
    dt, du = -(t + slope * t**2) / stiffness, -u / stiffness
    return Traces(
        m1=ratio * t,
        m2=ratio * t / first,
        dm1=ratio * dt,
        dm2=ratio * (dt / first - t * b * du / (phi * first**2)),
        unused=theta,
        dunused=t * slope * theta / stiffness,
        phi=phi,
        psi=psi,
    )


def limiting_traces(sigma: str | ScalarFunction, *, phi: ArrayLike, psi: ArrayLike, lam: ArrayLike) -> Traces:
    """Return `traces` of an activation; a mean adds a rank-one term, which does not change the traces."""
    values = moments(scalar_function(sigma))
    return traces(values.linear**2, values.nonlinear_second_moment, phi=phi, psi=psi, lam=lam)


def published_system(
    m1: ArrayLike,
    m2: ArrayLike,
    *,
    c_1: ArrayLike,
    c_gt1: ArrayLike,
    phi: ArrayLike,
    psi: ArrayLike,
    lam: ArrayLike,
) -> tuple[Array, Array]:
    """Return the left sides of the two equations for m_1 and m_2, as printed: right, and zero at the solution."""
    m1, m2, c_1, c_gt1, phi, psi, lam = (np.asarray(v, dtype=np.float64) for v in (m1, m2, c_1, c_gt1, phi, psi, lam))
    Psi = c_1**2 * m1 * m2 * (lam * psi * m1 / phi - 1)
    first = phi * (m1 - m2) * (c_gt1**2 * m1 + c_1**2 * m2) + Psi
    return first, phi / psi * (c_1**2 * m1 * m2 + phi * (m2 - m1)) + Psi


def L_tr_0(
    sigma: str | ScalarFunction,
    sigma_star: str | ScalarFunction,
    *,
    phi: ArrayLike,
    psi: ArrayLike,
    lam: ArrayLike,
    sigma_eps: ArrayLike = 0.0,
) -> Array:
    r"""Return the limit of the training loss before the step: the mean squared residual plus the penalty.

    .. math:: \mathcal L_{tr}(F_0) = \frac{\lambda\psi}{\phi}\big[c_{\star,1}^2 m_2
              + (c_\star^2 - c_{\star,1}^2 + \sigma_\varepsilon^2) m_1\big]
    """
    value, _ = loss_over_lambda(sigma, sigma_star, sigma_eps, limiting_traces(sigma, phi=phi, psi=psi, lam=lam))
    return np.asarray(np.asarray(lam) * value)


def L_te_0(
    sigma: str | ScalarFunction,
    sigma_star: str | ScalarFunction,
    *,
    phi: ArrayLike,
    psi: ArrayLike,
    lam: ArrayLike,
    sigma_eps: ArrayLike = 0.0,
) -> Array:
    r"""Return the limit of the test error before the step, label noise included.

    Generalised cross-validation is exact in the limit, so that
    :math:`\mathcal L_{te} = -(\phi/\psi m_1)^2\,\partial_\lambda(\mathcal L_{tr}/\lambda)`.

    Docs, "Random features", equation (R6).
    """
    found = limiting_traces(sigma, phi=phi, psi=psi, lam=lam)
    return np.asarray(-loss_over_lambda(sigma, sigma_star, sigma_eps, found)[1] / found.t**2)


def loss_over_lambda(
    sigma: str | ScalarFunction, sigma_star: str | ScalarFunction, sigma_eps: ArrayLike, found: Traces
) -> tuple[Array, Array]:
    r"""Return :math:`\mathcal L_{tr}/\lambda` of a bulk with these traces, without spikes, and its derivative."""
    target = moments(scalar_function(sigma_star))
    linear = target.linear**2
    # If the activation has a mean, that of the teacher is fitted at no cost.
    seen = abs(moments(scalar_function(sigma)).mean) > 1e-9
    constant = 0.0 if seen else target.mean**2
    rest = target.nonlinear_second_moment + constant + np.square(nonnegative("sigma_eps", sigma_eps))
    return found.s2 * linear + found.t * rest, found.ds2 * linear + found.dt * rest
