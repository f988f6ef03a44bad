"""Tuned parameters: closed forms, exhaustive searches, an independent optimiser, the certificate, the real network."""

import dataclasses
import json
import math
import re
from functools import cache

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from typer.testing import CliRunner

import gradstep as gs
from gradstep.cli import app
from gradstep.errors import InvalidInput, NotConverged
from gradstep.gaussian import moments
from gradstep.theory.minimise import Axis, _certify, _Counted, minimise

LIMIT = {"d": math.inf, "n_step": gs.Proportional(1.0), "n": gs.Proportional(2.0), "ridge": gs.Proportional(1.0)}


def network(**changes):
    settings = {
        "activation": "tanh",
        "teacher": "sin",
        "d": 100,
        "width": 150,
        "n_step": 400,
        "n": 300,
        "eta": gs.Step(1.0, 0.5),
        "ridge": 1.0,
        "noise": 0.3,
        "readout": "constant",
    }
    return gs.Problem(**settings | changes)


def error(problem, **changes):
    return gs.predict(problem.replace(**changes)).test_error


@cache
def tuned(problem, over):
    """Return an optimum that several tests ask for."""
    return gs.tune(problem, over=over)


# --- the search, on functions whose minima are known ------------------------------------------------------------------


def quartic(points):
    x, y = points[:, 0] - 0.3, points[:, 1] + 1.2
    return 2 + (x + 0.9 * y) ** 2 + 0.02 * (x - y) ** 2 + 0.1 * x**4


def test_finds_the_bottom_of_a_narrow_oblique_valley():
    found = minimise(quartic, [Axis(np.linspace(-3, 3, 9), 0.05), Axis(np.linspace(-4, 4, 8), 0.05)])
    np.testing.assert_allclose(found.point, [0.3, -1.2], atol=1e-6)
    assert found.bounds == (None, None)
    assert np.all(found.below > found.value)
    assert np.all(found.above > found.value)
    np.testing.assert_allclose(found.gradient, 0, atol=1e-8)
    np.testing.assert_allclose(found.curvature, [2 + 0.04, 2 * 0.81 + 0.04], rtol=1e-6)


def test_takes_the_lower_of_two_valleys_and_reports_the_other():
    def two(points):
        x = points[:, 0]
        return 1 + (x**2 - 1) ** 2 + 0.1 * x

    found = minimise(two, [Axis(np.linspace(-3, 3, 25), 0.05)])
    roots = np.sort(np.roots([4, 0, -4, 0.1]).real)
    assert found.point[0] == pytest.approx(roots[0], abs=1e-6)
    assert [place[0] for place, _ in found.others] == pytest.approx([roots[2]], abs=1e-6)


def test_bounds_plateaus_and_integers():
    scan = np.linspace(-2, 2, 9)
    slope = minimise(lambda p: np.exp(p[:, 0]), [Axis(scan, 0.05)])
    assert (slope.point[0], slope.bounds) == (-2, ("lower",))
    assert slope.gradient[0] > 0
    plateau = minimise(lambda p: 1 + np.maximum(-p[:, 0], 0) ** 5, [Axis(scan, 0.05)])
    assert plateau.bounds == ("upper",)
    joint = minimise(
        lambda p: 1 + (p[:, 0] - 17.4) ** 2 / 50 + (p[:, 1] - 0.1 * p[:, 0]) ** 2,
        [Axis(np.arange(2.0, 60.0, 6.0), 2, whole=True), Axis(np.linspace(-4, 4, 9), 0.05)],
    )
    np.testing.assert_allclose(joint.point, [17, 1.7], atol=1e-6)


def test_a_rough_scan_finds_the_valley_and_the_function_itself_its_bottom():
    calls = []

    def exact(points):
        calls.extend(map(tuple, points))
        return quartic(points)

    axes = [Axis(np.linspace(-3, 3, 9), 0.05), Axis(np.linspace(-4, 4, 8), 0.05)]
    found = minimise(exact, axes, scanned=lambda points: quartic(points) * (1 + 1e-4 * np.sin(9 * points[:, 0])))
    np.testing.assert_allclose(found.point, [0.3, -1.2], atol=1e-6)
    assert found.value == pytest.approx(2, abs=1e-12)
    assert found.evaluations == 72 + len(calls)
    assert len(calls) < 72 + 100


