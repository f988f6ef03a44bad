"""The papers' figures from the command line: run, judge, write the report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import Any

import typer

from gradstep.cli import output
from gradstep.errors import InvalidInput

PRESETS = ("quick", "standard", "paper")
FAILED = 1
INTERRUPTED = 130


def reproduce(
    preset: str, names: Sequence[str] | None, paper: str | None, out: Path, workers: int | None, as_json: bool
) -> None:
    """Run the figures asked for and write the report; the last line printed is its path.

    Raises
    ------
    InvalidInput
        On an unknown preset, figure or paper, and a directory that cannot be written.
    typer.Exit
        With code 1 if a figure misses its criterion, 130 if interrupted.
    """
    if preset not in PRESETS:
        raise InvalidInput("preset", preset, ", ".join(PRESETS))
    from gradstep.papers.figure import load_figures, run_figure
    from gradstep.papers.report import write_report
    from gradstep.problem import CONVENTION

    started = monotonic()
    figures = [f for f in load_figures(names or None) if paper is None or f.paper == paper]
    if not figures:
        known = sorted({f.paper for f in load_figures(None)})
        raise InvalidInput("paper", paper, ", ".join(known))
    cache = out / "cache"
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput("out", str(out), f"a directory that can be written ({error.strerror})") from None
    results = []
    try:
        with output.progress("figures") as report:
            for figure in figures:

                def within(done: int, total: int, name: str = figure.name) -> None:
                    report(done, total, name)

                results.append(run_figure(figure, preset, cache=cache, workers=workers, progress=within))
        path = write_report(results, out, preset, monotonic() - started)
    except KeyboardInterrupt:
        typer.echo(f"interrupted; the same command goes on from what is finished in {cache}", err=True)
        raise typer.Exit(INTERRUPTED) from None
    except OSError as error:
        raise InvalidInput("out", str(out), f"a directory that can be written ({error.strerror})") from None
    summaries = [_summary(figure.name, figure.paper, result) for figure, result in zip(figures, results, strict=True)]
    passed = all(summary["passed"] for summary in summaries)
    if as_json:
        output.print_json(
            {
                "command": "reproduce",
                "convention": CONVENTION,
                "versions": output.versions(),
                "preset": preset,
                "passed": passed,
                "figures": summaries,
                "report": str(path),
            }
        )
    else:
        output.print_lines(f"convention: {CONVENTION}", "")
        rows = [
            [
                str(summary["name"]),
                str(summary["paper"]),
                str(summary["comparisons"]),
                output.number(summary["worst_z"], 3),
                str(summary["beyond_three"]),
                "passed" if summary["passed"] else "FAILED",
            ]
            for summary in summaries
        ]
        header = ["figure", "paper", "z-scores", "worst |z|", "beyond 3", "criterion"]
        failed = frozenset(index for index, summary in enumerate(summaries) if not summary["passed"])
        output.print_table(output.Table(header, rows, failed))
        output.print_lines("", str(path))
    if not passed:
        raise typer.Exit(FAILED)


def _summary(name: str, paper: str, result: Any) -> dict[str, Any]:
    sizes = [abs(float(z)) for z in result.z_scores if math.isfinite(z)]
    return {
        "name": name,
        "paper": paper,
        "comparisons": len(sizes),
        "worst_z": max(sizes, default=math.nan),
        "beyond_three": sum(z > 3 for z in sizes),
        "passed": bool(result.passed),
    }
