"""Readouts that the projections do not tell."""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import gradstep as gs
from gradstep.gaussian import hermite_rule
from gradstep.theory.neurons.groups import _bent, _projection_variance, _typical_spread, neuron_groups
from gradstep.theory.step.statistics import step_statistics

BASE = gs.Problem(
    activation="cos", teacher="sin(x)+1", d=150, width=225, n_step=600, n=450, eta=gs.Step(1, 0.5), ridge=1.5, noise=0.3
)  # fmt: skip
#: A strong step that makes hardly a spike: a row's norm follows its readout, which its projection does not tell.
SPIKELESS = {
    "even": BASE,
    "odd": BASE.replace(activation="sin(x)-0.6*x", teacher="tanh(x)", n_step=150, eta=gs.Step(2, 0.5), noise=0.0),
    "kinked": BASE.replace(activation="abs", eta=gs.Step(0.5, 0.5), noise=0.0),
}


def hermite_readout(count: int) -> dict[float, float]:
    nodes, weights = np.polynomial.hermite_e.hermegauss(count)
    return {float(a): float(w) for a, w in zip(nodes, weights / weights.sum(), strict=True)}


@pytest.mark.parametrize("name", SPIKELESS)
def test_a_gaussian_readout_is_the_limit_of_many_values(name):
    problem = SPIKELESS[name]
    expected, found = gs.predict(problem.replace(readout=hermite_readout(32))), gs.predict(problem)
    for quantity in ("test_error", "train_error", "degrees_of_freedom"):
        assert getattr(found, quantity) == pytest.approx(getattr(expected, quantity), rel=2e-3)


@pytest.mark.parametrize("name", ["even", "odd", pytest.param("kinked", marks=pytest.mark.statistical)])
def test_the_network_without_a_spike(name):
    """Groups told by their projection alone are 5 to 22 % off."""
    problem, seeds = SPIKELESS[name], 12
    predicted, measured = gs.predict(problem), gs.simulate(problem, seeds=seeds)
    for quantity in ("test_error", "train_error", "degrees_of_freedom"):
        values = measured.values[quantity]
        allowed = 4 * np.std(values, ddof=1) / seeds**0.5 + 0.015 * np.mean(values)
        assert abs(getattr(predicted, quantity) - np.mean(values)) < allowed


@pytest.mark.parametrize(
    ("changes", "resolved"),
    [
        ({"activation": "tanh"}, False),
        ({"activation": "relu"}, False),
        ({"activation": "cos", "eta": 1.0}, False),
        ({"activation": "cos"}, True),
        ({"activation": "cos(x) + 2*x"}, False),
    ],
)
def test_only_untold_readouts_that_matter_are_resolved(changes, resolved):
    problem = BASE.replace(**changes)
    step = step_statistics(problem, 150.0, 225.0, 600.0)
    groups = neuron_groups(step, problem.readout, 150.0, odd=problem.activation.parity == "odd")
    assert groups.resolved is resolved
    assert groups.weight.sum() == pytest.approx(1)
    assert groups.weight @ groups.readout_square == pytest.approx(1, rel=1e-4)


def test_both_descriptions_meet_where_one_takes_over():
    """A small jump, not the 5 % that the other description is off where there is no spike."""
    base = SPIKELESS["odd"].replace(n_step=300)
    errors = {}
    for slope in (0.34, 0.36, 0.38, 0.40, 0.44, 0.50, 0.54):
        problem = base.replace(activation=f"sin(x)-{slope}*x")
        step = step_statistics(problem, 150.0, 225.0, 300.0)
        resolved = neuron_groups(step, problem.readout, 150.0, odd=True).resolved
        many = gs.predict(problem.replace(readout=hermite_readout(24))).test_error
        errors[slope] = resolved, gs.predict(problem).test_error / many - 1
    assert {resolved for resolved, _ in errors.values()} == {True, False}
    # Groups of one readout know the rows by their projections and norms; .4 % of the difference is that of the norms.
    assert max(abs(error) for _, error in errors.values()) < 1e-2


@pytest.mark.parametrize("readout", [{0.0: 0.5, 1.0: 0.5}, {0.0: 0.9, 1.0: 0.1}, {0.1: 0.5, 1.0: 0.5}])
def test_readout_values_do_not_matter_without_a_step(readout):
    problem = gs.Problem(
        activation="tanh", teacher="sin", d=100, width=150, n_step=400, n=300, eta=0.0, ridge=1.0, readout="constant"
    )
    expected, found = gs.predict(problem), gs.predict(problem.replace(readout=readout))
    assert found.test_error == pytest.approx(expected.test_error, rel=1e-9)


@pytest.mark.parametrize(
    "changes",
    [
        # No projection tells the readout, and the features are of a high degree in it.
        {"activation": "hermite3", "teacher": "sin", "eta": gs.Step(1.0, exponent=0.5), "ridge": 3000.0, "noise": 1.0},
        # Nearly all neurons saturate: the few whose readout is nearly zero do not.
        {
            "activation": "abs(x-0.5)-abs(x+0.5)", "teacher": "1e6*x", "d": 317308, "width": 205907, "n_step": 3899579,
            "n": 126155, "noise": 1.0, "eta": 1.0, "ridge": 2031.0,
        },
        # The same of neurons that the projection does not tell apart.
        {
            "activation": "abs(x-0.5)-abs(x+0.5)", "teacher": "1e6*x", "d": 317308, "width": 300000, "n_step": 600000,
            "n": 500000, "eta": 1.0, "ridge": 1000.0,
        },
        {"activation": "tanh", "teacher": "sin", "eta": gs.Step(7.0, exponent=0.5), "ridge": 30.0, "noise": 0.1},
    ],
)  # fmt: skip
def test_a_gaussian_readout_is_resolved(changes):
    problem = gs.Problem(**{"d": 300, "width": 600, "n_step": 1200, "n": 900, "readout": "gaussian"} | changes)
    coarse, fine = (gs.predict(problem, refine=refine) for refine in (1, 2))
    assert coarse.test_error == pytest.approx(fine.test_error, rel=2e-5)
    assert coarse.train_error == pytest.approx(fine.train_error, rel=2e-5)


