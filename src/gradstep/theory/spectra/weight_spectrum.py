r"""Spectrum of the first layer after a step of any size: a deformed Marchenko-Pastur bulk and its outlier.

With :math:`e=\eta/\sqrt N` the rows become :math:`w_i=(1+q\tilde a_i)w_i(0)+s\tilde a_iv+\Delta_i`, where the rows of
:math:`\Delta`, the part of the gradient beyond the spike, have the covariance :math:`\tilde a_i^2\tau S/d`, where
:math:`S=X^\top\mathrm{diag}(\omega)X/n_0` and :math:`\omega=r^2/E[r^2]` is set by the residuals of the step. In the
eigenbasis of :math:`S` the bulk has independent entries of variance :math:`(u_i+\tau_i\lambda_j)/d`,
:math:`u_i=(1+q\tilde a_i)^2`, :math:`\tau_i=\tau\tilde a_i^2`, and :math:`S` is a weighted Wishart matrix itself. With
:math:`\phi_0=d/n_0` and :math:`M_i=u_ir_0+\tau_ir_1`, everything follows from two unknowns:

.. math::
    p=\frac1d\sum_i\frac{u_i}{1+M_i},\quad \bar q=\frac1d\sum_i\frac{\tau_i}{1+M_i},\quad
    \epsilon=E\frac{\omega}{1+\phi_0\omega\bar qr_0},\quad
    r_0=\frac1{p-z+\bar q\epsilon},\quad r_1=\epsilon r_0 ,

:math:`r_0` being the Stieltjes transform of :math:`W^\top W`. The spike :math:`\sigma\hat av^\top` is added to it. The
network's own output multiplies the weights along :math:`\hat a` by :math:`1-\varepsilon` (Ba et al. 2022 leave it out).
If that output is of order one, :math:`\varepsilon=1`, and the spike contains the remaining part of these weights
(`gradstep.theory.step.own_output`).
An outlier is a zero of

.. math:: \Delta(z)=zh\,(\sigma^2r_v+\varepsilon^2k_2)-(1-\varepsilon k_1)^2 ,

with the resolvents :math:`h=\hat a^\top(BB^\top-z)^{-1}\hat a` and :math:`r_v=v^\top Rv`, :math:`R=(B^\top B-z)^{-1}`,
and :math:`k_1=\hat a^\top BRW_0^\top\hat a`, :math:`k_2=\hat a^\top W_0RW_0^\top\hat a`.

In correlated inputs `S` is the weighted covariance of :math:`x\sim N(0,C)`, and the row :math:`w_i(0)` is multiplied by
:math:`1+q\tilde a_iC`. Then `p` is a function of `C`, and there is one more unknown for each of its terms.

This project; for a small step it is the spiked Marchenko-Pastur law of Ba et al. 2022.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from gradstep.errors import InvalidInput, within_range
from gradstep.gaussian import gaussian_rule, hermite_rule, moments
from gradstep.problem import Problem, check_plain_step, link_of
from gradstep.summary import Summarised, Summary
from gradstep.text_table import Table, number
from gradstep.theory.equivalent.tables import sizes_of
from gradstep.theory.models import RowLaw
from gradstep.theory.spectra.feature_spectrum import check_finite
from gradstep.theory.spectra.stieltjes import (
    COARSE,
    EDGE_MARGIN,
    FINE,
    Law,
    advance,
    around,
    averaged_tail,
    find_law,
    first_law,
    start,
)
from gradstep.theory.step.correlated_samples import CorrelatedSamples, Spectrum
from gradstep.theory.step.own_output import MeanRow
from gradstep.theory.step.statistics import StepStatistics, step_statistics
from gradstep.theory.step.weighted_samples import largest_residual
from gradstep.threads import one_thread

__all__ = ["WeightOutlier", "WeightSpectrum", "weight_spectrum"]

Array = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]

#: Where to differentiate, off the real axis.
_BESIDE = 1e-7
#: Shares of rows and samples that are averaged, one after the other, where the tail of their law splits into bands of
#: single ones.
_TAILS = (2e-3, 5e-3, 1.2e-2)
#: Nodes for the label noise, which enters through a rational function.
_NOISE_NODES = 16
#: Panels of the projections, without and with label noise, which has nodes of its own. In the tail of an unbounded law
#: each node must weigh less than a sample of the step, or the density there falls apart into one band a node.
_PANEL, _PANEL_WITH_NOISE = 0.06, 0.125
#: Points at which an outlier is looked for if there is another eigenvalue below it.
_SCAN = 40
#: Nodes that weigh less are left out.
_LEAST_WEIGHT = 1e-13


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


@dataclass(frozen=True, repr=False)
class WeightSpectrum(Summarised):
    """Spectrum of ``W^T W``, a d x d matrix, before and after the step; `outlier` is None below the threshold."""

    before: Law
    after: Law
    outlier: WeightOutlier | None

    def summary(self) -> Summary:
        """Return the summary that is printed."""
        rows = [
            [f"edge of the bulk {when} the step", number(math.sqrt(law.edge))]
            for when, law in (("before", self.before), ("after", self.after))
        ]
        rows.append(["outlier", "none" if self.outlier is None else number(self.outlier.singular_value)])
        return Summary("Spectrum of the first layer", table=Table(["singular value", "theory"], rows))


class _Residuals(NamedTuple):
    """Nodes of the law of a sample of the step.

    Attributes
    ----------
    weight : ndarray, shape (nodes,)
    projection : ndarray, shape (2, nodes)
        Mean projections, given the residual, on the teacher and on ``b = W_0^T a``.
    spread : float
        Variance of the second.
    residual, omega : ndarray, shape (nodes,)
        ``r``, and ``r^2`` normalised.
    """

    weight: Array
    projection: Array
    spread: float
    residual: Array
    omega: Array


class _Direction(NamedTuple):
    """A unit vector in input space.

    Attributes
    ----------
    fixed : ndarray, shape (2,)
        Components along the teacher's whitened direction and ``b``.
    sampled : float
        Factor of ``X_perp^T r / n_step``.
    exponent : float
        Power of the inputs' covariance in front of the first two.
    """

    fixed: Array
    sampled: float
    exponent: float = 0.5

    def power(self, eigenvalue: Array) -> Array:
        """Return that power of eigenvalues; nothing is along directions without variance."""
        positive = eigenvalue > 0
        return np.asarray(np.where(positive, np.where(positive, eigenvalue, 1.0) ** self.exponent, 0.0))


class _Spike(NamedTuple):
    """The rank-one part that the step adds along the readout.

    Attributes
    ----------
    strength : float
        Squared operator norm.
    direction, gradient : _Direction
        Directions of the spike and of ``X^T (y - f)``, which differ if the initial output is of order one.
    teacher : _Direction
        The teacher's direction.
    shrink : float
        Share of the initial weights along the readout that is taken back.
    """

    strength: float
    direction: _Direction
    gradient: _Direction
    teacher: _Direction
    shrink: float


class _Directions(NamedTuple):
    """Eigenvalues of the inputs' covariance, and functions of it of which the rows are made.

    Attributes
    ----------
    eigenvalue, share : ndarray, shape (classes,)
    part : ndarray, shape (2, classes)
        Parts of the teacher's whitened direction and of ``b`` in the classes.
    functions : ndarray, shape (functions, classes)
        ``1``, and ``c`` and ``c^2`` where they differ from it and are needed.
    sampled : int
        Place of ``c`` among them.
    """

    eigenvalue: Array
    share: Array
    part: Array
    functions: Array
    sampled: int

    @classmethod
    def isotropic(cls) -> _Directions:
        """Return one class."""
        one = np.ones(1)
        return cls(one, one, np.ones((2, 1)), np.ones((1, 1)), 0)

    @classmethod
    def of(cls, spectrum: Spectrum, *, drift: bool) -> _Directions:
        """Return the classes of correlated inputs, for rows with a drift or without."""
        functions = spectrum.eigenvalue ** np.arange(3 if drift else 2)[:, None]
        part = np.stack([spectrum.teacher, spectrum.share])
        return cls(spectrum.eigenvalue, spectrum.share, part, functions, 1)


class _Sums(NamedTuple):
    """Sums of the equations at given unknowns.

    Attributes
    ----------
    unknown : ndarray, shape (functions + 1,)
        Traces ``s_k`` of the functions of C times the resolvent, over d, and ``r_1``.
    by_rows : ndarray, shape (functions + 1,)
        ``p_k`` and ``q``.
    slope : ndarray, shape (functions + 1, functions + 1)
        Derivatives of these in the unknowns.
    mean, mean_q, mean_s : complex
        ``epsilon``, and its derivatives in ``q`` and in the trace of ``C``.
    resolvent : ndarray, shape (classes,)
        ``R(c)``.
    """

    unknown: ComplexArray
    by_rows: ComplexArray
    slope: ComplexArray
    mean: complex
    mean_q: complex
    mean_s: complex
    resolvent: ComplexArray


@dataclass(frozen=True)
class WeightEquations:
    """The equations, for `gradstep.theory.spectra.stieltjes`.

    Docs, "Spectra", equations (Z6) and (Z8a).

    Attributes
    ----------
    weight, readout, added : ndarray, shape (values,)
        Law of the readout: weights, values and ``tau_i``.
    initial : ndarray, shape (functions, values)
        ``u_i``: of inputs that are correlated, the coefficients of functions of the covariance.
    samples : _Residuals
    aspect : float
        ``N / d``.
    step_ratio : float
        ``phi_0 = d / n_step``; zero for an isotropic rest.
    directions : _Directions
    """

    weight: Array
    readout: Array
    initial: Array
    added: Array
    samples: _Residuals
    aspect: float
    step_ratio: float
    directions: _Directions

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
        largest = float(self.directions.eigenvalue.max())
        direction = largest * float(self.samples.omega.max()) * (1 + math.sqrt(self.step_ratio)) ** 2
        initial = (self.initial.T @ self.directions.functions).max(axis=1)
        return 4 * float((initial + self.added * direction).max()) * (1 + math.sqrt(self.aspect)) ** 2

    def start(self, z: complex) -> ComplexArray:
        """Return the logarithms of the unknowns for a large ``z``."""
        means = self.directions.functions @ self.directions.share
        return np.log(np.append(means, 1.0) / -z + 0j)

    def _sums(self, z: complex, state: ComplexArray) -> _Sums:
        """Return the sums at the unknowns of a state."""
        x, (c, _, _, functions, place) = np.exp(state), self.directions
        rows = np.concatenate([self.initial, self.added[None]])
        share = self.aspect * self.weight / (1 + x @ rows)
        by_rows = rows @ share
        slope = -(rows * share**2 / (self.aspect * self.weight)) @ rows.T
        omega, phi = self.samples.omega, self.step_ratio
        quotient = omega / (1 + phi * omega * by_rows[-1] * x[place])
        mean = complex(self.samples.weight @ quotient)
        change = -phi * complex(self.samples.weight @ quotient**2)
        resolvent = 1 / (by_rows[:-1] @ functions - z + by_rows[-1] * mean * c)
        return _Sums(x, by_rows, slope, mean, change * x[place], change * by_rows[-1], resolvent)

    def newton(self, z: complex, state: ComplexArray) -> tuple[ComplexArray, ComplexArray, ComplexArray]:
        """Return the gap, Newton's step and the tangent in z."""
        sums, (c, share, _, functions, place) = self._sums(z, state), self.directions
        traces = functions @ (share * sums.resolvent)
        found = np.append(traces, sums.mean * traces[place])
        d_mean = sums.mean_q * sums.slope[-1]
        d_mean[place] += sums.mean_s
        # Derivatives of 1/R(c) in the unknowns, for each class.
        d_inverse = sums.slope[:-1].T @ functions
        d_inverse += np.outer(sums.mean * sums.slope[-1] + sums.by_rows[-1] * d_mean, c)
        weighed = functions * (share * sums.resolvent**2)
        change = -weighed @ d_inverse.T
        change = np.concatenate([change, (sums.mean * change[place] + traces[place] * d_mean)[None]])
        along = weighed.sum(axis=1)
        gap = np.log(found / sums.unknown)
        matrix = np.eye(len(state)) - change * sums.unknown / found[:, None]
        tangent = np.append(along, sums.mean * along[place]) / found
        step, tangent = np.linalg.solve(matrix, np.stack([gap, tangent], axis=1)).T
        return gap, step, tangent

    def transform(self, state: ComplexArray, tangent: ComplexArray) -> tuple[complex, complex]:
        """Return the Stieltjes transform of ``W^T W`` and its derivative."""
        value = complex(np.exp(state[0]))
        return value, value * complex(tangent[0])

    @property
    def energy(self) -> Array:
        """Share of each value of the readout of its mean square."""
        return np.asarray(self.weight * self.readout**2 / (self.weight @ self.readout**2))

    def readout_resolvent(self, z: complex, state: ComplexArray) -> tuple[complex, complex, complex]:
        """Return ``h``, ``k1`` and ``k2``."""
        sums, (c, share, _, functions, _) = self._sums(z, state), self.directions
        own, once, twice = ((functions @ (share * c**power * sums.resolvent)) @ self.initial for power in range(3))
        total = 1 + own + self.added * sums.unknown[-1]
        h, k1, k2 = self.energy @ np.stack([-1 / (z * total), once / total, twice - once**2 / total], axis=1)
        return complex(h), complex(k1), complex(k2)

    def spike_resolvent(self, z: complex, state: ComplexArray, spike: _Spike) -> tuple[complex, complex, complex]:
        """Return the resolvent ``R`` between the spike's direction and itself, the teacher's and the gradient's.

        Docs, "Spectra", equations (Z8) and (Z8b).
        """
        sums, (c, share, part, *_) = self._sums(z, state), self.directions
        v, g = spike.direction, spike.gradient
        if self.step_ratio == 0:
            # An isotropic rest: what is left of the vectors' lengths is along X_perp^T r.
            r = complex(sums.unknown[0])
            rests = [math.sqrt(max(1 - float(x.fixed @ x.fixed), 0.0)) for x in (v, g)]
            return r, complex(v.fixed[0] * r), complex((v.fixed @ g.fixed + rests[0] * rests[1]) * r)
        weight, x, spread, residual, omega = self.samples
        q, gain = sums.by_rows[-1], self.step_ratio * complex(share * c @ sums.resolvent)
        left = weight / (1 + omega * q * gain)
        hidden = np.diag([0.0, spread])

        def squares(values: NDArray[Any]) -> ComplexArray:
            return np.asarray((x * values) @ x.T + hidden * values.sum())

        one, coupling, inner = np.eye(2), np.zeros((4, 4), dtype=complex), np.zeros((4, 4), dtype=complex)
        coupling[:2, :2] = q * (squares(omega * weight) - sums.mean * one)
        coupling[:2, 2:] = coupling[2:, :2] = q * one
        inner[:2, :2] = np.diag(part @ (c * sums.resolvent))
        inner[2:, 2:] = gain * squares(omega**2 * left)
        dressed = np.linalg.inv(np.eye(4) + coupling @ inner) @ coupling
        with_sum, rest = gain * (x @ (residual * omega * left)), gain * (residual**2 @ left)

        def across(vector: _Direction) -> ComplexArray:
            fixed = vector.fixed * (part @ (vector.power(c) * np.sqrt(c) * sums.resolvent))
            return np.concatenate([fixed, vector.sampled * with_sum])

        def between(one: _Direction, other: _Direction) -> complex:
            among = one.fixed * other.fixed @ (part @ (one.power(c) * other.power(c) * sums.resolvent))
            among += one.sampled * other.sampled * rest
            return complex(among - across(one) @ dressed @ across(other))

        return between(v, v), between(v, spike.teacher), between(v, g)


