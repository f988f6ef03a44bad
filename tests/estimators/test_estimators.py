"""The estimators on data that is well behaved, awkward or wrong."""

import numpy as np
import pytest
from sklearn.base import clone

import gradstep as gs
from gradstep.errors import InvalidInput


@pytest.fixture(scope="module")
def single_index():
    random = np.random.default_rng(0)
    X = random.standard_normal((600, 15))
    return X, np.tanh(2 * X[:, 0]) + 0.1 * random.standard_normal(600)


def test_a_step_learns_a_single_index(single_index):
    X, y = single_index
    train, test = slice(0, 400), slice(400, None)
    one_step = gs.OneStepRegressor(width=128, n_steps=1, random_state=0).fit(X[train], y[train])
    random_features = gs.OneStepRegressor(width=128, eta=0, random_state=0).fit(X[train], y[train])
    assert one_step.eta_ > 0
    assert 1 - one_step.score(X[test], y[test]) < 0.5 * (1 - random_features.score(X[test], y[test]))


def test_damping_finds_what_correlated_inputs_hide():
    """The targets follow a difference of two columns that are nearly equal; the plain gradient follows their sum."""
    random = np.random.default_rng(0)
    common, own = random.standard_normal((800, 1)), random.standard_normal((800, 12))
    X, y = common + 0.3 * own, np.tanh(2 * (own[:, 0] - own[:, 1]))
    train, test = slice(0, 400), slice(400, None)
    chosen = gs.OneStepRegressor(width=128, n_steps=1, random_state=0).fit(X[train], y[train])
    plain = gs.OneStepRegressor(width=128, damping=np.inf, n_steps=1, random_state=0).fit(X[train], y[train])
    assert np.isfinite(chosen.damping_)
    assert 1 - chosen.score(X[test], y[test]) < 0.8 * (1 - plain.score(X[test], y[test]))


def test_readout_is_the_ridge_solution(single_index):
    """The penalised loss in the units of the targets has no slope at the fitted coefficients."""
    X, y = single_index
    weight = np.random.default_rng(1).uniform(0.5, 2, len(y))
    model = gs.OneStepRegressor(width=20, eta=1.0, ridge=3.0, random_state=0).fit(X, y, weight)
    features = gs.OneStepFeatures(width=20, eta=1.0, random_state=0).fit(X, y, weight).transform(X)
    residual = weight * (y - features @ model.coef_ - model.intercept_)
    np.testing.assert_allclose(features.T @ residual, 3.0 * model.coef_, atol=1e-8)
    assert residual.sum() == pytest.approx(0.0, abs=1e-8)
    np.testing.assert_allclose(model.predict(X), features @ model.coef_ + model.intercept_)


@pytest.mark.parametrize("width", [24, 512])  # the wide one is compared on fewer neurons, by the number of rows
@pytest.mark.parametrize("split", [False, 0.4])
@pytest.mark.parametrize("n_steps", [1, 2, "auto"])
def test_weights_are_repetition(single_index, split, n_steps, width):
    X, y = single_index[0][:100], single_index[1][:100]
    weight = np.random.default_rng(0).integers(0, 4, 100)
    options = {"width": width, "sample_split": split, "n_steps": n_steps, "random_state": 0}
    weighted = gs.OneStepRegressor(**options).fit(X, y, weight)
    repeated = gs.OneStepRegressor(**options).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert weighted.eta_ == pytest.approx(repeated.eta_)
    np.testing.assert_allclose(weighted.step_errors_.errors, repeated.step_errors_.errors, rtol=1e-6)
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-8)


def test_the_order_of_rows_does_not_matter(single_index):
    X, y = single_index
    order = np.random.default_rng(0).permutation(len(y))
    first = gs.OneStepRegressor(width=30, sample_split=True, random_state=0).fit(X, y)
    second = gs.OneStepRegressor(width=30, sample_split=True, random_state=0).fit(X[order], y[order])
    np.testing.assert_allclose(first.predict(X), second.predict(X), atol=1e-8)


def test_split_rows_serve_one_purpose(single_index):
    X, y = single_index
    model = gs.OneStepRegressor(width=30, sample_split=0.7, random_state=0).fit(X, y)
    assert model.step_samples_ + model.fit_samples_ == 600
    assert abs(model.step_samples_ - 420) < 5 * np.sqrt(600 * 0.7 * 0.3)


@pytest.mark.parametrize("state", [None, pytest.param(3, marks=pytest.mark.statistical), "generator"])
def test_a_diagnosis_splits_the_rows_as_the_fit_did(single_index, state):
    X, y = single_index
    random_state = np.random.RandomState(3) if state == "generator" else state
    model = gs.OneStepRegressor(width=30, sample_split=True, random_state=random_state)
    splits, split = [], model._table

    def noted(*arguments):
        found = split(*arguments)
        splits.append(found.step_rows)
        return found

    model._table = noted
    model.fit(X, y).diagnose(X, y)
    assert len(splits) == 2
    np.testing.assert_array_equal(*splits)


