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

__all__ = ["PANEL_ORDER", "Panels", "legendre_rule", "resolved_panels"]

PANEL_ORDER = 20
_TAIL = 4
_TOLERANCE = 1e-12
_NOISE = 1e-9
_NARROWEST = 1e-11
# A panel this narrow, away from known kinks, is there because of a kink or jump that nobody declared.
_SINGULAR_WIDTH = 1e-7
_MAXIMUM_PANELS = 4000


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


def resolved_panels(function: Callable[[Any], Any], kinks: tuple[float, ...], reach: float) -> Panels:
    """Return panels of [-reach, reach] on each of which a polynomial of degree 19 represents the function.

    Parameters
    ----------
    function : callable
        Vectorised function.
    kinks : tuple of float
        Known break points; they become edges.
    reach : float
        Half-width of the interval.

    Returns
    -------
    Panels

    Raises
    ------
    NotConverged
        If the function varies too fast to be resolved.
    """
    nodes, _ = legendre_rule(PANEL_ORDER)
    # Odd places: an edge that falls on an undeclared kink would hide it.
    steps = 2.0 ** np.arange(math.ceil(math.log2(reach)) + 1) - 1.0
    start = np.concatenate([0.3183 + 0.9137 * steps, -0.2718 - 0.8661 * steps, [-reach, reach], kinks])
    first = np.unique(start[np.abs(start) <= reach])
    left, right = first[:-1], first[1:]
    done: list[NDArray[np.float64]] = [first]
    singular: list[tuple[float, float]] = []
    narrowest = np.inf
    count = left.size
    parent, ancestor = np.full(left.size, np.inf), None
    while left.size:
        middle, half = 0.5 * (left + right), 0.5 * (right - left)
        with np.errstate(all="ignore"):
            values = np.asarray(function(middle[:, None] + half[:, None] * nodes), dtype=np.float64)
        tail = np.max(np.abs(values @ _tail_projection().T), axis=1)
        size = np.max(np.abs(values), axis=1)
        if ancestor is None:
            ancestor = size
        # Relative to the panel, but no finer than rounding in the values around it.
        reference = np.maximum(size, 0.01 * ancestor)
        # A small tail that bisection does not reduce is rounding noise of the function itself.
        noise = (half > 1e-4) & (tail > 0.1 * parent) & (tail <= _NOISE * reference)
        bad = ~((tail <= _TOLERANCE * reference) | noise)
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
        count += middle.size
        if count > _MAXIMUM_PANELS:
            raise NotConverged(
                "Panels of a function",
                float(tail.max() / max(size.max(), 1e-300)),
                _TOLERANCE,
                f"It varies too fast over |x| <= {reach:g}; use a smoother function or a smaller scale.",
            )
        left, right = np.concatenate([left, middle]), np.concatenate([middle, right])
        parent, ancestor = np.tile(tail[bad], 2), np.tile(ancestor[bad], 2)
    # Bisection closes in on a singular point: of the panels around it the narrowest is nearest.
    isolated: list[float] = []
    for _, point in sorted(singular):
        if all(abs(point - other) > 1e-5 * max(1.0, abs(point)) for other in isolated):
            isolated.append(float(point))
    return Panels(np.unique(np.concatenate(done)), tuple(sorted(isolated)), float(min(narrowest, 4.0)))
