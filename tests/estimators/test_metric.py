"""The metric against the matrices it stands for."""

import numpy as np
import pytest

from gradstep.estimators import metric as metric_module
from gradstep.estimators.metric import measure
from gradstep.estimators.rows import Sample
from gradstep.simulation.leave_one_out import PATH, copies_of


def table(n, d, k=2):
    """Return correlated inputs, targets and integer weights, with some rows repeated."""
    random = np.random.default_rng(0)
    z = random.standard_normal((n, d)) @ random.standard_normal((d, d)) / np.sqrt(d)
    z[3] = z[0]
    z -= z.mean(axis=0)
    y = z[:, :k] + 0.5 * random.standard_normal((n, k))
    return z, y, random.integers(1, 3, n).astype(float), np.array([hash(row.tobytes()) for row in z]).astype(np.uint64)


def metric_of(z, y, w, hashes):
    every = np.ones(len(z), dtype=bool)
    return measure(Sample(z, y, w, copies_of(hashes, y, w), every, every))


@pytest.mark.parametrize(("n", "d"), [(40, 6), (20, 30)], ids=["more rows", "more inputs"])
def test_metric_is_the_second_moment(n, d):
    z, y, w, hashes = table(n, d)
    z -= w @ z / w.sum()
    metric = metric_of(z, y, w, hashes)
    moment = (z * w[:, None]).T @ z / w.sum()
    weights, gradient = np.random.default_rng(1).standard_normal((2, 5, d))
    np.testing.assert_allclose(metric.sizes(weights) ** 2, np.einsum("ij,jk,ik->i", weights, moment, weights))
    gradient = gradient @ moment  # along the rows, as gradients are
    expected = gradient @ np.linalg.inv(moment + 0.2 * np.eye(d)) * 1.2
    np.testing.assert_allclose(metric.damped(gradient, 0.2), expected, atol=1e-10)
    assert metric.damped(gradient, np.inf) is gradient
    change = np.sqrt(np.sum(w @ (z @ gradient.T) ** 2) / np.sum(w @ (z @ weights.T) ** 2))
    assert metric.movement(weights, gradient) == pytest.approx(change)
    direction, side = metric.leading(gradient)
    assert w @ (z @ direction) ** 2 / w.sum() == pytest.approx(1.0)
    moves = (z * np.sqrt(w)[:, None]) @ gradient.T  # of every row and neuron
    strongest = np.sqrt(w) * (z @ direction) @ moves
    np.testing.assert_allclose(np.abs(strongest @ side), w.sum() ** 0.5 * np.linalg.norm(moves, 2))
    np.testing.assert_allclose(np.linalg.norm(strongest), np.abs(strongest @ side))


def test_damping_is_the_best_penalty_on_the_inputs():
    """Ridge regression of the targets on the inputs, refitted without every group of copies."""
    z, y, w, hashes = table(24, 4)
    metric = metric_of(z, y, w, hashes)
    centred = z - w @ z / w.sum()
    penalties = PATH * np.trace((centred * w[:, None]).T @ centred) / 4
    errors = np.zeros(len(penalties))
    for i in range(24):
        kept = hashes != hashes[i]
        mean, level = (w[kept] @ values[kept] / w[kept].sum() for values in (z, y))
        f, t = z[kept] - mean, y[kept] - level
        for p, penalty in enumerate(penalties):
            b = np.linalg.solve((f * w[kept, None]).T @ f + penalty * np.eye(4), (f * w[kept, None]).T @ t)
            errors[p] += w[i] * np.mean((y[i] - level - (z[i] - mean) @ b) ** 2)
    assert metric.damping == pytest.approx(penalties[np.argmin(errors)] / w.sum())


def test_isotropic_inputs_have_no_metric():
    """On inputs that vary alike in all directions every damping is the plain gradient."""
    z = np.concatenate([np.eye(5), -np.eye(5)]) * np.sqrt(5)
    y = z[:, :1]
    metric = metric_of(z, y, np.ones(10), np.arange(10, dtype=np.uint64))
    gradient = np.random.default_rng(0).standard_normal((3, 5))
    np.testing.assert_allclose(metric.damped(gradient, 0.01), gradient)


def test_large_tables_are_measured_on_some_rows(monkeypatch):
    monkeypatch.setattr(metric_module, "_SIDE", 8)
    z, y, w, hashes = table(30, 12)
    metric = metric_of(z, y, w, hashes)
    some = copies_of(hashes, y, w).group < 8
    np.testing.assert_allclose(metric.directions.T @ metric.directions, np.eye(metric.directions.shape[1]), atol=1e-9)
    assert metric.directions.shape == (12, 7)
    rest = z[some] - w[some] @ z[some] / w[some].sum()
    np.testing.assert_allclose(rest, rest @ metric.directions @ metric.directions.T, atol=1e-9)
    outside = np.random.default_rng(0).standard_normal((1, 12))
    outside -= outside @ metric.directions @ metric.directions.T
    np.testing.assert_allclose(metric.damped(outside, 0.1), outside, atol=1e-12)


def test_many_copies_of_few_rows_are_these_rows_with_larger_weights(monkeypatch):
    z, y, w, hashes = table(6, 12)
    gradient = np.random.default_rng(1).standard_normal((3, 12))
    expected = metric_of(z, y, 3 * w, hashes)
    monkeypatch.setattr(metric_module, "_SIDE", 8)
    found = metric_of(np.tile(z, (3, 1)), np.tile(y, (3, 1)), np.tile(w, 3), np.tile(hashes, 3))
    np.testing.assert_allclose(found.damping, expected.damping)
    centred = z - w @ z / w.sum()  # along other directions a neuron may change, which makes no difference
    found, expected = (each.damped(gradient, 0.1) @ centred.T for each in (found, expected))
    np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("damping", [0.3, np.inf])
def test_noise_is_the_covariance_of_damped_gradients(damping):
    """Gradients of random targets, damped: the variances of their projections on the inputs, in the eigenbasis."""
    z, y, w, hashes = table(400, 5)
    metric = metric_of(z, y, w, hashes)
    random = np.random.default_rng(1)
    draws = random.standard_normal((5000, 400)) * np.sqrt(w) @ z / 400
    projections = (metric.damped(draws, damping) @ metric.directions) * np.sqrt(metric.eigenvalues)
    ratio = np.var(projections, axis=0) / metric.noise(damping)
    np.testing.assert_allclose(ratio / ratio.mean(), 1, atol=5 * np.sqrt(2 / 5000))
