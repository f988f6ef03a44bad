"""What all functions of the package have in common."""

import inspect

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
            for part, method in inspect.getmembers(value, inspect.isroutine):
                if not part.startswith("_") and getattr(method, "__module__", "").startswith("gradstep"):
                    yield f"{name}.{part}", method


@pytest.mark.parametrize(("name", "option"), REPORTING)
def test_who_hears_of_progress_is_checked(name, option):
    with pytest.raises(InvalidInput, match=rf"^{option}: got 'yes'; allowed: (a function of|True or False)"):
        REPORTING[name, option]("yes")


def test_all_that_report_progress_are_tried_here():
    options = {"progress", "report", "callback"}
    found = {(name, each) for name, one in public_functions() for each in options & {*inspect.signature(one).parameters}}
    assert found == set(REPORTING)
