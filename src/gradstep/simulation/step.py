"""One full gradient step on the first layer, and its effect on the weights."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from array_api_compat import array_namespace, device

from gradstep.gaussian import ScalarFunction
from gradstep.simulation.backend import Array, Backend
from gradstep.simulation.rowwise import for_rows


@dataclass(frozen=True)
class Gradient:
    """The averaged gradient of one instance.

    Parameters
    ----------
    rows : array, shape (N, d)
        ``G_i = (1/n_step) sum_mu a_i (y_mu - f(x_mu)) sigma'(<w_i, x_mu>) x_mu``, double precision.
    linear : array, shape (d,)
        ``g = X^T (y - f(X)) / n_step``, double precision: the direction all rows share when ``E sigma'`` is not zero.
    """

    rows: Array
    linear: Array


def gradient(
    backend: Backend,
    activation: ScalarFunction,
    samples: Iterable[tuple[Array, Array]],
    weights: Array,
    readout: Array,
    *,
    output_factor: float,
) -> Gradient:
    """Average the gradient over a sample, one block of rows at a time.

    The samples are blocks of inputs and labels, shapes (rows, d) and (rows,), on the device. They, the first layer,
    shape (N, d), and the readout ``a_i`` at initialisation, shape (N,), have the precision of the data. The network is
    ``f(x) = output_factor * sum_i a_i sigma(<w_i, x>)``. The gradient is in double precision.
    """
    rows, count = backend.zeros(tuple(weights.shape)), 0
    linear = backend.zeros((weights.shape[1],))
    for x, labels in samples:
        residual = 0 * labels
        preactivations = x @ weights.T  # replaced by residual * sigma' below

        def weigh_slopes(part: slice, u: Array = preactivations, y: Array = labels, r: Array = residual) -> None:
            r[part] = y[part] - output_factor * (activation(u[part, :]) @ readout)
            u[part, :] = activation.derivative(u[part, :]) * r[part][:, None]

        for_rows(weigh_slopes, x.shape[0], backend.threads)
        rows += backend.double(preactivations.T @ x)
        linear += backend.double(residual @ x)
        count += x.shape[0]
    rows *= backend.double(readout)[:, None] / count
    return Gradient(rows, linear / count)


@dataclass(frozen=True)
class Spike:
    """The part of the step along the direction that all neurons share, and the variance of the other part.

    Weights and directions are in whitened coordinates, ``C^(1/2) w``, in which inputs are isotropic.

    Parameters
    ----------
    direction : array, shape (d,)
        Unit vector ``v = g / |g|``; the teacher's direction when no step is taken, or ``g = 0``.
    alignment : float
        ``<v, beta*>``; nan when no step is taken, or ``g = 0``. For a teacher of several directions, the length of the
        projection of ``v`` on their span.
    strength : float
        Operator norm ``|s| |a|`` of the rank-one part ``s a v^T`` of the change of the weights, where ``s`` is the
        least-squares coefficient of ``a_i`` in ``<change_i, v>``. Theory: ``(eta / sqrt N) |E sigma'| |g| |a|``.
    bulk_variance : float
        Mean over neurons of ``|w_i - <w_i, v> v|^2 * d / (d - 1)`` after the step.
    """

    direction: Array
    alignment: float
    strength: float
    bulk_variance: float


def measure_spike(
    before: Array, after: Array, readout: Array, linear: Array | None, axes: Array | None = None
) -> Spike:
    """Measure the spike that the step adds to the rows, and the variance of the rows orthogonal to it.

    The weights before and after the step have shape (N, d) and are whitened, and `linear`, shape (d,), is that of
    `Gradient`, whitened; None when no step was taken. The readout (N,) is that at initialisation. The `axes` (k, d) are
    orthonormal directions of the teacher, by default the first coordinate axis. All are in double precision.
    """
    d, xp = after.shape[1], array_namespace(after)
    axes = xp.eye(1, d, dtype=after.dtype, device=device(after)) if axes is None else axes
    if linear is None or not xp.any(linear != 0):
        direction = axes[0, :]
        alignment, strength = math.nan, 0.0
    else:
        direction = linear / (linear @ linear) ** 0.5
        seen = axes @ direction
        alignment = float(seen[0]) if axes.shape[0] == 1 else float(seen @ seen) ** 0.5
        projections = (after - before) @ direction
        # |s| |a| with s = <a, projections> / |a|^2
        strength = abs(float(readout @ projections)) / float(readout @ readout) ** 0.5
    rest = after - (after @ direction)[:, None] * direction[None, :]
    rest *= rest
    total = float((rest @ (0 * direction + 1)) @ (0 * readout + 1))
    return Spike(direction, alignment, strength, total / after.shape[0] * d / (d - 1))
