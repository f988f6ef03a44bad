"""Drawn models of Cui et al. 2024, the functions they learn, biases: identities and statistics."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gradstep import Problem, simulate
from gradstep.errors import InvalidInput
from gradstep.gaussian import gaussian_rule, scalar_function
from gradstep.papers import cui2024
from gradstep.papers.cui2024.bias import biased_lower_bound, biased_statistics, trained_bias
from gradstep.papers.cui2024.bounds import realised_functions
from gradstep.papers.cui2024.drawn import (
    equivalent_fit,
    fit,
    network_of,
    sampled_error,
    spiked_layer,
    stepped_layer,
)
from gradstep.papers.cui2024.experiments.learned import conditional_mean
from gradstep.simulation.instance import TEACHER_AXIS

SPIKE = {"r": 1.5, "c": 1.2, "gamma": 0.8}
ERF, TANH, SIN = (scalar_function(name) for name in ("erf", "tanh", "sin"))
STATISTICS = (
    "test_error",
    "train_error",
    "readout_mean",
    "bulk_overlap",
    "teacher_overlap",
    "bulk_norm",
    "readout_norm",
)


def test_spiked_layer_has_the_bulk_and_the_spike() -> None:
    for orthogonal in (False, True):
        layer = spiked_layer(3, 60, 90, **SPIKE, orthogonal=orthogonal)
        bulk = layer.weights - SPIKE["r"] * layer.direction
        np.testing.assert_allclose((bulk**2).sum(axis=1), SPIKE["c"])
        assert layer.direction[0] == pytest.approx(SPIKE["gamma"])
        assert layer.direction @ layer.direction == pytest.approx(1)
        if orthogonal:
            np.testing.assert_allclose(bulk @ bulk.T, SPIKE["c"] * np.eye(60), atol=1e-12)
    with pytest.raises(InvalidInput, match="width"):
        spiked_layer(0, 20, 10, **SPIKE, orthogonal=True)


def test_several_spikes_are_orthonormal_with_their_alignments() -> None:
    plain = spiked_layer(1, 3, 40, r=np.zeros((3, 2)), c=1.0, gamma=[0.6, -0.5])
    layer = spiked_layer(1, 3, 40, r=np.eye(3)[:, :2], c=1.0, gamma=[0.6, -0.5])
    spikes = layer.weights - plain.weights
    np.testing.assert_allclose(spikes @ spikes.T, np.diag([1.0, 1.0, 0.0]), atol=1e-12)
    np.testing.assert_allclose(spikes[:, 0], [0.6, -0.5, 0.0], atol=1e-12)


@pytest.mark.parametrize("alpha0", [0.0, 2.0])
def test_stepped_layer_is_the_network_of_the_simulation(alpha0: float) -> None:
    problem = Problem.cui2024(
        alpha=1.5, alpha0=alpha0, beta=0.8, eta_tilde=1.5, lam=0.1, d=50, activation="erf", teacher="sin", noise=0.2
    )
    expected = simulate(problem, seeds=[5])
    layer = stepped_layer(problem, 5)
    found = fit(layer, ERF, SIN, n=75, lam=0.1, seed=5, sigma_eps=0.2)
    assert found.test_error == pytest.approx(float(expected["test_error"][0]), rel=1e-9)
    assert found.train_error == pytest.approx(float(expected["train_error"][0]), rel=1e-9)
    loss = float(network_of(layer, ERF, SIN, n=75, lam=0.1, seed=5, sigma_eps=0.2).fit().train_loss[0])
    assert loss == pytest.approx(float(expected["train_loss"][0]), rel=1e-9)
    strength = float(expected["spike_strength"][0]) / math.sqrt(40)
    assert float(np.abs(layer.spike[0])) == pytest.approx(strength, rel=1e-9, abs=1e-12)


def test_summary_statistics_are_those_of_what_the_readout_sees_of_the_bulk() -> None:
    """After a step the bulk has a part along the spike: it is the overlap, and not in the norm."""
    sizes = {"d": 30, "width": 40, "n_step": 60, "n": 60}
    layer = stepped_layer(Problem(activation="tanh", teacher="sin", **sizes, eta=8.0, ridge=1.0), 1)
    found = fit(layer, "tanh", "sin", n=80, lam=0.1, seed=1)
    seen = found.readout @ (layer.weights - np.outer(layer.spike, layer.direction))
    rest = np.eye(30)[TEACHER_AXIS] - layer.direction[TEACHER_AXIS] * layer.direction
    across = seen - seen @ layer.direction * layer.direction
    assert found.bulk_overlap == pytest.approx(seen @ layer.direction, rel=1e-10)
    assert found.teacher_overlap == pytest.approx(seen @ rest / np.linalg.norm(rest), rel=1e-10)
    assert found.bulk_norm == pytest.approx(across @ across, rel=1e-10)
    assert found.bulk_overlap**2 > 1e-3 * found.bulk_norm  # or the two could not be told apart


def test_sampled_error_is_the_exact_one_on_average() -> None:
    layer = spiked_layer(2, 40, 50, **SPIKE)
    settings = {"n": 100, "lam": 0.1, "seed": 2}
    exact = fit(layer, ERF, SIN, **settings)
    test_error, train_error = sampled_error(layer, ERF, SIN, test_samples=100_000, biases=np.zeros(40), **settings)
    assert train_error == pytest.approx(exact.train_error, rel=1e-9)
    assert test_error == pytest.approx(exact.test_error, rel=0.02)
    shifted = sampled_error(layer, ERF, SIN, test_samples=100_000, biases=np.full(40, 0.4), **settings)
    exact = fit(layer, scalar_function("erf(x + 0.4)"), SIN, **settings)
    assert shifted[1] == pytest.approx(exact.train_error, rel=1e-9)
    assert shifted[0] == pytest.approx(exact.test_error, rel=0.02)


def statistics_of(d: int, seeds: int, *, equivalent: bool) -> np.ndarray:
    settings = {"n": 2 * d, "lam": 0.1, "sigma_eps": 0.3}
    rows = []
    for seed in range(seeds):
        if equivalent:
            found = equivalent_fit(seed, ERF, SIN, width=d, d=d, **SPIKE, **settings)
        else:
            found = fit(spiked_layer(seed, d, d, **SPIKE), ERF, SIN, seed=seed, **settings)
        rows.append([getattr(found, name) for name in STATISTICS])
    return np.array(rows)


@pytest.mark.parametrize("equivalent", [False, True], ids=["srf", "equivalent"])
def test_result_33_against_drawn_models(equivalent: bool) -> None:
    """Results 3.2 and 3.3: errors and all summary statistics, extrapolated in 1/d from two sizes."""
    theory = biased_statistics("erf", "sin", **SPIKE, b=0.0, alpha=2.0, lam=0.1, sigma_eps=0.3)
    small, large = (statistics_of(d, seeds, equivalent=equivalent) for d, seeds in ((80, 60), (160, 40)))
    expected = np.array([float(getattr(theory, name)) for name in STATISTICS])
    mean = 2 * large.mean(axis=0) - small.mean(axis=0)
    error = np.hypot(2 * large.std(axis=0, ddof=1) / math.sqrt(40), small.std(axis=0, ddof=1) / math.sqrt(60))
    assert np.abs((mean - expected) / error).max() < 4


@pytest.mark.statistical
def test_equivalent_features_have_the_error_of_the_network() -> None:
    """Result 3.2 for the real network, within the 8 per cent that the structure of its bulk is known to cost."""
    settings = {"alpha": 2.0, "alpha0": 4.0, "beta": 1.0, "eta_tilde": 2.0, "lam": 0.1}
    d, sigma = 300, {"activation": "erf", "teacher": "sin"}
    problem = Problem.cui2024(d=d, **settings, **sigma)
    network = simulate(problem, seeds=40)
    spike = cui2024.equivalent_srf("erf", "sin", eta_tilde=2.0, alpha0=4.0)
    values = {"r": float(spike.strength), "c": float(spike.bulk_variance), "gamma": float(spike.alignment)}
    drawn = [equivalent_fit(seed, ERF, SIN, width=d, d=d, **values, n=2 * d, lam=0.1).test_error for seed in range(40)]
    gap = float(network.mean("test_error")) - np.mean(drawn)
    error = math.hypot(float(network.standard_error("test_error")), np.std(drawn, ddof=1) / math.sqrt(40))
    assert abs(gap) < 0.08 * np.mean(drawn) + 4 * error


def solution(alpha0: float) -> cui2024.SummaryStatistics:
    return cui2024.summary_statistics("tanh", "sin", eta_tilde=2.0, alpha0=alpha0, alpha=3.0, lam=0.1, beta=1.2)


@pytest.mark.parametrize("alpha0", [0.0, 0.5, 4.0, math.inf])
def test_function_along_the_target_is_an_average_along_the_spike(alpha0: float) -> None:
    """kappa and zeta given t by a quadrature, in place of Stein's lemma."""
    statistics = solution(alpha0)
    spike = statistics.spike
    gamma, c, r = (float(value) for value in (spike.alignment, spike.bulk_variance, spike.strength))
    rho = math.sqrt(max(1 - gamma**2, 0.0))
    z, weights = gaussian_rule(resolution=0.5)
    for t in (-1.7, 0.4, 2.5):
        kappa, zeta = gamma * t + rho * z, rho * t - gamma * z
        # mu_1 from a difference of mu_0 in its argument.
        table = [
            cui2024.learned_function("tanh", statistics, kappa),
            (mean_feature(r * kappa + 1e-4, c) - mean_feature(r * kappa - 1e-4, c)) / 2e-4,
        ]
        expected = weights @ (table[0] + float(statistics.teacher_overlap) * zeta * table[1])
        assert float(cui2024.learned_along_target("tanh", statistics, t)) == pytest.approx(float(expected), abs=1e-7)


