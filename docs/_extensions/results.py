"""Numbers of a page that come from a results file, so that no page holds a number that was typed.

A results file is JSON (or JSON lines: a list with one row a line) somewhere under ``benchmarks/results/`` or
``docs/results/``, written by a command that its settings name. Paths count from the repository's root.

A table takes its rows from the list under ``rows``, one line of the directive's body a column: the header, a colon, and
a format string of Python in which the row's keys are the names::

    ```{results} docs/results/corrections.json
    :rows: rows

    step: {step}
    theory: {theory:.4f}
    network: {measured[mean]:.4f} ± {measured[error]:.4f}
    within: {passed}
    ```

with the file ::

    {
        "settings": {"command": "python -m benchmarks.corrections", "d": 512, "seeds": 16},
        "rows": [{"step": "1", "theory": 0.2104, "measured": {"mean": 0.2108, "error": 0.0006}, "passed": true}],
    }

What the file says under ``settings`` is written below the table. True, false and nothing read "yes", "no" and "–".
Options:

``:rows:``
    where the rows are, as in ``rows`` (the default) or ``[tables][first]``; a file that is a list is its own rows.
``:settings:``
    where the settings are (default ``settings``, and nothing is written where there are none).
``:where:``
    keep the rows in which this key is true, or ``key=text`` has this text.
``:by:``
    ``module:function`` returns the Markdown to show, for what a table of columns cannot say: there is then no body. It
    is called with the file's content, or with the part of it that ``:rows:`` names.

A number in a sentence: {result}`docs/results/corrections.json {settings[seeds]} seeds`, that is, the path, a space, and
a format string of the file's content (of ``{0[3][name]}`` where the file is a list).

A file or key that is missing is a warning, hence an error of the build.
"""

from __future__ import annotations

import json
import string
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective, SphinxRole

logger = logging.getLogger(__name__)

ROOT = Path(__file__).resolve().parents[2]
_WORDS = {None: "–", True: "yes", False: "no"}


class _Formatter(string.Formatter):
    """Python's format strings, with words for what is no number."""

    def format_field(self, value: Any, format_spec: str) -> str:
        if value is None or isinstance(value, bool):
            return _WORDS[value]
        return str(super().format_field(value, format_spec))


_formatter = _Formatter()


@cache
def read(name: str) -> Any:
    """Return what a results file holds; a page has many numbers of one."""
    text = (ROOT / name).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()] if name.endswith(".jsonl") else json.loads(text)


def fill(template: str, content: Any) -> str:
    """Fill a format string from a mapping by key, from anything else by position."""
    if isinstance(content, Mapping):
        return _formatter.vformat(template, (), content)
    return _formatter.vformat(template, (content,), {})


def find(path: str, content: Any) -> Any:
    """Return the part of a file that ``name`` or ``[name][name]`` leads to."""
    for key in path.strip("[]").split("]["):
        content = content[int(key) if isinstance(content, list) else key]
    return content


def table(rows: list[Mapping[str, Any]], columns: Sequence[tuple[str, str]]) -> str:
    """Return rows as a table in Markdown, from the header and the template of each column."""
    lines = [[header for header, _ in columns], ["---"] * len(columns)]
    lines += [[fill(template, row).replace("|", r"\|") for _, template in columns] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def described(settings: Mapping[str, Any]) -> str:
    """Return settings as a phrase in Markdown."""
    words = {
        name: f"{value:.4g}" if isinstance(value, float) else fill("{v}", {"v": value})
        for name, value in settings.items()
    }
    return ", ".join(f"{name.replace('_', ' ')} {word}" for name, word in words.items())


def kept(row: Mapping[str, Any], where: str) -> bool:
    """Return whether a row is to be shown."""
    key, equals, text = where.partition("=")
    return str(row[key]) == text if equals else bool(row[key])


def columns_of(lines: Iterable[str]) -> list[tuple[str, str]]:
    """Return the header and the template of each column; several may have one header, such as "±"."""
    parts = [line.partition(": ") for line in lines if line.strip()]
    return [(header.strip(), template.strip()) for header, _, template in parts]


class Results(SphinxDirective):
    """A table, or what a function writes, from a results file."""

    required_arguments = 1
    has_content = True
    option_spec: ClassVar = dict.fromkeys(("rows", "settings", "where", "by"), directives.unchanged_required)

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0]
        self.env.note_dependency(str(ROOT / name))
        try:
            content = read(name)
            text, note = self._markdown(content), self._note(content)
        except (OSError, LookupError, TypeError, ValueError, AttributeError) as error:
            message = f"{name}: {type(error).__name__}: {error}"
            logger.warning("results not understood: %s", message, location=self.get_location())
            return []
        box = nodes.container(classes=["results"])
        for part in (text, note):
            self.state.nested_parse(StringList(part.splitlines(), source=name), self.content_offset, box)
        box[-1]["classes"].append("source")
        return [box]

    def _markdown(self, content: Any) -> str:
        if "by" in self.options:
            module, function = self.options["by"].split(":")
            part = find(self.options["rows"], content) if "rows" in self.options else content
            return str(getattr(import_module(module), function)(part))
        rows = content if isinstance(content, list) else find(self.options.get("rows", "rows"), content)
        where = self.options.get("where")
        return table([row for row in rows if where is None or kept(row, where)], columns_of(self.content))

    def _note(self, content: Any) -> str:
        if "settings" in self.options or (isinstance(content, Mapping) and "settings" in content):
            return f"From `{self.arguments[0]}`: {described(find(self.options.get('settings', 'settings'), content))}."
        return f"From `{self.arguments[0]}`."


class Result(SphinxRole):
    """A number of a results file in a sentence."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        name, _, template = self.text.partition(" ")
        self.env.note_dependency(str(ROOT / name))
        try:
            return [nodes.Text(fill(template, read(name)))], []
        except (OSError, LookupError, TypeError, ValueError, AttributeError) as error:
            message = f"{name}: {type(error).__name__}: {error}"
            logger.warning("result not understood: %s", message, location=self.get_location())
            return [], []


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive and the role."""
    sys.path.insert(0, str(ROOT))  # functions of `benchmarks` may be named under :by:
    app.add_directive("results", Results)
    app.add_role("result", Result())
    return {"parallel_read_safe": True, "parallel_write_safe": True}
