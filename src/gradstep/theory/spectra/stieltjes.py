r"""Support and density of a law from the equations of its Stieltjes transform.

The equations are solved by Newton's method along a path in the closed upper half-plane, from far away, where they are
trivial, to the real axis, which carries the density :math:`\rho(x)=\mathrm{Im}\,m(x)/\pi`. A band of the support is an
interval on which the solution is complex. Its edges are branch points, where :math:`\rho^2` vanishes linearly. With
:math:`\log x` = midpoint + halfwidth :math:`\cos\theta` the density of :math:`\theta` has no singularity, and bands may
have many decades: Legendre series on panels, halved where they have not died out, integrate it.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradstep.errors import NotConverged
from gradstep.gaussian.panels import legendre_rule

__all__ = [
    "COARSE",
    "EDGE_MARGIN",
    "FINE",
    "Band",
    "Equations",
    "Law",
    "Point",
    "advance",
    "around",
    "around_nearest",
    "averaged_tail",
    "find_law",
    "first_law",
    "in_half_plane",
    "lightest_band",
    "mean_law",
    "start",
]

Array = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]

#: Change of a logarithm below which Newton's method has arrived.
_STEP_TOLERANCE = 1e-9
#: Change that may be rounding, of unknowns that are nearly nothing beside what they are added to.
_ROUNDING = 1e-3
#: Error of an edge, relative; that over the distance to it below which its place is known; and a distance that is none.
_EDGE_TOLERANCE, _KNOWN, _NEXT = 1e-12, 0.3, 1e-9
#: Distance of a solution from the tangent at the last one below which longer steps are taken, and how long those are.
_STRAIGHT, _LARGEST_SHARE = 1e-3, 0.9
#: A density is followed down from a place in its band. If it has no edge above this share of that place, it is taken to
#: go on to zero.
_HARD = 1e-12
#: Newton's steps at a point of a path, and the change of a logarithm beyond which it has met another solution; the
#: smallest step along the path, relative to its end, and the most of them.
_NEWTON_STEPS, _LARGEST_JUMP, _SMALLEST_STEP, _MOST_STEPS = 14, 1.5, 1e-11, 300
#: Next to an edge Im m is the root of the distance; what is below this is rounding, beyond the edge.
_SMALLEST_IMAGINARY = 1e-8
#: Distances of neighbours, in log x, of a search for bands.
COARSE = (0.12, 0.04)
#: Spacings of a search that must not miss a narrow band.
FINE = (0.04, 0.013)
#: Number of eigenvalues that a band has at least in a network, and its least share of all. Those of less are made by
#: single nodes of a rule.
_FEWEST, _LEAST_SHARE = 1 / 3, 1e-5
#: Outliers nearer to the bulk than this share of its edge are part of it at any size that fits a computer.
EDGE_MARGIN = 1e-6
#: Stride to an edge, relative, below which a gap that it would miss is narrower than any that is resolved.
_FINEST = 1e-3
#: How many finer strides are tried between two solutions.
_FINER_STRIDES = 3
#: Terms of a panel's series, of which the last ones must be below a share of the mean density: a first share, and
#: smaller ones. Panels of the least width are not halved.
_TERMS, _LAST_TERMS, _TAILS, _NARROWEST = 16, 2, (1e-3, 1e-4, 1e-5, 3e-6), 1e-6
#: Share of all mass below which a band is resolved as if it had it.
_LIGHT = 1e-4
#: Missing mass, over the share of the last terms, that is no error of the series.
_ABOVE_TAIL = 10.0
#: Mass that a walk may miss, and that a search may.
_ROUGH_MASS, _MASS_TOLERANCE = 1e-3, 1e-6
#: Most bands that a walk may pass unnoticed.
_MOST_PASSED = 8
#: Share of the missing mass below which an interval is not looked into.
_MUCH = 0.1
#: Eigenvalues below this share of the bulk's upper edge may count as zero, and the search for bands ends there. They do
#: if at least the second share of the missing mass is there. Where features saturate, rows far out are alike to many
#: digits, and their eigenvalues fall without end.
_NOTHING, _NEARLY_ALL = 1e-14, 0.99
#: Largest height of the way around light bands, over the eigenvalue that it leads to; shorter ways are lower.
_DETOUR = 0.1
_NODES, _WEIGHTS = legendre_rule(_TERMS)
_TO_SERIES = (np.polynomial.legendre.legvander(_NODES, _TERMS - 1) * (np.arange(_TERMS) + 0.5)).T * _WEIGHTS
#: From values at the nodes of a panel to those of their polynomial at the nodes of its halves.
_TO_HALVES = np.polynomial.legendre.legvander(np.concatenate([_NODES - 1, _NODES + 1]) / 2, _TERMS - 1) @ _TO_SERIES
#: Longest step towards an edge, relative to the spacing of the search.
_LONGEST_STRIDE = 4
_ADVICE = "Make the step smaller, or the matrix less nearly square."


class Equations(Protocol):
    """A fixed point in unknowns that map the upper half-plane to itself.

    Its state is a number of order one for each of them: where nothing else is said, their logarithms.
    """

    @property
    def top(self) -> float:
        """Return a bound that the continuous spectrum does not exceed."""

    @property
    def mass(self) -> float:
        """Return the total mass of the continuous spectrum."""

    @property
    def hard_edge(self) -> bool:
        """Tell whether the support may reach zero, where the density then diverges."""

    def start(self, z: complex) -> ComplexArray:
        """Return the state to leading order in ``1/z``."""

    @property
    def at_once(self) -> int:
        """Return how many points `newton` is best given together; a single one has no axis for them."""

    def newton(self, z: Any, state: ComplexArray) -> tuple[ComplexArray, ComplexArray, ComplexArray]:
        """Return the gap between right-hand sides and a state, Newton's step, and the solution's slope in z.

        Either at a number z and a state, or at several, with a leading axis for the points.
        """

    def matters(self, state: ComplexArray) -> Array:
        """Return by how much the equations notice a change of each unknown: a number of at most one."""

    def physical(self, state: ComplexArray) -> bool:
        """Tell whether a solution is the one in the upper half-plane (`in_half_plane`)."""

    def transform(self, state: ComplexArray, tangent: ComplexArray) -> tuple[complex, complex]:
        """Return the Stieltjes transform ``m = int rho(dx) / (x - z)`` and ``dm/dz``."""


_Kind = TypeVar("_Kind", bound=Equations)


class Point(NamedTuple):
    """A solution at ``z``: the state, its derivative in ``z``, and the residual left."""

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
        Edges of the band.
    eigenvalue, density, weight : ndarray, shape (nodes,)
        Increasing nodes, crowded at the edges; the density there; quadrature weights of the continuous spectrum:
        ``sum(weight * f(eigenvalue))`` is its integral of ``f``.
    ends : ndarray, shape (panels + 1,)
        Angles at which the panels end.
    series : ndarray, shape (panels, terms)
        Legendre series of the density of the angle on each.
    residual : float
        Largest residual of the equations at the nodes.
    power : int
        Of a band from zero on, whose density there is like ``x**(1/power - 1)``.
    """

    lower: float
    upper: float
    eigenvalue: Array
    density: Array
    weight: Array
    ends: Array
    series: Array
    residual: float
    power: int = 2

    @property
    def mass(self) -> float:
        """Share of the eigenvalues in this band."""
        return float(self.weight.sum())

    def angle_density(self, angle: Array) -> Array:
        """Return the density of the angle."""
        panel = np.clip(np.searchsorted(self.ends, angle, side="right") - 1, 0, len(self.series) - 1)
        place = 2 * (angle - self.ends[panel]) / np.diff(self.ends)[panel] - 1
        values = np.polynomial.legendre.legvander(place, self.series.shape[1] - 1)
        return np.asarray((values * self.series[panel]).sum(axis=-1))

    def cumulative(self, x: ArrayLike) -> Array:
        """Return the share of the eigenvalues that lie in this band and below `x`."""
        angle = _Frame(self.lower, self.upper, self.power).angle(x)
        width = np.diff(self.ends)
        below = np.append(np.cumsum((width * self.series[:, 0])[::-1])[::-1], 0.0)
        panel = np.minimum(np.searchsorted(self.ends, angle, side="right") - 1, len(width) - 1)
        # The rest of the panel: the integral of a Legendre polynomial is a difference of two.
        place = 2 * (angle - self.ends[panel]) / width[panel] - 1
        values = np.polynomial.legendre.legvander(place.ravel(), self.series.shape[1]).reshape(*place.shape, -1)
        order = np.arange(1, self.series.shape[1])
        rest = self.series[panel, 0] * (1 - place)
        rest += ((values[..., :-2] - values[..., 2:]) / (2 * order + 1) * self.series[panel, 1:]).sum(axis=-1)
        return np.asarray(below[panel + 1] + width[panel] / 2 * rest, dtype=np.float64)