def mean_feature(centre: np.ndarray, variance: float) -> np.ndarray:
    z, weights = gaussian_rule(resolution=0.5)
    return np.asarray(np.tanh(centre[:, None] + math.sqrt(variance) * z) @ weights)


def test_without_a_step_the_learned_function_is_a_line() -> None:
    """Figure 1: random features."""
    t = np.linspace(-3, 3, 7)
    learned = cui2024.learned_along_target("tanh", solution(0.0), t)
    np.testing.assert_allclose(learned, learned[-1] / 3 * t, atol=1e-10)
    stepped = cui2024.learned_along_target("tanh", solution(4.0), [1.0, 3.0])
    assert stepped[1] < 0.8 * 3 * stepped[0]


def test_conditional_mean_of_a_drawn_network() -> None:
    """Against fresh inputs whose projection on the direction is fixed."""
    problem = Problem.cui2024(alpha=1.0, alpha0=2.0, eta_tilde=2.0, lam=0.1, d=40, activation="tanh", teacher="sin")
    layer = stepped_layer(problem, 1)
    readout = fit(layer, TANH, SIN, n=40, lam=0.1, seed=1).readout
    points = np.array([-1.0, 2.0])
    found = conditional_mean(layer, readout, TANH, layer.direction, points)
    x = np.random.default_rng(0).standard_normal((100_000, 40))
    x -= (x @ layer.direction)[:, None] * layer.direction
    for t, value in zip(points, found, strict=True):
        outputs = np.tanh((x + t * layer.direction) @ layer.weights.T) @ readout
        assert abs(outputs.mean() - value) < 4 * outputs.std() / math.sqrt(len(x))


