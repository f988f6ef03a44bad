"""The uniform equivalent: identities, limits, published numbers, and invariants over random problems."""

import dataclasses
import math
import sys

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import gradstep as gs
from gradstep.errors import InvalidInput, NotConverged
from gradstep.gaussian import moments
from gradstep.papers.ba2022 import coefficients, small_step
from gradstep.papers.cui2024 import summary_statistics
from gradstep.theory.equivalent import batches as batches_module
from gradstep.theory.equivalent import uniform
from gradstep.theory.equivalent.tables import stacked, without_fit
from gradstep.theory.equivalent.uniform import solve

predict_module = sys.modules["gradstep.theory.predict"]  # gs.theory.predict is the function

BASE = gs.Problem(
    activation="tanh", teacher="sin", d=300, width=400, n_step=600, n=500, eta=gs.Step(1.0, 0.5), ridge=3.0, noise=0.2
)  # fmt: skip

SPREAD = [
    {},
    {"readout": "constant", "initial_weights": "sphere"},
    {"readout": {0.5: 0.5, 2.0: 0.5}},
    {"activation": "relu", "teacher": "relu"},
    {"activation": "softplus", "teacher": "tanh(x) + 0.5*H2", "eta": gs.Step(1.0, 0.25)},
    {"eta": 1.0, "teacher": "relu"},
    {"eta": 0.0},
    {"activation": "hardtanh", "n": 4000},
    {"n": 400, "ridge": 1e-4},
    {"n_step": 100, "eta": gs.Step(3.0, 0.5), "activation": "relu", "readout": "constant", "teacher": "relu"},
    {"n_step": 100, "eta": gs.Step(3.0, 0.5), "activation": "softplus", "teacher": "tanh(x) + 0.5*H2"},
    {
        "n_step": 2000,
        "eta": gs.Step(1.0, 0.5),
        "activation": "tanh(x)+0.3*(x**2-1)",
        "readout": "constant",
        "teacher": "x-1",
    },
]


