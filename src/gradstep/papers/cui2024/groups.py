r"""Several groups of neurons and spikes of larger rank (sections 4.4, C.8, and Appendix D).

The readout at initialisation may take several values, and the biases too, if they are drawn once and not trained. The
neurons that have the same readout value and the same bias are a group; the paper calls the readout values a vocabulary.
With one spike or several of them, neuron :math:`i` of group :math:`s` has the weights and the network is

.. math::
    w_i = \sqrt{c_s}\,w_i^0+\sum_l r_{sl}\hat v_l,\qquad
    f(x)=\tfrac1{\sqrt p}\sum_ia_i\sigma(\langle w_i,x\rangle+b_s).

Given the projections :math:`\kappa_l=\langle\hat v_l,x\rangle` each group has coefficients
:math:`\mu_0^s,\mu_1^s,\mu_2^s` (135). The order parameters are :math:`m_s`, :math:`\theta_{sl}`, :math:`\psi_s`,
:math:`q_1^{st}` and :math:`q_2^s`, with

.. math::
    V=\sum_{st}\mu_1^s\mu_1^tV_1^{st}+\sum_s(\mu_2^s)^2V_2^s,\qquad
    \omega_0=\sum_s\mu_0^sm_s+\mu_1^s\,\kappa\cdot\theta_s .

The paper leaves traces of large matrices in (155) and (156), which makes its equations exact but not fully asymptotic,
and assumes :math:`\gamma=1` and :math:`\beta=1`. Here they are closed, for any width ratio and alignment, by a matrix
Dyson equation (this project). With :math:`T_s=\beta c_sV_2^s` and :math:`\mathcal T=\mathrm{diag}(T)`,

.. math::
    V_2^s=\frac{\pi_s}{\lambda+\hat V_2^s+c_s[\hat V_1(1+\mathcal T\hat V_1)^{-1}]_{ss}},\qquad
    \beta V_1=(\mathcal T^{-1}+\hat V_1)^{-1}

for Gaussian bulks. The special case of section D.3, :math:`W_sW_t^\top=\delta_{st}c_s1`, is ``bulk="orthogonal"``:

.. math::
    V_2^s=\frac{\pi_s}{\lambda+\hat V_2^s+c_s\hat V_1^{ss}},\qquad \beta V_1=\mathcal T .

In both cases :math:`\theta_{\cdot l}=\Theta\hat\theta_{\cdot l}` and :math:`\psi=\beta V_1\hat\psi`, with
:math:`\Theta=((\beta V_1)^{-1}-\hat V_1)^{-1}`: the spike's directions are the ones that :math:`\hat V_1` does not see.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradstep.checks import finite, nonnegative, one_of, positive
from gradstep.errors import InvalidInput, NotConverged
from gradstep.gaussian import ScalarFunction, gaussian_rule, scalar_function, smoothed
from gradstep.papers.cui2024.spiked import equivalent_srf
from gradstep.resolution import NOTHING

__all__ = [
    "Bulk",
    "GroupBounds",
    "GroupStatistics",
    "NeuronGroups",
    "density_groups",
    "group_bounds",
    "group_statistics",
    "stepped_groups",
]

Array = NDArray[np.float64]
#: Law of the first layer before the step: Gaussian rows, or orthonormal ones (section D.3).
Bulk = Literal["gaussian", "orthogonal"]

TOLERANCE = 1e-10
_WARM_UP = 60
_ORDER = 12
_HALF_RANGE = 8.0
#: Distances of the teacher's nearest pole that a panel covers.
_POLE_DISTANCES = 1.5
#: Nodes of the product rule over all spikes.
_MOST_NODES = 2**21


@dataclass(frozen=True, eq=False)
class NeuronGroups:
    r"""Groups of neurons that differ in their spike strengths, bulk variances and biases.

    Attributes
    ----------
    fractions : ndarray, shape (groups,)
        Fractions :math:`\pi_s` of the neurons, which sum to one.
    strengths : ndarray, shape (groups, spikes)
        Spike strengths :math:`r_{sl}`.
    variances : ndarray, shape (groups,)
        Bulk variances :math:`c_s`.
    alignments : ndarray, shape (spikes,)
        Alignments :math:`\gamma_l=\langle\hat v_l,w_*\rangle` of the teacher with the orthonormal spike directions.
    biases : ndarray, shape (groups,)
        Biases :math:`b_s`, which are not trained.
    """

    fractions: Array
    strengths: Array
    variances: Array
    alignments: Array
    biases: Array

    @classmethod
    def of(
        cls,
        fractions: ArrayLike,
        *,
        strengths: ArrayLike,
        variances: ArrayLike = 1.0,
        biases: ArrayLike = 0.0,
        alignments: ArrayLike = 1.0,
    ) -> NeuronGroups:
        """Check the values and broadcast them to all groups and spikes.

        Parameters
        ----------
        fractions : array_like, shape (groups,)
            Positive numbers, which are divided by their sum.
        strengths : array_like
            One value for all groups, one value for each group, or an array of shape (groups, spikes).
        variances, biases : array_like
            One value for all groups, or one value for each group.
        alignments : array_like
            One value for all spikes, or one value for each spike.

        Raises
        ------
        InvalidInput
            If a fraction or a variance is not positive, if a strength or a bias is not finite, or if the squares of the
            alignments sum to more than one.
        """
        share = np.atleast_1d(positive("fractions", fractions))
        strength = np.asarray(strengths, dtype=np.float64)
        if strength.ndim < 2:
            strength = np.broadcast_to(strength, share.shape)[:, None]
        gamma = np.broadcast_to(np.asarray(alignments, dtype=np.float64), strength.shape[1:])
        if strength.shape[0] != share.size or not np.isfinite(strength).all():
            raise InvalidInput("strengths", strengths, f"finite numbers, one row for each of {share.size} groups")
        if not (gamma**2).sum() <= 1 + 1e-12:
            raise InvalidInput("alignments", alignments, "numbers whose squares sum to at most one")
        return cls(
            fractions=share / share.sum(),
            strengths=strength,
            variances=np.broadcast_to(positive("variances", variances), share.shape),
            alignments=gamma,
            biases=np.broadcast_to(finite("biases", biases), share.shape),
        )


def stepped_groups(
    sigma: str | ScalarFunction,
    sigma_star: str | ScalarFunction,
    vocabulary: Mapping[float, float],
    *,
    eta_tilde: float,
    alpha0: float,
    sigma_eps: float = 0.0,
) -> NeuronGroups:
    r"""Return the groups after a step from a readout of several values (Appendix A for each group).

    The activation is odd. The vocabulary maps each value :math:`u` of :math:`\sqrt p\,a_i` at initialisation to the
    fraction of the neurons that have it, and the step is as in :func:`~gradstep.papers.cui2024.equivalent_srf`. There
    is one group for each value, with :math:`r_u=ur` and :math:`c_u=1+u^2(c-1)`. Raises `InvalidInput` if the activation
    is not odd, or for the reasons of `equivalent_srf` and `NeuronGroups.of`.
    """
    if (activation := scalar_function(sigma)).parity != "odd":
        raise InvalidInput("sigma", activation.name, "an odd activation, whose steps do not stretch the rows")
    r, c, gamma = equivalent_srf(sigma, sigma_star, eta_tilde=eta_tilde, alpha0=alpha0, sigma_eps=sigma_eps)
    shares = list(vocabulary.values())
    return density_groups(list(vocabulary), shares, r=float(r), c=float(c), gamma=float(gamma))


def density_groups(values: ArrayLike, weights: ArrayLike, *, r: float, c: float, gamma: float) -> NeuronGroups:
    r"""Return one group for each node of a quadrature over a continuous density of the readout, (161) to (164).

    The nodes of the quadrature are :math:`u`, its weights :math:`\rho(u)du`, and the spike is that of a neuron with
    :math:`u=1`. With these groups the sums of (155) and (156) are the integrals of the paper's equations for a density.
    """
    u = np.asarray(values, dtype=np.float64)
    return NeuronGroups.of(weights, strengths=u * r, variances=1 + u**2 * (c - 1), alignments=gamma)


@dataclass(frozen=True)
class _Tables:
    """Features and teacher on the nodes of a quadrature over the projections on the spikes."""

    weight: Array  # (nodes,)
    kappa: Array  # (spikes, nodes)
    mean: Array  # (groups, nodes): mu_0
    slope: Array  # (groups, nodes): mu_1, per unit of <w_i, x>
    variance: Array  # (groups, nodes): mu_2^2
    teacher_mean: Array
    teacher_slope: Array
    teacher_variance: Array


@lru_cache(maxsize=32)
def _tables(sigma: ScalarFunction, sigma_star: ScalarFunction, groups: NeuronGroups) -> _Tables:
    root_variance = np.sqrt(groups.variances)
    rest = np.sqrt(max(1 - float((groups.alignments**2).sum()), 0.0))
    rules = []
    for strength, gamma in zip(groups.strengths.T, groups.alignments, strict=True):
        steepness = float(np.max(np.abs(strength) / root_variance))
        kinks = [kink / gamma for kink in sigma_star.kinks] if abs(gamma) > 1e-9 and groups.alignments.size == 1 else []
        # The teacher is averaged over the part of its argument orthogonal to the spikes. Panels of this many pole
        # distances resolve the result.
        sharpest = _POLE_DISTANCES * math.hypot(sigma_star.pole_distance, 3 * rest) / max(abs(gamma), 1e-9)
        widths = [0.0, *(sign * rest * scale for sign in (-1, 1) for scale in (0.5, 2, 8))]
        rules.append(
            gaussian_rule(
                [kink + width for kink in kinks for width in widths],
                resolution=min(4 / (1 + steepness), sharpest),
                order=_ORDER,
                half_range=_HALF_RANGE,
            )
        )
    if (numbers := math.prod(len(nodes) for nodes, _ in rules)) > _MOST_NODES:
        advice = "Use fewer spikes, or functions that vary more slowly."
        raise NotConverged("resolution along the spikes", numbers, _MOST_NODES, advice)
    kappa = np.array(list(itertools.product(*(nodes for nodes, _ in rules)))).T
    weight = np.prod(np.array(list(itertools.product(*(weights for _, weights in rules)))), axis=1)
    centre = groups.strengths @ kappa + groups.biases[:, None]
    features = smoothed(sigma, centre, root_variance[:, None])
    labels = smoothed(sigma_star, groups.alignments @ kappa, rest)
    # Without this, rounding errors would be taken for a mean of the features.
    centred = (sigma.parity == "odd") & (groups.biases == 0) & ~groups.strengths.any(axis=1)
    return _Tables(
        weight=weight,
        kappa=kappa,
        mean=np.where(centred[:, None], 0.0, features.mean),
        slope=features.slope / root_variance[:, None],
        variance=features.residual_variance,
        teacher_mean=labels.mean,
        teacher_slope=labels.slope,
        teacher_variance=labels.residual_variance,
    )


@dataclass(frozen=True)
class GroupStatistics:
    r"""Summary statistics at the saddle point (155), (156), and the errors.

    Attributes
    ----------
    test_error, train_error, train_loss : float
        Test error (157) against the noiseless teacher; mean squared training residual; the same plus
        :math:`\lambda|a|^2/n`.
    readout_mean : ndarray, shape (groups,)
        :math:`m_s`.
    bulk_overlap : ndarray, shape (groups, spikes)
        :math:`\theta_{sl}`.
    teacher_overlap : ndarray, shape (groups,)
        :math:`\psi_s`.
    bulk_norm, bulk_response : ndarray, shape (groups, groups)
        :math:`q_1^{st}`, :math:`V_1^{st}`.
    readout_norm, readout_response : ndarray, shape (groups,)
        :math:`q_2^s`, :math:`V_2^s`.
    residual : float
        Relative residual of the equations of the responses at their solution, at most 1e-10.
    """

    test_error: float
    train_error: float
    train_loss: float
    readout_mean: Array
    bulk_overlap: Array
    teacher_overlap: Array
    bulk_norm: Array
    bulk_response: Array
    readout_norm: Array
    readout_response: Array
    residual: float


@dataclass(frozen=True)
class _Equations:
    """The saddle point: averages over the projections, and the law of the bulk, with its derivatives."""

    table: _Tables
    groups: NeuronGroups
    bulk: Bulk
    alpha: float
    beta: float
    lam: float

    def hats(self, weight: Array) -> tuple[Array, Array]:
        """Averages of mu_1 mu_1 and mu_2^2 under a weight on the nodes."""
        slope, ratio = self.table.slope, self.alpha / self.beta
        return ratio * (slope * weight) @ slope.T, ratio * self.table.variance @ weight

    def spread(self, first: Array, second: Array) -> Array:
        """Return mu_1 first mu_1 + mu_2^2 second on the nodes: V from (V_1, V_2), or the q terms of R."""
        return np.asarray(
            np.einsum("sk,st,tk->k", self.table.slope, first, self.table.slope) + second @ self.table.variance
        )

    def responses(self, v1_hat: Array, v2_hat: Array, v2: Array) -> tuple[Array, Array]:
        """Return V_1 and the image of V_2."""
        t, left = self._bulk(v1_hat, v2)
        v1 = left.T * t / self.beta
        pull = np.diag(left @ v1_hat)
        return 0.5 * (v1 + v1.T), self.groups.fractions / (self.lam + v2_hat + self.groups.variances * pull)

    def changes(self, v1_hat: Array, v2: Array, d_v1_hat: Array, d_v2_hat: Array) -> tuple[Array, Array]:
        """Return the derivatives of V_1 and V_2 when the hats move."""
        t, left = self._bulk(v1_hat, v2)
        shrink, t_slope = v2**2 / self.groups.fractions, self.beta * self.groups.variances
        direct = np.diag(left @ d_v1_hat @ left.T)
        # d V_2 = -shrink (d V2_hat + c (direct - sum_t pull_st^2 beta c_t d V_2^t)), and y = (T^-1 + V1_hat)^-1.
        # Orthonormal rows do not interact.
        interacting = float(self.bulk == "gaussian")
        pull, y = interacting * left @ v1_hat, interacting * left.T * t
        matrix = np.eye(v2.size) - (shrink * self.groups.variances)[:, None] * pull**2 * t_slope
        d_v2 = np.asarray(np.linalg.solve(matrix, -shrink * (d_v2_hat + self.groups.variances * direct)), np.float64)
        return (left.T @ np.diag(t_slope * d_v2) @ left - y @ d_v1_hat @ y.T) / self.beta, d_v2

    def _bulk(self, v1_hat: Array, v2: Array) -> tuple[Array, Array]:
        """Return the diagonal of T, and (1 + V1_hat T)^-1, or one for orthonormal rows."""
        t, one = self.beta * self.groups.variances * v2, np.eye(v2.size)
        return t, one if self.bulk == "orthogonal" else np.asarray(np.linalg.inv(one + v1_hat * t), np.float64)


def group_statistics(
    sigma: str | ScalarFunction,
    sigma_star: str | ScalarFunction,
    groups: NeuronGroups,
    *,
    alpha: float,
    lam: float,
    beta: float = 1.0,
    sigma_eps: float = 0.0,
    bulk: Bulk = "gaussian",
    d: float = np.inf,
) -> GroupStatistics:
    r"""Solve (155) to (157), or (159) and (160) for orthonormal rows.

    Parameters
    ----------
    sigma, sigma_star : str or ScalarFunction
        Activation and teacher.
    groups : NeuronGroups
        Groups of the neurons after the step.
    alpha, lam, beta, sigma_eps : float
        As in :func:`~gradstep.papers.cui2024.summary_statistics`.
    bulk : {"gaussian", "orthogonal"}
        Independent rows, or the orthonormal rows of section D.3 (for :math:`\beta\le1`).
    d : float
        Input dimension. At finite dimension the penalty limits the means, :math:`m_s=d\beta V_2^s\hat m_s`. This
        matters with several groups: a difference between two :math:`\mu_0^s` is learned only if its square times
        :math:`n` is large.

    Raises
    ------
    InvalidInput
        If an argument is out of range.
    NotConverged
        If the residual at the solution is above 1e-10.

    References
    ----------
    Cui et al. 2024, Appendix D. The equations for its traces, for any :math:`\beta` and :math:`\gamma`, and for several
    spikes together with several groups are of this project.
    """
    student, target = scalar_function(sigma), scalar_function(sigma_star)
    alpha, beta, lam = (float(positive(n, v)) for n, v in (("alpha", alpha), ("beta", beta), ("lam", lam)))
    noise, d = float(nonnegative("sigma_eps", sigma_eps)), float(positive("d", d, infinite=True))
    one_of("bulk", bulk, ("gaussian", "orthogonal"))
    if bulk == "orthogonal" and beta > 1:
        raise InvalidInput("beta", beta, "at most 1 when the rows are orthogonal")
    table = _tables(student, target, groups)
    equations = _Equations(table, groups, bulk, alpha, beta, lam)
    v1, v2, residual = _solve_responses(equations)
    if not residual <= TOLERANCE:
        raise NotConverged(
            "groups", residual, TOLERANCE, "Use a larger penalty, or fewer groups with more distinct strengths."
        )
    gain = 1 / (1 + equations.spread(v1, v2))
    first, second = table.weight * gain, table.weight * gain**2
    v1_hat, _ = equations.hats(first)
    theta_response: Array = np.asarray(np.linalg.inv(np.linalg.inv(beta * v1) - v1_hat), dtype=np.float64)
    m, theta = _solve_means(table, alpha / beta * first, d * beta * v2, theta_response)
    learned = m @ table.mean + np.einsum("sl,lk,sk->k", theta, table.kappa, table.slope)
    psi_hat = alpha / beta * table.slope @ (first * table.teacher_slope)
    psi = beta * v1 @ psi_hat

    # The error R without the terms in q, and what the means add to the hats of q or subtract from q_1.
    fixed = (table.teacher_mean - learned) ** 2 + table.teacher_variance + noise**2 + table.teacher_slope**2
    fixed = fixed - 2 * (psi @ table.slope) * table.teacher_slope
    source1 = beta * np.outer(psi_hat, psi_hat)
    source2 = (m / v2) ** 2 / (d * beta) + (theta**2).sum(axis=1) / (beta * groups.variances * v2**2)
    along = theta @ theta.T if bulk == "orthogonal" else np.zeros_like(v1)

    def image(error: Array, extra1: Array | float = 0.0, extra2: Array | float = 0.0) -> tuple[Array, Array]:
        """Return q_1 and q_2: minus the derivatives of V_1 and V_2 along the hats of q."""
        hat1, hat2 = equations.hats(second * error)
        d_v1, d_v2 = equations.changes(v1_hat, v2, hat1 + extra1, hat2 + extra2)
        return -d_v1, -d_v2

    constant1, constant2 = image(fixed, source1, source2)
    q1, q2 = _solve_norms(lambda q1, q2: image(equations.spread(q1, q2)), constant1 - along, constant2)
    error = fixed + equations.spread(q1, q2)
    train_error = float(second @ error)
    return GroupStatistics(
        test_error=float(table.weight @ error) - noise**2,
        train_error=train_error,
        train_loss=train_error + lam * beta / alpha * float(q2.sum()),
        readout_mean=m,
        bulk_overlap=theta,
        teacher_overlap=psi,
        bulk_norm=q1,
        bulk_response=v1,
        readout_norm=q2,
        readout_response=v2,
        residual=residual,
    )


def _symmetric(packed: Array, count: int) -> Array:
    """Return the symmetric matrix whose upper triangle is given, row by row."""
    matrix = np.zeros((count, count))
    matrix[np.triu_indices(count)] = packed
    return np.asarray(matrix + np.triu(matrix, 1).T)


def _solve_responses(equations: _Equations) -> tuple[Array, Array, float]:
    """Return V_1, V_2 and the true relative residual of their equations."""
    groups, weight = equations.groups, equations.table.weight
    count = groups.fractions.size
    upper = np.triu_indices(count)

    def step(v1: Array, v2: Array) -> tuple[Array, Array]:
        return equations.responses(*equations.hats(weight / (1 + equations.spread(v1, v2))), v2)

    # An iteration that starts above the solution decreases to it. Powell's method is then used from close to it.
    v2 = groups.fractions / equations.lam
    v1 = np.diag(groups.variances * v2)
    for _ in range(_WARM_UP):
        v1, v2 = step(v1, v2)
    size1, size2 = np.sqrt(np.diag(v1)), v2
    scale = np.outer(size1, size1)

    def unpack(x: Array) -> tuple[Array, Array]:
        return _symmetric(x[count:], count) * scale, size2 * np.exp(x[:count])

    def gap(x: Array) -> Array:
        v1, v2 = unpack(x)
        new1, new2 = step(v1, v2)
        return np.concatenate([np.log(new2 / v2), ((new1 - v1) / scale)[upper]])

    start = np.concatenate([np.zeros(count), (v1 / scale)[upper]])
    from scipy.optimize import root  # here: the app starts faster without

    found = root(gap, start, method="hybr", options={"xtol": 1e-13}).x
    return *unpack(found), float(np.abs(gap(found)).max())


def _solve_means(table: _Tables, weight: Array, m_response: Array, theta_response: Array) -> tuple[Array, Array]:
    """Return m and theta: a ridge regression of the teacher on mu_0 and kappa mu_1, with the responses as covariance.

    In the limit m is free; groups may have linearly dependent means, and the solution is the one of least norm.
    """
    count, spikes = table.mean.shape[0], table.kappa.shape[0]
    linear = (table.kappa[None] * table.slope[:, None]).reshape(count * spikes, -1)
    half = np.kron(np.linalg.cholesky(theta_response), np.eye(spikes))
    basis = np.concatenate([table.mean, half.T @ linear])
    weighted = basis * weight
    gram = weighted @ basis.T + np.diag(np.concatenate([1 / m_response, np.ones(count * spikes)]))
    scale = np.sqrt(np.maximum(np.diag(gram), NOTHING))
    inverse = np.linalg.pinv(gram / np.outer(scale, scale), rcond=1e-12, hermitian=True)
    coefficients = inverse @ (weighted @ table.teacher_mean / scale) / scale
    return coefficients[:count], (half @ coefficients[count:]).reshape(count, spikes)


def _solve_norms(
    image: Callable[[Array, Array], tuple[Array, Array]], constant1: Array, constant2: Array
) -> tuple[Array, Array]:
    """Solve q = constant + image(q) for a symmetric q_1 and for q_2, with a linear image."""
    count = constant2.size
    upper = np.triu_indices(count)

    def pack(q1: Array, q2: Array) -> Array:
        return np.concatenate([q2, q1[upper]])

    units = np.eye(count + upper[0].size)
    columns = [pack(*image(_symmetric(unit[count:], count), unit[:count])) for unit in units]
    solved = np.linalg.solve(units - np.stack(columns, axis=1), pack(constant1, constant2))
    return _symmetric(np.asarray(solved[count:], dtype=np.float64), count), np.asarray(solved[:count])


@dataclass(frozen=True)
class GroupBounds:
    r"""The bounds (26) and (27) with the larger basis of several groups (section 4.4).

    Attributes
    ----------
    upper, lower : float
        Squared distance of the teacher to the span of the functions :math:`\mu_0^s`; and to the span of the
        functions :math:`\mu_0^s`, :math:`\kappa_l\mu_1^s` and :math:`\zeta\mu_1^s`. Here :math:`\zeta` is the
        projection of the input on the part of :math:`w_*` orthogonal to the spikes.
    dimension : int
        Dimension of the second span among functions of the projections.
    """

    upper: float
    lower: float
    dimension: int


def group_bounds(sigma: str | ScalarFunction, sigma_star: str | ScalarFunction, groups: NeuronGroups) -> GroupBounds:
    """Bound the test error at the best penalty.

    The groups are those after the step.
    """
    table = _tables(scalar_function(sigma), scalar_function(sigma_star), groups)
    linear = (table.kappa[None] * table.slope[:, None]).reshape(-1, table.weight.size)
    orthogonal = _distance(table.weight, table.slope, table.teacher_slope)[0]
    rest = orthogonal + float(table.weight @ table.teacher_variance)
    upper, _ = _distance(table.weight, table.mean, table.teacher_mean)
    lower, dimension = _distance(table.weight, np.concatenate([table.mean, linear]), table.teacher_mean)
    return GroupBounds(
        upper + float(table.weight @ (table.teacher_slope**2 + table.teacher_variance)), lower + rest, dimension
    )


def _distance(weight: Array, functions: Array, target: Array) -> tuple[float, int]:
    """Return the squared distance of a function to the span of others, and the dimension of the span."""
    half = np.sqrt(weight)
    left, singular, _ = np.linalg.svd((functions * half).T, full_matrices=False)
    kept = left[:, singular > 1e-8 * max(float(singular.max()), NOTHING)]
    miss = half * target - kept @ (kept.T @ (half * target))
    return float(miss @ miss), kept.shape[1]
