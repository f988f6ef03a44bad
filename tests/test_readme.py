"""The examples in the README and in the quickstart run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md"])
def test_examples_run(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert blocks
    namespace: dict[str, object] = {"__name__": "example"}
    for block in blocks:
        exec(compile(block, page, "exec"), namespace)
    printed = capsys.readouterr().out
    assert printed
    assert "nan" not in printed


def test_pictures_and_links_of_the_readme_exist() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)]+)\)", text)
    assert targets
    for target in targets:
        assert (ROOT / target).exists(), target


def test_settings_of_the_quickstart_describe_a_problem() -> None:
    from gradstep.problem import Problem

    block = re.search(r"^```toml\n(.*?)^```", (ROOT / "docs/quickstart.md").read_text(encoding="utf-8"), re.S | re.M)
    assert block
    assert Problem.from_toml(block[1]).origin == "cui2024"
