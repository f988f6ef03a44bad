"""Errors at finite n, uniformly in the exponent of the step size."""

import math

import numpy as np
import pytest

from gradstep.errors import InvalidInput
from gradstep.gaussian import hermite_values, moments
from gradstep.overlay import Overlay
from gradstep.papers.moniri2024 import gains, resolvent, staircase
from gradstep.papers.moniri2024.experiments import exponents, spike_shape
from gradstep.papers.moniri2024.finite import finite_errors, spike_coefficients
from gradstep.problem import Problem
from gradstep.theory import predict
from gradstep.theory.step.statistics import step_statistics

SIGMA = "sin(1.2*x + 0.6) - 0.27484099773585186"
TEACHER = "H1 + 0.7071067811865476*H2 + 0.3*H3"
SETTING = {"phi": 0.5, "psi": 0.4, "lam": 0.1, "sigma_eps": 0.3}


def _problem(**changes) -> Problem:
    values = {"phi": 0.5, "psi": 0.4, "lam": 0.1, "noise": 0.3, "alpha": 0.3, "n": 600, "residual": "y"}
    return Problem.moniri2024(**{**values, "activation": SIGMA, "teacher": TEACHER, **changes})


@pytest.mark.parametrize("dressed", [False, True])
@pytest.mark.parametrize("residual", ["y", "y - f"])
def test_tends_to_the_staircase(residual, dressed):
    for l, accuracy in ((1, 0.01), (2, 0.005), (3, 0.03)):  # noqa: E741
        problem = _problem(n=1e16, alpha=sum(staircase.windows(l)) / 2, residual=residual)
        found = finite_errors([problem], dressed=dressed)
        expected = [float(f(l, SIGMA, TEACHER, **SETTING, residual=residual)) for f in (gains.Delta, gains.Lambda)]
        assert float(found.training_gain[0]) == pytest.approx(expected[0], rel=accuracy)
        assert float(found.test_gain[0]) == pytest.approx(expected[1], rel=accuracy)


def test_without_a_step_these_are_the_initial_errors():
    found = finite_errors([_problem(c=0.0)])
    assert found.training_gain[0] == found.test_gain[0] == 0
    assert float(found.L_tr[0]) == pytest.approx(float(resolvent.L_tr_0(SIGMA, TEACHER, **SETTING)), rel=1e-12)
    assert float(found.L_te[0]) == pytest.approx(float(resolvent.L_te_0(SIGMA, TEACHER, **SETTING)), rel=1e-12)


@pytest.mark.parametrize("dressed", [False, True])
@pytest.mark.parametrize("residual", ["y", "y - f"])
def test_test_error_is_the_derivative_of_the_training_loss(residual, dressed):
    lam, step = 0.1, 1e-4
    low, middle, high = (
        finite_errors([_problem(lam=lam * (1 + e), residual=residual, alpha=0.36)], dressed=dressed)
        for e in (-step, 0, step)
    )
    slope = (high.L_tr[0] / (lam * (1 + step)) - low.L_tr[0] / (lam * (1 - step))) / (2 * step * lam)
    # L_te / L_tr-slope is -1/t^2 with t of the bulk after the step; without dressing that is the initial one.
    if dressed:
        problem = _problem(residual=residual, alpha=0.36)
        t = _dressed_trace(problem)
    else:
        t = float(resolvent.limiting_traces(SIGMA, phi=0.5, psi=0.4, lam=lam).t)
    assert float(middle.L_te[0]) == pytest.approx(-slope / t**2, rel=1e-6)


def _dressed_trace(problem: Problem) -> float:
    """The bulk after the step by brute force: Gauss-Hermite in kappa, a and u."""
    step = step_statistics(problem, problem.d, problem.width, problem.n_step)
    added = step.bulk + step.fluctuations.norm_slope[0] * step.initial_overlap
    z, w = np.polynomial.hermite_e.hermegauss(60)
    w = w / w.sum()
    kappa, a, u = z[:, None, None], z[None, :, None], z[None, None, :]
    values = problem.activation(step.spike * kappa * a + np.sqrt(1 + added * a**2) * u)
    mean, slope, square = values @ w, (values * u) @ w, values**2 @ w
    c_1, product = w @ slope @ w, (w * z) @ slope @ (w * z)
    rest = w @ (square - mean**2) @ w - c_1**2 - product**2
    return float(resolvent.traces(c_1**2, rest, phi=0.5, psi=0.4, lam=0.1, product_squared=product**2).t)


def test_order_and_nodes_are_enough():
    problems = [_problem(alpha=alpha, residual="y - f") for alpha in (0.1, 0.3, 0.42)]
    found, finer = finite_errors(problems), finite_errors(problems, order=24)
    np.testing.assert_allclose(found.L_tr, finer.L_tr, rtol=1e-5)
    np.testing.assert_allclose(found.L_te, finer.L_te, rtol=1e-5)


def test_the_dressing_vanishes_with_the_spike():
    small, large = (
        float(finite_errors([p]).test_gain[0] / finite_errors([p], dressed=False).test_gain[0] - 1)
        for p in (_problem(n=10**8, alpha=0.2), _problem(n=600, alpha=0.2))
    )
    assert 0 < abs(small) < 0.1 * abs(large)


@pytest.mark.parametrize("rows", ["gaussian", "sphere"])
def test_near_the_equations_for_every_step_size(rows):
    """Two derivations; what each leaves out is of relative order 1/n or of the spike's square."""
    for alpha in (0.1, 0.2, 0.3):
        problem = _problem(alpha=alpha, n=10**5).replace(initial_weights=rows)
        before, after = predict(problem.replace(eta=0.0)), predict(problem)
        found = finite_errors([problem])
        assert before.train_loss - after.train_loss == pytest.approx(float(found.training_gain[0]), rel=0.02)
        assert before.test_error - after.test_error == pytest.approx(float(found.test_gain[0]), rel=0.02)


