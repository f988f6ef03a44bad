"""An initial output of order one: the same network described with and without it, and an independent expansion."""

import math
from dataclasses import asdict, replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq

import gradstep as gs
from gradstep.errors import InvalidInput
from gradstep.gaussian import moments
from gradstep.papers.moniri2024 import finite, finite_errors
from gradstep.simulation.instance import initial_readout
from gradstep.theory.convex.convex_loss import convex_prediction
from gradstep.theory.spectra.feature_spectrum import feature_spectrum
from gradstep.theory.spectra.weight_spectrum import weight_spectrum
from gradstep.theory.step import own_output
from gradstep.theory.step.own_output import given_own_output, output_constants
from gradstep.theory.step.row_fluctuations import derivative_moments, own_output_slopes
from gradstep.theory.step.statistics import step_statistics

BASE = gs.Problem(
    activation="tanh", teacher="sin", d=300, width=450, n_step=600, n=900, eta=gs.Step(1.0, 0.5), ridge=9.0,
    noise=0.2, output_scale="1/sqrt(N)",
)  # fmt: skip


@pytest.mark.parametrize("readout", ["gaussian", "constant", {-1.0: 0.5, 2.0: 0.5}])
def test_the_network_before_a_step_is_the_same_with_its_output_set_apart(readout, monkeypatch):
    # Rows that are resolved along their own sum are no more than another way to write them: the two descriptions differ
    # by fluctuations of that sum, of relative order 1/d.
    distances = []
    for d in (300, 3000, 30_000):
        sizes = dict(zip(("d", "width", "n_step", "n"), np.array([1, 1.5, 2, 3]) * d, strict=True))
        problem = BASE.replace(**{k: int(v) for k, v in sizes.items()}, ridge=0.03 * d, readout=readout)
        before = gs.predict(problem.replace(eta=0.0)).test_error
        # A vanishing step resolves nothing.
        assert gs.predict(problem.replace(eta=1e-9)).test_error == pytest.approx(before, rel=1e-8)
        with monkeypatch.context() as patched:
            patched.setattr(own_output, "_SHARES", (1e-20, 2e-20))
            distances.append(gs.predict(problem.replace(eta=2e-9)).test_error / before - 1)
    assert abs(distances[0]) < 0.01
    assert np.array(distances[:-1]) / distances[1:] == pytest.approx(10, rel=0.05)


def share_taken(problem):
    """Return the share of the linear part of its output that a step takes back."""
    sizes = (problem.d, problem.width, problem.n_step)
    return own_output.MeanRow.of(problem, step_statistics(problem, *sizes), problem.width).taken


@pytest.mark.parametrize(("activation", "share"), [("tanh", 0.3), ("erf", 1.0), ("tanh(x) + 0.2*H2", 2.0)])
def test_both_ways_to_resolve_a_step_agree(activation, share, monkeypatch):
    # At any share of the output that the step takes back, up to 1/d; and where it takes back all of it, exactly.
    distances = []
    for d in (300, 3000):
        problem = BASE.replace(activation=activation, d=d, width=2 * d, n_step=4 * d, n=3 * d, ridge=0.1 * d)
        rough = share / moments(problem.activation).linear ** 2
        eta = brentq(lambda eta, problem=problem: share_taken(problem.replace(eta=eta)) - share, rough / 2, 2 * rough)
        errors = []
        for shares, change in (((1e8, 2e8), 1e-13), ((1e-20, 2e-20), -1e-13)):
            monkeypatch.setattr(own_output, "_SHARES", shares)
            errors.append(gs.predict(problem.replace(eta=eta * (1 + change))).test_error)
        distances.append(abs(errors[1] / errors[0] - 1))
    if share == 1:
        assert max(distances) < 1e-9
    else:
        assert distances[0] < 0.01
        assert distances[1] < 0.2 * distances[0]


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


@pytest.mark.statistical
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


def test_rows_without_a_step_are_independent_of_their_output():
    still = BASE.replace(eta=0.0)
    found = given_own_output(still, step_statistics(still, 300, 450, 600), 450)
    assert (found.spike, found.initial_overlap, found.readout_shrinkage) == pytest.approx((0, 0, 1), abs=1e-12)


def test_an_output_that_diverges_is_refused():
    with pytest.raises(InvalidInput, match="output_scale"):
        gs.predict(BASE.replace(activation="relu", readout="constant"))


