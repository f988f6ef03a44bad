r"""What no penalty, no sample and no width can beat: bounds on the test error after one large step.

Tables and conventions are those of :mod:`gradstep.theory.spiked_features`. Bounds are without label noise.

References
----------
.. [1] H. Cui, L. Pesce, Y. Dandi, F. Krzakala, Y. M. Lu, L. Zdeborova, B. Loureiro, "Asymptotics of feature learning in
       two-layer networks after one gradient-step", ICML 2024. Bounds (26) to (28).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradstep.errors import InvalidInput
from gradstep.gaussian.functions import ScalarFunction, scalar_function
from gradstep.gaussian.moments import moments
from gradstep.theory.spiked_features import ConditionalMoments, Spike, conditional_moments, spike

__all__ = ["BestStep", "best_linear_error", "best_step", "lower_bound", "upper_bound"]

#: Where the search of the best step begins.
_LEAST_STRENGTH = 0.01

Array = NDArray[np.float64]


def best_linear_error(teacher: str | ScalarFunction) -> float:
    r"""Test error of the best linear predictor, :math:`E\sigma_*^2-(E z\sigma_*)^2` (Cui et al. 2024, section 4.2).

    Parameters
    ----------
    teacher : str or ScalarFunction

    Returns
    -------
    float
        The label noise is not included. A predictor with a constant term also removes the squared mean.
    """
    target = moments(scalar_function(teacher))
    return float(target.second_moment - target.linear**2)


def upper_bound(table: ConditionalMoments) -> Array:
    r"""Upper bound on the test error at the best penalty (Cui et al. 2024, (26)), at any alignment.

    Parameters
    ----------
    table : ConditionalMoments

    Returns
    -------
    ndarray
        :math:`E\sigma_*^2-\langle\mu_0,h\rangle^2/|\mu_0|^2`, of the shape of the spike, without label noise. It is
        attained at infinite penalty, where only the common mean of the neurons is fitted.
    """
    norm = (table.weights * table.mean**2).sum(axis=-1)
    overlap = (table.weights * table.mean * table.teacher_mean).sum(axis=-1)
    coefficient = np.where(norm > 0, overlap / np.where(norm > 0, norm, 1.0), 0.0)
    miss = table.teacher_mean - coefficient[..., None] * table.mean
    # A sum of squares, because the bound can vanish.
    return np.asarray((table.weights * (miss**2 + table.teacher_slope**2 + table.teacher_variance)).sum(axis=-1))


def lower_bound(table: ConditionalMoments) -> Array:
    r"""Lower bound on the test error at any penalty and any ratio (Cui et al. 2024, (27)), at any alignment.

    Parameters
    ----------
    table : ConditionalMoments

    Returns
    -------
    ndarray
        Squared distance of the teacher to the span of :math:`\mu_0(\kappa)`, :math:`\kappa\mu_1(\kappa)` and
        :math:`\mu_1(\kappa)\zeta`, with :math:`\zeta` the rest of the teacher's input; without label noise. The paper
        states it at :math:`\gamma=1`. It bounds the spiked random features model: at finite :math:`\alpha_0` the
        network itself has one more direction.
    """
    root = np.sqrt(table.weights)
    tilt = table.nodes * table.slope
    target = root * table.teacher_mean
    # Gram-Schmidt on the two functions, which coincide for a linear activation.
    first = root * table.mean
    norm = (first**2).sum(axis=-1, keepdims=True)
    first = first / np.sqrt(np.where(norm > 0, norm, 1.0))
    tilted = root * tilt
    size = (tilted**2).sum(axis=-1, keepdims=True)
    second = tilted - (tilted * first).sum(axis=-1, keepdims=True) * first
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
    r"""Bounds (28) of Cui et al. 2024, minimised over the step size.

    Attributes
    ----------
    step_size : float
        The minimiser :math:`\tilde\eta`; ``inf`` when the bound keeps falling to the largest strength searched.
    strength : float
        The spike strength :math:`r` there.
    error : float
        The bound.
    """

    step_size: float
    strength: float
    error: float


def best_step(
    activation: str | ScalarFunction,
    teacher: str | ScalarFunction,
    *,
    bound: str = "upper",
    largest_strength: float = 20.0,
) -> BestStep:
    r"""Minimise the upper or the lower bound over the step size, for a population gradient (Cui et al. 2024, (28)).

    Parameters
    ----------
    activation, teacher : str or ScalarFunction
    bound : {"upper", "lower"}
        Which of (26) and (27).
    largest_strength : float
        Spike strengths from 0.01 up to this value are searched.

    Returns
    -------
    BestStep

    Raises
    ------
    InvalidInput
        On another bound, a strength out of range, an activation with jumps, or a pair without a linear part.

    Notes
    -----
    At :math:`\alpha_0=\infty` the bulk keeps variance 1 and :math:`\gamma=\pm1`. For
    :math:`\sigma=\sigma_*=\mathrm{erf}` the upper bound vanishes at :math:`r=\sqrt3`.
    """
    bounds = {"upper": upper_bound, "lower": lower_bound}
    if bound not in bounds:
        raise InvalidInput("bound", bound, "'upper' or 'lower'")
    if not _LEAST_STRENGTH < largest_strength < np.inf:
        raise InvalidInput("largest_strength", largest_strength, f"a finite number above {_LEAST_STRENGTH}")
    student, target = scalar_function(activation), scalar_function(teacher)
    unit = spike(student, target, step_size=1.0, step_sample_ratio=np.inf)
    per_step = float(unit.strength)
    if per_step <= 1e-10:
        raise InvalidInput("teacher", target.name, "an activation and a teacher with a linear part")

    def error(strength: NDArray[np.float64] | float) -> Array:
        strengths = np.asarray(strength, dtype=np.float64)
        model = Spike(strengths, np.ones_like(strengths), np.broadcast_to(unit.alignment, strengths.shape))
        return bounds[bound](conditional_moments(student, target, model, folded=True))

    grid = np.geomspace(_LEAST_STRENGTH, largest_strength, 60)
    values = error(grid)
    best = int(np.argmin(values))
    if best == grid.size - 1:
        return BestStep(np.inf, largest_strength, float(values[best]))
    from scipy.optimize import minimize_scalar  # a third of the time that every start takes

    refined = minimize_scalar(
        lambda strength: float(error(strength)),
        bounds=(grid[max(best - 1, 0)], grid[best + 1]),
        method="bounded",
        options={"xatol": 1e-10},
    )
    strength = float(refined.x)
    return BestStep(strength / per_step, strength, float(refined.fun))
