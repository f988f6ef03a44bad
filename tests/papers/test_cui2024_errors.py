"""Result 3.3: identities, limits, drawn models and published numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradstep.errors import InvalidInput, NotConverged
from gradstep.gaussian.functions import scalar_function
from gradstep.papers.ba2022 import coefficients, random_features
from gradstep.papers.cui2024 import errors as module
from gradstep.papers.cui2024.bounds import lower_bound
from gradstep.papers.cui2024.errors import SummaryStatistics, learned_function, solve, summary_statistics
from gradstep.papers.cui2024.spiked import ConditionalMoments, Spike, equivalent_features, equivalent_srf


def features_of(sigma: str, sigma_star: str, model: Spike, **options: Any) -> ConditionalMoments:
    r, c, gamma = model
    return equivalent_features(sigma, sigma_star, r=r, c=c, gamma=gamma, **options)


def model_of(strength: float, variance: float, alignment: float) -> Spike:
    return Spike(np.asarray(strength), np.asarray(variance), np.asarray(alignment))


def random_ratios(seed: int, points: int) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(seed)
    samples, width = 10 ** generator.uniform(-2, 2, (2, points))
    # A share of the points sits exactly at interpolation.
    samples[: points // 8] = width[: points // 8]
    return {"alpha": samples, "beta": width, "lam": 10 ** generator.uniform(-10, 10, points)}


def test_published_limits() -> None:
    """tanh network, sin teacher: limits computed for this project by an independent program, to five digits."""
    result = summary_statistics(
        "tanh",
        "sin",
        eta_tilde=3,
        alpha0=20,
        alpha=[0.2, 0.9, 1.6, 2.3, 3.0],
        beta=1,
        lam=0.1,
    )
    np.testing.assert_allclose(result.test_error, [0.048483, 0.042504, 0.037311, 0.034305, 0.032518], atol=5e-6)
    np.testing.assert_allclose(result.train_error[[0, -1]], [0.012494, 0.022198], atol=5e-6)
    np.testing.assert_allclose(result.bulk_overlap[[0, -1]], [0.0128, 0.0721], atol=5e-5)
    result = summary_statistics("tanh", "tanh", eta_tilde=1, alpha0=0.5, alpha=[1.6, 3], beta=1, lam=0.01)
    np.testing.assert_allclose(result.test_error, [0.20510, 0.14095], atol=5e-6)


def test_converges_over_the_whole_range(case: tuple[str, str, float, float, float]) -> None:
    activation, teacher, step_size, step_ratio, noise = case
    model = equivalent_srf(activation, teacher, eta_tilde=step_size, alpha0=step_ratio, sigma_eps=noise)
    table = features_of(activation, teacher, model)
    result = solve(table, sigma_eps=noise, **random_ratios(1, 400))
    assert result.residual.max() <= 1e-10
    r, c, gamma = model
    assert (result.test_error >= lower_bound(activation, teacher, r=r, c=c, gamma=gamma) - 1e-9).all()
    assert (result.readout_norm >= 0).all()
    assert (result.train_error <= result.train_loss).all()


def marchenko_pastur(beta: float) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights for the law of W0 W0^T (entries of variance 1/d, p = beta d), atom at zero included."""
    angle, weight = np.polynomial.legendre.leggauss(400)
    angle, weight = 0.5 * np.pi * (angle + 1), 0.5 * np.pi * weight
    low, high = (1 - np.sqrt(beta)) ** 2, (1 + np.sqrt(beta)) ** 2
    values = 0.5 * (low + high) + 0.5 * (high - low) * np.cos(angle)
    density = np.sqrt((high - values) * (values - low)) / (2 * np.pi * beta * values)
    weights = weight * density * 0.5 * (high - low) * np.sin(angle)
    if beta > 1:
        values, weights = np.append(values, 0.0), np.append(weights, 1 - 1 / beta)
    return values, weights