@dataclass(frozen=True)
class Law:
    """Limiting law of the eigenvalues of a covariance.

    Attributes
    ----------
    bands : tuple of Band
        Continuous part, in increasing order.
    atom : float
        Share of zero eigenvalues. Where eigenvalues fall without end, those below 1e-14 of the bulk's upper edge count
        as zero.
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


@dataclass(frozen=True)
class _Frame:
    """Angles of a band: from zero at its upper edge to `last` at its lower one, and the power of one from zero on."""

    lower: float
    upper: float
    power: int

    @property
    def last(self) -> float:
        """Angle of the lower edge."""
        return math.pi if self.lower > 0 else math.pi / 2

    @cached_property
    def _logarithms(self) -> tuple[float, float]:
        low, high = math.log(self.lower), math.log(self.upper)
        return (low + high) / 2, (high - low) / 2

    def eigenvalue(self, angle: Array) -> Array:
        """Return the eigenvalues at some angles."""
        if self.lower > 0:
            middle, half = self._logarithms
            return np.asarray(np.exp(middle + half * np.cos(angle)))
        return np.asarray(self.upper * np.cos(angle) ** self.power)

    def angle(self, eigenvalue: ArrayLike) -> Array:
        """Return the angles of some eigenvalues, or of the nearest ones in the band."""
        x = np.clip(np.asarray(eigenvalue, dtype=np.float64), self.lower, self.upper)
        if self.lower > 0:
            middle, half = self._logarithms
            return np.asarray(np.arccos(np.clip((np.log(x) - middle) / half, -1.0, 1.0)))
        return np.asarray(np.arccos((x / self.upper) ** (1 / self.power)))

    def slope(self, angle: Array) -> Array:
        """Return how fast the eigenvalue falls with the angle."""
        if self.lower > 0:
            return np.asarray(self.eigenvalue(angle) * self._logarithms[1] * np.sin(angle))
        return np.asarray(self.power * self.upper * np.cos(angle) ** (self.power - 1) * np.sin(angle))


def in_half_plane(logarithms: ComplexArray) -> bool:
    """Tell whether numbers have positive imaginary parts, up to rounding."""
    return bool(logarithms.imag.min() >= -1e-7 and logarithms.imag.max() <= np.pi + 1e-7)


def start(equations: Equations, z: complex) -> Point:
    """Solve at a point far from the spectrum."""
    guess = equations.start(z)
    point = _newton(equations, z, guess, guess)
    if point is None:
        raise NotConverged("the Stieltjes transform far from the spectrum", math.inf, _STEP_TOLERANCE, _ADVICE)
    return point


def advance(equations: Equations, point: Point, z: complex, *, inside: bool = False) -> Point:
    """Follow the solution from `point` straight to `z`.

    Here `z` is in the closed upper half-plane; on the real axis it is reached without crossing an edge. With `inside`
    solutions without density are refused. Raises `NotConverged` if the solution cannot be followed.
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
    height = min(_DETOUR, abs(math.log(point.z.real / x)))
    return advance(equations, advance(equations, point, x * (1 + height * 1j)), complex(x))


