"""The documentation's page of corrections: its results file says what the code says, and the measurements agree."""

from __future__ import annotations

import importlib.util
import json
import math
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
ROWS: dict[str, dict[str, Any]] = {
    row["name"]: row for row in json.loads((BENCHMARKS / "results" / "corrections.json").read_text("utf-8"))["rows"]
}


@pytest.fixture(scope="module")
def corrections() -> Any:
    spec = importlib.util.spec_from_file_location("corrections", BENCHMARKS / "corrections.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look their module up.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_every_correction_is_measured(corrections: Any) -> None:
    assert [make.__name__ for make in corrections.CORRECTIONS] == list(ROWS)


@pytest.mark.parametrize("name", ROWS)
def test_values_shown_are_those_of_the_code(corrections: Any, name: str) -> None:
    made, row = getattr(corrections, name)(), ROWS[name]
    assert math.isclose(made.published, row["published"], rel_tol=1e-6)
    assert math.isclose(made.corrected, row["corrected"], rel_tol=1e-6)
    assert (len(made.seeds), made.seeds.start, made.settings) == (row["seeds"], row["first_seed"], row["settings"])


@pytest.mark.parametrize("name", ROWS)
def test_measurements_reject_what_is_published(name: str) -> None:
    row = ROWS[name]
    assert abs(row["z_published"]) > 3
    assert abs(row["z_corrected"]) < 3


def test_a_measurement_is_repeatable(corrections: Any) -> None:
    made = corrections.spike_and_width()
    values = [made.measure(seed) for seed in made.seeds]
    assert math.isclose(sum(values) / len(values), ROWS["spike_and_width"]["mean"], rel_tol=1e-8)
