"""Print one table of timed comparisons: ``make bench``, or ``make bench ARGS="theory page --json FILE"``.

Every row is a ratio measured in this run, next to its baseline. Nothing fails here: a row says whether its target is
met. Wall clocks on a shared machine vary; look at a row that misses narrowly more than once.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

Row = dict[str, Any]

PARTS = ("theory", "waits", "page", "simulation", "sweeps", "estimators")
#: Measured only if it is named: on a machine with a graphics card.
NAMED = ("gpu",)
#: Left out where it has to be quick.
SLOW = ("page", "simulation")


def part_of(name: str) -> Any:
    """Return the module of a part: some need packages that a machine with a card may lack."""
    return importlib.import_module(f"benchmarks.bench_{name}")


def simulation_rows(*, memory: bool) -> list[Row]:
    """Return the rows of the simulation, whose names carry their baseline."""
    rows = []
    for line in part_of("simulation").run(memory=memory):
        name, _, baseline_name = line["name"].partition("; baseline: ")
        rows.append({**line, "name": name, "baseline_name": baseline_name, "better": "lower"})
    return rows


def met(line: Row) -> bool | None:
    """Return whether a row meets its target; None where it has none."""
    if line["target"] is None:
        return None
    return bool(line["ratio"] >= line["target"] if line["better"] == "higher" else line["ratio"] <= line["target"])


def quantity(value: float, unit: str) -> str:
    """Write a value with its unit; seconds in the unit that suits them."""
    if unit == "s":
        scale, name = next(((s, n) for s, n in ((1.0, "s"), (1e3, "ms")) if value * s >= 1), (1e6, "us"))
        return f"{value * scale:.3g} {name}"
    if unit == "1/s":
        return f"{value:,.0f}/s"
    return f"{value:.3g} {unit}".rstrip()


def cells(line: Row) -> list[str]:
    """Return the printed cells of a row."""
    sign = ">=" if line["better"] == "higher" else "<="
    verdict = {True: "met", False: "NOT MET", None: ""}[met(line)]
    ratio = f"{line['ratio']:,.0f}" if line["ratio"] >= 1000 else f"{line['ratio']:.3g}"
    least = line.get("least")
    return [
        line["name"],
        quantity(line["measured"], line["unit"]) + (f", least {quantity(least, line['unit'])}" if least else ""),
        f"{quantity(line['baseline'], line['unit'])} ({line['baseline_name']})",
        ratio,
        "" if line["target"] is None else f"{sign} {line['target']:g}",
        verdict,
    ]


def table(rows: list[Row]) -> str:
    """Return the rows as a Markdown table with aligned columns."""
    lines = [["name", "measured", "baseline", "ratio", "target", "verdict"], *map(cells, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    text = ["| " + " | ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) + " |" for line in lines]
    text.insert(1, "| " + " | ".join("-" * width for width in widths) + " |")
    return "\n".join(text)


def machine() -> dict[str, Any]:
    """Return what a reader needs to judge the times."""
    return {
        "processors": os.cpu_count(),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "load_before": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
    }


def document(about: dict[str, Any], rows: list[Row]) -> str:
    """Return the rows as JSON, with the machine."""
    content = {"machine": about, "rows": [{**line, "met": met(line)} for line in rows]}
    return json.dumps(content, indent=1) + "\n"


def main(arguments: list[str] | None = None) -> None:
    """Measure, print the table, and write it as JSON where asked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"which of {', '.join(PARTS)} (default: all), {', '.join(NAMED)}"
    )
    parser.add_argument("--quick", action="store_true", help="no simulation and no page, smaller grids, fewer tables")
    parser.add_argument("--no-memory", action="store_true", help="leave out the 200,000-sample row (about 90 s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the rows to FILE")
    options = parser.parse_args(arguments)
    about = machine()
    began = time.perf_counter()
    measures: dict[str, Callable[[], Iterable[Row]]] = {
        "theory": lambda: part_of("theory").run(quick=options.quick),
        "waits": lambda: part_of("waits").run(quick=options.quick),
        "sweeps": lambda: part_of("sweeps").run_all(quick=options.quick),
        "estimators": lambda: part_of("estimators").run_all(quick=options.quick),
        "page": lambda: part_of("app").run(),
        "simulation": lambda: simulation_rows(memory=not options.no_memory),
        "gpu": lambda: part_of("gpu").run(),
    }
    rows: list[Row] = []
    for part in options.parts or PARTS:
        if part not in measures:
            parser.error(f"part {part!r}: one of {', '.join(measures)}")
        if options.quick and part in SLOW:
            continue
        print(part, "...", file=sys.stderr, flush=True)
        for line in measures[part]():
            rows.append(line)
            about["seconds"] = round(time.perf_counter() - began, 1)
            if options.json:  # after each row, as what is to come may be stopped
                options.json.write_text(document(about, rows), encoding="utf-8")
    print(table(rows))
    print("\n" + ", ".join(f"{name} {value}" for name, value in about.items()))


if __name__ == "__main__":
    main()
