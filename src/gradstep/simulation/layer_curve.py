"""Learning curves of a first layer from anywhere: a matrix of weights, or a layer of PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradstep.checks import bounded, finite, positive, real
from gradstep.errors import InvalidInput, NotConverged, within_range
from gradstep.gaussian import MultivariateFunction, ScalarFunction, function_of, scalar_function
from gradstep.learning import LearningCurve
from gradstep.simulation.arguments import chosen_seed, count
from gradstep.simulation.backend import to_host
from gradstep.simulation.expected_errors import (
    KNOWN_RISK,
    RISK_ROWS,
    RISK_TURN,
    Population,
    Risk,
    Rows,
    expected_errors,
    sampled_risk,
)
from gradstep.simulation.instance import pool_sample, teacher_input
from gradstep.simulation.population import population_risk
from gradstep.simulation.streams import BLOCK_ROWS
from gradstep.threads import threads_for_products

__all__ = ["layer_learning_curve"]

Host = NDArray[np.float64]


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
    tolerance, pool, progress
        As in :meth:`gradstep.Network.learning_curve`.
    seed : int
        Of the pools.

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
    drawn = _Layer(weights, offsets, function, target, _axes(directions, target, weights.shape[1]), chosen_seed(seed))
    sizes = np.array([count("n", size, 1) for size in np.atleast_1d(np.asarray(n, dtype=object)).tolist()])
    penalties = np.atleast_1d(positive("ridge", ridge))
    deviation = bounded("noise", noise)
    real("tolerance", tolerance, "a finite number > 0", lambda value: 0 < value < math.inf)
    rows = None if pool is None else count("pool", pool, 1)
    population = Population(drawn.seed, len(weights), deviation**2, drawn.rows(deviation), drawn.risk)
    with threads_for_products(BLOCK_ROWS, *weights.shape), within_range("the learning curve"):
        return expected_errors(population, sizes, penalties, tolerance=tolerance, pool=rows, progress=progress)


def _layer(layer: Any, bias: ArrayLike | None) -> tuple[Host, Host]:
    """Return weights (N, d) and offsets (N,) of a matrix, or of what has a `weight` and maybe a `bias`."""
    given = getattr(layer, "weight", layer)
    if given is not layer and bias is None:
        bias = getattr(layer, "bias", None)
    weights = finite("layer", to_host(given))
    if weights.ndim != 2 or weights.shape[1] < 2:
        raise InvalidInput("layer", f"shape {weights.shape}", "weights of shape (N, d), one neuron a row, with d >= 2")
    offsets = np.zeros(len(weights)) if bias is None else finite("bias", to_host(bias))
    if offsets.shape != weights.shape[:1]:
        raise InvalidInput("bias", f"shape {offsets.shape}", f"one offset for each of the {len(weights)} neurons")
    return weights, offsets


def _axes(directions: ArrayLike | None, teacher: ScalarFunction | MultivariateFunction, d: int) -> Host:
    """Return the directions of the teacher, orthonormal rows (k, d)."""
    several = teacher.inputs if isinstance(teacher, MultivariateFunction) else 1
    if several > d:
        raise InvalidInput("teacher", teacher.name, f"at most as many directions as inputs, {d}")
    if directions is None:
        return np.eye(several, d)
    axes = np.atleast_2d(finite("directions", directions))
    if axes.shape != (several, d) or not np.allclose(axes @ axes.T, np.eye(several), atol=1e-8):
        raise InvalidInput("directions", f"shape {axes.shape}", f"orthonormal rows of shape ({several}, {d})")
    return axes


@dataclass(frozen=True)
class _Layer:
    """A first layer with offsets (N,), and a teacher of the projections on some directions (k, d)."""

    weights: Host
    offsets: Host
    activation: ScalarFunction
    teacher: ScalarFunction | MultivariateFunction
    axes: Host
    seed: int

    def rows(self, noise: float) -> Callable[[int, int], Iterator[Rows]]:
        """Return what draws blocks of rows, of a turn and a number of rows, with label noise of one deviation."""

        def draw(turn: int, rows: int) -> Iterator[Rows]:
            for x, _ in pool_sample(self.seed, rows, self.weights.shape[1], turn).blocks():
                features = np.asarray(self.activation(x @ self.weights.T + self.offsets))
                means = np.asarray(self.teacher(teacher_input(self.teacher, x @ self.axes.T)))
                yield Rows(features, means, np.full(len(x), noise))

        return draw

    def risk(self, readouts: Host) -> Risk:
        """Return the risk of readouts: exact without offsets and for one direction, else measured on many rows."""
        if isinstance(self.teacher, ScalarFunction) and not self.offsets.any():
            leading = np.linalg.eigh(self.weights.T @ self.weights)[1][:, -1]
            where = self.weights, self.axes[0], leading, readouts
            with suppress(NotConverged):
                errors = population_risk(self.activation, self.teacher, *where, tolerance=KNOWN_RISK).test_error
                return Risk(errors, np.zeros((len(errors),) * 2))
        rows = self.rows(0.0)(RISK_TURN, RISK_ROWS)
        return sampled_risk(((features, means) for features, means, _ in rows), readouts)
