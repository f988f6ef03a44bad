"""Correlated inputs and the damped step: against formulas written down, against draws, and laws of the step."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import array_api_strict
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

import gradstep as gs
from gradstep.gaussian import moments
from gradstep.simulation.backend import Backend
from gradstep.simulation.convex_measurement import convex_measurement

SETTINGS: dict[str, Any] = {
    "activation": "tanh",
    "teacher": "sin",
    "d": 24,
    "width": 30,
    "n_step": 50,
    "n": 60,
    "eta": gs.Step(1.5, exponent=0.5),
    "ridge": 0.4,
    "noise": 0.3,
    "inputs": gs.Inputs([4, 1, 0.25], share=[1, 1, 2], teacher=[0.2, 0.5, 0.3]),
    "damping": 0.5,
}


def small(**changes: Any) -> gs.Problem:
    return gs.Problem(**(SETTINGS | changes))


def written_down(problem: gs.Problem) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return eigenvalues (d,) and the teacher's weights (d,), for `SETTINGS`."""
    c = np.repeat([4.0, 1.0, 0.25], [6, 6, 12])
    c *= 24 / c.sum()
    beta = np.zeros(24)
    beta[[0, 6, 12]] = np.sqrt(np.array([0.2, 0.5, 0.3]) / c[[0, 6, 12]])
    return c, beta


def test_inputs_have_the_covariance_and_the_teacher_has_its_part_of_it() -> None:
    network = gs.Network(small(noise=0.0), 3)
    c, beta = written_down(network.problem)
    assert_allclose(beta @ (c * beta), 1)
    x, y = network.test_data(20_000)
    assert_allclose(y, np.sin(x @ beta), atol=1e-12)
    z = (x.T @ x / len(x) - np.diag(c)) / np.sqrt(np.outer(c, c) * (1 + np.eye(24)) / len(x))
    assert np.abs(z).max() < 4.5


@pytest.mark.parametrize("damping", [0.5, math.inf])
def test_the_step_is_that_of_the_formula(damping: float) -> None:
    network = gs.Network(small(damping=damping), 5)
    (x, y), w, a = network.step_data(), network.before, network.readout
    u = x @ w.T
    r = y - np.tanh(u) @ a / 30
    rows = ((a * (1 - np.tanh(u) ** 2)) * r[:, None]).T @ x / 50
    metric = np.eye(24) if damping == math.inf else (1 + damping) * np.linalg.inv(x.T @ x / 50 + damping * np.eye(24))
    assert_allclose(network.after, w + 1.5 * rows @ metric, atol=1e-12)
    c, beta = written_down(network.problem)
    v = np.sqrt(c) * (metric @ (x.T @ r))
    v /= np.linalg.norm(v)
    assert_allclose(network.spike.direction, v, atol=1e-12)
    assert_allclose(network.spike.alignment, v @ (np.sqrt(c) * beta))
    assert_array_equal(network.train(1).after, network.after)
    assert_array_equal(network.train(1, optimiser="gradient").after, gs.Network(small(damping=math.inf), 5).after)


@pytest.mark.parametrize("changes", [{}, {"activation": "relu"}, {"activation": "tanh(x)+0.3*x**2", "teacher": "relu"}])
def test_the_exact_risk_is_the_mean_over_draws(changes: dict[str, Any]) -> None:
    network = gs.Network(small(**changes), 1)
    readout = network.fit().readouts[:, 0]
    c, beta = written_down(network.problem)
    x = np.random.default_rng(8).standard_normal((200_000, 24)) * np.sqrt(c)
    miss = (network.features(x) @ readout - network.problem.teacher(x @ beta)) ** 2
    z = (miss.mean() - float(network.risk(readout).test_error)) / (miss.std() / math.sqrt(len(miss)))
    assert abs(z) < 4
    mean, deviation = network.sampled_risk(readout[:, None], 50_000)
    assert abs(mean[0] - float(network.risk(readout).test_error)) < 4 * deviation[0]


