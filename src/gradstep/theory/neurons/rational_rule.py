"""Gauss rules for rational functions, from a law's Stieltjes transform: few nodes where a density would need many.

A law is that of a symmetric matrix ``A`` between a few orthonormal vectors, known through its resolvent at points off
the real axis. A rule consists of the Rayleigh-Ritz values and vectors of ``A`` on the span of these vectors and of the
resolvent at some of the points times them: rational Krylov spaces, whose poles are chosen where the rule is worst
(Druskin and Simoncini 2011, Systems & Control Letters 60, for the choice; the span is known exactly here).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradstep.errors import NotConverged
from gradstep.theory.together import Computation, asked

__all__ = ["FAINT", "LawAtPoints", "Others", "function_products", "rational_rule", "sparse_rule", "sparse_rules"]

#: Nodes of a rule, as a rule.
_NODES = 16
#: Directions of the span that are fainter than this are rounding.
FAINT = 1e-11
#: A rule with an error above the second number is found again, without all directions that are fainter than the first:
#: dividing by what is faint has made its rounding so large.
_SAFER_FAINT, _UNSAFE = 1e-9, 1e-4
#: Errors of a resolvent are measured by its imaginary part, or by this part of its size where that is larger. Far below
#: a law the imaginary part may be 1e-9 of the size, and has lost most of its digits to rounding.
_SEEN = 1e-6
#: Largest error that rounding may leave.
_LOST = 1e-2

Array = NDArray[np.float64]
Complex = NDArray[np.complexfloating[Any, Any]]


class LawAtPoints(NamedTuple):
    """The spectral law of a matrix ``A`` between some vectors, known at points: what a rule is made from."""

    points: Complex  #: In the upper half-plane. Those whose importance is not zero are all different. Shape (points,).
    #: The resolvent ``(A - z)^-1`` between the vectors, and its derivative in ``z``. Shape (points, vectors, vectors).
    transform: Complex
    slope: Complex
    mean: Array  #: ``A`` between the vectors, shape (vectors, vectors).
    importance: Array  #: Factors of the errors, shape (points,).
    #: Largest error of the resolvent, times the importance. An error is measured by the imaginary part, or by `_SEEN`
    #: times the size where that is larger.
    tolerance: float
    #: Directions of the span of a rule's vectors that are fainter are left out. They hold little but rounding, which
    #: moves nodes by up to the rounding of the law over this number.
    faint: float = FAINT


class Others(NamedTuple):
    """Products of the vectors of a law with other vectors."""

    plain: Array  #: Shape (vectors, others).
    resolved: Complex  #: With the resolvent at the points between, shape (points, vectors, others).


def function_products(points: Complex, transform: Complex, slope: Complex) -> Array:
    """Return the products of the functions ``1, Re 1/(l - z_i), Im 1/(l - z_i)`` with each other in the mean over laws.

    The points ``z_i`` have shape (laws, points), and the transforms and slopes, as in `rational_rule`, have shape
    (laws, points, vectors, vectors). The products have shape (laws, 1 + 2 points, 1 + 2 points, vectors, vectors):
    first the function 1, then the real parts and the imaginary parts.
    """
    laws, count, size = *points.shape, transform.shape[-1]
    apart = points[:, None, :] - points[:, :, None] + np.eye(count)
    plain = (transform[:, None] - transform[:, :, None]) / apart[..., None, None]
    plain[:, np.arange(count), np.arange(count)] = slope
    across = points[:, None, :] - points.conj()[:, :, None]
    crossed = (transform[:, None] - transform.conj()[:, :, None]) / across[..., None, None]
    real, imaginary = slice(1, count + 1), slice(count + 1, None)
    gram = np.empty((laws, 2 * count + 1, 2 * count + 1, size, size))
    gram[:, 0, 0] = np.eye(size)
    gram[:, 0, real], gram[:, 0, imaginary] = transform.real, transform.imag
    gram[:, real, 0], gram[:, imaginary, 0] = transform.real, transform.imag
    gram[:, real, real] = (plain + crossed).real / 2
    gram[:, imaginary, imaginary] = (crossed - plain).real / 2
    gram[:, real, imaginary] = (plain + crossed).imag / 2
    gram[:, imaginary, real] = (plain - crossed).imag / 2
    return gram


def _products(poles: Complex, transform: Complex, slope: Complex, mean: Array) -> tuple[Array, Array]:
    """Return the products of the functions times the vectors, with nothing and with ``l`` between.

    All arguments are as in `rational_rule`, each with a leading axis for the laws. Both results have shape
    (laws, functions, functions). The vectors themselves come first, then the real and the imaginary parts.
    """
    laws, count, size = *poles.shape, mean.shape[-1]
    gram = function_products(poles, transform, slope)
    real, imaginary = slice(1, count + 1), slice(count + 1, None)
    # l / (l - z) = 1 + z / (l - z).
    x, y = poles.real[:, None, :, None, None], poles.imag[:, None, :, None, None]
    times = np.empty_like(gram)
    times[:, :, real] = gram[:, :, :1] + x * gram[:, :, real] - y * gram[:, :, imaginary]
    times[:, :, imaginary] = y * gram[:, :, real] + x * gram[:, :, imaginary]
    times[:, 0, 0], times[:, 1:, 0] = mean, times[:, 0, 1:]
    metric, operator = (np.swapaxes(m, 2, 3).reshape(laws, (2 * count + 1) * size, -1) for m in (gram, times))
    return metric, operator


def _rules(
    poles: Complex, transform: Complex, slope: Complex, mean: Array, crossed: Array, faint: Array
) -> Iterator[tuple[NDArray[np.intp], Array, Array]]:
    """Yield the rules of all functions that the poles have: those of laws with as many nodes together.

    The products of other vectors with the functions are `crossed`, shape (laws, functions, others). Directions of the
    span that are fainter than `faint`, shape (laws,), are left out; the rest is as in `_products`.

    Each time it yields which laws these are, shape (alike,), their nodes, shape (alike, nodes), and the overlaps, as in
    `rational_rule` and after these the components of other vectors, shape (alike, nodes, vectors + others).
    """
    metric, operator = _products(poles, transform, slope, mean)
    size, real = mean.shape[-1], (poles.shape[1] + 1) * mean.shape[-1]
    # A pole so near the real axis that its imaginary part is rounding has a real part only.
    square = np.diagonal(metric, axis1=1, axis2=2)
    kept = square > faint[:, None] * np.concatenate([square[:, :real], square[:, size:real]], axis=1)
    scale = np.where(kept, 1 / np.sqrt(np.where(kept, square, 1.0)), 0.0)[..., None]
    metric, operator, crossed = metric * scale * scale.mT, operator * scale * scale.mT, scale * crossed
    spread, vectors = np.linalg.eigh(metric)
    rank = (spread > faint[:, None] * spread[:, -1:]).sum(axis=1)
    for count in np.unique(rank):
        laws = np.flatnonzero(rank == count)
        basis = vectors[laws, :, -count:] / np.sqrt(spread[laws, None, -count:])
        inner = basis.mT @ operator[laws] @ basis
        nodes, rotation = np.linalg.eigh((inner + inner.mT) / 2)
        basis = (basis @ rotation).mT
        overlap = basis @ metric[laws, :, :size]
        overlap /= np.sqrt((overlap**2).sum(axis=1, keepdims=True))
        yield laws, nodes, np.concatenate([overlap, basis @ crossed[laws]], axis=2)


def rational_rule(poles: Complex, transform: Complex, slope: Complex, mean: Array) -> tuple[Array, Array]:
    """Return the Gauss rule of a matrix-valued law for rational functions with given poles.

    The rule is exact for products of two of ``1, 1/(l - z_i), 1/(l - conj z_i)``, and for ``l`` times them.

    The poles ``z_i``, shape (poles,), are in the upper half-plane, all different. `transform`, shape
    (poles, vectors, vectors), is the resolvent ``(A - z_i)^-1`` between the vectors, `slope` its derivative in ``z``,
    and `mean`, shape (vectors, vectors), is ``A`` between them.

    The nodes, shape (nodes,), come with overlaps, shape (nodes, vectors). These are the components of the vectors, each
    of length one: ``sum_j f(l_j) overlap_ja overlap_jb`` integrates ``f`` against the law.
    """
    nothing, least = np.zeros((1, (2 * len(poles) + 1) * len(mean), 0)), np.array([FAINT])
    ((_, (nodes,), (overlap,)),) = _rules(poles[None], transform[None], slope[None], mean[None], nothing, least)
    return nodes, overlap


def sparse_rules(
    points: Complex,
    transform: Complex,
    slope: Complex,
    mean: Array,
    importance: Array,
    tolerance: Array,
    faint: Array,
    plain: Array,
    resolved: Complex,
) -> list[tuple[Array, Array]]:
    """Return, for each of some laws, the rule of the fewest poles that knows the resolvent at all points.

    The first seven arguments are as in `LawAtPoints`, with a leading axis for the laws. `plain` and `resolved`, shapes
    (laws, vectors, others) and (laws, points, vectors, others), are those of other vectors, as in `Others`; a rule has
    of these what lies in its span. Poles are added where a rule is worst.

    Nodes and overlaps are as in `rational_rule`; after the vectors the overlaps have a column for each of the others.
    Raises `NotConverged` if rounding leaves an error above a per cent.
    """
    laws = _Laws(points, transform, slope, mean, importance, tolerance, faint, plain, resolved)
    found = _best_rules(laws)
    unsafe = [law for law, (error, *_) in enumerate(found) if error > _UNSAFE]
    if unsafe:
        some = _Laws._make(each[unsafe] for each in laws)
        safer = _best_rules(some._replace(faint=np.full(len(unsafe), _SAFER_FAINT)))
        for law, rule in zip(unsafe, safer, strict=True):
            found[law] = min(found[law], rule, key=lambda each: each[0])
    largest = max(error for error, *_ in found)
    if not largest <= _LOST:
        advice = "Take more samples in the step. Eigenvalues of the inputs that are almost zero may be made zero."
        raise NotConverged("the rule for the law of the step's samples", largest, _LOST, advice)
    return [(nodes, overlap) for _, nodes, overlap in found]


class _Laws(NamedTuple):
    """The arguments of `sparse_rules`."""

    points: Complex
    transform: Complex
    slope: Complex
    mean: Array
    importance: Array
    tolerance: Array
    faint: Array
    plain: Array
    resolved: Complex


def _best_rules(laws: _Laws) -> list[tuple[float, Array, Array]]:
    """Return the rules of `sparse_rules` with their errors."""
    points, transform, slope, mean, importance, tolerance, faint, plain, resolved = laws
    count, size = len(mean), mean.shape[-1]
    along = np.diagonal(transform, axis1=2, axis2=3)
    along = np.maximum(along.imag, _SEEN * np.abs(along))
    weight = importance[..., None, None] / np.sqrt(along[..., :, None] * along[..., None, :])
    found = [(math.inf, np.empty(0), np.empty(0))] * count
    left, poles = np.arange(count), np.empty((count, 0), dtype=np.intp)
    while len(left):
        at, turned = (left[:, None], poles), resolved[left[:, None], poles]
        crossed = np.concatenate([plain[left, None], turned.real, turned.imag], axis=1)
        crossed = crossed.reshape(len(left), crossed.shape[1] * size, -1 if crossed.size else 0)
        errors = np.empty((len(left), points.shape[1]))
        for alike, nodes, overlap in _rules(points[at], transform[at], slope[at], mean[left], crossed, faint[left]):
            own, these = overlap[..., :size], left[alike]
            products = (own[..., :, None] * own[..., None, :]).reshape(*nodes.shape, -1)
            known = (1 / (nodes[:, None] - points[these, :, None])) @ products
            off = np.abs(known.reshape(transform[these].shape) - transform[these]) * weight[these]
            errors[alike] = off.max(axis=(2, 3))
            for law, *rule in zip(these, errors[alike].max(axis=1).tolist(), nodes, overlap, strict=True):
                if rule[0] < found[law][0]:
                    found[law] = tuple(rule)
        worst, known = errors.argmax(axis=1), errors.max(axis=1) <= tolerance[left]
        # A pole that is there already has nothing to add: what is left is rounding. Only if that is far too much, the
        # others are tried too.
        again = (poles == worst[:, None]).any(axis=1)
        np.put_along_axis(errors, poles, 0.0, axis=1)
        bad = again & np.array([found[law][0] > _UNSAFE for law in left]) & errors.any(axis=1)
        worst[bad] = errors[bad].argmax(axis=1)
        more = ~known & (~again | bad)
        left, poles = left[more], np.column_stack([poles, worst])[more]
    return found


def sparse_rule(law: LawAtPoints, others: Others | None = None) -> Computation[tuple[Array, Array]]:
    """Return the rule of one law, as `sparse_rules` does, computed together with the rules of other laws."""
    if others is None:
        others = Others(np.empty((len(law.mean), 0)), np.empty((*law.transform.shape[:2], 0), dtype=complex))
    *arrays, tolerance, faint = law
    numbers = np.array(tolerance), np.array(faint)
    return (yield from asked(sparse_rules, *arrays, *numbers, *others, work=_NODES * len(law.points)))
