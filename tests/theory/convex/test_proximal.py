"""Averages of Moreau envelopes: closed forms of the square loss and of soft thresholding, identities, Monte Carlo."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

import gradstep as gs
from gradstep.convex import loss, penalty
from gradstep.gaussian import scalar_function, smoothed
from gradstep.labels import labels_of
from gradstep.theory.convex.proximal import (
    LabelsAtNodes,
    OutputLaw,
    _chance,
    _samples,
    loss_averages,
    mean_losses,
    penalty_averages,
)

KAPPA = np.array([-1.7, 0.0, 0.4, 2.1])
LAW = OutputLaw(
    kappa=KAPPA,
    mean=np.tanh(KAPPA),
    slope=np.array([0.3, 0.5, 0.2, -0.1]),
    variance=np.array([0.4, 0.1, 0.9, 0.2]),
    leverage=np.array([0.3, 1.0, 3.0, 0.05]),
    alignment=0.8,
)
PROBLEM = gs.Problem.cui2024(alpha=1.0, alpha0=1.0, eta_tilde=1.0, lam=0.1, teacher="sin", noise=0.3)
CASES = [
    ("huber(0.5)", "real", 0.0),
    ("pseudo_huber(0.5)", "real", 0.0),
    ("absolute", "real", 0.0),
    ("logistic", "sign", 0.1),
    ("hinge", "sign", 0.0),
    ("squared_hinge", "sign", 0.1),
    ("huber(0.5)", "sign", 0.0),
]


def drawn(labels, count, seed):
    """Labels, outputs and t for each node, drawn literally."""
    rng = np.random.default_rng(seed)
    t, xi, e = rng.normal(size=(3, count, len(KAPPA)))
    u = LAW.alignment * KAPPA + np.sqrt(1 - LAW.alignment**2) * t
    return labels.draw(u, e), LAW.mean + LAW.slope * t + np.sqrt(LAW.variance) * xi, t


def scores(values, theory):
    """Standard scores of Monte Carlo means, over all nodes."""
    return (values.mean(axis=0) - theory) / (np.maximum(values.std(axis=0), 1e-3) / np.sqrt(len(values)))


@pytest.mark.parametrize(
    ("name", "channel", "flip"),
    # Smooth losses and such with kinks, real labels and signs, with and without flips.
    [
        pytest.param(*case, marks=pytest.mark.statistical if place in (1, 5, 6) else ())
        for place, case in enumerate(CASES)
    ],
)
def test_averages_against_monte_carlo(name, channel, flip):
    labels, chosen = labels_of(PROBLEM, channel, flip), loss(name)
    y, output, t = drawn(labels, 200_000, 1)
    fitted = chosen.proximal_output(y, output, LAW.leverage)
    pull = (fitted - output) / LAW.leverage
    averages, losses = loss_averages(labels, chosen, LAW), mean_losses(labels, chosen, LAW)
    z = [
        scores(pull, averages.pull),
        scores(t * pull, averages.slope - LAW.slope * averages.curvature),
        scores(pull**2, averages.power),
        # Stein's identity gives the curvature from the pull.
        scores(-(output - LAW.mean - LAW.slope * t) * pull / LAW.variance, averages.curvature),
        scores(chosen.value(y, output), losses.test),
        scores(chosen.value(y, fitted), losses.train),
    ]
    if labels.binary:
        z += [scores(1.0 * (y * output < 0), losses.test_wrong), scores(1.0 * (y * fitted < 0), losses.train_wrong)]
    assert np.abs(z).max() < 4.5
    np.testing.assert_allclose(averages.free, 1 - LAW.leverage * averages.curvature, atol=1e-12)


@pytest.mark.parametrize(("channel", "flip"), [("real", 0.0), ("sign", 0.1)])
def test_square_loss_in_closed_form(channel, flip):
    labels = labels_of(PROBLEM, channel, flip)
    averages, losses = loss_averages(labels, loss("square"), LAW), mean_losses(labels, loss("square"), LAW)
    target = smoothed(labels.mean, LAW.alignment * KAPPA, np.sqrt(1 - LAW.alignment**2))
    curvature = 2 / (1 + 2 * LAW.leverage)
    second = np.ones(4) if labels.binary else target.second_moment + labels.noise**2
    error = second - 2 * (target.mean * LAW.mean + target.slope * LAW.slope)
    error = error + LAW.mean**2 + LAW.slope**2 + LAW.variance
    for value, expected in [
        (averages.curvature, curvature),
        (averages.pull, curvature * (target.mean - LAW.mean)),
        (averages.slope, curvature * target.slope),
        (averages.power, curvature**2 * error),
        (losses.test, error),
        (losses.train, error / (1 + 2 * LAW.leverage) ** 2),
    ]:
        np.testing.assert_allclose(value, expected, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("size", [1.0, 100.0, 3000.0])
@pytest.mark.parametrize("leverage", [0.01, 3.0, 1e4])
def test_large_outputs_need_no_more_points(size, leverage):
    """The logistic loss bends over a few units of outputs that are as large as three thousand.

    The slope across is zero, so that labels do not depend on the output, and the average is a sum over two Gaussians.
    """
    law = OutputLaw(KAPPA, size * np.tanh(KAPPA), 0 * KAPPA, size**2 * LAW.variance, leverage + 0 * KAPPA, 0.8)
    labels, chosen = labels_of(PROBLEM, "sign", 0.1), loss("logistic")
    averages = loss_averages(labels, chosen, law)
    assert _samples(labels, chosen, law).argument.shape[-1] < 500
    z = np.linspace(-9, 9, 80_001 if size > 100 else 4_001)
    weight = norm.pdf(z) / norm.pdf(z).sum()
    for node, (mean, variance) in enumerate(zip(law.mean, law.variance, strict=True)):
        chance = smoothed(labels.mean, 0.8 * KAPPA[node], 0.6).mean
        parts = []
        for label in (1.0, -1.0):
            envelope = chosen.function.proximal(label * (mean + math.sqrt(variance) * z), np.full_like(z, leverage))
            share = 0.5 * (1 + label * chance)
            sums = (-label * envelope.slope @ weight, envelope.slope**2 @ weight, envelope.curvature @ weight)
            parts.append(share * np.array(sums))
        found = averages.pull[node], averages.power[node], averages.curvature[node]
        np.testing.assert_allclose(found, np.sum(parts, axis=0), rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("size", [0.1, 1.0, 2.0, 4.0])
def test_small_outputs_need_no_narrow_panels(size):
    """Panels as narrow everywhere as the logistic loss bends are few, and no more points are taken."""
    law = OutputLaw(KAPPA, 0 * KAPPA, 0 * KAPPA, size**2 + 0 * KAPPA, 1 + 0 * KAPPA, 0.8)
    points = _samples(labels_of(PROBLEM, "sign", 0.1), loss("logistic"), law).argument.shape[-1]
    # Eight to a panel, with one more panel for each of the two arguments at which an output changes sign.
    assert points <= 8 * (math.ceil(max(8, 15 * size / (0.9 * math.pi))) + 2)


@pytest.mark.parametrize("name", ["huber(0.3)", "absolute", "pseudo_huber(0.5)"])
def test_real_labels_of_a_linear_teacher_are_one_gaussian(name):
    """With a linear teacher the residual is Gaussian given kappa, however it is split between t and the rest."""
    labels, chosen = labels_of(PROBLEM.replace(teacher="linear")), loss(name)
    across = np.sqrt(1 - LAW.alignment**2)
    averages = loss_averages(labels, chosen, LAW)
    spread = np.sqrt((across - LAW.slope) ** 2 + LAW.variance + labels.noise**2)
    z = np.linspace(-9, 9, 20_001)
    weight = norm.pdf(z)
    residual = (LAW.alignment * KAPPA - LAW.mean)[:, None] + spread[:, None] * z
    envelope = chosen.function.proximal(residual, LAW.leverage[:, None])
    expected = (envelope.slope**2 @ weight) / weight.sum()
    np.testing.assert_allclose(averages.power, expected, rtol=1e-9 if name.startswith("pseudo") else 1e-5)


@pytest.mark.parametrize("variance", [0.05, 0.5])
@pytest.mark.parametrize("teacher", ["2*(x**2-1)", "x**3", "4*x", "2*sin(1.5*x)"])
def test_a_residual_that_is_steep_along_the_rest_is_resolved(teacher, variance):
    """The absolute loss: closed forms given t, and a sum over very many t. Off by a tenth to several times before."""
    labels = labels_of(PROBLEM.replace(teacher=teacher, noise=0.1), "real")
    law = replace(LAW, mean=LAW.mean / 2, variance=np.full(4, variance), alignment=0.3)
    t = np.linspace(-9, 9, 60_001)[:, None]
    weight = norm.pdf(t) * (t[1, 0] - t[0, 0])
    v, spread = law.leverage, math.sqrt(variance + 0.01)
    centre = labels.mean(law.alignment * law.kappa + math.sqrt(1 - law.alignment**2) * t) - law.mean - law.slope * t
    low, high = (-v - centre) / spread, (v - centre) / spread
    inside = norm.cdf(high) - norm.cdf(low)
    slope = norm.sf(high) - norm.cdf(low) + (centre * inside + spread * (norm.pdf(low) - norm.pdf(high))) / v
    averages, losses = loss_averages(labels, loss("absolute"), law), mean_losses(labels, loss("absolute"), law)
    size = centre * (2 * norm.cdf(centre / spread) - 1) + 2 * spread * norm.pdf(centre / spread)
    np.testing.assert_allclose(averages.pull, (weight * slope).sum(axis=0), atol=1e-5)
    np.testing.assert_allclose(averages.curvature, (weight * inside / v).sum(axis=0), rtol=2e-5)
    np.testing.assert_allclose(losses.test, (weight * size).sum(axis=0), rtol=1e-6)


def test_soft_thresholding_in_closed_form():
    field, power, curvature = np.array([0.0, 1.5, -40.0]), np.array([1.0, 2.0, 9.0]), np.array([0.5, 2.0, 3.0])
    ridge, width = 7.0, 50.0
    threshold = ridge / np.sqrt(width)
    averages = penalty_averages(penalty("l1"), field, power, curvature, ridge, width)
    spread = np.sqrt(power)
    above, below = (field - threshold) / spread, (-field - threshold) / spread
    active = norm.cdf(above) + norm.cdf(below)
    upper = (field - threshold) * norm.cdf(above) + spread * norm.pdf(above)
    lower = (-field - threshold) * norm.cdf(below) + spread * norm.pdf(below)
    mean = (upper - lower) / curvature
    second = ((field - threshold) ** 2 + power) * norm.cdf(above) + spread * (field - threshold) * norm.pdf(above)
    second += ((-field - threshold) ** 2 + power) * norm.cdf(below) + spread * (-field - threshold) * norm.pdf(below)
    second /= curvature**2
    response = active / curvature
    np.testing.assert_allclose(averages.active, active, rtol=1e-10)
    np.testing.assert_allclose(1 / (averages.stiffness + curvature), response, rtol=1e-10)
    np.testing.assert_allclose(averages.offset + response * field, mean, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(averages.excess + mean**2 + response**2 * power, second, rtol=1e-9)
    np.testing.assert_allclose(averages.value, (upper + lower) * np.sqrt(width) / curvature, rtol=1e-9)


def test_ridge_penalty_is_itself():
    field, power, curvature = np.array([0.3, -2.0]), np.array([1.0, 4.0]), np.array([1e-3, 20.0])
    averages = penalty_averages(penalty("ridge"), field, power, curvature, 0.7, 30.0)
    weight = field / (curvature + 1.4)
    np.testing.assert_allclose(averages.stiffness, 1.4, rtol=1e-12)
    np.testing.assert_allclose(averages.offset / weight, 0.0, atol=1e-11)
    np.testing.assert_allclose(averages.excess / weight**2, 0.0, atol=1e-10)
    np.testing.assert_allclose(averages.value / 30.0, weight**2 + power / (curvature + 1.4) ** 2, rtol=1e-11)


def test_general_penalty_against_monte_carlo():
    chosen, rng = penalty("pseudo_huber(0.2)"), np.random.default_rng(2)
    field, power, curvature = np.array([0.5]), np.array([2.0]), np.array([0.8])
    averages = penalty_averages(chosen, field, power, curvature, 4.0, 9.0)
    h = field + np.sqrt(power) * rng.normal(size=(400_000, 1))
    # argmin (4/9) r(3 b) + C b^2/2 - h b, by the optimality condition.
    b = chosen.function.proximal(3 * h / curvature, 4.0 / curvature).point / 3
    condition = 4 / 3 * chosen.function.derivative(3 * b) + curvature * b - h
    np.testing.assert_allclose(condition, 0.0, atol=1e-9)
    response = 1 / (averages.stiffness + curvature)
    assert np.abs(scores(b, averages.offset + response * field)).max() < 4.5
    assert np.abs(scores((h - field) * b / power, response)).max() < 4.5
    spread = averages.excess + response**2 * power
    assert np.abs(scores((b - (averages.offset + response * field)) ** 2, spread)).max() < 4.5


@pytest.mark.parametrize("text", ["erf(7*sin(x))", "tanh(0.5*(x + 0.5*x**2))", "0.8*erf(3*tanh(x))", "sign(sin(x))"])
@pytest.mark.parametrize("rest", [1e-4, 1e-2, 0.1, 0.7, 1.0])
def test_chances_on_one_grid_are_those_of_each_argument_alone(text, rest):
    # The last function is not smooth, and the first rest needs too fine a grid: there it is the same by definition.
    mean, rng = scalar_function(text), np.random.default_rng(1)
    across, centre = 0.8, np.linspace(-3, 3, 4)
    known = math.sqrt(1 - rest**2) * rng.uniform(-7.5, 7.5, (4, 2, 30))
    rests = np.full((4, 1, 1), rest)
    rests[2] *= 0.9
    chance, slope = _chance(mean, centre, across, known, rests)
    expected = smoothed(mean, centre[:, None, None] + across * known, across * rests)
    np.testing.assert_allclose(chance, expected.mean, atol=1e-12)
    np.testing.assert_allclose(slope, expected.slope, atol=1e-12)


@pytest.mark.parametrize("name", ["pseudo_huber(1.0)", "l1"])
def test_a_field_that_does_not_scatter_has_one_weight(name):
    chosen = penalty(name)
    found = penalty_averages(chosen, np.array([0.1, 0.1]), np.array([1.0, 0.0]), np.ones(2), 0.3, 100.0)
    point = chosen.function.proximal(np.array(1.0), np.array(0.3)).point
    np.testing.assert_allclose(found.value[1], chosen.function.value(point), rtol=1e-12)


@pytest.mark.parametrize("name", ["huber(0.5)", "pseudo_huber(0.5)", "absolute"])
def test_labels_and_outputs_without_noise_are_points(name):
    """A label that the nodes know, on a network without any freedom, has one residual."""
    label, chosen = np.array([0.3, 1.0, -1.2, 0.7]), loss(name)
    known = LabelsAtNodes(mean=label, hidden=np.zeros(4))
    law = replace(LAW, slope=np.zeros(4), variance=np.zeros(4), labels=known)
    found = loss_averages(labels_of(PROBLEM.replace(noise=0.0), "real"), chosen, law)
    envelope = chosen.function.proximal(label - law.mean, law.leverage)
    np.testing.assert_allclose(found.pull, envelope.slope, rtol=1e-12)
    np.testing.assert_allclose(found.power, envelope.slope**2, rtol=1e-12)
