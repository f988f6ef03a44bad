"""What one gradient step on the first layer does to a two-layer network: theory over simulation.

>>> import gradstep as gs
>>> problem = gs.Problem(
...     activation="tanh",
...     teacher="sin",
...     d=512,
...     width=1024,
...     n_step=2048,
...     n=2048,
...     eta=gs.Step(1.0, exponent=0.5),
...     ridge=2.0,
...     noise=0.1,
... )
>>> comparison = gs.compare(problem, seeds=4)  # gs.predict(problem) over gs.simulate(problem, seeds=4), to print
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gradstep.citations import citation
    from gradstep.comparison import Comparison, compare
    from gradstep.curves import Curve, curve
    from gradstep.errors import GradstepError, InvalidInput, NotConverged
    from gradstep.estimators import OneStepClassifier, OneStepFeatures, OneStepRegressor
    from gradstep.gaussian import ScalarFunction, scalar_function
    from gradstep.inputs import Inputs
    from gradstep.learning import LearningCurve, learning_curve
    from gradstep.problem import CONVENTION_IN_FULL, Problem, Readout, Step
    from gradstep.simulation import Measurement, Network, simulate
    from gradstep.sizes import Proportional
    from gradstep.spectra import SpectrumOverlay, spectrum
    from gradstep.sweeps import sweep
    from gradstep.theory import Prediction, Spread, predict, predict_many, predict_spread, predict_spread_many
    from gradstep.theory.tuning import Tuned, tune

__version__ = "0.2.0"

# Names are imported at first use: SciPy takes most of a second, and `gradstep --help` needs none of it.
_HOME = {
    "CONVENTION_IN_FULL": "gradstep.problem",
    "Comparison": "gradstep.comparison",
    "Curve": "gradstep.curves",
    "GradstepError": "gradstep.errors",
    "Inputs": "gradstep.inputs",
    "InvalidInput": "gradstep.errors",
    "LearningCurve": "gradstep.learning",
    "Measurement": "gradstep.simulation",
    "Network": "gradstep.simulation",
    "NotConverged": "gradstep.errors",
    "OneStepClassifier": "gradstep.estimators",
    "OneStepFeatures": "gradstep.estimators",
    "OneStepRegressor": "gradstep.estimators",
    "Prediction": "gradstep.theory",
    "Problem": "gradstep.problem",
    "Proportional": "gradstep.sizes",
    "Readout": "gradstep.problem",
    "ScalarFunction": "gradstep.gaussian",
    "SpectrumOverlay": "gradstep.spectra",
    "Spread": "gradstep.theory",
    "Step": "gradstep.problem",
    "Tuned": "gradstep.theory.tuning",
    "citation": "gradstep.citations",
    "compare": "gradstep.comparison",
    "curve": "gradstep.curves",
    "layer_learning_curve": "gradstep.simulation",
    "learning_curve": "gradstep.learning",
    "predict": "gradstep.theory",
    "predict_many": "gradstep.theory",
    "predict_spread": "gradstep.theory",
    "predict_spread_many": "gradstep.theory",
    "scalar_function": "gradstep.gaussian",
    "simulate": "gradstep.simulation",
    "spectrum": "gradstep.spectra",
    "sweep": "gradstep.sweeps",
    "tune": "gradstep.theory.tuning",
}

__all__ = [
    "CONVENTION_IN_FULL",
    "Comparison",
    "Curve",
    "GradstepError",
    "Inputs",
    "InvalidInput",
    "LearningCurve",
    "Measurement",
    "Network",
    "NotConverged",
    "OneStepClassifier",
    "OneStepFeatures",
    "OneStepRegressor",
    "Prediction",
    "Problem",
    "Proportional",
    "Readout",
    "ScalarFunction",
    "SpectrumOverlay",
    "Spread",
    "Step",
    "Tuned",
    "__version__",
    "citation",
    "compare",
    "curve",
    "layer_learning_curve",
    "learning_curve",
    "predict",
    "predict_many",
    "predict_spread",
    "predict_spread_many",
    "scalar_function",
    "simulate",
    "spectrum",
    "sweep",
    "tune",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