def log_uniform(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(math.log(low), math.log(high)).map(math.exp)


@st.composite
def problems(draw: st.DrawFn) -> gs.Problem:
    d = draw(st.integers(20, 5000))
    size = log_uniform(0.01, 100).map(lambda ratio: max(1, round(ratio * d)))
    n = draw(size)
    return gs.Problem(
        activation=draw(st.sampled_from(["tanh", "relu", "sin", "erf", "softplus", "sign", "linear", "H2", "gelu"])),
        teacher=draw(st.sampled_from(["tanh", "relu", "sign", "sin", "H2", "softplus"])),
        d=d,
        width=draw(st.one_of(st.just(n), size)),
        n_step=draw(size),
        n=n,
        eta=gs.Step(draw(log_uniform(0.01, 5)), draw(st.sampled_from([0.0, 0.25, 0.5]))),
        ridge=draw(log_uniform(1e-10, 1e10)),
        noise=draw(st.sampled_from([0.0, 0.3])),
        readout=draw(st.sampled_from(["gaussian", "constant"])),
        initial_weights=draw(st.sampled_from(["gaussian", "sphere"])),
    )


# --- identities ---


def slope_and_readout_norm(problem):
    """Return the derivative of n times the loss by the penalty, and what the loss has for |b|^2."""
    step = 1e-4 * problem.ridge
    low, here, high = gs.predict_many([problem.replace(ridge=problem.ridge + s) for s in (-step, 0.0, step)])
    assert here.residual <= 1e-10
    readout_norm = (here.train_loss - here.train_error) * problem.n / problem.ridge
    return problem.n * (high.train_loss - low.train_loss) / (2 * step), readout_norm


@pytest.mark.parametrize("changes", SPREAD)
def test_ridge_derivative_of_the_loss_is_the_readout_norm(changes):
    # Envelope theorem: d(n loss)/d(ridge) = |b|^2 at the minimum. Nothing in the equations imposes it.
    slope, readout_norm = slope_and_readout_norm(BASE.replace(**changes))
    assert slope == pytest.approx(readout_norm, rel=2e-5)


@pytest.mark.filterwarnings("error")
def test_features_that_vanish_where_they_saturate():
    # Far out erf's slope and variance are below the smallest number: no leverage, whose logarithm must not be taken.
    problem = BASE.replace(
        activation="erf", teacher="x**3", d=4207, width=228, n_step=117_391, n=228, eta=gs.Step(4.04, 0.5), ridge=0.05,
        noise=1.0, readout={-1: 0.5, 1: 0.5},
    )  # fmt: skip
    slope, readout_norm = slope_and_readout_norm(problem)
    assert slope == pytest.approx(readout_norm, rel=2e-5)


def solution_of(problem, *, bulk="structured", shrinkage=None, **changes):
    """Return the tables and the solution behind a prediction, with other numbers if given.

    With a factor of what is left along the readout, the step takes one less this from the initial rows.
    """
    ((_, prepared),) = predict_module._prepared(problem, "network", bulk, 1)
    if shrinkage is not None:
        groups = prepared.tables.groups
        taken = (1 - shrinkage) / np.sqrt(groups.variance)
        tables = dataclasses.replace(prepared.tables, groups=dataclasses.replace(groups, taken=taken))
        prepared = dataclasses.replace(prepared, tables=tables)
    sizes = {"dimension": problem.d, "width": problem.width, "samples": problem.n, "ridge": problem.ridge}
    others = {"noise": problem.noise} | changes
    numbers = {name: np.array([float(value)]) for name, value in (sizes | others).items()}
    return prepared.tables, solve(prepared.tables.shared, **numbers)


@pytest.mark.usefixtures("one_direction")
@pytest.mark.parametrize(
    ("readout", "shrinkage"),
    [
        # Every readout with two of the three numbers, and every number with two readouts.
        pytest.param(readout, shrinkage, marks=pytest.mark.statistical if (place + other) % 3 == 2 else ())
        for place, readout in enumerate(["constant", "gaussian", {1.0: 0.5, -2.0: 0.5}])
        for other, shrinkage in enumerate([-1.5, 0.0, 0.6])
    ],
)
def test_the_bulk_that_is_missing_along_the_readout_neuron_by_neuron(readout, shrinkage):
    # Docs, "Uniform equivalent", (E12): the inverse of the whole matrix over the neurons, without groups. Half of the
    # neurons of a group have a readout above its mean and half below, so that its mean square is right too.
    problem = BASE.replace(activation="tanh(x)+0.3*(x**2-1)", readout=readout, teacher="x-1")
    tables, solved = solution_of(problem, shrinkage=shrinkage)
    groups, table, density = tables.groups, tables.shared.leverage_table, solved.point.density[0]
    linear, nodes = table.linear, table.weight.shape[1]
    psi = np.zeros((len(density), len(density)))
    factors = np.broadcast_to(linear.stretch[0], (linear.share.shape[1], linear.parts))
    for share, profile, stretch in zip(linear.share[0], linear.profile[0], factors, strict=True):
        slope = linear.slope[0] * np.resize(stretch, nodes)  # short and long inputs take turns
        gain = (slope * solved.point.sample_weight[0]) @ slope.T
        of_class = gain @ np.linalg.inv(np.eye(len(gain)) + np.diag(profile * density) @ gain)
        psi += share * np.sqrt(np.outer(profile, profile)) * of_class
    counts = np.full(len(psi), 20)
    scale = np.sqrt(problem.width * groups.weight / counts)  # a neuron here stands for so many, squared
    deviation = np.sqrt(np.maximum(groups.readout_square - groups.readout**2, 0))
    group = np.repeat(np.arange(len(psi)), counts)
    readouts = groups.readout[group] + np.where(np.arange(len(group)) % 2, 1, -1) * deviation[group]
    before = (scale * groups.initial)[group] * readouts / problem.width**0.5
    after = before - (scale * groups.taken)[group] * readouts / problem.width**0.5
    missing = psi[np.ix_(group, group)] * (np.outer(before, before) - np.outer(after, after))
    inverse = solved.point.inverse_resolvent[0]
    resolvent = np.linalg.inv(np.diag(inverse[group]) - missing)
    indicator = (group[:, None] == np.arange(len(psi))) / np.sqrt(counts)
    expected = indicator.T @ resolvent @ indicator * np.sqrt(np.outer(inverse, inverse))
    sizes = (problem.width, problem.d - 1, problem.n, problem.ridge)
    equations = uniform.LeverageEquations(table, *(np.array([float(size)]) for size in sizes))
    found = uniform._along_readout(equations, solved.point, tables.shared.groups)
    np.testing.assert_allclose(found.resolvent[0], expected, atol=1e-9)
    assert np.abs(expected - np.eye(len(psi))).max() > 0.003


@pytest.mark.statistical
@pytest.mark.parametrize("strength", [1.0, pytest.param(3.0, marks=pytest.mark.statistical)])
def test_own_output_that_rows_of_several_slopes_lose(strength):
    # Without noise in the labels the bulk that the fit of the spike brings along is the error. With one slope for all
    # neurons it would be .4 and 2 of this.
    problem = gs.Problem(
        activation="x+0.3*(x**2-1)", teacher="x", d=60, width=60, n_step=10**7, n=90, eta=gs.Step(strength, 0.5),
        ridge=30.0, readout={1.0: 0.5, -1.0: 0.5},
    )  # fmt: skip
    errors = []
    for seed in range(9):
        network = gs.Network(problem.replace(n_step=1), seed)
        before, a, d, width = network.before, network.readout, problem.d, problem.width
        # The step of the population, with the linear and the quadratic part of the output in its residual.
        form = (before.T * a) @ before / width
        form += np.eye(d) * (a @ (np.square(before).sum(axis=1) - 1)) / (2 * width)
        change = np.eye(d)[0] - before.T @ a / width - 0.36 * before @ form
        errors.append(network.with_weights(before + strength * a[:, None] * change).learning_curve(tolerance=0.04))
    found = np.ravel([curve.test_error for curve in errors])
    predicted = gs.predict(problem).test_error
    assert abs(predicted - found.mean()) < 3 * found.std(ddof=1) / 3
    assert found.std(ddof=1) / 3 < 0.1 * predicted


@pytest.mark.usefixtures("one_direction")
@pytest.mark.parametrize(
    ("activation", "readout"),
    [
        pytest.param(activation, readout, marks=pytest.mark.statistical if (place + other) % 2 else ())
        for place, activation in enumerate(["tanh", "relu", "tanh(x)+0.3*(x**2-1)"])
        for other, readout in enumerate(["constant", {0.5: 0.5, 2.0: 0.5}])
    ],
)
def test_joint_fit_is_one_least_squares_problem(activation, readout):
    # All unknowns at once: the means, and every group's overlap with every special direction. A projection is the sum
    # of the row's component along the spike and of a part that is not due to the row, and a norm is one of its slope
    # with the row's components and of another part. Given both sums, what is left is the conditional covariance, of
    # which inputs off the spike feel what is off the spike.
    problem = BASE.replace(activation=activation, readout=readout, teacher="tanh(x) + 0.5*H2")
    tables, solved = solution_of(problem, shrinkage=1.0)
    features, bulk, point = tables.features, tables.bulk, solved.point
    density, half_weight = point.density[0], np.sqrt(point.sample_weight[0])
    means = np.sqrt(problem.width * tables.groups.weight / point.inverse_resolvent[0])
    special = len(bulk.spike)
    overlaps = []
    for group, variance in enumerate(bulk.special_profile):
        shared = bulk.shared_noise[group]
        noise = np.array([[bulk.projection_noise[group], shared], [shared, bulk.norm_noise[group]]])
        sizes, basis = np.linalg.eigh(noise)
        of_rows = np.sqrt(variance)[:, None] * np.stack([bulk.spike, bulk.norm_slope[group]], axis=1)
        known = np.concatenate([of_rows, (np.sqrt(np.maximum(sizes, 0)) * basis).T])
        free = np.eye(special + 2) - known @ np.linalg.solve(known.T @ known, known.T)
        root = np.sqrt(density[group] * variance)[:, None] * free[:-2]
        root -= np.outer(bulk.spike, bulk.spike @ root)
        overlaps.append(np.column_stack([means[group] * bulk.pull[group], root]))
    along_spike = np.zeros((len(half_weight), len(density), 3 + special))
    along_spike[..., 0] = features.mean.T * means
    off_spike = np.einsum("gk,gsu->ksgu", features.slope / np.sqrt(features.stretch), overlaps)
    # What the neurons see of an input's lengths, and the teacher does not. The first has nodes of its own.
    count = bulk.lengths.shape[1] - 1
    by_length = np.zeros((len(half_weight), count, *along_spike.shape[1:]))
    for k, seen in enumerate(bulk.lengths.T[1:]):
        by_length[:, k, :, 0] = (features.length_slope * seen[:, None]).T * means
    design = np.concatenate([along_spike[:, None], by_length, off_spike], axis=1)
    design = design.reshape(len(half_weight), 1 + count + special, -1)
    labels = np.column_stack(
        [features.teacher_mean, np.zeros((len(half_weight), count)), np.outer(features.teacher_slope, bulk.teacher)]
    )
    unknowns = design.shape[-1]
    rows = np.concatenate([(half_weight[:, None, None] * design).reshape(-1, unknowns), np.eye(unknowns)])
    values = np.concatenate([(half_weight[:, None] * labels).ravel(), np.zeros(unknowns)])
    fitted = design @ np.linalg.lstsq(rows, values)[0]
    np.testing.assert_allclose(solved.learned[0], fitted[:, 0], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(solved.rest_slope[0], fitted[:, 1 + count :] @ bulk.teacher, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(solved.length_slopes[0], fitted[:, 1 : 1 + count].T, rtol=1e-9, atol=1e-12)


@pytest.mark.usefixtures("one_direction")
@pytest.mark.parametrize("bulk", ["structured", "isotropic"])
@pytest.mark.parametrize("changes", SPREAD)
def test_loss_is_the_projection_of_the_labels(changes, bulk):
    # The minimum of the objective is <y, y - f_hat>/n: on the equations E[(E y^2 - y f_hat) / (1 + V)], which uses the
    # leverage and the means only, while the loss is computed from the fluctuations.
    problem = BASE.replace(**changes)
    tables, solved = solution_of(problem, bulk=bulk)
    features, sample_weight = tables.features, solved.point.sample_weight[0]
    along = features.teacher_mean * solved.learned[0] + features.teacher_slope * solved.rest_slope[0]
    loss = (sample_weight * (features.teacher_square + problem.noise**2 - along)).sum() / problem.n
    assert sys.float_info.epsilon < loss
    prediction = gs.predict(problem, bulk=bulk)
    assert prediction.train_loss == pytest.approx(loss, rel=1e-6)
    # Two counts of the degrees of freedom: from the samples' leverages, and from the neurons' resolvent.
    resolvent = problem.width * tables.groups.weight / solved.point.inverse_resolvent[0]
    from_neurons = problem.width - problem.ridge * resolvent.sum()
    assert prediction.degrees_of_freedom == pytest.approx(from_neurons, rel=1e-7)


# --- limits ---


def test_huge_ridge_learns_nothing():
    prediction = gs.predict(BASE.replace(ridge=1e12))
    assert prediction.test_error == pytest.approx(moments(BASE.teacher).second_moment, rel=1e-6)
    assert prediction.degrees_of_freedom < 1e-5


def test_wide_network_without_ridge_interpolates():
    prediction = gs.predict(BASE.replace(width=2000, n=300, ridge=1e-9))
    assert prediction.train_error < 1e-15
    assert prediction.degrees_of_freedom == pytest.approx(300, rel=1e-6)


def test_linear_activation_recovers_a_linear_teacher():
    problem = BASE.replace(activation="linear", teacher="linear", noise=0.0, n=5000, ridge=1e-6)
    assert gs.predict(problem).test_error < 1e-12


def test_linear_regression_risk_is_the_known_one():
    # Linear features with N > d and no ridge are ordinary least squares: the risk is noise^2 d / (n - d - 1) and the
    # training error noise^2 (1 - d/n), for any first layer, stepped or not. The theory is exact up to 1/d.
    problem = BASE.replace(activation="linear", teacher="linear", d=1000, width=2500, n=3000, ridge=1e-7, noise=1.0)
    prediction = gs.predict(problem)
    assert prediction.test_error == pytest.approx(1000 / 2000, rel=3e-3)
    assert prediction.train_error == pytest.approx(2 / 3, rel=3e-3)


@pytest.mark.parametrize("readout", ["gaussian", "constant", {0.5: 0.5, 2.0: 0.5}])
def test_features_of_low_rank_need_no_ridge(readout):
    # Linear features of more neurons than dimensions: a tiny penalty only makes the equations stiffer.
    problem = BASE.replace(activation="linear", readout=readout, d=3000, width=9000, n=300_000)
    expected, prediction = gs.predict_many([problem.replace(ridge=ridge) for ridge in (1e-4, 1e-10)])
    for name in ("test_error", "train_error", "train_loss"):
        assert getattr(prediction, name) == pytest.approx(getattr(expected, name), rel=1e-8)


def test_a_batch_of_huge_problems_keeps_the_digits_of_each():
    # Rows of the linear equations then differ by thirty orders of magnitude.
    def problem(alpha):
        return gs.Problem.moniri2024(
            phi=0.5, psi=0.4, lam=0.1, n=10**16, alpha=alpha, noise=0.5, activation="sin(1.2*x + 0.6)", teacher="tanh",
            residual="y",
        )  # fmt: skip

    problems = [problem(alpha) for alpha in (0.1, 0.125, 0.2, 0.29)]
    for alone, together in zip(map(gs.predict, problems), gs.predict_many(problems), strict=True):
        np.testing.assert_allclose(together.train_loss, alone.train_loss, rtol=1e-10)
        np.testing.assert_allclose(together.test_error, alone.test_error, rtol=1e-10)


@pytest.mark.parametrize("activation", ["tanh", "erf"])
@pytest.mark.parametrize(("psi1", "psi2", "lam", "eta"), [(0.5, 2, 1e-3, 0.0), (4, 1, 1e-4, 2.0), (2, 2, 1e-2, 4.0)])
def test_small_step_limit_is_the_independent_one(activation, psi1, psi2, lam, eta):
    problem = gs.Problem.ba2022(psi1=psi1, psi2=psi2, lam=lam, eta=eta, sigma_eps=0.2, activation=activation)
    values = coefficients(problem.activation, problem.teacher, centred=False)
    limit = small_step(values, psi1=psi1, psi2=psi2, lam=lam, eta=eta, sigma_eps=0.2)
    for found in (gs.predict(problem), gs.predict(problem, rows="isotropic", bulk="isotropic")):
        for name in ("test_error", "train_error", "train_loss"):
            assert getattr(found, name) == pytest.approx(float(getattr(limit, name)), rel=1e-5)


def test_a_batch_with_and_without_a_step_is_the_sum_of_its_parts():
    problems = [BASE.replace(eta=eta) for eta in (0.0, 1.0, gs.Step(1.0, 0.5))]
    together = gs.predict_many(problems)
    for one, problem in zip(together, problems, strict=True):
        assert one.test_error == pytest.approx(gs.predict(problem).test_error, rel=1e-9)


@pytest.mark.parametrize(("psi1", "psi2", "eta"), [(4, 1, 2.0), (5, 2, 4.0), (2, 0.5, 1.0)])
def test_finite_width_correction_is_the_independent_one(psi1, psi2, eta):
    # Of relative order 1/sqrt(N), while all else that is left out of the limit is of order 1/d.
    parameters = {"psi1": psi1, "psi2": psi2, "lam": 1e-3, "eta": eta, "sigma_eps": 0.1}
    d = 10**11
    problem = gs.Problem.ba2022(
        psi1=psi1, psi2=psi2, lam=1e-3, eta=eta, sigma_eps=0.1, d=d, activation="erf", teacher="erf"
    )
    network = gs.predict(problem)
    limit, finite = (small_step(coefficients("erf", "erf"), **parameters, N=N) for N in (None, psi2 * d))
    for name in ("test_error", "train_error"):
        expected = float(getattr(finite, name) - getattr(limit, name))
        assert getattr(network, name) - float(getattr(limit, name)) == pytest.approx(expected, rel=0.02)


@settings(max_examples=25)
@given(
    alpha=log_uniform(0.1, 10),
    alpha0=log_uniform(0.3, 30),
    beta=log_uniform(0.1, 10),
    eta_tilde=log_uniform(0.2, 4),
    lam=log_uniform(1e-5, 1e2),
    noise=st.sampled_from([0.0, 0.4]),
    activation=st.sampled_from(["tanh", "erf", "hardtanh", "softplus"]),
    teacher=st.sampled_from(["tanh", "sin", "relu"]),
)
def test_large_step_limit_is_the_independent_one(**parameters):
    uniform = gs.predict(gs.Problem.cui2024(**parameters), rows="isotropic", bulk="isotropic")
    names = {"activation": "sigma", "teacher": "sigma_star", "noise": "sigma_eps"}
    limit = summary_statistics(**{names.get(name, name): value for name, value in parameters.items()})
    for name in ("test_error", "train_error", "train_loss"):
        assert getattr(uniform, name) == pytest.approx(float(getattr(limit, name)), rel=1e-5)


def test_distance_to_the_limit_is_one_over_d():
    problem = gs.Problem.cui2024(alpha=1.5, alpha0=3, eta_tilde=1.5, lam=0.05, teacher="sin")
    limit = float(summary_statistics("tanh", "sin", alpha=1.5, alpha0=3, eta_tilde=1.5, lam=0.05).test_error)
    gaps = [gs.predict(problem.at_dimension(d), rows="isotropic").test_error - limit for d in (10**5, 10**6, 10**7)]
    assert gaps[0] / gaps[1] == pytest.approx(10, rel=0.02)
    assert gaps[1] / gaps[2] == pytest.approx(10, rel=0.02)


def test_numbers_of_the_derivation_at_finite_size():
    # Computed by an independent implementation at the time the equations were derived.
    for d, expected in ((150, 0.1041), (300, 0.1012), (600, 0.0997)):
        problem = gs.Problem.cui2024(alpha=1.6, alpha0=3, eta_tilde=1, lam=0.01, d=d)
        assert gs.predict(problem, rows="isotropic").test_error == pytest.approx(expected, abs=6e-5)
    for exponent, psi1, test, train in (
        (0, 1.5, 0.3501, 0.00027),
        (0, 4, 0.1456, 0.0409),
        (0.25, 4, 0.1096, 0.0314),
        (0.5, 1.5, 0.2393, 0.00014),
        (0.5, 4, 0.0663, 0.0199),
    ):
        problem = gs.Problem.ba2022(
            psi1=psi1, psi2=2, lam=1e-3, sigma_eps=0.1, d=512, eta=gs.Step(1, exponent), activation="erf", teacher="erf"
        )
        prediction = gs.predict(problem, rows="isotropic")
        assert prediction.test_error == pytest.approx(test, abs=6e-5)
        assert prediction.train_error == pytest.approx(train, abs=6e-5)
    for alpha, expected in ((0.2, 0.04876), (0.9, 0.04267), (1.6, 0.03744), (2.3, 0.03442), (3.0, 0.03263)):
        problem = gs.Problem.cui2024(alpha=alpha, alpha0=20, eta_tilde=3, lam=0.1, teacher="sin", d=2000)
        assert gs.predict(problem, rows="isotropic").test_error == pytest.approx(expected, abs=2.5e-5)


# --- symmetries ---


def assert_same(a: gs.Prediction, b: gs.Prediction, rel: float) -> None:
    for name in ("test_error", "train_error", "train_loss", "degrees_of_freedom"):
        assert getattr(a, name) == pytest.approx(getattr(b, name), rel=rel)


def test_splitting_a_readout_value_changes_nothing():
    whole = BASE.replace(readout="constant")
    split = BASE.replace(readout={1.0: 0.3, 1.0 + 1e-9: 0.7})
    assert_same(gs.predict(whole), gs.predict(split), 1e-7)


def test_signs_of_the_readout_do_not_matter_for_an_odd_activation():
    assert_same(gs.predict(BASE.replace(readout="constant")), gs.predict(BASE.replace(readout={-1: 0.4, 1: 0.6})), 1e-9)


def test_folding_an_odd_activation_changes_nothing():
    found = gs.ScalarFunction.from_callable(np.sin, derivative=np.cos, name="a plain sine")
    assert found.parity == "odd"
    plain = dataclasses.replace(found, parity=None)
    # The length of an input, of relative order 1/d there, is left out where a function is known to be odd.
    sizes = {name: 10**5 * getattr(BASE, name) for name in ("d", "width", "n_step", "n", "ridge")}
    problem = BASE.replace(activation="sin", teacher="tanh(x) + 0.3*H2", **sizes)
    assert_same(gs.predict(problem), gs.predict(problem.replace(activation=plain)), 1e-7)


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_without_a_step_the_gradients_direction_is_irrelevant(activation):
    # The equations single the direction out, which costs terms of relative order 1/d.
    for d in (10**4, 10**6, 10**8):
        problem = BASE.replace(eta=0.0, d=d, width=2 * d, n=3 * d, ridge=0.1 * d, activation=activation)
        first, *others = [gs.predict(problem.replace(n_step=m), rows="isotropic") for m in (d // 100, d, 10**5 * d)]
        for other in others:
            assert_same(first, other, 5 / d)


def test_a_batch_equals_single_problems():
    grid = [BASE.replace(n=n, ridge=ridge, **c) for n in (50, 400, 3000) for ridge in (1e-6, 1.0) for c in SPREAD[:4]]
    for single, batched in zip(map(gs.predict, grid), gs.predict_many(grid), strict=True):
        assert batched.problem == single.problem
        assert_same(single, batched, 1e-9)


@pytest.mark.usefixtures("one_direction")
@pytest.mark.parametrize(
    "changes",
    [
        *SPREAD[:-2],
        pytest.param(SPREAD[-2], marks=pytest.mark.statistical),  # as long as all others together
        {"eta": gs.Step(3.0, 0.5)},
        {"teacher": "sign", "n_step": 10**6},
    ],
)
def test_discretisation_errors_are_small(changes):
    problem = BASE.replace(**changes)
    # Where the rows have a law that is wide, cells of their directions see the nodes of its rule.
    wide = problem.activation.name == "relu"
    assert_same(gs.predict(problem), gs.predict(problem, refine=3), 3e-4 if wide else 6e-6)


def test_what_norms_tell_of_shrunk_rows_is_resolved_to_a_ten_thousandth():
    problem = BASE.replace(**SPREAD[-1])
    assert_same(gs.predict(problem), gs.predict(problem, refine=3), 1.5e-4)


def test_neurons_that_saturate_together_are_resolved_in_the_tails():
    # An interpolating fit: what a sample far out is worth turns where all features die out. Nodes that thin out there
    # are half a per cent off.
    problem = BASE.replace(
        activation="hardtanh", teacher="linear", d=24_000, width=113_700, n_step=1_059_000, n=45_200,
        eta=gs.Step(1.5, 0.5), ridge=0.004, noise=0.1, readout="constant",
    )  # fmt: skip
    assert gs.predict(problem).test_error == pytest.approx(gs.predict(problem, refine=3).test_error, rel=1e-4)


# --- invariants ---


#: Features of low rank, at their interpolation and almost without ridge.
LOW_RANK = BASE.replace(
    activation="linear", teacher="tanh", d=559, width=50_320, n_step=559, n=50_320, eta=1.0, ridge=1e-10, noise=0.0,
    readout="gaussian", initial_weights="sphere",
)  # fmt: skip


#: As many samples as neurons, and almost without ridge: the errors' equations are nearly singular.
AT_THE_PEAK = BASE.replace(
    activation="hermite2", teacher="tanh", d=20, width=20, n_step=1, n=20, eta=gs.Step(1.0, 0.5), ridge=1.523e-8,
    noise=0.0, readout="constant",
)  # fmt: skip

#: Very few samples, all with residuals of one size: the first poles of a rule leave an error of two per cent at one of
#: themselves.
FEW_SIGNS = BASE.replace(
    activation="hermite2", teacher="sign", d=1073, width=1073, n_step=20, n=1073, eta=gs.Step(1.0, 0.25), ridge=1.0,
    noise=0.0, readout="constant",
)  # fmt: skip


@settings(max_examples=60)
@given(problems())
@example(LOW_RANK)
@example(AT_THE_PEAK)
@example(AT_THE_PEAK.replace(n=40, n_step=2, ridge=0.65))  # pairs of slopes along the means cancel
@example(FEW_SIGNS)
def test_every_problem_is_solved_and_certified(problem):
    prediction = gs.predict(problem)
    assert prediction.residual <= 1e-10
    scale = moments(problem.teacher).second_moment
    assert prediction.test_error > -1e-9 * scale
    assert prediction.train_error >= 0
    assert prediction.train_loss >= prediction.train_error
    assert prediction.train_loss <= (scale + problem.noise**2) * (1 + 1e-9)
    assert 0 < prediction.degrees_of_freedom <= min(problem.n, problem.width) * (1 + 1e-9)
    assert -1 <= prediction.alignment <= 1
    assert prediction.bulk_variance > 0


def test_rules_of_very_few_samples_have_errors_between_those_of_their_neighbours():
    # One by one: with others the last digits differ, and so do the poles.
    fewer, found, more = (gs.predict(FEW_SIGNS.replace(n_step=count)) for count in (18, 20, 22))
    assert more.test_error < found.test_error < fewer.test_error
    assert found.test_error == pytest.approx(math.sqrt(fewer.test_error * more.test_error), rel=0.02)


@settings(max_examples=30)
@given(problems())
def test_training_loss_increases_with_the_ridge(problem):
    low, high = gs.predict_many([problem, problem.replace(ridge=2 * problem.ridge)])
    assert high.train_loss >= low.train_loss * (1 - 1e-8)
    assert high.degrees_of_freedom <= low.degrees_of_freedom * (1 + 1e-8)


@pytest.mark.statistical
def test_nodes_that_weigh_nothing_keep_their_digits():
    # Interpolating, almost without ridge, steep groups: far nodes of kappa once left a residual of 5e-10.
    problem = gs.Problem(
        activation="softplus", teacher="H2", d=65, width=1608, n_step=19, n=1608, eta=gs.Step(2.0864, 0.5),
        ridge=0.00245271,
    )  # fmt: skip
    assert gs.predict(problem).residual <= 1e-10


def test_learned_function_approaches_the_target_with_many_samples():
    problem = BASE.replace(teacher="tanh", n=200_000, n_step=200_000, eta=gs.Step(2.0, 0.5), ridge=1e-3, noise=0.0)
    curve = gs.predict(problem).curve
    bulk = np.abs(curve.kappa) < 1.5
    assert np.max(np.abs(curve.learned - curve.target)[bulk]) < 0.02
    assert np.all(np.diff(curve.kappa) > 0)


@pytest.mark.parametrize("d", [200, math.inf])
def test_problems_that_differ_in_the_fit_share_their_tables(d):
    def posed(n, ridge):
        ratios = {"width": 1.5, "n_step": 2.0, "n": n, "ridge": ridge}
        sizes = {name: gs.Proportional(r) if d == math.inf else round(r * d) for name, r in ratios.items()}
        return BASE.replace(d=d, eta=gs.Step(1.0, 0.5), **sizes)

    problems = [posed(n, ridge) for n in (0.5, 3.0) for ridge in (0.02, 1.0)]
    predict_module._prepared.cache_clear()
    together = gs.predict_many(problems)
    assert predict_module._prepared.cache_info().misses == 1
    assert len({prediction.test_error for prediction in together}) == 4
    for problem, prediction in zip(problems, together, strict=True):
        predict_module._prepared.cache_clear()
        assert gs.predict(problem).test_error == pytest.approx(prediction.test_error, rel=1e-9)


def tables_behind(problem):
    """Return what the predictions are means over."""
    bare = without_fit(problem)
    return [prepared for _, prepared in predict_module._prepared(bare, "network", "structured", 1, None)]


@pytest.mark.parametrize("readout", ["gaussian", "constant"])
@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_tables_that_fill_up_others_change_nothing(activation, readout, monkeypatch):
    # Along the step the numbers of groups, nodes and directions grow; alone every problem has its own shape.
    curve = [
        gs.Problem(
            activation=activation, teacher="sin", d=300, width=500, n_step=900, n=700, eta=gs.Step(step, 0.5),
            ridge=0.5, noise=0.1, readout=readout,
        )
        for step in (0.3, 0.5, 0.8, 1.0, 1.3, 1.6, 2.0)
    ]  # fmt: skip
    alone = [gs.predict(problem) for problem in curve]
    batches = []

    def counted(tables, **sizes):
        batches.append(len(sizes["ridge"]))
        return solve(tables, **sizes)

    monkeypatch.setattr(batches_module, "solve", counted)
    # Fits of these sizes have batches of their own otherwise.
    monkeypatch.setattr(batches_module, "LARGEST_STACK", 2**20)
    together = gs.predict_many(curve)
    shapes = {part.tables.shape for problem in curve for part in tables_behind(problem)}
    assert len(batches) < len(shapes)
    for one, other in zip(together, alone, strict=True):
        for name in ("test_error", "train_error", "train_loss", "degrees_of_freedom"):
            assert getattr(one, name) == pytest.approx(getattr(other, name), rel=1e-9)
        np.testing.assert_array_equal(one.curve.kappa, other.curve.kappa)
        np.testing.assert_allclose(one.curve.learned, other.curve.learned, atol=1e-9)
        assert one.residual <= 1e-10


def test_what_fills_up_a_table_weighs_nothing():
    # Far more nodes, groups and directions than the table has: the same errors to rounding.
    problem = BASE.replace(activation="relu", eta=4.0)
    small, alone = solution_of(problem)
    large, _ = solution_of(problem.replace(eta=gs.Step(2.0, 0.5)))
    assert large.features.mean.size > 2 * small.features.mean.size
    assert len(large.bulk.share) > len(small.bulk.share)
    sizes = {"dimension": problem.d, "width": problem.width, "samples": problem.n, "ridge": problem.ridge}
    sizes["noise"] = problem.noise
    found = solve(stacked([small, large]), **{k: np.full(2, float(v)) for k, v in sizes.items()})
    for name in ("test_error", "train_error", "train_loss", "readout_norm", "degrees_of_freedom"):
        assert getattr(found, name)[0] == pytest.approx(getattr(alone, name)[0], rel=1e-11)


# --- refusals ---


@pytest.mark.parametrize("coefficient", [5.0, pytest.param(8.0, marks=pytest.mark.statistical)])
def test_features_too_large_for_double_precision_are_refused(coefficient):
    # A mean square of -2e17 at a residual of 1e-13, before the average was looked at.
    problem = BASE.replace(activation="exp(x/2)", eta=gs.Step(coefficient, 0.5), n_step=1200)
    assert gs.predict(problem.replace(eta=gs.Step(1.0, 0.5))).test_error > 0
    with pytest.raises(NotConverged, match="smaller step"):
        gs.predict(problem)


@pytest.mark.parametrize("eta", [0.0, 1.0, gs.Step(1.0, 0.5)])
def test_labels_that_are_zero_are_learned(eta):
    prediction = gs.predict(BASE.replace(teacher="0*x", noise=0.0, eta=eta))
    assert prediction.test_error == prediction.train_loss == 0


def test_noise_of_any_size_scales_the_errors():
    """Labels of noise, however strong: the step's rows point nowhere, and errors are in its units."""
    relative = [gs.predict(BASE.replace(noise=noise)).train_error / noise**2 for noise in (1e4, 1e7)]
    assert relative[1] == pytest.approx(relative[0], rel=1e-3)


def test_features_that_grow_too_fast_name_the_activation():
    with pytest.raises(InvalidInput, match=r"^activation: got 'exp', whose moments .* after the step") as caught:
        gs.predict(BASE.replace(activation="exp", eta=gs.Step(3.0, 0.5)))
    assert caught.value.field == "activation"


def test_features_too_steep_to_resolve_are_refused():
    # A handful of samples with heavy-tailed labels: 80 million numbers a table, before they were counted.
    teacher = " + ".join(f"{1 / k}*H{k}" for k in range(1, 10))
    problem = gs.Problem(
        activation="relu", teacher=teacher, d=6, width=8, n_step=6, n=6, eta=19.0, ridge=1.0, noise=0.3
    )  # fmt: skip
    with pytest.raises(NotConverged, match=r"along the spike.*smaller step"):
        gs.predict(problem)
    assert gs.predict(problem.replace(teacher="H1 + 0.2*H2")).test_error > 0


def test_intermediate_exponent_has_no_limit():
    with pytest.raises(InvalidInput, match=r"eta\.exponent"):
        gs.predict(gs.Problem.ba2022(psi1=2, psi2=2, lam=1e-3, eta=gs.Step(1.0, 0.25)))


@pytest.mark.parametrize(("field", "value"), [("rows", "real"), ("refine", 0), ("refine", 1.5), ("refine", True)])
def test_bad_options_are_named(field, value):
    with pytest.raises(InvalidInput, match=field):
        gs.predict(BASE, **{field: value})


def test_a_problem_is_required():
    with pytest.raises(InvalidInput, match="problem"):
        gs.predict_many([{"d": 3}])


def test_predictions_do_not_hand_out_what_others_share() -> None:
    problem = BASE.replace(activation="relu")
    curve = gs.predict(problem).curve
    with pytest.raises(ValueError, match="read-only"):
        curve.kappa[:] = 0
    with pytest.raises(ValueError, match="read-only"):
        curve.target[:] = 5


def test_a_structured_bulk_that_is_asked_for_in_the_limit_is_solved() -> None:
    limit = gs.Problem.cui2024(alpha=1.6, alpha0=1.0, eta_tilde=2.0, lam=0.01)
    asked = gs.predict(limit, rows="isotropic", bulk="structured")
    large = gs.predict(limit.at_dimension(10**8), rows="isotropic", bulk="structured")
    assert asked.test_error == pytest.approx(large.test_error, rel=1e-6)
    assert abs(asked.test_error / gs.predict(limit, rows="isotropic").test_error - 1) > 1e-3


def test_models_and_problems_of_a_wrong_type_are_named() -> None:
    for arguments, field in (
        ({"rows": np.ones(3)}, "rows"),
        ({"bulk": np.ones(3)}, "bulk"),
        ({"refine": 1.5}, "refine"),
    ):
        with pytest.raises(InvalidInput) as caught:
            gs.predict(BASE, **arguments)
        assert caught.value.field == field
    with pytest.raises(InvalidInput, match="problems"):
        gs.predict_many(BASE)
    assert gs.predict(BASE, refine=np.int64(2)).test_error == gs.predict(BASE, refine=2).test_error


@pytest.mark.parametrize("count", [3, pytest.param(12, marks=pytest.mark.statistical)])
@pytest.mark.parametrize(
    ("activation", "kind"),
    [
        # One takes as long as all others together.
        pytest.param(
            activation, kind, marks=pytest.mark.statistical if (activation, kind) == ("tanh", "gaussian") else ()
        )
        for activation in ("tanh", "relu", "x + x**2", "cos")
        for kind in ("constant", "gaussian", {1: 0.5, -2: 0.5})
    ],
)
def test_what_is_far_out_of_range_is_an_error_of_ours_or_a_number(activation, kind, count):
    # Warnings are errors in the tests; sizes, penalties and steps are drawn with a fixed seed.
    draw = np.random.default_rng(7).choice
    told = 0
    for _ in range(count):
        d, width, n, n_step = (int(draw([2, 3, 1000, 10**6, 10**18])) for _ in range(4))
        try:
            found = gs.predict(
                gs.Problem(
                    activation=activation, teacher="sin", d=d, width=width, n=n, n_step=n_step, readout=kind,
                    ridge=draw([1e-300, 1e-30, 1.0, 1e30]), noise=draw([0.0, 0.1, 1e10, 1e30]),
                    eta=gs.Step(draw([0.0, 1e-30, 1.0, 1e10]), exponent=draw([0.0, 0.5])),
                )
            )  # fmt: skip
        except NotConverged:
            continue
        told += 1
        assert found.test_error >= 0
        assert found.residual <= 1e-10
    assert told > 0


def test_a_test_error_hidden_by_the_label_noise_is_refused():
    given = {"activation": "tanh", "teacher": "sin", "d": 200, "width": 300, "n": 400, "n_step": 400, "eta": 1.0}
    given["readout"] = "constant"
    with pytest.raises(NotConverged, match="less label noise"):
        gs.predict(gs.Problem(**given, ridge=1e12, noise=1e9))
    # Not where the fit follows the noise, nor where labels are as large.
    assert gs.predict(gs.Problem(**given, ridge=1.0, noise=1e9)).test_error > 1e15
    loud = gs.predict(gs.Problem(**given | {"teacher": "1e9*sin(x)"}, ridge=1e12, noise=1e9)).test_error
    quiet = gs.predict(gs.Problem(**given, ridge=1e12, noise=1.0)).test_error
    assert loud == pytest.approx(1e18 * quiet, rel=1e-6)


def test_nodes_beyond_the_memory_are_refused_before_they_are_made():
    problem = gs.Problem(
        activation="tanh", teacher="sin", d=3, width=10**7, n=30, n_step=10**17, eta=gs.Step(3e5, exponent=0.5),
        ridge=1.0, readout="constant",
    )  # fmt: skip
    with pytest.raises(NotConverged, match=r"resolution .* would take .* nodes.*smaller step"):
        gs.predict(problem)


def test_errors_that_contradict_the_means_are_refused(monkeypatch):
    problem = gs.Problem(activation="tanh", teacher="sin", d=100, width=150, n_step=400, n=300, eta=2.0, ridge=10.0)
    found = gs.predict(problem)
    right = uniform._response

    def wrong(*arguments):
        # A hundredth, of which the residual of the fixed point knows nothing.
        near, changes = right(*arguments)
        return near, 1.01 * changes

    monkeypatch.setattr(uniform, "_response", wrong)
    with pytest.raises(NotConverged, match="do not solve their equations"):
        gs.predict(problem)
    # Were the response itself not looked at, the training loss would be another.
    monkeypatch.setattr(uniform, "check_response", lambda *_: None)
    with pytest.raises(NotConverged, match="training loss"):
        gs.predict(problem)
    monkeypatch.undo()
    assert gs.predict(problem).test_error == found.test_error