def test_turning_weights_inside_classes_changes_no_risk() -> None:
    network = gs.Network(small(), 2)
    turn, rng = np.eye(24), np.random.default_rng(0)
    for start, end in ((1, 6), (7, 12), (13, 24)):  # the first of each class is the teacher's
        turn[start:end, start:end] = np.linalg.qr(rng.standard_normal((end - start, end - start)))[0]
    readout = network.fit().readouts
    turned = network.with_weights(network.after @ turn)
    expected = network.risk(readout).test_error
    assert_allclose(turned.risk(readout, along=turn.T @ network.spike.direction).test_error, expected, rtol=1e-8)
    turn[[0, 1]] = turn[[1, 0]]
    assert np.abs(network.with_weights(network.after @ turn).risk(readout).test_error / expected - 1).max() > 1e-3


def test_equal_classes_are_one_and_isotropic_inputs_are_none() -> None:
    split = gs.Inputs([1, 4, 1, 0.25], share=[0.5, 1, 0.5, 2], teacher=[0.1, 0.2, 0.4, 0.3])
    assert gs.simulate(small(inputs=split), 2).to_dict() == gs.simulate(small(), 2).to_dict()
    plain = gs.simulate(small(inputs=None), 2)
    assert gs.simulate(small(inputs=gs.Inputs([3, 3, 3])), 2).to_dict() == plain.to_dict()


def test_an_infinite_damping_of_a_correlated_problem_is_the_limit_of_large_ones() -> None:
    large, infinite = (gs.Network(small(damping=damping), 0) for damping in (1e9, math.inf))
    assert_allclose(large.after, infinite.after, atol=1e-8)


def test_directions_without_variance_do_nothing() -> None:
    law = gs.Inputs([1, 0], share=[0.25, 0.75])
    network = gs.Network(small(inputs=law), 0)
    assert np.abs(network.step_data()[0][:, 6:]).max() == 0
    other = network.with_weights(network.after + np.concatenate([np.zeros(6), np.ones(18)]))
    readout = network.fit().readouts
    assert_allclose(other.risk(readout).test_error, network.risk(readout).test_error, rtol=1e-8)


@pytest.mark.statistical
def test_expected_errors_are_the_means_of_fits() -> None:
    problem = small(inputs="power_law(0.8, d=24)", n=90)
    network = gs.Network(problem, 0)
    curve = network.learning_curve(pool=15_000)
    layer = network.with_weights(network.after)
    errors = [replace(layer, seed=seed).test_error() for seed in range(1, 60)]
    deviation = math.hypot(np.std(errors) / math.sqrt(len(errors)), curve.test_standard_error[0, 0])
    assert abs(np.mean(errors) - curve.test_error[0, 0]) < 4 * deviation


def test_a_convex_fit_is_tested_on_the_same_inputs() -> None:
    found = convex_measurement(small(), 4, test_samples=20_000)
    # The mean square on fresh labels has their noise.
    difference = found.values["test_loss"] - found.values["test_error"] - 0.3**2
    assert abs(difference.mean()) < 4 * max(difference.std() / 2, 1e-4)


def test_a_teacher_of_several_directions_needs_classes_of_as_many() -> None:
    network = gs.Network(small(teacher="x1*x2"), 0)
    projections = network.law.teacher_input(network.labels.mean, network.test_data(20_000)[0])
    assert_allclose(np.cov(projections.T), np.eye(2), atol=0.05)
    assert np.isfinite(network.test_error())
    assert 0 < network.spike.alignment < 1
    with pytest.raises(gs.InvalidInput, match=r"^teacher: got 'x1\*x2'; allowed: a teacher of at most 1 directions"):
        gs.simulate(small(teacher="x1*x2", inputs="spiked([9], d=24)"), 1)


