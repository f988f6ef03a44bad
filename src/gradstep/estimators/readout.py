"""What the regressor and the classifier share: the parameters and the fit of the ridge readout."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradstep.estimators.base import OneStep, Settings
from gradstep.estimators.diagnosis import Diagnosis, diagnose

__all__ = ["OneStepReadout"]

Host = NDArray[np.float64]


class OneStepReadout(OneStep):
    """One step on the first layer and a ridge readout of any number of outputs."""

    def __init__(
        self,
        width: int = 512,
        *,
        activation: Any = "relu",
        eta: Any = "auto",
        ridge: Any = "auto",
        readout: Any = "gaussian",
        n_steps: int = 1,
        offset: float = 1.0,
        sample_split: bool | float = False,
        whiten: bool = False,
        random_state: Any = None,
        dtype: str = "float64",
        device: str | None = None,
    ) -> None:
        self.width = width
        self.activation = activation
        self.eta = eta
        self.ridge = ridge
        self.readout = readout
        self.n_steps = n_steps
        self.offset = offset
        self.sample_split = sample_split
        self.whiten = whiten
        self.random_state = random_state
        self.dtype = dtype
        self.device = device

    def _fit(self, X: Any, targets: Host, sample_weight: Any, settings: Settings) -> None:
        training, centre, scale = self._training(X, targets, sample_weight, settings)
        self._take_step(training, settings)
        coefficients, intercept = self._fit_readout(training, settings)
        self.coef_ = (coefficients * scale).T
        self.intercept_ = centre + intercept * scale

    def _outputs(self, X: Any) -> Host:
        return self._apply(X, lambda features: features @ np.atleast_2d(self.coef_).T + self.intercept_)
