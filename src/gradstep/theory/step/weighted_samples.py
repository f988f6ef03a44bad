"""The step's own samples: the law of a residual, and of the matrix ``A = X^T diag(omega) X / n_step`` weighted by it.

``A`` enters a ridge fit by its spectral law and by its resolvent between the spike direction ``v`` and the teacher's
direction orthogonal to it, ``zeta`` (``beta* = gamma v + rho zeta``). Both depend on the same samples as ``A``. With
``phi0 = d / n_step``, ``u = <beta*, x>``, ``r`` the residual and

    m = 1 / ( -z + E[ omega / (1 + phi0 omega m) ] ),      q = phi0 m / (1 + phi0 omega m)

the resolvent between ``beta*`` and ``e = X_perp^T r / n_step`` is, by Schur's complement,

    R_11 = 1 / ( E[omega u^2 / (1 + phi0 omega m)] - z ),      K = E[r omega u q],
    R_12 = -R_11 K,                                            R_22 = E[r^2 q] + R_11 K^2.

If the initial output is of order one, the residual depends on the direction ``b`` of its linear part as well. Then
``u`` is a vector of two projections, ``R_11`` a matrix and ``K`` a vector.

This project.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import hankel

from gradstep.errors import NotConverged
from gradstep.gaussian import ScalarFunction, gaussian_rule, hermite_rule
from gradstep.gaussian.panels import resolved_panels
from gradstep.resolution import NOTHING
from gradstep.theory.together import Computation, asked

if TYPE_CHECKING:
    from gradstep.theory.step.sample_forms import SampleForms

__all__ = [
    "Residual",
    "WeightedSamples",
    "directions_frame",
    "largest_residual",
    "noise_nodes",
    "residual_law",
    "residual_nodes",
]

Array = NDArray[np.float64]
Complex = NDArray[np.complexfloating[Any, Any]]

#: Relative residual of the transform's fixed point, and steps after which it is given up.
_TOLERANCE, _MAX_STEPS = 1e-12, 500
#: Panels of the rule that serves for most teachers, and the relative error of a moment up to which it does.
_PANEL, _CLOSE = 2.0, 1e-5
#: Standard deviations of a projection that are covered; nodes that weigh less than the smallest are left out, unless
#: the teacher is so large there.
_RANGE, _LEAST_WEIGHT = 12.0, 1e-13
#: Nodes of the noise, those of noise that is small, and up to where it is: errors then change by less than 1e-9.
_NODES, _FEW_NODES, _SMALL = 20, 8, 0.15
#: Dimensions for each sample of the step, beyond which twice and four times as many are taken. Errors change by less
#: than 1e-8 there; with ten dimensions for each sample, by 6e-5 without these nodes and by 6e-6 with them.
_MORE_NODES = (0.7, 1.5)
#: Numbers in an array over points and nodes: larger ones leave the cache, and their memory is asked for anew each time.
_BLOCK = 2**13
#: Numbers for each point in the largest arrays without the nodes, about.
_WORK = 32
#: Points of the grid on which the largest of many residuals is looked for.
_GRID = 6001


@dataclass(frozen=True)
class Residual:
    """Nodes of the joint law of a sample's projection on the teacher and its residual."""

    #: ``u``, ``r`` and probabilities. Shape (nodes,).
    projection: Array
    residual: Array
    weight: Array

    def mean(self, values: Array) -> float:
        """Return the expectation of values at the nodes."""
        return float(self.weight @ values)

    def relative_variance(self, values: Array, size: float) -> float:
        """Return the variance of values at the nodes, over the square of a size."""
        return self.mean((values - self.mean(values)) ** 2) / max(size, NOTHING) ** 2

    @cached_property
    def square(self) -> float:
        """``E r^2``."""
        return self.mean(self.residual**2)

    @cached_property
    def relative_squares(self) -> Array:
        """``r^2 / E r^2``, shape (nodes,)."""
        return np.asarray(self.residual**2 / self.square)

    def up_to(self, largest: float) -> Residual:
        """Return the law with the sizes of larger residuals reflected at this one, and none below zero."""
        size = np.abs(self.residual)
        return replace(self, residual=np.sign(self.residual) * np.clip(2 * largest - size, 0, size))

    @cached_property
    def powers(self) -> Array:
        """The powers 0 to 4 of the residual, shape (5, nodes)."""
        # By products: the general power of NumPy takes fifty times as long.
        square = self.residual * self.residual
        return np.stack([np.ones_like(square), self.residual, square, square * self.residual, square * square])


