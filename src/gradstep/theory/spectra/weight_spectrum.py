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
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from gradstep.errors import InvalidInput, within_range
from gradstep.gaussian import gaussian_rule
from gradstep.problem import Problem
from gradstep.summary import Summarised, Summary
from gradstep.text_table import Table, number
from gradstep.theory.equivalent.tables import sizes_of
from gradstep.theory.models import RowLaw
from gradstep.theory.spectra.damped_weights import DampedWeightEquations
from gradstep.theory.spectra.feature_spectrum import check_finite
from gradstep.theory.spectra.spike import Direction, Rectangular, SampleNodes, Spike, sample_nodes, spike_of
from gradstep.theory.spectra.stieltjes import (
    COARSE,
    EDGE_MARGIN,
    FINE,
    Equations,
    Law,
    advance,
    around,
    averaged_tail,
    find_law,
    first_law,
    start,
)
from gradstep.theory.step.correlated_samples import Spectrum
from gradstep.theory.step.damped_samples import DampedSamples
from gradstep.theory.step.statistics import StepStatistics, step_statistics
from gradstep.theory.step.weighted_samples import Residual
from gradstep.threads import one_thread

__all__ = ["WeightOutlier", "WeightSpectrum", "weight_spectrum"]

Array = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]

#: Where to differentiate, off the real axis.
_BESIDE = 1e-7
#: Shares of rows and samples that are averaged, one after the other, where the tail of their law splits into bands of
#: single ones.
_TAILS = (2e-3, 5e-3, 1.2e-2)
#: Points at which an outlier is looked for if there is another eigenvalue below it.
_SCAN = 40


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


