r"""One large gradient step from a constant readout, in the proportional limit: the spiked random features model.

After a step of size :math:`\eta\sim\sqrt N` every neuron carries the same spike along the gradient's direction
:math:`\hat v`, on top of a bulk of larger variance. Given the projection :math:`\kappa=\langle\hat v,x\rangle` the
features are again noisy linear maps, with coefficients that depend on :math:`\kappa`. Two scalars solve a fixed point;
every other quantity follows from linear equations.

Conventions
-----------
``step_size`` is :math:`\tilde\eta` of

.. math:: w_i \leftarrow w_i + \tilde\eta\,\frac1{n_0}\sum_\mu (y_\mu-f_\mu)\sigma'(\langle w_i,x_\mu\rangle)x_\mu ,

that is :math:`\eta/\sqrt N` of the package's canonical convention with readout 1. Ratios are ``step_sample_ratio``
:math:`\alpha_0=n_0/d`, ``sample_ratio`` :math:`\alpha=n/d`, ``width_ratio`` :math:`\beta=N/d`. ``penalty`` is
:math:`\lambda` of

.. math:: \min_a \sum_\mu\Big(y_\mu-\frac1{\sqrt N}\sum_i a_i\sigma(\langle w_i,x_\mu\rangle)\Big)^2+\lambda|a|^2,

so :math:`\Lambda=\lambda N`. Test errors are measured against the noiseless teacher unless said otherwise.

References
----------
.. [1] H. Cui, L. Pesce, Y. Dandi, F. Krzakala, Y. M. Lu, L. Zdeborova, B. Loureiro, "Asymptotics of feature learning in
       two-layer networks after one gradient-step", ICML 2024. Results 3.1, 3.2 and 3.3, bounds (26) to (28).

The closed form of the bulk traces at any width ratio, with the overlap of the readout with the bulk's component along
the spike, is a derivation of this project.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradstep.errors import InvalidInput, NotConverged
from gradstep.gaussian.functions import ScalarFunction, scalar_function
from gradstep.gaussian.moments import moments
from gradstep.gaussian.smoothing import hermite_smoothed, smoothed
from gradstep.theory.random_features import nonnegative, positive

__all__ = [
    "BestStep",
    "ConditionalMoments",
    "LargeStep",
    "Spike",
    "best_linear_error",
    "best_step",
    "conditional_moments",
    "large_step",
    "learned_along_teacher",
    "learned_function",
    "lower_bound",
    "solve",
    "spike",
    "upper_bound",
]

Array = NDArray[np.float64]

TOLERANCE = 1e-10
"""Largest relative residual of the self-consistent equations that is ever returned."""

MAXIMUM_ITERATIONS = 200

# Quadrature over the projection on the spike: Gauss-Legendre panels, bisected until the Legendre series of every
# tabulated function, times the Gaussian density, has died out on each panel.
PANEL_ORDER = 16
HALF_RANGE = 9.5
PANEL_TOLERANCE = 1e-9
MAXIMUM_DEPTH = 26
# 1/(1+V) turns sharply where the features of a saturating activation die out; the panels also resolve
# t/(t+level) of the feature variance t, so that this happens for any leverage V.
LEVELS = (1e-1, 1e-3, 1e-5, 1e-7, 1e-9, 1e-11)

# Points times nodes handled at once: keeps the working arrays in the processor's cache.
CHUNK = 400_000


@dataclass(frozen=True)
class Spike:
    r"""The spiked random features model that stands for the network after the step (Result 3.1).

    Attributes
    ----------
    strength : ndarray
        :math:`r`: every neuron gains :math:`r\hat v`. The spike has operator norm :math:`r\sqrt N`.
    bulk_variance : ndarray
        :math:`c`: mean squared norm of the rest of a neuron.
    alignment : ndarray
        :math:`\gamma=\langle\hat v,w_*\rangle`.
    """

    strength: Array
    bulk_variance: Array
    alignment: Array


@dataclass(frozen=True)
class ConditionalMoments:
    r"""Features and teacher given :math:`\kappa=\langle\hat v,x\rangle`, on a quadrature for :math:`\kappa\sim N(0,1)`.

    All arrays have the broadcast shape of the spike followed by one axis of nodes; unused nodes have weight zero.

    Attributes
    ----------
    nodes, weights : ndarray
        Quadrature in :math:`\kappa`; the weights include the Gaussian density.
    mean, slope, variance : ndarray
        :math:`\mu_0`, :math:`\sqrt c\,\mu_1` and :math:`\mu_2^2` of Result 3.2.
    teacher_mean, teacher_slope, teacher_variance : ndarray
        :math:`E\sigma_*`, :math:`E\zeta\sigma_*` and :math:`E\sigma_*^2` minus the squares of the two, at
        :math:`\gamma\kappa+\sqrt{1-\gamma^2}\zeta`.
    bulk_variance : ndarray
        :math:`c`, of the shape of the spike.
    """

    nodes: Array
    weights: Array
    mean: Array
    slope: Array
    variance: Array
    teacher_mean: Array
    teacher_slope: Array
    teacher_variance: Array
    bulk_variance: Array


@dataclass(frozen=True)
class LargeStep:
    r"""Solution of Result 3.3; every field has the broadcast shape of the arguments.

    Attributes
    ----------
    test_error : ndarray
        :math:`E(\hat f-f^*)^2`, no label noise.
    noisy_test_error : ndarray
        The same plus the variance of the label noise: :math:`\varepsilon_{test}` against noisy labels.
    train_error : ndarray
        Mean squared residual on the training set.
    train_loss : ndarray
        ``train_error`` plus :math:`\lambda|a|^2/n`: the minimum of the objective per sample.
    readout_mean : ndarray
        :math:`m=1^\top a/\sqrt N`.
    bulk_overlap : ndarray
        :math:`\theta`: overlap of the readout with the component of the bulk along the spike.
    teacher_overlap : ndarray
        :math:`\psi`: overlap with the teacher's part orthogonal to the spike.
    bulk_norm, readout_norm : ndarray
        :math:`q_1=|\Pi\tilde W^\top a|^2/N` and :math:`q_2=|a|^2/N`.
    bulk_response, readout_response : ndarray
        :math:`V_1` and :math:`V_2`.
    spike : Spike
        The strengths that were used.
    residual : ndarray
        True relative residual of the whole system, at most 1e-10.
    """

    test_error: Array
    noisy_test_error: Array
    train_error: Array
    train_loss: Array
    readout_mean: Array
    bulk_overlap: Array
    teacher_overlap: Array
    bulk_norm: Array
    readout_norm: Array
    bulk_response: Array
    readout_response: Array
    spike: Spike
    residual: Array


def spike(
    activation: str | ScalarFunction,
    teacher: str | ScalarFunction,
    *,
    step_size: ArrayLike,
    step_sample_ratio: ArrayLike,
    noise: ArrayLike = 0.0,
) -> Spike:
    r"""Spike strength, bulk variance and alignment after the step (Cui et al. 2024, Result 3.1, (9) to (12)).

    Parameters
    ----------
    activation, teacher : str or ScalarFunction
        Activation of the network and teacher.
    step_size : array_like
        :math:`\tilde\eta \ge 0`.
    step_sample_ratio : array_like
        :math:`\alpha_0=n_0/d \ge 0`. ``inf`` is the population gradient; 0 means that no step is made.
    noise : array_like
        Standard deviation of the label noise.

    Returns
    -------
    Spike

    Raises
    ------
    InvalidInput
        A negative argument.

    Notes
    -----
    With :math:`h_1=E\sigma'`, :math:`\check h_1=\mathrm{Var}\,\sigma'`, :math:`h_1^*=E z\sigma_*` and
    :math:`h_2^*=E(y-E\sigma)^2`,

    .. math:: A^2=h_1^{*2}+h_2^*/\alpha_0,\quad r=\tilde\eta |h_1| A,\quad
              c=(1+\tilde\eta b)^2+\tilde\eta^2\check h_1h_2^*/\alpha_0,\quad \gamma=h_1^*/A ,

    up to the common sign of :math:`r\hat v`. At initialisation a constant readout outputs :math:`E\sigma`, which the
    residual of the step sees. :math:`b=E(y-E\sigma)\,E\sigma''` rescales the initial weights; it vanishes for
    the odd activations of the paper, whose formula this then is.
    """
    eta = nonnegative("step_size", step_size)
    alpha0 = np.asarray(step_sample_ratio, dtype=np.float64)
    if not (alpha0 >= 0).all():
        raise InvalidInput("step_sample_ratio", step_sample_ratio, ">= 0, or inf")
    eta, alpha0, noise_sd = np.broadcast_arrays(eta, alpha0, nonnegative("noise", noise))
    student, target = moments(scalar_function(activation)), moments(scalar_function(teacher))
    residual_mean = float(target.mean - student.mean)
    residual_second_moment = float(target.second_moment - target.mean**2) + residual_mean**2 + noise_sd**2
    stepped = alpha0 > 0
    per_sample = np.where(stepped, 1 / np.where(stepped, alpha0, 1.0), 0.0)
    spread = per_sample * residual_second_moment
    length = np.sqrt(target.linear**2 + spread)
    # E sigma'' = E z sigma' = sqrt 2 times the second Hermite coefficient.
    rescaling = 1 + eta * residual_mean * np.sqrt(2) * float(student.quadratic)
    return Spike(
        strength=np.where(stepped, eta * np.abs(student.linear) * length, 0.0),
        bulk_variance=np.where(stepped, rescaling**2 + eta**2 * student.derivative_variance * spread, 1.0),
        alignment=np.where(
            stepped & (length > 0),
            np.sign(student.linear) * target.linear / np.where(length > 0, length, 1.0),
            0.0,
        ),
    )


def _legendre_tail() -> Array:
    """Matrix from values at the Gauss-Legendre nodes of a panel to its last three Legendre coefficients."""
    nodes, weights = np.polynomial.legendre.leggauss(PANEL_ORDER)
    values = np.polynomial.legendre.legvander(nodes, PANEL_ORDER - 1)
    degrees = np.arange(PANEL_ORDER - 3, PANEL_ORDER)
    return np.asarray(values[:, degrees] * weights[:, None] * (degrees + 0.5))


NODES, WEIGHTS = np.polynomial.legendre.leggauss(PANEL_ORDER)
TAIL = _legendre_tail()


def conditional_moments(
    activation: str | ScalarFunction,
    teacher: str | ScalarFunction,
    model: Spike,
    *,
    bias: ArrayLike = 0.0,
    tolerance: float = PANEL_TOLERANCE,
) -> ConditionalMoments:
    r"""Tabulate features and teacher given the projection on the spike (Cui et al. 2024, Result 3.2, (15), and (131)).

    Parameters
    ----------
    activation, teacher : str or ScalarFunction
        Any activation and teacher; nothing is assumed about their parity.
    model : Spike
        :math:`(r, c, \gamma)`.
    bias : array_like
        A bias :math:`b` shared by all neurons, :math:`\sigma(\langle w_i,x\rangle+b)`.
    tolerance : float
        Largest relative size of the last Legendre coefficients of a panel. The quadrature is far more accurate.

    Returns
    -------
    ConditionalMoments

    Notes
    -----
    The panels are adapted to each spike: to the width :math:`\sqrt c/r` of the smoothed activation and to the width
    :math:`\sqrt{1-\gamma^2}` of the teacher's smoothed kinks, with the kinks themselves as panel ends.
    """
    student, target = scalar_function(activation), scalar_function(teacher)
    strength, bulk_variance, alignment, offset = np.broadcast_arrays(
        nonnegative("strength", model.strength),
        nonnegative("bulk_variance", model.bulk_variance),
        np.asarray(model.alignment, dtype=np.float64),
        np.asarray(bias, dtype=np.float64),
    )
    if not (np.abs(alignment) <= 1 + 1e-12).all():
        raise InvalidInput("alignment", model.alignment, "between -1 and 1")
    shape = strength.shape
    columns = np.stack([strength.ravel(), bulk_variance.ravel(), alignment.ravel(), offset.ravel()])
    unique, inverse = np.unique(columns, axis=1, return_inverse=True)
    inverse = np.reshape(inverse, -1)

    def tabulate(index: NDArray[np.intp], kappa: Array) -> Array:
        r, c, gamma, b = (row[index, None] for row in unique)
        features = smoothed(student, r * kappa + b, np.sqrt(c))
        labels = smoothed(target, gamma * kappa, np.sqrt(np.maximum(1 - gamma**2, 0.0)))
        # Rounding must not pass for a spike: the equations are singular where it vanishes.
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
    if mirrored:
        teacher_sign = -1.0 if target.parity == "odd" else 1.0
        signs = np.array([-1.0, 1.0, 1.0, teacher_sign, -teacher_sign, 1.0])[:, None, None]
        owner, half_width = np.tile(owner, 2), np.tile(half_width, 2)
        kappa = np.concatenate([-kappa[:, ::-1], kappa])
        values = np.concatenate([signs * values[:, :, ::-1], values], axis=1)
    density = np.exp(-0.5 * kappa**2) / np.sqrt(2 * np.pi)
    tables = _pad(unique.shape[1], owner, np.concatenate([[kappa, WEIGHTS * half_width[:, None] * density], values]))
    gathered = tables[:, inverse].reshape(8, *shape, -1)
    return ConditionalMoments(
        nodes=gathered[0],
        weights=gathered[1],
        mean=gathered[2],
        slope=gathered[3],
        variance=gathered[4],
        teacher_mean=gathered[5],
        teacher_slope=gathered[6],
        teacher_variance=gathered[7],
        bulk_variance=np.asarray(bulk_variance),
    )


def _initial_panels(
    student: ScalarFunction, target: ScalarFunction, unique: Array, low: float
) -> tuple[NDArray[np.intp], Array, Array]:
    """Owner, start and end of the first panels above `low`: a uniform grid with every kink as a panel end."""
    grid = np.linspace(low, HALF_RANGE, 13 if low < 0 else 7)
    owners, starts, ends = [], [], []
    for index, (r, c, gamma, b) in enumerate(unique.T):
        centres = []
        if r > 0:
            centres += [((kink - b) / r, np.sqrt(c) / r) for kink in (0.0, *student.kinks)]
        if gamma != 0:
            centres += [(kink / gamma, np.sqrt(max(1 - gamma**2, 0.0)) / abs(gamma)) for kink in target.kinks]
        marks = [centre + side * width for centre, width in centres for side in _marks(width)]
        edges = np.unique(np.concatenate([grid, [mark for mark in marks if low < mark < HALF_RANGE]]))
        # Two kinks a rounding error apart would make an empty panel.
        edges = edges[np.concatenate([[True], np.diff(edges) > 1e-12])]
        edges[-1] = HALF_RANGE
        owners.append(np.full(edges.size - 1, index))
        starts.append(edges[:-1])
        ends.append(edges[1:])
    return np.concatenate(owners).astype(np.intp), np.concatenate(starts), np.concatenate(ends)


def _marks(width: float) -> tuple[float, ...]:
    """Panel ends around a smoothed kink, in units of its width: a narrow one would fall between two nodes."""
    return (-10.0, -3.0, 0.0, 3.0, 10.0) if 0 < width < 0.2 else (0.0,)


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
    scale = np.max(np.mean(values[:3] ** 2, axis=(1, 2)) ** 0.5) + 1e-300
    label_scale = np.max(np.mean(values[3:] ** 2, axis=(1, 2)) ** 0.5) + 1e-300
    level_scale = np.max(total) + 1e-300
    shown = [
        mean / scale,
        slope / scale,
        variance / scale,
        values[3] / label_scale,
        values[4] / label_scale,
        values[5] / label_scale,
        *(total / (total + level * level_scale) for level in LEVELS),
    ]
    weighted = np.stack(shown) * np.exp(-0.5 * kappa**2)
    tail = np.abs(weighted @ TAIL).max(axis=(0, 2))
    return np.asarray(tail * half_width)


def _pad(count: int, owner: NDArray[np.intp], rows: Array) -> Array:
    """Gather the panels of each owner into one row of nodes, filled up with nodes of weight zero."""
    order = np.argsort(owner, kind="stable")
    panels = np.bincount(owner, minlength=count)
    # Position of each panel among those of its owner.
    position = np.arange(owner.size) - np.repeat(np.cumsum(panels) - panels, panels)
    tables = np.zeros((rows.shape[0], count, int(panels.max()), PANEL_ORDER))
    tables[:, owner[order], position] = rows[:, order]
    return tables.reshape(rows.shape[0], count, -1)


def large_step(
    activation: str | ScalarFunction,
    teacher: str | ScalarFunction,
    *,
    step_size: ArrayLike,
    step_sample_ratio: ArrayLike,
    sample_ratio: ArrayLike,
    width_ratio: ArrayLike,
    penalty: ArrayLike,
    noise: ArrayLike = 0.0,
) -> LargeStep:
    r"""Errors and order parameters after one large step from a constant readout.

    Parameters
    ----------
    activation, teacher : str or ScalarFunction
        Activation of the network and teacher.
    step_size, step_sample_ratio : array_like
        :math:`\tilde\eta` and :math:`\alpha_0`, as in :func:`spike`.
    sample_ratio, width_ratio : array_like
        :math:`\alpha=n/d` of the ridge fit and :math:`\beta=N/d`, positive.
    penalty : array_like
        :math:`\lambda=\Lambda/N`, positive.
    noise : array_like
        Standard deviation of the label noise, in the step and in the fit.

    Returns
    -------
    LargeStep

    Raises
    ------
    InvalidInput
        An argument out of range.
    NotConverged
        The true residual is above 1e-10.

    Notes
    -----
    A step of size zero removes the spike, and the result is that of random features. For any positive size, however
    small, the spike is infinitely strong in the limit (its norm is :math:`r\sqrt N`) and :math:`m` is free.

    References
    ----------
    Cui et al. 2024, Results 3.1 to 3.3.
    """
    student, target = scalar_function(activation), scalar_function(teacher)
    model = spike(student, target, step_size=step_size, step_sample_ratio=step_sample_ratio, noise=noise)
    return solve(
        conditional_moments(student, target, model),
        model,
        sample_ratio=sample_ratio,
        width_ratio=width_ratio,
        penalty=penalty,
        noise=noise,
    )


def solve(
    table: ConditionalMoments,
    model: Spike,
    *,
    sample_ratio: ArrayLike,
    width_ratio: ArrayLike,
    penalty: ArrayLike,
    noise: ArrayLike = 0.0,
    bulk_overlap: bool = True,
) -> LargeStep:
    r"""Solve Result 3.3 for given conditional moments; the arguments broadcast with the spike.

    Parameters
    ----------
    table : ConditionalMoments
        From :func:`conditional_moments`.
    model : Spike
        The spike that ``table`` was made for.
    sample_ratio, width_ratio, penalty, noise : array_like
        As in :func:`large_step`.
    bulk_overlap : bool
        False leaves out the overlap :math:`\theta`, which does not vanish: an approximation.

    Returns
    -------
    LargeStep

    Raises
    ------
    InvalidInput, NotConverged
        As :func:`large_step`.
    """
    spike_shape = table.bulk_variance.shape
    alpha, beta, lam, noise_sd, c = np.broadcast_arrays(
        positive("sample_ratio", sample_ratio),
        positive("width_ratio", width_ratio),
        positive("penalty", penalty),
        nonnegative("noise", noise),
        table.bulk_variance,
    )
    shape = alpha.shape
    row = np.broadcast_to(np.arange(table.bulk_variance.size).reshape(spike_shape), shape).ravel()
    nodes = table.nodes.shape[-1]
    stacked = np.stack(
        [
            column.reshape(-1, nodes)
            for column in (
                table.nodes,
                table.weights,
                table.mean,
                table.slope,
                table.variance,
                table.teacher_mean,
                table.teacher_slope,
                table.teacher_variance,
            )
        ]
    )
    points = [np.ascontiguousarray(np.ravel(array)) for array in (alpha, beta, lam, noise_sd, c)]
    size = max(1, CHUNK // nodes)
    parts = [
        _solve_chunk(
            stacked[:, row[begin : begin + size]],
            *(array[begin : begin + size] for array in points),
            bulk_overlap=bulk_overlap,
        )
        for begin in range(0, row.size, size)
    ]
    fields = [np.concatenate(columns).reshape(shape) for columns in zip(*parts, strict=True)]
    residual = fields.pop()
    if not (residual <= TOLERANCE).all():
        raise NotConverged(
            "large step",
            float(np.max(residual)),
            TOLERANCE,
            "Ratios between 0.01 and 100 and penalties between 1e-10 and 1e10 are supported; rescale the problem.",
        )
    used = Spike(*(np.broadcast_to(value, shape) for value in (model.strength, model.bulk_variance, model.alignment)))
    return LargeStep(
        test_error=fields[0],
        noisy_test_error=fields[1],
        train_error=fields[2],
        train_loss=fields[3],
        readout_mean=fields[4],
        bulk_overlap=fields[5],
        teacher_overlap=fields[6],
        bulk_norm=fields[7],
        readout_norm=fields[8],
        bulk_response=fields[9],
        readout_response=fields[10],
        spike=used,
        residual=residual,
    )


def _bulk_responses(v1_hat: Array, v2_hat: Array, beta: Array, lam: Array) -> tuple[Array, Array, Array, Array, Array]:
    r"""Traces of the Marchenko-Pastur bulk of unit variance: :math:`V_1, V_2, s_0, s_1, s_2`.

    :math:`V_2=\frac1p\mathrm{tr}S^{-1}`, :math:`V_1=\frac1p\mathrm{tr}\,\Omega S^{-1}`,
    :math:`s_k=\frac1p\mathrm{tr}\,\Omega^kS^{-2}` with :math:`S=\lambda+\hat V_2+\hat V_1\Omega`, without cancellation.
    """
    shift = lam + v2_hat
    linear = shift + v1_hat * (1 - beta)
    discriminant = np.sqrt(linear**2 + 4 * beta * v1_hat * shift)
    total = discriminant + np.abs(linear)
    v2 = np.where(linear >= 0, 2 / total, total / (2 * beta * shift * np.where(v1_hat > 0, v1_hat, 1.0)))
    ratio = 1 + beta * v1_hat * v2
    v1 = v2 / ratio
    s0 = v2 / discriminant
    # 1 + beta - beta (1 - beta) T with T = v1_hat * v2.
    s2 = s0 * (1 + beta - beta * (1 - beta) * v1_hat * v2) / ratio**2
    return v1, v2, s0 * ratio, s0 / ratio, s2


def _solve_chunk(
    table: Array, alpha: Array, beta: Array, lam: Array, noise: Array, c: Array, *, bulk_overlap: bool
) -> tuple[Array, ...]:
    """Solve a batch of points; ``table`` has shape (8, points, nodes). Internally the bulk has unit variance."""
    kappa, weight, mean, slope, variance, label_mean, label_slope, label_variance = table
    slope_squared = slope**2
    hats = _Hats(weight, slope_squared, variance, alpha / beta)
    v1, v2 = _newton(hats, beta, lam)

    gain = 1 / (1 + slope_squared * v1[:, None] + variance * v2[:, None])
    first, second = weight * gain, weight * gain**2

    # Means: project out the common mean from the component along the spike, then solve for theta.
    tilt = kappa * slope if bulk_overlap else np.zeros_like(slope)
    mean_norm = _dot(first, mean, mean)
    carries_mean = _dot(weight, mean, mean) > 1e-24 * (
        _dot(weight, mean, mean) + _dot(weight, slope, slope) + _dot(weight, variance)
    )
    safe = np.where(carries_mean, mean_norm, 1.0)
    mean_tilt = np.where(carries_mean, _dot(first, mean, tilt) / safe, 0.0)
    rest = tilt - mean_tilt[:, None] * mean
    theta = alpha * v2 * _dot(first, rest, label_mean) / (1 + alpha * v2 * _dot(first, rest, rest))
    m = np.where(carries_mean, _dot(first, mean, label_mean) / safe, 0.0) - mean_tilt * theta
    miss = label_mean - mean * m[:, None] - tilt * theta[:, None]
    psi = alpha * v1 * _dot(first, slope, label_slope)

    # Fluctuations: two linear equations. `fixed` is R without its q terms.
    noise_variance = noise**2
    label_rest = label_variance + noise_variance[:, None]
    fixed = miss**2 + label_rest + label_slope**2 - 2 * psi[:, None] * slope * label_slope
    v1_hat, v2_hat = hats(v1, v2)
    _, _, s0, s1, s2 = _bulk_responses(v1_hat, v2_hat, beta, lam)
    ratio = alpha / beta
    h11 = ratio * _dot(second, slope_squared, slope_squared)
    h12 = ratio * _dot(second, slope_squared, variance)
    h22 = ratio * _dot(second, variance, variance)
    source1 = ratio * _dot(second, slope_squared, fixed) + psi**2 / (beta * v1**2)
    source2 = ratio * _dot(second, variance, fixed) + theta**2 / (beta * v2**2)
    q1, q2 = _solve_two(
        1 - (s2 * h11 + s1 * h12),
        -(s2 * h12 + s1 * h22),
        -(s1 * h11 + s0 * h12),
        1 - (s1 * h12 + s0 * h22),
        s2 * source1 + s1 * source2,
        s1 * source1 + s0 * source2,
    )
    spread = slope_squared * q1[:, None] + variance * q2[:, None]
    error = (
        miss**2
        + label_variance
        + (label_slope - slope * psi[:, None]) ** 2
        + slope_squared * (q1 - psi**2)[:, None]
        + variance * q2[:, None]
    )
    test_error = _dot(weight, error)
    train_error = _dot(second, fixed + spread)

    # True residuals, from the equations as stated.
    f1, f2, *_ = _bulk_responses(*hats(v1, v2), beta, lam)
    theta_hat = ratio * _dot(first, tilt, miss)
    q1_hat = ratio * _dot(second, slope_squared, fixed + spread) + psi**2 / (beta * v1**2)
    q2_hat = ratio * _dot(second, variance, fixed + spread) + theta**2 / (beta * v2**2)
    label_size = np.sqrt(_dot(weight, label_mean, label_mean)) + 1e-300
    residual = np.max(
        [
            np.abs(f1 / v1 - 1),
            np.abs(f2 / v2 - 1),
            np.abs(theta - beta * v2 * theta_hat)
            / (np.abs(theta) + beta * v2 * ratio * _dot(first, np.abs(tilt), np.abs(label_mean)) + 1e-300),
            np.where(carries_mean, np.abs(_dot(first, mean, miss)), 0.0)
            / (_dot(first, np.abs(mean)) * label_size + 1e-300),
            np.abs(s2 * q1_hat + s1 * q2_hat - q1) / (q1 + 1e-300),
            np.abs(s1 * q1_hat + s0 * q2_hat - q2) / (q2 + 1e-300),
        ],
        axis=0,
    )
    root = np.sqrt(c)
    return (
        test_error,
        test_error + noise_variance,
        train_error,
        train_error + lam * beta / alpha * q2,
        m,
        root * theta,
        root * psi,
        c * q1,
        q2,
        c * v1,
        v2,
        residual,
    )


def _dot(*factors: Array) -> Array:
    """Sum over the nodes of the product of the factors."""
    letters = ",".join(["pm"] * len(factors))
    return np.asarray(np.einsum(f"{letters}->p", *factors))


def _solve_two(a: Array, b: Array, c: Array, d: Array, x: Array, y: Array) -> tuple[Array, Array]:
    """Solve the 2 by 2 systems with matrix ((a, b), (c, d)) and right-hand side (x, y)."""
    determinant = a * d - b * c
    return (x * d - b * y) / determinant, (a * y - x * c) / determinant


class _Hats:
    r"""The maps :math:`\hat V_j(V)=\frac\alpha\beta E\frac{\mu_j^2}{1+V}` and their derivatives."""

    def __init__(self, weight: Array, slope_squared: Array, variance: Array, ratio: Array) -> None:
        self.slope_squared, self.variance, self.ratio = slope_squared, variance, ratio
        self.first1, self.first2 = weight * slope_squared, weight * variance
        # Products of two, once: the averages of every Newton step are then dot products.
        self.second11, self.second12 = self.first1 * slope_squared, self.first1 * variance
        self.second22 = self.first2 * variance

    def gain(self, v1: Array, v2: Array) -> Array:
        return np.asarray(1 / (1 + self.slope_squared * v1[:, None] + self.variance * v2[:, None]))

    def __call__(self, v1: Array, v2: Array) -> tuple[Array, Array]:
        gain = self.gain(v1, v2)
        return self.ratio * _dot(self.first1, gain), self.ratio * _dot(self.first2, gain)

    def with_slopes(self, v1: Array, v2: Array) -> tuple[Array, Array, Array, Array, Array]:
        gain = self.gain(v1, v2)
        squared = gain**2
        return (
            self.ratio * _dot(self.first1, gain),
            self.ratio * _dot(self.first2, gain),
            self.ratio * _dot(self.second11, squared),
            self.ratio * _dot(self.second12, squared),
            self.ratio * _dot(self.second22, squared),
        )


def _newton(hats: _Hats, beta: Array, lam: Array) -> tuple[Array, Array]:
    """Solve log V = log F(V) by Newton, safeguarded by monotone bounds.

    F is increasing and F(tV) < t F(V) for t > 1, so the solution is unique, F maps lower bounds to lower bounds and
    upper bounds to upper bounds, and the Jacobian in log V is an M-matrix.
    """
    zero = np.zeros_like(lam)
    low1, low2, *_ = _bulk_responses(*hats(zero, zero), beta, lam)
    high1, high2, *_ = _bulk_responses(zero, zero, beta, lam)
    low, high = np.log([low1, low2]), np.log([high1, high2])
    # With fewer samples than neurons the readout's response is of order 1/penalty.
    start = np.where(hats.ratio < 1, high, low)
    u = start
    previous = np.full_like(lam, np.inf)
    for _ in range(MAXIMUM_ITERATIONS):
        v1, v2 = np.exp(u)
        v1_hat, v2_hat, h11, h12, h22 = hats.with_slopes(v1, v2)
        f1, f2, s0, s1, s2 = _bulk_responses(v1_hat, v2_hat, beta, lam)
        image = np.log([f1, f2])
        gap = image - u
        size = np.abs(gap).max(axis=0)
        # At the peak of interpolation the last digits of the residual still matter: stop when rounding rules.
        if ((size <= 1e-15) | ((size <= 1e-12) & (size >= 0.5 * previous))).all():
            break
        previous = size
        low = np.where((gap >= 0).all(axis=0), np.maximum(low, image), low)
        high = np.where((gap <= 0).all(axis=0), np.minimum(high, image), high)
        # Jacobian of log F in log V; its row sums are below one.
        j11, j12 = (s2 * h11 + s1 * h12) * v1 / f1, (s2 * h12 + s1 * h22) * v2 / f1
        j21, j22 = (s1 * h11 + s0 * h12) * v1 / f2, (s1 * h12 + s0 * h22) * v2 / f2
        step = np.array(_solve_two(1 - j11, -j12, -j21, 1 - j22, gap[0], gap[1]))
        proposal = u + step
        inside = (proposal >= low) & (proposal <= high)
        u = np.where(inside, proposal, np.where(step > 0, 0.5 * (u + high), 0.5 * (u + low)))
    return v1, v2


def best_linear_error(teacher: str | ScalarFunction) -> float:
    r"""Test error of the best linear predictor, :math:`E\sigma_*^2-(E z\sigma_*)^2` (Cui et al. 2024, section 4.2).

    Parameters
    ----------
    teacher : str or ScalarFunction

    Returns
    -------
    float
        The label noise is not included. A predictor with a constant term also removes the squared mean.
    """
    target = moments(scalar_function(teacher))
    return float(target.second_moment - target.linear**2)


def upper_bound(table: ConditionalMoments) -> Array:
    r"""Upper bound on the test error at the best penalty (Cui et al. 2024, (26)), at any alignment.

    Parameters
    ----------
    table : ConditionalMoments

    Returns
    -------
    ndarray
        :math:`E\sigma_*^2-\langle\mu_0,h\rangle^2/|\mu_0|^2`, of the shape of the spike, without label noise. It is
        attained at infinite penalty, where only the common mean of the neurons is fitted.
    """
    norm = (table.weights * table.mean**2).sum(axis=-1)
    overlap = (table.weights * table.mean * table.teacher_mean).sum(axis=-1)
    coefficient = np.where(norm > 0, overlap / np.where(norm > 0, norm, 1.0), 0.0)
    miss = table.teacher_mean - coefficient[..., None] * table.mean
    # A sum of squares, because the bound can vanish.
    return np.asarray((table.weights * (miss**2 + table.teacher_slope**2 + table.teacher_variance)).sum(axis=-1))


def lower_bound(table: ConditionalMoments) -> Array:
    r"""Lower bound on the test error at any penalty and any ratio (Cui et al. 2024, (27)), at any alignment.

    Parameters
    ----------
    table : ConditionalMoments

    Returns
    -------
    ndarray
        Squared distance of the teacher to the span of :math:`\mu_0(\kappa)`, :math:`\kappa\mu_1(\kappa)` and
        :math:`\mu_1(\kappa)\zeta`, with :math:`\zeta` the rest of the teacher's input; without label noise. The paper
        states it at :math:`\gamma=1`. It bounds the spiked random features model: at finite :math:`\alpha_0` the
        network itself has one more direction.
    """
    root = np.sqrt(table.weights)
    tilt = table.nodes * table.slope
    target = root * table.teacher_mean
    # Gram-Schmidt on the two functions, which coincide for a linear activation.
    first = root * table.mean
    norm = (first**2).sum(axis=-1, keepdims=True)
    first = first / np.sqrt(np.where(norm > 0, norm, 1.0))
    tilted = root * tilt
    size = (tilted**2).sum(axis=-1, keepdims=True)
    second = tilted - (tilted * first).sum(axis=-1, keepdims=True) * first
    left = (second**2).sum(axis=-1, keepdims=True)
    independent = left > 1e-20 * size
    second = np.where(independent, second / np.sqrt(np.where(independent, left, 1.0)), 0.0)
    rest = target - (target * first).sum(axis=-1, keepdims=True) * first
    rest = rest - (rest * second).sum(axis=-1, keepdims=True) * second
    slope_norm = (table.weights * table.slope**2).sum(axis=-1)
    slope_overlap = (table.weights * table.slope * table.teacher_slope).sum(axis=-1)
    orthogonal = (table.weights * (table.teacher_slope**2 + table.teacher_variance)).sum(axis=-1)
    learned = np.where(slope_norm > 0, slope_overlap**2 / np.where(slope_norm > 0, slope_norm, 1.0), 0.0)
    return np.asarray((rest**2).sum(axis=-1) + orthogonal - learned)


@dataclass(frozen=True)
class BestStep:
    r"""Bounds (28) of Cui et al. 2024, minimised over the step size.

    Attributes
    ----------
    step_size : float
        The minimiser :math:`\tilde\eta`; ``inf`` when the bound keeps falling to the largest strength searched.
    strength : float
        The spike strength :math:`r` there.
    error : float
        The bound.
    """

    step_size: float
    strength: float
    error: float


def best_step(
    activation: str | ScalarFunction,
    teacher: str | ScalarFunction,
    *,
    bound: str = "upper",
    largest_strength: float = 20.0,
) -> BestStep:
    r"""Minimise the upper or the lower bound over the step size, for a population gradient (Cui et al. 2024, (28)).

    Parameters
    ----------
    activation, teacher : str or ScalarFunction
    bound : {"upper", "lower"}
        Which of (26) and (27).
    largest_strength : float
        Spike strengths up to this value are searched.

    Returns
    -------
    BestStep

    Notes
    -----
    At :math:`\alpha_0=\infty` the bulk keeps variance 1 and :math:`\gamma=\pm1`. For
    :math:`\sigma=\sigma_*=\mathrm{erf}` the upper bound vanishes at :math:`r=\sqrt3`.
    """
    bounds = {"upper": upper_bound, "lower": lower_bound}
    if bound not in bounds:
        raise InvalidInput("bound", bound, "'upper' or 'lower'")
    student, target = scalar_function(activation), scalar_function(teacher)
    unit = spike(student, target, step_size=1.0, step_sample_ratio=np.inf)
    per_step = float(unit.strength)
    if per_step <= 1e-10:
        raise InvalidInput("teacher", target.name, "an activation and a teacher with a linear part")

    def error(strength: NDArray[np.float64] | float) -> Array:
        strengths = np.asarray(strength, dtype=np.float64)
        model = Spike(strengths, np.ones_like(strengths), np.broadcast_to(unit.alignment, strengths.shape))
        return bounds[bound](conditional_moments(student, target, model))

    grid = np.geomspace(1e-2, largest_strength, 60)
    values = error(grid)
    best = int(np.argmin(values))
    if best == grid.size - 1:
        return BestStep(np.inf, largest_strength, float(values[best]))
    from scipy.optimize import minimize_scalar  # a third of the time that every start takes

    refined = minimize_scalar(
        lambda strength: float(error(strength)),
        bounds=(grid[max(best - 1, 0)], grid[best + 1]),
        method="bounded",
        options={"xatol": 1e-10},
    )
    strength = float(refined.x)
    return BestStep(strength / per_step, strength, float(refined.fun))


def learned_function(
    activation: str | ScalarFunction, solution: LargeStep, kappa: ArrayLike, *, bias: ArrayLike = 0.0
) -> Array:
    r"""Mean prediction given the projection on the spike, :math:`\omega_0(\kappa)=m\mu_0+\kappa\theta\mu_1`.

    Parameters
    ----------
    activation : str or ScalarFunction
        The activation that ``solution`` was made with.
    solution : LargeStep
        From :func:`large_step`, of any shape.
    kappa : array_like
        Projections, of any shape.
    bias : array_like
        The bias, when there is one.

    Returns
    -------
    ndarray
        Shape of the solution followed by that of ``kappa``.
    """
    projections = np.asarray(kappa, dtype=np.float64)
    expand = (...,) + (None,) * projections.ndim
    strength, scale = solution.spike.strength[expand], np.sqrt(solution.spike.bulk_variance[expand])
    features = smoothed(scalar_function(activation), strength * projections + np.asarray(bias), scale)
    mean, overlap = solution.readout_mean[expand], solution.bulk_overlap[expand]
    return np.asarray(mean * features.mean + projections * overlap * features.slope / scale)


def learned_along_teacher(activation: str | ScalarFunction, solution: LargeStep, projection: ArrayLike) -> Array:
    r"""Mean prediction given the projection :math:`t=\langle w_*,x\rangle` on the teacher's direction.

    Parameters
    ----------
    activation : str or ScalarFunction
        The activation that ``solution`` was made with.
    solution : LargeStep
        From :func:`large_step`, of any shape.
    projection : array_like
        :math:`t`, of any shape.

    Returns
    -------
    ndarray
        Shape of the solution followed by that of ``projection``.

    Notes
    -----
    Given :math:`t` the spike sees :math:`\kappa=\gamma t+\rho z`, with :math:`\rho^2=1-\gamma^2`, and the teacher's
    other coordinate is :math:`\zeta=\rho t-\gamma z`. With :math:`u=r\gamma t+\sqrt{r^2\rho^2+c}\,z'` the average of
    :math:`m\mu_0+\kappa\theta\mu_1+\psi\zeta\mu_1` is

    .. math:: m\,E\sigma(u)+(\gamma\theta+\rho\psi)\,t\,E\sigma'(u)+\rho r(\rho\theta-\gamma\psi)\,E\sigma''(u)

    by Stein's lemma (this project).
    """
    t = np.asarray(projection, dtype=np.float64)
    expand = (...,) + (None,) * t.ndim
    r, c, gamma = (
        value[expand] for value in (solution.spike.strength, solution.spike.bulk_variance, solution.spike.alignment)
    )
    rho = np.sqrt(np.maximum(1 - gamma**2, 0.0))
    scale = np.sqrt((r * rho) ** 2 + c)
    mean, first, second = hermite_smoothed(scalar_function(activation), r * gamma * t, scale, 2)
    m, theta, psi = (
        value[expand] for value in (solution.readout_mean, solution.bulk_overlap, solution.teacher_overlap)
    )
    curvature = np.sqrt(2) * second / scale**2
    tilt = (gamma * theta + rho * psi) * t * first / scale
    return np.asarray(m * mean + tilt + rho * r * (rho * theta - gamma * psi) * curvature)
