"""Limits of Moniri et al. 2024: traces, gains with l spikes, staircase."""

import math

import numpy as np
import pytest

from gradstep.errors import InvalidInput
from gradstep.gaussian import expectation, moments, scalar_function
from gradstep.overlay import Overlay
from gradstep.papers.ba2022 import coefficients, random_features
from gradstep.papers.moniri2024 import gains, published, resolvent, staircase
from gradstep.papers.moniri2024.experiments import sharp_spikes
from gradstep.problem import Problem
from gradstep.simulation import Network, simulate
from gradstep.theory import predict
from gradstep.theory.step.statistics import step_statistics

SIGMA = "sin(1.2*x + 0.6) - 0.27484099773585186"
TEACHER = "H1 + 0.7071067811865476*H2 + 0.3*H3 + 0.1*H4"
SETTING = {"phi": 0.5, "psi": 0.4, "lam": 0.1, "sigma_eps": 0.3}
OPTIONS = [
    {"residual": residual, "spikes": spikes, "rows": rows}
    for residual in ("y", "y - f")
    for spikes in ("network", "published")
    for rows in ("gaussian", "sphere")
]


def _wide(count: int = 500) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(1)
    return {
        "phi": 10 ** draw.uniform(-2, 2, count),
        "psi": 10 ** draw.uniform(-2, 2, count),
        "lam": 10 ** draw.uniform(-7, 2, count),
    }


# --- traces ---------------------------------------------------------------------------------------------------------


def test_traces_solve_the_published_system():
    grid = _wide()
    found, values = resolvent.limiting_traces("tanh", **grid), moments("tanh")
    m1, m2, c_1 = found.m1, found.m2, values.linear
    c_gt1 = values.nonlinear_second_moment**0.5
    both = resolvent.published_system(m1, m2, c_1=c_1, c_gt1=c_gt1, **grid)
    ratio, common = grid["phi"] / grid["psi"], c_1**2 * m1 * m2
    scales = grid["phi"] * m1 * (c_gt1**2 * m1 + c_1**2 * m2) + common, ratio * (common + grid["phi"] * m1) + common
    for equation, scale in zip(both, scales, strict=True):
        assert np.max(np.abs(equation) / scale) < 1e-13
    assert (m1 > m2).all()
    assert (m2 > 0).all()


def test_traces_agree_with_the_equations_of_random_features():
    grid = _wide()
    found = resolvent.limiting_traces("tanh", **grid)
    expected = random_features(
        coefficients("tanh", "tanh"), psi1=1 / grid["phi"], psi2=1 / grid["psi"], lam=grid["lam"], sigma_eps=0.3
    )
    per_lambda = grid["psi"] / grid["phi"]  # their derivative is in lam n / N
    for mine, theirs in (
        (found.m1, expected.m1),
        (found.m2, expected.m2),
        (found.dm1, expected.m1_slope * per_lambda),
        (found.dm2, expected.m2_slope * per_lambda),
        (resolvent.L_tr_0("tanh", "tanh", **grid, sigma_eps=0.3), expected.train_loss),
        (resolvent.L_te_0("tanh", "tanh", **grid, sigma_eps=0.3), expected.test_error + 0.09),
    ):
        np.testing.assert_allclose(mine, theirs, rtol=1e-11)


def test_derivatives_of_the_traces_with_two_linear_blocks():
    lam, step = np.geomspace(1e-3, 10, 7), 1e-5

    def at(penalty: np.ndarray) -> resolvent.Traces:
        return resolvent.traces(0.3, 0.1, phi=0.7, psi=0.4, lam=penalty, product_squared=0.2)

    low, middle, high = at(lam * (1 - step)), at(lam), at(lam * (1 + step))
    for name in ("m1", "m2", "unused"):
        slope = (getattr(high, name) - getattr(low, name)) / (2 * step * lam)
        np.testing.assert_allclose(getattr(middle, f"d{name}"), slope, rtol=1e-7)

    def function(t: np.ndarray, s2: np.ndarray, theta: np.ndarray) -> np.ndarray:
        return t**2 / (1 + s2 * theta) ** 0.5

    slope = (function(high.t, high.s2, high.unused) - function(low.t, low.s2, low.unused)) / (2 * step * lam)
    np.testing.assert_allclose(middle.derivative(function), slope, rtol=1e-7)


