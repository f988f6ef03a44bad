"""The Gaussian theory of real tables beside networks on their rows: ``python -m benchmarks.real_tables``.

Of each table the law of the inputs, the link and the noise are estimated (`gradstep.Inputs.from_data`), and
`gradstep.predict` has the errors of a network on Gaussian inputs of this law. Beside it stands the network on the rows
and the labels of the table: one step on a part of the rows, and on the others the learning curve of its features,
`gradstep.learning_curve`, which assumes nothing of the inputs. Labels have variance one, and errors are on labels with
their noise, so that an error is one less R^2.

Inputs are taken in two forms. *Standardised* columns have the eigenvalues of their correlation matrix, of which theory
refuses those above d/8. *Whitened* inputs are isotropic.

How much of the deviation is there already for Gaussian inputs is seen on a control for each table: whitened Gaussian
inputs of its size, with labels of its link and noise.

Whether theory can be trusted is told beforehand from two indicators of a table, which are computed from its rows and
labels. The logarithm of the deviation is fitted to the logarithms of each pair of indicators on half of the tables; the
best pair and a threshold are kept, and tested on the other half. This is done for many random halves.

The tables are those of `benchmarks.estimator_data`; a table that cannot be loaded stops the run. A run goes on where
the last one stopped: each table is written when it is measured, and tables that are in the results file are not
measured again, but their indicators are computed anew. What follows from all tables is written at the end.
"""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.estimator_data import DataSet, data_sets, development_sets
from scipy.stats import spearmanr
from threadpoolctl import threadpool_limits

import gradstep as gs
from gradstep.errors import GradstepError, InvalidInput
from gradstep.gaussian import scalar_function
from gradstep.simulation.backend import backend
from gradstep.simulation.instance import initial_weights
from gradstep.simulation.step import gradient

Array = np.ndarray
Row = dict[str, Any]

RESULTS = Path(__file__).parent / "results" / "real_tables.json"
WIDTH, SEEDS, CONTROL_SEEDS, STEP = 128, 4, 2, 1.5
#: Parts of the rows for the step and for the fits, and penalties over the width.
STEP_PART, PARTS, PENALTIES = 0.3, (0.08, 0.2, 0.5), (0.003, 0.03, 0.3, 3.0)
#: Random halves of the tables, and where classes of tables by their number of columns begin.
HALVINGS, COLUMNS = 300, (2, 8, 15, 25, 1000)
#: Place of the penalty that is taken without theory.
DEFAULT = 2
FORMS = ("standardised", "whitened")
#: Directions with less of the variance than this are not whitened: they are rounding, or copies of columns.
LEAST_VARIANCE = 1e-6
#: What the error of a noise is divided by where the noise is estimated to be less, or none.
LEAST_NOISE = 0.05
#: Relative deviation up to which a table is one that theory describes, and least share of the trusted that has to be.
CLOSE, RELIABLE = 0.1, 0.8


def prepared(X: Array, y: Array, form: str) -> tuple[Array, Array]:
    """Return inputs of trace d in one of the forms, and standardised labels."""
    X = X[:, X.std(axis=0) > 0]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    if form == "whitened":
        left, values, _ = np.linalg.svd(X, full_matrices=False)
        X = left[:, values**2 > LEAST_VARIANCE * (values**2).sum()] * math.sqrt(len(X))
    return X, (y - y.mean()) / y.std()


def measured(X: Array, y: Array, seed: int) -> dict[str, Array]:
    """Return errors of fits, one row for each size, on the features before and after the step of one network."""
    rows, d = X.shape
    order = np.random.default_rng(seed).permutation(rows)
    step, rest = np.split(order, [round(STEP_PART * rows)])
    before, activation = initial_weights(seed, WIDTH, d, "gaussian"), scalar_function("tanh")
    found = gradient(
        backend(None, "float64"), activation, [(X[step], y[step])], before, np.ones(WIDTH), output_factor=1 / WIDTH
    )
    after = before + STEP * found.rows  # eta is STEP times the root of the width
    sizes, ridges = [round(part * rows) for part in PARTS], [value * WIDTH for value in PENALTIES]
    curves = {
        name: gs.learning_curve(np.tanh(X[rest] @ layer.T), y[rest], n=sizes, ridge=ridges)
        for name, layer in (("initial", before), ("step", after))
    }
    return {name: np.asarray(curve.test_error) for name, curve in curves.items()}