@lru_cache(maxsize=128)
def _resolved(teacher: ScalarFunction) -> tuple[Array, Array, Array]:
    """Return nodes, weights and values of the teacher: few, if more find the same mean square and fourth moment."""
    u, weight = gaussian_rule(teacher.kinks, resolution=_PANEL, order=8, half_range=_RANGE)
    edges = resolved_panels(teacher, teacher.kinks, _RANGE).edges
    fine, fine_weight = gaussian_rule(edges, resolution=_PANEL, half_range=_RANGE)
    values, fine_values = np.asarray(teacher(u)), np.asarray(teacher(fine))
    if all(
        math.isclose(float(weight @ values**power), float(fine_weight @ fine_values**power), rel_tol=_CLOSE)
        for power in (2, 4)
    ):
        return u, weight, values
    return fine, fine_weight, fine_values


def residual_law(teacher: ScalarFunction, offset: float, noise_variance: float, nodes: int = _NODES) -> Residual:
    """Return the law of ``(u, f*(u) - offset + noise)``, as `residual_nodes` does.

    Raises `NotConverged` if the teacher varies too fast to be resolved.
    """
    return residual_nodes(teacher, offset, noise_variance, nodes)[0]


@lru_cache(maxsize=128)
def residual_nodes(
    teacher: ScalarFunction, offset: float, noise_variance: float, nodes: int = _NODES, *, classes: bool = False
) -> tuple[Residual, Array]:
    """Return the law of ``(u, y - offset + noise)``, and the noise at its nodes.

    The teacher is ``E[y | u]``: the label ``y`` is ``f*(u)``, or with `classes` it is 1 with probability
    ``(1 + f*(u))/2`` and -1 otherwise. The noise is Gaussian, with `nodes` nodes (see `noise_nodes`); it is returned at
    each node of the law. Raises `NotConverged` if the teacher varies too fast to be resolved.

    Docs, "Convex losses", equation (P1a).
    """
    u, weight, labels = _resolved(teacher)
    if classes:
        u, weight = np.tile(u, 2), np.concatenate([weight * (1 + labels) / 2, weight * (1 - labels) / 2])
        labels = np.repeat([1.0, -1.0], len(labels))
    noise = np.zeros_like(labels)
    if noise_variance > 0:
        z, z_weight = hermite_rule(nodes)
        noise = np.tile(math.sqrt(noise_variance) * z, len(u))
        u, labels = np.repeat(u, len(z)), np.repeat(labels, len(z))
        weight = (weight[:, None] * z_weight).ravel()
    residual = labels - offset + noise
    fourth = weight * residual**4
    kept = weight + fourth / max(fourth.sum(), NOTHING) > _LEAST_WEIGHT
    return Residual(u[kept], residual[kept], weight[kept] / weight[kept].sum()), noise[kept]


def noise_nodes(share: float, ratio: float) -> int:
    """Return how many nodes of the noise the laws of isotropic samples need.

    The laws average ``1 / (1 + phi0 omega m)`` over the noise in ``omega``. Its pole is at a distance of about
    ``(1 - phi0^1/2) / phi0^1/2`` times the size of a residual. Noise that is small beside that distance needs few
    nodes. With few samples in the step the distance is small, and noise needs many.

    Here `share` is the variance of the noise over the mean square of the residual, and `ratio` is
    ``phi0 = d / n_step``.
    """
    small = ratio < 1 and share * (1 + 2 * ratio / (1 - math.sqrt(ratio)) ** 2) <= _SMALL
    return _FEW_NODES if small else _NODES * 2 ** sum(ratio > limit for limit in _MORE_NODES)


