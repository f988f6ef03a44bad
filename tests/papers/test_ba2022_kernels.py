"""Proposition 1: kernels that learn a linear function only."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.optimize import minimize

from gradstep.errors import InvalidInput
from gradstep.papers import ba2022
from gradstep.papers.ba2022.experiments import kernel_ridge
from gradstep.problem import Problem
from gradstep.simulation import Network

KINDS = ("conjugate", "tangent", "inner_product", "distance")


@pytest.mark.parametrize("psi1", [1.3, 3.0, 20.0])
@pytest.mark.parametrize("penalty", [1e-3, 0.2, 5.0])
def test_linear_ridge_against_the_marchenko_pastur_integral(psi1: float, penalty: float) -> None:
    """Bias and variance of ridge regression as integrals over the spectrum of X'X/n."""
    low, high = (1 - psi1**-0.5) ** 2, (1 + psi1**-0.5) ** 2

    def integral(f: Callable[[float], float]) -> float:
        def transformed(angle: float) -> float:  # s = middle + half cos(angle) removes the square roots
            s = (low + high) / 2 + (high - low) / 2 * math.cos(angle)
            density = psi1 * ((high - low) / 2 * math.sin(angle)) ** 2 / (2 * math.pi * s)
            return density * f(s)

        return float(quad(transformed, 0, math.pi, epsabs=1e-12)[0])

    values = ba2022.coefficients("erf", "erf")
    noise = 0.3
    bias = values.mu1_star**2 * penalty**2 * integral(lambda s: (s + penalty) ** -2)
    unexplained = values.mu2_star_squared + noise**2
    variance = unexplained / psi1 * integral(lambda s: s * (s + penalty) ** -2)
    expected = bias + variance + values.mu2_star_squared
    found = ba2022.R_linear("erf", penalty=penalty, psi1=psi1, sigma_eps=noise)
    assert float(found) == pytest.approx(expected, rel=1e-9)


def test_least_squares() -> None:
    floor = ba2022.kernel_lower_bound("relu")
    risk = ba2022.R_linear("relu", penalty=0.0, psi1=4.0, sigma_eps=0.5)
    assert float(risk) == pytest.approx((floor + 0.25) / (1 - 1 / 4) - 0.25, rel=1e-12)
    with pytest.raises(InvalidInput, match="penalty"):
        ba2022.R_linear("relu", penalty=0.0, psi1=0.5)


def test_kernels_of_linear_functions() -> None:
    """g(t) = t, and the tangent kernel of the identity, are linear ridge regression itself."""
    expected = ba2022.R_linear("erf", penalty=0.3 / 2.0, psi1=2.0, sigma_eps=0.1)
    linear = ba2022.inner_product_kernel(0.0, 1.0, 1.0)
    assert float(ba2022.R_ker(linear, "erf", ridge=0.3, psi1=2.0, sigma_eps=0.1)) == pytest.approx(float(expected))
    tangent = ba2022.R_NTK("linear", "erf", lam=0.3 * 4 / 2, psi1=2.0, psi2=4.0, sigma_eps=0.1)
    assert float(tangent) == pytest.approx(float(expected))


