"""The estimators on tables that packages carry and on synthetic ones, against what else one would try.

``python -m benchmarks.bench_estimators run benchmarks/results/estimators.json`` fits everything and writes the scores
of every fold, from which the documentation makes its table; ``develop benchmarks/results/estimators_development.json``
compares the estimators on the development tables; ``million`` fits 1,000,000 rows.

All methods see the same folds and standardised inputs; all random features have the same width. Penalties are chosen by
leave-one-out (`RidgeCV`), bandwidths among three by the same score, the kernel machines' pairs of both by three-fold
cross-validation, all inside the training rows.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.bench_theory import row
from benchmarks.estimator_data import DataSet, data_sets, development_sets
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegressionCV, RidgeClassifierCV, RidgeCV
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

import gradstep as gs

Row = dict[str, Any]

WIDTH = 256
FOLDS = 5
ALPHAS = np.logspace(-4, 4, 17)
GAMMAS = (0.1, 0.3, 1.0)  # times 1 / d
QUICK = ("diabetes", "wine", "single index, tanh")
DEVELOPED = ("one step", "three steps", "random features")


class BestOf(BaseEstimator):
    """The candidate with the best leave-one-out score of its own `RidgeCV` step."""

    def __init__(self, candidates: list[Any]) -> None:
        self.candidates = candidates

    def fit(self, X: np.ndarray, y: np.ndarray) -> BestOf:
        """Fit all candidates and keep the best."""
        fitted = [clone(candidate).fit(X, y) for candidate in self.candidates]
        self.best_ = max(fitted, key=lambda candidate: candidate[-1].best_score_)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Predict with the best."""
        return np.asarray(self.best_.predict(X))


def methods(kind: str, d: int, n: int, seed: int = 0) -> Iterator[tuple[str, Any]]:
    """Yield the methods for one kind of problem, unfitted; `seed` is that of the estimators' draw."""
    classify = kind == "classification"
    ours = gs.OneStepClassifier if classify else gs.OneStepRegressor
    ridge = (RidgeClassifierCV if classify else RidgeCV)(alphas=ALPHAS)
    width = min(WIDTH, int(n * (FOLDS - 1) / FOLDS))  # Nystroem cannot have more features than rows
    yield "one step", ours(WIDTH, n_steps=1, random_state=seed)
    yield "three steps", ours(WIDTH, n_steps=3, random_state=seed)
    yield "plain step", ours(WIDTH, n_steps=1, damping=math.inf, random_state=seed)
    yield "random features", ours(WIDTH, eta=0, random_state=seed)
    if classify:
        yield (
            "linear",
            LogisticRegressionCV(
                Cs=5, cv=3, max_iter=300, l1_ratios=(0,), use_legacy_attributes=False, scoring="accuracy"
            ),
        )
    else:
        yield "linear", ridge
    yield (
        "Fourier features",
        BestOf([make_pipeline(RBFSampler(gamma=g / d, n_components=WIDTH, random_state=0), ridge) for g in GAMMAS]),
    )
    yield (
        "Nyström",
        BestOf([make_pipeline(Nystroem(gamma=g / d, n_components=width, random_state=0), ridge) for g in GAMMAS]),
    )
    gammas = [g / d for g in GAMMAS]
    if classify:
        grid = {"gamma": gammas, "C": [0.3, 1, 3, 10, 100]}
        yield "kernel machine", GridSearchCV(SVC(), grid, cv=3)
        yield "network (Adam)", MLPClassifier(hidden_layer_sizes=(WIDTH,), early_stopping=True, random_state=0)
        yield "boosted trees", HistGradientBoostingClassifier(random_state=0)
    else:
        grid = {"gamma": gammas, "alpha": [1e-3, 1e-2, 1e-1, 1]}
        yield "kernel machine", GridSearchCV(KernelRidge(kernel="rbf"), grid, cv=3)
        yield (
            "network (Adam)",
            MLPRegressor(hidden_layer_sizes=(WIDTH,), early_stopping=True, max_iter=500, random_state=0),
        )
        yield "boosted trees", HistGradientBoostingRegressor(random_state=0)


def compare(data: DataSet, only: tuple[str, ...] | None = None, seed: int = 0) -> dict[str, Any]:
    """Return the error and times of every method (or of those named) on every fold; `seed` deals the folds, too.

    The error is the mean square over that of the training mean, or the share of wrong classes. Synthetic data are
    compared with their targets without noise: the test error of this project.
    """
    X, y, *without_noise = data.load()
    truth = without_noise[0] if without_noise else y
    classify = data.kind == "classification"
    folds = (StratifiedKFold if classify else KFold)(FOLDS, shuffle=True, random_state=seed)
    results: dict[str, Any] = {
        "name": data.name,
        "source": data.source,
        "kind": data.kind,
        "n": len(y),
        "d": X.shape[1],
        "methods": {},
    }
    for train, test in folds.split(X, y):
        scaler = StandardScaler().fit(X[train])
        inside, outside = scaler.transform(X[train]), scaler.transform(X[test])
        centre, spread = (0.0, 1.0) if classify else (y[train].mean(), y[train].std())
        target = y[train] if classify else (y[train] - centre) / spread
        for name, method in methods(data.kind, X.shape[1], len(y), seed):
            if only is not None and name not in only:
                continue
            began = time.process_time()
            method.fit(inside, target)
            fitted = time.process_time()
            predicted = method.predict(outside)
            done = time.process_time()
            if classify:
                error = float(np.mean(predicted != y[test]))
            else:
                error = np.mean((predicted * spread + centre - truth[test]) ** 2) / np.mean((truth[test] - centre) ** 2)
            entry = results["methods"].setdefault(name, {"error": [], "fit": [], "predict": []})
            for key, value in (("error", float(error)), ("fit", fitted - began), ("predict", done - fitted)):
                entry[key].append(round(value, 6))
    return results