def test_minima_of_a_plateau_that_nothing_separates_are_followed_once():
    def uneven(points):
        x, y = points.T
        return 1 + 1e-8 * np.sin(40 * x) + np.maximum(y, -1) ** 2 * (y > -1)

    found = minimise(uneven, [Axis(np.linspace(-3, 3, 31), 0.05), Axis(np.linspace(-4, 4, 8), 0.05)], resolution=1e-7)
    assert found.value == pytest.approx(1, abs=1e-7)
    assert found.others == ()


def test_rounding_on_a_plateau_is_not_followed():
    def rough(points):
        x, y = points.T
        return 1 + 1e-6 * np.exp(-x) + 1e-10 * np.sin(570 * x + 310 * y) + 1e-6 * (y - 0.1 * x) ** 2

    found = minimise(rough, [Axis(np.linspace(-3, 9, 13), 0.05), Axis(np.linspace(-4, 4, 8), 0.05)])
    assert found.bounds == ("upper", None)
    assert found.evaluations < 500  # a thousand, if parts of steps are taken that do not help


def test_what_cannot_be_certified_is_not_returned():
    rng = np.random.default_rng(5)
    with pytest.raises(NotConverged):
        minimise(lambda p: 1 + rng.random(len(p)), [Axis(np.linspace(0, 1, 12), 0.05)])
    with pytest.raises(NotConverged, match="No point"):
        minimise(lambda p: np.full(len(p), np.inf), [Axis(np.linspace(0, 1, 12), 0.05)])


@pytest.mark.parametrize("reluctance", [1e-6, 0.1])
def test_the_reluctance_to_leave_one_bound_excuses_no_other_coordinate(reluctance):
    # The point is six tenths of a spacing short of the minimum, so that its neighbour is lower.
    axes = [Axis(np.linspace(-1, 1, 9), 0.05), Axis(np.linspace(0, 1, 5), 0.05, reluctance=(reluctance, reluctance))]
    counted = _Counted(lambda p: 1 + (p[:, 0] - 0.03) ** 2 + p[:, 1], axes, 1e-10)
    point = np.zeros(2)
    with pytest.raises(NotConverged, match="A neighbour is lower"):
        _certify(counted, axes, point, float(counted(point[None])[0]), (), tolerance=1.0)


# --- closed forms -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("activation", "teacher", "noise"),
    [("linear", "H1", 0.5), ("linear", "sin", 0.3), ("tanh", "sin", 1.5), ("tanh", "H1", 0.3), ("tanh", "H1", 0.01)],
)
def test_best_ridge_of_a_wide_network_in_closed_form(activation, teacher, noise):
    # A wide network is kernel ridge regression with the kernel N (c1^2 x.x'/d + c*^2 1[x = x']): ridge regression on x
    # with the penalty (ridge/N + c*^2) d / c1^2, whose best value is d (noise^2 + |f_{>1}|^2) / f1^2.
    width = 1e6
    problem = gs.Problem(
        **LIMIT, activation=activation, teacher=teacher, width=gs.Proportional(width), eta=0.0, noise=noise
    )
    of_activation, of_teacher = moments(problem.activation), moments(problem.teacher)
    noise_to_signal = (noise**2 + of_teacher.second_moment - of_teacher.linear**2) / of_teacher.linear**2
    exact = width * (of_activation.linear**2 * noise_to_signal - of_activation.nonlinear_second_moment)
    best = gs.tune(problem, over="ridge")["ridge"]
    if exact > 0:
        assert best.value == pytest.approx(exact, rel=1e-4)
        assert best.at_bound is None
        assert abs(best.slope) < 1e-9
    else:
        # The activation's nonlinear part alone regularises too much: nothing should be added.
        assert best.at_bound == "lower"
        assert best.meaning.startswith("ridge -> 0")


def test_a_teacher_out_of_reach_wants_an_infinite_ridge():
    problem = gs.Problem(**LIMIT, activation="tanh", teacher="H3", width=gs.Proportional(1.5), eta=0.0, noise=0.3)
    assert gs.tune(problem, over="ridge")["ridge"].at_bound == "upper"


