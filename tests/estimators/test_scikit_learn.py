"""The estimators keep every contract of scikit-learn that its own checks know, and do what its users expect."""

import pickle
import subprocess
import sys
import unittest

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import RFE, SelectFromModel
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

import gradstep as gs

ESTIMATORS = [gs.OneStepFeatures(width=32), gs.OneStepRegressor(width=32), gs.OneStepClassifier(width=32)]
#: How many checks scikit-learn 1.9 has for them: none may get lost. Older versions have as many or one fewer.
LEAST = {"OneStepFeatures": 54, "OneStepRegressor": 59, "OneStepClassifier": 62}
OLDER = tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 9)


@parametrize_with_checks(ESTIMATORS)
def test_contract(estimator, check):
    """Every check runs and passes; scikit-learn's checks skip silently, so a skipped one fails here, but for one."""
    try:
        check(estimator)
    except unittest.SkipTest as reason:
        if str(reason) != "SCIPY_ARRAY_API is not set: not checking array_api input":
            raise AssertionError(f"skipped: {reason}") from None


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: type(estimator).__name__)
def test_number_of_checks(estimator):
    assert len(list(estimator_checks_generator(estimator))) >= LEAST[type(estimator).__name__] - OLDER


@pytest.fixture(scope="module")
def table():
    random = np.random.default_rng(0)
    X = pd.DataFrame(random.standard_normal((120, 4)), columns=["a", "b", "c", "d"])
    return X, pd.Series(np.tanh(2 * X["a"]) + 0.1 * random.standard_normal(120), name="y")


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: type(estimator).__name__)
def test_dask_tells_two_fits_of_equal_parameters_apart(estimator, table):
    """It computes tasks of one name once, and names what it takes for a dataclass by its fields, the parameters."""
    tokenize = pytest.importorskip("dask.base").tokenize
    X, y = table
    one, other = (clone(estimator).set_params(eta=0, random_state=0).fit(inputs, y > 0) for inputs in (X, 2 * X))
    assert tokenize(one) != tokenize(other)


def test_names_go_in_and_come_out(table):
    X, y = table
    features = gs.OneStepFeatures(width=3, eta=1.0, random_state=0)
    from_pandas = features.set_output(transform="pandas").fit_transform(X, y)
    assert list(features.feature_names_in_) == ["a", "b", "c", "d"]
    assert list(from_pandas.columns) == ["onestepfeatures0", "onestepfeatures1", "onestepfeatures2"]
    from_polars = features.set_output(transform="polars").fit_transform(pl.from_pandas(X), y.to_numpy())
    assert isinstance(from_polars, pl.DataFrame)
    np.testing.assert_array_equal(from_pandas.to_numpy(), from_polars.to_numpy())
    with pytest.raises(ValueError, match="feature names"):
        features.transform(X[["b", "a", "c", "d"]])


def test_clone_and_pickle(table):
    X, y = table
    fitted = gs.OneStepRegressor(width=20, eta=gs.Step(1.0, 0.5), readout={-1: 0.5, 1: 0.5}, random_state=3).fit(X, y)
    again = clone(fitted).fit(X, y)
    np.testing.assert_array_equal(fitted.predict(X), again.predict(X))
    np.testing.assert_array_equal(fitted.predict(X), pickle.loads(pickle.dumps(fitted)).predict(X))


def test_which_activations_can_be_pickled(table):
    """As the documentation of `activation` says: what a module defines anywhere, a lambda by joblib's pickler."""
    X, y = table
    for activation in ("tanh(x) + x**2/4", np.tanh):
        fitted = gs.OneStepRegressor(width=8, activation=activation, random_state=0).fit(X, y)
        np.testing.assert_array_equal(fitted.predict(X), pickle.loads(pickle.dumps(fitted)).predict(X))
    fitted = gs.OneStepRegressor(width=8, activation=lambda x: np.tanh(x), random_state=0).fit(X, y)
    cloudpickle = pytest.importorskip("cloudpickle")  # joblib has a copy of its own
    np.testing.assert_array_equal(fitted.predict(X), pickle.loads(cloudpickle.dumps(fitted)).predict(X))
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(fitted)


