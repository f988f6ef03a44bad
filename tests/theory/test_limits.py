"""The proportional limit: the network's, the papers' closed equations, and the finite theory at a large size."""

import math

import numpy as np
import pytest
from scipy.interpolate import CubicSpline

import gradstep as gs
from gradstep.errors import InvalidInput
from gradstep.gaussian import gaussian_rule
from gradstep.papers import ba2022, cui2024
from gradstep.theory import QUANTITIES
from gradstep.theory.convex.convex_loss import convex_prediction

LARGE = 200_000
PAPERS = {"rows": "isotropic", "bulk": "isotropic"}
TEACHERS = ["sin + 0.3*x**2", "relu", "-tanh(x)"]
SMOOTH = ["tanh", "-tanh(x)", "relu", "-relu(x)", "abs", "cos", "x**3 - 3*x"]
JUMPS = ["sign", "sign(x) + tanh(x)", "heaviside(x)"]
#: A large step from few samples, in the notation of Cui et al. 2024.
FEW = {"alpha": 2.0, "alpha0": 0.25, "eta_tilde": 3.0, "lam": 0.01}


def large_step(activation: str, teacher: str = "sin + 0.3*x**2") -> gs.Problem:
    return gs.Problem.cui2024(
        alpha=2.0, alpha0=3.0, beta=0.7, eta_tilde=1.0, lam=0.1, activation=activation, teacher=teacher
    )


def small_step(activation: str, teacher: str = "sin + 0.3*x**2") -> gs.Problem:
    return gs.Problem.ba2022(psi1=2.0, psi2=1.5, eta=1.5, lam=0.01, activation=activation, teacher=teacher)


@pytest.mark.parametrize("model", [{}, PAPERS])
@pytest.mark.parametrize("teacher", TEACHERS)
@pytest.mark.parametrize("problem", [large_step, small_step])
@pytest.mark.parametrize("activation", [*SMOOTH, *JUMPS])
def test_limit_is_that_of_the_finite_theory(activation, problem, teacher, model):
    limit = gs.predict(problem(activation, teacher), **model)
    finite = gs.predict(limit.problem.at_dimension(LARGE), **model)
    for quantity in QUANTITIES:
        expected = getattr(finite, quantity)
        if quantity == "degrees_of_freedom":
            expected /= LARGE
        if quantity == "spike_strength" and math.isinf(limit.spike_strength):
            assert expected > 50
        else:
            # The network's own output is felt like 1/sqrt(N).
            rel = 2e-3 if model else 6e-3
            assert getattr(limit, quantity) == pytest.approx(expected, rel=rel, abs=2e-5), quantity


@pytest.mark.parametrize("teacher", TEACHERS)
@pytest.mark.parametrize("activation", SMOOTH)
def test_model_of_the_papers_is_their_closed_equations(activation, teacher):
    expected = cui2024.summary_statistics(activation, teacher, eta_tilde=1.0, alpha0=3.0, alpha=2.0, beta=0.7, lam=0.1)
    found = gs.predict(large_step(activation, teacher), **PAPERS)
    for name in ("test_error", "train_error", "train_loss"):
        assert getattr(found, name) == pytest.approx(float(getattr(expected, name)), rel=1e-6), name
    assert found.bulk_variance == pytest.approx(float(expected.spike.bulk_variance), rel=1e-6)
    freedom = 0.7 * (1 - 0.1 * float(expected.readout_response))
    assert found.degrees_of_freedom == pytest.approx(freedom, rel=1e-6)


@pytest.mark.parametrize(("activation", "teacher"), [("tanh", "sin"), ("relu", "tanh(x) + 0.3*x**2"), ("erf", "relu")])
def test_function_along_the_teacher_is_that_of_the_closed_equations(activation, teacher):
    expected = cui2024.summary_statistics(activation, teacher, eta_tilde=1.0, alpha0=3.0, alpha=2.0, beta=0.7, lam=0.1)
    found = gs.predict(large_step(activation, teacher), **PAPERS)
    t = np.linspace(-3, 3, 13)
    # Between the nodes of kappa the function is interpolated.
    along = found.curve.along_teacher(t, found.alignment)
    np.testing.assert_allclose(along, cui2024.learned_along_target(activation, expected, t), atol=3e-4)
    # Of the whole input both see the same part of the teacher: E[f t] needs no direction to look along.
    z, weight = gaussian_rule()
    kappa, slope = found.curve.kappa, found.curve.slope
    mean = np.interp(z, kappa, found.curve.learned) @ (weight * z) * found.alignment
    across = math.sqrt(1 - found.alignment**2) * (np.interp(z, kappa, slope) @ weight)
    assert found.curve.along_teacher(z, found.alignment) @ (weight * z) == pytest.approx(mean + across, rel=2e-3)


