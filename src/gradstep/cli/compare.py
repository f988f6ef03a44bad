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
    emphasised = set()
    for index, point in enumerate(grid.points):
        for name, cell in comparison.cells[index].items():
            if (index, name) == comparison.worst:
                emphasised.add(len(rows))
            numbers = [number(cell["theory"]), number(cell["mean"]), number(cell["standard_error"], 2)]
            signed = [f"{100 * cell['relative_difference']:+.1f} %", f"{cell['z']:+.2f}"]
            rows.append(
                [*map(number, point), name, *numbers, *("-" if text.startswith("+nan") else text for text in signed)]
            )
    output.print_table(output.Table(header, rows, frozenset(emphasised)))
    output.print_lines("", f"seeds: {seed_text(comparison.seeds)}")
    output.print_lines(*filter(None, [comparison.summary(grid.coordinates)]), *comparison.caveats())


def document(grid: Grid, comparison: Comparison) -> dict[str, Any]:
    """Return a comparison as the content of a JSON document, each problem with its coordinates."""
    content = comparison.to_dict()
    for index, case in enumerate(content["comparisons"]):
        content["comparisons"][index] = {"coordinates": grid.coordinates(index), **case}
    return content


def seed_text(seeds: tuple[int, ...]) -> str:
    """Return seeds in a few words."""
    if len(seeds) > 8 and seeds == tuple(range(len(seeds))):
        return f"0 to {len(seeds) - 1}"
    return ", ".join(map(str, seeds))
