"""The diagnosis against data whose answers are known."""

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.interpolate import make_smoothing_spline

import gradstep as gs
from gradstep.errors import InvalidInput, NotConverged
from gradstep.estimators.link import binned, fit_link, normal_scores, roughness_penalty
from gradstep.gaussian import hermite_coefficients


def told(diagnosis):
    """Return the text of a diagnosis without its line breaks."""
    return " ".join(str(diagnosis).split())


@pytest.fixture(scope="module")
def known():
    """Return a single-index problem, its fit in the conventions of the theory, and its diagnosis."""
    random = np.random.default_rng(0)
    X = random.standard_normal((800, 20))
    y = np.tanh(2 * X[:, 0]) + 0.1 * random.standard_normal(800)
    theory = {"activation": "tanh", "offset": 0.0, "damping": math.inf, "sample_split": True}
    model = gs.OneStepRegressor(width=100, **theory, n_steps=1, random_state=0).fit(X, y)
    return X, y, model, model.diagnose(X, y)


def leading(model):
    """Return the direction, of norm one, along which a step moved the neurons most."""
    return np.linalg.svd(model.weights_ - model.initial_weights_, full_matrices=False)[2][0]


def test_direction(known):
    """The step has the alignment that the two halves of its rows imply; here the truth is known."""
    _, _, model, diagnosis = known
    truth = abs(leading(model)[0])
    assert diagnosis.alignment == pytest.approx(
        math.sqrt(2 * diagnosis.halves / (1 + diagnosis.halves))
    )  # Spearman-Brown
    assert diagnosis.alignment == pytest.approx(truth, abs=0.02)
    assert diagnosis.spectrum.outliers == 1


def test_the_direction_of_a_damped_step_has_the_alignment_that_its_halves_imply():
    """A linear target: each half is a regression of its own, and nearly finds the direction."""
    random = np.random.default_rng(0)
    beta = random.standard_normal(30) / 30**0.5
    X = random.standard_normal((400, 30))
    y = X @ beta + 0.2 * random.standard_normal(400)
    model = gs.OneStepRegressor(width=60, n_steps=1, random_state=0).fit(X, y)
    assert 0 < model.damping_ < 0.1
    truth = abs(leading(model) @ beta) / np.linalg.norm(beta)
    assert truth > 0.98
    # With the second moment of all rows for either half it is .04 too low.
    assert model.diagnose(X, y).alignment == pytest.approx(truth, abs=0.015)


def test_a_shuffled_step_has_as_many_rows_as_that_of_the_fit():
    """A step on pure noise and one on shuffled noise make leading eigenvalues of one size."""
    ratios = []
    for seed in range(12):
        random = np.random.default_rng(seed)
        X, y = random.standard_normal((300, 15)), random.standard_normal(300)
        options = {"eta": 40.0, "n_steps": 1, "ridge": 100.0, "sample_split": 0.2}
        model = gs.OneStepRegressor(width=60, **options, random_state=seed).fit(X, y)
        spectrum = model.diagnose(X, y).spectrum
        ratios.append(math.log(spectrum.stepped[0] / spectrum.shuffled[0]))
    # With all rows in place of a fifth it is log(1.6) on average.
    assert abs(np.mean(ratios)) < 3 * np.std(ratios, ddof=1) / math.sqrt(12)


def test_gain_and_theory(known):
    X, y, model, diagnosis = known
    random = np.random.default_rng(1)
    fresh = random.standard_normal((4000, 20))
    measured = np.mean((model.predict(fresh) - np.tanh(2 * fresh[:, 0])) ** 2) / y.var()
    assert diagnosis.gain > 5 * diagnosis.gain_error > 0
    assert diagnosis.theory.after.test_error == pytest.approx(measured, abs=0.02)
    before, after = diagnosis.theory.unexplained
    assert before - after == pytest.approx(diagnosis.gain, abs=0.06)
    # Variances, in units of that of the targets: the projection blurs the link, and the correction takes some off.
    assert diagnosis.theory.noise < diagnosis.link.noise
    assert diagnosis.theory.noise**2 == pytest.approx(0.1**2 / y.var(), abs=0.02)
    assert diagnosis.theory_note == ""
    assert len(X) == diagnosis.rows


