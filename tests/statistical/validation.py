"""Theory against the real network: run the settings and print the table of z-scores.

``python tests/statistical/validation.py [name ...]`` prints one line a setting as Markdown; with ``--json FILE`` the
settings run take their rows in that file, which the documentation shows.
"""

import argparse
import json
import os
import tomllib
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

from threadpoolctl import threadpool_limits

import gradstep as gs

TABLE = tomllib.loads(Path(__file__).with_name("settings.toml").read_text(encoding="utf-8"))
QUANTITIES = ("test_error", "train_error", "train_loss")


@dataclass(frozen=True)
class Setting:
    """One setting: theory over its networks, and the error of the theory that is known and granted."""

    name: str
    allowance: float
    limit: str
    comparison: gs.Comparison

    def z(self, quantity: str) -> float:
        """Return what is left of z beyond the allowance."""
        return float(self.comparison[quantity].z_beyond(self.allowance))

    @property
    def largest_z(self) -> float:
        return max(abs(self.z(quantity)) for quantity in QUANTITIES)


def compare(name: str, seeds: int | None = None, dtype: str = "float64") -> Setting:
    """Run one setting, with the first `seeds` of its seeds."""
    entry = {**TABLE["default"], **TABLE["settings"][name]}
    allowance, limit, count = entry.pop("allowance", 0.0), entry.pop("limit", ""), seeds or entry["seeds"]
    entry.pop("seeds")
    if "exponent" in entry:
        entry["eta"] = {"coefficient": entry.pop("coefficient", 1.0), "exponent": entry.pop("exponent")}
    first = TABLE["seed"] + 1000 * sorted(TABLE["settings"]).index(name)
    with threadpool_limits(1):
        found = gs.compare(gs.Problem.from_dict(entry), seeds=range(first, first + count), dtype=dtype)
    return Setting(name, allowance, limit, found)


def row(result: Setting) -> dict[str, Any]:
    """Return a setting as a row of the results file; its z-scores make no allowance."""
    found: dict[str, Any] = {"setting": result.name, "seeds": len(result.comparison.seeds), "limit": result.limit}
    for quantity in QUANTITIES:
        cell = result.comparison.cells[0][quantity]
        off = 100 * (cell["theory"] / cell["mean"] - 1)
        found[quantity] = {
            "theory": cell["theory"],
            "mean": cell["mean"],
            "error": cell["standard_error"],
            "off": off,
            "z": cell["z"],
        }
    return found


def write(path: Path, new: Mapping[str, Any]) -> None:
    """Put rows in the file, and what all of its rows say together."""
    old = {r["setting"]: r for r in json.loads(path.read_text(encoding="utf-8"))["rows"]} if path.exists() else {}
    rows = [(old | dict(new))[name] for name in TABLE["settings"] if name in old or name in new]
    z = [abs(r["test_error"]["z"]) for r in rows]
    spread = [100 * r["test_error"]["error"] * r["seeds"] ** 0.5 / r["test_error"]["mean"] for r in rows]
    settings = {
        "command": "python tests/statistical/validation.py --json",
        "settings": "tests/statistical/settings.toml",
    }
    summary = {
        "count": len(rows),
        "median_z": median(z),
        "beyond_two": sum(v > 2 for v in z),
        "expected_beyond_two": 0.0455 * len(rows),
        "beyond_three": sum(v > 3 for v in z),
        "largest_off": max(abs(r["test_error"]["off"]) for r in rows),
        # Standard deviation of one network's test error, in per cent of the mean.
        "spread": median(spread),
        "largest_spread": max(spread),
    }
    content = {"settings": {**settings, "gradstep": gs.__version__}, "summary": summary, "rows": rows}
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help="settings to run; all by default")
    parser.add_argument("--json", type=Path, metavar="FILE")
    chosen = parser.parse_args()
    names = chosen.names or list(TABLE["settings"])
    print(
        "| setting | test, theory | test, network | difference | z | train, theory | train, network | z | allowance |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        for result in pool.map(compare, names):
            test, train = result.comparison["test_error"], result.comparison["train_error"]
            z = [f"{result.z(name):+.2f}" for name in ("test_error", "train_error")]
            print(
                f"| {result.name} | {test.theory:.4f} | {test.mean:.4f} ± {test.standard_error:.4f} "
                f"| {100 * (test.theory / test.mean - 1):+.1f} % | {z[0]} "
                f"| {train.theory:.4f} | {train.mean:.4f} ± {train.standard_error:.4f} | {z[1]} "
                f"| {f'{100 * result.allowance:g} %: {result.limit}' if result.limit else '–'} |",
                flush=True,
            )
            if chosen.json is not None:
                write(chosen.json, {result.name: row(result)})


if __name__ == "__main__":
    main()