@one_thread()
@within_range("the spectrum")
def weight_spectrum(problem: Problem, *, rows: RowLaw = "network") -> WeightSpectrum:
    """Predict the singular values of the first layer before and after the step.

    Rows are in the coordinates of the inputs: a neuron computes ``<w, x>``, and before the step rows are isotropic,
    whatever the inputs are. In `WeightOutlier` the teacher's direction is ``beta*`` over its length.

    Docs, "Spectra", equation (Z7).

    Parameters
    ----------
    problem : Problem
        With finite `d` and width; the sizes of the fit do not matter. Of a plain step, in isotropic or correlated
        inputs.
    rows : {"network", "isotropic"}
        Whether the rest of the gradient has the covariance of its samples or is isotropic (spiked random features of
        Cui et al. 2024).

    Returns
    -------
    WeightSpectrum

    Raises
    ------
    InvalidInput
        For infinite sizes, a damped step, correlated inputs with ``rows="isotropic"`` or ``output_scale="1/sqrt(N)"``,
        or an initial output that diverges with the width (``output_scale="1/sqrt(N)"``, activation and readout both
        with a mean).
    NotConverged
        If the density does not integrate to one.

    Notes
    -----
    Exact in the proportional limit for odd activations; for others the term of the gradient that is linear in the
    initial weights is covered by its mean over inputs only.
    """
    check_finite(problem, rows)
    check_plain_step(problem)
    if problem.inputs is not None and rows == "isotropic":
        raise InvalidInput("rows", rows, "'network' for correlated inputs: the model is one of isotropic inputs")
    d, width, n_step, *_ = sizes_of(problem)
    step = step_statistics(problem, d, width, n_step, own_output=rows == "network")
    known, directions = step.correlated, _Directions.isotropic()
    if known is not None:
        directions = _Directions.of(known.spectrum, drift=step.drift != 0)
    if problem.readout.kind == "gaussian":
        readout, weight = gaussian_rule(resolution=1.0, order=8, half_range=6.5)
        weight = weight / weight.sum()
    else:
        readout, weight = np.asarray(problem.readout.values), np.asarray(problem.readout.weights)
    equations = WeightEquations(
        weight,
        readout,
        _initial(step, directions, readout),
        step.bulk / (1.0 if known is None else known.bulk_trace) * readout**2,
        _residuals(problem, step),
        width / d,
        _step_ratio(problem, step, rows),
        directions,
    )
    still = replace(
        equations,
        initial=np.ones((1, len(readout))),
        added=np.zeros_like(readout),
        step_ratio=0.0,
        directions=_Directions.isotropic(),
    )
    before = find_law(still)
    # Without a step, or labels to follow.
    if step.spike == step.bulk == step.curvature == 0:
        return WeightSpectrum(before, before, None)
    equations, after = _law(equations)
    return WeightSpectrum(before, after, _outlier(equations, _spike(problem, step, width), after.edge))


