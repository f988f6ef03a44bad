r"""The real network: one random instance, drawn in one place.

.. math:: f(x)=s\sum_{i=1}^N a_i\,\sigma(\langle w_i,x\rangle),\qquad
          w_i\leftarrow w_i+\frac{\eta}{\sqrt N}\,\frac1{n_0}\sum_{\mu=1}^{n_0} a_i\bigl(y_\mu-f(x_\mu)\bigr)
          \sigma'(\langle w_i,x_\mu\rangle)\,x_\mu,

with the ``output_factor`` :math:`s` of the problem and :math:`n_0` samples of the step. Then a readout :math:`b` of the
features :math:`\sigma(\langle w_i,x\rangle)` is fitted to fresh samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from functools import cached_property, partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from gradstep.checks import LARGEST_NUMBER, MOST_STEPS, bounded, chosen_seed, flag, function_or_none, integer, one_of
from gradstep.convex import Loss, Penalty
from gradstep.errors import InvalidInput, NotConverged, within_range
from gradstep.gaussian import MultivariateFunction
from gradstep.gaussian.hermite import hermite_values
from gradstep.host import as_floats, host_errors
from gradstep.labels import Labels, labels_of
from gradstep.learning import LearningCurve
from gradstep.problem import Problem
from gradstep.readout import readout_polynomials
from gradstep.simulation.arguments import MOST_TEST_SAMPLES, finite_sizes, penalties_of, threads_of
from gradstep.simulation.backend import Array, Backend, Precision, backend, to_host
from gradstep.simulation.convex_fit import ConvexFit, fit_convex
from gradstep.simulation.data_rows import ChosenRows, DataRows
from gradstep.simulation.expected_errors import sampled_risk
from gradstep.simulation.input_law import InputLaw
from gradstep.simulation.instance import (
    Sample,
    check_sample,
    fit_sample,
    initial_readout,
    random_basis,
    step_sample,
    weight_blocks,
)
from gradstep.simulation.layer_curve import Layer
from gradstep.simulation.leave_one_out import Copies, leave_one_out
from gradstep.simulation.population import PopulationRisk, population_risk
from gradstep.simulation.ridge import RidgePath, factorise, fit_ridge
from gradstep.simulation.rowwise import for_rows
from gradstep.simulation.spectra import (
    MeasuredFeatures,
    MeasuredWeights,
    feature_spectrum,
    spike_direction,
    unit,
    weight_spectrum,
)
from gradstep.simulation.step import Gradient, Spike, gradient, measure_spike
from gradstep.simulation.training import Damped, optimiser_of
from gradstep.sizes import Sizes

__all__ = ["Network"]

_DEGREE = 4
#: Rows on which a risk is measured that has no closed form.
_TEST_ROWS = 1 << 17
#: Largest deviation from one of the length of a unit vector, which single precision has.
_UNIT = 1e-5


def _silent() -> None:
    """Do nothing after a block: the default of `Network.after_block`."""


@dataclass(frozen=True, eq=False)
class Network:
    r"""The network of a problem, drawn from a seed: one instance of what `simulate` averages over.

    Each quantity is computed when it is first used, and only once. The same problem and seed give the same
    numbers as :func:`gradstep.simulate`, which measures these networks.

    Conventions: weights have one neuron a row. Isotropic inputs are ``N(0, I_d)`` and the teacher is ``f*(x_1)``: its
    direction :math:`\beta_*` is the first coordinate axis. Coordinates of other inputs are the eigenvectors of their
    covariance, as :attr:`law` holds them. Readouts ``a`` at initialisation are of order one, fitted ones act on
    the raw features, ``b = a / sqrt(N)``. Weights and features are arrays of the library that computes them: NumPy
    arrays by default, PyTorch tensors on the device otherwise.

    Parameters
    ----------
    problem : Problem
        With finite sizes. ``ridge`` is the default penalty of the fits.
    seed : int
        In [0, 2**32). It fixes every random number; networks of one seed share theirs as far as their sizes allow (see
        `gradstep.simulation.streams`).
    before : array, shape (N, d), optional
        First layer before the step, in place of the one that is drawn.
    readout : array, shape (N,), optional
        Readout that the step uses, in place of the one that is drawn.
    trained : array, shape (N, d), optional
        First layer after training, in place of the problem's one step; `train` gives it.
    rows : array, shape (M, d), optional
        A table whose rows are the inputs, in place of Gaussian ones. Its columns are centred and scaled together, and
        its coordinates become the eigenvectors of its covariance. The problem's inputs say where in this spectrum the
        teacher lies; its direction in each class is drawn at random. A table of few times the rows of the samples is no
        population: if labels have a mean that odd features cannot fit, test errors are 10 per cent too large with 2.7
        times their rows, and 1 per cent with 21 times. The page "Correlated inputs and damping" has the numbers.
    replacement : bool
        Whether samples of a table are drawn with replacement and errors are means over the whole table. By default no
        row is in two samples, and errors are means over the rows that are in none. With replacement rows of the samples
        are among those of the errors, which are too small if the table is small.
    labels : Labels, optional
        Law of the labels of both samples; by default the problem's teacher and noise. Classes need NumPy.
    device : str, optional
        None for NumPy; ``"cpu"``, ``"cuda"`` or ``"cuda:k"`` for PyTorch.
    dtype : {"float64", "float32"}
        Precision of inputs, weights and features. Gram matrices, factorisations and expectations are in double.
    after_block : callable
        Called after each block of samples.

    Raises
    ------
    InvalidInput
        If a size of the problem is infinite, a seed or an option is out of range, or weights or a readout have another
        shape.

    Notes
    -----
    `train` takes several steps. ``dataclasses.replace`` keeps the first layers, the readout and the labels, whatever
    else it changes.

    Examples
    --------
    >>> import gradstep as gs
    >>> problem = gs.Problem(
    ...     activation="tanh",
    ...     teacher="sin",
    ...     d=40,
    ...     width=60,
    ...     n_step=160,
    ...     n=120,
    ...     eta=gs.Step(2.0, exponent=0.5),
    ...     ridge=1.0,
    ... )
    >>> network = gs.Network(problem, seed=0)
    >>> network.before.shape, network.after.shape
    ((60, 40), (60, 40))
    >>> fit = network.fit()
    >>> error = network.risk(fit.readouts).test_error
    >>> bool(error[0] < network.initial.risk(network.initial.fit().readouts).test_error[0])
    True
    """

    problem: Problem
    seed: int
    _: KW_ONLY
    before: Array = field(default=None, repr=False)
    readout: Array = field(default=None, repr=False)
    trained: Array = field(default=None, repr=False)
    rows: Any = field(default=None, repr=False)
    replacement: bool = False
    labels: Labels = field(default=cast(Labels, None), repr=False)
    device: str | None = None
    dtype: str = "float64"
    after_block: Callable[[], None] = field(default=_silent, repr=False)

    @host_errors()
    def __post_init__(self) -> None:
        problem, sizes, seed = self.problem, finite_sizes(self.problem), chosen_seed(self.seed)
        d, width = sizes.d, sizes.width
        labels = labels_of(problem) if self.labels is None else self.labels
        if labels.binary and self.device is not None:
            raise InvalidInput("device", self.device, "None with labels that are classes")
        before = self.before
        if before is None:
            engine = self._engine
            blocks = weight_blocks(seed, width, d, problem.initial_weights, drawing=engine.drawing)
            before = engine.xp.concat([engine.double(block) for block in blocks])
        readout = initial_readout(seed, width, problem.readout) if self.readout is None else self.readout
        arrays = [("before", before, (width, d)), ("readout", readout, (width,))]
        if self.trained is not None:
            arrays.append(("trained", self.trained, (width, d)))
        for name, given, shape in arrays:
            object.__setattr__(self, name, self._finite(name, self._shaped(name, given, shape)))
        object.__setattr__(self, "seed", seed)
        object.__setattr__(self, "labels", labels)
        if self.rows is not None:
            table = self.rows if isinstance(self.rows, DataRows) else DataRows.of(self.rows, self.replacement)
            table.check(sizes.n_step, sizes.n, d)
            object.__setattr__(self, "rows", table)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the fields alone, from which all computed quantities follow."""
        return {own.name: getattr(self, own.name) for own in fields(self)}

    # --- the first layer -------------------------------------------------------------------------------------------

    @cached_property
    def gradient(self) -> Gradient:
        """The averaged gradient of the loss at initialisation, with the network's own output in the residual."""
        with self._under_way():
            return self._gradient_of(self.before, self._step_sample())

    @cached_property
    def damped(self) -> Gradient:
        """The gradient that the step takes, with the problem's damping: both parts times the same matrix."""
        if math.isinf(self.problem.damping):
            return self.gradient
        found, xp = self.gradient, self._engine.xp
        with self._under_way():
            both, moment = (
                xp.concat((found.rows, found.linear[None, :])),
                partial(self._second_moment, self._step_sample()),
            )
            both, _ = Damped(self.problem.damping).direction(both, moment, None)
        return Gradient(both[:-1, :], both[-1, :])

    @cached_property
    def law(self) -> InputLaw:
        """Coordinates of the inputs, and the teacher's directions in them."""
        return InputLaw.of(self.problem) if self.rows is None else self.rows.law(self.problem, self.seed)

    @cached_property
    @host_errors()
    def after(self) -> Array:
        """First layer after the step, or after training, shape (N, d); without a step it is the initial one."""
        if self.trained is not None:
            return self.trained
        if self.problem.step_size == 0:
            return self.before
        return self.before + self._rate * self.damped.rows

    @cached_property
    def spike(self) -> Spike:
        """The part of the step along the direction that all neurons share, and the variance of the other part.

        After training this direction is that of the changes of the rows, summed with the readout as weights. It is in
        whitened coordinates, see :class:`gradstep.simulation.step.Spike`.
        """
        white = self.law.times_root
        shared = white(self._shared) if self.problem.step_size > 0 else None
        return measure_spike(white(self.before), white(self.after), self.readout, shared, self._axes)

    def train(
        self,
        steps: int = 1,
        *,
        fresh: bool = True,
        optimiser: str | None = None,
        basis: str = "random",
        progress: Callable[[int, int], None] | None = None,
        **options: float,
    ) -> Network:
        r"""Return the network after several full-batch gradient steps of the first layer.

        Training starts from `before`, whatever the network has been through, and the readout stays that of
        initialisation. Each step has the size of the problem, :math:`w_i\leftarrow w_i+(\eta/\sqrt N)D_i`, and the
        present network's own output in its residual. One step of the problem's own kind is that of the problem, bit by
        bit, and the first samples of longer training are those of shorter.

        Docs, "Several steps", equation (M1).

        Parameters
        ----------
        steps : int
            How many, from one to a million.
        fresh : bool
            Whether each step has ``n_step`` samples of its own, or all have those of the first.
        optimiser : {"gradient", "damped", "sign", "adam", "spectral"}, optional
            What is made of the gradient; see :mod:`gradstep.simulation.training`. By default it is what the problem
            makes of it: the damped gradient if it has a finite damping, and otherwise the plain one. The last three do
            not depend on the length of the gradient: a step moves each neuron by ``eta / sqrt(N)`` in root mean square.
        basis : {"random", "teacher"}
            Coordinates in which "sign" and "adam" work, which are not invariant under rotations: random ones, in which
            the teacher's direction is like any other, or those in which the inputs are drawn, of which the first is the
            teacher's if they are isotropic.
        progress : callable, optional
            Called as ``progress(done, steps)`` after each step.
        **options : float
            ``damping`` of "damped" (1 by default); ``beta1``, ``beta2`` and ``epsilon`` of "adam".

        Returns
        -------
        Network
            With the same `before` and the first layer after training as `trained` and `after`.

        Raises
        ------
        InvalidInput
            On options that are unknown or out of range.
        NotConverged
            If the weights leave the range of double precision.

        Examples
        --------
        >>> import gradstep as gs
        >>> problem = gs.Problem(
        ...     activation="tanh",
        ...     teacher="H3",
        ...     d=20,
        ...     width=30,
        ...     n_step=400,
        ...     n=300,
        ...     eta=gs.Step(2.0, exponent=0.5),
        ...     ridge=1.0,
        ... )
        >>> network = gs.Network(problem, seed=0)
        >>> bool((network.train(1).after == network.after).all())
        True
        >>> three = network.train(3, fresh=False)
        >>> muon = network.train(3, optimiser="spectral")
        """
        steps = integer("steps", steps, 1, MOST_STEPS)
        flag("fresh", fresh)
        one_of("basis", basis, ("random", "teacher"))
        function_or_none("progress", progress, "a function of two numbers of steps: those done, and all")
        own = optimiser is None and not options
        chosen = "gradient" if optimiser is None else optimiser
        rule = Damped(self.problem.damping) if own else optimiser_of(chosen, options)
        memory, weights = None, self.before
        turned = rule.by_coordinate and basis == "random"
        turn = self._engine.double(random_basis(self.seed, self._sizes.d)) if turned else None
        for step in range(steps):
            sample = self._step_sample(step if fresh else 0)
            with self._under_way():
                found = self._gradient_of(weights, sample) if step else self.gradient
                rows = found.rows if turn is None else found.rows @ turn
                direction, memory = rule.direction(rows, partial(self._second_moment, sample), memory)
                weights = weights + self._rate * (direction if turn is None else direction @ turn.T)
            if not self._engine.xp.all(self._engine.xp.abs(weights) <= LARGEST_NUMBER):
                advice = "The training diverges: take smaller steps, or fewer."
                raise NotConverged("Training", math.inf, LARGEST_NUMBER, advice, f"left all bounds in step {step + 1}")
            if progress is not None:
                progress(step + 1, steps)
        return replace(self, trained=weights)

    def _gradient_of(self, weights: Array, sample: Sample | ChosenRows) -> Gradient:
        return gradient(
            self._engine,
            self.problem.activation,
            self._labelled(sample),
            self._data(weights),
            self._data(self.readout),
            output_factor=self.problem.output_factor,
        )

    def _step_sample(self, turn: int = 0) -> Sample | ChosenRows:
        sizes = self._sizes
        if self.rows is not None:
            return cast(ChosenRows, self.rows.step_sample(self.seed, sizes.n_step, turn))
        return step_sample(self.seed, sizes.n_step, sizes.d, turn)

    def _check_sample(self, rows: int | None) -> Sample | ChosenRows:
        if self.rows is not None:
            return cast(ChosenRows, self.rows.check_sample(self.seed, self._sizes.n_step, self._sizes.n, rows))
        return check_sample(self.seed, _TEST_ROWS if rows is None else rows, self._sizes.d)

    def _second_moment(self, sample: Sample | ChosenRows) -> Array:
        """Return ``X^T X / rows`` of a sample, shape (d, d)."""
        total = self._engine.zeros((sample.d, sample.d))
        for normals, _ in self._blocks(sample):
            x = self.law.times_root(self._engine.double(normals))
            total += x.T @ x
        return total / sample.rows

    @property
    def initial(self) -> Network:
        """The network without its step, with the same samples, to compare the step with."""
        return self.with_weights(self.before)

    def with_weights(self, weights: Array) -> Network:
        """Return the network with another first layer and no step; its samples are the same.

        Parameters
        ----------
        weights : array, shape (N, d)
        """
        return replace(self, problem=self.problem.replace(eta=0.0), before=weights, trained=None)

    # --- samples and features --------------------------------------------------------------------------------------

    def step_data(self) -> tuple[Array, Array]:
        """Return the samples of the step: inputs (n_step, d) and labels (n_step,)."""
        return self._gathered(self._step_sample())

    def fit_data(self) -> tuple[Array, Array]:
        """Return the fresh samples of the fit: inputs (n, d) and labels (n,)."""
        return self._gathered(self._fit_sample)

    def test_data(self, rows: int) -> tuple[Array, Array]:
        """Return fresh inputs (rows, d) and the targets ``E[y|x]``, which have no label noise, (rows,).

        Parameters
        ----------
        rows : int
            How many.
        """
        return self._gathered(self._check_sample(integer("rows", rows, 1, MOST_TEST_SAMPLES)))

    def features(self, inputs: Array) -> Array:
        """Return the raw features ``sigma(<w_i, x>)`` after the step, shape (rows, N).

        Parameters
        ----------
        inputs : array, shape (rows, d)
        """
        with self._under_way():
            return self._activated(self._data(self._shaped("inputs", inputs, (None, self._sizes.d))))

    def _activated(self, x: Array) -> Array:
        values = x @ self._weights.T  # pre-activations, then features

        def activate(part: slice) -> None:
            values[part, :] = self.problem.activation(values[part, :])

        for_rows(activate, values.shape[0], self._engine.threads)
        return values

    # --- fits and their error --------------------------------------------------------------------------------------

    def fit(self, ridge: float | Sequence[float] | None = None) -> RidgePath:
        r"""Fit the readout by ridge regression, :math:`\min_b\sum_\mu(y_\mu-\langle b,F_\mu\rangle)^2+\Lambda|b|^2`.

        Parameters
        ----------
        ridge : float or sequence of float, optional
            Penalties :math:`\Lambda > 0` on raw features; by default that of the problem. A whole sequence costs one
            factorisation.

        Returns
        -------
        RidgePath
            Readouts (N, P), one column a penalty, with their training errors.

        Raises
        ------
        InvalidInput
            If a penalty is not positive and finite.
        """
        penalties, _ = penalties_of(self.problem, ridge)
        with self._under_way():
            return fit_ridge(self._design, self._sizes.n, self._sizes.width, penalties)

    def leave_one_out(self, ridge: float | Sequence[float] | None = None) -> NDArray[np.float64]:
        """Return the mean squared leave-one-out error: each sample is predicted by the ridge fit without it.

        It estimates the test error with the label noise from the samples of the fit alone. The formula is exact and
        in closed form, without further fits.

        Parameters
        ----------
        ridge : float or sequence of float, optional
            As for `fit`. Penalties below 1e-13 times the largest eigenvalue of ``F^T F`` are lost in rounding.

        Returns
        -------
        ndarray, shape (P,)
        """
        penalties, _ = penalties_of(self.problem, ridge)
        labels = to_host(self.fit_data()[1])[:, None]
        weights, n = np.ones(len(labels)), len(labels)

        def blocks() -> Iterator[tuple[Array, NDArray[np.intp]]]:
            start = 0
            for features, block in self._design():
                yield features, np.arange(start, start + len(block))
                start += len(block)

        with self._under_way():
            factorised = factorise(blocks, n, self._sizes.width, labels, weights, intercept=False)
            copies = Copies(weights, labels, np.arange(n))
            return leave_one_out(factorised, blocks, labels, weights, copies, np.array(penalties)).errors

    def fit_convex(
        self,
        *,
        loss: str | Loss = "square",
        penalty: str | Penalty = "ridge",
        ridge: float | None = None,
        tolerance: float = 1e-7,
    ) -> ConvexFit:
        """Fit the readout with a convex loss and penalty, on NumPy.

        Parameters
        ----------
        loss, penalty : str, Loss or Penalty
            See :mod:`gradstep.convex`. A margin loss needs labels that are classes.
        ridge : float, optional
            Strength of the penalty; by default that of the problem.
        tolerance : float
            Largest relative residual of the optimality conditions.

        Returns
        -------
        ConvexFit

        Raises
        ------
        InvalidInput, NotConverged
            As :func:`gradstep.simulation.convex_fit.fit_convex`.
        """
        strength = self._sizes.ridge if ridge is None else ridge
        inputs, labels = self.fit_data()
        features, labels = to_host(self.features(inputs)), to_host(labels)
        return fit_convex(features, labels, loss=loss, penalty=penalty, ridge=strength, tolerance=tolerance)

    def risk(self, readouts: Array, *, along: Array | None = None, tolerance: float = 1e-9) -> PopulationRisk:
        """Return the test error of readouts: the exact expectation over inputs given the weights.

        For a teacher of several directions it is a mean over 131,072 fresh inputs, and the bound is its standard error.
        So it is for rows of a table, over those that are in no other sample; over the whole table it is exact.

        Parameters
        ----------
        readouts : array, shape (N, P) or (N,)
            Readouts of the raw features, as fits return them.
        along : array, shape (d,), optional
            Unit vector along which the neurons are correlated, in whitened coordinates, by default the direction of the
            spike. The result does not depend on it, but for this direction the computation is shortest.
        tolerance : float
            Accepted error, relative to ``E f*^2``, for activations whose kernel has no closed form.

        Returns
        -------
        PopulationRisk
            ``E (f_hat - f*)^2``, label noise not included, shape (P,) or ().

        Raises
        ------
        InvalidInput
            If the readouts have another shape or are not finite, `along` is no unit vector, or the tolerance is not
            positive.
        NotConverged
            If the population kernel cannot reach the tolerance.
        """
        (columns, shape), mean = self._columns(readouts), self.labels.mean
        direction = None if along is None else self._unit("along", along)
        bounded("tolerance", tolerance, positive=True)
        if isinstance(mean, MultivariateFunction) or self.rows is not None:
            error, deviation = self.sampled_risk(columns)
            exact = self.rows is not None and self.rows.replacement
            return PopulationRisk(error.reshape(shape), (0 if exact else 1) * deviation.reshape(shape))
        with self._under_way():
            found = population_risk(
                self.problem.activation,
                mean,
                self.law.times_root(self._engine.double(self._weights)),
                self._axes[0, :],
                self.spike.direction if direction is None else direction,
                columns,
                tolerance=tolerance,
            )
        return PopulationRisk(found.test_error.reshape(shape), found.error_bound.reshape(shape))

    def test_error(
        self, ridge: float | Sequence[float] | None = None, *, tolerance: float = 1e-9
    ) -> NDArray[np.float64]:
        """Fit the readout by ridge regression and return its exact test error: `fit` and `risk` in one.

        Parameters
        ----------
        ridge : float or sequence of float, optional
            As for `fit`.
        tolerance : float
            As for `risk`.

        Returns
        -------
        ndarray, shape () or (P,)
            One value for each penalty, if they are a sequence.
        """
        found = self.risk(self.fit(ridge).readouts, tolerance=tolerance).test_error
        return found if penalties_of(self.problem, ridge)[1] else found.reshape(())

    def sampled_risk(self, readouts: Array, rows: int | None = None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the test error on fresh inputs and the standard error of that average: a check of the exact one.

        Parameters
        ----------
        readouts : array, shape (N, P) or (N,)
        rows : int, optional
            How many inputs: 131,072 if not given, and of a table all that there are to test on.

        Returns
        -------
        mean, standard_error : ndarray, shape (P,) or ()
        """
        rows = None if rows is None else integer("rows", rows, 1, MOST_TEST_SAMPLES)
        columns, shape = self._columns(readouts)
        with self._under_way():
            found = sampled_risk(self._design(self._check_sample(rows)), columns)
        deviation = np.sqrt(np.maximum(np.diagonal(found.covariance), 0.0))
        return found.errors.reshape(shape), deviation.reshape(shape)

    def learning_curve(
        self,
        n: int | Sequence[int] | None = None,
        ridge: float | Sequence[float] | None = None,
        *,
        tolerance: float = 0.003,
        pool: int | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> LearningCurve:
        """Return expected errors of ridge fits on this first layer: means over draws of the samples of the fit.

        Pools of fresh rows are drawn and :func:`gradstep.learning_curve` computes the errors on each, until their
        scatter is small. The curve estimates what the mean of `fit` and `risk` over very many samples of the fit would
        be.

        Docs, "Several steps", equation (M6).

        Parameters
        ----------
        n : int or sequence of int, optional
            Numbers of samples of the fit, by default that of the problem.
        ridge : float or sequence of float, optional
            Penalties, by default that of the problem.
        tolerance : float
            Largest standard error that is accepted, relative to the test error. Where 128 pools are not enough the
            curve has a caveat.
        pool : int, optional
            Rows of all pools together, in place of a tolerance.
        progress : callable, optional
            Called as ``progress(done, total)`` after each pool; the total is an estimate.

        Returns
        -------
        LearningCurve
            ``test_error`` is ``E (f_hat - f*)^2`` without the label noise, as everywhere in a simulation;
            ``training_error`` is the mean square on the fit's own labels, with their noise. Standard errors say what is
            left of the scatter of the pools, and not how layers of other seeds differ.

        Raises
        ------
        InvalidInput
            On options out of range.
        NotConverged
            As :func:`gradstep.learning_curve`.

        Examples
        --------
        >>> import gradstep as gs
        >>> problem = gs.Problem(
        ...     activation="tanh", teacher="H3", d=15, width=20, n_step=200, n=150, eta=gs.Step(2.0, 0.5), ridge=1.0
        ... )
        >>> network = gs.Network(problem, seed=0)
        >>> curves = [network.train(steps, fresh=False).learning_curve([75, 150], pool=4000) for steps in (1, 2)]
        >>> curves[0].test_error.shape
        (2, 1)
        """
        if self.rows is not None:
            allowed = "None; gradstep.learning_curve(network.features(x), y) is for rows of a table"
            raise InvalidInput("rows", f"{len(self.rows.whitened)} rows", allowed)
        problem, ridge = self.problem, penalties_of(self.problem, ridge)[0]
        layer = Layer(to_host(self.after), None, problem.activation, self.labels, self.law, self.seed)
        n = self._sizes.n if n is None else n
        return layer.learning_curve(n, ridge, tolerance=tolerance, pool=pool, progress=progress)

    # --- spectra ---------------------------------------------------------------------------------------------------

    def feature_spectrum(self, *, leading: int = 2) -> MeasuredFeatures:
        """Measure the eigenvalues of ``F^T F / n`` on the samples of the fit, and what their leading vectors are.

        Parameters
        ----------
        leading : int
            How many of the largest eigenvalues to look at, at most as many as there are above rounding.

        Returns
        -------
        MeasuredFeatures
            To be compared with :func:`gradstep.theory.spectra.feature_spectrum.feature_spectrum`.

        Raises
        ------
        InvalidInput
            If `leading` is negative or not an integer.
        """
        leading = integer("leading", leading, 0)
        inputs = self.fit_data()[0]
        with self._under_way():
            features = to_host(self.features(inputs)) / math.sqrt(self._sizes.n)
            inputs, before, readout = to_host(inputs), to_host(self.before), to_host(self.readout)
            shared, seen = to_host(self._shared), self.law.teacher_input(self.labels.mean, inputs)
            if self.trained is None and self.problem.inputs is None and math.isinf(self.problem.damping):
                shared = spike_direction(self.problem, before, readout, shared)
            direction = shared / (np.linalg.norm(self.law.times_root(shared), axis=-1) or 1.0)
            return feature_spectrum(
                features,
                along=unit(hermite_values(inputs @ direction, _DEGREE)),
                target=unit(hermite_values(seen if seen.ndim == 1 else seen[:, 0], _DEGREE)),
                neurons=unit(readout_polynomials(self.problem.readout, readout, _DEGREE)),
                leading=leading,
            )

    def weight_spectrum(self, *, leading: int = 1) -> MeasuredWeights:
        """Measure the singular values of the first layer before and after the step.

        Parameters
        ----------
        leading : int
            How many of the largest ones to look at, at most as many as there are.

        Returns
        -------
        MeasuredWeights
            To be compared with :func:`gradstep.theory.spectra.weight_spectrum.weight_spectrum`.

        Raises
        ------
        InvalidInput
            If `leading` is negative or not an integer.
        """
        leading = integer("leading", leading, 0)
        teacher = unit(self.law.teacher_weights(self.labels.mean, self._sizes.d))[0]
        before, after, readout, shared = map(to_host, (self.before, self.after, self.readout, self._shared))
        with self._under_way():
            return weight_spectrum(before, after, readout, shared, teacher, leading=leading)

    # --- what all of it shares -------------------------------------------------------------------------------------

    @cached_property
    def _sizes(self) -> Sizes[int]:
        return finite_sizes(self.problem)

    @cached_property
    def _engine(self) -> Backend:
        return backend(self.device, self.dtype)

    @cached_property
    def _axes(self) -> Array:
        """The teacher's directions in whitened coordinates, shape (k, d)."""
        return self._engine.double(self.law.directions(self.labels.mean, self._sizes.d))

    @property
    def _rate(self) -> float:
        """``eta / sqrt(N)``."""
        return self.problem.step_size / math.sqrt(self._sizes.width)

    @property
    def _shared(self) -> Array:
        """The direction that all rows of the step share, of any length: of several steps that of what they changed."""
        if self.trained is None:
            return self.damped.linear
        change = self.readout @ (self.after - self.before)
        # Training moves nothing where the activation has slopes of zero: then it is that of one step, as of one.
        return change if self._engine.xp.any(change != 0) else self.damped.linear

    @cached_property
    def _weights(self) -> Array:
        """The first layer after the step, in the precision of the data."""
        return self._data(self.after)

    @property
    def _fit_sample(self) -> Sample | ChosenRows:
        if self.rows is not None:
            return cast(ChosenRows, self.rows.fit_sample(self.seed, self._sizes.n))
        return fit_sample(self.seed, self._sizes.n, self._sizes.d)

    @contextmanager
    def _under_way(self) -> Iterator[None]:
        with threads_of(self.problem), within_range("the simulation"), host_errors():
            yield

    def _shaped(self, name: str, values: Any, *shapes: tuple[int | None, ...]) -> Array:
        """Return values of one of the shapes, in which None is any length, on the device in double precision."""
        named = [", ".join("any" if length is None else str(length) for length in shape) for shape in shapes]
        wanted = f"shape {' or '.join(f'({each})' for each in named)}"
        try:
            array = self._engine.double(as_floats(name, values))
        except (InvalidInput, TypeError):
            raise InvalidInput(name, values, f"real numbers of {wanted}") from None
        found = tuple(array.shape)
        if not any(
            len(found) == len(shape) and all(b in (a, None) for a, b in zip(found, shape, strict=True))
            for shape in shapes
        ):
            raise InvalidInput(name, f"shape {found}", wanted)
        return array

    def _finite(self, name: str, array: Array) -> Array:
        if not self._engine.xp.all(self._engine.xp.isfinite(array)):
            raise InvalidInput(name, "inf or nan", "finite numbers")
        return array

    def _unit(self, name: str, values: Any) -> Array:
        """Return a vector of the inputs' dimension, which has the length one."""
        vector = self._finite(name, self._shaped(name, values, (self._sizes.d,)))
        length = float(vector @ vector) ** 0.5
        if abs(length - 1) > _UNIT:
            raise InvalidInput(name, f"a vector of length {length:.6g}", "a unit vector")
        return vector

    def _columns(self, readouts: Any) -> tuple[Array, tuple[int, ...]]:
        """Return readouts as columns (N, P), and the shape that their errors have: () for one that is a vector."""
        given = self._finite(
            "readouts", self._shaped("readouts", readouts, (self._sizes.width,), (self._sizes.width, None))
        )
        shape = tuple(given.shape[1:])
        if shape == (0,):
            raise InvalidInput("readouts", f"shape {tuple(given.shape)}", "at least one readout")
        return (given if shape else given[:, None]), shape

    def _data(self, values: Array) -> Array:
        xp = self._engine.xp
        return xp.astype(values, getattr(xp, cast(Precision, self.dtype)), copy=False)

    def _labelled(self, sample: Sample | ChosenRows) -> Iterator[tuple[Array, Array]]:
        """Yield blocks of inputs and labels; without noise those are what is to be learned."""
        for inputs, normals in self._blocks(sample):
            x = self._engine.data(self.law.times_root(self._engine.double(inputs)))
            u = self.law.teacher_input(self.labels.mean, x)
            yield x, self.labels.mean(u) if sample.noise is None else self.labels.draw(u, self._engine.data(normals))
            self.after_block()

    def _blocks(self, sample: Sample | ChosenRows) -> Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        return sample.blocks(self._engine.drawing) if isinstance(sample, Sample) else sample.blocks()

    @host_errors()
    def _gathered(self, sample: Sample | ChosenRows) -> tuple[Array, Array]:
        inputs, labels = zip(*self._labelled(sample), strict=True)
        return self._engine.xp.concat(inputs), self._engine.xp.concat(labels)

    def _design(self, sample: Sample | ChosenRows | None = None) -> Iterator[tuple[Array, Array]]:
        """Yield blocks of features and labels in double precision, by default those of the fit."""
        for x, labels in self._labelled(sample or self._fit_sample):
            yield self._engine.double(self._activated(x)), self._engine.double(labels)
