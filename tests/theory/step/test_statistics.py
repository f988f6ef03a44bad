"""The gradient step's limits against real gradient steps."""

import math

import numpy as np
import pytest

import gradstep as gs
from gradstep.errors import InvalidInput
from gradstep.simulation.instance import initial_readout
from gradstep.theory.step.statistics import step_statistics


def statistics(problem: gs.Problem):
    return step_statistics(problem, problem.d, problem.width, problem.n_step)


def real_rows(problem: gs.Problem, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return rows after the step, the spike direction, the teacher's direction and the readout, drawn literally."""
    rng = np.random.default_rng(seed)
    d, width, count = problem.d, problem.width, problem.n_step
    w = rng.standard_normal((width, d)) / math.sqrt(d)
    if problem.initial_weights == "sphere":
        w /= np.linalg.norm(w, axis=1, keepdims=True)
    readout = rng.standard_normal(width) if problem.readout.kind == "gaussian" else np.ones(width)
    x = rng.standard_normal((count, d))
    y = problem.teacher(x[:, 0]) + problem.noise * rng.standard_normal(count)
    u = x @ w.T
    scale = 1 / width if problem.output_scale == "1/N" else 1 / math.sqrt(width)
    residual = y - scale * problem.activation(u) @ readout
    gradient = (residual[:, None] * problem.activation.derivative(u)).T @ x / count * readout[:, None]
    g = x.T @ residual / count
    beta = np.eye(d)[0]
    return w + problem.step_size / math.sqrt(width) * gradient, g, beta, readout


BASE = gs.Problem(
    activation="tanh", teacher="sin", d=300, width=1200, n_step=900, n=1, eta=gs.Step(2.0, 0.5), ridge=1.0,
    noise=0.3, readout="constant", initial_weights="sphere",
)  # fmt: skip


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, marks=pytest.mark.statistical),
        pytest.param({"initial_weights": "gaussian", "readout": "gaussian"}, marks=pytest.mark.statistical),
        {"activation": "relu", "teacher": "relu", "n_step": 600},
        {"activation": "softplus", "teacher": "tanh(x) + 1"},
        pytest.param(
            {"activation": "sin", "teacher": "tanh", "readout": "gaussian", "output_scale": "1/sqrt(N)"},
            marks=pytest.mark.statistical,
        ),
    ],
    ids=["odd", "gaussian", "relu", "drift", "initial-output"],
)
def test_spike_alignment_and_bulk_match_a_real_step(changes):
    problem = BASE.replace(**changes)
    theory = statistics(problem)
    measured = []
    for seed in range(16):
        w, g, beta, readout = real_rows(problem, seed)
        norm = np.linalg.norm(g)
        v = g / norm
        projection = w @ v
        rest = np.linalg.norm(w - np.outer(projection, v), axis=1) ** 2 * problem.d / (problem.d - 1)
        slope = projection @ readout / (readout @ readout)
        curvature = np.polyfit(readout**2, rest, 1)[0] if problem.readout.kind == "gaussian" else rest.mean() - 1
        measured.append([v @ beta, norm, slope, curvature])
    tilted = theory.bulk + theory.fluctuations.norm_slope[0] * theory.initial_overlap
    constant = (1 + theory.drift) ** 2 + theory.bulk - 1
    expected = [
        theory.alignment,
        theory.gradient_norm,
        theory.spike + theory.initial_overlap,
        tilted if problem.readout.kind == "gaussian" else constant,
    ]
    mean = np.mean(measured, axis=0)
    error = np.std(measured, axis=0, ddof=1) / 4
    # Corrections of relative order 1/d and 1/n_step are not part of the limits.
    finite_size = 3.0 / problem.d * np.abs(expected) * np.array([1, 1, 1, 4])
    assert np.all(np.abs(mean - expected) < 4 * error + finite_size), (mean, expected, error)


FLUCTUATING = [
    ("tanh", "sin", 3.0, 1600, 0.05),
    ("softplus", "tanh(x) + 0.3*x**2", 3.0, 1600, 0.05),
    # The spike follows the initial length as much as the projection does by itself.
    ("sin(2*x)", "3*x", 0.3, 1600, 0.1),
    # (sigma' - 1/2)^2 is 1/4 without fluctuation: what its parts fluctuate by cancels.
    ("relu", "3*x", 2.5, 400, 0.05),
    ("erf", "3*x", 2.5, 400, 0.05),
]
#: One of each kind, and either law of the initial weights.
PAIRED = {"softplus": "gaussian", "relu": "sphere"}


