"""Random features in the proportional limit: identities, limits, drawn models and the measured network."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradstep.errors import InvalidInput, NotConverged
from gradstep.papers.ba2022 import coefficients, initialisation, random_features


def test_self_consistent_equations_hold_over_the_whole_range(of: Any, random_settings: Any) -> None:
    given_ = random_settings(1)
    result = random_features(**of(given_))
    m1, m2, lam = result.m1, result.m2, given_["lam"]
    phi, psi = 1 / given_["psi1"], 1 / given_["psi2"]
    a, b = given_["mu1"] ** 2, given_["mu2_squared"]
    rho = given_["psi1"] / given_["psi2"]
    s = 1 / (1 + rho * (b * m1 + a * m2))
    np.testing.assert_allclose(m2 * (1 + s * a * given_["psi1"] * m1), m1, rtol=1e-10)
    np.testing.assert_allclose(lam * rho * m1 + s * (b * m1 + a * m2), 1, rtol=1e-10)
    assert result.residual.max() <= 1e-10
    # The form with phi = d/n, psi = d/N, in which the scale of each equation is that of its largest term.
    product = a * m1 * m2 * (lam * psi * m1 / phi - 1)
    first = phi * (m1 - m2) * (b * m1 + a * m2)
    second = phi / psi * (a * m1 * m2 + phi * (m2 - m1))
    rounding = 1e-13 * phi * m1 * (b * m1 + a * m2)
    assert (np.abs(first + product) <= 1e-8 * np.abs(product) + rounding).all()
    rounding = 1e-13 * phi / psi * (a * m1 * m2 + phi * m1)
    assert (np.abs(second + product) <= 1e-8 * np.abs(product) + rounding).all()


def test_generalised_cross_validation_links_test_and_training_error(of: Any, random_settings: Any) -> None:
    given_ = random_settings(2)
    result = random_features(**of(given_))
    leverage = given_["lam"] * given_["psi1"] / given_["psi2"] * result.m1
    np.testing.assert_allclose(
        result.test_error + given_["sigma_eps"] ** 2, result.train_error / leverage**2, rtol=1e-9
    )
    np.testing.assert_allclose(result.degrees_of_freedom_per_sample, 1 - leverage, atol=1e-9)


def test_test_error_in_terms_of_the_traces(of: Any, random_settings: Any) -> None:
    """Ba et al. through m1 and m2: an expression with no factor in common with the one implemented."""
    given_ = random_settings(3)
    result = random_features(**of(given_))
    effective_noise = given_["mu2_star_squared"] + given_["sigma_eps"] ** 2
    expected = -(effective_noise * result.m1_slope + given_["mu1_star"] ** 2 * result.m2_slope) / result.m1**2
    np.testing.assert_allclose(result.test_error + given_["sigma_eps"] ** 2, expected, rtol=1e-9)


def test_derivatives_match_finite_differences(of: Any, random_settings: Any) -> None:
    base = random_settings(4, 60) | {"lam": 10 ** np.random.default_rng(5).uniform(-3, 3, 60)}
    step = 1e-5
    centre = random_features(**of(base))
    up = random_features(**of(base | {"lam": base["lam"] * (1 + step)}))
    down = random_features(**of(base | {"lam": base["lam"] * (1 - step)}))
    change = 2 * step * base["lam"]
    zeta_change = change * base["psi1"] / base["psi2"]
    slope = (up.kappa - down.kappa) / change
    np.testing.assert_allclose(slope, centre.kappa_slope, rtol=1e-5)
    np.testing.assert_allclose((up.m1 - down.m1) / zeta_change, centre.m1_slope, rtol=1e-5)
    np.testing.assert_allclose((up.m2 - down.m2) / zeta_change, centre.m2_slope, rtol=1e-5)
    # Envelope theorem: the derivative of the minimum is the squared norm of the readout.
    np.testing.assert_allclose(
        (up.train_loss - down.train_loss) / change,
        (centre.train_loss - centre.train_error) / base["lam"],
        rtol=1e-4,
        atol=1e-11,
    )


def test_infinite_penalty_predicts_zero() -> None:
    result = random_features(coefficients("tanh", "softplus", centred=False), psi1=2, psi2=3, lam=1e10, sigma_eps=0.3)
    size = float(coefficients("tanh", "softplus", centred=False).second_moment)
    assert float(result.test_error) == pytest.approx(size, rel=1e-8)
    assert float(result.train_error) == pytest.approx(size + 0.09, rel=1e-8)
    assert float(result.degrees_of_freedom_per_sample) < 1e-9


def test_wide_linear_network_is_ridge_on_the_input(of: Any) -> None:
    psi1, noise, linear, unlearned = np.array([0.3, 1.0, 4.0]), 0.4, 0.8, 0.2
    ridge, width = np.array([[1e-2], [1.0], [30.0]]), 1e8
    result = random_features(
        **of(
            psi1=psi1,
            psi2=width,
            lam=ridge * width,
            mu1=1.0,
            mu2_squared=0.0,
            mu1_star=linear,
            mu2_star_squared=unlearned,
            sigma_eps=noise,
        )
    )
    b = 1 - ridge - 1 / psi1
    k = (-b + np.sqrt(b**2 + 4 * ridge)) / 2
    np.testing.assert_allclose(k * (1 - 1 / (psi1 * (1 + k))) / ridge, 1, rtol=1e-9)
    expected = (linear**2 * k**2 / (1 + k) ** 2 + unlearned + noise**2) / (1 - 1 / (psi1 * (1 + k) ** 2))
    np.testing.assert_allclose(result.test_error, expected - noise**2, rtol=1e-6)


@settings(max_examples=100)
@given(st.floats(-2, 2), st.floats(-2, 2), st.floats(-10, 10), st.floats(0, 2), st.floats(0, 2), st.floats(0, 1))
def test_no_setting_beats_the_best_linear_predictor(
    of: Any, samples: float, width: float, penalty: float, linear: float, unlearned: float, noise: float
) -> None:
    result = random_features(
        **of(
            psi1=10**samples,
            psi2=10**width,
            lam=10**penalty,
            mu1=0.6,
            mu2_squared=0.03,
            mu1_star=linear,
            mu2_star_squared=unlearned,
            sigma_eps=noise,
        )
    )
    assert result.test_error >= unlearned
    assert 0 <= result.train_error <= result.train_loss
    assert result.kappa >= 10**penalty * (1 - 1e-12)


@pytest.mark.parametrize(("psi1", "psi2", "lam"), [(3.0, 2.0, 1e-3), (0.7, 2.0, 1e-2), (2.0, 0.5, 1e-1)])
def test_drawn_linear_equivalents(of: Any, psi1: float, psi2: float, lam: float) -> None:
    """Fits on drawn features mu1 W x + mu2 z, with the exact risk of each fit."""
    d, mu1, mu2, linear, unlearned, noise = 160, 0.7, 0.4, 0.8, 0.15, 0.3
    n, width = round(psi1 * d), round(psi2 * d)
    generator = np.random.default_rng(11)
    measured = []
    for _ in range(24):
        weights = generator.standard_normal((d, width)) / np.sqrt(d)
        inputs = generator.standard_normal((n, d))
        features = mu1 * inputs @ weights + mu2 * generator.standard_normal((n, width))
        labels = linear * inputs[:, 0] + np.sqrt(unlearned + noise**2) * generator.standard_normal(n)
        readout = np.linalg.solve(features.T @ features + lam * n * np.eye(width), features.T @ labels)
        teacher = linear * np.eye(d)[0] - mu1 * weights @ readout
        risk = teacher @ teacher + mu2**2 * readout @ readout + unlearned
        measured.append([risk, np.mean((labels - features @ readout) ** 2)])
    values = np.array(measured)
    result = random_features(
        **of(
            psi1=psi1,
            psi2=psi2,
            lam=lam,
            mu1=mu1,
            mu2_squared=mu2**2,
            mu1_star=linear,
            mu2_star_squared=unlearned,
            sigma_eps=noise,
        )
    )
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    scores = (values.mean(axis=0) - [result.test_error, result.train_error]) / error
    assert np.abs(scores).max() < 4


def test_measured_networks() -> None:
    """Test errors measured on real networks of d = 512, N = 1024 (tanh) by Monte Carlo, 50 draws each."""
    ratios = np.array([0.5, 1, 3, 5, 8, 2])
    measured = np.array([0.2782, 0.3145, 0.2326, 0.1039, 0.0713, 1.1547])
    error = np.array([0.0022, 0.0038, 0.0021, 0.0006, 0.0003, 0.0174])
    # The teacher was centred.
    result = random_features(coefficients("tanh", "softplus"), psi1=ratios, psi2=2, lam=1e-4, sigma_eps=0.25)
    assert np.abs((measured - result.test_error) / error).max() < 4


def test_mean_of_the_teacher_is_learned_only_by_an_activation_with_a_mean() -> None:
    odd, shifted = (coefficients(name, "relu", centred=False) for name in ("tanh", "softplus"))
    assert float(odd.unlearned - shifted.unlearned) == pytest.approx(1 / (2 * np.pi), rel=1e-9)
    assert float(shifted.unlearned) == pytest.approx(1 / 4 - 1 / (2 * np.pi), rel=1e-9)


def test_arguments_broadcast() -> None:
    result = random_features(coefficients("erf", "erf"), psi1=np.ones((3, 1)), psi2=np.ones(2), lam=0.1, sigma_eps=0.1)
    assert result.test_error.shape == (3, 2)
    assert result.residual.shape == (3, 2)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"psi1": 0.0}, "psi1"),
        ({"psi2": -1.0}, "psi2"),
        ({"lam": 0.0}, "lam"),
        ({"sigma_eps": np.nan}, "sigma_eps"),
        ({"mu2_squared": -1.0}, "mu2_squared"),
        ({"mu1": 0.0, "mu2_squared": 0.0}, "sigma"),
    ],
)
def test_unusable_arguments_are_named(of: Any, random_settings: Any, change: dict[str, float], field: str) -> None:
    arguments = {key: float(value[0]) for key, value in random_settings(6, 1).items()}
    with pytest.raises(InvalidInput) as caught:
        random_features(**of(arguments | change))
    assert caught.value.field == field


def test_failure_is_raised(of: Any, random_settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(initialisation, "MAXIMUM_ITERATIONS", 1)
    with pytest.raises(NotConverged, match="random features"):
        random_features(**of(random_settings(7)))