def test_pure_noise_has_no_gain():
    random = np.random.default_rng(0)
    X, y = random.standard_normal((200, 8)), random.standard_normal(200)
    diagnosis = gs.OneStepRegressor(width=32, n_steps=1, random_state=0).fit(X, y).diagnose(X, y)
    assert diagnosis.gain <= 2 * max(diagnosis.gain_error, 1e-12)
    assert diagnosis.single_index < 0.1
    assert "pays" not in told(diagnosis).split("larger step")[1]


def test_text_and_figure(known):
    diagnosis = known[-1]
    text = str(diagnosis)
    for word in ("gain", "direction", "spectrum", "theory", "more rows", "larger step", "more width"):
        assert word in text
    before, after = (
        1 - diagnosis.steps.errors[0],
        1 - diagnosis.steps.errors[diagnosis.steps.moves.index(diagnosis.taken)],
    )
    verdict = " ".join(text.split("\n\n")[0].split()).partition("100 neurons ")[2]
    assert verdict.startswith(f"The step helps here: R^2 on new rows {before:.3f} -> {after:.3f}, gain ")
    assert max(map(len, text.splitlines())) <= 80
    html = diagnosis._repr_html_()
    assert verdict.replace(">", "&gt;") in html
    assert html.count("<tr>") == sum(line[:1] not in ("", " ") for line in text.split("\n\n")[1].splitlines())
    figure = diagnosis.plot()
    assert isinstance(figure, Figure)
    assert [len(axes.lines) > 0 for axes in figure.axes] == [True, True, True]


def test_the_verdict_says_what_to_do(known):
    diagnosis = known[-1]

    def verdict(**changes):
        top = " ".join(str(replace(diagnosis, **changes)).split("\n\n")[0].split())
        return top.partition("100 neurons ")[2]

    assert verdict(gain=0.001, gain_error=0.01).endswith("gain 0.0010 +- 0.0100; random features do as well.")
    assert verdict(gain=-0.1, gain_error=0.01).endswith("gain -0.1000 +- 0.0100; use random features.")
    assert verdict(gain=-0.1).startswith("The step does not help here: ")
    assert verdict(gain=-0.1, rounds=3).startswith("The rounds do not help here: ")
    assert verdict(step_scale=0.0).startswith("No step was taken")
    assert "overflow" in verdict(gain=math.nan)
    few = replace(diagnosis.steps, groups=np.zeros_like(diagnosis.steps.groups))
    assert verdict(steps=few) == "There are too few different rows to tell whether the step helps."


def test_classes_and_names():
    random = np.random.default_rng(0)
    X = random.standard_normal((300, 12))
    labels = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    model = gs.OneStepClassifier(width=48, activation="tanh", n_steps=1, random_state=0).fit(X, labels)
    diagnosis = model.diagnose(X, labels)
    assert diagnosis.single_index > 0.3
    assert overlap_with(np.eye(12)[0], diagnosis) > 0.98
    # The classes at the ends have linear parts, the one in the middle has none.
    assert abs(diagnosis.combination @ np.array([1, 0, -1])) / math.sqrt(2) == pytest.approx(1, abs=0.05)
    with pytest.raises(ValueError, match="not in the fit"):
        model.diagnose(X, np.where(labels == "a", "d", labels))


