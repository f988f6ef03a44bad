"""Theory over simulation from the command line: a table with the worst z marked, and the document of `--json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradstep.cli import output
from gradstep.cli.grid import Grid
from gradstep.cli.output import number

if TYPE_CHECKING:
    from gradstep.comparison import Comparison


def print_comparison(grid: Grid, comparison: Comparison) -> None:
    """Print a row for each problem and quantity, the largest z, and what the predictions leave out."""
    axes = [axis.name for axis in grid.axes]
    header = [*axes, "quantity", "theory", "network", "standard error", "difference", "z"]
    rows: list[list[str]] = []
    marked = set()
    for index, (point, cells) in enumerate(zip(grid.points, comparison.cells, strict=True)):
        for name, cell in cells.items():
            if (worst := comparison.verdict["worst"]) and (worst["index"], worst["quantity"]) == (index, name):
                marked.add(len(rows))
            numbers = [number(cell["theory"]), number(cell["mean"]), number(cell["standard_error"], 2)]
            signed = [f"{100 * cell['relative_difference']:+.1f} %", f"{cell['z']:+.2f}"]
            rows.append([*map(number, point), name, *numbers, *("-" if "nan" in text else text for text in signed)])
    output.print_table(output.Table(header, rows, frozenset(marked)))
    places = [grid.coordinates(index) for index in range(len(grid.problems))]
    output.print_lines("", f"seeds: {seed_text(comparison.seeds)}", *comparison.notes(places))


def document(grid: Grid, comparison: Comparison) -> dict[str, Any]:
    """Return a comparison as the content of a JSON document, each problem with its coordinates."""
    content = comparison.to_dict()
    cases = enumerate(content["comparisons"])
    return content | {"comparisons": [{"coordinates": grid.coordinates(index), **case} for index, case in cases]}


def seed_text(seeds: tuple[int, ...]) -> str:
    """Return seeds in a few words."""
    if len(seeds) > 8 and seeds == tuple(range(len(seeds))):
        return f"0 to {len(seeds) - 1}"
    return ", ".join(map(str, seeds))