@pytest.mark.parametrize(
    ("activation", "readout", "exact"),
    [
        ("relu", {-1.0: 0.5, 1.0: 0.5 + 1e-9}, {"readout": {-1.0: 0.5, 1.0: 0.5}}),
        ("relu", {-1.0: 0.66666667, 2.0: 0.33333333}, {"readout": {-1.0: 2.0, 2.0: 1.0}}),
        ("cos(x) - 0.6065306597", "constant", {"activation": "cos(x) - exp(-0.5)"}),
    ],
)
def test_a_mean_that_is_rounding_of_typed_numbers_is_part_of_the_output(activation, readout, exact):
    # At 450 neurons it is a shift of the labels of 1e-8. In the limit the problem is that of no mean.
    typed = BASE.replace(activation=activation, readout=readout, teacher="relu")
    assert errors_of(typed) == pytest.approx(errors_of(typed.replace(**exact)), rel=1e-6)
    limit = typed.replace(d=math.inf, **{name: gs.Proportional(2.0) for name in ("width", "n_step", "n", "ridge")})
    assert errors_of(limit) == pytest.approx(errors_of(limit.replace(**exact)), rel=1e-6)


def test_a_small_mean_is_a_shift_of_the_labels():
    # Readout values in exact proportions: 450 neurons whose output has the mean m sum to sqrt(450) m, in every draw.
    shift = 5e-7
    problem = BASE.replace(activation="tanh(x) + 1", readout={-1.0: 0.5 + shift / 2, 1.0: 0.5 - shift / 2}, n=200)
    found = step_statistics(problem, 300, 450, 600).residual_offset
    assert found == pytest.approx(-math.sqrt(450) * shift, rel=1e-6)


def errors_of(problem):
    found = gs.predict(problem)
    return [found.test_error, found.train_error, found.train_loss]


CONSTANT = BASE.replace(activation="softplus(x) + 1", teacher="sin(x) + 1")


@pytest.mark.parametrize("constant", [-1.3, 0.0, 0.4])
def test_a_given_constant_is_a_shift_of_the_labels(constant):
    # The step of a network with the output c + f is that of f on labels less c.
    mean = moments(CONSTANT.activation).mean
    centred = CONSTANT.replace(activation=f"softplus(x) + 1 - {mean!r}", teacher=f"sin(x) + 1 - ({constant!r})")
    found = asdict(step_statistics(CONSTANT, 300, 450, 600, constant))
    expected = asdict(step_statistics(centred, 300, 450, 600))
    assert found.pop("residual_offset") == constant
    assert expected.pop("residual_offset") == pytest.approx(0, abs=1e-12)
    found |= found.pop("fluctuations")
    expected |= expected.pop("fluctuations")
    # The law of the samples has nodes, of which the constant is no part.
    assert expected.pop("samples")["own"] == pytest.approx(found.pop("samples")["own"])
    for absent in ("common", "correlated"):
        assert found.pop(absent) is expected.pop(absent) is None
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-9, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("activation", ["relu", "softplus", "softplus(x) + 2", "softplus(x) + 10"])
@pytest.mark.parametrize("offset", [0.0, 2.0])
def test_the_average_over_constants_resolves_where_the_residual_turns(activation, offset):
    problem = CONSTANT.replace(activation=activation, teacher=f"sin(x) + {offset}")
    shares, constants = (np.array(column) for column in zip(*output_constants(problem), strict=True))
    assert shares.sum() == pytest.approx(1)
    output, teacher = moments(problem.activation), moments(problem.teacher)
    # The share of the residual's square that is not its mean: what an error feels of the constant.
    rest = teacher.second_moment - teacher.mean**2 + 0.04 + output.second_moment - output.mean**2
    expected, _ = quad(
        lambda z: math.exp(-z * z / 2) / math.sqrt(2 * math.pi) / (1 + (output.mean * z - offset) ** 2 / rest),
        -9, 9, limit=400, points=[offset / output.mean],
    )  # fmt: skip
    found = shares @ (1 / (1 + (constants - offset) ** 2 / rest))
    assert found == pytest.approx(expected, abs=6e-3)
    # All that is quadratic in the constant is as good as exact.
    assert abs(shares @ constants) < 1e-6 * output.mean
    assert shares @ constants**2 == pytest.approx(output.mean**2, rel=1e-4)


@pytest.mark.parametrize(
    ("activation", "teacher", "n_step"),
    [
        pytest.param(*case, n_step, marks=() if place % 2 == other else pytest.mark.statistical)
        for place, case in enumerate(
            [
                ("softplus", "sin"),
                ("softplus(x) + 2", "sin(x) + 8"),
                ("softplus(x) + 10", "sin"),
                ("tanh(x) + 12", "sin(x) + 10"),
            ]
        )
        for other, n_step in enumerate([50, 800])
    ],
)
def test_means_over_constants_of_the_step_itself(activation, teacher, n_step):
    problem = CONSTANT.replace(activation=activation, teacher=teacher, d=200, width=300, noise=0.1)

    def of_the_step(constant):
        step = step_statistics(problem, 200, 300, n_step, constant)
        return np.array([step.alignment, step.spike, step.drift**2 + step.bulk])

    z = np.linspace(-8, 8, 161)
    weight = np.exp(-(z**2) / 2) / np.exp(-(z**2) / 2).sum()
    mean = moments(problem.activation).mean
    expected = sum(w * of_the_step(mean * x) for w, x in zip(weight, z, strict=True))
    found = sum(share * of_the_step(constant) for share, constant in output_constants(problem))
    assert np.all(np.abs(found / expected - 1) < [3e-3, 1e-4, 1e-4])


