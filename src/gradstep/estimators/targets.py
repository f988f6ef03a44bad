"""Targets as a matrix of numbers, one column an output."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.preprocessing import LabelEncoder
from sklearn.utils import assert_all_finite, check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from gradstep.estimators.columns import check_unmasked, is_missing, is_number, refuse_dates

__all__ = ["check_labels", "class_targets", "codes", "mistaken", "number_targets", "target_matrix"]


def codes(labels: ArrayLike, classes: NDArray[Any]) -> NDArray[np.float64]:
    """Code labels, shape (n,), as +1 and -1, shape (n, classes): one column a class, a single one for two classes."""
    shown = classes[1:] if len(classes) == 2 else classes
    return np.where(np.asarray(labels)[:, None] == shown, 1.0, -1.0)


def class_targets(y: Any) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Return the sorted classes of labels, shape (n,), and their `codes`.

    Raises `ValueError` if `y` holds no classes, or more than one label a row, and `TypeError` as `check_labels`.
    """
    check_labels(y)
    if not np.asarray(y).size:
        raise ValueError("Input y is empty.")
    check_classification_targets(y)
    encoder = LabelEncoder()
    places = encoder.fit_transform(column_or_1d(y, warn=True))
    return encoder.classes_, codes(places, np.arange(len(encoder.classes_)))


def check_labels(y: Any) -> None:
    """Refuse labels some of which are missing.

    Raises `ValueError`, and `TypeError` if they are masked.
    """
    check_unmasked("y", y)
    labels = np.asarray(y)
    if labels.dtype.kind in "fc":
        assert_all_finite(y, input_name="y")
    if labels.dtype.kind == "O" and any(map(is_missing, labels.flat)):
        raise ValueError("Input y contains missing labels.")


def mistaken(outputs: NDArray[np.float64], codes: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Say where outputs, shape (n, outputs, ...), mean another class than codes: that with the largest output wins."""
    if codes.shape[1] == 1:
        return np.asarray(((outputs > 0) != (codes > 0))[:, 0])
    return np.asarray(outputs.argmax(axis=1) != codes.argmax(axis=1))


def number_targets(y: Any) -> NDArray[np.float64]:
    """Return finite numbers as a matrix (n, outputs).

    Raises `ValueError` if `y` holds anything else, such as text or dates, and `TypeError` if some are masked.
    """
    check_unmasked("y", y)
    values = np.asarray(y)
    refuse_dates("y", values)
    try:
        numbers = np.asarray(check_array(y, dtype=np.float64, ensure_2d=False, input_name="y"))
    except (TypeError, ValueError):
        text = next((str(value) for value in values.flat if isinstance(value, str) and not is_number(value)), None)
        if text is None:
            raise
        raise ValueError(f"y holds {text!r}, which is no number; OneStepClassifier learns classes.") from None
    return numbers.reshape(len(numbers), -1)


def target_matrix(y: Any) -> NDArray[np.float64]:
    """Return numbers as they are, and text and truth values as `class_targets`."""
    check_unmasked("y", y)
    values = np.asarray(y)
    refuse_dates("y", values)
    if values.dtype.kind == "O":
        try:
            values = values.astype(np.float64)
        except (TypeError, ValueError):
            return class_targets(y)[1]
    return number_targets(values) if values.dtype.kind in "iuf" else class_targets(y)[1]
