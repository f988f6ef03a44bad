"""Whose results a directory holds."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from gradstep.errors import InvalidInput
from gradstep.sweeps.design import Design
from gradstep.sweeps.store import write_whole

__all__ = ["MANIFEST", "claim", "manifest_of"]

MANIFEST = "sweep.json"


def manifest_of(folder: Path) -> Design:
    """Return the design whose results a directory holds.

    Raises
    ------
    InvalidInput
        If it holds none.
    """
    try:
        return Design.from_dict(json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["design"])
    except FileNotFoundError:
        raise InvalidInput("folder", str(folder), "a directory with the results of a sweep") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        allowed = f"a directory with a whole {MANIFEST} ({type(error).__name__}); run the sweep again to restore it"
        raise InvalidInput("folder", str(folder), allowed) from None


def claim(folder: Path, design: Design) -> None:
    """Write down whose results these are; refuse a directory that holds another design's."""
    try:
        held: Design | None = manifest_of(folder)
    except InvalidInput:
        held = None  # none yet, or a damaged manifest: the results speak for themselves
    # Other seeds and other ways to run only add results.
    if held is not None and replace(held, seeds=0) != replace(design, seeds=0):
        allowed = "an empty directory, or one that holds this sweep (its settings differ from those found there)"
        raise InvalidInput("out", str(folder), allowed)
    seeds = max(design.seeds, held.seeds if held is not None else 0)
    if held is None or held.seeds != seeds:
        write_whole(folder / MANIFEST, json.dumps({"design": replace(design, seeds=seeds).to_dict()}, indent=1))
