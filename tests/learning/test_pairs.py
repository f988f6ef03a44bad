"""Many pairs of n and ridge: interpolated between solved ones, against all of them solved."""

import math
from contextlib import suppress

import numpy as np
import pytest

import gradstep as gs
from gradstep.errors import NotConverged
from gradstep.learning import pairs
from gradstep.learning.equations import WeightedFit, diagonal_fits, row_errors, weighted_fit
from gradstep.learning.interpolation import lattice, refined, refined_at_once
from gradstep.learning.pool import pool_of


def rows(kind, count=150, width=40, seed=0):
    """Return features and targets: random features, after a step, with heavy tails, with fewer rows than features."""
    random = np.random.default_rng(seed)
    weights = random.standard_normal((width, 30)) / 30**0.5
    inputs = random.standard_normal((count, 30))
    if kind == "after a step":
        weights[:, 0] += 2 * random.standard_normal(width)
    if kind == "heavy tails":
        inputs *= np.sqrt(4 / random.chisquare(4, count))[:, None]
    features = np.maximum(inputs @ weights.T, 0.0) if kind == "heavy tails" else np.tanh(inputs @ weights.T)
    return features, np.sin(2 * inputs[:, 0]) + 0.3 * random.standard_normal(count)


def both(features, targets, monkeypatch, **options):
    """Return the curve, the curve with every pair solved, and how many of the first were solved."""
    solved, original = [], pairs.weighted_fit

    def counted(*arguments, **options):
        solved.append(arguments)
        return original(*arguments, **options)

    monkeypatch.setattr(pairs, "weighted_fit", counted)
    found = gs.learning_curve(features, targets, **options)
    count = len(solved)
    return found, gs.learning_curve(features, targets, interpolate=False, **options), count


@pytest.mark.parametrize(
    ("kind", "most"),
    [
        pytest.param("random features", 12, marks=pytest.mark.statistical),
        pytest.param("after a step", 24, marks=pytest.mark.statistical),
        pytest.param("heavy tails", 43, marks=pytest.mark.statistical),
        ("weighted", 18),
    ],
)
def test_interpolated_errors_are_those_of_every_pair(kind, most, monkeypatch):
    features, targets = rows(kind)
    weights = np.random.default_rng(1).uniform(0.3, 2.0, len(targets)) if kind == "weighted" else None
    several = np.column_stack([targets, features[:, 0] + targets**2]) if kind == "weighted" else targets
    ridges = np.logspace(-3, 1, 8) * np.square(features).sum() / features.shape[1]
    options = {"n": np.linspace(15, 150, 8).astype(int), "ridge": ridges, "sample_weight": weights}
    found, exact, solved = both(features, several, monkeypatch, **options)
    assert solved <= most
    for name in ("test", "training"):
        values, errors = getattr(exact, f"{name}_error"), getattr(exact, f"{name}_standard_error")
        # The tolerance is a twentieth of the standard error, estimated from other pairs.
        assert np.abs((getattr(found, f"{name}_error") - values) / errors).max() < 0.1
        np.testing.assert_allclose(getattr(found, f"{name}_standard_error"), errors, rtol=0.15)
    assert (found.training_error > 0).all()


def test_standard_errors_of_training_errors_that_are_almost_nothing(monkeypatch):
    """With fewer samples than features a training error is proportional to the square of a penalty next to nothing."""
    features, targets = rows("random features", count=120, width=200)
    ridges = np.logspace(-5, 1, 9) * np.square(features).sum() / features.shape[1]
    found, exact, _ = both(features, targets, monkeypatch, n=np.linspace(10, 100, 8).astype(int), ridge=ridges)
    np.testing.assert_allclose(found.training_standard_error, exact.training_standard_error, rtol=0.15)
    for curve, digits in ((exact, 0.01), (found, 0.1)):
        relative = curve.training_standard_error / curve.training_error
        np.testing.assert_allclose(relative[:3, 0], relative[:3, 1], rtol=digits)


@pytest.mark.parametrize(("size", "seed"), [(0.7, 2), (2.5, 1)])
def test_standard_errors_are_right_where_rows_have_features_of_their_own(size, seed):
    """With n = M those of the diagonal are too large by the inverse square of what the leverage leaves."""
    random = np.random.default_rng(seed)
    common = np.tanh(random.standard_normal((150, 30)) @ random.standard_normal((30, 40)) / 30**0.5)
    own = np.zeros((150, 4))
    own[range(4), range(4)] = size
    targets = np.tanh(2 * common[:, 0]) + 0.3 * random.standard_normal(150)
    options = {"n": [15, 30, 52, 75, 105, 150], "ridge": np.geomspace(0.03, 15.0, 5)}
    found = gs.learning_curve(np.hstack([common, own]), targets, **options)
    exact = gs.learning_curve(np.hstack([common, own]), targets, **options, interpolate=False)
    np.testing.assert_allclose(found.test_standard_error, exact.test_standard_error, rtol=0.15)


