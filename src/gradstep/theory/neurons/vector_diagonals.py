"""Classes of directions in which a few vectors lie, with what they have there of matrices that do not commute.

Let A be a matrix with known resolvents between some vectors, and X others of which ``x^T X f(A) y`` is known for all
functions f. Over all directions X is known by its diagonal, a function of the eigenvalue of A
(`gradstep.theory.neurons.diagonals`). The vectors see more. Near each eigenvalue of A two vectors span a plane, and in
it X is a matrix: one vector may meet much of X where the other meets little. So each eigenvalue becomes two
directions, which diagonalise the matrices X as far as these have common eigenvectors. This project.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradstep.resolution import NOTHING
from gradstep.theory.neurons.diagonals import VANISHING, functions_at, nearest_diagonals
from gradstep.theory.neurons.rational_rule import Others, sparse_rule
from gradstep.theory.together import Computation

__all__ = ["ProductSums", "VectorDiagonals", "VectorProducts", "vector_diagonals"]

#: Least share of the vectors along a direction, over the largest at the same eigenvalue: less is rounding.
_LEAST_PART = 1e-6
#: Factor of the tolerance for the eigenvalues, and the largest one. What is taken at them is no rational function. A
#: rule with more nodes than it needs has some where rounding puts them: errors then jumped by up to 1e-3.
_COARSER, _COARSEST = 1e2, 1e-6
#: Weight of the changes of the diagonals beside the errors of the products, in parts of the number of functions. With a
#: tenth of it the errors of 36 settings were as near to networks, and with ten times as much less near.
_CHANGE = 0.01
#: Most steps for each of the diagonals. A third of one is enough in all problems that were tried.
_STEPS = 10
#: Pull of a diagonal from its bound, over the largest of all without bounds, that is rounding.
_HELD = 1e-12

Array = NDArray[np.float64]
Complex = NDArray[np.complexfloating[Any, Any]]


class VectorProducts(NamedTuple):
    """Matrices and their products with the resolvent of A, between some vectors.

    Attributes
    ----------
    points : ndarray, shape (points,)
        ``z_i``, in the upper half-plane.
    means : ndarray, shape (matrices, vectors, vectors)
        The matrices X themselves.
    resolved : ndarray, shape (matrices, points, vectors, vectors)
        ``X (A - z)^-1``, which is not symmetric.
    contrast : ndarray, shape (matrices, matrices)
        How much it matters that a direction is an eigenvector: the mean square of a combination of the matrices.
    """

    points: Complex
    means: Array
    resolved: Complex
    contrast: Array

    def of_some(self, some: list[int]) -> VectorProducts:
        """Return the products of some of the vectors."""
        means, resolved = self.means[:, some][:, :, some], self.resolved[:, :, some][..., some]
        return self._replace(means=means, resolved=resolved)

    def sums(self, nodes: Array, overlap: Array) -> ProductSums:
        """Return the products as sums over the directions of some vectors.

        Parameters
        ----------
        nodes : ndarray, shape (directions,)
        overlap : ndarray, shape (directions, vectors)
        """
        rows, columns = np.triu_indices(overlap.shape[1])
        # Two different vectors stand for both their orders.
        factor = np.where(rows == columns, 1.0, np.sqrt(2.0))
        pairs = (overlap[:, rows] * overlap[:, columns] * factor).T
        square = np.maximum(np.square(overlap).sum(axis=1), NOTHING)
        functions, whole = functions_at(self.points, nodes)
        length = np.sqrt((np.square(functions) + VANISHING * whole) @ square)[:, None]
        resolved = self.resolved
        known = _symmetric(np.concatenate([self.means[:, None], resolved.real, resolved.imag], axis=1))
        products = (known[..., rows, columns] * factor / length).swapaxes(1, 2).reshape(len(known), -1)
        sums, weight = (pairs[:, None] * (functions / length)).reshape(-1, len(nodes)), np.sqrt(square)
        gram = (sums / weight).T @ (sums / weight) + _CHANGE * len(functions) * np.eye(len(nodes))
        return ProductSums(products, sums, weight, gram)


class ProductSums(NamedTuple):
    """Products of vectors with matrices and functions, as sums over directions in which the vectors lie.

    Attributes
    ----------
    products : ndarray, shape (matrices, products)
        The products themselves, each with a function whose mean square is one.
    sums : ndarray, shape (products, directions)
        What each direction brings to a product, for each unit of a matrix's diagonal.
    weight : ndarray, shape (directions,)
        Length of the vectors' parts in each direction: so much a change of a diagonal counts.
    gram : ndarray, shape (directions, directions)
        Second derivative of what `nearest` makes small.
    """

    products: Array
    sums: Array
    weight: Array
    gram: Array

    def nearest(self, matrix: int, diagonal: Array, least: Array, most: Array) -> Array:
        """Return diagonals within bounds with which the sums come near the products.

        Docs, "Correlated inputs", equation (C7h).

        Parameters
        ----------
        matrix : int
            Which one.
        diagonal : ndarray, shape (directions,)
            Those without bounds, which are changed as little as possible.
        least, most : ndarray, shape (directions,)

        Returns
        -------
        ndarray, shape (directions,)
        """
        start = np.clip(diagonal, least, most)
        slope = (self.products[matrix] - self.sums @ start) @ (self.sums / self.weight)
        change = _least_in_box(self.gram, slope, (least - start) * self.weight, (most - start) * self.weight)
        return np.asarray(np.clip(start + change / self.weight, least, most))


class VectorDiagonals(NamedTuple):
    """Directions in which some vectors lie.

    Attributes
    ----------
    nodes : ndarray, shape (directions,)
        Eigenvalues of A.
    overlap : ndarray, shape (directions, vectors + others)
        Components of the vectors, which keep their lengths and products, and of the other vectors.
    diagonals : ndarray, shape (matrices, directions)
        Of the matrices X, without bounds.
    """

    nodes: Array
    overlap: Array
    diagonals: Array


def vector_diagonals(
    points: Complex,
    resolvent: Complex,
    slope: Complex,
    mean: Array,
    importance: Array,
    tolerance: float,
    products: VectorProducts,
    others: Others | None = None,
) -> Computation[VectorDiagonals]:
    """Return the directions of one vector or of two orthonormal ones.

    Docs, "Correlated inputs", equation (C7h).

    Parameters
    ----------
    points, resolvent, slope, mean, importance, tolerance
        As in `gradstep.theory.neurons.rational_rule.sparse_rule`.
    products : VectorProducts
        At the first of the points.
    others : Others, optional
        As in `gradstep.theory.neurons.rational_rule.sparse_rule`.

    Returns
    -------
    VectorDiagonals

    Raises
    ------
    NotConverged
        If a rule is not found.
    """
    count, known = len(mean), slice(len(products.points))
    alike, change = (np.trace(of, axis1=1, axis2=2) / count for of in (resolvent, slope))
    own = alike[:, None, None], change[:, None, None], np.trace(mean) / count * np.ones((1, 1))
    nodes, root = yield from sparse_rule(points, *own, importance, min(_COARSER * tolerance, _COARSEST))
    # As functions of the eigenvalue: the vectors' products with each other, with each matrix between, and with others.
    means = [np.eye(count).ravel(), _symmetric(products.means).ravel()]
    at_points = [_last(resolvent[known]), *map(_last, _symmetric(products.resolved))]
    if others is not None:
        means.append(others.plain.ravel())
        at_points.append(_last(others.resolved[known]))
    functions = nearest_diagonals(
        products.points, alike[known], change[known], np.concatenate(means), np.concatenate(at_points)
    )
    matrices, more = np.split(functions.at(nodes).T, [count**2 * (1 + len(products.means))], axis=1)
    metric, *forms = matrices.reshape(len(nodes), -1, count, count).swapaxes(0, 1)
    part, basis = np.linalg.eigh(_symmetric(metric))
    part = np.sqrt(np.maximum(part, _LEAST_PART * part[:, -1:]))
    half, inverse = ((basis * each[:, None]) @ basis.mT for each in (part, 1 / part))
    among = np.stack([inverse @ form @ inverse for form in forms])
    turn = _joint_basis(among, products.contrast)
    diagonals = np.einsum("nki,mnkl,nli->mni", turn, among, turn).reshape(len(among), -1)
    overlap = (root[:, :1, None] * (turn.mT @ half)).reshape(-1, count)
    # The functions keep the products of the vectors up to some 1e-6. From here on they are exact.
    length, axes = np.linalg.eigh(overlap.T @ overlap)
    overlap = overlap @ (axes / np.sqrt(length)) @ axes.T
    beside = root[:, :1, None] * (turn.mT @ inverse @ more.reshape(len(nodes), count, -1))
    return VectorDiagonals(
        np.repeat(nodes, count), np.concatenate([overlap, beside.reshape(len(overlap), -1)], axis=1), diagonals
    )


def _least_in_box(matrix: Array, slope: Array, low: Array, high: Array) -> Array:
    """Return the vector x between bounds, which hold zero, with the least ``x^T matrix x / 2 - slope x``.

    The matrix is positive definite. From a point between the bounds the function falls in every step, so that no set of
    held numbers comes twice (Nocedal and Wright 2006, Numerical Optimization, section 16.5).
    """
    x = np.linalg.solve(matrix, slope)
    held = (x < low) | (x > high)
    x = np.clip(x, low, high)
    for _ in range(_STEPS * len(slope)):
        aim, free = x.copy(), ~held
        aim[free] = np.linalg.solve(matrix[np.ix_(free, free)], slope[free] - matrix[np.ix_(free, held)] @ x[held])
        beyond = (aim < low) | (aim > high)
        if beyond.any():
            # Up to the first bound, which is held from then on.
            bound = np.where(aim < low, low, high)
            part = (bound[beyond] - x[beyond]) / (aim[beyond] - x[beyond])
            first = np.flatnonzero(beyond)[part.argmin()]
            x = np.clip(x + part.min() * (aim - x), low, high)
            x[first], held[first] = bound[first], True
            continue
        x, downhill = aim, slope - matrix @ aim
        inward = np.where(held & (low < high), np.where(x <= low, downhill, -downhill), 0.0)
        if inward.max() <= _HELD * np.abs(slope).max():
            break
        held[inward.argmax()] = False
    return np.asarray(x)


def _last(at_points: Complex) -> Complex:
    """Return matrices at points as rows, one for each entry."""
    return np.moveaxis(at_points, 0, -1).reshape(-1, len(at_points))


def _symmetric(matrix: Any) -> Any:
    """Return the symmetric part."""
    return (matrix + np.swapaxes(matrix, -1, -2)) / 2


def _joint_basis(matrices: Array, contrast: Array) -> Array:
    """Return orthonormal bases in which symmetric matrices are as diagonal as they can be together.

    The squares off the diagonal are as small as possible (Cardoso and Souloumiac 1996, SIAM Journal on Matrix Analysis
    and Applications 17).

    Parameters
    ----------
    matrices : ndarray, shape (matrices, sets, vectors, vectors)
        Of one vector or two.
    contrast : ndarray, shape (matrices, matrices)
        As in `VectorProducts`.

    Returns
    -------
    ndarray, shape (sets, vectors, vectors)
        The basis as columns.
    """
    if matrices.shape[-1] == 1:
        return np.ones(matrices.shape[1:])
    apart, cross = (matrices[..., 0, 0] - matrices[..., 1, 1]) / 2, matrices[..., 0, 1]
    square, mixed, last = (
        np.einsum("mn,ms,ns->s", contrast, x, y) for x, y in ((apart, apart), (apart, cross), (cross, cross))
    )
    angle = np.arctan2(2 * mixed, square - last) / 4
    cosine, sine = np.cos(angle), np.sin(angle)
    return np.stack([np.stack([cosine, -sine], axis=-1), np.stack([sine, cosine], axis=-1)], axis=-2)