@pytest.mark.parametrize("several", [False, True])
def test_a_classifier_is_judged_by_its_accuracy(several):
    """The accuracy of rows left out is that of networks of the same width on new rows; gains are of the same rows."""
    random = np.random.default_rng(2)
    rule = np.array([[1.0, 2.0, 0, 0, 0, 0], [0, 0, 1.5, 0, 0, 0]])

    def table(rows):
        X = random.standard_normal((rows, 6))
        score = np.sin(X @ rule.T) + 0.3 * random.standard_normal((rows, 2))
        return X, np.where(score[:, 0] > 0.4, "c", np.where(score[:, 1] > 0, "b", "a"))

    X, labels = table(900)
    fresh, truth = table(8000)
    if not several:
        labels, truth = labels == "c", truth == "c"
    diagnosis = gs.OneStepClassifier(width=64, n_steps=1, random_state=0).fit(X, labels).diagnose(X, labels)
    found = diagnosis.accuracy
    scores = [
        gs.OneStepClassifier(diagnosis.compared_width, n_steps=1, random_state=seed).fit(X, labels).score(fresh, truth)
        for seed in range(8)
    ]
    spread = math.hypot(np.std(scores, ddof=1), math.sqrt(found.after * (1 - found.after) / 900))
    assert abs(found.after - np.mean(scores)) < 4 * spread
    assert found.gain == pytest.approx(found.after - found.before)
    assert found.gain > 3 * found.gain_error > 0
    # As many rows turn right or wrong as can: the standard error of a difference of two shares.
    assert found.gain_error <= math.sqrt((2 - found.before - found.after) / 900 + 2 / 900**2)
    text = told(diagnosis)
    assert f"The step helps here: accuracy on new rows {found.before:.3f} -> {found.after:.3f}, gain " in text
    assert "R^2 of the codes +1 and -1" in text
    worse = replace(diagnosis, accuracy=replace(found, gain=-0.1, gain_error=0.01))
    assert "The step does not help here: accuracy on new rows" in told(worse)


def test_a_regressor_has_no_accuracy(known):
    assert known[-1].accuracy is None
    assert known[-1].steps.wrong is None
    assert known[-1].steps.of_classes is None


def test_awkward_tables():
    for X, y in ((np.ones((12, 2)), np.arange(12.0)), (np.eye(12), np.ones(12)), (np.eye(6), np.arange(6.0))):
        diagnosis = gs.OneStepRegressor(width=8, n_steps=1, random_state=0).fit(X, y).diagnose(X, y)
        assert np.isfinite(diagnosis.gain)
        assert diagnosis.theory is None
        assert "no theory" in diagnosis.theory_note or np.ptp(y) == 0
        diagnosis.plot()


def test_a_constant_target_is_said_to_be_one():
    X = np.random.default_rng(0).standard_normal((200, 3))
    diagnosis = gs.OneStepRegressor(width=8, n_steps=1, random_state=0).fit(X, np.ones(200)).diagnose(X, np.ones(200))
    assert "do not vary" in told(diagnosis)
    assert "do not vary" in diagnosis._repr_html_()
    assert "%" not in told(diagnosis)
    assert math.isnan(diagnosis.single_index)


