r"""Find the directions of a target by kernel ridge regression: the recursive feature machine.

Few random features do not see a product of three inputs or a fast wave. Kernel ridge regression does, which is a
network of infinite width. With a matrix :math:`M`, first the identity, it fits

.. math:: f(z)=\sum_\mu\alpha_\mu\,e^{-|z-z_\mu|_M/\ell},\qquad |u|_M^2=u^\top M u,

with the median distance :math:`\ell`, and the next :math:`M` is the average gradient outer product of :math:`f` over
the rows, :math:`E\,\nabla f(z)\nabla f(z)^\top`. Distances then count along the directions in which :math:`f` varies
and hardly along the others, so that the next fit is better. It is the algorithm of Radhakrishnan et al. (2024).
"""

from __future__ import annotations

import math

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

__all__ = ["KERNEL_ROWS", "kernel_gradients"]

Host = NDArray[np.float64]

KERNEL_ROWS = 2048
"""Distinct rows that the kernel fits use, at most."""

#: Rows on which the penalty is chosen. It is the variance of the noise, which does not depend on their number.
_PENALTY_ROWS = 256
#: Penalties tried, over the kernel of a row with itself.
_PENALTIES = np.logspace(-3, 3, 25)
#: The rounds end where an error is larger than this times that of the round before.
_PROGRESS = 0.98
#: Rows from which the median distance is taken.
_MEDIAN_ROWS = 256
#: Gradients that are taken, of all outputs together, at most; but of as many rows as there are inputs.
_GRADIENTS = 4 * KERNEL_ROWS
#: Distances over the median below which two rows count as one: the kernel has no gradient there.
_ONE_PLACE = 1e-5


def kernel_gradients(z: Host, y: Host, weights: Host, most: int) -> tuple[Host | None, int]:
    """Return the gradients at the rows of a function that is fitted in `most` rounds, and how many there were.

    Rounds end early when the error of generalised cross-validation falls by less than two per cent. A round in which it
    rises is left out.

    The inputs, shape (n, d), are distinct and in random order; at most `KERNEL_ROWS` are sensible. The targets have the
    shape (n, k). A weight of two is two rows with the same inputs, and their mean target. The gradients are a matrix
    ``R`` with ``R^T R`` equal to ``M``, up to a factor. It has a row for each input and output, of the first inputs
    alone if there are many outputs, and is None if the targets or the inputs are constant.
    """
    if z.shape[1] > len(z):  # everything happens in the span of the rows
        basis = np.linalg.qr(z.T)[0]
        within, rounds = kernel_gradients(z @ basis, y, weights, most)
        return None if within is None else within @ basis.T, rounds
    weights = weights / weights.mean()
    y = y - weights @ y / len(y)
    gradients, root, before, rounds = None, np.eye(z.shape[1]), math.inf, 0
    while rounds < most:
        found, error = _one_round(z @ root, y, weights)
        if found is None or error > before:
            break
        gradients, rounds = found @ root, rounds + 1
        if error > _PROGRESS * before:
            break
        before = error
        values, vectors = np.linalg.eigh(gradients.T @ gradients)
        values = np.maximum(values, 0.0)
        root = (vectors * np.sqrt(values * (len(values) / values.sum()))) @ vectors.T
    return gradients, rounds


def _one_round(place: Host, y: Host, weights: Host) -> tuple[Host | None, float]:
    """Return the weighted gradients with respect to the places, shape (rows, d), and the error of the fit.

    The gradients are None where the function is constant, or where places are not finite.
    """
    if not np.isfinite(place).all():
        return None, 0.0
    kernel, distance = _kernel(place)
    if kernel is None:
        return None, 0.0
    coefficients, error = _coefficients(kernel, y, weights)
    near = distance < _ONE_PLACE
    distance[near] = 1.0
    kernel /= distance
    kernel[near] = 0.0
    some = slice(max(_GRADIENTS // y.shape[1], min(place.shape)))
    kernel, roots = kernel[some], np.sqrt(weights)[some, None]
    gradients = []
    for column in coefficients.T:
        pull = kernel * column
        gradients.append(roots * (pull @ place - pull.sum(axis=1)[:, None] * place[some]))
    result = np.concatenate(gradients)
    return result if np.isfinite(result).all() and result.any() else None, error


def _kernel(place: Host) -> tuple[Host | None, Host]:
    """Return the kernel between all places and their distances over the median; no kernel if that is zero."""
    squares = np.einsum("ij,ij->i", place, place)
    distance = place @ place.T
    distance *= -2
    distance += squares[:, None]
    distance += squares
    np.maximum(distance, 0, out=distance)
    np.sqrt(distance, out=distance)
    some = distance[:_MEDIAN_ROWS, :_MEDIAN_ROWS]
    median = np.median(some[np.triu_indices(len(some), 1)]) if len(some) > 1 else 0.0
    if not (median > 0 and math.isfinite(median)):
        return None, distance
    distance /= median
    return np.exp(-distance), distance


def _coefficients(kernel: Host, y: Host, weights: Host) -> tuple[Host, float]:
    """Return the coefficients alpha, shape (n, k), at the penalty of generalised cross-validation, and its error."""
    n, some = len(y), min(len(y), _PENALTY_ROWS)
    roots = np.sqrt(weights)[:, None]
    part = kernel[:some, :some] * (roots[:some] * roots[:some].T)
    values, vectors = np.linalg.eigh(part)
    values = np.maximum(values, 0.0)
    projected = vectors.T @ (roots[:some] * y[:some])
    left = _PENALTIES[:, None] / (values + _PENALTIES[:, None])
    errors = (left**2 @ (projected**2).sum(axis=1)) / left.mean(axis=1) ** 2
    error = float(errors.min())
    penalty = _PENALTIES[len(errors) - 1 - int(np.argmin(errors[::-1]))]
    if some == n:
        return np.asarray(roots * (vectors @ (projected / (values + penalty)[:, None]))), error
    factor = None
    while factor is None:
        whole = kernel * (roots * roots.T)
        whole.flat[:: n + 1] += penalty
        try:
            factor = scipy.linalg.cho_factor(whole, overwrite_a=True, check_finite=False)
        except scipy.linalg.LinAlgError:  # the distances of rows that nearly agree are rounded, and weights enlarge it
            penalty *= 10
    return np.asarray(roots * scipy.linalg.cho_solve(factor, roots * y, check_finite=False)), error
