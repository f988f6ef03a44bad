"""Functions on scattered pairs of n and ridge, known where it was worth the time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = ["refined"]

Host = NDArray[np.float64]

#: Places along each axis of the pairs that are known first.
_FIRST = 3
#: Values in a row that were foreseen, after which the others are taken to be so.
_FORESEEN = 3
#: Largest difference of the two interpolations over the tolerance.
_DOUBT = 0.5


def refined(places: Host, suspect: int, measure: Callable[[int], tuple[Host, Host]]) -> Host:
    """Measure functions at as many places as their interpolation needs, and interpolate at the others.

    Two interpolations, by splines of a different order, tell where they are least certain by their difference: there
    the next value is measured. It ends when they agree to the tolerance everywhere and the last values were foreseen.

    Parameters
    ----------
    places : ndarray, shape (G, 2)
    suspect : int
        Number of a place that is to be measured in any case.
    measure : callable
        Takes the number of a place and returns values and tolerances, both of shape (Q,).

    Returns
    -------
    ndarray, shape (G, Q)
    """
    known = {place: measure(place) for place in {*_first(places), suspect}}
    foreseen = 0
    while True:
        nodes = sorted(known)
        values, tolerances = (np.array([known[node][k] for node in nodes]) for k in (0, 1))
        smooth, plain = (_weights(places[nodes], places, order) for order in (3, 1))
        guess = smooth @ values
        tolerance = np.exp(plain @ np.log(tolerances))
        doubt = (np.abs(guess - plain @ values) / tolerance).max(axis=1)
        doubt[nodes] = -1
        following = int(doubt.argmax())
        if doubt[following] < 0 or (doubt[following] <= _DOUBT and foreseen >= _FORESEEN):
            guess[nodes] = values
            return np.asarray(guess)
        known[following] = measure(following)
        missed = np.abs(guess[following] - known[following][0]) / known[following][1]
        foreseen = foreseen + 1 if missed.max() <= 1 else 0


def _first(places: Host) -> list[int]:
    """Return the places nearest to a lattice that spans them all."""
    low, high = places.min(axis=0), places.max(axis=0)
    lattice = np.stack(np.meshgrid(*np.linspace(low, high, _FIRST).T, indexing="ij"), axis=-1).reshape(-1, 2)
    return sorted({int(np.square(places - corner).sum(axis=1).argmin()) for corner in lattice})


def _weights(nodes: Host, places: Host, order: int) -> Host:
    """Return the weights of values at nodes (J, 2) in a polyharmonic spline at places (G, 2), shape (G, J)."""

    def tail(at: Host) -> Host:
        return np.hstack([np.ones((len(at), 1)), at if order > 1 else at[:, :0]])

    def distances(a: Host, b: Host) -> Host:
        return np.asarray(np.linalg.norm(a[:, None] - b[None], axis=2) ** order)

    below = tail(nodes).T
    system = np.block([[distances(nodes, nodes), below.T], [below, np.zeros((len(below), len(below)))]])
    right = np.vstack([distances(nodes, places), tail(places).T])
    return np.asarray((np.linalg.pinv(system, rcond=1e-12) @ right)[: len(nodes)].T)
