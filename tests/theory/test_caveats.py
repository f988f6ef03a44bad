"""Caveats of predictions: what each indicator says, where it is silent, and where it is shown."""

import json
import math
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import gradstep as gs
from gradstep.cli import app
from gradstep.theory import Caveat, caveats
from gradstep.theory.caveats import caveats_of, indicators
from gradstep.theory.step.statistics import step_statistics

ROOT = Path(__file__).parents[2]
#: A setting that the validation table finds within a per cent.
GOOD = gs.Problem(
    activation="tanh", teacher="sin", d=300, width=450, n_step=1200, n=900, eta=gs.Step(1.0, 0.5), ridge=9.0, noise=0.2
)  # fmt: skip


def names(problem: gs.Problem) -> set[str]:
    return {caveat.name for caveat in gs.predict(problem).caveats}


def of(problem: gs.Problem) -> dict[str, float]:
    return indicators(gs.predict(problem))


def scaled(problem: gs.Problem, factor: int) -> gs.Problem:
    sizes = {name: factor * getattr(problem, name) for name in ("d", "width", "n_step", "n", "ridge")}
    return problem.replace(**sizes)


@pytest.mark.parametrize(
    ("expected", "changes"),
    [
        # Each is off by more than 3 per cent, as the page of the limits of validity has it.
        ("features that grow fast", {"activation": "x**5", "d": 200, "width": 300, "n": 600, "eta": 0.0}),
        ("features that grow fast", {"activation": "hermite5", "n": 600, "n_step": 600}),
        ("near interpolation", {"n": 450, "ridge": 0.01}),
        ("few step samples after a strong step", {"eta": gs.Step(3.0, 0.5), "n_step": 30, "activation": "relu"}),
        # Residuals of unequal sizes: 15.7 per cent, where those of one size have 2.5.
        ("few step samples after a strong step",
         {"activation": "relu", "teacher": "x", "eta": gs.Step(1.5, 0.5), "n_step": 30, "width": 400, "n": 700,
          "ridge": 5.0, "readout": {-1.0: 0.5, 1.0: 0.5}, "noise": 0.0}),
        ("strong step, activation not odd",
         {"activation": "relu", "teacher": "3*x", "eta": gs.Step(2.5, 0.5), "n_step": 320, "noise": 0.5}),
        ("rows stretched along the teacher", {"activation": "abs", "teacher": "x**2 - 1"}),
        ("initial output of order one",
         {"activation": "H1 + 0.5*H3", "output_scale": "1/sqrt(N)", "d": 120, "readout": {-1.0: 0.5, 1.0: 0.5}}),
        ("own output that changes the rows",
         {"activation": "x**3", "teacher": "H2", "readout": "constant", "eta": gs.Step(3.0, 0.5), "d": 60, "width": 90,
          "n": 120, "n_step": 36000, "ridge": 0.6}),
        ("small sizes", {"width": 20}),
        # .082 is predicted and networks have .137.
        ("damped step near interpolation",
         {"d": 60, "width": 80, "n": 140, "n_step": 60, "damping": 1e-4, "ridge": 1.0, "eta": gs.Step(1.0, 0.5)}),
    ],
)  # fmt: skip
def test_settings_that_are_known_to_be_off_carry_a_caveat(expected, changes):
    assert expected in names(GOOD.replace(**changes))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"eta": 0.0},
        {"eta": 1.0},
        {"activation": "erf", "teacher": "tanh", "readout": "constant"},
        {"activation": "relu", "teacher": "tanh", "eta": 0.0},
        {"activation": "relu", "teacher": "relu", "eta": gs.Step(1.0, 0.25)},
        {"activation": "softplus", "teacher": "relu", "eta": gs.Step(1.0, 0.25)},
        {"width": 1500, "n": 600},
    ],
)
def test_settings_that_are_known_to_be_right_carry_none(changes):
    assert gs.predict(GOOD.replace(**changes)).caveats == ()


