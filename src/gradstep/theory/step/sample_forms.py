r"""Products of a draw's samples with each other, orthogonal to the teacher, which differ from their means.

The parts ``x_perp`` of the samples that are orthogonal to the teacher are independent of projections ``u`` and residuals
``r``. Given these, sums over the samples still fluctuate in their squares, as ``|X_perp^T r|^2`` does, and in products
with the samples' own matrix ``B = X^T diag(r) X / n_step``. In terms of functions ``p`` of a sample that are orthonormal
over the samples, a draw has two symmetric matrices Q and P::

    p_a^T X_perp X_perp^T p_b / (n_step d)  =  delta_ab + Q_ab,
    p_a^T X_perp f(B) X_perp^T p_b / (n_step d)  =  P_ab,       f(B) = (B - E r) / (phi0 E r^2)^(1/2),

up to what each sample has with itself. All their elements are independent Gaussian numbers, of the variance ``1 / d``
off the diagonal and ``2 / d`` on it. This project.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradstep.resolution import NOTHING
from gradstep.theory.step.weighted_samples import Residual

__all__ = ["SampleForms", "sample_forms"]

Array = NDArray[np.float64]

#: Mean square of a function off the others, over its own, below which it is one of them.
_SAME = 1e-10


@dataclass(frozen=True)
class SampleForms:
    """Changes of the products of samples in a draw.

    Attributes
    ----------
    law : Residual
        Of ``u`` and ``r``.
    ratio : float
        ``phi0 = d / n_step``.
    functions : ndarray, shape (functions, nodes)
        The functions p, or zero.
    plain, by_residual : ndarray, shape (functions, functions)
        The matrices Q and P.
    solutions : dict
        Solutions of equations that know nothing of Q and P, for all draws of one law.
    """

    law: Residual
    ratio: float
    functions: Array
    plain: Array
    by_residual: Array
    solutions: dict[bytes, Any] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def scale(self) -> float:
        """Standard deviation of the spectral law of B."""
        return math.sqrt(self.ratio * self.law.square)

    @property
    def mean_square(self) -> float:
        """``|X_perp^T r|^2 / n_step^2`` in the mean."""
        return self.ratio * self.law.square

    @property
    def square(self) -> float:
        """The same in the draw."""
        return self.mean_square + self.between(self.law.residual, self.law.residual)

    def parts(self, values: Array) -> Array:
        """Return the parts of functions of a sample along the functions p, shape (..., functions)."""
        return np.asarray((self.law.weight * values) @ self.functions.T)

    def between(self, left: Array, right: Array) -> float:
        """Return the change of the product of ``X_perp^T left / n_step`` with ``X_perp^T right / n_step``."""
        return self.ratio * float(self.parts(left) @ self.plain @ self.parts(right))

    def sampled(self, left: Array, weight: Array, right: Array) -> float:
        """Return the change of the same product with the matrix of the samples of a weight between.

        Docs, "Spread", equation (D13).
        """
        phi0, mean, q = self.ratio, self.law.mean, self.plain
        one, other = self.parts(left), self.parts(right)
        found = phi0 * (self.parts(left * weight) @ q @ other + one @ q @ self.parts(right * weight))
        found += mean(weight) * (one @ q @ other)
        along = phi0 * mean(weight * self.law.residual) / self.scale
        return phi0 * float(found + along * (one @ self.by_residual @ other))

    def sampled_twice(self, left: Array, right: Array) -> float:
        """Return the change of the same product with the square of B between.

        Docs, "Spread", equation (D13).
        """
        phi0, mean, r, q, p = (
            self.ratio,
            self.law.mean(self.law.residual),
            self.law.residual,
            self.plain,
            self.by_residual,
        )
        (one, one_r, one_rr), (other, other_r, other_rr) = (
            [self.parts(values * power) for power in self.law.powers[:3]] for values in (left, right)
        )
        second = self.scale**2 + mean**2
        found = second * (one @ q @ other) + phi0**2 * (one_r @ q @ other_r)
        found += 2 * mean * phi0 * (one_r @ q @ other + one @ q @ other_r)
        found += phi0**2 * (one_rr @ q @ other + one @ q @ other_rr)
        skew = phi0**2 * self.law.mean(r**3) / self.scale + 2 * mean * self.scale
        found += skew * (one @ p @ other) + phi0 * self.scale * (one_r @ p @ other + one @ p @ other_r)
        return phi0 * float(found)


def sample_forms(law: Residual, ratio: float, variance: float) -> list[SampleForms]:
    """Return a standard deviation along each of the independent directions in which products of samples differ.

    These are the directions of the products `between` and `sampled` by r of the functions r and ``r u``, in this order
    ``(r, r)``, ``(r, ru)`` and ``(ru, ru)``: what a direction changes of them is not in those before it. All other
    products are as they are in the mean over the draws that have these.

    Docs, "Spread", equations (D12) and (D13).

    Parameters
    ----------
    law : Residual
    ratio : float
    variance : float
        Of the diagonal elements of Q and P.
    """
    r = law.residual
    functions = _orthonormal(np.stack([r, r * law.projection, r**2, r**2 * law.projection]), law.weight)
    zero = np.zeros((len(functions),) * 2)
    mean = SampleForms(law, ratio, functions, zero, zero)
    phi0, offset = ratio, law.mean(r)
    vectors = np.stack([r, r * law.projection])
    plain, with_r = mean.parts(vectors), mean.parts(vectors * r)
    pairs = ((0, 0), (0, 1), (1, 1))
    products = [np.stack([np.outer(plain[i], plain[j]), zero]) for i, j in pairs]
    for (i, j), (across, _) in zip(pairs, products[:3], strict=True):
        by_plain = phi0 * (np.outer(with_r[i], plain[j]) + np.outer(plain[i], with_r[j])) + offset * across
        products.append(np.stack([by_plain, mean.scale * across]))
    whole = np.stack(products)
    whole = (whole + whole.mT) / 2
    directions = _orthonormal(whole.reshape(len(whole), -1), np.ones(whole[0].size)).reshape(whole.shape)
    return [
        SampleForms(law, ratio, functions, *(math.sqrt(variance) * each), mean.solutions)
        for each in directions
        if each.any()
    ]


def _orthonormal(vectors: Array, weight: Array) -> Array:
    """Return vectors that are orthonormal with weights, one after the other; zero for one that has nothing new."""
    found = np.zeros_like(vectors)
    for k, vector in enumerate(vectors):
        left = vector
        for _ in range(2):
            left = left - ((weight * left) @ found[:k].T) @ found[:k]
        square, whole = float(weight @ left**2), float(weight @ vector**2)
        if square > _SAME * max(whole, NOTHING):
            found[k] = left / math.sqrt(square)
    return found
