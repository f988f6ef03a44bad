"""Rows after a step on correlated inputs: isotropic inputs as a limit, and rows of real steps."""

from dataclasses import fields

import numpy as np
import pytest

import gradstep as gs
from gradstep.gaussian import moments, scalar_function
from gradstep.theory.step.correlated_rows import correlated_fluctuations
from gradstep.theory.step.correlated_samples import CorrelatedSamples, Spectrum
from gradstep.theory.step.row_fluctuations import derivative_moments, row_fluctuations
from gradstep.theory.step.samples import StepSamples
from gradstep.theory.step.weighted_samples import residual_law

ONE = np.ones(1)


@pytest.mark.parametrize("sphere", [False, True])
@pytest.mark.parametrize("phi0", [0.0, 0.3, 2.0])
@pytest.mark.parametrize("activation", ["tanh", "relu", "tanh(x) + 0.3*x**2 + 0.1*x**3"])
def test_equal_eigenvalues_have_the_rows_of_isotropic_inputs(activation, phi0, sphere):
    sigma, teacher = scalar_function(activation), scalar_function("x - 1 + 0.4*(x**2 - 1)")
    law, linear = residual_law(teacher, 0.2, 0.09), moments(teacher).linear
    isotropic = StepSamples(law, phi0, linear, 0 * law.residual, 0.09)
    expected = row_fluctuations(sigma, isotropic, 0.8, phi0, sphere=sphere)
    samples = CorrelatedSamples(law, phi0, linear, Spectrum(ONE, ONE, ONE))
    found = correlated_fluctuations(sigma, samples, 0.8, sphere=sphere)
    for field in fields(expected):
        name = field.name
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-9, atol=1e-11, err_msg=name)


@pytest.mark.parametrize(
    ("activation", "teacher", "sphere", "quadratic"),
    [
        ("tanh", "sin(x)", False, 0.0),
        ("tanh", "x", True, 0.0),
        ("relu", "relu", False, -0.03),
        pytest.param("relu", "relu", False, 0.0, marks=pytest.mark.statistical),
        pytest.param("relu", "x", True, 0.03, marks=pytest.mark.statistical),
    ],
)
def test_rows_of_real_steps(activation, teacher, sphere, quadratic):
    """The residual may hold a multiple of ``z^T C z - d``, as it does with the network's own output."""
    d, neurons, count, draws, e, noise = 300, 1500, 600, 12, 0.7, 0.3
    inputs = gs.Inputs([3, 1], [0.2, 0.8], [0.5, 0.5])
    sigma, link = scalar_function(activation), scalar_function(teacher)
    spectrum, psi = Spectrum.of(inputs), derivative_moments(sigma)
    variance = noise**2 + 2 * d * quadratic**2 * spectrum.moment(2)
    by_output = quadratic * (2 * spectrum.eigenvalue + psi.third / (psi.linear or 1) * spectrum.moment(2))
    samples = CorrelatedSamples(
        residual_law(link, 0.0, variance), d / count, moments(link).linear, spectrum, by_output=by_output
    )
    law = correlated_fluctuations(sigma, samples, e, sphere=sphere)
    c = np.repeat(inputs.eigenvalues, inputs.counts(d))
    direction = np.zeros(d)
    direction[[0, d - 1]] = 0.5**0.5
    found, random = [], np.random.default_rng(0)
    for _ in range(draws):
        w = random.standard_normal((neurons, d)) / d**0.5
        rows = (w / np.linalg.norm(w, axis=1, keepdims=True) if sphere else w) * c**0.5
        z = random.standard_normal((count, d))
        r = np.asarray(link(z @ direction)) + noise * random.standard_normal(count)
        r += quadratic * (z**2 @ c - d)
        g = z.T @ r / count
        v = c * g / np.linalg.norm(c * g)
        rows = rows + e * (np.asarray(sigma.derivative(rows @ z.T)) * r) @ z / count * c
        p = rows @ v
        norm = np.square(rows).sum(axis=1) - p**2
        found.append([d * p.var(), d * np.cov(p, norm)[0, 1], d * norm.var()])
    whole = sum(law.norm_variance) + sum(law.slope_square)
    expected = [sum(law.projection_variance) + law.spike_variance, sum(law.covariance), whole]
    mean, error = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / draws**0.5
    # The leading order: single directions have up to 3/300 of a row, and three times as much of its variance.
    scale = np.array([expected[0], (expected[0] * expected[2]) ** 0.5, expected[2]])
    np.testing.assert_array_less(np.abs(mean - expected), 3 * error + 0.06 * scale)