@pytest.mark.parametrize("alpha", [pytest.param(0.1, marks=pytest.mark.statistical), 0.3])
def test_means_over_constants_are_those_of_the_expansion_in_powers_of_the_step(alpha):
    problem = gs.Problem.moniri2024(
        phi=0.5, psi=0.4, alpha=alpha, lam=0.1, n=10**12, activation="softplus(x) + 2", teacher="H1 + 0.3*H2", noise=0.3
    )
    found, expected = gs.predict(problem), finite_errors([problem])
    assert found.test_error + 0.09 == pytest.approx(expected.L_te[0], rel=1e-4)
    assert found.train_loss == pytest.approx(expected.L_tr[0], rel=1e-4)
    # With the constant as noise that all draws share the test error is another.
    sizes = [float(size) for size in (problem.d, problem.width, problem.n_step)]
    literal = step_statistics(problem, *sizes)
    assert finite._errors(problem, literal, True, 16)[1] > 1.01 * expected.L_te[0]
    # The first spike is proportional to the gradient, of which the mean counts.
    z = np.linspace(-8, 8, 161)
    weight = np.exp(-(z**2) / 2) / np.exp(-(z**2) / 2).sum()
    mean = moments(problem.activation).mean
    spike = weight @ [step_statistics(problem, *sizes, mean * x).spike for x in z]
    first = finite.spike_coefficients(problem)[1, 1]
    assert first / literal.spike == pytest.approx(moments(problem.activation).linear * spike / literal.spike, rel=2e-3)
    assert spike < 0.995 * literal.spike


@pytest.mark.parametrize(
    "changes", [{"activation": "tanh"}, {"output_scale": "1/N"}, {"eta": 0.0}, {"readout": {-1.0: 0.5, 1.0: 0.5}}]
)
def test_without_such_a_constant_there_is_no_average(changes):
    assert output_constants(CONSTANT.replace(**changes)) == [(1.0, None)]


def test_a_prediction_is_the_mean_over_constants():
    problem = CONSTANT.replace(eta=gs.Step(0.5, 0.5))
    found = gs.predict(problem)
    # A step that is told nothing counts the constant as noise: not the same.
    mean = moments(problem.activation).mean
    noise = problem.replace(activation=f"softplus(x) + 1 - {mean!r}", noise=math.hypot(problem.noise, mean))
    assert found.residual <= 1e-10
    assert abs(found.alignment / step_statistics(noise, 300, 450, 600).alignment - 1) > 0.03
    # Of a larger average, on another rule.
    z, weight = np.polynomial.hermite_e.hermegauss(41)
    alignments = [step_statistics(problem, 300, 450, 600, mean * x).alignment for x in z]
    assert found.alignment == pytest.approx(weight @ alignments / weight.sum(), rel=2e-3)
    # The teacher's mean given the projection on a spike of each constant's own, in closed form.
    expected = np.zeros_like(found.curve.kappa)
    for x, share in zip(z, weight / weight.sum(), strict=True):
        own = given_own_output(problem, step_statistics(problem, 300, 450, 600, mean * x), 450).alignment
        expected += share * (np.sin(own * found.curve.kappa) * math.exp((own**2 - 1) / 2) + 1)
    inner = np.abs(found.curve.kappa) < 4
    assert found.curve.target[inner] == pytest.approx(expected[inner], abs=5e-3)
    off = (found.curve.learned - found.curve.target) ** 2 * np.exp(-(found.curve.kappa**2) / 2)
    assert off.sum() < 0.1 * np.exp(-(found.curve.kappa**2) / 2).sum()


@pytest.mark.statistical
@pytest.mark.parametrize("activation", ["relu", pytest.param("softplus(x) + 2", marks=pytest.mark.statistical)])
def test_more_constants_change_little_and_other_problems_of_a_batch_nothing(activation):
    problem = CONSTANT.replace(activation=activation, d=100, width=150, n_step=200, n=300, ridge=1.0)
    alone = gs.predict(problem).test_error
    assert gs.predict(problem, refine=2).test_error == pytest.approx(alone, rel=1e-3)
    others = [problem.replace(ridge=3.0), problem, problem.replace(activation="tanh")]
    assert gs.predict_many(others)[1].test_error == pytest.approx(alone, rel=1e-12)


