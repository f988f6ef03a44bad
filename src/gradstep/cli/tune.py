"""Tuned parameters from the command line: what to tune, where to look, the certificate in words."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING

from gradstep.cli import output
from gradstep.cli.compute import naming_the_size
from gradstep.cli.grid import read_pairs
from gradstep.cli.output import number
from gradstep.errors import InvalidInput
from gradstep.theory.caveats import caveat_lines

if TYPE_CHECKING:
    from gradstep.grid import Grid
    from gradstep.theory.tuning import Tuned

#: Parameter to the axes of a grid whose values it would overwrite, in every convention.
_AXES = {"ridge": ("ridge", "lam"), "eta": ("eta", "eta_tilde", "c"), "damping": ("damping",)}
#: Discretisation errors that are worth a word.
_VISIBLE = 1e-6
#: Seconds without a word about one problem.
_QUIET = 2.0


def tune_grid(grid: Grid, over: str, bounds: Sequence[str]) -> list[Tuned]:
    """Tune every problem of a grid over names with commas, within bounds ``NAME=LOW:HIGH``.

    Raises `InvalidInput` on an axis that is tuned as well, on bounds that cannot be read, and as `gradstep.tune` does.
    Raises `NotConverged` as `gradstep.tune` does.
    """
    from gradstep.theory.tuning import tune

    names = [name.strip() for name in over.split(",")]
    for axis in grid.axes:
        if axis.name in [own for name in names for own in _AXES.get(name, ())]:
            raise InvalidInput(axis.head, axis.texts, "one value, or none: it is tuned")
    within = {name: _bounds(name, text) for name, text in read_pairs(bounds, "bounds", "ridge=0.1:10").items()}
    total = len(grid.problems)
    tuned = []
    with output.progress("problems tuned") as report, naming_the_size(grid):
        for done, problem in enumerate(grid.problems):
            begun = monotonic()

            def count(made: int, done: int = done, begun: float = begun) -> None:
                if monotonic() - begun > _QUIET:
                    report(done, total, f"problems tuned ({made} predictions for the next)")

            tuned.append(tune(problem, over=names, bounds=within, progress=count))
            if total > 1:
                report(done + 1, total, "problems tuned")
    return tuned


def _bounds(name: str, text: str) -> tuple[float, float]:
    try:
        low, high = map(float, text.split(":"))
    except ValueError:
        raise InvalidInput(f"bounds of {name}", text, "LOW:HIGH, for instance 1e-3:1e3") from None
    return low, high


def print_tuned(grid: Grid, tuned: Sequence[Tuned]) -> None:
    """Print one optimum with its certificate, or one line for each of several."""
    if len(tuned) == 1:
        _print_one(tuned[0])
        return
    names = [parameter.name for parameter in tuned[0].parameters]
    header = [*grid.heads, *(f"best {_label(n)}" for n in names), "test error", "as given"]
    rows = [
        [
            *cells,
            *(number(p.value) + ("*" if p.meaning else "") for p in best.parameters),
            number(best.prediction.test_error),
            number(best.before.test_error),
        ]
        for cells, best in zip(grid.cells, tuned, strict=True)
    ]
    output.print_table(output.Table(header, rows, index=len(grid.heads)))
    notes = dict.fromkeys(p.meaning for best in tuned for p in best.parameters if p.meaning)
    output.print_wrapped("", *(f"* {note}" for note in notes), *_footer(tuned))


def _print_one(best: Tuned) -> None:
    output.print_table(best.table())
    before, after = best.before.test_error, best.prediction.test_error
    method = f"method: {best.prediction.method}; {best.evaluations} predictions"
    output.print_wrapped("", f"test error: {after:.6g}, from {before:.6g} as given", *best.notes(), method)


def _label(name: str) -> str:
    return "n_step" if name == "split" else name


def _footer(tuned: Sequence[Tuned]) -> list[str]:
    methods = ", ".join(dict.fromkeys(best.prediction.method for best in tuned))
    lines = [f"method: {methods}; {sum(best.evaluations for best in tuned)} predictions"]
    worst = max(best.discretisation for best in tuned)
    if worst > _VISIBLE:
        lines.append(f"largest relative discretisation error of the theory at an optimum: {worst:.0e}")
    return lines + caveat_lines([best.prediction for best in tuned])