def test_rounding_is_no_verdict():
    """Constant inputs in rows of different hashes: every network predicts the mean but for rounding."""
    k = np.arange(200)
    X = 1 + np.finfo(float).eps * np.column_stack([k % 8, k // 8 % 8, k // 64])
    y = np.random.default_rng(0).standard_normal(200)
    diagnosis = gs.OneStepRegressor(width=8, n_steps=1, random_state=0).fit(X, y).diagnose(X, y)
    for gain in (-1e-9, 1e-9, 0.0):
        text = told(replace(diagnosis, gain=gain, gain_error=1e-12, wider=gain, wider_error=0.0))
        assert "hurts" not in text
        assert "pays" not in text
        assert "-0.0000" not in text
    assert "explains none of the variance, the 8 neurons none" in text


def test_two_rows_are_too_few_to_tell():
    X, y = np.eye(2), np.arange(2.0)
    text = told(gs.OneStepRegressor(width=8, n_steps=1, random_state=0).fit(X, y).diagnose(X, y))
    assert text.count("too few different rows to tell") == 3
    assert "-300" not in text


def test_an_output_that_does_not_vary_makes_no_difference():
    """It has no error, and no variance that would be explained: R^2 is that of the others in every line."""
    random = np.random.default_rng(0)
    X = random.standard_normal((300, 5))
    y = np.tanh(X[:, :1]) + random.standard_normal((300, 1))
    model = gs.OneStepRegressor(32, eta=1.0, readout="constant", random_state=0)
    alone, beside = (model.fit(X, Y).diagnose(X, Y) for Y in (y, np.column_stack([y, np.ones((300, 2))])))
    assert 0.1 < alone.after < 0.5
    assert beside.after == pytest.approx(alone.after, abs=0.02)
    assert beside.after == pytest.approx(beside.network, abs=1e-12)
    assert beside.gain == pytest.approx(beside.after - beside.before, abs=1e-12)


def test_all_outputs_are_compared_with_all_outputs():
    """Of an index and of noise, functions of one direction explain half, and so does the network."""
    random = np.random.default_rng(0)
    X = random.standard_normal((1500, 6))
    Y = np.column_stack([np.tanh(2 * X[:, 0]), random.standard_normal(1500), np.ones(1500)])
    diagnosis = gs.OneStepRegressor(width=64, n_steps=1, random_state=0).fit(X, Y).diagnose(X, Y)
    assert diagnosis.single_index == pytest.approx(0.5, abs=0.05)
    assert diagnosis.network == pytest.approx(0.5, abs=0.05)
    assert 1 - diagnosis.link.noise**2 > 0.8  # the combination of outputs that the step follows
    assert abs(diagnosis.combination[0]) > 0.9
    assert "of the variance of all 3 outputs" in told(diagnosis)


def test_a_split_is_diagnosed_as_it_was_fitted():
    random = np.random.default_rng(0)
    X = random.standard_normal((2000, 60))
    y = np.tanh(2 * X[:, 3]) + 0.3 * random.standard_normal(2000)
    fresh = random.standard_normal((4000, 60))
    theory = {"activation": "tanh", "eta": 20.0, "offset": 0.0, "damping": math.inf}
    for share in (0.2, 0.8):
        model = gs.OneStepRegressor(128, **theory, sample_split=share, n_steps=1, random_state=0).fit(X, y)
        diagnosis = model.diagnose(X, y)
        truth = (np.mean((model.predict(fresh) - np.tanh(2 * fresh[:, 3])) ** 2) + 0.09) / y.var()
        taken = diagnosis.steps.scales.index(diagnosis.step_scale)
        squares, n_fit = diagnosis.steps.squares[taken], model.fit_samples_
        assert len(squares) == n_fit
        assert diagnosis.steps.errors[taken] == pytest.approx(truth, abs=3 * squares.std() / math.sqrt(n_fit))
        assert f"({2000 - n_fit} for the step, {n_fit} for the readout)" in told(diagnosis)
        assert diagnosis.step_scale == pytest.approx(model.step_scale_)
        assert diagnosis.alignment == pytest.approx(abs(leading(model)[3]), abs=0.07)


def test_the_theory_of_another_network_is_named(known):
    X, y, _, diagnosis = known
    assert "plain network" not in told(diagnosis)
    usual = gs.OneStepRegressor(width=32, offset=0.0, damping=math.inf, n_steps=1, random_state=0).fit(
        X, X[:, 0] + 0 * y
    )
    found = usual.diagnose(X, X[:, 0])
    assert found.theory_note == "of a plain network (fresh rows for the readout)"
    assert "plain network" not in told(found)  # the learning curve stands in its place
    assert "more rows with twice the 800 rows: R^2 " in told(found)
    line = lines_of(replace(found, curve=None))["theory"]
    assert "theory of a plain network (fresh rows for the readout), not of the one fitted: " in line


def lines_of(diagnosis):
    """Return the paragraphs of the text by their first word."""
    paragraphs = re.split(r"\n(?! )", str(diagnosis).split("\n\n")[1])
    return {text.split()[0]: " ".join(text.split()) for text in paragraphs}


def test_the_text_says_which_networks_are_measured(known):
    X, y = (values[:300] for values in known[:2])
    wide = gs.OneStepRegressor(width=300, n_steps=1, random_state=0).fit(X, y)
    lines = lines_of(wide.diagnose(X, y))
    assert "of 256 neurons drawn anew (the fit has 300), after a step on 2/3 of the rows" in lines["errors"]
    assert "the variance, the 256 neurons " in lines["one"]
    assert "256 neurons: gain" in lines["larger"]
    assert "256 -> 512 neurons (at most 256 are doubled): gain" in lines["more"]
    lines = lines_of(known[-1])  # of the fit's own width, split
    assert "of 100 neurons drawn anew, after a step on" in lines["errors"]
    assert f"after a step on {known[2].step_samples_} rows;" in lines["errors"]
    assert "100 -> 200 neurons: gain" in lines["more"]


def test_a_function_without_a_linear_part_is_said_to_have_none(known):
    text = told(replace(known[-1], link=replace(known[-1].link, coefficients=np.array([0.0, 0.1, 1.0]))))
    assert "; the step of the theory sees its linear part only, 1.0% of it" in text
    assert "linear part" not in told(known[-1])
    assert known[-1].link.linear > 0.8


def overlap_with(truth, diagnosis):
    """Return the cosine between a direction and the index."""
    return abs(diagnosis.index @ truth) / np.linalg.norm(diagnosis.index) / np.linalg.norm(truth)


@pytest.mark.parametrize(
    ("seed", "function"),
    [
        (0, np.square),
        (0, np.tanh),
        *(
            pytest.param(*case, marks=pytest.mark.statistical)
            for case in [(1, np.square), (0, np.cos), (0, lambda u: u)]
        ),
    ],
)
def test_the_index_is_found_whatever_the_function(seed, function):
    """Even functions, too, of which the step itself sees little: what a function of the index alone can explain."""
    random = np.random.default_rng(seed)
    X, truth = random.standard_normal((500, 9)), random.standard_normal(9)
    u = X @ truth / np.linalg.norm(truth)
    y = function(u) + 0.3 * function(u).std() * random.standard_normal(500)
    diagnosis = gs.OneStepRegressor(width=96, n_steps=1, random_state=seed).fit(X, y).diagnose(X, y)
    assert overlap_with(truth, diagnosis) > 0.96
    assert diagnosis.index_alignment == pytest.approx(overlap_with(truth, diagnosis), abs=0.04)
    assert diagnosis.single_index == pytest.approx(1 / 1.09, abs=0.12)
    assert f"a function of one direction alone explains {diagnosis.single_index:.1%}" in told(diagnosis)


def test_noise_has_no_index():
    found = []
    for seed in range(4):
        random = np.random.default_rng(seed)
        X, y = random.standard_normal((200, 9)), random.standard_normal(200)
        diagnosis = gs.OneStepRegressor(width=24, n_steps=1, random_state=0).fit(X, y).diagnose(X, y)
        found.append(diagnosis.index_alignment)
        assert diagnosis.single_index < 0.05
    assert np.mean(found) < 0.5


@pytest.mark.parametrize("damping", [0.1, pytest.param(math.inf, marks=pytest.mark.statistical)])
def test_noise_has_no_direction(damping):
    """In five columns two random directions have a correlation of .4 on average, of which .75 would follow."""
    found = []
    for seed in range(12):
        random = np.random.default_rng(seed)
        X, y = random.standard_normal((200, 5)) @ np.diag([3, 1, 1, 1, 0.3]), random.standard_normal(200)
        model = gs.OneStepRegressor(24, eta=1.0, damping=damping, n_steps=1, random_state=0).fit(X, y)
        found.append(model.diagnose(X, y).alignment)
    assert np.mean(found) < 0.5


def test_the_index_of_correlated_columns():
    """The direction is that of the function's argument, not the one along which the inputs vary most."""
    random = np.random.default_rng(0)
    mix = np.linalg.cholesky(0.8 ** np.abs(np.subtract.outer(np.arange(15), np.arange(15))))
    X = random.standard_normal((800, 15)) @ mix.T
    truth = np.zeros(15)
    truth[[3, 4]] = 1.0, -1.0
    y = np.sin(2 * X @ truth) + 0.1 * random.standard_normal(800)
    diagnosis = gs.OneStepRegressor(width=128, n_steps=1, random_state=0).fit(X, y).diagnose(X, y)
    assert overlap_with(truth, diagnosis) > 0.9


def columns(kind, random, n, d):
    """Return inputs for which the theory has no answer, by what is wrong with them."""
    X = random.standard_normal((n, d))
    if kind == "correlated":
        return X @ np.linalg.cholesky(0.7 ** np.abs(np.subtract.outer(np.arange(d), np.arange(d)))).T
    if kind == "factor":
        return X + 0.5 * random.standard_normal((n, 1))
    return {"counts": random.poisson(0.2, (n, d)) * 1.0}.get(kind, X)


THEIRS = {"activation": "tanh", "offset": 0.0, "damping": math.inf, "sample_split": True}


@pytest.mark.parametrize(
    ("kind", "reason"),
    [("correlated", "uncorrelated"), ("factor", "uncorrelated"), ("counts", "Gaussian")],
)
def test_no_theory_for_other_inputs(kind, reason):
    random = np.random.default_rng(1)
    X = columns(kind, random, 600, 15)
    y = np.tanh(X[:, 0] + X[:, 1]) + 0.2 * random.standard_normal(600)
    diagnosis = gs.OneStepRegressor(64, **THEIRS, n_steps=1, random_state=0).fit(X, y).diagnose(X, y)
    assert diagnosis.theory is None
    assert diagnosis.theory_note.startswith(f"no theory: it is for {reason} columns")
    assert "no theory" not in told(diagnosis)
    assert "with twice the" in told(diagnosis)


def test_no_theory_where_it_misses_the_measured_error(known):
    """Many rows for each input: the fit learns an even function, of which the step of the theory sees nothing."""
    X = np.random.default_rng(0).standard_normal((800, 12))
    y = X[:, 0] ** 2
    diagnosis = gs.OneStepRegressor(width=64, activation="tanh", n_steps=1, random_state=0).fit(X, y).diagnose(X, y)
    assert diagnosis.network > 0.8
    assert diagnosis.theory is None
    assert "far from the" in diagnosis.theory_note
    assert known[-1].theory is not None  # whose error is the measured one


@pytest.mark.parametrize("seed", range(3))
def test_a_theory_that_is_shown_is_right(seed):
    """Isotropic Gaussian inputs and the network of the theory: it is shown, and true on fresh rows."""
    random = np.random.default_rng(seed)
    X, fresh = random.standard_normal((700, 25)), random.standard_normal((4000, 25))
    function, noise = (lambda u: np.tanh(2 * u), np.sin, lambda u: u)[seed], (0.2, 0.5, 1.0)[seed]
    y = function(X[:, 0]) + noise * random.standard_normal(700)
    model = gs.OneStepRegressor(80, **THEIRS, n_steps=1, random_state=seed).fit(X, y)
    diagnosis = model.diagnose(X, y)
    truth = (np.mean((model.predict(fresh) - function(fresh[:, 0])) ** 2) + noise**2) / y.var()
    assert diagnosis.theory is not None
    assert diagnosis.theory.unexplained[1] == pytest.approx(truth, rel=0.2)


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (NotConverged("the rule", 5.0, 1.0, "Use a smaller step.", "takes 5 nodes"), "the rule takes 5 nodes"),
        (NotConverged("the rule", 5.0, 1.0, "Use a smaller step."), "residual 5.00e+00 above 1e+00"),
        (InvalidInput("activation", "exp", "a smaller step", "which overflows"), "got 'exp', which overflows"),
    ],
)
def test_no_advice_about_a_step_that_was_chosen(known, monkeypatch, error, found):
    X, y, model, _ = known

    def refuse(problems):
        raise error

    monkeypatch.setattr("gradstep.estimators.theory.predict_many", refuse)
    note = model.diagnose(X, y).theory_note
    assert note.startswith("no theory for this step and ridge: ")
    assert note.endswith(f"{found}; the fit is not affected")
    assert "smaller step" not in note


