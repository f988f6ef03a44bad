"""numpydoc compiles the template of its docstrings anew for each of them; here it does so once in a build."""

from __future__ import annotations

from typing import Any

from jinja2 import BaseLoader
from jinja2.sandbox import SandboxedEnvironment
from numpydoc import docscrape_sphinx
from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, Any]:
    """Give all docstrings the environment of the first: their loaders look into the same folders."""
    made: list[SandboxedEnvironment] = []

    def once(*, loader: BaseLoader) -> SandboxedEnvironment:
        if not made:
            made.append(SandboxedEnvironment(loader=loader))
        return made[0]

    docscrape_sphinx.SandboxedEnvironment = once
    return {"parallel_read_safe": True, "parallel_write_safe": True}
