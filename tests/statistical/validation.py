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
from gradstep.papers.outcome import judge
from gradstep.sweeps.statistics import student_z

TABLE = tomllib.loads(Path(__file__).with_name("settings.toml").read_text(encoding="utf-8"))
QUANTITIES = ("test_error", "train_error", "train_loss")


@dataclass(frozen=True)
class Comparison:
    """One setting: theory, mean, standard error and z by quantity."""

    name: str
    allowance: float
    limit: str
    seeds: int
    values: dict[str, tuple[float, float, float, float]]

    @property
    def largest_z(self) -> float:
        return max(abs(z) for *_, z in self.values.values())


def compare(name: str, seeds: int | None = None) -> Comparison:
    """Run one setting, with the first `seeds` of its seeds."""
    entry = {**TABLE["default"], **TABLE["settings"][name]}
    allowance, limit, count = entry.pop("allowance", 0.0), entry.pop("limit", ""), seeds or entry["seeds"]
    entry.pop("seeds")
    if "exponent" in entry:
        entry["eta"] = {"coefficient": entry.pop("coefficient", 1.0), "exponent": entry.pop("exponent")}
    problem = gs.Problem.from_dict(entry)
    prediction = gs.predict(problem)
    first = TABLE["seed"] + 1000 * sorted(TABLE["settings"]).index(name)
    with threadpool_limits(1):
        measurement = gs.simulate(problem, seeds=range(first, first + count))
    values = {}
    for quantity in QUANTITIES:
        theory = getattr(prediction, quantity)
        mean, error, z = judge(theory, measurement[quantity], allowance)
        values[quantity] = (theory, mean, error, z)
    return Comparison(name, allowance, limit, count, values)


def row(result: Comparison) -> dict[str, Any]:
    """Return a comparison as a row of the results file; its z-scores make no allowance."""
    found: dict[str, Any] = {"setting": result.name, "seeds": result.seeds, "limit": result.limit}
    for quantity, (theory, mean, error, _) in result.values.items():
        off = 100 * (theory / mean - 1)
        z = float(student_z(theory, mean, error, result.seeds))
        found[quantity] = {"theory": theory, "mean": mean, "error": error, "off": off, "z": z}
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
            test, train = result.values["test_error"], result.values["train_error"]
            print(
                f"| {result.name} | {test[0]:.4f} | {test[1]:.4f} ± {test[2]:.4f} "
                f"| {100 * (test[0] / test[1] - 1):+.1f} % | {test[3]:+.2f} "
                f"| {train[0]:.4f} | {train[1]:.4f} ± {train[2]:.4f} | {train[3]:+.2f} "
                f"| {f'{100 * result.allowance:g} %: {result.limit}' if result.limit else '–'} |",
                flush=True,
            )
            if chosen.json is not None:
                write(chosen.json, {result.name: row(result)})


if __name__ == "__main__":
    main()