def predicted(X: Array, found: gs.Inputs, form: str) -> dict[str, Array]:
    """Return the same from theory."""
    rows, d = X.shape
    problems = [
        gs.Problem(
            activation="tanh",
            teacher=found.link,
            d=d,
            width=WIDTH,
            n_step=round(STEP_PART * rows),
            n=round(part * rows),
            eta=gs.Step(eta, 0.5),
            ridge=penalty * WIDTH,
            noise=found.noise,
            readout="constant",
            inputs=None if form == "whitened" else found,
        )
        for eta in (0.0, STEP)
        for part, penalty in itertools.product(PARTS, PENALTIES)
    ]
    errors = np.array([each.test_error for each in gs.predict_many(problems)]) + found.noise**2
    initial, step = errors.reshape(2, len(PARTS), len(PENALTIES))
    return {"initial": initial, "step": step}


def indicators(X: Array, y: Array, found: gs.Inputs) -> dict[str, float]:
    """Return positive numbers of a table that may tell how far it is from a Gaussian one."""
    rows, d = X.shape
    law = np.linalg.eigvalsh(X.T @ X / rows)
    normals = np.random.default_rng(0).standard_normal((d, 50))
    projections = X @ normals / np.sqrt((normals**2).sum(axis=0))
    half = rows // 2
    halves = (X[:half], y[:half]), (X[half:], y[half:])
    nearest = np.mean([fitted_error(*own, *other) for own, other in (halves, halves[::-1])])
    noise = max(found.noise, LEAST_NOISE)
    return {
        "columns": float(d),
        "rows over columns": rows / d,
        "noise": noise,
        "relative error of the noise": max(found.noise_error, LEAST_NOISE**2) / noise,
        # The variance of the length of a row, over the one it has if the inputs are Gaussian.
        "spread of lengths": float((X**2).sum(axis=1).var() / (2 * (law**2).sum())),
        # Fourth moments of projections at random, over those of Gaussian inputs.
        "fourth moments": float(np.mean((projections**4).mean(axis=0) / (projections**2).mean(axis=0) ** 2) / 3),
        # What the link along one direction leaves of the labels, over what the nearest rows leave.
        "link over nearest rows": float(noise**2 / max(nearest, LEAST_NOISE**2)),
    }


def fitted_error(X: Array, y: Array, others: Array, labels: Array, neighbours: int = 10) -> float:
    """Return the error of the mean label of the nearest rows, without the part that comes from averaging few."""
    distance = (others**2).sum(axis=1)[:, None] - 2 * others @ X.T + (X**2).sum(axis=1)
    nearest = np.argpartition(distance, neighbours, axis=1)[:, :neighbours]
    return float(np.mean((labels - y[nearest].mean(axis=1)) ** 2)) / (1 + 1 / neighbours)


def control(X: Array, found: gs.Inputs) -> dict[str, float]:
    """Return how far theory is off on Gaussian inputs of the table's size, with labels of its link and noise."""
    random = np.random.default_rng(1)
    inputs = random.standard_normal(X.shape)
    labels = scalar_function(found.link)(inputs[:, 0]) + found.noise * random.standard_normal(len(X))
    inputs, labels = prepared(inputs, labels, "whitened")
    own = gs.Inputs.from_data(inputs, labels)
    return compared(inputs, labels, own, "whitened", CONTROL_SEEDS)


