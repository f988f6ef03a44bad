"""Rows of features and targets, turned into the eigenbasis of their Gram matrix."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device
from numpy.typing import NDArray

from gradstep.host import to_host
from gradstep.threads import threads_for_factorisation

__all__ = ["Array", "Pool", "pool_of", "spread_out"]

Array = Any
"""An array of any array-API library, in double precision."""

#: Numbers in one block of rows.
_BLOCK = 2**21
_EPSILON = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Pool:
    """M rows in the eigenbasis of their Gram matrix: a ridge fit does not notice a rotation of its features."""

    #: Shape (M, r): features in that basis, of which r vary, times the root of the row's sample weight.
    features: Array
    targets: Array  #: Targets times the same root, shape (M, K).
    mass: Array  #: Sample weights, all one where none are given, shape (M,).
    eigenvalues: Array  #: Eigenvalues of the Gram matrix, all positive, shape (r,).

    @property
    def rows(self) -> int:
        """Number M of rows."""
        return int(self.features.shape[0])

    @property
    def xp(self) -> Any:
        """Namespace of the arrays' library."""
        return array_namespace(self.features)

    @property
    def total(self) -> float:
        """Sum of the sample weights."""
        return float(self.xp.sum(self.mass))

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """Places of the rows in an order that does not depend on how they were given, shape (M,).

        It is that of a number that no rotation of the features changes. Rows that agree in it to ten digits follow
        their targets.
        """
        squares = self.features**2 @ self.eigenvalues
        number = np.round(to_host(squares / self.xp.max(squares)), 10)
        return np.lexsort((*to_host(self.targets).T, number))

    def probes(self, most: int = 64) -> Array:
        """Return the places of at most `most` rows that stand for all, wherever these lie in the table."""
        return self.xp.asarray(spread_out(self.order, most), device=device(self.features))

    @cached_property
    def unit(self) -> Array:
        """Features over the roots of their eigenvalues, whose columns have length one; single precision, (M, r)."""
        scale = self.xp.sqrt(self.eigenvalues)
        xp, features = self.xp, self.features
        found = xp.empty(features.shape, dtype=xp.float32, device=device(features))
        for part in self.blocks():
            found[part, :] = xp.astype(features[part, :] / scale, xp.float32)
        return found

    @cached_property
    def shares(self) -> Array:
        """Squares of `unit`: the shares of the rows in each eigenvalue, single precision (M, r)."""
        return self.unit**2

    def blocks(self) -> Iterator[slice]:
        """Yield slices of rows whose features are few enough to be copied."""
        return _slices(self.rows, int(self.features.shape[1]))


def spread_out(places: NDArray[np.intp], most: int) -> NDArray[np.intp]:
    """Return at most `most` of some places, at equal distances."""
    return places[:: max(-(-len(places) // most), 1)].copy()


def pool_of(features: Array, targets: Array, sample_weight: Array | None = None) -> Pool:
    """Return rows as a pool, from one eigendecomposition of the smaller Gram matrix.

    Features (M, N), targets (M, K) and weights (M,) are arrays of one library and device, in double precision. The pool
    is without the directions in which no row has a component, up to rounding.
    """
    xp = array_namespace(features)
    rows, width = features.shape
    mass = xp.ones_like(targets[:, 0]) if sample_weight is None else sample_weight
    root = xp.sqrt(mass)[:, None]
    if sample_weight is not None:
        features, targets = features * root, targets * root
    gram = features @ features.T if rows < width else _summed(features)
    with threads_for_factorisation(min(rows, width)):
        values, vectors = xp.linalg.eigh(gram)
    varying = values > _EPSILON * max(rows, width) * xp.max(values)
    places = xp.nonzero(varying)[0]
    values, vectors = xp.take(values, places, axis=0), xp.take(vectors, places, axis=1)
    if rows < width:
        turned = vectors * xp.sqrt(values)[None, :]
    else:
        turned = xp.empty((rows, values.shape[0]), dtype=features.dtype, device=device(features))
        for part in _slices(rows, width):
            turned[part, :] = features[part, :] @ vectors
    return Pool(turned, targets, mass, values)


def _summed(features: Array) -> Array:
    """Return the Gram matrix (N, N), block by block: a product of a block with itself is half the work of another."""
    return sum(features[part, :].T @ features[part, :] for part in _slices(*features.shape))


def _slices(rows: int, width: int) -> Iterator[slice]:
    size = max(_BLOCK // max(width, 1), 1)
    for start in range(0, rows, size):
        yield slice(start, min(start + size, rows))
