"""The parameters and the fit of the ridge readout, for the regressor and the classifier."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from gradstep.checks import integer
from gradstep.errors import InvalidInput
from gradstep.estimators.base import OneStep
from gradstep.estimators.diagnosis import Diagnosis, diagnose
from gradstep.estimators.learned import Learned, LearnedLink
from gradstep.estimators.link import binned, fit_link, normal_scores
from gradstep.estimators.metric import Metric, measure
from gradstep.estimators.moves import average_gradients, gradient_rows
from gradstep.estimators.parameters import Settings
from gradstep.estimators.refits import Model
from gradstep.estimators.rows import Sample, Training
from gradstep.estimators.score_curve import ScoreCurve
from gradstep.estimators.table import Table, observations
from gradstep.simulation.backend import Backend, to_host
from gradstep.simulation.leave_one_out import SCORED_ROWS, copies_of, left_out, penalty_path, scores_of
from gradstep.simulation.ridge import IndexedBlocks, factorise

__all__ = ["LeftOutRows", "OneStepReadout"]

Host = NDArray[np.float64]
Rows = NDArray[np.bool_]

#: Outputs for which those of left-out rows are held at all penalties; for more they are found a second time, at one.
_FEW_OUTPUTS = 10


@dataclass(frozen=True, eq=False)
class LeftOutRows:
    """Residuals of some rows of a fit, each by a fit to all others."""

    rows: NDArray[np.intp]  #: Shape (m,).
    residuals: Host  #: Enlarged by what it saves on average that the step has seen the rows, shape (m, k).
    weights: Host  #: Shape (m,).
    distinct: int  #: Number of different pairs of input and targets among them.
    total: float  #: Their total weight: the number of rows, where a weight is a repetition.


class OneStepReadout(OneStep):
    """One step on the first layer and a ridge readout of any number of outputs."""

    def __init__(
        self,
        width: Any = "auto",
        *,
        activation: Any = "auto",
        eta: Any = "auto",
        damping: Any = "auto",
        ridge: Any = "auto",
        readout: Any = "gaussian",
        n_steps: Any = "auto",
        offset: float = 1.0,
        sample_split: bool | float = False,
        random_state: Any = None,
        dtype: str = "float64",
        device: str | None = None,
    ) -> None:
        super().__init__(
            width,
            activation=activation,
            eta=eta,
            damping=damping,
            readout=readout,
            n_steps=n_steps,
            offset=offset,
            sample_split=sample_split,
            random_state=random_state,
            dtype=dtype,
            device=device,
        )
        self.ridge = ridge

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Take the step and fit the readout.

        Parameters
        ----------
        X : array-like, shape (n, d)
        y : array-like
            Targets of a regression, shape (n,) or (n, outputs), or labels of any kind, shape (n,).
        sample_weight : array-like, shape (n,), optional

        Returns
        -------
        Self

        Raises
        ------
        ValueError
            On parameters, inputs, targets or labels that cannot be used; if there is only one class.
        """
        table, settings = self._begin(X, y)
        targets = self._targets_of_fit(y)
        check_consistent_length(table, targets)
        with self._threads(table.shape[0], settings.width):
            weights = self._weights_of_fit(table, y, sample_weight)
            training = self._training(table, targets, weights, settings, readout=True)
            with self._in_range():
                metric = self._take_step(training)
                coefficients, intercept = self._fit_readout(training)
            self.learned_ = self._learn(training, coefficients, metric)
        self.coef_: Host = (coefficients * training.scale).T
        self.intercept_: Any = training.centre + intercept * training.scale
        self._finish(y, targets)
        return self

    def _targets_of_fit(self, y: Any) -> Host:
        """Return the targets (n, k) of a fit, and learn what later tables have to agree with."""
        return self._target_matrix(y)

    def _finish(self, y: Any, targets: Host) -> None:
        """Add what the kind of targets asks for to a fit."""

    def _design(self, table: Table, where: Backend, rows: Rows) -> IndexedBlocks:
        return lambda: ((self._layer.features(where, z), index) for z, index in table.blocks(rows))

    def _fit_readout(self, training: Training) -> tuple[Host, Host]:
        """Fit the ridge readout of the standardised targets: coefficients (N, k) and intercepts (k,)."""
        settings, table, rows = training.settings, training.table, training.fit_rows
        design = self._design(table, settings.backend, rows)
        ridge = factorise(design, int(rows.sum()), settings.width, table.targets, table.weights)
        copies = copies_of(training.hashes, table.targets, table.weights * rows)
        scored = self._design(table, settings.backend, rows & training.among_first(rows, SCORED_ROWS))
        given = settings.ridge
        penalties = penalty_path(ridge) if given is None else np.array([max(given / training.unit, ridge.floor)])
        found: Iterable[tuple[NDArray[np.intp], Host]] = left_out(ridge, scored, copies, penalties)
        if few := table.targets.shape[1] <= _FEW_OUTPUTS:
            found = list(found)
        scores = scores_of(found, table.targets, table.weights, penalties)
        place, corrected = scores.best, scores.errors
        if (self.eta_ > 0 or self.rounds_) and self.step_errors_ is not None and not settings.split:
            path, relative = self.step_errors_.path, penalties / ridge.mean_square
            corrected = path.corrected(relative, scores.errors)
            place = path.best(relative, scores.errors, place) if given is None else place
        best = float(penalties[place])
        again = found if few else left_out(ridge, scored, copies, penalties[[place]])
        pieces = [(rows, outputs[:, :, place if few else 0]) for rows, outputs in again]
        index, outputs = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
        residuals = table.targets[index] - outputs
        # The step has seen these rows, which makes their residuals too small by this factor of the squares.
        seen = corrected[place] / scores.errors[place] if scores.errors[place] > 0 else 1.0
        residuals *= math.sqrt(max(seen if math.isfinite(seen) else 1.0, 1.0))
        distinct = observations(training.hashes[index], table.targets[index])
        weights = table.weights[index]
        total = float(weights.sum()) * training.unit
        self._left_out = LeftOutRows(index, residuals * training.scale, weights, distinct, total)
        self.ridge_path_, self.ridge_errors_ = penalties * training.unit, scores.errors
        self.ridge_ = best * training.unit
        self.degrees_of_freedom_ = float(ridge.degrees_of_freedom(best)[0])
        return ridge.fitted(best)

    def _learn(self, training: Training, coefficients: Host, metric: Metric | None) -> Learned:
        """Find the directions and columns along which the network varies, on some of the rows.

        Only directions in which the inputs vary count: the slopes of the network along the others are those of its
        draw. The metric is that of the step's rows, or None if it has not been measured.
        """
        if metric is None or training.settings.split:  # all rows are to tell in which directions the inputs vary
            some = training.sample()
            metric = measure(replace(some, step_rows=np.ones(len(some.z), dtype=bool)))
        sample = training.sample(gradient_rows(coefficients.shape[1]))
        gradients = metric.resolved(average_gradients(self._layer, coefficients, sample))
        return Learned.of(gradients, *self._column_names())

    def _column_names(self) -> tuple[list[str], list[str], NDArray[np.intp]]:
        """Return the names of the columns that the network sees, those of the table, and which comes from which."""
        known, varying, gaps = self._columns, self.standardisation_.varying, self.standardisation_.gaps
        numbered = [f"x{k}" for k in range(self.n_features_in_)] if known is None else known.table
        table = [str(name) for name in getattr(self, "feature_names_in_", numbered)]
        names = table if known is None else list(known.names)
        source = np.arange(len(table)) if known is None else known.source
        seen = [*(names[k] for k in varying), *(f"{names[k]} missing" for k in gaps)]
        return seen, table, np.append(source[varying], source[gaps])

    def _output_names(self, count: int) -> list[str]:
        """Return what each output is, in words."""
        return ["the target"] if count == 1 else [f"target {k}" for k in range(count)]

    @property
    def directions_(self) -> Host:
        """Directions along which the network varies, shape (directions, columns that it sees)."""
        return self.learned_.directions

    @property
    def feature_importances_(self) -> Host:
        """Share of the network's mean squared gradient along each standardised column, shape (columns of X,)."""
        return self.learned_.importances

    def link(
        self,
        X: ArrayLike,
        y: ArrayLike,
        direction: int = 0,
        *,
        output: int | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> LearnedLink:
        """Average the targets and the network along one of the directions that it has learned.

        The direction was chosen on the rows of the fit. There it explains too much, even of pure noise; give rows that
        were not in the fit, or see ``single_index`` of `diagnose`, for which no row has been used for its direction.

        Parameters
        ----------
        X : array-like, shape (n, d)
        y : array-like
            Targets or labels, as in `fit`.
        direction : int
            Place in ``directions_``.
        output : int, optional
            Which target of several, or which class in ``classes_`` of more than two. By default it is the one that the
            network varies most along the direction. Of two classes it is the second.
        sample_weight : array-like, shape (n,), optional

        Returns
        -------
        LearnedLink
            ``.plot()`` shows it.

        Raises
        ------
        InvalidInput
            If there is no such direction or output.
        """
        training, learned = self._read(X, y, sample_weight), self.learned_
        if not len(learned.shares):
            raise InvalidInput("direction", direction, "a fit that is not constant")
        place = integer("direction", direction, 0, len(learned.shares) - 1)
        sample = training.sample()
        with self._threads(len(sample.z), self._layer.width), self._in_range():
            outputs = self._standardised_outputs(training, sample)
        weights, projections = sample.weights, sample.z @ learned.directions[place]
        several = observations(sample.copies.group.astype(np.uint64), sample.y)
        along = [binned(projections, y, f, weights, several) for y, f in zip(sample.y.T, outputs.T, strict=True)]
        if output is None:
            chosen = int(np.argmax([np.average(bins.learned**2, weights=bins.weight) for bins in along]))
        else:
            chosen = integer("output", output, 0, len(along) - 1)
        bins, target = along[chosen], sample.y[:, chosen]
        link = fit_link(normal_scores(projections, weights), target, weights, several)
        share = weights / weights.sum()
        variance = float(share @ (target - share @ target) ** 2)
        explained = 1 - link.noise**2 / variance if variance > 0 else 0.0
        name = self._output_names(len(along))[chosen]
        return LearnedLink(learned.described(place), float(learned.shares[place]), explained, link, bins, name)

    def learning_curve(
        self,
        X: ArrayLike,
        y: ArrayLike,
        n: ArrayLike | None = None,
        ridge: ArrayLike | None = None,
        *,
        sample_weight: ArrayLike | None = None,
        max_rows: int = 2048,
        progress: Callable[[int, int], None] | None = None,
    ) -> ScoreCurve:
        """Estimate what this model would score on new rows with fewer and with more rows, and with other penalties.

        The first layer is the one of these rows: the curve is about the readout, fitted to n of them. It is measured
        on features that do not know the row's target. With `sample_split` these are the rows that the step has not
        used. Without it, the step is taken again without each tenth of the rows, for the features of that tenth. So
        the table of the fit may be given, and usually should be.

        Parameters
        ----------
        X : array-like, shape (M, d)
        y : array-like
            Targets or labels, as in `fit`.
        n : array-like of int, optional
            Numbers of rows for the readout, at most twice those there are (with `sample_split`: that are left for it);
            by default eight from a tenth to twice of them.
        ridge : array-like of float, optional
            Penalties; by default five, from a twentieth of that of the fit to twenty times as much. If the fit has at
            least twice as many rows as the curve, they lie around the best for leave-one-out errors of its rows.
        sample_weight : array-like, shape (M,), optional
        max_rows : int
            Rows on which the curve rests, at most. Time and the largest n grow with them.
        progress : callable, optional
            As in `gradstep.learning_curve`. A curve that rests on 2000 rows can take a minute.

        Returns
        -------
        ScoreCurve
            ``print`` shows a table and what twice the rows would bring, ``.plot()`` a figure.

        Raises
        ------
        InvalidInput
            On fewer than ten rows, targets or features that do not vary, and as `gradstep.learning_curve`.
        NotConverged
            If no pair of n and penalty has an estimate.
        """
        most = integer("max_rows", max_rows, 10)
        training = self._read(X, y, sample_weight)
        with self._threads(most, self._layer.width), self._in_range():
            return Model.of(self, training, most).curve(n=n, ridge=ridge, progress=progress)

    def _read(self, X: Any, y: Any, sample_weight: Any) -> Training:
        """Check a table against that of the fit, and standardise it as that was."""
        check_is_fitted(self)
        X = self._inputs(X, reset=False)
        settings = replace(Settings.of(self, X.shape[0]), width=self._initial.width)
        targets = self._target_matrix(y)
        check_consistent_length(X, targets)
        if targets.shape[1] != self._initial.readout.shape[1]:
            raise ValueError(f"y has {targets.shape[1]} outputs; the fit had {self._initial.readout.shape[1]}.")
        return self._table(X, targets, self._row_weights(X, y, sample_weight), settings, self.standardisation_)

    def diagnose(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Diagnosis:
        """Say what the step did on a table of data, and whether a larger step or more neurons would pay.

        Errors are leave-one-out errors in which no row is scored with a step that has seen it, so that the table of
        the fit may be given, and usually should be. At most 4096 rows are looked at; it takes several times as long as
        the fit. With `sample_split` these rows are split, too, as in the fit.

        Parameters
        ----------
        X : array-like, shape (n, d)
        y : array-like
            Targets or labels, as in `fit`.
        sample_weight : array-like, shape (n,), optional

        Returns
        -------
        Diagnosis
            ``print`` shows it as text, ``.plot()`` as a figure.
        """
        training = self._read(X, y, sample_weight)
        sample = training.sample()
        with self._threads(len(sample.z), self._layer.width), self._in_range():
            outputs = self._standardised_outputs(training, sample)
            return diagnose(self, training, sample, outputs)

    def _target_matrix(self, y: Any) -> Host:
        """Return the targets (n, k) of labels or numbers."""
        raise NotImplementedError

    def _weights_of_fit(self, X: Any, y: Any, sample_weight: Any) -> Any:
        """Return the weights of the rows of a fit, and learn what those of later tables have to agree with."""
        return self._row_weights(X, y, sample_weight)

    def _row_weights(self, X: Any, y: Any, sample_weight: Any) -> Any:
        """Return the weights of rows, given and by class; None where all are one."""
        return sample_weight

    def _outputs(self, X: Any) -> Host:
        return self._apply(X, self._readout)

    def _readout(self, features: Host) -> Host:
        """Return the outputs (rows, k) of features (rows, N)."""
        return np.asarray(features @ np.atleast_2d(self.coef_).T + self.intercept_)

    def _standardised_outputs(self, training: Training, sample: Sample) -> Host:
        """Return the outputs on a sample in the units of its targets."""
        outputs = self._readout(to_host(self._layer.features(training.settings.backend, sample.z)))
        return (outputs - training.centre) / np.where(training.scale > 0, training.scale, 1.0)