@pytest.mark.parametrize("beta", [0.3, 0.8, 1.5, 6.0])
def test_update_equations_in_the_notation_of_the_paper(
    common_case: tuple[str, str, float, float, float], beta: float
) -> None:
    """Result 3.3 with the traces integrated over the Marchenko-Pastur law: no closed form is shared."""
    activation, teacher, step_size, step_ratio, noise = common_case
    alpha, lam = 1.3, 0.03
    model = equivalent_srf(activation, teacher, eta_tilde=step_size, alpha0=step_ratio, sigma_eps=noise)
    table = features_of(activation, teacher, model)
    result = solve(table, alpha=alpha, beta=beta, lam=lam, sigma_eps=noise)
    c = float(model.bulk_variance)
    kappa, weight = table.nodes, table.weights
    mu0, mu1, mu2_squared = table.mean, table.slope / np.sqrt(c), table.variance
    h, h1 = table.teacher_mean, table.teacher_slope
    h2 = table.teacher_variance + h**2 + h1**2 + noise**2
    m, theta, psi, q1, q2, v1, v2 = (
        float(value)
        for value in (
            result.readout_mean,
            result.bulk_overlap,
            result.teacher_overlap,
            result.bulk_norm,
            result.readout_norm,
            result.bulk_response,
            result.readout_response,
        )
    )
    gain = 1 / (1 + mu1**2 * v1 + mu2_squared * v2)
    omega = mu0 * m + kappa * mu1 * theta
    error = h2 - 2 * omega * h + omega**2 - 2 * mu1 * psi * h1 + mu1**2 * q1 + mu2_squared * q2
    hats = {
        "v1": mu1**2 * gain,
        "v2": mu2_squared * gain,
        "q1": mu1**2 * error * gain**2,
        "q2": mu2_squared * error * gain**2,
        "theta": kappa * mu1 * (h - omega) * gain,
        "psi": mu1 * h1 * gain,
    }
    hat = {name: alpha / beta * (weight * value).sum() for name, value in hats.items()}
    bulk, share = marchenko_pastur(beta)
    bulk = c * bulk
    inverse = 1 / (lam + hat["v2"] + hat["v1"] * bulk)
    source1 = hat["q1"] + beta * hat["psi"] ** 2
    source2 = hat["q2"] + c * beta * hat["theta"] ** 2
    expected = [
        (share * bulk * inverse).sum(),
        (share * inverse).sum(),
        c * beta * (share * inverse).sum() * hat["theta"],
        beta * (share * bulk * inverse).sum() * hat["psi"],
        (share * (source1 * bulk**2 + source2 * bulk) * inverse**2).sum(),
        (share * (source1 * bulk + source2) * inverse**2).sum(),
    ]
    np.testing.assert_allclose([v1, v2, theta, psi, q1, q2], expected, rtol=1e-8, atol=1e-13)
    assert (weight * mu0 * (h - omega) * gain).sum() == pytest.approx(0, abs=1e-12)
    assert float(result.noisy_test_error) == pytest.approx((weight * error).sum(), rel=1e-9)
    assert float(result.test_error) == pytest.approx((weight * error).sum() - noise**2, rel=1e-9)
    assert float(result.train_error) == pytest.approx((weight * error * gain**2).sum(), rel=1e-9)
    # At the minimum the objective is the correlation of the labels with the training residuals.
    correlation = h2 - h * omega - mu1 * psi * h1
    assert float(result.train_loss) == pytest.approx((weight * correlation * gain).sum(), rel=1e-9)
    np.testing.assert_allclose(learned_function(activation, result, kappa[::7]), omega[::7], atol=1e-9)


