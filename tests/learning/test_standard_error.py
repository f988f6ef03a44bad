"""Influences of rows: derivatives by differences, and the errors without the row."""

import numpy as np
import pytest

from gradstep.learning.equations import row_errors, weighted_fit
from gradstep.learning.pool import pool_of
from gradstep.learning.standard_error import (
    increment_response,
    influence_on_test_error,
    influence_on_training_error,
)


@pytest.mark.parametrize("samples", [20, 45, 60, 75])
@pytest.mark.parametrize("ridge", [8.0, 40.0])
def test_response_to_the_penalty_is_a_derivative(rows, samples, ridge):
    features, targets, weights = rows()
    pool = pool_of(features, targets, weights)

    def increments(penalty):
        errors = row_errors(weighted_fit(pool, samples, penalty))
        return errors.squares / (1 + errors.fit.leverage), errors

    step = 3e-3 * ridge
    difference = (increments(ridge + step)[0] - increments(ridge - step)[0]) / (2 * step)
    found = increment_response(increments(ridge)[1], ridge=1.0, tolerance=1e-9)
    np.testing.assert_allclose(found, difference, atol=2e-4 * np.abs(difference).max())


@pytest.mark.parametrize("samples", [20, 60])
def test_influences_are_those_of_leaving_a_row_out(rows, samples):
    """The first order in one over the number of rows: here the estimate without a row is computed anew."""
    count, ridge = 120, 5.0
    features, targets, weights = rows(count, 15)

    def estimates(kept):
        pool = pool_of(features[kept], targets[kept], weights[kept])
        n = len(kept) if samples == 60 else samples
        errors = row_errors(weighted_fit(pool, n, ridge))
        return np.array([errors.test_error, errors.training_error]), errors

    everything = np.arange(count)
    whole, errors = estimates(everything)
    pseudo = np.array([count * whole - (count - 1) * estimates(np.delete(everything, j))[0] for j in everything])
    for values, influence in zip(pseudo.T, (influence_on_test_error, influence_on_training_error), strict=True):
        found = influence(errors)
        assert abs(found.mean()) < 1e-9 * found.std()
        assert np.corrcoef(values, found)[0, 1] > 0.995
        assert found.std() == pytest.approx(values.std(), rel=0.05)


def test_targets_of_noise_have_the_deviation_of_a_mean_square():
    """With a penalty that shrinks everything to zero the test error is the mean square of the targets."""
    random = np.random.default_rng(0)
    features, targets = random.standard_normal((500, 5)), random.standard_normal((500, 1))
    errors = row_errors(weighted_fit(pool_of(features, targets), 200, 1e9))
    for influence in (influence_on_test_error, influence_on_training_error):
        np.testing.assert_allclose(influence(errors), (targets**2 - np.mean(targets**2))[:, 0], atol=1e-4)
