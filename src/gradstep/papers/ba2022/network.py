"""The real network of the paper, piece by piece: draw it, step it, fit its readout, measure its risk exactly.

A `Problem` made by `Problem.ba2022` fixes sizes and functions, a seed fixes every random number, so that quantities of
one seed are paired. Weights have one neuron a row (the transpose of the paper's ``W``), readouts act on the raw
features: ``b = a / sqrt(N)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradstep.gaussian import moments
from gradstep.papers.ba2022.coefficients import Coefficients
from gradstep.problem import Problem
from gradstep.simulation.backend import backend
from gradstep.simulation.instance import (
    TEACHER_AXIS,
    Sample,
    fit_sample,
    initial_readout,
    initial_weights,
    step_sample,
)
from gradstep.simulation.population import population_risk
from gradstep.simulation.ridge import RidgePath, fit_ridge
from gradstep.simulation.step import Gradient, gradient

__all__ = [
    "data",
    "equivalent_features",
    "equivalent_risk",
    "features",
    "fit",
    "fitted_risk",
    "gradient_at",
    "initial",
    "risk",
    "sizes",
    "step_data",
    "stepped",
    "teacher_direction",
]

Array = NDArray[np.float64]


def initial(problem: Problem, seed: int) -> tuple[Array, Array]:
    """Draw the network at initialisation.

    Parameters
    ----------
    problem : Problem
        With finite sizes.
    seed : int

    Returns
    -------
    weights : ndarray, shape (N, d)
        Entries of variance ``1 / d``.
    readout : ndarray, shape (N,)
        ``sqrt(N) a``, entries of variance one.
    """
    d, width, _ = sizes(problem)
    weights = initial_weights(seed, width, d, problem.initial_weights)
    return weights, initial_readout(seed, width, problem.readout)


def sizes(problem: Problem) -> tuple[int, int, int]:
    """Return ``d``, ``N`` and ``n`` as integers."""
    d, width, n = problem.d, problem.width, problem.n
    return int(d), int(width), int(n)  # type: ignore[arg-type]


def gradient_at(problem: Problem, seed: int, weights: Array, readout: Array) -> Gradient:
    """Compute the gradient (2.1) on the samples of the step.

    Parameters
    ----------
    problem : Problem
        With finite sizes.
    seed : int
    weights : ndarray, shape (N, d)
    readout : ndarray, shape (N,)

    Returns
    -------
    Gradient
        Its rows are ``N G_0``, one neuron a row.
    """
    return gradient(
        backend(None, "float64"),
        problem.activation,
        problem.teacher,
        step_sample(seed, int(problem.n_step), sizes(problem)[0]),  # type: ignore[arg-type]
        weights,
        readout,
        noise=problem.noise,
        output_factor=1 / weights.shape[0],
    )


def stepped(problem: Problem, seed: int, weights: Array, readout: Array) -> Array:
    r"""Take one step :math:`W_1=W_0+\eta\sqrt N G_0`; repeated steps use the same samples.

    Parameters
    ----------
    problem : Problem
        With finite sizes.
    seed : int
    weights : ndarray, shape (N, d)
    readout : ndarray, shape (N,)

    Returns
    -------
    ndarray, shape (N, d)
    """
    rows: Array = gradient_at(problem, seed, weights, readout).rows
    return np.asarray(weights + problem.step_size / np.sqrt(weights.shape[0]) * rows)


def data(problem: Problem, seed: int) -> tuple[Array, Array]:
    """Draw the fresh samples of the ridge fit.

    Parameters
    ----------
    problem : Problem
        With finite sizes.
    seed : int

    Returns
    -------
    inputs : ndarray, shape (n, d)
    labels : ndarray, shape (n,)
    """
    d, _, n = sizes(problem)
    return _labelled(problem, fit_sample(seed, n, d))


def step_data(problem: Problem, seed: int) -> tuple[Array, Array]:
    """Draw the samples of the gradient step.

    Parameters
    ----------
    problem : Problem
        With finite sizes.
    seed : int

    Returns
    -------
    inputs : ndarray, shape (n_step, d)
    labels : ndarray, shape (n_step,)
    """
    return _labelled(problem, step_sample(seed, int(problem.n_step), sizes(problem)[0]))  # type: ignore[arg-type]


def _labelled(problem: Problem, sample: Sample) -> tuple[Array, Array]:
    blocks = list(sample.blocks())
    inputs = np.concatenate([x for x, _ in blocks])
    noise = np.concatenate([e for _, e in blocks])
    labels: Array = problem.teacher(inputs[:, TEACHER_AXIS]) + problem.noise * noise
    return inputs, labels


def features(problem: Problem, weights: Array, inputs: Array) -> Array:
    """Return the raw features ``sigma(X W)``, shape ``(n, N)``."""
    values: Array = problem.activation(inputs @ weights.T)
    return values


def equivalent_features(values: Coefficients, weights: Array, inputs: Array, draw: np.random.Generator) -> Array:
    r"""Draw the Gaussian equivalent features :math:`\mu_1 W^\top x+\mu_2 z` of (4.1), raw."""
    noise = draw.standard_normal((inputs.shape[0], weights.shape[0]))
    return np.asarray(values.mu1 * (inputs @ weights.T) + np.sqrt(values.mu2_squared) * noise)


def fit(rows: Array, labels: Array, penalties: Sequence[float]) -> RidgePath:
    """Fit the readout on raw features.

    Parameters
    ----------
    rows : ndarray, shape (n, N)
    labels : ndarray, shape (n,)
    penalties : sequence of float
        ``n lam`` with the penalty ``lam`` of (4.1).

    Returns
    -------
    RidgePath
        Readouts ``b``, one column a penalty.
    """
    n, width = rows.shape
    return fit_ridge(lambda: iter([(rows, labels)]), n, width, penalties)


def teacher_direction(d: int) -> Array:
    """Return the teacher's direction, the first coordinate axis."""
    direction = np.zeros(d)
    direction[TEACHER_AXIS] = 1.0
    return direction


