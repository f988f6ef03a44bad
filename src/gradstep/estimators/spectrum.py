"""The spectrum of the features of a fit: before the step, after it, and after a step on shuffled targets."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from gradstep.estimators.metric import Metric
from gradstep.estimators.moves import Move, moved_on
from gradstep.estimators.rows import HOST, Sample

if TYPE_CHECKING:
    from gradstep.estimators.readout import OneStepReadout

__all__ = ["Spectrum", "spectrum_of"]

Host = NDArray[np.float64]

#: Neurons whose spectrum is taken, at most.
_WIDTH = 1024


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Eigenvalues of the features' covariance, decreasing, as shares of their sum; NaN where features overflow."""

    #: Before and after the step, shape (width,).
    initial: Host
    stepped: Host
    #: After a step of the same eta on the same rows, with targets in random order: what the step does when there is
    #: nothing to learn. Shape (width,).
    shuffled: Host

    @property
    def outliers(self) -> int:
        """Leading shares larger than those of the shuffled step (Horn's parallel analysis), at most ten."""
        larger = self.stepped[:10] > self.shuffled[:10] * (1 + 1e-9)
        return len(larger) if larger.all() else int(np.argmin(larger))


def spectrum_of(
    fit: OneStepReadout, sample: Sample, metric: Metric, n_steps: int, random: np.random.RandomState
) -> Spectrum:
    """Return the spectra of the features of a fit on some of its rows; `random` shuffles the targets."""
    layer, order = fit._initial, random.permutation(len(sample.y))
    shuffled, width = replace(sample, y=sample.y[order]), min(layer.width, _WIDTH)
    if fit.eta_ or fit.rounds_:
        move = Move(math.nan, fit.damping_, fit.rounds_)
        layer = moved_on(layer, shuffled, sample.step_rows, metric, move, n_steps, eta=fit.eta_)
    shares = []
    for which in (fit._initial, fit._layer, layer):
        features = which.narrowed(width).features(HOST, sample.z)
        share = sample.weights / sample.weights.sum()
        features = (features - share @ features) * np.sqrt(share)[:, None]
        covariance = features.T @ features
        if not math.isfinite(np.trace(covariance)):
            shares.append(np.full(width, np.nan))
            continue
        values = np.maximum(np.linalg.eigvalsh(covariance)[::-1], 0.0)
        shares.append(values / (values.sum() or 1.0))
    return Spectrum(*shares)
