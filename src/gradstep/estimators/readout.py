"""The parameters and the fit of the ridge readout, for the regressor and the classifier."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier  # type: ignore[import-untyped, unused-ignore]
from sklearn.utils import check_random_state  # type: ignore[import-untyped, unused-ignore]
from sklearn.utils.validation import check_consistent_length, check_is_fitted  # type: ignore[import-untyped, unused-ignore]

from gradstep.checks import integer
from gradstep.errors import GradstepError, InvalidInput
from gradstep.estimators.base import OneStep, Settings, Training
from gradstep.estimators.diagnosis import Diagnosis, Fitted, diagnose
from gradstep.estimators.layer import FirstLayer, draw
from gradstep.estimators.learned import Learned, LearnedLink
from gradstep.estimators.link import binned, fit_link, normal_scores
from gradstep.estimators.metric import measure
from gradstep.estimators.moves import Move, average_gradients
from gradstep.estimators.refits import Model
from gradstep.estimators.score_curve import ScoreCurve, score_curve
from gradstep.simulation.backend import to_host
from gradstep.simulation.ridge import OutOfRange

__all__ = ["OneStepReadout"]

Host = NDArray[np.float64]

#: Rows of the learning curve of a diagnosis at most, and its penalties relative to that of the fit.
_SHORT_ROWS = 1024
_SHORT_PATH = np.array([0.2, 1.0, 5.0])
#: Gradients of which the learned directions are found, over rows and outputs, at most, but those of so many rows.
_GRADIENTS, _FEWEST_ROWS = 2048, 256


class OneStepReadout(OneStep):
    """One step on the first layer and a ridge readout of any number of outputs."""

    ridge: Any
    coef_: Host
    intercept_: Any

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

    def _fit(self, X: Any, targets: Host, sample_weight: Any, settings: Settings) -> None:
        with self._threads(X.shape[0], settings.width):
            training, centre, scale = self._training(X, targets, sample_weight, settings, readout=True)
            with self._in_range():
                self._take_step(training, settings)
                coefficients, intercept = self._fit_readout(training, settings)
            self.learned_ = self._learn(training, coefficients)
        self.coef_ = (coefficients * scale).T
        self.intercept_ = centre + intercept * scale
        self._left_out = replace(self._left_out, residuals=self._left_out.residuals * scale)

    def _learn(self, training: Training, coefficients: Host) -> Learned:
        """Find the directions and columns along which the network varies, on some of the rows."""
        sample = self._sample(training, max(_GRADIENTS // coefficients.shape[1], _FEWEST_ROWS))
        gradients = average_gradients(self._layer, coefficients, sample.z, sample.weights)
        gradients = gradients * np.any(sample.z, axis=0)  # constant columns have slopes, but no row tells them
        return Learned.of(gradients, *self._column_names())

    def _column_names(self) -> tuple[list[str], list[str], NDArray[np.intp]]:
        """Return the names of the columns that the network sees, those of the table, and which comes from which."""
        table = [
            str(name) for name in getattr(self, "feature_names_in_", [f"x{k}" for k in range(self.n_features_in_)])
        ]
        known, gaps = self._columns, self.standardisation_.gaps
        names = table if known is None else list(known.names)
        source = np.arange(len(table)) if known is None else known.source
        return [*names, *(f"{names[k]} missing" for k in gaps)], table, np.append(source, source[gaps])

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
        settings, training, centre, scale = self._read(X, y, sample_weight)
        learned = self.learned_
        if not len(learned.shares):
            raise InvalidInput("direction", direction, "a fit that is not constant")
        place = integer("direction", direction, 0, len(learned.shares) - 1)
        sample = self._sample(training)
        with self._threads(len(sample.z), settings.width), self._in_range():
            outputs = self._readout(to_host(self._layer.features(settings.backend, sample.z)))
        outputs = (outputs - centre) / np.where(scale > 0, scale, 1.0)
        weights, projections = sample.weights, sample.z @ learned.directions[place]
        along = [binned(projections, y, f, weights) for y, f in zip(sample.y.T, outputs.T, strict=True)]
        if output is None:
            chosen = int(np.argmax([np.average(bins.learned**2, weights=bins.weight) for bins in along]))
        else:
            chosen = integer("output", output, 0, len(along) - 1)
        bins, target = along[chosen], sample.y[:, chosen]
        link = fit_link(normal_scores(projections, weights), target, weights)
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
            Penalties; by default five, from a twentieth of that of the fit to twenty times as much.
        sample_weight : array-like, shape (M,), optional
        max_rows : int
            Rows on which the curve rests, at most. Time and the largest n grow with them.

        Returns
        -------
        ScoreCurve
            ``print`` shows a table and what twice the rows would bring, ``.plot()`` a figure.

        Raises
        ------
        InvalidInput
            On fewer than ten rows, targets that do not vary, and as `gradstep.learning_curve`.
        NotConverged
            If no pair of n and penalty has an estimate.
        """
        most = integer("max_rows", max_rows, 10)
        read = self._read(X, y, sample_weight)
        with self._threads(most, self._layer.width), self._in_range():
            model = self._model(read, most)
            return score_curve(model.pool(), model.levels, self.ridge_, n=n, ridge=ridge)

    def _short_curve(self, read: tuple[Settings, Training, Host, Host]) -> ScoreCurve | None:
        """Return a curve of two sizes and few penalties; None where there is no estimate."""
        model = self._model(read, _SHORT_ROWS)
        rows = int(model.sample.fit_rows.sum())
        try:
            pool = model.pool()
            return score_curve(pool, model.levels, self.ridge_, n=[rows, 2 * rows], ridge=self.ridge_ * _SHORT_PATH)
        except (GradstepError, OutOfRange):
            return None

    def _model(self, read: tuple[Settings, Training, Host, Host], most: int) -> Model:
        """Return this model with about so many rows of a table."""
        settings, training, centre, scale = read
        sample = self._sample(training, most)
        metric = measure(sample.z, sample.y, sample.weights, sample.copies, sample.step_rows)
        classes = is_classifier(self)
        targets = np.sign(sample.y * scale + centre) if classes else sample.y
        chosen = self.step_errors_.chosen._replace(smooth=False) if self.step_errors_ is not None else None
        move = chosen or Move(self.step_scale_, self.damping_)
        eta = self.eta_ if chosen is None and self.eta_ > 0 else None
        layers = self._initial, self._layer
        return Model(*layers, sample, targets, classes, metric, move, eta, settings.n_steps, training.unit)

    def _read(self, X: Any, y: Any, sample_weight: Any) -> tuple[Settings, Training, Host, Host]:
        """Check a table against that of the fit, and standardise it as that was."""
        check_is_fitted(self)
        X = self._inputs(X, reset=False)
        settings = replace(self._settings(X.shape[0], self.ridge), width=self._initial.width)
        targets = self._target_matrix(y)
        check_consistent_length(X, targets)
        if targets.shape[1] != self._initial.readout.shape[1]:
            raise ValueError(f"y has {targets.shape[1]} outputs; the fit had {self._initial.readout.shape[1]}.")
        return settings, *self._table(X, targets, sample_weight, settings, self.standardisation_)

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
        settings, training, centre, scale = self._read(X, y, sample_weight)
        sample = self._sample(training)
        random = check_random_state(self.random_state)
        initial = self._initial

        def redraw(width: int) -> FirstLayer:
            sizes = (width, initial.weights.shape[1], self.standardisation_.dimension, initial.readout.shape[1])
            return draw(initial.activation, *sizes, offset=settings.offset, law=settings.law, random=random)

        with self._threads(len(sample.z), settings.width), self._in_range():
            outputs = self._readout(to_host(self._layer.features(settings.backend, sample.z)))
            if not np.isfinite(outputs).all():
                raise OutOfRange
            fitted = Fitted(
                initial=initial,
                stepped=self._layer,
                eta=self.eta_,
                damping=self.damping_,
                ridge=self.ridge_,
                n_steps=settings.n_steps,
                rounds=self.rounds_,
                law=settings.law,
                varying=self.standardisation_.dimension,
                n_step=self.step_samples_,
                n_fit=self.fit_samples_,
                split=settings.split > 0,
                outputs=(outputs - centre) / np.where(scale > 0, scale, 1.0),
                learned=self.learned_,
                curve=self._short_curve((settings, training, centre, scale)),
                redraw=redraw,
                codes=(centre, scale) if is_classifier(self) else None,
            )
            return diagnose(fitted, sample, random)

    def _target_matrix(self, y: Any) -> Host:
        """Return the targets (n, k) of labels or numbers."""
        raise NotImplementedError

    def _outputs(self, X: Any) -> Host:
        return self._apply(X, self._readout)

    def _readout(self, features: Host) -> Host:
        """Return the outputs (rows, k) of features (rows, N)."""
        return np.asarray(features @ np.atleast_2d(self.coef_).T + self.intercept_)