def test_spectra_compare_with_the_shared_direction_in_its_own_metric() -> None:
    network = gs.Network(small(d=60, width=80, n_step=400, n=300, inputs="power_law(0.5)", eta="3*N^0.5"), 0)
    top = network.feature_spectrum(leading=1).leading[0]
    assert top.sample_overlap[1] > 0.8
    vector = network.weight_spectrum(leading=1).leading[0]
    assert vector.gradient_overlap > 0.9
    assert 0 < vector.teacher_overlap < 1


def test_array_libraries_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    host = gs.simulate(small(), 1)
    monkeypatch.setattr("gradstep.simulation.network.backend", lambda *_: Backend(array_api_strict))
    for name, values in gs.simulate(small(), 1).values.items():
        assert_allclose(values, host.values[name], rtol=1e-9, atol=1e-12, err_msg=name)


# --- laws of the step -----------------------------------------------------------------------------------------------


def silent(problem: gs.Problem, seed: int) -> gs.Network:
    """Return a network whose own output is nothing, so that residuals are labels."""
    return gs.Network(problem, seed, readout=np.full(problem.sizes.width, 1e-9))


@pytest.mark.parametrize(
    "inputs", ["power_law(0.8, d=120)", "power_law(0.8, 0, d=120)", "spiked([20], d=120, teacher=[0])"]
)
def test_the_moments_of_the_shared_direction_are_those_of_a_mean_of_samples(inputs: str) -> None:
    r"""Means over networks of :math:`|Cg_z|^2` and :math:`\langle Cg_z,\tilde\beta\rangle`, which are known exactly."""
    problem = small(d=120, width=2, n_step=240, inputs=inputs, damping=math.inf, teacher="sin(2*x)")
    law = problem.inputs.at_dimension(120)
    c, signal, counts = np.array(law.eigenvalues), np.array(law.teacher), np.array(law.counts(120))
    teacher, t = moments(problem.teacher), np.random.default_rng(0).standard_normal(10**6)
    square = teacher.second_moment + 0.3**2
    along = float(np.mean((np.sin(2 * t) ** 2 + 0.3**2) * t**2)) - square
    expected = {
        "length": (square * counts @ c**2 + along * signal @ c**2) / 240
        + (1 - 1 / 240) * teacher.linear**2 * signal @ c**2,
        "overlap": teacher.linear * signal @ c,
    }
    found: dict[str, list[float]] = {"length": [], "overlap": []}
    for seed in range(60):
        network = silent(problem, seed)
        g = network.law.times_root(network.gradient.linear)
        found["length"].append(float(g @ g))
        found["overlap"].append(float(network.law.axes[0] @ g))
        assert_allclose(network.spike.alignment, found["overlap"][-1] / math.sqrt(found["length"][-1]))
    for name, values in found.items():
        assert abs(np.mean(values) - expected[name]) < 4 * np.std(values) / math.sqrt(60), name


@pytest.mark.parametrize("damping", [0.05, 1.0])
def test_the_alignment_of_a_damped_step_with_isotropic_inputs_is_that_of_ridge_regression(damping: float) -> None:
    r"""Its limit in closed form, with moments of the Marchenko-Pastur law at :math:`-\delta`."""
    problem = small(d=300, width=2, n_step=900, inputs=None, damping=damping)
    ratio, square, linear = 1 / 3, moments(problem.teacher).second_moment + 0.3**2, moments(problem.teacher).linear

    def resolvent(z: float) -> float:
        b = 1 - ratio + z
        return (-b + math.sqrt(b * b + 4 * ratio * z)) / (2 * ratio * z)

    m, m2 = resolvent(damping), -(resolvent(damping + 1e-5) - resolvent(damping - 1e-5)) / 2e-5
    signal = linear**2 * (1 - 2 * damping * m + damping**2 * m2)
    noise = (square - linear**2) * ratio * (m - damping * m2)
    expected = linear * (1 - damping * m) / math.sqrt(signal + noise)
    found = [silent(problem, seed).spike.alignment for seed in range(12)]
    assert abs(np.mean(found) - expected) < 4 * np.std(found) / math.sqrt(12) + 1e-3
