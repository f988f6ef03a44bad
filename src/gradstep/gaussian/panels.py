"""Panels on the real axis that resolve a function: bisection until Legendre coefficients have decayed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradstep.errors import NotConverged
from gradstep.resolution import NOTHING

__all__ = ["PANEL_ORDER", "Panels", "legendre_rule", "resolved_panels", "without_tails"]

#: Nodes of a panel.
PANEL_ORDER = 20
_TAIL = 4
_TOLERANCE = 1e-12
_NOISE = 1e-9
# Values this far below those nearer the origin need no relative accuracy (Gaussian tails).
_NEGLIGIBLE = 1e-30
_NARROWEST = 1e-11
# A panel this narrow, away from known kinks, is there because of a kink or jump that was not declared.
_SINGULAR_WIDTH = 1e-5
_APART = 2e-4
_MAXIMUM_PANELS = 4000
#: Powers of x that a function may be far out, and by how much of itself it may differ there.
_POWERS = (0, 1, 2, 3)
_SAME = 1e-15


@lru_cache(maxsize=64)
def legendre_rule(order: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return nodes and weights of Gauss-Legendre quadrature on [-1, 1]; read-only."""
    nodes, weights = np.polynomial.legendre.leggauss(order)
    nodes.flags.writeable = weights.flags.writeable = False
    return nodes, weights


@lru_cache(maxsize=1)
def _tail_projection() -> NDArray[np.float64]:
    """Matrix from values at the nodes to the last Legendre coefficients."""
    nodes, weights = legendre_rule(PANEL_ORDER)
    degrees = np.arange(PANEL_ORDER)
    basis = np.polynomial.legendre.legvander(nodes, PANEL_ORDER - 1)
    coefficients = (degrees + 0.5)[:, None] * basis.T * weights
    return coefficients[-_TAIL:]


@dataclass(frozen=True)
class Panels:
    """Edges of the panels, isolated points that no panel resolves, and about the distance of the nearest pole."""

    edges: NDArray[np.float64]
    singular: tuple[float, ...]
    pole_distance: float


