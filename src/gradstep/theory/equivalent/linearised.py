"""The leverage equations near a point: a matrix or, where nodes are many, fewer equations between pairs of slopes."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradstep.theory.equivalent.stacks import identity, solved, solved_definite

__all__ = ["Linearised", "LinearisedByPairs", "SymmetricPairs"]

#: Unknowns from which OpenBLAS takes threads.
_THREADED = 100

_Array = NDArray[Any]


class Linearised(NamedTuple):
    """The equations near a point: how the logarithms of ``V`` and ``R`` respond.

    Minus the derivative of the gap is ``diag(into)^-1 matrix diag(out)^-1``: an M-matrix, the identity less a matrix
    without negative entries whose rows sum to less than one. Samples and neurons respond to each other alike, so that
    in its own units `matrix` is symmetric, and positive definite.
    """

    matrix: _Array  #: Shape (batch, nodes + groups, nodes + groups).
    #: Shape (batch, nodes + groups).
    into: _Array
    out: _Array

    def take(self, index: NDArray[np.bool_]) -> Linearised:
        """Return the equations of some members of the batch."""
        return Linearised(*(values[index] for values in self))

    @property
    def diagonal(self) -> _Array:
        """Diagonal of the matrix, shape (batch, nodes + groups)."""
        return np.asarray(np.diagonal(self.matrix, axis1=1, axis2=2))

    def times(self, vectors: _Array) -> _Array:
        """Return the matrix times vectors, shape (batch, nodes + groups)."""
        return np.asarray(np.matvec(self.matrix, vectors))

    def times_groups(self, values: _Array) -> _Array:
        """Return the matrix times vectors that are zero but for values of the groups, shape (batch, groups)."""
        return np.asarray(np.vecmat(values, self.matrix[:, -values.shape[1] :]))

    def response(self, sources: _Array, nodes: int) -> _Array:
        """Return the vectors for which `times` has the sources, shape (batch, nodes + groups)."""
        matrix, right = self.matrix, sources[..., None]
        if matrix.shape[1] < _THREADED:
            return solved_definite(matrix, right)[..., 0]
        # BLAS gives the factors of a larger matrix to several threads, whose hand-over takes longer than the work: the
        # groups are eliminated first.
        whole = np.concatenate([matrix[:, :, :nodes], right], axis=2)
        eliminated = solved_definite(matrix[:, nodes:, nodes:], whole[:, nodes:])
        reduced = whole[:, :nodes] - matrix[:, :nodes, nodes:] @ eliminated
        of_nodes = solved_definite(reduced[..., :-1], reduced[..., -1:])
        of_groups = eliminated[..., -1:] - eliminated[..., :-1] @ of_nodes
        return np.concatenate([of_nodes, of_groups], axis=1)[..., 0]


class LinearisedByPairs(NamedTuple):
    """The equations near a point where there are fewer pairs of slopes than nodes.

    The leverages at two nodes raise each other by a form in the products of two slopes: the matrix of `Linearised` is a
    diagonal one less one of low rank. With as many unknowns as pairs and groups the nodes are eliminated (Woodbury's
    formula).
    """

    known: _Array  #: Products of two slopes, shape (batch, pairs, nodes).
    #: The squares of the forms in two slopes, as forms in these products, averaged over the classes.
    #: Shape (batch, pairs, pairs).
    square: _Array
    source: _Array  #: How much a node raises a group, and the group the node. Shape (batch, groups, nodes).
    between: _Array  #: How much two groups raise each other, shape (batch, groups, groups).
    #: Shape (batch, nodes + groups).
    into: _Array
    out: _Array

    def take(self, index: NDArray[np.bool_]) -> LinearisedByPairs:
        """Return the equations of some members of the batch."""
        return LinearisedByPairs(*(values[index] for values in self))

    @property
    def diagonal(self) -> _Array:
        """Diagonal of the matrix, shape (batch, nodes + groups)."""
        of_nodes = np.vecdot(self.known.mT, (self.square @ self.known).mT)
        of_groups = np.diagonal(self.between, axis1=1, axis2=2)
        return np.asarray(self.into * self.out - np.concatenate([of_nodes, of_groups], axis=1))

    def couplings_times(self, vectors: _Array) -> _Array:
        """Return the couplings, which `Linearised` subtracts from a diagonal, times vectors (batch, nodes + groups)."""
        nodes = self.known.shape[2]
        of_nodes, of_groups = vectors[:, :nodes], vectors[:, nodes:]
        through = np.matvec(self.square, np.matvec(self.known, of_nodes))
        on_nodes = np.vecmat(through, self.known) + np.vecmat(of_groups, self.source)
        on_groups = np.matvec(self.source, of_nodes) + np.matvec(self.between, of_groups)
        return np.concatenate([on_nodes, on_groups], axis=1)

    def times(self, vectors: _Array) -> _Array:
        """Return the matrix times vectors, shape (batch, nodes + groups)."""
        return np.asarray(self.into * self.out * vectors - self.couplings_times(vectors))

    def times_groups(self, values: _Array) -> _Array:
        """Return the matrix times vectors that are zero but for values of the groups, shape (batch, groups)."""
        return self.times(np.concatenate([np.zeros((len(values), self.known.shape[2])), values], axis=1))

    def response(self, sources: _Array, nodes: int) -> _Array:
        """Return the vectors for which `times` has the sources, shape (batch, nodes + groups), or nan."""
        pairs = self.known.shape[1]
        # In these units the diagonal matrix is one, and so are the diagonals of the squares.
        unit = 1 / np.sqrt(self.into * self.out)
        size = np.sqrt(np.diagonal(self.square, axis1=1, axis2=2))
        size = np.where(size > 0, size, 1.0)[..., None]
        rows = np.concatenate([size * self.known, unit[:, nodes:, None] * self.source], axis=1) * unit[:, None, :nodes]
        scaled = unit * sources
        core = np.zeros((len(rows), rows.shape[1], rows.shape[1]))
        core[:, :pairs, :pairs] = self.square / size / size.mT
        core[:, pairs:, pairs:] = identity(rows.shape[1] - pairs)
        matrix = identity(rows.shape[1]) - (rows @ rows.mT) @ core
        matrix[:, pairs:, pairs:] -= unit[:, nodes:, None] * self.between * unit[:, None, nodes:]
        right = np.matvec(rows, scaled[:, :nodes])
        right[:, pairs:] += scaled[:, nodes:]
        try:
            found = solved(matrix, right[..., None])[..., 0]
        except np.linalg.LinAlgError:
            return np.full_like(sources, np.nan)
        of_nodes = scaled[:, :nodes] + np.vecmat(np.matvec(core, found), rows)
        return np.asarray(unit * np.concatenate([of_nodes, found[:, pairs:]], axis=1))


class SymmetricPairs(NamedTuple):
    """Products of two components of a vector, in terms of which the squares of bilinear forms are bilinear forms.

    With `of`, ``(u @ matrix @ v)^2`` is ``of(u) @ square(matrix) @ of(v)``.
    """

    #: The components of each pair, shape (pairs,).
    first: NDArray[np.intp]
    second: NDArray[np.intp]
    #: The factor of a product: the root of two where its components differ, as it stands for both orders.
    #: Shape (pairs,).
    double: _Array
    place: NDArray[np.intp]  #: Number of the pair of two components, shape (components, components).

    @staticmethod
    def number(count: int) -> int:
        """Return how many products a number of components has."""
        return count * (count + 1) // 2

    @classmethod
    def among(cls, count: int) -> SymmetricPairs:
        """Return the pairs of a number of components."""
        first, second = np.triu_indices(count)
        place = np.empty((count, count), dtype=np.intp)
        place[first, second] = place[second, first] = np.arange(len(first))
        return cls(first, second, np.where(first == second, 1.0, math.sqrt(2.0)), place)

    def of(self, vectors: _Array) -> _Array:
        """Return the products for vectors of shape (..., components, columns)."""
        *batch, count, columns = vectors.shape
        found = np.empty((*batch, len(self.first), columns), dtype=vectors.dtype)
        start = 0
        for place in range(count):
            stop = start + count - place
            np.multiply(vectors[..., place : place + 1, :], vectors[..., place:, :], out=found[..., start:stop, :])
            start = stop
        found *= self.double[:, None]
        return found

    def of_symmetric(self, matrices: NDArray[Any]) -> NDArray[Any]:
        """Return what `of` has for products of vectors, and sums of these, given as matrices; shape (..., pairs)."""
        return np.asarray(matrices[..., self.first, self.second] * self.double)

    def square(self, matrices: _Array) -> _Array:
        """Return the matrices of the squares, for matrices of shape (..., components, components)."""
        first, second = self.first[:, None], self.second[:, None]
        both = matrices[..., first, self.first] * matrices[..., second, self.second]
        both += matrices[..., first, self.second] * matrices[..., second, self.first]
        return np.asarray(both / 2 * self.double[:, None] * self.double)

    def mean_square(self, forms: NDArray[Any], share: _Array) -> NDArray[Any]:
        """Return the mean of what `square` returns over symmetric matrices, in one product of all of them.

        Of the matrices, shape (..., members, components, components), only the entries on and above the diagonal are
        read. The weights of the mean are `share`, shape (..., members).
        """
        first, second, place = self.first, self.second, self.place
        flat = forms[..., first, second]
        products = (flat.mT * share[..., None, :]) @ flat
        both = products[..., place[first[:, None], first], place[second[:, None], second]]
        both += products[..., place[first[:, None], second], place[second[:, None], first]]
        return np.asarray(both * (self.double[:, None] * self.double / 2))
