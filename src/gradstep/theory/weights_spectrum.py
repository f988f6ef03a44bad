r"""Spectrum of the first layer after a step of any size: a deformed Marchenko-Pastur bulk and its outlier.

With :math:`e=\eta/\sqrt N` the rows become :math:`w_i=(1+q\tilde a_i)w_i(0)+s\tilde a_iv+\Delta_i`, and the rows of the
rest :math:`\Delta` of the gradient have covariance :math:`\tilde a_i^2\tau S/d`, where
:math:`S=X^\top\mathrm{diag}(\omega)X/n_0` and :math:`\omega=r^2/E[r^2]` is set by the residuals of the step. In the
eigenbasis of :math:`S` the bulk has independent entries of variance :math:`(u_i+\tau_i\lambda_j)/d`,
:math:`u_i=(1+q\tilde a_i)^2`, :math:`\tau_i=\tau\tilde a_i^2`, and :math:`S` is a weighted Wishart matrix itself. With
:math:`\phi_0=d/n_0` and :math:`M_i=u_ir_0+\tau_ir_1`, everything follows from two unknowns:

.. math::
    p=\frac1d\sum_i\frac{u_i}{1+M_i},\quad \bar q=\frac1d\sum_i\frac{\tau_i}{1+M_i},\quad
    \epsilon=E\frac{\omega}{1+\phi_0\omega\bar qr_0},\quad
    r_0=\frac1{p-z+\bar q\epsilon},\quad r_1=\epsilon r_0 ,

:math:`r_0` being the Stieltjes transform of :math:`W^\top W`. The spike :math:`\sigma\hat av^\top` sits on top; the
network's own output shrinks the weights along :math:`\hat a` by :math:`1-\varepsilon` (Ba et al. 2022 leave it out).
An outlier is a zero of

.. math:: \Delta(z)=zh\,(\sigma^2r_v+\varepsilon^2k_2)-(1-\varepsilon k_1)^2 ,

with the resolvents :math:`h=\hat a^\top(BB^\top-z)^{-1}\hat a` and :math:`r_v=v^\top Rv`, :math:`R=(B^\top B-z)^{-1}`,
and :math:`k_1=\hat a^\top BRW_0^\top\hat a`, :math:`k_2=\hat a^\top W_0RW_0^\top\hat a`.

This project; for a small step it is the spiked Marchenko-Pastur law of Ba et al. 2022.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from gradstep.errors import InvalidInput, NotConverged
from gradstep.gaussian import gaussian_rule, moments
from gradstep.problem import Problem
from gradstep.theory.groups import RowLaw
from gradstep.theory.spectrum import finite_step
from gradstep.theory.step import StepStatistics
from gradstep.theory.stieltjes import FINE, Law, advance, around, averaged_tail, find_law, start

__all__ = ["WeightOutlier", "WeightSpectrum", "weight_spectrum"]

Array = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]

_EDGE_MARGIN = 1e-6
#: Where to differentiate, off the real axis.
_BESIDE = 1e-7
#: Share of rows and samples that are averaged where the tail of their law splits into bands of single ones.
_TAIL = 2e-3
#: Nodes for the label noise, which enters through a rational function.
_NOISE_NODES = 16


@dataclass(frozen=True)
class WeightOutlier:
    """The singular value that the spike pushes out of the bulk, and its vectors.

    Attributes
    ----------
    singular_value : float
    gradient_overlap, teacher_overlap : float
        Squared cosines of its vector in input space with ``X^T (y - f)`` and with the teacher's direction.
    readout_overlap : float
        Squared cosine of its vector over the neurons with the readout at initialisation.
    """

    singular_value: float
    gradient_overlap: float
    teacher_overlap: float
    readout_overlap: float


@dataclass(frozen=True)
class WeightSpectrum:
    """Spectrum of ``W^T W``, a d x d matrix, before and after the step; `outlier` is None below the threshold."""

    before: Law
    after: Law
    outlier: WeightOutlier | None


class _Residuals(NamedTuple):
    """Nodes of the law of a sample of the step: weight, projection on the teacher, residual, squared and normalised."""

    weight: Array
    projection: Array
    residual: Array
    omega: Array


@dataclass(frozen=True)
class WeightEquations:
    """The two equations, for `gradstep.theory.stieltjes`.

    Attributes
    ----------
    weight, readout, initial, added : ndarray, shape (letters,)
        Law of the readout: weights, values, ``u_i`` and ``tau_i``.
    samples : _Residuals
    aspect : float
        ``N / d``.
    step_ratio : float
        ``phi_0 = d / n_step``; zero for an isotropic rest.
    """

    weight: Array
    readout: Array
    initial: Array
    added: Array
    samples: _Residuals
    aspect: float
    step_ratio: float

    @property
    def mass(self) -> float:
        """Share of non-zero eigenvalues."""
        return min(self.aspect, 1.0)

    @property
    def hard_edge(self) -> bool:
        """Whether the matrix is square."""
        return self.aspect == 1

    @property
    def top(self) -> float:
        """A bound from the largest row."""
        direction = float(self.samples.omega.max()) * (1 + math.sqrt(self.step_ratio)) ** 2
        return 4 * float((self.initial + self.added * direction).max()) * (1 + math.sqrt(self.aspect)) ** 2

    @property
    def orientation(self) -> Array:
        """Both unknowns map the upper half-plane to itself."""
        return np.ones(2)

    def start(self, z: complex) -> ComplexArray:
        """Return the logarithms of both unknowns for a large ``z``."""
        return np.full(2, np.log(-1 / z + 0j))

    def _sums(self, state: ComplexArray) -> tuple[ComplexArray, ComplexArray, ComplexArray, complex, complex, complex]:
        """Return ``r``, ``(p, q)``, its matrix of derivatives, ``epsilon`` and its derivatives in ``q`` and ``r0``."""
        r = np.exp(state)
        share = self.aspect * self.weight / (1 + self.initial * r[0] + self.added * r[1])
        terms = np.stack([self.initial, self.added])
        pq = terms @ share
        slope = -(terms * share**2 / (self.aspect * self.weight)) @ terms.T
        omega, phi = self.samples.omega, self.step_ratio
        quotient = omega / (1 + phi * omega * pq[1] * r[0])
        mean = complex(self.samples.weight @ quotient)
        change = -phi * complex(self.samples.weight @ quotient**2)
        return r, pq, slope, mean, change * r[0], change * pq[1]

    def linearise(self, z: complex, state: ComplexArray) -> tuple[ComplexArray, ComplexArray, ComplexArray]:
        """Return the gap, the Newton matrix and the drift in z."""
        r, (p, q), slope, mean, mean_q, mean_r = self._sums(state)
        inverse = p - z + q * mean
        gap = np.log(np.array([1 / inverse, mean / inverse]) / r)
        d_mean = mean_q * slope[1] + np.array([mean_r, 0])
        d_inverse = slope[0] + slope[1] * mean + q * d_mean
        first = -d_inverse / inverse
        matrix = np.eye(2) - np.stack([first, first + d_mean / mean]) * r
        return gap, matrix, np.full(2, 1 / inverse)

    def transform(self, state: ComplexArray, tangent: ComplexArray) -> tuple[complex, complex]:
        """Return the Stieltjes transform of ``W^T W`` and its derivative."""
        value = complex(np.exp(state[0]))
        return value, value * complex(tangent[0])

    def readout_resolvent(self, z: complex, state: ComplexArray) -> tuple[complex, complex, complex]:
        """Return ``h``, ``k1`` and ``k2``."""
        r = np.exp(state)
        energy = self.weight * self.readout**2 / (self.weight @ self.readout**2)
        own = self.initial * r[0]
        total = 1 + own + self.added * r[1]
        h, k1, k2 = energy @ np.stack([-1 / (z * total), own / total, own - own**2 / total], axis=1)
        return complex(h), complex(k1), complex(k2)

    def spike_resolvent(self, z: complex, state: ComplexArray, step: StepStatistics) -> tuple[complex, complex]:
        """Return ``v^T R v`` and ``v^T R beta*`` for the resolvent ``R`` of ``B^T B``."""
        r, (p, q), *_ = self._sums(state)
        weight, u, y, omega = self.samples
        if self.step_ratio == 0:
            return complex(r[0]), step.alignment * complex(r[0])
        quotient = 1 / (1 + self.step_ratio * omega * q * r[0])
        teacher = 1 / (q * complex(weight @ (omega * u**2 * quotient)) + p - z)
        cross = self.step_ratio * q * r[0] * complex(weight @ (y * omega * u * quotient))
        rest = self.step_ratio * r[0] * complex(weight @ (y**2 * quotient)) + teacher * cross**2
        linear, norm = step.alignment * step.gradient_norm, step.gradient_norm
        along = (linear**2 * teacher - 2 * linear * teacher * cross + rest) / norm**2
        return along, (linear - cross) * teacher / norm


def weight_spectrum(problem: Problem, *, rows: RowLaw = "network") -> WeightSpectrum:
    """Predict the singular values of the first layer before and after the step.

    Parameters
    ----------
    problem : Problem
        With finite `d` and width; the sizes of the fit do not matter.
    rows : {"network", "isotropic"}
        Whether the rest of the gradient has the covariance of its samples or is isotropic (spiked random features of
        Cui et al. 2024).

    Returns
    -------
    WeightSpectrum

    Raises
    ------
    InvalidInput
        For infinite sizes, or after a step with an initial output of order one.
    NotConverged
        If the density does not integrate to one.

    Notes
    -----
    Exact in the proportional limit for odd activations; for others the term of the gradient that is linear in the
    initial weights is covered by its mean over inputs only.
    """
    if problem.output_scale != "1/N" and problem.step_size > 0:
        raise InvalidInput("output_scale", problem.output_scale, "'1/N' for a prediction after a step")
    step, d, width = finite_step(problem, rows)
    if problem.readout.kind == "gaussian":
        readout, weight = gaussian_rule(resolution=1.0, order=8, half_range=6.5)
        weight = weight / weight.sum()
    else:
        readout, weight = np.asarray(problem.readout.values), np.asarray(problem.readout.weights)
    equations = WeightEquations(
        weight,
        readout,
        (1 + step.drift * readout) ** 2,
        step.bulk * readout**2,
        _residuals(problem),
        width / d,
        d / float(problem.n_step) if rows == "network" and step.bulk > 0 else 0.0,  # type: ignore[arg-type]
    )
    still = replace(equations, initial=np.ones_like(readout), added=np.zeros_like(readout), step_ratio=0.0)
    before = find_law(still)
    if problem.step_size == 0:
        return WeightSpectrum(before, before, None)
    try:
        after = find_law(equations)
    except NotConverged:
        samples = equations.samples
        omega = averaged_tail(samples.weight, samples.omega, samples.omega, _TAIL)
        added = averaged_tail(weight, equations.added, equations.added, _TAIL)
        equations = replace(equations, added=added, samples=samples._replace(omega=omega))
        after = find_law(equations, FINE)
    linear = moments(problem.activation)
    shrink = (
        problem.step_size / math.sqrt(width) * linear.derivative_mean * linear.linear * problem.readout.second_moment
    )
    strength = step.spike**2 * width * problem.readout.second_moment
    return WeightSpectrum(before, after, _outlier(equations, step, after.edge, strength, shrink))


def _residuals(problem: Problem) -> _Residuals:
    """Return nodes of the joint law of a sample's projection on the teacher and its residual ``y - E f``."""
    projection, weight = gaussian_rule(problem.teacher.kinks, resolution=1.0, order=8)
    noise, noise_weight = np.zeros(1), np.ones(1)
    if problem.noise > 0:
        noise, noise_weight = np.polynomial.hermite_e.hermegauss(_NOISE_NODES)
        noise_weight = noise_weight / noise_weight.sum()
    output = moments(problem.activation).mean * problem.readout.mean
    residual = np.asarray(problem.teacher(projection))[:, None] - output + problem.noise * noise
    weights = (weight[:, None] * noise_weight).ravel()
    residual = residual.ravel()
    square = residual**2
    return _Residuals(weights, np.repeat(projection, len(noise)), residual, square / (weights @ square))


