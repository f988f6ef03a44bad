"""Theory beside networks on correlated inputs after one step: ``python -m benchmarks.correlated_inputs``.

A run goes on where the last one stopped: settings that are in the results file are not measured again, but theory is
put beside all of them anew. ``--minutes`` ends it before all are measured. With ``--device cuda`` a graphics card draws
the networks, and settings that are off are measured at the largest dimension, too.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import gradstep as gs

RESULTS = Path(__file__).parent / "results" / "correlated_inputs.json"
DIMENSION, SEEDS, ROUNDS = 300, 128, 3
#: Settings whose test error is off by more than these per cent and standard errors are measured at this dimension too,
#: unless an eigenvalue is larger than this share of the dimension.
OFF, ERRORS, LARGER, LARGER_SEEDS, LARGEST = 2.0, 2.5, 600, 32, 1 / 30
#: The dimension for which a card is needed, and its seeds.
ON_A_CARD, CARD_SEEDS = 2400, range(900, 954)
NAMES = ("spectrum", "teacher", "n_step_per_d", "readout", "activation", "link", "eta_over_sqrt_width", "damping")
PARTS = ("rows", "damped", "larger", "largest")
QUANTITIES = ("test_error", "train_error", "alignment")

#: Names and laws, by how far they are from isotropic.
SPECTRA: dict[str, dict[str, Any]] = {
    "flat": {"exponent": 0.0},
    "j^-0.25": {"exponent": 0.25},
    "j^-0.5": {"exponent": 0.5},
    "j^-0.75": {"exponent": 0.75},
    "j^-1": {"exponent": 1.0},
    "j^-1.5": {"exponent": 1.5},
    "two levels": {"eigenvalues": [9, 1], "share": [0.1, 0.9]},
    "three spikes": {"strengths": [4.0, 4.0, 4.0]},
}
#: Where the teacher is, for a power law and for classes.
TEACHERS = {"top": (2.0, [0.7, 0.3]), "spread": (None, None), "bottom": (-1.0, [0.02, 0.98])}
FUNCTIONS = [
    ("tanh", "sin(x)"),
    ("erf(x/sqrt(2))", "tanh(2*x)"),
    ("relu", "x"),
    ("softplus", "tanh(x)"),
    ("sin", "x+0.2*(x**3-3*x)"),
]
STEPS = (0.3, 1.0, 3.0, 8.0)
DAMPINGS = (1.0, 0.1)


def inputs(spectrum: str, teacher: str, d: int) -> gs.Inputs | None:
    """Return a law of the inputs, the eigenvalues of a power law being those of the smallest dimension."""
    law, (exponent, parts) = SPECTRA[spectrum], TEACHERS[teacher]
    if "exponent" in law:
        made = gs.Inputs.power_law(law["exponent"], exponent, d=DIMENSION)
        return None if law["exponent"] == 0 else gs.Inputs(made.eigenvalues, made.share, made.teacher)
    if "strengths" in law:
        share = [0.01, 0.99]
        return gs.Inputs([5, 1], share, parts)
    return gs.Inputs(law["eigenvalues"], law["share"], parts)


def settings() -> list[dict[str, Any]]:
    """Return the settings: every spectrum, place of the teacher and number of samples, the rest drawn a few times."""
    return _distinct([s for draw in range(ROUNDS) for s in _settings(np.random.default_rng(draw), None)])


def damped_settings() -> list[dict[str, Any]]:
    """Return settings with damped steps: every spectrum, place of the teacher and number of samples, twice."""
    found = [_settings(np.random.default_rng(100 + index), damping) for index, damping in enumerate(DAMPINGS)]
    return _distinct([s for pair in zip(*found, strict=True) for s in pair if s["eta_over_sqrt_width"] > 0])


def _distinct(drawn: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return settings without those that have come before."""
    return [setting for place, setting in enumerate(drawn) if setting not in drawn[:place]]


