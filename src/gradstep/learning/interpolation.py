"""Functions on scattered pairs of n and ridge, known where it was worth the time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = ["lattice", "refined", "refined_at_once", "spline_weights"]

Host = NDArray[np.float64]

#: Values in a row, each measured as far from all others as possible, that the interpolation has to predict before the
#: rest is trusted. Both interpolations may miss a dip between the places that are measured, and then agree: with a
#: single value in three of a hundred pools a standard error was off by more than 60 %, with two by more than 20 %.
_FORESEEN = 2
#: Largest difference of the two interpolations, over the tolerance, that needs no further measurement. The first number
#: is for `refined`, which measures one value at a time, the second for `refined_at_once`.
_DOUBT, _DOUBT_AT_ONCE = 0.5, 1.0


def refined(places: Host, first: list[int], measure: Callable[[int], Host], tolerances: Host, known: Host) -> Host:
    """Measure functions at as many places as their interpolation needs, and interpolate at the others.

    Two interpolations, by splines of a different order, tell where they are least certain by their difference: there
    the next value is measured. Where they agree to the tolerance everywhere, the next value is measured at the place
    that is farthest from all known ones. It ends when some such values in a row were foreseen.

    There are G places, shape (G, 2), of which those numbered in `first` are measured in any case, unless all is known
    there. `measure` takes the number of a place and returns Q values. `known` has those that need no measurement, and
    nan for the others; like the tolerances and the result it has the shape (G, Q).
    """
    values = known.copy()
    asked = np.asarray(np.isnan(values).any(axis=1))
    for place in dict.fromkeys(first):
        if asked[place]:
            values[place], asked[place] = measure(place), False
    foreseen = 0
    while asked.any():
        guess, other = (_through(places, values, order) for order in (3, 1))
        doubt = np.where(asked, (np.abs(guess - other) / tolerances).max(axis=1), -1.0)
        agreed = bool(doubt.max() <= _DOUBT)
        if agreed and foreseen >= _FORESEEN:
            return guess
        following = int((_distances(places, ~asked) if agreed else doubt).argmax())
        values[following], asked[following] = measure(following), False
        missed = np.abs(guess[following] - values[following]) / tolerances[following]
        foreseen = foreseen + 1 if agreed and missed.max() <= 1 else 0
    return values


def _distances(places: Host, known: NDArray[np.bool_]) -> Host:
    """Return the distance of each place from the nearest that is known, shape (G,); infinite without any."""
    apart = np.linalg.norm(places[:, None] - places[known][None], axis=2)
    return np.asarray(apart.min(axis=1, initial=np.inf))


def _through(places: Host, values: Host, order: int) -> Host:
    """Return splines through the values that are known, shape (G, Q); zeros where none is."""
    found, known = values.copy(), ~np.isnan(values)
    for there in np.unique(known, axis=1).T:  # most functions are known at the same places
        if there.any() and not there.all():
            same = (known == there[:, None]).all(axis=0)
            weights = spline_weights(places[there], places[~there], order)
            found[np.ix_(~there, same)] = weights @ values[np.ix_(there, same)]
    return np.nan_to_num(found)


def refined_at_once(
    places: Host, first: set[int], measure: Callable[[list[int]], tuple[Host, Host]]
) -> tuple[Host, Host]:
    """Measure and interpolate as `refined` does, if it is cheaper to measure many places together than one by one.

    In each round all places are measured at which the two interpolations differ by more than the tolerance. `measure`
    takes the numbers of J places and returns values and tolerances, both of shape (J, Q). Return all values, shape
    (G, Q), and the weights in them, shape (G, J), of those that were measured, in the order of their numbers.
    """
    nodes = sorted(first)
    values, tolerances = measure(nodes)
    while True:
        smooth, plain = (spline_weights(places[nodes], places, order) for order in (3, 1))
        guess = smooth @ values
        doubt = (np.abs(guess - plain @ values) / np.exp(plain @ np.log(tolerances))).max(axis=1)
        doubt[nodes] = -1
        following = np.flatnonzero(doubt > _DOUBT_AT_ONCE).tolist()
        if not following:
            guess[nodes] = values
            order = np.argsort(nodes)
            return guess, smooth[:, order]
        value, tolerance = measure(following)
        nodes, values, tolerances = [*nodes, *following], np.vstack([values, value]), np.vstack([tolerances, tolerance])


def lattice(places: Host, counts: tuple[int, int]) -> list[int]:
    """Return the numbers of the places (G, 2) nearest to a lattice that spans them all, with points for each axis."""
    axes = [np.linspace(own.min(), own.max(), count) for own, count in zip(places.T, counts, strict=True)]
    corners = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    return sorted({int(np.square(places - corner).sum(axis=1).argmin()) for corner in corners})


def spline_weights(nodes: Host, places: Host, order: int) -> Host:
    """Return weights (G, J) of values at nodes (J, 2) in a polyharmonic spline, of order 1 or 3, at places (G, 2)."""

    def tail(at: Host) -> Host:
        return np.hstack([np.ones((len(at), 1)), at if order > 1 else at[:, :0]])

    def distances(a: Host, b: Host) -> Host:
        return np.asarray(np.linalg.norm(a[:, None] - b[None], axis=2) ** order)

    below = tail(nodes).T
    system = np.block([[distances(nodes, nodes), below.T], [below, np.zeros((len(below), len(below)))]])
    right = np.vstack([distances(nodes, places), tail(places).T])
    return np.asarray((np.linalg.pinv(system, rcond=1e-12) @ right)[: len(nodes)].T)
