r"""Singular values of the first layer after a second step on fresh samples, for a readout with finitely many values.

After the first step the rows of a readout ``a`` are a spike :math:`sav` and a Gaussian of variance :math:`c_a/d` in
every direction. The gradient of the second step then has a different mean for every value of the readout,

.. math::
    \Delta_a=\frac{e_2}{n_0}\sum_\mu a\,D_a(\kappa_\mu)\,r_\mu x_\mu,\qquad
    D_a(\kappa)=E_z\sigma'\bigl(sa\kappa+\sqrt{c_a}\,z\bigr),\qquad \kappa=\langle v,x\rangle,

so that the step adds one direction for every value. Their products :math:`\langle\Delta_a,\Delta_{a'}\rangle` determine
these directions, and the noise of the samples is a part of the products. Single neurons deviate from the means by
independent noise, whose variance depends on the readout. The outliers are those of a low-rank matrix that is added to
independent rows of these variances.

This project. With a single value of the readout there is one direction, the sum of both gradients. The number of
outliers after steps :math:`N^{\alpha_1}` and :math:`N^{\alpha_2}` grows as Moniri and Hassani 2026 say.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from gradstep.errors import InvalidInput
from gradstep.gaussian import gaussian_rule, smoothed
from gradstep.problem import Problem, Step
from gradstep.theory.equivalent.tables import sizes_of
from gradstep.theory.spectra.feature_spectrum import check_finite
from gradstep.theory.step.fresh_steps import derivative_of
from gradstep.theory.step.statistics import step_statistics

__all__ = ["SecondOutlier", "SecondStep", "second_step"]

Array = NDArray[np.float64]

#: Share of the way to the edge of the bulk at which the search for outliers begins.
_EDGE_MARGIN = 1e-9


@dataclass(frozen=True)
class SecondOutlier:
    """A singular value of the first layer above its bulk.

    Attributes
    ----------
    singular_value : float
    teacher_overlap : float
        Squared cosine of its vector in input space with the teacher's direction.
    """

    singular_value: float
    teacher_overlap: float


@dataclass(frozen=True)
class SecondStep:
    """Law of the rows of the first layer after the second step.

    Attributes
    ----------
    readout, weight : ndarray, shape (values,)
        Values of the readout, and their shares of the neurons.
    mean : ndarray, shape (values, directions)
        Mean row of each value in orthonormal directions, of which the first is the teacher's.
    variance : ndarray, shape (values,)
        Variance of the rest of a row, times d.
    width, aspect : float
        ``N``, and ``N / d``.
    """

    readout: Array
    weight: Array
    mean: Array
    variance: Array
    width: float
    aspect: float

    @property
    def alignment(self) -> float:
        """Cosine of the sum of all rows, with the readout as weights, with the teacher's direction."""
        shared = (self.weight * self.readout) @ self.mean
        return float(shared[0] / np.linalg.norm(shared))

    @cached_property
    def _end(self) -> float:
        """Stieltjes transform at the upper edge of the bulk."""
        least = -1 / float(self.variance.max())
        return float(brentq(self._slope, least * (1 - 1e-12), least * 1e-9, xtol=1e-15, rtol=1e-14))

    @property
    def edge(self) -> float:
        """Largest singular value of the bulk."""
        return math.sqrt(self._place(self._end))

    def _place(self, m: float) -> float:
        """Return the eigenvalue above the bulk at which the Stieltjes transform of ``W^T W`` is m."""
        return float(-1 / m + self.aspect * (self.weight @ (self.variance / (1 + self.variance * m))))

    def _slope(self, m: float) -> float:
        """Return the derivative of `_place`."""
        return float(1 / m**2 - self.aspect * (self.weight @ (self.variance / (1 + self.variance * m)) ** 2))

    def _strengths(self, m: float) -> tuple[Array, Array]:
        """Return the eigenvalues, falling, and vectors of the matrix that has the eigenvalue one at an outlier."""
        root = np.sqrt(self.weight * self.width / (1 + self.variance * m))[:, None] * self.mean
        values, vectors = np.linalg.eigh(-m * (root.T @ root))
        return values[::-1], vectors[:, ::-1]

    @cached_property
    def outliers(self) -> tuple[SecondOutlier, ...]:
        """The outliers, the largest first. Docs, "Spectra", equation (Z12)."""
        found, top = [], math.log(-self._end * (1 - _EDGE_MARGIN))
        for place in range(int((self._strengths(-math.exp(top))[0] > 1).sum())):

            def excess(log_m: float, place: int = place) -> float:
                return float(self._strengths(-math.exp(log_m))[0][place]) - 1

            low = top - 1
            while excess(low) > 0:
                low -= 1
            m = -math.exp(brentq(excess, low, top, xtol=1e-14, rtol=1e-14))
            found.append(self._outlier(m, self._strengths(m)[1][:, place]))
        return tuple(found)

    def _outlier(self, m: float, vector: Array) -> SecondOutlier:
        z, rate = self._place(m), 1 / self._slope(m)
        gain = 1 + self.variance * m
        left = 1 / (z * gain)
        # The derivative of the left resolvent is the negative of its square.
        square = 1 / (z**2 * gain) + self.variance * rate / (z * gain**2)
        seen = self.weight * self.width * (self.mean @ vector) ** 2
        norm = rate / m**2 + float(seen @ (z * square - left))
        return SecondOutlier(math.sqrt(z), float(vector[0] ** 2 / norm))


