"""Spectra of the papers: their formulas against independent ones, and their figures end to end."""

from __future__ import annotations

import math
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gradstep as gs
from gradstep.gaussian import expectation, moments, scalar_function
from gradstep.papers import cui2024, moniri2024
from gradstep.papers.experiments import feature_spectra, spectra
from gradstep.papers.figure import load_figures
from gradstep.papers.outcome import Judged
from gradstep.simulation import Network
from gradstep.theory.spectra.feature_equations import FeatureEquations
from gradstep.theory.spectra.feature_spectrum import feature_spectrum
from gradstep.theory.spectra.stieltjes import Law, advance, start

CENTRED = "sin(1.2*x + 0.6) - 0.27484099773585186"


def spike(**changes: Any) -> dict[str, Any]:
    """Result 3.1 at eta~ = 1, alpha0 = 4."""
    model = cui2024.equivalent_srf("tanh", "tanh", eta_tilde=1.0, alpha0=4.0)
    return {"r": float(model.strength), "c": float(model.bulk_variance), "gamma": float(model.alignment), **changes}


# --- Cui et al. 2024 -----------------------------------------------------------------------------------------------


def test_law_of_cui_is_the_limit_of_the_uniform_one() -> None:
    case = gs.Problem.cui2024(
        alpha=2.0, alpha0=4.0, beta=1.5, eta_tilde=1.0, lam=0.1, d=10**5, activation="tanh", teacher="tanh"
    )
    limit = cui2024.spectral_law("tanh", "tanh", alpha=2.0, beta=1.5, **spike())
    uniform = feature_spectrum(case, rows="isotropic").bulk
    assert uniform.edge == pytest.approx(limit.edge, rel=1e-4)
    x = np.linspace(0.01, limit.edge, 9)
    np.testing.assert_allclose(uniform.cumulative(x), limit.cumulative(x), atol=1e-5)


def test_law_of_cui_solves_its_saddle_point() -> None:
    """Equations (189) in V_1, V_2 with lambda = -z, checked at the density's own V_2."""
    alpha, beta, z = 2.0, 1.5, 0.4 + 0.2j
    table = cui2024.equivalent_features("tanh", "tanh", **spike())
    c = spike()["c"]
    equations = FeatureEquations(
        table.nodes,
        table.mean[None],
        table.slope[None],
        table.variance[None],
        table.weights,
        np.array([beta]),
        1.0,
        alpha,
    )
    point = advance(equations, start(equations, 1e3j), z)
    # Their matrix is Phi^T Phi / p = (n / p) times ours.
    ratio = alpha / beta
    v2 = equations.transform(point.state, point.tangent)[0] / ratio
    mu1, noise = table.slope / math.sqrt(c), table.variance
    v1 = 0j
    for _ in range(500):
        weight = ratio * table.weights / (1 + mu1**2 * v1 + noise * v2)
        v1_hat = weight @ mu1**2
        v1 = c * v2 / (1 + beta * c * v1_hat * v2)
    v2_hat = weight @ noise
    expected = 1 / (-z * ratio + v2_hat + c * v1_hat / (1 + beta * c * v1_hat * v2))
    assert v2 == pytest.approx(expected, rel=1e-9)


def test_outlier_of_cui_with_its_terms_of_order_one() -> None:
    """The corrected outlier agrees with the uniform solver to O(1/p), the published one to O(1)."""
    for d in (400, 1600):
        case = gs.Problem.cui2024(
            alpha=2.0, alpha0=4.0, beta=1.5, eta_tilde=1.0, lam=0.1, d=d, activation="tanh", teacher="tanh"
        )
        exact = feature_spectrum(case, rows="isotropic").outliers[0].eigenvalue
        sizes: dict[str, Any] = {**spike(), "p": 1.5 * d, "n": 2 * d, "d": d}
        published = float(cui2024.outlier("tanh", "tanh", published=True, **sizes))
        corrected = float(cui2024.outlier("tanh", "tanh", **sizes))
        assert abs(exact - published) > 0.5
        assert abs(exact - corrected) < 6 / d


