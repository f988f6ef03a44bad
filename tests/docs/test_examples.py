"""What the docs show runs as it stands: code of pages, doctests of docstrings, command lines."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
import shlex
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import gradstep
from gradstep.cli import app
from gradstep.papers.figure import load_figures

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "theory").glob("*.md"))]


def blocks(page: Path, *languages: str) -> list[str]:
    """Return a page's blocks of code in some languages."""
    return re.findall(rf"^```(?:{'|'.join(languages)})\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


SHORTER = {
    r"seeds=\d+": "seeds=2",
    r'(d:\d+d):\d+"': r'\1:2"',
    r"OneStepRegressor\(random_state": "OneStepRegressor(width=64, random_state",
}
# Blocks named {run} are run by the build of the docs.
CODE = [page for page in PAGES if blocks(page, "python")]
COMMANDS = [
    (name_of(page), line)
    for page in PAGES
    for block in blocks(page, "sh", "bash")
    for line in block.replace("\\\n", " ").splitlines()  # a command may go on in the next line
    if line.startswith("gradstep ")
]


def modules_with_examples() -> list[str]:
    found = []
    for module in pkgutil.walk_packages(gradstep.__path__, "gradstep."):
        spec = find_spec(module.name)
        if spec is not None and spec.origin is not None and ">>> " in Path(spec.origin).read_text("utf-8"):
            found.append(module.name)
    return ["gradstep", *found]


@pytest.mark.parametrize("page", CODE, ids=name_of)
def test_code_of_pages_runs(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    namespace: dict[str, Any] = {"__name__": "page"}
    for block in blocks(page, "python"):
        if "dask_jobqueue" in block and find_spec("dask_jobqueue") is None:
            continue
        # Two networks, two places and few neurons show that it runs; how many a reader asks for is no matter here.
        for asked, enough in SHORTER.items():
            block = re.sub(asked, enough, block)
        exec(compile(block, name_of(page), "exec"), namespace)
    assert "nan" not in capsys.readouterr().out


@pytest.mark.parametrize("name", modules_with_examples())
def test_docstrings(name: str) -> None:
    failed, tried = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert tried
    assert not failed


@pytest.mark.parametrize(("page", "line"), COMMANDS, ids=lambda value: value.split("  ")[0])
def test_commands_can_be_given(page: str, line: str) -> None:
    """Names of commands, options and their types: everything that is checked before a command does anything."""
    words = shlex.split(line.replace("$SLURM_ARRAY_TASK_ID", "3"), comments=True)[1:]
    group = get_command(app)
    with group.make_context("gradstep", list(words), resilient_parsing=False) as context:
        name, command, rest = group.resolve_command(context, [*context._protected_args, *context.args])  # type: ignore[attr-defined]
        assert command is not None, name
        if "--help" not in rest:
            with command.make_context(name, list(rest), parent=context):
                pass


def test_the_page_of_the_papers_has_every_figure_in_its_row() -> None:
    rows = re.findall(r"^\| ([BMCU]\d+) \|.*\| (.*) \|$", (ROOT / "docs" / "papers.md").read_text("utf-8"), re.M)
    listed = {name: row for row, names in rows for name in re.findall(r"`(\w+)`", names)}
    assert listed == {figure.name: figure.row for figure in load_figures()}


def test_there_is_something_to_test() -> None:
    assert len(CODE) >= 4
    assert len(COMMANDS) >= 20
    assert len(modules_with_examples()) >= 8
