"""The manifest of a directory says which sweep its results belong to."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from gradstep.errors import InvalidInput
from gradstep.reading import read_json
from gradstep.sweeps.design import Design
from gradstep.sweeps.inventory import take_stock
from gradstep.sweeps.store import Store, set_aside, write_whole

__all__ = ["MANIFEST", "claim", "manifest_of"]

#: Name of the file in a directory of results that says whose they are.
MANIFEST = "sweep.json"


class _Damaged(InvalidInput):
    """A manifest that does not say whose results these are."""


def manifest_of(folder: Path) -> Design:
    """Return the design whose results a directory holds.

    Raises `InvalidInput` if it holds none.
    """
    found = _read(folder)
    if found is None:
        raise InvalidInput("folder", str(folder), "a directory with the results of a sweep")
    return found


def _read(folder: Path) -> Design | None:
    try:
        return Design.from_dict(read_json(folder / MANIFEST)["design"])
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidInput("folder", str(folder), f"a directory that can be read ({error.strerror})") from None
    except (ValueError, KeyError, TypeError) as error:  # InvalidInput is a ValueError
        allowed = f"a directory with a whole {MANIFEST} ({error}); run the sweep again to restore it"
        raise _Damaged("folder", str(folder), allowed) from None


def claim(folder: Path, design: Design) -> None:
    """Write down whose results these are.

    A manifest that is missing or damaged is written anew where all results in the directory are this design's. Raises
    `InvalidInput` if the directory holds results of another design. Raises `StoreError` if it cannot be written.
    """
    path = folder / MANIFEST
    try:
        held, state = _read(folder), "missing"
    except _Damaged:
        held, state = None, "damaged"
    if held is None:
        if other := take_stock(design, Store(folder)).other:
            allowed = f"an empty directory, or one whose results are all of this sweep ({MANIFEST} is {state}, "
            raise InvalidInput("out", str(folder), f"{allowed}and {other} results are of other settings or versions)")
        if state == "damaged":
            set_aside(path, "it is damaged; all results here are of this sweep: writing it again")
    # Other seeds and other ways to run only add results.
    elif replace(held, seeds=0) != replace(design, seeds=0):
        allowed = "an empty directory, or one that holds this sweep (its settings differ from those found there)"
        raise InvalidInput("out", str(folder), allowed)
    seeds = max(design.seeds, held.seeds if held is not None else 0)
    if held is None or held.seeds != seeds:
        write_whole(path, json.dumps({"design": replace(design, seeds=seeds).to_dict()}, indent=1))
