"""The lengths of an input, as the rows of each group of neurons see them.

The variance of a pre-activation at an input ``x`` is ``x.Sigma.x / d``, where ``Sigma / d`` is the covariance of the
rows off the spike. It fluctuates with ``x``, for all neurons of a group alike. For isotropic rows it is the squared
length of ``x``. For other rows it is called a length, too: that which the rows see. Two groups see the same length only
if their covariances are the same up to a factor. The covariance of the relative fluctuations of two lengths is
``2 tr(Sigma_1 Sigma_2) / (tr Sigma_1 tr Sigma_2)``. This project.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gradstep.theory.neurons.stretched_law import StretchedLaw
from gradstep.theory.step.correlated_samples import words_trace
from gradstep.theory.step.damped_law import DampedLaw

__all__ = ["lengths_of_readouts", "lengths_off", "seen_lengths"]

#: Most independent lengths: a covariance is a parabola in the readout.
_MOST = 3
#: Least mean square of a length that counts, over that of the first one.
_LEAST = 1e-11
#: Least share of a row's mean square that counts as left off a direction.
_LEAST_LEFT = 0.1

Array = NDArray[np.float64]


def seen_lengths(weight: Array, seen: Array) -> Array:
    """Return how much of a few independent lengths groups of given weights see, shape (groups, lengths).

    The products of `seen`, shape (groups, numbers), with standard normal numbers are the same lengths, in units of the
    length that isotropic rows see. The first of the few lengths has the largest mean square, and so on.

    Docs, "Uniform equivalent", equation (E8a).
    """
    square, basis = np.linalg.eigh((weight * seen.T) @ seen)
    count = min(_MOST, int(np.count_nonzero(square > _LEAST * square[-1])))
    return np.asarray(seen @ basis[:, -1 : -count - 1 : -1])


def lengths_off(weight: Array, lengths: Array, variance: Array, direction: Array, d: float) -> Array:
    """Return the lengths of an input off a direction, as `seen_lengths` does.

    The direction is a unit vector of shape (special,), and the variances of the groups in the special directions have
    shape (groups, special), over the mean of all directions.

    Docs, "Uniform equivalent", equation (E8a).
    """
    part = variance @ np.square(direction) / d
    products = lengths @ lengths.T - 2 / d * (variance * np.square(direction)) @ variance.T + d * np.outer(part, part)
    return seen_lengths(weight, _factor(products) / np.maximum(1 - part, _LEAST_LEFT)[:, None])


def lengths_of_readouts(law: DampedLaw | StretchedLaw, coefficients: Array) -> Array:
    """Return lengths as `seen_lengths` takes them, of rows that the samples of a step stretch.

    The law is the mean law of the rows, and `coefficients`, shape (groups, 3), are those of ``C``, of ``q`` times the
    linear part of the stretch, and of the rest in the covariance of a group.

    Docs, "Uniform equivalent", equation (E8a).
    """
    means, products = _of_damped(law) if isinstance(law, DampedLaw) else _of_plain(law)
    return np.asarray(coefficients @ _factor(products) / (coefficients @ means)[:, None])


def _factor(products: Array) -> Array:
    """Return a matrix whose rows have the given products with each other."""
    size, basis = np.linalg.eigh(products)
    return np.asarray(basis * np.sqrt(np.maximum(size, 0.0)))


def _of_plain(law: StretchedLaw) -> tuple[Array, Array]:
    """Return the traces over d of ``C``, ``2 q CBC`` and ``q^2 CBCBC + t CSC``, and those of their products."""
    samples, q, t = law.samples, float(law.root), float(law.strength)
    squares = samples.law.residual**2 / samples.law.square

    def trace(word: str, *powers: int) -> float:
        """Return the trace of a word in B and S with powers of C after each letter."""
        return words_trace(samples, [None if letter == "B" else squares for letter in word], list(powers))

    c2 = samples.spectrum.moment(2)
    means = np.array([1.0, 2 * q * trace("B", 2), q**2 * trace("BB", 1, 2) + t * trace("S", 2)])
    products = np.zeros((3, 3))
    products[0] = c2, 2 * q * trace("B", 3), q**2 * trace("BB", 1, 3) + t * trace("S", 3)
    products[1, 1] = 4 * q**2 * trace("BB", 2, 2)
    products[1, 2] = 2 * q * (q**2 * trace("BBB", 2, 1, 2) + t * trace("BS", 2, 2))
    products[2, 2] = q**4 * trace("BBBB", 1, 2, 1, 2) + 2 * q**2 * t * trace("BBS", 1, 2, 2) + t**2 * trace("SS", 2, 2)
    return means, np.triu(products) + np.triu(products, 1).T


def _of_damped(law: DampedLaw) -> tuple[Array, Array]:
    """Return the same after a damped step, for ``C``, ``q (PBC + CBP)`` and ``q^2 PBCBP + t PSP``."""
    c2 = law.samples.spectrum.moment(2)
    # In the mean over opposite readouts rows have no part of the second matrix, and those of one readout have it once.
    mean, one = replace(law, linear=0.0), replace(law, linear=law.root)
    (with_c, with_second), (one_with_c, _) = mean.moments_with_products, one.moments_with_products
    across, first = with_c - c2, one_with_c - with_c
    last, third = mean.second_moment - c2 - 2 * across, 2 * with_second - first
    second = one.second_moment - mean.second_moment - 2 * (first + third)
    means = np.array([1.0, one.mean - mean.mean, mean.mean - 1])
    return means, np.array([[c2, first, across], [first, second, third], [across, third, last]])
