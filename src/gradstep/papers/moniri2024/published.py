"""The gains of the slides as printed, for the published spikes, the residual y and rows of norm one.

`gradstep.papers.moniri2024.gains` says what the real network changes, and which factors are missing here.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradstep.gaussian import ScalarFunction, hermite_coefficients
from gradstep.papers.moniri2024.features import smoothed_powers
from gradstep.papers.moniri2024.gains import check_degree, direction
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
    r"""The theorem "Training Error: General Case", as printed.

    The sums printed over (i, t), twice, are over (p, q) and (i, j). Right for the slides' spikes, the residual y and
    rows of norm one; see the module's docstring for what the real network changes.

    Parameters
    ----------
    l, sigma, sigma_star, phi, psi, lam, sigma_eps
        As in `gradstep.papers.moniri2024.Delta`, l >= 1.

    Returns
    -------
    ndarray

    Raises
    ------
    InvalidInput, NotConverged
        As `Delta`.
    """
    check_degree(l, 1)
    m, c_star, B = _terms(l, sigma, sigma_star, phi, psi, lam, sigma_eps)
    ratio, power = m.psi / m.phi, B[..., None] ** (np.arange(1, l + 1) / 2)
    scaled = power[..., None] * smoothed_powers(l, 1.0)  # B^(i/2) xi_ik
    cost = [ratio * math.factorial(k) * (m.m2 if k == 1 else m.m1) for k in range(l + 1)]
    inverse = sum(c[..., None, None] * scaled[..., :, None, k] * scaled[..., None, :, k] for k, c in enumerate(cost))
    r = [cost[p] * (c_star[1] / np.sqrt(B)) ** p for p in range(l + 1)]
    seen = sum((c_star[p] * r[p])[..., None] * scaled[..., p] for p in range(1, l + 1))
    return np.asarray(np.asarray(lam) * (seen * np.linalg.solve(inverse, seen[..., None])[..., 0]).sum(-1))


def published_Delta_1(
    sigma: Function,
    sigma_star: Function,
    *,
    phi: ArrayLike,
    psi: ArrayLike,
    lam: ArrayLike,
    sigma_eps: ArrayLike = 0.0,
) -> Array:
    r"""Equation (1), as printed: right for the residual y.

    Parameters
    ----------
    sigma, sigma_star, phi, psi, lam, sigma_eps
        As in `gradstep.papers.moniri2024.Delta`.

    Returns
    -------
    ndarray

    Raises
    ------
    InvalidInput, NotConverged
        As `Delta`.
    """
    m, c_star, B = _terms(2, sigma, sigma_star, phi, psi, lam, sigma_eps)
    return np.asarray(m.psi * np.asarray(lam) * c_star[1] ** 4 * m.m2 / (m.phi * B))


def published_Delta_2(
    sigma: Function,
    sigma_star: Function,
    *,
    phi: ArrayLike,
    psi: ArrayLike,
    lam: ArrayLike,
    sigma_eps: ArrayLike = 0.0,
) -> Array:
    r"""Equation (2), as printed: right for the slides' spikes; the real network has :math:`4/(3+2\rho+\rho^2)` for 4/3.

    Parameters
    ----------
    sigma, sigma_star, phi, psi, lam, sigma_eps
        As in `gradstep.papers.moniri2024.Delta`.

    Returns
    -------
    ndarray

    Raises
    ------
    InvalidInput, NotConverged
        As `Delta`.
    """
    m, c_star, B = _terms(2, sigma, sigma_star, phi, psi, lam, sigma_eps)
    second = 4 * m.psi * np.asarray(lam) * c_star[1] ** 4 * c_star[2] ** 2 * m.m1 / (3 * m.phi * B**2)
    first = published_Delta_1(sigma, sigma_star, phi=phi, psi=psi, lam=lam, sigma_eps=sigma_eps)
    return np.asarray(first + second)


def published_Lambda_1(
    sigma: Function,
    sigma_star: Function,
    *,
    phi: ArrayLike,
    psi: ArrayLike,
    lam: ArrayLike,
    sigma_eps: ArrayLike = 0.0,
) -> Array:
    r"""Equation (3), as printed: it lacks a factor :math:`\phi/(\psi m_1^2)` (see `Lambda`).

    Parameters
    ----------
    sigma, sigma_star, phi, psi, lam, sigma_eps
        As in `gradstep.papers.moniri2024.Delta`.

    Returns
    -------
    ndarray

    Raises
    ------
    InvalidInput, NotConverged
        As `Delta`.
    """
    m, c_star, B = _terms(2, sigma, sigma_star, phi, psi, lam, sigma_eps)
    return np.asarray(c_star[1] ** 4 / B * -m.dm2)


def published_Lambda_2(
    sigma: Function,
    sigma_star: Function,
    *,
    phi: ArrayLike,
    psi: ArrayLike,
    lam: ArrayLike,
    sigma_eps: ArrayLike = 0.0,
) -> Array:
    r"""Equation (4), as printed: the second term has the :math:`1/m_1^2` that (3) lacks, both lack :math:`\phi/\psi`.

    Both equations are right if their :math:`\lambda` is :math:`n\lambda/N` and the first term is divided by
    :math:`m_1^2` too.

    Parameters
    ----------
    sigma, sigma_star, phi, psi, lam, sigma_eps
        As in `gradstep.papers.moniri2024.Delta`.

    Returns
    -------
    ndarray

    Raises
    ------
    InvalidInput, NotConverged
        As `Delta`.
    """
    m, c_star, B = _terms(2, sigma, sigma_star, phi, psi, lam, sigma_eps)
    second = 4 * c_star[1] ** 4 * c_star[2] ** 2 / (3 * B**2 * m.m1**2) * -m.dm1
    first = published_Lambda_1(sigma, sigma_star, phi=phi, psi=psi, lam=lam, sigma_eps=sigma_eps)
    return np.asarray(first + second)


def _terms(
    l: int,  # noqa: E741
    sigma: Function,
    sigma_star: Function,
    phi: ArrayLike,
    psi: ArrayLike,
    lam: ArrayLike,
    sigma_eps: ArrayLike,
) -> tuple[Traces, Array, Array]:
    """Return the traces, the teacher's coefficients of H_0..H_l, and ``B``, the square of the gradient's norm."""
    phi, psi, lam, sigma_eps = np.broadcast_arrays(
        *(np.asarray(v, dtype=np.float64) for v in (phi, psi, lam, sigma_eps))
    )
    v = direction(sigma, sigma_star, phi=phi, sigma_eps=sigma_eps, residual="y")
    factorials = np.sqrt([float(math.factorial(p)) for p in range(l + 1)])
    found = limiting_traces(sigma, phi=phi, psi=psi, lam=lam)
    return found, hermite_coefficients(sigma_star, l) / factorials, v.norm**2
