"""Sweeps from the command line: settings file in, results on disk, counts and datasets out."""

from __future__ import annotations

import math
import re
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

import typer

from gradstep.cli import output
from gradstep.cli.failure import interrupted
from gradstep.cli.failure import report as report_failure
from gradstep.cli.grid import read_toml
from gradstep.cli.termination import terminable
from gradstep.errors import InvalidInput
from gradstep.problem import Problem
from gradstep.ranges import values_of

if TYPE_CHECKING:
    from gradstep.sweeps import Design, State

FAILED = 3

#: Keys of the ``[run]`` table.
_RUN = ("seeds", "first_seed", "paired", "theory", "device", "dtype")
#: Seconds of the past that the rate and the time left are estimated from.
_WINDOW = 60.0


def read_design(path: Path, changes: Mapping[str, Any]) -> Design:
    """Read a settings file.

    The file is TOML with the tables ``[problem]`` (parameters in any paper's convention), ``[over]`` (parameter to a
    list of values, or a range such as ``"500:4000:12"``), ``[[zipped]]`` (parameters that vary together) and ``[run]``.
    `changes` are options of the command line that take the place of the file's ``[run]``. Raises `InvalidInput` on a
    file that cannot be read, unknown tables or keys, and as `gradstep.sweeps.design_of` does.
    """
    from gradstep.sweeps import design_of

    settings = read_toml(path)
    tables: dict[str, Any] = {"problem": {}, "over": {}, "zipped": [], "run": {}}
    for name, value in settings.items():
        if name == "zipped" and isinstance(value, dict):
            raise InvalidInput("settings", "[zipped]", "[[zipped]], in two brackets: there may be several such tables")
        if name not in tables or type(value) is not type(tables[name]):
            raise InvalidInput("settings", name, "the tables [problem], [over], [[zipped]] and [run]")
        tables[name] = value
    for name in tables["run"]:
        if name not in _RUN:
            raise InvalidInput("run", name, ", ".join(_RUN))
    for group in tables["zipped"]:
        if not isinstance(group, dict):
            raise InvalidInput("zipped", group, "tables: [[zipped]], then one line a parameter")
    Problem.check_names(tables["problem"])  # before the values, which are read by their names
    given = {name: value for name, value in changes.items() if value is not None}
    problem = {name: _value(name, value) for name, value in tables["problem"].items()}
    return design_of(problem, tables["over"], zipped=tables["zipped"], **{**tables["run"], **given})


def _value(name: str, value: Any) -> Any:
    """Return a value that all points share; text may be a step size or a multiple of the dimension."""
    if not isinstance(value, str):
        return value
    values = values_of(name, value)
    if len(values) != 1:
        raise InvalidInput(name, value, "one value under [problem]; ranges are for [over]")
    return values[0]


def read_shard(text: str | None) -> tuple[int, int]:
    """Read ``i/N``.

    Raises `InvalidInput` on anything else; `gradstep.sweeps.run` judges the numbers.
    """
    if text is None:
        return 0, 1
    match = re.fullmatch(r"(\d{1,7})/(\d{1,7})", text.strip())
    if match is None:
        raise InvalidInput("shard", text, "i/N with 0 <= i < N, for instance 3/16")
    return int(match[1]), int(match[2])


def run_sweep(
    design: Design,
    out: Path,
    *,
    workers: int | None,
    cluster: str | None,
    shard: str | None,
    until_se: float | None,
    max_seeds: int,
    command: str,
    as_json: bool,
) -> None:
    """Run a design; say how to go on if it is interrupted.

    Raises `InvalidInput` as `gradstep.sweeps.run` does. Raises `typer.Exit` with code 3 if results failed, 130 if
    interrupted, 143 on SIGTERM.
    """
    from gradstep.sweeps import Cluster, Executor, Processes, run

    if cluster is not None and not cluster.strip():
        raise InvalidInput("cluster", cluster, "tcp://host:port or local")
    # Processes even where one is enough: this one stays free to hear Ctrl-C.
    place: Callable[[], Executor] = (
        (lambda: Processes(workers)) if cluster is None else (lambda: Cluster(cluster, workers))
    )
    try:
        with terminable(), _progress() as report:
            state = run(
                design,
                out,
                executor=place,
                shard=read_shard(shard),
                until_se=until_se,
                max_seeds=max_seeds,
                report=report,
            )
    except KeyboardInterrupt as error:
        interrupted(error, f"what is finished is in {out}; go on with: {command}", as_json)
    worst = None if math.isnan(state.worst_z) else state.worst_z
    if as_json:
        cost = None if math.isnan(state.precision_cost) else state.precision_cost
        document = {
            "done": state.done,
            "total": state.total,
            "failed": state.failed,
            "worst_z": worst,
            "precision_cost": cost,
        }
        output.print_document("sweep", results=str(out), **document)
    else:
        distance = "" if worst is None else f"; largest |z| of the test error {worst:.2f}"
        output.print_lines(f"{state.done}/{state.total} tasks{distance}")
        if not math.isnan(state.precision_cost):
            output.print_lines(f"float32 changes the test error by {state.precision_cost:.1e} (relative, one network)")
        output.print_lines(str(out))
    if state.failed:
        said = f"{state.failed} results failed; the first: {state.first_failure}"
        report_failure("TaskFailed", said, FAILED, as_json)
        raise typer.Exit(FAILED)


@contextmanager
def _progress() -> Iterator[Callable[[State], None]]:
    """Show rate, time left and the worst |z|: a bar on a terminal, otherwise a line every ten seconds."""
    past: deque[tuple[float, int]] = deque()

    def pace(state: State) -> tuple[float, float]:
        now = monotonic()
        past.append((now, state.done))
        while past[-1][0] - past[0][0] > _WINDOW:
            past.popleft()
        rate = (past[-1][1] - past[0][1]) / max(past[-1][0] - past[0][0], 1e-9) if len(past) > 1 else 0.0
        return rate, (state.total - state.done) / rate if rate > 0 else math.nan

    def text(state: State) -> str:
        rate, left = pace(state)
        parts = [f"{state.done}/{state.total}", f"{rate:.3g} tasks/s" if rate else "", _duration(left)]
        if math.isfinite(state.worst_z):
            parts.append(f"worst |z| {state.worst_z:.2f}")
        if state.failed:
            parts.append(f"{state.failed} failed")
        return "  ".join(part for part in parts if part)

    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        with Progress(BarColumn(), TextColumn("{task.description}"), console=Console(stderr=True)) as bar:
            task = bar.add_task("starting", total=None)
            yield lambda state: bar.update(task, completed=state.done, total=state.total, description=text(state))
        return
    last = -math.inf

    def say(state: State) -> None:
        nonlocal last
        line = text(state)
        if state.done >= state.total or monotonic() - last >= 10:
            last = monotonic()
            print(line, file=sys.stderr, flush=True)

    yield say


def _duration(seconds: float) -> str:
    if not math.isfinite(seconds):
        return ""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d} left"
