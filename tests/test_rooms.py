"""Imports run downwards, in the order of the map in CONTRIBUTING.md."""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "gradstep"
#: Top-level modules that only collect or say what the package is.
OUTSIDE = {"__init__", "__main__", "__version__", "citations", "versions"}
FOLDERS = {"cli", "app", "estimators", "papers", "sweeps", "simulation", "theory", "learning"}


#: A statement that imports something of the package; ruff keeps each on lines of its own. Only these are parsed.
IMPORT = re.compile(r"^( *)((?:from|import) gradstep\b[^(\n]*(?:\([^)]*\))?)", re.MULTILINE)


def imported(path: Path, *, inside: bool) -> list[str]:
    """Return what a file imports of the package, with or without the imports inside functions and for types."""
    return [name for indent, name in every(path) if inside or not indent]


@cache
def every(path: Path) -> list[tuple[str, str]]:
    """Return the imports of a file, each with the blanks before it."""
    found = IMPORT.findall(path.read_text())
    return [(indent, name) for indent, statement in found for name in named(ast.parse(statement).body)]


def named(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                yield name if module(name) else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("gradstep."))


@cache
def module(name: str) -> Path | None:
    """Return the file of a module, or None if the name is of something else."""
    base = SOURCE.joinpath(*name.split(".")[1:])
    files = (base.with_suffix(".py"), base / "__init__.py")
    return next((file for file in files if file.exists()), None)


@cache
def rooms() -> dict[str, int]:
    """Return the height of each room, from the table of CONTRIBUTING.md: the last row is the lowest."""
    text = (ROOT / "CONTRIBUTING.md").read_text().split("| room |")[1].split("\n\n")[0]
    rows = [re.findall(r"`([\w.]+)`", line.split("|")[1]) for line in text.splitlines()[2:]]
    return {name.removesuffix(".py"): -place for place, names in enumerate(rows) for name in names}


def room(name: str) -> str:
    return name.split(".")[1] if "." in name else "__init__"


def test_no_cycles():
    files = {path: [module(name) for name in imported(path, inside=False)] for path in SOURCE.rglob("*.py")}
    # A package's __init__ collects what its modules define: it is no step on the way to them.
    graph = {path: [to for to in found if to.name != "__init__.py"] for path, found in files.items()}
    tuple(TopologicalSorter(graph).static_order())


def test_the_map_has_every_room():
    heights = rooms()
    folders = {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders <= set(heights)
    assert {"problem", "comparison"} <= set(heights)


@pytest.mark.parametrize("path", [pytest.param(p, id=str(p.relative_to(SOURCE))) for p in sorted(SOURCE.rglob("*.py"))])
def test_imports_run_downwards(path):
    heights = rooms()
    own = room(".".join(["gradstep", *path.relative_to(SOURCE).with_suffix("").parts]))
    if own not in heights:
        # What all rooms stand on imports none of them.
        above = {} if own in OUTSIDE else {name for name in imported(path, inside=True) if room(name) in FOLDERS}
        assert not above
        return
    for name in imported(path, inside=True):
        other = room(name)
        if other in heights and other != own:
            assert heights[other] <= heights[own], name
    if own in ("theory", "simulation"):
        assert not {"theory", "simulation"} - {own} & {room(name) for name in imported(path, inside=True)}
