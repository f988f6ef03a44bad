"""Gaussian averages of a function at every mean and scale: E f(m + s z) and its Hermite coefficients in z.

Which method a function gets:

* polynomials: Gauss-Hermite with just enough nodes to be exact;
* functions linear between kinks (relu, sign, hardtanh, ...): closed form;
* sin, cos, and erf at large scale: closed form (E erf^2 through Owen's T);
* analytic functions: the trapezoidal rule in z, exponentially convergent with a step set by the width of the strip of
  analyticity divided by the scale;
* everything else, and analytic functions at very large scale: Gauss-Legendre panels split at the kinks and wherever
  the function needs it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
import scipy.special
from numpy.typing import ArrayLike, NDArray

from gradstep.checks import integer
from gradstep.errors import InvalidInput
from gradstep.gaussian import structure
from gradstep.gaussian.elementary import ELEMENTARY
from gradstep.gaussian.expression import Apply
from gradstep.gaussian.functions import ScalarFunction
from gradstep.gaussian.many_means import at_many_means
from gradstep.gaussian.panels import PANEL_ORDER, legendre_rule, resolved_panels, without_tails
from gradstep.gaussian.quadrature import gaussian_density, hermite_rule
from gradstep.resolution import NOTHING

__all__ = ["Smoothed", "hermite_smoothed", "hermite_values", "smoothed", "smoothed_mean"]

Array = NDArray[np.float64]
# From nodes z and probability weights, nodes on the last axis, to what takes values of f there to statistics, which are
# on the first axis.
Reduction = Callable[[Array, Array], Callable[[Array], Array]]

_DIGITS = 32.0  # -ln of the relative error aimed at in the trapezoidal rule
_WIDEST_SHIFT = 8.0
_TRAPEZOID_LIMIT = 500
# Values of a function at once, a quarter of a megabyte: blocks of a megabyte take half as long again, because their
# memory is given back to the system and fetched anew.
_CHUNK = 1 << 15
# Elements at once where each has some two hundred nodes of its own: with four times as many, averages take up to 1.7
# times as long.
_ROWS = 64
_MOST_SINES = 8  # in a closed form, which takes every pair of them
_ONE_BUCKET = 20_000
_LARGEST_RANGE = 60.0
# Logarithm of a square that counts as zero beside the largest of the averages taken together and of f(-1), f(0), f(1):
# values of 1e-100 of that one.
_NO_MASS = -460.0
# Gauss-Legendre with 24 nodes resolves the square of sin(t x), whose effective strip is 16 / t, on a panel this wide.
_PANEL_PER_STRIP = 1.0
_NARROWEST_UNIFORM = 0.3
# tanh is taken from exp(2 x) with an error of 1e-17 of one. Where arguments are small, tanh is small too, and it is
# evaluated directly. Only the scale of the arguments is looked at, not their mean: elements that are evaluated together
# all are so if the smallest of their scales is below this.
_SMALLEST_ARGUMENT = 1e-3
# Scales over the mean below which nodes may fall on a kink by rounding.
_GRAINY = 1e-9


class Smoothed(NamedTuple):
    """Averages of f(m + s z) over z ~ N(0, 1), arrays of one shape.

    Attributes
    ----------
    mean : ndarray
        E f(m + s z).
    slope : ndarray
        E z f(m + s z), which is s E f'(m + s z) where f is continuous.
    second_moment : ndarray
        E f(m + s z)^2.
    residual_variance : ndarray
        E (f - mean - slope z)^2 = second_moment - mean^2 - slope^2, computed without cancellation; >= 0.
    """

    mean: Array
    slope: Array
    second_moment: Array
    residual_variance: Array


def hermite_values(x: ArrayLike, order: int) -> Array:
    """Return the orthonormal Hermite polynomials ``h_k(x) = He_k(x) / sqrt(k!)``, shape ``(order + 1, *x.shape)``.

    Raises `InvalidInput` if `order` is negative or no integer.

    Docs, "Gaussian calculus", equation (G1).
    """
    order = integer("order", order, 0)
    points = np.asarray(x, dtype=np.float64)
    values = np.empty((order + 1, *points.shape))
    for k, polynomial in enumerate(_hermite_polynomials(points, order)):
        values[k] = polynomial
    return values


def _hermite_polynomials(points: Array, order: int) -> Iterator[Array]:
    """Yield the values of one polynomial after the other."""
    before, values = np.zeros_like(points), np.ones_like(points)
    for k in range(order + 1):
        yield values
        if k < order:
            after = points * values
            before *= math.sqrt(k)
            after -= before
            after /= math.sqrt(k + 1)
            before, values = values, after


def smoothed(function: ScalarFunction, mean: ArrayLike, scale: ArrayLike) -> Smoothed:
    """Return E f, E z f, E f^2 and the residual variance of f(mean + scale z).

    Means and scales, which are at least zero, broadcast against each other. The absolute error is below 1e-10 times the
    size of f (typically 1e-14). Raises `InvalidInput` if the scale is negative, anything is not finite, or f grows so
    fast that the averages are infinite.

    Docs, "Gaussian calculus", equation (G4).
    """
    m, s, shape = _arguments(mean, scale)
    with np.errstate(over="ignore", invalid="ignore"):
        closed = _closed_form(function, m, s)
        if closed is None:
            closed = _by_quadrature(function, m, s, _first_moments, 3)
        first, slope, residual = closed
        still = s == 0
        if still.any():
            first[still], slope[still], residual[still] = function(m[still]), 0.0, 0.0
        residual = np.maximum(residual, 0.0)
        second = residual + first * first + slope * slope
    if not np.isfinite(second).all():
        raise _no_finite_moments(function, s)
    return Smoothed(first.reshape(shape), slope.reshape(shape), second.reshape(shape), residual.reshape(shape))


def smoothed_mean(function: ScalarFunction, mean: ArrayLike, scale: ArrayLike) -> Array:
    """Return E f(mean + scale z) alone, which takes less work; of an error function it is known in closed form.

    Means and scales are as in `smoothed`. Raises `InvalidInput` as `smoothed` does.

    Docs, "Gaussian calculus", equation (G4).
    """
    kind, data = _plan(function)
    m, s, shape = _arguments(mean, scale)
    if kind == "erf":
        slope, intercept = data
        return _error_mean((slope * m + intercept) / np.hypot(1.0, slope * s)).reshape(shape)
    with np.errstate(over="ignore", invalid="ignore"):
        closed = _closed_form(function, m, s)
        first: Array = (_by_quadrature(function, m, s, _only_mean, 1) if closed is None else closed)[0]
        still = s == 0
        first[still] = function(m[still])
    if not np.isfinite(first).all():
        raise _no_finite_moments(function, s)
    return first.reshape(shape)


def hermite_smoothed(function: ScalarFunction, mean: ArrayLike, scale: ArrayLike, order: int) -> Array:
    """Return E f(mean + scale z) h_k(z) for k = 0..order, h_k the orthonormal probabilists' Hermite polynomials.

    Means and scales are as in `smoothed`, and the averages have the shape ``(order + 1, *broadcast shape)``. Raises
    `InvalidInput` as `smoothed` does, and if `order` is negative.
    """
    m, s, shape = _arguments(mean, scale)
    order = integer("order", order, 0)

    def coefficients(z: Array, weight: Array) -> Callable[[Array], Array]:
        if z.ndim == 1:
            polynomials = hermite_values(z, order) * weight
            return lambda values: np.asarray(polynomials @ values.T)

        def one_by_one(values: Array) -> Array:
            # All polynomials at once would leave the processor's cache.
            weighted = values * weight
            return np.stack([np.einsum("ij,ij->i", each, weighted) for each in _hermite_polynomials(z, order)])

        return one_by_one

    with np.errstate(over="ignore", invalid="ignore"):
        result = _averages(function, m, s, coefficients, order + 1, order)
    still = s == 0
    if still.any():
        result[:, still] = 0.0
        result[0, still] = function(m[still])
    if not np.isfinite(result).all():
        raise _no_finite_moments(function, s)
    return result.reshape(order + 1, *shape)


def _arguments(mean: ArrayLike, scale: ArrayLike) -> tuple[Array, Array, tuple[int, ...]]:
    m, s = np.broadcast_arrays(np.asarray(mean, dtype=np.float64), np.asarray(scale, dtype=np.float64))
    if not np.isfinite(m).all():
        raise InvalidInput("mean", mean, "finite numbers")
    if not (np.isfinite(s).all() and (s >= 0).all()):
        raise InvalidInput("scale", scale, "finite numbers >= 0")
    return m.ravel(), s.ravel(), m.shape


def _by_quadrature(function: ScalarFunction, m: Array, s: Array, reduce: Reduction, count: int) -> Array:
    """Return `count` statistics of low order by quadrature, at many means of one scale from few of them."""
    averages = partial(_averages, function, reduce=reduce, count=count, order=0)
    # A polynomial needs few nodes. The averages of an exponential differ so much in size within a panel of means that
    # the small ones would lose their digits there.
    if _plan(function)[0] == "polynomial" or _growth(function) is None:
        return averages(m, s)
    return at_many_means(averages, m, s)


def _only_mean(z: Array, weight: Array) -> Callable[[Array], Array]:
    form = "ij,j->i" if z.ndim == 1 else "ij,ij->i"
    return lambda values: np.einsum(form, values, weight)[None]


def _first_moments(z: Array, weight: Array) -> Callable[[Array], Array]:
    if z.ndim == 1:
        line = np.stack([np.ones_like(z), z])
        projection = (line * weight).T

        def of_common_nodes(values: Array) -> Array:
            fitted = values @ projection
            # One array of this size at a time: memory for a second one would be fetched from the system at each call.
            rest = fitted @ line
            np.subtract(values, rest, out=rest)
            np.square(rest, out=rest)
            return np.stack([*fitted.T, rest @ weight])

        return of_common_nodes

    def of_own_nodes(values: Array) -> Array:
        weighted = weight * values
        mean, slope = weighted.sum(-1), np.einsum("ij,ij->i", weighted, z)
        rest = values - mean[:, None] - slope[:, None] * z
        return np.stack([mean, slope, np.einsum("ij,ij,ij->i", weight, rest, rest)])

    return of_own_nodes


# --------------------------------------------------------------------------------------------------------------------
# Closed forms: arrays (mean, slope, residual variance), or None


def _closed_form(function: ScalarFunction, m: Array, s: Array) -> Array | None:
    kind, data = _plan(function)
    if kind == "piecewise_linear":
        return _piecewise_linear(data, m, s)
    if kind == "waves":
        return _waves(data, m, s)
    if kind == "erf":
        slope, intercept = data
        if np.min(np.abs(slope) * s, initial=np.inf) >= 2.0:
            return _error_function(slope * m + intercept, slope * s)
    return None


@lru_cache(maxsize=512)
def _plan(function: ScalarFunction) -> tuple[str, Any]:
    """Return the method for a function and what the method needs to know."""
    expression = function.expression
    if expression is None:
        return ("panels", None)
    degree = structure.degree(expression)
    if degree is not None:
        return ("polynomial", degree)
    if structure.is_piecewise_linear(expression):
        return ("piecewise_linear", _segments(function))
    found = structure.waves(expression)
    if found is not None and len(found.sines) <= _MOST_SINES:
        return ("waves", found)
    if isinstance(expression, Apply):
        line = structure.affine(expression.argument)
        if line is not None and expression.name in ("erf", "erf_scaled"):
            # In units in which the function is 2 Phi(y) - 1.
            unit = math.sqrt(2.0) if expression.name == "erf" else 1.0
            return ("erf", (unit * line[0], unit * line[1]))
    if not function.kinks and structure.strip(expression) > 0:
        return ("trapezoid", structure.strip(expression))
    return ("panels", None)


def _segments(function: ScalarFunction) -> tuple[Array, Array, Array]:
    """Return kinks, and slope and intercept of every segment between them."""
    kinks = np.asarray(function.kinks)
    edges = np.concatenate([[kinks[0] - 3.0], kinks, [kinks[-1] + 3.0]]) if kinks.size else np.array([-1.0, 1.0])
    width = np.diff(edges)
    left, right = edges[:-1] + 0.25 * width, edges[:-1] + 0.75 * width
    low, high = function(left), function(right)
    slope = (high - low) / (right - left)
    return kinks, slope, low - slope * left


def _piecewise_linear(segments: tuple[Array, Array, Array], m: Array, s: Array) -> Array:
    kinks, slopes, intercepts = segments
    spread = np.where(s > 0, s, 1.0)
    ends = [(np.clip((kink - m) / spread, -40.0, 40.0)) for kink in kinks]
    density = [gaussian_density(end) for end in ends]
    below = [scipy.special.ndtr(end) for end in ends]
    above = [scipy.special.ndtr(-end) for end in ends]
    moments = []
    for j in range(len(slopes)):
        if not ends:
            moments.append((np.ones_like(m), np.zeros_like(m), np.ones_like(m)))
        elif j == 0:
            moments.append((below[0], -density[0], below[0] - ends[0] * density[0]))
        elif j == len(ends):
            moments.append((above[-1], density[-1], above[-1] + ends[-1] * density[-1]))
        else:
            # The difference of the smaller tails keeps its relative accuracy.
            zeroth = np.where(ends[j - 1] > 0, above[j - 1] - above[j], below[j] - below[j - 1])
            first = density[j - 1] - density[j]
            moments.append((zeroth, first, zeroth + ends[j - 1] * density[j - 1] - ends[j] * density[j]))
    mean, slope, residual = np.zeros_like(m), np.zeros_like(m), np.zeros_like(m)
    for a, b, (zeroth, first, second) in zip(slopes, intercepts, moments, strict=True):
        level = a * m + b
        mean += level * zeroth + a * s * first
        slope += level * first + a * s * second
    for a, b, (zeroth, first, second) in zip(slopes, intercepts, moments, strict=True):
        level, tilt = a * m + b - mean, a * s - slope
        residual += level * level * zeroth + 2 * level * tilt * first + tilt * tilt * second
    return np.stack([mean, slope, residual])


def _waves(function: structure.Waves, m: Array, s: Array) -> Array:
    """With ``p = u_j u_k``, ``u_j = f_j s``, two sines have ``cosh p`` and ``sinh p`` less what mean and slope take."""
    mean, slope, residual = function.slope * m + function.intercept, function.slope * s, np.zeros_like(m)
    drawn = []
    for amplitude, frequency, phase in function.sines:
        u, angle = frequency * s, frequency * m + phase
        damping, sine, cosine = np.exp(-0.5 * u * u), amplitude * np.sin(angle), amplitude * np.cos(angle)
        mean += damping * sine
        slope = slope + u * damping * cosine
        drawn.append((u, sine, cosine))
    for j, (u, sine, cosine) in enumerate(drawn):
        for other, other_sine, other_cosine in drawn[: j + 1]:
            even, odd = _hyperbolic(u, other)
            residual += (1.0 if other is u else 2.0) * (even * sine * other_sine + odd * cosine * other_cosine)
    return np.stack([mean, slope, residual])


def _hyperbolic(u: Array, v: Array) -> tuple[Array, Array]:
    """Return ``cosh(u v) - 1`` and ``sinh(u v) - u v``, both times ``exp(-(u^2 + v^2) / 2)``, to the last digits."""
    p, damping = u * v, np.exp(-0.5 * (u * u + v * v))
    near, far = 0.5 * np.exp(-0.5 * (u - v) ** 2), 0.5 * np.exp(-0.5 * (u + v) ** 2)
    small, q = np.abs(p) < 0.5, np.clip(p, -0.5, 0.5)
    series = q**3 / 6 * (1 + q**2 / 20 * (1 + q**2 / 42 * (1 + q**2 / 72 * (1 + q**2 / 110))))
    even = np.where(small, 2 * np.sinh(q / 2) ** 2 * damping, near + far - damping)
    return even, np.where(small, series * damping, near - far - p * damping)


def _error_mean(argument: Array) -> Array:
    """Return ``2 Phi(x) - 1``."""
    return np.asarray(scipy.special.erf(argument * math.sqrt(0.5)))


def _error_function(m: Array, s: Array) -> Array:
    width = np.hypot(1.0, s)
    argument = m / width
    mean = _error_mean(argument)
    slope = 2 * s / width * gaussian_density(argument)
    second = 1.0 - 8.0 * scipy.special.owens_t(argument, 1.0 / np.sqrt(1.0 + 2.0 * s * s))
    return np.stack([mean, slope, second - mean**2 - slope**2])


# --------------------------------------------------------------------------------------------------------------------
# Quadrature


def _averages(function: ScalarFunction, m: Array, s: Array, reduce: Reduction, count: int, order: int) -> Array:
    """Return `count` statistics per element, from nodes fine enough for Hermite degree `order`."""
    kind, data = _plan(function)
    if kind == "polynomial":
        nodes, weight = hermite_rule(max(data, (data + order) // 2, 1) + 1)
        return _on_common_nodes(function, m, s, nodes, weight, reduce, count)
    if kind in ("panels", "piecewise_linear"):
        return _on_panels(function, m, s, reduce, count, order)
    strip = data if kind == "trapezoid" else function.pole_distance
    result = np.empty((count, m.size))
    level = _trapezoid_level(strip, s, order)
    limit = _trapezoid_level_limit(order)
    top = level.max(initial=0)
    if m.size * _TRAPEZOID_LIMIT * 2.0 ** (0.25 * (top - limit)) <= _ONE_BUCKET:
        level = np.full_like(level, top)
    for value in np.unique(level):
        chosen = level == value
        everything = bool(chosen.all())
        mm, ss = (m, s) if everything else (m[chosen], s[chosen])
        if value > limit:
            part = _on_panels(function, mm, ss, reduce, count, order)
        else:
            part = _on_trapezoid(function, mm, ss, int(value), reduce, count, order)
        if everything:
            return part
        result[:, chosen] = part
    return result


def _on_common_nodes(
    function: ScalarFunction, m: Array, s: Array, z: Array, weight: Array, reduce: Reduction, count: int
) -> Array:
    # Where the trapezoidal rule has few nodes, s z is far from overflow: only a saturated mean can be beyond numbers.
    exponential = _exponential(function)
    rows = max(1, _CHUNK // z.size)
    result, statistics = np.empty((count, m.size)), reduce(z, weight)
    for start in range(0, m.size, rows):
        part = slice(start, start + rows)
        if exponential is None or abs(exponential[1]) * s[part].min() < _SMALLEST_ARGUMENT:
            values = function(m[part, None] + s[part, None] * z)
        else:
            values = _through_exponentials(*exponential, m[part], s[part], z)
        result[:, part] = statistics(values)
    return result


@lru_cache(maxsize=512)
def _exponential(function: ScalarFunction) -> tuple[Callable[[Array], Array], float, float] | None:
    """Return how to get a function of ``exp(slope x + intercept)`` from that, if it is one."""
    expression = function.expression
    if not isinstance(expression, Apply) or expression.derivative:
        return None
    kernel, line = ELEMENTARY[expression.name].of_exponential, structure.affine(expression.argument)
    return None if kernel is None or line is None else (kernel, *line)


def _through_exponentials(
    kernel: Callable[[Array], Array], slope: float, intercept: float, m: Array, s: Array, z: Array
) -> Array:
    """Return a function of ``exp(slope x + intercept)`` at ``x = m + s z``; many elements share their scale."""
    scales, which = np.unique(s, return_inverse=True)
    if 2 * len(scales) > len(s):
        # Hardly any are shared.
        values = (slope * s)[:, None] * z
        values += (slope * m + intercept)[:, None]
        return kernel(np.exp(values, out=values))
    values = np.exp((slope * scales)[:, None] * z)[which]
    values *= np.exp(slope * m + intercept)[:, None]
    return kernel(values)


def trapezoidal_step(strip: ArrayLike, order: int = 1) -> Array:
    """Return the widest step of a trapezoidal rule over a standard normal whose relative error is below 1e-13.

    The error of step h is exp(-2 pi y / h) times the integrand's size on the line Im z = y, for any y inside the
    strip; the Gaussian contributes exp(y^2 / 2) and h_k at most exp(2 y sqrt k).

    The `strip` is the distance of the integrand's nearest pole from the real axis, and `order` the degree of the
    Hermite polynomial beside it.
    """
    y = np.minimum(strip, _WIDEST_SHIFT)
    return np.asarray(2 * math.pi * y / (_DIGITS + 0.5 * y * y + 2 * y * math.sqrt(order)))


def _widest_step(order: int) -> float:
    return float(trapezoidal_step(math.inf, order))


def _trapezoid_level(strip: float, s: Array, order: int) -> NDArray[np.int64]:
    """Return the number of divisions (by the fourth root of 2) of the widest step that every scale needs."""
    with np.errstate(divide="ignore"):
        step = trapezoidal_step(strip / s, order)
    return np.maximum(np.ceil(4 * np.log2(_widest_step(order) / step) - 1e-9), 0).astype(np.int64)


def _trapezoid_level_limit(order: int) -> int:
    span = 2 * _half_range(order)
    return int(4 * math.log2(max(_TRAPEZOID_LIMIT * _widest_step(order) / span, 1.0)))


def _half_range(order: int) -> float:
    return 8.8 if order <= 2 else 8.8 + min(6.0, 0.6 * math.sqrt(order))


@lru_cache(maxsize=256)
def _trapezoid_rule(level: int, order: int, half_range: float) -> tuple[Array, Array]:
    step = _widest_step(order) * 2.0 ** (-0.25 * level)
    count = math.ceil(half_range / step)
    nodes = step * np.arange(-count, count + 1)
    weights = step * gaussian_density(nodes)
    return nodes, weights / weights.sum()


def _on_trapezoid(
    function: ScalarFunction, m: Array, s: Array, level: int, reduce: Reduction, count: int, order: int
) -> Array:
    half_range = _sufficient_range(function, m, s, order)
    z, weight = _trapezoid_rule(level, order, half_range)
    return _on_common_nodes(function, m, s, z, weight, reduce, count)


def _sufficient_range(function: ScalarFunction, m: Array, s: Array, order: int) -> float:
    """Return how far out in z the mass of z^2 f^2 reaches: 8.8 unless the function grows fast."""
    power = _growth(function)
    if power is not None:
        return _range_for_power(power, order)
    # If the mean is many scales from a bump, only values of z with no mass reach it: such an average counts as zero.
    with np.errstate(divide="ignore"):
        around_zero = 2 * np.log(np.abs(function(np.array([-1.0, 0.0, 1.0]))).max())
    log_mass: list[Array] = []
    z = 0.0
    while True:
        size = np.maximum(np.abs(function(m + s * z)), np.abs(function(m - s * z)))
        if z >= _LARGEST_RANGE or not np.isfinite(size).all():
            raise _no_finite_moments(function, s)
        with np.errstate(divide="ignore"):
            log_mass.append(2 * np.log(size * max(z, 1.0)) - 0.5 * z * z)
        z += 1.0
        if z > _half_range(order):
            most = np.max(log_mass, axis=0)
            nothing = most.max(initial=around_zero) + _NO_MASS
            if not np.any(log_mass[-1] > np.maximum(most - _DIGITS, nothing)):
                return z


def _no_finite_moments(function: ScalarFunction, s: Array) -> InvalidInput:
    scale = float(s.max(initial=0))
    return InvalidInput("scale", scale, f"a scale at which {function.name} has finite moments and does not overflow")


@lru_cache(maxsize=512)
def _growth(function: ScalarFunction) -> float | None:
    return None if function.expression is None else structure.growth(function.expression)


@lru_cache(maxsize=512)
def _range_for_power(power: float, order: int) -> float:
    half_range = _half_range(order)
    moment = math.log(2.0) * power + math.lgamma(power + 0.5)
    while (2 * power + 2) * math.log(half_range) - 0.5 * half_range**2 > moment - _DIGITS:
        half_range += 0.1
    return half_range


def _on_panels(function: ScalarFunction, m: Array, s: Array, reduce: Reduction, count: int, order: int) -> Array:
    half_range = _sufficient_range(function, m, s, order)
    reach = float(np.max(np.abs(m) + half_range * s, initial=1.0))
    width = 2.0 if order <= 6 else 1.0
    strip = _known_strip(function)
    resolving = _PANEL_PER_STRIP * strip / float(np.max(s, initial=NOTHING))
    if resolving >= _NARROWEST_UNIFORM:
        edges = np.asarray(function.kinks)
        width = min(width, resolving)
    else:
        # Few different reaches, so that the search for panels is found in the cache.
        edges = _function_edges(function, 2.0 ** (math.ceil(8 * math.log2(max(reach, 16.0))) / 8))
    uniform = np.linspace(-half_range, half_range, math.ceil(2 * half_range / width) + 1)
    x, w = legendre_rule(PANEL_ORDER + 4)
    result = np.empty((count, m.size))
    sequence = np.argsort(m, kind="stable")
    for start in range(0, m.size, _ROWS):
        chosen = sequence[start : start + _ROWS]
        mm, ss = m[chosen, None], np.where(s[chosen] > 0, s[chosen], 1.0)[:, None]
        inside = edges[(edges >= np.min(mm - half_range * ss)) & (edges <= np.max(mm + half_range * ss))]
        own = np.clip((inside - mm) / ss, -half_range, half_range)
        ends = np.sort(np.concatenate([own, np.broadcast_to(uniform, (mm.size, uniform.size))], axis=1), axis=1)
        middle, half = 0.5 * (ends[:, 1:] + ends[:, :-1]), 0.5 * np.diff(ends, axis=1)
        z = (middle[..., None] + half[..., None] * x).reshape(mm.size, -1)
        weight = (half[..., None] * w).reshape(mm.size, -1) * gaussian_density(z)
        points = mm + ss * z
        if np.min(ss) < _GRAINY * np.max(np.abs(mm)):
            _off_kinks(points, z, inside, own)
        result[:, chosen] = reduce(z, weight)(function(points))
    return result


def _off_kinks(points: Array, z: Array, kinks: Array, own: Array) -> None:
    """Move points that rounding has put on a kink back to their side of it: a jump has the value of neither there.

    The points, shape (elements, nodes), are changed in place, and `z` is where they are in units of the scale. The
    kinks have shape (kinks,), and `own`, shape (elements, kinks), is where these are in units of the scale.
    """
    for kink, place in zip(kinks, own.T, strict=True):
        there = points == kink
        if there.any():
            side = np.where(z > place[:, None], np.inf, -np.inf)
            points[there] = np.nextafter(kink, side[there])


@lru_cache(maxsize=512)
def _known_strip(function: ScalarFunction) -> float:
    """Width of analyticity between the kinks if it follows from the formula, else 0."""
    if function.expression is None:
        return 0.0
    return structure.strip(function.expression)


@lru_cache(maxsize=256)
def _function_edges(function: ScalarFunction, reach: float) -> Array:
    return without_tails(function, resolved_panels(function, function.kinks, reach).edges)