def test_repr_is_the_text(known):
    assert repr(known[-1]) == str(known[-1])
    assert len(repr(known[-1])) < 2000


def test_link_of_known_function():
    random = np.random.default_rng(0)
    kappa = random.standard_normal(4000)
    link = fit_link(kappa, np.tanh(2 * kappa) + 0.2 * random.standard_normal(4000), np.ones(4000))
    assert link.noise == pytest.approx(0.2, abs=0.01)
    np.testing.assert_allclose(link.curve(np.array([-1.0, 0.5])), np.tanh([-2.0, 1.0]), atol=0.05)
    np.testing.assert_allclose(link.coefficients[:6], hermite_coefficients("tanh(2*x)", 5), atol=0.03)


def test_link_is_corrected_for_a_noisy_projection():
    """What is seen along a projection of alignment 0.9 gives back the function of the index itself."""
    random = np.random.default_rng(0)
    index, other = random.standard_normal((2, 20000))
    kappa = 0.9 * index + math.sqrt(1 - 0.81) * other
    y = index + 0.5 * (index**2 - 1) + 0.3 * random.standard_normal(20000)
    formula, noise = fit_link(kappa, y, np.ones(20000)).seen_through(0.9)
    grown = hermite_coefficients(formula, 2)
    np.testing.assert_allclose(grown[1:], [1.0, 0.5 * math.sqrt(2)], atol=0.05)
    assert noise == pytest.approx(0.3, abs=0.1)