class _Layer(Equations, Protocol):
    """Equations of the first layer after a plain or a damped step."""

    @property
    def classes(self) -> int:
        """Return the number of the classes of the inputs' directions."""

    @property
    def initial_square(self) -> float:
        """Return the mean square of what is taken back of rows along the readout, over that of its factor."""

    def averaged(self, share: float) -> Self:
        """Return the equations with shares of the rows and of the samples averaged where their laws end."""

    def readout_resolvent(self, z: complex, state: ComplexArray) -> tuple[complex, complex, complex]:
        """Return ``h``, ``k1`` and ``k2`` of equation (Z7)."""

    def spike_resolvent(self, z: complex, state: ComplexArray, spike: Spike) -> tuple[complex, complex, complex]:
        """Return the resolvent between the spike's direction and itself, the teacher's and the gradient's."""


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
class WeightEquations(Rectangular):
    """The equations, for `gradstep.theory.spectra.stieltjes`.

    Docs, "Spectra", equations (Z6) and (Z8a).

    Attributes
    ----------
    weight, readout, added : ndarray, shape (values,)
        Law of the readout: weights, values and ``tau_i``.
    initial : ndarray, shape (functions, values)
        ``u_i``: of inputs that are correlated, the coefficients of functions of the covariance.
    samples : SampleNodes
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
    samples: SampleNodes
    aspect: float
    step_ratio: float
    directions: _Directions

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

    @property
    def classes(self) -> int:
        """Number of the classes of the inputs' directions."""
        return len(self.directions.share)

    @property
    def initial_square(self) -> float:
        """Mean square of what the network's own output takes back of the rows along the readout, up to a factor."""
        known = self.directions
        made = (known.functions @ (known.share * known.eigenvalue**2)) @ self.initial
        return float(self.energy @ made)

    def averaged(self, share: float) -> WeightEquations:
        """Return the equations with shares of the rows and of the samples averaged where their laws end."""
        rows, samples = np.stack([*self.initial, self.added], axis=1), self.samples
        *initial, added = averaged_tail(self.weight, rows.sum(axis=1), rows, share).T
        omega = averaged_tail(samples.weight, samples.omega, samples.omega, share)
        return replace(self, initial=np.array(initial), added=added, samples=samples._replace(omega=omega))

    def readout_resolvent(self, z: complex, state: ComplexArray) -> tuple[complex, complex, complex]:
        """Return ``h``, ``k1`` and ``k2``."""
        sums, (c, share, _, functions, _) = self._sums(z, state), self.directions
        own, once, twice = ((functions @ (share * c**power * sums.resolvent)) @ self.initial for power in range(3))
        total = 1 + own + self.added * sums.unknown[-1]
        h, k1, k2 = self.energy @ np.stack([-1 / (z * total), once / total, twice - once**2 / total], axis=1)
        return complex(h), complex(k1), complex(k2)

    def spike_resolvent(self, z: complex, state: ComplexArray, spike: Spike) -> tuple[complex, complex, complex]:
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

        def across(vector: Direction) -> ComplexArray:
            fixed = vector.fixed * (part @ (vector.power(c) * np.sqrt(c) * sums.resolvent))
            return np.concatenate([fixed, vector.sampled * with_sum])

        def between(one: Direction, other: Direction) -> complex:
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
        For infinite sizes, correlated inputs or a damped step with ``rows="isotropic"`` or
        ``output_scale="1/sqrt(N)"``, or an initial output that diverges with the width (``output_scale="1/sqrt(N)"``,
        activation and readout both with a mean).
    NotConverged
        If the density does not integrate to one.

    Notes
    -----
    Exact in the proportional limit for odd activations; for others the term of a plain gradient that is linear in the
    initial weights is covered by its mean over inputs only, and that of a damped step wholly.
    """
    check_finite(problem, rows)
    if rows == "isotropic" and (problem.inputs is not None or problem.is_damped):
        case = "correlated inputs" if problem.inputs is not None else "a damped step"
        raise InvalidInput("rows", rows, f"'network' for {case}: the model is one of plain steps in isotropic inputs")
    d, width, n_step, *_ = sizes_of(problem)
    step = step_statistics(problem, d, width, n_step, own_output=rows == "network")
    plain = _plain_equations(problem, step, rows)
    still = replace(
        plain,
        initial=np.ones((1, len(plain.readout))),
        added=np.zeros_like(plain.readout),
        step_ratio=0.0,
        directions=_Directions.isotropic(),
    )
    before = find_law(still)
    # Without a step, or labels to follow.
    if step.spike == step.bulk == step.curvature == 0:
        return WeightSpectrum(before, before, None)
    equations: _Layer = plain
    if isinstance(step.correlated, DampedSamples):
        linear = 0.0 if problem.activation.parity == "odd" else step.curvature
        equations = _damped_equations(step, step.correlated, plain, linear)
    equations, after = _law(equations)
    return WeightSpectrum(before, after, _outlier(equations, spike_of(problem, step, width), after.edge))


def _plain_equations(problem: Problem, step: StepStatistics, rows: RowLaw) -> WeightEquations:
    """Return the equations of a plain step."""
    known, directions = step.correlated, _Directions.isotropic()
    if known is not None:
        directions = _Directions.of(known.spectrum, drift=step.drift != 0)
    if problem.readout.kind == "gaussian":
        readout, weight = gaussian_rule(resolution=1.0, order=8, half_range=6.5)
        weight = weight / weight.sum()
    else:
        readout, weight = np.asarray(problem.readout.values), np.asarray(problem.readout.weights)
    d, width, *_ = sizes_of(problem)
    return WeightEquations(
        weight,
        readout,
        _initial(step, directions, readout),
        step.bulk / (1.0 if known is None else known.bulk_trace) * readout**2,
        sample_nodes(problem, step),
        width / d,
        _step_ratio(problem, step, rows),
        directions,
    )


def _damped_equations(
    step: StepStatistics, samples: DampedSamples, plain: WeightEquations, linear: float
) -> DampedWeightEquations:
    """Return the equations of a damped step, from those of a plain one with the same readout and samples.

    `linear` is ``k``, by which the samples stretch the rows.
    """
    nodes = plain.samples
    # The plain equations have nodes of the samples' law that suit a spectrum. The damped ones take these nodes too.
    law = Residual(nodes.projection[0], nodes.residual, nodes.weight / nodes.weight.sum())
    by_linear = linear**2 * samples.ratio * law.square
    return DampedWeightEquations(
        plain.weight,
        plain.readout ** (np.arange(3) if linear else np.array([0, 2]))[:, None],
        replace(samples, plain=replace(samples.plain, law=law)),
        nodes.omega,
        plain.aspect,
        linear,
        max(step.bulk / samples.bulk_trace - by_linear, 0.0),
    )


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


def _law(equations: _Layer) -> tuple[_Layer, Law]:
    """Return the law, and the equations that it was found with."""

    def rounded() -> Iterator[tuple[_Layer, Sequence[float]]]:
        yield equations, COARSE
        yield from ((equations.averaged(share), FINE) for share in _TAILS)

    return first_law(rounded())


def _outlier(equations: _Layer, spike: Spike, edge: float) -> WeightOutlier | None:
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
        scan = np.linspace(bracket[1], bracket[0], _SCAN) if equations.classes > 1 else np.empty(0)
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
        gradient_overlap = float(added.real / slope / (strength + shrink**2 * equations.initial_square))
    else:
        gradient_overlap = float(z * strength * gradient.real**2 * h.real / slope)
    return WeightOutlier(
        singular_value=math.sqrt(z),
        gradient_overlap=gradient_overlap,
        teacher_overlap=float(z * strength * teacher.real**2 * h.real / slope),
        readout_overlap=float(h.real / slope),
    )
