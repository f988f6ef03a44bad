"""Targets as a matrix of numbers, one column an output."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import LabelEncoder  # type: ignore[import-untyped, unused-ignore]
from sklearn.utils import assert_all_finite, check_array, column_or_1d  # type: ignore[import-untyped, unused-ignore]
from sklearn.utils.multiclass import check_classification_targets  # type: ignore[import-untyped, unused-ignore]

__all__ = ["class_targets", "mistaken", "number_targets", "target_matrix"]


def class_targets(y: Any) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Code classes as +1 and -1, one column a class; a single column for two classes.

    Parameters
    ----------
    y : array-like, shape (n,)

    Returns
    -------
    classes : ndarray
        Sorted.
    targets : ndarray, shape (n, 1) or (n, classes)

    Raises
    ------
    ValueError
        If `y` holds no classes, or more than one label a row.
    """
    labels = np.asarray(y)
    if labels.dtype.kind in "fc":
        assert_all_finite(y, input_name="y")
    if labels.dtype.kind == "O" and any(label is None or label != label for label in labels.flat):
        raise ValueError("Input y contains missing labels.")
    check_classification_targets(y)
    encoder = LabelEncoder()
    code = encoder.fit_transform(column_or_1d(y, warn=True))
    classes = encoder.classes_
    shown = np.arange(1, 2) if len(classes) == 2 else np.arange(len(classes))
    return classes, np.where(code[:, None] == shown, 1.0, -1.0)


def mistaken(outputs: NDArray[np.float64], codes: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Say where outputs mean another class than the codes of `class_targets`: that with the largest output wins.

    Parameters
    ----------
    outputs, codes : ndarray, shape (n, outputs, ...)

    Returns
    -------
    ndarray, shape (n, ...)
    """
    if codes.shape[1] == 1:
        return np.asarray(((outputs > 0) != (codes > 0))[:, 0])
    return np.asarray(outputs.argmax(axis=1) != codes.argmax(axis=1))


def number_targets(y: Any) -> NDArray[np.float64]:
    """Return finite numbers as a matrix (n, outputs)."""
    numbers = np.asarray(check_array(y, dtype=np.float64, ensure_2d=False, input_name="y"))
    return numbers.reshape(len(numbers), -1)


def target_matrix(y: Any) -> NDArray[np.float64]:
    """Return numbers as they are, and text and truth values as `class_targets`."""
    values = np.asarray(y)
    if values.dtype.kind == "O":
        try:
            values = values.astype(np.float64)
        except (TypeError, ValueError):
            return class_targets(y)[1]
    return number_targets(values) if values.dtype.kind in "iuf" else class_targets(y)[1]
