"""The local search: from the settings with the largest deviations to others where it is larger still."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from benchmarks.hunt.measure import Search
from benchmarks.hunt.settings import DIMENSION, Setting, neighbours

__all__ = ["climb"]

#: Networks of a setting that is tried.
NETWORKS = 8


def climb(search: Search, settings: Sequence[Setting], starts: int, tries: int) -> None:
    """Try neighbours of the worst settings, one of each in turn, and go on from a neighbour that is worse.

    Parameters
    ----------
    search : Search
    settings : sequence of Setting
        The design.
    starts : int
        How many of them are followed, the largest sure deviations first.
    tries : int
        Neighbours tried from each start.
    """
    ready = sorted(search.measured(settings), key=lambda s: -search.doubt(s))[:starts]
    place = {setting.name: setting for setting in ready}
    known = {setting.name: setting for setting in search.found()}
    for number in range(1, tries + 1):
        for start in ready:
            if search.over:
                return
            here, name = place[start.name], f"{start.name}.{number}"
            if name not in known:
                around = neighbours(here, name)
                rng = np.random.default_rng([int(start.name), number])
                known[name] = around[rng.integers(len(around))]
                search.keep(known[name])
            there = known[name]
            search.simulate([(there, DIMENSION, NETWORKS)])
            if search.count(there) >= NETWORKS and search.doubt(there) > search.doubt(here):
                print(f"{name}: {100 * search.doubt(here):.1f} -> {100 * search.doubt(there):.1f} %", flush=True)
                place[start.name] = there
