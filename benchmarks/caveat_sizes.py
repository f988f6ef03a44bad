"""Factors of the caveats, fitted to networks: by how much each indicator makes a prediction deviate.

``python -m benchmarks.caveat_sizes FILE`` computes the indicators of all settings of the search and of the settings
drawn at random, fits the factors of `gradstep.theory.caveats` and prints them beside those that are in use. It writes
how predictions with an estimate of some size deviate, with the factors in use. It takes some ten minutes.
"""

from __future__ import annotations

import argparse
import json
import math
import warnings
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from benchmarks.hunt.settings import PENALTIES
from benchmarks.hunt.table import FAR, RIGHT, SIGMA
from benchmarks.random_settings import KNOWN, kind_of, problem
from scipy.optimize import minimize

import gradstep as gs
from gradstep.errors import GradstepError
from gradstep.sweeps.store import write_whole
from gradstep.theory.caveats import _LEAST, _RULES, indicators

RESULTS = Path(__file__).parent / "results"
#: How much the settings of a table weigh together: those of the dimension of a design, and larger ones. The last is the
#: part of the settings drawn at random that has power laws.
WEIGHTS = {
    "hunt.json": (1.0, 0.2),
    "hunt_inputs.json": (0.6, 0.1),
    "random_settings.json": (0.4, 0.0),
    "power laws": (0.4, 0.0),
}
#: Estimates between which deviations are collected.
BORDERS = (0.0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 1.0)
#: Least factors: with them settings outside the tables that are known to be far off have their caveats
#: (`tests/theory/test_caveats.py`; docs, "Correlated inputs" and the pages that continue it).
AT_LEAST = {
    "few_step_samples": 0.3, "mixed_bulk": 0.21, "stretch": 0.45, "own_output": 0.21, "sizes": 0.85, "direction": 0.3,
    "leading": 0.02, "step_interpolation": 0.065,
}  # fmt: skip
#: The loss asks first whether the estimate tells predictions that are far off from right ones: a logistic law of this
#: steepness in the logarithm of the estimate. With these weights the likelihood of the deviations is added, and the
#: squared distance from the logarithms of the factors in use.
_STEEPNESS, _LAW, _PULL = 2.5, 0.3, 1e-3

Array = np.ndarray


class Measured(NamedTuple):
    """A prediction beside networks: its table, indicators, deviation and the standard error of it, both relative."""

    table: str
    larger: bool
    indicators: list[float]
    deviation: float
    error: float


def _settings() -> Iterator[tuple[str, bool, list[gs.Problem], Mapping[str, Any]]]:
    """Return the table of a setting, whether it is of a larger dimension, its problems, and what networks have.

    There is a problem for each penalty.
    """
    for name in ("hunt.json", "hunt_inputs.json"):
        table = json.loads((RESULTS / name).read_text())
        for row in [*table["rows"], *table.get("larger", ())]:
            if "theory" in row:
                networks = {key: row[key]["test_error"] for key in ("mean", "error")}
                plain = row["problem"]
                problems = [gs.Problem.from_dict({**plain, "ridge": factor * plain["ridge"]}) for factor in PENALTIES]
                yield name, row["d"] > table["rows"][0]["d"], problems, networks
    for row in json.loads((RESULTS / "random_settings.json").read_text())["rows"]:
        # Three networks of each at the largest dimension are too few.
        # Errors of the fresh settings are known from six networks only.
        if row["d"] < 3200 and kind_of(row["number"]) != "fresh":
            name = "random_settings.json" if kind_of(row["number"]) == "first" else "power laws"
            problems = [problem(row["number"], row["d"], factor) for factor in PENALTIES]
            yield name, False, problems, {key: row[key][0] for key in ("mean", "error")}


def measured(name: str, larger: bool, problems: list[gs.Problem], networks: Mapping[str, Any]) -> list[Measured]:
    """Return a setting of a table, once for each penalty that theory answers for."""
    warnings.simplefilter("ignore")
    found = []
    for one, mean, error in zip(problems, networks["mean"], networks["error"], strict=True):
        try:
            prediction = gs.predict(one)
        except GradstepError:
            continue
        told = indicators(prediction)
        off = float(prediction.test_error) / mean - 1
        found.append(Measured(name, larger, [told.get(key, 0.0) for key in _RULES], off, error / mean))
    return found