@dataclass(frozen=True)
class WeightedSamples:
    """The matrix for given weights of the samples.

    The equations are solved point by point. So the ratio may be another at each of the points z of a method, shape
    (points,), and a frame then has a leading axis for them.
    """

    law: Residual
    weight: Array  #: ``omega`` at the nodes of the law, shape (nodes,).
    ratio: float  #: ``phi0 = d / n_step``.
    #: Shape (nodes,): mean of a sample's projection on ``b / |b|`` at the nodes, where ``b`` is one of the directions.
    output: Array | None = None
    output_variance: float = 0.0  #: Variance of that projection there.
    forms: SampleForms | None = None  #: Changes of the products of samples in a draw, without such a direction.

    def ask(self, z: Complex, frame: Array, *, powers: bool) -> Computation[tuple[Any, ...]]:
        """Ask for `transform`, its slope, `resolvent` and `with_powers` (if wanted), with those of other samples."""
        # A frame of two directions has none of the output.
        output = self.output if len(frame) > 2 else None
        numbers, shared = np.array([self.ratio, self.output_variance]), (self.law, self.weight, output, self.forms)
        function = _with_powers if powers else _resolvents
        return (yield from asked(function, z, frame, numbers, shared=shared, work=_WORK * len(z)))

    def transform(self, z: Complex) -> Complex:
        """Return ``m(z)``, the Stieltjes transform of the spectral law, for ``z`` in the upper half-plane.

        Raises `NotConverged` if the fixed point is not found.

        Docs, "Structured bulk", equation (A6).
        """
        m = -1 / z
        for _ in range(_MAX_STEPS):
            mean, square = self._sums(m, self._self_energy)[..., 0]
            gap = 1 / (mean - z) - m
            if np.all(np.abs(gap) <= _TOLERANCE * np.abs(m)):
                return m
            # d(1 / (mean - z)) / dm; Newton's step while it stays in the half-plane, the contraction otherwise.
            slope = square / (mean - z) ** 2
            newton = m + gap / (1 - slope)
            m = np.where(newton.imag > 0, newton, m + gap)
        worst = float(np.max(np.abs(gap / m)))
        raise NotConverged(
            "the law of the step's weighted samples", worst, _TOLERANCE, "Take more samples in the step."
        )

    def transform_slope(self, m: Complex) -> Complex:
        """Return ``m'(z)`` at a solution."""
        return np.asarray(m**2 / (1 - m**2 * self._sums(m, self._self_energy)[1, :, 0]))

    @cached_property
    def _self_energy(self) -> Array:
        """What `_sums` takes for the equation of ``m``."""
        return self._powers((self.law.weight * self.weight)[:, None])

    def _powers(self, weights: Array) -> Array:
        """Return weights of shape (nodes, columns) times the powers 0 to 3 of ``omega``, shape (nodes, 4 columns)."""
        one = weights * self.weight[:, None]
        two = one * self.weight[:, None]
        return np.concatenate([weights, one, two, two * self.weight[:, None]], axis=1)

    def _sums(self, m: Complex, powers: Array) -> Complex:
        """Return sums over the nodes of ``1 / (1 + phi0 m omega)`` and minus its derivative in m, times weights.

        The weights are `powers`, shape (nodes, 4 columns), from `_powers`, and the sums have shape
        (2, points, columns).
        """
        sums = _sums(self.ratio * m, self.weight, powers)
        sums[1] *= np.reshape(self.ratio, (-1, 1))
        return sums

    @cached_property
    def _products(self) -> tuple[Array, Array]:
        """Weighted second moments of a sample in the directions that its residual depends on, at the nodes.

        Shapes (directions, directions, nodes), and (directions, nodes) for the moments with the residual.
        """
        u, weight = self.law.projection, self.law.weight * self.weight
        x = u[None] if self.output is None else np.stack([u, self.output])
        variance = np.diag([0.0, self.output_variance][: len(x)])[..., None]
        return weight * (x[:, None] * x + variance), weight * self.law.residual * x

    def _products_in(self, frame: Array) -> tuple[Array, Array]:
        """Return `_products` in the directions of a frame, of which the last is that of the random gradient."""
        count = frame.shape[-2] - 1
        products, crossed = self._products
        return products[:count, :count], crossed[:count]

    def resolvent(self, z: Complex, m: Complex, slope: Complex, frame: Array) -> tuple[Complex, Complex]:
        """Return the resolvent ``(A - z)^-1`` between some vectors and its derivative, shape (..., vectors, vectors).

        The points `z` are in the upper half-plane, and `m` and `slope` are the transform and its derivative there. The
        vectors are the columns of `frame`, shape (directions, vectors), in the directions of `directions_frame`.

        Docs, "Structured bulk", equation (A7).
        """
        products, crossed = self._products_in(frame)
        count, square, ratio = len(crossed), self.law.square, np.reshape(self.ratio, -1)
        own = self.law.weight * self.law.residual**2 / square
        weights = np.concatenate([products.reshape(count**2, -1), crossed, own[None]]).T
        part, turn = self._sums(m, self._powers(weights))
        turn *= -slope[:, None]
        scale, one = np.sqrt(ratio / square)[:, None], np.eye(count)
        forms, d_forms = (sums[:, : count**2].reshape(-1, count, count) for sums in (part, turn))
        couplings, d_couplings = (sums[:, count**2 : -1] for sums in (part, turn))
        coupling = scale * m[:, None] * couplings
        d_coupling = scale * (slope[:, None] * couplings + m[:, None] * d_couplings)
        own, d_own = m * part[:, -1], slope * part[:, -1] + m * turn[:, -1]
        if self.forms is not None:
            whole = self.forms.square
            changes, d_changes = self._drawn(m, np.stack([self.weight * self.law.projection, self.law.residual]))
            d_changes *= slope[:, None, None]
            forms, d_forms = forms - changes[:, :1, :1], d_forms - d_changes[:, :1, :1]
            longer = math.sqrt(self.forms.mean_square / whole)
            coupling, d_coupling = (
                longer * each + change[:, :1, 1] / math.sqrt(whole)
                for each, change in ((coupling, changes), (d_coupling, d_changes))
            )
            own, d_own = (
                longer**2 * each + change[:, 1, 1] / whole for each, change in ((own, changes), (d_own, d_changes))
            )
        known = np.linalg.inv(forms - z[:, None, None] * one)
        d_known = -known @ (d_forms - one) @ known
        across = -np.matvec(known, coupling)
        d_across = -np.matvec(d_known, coupling) - np.matvec(known, d_coupling)
        rest = own - _dot(coupling, across)
        d_rest = d_own - _dot(d_coupling, across) - _dot(coupling, d_across)
        return _between(frame, known, across, rest), _between(frame, d_known, d_across, d_rest)

    def _drawn(self, m: Complex, vectors: Array) -> tuple[Complex, Complex]:
        """Return what a draw changes of the resolvent between ``X_perp^T p / n_step``, and the derivative in m.

        The functions p of a sample are `vectors`, shape (vectors, nodes), and both results have shape
        (points, vectors, vectors).

        Docs, "Spread", equation (D14).
        """
        assert self.forms is not None
        known, size, ratio = self.forms, len(vectors), np.reshape(self.ratio, -1)
        products = (vectors[:, None] * known.functions).reshape(-1, len(self.law.weight))
        weights = self.law.weight * np.concatenate([products, [self.weight * self.law.residual]])
        part, turn = self._sums(m, self._powers(weights.T))
        gain, mean, d_mean = ratio * m, part[:, -1], -turn[:, -1]
        left, d_left = (sums[:, :-1].reshape(len(m), size, -1) for sums in (part, -turn))
        middle = np.stack([gain, -(gain**2) * mean / known.scale])
        d_middle = np.stack([ratio * np.ones_like(gain), -(2 * ratio * gain * mean + gain**2 * d_mean) / known.scale])
        matrices = np.stack([known.plain, known.by_residual])
        between, d_between = (np.einsum("mab,mz->zab", matrices, each) for each in (middle, d_middle))
        across = left @ between
        change = d_left @ between @ left.mT
        return across @ left.mT, change + change.mT + left @ d_between @ left.mT

    def with_powers(self, z: Complex, m: Complex, frame: Array) -> tuple[Array, Complex]:
        """Return the products of vectors with ``X^T r^p / n_step``, plain and with the resolvent between.

        The powers are ``p = 1, 2, 3``; `z`, `m` and `frame` are as in `resolvent`. The plain products have shape
        (vectors, 3), or (points, vectors, 3) if the ratio differs between the points, and the others
        (points, vectors, 3).

        Docs, "Structured bulk", equation (A7a).
        """
        products, crossed = self._products_in(frame)
        r, count, ratio = self.law.residual, frame.shape[-2] - 1, np.reshape(self.ratio, -1)
        x = (self.law.projection[None] if self.output is None else np.stack([self.law.projection, self.output]))[:count]
        powers = self.law.weight * self.law.powers[1:4]
        # Along the directions that residuals depend on, and along the random gradient.
        known, own = x @ powers.T, powers * r
        weights = [products.reshape(count**2, -1), *(crossed * power for power in self.law.powers[:3]), own]
        part, _ = self._sums(m, self._powers(np.concatenate(weights).T))
        forms = part[:, : count**2].reshape(-1, count, count)
        coupling = (ratio * m)[:, None, None] * part[:, count**2 : -3].reshape(-1, 3, count)
        scale, length = np.sqrt(self.ratio / self.law.square), np.sqrt(ratio * self.law.square)[:, None]
        last = np.reshape(scale * m, (-1, 1)) * part[:, -3:]
        along = np.multiply.outer(scale, own.sum(axis=1))[..., None, :]
        if self.forms is not None:
            changes, _ = self._drawn(m, np.stack([self.weight * self.law.projection, *self.law.powers[1:4]]))
            longer = math.sqrt(self.forms.mean_square / self.forms.square)
            forms, coupling, length = forms - changes[:, :1, :1], coupling + changes[:, 1:, :1], length / longer
            last = longer * last + changes[:, 1, 1:] / length
            plain = np.array([self.forms.between(r, power) for power in self.law.powers[1:4]])
            along = longer * along + plain / math.sqrt(self.forms.square)
        resolvent = np.linalg.inv(forms - z[:, None, None] * np.eye(count))
        across = -np.matvec(resolvent, coupling[:, 0]) / length
        seen = known - coupling.mT
        among, last = resolvent @ seen, last + _dot(across[:, None], seen.mT)
        plain = np.concatenate([np.broadcast_to(known, (*along.shape[:-2], count, 3)), along], axis=-2)
        return frame.mT @ plain, frame.mT @ np.concatenate([among, last[:, None]], axis=1)

    def mean(self, frame: Array) -> Array:
        """Return the matrix itself between the vectors of `resolvent`, shape (vectors, vectors)."""
        products, crossed = self._products_in(frame)
        mean, square, phi0 = self.law.mean, self.law.square, self.ratio
        across = math.sqrt(phi0 / square) * crossed.sum(axis=-1)
        rest = mean(self.weight) + phi0 * mean(self.weight * self.law.residual**2) / square
        if self.forms is not None:
            whole, before, r = self.forms.square, self.forms.mean_square, self.law.residual
            changed = self.forms.between(self.weight * self.law.projection, r) / math.sqrt(whole)
            across = across * math.sqrt(before / whole) + changed
            rest = (rest * before + self.forms.sampled(r, self.weight, r)) / whole
        return _between(frame, products.sum(axis=-1), across, np.array(rest))

    @cached_property
    def moments(self) -> Array:
        """``(1/d) tr A^k`` for k = 0..4: the free cumulants of ``A`` are ``phi0^(k-1) E omega^k``."""
        k1, k2, k3, k4 = (self.ratio ** (k - 1) * self.law.mean(self.weight**k) for k in range(1, 5))
        third = k3 + 3 * k1 * k2 + k1**3
        return np.array([1, k1, k2 + k1**2, third, k4 + 4 * k1 * k3 + 2 * k2**2 + 6 * k1**2 * k2 + k1**4])

    def diagonal(self, other: Array) -> Array:
        """Return the diagonal, in this eigenbasis, of the matrix of the same samples with other weights.

        As coefficients of powers of the eigenvalue, from zero: the parabola nearest to it in mean square, from
        ``(1/d) tr(A' A^k)``.
        """
        omega, ratio, mean = self.weight, self.ratio, self.law.mean
        # From the law's mean, where nothing is lost of a law that is nearly a point.
        centre, *(k2, k3, k4) = (ratio ** (k - 1) * mean(omega**k) for k in range(1, 5))
        total = mean(other)
        target = [total, ratio * mean(other * omega), total * k2 + ratio**2 * mean(other * omega**2)]
        # In units of its standard deviation.
        units = k2 ** (-0.5 * np.arange(3))
        moments = hankel([1, 0, k2], [k2, k3, k4 + 2 * k2**2]) * units * units[:, None]
        c0, c1, c2 = units * np.linalg.solve(moments, units * target)
        return np.array([c0 - c1 * centre + c2 * centre**2, c1 - 2 * c2 * centre, c2])

    def off_diagonal(self, other: Array) -> float:
        """Return the mean square of the rest of that matrix, which has no diagonal in this eigenbasis."""
        parabola, moments = self.diagonal(other), self.moments
        diagonal = parabola @ hankel(moments[:3], moments[2:]) @ parabola
        square = self.law.mean(other) ** 2 + self.ratio * self.law.mean(other**2)
        return max(square - float(diagonal), 0.0)


