"""On people's own data: one-step feature learning as scikit-learn estimators (extra ``estimators``)."""

try:
    import sklearn as _sklearn  # noqa: F401
except ImportError:
    raise ImportError(
        'the estimators need scikit-learn 1.6 or newer, which is not installed; run: pip install "gradstep[estimators]"'
    ) from None

from gradstep.estimators.classifier import OneStepClassifier
from gradstep.estimators.features import OneStepFeatures
from gradstep.estimators.regressor import OneStepRegressor

__all__ = ["OneStepClassifier", "OneStepFeatures", "OneStepRegressor"]