@pytest.mark.parametrize(
    ("noise", "within", "observations", "closest"),
    [
        pytest.param(*case, closest, marks=() if place % 2 == other else pytest.mark.statistical)
        for place, case in enumerate([(0.1, 0.0, 40), (0.5, 0.0, 40), (0.1, 0.03, 160), (0.5, 1.0, 200)])
        for other, closest in enumerate([0.05, 1e-5])
    ],
)
def test_the_penalty_of_a_link_has_the_least_error_of_cross_validation(noise, within, observations, closest):
    # The error from its definition, column by column of the smoother.
    random = np.random.default_rng(4)
    x = np.cumsum(random.uniform(0.05, 0.2, 40)) - 2.5
    x[21:] += closest - (x[21] - x[20])
    y, weights = np.tanh(2 * x) + noise * random.standard_normal(40), random.uniform(0.2, 1.8, 40)
    weights /= weights.mean()

    def error(penalty):
        smoother = np.stack([make_smoothing_spline(x, unit, weights, penalty)(x) for unit in np.eye(40)], axis=1)
        residual = 40 * within + weights @ (y - smoother @ y) ** 2
        left = 1 - 1.4 * np.trace(smoother) / observations
        return residual / left**2 if left > 0 else math.inf, np.trace(smoother)

    found, freedom = roughness_penalty(x, y, weights, within=within, observations=observations)
    least, trace = error(found)
    assert freedom == pytest.approx(trace, rel=1e-4)
    assert all(error(factor * found)[0] > least for factor in (0.5, 0.9, 1.1, 2.0))
    assert min(error(1e-6 * found)[0], error(1e6 * found)[0]) > 1.02 * least
    # Points that all but coincide: of no use to numbers in double precision, and of no effect.
    beside = np.where(np.arange(40) > 20, x - closest + 1e-13, x)
    again = roughness_penalty(beside, y, weights, within=within, observations=observations)
    assert again == pytest.approx((found, freedom), rel=0.1)


