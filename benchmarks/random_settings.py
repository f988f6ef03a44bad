"""Theory beside networks in settings that nobody chose: all factors drawn at random.

``python -m benchmarks.random_settings FILE`` measures the settings that the file lacks, at ``--size`` with
``--networks`` each, on a card where ``--device cuda`` names one, and writes them with what theory says of them. It can
be stopped and goes on where it ended. With ``--theory`` only what theory says is computed again.

The search (`benchmarks.hunt`) covers combinations of levels by design. Here readouts, spectra and strengths that its
design has seldom or never meet each other: six in ten steps are of the order ``sqrt(N)``, and seven in ten are plain.
"""

from __future__ import annotations

import argparse
import json
import math
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.hunt.measure import ERRORS
from benchmarks.hunt.sample import Sample
from benchmarks.hunt.settings import PENALTIES
from benchmarks.hunt.table import FAR, SIGMA
from threadpoolctl import threadpool_limits

import gradstep as gs
from gradstep.errors import GradstepError
from gradstep.sweeps.store import write_whole

__all__ = ["problem", "setting", "summary"]

#: Settings of all inputs, and how many more whose inputs have a power law.
COUNT, STEEP = 200, 100
#: Settings of all inputs that were drawn and measured when the equations were done, and the number of the first.
FRESH, FIRST_FRESH = 400, 5000
#: Exponents of these.
EXPONENTS = (0.3, 0.8)
#: Errors count whose standard error is less than this share of them.
KNOWN = 0.02

_ODD = ("tanh(x)", "erf(x)", "H1+0.3*H3", "tanh(2*x)")
_EVEN = ("cos(x)-exp(-0.5)", "H2", "H2+0.1*H4")
#: By content of the derivative, as in the search. Those of mean zero are for outputs of order one under a readout with
#: a mean.
ACTIVATIONS = (
    _ODD,
    _EVEN,
    ("log(1+exp(x))", "gelu(x)", "H1+0.4*H2", "sigmoid(2*x)", "sin(x+0.6)"),
    ("tanh(x)+0.3*x**2", "H1+0.4*H2+0.3*H3", "tanh(2*x)+0.5*cos(x)", "silu(x)+0.2*H3"),
    ("relu", "leaky_relu", "abs(x)", "sign(x)-0.4"),
)
CENTRED = (
    _ODD,
    _EVEN,
    ("gelu(x)-0.5/sqrt(pi)", "H1+0.4*H2", "sin(x+0.6)-exp(-0.5)*sin(0.6)"),
    ("tanh(x)+0.3*H2", "H1+0.4*H2+0.3*H3", "sin(x)-0.4*H2"),
    ("relu(x)-1/sqrt(2*pi)", "abs(x)-sqrt(2/pi)", "hardtanh(x)"),
)
TEACHERS = (
    "x", "x", "x-1", "x+1.5", "x+0.7*H2", "x-0.7*H2", "x+0.5*H3", "0.7+0.8*x+0.5*H2-0.3*H3", "relu(x)", "H2", "sin(x)",
    "sign(x)", "tanh(2*x)",
)  # fmt: skip
READOUTS: tuple[tuple[Any, float], ...] = (
    ("constant", 0.16),
    ("gaussian", 0.16),
    ({"-1": 0.5, "1": 0.5}, 0.16),
    ({"0.5": 0.5, "2": 0.5}, 0.12),
    ({"-1": 0.3, "2": 0.7}, 0.2),
    ({"0": 0.5, "1": 0.5}, 0.1),
    ({"-1": 0.5, "0.5": 0.5}, 0.1),
)
_NO_MEAN = (READOUTS[1][0], READOUTS[2][0])
#: Eigenvalues, their shares and the teacher's shares. None is isotropic, and the power law has the exponent one half.
INPUTS: tuple[tuple[Any, float], ...] = (
    (None, 0.2),
    (([3.0, 0.5], [0.2, 0.8], [0.6, 0.4]), 0.2),
    (([4.0, 0.25], [0.2, 0.8], [0.2, 0.8]), 0.15),
    (([4.0, 2.0, 1.0, 0.5, 0.25], [0.05, 0.15, 0.25, 0.35, 0.2], [0.2, 0.3, 0.2, 0.2, 0.1]), 0.2),
    ("power law", 0.15),
    (([1.3, 0.7], [0.5, 0.5], None), 0.1),
)
DAMPING = ((math.inf, 0.7), (1.0, 0.15), (0.2, 0.15))
#: Exponent of the step, range of its coefficient, and probability.
STEPS = (((0.5, 0.2, 2.0), 0.6), ((0.25, 0.3, 4.0), 0.25), ((0.0, 0.3, 20.0), 0.15))

