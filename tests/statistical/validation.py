"""Theory against the real network: run the settings and print the table of z-scores.

``python tests/statistical/validation.py [name ...]`` prints one line a setting as Markdown.
"""

import os
import sys
import tomllib
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from threadpoolctl import threadpool_limits

import gradstep as gs
from gradstep.papers.outcome import judge

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


def main() -> None:
    names = sys.argv[1:] or list(TABLE["settings"])
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


if __name__ == "__main__":
    main()
