"""Columns of a data frame as numbers: categories become columns of zeros and ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, time, timedelta
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.validation import check_array

from gradstep.errors import InvalidInput

__all__ = [
    "RARE",
    "Columns",
    "check_dense",
    "check_frame",
    "check_names",
    "check_numbers",
    "check_unmasked",
    "is_categorical",
    "is_number",
    "refuse_dates",
]

#: Levels with fewer rows than this share one column.
RARE = 5
#: Columns of one categorical column at most.
_LEVELS = 50
_DATES = (date, time, timedelta, np.datetime64, np.timedelta64)


def check_dense(X: Any) -> None:
    """Refuse a sparse matrix, a frame that is not in memory, and a table of Arrow, and say what to use.

    Raises `TypeError`.
    """
    if hasattr(X, "tocsr"):
        raise TypeError(
            "Sparse data was passed for X, but dense data is required: the standardisation subtracts the mean of every "
            "column, which fills a sparse matrix. Use X.toarray(), or reduce X first, for example with "
            "sklearn.decomposition.TruncatedSVD."
        )
    if hasattr(X, "collect_schema") and hasattr(X, "collect"):
        raise TypeError("A lazy frame was passed for X, whose rows are read several times: use X.collect().")
    if hasattr(X, "column_names") and hasattr(X, "to_pandas"):
        raise TypeError("A table of Arrow was passed for X: use X.to_pandas(), or polars.from_arrow(X).")


def check_unmasked(name: str, values: Any) -> None:
    """Refuse a masked array that masks some of its values: NumPy would read what is behind the mask.

    Raises `TypeError`.
    """
    if np.ma.is_masked(values):
        raise TypeError(
            f"{name} is a masked array, whose masked values would be read like the others: fill them, for example with "
            "X.filled(np.nan), or leave their rows out."
        )


def check_names(X: Any) -> None:
    """Refuse a data frame with names of which some are text and some are not: scikit-learn compares all or none.

    Raises `InvalidInput`.
    """
    names = list(getattr(X, "columns", ()))
    kinds = set(map(type, names))
    if str in kinds and len(kinds) > 1:
        allowed = "names that are all text, or none of which is text: X.columns = X.columns.astype(str)"
        raise InvalidInput("columns of X", names, allowed, "of which only some are text")


def check_frame(X: Any) -> None:
    """Refuse what is no data frame, where the fit had one with categories.

    Raises `TypeError`.
    """
    if not hasattr(X, "columns"):
        raise TypeError(
            f"X is of type {type(X).__name__}, but the fit had a data frame with categories: use a data frame with the "
            "same columns."
        )


def check_numbers(X: Any, numbers: Sequence[str] | None) -> None:
    """Refuse a data frame with text or categories where the fit had numbers, and name the column.

    Nothing is checked if `X` is no data frame. `numbers` are the names of the columns that held numbers in the fit, by
    default all; those that `X` lacks are not checked. Raises `ValueError`.
    """
    columns = getattr(X, "columns", ())
    for name in columns if numbers is None else numbers:
        if name in columns and is_categorical(X[name]):
            raise ValueError(f"Column {name!r} of X holds text or categories, but held numbers in the fit.")


def is_categorical(column: Any) -> bool:
    """Return whether a column of a data frame holds categories: text, or a categorical type.

    Numbers that are written as text are text, as they are for labels: otherwise the rows of the fit would decide.
    Raises `ValueError` if it holds dates or durations, for which there is no obvious code, complex numbers, or lists.
    """
    if str(column.dtype).startswith(("category", "Categorical", "Enum")):
        return True
    values = np.asarray(column)
    kinds = _kinds(values)
    if values.dtype.kind == "c" or any(issubclass(kind, complex | np.complexfloating) for kind in kinds):
        raise ValueError(f"Column {column.name!r} holds complex numbers; give their parts columns of their own.")
    if values.ndim > 1 or any(kind.__hash__ is None for kind in kinds):
        raise ValueError(f"Column {column.name!r} holds lists or records; give each of their parts a column.")
    refuse_dates(f"Column {column.name!r}", values)
    if values.dtype.kind != "O":
        return values.dtype.kind not in "biuf"
    return not all(hasattr(kind, "__float__") and not issubclass(kind, str | bytes) for kind in kinds)


def refuse_dates(name: str, values: NDArray[Any]) -> None:
    """Raise `ValueError` if values are dates or durations, for which there is no obvious number."""
    dated = any(issubclass(kind, _DATES) or kind.__name__ == "Period" for kind in _kinds(values))
    if dated or values.dtype.kind in "mM":
        told = "holds dates or durations; make numbers of them first, for example days since the first one."
        raise ValueError(f"{name} {told}")


def _kinds(values: NDArray[Any]) -> set[type]:
    """Return the types of Python's objects among values."""
    return {type(value) for value in values.flat if not is_missing(value)} if values.dtype.kind == "O" else set()


