"""One network, looked at from inside: its step, its features, its fits and their errors; and what is refused."""

from __future__ import annotations

import copy
import math
import pickle
from dataclasses import FrozenInstanceError, replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

import gradstep as gs
from gradstep.errors import InvalidInput
from gradstep.labels import labels_of

SETTINGS: dict[str, Any] = {
    "activation": "tanh",
    "teacher": "sin",
    "d": 7,
    "width": 9,
    "n_step": 13,
    "n": 25,
    "eta": gs.Step(2.0, exponent=0.5),
    "ridge": 0.4,
    "noise": 0.3,
}


def small(**changes: Any) -> gs.Problem:
    return gs.Problem(**(SETTINGS | changes))


# --- the step -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", ["1/N", "1/sqrt(N)"])
@pytest.mark.parametrize("readout", ["gaussian", {-1.0: 0.5, 2.0: 0.5}])
def test_step_is_down_the_gradient_of_the_loss_of_the_network_before(scale: str, readout: Any) -> None:
    """Central differences of half the mean squared residual of ``f = s sum a_i sigma(<w_i, x>)``."""
    network = gs.Network(small(output_scale=scale, readout=readout), 5)
    x, y = network.step_data()
    factor = 1 / 9 if scale == "1/N" else 1 / 3

    def loss(weights: NDArray[np.float64]) -> float:
        return float(np.mean((y - factor * np.tanh(x @ weights.T) @ network.readout) ** 2)) / 2

    slopes, h = np.zeros((9, 7)), 1e-5
    for place in np.ndindex(9, 7):
        shift = np.zeros((9, 7))
        shift[place] = h
        slopes[place] = (loss(network.before + shift) - loss(network.before - shift)) / (2 * h)
    # eta / sqrt(N) = 2, and the gradient of the convention is without the factor of the output.
    assert_allclose(network.after - network.before, -2.0 * slopes / factor, atol=1e-8)
    assert loss(network.before + 1e-3 * network.gradient.rows) < loss(network.before)


def test_a_second_step_starts_where_the_first_one_ends() -> None:
    first = gs.Network(small(), 5)
    second = replace(first, before=first.after)
    x, y = first.step_data()
    u = x @ first.after.T
    residual = y - np.tanh(u) @ first.readout / 9
    rows = ((first.readout * (1 - np.tanh(u) ** 2)) * residual[:, None]).T @ x / 13
    assert_allclose(second.after, first.after + 2.0 * rows, atol=1e-12)
    for own, other in zip(second.fit_data(), first.fit_data(), strict=True):
        assert_array_equal(own, other)


def test_the_other_sign_of_the_readout_flips_the_networks_own_output_in_the_residual() -> None:
    network = gs.Network(small(), 5)
    x, y = network.step_data()
    mirrored = replace(network, readout=-network.readout)
    assert_allclose(network.gradient.linear + mirrored.gradient.linear, 2 * x.T @ y / 13, atol=1e-14)


def test_without_a_step_the_network_is_that_of_initialisation() -> None:
    network = gs.Network(small(), 5)
    initial = network.initial
    assert_array_equal(initial.after, network.before)
    assert initial.spike.strength == 0
    assert_array_equal(initial.spike.direction, np.eye(7)[0])
    assert_array_equal(initial.test_error(), gs.Network(small(eta=0.0), 5).test_error())
    assert "gradient" not in vars(initial)
    assert_array_equal(initial.gradient.rows, network.gradient.rows)  # it can be had all the same


def test_rows_of_ones_own_have_the_samples_of_the_network() -> None:
    network, rows = gs.Network(small(), 5), np.random.default_rng(0).standard_normal((9, 7))
    own = network.with_weights(rows)
    (x, y), drawn = own.fit_data(), network.fit_data()
    assert_array_equal(x, drawn[0])
    assert_array_equal(y, drawn[1])
    assert_allclose(own.features(x), np.tanh(x @ rows.T), rtol=1e-13)
    assert_array_equal(own.after, rows)


