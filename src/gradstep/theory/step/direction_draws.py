r"""How the direction of a damped step differs between draws of its samples, in isotropic or correlated inputs.

In whitened inputs the step adds ``theta = P g`` to the rows. Divided by ``1 + delta`` it is the omega that minimises::

    J(s) = (1/n) sum_mu (r_mu - omega.z_mu)^2 + delta omega.C^-1.omega - 2 s_1 bt.omega + s_2 |omega|^2

at ``s = 0``, where the derivatives of the minimal value are ``-2 bt.omega`` and ``|omega|^2``. The covariance of two
minimal values therefore has the covariances of both numbers among its derivatives, as that of two fits has those of
their errors (`gradstep.theory.equivalent.loss_covariance`). With parameters of their own in each class of directions
these numbers are known there. This project.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradstep.theory.step.damped_samples import DampedSamples

__all__ = ["ClassDraws", "DirectionDraws", "class_draws", "direction_draws"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class DirectionDraws:
    """Numbers of a step that differ between draws.

    These are ``bt.theta``, the averages of ``r u``, ``r^2`` and ``r``, and ``|theta|^2``.
    """

    mean: Array  #: Shape (5,).
    covariance: Array  #: To leading order in the number of samples, shape (5, 5).
    #: Derivative of ``|theta|^2`` with respect to the average of ``r^2``, with all else of the residuals as it is.
    square_slope: float


@dataclass(frozen=True)
class _Jet:
    """A symmetric function of the changes of two minima: its value, its slopes and its mixed second derivatives."""

    value: float
    first: Array  # Shape (2,).
    mixed: Array  # Shape (2, 2).

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


@dataclass(frozen=True)
class ClassDraws:
    """Numbers of a step in the classes of directions: sums over the classes with given weights.

    The numbers are the sums of ``bt.theta`` in each class, the averages of ``r u``, ``r^2`` and ``r``, and the sums of
    ``|theta|^2`` off bt in each class.
    """

    covariance: Array  #: To leading order in the number of samples, shape (numbers, numbers).
    #: Shape (sums,): what the last sums gain for each unit of the average of ``r^2``, if nothing else of the residuals
    #: changes.
    square_slope: Array


def direction_draws(samples: DampedSamples, n_step: float) -> DirectionDraws:
    """Return the law of the numbers of a step, with a covariance in proportion to ``1 / n_step``.

    Docs, "Spread", equations (D10) and (D11).
    """
    law, one = samples.law, np.ones((1, len(samples.spectrum.share)))
    slopes = _Slopes.of(samples, one, one, samples.spectrum.share, off_teacher=False)
    along, averages = samples.alignment * samples.norm, [samples.linear, law.square, law.mean(law.residual)]
    mean = np.array([along, *averages, samples.norm**2])
    return DirectionDraws(mean, _covariance(samples, slopes) / n_step, float(slopes.weight[1]))


def class_draws(samples: DampedSamples, n_step: float, along: Array, across: Array, free: Array) -> ClassDraws:
    """Return the law of the numbers of a step in the classes of directions.

    The covariance is in proportion to ``1 / n_step``. `along` and `across`, shape (sums, classes), are the weights of
    the classes in the sums of ``bt.theta`` and of ``|theta|^2`` off bt. `free`, shape (classes,), is the share of the
    directions in each class that are orthogonal to bt.

    Docs, "Spread", equation (D11a).
    """
    slopes = _Slopes.of(samples, along, across, free, off_teacher=True)
    return ClassDraws(_covariance(samples, slopes) / n_step, slopes.weight[len(along) :])


class _Slopes(NamedTuple):
    """Derivatives of the minimum of J in its parameters. The units are those in which they change ``theta``."""

    first: int  # Number of the parameters of ``bt.omega``, which come first.
    left: float  # ``m``, the weight of a sample beside all others.
    weight: Array  # Slopes of m, shape (parameters,).
    along: Array  # Slopes of ``bt.omega``, shape (parameters,).
    fitted: Array  # Slopes of omega in each class, as a multiple of bt, shape (parameters, classes).
    shared: Array  # Slopes of ``k`` by m in all directions, shape (parameters, classes).
    own: Array  # What a parameter takes of ``k`` in its own directions, shape (parameters, classes).
    free: Array  # Share of a parameter's own directions in each class, shape (classes,).

    @classmethod
    def of(cls, samples: DampedSamples, along: Array, across: Array, free: Array, *, off_teacher: bool) -> _Slopes:
        kept, left, known = samples.kept, samples.left, samples.spectrum
        # Slope of omega in the first parameters, as a multiple of bt.
        made = samples.scale * kept / left
        gain = samples.ratio * left**2 * (across @ (free * made**2)) / (1 - samples.freedom)
        shared = (gain / left)[:, None] * kept * (1 - kept)
        own = left * made**2 * across
        fitted = np.concatenate([made * along, samples.linear * (shared if off_teacher else shared - own)])
        still = np.zeros((len(along), len(kept)))
        weight = np.concatenate([np.zeros(len(along)), gain])
        both = np.concatenate([still, shared]), np.concatenate([still, own])
        return cls(len(along), left, weight, fitted @ known.teacher, fitted, *both, free)


def _covariance(samples: DampedSamples, slopes: _Slopes) -> Array:
    """Return ``n_step`` times the covariance of the numbers: bt.omega, the averages of r u, r^2 and r, the others."""
    law, linear, count = samples.law, samples.linear, slopes.first
    fitted = linear * float(samples.spectrum.teacher @ samples.kept)
    # Each sample's part of the numbers: the slopes of its own term in J, r u, r^2 and r.
    rest = law.residual - fitted * law.projection
    of_square = (slopes.weight[:, None] * rest - 2 * slopes.left * slopes.along[:, None] * law.projection) * rest
    residuals = np.stack([law.residual * law.projection, law.residual**2, law.residual])
    numbers = np.concatenate([of_square[:count] / -2, residuals, of_square[count:]])
    numbers -= (numbers @ law.weight)[:, None]
    covariance = (law.weight * numbers) @ numbers.T
    scale = np.where(np.arange(len(of_square)) < count, -0.5, 1.0)
    places = np.delete(np.arange(len(numbers)), [count, count + 1, count + 2])
    covariance[np.ix_(places, places)] += _of_fits(samples, slopes, fitted) * np.outer(scale, scale)
    return np.asarray(covariance)


def _of_fits(samples: DampedSamples, slopes: _Slopes, fitted: float) -> Array:
    """Return what the covariance of the slopes of two minima has of their fits, shape (parameters, parameters)."""
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
    across = (slopes.shared * slopes.free) @ slopes.own.T
    mixed = (slopes.shared * known.share) @ slopes.shared.T - across - across.T
    mixed += (slopes.own * slopes.free) @ slopes.own.T
    first = slopes.shared @ (known.share * kept) - slopes.own @ (slopes.free * kept)
    shared = _Jet(samples.freedom, samples.ratio * first, samples.ratio * mixed)
    return (
        2 * (weight * whole * whole * shared.over_one_less()).mixed - 2 * (weight * along_teacher * along_teacher).mixed
    )
