"""What all functions of the package have in common."""

import inspect
import re

import numpy as np
import pytest

import gradstep as gs
from gradstep.errors import InvalidInput
from gradstep.simulation.convex_measurement import convex_measurement
from gradstep.theory.convex.convex_loss import convex_prediction
from gradstep.theory.spectra.feature_spectrum import feature_spectrum
from gradstep.theory.spectra.weight_spectrum import weight_spectrum


@pytest.mark.parametrize("given", ["tanh", None, {"d": 3}])
@pytest.mark.parametrize(
    "function",
    [
        gs.predict,
        lambda given: gs.predict_many([given]),
        gs.predict_spread,
        lambda given: gs.tune(given, over="ridge"),
        lambda given: gs.simulate(given, seeds=1),
        lambda given: gs.compare(given, seeds=2),
        lambda given: gs.compare([given], seeds=2),
        lambda given: gs.curve([given], over={"n": [20, 30]}),
        gs.spectrum,
        feature_spectrum,
        weight_spectrum,
        lambda given: convex_prediction(given, loss="logistic", channel="sign"),
        lambda given: convex_measurement(given, loss="logistic", channel="sign", seeds=1),
        lambda given: gs.Network(given, 0),
    ],
)
def test_what_is_no_problem_is_named(function, given):
    with pytest.raises(InvalidInput, match=r"problem: .*a gradstep.Problem"):
        function(given)


PROBLEM = gs.Problem(activation="tanh", teacher="sin", d=10, width=12, n_step=40, n=30, eta=1, ridge=1)
ROWS = np.random.default_rng(0).standard_normal((40, 3))
#: All that report progress, by the name of the function and that of the option.
REPORTING = {
    ("compare", "progress"): lambda given: gs.compare(PROBLEM, 2, progress=given),
    ("curve", "progress"): lambda given: gs.curve(PROBLEM, over={"n": [20]}, progress=given),
    ("layer_learning_curve", "progress"): lambda given: gs.layer_learning_curve(
        ROWS, "relu", "sin", n=20, ridge=1.0, progress=given
    ),
    ("learning_curve", "progress"): lambda given: gs.learning_curve(ROWS, ROWS[:, 0], progress=given),
    ("simulate", "progress"): lambda given: gs.simulate(PROBLEM, 1, progress=given),
    ("sweep", "report"): lambda given: gs.sweep(PROBLEM, {"n": [20]}, seeds=0, report=given),
    ("tune", "progress"): lambda given: gs.tune(PROBLEM, progress=given),
    ("Network.learning_curve", "progress"): lambda given: gs.Network(PROBLEM, 0).learning_curve(progress=given),
    ("Network.train", "progress"): lambda given: gs.Network(PROBLEM, 0).train(progress=given),
    ("OneStepClassifier.learning_curve", "progress"): lambda given: (
        gs.OneStepClassifier(8).fit(ROWS, ROWS[:, 0] > 0).learning_curve(ROWS, ROWS[:, 0] > 0, progress=given)
    ),
    ("OneStepRegressor.learning_curve", "progress"): lambda given: (
        gs.OneStepRegressor(8).fit(ROWS, ROWS[:, 0]).learning_curve(ROWS, ROWS[:, 0], progress=given)
    ),
}


def public_functions():
    """Yield each function of the package, and each method of its classes, under its name."""
    for name in gs.__all__:
        value = getattr(gs, name)
        if inspect.isfunction(value):
            yield name, value
        elif inspect.isclass(value):
            # A cached property is a routine, too, and from Python 3.13 on it names the module that defines it.
            for part, method in inspect.getmembers(value, lambda one: inspect.isfunction(one) or inspect.ismethod(one)):
                if not part.startswith("_") and getattr(method, "__module__", "").startswith("gradstep"):
                    yield f"{name}.{part}", method


@pytest.mark.parametrize(("name", "option"), REPORTING)
def test_who_hears_of_progress_is_checked(name, option):
    with pytest.raises(InvalidInput, match=rf"^{option}: got 'yes'; allowed: (a function of|True or False)"):
        REPORTING[name, option]("yes")


