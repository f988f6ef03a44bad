"""The base of the three estimators: it reads the table, draws the layer, chooses and takes the step."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from gradstep.errors import InvalidInput
from gradstep.estimators.columns import (
    Columns,
    check_dense,
    check_frame,
    check_names,
    check_numbers,
    check_unmasked,
    refuse_dates,
)
from gradstep.estimators.layer import FirstLayer, draw
from gradstep.estimators.metric import Metric, measure
from gradstep.estimators.moves import NO_STEP, REDRAW_ROWS, Move, redrawn_on, stepped
from gradstep.estimators.parameters import Settings, check_memory, checked_eta, random_source
from gradstep.estimators.rows import CHOICE_ROWS, Training
from gradstep.estimators.step_choice import StepErrors, candidates, choice_width, score_steps
from gradstep.estimators.table import (
    Standardisation,
    Table,
    cell_hashes,
    has_factors_only,
    is_only_sliced,
    rows_per_block,
    standardisation,
    standardised_targets,
    table_hashes,
)
from gradstep.host import host_errors
from gradstep.simulation.backend import backend, to_host
from gradstep.simulation.ridge import OutOfRange
from gradstep.threads import threads_for_products

__all__ = ["OneStep"]

Host = NDArray[np.float64]

#: Numbers in a sample of rows for the rounds that draw the layer again, unless that leaves fewer than `CHOICE_ROWS`.
_REDRAW_NUMBERS = 2**23


class OneStep(BaseEstimator):
    """Fits and applies the first layer; the estimators add targets and a readout."""

    # Written out, since libraries such as Dask take dataclasses of equal fields, here the parameters, for equal.
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

    def __getattr__(self, name: str) -> Any:
        """Say of what only a fit has that there is none yet; properties that miss something come here, too."""
        if name.startswith("_") or not name.endswith("_") or self.__sklearn_is_fitted__():
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        raise NotFittedError(
            f"This {type(self).__name__} instance is not fitted yet. Call 'fit' with appropriate arguments before "
            f"using {name!r}."
        )

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether there is a first layer: a refused fit has left names of columns, and no more."""
        return "_layer" in vars(self)

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
        check_unmasked("X", X)
        check_names(X)
        if reset:
            self._columns = Columns.of(X)
        else:
            check_numbers(X, self._columns.numbers if self._columns is not None else None)
        if self._columns is not None or is_only_sliced(X):
            if self._columns is not None:
                check_frame(X)
            validate_data(self, X, skip_check_array=True, reset=reset)
            if X.shape[0] < 1 + reset or X.shape[1] < 1:
                raise ValueError(
                    f"Found array with shape {X.shape} while a minimum of {1 + reset} sample(s) and 1 feature(s) is "
                    f"required by {type(self).__name__}."
                )
            return X if self._columns is None else self._columns(X)
        if getattr(getattr(X, "dtype", None), "kind", "") in "mMO":
            refuse_dates("X", np.asarray(X))
        return validate_data(
            self,
            X,
            dtype=[np.float64, np.float32],
            ensure_all_finite="allow-nan",
            reset=reset,
            ensure_min_samples=2 if reset else 1,
        )

    def _begin(self, X: Any, y: Any) -> tuple[Any, Settings]:
        """Check inputs and parameters before a fit."""
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        table = self._inputs(X)
        return table, Settings.of(self, table.shape[0])

    def _table(
        self, X: Any, targets: Host, sample_weight: Any, settings: Settings, standard: Standardisation | None = None
    ) -> Training:
        """Standardise (unless that is known), hash and split."""
        weights = np.asarray(_check_sample_weight(sample_weight, X, dtype=np.float64))
        if not np.isfinite(weights).all():  # of one number for all rows scikit-learn does not say so
            raise ValueError("Input sample_weight contains NaN or infinity.")
        if (weights < 0).any():
            raise ValueError("Negative values in data passed to `sample_weight`.")
        if not weights.any():  # newer versions of scikit-learn say so themselves
            raise ValueError("Sample weights must contain at least one non-zero number.")
        unit = 2.0 ** (np.frexp(weights.max())[1] - 1)  # weights of any size, and none is rounded
        weights = weights / unit
        known = standard is not None
        standard = standard or standardisation(X, weights)
        # A column that says nothing takes no random number either: a fit is the same without it.
        columns = np.union1d(standard.varying, standard.gaps)
        if not known:
            random = random_source(self.random_state)
            self._multipliers = random.randint(2**62, size=len(columns), dtype=np.uint64) * np.uint64(2) + np.uint64(1)
        # Rows of a later table are split as those of the fit were, whatever the source of random numbers does.
        hashes = table_hashes(X, columns, self._multipliers)
        hashes = cell_hashes(hashes, targets, weights, lambda: has_factors_only(X, weights, standard.varying))
        y, centre, scale = standardised_targets(targets, weights)
        table = Table(X, y, weights, standard, rows_per_block(max(settings.width, X.shape[1])))
        step = fit = weights > 0
        if settings.split:
            early = hashes < np.uint64(settings.split * 2.0**64)
            step, fit = step & early, fit & ~early
        if not (step.any() and fit.any()):
            raise ValueError(
                f"sample_split={self.sample_split!r} leaves no rows for the step or for the readout among "
                f"n_samples={int((weights > 0).sum())}; use sample_split=False or more data."
            )
        return Training(settings, table, centre, scale, hashes, step, fit, unit)

    def _training(self, X: Any, targets: Host, sample_weight: Any, settings: Settings, *, readout: bool) -> Training:
        """Prepare the table and draw the layer; `readout` is for a ridge fit to follow."""
        training = self._table(X, targets, sample_weight, settings)
        # Rows without weight do not count, and neither do copies: a weight is a repetition, for the width as well.
        counted = training.table.weights > 0
        settings = Settings.of(self, int(counted.sum()), len(np.unique(training.hashes[counted])))
        training = replace(training, settings=settings)
        if self.device is None or self.device == "cpu":
            rows = int(training.fit_rows.sum()) if readout else 0
            check_memory(settings.width, training.table.standard.dimension, targets.shape[1], rows)
        standard = self.standardisation_ = training.table.standard
        random = random_source(self.random_state)
        sizes = settings.width, standard.dimension, targets.shape[1]
        self._layer = self._initial = draw(
            settings.activation, *sizes, offset=settings.offset, law=settings.law, random=random
        )
        self.step_samples_, self.fit_samples_ = int(training.step_rows.sum()), int(training.fit_rows.sum())
        return training

    def _take_step(self, training: Training) -> Metric | None:
        """Choose the move where it is to be chosen, and take it; return the metric of its rows if it was measured."""
        settings = training.settings
        self.step_errors_: StepErrors | None = None
        self.eta_, self.damping_, self.step_scale_, self.rounds_ = 0.0, math.inf, 0.0, 0
        if settings.eta == 0:
            return None
        sample = training.sample()
        metric = measure(sample)
        move = Move(math.nan, settings.damping or math.inf)
        if settings.eta is None:
            smooth = settings.smooth and settings.redraw
            moves = candidates(settings.damping or metric.damping, redraw=settings.redraw, smooth=smooth)
            # Copies of a row are one row here, too: a weight is a repetition.
            distinct = len(np.unique(sample.copies.group[sample.weights > 0]))
            narrow = self._initial.narrowed(choice_width(settings.width, distinct))
            with threads_for_products(len(sample.z), sample.z.shape[1], narrow.width):
                self.step_errors_ = score_steps(narrow, sample, metric, moves, settings.n_steps)
            move = self.step_errors_.chosen
            if move.smooth:
                self._layer = self._initial = self._initial.smooth()
                move = move._replace(smooth=False)
        if move == NO_STEP:
            return metric
        if move.rounds:
            more = training.sample(min(REDRAW_ROWS, max(CHOICE_ROWS, _REDRAW_NUMBERS // sample.z.shape[1])))
            self._layer, self.rounds_ = redrawn_on(self._initial, more, more.step_rows, metric, move.rounds)
        else:

            def gradient(layer: FirstLayer) -> Host:
                table, rows = training.table, training.step_rows
                blocks = ((z, table.targets[index], table.weights[index]) for z, index in table.blocks(rows))
                return layer.gradient(settings.backend, blocks) / float(table.weights[rows].sum())

            self._layer, self.eta_ = stepped(self._initial, gradient, metric, move, settings.n_steps, eta=settings.eta)
            self.damping_ = move.damping if self.eta_ else math.inf
        self.step_scale_ = metric.movement(self._initial.weights, self._layer.weights - self._initial.weights)
        if not math.isfinite(self.step_scale_):
            raise OutOfRange
        return metric

    def _apply(self, X: Any, finish: Callable[[Host], Host]) -> Host:
        """Standardise X block by block, and stack what `finish` makes of the features."""
        check_is_fitted(self)
        X = self._inputs(X, reset=False)
        where, layer, n = backend(self.device, self.dtype), self._layer, X.shape[0]
        table = Table(X, np.empty((n, 0)), np.ones(n), self.standardisation_, rows_per_block(max(layer.weights.shape)))
        parts = (finish(to_host(layer.features(where, z))) for z, _ in table.blocks())
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
        tags.input_tags.allow_nan = tags.target_tags.required = True
        return tags

    @property
    def weights_(self) -> Host:
        """First layer after the step, shape (width, columns that the network sees), acting on standardised inputs."""
        return self._layer.weights

    @property
    def activation_(self) -> str:
        """Name of the activation."""
        return self._layer.activation.name

    @property
    def initial_weights_(self) -> Host:
        """First layer as drawn, shape (width, columns that the network sees)."""
        return self._initial.weights

    @property
    def offsets_(self) -> Host:
        """Offsets of the neurons, shape (width,)."""
        return self._layer.offsets

    @property
    def initial_readout_(self) -> Host:
        """Readout that the gradient step used, shape (width, outputs)."""
        return self._initial.readout
