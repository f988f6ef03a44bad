"""Lemma 6, Theorem 7 and Corollary 8: the constructed student and the bound."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradstep.errors import InvalidInput
from gradstep.gaussian import moments, scalar_function
from gradstep.papers import ba2022
from gradstep.papers.ba2022.experiments import goodness, student, theorem7
from gradstep.papers.experiments import learning_curves
from gradstep.papers.figure import load_figures
from gradstep.problem import Problem
from gradstep.theory import predict


@pytest.mark.parametrize(
    ("sigma", "sigma_star"), [("erf", "erf"), ("tanh", "sin"), ("hardtanh", "relu"), ("sin", "sin"), ("tanh", "sign")]
)
@pytest.mark.parametrize("kappa", [-1.2, 0.0, 0.4, 1.7])
def test_objective_as_a_hermite_sum(sigma: str, sigma_star: str, kappa: float) -> None:
    """Mehler's formula, independent of any quadrature in two variables."""
    expected = goodness.hermite_risk(sigma, sigma_star, kappa, order=160)
    assert float(ba2022.student_risk(sigma, sigma_star, kappa)) == pytest.approx(expected, abs=1e-10)


def test_oscillating_activation_has_no_limit_student() -> None:
    """sin at a steep slope only adds variance; the search must not try to resolve its oscillations."""
    best = ba2022.tau_star("sin", "sign")
    assert np.isfinite(best.kappa)
    assert best.tau == pytest.approx(goodness.hermite_risk("sin", "sign", best.kappa, order=160), abs=1e-10)


def test_steep_student_of_an_asymmetric_step() -> None:
    """sigmoid tends to a unit step, so the risk with H1 as teacher tends to E (x - 1(x > 0))^2."""
    far = 1 - 2 * (1 / np.sqrt(2 * np.pi)) + 0.5
    assert float(ba2022.student_risk("sigmoid", "H1", 1e6)) == pytest.approx(far, abs=1e-5)
    assert ba2022.tau_star("sigmoid", "H1").tau <= far


@pytest.mark.parametrize(("sigma", "sigma_star"), [("erf", "erf"), ("tanh", "sin"), ("hardtanh", "relu")])
def test_constructed_student_tends_to_tau_star(sigma: str, sigma_star: str) -> None:
    best = ba2022.tau_star(sigma, sigma_star)
    limit = ba2022.constructed_risk(sigma, sigma_star, psi1=np.inf, sigma_eps=0.3)
    assert float(limit) == pytest.approx(best.tau, abs=1e-9)
    excess = ba2022.constructed_risk(sigma, sigma_star, psi1=[1e4, 1e5], sigma_eps=0.3) - best.tau
    assert excess[0] / excess[1] == pytest.approx(10, rel=1e-2)


@pytest.mark.parametrize("neurons", [3.0, np.inf])
def test_constructed_student_of_erf_in_closed_form(neurons: float) -> None:
    """Every term is an arcsine: E erf(u) erf(v) = (2 / pi) asin(2 C / sqrt((1 + 2 q)(1 + 2 r)))."""

    def kernel(covariance: float, q: float, r: float) -> float:
        return 2 / np.pi * np.arcsin(2 * covariance / np.sqrt((1 + 2 * q) * (1 + 2 * r)))

    psi1, noise, kappa = 4.0, 0.3, 1.5
    values = moments("erf")
    label_variance = values.second_moment + noise**2
    shared = kappa**2 * (1 + label_variance / (values.linear**2 * psi1))
    own = 1 + (kappa / values.linear**2) ** 2 * label_variance * values.derivative_variance / psi1
    pair, same = kernel(shared, shared + own, shared + own), kernel(shared + own, shared + own, shared + own)
    expected = values.second_moment - 2 * kernel(kappa, 1, shared + own) + pair + (same - pair) / neurons
    found = ba2022.constructed_risk("erf", "erf", psi1=psi1, sigma_eps=noise, kappa=kappa, neurons=neurons)
    assert float(found) == pytest.approx(expected, rel=1e-9)


def test_constructed_student_against_draws() -> None:
    draw, n = np.random.default_rng(0), 400_000
    x1, x3, x2, other = draw.standard_normal((4, n))
    target, student_moments = moments("relu"), moments("tanh")
    psi1, kappa = 3.0, 1.1
    label_variance = target.second_moment - target.mean**2 + 0.04
    c = kappa / target.linear * np.sqrt(label_variance / psi1)
    V = 1 + (kappa / target.linear / student_moments.linear) ** 2 * (
        label_variance * student_moments.derivative_variance / psi1
    )
    teacher = scalar_function("relu")(x1) - target.mean
    first, second = (np.tanh(kappa * x1 + c * x3 + np.sqrt(V) * z) for z in (x2, other))
    product = (teacher - first) * (teacher - second)  # unbiased for the square of the average over x2
    expected = ba2022.constructed_risk("tanh", "relu", psi1=psi1, sigma_eps=0.2, kappa=kappa)
    assert abs(product.mean() - float(expected)) < 4 * product.std() / np.sqrt(n)