def test_readout_values_in_exact_proportions_leave_no_constant():
    # With the constant as noise the test error would be half as large again.
    problem = CONSTANT.replace(
        activation="softplus(x) + 2", d=128, width=150, n_step=512, n=256, ridge=1.0, noise=0.1,
        readout={-1.0: 0.5, 1.0: 0.5},
    )  # fmt: skip
    networks = gs.simulate(problem, seeds=48)["test_error"]
    error = networks.std(ddof=1) / math.sqrt(len(networks))
    theory = gs.predict(problem).test_error
    assert abs(networks.mean() - theory) < 4 * error
    assert error < 0.03 * theory


@pytest.mark.statistical
@pytest.mark.parametrize("eta", [4.0, gs.Step(1.0, 0.5)])
def test_networks_follow_the_constant_that_they_drew(eta):
    sizes = {"d": 256, "width": 300, "n_step": 1024, "n": 512, "ridge": 2.0, "noise": 0.1}
    problem = CONSTANT.replace(activation="softplus(x) + 2", teacher="sin", eta=eta, **sizes)
    measured, mean = gs.simulate(problem, seeds=240), moments(problem.activation).mean
    drawn = mean * np.array([initial_readout(s, 300, problem.readout).sum() for s in range(240)]) / math.sqrt(300)
    at = np.linspace(0, np.abs(drawn).max(), 12)
    steps = [step_statistics(problem, 256, 300, 1024, c) for c in at]
    residual = measured["alignment"] - np.interp(np.abs(drawn), at, [s.alignment for s in steps])
    # Theory given the constant has no trend left, and the mean over constants is the prediction.
    for part in np.array_split(np.argsort(np.abs(drawn)), 3):
        assert abs(residual[part].mean()) < 4 * residual[part].std(ddof=1) / math.sqrt(len(part))
    errors, prediction = measured["test_error"], gs.predict(problem)
    assert abs(errors.mean() - prediction.test_error) < 4 * errors.std(ddof=1) / math.sqrt(240)
    spread = gs.predict_spread(problem).test_error
    assert abs(math.log(spread / errors.std(ddof=1))) < 4 * 1.2 / math.sqrt(480)


@pytest.mark.parametrize("readout", [{-5.0: 0.5, 5.0: 0.5}, {-1.0: 0.25, 3.0: 0.5, -5.0: 0.25}])
def test_a_small_output_is_one_of_order_one_in_other_units(readout):
    """Readout values a with the scale 1/N are a/sqrt(N) with 1/sqrt(N), and a step sqrt(N) times as long."""
    for d, off in ((100, 0.02), (1600, 0.002)):
        small = gs.Problem(
            activation="tanh", teacher="sin", d=d, width=d, n_step=3 * d, n=2 * d, eta=gs.Step(0.2, 0.5),
            ridge=0.02 * d, noise=0.1, readout=readout,
        )  # fmt: skip
        root = math.sqrt(d)
        other = small.replace(
            readout={a / root: share for a, share in readout.items()}, eta=gs.Step(0.2, 1.0), output_scale="1/sqrt(N)"
        )
        one, two = gs.predict(small), gs.predict(other)
        assert one.alignment == pytest.approx(two.alignment, rel=1e-12)
        assert one.spike_strength == pytest.approx(two.spike_strength, rel=1e-12)
        assert one.bulk_variance == pytest.approx(two.bulk_variance, rel=1e-12)
        # One counts the output's common direction with the rows, the other with the spike: orders in 1/d apart.
        for quantity in ("test_error", "train_error", "train_loss"):
            assert getattr(one, quantity) == pytest.approx(getattr(two, quantity), rel=off), quantity


@pytest.mark.statistical
@pytest.mark.parametrize(
    "changes",
    [
        {"teacher": "0.1*sin(x)", "readout": "constant", "eta": gs.Step(10.0, 0.5), "noise": 0.01},
        {"teacher": "0.2*sin(x)", "eta": gs.Step(5.0, 0.5), "noise": 0.02},
        {"readout": {-5.0: 0.5, 5.0: 0.5}, "eta": gs.Step(0.2, 0.5)},
    ],
)
def test_labels_smaller_than_the_initial_output_can_be(changes):
    """Without the output's part in the gradient, alignment and spike are up to 40 % off here."""
    settings = {"activation": "tanh", "teacher": "sin", "noise": 0.1, "readout": "gaussian"} | changes
    problem = gs.Problem(d=120, width=120, n_step=360, n=240, ridge=2.4, **settings)
    found = gs.compare(problem, seeds=150)
    assert abs(found["alignment"].z) < 4
    for quantity in ("spike_strength", "test_error", "train_error"):
        assert abs(found[quantity].z_beyond(0.03)) < 3, quantity


SIGNS = BASE.replace(readout={-1.0: 0.5, 1.0: 0.5}, width=300, n_step=150, n=600, eta=20.0, ridge=2.0, noise=0.1)