def _settings(random: np.random.Generator, damping: float | None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for n_step, teacher, spectrum in itertools.product(STEPS, TEACHERS, SPECTRA):
        if spectrum == "flat" and teacher != "spread":
            continue
        activation, link = FUNCTIONS[random.integers(len(FUNCTIONS))]
        found.append(
            {
                "spectrum": spectrum,
                "teacher": teacher,
                "n_step_per_d": n_step,
                "readout": ("constant", "gaussian")[random.integers(2)],
                "activation": activation,
                "link": link,
                "eta_over_sqrt_width": float(random.choice((0.0, 0.75, 1.5), p=(0.15, 0.45, 0.4))),
                "damping": damping,
            }
        )
    # In any order, so that the first of them are like the rest.
    return [found[index] for index in random.permutation(len(found))]


def problem(setting: dict[str, Any], d: int = DIMENSION) -> gs.Problem:
    """Return the problem of a setting."""
    return gs.Problem(
        activation=setting["activation"],
        teacher=setting["link"],
        d=d,
        width=round(4 * d / 3),
        n=round(7 * d / 3),
        n_step=round(setting["n_step_per_d"] * d),
        eta=gs.Step(setting["eta_over_sqrt_width"], 0.5),
        ridge=d / 60,
        noise=0.2,
        readout=setting["readout"],
        inputs=inputs(setting["spectrum"], setting["teacher"], d),
        damping=math.inf if setting["damping"] is None else setting["damping"],
    )


def measured(
    setting: dict[str, Any], seeds: int | range, d: int = DIMENSION, device: str | None = None
) -> dict[str, Any]:
    """Measure one setting."""
    network = gs.simulate(problem(setting, d), seeds=seeds, device=device)
    row: dict[str, Any] = {**setting, "d": d}
    # Without a step nothing is aligned.
    for name in QUANTITIES[: None if setting["eta_over_sqrt_width"] else 2]:
        row[name] = {"mean": float(network.mean(name)), "standard_error": float(network.standard_error(name))}
    return row


def compared(row: dict[str, Any]) -> dict[str, Any]:
    """Put theory beside what was measured."""
    asked = problem(row, row["d"])
    found: dict[str, Any] = {name: row[name] for name in (*NAMES, "d")}
    law = None if asked.inputs is None else asked.inputs.at_dimension(row["d"])
    found["largest"] = (1 if law is None else max(law.eigenvalues)) / row["d"]
    found["effective"] = 1.0 if law is None else law.effective_dimension
    theory = gs.predict(asked)
    for name in QUANTITIES:
        if name not in row:
            continue
        mean, error, value = row[name]["mean"], row[name]["standard_error"], float(getattr(theory, name))
        off, percent = 100 * (value / mean - 1), 100 * error / abs(mean)
        found[name] = {"mean": mean, "standard_error": error, "theory": value, "off": off, "percent": percent}
    return found


def is_off(row: dict[str, Any]) -> bool:
    """Whether the test error of a setting is to be measured at a larger dimension."""
    test = row["test_error"]
    return row["largest"] <= LARGEST and abs(test["off"]) > max(OFF, ERRORS * test["percent"])


def summary(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return how far theory is off, by the largest eigenvalue over the dimension."""
    edges, found = (0.0, 1 / 60, 1 / 30, 1 / 15, 1.0), []
    for low, high in itertools.pairwise(edges):
        chosen = [row for row in rows if low < row["largest"] <= high]
        if not chosen:
            continue
        entry: dict[str, Any] = {"above": low, "up_to": high, "count": len(chosen)}
        for name in ("test_error", "train_error"):
            off = np.array([row[name]["off"] for row in chosen])
            error = np.array([row[name]["percent"] for row in chosen])
            close = (np.abs(off) <= OFF) | (np.abs(off) <= ERRORS * error)
            entry[name] = {
                "within": round(100 * float(close.mean()), 1),
                "median": round(float(np.median(np.abs(off))), 2),
                "mean": round(float(off.mean()), 2),
                "largest": round(float(np.abs(off).max()), 1),
                "error": round(float(np.median(error)), 2),
            }
        found.append(entry)
    return found


def main() -> None:
    """Measure what is not measured yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=math.inf)
    parser.add_argument("--device", help="a card that draws the networks, such as cuda (default: the processor)")
    options = parser.parse_args()
    end, device = time.monotonic() + 60 * options.minutes, options.device
    known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    parts = {name: [compared(row) for row in known.get(name, [])] for name in PARTS}
    measure(parts, "rows", settings(), DIMENSION, SEEDS, end, device)
    measure(parts, "damped", damped_settings(), DIMENSION, SEEDS, end, device)
    off = sorted(filter(is_off, parts["rows"] + parts["damped"]), key=lambda row: -abs(row["test_error"]["off"]))
    # Those that were off once are kept: what the larger dimension says of them is as true as before.
    asked = _distinct([{name: row[name] for name in NAMES} for row in parts["larger"] + off])
    measure(parts, "larger", asked, LARGER, LARGER_SEEDS, end, device)
    known_there = [{name: row[name] for name in NAMES} for row in parts["largest"]]
    new = [{name: row[name] for name in NAMES} for row in off] if device is not None else []
    measure(parts, "largest", _distinct(known_there + new), ON_A_CARD, CARD_SEEDS, end, device)


def alike(row: dict[str, Any], setting: dict[str, Any]) -> bool:
    """Whether a row is of a setting, at any dimension."""
    return all(row[name] == setting[name] for name in NAMES)


def measure(
    parts: dict[str, list[dict[str, Any]]],
    name: str,
    asked: list[dict[str, Any]],
    d: int,
    seeds: int | range,
    end: float,
    device: str | None,
) -> None:
    """Measure the settings of a part that are not there, until the time is over; one without a prediction is left out.

    Rows of settings that are not asked for any more are taken out. The file is written after each setting.
    """
    known = ([row for row in parts[name] if alike(row, setting)][:1] for setting in asked)
    rows = parts[name] = [row for found in known for row in found]
    write(parts)
    for setting in asked:
        if time.monotonic() > end:
            return
        if any(alike(row, setting) for row in rows):
            continue
        try:
            gs.predict(problem(setting, d))
        except gs.GradstepError as refused:
            print(setting, refused, flush=True)
            continue
        rows.append(compared(measured(setting, seeds, d, device)))
        write(parts)
        print(rows[-1], flush=True)


def write(parts: dict[str, list[dict[str, Any]]]) -> None:
    """Write the results file, with what was found at first beside what was measured at the larger dimension."""
    for row in parts["larger"] + parts["largest"]:
        row["at_first"] = next((r["test_error"] for r in parts["rows"] + parts["damped"] if alike(r, row)), None)
    about = {"command": "python -m benchmarks.correlated_inputs", "width": "4/3 d", "n": "7/3 d", "ridge": "d/60",
             "noise": 0.2, "d": DIMENSION, "seeds": SEEDS, "larger": LARGER, "larger_seeds": LARGER_SEEDS,
             "largest": ON_A_CARD, "largest_seeds": len(CARD_SEEDS)}  # fmt: skip
    summaries = {"summary": summary(parts["rows"]), "damped_summary": summary(parts["damped"])}
    RESULTS.write_text(json.dumps({"settings": about, **summaries, **parts}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
