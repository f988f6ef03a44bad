"""Conditional features: what the length of an input does to their means, in closed form and in the network."""

import math

import numpy as np
import pytest
from scipy.stats import norm

import gradstep as gs
from gradstep.errors import InvalidInput
from gradstep.gaussian import scalar_function, smoothed
from gradstep.theory.equivalent.features import conditional_features
from gradstep.theory.neurons.groups import Groups

PROJECTION, VARIANCE = np.array([0.3, -1.2, 0.0]), np.array([0.8, 1.0, 1.7])
GROUPS = Groups(np.full(3, 1 / 3), PROJECTION, VARIANCE, *np.zeros((2, 3)), np.ones(3), *np.zeros((9, 3)))


def response(activation, dimension):
    function = scalar_function(activation)
    tables = conditional_features(function, scalar_function("sin"), GROUPS, 0.6, dimension=dimension)
    return tables.kappa, tables.length_slope


def test_the_length_enters_by_the_derivative_in_the_variance():
    # E (m + s z)^2 = m^2 + s^2, and E relu(m + s z) has the derivative phi(m/s) / (2 s) in s^2.
    variance = VARIANCE[:, None]
    kappa, square = response("x**2", 50)
    np.testing.assert_allclose(square, np.broadcast_to(math.sqrt(2 / 49) * variance, (3, len(kappa))), rtol=1e-6)
    kappa, kinked = response("relu", 200)
    ratio = PROJECTION[:, None] * kappa / np.sqrt(variance)
    np.testing.assert_allclose(
        kinked, math.sqrt(2 / 199) * np.sqrt(variance) * norm.pdf(ratio) / 2, rtol=1e-3, atol=1e-9
    )


def test_odd_functions_follow_it_where_they_follow_the_projection():
    # E (m + s z)^3 = m^3 + 3 m s^2.
    kappa, cubic = response("x**3", 50)
    np.testing.assert_allclose(
        cubic, math.sqrt(2 / 49) * 3 * PROJECTION[:, None] * kappa * VARIANCE[:, None], rtol=1e-6, atol=1e-12
    )


def test_the_limit_has_none():
    assert response("relu", math.inf)[1].shape == (3, 0)


# With spikes that do not follow the lengths of rows the errors of the first are 3 % too high, of the second 8 %. For
# an odd activation that nearly cancels what the length of the inputs does: without both they are 2 % too low.
@pytest.mark.statistical
@pytest.mark.parametrize(
    ("activation", "samples", "seeds"),
    [
        ("sin(2*x) + 0.3*cos(x)", 6, 48),
        pytest.param("sin(2*x) + 0.3*cos(x)", 60, 96, marks=pytest.mark.statistical),
        pytest.param("sin(2*x)", 6, 48, marks=pytest.mark.statistical),
    ],
)
def test_lengths_of_rows_and_inputs_after_a_strong_step(activation, samples, seeds):
    d = 160
    problem = gs.Problem(
        activation=activation, teacher="3*x", d=d, width=2 * d, n_step=samples * d, n=8 * d, eta=gs.Step(0.3, 0.5),
        ridge=0.2 * d, noise=0.5, readout="constant",
    )  # fmt: skip
    networks, theory = gs.simulate(problem, seeds=seeds), gs.predict(problem)
    for name in ("test_error", "train_error"):
        error = np.std(networks[name], ddof=1) / math.sqrt(seeds)
        assert error < 0.01 * getattr(theory, name)
        assert abs(np.mean(networks[name]) - getattr(theory, name)) < 3.5 * error


@pytest.mark.statistical
def test_neurons_that_share_the_spike_mix_it_with_the_length():
    # At eta of order one this is of leading order: the spike of each neuron is as small as what the length does.
    problem = gs.Problem(
        activation="H1 + 0.2*H2", teacher="x", d=200, width=400, n_step=400, n=400, eta=2.0, ridge=40.0, noise=0.1,
        readout="constant",
    )  # fmt: skip
    networks = gs.simulate(problem, seeds=60)
    # The same step as a number, and as one that grows with the width.
    for eta in (2.0, gs.Step(0.1, 0.5)):
        theory = gs.predict(problem.replace(eta=eta))
        for name in ("test_error", "train_error"):
            error = np.std(networks[name], ddof=1) / math.sqrt(60)
            # Without the length theory is four or more of these too low.
            assert abs(np.mean(networks[name]) - getattr(theory, name)) < 3.5 * error
            assert error < 0.025 * getattr(theory, name)
        assert networks["alignment"].mean() == pytest.approx(theory.alignment, abs=0.02)