@pytest.mark.parametrize("frequency", [0.6, 1.0])
def test_best_step_expresses_the_teacher_exactly(frequency):
    # Population gradient, constant readout, sin network: along the spike r the features average to e^{-1/2} sin(r x),
    # which is the teacher sin(t x) where r = eta c1 f1 = t, with c1 = e^{-1/2} and f1 = t e^{-t^2/2}.
    problem = gs.Problem(
        activation="sin",
        teacher=f"sin({frequency}*x)",
        d=math.inf,
        width=gs.Proportional(2.0),
        n_step=math.inf,
        n=gs.Proportional(1e3),
        eta=gs.Step(1.0, 0.5),
        ridge=gs.Proportional(1e-6),
        readout="constant",
    )
    best = gs.tune(problem, over="eta")
    assert list(best) == ["eta"]
    assert best["eta"].value == pytest.approx(math.exp(0.5 + frequency**2 / 2), rel=5e-5)
    assert best.prediction.test_error < 1e-9


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("wall", [1.03, 1.33, 1.5])
@pytest.mark.parametrize("coordinates", [1, 2])
def test_a_minimum_beside_points_without_a_value_is_told(coordinates, wall):
    # As where a step makes the features so steep that they are refused, and the error falls until there.
    def falling(points):
        away = (points[:, -1] - 0.3 * points[:, 0]) ** 2 if coordinates == 2 else 0.0
        return np.where(points[:, 0] < wall, (2 - points[:, 0]) ** 2 + 1 + away, np.inf)

    with pytest.raises(NotConverged, match="points that have no value") as told:
        minimise(falling, [Axis(np.linspace(-3, 3, 12), 0.05)] * coordinates)
    assert "nan" not in str(told.value)


@pytest.mark.statistical
def test_a_step_that_does_harm_is_not_taken():
    # With many neurons and samples, a constant readout makes the features of relu more alike than it makes them better.
    problem = network(activation="relu", d=100, width=400, n_step=800, n=800)
    best = gs.tune(problem, over=("eta", "ridge"))
    assert best["eta"].value == 0
    assert best["eta"].meaning.startswith("eta = 0")
    assert best.problem.eta.coefficient == 0
    for size in (0.1, 10.0):
        with_step = gs.tune(problem.replace(eta=gs.Step(size, 0.5)), over="ridge").prediction
        assert with_step.test_error > best.prediction.test_error


# --- exhaustive and independent searches ------------------------------------------------------------------------------


def test_best_split_is_that_of_an_exhaustive_search():
    problem = network(d=30, width=40, n_step=60, n=61)
    best = gs.tune(problem, over="split")
    low, high = round(best["split"].low), round(best["split"].high)
    every = gs.predict_many([problem.replace(n_step=k, n=121 - k) for k in range(low, high + 1)])
    assert best["split"].value == low + int(np.argmin([p.test_error for p in every]))
    assert best.problem.n_step + best.problem.n == 121
    assert best.prediction.test_error == pytest.approx(min(p.test_error for p in every), rel=1e-12)


@pytest.mark.parametrize("readout", ["constant", pytest.param("gaussian", marks=pytest.mark.statistical)])
def test_joint_optimum_of_ridge_and_step_holds_against_nested_brent(readout):
    problem = network(readout=readout)
    best = tuned(problem, ("ridge", "eta"))

    def over_ridge(log_eta):
        eta = gs.Step(math.exp(log_eta), 0.5)
        return minimize_scalar(
            lambda u: error(problem, eta=eta, ridge=math.exp(u)), bracket=(2.0, 4.0), options={"xtol": 1e-7}
        )

    eta = best["eta"].value
    outer = minimize_scalar(
        lambda u: over_ridge(u).fun, bracket=(math.log(0.7 * eta), math.log(1.4 * eta)), options={"xtol": 1e-4}
    )
    assert best.prediction.test_error <= outer.fun * (1 + 1e-9)
    assert math.log(eta) == pytest.approx(outer.x, abs=2e-3)
    assert math.log(best["ridge"].value) == pytest.approx(over_ridge(math.log(eta)).x, abs=1e-4)


