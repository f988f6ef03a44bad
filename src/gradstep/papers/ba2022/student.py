r"""The student of Lemma 6 for :math:`\eta=\Theta(\sqrt N)`: :math:`\tau^*` and :math:`\kappa^*` of (5.1).

After the step a neuron is its initial value plus :math:`\bar\eta\mu_1\sqrt N a_j\,b` with :math:`b=X^\top y/n`, plus a
remainder. The student averages the neurons whose readout gave them the slope :math:`\kappa^*` along the teacher.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradstep.checks import nonnegative, positive
from gradstep.errors import InvalidInput
from gradstep.gaussian.functions import ScalarFunction, scalar_function
from gradstep.gaussian.moments import moments
from gradstep.gaussian.quadrature import expectation, gaussian_rule
from gradstep.gaussian.smoothing import smoothed
from gradstep.papers.cui2024.spiked import equivalent_features

__all__ = ["TauStar", "constructed_readout", "constructed_risk", "student_risk", "tau_star"]

Array = NDArray[np.float64]

LARGEST = 50.0
"""Slopes up to this size are searched; beyond it only the limit is tried."""

FAR = (1e10, 2e10, 5e10)
"""Where an activation that has limits at infinity has reached them."""


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

    The slopes :math:`\kappa` have either sign. The teacher's mean is subtracted if it is to be `centred`.

    Docs, "Bounds", equation (O3).
    """
    slope = np.asarray(kappa, dtype=np.float64)
    # A neuron of this slope is one of the spiked random features of Cui et al. 2024.
    table = equivalent_features(sigma, sigma_star, r=np.abs(slope), c=1.0, gamma=np.where(slope < 0, -1.0, 1.0))
    mean = float(moments(scalar_function(sigma_star)).mean) if centred else 0.0
    return np.asarray((table.weights * (table.teacher_mean - mean - table.mean) ** 2).sum(axis=-1))


def tau_star(sigma: str | ScalarFunction, sigma_star: str | ScalarFunction, *, centred: bool = True) -> TauStar:
    r"""Infimum over the slope, :math:`\tau^*` and :math:`\kappa^*` of (5.1).

    The teacher's mean is subtracted if it is to be `centred`, as in Assumption 1.

    Docs, "Bounds", equation (O3).
    """
    return _tau_star(scalar_function(sigma), scalar_function(sigma_star), centred)


@lru_cache(maxsize=256)
def _tau_star(student: ScalarFunction, target: ScalarFunction, centred: bool) -> TauStar:
    positive = np.geomspace(1e-3, LARGEST, 80)
    grid = np.concatenate([-positive[::-1], [0.0], positive])
    values = student_risk(student, target, grid, centred=centred)
    best = int(np.argmin(values))
    limits = [_infinite_slope_risk(student, target, sign, centred) for sign in (1, -1)]
    if min(limits) < values[best]:
        return TauStar(float(np.inf if limits[0] <= limits[1] else -np.inf), min(limits))
    from scipy.optimize import minimize_scalar  # here: the app starts faster without

    refined = minimize_scalar(
        lambda slope: float(student_risk(student, target, slope, centred=centred)),
        bounds=(grid[max(best - 1, 0)], grid[min(best + 1, grid.size - 1)]),
        method="bounded",
        options={"xatol": 1e-11},
    )
    if refined.fun <= values[best]:
        return TauStar(float(refined.x), float(refined.fun))
    return TauStar(float(grid[best]), float(values[best]))


def _infinite_slope_risk(student: ScalarFunction, target: ScalarFunction, sign: int, centred: bool) -> float:
    """Return the limit of the objective at an infinite slope, where a bounded activation is a step function."""
    low, high = (np.asarray(student(sign * side * np.array(FAR)), dtype=np.float64) for side in (-1, 1))
    if not (np.isfinite([low, high]).all() and np.ptp(low) < 1e-9 and np.ptp(high) < 1e-9):
        return float(np.inf)  # unbounded, or oscillating: then larger slopes only add variance
    mean = float(moments(target).mean) if centred else 0.0

    def squared_error(z: Array) -> Array:
        return np.asarray((target(z) - mean - np.where(z > 0, high[0], low[0])) ** 2)

    return float(expectation(squared_error, kinks=(0.0, *target.kinks)).value)