def around_nearest(equations: Equations, known: list[Point], x: float) -> Point:
    """Go to a real `x` as `around` does, from the nearest of the `known` solutions, to which the new one is added."""
    nearest = min(known, key=lambda point: abs(math.log(point.z.real / x)))
    found = around(equations, nearest, x)
    known.append(found)
    return found


def _attempt(equations: Equations, point: Point, z: complex, inside: bool) -> Point | None:
    """Take one step along the tangent and correct it; None if that fails.

    In the logarithm of z the tangent is exact far away and at a hard edge, where the unknowns are powers of z.
    """
    return _corrected(equations, z, _predicted(point, z), point, inside)


def _predicted(point: Point, z: complex) -> ComplexArray:
    """Return the state at z along the tangent of a solution in the logarithm of z."""
    move = complex(np.log(z / point.z)) * point.z
    return np.asarray(point.state + move * point.tangent)


def _corrected(equations: Equations, z: complex, guess: ComplexArray, point: Point, inside: bool) -> Point | None:
    """Return the solution next to a guess, which comes from `point`; None if there is none that will do."""
    trial = _newton(equations, z, guess, point.state)
    return None if trial is None or (inside and not _has_density(equations, trial)) else trial


def _has_density(equations: Equations, point: Point) -> bool:
    value = equations.transform(point.state, point.tangent)[0]
    return value.imag > _SMALLEST_IMAGINARY * abs(value)


def _newton(equations: Equations, z: complex, state: ComplexArray, before: ComplexArray) -> Point | None:
    """Return the solution next to a guess, or None: not found, on the wrong sheet, or too far from `before`."""
    last = math.inf
    for _ in range(_NEWTON_STEPS):
        try:
            with np.errstate(all="ignore"):
                gap, step, tangent = equations.newton(z, state)
            if not np.isfinite(gap).all():
                return None
        except np.linalg.LinAlgError:
            return None
        state = state + step
        size = np.abs(step).max()
        if not np.abs(state - before).max() < _LARGEST_JUMP:
            return None
        if last / 2 < size < _ROUNDING:
            # Steps that no longer fall are rounding, of which only a part is noticed.
            size = (np.abs(step) * equations.matters(state)).max()
        last = np.abs(step).max()
        if size < _STEP_TOLERANCE:
            if not equations.physical(state):
                return None
            return Point(z, state, tangent, float(np.abs(gap).max()))
    return None