def _initial(step: StepStatistics, directions: _Directions, readout: Array) -> Array:
    """Return the coefficients of `WeightEquations.initial`, shape (functions, values)."""
    if step.correlated is None:
        return np.asarray((1 + step.drift * readout) ** 2)[None]
    drift = step.drift * readout
    return np.stack([np.ones_like(readout), 2 * drift, drift**2][: len(directions.functions)])


def _step_ratio(problem: Problem, step: StepStatistics, rows: RowLaw) -> float:
    """Return ``phi_0``, zero where the rest of the gradient is isotropic or none."""
    if step.correlated is not None:
        return step.correlated.ratio
    return problem.real_sizes().d / problem.real_sizes().n_step if rows == "network" and step.bulk > 0 else 0.0


def _law(equations: WeightEquations) -> tuple[WeightEquations, Law]:
    """Return the law, and the equations that it was found with."""
    rows, samples = np.stack([*equations.initial, equations.added], axis=1), equations.samples

    def rounded() -> Iterator[tuple[WeightEquations, Sequence[float]]]:
        yield equations, COARSE
        for share in _TAILS:
            *initial, added = averaged_tail(equations.weight, rows.sum(axis=1), rows, share).T
            omega = averaged_tail(samples.weight, samples.omega, samples.omega, share)
            yield (
                replace(equations, initial=np.array(initial), added=added, samples=samples._replace(omega=omega)),
                FINE,
            )

    return first_law(rounded())