@pytest.mark.parametrize("beta", [0.4, 1.0, 2.5])
def test_bulk_traces(beta: float) -> None:
    """Against the spectrum of a drawn Wishart matrix, and the quadratic equation of the resolvent."""
    d, v1_hat, v2_hat, lam = 600, 0.7, 0.2, 0.1
    generator = np.random.default_rng(4)
    bulk = np.linalg.eigvalsh(np.cov(generator.standard_normal((round(beta * d), d)), bias=True))
    inverse = 1 / (lam + v2_hat + v1_hat * bulk)
    drawn = [(bulk * inverse).mean(), inverse.mean(), *((bulk**k * inverse**2).mean() for k in range(3))]
    arrays = (np.atleast_1d(value) for value in (v1_hat, v2_hat, beta, lam))
    closed = module._bulk_responses(*arrays)
    np.testing.assert_allclose(np.ravel(closed), drawn, rtol=0.01)
    x, t = (lam + v2_hat) / v1_hat, v1_hat * closed[1][0]
    assert beta * x * t**2 + (x + 1 - beta) * t == pytest.approx(1, abs=1e-13)


@settings(max_examples=100)
@given(st.floats(-10, 10), st.floats(-10, 10), st.floats(-2, 2), st.floats(-10, 10))
def test_bulk_traces_are_derivatives(v1_hat: float, v2_hat: float, beta: float, lam: float) -> None:
    r""":math:`\partial(V_1,V_2)/\partial(\hat V_1,\hat V_2)` is minus the matrix of the second-order sums."""
    point = [np.atleast_1d(10**value) for value in (v1_hat, v2_hat, beta, lam)]
    v1, v2, s0, s1, s2 = module._bulk_responses(*point)
    # Euler: V is homogeneous of degree -1 in (v1_hat, shift).
    shift = point[1] + point[3]
    np.testing.assert_allclose(point[0] * s2 + shift * s1, v1, rtol=1e-9)
    np.testing.assert_allclose(point[0] * s1 + shift * s0, v2, rtol=1e-9)
    # The trace of the identity.
    np.testing.assert_allclose(point[0] * v1 + shift * v2, 1, rtol=1e-9)


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_without_a_spike_the_direction_does_not_matter(activation: str) -> None:
    ratios = {"alpha": 1.4, "beta": [0.5, 1.0, 3.0], "lam": [[1e-6], [0.1], [10.0]]}
    errors = []
    for alignment in (0.0, 0.3, -0.8, 1.0):
        model = model_of(0.0, 1.3, alignment)
        table = features_of(activation, "sin", model)
        errors.append(solve(table, sigma_eps=0.2, **ratios).test_error)
    for error in errors[1:]:
        np.testing.assert_allclose(error, errors[0], rtol=1e-9)


@pytest.mark.parametrize(("activation", "teacher"), [("tanh", "sin"), ("erf", "softplus"), ("relu", "relu")])
def test_without_a_step_it_is_random_features(activation: str, teacher: str) -> None:
    ratios = random_ratios(2, 60)
    no_step = {"eta_tilde": 0.0, "alpha0": 2.0}
    result = summary_statistics(activation, teacher, sigma_eps=0.3, **no_step, **ratios)
    aspect = ratios["beta"] / ratios["alpha"]
    expected = random_features(
        coefficients(activation, teacher, centred=False),
        psi1=ratios["alpha"],
        psi2=ratios["beta"],
        lam=ratios["lam"] * aspect,
        sigma_eps=0.3,
    )
    np.testing.assert_allclose(result.test_error, expected.test_error, rtol=1e-7)
    np.testing.assert_allclose(result.train_error, expected.train_error, rtol=1e-7, atol=1e-18)
    np.testing.assert_allclose(result.train_loss, expected.train_loss, rtol=1e-7, atol=1e-14)
    skipped = summary_statistics(activation, teacher, sigma_eps=0.3, eta_tilde=2.0, alpha0=0.0, **ratios)
    np.testing.assert_allclose(skipped.test_error, result.test_error, rtol=1e-9)


