"""Outliers of the first layer on correlated inputs and after damped steps: two tables of the page Spectra.

Run as ``python -m benchmarks.weight_outliers benchmarks/results/weight_outliers.json``.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import gradstep as gs
from gradstep.theory.spectra.weight_spectrum import weight_spectrum

SEED, NETWORKS = 0, 20
#: What is the same everywhere, with 1.25 neurons for each dimension.
SHARED: dict[str, Any] = {"teacher": "sin(1.5*x)", "n": 10, "ridge": 1.0, "noise": 0.2}
HALF_AND_TWO = {0.5: 0.5, 2.0: 0.5}
OVERLAPS = {"gradient": "gradient_overlap", "teacher": "teacher_overlap", "along_readout": "readout_overlap"}


class Setting(NamedTuple):
    """A row of a table: `step` is eta over the root of the width, and `ratio` the samples of the step over d."""

    inputs: str
    damping: float
    activation: str
    readout: str
    d: int
    step: float
    ratio: float


PLAIN = (
    Setting("three levels", math.inf, "tanh", "constant", 600, 0.75, 1),
    Setting("$j^{-1/2}$", math.inf, "erf", "Gaussian", 300, 2.0, 1),
    Setting("spikes", math.inf, "tanh", "constant", 300, 1.0, 1),
    Setting("two levels", math.inf, "tanh", "Gaussian", 300, 0.5, 1),
    Setting("two levels", math.inf, "relu", "Gaussian", 600, 1.0, 1),
    Setting("three levels", math.inf, "softplus", "½ and 2", 600, 1.0, 2),
)
DAMPED = (
    Setting("isotropic", 1.0, "tanh", "constant", 600, 1.0, 1),
    Setting("isotropic", 0.1, "relu", "Gaussian", 600, 1.0, 2),
    Setting("three levels", 1.0, "tanh", "constant", 600, 0.75, 1),
    Setting("three levels", 0.1, "tanh", "Gaussian", 300, 0.75, 1),
    Setting("$j^{-1/2}$", 1.0, "erf", "Gaussian", 300, 1.0, 1),
    Setting("two levels", 0.3, "relu", "Gaussian", 600, 0.75, 1),
    Setting("two levels", 1.0, "softplus", "½ and 2", 600, 1.0, 2),
    Setting("two levels", 0.3, "sin(2*x)", "constant", 300, 1.5, 0.5),
)


def inputs_of(setting: Setting) -> gs.Inputs | None:
    """Return the law of the inputs."""
    return {
        "isotropic": None,
        "two levels": gs.Inputs([4, 1], [0.25, 0.75], [0.6, 0.4]),
        "three levels": gs.Inputs([6, 1, 0.2], [0.1, 0.5, 0.4], [0.5, 0.2, 0.3]),
        "spikes": gs.Inputs.spiked([4, 4, 4], d=setting.d, teacher=[0.3, 0.2, 0.1]),
        "$j^{-1/2}$": gs.Inputs.power_law(0.5, 2.0, d=setting.d),
    }[setting.inputs]


def problem_of(setting: Setting) -> gs.Problem:
    """Return the problem of a row."""
    return gs.Problem(
        activation=setting.activation,
        d=setting.d,
        width=round(1.25 * setting.d),
        n_step=round(setting.ratio * setting.d),
        eta=gs.Step(setting.step, 0.5),
        readout=HALF_AND_TWO if setting.readout == "½ and 2" else setting.readout.lower(),
        inputs=inputs_of(setting),
        damping=setting.damping,
        **SHARED,
    )


def measured(values: Sequence[float], theory: float) -> dict[str, float]:
    """Return mean and standard error of networks, beside the theory."""
    return {
        "mean": float(np.mean(values)),
        "error": float(np.std(values, ddof=1) / len(values) ** 0.5),
        "theory": theory,
    }


def compared(setting: Setting) -> dict[str, Any]:
    """Return a row: the outlier, its squared cosines, and how many eigenvalues are out of place at most."""
    problem = problem_of(setting)
    spectrum = weight_spectrum(problem)
    outlier = spectrum.outlier
    assert outlier is not None
    values: dict[str, list[float]] = {name: [] for name in ("singular_value", *OVERLAPS, "displaced")}
    for seed in range(SEED, SEED + NETWORKS):
        found = gs.Network(problem, seed).weight_spectrum()
        values["singular_value"].append(float(found.after[-1]))
        for name, attribute in OVERLAPS.items():
            values[name].append(getattr(found.leading[0], attribute))
        below = (np.arange(len(found.after)) + 0.5) / len(found.after)
        values["displaced"].append(len(below) * float(np.abs(spectrum.after.cumulative(found.after**2) - below).max()))
    displaced = float(np.mean(values.pop("displaced")))
    predicted = {"singular_value": outlier.singular_value}
    predicted |= {name: getattr(outlier, attribute) for name, attribute in OVERLAPS.items()}
    row = {name: measured(found, predicted[name]) for name, found in values.items()}
    damping = None if math.isinf(setting.damping) else setting.damping
    return {**setting._asdict(), "damping": damping, **row, "displaced": displaced}


def main(path: str) -> None:
    """Measure both tables, and write the file."""
    settings = {
        "command": "python -m benchmarks.weight_outliers FILE",
        "networks": NETWORKS,
        "first_seed": SEED,
        **SHARED,
    }
    tables: dict[str, list[dict[str, Any]]] = {"plain": [], "damped": []}
    for name, rows in (("plain", PLAIN), ("damped", DAMPED)):
        for setting in rows:
            tables[name].append(compared(setting))
    every = [row["singular_value"] for rows in tables.values() for row in rows]
    near = sum(abs(each["mean"] - each["theory"]) < 2 * each["error"] for each in every)
    found = {"settings": settings, "summary": {"settings": len(every), "within_two_errors": near}, **tables}
    Path(path).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
