"""Whether a fit can be held in memory, before any work."""

from __future__ import annotations

from gradstep.memory import check_fits

__all__ = ["check_memory"]


def check_memory(width: int, inputs: int, outputs: int, rows: int) -> None:
    """Refuse widths for which the largest arrays of a fit do not fit in memory together.

    Parameters
    ----------
    width, inputs, outputs : int
    rows : int
        Rows of the ridge fit; zero where there is none.

    Raises
    ------
    InvalidInput
    """
    # The first layer before and after the step with its gradient, and its readout; then features, centred features and
    # their projections where there are fewer rows than neurons, otherwise the scatter matrix with its factors.
    needed = 8.0 * width * (3 * inputs + outputs + 3 * min(rows, width))
    check_fits(width, needed, f"{rows} rows, {inputs} inputs" if rows else f"{inputs} inputs")
