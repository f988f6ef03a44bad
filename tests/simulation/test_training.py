"""Several steps of the first layer: what each optimiser does, on which samples, and what must not matter."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

import gradstep as gs
from gradstep.errors import InvalidInput, NotConverged
from gradstep.simulation.training import OPTIMISERS
from gradstep.theory.step.statistics import step_statistics

Rows = NDArray[np.float64]

SETTINGS: dict[str, Any] = {
    "activation": "tanh",
    "teacher": "sin",
    "d": 7,
    "width": 9,
    "n_step": 30,
    "n": 25,
    "eta": gs.Step(2.0, exponent=0.5),
    "ridge": 0.4,
    "noise": 0.3,
}


def network(seed: int = 5, **changes: Any) -> gs.Network:
    return gs.Network(gs.Problem(**(SETTINGS | changes)), seed)


def gradient_by_hand(weights: Rows, readout: Rows, x: Rows, y: Rows) -> Rows:
    u = x @ weights.T
    residual = y - np.tanh(u) @ readout / len(readout)
    return np.asarray(((readout * (1 - np.tanh(u) ** 2)) * residual[:, None]).T @ x / len(y))


# --- steps and their samples ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("fresh", [True, False])
def test_one_plain_step_is_that_of_the_problem(fresh: bool) -> None:
    one = network()
    trained = one.train(1, fresh=fresh)
    assert_array_equal(trained.after, one.after)
    assert_array_equal(trained.before, one.before)
    assert_allclose(trained.test_error(), one.test_error(), rtol=1e-9)


def test_reused_samples_are_those_of_the_first_step() -> None:
    one = network()
    x, y = one.step_data()
    weights = one.before
    for _ in range(3):
        weights = weights + 2.0 * gradient_by_hand(weights, one.readout, x, y)
    assert_allclose(one.train(3, fresh=False).after, weights, atol=1e-12)


def test_fresh_samples_are_new_in_every_step_and_longer_training_begins_like_shorter() -> None:
    one = network()
    two, three = one.train(2), one.train(3)
    again = replace(one, before=two.after)  # the step on the first samples, from there
    assert np.abs(three.after - again.after).max() > 0.01
    assert np.abs(two.after - one.train(2, fresh=False).after).max() > 0.01
    # Training starts from the initial layer whatever came before.
    assert_array_equal(two.train(3).after, three.after)
    assert_array_equal(one.train(2).after, two.after)


def test_the_samples_of_different_steps_are_independent() -> None:
    from gradstep.simulation.instance import step_sample

    samples = [next(iter(step_sample(3, 2000, 4, turn).blocks())) for turn in range(4)]
    stacked = np.concatenate([np.column_stack(pair) for pair in samples], axis=1)
    correlations = np.corrcoef(stacked.T)[np.triu_indices(stacked.shape[1], 1)]
    assert np.abs(correlations).max() < 5 / np.sqrt(2000)


def test_steps_without_size_change_nothing() -> None:
    one = network(eta=0.0)
    for name in OPTIMISERS:
        assert_array_equal(one.train(2, optimiser=name).after, one.before)


def test_progress_counts_steps() -> None:
    seen: list[tuple[int, int]] = []
    network().train(3, progress=lambda done, steps: seen.append((done, steps)))
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_a_trained_network_is_fitted_and_measured_like_any_other() -> None:
    trained = network().train(2)
    x, y = trained.fit_data()
    features = np.tanh(x @ trained.after.T)
    b = np.linalg.solve(features.T @ features + 0.4 * np.eye(9), features.T @ y)
    assert_allclose(trained.fit().readouts[:, 0], b, rtol=1e-8, atol=1e-10)
    exact = trained.risk(b).test_error
    mean, error = trained.sampled_risk(b[:, None], 20_000)
    assert abs(exact - mean[0]) < 4 * error[0]
    assert_array_equal(trained.initial.after, trained.before)
    assert_array_equal(trained.with_weights(trained.after).after, trained.after)


def test_the_spike_of_a_trained_network_is_what_all_rows_share() -> None:
    d, common = 60, np.arange(60.0) / 60
    one = network(d=d, width=80)
    trained = replace(one, trained=one.before + 0.5 * np.outer(one.readout, common))
    length = np.linalg.norm(common)
    assert_allclose(trained.spike.direction, common / length, atol=1e-12)
    assert trained.spike.strength == pytest.approx(0.5 * length * np.linalg.norm(one.readout))
    # For one step it is nearly the direction of the gradient, which `spike` has without training.
    many = network(d=60, width=300, n_step=4000)
    assert many.train(1).spike.direction @ many.spike.direction > 0.995


# --- optimisers -----------------------------------------------------------------------------------------------------


def test_adam_is_that_of_its_authors() -> None:
    """Algorithm 1 of Kingma and Ba, line by line, as a descent with learning rate eta / sqrt(N d)."""
    one = network()
    x, y = one.step_data()
    alpha, beta1, beta2, epsilon = 2.0 / np.sqrt(7), 0.8, 0.95, 1e-3
    theta, m, v = one.before.copy(), np.zeros((9, 7)), np.zeros((9, 7))
    for t in range(1, 5):
        g = -gradient_by_hand(theta, one.readout, x, y)
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g * g
        theta = theta - alpha * (m / (1 - beta1**t)) / (np.sqrt(v / (1 - beta2**t)) + epsilon)
    found = one.train(4, fresh=False, optimiser="adam", beta1=beta1, beta2=beta2, epsilon=epsilon, basis="teacher")
    assert_allclose(found.after, theta, atol=1e-10)


def test_the_first_step_of_adam_is_a_sign_step() -> None:
    one = network()
    for basis in ("random", "teacher"):
        sign = one.train(optimiser="sign", basis=basis).after
        assert_allclose(one.train(optimiser="adam", epsilon=0.0, basis=basis).after, sign, atol=1e-12)
        assert_allclose(np.linalg.norm(sign - one.before, axis=1), 2, atol=1e-12)
    assert_allclose(np.abs(sign - one.before), 2 / np.sqrt(7), atol=1e-12)


def test_a_sign_step_has_the_alignment_of_a_direction_like_any_other() -> None:
    """In coordinates in which the teacher is dense, rows are ``sign(R z + noise)`` with ``z`` those of the gradient.

    With ``R = E sigma' |g| / sqrt(phi0 E r^2 Var sigma')`` their mean over neurons is ``f = erf(R z / sqrt 2)``, and
    the alignment is that of the gradient times ``E z f / sqrt(E f^2)``, both in closed form.
    """
    problem = gs.Problem(**(SETTINGS | {"d": 300, "width": 600, "n_step": 900, "readout": "constant"}))
    step = step_statistics(problem, 300, 600, 900, own_output=False)
    ratio = step.spike**2 / step.bulk
    law = step.alignment * np.sqrt(ratio / (1 + ratio) / np.arcsin(ratio / (1 + ratio)))
    found = [gs.Network(problem, seed).train(optimiser="sign").spike.alignment for seed in range(12)]
    assert abs(np.mean(found) - law) < 4 * np.std(found, ddof=1) / np.sqrt(12) + 1 / 300
    # Of the teacher's own coordinate a sign step learns one of 300.
    assert gs.Network(problem, 0).train(optimiser="sign", basis="teacher").spike.alignment < 0.15


@pytest.mark.parametrize("name", ["sign", "spectral", "adam"])
def test_the_scale_of_the_gradient_does_not_matter(name: str) -> None:
    rule: Any = OPTIMISERS[name](**({"epsilon": 0.0} if name == "adam" else {}))
    rows = network().gradient.rows
    directions = [rule.direction(scale * rows, None, None)[0] for scale in (1.0, 1e-6)]
    assert_allclose(directions[0], directions[1], rtol=1e-9, atol=1e-12)
    assert np.mean((directions[0] ** 2).sum(axis=1)) == pytest.approx(1.0)


@pytest.mark.parametrize("n_step", [4, 30])
def test_a_spectral_step_has_equal_singular_values_along_the_gradients_singular_vectors(n_step: int) -> None:
    one = network(n_step=n_step)
    change = one.train(optimiser="spectral").after - one.before
    values, rank = np.linalg.svd(change, compute_uv=False), min(n_step, 7)
    assert_allclose(values[:rank], 2 * np.sqrt(9 / rank), rtol=1e-10)
    assert_allclose(values[rank:], 0, atol=1e-10)
    # It is the step of this length in operator norm that descends most: the inner product is the nuclear norm.
    nuclear = np.linalg.svd(one.gradient.rows, compute_uv=False).sum()
    assert (change * one.gradient.rows).sum() == pytest.approx(2 * np.sqrt(9 / rank) * nuclear)


def test_damping_is_a_ridge_regression_on_the_inputs() -> None:
    """Each row is the ridge regression of ``a_i r sigma'`` on the inputs."""
    one, delta = network(), 0.3
    x, y = one.step_data()
    u = x @ one.before.T
    residual = y - np.tanh(u) @ one.readout / 9
    target = one.readout * (1 - np.tanh(u) ** 2) * residual[:, None]
    rows = np.linalg.lstsq(
        np.vstack([x, np.sqrt(30 * delta) * np.eye(7)]), np.vstack([target, np.zeros((7, 9))]), rcond=None
    )[0].T
    found = one.train(optimiser="damped", damping=delta).after - one.before
    assert_allclose(found, 2 * (1 + delta) * rows, atol=1e-10)