def test_growth_is_the_power_of_the_length():
    """For a polynomial of one degree the power of the features grows like twice that power of the length."""
    for activation, power in (("x", 2), ("x**3", 6), ("2*x**5", 10), ("relu(x) - relu(-x)", 2)):
        prediction = gs.predict(GOOD.replace(activation=activation, eta=0.0))
        # Of 450 neurons and 900 samples, the neurons are fewer.
        used = prediction.degrees_of_freedom / 450
        assert indicators(prediction)["growth"] == pytest.approx(used**2 * power**2 / (2 * 300), rel=1e-9)
    assert of(GOOD.replace(activation="sign", eta=0.0))["growth"] == pytest.approx(0.0, abs=1e-12)


def test_own_rows_is_the_change_of_their_squared_norm():
    """With e = eta / sqrt(N) rows of x^3 have the factor 1 - 18 e / N, and -36 e / N more of the squared norm."""
    cubic = GOOD.replace(activation="x**3", teacher="H2", readout="constant", n_step=math.inf, width=90)
    for e in (0.1, 1.0):
        change = 1 - (1 - 18 * e / 90) ** 2 + 36 * e / 90
        assert of(cubic.replace(eta=gs.Step(e, 0.5)))["own_rows"] == pytest.approx(change, rel=1e-6)
    large = cubic.replace(activation="H3", output_scale="1/sqrt(N)", n_step=1200, eta=gs.Step(0.1, 0.5))
    assert of(large)["own_rows"] == 0


@pytest.mark.parametrize("inputs", [None, gs.Inputs([3.0, 0.5], [0.2, 0.8])])
def test_swing_is_the_variance_of_the_spike_times_what_a_sine_feels_of_it(inputs):
    """With rows of mean square rho^2, E z^2 cos(rho z)^2 and E sin(rho z)^2 have closed forms."""
    problem = gs.Problem(
        activation="sin", teacher="tanh", d=200, width=300, n_step=400, n=500, eta=gs.Step(0.8, 0.5), ridge=2.0,
        readout="constant", inputs=inputs,
    )  # fmt: skip
    step = step_statistics(problem, 200, 300, 400)
    square = 1 + step.spike**2 + step.bulk
    decay = math.exp(-2 * square)
    sensitivity = (1 + (1 - 4 * square) * decay) / (1 - decay)
    variance = step.spike**2 * (step.correlated or step.samples).relative_variance_of_square / 4 / 400
    assert step.spike**2 > 0.1
    assert indicators(gs.predict(problem))["swing"] == pytest.approx(variance * sensitivity, rel=1e-9)


@pytest.mark.parametrize(("scale", "factor"), [("1/sqrt(N)", 1.0), ("1/N", 0.0)])
def test_own_output_is_the_share_of_the_power_that_is_not_linear_times_the_strength(scale, factor):
    """Of a ReLU E sigma^2 = 1/2, with the square of the mean 1/(2 pi) and the linear part 1/4 in it."""
    problem = gs.Problem(
        activation="relu", teacher="sin", d=200, width=300, n_step=400, n=500, eta=gs.Step(0.8, 0.5), ridge=2.0,
        readout="gaussian", output_scale=scale,
    )  # fmt: skip
    step = step_statistics(problem, 200, 300, 400)
    varying = 0.5 - 1 / (2 * math.pi)
    added = step.spike**2 + step.bulk
    expected = factor * (varying - 0.25) / varying * added / (1 + added) / math.sqrt(200)
    assert indicators(gs.predict(problem))["own_output"] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("teacher", "square", "fourth"), [("sign", 1.0, 1.0), ("x", 1.0, 3.0), ("H2", 2.0, 60.0)])
