"""The weighted fit: leave-one-out, the function it maximises, closed forms, and what does not change it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradstep.errors import NotConverged
from gradstep.learning import pool as pools
from gradstep.learning import resolvent
from gradstep.learning.equations import TOLERANCE, WeightedFit, row_errors, weighted_fit
from gradstep.learning.pool import pool_of
from gradstep.learning.resolvent import Resolvent


def refitted(features, targets, weights, ridge):
    gram = (features * weights[:, None]).T @ features + ridge * np.eye(features.shape[1])
    return np.linalg.solve(gram, (features * weights[:, None]).T @ targets)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("count", "width"), [(30, 12), (12, 30)], ids=["more rows", "more features"])
def test_as_many_samples_as_rows_is_leave_one_out(rows, count, width, weighted):
    features, targets, weights = rows(count, width)
    weights = weights if weighted else np.ones(count)
    errors = row_errors(weighted_fit(pool_of(features, targets, weights if weighted else None), count, 0.7))
    out = [np.arange(count) != i for i in range(count)]
    brute = [targets[i] - features[i] @ refitted(features[k], targets[k], weights[k], 0.7) for i, k in enumerate(out)]
    assert errors.test_error == pytest.approx(np.average(np.sum(np.square(brute), axis=1), weights=weights), rel=1e-9)
    rest = targets - features @ refitted(features, targets, weights, 0.7)
    assert errors.training_error == pytest.approx(np.average(np.sum(rest**2, axis=1), weights=weights), rel=1e-9)


@pytest.mark.parametrize("samples", [6, 20, 25, 45, 59, 61, 75])
@pytest.mark.parametrize("ridge", [1e-6, 0.5, 30.0])
def test_weights_solve_their_equation(rows, samples, ridge):
    features, targets, _ = rows()
    if samples > 60 and ridge < 1:
        features = features[:, :10]
    fit = weighted_fit(pool_of(features, targets), samples, ridge)
    gram = (features * fit.weights[:, None]).T @ features + ridge * np.eye(features.shape[1])
    leverage = fit.weights * np.einsum("mi,im->m", features, np.linalg.solve(gram, features.T))
    left_out = leverage / fit.weights / (1 - leverage)
    np.testing.assert_allclose(fit.weights, samples / (60 * (1 + left_out) - samples * left_out), rtol=2 * TOLERANCE)
    assert fit.residual <= TOLERANCE
    assert fit.capped_share == 0


def objective(features, weights, ratio, ridge):
    determinant = np.linalg.slogdet((features * weights[:, None]).T @ features + ridge * np.eye(features.shape[1]))[1]
    return np.sum(ratio * np.log(weights) + (1 - ratio) * np.log(1 - weights)) - determinant


@settings(max_examples=20)
@given(
    seed=st.integers(0, 10**6),
    count=st.integers(4, 25),
    width=st.integers(1, 30),
    share=st.floats(0.05, 0.95),
    power=st.floats(-6, 3),
)
def test_weights_are_the_maximum_of_a_concave_function(seed, count, width, share, power):
    random = np.random.default_rng(seed)
    features = random.standard_normal((count, width)) * random.exponential(1.0, count)[:, None]
    ridge = 10.0**power * np.square(features).sum() / width
    fit = weighted_fit(pool_of(features, random.standard_normal((count, 1))), share * count, ridge)
    best = objective(features, fit.weights, share, ridge)
    for size in (1e-3, 0.1):
        other = np.minimum(fit.weights * np.exp(size * random.standard_normal(count)), 1 - 1e-9)
        assert objective(features, other, share, ridge) < best
    assert fit.weights.min() > 0
    assert fit.weights.max() < share
    errors = row_errors(fit)
    assert (errors.squares >= np.sum(errors.residuals**2, axis=1)).all()  # fits to fewer rows vary more
    assert 0 < errors.training_error <= errors.test_error


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), share=st.floats(0.05, 0.95), power=st.floats(-3, 3))
def test_the_map_of_the_weights_brings_them_closer(seed, share, power):
    random = np.random.default_rng(seed)
    pool = pool_of(random.standard_normal((20, 15)), random.standard_normal((20, 1)))
    ratio, ridge = share, 10.0**power
    first, second = (ratio * random.uniform(0.01, 1.0, 20) for _ in range(2))
    fits = [WeightedFit(ratio, weights, Resolvent(pool, ridge, weights)) for weights in (first, second)]
    before = np.abs(np.log(first / second)).max()
    after = np.abs(np.log(fits[0].own_weights / fits[1].own_weights)).max()
    # The leverages are largest where the weights are least.
    least = np.minimum(first, second)
    most = (1 - ratio) * WeightedFit(ratio, least, Resolvent(pool, ridge, least)).leverage.max()
    assert after <= before * most / (1 + most) * (1 + 1e-9)


def test_newtons_matrix_is_that_of_the_errors(rows):
    """The second derivative of the function, by differences, is the matrix that is inverted for the errors."""
    features, targets, _ = rows(12, 5)
    fit = weighted_fit(pool_of(features, targets), 8, 0.5)
    at, step, units = np.log(fit.weights), 1e-4, np.eye(12)

    def value(moved):
        return objective(features, np.exp(at + moved), 8 / 12, 0.5)

    def second(a, b):
        corners = value(a + b) - value(a - b) - value(b - a) + value(-a - b)
        return corners / (4 * step**2)

    hessian = np.array([[second(step * a, step * b) for a in units] for b in units])
    coupled = np.stack([fit.coupled(unit) for unit in units], axis=1)
    expected = np.diag(fit.remainder) @ (units - fit.missing * coupled) @ np.diag(fit.remainder) / fit.missing
    np.testing.assert_allclose(-hessian, expected, atol=1e-5)


def test_errors_are_the_response_of_the_weights_to_the_loss(rows):
    """Adding s times the smallest loss to the function moves the logarithm of a weight by ``-(M/n - 1) w eps s``."""
    features, targets, _ = rows(40, 10, 1)
    fit = weighted_fit(pool_of(features, targets), 25, 0.5)
    errors = row_errors(fit)
    # One target is like one more feature with a penalty of its own, large compared to its Gram matrix.
    penalty = 1e7
    with_target = weighted_fit(pool_of(np.hstack([features, targets * (0.5 / penalty) ** 0.5]), targets), 25, 0.5)
    moved = (np.log(with_target.weights) - np.log(fit.weights)) * penalty
    expected = -fit.missing * fit.weights * errors.squares
    # The weights are solved to a millionth, and one step of Newton's method beyond.
    np.testing.assert_allclose(moved, expected, rtol=0.02, atol=0.02 * np.abs(expected).max())


def test_blocks_of_rows_are_the_whole(rows, monkeypatch):
    features, targets, weights = rows()

    def estimates():
        errors = row_errors(weighted_fit(pool_of(features, targets, weights), 40, 0.5))
        return errors.test_error, errors.training_error

    whole = estimates()
    monkeypatch.setattr(pools, "_BLOCK", 7 * features.shape[1])
    monkeypatch.setattr(resolvent, "_MOST_PAIRED_ROWS", 0)
    np.testing.assert_allclose(estimates(), whole, rtol=1e-6)


@pytest.mark.parametrize("ratio", [0.1, 0.5, 1.0, 1.5])
def test_a_penalty_without_end_leaves_the_targets(rows, ratio):
    features, targets, _ = rows()
    errors = row_errors(weighted_fit(pool_of(features, targets), ratio * 60, 1e9))
    mean_square = np.mean(np.sum(targets**2, axis=1))
    assert errors.test_error == pytest.approx(mean_square, rel=1e-5)
    assert errors.training_error == pytest.approx(mean_square, rel=1e-5)


@pytest.mark.parametrize("samples", [15, 30, 60, 70])
def test_orthogonal_rows_have_a_closed_form(samples):
    """Rows that share no direction: a fit to other rows predicts zero, and a row of the fit is shrunk by its own."""
    length, ridge, count = 1.5, 4.0, 60
    targets = np.random.default_rng(0).standard_normal((count, 1))
    errors = row_errors(weighted_fit(pool_of(length * np.eye(count), targets), samples, ridge))
    leverage = length**2 / ridge
    np.testing.assert_allclose(errors.fit.leverage, leverage, rtol=1e-6)
    ratio = samples / count
    np.testing.assert_allclose(errors.fit.weights, ratio / (1 + (1 - ratio) * leverage), rtol=1e-6)
    assert errors.test_error == pytest.approx(np.mean(targets**2), rel=1e-6)
    assert errors.training_error == pytest.approx(np.mean(targets**2) / (1 + leverage) ** 2, rel=1e-6)


def marchenko_pastur_errors(samples, width, ridge, signal, noise):
    """Return test and training error of ridge regression on isotropic Gaussian features, in the limit."""
    aspect, penalty = width / samples, ridge / samples
    root = np.sqrt((1 - aspect + penalty) ** 2 + 4 * aspect * penalty)
    first = (root - (1 - aspect + penalty)) / (2 * aspect * penalty)  # Stieltjes transform at -penalty
    step = 1e-6 * penalty

    def transform(x):
        return (np.sqrt((1 - aspect + x) ** 2 + 4 * aspect * x) - (1 - aspect + x)) / (2 * aspect * x)

    second = -(transform(penalty + step) - transform(penalty - step)) / (2 * step)
    test = noise**2 + signal**2 * penalty**2 * second + noise**2 * aspect * (first - penalty * second)
    return test, test / (1 + aspect * first) ** 2


@pytest.mark.parametrize(
    ("samples", "ridge"),
    [
        pytest.param(samples, ridge, marks=() if place % 2 == other else pytest.mark.statistical)
        for place, samples in enumerate([40, 90, 200, 300, 600])
        for other, ridge in enumerate([2.0, 60.0])
    ],
)
def test_isotropic_features_have_the_errors_of_marchenko_and_pastur(samples, ridge):
    count, width, noise = 300, 80, 0.6
    found = []
    for seed in range(24):
        random = np.random.default_rng(seed)
        features = random.standard_normal((count, width))
        beta = random.standard_normal(width)
        beta /= np.linalg.norm(beta)
        targets = features @ beta + noise * random.standard_normal(count)
        errors = row_errors(weighted_fit(pool_of(features, targets[:, None]), samples, ridge))
        found.append((errors.test_error, errors.training_error))
    expected = np.array(marchenko_pastur_errors(samples, width, ridge, 1.0, noise))
    deviation = np.std(found, axis=0, ddof=1) / len(found) ** 0.5
    # The limit itself is off by about one part in the number of features.
    z = (np.mean(found, axis=0) - expected) / np.hypot(deviation, expected / width)
    assert (np.abs(z) < 3.5).all()


def test_more_than_the_pool_tells_is_refused():
    random = np.random.default_rng(0)
    features = random.standard_normal((30, 60))
    pool = pool_of(features, random.standard_normal((30, 1)))
    with pytest.raises(NotConverged, match=r"n = 60, ridge = 0\.01 ask for more than the pool tells.*fewer samples"):
        weighted_fit(pool, 60, 0.01)


def test_next_to_interpolation_without_a_penalty(rows):
    features, targets, _ = rows(200, 40)
    pool = pool_of(features, targets)
    errors = [row_errors(weighted_fit(pool, n, 1e-6)).test_error for n in (20, 38, 40, 42, 80)]
    assert np.argmax(errors) == 2
    assert errors[2] > 20 * errors[-1]