# --- features, fits and their errors --------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [6, 25])
@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_features_and_ridge_fit_in_closed_form(n: int, activation: str) -> None:
    network = gs.Network(small(n=n, activation=activation), 3)
    x, y = network.fit_data()
    u = x @ network.after.T
    features = np.tanh(u) if activation == "tanh" else np.maximum(u, 0)
    assert_allclose(network.features(x), features, rtol=1e-13)
    path = network.fit([0.4, 3.0])
    assert path.penalties == (0.4, 3.0)
    for place, penalty in enumerate(path.penalties):
        b = np.linalg.solve(features.T @ features + penalty * np.eye(9), features.T @ y)
        assert_allclose(path.readouts[:, place], b, rtol=1e-8, atol=1e-10)
        error = np.mean((y - features @ b) ** 2)
        assert path.train_error[place] == pytest.approx(error, rel=1e-9)
        assert path.train_loss[place] == pytest.approx(error + penalty / n * b @ b, rel=1e-9)
    assert_allclose(network.fit().readouts[:, 0], path.readouts[:, 0], rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("n", [6, 25])
def test_leave_one_out_errors_are_those_of_refitting(n: int) -> None:
    network = gs.Network(small(n=n), 3)
    x, y = network.fit_data()
    features = np.tanh(x @ network.after.T)
    for place, penalty in enumerate((0.4, 3.0)):
        squares = []
        for row in range(n):
            rest = np.delete(features, row, axis=0)
            b = np.linalg.solve(rest.T @ rest + penalty * np.eye(9), rest.T @ np.delete(y, row))
            squares.append((y[row] - features[row] @ b) ** 2)
        assert network.leave_one_out([0.4, 3.0])[place] == pytest.approx(np.mean(squares), rel=1e-9)


def test_leave_one_out_estimates_the_test_error_with_the_noise() -> None:
    problem = small(d=40, width=60, n_step=160, n=400)
    gaps = []
    for seed in range(20):
        network = gs.Network(problem, seed)
        gaps.append(float(network.leave_one_out()[0]) - float(network.test_error()) - 0.3**2)
    # The readout of n - 1 samples is worse than that of n by a part in n.
    assert abs(np.mean(gaps)) < 4 * np.std(gaps, ddof=1) / math.sqrt(20) + 0.09 / 400


@pytest.mark.parametrize(
    "changes",
    [{}, {"activation": "relu", "teacher": "sign"}, {"initial_weights": "sphere", "output_scale": "1/sqrt(N)"}],
)
@pytest.mark.parametrize("before", [False, pytest.param(True, marks=pytest.mark.statistical)])
def test_risk_against_fresh_data(changes: dict[str, Any], before: bool) -> None:
    """Inputs drawn by NumPy alone: z of the exact error over six networks."""
    problem = small(d=30, width=40, n_step=100, n=90, **changes)
    rng = np.random.default_rng(0)
    z = []
    for seed in range(6):
        network = gs.Network(problem, seed)
        network = network.initial if before else network
        readouts = network.fit([0.1, 3.0]).readouts
        x = rng.standard_normal((20_000, 30))
        squares = (network.features(x) @ readouts - problem.teacher(x[:, 0])[:, None]) ** 2
        exact = network.risk(readouts).test_error
        assert_allclose(exact, network.test_error([0.1, 3.0]), rtol=1e-12)
        z.append((squares.mean(axis=0) - exact) / squares.std(axis=0) * math.sqrt(20_000))
    assert np.abs(z).max() < 4
    assert abs(np.mean(z)) < 4 / math.sqrt(6)  # the two readouts of a network are nearly one


def test_any_direction_gives_the_same_risk() -> None:
    network = gs.Network(small(d=30, width=40, n_step=100, n=90), 1)
    readout = network.fit().readouts[:, 0]
    found = network.risk(readout)
    assert found.test_error.shape == ()
    assert_allclose(network.risk(readout, along=np.eye(30)[3]).test_error, found.test_error, rtol=1e-6)


def test_one_readout_has_one_sampled_risk() -> None:
    network, readout = gs.Network(small(), 0), np.linspace(-1, 1, 9)
    several = network.sampled_risk(np.stack([readout, 2 * readout], axis=1), 500)
    for one, each in zip(network.sampled_risk(readout, 500), several, strict=True):
        assert one.shape == ()
        assert_allclose(one, each[0], rtol=1e-13)


@pytest.mark.parametrize("teacher", ["sin", "relu(x - 20)"])
def test_training_that_moves_nothing_leaves_a_network_to_be_measured(teacher: str) -> None:
    # A sign has no slope; of the other all outputs and labels are zero, and so is the gradient.
    activation = "sign" if teacher == "sin" else "relu(x - 30)"
    network = gs.Network(small(activation=activation, teacher=teacher, noise=0.0), 1)
    trained, readout = network.train(2), np.ones(9)
    assert_array_equal(trained.after, network.before)
    assert_allclose(trained.risk(readout).test_error, network.initial.risk(readout).test_error, rtol=1e-9)
    assert_array_equal(trained.spike.direction, network.spike.direction)
    assert trained.spike.strength == 0
    assert math.isnan(trained.spike.alignment) == (teacher != "sin")
    assert math.isfinite(trained.weight_spectrum().leading[0].gradient_overlap)
    assert all(np.isfinite(each.sample_overlap).all() for each in trained.feature_spectrum().leading)


def test_simulate_measures_these_networks() -> None:
    measured = gs.simulate(small(), [3, 11], ridge=[0.1, 2.0])
    for place, seed in enumerate((3, 11)):
        network = gs.Network(small(), seed)
        fit = network.fit([0.1, 2.0])
        assert_array_equal(measured["test_error"][place], network.risk(fit.readouts).test_error)
        assert_array_equal(measured["train_loss"][place], fit.train_loss)
        assert measured["alignment"][place] == network.spike.alignment
        assert measured["bulk_variance"][place] == network.spike.bulk_variance


# --- classes, precision and devices ---------------------------------------------------------------------------------


def test_classes_and_their_convex_fit() -> None:
    problem = small(n=120, noise=0.0, teacher="linear")
    network = gs.Network(problem, 2, labels=labels_of(problem, "sign", 0.1))
    (x, y), (_, target) = network.fit_data(), network.test_data(50)
    assert set(y) == {-1.0, 1.0}
    assert_allclose(np.abs(target), 0.8)
    fit = network.fit_convex(loss="logistic", tolerance=1e-9)
    reference = LogisticRegression(C=1 / (2 * 0.4), fit_intercept=False, tol=1e-10, max_iter=10_000)
    assert_allclose(fit.readout, reference.fit(network.features(x), y).coef_[0], atol=1e-6)
    x = np.random.default_rng(1).standard_normal((40_000, 7))
    squares = (network.features(x) @ fit.readout - 0.8 * np.sign(x[:, 0])) ** 2
    gap = squares.mean() - float(network.risk(fit.readout).test_error)
    assert abs(gap) < 4 * squares.std() / 200
    with pytest.raises(InvalidInput, match="device"):
        replace(network, device="cpu")


def test_the_square_loss_is_the_ridge_fit() -> None:
    network = gs.Network(small(), 2)
    assert_allclose(network.fit_convex(ridge=3.0).readout, network.fit(3.0).readouts[:, 0], atol=1e-7)


def test_single_precision_is_close_to_double() -> None:
    single, double = (gs.Network(small(), 2, dtype=dtype) for dtype in ("float32", "float64"))
    assert single.features(single.fit_data()[0]).dtype == np.float32
    assert_allclose(single.after, double.after, atol=1e-5)
    assert_allclose(single.test_error(), double.test_error(), rtol=1e-4)


def test_tensors_are_the_same_numbers() -> None:
    torch = pytest.importorskip("torch")
    host, device = gs.Network(small(), 2), gs.Network(small(), 2, device="cpu")
    assert isinstance(device.after, torch.Tensor)
    assert_allclose(device.after.numpy(), host.after, rtol=1e-12)
    for name in ("fit_data", "step_data"):
        for own, other in zip(getattr(device, name)(), getattr(host, name)(), strict=True):
            assert_allclose(own.numpy(), other, rtol=1e-12)
    assert_allclose(device.test_error([0.1, 2.0]), host.test_error([0.1, 2.0]), rtol=1e-9)
    assert_allclose(device.leave_one_out([0.1, 2.0]), host.leave_one_out([0.1, 2.0]), rtol=1e-9)
    assert_allclose(device.fit_convex().readout, host.fit_convex().readout, rtol=1e-6, atol=1e-9)
    assert_allclose(device.feature_spectrum().eigenvalues, host.feature_spectrum().eigenvalues, atol=1e-12)
    assert_allclose(device.weight_spectrum().after, host.weight_spectrum().after, rtol=1e-9)


# --- one value ------------------------------------------------------------------------------------------------------


def test_nothing_is_computed_before_it_is_asked_for_nor_twice() -> None:
    blocks: list[int] = []
    network = gs.Network(small(), 2, after_block=lambda: blocks.append(1))
    assert not blocks
    assert network.after is network.after
    assert network.spike is network.spike
    assert len(blocks) == 1
    assert network.gradient.rows is network.gradient.rows
    assert len(blocks) == 1


def test_a_network_is_immutable_and_can_be_sent() -> None:
    network = gs.Network(small(), 2)
    with pytest.raises(FrozenInstanceError):
        network.seed = 3  # type: ignore[misc]
    assert network.after is not None
    moved = replace(network, before=2 * network.before)
    for one in (network, moved):
        for twin in (pickle.loads(pickle.dumps(one)), copy.deepcopy(one)):
            assert "after" not in vars(twin)
            assert_array_equal(twin.after, one.after)
    assert "after" in vars(network)
    assert len(repr(moved)) < 1000


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [-1, 2**32, 0.5, True, "0", None, [1]])
def test_what_is_no_seed_is_refused(seed: Any) -> None:
    with pytest.raises(InvalidInput, match=r"seed: got .*; allowed: an integer in \[0, 2\*\*32\)"):
        gs.Network(small(), seed)


