r"""Gains in training loss and test error after a step of size n^alpha, with l spikes in the features.

The slides give :math:`\Delta_l` for every l and :math:`\Lambda_l`, the gain in test error, for l = 1, 2: see
`gradstep.papers.moniri2024.published`. What this project adds to them is the default:

* Spike k of the real network is :math:`c_k\,\tilde a^{\circ k}` times
  :math:`E_u[(s\kappa+\sqrt\tau u)^k]` and not :math:`(s\kappa)^k`: the part of the gradient beyond rank one, small in
  operator norm, adds to a neuron's pre-activation a variance of the order of the square of its spike. Their ratio
  :math:`\rho=\tau/s^2` does not depend on the step size (`direction`), and the slides' spikes are :math:`\rho=0`.
* Rows :math:`N(0,I/d)` have norms that fluctuate, which makes the constant a feature of finite cost when
  :math:`c_2\neq0`; with rows on the sphere it is not.
* The slides' literal residual contains the initial output, which turns the spike towards the rows to which it is added;
  their formulas hold for the residual y.
* A closed form for every l, and :math:`\Lambda_l` from it: by generalised cross-validation, which stays exact with
  finitely many spikes,

.. math:: \Delta_l = \lambda[K_1 + t S_l], \qquad \Lambda_l = -\frac{1}{t^2}\frac{\partial}{\partial\lambda}
          [K_1 + tS_l],\qquad t = \psi m_1/\phi,

.. math:: S_l = \sum_{p=2}^l p!\,c_{\star,p}^2\gamma^{2p} - \frac{\big(\sum_{2\le p\le l,\ p\ even} c_{\star,p}\gamma^p
          (1+\rho)^{p/2} H_p(0)\big)^2}{\sum_{0\le p\le l,\ p\ even} (1+\rho)^p H_p(0)^2/p!},
          \qquad K_1 = \frac{\psi}{\phi} m_2c_{\star,1}^2\gamma^2,

because the even polynomials that the spikes span are those that vanish where :math:`\kappa^2=-\rho` does on average.

All gains take the same parameters, numbers or arrays that broadcast:

* ``l``: the number of spikes, at least 0, which is the window :math:`(l-1)/2l<\alpha<l/(2l+2)`;
* ``sigma``, ``sigma_star``: the activation, with :math:`c_1,\dots,c_l\neq0` (not checked beyond :math:`c_1`), and the
  teacher, of mean zero;
* ``phi``, ``psi``, ``lam``, ``sigma_eps``: :math:`d/n`, :math:`d/N`, the penalty and the standard deviation of the
  label noise;
* ``residual``: ``"y - f"``, the slides' literal residual, or ``"y"``, that of a network whose initial output is
  negligible;
* ``spikes``: ``"network"``, the real network's, or ``"published"``, the slides' (:math:`\rho=0`);
* ``rows``: ``"gaussian"``, initial rows :math:`N(0,I/d)`, or ``"sphere"``, rows of norm one, which the slides' formulas
  amount to.

Each raises `InvalidInput` on an argument out of range, and `NotConverged` if the traces do not converge.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradstep.checks import integer, nonnegative, one_of, positive
from gradstep.errors import InvalidInput
from gradstep.gaussian import Moments, ScalarFunction, moments, scalar_function
from gradstep.papers.moniri2024.hermite import coefficients, smoothed_powers
from gradstep.papers.moniri2024.resolvent import Traces, limiting_traces
from gradstep.problem import InitialWeights

__all__ = [
    "PUBLISHED",
    "Delta",
    "Delta_by_matrix",
    "Direction",
    "Lambda",
    "checked_degree",
    "direction",
    "through_matrix",
]

Array = NDArray[np.float64]
Function = str | ScalarFunction
Residual = Literal["y - f", "y"]
Spikes = Literal["network", "published"]

PUBLISHED: dict[str, Any] = {"residual": "y", "spikes": "published", "rows": "sphere"}
"""Options of `Delta` and `Lambda` for which the slides' formulas hold."""

_ZERO = 1e-9


@dataclass(frozen=True)
class Direction:
    r"""Limits of the gradient's common direction :math:`v = g/|g|`.

    Attributes
    ----------
    norm : ndarray
        :math:`|g|`.
    gamma : ndarray
        Alignment :math:`\langle v,\beta_\star\rangle`.
    rho : ndarray
        :math:`\tau/s^2`: variance that the step adds to a pre-activation, over the square of the neuron's spike.
    omega : ndarray
        Overlap of v with :math:`W_0^\top a`; zero for the residual y.
    """

    norm: Array
    gamma: Array
    rho: Array
    omega: Array


