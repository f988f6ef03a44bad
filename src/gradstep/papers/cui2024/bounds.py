"""Bounds on what a single step can learn: the baseline, the best penalty, and (26), (27) and (28).

The baseline and the bounds are without label noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradstep.checks import one_of, positive
from gradstep.errors import InvalidInput
from gradstep.gaussian import ScalarFunction, moments, scalar_function
from gradstep.papers.cui2024.errors import solve
from gradstep.papers.cui2024.spiked import conditional_features, equivalent_features, equivalent_srf
from gradstep.theory.minimise import Axis, minimise

__all__ = [
    "BestPenalty",
    "BestStep",
    "Realised",
    "best_linear",
    "best_penalty",
    "best_step",
    "lower_bound",
    "realised_functions",
    "upper_bound",
]

Array = NDArray[np.float64]

#: Where the search of the best step begins.
_LEAST_STRENGTH = 0.01

#: Logarithms of the penalties searched, two a decade: from practically no penalty to a practically infinite one.
_PENALTIES = Axis(np.log(np.geomspace(1e-6, 1e8, 29)), spacing=0.05)


def best_linear(sigma_star: str | ScalarFunction) -> float:
    r"""Error of the best linear estimator, :math:`E\sigma_*^2-(E z\sigma_*)^2` (section 4.2).

    The label noise is not included. An estimator with a constant term also removes the squared mean.
    """
    target = moments(scalar_function(sigma_star))
    return float(target.second_moment - target.linear**2)


def upper_bound(
    sigma: str | ScalarFunction,
    sigma_star: str | ScalarFunction,
    *,
    r: ArrayLike,
    c: ArrayLike = 1.0,
    gamma: ArrayLike = 1.0,
) -> Array:
    r"""Upper bound (26) on the test error at the best :math:`\lambda`, at any alignment.

    Docs, "Bounds", equation (O1).

    Parameters are those of :func:`~gradstep.papers.cui2024.equivalent_features`.

    It is :math:`E\sigma_*^2-\langle\mu_0,h\rangle^2/|\mu_0|^2` with :math:`h=E[\sigma_*|\kappa]`, attained at infinite
    penalty, where only the common mean of the neurons is fitted.
    """
    table = equivalent_features(sigma, sigma_star, r=r, c=c, gamma=gamma, folded=True)
    norm = (table.weights * table.mean**2).sum(axis=-1)
    overlap = (table.weights * table.mean * table.teacher_mean).sum(axis=-1)
    m = np.where(norm > 0, overlap / np.where(norm > 0, norm, 1.0), 0.0)
    miss = table.teacher_mean - m[..., None] * table.mean
    # A sum of squares, because the bound can vanish.
    return np.asarray((table.weights * (miss**2 + table.teacher_slope**2 + table.teacher_variance)).sum(axis=-1))


def lower_bound(
    sigma: str | ScalarFunction,
    sigma_star: str | ScalarFunction,
    *,
    r: ArrayLike,
    c: ArrayLike = 1.0,
    gamma: ArrayLike = 1.0,
    b: ArrayLike = 0.0,
) -> Array:
    r"""Lower bound (27) on the test error, at any alignment; with a given bias the inner part of (132).

    Docs, "Bounds", equation (O2).

    Parameters are those of :func:`~gradstep.papers.cui2024.equivalent_features`.

    It is the squared distance of the teacher to the span of :math:`\mu_0(\kappa)`, :math:`\kappa\mu_1(\kappa)` and
    :math:`\mu_1(\kappa)\zeta`, with :math:`\zeta` the part of the teacher's input orthogonal to the spike. The paper
    states it at :math:`\gamma=1`. It bounds the spiked random features model: at finite :math:`\alpha_0` the network
    itself has one more direction.
    """
    table = equivalent_features(sigma, sigma_star, r=r, c=c, gamma=gamma, b=b, folded=True)
    root = np.sqrt(table.weights)
    target = root * table.teacher_mean
    # Gram-Schmidt on the two functions, which coincide for a linear activation.
    first = root * table.mean
    norm = (first**2).sum(axis=-1, keepdims=True)
    first = first / np.sqrt(np.where(norm > 0, norm, 1.0))
    linear = root * (table.nodes * table.slope)
    size = (linear**2).sum(axis=-1, keepdims=True)
    second = linear - (linear * first).sum(axis=-1, keepdims=True) * first
    left = (second**2).sum(axis=-1, keepdims=True)
    independent = left > 1e-20 * size
    second = np.where(independent, second / np.sqrt(np.where(independent, left, 1.0)), 0.0)
    rest = target - (target * first).sum(axis=-1, keepdims=True) * first
    rest = rest - (rest * second).sum(axis=-1, keepdims=True) * second
    slope_norm = (table.weights * table.slope**2).sum(axis=-1)
    slope_overlap = (table.weights * table.slope * table.teacher_slope).sum(axis=-1)
    orthogonal = (table.weights * (table.teacher_slope**2 + table.teacher_variance)).sum(axis=-1)
    learned = np.where(slope_norm > 0, slope_overlap**2 / np.where(slope_norm > 0, slope_norm, 1.0), 0.0)
    return np.asarray((rest**2).sum(axis=-1) + orthogonal - learned)


@dataclass(frozen=True)
class BestStep:
    r"""The minimum of a bound over the step size, (28).

    Attributes
    ----------
    step_size : float
        The minimiser :math:`\tilde\eta`; ``inf`` when the bound keeps falling to the largest strength searched.
    strength : float
        The spike strength :math:`r` at this step size.
    error : float
        The bound at this step size.
    """

    step_size: float
    strength: float
    error: float


def best_step(
    sigma: str | ScalarFunction,
    sigma_star: str | ScalarFunction,
    *,
    bound: str = "upper",
    largest_strength: float = 20.0,
) -> BestStep:
    r"""Minimise (26) or (27) over the step size, for a population gradient (28).

    Activation and teacher both have a linear part. The bound is the ``"upper"`` one (26) or the ``"lower"`` one (27),
    and spike strengths from 0.01 up to ``largest_strength`` are searched.

    Notes
    -----
    At :math:`\alpha_0=\infty` the bulk keeps variance 1 and :math:`\gamma=\pm1`. For
    :math:`\sigma=\sigma_*=\mathrm{erf}` the upper bound vanishes at :math:`r=\sqrt3`.
    """
    bounds = {"upper": upper_bound, "lower": lower_bound}
    one_of("bound", bound, tuple(bounds))
    if not _LEAST_STRENGTH < largest_strength < np.inf:
        raise InvalidInput("largest_strength", largest_strength, f"a finite number above {_LEAST_STRENGTH}")
    student, target = scalar_function(sigma), scalar_function(sigma_star)
    unit = equivalent_srf(student, target, eta_tilde=1.0, alpha0=np.inf)
    per_step = float(unit.strength)
    if per_step <= 1e-10:
        raise InvalidInput("sigma_star", target.name, "an activation and a teacher with a linear part")

    def error(strength: ArrayLike) -> Array:
        return bounds[bound](student, target, r=strength, gamma=unit.alignment)

    grid = np.geomspace(_LEAST_STRENGTH, largest_strength, 60)
    values = error(grid)
    best = int(np.argmin(values))
    if best == grid.size - 1:
        return BestStep(np.inf, largest_strength, float(values[best]))
    from scipy.optimize import minimize_scalar  # here: the app starts faster without

    refined = minimize_scalar(
        lambda strength: float(error(strength)),
        bounds=(grid[max(best - 1, 0)], grid[best + 1]),
        method="bounded",
        options={"xatol": 1e-10},
    )
    strength = float(refined.x)
    return BestStep(strength / per_step, strength, float(refined.fun))


class BestPenalty(NamedTuple):
    r"""The penalty of least test error.

    Attributes
    ----------
    lam : float
        :math:`\lambda`; infinite where no finite penalty is better than the upper bound (26).
    test_error : float
        Test error at this penalty.
    """

    lam: float
    test_error: float


def best_penalty(
    sigma: str | ScalarFunction,
    sigma_star: str | ScalarFunction,
    *,
    r: float,
    c: float = 1.0,
    gamma: float = 1.0,
    alpha: float,
    beta: float = 1.0,
    sigma_eps: float = 0.0,
) -> BestPenalty:
    """Minimise the test error (25) over the penalty: the error that (26) and (27) bracket.

    The spike is as in :func:`~gradstep.papers.cui2024.equivalent_features`, the sizes and the noise as in
    :func:`~gradstep.papers.cui2024.summary_statistics`. Raises `NotConverged` if the minimum cannot be certified
    (:func:`gradstep.theory.minimise.minimise`).

    Notes
    -----
    Penalties from :math:`10^{-6}` to :math:`10^8` are searched, where a fit is as good as one without a penalty, and as
    one with an infinite penalty.
    """
    table = equivalent_features(sigma, sigma_star, r=r, c=c, gamma=gamma, folded=True)

    def error(logarithm: Array) -> Array:
        return solve(table, alpha=alpha, beta=beta, lam=np.exp(logarithm[:, 0]), sigma_eps=sigma_eps).test_error

    found = minimise(error, [_PENALTIES])
    if found.bounds[0] == "upper":
        return BestPenalty(np.inf, float(upper_bound(sigma, sigma_star, r=r, c=c, gamma=gamma)))
    return BestPenalty(float(np.exp(found.point[0])), found.value)


class Realised(NamedTuple):
    r"""Functions of the projection on the spike that realise the bounds (Figure 3).

    Attributes
    ----------
    upper : ndarray
        The best multiple of :math:`\mu_0`: what is learned at infinite penalty, (165).
    lower : ndarray
        The best function of the span of :math:`\mu_0` and :math:`\kappa\mu_1`.
    """

    upper: Array
    lower: Array


def realised_functions(
    sigma: str | ScalarFunction,
    sigma_star: str | ScalarFunction,
    *,
    r: float,
    c: float = 1.0,
    gamma: float = 1.0,
    kappa: ArrayLike,
) -> Realised:
    """Return the functions that realise (26) and (27).

    The spike is as in :func:`~gradstep.papers.cui2024.equivalent_features`, and the functions have the shape of the
    projections ``kappa``.
    """
    table = equivalent_features(sigma, sigma_star, r=r, c=c, gamma=gamma)
    root = np.sqrt(table.weights)
    basis = np.stack([table.mean, table.nodes * table.slope / np.sqrt(positive("c", c))], axis=1)
    weighted, target = root[:, None] * basis, root * table.teacher_mean
    # Least squares of smallest norm: without a spike, or for a linear activation, the two functions are dependent.
    first = np.linalg.lstsq(weighted[:, :1], target, rcond=1e-12)[0]
    both = np.linalg.lstsq(weighted, target, rcond=1e-12)[0]
    points = np.asarray(kappa, dtype=np.float64)
    mean, slope, _ = conditional_features(sigma, points, r=r, c=c)
    return Realised(first[0] * mean, both[0] * mean + both[1] * points * slope)