def _newton_together(equations: Equations, z: Array, states: ComplexArray, before: ComplexArray) -> list[Point | None]:
    """Return what `_newton` does at several real points, shape (points,), from guesses of shape (points, unknowns)."""
    found: list[Point | None] = [None] * len(z)
    left, states = np.arange(len(z)), states.copy()
    for _ in range(_NEWTON_STEPS):
        try:
            with np.errstate(all="ignore"):
                gap, step, tangent = equations.newton(z[left].astype(np.complex128), states[left])
        except np.linalg.LinAlgError:
            break
        states[left] += step
        size, jump = np.abs(step).max(axis=1), np.abs(states[left] - before[left]).max(axis=1)
        # Comparisons with what is no number are false.
        going = jump < _LARGEST_JUMP
        for place in np.flatnonzero(going & (size < _STEP_TOLERANCE)).tolist():
            index, state = int(left[place]), states[left[place]]
            if equations.physical(state):
                point = Point(complex(z[index]), state, tangent[place], float(np.abs(gap[place]).max()))
                found[index] = point if _has_density(equations, point) else None
        left = left[going & ~(size < _STEP_TOLERANCE)]
        if not len(left):
            break
    return found


def averaged_tail(weight: Array, size: Array, values: Array, share: float) -> Array:
    """Replace the values of the largest members, of total probability at most `share`, by their mean; so the smallest.

    Nodes far out in the tail of a law have a band of the spectrum each, too narrow and too light to matter or to find.

    The members are ordered by their `size`, and their probabilities are `weight`, shape (nodes,); the values have shape
    (nodes, ...).
    """
    ascending, result = np.argsort(size), values.copy()
    for order in (ascending, ascending[::-1]):
        tail = order[np.cumsum(weight[order]) <= share]
        if len(tail):
            result[tail] = np.average(values[tail], axis=0, weights=weight[tail])
    return result


class _TooLight(NotConverged):
    """A band is lighter than one of a network."""


def lightest_band(eigenvalues: float) -> float:
    """Return the least share of the eigenvalues in a band, given the number of all of them.

    Lighter bands are those of single nodes of a rule, and not of a network.
    """
    return max(_FEWEST / eigenvalues, _LEAST_SHARE)


def find_law(equations: Equations, spacings: Sequence[float] = COARSE, lightest: float = 0.0) -> Law:
    """Find the support and the density on it.

    The distances of neighbours, in log x, of the search for bands are `spacings`; the next one is used if mass is
    missing. A band that the walk has not met has at least the mass `lightest`. Raises `NotConverged` if the density
    does not integrate to the mass that the ranks demand, to 1e-6, or a band is too light.
    """
    for spacing in spacings:
        try:
            found, next_to_zero = _search(equations, spacing, lightest)
        except _TooLight:
            raise  # another search finds it, too
        except NotConverged as error:
            failure = error
            continue
        missing, atom = _missing(equations, found), 1 - equations.mass
        if next_to_zero:
            missing, atom = 0.0, atom + missing
        if abs(missing) < _MASS_TOLERANCE:
            bands = [panels.band() for panels in reversed(found)]
            return Law(tuple(bands), atom, max(band.residual for band in bands))
        failure = _lost(equations, found)
    raise failure


def first_law(attempts: Iterable[tuple[_Kind, Sequence[float], float]]) -> tuple[_Kind, Law]:
    """Return the first equations of which `find_law`, with these arguments, finds the law, and that law.

    Raises the `NotConverged` of the last attempt.
    """
    for equations, spacings, lightest in attempts:
        try:
            return equations, find_law(equations, spacings, lightest)
        except NotConverged as error:
            failure = error
    raise failure


def _search(equations: Equations, spacing: float, lightest: float) -> tuple[list[_Panels], bool]:
    """Find all bands, the highest first, and whether the mass that they miss is next to zero.

    First are those that a walk meets, then those that it has passed unnoticed. Bands are resolved step by step, so that
    what is missing is known before all of them have their last digits.
    """
    bands, next_to_zero = _walk(equations, spacing), False
    most = len(bands) + _MOST_PASSED
    for tolerance in _TAILS:
        bands, next_to_zero = [_resolved(equations, band, tolerance) for band in bands], False
        error = _MASS_TOLERANCE if tolerance == _TAILS[-1] else _ABOVE_TAIL * tolerance * equations.mass
        while _missing(equations, bands) > error:
            if _missing(equations, bands) < lightest:
                raise _TooLight("the lightest of the bands", _missing(equations, bands), lightest, _ADVICE)
            hidden = _hidden(equations, bands, tolerance)
            none_above = hidden is None or hidden.upper < _lowest(equations, bands)
            if next_to_zero := none_above and _is_next_to_zero(equations, bands):
                break
            if hidden is None and _missing(equations, bands) < _ROUGH_MASS:
                break
            if hidden is None or len(bands) == most:
                raise _lost(equations, bands)
            if hidden.mass < lightest:
                raise _TooLight("the lightest of the bands", hidden.mass, lightest, _ADVICE)
            bands = sorted([*bands, hidden], key=lambda band: -band.lower)
    return bands, next_to_zero


def _missing(equations: Equations, bands: Sequence[_Panels]) -> float:
    """Return the mass that bands do not have."""
    return equations.mass - sum(band.mass for band in bands)


def _lowest(equations: Equations, bands: Sequence[_Panels]) -> float:
    """Return the place below which eigenvalues may count as zero, given the bands found, the highest first."""
    return _NOTHING * (bands[0].upper if bands else equations.top)


