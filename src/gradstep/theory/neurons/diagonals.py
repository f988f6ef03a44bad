"""Diagonals of a matrix in the eigenbasis of another one, as functions of the eigenvalue.

Traces of the resolvent ``(A - z)^-1`` and of products ``X (A - z)^-1`` are known at points z off the real axis. The
diagonal of X is the function x of the eigenvalue of A for which ``tr X f(A) = tr x(A) f(A)``, for all functions f. Here
it is sought among the combinations of ``1``, ``Re 1/(l - z_i)`` and ``Im 1/(l - z_i)``: the one nearest to it in
the mean square over the law of A. So no distance from the real axis has to be chosen, and the function does not depend
on the eigenvalues at which it is wanted. This project.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradstep.resolution import NOTHING
from gradstep.theory.neurons.rational_rule import function_products

__all__ = ["VANISHING", "DiagonalBounds", "Diagonals", "functions_at", "nearest_diagonals", "readout_variances"]

#: Added to the square of each function, which has length one, so that functions that others make up to rounding do not
#: matter. With 1e-10 to 1e-5 in its place the errors of fifty predictions change by 1e-8 in the median and by less than
#: 4e-5.
_FAINT = 1e-6
#: Mean square of the real or the imaginary part of a function, over that of the whole, below which it is rounding.
VANISHING = 1e-10
#: Steps of the bisection for the mean of diagonals within their bounds.
_HALVINGS = 50

Array = NDArray[np.float64]
Complex = NDArray[np.complexfloating[Any, Any]]


class Diagonals(NamedTuple):
    """Diagonals of some matrices, as functions of an eigenvalue."""

    points: Complex  #: ``z_i``, in the upper half-plane. Shape (points,).
    #: Coefficients of the functions, in the order of `gradstep.theory.neurons.rational_rule.function_products`.
    #: Shape (1 + 2 points, matrices).
    coefficients: Array

    def at(self, eigenvalues: Array) -> Array:
        """Return the diagonals at eigenvalues, shape (matrices, eigenvalues)."""
        return np.asarray(self.coefficients.T @ functions_at(self.points, eigenvalues)[0])

    def mean_squares(self, transform: Complex, slope: Complex) -> Array:
        """Return the mean square of each diagonal over the law of `along`, shape (matrices,)."""
        products = _gram(self.points, transform, slope) @ self.coefficients
        return np.asarray((self.coefficients * products).sum(axis=0))

    def along(self, transform: Complex, slope: Complex) -> tuple[Array, Complex]:
        """Return the products of the diagonal matrices with vectors that have another law.

        The transform and its slope are of that law, at the same points. The products have shape (matrices,); those with
        the resolvent, the second result, have shape (matrices, points).
        """
        found = self.coefficients.T @ _gram(self.points, transform, slope)
        real, imaginary = np.split(found[:, 1:], 2, axis=1)
        return found[:, 0], np.asarray(real + 1j * imaginary)


class DiagonalBounds(NamedTuple):
    """Bounds of the diagonals of C and ``q CBC`` in the eigenbasis of A, the mean law of rows of several readouts.

    The functions that stand for the diagonals are nearest to them in the mean over all eigenvalues. At a single
    eigenvalue, as one between two bands, such a function may be far from the diagonal.
    """

    #: The smallest and the largest eigenvalue of C.
    least: float
    most: float
    linear: float  #: ``k / q``: A has ``2 linear`` times ``q CBC``.

    def of_vectors(self, weight: Array, diagonals: Array) -> Array:
        """Return the nearest diagonals for vectors that have the same means and are within their bounds.

        These diagonals are not those of single eigenvectors, because ``x^T C f(A) x`` has products of different
        eigenvectors too. Only the diagonal of C has bounds here, the eigenvalues of C.

        The nodes have the weights `weight`, shape (nodes,), in the means, and the diagonals have shape (2, nodes).
        """
        plain, stretched = diagonals
        least, most = np.full_like(plain, self.least), np.full_like(plain, self.most)
        return np.stack([_within(plain, least, most, weight), stretched])

    def of_eigenvectors(self, nodes: Array, weight: Array, diagonals: Array) -> Array:
        """Return the nearest diagonals of directions that have the same means and are within their bounds.

        The eigenvalues are `nodes`, with the weights `weight` in the means, both of shape (nodes,), and the diagonals
        have shape (2, nodes).

        Docs, "Bases of stretched rows", equation (B7).
        """
        plain, stretched = diagonals
        plain = _within(plain, *self.of_plain(nodes), weight)
        return np.stack([plain, _within(stretched, *self.of_stretched(nodes, plain), weight)])

    def of_plain(self, nodes: Array) -> tuple[Array, Array]:
        """Return the bounds of the diagonal of C in directions with these eigenvalues."""
        # There A - C - 2 k CBC is at least stretched^2 / plain, by the inequality of Cauchy and Schwarz.
        most = np.minimum(self.most, nodes / max(1 - self.linear**2, NOTHING))
        return np.minimum(self.least, most), most

    def of_stretched(self, nodes: Array, plain: Array) -> tuple[Array, Array]:
        """Return the bounds of the diagonal of ``q CBC`` in directions with these diagonals of C."""
        middle = -self.linear * plain
        reach = np.sqrt(np.maximum(plain * nodes - plain**2 + middle**2, 0.0))
        return middle - reach, middle + reach


def _within(values: Array, least: Array, most: Array, weight: Array) -> Array:
    """Return the nearest values between bounds that have the same weighted mean, as far as there are any."""
    found = np.clip(values, least, most)
    if np.array_equal(found, values):
        return values
    mean = float(weight @ values)
    # The shift before the clipping: the mean grows with it.
    low, high = float((least - values).min()), float((most - values).max())
    for _ in range(_HALVINGS):
        shift = (low + high) / 2
        found = np.clip(values + shift, least, most)
        low, high = (shift, high) if float(weight @ found) < mean else (low, shift)
    return found


def functions_at(points: Complex, eigenvalues: Array) -> tuple[Array, Array]:
    """Return the functions ``1, Re 1/(l - z_i), Im 1/(l - z_i)``, and the squares of the whole of each.

    Both have shape (1 + 2 points, eigenvalues).
    """
    turned, one = 1 / (eigenvalues - points[:, None]), np.ones((1, len(eigenvalues)))
    square = np.abs(turned) ** 2
    return np.concatenate([one, turned.real, turned.imag]), np.concatenate([one, square, square])


def nearest_diagonals(
    points: Complex, transform: Complex, slope: Complex, means: Array, resolved: Complex
) -> Diagonals:
    """Return the diagonals of matrices in the eigenbasis of A.

    Docs, "Bases of stretched rows", equation (B6).

    The points are in the upper half-plane and all different. The transform, shape (points,), is the mean of the
    resolvent of A over all directions or some, and the slope its derivative in z. The means over the same directions
    are those of the matrices, shape (matrices,), and `resolved`, shape (matrices, points), has those of the matrices
    times the resolvent.
    """
    gram = _gram(points, transform, slope)
    products = np.concatenate([means[:, None], resolved.real, resolved.imag], axis=1).T
    # A multiple of one is found to rounding, because the rest is sought beside the mean.
    beside = products - gram[:, :1] * means
    # A real or an imaginary part may vanish, up to rounding. The squares of both together have this mean.
    whole = transform.imag / points.imag
    square = np.maximum(np.diagonal(gram), 0.0) + VANISHING * np.concatenate([[1.0], whole, whole])
    length = np.sqrt(square)[:, None]
    found = np.linalg.solve(gram / (length * length.T) + _FAINT * np.eye(len(gram)), beside / length) / length
    found[0] += means
    return Diagonals(points, found)


def _gram(points: Complex, transform: Complex, slope: Complex) -> Array:
    """Return the products of the functions with each other in the mean over a law, shape (functions, functions)."""
    resolvent, change = (of[None, :, None, None] for of in (transform, slope))
    return np.asarray(function_products(points[None], resolvent, change)[0, ..., 0, 0])


def readout_variances(
    eigenvalue: Array, diagonals: Array, readout: Array, square: Array, own: Array, mean: float
) -> Array:
    """Return the variances of rows in directions where C and ``q CBC`` have known diagonals, shape (rows, directions).

    Docs, "Bases of stretched rows", equation (B5).

    The eigenvalues (directions,) are the mean of the variances over all readouts, and the diagonals have shape (2,
    directions). Of each row there are the readout over the root mean square of all, its square, and what the network's
    own output makes of the row. The mean is that of the readouts.
    """
    plain, stretched = diagonals
    a, a_square, own = readout[:, None], square[:, None], own[:, None]
    rest = eigenvalue - plain - 2 * mean * stretched
    return np.asarray(own**2 * plain + 2 * own * a * stretched + a_square * rest)
