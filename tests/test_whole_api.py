"""What all functions that take a problem have in common."""

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
