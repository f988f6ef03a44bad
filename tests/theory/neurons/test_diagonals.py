"""Diagonals as functions of an eigenvalue: matrices that are known, drawn ones, and vectors with a law of their own."""

import numpy as np
import pytest

from gradstep.theory.neurons.diagonals import nearest_diagonals

SIZE = 300
Z = np.concatenate([-np.geomspace(0.01, 100, 16) * (1 - 0.5j), 1.2 + 0.4 * (np.array([-1, 0, 1, 2.5]) + 1j)])


def law(values, weights):
    """Return the transform at the points and its derivative."""
    turned = 1 / (values - Z[:, None])
    return turned @ weights, turned**2 @ weights


def drawn(seed=0):
    """Return a matrix A, of samples, and one that does not commute with it."""
    x = np.random.default_rng(seed).standard_normal((2 * SIZE, SIZE))
    weight = np.linspace(0.2, 1.8, 2 * SIZE)
    b, s = (x.T * (weight - 0.5)) @ x / len(x), (x.T * weight**2) @ x / len(x)
    return np.eye(SIZE) + 0.6 * b + 0.1 * s, b


def found(matrix, *others):
    values, basis = np.linalg.eigh(matrix)
    along = np.stack([np.einsum("ij,ij->j", basis, other @ basis) for other in others])
    means, resolved = along.mean(axis=1), along @ (1 / (values - Z[:, None])).T / SIZE
    return nearest_diagonals(Z, *law(values, np.full(SIZE, 1 / SIZE)), means, resolved), values, along


def test_functions_of_the_matrix_are_their_own_diagonals():
    a, _ = drawn()
    diagonals, values, along = found(a, 2.5 * np.eye(SIZE), a, np.linalg.inv(a + 0.3 * np.eye(SIZE)))
    # Rounding is enlarged by the condition of the functions' products, and differs with the number of BLAS threads.
    np.testing.assert_allclose(diagonals.at(values)[0], 2.5, rtol=1e-10)
    assert np.all((diagonals.at(values) - along)[1:].std(axis=1) < 5e-3 * along[1:].std(axis=1))


def test_the_diagonal_of_a_drawn_matrix_is_the_mean_over_neighbours():
    a, b = drawn()
    diagonals, values, along = found(a, b)
    # Means over thirty neighbours, less the function and less a line.
    line = np.polyval(np.polyfit(values, along[0], 1), values)
    means = [np.abs((each - along[0]).reshape(10, -1).mean(axis=1)) for each in (diagonals.at(values)[0], line)]
    assert means[0].max() < 0.1 * means[1].max()


def test_means_with_functions_of_the_matrix_are_exact():
    a, b = drawn()
    diagonals, values, along = found(a, b)
    for z in (*Z[:3], -0.7 + 0.2j):
        assert (diagonals.at(values)[0] - along[0]) @ (1 / (values - z)) == pytest.approx(0, abs=1e-3)


def test_along_vectors_with_another_law():
    a, b = drawn()
    diagonals, values, _ = found(a, b, a)
    weights = np.exp(-values) / np.exp(-values).sum()
    means, resolved = diagonals.along(*law(values, weights))
    np.testing.assert_allclose(means, diagonals.at(values) @ weights, rtol=1e-9)
    np.testing.assert_allclose(resolved, (diagonals.at(values) * weights) @ (1 / (values - Z[:, None])).T, rtol=1e-8)


def test_mean_squares_over_a_law():
    a, b = drawn()
    diagonals, values, _ = found(a, b, a)
    weights = np.exp(-values) / np.exp(-values).sum()
    squares = diagonals.mean_squares(*law(values, weights))
    np.testing.assert_allclose(squares, diagonals.at(values) ** 2 @ weights, rtol=1e-7)


def test_a_law_that_is_a_point():
    # At one of the points the real part of a function is zero there.
    diagonals = nearest_diagonals(Z, *law(np.full(3, 1.2), np.full(3, 1 / 3)), np.array([0.7]), 0.7 / (1.2 - Z[None]))
    assert diagonals.at(np.array([1.2]))[0, 0] == pytest.approx(0.7, rel=1e-12)
