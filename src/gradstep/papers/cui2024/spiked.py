r"""The spiked random features model of a network: Results 3.1 and 3.2.

After a step from a constant readout every neuron carries the same spike along the gradient's direction :math:`\hat v`,
on top of a bulk of larger variance (7). Given the projection :math:`\kappa=\langle\hat v,x\rangle` the features are
noisy linear maps (14), whose coefficients (15) are tabulated here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradstep.checks import finite, nonnegative, positive
from gradstep.errors import InvalidInput
from gradstep.gaussian.functions import ScalarFunction, scalar_function
from gradstep.gaussian.moments import is_continuous, moments
from gradstep.gaussian.panels import legendre_rule
from gradstep.gaussian.smoothing import smoothed
from gradstep.resolution import NOTHING

__all__ = ["ConditionalMoments", "Spike", "conditional_features", "equivalent_features", "equivalent_srf"]

Array = NDArray[np.float64]

# Quadrature over the projection on the spike: Gauss-Legendre panels, bisected until the Legendre series of every
# tabulated function, times the Gaussian density, has died out on each panel.
PANEL_ORDER = 16
HALF_RANGE = 9.5
# The first panels are as wide as most tables need at the density they lie under.
FIRST_ENDS = np.array([0.0, 0.8, 1.6, 3.2, 4.8, 6.8, HALF_RANGE])
PANEL_TOLERANCE = 1e-8
MAXIMUM_DEPTH = 26
# Panel ends around a smoothed kink that is narrower than this, in units of its width: it would fall between two nodes.
_NARROW = 0.2
_MARKS = np.array([-10.0, -3.0, 0.0, 3.0, 10.0])
# 1/(1+V) turns sharply where the features of a saturating activation die out; the panels also resolve
# t/(t+level) of the feature variance t, so that this happens for any leverage V.
LEVELS = (1e-1, 1e-3, 1e-5, 1e-7, 1e-9, 1e-11)


class Spike(NamedTuple):
    r"""The spiked random features model to which the network after the step is equivalent (Result 3.1).

    Attributes
    ----------
    strength : ndarray
        :math:`r`: every neuron gains :math:`r\hat v`. The spike has operator norm :math:`r\sqrt p`.
    bulk_variance : ndarray
        :math:`c`: mean squared norm of the part of a neuron orthogonal to the spike.
    alignment : ndarray
        :math:`\gamma=\langle\hat v,w_*\rangle`.
    """

    strength: Array
    bulk_variance: Array
    alignment: Array


def equivalent_srf(
    sigma: str | ScalarFunction,
    sigma_star: str | ScalarFunction,
    *,
    eta_tilde: ArrayLike,
    alpha0: ArrayLike,
    sigma_eps: ArrayLike = 0.0,
) -> Spike:
    r"""Strength :math:`r`, bulk variance :math:`c` and alignment :math:`\gamma` (Result 3.1, (9) to (12)).

    Docs, "Large step", equation (L1).

    Parameters
    ----------
    sigma, sigma_star : str or ScalarFunction
        Activation and teacher.
    eta_tilde : array_like
        Step :math:`\tilde\eta\ge0` of
        :math:`w_i\leftarrow w_i+\frac{\tilde\eta}{n_0}\sum_\mu(y_\mu-f_\mu)\sigma'(\langle w_i,x_\mu\rangle)x_\mu`,
        :math:`\eta/\sqrt N` of the package's canonical convention with readout 1. A step needs an activation without
        jumps, as it follows the ordinary derivative.
    alpha0 : array_like
        :math:`n_0/d\ge0`; ``inf`` for the population gradient, 0 for no step.
    sigma_eps : array_like
        Standard deviation of the label noise.

    Notes
    -----
    With :math:`h_1=E\sigma'`, :math:`\check h_1=\mathrm{Var}\,\sigma'`, :math:`h_1^*=E z\sigma_*` and
    :math:`h_2^*=E(y-E\sigma)^2`,

    .. math:: A^2=h_1^{*2}+h_2^*/\alpha_0,\quad r=\tilde\eta |h_1| A,\quad
              c=(1+\tilde\eta b)^2+\tilde\eta^2\check h_1h_2^*/\alpha_0,\quad \gamma=h_1^*/A ,

    up to the common sign of :math:`r\hat v`. At initialisation a constant readout outputs :math:`E\sigma`, which
    is part of the residual of the step. :math:`b=E(y-E\sigma)\,E\sigma''` rescales the initial weights; it vanishes for
    the odd activations of the paper, whose formula this then is.
    """
    eta_tilde, sigma_eps = nonnegative("eta_tilde", eta_tilde), nonnegative("sigma_eps", sigma_eps)
    alpha0 = nonnegative("alpha0", alpha0, infinite=True)
    eta_tilde, alpha0, sigma_eps = np.broadcast_arrays(eta_tilde, alpha0, sigma_eps)
    function = scalar_function(sigma)
    if eta_tilde.any() and not is_continuous(function):
        raise InvalidInput("sigma", function.name, "a function without jumps")
    student, target = moments(function), moments(scalar_function(sigma_star))
    residual_mean = float(target.mean - student.mean)
    h2_star = float(target.second_moment - target.mean**2) + residual_mean**2 + sigma_eps**2
    stepped = alpha0 > 0
    per_sample = np.where(stepped, 1 / np.where(stepped, alpha0, 1.0), 0.0)
    spread = per_sample * h2_star
    length = np.sqrt(target.linear**2 + spread)  # A
    # E sigma'' = E z sigma' = sqrt 2 times the second Hermite coefficient.
    rescaling = 1 + eta_tilde * residual_mean * np.sqrt(2) * float(student.quadratic)
    return Spike(
        strength=np.where(stepped, eta_tilde * np.abs(student.linear) * length, 0.0),
        bulk_variance=np.where(stepped, rescaling**2 + eta_tilde**2 * student.derivative_variance * spread, 1.0),
        alignment=np.where(
            stepped & (length > 0),
            np.sign(student.linear) * target.linear / np.where(length > 0, length, 1.0),
            0.0,
        ),
    )


def conditional_features(
    sigma: str | ScalarFunction, kappa: ArrayLike, *, r: ArrayLike, c: ArrayLike
) -> tuple[Array, Array, Array]:
    r"""Return :math:`\mu_0,\mu_1,\mu_2^2` of (15) at given projections; all arguments broadcast."""
    root = np.sqrt(positive("c", c))
    features = smoothed(scalar_function(sigma), np.asarray(r) * np.asarray(kappa), root)
    return features.mean, features.slope / root, features.residual_variance


class ConditionalMoments(NamedTuple):
    r"""Features and teacher given :math:`\kappa=\langle\hat v,x\rangle`, on a quadrature for :math:`\kappa\sim N(0,1)`.

    All arrays have the broadcast shape of the spike followed by one axis of nodes; unused nodes have weight zero.

    Attributes
    ----------
    spike : Spike
        :math:`r`, :math:`c` and :math:`\gamma`.
    nodes, weights : ndarray
        Quadrature in :math:`\kappa`; the weights include the Gaussian density.
    mean, slope, variance : ndarray
        :math:`\mu_0`, :math:`\sqrt c\,\mu_1` and :math:`\mu_2^2` of (15).
    teacher_mean, teacher_slope, teacher_variance : ndarray
        :math:`E\sigma_*`, :math:`E\zeta\sigma_*` and :math:`E\sigma_*^2` minus the squares of the two, at
        :math:`\gamma\kappa+\sqrt{1-\gamma^2}\zeta`.
    """

    spike: Spike
    nodes: Array
    weights: Array
    mean: Array
    slope: Array
    variance: Array
    teacher_mean: Array
    teacher_slope: Array
    teacher_variance: Array


def _legendre_tail() -> Array:
    """Matrix from values at the Gauss-Legendre nodes of a panel to its last three Legendre coefficients."""
    nodes, weights = legendre_rule(PANEL_ORDER)
    values = np.polynomial.legendre.legvander(nodes, PANEL_ORDER - 1)
    degrees = np.arange(PANEL_ORDER - 3, PANEL_ORDER)
    return np.asarray(values[:, degrees] * weights[:, None] * (degrees + 0.5))


NODES, WEIGHTS = legendre_rule(PANEL_ORDER)
TAIL = _legendre_tail()


def equivalent_features(
    sigma: str | ScalarFunction,
    sigma_star: str | ScalarFunction,
    *,
    r: ArrayLike,
    c: ArrayLike,
    gamma: ArrayLike,
    b: ArrayLike = 0.0,
    tolerance: float = PANEL_TOLERANCE,
    folded: bool = False,
) -> ConditionalMoments:
    r"""Functions :math:`\mu_0,\mu_1,\mu_2` of :math:`\kappa` on a quadrature (Result 3.2, (15); (131) with a bias).

    Docs, "Gaussian calculus", equation (G6).

    Parameters
    ----------
    sigma, sigma_star : str or ScalarFunction
        Activation and teacher.
    r, c, gamma : array_like
        Spike strength, bulk variance and alignment (:class:`Spike`).
    b : array_like
        Bias common to all neurons (appendix C.8), added to the preactivation.
    tolerance : float
        Largest relative size of the last Legendre coefficients of a panel. The quadrature is far more accurate.
    folded : bool
        Keep only the positive half, with doubled weights, where activation and teacher are odd and there is no bias:
        all averages of Result 3.3 and of the bounds are then of even functions.

    Notes
    -----
    The panels are adapted to each spike: to the width :math:`\sqrt c/r` of the smoothed activation and to the width
    :math:`\sqrt{1-\gamma^2}` of the teacher's smoothed kinks, with the kinks themselves as panel ends.
    """
    student, target = scalar_function(sigma), scalar_function(sigma_star)
    r, c, gamma, b = np.broadcast_arrays(
        nonnegative("r", r), nonnegative("c", c), finite("gamma", gamma), finite("b", b)
    )
    if not (np.abs(gamma) <= 1 + 1e-12).all():
        raise InvalidInput("gamma", gamma, "between -1 and 1")
    columns = np.stack([r.ravel(), c.ravel(), gamma.ravel(), b.ravel()])
    unique, inverse = np.unique(columns, axis=1, return_inverse=True)
    inverse = np.reshape(inverse, -1)

    def tabulate(index: NDArray[np.intp], kappa: Array) -> Array:
        r, c, gamma, b = (row[index, None] for row in unique)
        features = smoothed(student, r * kappa + b, np.sqrt(c))
        labels = smoothed(target, gamma * kappa, np.sqrt(np.maximum(1 - gamma**2, 0.0)))
        # Without this, rounding errors would be taken for a spike: the equations are singular where it vanishes.
        mean = np.where((r == 0) & (b == 0) & (student.parity == "odd"), 0.0, features.mean)
        return np.stack(
            [
                mean,
                features.slope,
                features.residual_variance,
                labels.mean,
                labels.slope,
                labels.residual_variance,
            ]
        )

    # Functions of definite parity: the negative half mirrors the positive one.
    mirrored = student.parity == "odd" and target.parity is not None and not unique[3].any()
    owner, start, end = _initial_panels(student, target, unique, 0.0 if mirrored else -HALF_RANGE)
    owner, kappa, half_width, values = _adapt(tabulate, owner, start, end, tolerance)
    if mirrored and folded and target.parity == "odd":
        half_width = 2 * half_width
    elif mirrored:
        teacher_sign = -1.0 if target.parity == "odd" else 1.0
        signs = np.array([-1.0, 1.0, 1.0, teacher_sign, -teacher_sign, 1.0])[:, None, None]
        owner, half_width = np.tile(owner, 2), np.tile(half_width, 2)
        kappa = np.concatenate([-kappa[:, ::-1], kappa])
        values = np.concatenate([signs * values[:, :, ::-1], values], axis=1)
    density = np.exp(-0.5 * kappa**2) / np.sqrt(2 * np.pi)
    tables = _pad(unique.shape[1], owner, np.concatenate([[kappa, WEIGHTS * half_width[:, None] * density], values]))
    return ConditionalMoments(Spike(r, c, gamma), *tables[:, inverse].reshape(8, *r.shape, -1))


def _initial_panels(
    student: ScalarFunction, target: ScalarFunction, unique: Array, low: float
) -> tuple[NDArray[np.intp], Array, Array]:
    """Owner, start and end of the first panels above `low`: the usual ones, with every kink as a panel end."""
    r, c, gamma, b = unique
    grid = FIRST_ENDS if low == 0 else np.concatenate([-FIRST_ENDS[:0:-1], FIRST_ENDS])
    edges = [np.broadcast_to(grid, (r.size, grid.size))]
    with np.errstate(divide="ignore", invalid="ignore"):
        centres = [((kink - b) / r, np.sqrt(c) / r) for kink in (0.0, *student.kinks)]
        rest = np.sqrt(np.maximum(1 - gamma**2, 0.0))
        centres += [(kink / gamma, rest / np.abs(gamma)) for kink in target.kinks]
        for centre, width in centres:
            # The ends of the marks of a wide kink are the centre again.
            edges.append(centre[:, None] + np.where((width > 0) & (width < _NARROW), width, 0.0)[:, None] * _MARKS)
    ends = np.concatenate(edges, axis=1)
    # Beyond the range, or NaN without a spike.
    ends[~((ends > low) & (ends < HALF_RANGE))] = low
    ends[:, grid.size - 1] = HALF_RANGE
    ends.sort(axis=1)
    # Two kinks a rounding error apart would make an empty panel.
    owner, place = np.nonzero(np.diff(ends, axis=1) > 1e-12)
    return owner, ends[owner, place], ends[owner, place + 1]


def _adapt(
    tabulate: Callable[[NDArray[np.intp], Array], Array],
    owner: NDArray[np.intp],
    start: Array,
    end: Array,
    tolerance: float,
) -> tuple[NDArray[np.intp], Array, Array, Array]:
    """Bisect panels until every tabulated function is resolved on all of them."""
    done: list[tuple[NDArray[np.intp], Array, Array, Array]] = []
    for depth in range(MAXIMUM_DEPTH + 1):
        half_width = 0.5 * (end - start)
        kappa = 0.5 * (start + end)[:, None] + half_width[:, None] * NODES
        values = tabulate(owner, kappa)
        resolved = _panel_error(kappa, half_width, values) <= tolerance
        if depth == MAXIMUM_DEPTH:
            resolved[:] = True
        done.append((owner[resolved], kappa[resolved], half_width[resolved], values[:, resolved]))
        if resolved.all():
            break
        split = ~resolved
        middle = 0.5 * (start + end)[split]
        owner = np.concatenate([owner[split], owner[split]])
        start, end = np.concatenate([start[split], middle]), np.concatenate([middle, end[split]])
    owners, nodes, widths, tables = zip(*done, strict=True)
    return np.concatenate(owners), np.concatenate(nodes), np.concatenate(widths), np.concatenate(tables, axis=1)


def _panel_error(kappa: Array, half_width: Array, values: Array) -> Array:
    """Largest tail of the Legendre series on each panel, relative to the function's size, times the panel's weight."""
    mean, slope, variance = values[:3]
    total = slope**2 + variance
    scale = np.max(np.mean(values[:3] ** 2, axis=(1, 2)) ** 0.5) + NOTHING
    label_scale = np.max(np.mean(values[3:] ** 2, axis=(1, 2)) ** 0.5) + NOTHING
    level_scale = np.max(total) + NOTHING
    shown = [
        mean / scale,
        slope / scale,
        variance / scale,
        values[3] / label_scale,
        values[4] / label_scale,
        values[5] / label_scale,
        *(total / (total + level * level_scale) for level in LEVELS),
    ]
    weight = np.exp(-0.5 * kappa**2)
    tail = np.max([np.abs((function * weight) @ TAIL).max(axis=1) for function in shown], axis=0)
    return np.asarray(tail * half_width)


def _pad(count: int, owner: NDArray[np.intp], rows: Array) -> Array:
    """Gather the panels of each owner into one row of nodes, filled up with nodes of weight zero."""
    order = np.argsort(owner, kind="stable")
    panels = np.bincount(owner, minlength=count)
    # Position of each panel among those of its owner.
    position = np.empty_like(order)
    position[order] = np.arange(owner.size) - np.repeat(np.cumsum(panels) - panels, panels)
    tables = np.zeros((rows.shape[0], count, int(panels.max()), PANEL_ORDER))
    tables[:, owner, position] = rows
    return tables.reshape(rows.shape[0], count, -1)