@pytest.mark.statistical
def test_all_three_beat_any_two_and_the_certificate_says_what_theory_says():
    problem = network(d=60, width=80, n_step=150, n=150, readout="constant")
    best = gs.tune(problem, over=("ridge", "eta", "split"))
    assert best.prediction.test_error <= gs.tune(problem, over=("ridge", "eta")).prediction.test_error
    assert best.prediction.test_error < best.before.test_error
    assert [p.name for p in best.parameters] == ["ridge", "eta", "split"]
    for p in best.parameters:
        for neighbour, claimed in zip(p.neighbours, p.neighbour_errors, strict=True):
            changes = {
                "ridge": {"ridge": neighbour},
                "eta": {"eta": gs.Step(neighbour, 0.5)},
                "split": {"n_step": round(neighbour), "n": 300 - round(neighbour)} if p.name == "split" else {},
            }[p.name]
            assert error(best.problem, **changes) == pytest.approx(claimed, rel=1e-12)
            assert claimed > best.prediction.test_error
        assert p.low < p.near[0] < p.value < p.near[1] < p.high
        assert p.uncertainty < 0.01
    finer = gs.predict(best.problem, refine=2).test_error / best.prediction.test_error - 1
    assert best.discretisation == abs(finer) > 0
    ridge = best["ridge"]
    for edge in ridge.near:
        assert error(best.problem, ridge=edge) == pytest.approx(1.01 * best.prediction.test_error, rel=2e-3)
    step = 1e-3
    logs = [math.log(error(best.problem, ridge=ridge.value * math.exp(s * step))) for s in (-1, 0, 1)]
    assert ridge.curvature == pytest.approx((logs[0] - 2 * logs[1] + logs[2]) / step**2, rel=1e-2)


def test_the_split_of_the_proportional_limit():
    problem = gs.Problem(
        activation="tanh",
        teacher="sin",
        d=math.inf,
        width=gs.Proportional(1.5),
        n_step=gs.Proportional(3.0),
        n=gs.Proportional(3.0),
        eta=gs.Step(1.5, 0.5),
        ridge=gs.Proportional(0.1),
        readout="constant",
        noise=0.2,
    )
    best = gs.tune(problem, over="split")
    # All over, and close together around the optimum.
    dense = np.concatenate([np.linspace(0.5, 5.5, 21), best["split"].value + 0.025 * np.arange(-8.3, 9)])
    errors = [
        p.test_error
        for p in gs.predict_many(
            problem.replace(n_step=gs.Proportional(x), n=gs.Proportional(6 - x)) for x in map(float, dense)
        )
    ]
    assert best["split"].value == pytest.approx(dense[int(np.argmin(errors))], abs=0.026)
    assert best.prediction.test_error <= min(errors)
    assert abs(best["split"].slope) < 1e-6


def test_bounds_are_kept():
    best = gs.tune(network(), over="ridge", bounds={"ridge": (1e-3, 1e-1)})["ridge"]
    assert (best.at_bound, best.value) == ("upper", pytest.approx(0.1))
    assert best.slope < -0.01
    assert "widen" in best.meaning
    assert math.isnan(best.neighbours[1])
    step = gs.tune(network(), over="eta", bounds={"eta": (2.0, 3.0)})["eta"]
    assert 2 <= step.value <= 3


def test_bounds_of_a_split_that_are_no_whole_numbers_are_kept():
    split = gs.tune(network(d=20, width=30, n_step=20, n=30), over="split", bounds={"split": (10.4, 20.6)})["split"]
    assert (split.low, split.high) == (11, 20)
    with pytest.raises(InvalidInput, match=r"bounds of split: got .*two whole numbers between them"):
        gs.tune(network(d=20, width=30, n_step=20, n=30), over="split", bounds={"split": (10.2, 11.8)})


@pytest.mark.parametrize(
    ("side", "factors", "further"), [("lower", (1.02, 3.0), "smaller"), ("upper", (0.3, 0.98), "larger")]
)
def test_a_bound_close_to_the_optimum_is_not_called_a_limit(side, factors, further):
    best = tuned(network(), ("ridge",))["ridge"]
    ends = tuple(factor * best.value for factor in factors)
    found = gs.tune(network(), over="ridge", bounds={"ridge": ends})["ridge"]
    assert found.at_bound == side
    assert 0 < abs(found.slope) < 0.01
    assert found.meaning == f"ridge at a bound that was given: {further} values may be better"
    # The range that is searched by default reaches the limits, and what is given may reach further.
    wide = gs.tune(network(activation="x", teacher="x", noise=0.0), over="ridge", bounds={"ridge": (1e-12, 1.0)})
    assert wide["ridge"].meaning.startswith("ridge -> 0")


