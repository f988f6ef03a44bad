r"""Exact test error given the weights, as an expectation over inputs instead of a mean over a test set.

.. math::

    E\Bigl(\sum_i b_i \sigma(u_i) - f_*(t)\Bigr)^2 = b^T K b - 2\, b^T c + E f_*(t)^2,
    \qquad u_i = \langle w_i, x\rangle,\ t = \langle\beta_*, x\rangle,

with ``K_ij = E sigma(u_i) sigma(u_j)`` and ``c_i = E sigma(u_i) f*(t)`` for ``x ~ N(0, I)``. K has a closed form for a
few activations; for the others see `gradstep.simulation.conditional_kernel`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from gradstep.errors import NotConverged
from gradstep.gaussian import ScalarFunction, folded, gaussian_rule, moments, smoothed, smoothed_mean, trapezoidal_rule
from gradstep.host import set_diagonal
from gradstep.resolution import NOTHING
from gradstep.simulation.backend import Array, to_host
from gradstep.simulation.closed_kernels import closed_kernel
from gradstep.simulation.conditional_kernel import FeatureKernel, conditional_kernel
from gradstep.simulation.tiles import map_symmetric

_REACH = 9.0
_PANEL_NODES = 20
_MAX_NODES = 20_000
_TABLE_POINTS = 200_000
_ROUNDING = 1e-13
_DIGITS = 34.0  # -log of the aliasing error aimed at


@dataclass(frozen=True)
class PopulationRisk:
    """Exact test errors of fitted readouts.

    Parameters
    ----------
    test_error : ndarray, shape (P,)
        ``E (f_hat - f*)^2``, never negative.
    error_bound : ndarray, shape (P,)
        Bound on what the truncated kernel adds to it (zero for closed forms).
    """

    test_error: NDArray[np.float64]
    error_bound: NDArray[np.float64]


def population_risk(
    activation: ScalarFunction,
    teacher: ScalarFunction,
    weights: Array,
    teacher_direction: Array,
    spike_direction: Array,
    readouts: Array,
    *,
    tolerance: float,
) -> PopulationRisk:
    """Compute the test error of each readout.

    The first layer has shape (N, d), in double precision, and the readouts, one fitted one a column, shape (N, P). The
    directions are unit vectors (d,): ``beta*``, and that which the general kernel conditions on. The tolerance is the
    accepted error of the test error, relative to ``E f*^2``. Raises `NotConverged` if the general kernel cannot reach
    it.
    """
    xp = array_namespace(weights)
    scale = float(moments(teacher).second_moment)
    norms = to_host(xp.sum(readouts * readouts, axis=0))
    accepted = tolerance * scale / max(float(norms.max()), NOTHING)
    kernel = feature_kernel(activation, weights, spike_direction, accepted)
    overlaps = weights @ teacher_direction
    across = weights - overlaps[:, None] * teacher_direction[None, :]
    correlations = teacher_correlations(
        activation, teacher, to_host(overlaps), to_host(xp.sqrt(xp.sum(across * across, axis=1)))
    )
    cross = xp.asarray(correlations, dtype=xp.float64, device=getattr(weights, "device", None)) @ readouts
    square = xp.sum(readouts * (kernel.matrix @ readouts), axis=0)
    return PopulationRisk(np.maximum(to_host(square - 2 * cross) + scale, 0.0), norms * kernel.error_bound)


def feature_kernel(activation: ScalarFunction, weights: Array, direction: Array, tolerance: float) -> FeatureKernel:
    """Compute ``E sigma(u_i) sigma(u_j)``, in closed form where one is known.

    The first layer, shape (N, d), is in double precision. The general method conditions on the direction, a unit
    vector of shape (d,); closed forms do not use it. The accepted spectral norm of the error is `tolerance`, or what
    rounding allows if that is more.
    """
    variances = array_namespace(weights).sum(weights * weights, axis=1)
    second_moments = np.asarray(smoothed(activation, 0.0, np.sqrt(to_host(variances))).second_moment)
    closed = closed_kernel(activation)
    if closed is None:
        accepted = max(tolerance, _ROUNDING * float(second_moments.sum()))
        return conditional_kernel(activation, weights, direction, accepted, second_moments)

    def transform(tile: Array, rows: slice, columns: slice) -> Array:
        return closed(tile, variances[rows][:, None], variances[columns][None, :])

    matrix = weights @ weights.T
    map_symmetric(matrix, transform)
    set_diagonal(matrix, second_moments)  # where an arcsine of 1 - rounding would lose half the digits
    return FeatureKernel(matrix, 0.0)


def teacher_correlations(
    activation: ScalarFunction,
    teacher: ScalarFunction,
    mean: NDArray[np.float64],
    scale: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Compute ``c_i = E sigma(mean_i t + scale_i z) f*(t)``, with t and z independent standard normals.

    The expectation over z is the smoothed activation. That over t is a trapezoidal sum when the teacher is smooth, and
    otherwise a composite Gauss-Legendre rule with panels split at the kinks of the teacher; both are fine enough for
    the sharpest neuron.

    For each neuron ``mean`` is ``<w_i, beta*>``, and ``scale`` the norm of the part of ``w_i`` orthogonal to ``beta*``.
    """
    rule = _teacher_rule(teacher, mean, scale)
    alike = activation.parity is not None and activation.parity == teacher.parity and not teacher.kinks
    nodes, weights = folded(rule) if alike else rule
    weighted = weights * np.asarray(teacher(nodes))
    rows = max(1, _TABLE_POINTS // nodes.size)
    pieces = [
        smoothed_mean(activation, mean[i : i + rows, None] * nodes, scale[i : i + rows, None]) @ weighted
        for i in range(0, mean.size, rows)
    ]
    return np.concatenate(pieces)


def _teacher_rule(
    teacher: ScalarFunction, mean: NDArray[np.float64], scale: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return nodes and weights of E over a standard normal t, for the teacher times every smoothed neuron."""
    with np.errstate(divide="ignore", invalid="ignore"):
        sharpness = float(np.where(mean == 0, 0.0, np.abs(mean) / scale).max())
    # On the line Im t = y the smoothed neuron grows like exp(y^2 sharpness^2 / 2) and the density like exp(y^2 / 2);
    # the trapezoidal rule of step h errs by exp(-2 pi y / h) times that, for any y inside the teacher's strip.
    growth = 1 + sharpness**2
    y = min(teacher.pole_distance, math.sqrt(2 * _DIGITS / growth))
    step = 2 * math.pi * y / (_DIGITS + growth * y * y / 2)
    panel = min(1.5, 2 / sharpness if sharpness > 0 else math.inf, teacher.pole_distance)
    spacing = panel / _PANEL_NODES if teacher.kinks else step
    if not _MAX_NODES * spacing >= 2 * _REACH:  # also refuses a spacing that is not a number
        raise NotConverged(
            "Teacher correlations",
            2 * _REACH / spacing if spacing > 0 else math.inf,
            _MAX_NODES,
            "A neuron is almost parallel to the teacher, or the teacher is too sharp: use a larger d.",
        )
    if teacher.kinks:
        return gaussian_rule(teacher.kinks, resolution=panel, order=_PANEL_NODES, half_range=_REACH)
    return trapezoidal_rule(step, _REACH, thinning=math.inf)