def _mirrored(problem):
    """Return the same networks in three other ways: all signs of the layers, of the rows, and of the teacher's axis."""
    activation, teacher = problem.activation.name, problem.teacher.name
    values = problem.readout.values
    opposite = dict(zip((-v for v in values), problem.readout.weights, strict=True)) if values else "gaussian"
    yield problem.replace(activation=f"-({activation})", readout=opposite)
    yield problem.replace(activation=activation.replace("x", "(-x)"))
    yield problem.replace(activation=activation.replace("x", "(-x)"), teacher=teacher.replace("x", "(-x)"))


@pytest.mark.parametrize(
    "problem",
    [
        SIGNS.replace(activation="tanh(1.2*x)", teacher="sin(1.2*x)"),
        pytest.param(
            SIGNS.replace(activation="tanh(x) + 0.3*(x**2-1)", teacher="sin(x) + 1", readout={-2.0: 0.3, 1.0: 0.7}),
            marks=pytest.mark.statistical,
        ),
        SIGNS.replace(activation="sign(x) - 0.3*x - 0.2*(x**2-1)", teacher="sin(x) + 1"),
        pytest.param(
            SIGNS.replace(activation="softplus(x) + 1", teacher="sin(x) + 1", readout="gaussian", eta=2.0),
            marks=pytest.mark.statistical,
        ),
    ],
    ids=lambda problem: problem.activation.name,
)
def test_signs_of_the_same_network_change_nothing(problem):
    def errors(case):
        found, convex = gs.predict(case), convex_prediction(case)
        return [found.test_error, found.train_error, found.degrees_of_freedom, found.spike_strength, convex.test_error]

    # The variances of several readouts are no rational functions of an eigenvalue, so that the nodes' rounding is felt,
    # most by the cells of directions.
    several = problem.readout.values == (-2.0, 1.0)
    expected = errors(problem)
    for other in _mirrored(problem):
        assert errors(other) == pytest.approx(expected, rel=3e-5 if several else 1e-8)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("eta", "readout"), [(1.0, {-1.0: 0.5, 1.0: 0.5}), pytest.param(20.0, "constant", marks=pytest.mark.statistical)]
)
def test_signs_change_neither_the_spread_nor_the_spectra(eta, readout):
    problem = SIGNS.replace(activation="tanh(1.2*x)", teacher="sin(1.2*x)", eta=eta, readout=readout)

    def numbers(case):
        spread, weights, features = gs.predict_spread(case), weight_spectrum(case), feature_spectrum(case)
        outlier = weights.outlier
        found = [spread.test_error, spread.train_error, weights.after.edge, features.bulk.edge]
        found += [0.0] if outlier is None else list(asdict(outlier).values())
        return found + [x for o in features.outliers for x in (o.eigenvalue, *o.sample_overlap, *o.teacher_overlap)]

    expected = numbers(problem)
    for other in _mirrored(problem):
        # Differences of losses have these digits.
        assert numbers(other) == pytest.approx(expected, rel=1e-7, abs=1e-9)


@pytest.mark.parametrize(
    ("activation", "readout"),
    [
        pytest.param(activation, readout, marks=pytest.mark.statistical if (place + other) % 2 else ())
        for place, activation in enumerate(["cos(x) - exp(-0.5) + 0.3*H3", "sign(x) + 0.3*(x**2-1) + 0.2*H3"])
        for other, readout in enumerate(["constant", "gaussian", {-1.0: 0.5, 1.0: 0.5}])
    ],
)
def test_errors_are_continuous_where_the_spike_vanishes(activation, readout):
    # All that the step adds to the rows is there without it, and is told along the gradient.
    problem = BASE.replace(teacher="x - 1", d=300, width=300, n_step=900, ridge=20.0, readout=readout, noise=0.1)
    at = [gs.predict(problem.replace(activation=f"{activation} + ({t})*x")).test_error for t in (-1e-9, 0, 1e-9)]
    assert at == pytest.approx([at[1]] * 3, rel=1e-6)


@pytest.mark.statistical
@pytest.mark.parametrize(
    "ratio", [0.8, pytest.param(1.0, marks=pytest.mark.statistical), pytest.param(1.25, marks=pytest.mark.statistical)]
)
def test_more_nodes_for_a_larger_constant_come_without_a_jump(ratio):
    # The number of nodes of the average over the constant is a whole number: activations on both sides of a change.
    problem = BASE.replace(activation="softplus", eta=gs.Step(1.0, 0.5))
    known, labels = moments(problem.activation), moments(problem.teacher)
    rest = labels.second_moment - labels.mean**2 + 0.04 + known.second_moment - known.mean**2
    shift = math.sqrt(ratio * rest) - known.mean
    here, beside = (
        errors_of(problem.replace(activation=f"softplus(x) + {float(shift * (1 + hair))!r}")) for hair in (-1e-9, 1e-9)
    )
    assert here == pytest.approx(beside, rel=1e-6)


