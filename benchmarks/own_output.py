"""An output of order one on correlated inputs and in damped steps: the table of errors of the page Correlated inputs.

python -m benchmarks.own_output FILE            what is not in the file is measured, a setting at a time
python -m benchmarks.own_output FILE --theory   the predictions again, by the theory of today
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

import gradstep as gs

#: Networks for each dimension.
NETWORKS = {150: 128, 300: 128, 600: 48}
ERRORS = ("test_error", "train_error")
READOUTS: dict[str, Any] = {
    "signs": {-1.0: 0.5, 1.0: 0.5},
    "½ and 2": {0.5: 0.5, 2.0: 0.5},
    "1 and -2": {1.0: 0.5, -2.0: 0.5},
}
EVEN = "tanh(x) + 0.3*(x**2 - 1)"
LINEAR_AND_EVEN, SINE, BENT = "x + 0.3*(x**2 - 1)", "sin(1.5*x) + 0.5*x", "tanh(2*x) + 0.2*x**2"


class Setting(NamedTuple):
    """A row of the table: `step` is eta over the root of the width, and `ratio` the samples of the step over d."""

    activation: str
    readout: str
    inputs: str
    damping: float
    step: float
    teacher: str = LINEAR_AND_EVEN
    ratio: float = 2.0


SETTINGS = (
    Setting("tanh(x)", "constant", "two levels", math.inf, 0.05),
    Setting("tanh(x)", "constant", "j^-1/2", math.inf, 0.12),
    Setting("tanh(x)", "constant", "j^-1/2", math.inf, 1.0),
    Setting("tanh(x)", "signs", "j^-1/4", math.inf, 0.3),
    Setting("tanh(x)", "gaussian", "j^-1/2", 1.0, 0.1),
    Setting("tanh(x)", "½ and 2", "j^-1/2", 1.0, 0.3),
    Setting("tanh(x)", "constant", "isotropic", 0.1, 1.0),
    Setting("tanh(x)", "signs", "two levels", 0.5, 1.4, BENT, 8.0),
    Setting("erf(x)", "½ and 2", "two levels", math.inf, 0.3),
    Setting("erf(x)", "gaussian", "j^-1/4", 0.1, 1.0),
    Setting("relu(x)", "gaussian", "j^-1/2", math.inf, 0.3, SINE),
    Setting("relu(x)", "gaussian", "two levels", 0.1, 0.3, SINE),
    Setting("relu(x)", "signs", "isotropic", 1.0, 1.0, SINE),
    Setting(EVEN, "½ and 2", "two levels", math.inf, 0.3),
    Setting(EVEN, "signs", "j^-1/2", math.inf, 1.0),
    Setting(EVEN, "constant", "j^-1/2", 1.0, 0.3),
    Setting(EVEN, "signs", "two levels", 0.5, 1.4, BENT, 8.0),
    Setting(EVEN, "gaussian", "two levels", 0.5, 1.4, BENT, 8.0),
    Setting(EVEN, "1 and -2", "two levels", 0.5, 1.4, BENT, 8.0),
    Setting("tanh(x) + 0.3*x**2", "gaussian", "two levels", math.inf, 1.0),
)


def inputs_of(name: str, d: int) -> gs.Inputs | None:
    """Return the law of the inputs."""
    if name == "isotropic":
        return None
    if name == "two levels":
        return gs.Inputs([3.0, 0.5], [0.2, 0.8], [0.5, 0.5])
    return gs.Inputs.power_law({"j^-1/2": 0.5, "j^-1/4": 0.25}[name], d=d)


def problem_of(setting: Setting, d: int) -> gs.Problem:
    """Return the problem of a row."""
    return gs.Problem(
        activation=setting.activation,
        teacher=setting.teacher,
        readout=READOUTS.get(setting.readout, setting.readout),
        d=d,
        width=round(1.2 * d),
        n_step=round(setting.ratio * d),
        n=2 * d,
        eta=gs.Step(setting.step, 0.5),
        ridge=d / 40,
        noise=0.2,
        output_scale="1/sqrt(N)",
        inputs=inputs_of(setting.inputs, d),
        damping=setting.damping,
    )


def names_of(setting: Setting) -> dict[str, Any]:
    """Return what a row of the file says of its setting."""
    return {**setting._asdict(), "damping": "none" if math.isinf(setting.damping) else f"{setting.damping:g}"}


def measured(setting: Setting) -> dict[str, Any]:
    """Return means and standard errors of networks at each dimension."""
    sizes: dict[str, Any] = {}
    for d, networks in NETWORKS.items():
        found = gs.simulate(problem_of(setting, d), seeds=networks)
        sizes[f"d{d}"] = {
            name: {"mean": float(found.mean(name)), "error": float(found.standard_error(name))} for name in ERRORS
        }
    return {**names_of(setting), "sizes": sizes}


def with_theory(row: dict[str, Any], setting: Setting) -> dict[str, Any]:
    """Return a row with the predictions of today, and how many per cent of the network's error they are above it."""
    for d, errors in row["sizes"].items():
        prediction = gs.predict(problem_of(setting, int(d[1:])))
        for name, known in errors.items():
            theory, mean = float(getattr(prediction, name)), known["mean"]
            error = 100 * theory * known["error"] / mean**2
            known |= {"theory": theory, "off": 100 * (theory / mean - 1), "off_error": error}
    return row


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write the file."""
    every = [errors[name] for row in rows for errors in row["sizes"].values() for name in ERRORS]
    largest = [row["sizes"][f"d{max(NETWORKS)}"]["test_error"] for row in rows]
    summary = {
        "errors": len(every),
        "within_two_errors": sum(bool(abs(e["off"]) < 2 * e["off_error"]) for e in every),
        "median_at_the_largest": float(np.median([abs(e["off"]) for e in largest])),
    }
    settings = {
        "command": "python -m benchmarks.own_output FILE",
        "networks": ", ".join(f"{n} at d = {d}" for d, n in NETWORKS.items()),
        "width": "1.2 d",
        "n": "2 d",
        "ridge": "d/40",
        "noise": 0.2,
    }
    path.write_text(json.dumps({"settings": settings, "summary": summary, "rows": rows}, indent=1) + "\n", "utf-8")


def main() -> None:
    """Measure what is not there, and predict all of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--theory", action="store_true", help="measure nothing")
    options = parser.parse_args()
    known = json.loads(options.file.read_text("utf-8"))["rows"] if options.file.exists() else []
    rows: list[dict[str, Any]] = []
    for setting in SETTINGS:
        names = names_of(setting)
        row = next((r for r in known if all(r[key] == value for key, value in names.items())), None)
        if row is None and options.theory:
            continue
        rows.append(with_theory(measured(setting) if row is None else row, setting))
        write(options.file, rows)
        print(names, rows[-1]["sizes"], flush=True)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