@pytest.mark.statistical
def test_outlier_of_cui_against_the_network() -> None:
    case = gs.Problem.cui2024(
        alpha=2.0, alpha0=4.0, beta=1.0, eta_tilde=1.0, lam=0.1, d=200, activation="tanh", teacher="tanh"
    )
    values = [Network(case, seed).feature_spectrum(leading=1).leading[0].eigenvalue for seed in range(24)]
    theory = float(cui2024.outlier("tanh", "tanh", p=200, n=400, d=200, **spike()))
    assert abs(Judged.at(theory, values, curve="", place=0).z) < 4


# --- Moniri et al. 2024 --------------------------------------------------------------------------------------------


def test_published_spikes_are_powers_of_the_spike() -> None:
    rng = np.random.default_rng(1)
    x, a = rng.standard_normal(7), rng.standard_normal(5) / math.sqrt(5)
    terms = moniri2024.spikes(CENTRED, x, a, eta=1.7, order=3)
    function = scalar_function(CENTRED)
    polynomials = (lambda z: z, lambda z: z**2 - 1, lambda z: z**3 - 3 * z)
    c = [
        float(np.asarray(expectation(lambda z, h=h: function(z) * h(z)).value)) / math.factorial(k + 1)
        for k, h in enumerate(polynomials)
    ]
    for k in range(3):
        expected = c[0] ** (k + 1) * c[k] * 1.7 ** (k + 1) * np.outer(x ** (k + 1), a ** (k + 1))
        np.testing.assert_allclose(np.outer(terms.left[:, k], terms.right[:, k]), expected, atol=1e-12)
        assert terms.norms[k] == pytest.approx(np.linalg.norm(expected, 2))


def test_corrected_spikes_average_over_the_rest() -> None:
    """E_u sigma(z + x a + sqrt(rest) a u), projected on constants in z: Taylor terms, from draws of u."""
    rng = np.random.default_rng(2)
    x, a, rest = np.array([0.3, -1.1]), np.array([1.0]), 0.8
    terms = moniri2024.spikes(CENTRED, x, a, eta=1.0, order=3, rest=rest)
    c1 = moments(scalar_function(CENTRED)).linear
    u = rng.standard_normal(400_000)
    published = moniri2024.spikes(CENTRED, c1 * x / c1, a, eta=1.0, order=3)
    for k in range(3):
        constant = published.left[0, k] / (c1 * x[0]) ** (k + 1)
        for i in range(2):
            draws = constant * (c1 * x[i] + math.sqrt(rest) * u) ** (k + 1)
            error = draws.std() / math.sqrt(len(u))
            assert abs(terms.left[i, k] - draws.mean()) < 4 * error


@pytest.mark.parametrize("rest", [0.0, 0.3])
def test_sizes_of_the_spikes_are_those_of_large_draws(rest: float) -> None:
    rng = np.random.default_rng(3)
    n, width, norm, eta = 200_000, 200_000, 1.3, 40.0
    x, a = norm * rng.standard_normal(n), rng.standard_normal(width) / math.sqrt(width)
    measured = moniri2024.spikes(CENTRED, x, a, eta=eta, order=3, rest=rest * eta**2).norms
    sizes = moniri2024.spike_sizes(CENTRED, eta=eta, gradient_norm=norm, order=3, n=n, width=width, rest=rest * eta**2)
    np.testing.assert_allclose(measured, sizes, rtol=0.05)


def test_sizes_grow_with_the_exponent_of_the_paper() -> None:
    n, alpha = np.array([1e3, 1e6]), 0.3
    sizes = moniri2024.spike_sizes(CENTRED, eta=n**alpha, gradient_norm=1.0, order=4, n=n, width=n)
    exponent = np.log(sizes[:, 1] / sizes[:, 0]) / np.log(1e3)
    np.testing.assert_allclose(exponent, (alpha - 0.5) * np.arange(1, 5) + 1, atol=1e-9)


