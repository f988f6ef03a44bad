"""What the tables give to the equations: the means are a kind of directions with a single member."""

from dataclasses import replace

import numpy as np
import pytest
from resolved_plane import solution_of

import gradstep as gs
from gradstep.theory.equivalent.leverage import LeverageEquations, evaluate
from gradstep.theory.equivalent.tables import stepped_networks
from gradstep.theory.together import result_of

SIZES = {"d": 100, "width": 200, "n": 60, "n_step": 400, "ridge": 2.0, "noise": 0.3}
PROBLEM = gs.Problem(activation="tanh", teacher="sin(x)", readout="constant", eta=gs.Step(1.5, 0.5), **SIZES)


def solutions(problem):
    """Return the tables and the solution, without what the means add to leverages; and the solution with it."""
    ((_, network),) = result_of(stepped_networks(problem))
    without = replace(network, tables=replace(network.tables, along_means=()))
    return without.tables, solution_of(without, problem), solution_of(network, problem)


def leverage_of_means(tables, problem, solution):
    """Return the leverage at the nodes and the load of each group by (E10a) of the docs, "Uniform equivalent"."""
    mean, weight = tables.features.mean, problem.n * tables.features.weight * solution.point.remaining[0]
    inverse_v = solution.point.inverse_resolvent[0] / (problem.width * tables.groups.weight)
    together = (mean * weight) @ mean.T
    leverage = np.vecdot(mean.T, np.linalg.solve(np.diag(inverse_v) + together, mean).T)
    return leverage, np.diag(np.linalg.inv(np.eye(len(mean)) + together / inverse_v) @ together)


@pytest.mark.parametrize("readout", ["constant", "gaussian", {-1: 0.5, 1: 0.5}])
def test_means_add_their_leverage_and_load(readout):
    problem = PROBLEM.replace(readout=readout)
    ((_, network),) = result_of(stepped_networks(problem))
    _, without, found = solutions(problem)
    sizes = [np.array([float(size)]) for size in (200, 99, 60, 2.0)]
    state = np.log(np.concatenate([found.point.leverage, found.point.resolvent], axis=1))
    both = [
        evaluate(LeverageEquations(tables.shared.leverage_table, *sizes), state)
        for tables in (network.tables, replace(network.tables, along_means=()))
    ]
    leverage, load = leverage_of_means(network.tables, problem, found)
    nodes = len(leverage)
    one, other = (each.following[0] for each in both)
    assert one[:nodes] - other[:nodes] == pytest.approx(leverage, rel=1e-6, abs=1e-9)
    assert 1 / one[nodes:] - 1 / other[nodes:] == pytest.approx(load, rel=1e-6, abs=1e-9)
    # Every function that the fit can use takes up one sample and one neuron.
    functions = found.point.sample_weight[0] @ leverage
    assert 0.8 < functions < 5
    assert functions == pytest.approx(200 * network.tables.groups.weight @ (load * found.point.resolvent[0]))
    # More leverage leaves less of the residuals.
    assert found.train_error[0] < without.train_error[0]


@pytest.mark.parametrize("n", [20, 50])
def test_a_single_function_is_fitted_as_by_least_squares(n):
    """So strong a penalty that the fit uses nothing but the spike: one function is fitted to few noisy labels.

    The training error of least squares is ``1 - 1/n`` of the noise. The test error is ``1 / (n - 2)`` of it, and that
    of the equations is larger by a term of order ``1 / n^2``.
    """
    problem = gs.Problem(
        activation="x", teacher="x", readout="constant", d=10**6, width=1000, n=n, n_step=10**9,
        eta=gs.Step(100.0, 0.5), ridge=1e6, noise=1.0,
    )  # fmt: skip
    found = gs.predict(problem)
    assert found.train_error == pytest.approx(1 - 1 / n, rel=2e-3)
    assert found.test_error - (1 - found.alignment**2) == pytest.approx(1 / (n - 2), rel=0.05)


def test_the_limit_and_models_of_papers_are_without_it():
    limit = PROBLEM.replace(d=np.inf, width="2d", n="0.6d", n_step="4d", ridge="0.02d")
    for problem, rows in ((limit, "network"), (PROBLEM, "isotropic")):
        ((_, network),) = result_of(stepped_networks(problem, rows))
        assert network.tables.along_means == ()


def test_a_plane_is_without_it():
    problem = PROBLEM.replace(activation="relu", teacher="x**2-1", n_step=2000)
    described = result_of(stepped_networks(problem, plane=True))
    assert {len(network.tables.along_means) for _, network in described if network.tables.in_plane} == {0}


def test_problems_of_unlike_sizes_are_solved_together():
    """Their tables are filled up, and each has the direction of its own dimension."""
    changes = ({}, {"d": 60, "n": 90}, {"d": 150, "width": 120, "activation": "sin"}, {"d": 60, "readout": "gaussian"})
    problems = [PROBLEM.replace(**change) for change in changes]
    for found, problem in zip(gs.predict_many(problems), problems, strict=True):
        alone = gs.predict(problem)
        assert found.test_error == pytest.approx(alone.test_error, rel=1e-9)
        assert found.train_error == pytest.approx(alone.train_error, rel=1e-9)


def test_training_errors_of_few_samples():
    problem = PROBLEM.replace(d=50, width=100, n_step=2000, ridge=5.0)
    networks = gs.simulate(problem, seeds=400)
    mean, error = float(networks.mean("train_error")), float(networks.standard_error("train_error"))
    _, without, found = solutions(problem)
    assert abs(found.train_error[0] - mean) < 3 * error
    assert without.train_error[0] - mean > 3 * error


@pytest.mark.statistical
@pytest.mark.parametrize(
    "changes",
    [
        {"teacher": "x", "readout": "gaussian"},
        {"readout": "gaussian"},
        {"teacher": "x", "eta": gs.Step(0.5, 0.5)},
        {"activation": "x", "eta": gs.Step(0.5, 0.5)},
        {"activation": "sin", "teacher": "x", "readout": "gaussian"},
        {"activation": "relu", "teacher": "x", "readout": {-1: 0.5, 1: 0.5}, "eta": gs.Step(1.0, 0.5)},
    ],
)
def test_errors_of_few_samples(changes):
    problem = PROBLEM.replace(**changes)
    networks = gs.simulate(problem, seeds=600)
    predicted, (_, without, _) = gs.predict(problem), solutions(problem)
    # What is left out is of the order of one over sixty samples, and larger in test errors.
    for name, rest in (("train_error", 0.01), ("test_error", 0.02)):
        mean, error = float(networks.mean(name)), float(networks.standard_error(name))
        assert abs(getattr(predicted, name) - mean) < 3 * error + rest * mean
    assert without.train_error[0] - float(networks.mean("train_error")) > 2 * float(
        networks.standard_error("train_error")
    )
