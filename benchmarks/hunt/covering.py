"""Designs in which every combination of levels of any few factors occurs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

__all__ = ["covering_array", "uncovered"]

_CANDIDATES = 20

#: Levels of some factors: (factor, level) pairs in the order of the factors.
Combination = tuple[tuple[int, int], ...]


def _combinations(levels: Sequence[int], strength: int) -> set[Combination]:
    return {
        tuple(zip(factors, values, strict=True))
        for factors in itertools.combinations(range(len(levels)), strength)
        for values in itertools.product(*(range(levels[f]) for f in factors))
    }


def _of_row(row: Sequence[int], strength: int) -> set[Combination]:
    return set(itertools.combinations(tuple(enumerate(row)), strength))


def uncovered(rows: Sequence[Sequence[int]], levels: Sequence[int], strength: int = 3) -> set[Combination]:
    """Return the combinations of levels that no row has.

    Parameters
    ----------
    rows : sequence of sequence of int
        One level of each factor, from zero.
    levels : sequence of int
        How many levels each factor has.
    strength : int
        How many factors a combination is of.
    """
    return _combinations(levels, strength).difference(*(_of_row(row, strength) for row in rows))


def covering_array(levels: Sequence[int], rows: int, *, strength: int = 3, seed: int = 0) -> list[tuple[int, ...]]:
    """Return a design, row by row, each row with many combinations that no row before it has.

    When all are covered the next rows cover all of them once more. Each row is the best of a few candidates (the greedy
    way of AETG, Cohen et al. 1997): a candidate starts from a combination that is missing and gives each other factor,
    in random order, the level that covers most.

    Parameters
    ----------
    levels, strength
        As in `uncovered`.
    rows : int
        Length of the design.
    seed : int
        Of the random order.

    Returns
    -------
    list of tuple of int
        Shape (rows, factors).
    """
    rng = np.random.default_rng(seed)
    missing: list[Combination] = []
    design: list[tuple[int, ...]] = []
    while len(design) < rows:
        missing = missing or sorted(_combinations(levels, strength))
        known = set(missing)
        best: tuple[int, ...] = ()
        most = -1
        for _ in range(_CANDIDATES):
            chosen = dict(missing[rng.integers(len(missing))])
            for factor in rng.permutation([f for f in range(len(levels)) if f not in chosen]).tolist():
                gains = [
                    sum(
                        tuple(sorted((*others, (factor, level)))) in known
                        for others in itertools.combinations(chosen.items(), strength - 1)
                    )
                    for level in range(levels[factor])
                ]
                ties = [level for level, gain in enumerate(gains) if gain == max(gains)]
                chosen[factor] = ties[rng.integers(len(ties))]
            row = tuple(chosen[f] for f in range(len(levels)))
            covered = len(known & _of_row(row, strength))
            if covered > most:
                best, most = row, covered
        design.append(best)
        found = _of_row(best, strength)
        missing = [c for c in missing if c not in found]
    return design
