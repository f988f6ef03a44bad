"""Expectations with error estimates, and fixed rules."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradstep.errors import InvalidInput
from gradstep.gaussian import expectation, folded, gaussian_rule, hermite_rule, scalar_function, trapezoidal_rule


@pytest.mark.parametrize("power", range(0, 21, 2))
def test_monomials(power):
    value, error = expectation(lambda z: z**power)
    exact = math.prod(range(power - 1, 0, -2))
    assert abs(value - exact) <= 1e-13 * exact
    assert error <= 1e-10 * exact


@pytest.mark.parametrize("t", [0.1, 1.0, 5.0, 20.0])
def test_characteristic_and_moment_generating_functions(t):
    result = expectation(lambda z: np.stack([np.cos(t * z), np.sin(t * z), np.exp(0.1 * t * z)]))
    np.testing.assert_allclose(result.value, [math.exp(-(t**2) / 2), 0.0, math.exp(0.005 * t**2)], atol=1e-12)
    assert np.all(result.error < 1e-10)


@pytest.mark.parametrize("declare", [True, False])
@pytest.mark.parametrize("kink", [-1.3, 0.1234, 3.0])
def test_kinks_and_honest_error(declare, kink):
    kinks = (kink,) if declare else ()
    below = 0.5 * math.erfc(kink / math.sqrt(2))
    density = math.exp(-(kink**2) / 2) / math.sqrt(2 * math.pi)
    value, error = expectation(lambda z: np.stack([1.0 * (z > kink), np.maximum(z - kink, 0)]), kinks=kinks)
    np.testing.assert_allclose(value, [below, density - kink * below], atol=1e-10)
    assert np.all(np.abs(value - [below, density - kink * below]) <= error + 1e-15)


@pytest.mark.parametrize("scale", [5e-324, 1e-310, 1e-100, 1.0])
@pytest.mark.parametrize("kink", [0.0, 1.0])
def test_a_jump_has_one_of_its_two_values_at_any_scale(kink, scale):
    """At a scale near the spacing of floats most arguments are rounded to the kink, where a sign is 0."""
    found = expectation(
        lambda x: np.stack([np.sign(x - kink), np.abs(np.sign(x - kink))]), kinks=(kink,), scale=scale, mean=kink
    )
    np.testing.assert_allclose(found.value, [0.0, 1.0], atol=1e-12)
    above = expectation(lambda x: np.sign(x), kinks=(0.0,), scale=scale, mean=scale)
    assert above.value == pytest.approx(math.erf(math.sqrt(0.5)), abs=1e-12)


def test_work_limit_shows_in_the_error():
    exact = math.exp(-0.5e6)
    value, error = expectation(lambda z: np.cos(1000 * z), maximum_panels=40)
    assert abs(value - exact) <= error
    assert error > 1e-6
    value, error = expectation(lambda z: np.cos(1000 * z))
    assert abs(value - exact) <= 1e-11
    assert error <= 1e-9


def test_sharp_peak():
    width = 0.03
    value, error = expectation(lambda z: np.exp(-0.5 * ((z - 1.0) / width) ** 2))
    exact = width / math.sqrt(1 + width**2) * math.exp(-0.5 / (1 + width**2))
    assert abs(value - exact) <= min(float(error) + 1e-15, 1e-12)


def test_overflow_far_out_is_cut_and_accounted_for():
    value, error = expectation(lambda z: np.exp(18 * z))
    assert abs(value / math.exp(162) - 1) < 1e-9
    assert np.isinf(expectation(lambda z: np.exp(30 * z)).error)
    value, error = expectation(lambda x: np.log1p(np.exp(x)), scale=100.0)
    softplus = expectation(scalar_function("softplus"), scale=100.0)
    assert softplus.error < 1e-10
    assert abs(value - softplus.value) <= error < 1e-6


@given(st.floats(-5, 5), st.floats(0, 10), st.floats(-3, 3), st.floats(-3, 3))
@settings(max_examples=25)
def test_linearity_and_affine_argument(mean, scale, a, b):
    value = expectation(lambda x: np.stack([a * np.tanh(x) + b * x**2, np.tanh(x), x**2]), mean=mean, scale=scale).value
    assert value[0] == pytest.approx(a * value[1] + b * value[2], abs=1e-10 * (1 + scale**2))
    assert value[2] == pytest.approx(mean**2 + scale**2, abs=1e-12, rel=1e-12)


@pytest.mark.parametrize("scale", [-1.0, math.inf, math.nan])
def test_refuses_scale(scale):
    with pytest.raises(InvalidInput):
        expectation(np.cos, scale=scale)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"breakpoints": (0.3, -2.0)},
        {"breakpoints": np.linspace(-9, 9, 50), "order": 8},
        {"resolution": 0.3, "order": 12},
    ],
)
def test_rule(options):
    nodes, weights = gaussian_rule(**options)
    assert np.all(np.diff(nodes) > 0)
    assert np.all(weights > 0)
    assert abs(weights.sum() - 1) < 1e-14
    assert abs(weights @ nodes) < 1e-14
    assert weights @ nodes**8 == pytest.approx(105, rel=1e-10)
    assert weights @ np.cos(3 * nodes) == pytest.approx(math.exp(-4.5), abs=1e-12)


def test_rule_is_exact_across_a_breakpoint():
    nodes, weights = gaussian_rule(breakpoints=(0.37,))
    exact = math.exp(-(0.37**2) / 2) / math.sqrt(2 * math.pi) - 0.37 * 0.5 * math.erfc(0.37 / math.sqrt(2))
    assert abs(weights @ np.maximum(nodes - 0.37, 0) - exact) < 1e-15
    unaware, weight = gaussian_rule()
    assert abs(weight @ np.maximum(unaware - 0.37, 0) - exact) > 1e-8


@pytest.mark.parametrize(
    "options", [{"resolution": 0.0}, {"order": 0}, {"half_range": math.inf}, {"breakpoints": (math.nan,)}]
)
def test_rule_refuses(options):
    with pytest.raises(InvalidInput):
        gaussian_rule(**options)


def test_even_trapezoidal_rule():
    nodes, weights = trapezoidal_rule(0.5, 8.0, thinning=math.inf)
    np.testing.assert_allclose(np.diff(nodes), 0.5, rtol=1e-14)
    assert nodes[-1] == 8.25
    assert weights @ np.cos(2 * nodes) == pytest.approx(math.exp(-2), rel=1e-12)


def test_half_of_a_symmetric_rule_averages_even_functions():
    nodes, weights = folded(trapezoidal_rule(0.25, 8.5, thinning=math.inf))
    assert (nodes > 0).all()
    for power, moment in ((0, 1.0), (2, 1.0), (4, 3.0), (6, 15.0)):
        assert weights @ nodes**power == pytest.approx(moment, rel=1e-13)


def test_trapezoidal_rule():
    for step, digits in ((1.0, 2e-3), (0.7, 3e-7), (0.5, 1e-10), (0.35, 1e-13)):
        nodes, weights = trapezoidal_rule(step, 8.0)
        np.testing.assert_array_equal(nodes, -nodes[::-1])
        assert np.all(np.diff(nodes) > 0)
        assert np.all(weights > 0)
        assert 8 <= nodes[-1] < 8 + 2.5 * step
        assert weights.sum() == pytest.approx(1, abs=1e-15)
        moments = weights @ np.stack([nodes**2, nodes**4, np.cos(2 * nodes)], axis=1)
        np.testing.assert_allclose(moments, [1, 3, math.exp(-2)], rtol=digits)
    # The nodes thin out towards the tails.
    assert np.diff(nodes).max() > 2 * np.diff(nodes).min()


@pytest.mark.parametrize(("step", "half_range"), [(0.0, 7.0), (0.5, -1.0), (math.nan, 7.0), (0.5, math.inf)])
def test_trapezoidal_rule_refuses(step, half_range):
    with pytest.raises(InvalidInput):
        trapezoidal_rule(step, half_range)


@pytest.mark.parametrize("count", [1, 3, 20])
def test_hermite_rule_is_exact_for_polynomials(count):
    nodes, weights = hermite_rule(count)
    for degree in range(2 * count):
        moment = 0.0 if degree % 2 else math.prod(range(1, degree, 2))
        scale = max(1.0, float(weights @ np.abs(nodes) ** degree))
        assert weights @ nodes**degree == pytest.approx(moment, abs=1e-12 * scale)
    with pytest.raises(ValueError, match="read-only"):
        nodes[0] = 0.0


@pytest.mark.parametrize("count", [350, 361, 376, 661, 1000])
def test_hermite_rules_of_hundreds_of_nodes(count):
    nodes, weights = hermite_rule(count)
    assert len(nodes) == count
    assert np.isfinite(weights).all()
    assert weights.sum() == pytest.approx(1, rel=1e-14)
    assert weights @ np.exp(2 * nodes) == pytest.approx(math.exp(2), rel=1e-12)
    assert weights @ nodes**8 == pytest.approx(105, rel=1e-12)