@dataclass(frozen=True)
class Columns:
    """A code for the columns of a data frame some of which are categorical.

    Every category becomes a column of zeros and ones, missing values a category of their own. Categories with fewer
    than five rows share one column, and with more than fifty categories the rarest do. A category that was not in the
    fit counts as rare, and is NaN in all columns of its own if none is rare.
    """

    #: Names of the columns of each kind.
    numbers: tuple[str, ...]
    categories: tuple[str, ...]
    encoder: OneHotEncoder  #: Fitted to the categorical columns.
    names: tuple[str, ...]  #: Names of the columns of the code.
    source: NDArray[np.intp]  #: For each of them the place of its column in the data frame.

    @classmethod
    def of(cls, X: Any) -> Self | None:
        """Find the code of a data frame; None if X is none, or all of its columns are numbers.

        Raises `ValueError` if two columns have one name, or a column holds neither numbers nor categories.
        """
        names = list(getattr(X, "columns", ()))
        if again := [name for place, name in enumerate(names) if name in names[:place]]:
            raise ValueError(f"Several columns of X have the name {again[0]!r}; give every column a name of its own.")
        categories = tuple(name for name in names if is_categorical(X[name]))
        if not categories:
            return None
        numbers = tuple(name for name in names if name not in categories)
        encoder = OneHotEncoder(
            min_frequency=RARE, max_categories=_LEVELS, handle_unknown="infrequent_if_exist", sparse_output=False
        )
        encoder.set_output(transform="default").fit(_objects(X, categories))
        levels = encoder.get_feature_names_out([str(name) for name in categories])
        source = [names.index(name) for name in numbers]
        for name, known, rare in zip(categories, encoder.categories_, encoder.infrequent_categories_, strict=True):
            pooled = 0 if rare is None else len(rare) - 1
            source += [names.index(name)] * (len(known) - pooled)
        labels = [level.replace("_infrequent_sklearn", "_(rare)") for level in levels]
        return cls(numbers, categories, encoder, (*map(str, numbers), *labels), np.array(source))

    @property
    def table(self) -> tuple[str, ...]:
        """Names of the columns of the data frame, in its order."""
        places = [*self.source[: len(self.numbers)], *dict.fromkeys(self.source[len(self.numbers) :].tolist())]
        names = dict(zip(map(int, places), (*self.numbers, *self.categories), strict=True))
        return tuple(str(names[place]) for place in sorted(names))

    def __call__(self, X: Any) -> NDArray[np.float64]:
        """Return the numbers followed by the categories' columns of zeros, ones and NaN, shape (n, columns).

        Raises `ValueError` if a column holds numbers, where the categories of the fit were words.
        """
        for name, levels in zip(self.categories, self.encoder.categories_, strict=True):
            self._check_words(X[name], [level for level in levels if level is not None])
        codes = np.asarray(self.encoder.transform(_objects(X, self.categories)), dtype=np.float64)
        own = self.source[len(self.numbers) :]
        for place in np.unique(own):
            columns = np.flatnonzero(own == place)
            unknown = ~codes[:, columns].any(axis=1)  # none of the levels of the fit, of which none is rare
            codes[np.ix_(unknown, columns)] = np.nan
        if not self.numbers:
            return codes
        numbers = check_array(
            X[list(self.numbers)], dtype=np.float64, ensure_all_finite="allow-nan", input_name="X", ensure_min_samples=1
        )
        return np.concatenate([numbers, codes], axis=1)

    def _check_words(self, column: Any, levels: list[str]) -> None:
        """Refuse numbers none of which is a level, if no level is a number: all rows would count as rare or unknown."""
        if is_categorical(column):
            return
        present = {level for level in map(_level, np.asarray(column, dtype=object)) if level is not None}
        if present and not present & set(levels) and not any(map(is_number, levels)):
            known = f"text or categories such as {levels[0]!r}" if levels else "text or categories"
            raise ValueError(f"Column {column.name!r} of X holds numbers, but held {known} in the fit.")


def is_number(text: str) -> bool:
    """Return whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _objects(X: Any, names: tuple[str, ...]) -> NDArray[Any]:
    """Return columns as text, with None for what is missing."""
    columns = [[_level(value) for value in np.asarray(X[name], dtype=object)] for name in names]
    return np.array(columns, dtype=object).T


def _level(value: Any) -> str | None:
    if is_missing(value):
        return None
    # Categories that are integers are floats in a table with gaps.
    return str(int(value) if isinstance(value, float | np.floating) and float(value).is_integer() else value)


def is_missing(value: Any) -> bool:
    """Return whether a value stands for none: None, NaN, or that of pandas, of which every comparison is one itself."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and bool(value != value)
