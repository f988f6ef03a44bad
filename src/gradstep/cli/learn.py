"""Learning curves of people's tables from the command line: the table, three models, one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradstep.cli import output
from gradstep.cli.output import number
from gradstep.errors import InvalidInput, missing_extra

if TYPE_CHECKING:
    from gradstep.estimators.score_curve import ScoreCurve

_READERS = {".csv": "read_csv", ".parquet": "read_parquet"}
_PARTS = {"sklearn": "estimators", "pandas": "sweeps", "pyarrow": "sweeps"}
#: Columns that an error names.
_NAMED = 8
#: How pandas begins the name of a column that has none.
_UNNAMED = "Unnamed: "
#: Separators in place of commas: a table with one of them is read as one column, whose name has it.
_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}


def read_table(path: Path) -> Any:
    """Read a table of data: CSV with a line of names, or Parquet.

    Raises `InvalidInput` if a part of the package is missing, the file cannot be read, or its columns have no names of
    their own.
    """
    if any(find_spec(name) is None for name in _PARTS):
        raise missing_extra("learn", ",".join(sorted(set(_PARTS.values()))))
    import pandas as pd

    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise InvalidInput("table", str(path), f"a file whose name ends in {' or '.join(_READERS)}")
    if not path.is_file():
        raise InvalidInput("table", str(path), "a file that exists")
    try:
        frame = getattr(pd, reader)(path)
        names = [*map(str, frame.columns)]
        if reader == "read_csv":  # which gives a second column of the same name another one
            names = pd.read_csv(path, header=None, nrows=1, dtype=str).iloc[0].dropna().to_list()
    except (OSError, ValueError) as error:  # pandas and pyarrow raise kinds of these on what they cannot parse
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidInput("table", str(path), f"a table that can be read ({reason})") from None
    if len(set(names)) < len(names):
        raise InvalidInput("table", _names(sorted(names)), "columns with different names")
    if frame.shape[1] == 1 and (found := set(str(frame.columns[0])) & set(_SEPARATORS)):
        given = f"one column, {str(frame.columns[0])!r}"
        raise InvalidInput("table", given, f"columns between commas, not {_SEPARATORS[min(found)]}")
    return frame


def target_of(frame: Any, target: str, drop: Sequence[str]) -> tuple[Any, Any]:
    """Return the inputs of a data frame, without the columns to drop, and its target.

    Numbers of any kind, such as the decimals of a database, are floats in the target. Raises `InvalidInput` on names
    that no column has, a target that is dropped, has missing values or is neither numbers nor classes, infinite
    numbers, and few rows.
    """
    frame = frame.rename(columns=str)
    for field, name in (("target", target), *(("drop", name) for name in drop)):
        if name not in frame.columns:
            raise InvalidInput(field, name, f"one of the columns {_names(list(frame.columns))}")
    if target in drop:
        raise InvalidInput("drop", target, "columns other than the target, which is no input anyway")
    X, y = frame.drop(columns=[target, *drop]), frame[target]
    if X.shape[1] == 0:
        raise InvalidInput("table", target, "a table with other columns than the target")
    if y.isna().any():
        raise InvalidInput("table", f"missing values in {target!r}", "a target in every row: remove the other rows")
    for name, column in (*X.items(), (target, y)):
        if column.dtype.kind == "f" and column.abs().max() == inf:
            raise InvalidInput("table", f"infinite values in {name!r}", "finite numbers: remove these rows")
    from gradstep.estimators.columns import is_categorical
    from gradstep.estimators.score_curve import FEWEST_ROWS

    try:
        text = is_categorical(y)
    except ValueError as error:
        raise InvalidInput("target", str(error), "a column of numbers or classes") from None
    if y.dtype.kind == "O" and not text and not set(map(type, y)) <= {bool}:
        y = y.astype(float)
    if len(y) < FEWEST_ROWS:
        rows = f"{len(y)} row{'s' * (len(y) != 1)}"
        raise InvalidInput("table", rows, f"at least {FEWEST_ROWS} rows for a learning curve")
    return X, y


def input_notes(X: Any) -> list[str]:
    """Say what columns of inputs may have been meant as something else, one sentence each.

    They are columns without a name, which often number the rows, and text that hardly repeats, of which the estimators
    make one rare category: numbers written as text, dates, names.
    """
    import pandas as pd

    from gradstep.estimators.columns import RARE, is_categorical

    notes = []
    for name, column in X.items():
        if name.startswith(_UNNAMED):
            notes.append(f"{name!r} has no name in the table: if it numbers the rows, add --drop {name!r}.")
        present = column.dropna()
        if column.dtype.kind in "biufmMc" or not is_categorical(column) or not len(present):
            continue
        rare = present[present.map(present.value_counts()).astype(int) < RARE]
        if 2 * len(rare) <= len(present):
            continue
        number = pd.to_numeric(rare.astype(str).str.replace(",", ""), errors="coerce").notna()
        words = rare[~number]
        kind = f"such as {rare.iloc[0]!r}" if len(words) == len(rare) else "numbers written as text"
        if 0 < len(words) < len(rare):
            kind = f"numbers, but for {len(words)} row{'s' * (len(words) > 1)} such as {words.iloc[0]!r}"
        told = f"{name!r} is text that hardly repeats ({kind}): {len(rare)} of {len(X)} rows are one rare category."
        notes.append(f"{told} Make numbers of it, or leave it out.")
    return notes


def holds_classes(y: Any, *, given: bool) -> bool:
    """Return whether a target holds classes: text, truth values, and numbers if that is `given`.

    Raises `InvalidInput` if there are more classes than half of the rows: numbers that are written as text, or a name
    for each row.
    """
    if not given and y.dtype.kind in "iuf":
        return False
    number = y.nunique()
    if 2 * number > len(y):
        allowed = "numbers, or classes that have two rows or more on average"
        raise InvalidInput("target", f"{y.name!r} with {number} different values in {len(y)} rows", allowed)
    return True


def numbers_of_rows(text: str, rows: int) -> list[float]:
    """Return the numbers of rows that a text says, ``"100,200"`` or ``"50:800:5"``: up to twice those looked at.

    Raises `InvalidInput` on text that is none of these, and on numbers out of range, before any work.
    """
    from gradstep.learning.given import checked_sizes
    from gradstep.ranges import values_of

    numbers = values_of("n", text)
    if not all(isinstance(value, int | float) for value in numbers):
        raise InvalidInput("n", text, "numbers of rows, 100,200 or 50:800:5, not multiples of a dimension")
    try:
        return [float(value) for value in checked_sizes(numbers, rows)]
    except InvalidInput as error:
        raise InvalidInput("n", text, error.allowed) from None


def _names(columns: Sequence[str]) -> str:
    shown = ", ".join(map(repr, columns[:_NAMED]))
    return shown if len(columns) <= _NAMED else f"{shown} and {len(columns) - _NAMED} more"


def learn_table(
    X: Any, y: Any, *, classes: bool, width: int, seed: int, n: Sequence[float] | None, max_rows: int
) -> dict[str, ScoreCurve]:
    """Estimate the curves of one step, random features and plain ridge, with progress on standard error.

    Raises `InvalidInput` on what the estimators refuse. Raises `NotConverged` as `gradstep.learning_curve` does.
    """
    from gradstep.estimators.alternatives import compared_curves

    try:
        with output.progress("models") as report:
            return compared_curves(
                X,
                y.to_numpy(),
                classes=classes,
                width=width,
                random_state=seed,
                n=n,
                max_rows=max_rows,
                progress=report,
            )
    except InvalidInput:
        raise
    except ValueError as error:  # of scikit-learn's checks
        raise InvalidInput("table", str(error), "a table that the estimators can fit") from None


def scores_table(curves: Mapping[str, ScoreCurve]) -> output.Table:
    """Return a row for each number of rows: error over variance, with its standard error, and best penalty."""
    first = next(iter(curves.values()))
    header, rows = ["n"], [[str(n)] for n in first.n]
    for name, curve in curves.items():
        header += [f"{name}: error", "ridge"] + (["right"] if curve.accuracy is not None else [])
        for place, (row, n, best) in enumerate(zip(rows, curve.n, curve.best, strict=True)):
            score = curve.at(int(n))
            error = type(score)(1 - score.value, score.standard_error)
            row += [str(error), number(float(curve.best_ridge[place]), 3)]
            if curve.accuracy is not None:
                row.append(number(float(curve.accuracy[place, best]), 3) if n <= curve.rows else "-")
    return output.Table(header, rows)


def notes_of(curves: Mapping[str, ScoreCurve]) -> list[str]:
    """Return what to know before relying on the numbers, each sentence once, with the models that it is about."""
    models: dict[str, list[str]] = {}
    for name, curve in curves.items():
        for note in curve.caveats:
            models.setdefault(note, []).append(name)
    return [f"{', '.join(names)}: {note}" for note, names in models.items()]
