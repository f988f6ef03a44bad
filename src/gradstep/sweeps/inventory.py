"""List the results of a design that lie in a store, by the names of its files."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

from gradstep.sweeps.design import Design
from gradstep.sweeps.store import Store
from gradstep.sweeps.task import Task

__all__ = ["Inventory", "networks_of", "take_stock"]


class Inventory(NamedTuple):
    """Numbers of results in a store."""

    done: int  #: Tasks of the design that are finished.
    added: int  #: Networks beyond the design's seeds.
    other: int  #: Results of no task of the design: other settings, or another version of the code.


def networks_of(design: Design, store: Store, point: int, present: set[str]) -> Iterator[tuple[int, Task, str]]:
    """Yield place, task and file name of a point's networks that are present: of the design, then those added."""
    index, last = 0, design.seeds
    # Seeds on demand come in rounds that at most double their number: a gap as long as all before ends the search.
    while index < 2 * last:
        task = design.simulation_task(point, index)
        name = store.path(task).name
        if name in present:
            last = max(last, index + 1)
            yield index, task, name
        index += 1


def take_stock(design: Design, store: Store) -> Inventory:
    """Count the results in a store."""
    present = set(store.names())
    if not present:
        return Inventory(0, 0, 0)
    done = 0
    # By name: points that are equal after their sizes are rounded have the same tasks, hence the same files.
    listed: set[str] = set()
    for point in range(design.points):
        networks = (design.simulation_task(point, index) for index in range(design.seeds))
        for task in itertools.chain(design.single_tasks(point), networks):
            name = store.path(task).name
            if name in present:
                done += 1
                listed.add(name)
    rest = present - listed
    added = {name for point in range(design.points) if rest for *_, name in networks_of(design, store, point, rest)}
    return Inventory(done, len(added), len(rest) - len(added))