def test_traces_of_drawn_matrices_with_two_linear_blocks():
    # Two blocks made uncorrelated by random signs, and noise; terms of relative order 1/n are 1e-3 here.
    n, d, N, lam = 900, 450, 700, 0.1
    draw = np.random.default_rng(3)
    x, z = draw.standard_normal((n, d)), draw.standard_normal((n, N))
    first, second = draw.standard_normal((2, N, d)) / math.sqrt(d)
    signs = draw.choice([-1.0, 1.0], (n, 1))
    features = 0.6 * x @ first.T + 0.4 * signs * (x @ second.T) + 0.3 * z
    resolved = np.linalg.inv(features @ features.T + lam * n * np.eye(n))
    found = resolvent.traces(0.36, 0.09, phi=d / n, psi=d / N, lam=lam, product_squared=0.16)
    assert np.trace(resolved) == pytest.approx(float(found.t), rel=0.01)
    assert np.einsum("ij,jk,ki->", x.T, resolved, x) / d == pytest.approx(float(found.s2), rel=0.01)
    assert N / n - 1 + lam * np.trace(resolved) == pytest.approx(float(found.unused), rel=0.01)


@pytest.mark.statistical
def test_errors_before_the_step_of_the_real_network():
    problem = Problem.moniri2024(
        phi=0.5, psi=0.4, lam=0.1, n=600, c=0.0, alpha=0.0, noise=0.3, activation=SIGMA, teacher="H1 + 0.7*H2"
    )
    found = simulate(problem, seeds=8)
    setting = {"phi": 0.5, "psi": 0.4, "lam": 0.1, "sigma_eps": 0.3}
    loss, error = (float(f(SIGMA, "H1 + 0.7*H2", **setting)) for f in (resolvent.L_tr_0, resolvent.L_te_0))
    assert abs(Overlay.of(loss, found["train_loss"].tolist()).z_beyond(0.01)) < 4
    assert abs(Overlay.of(error, (found["test_error"] + 0.09).tolist()).z_beyond(0.01)) < 4


@pytest.mark.parametrize(
    ("name", "value"), [("phi", 0.0), ("psi", -1.0), ("lam", math.inf), ("lam", math.nan), ("linear_squared", 0.0)]
)
def test_traces_refuse_bad_values(name, value):
    setting = {"phi": 0.5, "psi": 0.5, "lam": 0.1} | ({} if name == "linear_squared" else {name: value})
    with pytest.raises(InvalidInput, match=name):
        resolvent.traces(0.0 if name == "linear_squared" else 0.3, 0.0, **setting)


# --- the gradient's direction ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("residual", ["y", "y - f"])
def test_direction_agrees_with_the_statistics_of_the_step(residual):
    problem = Problem.moniri2024(
        phi=0.5, psi=0.4, lam=0.1, n=800, alpha=0.3, noise=0.3, activation=SIGMA, teacher=TEACHER, residual=residual
    )
    step = step_statistics(problem, 400, 1000, 800, own_output=False)
    found = gains.direction(SIGMA, TEACHER, phi=0.5, sigma_eps=0.3, residual=residual)
    assert float(found.norm) == pytest.approx(step.gradient_norm, rel=1e-8)
    assert float(found.gamma) == pytest.approx(step.alignment, rel=1e-8)
    assert float(found.rho) == pytest.approx(step.bulk / step.spike**2, rel=1e-8)
    assert float(found.omega) == pytest.approx(step.initial_overlap * math.sqrt(1000), rel=1e-8)


