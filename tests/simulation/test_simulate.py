"""The whole simulation: against a literal implementation, reproducibility, invariants, refusals."""

from __future__ import annotations

import copy
import json
import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradstep.errors import InvalidInput
from gradstep.problem import Problem, Step
from gradstep.simulation import Measurement, simulate, streams
from gradstep.simulation.instance import fit_sample, initial_readout, initial_weights, step_sample
from gradstep.sizes import Proportional


def small(**changes: Any) -> Problem:
    settings: dict[str, Any] = {
        "activation": "tanh",
        "teacher": "sin",
        "d": 20,
        "width": 30,
        "n_step": 40,
        "n": 50,
        "eta": Step(1.0, 0.5),
        "ridge": 0.3,
        "noise": 0.2,
    }
    return Problem(**(settings | changes))


def literal(problem: Problem, seed: int) -> dict[str, float]:
    """Write the formulas down for one seed, with explicit sums and the normal equations."""
    d, N, n0, n = (int(getattr(problem, name)) for name in ("d", "width", "n_step", "n"))
    sigma, slope, teacher = problem.activation, problem.activation.derivative, problem.teacher
    w = initial_weights(seed, N, d, problem.initial_weights)
    a = initial_readout(seed, N, problem.readout)
    x0 = np.concatenate([x for x, _ in step_sample(seed, n0, d).blocks()])
    y0 = teacher(x0[:, 0]) + problem.noise * np.concatenate([e for _, e in step_sample(seed, n0, d).blocks()])
    prefactor = 1 / N if problem.output_scale == "1/N" else 1 / math.sqrt(N)
    G = np.zeros((N, d))
    g = np.zeros(d)
    for mu in range(n0):
        residual = y0[mu] - prefactor * sum(a[i] * float(sigma(w[i] @ x0[mu])) for i in range(N))
        g += residual * x0[mu] / n0
        for i in range(N):
            G[i] += a[i] * residual * float(slope(w[i] @ x0[mu])) * x0[mu] / n0
    w1 = w + problem.step_size / math.sqrt(N) * G
    x = np.concatenate([x for x, _ in fit_sample(seed, n, d).blocks()])
    y = teacher(x[:, 0]) + problem.noise * np.concatenate([e for _, e in fit_sample(seed, n, d).blocks()])
    F = sigma(x @ w1.T)
    hat = F @ np.linalg.inv(F.T @ F + problem.ridge * np.eye(N)) @ F.T
    b = np.linalg.solve(F.T @ F + problem.ridge * np.eye(N), F.T @ y)
    train_error = float(np.mean((y - F @ b) ** 2))
    v = g / np.linalg.norm(g)
    s = ((w1 - w) @ v) @ a / (a @ a)
    return {
        "train_error": train_error,
        "train_loss": train_error + float(problem.ridge) / n * float(b @ b),
        "degrees_of_freedom": float(np.trace(hat)),
        "alignment": float(v[0]),
        "spike_strength": float(abs(s) * np.linalg.norm(a)),
        "bulk_variance": float(np.mean(np.sum((w1 - np.outer(w1 @ v, v)) ** 2, axis=1)) * d / (d - 1)),
    }


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"n": 20},  # fewer samples than neurons
        {"output_scale": "1/sqrt(N)"},
        {"readout": {-1: 0.5, 2: 0.5}, "initial_weights": "sphere", "activation": "relu"},
        {"teacher": "relu", "activation": "softplus", "eta": 0.7},
    ],
)
def test_against_the_formulas_written_out(changes: dict[str, Any]) -> None:
    problem = small(**changes)
    measured = simulate(problem, [3, 11])
    for k, seed in enumerate((3, 11)):
        for name, value in literal(problem, seed).items():
            np.testing.assert_allclose(measured[name][k], value, rtol=1e-9, err_msg=name)


