"""Rounds draw the first layer again along the gradients of the fitted network."""

import math

import numpy as np
import pytest
from scipy.linalg import sqrtm
from sklearn.linear_model import Ridge as PlainRidge

import gradstep as gs
from gradstep.estimators.layer import draw
from gradstep.estimators.metric import HOST, measure
from gradstep.estimators.moves import Sample, redrawn_on
from gradstep.gaussian import scalar_function
from gradstep.problem import Readout
from gradstep.simulation.leave_one_out import copies_of
from gradstep.simulation.ridge import factorise


def layer_of(width, d):
    law, random = Readout("gaussian"), np.random.RandomState(0)
    return draw(scalar_function("relu"), width, d, d, 1, offset=1.0, law=law, random=random)


def sample_of(z, y):
    w, every = np.ones(len(z)), np.ones(len(z), dtype=bool)
    copies = copies_of(np.arange(len(z), dtype=np.uint64), y, w)
    return Sample(z, y, w, copies, every, every, copies.group % 3)


def several(n, d, seed):
    """Return rotated inputs, and a target of three directions with and without noise."""
    random = np.random.default_rng(seed)
    rotation = np.linalg.qr(np.random.default_rng(99).standard_normal((d, d)))[0]
    x = random.standard_normal((n, d))
    truth = np.tanh(x[:, 0]) + x[:, 1] * x[:, 2]
    return x @ rotation, truth + 0.1 * random.standard_normal(n), truth, rotation


@pytest.mark.parametrize("rows", [4, 50])
def test_rows_are_multiplied_by_the_root_of_the_outer_product(rows):
    """With fewer and with more gradients than inputs, against SciPy's square root; pre-activations keep their size."""
    random = np.random.default_rng(0)
    z, gradients = random.standard_normal((300, 7)), random.standard_normal((rows, 7))
    z -= z.mean(axis=0)
    layer, sample = layer_of(40, 7), sample_of(z, z[:, :1])
    metric = measure(z, sample.y, sample.weights, sample.copies, sample.step_rows)
    product = gradients.T @ gradients
    root = sqrtm(0.98 * product / np.trace(product) + 0.02 * np.eye(7) / 7).real
    again = layer.redrawn(gradients, metric)
    expected = layer.weights @ root
    size = np.linalg.norm(layer.weights @ z.T) / np.linalg.norm(expected @ z.T)
    np.testing.assert_allclose(again.weights, size * expected, rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(again.offsets, layer.offsets)


@pytest.mark.parametrize("n", [30, 90])
def test_squared_residuals_are_those_of_a_fit(n):
    random = np.random.default_rng(1)
    features, y, w = random.standard_normal((n, 50)), random.standard_normal((n, 2)), random.random(n)
    ridge = factorise(lambda: iter([(features.copy(), np.arange(n))]), n, 50, y, w)
    square = float(w @ ((y - ridge.target_mean) ** 2).sum(axis=1))
    for penalty, found in zip([0.1, 3.0], ridge.squared_residuals([0.1, 3.0], square), strict=True):
        fitted = PlainRidge(penalty).fit(features, y, w).predict(features)
        assert found == pytest.approx(float(w @ ((y - fitted) ** 2).sum(axis=1)), rel=1e-8)


def test_several_directions_are_learned():
    """The error falls to a fifth of that of one step, and the rows of the layer lie in the span of the directions."""
    X, y, _, rotation = several(1000, 20, 1)
    fresh, _, truth, _ = several(2000, 20, 2)
    errors = {}
    for steps in (1, "auto"):
        model = gs.OneStepRegressor(256, n_steps=steps, random_state=0).fit(X, y)
        errors[steps] = np.mean((model.predict(fresh) - truth) ** 2) / truth.var()
    assert model.rounds_ > 0
    assert (model.eta_, model.damping_) == (0.0, math.inf)
    assert errors["auto"] < 0.2 * errors[1]
    inside = np.linalg.norm(model.weights_ @ rotation[:3].T) ** 2 / np.linalg.norm(model.weights_) ** 2
    assert inside > 0.9
    assert 2 < model.learned_.effective < 4


def test_noise_is_not_learned():
    """Of twenty tables of noise at most two may be taken for more than that, at two standard errors."""
    random = np.random.default_rng(3)
    taken = 0
    for _ in range(20):
        X, y = random.standard_normal((150, 8)), random.standard_normal(150)
        taken += gs.OneStepRegressor(64, random_state=0).fit(X, y).rounds_ > 0
    assert taken <= 2


def test_a_given_step_or_number_of_steps_has_no_rounds():
    X, y, *_ = several(300, 10, 4)
    for options in ({"eta": 5.0}, {"eta": 0}):
        usual, one = (gs.OneStepRegressor(64, n_steps=k, random_state=0, **options).fit(X, y) for k in ("auto", 1))
        assert usual.rounds_ == 0
        np.testing.assert_array_equal(usual.predict(X), one.predict(X))


def test_a_constant_network_is_left_alone():
    z = np.random.default_rng(5).standard_normal((40, 3))
    layer, sample = layer_of(10, 3), sample_of(z, np.zeros((40, 1)))
    metric = measure(z, sample.y, sample.weights, sample.copies, sample.step_rows)
    assert redrawn_on(layer, sample, sample.step_rows, metric, 2) is layer
    assert redrawn_on(layer, sample, np.zeros(40, dtype=bool), metric, 2) is layer


def test_the_diagnosis_of_a_square():
    """One direction, the column; its rounds are told, and no theory of one step is."""
    random = np.random.default_rng(6)
    X = random.standard_normal((400, 8))
    y = X[:, 0] ** 2 + 0.3 * random.standard_normal(400)
    model = gs.OneStepRegressor(128, random_state=0).fit(X, y)
    diagnosis = model.diagnose(X, y)
    text = " ".join(str(diagnosis).split())
    assert "learned one direction, column x0 (1.0 effective); columns x0" in text
    assert f"first layer drawn again in {model.rounds_} rounds" in text
    assert "more rounds twice the rounds" in text
    assert diagnosis.importance_errors[0] < 0.05
    assert diagnosis.theory is None
    diagnosis.plot()
    assert model.learning_curve(X, y, n=[200, 400]).at(400).value > 0.9
    features = model._layer.features(HOST, model.standardisation_(X))
    np.testing.assert_allclose(features @ model.coef_ + model.intercept_, model.predict(X), atol=1e-9)
