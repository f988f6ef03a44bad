"""Theory over measurement, in numbers: what z is, and when the two agree, is said here and nowhere else."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from gradstep.resolution import LEAST_WITH_DIGITS

__all__ = ["FAR", "Overlay", "mean_and_error", "normal_score"]

FAR = 3.0
"""Theory and networks differ where ``|z|`` is larger: chance does that once in 370 times."""

#: Theory and simulation are computed to about nine digits. Where networks vary less than that, this share of the value
#: stands for the standard error.
_PRECISION = 1e-9


@dataclass(frozen=True, eq=False)
class Overlay:
    """One quantity in theory and as the mean over measured networks, at one place or at many.

    Parameters
    ----------
    theory : float or ndarray
        Predicted value; nan where there is none.
    mean : float or ndarray
        Mean over independent networks.
    standard_error : float or ndarray
        Standard error of the mean: the networks' standard deviation (divisor: their number less one) over the root of
        their number.
    seeds : int or ndarray
        How many networks were measured.

    Notes
    -----
    The four are broadcast against each other, and everything that follows from them has their common shape.
    """

    theory: Any
    mean: Any
    standard_error: Any
    seeds: Any

    @classmethod
    def of(cls, theory: ArrayLike, values: ArrayLike, axis: int = 0) -> Self:
        """Lay theory over the values of single networks.

        There is one value for each network, along the axis, or nan where it is not defined.
        """
        return cls(np.asarray(theory, dtype=np.float64)[()], *mean_and_error(values, axis))

    @property
    def difference(self) -> Any:
        """Mean over the networks less theory."""
        return np.subtract(self.mean, self.theory)

    @property
    def relative_difference(self) -> Any:
        """The difference as a share of the size of the theory; nan where that is zero."""
        size = np.abs(np.asarray(self.theory, dtype=np.float64))
        return (self.difference / np.where(size > 0, size, math.nan))[()]

    @property
    def t(self) -> Any:
        """The difference in standard errors, Student's t."""
        return self.difference / self.standard_error

    @cached_property
    def z(self) -> Any:
        """Return how far the networks' mean lies above theory, as a normal score.

        Student's ``t = difference / standard_error``, with one degree of freedom less than there are networks, is read
        on the scale of the standard normal law (see `normal_score`). So z is standard normal where theory is right,
        whatever the number of networks. Where all networks have the same value to nine digits, these digits stand for
        the standard error: z is then about zero if theory has that value too, and large if it has not. It is nan
        without a prediction and with fewer than two networks.
        """
        return self.z_beyond(0.0)

    def z_beyond(self, allowance: ArrayLike) -> Any:
        """Return z of that part of the difference which exceeds an allowance.

        The allowance is the error of the theory that is known and granted, as a share of its size.
        """
        given = (self.theory, self.mean, self.standard_error, self.seeds, allowance)
        theory, mean, error, seeds, granted = np.broadcast_arrays(*(np.asarray(v, dtype=np.float64) for v in given))
        with np.errstate(divide="ignore", invalid="ignore"):
            beyond = np.maximum(np.abs(mean - theory) - granted * np.abs(theory), 0.0)
            error = np.maximum(error, _PRECISION * np.maximum(np.abs(mean), np.abs(theory)))
            t = np.where(beyond == 0, 0.0, np.copysign(beyond, mean - theory) / error)
        return np.where(seeds < 2, math.nan, normal_score(t, np.maximum(seeds - 1, 1)))[()]

    @property
    def agrees(self) -> Any:
        """Whether ``|z|`` is at most `FAR`; what has no z does not agree."""
        return np.abs(self.z) <= FAR


def mean_and_error(values: ArrayLike, axis: int = 0) -> tuple[Any, Any, Any]:
    """Return the mean of independent values, its standard error, and how many there are; nan is no value.

    The standard error is nan where there are fewer than two values along the axis, the mean where there is none.
    """
    values = np.asarray(values, dtype=np.float64)
    known = ~np.isnan(values)
    count = known.sum(axis=axis)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(known, values, 0.0).sum(axis=axis) / count
        rest = np.where(known, values - np.expand_dims(mean, axis), 0.0)
        error = np.sqrt((rest**2).sum(axis=axis) / (count - 1) / count)
    return mean, np.where(count > 1, error, math.nan)[()], count


def normal_score(t: ArrayLike, freedom: ArrayLike) -> NDArray[np.float64]:
    """Return the value at which the standard normal law has the tail probability that Student's law has at `t`.

    Here `t` is finite, or nan, which stays nan. It broadcasts against the degrees of freedom, at least one. The scores
    have the sign of `t` and are not larger in size: three standard errors of four networks give 1.9.
    """
    t, freedom = np.broadcast_arrays(np.asarray(t, dtype=np.float64), np.asarray(freedom, dtype=np.float64))
    size = np.abs(t)
    tail = special.stdtr(freedom, -size)
    score = -special.ndtri(np.maximum(tail, LEAST_WITH_DIGITS))
    # Smaller tail probabilities are worked with by their logarithm: soon floats hold them no more.
    if (far := tail < LEAST_WITH_DIGITS).any():
        score = np.where(far, -special.ndtri_exp(_log_tail(np.maximum(size, 1.0), freedom)), score)
    return np.asarray(np.copysign(score, t))


def _log_tail(t: NDArray[np.float64], freedom: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""Return the logarithm of the probability that Student's variable exceeds a large `t`.

    With :math:`u=\frac{\nu+1}2\log(\nu+s^2)` in place of the variable :math:`s` the tail is an integral of
    :math:`e^{-u}` times a function that varies on the scale :math:`t^2`: its first two terms are the density at
    :math:`t` times :math:`\frac{\nu+t^2}{\nu t}(1-t^{-2})`, and the rest is of the relative order :math:`t^{-4}`.
    """
    constant = special.gammaln((freedom + 1) / 2) - special.gammaln(freedom / 2) - np.log(np.pi * freedom) / 2
    stretch = np.log(np.hypot(1.0, t / np.sqrt(freedom)))
    return np.asarray(constant - (freedom - 1) * stretch - np.log(t) - t**-2.0)
