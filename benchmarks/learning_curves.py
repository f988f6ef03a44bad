"""Learning curves from one pool against refits, on synthetic rows and on tables that packages carry, and their time.

``python -m benchmarks.learning_curves benchmarks/results/learning_curves.json`` writes what the docs show. It goes on
where it was interrupted: every setting has its own seed, and those in the file are not computed again.

Synthetic rows come without end, so that the refits measure the population's own error; the estimate is averaged over
many pools. A table is a population of finitely many rows, of which the pool is a part (a quarter). A refit has n random
rows of the table and is tested on all others. An estimate from a share of a finite population varies by the root of
what is left of it less, which is taken into account, like the scatter of the refits. A quarter of each table is set
aside before everything else: on these rows the step of the learned features is taken.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.estimator_data import DataSet, data_sets, development_sets
from benchmarks.rounding import rounded
from scipy.special import stdtrit
from threadpoolctl import threadpool_limits

import gradstep as gs

Array = np.ndarray
Row = dict[str, Any]

WIDTH = 100
#: Numbers of samples as shares of the pool.
SHARES = (0.1, 0.25, 0.5, 1.0, 2.0)
#: Penalties over the mean eigenvalue of the Gram matrix of the pool.
PENALTIES = (1e-3, 1e-2, 1e-1)
REFITS = 20
POOLS = 4
FEWEST_ROWS = 50
SYNTHETIC_POOLS = 48
SYNTHETIC_REFITS = 200
SYNTHETIC_ROWS = 500
TEST_ROWS = 20000
DIMENSION = 60
#: Rows, features, repeats of the measurements of time, and calls of scikit-learn's function that are timed in each.
TIMES = ((500, 100, 5, 10), (1000, 200, 3, 10), (2000, 400, 3, 10), (20000, 500, 2, 3), (100000, 500, 2, 1))

FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0.0),
    "tanh and square": lambda x: np.tanh(x) + 0.3 * x**2,
}


def ridge_errors(features: Array, y: Array, test: Array, target: Array, penalties: Array) -> Array:
    """Return test and training error of a fit for every penalty, shape (2, penalties)."""
    values, vectors = np.linalg.eigh(features.T @ features)
    moment = vectors.T @ (features.T @ y)
    readouts = vectors @ (moment[:, None] / (values[:, None] + penalties))
    return np.stack([((a[:, None] - f @ readouts) ** 2).mean(axis=0) for f, a in ((test, target), (features, y))])


def compared(curves: list[Any], refits: Array, finite: float) -> list[Row]:
    """Return a row for each n and penalty: estimates, their standard errors, and the refits (refit, 2, n, penalty)."""
    rows = []
    mean, scatter = refits.mean(axis=0), refits.std(axis=0, ddof=1) / len(refits) ** 0.5
    for place in np.ndindex(curves[0].test_error.shape):
        entry: Row = {"n": int(curves[0].n[place[0]]), "share": SHARES[place[0]], "penalty": PENALTIES[place[1]]}
        for kind, k in (("test", 0), ("training", 1)):
            entry[kind] = {
                "refits": float(mean[(k, *place)]),
                "refits_error": float(scatter[(k, *place)]),
                "estimates": [float(getattr(curve, f"{kind}_error")[place]) for curve in curves],
                "standard_errors": [float(getattr(curve, f"{kind}_standard_error")[place]) for curve in curves],
                "freedoms": [float(getattr(curve, f"{kind}_freedom")[place]) for curve in curves],
            }
        entry["left"] = finite
        rows.append(entry)
    return rows


def synthetic() -> Iterator[tuple[str, Callable[[np.random.Generator], Any]]]:
    """Yield the names of ten laws of rows with what draws one: a function that returns features and labels."""

    def layer(name: str, spike: float, teacher: Callable[[Array], Array], *, aligned: bool = False) -> Any:
        def drawn(random: np.random.Generator) -> Any:
            weights = random.standard_normal((WIDTH, DIMENSION)) / DIMENSION**0.5
            pull = np.ones(WIDTH) if aligned else random.standard_normal(WIDTH)
            weights[:, 0] += spike * pull

            def rows(count: int) -> tuple[Array, Array]:
                x = random.standard_normal((count, DIMENSION))
                return FUNCTIONS[name](x @ weights.T), teacher(x[:, 0]) + 0.3 * random.standard_normal(count)

            return rows

        return drawn

    def gaussian(power: float, *, heavy: bool = False) -> Any:
        def drawn(random: np.random.Generator) -> Any:
            scale = np.arange(1, WIDTH + 1.0) ** -power
            beta = random.standard_normal(WIDTH)

            def rows(count: int) -> tuple[Array, Array]:
                features = random.standard_normal((count, WIDTH)) * scale
                if heavy:
                    features *= np.sqrt(5 / random.chisquare(5, count))[:, None]
                return features, features @ beta + 0.5 * random.standard_normal(count)

            return rows

        return drawn

    for name in FUNCTIONS:
        yield f"random features, {name}", layer(name, 0.0, np.sin)
        yield f"after a step, {name}", layer(name, 2.0, lambda u: np.sin(2 * u), aligned=name != "tanh")
    yield "isotropic Gaussian", gaussian(0.0)
    yield "power law", gaussian(0.5)
    yield "steep power law", gaussian(1.0)
    yield "Student, five degrees", gaussian(0.0, heavy=True)


def measure_synthetic(name: str, law: Any) -> Row:
    """Compare the mean over pools with refits on fresh rows."""
    random = np.random.default_rng(zlib.crc32(name.encode()))
    rows = law(random)
    test, _ = rows(TEST_ROWS)
    penalties = np.array(PENALTIES) * float((test**2).sum()) / TEST_ROWS / WIDTH * SYNTHETIC_ROWS
    sizes = [round(share * SYNTHETIC_ROWS) for share in SHARES]
    refits = np.array(
        [
            np.stack([ridge_errors(*rows(n), *rows(2000), penalties) for n in sizes], axis=1)
            for _ in range(SYNTHETIC_REFITS)
        ]
    )
    curves = [gs.learning_curve(*rows(SYNTHETIC_ROWS), n=sizes, ridge=penalties) for _ in range(SYNTHETIC_POOLS)]
    return {"name": name, "rows": SYNTHETIC_ROWS, "layer": "synthetic", "cells": compared(curves, refits, 1.0)}


def standardised(data: DataSet) -> tuple[Array, Array]:
    """Return inputs with a column of ones and standardised targets: the first class against the others, if classes."""
    X, y, *_ = data.load()
    X = X[:, X.std(axis=0) > 0]
    X = np.clip((X - X.mean(axis=0)) / X.std(axis=0), -5, 5)
    if data.kind == "classification":
        y = np.where(y == y.min(), 1.0, -1.0)
    return X, (y - y.mean()) / y.std()


def layers(inputs: Array, targets: Array, aside: Array, random: np.random.Generator) -> Iterator[tuple[str, Array]]:
    """Yield the features of all rows by random weights and by those after a step on the rows set aside."""
    weights = random.standard_normal((WIDTH, inputs.shape[1])) / inputs.shape[1] ** 0.5
    yield "random", np.tanh(inputs @ weights.T)
    readout = random.choice([-1.0, 1.0], WIDTH)
    before = inputs[aside] @ weights.T
    slope = (targets[aside, None] * (1 - np.tanh(before) ** 2) * readout).T @ inputs[aside] / len(aside)
    stepped = weights + slope * (np.linalg.norm(weights) / max(np.linalg.norm(slope), 1e-300))
    yield "learned", np.tanh(inputs @ stepped.T)


def measure_table(data: DataSet) -> list[Row]:
    """Compare estimates from parts of a table with refits on the table, for random and learned features."""
    random = np.random.default_rng(zlib.crc32(data.name.encode()))
    inputs, targets = standardised(data)
    order = random.permutation(len(targets))
    aside, kept = order[: len(order) // 4], order[len(order) // 4 :]
    rows = len(kept) // 4
    if rows < FEWEST_ROWS:
        return []
    sizes = [max(round(share * rows), 2) for share in SHARES]
    found = []
    for layer, features in layers(inputs, targets, aside, random):
        phi = np.column_stack([np.ones(len(kept)), features[kept]])
        y = targets[kept]
        penalties = np.array(PENALTIES) * float((phi**2).sum()) / len(kept) / phi.shape[1] * rows

        def refit(n: int, phi: Array = phi, y: Array = y, penalties: Array = penalties) -> Array:
            mixed = random.permutation(len(y))
            train, test = mixed[:n], mixed[n:]
            return ridge_errors(phi[train], y[train], phi[test], y[test], penalties)

        refits = np.array([np.stack([refit(n) for n in sizes], axis=1) for _ in range(REFITS)])
        curves = []
        for _ in range(POOLS):
            pool = random.permutation(len(y))[:rows]
            curves.append(gs.learning_curve(phi[pool], y[pool], n=sizes, ridge=penalties))
        found.append(
            {
                "name": data.name,
                "source": data.source,
                "rows": rows,
                "layer": layer,
                "cells": compared(curves, refits, 1 - rows / len(y)),
                "caveats": sorted({note for curve in curves for note in curve.caveats}),
            }
        )
    return found


def measure_time(rows: int, width: int, repeats: int, calls: int) -> Row:
    """Return seconds of one core for ten sizes and ten penalties, here and with scikit-learn's five folds, in turn.

    The latter is called once for each penalty. All of its calls do the same work, so that for many rows some of the ten
    stand for all. Each number is the least of some repeats.
    """
    from sklearn.linear_model import Ridge
    from sklearn.model_selection import learning_curve

    random = np.random.default_rng(0)
    x = random.standard_normal((rows, width // 2))
    phi = np.tanh(x @ (random.standard_normal((width, width // 2)) / (width / 2) ** 0.5).T)
    y = np.sin(x[:, 0]) + 0.3 * random.standard_normal(rows)
    penalties = np.logspace(-3, 1, 10) * float((phi**2).sum()) / width
    options = {"train_sizes": np.linspace(0.1, 1.0, 10), "cv": 5, "scoring": "neg_mean_squared_error"}
    ours, theirs = [], []
    for _ in range(repeats):
        began = time.process_time()
        gs.learning_curve(phi, y, n=(np.linspace(0.08, 0.8, 10) * rows).round(), ridge=penalties)
        ours.append(time.process_time() - began)
        began = time.process_time()
        for penalty in penalties[:calls]:
            learning_curve(Ridge(penalty, fit_intercept=False), phi, y, **options)
        theirs.append((time.process_time() - began) * len(penalties) / calls)
    best = {"here": min(ours), "scikit_learn": min(theirs)}
    return {"rows": rows, "width": width, "calls": calls, **best, "ratio": best["scikit_learn"] / best["here"]}


def measure_cost(rows: int, width: int) -> Row:
    """Return seconds for one pair of n and penalty, for a hundred, and for one Gram matrix of the same features."""
    random = np.random.default_rng(0)
    x = random.standard_normal((rows, 50))
    phi = np.tanh(x @ random.standard_normal((50, width)) / 50**0.5)
    y = np.sin(x[:, 0]) + 0.3 * random.standard_normal(rows)
    began = time.process_time()
    gram = phi.T @ phi
    once = time.process_time() - began
    began = time.process_time()
    mean = float(np.trace(gram)) / width
    gs.learning_curve(phi, y, n=rows // 2, ridge=mean / 100)
    one = time.process_time() - began
    began = time.process_time()
    gs.learning_curve(phi, y, n=(np.linspace(0.1, 1, 10) * rows).round(), ridge=mean * np.logspace(-3, 1, 10))
    grid = time.process_time() - began
    return {"rows": rows, "width": width, "gram": once, "here": one, "grid": grid, "grams": grid / once}


def summary(kept: Row) -> Row:
    """Return the rows of the tables of the docs: bias on synthetic rows, bias and coverage on tables."""
    laws = []
    for entry in kept["synthetic"]:
        laws.append({"name": entry["name"], **{kind: _against_the_pool(entry, kind) for kind in ("test", "training")}})
    tables = []
    for layer in ("random", "learned"):
        for kind in ("test", "training"):
            for share in SHARES:
                entries = [entry["cells"] for entry in kept["tables"] if entry["layer"] == layer]
                cells = [cell for own in entries for cell in own if cell["share"] == share]
                found = {"layer": layer, "kind": kind, "share": share, "coverage": _coverage(cells, kind)}
                estimates = [np.array(cell[kind]["estimates"], float) for cell in cells]
                with warnings.catch_warnings():  # means over pools of which none has an estimate
                    warnings.simplefilter("ignore", RuntimeWarning)
                    means = [np.nanmean(values) for values in estimates]
                off = [mean / cell[kind]["refits"] - 1 for mean, cell in zip(means, cells, strict=True)]
                missing = 100 * float(np.mean([np.isnan(values).mean() for values in estimates]))
                tables.append(found | {"bias": 100 * float(np.nanmedian(off)), "missing": missing})
    return {"laws": laws, "tables": tables, "number_of_tables": len({entry["name"] for entry in kept["tables"]})}


def _against_the_pool(entry: Row, kind: str) -> Row:
    """Return by how many per cent estimates are off at other n than that of the pool, relative to what they are there.

    ``ratio`` is the median of the standard error over the standard deviation from pool to pool.
    """
    reference = {cell["penalty"]: cell[kind] for cell in entry["cells"] if cell["share"] == 1}
    off, errors, ratios = [], [], []
    for cell in entry["cells"]:
        own, pool = cell[kind], reference[cell["penalty"]]
        values, at_pool = np.array(own["estimates"], float), np.array(pool["estimates"], float)
        known = ~np.isnan(values)
        ratios.append(np.mean(np.array(own["standard_errors"], float)[known]) / np.std(values[known], ddof=1))
        if cell["share"] == 1:
            continue
        relative = (values / at_pool)[known] * pool["refits"] / own["refits"]
        off.append(100 * (relative.mean() - 1))
        scatter = relative.std(ddof=1) / known.sum() ** 0.5
        refits = np.hypot(own["refits_error"] / own["refits"], pool["refits_error"] / pool["refits"])
        errors.append(100 * float(np.hypot(scatter, refits)))
    largest = int(np.argmax(np.abs(off)))
    return {
        "median": float(np.median(off)),
        "largest": float(off[largest]),
        "largest_error": errors[largest],
        "beyond_three": int((np.abs(off) > 3 * np.array(errors)).sum()),
        "ratio": float(np.median(ratios)),
    }


def _coverage(cells: list[Row], kind: str) -> float:
    """Return the share of estimates whose 95 % band, that of `LearningCurve.interval`, holds the refits' error."""
    held = []
    for cell in cells:
        entry = cell[kind]
        values, errors = np.array(entry["estimates"], float), np.array(entry["standard_errors"], float)
        share = np.hypot(errors / values * cell["left"] ** 0.5, entry["refits_error"] / entry["refits"])
        distance = np.abs(np.log(values / entry["refits"]))[~np.isnan(values)]
        width = stdtrit(np.array(entry["freedoms"], float), 0.975)
        held += list(distance <= (width * share)[~np.isnan(values)])
    return float(100 * np.mean(held)) if held else float("nan")