def compared(X: Array, y: Array, found: gs.Inputs, form: str, seeds: int) -> Row:
    """Put theory beside networks: the relative deviation of the errors over sizes, penalties, and both layers."""
    theory = predicted(X, found, form)
    draws = [measured(X, y, seed) for seed in range(seeds)]
    network = {name: np.mean([draw[name] for draw in draws], axis=0) for name in theory}
    error = {name: np.std([draw[name] for draw in draws], axis=0, ddof=1) / seeds**0.5 for name in theory}
    off = np.concatenate([(theory[name] / network[name] - 1).ravel() for name in theory])
    scatter = np.concatenate([(error[name] / network[name]).ravel() for name in theory])
    return {
        "off": float(np.median(np.abs(off))),
        "most": float(np.abs(off).max()),
        "bias": float(np.median(off)),
        "standard_error": float(np.median(scatter)),
        **choices(theory, network),
    }


def table(data: DataSet, form: str) -> Row:
    """Measure and predict one table in one form."""
    X, y = prepared(*data.load()[:2], form)
    found = gs.Inputs.from_data(X, y)
    row: Row = {"table": data.name, "kind": data.kind, "form": form, "rows": len(X), "d": X.shape[1]}
    row["largest"] = found.eigenvalues[0] / X.shape[1]
    try:
        row |= compared(X, y, found, form, SEEDS)
    except InvalidInput as error:
        return {**row, "refused": error.field}
    except GradstepError as error:
        return {**row, "refused": str(error)[:80]}
    return {**row, "control": control(X, found)["off"]} if form == "whitened" else row


def choices(theory: dict[str, Array], network: dict[str, Array]) -> Row:
    """Return what it costs to choose penalty and step by theory, and to take the step with a middling penalty."""
    told, found = (np.stack([each["initial"], each["step"]], axis=1) for each in (theory, network))
    best = found.min(axis=(1, 2))
    chosen = [errors.ravel()[np.argmin(by)] for errors, by in zip(found, told, strict=True)]
    helps = [both[:, 1].min(axis=1) < both[:, 0].min(axis=1) for both in (told, found)]
    return {
        "regret": float(100 * np.mean(chosen / best - 1)),
        "regret_of_default": float(100 * np.mean(found[:, 1, DEFAULT] / best - 1)),
        "step_agrees": float(np.mean(helps[0] == helps[1])),
    }


def calibrated(rows: Sequence[Row]) -> Row:
    """Choose a pair of indicators, their weights and a threshold on random halves, and test them on the others."""
    names = [*rows[0]["indicators"]]
    logs = {name: np.log([row["indicators"][name] for row in rows]) for name in names}
    off, random = np.log([row["off"] for row in rows]), np.random.default_rng(0)
    single = [{"indicator": name, "rank": float(spearmanr(logs[name], off)[0])} for name in names]
    chosen: Counter[str] = Counter()
    tests = []
    for _ in range(HALVINGS):
        here, there = np.array_split(random.permutation(len(rows)), 2)
        fits = {pair: fit([logs[name] for name in pair], off, here) for pair in itertools.combinations(names, 2)}
        pair = min(fits, key=lambda each: float(((fits[each] - off)[here] ** 2).sum()))
        chosen[" and ".join(pair)] += 1
        tests.append(trial(fits[pair], off, here, there))
    pair, count = chosen.most_common(1)[0]
    return {
        "halvings": HALVINGS,
        "single": single,
        "pair": pair,
        "chosen": 100 * count / HALVINGS,
        **{name: float(np.nanmean([test[name] for test in tests])) for name in tests[0]},
    }


def fit(predictors: Sequence[Array], off: Array, here: Array) -> Array:
    """Return what the least squares fit to some of the tables says of all of them."""
    design = np.column_stack([np.ones(len(off)), *predictors])
    return np.asarray(design @ np.linalg.lstsq(design[here], off[here], rcond=None)[0])


