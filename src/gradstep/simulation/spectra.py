"""Measured spectra of the feature covariance and of the weights, with overlaps of the leading vectors."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradstep.gaussian import moments
from gradstep.problem import Problem
from gradstep.threads import threads_for_factorisation

__all__ = [
    "FeatureVector",
    "MeasuredFeatures",
    "MeasuredWeights",
    "WeightVector",
    "feature_spectrum",
    "spike_direction",
    "unit",
    "weight_spectrum",
]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class FeatureVector:
    """An eigenvalue of ``F^T F / n`` and squared cosines of its vectors.

    Attributes
    ----------
    eigenvalue : float
    sample_overlap, teacher_overlap : ndarray, shape (5,)
        Squared cosines of the vector over the samples with Hermite polynomials of degree 0..4 of the projection on the
        `spike_direction`, and of ``<x, beta*>``.
    neuron_overlap : ndarray
        Squared cosines of the vector over the neurons with the orthonormal polynomials of the readout's law.
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
        Eigenvalues of ``F^T F / n`` in increasing order, the zeros included.
    leading : tuple of FeatureVector
        The leading eigenvalues with their vectors, the largest first.
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
        Squared cosines of the vector in input space with the teacher's direction and with ``g = X^T (y - f) / n``.
    readout_overlap : float
        Squared cosine of the vector over neurons with the readout at initialisation.
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


def spike_direction(problem: Problem, before: Array, readout: Array, linear: Array) -> Array:
    """Return the direction along which theory takes the spike, shape (d,), of any length.

    The gradient holds the network's own output, which is along the sum of the rows. Until the step takes back all that
    the rows have of it, theory has the spike along what is left of the gradient, and counts the sum of the rows as a
    part of their bulk (`readout_shrinkage` of `gradstep.theory.step.statistics.StepStatistics`). In output scale
    ``"1/sqrt(N)"`` a larger step may take back more: then the spike is along the sum of the rows after the step
    (`gradstep.theory.step.own_output`). Needed are the first layer before the step (N, d), the readout at
    initialisation (N,) and ``linear = X^T (y - f) / n_step``, shape (d,).
    """
    width, activation = len(readout), moments(problem.activation)
    rows, gain = readout @ before, problem.step_size / math.sqrt(width) * activation.derivative_mean
    small = problem.output_scale == "1/N"
    output = activation.linear / (width if small else math.sqrt(width))
    taken = gain * output * width * problem.readout.second_moment
    if small or abs(taken) <= 1:
        return np.asarray(linear + output * rows)
    return np.asarray(gain * linear + rows / (readout @ readout))


def unit(rows: Array) -> Array:
    """Divide rows by their lengths; rows of zeros, which have no direction, stay what they are."""
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    return np.asarray(rows / np.where(lengths == 0, 1.0, lengths))


def feature_spectrum(features: Array, *, along: Array, target: Array, neurons: Array, leading: int) -> MeasuredFeatures:
    """Measure the spectrum of ``F^T F``, features (n, N); see :meth:`gradstep.Network.feature_spectrum`.

    Singular vectors over the samples are compared with the unit rows of `along` and `target` (., n), those over neurons
    with the unit rows of `neurons` (., N).
    """
    wide = features.shape[0] < features.shape[1]
    gram = features @ features.T if wide else features.T @ features
    with threads_for_factorisation(len(gram)):
        values, vectors = np.linalg.eigh(gram)
    # Computed zeros are rounding errors of either sign, and their vectors are arbitrary.
    rank = int((values > values[-1] * max(features.shape) * np.finfo(float).eps).sum())
    found = []
    for index in range(len(values))[::-1][: min(leading, rank)]:
        size = math.sqrt(values[index])
        left = vectors[:, index] if wide else features @ vectors[:, index] / size
        right = features.T @ vectors[:, index] / size if wide else vectors[:, index]
        overlaps = [(basis @ vector) ** 2 for basis, vector in ((along, left), (neurons, right), (target, left))]
        found.append(FeatureVector(float(values[index]), *overlaps))
    zeros = np.zeros(features.shape[1] - len(values))
    return MeasuredFeatures(np.concatenate([zeros, np.maximum(values, 0.0)]), tuple(found))


def weight_spectrum(
    before: Array, after: Array, readout: Array, linear: Array, teacher: Array, *, leading: int
) -> MeasuredWeights:
    """Measure the singular values of first layers, shape (N, d) each; see :meth:`gradstep.Network.weight_spectrum`.

    Vectors in input space are compared with `linear` and the unit vector `teacher`, shape (d,) each.
    """
    with threads_for_factorisation(min(after.shape)):
        left, singular, right = np.linalg.svd(after, full_matrices=False)
        initial = np.asarray(np.linalg.svd(before, compute_uv=False)[::-1])
    readout, common = unit(readout), unit(linear)
    top = tuple(
        WeightVector(
            float(singular[k]),
            float((right[k] @ teacher) ** 2),
            float((right[k] @ common) ** 2),
            float((left[:, k] @ readout) ** 2),
        )
        for k in range(min(leading, len(singular)))
    )
    return MeasuredWeights(initial, np.asarray(singular[::-1]), top)
