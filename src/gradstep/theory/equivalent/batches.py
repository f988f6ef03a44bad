"""Fits of many tables solved side by side: which of them are one batch of the solver."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from gradstep.sizes import Sizes
from gradstep.theory.equivalent.stacks import LARGEST_STACK
from gradstep.theory.equivalent.tables import Tables, stacked
from gradstep.theory.equivalent.uniform import UniformSolution, solve

__all__ = ["Fit", "solve_fits"]

#: Fits solved together; larger batches gain nothing.
_BATCH = 256
#: How much larger the matrices of a fit may become to be solved with others, and what is small enough in any case.
_FILLED_UP, _ANY_SIZE = 1.5, 2**12


class Fit(NamedTuple):
    """A ridge fit to solve."""

    tables: Tables  #: Without a leading axis.
    sizes: Sizes[float]
    noise: float  #: Standard deviation of the label noise.


def solve_fits(fits: Sequence[Fit]) -> Iterator[tuple[int, UniformSolution, int]]:
    """Solve fits, those with tables of similar shapes together.

    It yields the place of a fit, in any order, the solution of a batch, and the place of the fit in the batch, whose
    arrays may have more nodes and groups than the fit's own tables. Raises `NotConverged` as
    `gradstep.theory.equivalent.uniform.solve` does.
    """
    for places, size in _batches(fits):
        for start in range(0, len(places), size):
            batch = places[start : start + size]
            solution = _solved([fits[place] for place in batch])
            yield from ((place, solution, index) for index, place in enumerate(batch))


def _solved(fits: Sequence[Fit]) -> UniformSolution:
    first = fits[0].tables
    tables = first.shared if all(fit.tables is first for fit in fits) else stacked([fit.tables for fit in fits])
    dimension, width, _, samples, ridge = np.array([fit.sizes for fit in fits]).T
    noise = np.array([fit.noise for fit in fits])
    return solve(tables, noise=noise, dimension=dimension, width=width, samples=samples, ridge=ridge)


def _batches(fits: Sequence[Fit]) -> Iterator[tuple[list[int], int]]:
    """Yield the places of what is best solved together, and how many fits at once.

    Many of one shape have a batch of their own. Few, as along a curve, are filled up to a larger shape: a batch of one
    takes longer than the work on what is added.
    """
    alike: dict[tuple[int, ...], list[int]] = {}
    for place, fit in enumerate(fits):
        alike.setdefault(fit.tables.shape, []).append(place)
    together: list[int] = []
    largest: tuple[int, ...] = ()
    for shape in sorted(alike, key=lambda shape: (shape[-2:], _numbers(shape))):
        if len(alike[shape]) * _numbers(shape) > LARGEST_STACK / 2:
            yield alike[shape], _batch_size(shape)
            continue
        both = tuple(map(max, zip(largest or shape, shape, strict=True)))
        smallest = fits[together[0]].tables.shape if together else shape
        grown = _numbers(both) > max(_FILLED_UP * _numbers(smallest), _ANY_SIZE)
        if together and (grown or shape[-2:] != smallest[-2:]):
            yield together, _batch_size(largest)
            together, both = [], shape
        together, largest = [*together, *alike[shape]], both
    if together:
        yield together, _batch_size(largest)


def _numbers(shape: tuple[int, ...]) -> int:
    """Return how many numbers the largest matrices of a fit have."""
    groups, nodes, classes, *_ = shape
    return classes * max(groups, nodes) ** 2


def _batch_size(shape: tuple[int, ...]) -> int:
    """Return how many fits are best solved together."""
    return max(1, min(_BATCH, LARGEST_STACK // _numbers(shape)))
