"""Measured spectra of the feature covariance and of the weights, and what the leading vectors are."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gradstep.gaussian import moments
from gradstep.gaussian.hermite import hermite_values
from gradstep.problem import Problem
from gradstep.readout import readout_polynomials
from gradstep.simulation.arguments import chosen_seeds, count, finite_sizes, threads_of
from gradstep.simulation.backend import backend
from gradstep.simulation.instance import TEACHER_AXIS, fit_sample, initial_readout, initial_weights, step_sample
from gradstep.simulation.step import gradient
from gradstep.threads import threads_for_factorisation

__all__ = [
    "FeatureVector",
    "FirstLayer",
    "MeasuredFeatures",
    "MeasuredWeights",
    "WeightVector",
    "first_layer",
    "measure_features",
    "measure_weights",
    "spike_direction",
]

Array = NDArray[np.float64]

_DEGREE = 4


class FirstLayer(NamedTuple):
    """The first layer of one instance.

    Attributes
    ----------
    before, after, gradient : ndarray, shape (N, d)
        Weights before and after the step, and ``G``.
    readout : ndarray, shape (N,)
    linear : ndarray, shape (d,)
        ``X^T (y - f) / n_step``, the direction that all rows of ``G`` share.
    """

    before: Array
    after: Array
    gradient: Array
    readout: Array
    linear: Array


@dataclass(frozen=True)
class FeatureVector:
    """An eigenvalue of ``F^T F / n`` and squared cosines of its vectors.

    Attributes
    ----------
    eigenvalue : float
    sample_overlap, teacher_overlap : ndarray, shape (5,)
        Of the vector over the samples with Hermite polynomials of degree 0..4 of the input's projection on the
        `spike_direction`, and of ``<x, beta*>``.
    neuron_overlap : ndarray
        Of the vector over the neurons with the orthonormal polynomials of the readout's law.
    """

    eigenvalue: float
    sample_overlap: Array
    neuron_overlap: Array
    teacher_overlap: Array


@dataclass(frozen=True)
class MeasuredFeatures:
    """Spectrum of one instance.

    Attributes
    ----------
    eigenvalues : ndarray, shape (N,)
        Of ``F^T F / n``, increasing, with the zeros.
    leading : tuple of FeatureVector
        The largest first.
    """

    eigenvalues: Array
    leading: tuple[FeatureVector, ...]


@dataclass(frozen=True)
class WeightVector:
    """A singular value of the weights and squared cosines of its vectors.

    Attributes
    ----------
    singular_value : float
    teacher_overlap, gradient_overlap : float
        Of the vector in input space with the teacher's direction and with ``g = X^T (y - f) / n``.
    readout_overlap : float
        Of the vector over neurons with the readout at initialisation.
    """

    singular_value: float
    teacher_overlap: float
    gradient_overlap: float
    readout_overlap: float


@dataclass(frozen=True)
class MeasuredWeights:
    """Singular values of the first layer before and after the step, increasing, and the leading ones after it."""

    before: Array
    after: Array
    leading: tuple[WeightVector, ...]


def first_layer(problem: Problem, seed: int) -> FirstLayer:
    """Draw the first layer and take the step.

    Parameters
    ----------
    problem : Problem
        With finite sizes.
    seed : int

    Returns
    -------
    FirstLayer

    Raises
    ------
    InvalidInput
        If a size is infinite, or on a seed that is none.
    """
    sizes, (seed,) = finite_sizes(problem), chosen_seeds([seed])
    d, width, n_step = sizes["d"], sizes["width"], sizes["n_step"]
    before = initial_weights(seed, width, d, problem.initial_weights)
    readout = initial_readout(seed, width, problem.readout)
    with threads_of(problem):
        step = gradient(
            backend(None, "float64"),
            problem.activation,
            problem.teacher,
            step_sample(seed, n_step, d),
            before,
            readout,
            noise=problem.noise,
            output_factor=problem.output_factor,
        )
    after = before + (problem.step_size / math.sqrt(width)) * step.rows
    return FirstLayer(before, after, step.rows, readout, step.linear)


def spike_direction(problem: Problem, layer: FirstLayer) -> Array:
    """Return the direction along which theory takes the spike, shape (d,), of any length.

    The gradient holds the network's own output, which is along the sum of the rows. Until the step takes back all that
    the rows have of it, theory has the spike along what is left of the gradient, and takes the sum of the rows for a
    part of their bulk (`readout_shrinkage` of `gradstep.theory.step.StepStatistics`). In output scale ``"1/sqrt(N)"`` a
    larger step may take back more: then the spike is along the sum of the rows after the step
    (`gradstep.theory.own_output`).
    """
    width, activation = len(layer.readout), moments(problem.activation)
    rows, gain = layer.readout @ layer.before, problem.step_size / math.sqrt(width) * activation.derivative_mean
    small = problem.output_scale == "1/N"
    output = activation.linear / (width if small else math.sqrt(width))
    taken = gain * output * width * problem.readout.second_moment
    if small or abs(taken) <= 1:
        return np.asarray(layer.linear + output * rows)
    return np.asarray(gain * layer.linear + rows / (layer.readout @ layer.readout))


def measure_features(problem: Problem, seed: int, *, leading: int = 2) -> MeasuredFeatures:
    """Measure the spectrum of the feature covariance on fresh samples.

    Parameters
    ----------
    problem : Problem
        With finite sizes.
    seed : int
    leading : int
        How many of the largest eigenvalues to look at, at most as many as there are above rounding.

    Returns
    -------
    MeasuredFeatures

    Raises
    ------
    InvalidInput
        On infinite sizes, and a seed or number that is none.
    """
    leading = count("leading", leading)
    layer = first_layer(problem, seed)
    n, d = int(problem.n), int(problem.d)  # type: ignore[arg-type]
    inputs = np.concatenate([x for x, _ in fit_sample(seed, n, d).blocks()])
    with threads_of(problem):
        features = np.asarray(problem.activation(inputs @ layer.after.T)) / math.sqrt(n)
        wide = features.shape[0] < features.shape[1]
        gram = features @ features.T if wide else features.T @ features
    with threads_for_factorisation(len(gram)):
        values, vectors = np.linalg.eigh(gram)
    along = _unit(hermite_values(inputs @ _unit(spike_direction(problem, layer)), _DEGREE))
    target = _unit(hermite_values(inputs[:, TEACHER_AXIS], _DEGREE))
    by_neuron = _unit(readout_polynomials(problem.readout, layer.readout, _DEGREE))
    # Zeros come out as rounding of either sign, and the vectors that belong to them as anything.
    rank = int((values > values[-1] * max(features.shape) * np.finfo(float).eps).sum())
    found = []
    for index in range(len(values))[::-1][: min(leading, rank)]:
        size = math.sqrt(values[index])
        left = vectors[:, index] if wide else features @ vectors[:, index] / size
        right = features.T @ vectors[:, index] / size if wide else vectors[:, index]
        overlaps = [(basis @ vector) ** 2 for basis, vector in ((along, left), (by_neuron, right), (target, left))]
        found.append(FeatureVector(float(values[index]), *overlaps))
    zeros = np.zeros(features.shape[1] - len(values))
    return MeasuredFeatures(np.concatenate([zeros, np.maximum(values, 0.0)]), tuple(found))


def _unit(rows: Array) -> Array:
    return np.asarray(rows / np.linalg.norm(rows, axis=-1, keepdims=True))


def measure_weights(problem: Problem, seed: int, *, leading: int = 1) -> MeasuredWeights:
    """Measure the singular values of the first layer before and after the step.

    Parameters
    ----------
    problem : Problem
        With finite sizes.
    seed : int
    leading : int
        How many of the largest ones to look at, at most as many as there are.

    Returns
    -------
    MeasuredWeights

    Raises
    ------
    InvalidInput
        On infinite sizes, and a seed or number that is none.
    """
    leading = count("leading", leading)
    layer = first_layer(problem, seed)
    with threads_for_factorisation(min(layer.after.shape)):
        left, singular, right = np.linalg.svd(layer.after, full_matrices=False)
        before = np.asarray(np.linalg.svd(layer.before, compute_uv=False)[::-1])
    readout, common = _unit(layer.readout), _unit(layer.linear)
    top = tuple(
        WeightVector(
            float(singular[k]),
            float(right[k, TEACHER_AXIS] ** 2),
            float((right[k] @ common) ** 2),
            float((left[:, k] @ readout) ** 2),
        )
        for k in range(min(leading, len(singular)))
    )
    return MeasuredWeights(before, np.asarray(singular[::-1]), top)
