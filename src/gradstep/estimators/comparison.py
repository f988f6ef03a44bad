"""The move of a fit beside others: no step, steps of other sizes, more rounds, and twice the width."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from gradstep.estimators.layer import FirstLayer, draw
from gradstep.estimators.metric import Metric
from gradstep.estimators.moves import NO_STEP, ROUNDS, Move
from gradstep.estimators.rows import Sample, Training
from gradstep.estimators.step_choice import SCALES, StepErrors, score_steps
from gradstep.estimators.targets import mistaken

if TYPE_CHECKING:
    from gradstep.estimators.readout import OneStepReadout

__all__ = ["Compared", "Gains", "compare_moves"]

Host = NDArray[np.float64]

#: Neurons on which leave-one-out errors are compared, at most.
_WIDTH = 256


@dataclass(frozen=True, eq=False)
class Gains:
    """How much better a fit is with its step or rounds than without, and what larger ones would add.

    Gains are in R^2, or in the share of rows whose class is right.
    Rows are scored by fits that have not seen them, each move at the penalty that is best for its squared errors.
    """

    #: Without a step, and with the move of the fit.
    before: float
    after: float
    #: Their difference, with its standard error over rows.
    gain: float
    gain_error: float
    #: Further gain of a step twice as large, or of twice as many rounds; zero where the rounds ended by themselves. If
    #: no step was taken, the larger step is the smallest one of the grid.
    larger: float
    larger_error: float
    #: Further gain of a network that is twice as wide as the compared one.
    wider: float
    wider_error: float


@dataclass(frozen=True, eq=False)
class Compared:
    """The move of a fit (`taken`) and the next larger one, beside others.

    Both first layers are drawn alike. `steps` are of one of them; `doubled` has the move of the fit on both together,
    with twice the width. `scale` is `Diagnosis.step_scale`. Errors are means over the outputs that are `varying`.
    """

    scale: float
    varying: int
    n_steps: int
    taken: Move
    following: Move
    draws: tuple[FirstLayer, FirstLayer]
    steps: StepErrors
    doubled: StepErrors

    @property
    def gains(self) -> Gains:
        """Gains in R^2."""
        return self._gains(self.steps, self.doubled)

    @property
    def accuracy(self) -> Gains | None:
        """Gains in the share of right classes; None for numbers."""
        steps, doubled = self.steps.of_classes, self.doubled.of_classes
        return self._gains(steps, doubled) if steps and doubled else None

    def _gains(self, steps: StepErrors, doubled: StepErrors) -> Gains:
        taken, larger = self.taken, steps.gain(self.following, self.taken)
        wider = doubled.gain(taken, taken, of=steps)
        return Gains(1 - steps.error(NO_STEP), 1 - steps.error(taken), *steps.gain(taken), *larger, *wider)

    @property
    def penalty(self) -> float:
        """The penalty with the lowest leave-one-out error after the step, one where no fit is finite."""
        path = self.steps.paths[self.steps.moves.index(self.taken)]
        return float(path.penalties[np.argmin(path.unseen)]) if path is not None else 1.0

    @property
    def error(self) -> float:
        """Leave-one-out error after the step, the sum over outputs."""
        return self.varying * self.steps.error(self.taken)


def compare_moves(
    fit: OneStepReadout,
    training: Training,
    sample: Sample,
    metric: Metric,
    gradient: Host,
    random: np.random.RandomState,
) -> Compared:
    """Compare the move of a fit, along a gradient or in rounds, with no step, other steps and twice the rounds."""
    settings, layer = training.settings, fit._initial
    scale = settings.n_steps * fit.eta_ / math.sqrt(layer.width)
    scale = scale * metric.movement(layer.weights, gradient) if scale > 0 else 0.0  # it may be infinite
    scale = next((known for known in SCALES if abs(scale - known) <= 0.02 * known), scale)
    taken = Move(scale, fit.damping_) if scale else NO_STEP
    following = Move(2 * scale if scale else SCALES[0], fit.damping_)
    scales = sorted({*SCALES, following.scale, scale} - {0.0})
    moves = [NO_STEP, *(Move(size, fit.damping_) for size in scales)]
    if fit.rounds_:
        taken = following = Move(0.0, math.inf, ROUNDS)
        moves.append(taken)
        if fit.rounds_ == ROUNDS:  # otherwise they ended by themselves
            following = Move(0.0, math.inf, 2 * ROUNDS)
            moves.append(following)
    sizes = 2 * min(layer.width, _WIDTH), sample.z.shape[1], sample.y.shape[1]
    wide = draw(layer.activation, *sizes, offset=settings.offset, law=settings.law, random=random)
    narrow = wide.narrowed(wide.width // 2)
    wrong = partial(_mistaken, training.centre, training.scale) if is_classifier(fit) else None
    varying = max(int(np.count_nonzero(training.scale)), 1)

    def scored(layer: FirstLayer, moves: list[Move]) -> StepErrors:
        steps = score_steps(layer, sample, metric, moves, settings.n_steps, mistaken=wrong)
        # Outputs that do not vary, such as a class without rows, have no error, and are not explained either.
        return replace(steps, squares=steps.squares * (sample.y.shape[1] / varying))

    steps, doubled = scored(narrow, moves), scored(wide, [taken])
    return Compared(
        scale, varying, settings.n_steps, taken, following, (narrow, wide.beyond(narrow.width)), steps, doubled
    )


def _mistaken(centre: Host, scale: Host, outputs: Host, targets: Host) -> NDArray[np.bool_]:
    """Say where standardised outputs mean another class than standardised codes."""
    outputs, targets = (values * scale[:, None] + centre[:, None] for values in (outputs, targets))
    return mistaken(outputs, targets)
