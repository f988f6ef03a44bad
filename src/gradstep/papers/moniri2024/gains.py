r"""Gains in training loss and test error after a step of size n^alpha, with l spikes in the features.

The slides give :math:`\Delta_l` for every l and :math:`\Lambda_l`, the gain in test error, for l = 1, 2: see
`gradstep.papers.moniri2024.published`. What this project adds to them is the default:

* Spike k of the real network is :math:`c_k\,\tilde a^{\circ k}` times
  :math:`E_u[(s\kappa+\sqrt\tau u)^k]` and not :math:`(s\kappa)^k`: the part of the gradient beyond rank one, small in
  operator norm, adds to a neuron's pre-activation a variance of the order of the square of its spike. Their ratio
  :math:`\rho=\tau/s^2` does not depend on the step size (`direction`), and the slides' spikes are :math:`\rho=0`.
* Rows :math:`N(0,I/d)` have norms that fluctuate, which makes the constant a feature of finite cost when
  :math:`c_2\neq0`; with rows on the sphere it is not.
* The slides' literal residual contains the initial output, which tilts the spike towards the rows it is added to; their
  formulas hold for the residual y.
* A closed form for every l, and :math:`\Lambda_l` from it: by generalised cross-validation, which stays exact with
  finitely many spikes,

.. math:: \Delta_l = \lambda[K_1 + t S_l], \qquad \Lambda_l = -\frac{1}{t^2}\frac{\partial}{\partial\lambda}
          [K_1 + tS_l],\qquad t = \psi m_1/\phi,

.. math:: S_l = \sum_{p=2}^l p!\,c_{\star,p}^2\gamma^{2p} - \frac{\big(\sum_{2\le p\le l,\ p\ even} c_{\star,p}\gamma^p
          (1+\rho)^{p/2} H_p(0)\big)^2}{\sum_{0\le p\le l,\ p\ even} (1+\rho)^p H_p(0)^2/p!},
          \qquad K_1 = \frac{\psi}{\phi} m_2c_{\star,1}^2\gamma^2,

because the even polynomials that the spikes span are those that vanish where :math:`\kappa^2=-\rho` does on average.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradstep.checks import integer, nonnegative, one_of, positive
from gradstep.errors import InvalidInput
from gradstep.gaussian import ScalarFunction, hermite_coefficients, moments, scalar_function
from gradstep.papers.moniri2024.features import smoothed_powers
from gradstep.papers.moniri2024.resolvent import Traces, limiting_traces
from gradstep.problem import InitialWeights

__all__ = [
    "Delta",
    "Delta_by_matrix",
    "Direction",
    "Lambda",
    "check_degree",
    "direction",
]

Array = NDArray[np.float64]
Function = str | ScalarFunction
Residual = Literal["y - f", "y"]
Spikes = Literal["network", "published"]

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
    r"""Limits of the gradient's common direction.

    Parameters
    ----------
    sigma, sigma_star : str or ScalarFunction
        Activation and teacher.
    phi, sigma_eps : array_like
        ``d/n`` and the standard deviation of the label noise.
    residual : {"y - f", "y"}, optional
        The slides' literal residual, or the one of a network whose initial output is negligible.

    Returns
    -------
    Direction

    Raises
    ------
    InvalidInput
        On an unknown residual, an activation with :math:`c_1=0` or a teacher that is not centred.
    """
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
    r"""Gain :math:`\Delta_l` in training loss with l spikes: the closed form of the module's docstring.

    Parameters
    ----------
    l : int
        Number of spikes, >= 0: the window :math:`(l-1)/2l<\alpha<l/(2l+2)`.
    sigma, sigma_star : str or ScalarFunction
        Activation, with :math:`c_1,\dots,c_l\neq0` (not checked beyond :math:`c_1`), and centred teacher.
    phi, psi, lam, sigma_eps : array_like
        ``d/n``, ``d/N``, penalty and standard deviation of the label noise.
    residual : {"y - f", "y"}, optional
        As in `direction`.
    spikes : {"network", "published"}, optional
        The real network's, or the slides' (:math:`\rho=0`).
    rows : {"gaussian", "sphere"}, optional
        Law of the initial rows: :math:`N(0, I/d)`, or of norm one, which the slides' formulas amount to.

    Returns
    -------
    ndarray

    Raises
    ------
    InvalidInput
        As `direction`, on a bad l or option, and as `traces`.
    NotConverged
        As `traces`.
    """
    setting = _Setting.of(l, sigma, sigma_star, phi, psi, lam, sigma_eps, residual, spikes, rows)
    linear, _ = setting.linear
    higher, _ = setting.higher(l)
    return np.asarray(np.asarray(lam) * (linear + setting.found.t * higher if l else 0 * linear))


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
    r"""Gain :math:`\Lambda_l` in test error with l spikes, for every l (the slides have l = 1, 2).

    Parameters
    ----------
    l, sigma, sigma_star, phi, psi, lam, sigma_eps, residual, spikes, rows
        As in `Delta`.

    Returns
    -------
    ndarray

    Raises
    ------
    InvalidInput, NotConverged
        As `Delta`.
    """
    setting = _Setting.of(l, sigma, sigma_star, phi, psi, lam, sigma_eps, residual, spikes, rows)
    found, (linear, dlinear), (higher, dhigher) = setting.found, setting.linear, setting.higher(l)
    slope = dlinear + found.dt * higher + found.t * dhigher if l else 0 * linear
    return np.asarray(-slope / found.t**2)


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
    r"""`Delta` by the l x l matrix of the slides' theorem, carried over to the options of `Delta`.

    Parameters
    ----------
    l, sigma, sigma_star, phi, psi, lam, sigma_eps, residual, spikes, rows
        As in `Delta`, l >= 1. Monomials make the matrix ill-conditioned: about one digit is lost for each l.

    Returns
    -------
    ndarray

    Raises
    ------
    InvalidInput, NotConverged
        As `Delta`.
    """
    check_degree(l, 1)
    setting = _Setting.of(l, sigma, sigma_star, phi, psi, lam, sigma_eps, residual, spikes, rows)
    t, s2 = setting.found.t, setting.found.s2
    xi = smoothed_powers(l, 1 + setting.rho)
    gram = [t / setting.constant[0], setting.tilted[0], *(t * math.factorial(k) for k in range(2, l + 1))]
    overlap = [s2, *(t * math.factorial(p) for p in range(2, l + 1))]
    target = [setting.c_star[p] * setting.gamma**p for p in range(1, l + 1)]
    inverse = sum(g[..., None, None] * xi[..., :, None, k] * xi[..., None, :, k] for k, g in enumerate(gram))
    seen = sum((r * c)[..., None] * xi[..., p] for p, (r, c) in enumerate(zip(overlap, target, strict=True), 1))
    return np.asarray(np.asarray(lam) * (seen * np.linalg.solve(inverse, seen[..., None])[..., 0]).sum(-1))


@dataclass(frozen=True)
class _Setting:
    """What the gains depend on."""

    found: Traces
    c_star: Array
    norm: Array
    gamma: Array
    rho: Array
    constant: tuple[Array, Array]
    """Cost of the constant over that of a feature that the bulk does not offer, and its derivative in lambda."""
    tilted: tuple[Array, Array]
    """What takes the place of s2 in the linear spike's own cost, and its derivative in lambda."""

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
        check_degree(l, 0)
        one_of("spikes", spikes, ("network", "published"))
        one_of("rows", rows, ("gaussian", "sphere"))
        phi, psi, lam, sigma_eps = np.broadcast_arrays(
            *(np.asarray(v, dtype=np.float64) for v in (phi, psi, lam, sigma_eps))
        )
        v = direction(sigma, sigma_star, phi=phi, sigma_eps=sigma_eps, residual=residual)
        found = limiting_traces(sigma, phi=phi, psi=psi, lam=lam)
        student = moments(scalar_function(sigma))
        t, dt, s2, ds2, theta, dtheta = found.t, found.dt, found.s2, found.ds2, found.unused, found.dunused
        cost, dcost = np.ones_like(t), np.zeros_like(t)
        if rows == "gaussian":
            # The norms of the rows offer the constant: c_2 (|w_i|^2 - 1), of variance 2/d over the neurons.
            share = student.quadratic**2 / phi
            cost, dcost = 1 + share * t * theta, share * (dt * theta + t * dtheta)
        if abs(student.mean) > _ZERO * math.sqrt(student.second_moment):
            cost = np.full_like(t, np.inf)
        # D = (1 - omega^2) s2 + omega^2 (P + N Q^2 / T), T/N = theta phi^-1 psi, Q = c_1 s2 T/N.
        part, dpart = theta * psi / phi, dtheta * psi / phi
        own, down = 1 + student.nonlinear_second_moment * t, student.nonlinear_second_moment * dt
        own, down = own + student.linear**2 * s2, down + student.linear**2 * ds2
        tilt = s2 * part * own
        dtilt = ds2 * part * own + s2 * dpart * own + s2 * part * down
        straight = 1 - v.omega**2
        factorials = np.sqrt([float(math.factorial(p)) for p in range(l + 3)])
        return cls(
            found=found,
            c_star=hermite_coefficients(sigma_star, l + 2) / factorials,
            norm=v.norm,
            gamma=v.gamma,
            rho=v.rho if spikes == "network" else np.zeros_like(v.rho),
            constant=(cost, dcost),
            tilted=(straight * s2 + v.omega**2 * tilt, straight * ds2 + v.omega**2 * dtilt),
        )

    @property
    def linear(self) -> tuple[Array, Array]:
        """Gain of the linear spike over lambda, and its derivative."""
        s2, ds2, (cost, dcost) = self.found.s2, self.found.ds2, self.tilted
        scale = (self.c_star[1] * self.gamma) ** 2
        return scale * s2**2 / cost, scale * (2 * s2 * ds2 / cost - s2**2 * dcost / cost**2)

    def higher(self, l: int) -> tuple[Array, Array]:  # noqa: E741
        """S_l and its derivative in lambda."""
        cost, dcost = self.constant
        whole, numerator, denominator = np.zeros_like(cost), np.zeros_like(cost), cost
        at_zero = 1.0  # H_p(0)
        for p in range(2, l + 1):
            whole = whole + math.factorial(p) * self.c_star[p] ** 2 * self.gamma ** (2 * p)
            if p % 2 == 0:
                at_zero *= -(p - 1)
                widened = (1 + self.rho) ** (p / 2) * at_zero
                numerator = numerator + self.c_star[p] * self.gamma**p * widened
                denominator = denominator + widened**2 / math.factorial(p)
        return whole - numerator**2 / denominator, numerator**2 * dcost / denominator**2


def check_degree(l: int, minimum: int) -> None:  # noqa: E741
    """Raise InvalidInput unless `l` is an integer, at least `minimum`."""
    integer("l", l, minimum)