def constructed_readout(
    slopes: ArrayLike,
    kappa: float,
    *,
    tolerance: float,
) -> Array:
    r"""Readout of the student of Lemma 6 on the raw features: the average over a subset of neurons.

    ``slopes``, shape (N,), are what the step gives each neuron :math:`j` along the teacher,
    :math:`\bar\eta\mu_1\mu_1^*\sqrt N a_j`. ``kappa`` is the slope wanted, :math:`\kappa^*` of :func:`tau_star`, and
    ``tolerance`` the largest distance from it. The readout, shape (N,), is :math:`\tilde a_j/\sqrt N=1/|S|` on the
    subset :math:`S` and 0 elsewhere. Raises `InvalidInput` if no neuron is within the tolerance.
    """
    chosen = np.abs(np.asarray(slopes, dtype=np.float64) - kappa) <= tolerance
    if not chosen.any():
        raise InvalidInput("tolerance", tolerance, "large enough for one neuron, or a wider network, or a larger step")
    return np.asarray(chosen / chosen.sum())


def constructed_risk(
    sigma: str | ScalarFunction,
    sigma_star: str | ScalarFunction,
    *,
    psi1: ArrayLike,
    sigma_eps: ArrayLike = 0.0,
    kappa: float | None = None,
    neurons: ArrayLike = np.inf,
    centred: bool = True,
) -> Array:
    r"""Risk of the student of Lemma 6 at a finite sample ratio (this project).

    Lemma 6 says that it is close to :math:`\tau^*`. At finite :math:`\psi_1` the neurons also share the noise of the
    gradient, and each has an independent remainder:

    .. math::
        R &= E\bigl(\sigma^*(\xi_1)-E_{\xi_2}\sigma(\kappa\xi_1+c\,\xi_3+\sqrt V\xi_2)\bigr)^2
             +\frac1{|S|}E\,\mathrm{Var}_{\xi_2}\sigma(\kappa\xi_1+c\,\xi_3+\sqrt V\xi_2), \\
        c &= \frac{\kappa}{\mu_1^*}\sqrt{\frac{E y^2}{\psi_1}}, \qquad
        V = 1+\Bigl(\frac{\kappa}{\mu_1\mu_1^*}\Bigr)^2\frac{E y^2\,\mathrm{Var}\,\sigma'}{\psi_1} .

    At an infinite :math:`\psi_1`, the samples of the step per dimension, it is the objective of (5.1). The neurons
    used, by default infinitely many, have the slope ``kappa``, by default :math:`\kappa^*`. The teacher's mean is
    subtracted if it is to be `centred`.

    Raises `InvalidInput` if the teacher has no linear part, so that the gradient has no component along it, or if the
    slope is infinite.

    Docs, "Bounds", equation (O4).
    """
    student, target = moments(scalar_function(sigma)), moments(scalar_function(sigma_star))
    slope = tau_star(sigma, sigma_star, centred=centred).kappa if kappa is None else float(kappa)
    if not np.isfinite(slope):
        raise InvalidInput("kappa", slope, "finite; give a finite slope when the infimum of (5.1) is at infinity")
    if abs(student.derivative_mean * target.linear) < 1e-12:
        raise InvalidInput("sigma_star", sigma_star, "an activation and a teacher with linear parts")
    mean = float(target.mean) if centred else 0.0
    samples, members = positive("psi1", psi1, infinite=True), positive("neurons", neurons, infinite=True)
    label_variance = target.second_moment - mean**2 + nonnegative("sigma_eps", sigma_eps) ** 2
    spread = (slope / target.linear) ** 2 * label_variance / samples
    scale = np.sqrt(1 + spread * student.derivative_variance / student.derivative_mean**2)
    spread, scale, members = np.broadcast_arrays(spread, scale, members)
    nodes, weights = gaussian_rule(scalar_function(sigma_star).kinks, resolution=0.25)
    error = scalar_function(sigma_star)(nodes) - mean
    # Given x1 a neuron has mean slope x1; given the shared part, of variance slope^2 + spread, only x2 is left.
    given_teacher = smoothed(scalar_function(sigma), slope * nodes, np.sqrt(spread + scale**2)[..., None])
    given_shared = smoothed(scalar_function(sigma), np.sqrt(slope**2 + spread)[..., None] * nodes, scale[..., None])
    average = error**2 - 2 * error * given_teacher.mean + given_shared.mean**2
    private = (given_shared.second_moment - given_shared.mean**2) / members[..., None]
    return np.asarray(np.maximum(((average + private) * weights).sum(axis=-1), 0.0))
