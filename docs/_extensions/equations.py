"""Links both ways between the equations of the theory's pages and the code that computes them.

An equation has the number that its page gives it, as in ``$$ (E12)``, and below it stand the functions whose docstrings
name that number. In the API the page and the numbers that a docstring names are links. `named_equations` says how both
are written.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from typing import Any

from docutils import nodes
from named_equations import CITATION, NUMBER, citations, file_of
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx

import gradstep


@cache
def code_of_equations() -> dict[str, list[str]]:
    """Return for each number the objects whose docstrings name it, by their names in the API."""
    entries = {name: getattr(gradstep, name) for name in gradstep.__all__}
    homes = {f"{entry.__module__}.{name}": f"gradstep.{name}" for name, entry in entries.items() if callable(entry)}
    names: dict[str, list[str]] = defaultdict(list)
    for citation in citations():
        names[citation.number].append(homes.get(citation.name, citation.name))
    return dict(names)


def link_to_code(app: Sphinx, document: nodes.document) -> None:
    """Give the equations of a page the numbers that the page says, and write below each one where its code is."""
    equations, names = app.env.get_domain("math").equations, code_of_equations()
    for block in list(document.findall(nodes.math_block)):
        number = block.get("label")
        if number is None:
            continue
        block["number"] = number
        equations[number] = (app.env.docname, number)
        if number in names:
            block.parent.insert(block.parent.index(block) + 1, _line(names[number], app.env.docname))


def link_to_equations(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Turn the page and the numbers that a docstring names into links."""
    text = CITATION.sub(lambda match: _linked(match[0], match["page"]), "\n".join(lines))
    lines[:] = text.split("\n")


def _line(names: list[str], page: str) -> nodes.paragraph:
    line = nodes.paragraph("", "Code: ", classes=["code-of-equation"])
    for position, name in enumerate(names):
        short = ".".join(name.split(".")[-2:])
        # What is private has no entry in the API: its module has.
        target = name.partition("._")[0]
        link = pending_xref("", refdomain="py", reftype="obj", reftarget=target, refexplicit=True, refdoc=page)
        link += nodes.literal(short, short, classes=["xref", "py", "py-obj"])
        line += [nodes.Text(", "), link] if position else [link]
    return line


def _linked(words: str, page: str) -> str:
    linked = NUMBER.sub(r":eq:`\1`", words)
    return linked.replace(f'"{page}"', f":doc:`{' '.join(page.split())} </theory/{file_of(page)}>`")


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect the handlers; docstrings are read when numpydoc has put them into their final form."""
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("doctree-read", link_to_code)
    app.connect("autodoc-process-docstring", link_to_equations, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
