r"""How the direction of a damped step differs between draws of its samples, in isotropic or correlated inputs.

In whitened inputs the step adds ``theta = P g`` to the rows. Divided by ``1 + delta`` it is the omega that minimises::

    J(s) = (1/n) sum_mu (r_mu - omega.z_mu)^2 + delta omega.C^-1.omega - 2 s_1 bt.omega + s_2 |omega|^2

at ``s = 0``, where the derivatives of the minimal value are ``-2 bt.omega`` and ``|omega|^2``. The covariance of two
minimal values therefore has the covariances of both numbers among its derivatives, as that of two fits has those of
their errors (`gradstep.theory.equivalent.loss_covariance`). This project.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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


def direction_draws(samples: DampedSamples, n_step: float) -> DirectionDraws:
    """Return the law of the numbers of a step.

    Docs, "Spread", equations (D10) and (D11).

    Parameters
    ----------
    samples : DampedSamples
    n_step : float
        Number of samples, the unit of the covariance.

    Returns
    -------
    DirectionDraws
    """
    law, teacher, linear = samples.law, samples.spectrum.teacher, samples.linear
    slopes = _Slopes.of(samples)
    fitted = linear * float(teacher @ samples.kept)
    # Each sample's part of the four numbers: the slopes of its own term in J, r^2 and r.
    rest = law.residual - fitted * law.projection
    of_square = (slopes.weight[:, None] * rest - 2 * slopes.left * slopes.along[:, None] * law.projection) * rest
    numbers = np.stack([of_square[0] / -2, law.residual**2, law.residual, of_square[1]])
    numbers -= (numbers @ law.weight)[:, None]
    covariance = (law.weight * numbers) @ numbers.T
    scale = np.array([-0.5, 1.0])
    covariance[np.ix_([0, 3], [0, 3])] += _of_fits(samples, slopes, fitted) * np.outer(scale, scale)
    mean = np.array([samples.alignment * samples.norm, law.square, law.mean(law.residual), samples.norm**2])
    return DirectionDraws(mean, covariance / n_step, float(slopes.weight[1]))


class _Slopes(NamedTuple):
    """Derivatives of the minimum of J in ``s_1`` and ``s_2``. The units are those in which they change ``theta``.

    Attributes
    ----------
    left : float
        ``m``, the weight of a sample beside all others.
    weight : ndarray, shape (2,)
        Slopes of m.
    along : ndarray, shape (2,)
        Slopes of ``bt.omega``.
    fitted : ndarray, shape (2, classes)
        Slopes of omega in each class, as a multiple of bt.
    kept : ndarray, shape (2, classes)
        Slopes of ``k``.
    """

    left: float
    weight: Array
    along: Array
    fitted: Array
    kept: Array

    @classmethod
    def of(cls, samples: DampedSamples) -> _Slopes:
        kept, left, known = samples.kept, samples.damping / samples.ridge, samples.spectrum
        # Slope of omega in s_1, as a multiple of bt.
        made = samples.scale * kept / left
        gain = samples.ratio * left**2 * float(known.share @ made**2) / (1 - samples.freedom)
        bend = gain / left * kept * (1 - kept) - left * made**2
        fitted = np.stack([made, samples.linear * bend])
        return cls(left, np.array([0.0, gain]), fitted @ known.teacher, fitted, np.stack([0 * bend, bend]))


def _of_fits(samples: DampedSamples, slopes: _Slopes, fitted: float) -> Array:
    """Return what the covariance of the slopes of two minima has of their fits, shape (2, 2)."""
    known, linear, kept = samples.spectrum, samples.linear, samples.kept
    weight = _Jet.product(slopes.left, slopes.weight)
    alone = samples.law.square - 2 * linear * fitted + fitted**2
    along_teacher = _Jet(alone, (fitted - linear) * slopes.along, np.outer(slopes.along, slopes.along))
    fit = linear * kept
    whole = _Jet(
        alone + float(known.teacher @ fit**2) - fitted**2,
        slopes.fitted @ (known.teacher * fit) - linear * slopes.along,
        (slopes.fitted * known.teacher) @ slopes.fitted.T,
    )
    shared = _Jet(
        samples.freedom,
        samples.ratio * (slopes.kept @ (known.share * kept)),
        samples.ratio * (slopes.kept * known.share) @ slopes.kept.T,
    )
    return (
        2 * (weight * whole * whole * shared.over_one_less()).mixed - 2 * (weight * along_teacher * along_teacher).mixed
    )