def _lines(kept: Row) -> str:
    """Return JSON with a line for each table, law or other entry."""
    parts = []
    for key, value in kept.items():
        if isinstance(value, list) and value:
            text = "[\n" + ",\n".join(json.dumps(item) for item in value) + "\n]"
        else:
            text = json.dumps(value)
        parts.append(f"{json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main() -> None:
    """Measure what the file lacks, and write it after every setting."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", nargs="*", help="names of tables or laws")
    options = parser.parse_args()
    kept: Row = {"synthetic": [], "tables": [], "skipped": [], "times": []}
    if options.file.exists():
        kept.update(json.loads(options.file.read_text()))
    known = {entry["name"] for kind in ("synthetic", "tables") for entry in kept[kind]} | set(kept["skipped"])

    def write() -> None:
        kept["settings"] = {
            "width": WIDTH,
            "shares": SHARES,
            "penalties": PENALTIES,
            "refits": REFITS,
            "pools": POOLS,
            "synthetic_refits": SYNTHETIC_REFITS,
            "synthetic_pools": SYNTHETIC_POOLS,
            "synthetic_rows": SYNTHETIC_ROWS,
        }
        if kept["synthetic"] and kept["tables"]:
            kept["summary"] = summary(kept)
        draft = options.file.with_suffix(".draft")
        draft.write_text(_lines(rounded(kept, 4)))
        draft.replace(options.file)

    with threadpool_limits(1):
        for data in [d for sets in (data_sets(), development_sets()) for d in sets if d.real]:
            if data.name in known or (options.only and data.name not in options.only):
                continue
            found = measure_table(data)
            kept["tables"] += found
            kept["skipped"] += [] if found else [data.name]
            print(data.name, len(found), flush=True)
            write()
        for name, law in synthetic():
            if name in known or (options.only and name not in options.only):
                continue
            kept["synthetic"].append(measure_synthetic(name, law))
            print(name, flush=True)
            write()
        for rows, width, repeats, calls in TIMES:
            if not options.only and not any(t["rows"] == rows and t["width"] == width for t in kept["times"]):
                kept["times"].append(measure_time(rows, width, repeats, calls))
                write()
        if not options.only and "cost" not in kept:
            kept["cost"] = measure_cost(50000, 200)
        write()


if __name__ == "__main__":
    main()
