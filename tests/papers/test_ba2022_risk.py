"""One small step: identities, limits, drawn spiked models, the spectrum and the measured network."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import eigh

from gradstep.errors import InvalidInput
from gradstep.papers import ba2022
from gradstep.papers.ba2022 import (
    RandomFeatures,
    coefficients,
    delta_large_sample,
    delta_large_step,
    delta_large_width,
    small_step,
)
from gradstep.papers.ba2022.spike import spiked_law


def gain_from_traces(given_: dict[str, np.ndarray], initial: RandomFeatures) -> np.ndarray:
    """The gain through m1 and m2 alone: the derivative of the drop in the training objective."""
    m1, m2, slope1, slope2 = initial.m1, initial.m2, initial.m1_slope, initial.m2_slope
    a, b, teacher, eta = (given_[name] for name in ("mu1", "mu2_squared", "mu1_star", "eta"))
    labels = teacher**2 + given_["mu2_star_squared"] + given_["sigma_eps"] ** 2
    theta_squared = teacher**2 + labels / given_["psi1_step"]
    moved = a**2 + eta**2 * a**4 * theta_squared
    denominator = given_["psi2"] / given_["psi1"] + b * m1 + moved * m2
    denominator_slope = b * slope1 + moved * slope2
    numerator = 2 * m2 * slope2 * denominator - m2**2 * denominator_slope
    return np.asarray(-(teacher**4) * a**4 * eta**2 / m1**2 * numerator / denominator**2)


def test_closed_form_equals_the_derivative_of_the_traces(of: Any, random_settings: Any) -> None:
    given_ = random_settings(1, step=True)
    found = small_step(**of(given_))
    np.testing.assert_allclose(found.delta, gain_from_traces(given_, found.initial), rtol=1e-9)


def test_generalised_cross_validation_holds_after_the_step(of: Any, random_settings: Any) -> None:
    given_ = random_settings(2, step=True)
    result = small_step(**of(given_))
    kept = given_["lam"] / result.initial.kappa
    np.testing.assert_allclose(
        result.train_error, kept**2 * (result.test_error + given_["sigma_eps"] ** 2), rtol=1e-8, atol=1e-30
    )


def test_loss_satisfies_the_envelope_theorem(of: Any, random_settings: Any) -> None:
    given_ = random_settings(3, lam=(-3, 3), step=True)
    step = 1e-5
    centre = small_step(**of(given_))
    up, down = (small_step(**of(given_ | {"lam": given_["lam"] * (1 + sign * step)})) for sign in (1, -1))
    np.testing.assert_allclose(
        (up.train_loss - down.train_loss) / (2 * step),
        centre.train_loss - centre.train_error,
        rtol=1e-4,
        atol=1e-9,
    )


@settings(max_examples=150)
@given(
    st.floats(-2, 2),
    st.floats(-2, 2),
    st.floats(-8, 4),
    st.floats(0, 50),
    st.floats(1e-3, 2),
    st.floats(0, 2),
    st.floats(0.1, 2),
    st.floats(0, 2),
    st.floats(0, 2),
)
def test_a_step_helps_more_when_larger_but_never_beats_the_linear_floor(
    of: Any,
    samples: float,
    width: float,
    penalty: float,
    eta: float,
    growth: float,
    nonlinear: float,
    linear: float,
    unlearned: float,
    noise: float,
) -> None:
    result = small_step(
        **of(
            psi1=10**samples,
            psi2=10**width,
            lam=10**penalty,
            eta=[eta, eta * (1 + growth) + growth],
            mu1=0.7,
            mu2_squared=nonlinear,
            mu1_star=linear,
            mu2_star_squared=unlearned,
            sigma_eps=noise,
        )
    )
    assert result.delta[0] >= 0
    assert result.delta[1] > result.delta[0]
    assert (result.test_error >= unlearned).all()


@pytest.mark.parametrize("absent", ["eta", "mu1", "mu1_star"])
def test_no_gain_without_a_spike(of: Any, random_settings: Any, absent: str) -> None:
    result = small_step(**of(random_settings(4, step=True) | {absent: 0.0}))
    assert (result.delta == 0).all()
    np.testing.assert_array_equal(result.test_error, result.initial.test_error)


def test_limit_of_many_samples(of: Any, random_settings: Any) -> None:
    given_ = random_settings(5, 100, lam=(-2, 2), step=True) | {"sigma_eps": 0.3}
    del given_["psi1_step"], given_["psi1"]
    limit = delta_large_sample(**of({key: value for key, value in given_.items() if key != "sigma_eps"}))
    errors = []
    for ratio in (1e6, 1e8):
        gain = small_step(**of(given_, psi1=ratio)).delta
        errors.append(np.abs(gain / limit - 1).max())
    assert errors[1] < 1e-4
    # The distance to the limit is of order d/n.
    assert errors[1] < 0.05 * errors[0]


def test_limit_of_a_wide_network(of: Any, random_settings: Any) -> None:
    given_ = random_settings(6, 100, lam=(-2, 2), step=True) | {"psi1": np.geomspace(0.1, 10, 100)}
    del given_["psi1_step"], given_["psi2"]
    tail = {key: value for key, value in given_.items() if key not in ("sigma_eps", "lam")}
    coefficient = delta_large_width(**of(tail, psi2=1.0))
    errors = [np.abs(small_step(**of(given_, psi2=width)).delta * width / coefficient - 1) for width in (1e8, 1e10)]
    assert errors[1].max() < 1e-3
    assert np.median(errors[1]) < 0.05 * np.median(errors[0])


def test_limit_of_an_unbounded_step(of: Any, random_settings: Any) -> None:
    given_ = random_settings(7, lam=(-10, 3), step=True)
    limit = delta_large_step(**of({key: value for key, value in given_.items() if key != "eta"}))
    gain = small_step(**of(given_ | {"eta": 1e9})).delta
    np.testing.assert_allclose(gain, limit, rtol=1e-9)


@pytest.mark.parametrize("teacher", ["x**2 - 1", "0*x"])
def test_an_unbounded_step_without_a_gradient_is_none(teacher: str) -> None:
    values = coefficients("tanh", teacher)
    gains = ba2022.delta_large_step(values, lam=[0.1, 1.0], psi1=1.5, psi2=2.0, psi1_step=np.inf)
    assert gains.tolist() == [0.0, 0.0]


def test_training_loss_of_an_unbounded_step_agrees_with_moniri(of: Any, random_settings: Any) -> None:
    r"""Moniri et al. 2024, one spike: the loss drops by :math:`(\psi/\phi)\lambda c_*^4 m_2/\theta^2`."""
    given_ = random_settings(8, lam=(-6, 3), step=True) | {"eta": 1e9}
    result = small_step(**of(given_))
    theta2 = result.theta_squared
    zeta = given_["lam"] * given_["psi1"] / given_["psi2"]
    expected = zeta * given_["mu1_star"] ** 4 * result.initial.m2 / theta2
    np.testing.assert_allclose(result.initial.train_loss - result.train_loss, expected, rtol=1e-5, atol=1e-9)


def test_width_correction_vanishes_and_increases_the_gain(of: Any, random_settings: Any) -> None:
    given_ = random_settings(9, step=True) | {"eta": 0.5, "mu1": 0.6}
    limit = small_step(**of(given_)).delta
    np.testing.assert_allclose(small_step(**of(given_, N=1e16)).delta, limit, rtol=1e-6)
    assert (small_step(**of(given_, N=100)).delta > limit).all()


def test_a_population_gradient_points_at_the_teacher() -> None:
    result = small_step(
        coefficients("tanh", "softplus", centred=False), psi1=2, psi2=1, lam=0.1, eta=1, sigma_eps=1, psi1_step=np.inf
    )
    assert float(result.alignment) == pytest.approx(1)
    assert float(result.theta_squared) == pytest.approx(0.25)


@pytest.mark.parametrize("uncentred", [False, True])
def test_gradient_norm_of_drawn_labels(uncentred: bool) -> None:
    d, ratio, noise = 400, 3.0, 0.3
    generator = np.random.default_rng(3)
    measured = []
    for _ in range(20):
        inputs = generator.standard_normal((round(ratio * d), d))
        labels = np.logaddexp(0, inputs[:, 0]) + noise * generator.standard_normal(len(inputs))
        labels -= 0.0 if uncentred else 0.8060592
        measured.append(np.sum((inputs.T @ labels / len(inputs)) ** 2))
    theta = ba2022.theta("softplus", psi1=ratio, sigma_eps=noise, centred=not uncentred)
    error = np.std(measured, ddof=1) / np.sqrt(len(measured))
    assert abs(np.mean(measured) - theta**2) / error < 4


def test_gain_of_drawn_spiked_equivalents(of: Any) -> None:
    """Paired fits on the linear equivalents before and after the rank-one step, with exact risks."""
    d, psi1, psi2, penalty, eta = 160, 3.0, 1.0, 1e-2, 3.0
    mu1, mu2, linear, unlearned, noise = 0.7, 0.4, 0.8, 0.15, 0.3
    n, width = round(psi1 * d), round(psi2 * d)
    generator = np.random.default_rng(12)
    measured = []
    for _ in range(30):
        initial = generator.standard_normal((d, width)) / np.sqrt(d)
        readout = generator.standard_normal(width) / np.sqrt(width)
        first = generator.standard_normal((n, d))
        residual = np.sqrt(unlearned + noise**2)
        gradient = first.T @ (linear * first[:, 0] + residual * generator.standard_normal(n)) / n
        inputs, extra = generator.standard_normal((n, d)), mu2 * generator.standard_normal((n, width))
        labels = linear * inputs[:, 0] + residual * generator.standard_normal(n)
        risks = []
        for weights in (initial, initial + eta * mu1 * np.outer(gradient, readout)):
            features = mu1 * inputs @ weights + extra
            fit = np.linalg.solve(features.T @ features + penalty * n * np.eye(width), features.T @ labels)
            rest = linear * np.eye(d)[0] - mu1 * weights @ fit
            risks.append(rest @ rest + mu2**2 * fit @ fit)
        measured.append(risks[0] - risks[1])
    result = small_step(
        **of(
            psi1=psi1,
            psi2=psi2,
            lam=penalty,
            eta=eta,
            mu1=mu1,
            mu2_squared=mu2**2,
            mu1_star=linear,
            mu2_star_squared=unlearned,
            sigma_eps=noise,
        )
    )
    error = np.std(measured, ddof=1) / np.sqrt(len(measured))
    assert abs(np.mean(measured) - float(result.delta)) / error < 4


@pytest.mark.parametrize(
    ("psi2", "strength"),
    [
        (0.5, 1.3),
        (2.0, 3.0),
        pytest.param(0.5, 3.0, marks=pytest.mark.statistical),
        pytest.param(2.0, 1.3, marks=pytest.mark.statistical),
    ],
)
def test_outlier_of_a_drawn_spiked_matrix(psi2: float, strength: float) -> None:
    d, theta, linear = 600, 0.7, 0.6
    width = round(psi2 * d)
    threshold = psi2**0.25 / theta
    predicted = spiked_law(
        psi2=psi2,
        eta=strength * threshold,
        mu1=1.0,
        mu1_star=linear,
        theta2=theta**2,
    )
    assert float(predicted.threshold) == pytest.approx(threshold)
    generator = np.random.default_rng(13)
    gradient = np.zeros(d)
    gradient[:2] = linear, np.sqrt(theta**2 - linear**2)
    measured = []
    for _ in range(10):
        readout = generator.standard_normal(width)
        readout /= np.linalg.norm(readout)
        weights = generator.standard_normal((d, width)) / np.sqrt(d)
        weights += strength * threshold * np.outer(gradient, readout)
        square, left = eigh(weights @ weights.T, subset_by_index=[d - 1, d - 1])
        value, left = np.sqrt(square[0]), left[:, 0]
        right = left @ weights / value
        measured.append([value, (left @ gradient / theta) ** 2, left[0] ** 2, (right @ readout) ** 2])
    rows = np.array(measured)
    expected = [
        predicted.singular_value,
        predicted.gradient_overlap,
        predicted.teacher_overlap,
        predicted.readout_overlap,
    ]
    scores = (rows.mean(axis=0) - expected) / (rows.std(axis=0, ddof=1) / np.sqrt(len(rows)))
    assert np.abs(scores).max() < 4.5


def test_without_a_linear_part_no_step_has_an_outlier() -> None:
    found = ba2022.outlier("abs", "sin", eta=[0.0, 100.0], psi1=1.5, psi2=2.0)
    assert np.isinf(found.threshold).all()
    assert found.singular_value == pytest.approx(1 + np.sqrt(2.0))


def test_no_outlier_below_the_threshold() -> None:
    spectrum = spiked_law(
        psi2=2.0,
        eta=[0.0, 2.5, 2.54],
        mu1=1.0,
        mu1_star=0.5,
        theta2=(2**0.25 / 2.533) ** 2,
    )
    np.testing.assert_allclose(spectrum.singular_value[:2], 1 + np.sqrt(2))
    np.testing.assert_array_equal(spectrum.gradient_overlap[:2], 0)
    assert spectrum.gradient_overlap[2] > 0
    assert spectrum.singular_value[2] > 1 + np.sqrt(2)


def test_measured_outliers() -> None:
    """erf network, psi1 = 5, psi2 = 2, d = 512, eta = 4 and 8: measured on ten gradient steps each."""
    spectrum = ba2022.outlier("erf", "erf", eta=[4, 8], psi1=5, psi2=2, sigma_eps=0.1, N=1024)
    scores = np.concatenate(
        [
            (spectrum.singular_value - [2.6576, 4.1407]) / [0.0120, 0.0238],
            (spectrum.teacher_overlap - [0.5366, 0.7668]) / [0.0099, 0.0036],
            (spectrum.gradient_overlap - [0.6567, 0.9361]) / [0.0085, 0.0014],
            (spectrum.readout_overlap - [0.5151, 0.8641]) / [0.0092, 0.0018],
        ]
    )
    assert np.abs(scores).max() < 4


# Measured on real networks with d = 512, exact risk of every fit: ratio, eta = 0, its error, eta > 0, its error.
MEASURED = {
    "tanh/softplus": (
        {"lam": 1e-4, "sigma_eps": 0.25, "psi2": 2.0, "eta": 4.0},
        "psi1",
        [
            (0.5, 0.2782, 0.0022, 0.2433, 0.0022),
            (1.0, 0.3145, 0.0038, 0.2894, 0.0037),
            (2.0, 1.1547, 0.0174, 1.1008, 0.0158),
            (3.0, 0.2326, 0.0021, 0.2166, 0.0020),
            (5.0, 0.1039, 0.0006, 0.0943, 0.0005),
            (8.0, 0.0713, 0.0003, 0.0631, 0.0003),
        ],
    ),
    "tanh/relu": (
        {"lam": 1e-2, "sigma_eps": 0.1, "psi1": 5.0, "eta": 2.0},
        "psi2",
        [
            (0.25, 0.2990, 0.0010, 0.2463, 0.0013),
            (0.5, 0.2558, 0.0012, 0.2168, 0.0011),
            (1.0, 0.1837, 0.0010, 0.1689, 0.0008),
            (2.0, 0.1511, 0.0005, 0.1480, 0.0005),
            (4.0, 0.1627, 0.0005, 0.1619, 0.0005),
        ],
    ),
    "erf/erf": (
        {"lam": 1e-3, "sigma_eps": 0.1, "psi2": 2.0, "eta": 1.0},
        "psi1",
        [
            (1.0, 0.3177, 0.0030, 0.3050, 0.0028),
            (3.0, 0.2088, 0.0016, 0.2022, 0.0016),
            (5.0, 0.1257, 0.0006, 0.1217, 0.0005),
            (8.0, 0.1008, 0.0004, 0.0974, 0.0004),
        ],
    ),
}


@pytest.mark.parametrize("name", MEASURED)
def test_measured_networks(name: str) -> None:
    fixed, varied, rows = MEASURED[name]
    activation, teacher = name.split("/")
    arguments = dict(fixed)
    eta = arguments.pop("eta")
    ratio, before, before_error, after, after_error = np.array(rows).T
    arguments[varied] = ratio
    width = np.asarray(arguments["psi2"]) * 512
    initial = ba2022.R_0(activation, teacher, **arguments)
    stepped = ba2022.R_1(activation, teacher, eta=eta, N=width, **arguments)
    assert np.abs((before - initial) / before_error).max() < 4
    assert np.abs((after - stepped) / after_error).max() < 4


def test_measured_gains_need_the_width_correction() -> None:
    """tanh/relu, psi1 = 5, psi2 = 1/2, eta = 4 at d = 128, 256, 512: actual steps, averaged over the fit."""
    widths = np.array([64, 128, 256])
    measured, error = np.array([0.08461, 0.07985, 0.08114]), np.array([0.00098, 0.00104, 0.00090])
    arguments = {"eta": 4.0, "lam": 1e-2, "psi1": 5.0, "psi2": 0.5, "sigma_eps": 0.1}
    corrected = (measured - ba2022.delta("tanh", "relu", N=widths, **arguments)) / error
    plain = (measured - ba2022.delta("tanh", "relu", **arguments)) / error
    assert np.abs(corrected).max() < 4
    assert plain.min() > 4


def test_unusable_arguments_are_named(of: Any, random_settings: Any) -> None:
    given_ = random_settings(1, 1, step=True)
    with pytest.raises(InvalidInput, match="eta"):
        small_step(**of(given_, eta=-1.0))
    with pytest.raises(InvalidInput, match="eta"):
        delta_large_sample(coefficients("tanh", "sin"), eta=-1.0, lam=0.1, psi2=1.5)
    with pytest.raises(InvalidInput, match="eta"):
        delta_large_width(coefficients("tanh", "sin"), eta=-1.0, psi1=2.0, psi2=1.5)
    for psi1 in (0.0, np.nan):
        with pytest.raises(InvalidInput, match="psi1"):
            small_step(**of(given_, psi1_step=psi1))
    with pytest.raises(InvalidInput, match="N"):
        small_step(**of(given_, N=0))
    for field, value in (("mu1_star", np.nan), ("mu2_squared", -1.0), ("mu2_star_squared", -1.0)):
        with pytest.raises(InvalidInput, match=field):
            small_step(**of(given_, **{field: value}))


@pytest.mark.parametrize("activation", ["sign", "sign(x) + tanh(x)", "heaviside(x + 1) - heaviside(x - 1)"])
def test_a_step_refuses_jumps(activation: str) -> None:
    values, sizes = coefficients(activation, "sin"), {"psi1": 2.0, "psi2": 1.5, "lam": 0.1}
    with pytest.raises(InvalidInput, match=r"sigma: .*without jumps"):
        small_step(values, **sizes, eta=[0.0, 1.0])
    steps = [
        lambda: ba2022.delta(activation, "sin", **sizes, eta=1.0),
        lambda: delta_large_sample(values, eta=1.0, lam=0.1, psi2=1.5),
        lambda: delta_large_width(values, eta=1.0, psi1=2.0, psi2=1.5),
        lambda: delta_large_step(values, **sizes),
        lambda: ba2022.outlier(activation, "sin", eta=1.0, psi1=2.0, psi2=1.5),
    ]
    for step in steps:
        with pytest.raises(InvalidInput, match=r"sigma: .*without jumps"):
            step()
    # Without a step there is nothing that a jump would hide.
    assert np.isfinite(small_step(values, **sizes, eta=0.0).test_error)
    assert delta_large_sample(values, eta=0.0, lam=0.1, psi2=1.5) == 0
    assert delta_large_width(values, eta=0.0, psi1=2.0, psi2=1.5) == 0