def test_a_constant_in_the_features_separates_the_two():
    # With a mean of the activation the fit can tell the length, nearly constant, from the spike.
    problem = gs.Problem(
        activation="relu", teacher="x", d=200, width=800, n_step=400, n=600, eta=gs.Step(0.1, 0.5), ridge=60.0,
        noise=0.1, readout="constant",
    )  # fmt: skip
    at_size = gs.predict(problem).test_error
    sizes = {name: 10**6 * getattr(problem, name) for name in ("d", "width", "n_step", "n", "ridge")}
    assert at_size == pytest.approx(gs.predict(problem.replace(**sizes)).test_error, rel=0.01)


@pytest.mark.parametrize("degree", [11, 12])
def test_features_whose_products_overflow_are_named(degree):
    # The step makes rows so long that features have mean squares of 1e213 and more.
    problem = gs.Problem(
        activation=f"hermite{degree}",
        teacher="sin",
        d=100,
        width=150,
        n_step=200,
        n=200,
        eta=gs.Step(1.0, 0.5),
        ridge=1.0,
    )
    with pytest.raises(InvalidInput, match=r"activation.*mean square.*above 1e\+160 products of two overflow"):
        gs.predict(problem)
    assert gs.predict(problem.replace(eta=0.0)).test_error > 0


SHORT_AND_LONG = np.array([-1.0, 1.0])
LENGTHS = np.array([0.02, 0.2, 0.3])


def by_length(activation):
    """Return the tables with nodes of short and of long inputs, and those without."""
    function, teacher = scalar_function(activation), scalar_function("sin")
    with_, without = (
        conditional_features(function, teacher, GROUPS, 0.6, dimension=400, any_loss=True, lengths=lengths)
        for lengths in (LENGTHS, None)
    )
    np.testing.assert_array_equal(with_.kappa[::2], without.kappa)
    return with_, without


def mean_over_length(values, power=0):
    """Return the mean over the length of values times a power of the length, for each node of kappa."""
    return (values.reshape(len(values), -1, 2) * SHORT_AND_LONG**power).mean(axis=2)


@pytest.mark.parametrize("activation", ["relu", "tanh(2*x)+.3*x**2", "x+.5*hermite2+.3*hermite3+.1*hermite4", "2*x-1"])
def test_the_length_changes_no_mean_of_a_feature(activation):
    # Docs, "Uniform equivalent", (E8d). A pre-activation is Gaussian, whatever the lengths of its parts.
    found, without = by_length(activation)
    np.testing.assert_allclose(mean_over_length(found.mean), without.mean, rtol=1e-12)
    # Coordinates have the variance 1 + s l given the length l, and slopes are for coordinates of variance one.
    slope = found.slope / np.sqrt(found.stretch)
    np.testing.assert_allclose(mean_over_length(slope * found.stretch), without.slope, rtol=1e-12, atol=1e-12)
    square = found.mean**2 + found.slope**2 + found.variance
    expected = without.mean**2 + without.slope**2 + without.variance
    np.testing.assert_allclose(mean_over_length(square), expected, rtol=1e-10)