#: Activations with an even part, with a third coefficient, and one of which neither is small.
STRETCHING = [
    ("H2", "x + 1.5", {0.5: 0.5, 2.0: 0.5}),
    ("sin(x) - 0.4*H2", "x", {-1.0: 0.3, 2.0: 0.7}),
    ("tanh(x) + 0.3*H2", "x - 1", "constant"),
    ("H1 + 0.4*H2 + 0.3*H3", "x", {-1.0: 0.5, 1.0: 0.5}),
]


@pytest.mark.parametrize(("activation", "teacher", "readout"), STRETCHING)
def test_the_stretch_of_the_rows_is_that_of_drawn_ones(activation, teacher, readout):
    """Of order d^-1/2 it is due to the network's own output alone where the residual has no mean."""
    d, draws = 100, 40
    problem = BASE.replace(
        activation=activation, teacher=teacher, readout=readout, d=d, width=150, n_step=5 * d, n=d, eta=2.0,
        noise=0.1, initial_weights="sphere",
    )  # fmt: skip
    step = step_statistics(problem, d, 150, 5 * d)
    values, shares = np.array(problem.readout.values), np.array(problem.readout.weights)
    a = np.repeat(values, np.round(150 * shares).astype(int))
    rng = np.random.default_rng(17)
    found = []
    for _ in range(draws):
        weights = rng.standard_normal((len(a), d))
        weights /= np.linalg.norm(weights, axis=1, keepdims=True)
        x = rng.standard_normal((5 * d, d))
        u = x @ weights.T
        residual = problem.teacher(x[:, 0]) + 0.1 * rng.standard_normal(5 * d) - problem.activation(u) @ a / 150**0.5
        along = 2 / 150**0.5 * a * np.mean(residual[:, None] * problem.activation.derivative(u) * u, axis=0)
        found.append([along[a == value].mean() for value in values])
    mean, error = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / draws**0.5
    # Of the gradient's common part a row has what its own share of the output's linear part gives it.
    known = moments(problem.activation)
    turned = 2 / 150 * known.derivative_mean * known.linear * values**2
    tilted = step.own_norm[0] / 2 * values**2
    expected = step.stretch(values, values**2) - 1 + tilted - turned
    # Terms of the next order: the square of what is measured, and of the correlation of rows.
    assert np.all(np.abs(mean - expected) < 3.5 * error + 0.02 * np.abs(expected))
    assert np.any(np.abs(mean - step.drift * values + turned) > 8 * error)


@pytest.mark.statistical
def test_what_the_own_output_adds_to_norms_is_that_of_drawn_rows():
    """Of readouts with a third moment and residuals with a mean: beside networks whose output is of other rows."""
    d, width, n_step, draws = 200, 260, 400, 160
    readout = {2.0: 0.2, -0.5: 0.8}
    problem = BASE.replace(
        activation="tanh(x)+0.4*(x**2-1)", teacher="sin(x)+0.9", readout=readout, d=d, width=width, n_step=n_step,
        eta=0.5 * width**0.5, noise=0.3, output_scale="1/sqrt(N)",
    )  # fmt: skip
    sigma, rng, e = problem.activation, np.random.default_rng(29), 0.5
    a = np.repeat(list(readout), np.round(width * np.array(list(readout.values()))).astype(int))
    found = []
    for _ in range(draws):
        weights, others = rng.standard_normal((2, width, d)) / math.sqrt(d)
        x = rng.standard_normal((n_step, d))
        labels, u = problem.teacher(x[:, 0]) + 0.3 * rng.standard_normal(n_step), x @ weights.T
        squares = []
        for outputs in (sigma(u) @ a, sigma(x @ others.T) @ a):
            residual = labels - outputs / math.sqrt(width)
            gradient = residual @ x
            rows = weights + e * a[:, None] * ((residual[:, None] * sigma.derivative(u)).T @ x) / n_step
            square = (rows**2).sum(axis=1) - (rows @ gradient) ** 2 / (gradient @ gradient)
            squares.append([square[a == value].mean() for value in readout])
        found.append(np.subtract(*squares))
    mean, error = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / draws**0.5
    values, step = np.array(list(readout)), step_statistics(problem, d, width, n_step)
    alone = replace(step, own_drift=(0.0, 0.0))
    stretched = step.stretch_square(values, values**2) - alone.stretch_square(values, values**2)
    one, two = step.own_norm
    expected = stretched + one * values**2 + two * values**3
    assert np.all(np.abs(mean - expected) < 3 * error)
    # With the linear part alone of the squares that the samples add.
    _, _, squares = own_output_slopes(sigma)
    psi = derivative_moments(sigma)
    linear = moments(sigma).linear * (2 * psi.linear * psi.second + psi.square_slope)
    left_out = 2 * e**2 * d / n_step * 0.9 * (squares - linear) * values[0] ** 3 / width**0.5
    assert abs(mean[0] - expected[0] - left_out) > 3.5 * error[0]


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("activation", "teacher"),
    [pytest.param("H2 + 0.1*H4", "0.56*(x - 1)", marks=pytest.mark.statistical), ("H2", "0.56*(x + 1.5)")],
)
def test_errors_follow_the_stretch_of_the_rows(activation, teacher):
    """The stretch alone gives the features a mean: without the own output's part 41 % too much and 23 % too little."""
    problem = gs.Problem(
        activation=activation, teacher=teacher, d=200, width=520, n_step=974, n=454, eta=0.607, ridge=300.0, noise=0.25,
        readout={0.5: 0.5, 2.0: 0.5}, initial_weights="sphere", output_scale="1/sqrt(N)",
    )  # fmt: skip
    theory, network = gs.predict(problem), gs.simulate(problem, seeds=24)
    off = theory.test_error - network.mean("test_error")
    assert abs(off) < 3 * network.standard_error("test_error") + 0.03 * theory.test_error
    assert abs(theory.bulk_variance - network.mean("bulk_variance")) < 0.02