@pytest.mark.parametrize(
    ("field", "problem"),
    [
        ("problem", "tanh"),
        ("problem", None),
        ("n_step", small(n_step=math.inf)),
        ("d", gs.Problem.cui2024(alpha=2, alpha0=1, eta_tilde=1, lam=0.1)),
    ],
)
def test_what_has_no_network_is_refused(field: str, problem: Any) -> None:
    with pytest.raises(InvalidInput) as raised:
        gs.Network(problem, 0)
    assert raised.value.field == field


@pytest.mark.parametrize(
    ("field", "options"),
    [
        ("before", {"before": np.zeros((7, 9))}),
        ("before", {"before": np.full((9, 7), math.nan)}),
        ("before", {"before": "random"}),
        ("readout", {"readout": np.ones(7)}),
        ("device", {"device": "gpu"}),
        ("dtype", {"dtype": "float16"}),
    ],
)
def test_bad_options_are_refused_by_name(field: str, options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as raised:
        gs.Network(small(), 0, **options)
    assert raised.value.field == field


@pytest.mark.parametrize(
    ("field", "call"),
    [
        ("ridge", lambda network: network.fit(0.0)),
        ("ridge", lambda network: network.test_error([1.0, -1.0])),
        ("ridge", lambda network: network.leave_one_out("1")),
        ("ridge", lambda network: network.fit_convex(ridge=-1.0)),
        ("loss", lambda network: network.fit_convex(loss="cubic")),
        ("labels", lambda network: network.fit_convex(loss="hinge")),
        ("readouts", lambda network: network.risk(np.ones(7))),
        ("readouts", lambda network: network.risk([[1, 2], [1]])),
        ("readouts", lambda network: network.risk(np.ones((9, 0)))),
        ("readouts", lambda network: network.risk(["1"] * 9)),
        ("readouts", lambda network: network.risk([None] * 9)),
        ("readouts", lambda network: network.sampled_risk(np.full(9, math.inf), 10)),
        ("along", lambda network: network.risk(np.ones(9), along=2 * np.eye(7)[0])),
        ("along", lambda network: network.risk(np.ones(9), along=np.full(7, math.nan))),
        ("tolerance", lambda network: network.risk(np.ones(9), tolerance=0.0)),
        ("rows", lambda network: network.test_data(0)),
        ("inputs", lambda network: network.features(np.ones((3, 9)))),
    ],
)
def test_bad_arguments_are_refused_by_name(field: str, call: Any) -> None:
    with pytest.raises(InvalidInput) as raised:
        call(gs.Network(small(), 0))
    assert raised.value.field == field
