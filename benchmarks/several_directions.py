"""The estimators on functions of few directions: ``python -m benchmarks.several_directions 1000 5000 20000``.

With ``--own`` only the estimators are measured again, beside the errors of the other methods that are known. Results
for other numbers of rows stay. The methods with a kernel need a matrix of all pairs of rows: they are left out above
10,000.

Each target is a function of some of the inputs. "Rotated": the inputs are Gaussian and turned, so that no column means
anything. Label noise has a tenth of the targets' deviation. The error is the mean square on 5000 fresh rows over the
variance of the targets, both without noise. The estimators have their defaults; the other methods have theirs but for
what is searched on the first thousand rows by three folds (kernel ridge, network) or on a fifth of the rows (recursive
feature machine).
"""

from __future__ import annotations

import itertools
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.bench_tables import RecursiveFeatureMachine
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPRegressor
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import gradstep as gs

RESULTS = Path(__file__).parent / "results" / "several_directions.json"
FRESH, SEARCHED, MOST_OF_KERNELS = 5000, 1000, 10_000

Array = NDArray[np.float64]


def _relu(u: Array) -> Array:
    return np.maximum(u, 0)


#: Kind of inputs, their number, and the function.
TARGETS: dict[str, tuple[str, int, Callable[[Array], Array]]] = {
    "tanh(2 u1)": ("rotated", 30, lambda u: np.tanh(2 * u[:, 0])),
    "u1^2": ("rotated", 30, lambda u: u[:, 0] ** 2),
    "tanh(u1) + u2 u3": ("rotated", 30, lambda u: np.tanh(u[:, 0]) + u[:, 1] * u[:, 2]),
    "relu(u1) + relu(u2) + relu(u3)": ("rotated", 30, lambda u: _relu(u[:, :3]).sum(axis=1)),
    "u1 u2 + u3 u4": ("rotated", 30, lambda u: u[:, 0] * u[:, 1] + u[:, 2] * u[:, 3]),
    "u1 u2 u3": ("rotated", 20, lambda u: u[:, 0] * u[:, 1] * u[:, 2]),
    "sin(2 u1) + u2": ("rotated", 30, lambda u: np.sin(2 * u[:, 0]) + u[:, 1]),
    "|u1| - |u2|": ("rotated", 30, lambda u: np.abs(u[:, 0]) - np.abs(u[:, 1])),
    "exp(-|u|^2 / 8), eight inputs": ("rotated", 8, lambda u: np.exp(-(u**2).sum(axis=1) / 8)),
    "linear": ("rotated", 30, lambda u: u[:, :10].sum(axis=1)),
    "Friedman 1": (
        "uniform",
        10,
        lambda x: 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4],
    ),
    "sum of five sines": ("uniform", 10, lambda x: np.sin(2 * np.pi * x[:, :5]).sum(axis=1)),
    "x1 x2 + |x3| + sin(2 x4)": ("axes", 30, lambda x: x[:, 0] * x[:, 1] + np.abs(x[:, 2]) + np.sin(2 * x[:, 3])),
    "sign(x1 x2)": ("axes", 10, lambda x: np.sign(x[:, 0] * x[:, 1])),
    "x1 where x2 > 0, else -x3": ("axes", 20, lambda x: np.where(x[:, 1] > 0, x[:, 0], -x[:, 2])),
}
METHODS = (
    "several directions",
    "one step",
    "random features",
    "kernel ridge",
    "RFM",
    "network (Adam)",
    "boosted trees",
)


def own_methods() -> Iterator[tuple[str, Any]]:
    """Yield the estimators, unfitted."""
    yield "several directions", gs.OneStepRegressor(random_state=0)
    yield "one step", gs.OneStepRegressor(n_steps=1, random_state=0)
    yield "random features", gs.OneStepRegressor(eta=0, random_state=0)


