"""Rounds draw the first layer again along the directions in which the targets vary."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import sqrtm
from sklearn.linear_model import Ridge as PlainRidge

import gradstep as gs
from gradstep.estimators import moves
from gradstep.estimators.kernel_rounds import kernel_gradients
from gradstep.estimators.layer import draw
from gradstep.estimators.metric import measure
from gradstep.estimators.moves import redrawn_on
from gradstep.estimators.parameters import checked_width
from gradstep.estimators.rows import HOST, Sample
from gradstep.gaussian import scalar_function
from gradstep.problem import Readout
from gradstep.simulation.leave_one_out import copies_of
from gradstep.simulation.ridge import factorise


def layer_of(width, d):
    law, random = Readout("gaussian"), np.random.RandomState(0)
    return draw(scalar_function("relu"), width, d, 1, offset=1.0, law=law, random=random)


def sample_of(z, y):
    w, every = np.ones(len(z)), np.ones(len(z), dtype=bool)
    copies = copies_of(np.arange(len(z), dtype=np.uint64), y, w)
    return Sample(z, y, w, copies, every, every)


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
    metric = measure(sample)
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


@pytest.mark.parametrize(
    "function",
    [
        lambda u: u[:, 0] * u[:, 1] * u[:, 2],
        pytest.param(lambda u: np.sin(2 * u[:, 0]) + u[:, 1], marks=pytest.mark.statistical),
    ],
)
def test_what_few_random_features_do_not_see_is_learned(function):
    """A product of three inputs and a fast wave, of which one step learns the linear part."""
    random = np.random.default_rng(7)
    n = 1000
    u = random.standard_normal((n + 1000, 12))
    truth = function(u) / function(u).std()
    y = truth[:n] + 0.1 * random.standard_normal(n)
    errors = {}
    for steps in (1, "auto"):
        model = gs.OneStepRegressor(384, n_steps=steps, random_state=0).fit(u[:n], y)
        errors[steps] = np.mean((model.predict(u[n:]) - truth[n:]) ** 2)
    assert model.rounds_ > 2
    assert errors["auto"] < 0.3 * errors[1]


@pytest.mark.parametrize(
    ("function", "activation"),
    [
        (lambda u: np.sin(2 * u[:, :3]).sum(axis=1), "tanh"),
        pytest.param(lambda u: u[:, 0] * u[:, 1] + u[:, 2] * u[:, 3], "relu", marks=pytest.mark.statistical),
    ],
)
def test_smooth_functions_get_smooth_neurons(function, activation):
    """Of ReLU and tanh the better one is taken, where neither is given and several steps are allowed."""
    random = np.random.default_rng(3)
    n = 500
    u = random.standard_normal((1500, 6))
    truth = function(u) / function(u).std()
    y = truth[:n] + 0.1 * random.standard_normal(n)
    models = {given: gs.OneStepRegressor(256, activation=given, random_state=0) for given in ("auto", "relu", "tanh")}
    errors = {given: np.mean((model.fit(u[:n], y).predict(u[n:]) - truth[n:]) ** 2) for given, model in models.items()}
    assert models["auto"].activation_ == activation
    assert errors["auto"] == errors[activation] < 0.8 * max(errors.values())
    for of_theory in ({"n_steps": 1}, {"eta": 0}):
        model = gs.OneStepRegressor(256, random_state=0, **of_theory)
        assert model.fit(u[:n], y).activation_ == "relu"
    if activation == "tanh":  # what follows a fit is about the neurons that were taken
        ours, given = (models[name].learning_curve(u[:n], y, n=[100], max_rows=100) for name in ("auto", activation))
        assert str(ours) == str(given)


def test_networks_sharpen_the_directions_of_many_rows(monkeypatch):
    """With four times as many rows as the kernel sees, more of the layer lies along the directions of the target."""
    monkeypatch.setattr(moves, "KERNEL_ROWS", 300)
    X, y, _, rotation = several(1200, 20, 8)
    layer, sample = layer_of(256, 20), sample_of(X, y[:, None])
    metric = measure(replace(sample, z=X))
    inside = []
    for networks in (0, 2):
        monkeypatch.setattr(moves, "_SHARPENING", networks)
        again, rounds = redrawn_on(layer, sample, sample.step_rows, metric, 4)
        inside.append(np.linalg.norm(again.weights @ rotation[:3].T) ** 2 / np.linalg.norm(again.weights) ** 2)
        assert 1 < rounds <= 4
    assert 1 - inside[1] < 0.7 * (1 - inside[0])


@pytest.mark.parametrize("most", [2000, 100])
def test_the_order_of_rows_makes_no_difference(monkeypatch, most):
    """Also where some of many rows stand for all, of a table that is sorted by an input."""
    monkeypatch.setattr(moves, "KERNEL_ROWS", 300)
    monkeypatch.setattr(moves, "REDRAW_ROWS", most)
    monkeypatch.setattr(moves, "_SIDE", min(most, moves._SIDE))
    X, y, *_ = several(1000, 6, 10)
    found = []
    for order in (np.arange(1000), np.argsort(X[:, 0])):
        sample = sample_of(X[order], y[order, None])
        sample = replace(sample, copies=replace(sample.copies, group=order))
        metric = measure(replace(sample, z=X[order]))
        found.append(redrawn_on(layer_of(40, 6), sample, sample.step_rows, metric, 3)[0].weights)
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)


def test_layers_on_the_same_rows_share_the_kernel_fits(monkeypatch):
    asked = []
    monkeypatch.setattr(moves, "kernel_gradients", lambda *given: asked.append(given) or kernel_gradients(*given))
    X, y, *_ = several(200, 5, 3)
    sample = sample_of(X, y[:, None])
    metric, half = measure(sample), np.arange(200) < 100
    narrow, wide = (redrawn_on(layer_of(width, 5), sample, half, metric, 2)[0] for width in (20, 40))
    assert len(asked) == 1
    monkeypatch.undo()
    np.testing.assert_array_equal(
        wide.weights, redrawn_on(layer_of(40, 5), sample_of(X, y[:, None]), half, metric, 2)[0].weights
    )
    # Other rows, other rounds and other targets are other fits.
    other = replace(sample, y=sample.y[::-1])
    for given in ((sample, ~half, metric, 2), (sample, half, metric, 1), (other, half, metric, 2)):
        assert not np.allclose(redrawn_on(layer_of(20, 5), *given)[0].weights, narrow.weights)


def test_copies_count_as_one_row_with_their_weight():
    X, y, *_ = several(200, 5, 9)
    layer, once = layer_of(30, 5), sample_of(X, y[:, None])
    doubled = np.concatenate([np.arange(200), np.arange(50)])
    w, every = np.ones(250), np.ones(250, dtype=bool)
    copies = copies_of(doubled.astype(np.uint64), once.y[doubled], w)
    repeated = Sample(X[doubled], once.y[doubled], w, copies, every, every)
    weights = np.where(np.arange(200) < 50, 2.0, 1.0)
    weighted = replace(once, weights=weights, copies=replace(once.copies, weight=weights))
    metric = measure(replace(once, z=X))
    expected, _ = redrawn_on(layer, weighted, once.step_rows, metric, 3)
    found, _ = redrawn_on(layer, repeated, every, metric, 3)
    np.testing.assert_allclose(found.weights, expected.weights, atol=1e-6)
    plain, _ = redrawn_on(layer, once, once.step_rows, metric, 3)
    assert np.abs(plain.weights - expected.weights).max() > 1e-3


@pytest.mark.parametrize(
    ("rows", "width"), [(2, 512), (300, 512), (667, 1024), (1000, 2048), (32768, 2048), (100_000, 1024), (10**6, 512)]
)
def test_the_width_is_chosen_by_the_number_of_rows(rows, width):
    assert checked_width("auto", rows) == width
    assert checked_width(70, rows) == 70


@pytest.mark.parametrize("value", ["wide", 0, 2.5, None, 10**400])
def test_an_impossible_width(value):
    with pytest.raises(gs.InvalidInput, match=r"width: got .*; allowed: an integer >= 1 or 'auto'"):
        gs.OneStepRegressor(value).fit(np.eye(5), np.arange(5.0))


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
    metric = measure(sample)
    for rows in (sample.step_rows, np.zeros(40, dtype=bool)):
        left, rounds = redrawn_on(layer, sample, rows, metric, 2)
        assert left is layer
        assert rounds == 0


@pytest.mark.statistical
def test_the_diagnosis_of_a_square():
    """One direction, the column; its rounds are told, and no theory of one step is."""
    random = np.random.default_rng(6)
    X = random.standard_normal((400, 8))
    y = X[:, 0] ** 2 + 0.3 * random.standard_normal(400)
    model = gs.OneStepRegressor(128, random_state=0).fit(X, y)
    diagnosis = model.diagnose(X, y)
    text = " ".join(str(diagnosis).split())
    assert "learned one direction, column x0 (1.0 effective); columns x0" in text
    assert f"which {model.rounds_} rounds found" in " ".join(text.split())
    assert f"more rounds none: the rounds ended by themselves after {model.rounds_}" in text
    assert (diagnosis.larger, diagnosis.larger_error) == (0.0, 0.0)
    assert diagnosis.importance_errors[0] < 0.05
    assert diagnosis.theory is None
    diagnosis.plot()
    assert model.learning_curve(X, y, n=[200, 400]).at(400).value > 0.9
    features = model._layer.features(HOST, model.standardisation_(X))
    np.testing.assert_allclose(features @ model.coef_ + model.intercept_, model.predict(X), atol=1e-9)