def test_units_of_targets_and_inputs_do_not_matter(single_index):
    X, y = single_index
    plain = gs.OneStepRegressor(width=30, random_state=0, eta=20.0).fit(X, y)
    scaled = gs.OneStepRegressor(width=30, random_state=0, eta=20.0).fit(X * 1e-5 + 3, 1e6 * y - 7)
    np.testing.assert_allclose(scaled.predict(X * 1e-5 + 3), 1e6 * plain.predict(X) - 7, rtol=1e-6, atol=1)


def test_several_outputs(single_index):
    X, _ = single_index
    Y = np.column_stack([np.tanh(2 * X[:, 0]), np.tanh(2 * X[:, 1]), np.ones(600)])
    model = gs.OneStepRegressor(width=128, random_state=0).fit(X[:400], Y[:400])
    assert model.predict(X[400:]).shape == (200, 3)
    assert np.mean((model.predict(X[400:]) - Y[400:]) ** 2, axis=0).max() < 0.15
    np.testing.assert_allclose(model.predict(X)[:, 2], 1.0)


def test_classes(single_index):
    X, _ = single_index
    labels = np.array(["low", "middle", "high"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    model = gs.OneStepClassifier(width=128, random_state=0).fit(X[:400], labels[:400])
    assert list(model.classes_) == ["high", "low", "middle"]
    assert model.decision_function(X).shape == (600, 3)
    assert model.score(X[400:], labels[400:]) > 0.8
    binary = gs.OneStepClassifier(width=64, random_state=0).fit(X, X[:, 0] > 0)
    assert binary.decision_function(X).shape == (600,)
    np.testing.assert_array_equal(binary.predict(X), binary.decision_function(X) > 0)


def test_features_take_labels(single_index):
    X, _ = single_index
    labels = np.where(X[:, 0] > 0, "yes", "no")
    by_label = gs.OneStepFeatures(width=9, eta=5.0, random_state=0).fit(X, labels)
    by_code = gs.OneStepFeatures(width=9, eta=5.0, random_state=0).fit(X, np.where(labels == "yes", 1.0, -1.0))
    np.testing.assert_array_equal(by_label.transform(X), by_code.transform(X))
    integers = np.digitize(X[:, 0], [-0.5, 0.5])
    by_text = gs.OneStepFeatures(width=9, eta=5.0, random_state=0).fit(X, integers.astype(str))
    assert by_text.initial_readout_.shape == (9, 3)
    assert gs.OneStepFeatures(width=9, eta=5.0, random_state=0).fit(X, integers).initial_readout_.shape == (9, 1)


def test_float32_is_close_to_float64(single_index):
    X, y = single_index
    double = gs.OneStepRegressor(width=30, eta=10.0, ridge=1.0, random_state=0).fit(X, y)
    single = gs.OneStepRegressor(width=30, eta=10.0, ridge=1.0, random_state=0, dtype="float32").fit(X, y)
    np.testing.assert_allclose(single.predict(X), double.predict(X), atol=1e-3)


def test_many_rows_are_chosen_and_scored_on_some(single_index, monkeypatch):
    """Where there are too many rows, the step is chosen and errors are measured on a subset: nearly the same fit."""
    X, y = single_index
    whole = gs.OneStepRegressor(width=30, random_state=0).fit(X, y)
    monkeypatch.setattr("gradstep.estimators.rows.CHOICE_ROWS", 200)
    monkeypatch.setattr("gradstep.estimators.readout.SCORED_ROWS", 200)
    some = gs.OneStepRegressor(width=30, random_state=0).fit(X, y)
    assert some.step_errors_.squares.shape[1] == 200
    assert np.corrcoef(whole.predict(X), some.predict(X))[0, 1] > 0.98


@pytest.mark.parametrize("share", [0.01, 0.99])
def test_few_rows_on_one_side_of_a_split_are_all_looked_at(single_index, monkeypatch, share):
    X, y = single_index
    monkeypatch.setattr("gradstep.estimators.rows.CHOICE_ROWS", 40)
    for seed in range(4):
        model = gs.OneStepRegressor(width=9, eta=5.0, sample_split=share, random_state=seed).fit(X, y)
        rows = model.step_samples_, model.fit_samples_
        assert min(rows) < 20
        diagnosis = model.diagnose(X, y)
        assert diagnosis.rows == 40
        assert len(diagnosis.steps.weights) == (40 - rows[0] if share < 0.5 else rows[1])


# --- awkward data: a sensible fit -----------------------------------------------------------------------------------


def test_constant_targets(single_index):
    X, _ = single_index
    model = gs.OneStepRegressor(width=20, random_state=0).fit(X, np.full(600, 3.5))
    assert model.eta_ == 0
    np.testing.assert_allclose(model.predict(X), 3.5)


def test_constant_and_duplicated_columns(single_index):
    X, y = single_index
    plain = gs.OneStepRegressor(width=64, random_state=0).fit(X, y)
    padded = np.column_stack([X, X[:, :3], np.full(600, 7.0), np.zeros(600)])
    model = gs.OneStepRegressor(width=64, random_state=0).fit(padded, y)
    assert model.standardisation_.dimension == 18
    assert abs(model.score(padded, y) - plain.score(X, y)) < 0.05


@pytest.mark.parametrize(
    "options",
    [{}, {"n_steps": 1}, {"sample_split": True, "eta": 2.0}, {"random_state": np.random.RandomState(3)}],
    ids=["rounds", "a step", "split", "a source of random numbers"],
)
@pytest.mark.parametrize("kind", [gs.OneStepRegressor, gs.OneStepClassifier])
def test_a_column_that_does_not_vary_changes_nothing(kind, options):
    """Not even where the directions are those of noise, which depend on every random number that is drawn."""
    random = np.random.default_rng(1)
    X, y = random.standard_normal((200, 6)), random.integers(3, size=200)
    X[:20, 1] = np.nan
    weights = np.arange(200.0) % 5
    padded = np.insert(X, [0, 3, 6], [7.0, 0.1, np.nan], axis=1)
    # Without weight, and by rounding alone, a column varies as little.
    padded[weights == 0, 0] = random.standard_normal(40)
    padded[:, 4] += np.arange(200) % 2 * 1e-17
    kept = [1, 2, 3, 5, 6, 7]
    found = [
        clone(kind(width=64, random_state=0).set_params(**options)).fit(table, y, weights) for table in (X, padded)
    ]
    own, more = found
    np.testing.assert_array_equal(more.predict(padded), own.predict(X))
    np.testing.assert_array_equal(more.weights_, own.weights_)
    np.testing.assert_array_equal(more.feature_importances_[kept], own.feature_importances_)
    assert not np.delete(more.feature_importances_, kept).any()
    changed = padded.copy()
    changed[:, [0, 4]] = random.standard_normal((200, 2))
    np.testing.assert_array_equal(more.predict(changed), own.predict(X))
    curves = [
        model.learning_curve(table, y, sample_weight=weights) for model, table in zip(found, (X, changed), strict=True)
    ]
    np.testing.assert_array_equal(curves[1].r2, curves[0].r2)


def test_nothing_but_constants():
    model = gs.OneStepRegressor(width=5, random_state=0).fit(np.ones((6, 2)), np.arange(6.0))
    np.testing.assert_allclose(model.predict([[1.0, 1.0]]), 2.5)


@pytest.mark.parametrize(("n", "d", "width"), [(8, 30, 5), (8, 30, 100), (2, 1, 4), (3, 2, 1)])
def test_few_rows(n, d, width):
    random = np.random.default_rng(0)
    X, y = random.standard_normal((n, d)), random.standard_normal(n)
    model = gs.OneStepRegressor(width=width, random_state=0).fit(X, y)
    assert np.mean((model.predict(X) - y) ** 2) <= y.var() * (1 + 1e-6)
    assert np.isfinite(model.predict(random.standard_normal((50, d)))).all()


def test_one_sample_a_class():
    X = np.eye(3)
    model = gs.OneStepClassifier(width=40, ridge=1e-6, random_state=0).fit(X, ["a", "b", "c"])
    assert list(model.predict(X)) == ["a", "b", "c"]


@pytest.mark.parametrize("size", [1e300, 1e-300])
def test_huge_and_tiny_scales(single_index, size):
    X, y = single_index
    plain = gs.OneStepRegressor(width=20, eta=10.0, random_state=0).fit(X, y)
    scaled = gs.OneStepRegressor(width=20, eta=10.0, random_state=0).fit(X * size, y * size)
    np.testing.assert_allclose(scaled.predict(X * size) / size, plain.predict(X), atol=1e-6)


# --- wrong input: a clear error -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("width", 0),
        ("width", 2.5),
        ("width", True),
        ("eta", -1.0),
        ("eta", "large"),
        ("eta", np.nan),
        ("damping", 0.0),
        ("damping", -np.inf),
        ("damping", "none"),
        ("ridge", 0.0),
        ("ridge", "none"),
        ("n_steps", 0),
        ("n_steps", 10**12),
        ("offset", -1.0),
        ("sample_split", 1.0),
        ("sample_split", "half"),
        ("readout", "uniform"),
        ("dtype", "float16"),
        ("device", "tpu"),
        ("activation", 3),
        ("activation", "1"),
        ("random_state", -1),
        ("random_state", "lucky"),
        ("random_state", 1.5),
        ("eta", 1e51),
        ("offset", 1e51),
    ],
)
def test_parameters_out_of_range(parameter, value):
    with pytest.raises(InvalidInput, match=parameter) as caught:
        gs.OneStepRegressor(**{parameter: value}).fit(np.eye(4), np.arange(4.0))
    assert caught.value.value is value


