"""The papers' limiting equations against the finite theory at a large size, for all kinds of functions."""

import math

import numpy as np
import pytest

import gradstep as gs
from gradstep.errors import InvalidInput
from gradstep.theory import QUANTITIES
from gradstep.theory.small_step import small_step_of
from gradstep.theory.spiked_features import spike

LARGE = 200_000


def large_step(activation: str, teacher: str = "sin + 0.3*x**2") -> gs.Problem:
    return gs.Problem.cui2024(
        alpha=2.0, alpha0=3.0, beta=0.7, eta_tilde=1.0, lam=0.1, activation=activation, teacher=teacher
    )


def small_step(activation: str, teacher: str = "sin + 0.3*x**2") -> gs.Problem:
    return gs.Problem.ba2022(psi1=2.0, psi2=1.5, eta=1.5, lam=0.01, activation=activation, teacher=teacher)


@pytest.mark.parametrize("teacher", ["sin + 0.3*x**2", "relu", "-tanh(x)"])
@pytest.mark.parametrize("problem", [large_step, small_step])
@pytest.mark.parametrize(
    "activation",
    ["tanh", "-tanh(x)", "relu", "-relu(x)", "abs", "cos", "x**3 - 3*x", "sign", "sign(x) + tanh(x)", "heaviside(x)"],
)
def test_limit_is_that_of_the_finite_theory(activation, problem, teacher):
    limit = gs.predict(problem(activation, teacher))
    finite = gs.predict(limit.problem.at_dimension(LARGE), rows="isotropic")
    for quantity in QUANTITIES:
        expected = getattr(finite, quantity)
        if quantity == "degrees_of_freedom":
            expected /= LARGE
        if quantity == "spike_strength" and math.isinf(limit.spike_strength):
            assert expected > 50
        else:
            assert getattr(limit, quantity) == pytest.approx(expected, rel=2e-3, abs=2e-5), quantity


@pytest.mark.parametrize("activation", ["-tanh(x)", "abs", "sign"])
def test_alignment_and_error_of_the_network(activation):
    problem = large_step(activation, "sin")
    network = gs.simulate(problem.at_dimension(300), seeds=16)
    limit = gs.predict(problem)
    for quantity in ("alignment", "test_error"):
        error = network.standard_error(quantity)
        # The network is of finite size: corrections of order 1/d.
        assert abs(network.mean(quantity) - getattr(limit, quantity)) < 4 * error + 6 / 300, quantity


@pytest.mark.parametrize("activation", ["sign", "sign(x) + tanh(x)", "heaviside(x + 1) - heaviside(x - 1)"])
def test_closed_forms_of_a_step_refuse_jumps(activation):
    with pytest.raises(InvalidInput, match=r"activation: .*without jumps"):
        spike(activation, "sin", step_size=1.0, step_sample_ratio=2.0)
    sizes = {"sample_ratio": 2.0, "width_ratio": 1.5, "penalty": 0.1}
    with pytest.raises(InvalidInput, match=r"activation: .*without jumps"):
        small_step_of(activation, "sin", **sizes, step_size=[0.0, 1.0])
    # Without a step there is nothing that a jump would hide.
    assert np.isfinite(small_step_of(activation, "sin", **sizes, step_size=0.0).test_error)
