"""Numbers of a damped step that differ between draws: drawn samples, and the plain step as a limit."""

import math

import numpy as np
import pytest

import gradstep as gs
from gradstep.gaussian import moments, scalar_function
from gradstep.theory.step.correlated_samples import CorrelatedSamples, Spectrum
from gradstep.theory.step.damped_samples import DampedSamples
from gradstep.theory.step.direction_draws import direction_draws
from gradstep.theory.step.weighted_samples import residual_law

INPUTS, TEACHER, NOISE = gs.Inputs([6, 1, 0.2], [0.1, 0.5, 0.4], [0.5, 0.2, 0.3]), "sin(1.5*x)+0.3*x**2", 0.3


def samples_of(damping: float, ratio: float) -> DampedSamples:
    link = scalar_function(TEACHER)
    plain = CorrelatedSamples(residual_law(link, 0.1, NOISE**2), ratio, moments(link).linear, Spectrum.of(INPUTS))
    return DampedSamples(plain, damping)


def test_a_large_damping_has_the_covariances_of_the_plain_step():
    # C g is a sum of samples: its part along bt, and the noise off it, whose length is a sum of chi-squares.
    ratio, count = 0.8, 1000.0
    samples = samples_of(1e9, ratio)
    law, known, mu = samples.law, samples.spectrum, samples.linear
    c, teacher = known.eigenvalue, known.teacher
    r, u, square = law.residual, law.projection, law.square
    one, two, three, four = (float(teacher @ c**k) for k in (1, 2, 3, 4))
    values = np.stack([one * r * u, r**2, r, 2 * mu * two * r * u + ratio * known.moment(2) * r**2])
    values = values - (values @ law.weight)[:, None]
    expected = (law.weight * values) @ values.T
    expected[0, 0] += square * (two - one**2)
    expected[0, 3] += 2 * mu * square * (three - one * two)
    expected[3, 0] = expected[0, 3]
    expected[3, 3] += 4 * mu**2 * square * (four - two**2) + 2 * ratio * square**2 * known.moment(4)
    found = direction_draws(samples, count)
    np.testing.assert_allclose(found.covariance * count, expected, rtol=1e-7)
    np.testing.assert_allclose(found.mean, [mu * one, square, law.mean(r), samples.plain.form(2)], rtol=1e-7)
    assert found.square_slope == pytest.approx(ratio * known.moment(2), rel=1e-7)


@pytest.mark.parametrize("damping", [1.0, pytest.param(0.1, marks=pytest.mark.statistical)])
def test_drawn_samples(damping):
    d, count, draws = 100, 150, 800
    samples, random, link = samples_of(damping, d / count), np.random.default_rng(5), scalar_function(TEACHER)
    sizes = INPUTS.counts(d)
    inverse, teacher = 1 / np.repeat(INPUTS.eigenvalues, sizes), np.zeros(d)
    teacher[np.cumsum(sizes) - 1] = np.sqrt(INPUTS.teacher)
    found = np.empty((draws, 4))
    for row in found:
        z = random.standard_normal((count, d))
        r = np.asarray(link(z @ teacher)) - 0.1 + NOISE * random.standard_normal(count)
        theta = (1 + damping) * np.linalg.solve(z.T @ z / count + damping * np.diag(inverse), z.T @ r / count)
        row[:] = theta @ teacher, np.mean(r**2), np.mean(r), theta @ theta
    off, expected = found - found.mean(axis=0), direction_draws(samples, count).covariance
    products = off[:, :, None] * off[:, None]
    score = (products.mean(axis=0) - expected) / (products.std(axis=0) / math.sqrt(draws))
    # Terms of the order of one over the number of samples are left out.
    assert np.all(np.abs(score) < 4), score
