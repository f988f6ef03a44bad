"""Damped steps of every kind: that there is an answer, what it must be in a limit, and what must not change it."""

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import gradstep as gs
from gradstep.theory.neurons import row_rules

SPECTRA = [
    None,
    gs.Inputs([1.5, 0.5]),
    gs.Inputs([6, 1, 0.2], [0.05, 0.75, 0.2], [0.7, 0.3, 0.0]),
    gs.Inputs.power_law(0.3, 1.0, d=200),
    gs.Inputs.power_law(0.5, -0.5, d=60),
    gs.Inputs.spiked([4.0], d=60),
]


def exponents(low: float, high: float) -> Any:
    """Return a strategy of powers of ten."""
    return st.floats(math.log10(low), math.log10(high)).map(lambda power: 10**power)


ODD = ["tanh", "erf", "sin", "tanh(x) - 0.1*x", "x"]
NOT_ODD = ["relu", "softplus", "tanh(x) + 0.3*x**2", "gelu"]


@st.composite
def problems(draw: Any, activations: list[str] = ODD + NOT_ODD) -> gs.Problem:
    """Return a strategy of damped steps from hardly damped to almost without, from very few samples to very many."""
    d = round(draw(exponents(60, 1e6)))
    ratio = {
        name: draw(exponents(*ends)) for name, ends in {"n_step": (0.1, 1e5), "n": (0.2, 5), "width": (0.2, 5)}.items()
    }
    sizes = {name: max(2, round(value * d)) for name, value in ratio.items()}
    return gs.Problem(
        activation=draw(st.sampled_from(activations)),
        teacher=draw(st.sampled_from(["sin(1.5*x)", "x", "hermite3", "sign", "x + 0.4*(x**2 - 1)"])),
        d=d,
        **sizes,
        # Steps beyond make features of the spike's projection too steep to be resolved, damped or not.
        eta=gs.Step(draw(exponents(1e-8, 10)), draw(st.sampled_from([0.0, 0.5]))),
        ridge=d * draw(exponents(1e-2, 10)),
        noise=draw(st.sampled_from([0.0, 0.3])),
        readout=draw(st.sampled_from(["constant", "gaussian", {-1: 0.3, 0.5: 0.3, 2: 0.4}])),
        initial_weights=draw(st.sampled_from(["gaussian", "sphere"])),
        inputs=draw(st.sampled_from(SPECTRA)),
        damping=draw(exponents(1e-4, 1e4)),
    )


WEAK = gs.Problem(
    activation="tanh", teacher="sin", d=300, width=400, n_step=600, n=700, eta=1e-6, ridge=2.0, noise=0.1, damping=1.0
)  # fmt: skip
SQUARE = gs.Problem(
    activation="tanh", teacher="sin(x)", d=60, width=90, n_step=60, n=120, eta="sqrt(N)", ridge=1.0, noise=0.2,
    readout="constant", damping=1e-4,
)  # fmt: skip
FEW_SAMPLES = WEAK.replace(eta=gs.Step(1.0, 0.5), n_step=300, damping=0.001)
MANY_SAMPLES = WEAK.replace(eta=gs.Step(1.0, 0.5), n_step=10**8)
LINEAR = WEAK.replace(activation="x", n_step=100, eta=gs.Step(1.0, 0.5), damping=1e-4)


@settings(max_examples=20)
@given(problems())
@example(SQUARE)
@example(SQUARE.replace(damping=1e-6))
@example(WEAK)
@example(FEW_SAMPLES)
@example(MANY_SAMPLES)
@example(LINEAR)
def test_every_damped_step_has_an_answer(problem):
    found = gs.predict(problem)
    assert found.residual <= 1e-10
    assert found.test_error > 0
    assert -1 <= found.alignment <= 1


@settings(max_examples=15)
@given(problems().filter(lambda problem: problem.readout.kind == "vocabulary"))
def test_the_sign_of_activation_and_readout_changes_nothing(problem):
    readout = {-value: share for value, share in zip(problem.readout.values, problem.readout.weights, strict=True)}
    name = {"linear": "x"}.get(problem.activation.name, problem.activation.name)
    name = f"{name}(x)" if name.isalpha() and name != "x" else name
    found, mirrored = gs.predict_many([problem, problem.replace(activation=f"-({name})", readout=readout)])
    assert mirrored.test_error == pytest.approx(found.test_error, rel=1e-8)
    assert mirrored.alignment == pytest.approx(found.alignment, rel=1e-12)


@settings(max_examples=20)
@given(problems().filter(lambda problem: problem.inputs is not None))
def test_without_damping_it_is_the_plain_step(problem):
    # Readouts of several values have diagonals of their own if the activation is not odd: see the next test.
    if problem.activation.parity != "odd":
        problem = problem.replace(readout="constant")
    # Isotropic inputs have terms of order 1/N of the own output that correlated ones and damped steps leave out.
    plain, damped = gs.predict_many([problem.replace(damping=math.inf), problem.replace(damping=1e10)])
    # With hardly any alignment, and almost the whole of it, both sets of equations have lost digits.
    assert damped.test_error == pytest.approx(plain.test_error, rel=1e-5)
    assert damped.alignment == pytest.approx(plain.alignment, rel=1e-7)


@pytest.mark.parametrize(
    "readout", [pytest.param({0.5: 0.5, 2: 0.5}, marks=pytest.mark.statistical), {-1: 0.5, 1: 0.5}, "gaussian"]
)
def test_without_damping_readouts_of_several_values_have_nearly_the_errors_of_the_plain_step(readout):
    # The diagonals along theta are those of all directions after a damped step: docs, "Correlated inputs", limits.
    problem = gs.Problem(
        activation="relu", teacher="x-1", d=120, width=240, n_step=240, n=240, eta=gs.Step(1.0, 0.5), ridge=6.0,
        noise=0.2, readout=readout, inputs=gs.Inputs.power_law(0.5),
    )  # fmt: skip
    plain, damped = gs.predict_many([problem, problem.replace(damping=1e8)])
    assert damped.test_error == pytest.approx(plain.test_error, rel=6e-3)