@pytest.mark.parametrize("rows", [30, 100, pytest.param(400, marks=pytest.mark.statistical)])
def test_a_link_explains_nothing_of_noise_and_all_that_can_be_of_a_wave(rows):
    explained = []
    for seed in range(60):
        random = np.random.default_rng(seed)
        kappa, noise = random.standard_normal((2, rows))
        targets = (noise, math.sqrt(2) * np.sin(1.5 * kappa) / math.sqrt(1 - math.exp(-4.5)) + noise)
        scores = normal_scores(kappa, np.ones(rows))
        explained.append([1 - fit_link(scores, y, np.ones(rows)).noise ** 2 / np.var(y) for y in targets])
    explained = np.array(explained)
    errors = np.std(explained, axis=0) / math.sqrt(len(explained))
    # A curve that is chosen loses part of a wave that few rows show, and gains little from noise.
    assert np.all(np.abs(explained.mean(axis=0) - [0.0, 0.5]) < 3 * errors + 0.6 / rows)
    assert explained[:, 0].max() < (0.5 if rows < 100 else 0.25)


@pytest.mark.parametrize("levels", [2, 3, 4, 5, 12])
def test_a_link_between_few_levels_is_their_means(levels):
    random = np.random.default_rng(levels)
    level = np.arange(600) % levels
    means = random.permutation(levels) - (levels - 1) / 2
    y = means[level] + 0.1 * random.standard_normal(600)
    kappa, ones = normal_scores(level.astype(float), np.ones(600)), np.ones(600)
    link = fit_link(kappa, y, ones)
    np.testing.assert_allclose(link.curve(kappa), means[level], atol=0.05)
    assert link.noise == pytest.approx(0.1, rel=0.1)
    # Means of noise are no better than one mean: the share is that of an analysis of variance.
    noise = random.standard_normal(600)
    share = [1 - fit_link(kappa, random.permutation(noise), ones).noise ** 2 / np.var(noise) for _ in range(40)]
    assert abs(np.mean(share)) < 3 * np.std(share) / math.sqrt(40) + 0.003


