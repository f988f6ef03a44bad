"""The gradient step against the derivative of the actual loss, taken numerically, and what is measured of it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from gradstep.gaussian import moments, scalar_function
from gradstep.simulation import streams
from gradstep.simulation.backend import backend
from gradstep.simulation.instance import initial_readout, initial_weights, step_sample
from gradstep.simulation.step import Gradient, gradient, measure_spike

NUMPY = backend(None, "float64")
D, WIDTH, ROWS, NOISE = 4, 3, 11, 0.3


def computed(output_factor: float, activation: str = "tanh", rows: int = ROWS, dtype: str = "float64") -> Gradient:
    engine = backend(None, dtype)
    return gradient(
        engine,
        scalar_function(activation),
        ((engine.data(x), engine.data(np.sin(x[:, 0]) + NOISE * e)) for x, e in step_sample(7, rows, D).blocks()),
        engine.data(initial_weights(7, WIDTH, D, "gaussian")),
        engine.data(initial_readout(7, WIDTH, _gaussian())),
        output_factor=output_factor,
    )


def _gaussian():  # type: ignore[no-untyped-def]
    from gradstep.problem import Readout

    return Readout("gaussian")


@pytest.mark.parametrize("output_factor", [1 / WIDTH, 1 / math.sqrt(WIDTH)])
def test_gradient_is_minus_the_derivative_of_the_loss(output_factor: float) -> None:
    """d/dw_i of (1/2n) sum (y - f)^2 is -output_factor * G_i; the loss is written out loop by loop."""
    weights = initial_weights(7, WIDTH, D, "gaussian")
    readout = initial_readout(7, WIDTH, _gaussian())
    ((x, errors),) = step_sample(7, ROWS, D).blocks()

    def loss(w: NDArray[np.float64]) -> float:
        total = 0.0
        for mu in range(ROWS):
            label = math.sin(x[mu, 0]) + NOISE * errors[mu]
            output = sum(readout[i] * math.tanh(sum(w[i, j] * x[mu, j] for j in range(D))) for i in range(WIDTH))
            total += (label - output_factor * output) ** 2
        return total / (2 * ROWS)

    rows = computed(output_factor).rows
    h = 1e-5
    for i in range(WIDTH):
        for j in range(D):
            shift = np.zeros((WIDTH, D))
            shift[i, j] = h
            slope = (loss(weights + shift) - loss(weights - shift)) / (2 * h)
            assert abs(slope + output_factor * rows[i, j]) < 1e-9


def test_linear_part_is_the_input_label_average() -> None:
    ((x, errors),) = step_sample(7, ROWS, D).blocks()
    weights, readout = initial_weights(7, WIDTH, D, "gaussian"), initial_readout(7, WIDTH, _gaussian())
    residual = np.sin(x[:, 0]) + NOISE * errors - np.tanh(x @ weights.T) @ readout / WIDTH
    np.testing.assert_allclose(computed(1 / WIDTH).linear, np.mean(residual[:, None] * x, axis=0), atol=1e-15)


def test_a_linear_network_has_a_gradient_of_rank_one() -> None:
    result = computed(1 / WIDTH, "linear")
    np.testing.assert_allclose(result.rows, np.outer(initial_readout(7, WIDTH, _gaussian()), result.linear), atol=1e-15)


def test_blocks_add_up_to_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same rows processed in one piece: two full blocks and a rest."""
    rows = 2 * 50 + 13
    monkeypatch.setattr(streams, "BLOCK_ROWS", 50)
    result = computed(1 / WIDTH, rows=rows)
    pieces = list(step_sample(7, rows, D).blocks())
    assert len(pieces) == 3
    x = np.concatenate([x for x, _ in pieces])
    errors = np.concatenate([e for _, e in pieces])
    weights, readout = initial_weights(7, WIDTH, D, "gaussian"), initial_readout(7, WIDTH, _gaussian())
    residual = np.sin(x[:, 0]) + NOISE * errors - np.tanh(x @ weights.T) @ readout / WIDTH
    slopes = (1 - np.tanh(x @ weights.T) ** 2) * residual[:, None]
    np.testing.assert_allclose(result.rows, readout[:, None] * (slopes.T @ x) / rows, atol=1e-14)


def test_single_precision_is_close_and_returned_in_double() -> None:
    single, double = computed(1 / WIDTH, dtype="float32").rows, computed(1 / WIDTH).rows
    assert single.dtype == np.float64
    assert 0 < np.max(np.abs(single - double)) < 1e-6


def test_spike_and_bulk_of_a_planted_step() -> None:
    rng = np.random.default_rng(0)
    d, width, strength = 30, 40, 2.5
    before = rng.standard_normal((width, d))
    readout = rng.standard_normal(width)
    linear = rng.standard_normal(d)
    direction = linear / np.linalg.norm(linear)
    spike = measure_spike(before, before - strength * np.outer(readout, direction), readout, linear)
    np.testing.assert_allclose(spike.strength, strength * np.linalg.norm(readout), rtol=1e-12)
    np.testing.assert_allclose(spike.alignment, direction[0], rtol=1e-12)
    np.testing.assert_allclose(spike.direction, direction, rtol=1e-12)
    rest = before @ (np.eye(d) - np.outer(direction, direction))
    np.testing.assert_allclose(spike.bulk_variance, np.mean(np.sum(rest**2, axis=1)) * d / (d - 1), rtol=1e-12)


def test_no_step_has_no_spike() -> None:
    weights = np.random.default_rng(0).standard_normal((5, 6))
    spike = measure_spike(weights, weights, np.ones(5), None)
    assert spike.strength == 0
    assert math.isnan(spike.alignment)
    np.testing.assert_array_equal(spike.direction, np.eye(6)[0])


@pytest.mark.statistical
def test_spike_and_bulk_follow_their_laws_in_high_dimension() -> None:
    """Strength (eta/sqrt N) c1 |g| |a| and bulk 1 + tau E a^2 (Cui et al. 2024, Result 3.1), within a few per cent."""
    d, width, rows, eta = 400, 500, 800, math.sqrt(500)
    activation, teacher = scalar_function("tanh"), scalar_function("sin")
    weights, readout = initial_weights(0, width, d, "gaussian"), initial_readout(0, width, _gaussian())
    samples = ((x, teacher(x[:, 0]) + 0.2 * errors) for x, errors in step_sample(0, rows, d).blocks())
    result = gradient(NUMPY, activation, samples, weights, readout, output_factor=1 / width)
    spike = measure_spike(weights, weights + eta / math.sqrt(width) * result.rows, readout, result.linear)
    law, label = moments(activation), moments(teacher).second_moment + 0.04
    norm = math.sqrt(moments(teacher).linear ** 2 + d / rows * label)
    strength = eta / math.sqrt(width) * law.linear * norm * float(np.linalg.norm(readout))
    tau = eta**2 / width * d / rows * label * law.derivative_variance
    assert abs(spike.strength / strength - 1) < 0.1
    assert abs(spike.alignment - moments(teacher).linear / norm) < 5 * 0.5 / math.sqrt(rows)
    assert abs((spike.bulk_variance - 1) / (tau * float(np.mean(readout**2))) - 1) < 0.25
