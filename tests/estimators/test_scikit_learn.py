"""The estimators keep every contract of scikit-learn that its own checks know."""

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

import gradstep as gs

ESTIMATORS = [gs.OneStepFeatures(width=64), gs.OneStepRegressor(width=64), gs.OneStepClassifier(width=64)]


@parametrize_with_checks(ESTIMATORS)
def test_contract(estimator, check):
    check(estimator)