def estimates(found: Array, factors: Array) -> Array:
    """Return the estimated relative deviation, from all indicators together."""
    powers = np.array([rule.power for rule in _RULES.values()])
    return np.asarray(np.sqrt(((factors * np.clip(found, 0.0, 1e3) ** powers) ** 2).sum(axis=1)))


def fitted(every: list[Measured]) -> Array:
    """Return factors with which the estimate tells what is far off from what is right, and is of a deviation's size."""
    found, deviation, error = (np.array([getattr(m, name) for m in every]) for name in Measured._fields[2:])
    far, right = _judged(deviation, error)
    telling, weight = np.zeros(len(every)), np.zeros(len(every))
    for name, weights in WEIGHTS.items():
        for larger, share in zip((False, True), weights, strict=True):
            own = np.array([m.table == name and m.larger is larger for m in every])
            weight[own] = share / max(own.sum(), 1)
            for kind in (far, right):
                telling[own & kind] = share / max((own & kind).sum(), 1)
    side = np.where(far, 1.0, -1.0)
    now = np.log([rule.factor for rule in _RULES.values()])

    def loss(logs: Array) -> float:
        estimate = estimates(found, np.exp(logs))
        margin = _STEEPNESS * side * np.log((estimate + 1e-4) / FAR)
        square = estimate**2 + error**2 + 1e-6
        # Student's law of three degrees of freedom tolerates deviations that no indicator knows of.
        law = np.log(square) / 2 + 2 * np.log1p(deviation**2 / square / 3)
        return float(telling @ np.logaddexp(0, -margin) + _LAW * weight @ law + _PULL * ((logs - now) ** 2).sum())

    bounds = [(math.log(AT_LEAST[key]) if key in AT_LEAST else None, None) for key in _RULES]
    return np.asarray(np.exp(minimize(loss, now, method="L-BFGS-B", bounds=bounds, options={"maxiter": 400}).x))


def _judged(deviation: Array, error: Array) -> tuple[Array, Array]:
    """Return which predictions are far off, and which are right."""
    off = np.abs(deviation)
    return (off > FAR) & (off > SIGMA * error), (off < RIGHT) & (error < RIGHT)


def summary(every: list[Measured]) -> dict[str, Any]:
    """Return how predictions with an estimate of some size deviate, with the factors in use; in per cent."""
    found, deviation, error = (np.array([getattr(m, name) for m in every]) for name in Measured._fields[2:])
    estimate = estimates(found, np.array([rule.factor for rule in _RULES.values()]))
    sizes = []
    for low, high in pairwise(BORDERS):
        some = (estimate >= low) & (estimate < high) & (error < KNOWN)
        if not some.any():
            continue
        # Beside what the networks' own errors bring.
        square = float(np.mean(np.minimum(np.square(deviation[some]), 1.0) - np.square(error[some])))
        off = np.abs(deviation[some])
        sizes.append({
            "from": 100 * low,
            "to": 100 * high,
            "predictions": int(some.sum()),
            "median": 100 * float(np.median(off)),
            "root_mean_square": 100 * math.sqrt(max(square, 0.0)),
        })  # fmt: skip
    (far, right), shown = _judged(deviation, error), estimate >= _LEAST
    told = []
    for name in WEIGHTS:
        own = np.array([m.table == name and not m.larger for m in every])
        if not (far & own).any() or not (right & own).any():
            continue
        line: dict[str, Any] = {"table": name}
        for key, kind in (("far", far & own), ("right", right & own)):
            line |= {key: int(kind.sum()), f"{key}_told": 100 * float(shown[kind].mean())}
        told.append(line)
    return {"sizes": sizes, "told": told}


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
        every = [m for found in pool.map(measured, *zip(*_settings(), strict=True), chunksize=8) for m in found]
    for (name, rule), factor in zip(_RULES.items(), fitted(every), strict=True):
        print(f"{name:18} in use {rule.factor:.2g}, fitted {factor:.2g}")
    settings = {"command": "python -m benchmarks.caveat_sizes FILE", "least": 100 * _LEAST}
    write_whole(options.file, json.dumps({"settings": settings, **summary(every)}, indent=1) + "\n")


if __name__ == "__main__":
    main()