@pytest.mark.parametrize("gamma", [1.0, 0.7])
def test_realised_functions_have_the_errors_of_the_bounds(gamma: float) -> None:
    r, c = 1.8, 1.3
    z, weights = gaussian_rule(resolution=0.5)
    table = realised_functions("tanh", "sin", r=r, c=c, gamma=gamma, kappa=z)
    rho = math.sqrt(1 - gamma**2)
    target = np.exp(-(rho**2) / 2) * np.sin(gamma * z)
    second_moment = (1 - math.exp(-2)) / 2
    rest = second_moment - weights @ target**2
    upper = weights @ (table.upper - target) ** 2 + rest
    assert float(cui2024.upper_bound("tanh", "sin", r=r, c=c, gamma=gamma)) == pytest.approx(float(upper), rel=1e-9)
    if gamma == 1:
        lower = weights @ (table.lower - target) ** 2
        assert float(cui2024.lower_bound("tanh", "sin", r=r, c=c)) == pytest.approx(float(lower), rel=1e-9)


def test_functions_of_the_bounds_are_limits_of_what_is_learned() -> None:
    """Infinite penalty; and many samples for very many neurons."""
    kappa = np.linspace(-2.5, 2.5, 6)
    settings = {"eta_tilde": 3.0, "alpha0": math.inf}
    stiff = cui2024.summary_statistics("tanh", "sin", alpha=2.0, lam=1e9, **settings)
    rich = cui2024.summary_statistics("tanh", "sin", alpha=1e7, lam=1e-10, beta=1e3, **settings)
    found = realised_functions("tanh", "sin", r=float(stiff.spike.strength), kappa=kappa)
    np.testing.assert_allclose(cui2024.learned_function("tanh", stiff, kappa), found.upper, atol=1e-7)
    np.testing.assert_allclose(cui2024.learned_function("tanh", rich, kappa), found.lower, atol=5e-3)


FIT = {"alpha": 2.0, "lam": 0.1, "beta": 0.7, "sigma_eps": 0.2}


def test_a_bias_moves_an_odd_problem_to_its_mirror_image() -> None:
    forward = biased_statistics("tanh", "tanh(2*x + 1)", **SPIKE, b=[0.3, 1.1], **FIT)
    mirrored = biased_statistics("tanh", "-tanh(1 - 2*x)", **SPIKE, b=[-0.3, -1.1], **FIT)
    np.testing.assert_allclose(forward.test_error, mirrored.test_error, rtol=1e-9)
    np.testing.assert_allclose(forward.train_loss, mirrored.train_loss, rtol=1e-9)