@pytest.mark.parametrize(
    ("activation", "teacher", "eta", "n_step", "beyond", "initial_weights"),
    [
        pytest.param(*case, law, marks=() if PAIRED.get(case[0]) == law else pytest.mark.statistical)
        for case in FLUCTUATING
        for law in ("gaussian", "sphere")
    ],
)
def test_row_norms_fluctuate_and_follow_the_projection_as_predicted(
    activation, teacher, eta, n_step, beyond, initial_weights
):
    changes = {
        "activation": activation,
        "teacher": teacher,
        "eta": gs.Step(eta, 0.5),
        "initial_weights": initial_weights,
    }
    problem = BASE.replace(d=400, n_step=n_step, width=2000, **changes)
    theory = statistics(problem)
    slopes, variances, gains = [], [], []
    for seed in range(8):
        w, g, _, _ = real_rows(problem, 100 + seed)
        v = g / np.linalg.norm(g)
        projection = w @ v
        rest = np.linalg.norm(w - np.outer(projection, v), axis=1) ** 2
        offset = projection - projection.mean()
        slope = problem.d * np.mean(offset * (rest - rest.mean()))
        slopes.append(slope)
        gains.append(problem.d * np.mean(offset**2))
        fitted = slope / gains[-1] * offset
        variances.append(problem.d * np.var(rest - fitted))
    law = theory.fluctuations
    expected_gain = sum(law.projection_variance) + law.spike_variance
    covariance = sum(law.covariance)
    for values, expected, allowance in (
        (gains, expected_gain, 0.05),
        (slopes, covariance, 0.05),
        # The norm follows <w(0), v> and the initial length, of which the projection tells only a part.
        (variances, sum(law.norm_variance) + sum(law.norm_slope) ** 2 - covariance**2 / expected_gain, beyond),
    ):
        error = np.std(values, ddof=1) / math.sqrt(len(values))
        assert abs(np.mean(values) - expected) < 4 * error + allowance * abs(expected), (
            np.mean(values),
            expected,
            error,
        )


def test_no_step_leaves_rows_alone():
    theory = statistics(BASE.replace(eta=0.0))
    assert (theory.spike, theory.bulk, theory.drift) == (0.0, 0.0, 0.0)


def test_population_gradient_is_aligned_and_has_no_bulk():
    theory = step_statistics(BASE, 300, 1200, math.inf)
    assert theory.alignment == pytest.approx(1.0, abs=1e-15)
    assert theory.bulk == 0.0


@pytest.mark.parametrize("readout", ["constant", {0.5: 0.5, 2: 0.5}], ids=["constant", "values"])
def test_labels_without_a_linear_part_leave_the_gradient_of_the_own_output(readout):
    """Without samples' noise nothing else is left, and what the step does is the limit of many samples."""
    problem = gs.Problem(
        activation="x+.3*hermite2+.2*hermite3",
        teacher="x**2-.3",
        d=60,
        width=90,
        n_step=10**14,
        n=180,
        eta=gs.Step(1.0, 0.5),
        ridge=2.0,
        readout=readout,
    )
    many, population = gs.predict(problem), gs.predict(problem.replace(n_step=math.inf))
    mean_square = problem.readout.second_moment
    # eta |E sigma'| |mu_1 W0^T a / N| sqrt(E a^2), with E sigma' = mu_1 = 1.
    assert population.spike_strength == pytest.approx(mean_square, rel=1e-12)
    assert many.spike_strength == pytest.approx(population.spike_strength, rel=1e-6)
    assert many.bulk_variance == pytest.approx(population.bulk_variance, rel=1e-6)


def test_steps_that_differ_in_their_size_alone_share_their_samples():
    problem = gs.Problem(activation="relu", teacher="sin", d=100, width=80, n_step=150, n=60, eta=1.0, ridge=1.0)
    samples = statistics(problem).samples
    assert statistics(problem.replace(eta=3.0, n=90, ridge=0.1)).samples is samples
    for change in ({"n_step": 151}, {"width": 81}, {"noise": 0.1}, {"teacher": "tanh"}):
        assert statistics(problem.replace(**change)).samples is not samples


def test_sign_has_no_gradient():
    assert statistics(BASE.replace(activation="sign")).spike == 0.0


def test_diverging_initial_output_is_refused():
    with pytest.raises(InvalidInput, match="output_scale"):
        statistics(BASE.replace(activation="relu", output_scale="1/sqrt(N)"))


@pytest.mark.parametrize("readout", ["constant", "gaussian", {-1.0: 0.3, 2.0: 0.7}])
def test_the_variance_of_an_initial_output_of_order_one_is_that_of_a_drawn_one(readout):
    # Readouts with a mean add up what all neurons see alike: the length of the input, at second order.
    problem = BASE.replace(
        activation="H1 + 0.5*H2", readout=readout, output_scale="1/sqrt(N)", d=200, width=800, noise=0.0
    )
    found = statistics(problem).residual_noise
    variances = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        w = rng.standard_normal((800, 200)) / math.sqrt(200)
        z = rng.standard_normal((3000, 200)) @ w.T
        a = initial_readout(seed, 800, problem.readout)
        variances.append(np.var(problem.activation(z) @ a / math.sqrt(800)))
    error = np.std(variances, ddof=1) / math.sqrt(6)
    assert np.mean(variances) == pytest.approx(found, abs=4 * error + 0.03 * found)
    assert error < 0.05 * found
