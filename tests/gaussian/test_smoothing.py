"""Gaussian averages against independent quadrature, identities, closed forms and Monte Carlo."""

import math

import numpy as np
import pytest
import scipy.special
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from gradstep.errors import InvalidInput
from gradstep.gaussian import (
    REGISTERED,
    expectation,
    gaussian_rule,
    hermite_smoothed,
    hermite_values,
    moments,
    scalar_function,
    smoothed,
    smoothed_mean,
    structure,
)
from gradstep.gaussian.expression import compile_expression, differentiate
from gradstep.gaussian.functions import ScalarFunction
from gradstep.gaussian.smoothing import _function_edges

FORMULAS = [
    "tanh(8*x)",
    "tanh(x) + 0.3*x**2",
    "relu(2*x-1) + 0.1*tanh(x)",
    "sqrt(1+x**2)",
    "x/(1+x**2)",
    "max(x, 0.5*sin(x))",
    "abs(x)**1.5",
    "H2 + 0.5*H3",
    "exp(0.1*x)",
    "relu(x)*x**4",
    "sign(x**2-1)",
    "tanh(x**3)",
    "log(1+exp(x))",
    "sin(x)*tanh(x)",
    "erf(x)**3",
    "softplus(8*x)",
    "exp(-50*x**2)",
    "x**2*exp(-x**2/2)",
    "exp(-x**2+3*x-1)",
    "cos(2*x)*exp(-x**2)",
    "log(1+x**2)",
    "1/(1+2*x**2+x**4)**2",
    "(2-x+x**2)**-1.5",
    "1/((1+x**2)*(1.3+x**2)**8)",
    "1/(1+(x-30)**12)",
    "1/(1+100*x**2)",
    "relu(sin(x))",
    "sin(2*x) + 0.3*cos(x)",
    "x - 2 + cos(3*x - 1)/2",
    "2*(sin(x) - 0.5*sin(2*x) + cos(x/3)) - sin(3*x)",
]
MEANS, SCALES = np.meshgrid([-10.0, -1.0, 0.0, 0.3, 2.0, 10.0], [0.01, 0.3, 1.0, 8.0, 30.0])
NAMES = [*REGISTERED, *FORMULAS]


def reference(function, mean, scale, slope=0.0, level=0.0):
    """(E f, E z f, E f^2, E (f - level - slope z)^2) by adaptive quadrature."""

    def integrand(x):
        z, f = (x - mean) / scale, function(x)
        return np.stack([f, z * f, f * f, (f - level - slope * z) ** 2])

    return expectation(integrand, kinks=function.kinks, mean=mean, scale=scale)


@pytest.mark.parametrize("name", NAMES)
def test_every_mean_and_scale_against_adaptive_quadrature(name):
    function = scalar_function(name)
    means, scales = MEANS, SCALES if name != "exp" else np.minimum(SCALES, 3.0)
    result = smoothed(function, means, scales)
    for index in np.ndindex(means.shape):
        got = np.array([field[index] for field in result])
        value, error = reference(function, means[index], scales[index], got[1], got[0])
        size = max(math.sqrt(value[2]), 1e-2)
        limit = 1e-10 * np.array([size, size, size**2, size**2])
        assert np.all(error < limit)
        assert np.all(np.abs(got - value) < limit), (means[index], scales[index], got - value)