def test_a_bias_is_an_activation_that_is_shifted() -> None:
    given = biased_statistics("tanh", "relu", **SPIKE, b=0.6, **FIT)
    shifted = biased_statistics("tanh(x + 0.6)", "relu", **SPIKE, b=0.0, **FIT)
    assert float(given.test_error) == pytest.approx(float(shifted.test_error), rel=1e-9)


def test_trained_bias_is_the_global_minimum_of_the_training_loss() -> None:
    problem = {"sigma": "tanh", "sigma_star": "tanh(2*x + 1)", **SPIKE, **FIT}
    best = trained_bias(**problem)
    grid = np.linspace(-4, 4, 801)
    loss = biased_statistics(**problem, b=grid).train_loss
    assert best.train_loss <= loss.min() + 1e-12
    assert abs(best.bias - grid[np.argmin(loss)]) <= 0.01
    assert best.bias == best.minima[0]
    step = 1e-3
    around = biased_statistics(**problem, b=best.bias + step * np.array([-1, 0, 1])).train_loss
    assert abs(around[2] - around[0]) / (2 * step) < 1e-4
    assert around[0] + around[2] > 2 * around[1]


def test_an_odd_problem_needs_no_bias() -> None:
    """Its loss is even in b; here b = 0 is the minimum."""
    best = trained_bias("tanh", "tanh", r=1.0, c=1.0, gamma=1.0, alpha=3.0, lam=0.1)
    assert abs(best.bias) < 1e-5
    bound, bias = biased_lower_bound("tanh", "tanh", r=1.0)
    assert bound <= float(cui2024.lower_bound("tanh", "tanh", r=1.0)) + 1e-12
    mirrored = float(cui2024.lower_bound("tanh", "tanh", r=1.0, b=-bias))
    assert mirrored == pytest.approx(bound, rel=1e-6, abs=1e-12)


def test_bound_with_the_best_bias() -> None:
    """A target that is the mean feature at some bias: (132) finds it and vanishes, (27) does not."""
    target = "erf(0.8*x + 0.5)"
    # E erf(r kappa + b + z) = erf((r kappa + b) / sqrt 3).
    bound, bias = biased_lower_bound("erf", target, r=0.8 * math.sqrt(3))
    assert bias == pytest.approx(0.5 * math.sqrt(3), abs=1e-3)
    assert bound < 1e-6
    assert float(cui2024.lower_bound("erf", target, r=0.8 * math.sqrt(3))) > 0.05


def test_fitted_bias_of_a_drawn_model() -> None:
    """Training losses of drawn models with a bias, extrapolated in 1/d; noise in the labels."""
    theory = biased_statistics("tanh", "tanh(2*x + 1)", **SPIKE, b=0.9, **FIT)
    teacher, shifted = scalar_function("tanh(2*x + 1)"), scalar_function("tanh(x + 0.9)")
    values = []
    for seed in range(60):
        losses = [
            float(
                network_of(
                    spiked_layer(seed, round(0.7 * d), d, **SPIKE),
                    shifted,
                    teacher,
                    n=2 * d,
                    lam=0.1,
                    seed=seed,
                    sigma_eps=0.2,
                )
                .fit()
                .train_loss[0]
            )
            for d in (60, 120)
        ]
        values.append(2 * losses[1] - losses[0])
    z = (np.mean(values) - float(theory.train_loss)) / (np.std(values, ddof=1) / math.sqrt(len(values)))
    assert abs(z) < 4


def test_unusable_arguments_are_named() -> None:
    with pytest.raises(InvalidInput, match="largest"):
        trained_bias("tanh", "sin", **SPIKE, **FIT, largest=-1.0)
    with pytest.raises(InvalidInput, match="lam"):
        biased_statistics("tanh", "sin", **SPIKE, b=0.0, alpha=1.0, lam=-1.0)
    with pytest.raises(InvalidInput, match="largest"):
        biased_lower_bound("tanh", "sin", r=1.0, largest=-1.0)
    spike = {"r": 1.0, "c": 1.0, "gamma": 0.8}
    with pytest.raises(InvalidInput, match="c:"):
        realised_functions("tanh", "sin", **(spike | {"c": 0.0}), kappa=0.3)
    for name, value in [("r", -1.0), ("c", 0.0), ("alpha", 0.0), ("alpha", np.nan), ("beta", 0.0)]:
        with pytest.raises(InvalidInput, match=f"{name}:"):
            cui2024.spectral_law("tanh", "sin", **(spike | {"alpha": 1.5} | {name: value}))
    sizes = {"p": 100, "n": 100, "d": 100}
    for name, value in [("p", np.inf), ("n", 0.0), ("d", np.nan), ("r", 0.0)]:
        with pytest.raises(InvalidInput, match=f"{name}:"):
            cui2024.outlier("tanh", "sin", **(spike | sizes | {name: value}))
