"""Orthogonal polynomials of laws on points: Gauss rules in closed form, and laws of few points."""

import numpy as np
import pytest

from gradstep.gaussian.orthogonal_polynomials import orthogonal_polynomials


def test_the_rule_of_a_uniform_law_is_that_of_legendre():
    x, weight = np.polynomial.legendre.leggauss(40)
    jacobi, known = orthogonal_polynomials(x, weight / 2, np.stack([x, x**2]), 6)
    nodes, vectors = np.linalg.eigh(jacobi)
    expected, expected_weight = np.polynomial.legendre.leggauss(6)
    np.testing.assert_allclose(nodes, expected, atol=1e-14)
    np.testing.assert_allclose(vectors[0] ** 2, expected_weight / 2, rtol=1e-12)
    # The projections on normalised Legendre polynomials: x = P_1 / sqrt(3) and x^2 = 1/3 + 2 P_2 / (3 sqrt(5)).
    np.testing.assert_allclose(known[0], [0, 1 / np.sqrt(3), 0, 0, 0, 0], atol=1e-14)
    np.testing.assert_allclose(known[1], [1 / 3, 0, 2 / (3 * np.sqrt(5)), 0, 0, 0], atol=1e-14)


@pytest.mark.parametrize("points", [1, 2, 3])
def test_a_law_of_few_points_is_its_own_rule(points):
    x, law = np.array([0.3, 2.0, 5.0])[:points], np.array([0.5, 0.2, 0.3])[:points]
    nodes, vectors = np.linalg.eigh(orthogonal_polynomials(x, law / law.sum(), x, 5)[0])
    weight = vectors[0] ** 2
    kept = weight > 1e-12
    np.testing.assert_allclose(nodes[kept], x, rtol=1e-12)
    np.testing.assert_allclose(weight[kept], law / law.sum(), rtol=1e-12)