@pytest.mark.parametrize("changes", [{}, {"activation": "relu", "teacher": "sign"}, {"eta": 0.0, "noise": 0.0}])
def test_exact_test_error_against_fresh_samples(changes: dict[str, Any]) -> None:
    measured = simulate(small(**changes), 4, ridge=[0.01, 1.0], test_samples=40_000)
    z = (measured["sampled_test_error"] - measured["test_error"]) / measured["sampled_test_error_deviation"]
    assert np.max(np.abs(z)) < 4


def test_blocks_are_only_a_matter_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams belong to blocks, so the block size changes the numbers drawn; given them, blocks must not matter."""
    problem = small(n=130, n_step=130)
    monkeypatch.setattr(streams, "BLOCK_ROWS", 50)
    measured = simulate(problem, [2])
    for name, value in literal(problem, 2).items():
        np.testing.assert_allclose(measured[name][0], value, rtol=1e-9, err_msg=name)


def test_seeds_are_independent_of_each_other_and_of_their_order() -> None:
    problem = small()
    together, reverse, alone = simulate(problem, 3), simulate(problem, [2, 1, 0]), simulate(problem, [1])
    for name in together.values:
        np.testing.assert_array_equal(together[name], reverse[name][::-1])
        np.testing.assert_array_equal(together[name][1], alone[name][0])
    assert len(np.unique(together["test_error"])) == 3


def test_a_path_of_penalties_repeats_the_single_ones() -> None:
    for n in (25, 50):
        problem = small(n=n)
        path = simulate(problem, 2, ridge=[0.3, 5.0])
        assert path["test_error"].shape == (2, 2)
        assert path["alignment"].shape == (2,)
        for p, penalty in enumerate((0.3, 5.0)):
            single = simulate(problem.replace(ridge=penalty), 2)
            assert single["test_error"].shape == (2,)
            for name in ("test_error", "train_error", "train_loss", "degrees_of_freedom"):
                np.testing.assert_allclose(path[name][:, p], single[name], rtol=1e-7, err_msg=name)


def test_penalties_and_seeds_come_from_arrays_of_any_library() -> None:
    pandas = pytest.importorskip("pandas")
    found = simulate(small(), pandas.Series([3, 4]), ridge=pandas.Series([0.1, 1.0]))
    assert found.seeds == (3, 4)
    assert found.ridge == (0.1, 1.0)
    with pytest.raises(InvalidInput, match="ridge"):
        simulate(small(), 2, ridge=pandas.DataFrame({"ridge": [0.1, 1.0]}))


def test_problems_share_random_numbers_as_documented() -> None:
    """Same seed: the step does not depend on what comes after it, and noise levels share their noise."""
    base = simulate(small(), 2)
    for changes in ({"n": 33}, {"ridge": 7.0}):
        np.testing.assert_array_equal(simulate(small(**changes), 2)["alignment"], base["alignment"])
    flat = small(eta=0.0, activation="linear", teacher="linear")
    quiet, loud = (simulate(flat.replace(noise=s, ridge=1e-8), 1)["train_error"][0] for s in (0.1, 0.2))
    np.testing.assert_allclose(loud, 4 * quiet, rtol=1e-5)


def test_interpolation() -> None:
    measured = simulate(small(n=20, noise=0.5), 3, ridge=1e-10)
    assert np.all(measured["train_error"] < 1e-18)
    assert np.all(measured["train_error"] > 0)
    np.testing.assert_allclose(measured["degrees_of_freedom"], 20, rtol=1e-8)
    assert np.all(measured["test_error"] > 1e-3)


def test_a_linear_network_learns_a_linear_teacher_exactly() -> None:
    measured = simulate(small(activation="linear", teacher="linear", noise=0.0), 2, ridge=1e-8)
    assert np.all(measured["test_error"] < 1e-10)
    assert np.all(measured["train_error"] < 1e-15)
    np.testing.assert_allclose(measured["degrees_of_freedom"], 20, rtol=1e-6)  # rank d, not width


def test_zero_step_leaves_the_initial_network() -> None:
    measured = simulate(small(eta=0.0, initial_weights="sphere"), 2)
    np.testing.assert_array_equal(measured["spike_strength"], 0)
    assert np.all(np.isnan(measured["alignment"]))
    # rows on the sphere: one minus the part along one axis, times d/(d-1)
    np.testing.assert_allclose(measured["bulk_variance"], 1, atol=0.1)


@settings(max_examples=25)
@given(
    activation=st.sampled_from(["tanh", "relu", "erf", "softplus", "sin"]),
    teacher=st.sampled_from(["sin", "relu", "sign", "linear"]),
    d=st.integers(12, 30),
    width=st.integers(1, 40),
    n=st.integers(1, 60),
    n_step=st.integers(1, 40),
    exponent=st.sampled_from([0.0, 0.25, 0.5]),
    log_ridge=st.floats(-6, 4),
    noise=st.sampled_from([0.0, 0.5]),
)
def test_invariants(
    activation: str,
    teacher: str,
    d: int,
    width: int,
    n: int,
    n_step: int,
    exponent: float,
    log_ridge: float,
    noise: float,
) -> None:
    problem = Problem(
        activation=activation,
        teacher=teacher,
        d=d,
        width=width,
        n_step=n_step,
        n=n,
        eta=Step(1.0, exponent),
        ridge=10**log_ridge,
        noise=noise,
    )
    measured = simulate(problem, 1, kernel_tolerance=1e-6)
    for name in ("test_error", "train_error", "train_loss", "spike_strength", "bulk_variance", "test_error_bound"):
        assert np.all(measured[name] >= 0), name
    assert np.all(measured["train_error"] <= measured["train_loss"])
    assert np.all(np.abs(measured["alignment"]) <= 1 + 1e-12)
    freedom = measured["degrees_of_freedom"]
    assert np.all((freedom >= 0) & (freedom <= min(n, width)))


def test_progress_is_a_function() -> None:
    with pytest.raises(InvalidInput, match=r"^progress: got True; allowed: a function of two numbers"):
        simulate(small(), 2, progress=True)  # type: ignore[arg-type]


def test_progress_counts_up_to_the_announced_total() -> None:
    calls: list[tuple[int, int]] = []
    simulate(small(), 2, test_samples=10, progress=lambda done, total: calls.append((done, total)))
    totals = {total for _, total in calls}
    assert totals == {len(calls)}
    assert [done for done, _ in calls] == list(range(1, len(calls) + 1))


def test_an_interruption_passes_through() -> None:
    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulate(small(), 2, progress=stop)


def test_single_precision_agrees_with_double() -> None:
    problem = small(ridge=5.0)
    single, double = simulate(problem, 2, dtype="float32"), simulate(problem, 2)
    for name in ("test_error", "train_error", "degrees_of_freedom", "spike_strength"):
        np.testing.assert_allclose(single[name], double[name], rtol=1e-4, err_msg=name)


def test_torch_agrees_with_numpy() -> None:
    pytest.importorskip("torch")
    for changes in ({}, {"activation": "relu", "n": 20}, {"activation": "erf"}):
        problem = small(**changes)
        host, device = simulate(problem, 2, ridge=[0.1, 1.0]), simulate(problem, 2, ridge=[0.1, 1.0], device="cpu")
        for name in host.values:
            np.testing.assert_allclose(host[name], device[name], rtol=1e-7, atol=1e-12, err_msg=name)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"seeds": 0}, "seeds"),
        ({"seeds": -3}, "seeds"),
        ({"seeds": True}, "seeds"),
        ({"seeds": 2.5}, "seeds"),
        ({"seeds": "3"}, "seeds"),
        ({"seeds": []}, "seeds"),
        ({"seeds": [1, 1]}, "seeds"),
        ({"seeds": [1, -1]}, "seeds"),
        ({"seeds": [1, 2**32]}, "seeds"),
        ({"seeds": [1, 0.5]}, "seeds"),
        ({"seeds": None}, "seeds"),
        ({"ridge": 0.0}, "ridge"),
        ({"ridge": -1.0}, "ridge"),
        ({"ridge": math.nan}, "ridge"),
        ({"ridge": math.inf}, "ridge"),
        ({"ridge": []}, "ridge"),
        ({"ridge": [1.0, 0.0]}, "ridge"),
        ({"ridge": "1.0"}, "ridge"),
        ({"ridge": ["1.0"]}, "ridge"),
        ({"ridge": [True]}, "ridge"),
        ({"device": "gpu"}, "device"),
        ({"device": 0}, "device"),
        ({"dtype": "float16"}, "dtype"),
        ({"dtype": np.float64}, "dtype"),
        ({"test_samples": -1}, "test_samples"),
        ({"test_samples": 10**18}, "test_samples"),
        ({"test_samples": 1.5}, "test_samples"),
        ({"kernel_tolerance": 0.0}, "kernel_tolerance"),
        ({"kernel_tolerance": math.nan}, "kernel_tolerance"),
        ({"kernel_tolerance": True}, "kernel_tolerance"),
    ],
)
def test_bad_options_are_refused_by_name(options: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        simulate(small(), **options)
    assert caught.value.field == field


def test_infinite_sizes_are_refused_by_name() -> None:
    with pytest.raises(InvalidInput) as caught:
        simulate(small(n_step=math.inf))
    assert caught.value.field == "n_step"
    ratio = Proportional(1.5)
    with pytest.raises(InvalidInput) as caught:
        simulate(small(d=math.inf, width=ratio, n_step=ratio, n=ratio, ridge=ratio))
    assert caught.value.field == "d"


def test_measurement_summaries() -> None:
    measured = simulate(small(eta=0.0), 5, ridge=[0.1, 1.0])
    values = measured["test_error"]
    np.testing.assert_allclose(measured.mean("test_error"), values.sum(axis=0) / 5)
    error = np.sqrt(np.sum((values - values.mean(axis=0)) ** 2, axis=0) / 4 / 5)
    np.testing.assert_allclose(measured.standard_error("test_error"), error)
    assert np.all(np.isnan(simulate(small(), 1).standard_error("test_error")))
    with pytest.raises(InvalidInput, match="quantity"):
        measured["nothing"]
    with pytest.raises(ValueError, match="read-only"):
        measured["test_error"][0, 0] = 0.0
    plain = json.loads(json.dumps(measured.to_dict(), allow_nan=False))
    assert plain["seeds"] == [0, 1, 2, 3, 4]
    assert plain["ridge"] == [0.1, 1.0]
    assert plain["values"]["alignment"] == [None] * 5
    np.testing.assert_array_equal(plain["values"]["test_error"], values)
    assert Problem.from_dict(plain["problem"]) == measured.problem
    assert {"gradstep", "numpy"} <= plain["versions"].keys()
    # To the second digit of the error.
    assert f"{measured.mean('test_error')[1]:.3f}  {error[1]:.3f}" in str(measured)
    assert len(str(measured).splitlines()) <= 25
    assert isinstance(measured, Measurement)


def test_a_readout_value_that_no_neuron_gets_is_refused():
    with pytest.raises(InvalidInput, match="all of whose 30 neurons get the value 0"):
        simulate(small(width=30, readout={0.0: 0.99, 1.0: 0.01}), 2)


def test_measurements_can_be_sent_and_copied() -> None:
    measured = simulate(small(), seeds=2, ridge=[0.1, 1.0])
    for twin in (pickle.loads(pickle.dumps(measured)), copy.deepcopy(measured)):
        assert (twin.problem, twin.seeds, twin.ridge, dict(twin.versions)) == (
            measured.problem, measured.seeds, measured.ridge, dict(measured.versions)
        )  # fmt: skip
        assert twin.values.keys() == measured.values.keys()
        np.testing.assert_array_equal(twin["test_error"], measured["test_error"])
        assert not twin["test_error"].flags.writeable