def second_step(problem: Problem, eta: float | Step | None = None) -> SecondStep:
    r"""Predict the first layer after a second step on as many fresh samples as the first had.

    Docs, "Spectra", equations (Z10) and (Z11).

    Parameters
    ----------
    problem : Problem
        The first step: finite `d` and width, output scale ``"1/N"``, and a readout with finitely many values. The fit
        does not matter.
    eta : float or Step, optional
        Size of the second step; by default that of the first.

    Returns
    -------
    SecondStep

    Raises
    ------
    InvalidInput
        For infinite sizes, a Gaussian readout (whose bulk has no edge) and the output scale ``"1/sqrt(N)"``.

    Notes
    -----
    If activation and teacher both have an even part, the gradient also stretches the rows along the teacher. This may
    push further singular values out of a network's bulk, which are not predicted.
    """
    check_finite(problem, "network")
    if problem.readout.kind == "gaussian":
        raise InvalidInput("readout", "gaussian", "a constant, or values with their shares: the bulk then has an edge")
    if problem.output_scale != "1/N":
        raise InvalidInput("output_scale", problem.output_scale, "'1/N'")
    d, width, n_step, *_ = sizes_of(problem)
    first = step_statistics(problem, d, width, n_step)
    a, weight = np.asarray(problem.readout.values), np.asarray(problem.readout.weights)
    known = first.stretch(a, a**2) ** 2 + first.bulk * a**2
    second = problem.eta if eta is None else eta if isinstance(eta, Step) else Step(eta)
    e, phi = second.size(width) / math.sqrt(width), d / n_step

    # The neurons' mean feature and derivative at every projection on the first spike.
    nodes, node_weight = gaussian_rule(problem.link.kinks, resolution=0.5, order=8)
    shift, scale = first.spike * a[:, None] * nodes, np.sqrt(known)[:, None]
    features = smoothed(problem.activation, shift, scale)
    slopes = smoothed(derivative_of(problem.activation), shift, scale)
    output = (weight * a) @ features.mean

    # The residual, given the projection on the spike and that on the teacher's other part.
    gamma = first.alignment
    rho = math.sqrt(max(1 - gamma**2, 0.0))
    other, other_weight = gaussian_rule(resolution=0.5, order=8)
    residual = np.asarray(problem.link(gamma * nodes[:, None] + rho * other)) - output[:, None]
    mean, along = residual @ other_weight, residual @ (other_weight * other)
    square = residual**2 @ other_weight + problem.noise**2

    # Mean rows: along the first spike, along the teacher's other part, and along the samples' noise.
    pulled = e * a[:, None] * slopes.mean * node_weight
    spike, teacher = pulled @ (mean * nodes) + first.spike * a, pulled @ along
    noise = phi * (pulled * (square / node_weight)) @ pulled.T
    values, vectors = np.linalg.eigh(noise)
    rest = vectors * np.sqrt(np.maximum(values, 0.0))
    rows = np.column_stack([gamma * spike + rho * teacher, rho * spike - gamma * teacher, rest])

    # The variance with which single neurons deviate from these means.
    stretch = 1 + e * a * ((slopes.slope / scale) @ (node_weight * mean))
    spread = np.maximum(slopes.second_moment - slopes.mean**2, 0.0) @ (node_weight * square)
    variance = known * stretch**2 + (e * a) ** 2 * phi * spread
    return SecondStep(a, weight, rows, variance, width, width / d)
