"""Learning curves of ridge regression on given features: errors for every number of samples, from one pool of rows."""

from gradstep.learning.curve import LearningCurve
from gradstep.learning.grid import learning_curve

__all__ = ["LearningCurve", "learning_curve"]