def test_equivalents_of_a_quadratic_distance_kernel() -> None:
    """g(t) = 1 - t/2 is <x, y>/d up to the norms, which concentrate: linear part 1 and nothing on the diagonal."""
    equivalent = ba2022.distance_kernel(1.0, 0.0, -0.5)
    assert (equivalent.linear, equivalent.diagonal) == (1.0, 0.0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("teacher", ["erf", "tanh", "relu", "sin"])
def test_proposition_1(kind: str, teacher: str) -> None:
    base = {"activation": "erf", "teacher": teacher, "psi2": 1.5, "sigma_eps": 0.2}
    psi1, ridge = np.geomspace(0.1, 1e5, 30)[:, None], np.geomspace(1e-6, 1e6, 40)
    assert (kernel_ridge.theory(kind, base, ridge, psi1) > ba2022.kernel_lower_bound(teacher)).all()


def test_many_samples_reach_the_bound() -> None:
    base = {"activation": "erf", "teacher": "sin", "psi2": 3.0, "sigma_eps": 0.2}
    for kind in ("tangent", "inner_product", "distance"):  # the conjugate kernel is limited by its width as well
        risk = kernel_ridge.theory(kind, base, 0.1, 1e7)
        assert float(risk) == pytest.approx(ba2022.kernel_lower_bound("sin"), rel=1e-5)


def test_closed_form_of_3_2_belongs_to_a_sum() -> None:
    """Minimise the objective of (3.2) numerically: its closed form adds n lam, not the lam that the paper prints."""
    draw = np.random.default_rng(0)
    inputs, labels, lam = draw.standard_normal((12, 5)), draw.standard_normal(12), 0.07
    kernel = np.exp(inputs @ inputs.T / 5)

    def objective(c: NDArray[np.float64]) -> float:
        return float(((labels - kernel @ c) ** 2).mean() + lam * c @ kernel @ c)

    numerical = kernel @ minimize(objective, np.zeros(12), method="BFGS", options={"gtol": 1e-10}).x
    for published, close in ((False, True), (True, False)):
        ridge = float(ba2022.kernel_ridge_penalty(lam, 12, published=published))
        fitted = kernel @ np.linalg.solve(kernel + ridge * np.eye(12), labels)
        assert np.allclose(fitted, numerical, atol=1e-3) is close


def test_tangent_kernel_from_its_features() -> None:
    """The features of (3.1), one by one."""
    problem = Problem.ba2022(psi1=2, psi2=1.5, lam=1.0, d=6, activation="tanh", teacher="erf")
    network = Network(problem, 3)
    weights, (inputs, _) = network.before, network.fit_data()
    slopes = problem.activation.derivative(inputs @ weights.T)
    features = (slopes[:, :, None] * inputs[:, None, :]).reshape(len(inputs), -1) / math.sqrt(weights.size)
    np.testing.assert_allclose(
        kernel_ridge.kernel_matrix("tangent", problem, weights, inputs, inputs), features @ features.T, rtol=1e-12
    )


def test_kernel_matrices() -> None:
    problem = Problem.ba2022(psi1=2, psi2=1.5, lam=1.0, d=6, activation="tanh", teacher="erf")
    network = Network(problem, 3)
    weights, (inputs, _) = network.before, network.fit_data()
    distances = ((inputs[:, None] - inputs[None]) ** 2).sum(axis=2)
    found = {kind: kernel_ridge.kernel_matrix(kind, problem, weights, inputs, inputs) for kind in KINDS}
    np.testing.assert_allclose(found["distance"], np.exp(-distances / 12), rtol=1e-12)
    np.testing.assert_allclose(found["inner_product"], np.exp(inputs @ inputs.T / 6), rtol=1e-12)
    features = np.tanh(inputs @ weights.T) / 3
    np.testing.assert_allclose(found["conjugate"], features @ features.T, rtol=1e-12)


def test_control_of_the_sampled_risk_has_no_bias() -> None:
    """A useless kernel with a huge penalty predicts zero: the risk is the teacher's second moment."""
    parameters = {"activation": "erf", "teacher": "erf", "psi1": 2, "psi2": 1, "sigma_eps": 0.1, "d": 20}
    task = {**parameters, "kernel": "distance", "ridges": [1e12], "test_samples": 4096}
    sampled = [kernel_ridge.measure(task, seed)["risk"][0] for seed in range(8)]
    error = np.std(sampled, ddof=1) / math.sqrt(8)
    expected = ba2022.coefficients("erf", "erf").second_moment
    assert abs(np.mean(sampled) - expected) < 4 * error


@pytest.mark.statistical
@pytest.mark.parametrize("kind", KINDS)
def test_limits_against_real_regressions(kind: str) -> None:
    base = {"activation": "tanh", "teacher": "sin", "psi2": 1.5, "sigma_eps": 0.2}
    task = {**base, "d": 160, "psi1": 3.0, "kernel": kind, "ridges": [0.05, 1.0], "test_samples": 2048}
    sampled = np.array([kernel_ridge.measure(task, seed)["risk"] for seed in range(16)])
    error = sampled.std(axis=0, ddof=1) / 4
    assert (np.abs(sampled.mean(axis=0) - kernel_ridge.theory(kind, base, [0.05, 1.0], 3.0)) < 4 * error).all()


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: ba2022.inner_product_kernel(0.0, 1.0, 0.0), "linear"),
        (lambda: ba2022.distance_kernel(1.0, 0.5, 0.1), "linear"),
        (lambda: ba2022.inner_product_kernel(0.0, 0.5, 1.0), "diagonal"),
        (lambda: ba2022.R_linear("erf", penalty=-1.0, psi1=2.0), "penalty"),
        (lambda: ba2022.R_linear("erf", penalty=1.0, psi1=0.0), "psi1"),
        (lambda: ba2022.kernel_ridge_penalty(0.1, 0), "n"),
    ],
)
def test_bad_input(call: Callable[[], object], field: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{field}"):
        call()
