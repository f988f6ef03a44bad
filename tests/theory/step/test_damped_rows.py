"""Rows after a damped step: the plain step as a limit, and rows of real steps."""

from dataclasses import fields

import numpy as np
import pytest
from numpy.polynomial.polynomial import polyval

import gradstep as gs
from gradstep.gaussian import moments, scalar_function
from gradstep.theory.step.correlated_rows import correlated_fluctuations
from gradstep.theory.step.correlated_samples import CorrelatedSamples, Spectrum
from gradstep.theory.step.damped_rows import damped_fluctuations
from gradstep.theory.step.damped_samples import DampedSamples
from gradstep.theory.step.weighted_samples import residual_law

INPUTS = gs.Inputs([3, 1], [0.2, 0.8], [0.5, 0.5])


def samples_of(teacher: str, ratio: float) -> CorrelatedSamples:
    link = scalar_function(teacher)
    return CorrelatedSamples(residual_law(link, 0.0, 0.09), ratio, moments(link).linear, Spectrum.of(INPUTS))


@pytest.mark.parametrize("sphere", [False, True])
@pytest.mark.parametrize("ratio", [0.3, 2.0])
@pytest.mark.parametrize("activation", ["tanh", "relu", "tanh(x) + 0.3*x**2 + 0.1*x**3"])
def test_a_large_damping_has_the_rows_of_the_plain_step(activation, ratio, sphere):
    sigma, samples = scalar_function(activation), samples_of("x - 1 + 0.4*(x**2 - 1)", ratio)
    expected = correlated_fluctuations(sigma, samples, 0.8, sphere=sphere)
    found = damped_fluctuations(sigma, DampedSamples(samples, 1e6), 0.8, sphere=sphere)
    # What the norm of a row tells of its directions is known of plain steps only.
    for name in {field.name for field in fields(expected)} - {"norm_vector", "spike_covariance"}:
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize(
    ("activation", "teacher", "sphere", "damping"),
    [
        ("tanh", "sin(x)", False, 0.3),
        ("relu", "x + 0.3*(x**2 - 1)", True, 1.0),
        ("softplus", "sin(1.5*x) + 0.6", False, 0.1),
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