@pytest.mark.parametrize("kind", ["one row's own column", "sparse columns", "heavy tails"])
def test_rows_with_the_largest_weight_are_solved_with_all_digits(kind):
    """More samples than rows: the row's own terms hide those of the others, and may make an error negative."""
    random = np.random.default_rng(0)
    features = random.standard_normal((60, 15))
    if kind == "one row's own column":
        features[:, -1], features[0, -1] = 0.0, 3.0
    elif kind == "sparse columns":
        features = np.maximum(features @ random.standard_normal((15, 40)) - 8.0, 0.0)
    else:
        features = random.standard_t(2.5, (60, 15))
    targets = features[:, :5] @ random.standard_normal(5) / 4 + 0.3 * random.standard_normal(60)
    options = {"n": [61, 66, 72, 80, 100, 120], "ridge": [1e-6, 1e-3, 1.0]}
    found = gs.learning_curve(features, targets, **options)
    exact = gs.learning_curve(features, targets, **options, interpolate=False)
    for name in ("test_error", "training_error", "test_standard_error", "training_standard_error"):
        np.testing.assert_allclose(getattr(found, name), getattr(exact, name), rtol=2e-3)


def test_penalties_below_one_without_an_estimate_have_none():
    """They are not tried in a grid; here each is, by a call of its own."""
    random = np.random.default_rng(5)
    features, targets = random.standard_normal((40, 70)), random.standard_normal(40)
    ridges = np.logspace(-3, 3, 13)
    grid = gs.learning_curve(features, targets, n=[44, 60], ridge=ridges)
    alone = np.full((2, 13), math.nan)
    for place, n in enumerate((44, 60)):
        for other, ridge in enumerate(ridges):
            with suppress(NotConverged):
                alone[place, other] = gs.learning_curve(features, targets, n=n, ridge=ridge).test_error.item()
    assert 3 < np.isnan(alone).sum() < 23
    np.testing.assert_allclose(grid.test_error, alone, rtol=1e-3)


def test_interpolation_goes_with_the_extrapolated_and_the_repeated(monkeypatch):
    features, targets = rows("random features")
    ridges = np.array([1.0, 30.0, 3.0, 10.0, 3.0])
    options = {"n": [180, 30, 150, 60, 90], "ridge": ridges}
    found, exact, _ = both(features, targets, monkeypatch, **options)
    np.testing.assert_allclose(found.test_error, exact.test_error, rtol=5e-3)
    np.testing.assert_array_equal(found.test_error[:, 2], found.test_error[:, 4])
    # Those beyond the pool are all solved, to fewer digits.
    np.testing.assert_allclose(found.test_error[0], exact.test_error[0], rtol=1e-4)
    order = np.argsort(options["n"])
    backwards = gs.learning_curve(features, targets, n=np.array(options["n"])[order], ridge=ridges[::-1])
    np.testing.assert_allclose(backwards.test_error[:, ::-1], found.test_error[order], rtol=5e-3)


def test_equal_leverages_need_no_more_than_the_diagonal():
    """Columns of a Hadamard-like design: all rows have one leverage, the weights are equal, the diagonal is all."""
    signs = np.array([[1.0, 1.0], [1.0, -1.0]])
    design = signs
    for _ in range(5):
        design = np.kron(design, signs)
    features, targets = design[:, :20], np.random.default_rng(0).standard_normal((64, 2))
    pool = pool_of(features, targets)
    samples, ridges = np.array([10.0, 30.0, 64.0]), np.array([1.0, 5.0, 20.0])
    rough = row_errors(diagonal_fits(pool, samples, ridges))
    for k, (n, ridge) in enumerate(zip(samples, ridges, strict=True)):
        errors = row_errors(weighted_fit(pool, n, ridge))
        np.testing.assert_allclose(rough.fit.weights[:, k], errors.fit.weights, rtol=1e-5)
        assert rough.test_error[k] == pytest.approx(errors.test_error, rel=1e-5)
        assert rough.training_error[k] == pytest.approx(errors.training_error, rel=1e-5)