Row = dict[str, Any]


def kind_of(number: int) -> str:
    """Return which settings a number is of: those of the first design, with power laws, or fresh."""
    return "fresh" if number >= FIRST_FRESH else "steep" if number >= COUNT else "first"


def setting(number: int, d: int) -> dict[str, Any]:
    """Return a setting as the arguments of a problem of this dimension: the same for every dimension.

    The `STEEP` settings from `COUNT` on have inputs with power laws of any exponent.
    """
    random = np.random.default_rng([77, number])

    def one_of(choices: Sequence[tuple[Any, float]]) -> Any:
        return choices[random.choice(len(choices), p=[share for _, share in choices])][0]

    def between(low: float, high: float) -> float:
        return float(low * (high / low) ** random.random())

    readout = one_of(READOUTS)
    output_scale = "1/sqrt(N)" if random.random() < 0.3 else "1/N"
    kind = random.choice(5, p=[0.15, 0.15, 0.3, 0.2, 0.2])
    activations = (CENTRED if output_scale != "1/N" and readout not in _NO_MEAN else ACTIVATIONS)[kind]
    inputs, damping, (exponent, *_) = one_of(INPUTS), one_of(DAMPING), one_of(STEPS)
    # One for each exponent, so that all that follows is the same whichever it is.
    coefficient = {step[0]: between(*step[1:]) for step, _ in STEPS}[exponent]
    activation = activations[random.integers(len(activations))]
    found = {
        "activation": activation,
        "teacher": f"{between(0.5, 2):.3g}*({TEACHERS[random.integers(len(TEACHERS))]})",
        "d": d,
        "width": round(round(between(0.5, 3), 2) * d),
        "n": round(round(between(0.5, 3), 2) * d),
        "n_step": round(round(between(0.5, 5), 2) * d),
        "ridge": round(float(f"{between(0.05, 0.5):.3g}") * d, 6),
        "noise": round(0.6 * random.random(), 2),
        "eta": gs.Step(float(f"{coefficient:.3g}"), exponent=exponent),
        "readout": readout,
        "initial_weights": ("gaussian", "sphere")[random.integers(2)],
        "output_scale": output_scale,
    }
    if kind_of(number) == "steep":
        found["inputs"] = gs.Inputs.power_law(round(float(random.uniform(*EXPONENTS)), 2), d=d)
    elif inputs == "power law":
        found["inputs"] = gs.Inputs.power_law(0.5, d=d)
    elif inputs is not None:
        eigenvalues, share, teacher = inputs
        found["inputs"] = gs.Inputs(eigenvalues, share, teacher=teacher)
    return found | ({"damping": damping} if math.isfinite(damping) else {})


def problem(number: int, d: int, factor: float) -> gs.Problem:
    """Return a setting with its penalty times a factor."""
    options = setting(number, d)
    return gs.Problem(**{**options, "ridge": factor * options["ridge"]})


def measure(number: int, d: int, seed: int, device: str | None) -> list[list[float]]:
    """Return test and training errors of one network, for each penalty."""
    options = setting(number, d)
    with threadpool_limits(1):
        drawn = gs.Network(gs.Problem(**options), seed, dtype="float32", device=device)
        fit = drawn.fit([factor * options["ridge"] for factor in PENALTIES])
        return [np.atleast_1d(of).tolist() for of in (drawn.sampled_risk(fit.readouts, 4 * d)[0], fit.train_error)]


def theory(number: int, d: int) -> Row:
    """Return what theory says of a setting, or why it refuses."""
    try:
        predictions = gs.predict_many([problem(number, d, factor) for factor in PENALTIES])
    except GradstepError as error:
        return {"failure": str(error)}
    values = {name: [float(f"{getattr(p, name):.6g}") for p in predictions] for name in ERRORS}
    return values | {"caveats": [[caveat.name for caveat in p.caveats] for p in predictions]}


def row(number: int, d: int, sample: Sample) -> Row:
    """Return what is kept of a setting at one size."""
    digits = np.vectorize(lambda value: float(f"{value:.6g}"))
    return {
        "number": number,
        "d": d,
        "networks": sample.count,
        "mean": digits(sample.mean).tolist(),
        "error": digits(sample.error).tolist(),
    }


