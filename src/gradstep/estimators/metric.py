r"""The metric of the inputs: it sets the size of pre-activations, and damps a gradient as a ridge fit does.

With inputs that vary more in some directions than in others, the plain gradient favours those directions whether the
targets depend on them or not. In the metric of the second moment :math:`\Sigma` of the standardised inputs it becomes

.. math:: G \mapsto G\,(1+\delta)(\Sigma+\delta I)^{-1},

row by row what ridge regression on the inputs would find, with the damping :math:`\delta` as its penalty. Infinite
damping is the plain gradient, and for isotropic inputs every damping is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradstep.estimators.rows import Sample
from gradstep.simulation.leave_one_out import penalty_path

__all__ = ["Metric", "measure"]

Host = NDArray[np.float64]

_SIDE = 2048
"""Where there are more rows and more inputs than this, the second moment is that of this many distinct rows."""

_RANK = 1e-6
"""Directions whose root mean square is smaller than this times the largest count as directions without variance.

The root of an eigenvalue that is zero but for rounding is a few 1e-8 in a small table, and some 1e-7 in a large one.
"""


@dataclass(frozen=True)
class Metric:
    """Second moment of the standardised inputs."""

    eigenvalues: Host  #: Shape (r,).
    #: Eigenvectors of the second moment; if there are fewer rows than inputs, those that the rows span. Shape (d, r).
    directions: Host
    #: Penalty, relative to the number of rows, with which ridge regression of the targets on the inputs themselves has
    #: the least leave-one-out error.
    damping: float

    def sizes(self, weights: Host) -> Host:
        """Return the root mean square over inputs of every ``<w_i, z>``, shape (N,)."""
        return np.asarray(np.sqrt((weights @ self.directions) ** 2 @ self.eigenvalues))

    def movement(self, weights: Host, change: Host) -> float:
        """Return the root mean square of all ``<change_i, z>`` over that of all ``<w_i, z>``; zero without any."""
        before = float(np.linalg.norm(self.sizes(weights)))
        return float(np.linalg.norm(self.sizes(change))) / before if before > 0 else 0.0

    def damped(self, gradient: Host, damping: float) -> Host:
        """Return ``gradient (1 + damping) (Sigma + damping I)^-1``, shape (N, d); itself where damping is infinite.

        Directions that the rows measured do not span are left as they are.
        """
        if math.isinf(damping):
            return gradient
        factor = (1 + damping) / (self.eigenvalues + damping)
        return gradient + ((gradient @ self.directions) * (factor - 1)) @ self.directions.T

    def noise(self, damping: float) -> Host:
        r"""Return the variances of ``<g, z>`` along each of the directions, for the damped gradient g of pure noise.

        Shape (r,), up to a factor. The plain gradient has the covariance :math:`\Sigma`, so that they are
        :math:`\lambda^2/(\lambda+\delta)^2`.
        """
        damped = self.eigenvalues if math.isinf(damping) else self.eigenvalues / (self.eigenvalues + damping)
        return np.asarray(damped**2)

    def resolved(self, gradients: Host) -> Host:
        """Return the parts of gradients, shape (rows, d), along directions in which the inputs vary.

        A network has slopes along constant inputs, too, but no row tells whether they are right.
        """
        roots = np.sqrt(self.eigenvalues)
        seen = self.directions[:, roots > _RANK * roots.max(initial=0.0)]
        return gradients if seen.shape[1] == gradients.shape[1] else (gradients @ seen) @ seen.T

    def leading(self, change: Host) -> tuple[Host, Host]:
        """Find where a change of the first layer, shape (N, d), moves the pre-activations most.

        Return the direction in the inputs, shape (d,), scaled to projections of variance one, and how much each neuron
        moves along it, shape (N,), of norm one.
        """
        roots = np.sqrt(self.eigenvalues)
        left, _, right = np.linalg.svd((change @ self.directions) * roots, full_matrices=False)
        inverse = np.divide(1.0, roots, out=np.zeros(len(roots)), where=roots > _RANK * roots.max())
        return self.directions @ (right[0] * inverse), left[:, 0]


def measure(sample: Sample) -> Metric:
    """Measure the metric on the rows of the step."""
    rows, group = sample.step_rows, sample.copies.group
    if min(int(rows.sum()), sample.z.shape[1]) > _SIDE:
        rows = rows & (group <= np.unique(group[rows])[:_SIDE][-1])
    seen = sample.of(rows)
    ridge = seen.ridge()
    scores = seen.scores(ridge, seen.step_rows, penalty_path(ridge))
    lengths = np.linalg.norm(ridge.vectors, axis=0)
    directions = ridge.vectors / np.where(lengths > 0, lengths, 1.0)
    return Metric(ridge.eigenvalues / ridge.total, directions, float(scores.penalties[scores.best]) / ridge.total)
