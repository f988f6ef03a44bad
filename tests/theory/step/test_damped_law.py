"""The law of the rows after a damped step: without damping that of the plain step, and drawn matrices."""

import numpy as np
import pytest

import gradstep as gs
from gradstep.errors import NotConverged
from gradstep.gaussian import moments, scalar_function
from gradstep.theory.neurons.correlated_law import CorrelatedLaw
from gradstep.theory.step.correlated_samples import CorrelatedSamples, Spectrum
from gradstep.theory.step.damped_law import DampedLaw
from gradstep.theory.step.damped_samples import DampedSamples
from gradstep.theory.step.weighted_samples import residual_law

INPUTS = gs.Inputs([3, 1, 0.3], [0.2, 0.5, 0.3], [0.5, 0.3, 0.2])
Z = np.array([-0.7 + 0.3j, -3 + 1.5j, 0.8 + 0.5j])


def samples_of(damping: float, ratio: float, teacher: str = "sin(1.5*x)") -> DampedSamples:
    link = scalar_function(teacher)
    plain = CorrelatedSamples(residual_law(link, 0.0, 0.09), ratio, moments(link).linear, Spectrum.of(INPUTS))
    return DampedSamples(plain, damping)


@pytest.mark.parametrize("ratio", [0.5, 2.0])
def test_a_large_damping_has_the_law_of_the_plain_step(ratio):
    damped = samples_of(1e7, ratio)
    found, plain = DampedLaw(damped, 0.7), CorrelatedLaw(damped.plain, 0.7)
    frames = damped.frame(damped.alignment), damped.plain.frame(damped.plain.alignment)
    for one, other in zip(found.transform(Z), plain.transform(Z), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
    for one, other in zip(found.between(Z, frames[0]), plain.between(Z, frames[1]), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.average(frames[0]), plain.average(frames[1]), rtol=1e-4)
    np.testing.assert_allclose(found.diagonals(Z)[0], plain.diagonals(Z)[0], rtol=1e-5)
    np.testing.assert_allclose(found.diagonals(Z)[1], plain.diagonals(Z)[1], rtol=1e-4)


@pytest.mark.parametrize("damping", [0.1, 1.0])
def test_slopes_are_those_of_the_transforms(damping):
    samples, h = samples_of(damping, 0.8), 1e-5
    law, frame = DampedLaw(samples, 0.7), samples.frame(samples.alignment)
    for of in (law.transform, lambda z: law.between(z, frame)):
        np.testing.assert_allclose((of(Z + h)[0] - of(Z - h)[0]) / (2 * h), of(Z)[1], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(("damping", "count"), [(0.1, 800), (1.0, 300), (0.2, 300)])
def test_drawn_matrices(damping, count):
    d, t, draws = 400, 0.7, 8
    samples, link = samples_of(damping, d / count), scalar_function("sin(1.5*x)")
    law, frame = DampedLaw(samples, t), samples.frame(samples.alignment)
    sizes = INPUTS.counts(d)
    c = np.repeat(INPUTS.eigenvalues, sizes)
    random, found = np.random.default_rng(3), []
    for _ in range(draws):
        teacher = random.standard_normal(d)
        for start, stop, part in zip(np.cumsum([0, *sizes]), np.cumsum(sizes), INPUTS.teacher, strict=False):
            teacher[start:stop] *= np.sqrt(part) / np.linalg.norm(teacher[start:stop])
        x = random.standard_normal((count, d))
        r = np.asarray(link(x @ teacher)) + 0.3 * random.standard_normal(count)
        metric = (1 + damping) * np.linalg.inv(x.T @ x / count + np.diag(damping / c))
        theta = metric @ (x.T @ r) / count
        sampled = metric @ ((x.T * (r**2 / samples.law.square)) @ x / count) @ metric
        values, vectors = np.linalg.eigh(np.diag(c) + t * sampled)
        both = np.stack([teacher, theta], axis=1)
        overlap = vectors.T @ both
        row = [theta @ theta, teacher @ theta, theta @ (c * theta), (x.T @ r / count) @ (c * theta)]
        row += [np.trace(sampled) / d, np.sum(sampled**2) / d]
        for z in Z:
            row += [np.mean(1 / (values - z)), *((overlap.T / (values - z)) @ overlap).ravel()]
        found.append(row)
    one, c = np.ones(3), samples.spectrum.eigenvalue
    expected = [samples.quadratic(one), samples.with_teacher(one), samples.quadratic(c), samples.with_gradient(c)]
    expected += [samples.trace(one), law.sampled_square]
    both = np.array([[1, samples.with_teacher(one)], [0, samples.off_teacher]])
    transform, between = law.transform(Z)[0], law.between(Z, both)[0]
    for k in range(3):
        expected += [transform[k], *between[k].ravel()]
    mean, error = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / draws**0.5
    assert np.all(np.abs(mean - np.array(expected)) < 4 * error + 0.01 * np.abs(mean))
    assert frame.T @ samples.among(0) @ frame == pytest.approx(np.eye(2))


def test_means_at_a_sample_are_those_of_the_vectors():
    # g is the sum of the samples with their residuals: averages over one sample are products with g.
    samples = samples_of(0.3, 0.8)
    assert samples.law.mean(samples.law.residual * samples.along) == pytest.approx(samples.norm**2)


@pytest.mark.parametrize(("name", "value"), [("_MAX_STEPS", 1), ("_TOLERANCE", 0.0)])
def test_a_solution_that_cannot_be_followed_is_told(name, value, monkeypatch):
    monkeypatch.setattr(f"gradstep.theory.step.damped_law.{name}", value)
    with pytest.raises(NotConverged, match="was not followed from far away to the points asked for"):
        DampedLaw(samples_of(0.3, 0.8), 0.7).transform(Z)