def test_another_minimum_on_a_bound_is_said_to_be_there():
    best = tuned(network(), ("ridge", "eta"))
    low, inside = best["ridge"].low, 2 * best["ridge"].value
    others = (({"ridge": low, "eta": 0.0}, 0.5), ({"ridge": inside, "eta": 0.0}, 0.6))
    on_bound, elsewhere = [line for line in dataclasses.replace(best, others=others).notes() if "another" in line]
    assert on_bound.endswith("test error 0.5, on a bound of ridge")
    assert elsewhere.endswith("test error 0.6")


TWO_LEVELS = gs.Inputs([4, 1], [0.25, 0.75], [0.6, 0.4])


@pytest.mark.parametrize(
    ("inputs", "readout"),
    [
        pytest.param(None, "constant", marks=pytest.mark.statistical),
        # Law of the damped rows for each size of the readout: half a minute.
        pytest.param(None, "gaussian", marks=pytest.mark.statistical),
        pytest.param(TWO_LEVELS, "gaussian", marks=pytest.mark.statistical),
        (TWO_LEVELS, "constant"),
    ],
)
def test_best_damping_is_that_of_a_scan_dense_around_it(inputs, readout):
    problem = network(ridge=100.0, inputs=inputs, readout=readout)
    best = gs.tune(problem, over="damping")
    scan = np.concatenate([np.geomspace(1e-3, 1e3, 9), best["damping"].value * np.array([0.8, 1.0, 1.25])])
    errors = [p.test_error for p in gs.predict_many(problem.replace(damping=float(x)) for x in scan)]
    assert np.argmin(errors) == len(scan) - 2
    assert best.prediction.test_error <= min(errors) * (1 + 1e-6)
    assert best.prediction.test_error < error(problem, damping=math.inf)
    assert best.problem.damping == best["damping"].value
    assert abs(best["damping"].slope) < 1e-5
    for neighbour, claimed in zip(best["damping"].neighbours, best["damping"].neighbour_errors, strict=True):
        assert error(problem, damping=neighbour) == pytest.approx(claimed, rel=1e-12)


@pytest.mark.parametrize("inputs", [pytest.param(None, marks=pytest.mark.statistical), TWO_LEVELS])  # None takes long
def test_the_plain_gradient_is_among_the_candidates(inputs):
    problem = network(eta=1e-3, ridge=100.0, inputs=inputs)
    best = gs.tune(problem, over="damping")
    assert best["damping"].value == best["damping"].high == math.inf
    assert best["damping"].meaning.startswith("damping = infinity")
    assert best.problem == problem.replace(damping=math.inf)
    assert best.to_dict()["parameters"]["damping"]["at_bound"] == "upper"
    assert gs.tune(problem, over="damping", bounds={"damping": (0.01, 1.0)})["damping"].high == pytest.approx(1.0)
    again = gs.tune(problem, over="damping", bounds={"damping": (0.01, math.inf)})["damping"]
    assert (again.low, again.value) == (pytest.approx(0.01), math.inf)


@pytest.mark.statistical  # takes long
def test_damping_with_ridge_and_step_is_better_than_without():
    problem = network(inputs=gs.Inputs([4, 1], [0.25, 0.75], [0.3, 0.7]))
    plain, best = (gs.tune(problem, over=over) for over in (("ridge", "eta"), ("ridge", "eta", "damping")))
    assert best.prediction.test_error < plain.prediction.test_error
    for name in ("ridge", "eta", "damping"):
        assert best[name].at_bound is None
        assert abs(best[name].slope) < 1e-6