def _spike(problem: Problem, step: StepStatistics, width: float) -> _Spike:
    """Return the spike of the step."""
    norm, teacher = step.gradient_norm, _Direction(np.array([1.0, 0.0]), 0.0)
    if isinstance(step.correlated, CorrelatedSamples):
        # The plain gradient and the teacher's direction in the inputs' own coordinates.
        known, power = step.correlated, problem.readout.second_moment
        norm = math.sqrt(known.form(1))
        gradient = _Direction(np.array([known.linear, 0.0]) / norm, 1 / norm)
        teacher = teacher._replace(exponent=-0.5)
        length = math.sqrt(teacher.power(known.spectrum.eigenvalue) ** 2 @ known.spectrum.teacher)
        teacher = teacher._replace(fixed=teacher.fixed / length)
        taken = step.gain * moments(problem.activation).linear * power
        return _Spike((step.gain * norm) ** 2 * width * power, gradient, gradient, teacher, taken)
    if problem.output_scale == "1/N" or step.spike == 0:
        # Labels without a linear part leave a population step no gradient.
        gradient = _Direction(np.array([step.alignment, 0.0]), 1 / norm if norm > 0 else 0.0)
        strength = step.spike**2 * width * problem.readout.second_moment
        return _Spike(strength, gradient, gradient, teacher, 1 - step.readout_shrinkage)
    # The spike is all of the mean row, and nothing of the initial weights is left along the readout.
    # The bulk is that of the proportional limit, and so is what stretches the mean row.
    row = MeanRow.of(problem, replace(step, own_drift=(0.0, 0.0)), width)
    total = float(np.linalg.norm(row.after))
    whole = row.taught - row.slope * row.output
    # A population gradient has no part along the samples.
    by_samples = row.after[2] / row.taught[2] if row.taught[2] > 0 else row.gain
    return _Spike(
        total**2 * width * problem.readout.second_moment,
        _Direction(row.after[:2] / total, by_samples / total),
        _Direction(whole[:2] / norm, 1 / norm),
        teacher,
        1.0,
    )