def other_methods(d: int, X: Array, y: Array) -> Iterator[tuple[str, Any]]:
    """Yield the others, unfitted; what is searched for them is searched on the first rows."""
    some = slice(min(len(y), SEARCHED))
    if len(y) <= MOST_OF_KERNELS:
        grid = {"alpha": [1e-3, 1e-2, 0.1, 1], "gamma": np.array([0.03, 0.1, 0.3, 1.0]) / d}
        yield "kernel ridge", GridSearchCV(KernelRidge(kernel="rbf"), grid, cv=3).fit(X[some], y[some]).best_estimator_
        yield "RFM", RecursiveFeatureMachine()
    network = MLPRegressor(hidden_layer_sizes=(128,), max_iter=200, random_state=0)
    yield "network (Adam)", GridSearchCV(network, {"alpha": [1e-3, 0.1]}, cv=3).fit(X[some], y[some]).best_estimator_
    yield "boosted trees", HistGradientBoostingRegressor(random_state=0)


def sample(kind: str, d: int, function: Callable[[Array], Array], n: int) -> tuple[Array, Array]:
    """Return inputs and targets without noise."""
    random = np.random.default_rng(n)
    u = random.random((n + FRESH, d)) if kind == "uniform" else random.standard_normal((n + FRESH, d))
    rotation = np.linalg.qr(random.standard_normal((d, d)))[0] if kind == "rotated" else np.eye(d)
    return u @ rotation, function(u)


def measure(target: str, n: int, known: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the error and the time of every method, those of the others from `known` if that is given."""
    kind, d, function = TARGETS[target]
    X, truth = sample(kind, d, function, n)
    X = StandardScaler().fit(X[:n]).transform(X)
    y = truth[:n] + 0.1 * truth.std() * np.random.default_rng(1).standard_normal(n)
    centre, scale = y.mean(), y.std()
    row: dict[str, Any] = {"target": target, "n": n, "d": d, "errors": {}, "seconds": {}}
    others = [] if known else other_methods(d, X[:n], (y - centre) / scale)
    for name, method in itertools.chain(own_methods(), others):
        began = time.process_time()
        method.fit(X[:n], (y - centre) / scale)
        row["seconds"][name] = round(time.process_time() - began, 3)
        found = method.predict(X[n:]) * scale + centre
        row["errors"][name] = round(float(np.mean((found - truth[n:]) ** 2) / truth[n:].var()), 5)
        if name == METHODS[0]:
            row["rounds"] = method.rounds_
    for part in ("errors", "seconds"):
        row[part] = {**known[part], **row[part]} if known else row[part]
    return row


def table(content: dict[str, Any]) -> str:
    """Return the documentation's table, with the best error in bold."""
    lines = ["| target | n | d | " + " | ".join(METHODS) + " |", "| --- | --- | --- |" + " --- |" * len(METHODS)]
    for row in content["rows"]:
        least = min(row["errors"].values())
        cells = []
        for name in METHODS:
            error = row["errors"].get(name)
            cell = "–" if error is None else f"{error:.4f}"
            cells.append(f"**{cell}**" if error == least else cell)
        target = row["target"].replace("|", r"\|")
        lines.append(f"| {target} | {row['n']} | {row['d']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def within(content: dict[str, Any], n: int, factor: float = 1.3) -> int:
    """Return on how many targets the default's error is at most a factor times the best of the other learners."""
    others = ("RFM", "network (Adam)", "boosted trees")
    rows = [row["errors"] for row in content["rows"] if row["n"] == n]
    bests = [min(errors[name] for name in others if name in errors) for errors in rows]
    return sum(errors[METHODS[0]] <= factor * best for errors, best in zip(rows, bests, strict=True))


def main(sizes: list[int], *, own: bool) -> None:
    """Measure all targets with all numbers of rows; save after each."""
    rows = {(row["n"], row["target"]): row for row in json.loads(RESULTS.read_text(encoding="utf-8"))["rows"]}
    for n in sizes:
        for target in TARGETS:
            rows[n, target] = measure(target, n, rows[n, target] if own else None)
            print(rows[n, target], flush=True)
            content: dict[str, Any] = {"rows": [rows[place] for place in sorted(rows, key=lambda place: place[0])]}
            content["within"] = {f"n{size}": within(content, size) for size in sorted({size for size, _ in rows})}
            lines = ",\n".join(json.dumps(row) for row in content["rows"])
            RESULTS.write_text(
                f'{{"within": {json.dumps(content["within"])}, "rows": [\n{lines}\n]}}\n', encoding="utf-8"
            )


if __name__ == "__main__":
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main([int(size) for size in sys.argv[1:] if size != "--own"], own="--own" in sys.argv)