def _outlier(
    equations: WeightEquations, step: StepStatistics, edge: float, strength: float, shrink: float
) -> WeightOutlier | None:
    """Return the outlier of a spike of squared operator norm `strength`."""

    def parts(z: complex, state: ComplexArray) -> tuple[complex, complex, complex, complex]:
        h, k1, k2 = equations.readout_resolvent(z, state)
        along, teacher = equations.spike_resolvent(z, state, step)
        spike = strength * along + shrink**2 * k2
        return z * h * spike - (1 - shrink * k1) ** 2, h, spike, teacher

    # Every eigenvalue is below the square of the sum of the norms.
    far = start(equations, complex(16 * (equations.top + strength)))

    def excess(log_x: float) -> float:
        x = float(np.exp(log_x))
        return parts(x, around(equations, far, x).state)[0].real

    bracket = (math.log(edge * (1 + _EDGE_MARGIN)), math.log(far.z.real))
    if excess(bracket[0]) <= 0:
        return None
    z = float(np.exp(brentq(excess, *bracket, xtol=1e-13, rtol=1e-13)))
    here = around(equations, far, z)
    _, h, spike, teacher = parts(z, here.state)
    initial = float(equations.weight @ (equations.readout**2 * equations.initial))
    initial /= float(equations.weight @ equations.readout**2)
    beside = complex(z, _BESIDE * z)
    slope = parts(beside, advance(equations, here, beside).state)[0].imag / beside.imag
    return WeightOutlier(
        singular_value=math.sqrt(z),
        gradient_overlap=float(spike.real / slope / (strength + shrink**2 * initial)),
        teacher_overlap=float(z * strength * teacher.real**2 * h.real / slope),
        readout_overlap=float(h.real / slope),
    )