@pytest.mark.parametrize("damping", [math.inf, 1.0])
@pytest.mark.parametrize("inputs", [None, gs.Inputs([3.0, 0.5], [0.2, 0.8])])
def test_few_step_samples_are_fewer_if_residuals_are_unequal(teacher, square, fourth, inputs, damping):
    """The labels have these moments, and the residuals have the normal noise of the network's own output besides."""
    case = GOOD.replace(
        teacher=teacher, noise=0.0, n_step=60, readout={-1.0: 0.5, 1.0: 0.5}, inputs=inputs, damping=damping
    )
    step = step_statistics(case, 300, 450, 60)
    part = step.bulk / (1 + step.spike**2 + step.bulk)
    excess = (
        0.0
        if inputs is None or damping < math.inf
        else (0.2 * 3**4 + 0.8 * 0.5**4) / (0.2 * 3**2 + 0.8 * 0.5**2) ** 2 - 1
    )
    noise = step.residual_noise
    unequal = (fourth + 6 * noise * square + 3 * noise**2) / (square + noise) ** 2
    assert unequal == pytest.approx(fourth / square**2, rel=0.01)
    assert of(case)["few_step_samples"] == pytest.approx(part**2 * (5 * unequal + excess) / math.sqrt(300), rel=1e-6)


def test_step_interpolation_is_the_share_that_ridge_regression_leaves_free():
    """With as many samples as directions, all alike, the effective ridge k is a root of k^2 - delta k - delta."""
    damping, case = 0.01, GOOD.replace(n_step=GOOD.d, eta=gs.Step(50.0, 0.5))
    ridge = (damping + math.sqrt(damping**2 + 4 * damping)) / 2
    strength = of(case.replace(damping=damping))["step_interpolation"] * GOOD.d * (1 - (1 + ridge) ** -2) ** 2
    assert 0.99 < strength < 1
    assert of(case)["step_interpolation"] == 0
    assert of(case.replace(damping=damping, eta=0.0))["step_interpolation"] == 0


def test_odd_activations_and_absent_steps_have_no_indicator_of_the_others():
    still = of(GOOD.replace(activation="relu", readout="constant", eta=0.0))
    odd = of(GOOD.replace(readout="constant"))
    for name in ("mixed_bulk", "stretch", "shared_sign"):
        assert still[name] == 0
        assert odd[name] < 1e-12
    assert of(GOOD.replace(activation="relu", n_step=math.inf))["few_step_samples"] == 0
    assert odd["own_output"] == 0


def test_what_is_of_finite_size_falls_with_it_and_is_gone_in_the_limit():
    hard = GOOD.replace(
        activation="relu", teacher="relu", eta=gs.Step(2.0, 0.5), n_step=150, n=450, ridge=1.0, readout="constant"
    )
    small, large = of(hard), of(scaled(hard, 4))
    for name, value in small.items():
        if name not in ("mixed_bulk", "own_output", "step_interpolation"):
            assert large[name] < value, name
    few, many = (of(scaled(hard, times).replace(damping=0.1))["step_interpolation"] for times in (1, 4))
    assert many == pytest.approx(few / 4, rel=0.01)
    assert large["mixed_bulk"] == pytest.approx(small["mixed_bulk"], rel=0.05)
    limit = gs.Problem.cui2024(alpha=1.5, alpha0=0.5, beta=1.5, eta_tilde=2.0, lam=0.01, activation="relu")
    assert {name for name, value in of(limit).items() if value > 0} == {"mixed_bulk"}
    assert names(limit) <= {"strong step, activation not odd"}


def test_indicators_are_those_that_a_prediction_uses():
    for problem in (
        GOOD.replace(activation="hermite3", n=450, ridge=0.1),
        gs.Problem.cui2024(alpha=1.0, alpha0=0.5, eta_tilde=3.0, lam=0.01, activation="relu", teacher="3*x"),
    ):
        prediction = gs.predict(problem)
        assert prediction.caveats == caveats_of(indicators(prediction))


def test_caveats_are_ordered_and_of_a_readable_size():
    found = caveats_of({"growth": 1e300, "sizes": 0.06, "interpolation": math.nan, "stretch": 0.0, "swing": 1e-3})
    assert [caveat.size for caveat in found] == [1.0, 1.0, pytest.approx(0.06 * caveats._RULES["sizes"].factor)]
    assert isinstance(found[0], Caveat)


