"""The step against numerical differentiation of the loss, and against the simulation's step on the same draw."""

import numpy as np
import pytest

import gradstep as gs
from gradstep.estimators.layer import FirstLayer, draw
from gradstep.estimators.leave_one_out import Copies
from gradstep.estimators.step_choice import FOLDS, SCALES, Sample, choice_width, movement, score_steps
from gradstep.gaussian import scalar_function
from gradstep.problem import Readout
from gradstep.simulation.backend import Backend, backend
from gradstep.simulation.instance import TEACHER_AXIS, step_sample
from gradstep.simulation.step import gradient as simulated_gradient

HOST = backend(None, "float64")
TANH = scalar_function("tanh")


def small(outputs, d=4, width=3, offset=0.7):
    return draw(TANH, width, d, d, outputs, offset=offset, law=Readout("gaussian"), random=np.random.RandomState(1))


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
    expected = simulated_gradient(
        HOST,
        TANH,
        scalar_function("sin"),
        sample,
        layer.weights,
        layer.readout[:, 0],
        noise=0.3,
        output_factor=1 / width,
    )
    computed = layer.gradient(HOST, [(x, y[:, None], np.ones(rows))]) / rows
    np.testing.assert_allclose(computed, expected.rows, atol=1e-14)


def test_estimator_takes_this_step():
    """Two steps of the regressor, written out in its own conventions."""
    random = np.random.default_rng(0)
    X, y = random.standard_normal((30, 4)) * [1, 2, 3, 4] + 5, random.standard_normal(30)
    model = gs.OneStepRegressor(7, activation="tanh", eta=2.0, n_steps=2, random_state=0).fit(X, y)
    z, target = (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()
    weights, a = model.initial_weights_, model.initial_readout_[:, 0]
    for _ in range(2):
        u = z @ weights.T + model.offsets_
        residual = target - np.tanh(u) @ a / 7
        weights = weights + 2.0 / np.sqrt(7) * a[:, None] * (((1 - np.tanh(u) ** 2) * residual[:, None]).T @ z) / 30
    np.testing.assert_allclose(model.weights_, weights, atol=1e-12)


def test_rows_of_the_layer():
    layer = draw(TANH, 4000, 5, 5, 2, offset=0.5, law=Readout("gaussian"), random=np.random.RandomState(0))
    assert 5 * layer.weights.var() == pytest.approx(1.0, abs=0.05)
    assert layer.offsets.std() == pytest.approx(0.5, abs=0.03)
    assert abs(np.corrcoef(layer.readout.T)[0, 1]) < 0.06


def test_movement_is_relative():
    layer, random = small(1), np.random.default_rng(0)
    z, w = random.standard_normal((20, 4)), np.ones(20)
    gradient = random.standard_normal((3, 4))
    moved = layer.moved(gradient, 2.0)
    change = np.linalg.norm(z @ (moved.weights - layer.weights).T) / np.linalg.norm(z @ layer.weights.T)
    assert movement(layer, gradient, z, w) * 2.0 / np.sqrt(3) == pytest.approx(change)


def sample_of(random, n, noise_only):
    z = random.standard_normal((n, 10))
    y = random.standard_normal(n) if noise_only else np.tanh(2 * z[:, 0])
    y = ((y - y.mean()) / y.std())[:, None]
    return Sample(z, y, np.ones(n), Copies(np.ones(n), y, np.arange(n)), np.arange(n) % FOLDS)


def test_noise_is_not_stepped_on_and_a_single_index_is():
    """A step that has seen the labels looks good on them: the naive leave-one-out error would take it on pure noise."""
    layer = draw(
        scalar_function("relu"), 64, 10, 10, 1, offset=1.0, law=Readout("gaussian"), random=np.random.RandomState(0)
    )
    noise = score_steps(layer, sample_of(np.random.default_rng(1), 60, True), SCALES, 1)
    assert noise.errors.min() > 0.9
    signal = score_steps(layer, sample_of(np.random.default_rng(1), 400, False), SCALES, 1)
    assert signal.chosen > 0
    gain, deviation = signal.gain(signal.chosen)
    assert gain > 5 * deviation > 0


def test_scores_are_those_of_steps_that_have_not_seen_the_row():
    """One fold, one scale, by hand: the gradient of the other folds, then ridge regression without each row."""
    layer = draw(TANH, 5, 10, 10, 1, offset=1.0, law=Readout("gaussian"), random=np.random.RandomState(0))
    sample = sample_of(np.random.default_rng(2), 24, False)
    scores = score_steps(layer, sample, [2.0], 1)
    best = np.inf
    totals = []
    from gradstep.estimators.leave_one_out import PATH

    for k in range(FOLDS):
        rows = sample.fold != k
        gradient = layer.gradient(HOST, [(sample.z[rows], sample.y[rows], np.ones(rows.sum()))]) / rows.sum()
        eta = 2.0 / movement(layer, gradient, sample.z[rows], np.ones(rows.sum())) * np.sqrt(5)
        features = layer.moved(gradient, eta).features(HOST, sample.z)
        centred = features - features.mean(axis=0)
        penalties = PATH * np.trace(centred.T @ centred) / 5
        line = np.zeros(len(PATH))
        for i in np.flatnonzero(~rows):
            kept = np.arange(24) != i
            F, t = features[kept], sample.y[kept, 0]
            for p, penalty in enumerate(penalties):
                b = np.linalg.solve(
                    (F - F.mean(0)).T @ (F - F.mean(0)) + penalty * np.eye(5), (F - F.mean(0)).T @ (t - t.mean())
                )
                line[p] += (sample.y[i, 0] - t.mean() - (features[i] - F.mean(0)) @ b) ** 2
        totals.append(line)
    best = np.sum(totals, axis=0).min() / 24
    assert scores.errors[0] == pytest.approx(best, rel=1e-6)


def test_choice_width():
    assert choice_width(8, 1000) == 8
    assert choice_width(512, 10_000) == 128
    assert choice_width(10_000, 10_000) == 256
    assert choice_width(512, 100) == 50


def test_float32_and_float64_agree():
    layer, random = small(2, 6, 9), np.random.default_rng(0)
    blocks = [(random.standard_normal((50, 6)), random.standard_normal((50, 2)), np.ones(50))]
    single = layer.gradient(backend(None, "float32"), blocks)
    np.testing.assert_allclose(single, layer.gradient(HOST, blocks), atol=1e-4)
    assert isinstance(layer, FirstLayer)


def test_any_array_library():
    """Only the array standard is used: a stricter namespace gives the same numbers."""
    strict = pytest.importorskip("array_api_strict")
    engine = Backend(strict, None, "float64", None)
    layer, random = small(2, 6, 9), np.random.default_rng(0)
    z, y, w = random.standard_normal((20, 6)), random.standard_normal((20, 2)), random.uniform(0.5, 2, 20)
    np.testing.assert_allclose(layer.gradient(engine, [(z, y, w)]), layer.gradient(HOST, [(z, y, w)]), atol=1e-12)
    np.testing.assert_allclose(np.asarray(layer.features(engine, z)), layer.features(HOST, z), atol=1e-14)