# --- input ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "changes", "arguments"),
    [
        ("over", {}, {"over": "width"}),
        ("over", {}, {"over": ()}),
        ("over", {}, {"over": ("ridge", "ridge")}),
        ("over", {}, {"over": 3}),
        ("bounds", {}, {"over": "ridge", "bounds": {"eta": (1, 2)}}),
        ("bounds", {}, {"over": "ridge", "bounds": [1, 2]}),
        ("bounds of ridge", {}, {"over": "ridge", "bounds": {"ridge": (2, 1)}}),
        ("bounds of ridge", {}, {"over": "ridge", "bounds": {"ridge": (0, 1)}}),
        ("bounds of ridge", {}, {"over": "ridge", "bounds": {"ridge": "low"}}),
        ("bounds of ridge", {}, {"over": "ridge", "bounds": {"ridge": (1, 10**400)}}),
        ("bounds of ridge", {}, {"over": "ridge", "bounds": {"ridge": (1, math.inf)}}),
        ("bounds of eta", {}, {"over": "eta", "bounds": {"eta": (0, math.inf)}}),
        ("bounds of split", {}, {"over": "split", "bounds": {"split": (1, 100)}}),
        # Beyond what problems may have, or too far apart for a ratio.
        ("bounds of ridge", {}, {"over": "ridge", "bounds": {"ridge": (1e-300, 1e300)}}),
        ("bounds of damping", {}, {"over": "damping", "bounds": {"damping": (1e20, 1e40)}}),
        ("bounds of damping", {}, {"over": "damping", "bounds": {"damping": (1e29, math.inf)}}),
        ("bounds of eta", {}, {"over": "eta", "bounds": {"eta": (0, 1e29)}}),
        ("n_step", {"n_step": math.inf}, {"over": "split"}),
        ("n_step + n", {"n_step": 5, "n": 4}, {"over": "split"}),
        ("over", {"eta": 0.0}, {"over": "damping"}),
        ("over", {"teacher": "0*x"}, {"over": ("ridge", "eta")}),
        ("bounds of damping", {}, {"over": "damping", "bounds": {"damping": (0, 1)}}),
        ("output_scale", {"output_scale": "1/sqrt(N)", "activation": "relu"}, {"over": "eta"}),
    ],
)
def test_bad_input_is_named(field, changes, arguments):
    with pytest.raises(InvalidInput) as raised:
        gs.tune(network(**changes), **arguments)
    assert raised.value.field == field


@pytest.mark.parametrize(
    ("name", "given", "allowed"),
    [
        ("ridge", (1, math.inf), "0 < low < high < infinity"),
        ("eta", (-1, 1), "0 <= low < high < infinity"),
        ("damping", (0, 1), "0 < low < high <= infinity"),
        ("split", (1, 100), "2 < low < high < 698"),
    ],
)
def test_a_message_about_bounds_says_which_ends_are_allowed(name, given, allowed):
    with pytest.raises(InvalidInput, match=re.escape(allowed)):
        gs.tune(network(), over=name, bounds={name: given})


@pytest.mark.parametrize(
    ("name", "changes", "ends", "value"),
    [
        ("damping", {"eta": 1e-3, "ridge": 100.0, "inputs": TWO_LEVELS}, ("1000", "inf"), math.inf),
        ("eta", {"teacher": "H3"}, ("0", "1"), 0.0),
    ],
)
def test_ends_given_as_text_are_those_of_numbers(name, changes, ends, value):
    found = gs.tune(network(**changes), over=name, bounds={name: ends})[name]
    assert found.value == value
    assert (found.low, found.high) == pytest.approx(tuple(map(float, ends)))


# --- the command ------------------------------------------------------------------------------------------------------

SMALL = ["--d", "40", "--width", "50", "--n-step", "80", "--n", "90", "--readout", "constant"]


def test_command_gives_the_numbers_of_the_library(monkeypatch):
    shown = CliRunner().invoke(app, ["tune", *SMALL, "--over", "ridge,eta", "--json"])
    assert shown.exit_code == 0, shown.stderr
    document = json.loads(shown.stdout)
    problem = gs.Problem.from_dict(document["tuned"][0]["before"])
    best = gs.tune(problem, over=("ridge", "eta"))
    for name in ("ridge", "eta"):
        assert document["tuned"][0]["parameters"][name]["value"] == best[name].value
    monkeypatch.setattr("gradstep.theory.tuning.tune", lambda *_, **__: best)
    text = CliRunner().invoke(app, ["tune", *SMALL, "--over", "ridge,eta"]).stdout
    for part in ("ridge", "eta", "within 1 %", "slope", f"{best.prediction.test_error:.6g}"):
        assert part in text