def test_pipeline_and_grid_search(table):
    X, y = table
    pipeline = make_pipeline(StandardScaler(), gs.OneStepRegressor(width=20, random_state=0))
    search = GridSearchCV(pipeline, {"onestepregressor__eta": [0.0, "auto"]}, cv=2).fit(X, y)
    assert search.best_params_ == {"onestepregressor__eta": "auto"}


def test_selection_by_importances():
    """What the docs say of `coef_`, which is about neurons: the column of the signal survives by the importances."""
    random = np.random.default_rng(0)
    X = random.standard_normal((200, 6))
    y = X[:, 4] ** 2 + 0.1 * random.standard_normal(200)
    model = gs.OneStepRegressor(32, random_state=0)
    for select in (
        SelectFromModel(model, importance_getter="feature_importances_"),
        RFE(model, n_features_to_select=1, importance_getter="feature_importances_"),
    ):
        assert select.fit(X, y).get_support().tolist() == [False, False, False, False, True, False]


def test_sample_weight_is_routed(table):
    X, y = table
    weight = np.where(np.arange(len(y)) < 60, 1.0, 0.0)
    with sklearn.config_context(enable_metadata_routing=True):
        regressor = gs.OneStepRegressor(width=20, random_state=0)
        regressor.set_fit_request(sample_weight=True).set_score_request(sample_weight=False)
        routed = cross_validate(
            regressor,
            X,
            y,
            cv=[(np.arange(120), np.arange(120))],
            params={"sample_weight": weight},
            return_estimator=True,
        )["estimator"][0]
    expected = gs.OneStepRegressor(width=20, random_state=0).fit(X[:60], y[:60])
    np.testing.assert_allclose(routed.predict(X), expected.predict(X), atol=1e-9)


def test_gradstep_is_imported_without_scikit_learn():
    code = "import sys, gradstep; gradstep.Problem; assert 'sklearn' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_missing_extra_is_named():
    code = "import sys; sys.modules['sklearn'] = None; import gradstep; gradstep.OneStepRegressor"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip().splitlines()[-1].startswith("ImportError: the estimators need scikit-learn")
    assert done.stderr.endswith('run: pip install "gradstep[estimators]"\n')


@pytest.mark.parametrize("kind", [gs.OneStepFeatures, gs.OneStepRegressor, gs.OneStepClassifier])
def test_what_a_fit_has_is_missed_in_the_words_of_the_user(kind):
    model = kind(20)
    for name in ("weights_", "initial_readout_", "directions_", "feature_importances_", "coef_", "eta_"):
        with pytest.raises(NotFittedError, match=rf"{kind.__name__} instance is not fitted yet.*'{name}'"):
            getattr(model, name)
        assert not hasattr(model, name)
    with pytest.raises(AttributeError, match="'widht'") as failure:
        _ = model.widht
    assert not isinstance(failure.value, NotFittedError)
    fitted = clone(model).fit(np.eye(6), [0, 1, 0, 1, 0, 1])
    with pytest.raises(AttributeError, match="'weight_'") as failure:
        _ = fitted.weight_
    assert not isinstance(failure.value, NotFittedError)
    assert fitted.weights_.shape == (20, 6)


@pytest.mark.parametrize("kind", [gs.OneStepFeatures, gs.OneStepRegressor, gs.OneStepClassifier])
def test_after_a_fit_that_was_refused_there_is_none(kind):
    """Names and number of the columns are known by then, which is not enough."""
    X, model = np.eye(6), kind(20)
    with pytest.raises(ValueError, match="y contains NaN"):
        model.fit(X, [0.0, 1.0, np.nan, 1.0, 0.0, 1.0])
    asked = [lambda: model.transform(X)] if kind is gs.OneStepFeatures else [lambda: model.predict(X)]
    asked += [lambda: model.diagnose(X, np.arange(6) % 2)] if hasattr(kind, "diagnose") else []
    for ask in [*asked, lambda: model.weights_]:
        with pytest.raises(NotFittedError):
            ask()
    model.fit(X, [0, 1, 0, 1, 0, 1])
    asked[0]()
