"""What the README and the quickstart name exists; their code runs in `tests/docs`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]


def test_pictures_and_links_of_the_readme_exist() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)]+)\)", text)
    assert targets
    for target in targets:
        assert (ROOT / target).exists(), target


def test_the_readme_quotes_the_validation_table() -> None:
    """No word for what is a number, and the numbers are those of the table."""
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert "exact" not in text
    rows = json.loads((ROOT / "benchmarks/results/validation.json").read_text(encoding="utf-8"))["rows"]
    off = [abs(row["test_error"]["off"]) for row in rows]
    error = [100 * row["test_error"]["error"] / row["test_error"]["mean"] for row in rows]
    assert f"Over the {len(rows)} settings of the validation table" in text
    assert f"off by {median(off):.1f} % in the median and by {max(off):.1f} % at most" in text
    assert f"standard error of {median(error):.1f} % in the median" in text


def test_settings_of_the_quickstart_describe_a_problem() -> None:
    from gradstep.problem import Problem

    block = re.search(r"^```toml\n(.*?)^```", (ROOT / "docs/quickstart.md").read_text(encoding="utf-8"), re.S | re.M)
    assert block
    assert Problem.from_toml(block[1]).origin == "cui2024"