def _residuals(problem: Problem, step: StepStatistics) -> _Residuals:
    """Return nodes of the joint law of a sample's projections and its residual ``y - f``.

    An initial output of order one is Gaussian noise in it, of which ``mu_1 <b, x>`` is a part. The weights ``omega``
    are those of as many samples as the step has: what is beyond the median of the largest is reflected there.
    """
    projection, weight = gaussian_rule(
        link_of(problem.teacher).kinks, resolution=_PANEL if step.residual_noise == 0 else _PANEL_WITH_NOISE, order=8
    )
    noise, noise_weight, known = np.zeros(1), np.ones(1), 0.0
    if step.residual_noise > 0:
        noise, noise_weight = hermite_rule(_NOISE_NODES)
        if problem.output_scale == "1/sqrt(N)":
            own = moments(problem.activation).linear * math.sqrt(problem.readout.second_moment)
            known = -own / math.sqrt(step.residual_noise)
    residual = np.asarray(link_of(problem.teacher)(projection))[:, None] - step.residual_offset
    residual = (residual + math.sqrt(step.residual_noise) * noise).ravel()
    weights = (weight[:, None] * noise_weight).ravel()
    projections = np.stack([np.repeat(projection, len(noise)), np.tile(known * noise, len(projection))])
    # Residuals of nothing move no weight, whatever their law.
    square = residual**2 if residual.any() else np.ones_like(residual)
    omega, count = square / (weights @ square), problem.real_sizes().n_step
    if math.isfinite(count) and residual.any():
        largest = largest_residual(
            link_of(problem.teacher), step.residual_offset, step.residual_noise, problem.d, count
        )
        omega = np.clip(2 * largest.residual**2 / (weights @ square) - omega, 0, omega)
        omega /= weights @ omega
    kept = weights > _LEAST_WEIGHT
    return _Residuals(weights[kept], projections[:, kept], 1 - known**2, residual[kept], omega[kept])


