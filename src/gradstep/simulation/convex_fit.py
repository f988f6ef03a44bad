"""The readout fitted with any convex loss and penalty."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradstep.checks import bounded
from gradstep.convex import Loss, Penalty
from gradstep.convex import loss as parse_loss
from gradstep.convex import penalty as parse_penalty
from gradstep.errors import InvalidInput, NotConverged
from gradstep.resolution import NOTHING
from gradstep.simulation.linear_fit import fit_lines, has_only_lines
from gradstep.threads import one_thread

__all__ = ["ConvexFit", "fit_convex"]

Array = NDArray[np.float64]

_RELAXATION = 1.6
_CHECK_EVERY = 10
_REBALANCE_EVERY = 50


@dataclass(frozen=True)
class ConvexFit:
    """A fitted readout."""

    readout: Array  #: Weights b of the raw features, shape (N,).
    #: Mean loss on the sample; and the minimum of the objective, which includes the penalty, divided by n.
    train_error: float
    train_loss: float
    residual: float  #: Relative violation of the optimality conditions.


@one_thread()
def fit_convex(
    features: Array,
    labels: Array,
    *,
    loss: str | Loss,
    penalty: str | Penalty = "ridge",
    ridge: float,
    tolerance: float = 1e-7,
    maximum_iterations: int = 20_000,
) -> ConvexFit:
    r"""Minimise :math:`\sum_\mu\ell(y_\mu,\phi_\mu\cdot b)+\frac\Lambda N\sum_i r(\sqrt N b_i)`.

    Parameters
    ----------
    features : ndarray, shape (n, N)
        Finite numbers, with at least one row and one column.
    labels : ndarray, shape (n,)
        Finite numbers, or -1 and 1 for a margin loss.
    loss, penalty : str, Loss or Penalty
        See :mod:`gradstep.convex`.
    ridge : float
        :math:`\Lambda > 0`.
    tolerance : float
        Largest relative residual of the optimality conditions.
    maximum_iterations : int
        Largest number of iterations, each of which takes about as long as one prediction on the sample.

    Returns
    -------
    ConvexFit

    Raises
    ------
    InvalidInput
        If features or labels are not numbers or not finite, if the ridge is not positive, or if labels other than -1
        and 1 are given to a margin loss.
    NotConverged
        If the residual stays above the tolerance.

    Notes
    -----
    An absolute loss or a hinge with the l1 penalty is a linear program, and solved as one; the residual is its duality
    gap. Otherwise the method is that of alternating directions, with the proximal maps of both functions and one
    eigendecomposition of the Gram matrix. The dual variables are subgradients by construction. The residual is the
    larger of the relative mismatch of these and that of the two copies of outputs and weights, so that a small residual
    certifies the minimum.
    """
    chosen, regulariser = parse_loss(loss), parse_penalty(penalty)
    ridge, tolerance = (
        bounded(name, value, positive=True) for name, value in (("ridge", ridge), ("tolerance", tolerance))
    )
    features, labels = _checked(features, labels, chosen)
    n, width = features.shape
    scaled = features / math.sqrt(width)
    strength = ridge / width
    # Relative mismatches of outputs and weights that are all zero never become small: zero is checked by itself, with
    # the subgradients of the penalty at its kink, those of an even function.
    pulls = np.abs(scaled.T @ chosen.slope(labels, np.zeros(n)))
    if pulls.max() <= -strength * float(regulariser.function.derivative(0.0)):
        return _fitted(scaled, labels, chosen, regulariser, strength, np.zeros(width), 0.0)
    if has_only_lines(chosen, regulariser):
        # Alternating directions creep along the faces of a polyhedron.
        weights, residual = fit_lines(scaled, labels, chosen, regulariser, strength)
        if not residual <= tolerance:
            raise NotConverged("the convex fit", residual, tolerance, "Change the ridge.")
        return _fitted(scaled, labels, chosen, regulariser, strength, weights, residual)
    values, basis = np.linalg.eigh(scaled.T @ scaled)
    rotated = scaled @ basis
    output_step, weight_step = 1.0, 2 * strength
    weights, weight_dual = np.zeros(width), np.zeros(width)
    outputs, output_dual = np.zeros(n), np.zeros(n)
    residual = math.inf
    for iteration in range(1, maximum_iterations + 1):
        right = output_step * (rotated.T @ (outputs - output_dual)) + weight_step * (basis.T @ (weights - weight_dual))
        joint = right / (output_step * np.maximum(values, 0.0) + weight_step)
        fitted, smooth = rotated @ joint, basis @ joint
        relaxed = _RELAXATION * fitted + (1 - _RELAXATION) * outputs
        relaxed_weights = _RELAXATION * smooth + (1 - _RELAXATION) * weights
        outputs = chosen.proximal_output(labels, relaxed + output_dual, np.array(1 / output_step))
        weights = regulariser.function.proximal(relaxed_weights + weight_dual, np.array(strength / weight_step)).point
        output_dual = output_dual + relaxed - outputs
        weight_dual = weight_dual + relaxed_weights - weights
        if iteration % _CHECK_EVERY:
            continue
        primal = _ratio(np.append(fitted - outputs, smooth - weights), np.append(outputs, weights))
        pull, push = output_step * (scaled.T @ output_dual), weight_step * weight_dual
        dual = _ratio(pull + push, np.append(pull, push))
        residual = max(primal, dual)
        if residual <= tolerance:
            break
        balance = math.sqrt(primal / max(dual, NOTHING))
        if iteration % _REBALANCE_EVERY == 0 and 2 * iteration < maximum_iterations and not 0.5 < balance < 2:
            balance = min(max(balance, 0.2), 5.0)
            output_step, weight_step = output_step * balance, weight_step * balance
            output_dual, weight_dual = output_dual / balance, weight_dual / balance
    else:
        raise NotConverged("the convex fit", residual, tolerance, "Raise the ridge, the tolerance or the iterations.")
    return _fitted(scaled, labels, chosen, regulariser, strength, weights, residual)


def _checked(features: Array, labels: Array, loss: Loss) -> tuple[Array, Array]:
    """Return features and labels as numbers that fit together; raise `InvalidInput` otherwise."""
    features, labels = np.asarray(features, dtype=np.float64), np.asarray(labels, dtype=np.float64)
    if features.ndim != 2 or features.size == 0:
        raise InvalidInput("features", f"shape {features.shape}", "a table with at least one row and one column")
    if labels.shape != features.shape[:1]:
        raise InvalidInput("labels", f"shape {labels.shape}", f"one for each row of features {features.shape}")
    for name, given in (("features", features), ("labels", labels)):
        if not (known := np.isfinite(given)).all():
            raise InvalidInput(name, float(given[~known][0]), "finite numbers")
    if loss.kind == "margin" and not np.isin(labels, (-1.0, 1.0)).all():
        raise InvalidInput("labels", "other numbers", "-1 and 1 with a margin loss")
    return features, labels


def _fitted(
    scaled: Array, labels: Array, loss: Loss, penalty: Penalty, strength: float, weights: Array, residual: float
) -> ConvexFit:
    """Return the fit with these weights of the features divided by ``sqrt(N)``."""
    train_error = float(loss.value(labels, scaled @ weights).mean())
    cost = strength * float(penalty.function.value(weights).sum()) / len(labels)
    return ConvexFit(weights / math.sqrt(len(weights)), train_error, train_error + cost, residual)


def _ratio(part: Array, whole: Array) -> float:
    """Return the ratio of two norms."""
    return float(np.linalg.norm(part) / max(float(np.linalg.norm(whole)), NOTHING))