@pytest.mark.parametrize(("activation", "d", "step"), [("relu", 510, 6.5), ("gelu", 208, 8.9)])
def test_why_no_point_has_a_prediction_is_said(activation, d, step):
    """Rough predictions, for the scan, may exist where exact ones do not."""
    sizes = {"d": d, "width": 180, "n_step": math.inf, "n": 240}
    problem = gs.Problem(
        activation=activation, teacher="sin", eta=gs.Step(step, 0.5), ridge=1.0, readout="constant", **sizes
    )
    with pytest.raises(NotConverged, match="nodes"):
        gs.tune(problem, over="ridge")


def test_progress_counts_predictions(monkeypatch):
    """Also during the scan, which is most of the work."""
    problem, counts = network(), []
    found = gs.tune(problem, over=("ridge", "eta"), progress=counts.append)
    assert counts == sorted(set(counts))
    assert counts[0] == 64
    assert found.evaluations <= counts[-1] < 1.5 * found.evaluations
    assert found.prediction.test_error == tuned(problem, ("ridge", "eta")).prediction.test_error
    with pytest.raises(InvalidInput, match="progress: got True"):
        gs.tune(problem, progress=True)
    monkeypatch.setattr("gradstep.cli.tune._QUIET", 0.0)
    shown = CliRunner().invoke(app, ["tune", *SMALL, "--over", "ridge"])
    assert re.search(r"0/1 problems tuned \(\d+ predictions for the next\)", shown.stderr)


@pytest.mark.statistical
def test_command_tunes_the_damping():
    shown = CliRunner().invoke(app, ["tune", *SMALL, "--over", "damping", "--bounds", "damping=0.01:inf", "--json"])
    assert shown.exit_code == 0, shown.stderr
    document = json.loads(shown.stdout)["tuned"][0]
    best = gs.tune(gs.Problem.from_dict(document["before"]), over="damping", bounds={"damping": (0.01, math.inf)})
    assert document["parameters"]["damping"]["value"] == best["damping"].value
    refused = CliRunner().invoke(app, ["tune", *SMALL, "--over", "damping", "--damping", "0.1,1"])
    assert refused.stderr.startswith("error: damping:")


def test_command_writes_the_plain_gradient_as_inf():
    inputs = ["--inputs", "spiked([3], d=40)"]
    small = ["--eta", "0.001*N^0.5", "--ridge", "100", "--over", "damping", "--bounds", "damping=1000:inf", "--json"]
    shown = CliRunner().invoke(app, ["tune", *SMALL, *inputs, *small])
    assert shown.exit_code == 0, shown.stderr
    found = json.loads(shown.stdout)["tuned"][0]["parameters"]["damping"]
    assert (found["value"], found["bounds"][1], found["within_one_per_cent"][1]) == ("inf", "inf", "inf")
    assert found["neighbours"][1] is None


def test_command_takes_a_grid():
    shown = CliRunner().invoke(app, ["tune", *SMALL, "--over", "ridge", "--n", "60,120"])
    assert shown.exit_code == 0, shown.stderr
    assert len([line for line in shown.stdout.splitlines() if line.split()[:1] in (["60"], ["120"])]) == 2


@pytest.mark.parametrize(
    "arguments", [["--over", "width"], ["--over", ""], ["--over", "split", "--n-step", "inf"], ["--ridge", "1,2"]]
)
def test_command_refuses_in_one_message(arguments):
    shown = CliRunner().invoke(app, ["tune", *SMALL, *arguments])
    assert shown.exit_code == 2
    first, *others = shown.stderr.splitlines()
    assert first.startswith("error: ")
    assert all(line.startswith("  ") for line in others)
    as_json = CliRunner().invoke(app, ["tune", *SMALL, *arguments, "--json"])
    assert json.loads(as_json.stderr)["error"]["exit_code"] == 2