def risk(problem: Problem, weights: Array, readouts: Array, direction: Array | None = None) -> Array:
    """Return the exact prediction risk of each column of `readouts` given the weights.

    Parameters
    ----------
    problem : Problem
    weights : ndarray, shape (N, d)
    readouts : ndarray, shape (N, P)
    direction : ndarray, shape (d,), optional
        Unit vector along which the neurons are correlated; by default the teacher's.

    Returns
    -------
    ndarray, shape (P,)
    """
    teacher = teacher_direction(weights.shape[1])
    along: Any = teacher if direction is None else direction
    activation, target = problem.activation, problem.teacher
    return population_risk(activation, target, weights, teacher, along, readouts, tolerance=1e-7).test_error


def fitted_risk(problem: Problem, weights: Array, inputs: Array, labels: Array) -> float:
    """Fit the readout on features with the problem's penalty, and return the exact prediction risk."""
    path = fit(features(problem, weights, inputs), labels, [float(problem.ridge)])  # type: ignore[arg-type]
    return float(risk(problem, weights, path.readouts)[0])


def equivalent_risk(problem: Problem, weights: Array, readouts: Array) -> Array:
    r"""Return the exact risk on Gaussian equivalent features, shape (P,).

    .. math:: |\mu_1 W b-\mu_1^*\beta_*|^2+\mu_2^2|b|^2+\|P_{>1}f^*\|^2 ,

    plus the square of the teacher's mean, of which the linear features have none.
    """
    student, target = moments(problem.activation), moments(problem.teacher)
    linear = student.linear * (weights.T @ readouts)
    linear[TEACHER_AXIS] -= target.linear
    unlearned = target.nonlinear_second_moment + target.mean**2
    spread = student.nonlinear_second_moment * (readouts**2).sum(axis=0)
    return np.asarray((linear**2).sum(axis=0) + spread + unlearned)
