"""Convex functions: values, derivatives, proximal points and envelopes against their definitions."""

import pickle

import numpy as np
import pytest

from gradstep.convex import PiecewiseQuadratic, loss, penalty
from gradstep.errors import InvalidInput

LOSSES = [
    "square",
    "absolute",
    "huber(0.7)",
    "pseudo_huber(0.5)",
    "logistic",
    "hinge",
    "squared_hinge",
    "smooth_hinge(0.4)",
]
FUNCTIONS = {name: loss(name).function for name in LOSSES} | {
    f"penalty {name}": penalty(name).function for name in ("l1", "elastic_net(0.3)", "huber(0.2)")
}
EACH = pytest.mark.parametrize("name", FUNCTIONS)


def arguments():
    """Points u and steps v over many decades, away from kinks with probability one."""
    rng = np.random.default_rng(3)
    return rng.normal(size=400) * 10 ** rng.uniform(-2, 1.5, 400), 10 ** rng.uniform(-4, 4, 400)


@EACH
def test_derivative_is_that_of_the_value(name):
    function, (x, _) = FUNCTIONS[name], arguments()
    step = 1e-6
    slope = (function.value(x + step) - function.value(x - step)) / (2 * step)
    np.testing.assert_allclose(function.derivative(x), slope, rtol=1e-6, atol=1e-8)


@EACH
def test_functions_are_convex_with_minimum_zero_or_infimum_zero(name):
    function = FUNCTIONS[name]
    x = np.linspace(-60, 60, 4001)
    assert (np.diff(function.derivative(x)) >= -1e-12).all()
    assert 0 <= function.value(x).min() < 1e-12


@EACH
def test_proximal_point_minimises_its_objective(name):
    function, (u, v) = FUNCTIONS[name], arguments()

    def objective(x):
        return function.value(x) + (x - u) ** 2 / (2 * v)

    point = function.proximal(u, v).point
    lowest = objective(point)
    for move in (-1e-3, 1e-3, -0.1, 0.1, -3.0, 3.0):
        # A strongly convex objective grows at least like its quadratic part.
        assert (objective(point + move) - lowest >= move**2 / (2 * v) * (1 - 1e-6) - 1e-9 * (1 + lowest)).all()


@EACH
def test_envelope_derivatives(name):
    function, (u, v) = FUNCTIONS[name], arguments()
    envelope = function.proximal(u, v)
    np.testing.assert_allclose(envelope.slope, (u - envelope.point) / v, rtol=1e-7, atol=1e-9 / v.min())
    step = 1e-5
    ends = function.breakpoints(v)
    smooth = (np.abs(u[:, None] - ends) > 3 * step).all(axis=1)
    change = (function.proximal(u + step, v).slope - function.proximal(u - step, v).slope) / (2 * step)
    np.testing.assert_allclose(envelope.curvature[smooth], change[smooth], rtol=1e-4, atol=1e-4)
    assert ((envelope.curvature >= 0) & (envelope.curvature * v <= 1 + 1e-12)).all()


@pytest.mark.parametrize("name", ["logistic", "pseudo_huber(0.5)"])
@pytest.mark.parametrize("v", [1e-6, 0.3, 4.0, 50.0, 1e4])
def test_singular_points_of_smooth_envelopes(name, v):
    """There ``u = x + v f'(x)`` and ``1 + v f''(x) = 0``: the proximal point changes like a square root."""
    function = FUNCTIONS[name]
    if name == "logistic":
        first, second = lambda x: -1 / (1 + np.exp(x)), lambda x: np.exp(x) / (1 + np.exp(x)) ** 2
        points = [2 * np.arcsinh(np.sqrt(v) / 2) * sign + np.pi * 1j for sign in (1, -1)]
    else:
        first, second = lambda x: 2 * x / np.sqrt(1 + 4 * x**2), lambda x: 2 / (1 + 4 * x**2) ** 1.5
        third = (2 * v) ** (1 / 3) * np.exp(np.pi * 1j / 3)
        right = 0.5j * np.sqrt(1 - third**2)
        points = [right, -np.conj(right)]
    found = function.singular_points(np.array(v))
    assert found.shape == (2,)
    for u, x in zip(found, points, strict=True):
        np.testing.assert_allclose(x + v * first(x), u, rtol=1e-10)
        assert abs(1 + v * second(x)) < 1e-7 * (1 + abs(v * second(x)))
        assert u.imag > 0


