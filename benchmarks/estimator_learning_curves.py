"""Learning curves of the estimators against refits of the whole estimator: first layer, penalty and readout.

``python -m benchmarks.estimator_learning_curves FILE`` writes what the docs show, in a few minutes on one core.
The tables come with scikit-learn, or are drawn.

The model is fitted to a part of a table, and its curve says what it scores with these rows and with twice as many. A
refit takes as many random rows of the table, chooses its first layer (a step, rounds or neither, and the activation)
and its penalty anew, and is tested on all rows that it has not taken. Its readout is fitted again, to the first layer
that it has chosen, with each of several penalties, of which the best on average is the one to compare with: a curve is
at the best penalty. The parts are a third of a table at most: an estimate from a share of a finite population varies by
the root of what is left of it less, which is taken into account, like the scatter of the refits.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.rounding import rounded
from sklearn import datasets
from sklearn.linear_model import Ridge
from threadpoolctl import threadpool_limits

import gradstep as gs
from gradstep.gaussian import scalar_function

Array = np.ndarray
Row = dict[str, Any]

WIDTH = 128
MOST_ROWS = 300
DRAWN_ROWS = 3000
POOLS = 16
REFITS = 24
DIMENSION = 30
#: Penalties of the refits, over the median of those that are chosen.
PENALTIES = np.logspace(-2, 2, 9)

FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "one index": lambda x: np.tanh(2 * x[:, 0]),
    "two indices": lambda x: np.tanh(2 * x[:, 0]) + (x[:, 1] + x[:, 1] ** 2) / 2,
    "linear": lambda x: x.sum(axis=1) / DIMENSION**0.5,
    "products": lambda x: x[:, 0] * x[:, 1] + x[:, 2],
    "noise": lambda x: 0 * x[:, 0],
}


def tables() -> Iterator[tuple[str, Array, Array, bool]]:
    """Yield names, inputs, targets, and whether these are classes."""
    for name, load, classes in (
        ("diabetes", datasets.load_diabetes, False),
        ("breast cancer", datasets.load_breast_cancer, True),
        ("wine", datasets.load_wine, True),
        ("digits", datasets.load_digits, True),
    ):
        yield name, *load(return_X_y=True), classes
    for number, make in enumerate((datasets.make_friedman1, datasets.make_friedman2, datasets.make_friedman3)):
        noise = (1.0, 100.0, 0.1)[number]
        yield f"Friedman {number + 1}", *make(DRAWN_ROWS, noise=noise, random_state=0), False
    random = np.random.default_rng(0)
    for name, function in FUNCTIONS.items():
        inputs = random.standard_normal((DRAWN_ROWS, DIMENSION))
        yield name, inputs, function(inputs) + 0.5 * random.standard_normal(DRAWN_ROWS), False


def fitted(inputs: Array, targets: Array, classes: bool, seed: int, **options: Any) -> Any:
    """Return a model of these rows."""
    kind = gs.OneStepClassifier if classes else gs.OneStepRegressor
    return kind(width=WIDTH, random_state=seed, **options).fit(inputs, targets)


def codes(model: Any, targets: Array, classes: bool) -> Array:
    """Return what the readout is fitted to, shape (rows, outputs): numbers, or classes as +1 and -1."""
    if not classes:
        return targets[:, None]
    shown = model.classes_[1:] if len(model.classes_) == 2 else model.classes_
    return np.where(targets[:, None] == shown, 1.0, -1.0)


def features(model: Any, inputs: Array) -> Array:
    """Return the features of a model."""
    return scalar_function(model.activation_)(model.standardisation_(inputs) @ model.weights_.T + model.offsets_)


def score(outputs: Array, targets: Array) -> float:
    """Return R^2, over all outputs."""
    outputs = outputs.reshape(targets.shape)
    return 1 - float(((outputs - targets) ** 2).mean(axis=0).sum() / targets.var(axis=0).sum())


def refit_scores(
    model: Any, train: tuple[Array, Array], test: tuple[Array, Array], ridge: Iterable[float]
) -> list[float]:
    """Return R^2 of readouts with several penalties on the first layer of a model."""
    known, fresh = features(model, train[0]), features(model, test[0])
    return [score(Ridge(penalty).fit(known, train[1]).predict(fresh), test[1]) for penalty in ridge]


def measure(name: str, inputs: Array, targets: Array, classes: bool) -> Row:
    """Compare curves from parts of a table with refits on the table."""
    random = np.random.default_rng(zlib.crc32(name.encode()))
    rows = min(len(targets) // 3, MOST_ROWS)
    entry: Row = {"name": name, "rows": rows, "inputs": inputs.shape[1], "left": 1 - rows / len(targets)}
    for factor in (1, 2):
        parts = [np.split(random.permutation(len(targets)), [factor * rows]) for _ in range(REFITS)]
        models = [fitted(inputs[train], targets[train], classes, k) for k, (train, _) in enumerate(parts)]
        middle = float(np.median([model.ridge_ for model in models]))
        # Of each refit R^2 with its own penalty, and with the others.
        path = []
        for model, rows_of in zip(models, parts, strict=True):
            train, test = ((inputs[rows], codes(model, targets[rows], classes)) for rows in rows_of)
            path.append(refit_scores(model, train, test, [model.ridge_, *(middle * PENALTIES)]))
        own, *others = np.transpose(path)
        entry[f"refits_{factor}"] = {
            "own": _mean(own),
            "best": _mean(max(others, key=np.mean)),
            "layers": dict(Counter(map(_layer, models))),
        }
    curves = []
    for seed in range(POOLS):
        pool = random.permutation(len(targets))[:rows]
        model = fitted(inputs[pool], targets[pool], classes, seed)
        curve = model.learning_curve(inputs[pool], targets[pool], n=[rows, 2 * rows])
        kept: Row = {"layer": _layer(model)}
        for factor in (1, 2):
            found = curve.at(factor * rows)
            kept[f"r2_{factor}"], kept[f"error_{factor}"] = found.value, found.standard_error
        curves.append(kept)
    entry["curves"] = curves
    return entry


def _layer(model: Any) -> str:
    """Return what was done to the first layer, and its activation."""
    move = "rounds" if model.rounds_ else "a step" if model.eta_ else "no step"
    return f"{move}, {model.activation_}"


def _mean(found: Array) -> Row:
    """Return the mean R^2 of refits, and its standard error."""
    return {"r2": float(found.mean()), "error": float(found.std(ddof=1)) / len(found) ** 0.5}


def summary(entries: list[Row]) -> list[Row]:
    """Return a row for each table: means, what estimates are off, and how many bands hold the refits."""
    return [_summary(entry) for entry in entries]


def _summary(entry: Row) -> Row:
    found: Row = {"name": entry["name"], "rows": entry["rows"], "inputs": entry["inputs"]}
    for factor in (1, 2):
        refits, own = entry[f"refits_{factor}"]["best"], entry[f"refits_{factor}"]["own"]
        values = np.array([curve[f"r2_{factor}"] for curve in entry["curves"]], float)
        errors = np.array([curve[f"error_{factor}"] for curve in entry["curves"]], float)
        known = ~np.isnan(values)
        band = 1.96 * np.hypot(errors * entry["left"] ** 0.5, refits["error"])
        held = int((np.abs(values - refits["r2"]) <= band)[known].sum())
        found[f"times_{factor}"] = {
            "own_penalty": own["r2"],
            "refits": refits["r2"],
            "refits_error": refits["error"],
            "estimate": float(values[known].mean()),
            "off": float((values[known] - refits["r2"]).mean()),
            "standard_error": float(errors[known].mean()),
            "held": held,
            "known": int(known.sum()),
        }
    return found


def main() -> None:
    """Measure all tables, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    path = parser.parse_args().file
    began, entries = time.process_time(), []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        for name, *table in tables():
            entries.append(measure(name, *table))
            print(json.dumps(rounded(_summary(entries[-1]), 4)), flush=True)
    settings = {"width": WIDTH, "pools": POOLS, "refits": REFITS, "seconds": time.process_time() - began}
    rows = summary(entries)
    for factor in (1, 2):
        held, known = (sum(row[f"times_{factor}"][key] for row in rows) for key in ("held", "known"))
        settings[f"held_{factor}"] = 100 * held / known
    kept = rounded({"settings": settings, "summary": rows, "tables": entries}, 4)
    # A line for each table.
    parts = [f'"settings": {json.dumps(kept["settings"])}']
    for key in ("summary", "tables"):
        entries_of = ",\n".join(json.dumps(entry) for entry in kept[key])
        parts.append(f'"{key}": [\n{entries_of}\n]')
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n")


if __name__ == "__main__":
    main()
