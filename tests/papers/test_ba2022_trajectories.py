"""Figure 2: gradient descent on the whole network in two parameterisations."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from gradstep.errors import InvalidInput, NotConverged
from gradstep.gaussian import scalar_function
from gradstep.papers.ba2022.experiments import neuron_trajectories
from gradstep.papers.ba2022.trajectories import Training, stable_rate, train

RELU, TANH = scalar_function("relu"), scalar_function("tanh")
Array = NDArray[np.float64]
Parameterisation = Literal["mean-field", "NTK"]


def network(n: int, d: int, N: int, seed: int = 0) -> tuple[Array, Array, Array, Array]:
    """Inputs, labels, weights, readout."""
    draw = np.random.default_rng(seed)
    inputs = draw.standard_normal((n, d))
    labels = RELU(inputs[:, 0]) + RELU(inputs[:, 1])
    return inputs, labels, draw.standard_normal((N, d)) / np.sqrt(d), draw.standard_normal(N)


def trained(parameterisation: Parameterisation, size: int = 16, **changes: Any) -> Training:
    inputs, labels, weights, readout = network(10 * size, size, 10 * size)
    rate = 0.3 * stable_rate(inputs, weights, RELU)
    directions = list(np.eye(size)[:2])
    settings = {"rate": rate, "directions": directions, "parameterisation": parameterisation, **changes}
    return train(inputs, labels, weights, readout, RELU, **settings)


@pytest.mark.parametrize(("parameterisation", "scale"), [("mean-field", 1.0), ("NTK", np.sqrt(7))])
def test_one_step_against_finite_differences(parameterisation: Parameterisation, scale: float) -> None:
    """The loss, typed again: half the mean squared residual of (scale / N) sum a_i sigma(<w_i, x>)."""
    inputs, labels, weights, readout = network(9, 4, 7)

    def loss(parameters: Array) -> float:
        w, a = parameters[:28].reshape(7, 4), parameters[28:]
        residual = labels - scale / 7 * np.tanh(inputs @ w.T) @ a
        return float(residual @ residual / 18)

    start = np.concatenate([weights.ravel(), readout])
    steps = 1e-5 * np.eye(35)
    slope = np.array([(loss(start + e) - loss(start - e)) / 2e-5 for e in steps])
    bound = loss(start) * (1 - 1e-9)  # reached after exactly one step
    done = train(inputs, labels, weights, readout, TANH, parameterisation=parameterisation, rate=0.01, loss_bound=bound)
    assert done.steps.tolist() == [0, 1]
    after = np.concatenate([done.final.ravel(), done.readout])
    np.testing.assert_allclose(after - start, -0.01 * 7 / scale**2 * slope, rtol=1e-6, atol=1e-12)
    assert done.losses[1] == pytest.approx(loss(after), rel=1e-12)


def test_both_functions_start_at_the_same_speed() -> None:
    """From an output of zero (pairs of opposite readout) the function learns the same, to first order in the rate."""
    inputs, labels, weights, readout = network(20, 5, 8)
    weights, readout = np.concatenate([weights, weights]), np.concatenate([readout, -readout])
    speeds = []
    for parameterisation, scale in (("mean-field", 1.0), ("NTK", 4.0)):
        bound = float(labels @ labels) / 40 * (1 - 1e-12)
        law: Any = {"parameterisation": parameterisation, "rate": 1e-7, "loss_bound": bound}
        done = train(inputs, labels, weights, readout, TANH, **law)
        speeds.append(scale / 16 * TANH(inputs @ done.final.T) @ done.readout / 1e-7)
    np.testing.assert_allclose(speeds[0], speeds[1], rtol=1e-4)


@pytest.mark.parametrize("parameterisation", ["mean-field", "NTK"])
def test_loss_reaches_its_bound(parameterisation: Parameterisation) -> None:
    done = trained(parameterisation)
    assert done.losses[-1] < 1e-3 <= done.losses[-2]
    assert (np.diff(done.steps) > 0).all()
    np.testing.assert_array_equal(done.weights[0], done.initial[:, :2])
    np.testing.assert_array_equal(done.weights[-1], done.final[:, :2])


def test_mean_field_neurons_move_and_align_and_tangent_ones_do_not() -> None:
    field, tangent = trained("mean-field", 24), trained("NTK", 24)
    moved = [float(np.sqrt(((t.final - t.initial) ** 2).sum(axis=1).mean())) for t in (field, tangent)]
    assert moved[0] > 1
    assert moved[1] < 5 / np.sqrt(240)
    _, _, weights, readout = network(240, 24, 240)
    before = neuron_trajectories.alignment(weights, readout)
    assert neuron_trajectories.alignment(field.final, field.readout) > before + 0.2
    assert abs(neuron_trajectories.alignment(tangent.final, tangent.readout) - before) < 0.1


def test_alignment() -> None:
    weights = np.array([[3.0, 4.0, 0.0], [0.0, 0.0, 2.0], [0.0, 1.0, 1.0]])
    assert neuron_trajectories.alignment(weights, np.array([1.0, 0.0, 0.0])) == pytest.approx(1)
    mixed = (5 * 1 + 2 * 0 + np.sqrt(2) * np.sqrt(0.5)) / (5 + 2 + np.sqrt(2))
    assert neuron_trajectories.alignment(weights, np.array([1.0, -1.0, 1.0])) == pytest.approx(mixed)


def test_stable_rate_of_a_linear_network() -> None:
    """sigma(x) = x: the tangent kernel is X X' N + X W' W X'."""
    inputs, _, weights, _ = network(30, 5, 12)
    kernel = inputs @ (12 * np.eye(5) + weights.T @ weights) @ inputs.T
    expected = 30 * 12 / np.linalg.norm(kernel, 2)
    assert stable_rate(inputs, weights, scalar_function("linear")) == pytest.approx(expected)


@pytest.mark.parametrize("changes", [{"maximum_steps": 3}, {"rate": 1e3}])
def test_not_converged(changes: dict[str, Any]) -> None:
    with pytest.raises(NotConverged, match="Gradient descent"):
        trained("mean-field", **changes)


def test_unknown_parameterisation() -> None:
    with pytest.raises(InvalidInput, match="parameterisation"):
        trained("muP")  # type: ignore[arg-type]
