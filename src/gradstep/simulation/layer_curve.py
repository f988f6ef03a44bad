"""Learning curves of a first layer from anywhere: a matrix of weights, or a layer of PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradstep.checks import bounded, chosen_seed, finite, function_or_none, integer, positive
from gradstep.errors import InvalidInput, NotConverged, within_range
from gradstep.gaussian import MultivariateFunction, ScalarFunction, function_of, scalar_function
from gradstep.host import detached
from gradstep.labels import Labels
from gradstep.learning import LearningCurve
from gradstep.simulation.arguments import MOST_TEST_SAMPLES
from gradstep.simulation.expected_errors import Population, Risk, Rows, expected_errors, sampled_risk
from gradstep.simulation.input_law import InputLaw
from gradstep.simulation.instance import pool_sample
from gradstep.simulation.population import population_risk
from gradstep.simulation.streams import BLOCK_ROWS
from gradstep.threads import threads_for_products

__all__ = ["Layer", "layer_learning_curve"]

Host = NDArray[np.float64]

#: Accepted error of a risk that stands for that of the pools, relative to that of no fit.
_KNOWN_RISK = 1e-6
#: Number of the sample on which it is measured where there is no exact one: pools have small numbers.
_RISK_TURN = 1 << 30


def layer_learning_curve(
    layer: Any,
    activation: str | Callable[[Any], Any] | ScalarFunction,
    teacher: Any,
    *,
    n: int | Sequence[int],
    ridge: float | Sequence[float],
    bias: ArrayLike | None = None,
    noise: float = 0.0,
    directions: ArrayLike | None = None,
    tolerance: float = 0.003,
    pool: int | None = None,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> LearningCurve:
    r"""Return the learning curve of any first layer: expected errors of ridge fits on ``sigma(W x + bias)``.

    Inputs are standard normal and labels those of a teacher, so that fresh pools are drawn until their scatter is
    small. Which function to use: this one for weights from elsewhere (a layer trained by PyTorch, a construction);
    :meth:`gradstep.Network.learning_curve` for a network of a `Problem`; :func:`gradstep.learning_curve` for rows of a
    table, on the features ``activation(rows @ W.T + bias)``.

    Docs, "Several steps", equation (M6).

    Parameters
    ----------
    layer : array_like, shape (N, d), or object
        Weights, one neuron a row; or what has them as ``weight`` and, if any, offsets as ``bias``, as a
        ``torch.nn.Linear`` does.
    activation : str, callable or ScalarFunction
        Applied to the pre-activations.
    teacher : str, callable, ScalarFunction or MultivariateFunction
        ``f*`` of the projection on one direction, or a formula in ``x1``, ``x2``, ... for several.
    n : int or sequence of int
        Numbers of samples of the fit.
    ridge : float or sequence of float
        Penalties on ``|b|^2`` against the sum of squares.
    bias : array_like, shape (N,), optional
        Offsets, in place of those of the layer.
    noise : float
        Standard deviation of the label noise.
    directions : array_like, shape (d,) or (k, d), optional
        Orthonormal directions of the teacher; by default the first coordinates.
    tolerance, pool
        As in :meth:`gradstep.Network.learning_curve`.
    seed : int
        Of the pools.
    progress
        As in :meth:`gradstep.Network.learning_curve`.

    Returns
    -------
    LearningCurve
        ``test_error`` is without the label noise.

    Raises
    ------
    InvalidInput
        On shapes that do not fit and options out of range.
    NotConverged
        As :func:`gradstep.learning_curve`.

    Examples
    --------
    >>> import numpy as np, gradstep as gs
    >>> weights = np.random.default_rng(0).standard_normal((30, 20)) / 20**0.5
    >>> curve = gs.layer_learning_curve(weights, "relu", "x1*x2", n=[50, 100], ridge=1.0, pool=2000)
    >>> curve.test_error.shape
    (2, 1)
    """
    weights, offsets = _layer(layer, bias)
    function, target = scalar_function(activation), function_of(teacher)
    axes = _axes(directions, target, weights.shape[1])
    labels = Labels("real", target, bounded("noise", noise))
    drawn = Layer(weights, offsets, function, labels, InputLaw(axes=axes), chosen_seed(seed))
    return drawn.learning_curve(n, ridge, tolerance=tolerance, pool=pool, progress=progress)


def _layer(layer: Any, bias: ArrayLike | None) -> tuple[Host, Host | None]:
    """Return weights (N, d) and offsets (N,), if any, of a matrix, or of what has a `weight` and maybe a `bias`."""
    given = getattr(layer, "weight", layer)
    if given is not layer and bias is None:
        bias = getattr(layer, "bias", None)
    weights = finite("layer", detached(given))
    if weights.ndim != 2 or weights.shape[1] < 2:
        raise InvalidInput("layer", f"shape {weights.shape}", "weights of shape (N, d), one neuron a row, with d >= 2")
    if bias is None:
        return weights, None
    offsets = finite("bias", detached(bias))
    if offsets.shape != weights.shape[:1]:
        raise InvalidInput("bias", f"shape {offsets.shape}", f"one offset for each of the {len(weights)} neurons")
    return weights, offsets


def _axes(directions: ArrayLike | None, teacher: ScalarFunction | MultivariateFunction, d: int) -> Host | None:
    """Return the directions of the teacher, orthonormal rows (k, d), if they are given."""
    several = teacher.inputs if isinstance(teacher, MultivariateFunction) else 1
    if several > d:
        raise InvalidInput("teacher", teacher.name, f"at most as many directions as inputs, {d}")
    if directions is None:
        return None
    axes = np.atleast_2d(finite("directions", directions))
    if axes.shape != (several, d) or not np.allclose(axes @ axes.T, np.eye(several), atol=1e-8):
        raise InvalidInput("directions", f"shape {axes.shape}", f"orthonormal rows of shape ({several}, {d})")
    return axes


@dataclass(frozen=True)
class Layer:
    """A first layer with the law of Gaussian inputs and of their labels, which pools are drawn from."""

    weights: Host  #: Shape (N, d).
    offsets: Host | None  #: Shape (N,).
    activation: ScalarFunction
    labels: Labels
    law: InputLaw
    seed: int  #: Of the pools.

    def learning_curve(
        self,
        n: int | Sequence[int],
        ridge: float | Sequence[float],
        *,
        tolerance: float,
        pool: int | None,
        progress: Callable[[int, int], None] | None,
    ) -> LearningCurve:
        """Check the options and return the expected errors, as :func:`layer_learning_curve`."""
        listed = np.atleast_1d(np.asarray(n, dtype=object)).tolist()
        sizes = np.array([integer("n", size, 1, MOST_TEST_SAMPLES) for size in listed])
        penalties = np.atleast_1d(positive("ridge", ridge))
        for name, given, found in (("n", n, sizes), ("ridge", ridge, penalties)):
            if found.ndim != 1 or not found.size:
                raise InvalidInput(name, given, "one number, or a non-empty sequence of them")
        bounded("tolerance", tolerance, positive=True)
        rows = None if pool is None else integer("pool", pool, 1, MOST_TEST_SAMPLES)
        function_or_none("progress", progress, "a function of two numbers of pools: those done, and all")
        population = Population(self.seed, len(self.weights), self.labels.noise**2, self._draw, self._risk)
        with threads_for_products(BLOCK_ROWS, *self.weights.shape), within_range("the learning curve"):
            return expected_errors(population, sizes, penalties, tolerance=tolerance, pool=rows, progress=progress)

    def _draw(self, turn: int, rows: int) -> Iterator[Rows]:
        for normals, _ in pool_sample(self.seed, rows, self.weights.shape[1], turn).blocks():
            x = self.law.times_root(normals)
            values = x @ self.weights.T
            if self.offsets is not None:
                values += self.offsets
            means = np.asarray(self.labels.mean(self.law.teacher_input(self.labels.mean, x)))
            yield Rows(np.asarray(self.activation(values)), means, self.labels.deviation(means))

    def _risk(self, readouts: Host, rows: int) -> Risk:
        """Return the risk of readouts: exact without offsets and for one direction, else measured on many rows."""
        teacher, d = self.labels.mean, self.weights.shape[1]
        if isinstance(teacher, ScalarFunction) and self.offsets is None:
            weights = self.law.times_root(self.weights)
            leading = np.linalg.eigh(weights.T @ weights)[1][:, -1]
            where = weights, self.law.directions(teacher, d)[0], leading, readouts
            with suppress(NotConverged):
                errors = population_risk(self.activation, teacher, *where, tolerance=_KNOWN_RISK).test_error
                return Risk(errors, np.zeros((len(errors),) * 2))
        return sampled_risk(((features, means) for features, means, _ in self._draw(_RISK_TURN, rows)), readouts)
