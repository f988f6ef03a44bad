r"""Products of the samples of a draw with each other, which differ from their means.

The parts ``x_perp`` of the samples that are orthogonal to the teacher are independent of projections ``u`` and of
residuals ``r``. Given these, products of sums over the samples fluctuate, such as ``|X_perp^T r|^2``, and so do those
with the samples' own matrix ``B = X^T diag(r) X / n_step`` between. For functions ``p_a`` of a sample that are
orthonormal over the samples, a draw has the products::

    p_a^T X_perp X_perp^T p_b / (n_step d)  =  delta_ab + Q_ab.

A product with a function of B between sees a second matrix P as well, of what two different samples are to each other
through B beside ``E r`` times what they are to each other without it. All elements of the symmetric matrices Q and P
are independent Gaussian numbers, of the variance ``1 / d`` off the diagonal and ``2 / d`` on it. This project.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradstep.resolution import NOTHING
from gradstep.theory.step.weighted_samples import Residual

__all__ = ["SampleForms", "sample_forms"]

Array = NDArray[np.float64]

#: Mean square of what a function has beside others, over its own, below which it has nothing.
_SAME = 1e-10


@dataclass(frozen=True)
class SampleForms:
    """Changes of the products of samples in a draw."""

    law: Residual  #: Of ``u`` and ``r``.
    ratio: float  #: ``phi0 = d / n_step``.
    functions: Array  #: The functions p, or zero. Shape (functions, nodes).
    #: The matrices Q and P, shape (functions, functions).
    plain: Array
    by_residual: Array
    #: Solutions of equations that know nothing of Q and P, for all draws of one law.
    solutions: dict[bytes, Any] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def scale(self) -> float:
        """Standard deviation of the spectral law of B."""
        return math.sqrt(self.mean_square)

    @property
    def mean_square(self) -> float:
        """``|X_perp^T r|^2 / n_step^2`` in the mean."""
        return self.ratio * self.law.square

    @property
    def square(self) -> float:
        """``|X_perp^T r|^2 / n_step^2`` in the draw."""
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
        along = phi0 * mean(weight * self.law.residual) / self.scale if self.scale > 0 else 0.0
        return phi0 * float(found + one @ (mean(weight) * q + along * self.by_residual) @ other)

    def sampled_twice(self, left: Array, right: Array) -> float:
        """Return the change of the same product with the square of B between.

        Docs, "Spread", equation (D13).
        """
        phi0, q, p, mean = self.ratio, self.plain, self.by_residual, self.law.mean(self.law.residual)
        (one, one_r, one_rr), (other, other_r, other_rr) = (
            [self.parts(values * power) for power in self.law.powers[:3]] for values in (left, right)
        )
        found = (self.scale**2 + mean**2) * (one @ q @ other)
        found += phi0**2 * (one_r @ q @ other_r + one_rr @ q @ other + one @ q @ other_rr)
        found += 2 * mean * phi0 * (one_r @ q @ other + one @ q @ other_r)
        third = phi0**2 * self.law.mean(self.law.powers[3]) / self.scale if self.scale > 0 else 0.0
        found += (third + 2 * mean * self.scale) * (one @ p @ other)
        found += phi0 * self.scale * (one_r @ p @ other + one @ p @ other_r)
        return phi0 * float(found)


def sample_forms(law: Residual, ratio: float, variance: float) -> list[SampleForms]:
    """Return a standard deviation along each of the independent directions in which products of samples differ.

    These are the directions of the products `between` and `sampled` by r of the functions r and ``r u``, in this order
    ``(r, r)``, ``(r, ru)`` and ``(ru, ru)``: a direction changes none of those before its own. All other products are
    as they are in the mean over the draws that have these.

    The `variance` is that of the diagonal elements of Q and P.

    Docs, "Spread", equations (D12) and (D13).
    """
    r = law.residual
    functions = _orthonormal(np.stack([r, r * law.projection, r**2, r**2 * law.projection]), law.weight)
    nothing = np.zeros((len(functions),) * 2)
    mean = SampleForms(law, ratio, functions, nothing, nothing)
    vectors = np.stack([r, r * law.projection])
    plain, with_r = mean.parts(vectors), mean.parts(vectors * r)
    pairs = [(0, 0), (0, 1), (1, 1)]
    across = [np.outer(plain[i], plain[j]) for i, j in pairs]
    products = [np.stack([each, nothing]) for each in across]
    for (i, j), each in zip(pairs, across, strict=True):
        by_plain = np.outer(with_r[i], plain[j]) + np.outer(plain[i], with_r[j])
        products.append(np.stack([ratio * by_plain + law.mean(r) * each, mean.scale * each]))
    symmetric = np.stack(products) + np.stack(products).mT
    directions = _orthonormal(symmetric.reshape(len(products), -1), np.ones(symmetric[0].size))
    size = math.sqrt(variance)
    return [
        replace(mean, plain=size * first, by_residual=size * second)
        for first, second in directions.reshape(symmetric.shape)
        if first.any() or second.any()
    ]


def _orthonormal(vectors: Array, weight: Array) -> Array:
    """Return vectors that are orthonormal with weights, one after the other; zero for one that has nothing new."""
    found = np.zeros_like(vectors)
    for place, vector in enumerate(vectors):
        left = vector
        # Twice, for rounding.
        for _ in range(2):
            left = left - ((weight * left) @ found[:place].T) @ found[:place]
        square, whole = float(weight @ left**2), float(weight @ vector**2)
        if square > _SAME * max(whole, NOTHING):
            found[place] = left / math.sqrt(square)
    return found
