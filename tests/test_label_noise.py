"""The training error without label noise is that of the real network on labels without noise."""

import numpy as np
import pytest

import gradstep as gs
from gradstep.app.settings import DEFAULT, problem_of
from gradstep.label_noise import noiseless_training_error

PROBLEM = gs.Problem(
    activation="tanh",
    teacher="sin",
    d=30,
    width=60,
    n_step=120,
    n=90,
    eta=gs.Step(2.0, exponent=0.5),
    ridge=2.0,
    noise=1.0,
)


def test_on_real_networks():
    gaps = []
    for seed in range(60):
        network = gs.Network(PROBLEM, seed=seed)
        fit = network.fit()
        inputs, _ = network.fit_data()
        output = network.features(inputs) @ fit.readouts[:, 0]
        against_teacher = float(np.mean((np.sin(inputs[:, 0]) - output) ** 2))
        gaps.append(against_teacher - noiseless_training_error(PROBLEM, fit.train_error[0], fit.degrees_of_freedom[0]))
    z = np.mean(gaps) / (np.std(gaps, ddof=1) / np.sqrt(len(gaps)))
    assert abs(z) < 4
    # The noise matters by far more than the sixty networks leave open.
    assert np.std(gaps) / np.sqrt(len(gaps)) < 0.03 * PROBLEM.noise**2


@pytest.mark.parametrize("ridge", [1e-9, 1e9])
def test_where_the_fit_has_all_or_none_of_the_noise(ridge):
    problem = PROBLEM.replace(width=200, ridge=ridge)
    found = gs.predict(problem)
    without = noiseless_training_error(problem, found.train_error, found.degrees_of_freedom)
    # A fit of all labels has their noise as its error, a fit of none has the teacher, whose mean square is this.
    expected = problem.noise**2 if ridge < 1 else (1 - np.exp(-2)) / 2
    assert without == pytest.approx(expected, rel=0.02)


def test_the_limit_is_that_of_large_sizes():
    found = []
    for d in ("inf", 100_000):
        problem = problem_of({**DEFAULT, "d": d, "noise": 1.0, "readout": "constant"})
        prediction = gs.predict(problem)
        args = prediction.train_error, prediction.degrees_of_freedom
        found.append(noiseless_training_error(problem, *args))
    assert found[0] == pytest.approx(found[1], rel=1e-3)