@pytest.mark.parametrize(
    ("activation", "teacher", "readout"),
    [
        ("tanh(x) + 0.3*H2", "x + 1.5", "constant"),
        pytest.param("gelu(x) - 0.5/sqrt(pi)", "x - 1", {-1.0: 0.3, 2.0: 0.7}, marks=pytest.mark.statistical),
        ("sin(x) - 0.4*H2", "x - 1", {0.5: 0.5, 2.0: 0.5}),
    ],
)
def test_the_mean_row_is_stretched_as_the_rows_are(activation, teacher, readout):
    """What drawn rows have of ``b`` along the readout; a mean row that keeps its length is off by many errors."""
    d, width, n_step, draws = 200, 240, 800, 40
    problem = BASE.replace(
        activation=activation, teacher=teacher, readout=readout, d=d, width=width, n_step=n_step, n=d,
        eta=gs.Step(0.4, 0.5), noise=0.1,
    )  # fmt: skip
    step = step_statistics(problem, d, width, n_step)
    row, power = own_output.MeanRow.of(problem, step, width), problem.readout.second_moment
    a = np.repeat(problem.readout.values, np.round(width * np.array(problem.readout.weights)).astype(int))
    assert len(a) == width
    rng = np.random.default_rng(5)
    found = []
    for _ in range(draws):
        weights = rng.standard_normal((width, d)) / d**0.5
        x = rng.standard_normal((n_step, d))
        u = x @ weights.T
        noise = 0.1 * rng.standard_normal(n_step)
        residual = problem.teacher(x[:, 0]) + noise - problem.activation(u) @ a / width**0.5
        gradient = (problem.activation.derivative(u) * residual[:, None]).T @ x / n_step
        after = weights + 0.4 * a[:, None] * gradient
        b = weights.T @ a / width**0.5
        found.append((after.T @ a) @ b / (a @ a) / (b @ b))
    mean, error = np.mean(found), np.std(found, ddof=1) / draws**0.5
    assert abs(mean - row.left) < 3.5 * error
    kept = 1 / (math.sqrt(width) * power) - row.gain * row.slope
    assert abs(mean - kept) > 3.5 * error


def turned_rows(problem, draws, seed):
    """Return what a step adds to drawn mean rows beside the gradient: along its random rest, and across, squared."""
    d, width, n_step = problem.d, problem.width, problem.n_step
    a = np.repeat(problem.readout.values, np.round(width * np.array(problem.readout.weights)).astype(int))
    activation, slope, rng = (
        problem.activation,
        moments(problem.activation).derivative_mean,
        np.random.default_rng(seed),
    )
    found = []
    for _ in range(draws):
        weights = rng.standard_normal((width, d)) / d**0.5
        x = rng.standard_normal((n_step, d))
        u = x @ weights.T
        noise = problem.noise * rng.standard_normal(n_step)
        residual = problem.teacher(x[:, 0]) + noise - activation(u) @ a / width**0.5
        gradient = x.T @ residual / n_step
        beyond = (activation.derivative(u) - slope) * residual[:, None]
        added = problem.eta.coefficient * (a**2) @ (beyond.T @ x / n_step) / (a @ a)
        # The teacher, the output, and what the gradient has besides: the samples' part.
        basis, triangle = np.linalg.qr(np.stack([np.eye(d)[0], weights.T @ a, gradient], axis=1))
        across = added - basis @ (basis.T @ added)
        found.append([math.copysign(1, triangle[2, 2]) * (basis[:, 2] @ added), across @ across])
    return width**0.5 * np.array(found) * [1, width**0.5]


