"""Few samples: errors of fits to parts of the pool."""

from itertools import combinations

import numpy as np
import pytest

import gradstep as gs
from gradstep.learning.parts import has_parts, measured_errors
from gradstep.learning.pool import pool_of


def fit_errors(features, targets, train, ridge):
    """Return the mean square on all other rows and on those of a fit."""
    train = list(train)
    others = np.setdiff1d(np.arange(len(targets)), train)
    gram = features[train].T @ features[train] + ridge * np.eye(features.shape[1])
    missed = targets - features @ np.linalg.solve(gram, features[train].T @ targets[train])
    square = np.square(missed).sum(axis=1)
    return square[others].mean(), square[train].mean()


def test_mean_over_all_choices_of_rows(rows):
    features, targets, _ = rows(12, 5)
    ridges = np.array([0.1, 3.0])
    mean, deviations = measured_errors(pool_of(features, targets), 3, ridges)
    error = np.sqrt(np.square(deviations).sum(axis=0))
    for k, ridge in enumerate(ridges):
        every = [fit_errors(features, targets, train, ridge) for train in combinations(range(12), 3)]
        assert np.abs((mean[:, k] - np.mean(every, axis=0)) / error[:, k]).max() < 3.5


def test_single_rows_leave_nothing_to_chance(rows):
    """A part of one row is the same in every division, and its residual is known."""
    features, targets, _ = rows(30, 5)
    mean, deviations = measured_errors(pool_of(features, targets), 1, np.array([2.0]))
    known = np.sum(np.square(targets), axis=1) / (1 + np.sum(np.square(features), axis=1) / 2.0) ** 2
    every = [fit_errors(features, targets, [j], 2.0)[0] for j in range(30)]
    np.testing.assert_allclose(mean[:, 0], [np.mean(every), known.mean()], rtol=1e-10)
    assert np.abs(deviations / mean).max() < 1e-10


def test_weights_are_repeated_rows_that_are_drawn_together(rows):
    """A row of weight four is a row of twice the length; the errors are divided by the mean weight."""
    features, targets, _ = rows(40, 5)
    weights, ridges = np.random.default_rng(0).choice([1.0, 4.0], 40), np.array([2.0])
    found, _ = measured_errors(pool_of(features, targets, weights), 10, ridges)
    root = np.sqrt(weights)[:, None]
    longer, _ = measured_errors(pool_of(root * features, root * targets), 10, ridges)
    np.testing.assert_allclose(found, longer / weights.mean(), rtol=1e-9)


def test_curves_have_them_where_samples_are_few(rows):
    features, targets, _ = rows(60, 12)
    curve = gs.learning_curve(features, targets, n=[20, 25, 40, 60], ridge=[0.5, 5.0])
    for place, n in enumerate([20, 25]):
        mean, deviations = measured_errors(pool_of(features, targets), n, curve.ridge)
        np.testing.assert_allclose(curve.test_error[place], mean[0], rtol=1e-9)
        np.testing.assert_allclose(curve.training_error[place], mean[1], rtol=1e-9)
        assert (curve.test_standard_error[place] > np.sqrt(np.square(deviations).sum(axis=0))[0]).all()
    variances = np.einsum("abab->ab", curve.test_covariance)
    np.testing.assert_allclose(variances, curve.test_standard_error**2)
    assert np.linalg.eigvalsh(curve.test_covariance.reshape(8, 8)).min() > -1e-9 * variances.max()
    assert [has_parts(n, 60) for n in (1, 2, 30, 31, 60)] == [False, True, True, False, False]
    assert not has_parts(65, 1000)


@pytest.mark.statistical
def test_training_errors_of_fits_that_interpolate():
    """As many samples as random features have linear directions: the equations are 7 % too low here."""
    random = np.random.default_rng(0)
    weights = random.standard_normal((80, 20)) / 20**0.5

    def rows(count):
        x = random.standard_normal((count, 20))
        return np.tanh(x @ weights.T), np.sin(x[:, 0]) + 0.3 * random.standard_normal(count)

    refits = []
    for _ in range(2000):
        features, targets = rows(20)
        duals = np.linalg.solve(features @ features.T + 0.01 * np.eye(20), targets)
        refits.append(np.mean(np.square(0.01 * duals)))
    curves = [gs.learning_curve(*rows(200), n=20, ridge=0.01) for _ in range(60)]
    estimates = np.array([curve.training_error[0, 0] for curve in curves])
    errors = np.array([curve.training_standard_error[0, 0] for curve in curves])
    scatter = np.hypot(np.std(refits) / len(refits) ** 0.5, estimates.std(ddof=1) / len(estimates) ** 0.5)
    assert abs(np.mean(refits) - estimates.mean()) < 3 * scatter
    assert 0.75 < np.sqrt(np.mean(errors**2)) / estimates.std(ddof=1) < 1.35