def _is_next_to_zero(equations: Equations, bands: Sequence[_Panels]) -> bool:
    r"""Return whether mass is missing, and nearly all of it belongs to eigenvalues that count as zero.

    The mass below `y` is read off at :math:`iy`, where :math:`y\,\mathrm{Im}\,m=\int y^2/(x^2+y^2)\,\rho(dx)`. The
    factor of the density is one far below `y`, and zero far above it.
    """
    missing = _missing(equations, bands)
    if not bands or missing < _MASS_TOLERANCE:
        return False
    y = _lowest(equations, bands)
    try:
        point = advance(equations, start(equations, 1e3j * equations.top), 1j * y)
    except NotConverged:
        return False
    below = y * equations.transform(point.state, point.tangent)[0].imag - (1 - equations.mass)
    known = sum(float(band.rule[1] @ (1 / (1 + (band.rule[0] / y) ** 2))) for band in bands)
    return below - known > _NEARLY_ALL * missing


def _lost(equations: Equations, bands: Sequence[_Panels]) -> NotConverged:
    """Return the error for bands that do not have all mass."""
    missing = abs(_missing(equations, bands))
    return NotConverged("the integral of the spectral density", missing, _MASS_TOLERANCE, _ADVICE)


def _walk(equations: Equations, spacing: float) -> list[_Panels]:
    """Scan downwards, a little above the real axis, and resolve every band met roughly until nearly all mass is found.

    The highest band is the first.
    """
    bands: list[_Panels] = []
    x = equations.top
    point = advance(equations, start(equations, 1e3j * x), x * (1 + 1j * spacing))
    while x > _lowest(equations, bands):
        x *= np.exp(-spacing)
        point = advance(equations, point, x * (1 + 1j * spacing))
        value, slope = equations.transform(point.state, point.tangent)
        # Outside the support Im m is proportional to the height above the axis.
        if (value - 1j * point.z.imag * slope).imag < 0.3 * value.imag:
            continue
        centre = _below(equations, point)
        if centre is None:
            continue  # at an edge: the next point is inside
        bands.append(_band(equations, centre, spacing, (-math.inf, bands[-1].lower if bands else math.inf), _TAILS[0]))
        x = bands[-1].lower
        if x == 0 or _missing(equations, bands) < _ROUGH_MASS:
            break
        point = advance(equations, point, x * (1 + 1j * spacing))
    return bands


def _below(equations: Equations, point: Point) -> Point | None:
    """Return the solution on the real axis below a point, None if there is no density."""
    try:
        centre = advance(equations, point, complex(point.z.real))
    except NotConverged:
        return None
    return centre if _has_density(equations, centre) else None


def _hidden(equations: Equations, bands: Sequence[_Panels], tolerance: float) -> _Panels | None:
    r"""Return a band that is not among those known, found from what their transform leaves of the whole; None if none.

    The mean of :math:`4y^4/((t-x)^2+y^2)^2` over the law of `t` is :math:`2y\,\mathrm{Im}(m-iym')` at :math:`x+iy`,
    and at least the mass between :math:`x-y` and :math:`x+y`. Less the mean over the known bands it is a bound of the
    mass that is missing there. Intervals that may have much of that are halved, those that may have most first.
    """
    zero = np.zeros(1), np.array([1 - equations.mass])
    eigenvalue, weight = (np.concatenate(parts) for parts in zip(zero, *(band.rule for band in bands), strict=True))
    missing, lowest = _missing(equations, bands), _lowest(equations, bands)
    places: list[tuple[float, Point]] = []

    def look(origin: Point, low: float, high: float) -> None:
        height = (high - low) / 2
        with suppress(NotConverged):
            point = advance(equations, origin, complex(low + height, height))
            value, slope = equations.transform(point.state, point.tangent)
            away = 1 / (eigenvalue - point.z)
            rest = value - weight @ away - 1j * height * (slope - weight @ away**2)
            # The series of the known bands are not exact.
            error = tolerance * (value - 1j * height * slope).imag
            insort(places, (2 * height * float(rest.imag - error), point), key=itemgetter(0))

    # From above each gap: steps that suit a small place are too small at a large one.
    known = [start(equations, 1e3j * equations.top), *(band.centre for band in bands)]
    ends = [equations.top, *(end for band in bands for end in (band.upper, band.lower)), 0.0]
    for origin, high, low in zip(known, ends[::2], ends[1::2], strict=True):
        if high > low:
            look(origin, low, high)
    while places and places[-1][0] > _MUCH * missing:
        bound, point = places.pop()
        x, height = point.z.real, point.z.imag
        # A much larger bound tells that the interval is too long.
        centre = _below(equations, point) if bound < missing / _MUCH else None
        if centre is not None:
            return _band(equations, centre, min(height / x, COARSE[0]), _gap(bands, x), tolerance)
        if height > _FINEST * x and x > lowest:
            look(point, x - height, x)
            look(point, x, x + height)
    return None


