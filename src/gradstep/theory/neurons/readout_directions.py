"""Classes of directions for rows of several readouts, whose covariances have no common eigenvectors.

Rows of readout ``a`` have the covariance ``Sigma_a = s_a^2 C + 2 a s_a X + a^2 Y`` with three matrices that do not
commute and ``s_a`` near one. The equations of the fit want directions in which each readout has a variance, as if the
matrices had common eigenvectors. What the fit knows of the matrices are resolvents of their sums with positive weights,

    tr (sum_a w_a Sigma_a - z)^-1    and    x^T (sum_a w_a Sigma_a - z)^-1 y    at z < 0,

between a few vectors. So directions are sought, each with variances of its own, that reproduce these resolvents. For
two readouts they are those of the mean over both, of each readout alone, and of the sums halfway from the mean to each;
for more readouts those of the mean, and of the means over some of the readouts. Where matrices do not commute, the
variances spread around the diagonals that the matrices have in an eigenbasis of the mean. This project.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve
from scipy.special import expit, logit

from gradstep.errors import NotConverged
from gradstep.resolution import NOTHING
from gradstep.theory.neurons.diagonals import DiagonalBounds, nearest_diagonals, readout_variances
from gradstep.theory.neurons.rational_rule import LawAtPoints, Others, sparse_rule
from gradstep.theory.neurons.stretched_law import StretchedLaw
from gradstep.theory.step.damped_law import DampedLaw
from gradstep.theory.together import Computation

__all__ = [
    "ManyReadouts",
    "Readouts",
    "Resolvents",
    "TwoReadouts",
    "VectorDirections",
    "directions_of_vectors",
    "laws_of_sums",
    "misfit",
    "spread_directions",
]

#: Coefficients of the mean and of both of two readouts in the sums whose resolvents are reproduced.
_SUMS = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0.5, 0.5, 0], [0.5, 0, 0.5]])
#: The logit of the last place towards an end, the number of places on the way, and the power of their even numbering:
#: with a power above one the first places are closer to each other.
_LAST, _PLACES, _CLOSER = 7.0, 10, 1.5
#: The numbers of diagonals of C on the way to either bound, and of those of X at each, for more than two readouts. With
#: five and eight the errors of ten predictions change by 5e-5 in the median and by less than 1e-3.
_PLAIN, _STRETCHED = 3, 4
#: Combinations of the resolvents, over the largest one, that the directions for more than two readouts keep when most
#: of them are left out. With 1e-7 errors of ten predictions change by less than 2e-4.
_SPARSE = 1e-6
#: Distance from the mean, or from the root mean square, over the latter, from which a value counts as a whole on its
#: side. Without a distance test errors jumped by .3 % where the middle one of three values passed their mean.
_NEXT = 0.1
#: Share of the neurons in a sum, up to which it is rounding.
_NO_SHARE = 1e-9
#: Where directions are left out, resolvents between all vectors are kept at every third point. They are smooth
#: functions of the point.
_OF_OTHERS = 3
#: Rounds of the active set for each direction, at most.
_LEFT_OUT = 20
#: Weight of the squares of the shares of places, beside the squares of relative errors. With a smaller one errors of a
#: prediction depend more on how many places there are.
_EVEN = 1e-2
#: Part of the way to an end up to which places cost about the same.
_CLOSE = 0.05
#: Weights of the errors of the share that each eigenvalue has, over all directions and along an axis of the vectors.
#: The axes are known to some 1e-3 only, and the resolvent of the mean corrects them.
_KEPT, _KEPT_ALONG = 30.0, 0.1
#: Share of a readout up to which its resolvents count less, in proportion to the root of it.
_RARE = 0.1
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
#: Parts of a step that are tried at most.
_PARTS = 40
#: Parts of a step that differ by no more are the same.
_SAME_PART = 1e-12
#: Factor of the tolerance for the eigenvalues that vectors get, and the largest one. With a factor of 100 errors are
#: up to .3 % off because of it, with one of 10 they jump by up to .1 % where rounding adds or removes an eigenvalue.
_COARSER, _COARSEST = 30.0, 1e-6
#: Least square of the vectors along an axis, over the largest at the same eigenvalue: less is rounding.
_LEAST_PART = 1e-6

Array = NDArray[np.float64]
Complex = NDArray[np.complexfloating[Any, Any]]


class TwoReadouts(NamedTuple):
    """Two readouts, and how the variances of their rows follow from the diagonals of C and X."""

    value: Array  #: Values over their root mean square, shape (2,).
    share: Array  #: Of the neurons, shape (2,).
    own: Array  #: ``s_a``, shape (2,).

    @property
    def mean(self) -> float:
        """Mean of the values."""
        return float(self.share @ self.value)

    @property
    def sums(self) -> Array:
        """Coefficients of C, 2 X and Y in the sums whose resolvents are reproduced, shape (sums, 3)."""
        a, own = self.value, self.own
        return np.asarray(_SUMS @ np.concatenate([[[1.0, self.mean, 1.0]], np.stack([own**2, own * a, a**2], axis=1)]))

    @property
    def importance(self) -> Array:
        """How much the errors of each sum count: less where a readout of few neurons has a coefficient."""
        return np.asarray(np.where(_SUMS[:, 1:] > 0, _counted(self.share), 1.0).min(axis=1))

    def of_sums(self, eigenvalue: Array, diagonals: Array) -> Array:
        """Return the variances of sums of the covariances, shape (sums, directions)."""
        each = np.maximum(self.at(eigenvalue, diagonals), 0.0)
        return np.asarray(_SUMS @ np.concatenate([eigenvalue[None], each]))

    def choices(self, eigenvalue: Array, diagonals: Array, refine: float) -> tuple[Array, Array]:
        """Return diagonals to choose from, and their costs, shape (2, directions, choices) and (directions, choices).

        The first choice of each direction has the given diagonals, and the others are on the way to both ends.
        """
        places, cost = _choices(self.place(eigenvalue, diagonals), refine)
        return self.diagonals(eigenvalue[:, None], places), cost

    def at(self, eigenvalue: Array, diagonals: Array) -> Array:
        """Return the variances of the readouts in directions of which the mean of both is known, (2, directions)."""
        return readout_variances(eigenvalue, diagonals, self.value, np.square(self.value), self.own, self.mean)

    @property
    def ends(self) -> Array:
        """Diagonals with which the first or the second readout has no variance, for an eigenvalue of one, shape (2, 2).

        The variance is then the square of a linear function of the readout.
        """
        a, own = self.value, self.own
        return np.stack([a**2, -a * own]) / (a**2 - 2 * self.mean * a * own + own**2)

    def diagonals(self, eigenvalue: Array, place: Array) -> Array:
        """Return diagonals between both ends: at the first for a place of zero, at the second for one."""
        return np.stack([eigenvalue * (first + place * (last - first)) for first, last in self.ends])

    def place(self, eigenvalue: Array, diagonals: Array) -> Array:
        """Return the places with the same ratio of both variances, shape (directions,)."""
        first, second = np.maximum(self.at(eigenvalue, diagonals), NOTHING)
        of_first, of_second = self.at(np.ones(2), self.ends)[[0, 1], [1, 0]]
        return np.asarray(first * of_second / (first * of_second + second * of_first))


class ManyReadouts(NamedTuple):
    """More than two readouts, and the sums of their covariances whose resolvents are reproduced."""

    mean: float  #: Of the values, over their root mean square.
    sums: Array  #: Coefficients of C, 2 X and Y. Shape (sums, 3).
    share: Array  #: Of the neurons, in each sum. Shape (sums,).
    bounds: DiagonalBounds  #: Of the diagonals.
    #: Whether the sums and choices come in the order of mirrored readouts. Networks that are the same but for the signs
    #: of features and readouts then have the same sums and choices in the same order.
    turned: bool

    @classmethod
    def of(cls, value: Array, share: Array, own: Array, bounds: DiagonalBounds, *, turned: bool) -> ManyReadouts:
        """Return readouts with values over their root mean square, their shares, and ``s_a``, shape (values,) each.

        The sums are the means over all readouts, over those above the mean and below it (`turned` reverses these two),
        and over those smaller than their root mean square. Values next to the mean, or to the size of this root, count
        in part, so that the sums are continuous functions of the values.
        """
        mean = float(share @ value)
        beyond, smaller = mean - value if turned else value - mean, 1 - np.abs(value)
        inside = [np.clip(of / _NEXT, 0.0, 1.0) for of in (beyond, -beyond, smaller)]
        parts = share * np.stack([np.ones_like(share), *inside])
        whole = parts.sum(axis=1)
        powers = np.stack([own**2, own * value, value**2], axis=1)
        known = whole > _NO_SHARE
        sums = parts[known] @ powers / whole[known, None]
        sums[0] = 1.0, mean, 1.0
        return cls(mean, sums, whole[known], bounds, turned)

    @property
    def importance(self) -> Array:
        """How much the errors of each sum count: less where it is of few neurons."""
        return _counted(self.share)

    def of_sums(self, eigenvalue: Array, diagonals: Array) -> Array:
        """Return the variances of sums of the covariances, shape (sums, directions)."""
        rest = eigenvalue - diagonals[0] - 2 * self.mean * diagonals[1]
        return np.asarray(np.maximum(self.sums @ np.stack([diagonals[0], 2 * diagonals[1], rest]), 0.0))

    def choices(self, eigenvalue: Array, diagonals: Array, refine: float) -> tuple[Array, Array]:
        """Return diagonals to choose from, and their costs, shape (2, directions, choices) and (directions, choices).

        The first choice of each direction has the given diagonals. The diagonals of C are on the way from there to
        their bounds, and with each of them those of X are on the way to theirs.
        """
        counts = round(_PLAIN * refine), round(_STRETCHED * refine)
        steps = [(np.arange(1, count + 1) / count) ** _CLOSER for count in counts]
        least, most = (bound[:, None] for bound in self.bounds.of_plain(eigenvalue))
        plain, stretched = (of[:, None] for of in diagonals)
        place = np.clip((plain - least) / np.maximum(most - least, NOTHING), 0.0, 1.0)
        places = _between(place, steps[0])
        low, high = self._of_stretched(eigenvalue[:, None], plain)
        width = high - low
        known = np.where(np.abs(width) > NOTHING, (stretched - low) / np.where(width, width, 1.0), 0.5)
        along = _between(np.clip(known, 0.0, 1.0), steps[1])
        places, along = np.repeat(places, along.shape[1], axis=1), np.tile(along, places.shape[1])
        plains = least + places * (most - least)
        low, high = self._of_stretched(eigenvalue[:, None], plains)
        distance = np.hypot(places - place, along - along[:, :1])
        return np.stack([plains, low + along * (high - low)]), refine**2 * np.square(_EVEN * (_CLOSE + distance))

    def _of_stretched(self, eigenvalue: Array, plain: Array) -> tuple[Array, Array]:
        """Return the bounds of the diagonals of X, the one where choices begin first."""
        low, high = self.bounds.of_stretched(eigenvalue, plain)
        return (high, low) if self.turned else (low, high)


#: Readouts of more than one value.
Readouts: TypeAlias = TwoReadouts | ManyReadouts


def _between(place: Array, part: Array) -> Array:
    """Return places, shape (directions, 1), and others on the way from there to zero and to one."""
    return np.concatenate([place, place * (1 - part), place + (1 - place) * part], axis=1)


def _counted(share: Array) -> Array:
    """Return how much the errors of resolvents of these shares of the neurons count."""
    return np.asarray(np.sqrt(np.minimum(share / _RARE, 1.0)))


def _choices(place: Array, refine: float) -> tuple[Array, Array]:
    """Return places from known ones to both ends, and their costs, shape (directions, choices) each.

    Places are even in their logits, so that a readout of few neurons has some as well.
    """
    count = round(_PLACES * refine)
    part = (np.arange(1, count + 1) / count) ** _CLOSER
    known = logit(np.clip(place, *expit([-_LAST, _LAST])))[:, None]
    before, after = expit(known - (_LAST + known) * part), expit(known + (_LAST - known) * part)
    place = place[:, None]
    choices = np.concatenate([place, before, after], axis=1)
    distance = np.abs(choices - place) / np.maximum(np.where(choices < place, place, 1 - place), NOTHING)
    # An even distribution among more places has the same cost.
    return choices, refine * np.square(_EVEN * (_CLOSE + distance))


class Resolvents(NamedTuple):
    """Resolvents of sums of the covariances (`laws_of_sums`)."""

    points: Complex  #: ``z``, near the negative axis. Shape (points,).
    transform: Complex  #: Mean over all directions, shape (sums, points).
    between: Complex  #: Between the vectors, shape (sums, points, vectors, vectors).

    def without(self, readouts: Readouts, eigenvalue: Array, share: Array, diagonals: Array) -> Resolvents:
        """Return the resolvents without some directions in the mean over all of them.

        The shares of what is left have the sum of all less that of these.

        The directions are as `spread_directions` returns them.
        """
        variance = readouts.of_sums(eigenvalue, diagonals)[:, None]
        return self._replace(transform=self.transform - (1 / (variance - self.points[:, None])) @ share)


class VectorDirections(NamedTuple):
    """Directions in which some vectors lie."""

    eigenvalue: Array  #: Of the mean of the covariances, shape (directions,).
    overlap: Array  #: Components of the vectors, shape (directions, vectors).
    diagonals: Array  #: Of C and X, shape (2, directions).
    others: Array  #: Components of other vectors, shape (directions, others).


def laws_of_sums(law: DampedLaw | StretchedLaw, readouts: Readouts) -> list[tuple[DampedLaw | StretchedLaw, float]]:
    """Return the laws of sums of the covariances, each divided by a number, and this number.

    The given law is the mean law over all readouts.
    """
    root, strength = float(law.root), float(law.strength)
    found = []
    for plain, linear, square in readouts.sums.tolist():
        linear, square = linear / plain, square / plain
        changed: Any = {"linear": root * linear, "root": root * math.sqrt(square), "strength": strength * square}
        found.append((replace(law, **changed), plain))
    return found


def misfit(
    readouts: Readouts,
    resolvents: Resolvents,
    of_all: tuple[Array, Array, Array],
    of_vectors: tuple[Array, Array, Array],
) -> float:
    """Return the largest error of the resolvents that given directions have, over the resolvents.

    The directions come as eigenvalues, shares and diagonals, shapes (directions,), (directions,) and (2, directions).
    Those of the vectors have components in place of shares, shape (directions, vectors).
    """
    nodes, share, diagonals = of_all
    worst = 0.0
    for variance, resolved in zip(readouts.of_sums(nodes, diagonals), resolvents.transform, strict=True):
        off = (share / (variance - resolvents.points[:, None])).sum(axis=1) - resolved
        worst = max(worst, float(np.abs(off / resolved).max()))
    special, overlap, diagonals = of_vectors
    for variance, resolved in zip(readouts.of_sums(special, diagonals), resolvents.between, strict=True):
        size = np.sqrt(np.abs(np.diagonal(resolved, axis1=1, axis2=2)))
        found = (overlap.T / (variance - resolvents.points[:, None, None])) @ overlap
        worst = max(worst, float(np.abs((found - resolved) / (size[:, :, None] * size[:, None])).max()))
    return worst


def spread_directions(
    eigenvalue: Array, share: Array, diagonals: Array, readouts: Readouts, resolvents: Resolvents, refine: float
) -> tuple[Array, Array, Array]:
    """Return directions with which the mean resolvents of the sums are reproduced.

    `eigenvalue` and `share`, shape (eigenvalues,), and `diagonals`, shape (2, eigenvalues), are the eigenvalues of the
    mean, their shares, and the diagonals there. The shares have a sum of one, unless the resolvents are without some
    directions (`Resolvents.without`). `refine` multiplies the number of variances that a direction may have. The
    directions come as eigenvalues, shares and diagonals, too, and their shares have a sum of one.

    Docs, "Bases of stretched rows", equation (B8).
    """
    chosen, cost = readouts.choices(eigenvalue, diagonals, refine)
    each = cost.shape[1]
    nodes, chosen, weight = np.repeat(eigenvalue, each), chosen.reshape(2, -1), np.repeat(share, each)
    rows, aim, variances = [], [], readouts.of_sums(nodes, chosen)
    for variance, resolved, important in zip(variances, resolvents.transform, readouts.importance, strict=True):
        turned = weight / (variance - resolvents.points[:, None]) / np.abs(resolved)[:, None]
        rows.append(important * turned.real)
        aim.append(important * (resolved / np.abs(resolved)).real)
    cost *= share[:, None] + NOTHING
    terms = np.concatenate(rows)
    part = _nearest_shares(terms, np.concatenate(aim), _KEPT * np.sqrt(share), cost.ravel())
    kept = part > _LEAST_SHARE
    if isinstance(readouts, TwoReadouts):
        place = readouts.place(nodes[kept], chosen[:, kept])
        found, share, place = _fewer(nodes[kept], (weight * part)[kept], place, eigenvalue)
        return found, share, readouts.diagonals(found, place)
    means = weight * np.concatenate([np.ones((1, len(nodes))), variances / (share @ eigenvalue)])
    part = _sparse(np.concatenate([terms, means]), np.where(kept, part, 0.0))
    kept = part > 0
    share = (weight * part)[kept]
    return nodes[kept], share / share.sum(), chosen[:, kept]


def directions_of_vectors(
    law: LawAtPoints,
    others: Others | None,
    diagonals: Callable[[Array, Array], Array],
    readouts: Readouts,
    resolvents: Resolvents,
    refine: float,
) -> Computation[VectorDirections]:
    """Return directions of some orthonormal vectors with which their resolvents in the sums are reproduced.

    The law and the others are as in `gradstep.theory.neurons.rational_rule.sparse_rule`, of the mean of the
    covariances, and the rest is as in `spread_directions`. The diagonals over all directions, at eigenvalues with
    weights, are what `diagonals` returns. Raises `NotConverged` if a rule is not found.

    Docs, "Bases of stretched rows", equations (B8) and (B9).
    """
    count = len(law.mean)
    alike, change = (np.trace(of, axis1=1, axis2=2) / count for of in (law.transform, law.slope))
    average = LawAtPoints(
        law.points,
        alike[:, None, None],
        change[:, None, None],
        np.trace(law.mean) / count * np.ones((1, 1)),
        law.importance,
        min(_COARSER * law.tolerance, _COARSEST),
        law.faint,
    )
    nodes, root = yield from sparse_rule(average)
    eigenvalue, overlap, beside = _axes(law.points, alike, change, law.transform, others, nodes, root[:, 0])
    square = np.square(overlap).sum(axis=1)
    chosen, cost = readouts.choices(eigenvalue, diagonals(eigenvalue, square), refine)
    each, chosen = cost.shape[1], chosen.reshape(2, -1)
    eigenvalue, overlap, beside = (np.repeat(of, each, axis=0) for of in (eigenvalue, overlap, beside))
    first, second = np.triu_indices(count)
    # Two different vectors stand for both their orders.
    twice = np.where(first == second, 1.0, math.sqrt(2.0))
    pairs = (overlap[:, first] * overlap[:, second] * twice).T
    rows, aim, variances = [], [], readouts.of_sums(eigenvalue, chosen)
    for variance, resolved, important in zip(variances, resolvents.between, readouts.importance, strict=True):
        size = np.sqrt(np.abs(np.diagonal(resolved, axis1=1, axis2=2)))
        scale = size[:, first] * size[:, second]
        turned = pairs / (variance - resolvents.points[:, None, None]) / scale[..., None]
        rows.append(important * turned.real.reshape(-1, len(variance)))
        aim.append(important * (resolved[:, first, second] * twice / scale).real.ravel())
    cost *= square[:, None] + NOTHING
    terms = np.concatenate(rows)
    share = _nearest_shares(terms, np.concatenate(aim), _KEPT_ALONG * np.sqrt(square), cost.ravel())
    kept = share > _LEAST_SHARE
    if isinstance(readouts, ManyReadouts):
        # Products of all vectors are kept where directions are left out, also of those that the samples make.
        whole = np.concatenate([overlap, beside], axis=1)
        one, other = np.triu_indices(whole.shape[1])
        products = (whole[:, one] * whole[:, other]).T
        products = products / np.maximum(np.abs(products).max(axis=1, keepdims=True), NOTHING)
        points = resolvents.points[::_OF_OTHERS, None, None].real
        of_others = [(products * (1 / (1 - variance / points))).reshape(-1, len(share)) for variance in variances]
        share = _sparse(np.concatenate([terms, products, *of_others]), np.where(kept, share, 0.0))
        kept = share > 0
    scale = np.sqrt(share[kept])[:, None]
    return VectorDirections(
        eigenvalue[kept], _orthonormal(overlap[kept] * scale), chosen[:, kept], beside[kept] * scale
    )


def _sparse(rows: Array, share: Array) -> Array:
    """Return shares of which few are not zero, with the same ``rows @ share`` up to combinations that are small.

    Raises `NotConverged` if the active set does not end.
    """
    from scipy.optimize import nnls  # Most predictions do without it, and it takes time to load.

    kept = np.flatnonzero(share)
    terms = rows[:, kept] * share[kept]
    square, axes = np.linalg.eigh(terms @ terms.T)
    terms = axes[:, square > _SPARSE**2 * square[-1]].T @ terms
    found = np.zeros_like(share)
    try:
        part, _ = nnls(terms, terms.sum(axis=1), maxiter=_LEFT_OUT * len(kept))
    except RuntimeError:
        raise _not_found(math.inf) from None
    found[kept] = share[kept] * part
    return found


def _not_found(residual: float) -> NotConverged:
    """Return the error for shares that are not found."""
    advice = "Use a smaller step, or a readout of one value."
    return NotConverged("the variances of several readouts", residual, _ROUNDING, advice)


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

    The mean of the resolvent over the vectors is `alike`, with the derivative `change`, both of shape (points,).
    `nodes` are eigenvalues of the mean, and `root` the roots of their shares in the mean over the vectors, both of
    shape (nodes,); the rest is as in `directions_of_vectors`.

    Docs, "Bases of stretched rows", equation (B9).
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


def _fewer(eigenvalue: Array, share: Array, place: Array, nodes: Array) -> tuple[Array, Array, Array]:
    """Return a Gauss rule of `_GAUSS` places at each of the eigenvalues `nodes`, as `spread_directions` does."""
    found = []
    for node in nodes:
        here = eigenvalue == node
        places, weight = place[here], share[here]
        powers = np.sqrt(weight)[:, None] * places[:, None] ** np.arange(min(_GAUSS, len(weight)))
        basis, _ = np.linalg.qr(powers)
        chosen, turn = np.linalg.eigh(basis.T @ (places[:, None] * basis))
        found.append((np.full(len(chosen), node), weight.sum() * np.square(turn[0]), chosen))
    eigenvalue, share, place = (np.concatenate(each) for each in zip(*found, strict=True))
    return eigenvalue, share / share.sum(), place


def _nearest_shares(rows: Array, aim: Array, kept: Array, cost: Array) -> Array:
    """Return shares without negative entries whose resolvents are near given ones, and that are near known shares.

    Of each group the first share is known to be one, and the others to be none. The squared differences from these have
    a cost. With the matrix A of all conditions the shares are ``(known + A^T l / cost)_+`` for the multiplier l of the
    errors, which is the minimum of a convex function of as many numbers as there are conditions. The gradient of this
    function is linear in pieces, and Newton's method ends on one of these. It starts from larger costs.

    The resolvents are `rows`, shape (resolvents, unknowns), nearly dependent on each other as those at neighbouring
    points are, and ``rows @ x`` comes near `aim`, shape (resolvents,). The groups have as many unknowns each and the
    weights `kept`, shape (groups,): the sum of their shares stays near one. The shares and their `cost` have shape
    (unknowns,). Raises `NotConverged` if Newton's method does not end.
    """
    square, axes = np.linalg.eigh(rows @ rows.T)
    axes = axes[:, square > _DEPENDENT**2 * square[-1]]
    each, root = len(cost) // len(kept), np.sqrt(cost)
    scaled = np.hstack([rows.T @ axes, np.repeat(np.diag(kept), each, axis=0)]) / root[:, None]
    aim = np.concatenate([axes.T @ aim, kept])
    one, size, level = np.eye(len(aim)), float(np.abs(aim).max()), np.zeros(len(aim))
    known = np.where(np.arange(len(cost)) % each == 0, root, 0.0)
    active, gram = np.zeros(len(cost), dtype=bool), 0 * one
    for stage in np.sqrt(_STAGES):
        off = last = math.inf
        for _ in range(_STEPS):
            pull = scaled @ (level / stage) + known * stage
            before, active = active, pull > 0
            gram = _gram_of_more(gram, scaled, before, active)
            gradient = level - aim + (np.maximum(pull, 0.0) @ scaled) / stage
            last, off = off, float(np.abs(gradient).max()) / size
            if off <= _ROUNDING and off >= last / 2:
                break
            step = np.asarray(solve(gram / stage**2 + one, gradient, assume_a="pos", check_finite=False))
            level = level - _lowest(level - aim, pull, step, scaled @ (step / stage)) * step
        else:
            raise _not_found(off)
    return np.asarray(np.maximum(scaled @ level + known, 0.0) / root)


def _gram_of_more(gram: Array, rows: Array, before: NDArray[np.bool_], now: NDArray[np.bool_]) -> Array:
    """Return the Gram matrix of the rows that are chosen `now`, from that of the rows that were `before`.

    Few rows come or go in a step of Newton's method.
    """
    come, gone, chosen = (np.flatnonzero(those) for those in (now & ~before, before & ~now, now))
    if len(come) + len(gone) >= len(chosen):
        return np.asarray(rows[chosen].T @ rows[chosen])
    return np.asarray(gram + rows[come].T @ rows[come] - rows[gone].T @ rows[gone])


def _lowest(off: Array, pull: Array, step: Array, of_pull: Array) -> float:
    """Return the part of a step, at most one, at which a convex function that is quadratic in pieces is lowest.

    There a straight piece of its slope crosses zero. Each part that is tried tells on which side of it this place is.
    The next one is where the piece at hand crosses zero, or the middle of what is left if that is not inside it.
    """

    def fall(part: float) -> tuple[float, float]:
        """Return how fast the function falls, and how fast that becomes less."""
        left = pull - part * of_pull
        felt = np.where(left > 0, of_pull, 0.0)
        return float(step @ (off - part * step) + felt @ left), float(step @ step + felt @ felt)

    low, high, part = 0.0, 1.0, 1.0
    for _ in range(_PARTS):
        falls, bend = fall(part)
        if abs(falls) <= _SAME_PART * bend or (part == 1.0 and falls > 0):
            break
        low, high = (part, high) if falls > 0 else (low, part)
        crossed = part + falls / bend
        # Two pieces that cross at the ends of the range would take turns for ever.
        part = crossed if low < crossed < high else (low + high) / 2
    return part


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
