r"""The student of Lemma 6 for :math:`\eta=\Theta(\sqrt N)`: :math:`\tau^*` and :math:`\kappa^*` of (5.1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar

from gradstep.gaussian.functions import ScalarFunction, scalar_function
from gradstep.gaussian.moments import moments
from gradstep.theory.large_step import Spike, conditional_moments

__all__ = ["TauStar", "student_risk", "tau_star"]

Array = NDArray[np.float64]

LARGEST = 50.0
"""Slopes up to this size are searched; beyond it only the limit is tried."""

INFINITE = 1e10
"""Stands for an infinite slope: a bounded activation is then a step function up to 1e-10."""


@dataclass(frozen=True)
class TauStar:
    r"""Infimum (5.1) and where it is reached.

    Attributes
    ----------
    kappa : float
        :math:`\kappa^*`; infinite when the infimum is not reached.
    tau : float
        :math:`\tau^*`.
    """

    kappa: float
    tau: float


def student_risk(
    sigma: str | ScalarFunction,
    sigma_star: str | ScalarFunction,
    kappa: ArrayLike,
    *,
    centred: bool = True,
) -> Array:
    r"""The objective of (5.1), :math:`E_{\xi_1}(\sigma^*(\xi_1)-E_{\xi_2}\sigma(\kappa\xi_1+\xi_2))^2`.

    Parameters
    ----------
    sigma, sigma_star : str or ScalarFunction
        Activation and teacher.
    kappa : array_like
        Slopes, of either sign.
    centred : bool
        Whether the teacher's mean is subtracted.

    Returns
    -------
    ndarray
    """
    slope = np.asarray(kappa, dtype=np.float64)
    model = Spike(np.abs(slope), np.ones_like(slope), np.where(slope < 0, -1.0, 1.0))
    table = conditional_moments(sigma, sigma_star, model)
    mean = float(moments(scalar_function(sigma_star)).mean) if centred else 0.0
    return np.asarray((table.weights * (table.teacher_mean - mean - table.mean) ** 2).sum(axis=-1))


def tau_star(sigma: str | ScalarFunction, sigma_star: str | ScalarFunction, *, centred: bool = True) -> TauStar:
    r"""Infimum over the slope, :math:`\tau^*` and :math:`\kappa^*` of (5.1).

    Parameters
    ----------
    sigma, sigma_star : str or ScalarFunction
        Activation and teacher.
    centred : bool
        Whether the teacher's mean is subtracted, as Assumption 1 asks.

    Returns
    -------
    TauStar
    """
    student, target = scalar_function(sigma), scalar_function(sigma_star)
    positive = np.geomspace(1e-3, LARGEST, 80)
    grid = np.concatenate([-positive[::-1], [0.0], positive])
    values = student_risk(student, target, grid, centred=centred)
    best = int(np.argmin(values))
    limits = student_risk(student, target, [-INFINITE, INFINITE], centred=centred)
    if np.isfinite(limits).all() and limits.min() < values[best]:
        return TauStar(float(np.inf if limits[1] <= limits[0] else -np.inf), float(limits.min()))
    refined = minimize_scalar(
        lambda slope: float(student_risk(student, target, slope, centred=centred)),
        bounds=(grid[max(best - 1, 0)], grid[min(best + 1, grid.size - 1)]),
        method="bounded",
        options={"xatol": 1e-11},
    )
    if refined.fun <= values[best]:
        return TauStar(float(refined.x), float(refined.fun))
    return TauStar(float(grid[best]), float(values[best]))