def direction(
    sigma: Function,
    sigma_star: Function,
    *,
    phi: ArrayLike,
    sigma_eps: ArrayLike = 0.0,
    residual: Residual = "y - f",
) -> Direction:
    """Return the limits of the gradient's common direction; parameters and errors as in the module's docstring."""
    one_of("residual", residual, ("y - f", "y"))
    student, target = moments(scalar_function(sigma)), moments(scalar_function(sigma_star))
    if abs(target.mean) > _ZERO * math.sqrt(target.second_moment):
        raise InvalidInput("sigma_star", str(sigma_star), "a teacher of mean zero")
    if abs(student.derivative_mean) <= _ZERO * math.sqrt(student.second_moment):
        raise InvalidInput("sigma", str(sigma), "an activation with c_1 != 0")
    phi = positive("phi", phi)
    c_1 = student.derivative_mean
    square = target.second_moment + np.square(nonnegative("sigma_eps", sigma_eps))
    own = 0.0
    if residual == "y - f":
        square, own = square + student.second_moment, c_1**2
    norm = np.sqrt(target.linear**2 + own + phi * square)
    rho = phi * square * student.derivative_variance / (c_1 * norm) ** 2
    omega = -c_1 / norm if residual == "y - f" else np.zeros_like(norm)
    return Direction(norm, np.asarray(target.linear / norm), np.asarray(rho), np.asarray(omega))


def Delta(
    l: int,  # noqa: E741
    sigma: Function,
    sigma_star: Function,
    *,
    phi: ArrayLike,
    psi: ArrayLike,
    lam: ArrayLike,
    sigma_eps: ArrayLike = 0.0,
    residual: Residual = "y - f",
    spikes: Spikes = "network",
    rows: InitialWeights = "gaussian",
) -> Array:
    r"""Return the gain :math:`\Delta_l` in training loss: the closed form of the module's docstring.

    Docs, "Intermediate step", equation (I6).
    """
    setting = _Setting.of(l, sigma, sigma_star, phi, psi, lam, sigma_eps, residual, spikes, rows)
    found = setting.found
    return np.asarray(np.asarray(lam) * setting.gain(l, found.t, found.s2, found.unused))


def Lambda(
    l: int,  # noqa: E741
    sigma: Function,
    sigma_star: Function,
    *,
    phi: ArrayLike,
    psi: ArrayLike,
    lam: ArrayLike,
    sigma_eps: ArrayLike = 0.0,
    residual: Residual = "y - f",
    spikes: Spikes = "network",
    rows: InitialWeights = "gaussian",
) -> Array:
    r"""Return the gain :math:`\Lambda_l` in test error, for every l (the slides have l = 1, 2).

    Docs, "Intermediate step", equation (I8).
    """
    setting = _Setting.of(l, sigma, sigma_star, phi, psi, lam, sigma_eps, residual, spikes, rows)
    return np.asarray(-setting.found.derivative(partial(setting.gain, l)) / setting.found.t**2)


def Delta_by_matrix(
    l: int,  # noqa: E741
    sigma: Function,
    sigma_star: Function,
    *,
    phi: ArrayLike,
    psi: ArrayLike,
    lam: ArrayLike,
    sigma_eps: ArrayLike = 0.0,
    residual: Residual = "y - f",
    spikes: Spikes = "network",
    rows: InitialWeights = "gaussian",
) -> Array:
    r"""Return `Delta` by the l x l matrix of the slides' theorem, carried over to the options of `Delta`; l >= 1.

    Monomials make the matrix ill-conditioned: about one digit is lost for each l.
    """
    l = checked_degree(l, 1)  # noqa: E741
    setting = _Setting.of(l, sigma, sigma_star, phi, psi, lam, sigma_eps, residual, spikes, rows)
    t, s2, theta = setting.found.t, setting.found.s2, setting.found.unused
    higher = [t * math.factorial(p) for p in range(2, l + 1)]
    cost = [t / setting.constant(t, theta), setting.linear_cost(t, s2, theta), *higher]
    r = [cost * setting.gamma**p for p, cost in enumerate([s2, *higher], 1)]
    return np.asarray(np.asarray(lam) * through_matrix(smoothed_powers(l, 1 + setting.rho), cost, r, setting.c_star))