def trial(told: Array, off: Array, here: Array, there: Array) -> dict[str, float]:
    """Set the threshold on one half so that enough of the trusted are close, and count on the other."""
    close = off <= math.log(CLOSE)
    limit = max((each for each in told[here] if close[here][told[here] <= each].mean() >= RELIABLE), default=-math.inf)
    trusted = told[there] <= limit

    def part(side: Array) -> float:
        return 100 * float(close[there][side].mean()) if side.any() else math.nan

    return {
        "rank": float(spearmanr(told[there], off[there])[0]),
        "trusted": 100 * float(trusted.mean()),
        "trusted_close": part(trusted),
        "other_close": part(~trusted),
    }


def share(rows: Sequence[Row]) -> float:
    """Return the share of tables that theory describes."""
    return float(np.mean([row["off"] <= CLOSE for row in rows])) if rows else 0.0


def summary(rows: Sequence[Row]) -> Iterator[Row]:
    """Summarise every form."""
    for form in FORMS:
        own = [row for row in rows if row["form"] == form]
        answered = [row for row in own if "off" in row]
        yield {
            "form": form,
            "tables": len(own),
            "answered": len(answered),
            **{name: float(np.mean([row[name] for row in answered])) for name in ("regret", "regret_of_default")},
            "control": 100 * float(np.median([row["control"] for row in answered])) if form == "whitened" else None,
            "step_agrees": 100 * float(np.mean([row["step_agrees"] for row in answered])),
            "off": 100 * float(np.median([row["off"] for row in answered])),
            "close": 100 * share(answered),
            "most": 100 * float(max(row["off"] for row in answered)),
            "bias": 100 * float(np.median([row["bias"] for row in answered])),
            "standard_error": 100 * float(np.median([row["standard_error"] for row in answered])),
        }


def by_columns(rows: Sequence[Row]) -> Iterator[Row]:
    """Summarise tables by their number of columns."""
    for low, high in itertools.pairwise(COLUMNS):
        own = [row for row in rows if low <= row["d"] < high]
        yield {
            "from": low,
            "to": max(row["d"] for row in own),
            "tables": len(own),
            "off": 100 * float(np.median([row["off"] for row in own])),
            "control": 100 * float(np.median([row["control"] for row in own])),
            "close": 100 * share(own),
            **{name: float(np.mean([row[name] for row in own])) for name in ("regret", "regret_of_default")},
        }


def main() -> None:
    """Measure all tables in both forms that are not in the results yet, and write what follows from all."""
    sets = sorted((each for each in (*data_sets(), *development_sets()) if each.real), key=lambda each: each.name)
    known = json.loads(RESULTS.read_text(encoding="utf-8"))["tables"] if RESULTS.exists() else []
    kept = {(row["form"], row["table"]): row for row in known}
    rows = []
    for form in FORMS:
        for data in sets:
            known_row = kept.pop((form, data.name), None)
            row = known_row or table(data, form)
            if "off" in row:
                X, y = prepared(*data.load()[:2], form)
                row["indicators"] = indicators(X, y, gs.Inputs.from_data(X, y))
            rows.append(row)
            if known_row is None:
                write({"tables": [*rows, *kept.values()]})
            print(json.dumps({key: value for key, value in row.items() if key != "indicators"}), flush=True)
    whitened = [row for row in rows if row["form"] == "whitened" and "off" in row]
    settings = {"seeds": SEEDS, "width": WIDTH, "tables": len(sets), "places": 2 * len(PARTS) * len(PENALTIES)}
    found: Row = {
        "settings": settings,
        "summary": list(summary(rows)),
        "by_columns": list(by_columns(whitened)),
        "indicator": calibrated(whitened),
        "digits": {row["form"]: 100 * row["off"] for row in rows if row["table"] == "digits"},
        "tables": rows,
    }
    write(found)


def write(found: Row) -> None:
    """Write results with five digits, in the place of those that are there."""
    short = json.loads(json.dumps(found, allow_nan=False), parse_float=lambda text: float(f"{float(text):.5g}"))
    RESULTS.write_text(json.dumps(short, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
