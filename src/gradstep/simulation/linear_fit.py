"""The readout fitted with a loss and a penalty of straight lines: a linear program."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradstep.convex import Loss, Penalty, PiecewiseQuadratic
from gradstep.errors import NotConverged
from gradstep.resolution import NOTHING

__all__ = ["fit_lines", "has_only_lines"]

Array = NDArray[np.float64]

#: Share of the largest weight below which one is a zero of the program, up to rounding.
_ZERO = 1e-9


def has_only_lines(loss: Loss, penalty: Penalty) -> bool:
    """Whether loss and penalty are straight between their kinks, as the absolute loss, the hinge and the l1 norm."""
    return all(
        isinstance(function, PiecewiseQuadratic) and not any(function.curvatures)
        for function in (loss.function, penalty.function)
    )


def fit_lines(features: Array, labels: Array, loss: Loss, penalty: Penalty, strength: float) -> tuple[Array, float]:
    r"""Minimise :math:`\sum_\mu\ell(y_\mu,\phi_\mu\cdot a)+s\sum_ir(a_i)` exactly, where both are straight lines.

    A convex function of straight lines is its first line plus, for every kink k, the jump of its slope times
    :math:`\max(u-k,0)`. A variable above both stands for each of these maxima.

    The features have shape (n, N), the labels (n,), and :math:`s` is the strength. The weights, shape (N,), come with
    the relative difference between the minimum and the maximum of the dual program, none at the solution. Raises
    `NotConverged` if the program is not solved.
    """
    from scipy import sparse  # here: few fits need it
    from scipy.optimize import linprog

    n, width = features.shape
    own, priced = loss.function, penalty.function
    assert isinstance(own, PiecewiseQuadratic)
    assert isinstance(priced, PiecewiseQuadratic)
    # The argument of the loss is `start` plus `slopes` times the weights.
    margin = loss.kind == "margin"
    start, slopes = (0 * labels, labels[:, None] * features) if margin else (labels, -features)
    losses, prices = n * len(own.kinks), width * len(priced.kinks)
    blocks: list[Any] = [
        [sparse.csr_array(np.tile(slopes, (len(own.kinks), 1))), -sparse.eye_array(losses), None],
        [sparse.vstack([sparse.eye_array(width)] * len(priced.kinks)), None, -sparse.eye_array(prices)],
    ]
    below = np.concatenate([np.subtract.outer(own.kinks, start).ravel(), np.repeat(priced.kinks, width)])
    first = own.slopes[0] * slopes.sum(axis=0) + strength * priced.slopes[0]
    jumps = np.repeat(np.diff(own.slopes), n), strength * np.repeat(np.diff(priced.slopes), width)
    bounds = [(None, None)] * width + [(0, None)] * (losses + prices)
    found: Any = linprog(np.concatenate([first, *jumps]), sparse.bmat(blocks), below, bounds=bounds, method="highs-ipm")
    if found.status:
        raise NotConverged("the convex fit", np.inf, 0.0, "Change the ridge.", f"failed: {found.message}")
    prices_of_rows = found.ineqlin.marginals
    gap = abs(found.fun - below @ prices_of_rows) / max(float(np.abs(below) @ np.abs(prices_of_rows)), NOTHING)
    weights = found.x[:width]
    weights = np.where(np.abs(weights) > _ZERO * np.abs(weights).max(), weights, 0.0)
    return weights, float(gap)
