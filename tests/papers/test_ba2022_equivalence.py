"""Theorem 3 and Fact 4: the Gaussian equivalent at given weights; Theorem 5: its improvement."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from gradstep.errors import InvalidInput
from gradstep.papers import ba2022
from gradstep.papers.ba2022.equivalence import equivalent_risk
from gradstep.papers.ba2022.experiments import equivalence, improvement
from gradstep.papers.moniri2024 import gaussian_equivalent
from gradstep.problem import Problem
from gradstep.simulation import Network

ERF = ba2022.coefficients("erf", "erf")
RATES = {"lam": 1e-2, "psi1": 3.0, "psi2": 2.0, "sigma_eps": 0.2}


def axis(d: int) -> NDArray[np.float64]:
    return np.eye(d)[0]


@pytest.mark.parametrize("psi2", [0.5, 2.0])
def test_initial_weights_give_the_random_features_risk(psi2: float) -> None:
    d, draw = 300, np.random.default_rng(0)
    risks = [
        ba2022.R_GE(
            ERF, draw.standard_normal((d, round(psi2 * d))) / np.sqrt(d), axis(d), n=3 * d, lam=1e-2, sigma_eps=0.2
        )
        for _ in range(12)
    ]
    limit = float(ba2022.R_0("erf", "erf", **{**RATES, "psi2": psi2}))
    error = np.std(risks, ddof=1) / np.sqrt(12)
    assert error < 0.02 * limit
    assert abs(np.mean(risks) - limit) < 4 * error


@pytest.mark.statistical
def test_one_spiked_neuron_gives_theorem_5() -> None:
    """The rank-one step of Proposition 2 put in by hand: an independent route to delta."""
    d, draw, eta = 400, np.random.default_rng(1), 3.0
    N, n = 2 * d, 3 * d
    theta = float(ba2022.theta("erf", psi1=3.0, sigma_eps=0.2))
    gains = []
    for _ in range(12):
        W = draw.standard_normal((d, N)) / np.sqrt(d)
        a = draw.standard_normal(N) / np.sqrt(N)
        noise = draw.standard_normal(d)
        noise[0] = 0
        b = ERF.mu1_star * axis(d) + np.sqrt((theta**2 - ERF.mu1_star**2) / d) * noise
        law = {"n": n, "lam": 1e-2, "sigma_eps": 0.2}
        pair = [ba2022.R_GE(ERF, W + sign * eta * ERF.mu1 * np.outer(b, a), axis(d), **law) for sign in (1.0, -1.0)]
        gains.append(ba2022.R_GE(ERF, W, axis(d), **law) - np.mean(pair))
    error = np.std(gains, ddof=1) / np.sqrt(12)
    assert abs(np.mean(gains) - float(ba2022.delta("erf", "erf", eta=eta, **RATES))) < 4 * error + 2e-4


def test_features_without_a_linear_part() -> None:
    """Only noise features: a scalar quadratic for the effective ridge."""
    values = ba2022.Coefficients(0.0, 0.0, 0.5, 0.0, 0.7, 0.1)
    n, N, lam = 60, 90, 0.3
    W = np.random.default_rng(2).standard_normal((10, N))
    # lam = kappa (1 - (N/n) m/(m + kappa)), m = mu2^2
    m = 0.5
    linear = m - lam - N / n * m
    kappa = (-linear + np.sqrt(linear**2 + 4 * lam * m)) / 2
    risk = (0.1 + 0.49 + 0.04) / (1 - N / n * (m / (m + kappa)) ** 2) - 0.04
    assert ba2022.R_GE(values, W, axis(10), n=n, lam=lam, sigma_eps=0.2) == pytest.approx(risk, rel=1e-9)


def test_rotations_change_nothing() -> None:
    draw = np.random.default_rng(3)
    W, beta = draw.standard_normal((8, 11)), axis(8)
    Q, R = np.linalg.qr(draw.standard_normal((8, 8)))[0], np.linalg.qr(draw.standard_normal((11, 11)))[0]
    law = {"n": 40, "lam": 0.1, "sigma_eps": 0.1}
    assert ba2022.R_GE(ERF, Q @ W @ R, Q @ beta, **law) == pytest.approx(ba2022.R_GE(ERF, W, beta, **law), rel=1e-10)


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    lam=st.floats(1e-6, 1e2),
    n=st.integers(2, 80),
    N=st.integers(1, 40),
    spike=st.floats(0, 50),
)
def test_fact_4(seed: int, lam: float, n: int, N: int, spike: float) -> None:
    draw = np.random.default_rng(seed)
    W = draw.standard_normal((7, N)) / np.sqrt(7) + spike * np.outer(axis(7), draw.standard_normal(N))
    assert ba2022.R_GE(ERF, W, axis(7), n=n, lam=lam) >= ERF.mu2_star_squared * (1 - 1e-9)


def test_bad_penalty() -> None:
    with pytest.raises(InvalidInput, match="lam"):
        ba2022.R_GE(ERF, np.eye(3), axis(3), n=5, lam=0.0)


@pytest.mark.parametrize(("name", "value"), [("n", 0), ("sigma_eps", np.nan), ("sigma_eps", -1.0)])
def test_unusable_arguments_are_named(name: str, value: float) -> None:
    arguments = {"n": 10, "lam": 0.1, name: value}
    with pytest.raises(InvalidInput, match=name):
        ba2022.R_GE(ba2022.coefficients("tanh", "sin"), np.eye(5), np.eye(5)[0], **arguments)


@pytest.mark.parametrize("lam", [1e12, 1e15, 1e200, 1e300])
def test_a_penalty_without_bound_leaves_the_whole_teacher(lam: float) -> None:
    # A bracket of the effective ridge between the penalty and itself plus a rounding error has no change of sign.
    values, random = ba2022.coefficients("relu", "sin"), np.random.default_rng(0)
    for n in (1, 7, 20, 1000):
        risk = ba2022.R_GE(values, random.standard_normal((10, 20)) / 3, np.eye(10)[0], n=n, lam=lam)
        assert risk == pytest.approx(float(values.second_moment), rel=1e-9)


def test_exact_risk_of_the_equivalent_features() -> None:
    """Against fresh features."""
    problem = Problem.ba2022(**RATES, d=15, activation="erf", teacher="sin", eta=2.0)
    weights = Network(problem, 1).after
    draw = np.random.default_rng(0)
    b = draw.standard_normal((len(weights), 2)) / 10
    exact = equivalent_risk(problem, weights, b)
    inputs = draw.standard_normal((100_000, 15))
    rows = gaussian_equivalent(problem.activation, inputs, weights, draw)
    squares = (rows @ b - problem.teacher(inputs[:, 0])[:, None]) ** 2
    error = squares.std(axis=0) / np.sqrt(len(squares))
    assert (np.abs(squares.mean(axis=0) - exact) < 4 * error).all()


def test_exact_risk_of_the_network() -> None:
    problem = Problem.ba2022(**RATES, d=15, activation="tanh", teacher="softplus", eta=5.0)
    network = Network(problem, 1)
    draw = np.random.default_rng(0)
    b = draw.standard_normal((len(network.readout), 1)) / 10
    inputs = draw.standard_normal((100_000, 15))
    squares = (network.features(inputs) @ b - problem.teacher(inputs[:, 0])[:, None]) ** 2
    error = squares.std() / np.sqrt(len(squares))
    assert abs(squares.mean() - network.risk(b).test_error[0]) < 4 * error


@pytest.mark.statistical
def test_equivalent_follows_its_formula_where_the_network_does_not() -> None:
    parameters = {"activation": "erf", "teacher": "erf", "lam": 1e-3, "psi1": 8, "psi2": 2, "sigma_eps": 0.1, "d": 96}
    eta = {"coefficient": 1.0, "exponent": 0.5}
    found = [equivalence.measure({**parameters, "eta": eta, "after": [1]}, seed) for seed in range(16)]
    risks = {name: np.array([f[name][0] for f in found]) for name in found[0]}
    difference = risks["equivalent"] - risks["formula"]
    assert abs(difference.mean()) < 4 * difference.std(ddof=1) / 4
    gap = risks["equivalent"] - risks["network"]
    assert gap.mean() > 10 * gap.std(ddof=1) / 4
    assert risks["network"].mean() < ERF.mu2_star_squared < risks["formula"].min()


# --- Theorem 5 ---


@settings(max_examples=80)
@given(
    eta=st.floats(0.01, 30),
    psi1=st.floats(0.05, 200),
    psi2=st.floats(0.05, 200),
    lam=st.floats(1e-5, 10),
    noise=st.floats(0, 1),
)
def test_delta_is_positive_increasing_and_leaves_the_bound(
    eta: float, psi1: float, psi2: float, lam: float, noise: float
) -> None:
    law = {"psi1": psi1, "psi2": psi2, "lam": lam, "sigma_eps": noise}
    small, large = ba2022.delta("tanh", "softplus", eta=[eta, 1.1 * eta], **law)
    assert 0 < small < large
    assert large < float(ba2022.delta_large_step(ba2022.coefficients("tanh", "softplus"), **law)) * (1 + 1e-9)
    assert float(ba2022.R_1("tanh", "softplus", eta=eta, **law)) > ba2022.kernel_lower_bound("softplus")


@pytest.mark.parametrize(("sigma", "sigma_star"), [("H3", "erf"), ("erf", "H2")])
def test_delta_vanishes_without_a_linear_part(sigma: str, sigma_star: str) -> None:
    assert float(ba2022.delta(sigma, sigma_star, eta=2.0, **RATES)) == pytest.approx(0.0, abs=1e-14)


def test_limits_of_delta() -> None:
    eta, values = np.array([0.5, 2.0, 8.0]), ba2022.coefficients("tanh", "relu")
    many = ba2022.delta("tanh", "relu", eta=eta, lam=1e-2, psi1=1e9, psi2=2.0, sigma_eps=0.3)
    np.testing.assert_allclose(many, ba2022.delta_large_sample(values, eta=eta, lam=1e-2, psi2=2.0), rtol=1e-6)
    wide = ba2022.delta("tanh", "relu", eta=eta, lam=1e-2, psi1=3.0, psi2=1e7)
    np.testing.assert_allclose(wide, ba2022.delta_large_width(values, eta=eta, psi1=3.0, psi2=1e7), rtol=1e-4)
    far = ba2022.delta("tanh", "relu", eta=1e6, **RATES)
    assert float(far) == pytest.approx(float(ba2022.delta_large_step(values, **RATES)), rel=1e-6)


def test_control_is_the_mean_over_both_signs() -> None:
    """Without a step there is no improvement; the control keeps the two signs of the readout apart."""
    parameters = {**RATES, "d": 16, "activation": "erf", "teacher": "erf"}
    found = improvement.measure({**parameters, "etas": [0.0, 1.0]}, 3)["delta"]
    assert found[0] == pytest.approx(0.0, abs=1e-12)
    assert found[1] != 0


@pytest.mark.statistical
def test_delta_against_paired_networks() -> None:
    parameters = {"activation": "tanh", "teacher": "erf", **RATES}
    found = np.array([improvement.measure({**parameters, "d": 128, "etas": [1.0, 3.0]}, s)["delta"] for s in range(16)])
    expected = ba2022.delta("tanh", "erf", eta=[1.0, 3.0], N=256, **RATES)
    assert (np.abs(found.mean(axis=0) - expected) < 4 * found.std(axis=0, ddof=1) / 4).all()
    assert (found.mean(axis=0) > 4 * found.std(axis=0, ddof=1) / 4).all()