@pytest.mark.parametrize("name", ["erf", "erf_scaled", "erf(3*x-1)"])
def test_a_steep_error_function_alone_has_closed_averages(name):
    """Where all scales of a batch are wide: a narrow one among them takes panels for all."""
    function, means, scales = scalar_function(name), MEANS[-2:], SCALES[-2:]
    found = smoothed(function, means, scales)
    for place in np.ndindex(means.shape):
        expected = reference(function, means[place], scales[place], found.slope[place], found.mean[place]).value
        values = (found.mean, found.slope, found.second_moment, found.residual_variance)
        np.testing.assert_allclose([value[place] for value in values], expected, atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_batch_and_single_values_agree(name):
    function = scalar_function(name)
    means, scales = MEANS[:3], SCALES[:3]
    whole = smoothed(function, means, scales)
    size = np.maximum(1.0, whole.second_moment)
    for index in [(0, 0), (1, 3), (2, 5)]:
        for field, single in zip(whole, smoothed(function, means[index], scales[index]), strict=True):
            assert single.shape == ()
            assert abs(field[index] - single) < 1e-11 * size[index]


@pytest.mark.parametrize("name", [n for n in NAMES if n not in ("sign", "heaviside", "sign(x**2-1)")])
def test_stein_identity(name):
    function = scalar_function(name)
    slope = ScalarFunction.from_callable(function.derivative, kinks=function.kinks, derivative=np.zeros_like)
    for mean, scale in [(0.0, 1.0), (0.7, 0.5), (-1.5, 2.0)]:
        value = smoothed(function, mean, scale)
        derivative = expectation(slope, kinks=function.kinks, mean=mean, scale=scale).value
        size = math.sqrt(value.second_moment)
        assert value.slope == pytest.approx(scale * derivative, abs=2e-10 * max(size, 1.0))


@pytest.mark.parametrize("name", NAMES)
def test_parity(name):
    function = scalar_function(name)
    if function.parity is None:
        return
    sign = -1.0 if function.parity == "odd" else 1.0
    mean, scale = np.array([0.0, 0.5, 3.0]), np.array([[0.2], [1.0], [5.0 if name != "exp(0.1*x)" else 1.0]])
    right, left = smoothed(function, mean, scale), smoothed(function, -mean, scale)
    size = np.sqrt(right.second_moment)
    np.testing.assert_allclose(left.mean / size, sign * right.mean / size, atol=1e-11)
    np.testing.assert_allclose(left.slope / size, -sign * right.slope / size, atol=1e-11)
    np.testing.assert_allclose(left.second_moment, right.second_moment, rtol=1e-11)


@given(st.sampled_from(NAMES), st.floats(-5, 5), st.floats(0, 10))
@example("sign", 0.0, 5e-324)
@example("sign", 5e-324, 5e-324)
@example("tanh", 0.0, 1e-9)
@settings(max_examples=60)
def test_bessel(name, mean, scale):
    """mean^2 + slope^2 <= E f^2, measured by itself, and the residual variance is what is missing."""
    # Near its jumps at 1 and -1 the floats lie 2e-16 apart: they do not resolve a smaller scale.
    assume(name != "sign(x**2-1)" or scale == 0 or scale > 1e-12)
    function, scale = scalar_function(name), min(scale, 3.0) if "exp" in name else scale
    value = smoothed(function, mean, scale)
    square = function(mean) ** 2 if scale == 0 else reference(function, mean, scale)[0][2]
    assert value.residual_variance >= 0
    assert value.mean**2 + value.slope**2 <= square * (1 + 1e-10) + 1e-300
    total = value.mean**2 + value.slope**2 + value.residual_variance
    assert total == pytest.approx(square, rel=1e-10, abs=1e-14)


@given(st.floats(-3, 3), st.floats(-3, 3), st.floats(-2, 2), st.floats(0.05, 3))
@settings(max_examples=40)
def test_linearity(a, b, mean, scale):
    both = scalar_function(f"{a!r}*tanh(x) + {b!r}*relu(x)")
    first, second = smoothed(scalar_function("tanh"), mean, scale), smoothed(scalar_function("relu"), mean, scale)
    value = smoothed(both, mean, scale)
    assert value.mean == pytest.approx(a * first.mean + b * second.mean, abs=1e-11)
    assert value.slope == pytest.approx(a * first.slope + b * second.slope, abs=1e-11)


@pytest.mark.parametrize("name", NAMES)
def test_zero_scale(name):
    function = scalar_function(name)
    x = np.array([-1.7, 0.0, 2.3])
    value = smoothed(function, x, 0.0)
    np.testing.assert_array_equal(value.mean, function(x))
    np.testing.assert_array_equal(value.slope, 0.0)
    np.testing.assert_array_equal(value.residual_variance, 0.0)
    np.testing.assert_array_equal(hermite_smoothed(function, x, [0.0, 0.0, 0.0], 2)[1:], 0.0)


@pytest.mark.parametrize(
    ("formula", "alike"), [("sign(tanh(2*x))", "sign(x)"), ("0.4*heaviside(exp(x) - 1)", "0.4*heaviside(x)")]
)
def test_a_sign_of_anything_is_constant_between_its_changes(formula, alike):
    """In closed form: by panels, chances of classes took ten times as long."""
    assert structure.is_piecewise_linear(scalar_function(formula).expression)
    mean, scale = np.linspace(-6, 6, 25)[:, None], np.array([0.0, 1e-9, 0.2, 1.0, 30.0])
    found, expected = (smoothed(scalar_function(text), mean, scale) for text in (formula, alike))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-14)


