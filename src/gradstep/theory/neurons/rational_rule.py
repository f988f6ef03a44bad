"""Gauss rules for rational functions, from a law's Stieltjes transform: few nodes where a density would need many.

A law is that of a symmetric matrix ``A`` between a few orthonormal vectors, known through its resolvent at points off
the real axis. A rule consists of the Rayleigh-Ritz values and vectors of ``A`` on the span of these vectors and of the
resolvent at some of the points times them: rational Krylov spaces, whose poles are chosen where the rule is worst
(Druskin and Simoncini 2011, Systems & Control Letters 60, for the choice; the span is known exactly here).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradstep.errors import NotConverged

__all__ = ["Others", "rational_rule", "sparse_rule"]

#: Directions of the span that are fainter than this are rounding.
_RANK = 1e-11
#: Largest error that rounding may leave.
_LOST = 1e-2

Array = NDArray[np.float64]
Complex = NDArray[np.complexfloating[Any, Any]]


class Others(NamedTuple):
    """Products of the vectors of a law with other vectors.

    Attributes
    ----------
    plain : ndarray, shape (vectors, others)
    resolved : ndarray, shape (points, vectors, others)
        With the resolvent at the points between.
    """

    plain: Array
    resolved: Complex


class _Span(NamedTuple):
    """The functions ``1, Re 1/(l - z_i), Im 1/(l - z_i)`` times the vectors, each over its norm.

    Attributes
    ----------
    metric, operator : ndarray, shape (functions, functions)
        The matrices of their products, with nothing and with ``l`` between. The vectors themselves come first, then
        the real and the imaginary parts.
    crossed : ndarray, shape (functions, others)
        Their products with other vectors.
    kept : ndarray, shape (2 poles + 1, vectors)
        Which of the functions are more than rounding.
    """

    metric: Array
    operator: Array
    crossed: Array
    kept: NDArray[np.bool_]

    def of(self, poles: Sequence[int]) -> tuple[Array, Array, Array]:
        """Return the three matrices of the functions that some of the poles have."""
        blocks, size = self.kept.shape
        rows = np.array([0, *(1 + pole for pole in poles), *(1 + blocks // 2 + pole for pole in poles)])
        chosen = (rows[:, None] * size + np.arange(size))[self.kept[rows]]
        return self.metric[chosen[:, None], chosen], self.operator[chosen[:, None], chosen], self.crossed[chosen]


def _span(poles: Complex, transform: Complex, slope: Complex, mean: Array, others: Array) -> _Span:
    """Return the span; `others` are the products of other vectors with it, shape (2 poles + 1, vectors, others)."""
    count, size = len(poles), len(mean)
    apart = poles[None, :] - poles[:, None] + np.eye(count)
    plain = (transform[None, :] - transform[:, None]) / apart[..., None, None]
    plain[np.arange(count), np.arange(count)] = slope
    across = poles[None, :] - poles.conj()[:, None]
    crossed = (transform[None, :] - transform.conj()[:, None]) / across[..., None, None]
    # Functions in the order 1, real parts, imaginary parts.
    real, imaginary = slice(1, count + 1), slice(count + 1, None)
    gram = np.empty((2 * count + 1, 2 * count + 1, size, size))
    gram[0, 0] = np.eye(size)
    gram[0, real], gram[0, imaginary] = transform.real, transform.imag
    gram[real, 0], gram[imaginary, 0] = transform.real, transform.imag
    gram[real, real] = (plain + crossed).real / 2
    gram[imaginary, imaginary] = (crossed - plain).real / 2
    gram[real, imaginary] = (plain + crossed).imag / 2
    gram[imaginary, real] = (plain - crossed).imag / 2
    # l / (l - z) = 1 + z / (l - z).
    x, y = poles.real[:, None, None], poles.imag[:, None, None]
    times = np.empty_like(gram)
    times[:, real] = gram[:, :1] + x * gram[:, real] - y * gram[:, imaginary]
    times[:, imaginary] = y * gram[:, real] + x * gram[:, imaginary]
    times[0, 0], times[1:, 0] = mean, times[0, 1:]
    metric, operator = (np.swapaxes(m, 1, 2).reshape(len(m) * size, -1) for m in (gram, times))
    # A pole so near the real axis that its imaginary part is rounding has a real part only.
    square = np.diagonal(metric)
    kept = square > _RANK * np.concatenate([square[: (count + 1) * size], square[size : (count + 1) * size]])
    scale = 1 / np.sqrt(np.where(kept, square, 1.0))[:, None]
    units = scale * scale.T
    return _Span(metric * units, operator * units, scale * others.reshape(len(kept), -1), kept.reshape(-1, size))


def _ritz(metric: Array, operator: Array, crossed: Array, size: int) -> tuple[Array, Array]:
    """Return the nodes and overlaps of the rule of a span, and after these the components of other vectors.

    Parameters
    ----------
    metric, operator, crossed : ndarray
        Of some functions of a `_Span`, the vectors first.
    size : int
        Number of the vectors.
    """
    spread, vectors = np.linalg.eigh(metric)
    kept = spread > _RANK * spread[-1]
    basis = vectors[:, kept] / np.sqrt(spread[kept])
    inner = basis.T @ operator @ basis
    nodes, rotation = np.linalg.eigh((inner + inner.T) / 2)
    basis = (basis @ rotation).T
    overlap = basis @ metric[:, :size]
    return nodes, np.concatenate([overlap / np.sqrt((overlap**2).sum(axis=0)), basis @ crossed], axis=1)


def rational_rule(poles: Complex, transform: Complex, slope: Complex, mean: Array) -> tuple[Array, Array]:
    """Return the Gauss rule of a matrix-valued law for rational functions with given poles.

    The rule is exact for products of two of ``1, 1/(l - z_i), 1/(l - conj z_i)``, and for ``l`` times them.

    Parameters
    ----------
    poles : ndarray, shape (poles,)
        ``z_i`` in the upper half-plane, all different.
    transform, slope : ndarray, shape (poles, vectors, vectors)
        The resolvent ``(A - z_i)^-1`` between the vectors, and its derivative in ``z``.
    mean : ndarray, shape (vectors, vectors)
        ``A`` between the vectors.

    Returns
    -------
    nodes : ndarray, shape (nodes,)
    overlap : ndarray, shape (nodes, vectors)
        Components of the vectors, each of length one; ``sum_j f(l_j) overlap_ja overlap_jb`` integrates ``f`` against
        the law.
    """
    nothing = np.zeros((2 * len(poles) + 1, len(mean), 0))
    return _ritz(*_span(poles, transform, slope, mean, nothing).of(range(len(poles))), len(mean))


def sparse_rule(
    points: Complex,
    transform: Complex,
    slope: Complex,
    mean: Array,
    importance: Array,
    tolerance: float,
    others: Others | None = None,
) -> tuple[Array, Array]:
    """Return the rule of the fewest poles that knows the resolvent at all points.

    Parameters
    ----------
    points : ndarray, shape (points,)
        In the upper half-plane, all different. Poles are added where the rule is worst.
    transform, slope, mean
        As in `rational_rule`, at the points.
    importance : ndarray, shape (points,)
        Factors of the errors.
    tolerance : float
        Largest error of the resolvent, over its imaginary part, times the importance.
    others : Others, optional
        Other vectors, of which the rule has what lies in its span.

    Returns
    -------
    nodes, overlap : ndarray
        As in `rational_rule`; after the vectors the overlaps have a column for each of the others.

    Raises
    ------
    NotConverged
        If rounding leaves an error above a per cent.
    """
    along = np.diagonal(transform.imag, axis1=1, axis2=2)
    weight = importance[:, None, None] / np.sqrt(along[:, :, None] * along[:, None, :])
    poles, size = list[int](), len(mean)
    crossed = np.zeros((2 * len(points) + 1, size, 0))
    if others is not None:
        crossed = np.concatenate([others.plain[None], others.resolved.real, others.resolved.imag])
    span = _span(points, transform, slope, mean, crossed)
    found: list[tuple[float, Array, Array]] = []
    while True:
        nodes, overlap = _ritz(*span.of(poles), size)
        own = overlap[:, :size]
        products = (own[:, :, None] * own[:, None, :]).reshape(len(nodes), -1)
        known = (1 / (nodes - points[:, None])) @ products
        errors = (np.abs(known.reshape(transform.shape) - transform) * weight).max(axis=(1, 2))
        found.append((float(errors.max()), nodes, overlap))
        worst = int(errors.argmax())
        # A pole that is there already has nothing to add: what is left is rounding.
        if found[-1][0] <= tolerance or worst in poles:
            break
        poles.append(worst)
    error, nodes, overlap = min(found, key=lambda rule: rule[0])
    if not error <= _LOST:
        raise NotConverged("the rule for the law of the step's samples", error, _LOST, "Take more samples in the step.")
    return nodes, overlap