def test_diagonal_weights_are_the_maximum_of_their_function():
    features, targets = rows("heavy tails", 60, 20)
    pool = pool_of(features, targets[:, None])
    ratio, ridge = np.array([0.1, 0.6]), np.array([0.5, 0.01])
    fits = diagonal_fits(pool, 60 * ratio, ridge)

    def objective(weights):
        entropy = ratio * np.log(weights) + (1 - ratio) * np.log(1 - weights)
        return entropy.sum(axis=0) - np.log(ridge + (pool.features**2).T @ weights).sum(axis=0)

    assert isinstance(fits, WeightedFit)
    random = np.random.default_rng(2)
    for size in (1e-3, 0.1):
        other = np.minimum(fits.weights * np.exp(size * random.standard_normal(fits.weights.shape)), 1 - 1e-9)
        assert (objective(other) < objective(fits.weights)).all()


def test_a_smooth_function_needs_few_places_and_a_rough_one_all():
    axis = np.linspace(0, 2, 10)
    places = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    asked, tolerances = [], np.full((100, 1), 0.01)

    def measured(function):
        def measure(place):
            asked.append(place)
            return np.array([function(*places[place])])

        return measure

    def smooth(x, y):
        return np.exp(-x) * (1 + y)

    known = np.where(places[:, :1] == 2, smooth(*places.T)[:, None], np.nan)
    values = refined(places, [7, 99], measured(smooth), tolerances, known)
    assert 7 in asked
    assert not set(asked) & set(np.flatnonzero(places[:, 0] == 2))
    assert len(asked) < 60
    np.testing.assert_allclose(values[:, 0], smooth(*places.T), atol=0.02)
    asked.clear()
    noise = np.random.default_rng(0).standard_normal(100)
    refined(places, [0], lambda place: (asked.append(place), noise[[place]])[1], tolerances, np.full((100, 1), np.nan))
    assert len(asked) > 90
    asked.clear()
    assert not refined(places, [0], measured(smooth), tolerances, np.zeros((100, 1))).any()
    assert not asked


def test_a_dip_between_places_that_agree_is_found():
    """Splines through equal values agree everywhere: only a value far from all others tells of what is between."""
    places = np.linspace(0, 2, 41)[:, None] * [1.0, 0.0]
    dip = -np.exp(-np.square((places[:, 0] - 1.2) / 0.3))
    values = refined(places, [0, 40], lambda place: dip[[place]], np.full((41, 1), 0.02), np.full((41, 1), np.nan))
    np.testing.assert_allclose(values[:, 0], dip, atol=0.03)


def test_places_in_doubt_are_measured_together():
    places = np.stack(np.meshgrid(np.linspace(0, 1, 9), np.linspace(0, 1, 9), indexing="ij"), axis=-1).reshape(-1, 2)
    rounds = []

    def measure(chosen):
        rounds.append(chosen)
        x, y = places[chosen].T
        values = np.stack([np.exp(x + y), np.tanh(8 * (x - 0.5))], axis=1)
        return values, np.full_like(values, 0.02)

    values, weights = refined_at_once(places, set(lattice(places, (3, 3))), measure)
    measured = sorted(place for chosen in rounds for place in chosen)
    assert len(measured) == len(set(measured)) == weights.shape[1]
    assert 1 < len(rounds) < 9 < len(measured) < 81
    np.testing.assert_allclose(values[:, 1], np.tanh(8 * (places[:, 0] - 0.5)), atol=0.03)
    np.testing.assert_allclose(weights @ values[measured], values, atol=1e-9)


def test_one_axis_alone_is_interpolated(monkeypatch):
    features, targets = rows("random features")
    found, exact, _ = both(features, targets, monkeypatch, n=60, ridge=np.logspace(-1, 2, 25))
    assert np.abs((found.test_error - exact.test_error) / exact.test_standard_error).max() < 0.1


def test_targets_of_zeros_have_no_errors():
    features, _ = rows("random features", 40, 10)
    found = gs.learning_curve(features, np.zeros(40), n=[10, 20, 30, 40], ridge=[0.1, 1, 10, 100])
    assert (found.test_error == 0).all()
    assert (found.training_error == 0).all()


def test_interpolation_on_other_array_libraries():
    xp = pytest.importorskip("array_api_strict")
    features, targets = rows("random features", 60, 12)
    options = {"n": [10, 20, 30, 60], "ridge": [0.3, 1.0, 3.0, 10.0]}
    ours = gs.learning_curve(features, targets, **options)
    theirs = gs.learning_curve(xp.asarray(features), xp.asarray(targets), **options)
    np.testing.assert_allclose(theirs.test_error, ours.test_error, rtol=1e-5)
    np.testing.assert_allclose(theirs.test_covariance, ours.test_covariance, rtol=1e-3)