def test_closed_forms():
    m, s = MEANS, SCALES
    t = m / s
    density, below = np.exp(-(t**2) / 2) / math.sqrt(2 * math.pi), scipy.special.ndtr(t)
    relu = smoothed(REGISTERED["relu"], m, s)
    np.testing.assert_allclose(relu.mean, m * below + s * density, atol=1e-12)
    np.testing.assert_allclose(relu.slope, s * below, atol=1e-12)
    sign = smoothed(REGISTERED["sign"], m, s)
    np.testing.assert_allclose(sign.mean, scipy.special.erf(t / math.sqrt(2)), atol=1e-13)
    np.testing.assert_allclose(sign.slope, 2 * density, atol=1e-13)
    np.testing.assert_allclose(sign.second_moment, 1.0, atol=1e-13)
    sine = smoothed(REGISTERED["sin"], m, s)
    np.testing.assert_allclose(sine.second_moment, (1 - np.exp(-2 * s**2) * np.cos(2 * m)) / 2, atol=1e-13)
    # E erf(x)^2 = (2/pi) arcsin(2 s^2 / (1 + 2 s^2)) at mean 0; elsewhere through Owen's T.
    erf = smoothed(REGISTERED["erf"], 0.0, s[:, 0])
    np.testing.assert_allclose(
        erf.second_moment, 2 / math.pi * np.arcsin(2 * s[:, 0] ** 2 / (1 + 2 * s[:, 0] ** 2)), atol=1e-12
    )
    erf = smoothed(REGISTERED["erf"], m, s)
    width = np.sqrt(1 + 2 * s**2)
    np.testing.assert_allclose(erf.mean, scipy.special.erf(m / width), atol=1e-12)
    np.testing.assert_allclose(
        erf.second_moment,
        1 - 8 * scipy.special.owens_t(math.sqrt(2) * m / width, 1 / np.sqrt(1 + 4 * s**2)),
        atol=1e-12,
    )
    gelu = smoothed(REGISTERED["gelu"], 0.0, 1.0)
    assert gelu.mean == pytest.approx(1 / (2 * math.sqrt(math.pi)), abs=1e-12)


def test_saturated_limits():
    """At a large scale tanh is sign and softplus is relu, up to 1 / scale."""
    m = np.array([-1.0, 0.0, 2.0])
    steep, jump = smoothed(REGISTERED["tanh"], 1e6 * m, 1e6), smoothed(REGISTERED["sign"], m, 1.0)
    np.testing.assert_allclose(steep.mean, jump.mean, atol=1e-5)
    np.testing.assert_allclose(steep.slope, jump.slope, atol=1e-5)


def test_residual_variance_keeps_relative_accuracy_near_linear():
    scale = 1e-3
    # sin = x - x^3/6: E (f - mean - slope z)^2 = s^6 / 6 to leading order
    assert smoothed(REGISTERED["sin"], 0.0, scale).residual_variance == pytest.approx(scale**6 / 6, rel=1e-5)
    assert smoothed(REGISTERED["tanh"], 0.0, scale).residual_variance == pytest.approx(4 * scale**6 / 6, rel=1e-4)
    x = 1.0
    curvature = -2 * math.tanh(x) / math.cosh(x) ** 2
    expected = curvature**2 * scale**4 / 2
    assert smoothed(REGISTERED["tanh"], x, scale).residual_variance == pytest.approx(expected, rel=1e-4)
    # relu(t + z) far on its linear side: twice-integrated tail of the Gaussian
    t = 7.0
    tail = (1 + t * t) * 0.5 * math.erfc(t / math.sqrt(2)) - t * math.exp(-t * t / 2) / math.sqrt(2 * math.pi)
    assert smoothed(REGISTERED["relu"], t, 1.0).residual_variance == pytest.approx(tail, rel=1e-3)


def test_hermite_values_are_orthonormal():
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    basis = hermite_values(nodes, 25)
    np.testing.assert_allclose((basis * (weights / weights.sum())) @ basis.T, np.eye(26), atol=1e-11)
    with pytest.raises(InvalidInput):
        hermite_values(0.0, -1)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("mean", "scale"), [(0.0, 1.0), (-1.3, 0.4), (0.5, 4.0)])