# --- the real network -------------------------------------------------------------------------------------------------


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["ridge", "eta", "damping", "split"])
def test_no_neighbour_of_the_optimum_is_better_on_the_real_network(name):
    problem = network(d=200, width=300, n_step=600, n=600, readout="gaussian", ridge=20.0)
    best = gs.tune(problem, over=name)
    value, seeds = best[name].value, range(4100, 4124)

    def measured(factor):
        if name == "ridge":
            return gs.simulate(best.problem.replace(ridge=value * factor), seeds)["test_error"]
        if name == "damping":
            return gs.simulate(best.problem.replace(damping=value * factor), seeds)["test_error"]
        if name == "eta":
            return gs.simulate(best.problem.replace(eta=gs.Step(value * factor, 0.5)), seeds)["test_error"]
        n_step = round(value * factor)
        return gs.simulate(best.problem.replace(n_step=n_step, n=1200 - n_step), seeds)["test_error"]

    at_best = measured(1.0)
    for factor in (0.6, 0.8, 1.25, 1.6):
        gain = at_best - measured(factor)
        assert gain.mean() < 2.5 * gain.std(ddof=1) / math.sqrt(len(seeds)), factor
    # And the test has power: far from the optimum the network is clearly worse.
    gain = at_best - measured({"split": 0.1, "damping": 100.0}.get(name, 0.05))
    assert gain.mean() < -5 * gain.std(ddof=1) / math.sqrt(len(seeds))


def test_without_noise_a_linear_network_wants_no_ridge():
    # A linear network learns a linear teacher from enough samples without noise.
    problem = gs.Problem(
        activation="x", teacher="x", d=100, width=150, n_step=math.inf, n=200, eta=gs.Step(1.0, 0.5), ridge=1.0
    )
    best = gs.tune(problem, over="ridge")
    assert best["ridge"].at_bound == "lower"
    # What is left is the bias, which goes with the square of the ridge.
    half = gs.predict(problem.replace(ridge=best["ridge"].value / 2))
    assert half.test_error == pytest.approx(best.prediction.test_error / 4, rel=1e-3)
    with pytest.raises(InvalidInput, match=r"teacher.*or label noise"):
        gs.tune(problem.replace(teacher="0*x"), over="ridge")
    # Of noise alone nothing is to be learned, which is an answer.
    assert gs.tune(problem.replace(teacher="0*x", noise=0.1), over="ridge")["ridge"].at_bound == "upper"


def test_an_error_that_is_rounding_is_not_tuned():
    axis = Axis(np.linspace(0.0, 1.0, 9), 0.01)
    with pytest.raises(NotConverged, match=r"error to be minimised is -1\.0e-12 somewhere.*nothing to choose"):
        minimise(lambda points: (points[:, 0] - 0.3) ** 2 - 1e-12 * (points[:, 0] > 0.2), [axis])


def test_a_step_that_moves_nothing_is_not_tuned():
    problem = network(activation="sign")
    with pytest.raises(InvalidInput, match="no step moves a weight"):
        gs.tune(problem, over="eta")
    assert gs.tune(problem, over="ridge").prediction.test_error < gs.predict(problem).test_error


def test_a_parameter_that_changes_nothing_is_said_to_change_nothing():
    # A linear network without targets keeps its directions; with a large ridge it predicts zero whatever the step.
    idle = gs.Problem(activation="x", teacher="x**2-1", d=100, width=150, n_step=200, n=200, eta=1.0, ridge=1e12)
    best = gs.tune(idle, over="eta")
    assert best["eta"].sway < 1e-9
    assert best["eta"].meaning == "the error does not depend on eta: any value will do"
    assert "does not depend on eta" in str(best)
    # Where it does depend, the whole range differs by as much as its ends do.
    told = gs.tune(idle.replace(activation="tanh", teacher="x", ridge=1.0), over="ridge")["ridge"]
    ends = [gs.predict(idle.replace(activation="tanh", teacher="x", ridge=end)) for end in (told.low, told.high)]
    at_best = gs.predict(idle.replace(activation="tanh", teacher="x", ridge=told.value)).test_error
    assert told.sway >= max(end.test_error for end in ends) / at_best - 1 - 1e-6 > 0.1
    assert told.meaning == ""


def test_what_to_do_where_there_is_only_noise():
    noise = gs.Problem(
        activation="relu", teacher="0*x", d=100, width=150, n_step=200, n=200, eta=1.0, ridge=1.0, noise=1.0
    )
    assert "widen" not in str(gs.tune(noise, over="ridge"))
    assert "nothing to learn but noise" in gs.tune(noise, over="ridge")["ridge"].meaning
    with pytest.raises(NotConverged, match="smaller ridge: there is nothing to learn but noise"):
        gs.tune(noise.replace(ridge=1e12), over="eta")
