"""Exact test error: closed special cases, a trapezoid in two dimensions, and fresh samples."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from gradstep.errors import NotConverged
from gradstep.gaussian import moments, scalar_function
from gradstep.simulation.population import population_risk, teacher_correlations

Real = NDArray[np.float64]


def network(width: int, d: int, seed: int = 0) -> tuple[Real, Real, Real, Real]:
    """Return weights, teacher direction, spike direction and two readouts."""
    rng = np.random.default_rng(seed)
    teacher = rng.standard_normal(d)
    teacher /= np.linalg.norm(teacher)
    spike = teacher + rng.standard_normal(d) / math.sqrt(d)
    spike /= np.linalg.norm(spike)
    weights = rng.standard_normal((width, d)) / math.sqrt(d) + np.outer(rng.standard_normal(width), spike)
    return weights, teacher, spike, rng.standard_normal((width, 2)) / math.sqrt(width)


@pytest.mark.parametrize(
    ("activation", "teacher"),
    [
        pytest.param(activation, teacher, marks=() if other % 3 == place else pytest.mark.statistical)
        for place, activation in enumerate(["erf", "relu", "tanh"])
        for other, teacher in enumerate(["linear", "relu", "tanh", "sign", "hermite2", "abs(x - 0.3)"])
    ],
)
def test_correlations_against_a_plain_two_dimensional_sum(activation: str, teacher: str) -> None:
    sigma, link = scalar_function(activation), scalar_function(teacher)
    mean, scale = np.array([0.0, 0.05, 2.0, -0.9]), np.array([1.0, 1.1, 0.7, 2.0])
    values = teacher_correlations(sigma, link, mean, scale)
    # midpoints on a fine grid: kinks cost order h^2, jumps of sign at a cell border cost nothing
    h = 0.01
    t = np.arange(-8, 8, h) + h / 2
    weight = h * np.exp(-(t**2) / 2) / math.sqrt(2 * math.pi)
    for m, s, value in zip(mean, scale, values, strict=True):
        inner = sigma(m * t[:, None] + s * t[None, :]) @ weight
        assert abs(value - np.sum(weight * link(t) * inner)) < 2e-5


def test_linear_network_in_closed_form() -> None:
    """sigma(u) = u: the risk is |W^T b - c1 beta*|^2 plus the nonlinear part of the teacher."""
    weights, teacher, spike, readouts = network(20, 30)
    for link in ("linear", "relu", "sin"):
        law = moments(scalar_function(link))
        risk = population_risk(
            scalar_function("linear"), scalar_function(link), weights, teacher, spike, readouts, tolerance=1e-9
        )
        gap = weights.T @ readouts - law.linear * teacher[:, None]
        expected = np.sum(gap**2, axis=0) + law.second_moment - law.linear**2
        np.testing.assert_allclose(risk.test_error, expected, atol=1e-11)


def test_one_neuron_at_an_angle_to_the_teacher() -> None:
    """relu network, relu teacher, one active neuron: twice the difference of arc-cosine kernels (Cho and Saul 2009)."""
    weights, teacher, spike, _ = network(10, 80)
    across = np.roll(teacher, 1) - (np.roll(teacher, 1) @ teacher) * teacher
    weights[3] = 0.98 * teacher + math.sqrt(1 - 0.98**2) * across / np.linalg.norm(across)
    readout = np.zeros((10, 1))
    readout[3] = 1.0
    relu = scalar_function("relu")
    risk = population_risk(relu, relu, weights, teacher, spike, readout, tolerance=1e-9)
    angle = math.acos(0.98)
    kernel = (math.sin(angle) + (math.pi - angle) * math.cos(angle)) / (2 * math.pi)
    np.testing.assert_allclose(risk.test_error, 1 - 2 * kernel, atol=1e-10)


def test_neuron_parallel_to_the_teacher_is_an_error() -> None:
    tanh = scalar_function("tanh")
    with pytest.raises(NotConverged, match="parallel"):
        teacher_correlations(tanh, tanh, np.ones(1), np.zeros(1))


@pytest.mark.parametrize(("activation", "teacher"), [("tanh", "relu"), ("relu", "sign"), ("softplus", "sin")])
def test_risk_against_fresh_samples(activation: str, teacher: str) -> None:
    sigma, link = scalar_function(activation), scalar_function(teacher)
    weights, direction, spike, readouts = network(30, 60)
    risk = population_risk(sigma, link, weights, direction, spike, readouts, tolerance=1e-9)
    assert np.all(risk.error_bound <= 1.2e-9 * moments(link).second_moment)
    x = np.random.default_rng(1).standard_normal((100_000, 60))
    squares = (sigma(x @ weights.T) @ readouts - link(x @ direction)[:, None]) ** 2
    z = (squares.mean(axis=0) - risk.test_error) / (squares.std(axis=0) / math.sqrt(x.shape[0]))
    assert np.max(np.abs(z)) < 4


@settings(max_examples=25)
@given(seed=st.integers(0, 2**16), activation=st.sampled_from(["tanh", "relu", "erf", "sin"]))
def test_rotation_and_reflection_change_nothing(seed: int, activation: str) -> None:
    sigma, link = scalar_function(activation), scalar_function("softplus")
    weights, teacher, spike, readouts = network(8, 25, seed)
    rotation, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((25, 25)))
    here = population_risk(sigma, link, weights, teacher, spike, readouts, tolerance=1e-9).test_error
    there = population_risk(
        sigma, link, weights @ rotation, teacher @ rotation, spike @ rotation, readouts, tolerance=1e-9
    ).test_error
    assert np.all(here >= 0)
    np.testing.assert_allclose(here, there, rtol=1e-8, atol=1e-9)
    if activation != "relu":  # odd activations: flipping a neuron and its readout together
        signs = np.where(np.arange(8) % 2 == 0, 1.0, -1.0)[:, None]
        flipped = population_risk(sigma, link, signs * weights, teacher, spike, signs * readouts, tolerance=1e-9)
        np.testing.assert_allclose(here, flipped.test_error, rtol=1e-8, atol=1e-9)