@pytest.mark.parametrize(
    ("activation", "teacher", "readout"),
    [
        pytest.param("gelu(x) - 0.5/sqrt(pi)", "x - 1", {-1.0: 0.3, 2.0: 0.7}, marks=pytest.mark.statistical),
        pytest.param("gelu(x) - 0.5/sqrt(pi)", "x + 1.5", {0.5: 0.5, 2.0: 0.5}, marks=pytest.mark.statistical),
        pytest.param("H1 + 0.4*H2", "x - 1", "constant", marks=pytest.mark.statistical),
        ("H1 - 0.3*H2", "x + 1.5", "constant"),
    ],
)
def test_the_samples_turn_the_mean_row(activation, teacher, readout):
    """At two sizes, so that what falls like d^-1/2 beside it is taken out."""
    settings = {
        "activation": activation,
        "teacher": teacher,
        "readout": readout,
        "eta": gs.Step(0.4, 0.5),
        "noise": 0.1,
    }
    small, large = (BASE.replace(d=d, width=6 * d // 10, n_step=d, n=d, **settings) for d in (100, 400))
    row = own_output.MeanRow.of(large, step_statistics(large, large.d, large.width, large.n_step), large.width)
    expected = np.array([large.width**0.5 * row.turned[2], large.width * row.turned[3] ** 2])
    few, many = turned_rows(large, 60, 1), turned_rows(small, 500, 2)
    mean = 2 * few.mean(axis=0) - many.mean(axis=0)
    error = np.hypot(2 * few.std(axis=0, ddof=1) / 60**0.5, many.std(axis=0, ddof=1) / 500**0.5)
    # Readouts of several values leave the rows' own parts across.
    count = 2 if readout == "constant" else 1
    assert np.all(np.abs(mean - expected)[:count] < 3.5 * error[:count])
    assert np.all(np.abs(expected)[:count] > 8 * error[:count])


@pytest.mark.parametrize(
    ("activation", "readout"),
    [
        ("gelu(x) - 0.5/sqrt(pi)", {-1.0: 0.3, 2.0: 0.7}),
        ("H1 + 0.4*H2", {0.5: 0.5, 2.0: 0.5}),
        pytest.param("H1 + 0.4*H2", {-1.0: 0.5, 1.0: 0.5}, marks=pytest.mark.statistical),
        *(
            pytest.param(*case, marks=pytest.mark.statistical)
            for case in [
                ("gelu(x) - 0.5/sqrt(pi)", {0.5: 0.5, 2.0: 0.5}),
                ("gelu(x) - 0.5/sqrt(pi)", {-1.0: 0.5, 1.0: 0.5}),
                ("H1 + 0.4*H2", {-1.0: 0.3, 2.0: 0.7}),
            ]
        ),
    ],
)
def test_the_mean_rows_of_two_readout_values_are_not_parallel(activation, readout):
    """What is proportional to the squared readout is along the samples' matrix times the output's direction."""
    d, width, draws = 400, 240, 24
    problem = BASE.replace(
        activation=activation, teacher="x - 1", readout=readout, d=d, width=width, n_step=400, n=d,
        eta=gs.Step(0.6, 0.5), noise=0.1,
    )  # fmt: skip
    row = own_output.MeanRow.of(problem, step_statistics(problem, d, width, 400), width)
    found = []
    for seed in range(draws):
        network = gs.Network(problem, seed)
        x, y = network.step_data()
        residual = y - problem.activation(x @ network.before.T) @ network.readout / math.sqrt(width)
        output, gradient = network.before.T @ network.readout, x.T @ residual
        basis, triangle = np.linalg.qr(np.stack([np.eye(d)[0], output, gradient], axis=1))
        basis = basis * np.sign(np.diagonal(triangle))
        low, high = (
            (network.after - network.before)[network.readout == a].mean(axis=0) / a for a in problem.readout.values
        )
        found.append(basis.T @ (high - low))
    mean, error = np.mean(found, axis=0), np.std(found, axis=0, ddof=1) / draws**0.5
    low, high = problem.readout.values
    expected = (high - low) * row.second[:3]
    assert np.all(np.abs(mean - expected) < 3.5 * error + 0.05 * np.abs(expected))
    assert np.all(np.abs(expected[1:]) > 5 * error[1:])


@pytest.mark.parametrize("readout", ["gaussian", {-1.0: 0.3, 2.0: 0.7}])
@pytest.mark.parametrize("share", [0.8, 1.0, 1.25])
def test_errors_do_not_jump_where_one_way_gives_way_to_the_other(share, readout):
    problem = BASE.replace(activation="tanh(x) + 0.3*H2", teacher="x - 1", readout=readout, ridge=30.0)
    eta = brentq(lambda eta: share_taken(problem.replace(eta=eta)) - share, 0.05, 5.0, xtol=1e-14)
    below, above = (errors_of(problem.replace(eta=eta * (1 + change))) for change in (-1e-9, 1e-9))
    assert below == pytest.approx(above, rel=1e-6)