def test_hermite_smoothed(name, mean, scale):
    function = scalar_function(name)
    scale = min(scale, 1.0) if name == "exp" else scale
    value = hermite_smoothed(function, mean, scale, 12)
    first = smoothed(function, mean, scale)
    size = max(1.0, math.sqrt(first.second_moment))
    assert value[0] == pytest.approx(first.mean, abs=1e-11 * size)
    assert value[1] == pytest.approx(first.slope, abs=1e-11 * size)
    assert np.sum(value**2) <= first.second_moment * (1 + 1e-9) + 1e-20
    exact = expectation(
        lambda x: function(x) * hermite_values((x - mean) / scale, 12), kinks=function.kinks, mean=mean, scale=scale
    ).value
    np.testing.assert_allclose(value, exact, atol=1e-10 * size)


@pytest.mark.parametrize("name", ["erf(2*x-0.3)", "erf(x)", "tanh(x)", "relu(x)", "sin(x)", "abs(tanh(x))"])
def test_the_mean_alone_is_that_of_all_averages(name):
    mean, scale = np.linspace(-9, 9, 31)[:, None], np.array([0.0, 1e-8, 0.3, 1.0, 7.0])
    function = scalar_function(name)
    np.testing.assert_allclose(smoothed_mean(function, mean, scale), smoothed(function, mean, scale).mean, atol=1e-13)
    with pytest.raises(InvalidInput):
        smoothed_mean(function, mean, -scale)


def test_hermite_smoothed_derivative_identity():
    """E f'(m + s z) h_k = sqrt(k + 1) / s E f(m + s z) h_{k+1}, an identity across orders."""
    function = scalar_function("tanh(x) + 0.3*x**2")
    derivative = scalar_function("1 - tanh(x)**2 + 0.6*x")
    mean, scale = np.array([0.0, 0.4, -2.0]), np.array([0.5, 1.0, 2.0])
    lower = hermite_smoothed(derivative, mean, scale, 9)
    upper = hermite_smoothed(function, mean, scale, 10)
    root = np.sqrt(np.arange(1, 11))[:, None]
    np.testing.assert_allclose(lower, root * upper[1:] / scale, atol=1e-10)


def test_shapes_and_bounded_memory():
    mean = np.random.default_rng(0).normal(size=(1000, 60))
    scale = np.exp(np.linspace(-4, 3, 1000))[:, None]
    value = smoothed(REGISTERED["tanh"], mean, scale)
    assert value.mean.shape == (1000, 60)
    assert hermite_smoothed(REGISTERED["tanh"], mean[:50], scale[:50], 4).shape == (5, 50, 60)
    index = (613, 17)
    single = smoothed(REGISTERED["tanh"], mean[index], scale[index[0], 0])
    assert value.residual_variance[index] == pytest.approx(single.residual_variance, abs=1e-12)
    assert smoothed(REGISTERED["tanh"], np.empty((0, 3)), 1.0).mean.shape == (0, 3)
    assert smoothed(scalar_function("abs(x)**1.5"), np.empty((0, 3)), 1.0).mean.shape == (0, 3)


@pytest.mark.parametrize("name", ["tanh(x)", "sigmoid(x)", "tanh(1-3*x)"])
@pytest.mark.parametrize("far", [5.0, 230.0, 1e4])
def test_separate_exponentials_of_mean_and_deviation_are_those_of_the_sum(name, far):
    function, twice = scalar_function(name), scalar_function(f"2*{name}")
    rng = np.random.default_rng(1)
    mean = np.concatenate([rng.uniform(-2, 2, 40), [-far, far]])
    scale = rng.choice([0.3, 0.8, 1.4, 7.0], mean.size)
    found, expected = smoothed(function, mean, scale), smoothed(twice, mean, scale)
    for field, times in zip(found._fields, (2, 2, 4, 4), strict=True):
        np.testing.assert_allclose(times * getattr(found, field), getattr(expected, field), rtol=0, atol=4e-15)


@pytest.mark.parametrize("options", [(0.0, -1.0), (0.0, math.inf), (math.nan, 1.0), (0.0, math.nan)])
def test_refuses(options):
    with pytest.raises(InvalidInput):
        smoothed(REGISTERED["tanh"], *options)
    with pytest.raises(InvalidInput):
        hermite_smoothed(REGISTERED["tanh"], *options, 3)
    with pytest.raises(InvalidInput):
        hermite_smoothed(REGISTERED["tanh"], 0.0, 1.0, -1)


