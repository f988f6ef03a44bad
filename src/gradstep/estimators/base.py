"""The base of the three estimators: it reads the table, draws the layer, chooses and takes the step."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator  # type: ignore[import-untyped, unused-ignore]
from sklearn.utils import check_random_state  # type: ignore[import-untyped, unused-ignore]
from sklearn.utils.validation import (  # type: ignore[import-untyped, unused-ignore]
    _check_sample_weight,
    check_is_fitted,
    validate_data,
)

from gradstep.errors import InvalidInput
from gradstep.estimators.columns import Columns, check_dense
from gradstep.estimators.layer import FirstLayer, draw
from gradstep.estimators.memory import check_memory
from gradstep.estimators.metric import Metric, measure
from gradstep.estimators.moves import NO_STEP, REDRAW_ROWS, Move, Sample, eta_of, redrawn_on
from gradstep.estimators.parameters import (
    checked_activation,
    checked_backend,
    checked_damping,
    checked_eta,
    checked_real,
    checked_split,
    checked_steps,
    checked_width,
)
from gradstep.estimators.step_choice import (
    CHOICE_ROWS,
    FOLDS,
    StepErrors,
    candidates,
    choice_width,
    score_steps,
)
from gradstep.estimators.table import (
    Standardisation,
    Table,
    is_only_sliced,
    rows_per_block,
    standardisation,
    standardised_targets,
)
from gradstep.gaussian import ScalarFunction
from gradstep.host import host_errors
from gradstep.problem import Readout
from gradstep.simulation.backend import Array, Backend, to_host
from gradstep.simulation.leave_one_out import SCORED_ROWS, copies_of, leave_one_out, left_out, penalty_path
from gradstep.simulation.ridge import OutOfRange, factorise
from gradstep.threads import threads_for_products

__all__ = ["OneStep", "Settings", "Training"]

Host = NDArray[np.float64]
Rows = NDArray[np.bool_]

#: Numbers in a sample of rows for the rounds that draw the layer again, unless that leaves fewer than `CHOICE_ROWS`.
_REDRAW_NUMBERS = 2**23


@dataclass(frozen=True)
class Settings:
    """Checked parameters; `eta`, `damping` and `ridge` are None where they are to be chosen.

    If `smooth`, the activation may be replaced by tanh.
    """

    width: int
    activation: ScalarFunction
    smooth: bool
    eta: float | None
    damping: float | None
    ridge: float | None
    n_steps: int
    redraw: bool
    offset: float
    split: float
    law: Readout
    backend: Backend


@dataclass(frozen=True)
class Training:
    """A table on its way into a fit.

    Parameters
    ----------
    table : Table
    hashes : ndarray of uint64, shape (n,)
        Hashes of the inputs, from which folds and subsamples are made.
    step_rows, fit_rows : ndarray of bool, shape (n,)
        Rows of the step and of the ridge fit.
    unit : float
        Unit of the table's weights: the weights that are given may be multiples of any number.
    """

    table: Table
    hashes: NDArray[np.uint64]
    step_rows: Rows
    fit_rows: Rows
    unit: float

    @property
    def split(self) -> bool:
        """Whether step and fit have rows of their own."""
        return self.fit_rows is not self.step_rows

    def sampled(self, count: int) -> Rows:
        """Mark about `count` of the distinct rows; where they are split, half of them on each side if there are."""
        if not self.split:
            return self.step_rows & self.among_first(self.step_rows, count)
        sides = self.step_rows, self.fit_rows
        present = [len(np.unique(self.hashes[side])) for side in sides]
        most = [max(count // 2, count - other) for other in reversed(present)]
        step, fit = (side & self.among_first(side, number) for side, number in zip(sides, most, strict=True))
        return np.asarray(step | fit)

    def among_first(self, rows: Rows, count: int) -> Rows:
        """Mark about `count` of the distinct rows, at random but always the same ones."""
        keys = self.hashes * np.uint64(0x9E3779B97F4A7C15)  # not the order in which rows were split
        distinct = np.unique(keys[rows])
        return np.asarray(keys <= distinct[min(count, len(distinct)) - 1])


@dataclass(frozen=True, eq=False)
class LeftOutRows:
    """Residuals of some rows of a fit, each by a fit to all others.

    Parameters
    ----------
    rows : ndarray of int, shape (m,)
    residuals : ndarray, shape (m, k)
        Enlarged by what it saves on average that the step has seen the rows.
    weights : ndarray, shape (m,)
    distinct : int
        Number of different rows among them.
    """

    rows: NDArray[np.intp]
    residuals: Host
    weights: Host
    distinct: int


class OneStep(BaseEstimator):  # type: ignore[misc, unused-ignore]
    """Fits and applies the first layer; the estimators add targets and a readout."""

    def __init__(
        self,
        width: Any = "auto",
        *,
        activation: Any = "auto",
        eta: Any = "auto",
        damping: Any = "auto",
        readout: Any = "gaussian",
        n_steps: Any = "auto",
        offset: float = 1.0,
        sample_split: bool | float = False,
        random_state: Any = None,
        dtype: str = "float64",
        device: str | None = None,
    ) -> None:
        self.width = width
        self.activation = activation
        self.eta = eta
        self.damping = damping
        self.readout = readout
        self.n_steps = n_steps
        self.offset = offset
        self.sample_split = sample_split
        self.random_state = random_state
        self.dtype = dtype
        self.device = device

    def _settings(self, rows: int, ridge: Any = "auto") -> Settings:
        """Check the parameters for a fit to so many rows."""
        width = checked_width(self.width, rows)
        offset = checked_real("offset", self.offset)
        assert offset is not None
        return Settings(
            width,
            *checked_activation(self.activation),
            checked_eta(self.eta, width),
            checked_damping(self.damping),
            checked_real("ridge", ridge, positive=True, auto=True),
            *checked_steps(self.n_steps),
            offset,
            checked_split(self.sample_split),
            Readout.parse(self.readout),
            checked_backend(self.device, self.dtype),
        )

    def _threads(self, rows: int, width: int) -> AbstractContextManager[None]:
        """Let BLAS use one thread inside where tables of so many rows make small products only."""
        inputs = self.n_features_in_
        return threads_for_products(min(rows, rows_per_block(max(width, inputs))), inputs, width)

    @contextmanager
    def _in_range(self) -> Iterator[None]:
        """Say what to change where features overflow, and NumPy need not warn of it, too."""
        try:
            with np.errstate(over="ignore", invalid="ignore"), host_errors():
                yield
        except OutOfRange:
            if not checked_eta(self.eta, 1):  # chosen, or no step
                allowed = "one that grows less fast, or inputs without extreme rows"
                raise InvalidInput("activation", self.activation, allowed, "whose features overflow") from None
            allowed = "a smaller one or 'auto', or an activation that grows less fast"
            raise InvalidInput("eta", self.eta, allowed, "after which features overflow") from None

    def _inputs(self, X: Any, *, reset: bool = True) -> Any:
        """Check what scikit-learn checks; a table that is only sliced is checked block by block as it is read.

        Categorical columns of a data frame become columns of zeros and ones.
        """
        check_dense(X)
        if reset:
            self._columns = Columns.of(X)
        if self._columns is not None:
            validate_data(self, X, skip_check_array=True, reset=reset)
            return self._columns(X)
        if is_only_sliced(X):
            validate_data(self, X, skip_check_array=True, reset=reset)
            if X.shape[0] < 1 + reset or X.shape[1] < 1:
                raise ValueError(
                    f"Found array with shape {X.shape} while a minimum of {1 + reset} sample(s) and 1 feature(s) is "
                    f"required by {type(self).__name__}."
                )
            return X
        return validate_data(
            self,
            X,
            dtype=[np.float64, np.float32],
            ensure_all_finite="allow-nan",
            reset=reset,
            ensure_min_samples=2 if reset else 1,
        )

    def _table(
        self, X: Any, targets: Host, sample_weight: Any, settings: Settings, standard: Standardisation | None = None
    ) -> tuple[Training, Host, Host]:
        """Standardise (unless that is known), hash and split; return also the centre and the scale of the targets."""
        weights = np.asarray(_check_sample_weight(sample_weight, X, dtype=np.float64))
        if (weights < 0).any():
            raise ValueError("Negative values in data passed to `sample_weight`.")
        if not weights.any():  # newer versions of scikit-learn say so themselves
            raise ValueError("Sample weights must contain at least one non-zero number.")
        unit = 2.0 ** (np.frexp(weights.max())[1] - 1)  # weights of any size, and none is rounded
        weights = weights / unit
        if standard is None:
            random = check_random_state(self.random_state)
            self._multipliers = random.randint(2**62, size=X.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1)
        # Rows of a later table are split as those of the fit were, whatever the source of random numbers does.
        multipliers = self._multipliers
        measured, hashes = standardisation(X, weights, multipliers=multipliers)
        y, centre, scale = standardised_targets(targets, weights)
        columns = max(settings.width, X.shape[1])
        table = Table(X, y, weights, standard or measured, rows_per_block(columns))
        present = weights > 0
        if not settings.split:
            return Training(table, hashes, present, present, unit), centre, scale
        early = hashes < np.uint64(settings.split * 2.0**64)
        training = Training(table, hashes, present & early, present & ~early, unit)
        if not training.step_rows.any() or not training.fit_rows.any():
            raise ValueError(
                f"sample_split={self.sample_split!r} leaves no rows for the step or for the readout among "
                f"n_samples={int(present.sum())}; use sample_split=False or more data."
            )
        return training, centre, scale

    def _training(
        self, X: Any, targets: Host, sample_weight: Any, settings: Settings, *, readout: bool
    ) -> tuple[Training, Host, Host]:
        """Prepare the table and draw the layer; `readout` is for a ridge fit to follow."""
        if self.device is None or self.device == "cpu":
            rows = math.ceil(X.shape[0] * (1 - settings.split)) if readout else 0
            check_memory(settings.width, X.shape[1], targets.shape[1], rows)
        training, centre, scale = self._table(X, targets, sample_weight, settings)
        standard = training.table.standard
        self.standardisation_ = standard
        self._layer = self._initial = draw(
            settings.activation,
            settings.width,
            standard.width,
            standard.dimension,
            targets.shape[1],
            offset=settings.offset,
            law=settings.law,
            random=check_random_state(self.random_state),
        )
        self.step_samples_, self.fit_samples_ = int(training.step_rows.sum()), int(training.fit_rows.sum())
        return training, centre, scale

    def _take_step(self, training: Training, settings: Settings) -> None:
        """Choose the move where it is to be chosen, and take it."""
        self.step_errors_: StepErrors | None = None
        self.eta_, self.damping_, self.step_scale_, self.rounds_ = 0.0, math.inf, 0.0, 0
        if settings.eta == 0:
            return
        sample = self._sample(training)
        metric = measure(sample.z, sample.y, sample.weights, sample.copies, sample.step_rows)
        move = Move(math.nan, settings.damping or math.inf)
        if settings.eta is None:
            smooth = settings.smooth and settings.redraw
            moves = candidates(settings.damping or metric.damping, redraw=settings.redraw, smooth=smooth)
            narrow = self._initial.narrowed(choice_width(settings.width, len(sample.z)))
            with threads_for_products(len(sample.z), sample.z.shape[1], narrow.width):
                self.step_errors_ = score_steps(narrow, sample, metric, moves, settings.n_steps)
            move = self.step_errors_.chosen
            if move.smooth:
                self._layer = self._initial = self._initial.smooth()
                move = move._replace(smooth=False)
        if move == NO_STEP:
            return
        if move.rounds:
            more = self._sample(training, min(REDRAW_ROWS, max(CHOICE_ROWS, _REDRAW_NUMBERS // sample.z.shape[1])))
            self._layer, self.rounds_ = redrawn_on(self._initial, more, more.step_rows, metric, move.rounds)
        else:
            self._take_gradient_steps(training, settings, move, metric)
        self.step_scale_ = metric.movement(self._initial.weights, self._layer.weights - self._initial.weights)
        if not math.isfinite(self.step_scale_):
            raise OutOfRange

    def _take_gradient_steps(self, training: Training, settings: Settings, move: Move, metric: Metric) -> None:
        layer, eta = self._initial, settings.eta
        for _ in range(settings.n_steps):
            change = metric.damped(self._gradient(layer, training, settings), move.damping)
            if eta is None:
                eta = eta_of(move, layer, change, metric, settings.n_steps)
            layer = layer.moved(change, eta, metric)
        self._layer, self.eta_, self.damping_ = layer, float(eta or 0.0), move.damping if eta else math.inf

    def _gradient(self, layer: FirstLayer, training: Training, settings: Settings) -> Host:
        table = training.table
        blocks = ((z, table.targets[index], table.weights[index]) for z, index in table.blocks(training.step_rows))
        total = float(table.weights[training.step_rows].sum())
        return layer.gradient(settings.backend, blocks) / total

    def _sample(self, training: Training, count: int | None = None) -> Sample:
        """Gather rows on which steps are compared, about so many."""
        rows = training.sampled(CHOICE_ROWS if count is None else count)
        z, index = training.table.gathered(rows)
        hashes, y, weights = training.hashes[index], training.table.targets[index], training.table.weights[index]
        step_rows = fit_rows = np.ones(len(index), dtype=bool)
        if training.split:
            step_rows, fit_rows = training.step_rows[index], training.fit_rows[index]
        copies = copies_of(hashes, y, weights)
        # Distinct rows in turn, so that folds are even; their order is that of the hashes, which is random.
        return Sample(z, y, weights, copies, step_rows, fit_rows, copies.group % FOLDS)

    def _design(
        self, layer: FirstLayer, table: Table, backend: Backend, rows: Rows | None
    ) -> Callable[[], Iterator[tuple[Array, NDArray[np.intp]]]]:
        def blocks() -> Iterator[tuple[Array, NDArray[np.intp]]]:
            for z, index in table.blocks(rows):
                yield layer.features(backend, z), index

        return blocks

    def _fit_readout(self, training: Training, settings: Settings) -> tuple[Host, Host]:
        """Fit the ridge readout of the standardised targets: coefficients (N, k) and intercepts (k,)."""
        table, rows, backend = training.table, training.fit_rows, settings.backend
        design = self._design(self._layer, table, backend, rows)
        ridge = factorise(design, int(rows.sum()), settings.width, table.targets, table.weights)
        copies = copies_of(training.hashes, table.targets, table.weights * rows)
        scored = rows & training.among_first(rows, SCORED_ROWS)
        given = settings.ridge
        penalties = penalty_path(ridge) if given is None else np.array([max(given / training.unit, ridge.floor)])
        scored_design = self._design(self._layer, table, backend, scored)
        scores = leave_one_out(ridge, scored_design, table.targets, table.weights, copies, penalties)
        place, corrected = scores.best, scores.errors
        if (self.eta_ > 0 or self.rounds_) and self.step_errors_ is not None and not settings.split:
            path, relative = self.step_errors_.path, penalties / ridge.mean_square
            corrected = path.corrected(relative, corrected)
            place = path.best(relative, scores.errors, place) if given is None else place
        best = float(penalties[place])
        pieces = list(left_out(ridge, scored_design, copies, penalties[[place]]))
        index = np.concatenate([rows for rows, _ in pieces])
        residuals = table.targets[index] - np.concatenate([outputs[:, :, 0] for _, outputs in pieces])
        # What the rows' part in the step has taken from their residuals.
        seen = corrected[place] / scores.errors[place] if scores.errors[place] > 0 else 1.0
        residuals *= math.sqrt(max(seen if math.isfinite(seen) else 1.0, 1.0))
        distinct = len(np.unique(training.hashes[index]))
        self._left_out = LeftOutRows(index, residuals, table.weights[index], distinct)
        self.ridge_path_, self.ridge_errors_ = penalties * training.unit, scores.errors
        self.ridge_ = best * training.unit
        self.degrees_of_freedom_ = float(ridge.degrees_of_freedom(best)[0])
        return ridge.fitted(best)

    def _apply(self, X: Any, finish: Callable[[Host], Host]) -> Host:
        """Standardise X block by block, and stack what `finish` makes of the features."""
        check_is_fitted(self)
        X = self._inputs(X, reset=False)
        backend, layer, n = checked_backend(self.device, self.dtype), self._layer, X.shape[0]
        table = Table(X, np.empty((n, 0)), np.ones(n), self.standardisation_, rows_per_block(max(layer.weights.shape)))
        parts = (finish(to_host(layer.features(backend, z))) for z, _ in table.blocks())
        with self._threads(n, layer.width), host_errors():
            first = next(parts)
            # Block after block into its place: all at once would take twice the memory.
            result, done = np.empty((n, *first.shape[1:]), first.dtype), 0
            for part in itertools.chain([first], parts):
                result[done : done + len(part)] = part
                done += len(part)
        return result

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    @property
    def weights_(self) -> Host:
        """First layer after the step, shape (width, inputs), acting on standardised inputs."""
        return self._layer.weights

    @property
    def activation_(self) -> str:
        """Name of the activation."""
        return self._layer.activation.name

    @property
    def initial_weights_(self) -> Host:
        """First layer as drawn, shape (width, inputs)."""
        return self._initial.weights

    @property
    def offsets_(self) -> Host:
        """Offsets of the neurons, shape (width,)."""
        return self._layer.offsets

    @property
    def initial_readout_(self) -> Host:
        """Readout that the gradient step used, shape (width, outputs)."""
        return self._initial.readout