def test_small_effects_are_shown_if_they_are_large_together():
    # Each alone is too small. Together they are not, and then one that is much smaller than the others stays out.
    sizes = {"growth": 0.03, "swing": 0.028, "direction": 0.01}
    found = {name: size / caveats._RULES[name].factor for name, size in sizes.items()}
    assert caveats_of({"growth": found["growth"]}) == caveats_of({"swing": found["swing"]}) == ()
    assert [caveat.size for caveat in caveats_of(found)] == pytest.approx([0.03, 0.028])


def test_every_caveat_has_its_section():
    page = (ROOT / "docs" / "theory" / "limits_of_validity.md").read_text(encoding="utf-8")
    headings = {re.sub(r"[^a-z0-9 ]", "", h.lower()).replace(" ", "-") for h in re.findall(r"^#+ (.*)$", page, re.M)}
    for rule in caveats._RULES.values():
        name, anchor = caveats._page(rule.name).split("#")
        assert name == "theory/limits_of_validity.html"
        assert anchor in headings, anchor


TUNE = ["tune", "--over", "ridge", "--bounds", "ridge=0.01:0.1"]
HARD = ["--activation", "hermite3", "--d", "60", "--n", "90", "--width", "90", "--ridge", "0.01"]


def test_caveats_are_printed_and_written():
    problem = GOOD.replace(activation="hermite3", d=60, n=450, ridge=0.1)
    prediction = gs.predict(problem)
    shown = " ".join(str(prediction).split())
    assert "caveat: features that grow fast: the network may be off by about" in shown
    written = json.loads(json.dumps(prediction.to_dict()))["caveats"]
    assert [caveat["name"] for caveat in written] == [caveat.name for caveat in prediction.caveats]
    tuned = gs.tune(problem, over="ridge")
    assert [caveat["name"] for caveat in tuned.to_dict()["caveats"]] == [c.name for c in tuned.prediction.caveats]
    assert "caveat: features that grow fast" in str(tuned)


@pytest.mark.parametrize(
    "command", [["predict"], ["compare", "--seeds", "2"], pytest.param(TUNE, marks=pytest.mark.statistical)]
)
def test_caveats_on_the_command_line(command):
    shown = CliRunner().invoke(app, [*command, *HARD])
    assert shown.exit_code == 0
    assert "caveat: features that grow fast: the network may be off by about" in shown.stdout
    told = json.loads(CliRunner().invoke(app, [*command, *HARD, "--json"]).stdout)
    assert "features that grow fast" in json.dumps(told)


def test_caveats_of_a_grid_are_counted():
    shown = CliRunner().invoke(app, ["predict", *HARD[:2], "--d", "60,6000"])
    assert "caveat at 1 of 2, the largest: features that grow fast" in shown.stdout


def test_spreads_and_spectra_have_the_caveats_of_what_they_are_around():
    problem = GOOD.replace(activation="hermite3", readout="constant", d=90, n=450, ridge=3.0, eta=gs.Step(0.3, 0.5))
    prediction, spread, spectrum = gs.predict(problem), gs.predict_spread(problem), gs.spectrum(problem)
    sizes = [caveat.size for caveat in prediction.caveats]
    assert sizes
    assert [caveat.name for caveat in spread.caveats] == [caveat.name for caveat in prediction.caveats]
    # They are off by twice as much (docs, "Limits of validity", the table of spreads and spectra).
    assert [caveat.size for caveat in spread.caveats] == pytest.approx([min(1, 2 * size) for size in sizes])
    for found, what in (spread, "spread"), (spectrum, "outliers"):
        assert f"features that grow fast: the {what} may be off by about" in " ".join(str(found).split())
        assert found.to_dict()["caveats"][0]["of"] == what
    # The first layer is that of a polynomial of any degree.
    assert (
        gs.spectrum(problem, of="weights").caveats == gs.spectrum(GOOD).caveats == gs.predict_spread(GOOD).caveats == ()
    )
    shown = CliRunner().invoke(app, ["predict", *HARD, "--spread"])
    assert "the same effects may change a spread by about twice as many per cent" in " ".join(shown.stdout.split())