def _gap(bands: Sequence[_Panels], x: float) -> tuple[float, float]:
    """Return the ends of the gap around a place that is in no band."""
    lower = max((band.upper for band in bands if band.upper < x), default=-math.inf)
    return lower, min((band.lower for band in bands if band.lower > x), default=math.inf)


class _Interrupted(NotConverged):
    """No density on the way to the upper (1) or the lower (-1) edge: that edge belongs to another band.

    `inner` are the solutions on the way from the centre. The edge of this band is between the last of them that is
    in this band and `outer`.
    """

    def __init__(self, error: NotConverged, side: int, inner: list[Point], outer: float) -> None:
        super().__init__(error.solver, error.residual, error.tolerance, error.advice)
        self.side, self.inner, self.outer = side, inner, outer


def _band(equations: Equations, centre: Point, spacing: float, gap: tuple[float, float], tolerance: float) -> _Panels:
    """Resolve the band around a point, which is within a gap between other bands."""
    edges = list[_Edge]()
    for side, end in zip((-1, 1), gap, strict=True):
        stride = spacing
        edge = _edge(equations, centre, side * stride, math.nan)
        while (edge.place - end) * side >= 0 and stride >= _FINEST:
            # A stride over the gap to the next band.
            stride /= 4
            edge = _edge(equations, centre, side * stride, math.nan)
        edges.append(edge)
    return _resolved(equations, _Panels(equations, [centre], centre, *edges), tolerance)


def _resolved(equations: Equations, panels: _Panels, tolerance: float) -> _Panels:
    """Return a band resolved to a tolerance, cut short where its edges turn out to be those of other bands."""
    while True:
        try:
            panels.refine(tolerance)
        except _Interrupted as error:
            edge = _edge_between(equations, error)
            if edge.place in (panels.lower, panels.upper):
                raise error.__cause__ or error from None
            panels = panels.cut(error.side, edge)
        else:
            return panels


def _edge_between(equations: Equations, error: _Interrupted) -> _Edge:
    """Return the edge next to a gap that a longer stride has missed."""
    outer = error.outer
    for inner in reversed(error.inner):
        stride = abs(math.log(outer / inner.z.real)) / _LONGEST_STRIDE
        for _ in range(_FINER_STRIDES):
            stride /= 4
            edge = _edge(equations, inner, error.side * stride, outer)
            if not math.isnan(edge.place):
                return edge
        outer = inner.z.real
    # What ends the way is no edge.
    raise error.__cause__ or error


class _Edge(NamedTuple):
    """Where a band ends; if that is at zero, the density next to it is like ``x**(1/power - 1)``."""

    place: float
    power: int = 1


def _edge(equations: Equations, point: Point, spacing: float, limit: float) -> _Edge:
    """Follow the density along the real axis until its square, linear in the distance, vanishes, or down to zero.

    Edges beyond a limit are not searched for, and the result is then not a number. A limit that is not a number is
    none.
    """
    longest, before, first = abs(spacing), (math.nan, math.nan), point.z.real
    while True:
        x = point.z.real
        if (limit - x) * spacing <= 0:
            return _Edge(math.nan)
        value, slope = equations.transform(point.state, point.tangent)
        if equations.hard_edge and x < _HARD * first:
            return _Edge(0.0, round(1 / (1 + x * slope.imag / value.imag)))
        # Newton's estimate of the root of x (Im m)^2.
        logarithmic = 2 * slope.imag / value.imag + 1 / x
        away = 1 / abs(logarithmic) if logarithmic * spacing < 0 else math.inf
        place = float(x + np.sign(spacing) * away)
        # The error of an estimate falls as the square of the distance.
        known, error = away < before[0], abs(place - before[1])
        if away < _NEXT * x or (known and error * (away / before[0]) ** 2 < _EDGE_TOLERANCE * x):
            return _Edge(place)
        move, known, before = min(0.9 * away, longest * x), known and error < _KNOWN * away, (away, place)
        z = complex(x + np.sign(spacing) * move)
        if known and move < longest * x:
            # Next to an edge the state is linear in the root of the distance.
            along = np.sign(spacing) * 2 * away * (1 - math.sqrt(1 - move / away))
            trial = _corrected(equations, z, point.state + along * point.tangent, point, inside=True)
        else:
            trial = _attempt(equations, point, z, inside=True)
        if trial is None:
            longest = move / x / 2
            if longest < 1e-13 and x < _NOTHING * first:
                # Rounding hides how far beyond the last solution the edge is, and what is there counts as zero.
                return _Edge(x)
            if longest < 1e-13:
                raise NotConverged("an edge of the spectrum", away / x, _EDGE_TOLERANCE, _ADVICE)
        else:
            # Where the tangent leads to the solution there is no gap on the way: so down to a hard edge.
            straight = np.abs(trial.state - _predicted(point, z)).max() < _STRAIGHT
            most = _LARGEST_SHARE if straight else _LONGEST_STRIDE * abs(spacing)
            point, longest = trial, min(2 * longest, most)