@pytest.mark.parametrize(("name", "scale"), [("exp", 30.0), ("exp(0.2*x**2)", 3.0)])
def test_infinite_averages_are_refused(name, scale):
    with pytest.raises(InvalidInput, match="finite moments"):
        smoothed(scalar_function(name), 0.0, scale)


def test_a_bump_far_from_the_mean_is_no_growth():
    # E f and E f^2 of x exp(-x^2/2) are closed. Far from the mean all of the bump is where z has hardly any mass.
    mean, scale = np.linspace(-80, 80, 41)[:, None], np.array([0.0, 0.1, 1.0, 3.0, 10.0, 40.0, 200.0])
    found = smoothed(scalar_function("x*exp(-x**2/2)"), mean, scale)
    width, narrower = 1 + scale**2, 1 + 2 * scale**2
    np.testing.assert_allclose(found.mean, mean * width**-1.5 * np.exp(-(mean**2) / (2 * width)), rtol=0, atol=1e-15)
    square = (scale**2 / narrower + (mean / narrower) ** 2) * narrower**-0.5 * np.exp(-(mean**2) / narrower)
    # The trapezoidal rule has thirteen digits.
    np.testing.assert_allclose(found.second_moment, square, rtol=0, atol=1e-13)


def test_fast_growth():
    value = smoothed(scalar_function("exp"), 0.5, [0.1, 1.0, 3.0])
    s = np.array([0.1, 1.0, 3.0])
    np.testing.assert_allclose(value.mean, np.exp(0.5 + s**2 / 2), rtol=1e-11)
    np.testing.assert_allclose(value.second_moment, np.exp(1 + 2 * s**2), rtol=1e-11)
    value = smoothed(scalar_function("exp(0.2*x**2)"), 0.0, 1.0)
    assert value.mean == pytest.approx(1 / math.sqrt(0.6), rel=1e-10)
    assert value.second_moment == pytest.approx(1 / math.sqrt(0.2), rel=1e-10)


@pytest.mark.parametrize("name", ["tanh", "silu", "relu(x) + 0.1*tanh(x)", "hardtanh", "sin(x)*tanh(x)"])
def test_monte_carlo(name):
    function = scalar_function(name)
    rng = np.random.default_rng(20240607)
    mean, scale, samples = 0.4, 1.7, 400_000
    z = rng.standard_normal(samples)
    f = function(mean + scale * z)
    value = smoothed(function, mean, scale)
    residual = (f - value.mean - value.slope * z) ** 2
    draws = np.stack([f, z * f, f * f, residual])
    scores = (draws.mean(1) - np.array(value)) / (draws.std(1) / math.sqrt(samples))
    assert np.all(np.abs(scores) < 4.5), scores
    # The check has teeth: two percent of the size of f would be seen in every quantity.
    size = np.sqrt([value.second_moment, value.second_moment, value.second_moment**2, value.second_moment**2])
    assert np.all(0.02 * size > 4.5 * draws.std(1) / math.sqrt(samples))


def test_symbolic_derivative_of_a_kinked_formula():
    function = scalar_function("relu(x**2-1)*tanh(x)")
    slope = compile_expression(differentiate(function.expression))
    value = smoothed(function, 0.2, 1.1)
    derivative = expectation(slope, kinks=function.kinks, mean=0.2, scale=1.1).value
    assert value.slope == pytest.approx(1.1 * derivative, abs=1e-11)


@pytest.mark.parametrize("frequency", [0.3, 1.0, 1.5, 2.0, 3.0, 10.0, 30.0])
def test_sines_in_formulas_have_their_closed_form(frequency):
    # A sine alone has a closed form; in a sum it goes through the quadrature, whose step must follow its frequency.
    function = scalar_function(f"sin({frequency}*x) + 0.5*cos({frequency}*x) + 0.25")
    damping, double = np.exp(-(frequency**2) / 2), np.exp(-2 * frequency**2)
    found = smoothed(function, 0.0, 1.0)
    assert float(found.mean) == pytest.approx(0.5 * damping + 0.25, abs=1e-11)
    assert float(found.slope) == pytest.approx(frequency * damping, abs=1e-11)
    square = (1 - double) / 2 + 0.25 * (1 + double) / 2 + 0.0625 + 0.25 * damping
    assert float(found.second_moment) == pytest.approx(square, abs=1e-11)
    assert moments(function).second_moment == pytest.approx(square, abs=1e-10)


