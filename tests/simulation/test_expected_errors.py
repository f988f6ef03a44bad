"""Expected errors of a drawn first layer against plain refits, closed forms, and what must not matter."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

import gradstep as gs
from gradstep.errors import InvalidInput
from gradstep.labels import labels_of
from gradstep.simulation import expected_errors as module

Rows = NDArray[np.float64]

BASE = gs.Problem(
    activation="tanh", teacher="sin", d=20, width=30, n_step=120, n=60, eta=gs.Step(2.0, 0.5), ridge=0.5, noise=0.3
)
#: The equations are the leading order in one over the sizes, here 20 to 60.
FINITE_SIZE = 0.02


def refits(
    features: Callable[[Rows], Rows],
    teacher: Callable[[Rows], Rows],
    d: int,
    n: int,
    ridge: float,
    noise: float,
    times: int = 1500,
) -> tuple[Rows, Rows]:
    """Return means of test and training error over plain ridge fits, and standard errors, in NumPy alone."""
    random = np.random.default_rng(11)
    x = random.standard_normal((60_000, d))
    phi, f = features(x), teacher(x)
    gram, cross, square = phi.T @ phi / len(f), phi.T @ f / len(f), np.mean(f**2)
    found = []
    for _ in range(times):
        x = random.standard_normal((n, d))
        phi, y = features(x), teacher(x) + noise * random.standard_normal(n)
        b = np.linalg.solve(phi.T @ phi + ridge * np.eye(phi.shape[1]), phi.T @ y)
        found.append((b @ gram @ b - 2 * b @ cross + square, np.mean((y - phi @ b) ** 2)))
    return np.mean(found, axis=0), np.std(found, axis=0) / np.sqrt(times)


def check(curve: gs.LearningCurve, place: tuple[int, int], mean: Rows, error: Rows) -> None:
    estimate = np.array([curve.test_error[place], curve.training_error[place]])
    deviation = np.hypot(error, [curve.test_standard_error[place], curve.training_standard_error[place]])
    assert (np.abs(estimate - mean) < 4 * deviation + FINITE_SIZE * mean).all(), (estimate / mean - 1, deviation / mean)


# --- against plain refits -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "train"),
    [
        pytest.param({}, {}, marks=pytest.mark.statistical),
        pytest.param({"readout": "constant"}, {"steps": 3}, marks=pytest.mark.statistical),
        pytest.param({"teacher": "H3"}, {"steps": 3, "fresh": False}, marks=pytest.mark.statistical),
        pytest.param({"activation": "tanh(x) + 0.3*x**2", "teacher": "x - 1"}, {}, marks=pytest.mark.statistical),
        ({"activation": "relu", "teacher": "x1*x2 + tanh(x1)"}, {"steps": 2, "fresh": False}),
        pytest.param({}, {"steps": 2, "optimiser": "spectral"}, marks=pytest.mark.statistical),
    ],
    ids=["one-step", "fresh", "reused", "mixed", "two-directions", "spectral"],
)
def test_the_curve_is_the_mean_of_refits(changes: dict[str, Any], train: dict[str, Any]) -> None:
    problem = BASE.replace(**changes)
    network = gs.Network(problem, 0).train(**train) if train else gs.Network(problem, 0)
    sizes = [25, 70]  # measured on parts of the pool, and solved
    curve = network.learning_curve(sizes, tolerance=0.01)
    teacher = problem.teacher

    def f(x: Rows) -> Rows:
        return np.asarray(teacher(x[:, 0] if isinstance(teacher, gs.ScalarFunction) else x[:, : teacher.inputs]))

    for place, n in enumerate(sizes):
        check(curve, (place, 0), *refits(network.features, f, 20, n, 0.5, 0.3))


@pytest.mark.statistical
def test_a_layer_with_offsets_and_a_turned_teacher() -> None:
    random = np.random.default_rng(0)
    layer = SimpleNamespace(weight=random.standard_normal((30, 20)) / 20**0.5, bias=random.standard_normal(30))
    turn = np.linalg.qr(random.standard_normal((20, 20)))[0][:2]
    options: dict[str, Any] = {"n": 60, "ridge": [0.5, 3.0], "noise": 0.3, "directions": turn, "tolerance": 0.01}
    curve = gs.layer_learning_curve(layer, "relu", "x1*x2 + x1", **options)

    def f(x: Rows) -> Rows:
        t = x @ turn.T
        return np.asarray(t[:, 0] * t[:, 1] + t[:, 0])

    for place, ridge in enumerate((0.5, 3.0)):
        relu = refits(lambda x: np.maximum(x @ layer.weight.T + layer.bias, 0), f, 20, 60, ridge, 0.3)
        check(curve, (0, place), *relu)


def test_noise_alone_is_a_known_function_of_the_features() -> None:
    """Given the features, the fit to noise has the error ``sigma^2 tr K R G R`` and a known training error."""
    problem = BASE.replace(teacher="0*x", noise=0.7)
    network = gs.Network(problem, 0)
    curve = network.learning_curve(60, tolerance=0.01)
    random = np.random.default_rng(3)
    phi = network.features(random.standard_normal((40_000, 20)))
    K, errors = phi.T @ phi / len(phi), []
    for _ in range(400):
        phi = network.features(random.standard_normal((60, 20)))
        G = phi.T @ phi
        R = np.linalg.inv(G + 0.5 * np.eye(30))
        errors.append((0.49 * np.trace(K @ R @ G @ R), 0.49 * ((np.eye(60) - phi @ R @ phi.T) ** 2).sum() / 60))
    check(curve, (0, 0), np.mean(errors, axis=0), np.std(errors, axis=0) / 20)


@pytest.mark.statistical
def test_classes_have_the_variance_of_their_labels() -> None:
    problem = BASE.replace(teacher="2*x", noise=0.0)
    network = gs.Network(problem, 0, labels=labels_of(problem, "logistic"))
    curve = network.learning_curve(60, tolerance=0.01)
    random, x = np.random.default_rng(5), np.random.default_rng(4).standard_normal((40_000, 20))
    phi, mean = network.features(x), np.tanh(x[:, 0])
    K, c, square = phi.T @ phi / len(x), phi.T @ mean / len(x), np.mean(mean**2)
    found = []
    for _ in range(1500):
        x = random.standard_normal((60, 20))
        phi, y = network.features(x), np.where(random.random(60) < (1 + np.tanh(x[:, 0])) / 2, 1.0, -1.0)
        b = np.linalg.solve(phi.T @ phi + 0.5 * np.eye(30), phi.T @ y)
        found.append((b @ K @ b - 2 * b @ c + square, np.mean((y - phi @ b) ** 2)))
    check(curve, (0, 0), np.mean(found, axis=0), np.std(found, axis=0) / 1500**0.5)


def test_linear_features_in_closed_form() -> None:
    """With d orthonormal linear neurons, n >> d and no penalty, the error is ``sigma^2 d / (n - d - 1)``."""
    curve = gs.layer_learning_curve(np.eye(20), "linear", "linear", n=800, ridge=1e-6, noise=1.0, tolerance=0.005)
    assert curve.test_error[0, 0] == pytest.approx(20 / 779, abs=4 * curve.test_standard_error[0, 0] + 0.02 * 20 / 779)
    assert curve.training_error[0, 0] == pytest.approx(1 - 20 / 800, rel=0.003)
    assert curve.noise_variance == 1.0


# --- the scatter of pools -------------------------------------------------------------------------------------------


@pytest.mark.statistical
def test_the_control_takes_out_most_of_the_scatter_and_nothing_of_the_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    network = gs.Network(BASE, 0)
    sizes = [70, 120]  # errors of fewer samples scatter by the fits on which they are measured, too
    with_control = network.learning_curve(sizes, pool=8_000)
    original = module._Control.of
    monkeypatch.setattr(
        module._Control,
        "of",
        lambda *given: module._Control(original(*given).readouts, np.zeros((2, 2)), original(*given).risk),
    )
    without = network.learning_curve(sizes, pool=8_000)
    gain = without.test_standard_error / with_control.test_standard_error
    assert (gain > 2).all(), gain
    difference = np.abs(without.test_error - with_control.test_error)
    assert (difference < 4 * without.test_standard_error).all()


@pytest.mark.statistical
def test_the_standard_error_is_the_scatter_over_other_pools() -> None:
    weights = gs.Network(BASE, 0).after
    curves = [
        gs.layer_learning_curve(weights, "tanh", "sin", n=60, ridge=0.5, noise=0.3, pool=2500, seed=seed)
        for seed in range(12)
    ]
    scatter = np.std([curve.test_error for curve in curves], ddof=1)
    told = np.sqrt(np.mean([curve.test_standard_error**2 for curve in curves]))
    assert 0.5 < scatter / told < 1.7


def test_a_layer_is_a_network_without_the_network() -> None:
    network = gs.Network(BASE, 0)
    curve = network.learning_curve(60, pool=4000)
    same = gs.layer_learning_curve(network.after, "tanh", "sin", n=60, ridge=0.5, noise=0.3, pool=4000, seed=0)
    assert_allclose(same.test_error, curve.test_error, rtol=1e-4)
    assert_array_equal(network.learning_curve(60, pool=4000).test_error, curve.test_error)  # it is repeatable


def test_accuracy_is_what_was_asked_for_or_there_is_a_caveat(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int]] = []
    curve = gs.Network(BASE, 0).learning_curve(60, tolerance=0.01, progress=lambda *pair: seen.append(pair))
    assert curve.test_standard_error[0, 0] < 0.011 * curve.test_error[0, 0]
    assert not curve.caveats
    assert [done for done, _ in seen] == list(range(1, len(seen) + 1))
    assert seen[-1][0] == seen[-1][1]
    monkeypatch.setattr(module, "_MOST_POOLS", 9)
    rough = gs.Network(BASE, 0).learning_curve(60, tolerance=1e-4)
    assert "rows were not enough" in rough.caveats[0]
    assert "without the variance of the label noise" in " ".join(str(rough).split())
    few = gs.Network(BASE, 0).learning_curve(10, pool=2000)
    assert [note for note in few.caveats if "biased" in note]


# --- simulate -------------------------------------------------------------------------------------------------------


@pytest.mark.statistical
def test_expected_fits_scatter_less_around_the_same_mean() -> None:
    problem = BASE.replace(n=70)
    drawn, expected = (gs.simulate(problem, 8, ridge=[0.5, 5.0], fit=fit) for fit in ("drawn", "expected"))
    for name in ("test_error", "train_error"):
        difference = drawn.mean(name) - expected.mean(name)
        deviation = np.std(drawn[name] - expected[name], axis=0, ddof=1) / 8**0.5
        assert (np.abs(difference) < 4 * deviation + FINITE_SIZE * expected.mean(name)).all()
        assert (expected.standard_error(name) < drawn.standard_error(name)).all()
    assert_array_equal(drawn["alignment"], expected["alignment"])
    assert "degrees_of_freedom" not in expected.values
    assert expected["test_error"].shape == (8, 2)


def test_compare_with_expected_fits() -> None:
    seen: list[tuple[float, int]] = []
    compared = gs.compare(BASE.replace(n=70), 4, fit="expected", progress=lambda *pair: seen.append(pair))
    assert set(compared.overlays) == {"test_error", "train_error", "alignment", "spike_strength", "bulk_variance"}
    assert "test error" in str(compared)
    assert seen[-1] == (1.0, 1)


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: gs.Network(BASE, 0).learning_curve(0), "n"),
        (lambda: gs.Network(BASE, 0).learning_curve([10.5]), "n"),
        (lambda: gs.Network(BASE, 0).learning_curve([5, 10**9]), "n"),
        (lambda: gs.Network(BASE, 0).learning_curve(ridge=-1.0), "ridge"),
        (lambda: gs.Network(BASE, 0).learning_curve(tolerance=0.0), "tolerance"),
        (lambda: gs.Network(BASE, 0).learning_curve(pool=0), "pool"),
        (lambda: gs.simulate(BASE, 2, fit="mean"), "fit"),
        (lambda: gs.simulate(BASE, 2, fit="expected", test_samples=5), "test_samples"),
        (lambda: gs.simulate(BASE, 2, fit="expected", rows=np.ones((9, 2))), "fit"),
        (lambda: gs.layer_learning_curve(np.ones(3), "tanh", "sin", n=5, ridge=1.0), "layer"),
        (lambda: gs.layer_learning_curve(np.eye(3), "tanh", "sin", n=5, ridge=1.0, bias=[1.0]), "bias"),
        (lambda: gs.layer_learning_curve(np.eye(3), "tanh", "x1*x4", n=5, ridge=1.0), "teacher"),
        (lambda: gs.layer_learning_curve(np.eye(3), "tanh", "sin", n=5, ridge=1.0, directions=[1, 1, 0]), "directions"),
    ],
)
def test_what_cannot_be_is_refused(call: Callable[[], object], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        call()
    assert caught.value.field == field


@pytest.mark.parametrize("call", [gs.predict, gs.predict_spread, lambda p: gs.tune(p), lambda p: gs.compare(p, 2)])
def test_theory_refuses_several_directions_and_names_what_answers(call: Callable[[gs.Problem], object]) -> None:
    with pytest.raises(InvalidInput, match="learning_curve"):
        call(BASE.replace(teacher="x1*x2"))


def test_a_problem_of_several_directions_can_be_written_down_and_simulated() -> None:
    problem = BASE.replace(teacher="x1*x2 + tanh(x1)")
    assert gs.Problem.from_dict(problem.to_dict()) == problem
    assert "x1*x2" in str(problem)
    network = gs.Network(problem, 3)
    x, y = network.step_data()
    signal = x[:, 0] * x[:, 1] + np.tanh(x[:, 0])
    assert np.std(y - signal) == pytest.approx(0.3, rel=0.3)
    v = network.spike.direction
    assert network.spike.alignment == pytest.approx(np.linalg.norm(v[:2]))
    measured = gs.simulate(problem, 2, test_samples=30_000)
    gap = np.abs(measured["test_error"] - measured["sampled_test_error"])
    assert (gap < 5 * measured["sampled_test_error_deviation"]).all()
    with pytest.raises(InvalidInput, match="at least 3"):
        problem.replace(teacher="x1*x3", d=2)
