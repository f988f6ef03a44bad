"""The function as its users see it: what it takes, refuses and returns."""

import copy
import dataclasses
import pickle

import matplotlib
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import gradstep as gs
from gradstep.errors import InvalidInput, NotConverged

N = (20, 60, 90)
RIDGE = (5.0, 50.0)


@pytest.fixture
def curve(rows):
    features, targets, _ = rows(60, 12, 1)
    return gs.learning_curve(features, targets[:, 0], n=N, ridge=RIDGE)


def same(a, b, rtol=1e-5):
    for name in ("test_error", "training_error", "test_standard_error", "training_standard_error"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=rtol, err_msg=name)


def test_what_changes_nothing(rows):
    features, targets, weights = rows(60, 12)
    rotation = np.linalg.qr(np.random.default_rng(1).standard_normal((12, 12)))[0]
    order = np.random.default_rng(2).permutation(60)
    options = {"n": N, "sample_weight": weights}
    found = gs.learning_curve(features, targets, ridge=RIDGE, **options)
    penalties = np.array(RIDGE)
    same(gs.learning_curve(3 * features, targets, ridge=9 * penalties, **options), found, 1e-4)
    same(gs.learning_curve(features @ rotation, targets, ridge=RIDGE, **options), found, 1e-4)
    same(gs.learning_curve(np.hstack([features, features]) / 2**0.5, targets, ridge=RIDGE, **options), found, 1e-4)
    same(gs.learning_curve(np.hstack([features, 0 * features]), targets, ridge=RIDGE, **options), found, 1e-4)
    mixed = gs.learning_curve(features[order], targets[order], n=N, ridge=RIDGE, sample_weight=weights[order])
    same(mixed, found, 1e-4)
    # Standard errors of more than 200 rows use some of them. Here every second row differs from its neighbours.
    many, answers, _ = rows(400, 12)
    answers[::2] += 2.0
    kept = np.random.default_rng(3).permutation(400)
    same(
        gs.learning_curve(many[kept], answers[kept], n=N, ridge=RIDGE),
        gs.learning_curve(many, answers, n=N, ridge=RIDGE),
    )
    # And where all rows have one length, by which they cannot be told apart.
    round_ = many / np.linalg.norm(many, axis=1, keepdims=True)
    same(
        gs.learning_curve(round_[kept], answers[kept], n=20, ridge=0.1),
        gs.learning_curve(round_, answers, n=20, ridge=0.1),
    )
    heavier = gs.learning_curve(features, targets, n=N, ridge=2 * penalties, sample_weight=2 * weights)
    same(heavier, found, 1e-4)
    turned = gs.learning_curve(features, targets @ [[0.6, 0.8], [-0.8, 0.6]], ridge=RIDGE, **options)
    same(turned, found, 1e-4)
    backwards = gs.learning_curve(features, targets, n=N[::-1], ridge=RIDGE[::-1], sample_weight=weights)
    np.testing.assert_allclose(backwards.test_error[::-1, ::-1], found.test_error, rtol=1e-5)


@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), factor=st.floats(-1e3, 1e3).filter(lambda x: abs(x) > 1e-3))
def test_targets_scale_the_errors(seed, factor):
    random = np.random.default_rng(seed)
    features, targets = random.standard_normal((30, 8)), random.standard_normal(30)
    a = gs.learning_curve(features, targets, n=[10, 30], ridge=1.0)
    b = gs.learning_curve(features, factor * targets, n=[10, 30], ridge=1.0)
    np.testing.assert_allclose(b.test_error, factor**2 * a.test_error, rtol=1e-5)
    np.testing.assert_allclose(b.test_standard_error, factor**2 * a.test_standard_error, rtol=1e-3)


def test_outputs_are_summed(rows):
    features, targets, _ = rows(60, 12, 3)
    together = gs.learning_curve(features, targets, n=N, ridge=RIDGE)
    alone = [gs.learning_curve(features, targets[:, k], n=N, ridge=RIDGE) for k in range(3)]
    np.testing.assert_allclose(together.test_error, sum(one.test_error for one in alone), rtol=1e-6)
    np.testing.assert_allclose(together.training_error, sum(one.training_error for one in alone), rtol=1e-6)