def test_all_that_report_progress_are_tried_here():
    options = {"progress", "report", "callback"}
    found = {
        (name, each) for name, one in public_functions() for each in options & {*inspect.signature(one).parameters}
    }
    assert found == set(REPORTING)


LABELS = ROWS[:, 0] > 0
LIMIT = PROBLEM.replace(d=float("inf"), width="1.5d", n_step="4d", n="3d", ridge="d/10")


def classifier(width=8, **options):
    return gs.OneStepClassifier(width, random_state=0, **options).fit(ROWS, LABELS)


def regressor(width=8, **options):
    return gs.OneStepRegressor(width, random_state=0, **options).fit(ROWS, ROWS[:, 0])


def network():
    return gs.Network(PROBLEM, 0)


def features(width=8, **options):
    return gs.OneStepFeatures(width, random_state=0, **options).fit_transform(ROWS, ROWS[:, 0])


def curve_of_rows(n=(20, 40)):
    return gs.learning_curve(ROWS, ROWS[:, 0], n=n, ridge=1.0)


def layer_curve(n=20, pool=400, seed=0):
    return gs.layer_learning_curve(ROWS, "relu", "sin", n=n, ridge=1.0, pool=pool, seed=seed).test_error


def swept(seeds=2, workers=1, **options):
    return gs.sweep(PROBLEM, {"n": [20]}, seeds=seeds, workers=workers, **options)["test_error_mean"].values