def _outlier(equations: WeightEquations, spike: _Spike, edge: float) -> WeightOutlier | None:
    """Return the outlier that a spike pushes above the edge of the bulk.

    Docs, "Spectra", equation (Z7).
    """
    strength, shrink = spike.strength, spike.shrink

    def parts(z: complex, state: ComplexArray) -> tuple[complex, complex, complex, complex, complex]:
        h, k1, k2 = equations.readout_resolvent(z, state)
        along, teacher, gradient = equations.spike_resolvent(z, state, spike)
        added = strength * along + shrink**2 * k2
        return z * h * added - (1 - shrink * k1) ** 2, h, added, teacher, gradient

    # Every eigenvalue is below the square of the sum of the norms.
    far = start(equations, complex(16 * (equations.top + strength)))

    def excess(log_x: float) -> float:
        x = float(np.exp(log_x))
        return parts(x, around(equations, far, x).state)[0].real

    bracket = (math.log(edge * (1 + EDGE_MARGIN)), math.log(far.z.real))
    if excess(bracket[0]) <= 0:
        # In correlated inputs the bulk may have an eigenvalue of its own above the edge, below which signs are others.
        scan = np.linspace(bracket[1], bracket[0], _SCAN) if len(equations.directions.share) > 1 else np.empty(0)
        lower = next((x for x in scan.tolist() if excess(x) > 0), None)
        if lower is None:
            return None
        bracket = lower, bracket[1]
    z = float(np.exp(brentq(excess, *bracket, xtol=1e-13, rtol=1e-13)))
    here = around(equations, far, z)
    _, h, added, teacher, gradient = parts(z, here.state)
    beside = complex(z, _BESIDE * z)
    slope = parts(beside, advance(equations, here, beside).state)[0].imag / beside.imag
    if spike.direction is spike.gradient:
        # The gradient is all that the step adds, with what is taken back.
        known = equations.directions
        made = (known.functions @ (known.share * known.eigenvalue**2)) @ equations.initial
        initial = float(equations.energy @ made)
        gradient_overlap = float(added.real / slope / (strength + shrink**2 * initial))
    else:
        gradient_overlap = float(z * strength * gradient.real**2 * h.real / slope)
    return WeightOutlier(
        singular_value=math.sqrt(z),
        gradient_overlap=gradient_overlap,
        teacher_overlap=float(z * strength * teacher.real**2 * h.real / slope),
        readout_overlap=float(h.real / slope),
    )
