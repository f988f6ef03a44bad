"""`OneStepRegressor`: the first layer learns, then ridge regression."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import MultiOutputMixin, RegressorMixin

from gradstep.checks import real
from gradstep.estimators.readout import OneStepReadout
from gradstep.estimators.targets import number_targets

__all__ = ["OneStepRegressor"]


class OneStepRegressor(MultiOutputMixin, RegressorMixin, OneStepReadout):
    r"""Ridge regression on the features of a two-layer network whose first layer has learned.

    The features :math:`\phi_i(z)=\sigma(\langle w_i, z\rangle + c_i)` are those of `OneStepFeatures`. The readout
    minimises

    .. math::
       \sum_\mu \omega_\mu \Bigl(y_\mu - b_0 - \sum_{i\le N} b_i\,\phi_i(z_\mu)\Bigr)^2 + \Lambda\,|b|^2

    over raw features (nothing divides them), with the intercept :math:`b_0` not penalised.

    Parameters
    ----------
    width, activation, eta, damping, readout, n_steps, offset, sample_split, random_state, dtype, device
        See `OneStepFeatures`.
    ridge : "auto" or float
        ``Lambda``. ``"auto"`` takes the best of a path of 31 penalties by leave-one-out errors in closed form; the path
        shares one factorisation. The step is not repeated without the row left out: after a step on the same rows
        `ridge_errors_` are too good, most of all for small penalties. With ``eta="auto"`` what seeing a row's label
        saves is measured on the networks of `step_errors_`, and added to them before the best is taken.

    Attributes
    ----------
    coef_ : ndarray, shape (width,) or (outputs, width)
        ``b``.
    intercept_ : float or ndarray, shape (outputs,)
        ``b_0``.
    learned_ : Learned
        Directions and columns along which the network varies; ``print`` and ``.plot()`` show them.
    directions_ : ndarray, shape (directions, columns that the network sees)
        Those of `learned_`, in standardised columns.
    feature_importances_ : ndarray, shape (columns of X,)
        Share of the mean squared gradient along each column of the table.
    ridge_ : float
        ``Lambda`` used; at least 1e-13 times the largest eigenvalue of the scatter matrix, where rounding decides.
    ridge_path_, ridge_errors_ : ndarray, shape (penalties,)
        Penalties compared with their leave-one-out mean squares, in units of the variance of the targets.
    degrees_of_freedom_ : float
        Trace of the hat matrix of the fit, without the intercept.
    weights_, initial_weights_, offsets_, initial_readout_, eta_, damping_, step_scale_, step_errors_, standardisation_
        See `OneStepFeatures`.
    n_features_in_ : int
    feature_names_in_ : ndarray of str

    See Also
    --------
    OneStepClassifier : for classes.

    Notes
    -----
    ``eta=0`` is ridge regression on random features. A network in the conventions of the theory (`gradstep.Problem`)
    has ``offset=0`` and ``sample_split=True``.

    Examples
    --------
    >>> import numpy as np
    >>> import gradstep as gs
    >>> random = np.random.default_rng(0)
    >>> X = random.standard_normal((1000, 20))
    >>> y = np.tanh(2 * X[:, 0])
    >>> train, test = slice(0, 500), slice(500, None)
    >>> one_step = gs.OneStepRegressor(width=200, random_state=0).fit(X[train], y[train])
    >>> random_features = gs.OneStepRegressor(width=200, eta=0, random_state=0).fit(X[train], y[train])
    >>> bool(1 - one_step.score(X[test], y[test]) < 0.5 * (1 - random_features.score(X[test], y[test])))
    True
    """

    def _finish(self, y: Any, targets: NDArray[np.float64]) -> None:
        if np.asarray(y).ndim == 1:
            self.coef_, self.intercept_ = self.coef_[0], float(self.intercept_[0])

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """Predict the targets.

        Parameters
        ----------
        X : array-like, shape (n, d)

        Returns
        -------
        ndarray, shape (n,) or (n, outputs)
        """
        values = self._outputs(X)
        return values[:, 0] if np.ndim(self.intercept_) == 0 else values

    def predict_interval(self, X: ArrayLike, coverage: float = 0.9) -> NDArray[np.float64]:
        """Predict intervals that hold the targets of new rows like those of the fit with a given probability.

        They are the predictions plus quantiles of the residuals that the rows of the fit have when they are left out.
        Residuals after a step on the same rows are too small, and are enlarged by what the comparison of steps has
        measured. If `eta` is given, nothing is measured, and after a large step on few rows intervals are too narrow.
        All intervals have the same width: where the noise depends on the row, coverage holds on average.

        Parameters
        ----------
        X : array-like, shape (n, d)
        coverage : float
            In (0, 1).

        Returns
        -------
        ndarray, shape (n, 2) or (n, outputs, 2)
            Lower and upper ends. Infinite where there are too few rows for so large a coverage.
        """
        share = real("coverage", coverage, "a number in (0, 1)", lambda value: 0 < value < 1)
        predicted = np.asarray(self.predict(X))
        left = self._left_out
        # Of m + 1 exchangeable residuals the new one is as likely at each place: the tails hold whole rows less one.
        tail = (1 - share) / 2 - (1 - (1 - share) / 2) / left.distinct
        ends = np.tile([[-np.inf], [np.inf]], left.residuals.shape[1])
        if tail >= 0:
            columns = [
                np.quantile(column, [tail, 1 - tail], weights=left.weights, method="inverted_cdf")
                for column in left.residuals.T
            ]
            ends = np.stack(columns, axis=1)
        return np.stack([predicted + (end if predicted.ndim == 2 else end[0]) for end in ends], axis=-1)

    def _target_matrix(self, y: Any) -> NDArray[np.float64]:
        return number_targets(y)