def test_an_unknown_activation_is_called_one():
    for given in ("foo", "foo(x) + 1"):
        with pytest.raises(InvalidInput, match="activation: got 'foo"):
            gs.OneStepFeatures(activation=given).fit(np.eye(4), np.arange(4.0))


def test_data_that_cannot_be_used():
    X, y = np.random.default_rng(0).standard_normal((10, 3)), np.arange(10.0)
    model = gs.OneStepRegressor(width=5)
    with pytest.raises(ValueError, match="infinity"):
        model.fit(np.where(X > 1, np.inf, X), y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(X, y[:5])
    with pytest.raises(ValueError, match="at least one non-zero"):
        model.fit(X, y, np.zeros(10))
    with pytest.raises(ValueError, match="Negative values"):
        model.fit(X, y, -np.ones(10))
    with pytest.raises(ValueError, match="requires y"):
        model.fit(X, None)
    with pytest.raises(ValueError, match="leaves no rows"):
        gs.OneStepRegressor(width=5, sample_split=1e-9).fit(X, y)
    with pytest.raises(ValueError, match="one class: a"):
        gs.OneStepClassifier(width=5).fit(X, ["a"] * 10)
    with pytest.raises(ValueError, match="expecting 3 features"):
        model.fit(X, y).predict(X[:, :2])
    with pytest.raises(ValueError, match="y has 2 outputs; the fit had 1"):
        model.diagnose(X, np.column_stack([y, y]))
    with pytest.raises(ValueError, match="missing labels"):
        gs.OneStepClassifier(width=5).fit(X, ["a", None] * 5)
    pandas = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match="missing labels"):
        gs.OneStepClassifier(width=5).fit(X, pandas.Series(["a", "b", None, "a", "b"] * 2, dtype="string"))


