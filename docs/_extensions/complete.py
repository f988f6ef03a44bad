"""Every public name has an entry in the API: a name in a module's ``__all__`` without one is a warning of the build."""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Collection, Iterator
from importlib import import_module
from itertools import accumulate
from typing import Any

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging

logger = logging.getLogger(__name__)

#: Nobody imports these by name: programs, what they and the library stand on (files, text, memory, threads), the
#: experiments behind the figures, private modules.
INTERNAL = re.compile(
    r"gradstep\.(app|cli|curve_figure|memory|plain|progress|reading|text_table|threads|versions|__main__)\b|\.experiments\b|\._"
)


def missing(package: str, entries: Collection[str]) -> Iterator[str]:
    """Yield the public names of a package that have no entry.

    A name may have its entry where it is defined, in the module that gives it, or in a package around either. Constants
    do not say where they are defined: any module of the package that gives one will do.
    """
    found = import_module(package)
    for module in [package, *(m.name for m in pkgutil.walk_packages(found.__path__, f"{package}."))]:
        if INTERNAL.search(module):
            continue
        holder = import_module(module)
        for name in getattr(holder, "__all__", ()):
            home = getattr(getattr(holder, name), "__module__", None) or module
            around = {place for m in (module, home) for place in accumulate(m.split("."), "{}.{}".format)}
            known = any(f"{place}.{name}" in entries for place in around) or any(
                entry.startswith(f"{module}.") and entry.endswith(f".{name}") for entry in entries
            )
            if not known and not name.startswith("__"):
                yield f"{module}.{name}"


def check(app: Sphinx, env: BuildEnvironment) -> None:
    """Warn about public names without an entry."""
    for name in missing("gradstep", env.domains.python_domain.objects):
        logger.warning("no entry in the API: %s", name, type="complete")


def setup(app: Sphinx) -> dict[str, Any]:
    """Check when all pages are read."""
    app.connect("env-check-consistency", check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