class _Panel(NamedTuple):
    """A part of a band: its angles from `start` to `end`, and there the solutions and the density of the angle."""

    start: float
    end: float
    points: tuple[Point, ...]
    density: Array
    series: Array

    @property
    def rule(self) -> tuple[Array, Array]:
        """Angles of the solutions, and weights for the integral of the density."""
        half = (self.end - self.start) / 2
        return (self.start + self.end) / 2 + half * _NODES, half * _WEIGHTS * self.density


def _angles(start: float, end: float) -> Array:
    """Return the angles at the nodes of a panel."""
    return np.asarray((start + end) / 2 + (end - start) / 2 * _NODES)


class _Panels:
    """The density of the angle on one band, on panels that are halved where it is not resolved."""

    def __init__(
        self, equations: Equations, solved: Sequence[Point], centre: Point, lowest: _Edge, highest: _Edge
    ) -> None:
        self.lower, self.upper, self.centre = lowest.place, highest.place, centre
        self._equations, self._edges = equations, (lowest, highest)
        self._frame = _Frame(lowest.place, highest.place, lowest.power)
        # The largest eigenvalue first.
        self._solved = list(solved)
        self._angles = [float(self._frame.angle(point.z.real)) for point in solved]
        self.panels: list[_Panel] = []

    def cut(self, side: int, edge: _Edge) -> _Panels:
        """Return the band with another upper (1) or lower (-1) edge, not yet resolved."""
        lowest, highest = (self._edges[0], edge) if side == 1 else (edge, self._edges[1])
        inside = [point for point in self._solved if lowest.place < point.z.real < highest.place]
        return _Panels(self._equations, inside, self.centre, lowest, highest)

    def refine(self, tolerance: float) -> None:
        """Halve panels until the last terms of each series are below a share of the mean density.

        A band with less than `_LIGHT` of the mass is resolved as if it had so much: rounding hides further digits.
        """
        self.panels = self.panels or [self._panel(0.0, self._frame.last)]
        while True:
            allowed = tolerance * max(self.mass, _LIGHT * self._equations.mass) / self._frame.last
            panels: list[_Panel] = []
            for panel in self.panels:
                if np.abs(panel.series[-_LAST_TERMS:]).max() <= allowed or panel.end - panel.start < _NARROWEST:
                    panels.append(panel)
                else:
                    middle = (panel.start + panel.end) / 2
                    halves = (panel.start, middle), (middle, panel.end)
                    self._guessed(panel, np.concatenate([_angles(*half) for half in halves]))
                    panels += [self._panel(*half) for half in halves]
            done = len(panels) == len(self.panels)
            self.panels = panels
            if done:
                return

    @property
    def rule(self) -> tuple[Array, Array]:
        """Eigenvalues, and weights of the continuous spectrum there."""
        angles, weights = zip(*(panel.rule for panel in self.panels), strict=True)
        return self._frame.eigenvalue(np.concatenate(angles)), np.concatenate(weights)

    @property
    def mass(self) -> float:
        """Integral of the density."""
        return sum((panel.end - panel.start) * float(panel.series[0]) for panel in self.panels)

    def _panel(self, start: float, end: float) -> _Panel:
        angles = _angles(start, end)
        points = self._along(angles)
        imaginary = [self._equations.transform(p.state, p.tangent)[0].imag for p in points]
        density = np.array(imaginary) / np.pi * self._frame.slope(angles)
        return _Panel(start, end, tuple(points), density, _TO_SERIES @ density)

    def _guessed(self, panel: _Panel, angles: Array) -> None:
        """Solve together at the nodes of a panel's halves, from the polynomials through its solutions.

        Where that fails a solution is left to be walked to.
        """
        if self._equations.at_once == 1:
            return
        states = np.stack([point.state for point in panel.points])
        nearest = np.abs(np.subtract.outer(angles, _angles(panel.start, panel.end))).argmin(axis=1)
        guesses, eigenvalues = _TO_HALVES @ states, self._frame.eigenvalue(angles)
        for first in range(0, len(angles), self._equations.at_once):
            these = slice(first, first + self._equations.at_once)
            found = _newton_together(self._equations, eigenvalues[these], guesses[these], states[nearest[these]])
            for angle, point in zip(angles[these].tolist(), found, strict=True):
                place = bisect_left(self._angles, angle)
                if point is not None and angle not in self._angles[place : place + 1]:
                    self._angles.insert(place, angle)
                    self._solved.insert(place, point)

    def _along(self, angles: Array) -> list[Point]:
        """Solve at increasing angles, walking both ways from a solution between them, or the nearest one."""
        first = bisect_left(self._angles, (angles[0] + angles[-1]) / 2)
        near = [max(first - 1, 0), min(first, len(self._angles) - 1)]
        place = min(near, key=lambda index: abs(2 * self._angles[index] - angles[0] - angles[-1]))
        before = int(np.searchsorted(angles, self._angles[place]))
        for walk in (range(before - 1, -1, -1), range(before, len(angles))):
            for index in walk:
                place = bisect_left(self._angles, angles[index])
                if angles[index] in self._angles[place : place + 1]:
                    continue
                near = [near for near in (place - 1, place) if 0 <= near < len(self._angles)]
                nearest = min(near, key=lambda near: abs(self._angles[near] - angles[index]))
                x = complex(self._frame.eigenvalue(angles[index]))
                known = self._solved[nearest]
                found = _corrected(self._equations, x, self._guess(float(angles[index]), nearest), known, inside=True)
                try:
                    point = found or advance(self._equations, known, x, inside=True)
                except NotConverged as error:
                    raise self._interrupted(error, float(angles[index]), nearest) from error
                self._angles.insert(place, float(angles[index]))
                self._solved.insert(place, point)
        return [self._solved[bisect_left(self._angles, angle)] for angle in angles]

    def _guess(self, angle: float, nearest: int) -> ComplexArray:
        """Return the cubic through the nearest solution and the one on the other side, or beyond, with their slopes."""
        other = nearest + (1 if angle > self._angles[nearest] else -1)
        if not 0 <= other < len(self._angles):
            other = 2 * nearest - other
        if not 0 <= other < len(self._angles):
            other = nearest
        pair = (nearest, other)
        angles = np.array([self._angles[place] for place in pair])
        states = np.stack([self._solved[place].state for place in pair])
        slopes = -self._frame.slope(angles)[:, None] * np.stack([self._solved[place].tangent for place in pair])
        step, width = angle - angles[0], angles[1] - angles[0]
        # Newton's divided differences, each solution taken twice.
        second, third = np.zeros_like(states)
        if width != 0:
            mean = (states[1] - states[0]) / width
            second, third = mean - slopes[0], slopes[0] + slopes[1] - 2 * mean
        share = step / (width or 1.0)
        return np.asarray(states[0] + step * (slopes[0] + share * (second + (share - 1) * third)))

    def _interrupted(self, error: NotConverged, angle: float, nearest: int) -> _Interrupted:
        """Return the error for an angle that was not reached from a solution."""
        centre, place = self._solved.index(self.centre), bisect_left(self._angles, angle)
        upper = place <= centre
        inner = self._solved[place : centre + 1][::-1] if upper else self._solved[centre:place]
        inside = centre >= nearest >= place if upper else centre <= nearest < place
        outer = self._frame.eigenvalue(np.array(angle)) if inside else self._solved[nearest].z.real
        return _Interrupted(error, 1 if upper else -1, inner, float(outer))

    def band(self) -> Band:
        """Return what was found."""
        residual = max(point.residual for panel in self.panels for point in panel.points)
        ends = np.array([0.0, *(panel.end for panel in self.panels)])
        return _band_of(self._frame, ends, np.stack([panel.density for panel in self.panels]), residual)