#: All integers that are given, by the name of the function and that of the option: a good one, and a result with it.
INTEGERS = {
    ("Inputs.at_dimension", "d"): (40, lambda given: gs.Inputs.power_law(0.5).at_dimension(given).eigenvalues),
    ("Inputs.counts", "d"): (8, gs.Inputs.power_law(0.5, classes=2).counts),
    ("Inputs.from_data", "classes"): (2, lambda given: gs.Inputs.from_data(ROWS, classes=given).eigenvalues),
    ("Inputs.from_data", "seed"): (3, lambda given: gs.Inputs.from_data(ROWS, seed=given).eigenvalues),
    ("Inputs.power_law", "classes"): (3, lambda given: gs.Inputs.power_law(0.5, classes=given).eigenvalues),
    ("Inputs.power_law", "d"): (8, lambda given: gs.Inputs.power_law(0.5, d=given).eigenvalues),
    ("Inputs.spiked", "d"): (8, lambda given: gs.Inputs.spiked([2.0], d=given).eigenvalues),
    ("LearningCurve.change", "before"): (20, lambda given: curve_of_rows().change(given, 40)),
    ("LearningCurve.change", "after"): (40, lambda given: curve_of_rows().change(20, given)),
    ("Network", "seed"): (3, lambda given: gs.Network(PROBLEM, given).after),
    ("Network.feature_spectrum", "leading"): (1, lambda given: network().feature_spectrum(leading=given).eigenvalues),
    ("Network.learning_curve", "n"): (20, lambda given: network().learning_curve(given, pool=500).test_error),
    ("Network.learning_curve", "pool"): (500, lambda given: network().learning_curve(pool=given).test_error),
    ("Network.sampled_risk", "rows"): (20, lambda given: network().sampled_risk(np.ones((12, 1)), given)),
    ("Network.test_data", "rows"): (20, lambda given: network().test_data(given)[0]),
    ("Network.train", "steps"): (2, lambda given: network().train(given).after),
    ("Network.weight_spectrum", "leading"): (1, lambda given: len(network().weight_spectrum(leading=given).leading)),
    ("OneStepClassifier.learning_curve", "max_rows"): (
        20,
        lambda given: classifier().learning_curve(ROWS, LABELS, 10, 1.0, max_rows=given).r2,
    ),
    ("OneStepClassifier.link", "direction"): (0, lambda given: classifier().link(ROWS, LABELS, given).explained),
    ("OneStepClassifier.link", "output"): (0, lambda given: classifier().link(ROWS, LABELS, output=given).explained),
    ("OneStepRegressor.learning_curve", "max_rows"): (
        20,
        lambda given: regressor().learning_curve(ROWS, ROWS[:, 0], 10, 1.0, max_rows=given).r2,
    ),
    ("OneStepRegressor.link", "direction"): (0, lambda given: regressor().link(ROWS, ROWS[:, 0], given).explained),
    ("OneStepRegressor.link", "output"): (0, lambda given: regressor().link(ROWS, ROWS[:, 0], output=given).explained),
    ("Problem.at_dimension", "d"): (10, lambda given: LIMIT.at_dimension(given).sizes),
    ("compare", "seeds"): (2, lambda given: gs.compare(PROBLEM, given)["test_error"].mean),
    ("curve", "seeds"): (2, lambda given: gs.curve(PROBLEM, {"n": [20]}, given)["test_error"].mean),
    ("layer_learning_curve", "n"): (20, lambda given: layer_curve(n=given)),
    ("layer_learning_curve", "pool"): (400, lambda given: layer_curve(pool=given)),
    ("layer_learning_curve", "seed"): (3, lambda given: layer_curve(seed=given)),
    ("learning_curve", "n"): (20, lambda given: curve_of_rows(given).test_error),
    ("predict", "refine"): (2, lambda given: gs.predict(PROBLEM, refine=given).test_error),
    ("predict_many", "refine"): (2, lambda given: gs.predict_many([PROBLEM], refine=given)[0].test_error),
    ("simulate", "seeds"): (2, lambda given: gs.simulate(PROBLEM, given)["test_error"]),
    ("simulate", "test_samples"): (20, lambda given: gs.simulate(PROBLEM, 1, test_samples=given)["sampled_test_error"]),
    ("spectrum", "seeds"): (2, lambda given: gs.spectrum(PROBLEM, given).measured),
    ("sweep", "seeds"): (2, lambda given: swept(seeds=given)),
    ("sweep", "first_seed"): (3, lambda given: swept(first_seed=given)),
    ("sweep", "workers"): (1, lambda given: swept(workers=given)),
    ("sweep", "max_seeds"): (3, lambda given: swept(until_se=1e-9, max_seeds=given)),
}
#: Those whose annotation also allows "auto", or text and multiples of d.
INTEGERS |= {
    ("OneStepClassifier", "width"): (8, lambda given: classifier(given).coef_),
    ("OneStepClassifier", "n_steps"): (2, lambda given: classifier(n_steps=given).coef_),
    ("OneStepFeatures", "width"): (8, features),
    ("OneStepFeatures", "n_steps"): (2, lambda given: features(n_steps=given)),
    ("OneStepRegressor", "width"): (8, lambda given: regressor(given).coef_),
    ("OneStepRegressor", "n_steps"): (2, lambda given: regressor(n_steps=given).coef_),
} | {
    ("Problem", name): (20, lambda given, name=name: PROBLEM.replace(**{name: given}).sizes)
    for name in ("d", "width", "n_step", "n")
}


@pytest.mark.parametrize(("name", "option"), INTEGERS)
def test_a_whole_number_may_be_a_float(name, option):
    good, call = INTEGERS[name, option]
    expected = call(good)
    for given in (float(good), np.float32(good), np.array(good)):
        np.testing.assert_array_equal(call(given), expected)
    for wrong in (good + 0.5, True, None if option == "d" else np.nan):
        with pytest.raises(InvalidInput, match=rf"^{option}: got "):
            call(wrong)


def test_all_integers_are_tried_here():
    results = {"Comparison", "LearningCurve", "Measurement", "Prediction", "SpectrumOverlay", "Tuned"}
    found = {
        (name, option)
        for name, one in [*public_functions(), *((name, getattr(gs, name)) for name in gs.__all__)]
        if callable(one) and name not in results and not name.endswith("Error")
        for option, parameter in inspect.signature(one).parameters.items()
        if re.search(r"\bint\b", str(parameter.annotation)) and "Callable" not in str(parameter.annotation)
    }
    assert found <= set(INTEGERS)


