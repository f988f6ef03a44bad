"""Rows after a damped step: the plain step as a limit, and rows of real steps."""

from dataclasses import fields, replace

import numpy as np
import pytest
from numpy.polynomial.polynomial import polyval

import gradstep as gs
from gradstep.gaussian import moments, scalar_function
from gradstep.theory.step.correlated_rows import correlated_fluctuations
from gradstep.theory.step.correlated_samples import CorrelatedSamples, Spectrum
from gradstep.theory.step.damped_law import DampedLaw
from gradstep.theory.step.damped_rows import damped_fluctuations
from gradstep.theory.step.damped_samples import DampedSamples
from gradstep.theory.step.weighted_samples import residual_law

INPUTS = gs.Inputs([3, 1], [0.2, 0.8], [0.5, 0.5])


def samples_of(teacher: str, ratio: float) -> CorrelatedSamples:
    link = scalar_function(teacher)
    return CorrelatedSamples(residual_law(link, 0.0, 0.09), ratio, moments(link).linear, Spectrum.of(INPUTS))


@pytest.mark.parametrize("by_output", [None, (-0.4, -0.1)])
@pytest.mark.parametrize("sphere", [False, True])
@pytest.mark.parametrize("ratio", [0.3, 2.0])
@pytest.mark.parametrize("activation", ["tanh", "relu", "tanh(x) + 0.3*x**2 + 0.1*x**3"])
def test_a_large_damping_has_the_rows_of_the_plain_step(activation, ratio, sphere, by_output):
    sigma, samples = scalar_function(activation), samples_of("x - 1 + 0.4*(x**2 - 1)", ratio)
    samples = replace(samples, by_output=None if by_output is None else np.array(by_output))
    expected = correlated_fluctuations(sigma, samples, 0.8, sphere=sphere)
    found = damped_fluctuations(sigma, DampedSamples(samples, 1e6), 0.8, sphere=sphere)
    for name in {field.name for field in fields(expected)} - {"norm_vector"}:
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-4, atol=1e-5, err_msg=name)
    # With C in place of P, P h is C h and P g is C g.
    vector = np.array(found.norm_vector)
    vector[:, 2] += vector[:, 5]
    vector[:, 0] += vector[:, 6]
    np.testing.assert_allclose(vector[:, :5], expected.norm_vector, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("sphere", [False, True])
@pytest.mark.parametrize("damping", [0.1, 1.0])
@pytest.mark.parametrize("ratio", [0.3, 2.0])
@pytest.mark.parametrize("activation", ["tanh", "relu", "tanh(x) + 0.3*x**2 + 0.1*x**3"])
def test_along_the_spike_the_vector_of_the_norm_is_the_covariance_without_the_spike(activation, ratio, damping, sphere):
    # The one side has the vectors from the law of the rows, the other traces of products of the metric and samples.
    samples = DampedSamples(samples_of("x - 1 + 0.4*(x**2 - 1)", ratio), damping)
    law = damped_fluctuations(scalar_function(activation), samples, 0.8, sphere=sphere)
    stretch = 0.0 if activation == "tanh" else 1.0
    along = DampedLaw(samples, 1.0, stretch, stretch).others(np.array([1j]), samples.frame(samples.alignment))[0][0]
    expected = np.array(law.covariance) - law.spike_covariance
    np.testing.assert_allclose(np.array(law.norm_vector) @ along, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("activation", "teacher", "sphere", "damping"),
    [
        ("tanh(x) + 0.3*x**2", "x - 1", False, 0.3),
        pytest.param("sin(x) - 0.4*x**2", "x + 0.8", True, 1.0, marks=pytest.mark.statistical),
    ],
)
def test_rows_of_real_steps_follow_their_norms(activation, teacher, sphere, damping):
    """The covariance of a row with its norm, along the teacher's direction and what the samples make off the spike."""
    d, count, rows, e, parts = 200, 400, 40_000, 0.7, 20
    sigma, link, random = scalar_function(activation), scalar_function(teacher), np.random.default_rng(5)
    law = damped_fluctuations(sigma, DampedSamples(samples_of(teacher, d / count), damping), e, sphere=sphere)
    c = np.repeat(INPUTS.eigenvalues, INPUTS.counts(d))
    direction = np.zeros(d)
    direction[[0, d - 1]] = 0.5**0.5
    z = random.standard_normal((count, d))
    r = np.asarray(link(z @ direction)) + 0.3 * random.standard_normal(count)
    metric = (1 + damping) * np.linalg.inv(z.T @ z / count + np.diag(damping / c))
    g, h, cubes = (z.T @ r**power / count for power in (1, 2, 3))
    stretch = metric @ (z.T * r) @ z / count * c
    vectors = [c * g, stretch @ g, c * h, stretch @ h, metric @ cubes, metric @ h, metric @ g]
    expected = np.stack(vectors, axis=1) @ np.array(law.norm_vector).sum(axis=0)
    frame, _ = np.linalg.qr(np.column_stack([metric @ g, direction, c * g, c * h, metric @ h]))
    found = []
    for _ in range(parts):
        w = random.standard_normal((rows // parts, d)) / d**0.5
        w = (w / np.linalg.norm(w, axis=1, keepdims=True) if sphere else w) * c**0.5
        w += e * (sigma.derivative(w @ z.T) * r) @ z / count @ metric
        norm = (w**2).sum(axis=1) - (w @ frame[:, 0]) ** 2
        found.append(d * ((w - w.mean(axis=0)) @ frame[:, 1:]).T @ (norm - norm.mean()) / len(w))
    mean, error = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / parts**0.5
    # The coefficients are those of many samples and directions: some per cent of the vector.
    size = np.linalg.norm(expected)
    assert np.all(np.abs(mean - frame[:, 1:].T @ expected) < 4 * error + 0.05 * size), (mean, expected @ frame, error)
    assert np.linalg.norm(mean) > 10 * np.linalg.norm(error)


@pytest.mark.parametrize(
    ("activation", "teacher", "sphere", "damping"),
    [
        ("tanh", "sin(x)", False, 0.3),
        ("relu", "x + 0.3*(x**2 - 1)", True, 1.0),
        pytest.param("softplus", "sin(1.5*x) + 0.6", False, 0.1, marks=pytest.mark.statistical),
    ],
)
def test_rows_of_real_steps(activation, teacher, sphere, damping):
    d, neurons, count, draws, e = 300, 1000, 600, 12, 0.7
    sigma, link = scalar_function(activation), scalar_function(teacher)
    law = damped_fluctuations(sigma, DampedSamples(samples_of(teacher, d / count), damping), e, sphere=sphere)
    c = np.repeat(INPUTS.eigenvalues, INPUTS.counts(d))
    direction = np.zeros(d)
    direction[[0, d - 1]] = 0.5**0.5
    readouts, found, random = np.array([1.0, -1.0]), [], np.random.default_rng(0)
    for _ in range(draws):
        w = random.standard_normal((neurons, d)) / d**0.5
        before = (w / np.linalg.norm(w, axis=1, keepdims=True) if sphere else w) * c**0.5
        z = random.standard_normal((count, d))
        r = np.asarray(link(z @ direction)) + 0.3 * random.standard_normal(count)
        metric = (1 + damping) * np.linalg.inv(z.T @ z / count + np.diag(damping / c))
        theta = metric @ (z.T @ r) / count
        v = theta / np.linalg.norm(theta)
        step = e * ((np.asarray(sigma.derivative(before @ z.T)) * r) @ z / count) @ metric
        row = []
        for a in readouts:
            rows = before + a * step
            p = rows @ v
            norm = np.square(rows).sum(axis=1) - p**2
            row.append([d * p.var(), d * a * np.cov(p, norm)[0, 1], d * norm.var()])
        found.append(row)
    projection = polyval(readouts, law.projection_variance) + law.spike_variance
    norm = polyval(readouts, law.norm_variance) + polyval(readouts, law.slope_square)
    expected = np.stack([projection, polyval(readouts, law.covariance), norm], axis=1)
    mean, error = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / draws**0.5
    # The leading order, as for the plain step.
    scale = np.stack([projection, np.sqrt(projection * norm), norm], axis=1)
    np.testing.assert_array_less(np.abs(mean - expected), 3 * error + 0.06 * scale)