def test_direction_of_real_gradients():
    """Variance added to the pre-activations, over the square of the spike, and the alignment."""
    problem = Problem.moniri2024(
        phi=0.5, psi=0.4, lam=0.1, n=800, alpha=0.0, noise=0.3, activation=SIGMA, teacher="H1", residual="y"
    )
    rho, gamma = [], []
    for seed in range(8):
        network = Network(problem, seed)
        readout, step = network.readout, network.gradient
        v = step.linear / np.linalg.norm(step.linear)
        along = step.rows @ v
        spike = readout @ along / (readout @ readout)
        rest = ((step.rows - np.outer(along, v)) ** 2).sum() / (readout @ readout)
        rho.append(rest / spike**2)
        gamma.append(v[0])
    found = gains.direction(SIGMA, "H1", phi=0.5, sigma_eps=0.3, residual="y")
    assert abs(Overlay.of(float(found.rho), rho).z_beyond(0.01)) < 4
    assert abs(Overlay.of(float(found.gamma), gamma).z_beyond(0.005)) < 4


# --- gains ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(o.values()))
def test_closed_form_is_the_matrix_of_the_theorem(options):
    for l in range(1, 7):  # noqa: E741
        closed = gains.Delta(l, SIGMA, TEACHER, **SETTING, **options)
        assert float(gains.Delta_by_matrix(l, SIGMA, TEACHER, **SETTING, **options)) == pytest.approx(
            float(closed), rel=1e-12
        )


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(o.values()))
def test_test_gain_is_the_derivative_of_the_training_gain(options):
    """Generalised cross-validation, on the matrix and not on the closed form."""
    lam = 0.1 * (1 + np.array([-1e-4, 1e-4]))
    t = float(resolvent.limiting_traces(SIGMA, phi=0.5, psi=0.4, lam=0.1).t)
    for l in range(1, 6):  # noqa: E741
        curve = gains.Delta_by_matrix(l, SIGMA, TEACHER, **{**SETTING, "lam": lam}, **options) / lam
        slope = (curve[1] - curve[0]) / (lam[1] - lam[0])
        found = float(gains.Lambda(l, SIGMA, TEACHER, **SETTING, **options))
        assert found == pytest.approx(-slope / t**2, rel=1e-6)


def test_published_training_gains_are_the_closed_form_of_the_published_spikes():
    plain = {"residual": "y", "spikes": "published", "rows": "sphere"}
    for l in range(1, 7):  # noqa: E741
        closed = float(gains.Delta(l, SIGMA, TEACHER, **SETTING, **plain))
        assert float(published.published_Delta(l, SIGMA, TEACHER, **SETTING)) == pytest.approx(closed, rel=1e-11)
        if l <= 2:
            special = (published.published_Delta_1, published.published_Delta_2)[l - 1]
            assert float(special(SIGMA, TEACHER, **SETTING)) == pytest.approx(closed, rel=1e-13)


def test_published_test_gains_lack_their_factors():
    plain = {"residual": "y", "spikes": "published", "rows": "sphere"}
    first, second = (float(gains.Lambda(l, SIGMA, TEACHER, **SETTING, **plain)) for l in (1, 2))  # noqa: E741
    printed = [
        float(f(SIGMA, TEACHER, **SETTING)) for f in (published.published_Lambda_1, published.published_Lambda_2)
    ]
    m1 = float(resolvent.limiting_traces(SIGMA, phi=0.5, psi=0.4, lam=0.1).m1)
    ratio = SETTING["phi"] / SETTING["psi"]
    assert printed[0] * ratio / m1**2 == pytest.approx(first, rel=1e-13)
    assert (printed[1] - printed[0]) * ratio == pytest.approx(second - first, rel=1e-10)
    assert abs(printed[0] / first - 1) > 0.5


def test_second_spike_of_the_network_learns_less_than_the_published_one():
    phi = np.geomspace(0.01, 10, 9)
    setting = {**SETTING, "phi": phi, "residual": "y", "rows": "sphere"}

    def second(spikes: str) -> np.ndarray:
        return gains.Delta(2, SIGMA, TEACHER, **setting, spikes=spikes) - gains.Delta(1, SIGMA, TEACHER, **setting)

    rho = gains.direction(SIGMA, TEACHER, phi=phi, sigma_eps=0.3, residual="y").rho
    np.testing.assert_allclose(second("network") / second("published"), 3 / (3 + 2 * rho + rho**2), rtol=1e-10)


