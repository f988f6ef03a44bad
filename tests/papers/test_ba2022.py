"""Ba et al. 2022 in its own notation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import dblquad

from gradstep.gaussian.functions import scalar_function
from gradstep.papers import ba2022
from gradstep.papers.ba2022.student import student_risk


@pytest.mark.parametrize(
    ("teacher", "floor"),
    [
        ("relu", 1 / 4 - 1 / (2 * np.pi)),
        ("erf", 2 / np.pi * np.arcsin(2 / 3) - 4 / (3 * np.pi)),
        ("sign", 1 - 2 / np.pi),
        ("linear", 0.0),
        ("sin", (1 - np.exp(-2)) / 2 - np.exp(-1)),
    ],
)
def test_kernel_lower_bound(teacher: str, floor: float) -> None:
    assert ba2022.kernel_lower_bound(teacher) == pytest.approx(floor, abs=1e-10)


def test_risk_after_the_step_is_the_initial_one_minus_delta() -> None:
    arguments = {"lam": 1e-3, "psi1": [1.0, 5.0], "psi2": 2.0, "sigma_eps": 0.1}
    difference = ba2022.R_0("erf", "erf", **arguments) - ba2022.R_1("erf", "erf", eta=2.0, **arguments)
    np.testing.assert_allclose(difference, ba2022.delta("erf", "erf", eta=2.0, **arguments), rtol=1e-10)


def test_uncentred_teacher_raises_the_floor_of_an_odd_student() -> None:
    arguments = {"lam": 1e-2, "psi1": 3.0, "psi2": 1e4, "eta": 1.0}
    centred = ba2022.R_1("tanh", "softplus", **arguments)
    uncentred = ba2022.R_1("tanh", "softplus", centred=False, **arguments)
    assert uncentred - centred > ba2022.coefficients("tanh", "softplus", centred=False).mu0_star ** 2


def test_measured_gradient_of_an_uncentred_teacher() -> None:
    """Squared norm of X^T y / n measured at .4470 for uncentred SoftPlus labels, psi1 = 5, noise .25."""
    theta = ba2022.theta("softplus", psi1=5.0, sigma_eps=0.25, centred=False)
    assert float(theta**2) == pytest.approx(0.4470, abs=1e-3)


def test_threshold() -> None:
    """erf, psi1 = 5, psi2 = 2: a singular value leaves the bulk exactly above the threshold."""
    threshold = float(ba2022.outlier("erf", "erf", eta=0, psi1=5, psi2=2, sigma_eps=0.1).threshold)
    overlap = ba2022.outlier(
        "erf", "erf", eta=[threshold * 0.999, threshold * 1.001], psi1=5, psi2=2, sigma_eps=0.1
    ).teacher_overlap
    assert overlap[0] == 0
    assert overlap[1] > 0


def test_student_risk_is_the_objective_of_5_1() -> None:
    tanh, target = scalar_function("tanh"), scalar_function("sin")

    def density(x: float) -> float:
        return float(np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi))

    # E (y - E s)^2 = E y^2 - 2 E y s(k x + z) + E s(k x + z) s(k x + z'); the last term is a function of x + z laws.
    kappa = 1.3
    cross = dblquad(
        lambda z, x: float(target(np.asarray(x)) * tanh(np.asarray(kappa * x + z))) * density(x) * density(z),
        -8,
        8,
        -8,
        8,
        epsabs=1e-9,
    )[0]
    size = np.sqrt(1 + kappa**2)
    overlap = kappa**2 / size**2
    pair = dblquad(
        lambda v, u: (
            float(tanh(np.asarray(size * u)) * tanh(np.asarray(size * (overlap * u + np.sqrt(1 - overlap**2) * v))))
            * density(u)
            * density(v)
        ),
        -8,
        8,
        -8,
        8,
        epsabs=1e-9,
    )[0]
    expected = (1 - np.exp(-2)) / 2 - 2 * cross + pair
    assert float(student_risk("tanh", "sin", kappa)) == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize(
    ("activation", "teacher", "kappa", "tau"),
    [
        ("tanh", "tanh", 1.588268, 9.453e-05),
        ("tanh", "erf", 1.879294, 6.417e-06),
        ("erf", "tanh", 1.464626, 1.464e-04),
        ("tanh", "relu", 0.962347, 9.664e-02),
        ("erf", "sin", 1.647196, 8.983e-03),
        ("erf", "linear", 2.019623, 1.575e-01),
    ],
)
def test_tau_star_against_an_independent_program(activation: str, teacher: str, kappa: float, tau: float) -> None:
    result = ba2022.tau_star(activation, teacher)
    assert result.kappa == pytest.approx(kappa, rel=2e-6)
    assert result.tau == pytest.approx(tau, rel=1e-3)


def test_tau_star_of_matching_erf_vanishes() -> None:
    r"""Corollary 8: :math:`E\,\mathrm{erf}(\kappa x+z)=\mathrm{erf}(\kappa x/\sqrt3)`."""
    result = ba2022.tau_star("erf", "erf")
    assert result.kappa == pytest.approx(np.sqrt(3), rel=1e-6)
    assert result.tau < 1e-12


def test_tau_star_at_infinity() -> None:
    result = ba2022.tau_star("erf", "sign")
    assert result.kappa == np.inf
    assert result.tau < 1e-9


def test_tau_star_of_an_even_teacher_is_at_zero() -> None:
    result = ba2022.tau_star("tanh", "H2")
    assert abs(result.kappa) < 1e-3
    assert result.tau == pytest.approx(float(student_risk("tanh", "H2", 0.0)), rel=1e-9)