@pytest.mark.parametrize("eta", [0.0, 1.5])
@pytest.mark.parametrize("teacher", TEACHERS)
@pytest.mark.parametrize("activation", ["tanh", "-erf(x)", "x**3 - 3*x", "x", "sin(2*x)"])
def test_small_step_of_the_network_is_the_closed_equations(activation, teacher, eta):
    problem = small_step(activation, teacher).replace(eta=eta)
    # The convention of that paper takes the teacher's mean off.
    values = ba2022.coefficients(activation, problem.teacher, centred=False)
    expected = ba2022.small_step(values, psi1=2.0, psi2=1.5, lam=0.01, eta=eta)
    found = gs.predict(problem)
    for name in ("test_error", "train_error", "train_loss", "alignment", "spike_strength"):
        value = float(getattr(expected, name))
        assert getattr(found, name) == pytest.approx(value, rel=1e-5, abs=1e-9), name
    freedom = 2.0 * float(expected.initial.degrees_of_freedom_per_sample)
    assert found.degrees_of_freedom == pytest.approx(freedom, rel=1e-5)


@pytest.mark.parametrize("activation", ["-tanh(x)", pytest.param("abs", marks=pytest.mark.statistical), "sign"])
def test_alignment_and_error_of_the_network(activation):
    problem = large_step(activation, "sin")
    network = gs.simulate(problem.at_dimension(200), seeds=16)
    limit = gs.predict(problem)
    for quantity in ("alignment", "test_error"):
        error = network.standard_error(quantity)
        # The network is of finite size: corrections of order 1/d.
        assert abs(network.mean(quantity) - getattr(limit, quantity)) < 4 * error + 4 / 200, quantity


@pytest.mark.statistical
def test_limit_after_a_large_step_from_few_samples_is_the_networks():
    problem = gs.Problem.cui2024(**FEW, activation="tanh", teacher="sin")
    network = gs.simulate(problem.at_dimension(200), seeds=16)
    measured = network.mean("test_error")
    # The network is of finite size: corrections of order 1/d.
    allowed = 4 * network.standard_error("test_error") + 1 / 200
    model = float(cui2024.summary_statistics("tanh", "sin", **FEW).test_error)
    assert gs.predict(problem, **PAPERS).test_error == pytest.approx(model, rel=1e-6)
    assert convex_prediction(problem, **PAPERS).test_error == pytest.approx(model, rel=1e-6)
    assert abs(gs.predict(problem).test_error - measured) < allowed
    assert abs(convex_prediction(problem).test_error - measured) < allowed
    assert abs(model - measured) > allowed


def test_a_prediction_says_which_model_it_is_about():
    problem = large_step("tanh")
    assert gs.predict(problem).method == gs.predict(problem.at_dimension(100)).method == "uniform equivalent"
    assert gs.predict(problem, **PAPERS).method == "spiked random features"
    assert gs.predict(problem, rows="isotropic", bulk="structured").method.endswith("isotropic rows, structured bulk")


@pytest.mark.parametrize("activation", ["sign", "sign(x) + tanh(x)", "heaviside(x + 1) - heaviside(x - 1)"])
def test_closed_forms_of_a_step_refuse_jumps(activation):
    with pytest.raises(InvalidInput, match=r"sigma: .*without jumps"):
        cui2024.equivalent_srf(activation, "sin", eta_tilde=1.0, alpha0=2.0)


@pytest.mark.parametrize(
    ("activation", "teacher"), [("relu", "x**2 - 1"), pytest.param("tanh", "sin(2*x)", marks=pytest.mark.statistical)]
)
def test_small_networks_without_a_step(activation, teacher):
    # What they learn of the teacher beyond its line is of order 1/d. Resolved along another direction than the
    # teacher's it would be missed: up to 10 % of the error here.
    problem = gs.Problem(
        activation=activation, teacher=teacher, d=30, width=90, n=120, n_step=5, eta=0.0, ridge=3.0, noise=0.1
    )
    network = gs.simulate(problem, seeds=300)
    theory = gs.predict(problem)
    error = network.standard_error("test_error")
    assert error < 0.01 * theory.test_error
    assert abs(network.mean("test_error") - theory.test_error) < 4 * error


def test_the_curve_without_a_step_is_along_the_gradient():
    # Where a step is so small that it is not felt, as where it is none.
    problem = gs.Problem(
        activation="softplus", teacher="x + 0.5*H2", d=3000, width=4000, n=9000, n_step=3000, eta=0.0, ridge=300.0
    )
    without, small = gs.predict(problem), gs.predict(problem.replace(eta=0.02))
    assert without.alignment == pytest.approx(small.alignment, rel=1e-6)
    assert 0.4 < without.alignment < 0.8
    kappa = np.linspace(-3, 3, 13)
    for name in ("learned", "target", "slope"):
        # Nodes are other ones, and too few for straight lines between them.
        found, expected = (CubicSpline(p.curve.kappa, getattr(p.curve, name))(kappa) for p in (without, small))
        assert found == pytest.approx(expected, abs=5e-3 * np.abs(expected).max())
