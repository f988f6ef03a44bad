r"""The staircase: limits of training loss and test error as functions of the exponent of the step size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradstep.errors import InvalidInput
from gradstep.gaussian import ScalarFunction
from gradstep.papers.moniri2024.gains import Delta, Lambda, checked_degree
from gradstep.papers.moniri2024.resolvent import L_te_0, L_tr_0

__all__ = ["L_te", "L_tr", "degree", "windows"]


def windows(l: int) -> tuple[float, float]:  # noqa: E741
    r"""Return the exponents :math:`(l-1)/2l` and :math:`l/(2l+2)` between which the features have l >= 1 spikes."""
    l = checked_degree(l, 1)  # noqa: E741
    return (l - 1) / (2 * l), l / (2 * l + 2)


def degree(alpha: ArrayLike) -> NDArray[np.int64]:
    """Return the number l of spikes for a step of size ``n**alpha``, zero for ``alpha <= 0``.

    The exponents are at most 0.499. At the end of a window, where the theorem says nothing, the next window counts.
    Raises `InvalidInput` on an exponent above 0.499.
    """
    exponent = np.asarray(alpha, dtype=np.float64)
    if not (exponent <= 0.499).all():
        raise InvalidInput("alpha", alpha, "at most 0.499 (the staircase has infinitely many steps below 1/2)")
    # 1/(1 - 2 alpha) is l at the lower end of the window of l; rounding must not move 1/3 to the window before it.
    found = np.floor(1 / (1 - 2 * np.maximum(exponent, 0)) + 1e-9).astype(np.int64)
    return np.where(exponent > 0, found, 0)


def L_tr(alpha: ArrayLike, sigma: str | ScalarFunction, sigma_star: str | ScalarFunction, **setting: Any) -> Any:
    r"""Return the limit of the training loss, :math:`\mathcal L_{tr}(F_0)-\Delta_l`, in the shape of alpha.

    The exponents are as in `degree`, and the others as in `Delta`, each a single number.
    """
    return _steps_down(alpha, L_tr_0, Delta, sigma, sigma_star, setting)


def L_te(alpha: ArrayLike, sigma: str | ScalarFunction, sigma_star: str | ScalarFunction, **setting: Any) -> Any:
    r"""Return the limit of the test error, :math:`\mathcal L_{te}(F_0)-\Lambda_l`, label noise included, as `L_tr`."""
    return _steps_down(alpha, L_te_0, Lambda, sigma, sigma_star, setting)


def _steps_down(
    alpha: ArrayLike,
    initial: Callable[..., NDArray[np.float64]],
    gain: Callable[..., NDArray[np.float64]],
    sigma: str | ScalarFunction,
    sigma_star: str | ScalarFunction,
    setting: Mapping[str, Any],
) -> Any:
    spikes, which = np.unique(degree(alpha), return_inverse=True)
    gains = np.array([float(gain(int(l), sigma, sigma_star, **setting)) for l in spikes])  # noqa: E741
    before_step = {name: value for name, value in setting.items() if name in ("phi", "psi", "lam", "sigma_eps")}
    return initial(sigma, sigma_star, **before_step) - gains[which].reshape(np.shape(alpha))
