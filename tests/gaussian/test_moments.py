"""Moments of functions and of their derivatives."""

import math

import numpy as np
import pytest

from gradstep.errors import InvalidInput, NotConverged
from gradstep.gaussian import REGISTERED, expectation, hermite_coefficients, moments, scalar_function

ROOT_TWO_OVER_PI = math.sqrt(2 / math.pi)
JUMPS = {"sign", "heaviside"}


def test_relu():
    m = moments("relu")
    assert m.mean == pytest.approx(1 / math.sqrt(2 * math.pi), abs=1e-14)
    assert m.linear == pytest.approx(0.5, abs=1e-14)
    assert m.quadratic == pytest.approx(1 / math.sqrt(2 * math.pi) / math.sqrt(2), abs=1e-13)
    assert m.second_moment == pytest.approx(0.5, abs=1e-14)
    assert m.derivative_mean == pytest.approx(0.5, abs=1e-13)
    assert m.derivative_second_moment == pytest.approx(0.5, abs=1e-13)
    assert m.derivative_z2 == pytest.approx(0.5, abs=1e-13)
    assert m.derivative_variance == pytest.approx(0.25, abs=1e-13)
    assert m.nonlinear_second_moment == pytest.approx(0.25 - 1 / (2 * math.pi), abs=1e-14)


def test_sign_has_an_ordinary_derivative_of_zero():
    m = moments("sign")
    assert m.linear == pytest.approx(ROOT_TWO_OVER_PI, abs=1e-14)
    assert m.derivative_mean == m.derivative_second_moment == m.derivative_variance == 0.0
    assert m.nonlinear_second_moment == pytest.approx(1 - 2 / math.pi, abs=1e-14)


def test_sine():
    m = moments("sin")
    assert m.derivative_mean == pytest.approx(math.exp(-0.5), abs=1e-13)
    assert m.derivative_second_moment == pytest.approx((1 + math.exp(-2)) / 2, abs=1e-13)
    assert m.derivative_z2 == pytest.approx(0.0, abs=1e-13)
    assert m.second_moment == pytest.approx((1 - math.exp(-2)) / 2, abs=1e-13)


@pytest.mark.parametrize("degree", range(2, 11))
def test_hermite(degree):
    m = moments(f"H{degree}")
    factorial = math.factorial(degree)
    assert m.second_moment == pytest.approx(factorial, rel=1e-12)
    assert m.derivative_second_moment == pytest.approx(degree * factorial, rel=1e-11)
    assert m.mean == pytest.approx(0, abs=1e-9)
    assert m.quadratic == pytest.approx(math.sqrt(2) * (degree == 2), abs=1e-9)


@pytest.mark.parametrize("name", [*REGISTERED, "tanh(x) + 0.3*x**2", "abs(x)**1.5", "tanh(8*x)"])
def test_identities(name):
    function = scalar_function(name)
    m = moments(function)
    size = max(1.0, m.second_moment, m.derivative_second_moment)
    direct = expectation(lambda z: np.stack([function(z), function(z) * z, function(z) ** 2]), kinks=function.kinks)
    assert np.allclose([m.mean, m.linear, m.second_moment], direct.value, atol=1e-11 * size, rtol=1e-11)
    c = hermite_coefficients(function, 3)
    assert [m.mean, m.linear, m.quadratic] == pytest.approx(list(c[:3]), abs=1e-11 * size)
    assert m.nonlinear_second_moment == pytest.approx(m.second_moment - m.mean**2 - m.linear**2, abs=1e-11 * size)
    assert m.derivative_variance == pytest.approx(m.derivative_second_moment - m.derivative_mean**2, abs=1e-11 * size)
    if name not in JUMPS:
        assert m.derivative_mean == pytest.approx(m.linear, abs=1e-10 * size)
        # E f' z^2 = E f' + sqrt 2 E f' h_2 = c_1 + sqrt(2 * 3) c_3
        assert m.derivative_z2 == pytest.approx(c[1] + math.sqrt(6) * c[3], abs=1e-10 * size)
        # Gaussian Poincare inequality
        assert m.second_moment - m.mean**2 <= m.derivative_second_moment * (1 + 1e-12)


def test_a_steep_function_whose_derivative_is_missed_is_refused():
    with pytest.raises(NotConverged, match="mean derivative of tanh"):
        moments("tanh(1e4*x)")
    assert moments("tanh(300*x)").derivative_mean == pytest.approx(ROOT_TWO_OVER_PI, rel=1e-4)


def test_cached():
    assert moments("tanh") is moments(scalar_function("tanh(x)"))


def test_monte_carlo_of_the_derivative():
    z = np.random.default_rng(3).standard_normal(400_000)
    function = scalar_function("silu")
    slope = function.derivative(z)
    m = moments(function)
    draws = np.stack([slope, slope**2, slope * z**2, (slope - m.derivative_mean) ** 2])
    exact = np.array([m.derivative_mean, m.derivative_second_moment, m.derivative_z2, m.derivative_variance])
    scores = (draws.mean(1) - exact) / (draws.std(1) / math.sqrt(z.size))
    assert np.all(np.abs(scores) < 4.5), scores


@pytest.mark.parametrize("formula", ["tanh(1e4*(x - 0.3)) + 0.001*relu(x)", "tanh(1e5*(x - 0.7)) + 1e-9*abs(x)"])
def test_a_kink_does_not_hide_that_a_derivative_is_missed(formula):
    with pytest.raises(NotConverged, match="mean derivative"):
        moments(formula)


@pytest.mark.parametrize("formula", ["sign(x - 0.3) + x", "heaviside(x)*sin(x + 1)", "abs(x)**1.5 + 3*sign(x**2 - 1)"])
def test_the_mean_derivative_lacks_what_the_function_jumps(formula):
    function, m = scalar_function(formula), moments(formula)
    kinks = np.array(function.kinks)
    density = np.exp(-(kinks**2) / 2) / math.sqrt(2 * math.pi)
    jumps = (function(kinks + 1e-10) - function(kinks - 1e-10)) @ density
    assert m.derivative_mean + jumps == pytest.approx(m.linear, abs=1e-8)


@pytest.mark.parametrize("name", ["sign", "heaviside"])
def test_a_jump_that_is_only_touched_counts_for_nothing(name):
    assert moments(f"{name}(x**2)").mean == pytest.approx(1, abs=1e-14)
    assert moments(f"{name}(1 - cos(x))").mean == pytest.approx(1, abs=1e-14)


@pytest.mark.parametrize(
    ("formula", "kinks", "mean_square"),
    [
        ("sign(relu(x))", (0.0,), 0.5),
        ("sign(x - abs(x))", (0.0,), 0.5),
        ("sign(x - hardtanh(x))", (-1.0, 1.0), math.erfc(2**-0.5)),
        ("relu(x)**1.5", (0.0,), math.sqrt(2 / math.pi)),
    ],
)
def test_a_level_that_is_held_on_an_interval_has_kinks_at_its_ends_only(formula, kinks, mean_square):
    assert scalar_function(formula).kinks == kinks
    assert moments(formula).second_moment == pytest.approx(mean_square, abs=1e-12)


def test_what_vanishes_on_an_interval_is_no_denominator():
    for formula in ("1/relu(x)", "1/(x - hardtanh(x))", "relu(x)**0.5"):
        with pytest.raises(InvalidInput, match="at x ="):
            scalar_function(formula)