@pytest.mark.parametrize("formula", ["tanh(x)**3", "tanh(x)**5", "x*tanh(x)**3", "H3(tanh(x))", "sigmoid(x)**6"])
@pytest.mark.parametrize("scale", [0.1, 0.3, 1.0, 3.0])
def test_poles_of_higher_order_are_resolved(formula, scale):
    function = scalar_function(formula)
    found = smoothed(function, 0.4, scale)
    z, weight = gaussian_rule(resolution=0.05)
    values = function(0.4 + scale * z)
    size = math.sqrt(weight @ values**2)
    assert float(found.mean) == pytest.approx(weight @ values, abs=1e-11 * size)
    assert float(found.slope) == pytest.approx(weight @ (z * values), abs=1e-11 * size)
    assert float(found.second_moment) == pytest.approx(size**2, rel=1e-11)


@pytest.mark.parametrize("name", ["sin", "cos", "sin(2*x) + 0.3*cos(x)", "x - 2 + cos(3*x - 1)/2"])
def test_residual_variance_of_waves_at_a_small_scale(name):
    """What is left of f beside its tangent is f'' s^2 (z^2 - 1) / 2, of variance (f'' s^2)^2 / 2."""
    function, mean, scale = scalar_function(name), 0.3, 1e-4
    curvature = compile_expression(differentiate(differentiate(function.expression)))(np.array(mean))
    got = smoothed(function, mean, scale).residual_variance
    assert got == pytest.approx(curvature**2 * scale**4 / 2, rel=1e-6)


def test_two_waves_of_nearly_one_frequency_at_a_large_scale():
    """Beats: cos(50 z) and cos(50.01 z) damp each other's mean, not each other."""
    value = smoothed(scalar_function("cos(50*x) - cos(50.01*x)"), 0.0, 1.0)
    assert value.second_moment == pytest.approx(1 - math.exp(-(0.01**2) / 2), rel=1e-9)


@pytest.mark.parametrize("scale", [1e-10, 1e-13, 1e-14, 3e-15, 1e-15, 1e-16, 1e-20, 1e-100])
@pytest.mark.parametrize("formula", ["sign(x**2 - 1)", "x*sign(x**2 - 1)", "heaviside(x**2 - 1)", "sign(x**2 - 4)"])
def test_a_jump_at_the_mean_at_scales_of_the_spacing_of_floats(formula, scale):
    # Both sides have one half, whatever the function is at the jump itself.
    function = scalar_function(formula)
    for kink in function.kinks:
        below, above = (float(function(kink * (1 + side * 1e-9))) for side in (-1, 1))
        if kink < 0:
            below, above = above, below
        found = smoothed(function, kink, scale)
        assert found.mean == pytest.approx((below + above) / 2, abs=1e-8)
        assert found.slope == pytest.approx((above - below) / math.sqrt(2 * math.pi), rel=1e-8)
        assert found.second_moment == pytest.approx((below**2 + above**2) / 2, rel=1e-8)


@pytest.mark.parametrize(
    ("name", "power"), [("tanh", 0), ("sigmoid", 0), ("gelu", 1), ("softplus", 1), ("x*tanh(x)", 1)]
)
def test_at_any_scale_the_panels_are_few_and_the_averages_those_of_the_limit(name, power):
    """Far out these are powers of x, which no panels need to resolve; the limit is that of the step or of the ramp."""
    function = scalar_function(name)
    far = _function_edges(function, 1e30)
    assert far.size == _function_edges(function, 1e8).size < 45
    assert far[-1] == -far[0] == 1e30
    scale = 1e25
    found = hermite_smoothed(function, 0.3 * scale, scale, 3) / scale**power
    low, high = (float(function(side * 1e6)) / 1e6**power for side in (-1, 1))

    def limit(x):
        return np.where(x > 0, high, low) * np.abs(x) ** power

    z, weight = np.polynomial.legendre.leggauss(60)
    expected = np.zeros(4)
    for left, right in ((-9.3, -0.3), (-0.3, 8.7)):
        points, half = 0.5 * (left + right) + 0.5 * (right - left) * z, 0.5 * (right - left)
        density = np.exp(-(points**2) / 2) / math.sqrt(2 * math.pi)
        expected += half * (hermite_values(points, 3) * limit(0.3 + points) * density) @ weight
    np.testing.assert_allclose(found, expected, atol=1e-13)