def _joined(
    law: Residual,
    weight: Array,
    output: Array | None,
    forms: SampleForms | None,
    z: Complex,
    frame: Array,
    numbers: Array,
) -> tuple[WeightedSamples, Complex, Array]:
    """Return samples that differ in their ratio as one, which has another at each of the points.

    `law`, `weight`, `output` and `forms` are as in `WeightedSamples`. `numbers`, shape (laws, 2), are the ratio and the
    variance of the output. The points have shape (laws, points) and become (all points,); the frames have shape
    (laws, directions, vectors) and become (all points, directions, vectors).
    """
    # An array where there is a number otherwise.
    ratio: Any = np.repeat(numbers[:, 0], z.shape[1])
    samples = WeightedSamples(law, weight, ratio, output, float(numbers[0, 1]), forms)
    return samples, z.ravel(), np.repeat(frame, z.shape[1], axis=0)


def _resolvents(*joined: Any) -> list[tuple[Any, ...]]:
    """Return the transform and its slope, the resolvent and its slope, from the parameters of `_joined`."""
    samples, z, frame = _joined(*joined)
    m = samples.transform(z)
    slope = samples.transform_slope(m)
    found = m, slope, *samples.resolvent(z, m, slope, frame)
    return [*zip(*(np.split(values, len(joined[-1])) for values in found), strict=True)]