def _uncertainty(rows: Sequence[Row]) -> dict[tuple[int, int], np.ndarray]:
    """Return the standard errors of a setting at a size over its means.

    The scatter of a handful of networks can be far smaller than that of the law they are drawn from. It falls like
    ``d^(-1/2)`` or faster, so an error is at least what the scatter at the next smaller size amounts to.
    """
    found: dict[tuple[int, int], np.ndarray] = {}
    last: dict[int, Row] = {}
    for row in sorted(rows, key=lambda row: int(row["d"])):
        key, own = (row["number"], row["d"]), np.array(row["error"]) / np.array(row["mean"])
        if (smaller := last.get(row["number"])) is not None:
            share = smaller["networks"] * smaller["d"] / (row["networks"] * row["d"])
            own = np.maximum(own, found[row["number"], smaller["d"]] * math.sqrt(share))
        found[key], last[row["number"]] = own, row
    return found


def summary(rows: Sequence[Row]) -> list[Row]:
    """Return for each size how far predictions are from networks, in per cent, and how far they would be by chance.

    Of the test errors that are far off, `far`, so many have a caveat: `told`.
    """
    found, uncertainty = [], _uncertainty(rows)
    for d in sorted({row["d"] for row in rows}):
        told = [row for row in rows if row["d"] == d and "failure" not in row["theory"]]
        line: Row = {"d": d, "settings": len(told), "networks": sum(row["networks"] for row in told)}
        for place, name in enumerate(ERRORS):
            mean = np.array([row["mean"][place] for row in told])
            by_chance = np.array([uncertainty[row["number"], d][place] for row in told])
            off = np.array([row["theory"][name] for row in told]) / mean - 1
            known = by_chance < KNOWN
            if name == "test_error":
                far = (np.abs(off) > FAR) & (np.abs(off) > SIGMA * by_chance)
                caveats = np.array([[bool(each) for each in row["theory"]["caveats"]] for row in told])
                line |= {"far": int(far.sum()), "told": int((far & caveats).sum())}
            line[name] = {
                "known": int(known.sum()),
                "off": 100 * float(np.sqrt(np.mean(off[known] ** 2))),
                "by_chance": 100 * float(np.sqrt(np.mean(by_chance[known] ** 2))),
                "median": 100 * float(np.median(np.abs(off[known]))),
            }
        found.append(line)
    return found


def _with_theory(rows: Sequence[Row], pool: ProcessPoolExecutor) -> list[Row]:
    found = pool.map(theory, [row["number"] for row in rows], [row["d"] for row in rows])
    return [{**row, "theory": told} for row, told in zip(rows, found, strict=True)]


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--size", type=int, default=400)
    parser.add_argument("--networks", type=int, default=24)
    parser.add_argument("--device")
    parser.add_argument("--workers", type=int, default=2)
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--steep", action="store_true", help="those whose inputs have a power law")
    kind.add_argument("--fresh", action="store_true", help="those that were drawn when the equations were done")
    parser.add_argument("--theory", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    kept: list[Row] = json.loads(options.file.read_text())["rows"] if options.file.exists() else []

    def write() -> None:
        ordered = sorted(kept, key=lambda row: (row["number"], row["d"]))
        command = "python -m benchmarks.random_settings FILE"
        settings = {"command": command, "settings": COUNT, "steep": STEEP, "fresh": FRESH}
        told = [row for row in ordered if "theory" in row]
        kinds = {"summary": "first", "steep": "steep", "fresh": "fresh"}
        parts = {name: summary([row for row in told if kind_of(row["number"]) == kind]) for name, kind in kinds.items()}
        table = {"settings": settings, **parts, "rows": ordered}
        write_whole(options.file, json.dumps(table, separators=(",", ":")).replace('{"number"', '\n{"number"') + "\n")

    with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
        if not options.theory:
            done = {(row["number"], row["d"]) for row in kept}
            seeds = range(options.networks)
            first, count = (COUNT, STEEP) if options.steep else (FIRST_FRESH, FRESH) if options.fresh else (0, COUNT)
            for number in (n for n in range(first, first + count) if (n, options.size) not in done):
                one = partial(measure, number, options.size, device=options.device)
                kept.append(row(number, options.size, Sample.of(list(pool.map(one, seeds)))))
                write()
        old = [] if options.theory else [row for row in kept if "theory" in row]
        new = kept if options.theory else [row for row in kept if "theory" not in row]
        kept = old + _with_theory(new, pool)
    write()


if __name__ == "__main__":
    main()
