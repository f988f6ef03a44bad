"""The estimators on tables that packages carry and on synthetic ones, against what else one would try.

``python -m benchmarks.bench_estimators run RESULTS.json`` fits everything and writes the scores of every fold;
``table RESULTS.json docs/estimators.md`` puts the table into the documentation; ``million`` fits 1,000,000 rows.

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
from benchmarks.estimator_data import DataSet, data_sets
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
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"


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


def methods(kind: str, d: int, n: int) -> Iterator[tuple[str, Any]]:
    """Yield the methods for one kind of problem, unfitted."""
    classify = kind == "classification"
    ours = gs.OneStepClassifier if classify else gs.OneStepRegressor
    ridge = (RidgeClassifierCV if classify else RidgeCV)(alphas=ALPHAS)
    width = min(WIDTH, int(n * (FOLDS - 1) / FOLDS))  # Nystroem cannot have more features than rows
    yield "one step", ours(WIDTH, random_state=0)
    yield "three steps", ours(WIDTH, n_steps=3, random_state=0)
    yield "random features", ours(WIDTH, eta=0, random_state=0)
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


def compare(data: DataSet) -> dict[str, Any]:
    """Return every method's error and times on every fold.

    The error is the mean square over the variance of the test targets' deviations from the training mean, or the share
    of wrong classes.
    """
    X, y = data.load()
    classify = data.kind == "classification"
    folds = (StratifiedKFold if classify else KFold)(FOLDS, shuffle=True, random_state=0)
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
        for name, method in methods(data.kind, X.shape[1], len(y)):
            began = time.process_time()
            method.fit(inside, target)
            fitted = time.process_time()
            predicted = method.predict(outside)
            done = time.process_time()
            if classify:
                error = float(np.mean(predicted != y[test]))
            else:
                error = float(np.mean((predicted * spread + centre - y[test]) ** 2) / np.mean((y[test] - centre) ** 2))
            entry = results["methods"].setdefault(name, {"error": [], "fit": [], "predict": []})
            for key, value in (("error", error), ("fit", fitted - began), ("predict", done - fitted)):
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
                path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
            print(
                data.name,
                {k: round(float(np.mean(v["error"])), 4) for k, v in found[-1]["methods"].items()},
                file=sys.stderr,
                flush=True,
            )
    return found
