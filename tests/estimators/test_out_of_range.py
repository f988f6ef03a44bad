"""Features that overflow: a choice among the steps whose features do not, or one error; warnings are errors here."""

import numpy as np
import pytest

import gradstep as gs
from gradstep.errors import InvalidInput
from gradstep.estimators.moves import NO_STEP, Move
from gradstep.estimators.step_choice import StepErrors
from gradstep.simulation.ridge import OutOfRange


@pytest.fixture(scope="module")
def heavy_tails():
    random = np.random.default_rng(0)
    X = random.standard_normal((3000, 6))
    X[:, 0] = random.standard_t(1.5, 3000)
    return X, np.tanh(X[:, 1]) + 0.1 * random.standard_normal(3000)


def test_steps_that_overflow_are_not_taken(heavy_tails):
    X, y = heavy_tails
    model = gs.OneStepRegressor(64, n_steps=1, random_state=0, activation="exp(9*x)").fit(X, y)
    assert np.isinf(model.step_errors_.errors).any()
    assert np.isfinite(model.step_errors_.errors[model.step_errors_.scales.index(0.25)])
    assert model.step_scale_ == pytest.approx(0.25)
    assert np.isfinite(model.predict(X)).all()


def test_steps_that_overflow_are_not_chosen():
    moves = (NO_STEP, Move(0.25, 1.0), Move(6.0, 1.0))

    def chosen(*levels):
        return StepErrors(moves, np.outer(levels, np.ones(9)), np.ones(9), np.arange(9), (None,) * 3).chosen.scale

    assert chosen(1.0, 2.0, np.inf) == 0.0
    assert chosen(2.0, 1.0, np.inf) == 0.25
    assert chosen(1.0, np.inf, 0.5) == 6.0
    assert chosen(1.0, np.inf, np.inf) == 0.0
    assert chosen(np.inf, 1.0, 0.5) == 6.0
    with pytest.raises(OutOfRange):
        chosen(np.inf, np.inf, np.inf)


@pytest.mark.parametrize(
    "estimator", [gs.OneStepRegressor, pytest.param(gs.OneStepFeatures, marks=pytest.mark.statistical)]
)
def test_an_error_says_what_to_change(heavy_tails, estimator):
    with pytest.raises(InvalidInput, match=r"activation: got .*features overflow"):
        estimator(64, random_state=0, activation="exp(10*x)", offset=40.0).fit(*heavy_tails)
    with pytest.raises(InvalidInput, match=r"eta: got .*features overflow"):
        estimator(64, random_state=0, eta=1e30, n_steps=20).fit(*heavy_tails)
    with pytest.raises(InvalidInput, match=r"eta: got 1e\+155; .*at most 1e\+30"):
        estimator(64, random_state=0, eta=1e155).fit(*heavy_tails)


def test_a_given_step_that_overflows(heavy_tails):
    with pytest.raises(InvalidInput, match=r"eta: got .*features overflow"):
        gs.OneStepRegressor(64, random_state=0, eta=1e3, activation="exp").fit(*heavy_tails)


@pytest.mark.parametrize(
    ("size", "width"),
    [
        (1e200, 20),
        (1e-200, 400),
        pytest.param(1e200, 400, marks=pytest.mark.statistical),
        pytest.param(1e-200, 20, marks=pytest.mark.statistical),
    ],
)
def test_weights_of_any_size(heavy_tails, size, width):
    """Multiplying weights and penalty by a number changes nothing; the path of penalties is multiplied by it."""
    X, y = heavy_tails[0][:300], heavy_tails[1][:300]
    plain = gs.OneStepRegressor(width, random_state=0).fit(X, y)
    scaled = gs.OneStepRegressor(width, random_state=0).fit(X, y, np.full(300, size))
    np.testing.assert_allclose(scaled.predict(X), plain.predict(X), rtol=1e-5, atol=1e-6)
    assert scaled.ridge_ == pytest.approx(size * plain.ridge_)
    given = gs.OneStepRegressor(width, random_state=0, eta=0, ridge=3.0).fit(X, y)
    tripled = gs.OneStepRegressor(width, random_state=0, eta=0, ridge=9.0).fit(X, y, np.full(300, 3.0))
    np.testing.assert_allclose(tripled.predict(X), given.predict(X), rtol=1e-6, atol=1e-8)
    assert tripled.ridge_ == pytest.approx(9.0)


def test_diagnosis_of_what_overflows(heavy_tails):
    X, y = heavy_tails[0][:500], heavy_tails[1][:500]
    model = gs.OneStepRegressor(16, n_steps=1, random_state=0, activation="exp").fit(X, y)
    diagnosis = model.diagnose(X, y)
    assert "larger step" in str(diagnosis)
    diagnosis.plot()
