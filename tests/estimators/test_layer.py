"""The step against numerical differentiation of the loss, and against the simulation's step on the same draw."""

import numpy as np
import pytest

import gradstep as gs
from gradstep.estimators.layer import FirstLayer, draw
from gradstep.estimators.metric import Metric
from gradstep.gaussian import scalar_function
from gradstep.problem import Readout
from gradstep.simulation.backend import Backend, backend
from gradstep.simulation.instance import TEACHER_AXIS, step_sample
from gradstep.simulation.step import gradient as simulated_gradient

HOST = backend(None, "float64")
TANH = scalar_function("tanh")


def small(outputs, d=4, width=3, offset=0.7):
    return draw(TANH, width, d, outputs, offset=offset, law=Readout("gaussian"), random=np.random.RandomState(1))


@pytest.mark.parametrize("outputs", [1, 3])
def test_gradient_is_minus_the_derivative_of_the_loss(outputs):
    """d/dw_i of (1/2) sum_mu weight_mu |y_mu - f(x_mu)|^2 is -(1/N) sum over the rows of the gradient."""
    layer, random = small(outputs), np.random.default_rng(0)
    z, y, w = random.standard_normal((9, 4)), random.standard_normal((9, outputs)), random.uniform(0.5, 2, 9)

    def loss(weights):
        output = np.tanh(z @ weights.T + layer.offsets) @ layer.readout / layer.width
        return 0.5 * w @ ((y - output) ** 2).sum(axis=1)

    computed = layer.gradient(HOST, [(z[:5], y[:5], w[:5]), (z[5:], y[5:], w[5:])])
    for place in np.ndindex(3, 4):
        shift = np.zeros((3, 4))
        shift[place] = 1e-5
        slope = (loss(layer.weights + shift) - loss(layer.weights - shift)) / 2e-5
        assert slope == pytest.approx(-computed[place] / layer.width, abs=1e-9)


def test_gradient_is_that_of_the_simulation():
    d, width, rows = 6, 5, 40
    layer = small(1, d, width, offset=0.0)
    sample = step_sample(3, rows, d)
    ((x, errors),) = sample.blocks()
    y = np.sin(x[:, TEACHER_AXIS]) + 0.3 * errors
    expected = simulated_gradient(HOST, TANH, [(x, y)], layer.weights, layer.readout[:, 0], output_factor=1 / width)
    computed = layer.gradient(HOST, [(x, y[:, None], np.ones(rows))]) / rows
    np.testing.assert_allclose(computed, expected.rows, atol=1e-14)


@pytest.mark.parametrize("damping", ["auto", 0.3])
def test_estimator_takes_this_step(damping):
    """Two steps of the regressor, written out in its own conventions; a given eta goes with the plain gradient."""
    random = np.random.default_rng(0)
    X, y = random.standard_normal((30, 4)) * [1, 2, 3, 4] + 5, random.standard_normal(30)
    X[:, 1] += X[:, 0]
    options = {"activation": "tanh", "n_steps": 2, "random_state": 0}
    initial = gs.OneStepRegressor(7, eta=0.0, **options).fit(X, y)
    model = gs.OneStepRegressor(7, eta=2.0, damping=damping, **options).fit(X, y)
    z, target = (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()
    weights, offsets, a = initial.weights_, initial.offsets_, model.initial_readout_[:, 0]
    factor = np.eye(4) if damping == "auto" else 1.3 * np.linalg.inv(z.T @ z / 30 + 0.3 * np.eye(4))
    for _ in range(2):
        u = z @ weights.T + offsets
        residual = target - np.tanh(u) @ a / 7
        gradient = a[:, None] * (((1 - np.tanh(u) ** 2) * residual[:, None]).T @ z) / 30
        moved = weights + 2.0 / np.sqrt(7) * gradient @ factor
        offsets = offsets * (z @ moved.T).std(axis=0) / (z @ weights.T).std(axis=0)
        weights = moved
    np.testing.assert_allclose(model.weights_, weights, atol=1e-12)
    np.testing.assert_allclose(model.offsets_, offsets, atol=1e-12)
    assert model.step_errors_ is None
    assert model.damping_ == (np.inf if damping == "auto" else 0.3)


def test_rows_of_the_layer():
    layer = draw(TANH, 4000, 5, 2, offset=0.5, law=Readout("gaussian"), random=np.random.RandomState(0))
    assert 5 * layer.weights.var() == pytest.approx(1.0, abs=0.05)
    assert layer.offsets.std() == pytest.approx(0.5, abs=0.03)
    assert abs(np.corrcoef(layer.readout.T)[0, 1]) < 0.06


def test_offsets_stay_where_inputs_do_not_vary():
    layer = small(1)
    moved = layer.moved(np.ones((3, 4)), 2.0, Metric(np.zeros(4), np.eye(4), 1.0))
    np.testing.assert_array_equal(moved.offsets, layer.offsets)
    np.testing.assert_allclose(moved.weights, layer.weights + 2 / np.sqrt(3))


def test_float32_and_float64_agree():
    layer, random = small(2, 6, 9), np.random.default_rng(0)
    blocks = [(random.standard_normal((50, 6)), random.standard_normal((50, 2)), np.ones(50))]
    single = layer.gradient(backend(None, "float32"), blocks)
    np.testing.assert_allclose(single, layer.gradient(HOST, blocks), atol=1e-4)
    assert isinstance(layer, FirstLayer)


def test_any_array_library():
    """Only the array standard is used: a stricter namespace gives the same numbers."""
    strict = pytest.importorskip("array_api_strict")
    engine = Backend(strict, None, "float64")
    layer, random = small(2, 6, 9), np.random.default_rng(0)
    z, y, w = random.standard_normal((20, 6)), random.standard_normal((20, 2)), random.uniform(0.5, 2, 20)
    np.testing.assert_allclose(layer.gradient(engine, [(z, y, w)]), layer.gradient(HOST, [(z, y, w)]), atol=1e-12)
    np.testing.assert_allclose(np.asarray(layer.features(engine, z)), layer.features(HOST, z), atol=1e-14)