@pytest.mark.parametrize("activation", ["relu", "tanh(2*x)+.3*x**2", "x+.5*hermite2+.3*hermite3+.1*hermite4", "2*x-1"])
def test_features_follow_the_length_by_their_derivatives_in_the_variance(activation):
    """For a quadratic form l of Gaussian inputs, E f(z) l = s/2 E f''(z), s times a derivative in the variance."""
    found, without = by_length(activation)
    function, step, s = scalar_function(activation), 1e-3, LENGTHS[:, None]
    centre, deviation = PROJECTION[:, None] * without.kappa, np.sqrt(VARIANCE)[:, None]
    less, more = (smoothed(function, centre, deviation * math.sqrt(1 + sign * step)) for sign in (-1, 1))
    np.testing.assert_allclose(
        mean_over_length(found.mean, 1), s * (more.mean - less.mean) / (2 * step), rtol=0.01, atol=1e-6
    )
    square = found.mean**2 + found.slope**2 + found.variance
    grown = s * (more.second_moment - less.second_moment) / (2 * step)
    # What is left is bounded where it would change by more than it is.
    np.testing.assert_allclose(mean_over_length(square, 1)[0], grown[0], rtol=0.02, atol=1e-6)
    # E z f(z) l = s/2 E (z f)'' = s (E f' + E z f'' / 2).
    one, other = (each.slope / math.sqrt(1 + sign * step) for sign, each in ((-1, less), (1, more)))
    slope = found.slope / np.sqrt(found.stretch)
    expected = s * (without.slope + (other - one) / (2 * step))
    kept = mean_over_length(slope * found.stretch, 1)
    np.testing.assert_allclose(kept[0], expected[0], rtol=0.01, atol=1e-6)
    # Longer ones: what is left out is of third order in s.
    largest = np.abs(without.slope).max(axis=1, keepdims=True) + np.abs(other - one).max(axis=1, keepdims=True) / step
    assert np.all(np.abs(kept - expected) <= 3 * s**3 * largest + 1e-6)


@pytest.mark.parametrize("degree", [2, 3])
def test_slopes_along_products_follow_the_length_by_their_derivative(degree):
    """The part of degree k of f = a h_k + b h_(k+2) follows the length: E f h_k l = a k s + b sqrt((k+1)(k+2)) s/2."""
    groups = Groups(np.ones(1), np.zeros(1), np.ones(1), *np.zeros((2, 1)), np.ones(1), *np.zeros((9, 1)))
    function, s = scalar_function(f"hermite{degree}+.3*hermite{degree + 2}"), 0.02
    found = conditional_features(
        function, scalar_function("sin"), groups, 0.0, dimension=400, any_loss=True, lengths=np.array([s])
    )
    along = found.higher[degree - 2]
    # Products of so many coordinates have the variance 1 + k s l.
    power = 1 + degree * s * np.tile(SHORT_AND_LONG, along.shape[1] // 2)
    own, more = math.sqrt(math.factorial(degree)), 0.3 * math.sqrt(math.factorial(degree + 2))
    expected = own * degree * s + more * math.sqrt((degree + 1) * (degree + 2)) * s / 2
    np.testing.assert_allclose(mean_over_length(along * power, 1), expected, rtol=0.01)
    np.testing.assert_allclose(mean_over_length(along * power), own, rtol=0.002)


def test_features_of_drawn_inputs_follow_the_length():
    """The same of one row of unequal components and drawn inputs: coefficients given the length by regression."""
    rng = np.random.default_rng(12)
    variance = np.repeat([3.0, 0.5], [10, 40])
    row = rng.standard_normal(50) * np.sqrt(variance)
    row /= np.linalg.norm(row)
    x = rng.standard_normal((400_000, 50))
    length = (np.square(x) @ variance - variance.sum()) / math.sqrt(2 * np.square(variance).sum())
    z, s = x @ row, 2 * np.square(row) @ variance / math.sqrt(2 * np.square(variance).sum())
    groups = Groups(np.ones(1), np.zeros(1), np.ones(1), *np.zeros((2, 1)), np.ones(1), *np.zeros((9, 1)))
    for activation in ("relu", "x+.3*hermite2+.3*hermite3"):
        function = scalar_function(activation)
        found = conditional_features(
            function, scalar_function("sin"), groups, 0.0, dimension=400, any_loss=True, lengths=np.array([s])
        )
        values, slope = np.asarray(function(z)), found.slope / np.sqrt(found.stretch)
        for drawn, expected in (
            (values * length, mean_over_length(found.mean, 1)[0, 0]),
            (values * z, mean_over_length(slope * found.stretch)[0, 0]),
            (values * z * length, mean_over_length(slope * found.stretch, 1)[0, 0]),
            (values**2, mean_over_length(found.mean**2 + found.slope**2 + found.variance)[0, 0]),
        ):
            # Terms of third order in s are left out.
            error = drawn.std() / math.sqrt(len(drawn))
            assert abs(drawn.mean() - expected) < 4 * error + s**3 * abs(expected) + s**3 / 2
