"""`OneStepClassifier`: the first layer learns, then ridge regression on +1 and -1."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_expit, log_softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import _check_sample_weight, column_or_1d

from gradstep.estimators.readout import LeftOutRows, OneStepReadout
from gradstep.estimators.targets import check_labels, class_targets, codes

__all__ = ["OneStepClassifier"]


class OneStepClassifier(ClassifierMixin, OneStepReadout):
    r"""Least-squares classification on the features of a two-layer network whose first layer has learned.

    Classes are coded as :math:`\pm1`, one output a class (a single one for two classes). Step and rounds are those of
    `OneStepFeatures` on these targets, the readout the ridge regression of `OneStepRegressor`; the class with the
    largest output wins. Probabilities are a logistic function of the outputs times one factor, which makes the outputs
    for rows left out of the fit as likely as possible.

    Parameters
    ----------
    width, activation, eta, damping, ridge, readout, n_steps, offset, sample_split
        See `OneStepFeatures` and `OneStepRegressor`.
    class_weight : None, "balanced" or {label: weight}
        Factors of the weights of all rows of a class; ``"balanced"`` gives every class the same total weight, with the
        given weights of rows counted. Tables for `diagnose`, `learning_curve` and `link` are weighted by the factors of
        the fit: accuracies count their rows so, too.
    random_state, dtype, device
        See `OneStepFeatures`.

    Attributes
    ----------
    classes_ : ndarray, shape (classes,)
    logit_scale_ : float
        Factor that makes logits of outputs.
    learned_, directions_, feature_importances_
        See `OneStepRegressor`.
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
        class_weight: Any = None,
        random_state: Any = None,
        dtype: str = "float64",
        device: str | None = None,
    ) -> None:
        super().__init__(
            width,
            activation=activation,
            eta=eta,
            damping=damping,
            ridge=ridge,
            readout=readout,
            n_steps=n_steps,
            offset=offset,
            sample_split=sample_split,
            random_state=random_state,
            dtype=dtype,
            device=device,
        )
        self.class_weight = class_weight

    def _targets_of_fit(self, y: Any) -> NDArray[np.float64]:
        classes, targets = class_targets(y)
        if len(classes) < 2:
            raise ValueError(f"{type(self).__name__} needs samples of at least 2 classes; got one class: {classes[0]}.")
        self.classes_ = classes
        return targets

    def _finish(self, y: Any, targets: NDArray[np.float64]) -> None:
        left = self._left_out
        self.logit_scale_ = _likeliest(targets[left.rows] - left.residuals, targets[left.rows] > 0, left)

    def _target_matrix(self, y: Any) -> NDArray[np.float64]:
        check_labels(y)
        labels = column_or_1d(y)
        unknown = ~np.isin(labels, self.classes_)
        if unknown.any():
            several = list(dict.fromkeys(labels[unknown].tolist()))
            raise ValueError(f"y contains labels that were not in the fit: {several}.")
        return codes(labels, self.classes_)

    def _weights_of_fit(self, X: Any, y: Any, sample_weight: Any) -> Any:
        if self.class_weight is not None:
            labels = column_or_1d(y)
            self._class_weights = compute_class_weight(self.class_weight, classes=self.classes_, y=labels)
            if isinstance(self.class_weight, str):  # "balanced": older versions of scikit-learn count rows
                given = np.asarray(_check_sample_weight(sample_weight, X, dtype=np.float64))
                mass = np.bincount(np.searchsorted(self.classes_, labels), given)
                self._class_weights = given.sum() / (len(mass) * np.where(mass > 0, mass, math.inf))
        return self._row_weights(X, y, sample_weight)

    def _row_weights(self, X: Any, y: Any, sample_weight: Any) -> Any:
        if self.class_weight is None:
            return sample_weight
        given = np.asarray(_check_sample_weight(sample_weight, X, dtype=np.float64))
        return given * self._class_weights[np.searchsorted(self.classes_, column_or_1d(y))]

    def _output_names(self, count: int) -> list[str]:
        return [f"class {name} (+1, other{'s' * (count > 1)} -1)" for name in self.classes_[-count:]]

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

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Predict the probability of each class; with `class_weight` in a population where rows have these weights.

        Parameters
        ----------
        X : array-like, shape (n, d)

        Returns
        -------
        ndarray, shape (n, classes)
        """
        outputs = self._outputs(X)
        return np.asarray(np.exp(_log_probabilities(self.logit_scale_ * outputs)))

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


def _log_probabilities(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return log probabilities (n, classes) of logits (n, classes), or (n, 1) for two classes."""
    if logits.shape[1] == 1:
        return np.concatenate([log_expit(-logits), log_expit(logits)], axis=1)
    return np.asarray(log_softmax(logits, axis=1))


def _likeliest(outputs: NDArray[np.float64], present: NDArray[np.bool_], left: LeftOutRows) -> float:
    """Return the factor of the outputs (n, k) that makes the classes of the rows most likely, between .1 and 100.

    Where the outputs separate the classes no factor is too large. The classes are therefore smoothed as Platt (1999)
    does, by as much as one row among n + 2 would be another class. Here n is the total weight, but at least the number
    of different rows: weights may be shares.
    """
    true = np.concatenate([~present, present], axis=1) if outputs.shape[1] == 1 else present
    smooth = 1 / (max(left.distinct, left.total) + 2)
    true = true * (1 - smooth) + ~true * (smooth / (true.shape[1] - 1))

    def loss(log_factor: float) -> float:
        return -float(left.weights @ (_log_probabilities(np.exp(log_factor) * outputs) * true).sum(axis=1))

    return float(np.exp(minimize_scalar(loss, bounds=(np.log(0.1), np.log(100.0)), method="bounded").x))