def test_large_damping_is_none() -> None:
    one = network()
    plain = one.train(2).after
    gaps = [np.abs(one.train(2, optimiser="damped", damping=10.0**k).after - plain).max() for k in (2, 4, 6)]
    assert gaps[0] / gaps[1] == pytest.approx(100, rel=0.2)
    assert gaps[2] < 1e-4
    assert_array_equal(one.train(2, optimiser="damped", damping=np.inf).after, plain)


@pytest.mark.parametrize("name", sorted(OPTIMISERS))
def test_neurons_may_be_in_any_order(name: str) -> None:
    one, order = network(), np.random.default_rng(0).permutation(9)
    moved = replace(one, before=one.before[order], readout=one.readout[order])
    assert_allclose(moved.train(3, optimiser=name).after, one.train(3, optimiser=name).after[order], atol=1e-9)


@pytest.mark.parametrize("name", sorted(set(OPTIMISERS) - {"sign", "adam"}))
def test_inputs_may_be_rotated(name: str) -> None:
    """Signs belong to coordinates; all else does not know them."""
    gradient = np.random.default_rng(0).standard_normal((9, 7))
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((7, 7)))[0]
    metric = np.diag(np.arange(1.0, 8))
    rule = OPTIMISERS[name]()
    plain = rule.direction(gradient, lambda: metric, None)[0]
    turned = rule.direction(gradient @ turn, lambda: turn.T @ metric @ turn, None)[0]
    assert_allclose(turned, plain @ turn, atol=1e-10)


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"steps": 0}, "steps"),
        ({"steps": 1.5}, "steps"),
        ({"steps": 1e20}, "steps"),
        ({"fresh": 1}, "fresh"),
        ({"optimiser": "sgd"}, "optimiser"),
        ({"basis": "mine"}, "basis"),
        ({"optimiser": "damped", "damping": 0.0}, "damping"),
        ({"damping": 1.0}, "damping"),
        ({"optimiser": "adam", "beta1": 1.0}, "beta1"),
        ({"optimiser": "adam", "epsilon": -1.0}, "epsilon"),
        ({"optimiser": "sign", "beta1": 0.5}, "beta1"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput, match=field):
        network().train(**options)


def test_training_that_diverges_is_told() -> None:
    with pytest.raises(NotConverged, match="diverges"):
        network(activation="x**3", eta=1e9).train(6)
