"""Variances of rows in the classes of correlated inputs, and the direction in which they have most.

This project. Docs, "Leading directions", equations (V1) and (V2).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gradstep.theory.step.statistics import StepStatistics

__all__ = ["class_variances", "leading_part_of_norm", "leading_variance"]

Array = NDArray[np.float64]


def class_variances(step: StepStatistics, a: Array, a_square: Array) -> Array:
    """Return ``d`` times the variances of rows along one direction of each class, shape (rows, classes).

    They are means over the samples of a step on correlated inputs, or of a damped one. `a` and `a_square`, shape
    (rows,), are readouts and their squares, or their means over neurons that are described together.

    Docs, "Leading directions", equation (V1).
    """
    assert step.correlated is not None
    samples, (once, twice) = step.correlated, step.correlated.stretch
    own, a, a_square = step.own_stretch(a, a_square)[:, None], a[:, None], a_square[:, None]
    initial = own**2 * samples.spectrum.eigenvalue + 2 * own * step.class_drift * a * once
    stretched = initial + step.class_drift**2 * a_square * twice
    return np.asarray(stretched + step.bulk / samples.bulk_trace * a_square * samples.sampled)


def leading_variance(step: StepStatistics, a: Array, a_square: Array) -> Array:
    """Return the largest of the variances of rows over the mean of all directions, shape (rows,).

    Parameters are as in `class_variances`.
    """
    assert step.correlated is not None
    variances = class_variances(step, a, a_square)
    return np.asarray(variances.max(axis=1) / (variances @ step.correlated.spectrum.share))


def leading_part_of_norm(step: StepStatistics, a: Array, a_square: Array, d: float, beside: Array | float) -> Array:
    """Return the part of the variance of a row's squared norm that is due to one leading direction, shape (rows,).

    `beside`, a number or shape (rows,), is ``d`` times the variance that rows have along one more direction. `step`,
    `a` and `a_square` are as in `class_variances`.

    Docs, "Leading directions", equation (V2).
    """
    assert step.correlated is not None
    variances = class_variances(step, a, a_square)
    whole = d * (variances**2 @ step.correlated.spectrum.share) + np.square(beside)
    return np.asarray(variances.max(axis=1) ** 2 / whole)