RAGGED, HUGE = [[1, 2], [3]], 10**400
COMPARED = gs.compare(PROBLEM, 2)
CURVE = gs.curve(PROBLEM, {"n": [20, 30]})
WRONG = [
    ("sample_weight", lambda: gs.learning_curve(ROWS, ROWS[:, 0], sample_weight=HUGE)),
    ("features", lambda: gs.learning_curve([[HUGE]], [1.0])),
    ("before", lambda: curve_of_rows().change(RAGGED, 40)),
    ("before", lambda: gs.Network(PROBLEM, 0, before=RAGGED)),
    ("readout", lambda: gs.Network(PROBLEM, 0, readout=["a"] * 12)),
    ("readouts", lambda: network().sampled_risk(np.ones((3, 2)))),
    ("readouts", lambda: network().sampled_risk(None)),
    ("rows", lambda: network().sampled_risk(np.ones((12, 1)), 1e20)),
    ("rows", lambda: network().test_data(1e20)),
    ("tolerance", lambda: network().test_error(tolerance="small")),
    ("tolerance", lambda: network().risk(np.ones(12), tolerance=None)),
    ("tolerance", lambda: network().fit_convex(loss="logistic", tolerance=np.array([np.nan]))),
    ("optimiser", lambda: network().train(optimiser="")),
    ("optimiser", lambda: network().train(optimiser=np.zeros(2))),
    ("n", lambda: network().learning_curve([])),
    ("pool", lambda: network().learning_curve(pool=1e20)),
    ("n", lambda: layer_curve(n=1e20)),
    ("layer", lambda: gs.layer_learning_curve("W", "relu", "sin", n=20, ridge=1.0)),
    ("bias", lambda: gs.layer_learning_curve(ROWS, "relu", "sin", n=20, ridge=1.0, bias="b")),
    ("ridge", lambda: gs.layer_learning_curve(ROWS, "relu", "sin", n=20, ridge=np.ones((2, 2)))),
    ("seeds", lambda: gs.simulate(PROBLEM, 1e20)),
    ("ridge", lambda: gs.simulate(PROBLEM, 1, ridge=HUGE)),
    ("ridge", lambda: gs.compare(PROBLEM, 2, ridge=RAGGED)),
    ("quantity", lambda: gs.simulate(PROBLEM, 1)[["test_error"]]),
    ("quantity", lambda: COMPARED[["test_error"]]),
    ("quantity", lambda: CURVE[np.zeros(2)]),
    ("quantity", lambda: CURVE.varies("test")),
    ("quantities", lambda: CURVE.plot(3)),
    ("quantities", lambda: CURVE.plot([])),
    ("dark", lambda: CURVE.plot(dark="yes")),
    ("n", lambda: gs.curve(PROBLEM, {"n": np.ones((2, 2))})),
    ("store", lambda: gs.sweep(PROBLEM, {"n": [20]}, seeds=0, workers=1, store=3)),
    ("max_seeds", lambda: gs.sweep(PROBLEM, {"n": [20]}, seeds=2, workers=1, until_se=0.5, max_seeds=HUGE)),
    ("d", lambda: gs.Inputs.power_law(0.5).counts(HUGE)),
    ("width", lambda: gs.Step(1.0, 0.5).size(-1)),
]


@pytest.mark.parametrize(("field", "call"), WRONG)
def test_what_cannot_be_used_is_named(field, call):
    with pytest.raises(InvalidInput, match=rf"^{field}: got "):
        call()


def test_a_huge_penalty_leaves_nothing_but_the_targets():
    found = gs.layer_learning_curve(ROWS, "relu", "sin", n=20, ridge=1e20, pool=400).test_error
    assert found == pytest.approx((1 - np.exp(-2)) / 2, rel=0.2)
