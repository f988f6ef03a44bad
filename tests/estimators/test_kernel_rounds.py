"""Kernel ridge regression in rounds finds the directions of a target."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from gradstep.estimators import kernel_rounds
from gradstep.estimators.kernel_rounds import _PENALTIES, _coefficients, kernel_gradients


def table(n, d, seed=0):
    random = np.random.default_rng(seed)
    return random.standard_normal((n, d)), random


def product(gradients):
    found = gradients.T @ gradients
    return found / np.trace(found)


@pytest.mark.parametrize("n", [100, 400])  # with the penalty's own factorisation, and with one of all rows
def test_one_round_is_kernel_ridge_regression(n, monkeypatch):
    """Against differences of a fit that is made here, at one penalty."""
    monkeypatch.setattr(kernel_rounds, "_PENALTIES", np.array([0.1]))
    z, random = table(n, 4)
    y = np.stack([np.sin(z[:, 0]) * z[:, 1], z[:, 2]], axis=1) + 0.1 * random.standard_normal((n, 2))
    weights = random.random(n) + 0.5
    gradients, rounds = kernel_gradients(z, y, weights, 1)
    assert rounds == 1

    distance = cdist(z, z)
    length = np.median(distance[:256, :256][np.triu_indices(min(n, 256), 1)])
    share = weights / weights.mean()
    centred = y - share @ y / n
    coefficients = np.linalg.solve(np.exp(-distance / length) + np.diag(0.1 / share), centred)
    expected = []
    for k, output in enumerate(coefficients.T):
        for mu in range(n):
            others = np.arange(n) != mu  # the kernel has a kink at its own row
            step = 1e-6 * np.eye(4)
            ahead, behind = (
                np.exp(-cdist(z[mu] + sign * step, z[others]) / length) @ output[others] for sign in (1, -1)
            )
            expected.append(np.sqrt(share[mu]) * (ahead - behind) / 2e-6)
            # The gradients are right up to one factor.
            assert expected[-1] == pytest.approx(gradients[k * n + mu] / length**2, abs=1e-3)
    assert product(gradients) == pytest.approx(product(np.array(expected)), abs=1e-5)


def test_only_ratios_of_weights_count():
    z, random = table(60, 3)
    y, weights = np.tanh(2 * z[:, :1]) + 0.3 * random.standard_normal((60, 1)), random.random(60) + 0.5
    one, _ = kernel_gradients(z, y, weights, 2)
    other, _ = kernel_gradients(z, y, 4.0 * weights, 2)
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("target", "directions", "least"),
    [
        pytest.param(lambda z: z[:, 0] * z[:, 1] * z[:, 2], 3, 0.9, marks=pytest.mark.statistical),
        (lambda z: np.sin(2 * z[:, 0]) + z[:, 1], 2, 0.95),
        (lambda z: z[:, 3] ** 2, 4, 0.98),
    ],
)
def test_directions_are_found(target, directions, least):
    """Most of the outer product lies in the columns of the target, which few random features do not see."""
    z, random = table(1500, 15)
    y = target(z)
    y = y / y.std() + 0.1 * random.standard_normal(1500)
    gradients, rounds = kernel_gradients(z, y[:, None], np.ones(1500), 8)
    assert rounds > 2
    assert np.trace(product(gradients)[:directions, :directions]) > least


def test_turned_inputs_have_turned_gradients():
    z, random = table(200, 5)
    y = np.abs(z[:, :1]) + 0.2 * random.standard_normal((200, 1))
    rotation = np.linalg.qr(random.standard_normal((5, 5)))[0]
    plain, _ = kernel_gradients(z, y, np.ones(200), 3)
    turned, _ = kernel_gradients(z @ rotation, y, np.ones(200), 3)
    assert rotation @ product(turned) @ rotation.T == pytest.approx(product(plain), abs=1e-4)


@pytest.mark.parametrize("weight", [1.0, 1e8])
def test_rows_that_nearly_agree(weight):
    """Distances between them are rounding errors, so that the kernel is not positive; large weights enlarge that."""
    places, random = table(4, 4)
    z = np.tile(places, (150, 1)) + 1e-5 * random.standard_normal((600, 4))
    y = np.tile(np.tanh(places[:, :1]), (150, 1))
    weights = np.where(np.arange(600) % 2, weight, 1.0)
    gradients, rounds = kernel_gradients(z, y, weights, 4)
    assert np.isfinite(gradients).all()
    assert rounds > 0


def test_more_inputs_than_rows():
    """The gradients lie in the span of the rows: turned into it, nothing changes but the cost."""
    z, random = table(40, 90)
    y = np.tanh(z[:, :1]) + 0.1 * random.standard_normal((40, 1))
    gradients, rounds = kernel_gradients(z, y, np.ones(40), 2)
    assert gradients.shape == (40, 90)
    assert rounds > 0
    basis = np.linalg.svd(z, full_matrices=False)[2].T
    inside, _ = kernel_gradients(z @ basis, y, np.ones(40), 2)
    assert product(gradients) == pytest.approx(product(inside @ basis.T), abs=1e-8)


def test_many_outputs_have_gradients_of_fewer_rows(monkeypatch):
    z, _ = table(300, 6)
    y = np.concatenate([np.tanh(z[:, :1]), z[:, 1:2] ** 2, np.zeros((300, 2))], axis=1)
    every, _ = kernel_gradients(z, y, np.ones(300), 2)
    monkeypatch.setattr(kernel_rounds, "_GRADIENTS", 400)
    some, _ = kernel_gradients(z, y, np.ones(300), 2)
    assert every.shape == (1200, 6)
    assert some.shape == (400, 6)
    assert product(some) == pytest.approx(product(every), abs=0.1)


def test_noise_ends_the_rounds():
    z, random = table(300, 10)
    _, rounds = kernel_gradients(z, random.standard_normal((300, 1)), np.ones(300), 8)
    assert rounds <= 3


def test_nothing_is_found_where_nothing_varies():
    z, _ = table(30, 3)
    assert kernel_gradients(z, np.ones((30, 1)), np.ones(30), 3) == (None, 0)
    assert kernel_gradients(np.ones((30, 3)), z[:, :1], np.ones(30), 3) == (None, 0)
    assert kernel_gradients(z[:1], z[:1, :1], np.ones(1), 3) == (None, 0)


def test_inputs_that_are_no_numbers_end_the_search():
    z, _ = table(600, 3)
    z[500, 1] = np.nan
    assert kernel_gradients(z, z[:, :1], np.ones(600), 3) == (None, 0)


def test_the_penalty_is_that_of_generalised_cross_validation():
    """With the hat matrix of each penalty: the squared residuals over the square of the mean share that is left."""
    random = np.random.default_rng(0)
    x, weights = random.standard_normal((40, 2)), random.uniform(0.5, 2.0, 40)
    kernel = np.exp(-np.linalg.norm(x[:, None] - x, axis=2))
    y = np.column_stack([np.sin(2 * x[:, 0]), x[:, 1]]) + 0.3 * random.standard_normal((40, 2))
    root = np.sqrt(weights)[:, None]
    errors, fits = [], []
    for penalty in _PENALTIES:
        left = penalty * np.linalg.inv(root * kernel * root.T + penalty * np.eye(40))
        errors.append(np.square(left @ (root * y)).sum() / (np.trace(left) / 40) ** 2)
        fits.append(root * (left @ (root * y)) / penalty)
    found, error = _coefficients(kernel, y, weights)
    best = int(np.argmin(errors))
    assert 0 < best < len(errors) - 1
    assert error == pytest.approx(errors[best], rel=1e-8)
    np.testing.assert_allclose(found, fits[best], rtol=1e-6, atol=1e-9)