@pytest.mark.parametrize("bias", [0.0, 0.6])
def test_loss_satisfies_the_envelope_theorem(case: tuple[str, str, float, float, float], bias: float) -> None:
    """The derivative of the minimal objective with respect to the penalty is the squared norm of the readout."""
    activation, teacher, step_size, step_ratio, noise = case
    model = equivalent_srf(activation, teacher, eta_tilde=step_size, alpha0=step_ratio, sigma_eps=noise)
    table = features_of(activation, teacher, model, b=bias)
    alpha, beta, lam, step = np.array([0.5, 2.0, 6.0]), 1.7, np.array([[1e-3], [1e-1], [10.0]]), 1e-4

    def at(penalty: np.ndarray) -> SummaryStatistics:
        return solve(table, alpha=alpha, beta=beta, lam=penalty, sigma_eps=noise)

    slope = (at(lam * (1 + step)).train_loss - at(lam * (1 - step)).train_loss) / (2 * step * lam)
    np.testing.assert_allclose(slope, at(lam).readout_norm * beta / alpha, rtol=1e-5, atol=1e-11)


def test_spike_of_erf_features_has_closed_form_averages() -> None:
    """Averages over kappa that have closed forms, where the integrand has kinks or nearly has them."""
    strength, variance = 7.0, 1.4
    for alignment in (0.3, 0.999, 1 - 1e-8, 1.0):
        model = model_of(strength, variance, alignment)
        table = features_of("erf", "sign", model)
        size = 1 + 2 * (strength**2 + variance)
        expected = 2 / np.pi * np.arcsin(2 * strength**2 / size)
        assert (table.weights * table.mean**2).sum() == pytest.approx(expected, abs=1e-10)
        expected = 2 / np.pi * np.arcsin(alignment**2)
        assert (table.weights * table.teacher_mean**2).sum() == pytest.approx(expected, abs=1e-10)
        expected = 2 / np.pi * np.arcsin(strength * alignment / np.sqrt(size / 2))
        assert (table.weights * table.mean * table.teacher_mean).sum() == pytest.approx(expected, abs=1e-10)
        table = features_of("erf", "relu", model)
        overlap = alignment**2
        expected = (np.sqrt(1 - overlap**2) + overlap * (np.pi - np.arccos(overlap))) / (2 * np.pi)
        assert (table.weights * table.teacher_mean**2).sum() == pytest.approx(expected, abs=1e-10)
        assert table.weights.sum() == pytest.approx(1, abs=1e-13)


def test_batches_agree_with_single_points() -> None:
    step, samples, penalty = np.array([[[0.0]], [[1.0]], [[4.0]]]), np.array([[0.5], [2.0]]), np.array([1e-6, 0.3])
    batch = summary_statistics("tanh", "relu", eta_tilde=step, alpha0=2, alpha=samples, beta=1, lam=penalty)
    assert batch.test_error.shape == (3, 2, 2)
    for index in np.ndindex(3, 2, 2):
        single = summary_statistics(
            "tanh",
            "relu",
            eta_tilde=step[index[0], 0, 0],
            alpha0=2,
            alpha=samples[index[1], 0],
            beta=1,
            lam=penalty[index[2]],
        )
        assert single.test_error.shape == ()
        assert float(single.test_error) == pytest.approx(batch.test_error[index], rel=1e-9)
        assert float(single.spike.strength) == batch.spike.strength[index]