def _rounding_noise(
    function: Callable[[Any], Any], middle: NDArray[np.float64], half: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Estimate the rounding noise in a function's values from sixth differences over a thousandth of the panel.

    Analytic parts leave a relative 1e-18 there, noise of standard deviation sigma about 20 sigma; the median over
    five places ignores a kink.
    """
    places = np.array([-0.83, -0.41, 0.07, 0.47, 0.89])
    stencil = 1e-3 * np.arange(-3, 4)
    with np.errstate(all="ignore"):
        points = middle[:, None, None] + half[:, None, None] * (places[:, None] + stencil)
        values = np.asarray(function(points), dtype=np.float64)
        return np.asarray(np.median(np.abs(values @ np.array([1.0, -6.0, 15.0, -20.0, 15.0, -6.0, 1.0])), axis=1))


def resolved_panels(
    function: Callable[[Any], Any], kinks: tuple[float, ...], reach: float, shift: float = 0.0
) -> Panels:
    """Return panels of [-reach, reach] on each of which a polynomial of degree 19 represents the function.

    The kinks become edges. The `shift` moves the edges of the first panels: a kink next to one of them, before the
    first node of its panel, is hidden. Raises `NotConverged` if the function varies too fast to be resolved.
    """
    nodes, _ = legendre_rule(PANEL_ORDER)
    # Odd places: an edge that falls on an undeclared kink would hide it.
    steps = 2.0 ** np.arange(math.ceil(math.log2(reach)) + 1) - 1.0
    inner = np.concatenate([0.3183 + 0.9137 * steps, -0.2718 - 0.8661 * steps]) + shift
    start = np.concatenate([inner, [-reach, reach], kinks])
    first = np.unique(start[np.abs(start) <= reach])
    left, right = first[:-1], first[1:]
    done: list[NDArray[np.float64]] = [first]
    singular: list[tuple[float, float]] = []
    narrowest = np.inf
    count, level = left.size, 0
    while left.size:
        middle, half = 0.5 * (left + right), 0.5 * (right - left)
        with np.errstate(all="ignore"):
            values = np.asarray(function(middle[:, None] + half[:, None] * nodes), dtype=np.float64)
        tail = np.max(np.abs(values @ _tail_projection().T), axis=1)
        size = np.max(np.abs(values), axis=1)
        if level == 0:
            outward = np.argsort(np.abs(middle) - half)
            start_of, largest = (np.abs(middle) - half)[outward], np.maximum.accumulate(size[outward])
        inward = largest[np.searchsorted(start_of, np.abs(middle) + half, side="right") - 1]
        resolved = tail <= _TOLERANCE * np.maximum(size, _NEGLIGIBLE * inward)
        noise = ~resolved
        noise[noise] = tail[noise] <= _rounding_noise(function, middle[noise], half[noise])
        # Noise is small next to the values nearer the origin, whatever is left of the function here.
        noise &= tail <= _NOISE * inward
        bad = ~(resolved | noise)
        # Grading towards a kink says nothing about poles.
        apart = np.min(np.abs(middle[:, None] - np.array([*kinks, np.inf])), axis=1) > 4 * half
        good_width = 2 * half[~bad & ~noise & apart & (np.abs(middle) < 8.0) & (half > 1e-3)]
        narrowest = min(narrowest, float(np.min(good_width, initial=np.inf)))
        relative_width = half / np.maximum(1.0, np.abs(middle))
        bad &= relative_width > _NARROWEST
        narrow = ~bad & apart & (relative_width < _SINGULAR_WIDTH)
        singular.extend(zip(half[narrow], middle[narrow], strict=True))
        left, middle, right = left[bad], middle[bad], right[bad]
        done.append(middle)
        count, level = count + middle.size, level + 1
        if count > _MAXIMUM_PANELS:
            raise NotConverged(
                "Panels of a function",
                float(tail.max() / max(size.max(), NOTHING)),
                _TOLERANCE,
                f"It varies too fast over |x| <= {reach:g}; use a smoother function or a smaller scale.",
            )
        left, right = np.concatenate([left, middle]), np.concatenate([middle, right])
    # Bisection closes in on a singular point: of the panels around it the narrowest is nearest.
    isolated: list[float] = []
    for _, point in sorted(singular):
        if all(abs(point - other) > _APART * max(1.0, abs(point)) for other in isolated):
            isolated.append(float(point))
    return Panels(np.unique(np.concatenate(done)), tuple(sorted(isolated)), float(min(narrowest, 4.0)))


def without_tails(function: Callable[[Any], Any], edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return edges of panels without those beyond which the function is a multiple of one power of x on either side.

    A tanh is constant from x = 20 on, a softplus is x from 37 on: any panel there, however wide, has a polynomial.

    The edges increase, as those of `resolved_panels` do.
    """
    kept = np.ones(edges.size, dtype=bool)
    for side in (1.0, -1.0):
        outward = edges if side > 0 else edges[::-1]
        own = np.flatnonzero(side * outward[:-1] > 0)  # panels on this side, from the inside out
        if own.size < 2:
            continue
        left, right = outward[own], outward[own + 1]
        points = 0.5 * (left + right)[:, None] + 0.5 * (right - left)[:, None] * legendre_rule(PANEL_ORDER)[0]
        with np.errstate(all="ignore"):
            values = np.asarray(function(points), dtype=np.float64)
            factors = [values / points**power for power in _POWERS]
            same = [(np.abs(each - each[-1, -1]) <= _SAME * np.abs(each[-1, -1])).all(axis=1) for each in factors]
        first = min(own.size - int(np.argmin([*each[::-1], False])) for each in same)
        beyond = own[first + 1 :]  # each begins at an edge between two such panels
        kept[beyond if side > 0 else edges.size - 1 - beyond] = False
    return edges[kept]
