"""What the time of every wait is made of: ``python -m benchmarks.profiles FILE`` writes times and shares of a profile.

The waits are those of `benchmarks.bench_waits`. A time is the processor's, the least of a few runs without the
profiler; the shares are of the profiler's cumulated times, of functions of which none calls another.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.bench_theory import cold, problem
from benchmarks.bench_waits import (
    CLASSES,
    FIRST_PREDICTION,
    SEARCHES,
    WITHOUT_AVERAGES,
    anew,
    moniri_problem,
    posed_curves,
    posed_grids,
    posed_limits,
    posed_spectra,
    small_network,
    tuned,
)
from benchmarks.run import machine, quantity

import gradstep as gs
from gradstep.papers.moniri2024.finite import finite_errors
from gradstep.theory.convex.convex_loss import convex_prediction
from gradstep.theory.spectra.feature_spectrum import feature_spectrum

#: Side of the grids that are profiled, and scaled up to 100 x 100.
_SIDE = 30
#: Words to functions, by file and name: of these none calls another.
Parts = Mapping[str, tuple[tuple[str, str], ...]]

_TABLES: Parts = {
    "statistics of the step": (("step/statistics.py", "step_statistics"),),
    "groups of neurons": (("neurons/groups.py", "neuron_groups"),),
    "features": (("equivalent/features.py", "conditional_features"),),
    # What it asks for is computed for many problems at once, outside of it.
    "rules of the bulk": (
        ("neurons/bulk.py", "bulk_law"),
        ("neurons/rational_rule.py", "sparse_rules"),
        ("neurons/stretched_law.py", "_resolvents"),
        ("step/weighted_samples.py", "_resolvents"),
        ("step/weighted_samples.py", "with_powers"),
    ),
}
_PREDICTIONS: Parts = {
    **_TABLES,
    "fixed point": (("equivalent/leverage.py", "solve_leverage"),),
    "means of the fit": (("equivalent/uniform.py", "_means"),),
}
_SPECTRUM: Parts = {
    "both sides of the equations": (("equivalent/leverage.py", "evaluate"),),
    "their derivatives": (("equivalent/leverage.py", "linearised"),),
    "linear systems": (("equivalent/stacks.py", "solved_definite"),),
}
_CONVEX: Parts = {
    "chance of a class": (("convex/proximal.py", "_chance"),),
    "proximal points": (("gradstep/convex.py", "proximal"),),
    "fits with a square loss": (("equivalent/uniform.py", "solve"),),
}
_MONIRI: Parts = {
    "averages of the features": (("moniri2024/finite.py", "_smoothed_features"),),
    "traces": (("moniri2024/resolvent.py", "traces"),),
    "spikes": (("moniri2024/finite.py", "_spikes"),),
    "what they learn": (("moniri2024/finite.py", "_learned"),),
}
_NETWORK: Parts = {
    "exact test error": (("simulation/population.py", "population_risk"),),
    "gradient": (("simulation/step.py", "gradient"),),
    "fit": (("simulation/ridge.py", "fit_ridge"),),
}


class Wait(NamedTuple):
    """Something that people wait for: its goal in seconds, the call, the parts to look for, and the calls it takes."""

    name: str
    goal: float | None
    call: Callable[[], object]
    parts: Parts
    times: float = 1.0


def waits() -> Iterator[Wait]:
    """Yield every wait that is a call of a function."""
    for label, goal, posed in posed_curves(60):
        yield Wait(label, goal, partial(cold, posed), _PREDICTIONS)
    for label, goal, posed in posed_grids(_SIDE):
        yield Wait(label, goal, partial(cold, posed), _PREDICTIONS, (100 / _SIDE) ** 2)
    for label, goal, posed, _ in posed_limits(200):
        yield Wait(label, goal, partial(cold, posed), _PREDICTIONS)
    for (activation, over), goal in SEARCHES.items():
        yield Wait(f"tune over {', '.join(over)}, {activation}", goal, partial(tuned, activation, over), _PREDICTIONS)
    for label, goal, spread in posed_spectra():
        yield Wait(label, goal, partial(anew, feature_spectrum, spread), _SPECTRUM)
    for loss in ("logistic", "hinge"):
        call = partial(convex_prediction, CLASSES, loss=loss, channel="sign")
        yield Wait(f"convex_prediction, {loss}, classes", 0.3, call, _CONVEX)
    for name, activation in WITHOUT_AVERAGES.items():
        call = partial(cold, [problem(activation=activation)])
        yield Wait(f"predict, {name}, new tables", 6e-3, call, _PREDICTIONS)
    yield Wait("moniri2024 errors at finite n", 8e-3, partial(finite_errors, [moniri_problem()]), _MONIRI)
    for activation in ("tanh", "relu"):
        network = partial(gs.simulate, small_network(activation), seeds=[1])
        yield Wait(f"simulate {activation}, d = 128, N = 192, n = n_step = 384", None, network, _NETWORK)


def profiled(wait: Wait) -> dict[str, Any]:
    """Return the least time of a few runs, and the share of each part."""
    wait.call()
    times, began = [], time.perf_counter()
    while len(times) < 2 or (len(times) < 5 and time.perf_counter() - began < 2):
        start = time.process_time()
        wait.call()
        times.append(time.process_time() - start)
    profiler = cProfile.Profile(time.process_time)
    profiler.enable()
    wait.call()
    profiler.disable()
    stats = pstats.Stats(profiler)
    known: dict[tuple[str, int, str], tuple[Any, ...]] = stats.stats  # type: ignore[attr-defined]
    whole: float = stats.total_tt  # type: ignore[attr-defined]
    shares = {
        word: sum(
            row[3]
            for (path, _, called), row in known.items()
            if any(path.endswith(file) and called == name for file, name in functions)
        )
        / whole
        for word, functions in wait.parts.items()
    }
    return {"name": wait.name, "goal": wait.goal, "seconds": wait.times * min(times), "shares": shares}


def start() -> dict[str, Any]:
    """Return the time of a new interpreter up to the first prediction, and what its imports are."""
    times = []
    for _ in range(5):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", FIRST_PREDICTION], check=True)
        times.append(time.perf_counter() - began)
    told = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", FIRST_PREDICTION], check=True, capture_output=True, text=True
    ).stderr
    own: dict[str, float] = dict.fromkeys(("numpy", "scipy", "gradstep"), 0.0)
    whole = 0.0
    for line in re.findall(r"import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)", told):
        whole += float(line[0])
        if (package := line[1].partition(".")[0]) in own:
            own[package] += float(line[0])
    shares = {f"importing modules of {name}": seconds / whole for name, seconds in own.items()}
    return {"name": "import and one prediction, from the shell", "goal": 0.35, "seconds": min(times), "shares": shares}


def table(rows: list[dict[str, Any]]) -> str:
    """Return the rows as Markdown: goal, time, and the shares of five per cent and more, the largest first."""
    lines = ["| wait | goal | time | over the goal | of which |", "| --- | --- | --- | --- | --- |"]
    for row in rows:
        largest = sorted(row["shares"].items(), key=lambda item: -item[1])
        shares = ", ".join(f"{word} {100 * share:.0f} %" for word, share in largest if share >= 0.05)
        goal, over = ("–", "–") if row["goal"] is None else (quantity(row["goal"], "s"), row["seconds"] / row["goal"])
        over = over if isinstance(over, str) else f"{over:.2g}"
        lines.append(f"| {row['name']} | {goal} | {quantity(row['seconds'], 's')} | {over} | {shares} |")
    return "\n".join(lines)


def main() -> None:
    """Profile everything, print the table and write the file: some three minutes."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profiles", description=__doc__)
    parser.add_argument("path", type=Path, metavar="FILE")
    path, about = parser.parse_args().path, machine()
    rows = [profiled(wait) for wait in waits()] + [start()]
    print(table(rows))
    path.write_text(json.dumps({"machine": about, "rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
