"""Minimise a smooth function of a few coordinates, evaluated in batches, and certify the minimum.

A coarse scan of the whole box finds local minima. From each of the lowest a stencil moves downhill, and shrinks where
its centre is the lowest. Newton's method on central differences of fourth order finishes. The certificate consists of
values around the result: both neighbours in every coordinate, the gradient, the curvature, and the bounds reached.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gradstep.errors import NotConverged
from gradstep.resolution import NOTHING

__all__ = ["RESOLUTION", "Axis", "Bound", "Minimum", "minimise"]

Array = NDArray[np.float64]
Bound = Literal["lower", "upper"]
"""An end of an axis."""

#: Points of shape (m, coordinates) in, values of shape (m,) out; infinite where there is none.
Function = Callable[[Array], Array]

#: Valleys of the scan that are followed down, and how much higher than the deepest they may start.
_VALLEYS = 3
_RELATIVE_DEPTH = 1.5
_NEWTON_STEPS = 30
_NO_VALUE = "No point has a value: narrow the bounds."
#: Fractions of a step that are tried together, and its longest size in spacings.
_FRACTIONS = np.array([1.0, 0.5, 0.2, 0.05])
_LONGEST = 8.0
#: Share of the decrease that the gradient promises with which a whole step is taken, and no part of it tried.
_DECREASE = 0.25
#: Decrease that is none, over the resolution of the values: a minimum is found, or the function is flat.
_FLAT = 1e-8
#: Relative height of a barrier between two valleys of the scan that are one.
_BARRIER = 1e-6
#: Relative difference of values that counts as none, by default: what the equations are solved to.
RESOLUTION = 1e-10
#: Relative gain that is no reason to leave a bound.
NEGLIGIBLE = 1e-6
#: Central differences at -2, -1, 1, 2 spacings.
_OFFSETS = np.array([-2.0, -1.0, 1.0, 2.0])
_FIRST = np.array([1.0, -8.0, 8.0, -1.0]) / 12
_SECOND = np.array([-1.0, 16.0, 16.0, -1.0]) / 12


@dataclass(frozen=True)
class Axis:
    """One coordinate of the search."""

    scan: Array  #: Increasing values of the coarse scan; the first and the last are the bounds.
    spacing: float  #: Distance of the neighbours in the certificate, and of the finite differences.
    whole: bool = False  #: Whether the coordinate takes integers only.
    #: Relative gains that are no reason to leave the lower and the upper bound.
    reluctance: tuple[float, float] = (NEGLIGIBLE, NEGLIGIBLE)


@dataclass(frozen=True)
class Minimum:
    """A minimum and its certificate; arrays have one entry a coordinate."""

    point: Array
    value: float
    bounds: tuple[Bound | None, ...]  #: Which bound a coordinate lies on.
    #: Values one spacing lower and higher; infinite beyond a bound.
    below: Array
    above: Array
    #: First and second derivatives along the coordinates (one-sided, and nan, on a bound).
    gradient: Array
    curvature: Array
    displacement: Array  #: Change that a further Newton step would make; nan on a bound.
    others: tuple[tuple[Array, float], ...]  #: The other valleys that were followed to their bottom, best first.
    evaluations: int


class _Counted:
    """The function, with points outside the box at infinity and points met before remembered."""

    def __init__(self, function: Function, axes: Sequence[Axis], resolution: float, nothing_left: str = "") -> None:
        self.function, self.resolution, self.nothing_left = function, resolution, nothing_left
        self.low = np.array([axis.scan[0] for axis in axes])
        self.high = np.array([axis.scan[-1] for axis in axes])
        self.known: dict[tuple[float, ...], float] = {}

    def __call__(self, points: Array, *, everywhere: bool = False) -> Array:
        keys = [tuple(float(x) for x in point) for point in points]
        inside = np.all((points >= self.low) & (points <= self.high), axis=1) | everywhere
        new = dict.fromkeys(key for key, within in zip(keys, inside, strict=True) if within and key not in self.known)
        if new:
            values = self.function(np.array(list(new)))
            if (lowest := float(values.min())) <= 0:
                reason = f"is {lowest:.1e} somewhere, which is rounding: there is nothing to choose"
                raise NotConverged("the error to be minimised", lowest, 0.0, self.nothing_left, reason)
            self.known |= {key: float(value) for key, value in zip(new, values, strict=True)}
        return np.array([self.known[key] if within else np.inf for key, within in zip(keys, inside, strict=True)])


@np.errstate(invalid="ignore")  # differences of points without a value
def minimise(
    function: Function,
    axes: Sequence[Axis],
    *,
    scanned: Function | None = None,
    tolerance: float = 1e-3,
    resolution: float = RESOLUTION,
    nothing_left: str = "Narrow the bounds to where the function is positive.",
) -> Minimum:
    """Find the lowest minimum of a function in a box.

    Parameters
    ----------
    function : callable
        Takes points of shape (m, coordinates); positive, smooth, and defined two spacings beyond the box.
    scanned : callable, optional
        The same function, off by far less than valleys are deep: it is scanned instead, where that takes less time.
    tolerance : float
        Largest Newton displacement left, in spacings (in units of one for a coordinate that takes integers).
    resolution : float
        Relative difference of values that counts as none.
    nothing_left : str
        Advice where a value is not positive.

    Raises
    ------
    NotConverged
        If no value is finite, one is not positive, or the certificate fails: a neighbour is lower, or the displacement
        stays too large.

    Notes
    -----
    A minimum between points of the scan that leaves no trace on them is not found: nothing but the scan vouches for
    the minimum being the lowest one. A tie with a bound (a gain below 1e-6, or an axis's own) is given to the
    bound.
    """
    counted = _Counted(function, axes, resolution, nothing_left)
    scan = counted if scanned is None else _Counted(scanned, axes, resolution, nothing_left)
    bottoms = [_polish(counted, axes, _descend(counted, axes, start), tolerance) for start in _valleys(scan, axes)]
    bottoms.sort(key=lambda bottom: bottom[1])
    point, value = bottoms[0]
    if not np.isfinite(value):
        raise NotConverged("the scan", np.nan, counted.resolution, _NO_VALUE)
    others: list[tuple[Array, float]] = []
    for place, height in bottoms[1:]:
        known = [point, *(p for p, _ in others)]
        if all(np.any(np.abs(place - p) > [2 * axis.spacing for axis in axes]) for p in known):
            others.append((place, height))
    held = _bounds(counted, point)
    # Newton's method may itself end on a bound; what is left is followed until no more bounds are met.
    while held != _bounds(counted, point := _to_bounds(counted, axes, point, value)):
        held = _bounds(counted, point)
        point, value = _polish(counted, axes, point, tolerance)
    found = _certify(counted, axes, point, value, tuple(others), tolerance)
    return found if scan is counted else replace(found, evaluations=found.evaluations + len(scan.known))


def _to_bounds(counted: _Counted, axes: Sequence[Axis], point: Array, value: float) -> Array:
    """Move to every bound that is as good as the minimum: the limit is what such a plateau means."""
    for k in range(len(point)):
        ends = zip((counted.low[k], counted.high[k]), axes[k].reluctance, strict=True)
        # If both ends are as good, the one with the larger reluctance is taken.
        for edge, gain in sorted(ends, key=lambda end: -end[1]):
            moved = point.copy()
            moved[k] = edge
            at_edge = float(counted(moved[None])[0])
            if at_edge <= value + gain * abs(value):
                point, value = moved, at_edge
                break
    return point


def _valleys(counted: _Counted, axes: Sequence[Axis]) -> list[Array]:
    """Return the deepest local minima of the scan (values are positive)."""
    shape = tuple(len(axis.scan) for axis in axes)
    grid = np.stack(np.meshgrid(*(axis.scan for axis in axes), indexing="ij"), axis=-1)
    values = counted(grid.reshape(-1, len(axes))).reshape(shape)
    if not np.isfinite(values).any():
        raise NotConverged("the scan", np.nan, counted.resolution, _NO_VALUE)
    padded = np.pad(values, 1, constant_values=np.inf)
    lowest = np.ones(shape, dtype=bool)
    for offset in itertools.product((-1, 0, 1), repeat=len(axes)):
        window = padded[tuple(slice(1 + o, 1 + o + size) for o, size in zip(offset, shape, strict=True))]
        lowest &= values <= window
    found = np.argwhere(lowest & np.isfinite(values))
    heights = np.array([values[tuple(index)] for index in found])
    from scipy.ndimage import label  # here: only a search needs it

    taken: list[int] = []
    for k in np.argsort(heights, kind="stable"):
        if heights[k] > heights.min() * _RELATIVE_DEPTH or len(taken) == _VALLEYS:
            break
        # On a plateau every unevenness is a minimum of its own.
        connected, _ = label(values <= heights[k] * (1 + _BARRIER), np.ones((3,) * len(axes)))
        if all(connected[tuple(found[k])] != connected[tuple(found[lower])] for lower in taken):
            taken.append(int(k))
    return [grid[tuple(found[k])] for k in taken]


def _descend(counted: _Counted, axes: Sequence[Axis], start: Array) -> Array:
    """Move a stencil of three points a coordinate downhill, halving it where its centre is the lowest."""
    width = np.array([_gap(axis, x) / 2 for axis, x in zip(axes, start, strict=True)])
    least = np.array([axis.spacing for axis in axes])
    whole = np.array([axis.whole for axis in axes])
    moves = np.array(list(itertools.product((0, -1, 1), repeat=len(axes))), dtype=np.float64)
    point = start
    while True:
        width = np.where(whole, np.ceil(width), width)
        stencil = np.clip(point + moves * width, counted.low, counted.high)
        values = counted(stencil)
        best = int(np.argmin(values))
        if values[best] < values[0] - counted.resolution * abs(values[0]):
            point = stencil[best]
        elif np.all(width <= least):
            return np.asarray(point, dtype=np.float64)
        else:
            width = np.maximum(width / 2, np.minimum(least, width))


def _gap(axis: Axis, x: float) -> float:
    place = int(np.argmin(np.abs(axis.scan - x)))
    near = axis.scan[max(place - 1, 0) : place + 2]
    return float(np.diff(near).max()) if len(near) > 1 else axis.spacing


def _bounds(counted: _Counted, point: Array) -> tuple[Bound | None, ...]:
    lower, upper = point <= counted.low, point >= counted.high
    return tuple(
        "lower" if at_low else "upper" if at_high else None for at_low, at_high in zip(lower, upper, strict=True)
    )


def _derivatives(counted: _Counted, axes: Sequence[Axis], point: Array, free: Sequence[int]) -> tuple[Array, Array]:
    """Return the gradient and the Hessian in the free coordinates, by central differences of fourth order.

    Docs, "Tuning", equation (T1).
    """
    h = np.array([axes[k].spacing for k in free])
    unit = np.eye(len(point))[list(free)]
    pairs = list(itertools.combinations(range(len(free)), 2))
    points = [point[None]]
    points += [point + _OFFSETS[:, None] * h[k] * unit[k] for k in range(len(free))]
    points += [
        point + np.array([[i * h[a], j * h[b]] for i in _OFFSETS for j in _OFFSETS]) @ unit[[a, b]] for a, b in pairs
    ]
    # Beyond the box too: only its centre has to be inside.
    centre, *parts = np.split(
        counted(np.concatenate(points), everywhere=True), np.cumsum([len(p) for p in points])[:-1]
    )
    along, across = parts[: len(free)], parts[len(free) :]
    # Not a number where a point has no value.
    with np.errstate(invalid="ignore"):
        gradient = np.array([_FIRST @ values for values in along]) / h
        hessian = np.diag([_SECOND @ values - 2.5 * centre[0] for values in along] / h**2)
        for (a, b), values in zip(pairs, across, strict=True):
            hessian[a, b] = hessian[b, a] = _FIRST @ values.reshape(4, 4) @ _FIRST / (h[a] * h[b])
    return gradient, hessian


def _newton(gradient: Array, hessian: Array) -> Array | None:
    """Return the Newton step, or None where the function does not curve upwards."""
    if not (np.isfinite(gradient).all() and np.isfinite(hessian).all()) or np.linalg.eigvalsh(hessian).min() <= 0:
        return None
    return np.asarray(-np.linalg.solve(hessian, gradient), dtype=np.float64)


def _left(gradient: Array, hessian: Array, whole: Sequence[bool]) -> Array:
    """Return what Newton's method would still change; beside integers, what it would with those held."""
    step = _newton(gradient, hessian)
    if step is None:
        return np.full(len(gradient), np.inf)
    smooth = [k for k, is_whole in enumerate(whole) if not is_whole]
    if smooth and any(whole):
        step[smooth] = -np.linalg.solve(hessian[np.ix_(smooth, smooth)], gradient[smooth])
    return np.abs(step)


def _downhill(gradient: Array, hessian: Array, spacing: Array) -> Array:
    """Return Newton's step with the signs of the Hessian's eigenvalues made positive: downhill on a saddle too."""
    values, vectors = np.linalg.eigh(hessian * np.outer(spacing, spacing))
    sizes = np.maximum(np.abs(values), 1e-6 * np.abs(values).max() + NOTHING)
    return np.asarray(-spacing * (vectors @ ((vectors.T @ (gradient * spacing)) / sizes)), dtype=np.float64)


def _polish(counted: _Counted, axes: Sequence[Axis], point: Array, tolerance: float) -> tuple[Array, float]:
    """Follow Newton's method in the coordinates that are not on a bound: all, then those that are not integers."""
    best = float(counted(point[None])[0])
    spacing = np.array([axis.spacing for axis in axes])
    whole = np.array([axis.whole for axis in axes])
    for held in (np.zeros_like(whole), whole)[: 1 + whole.any()]:
        for _ in range(_NEWTON_STEPS):
            free = [k for k, bound in enumerate(_bounds(counted, point)) if bound is None and not held[k]]
            gradient, hessian = _derivatives(counted, axes, point, free)
            if not free or not (np.isfinite(gradient).all() and np.isfinite(hessian).all()):
                break
            step = _downhill(gradient, hessian, spacing[free])
            step /= max(1.0, float(np.max(np.abs(step) / (_LONGEST * spacing[free]))))
            slack, promised = counted.resolution * abs(best), float(gradient @ step)
            if -promised <= _FLAT * slack:
                break
            trials = np.repeat(point[None], len(_FRACTIONS), axis=0)
            trials[:, free] += _FRACTIONS[:, None] * step
            trials = np.clip(np.where(whole, np.rint(trials), trials), counted.low, counted.high)
            values = counted(trials[:1])
            if not values[0] <= best + _DECREASE * promised + slack:
                values = counted(trials)
            chosen = 0 if values[0] <= values.min() + slack else int(np.argmin(values))
            # A whole step may leave the value as it is, as at a minimum. A part of one that does so follows rounding.
            if not values[chosen] <= best + (0.0 if chosen else slack):
                break
            finished = bool(np.all(np.abs(trials[chosen] - point) <= 0.1 * tolerance * spacing))
            point, best = trials[chosen], float(values[chosen])
            if finished:
                break
    return point, best


def _certify(
    counted: _Counted,
    axes: Sequence[Axis],
    point: Array,
    value: float,
    others: tuple[tuple[Array, float], ...],
    tolerance: float,
) -> Minimum:
    bounds = _bounds(counted, point)
    free = [k for k, bound in enumerate(bounds) if bound is None]
    spacing = np.array([axis.spacing for axis in axes])
    below, above = (counted(point + sign * np.diag(spacing)) for sign in (-1, 1))
    gradient = np.where(np.isfinite(below), (value - below) / spacing, (above - value) / spacing)
    curvature = np.full(len(axes), np.nan)
    displacement = np.full(len(axes), np.nan)
    if free:
        slope, hessian = _derivatives(counted, axes, point, free)
        if not np.isfinite(hessian).all():
            reason = f"lies within {_OFFSETS[-1]:g} spacings of points that have no value, and may lie beyond them"
            raise NotConverged("the minimum", math.inf, tolerance, "Narrow the bounds to where all have one.", reason)
        gradient[free], curvature[free] = slope, np.diag(hessian)
        displacement[free] = _left(slope, hessian, [axes[k].whole for k in free])
        allowed = np.array([1.0 if axes[k].whole else tolerance * axes[k].spacing for k in free])
        # Where the bottom is so flat that the equations' accuracy hides it, that accuracy is the limit.
        hidden = 2 * counted.resolution * abs(value) / np.maximum(np.diag(hessian), NOTHING)
        allowed = np.maximum(allowed, 4 * np.sqrt(hidden))
        worst = float(np.max(displacement[free] / allowed))
        if not worst <= 1:
            raise NotConverged("the minimum", worst * tolerance, tolerance, "Narrow the bounds, or tune fewer at once.")
    # On a bound a neighbour may be lower by what is no reason to leave this bound, in other coordinates by nothing.
    slack = np.array(
        [
            axis.reluctance[bound == "upper"] if bound else counted.resolution
            for axis, bound in zip(axes, bounds, strict=True)
        ]
    )
    excess = (value - np.minimum(below, above)) / abs(value)
    if (excess > slack).any():
        k = int(np.argmax(excess - slack))
        advice = "A neighbour is lower: narrow the bounds."
        raise NotConverged("the minimum", float(excess[k]), float(slack[k]), advice)
    return Minimum(point, value, bounds, below, above, gradient, curvature, displacement, others, len(counted.known))
