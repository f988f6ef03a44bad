"""Cost of the simulation against the bare linear algebra it consists of, and its memory.

``run()`` returns rows ``{"name", "measured", "baseline", "ratio", "target", "unit"}``; a row meets its target when
``ratio <= target``. Times are the least of a few repetitions, with the simulation and the bare calls alternating, so
that both see the same machine.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import lapack

import gradstep.problem
from gradstep.simulation import simulate

D, WIDTH, ROWS = 1000, 2000, 20_000
MEMORY_ROWS = 200_000


def problem(activation: str = "erf", rows: int = ROWS) -> gradstep.problem.Problem:
    """Return the problem that is timed."""
    return gradstep.problem.Problem(
        activation=activation,
        teacher="sin",
        d=D,
        width=WIDTH,
        n_step=rows,
        n=rows,
        eta=gradstep.problem.Step(1.0, 0.5),
        ridge=1.0,
        noise=0.1,
    )


def alternating(calls: dict[str, Callable[[], object]], repetitions: int = 3) -> dict[str, float]:
    """Time several calls in turn; return the least wall time of each."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(repetitions):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def bare_linear_algebra(rows: int = ROWS) -> None:
    """Make the BLAS and LAPACK calls of one seed: two products for the step, one for the features, Gram, Cholesky."""
    block = 4096
    x, w = np.ones((block, D)), np.ones((WIDTH, D))
    for start in range(0, rows, block):
        part = x[: min(block, rows - start)]
        features = part @ w.T  # forward pass of the step
        features.T @ part  # gradient
        features = part @ w.T  # features of the fit
        features.T @ features  # Gram matrix, symmetric rank-k update
    gram = np.eye(WIDTH)
    factor, _ = lapack.dpotrf(gram, lower=1)
    lapack.dpotri(factor, lower=1)
    w @ w.T  # covariances for the population kernel
    np.ones((WIDTH, WIDTH)) @ np.ones((WIDTH, 1))


def random_numbers(rows: int = ROWS) -> None:
    """Draw the inputs of one seed."""
    rng = np.random.default_rng(0)
    for start in range(0, 2 * rows, 4096):
        rng.standard_normal((min(4096, 2 * rows - start), D))


def peak_memory() -> float:
    """Return the peak resident memory, in GB, of one seed with many samples, measured in a process of its own."""
    code = (
        "import json, resource, bench_simulation as b;"
        f"b.simulate(b.problem(rows={MEMORY_ROWS}), 1);"
        "print(json.dumps(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=__file__.rpartition("/")[0] or "."
    )
    kilobytes = int(json.loads(done.stdout))
    return kilobytes / 1e6 if sys.platform != "darwin" else kilobytes / 1e9


def row(name: str, measured: float, baseline: float, target: float, unit: str = "s") -> dict[str, Any]:
    """Return one line of the report."""
    return {
        "name": name,
        "measured": measured,
        "baseline": baseline,
        "ratio": measured / baseline,
        "target": target,
        "unit": unit,
    }


def run(*, memory: bool = True) -> list[dict[str, Any]]:
    """Measure everything; about two minutes on two cores, most of it for the memory row."""
    path = np.geomspace(1e-3, 1e3, 20).tolist()
    simulate(problem(rows=100), 1)  # warm up
    times = alternating(
        {
            "bare": bare_linear_algebra,
            "random": random_numbers,
            "erf": lambda: simulate(problem("erf"), 1),
            "tanh": lambda: simulate(problem("tanh"), 1),
            "relu": lambda: simulate(problem("relu"), 1),
            "path": lambda: simulate(problem("erf"), 1, ridge=path),
        }
    )
    label = f"one seed, d = {D}, N = {WIDTH}, n = n_step = {ROWS}"
    bare = times["bare"] + times["random"]
    rows = [
        row(f"simulate {name}, {label}; baseline: bare BLAS, LAPACK and random numbers", times[name], bare, 1.5)
        for name in ("erf", "tanh", "relu")
    ]
    rows.append(row("20 penalties; baseline: one penalty", times["path"], times["erf"], 3.0))
    if memory:
        rows.append(row(f"peak memory, n = n_step = {MEMORY_ROWS}; baseline: 2 GB", peak_memory(), 2.0, 1.0, "GB"))
    return rows


if __name__ == "__main__":
    for line in run(memory="--no-memory" not in sys.argv):
        print(f"{line['ratio']:6.2f} (target {line['target']}) {line['measured']:8.2f} {line['unit']}  {line['name']}")
    print(f"peak of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")
