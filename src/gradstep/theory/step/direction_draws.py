r"""How the direction of a step differs between draws of its samples, in isotropic or correlated inputs.

A step adds the direction ``theta`` to the rows: ``C g``, or ``P g`` if it is damped. Up to a factor ``theta`` is the
minimum of

    J(s) = (1/n) sum_mu (r_mu - omega.z_mu)^2 + delta omega.C^-1.omega - 2 s_1 bt.omega + s_2 |omega|^2,

whose derivatives in ``s_1`` and ``s_2`` at zero are ``-2 bt.theta`` and ``|theta|^2``. The covariance of two such minima
therefore has the covariances of both numbers among its derivatives, as that of two fits has those of their errors
(`gradstep.theory.equivalent.loss_covariance`). The plain step is the limit of a large damping. This project.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradstep.theory.step.correlated_samples import CorrelatedSamples
from gradstep.theory.step.damped_samples import DampedSamples

__all__ = ["DirectionDraws", "direction_draws"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class DirectionDraws:
    """Numbers of a step that differ between draws: ``bt.theta``, the averages of ``r^2`` and ``r``, ``|theta|^2``.

    Attributes
    ----------
    mean : ndarray, shape (4,)
    covariance : ndarray, shape (4, 4)
        To leading order in the number of samples.
    square_slope : float
        What ``|theta|^2`` gains for each unit of the average of ``r^2``, if nothing else of the residuals changes.
    """

    mean: Array
    covariance: Array
    square_slope: float


@dataclass(frozen=True)
class _Jet:
    """A symmetric function of the changes of two minima: its value, its slopes and its mixed second derivatives.

    Attributes
    ----------
    value : float
    first : ndarray, shape (2,)
    mixed : ndarray, shape (2, 2)
    """

    value: float
    first: Array
    mixed: Array

    @classmethod
    def product(cls, value: float, slope: Array) -> _Jet:
        """Return the product of a number of the one minimum with the same number of the other."""
        return cls(value**2, value * slope, np.outer(slope, slope))

    def __mul__(self, other: _Jet) -> _Jet:
        across = np.outer(self.first, other.first)
        mixed = self.value * other.mixed + across + across.T + self.mixed * other.value
        return _Jet(self.value * other.value, self.value * other.first + self.first * other.value, mixed)

    def over_one_less(self) -> _Jet:
        """Return ``1 / (1 - f)``."""
        left = 1 - self.value
        across = np.outer(self.first, self.first)
        return _Jet(1 / left, self.first / left**2, self.mixed / left**2 + 2 * across / left**3)


def direction_draws(samples: CorrelatedSamples | DampedSamples, n_step: float) -> DirectionDraws:
    """Return the law of the numbers of a step.

    Docs, "Spread", equations (D9) and (D10).

    Parameters
    ----------
    samples : CorrelatedSamples or DampedSamples
    n_step : float
        Number of samples, the unit of the covariance.

    Returns
    -------
    DirectionDraws
    """
    law, teacher, share = samples.law, samples.spectrum.teacher, samples.spectrum.share
    u, r, linear = law.projection, law.residual, samples.linear
    kept, left, made = _metric(samples)
    freedom = samples.ratio * float(share @ kept**2)
    # What the weight of a sample, and the metric, gain with s_2.
    gain = samples.ratio * left**2 * float(share @ made**2) / (1 - freedom)
    bend = gain / left * kept * (1 - kept) - left * made**2
    along = np.array([teacher @ made, linear * (teacher @ bend)])
    fitted = linear * float(teacher @ kept)
    between = np.array([[made @ (teacher * made), linear * (made @ (teacher * bend))], [0.0, 0.0]])
    between[1] = between[0, 1], linear**2 * float(teacher @ bend**2)
    with_fit = linear * np.array([teacher @ (kept * made), linear * (teacher @ (kept * bend))])

    weight = _Jet.product(left, np.array([0.0, gain]))
    of_teacher = _Jet(
        law.square - 2 * linear * fitted + fitted**2, -(linear - fitted) * along, np.outer(along, along)
    )
    beside = linear**2 * float(teacher @ kept**2) - fitted**2
    whole = _Jet(of_teacher.value + beside, with_fit - linear * along, between)
    shared = _Jet(
        freedom,
        samples.ratio * np.array([0.0, share @ (kept * bend)]),
        samples.ratio * np.diag([0.0, share @ bend**2]),
    )
    gaussian = 2 * (weight * whole * whole * shared.over_one_less()).mixed - 2 * (weight * of_teacher * of_teacher).mixed
    rest = r - fitted * u
    by_first, by_second = (np.array([0.0, gain])[:, None] * rest - 2 * left * along[:, None] * u) * rest
    numbers = np.stack([by_first / -2, r**2, r, by_second])
    numbers -= (numbers @ law.weight)[:, None]
    covariance = (law.weight * numbers) @ numbers.T
    scale = np.array([-0.5, 1.0])
    covariance[np.ix_([0, 3], [0, 3])] += gaussian * np.outer(scale, scale)
    direct = linear * float(teacher @ made) * left
    return DirectionDraws(
        np.array([direct, law.square, law.mean(r), samples.norm**2]), covariance / n_step, gain
    )


def _metric(samples: CorrelatedSamples | DampedSamples) -> tuple[Array, float, Array]:
    """Return ``k``, ``m`` and what the step makes of a direction that no sample knows, ``(1 + delta) k / m``."""
    if isinstance(samples, DampedSamples):
        left = samples.damping / samples.ridge
        return samples.kept, left, samples.scale * samples.kept / left
    c = samples.spectrum.eigenvalue
    return np.zeros_like(c), 1.0, c