def test_coefficients_of_the_second_spike_to_lowest_order():
    problem = _problem(n=10**10, alpha=0.3)
    step = step_statistics(problem, problem.d, problem.width, problem.n_step)
    C = spike_coefficients(problem)
    c_2 = moments(SIGMA).quadratic / math.sqrt(2)
    # a^2 is 1 + sqrt2 h_2(a): c_2 (s^2 kappa^2 + tau) a^2.
    constant, quadratic = c_2 * (step.spike**2 + step.bulk), math.sqrt(2) * c_2 * step.spike**2
    assert C[0, 0] == pytest.approx(constant, rel=1e-3)
    assert C[0, 2] == pytest.approx(math.sqrt(2) * constant, rel=1e-3)
    assert C[2, 2] == pytest.approx(math.sqrt(2) * quadratic, rel=1e-3)
    assert C[1, 1] == pytest.approx(moments(SIGMA).linear * step.spike, rel=1e-3)
    assert not C[0, 1]


def test_drawn_features_with_the_coefficients():
    """Ridge on a Gaussian bulk plus U C B^T, against the plain form: the linear algebra alone, both residuals."""
    n, d, N = 600, 300, 750
    for residual, seeds in (("y", range(10)), ("y - f", range(10, 20))):
        problem = _problem(alpha=0.3, residual=residual).replace(initial_weights="sphere")
        C = spike_coefficients(problem)
        step = step_statistics(problem, d, N, n)
        student, gamma = moments(SIGMA), step.alignment
        losses = []
        for seed in seeds:
            draw = np.random.default_rng(seed)
            a, x, z = draw.standard_normal(N), draw.standard_normal((n, d)), draw.standard_normal((n, N))
            weights = draw.standard_normal((N, d)) / math.sqrt(d)
            tilt = step.initial_overlap * math.sqrt(N)
            back = weights.T @ a / np.linalg.norm(weights.T @ a)
            teacher = np.eye(d)[0] - back[0] * back
            teacher /= np.linalg.norm(teacher)
            other = np.eye(d)[1] - back[1] * back
            other -= (other @ teacher) * teacher
            other /= np.linalg.norm(other)
            v = gamma * teacher + tilt * back + math.sqrt(1 - gamma**2 - tilt**2) * other
            bulk = student.linear * x @ weights.T + math.sqrt(student.nonlinear_second_moment) * z
            features = bulk + hermite_values(x @ v, 16).T @ C @ hermite_values(a, 16)
            y = problem.teacher(x @ teacher) + 0.3 * draw.standard_normal(n)

            def loss(rows: np.ndarray, labels: np.ndarray = y) -> float:
                return 0.1 * float(labels @ np.linalg.solve(rows @ rows.T + 0.1 * n * np.eye(n), labels))

            losses.append(loss(bulk) - loss(features))
        # Row norms of the inputs open one more direction in the theory, which costs the teacher nothing.
        found = float(finite_errors([problem], dressed=False).training_gain[0])
        assert abs(Overlay.of(found, losses).z_beyond(0.02)) < 4


def test_extrapolation_takes_away_terms_of_order_one_over_n():
    sizes = (200.0, 500.0)
    beyond = np.array([[0.3 + 7 / n, -1 / n] for n in sizes])
    np.testing.assert_allclose(exponents.extrapolated(beyond, sizes), [0.3, 0.0], atol=1e-15)


@pytest.mark.statistical
@pytest.mark.parametrize("setting", [("H1", 1.0, "y - f"), ("H1 + 0.7071067811865476*H2", 0.0, "y")])
def test_gains_of_the_real_network(setting):
    teacher, noise, residual = setting
    base = {"phi": 0.5, "psi": 0.4, "lam": 0.1, "noise": noise, "activation": SIGMA, "teacher": teacher}
    parameters = {**base, "residual": residual, "n": 300, "test": True}
    for alpha in (0.1, 0.24, 0.36):
        results = [exponents.measure({**parameters, "alpha": alpha}, seed) for seed in range(14)]
        found = finite_errors([_problem(**base, residual=residual, n=300, alpha=alpha)])
        for name, theory in (("L_tr", found.training_gain), ("L_te", found.test_gain)):
            gains = [r[name][0] - r[name][1] for r in results]
            # What the theory leaves out: about 20/d of the gain.
            assert abs(Overlay.of(float(theory[0]), gains).z_beyond(20 / 150)) < 4


@pytest.mark.statistical
def test_second_spike_of_real_steps():
    base = {"phi": 0.5, "psi": 0.4, "lam": 0.1, "noise": 0.0, "activation": SIGMA, "teacher": "H1 + 0.5*H2"}
    found = [spike_shape.measure({**base, "n": 800, "alpha": 0.3, "degrees": [0, 2]}, s) for s in range(8)]
    C = spike_coefficients(_problem(**base, n=800))
    for place, p in enumerate((0, 2)):
        theory = math.sqrt(1000 / 3) * (C[p, 0] + math.sqrt(2) * C[p, 2])
        assert abs(Overlay.of(float(theory), [r["coefficient"][place] for r in found]).z_beyond(0.04)) < 4


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"n": math.inf, "alpha": 0.0}, "d"),
        ({"alpha": 0.5}, "alpha"),
        ({"teacher": "relu"}, "teacher"),
    ],
)
def test_problems_outside_are_refused(changes, field):
    with pytest.raises(InvalidInput, match=field):
        finite_errors([_problem(**changes)])


def test_other_readouts_are_refused():
    with pytest.raises(InvalidInput, match="readout"):
        finite_errors([_problem().replace(readout="constant")])