def through_matrix(xi: Array, cost: Sequence[Array], r: Sequence[Array], c_star: Array) -> Array:
    r"""Return :math:`\sum_{pq}c_{\star,p}c_{\star,q}r_pr_q\sum_{ij}\Omega_{ij}\xi_{ip}\xi_{jq}`, "Training Error".

    The coefficients of spike i in the Hermite polynomials of degrees 0 to l are ``xi``, shape (..., l, l + 1). For each
    degree k, ``cost`` is that of :math:`[\Omega^{-1}]_{ij}=\sum_k\mathrm{cost}_k\,\xi_{ik}\xi_{jk}`. The :math:`r_p`
    begin with p = 1, and :math:`c_{\star,p}` with p = 0.
    """
    inverse = sum(c[..., None, None] * xi[..., :, None, k] * xi[..., None, :, k] for k, c in enumerate(cost))
    seen = sum((r_p * c_star[p])[..., None] * xi[..., p] for p, r_p in enumerate(r, 1))
    return np.asarray((seen * np.linalg.solve(inverse, seen[..., None])[..., 0]).sum(-1))


@dataclass(frozen=True)
class _Setting:
    r"""Parameters of the gains as functions of :math:`t`, :math:`s_2=\psi m_2/\phi` and :math:`\theta`."""

    found: Traces
    student: Moments
    c_star: Array
    gamma: Array
    rho: Array
    omega: Array
    rows: InitialWeights

    @classmethod
    def of(
        cls,
        l: int,  # noqa: E741
        sigma: Function,
        sigma_star: Function,
        phi: ArrayLike,
        psi: ArrayLike,
        lam: ArrayLike,
        sigma_eps: ArrayLike,
        residual: Residual,
        spikes: Spikes,
        rows: InitialWeights,
    ) -> _Setting:
        l = checked_degree(l, 0)  # noqa: E741
        one_of("spikes", spikes, ("network", "published"))
        one_of("rows", rows, ("gaussian", "sphere"))
        phi, psi, lam, sigma_eps = np.broadcast_arrays(
            *(np.asarray(v, dtype=np.float64) for v in (phi, psi, lam, sigma_eps))
        )
        v = direction(sigma, sigma_star, phi=phi, sigma_eps=sigma_eps, residual=residual)
        found, student = limiting_traces(sigma, phi=phi, psi=psi, lam=lam), moments(scalar_function(sigma))
        rho = v.rho if spikes == "network" else np.zeros_like(v.rho)
        return cls(found, student, coefficients(sigma_star, l + 2), v.gamma, rho, v.omega, rows)

    def constant(self, t: NDArray[Any], theta: NDArray[Any]) -> NDArray[Any]:
        """Return the cost of the constant, divided by that of a feature that the bulk does not have."""
        if abs(self.student.mean) > _ZERO * math.sqrt(self.student.second_moment):
            return np.full(t.shape, np.inf)
        if self.rows == "sphere":
            return np.ones(t.shape)
        # The norms of the rows contain the constant: c_2 (|w_i|^2 - 1), of variance 2/d over the neurons.
        return np.asarray(1 + self.student.quadratic**2 / self.found.phi * t * theta)

    def linear_cost(self, t: NDArray[Any], s2: NDArray[Any], theta: NDArray[Any]) -> NDArray[Any]:
        """Return the cost of the linear spike, which is not s2 because the spike has the overlap omega with the rows.

        Docs, "Intermediate step", equation (I7).
        """
        # D = (1 - omega^2) s2 + omega^2 (P + N Q^2 / T), T/N = theta phi^-1 psi, Q = c_1 s2 T/N.
        own = 1 + self.student.nonlinear_second_moment * t + self.student.linear**2 * s2
        replaced = s2 * (theta * self.found.psi / self.found.phi) * own
        return np.asarray((1 - self.omega**2) * s2 + self.omega**2 * replaced)

    def gain(self, l: int, t: NDArray[Any], s2: NDArray[Any], theta: NDArray[Any]) -> NDArray[Any]:  # noqa: E741
        """Return Delta_l / lambda = K_1 + t S_l."""
        if l == 0:
            return np.zeros_like(t)
        linear = (self.c_star[1] * self.gamma) ** 2 * s2**2 / self.linear_cost(t, s2, theta)
        whole, numerator, denominator = np.zeros(t.shape), np.zeros(t.shape), self.constant(t, theta)
        at_zero = 1.0  # H_p(0)
        for p in range(2, l + 1):
            whole = whole + math.factorial(p) * self.c_star[p] ** 2 * self.gamma ** (2 * p)
            if p % 2 == 0:
                at_zero *= -(p - 1)
                widened = (1 + self.rho) ** (p / 2) * at_zero
                numerator = numerator + self.c_star[p] * self.gamma**p * widened
                denominator = denominator + widened**2 / math.factorial(p)
        return np.asarray(linear + t * (whole - numerator**2 / denominator))


def checked_degree(l: int, minimum: int) -> int:  # noqa: E741
    """Return `l`, an integer of at least `minimum`."""
    return integer("l", l, minimum)