def test_closed_form_is_a_projection_on_polynomials():
    """S_l from least squares on E_u (kappa + sqrt(rho) u)^k, k = 1..l, by quadrature: no Hermite algebra."""
    found = gains.direction(SIGMA, TEACHER, phi=0.5, sigma_eps=0.3, residual="y")
    gamma, rho = float(found.gamma), float(found.rho)
    traces = resolvent.limiting_traces(SIGMA, phi=0.5, psi=0.4, lam=0.1)
    teacher = scalar_function(TEACHER)
    z, w = np.polynomial.hermite_e.hermegauss(30)
    w = w / w.sum()
    mean = (teacher(gamma * z[:, None] + math.sqrt(1 - gamma**2) * z) * w).sum(axis=1)
    cost = np.sqrt(w)
    for l in (2, 3, 4):  # noqa: E741
        powers = np.stack([((z[:, None] + math.sqrt(rho) * z) ** k * w).sum(axis=1) for k in range(1, l + 1)], axis=1)
        # The linear part costs s2 and not t: whiten it apart.
        tilt = math.sqrt(float(traces.s2 / traces.t)) - 1
        changed = powers + tilt * np.outer(z, (w * z) @ powers)
        target = mean + tilt * z * ((w * z) @ mean)
        basis = np.linalg.qr(cost[:, None] * changed)[0]
        gain = 0.1 * float(traces.t) * ((basis.T @ (cost * target)) ** 2).sum()
        expected = float(gains.Delta(l, SIGMA, TEACHER, **SETTING, residual="y", rows="sphere"))
        assert gain == pytest.approx(expected, rel=1e-7)


def test_activation_with_a_mean_offers_the_constant():
    """Then every even part of the teacher that the projection carries is learned."""
    l1, l2 = (float(gains.Delta(l, "sin(1.2*x + 0.6)", "H1 + 0.5*H2", **SETTING, residual="y")) for l in (1, 2))  # noqa: E741
    gamma = float(gains.direction("sin(1.2*x + 0.6)", "H1 + 0.5*H2", phi=0.5, sigma_eps=0.3, residual="y").gamma)
    t = float(resolvent.limiting_traces("sin(1.2*x + 0.6)", phi=0.5, psi=0.4, lam=0.1).t)
    assert l2 - l1 == pytest.approx(0.1 * t * 2 * 0.25 * gamma**4, rel=1e-12)


def test_gains_are_positive_grow_and_vanish_without_a_spike():
    grid = _wide(100)
    for options in OPTIONS:
        previous = gains.Delta(0, SIGMA, TEACHER, **grid, **options), gains.Lambda(0, SIGMA, TEACHER, **grid, **options)
        assert not np.any(previous)
        for l in range(1, 6):  # noqa: E741
            found = (
                gains.Delta(l, SIGMA, TEACHER, **grid, **options),
                gains.Lambda(l, SIGMA, TEACHER, **grid, **options),
            )
            for now, before in zip(found, previous, strict=True):
                assert (now >= before * (1 - 1e-12)).all()
            previous = found


@pytest.mark.parametrize("rows", ["gaussian", "sphere"])
def test_limits_of_the_equations_for_every_step_size(rows):
    for l, accuracy in ((1, 1e-3), (2, 2e-3), (3, 0.03), (4, 0.06)):  # noqa: E741
        problem = Problem.moniri2024(
            phi=0.5,
            psi=0.4,
            lam=0.1,
            n=1e16,
            alpha=sum(staircase.windows(l)) / 2,
            noise=0.3,
            activation=SIGMA,
            teacher=TEACHER,
            residual="y",
        ).replace(initial_weights=rows)
        before, after = predict(problem.replace(eta=0.0)), predict(problem)
        loss, error = (
            float(f(l, SIGMA, TEACHER, **SETTING, residual="y", rows=rows)) for f in (gains.Delta, gains.Lambda)
        )
        assert before.train_loss - after.train_loss == pytest.approx(loss, rel=accuracy)
        assert before.test_error - after.test_error == pytest.approx(error, rel=accuracy)


