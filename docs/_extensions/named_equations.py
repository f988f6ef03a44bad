"""Numbered equations of the theory's pages, and the docstrings that name them, read from the text of both.

A page numbers an equation behind its closing dollars, ``$$ (E12)``: one letter for the page, then the number. A
docstring names the equations that its code computes in one fixed form, ``Docs, "Uniform equivalent", equations (E11)
and (E12).``, where the words in quotation marks are the page's file name.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PAGES, SOURCE = ROOT / "docs" / "theory", ROOT / "src"

#: The number of an equation, in brackets.
NUMBER = re.compile(r"\(([A-Z]\d+[a-z]?)\)")
#: The end of a displayed equation that has a number.
NUMBERED = re.compile(rf"^\$\$ {NUMBER.pattern}$", re.MULTILINE)
_MORE = rf"{NUMBER.pattern}(?:(?:,\s+|\s+and\s+){NUMBER.pattern})*"
#: Equations named by a docstring, whose lines may break anywhere.
CITATION = re.compile(rf'Docs,\s+"(?P<page>[^"]+)",\s+equations?\s+(?P<numbers>{_MORE})')


class Citation(NamedTuple):
    """An object whose docstring names an equation of a page."""

    name: str
    page: str
    number: str


def file_of(page: str) -> str:
    """Return the file name, without its ending, of a page as a docstring names it."""
    return "_".join(page.lower().split())


def numbers_of(page: Path) -> list[str]:
    """Return the numbers of a page's equations, from the top down."""
    return NUMBERED.findall(page.read_text(encoding="utf-8"))


def cited(docstring: str) -> Iterator[tuple[str, str]]:
    """Yield the page, as a file name, and the number of each equation that a docstring names."""
    for match in CITATION.finditer(docstring):
        for number in NUMBER.findall(match["numbers"]):
            yield file_of(match["page"]), number


def citations(source: Path = SOURCE) -> Iterator[Citation]:
    """Yield what the docstrings of all modules, classes and functions below a folder name."""
    for path in sorted(source.rglob("*.py")):
        module = ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__")
        text = path.read_text(encoding="utf-8")
        if CITATION.search(text):  # to parse the other files takes the longest
            yield from _citations(ast.parse(text), module)


def _citations(node: ast.Module | ast.ClassDef | ast.FunctionDef, name: str) -> Iterator[Citation]:
    for page, number in cited(ast.get_docstring(node) or ""):
        yield Citation(name, page, number)
    for child in node.body:
        if isinstance(child, (ast.ClassDef, ast.FunctionDef)):
            yield from _citations(child, f"{name}.{child.name}")
