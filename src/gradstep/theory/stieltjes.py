r"""Support and density of a law from the equations of its Stieltjes transform.

The equations are solved by Newton's method along a path in the closed upper half-plane, from far away, where they are
trivial, to the real axis, which carries the density :math:`\rho(x)=\mathrm{Im}\,m(x)/\pi`. A band of the support is an
interval on which the solution is complex. Its edges are branch points, where :math:`\rho^2` vanishes linearly. With
:math:`x=s^2` and :math:`s` = midpoint + halfwidth :math:`\cos\theta`, the density of :math:`\theta` is smooth and
periodic: the midpoint rule integrates it to rounding, and its cosine series gives the distribution function.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.fft import dct

from gradstep.errors import NotConverged

__all__ = [
    "COARSE",
    "FINE",
    "Band",
    "Equations",
    "Law",
    "Point",
    "advance",
    "around",
    "averaged_tail",
    "find_law",
    "start",
]

Array = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]

_STEP_TOLERANCE = 1e-9
#: Relative distance from an edge within which it is found.
_EDGE_TOLERANCE = 1e-9
#: Share of the bound of a spectrum below which a density without an edge is taken to go on to zero.
_HARD = 1e-12
_NEWTON_STEPS = 14
_LARGEST_JUMP = 1.5
_SMALLEST_STEP = 1e-11
_MOST_STEPS = 300
#: Next to an edge Im m is the root of the distance; what is below this is rounding, beyond the edge.
_SMALLEST_IMAGINARY = 1e-8
#: Distances of neighbours, in log x, of a search for bands.
COARSE = (0.12, 0.04)
#: Spacings of a search that must not miss a narrow band.
FINE = (0.04, 0.013)
#: Stride to an edge, relative, below which a gap that it would miss is narrower than any that is resolved.
_FINEST = 1e-3
_NODES = (64, 192, 576, 1728, 5184)
_TAIL = 3e-6
_MASS_TOLERANCE = 1e-6
_DETOUR = 0.1
#: Longest step towards an edge, relative to the spacing of the search.
_LONGEST_STRIDE = 4
_ADVICE = "Make the step smaller, or the matrix less nearly square."


class Equations(Protocol):
    """A fixed point ``u = log R(exp(u), z)`` in the logarithms of its unknowns."""

    @property
    def top(self) -> float:
        """Return a bound that the continuous spectrum does not exceed."""

    @property
    def mass(self) -> float:
        """Return the total mass of the continuous spectrum."""

    @property
    def hard_edge(self) -> bool:
        """Tell whether the support reaches zero, with a density like ``x**-1/2``."""

    @property
    def orientation(self) -> Array:
        """Return 1 for each unknown that maps the upper half-plane to itself, -1 if to the lower one."""

    def start(self, z: complex) -> ComplexArray:
        """Return the logarithms of the unknowns to leading order in ``1/z``."""

    def linearise(self, z: complex, state: ComplexArray) -> tuple[ComplexArray, ComplexArray, ComplexArray]:
        """Return ``log R - u``, the matrix ``1 - d log R / du`` and ``d log R / dz``."""

    def transform(self, state: ComplexArray, tangent: ComplexArray) -> tuple[complex, complex]:
        """Return the Stieltjes transform ``m = int rho(dx) / (x - z)`` and ``dm/dz``."""


class Point(NamedTuple):
    """A solution at ``z``: logarithms of the unknowns, their derivatives in ``z``, and the residual left."""

    z: complex
    state: ComplexArray
    tangent: ComplexArray
    residual: float


@dataclass(frozen=True)
class Band:
    """One interval of the support.

    Attributes
    ----------
    lower, upper : float
        Its edges.
    eigenvalue, density, weight : ndarray, shape (nodes,)
        Increasing nodes, crowded at the edges; the density there; quadrature weights of the continuous spectrum:
        ``sum(weight * f(eigenvalue))`` is its integral of ``f``.
    series : ndarray
        Cosine series of the density of theta.
    residual : float
        Largest residual of the equations at the nodes.
    """

    lower: float
    upper: float
    eigenvalue: Array
    density: Array
    weight: Array
    series: Array
    residual: float

    @property
    def mass(self) -> float:
        """Share of the eigenvalues in this band."""
        return float(self.weight.sum())

    def cumulative(self, x: ArrayLike) -> Array:
        """Return the share of the eigenvalues that lie in this band and below `x`."""
        middle, half = _frame(self.lower, self.upper)
        edges = np.sqrt([self.lower, self.upper])
        angle = np.arccos(np.clip((np.clip(np.sqrt(np.maximum(x, 0.0)), *edges) - middle) / half, -1.0, 1.0))
        order = np.arange(1, len(self.series))
        above = self.series[0] * angle + np.sin(angle[..., None] * order) @ (self.series[1:] / order)
        return np.asarray(self.mass - above, dtype=np.float64)


@dataclass(frozen=True)
class Law:
    """Limiting law of the eigenvalues of a covariance.

    Attributes
    ----------
    bands : tuple of Band
        Continuous part, in increasing order.
    atom : float
        Share of zero eigenvalues.
    residual : float
        Largest residual of the equations.
    """

    bands: tuple[Band, ...]
    atom: float
    residual: float

    @property
    def edge(self) -> float:
        """Upper edge of the bulk."""
        return self.bands[-1].upper

    @property
    def eigenvalue(self) -> Array:
        """Nodes of all bands, increasing."""
        return np.concatenate([band.eigenvalue for band in self.bands])

    @property
    def density(self) -> Array:
        """Density at `eigenvalue`."""
        return np.concatenate([band.density for band in self.bands])

    @property
    def weight(self) -> Array:
        """Quadrature weights at `eigenvalue`; with the atom they sum to one."""
        return np.concatenate([band.weight for band in self.bands])

    @property
    def singular_value(self) -> Array:
        """Square roots of `eigenvalue`."""
        return np.sqrt(self.eigenvalue)

    def cumulative(self, x: ArrayLike) -> Array:
        """Return the share of the eigenvalues not above `x`; outliers are a share of zero."""
        x = np.asarray(x, dtype=np.float64)
        return np.asarray(self.atom * (x >= 0) + sum(band.cumulative(x) for band in self.bands))


def _frame(lower: float, upper: float) -> tuple[float, float]:
    """Return midpoint and halfwidth of the singular values; reflected at zero when the support reaches it."""
    low, high = (np.sqrt(lower) if lower > 0 else -np.sqrt(upper)), np.sqrt(upper)
    return float(low + high) / 2, float(high - low) / 2


def start(equations: Equations, z: complex) -> Point:
    """Solve at a point far from the spectrum."""
    guess = equations.start(z)
    point = _newton(equations, z, guess, guess)
    if point is None:
        raise NotConverged("the Stieltjes transform far from the spectrum", math.inf, _STEP_TOLERANCE, _ADVICE)
    return point


def advance(equations: Equations, point: Point, z: complex, *, inside: bool = False) -> Point:
    """Follow the solution from `point` straight to `z`.

    Parameters
    ----------
    equations : Equations
    point : Point
        A solution.
    z : complex
        Where to go, in the closed upper half-plane; on the real axis without crossing an edge.
    inside : bool
        Refuse solutions without density.

    Raises
    ------
    NotConverged
        If the solution cannot be followed.
    """
    target, share = z, 1.0
    for _ in range(_MOST_STEPS):
        if point.z == target:
            return point
        trial = _attempt(equations, point, target if share == 1.0 else point.z + share * (target - point.z), inside)
        if trial is not None:
            point, share = trial, min(1.0, 4 * share)
        elif share * abs(target - point.z) < _SMALLEST_STEP * abs(target):
            break
        else:
            share /= 3
    lost = f"the path of the Stieltjes transform to {target:.3g}, left at {point.z:.3g},"
    raise NotConverged(lost, math.inf, _STEP_TOLERANCE, _ADVICE)


def around(equations: Equations, point: Point, x: float) -> Point:
    """Go to a real `x` through the upper half-plane, past bands too light to have been found."""
    return advance(equations, advance(equations, point, x * (1 + _DETOUR * 1j)), complex(x))


def _attempt(equations: Equations, point: Point, z: complex, inside: bool) -> Point | None:
    """Take one step along the tangent and correct it; None if that fails."""
    trial = _newton(equations, z, point.state + (z - point.z) * point.tangent, point.state)
    return None if trial is None or (inside and not _has_density(equations, trial)) else trial


def _has_density(equations: Equations, point: Point) -> bool:
    value = equations.transform(point.state, point.tangent)[0]
    return value.imag > _SMALLEST_IMAGINARY * abs(value)


def _newton(equations: Equations, z: complex, state: ComplexArray, before: ComplexArray) -> Point | None:
    """Return the solution next to a guess, or None: not found, on the wrong sheet, or too far from `before`."""
    for _ in range(_NEWTON_STEPS):
        try:
            with np.errstate(all="ignore"):
                gap, matrix, drift = equations.linearise(z, state)
            if not np.isfinite(gap).all():
                return None
            step, tangent = np.linalg.solve(matrix, np.stack([gap, drift], axis=1)).T
        except np.linalg.LinAlgError:
            return None
        state = state + step
        size = np.abs(step).max()
        if not np.abs(state - before).max() < _LARGEST_JUMP:
            return None
        if size < _STEP_TOLERANCE:
            turned = equations.orientation * state.imag
            if turned.min() < -1e-7 or turned.max() > np.pi + 1e-7:
                return None
            return Point(z, state, tangent, float(np.abs(gap).max()))
    return None


def averaged_tail(weight: Array, size: Array, values: Array, share: float) -> Array:
    """Replace the values of the largest members, of total probability at most `share`, by their mean; so the smallest.

    Nodes far out in the tail of a law have a band of the spectrum each, too narrow and too light to matter or to find.

    Parameters
    ----------
    weight, size : ndarray, shape (nodes,)
        Probabilities, and what orders the members.
    values : ndarray, shape (nodes, ...)
    share : float

    Returns
    -------
    ndarray, shape (nodes, ...)
    """
    ascending, result = np.argsort(size), values.copy()
    for order in (ascending, ascending[::-1]):
        tail = order[np.cumsum(weight[order]) <= share]
        if len(tail):
            result[tail] = np.average(values[tail], axis=0, weights=weight[tail])
    return result


def find_law(equations: Equations, spacings: Sequence[float] = COARSE) -> Law:
    """Find the support and the density on it.

    Parameters
    ----------
    equations : Equations
    spacings : sequence of float
        Distances of neighbours, in log x, of the search for bands; the next one is used if mass is missing.

    Returns
    -------
    Law

    Raises
    ------
    NotConverged
        If the density does not integrate to the mass that the ranks demand, to 1e-6.
    """
    for spacing in spacings:
        try:
            bands = _search(equations, spacing)
        except NotConverged as error:
            failure = error
            continue
        missing = abs(sum(band.mass for band in bands) - equations.mass)
        if missing < _MASS_TOLERANCE:
            return Law(tuple(reversed(bands)), 1 - equations.mass, max(band.residual for band in bands))
        failure = NotConverged("the integral of the spectral density", missing, _MASS_TOLERANCE, _ADVICE)
    raise failure


def _search(equations: Equations, spacing: float) -> list[Band]:
    """Scan downwards, a little above the real axis, and resolve every band met until all mass is found."""
    bands: list[Band] = []
    x = equations.top
    point = advance(equations, start(equations, 1e3j * x), x * (1 + 1j * spacing))
    while x > 1e-11 * equations.top:
        x *= np.exp(-spacing)
        point = advance(equations, point, x * (1 + 1j * spacing))
        value, slope = equations.transform(point.state, point.tangent)
        # Outside the support Im m is proportional to the height above the axis.
        if (value - 1j * point.z.imag * slope).imag < 0.3 * value.imag:
            continue
        try:
            centre = advance(equations, point, complex(x))
        except NotConverged:
            continue  # at an edge: the next point is inside
        if not _has_density(equations, centre):
            continue
        bands.append(_band(equations, centre, spacing, bands[-1].lower if bands else math.inf))
        x = bands[-1].lower
        if x == 0 or sum(band.mass for band in bands) > equations.mass - _MASS_TOLERANCE:
            break
        point = advance(equations, point, x * (1 + 1j * spacing))
    return bands


class _Interrupted(NotConverged):
    """No density on the way to the upper (1) or the lower (-1) edge: that edge belongs to another band."""

    def __init__(self, error: NotConverged, side: int) -> None:
        super().__init__(error.solver, error.residual, error.tolerance, error.advice)
        self.side = side


def _band(equations: Equations, centre: Point, spacing: float, ceiling: float) -> Band:
    """Resolve the band around a point, which ends below `ceiling`."""
    strides, edges = {1: spacing, -1: spacing}, dict[int, float]()
    side = 1
    while True:
        try:
            for side in [side for side in strides if side not in edges]:
                edges[side] = _edge(equations, centre, side * strides[side])
            side = 1
            if edges[1] < ceiling or strides[1] < _FINEST:
                return _resolve(equations, centre, edges[-1], edges[1])
        except NotConverged as error:
            side = error.side if isinstance(error, _Interrupted) else side
            if strides[side] < _FINEST:
                # The sides are told to nobody else.
                raise (error.__cause__ if isinstance(error, _Interrupted) and error.__cause__ else error) from None
        # A stride over the gap to another band. The other edge is as good as before, and small strides take long.
        strides[side] /= 4
        edges.pop(side, None)


def _edge(equations: Equations, point: Point, spacing: float) -> float:
    """Follow the density along the real axis until its square, linear in the distance, vanishes, or down to zero."""
    longest = abs(spacing)
    while True:
        x = point.z.real
        if equations.hard_edge and x < _HARD * equations.top:
            return 0.0
        value, slope = equations.transform(point.state, point.tangent)
        # Newton's estimate of the root of x (Im m)^2.
        logarithmic = 2 * slope.imag / value.imag + 1 / x
        away = 1 / abs(logarithmic) if logarithmic * spacing < 0 else np.inf
        if away < _EDGE_TOLERANCE * x:
            return float(x + np.sign(spacing) * away)
        move = min(0.9 * away, longest * x)
        trial = _attempt(equations, point, complex(x + np.sign(spacing) * move), inside=True)
        if trial is None:
            longest = move / x / 2
            if longest < 1e-13:
                raise NotConverged("an edge of the spectrum", away / x, _EDGE_TOLERANCE, _ADVICE)
        else:
            point, longest = trial, min(2 * longest, _LONGEST_STRIDE * abs(spacing))


def _resolve(equations: Equations, centre: Point, lower: float, upper: float) -> Band:
    middle, half = _frame(lower, upper)
    for count in _NODES:
        angle = (np.arange(count) + 0.5) * np.pi / count
        singular = middle + half * np.cos(angle)
        kept = singular > 0
        points = _along(equations, centre, singular[kept] ** 2)
        imaginary = np.array([equations.transform(p.state, p.tangent)[0].imag for p in points])
        density = imaginary / np.pi
        by_angle = np.zeros(count)
        by_angle[kept] = 2 * singular[kept] * density * half * np.sin(angle[kept])
        if lower == 0:
            by_angle = by_angle + by_angle[::-1]
        series = dct(by_angle, type=2) / count
        series[0] /= 2
        if np.abs(series[-count // 8 :]).max() < _TAIL * series[0]:
            break
    weight = by_angle[kept] * np.pi / count
    x = singular[kept] ** 2
    residual = max(p.residual for p in points)
    return Band(lower, upper, x[::-1], density[::-1], weight[::-1], series, residual)


def _along(equations: Equations, centre: Point, x: Array) -> list[Point]:
    """Solve at decreasing real `x`, walking from the centre both ways."""
    above = int(np.sum(x > centre.z.real))
    solved: dict[int, Point] = {}
    for side, walk in ((1, range(above - 1, -1, -1)), (-1, range(above, len(x)))):
        point = centre
        for index in walk:
            try:
                point = solved[index] = advance(equations, point, complex(x[index]), inside=True)
            except NotConverged as error:
                raise _Interrupted(error, side) from error
    return [solved[index] for index in range(len(x))]