def test_as_many_samples_as_rows_is_leave_one_out_in_a_grid():
    features, targets = rows("after a step")
    ridges = np.logspace(-3, 1, 8) * np.square(features).sum() / features.shape[1]
    found = gs.learning_curve(features, targets, n=[30, 60, 90, 150], ridge=ridges)
    for place, ridge in enumerate(ridges):
        hat = features @ np.linalg.solve(features.T @ features + ridge * np.eye(40), features.T)
        left_out = (targets - hat @ targets) / (1 - np.diag(hat))
        assert found.test_error[3, place] == pytest.approx(np.square(left_out).mean(), rel=1e-8)
        assert found.training_error[3, place] == pytest.approx(np.square(targets - hat @ targets).mean(), rel=1e-8)


def test_many_rows_for_each_feature_need_no_pair_solved(monkeypatch):
    features, targets = rows("random features", 3000, 30)
    options = {"n": np.linspace(900, 3000, 5).astype(int), "ridge": np.logspace(-1, 3, 5)}
    found, exact, count = both(features, targets, monkeypatch, **options)
    assert count == 0
    assert np.abs((found.test_error - exact.test_error) / exact.test_standard_error).max() < 0.05
    assert np.abs((found.training_error - exact.training_error) / exact.training_standard_error).max() < 0.05
    np.testing.assert_allclose(found.test_standard_error, exact.test_standard_error, rtol=0.1)


def test_influences_are_not_computed_again_where_the_diagonal_has_them(monkeypatch):
    """With many rows for each feature some errors need the whole resolvent, and standard errors do not."""
    features, targets = rows("heavy tails", 1500, 25, seed=1)
    counted, original = [], pairs.influences_on_errors
    monkeypatch.setattr(pairs, "influences_on_errors", lambda errors: counted.append(errors) or original(errors))
    ridges = np.logspace(-3, 1, 4) * np.square(features).sum() / features.shape[1]
    options = {"n": np.linspace(150, 1200, 4).astype(int), "ridge": ridges}
    gs.learning_curve(features, targets, **options)
    again = len(counted)
    found, exact, count = both(features, targets, monkeypatch, **options)
    assert count > 0
    assert again == 0
    np.testing.assert_allclose(found.test_standard_error, exact.test_standard_error, rtol=0.1)
    np.testing.assert_allclose(found.training_standard_error, exact.training_standard_error, rtol=0.1)


def test_a_large_constant_in_the_targets_does_no_harm(monkeypatch):
    features, targets = rows("random features")
    features = np.column_stack([features, 1e3 * np.ones(150)])
    options = {"n": [20, 40, 80, 150], "ridge": [0.1, 1.0, 10.0, 100.0]}
    found, exact, _ = both(features, targets + 1e5, monkeypatch, **options)
    assert np.abs((found.test_error - exact.test_error) / exact.test_standard_error).max() < 0.1
    assert np.abs((found.training_error - exact.training_error) / exact.training_standard_error).max() < 0.1


@pytest.mark.parametrize("seed", range(3))
def test_factors_are_in_double_precision_where_weights_differ_too_much(seed):
    """Features that one, two and fifty rows have: the weights of these rows are ten million times smaller."""
    random, place = np.random.default_rng(seed), np.arange(200)
    few = np.stack([place == 0, (place == 1) | (place == 2), (place > 2) & (place < 50)], axis=1)
    features = np.column_stack([random.standard_normal((200, 10)), few])
    targets = features @ random.standard_normal(13) / 8 + 0.3 * random.standard_normal(200)
    sizes, ridges = [66, 120, 150], 1e-7 * np.arange(1, 6)
    curve, every = (gs.learning_curve(features, targets, n=sizes, ridge=ridges, interpolate=i) for i in (True, False))
    assert (np.abs(curve.test_error - every.test_error) < 0.15 * every.test_standard_error).all()


@pytest.mark.parametrize(
    ("count", "columns", "sizes", "ridges"),
    [
        (600, 3, [300, 450, 540, 600], np.logspace(-5, 1, 7)),  # errors were 80 times too small
        (400, 3, [200, 300, 360, 400], 400 * np.logspace(-8, 0, 9)),  # a factor in single precision was not definite
    ],
)
def test_standardised_columns_of_single_rows_are_seen(count, columns, sizes, ridges):
    """Their eigenvalues are those of all other columns: without their rows the others have other eigenvectors."""
    random = np.random.default_rng(0)
    features = np.column_stack([random.standard_normal((count, 20)), np.eye(count)[:, :columns]])
    targets = features[:, 0] + 0.3 * random.standard_normal(count)
    features = (features - features.mean(axis=0)) / features.std(axis=0)
    curve, every = (gs.learning_curve(features, targets, n=sizes, ridge=ridges, interpolate=i) for i in (True, False))
    assert np.abs(np.log(curve.test_error / every.test_error)).max() < 0.4
    assert np.median(np.abs(np.log(curve.test_error / every.test_error))) < 0.01
