"""Equations in, predictions out: the uniform equivalent, and the limits it is checked against."""

from gradstep.theory.predict import predict, predict_many
from gradstep.theory.prediction import QUANTITIES, Curve, Prediction

__all__ = ["QUANTITIES", "Curve", "Prediction", "predict", "predict_many"]
