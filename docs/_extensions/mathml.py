"""Write formulas as MathML, which browsers draw themselves: no script, nothing fetched from elsewhere."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

logger = logging.getLogger(__name__)

#: How many parts an element has.
_PARTS = {"msubsup": 3, "munderover": 3} | dict.fromkeys(("mfrac", "mroot", "msub", "msup", "munder", "mover"), 2)


def mathml(node: nodes.Element, display: str) -> str:
    """Convert the formula of a node; a command that the converter does not know is a warning, hence an error."""
    source = node.astext()
    if r"\\" in source and r"\begin" not in source:
        source = rf"\begin{{align*}}{source}\end{{align*}}"
    source = source.replace("{aligned}", "{align*}")
    # Without braces the converter hangs the exponent of a matrix on its last bracket, and brackets may stay small.
    source = re.sub(r"(\\begin\{pmatrix\}(?:(?!\\end).)*\\end\{pmatrix\})", r"{\1}", source, flags=re.DOTALL)
    text = convert(source, display=display)
    if "\\" in text or "<mi>&</mi>" in text or not _is_complete(ElementTree.fromstring(text)):
        logger.warning("formula not understood: %s", source, location=node)
    text = text.replace("<mi>&#x0007E;</mi>", "<mo>&#x0223C;</mo>")  # the converter writes \\sim as an accent
    # The letters ^ and ~ are too large for accents: Chromium draws them through what they stand on.
    text = re.sub("<mo[^>]*>&#x0005E;</mo>", '<mo stretchy="false">&#x002C6;</mo>', text)
    text = re.sub("<mo[^>]*>&#x0007E;</mo>", '<mo stretchy="false">&#x002DC;</mo>', text)
    # Chromium lowers a bracket of a given size that has an exponent, unless it stands in a group of its own.
    text = re.sub(r"(<m(?:sub|sup|subsup)>)(<mo [^>]*minsize[^>]*>[^<]*</mo>)", r"\1<mrow>\2</mrow>", text)
    # A bar and a slash have the spaces of a relation unless told otherwise; norms and fractions have none.
    return re.sub("<mo([^>]*)>(?=&#x0007C;|&#x0002F;)", r'<mo\1 lspace="0" rspace="0">', text)


def _is_complete(formula: ElementTree.Element) -> bool:
    """Whether all fractions, roots and elements with an index or an exponent have the parts that a browser expects."""
    return all(len(each) == _PARTS.get(each.tag.rpartition("}")[2], len(each)) for each in formula.iter())


def visit_math(self: HTML5Translator, node: nodes.math) -> None:
    """Write an inline formula."""
    self.body.append(mathml(node, "inline"))
    raise nodes.SkipNode


def visit_math_block(self: HTML5Translator, node: nodes.math_block) -> None:
    """Write a displayed formula, with its number if it has one."""
    self.body.append(self.starttag(node, "div", CLASS="math"))
    if node["number"]:
        number = f"{node['number']}"
        self.body.append(f'<span class="eqno">({number})')
        self.add_permalink_ref(node, "Link to this equation")
        self.body.append("</span>")
    # Browsers scroll boxes, not formulas.
    self.body.append(f'<div class="formula">{mathml(node, "block")}</div></div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