def test_a_row_without_weight_is_not_seen(rows):
    features, targets, weights = rows(60, 12)
    weights[:5] = 0
    with_them = gs.learning_curve(features, targets, n=60, ridge=1.0, sample_weight=weights)
    without = gs.learning_curve(features[5:], targets[5:], n=55, ridge=1.0, sample_weight=weights[5:])
    np.testing.assert_allclose(with_them.test_error, without.test_error)
    np.testing.assert_allclose(with_them.training_error, without.training_error)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"features": np.ones(10)}, "features: got 'shape"),
        ({"features": np.ones((3, 2)), "targets": np.ones(3)}, "at least 4 rows"),
        ({"features": np.full((10, 2), np.nan)}, "features: got 'nan, infinity or too large"),
        ({"features": np.full((10, 2), 1 + 1j)}, "features: got 'complex numbers'; allowed: real numbers"),
        ({"targets": np.full(10, 1j)}, "targets: got 'complex numbers'"),
        ({"features": np.full((10, 2), 1e200)}, "features: got 'nan, infinity or too large"),
        ({"features": np.zeros((10, 2))}, "features: got 'zeros only, or nearly so'"),
        ({"features": pd.DataFrame({"a": range(10), "colour": ["red"] * 10})}, "columns without numbers: colour"),
        ({"features": [[1, 2], [3]]}, "features: .*numbers"),
        ({"targets": np.ones(9)}, "targets: .*each of the 10 rows"),
        ({"targets": ["a"] * 10}, "targets: .*numbers"),
        ({"targets": np.ones((10, 2, 2))}, "targets: got 'shape"),
        ({"n": 0}, "n: got 0"),
        ({"n": 21}, "n: got 21; allowed: whole numbers from 1 to 20, which is 2 times the 10 rows of the pool"),
        ({"n": [2.5]}, "n: got"),
        ({"n": "all"}, "n: got 'all'"),
        ({"ridge": 0}, "ridge: got 0"),
        ({"ridge": [-1.0]}, "ridge: got"),
        ({"ridge": 1e-30}, "ridge: got 1e-30; allowed: finite and > 0, at least"),
        ({"ridge": [[1.0]]}, "ridge: got"),
        ({"sample_weight": np.full(10, -1.0)}, "sample_weight: got -1.0"),
        ({"sample_weight": np.zeros(10)}, "sample_weight: got 'zeros only'"),
        ({"sample_weight": np.ones(9)}, "sample_weight: .*each of the 10 rows"),
        ({"progress": True}, "progress: got True; allowed: a function of two numbers"),
    ],
)
def test_bad_input_is_named(change, told):
    random = np.random.default_rng(0)
    options = {"features": random.standard_normal((10, 2)), "targets": random.standard_normal(10), "n": 5, "ridge": 1.0}
    with pytest.raises(InvalidInput, match=told):
        gs.learning_curve(**(options | change))


def test_defaults(rows):
    features, targets, _ = rows(60, 12)
    found = gs.learning_curve(features, targets)
    assert found.n[0] == 6
    assert found.n[-1] == 60
    assert found.test_error.shape == (10, 9)
    assert not np.isnan(found.test_error).any()


@pytest.mark.parametrize("library", ["array_api_strict", "torch"])
def test_any_array_library(rows, library):
    xp = pytest.importorskip(library)
    features, targets, weights = rows(40, 8)
    ours = gs.learning_curve(features, targets, n=[15, 60], ridge=[5.0], sample_weight=weights)
    arrays = [xp.asarray(values) for values in (features, targets, weights)]
    theirs = gs.learning_curve(*arrays[:2], n=[15, 60], ridge=[5.0], sample_weight=arrays[2])
    same(theirs, ours)