def run(names: tuple[str, ...] | None = None, path: Path | None = None) -> list[dict[str, Any]]:
    """Compare on all data sets (or those named) whose packages are installed, on one thread; save after each."""
    found = []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for data in data_sets():
            if names is not None and data.name not in names:
                continue
            try:
                found.append(compare(data))
            except ImportError as missing:
                print(f"{data.name} left out: {missing}", file=sys.stderr)
                continue
            if path is not None:
                save(found, path)
            print(
                data.name,
                {k: round(float(np.mean(v["error"])), 4) for k, v in found[-1]["methods"].items()},
                file=sys.stderr,
                flush=True,
            )
    return found


def develop(path: Path) -> None:
    """Compare the estimators with random features on the development tables, in three ways to deal and draw."""
    with threadpool_limits(1):
        save([compare(data, DEVELOPED, seed) for data in development_sets() for seed in (1, 2, 3)], path)


def save(results: list[dict[str, Any]], path: Path) -> None:
    """Write results, one a line."""
    lines = ",\n".join(json.dumps(result, ensure_ascii=False) for result in results)
    path.write_text(f"[{lines}]\n", encoding="utf-8")


def better(result: dict[str, Any], method: str = "one step", than: str = "random features") -> int:
    """Return 1, 0 or -1: the mean error over folds is lower, equal or higher than another method's."""
    ours, theirs = (float(np.mean(result["methods"][name]["error"])) for name in (method, than))
    return int(np.sign(round(theirs - ours, 9)))


def clearly(result: dict[str, Any], method: str = "one step", than: str = "random features") -> int:
    """Return the same, but 0 unless the mean difference over folds exceeds two of its standard errors."""
    ours, theirs = (np.asarray(result["methods"][name]["error"]) for name in (method, than))
    difference = theirs - ours
    error = difference.std(ddof=1) / math.sqrt(len(difference))
    return int(np.sign(difference.mean())) if abs(difference.mean()) > 2 * error else 0


def ratio(result: dict[str, Any], method: str, quantity: str, than: str = "random features") -> float:
    """Return how many times another method's mean a method's mean is."""
    ours, theirs = (float(np.mean(result["methods"][name][quantity])) for name in (method, than))
    return ours / theirs if theirs > 0 else (1.0 if ours == 0 else math.inf)


def kernel_ratio(result: dict[str, Any]) -> float:
    """Return how many times the error of one step that of the best kernel method is."""
    kernels = ("kernel machine", "Fourier features", "Nyström", "random features")
    return 1 / max(ratio(result, "one step", "error", than=name) for name in kernels)