def _band_of(frame: _Frame, ends: Array, density: Array, residual: float) -> Band:
    """Return the band whose density of the angle is known at the nodes of panels, shape (panels, nodes)."""
    half, middle = np.diff(ends)[:, None] / 2, (ends[1:] + ends[:-1])[:, None] / 2
    angles = middle + half * _NODES
    values = np.stack([frame.eigenvalue(angles), density / frame.slope(angles), half * _WEIGHTS * density])
    eigenvalue, of_eigenvalue, weight = values.reshape(3, -1)[:, ::-1]
    series = density @ _TO_SERIES.T
    return Band(frame.lower, frame.upper, eigenvalue, of_eigenvalue, weight, ends, series, residual, frame.power)


def mean_law(parts: Sequence[tuple[float, Law]]) -> Law:
    """Return the mean of laws that are nearly alike: of their edges, and of the densities between these.

    The weight of a law comes before it. A law with another number of bands than that of the largest weight is left out.
    """
    _, first = max(parts, key=lambda part: part[0])
    alike = [(share, law) for share, law in parts if len(law.bands) == len(first.bands)]
    if len(alike) == 1:
        return first
    weight = np.array([share for share, _ in alike]) / sum(share for share, _ in alike)
    bands = [_mean_band(weight, bands) for bands in zip(*(law.bands for _, law in alike), strict=True)]
    return Law(tuple(bands), first.atom, max(law.residual for _, law in alike))


def _mean_band(weight: Array, bands: Sequence[Band]) -> Band:
    """Return the mean of bands at equal angles, on the panels of all."""
    upper = float(np.exp(weight @ np.log([band.upper for band in bands])))
    # All or none of them reach zero: that follows from the sizes.
    lower = float(np.exp(weight @ np.log([band.lower for band in bands]))) if bands[0].lower > 0 else 0.0
    ends = np.unique(np.concatenate([band.ends for band in bands]))
    angles = (ends[1:] + ends[:-1])[:, None] / 2 + np.diff(ends)[:, None] / 2 * _NODES
    density = sum(share * band.angle_density(angles) for share, band in zip(weight, bands, strict=True))
    return _band_of(
        _Frame(lower, upper, bands[0].power), ends, np.asarray(density), max(band.residual for band in bands)
    )
