"""What is tested before the theory of isotropic Gaussian inputs is shown."""

import math

import numpy as np
import pytest
from scipy.special import ndtri

from gradstep.estimators.assumptions import broken_by_errors, correlation_excess, gaussianity

EVEN = (np.arange(4000) + 0.5) / 4000


def equal(z):
    return np.full(len(z), 1 / len(z))


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (ndtri(EVEN), 1.0),
        (np.sign(EVEN - 0.5), 2 / math.pi),  # E |x|
        (EVEN, 3 / math.pi),
        (np.maximum(ndtri(EVEN), 0), 0.5 / (1 - 1 / math.pi)),  # E x max(x, 0) = 1/2
    ],
)
def test_gaussianity_of_known_laws(column, expected):
    assert gaussianity(column[:, None], equal(column)) == pytest.approx(expected, abs=0.012)


def test_gaussianity_of_weights_is_that_of_copies():
    column = np.array([[-1.0], [0.3], [2.0], [0.3]])
    weights = np.array([1, 2, 1, 3])
    copies = np.repeat(column, weights, axis=0)
    assert gaussianity(column, weights / 7) == pytest.approx(gaussianity(copies, equal(copies)))
    assert gaussianity(np.zeros((4, 2)), equal(column)) == 1.0


def test_excess_of_equal_correlations():
    """With correlation r between any two of d columns, d - 1 times r^2."""
    basis = np.linalg.qr(np.random.default_rng(0).standard_normal((400, 13)))[0] * 20  # columns of mean square one
    z = math.sqrt(0.7) * basis[:, 1:] + math.sqrt(0.3) * basis[:, :1]
    expected = 11 * 0.3**2 - 11 / 400
    assert correlation_excess(z, equal(z), 1 / len(z)) == pytest.approx(expected)
    copies = np.repeat(z, 4, axis=0)
    assert correlation_excess(copies, equal(copies), 1 / len(z)) == pytest.approx(expected)


@pytest.mark.parametrize(("n", "d"), [(60, 200), (200, 20), (1000, 30)])
def test_independent_columns_have_no_excess(n, d):
    random = np.random.default_rng(n)
    found = []
    for _ in range(20):
        z = random.standard_normal((n, d))
        z = (z - z.mean(axis=0)) / z.std(axis=0)
        found.append(correlation_excess(z, equal(z), 1 / len(z)))
    assert max(found) < 0.05 or n < d
    error = np.std(found, ddof=1) / math.sqrt(20)
    # A squared correlation of n centred rows has mean 1 / (n - 1), not 1 / n.
    assert abs(np.mean(found) - (d - 1) * (1 / (n - 1) - 1 / n)) < 4 * error


def test_errors_that_agree_and_do_not():
    random = np.random.default_rng(0)
    squares, weights, groups = random.standard_normal(500) ** 2, np.ones(500), np.arange(500)
    assert broken_by_errors(1.2, squares, weights, groups) == ""
    for wrong in (2.0, 0.5):
        assert f"has the error {wrong:.4f}" in broken_by_errors(wrong, squares, weights, groups)
    # Ten copies of each row tell no more than one.
    few = np.repeat(squares[:50], 10)
    assert broken_by_errors(1.3, few, weights, np.repeat(groups[:50], 10)) == ""
    assert broken_by_errors(1.3, few, weights, groups) != ""