def summary(results: list[dict[str, Any]]) -> list[Row]:
    """Return the rows of the aims: real data against random features, fit time, single index against kernels."""
    rows = []
    real = [result for result in results if result["source"] != "synthetic"]
    for method in ("one step", "three steps"):
        signs = [better(result, method) for result in real]
        wins, ties = signs.count(1), signs.count(0)
        clear = [clearly(result, method) for result in real]
        label = (
            f"{method}: better than random features on {wins} real tables (clearly on {clear.count(1)}), "
            f"equal on {ties}, worse on {signs.count(-1)} (clearly on {clear.count(-1)})"
        )
        rows.append(row(label, wins / len(real), 2 / 3, "goal", better="higher", unit=""))
        slowest = sorted(ratio(result, method, "fit") for result in results)
        rows.append(
            row(f"{method}: fit time over random features, median", slowest[len(slowest) // 2], 3.0, "goal", unit="")
        )
    for result in results:
        if result["name"].startswith("single index"):
            label = f"{result['name']}: error of the best kernel over one step's"
            rows.append(row(label, kernel_ratio(result), 2.0, "goal", better="higher", unit=""))
    return rows


def development(results: list[dict[str, Any]]) -> str:
    """Return how often, and by how much, the estimators' errors differ from those of random features."""
    heads = ["better", "clearly", "equal", "worse", "clearly", "lowest tenth", "median", "highest tenth"]
    lines = ["| | " + " | ".join(heads) + " |", "| --- |" + " --- |" * len(heads)]
    for method in DEVELOPED[:-1]:
        signs, clear = ([rule(result, method) for result in results] for rule in (better, clearly))
        shares = [signs.count(1), clear.count(1), signs.count(0), signs.count(-1), clear.count(-1)]
        cells = [f"{count / len(results):.0%}" for count in shares]
        ratios = np.quantile([ratio(result, method, "error") for result in results], [0.1, 0.5, 0.9])
        lines.append(f"| {method} | " + " | ".join([*cells, *(f"{value:.3f}" for value in ratios)]) + " |")
    return "\n".join(lines)


def table(results: list[dict[str, Any]]) -> str:
    """Return the documentation's tables: errors with their spread over folds, then times."""
    names = list(results[0]["methods"])
    lines = ["| data | n | d | " + " | ".join(names) + " |", "| --- | --- | --- |" + " --- |" * len(names)]
    for result in results:
        errors = {name: np.asarray(entry["error"]) for name, entry in result["methods"].items()}
        best = min(float(values.mean()) for values in errors.values())
        cells = []
        for name in names:
            mean, spread = errors[name].mean(), errors[name].std(ddof=1)
            cell = f"{mean:.3f} ± {spread:.3f}"
            cells.append(f"**{cell}**" if mean <= best * (1 + 1e-9) else cell)
        lines.append(f"| {result['name']} | {result['n']} | {result['d']} | " + " | ".join(cells) + " |")
    times = ["| | " + " | ".join(names) + " |", "| --- |" + " --- |" * len(names)]
    for quantity in ("fit", "predict"):
        means = {name: [float(np.mean(result["methods"][name][quantity])) for result in results] for name in names}
        times.append(
            f"| {quantity}, median | " + " | ".join(f"{1e3 * np.median(means[name]):.0f} ms" for name in names) + " |"
        )
        times.append(
            f"| {quantity}, longest | " + " | ".join(f"{1e3 * max(means[name]):.0f} ms" for name in names) + " |"
        )
    aims = ["| aim | measured | asked | |", "| --- | --- | --- | --- |"]
    for line in summary(results):
        sign = ">=" if line["better"] == "higher" else "<="
        good = line["ratio"] >= 1 if line["better"] == "higher" else line["ratio"] <= 1
        verdict = "met" if good else "**not met**"
        aims.append(f"| {line['name']} | {line['measured']:.3g} | {sign} {line['baseline']:.3g} | {verdict} |")
    return "\n".join([*aims, "", *lines, "", *times])


def large(n: int, d: int, width: int, dtype: str) -> dict[str, float]:
    """Fit a large table in a fresh process; return its times, those of bare matrix products, and peak memory in GB."""
    code = (
        "from benchmarks.bench_estimators import _large; import json; "
        f"print(json.dumps(_large({n}, {d}, {width}, {dtype!r})))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


def _large(n: int, d: int, width: int, dtype: str) -> dict[str, float]:
    X = np.random.default_rng(0).standard_normal((n, d), dtype=np.float32)
    y = np.tanh(2 * X[:, 0]).astype(float)
    began, used = time.perf_counter(), time.process_time()
    gs.OneStepRegressor(width, dtype=dtype, random_state=0).fit(X, y)
    fit, fit_used = time.perf_counter() - began, time.process_time() - used
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    # Bare products of the same shapes: X W^T and its transpose for the step, X W^T and F^T F for the fit.
    weights = np.ones((width, d), dtype=dtype)
    block = 2048
    began, used = time.perf_counter(), time.process_time()
    for start in range(0, n, block):
        x = np.asarray(X[start : start + block], dtype=dtype)
        features = x @ weights.T
        features.T @ x
        features = x @ weights.T
        features.T @ features
    products, products_used = time.perf_counter() - began, time.process_time() - used
    return {"fit": fit, "products": products, "fit_cpu": fit_used, "products_cpu": products_used, "memory": memory}


def large_rows(n: int, *, dtype: str = "float64") -> list[Row]:
    """Return the rows of one large fit: n rows, 100 columns, width 2000."""
    found = large(n, 100, 2000, dtype)
    label = f"fit {n:,} x 100, width 2000, {dtype}"
    return [
        row(f"{label}: processor time", found["fit_cpu"], found["products_cpu"], "bare matrix products", target=2.0),
        row(f"{label}: peak memory", found["memory"], 8.0, "goal", unit="GB"),
    ]


def run_all(*, quick: bool = False) -> list[Row]:
    """Compare on all tables and fit a large one: some ten minutes, seconds if `quick`."""
    if quick:
        return summary(run(QUICK))
    return [*summary(run()), *large_rows(100_000)]


def main(arguments: list[str] | None = None) -> None:
    """Run one of the commands of the module's docstring."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_estimators", description=__doc__)
    parser.add_argument("command", choices=("run", "develop", "million"))
    parser.add_argument("file", nargs="?", type=Path)
    options = parser.parse_args(arguments)
    if options.command == "run":
        run(path=options.file)
    elif options.command == "develop":
        develop(options.file)
    else:
        print(json.dumps(large(1_000_000, 100, 2000, "float32"), indent=1))


if __name__ == "__main__":
    main()