@pytest.mark.parametrize("levels", [2, pytest.param(3, marks=pytest.mark.statistical), 12, 30])
def test_a_factor_is_predicted_by_its_means(levels):
    """New rows have the same levels, and leaving out all rows of one would tell nothing about them."""
    random = np.random.default_rng(0)
    level = random.integers(0, levels, 400)
    X, y = np.eye(levels)[level], random.standard_normal(levels)[level] + 0.1 * random.standard_normal(400)
    model = gs.OneStepRegressor(random_state=0).fit(X, y)
    means = np.array([y[level == k].mean() for k in range(levels)])
    np.testing.assert_allclose(model.predict(np.eye(levels)), means, atol=0.05)
    rare = gs.OneStepClassifier(random_state=0).fit(X, level == 0)
    assert rare.score(X, level == 0) == 1
    order = random.permutation(400)
    again = gs.OneStepRegressor(random_state=0).fit(X[order], y[order])
    np.testing.assert_allclose(again.predict(X), model.predict(X), atol=1e-6)


def test_the_width_counts_neither_copies_nor_rows_without_weight():
    random = np.random.default_rng(0)
    X = random.standard_normal((400, 3))
    y = X[:, 0] + 0.1 * random.standard_normal(400)
    few = np.arange(400) < 200
    expected = gs.OneStepRegressor(random_state=0).fit(X[few], y[few])
    assert expected.weights_.shape[0] == 512
    assert gs.OneStepRegressor(random_state=0).fit(X, y).weights_.shape[0] == 1024
    for model in (
        gs.OneStepRegressor(random_state=0).fit(X, y, few),
        gs.OneStepRegressor(random_state=0).fit(np.vstack([X[few]] * 2), np.tile(y[few], 2), np.full(400, 0.5)),
    ):
        np.testing.assert_allclose(model.predict(X), expected.predict(X), atol=1e-6)


def test_one_weight_for_all_rows_is_a_number(single_index):
    X, y = single_index
    for weight in (np.nan, np.inf):
        with pytest.raises(ValueError, match=r"sample_weight contains NaN or infinity"):
            gs.OneStepRegressor(8).fit(X, y, weight)


def test_labels_of_no_rows_are_said_to_be_none():
    with pytest.raises(ValueError, match="Input y is empty"):
        gs.OneStepClassifier(8).fit(np.ones((3, 2)), [])