@pytest.mark.statistical
def test_gains_of_sharp_spikes_on_real_features():
    parameters = {
        "activation": SIGMA,
        "teacher": "H1 + 0.7071067811865476*H2 + 0.4082482904638631*H3",
        "phi": 0.5,
        "psi": 0.4,
        "lam": 0.1,
        "noise": 0.3,
        "n": 400,
        "spikes": 3,
        "test": 3,
        "strength": 100.0,
    }
    results = [sharp_spikes.measure(parameters, seed) for seed in range(24)]
    for name, gain in (("Delta", gains.Delta), ("Lambda", gains.Lambda)):
        limits = [float(gain(l, SIGMA, parameters["teacher"], **SETTING, residual="y")) for l in range(4)]  # noqa: E741
        for l, increment in enumerate(np.diff(limits)):  # noqa: E741
            assert abs(Overlay.of(float(increment), [r[name][l] for r in results]).z_beyond(0.05)) < 4


def test_gains_refuse_bad_values():
    with pytest.raises(InvalidInput, match="residual"):
        gains.Delta(1, SIGMA, TEACHER, **SETTING, residual="f")
    with pytest.raises(InvalidInput, match="spikes"):
        gains.Delta(1, SIGMA, TEACHER, **SETTING, spikes="sharp")
    with pytest.raises(InvalidInput, match="rows"):
        gains.Delta(1, SIGMA, TEACHER, **SETTING, rows="unit")
    for l in (-1, 1.5, True):  # noqa: E741
        with pytest.raises(InvalidInput, match="l: got"):
            gains.Lambda(l, SIGMA, TEACHER, **SETTING)
    with pytest.raises(InvalidInput, match="l: got"):
        published.published_Delta(0, SIGMA, TEACHER, **SETTING)
    with pytest.raises(InvalidInput, match="mean zero"):
        gains.Delta(1, SIGMA, "relu", **SETTING)
    with pytest.raises(InvalidInput, match="c_1 != 0"):
        gains.Delta(1, "hermite2", TEACHER, **SETTING)


# --- staircase ------------------------------------------------------------------------------------------------------


def test_degrees_follow_the_windows():
    for l in range(1, 40):  # noqa: E741
        low, high = staircase.windows(l)
        inside = np.linspace(low, high, 9)[1:-1]
        assert (staircase.degree(inside) == l).all()
        assert staircase.degree(high) == l + 1
        # The l-th spike outgrows the bulk in this window, the next one does not.
        assert ((inside - 0.5) * l + 1 > 0.5).all()
        assert ((inside - 0.5) * (l + 1) + 1 < 0.5).all()
    assert staircase.degree(0.0) == 0
    with pytest.raises(InvalidInput, match="alpha"):
        staircase.degree(0.5)


def test_staircase_goes_down_by_the_gains():
    alpha = np.array([0.0, 0.1, 0.3, 0.35, 0.1])
    for curve, start, gain in (
        (staircase.L_tr, resolvent.L_tr_0, gains.Delta),
        (staircase.L_te, resolvent.L_te_0, gains.Lambda),
    ):
        found = curve(alpha, SIGMA, TEACHER, **SETTING, residual="y")
        drop = float(start(SIGMA, TEACHER, **SETTING)) - found
        expected = [float(gain(l, SIGMA, TEACHER, **SETTING, residual="y")) for l in (0, 1, 2, 3, 1)]  # noqa: E741
        np.testing.assert_allclose(drop, expected, atol=1e-14)


def test_centred_activation_of_these_tests():
    assert abs(float(expectation(scalar_function(SIGMA)).value)) < 1e-12
    assert predict(Problem.moniri2024(phi=1, psi=1, lam=1, alpha=0, c=0, activation=SIGMA)).test_error > 0