def test_gaussian_equivalent_has_the_second_moments_of_the_features() -> None:
    rng = np.random.default_rng(4)
    inputs, rows = rng.standard_normal((40_000, 20)), rng.standard_normal((3, 20))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    equivalent = moniri2024.gaussian_equivalent(CENTRED, inputs, rows, rng)
    student = moments(scalar_function(CENTRED))
    expected = student.linear**2 * rows @ rows.T + student.nonlinear_second_moment * np.eye(3)
    np.testing.assert_allclose(equivalent.T @ equivalent / len(inputs), expected, atol=0.02)


# --- what figures judge by -----------------------------------------------------------------------------------------


def _law_and_quantiles(eta: float, count: int) -> tuple[Law, np.ndarray]:
    case = gs.Problem(activation="tanh", teacher="sin", d=200, width=150, n_step=400, n=400, eta=eta, ridge=1.0)
    law = feature_spectrum(case).bulk
    grid = np.linspace(0, law.edge, 20_001)
    return law, np.interp((np.arange(count) + 0.5) / count, law.cumulative(grid), grid)


def test_displaced_counts_the_places_between_eigenvalues_and_their_law() -> None:
    law, quantiles = _law_and_quantiles(0.0, 150)
    assert spectra.displaced(law, quantiles[None]) < 0.1
    moved = quantiles.copy()
    moved[:7] = 2 * law.edge
    assert spectra.displaced(law, moved[None]) == pytest.approx(7, abs=0.1)
    # Every other one of the pooled eigenvalues has moved; they are half a place apart.
    both = np.stack([quantiles, moved])
    assert spectra.displaced(law, both) == pytest.approx(3.5, abs=0.3)


def test_eigenvalues_are_placed_by_their_own_law_and_not_by_another() -> None:
    law, quantiles = _law_and_quantiles(0.0, 150)
    other, _ = _law_and_quantiles(30.0, 150)
    own = spectra.placed("here", law, other, quantiles[None], 3.0)
    assert [check.passed for check in own] == [True, True]
    swapped = spectra.placed("here", other, law, quantiles[None], 3.0)
    assert [check.passed for check in swapped] == [False, False]


def test_outliers_are_counted_in_every_window(monkeypatch) -> None:
    """Spectra with as many outliers as the windows say, or one more in one of them."""
    figure = load_figures(["feature_spectrum"])[0]
    wanted = figure.settings["counted"]
    experiment = feature_spectra.FeatureSpectra(figure.name, figure.settings, {"sizes": {"n": 400}})
    known = dict(zip(wanted["at"], wanted["expected"], strict=True))
    monkeypatch.setattr(feature_spectra.FeatureSpectra, "problem", lambda self, x, **sizes: x)
    for more in (0, 1):
        last = max(known)
        counts = {**known, last: known[last] + more}
        spectra_found = {x: SimpleNamespace(outliers=range(count)) for x, count in counts.items()}
        monkeypatch.setattr(feature_spectra, "feature_spectrum", spectra_found.__getitem__)
        found = experiment.counted(spectra_found)
        (panel,), (check,) = found.panels, found.checks
        assert check.passed == (more == 0)
        xs, counted = list(counts), list(counts.values())
        middles = [(x + y) / 2 for x, y in pairwise(xs) for _ in range(2)]
        for line in panel.lines:
            assert list(line.x) == pytest.approx([xs[0], *middles, xs[-1]])
            assert list(line.y) == [count for count in counted for _ in range(2)]


@pytest.mark.statistical
def test_every_window_has_its_number_of_outliers_once_n_is_large() -> None:
    figure = load_figures(["feature_spectrum"])[0]
    case = gs.Problem.from_dict({**figure.settings["base"], "n": 400, "alpha": 0.0})
    spectra_found = {alpha: feature_spectrum(case.replace(eta=400**alpha)) for alpha in (0.05, 0.4)}
    experiment = feature_spectra.FeatureSpectra(figure.name, figure.settings, {"sizes": {"n": 400}})
    found = experiment.counted(spectra_found)
    (panel,), (check,) = found.panels, found.checks
    assert check.passed
    near, far = panel.lines
    assert list(near.x) == pytest.approx([0.05, 0.225, 0.225, 0.4])
    assert list(near.y) == [0, 0, 2, 2]
    assert far.y[0] >= 1
    assert far.y[-1] >= 4
