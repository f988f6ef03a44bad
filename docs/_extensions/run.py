"""Code of a page that runs while the docs are built: its pictures, its output and its numbers are the page's.

A block is run in a namespace of its page; what it prints is shown, and so are its figures (those of pyplot, and the
value of a last expression)::

    ```{run}
    :caption: Learning curves at three step sizes
    curve = [gs.predict(problem.replace(n=n)).test_error for n in sizes]
    plt.plot(sizes, curve)
    ```

The code is folded away below its pictures; with ``:show:`` it stands above them, and with ``:hide:`` nowhere. Later on
the page {value}`curve[-1]:.3f` is the value of an expression, formatted as in an f-string.

A warning or an exception of the code fails the build. Pages are run in full each time: keep them at a few seconds.
"""

from __future__ import annotations

import ast
import io
import os
import warnings
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, ClassVar

import pictures
from docutils import nodes
from docutils.parsers.rst import directives
from matplotlib import pyplot as plt
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective, SphinxRole

logger = logging.getLogger(__name__)


def namespace(env: BuildEnvironment) -> dict[str, Any]:
    """Return the names defined so far on the page being read."""
    return env.temp_data.setdefault("run", {"__name__": "page"})


def execute(code: str, names: dict[str, Any], source: str) -> tuple[str, object]:
    """Run a block; return what it printed and the value of its last expression."""
    tree = ast.parse(code, source)
    last = ast.Expression(tree.body.pop().value) if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("error")
        exec(compile(tree, source, "exec"), names)
        if last is not None:
            value = eval(compile(last, source, "eval"), names)
    return printed.getvalue(), value


class Run(SphinxDirective):
    """Run a block of code and show what comes of it."""

    has_content = True
    option_spec: ClassVar = {"caption": directives.unchanged, "show": directives.flag, "hide": directives.flag}

    def run(self) -> list[nodes.Node]:
        code = "\n".join(self.content)
        plt.close("all")
        pictures.set_style()
        try:
            printed, value = execute(code, namespace(self.env), f"{self.env.docname}.md")
        except Exception as error:
            message = f"{type(error).__name__}: {error}"
            logger.warning("code did not run: %s", message, location=self.get_location())
            return []
        shown = [self._picture(figure) for figure in pictures.drawn(value)]
        plt.close("all")
        if printed:
            output = nodes.literal_block(printed, printed, classes=["output"])
            output["language"] = "none"
            shown.append(output)
        if "hide" in self.options:
            return shown
        block = nodes.literal_block(code, code, language="python")
        if "show" in self.options:
            return [block, *shown]
        fold = '<details class="code"><summary>Code</summary>'
        return [*shown, nodes.raw("", fold, format="html"), block, nodes.raw("", "</details>", format="html")]

    def _picture(self, figure: Any) -> nodes.Node:
        number = self.env.temp_data["pictures"] = self.env.temp_data.get("pictures", 0) + 1
        folder = Path(self.env.app.doctreedir) / "pictures"
        folder.mkdir(parents=True, exist_ok=True)
        paths = pictures.save(figure, folder / f"{self.env.docname.replace('/', '-')}-{number}.svg")
        box = nodes.figure(classes=pictures.frame(figure).split())
        for path, when in zip(paths, ("only-light", "only-dark"), strict=True):
            place = Path(os.path.relpath(path, Path(self.env.doc2path(self.env.docname)).parent)).as_posix()
            box += nodes.image(uri=place, alt=pictures.described(figure), classes=[when])
        if "caption" in self.options:
            words, _ = self.parse_inline(self.options["caption"])
            box += nodes.caption("", "", *words)
        return box


class Value(SphinxRole):
    """The value of an expression in a sentence."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        try:
            return [nodes.Text(eval(f"f'''{{{self.text}}}'''", namespace(self.env)))], []
        except Exception as error:
            message = f"{self.text}: {type(error).__name__}: {error}"
            logger.warning("value not understood: %s", message, location=self.get_location())
            return [], []


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive and the role."""
    app.add_directive("run", Run)
    app.add_role("value", Value())
    # The style, the standard output and pyplot's figures are those of the process.
    return {"parallel_read_safe": False, "parallel_write_safe": True}
