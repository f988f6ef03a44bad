"""One weight for all rows: its equation, leave-one-out, the limit of many directions, and rows that are alike."""

import numpy as np
import pytest

from gradstep.learning.equal_weights import equal_fits, left_out_errors
from gradstep.learning.equations import row_errors, weighted_fit
from gradstep.learning.pool import pool_of


def hadamard(order):
    design = np.ones((1, 1))
    for _ in range(order):
        design = np.kron(design, [[1.0, 1.0], [1.0, -1.0]])
    return design


def test_weights_solve_their_equation(rows):
    features, targets, weights = rows()
    pool = pool_of(features, targets, weights)
    samples, ridges = np.meshgrid([1.0, 7.0, 30.0, 59.0, 60.0], [1e-9, 0.3, 1e3])
    found = equal_fits(pool, samples.ravel(), ridges.ravel())
    eigenvalues = np.linalg.eigvalsh((features * weights[:, None]).T @ features)[:, None]
    kept = (found.weights * eigenvalues / (ridges.ravel() + found.weights * eigenvalues)).sum(axis=0) / 60
    np.testing.assert_allclose((1 - found.weights) * (1 - kept), 1 - samples.ravel() / 60, atol=1e-12)
    assert (found.errors > 0).all()


@pytest.mark.parametrize("samples", [10.0, 40.0, 64.0])
@pytest.mark.parametrize("ridge", [1e-3, 5.0])
def test_rows_of_one_leverage_have_the_errors_of_the_whole_equations(samples, ridge):
    """Rows of a Hadamard matrix all have the same leverage, and sums over pairs of rows need their mean alone."""
    features, random = hadamard(6)[:, :20], np.random.default_rng(0)
    targets = np.column_stack([features[:, 0] + random.standard_normal(64), random.standard_normal(64)])
    pool = pool_of(features, targets)
    whole = row_errors(weighted_fit(pool, samples, ridge))
    found = equal_fits(pool, np.array([samples]), np.array([ridge]))
    np.testing.assert_allclose(whole.fit.weights, found.weights[0], rtol=1e-6)
    assert found.errors[0, 0] == pytest.approx(whole.test_error, rel=1e-6)
    assert found.errors[1, 0] == pytest.approx(whole.training_error, rel=1e-6)


def test_left_out_errors_are_those_of_refits_without_each_row(rows):
    features, targets, weights = rows(40, 12)
    found = left_out_errors(pool_of(features, targets, weights), np.array([0.2, 7.0]))
    scaled, wanted = features * np.sqrt(weights)[:, None], targets * np.sqrt(weights)[:, None]
    for place, ridge in enumerate((0.2, 7.0)):
        missed = []
        for out in range(40):
            phi, y = np.delete(scaled, out, axis=0), np.delete(wanted, out, axis=0)
            readout = np.linalg.solve(phi.T @ phi + ridge * np.eye(12), phi.T @ y)
            missed.append(np.square(wanted[out] - scaled[out] @ readout).sum())
        assert found[0, place] == pytest.approx(np.sum(missed) / weights.sum(), rel=1e-10)
        readout = np.linalg.solve(scaled.T @ scaled + ridge * np.eye(12), scaled.T @ wanted)
        assert found[1, place] == pytest.approx(np.square(wanted - scaled @ readout).sum() / weights.sum(), rel=1e-10)


def test_isotropic_features_have_the_closed_form_of_random_matrices():
    """Noise alone, n isotropic rows: E error = noise (1 + N/(n - N - 1)) with next to no penalty."""
    random, count, width = np.random.default_rng(3), 4000, 40
    features = random.standard_normal((count, width))
    targets = random.standard_normal((count, 1))
    samples = np.array([100.0, 400.0, 2000.0])
    found = equal_fits(pool_of(features, targets), samples, np.full(3, 1e-6))
    np.testing.assert_allclose(found.errors[0] / np.square(targets).mean(), 1 + width / (samples - width), rtol=0.05)
    np.testing.assert_allclose(found.errors[1] / np.square(targets).mean(), 1 - width / samples, rtol=0.05)
