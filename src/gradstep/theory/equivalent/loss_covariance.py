"""Covariance of the minimal losses of two fits on the same draw.

The fits ``a`` and ``b`` have the same network and the same samples, and differ for instance in the penalty. A sample
couples them by ``epsilon(kappa) = E[(y - f_a)(y - f_b) | kappa]``. A neuron of group ``g`` couples them by ``phi_g``,
the mean product of its two *fields*; a field is ``A`` of the uniform equivalent times the neuron's readout weight. Over
nodes and groups ``x = (epsilon, phi)`` solves

    x = x0 + H (s x),      s = ( n w / ((1 + V_a)(1 + V_b)),  N_g / (A_a A_b) ),

where ``x0`` holds the contributions of the noise, the teacher and the means, ``s`` holds the numbers of samples and
neurons, and the symmetric ``H`` is an average over directions of products of the slopes in one fit and in the other.
For ``a = b`` this is the linear response of the uniform equivalent. A sample adds ``e^2 / (1 + V)`` to the loss, and a
neuron subtracts ``field^2 / A`` from it. For Gaussian ``e`` and fields of means ``m`` the covariance is

    Cov = 2 sum s x0 x - 2 sum s (m_a m_b)^2 + n Cov_kappa(p_a, p_b) + N Cov_g(q_a, q_b),

with ``p = epsilon_aa / (1 + V)`` and ``q = phi_aa / A``. The last two terms come from the random numbers of samples
near a kappa and of neurons in a group. Labels are not Gaussian given kappa; the difference in their fourth moments is
added. This project.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradstep.errors import NotConverged
from gradstep.gaussian import ScalarFunction, trapezoidal_rule
from gradstep.theory.equivalent.leverage import TOLERANCE
from gradstep.theory.equivalent.stacks import identity
from gradstep.theory.equivalent.tables import Tables
from gradstep.theory.equivalent.uniform import UniformSolution

__all__ = ["SharedDraw", "loss_covariance", "square_variance"]

Array = NDArray[np.float64]

#: Rule for the teacher's coordinate off the spike; a kink costs its square, far less than a spread needs.
_REST, _REST_WEIGHT = trapezoidal_rule(0.025, 7.98, thinning=math.inf)


@dataclass(frozen=True)
class SharedDraw:
    """The network and the samples that all fits share."""

    tables: Tables  #: Without a batch axis.
    teacher: ScalarFunction
    alignment: float  #: Overlap of the spike direction with the teacher.
    noise: float  #: Standard deviation of the label noise.
    #: ``d - 1``, ``N`` and ``n``.
    directions: float
    width: float
    samples: float

    def deviations(self, fits: UniformSolution) -> Array:
        """Return teacher less mean output, shape (fits, signs, nodes, coordinates).

        An odd activation has the nodes ``kappa > 0`` only: there the sign of kappa is one more random number.
        """
        kappa = self.tables.features.kappa[:, None]
        signs = np.array([1.0, -1.0] if kappa[0, 0] > 0 else [1.0])[:, None, None]
        rest = np.sqrt(max(1 - self.alignment**2, 0.0)) * _REST
        target = np.asarray(self.teacher(signs * self.alignment * kappa + rest), dtype=np.float64)
        learned, slope = fits.learned[:, None, :, None], fits.rest_slope[:, None, :, None]
        return np.asarray(target - signs * learned - slope * _REST)


def loss_covariance(draw: SharedDraw, fits: UniformSolution) -> tuple[Array, Array]:
    """Return the covariance of the minimal losses over draws of all but the step's samples.

    The fits are a batch. The covariance, shape (fits, fits), is that of ``sum_mu (y_mu - f(x_mu))^2 + ridge |b|^2`` at
    its minimum (`n` times `train_loss`). It comes with the errors ``E[(y - f)^2 | kappa]`` of each fit, shape
    (fits, nodes).

    Docs, "Spread", equations (D3), (D4), (D7) and (D8).
    """
    features, weight, share = draw.tables.features, draw.tables.features.weight, draw.tables.groups.weight
    point = fits.point
    nodes = len(weight)
    a, b = np.triu_indices(len(fits.learned))
    samples = draw.samples * weight * point.remaining[a] * point.remaining[b]
    neurons = draw.width * share * point.resolvent[a] * point.resolvent[b]
    count = np.concatenate([samples, neurons], axis=1)

    # Sources: what noise, teacher and means leave to a sample, and ask of a neuron.
    missing = features.teacher_mean - fits.learned
    means = missing[a] * missing[b]
    square = features.teacher_square + draw.noise**2
    own = square - features.teacher_mean**2 - features.teacher_slope * (fits.rest_slope[a] + fits.rest_slope[b])
    own = own + means + (fits.slopes[a] * fits.slopes[b]).sum(axis=1)
    own += (fits.length_slopes[a] * fits.length_slopes[b]).sum(axis=1)
    field = fits.mean_field * np.sqrt(point.inverse_resolvent / (draw.width * share))
    fields = field[a] * field[b]
    along = fits.free_overlap / np.sqrt(point.density * draw.directions)[:, None]
    source = np.concatenate([own, fields + (along[a] * along[b]).sum(axis=1)], axis=1)

    solution = source + _ladder(draw, fits, a, b, count, source)
    covariance = 2 * (count * source * solution).sum(axis=1)
    covariance -= 2 * (count * np.concatenate([means, fields], axis=1) ** 2).sum(axis=1)
    covariance += (samples * _beyond_gaussian(draw, fits, a, b, means)).sum(axis=1)
    single = solution[a == b]
    error = single[:, :nodes]
    by_sample, by_neuron = error * point.remaining, single[:, nodes:] * point.resolvent
    matrix = np.empty((len(single), len(single)))
    matrix[a, b] = matrix[b, a] = covariance
    matrix += draw.samples * np.cov(by_sample, aweights=weight, ddof=0)
    matrix += draw.width * np.cov(by_neuron, aweights=share, ddof=0)
    return matrix, error


def _ladder(
    draw: SharedDraw, fits: UniformSolution, a: NDArray[np.intp], b: NDArray[np.intp], count: Array, source: Array
) -> Array:
    """Return ``x - x0`` for pairs of fits.

    Docs, "Spread", equations (D5) and (D6).
    """
    point, table = fits.point, draw.tables.shared.leverage_table
    nodes = len(draw.tables.features.weight)
    hop = np.zeros((len(a), source.shape[1], source.shape[1]))
    of_nodes, source_of, of_groups = hop[:, :nodes, :nodes], hop[:, nodes:, :nodes], hop[:, nodes:, nodes:]
    # One class after the other: the matrices of all classes together may be gigabytes.
    for kind, matrices in zip(table.kinds, point.matrices, strict=True):
        for j, (part, profile) in enumerate(zip(kind.share[0], kind.profile[0], strict=True)):
            of_class, alone, root = matrices.of_class(j), kind.of_class(j), np.sqrt(point.density * profile)
            slope = of_class.of_groups_and_nodes(alone)[:, 0] / root[..., None]
            own = of_class.of_groups()[:, 0] / (root[..., None] * root[:, None])
            _add_products(of_nodes, of_class.of_nodes(alone)[:, 0], a, b, part, 1.0)
            _add_products(source_of, slope, a, b, part, profile[:, None])
            _add_products(of_groups, own, a, b, part, profile[:, None] * profile)
    of_nodes *= draw.directions
    source_of += table.variance[0]
    of_groups /= draw.directions
    hop[:, :nodes, nodes:] = np.swapaxes(source_of, 1, 2)
    # In the units in which it is symmetric, where nothing large hides what is small.
    unit = np.sqrt(count)
    hop *= unit[:, :, None] * unit[:, None, :]
    try:
        right = hop @ (unit * source)[..., None]
        return np.asarray(np.linalg.solve(identity(hop.shape[1]) - hop, right)[..., 0] / unit)
    except np.linalg.LinAlgError as singular:
        # A few inputs of which the features are so large that they hide all others.
        advice = "Use a smaller step, or an activation that grows more slowly."
        raise NotConverged("the covariance of the losses", math.inf, TOLERANCE, advice) from singular


def _add_products(
    sums: Array, values: Array, a: NDArray[np.intp], b: NDArray[np.intp], share: float, scale: Array | float
) -> None:
    """Add a share of the products of the values of two fits, times a scale, to the sum of each pair."""
    product = np.empty(values.shape[1:])
    for total, first, second in zip(sums, a, b, strict=True):
        np.multiply(values[first], values[second], out=product)
        product *= scale
        product *= share
        total += product


def _beyond_gaussian(
    draw: SharedDraw, fits: UniformSolution, a: NDArray[np.intp], b: NDArray[np.intp], means: Array
) -> Array:
    """Return ``Cov(e_a^2, e_b^2 | kappa)`` of the labels' own part of ``e``, less what a Gaussian would have."""
    deviation, noise = draw.deviations(fits), draw.noise**2
    square, product = deviation**2, deviation[a] * deviation[b]
    mean = (square @ _REST_WEIGHT).mean(axis=1)
    fourth, second = (product**2 @ _REST_WEIGHT).mean(axis=1), (product @ _REST_WEIGHT).mean(axis=1)
    covariance = fourth - mean[a] * mean[b] + 4 * noise * second + 2 * noise**2
    return np.asarray(covariance - 2 * (second + noise) ** 2 + 2 * means**2)


def square_variance(draw: SharedDraw, fits: UniformSolution, error: Array) -> Array:
    """Return the variance of ``(f - f*)^2`` over fresh inputs, shape (fits,), given ``E[(y - f)^2 | kappa]``."""
    square = draw.deviations(fits) ** 2
    second, fourth = (square @ _REST_WEIGHT).mean(axis=1), (square**2 @ _REST_WEIGHT).mean(axis=1)
    rest = error - draw.noise**2 - second
    weight = draw.tables.features.weight
    mean = ((second + rest) * weight).sum(axis=1)
    return np.asarray(((fourth + 6 * second * rest + 3 * rest**2) * weight).sum(axis=1) - mean**2)
