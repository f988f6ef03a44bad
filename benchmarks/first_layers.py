"""Expected errors of drawn first layers against plain refits: the table of the page Several steps.

Run as ``python -m benchmarks.first_layers benchmarks/results/first_layers.json``.
"""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import gradstep as gs
from gradstep.gaussian import MultivariateFunction

SEED, REFITS, SIZES = 0, 512, (150, 300, 600)
SHARED: dict[str, Any] = {
    "activation": "tanh", "teacher": "sin", "d": 150, "width": 200, "n_step": 600, "n": 300, "ridge": 1.0,
    "noise": 0.3, "eta": gs.Step(2.0, 0.5),
}  # fmt: skip
#: What differs from those settings, and the training in place of the one step.
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "one step, constant readout": ({"readout": "constant"}, {}),
    "one step, tanh x + .3 x², teacher x - 1": (
        {"activation": "tanh(x) + 0.3*x**2", "teacher": "x - 1", "eta": gs.Step(0.75, 0.5)},
        {},
    ),
    "three fresh steps": ({}, {"steps": 3}),
    "three reused steps, teacher H3": ({"teacher": "H3"}, {"steps": 3, "fresh": False}),
    "two reused steps, relu, teacher x1 x2 + tanh x1": (
        {"activation": "relu", "teacher": "x1*x2 + tanh(x1)"},
        {"steps": 2, "fresh": False},
    ),
    "damped, δ = .3": ({}, {"optimiser": "damped", "damping": 0.3}),
    "three steps of Adam": ({}, {"steps": 3, "optimiser": "adam"}),
    "three spectral steps": ({}, {"steps": 3, "optimiser": "spectral"}),
}


def refits(network: gs.Network, n: int, first_seed: int) -> np.ndarray:
    """Return test and training errors (REFITS, 2) of fits of one first layer to samples of their own."""
    fixed = network.with_weights(network.after)
    problem = fixed.problem.replace(n=n)
    fits = [replace(fixed, problem=problem, seed=seed).fit() for seed in range(first_seed, first_seed + REFITS)]
    readouts = np.concatenate([fit.readouts for fit in fits], axis=1)
    if isinstance(problem.teacher, MultivariateFunction):
        test = fixed.sampled_risk(readouts, 1 << 18)[0]
    else:
        test = fixed.risk(readouts, along=network.spike.direction, tolerance=1e-6).test_error
    return np.column_stack([test, [fit.train_error[0] for fit in fits]])


def compared(name: str) -> list[dict[str, Any]]:
    """Return a row of the table for each number of samples."""
    changes, training = CASES[name]
    problem = gs.Problem(**(SHARED | changes))
    network = gs.Network(problem, SEED).train(**training) if training else gs.Network(problem, SEED)
    start = perf_counter()
    curve = network.learning_curve(SIZES)
    seconds = perf_counter() - start
    rows = []
    for place, n in enumerate(SIZES):
        errors = refits(network, n, 1000 * (1 + len(SIZES) * list(CASES).index(name) + place))
        mean, deviation = errors.mean(axis=0), errors.std(axis=0, ddof=1) / math.sqrt(REFITS)
        row: dict[str, Any] = {"layer": name, "n": n, "rows": curve.rows, "seconds": seconds}
        row["predict"] = None if training else gs.predict(problem.replace(n=n)).test_error / mean[0] * 100 - 100
        for column, kind in enumerate(("test", "training")):
            estimate = float(getattr(curve, f"{kind}_error")[place, 0])
            error = float(getattr(curve, f"{kind}_standard_error")[place, 0])
            row[kind] = {
                "curve": estimate,
                "curve_error": 100 * error / estimate,
                "refits": mean[column],
                "refits_error": 100 * deviation[column] / mean[column],
                "off": 100 * (estimate / mean[column] - 1),
                "z": (estimate - mean[column]) / math.hypot(error, deviation[column]),
            }
        print(name, n, {kind: round(row[kind]["z"], 2) for kind in ("test", "training")}, flush=True)
        rows.append(row)
    return rows


def main(path: str) -> None:
    """Compare all cases and write the table."""
    rows = [row for name in CASES for row in compared(name)]
    z = [row[kind]["z"] for row in rows for kind in ("test", "training")]
    summary = {
        "count": len(z),
        "square": float(np.mean(np.square(z))),
        "largest": max(map(abs, z)),
        "off": float(np.mean([row["test"]["off"] for row in rows])),
        "predict": max(abs(row["predict"]) for row in rows if row["predict"] is not None),
    }
    settings = {"command": "python -m benchmarks.first_layers FILE", "seed": SEED, "refits": REFITS}
    settings |= {name: SHARED[name] for name in ("d", "width", "n_step", "ridge", "noise")}
    found = {"settings": settings, "summary": summary, "rows": rows}
    Path(path).write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