@pytest.mark.parametrize(("ridge", "interpolate"), [(np.logspace(-2, 1, 7), True), ([0.1, 1.0, 1.0], False)])
def test_progress_counts_pairs_up_to_all_of_them(rows, ridge, interpolate):
    features, targets, _ = rows(60, 12)
    n, said = [10, 30, 60, 90], []
    options = {"n": n, "ridge": ridge, "interpolate": interpolate}
    found = gs.learning_curve(features, targets, progress=lambda *numbers: said.append(numbers), **options)
    done, totals = np.array(said).T
    assert set(totals) == {len(n) * len(set(np.asarray(ridge).tolist()))}
    assert (done[0], done[-1]) == (0, totals[0])
    assert (np.diff(done) >= 0).all()
    assert len(said) > len(np.unique(ridge))  # pairs one by one: those beyond the pool at least
    np.testing.assert_array_equal(found.test_error, gs.learning_curve(features, targets, **options).test_error)


def test_progress_counts_pairs_without_an_estimate(rows):
    features, targets, _ = rows(40, 60)
    said = []
    found = gs.learning_curve(
        features, targets, n=[20, 80], ridge=[1e-3, 1e-2, 0.1, 100], progress=lambda *numbers: said.append(numbers)
    )
    assert np.isnan(found.test_error).sum() > 1  # where one asks for too much, weaker penalties are not tried
    assert said == [(done, 8) for done in range(9)]


def test_what_the_result_says(curve, rows):
    assert curve.test_error.shape == (3, 2)
    assert set(curve.best_ridge) <= set(RIDGE)
    np.testing.assert_allclose(curve.best_test_error, curve.test_error.min(axis=1))
    frame = curve.to_frame()
    assert len(frame) == 6
    np.testing.assert_allclose(frame.test_error, curve.test_error.ravel())
    low, high = curve.interval()
    widths = np.log(high / low) * curve.test_error / curve.test_standard_error / 2
    np.testing.assert_allclose(widths, stats.t.ppf(0.975, curve.test_freedom))
    low, high = curve.interval(0.5, of="training")
    widths = np.log(high / low) * curve.training_error / curve.training_standard_error / 2
    np.testing.assert_allclose(widths, stats.t.ppf(0.75, curve.training_freedom))
    known = dataclasses.replace(curve, test_freedom=None).interval()
    np.testing.assert_allclose(np.log(known[1] / known[0]), 2 * 1.959964 * curve.test_standard_error / curve.test_error)
    assert curve.to_dict()["test_error"] == curve.test_error.tolist()
    variances = np.einsum("abab->ab", curve.test_covariance)
    np.testing.assert_allclose(variances, curve.test_standard_error**2)
    for text in ("60 rows of 12 features", "best ridge", "from n = 60 to 90", "extrapolation"):
        assert text in str(curve)
    with pytest.raises(ValueError, match="read-only"):
        curve.test_error[0] = 1
    same(pickle.loads(pickle.dumps(curve)), curve)
    same(copy.deepcopy(curve), curve)


def test_change_between_two_sizes(curve):
    difference, error = curve.change(60, 90)
    (a, c), best = (1, 2), curve.best
    assert difference == pytest.approx(curve.best_test_error[c] - curve.best_test_error[a])
    apart = np.hypot(curve.test_standard_error[a, best[a]], curve.test_standard_error[c, best[c]])
    assert 0 < error < apart / 2  # the pool is shared
    assert curve.change(60, 60) == (0.0, 0.0)
    with pytest.raises(InvalidInput, match="after: got 61; allowed: one of the numbers of rows"):
        curve.change(60, 61)
    with pytest.raises(InvalidInput, match="level: got 95"):
        curve.interval(95)
    with pytest.raises(InvalidInput, match="of: got 'both'"):
        curve.interval(of="both")


def test_freedom_of_gaussian_targets_and_of_one_that_is_far_off():
    """Nothing is fitted, and influences are squares of the targets: of kurtosis fifteen, or that of a single row."""
    random = np.random.default_rng(0)
    features, targets = random.standard_normal((4000, 3)), random.standard_normal(4000)
    found = gs.learning_curve(features, targets, n=2000, ridge=1e9)
    assert found.test_freedom[0, 0] == pytest.approx(2 * 4000 / 14, rel=0.3)
    targets[0] = 1e4
    assert gs.learning_curve(features, targets, n=2000, ridge=1e9).test_freedom[0, 0] == pytest.approx(2, rel=0.01)


