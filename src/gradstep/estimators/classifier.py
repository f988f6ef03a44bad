"""`OneStepClassifier`: one gradient step, then ridge regression on +1 and -1."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin  # type: ignore[import-untyped, unused-ignore]
from sklearn.utils.validation import (  # type: ignore[import-untyped, unused-ignore]
    check_consistent_length,
    column_or_1d,
)

from gradstep.estimators.readout import OneStepReadout
from gradstep.estimators.targets import class_targets

__all__ = ["OneStepClassifier"]


class OneStepClassifier(ClassifierMixin, OneStepReadout):  # type: ignore[misc, unused-ignore]
    r"""Least-squares classification on the features of a two-layer network after one gradient step on its first layer.

    Classes are coded as :math:`\pm1`, one output a class (a single one for two classes). The step is that of
    `OneStepFeatures` on these targets, the readout the ridge regression of `OneStepRegressor`; the class with the
    largest output wins. Outputs of least squares are no probabilities, so there is no ``predict_proba``: wrap the
    classifier in `sklearn.calibration.CalibratedClassifierCV` for calibrated ones.

    Parameters
    ----------
    width, activation, eta, damping, ridge, readout, n_steps, offset, sample_split, whiten, random_state, dtype, device
        See `OneStepFeatures` and `OneStepRegressor`.

    Attributes
    ----------
    classes_ : ndarray, shape (classes,)
    coef_ : ndarray, shape (1, width) or (classes, width)
    intercept_ : ndarray, shape (1,) or (classes,)
    ridge_, ridge_path_, ridge_errors_, degrees_of_freedom_
        See `OneStepRegressor`.
    weights_, initial_weights_, offsets_, initial_readout_, eta_, damping_, step_scale_, step_errors_, standardisation_
        See `OneStepFeatures`.
    n_features_in_ : int
    feature_names_in_ : ndarray of str

    Examples
    --------
    >>> import gradstep as gs
    >>> from sklearn.datasets import load_wine
    >>> X, y = load_wine(return_X_y=True)
    >>> float(gs.OneStepClassifier(width=100, random_state=0).fit(X, y).score(X, y)) > 0.95
    True
    """

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Take the step and fit the readout.

        Parameters
        ----------
        X : array-like, shape (n, d)
        y : array-like, shape (n,)
            Labels of any kind.
        sample_weight : array-like, shape (n,), optional

        Returns
        -------
        OneStepClassifier

        Raises
        ------
        ValueError
            On parameters, inputs or labels that cannot be used; if there is only one class.
        """
        settings = self._settings(self.ridge)
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        X = self._inputs(X)
        classes, targets = class_targets(y)
        check_consistent_length(X, targets)
        if len(classes) < 2:
            raise ValueError(f"{type(self).__name__} needs samples of at least 2 classes; got one class: {classes[0]}.")
        self._fit(X, targets, sample_weight, settings)
        self.classes_ = classes
        return self

    def _target_matrix(self, y: Any) -> NDArray[np.float64]:
        labels = column_or_1d(y)
        unknown = ~np.isin(labels, self.classes_)
        if unknown.any():
            raise ValueError(f"y contains labels that were not in the fit: {np.unique(labels[unknown])}.")
        shown = self.classes_[1:] if len(self.classes_) == 2 else self.classes_
        return np.where(labels[:, None] == shown, 1.0, -1.0)

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the outputs.

        Parameters
        ----------
        X : array-like, shape (n, d)

        Returns
        -------
        ndarray, shape (n,) for two classes, else (n, classes)
            Least-squares fits of the codes +1 and -1.
        """
        values = self._outputs(X)
        return values[:, 0] if values.shape[1] == 1 else values

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict the class.

        Parameters
        ----------
        X : array-like, shape (n, d)

        Returns
        -------
        ndarray, shape (n,)
        """
        values = self.decision_function(X)
        code = (values > 0).astype(np.intp) if values.ndim == 1 else values.argmax(axis=1)
        return np.asarray(self.classes_[code])