#: By how much two readouts differ.
APART = (1e-9, 1e-6, 1e-4, 0.01, 0.03, 0.1)


@pytest.mark.parametrize(
    ("activation", "inputs", "damping", "differences"),
    [
        # Of the four places that stay, two have every second difference and two have the others.
        pytest.param(
            activation,
            inputs,
            damping,
            APART[case % 2 :: 2] if quick else APART,
            marks=() if quick else pytest.mark.statistical,
        )
        for quick in (True, False)
        for case, (activation, inputs, damping) in enumerate(
            product(["relu", "tanh(x) + 0.3*x**2", "softplus"], [None, gs.Inputs.power_law(0.5)], [0.1, 1.0])
        )
        if not quick or case in (0, 5, 7, 10)
    ],
)
def test_readouts_that_are_almost_equal_have_the_errors_of_equal_ones(activation, inputs, damping, differences):
    equal = gs.Problem(
        d=600, width=800, n_step=1800, n=1400, activation=activation, teacher="sin(x)", noise=0.2, ridge=10.0,
        eta="sqrt(N)", readout="constant", inputs=inputs, damping=damping,
    )  # fmt: skip
    known = gs.predict(equal).test_error
    for apart in differences:
        found = gs.predict(equal.replace(readout={1: 0.5, 1 + apart: 0.5})).test_error
        # The rules of the rows' law have a tolerance of 1e-8, but cells of directions follow their nodes.
        assert abs(found - known) <= (apart + 1e-6) * known


@pytest.mark.parametrize(
    ("changes", "inputs"),
    [
        pytest.param({}, SPECTRA[0], marks=pytest.mark.statistical),
        ({"damping": 1e-3}, SPECTRA[1]),
        *(pytest.param({}, law, marks=pytest.mark.statistical) for law in SPECTRA[1:3]),
        *(pytest.param({"damping": 1e-3}, law, marks=pytest.mark.statistical) for law in SPECTRA[:3:2]),
        ({"readout": "gaussian"}, SPECTRA[1]),
        ({"n_step": 90}, SPECTRA[2]),
    ],
)
def test_errors_are_smooth_in_every_number(inputs, changes):
    problem = WEAK.replace(eta=gs.Step(1.0, 0.5), readout="constant", damping=0.3, inputs=inputs).replace(**changes)
    moved = {
        "damping": lambda factor: problem.damping * factor,
        "ridge": lambda factor: problem.ridge * factor,
        "noise": lambda factor: problem.noise * factor,
        "eta": lambda factor: gs.Step(factor, 0.5),
    }
    for name, value in moved.items():
        factors = 1 + 1e-3 * np.arange(5)
        errors = [p.test_error for p in gs.predict_many([problem.replace(**{name: value(f)}) for f in factors])]
        # Where a norm tells of the row, errors jump by up to 1e-6 when the rule of the directions gets a pole.
        assert abs(np.diff(np.log(errors), 4)[0]) < 1e-6, name


def test_errors_do_not_jump_where_residuals_have_a_long_tail(monkeypatch):
    """The rule of the directions had a node far below zero, of almost no weight, along which norms told of a row.

    With the diagonals alone: where variances spread around them, nodes that move change errors by about 1e-5.
    """
    monkeypatch.setattr(row_rules, "_MISFIT", math.inf)
    problem = gs.Problem(
        activation="tanh(x)+0.3*(x**2-1)", teacher="0.8*x + 0.4*hermite2(x) - 0.2*hermite3(x) + 0.3", d=120, width=180,
        n_step=300, n=360, eta=gs.Step(1.4, 0.5), ridge=6.0, noise=0.2, readout={0.0: 0.4, 1.0: 0.3, -1.0: 0.3},
        inputs=gs.Inputs([3, 0.5], [0.2, 0.8], [0.6, 0.4]), damping=0.5,
    )  # fmt: skip
    sizes = 1.4 * (1 + np.array([0.0, 1e-12, -1e-12, 1e-10, -1e-10, 1e-9, -1e-9]))
    errors = [p.test_error for p in gs.predict_many([problem.replace(eta=gs.Step(size, 0.5)) for size in sizes])]
    assert np.ptp(errors) < 1e-5 * errors[0]


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("readout", "inputs", "d"), [({0.5: 0.5, 2: 0.5}, gs.Inputs.power_law(0.5), 800), ("constant", None, 600)]
)
def test_rows_know_their_norms(readout, inputs, d):
    # Without what a norm tells of its row the predictions would be 8 +- 1 % too low, and 2.3 +- .5 % too low. With it
    # the first one is 4.9, 2.1 and .7 % too low at d = 400, 800 and 1600.
    problem = gs.Problem(
        activation="tanh(x)+0.3*x**2", teacher="x-1", d=d, width=13 * d // 10, n_step=5 * d // 2, n=2 * d,
        eta=gs.Step(1.2, 0.5), ridge=0.2 * d, noise=0.2, readout=readout, inputs=inputs, damping=0.3,
    )  # fmt: skip
    network, theory = gs.simulate(problem, seeds=48, kernel_tolerance=1e-4), gs.predict(problem)
    mean, error = float(network.mean("test_error")), float(network.standard_error("test_error"))
    assert abs(theory.test_error - mean) < 3 * error + 0.01 * mean
