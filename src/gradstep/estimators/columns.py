"""Columns of a data frame as numbers: categories become columns of zeros and ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import OneHotEncoder  # type: ignore[import-untyped, unused-ignore]
from sklearn.utils.validation import check_array  # type: ignore[import-untyped, unused-ignore]

__all__ = ["Columns", "check_dense", "is_categorical"]

#: Levels with fewer rows than this share one column.
_RARE = 5
#: Columns of one categorical column at most.
_LEVELS = 50


def check_dense(X: Any) -> None:
    """Refuse a sparse matrix, and say why.

    Raises
    ------
    TypeError
    """
    if hasattr(X, "tocsr"):
        raise TypeError(
            "Sparse data was passed for X, but dense data is required: the standardisation subtracts the mean of every "
            "column, which fills a sparse matrix. Use X.toarray(), or reduce X first, for example with "
            "sklearn.decomposition.TruncatedSVD."
        )


def is_categorical(column: Any) -> bool:
    """Return whether a column of a data frame holds categories: text, or a categorical type.

    Raises
    ------
    ValueError
        If it holds dates or durations, for which there is no obvious code.
    """
    if str(column.dtype).startswith(("category", "Categorical", "Enum")):
        return True
    values = np.asarray(column)
    if values.dtype.kind in "mM":
        raise ValueError(
            f"Column {column.name!r} holds dates or durations; make numbers of them first, for example days since the "
            "first one."
        )
    try:
        values.astype(np.float64)
    except (TypeError, ValueError):
        return True
    return False


@dataclass(frozen=True)
class Columns:
    """A code for the columns of a data frame some of which are categorical.

    Every category becomes a column of zeros and ones, missing values a category of their own. Categories with fewer
    than five rows share one column, and with more than fifty categories the rarest do. A category that was not in the
    fit counts as rare.

    Parameters
    ----------
    numbers, categories : tuple of str
        Names of the columns of each kind.
    encoder : OneHotEncoder
        Fitted to the categorical columns.
    names : tuple of str
        Names of the columns of the code.
    source : ndarray of int
        For each of them the place of its column in the data frame.
    """

    numbers: tuple[str, ...]
    categories: tuple[str, ...]
    encoder: OneHotEncoder
    names: tuple[str, ...]
    source: NDArray[np.intp]

    @classmethod
    def of(cls, X: Any) -> Self | None:
        """Find the code of a data frame; None if X is none, or all of its columns are numbers."""
        names = list(getattr(X, "columns", ()))
        categories = tuple(name for name in names if is_categorical(X[name]))
        if not categories:
            return None
        numbers = tuple(name for name in names if name not in categories)
        encoder = OneHotEncoder(
            min_frequency=_RARE, max_categories=_LEVELS, handle_unknown="infrequent_if_exist", sparse_output=False
        )
        encoder.set_output(transform="default").fit(_objects(X, categories))
        levels = encoder.get_feature_names_out([str(name) for name in categories])
        source = [names.index(name) for name in numbers]
        for name, known, rare in zip(categories, encoder.categories_, encoder.infrequent_categories_, strict=True):
            pooled = 0 if rare is None else len(rare) - 1
            source += [names.index(name)] * (len(known) - pooled)
        labels = [level.replace("_infrequent_sklearn", "_(rare)") for level in levels]
        return cls(numbers, categories, encoder, (*map(str, numbers), *labels), np.array(source))

    def __call__(self, X: Any) -> NDArray[np.float64]:
        """Return the numbers followed by the categories' columns of zeros and ones, shape (n, columns)."""
        codes = np.asarray(self.encoder.transform(_objects(X, self.categories)))
        if not self.numbers:
            return codes
        numbers = check_array(
            X[list(self.numbers)], dtype=np.float64, ensure_all_finite="allow-nan", input_name="X", ensure_min_samples=1
        )
        return np.concatenate([numbers, codes], axis=1)


def _objects(X: Any, names: tuple[str, ...]) -> NDArray[Any]:
    """Return columns as text, with None for what is missing."""
    columns = []
    for name in names:
        values = np.asarray(X[name], dtype=object)
        columns.append([None if _missing(value) else str(value) for value in values])
    return np.array(columns, dtype=object).T


def _missing(value: Any) -> bool:
    return value is None or type(value).__name__ in ("NAType", "NaTType") or bool(value != value)