@pytest.mark.parametrize("ridge", [5.0, [5.0, 50.0]])
def test_figure(rows, ridge):
    matplotlib.use("Agg")
    features, targets, _ = rows(60, 12, 1)
    figure = gs.learning_curve(features, targets, n=N, ridge=ridge).plot()
    assert len(figure.axes) == 1 + (ridge != 5.0)
    figure.canvas.draw()
    assert [tick.get_text() for tick in figure.axes[0].get_xticklabels()] == [str(min(N)), "60", str(max(N))]


def test_pairs_without_a_solution_are_nan_and_told():
    random = np.random.default_rng(0)
    features, targets = random.standard_normal((30, 60)), random.standard_normal(30)
    found = gs.learning_curve(features, targets, n=[20, 60], ridge=[0.01, 300.0])
    assert np.isnan(found.test_error).tolist() == [[False, False], [True, False]]
    assert np.isnan(found.interval()[0]).sum() == 1
    assert any("1 pair of n and ridge has no estimate, the first n = 60, ridge = 0.01" in c for c in found.caveats)
    with pytest.raises(NotConverged, match="There is an estimate for n = 60 with a ridge of"):
        gs.learning_curve(features, targets, n=60, ridge=0.01)


def test_caveats(rows):
    features, targets, _ = rows(100, 5, 1)
    assert gs.learning_curve(features, targets, n=[50], ridge=1.0).caveats == ()
    copied = gs.learning_curve(np.vstack([features, features[:7]]), np.vstack([targets, targets[:7]]), n=50, ridge=1.0)
    assert "7 of the 107 rows have the same features" in copied.caveats[0]
    assert "error of 40 rows" in gs.learning_curve(features[:40], targets[:40], n=[20], ridge=1.0).caveats[0]
    targets[0] = 1e3
    assert "rests on about 1 of the 100 rows" in gs.learning_curve(features, targets, n=[50], ridge=1.0).caveats[0]
    assert "Below 20 samples" in str(gs.learning_curve(features[:30], targets[:30], n=[18], ridge=1.0))


@pytest.mark.parametrize("outputs", [1, 3])
def test_wrong_classes_at_the_size_of_the_pool_are_those_left_out(rows, outputs):
    features, targets, weights = rows(60, 12, outputs)
    classes = np.sign(targets) if outputs == 1 else np.eye(3)[targets.argmax(axis=1)]
    found = gs.learning_curve(features, classes, n=[30, 60, 90], ridge=2.0, sample_weight=weights)
    wrong = []
    for i in range(60):
        kept = np.arange(60) != i
        gram = (features[kept] * weights[kept, None]).T @ features[kept] + 2 * np.eye(12)
        output = features[i] @ np.linalg.solve(gram, (features[kept] * weights[kept, None]).T @ classes[kept])
        missed = output * classes[i] < 0 if outputs == 1 else output.argmax() != classes[i].argmax()
        wrong.append(float(np.all(missed)))
    assert found.classification_error[1, 0] == pytest.approx(np.average(wrong, weights=weights))
    assert found.classification_error[0, 0] > 0
    assert np.isnan(found.classification_error[2, 0])
    assert "wrong classes" in str(found)
    assert "classification_error" in found.to_frame()


@pytest.mark.parametrize("outputs", [1, 3])
def test_wrong_classes_do_not_depend_on_the_places_of_the_rows(rows, outputs):
    features, targets, weights = rows(60, 12, outputs)
    classes = np.sign(targets) if outputs == 1 else np.eye(3)[targets.argmax(axis=1)]
    order = np.random.default_rng(4).permutation(60)
    found, mixed = (
        gs.learning_curve(features[each], classes[each], n=[30, 45], ridge=2.0, sample_weight=weights[each])
        for each in (np.arange(60), order)
    )
    np.testing.assert_allclose(mixed.classification_error, found.classification_error, rtol=1e-6)
    np.testing.assert_allclose(mixed.classification_standard_error, found.classification_standard_error, rtol=1e-6)


def test_other_targets_have_no_classes(curve):
    assert curve.classification_error is None
    assert "classification_error" not in curve.to_frame()
