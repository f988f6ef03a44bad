"""An initial output of order one: the same network described with and without it, and an independent expansion."""

import math

import numpy as np
import pytest

import gradstep as gs
from gradstep.errors import InvalidInput
from gradstep.papers.moniri2024.finite import finite_errors
from gradstep.theory.own_output import given_own_output
from gradstep.theory.step import step_statistics

BASE = gs.Problem(
    activation="tanh", teacher="sin", d=300, width=450, n_step=600, n=900, eta=gs.Step(1.0, 0.5), ridge=9.0,
    noise=0.2, output_scale="1/sqrt(N)",
)  # fmt: skip


@pytest.mark.parametrize("readout", ["gaussian", "constant", {-1.0: 0.5, 2.0: 0.5}])
def test_the_network_before_a_step_is_the_same_with_its_output_set_apart(readout):
    # A vanishing step resolves the rows along their own sum, which is no more than another way to write them: the two
    # descriptions differ by fluctuations of that sum, of relative order 1/d.
    distances = []
    for d in (300, 3000, 30_000):
        sizes = dict(zip(("d", "width", "n_step", "n"), np.array([1, 1.5, 2, 3]) * d, strict=True))
        problem = BASE.replace(**{k: int(v) for k, v in sizes.items()}, ridge=0.03 * d, readout=readout)
        before = gs.predict(problem.replace(eta=0.0)).test_error
        distances.append(gs.predict(problem.replace(eta=1e-9)).test_error / before - 1)
    assert abs(distances[0]) < 0.01
    assert np.array(distances[:-1]) / distances[1:] == pytest.approx(10, rel=0.05)


@pytest.mark.parametrize("alpha", [0.0, 0.1, 0.2, 0.3])
@pytest.mark.parametrize(
    ("activation", "closeness"), [("tanh", 2e-6), ("sin(1.2*x)", 2e-6), ("tanh(x) + 0.2*H2", 2e-4)]
)
def test_errors_are_those_of_the_expansion_in_powers_of_the_step(activation, closeness, alpha):
    # It resolves no groups of rows, but sums a rank-one term for each power. Both leave out what vanishes with n,
    # not the same, and slowest for an activation and a teacher that share their second order.
    problem = gs.Problem.moniri2024(
        phi=0.5, psi=0.4, alpha=alpha, lam=0.1, n=10**12, activation=activation, teacher="H1 + 0.3*H2", noise=0.3
    )
    assert problem.output_scale == "1/sqrt(N)"
    found, expected = gs.predict(problem), finite_errors([problem])
    assert found.test_error + 0.09 == pytest.approx(expected.L_te[0], rel=closeness)
    assert found.train_loss == pytest.approx(expected.L_tr[0], rel=closeness)
    # What is compared is no small thing.
    without = gs.predict(problem.replace(output_scale="1/N")).test_error
    assert abs(found.test_error / without - 1) > 0.005


def test_the_direction_of_the_rows_is_that_of_drawn_ones():
    # The mean row for each unit of readout, of a drawn network after a drawn step.
    problem = BASE.replace(d=400, width=800, n_step=1200, eta=3.0, teacher="tanh")
    step = step_statistics(problem, 400, 800, 1200)
    expected = given_own_output(problem, step, 800)
    measured = []
    for seed in range(24):
        rng = np.random.default_rng(seed)
        w = rng.standard_normal((800, 400)) / 20
        a, x = rng.standard_normal(800), rng.standard_normal((1200, 400))
        z = x @ w.T
        r = np.tanh(x[:, 0]) + 0.2 * rng.standard_normal(1200) - np.tanh(z) @ a / math.sqrt(800)
        step_size = 3.0 / math.sqrt(800)
        u = a @ (w + step_size * a[:, None] * ((r[:, None] / np.cosh(z) ** 2).T @ x / 1200)) / (a @ a)
        measured.append([np.linalg.norm(u), u[0] / np.linalg.norm(u)])
    values = np.array(measured)
    error = values.std(axis=0, ddof=1) / math.sqrt(len(values))
    theory = [expected.spike + expected.initial_overlap, expected.alignment]
    # Finite size: one per cent.
    assert np.all(np.abs(values.mean(axis=0) - theory) < 3 * error + 0.01 * np.abs(theory))
    assert expected.alignment / step.alignment > 1.2


def test_a_small_initial_output_changes_nothing():
    problem = BASE.replace(output_scale="1/N")
    step = step_statistics(problem, 300, 450, 600)
    assert given_own_output(problem, step, 450) is step
    without = step_statistics(BASE.replace(eta=0.0), 300, 450, 600)
    assert given_own_output(BASE.replace(eta=0.0), without, 450) is without


def test_an_output_that_diverges_is_refused():
    with pytest.raises(InvalidInput, match="output_scale"):
        gs.predict(BASE.replace(activation="relu", readout="constant"))