def test_constructed_readout() -> None:
    readout = ba2022.constructed_readout([0.0, 1.4, 1.5, 1.7, -1.5], 1.5, tolerance=0.11)
    np.testing.assert_allclose(readout, [0, 0.5, 0.5, 0, 0])
    with pytest.raises(InvalidInput, match="tolerance"):
        ba2022.constructed_readout([0.0, 1.0], 5.0, tolerance=0.1)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"sigma_star": "sign"}, "kappa"),
        ({"sigma_star": "H2", "kappa": 1.0}, "sigma_star"),
        ({"psi1": 0.0}, "psi1"),
        ({"neurons": 0}, "neurons"),
        ({"sigma_eps": -1.0}, "sigma_eps"),
    ],
)
def test_constructed_risk_of_bad_input(changes: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{field}"):
        ba2022.constructed_risk(**{"sigma": "erf", "sigma_star": "erf", "psi1": 3.0, **changes})  # type: ignore[arg-type]


@pytest.mark.statistical
@pytest.mark.parametrize(("sigma", "sigma_star"), [("erf", "erf"), ("hardtanh", "sin")])
def test_constructed_student_of_real_networks(sigma: str, sigma_star: str) -> None:
    parameters = {"psi2": 16.0, "lam": 1.0, "sigma_eps": 0.2, "d": 64, "eta_bar": 3.0, "window": 0.1, "psi1": 10.0}
    found = [student.measure({**parameters, "activation": sigma, "teacher": sigma_star}, s) for s in range(16)]
    risks = np.array([f["risk"] for f in found])
    law = {"neurons": 16 / sum(1 / f["neurons"] for f in found), "kappa": np.mean([f["slope"] for f in found])}
    expected = float(ba2022.constructed_risk(sigma, sigma_star, psi1=10 * 64 / 63, sigma_eps=0.2, **law))
    assert abs(risks.mean() - expected) < 4 * risks.std(ddof=1) / 4


# --- Theorem 7 and Corollary 8 ---


def test_bound() -> None:
    assert float(ba2022.risk_bound(0.04, psi1=4.0, C=2.0)) == pytest.approx(0.4 + 2 * (0.2 * 0.5 + 0.25))
    assert float(ba2022.risk_bound(0.0, psi1=8.0, C=3.0)) == pytest.approx(3 / 8)


@pytest.mark.parametrize("risk", [0.05, 0.5])
def test_smallest_constant_makes_the_bound_tight(risk: float) -> None:
    constant = ba2022.smallest_constant(risk, 0.002, psi1=6.0)
    assert float(ba2022.risk_bound(0.002, psi1=6.0, C=constant)) == pytest.approx(risk)
    assert float(ba2022.smallest_constant(0.019, 0.002, psi1=6.0)) == 0.0


def test_penalty_window() -> None:
    low, high = ba2022.penalty_window(10_000, 300, 0.25)
    assert (low, high) == pytest.approx((0.3, 30.0))
    with pytest.raises(InvalidInput, match="epsilon"):
        ba2022.penalty_window(100, 100, 0.5)


@pytest.mark.parametrize(
    ("sigma", "sigma_star", "expected"),
    [("erf", "erf", True), ("tanh", "tanh", True), ("tanh", "relu", False), ("erf", "sin", False)],
)
def test_corollary_8(sigma: str, sigma_star: str, expected: bool) -> None:
    assert ba2022.beats_kernels(sigma, sigma_star) is expected


SETTINGS = {"base": {"psi2": 2.0, "sigma_eps": 0.1}, "eta_bar": 2.0, "penalty_exponent": 0.5}


def problem(settings: dict[str, Any], name: str, psi1: float, d: int) -> Problem:
    """Return the problem of the figure for an activation and teacher of the same name."""
    curve = {"parameters": {"activation": name, "teacher": name}}
    return theorem7.Theorem7("theorem7", settings, {}).problem(curve, psi1, d)


def test_rate_of_corollary_8_in_the_limit() -> None:
    """lam/N = n^(-1/2): the uniform equivalent of a large network falls like d/n, with a finite constant."""
    risks = [predict(problem(SETTINGS, "erf", psi1, 10**8)).test_error for psi1 in (128.0, 512.0)]
    assert np.log(risks[1] / risks[0]) / np.log(4) == pytest.approx(-1, abs=0.02)
    assert ba2022.smallest_constant(risks, 0.0, psi1=[128.0, 512.0]).max() < 1


@pytest.mark.statistical
def test_large_step_beats_kernels() -> None:
    settings = {**SETTINGS, "penalty_exponent": 0.8}
    for name in ("erf", "tanh"):
        parameters = problem(settings, name, 24.0, 64).to_dict()
        risks = np.array([learning_curves.measure(parameters, seed)["test_error"] for seed in range(8)])
        assert ba2022.kernel_lower_bound(name) - risks.mean() > 5 * risks.std(ddof=1) / np.sqrt(8)


@pytest.mark.parametrize("preset", ["quick", "standard", "paper"])
def test_penalties_of_the_figure_are_those_of_theorem_7(preset: str) -> None:
    for task in load_figures(["theorem7"])[0].tasks(preset):
        own = Problem.from_dict(task.parameters)
        low, high = ba2022.penalty_window(own.n, own.width, 0.15)
        # The canonical penalty is n times that of (4.1).
        assert low < own.ridge / own.n < high
