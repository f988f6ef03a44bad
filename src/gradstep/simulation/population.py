r"""Exact test error given the weights: no test set, hence no test-set noise.

.. math::

    E\Bigl(\sum_i b_i \sigma(u_i) - f_*(t)\Bigr)^2 = b^T K b - 2\, b^T c + E f_*(t)^2,
    \qquad u_i = \langle w_i, x\rangle,\ t = \langle\beta_*, x\rangle,

with ``K_ij = E sigma(u_i) sigma(u_j)`` and ``c_i = E sigma(u_i) f*(t)`` for ``x ~ N(0, I)``. K has a closed form for a
few activations; for the others see `gradstep.simulation.conditional_kernel`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import NDArray

from gradstep.errors import NotConverged
from gradstep.gaussian import ScalarFunction, moments, smoothed
from gradstep.simulation.backend import Array, to_host
from gradstep.simulation.closed_kernels import ClosedKernel, closed_kernel
from gradstep.simulation.conditional_kernel import FeatureKernel, conditional_kernel
from gradstep.simulation.tiles import map_symmetric

_REACH = 9.0
_PANEL_NODES = 16
_MAX_NODES = 20_000
_TABLE_POINTS = 200_000
_ROUNDING = 1e-13


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

    Parameters
    ----------
    activation, teacher : ScalarFunction
        ``sigma`` and ``f*``.
    weights : array, shape (N, d)
        First layer, double precision.
    teacher_direction, spike_direction : array, shape (d,)
        Unit vectors: ``beta*``, and the direction the general kernel conditions on.
    readouts : array, shape (N, P)
        One fitted readout a column.
    tolerance : float
        Accepted error of the test error, relative to ``E f*^2``.

    Returns
    -------
    PopulationRisk
        For every column.

    Raises
    ------
    NotConverged
        If the general kernel cannot reach the tolerance.
    """
    xp = array_namespace(weights)
    scale = float(moments(teacher).second_moment)
    norms = to_host(xp.sum(readouts * readouts, axis=0))
    accepted = tolerance * scale / max(float(norms.max()), 1e-300)
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

    Parameters
    ----------
    activation : ScalarFunction
        Activation.
    weights : array, shape (N, d)
        First layer, double precision.
    direction : array, shape (d,)
        Unit vector the general method conditions on; unused by closed forms.
    tolerance : float
        Accepted spectral norm of the error; raised to what rounding allows if it asks for more.

    Returns
    -------
    FeatureKernel
        The N x N matrix and a bound on its error.
    """
    closed = closed_kernel(activation)
    if closed is not None:
        return FeatureKernel(_closed_matrix(closed, weights), 0.0)
    squared_norms = to_host(array_namespace(weights).sum(weights * weights, axis=1))
    trace = float(np.sum(smoothed(activation, 0.0, np.sqrt(squared_norms)).second_moment))
    return conditional_kernel(activation, weights, direction, max(tolerance, _ROUNDING * trace))


def _closed_matrix(closed: ClosedKernel, weights: Array) -> Array:
    matrix = weights @ weights.T
    variances = array_namespace(weights).sum(weights * weights, axis=1)
    map_symmetric(
        matrix, lambda tile, rows, columns: closed(tile, variances[rows][:, None], variances[columns][None, :])
    )
    return matrix


def teacher_correlations(
    activation: ScalarFunction,
    teacher: ScalarFunction,
    mean: NDArray[np.float64],
    scale: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Compute ``c_i = E sigma(mean_i t + scale_i z) f*(t)``, with t and z independent standard normals.

    The expectation over z is the smoothed activation; that over t is a composite Gauss-Legendre rule, with panels
    split at the kinks of the teacher and narrow enough for the sharpest neuron.

    Parameters
    ----------
    activation, teacher : ScalarFunction
        ``sigma`` and ``f*``.
    mean, scale : ndarray, shape (N,)
        ``<w_i, beta*>`` and the norm of the rest of ``w_i``.

    Returns
    -------
    ndarray, shape (N,)
        The correlations.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        sharpness = float(np.where(mean == 0, 0.0, np.abs(mean) / scale).max())
    width = min(1.0, 2.0 / sharpness if sharpness > 0 else 1.0, teacher.pole_distance)
    if not 2 * _REACH / width * _PANEL_NODES <= _MAX_NODES:
        raise NotConverged(
            "Teacher correlations",
            2 * _REACH / width * _PANEL_NODES if width > 0 else math.inf,
            _MAX_NODES,
            "A neuron is almost parallel to the teacher, or the teacher is too sharp: use a larger d.",
        )
    nodes, weights = _legendre_panels(teacher.kinks, width)
    weighted = weights * np.asarray(teacher(nodes))
    rows = max(1, _TABLE_POINTS // nodes.size)
    pieces = [
        np.asarray(smoothed(activation, mean[i : i + rows, None] * nodes, scale[i : i + rows, None]).mean) @ weighted
        for i in range(0, mean.size, rows)
    ]
    return np.concatenate(pieces)


def _legendre_panels(kinks: tuple[float, ...], width: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return nodes and weights of E over a standard normal, in panels no wider than `width` and split at `kinks`."""
    edges = np.unique([-_REACH, _REACH, *(k for k in kinks if abs(k) < _REACH)])
    pieces = [np.linspace(a, b, math.ceil((b - a) / width) + 1)[:-1] for a, b in pairwise(edges)]
    borders = np.append(np.concatenate(pieces), edges[-1])
    unit_nodes, unit_weights = np.polynomial.legendre.leggauss(_PANEL_NODES)
    half = np.diff(borders)[:, None] / 2
    nodes = (borders[:-1, None] + half + half * unit_nodes).ravel()
    weights = (half * unit_weights).ravel() * np.exp(-(nodes**2) / 2) / math.sqrt(2 * math.pi)
    return nodes, weights
