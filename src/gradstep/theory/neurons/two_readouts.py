"""Classes of directions for rows of two readouts, whose covariances have no common eigenvectors.

Rows of readout ``a`` have the covariance ``Sigma_a = s_a^2 C + 2 a s_a X + a^2 Y`` with three matrices that do not
commute and ``s_a`` near one. The equations of the fit want directions in which each readout has a variance, as if the
matrices had common eigenvectors. What the fit knows of the matrices are resolvents of their sums with positive weights,

    tr (sum_a w_a Sigma_a - z)^-1    and    x^T (sum_a w_a Sigma_a - z)^-1 y    at z < 0,

between a few vectors. So directions are sought, each with variances of its own, that reproduce these resolvents: those
of the mean over both readouts, of each readout alone, and of the sums halfway between. Where matrices do not commute,
the variances spread around the diagonals that the matrices have in an eigenbasis of the mean. This project.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradstep.errors import NotConverged
from gradstep.resolution import NOTHING
from gradstep.theory.neurons.diagonals import nearest_diagonals
from gradstep.theory.neurons.rational_rule import Others, sparse_rule
from gradstep.theory.neurons.stretched_law import StretchedLaw
from gradstep.theory.step.damped_law import DampedLaw
from gradstep.theory.together import Computation

__all__ = [
    "Directions",
    "ReadoutVariances",
    "Resolvents",
    "directions_of_vectors",
    "laws_of_sums",
    "spread_directions",
]

#: Sums of the mean and of both readouts whose resolvents are reproduced.
_SUMS = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0.5, 0.5, 0], [0.5, 0, 0.5]])
#: Parts of the way from the diagonals to a variance of zero, in logits from the first to the second number.
_NEAR, _FAR, _PARTS = -3.5, 7.0, 10
#: Weight of the squares of the unknown shares beside the relative errors of the resolvents.
_EVEN = 3e-3
#: Distance from the known diagonals up to which choices cost about as much.
_CLOSE = 0.005
#: Weight of the errors of what each eigenvalue of the mean has, which is kept.
_KEPT = 30.0
#: Least share of a direction, over that of its eigenvalue: what is below is left out.
_LEAST_SHARE = 1e-6
#: Directions of all at each eigenvalue in the end.
_GAUSS = 4
#: Costs of the stages of Newton's method for the shares, over that of the last, and its steps.
_STAGES, _STEPS = (1e4, 1e2, 1.0), 200
#: Residual that is rounding where it no longer falls.
_ROUNDING = 1e-5
#: Size of a combination of resolvents that counts, over the largest one.
_DEPENDENT = 2e-5
#: Bisections for the part of a step that is taken.
_HALVINGS = 40
#: Factor of the tolerance for the eigenvalues that vectors get, and the largest one.
_COARSER, _COARSEST = 1e2, 1e-6
#: Least square of the vectors along an axis, over the largest at the same eigenvalue: less is rounding.
_LEAST_PART = 1e-6

Array = NDArray[np.float64]
Complex = NDArray[np.complexfloating[Any, Any]]


class ReadoutVariances(NamedTuple):
    """Two readouts, and how their variances follow from the diagonals of two matrices.

    Attributes
    ----------
    readout : ndarray, shape (2,)
        Values over their root mean square.
    own : ndarray, shape (2,)
        ``s_a``.
    mean : float
        Mean of the values, over the same.
    """

    readout: Array
    own: Array
    mean: float

    def at(self, eigenvalue: Array, diagonals: Array) -> Array:
        """Return the variances of the readouts in directions, shape (2, directions).

        Parameters
        ----------
        eigenvalue : ndarray, shape (directions,)
            Mean of the variances over the readouts.
        diagonals : ndarray, shape (2, directions)
            Of C and of X.
        """
        plain, stretched = diagonals
        a, own = self.readout[:, None], self.own[:, None]
        rest = eigenvalue - plain - 2 * self.mean * stretched
        return np.asarray(own**2 * plain + 2 * own * a * stretched + a**2 * rest)

    @property
    def ends(self) -> Array:
        """Diagonals with which the first or the second readout has no variance, for an eigenvalue of one, shape (2, 2).

        The variance is then the square of a linear function of the readout.
        """
        a, own = self.readout, self.own
        return np.stack([a**2, -a * own]) / (a**2 - 2 * self.mean * a * own + own**2)

    def diagonals(self, eigenvalue: Array, place: Array) -> Array:
        """Return diagonals between both ends: at the first for a place of zero, at the second for one."""
        first, last = self.ends.T[..., None]
        return np.asarray(eigenvalue * (first + place * (last - first)))

    def place(self, eigenvalue: Array, diagonals: Array) -> Array:
        """Return the places with the same ratio of both variances, shape (directions,)."""
        first, second = np.maximum(self.at(eigenvalue, diagonals), NOTHING)
        of_first, of_second = self.at(np.ones(2), self.ends)[[0, 1], [1, 0]]
        return np.asarray(first * of_second / (first * of_second + second * of_first))


def _parts(refine: float) -> Array:
    """Return how far each choice of a place is from a known one: part of the way to either end, shape (choices,)."""
    parts = 1 / (1 + np.exp(-np.linspace(_NEAR, _FAR, round(_PARTS * refine))))
    return np.concatenate([[0.0], parts, parts])


def _choices(place: Array, refine: float) -> Array:
    """Return places from known ones to both ends, shape (directions, choices)."""
    parts = _parts(refine)
    aim = np.arange(len(parts)) > len(parts) // 2
    return np.asarray(place[:, None] + (aim - place[:, None]) * parts)


class Resolvents(NamedTuple):
    """Resolvents of sums of the covariances (`laws_of_sums`).

    Attributes
    ----------
    points : ndarray, shape (points,)
        ``z``, near the negative axis.
    transform : ndarray, shape (sums, points)
        Mean over all directions.
    between : ndarray, shape (sums, points, vectors, vectors)
        Between the vectors.
    """

    points: Complex
    transform: Complex
    between: Complex


class Directions(NamedTuple):
    """Directions in which each of two readouts has a variance.

    Attributes
    ----------
    eigenvalue : ndarray, shape (directions,)
        Of the mean of the covariances.
    weight : ndarray, shape (directions,) or (directions, vectors)
        Shares of all directions, or components of vectors.
    place : ndarray, shape (directions,)
        Where the variances are between those of the `ends`, as in `ReadoutVariances.diagonals`.
    components : ndarray, shape (directions, others)
        Of other vectors; none for shares of all directions.
    """

    eigenvalue: Array
    weight: Array
    place: Array
    components: Array


def laws_of_sums(
    law: DampedLaw | StretchedLaw, variances: ReadoutVariances
) -> list[tuple[DampedLaw | StretchedLaw, float]]:
    """Return the laws of sums of the covariances, each divided by a number, and this number.

    Parameters
    ----------
    law : DampedLaw or StretchedLaw
        The mean law over both readouts.
    variances : ReadoutVariances
    """
    a, own = variances.readout, variances.own
    # Of C, of twice X and of Y.
    parts = _SUMS @ np.concatenate([[[1.0, variances.mean, 1.0]], np.stack([own**2, own * a, a**2], axis=1)])
    root, strength = float(law.root), float(law.strength)
    found = []
    for plain, linear, square in parts.tolist():
        linear, square = linear / plain, square / plain
        changed: Any = {"linear": root * linear, "root": root * math.sqrt(square), "strength": strength * square}
        found.append((replace(law, **changed), plain))
    return found


def spread_directions(
    known: Directions, variances: ReadoutVariances, resolvents: Resolvents, refine: float
) -> Directions:
    """Return directions with which the mean resolvents of all readouts are reproduced.

    Docs, "Correlated inputs", equation (C7h).

    Parameters
    ----------
    known : Directions
        The eigenvalues of the mean, their shares, and the places of the diagonals there.
    variances : ReadoutVariances
    resolvents : Resolvents
    refine : float
        Multiplies the number of variances that a direction may have.
    """
    choices, share = _choices(known.place, refine), known.weight
    each = choices.shape[1]
    eigenvalue, place, weight = np.repeat(known.eigenvalue, each), choices.ravel(), np.repeat(share, each)
    rows, aim = [], []
    for variance, resolved in zip(_of_sums(variances, eigenvalue, place), resolvents.transform, strict=True):
        turned = weight / (variance - resolvents.points[:, None]) / np.abs(resolved)[:, None]
        rows.append(turned.real)
        aim.append((resolved / np.abs(resolved)).real)
    part = _even_shares(np.concatenate(rows), np.concatenate(aim), np.sqrt(share), _costs(share, refine))
    kept = part > _LEAST_SHARE
    found = Directions(eigenvalue[kept], (weight * part)[kept], place[kept], np.zeros((kept.sum(), 0)))
    found = _fewer(found, known.eigenvalue)
    return found._replace(weight=found.weight / found.weight.sum())


def directions_of_vectors(
    points: Complex,
    resolvent: Complex,
    slope: Complex,
    mean: Array,
    importance: Array,
    tolerance: float,
    others: Others | None,
    place: Callable[[Array, Array], Array],
    variances: ReadoutVariances,
    resolvents: Resolvents,
    refine: float,
) -> Computation[Directions]:
    """Return directions of some orthonormal vectors with which their resolvents of all readouts are reproduced.

    Docs, "Correlated inputs", equations (C7h) and (C7i).

    Parameters
    ----------
    points, resolvent, slope, mean, importance, tolerance, others
        As in `gradstep.theory.neurons.rational_rule.sparse_rule`, of the mean of the covariances.
    place : callable
        Known places at eigenvalues with weights.
    variances, resolvents, refine
        As in `spread_directions`.

    Raises
    ------
    NotConverged
        If a rule is not found.
    """
    count = len(mean)
    alike, change = (np.trace(of, axis1=1, axis2=2) / count for of in (resolvent, slope))
    own = alike[:, None, None], change[:, None, None], np.trace(mean) / count * np.ones((1, 1))
    nodes, root = yield from sparse_rule(points, *own, importance, min(_COARSER * tolerance, _COARSEST))
    eigenvalue, overlap, beside = _axes(points, alike, change, resolvent, others, nodes, root[:, 0])
    square = np.square(overlap).sum(axis=1)
    choices = _choices(place(eigenvalue, square), refine)
    each, chosen = choices.shape[1], choices.ravel()
    eigenvalue, overlap, beside = (np.repeat(of, each, axis=0) for of in (eigenvalue, overlap, beside))
    first, second = np.triu_indices(count)
    # Two different vectors stand for both their orders.
    twice = np.where(first == second, 1.0, math.sqrt(2.0))
    pairs = (overlap[:, first] * overlap[:, second] * twice).T
    rows, aim = [], []
    for variance, resolved in zip(_of_sums(variances, eigenvalue, chosen), resolvents.between, strict=True):
        size = np.sqrt(np.abs(np.diagonal(resolved, axis1=1, axis2=2)))
        scale = size[:, first] * size[:, second]
        turned = pairs / (variance - resolvents.points[:, None, None]) / scale[..., None]
        rows.append(turned.real.reshape(-1, len(variance)))
        aim.append((resolved[:, first, second] * twice / scale).real.ravel())
    share = _even_shares(np.concatenate(rows), np.concatenate(aim), np.sqrt(square), _costs(square, refine))
    kept = share > _LEAST_SHARE
    scale = np.sqrt(share[kept])[:, None]
    return Directions(eigenvalue[kept], _orthonormal(overlap[kept] * scale), chosen[kept], beside[kept] * scale)


def _axes(
    points: Complex,
    alike: Complex,
    change: Complex,
    resolvent: Complex,
    others: Others | None,
    nodes: Array,
    root: Array,
) -> tuple[Array, Array, Array]:
    """Return the axes at each eigenvalue: eigenvalues, components of the vectors and of others.

    Docs, "Correlated inputs", equation (C7i).

    Parameters
    ----------
    points, resolvent, others
        As in `directions_of_vectors`.
    alike, change : ndarray, shape (points,)
        Mean of the resolvent over the vectors, and its derivative.
    nodes, root : ndarray, shape (nodes,)
        Eigenvalues of the mean, and the roots of their shares in the mean over the vectors.
    """
    count = resolvent.shape[-1]
    # As functions of the eigenvalue: the products of the vectors with each other, and with others.
    means, at_points = [np.eye(count).ravel()], [_last(resolvent)]
    if others is not None:
        means.append(others.plain.ravel())
        at_points.append(_last(others.resolved))
    functions = nearest_diagonals(points, alike, change, np.concatenate(means), np.concatenate(at_points))
    metric, more = np.split(functions.at(nodes).T, [count**2], axis=1)
    metric = metric.reshape(-1, count, count)
    part, basis = np.linalg.eigh((metric + metric.mT) / 2)
    part = np.sqrt(np.maximum(part, _LEAST_PART * part[:, -1:]))
    half, inverse = ((basis * each[:, None]) @ basis.mT for each in (part, 1 / part))
    frame, size = _tight_frame(count), root[:, None, None]
    overlap = _orthonormal((size * (frame @ half)).reshape(-1, count))
    beside = (size * (frame @ inverse @ more.reshape(len(nodes), count, -1))).reshape(len(overlap), -1)
    return np.repeat(nodes, len(frame)), overlap, beside


def _fewer(directions: Directions, eigenvalues: Array) -> Directions:
    """Return a Gauss rule of `_GAUSS` places at each eigenvalue."""
    found = []
    for eigenvalue in eigenvalues:
        here = directions.eigenvalue == eigenvalue
        place, weight = directions.place[here], directions.weight[here]
        powers = np.sqrt(weight)[:, None] * place[:, None] ** np.arange(min(_GAUSS, len(weight)))
        basis, _ = np.linalg.qr(powers)
        nodes, turn = np.linalg.eigh(basis.T @ (place[:, None] * basis))
        found.append((np.full(len(nodes), eigenvalue), weight.sum() * np.square(turn[0]), nodes))
    eigenvalue, weight, place = (np.concatenate(each) for each in zip(*found, strict=True))
    return Directions(eigenvalue, weight, place, np.zeros((len(weight), 0)))


def _of_sums(variances: ReadoutVariances, eigenvalue: Array, place: Array) -> Array:
    """Return the variances of sums of the covariances, shape (sums, directions)."""
    each = np.maximum(variances.at(eigenvalue, variances.diagonals(eigenvalue, place)), 0.0)
    return np.asarray(_SUMS @ np.concatenate([eigenvalue[None], each]))


def _even_shares(rows: Array, aim: Array, kept: Array, cost: Array) -> Array:
    """Return the vector x without negative entries with the least sum of squares of errors, and of x with a cost.

    It is ``(A^T l)_+ / cost`` for the multiplier ``l`` of the errors, which is the minimum of a convex function of as
    many numbers as there are rows in A. The gradient of this function is linear in pieces, and Newton's method ends on
    one of them. It is led there by larger costs.

    Parameters
    ----------
    rows : ndarray, shape (resolvents, unknowns)
        Nearly dependent on each other, as resolvents at neighbouring points are.
    aim : ndarray, shape (resolvents,)
        ``rows @ x`` comes near it.
    kept : ndarray, shape (kept,)
        Square roots of what groups of as many unknowns have, each in the mean over their sum.
    cost : ndarray, shape (unknowns,)

    Returns
    -------
    ndarray, shape (unknowns,)

    Raises
    ------
    NotConverged
        If Newton's method does not end.
    """
    square, axes = np.linalg.eigh(rows @ rows.T)
    axes = axes[:, square > _DEPENDENT**2 * square[-1]].T
    groups = np.repeat(np.diag(_KEPT * kept), len(cost) // len(kept), axis=1)
    rows, aim = np.concatenate([axes @ rows, groups]), np.concatenate([axes @ aim, _KEPT * kept])
    one, size = np.eye(len(aim)), float(np.abs(aim).max())
    scaled = rows / np.sqrt(_STAGES[0] * cost)
    level = np.asarray(np.linalg.solve(scaled @ scaled.T + one, aim), dtype=np.float64)
    for stage in _STAGES:
        scaled, off, last = rows / np.sqrt(stage * cost), math.inf, math.inf
        for _ in range(_STEPS):
            pull = level @ scaled
            active = scaled[:, pull > 0]
            gradient = level - aim + active @ pull[pull > 0]
            last, off = off, float(np.abs(gradient).max()) / size
            if off <= _ROUNDING and off > last / 2:
                break
            step = np.asarray(np.linalg.solve(active @ active.T + one, gradient), dtype=np.float64)
            level = level - _lowest(level - aim, pull, step, step @ scaled) * step
        else:
            advice = "Use a smaller step, or a readout of one value."
            raise NotConverged("the variances of two readouts", off, _ROUNDING, advice)
    return np.asarray(np.maximum(level @ scaled, 0.0) / np.sqrt(_STAGES[-1] * cost))


def _costs(weight: Array, refine: float) -> Array:
    """Return the costs of all choices at eigenvalues with weights: less for those near the known diagonals."""
    return np.asarray((np.square(_EVEN * (_CLOSE + _parts(refine))) * (weight[:, None] + NOTHING)).ravel())


def _lowest(off: Array, pull: Array, step: Array, of_pull: Array) -> float:
    """Return the part of a step, at most one, at which a convex function that is quadratic in pieces is lowest."""

    def fall(part: float) -> float:
        return float(step @ (off - part * step) + of_pull @ np.maximum(pull - part * of_pull, 0.0))

    if fall(1.0) >= 0:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if fall(middle) > 0 else (low, middle)
    return (low + high) / 2


def _tight_frame(count: int) -> Array:
    """Return vectors whose projections sum to one and span all symmetric matrices, shape (frame, count).

    They are three in a plane, sixty degrees apart, and in space the six axes of an icosahedron.
    """
    if count == 1:
        return np.ones((1, 1))
    if count == 2:
        angle = np.arange(3) * math.pi / 3
        return math.sqrt(2 / 3) * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    golden = (1 + math.sqrt(5)) / 2
    half = np.array([[0, 1, golden], [0, -1, golden]])
    axes = np.concatenate([np.roll(half, turn, axis=1) for turn in range(3)])
    return math.sqrt(1 / 2) * axes / math.sqrt(1 + golden**2)


def _orthonormal(overlap: Array) -> Array:
    """Return components of vectors that keep their lengths and products, nearest to given ones."""
    length, axes = np.linalg.eigh(overlap.T @ overlap)
    return np.asarray(overlap @ (axes / np.sqrt(length)) @ axes.T)


def _last(at_points: Complex) -> Complex:
    """Return matrices at points as rows, one for each entry."""
    return np.moveaxis(at_points, 0, -1).reshape(-1, len(at_points))
