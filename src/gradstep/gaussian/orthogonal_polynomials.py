"""Orthogonal polynomials of a law on points, from which its Gauss rules come (Golub and Welsch)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gradstep.resolution import NOTHING

__all__ = ["orthogonal_polynomials"]

Array = NDArray[np.float64]


def orthogonal_polynomials(x: Array, law: Array, values: Array, count: int) -> tuple[Array, Array]:
    """Return the Jacobi matrices of laws on points, and projections of values on `count` orthonormal polynomials.

    The nodes of a law's Gauss rule are the eigenvalues of its matrix, and the weights the squares of the first
    components of the eigenvectors. The polynomials are made by Lanczos' method. If a law has fewer points than `count`,
    the rule has nodes of weight zero, to rounding.

    The points have shape (points,), and the probabilities `law`, which sum to one, and the values have shape
    (..., points). The results have shapes (..., count, count) and (..., count).
    """
    root = np.sqrt(law)
    basis = [root]
    matrices, known = np.zeros((*law.shape[:-1], count, count)), np.empty((*values.shape[:-1], count))
    for degree in range(count):
        last = basis[-1]
        known[..., degree] = np.vecdot(last, root * values)
        following = x * last
        matrices[..., degree, degree] = np.vecdot(last, following)
        if degree + 1 < count:
            # Orthogonal to all, not only to the last two: rounding would bring the others back.
            for other in (*basis, *basis):
                following = following - np.vecdot(other, following)[..., None] * other
            size = np.linalg.norm(following, axis=-1)
            matrices[..., degree, degree + 1] = matrices[..., degree + 1, degree] = size
            basis.append(following / np.maximum(size, NOTHING)[..., None])
    return matrices, known
