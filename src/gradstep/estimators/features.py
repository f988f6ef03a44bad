"""`OneStepFeatures`: the supervised transformer."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, MultiOutputMixin, TransformerMixin
from sklearn.utils.validation import check_consistent_length

from gradstep.estimators.base import OneStep
from gradstep.estimators.targets import target_matrix

__all__ = ["OneStepFeatures"]


class OneStepFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, MultiOutputMixin, OneStep):
    r"""Features of a two-layer network whose first layer has learned, by one gradient step or in rounds.

    The features of an input are :math:`\sigma(\langle w_i, z\rangle + c_i)`, :math:`i\le N`, of the standardised input
    :math:`z`. The first layer is drawn, :math:`w_i\sim N(0, I_d/d)`, and then takes one full gradient step on the
    squared loss of the network :math:`f(z)=\frac1N\sum_i a_i\sigma(\langle w_i,z\rangle+c_i)` with a random readout
    :math:`a` of order one and standardised targets :math:`y`:

    .. math::
       w_i \leftarrow w_i + \frac{\eta}{\sqrt N}\,(1+\delta)(\Sigma+\delta I)^{-1}
       \frac{1}{\sum_\mu\omega_\mu}\sum_\mu \omega_\mu\, a_i\,(y_\mu - f(z_\mu))\,
       \sigma'(\langle w_i,z_\mu\rangle + c_i)\, z_\mu

    with the second moment :math:`\Sigma` of the standardised inputs and the damping :math:`\delta`; infinite damping is
    the plain gradient. The step is large when :math:`\eta` is of order :math:`\sqrt N`: the neurons then turn towards
    the direction along which the targets vary (Ba et al. 2022, Cui et al. 2024). Offsets :math:`c_i` are multiplied by
    what the step multiplies the root mean square of :math:`\langle w_i,z\rangle` by, so that neurons go on bending at
    different places of the data. With several outputs every output has a readout of its own and the gradients add up,
    so that neurons turn towards different directions.

    Parameters
    ----------
    width : "auto" or int
        Number of neurons ``N`` and of features. ``"auto"``: the power of two next to twice the number of distinct rows,
        but not less than 512 and not more than 2048. Tables of more than 32,768 rows have fewer again, so that the
        products of the fit take about ten seconds.
    activation : "auto", str, callable or ScalarFunction
        ``sigma``: a name (``"relu"``, ``"tanh"``, ``"erf"``, ...), a formula in x or a function, as everywhere in
        gradstep. ``"auto"`` is ReLU; where `eta` and `n_steps` are chosen, it may be tanh without a step and after
        rounds, if that has the lowest error of all that are clearly better than a small step. Names and formulas can be
        pickled, functions where Python can: those that a module defines. A lambda goes through ``n_jobs=2`` (joblib has
        a pickler of its own), but not through ``pickle.dump`` or ``joblib.dump``.
    eta : "auto", float or Step
        Step size. ``"auto"`` takes a step that changes the pre-activations by a quarter of their own size (root mean
        square), unless none or one of six times their size has a clearly lower error, by two standard errors. These
        are leave-one-out errors of a narrower network, each row scored with a step that has not seen it
        (`gradstep.estimators.step_choice`). Zero means ordinary random features.
    damping : "auto", float > 0 or infinity
        ``delta``. ``"auto"`` is the best penalty of a ridge regression on the inputs themselves; where `eta` is given,
        it is infinite, the plain gradient. For inputs that are isotropic all dampings are the same step.
    readout : "gaussian", "constant" or {value: weight}
        Law of the readout ``a_i`` of the gradient step.
    n_steps : "auto" or int
        Gradient steps, all with the same eta; under ``eta="auto"`` they share one such change of the pre-activations.
        ``"auto"``: one step, or in its place a new draw of the first layer along the directions in which the targets
        vary, found in a few rounds (`gradstep.estimators.moves`), if its error is clearly lower. One says that
        there is never more than the one step of the theory. Where `eta` is given there are no rounds.
    offset : float
        Standard deviation of the neurons' random offsets ``c_i`` as drawn. Without offsets (0, the network of the
        theory) odd activations give odd functions only.
    sample_split : bool or float
        True, or a share of the rows: the step sees these rows only, and the readout is fitted on the others, as the
        theory assumes. False: all rows serve both.
    random_state : int, RandomState or None
        Seed or generator of the draw.
    dtype : {"float64", "float32"}
        Precision of features and their products; sums and factorisations are in double.
    device : str, optional
        None for NumPy; ``"cpu"``, ``"cuda"`` or ``"cuda:k"`` for PyTorch (extra ``torch``).

    Attributes
    ----------
    weights_, initial_weights_ : ndarray, shape (width, columns that the network sees)
        First layer after and before the step; they act on standardised inputs, without columns that do not vary.
    offsets_ : ndarray, shape (width,)
        After the step.
    initial_readout_ : ndarray, shape (width, outputs)
        ``a``.
    activation_ : str
        Name of ``sigma`` used.
    eta_ : float
        Step size taken, of every step.
    damping_ : float
        Damping of the step; infinite where none was taken.
    rounds_ : int
        Rounds by which the first layer was drawn again; zero where there was a gradient step or none.
    step_scale_ : float
        Root mean square change of the pre-activations by all steps, relative to what they were.
    step_errors_ : StepErrors or None
        Leave-one-out errors of the steps compared; None when `eta` was given.
    standardisation_ : Standardisation
    n_features_in_ : int
    feature_names_in_ : ndarray of str
        Only where X had column names.

    See Also
    --------
    OneStepRegressor, OneStepClassifier : with a ridge readout.

    Notes
    -----
    Memory stays bounded: rows are read in blocks, and X may be a `numpy.memmap` or anything with a shape, a dtype and
    slices (HDF5, zarr); nothing of the size (rows, width) is kept in `fit`.

    Rows are dealt into folds and samples by a hash of their values. Copies of a row stay together, the order of rows
    does not matter, and a weight does exactly what repeating the row would do. In a table of at most 20 different
    inputs, with ten or more rows for each on average, every row is an observation of its own: new rows are like them.
    So are rows with one input and different targets, if they are a twentieth of the table, and ten at least. Neither
    twenty nor a twentieth matters where each column has two values, as those of categories have.

    Examples
    --------
    >>> import numpy as np
    >>> import gradstep as gs
    >>> random = np.random.default_rng(0)
    >>> X = random.standard_normal((500, 20))
    >>> y = np.tanh(2 * X[:, 0] + X[:, 1])
    >>> features = gs.OneStepFeatures(width=100, random_state=0)
    >>> features.fit_transform(X, y).shape
    (500, 100)
    """

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Draw the first layer, choose the size of the step and take it.

        Parameters
        ----------
        X : array-like, shape (n, d)
        y : array-like, shape (n,) or (n, outputs)
            Numbers are targets of a regression, integers too. Text and truth values are classes, coded as +1 and -1,
            one output a class (a single one for two classes): pass ``y.astype(str)`` where classes are integers.
        sample_weight : array-like, shape (n,), optional

        Returns
        -------
        OneStepFeatures

        Raises
        ------
        ValueError
            On parameters, inputs or targets that cannot be used.
        """
        table, settings = self._begin(X, y)
        check_consistent_length(table, y)
        targets = target_matrix(y)
        with self._threads(len(targets), settings.width):
            training = self._training(table, targets, sample_weight, settings, readout=False)
            with self._in_range():
                self._take_step(training)
        self._n_features_out = training.settings.width
        return self

    def transform(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the features.

        Parameters
        ----------
        X : array-like, shape (n, d)

        Returns
        -------
        ndarray, shape (n, width)
        """
        return self._apply(X, lambda features: features)
