"""Label noise in both errors, or in neither: the test error has none, and the training error is on noisy labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from gradstep.problem import Problem

__all__ = ["LABEL_NOISE", "noiseless_training_error", "with_label_noise"]

LABEL_NOISE = ("both", "neither")
"""Which of the two errors have the label noise."""

_Value = TypeVar("_Value", float, NDArray[np.float64])


def with_label_noise(
    quantity: str, problem: Problem, value_of: Callable[[str], _Value], label_noise: str | None
) -> _Value:
    """Return a quantity of a prediction or of networks, with label noise in both errors or in neither.

    What is no error is as it was. `value_of` returns a quantity by its name, for instance an array with a value for
    each network. `label_noise` says whether the noise is in ``"both"`` errors or in ``"neither"``, and None is for the
    quantity as it is. With the noise the test error is that of predicting a noisy label. Without it the training error
    is `noiseless_training_error`.
    """
    value = value_of(quantity)
    if quantity == "test_error" and label_noise == "both":
        return value + problem.noise**2
    if quantity == "train_error" and label_noise == "neither":
        return noiseless_training_error(problem, value, value_of("degrees_of_freedom"))
    return value


def noiseless_training_error(problem: Problem, train_error: _Value, degrees_of_freedom: _Value) -> _Value:
    r"""Return the mean square of teacher less network on the samples of the fit, in expectation over their noise.

    A fit with hat matrix :math:`H` leaves the residual :math:`(1-H)(f^*+\epsilon)`, whose mean product with the noise
    is :math:`\sigma^2(1-\operatorname{tr}H/n)`. Without the noise the error therefore is
    :math:`E_{\text{train}}-\sigma^2(1-2\operatorname{tr}H/n)`. The identity holds for every drawn network, too: with
    its own training error and degrees of freedom the expectation is the same.

    The training error is the mean square on the labels with their noise, and `degrees_of_freedom` is the trace of the
    hat matrix, per dimension in the proportional limit.
    """
    samples = problem.ratio("n") if problem.is_limit else problem.real_sizes().n
    return train_error - problem.noise**2 * (1 - 2 * degrees_of_freedom / samples)
