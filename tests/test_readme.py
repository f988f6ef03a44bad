"""What the README and the quickstart name exists; their code runs in `tests/docs`."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]


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
