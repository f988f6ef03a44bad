"""Influences of rows: derivatives by differences, and the errors without the row."""

import numpy as np
import pytest

import gradstep as gs
from gradstep.learning import resolvent
from gradstep.learning.equations import row_errors, weighted_fit
from gradstep.learning.pool import pool_of
from gradstep.learning.standard_error import (
    increment_response,
    influence_on_test_error,
    influence_on_training_error,
    influences_on_errors,
    pair_variances,
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


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("interpolate", [True, False])
def test_standard_errors_next_to_interpolation(interpolate, paired, monkeypatch):
    """With more features than rows and hardly any penalty a row of n = M keeps a millionth of its residual."""
    monkeypatch.setattr(resolvent, "_MOST_PAIRED_ROWS", 4000 if paired else 0)
    random = np.random.default_rng(0)
    features, (signal, noise) = random.standard_normal((60, 200)), random.standard_normal((2, 200))
    targets = features @ signal / 200**0.5 + 0.3 * noise[:60]
    mean = np.square(features).sum() / 200
    ridges = mean * np.array([1e-6, 1e-5, 1e-4, 1e-3, 1e-2])
    curve = gs.learning_curve(features, targets, n=[10, 20, 40, 60], ridge=ridges, interpolate=interpolate)
    found = curve.test_standard_error[-1] * 60**0.5

    def error(without, ridge):
        phi, y = np.delete(features, without, axis=0), np.delete(targets, without)
        inverse = np.linalg.inv(phi @ phi.T + ridge * np.eye(len(y)))
        return np.square(inverse @ y / np.diag(inverse)).mean()

    pseudo = [[60 * error([], ridge) - 59 * error(j, ridge) for ridge in ridges] for j in range(60)]
    deviation = np.std(pseudo, axis=0)
    # What pairs of rows bring counts once: at most half of the square.
    assert ((found > 0.65 * deviation) & (found < deviation)).all()
    np.testing.assert_allclose(found[:3], found[0], rtol=1e-3)
    assert np.isfinite(curve.test_standard_error).all()


def test_a_feature_of_one_row_does_not_spoil_the_standard_error():
    """Without a penalty to speak of it fits its row exactly: of n = M it keeps a millionth of its residual."""
    random = np.random.default_rng(1)
    features, targets = random.standard_normal((300, 10)), random.standard_normal(300)
    targets += features[:, 0]
    alone = np.column_stack([features, np.arange(300) == 0])
    sizes, ridges = [150, 200, 250, 300], np.array([1e-6, 2e-6, 4e-6, 8e-6])
    curves = [gs.learning_curve(each, targets, n=sizes, ridge=ridges) for each in (features, alone)]
    with_it, without_it = (curve.test_standard_error[-1] for curve in curves)
    np.testing.assert_allclose(with_it, without_it, rtol=0.05)


def test_targets_of_noise_have_the_deviation_of_a_mean_square():
    """With a penalty that shrinks everything to zero the test error is the mean square of the targets."""
    random = np.random.default_rng(0)
    features, targets = random.standard_normal((500, 5)), random.standard_normal((500, 1))
    errors = row_errors(weighted_fit(pool_of(features, targets), 200, 1e9))
    for influence in (influence_on_test_error, influence_on_training_error):
        np.testing.assert_allclose(influence(errors), (targets**2 - np.mean(targets**2))[:, 0], atol=1e-4)


@pytest.mark.parametrize(
    ("width", "ridge", "training"),
    [
        pytest.param(6, 0.3, False, marks=pytest.mark.statistical),
        (10, 5.0, True),
        pytest.param(6, 0.3, True, marks=pytest.mark.statistical),
        pytest.param(10, 5.0, False, marks=pytest.mark.statistical),
    ],
)
def test_pairs_are_second_differences(width, ridge, training):
    """What two rows bring together is the second difference of leave-one-out sums when both are left out."""
    random, count = np.random.default_rng(1), 120
    features = random.standard_normal((count, width))
    targets = features[:, 0] + random.standard_normal(count)

    def total(*without):
        phi, y = np.delete(features, without, axis=0), np.delete(targets, without)
        hat = phi @ np.linalg.solve(phi.T @ phi + ridge * np.eye(width), phi.T)
        return np.sum(((y - hat @ y) / (1.0 if training else 1 - np.diag(hat))) ** 2)

    single = [total(j) for j in range(count)]
    pairs = [total(j, k) - single[j] - single[k] + total() for j in range(count) for k in range(j)]
    errors = row_errors(weighted_fit(pool_of(features, targets[:, None]), count, ridge))
    share = (1 + errors.fit.leverage) ** -2.0 if training else np.ones(count)
    square = (errors.residuals**2).sum(axis=1)
    mean_fit = square.sum() / (square + errors.fit.spread(square)).sum()
    (found,) = pair_variances(errors, share[:, None], count)
    assert found == pytest.approx(mean_fit * np.square(pairs).sum(), rel=0.05)


def test_transposed_spread(rows):
    features, targets, weights = rows()
    fit = weighted_fit(pool_of(features, targets, weights), 40, 5.0)
    first, second = np.random.default_rng(0).standard_normal((2, len(targets)))
    assert first @ fit.spread(second) == pytest.approx(second @ fit.gathered(first))


def test_standard_errors_of_noise_fitted_by_many_directions():
    """There are half as many directions as rows: pairs of rows make the influences' standard errors much too large."""
    estimates, variances, single = [], [], []
    for seed in range(400):
        random = np.random.default_rng(seed)
        features, targets = random.standard_normal((80, 40)), random.standard_normal((80, 1))
        errors = row_errors(weighted_fit(pool_of(features, targets), 80, 4.0))
        estimates.append(errors.test_error)
        single.append(np.square(influence_on_test_error(errors)).mean() / 80)
        variances.append(np.square(influences_on_errors(errors)[0]).mean() / 80)
    scatter = np.var(estimates, ddof=1)
    uncertainty = np.std(np.square(estimates - np.mean(estimates)), ddof=1) / len(estimates) ** 0.5
    assert (np.mean(single) - scatter) / uncertainty > 4
    assert abs(np.mean(variances) - scatter) / uncertainty < 3
