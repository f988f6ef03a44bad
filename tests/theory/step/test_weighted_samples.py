"""The law of a sample's residual against moments that are known."""

import numpy as np
import pytest

from gradstep.gaussian import moments, scalar_function
from gradstep.theory.step.weighted_samples import Residual, WeightedSamples, noise_nodes, residual_law


@pytest.mark.parametrize("teacher", ["tanh", "relu", "sin(10*x)", "tanh(20*x)", "tanh(500*x)", "H6", "H12", "cos(3*x)"])
@pytest.mark.parametrize("noise_variance", [0.0, 0.3])
def test_mean_and_mean_square(teacher, noise_variance):
    function, offset = scalar_function(teacher), 0.4
    m, law = moments(function), residual_law(function, offset, noise_variance)
    square = m.second_moment - 2 * offset * m.mean + offset**2 + noise_variance
    assert law.square == pytest.approx(square, rel=2e-5)
    assert law.mean(law.residual) == pytest.approx(m.mean - offset, abs=1e-5 * m.second_moment**0.5)
    assert law.mean(law.residual * law.projection) == pytest.approx(m.linear, abs=1e-5 * m.second_moment**0.5)


def test_fourth_moments():
    """E H_k^4 for k = 2, 3 and of a sine: closed forms."""
    for teacher, fourth in (("H2", 60), ("H3", 3348), ("sin(10*x)", 3 / 8)):
        law = residual_law(scalar_function(teacher), 0.0, 0.0)
        assert law.mean(law.residual**4) == pytest.approx(fourth, rel=1e-4)


def test_labels_of_noise_alone():
    law = residual_law(scalar_function("0*x"), 0.0, 0.25)
    assert law.square == pytest.approx(0.25, rel=1e-12)


@pytest.mark.parametrize("teacher", ["x", "sin(x)+0.3*x**2", "x**3-2*x"])
@pytest.mark.parametrize(("deviation", "ratio"), [(0.05, 0.6), (0.1, 0.3), (0.25, 0.05)])
def test_few_nodes_of_a_small_noise_are_enough(teacher, deviation, ratio):
    function = scalar_function(teacher)
    few = noise_nodes(deviation**2 / (deviation**2 + moments(function).second_moment), ratio)
    assert few < noise_nodes(1.0, ratio)
    # Where laws are taken for rows of which the step adds up to a hundred times what they had: the squares, and rows
    # that are stretched by the samples themselves.
    level, found = np.geomspace(1e-2, 1e3, 6), []
    for nodes in (few, 60):
        law = residual_law(function, 0.2, deviation**2, nodes)
        by_square = WeightedSamples(law, law.relative_squares, ratio).transform(-level * (1 - 0.5j))
        found.append([by_square, WeightedSamples(law, law.residual, ratio).transform(-1 + 1j * np.sqrt(level))])
    np.testing.assert_allclose(*found, rtol=1e-9)


def test_noise_that_is_not_small_has_as_many_nodes_as_the_samples_need():
    assert noise_nodes(0.01, 0.69) == noise_nodes(0.2, 0.1) == 20
    assert noise_nodes(0.01, 0.71) == noise_nodes(0.5, 1.49) == 40
    assert noise_nodes(0.01, 1.51) == noise_nodes(0.5, 30.0) == 80


@pytest.mark.parametrize("ratio", [1.0, 2.5])
def test_few_samples_of_the_step_need_more_nodes(ratio):
    """Near the real axis, where rows have their poles of which the step adds much."""
    function, points = scalar_function("sin(x)"), np.linspace(-1, 1, 5) + 0.4j * (1 + ratio)
    found = []
    for nodes in (20, noise_nodes(0.7, ratio), 320):
        law = residual_law(function, 0.0, 1.0, nodes)
        found.append(WeightedSamples(law, law.residual, ratio).transform(points))
    few, enough, many = found
    np.testing.assert_allclose(enough, many, rtol=1e-6)
    assert np.abs(few / many - 1).max() > 1e-5


@pytest.mark.parametrize("ratio", [0.4, 2.5])
def test_diagonals_of_other_weights_are_those_of_drawn_samples(ratio):
    """The same samples with squared weights, in the eigenbasis of the first: its parabola, and the rest of it."""
    d, count, random = 300, round(300 / ratio), np.random.default_rng(1)
    weight = 0.3 + random.standard_normal(count)
    law = Residual(random.standard_normal(count), weight, np.full(count, 1 / count))
    squares, samples = law.relative_squares, WeightedSamples(law, weight, ratio, None, 0.0)
    parabola, found = samples.diagonal(squares), []
    for _ in range(12):
        x = random.standard_normal((count, d))
        values, vectors = np.linalg.eigh((x.T * weight) @ x / count)
        other = vectors.T @ ((x.T * squares) @ x / count) @ vectors
        powers = np.vander(values, 3, increasing=True)
        apart = other - np.diag(powers @ parabola)
        # The parabola is the nearest one if what is left of the diagonal has no product with powers of the eigenvalue.
        found.append([*(powers.T @ np.diag(apart) / d), np.sum(apart**2) / d, *(powers.T @ np.diag(other) / d)])
    mean, error = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / np.sqrt(len(found))
    size = np.array([*np.abs(mean[4:]), mean[3]])
    expected = [0, 0, 0, samples.off_diagonal(squares)]
    # Terms of the order 1/d are left out.
    assert np.all(np.abs(mean[:4] - expected) < 3.5 * error[:4] + 2 * size / d), (mean[:4], expected, error[:4])
