"""Expectations under the standard Gaussian: adaptive panels with an error estimate, and fixed composite rules."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import scipy.special
from numpy.typing import NDArray

from gradstep.checks import integer, real
from gradstep.errors import InvalidInput
from gradstep.gaussian.panels import legendre_rule

__all__ = ["Estimate", "expectation", "gaussian_density", "gaussian_rule", "hermite_rule", "trapezoidal_rule"]

HALF_RANGE = 8.5
_ROOT_TWO_PI = math.sqrt(2.0 * math.pi)
_START = (
    -38.0,
    -24.0,
    -16.0,
    -11.0,
    -8.0,
    -6.0,
    -4.5,
    -3.0,
    -1.5,
    0.0,
    1.5,
    3.0,
    4.5,
    6.0,
    8.0,
    11.0,
    16.0,
    24.0,
    38.0,
)
_ORDER = 20
#: Scale beyond which the nodes of the trapezoidal rule thin out, as a rule.
THINNING = 4.0
_SMALLEST_PANEL = 1e-14
#: Nodes above which NumPy's Gauss-Hermite rule overflows. That of SciPy is an asymptotic one there, right to 5e-14.
_OVERFLOWS = 360


class Estimate(NamedTuple):
    """A number (or array) with an estimate of its absolute error."""

    value: NDArray[np.float64]
    error: NDArray[np.float64]


def gaussian_density(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Density of N(0, 1)."""
    return np.exp(-0.5 * z * z) / _ROOT_TWO_PI


