"""The prediction of the theory for networks as large as a fit, whose targets follow the fitted link."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gradstep.errors import GradstepError, InvalidInput, NotConverged
from gradstep.estimators.link import Link
from gradstep.estimators.parameters import Settings
from gradstep.problem import Problem
from gradstep.theory import Prediction, predict_many

if TYPE_CHECKING:
    from gradstep.estimators.readout import OneStepReadout

__all__ = ["Theory", "theory_of"]

#: Inputs, neurons and rows for which the limit of many of each is worth solving.
_MANY = 10


@dataclass(frozen=True, eq=False)
class Theory:
    """Prediction for isotropic Gaussian inputs of the same sizes whose targets follow the fitted link."""

    #: Standard deviation of what the link on the index itself leaves unexplained: the fitted one, corrected for the
    #: alignment of the projection it was fitted on.
    noise: float
    #: Without a step, and with the step that was taken.
    before: Prediction
    after: Prediction

    @property
    def unexplained(self) -> tuple[float, float]:
        """Test errors with the noise added, before and after: comparable with leave-one-out errors."""
        return self.before.test_error + self.noise**2, self.after.test_error + self.noise**2


def theory_of(
    fit: OneStepReadout, settings: Settings, link: Link, alignment: float, broken: str
) -> tuple[Theory | None, str]:
    """Predict networks of the fit's sizes on the link; return None and the reason where there is nothing to say."""
    layer, varying = fit._initial, fit.standardisation_.dimension
    notes = []
    if np.any(layer.offsets):
        notes.append("no offsets")
    if math.isfinite(fit.damping_):
        notes.append("no damping")
    if fit.rounds_:
        return None, "no theory: it is for one step, and here the first layer was drawn again along several directions"
    if settings.n_steps > 1:
        notes.append(f"one step of {settings.n_steps} times the size")
    if not settings.split:
        notes.append("fresh rows for the readout")
    if (outputs := layer.readout.shape[1]) > 1:
        notes.append(f"a single output, one combination of the {outputs}")
    least = min(varying, layer.width, fit.step_samples_, fit.fit_samples_)
    if least < _MANY:
        return None, f"no theory: it is for many inputs, neurons and rows, not for {least}"
    if broken:
        return None, broken
    formula, noise = link.seen_through(alignment)
    if not formula:
        return None, "no theory: the targets show no function of one direction"
    try:
        problem = Problem(
            activation=layer.activation,
            teacher=formula,
            d=varying,
            width=layer.width,
            n_step=fit.step_samples_,
            n=fit.fit_samples_,
            eta=fit.eta_ * settings.n_steps,
            ridge=fit.ridge_,
            noise=noise,
            readout=settings.law,
        )
        before, after = predict_many([problem.replace(eta=0.0), problem])
    except GradstepError as error:
        return None, f"no theory for this step and ridge: {_finding(error)}; the fit is not affected"
    return Theory(noise, before, after), f"of a plain network ({', '.join(notes)})" if notes else ""


def _finding(error: GradstepError) -> str:
    """Return what the theory found, without its advice: steps and ridges are mostly chosen here, not by the user."""
    advice = ""
    if isinstance(error, NotConverged):
        advice = f". {error.advice}"
    elif isinstance(error, InvalidInput) and error.reason:
        advice = f"; allowed: {error.allowed}"
    return str(error).removesuffix(advice)