def test_a_link_takes_a_weight_for_a_repetition():
    random = np.random.default_rng(5)
    values, noise = random.standard_normal((2, 150))
    y, times = np.sin(2 * values) + noise, random.integers(1, 4, 150)
    weighted = fit_link(normal_scores(values, times), y, times.astype(float), 150)
    values, y = np.repeat(values, times), np.repeat(y, times)
    repeated = fit_link(normal_scores(values, np.ones(len(y))), y, np.ones(len(y)), 150)
    assert repeated.noise == pytest.approx(weighted.noise, rel=1e-9)
    np.testing.assert_allclose(repeated.coefficients, weighted.coefficients, atol=1e-9)


def test_normal_scores():
    values = np.array([5.0, -1.0, 3.0, 3.0])
    scores = normal_scores(values, np.ones(4))
    assert scores[2] == scores[3] == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(normal_scores(np.repeat(values, 2), np.ones(8)), np.repeat(scores, 2))
    np.testing.assert_allclose(normal_scores(values, np.full(4, 7.0)), scores)
    # Equal projections may differ in their last digit: products of matrices round by where a row stands.
    rounded = values * [1.0, 1.0, 1.0, 1 + 3e-16]
    np.testing.assert_array_equal(normal_scores(rounded, np.ones(4)), scores)


def test_bins_keep_equal_projections_together():
    kappa = np.repeat([0.0, 1.0, 2.0], [50, 30, 20])
    bins = binned(kappa, kappa**2, -kappa, np.ones(100), 100)
    np.testing.assert_allclose(bins.kappa, [0.0, 1.0, 2.0])
    np.testing.assert_allclose(bins.target, [0.0, 1.0, 4.0])
    np.testing.assert_allclose(bins.learned, [0.0, -1.0, -2.0])
    np.testing.assert_allclose(bins.weight, [50, 30, 20])


def test_a_column_of_labels_is_diagnosed_as_it_was_fitted():
    random = np.random.default_rng(1)
    X = random.standard_normal((300, 5))
    y = np.where(X[:, 0] > 0, "yes", "no")[:, None]
    with pytest.warns(UserWarning, match="column-vector"):
        model = gs.OneStepClassifier(width=30, n_steps=1, random_state=0).fit(X, y)
    assert model.diagnose(X, y).gain == model.diagnose(X, y[:, 0]).gain


def test_flags_of_numpy_are_flags():
    X = np.random.default_rng(2).standard_normal((40, 3))
    plain = gs.OneStepRegressor(width=10, sample_split=True, n_steps=1, random_state=0).fit(X, X[:, 0])
    flags = {"sample_split": np.bool_(True)}
    same = gs.OneStepRegressor(width=10, n_steps=1, random_state=0, **flags).fit(X, X[:, 0])
    np.testing.assert_array_equal(plain.predict(X), same.predict(X))


@pytest.mark.parametrize(("n", "seed"), [(40, 2), (40, 3), (60, 4), (200, 2)])
def test_columns_of_equal_content_share_their_importance(n, seed):
    random = np.random.default_rng(seed)
    x, other = random.standard_normal((2, n))
    X, y = np.column_stack([x, x, other]), x + 0.3 * random.standard_normal(n)
    model = gs.OneStepRegressor(width=32, random_state=0).fit(X, y)
    np.testing.assert_allclose(model.feature_importances_[0], model.feature_importances_[1], rtol=1e-9)
    # Rounding does not decide either whether the difference of both columns varies.
    order = random.permutation(n)
    errors, again = (model.diagnose(X[rows], y[rows]).importance_errors for rows in (np.arange(n), order))
    np.testing.assert_allclose(again, errors, rtol=1e-6)


@pytest.mark.parametrize("given", [{}, {"eta": 0.0}, {"sample_split": True}])
def test_directions_lie_where_the_rows_vary(given):
    X = np.random.default_rng(0).standard_normal((30, 80))
    model = gs.OneStepRegressor(width=64, random_state=0, **given).fit(X, np.tanh(2 * X[:, 0]))
    centred = (X - X.mean(axis=0)) / X.std(axis=0)
    within = np.linalg.qr(centred.T)[0]
    np.testing.assert_allclose(model.directions_ @ within @ within.T, model.directions_, atol=1e-9)
