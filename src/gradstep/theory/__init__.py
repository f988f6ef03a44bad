"""Equations in, predictions out: the uniform equivalent, and the limits it is checked against."""

from gradstep.theory.caveats import Caveat
from gradstep.theory.predict import predict, predict_each, predict_many
from gradstep.theory.prediction import QUANTITIES, Curve, Prediction
from gradstep.theory.spread import Spread, predict_spread, predict_spread_many

__all__ = [
    "QUANTITIES",
    "Caveat",
    "Curve",
    "Prediction",
    "Spread",
    "predict",
    "predict_each",
    "predict_many",
    "predict_spread",
    "predict_spread_many",
]
