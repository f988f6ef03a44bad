r"""The gains of the slides as printed, for the published spikes, the residual y and rows of norm one.

The parameters are those of `gradstep.papers.moniri2024.gains.Delta` without its options, and so are the errors that are
raised. The module of `Delta` says what the real network changes, and which factors are missing here.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradstep.gaussian import ScalarFunction
from gradstep.papers.moniri2024.gains import checked_degree, direction, through_matrix
from gradstep.papers.moniri2024.hermite import coefficients, smoothed_powers
from gradstep.papers.moniri2024.resolvent import Traces, limiting_traces

__all__ = [
    "published_Delta",
    "published_Delta_1",
    "published_Delta_2",
    "published_Lambda_1",
    "published_Lambda_2",
]

Array = NDArray[np.float64]
Function = str | ScalarFunction


def published_Delta(
    l: int,  # noqa: E741
    sigma: Function,
    sigma_star: Function,
    *,
    phi: ArrayLike,
    psi: ArrayLike,
    lam: ArrayLike,
    sigma_eps: ArrayLike = 0.0,
) -> Array:
    r"""Return :math:`\Delta_l` of the theorem "Training Error: General Case", l >= 1.

    The sums printed over (i, t), twice, are over (p, q) and (i, j).
    """
    l = checked_degree(l, 1)  # noqa: E741
    m, c_star, B = _terms(l, sigma, sigma_star, phi, psi, lam, sigma_eps)
    xi = (B[..., None] ** (np.arange(1, l + 1) / 2))[..., None] * smoothed_powers(l, 1.0)  # B^(i/2) xi_ik
    cost = [m.psi / m.phi * math.factorial(k) * (m.m2 if k == 1 else m.m1) for k in range(l + 1)]
    r = [cost[p] * (c_star[1] / np.sqrt(B)) ** p for p in range(1, l + 1)]
    return np.asarray(np.asarray(lam) * through_matrix(xi, cost, r, c_star))


def published_Delta_1(
    sigma: Function, sigma_star: Function, *, phi: ArrayLike, psi: ArrayLike, lam: ArrayLike, sigma_eps: ArrayLike = 0.0
) -> Array:
    r"""Return :math:`\Delta_1` of (1): right for the residual y."""
    m, c_star, B = _terms(2, sigma, sigma_star, phi, psi, lam, sigma_eps)
    return np.asarray(m.psi * np.asarray(lam) * c_star[1] ** 4 * m.m2 / (m.phi * B))


def published_Delta_2(
    sigma: Function, sigma_star: Function, *, phi: ArrayLike, psi: ArrayLike, lam: ArrayLike, sigma_eps: ArrayLike = 0.0
) -> Array:
    r"""Return :math:`\Delta_2` of (2): the slides' spikes; the real network has :math:`4/(3+2\rho+\rho^2)` for 4/3."""
    m, c_star, B = _terms(2, sigma, sigma_star, phi, psi, lam, sigma_eps)
    second = 4 * m.psi * np.asarray(lam) * c_star[1] ** 4 * c_star[2] ** 2 * m.m1 / (3 * m.phi * B**2)
    return np.asarray(published_Delta_1(sigma, sigma_star, phi=phi, psi=psi, lam=lam, sigma_eps=sigma_eps) + second)


def published_Lambda_1(
    sigma: Function, sigma_star: Function, *, phi: ArrayLike, psi: ArrayLike, lam: ArrayLike, sigma_eps: ArrayLike = 0.0
) -> Array:
    r"""Return :math:`\Lambda_1` of (3), which lacks a factor :math:`\phi/(\psi m_1^2)` (see `Lambda`)."""
    m, c_star, B = _terms(2, sigma, sigma_star, phi, psi, lam, sigma_eps)
    return np.asarray(c_star[1] ** 4 / B * -m.dm2)


def published_Lambda_2(
    sigma: Function, sigma_star: Function, *, phi: ArrayLike, psi: ArrayLike, lam: ArrayLike, sigma_eps: ArrayLike = 0.0
) -> Array:
    r"""Return :math:`\Lambda_2` of (4); its second term has the :math:`1/m_1^2` that (3) lacks.

    Both lack :math:`\phi/\psi`. They are right if their :math:`\lambda` is :math:`n\lambda/N` and the first term is
    divided by :math:`m_1^2` too.
    """
    m, c_star, B = _terms(2, sigma, sigma_star, phi, psi, lam, sigma_eps)
    second = 4 * c_star[1] ** 4 * c_star[2] ** 2 / (3 * B**2 * m.m1**2) * -m.dm1
    return np.asarray(published_Lambda_1(sigma, sigma_star, phi=phi, psi=psi, lam=lam, sigma_eps=sigma_eps) + second)


def _terms(
    l: int,  # noqa: E741
    sigma: Function,
    sigma_star: Function,
    phi: ArrayLike,
    psi: ArrayLike,
    lam: ArrayLike,
    sigma_eps: ArrayLike,
) -> tuple[Traces, Array, Array]:
    r"""Return the traces, :math:`c_{\star,0..l}`, and :math:`B=c_{\star,1}^2+\phi(c_\star^2+\sigma_\varepsilon^2)`."""
    phi, psi, lam, sigma_eps = np.broadcast_arrays(
        *(np.asarray(v, dtype=np.float64) for v in (phi, psi, lam, sigma_eps))
    )
    v = direction(sigma, sigma_star, phi=phi, sigma_eps=sigma_eps, residual="y")
    return limiting_traces(sigma, phi=phi, psi=psi, lam=lam), coefficients(sigma_star, l), v.norm**2
