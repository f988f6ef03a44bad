"""Samples of a step on correlated inputs: traces of products of their matrices, and projections on the gradient."""

from dataclasses import replace

import numpy as np
import pytest

import gradstep as gs
from gradstep.gaussian import moments, scalar_function
from gradstep.theory.step.correlated_samples import CorrelatedSamples, Spectrum, words_trace
from gradstep.theory.step.weighted_samples import residual_law

TEACHER = scalar_function("sin(x) + 0.3*x**2")
SPECTRUM = Spectrum.of(gs.Inputs([4, 1, 0.2], [0.2, 0.5, 0.3], [0.6, 0.3, 0.1]))


def samples(ratio: float, noise: float = 0.3) -> CorrelatedSamples:
    return CorrelatedSamples(residual_law(TEACHER, 0.2, noise**2), ratio, moments(TEACHER).linear, SPECTRUM)


def drawn(seed: int, d: int, count: int, noise: float = 0.3):
    """Return the eigenvalue of each direction, the teacher's direction, whitened inputs and residuals."""
    random = np.random.default_rng(seed)
    sizes = np.round(SPECTRUM.share * d).astype(int)
    c = np.repeat(SPECTRUM.eigenvalue, sizes)
    teacher = random.standard_normal(d)
    for part, place in zip(SPECTRUM.teacher, np.split(np.arange(d), np.cumsum(sizes)[:-1]), strict=True):
        teacher[place] *= np.sqrt(part) / np.linalg.norm(teacher[place])
    z = random.standard_normal((count, d))
    return c, teacher, z, np.asarray(TEACHER(z @ teacher)) - 0.2 + noise * random.standard_normal(count)


@pytest.mark.parametrize("by_output", [None, np.array([-0.7, 0.5, 0.9])])
@pytest.mark.parametrize("powers", [[1], [1, 2], [2, 0, 1], [1, 1, 0, 2]])
def test_traces_of_products_are_those_of_drawn_matrices(powers, by_output):
    d, count, found = 400, 600, []
    known = replace(samples(d / count), by_output=by_output)
    added = np.repeat(known.added, np.round(SPECTRUM.share * d).astype(int))
    # Every second matrix has squares as weights. The others are B, with what an own output adds.
    letters = [known.law.residual**2 if k % 2 else None for k in range(len(powers))]
    for seed in range(6):
        c, _, z, residual = drawn(seed, d, count)
        product = np.eye(d)
        for k, power in enumerate(powers):
            matrix = (z.T * (residual**2 if k % 2 else residual)) @ z / count
            product = product @ (matrix if k % 2 else matrix + np.diag(added)) * c**power
        found.append(np.trace(product) / d)
    mean, error = np.mean(found), np.std(found, ddof=1) / 6**0.5
    # Of 600 samples one large residual moves the mean of a fourth power by more than the rest.
    assert abs(words_trace(known, letters, powers) - mean) < 4 * error + 0.02 * abs(mean)


def test_direction_of_the_gradient():
    d, count = 300, 900
    known = samples(d / count)
    found = []
    for seed in range(40):
        c, teacher, z, residual = drawn(seed, d, count)
        g = z.T @ residual / count
        v = c * g / np.linalg.norm(c * g)
        along = z @ (c**2 * g)
        found.append([(c * g) @ (c * g), v @ teacher, v @ (c * v), np.mean(residual**2 * along**2)])
    expected = [known.form(2), known.alignment, known.form_along(known.alignment), known.square(known.law.residual**2)]
    mean, error = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / 40**0.5
    np.testing.assert_array_less(np.abs(mean - expected), 3 * error + 0.01 * np.abs(mean))


@pytest.mark.parametrize("alignment", [0.3, 0.9, 1.0])
def test_frame_is_orthonormal_and_holds_the_teacher(alignment):
    known = samples(0.5)
    frame = known.frame(alignment)
    np.testing.assert_allclose(frame.T @ known.among(0) @ frame, np.eye(2), atol=1e-12)
    teacher = np.array([1.0, 0.0, 0.0])
    np.testing.assert_allclose(frame.T @ known.among(0) @ teacher, [alignment, (1 - alignment**2) ** 0.5], atol=1e-12)
