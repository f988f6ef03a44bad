"""Calculus under the standard Gaussian: functions, expectations, Hermite expansions."""

from gradstep.gaussian.functions import REGISTERED, ScalarFunction, scalar_function
from gradstep.gaussian.hermite import hermite_coefficients
from gradstep.gaussian.moments import Moments, is_continuous, moments
from gradstep.gaussian.multivariate import MultivariateFunction, function_of
from gradstep.gaussian.quadrature import Estimate, expectation, folded, gaussian_rule, hermite_rule, trapezoidal_rule
from gradstep.gaussian.smoothing import Smoothed, hermite_smoothed, hermite_values, smoothed, smoothed_mean

__all__ = [
    "REGISTERED",
    "Estimate",
    "Moments",
    "MultivariateFunction",
    "ScalarFunction",
    "Smoothed",
    "expectation",
    "folded",
    "function_of",
    "gaussian_rule",
    "hermite_coefficients",
    "hermite_rule",
    "hermite_smoothed",
    "hermite_values",
    "is_continuous",
    "moments",
    "scalar_function",
    "smoothed",
    "smoothed_mean",
    "trapezoidal_rule",
]
