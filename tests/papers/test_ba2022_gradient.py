"""Proposition 2: the first gradient and its norms."""

from __future__ import annotations

import numpy as np
import pytest

from gradstep.errors import InvalidInput
from gradstep.gaussian import moments
from gradstep.papers import ba2022
from gradstep.papers.ba2022.experiments import rank_one
from gradstep.problem import Problem
from gradstep.simulation import Network


def problem(activation: str, eta: float = 1.7) -> Problem:
    return Problem.ba2022(psi1=3, psi2=2, lam=1.0, eta=eta, sigma_eps=0.2, d=12, activation=activation, teacher="sin")


@pytest.mark.parametrize("activation", ["erf", "tanh", "relu"])
def test_gradient_of_the_step_is_2_1(activation: str) -> None:
    """(2.1), typed from the paper."""
    case = problem(activation)
    network = Network(case, 5)
    rows, values = network.before, network.readout
    X, y = network.step_data()
    W0, a = rows.T, values / np.sqrt(len(values))
    N, n = len(a), len(y)
    residual = y - case.activation(X @ W0) @ a / np.sqrt(N)
    G0 = X.T @ (np.outer(residual / np.sqrt(N), a) * case.activation.derivative(X @ W0)) / n
    W1 = network.after.T
    np.testing.assert_allclose(W1, W0 + 1.7 * np.sqrt(N) * G0, rtol=1e-12)
    np.testing.assert_allclose(ba2022.first_gradient(W0, W1, 1.7), G0, rtol=1e-9, atol=1e-15)


def test_rank_one_is_exact_for_a_linear_network_up_to_its_own_output() -> None:
    case = problem("linear", eta=1.0)
    network = Network(case, 2)
    rows, values = network.before, network.readout
    X, y = network.step_data()
    a = values / np.sqrt(len(values))
    N, n = len(a), len(y)
    G0 = ba2022.first_gradient(rows.T, network.after.T, 1.0)
    A = ba2022.rank_one(X, y, a, 1.0)
    assert np.linalg.matrix_rank(A) == 1
    output = X.T @ (X @ rows.T @ a)
    np.testing.assert_allclose(G0, A - np.outer(output, a) / (n * N), rtol=1e-9, atol=1e-14)


def test_error_bound() -> None:
    assert float(ba2022.error_bound(np.e**4, 0.5)) == pytest.approx(0.5 * 16 / np.e**2)


def test_unusable_arguments_are_named() -> None:
    with pytest.raises(InvalidInput, match="C"):
        ba2022.error_bound(10, np.nan)
    for d in (0, -1, 0.3, np.nan):
        with pytest.raises(InvalidInput, match="d:"):
            ba2022.norms("tanh", "sin", psi1=1.0, psi2=1.0, d=d)
    with pytest.raises(InvalidInput, match="neuron"):
        ba2022.norms("tanh", "sin", psi1=1.0, psi2=1e-3, d=100)


def test_norms_of_a_linear_network() -> None:
    """No remainder: the two norms of the gradient coincide."""
    limits = ba2022.norms("linear", "erf", psi1=4.0, psi2=2.0, sigma_eps=0.3)
    assert float(limits.gradient) == pytest.approx(float(limits.gradient_frobenius))
    assert float(limits.gradient) == pytest.approx(float(ba2022.theta("erf", psi1=4.0, sigma_eps=0.3)))
    assert float(limits.weights) == pytest.approx(1 + np.sqrt(2))


def test_remainder_stays_in_frobenius_norm() -> None:
    limits = ba2022.norms("erf", "erf", psi1=[1.0, 10.0, 1e9], psi2=2.0, sigma_eps=0.1)
    excess = limits.gradient_frobenius**2 - limits.gradient**2
    values = moments("erf")
    expected = values.derivative_variance * (ba2022.coefficients("erf", "erf").second_moment + 0.01)
    np.testing.assert_allclose(excess * [1.0, 10.0, 1e9], expected, rtol=1e-6)


def test_finite_size_of_the_largest_singular_value() -> None:
    """The Tracy-Widom mean against matrices, and its limit."""
    draw, d = np.random.default_rng(1), 40
    sampled = [np.linalg.norm(draw.standard_normal((d, 3 * d)), 2) / np.sqrt(d) for _ in range(300)]
    error = np.std(sampled, ddof=1) / np.sqrt(300)
    expected = float(ba2022.norms("erf", "erf", psi1=1.0, psi2=3.0, d=d).weights)
    assert abs(np.mean(sampled) - expected) < 4 * error
    assert abs(np.mean(sampled) - (1 + np.sqrt(3))) > 10 * error
    assert float(ba2022.norms("erf", "erf", psi1=1.0, psi2=3.0, d=1e12).weights) == pytest.approx(1 + np.sqrt(3))


def test_operator_norm() -> None:
    matrix = np.random.default_rng(0).standard_normal((5, 9))
    for m in (matrix, matrix.T):
        assert rank_one._norm(m) == pytest.approx(np.linalg.norm(m, 2))


@pytest.mark.statistical
@pytest.mark.parametrize(("activation", "teacher"), [("erf", "erf"), ("tanh", "sin"), ("hardtanh", "softplus")])
def test_limits_against_real_gradients(activation: str, teacher: str) -> None:
    base = {"psi1": 4, "psi2": 1.5, "sigma_eps": 0.3, "activation": activation, "teacher": teacher}
    limits = ba2022.norms(activation, teacher, psi1=4, psi2=1.5, sigma_eps=0.3, d=200)
    sampled = [rank_one.measure({**base, "d": 200}, seed) for seed in range(16)]
    for name in rank_one.QUANTITIES:
        values = np.array([s[name] for s in sampled])
        assert abs(values.mean() - float(getattr(limits, name))) < 4 * values.std(ddof=1) / 4, name
    small = [rank_one.measure({**base, "d": 50}, seed)["relative_error"] for seed in range(16)]
    rate = np.log(np.mean([s["relative_error"] for s in sampled]) / np.mean(small)) / np.log(4)
    assert rate == pytest.approx(-0.5, abs=0.1)
