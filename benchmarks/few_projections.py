"""One step against a kernel on functions of one to four projections: ``python -m benchmarks.few_projections``.

Gaussian inputs, 1000 rows, label noise of a tenth of the targets' deviation. The error is the mean square on 4000 fresh
rows over the variance of the targets, both without noise; it is averaged over draws of the data and the network.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV
from threadpoolctl import threadpool_limits

import gradstep as gs

RESULTS = Path(__file__).parent / "results" / "few_projections.json"
ROWS, FRESH, DRAWS = 1000, 4000, 4
DIMENSIONS = (20, 40)

Array = NDArray[np.float64]

#: Of the projections u on four orthogonal directions.
TARGETS: dict[str, Callable[[Array], Array]] = {
    "tanh(2 u1)": lambda u: np.tanh(2 * u[:, 0]),
    "tanh(u1) + u2 u3": lambda u: np.tanh(u[:, 0]) + u[:, 1] * u[:, 2],
    "relu(u1) + relu(u2) + relu(u3)": lambda u: np.maximum(u[:, :3], 0).sum(axis=1),
    "u1 u2 + u3 u4": lambda u: u[:, 0] * u[:, 1] + u[:, 2] * u[:, 3],
}


def methods(d: int, seed: int) -> Iterator[tuple[str, Any]]:
    """Yield the methods, unfitted; all with their defaults but the kernel, whose two parameters are searched."""
    yield "one step", gs.OneStepRegressor(random_state=seed)
    yield "three steps", gs.OneStepRegressor(n_steps=3, random_state=seed)
    yield "random features", gs.OneStepRegressor(eta=0, random_state=seed)
    grid = {"alpha": np.logspace(-4, 1, 6), "gamma": np.array([0.03, 0.1, 0.3, 1.0]) / d}
    yield "kernel ridge", GridSearchCV(KernelRidge(kernel="rbf"), grid, cv=3)


def measure(target: str, d: int, seed: int) -> dict[str, float]:
    """Return the error of every method on one draw."""
    random = np.random.default_rng(seed)
    directions = np.linalg.qr(random.standard_normal((d, 4)))[0]
    X, fresh = random.standard_normal((ROWS, d)), random.standard_normal((FRESH, d))
    y, truth = (TARGETS[target](rows @ directions) for rows in (X, fresh))
    y = y + 0.1 * y.std() * random.standard_normal(ROWS)
    errors = {}
    for name, method in methods(d, seed):
        errors[name] = float(np.mean((method.fit(X, y).predict(fresh) - truth) ** 2) / truth.var())
    return errors


def main() -> None:
    """Measure all targets in all dimensions."""
    rows = []
    for d in DIMENSIONS:
        for target in TARGETS:
            found = [measure(target, d, seed) for seed in range(DRAWS)]
            row: dict[str, Any] = {"target": target, "d": d}
            for name in found[0]:
                values = [errors[name] for errors in found]
                error = float(np.std(values, ddof=1) / math.sqrt(DRAWS))
                row[name.replace(" ", "_")] = {"mean": float(np.mean(values)), "error": error}
            rows.append(row)
            print(row, flush=True)
    settings = {"command": "python -m benchmarks.few_projections", "rows": ROWS, "draws": DRAWS, "kernel": "RBF"}
    content = {"settings": settings, "rows": rows}
    RESULTS.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
