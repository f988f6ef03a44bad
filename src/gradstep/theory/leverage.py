"""The fixed point for the leverage ``V(kappa)`` and the resolvent ``1/A_g`` of a neuron of each group.

Equations (a group's index is ``g, h``, a node of kappa is ``k``; ``E_k`` averages over nodes):

    V1_gh = n E_k[ g1_g g1_h / (1 + V) ]               V2_g = n E_k[ g2_g / (1 + V) ]
    D_j   = diag( u_gj N_g / ((d - 1) A_g) )           Psi_j = V1 (I + D_j V1)^-1
    A_g   = ridge + V2_g + sum_j p_j u_gj Psi_j,gg     calV = (d - 1) sum_j p_j (D_j^-1 + V1)^-1
    V(k)  = sum_gh g1_g g1_h calV_gh + sum_g g2_g N_g / A_g

``j`` runs over classes of directions off the spike: a share ``p_j`` of them, in which the rows of group ``g`` have
``u_gj`` times their mean variance. An isotropic bulk is one class.

In ``(log V, log A)`` the map is monotone and contracts, and Newton's method with its exact Jacobian converges in a few
steps. Everything carries a leading batch axis. This project.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from gradstep.errors import NotConverged
from gradstep.theory.stacks import identity, solved

__all__ = ["TOLERANCE", "Leverage", "LeverageEquations", "inner", "jacobian", "response", "solve_leverage"]

#: Largest residual of a solution, relative.
TOLERANCE = 1e-10
_MAX_STEPS = 60
#: A leverage below the smallest is none: the features of a saturated activation vanish, and a logarithm must not.
_SMALLEST, _LARGEST = 1e-200, 1e300
#: Error in log V from which Newton's method takes over.
_NEAR = 1e-4
_NAME = "the fixed point of the uniform equivalent"
_ADVICE = "Raise the ridge, use a smaller step, or move the sizes away from n = width."
#: Unknowns from which OpenBLAS takes threads.
_THREADED = 100

Array = NDArray[np.float64]


@dataclass(frozen=True)
class LeverageEquations:
    """Coefficients of the fixed point, with a batch axis (of length one where shared).

    Attributes
    ----------
    slope, variance : ndarray, shape (1 or batch, groups, nodes)
        ``g1`` and ``g2``.
    weight : ndarray, shape (1 or batch, nodes)
        Probability weights of the nodes.
    neurons : ndarray, shape (batch, groups)
        ``N_g``.
    dimension, samples, ridge : ndarray, shape (batch,)
        ``d - 1``, ``n`` and the penalty.
    share : ndarray, shape (1 or batch, classes)
        ``p_j``, which sum to one (default: one class).
    profile : ndarray, shape (1 or batch, classes, groups)
        ``u_gj``, of mean one over the classes (default: one).
    population : ndarray, shape (1 or batch,), optional
        Weight at which the fit also knows the population, per sample: ``1/(1 + V) + population`` replaces ``1/(1 + V)``
        wherever samples are summed.
    """

    slope: Array
    variance: Array
    weight: Array
    neurons: Array
    dimension: Array
    samples: Array
    ridge: Array
    share: Array = field(default_factory=lambda: np.ones((1, 1)))
    profile: Array = field(default_factory=lambda: np.ones((1, 1, 1)))
    population: Array | None = None

    @cached_property
    def sampling(self) -> Array:
        """Return ``n w``, shape (batch, nodes)."""
        return self.samples[:, None] * self.weight

    def weighed(self, leverage: Array) -> Array:
        """Return ``n w (1 / (1 + V) + population)``, shape (batch, nodes)."""
        share = 1 / (1 + leverage)
        if self.population is not None:
            share += self.population[:, None]
        return np.asarray(self.sampling * share)

    def mixed(self, values: Array) -> Array:
        """Return the mean over the directions of values of shape (batch, classes, ...)."""
        batch, classes, *shape = values.shape
        if classes == 1:
            return np.asarray(values[:, 0])
        return np.asarray(self.share[:, None] @ values.reshape(batch, classes, -1)).reshape(batch, *shape)

    def take(self, index: NDArray[np.intp]) -> LeverageEquations:
        """Return the equations of some members of the batch."""

        def pick(table: Array) -> Array:
            return table if len(table) == 1 else table[index]

        return LeverageEquations(
            pick(self.slope),
            pick(self.variance),
            pick(self.weight),
            self.neurons[index],
            self.dimension[index],
            self.samples[index],
            self.ridge[index],
            pick(self.share),
            pick(self.profile),
            None if self.population is None else pick(self.population),
        )


class Leverage(NamedTuple):
    """One evaluation of the equations at given ``V`` and ``A``; a solution when `residual` is small.

    Attributes
    ----------
    leverage : ndarray, shape (batch, nodes)
        ``V(kappa)``; ``V / (1 + V)`` is the mean diagonal of the hat matrix at kappa.
    inverse_resolvent : ndarray, shape (batch, groups)
        ``A_g``.
    sample_weight : ndarray, shape (batch, nodes)
        ``n w (1 / (1 + V) + population)``.
    linear_gain : ndarray, shape (batch, groups, groups)
        ``V1``.
    density : ndarray, shape (batch, groups)
        ``D`` (diagonal), its mean over the directions.
    columns : ndarray, shape (batch, classes, groups, nodes)
        ``D_j^1/2 g1``.
    dressed : ndarray, shape (batch, classes, groups, nodes)
        ``(I + D_j^1/2 V1 D_j^1/2)^-1 D_j^1/2 g1``.
    following : ndarray, shape (batch, nodes + groups)
        Right-hand sides of the equations for ``V`` and ``A``.
    gap : ndarray, shape (batch, nodes + groups)
        Difference of logarithms between the two sides, of ``V`` and then of ``A``.
    residual : ndarray, shape (batch,)
        Largest absolute gap.
    """

    leverage: Array
    inverse_resolvent: Array
    sample_weight: Array
    linear_gain: Array
    density: Array
    columns: Array
    dressed: Array
    following: Array
    gap: Array
    residual: Array


def evaluate(equations: LeverageEquations, state: Array, *, stable: bool = False) -> Leverage:
    """Evaluate both sides of the equations at ``state``, the logarithms of ``V`` and then of ``A``.

    With `stable`, matrices come from a singular value decomposition of the square root of ``D^1/2 V1 D^1/2``: three
    times slower, and needed only where that matrix is so large that its inverse would lose all digits (features of
    low rank almost without ridge).
    """
    g1 = equations.slope
    nodes = g1.shape[2]
    values = np.exp(state)
    leverage, inverse_resolvent = values[:, :nodes], values[:, nodes:]
    sample_weight = equations.weighed(leverage)
    linear_gain = (g1 * sample_weight[:, None, :]) @ np.swapaxes(g1, 1, 2)
    density = equations.neurons / (equations.dimension[:, None] * inverse_resolvent)
    root = np.sqrt(density[:, None, :] * equations.profile)
    columns = root[..., None] * g1[:, None]
    dressed = _stably_dressed(columns, sample_weight) if stable else solved(inner(linear_gain, root), columns)
    # The part of a group in the leverage of a node is that of the node in the group's resolvent.
    gain = equations.mixed(columns * dressed) + density[:, :, None] * equations.variance
    next_leverage = np.maximum(equations.dimension[:, None] * gain.sum(axis=1), _SMALLEST)
    next_inverse_resolvent = equations.ridge[:, None] + (gain @ sample_weight[..., None])[..., 0] / density
    following = np.concatenate([next_leverage, next_inverse_resolvent], axis=1)
    gap = np.log(following) - state
    residual = np.abs(gap).max(axis=1)
    return Leverage(
        leverage, inverse_resolvent, sample_weight, linear_gain, density, columns, dressed, following, gap, residual
    )


def inner(linear_gain: Array, root: Array) -> Array:
    """Return ``I + D^1/2 V1 D^1/2`` for diagonal ``D^1/2`` of shape (batch, classes, groups).

    It is symmetric and at least the identity: its inverse is safe however small the groups are.
    """
    matrix = root[..., :, None] * linear_gain[:, None] * root[..., None, :]
    matrix += identity(linear_gain.shape[1])
    return matrix


def _stably_dressed(columns: Array, sample_weight: Array) -> Array:
    """Return what `evaluate` solves for from the singular vectors of the weighed columns."""
    half_weight = np.sqrt(sample_weight)[:, None, None, :]
    weighed = columns * half_weight
    left, singular, right = np.linalg.svd(weighed, full_matrices=False)
    # Coefficients of the columns, each from the factor that holds more of its digits: a node that weighs nothing has
    # lost them in `right`, a direction that nothing spans is noise in `left`.
    size = np.linalg.norm(weighed, axis=2)[..., None, :]
    by_right = singular[..., None] * right / half_weight
    coefficients = np.where(singular[..., None] < size, by_right, np.swapaxes(left, 2, 3) @ columns)
    return np.asarray(left @ (coefficients / (1 + singular**2)[..., None]), dtype=np.float64)


def _guess(equations: LeverageEquations) -> Array:
    """Return a state near the solution: that of one average neuron, spread over the nodes and then over the groups.

    All of the equations' ``V1`` is given to the slope that the groups have in common, up to a factor of each group's
    own. What is left of a slope meets no crowd, like the variance.
    """
    slope, weight, ridge = equations.slope, equations.weight, equations.ridge[:, None]
    width = equations.neurons.sum(axis=1, keepdims=True)
    share = (equations.neurons / width)[:, None]
    mean = share @ slope
    weighed = mean * weight[:, None]
    # An even activation has groups with opposite slopes: nothing in common.
    power = np.maximum((weighed * mean).sum(axis=2, keepdims=True), _SMALLEST)
    common = (slope @ np.swapaxes(weighed, 1, 2)) / power * mean
    square, rest = common**2, (slope - common) ** 2 + equations.variance
    linear, nonlinear = (share @ square)[:, 0], (share @ rest)[:, 0]
    averages = (width, equations.dimension[:, None], equations.samples[:, None], ridge)
    table = np.concatenate([(linear * weight).sum(1)[:, None], (nonlinear * weight).sum(1)[:, None], *averages], axis=1)
    a, damping = np.array([_average_neuron(*row) for row in table.tolist()]).T[..., None]
    leverage = width / a * (linear / damping + nonlinear)
    sample_weight = equations.weighed(leverage)[..., None]
    resolvent = ridge + ((square / damping[..., None] + rest) @ sample_weight)[..., 0]
    return np.asarray(np.log(np.concatenate([np.maximum(leverage, _SMALLEST), resolvent], axis=1)))


def _average_neuron(
    linear: float, nonlinear: float, width: float, dimension: float, samples: float, ridge: float
) -> tuple[float, float]:
    """Solve the equations for one average neuron and one average input (random features without a spike).

    There ``A`` is the positive root of a quadratic given ``V``, and ``V`` the only root of a function that falls in
    ``log V``. Returns ``A`` and ``1 + D V1``.
    """

    def resolvent(log_leverage: float) -> tuple[float, float]:
        share_of_samples = samples / (1 + math.exp(log_leverage))
        gain = linear * share_of_samples
        base = ridge + nonlinear * share_of_samples
        crowd = width / dimension * gain
        b = base + gain - crowd
        root = math.hypot(b, 2 * math.sqrt(base) * math.sqrt(crowd))
        # The branch without cancellation.
        a = (b + root) / 2 if b >= 0 else 2 * base * crowd / (root - b)
        return a, 1 + crowd / a

    def image(log_leverage: float) -> float:
        a, damping = resolvent(log_leverage)
        return math.log(min(max(width / a * (linear / damping + nonlinear), _SMALLEST), _LARGEST))

    # The right-hand side rises with V: what it makes of the least and the largest V lies on both sides of the solution.
    low, high = image(-math.inf) - _NEAR, image(math.log(_LARGEST)) + _NEAR
    # NaN, where numbers have left their range, is met again by Newton's method, which says so.
    found = brentq(lambda v: image(v) - v, low, high, xtol=_NEAR) if low < high else low
    return resolvent(found)


def jacobian(equations: LeverageEquations, point: Leverage) -> Array:
    """Return minus the derivative of the gap in the logarithms of ``V`` and ``A``, shape (batch, both, both)."""
    groups, nodes = equations.slope.shape[1:]
    coupling = np.swapaxes(point.columns, 2, 3) @ point.dressed
    psi = (point.dressed * point.sample_weight[:, None, None, :]) @ np.swapaxes(point.columns, 2, 3)
    source = equations.mixed(point.dressed**2) + point.density[:, :, None] * equations.variance
    # Up to scales of rows and columns, averages of squares over the classes (squared in place: new memory costs more).
    matrix = np.empty((len(coupling), nodes + groups, nodes + groups))
    matrix[:, :nodes, :nodes] = equations.mixed(np.square(coupling, out=coupling))
    matrix[:, :nodes, nodes:] = -np.swapaxes(source, 1, 2)
    matrix[:, nodes:, :nodes] = -source
    matrix[:, nodes:, nodes:] = equations.mixed(np.square(psi, out=psi))
    matrix[:, :, :nodes] *= (equations.sampling * point.leverage / (1 + point.leverage) ** 2)[:, None, :]
    scale = 1 / point.following
    scale[:, :nodes] *= equations.dimension[:, None]
    scale[:, nodes:] /= point.density
    matrix *= scale[:, :, None]
    return np.subtract(identity(nodes + groups), matrix, out=matrix)


def response(equations: LeverageEquations, point: Leverage, sources: Array) -> Array:
    """Return the solution of the linear equations whose matrix is the `jacobian`, shape (batch, nodes + groups)."""
    matrix, right = jacobian(equations, point), sources[..., None]
    if matrix.shape[1] < _THREADED:
        return np.asarray(solved(matrix, right)[..., 0])
    # BLAS gives the factors of a larger matrix to several threads, whose hand-over takes longer than the work: the
    # groups are eliminated first. Up to the sign of their unknowns this is an M-matrix, which needs no pivots.
    nodes = equations.slope.shape[2]
    whole = np.concatenate([matrix[:, :, :nodes], right], axis=2)
    eliminated = solved(matrix[:, nodes:, nodes:], whole[:, nodes:])
    reduced = whole[:, :nodes] - matrix[:, :nodes, nodes:] @ eliminated
    of_nodes = solved(reduced[..., :-1], reduced[..., -1:])
    of_groups = eliminated[..., -1:] - eliminated[..., :-1] @ of_nodes
    return np.concatenate([of_nodes, of_groups], axis=1)[..., 0]


def solve_leverage(equations: LeverageEquations, tolerance: float = TOLERANCE) -> tuple[Leverage, int]:
    """Solve the fixed point for a batch.

    Parameters
    ----------
    equations : LeverageEquations
    tolerance : float
        Largest true residual allowed (difference of logarithms between the two sides).

    Returns
    -------
    Leverage
        Evaluated at the solution, with its residual.
    int
        Newton steps taken (the most over the batch).

    Raises
    ------
    NotConverged
        If any member of the batch does not reach `tolerance`.
    """
    # Lost digits, and numbers that leave their range, show in the residual.
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        try:
            return _newton(equations, tolerance, stable=False)
        except (NotConverged, np.linalg.LinAlgError):
            pass
        try:
            return _newton(equations, tolerance, stable=True)
        except np.linalg.LinAlgError as error:
            raise NotConverged(_NAME, math.inf, tolerance, _ADVICE) from error


def _newton(equations: LeverageEquations, tolerance: float, *, stable: bool) -> tuple[Leverage, int]:
    """Follow Newton's method with one way to evaluate the equations (see `solve_leverage`)."""
    state = _guess(equations)
    point = evaluate(equations, state, stable=stable)
    step_bound = np.full(len(equations.ridge), 4.0)
    for count in range(_MAX_STEPS):
        still_open = ~(point.residual <= tolerance / 10)
        if not still_open.any():
            return point, count
        active: NDArray[np.intp] | slice = slice(None)
        part, here = equations, point
        if not still_open.all():
            active = np.flatnonzero(still_open)
            part, here = equations.take(active), Leverage(*(values[active] for values in point))
        start, bound = state[active], step_bound[active]
        step = response(part, here, here.gap)
        trial_state = start + (bound / np.maximum(np.abs(step).max(axis=1), bound))[:, None] * step
        trial = evaluate(part, trial_state, stable=stable)
        better = trial.residual < here.residual
        if not better.all():
            # Rounding floor reached: Newton cannot improve a residual that is already certified.
            worse = ~better & ~(here.residual <= tolerance)
            if not worse.any() and not better.any():
                return point, count
            # The plain iteration always moves towards the solution; follow it and trust smaller Newton steps.
            kept = np.where(better[:, None], trial_state, start)
            trial_state = np.where(worse[:, None], start + here.gap, kept)
            step_bound[active] = np.where(worse, bound / 4, bound)
            trial = evaluate(part, trial_state, stable=stable)
        if isinstance(active, slice):
            state, point = trial_state, trial
            continue
        state[active] = trial_state
        for values, new in zip(point, trial, strict=True):
            values[active] = new
    worst = float(point.residual.max())
    if worst <= tolerance:
        return point, _MAX_STEPS
    raise NotConverged(_NAME, worst, tolerance, _ADVICE)
