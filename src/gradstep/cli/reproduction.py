"""The papers' figures from the command line: run, judge, write the report."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import typer

from gradstep.cli import output
from gradstep.cli.failure import interrupted
from gradstep.cli.termination import terminable
from gradstep.errors import InvalidInput

if TYPE_CHECKING:
    from gradstep.papers.figure import Figure, FigureResult

FAILED = 1


def reproduce(
    preset: str,
    names: Sequence[str] | None,
    paper: str | None,
    every: bool,
    out: Path,
    workers: int | None,
    as_json: bool,
) -> None:
    """Run the figures asked for and write the report; the last line printed is its path.

    Raises `InvalidInput` on an unknown preset, figure or paper, a choice beside all of them, and a directory that
    cannot be written. Raises `typer.Exit` with code 1 if a figure misses its criterion, 130 if interrupted, 143 on
    SIGTERM.
    """
    from gradstep.papers.figure import PRESETS, run_figures
    from gradstep.papers.report import write_report, write_section
    from gradstep.problem import CONVENTION

    if preset not in PRESETS:
        raise InvalidInput("preset", preset, ", ".join(PRESETS))
    started = monotonic()
    figures = _chosen(names, paper, every)
    cache = out / "cache"
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput("out", str(out), f"a directory that can be written ({error.strerror})") from None
    try:
        with terminable(), output.progress("figures") as report:
            finish = partial(write_section, out=out)
            sections = list(run_figures(figures, preset, finish, cache=cache, workers=workers, progress=report))
        path = write_report(sections, out, preset, monotonic() - started)
    except KeyboardInterrupt as error:
        interrupted(error, f"the same command goes on from what is finished in {cache}", as_json)
    except OSError as error:
        raise InvalidInput("out", str(out), f"a directory that can be written ({error.strerror})") from None
    summaries = [_summary(section.result) for section in sections]
    passed = all(summary["passed"] for summary in summaries)
    if as_json:
        content = {"preset": preset, "passed": passed, "figures": summaries, "report": str(path)}
        output.print_document("reproduce", convention=CONVENTION, **content)
    else:
        output.print_lines(f"convention: {CONVENTION}", "")
        rows = [
            [
                str(summary["row"]),
                str(summary["name"]),
                str(summary["paper"]),
                str(summary["comparisons"]),
                *(output.number(summary[name], 3) for name in ("largest_z", "median_z")),
                str(summary["checks"]),
                "passed" if summary["passed"] else "FAILED",
            ]
            for summary in summaries
        ]
        header = ["row", "figure", "paper", "z-scores", "largest |z|", "median |z|", "checks", "criterion"]
        failed = frozenset(index for index, summary in enumerate(summaries) if not summary["passed"])
        output.print_table(output.Table(header, rows, failed))
        output.print_lines("", str(path))
    if not passed:
        raise typer.Exit(FAILED)


def list_figures(names: Sequence[str] | None, paper: str | None, as_json: bool) -> None:
    """Print the figures that there are, or those of a choice.

    Raises `InvalidInput` on an unknown figure or paper.
    """
    figures = _chosen(names, paper, every=not names and paper is None)
    if as_json:
        told = ("row", "name", "paper", "headline", "title", "stated")
        described = [{key: getattr(figure, key) for key in told} for figure in figures]
        output.print_document("reproduce", figures=described)
        return
    rows = [[f.row, f.name, f.paper, "yes" if f.headline else "", f.title] for f in figures]
    output.print_table(output.Table(["row", "figure", "paper", "headline", "title"], rows))


def _chosen(names: Sequence[str] | None, paper: str | None, every: bool) -> list[Figure]:
    """Return the figures named, or a paper's, or all, or by default the headline figures."""
    from gradstep.papers.figure import PAPERS, load_figures

    if every and (names or paper is not None):
        raise InvalidInput("all", ", ".join(names or (paper or "",)), "--all alone, without --figure and --paper")
    if paper is not None and paper not in PAPERS:
        raise InvalidInput("paper", paper, ", ".join(PAPERS))
    figures = load_figures(names or None)
    if paper is not None:
        figures = [figure for figure in figures if figure.paper == paper]
        if not figures:
            allowed = ", ".join(figure.name for figure in load_figures(None) if figure.paper == paper)
            raise InvalidInput("figure", ", ".join(names or ()), f"figures of {paper}: {allowed}")
    elif not names and not every:
        figures = [figure for figure in figures if figure.headline]
    return figures


def _summary(result: FigureResult) -> dict[str, Any]:
    checks = result.outcome.checks
    return {
        "row": result.figure.row,
        "name": result.figure.name,
        "paper": result.figure.paper,
        "comparisons": len(result.outcome.comparisons),
        "largest_z": result.verdict.largest_z,
        "median_z": result.verdict.median_z,
        "checks": f"{sum(c.passed for c in checks)}/{len(checks)}",
        "passed": result.verdict.passed,
    }
