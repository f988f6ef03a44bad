"""Population kernel: the general method against closed forms, both against two-dimensional quadrature and samples."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gradstep.errors import NotConverged
from gradstep.gaussian import ScalarFunction, scalar_function, smoothed
from gradstep.simulation.closed_kernels import closed_kernel
from gradstep.simulation.conditional_kernel import FeatureKernel, conditional_kernel
from gradstep.simulation.population import feature_kernel
from gradstep.simulation.tiles import map_symmetric

CLOSED = ["linear", "relu", "leaky_relu", "erf", "erf_scaled", "sign", "sin", "cos"]
GENERAL = ["tanh", "tanh(x)**2", "softplus", "hardtanh", "0.3*x + abs(x)", "hermite3"]
Real = NDArray[np.float64]


def general_kernel(function: ScalarFunction, weights: Any, direction: Any, tolerance: float) -> FeatureKernel:
    """Return the kernel by the method for any activation."""
    second_moments = smoothed(function, 0.0, np.linalg.norm(weights, axis=1)).second_moment
    return conditional_kernel(function, weights, direction, tolerance, second_moments)


def spiked(width: int = 40, d: int = 150, strength: float = 2.0, seed: int = 0) -> tuple[Real, Real]:
    """Return weights with a common direction of order one, as after a large step, and that direction."""
    rng = np.random.default_rng(seed)
    direction = rng.standard_normal(d)
    direction /= np.linalg.norm(direction)
    bulk = rng.standard_normal((width, d)) / math.sqrt(d) * rng.uniform(0.8, 1.6, (width, 1))
    return bulk + strength * np.outer(rng.standard_normal(width), direction), direction


def by_quadrature(name: str, covariance: Real, size: int = 16) -> float:
    """Compute E f(u) f(v) by integrating over u the average over v given u; u on panels split at the kinks of f."""
    function = scalar_function(name)
    a, b = math.sqrt(covariance[0, 0]), math.sqrt(covariance[1, 1])
    rho = covariance[0, 1] / (a * b)
    x, w = np.polynomial.legendre.leggauss(size)
    edges = np.unique([*np.linspace(-9, 9, 61), *(k / a for k in function.kinks if abs(k / a) < 9)])
    total = 0.0
    for left, right in pairwise(edges):
        z = (left + right) / 2 + (right - left) / 2 * x
        weight = w * (right - left) / 2 * np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
        inner = smoothed(function, b * rho * z, np.full(size, b * math.sqrt(1 - rho**2))).mean
        total += float(np.sum(weight * function(a * z) * inner))
    return total


@pytest.mark.parametrize("name", CLOSED)
def test_closed_forms_against_quadrature(name: str) -> None:
    closed = closed_kernel(scalar_function(name))
    assert closed is not None
    for a, b, rho in ((1.0, 1.0, 0.3), (1.7, 0.6, -0.8), (0.9, 2.5, 0.0), (1.2, 1.1, 0.9)):
        covariance = np.array([[a * a, rho * a * b], [rho * a * b, b * b]])
        variances = np.diag(covariance)
        value = closed(covariance.copy(), variances[:, None], variances[None, :])[0, 1]
        assert abs(value - by_quadrature(name, covariance)) < 1e-10


@pytest.mark.parametrize("name", CLOSED)
def test_closed_diagonal_is_the_second_moment(name: str) -> None:
    weights, direction = spiked()
    norms = np.linalg.norm(weights, axis=1)
    matrix = feature_kernel(scalar_function(name), weights, direction, 1e-9).matrix
    expected = smoothed(scalar_function(name), 0.0, norms).second_moment
    np.testing.assert_allclose(np.diag(matrix), expected, rtol=1e-10)


@pytest.mark.parametrize(
    ("name", "strength"),
    [
        pytest.param(name, strength, marks=() if (place + other) % 3 != 1 else pytest.mark.statistical)
        for place, name in enumerate(CLOSED)
        for other, strength in enumerate([0.0, 0.4, 4.0])
    ],
)
def test_general_method_reproduces_closed_forms(name: str, strength: float) -> None:
    weights, direction = spiked(strength=strength)
    function = scalar_function(name)
    kernel = general_kernel(function, weights, direction, 1e-11)
    assert kernel.error_bound <= 1.2e-11
    expected = feature_kernel(function, weights, direction, 1.0).matrix
    np.testing.assert_allclose(kernel.matrix, expected, atol=1e-9, rtol=0)


@pytest.mark.parametrize("name", GENERAL)
def test_general_method_against_quadrature(name: str) -> None:
    weights, direction = spiked(width=6, strength=1.5)
    matrix = general_kernel(scalar_function(name), weights, direction, 1e-10).matrix
    for i in range(6):
        for j in range(i):
            pair = weights[[i, j]]
            np.testing.assert_allclose(matrix[i, j], by_quadrature(name, pair @ pair.T), atol=2e-9, rtol=0)
    np.testing.assert_array_equal(matrix, matrix.T)


def test_any_direction_gives_the_same_kernel() -> None:
    weights, direction = spiked(strength=0.7)
    other = np.eye(weights.shape[1])[3]
    function = scalar_function("tanh")
    good = general_kernel(function, weights, direction, 1e-10).matrix
    np.testing.assert_allclose(general_kernel(function, weights, other, 1e-10).matrix, good, atol=1e-9)


def test_error_bound_holds_when_few_orders_are_kept() -> None:
    weights, direction = spiked(d=30, strength=1.0)
    function = scalar_function("erf")
    exact = feature_kernel(function, weights, direction, 1.0).matrix
    for tolerance in (1e-1, 1e-3, 1e-6):
        kernel = general_kernel(function, weights, direction, tolerance)
        error = np.linalg.norm(kernel.matrix - exact, 2)
        assert error <= kernel.error_bound <= 1.2 * tolerance
    loose = np.linalg.norm(general_kernel(function, weights, direction, 1e-1).matrix - exact, 2)
    assert loose > 1e-9  # the tolerance is what decides: a loose one really leaves orders out


def test_error_bound_knows_the_first_order_that_is_left_out() -> None:
    """Two neurons and an activation of the orders one and four: the bound is sharp up to a root of two."""
    weights, direction = np.array([[1.0, 0.0, 0.0], [0.6, 0.8, 0.0]]), np.array([0.0, 0.0, 1.0])
    left_out = math.factorial(4) * 0.1**2 * 0.6**4
    for tolerance in (0.9 * left_out, 1.1 * math.sqrt(2) * left_out):
        kernel = general_kernel(scalar_function("x + 0.1*(x**4 - 6*x**2 + 3)"), weights, direction, tolerance)
        error = abs(kernel.matrix[0, 1] - 0.6 - left_out)
        assert error <= kernel.error_bound <= 1.2 * tolerance
    assert error == pytest.approx(left_out, rel=0.1)  # the second tolerance does leave it out


def test_smooth_activation_in_few_dimensions() -> None:
    """With d = 3 the neurons stay strongly correlated; a smooth activation needs more orders, and gets them."""
    weights, direction = spiked(width=8, d=3, strength=0.5)
    function = scalar_function("erf")
    expected = feature_kernel(function, weights, direction, 1.0).matrix
    np.testing.assert_allclose(general_kernel(function, weights, direction, 1e-9).matrix, expected, atol=1e-8)


def test_unreachable_tolerance_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradstep.simulation.conditional_kernel.MAX_ORDER", 64)
    weights, direction = spiked(width=8, d=3, strength=0.5)
    with pytest.raises(NotConverged, match="larger d"):
        general_kernel(scalar_function("hardtanh"), weights, direction, 1e-12)


def test_collapsed_neuron_is_an_error() -> None:
    weights, direction = spiked(width=4, d=20)
    weights[1] = 2 * direction
    weights[1] += 1e-14 * weights[0]
    with pytest.raises(NotConverged, match="common direction"):
        general_kernel(scalar_function("tanh"), weights, direction, 1e-9)


@pytest.mark.parametrize("name", ["tanh", "relu"])
def test_kernel_against_samples(name: str) -> None:
    weights, direction = spiked(width=12, strength=1.0)
    function = scalar_function(name)
    matrix = feature_kernel(function, weights, direction, 1e-9).matrix
    rng = np.random.default_rng(5)
    features = function(rng.standard_normal((40_000, weights.shape[1])) @ weights.T)
    products = features[:, :, None] * features[:, None, :]
    z = (products.mean(axis=0) - matrix) / (products.std(axis=0) / math.sqrt(40_000))
    assert np.max(np.abs(z)) < 4.8  # 78 correlated z-scores


def test_map_symmetric_visits_every_entry_once() -> None:
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((600, 600))
    matrix += matrix.T
    expected = np.exp(matrix)
    map_symmetric(matrix, lambda tile, rows, columns: np.exp(tile))
    np.testing.assert_array_equal(matrix, expected)