def test_damped_rows_that_a_step_stretches_to_nothing():
    # What is left of the initial row is a square that the moments of the samples give as less than zero at some node.
    problem = gs.Problem(
        activation="x**2-1", teacher="relu", d=192, width=325, n_step=7946, n=363, eta=5.63, ridge=383.0, noise=0.5,
        readout="gaussian", damping=0.5,
    )  # fmt: skip
    step = step_statistics(problem, problem.d, problem.width, problem.n_step)
    groups = neuron_groups(step, problem.readout, problem.d, odd=False)
    assert (step.stretch_square(groups.readout, groups.readout_square) < 0).any()
    assert np.isfinite(groups.initial).all()


@pytest.mark.parametrize("damping", [float("inf"), 0.5])
def test_what_a_step_takes_along_the_readout_of_unequal_directions_is_the_mean_over_them(damping):
    # Docs, "Uniform equivalent", (E12c): class by class, on both sides of the step at which the shrinkage turns sign.
    problem = gs.Problem(
        activation="tanh(x)+0.3*(x**2-1)", teacher="sin(2*x)+0.3*x**2", d=120, width=150, n_step=12000, n=220,
        eta=1.0, ridge=20.0, readout={0.5: 0.5, 2.0: 0.5}, damping=damping,
        inputs={"eigenvalues": [0.2, 0.5, 6.0], "share": [0.5, 0.4, 0.1]},
    )  # fmt: skip
    shrinkages = []
    for eta in (1.0, 25.0):
        problem = problem.replace(eta=eta)
        step = step_statistics(problem, problem.d, problem.width, problem.n_step)
        groups, c, share = (
            neuron_groups(step, problem.readout, problem.d, odd=False),
            step.correlated.spectrum.eigenvalue,
            step.correlated.spectrum.share,
        )
        factor = step.correlated.stretch[0] / c
        a = groups.readout * problem.readout.second_moment**0.5
        before = 1 + (step.class_drift * factor)[:, None] * a
        after = before - step.taken * factor[:, None]
        missing = sum(f * (np.outer(s, s) - np.outer(t, t)) for f, s, t in zip(share * c, before, after, strict=True))
        p = groups.initial
        q = p - groups.taken
        root = np.sqrt(step.mean_variance(a, a**2))
        np.testing.assert_allclose(np.outer(root * p, root * p) - np.outer(root * q, root * q), missing, rtol=1e-9)
        shrinkages.append(step.readout_shrinkage)
    assert shrinkages[0] > 0 > shrinkages[1]


@pytest.mark.parametrize("third", [(0.5, 0.0), (0.0, -0.8), (40.0, 10.0)])
def test_a_skewed_projection_keeps_its_mean_and_its_variance(third):
    d, a, variance = 100.0, 0.7, 0.03
    law = SimpleNamespace(bend_third=third)
    nodes, weight = hermite_rule(20)
    found = _bent(SimpleNamespace(fluctuations=law), np.array(a), math.sqrt(variance) * nodes, np.array(variance), d)
    assert weight @ found == pytest.approx(0.0, abs=1e-12)
    assert weight @ found**2 == pytest.approx(variance, rel=1e-12)
    # What is no small part of the skewness 1.8 is kept below that.
    expected = (third[0] * a + third[1] * a**3) / d**2
    skewness = weight @ found**3 / variance**1.5
    if abs(expected) < 0.05 * variance**1.5:
        assert skewness == pytest.approx(expected / variance**1.5, rel=1e-3)
    assert 0 < skewness * np.sign(expected) < 1.8


@pytest.mark.parametrize("power", [0, 1])
def test_what_of_a_norm_follows_a_projection_is_a_conditional_mean(power):
    """With s' = s a + noise, the mean of a^k noise given s' is on average zero, and E[noise^2] E[a^k] with s'."""
    problem = BASE.replace(readout="gaussian", activation="tanh(x)+0.3*x**2", eta=gs.Step(0.3, 0.5))
    step = step_statistics(problem, problem.d, problem.width, problem.n_step)
    covariance = [0.0, 0.0, 0.0]
    means = []
    for value in (0.0, 1e-3):
        covariance[power] = value
        own = replace(step, fluctuations=replace(step.fluctuations, covariance=tuple(covariance)))
        groups = neuron_groups(own, problem.readout, problem.d, odd=False, resolve=False)
        lower, upper = np.split(groups.variance, 2)
        means.append((lower + upper) / 2)
    half = len(means[0])
    weight, projection = 2 * groups.weight[:half], groups.projection[:half]
    known = _projection_variance(step, problem.d, "network", groups.readout[:half], groups.readout_square[:half])
    following = (means[1] - means[0]) / 1e-3 * known * problem.d
    assert weight @ following == pytest.approx(0.0, abs=1e-9)
    spread = _typical_spread(step, problem.d, "network")
    assert weight @ (following * projection) == pytest.approx(spread if power == 1 else 0.0, abs=1e-9)
    if power == 0:
        # E[a noise s'] vanishes, E[a noise s'^2] does not.
        expected = 2 * (step.spike + step.initial_overlap) * spread
        assert weight @ (following * projection**2) == pytest.approx(expected, rel=1e-6)
