r"""A certificate for the solution of the uniform equivalent, beyond the small residual of the fixed point.

The errors are the response of the fixed point to sources, ``M c = b`` with the matrix of
`gradstep.theory.equivalent.leverage.linearised`. Its residual is small for a wrong matrix too, and the smallest entries
of ``c`` determine the test error where the leverage is large. A digit lost there is multiplied by :math:`(1+V)^2`,
while the training loss hardly changes.

* The equations are homogeneous: if every resolvent is multiplied by a factor and every sample's weight ``s`` divided by
  it, the right-hand sides of all leverages are multiplied by it, and the contribution of the samples to a neuron's
  ridge does not change. By Euler's theorem a product with the matrix is therefore known independently of it,

  .. math:: M\binom s1=q,\qquad q_k=\frac{V_k}{d-1}\Big(\frac{s_k}{n w_kV_k/(1+V_k)^2}-1\Big),\quad q_g=\Lambda D_g ,

  which does not hold for a wrong matrix, a wrong inverse in it or a wrong right-hand side.
* ``M`` has no positive entry off its diagonal, and ``q > 0``: it is an M-matrix, and its inverse has no negative entry.
  If the sources are not negative, ``|M c - b| <= \epsilon b`` in each entry means
  ``|c - M^{-1}b| <= \epsilon c`` in each entry: the residual of the response, entry by entry, is a bound for its
  relative error. No condition number is needed.
* The equations of the means are solved row by row, each in its own unit.
* The conditional error is at least the part of the labels that no feature can fit, given kappa.
* The degrees of freedom from the samples' leverages are those from the neurons' resolvents.

This project.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gradstep.errors import NotConverged
from gradstep.resolution import LEAST_WITH_DIGITS, NOTHING
from gradstep.theory.equivalent.leverage import Leverage, LeverageEquations
from gradstep.theory.equivalent.linearised import Linearised, LinearisedByPairs

__all__ = [
    "LABEL_ROUNDING",
    "ON_SHELL",
    "check_errors",
    "check_loss",
    "check_point",
    "check_response",
    "check_solution",
    "response_defect",
]

Array = NDArray[np.float64]

#: Largest defects: of the matrix, over the largest term of a row; of the response, over its source; of an error below
#: its bound, over the bound; of the two counts of the degrees of freedom, over the larger size.
_MATRIX, _RESPONSE, _BOUND, _FREEDOM = 1e-8, 1e-6, 1e-6, 1e-8
#: Largest residual of the fit's own equations, over the terms of a row.
_SOLUTION = 1e-8
#: Largest difference of the two ways to the training loss, over itself, and rounding of either, over the labels' power.
ON_SHELL, LABEL_ROUNDING = 1e-6, 1e-12
#: Rounding of a sum, over its largest term: what a residual may have of it although the solution is right.
_ROUNDING = 1e-13
_ADVICE = "Raise the ridge, or use a smaller step."


def _refuse(defect: Array, allowed: float, reason: str) -> None:
    """Refuse defects above what is allowed, or that are no numbers."""
    if not (defect <= allowed).all():
        raise NotConverged("the certificate", float(np.max(defect)), allowed, _ADVICE, reason)


def check_point(
    equations: LeverageEquations, point: Leverage, near: Linearised | LinearisedByPairs, tolerance: float
) -> None:
    """Refuse a point that does not solve the equations, or a matrix that is not theirs.

    The residual of the fixed point is at most `tolerance`, and `near` are the equations near the point. Raises
    `NotConverged`.
    """
    state = np.concatenate([point.leverage, point.resolvent], axis=1)
    _refuse(np.abs(point.following / state - 1), 2 * tolerance, "does not solve the fixed point")
    probe = np.concatenate([point.sample_weight, np.ones_like(point.resolvent)], axis=1)
    slopes = equations.sampling * point.leverage * np.square(point.remaining)
    samples = point.sample_weight / slopes
    samples *= point.leverage / equations.directions[:, None]
    own = point.density / point.resolvent
    expected = np.concatenate(
        [samples - point.leverage / equations.directions[:, None], equations.ridge[:, None] * point.density], axis=1
    )
    scale = np.concatenate([samples, own], axis=1)
    found = near.times(probe)
    _refuse(np.abs(found - expected) / scale, _MATRIX, "has equations for the errors that are not those of the fit")
    if equations.population is None:
        fitted = np.vecdot(equations.sampling, point.leverage * point.remaining)
        from_neurons = np.vecdot(equations.neurons, 1 - equations.ridge[:, None] * point.resolvent)
        size = np.maximum(equations.width, equations.samples)
        _refuse(np.abs(fitted - from_neurons) / size, _FREEDOM, "counts two numbers of degrees of freedom")


def response_defect(near: Linearised | LinearisedByPairs, sources: Array, changes: Array) -> Array:
    """Return the residual of each entry of a response over what is allowed, shape (batch, nodes + groups).

    `sources` are the right-hand sides and `changes` the solution, of the same shape.
    """
    residual = np.abs(near.times(changes) - sources)
    rounding = near.diagonal * np.abs(changes)
    allowed = _RESPONSE * np.abs(sources) + _ROUNDING * rounding
    return np.asarray(np.divide(residual, allowed, out=np.zeros_like(residual), where=residual > 0))


def check_response(near: Linearised | LinearisedByPairs, sources: Array, changes: Array) -> None:
    """Refuse a response whose relative error may be large in any entry.

    The response is as in `response_defect`. Raises `NotConverged`.
    """
    defect = response_defect(near, sources, changes)
    _refuse(_RESPONSE * defect, _RESPONSE, "has errors that do not solve their equations")


def check_solution(matrix: Array, solution: Array, right: Array) -> None:
    """Refuse a solution of linear equations that solves some of them only beside the others, which are far larger.

    Groups of steep features have resolvents that are a hundred decades apart, and all of them count.

    The matrices have shape (batch, size, size), the solution and the right-hand sides (batch, size, columns). Raises
    `NotConverged`.
    """
    residual = np.abs(matrix @ solution - right).max(axis=2)
    terms = (np.abs(matrix) @ np.abs(solution) + np.abs(right)).max(axis=2)
    defect = np.divide(residual, terms, out=np.zeros_like(residual), where=~(terms < LEAST_WITH_DIGITS))
    _refuse(defect, _SOLUTION, "has a fit of the means that does not solve its equations")


def check_errors(conditional: Array, least: Array, scale: Array) -> None:
    """Refuse errors below what no fit can leave.

    `conditional`, shape (batch, nodes), are the errors ``E[(y - f)^2 | kappa]``. `least`, of the same shape, is the
    mean square of the labels given kappa without the squares of their mean and slope, including the noise, and `scale`,
    shape (batch,), is ``E y^2``. Raises `NotConverged` where an error is below by more than rounding.
    """
    missing = least - conditional
    # Labels that are zero leave nothing, and nothing is missing.
    defect = np.divide(missing, least + scale[:, None], out=np.zeros_like(missing), where=~(missing <= 0))
    _refuse(defect, _BOUND, "has errors below what no fit can leave")


def check_loss(loss: Array, on_shell: Array, label_power: Array) -> None:
    """Refuse errors whose training loss is not the one that the fit's means imply.

    The training loss is the mean of ``(y - f)^2`` plus the penalty, which the response of the errors gives. At the
    minimum it is the mean of ``y (y - f)`` too, which the means give alone, and no more than ``E y^2``. The residual of
    the fixed point sees neither.

    `loss` is the first form of the training loss and `on_shell` the second; `label_power` is ``E y^2``. All have shape
    (batch,). Raises `NotConverged` if the two differ, or exceed the bound, by more than rounding.
    """
    allowed = ON_SHELL * np.maximum(np.abs(loss), NOTHING) + LABEL_ROUNDING * label_power
    apart = np.maximum(np.abs(loss - on_shell), loss - label_power)
    if not (apart <= allowed).all():
        relative = float(np.max(apart / np.maximum(np.abs(loss), NOTHING)))
        raise NotConverged("the training loss", relative, ON_SHELL, "Raise the ridge, or use a smaller step.")