def _with_powers(*joined: Any) -> list[tuple[Any, ...]]:
    """Return the same and then the products of `WeightedSamples.with_powers`."""
    (samples, z, frame), found = _joined(*joined), _resolvents(*joined)
    powers = samples.with_powers(z, np.concatenate([m for m, *_ in found]), frame)
    plain, resolved = (np.split(values, len(found)) for values in powers)
    return [(*of_law, first[0], every) for of_law, first, every in zip(found, plain, resolved, strict=True)]


def _sums(m: Complex, omega: Array, powers: Array) -> Complex:
    """Return the sums over the nodes of ``1 / (1 + m omega)`` and of ``omega / (1 + m omega)^2``, times weights.

    A reciprocal is the complex conjugate over the squared size: sums of real numbers are all that the nodes take.

    The weights are `powers`, shape (nodes, 4 columns), from `_powers`, and the sums have shape (2, points, columns).
    """
    columns = powers.shape[1] // 4
    plain, squared = np.empty((len(m), 2 * columns)), np.empty((len(m), 3 * columns))
    rows = max(1, _BLOCK // len(omega))
    for part in (slice(start, start + rows) for start in range(0, len(m), rows)):
        size, imaginary = np.multiply.outer(m.real[part], omega), np.multiply.outer(m.imag[part], omega)
        size += 1
        np.square(size, out=size)
        size += np.square(imaginary, out=imaginary)
        inverse = np.reciprocal(size, out=size)
        np.matmul(inverse, powers[:, : 2 * columns], out=plain[part])
        np.matmul(np.square(inverse, out=inverse), powers[:, columns:], out=squared[part])
    one, two, three = squared[:, :columns], squared[:, columns:-columns], squared[:, -columns:]
    sums, c = np.empty((2, len(m), columns), dtype=np.complex128), m.conj()[:, None]
    sums[0] = plain[:, :columns] + c * plain[:, columns:]
    sums[1] = one + c * (2 * two + c * three)
    return sums


def _dot(left: Complex, right: Complex) -> Complex:
    """Return the products of stacks of vectors, without a complex conjugate."""
    return np.asarray((left * right).sum(axis=-1))


def _between(frame: Array, known: NDArray[Any], across: NDArray[Any], rest: NDArray[Any]) -> NDArray[Any]:
    """Return symmetric matrices between the frame's vectors, given in blocks with the last direction apart."""
    top = np.concatenate([known, across[..., None]], axis=-1)
    last = np.concatenate([across, rest[..., None]], axis=-1)
    return np.asarray(frame.mT @ np.concatenate([top, last[..., None, :]], axis=-2) @ frame)


def directions_frame(alignment: float, output_alignment: float | None = None) -> Array:
    """Return the spike direction ``v``, the teacher's rest ``zeta`` and, with an output, a vector across both.

    They are orthonormal columns. The directions are ``beta*``, ``b`` if the linear part of the network's own output is
    one, and ``e``, along which ``v`` is positive. The alignments are ``<v, beta*>`` and ``<v, b> / |b|``.
    """
    rest = math.sqrt(max(1 - alignment**2, 0.0))
    if output_alignment is None:
        return np.array([[alignment, rest], [rest, -alignment]])
    along = min(max(output_alignment / rest, -1.0), 1.0) if rest > 0 else 0.0
    tangent = np.array([0.0, along, math.sqrt(1 - along**2)])
    spike, zeta = rest * tangent, -alignment * tangent
    spike[0], zeta[0] = alignment, rest
    return np.stack([spike, zeta, np.array([0.0, -tangent[2], tangent[1]])], axis=1)


def largest_residual(teacher: ScalarFunction, offset: float, noise_variance: float, count: float) -> float:
    r"""Return the largest absolute value of `count` residuals ``f*(u) - offset + noise``, at its median over draws.

    There the probability of a larger one is :math:`\log2/n`. Docs, "Spectra", equation (Z5).
    """
    u = np.linspace(-_RANGE, _RANGE, _GRID)
    weight = np.exp(-(u**2) / 2)
    residual = np.asarray(teacher(u)) - offset
    if noise_variance > 0:
        z, z_weight = hermite_rule(40)
        residual = (residual[:, None] + math.sqrt(noise_variance) * z).ravel()
        weight = (weight[:, None] * z_weight).ravel()
    size = np.abs(residual)
    falling = np.argsort(-size)
    above = np.cumsum(weight[falling]) / weight.sum()
    return float(size[falling][np.searchsorted(above, math.log(2) / count)])