def spiked_features(
    activation: str, teacher: str, model: Spike, d: int, alpha: float, beta: float, lam: float, noise: float, seed: int
) -> list[float]:
    """Train and test one drawn spiked random features model."""
    generator = np.random.default_rng(seed)
    student, target = scalar_function(activation), scalar_function(teacher)
    strength, variance, gamma = float(model.strength), float(model.bulk_variance), float(model.alignment)
    width, n = round(beta * d), round(alpha * d)
    weights = generator.standard_normal((width, d))
    weights *= np.sqrt(variance) / np.linalg.norm(weights, axis=1, keepdims=True)
    weights[:, 0] += strength

    def draw(samples: int) -> tuple[np.ndarray, np.ndarray]:
        inputs = generator.standard_normal((samples, d))
        labels = target(gamma * inputs[:, 0] + np.sqrt(1 - gamma**2) * inputs[:, 1])
        return student(inputs @ weights.T) / np.sqrt(width), labels

    features, clean = draw(n)
    labels = clean + noise * generator.standard_normal(n)
    readout = np.linalg.solve(features.T @ features + lam * np.eye(width), features.T @ labels)
    fresh, truth = draw(8 * d)
    fit, rest = np.mean((labels - features @ readout) ** 2), readout @ readout / width
    return [float(np.mean((fresh @ readout - truth) ** 2)), float(fit), float(rest)]


MODELS = [
    ("tanh", "sin", 1.6, 1.08, 0.99, 2.0, 1.0, 0.1, 0.0),
    ("erf", "tanh", 0.9, 1.3, 0.6, 1.5, 0.5, 0.05, 0.4),
    ("tanh", "sign", 2.5, 1.2, -0.8, 1.2, 2.0, 0.2, 0.2),
    ("relu", "softplus", 0.8, 1.1, 0.9, 2.0, 0.7, 0.02, 0.2),
]


Case = tuple[str, str, float, float, float, float, float, float, float]


def scores(case: Case, d: int, seeds: int) -> np.ndarray:
    """z-scores of the limit against drawn models of sizes d and 2 d, extrapolated in 1/d."""
    activation, teacher, strength, variance, gamma, alpha, beta, lam, noise = case
    model = model_of(strength, variance, gamma)
    table = features_of(activation, teacher, model)
    result = solve(table, alpha=alpha, beta=beta, lam=lam, sigma_eps=noise)
    means, errors = [], []
    for size, count in ((d, 2 * seeds), (2 * d, seeds)):
        rows = np.array(
            [spiked_features(activation, teacher, model, size, alpha, beta, lam, noise, seed) for seed in range(count)]
        )
        means.append(rows.mean(axis=0))
        errors.append(rows.std(axis=0, ddof=1) / np.sqrt(count))
    expected = np.array([result.test_error, result.train_error, result.readout_norm], dtype=float)
    return np.asarray((2 * means[1] - means[0] - expected) / np.hypot(2 * errors[1], errors[0]))


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=f"{case[0]}-{case[1]}", marks=pytest.mark.statistical if place in (1, 2) else ())
        for place, case in enumerate(MODELS)
    ],
)
def test_drawn_spiked_random_features(case: Case) -> None:
    assert np.abs(scores(case, d=80, seeds=40)).max() < 4


@pytest.mark.statistical
@pytest.mark.parametrize("case", MODELS, ids=[f"{case[0]}-{case[1]}" for case in MODELS])
def test_drawn_spiked_random_features_at_larger_size(case: Case) -> None:
    assert np.abs(scores(case, d=250, seeds=100)).max() < 4


def test_unusable_arguments_are_named() -> None:
    good = {"eta_tilde": 1.0, "alpha0": 1.0, "alpha": 1.0, "beta": 1.0, "lam": 0.1}
    for field, value in [
        ("eta_tilde", -1.0),
        ("alpha0", -1.0),
        ("alpha", 0.0),
        ("beta", np.inf),
        ("lam", 0.0),
        ("sigma_eps", -0.1),
    ]:
        with pytest.raises(InvalidInput) as caught:
            summary_statistics("tanh", "tanh", **good | {field: value})
        assert caught.value.field == field


def test_failure_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAXIMUM_ITERATIONS", 1)
    with pytest.raises(NotConverged, match="large step"):
        summary_statistics("tanh", "sin", eta_tilde=1, alpha0=2, alpha=2, beta=1, lam=1e-3)