def test_closed_forms():
    x = np.linspace(-3, 3, 25)
    np.testing.assert_allclose(loss("hinge").value(1.0, x), np.maximum(1 - x, 0), atol=1e-14)
    np.testing.assert_allclose(loss("squared_hinge").value(-1.0, x), np.maximum(1 + x, 0) ** 2, atol=1e-13)
    np.testing.assert_allclose(loss("logistic").value(-1.0, x), np.log1p(np.exp(x)), rtol=1e-13)
    huber = np.where(np.abs(x) < 0.7, x**2, 1.4 * np.abs(x) - 0.49)
    np.testing.assert_allclose(loss("huber(0.7)").value(x, 0.0), huber, atol=1e-13)
    np.testing.assert_allclose(penalty("elastic_net(0.3)").function.value(x), 0.3 * np.abs(x) + 0.7 * x**2, atol=1e-13)
    soft = np.sign(x) * np.maximum(np.abs(x) - 0.8, 0)
    np.testing.assert_allclose(penalty("l1").function.proximal(x, np.array(0.8)).point, soft, atol=1e-14)
    smooth = loss("smooth_hinge(0.5)").value(1.0, x)
    expected = np.where(x >= 1, 0, np.where(x > 0.5, (1 - x) ** 2, 0.75 - x))
    np.testing.assert_allclose(smooth, expected, atol=1e-13)


@pytest.mark.parametrize("delta", [1e-3, 1.0, 1e3, 1e6])
def test_values_of_a_wide_core_lose_no_digits(delta):
    # From the first kink on, the integral was some 1e12 for the widest core, and the square lost as many digits.
    x = np.array([-3.0, -1e-4, 0.0, 1e-9, 0.02, 2.0]) * min(delta, 1.0)
    core = np.abs(x) <= delta
    np.testing.assert_allclose(loss(f"huber({delta})").value(x, 0.0)[core], x[core] ** 2, rtol=1e-14)
    far = 3 * delta * np.array([-1.0, 1.0])
    np.testing.assert_allclose(loss(f"huber({delta})").value(far, 0.0), 5 * delta**2, rtol=1e-14)
    # On what is not symmetric, with a vertex within a piece and a flat one.
    lopsided = PiecewiseQuadratic((-1.0, 2.0, 3.0), (-4.0, -1.0, 1.0, 1.0), (0.0, 2.0, 1.0, 1.0))
    np.testing.assert_allclose(lopsided.value([0.5, 2.0, 4.0, -2.0]), [0.0, 2.25, 10.25, 6.25], rtol=1e-14)
    np.testing.assert_allclose(
        PiecewiseQuadratic((0.0, 1.0), (-1.0, 0.0, 2.0), (0.0,) * 3).value([-1, 0.5, 2]), [1, 0, 2]
    )


@pytest.mark.parametrize("name", LOSSES)
def test_slope_and_proximal_output_in_terms_of_the_output(name):
    chosen, rng = loss(name), np.random.default_rng(0)
    labels, outputs = np.sign(rng.normal(size=200)), 2 * rng.normal(size=200)
    step = 1e-6
    change = (chosen.value(labels, outputs + step) - chosen.value(labels, outputs - step)) / (2 * step)
    np.testing.assert_allclose(chosen.slope(labels, outputs), change, rtol=1e-5, atol=1e-6)
    point = chosen.proximal_output(labels, outputs, np.array(0.3))
    # Where the loss is smooth, the optimality condition in the output.
    at = chosen.slope(labels, point) + (point - outputs) / 0.3
    smooth = np.abs(chosen.slope(labels, point + 1e-7) - chosen.slope(labels, point - 1e-7)) < 1e-3
    assert smooth.any()
    np.testing.assert_allclose(at[smooth], 0.0, atol=1e-10)


def test_names_round_trip():
    for name in LOSSES:
        assert loss(loss(name).name).name == loss(name).name
    assert loss("huber").name == "huber(1.0)"
    assert penalty(penalty("l1")).name == "l1"


@pytest.mark.parametrize("name", ["cubic", "huber(-1)", "huber(0)", "logistic(2)", "huber(a)", "huber(nan)", 3, ""])
def test_bad_losses_are_refused(name):
    with pytest.raises(InvalidInput, match="loss"):
        loss(name)


@pytest.mark.parametrize("name", ["l2", "elastic_net(1.5)", "ridge(2)", None])
def test_bad_penalties_are_refused(name):
    with pytest.raises(InvalidInput, match="penalty"):
        penalty(name)


@pytest.mark.parametrize("name", ["logistic", "pseudo_huber", "pseudo_huber(0.5)", "huber", "smooth_hinge(0.3)"])
def test_losses_are_values(name):
    assert loss(name) == loss(name)
    assert pickle.loads(pickle.dumps(loss(name))) == loss(name)
    assert loss("pseudo_huber(0.5)") != loss("pseudo_huber(0.6)")