@lru_cache(maxsize=256)
def hermite_rule(count: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return nodes and weights, of sum one, of Gaussian quadrature under N(0, 1); read-only.

    Exact for polynomials of degree up to ``2 count - 1``. Shapes (count,).
    """
    rule = np.polynomial.hermite_e.hermegauss if count <= _OVERFLOWS else scipy.special.roots_hermitenorm
    nodes, weights = rule(count)
    weights = weights / weights.sum()
    nodes.flags.writeable = weights.flags.writeable = False
    return nodes, weights


def _positive(**values: float) -> None:
    for name, number in values.items():
        real(name, number, "a positive finite number", lambda value: 0 < value < math.inf)


def gaussian_rule(
    breakpoints: Iterable[float] = (), *, resolution: float = 1.0, order: int = 20, half_range: float = HALF_RANGE
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return a composite Gauss-Legendre rule for expectations under N(0, 1).

    Parameters
    ----------
    breakpoints : iterable of float, optional
        Panels end at these points (those inside the range); put the integrand's kinks here.
    resolution : float, optional
        Largest width of a panel.
    order : int, optional
        Nodes per panel.
    half_range : float, optional
        The rule covers ``[-half_range, half_range]``; beyond 8.5 there is less than 2e-17 of probability.

    Returns
    -------
    nodes, weights : ndarray
        Increasing nodes and positive weights, ``sum(weights * f(nodes))`` being E f(z). The weights sum to one within
        1e-14.

    Raises
    ------
    InvalidInput
        If a parameter is not positive and finite, the order is no integer, or a breakpoint is not a number.
    """
    _positive(resolution=resolution, half_range=half_range)
    order = integer("order", order, 1)
    inner = np.asarray(tuple(breakpoints), dtype=np.float64)
    if np.isnan(inner).any():
        raise InvalidInput("breakpoints", breakpoints, "numbers")
    edges = np.unique(np.concatenate([[-half_range, half_range], inner[np.abs(inner) < half_range]]))
    counts = np.maximum(np.ceil(np.diff(edges) / resolution - 1e-9), 1).astype(int)
    pieces = [np.linspace(a, b, n, endpoint=False) for a, b, n in zip(edges[:-1], edges[1:], counts, strict=True)]
    fine = np.concatenate([*pieces, edges[-1:]])
    x, w = legendre_rule(order)
    middle, half = 0.5 * (fine[1:] + fine[:-1]), 0.5 * np.diff(fine)
    nodes = (middle[:, None] + half[:, None] * x).ravel()
    return nodes, (half[:, None] * w).ravel() * gaussian_density(nodes)


def trapezoidal_rule(
    step: float, half_range: float, *, thinning: float = THINNING
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return a trapezoidal rule for expectations under N(0, 1) of functions that are smooth on the scale of a step.

    For them its error falls exponentially with ``1/step``.

    Parameters
    ----------
    step : float
        Distance of the nodes next to zero, which lie at plus and minus half of it.
    half_range : float
        The outermost nodes lie there or beyond.
    thinning : float, optional
        The rule is taken in ``t`` with ``z = thinning * sinh(t / thinning)``: beyond this scale, where little depends
        on them, the nodes are fewer. Infinite: in ``z`` itself.

    Returns
    -------
    nodes, weights : ndarray
        A rule of even length, with symmetric, increasing nodes and positive weights that sum to one.

    Raises
    ------
    InvalidInput
        If a parameter is not positive and finite.
    """
    _positive(step=step, half_range=half_range)
    if not thinning > 0:
        raise InvalidInput("thinning", thinning, "a positive number")
    thins = thinning < math.inf
    reach = thinning * math.asinh(half_range / thinning) if thins else half_range
    count = math.ceil(reach / step + 0.5)
    t = np.asarray((np.arange(-count, count) + 0.5) * step, dtype=np.float64)
    nodes, density = (thinning * np.sinh(t / thinning), np.cosh(t / thinning)) if thins else (t, np.ones_like(t))
    weights = density * np.exp(-0.5 * nodes**2)
    return nodes, weights / weights.sum()


def folded(rule: tuple[NDArray[np.float64], NDArray[np.float64]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the half above zero of a symmetric rule without a node there: it averages what is even."""
    nodes, weights = rule
    half = nodes.size // 2
    return nodes[half:], 2 * weights[half:]


def expectation(
    integrand: Callable[[Any], Any],
    *,
    kinks: Iterable[float] = (),
    mean: float = 0.0,
    scale: float = 1.0,
    tolerance: float = 1e-12,
    maximum_panels: int = 4000,
) -> Estimate:
    """Return E integrand(mean + scale * z), z ~ N(0, 1), by adaptive Gauss-Legendre panels.

    Parameters
    ----------
    integrand : callable
        Maps an array of points of shape (n,) to values of shape (..., n).
    kinks : iterable of float, optional
        Points (of the integrand's own argument) where it is not smooth. Undeclared ones are found by bisection, at a
        price.
    mean, scale : float, optional
        Law of the argument, N(mean, scale**2); scale >= 0.
    tolerance : float, optional
        Absolute error asked for, relative to ``E |integrand|`` where that exceeds one.
    maximum_panels : int, optional
        Limit of the work; if it is reached, the error estimate is above the tolerance.

    Returns
    -------
    Estimate
        Value and error estimate, of shape (...).

    Raises
    ------
    InvalidInput
        If the scale is negative or not finite.
    """
    if not 0 <= scale < math.inf or not math.isfinite(mean):
        raise InvalidInput("scale", scale, "a finite number >= 0, with a finite mean")
    if scale == 0:
        value = np.asarray(integrand(np.array([mean])), dtype=np.float64)[..., 0]
        return Estimate(value, np.zeros_like(value))
    x, w = legendre_rule(_ORDER)
    far, tail = _finite_range(integrand, mean, scale)
    kinks = tuple(kinks)
    points = [(kink - mean) / scale for kink in kinks]
    edges = np.unique([z for z in (-far, *_START, *points, far) if abs(z) <= far])

    def panel_integrals(left: NDArray[np.float64], right: NDArray[np.float64]) -> tuple[Any, Any]:
        middle, half = 0.5 * (left + right), 0.5 * (right - left)
        z = middle[:, None] + half[:, None] * x
        weight = half[:, None] * w * gaussian_density(z)
        argument = mean + scale * z.ravel()
        # No node is a kink, but at a scale near the spacing of floats rounding may put its argument there, where a jump
        # has the value of neither side: it goes back to its own.
        for kink, point in zip(kinks, points, strict=True):
            there = argument == kink
            argument[there] = np.nextafter(kink, np.where(z.ravel()[there] > point, np.inf, -np.inf))
        with np.errstate(over="ignore", invalid="ignore"):
            values = np.asarray(integrand(argument), dtype=np.float64)
        terms = values.reshape(*values.shape[:-1], *z.shape) * weight
        return terms.sum(-1), np.abs(terms).sum(-1)

    left, right = edges[:-1], edges[1:]
    whole, _ = panel_integrals(left, right)
    total = size = error = np.zeros(whole.shape[:-1])
    count = left.size
    while left.size:
        middle = 0.5 * (left + right)
        halves, absolute = panel_integrals(np.concatenate([left, middle]), np.concatenate([middle, right]))
        first, second = halves[..., : left.size], halves[..., left.size :]
        absolute = absolute[..., : left.size] + absolute[..., left.size :]
        with np.errstate(invalid="ignore"):
            difference = np.abs(whole - first - second)
        goal = tolerance * np.maximum(1.0, size + absolute.sum(-1))[..., None] * np.maximum((right - left) / 80.0, 1e-4)
        narrow = right - left < _SMALLEST_PANEL * np.maximum(1.0, np.abs(middle))
        split = (
            np.any(difference > np.maximum(goal, 4e-16 * absolute), axis=tuple(range(difference.ndim - 1))) & ~narrow
        )
        if count + 2 * np.count_nonzero(split) > maximum_panels:
            split[:] = False
        total = total + (first + second)[..., ~split].sum(-1)
        size = size + absolute[..., ~split].sum(-1)
        error = error + difference[..., ~split].sum(-1)
        whole = np.concatenate([first[..., split], second[..., split]], axis=-1)
        left, right = np.concatenate([left[split], middle[split]]), np.concatenate([middle[split], right[split]])
        count += left.size
    # Where the boundary term matters there is no telling what lies beyond.
    tail = np.where(tail <= 1e-6 * size, tail, np.inf) if far < -_START[0] else tail
    return Estimate(np.asarray(total), np.asarray(error + tail + 1e-15 * size))


def _finite_range(integrand: Callable[[Any], Any], mean: float, scale: float) -> tuple[float, NDArray[np.float64]]:
    """Return the widest starting range on which the integrand does not overflow, and the size of what it leaves out.

    The density at 38 is 2e-314; an integrand that overflows before is cut there, and the boundary term is reported.
    """
    for far in np.arange(-_START[0], 4.0, -1.0):
        ends = np.array([-far, far])
        with np.errstate(over="ignore", invalid="ignore"):
            values = np.abs(np.asarray(integrand(mean + scale * ends), dtype=np.float64))
        if np.isfinite(values).all():
            break
    return float(far), np.asarray((values * gaussian_density(ends)).sum(-1) * far)
