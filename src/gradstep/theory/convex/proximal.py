r"""Averages of Moreau envelopes: of a loss given the projection on the spike, of a penalty over the fields."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from gradstep.convex import Loss, Penalty
from gradstep.gaussian import ScalarFunction, smoothed, smoothed_mean
from gradstep.gaussian.panels import legendre_rule
from gradstep.gaussian.smoothing import trapezoidal_step
from gradstep.labels import Labels
from gradstep.resolution import NOTHING

__all__ = [
    "LabelsAtNodes",
    "LossAverages",
    "Losses",
    "OutputLaw",
    "PenaltyAverages",
    "bend_length",
    "loss_averages",
    "mean_losses",
    "penalty_averages",
]

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]
_Numbers = TypeVar("_Numbers", Array, Complex)

# Rules for averages over a standard normal, where everything is smooth good to about 1e-12: their range, the step of
# the trapezoidal one, the width, order and largest number of the panels of the other; nodes of kappa taken together.
_RANGE, _STEP, _PANEL, _ORDER, _MOST_PANELS, _NODES_AT_ONCE = 7.5, 0.45, 1.875, 8, 400, 8
# Width of a panel, and of four steps of the trapezoidal rule, over the distance from there to a singular point.
_NEAR = 0.95
# The range of t in which the steepest place of the residual is looked for, at so many points; the most panels there.
_BULK_OF_T, _PROBES, _MOST_PANELS_OF_T = 5.0, 81, 100
# The rule for the chance of a class: reach in standard deviations, most points on either side of zero. Scales of the
# part of the Gaussian that is averaged first are powers of two to one over the third. Points are so close, over that
# scale, that the product of two Gaussians at least as wide is summed to rounding.
_TAIL, _MOST_COMMON, _LEVELS, _COMMON_STEP = 8.8, 1024, 4, 0.55


@dataclass(frozen=True)
class LabelsAtNodes:
    """The labels at nodes that resolve both directions. Such a node determines a label up to its noise.

    Docs, "Convex losses", equation (P4a).
    """

    #: Mean of the label, and the variance of what the nodes do not resolve of it. Shape (nodes,).
    mean: Array
    hidden: Array


@dataclass(frozen=True)
class OutputLaw:
    r"""The output :math:`\omega=M+A\,t+s\,\xi` on a fresh input, and the leverage, at nodes of kappa.

    Docs, "Convex losses", equation (P3).
    """

    kappa: Array  #: Projection on the spike, shape (nodes,).
    #: ``M``, ``A`` (on the teacher's coordinate t off the spike) and ``s**2``. Shape (nodes,).
    mean: Array
    slope: Array
    variance: Array
    #: ``V``, the step of the proximal map that turns this output into that on a training sample. Shape (nodes,).
    leverage: Array
    alignment: float  #: Overlap of the spike with the teacher.
    #: Given where the nodes resolve both directions, and `slope` is zero. Otherwise labels follow from kappa and t.
    labels: LabelsAtNodes | None = None

    def parts(self) -> Iterator[OutputLaw]:
        """Yield a few nodes at a time, to keep the averages over them in the processor's cache."""
        for start in range(0, len(self.kappa), _NODES_AT_ONCE):
            cut, labels = slice(start, start + _NODES_AT_ONCE), self.labels
            yield OutputLaw(
                self.kappa[cut],
                self.mean[cut],
                self.slope[cut],
                self.variance[cut],
                self.leverage[cut],
                self.alignment,
                None if labels is None else LabelsAtNodes(labels.mean[cut], labels.hidden[cut]),
            )


@dataclass(frozen=True)
class LossAverages:
    r"""Averages given kappa of :math:`g=-\partial_\omega M(y,\omega)`, the pull of a sample on its output."""

    #: ``E g``, ``E t g`` plus ``A`` times the curvature, ``E g**2``, and the curvature ``-E dg/dw``. Shape (nodes,).
    pull: Array
    slope: Array
    power: Array
    curvature: Array
    #: ``1 - V * curvature``, without cancellation: mean response of a training output to the output without it.
    #: Shape (nodes,).
    free: Array


@dataclass(frozen=True)
class Losses:
    """Losses given kappa, on fresh samples and on training samples; wrong classes are nan for real labels."""

    test: Array
    train: Array
    test_wrong: Array
    train_wrong: Array


@dataclass(frozen=True)
class PenaltyAverages:
    r"""The quadratic penalty :math:`\rho b^2/2` that has the same averages over a group of neurons."""

    #: :math:`\rho`: the mean response of a weight to its field is :math:`1/(\rho+C)`. Shape (groups,).
    stiffness: Array
    #: Differences between the weights and their linear response to the field: in the mean, and in the variance.
    #: Shape (groups,).
    offset: Array
    excess: Array
    #: Mean penalty of a weight, in units of ``ridge / N``, and the share of the weights that are not zero.
    #: Shape (groups,).
    value: Array
    active: Array


def _rule(breakpoints: Array, singular: Complex, scale: float = math.inf) -> tuple[Array, Array]:
    """Return nodes and weights over a standard normal, for functions that are smooth between breakpoints.

    The breakpoints have shape (..., breakpoints), and nodes and weights (..., nodes). At the complex points `singular`,
    shape (..., points), and at their conjugates the functions are singular. Anywhere else they may bend over a length
    of `scale`.
    """
    batch = breakpoints.shape[:-1]
    apart = _NEAR * np.abs(singular.imag)
    closest = float(apart.min(initial=math.inf))
    count = min(math.ceil(2 * _RANGE / min(_PANEL, scale) - 1e-9), _MOST_PANELS)
    # Panels double in width from a singular point to where they are as wide as all others.
    doublings = max(math.ceil(math.log2(2 * _RANGE / count / closest)) + 1, 0) if closest < math.inf else 0
    # Near a wide bend, narrower panels everywhere are fewer.
    narrow = math.ceil(2 * _RANGE / min(_PANEL, scale, closest) - 1e-9)
    if narrow <= count + (2 * doublings + 1) * singular.shape[-1]:
        count, doublings = narrow, 0
    grid = np.linspace(-_RANGE, _RANGE, count + 1)
    away = 2.0 ** np.arange(doublings) * apart[..., None]
    around = singular.real[..., None] + np.concatenate([-away, 0 * away[..., :1], away], axis=-1)
    edges = np.concatenate(
        [np.broadcast_to(grid, (*batch, len(grid))), breakpoints, around.reshape(*batch, -1)], axis=-1
    )
    half = min(math.ceil(_RANGE / min(_STEP, 0.25 * scale, 0.25 * closest)), _MOST_PANELS * _ORDER)
    if not breakpoints.shape[-1] and 2 * half + 1 <= _ORDER * (edges.shape[-1] - 1):
        # The trapezoidal rule converges exponentially.
        nodes = np.broadcast_to(np.linspace(-_RANGE, _RANGE, 2 * half + 1), (*batch, 2 * half + 1))
        weights = np.exp(-0.5 * nodes**2)
        return nodes, weights / weights.sum(axis=-1, keepdims=True)
    edges = np.sort(np.clip(edges, -_RANGE, _RANGE), axis=-1)
    x, w = legendre_rule(_ORDER)
    width = 0.5 * np.diff(edges)[..., None]
    nodes = (0.5 * (edges[..., 1:] + edges[..., :-1])[..., None] + width * x).reshape(*batch, -1)
    weights = (width * w).reshape(*batch, -1) * np.exp(-0.5 * nodes**2)
    return nodes, weights / weights.sum(axis=-1, keepdims=True)


def _standardised(points: _Numbers, centre: Array, spread: Array) -> _Numbers:
    """Return points in standard deviations from the mean of a law. A law that is a point has a very small deviation."""
    return (points - centre) / np.maximum(spread, NOTHING)


@dataclass(frozen=True)
class _Samples:
    """Quadrature over what is left of a sample given kappa, which is the first axis.

    `argument` is that of the loss, `sign` its derivative in the output, `turn` the argument at which the output is
    zero; `weight` and `coordinate` are probabilities and their products with t.
    """

    argument: Array
    sign: Array
    turn: Array
    weight: Array
    coordinate: Array

    def mean(self, values: Array) -> Array:
        return np.asarray((self.weight * values).reshape(len(values), -1).sum(axis=1))

    def mean_with_coordinate(self, values: Array) -> Array:
        return np.asarray((self.coordinate * values).reshape(len(values), -1).sum(axis=1))


def _classes(labels: Labels, loss: Loss, law: OutputLaw) -> _Samples:
    """Nodes (kappa, class, argument): the class given the output, with the teacher's coordinate averaged out."""
    spread = np.sqrt(law.slope**2 + law.variance)[:, None, None]
    mean, slope, leverage = (values[:, None, None] for values in (law.mean, law.slope, law.leverage))
    label = np.array([1.0, -1.0])[:, None]
    margin = loss.kind == "margin"
    sign, turn = (label, 0 * label) if margin else (0 * label - 1, label)
    centre = turn + sign * mean
    # The outputs on fresh and on training samples change sign at the last two.
    kinks = loss.function.breakpoints(law.leverage)[:, None, :]
    ends = np.concatenate(
        [
            np.broadcast_to(kinks, (len(kinks), 2, kinks.shape[-1])),
            np.broadcast_to(turn, (len(kinks), 2, 1)),
            turn + leverage * loss.function.derivative(turn),
        ],
        axis=-1,
    )
    rest = np.sqrt(law.variance)[:, None, None] / spread
    across = math.sqrt(max(1 - law.alignment**2, 0.0))
    # The chance of a class turns over the width of t given the output, or over that of the teacher where it is smooth.
    own = 0.0 if labels.link.kinks else 0.5 * labels.link.pole_distance / max(across, 1e-12)
    turns = _PANEL * np.hypot(rest, own) * spread / np.maximum(np.abs(slope), 1e-12)
    bends = loss.function.singular_points(law.leverage)[:, None, :]
    bends = np.broadcast_to(bends, (len(bends), 2, bends.shape[-1]))
    z, weight = _rule(_standardised(ends, centre, spread), _standardised(bends, centre, spread), float(turns.min()))
    known = slope / spread * sign * z
    if law.labels is None:
        chance, slope = _chance(labels.link, law.alignment * law.kappa, across, known, rest)
    else:
        # The projection of a steep chance on polynomials may be beyond one at a node.
        chance, slope = np.clip(law.labels.mean, -1, 1)[:, None, None], np.zeros(1)
    return _Samples(
        argument=centre + spread * z,
        sign=sign,
        turn=turn,
        weight=0.5 * weight * (1 + label * chance),
        coordinate=0.5 * weight * (known + label * (known * chance + rest * slope)),
    )


def _chance(mean: ScalarFunction, centre: Array, across: float, known: Array, rest: Array) -> tuple[Array, Array]:
    """Return the averages of ``mean(centre + across (known + rest z))`` and of z times it over a standard normal z.

    The smallest of three rules is taken. A smooth function is summed on one grid for all arguments of a node. A steep
    one is first averaged over a part of z that is the same for all nodes (`_chance_in_two`). If both take too many
    points, panels resolve the function.

    The mean of the class is `mean`. There is a centre for each node, `known` has shape (nodes, classes, arguments), and
    `rest` has shape (nodes, 1, 1).
    """
    scale = np.maximum(across * rest[:, 0], NOTHING)
    step = trapezoidal_step(mean.pole_distance / scale) * rest[:, 0]
    reach = np.abs(known).max(axis=(1, 2))[:, None] + _TAIL * rest[:, 0]
    count = float(np.ceil(reach / np.maximum(step, NOTHING)).max())
    common, farthest = _common_part(centre, scale, across * known)
    if mean.kinks or not min(count, farthest) <= _MOST_COMMON:
        found = smoothed(mean, centre[:, None, None] + across * known, across * rest)
        return found.mean, found.slope
    if farthest < count:
        return _chance_in_two(mean, centre, across * known, scale, common)
    grid = reach * np.linspace(-1, 1, 2 * int(count) + 1)
    values = np.asarray(mean(centre[:, None] + across * grid))
    distance = (grid[:, None, :] - known.reshape(len(known), -1, 1)) / rest
    kernel = np.exp(-0.5 * distance**2)
    total, first = kernel.sum(axis=2), np.matvec(kernel, values)
    second = np.matvec(np.multiply(kernel, distance, out=kernel), values)
    return (first / total).reshape(known.shape), (second / total).reshape(known.shape)


def _common_part(centre: Array, scale: Array, argument: Array) -> tuple[float, float]:
    """Return the scale of the part of z that is averaged first, and the points on either side of zero it then takes."""
    level = math.floor(_LEVELS * math.log2(max(float(scale.min()), NOTHING) / math.sqrt(2)))
    common = 2.0 ** (level / _LEVELS)
    reach = np.abs(argument).max(axis=(1, 2)) + _TAIL * np.sqrt(scale[:, 0] ** 2 - common**2)
    return common, float((np.abs(centre) + reach).max()) / (_COMMON_STEP * common) + 2


def _chance_in_two(
    mean: ScalarFunction, centre: Array, argument: Array, scale: Array, common: float
) -> tuple[Array, Array]:
    """Return what `_chance` does, averaging over a part of z first.

    The chance of a class may be steep, and has then many nodes. Averaged over a part of z, the same for all nodes of
    kappa, it is as smooth as that part is wide, and few nodes are enough for the other part, whose own rule is the
    trapezoidal one on a grid that all arguments share.

    The argument has shape (nodes, classes, arguments) and the scale of z shape (nodes, 1). The scale of the part that
    is averaged first is `common`.
    """
    shape, argument = argument.shape, argument.reshape(len(argument), -1)
    other, step = np.sqrt(scale**2 - common**2), _COMMON_STEP * common
    reach = np.abs(argument).max(axis=1, keepdims=True) + _TAIL * other
    # Laws of later sweeps find the same grid.
    half = 2 ** math.ceil(math.log2(float((np.abs(centre[:, None]) + reach).max()) / step + 2))
    first, count = np.floor((centre[:, None] - reach) / step), math.ceil(2 * float(reach.max()) / step) + 2
    place = np.minimum(first.astype(np.int64) + np.arange(count), half)
    values = _averaged(mean, common, step, half)[place + half]
    kernel = ((step * place - centre[:, None])[:, None, :] - argument[..., None]) / other[..., None]
    distance = kernel.copy()
    np.square(kernel, out=kernel)
    kernel *= -0.5
    np.exp(kernel, out=kernel)
    weight = step / (math.sqrt(2 * math.pi) * other)
    average = weight * np.matvec(kernel, values)
    # The average changes with the argument at the same rate, whichever part of z is varied.
    slope = weight * scale / other * np.matvec(np.multiply(kernel, distance, out=kernel), values)
    return average.reshape(shape), slope.reshape(shape)


@lru_cache(maxsize=32)
def _averaged(mean: ScalarFunction, scale: float, step: float, half: int) -> Array:
    """Return the averages of a function over a Gaussian of a scale, at so many multiples of a step on either side."""
    return smoothed_mean(mean, step * np.arange(-half, half + 1), scale)


def _reals(labels: Labels, loss: Loss, law: OutputLaw) -> _Samples:
    """Nodes (kappa, t, residual): given t the residual is Gaussian, noise and output together."""
    noise: Array | float = labels.noise**2
    ends, bends = loss.function.breakpoints(law.leverage), loss.function.singular_points(law.leverage)
    if law.labels is None:
        teacher = labels.link
        across = math.sqrt(max(1 - law.alignment**2, 0.0))
        centre = law.alignment * law.kappa[:, None]
        kinks = np.array([kink for kink in teacher.kinks if abs(kink) < 2 * _RANGE and across > 0])
        kinks, none = (kinks - centre) / max(across, NOTHING), np.empty((len(centre), 0), dtype=complex)

        def residual_at(t: Array) -> Array:
            return np.asarray(teacher(centre + across * t)) - law.mean[:, None] - law.slope[:, None] * t

        # Given t the pull bends where the mean of the residual passes a kink of the loss, over the residual's spread.
        probes = np.linspace(-_BULK_OF_T, _BULK_OF_T, _PROBES)
        steepest = np.abs(np.diff(residual_at(probes), axis=1)).max(axis=1) / (probes[1] - probes[0])
        turns = _PANEL * bend_length(loss, law, law.variance + noise) / np.maximum(steepest, NOTHING)
        scale = max(float(turns.min()), 2 * _RANGE / _MOST_PANELS_OF_T)
        t, t_weight = _rule(kinks, none, min(scale, teacher.pole_distance / max(across, 1e-12)))
        mean = residual_at(t)
    else:
        t, t_weight = np.zeros((1, 1)), np.ones((1, 1))
        mean, noise = (law.labels.mean - law.mean)[:, None], noise + law.labels.hidden
    spread = np.sqrt(law.variance + noise)[:, None, None]
    residual = mean[:, :, None], spread
    z, z_weight = _rule(_standardised(ends[:, None, :], *residual), _standardised(bends[:, None, :], *residual))
    weight = t_weight[:, :, None] * z_weight
    return _Samples(mean[:, :, None] + spread * z, np.array(-1.0), np.array(np.nan), weight, t[:, :, None] * weight)


def bend_length(loss: Loss, law: OutputLaw, variance: Array) -> Array:
    """Return the least length of a residual, or margin, over which averages of the envelope bend as its mean changes.

    Around the mean the argument is Gaussian, with this variance, and averages over it. An envelope that is one parabola
    does not bend: its length is infinite. Shape (nodes,).
    """
    singular = np.abs(loss.function.singular_points(law.leverage).imag).min(axis=-1, initial=math.inf)
    own = np.where(loss.function.breakpoints(law.leverage).shape[-1] > 0, 0.0, singular)
    return np.asarray(np.hypot(np.sqrt(variance), own))


def _samples(labels: Labels, loss: Loss, law: OutputLaw) -> _Samples:
    return _classes(labels, loss, law) if labels.binary else _reals(labels, loss, law)


def loss_averages(labels: Labels, loss: Loss, law: OutputLaw) -> LossAverages:
    """Return averages of the derivatives of the loss's Moreau envelope given kappa.

    Docs, "Convex losses", equation (P4).
    """
    rows = np.concatenate([_loss_averages(labels, loss, part) for part in law.parts()], axis=1)
    return LossAverages(*rows)


def _loss_averages(labels: Labels, loss: Loss, law: OutputLaw) -> Array:
    samples = _samples(labels, loss, law)
    leverage = law.leverage[:, None, None]
    envelope = loss.function.proximal(samples.argument, leverage)
    pull = -samples.sign * envelope.slope
    curvature = samples.mean(envelope.curvature)
    return np.stack(
        [
            samples.mean(pull),
            samples.mean_with_coordinate(pull) + law.slope * curvature,
            samples.mean(pull**2),
            curvature,
            samples.mean(1 - leverage * envelope.curvature),
        ]
    )


def mean_losses(labels: Labels, loss: Loss, law: OutputLaw) -> Losses:
    """Return averages of the loss and of the wrong classes given kappa."""
    return Losses(*np.concatenate([_mean_losses(labels, loss, part) for part in law.parts()], axis=1))


def _mean_losses(labels: Labels, loss: Loss, law: OutputLaw) -> Array:
    # Without leverage the kinks are those of the loss itself.
    fresh, fitted = _samples(labels, loss, replace(law, leverage=0 * law.leverage)), _samples(labels, loss, law)
    point = loss.function.proximal(fitted.argument, law.leverage[:, None, None]).point

    def wrong(samples: _Samples, argument: Array) -> Array:
        if not labels.binary:
            return np.full_like(law.mean, np.nan)
        # The argument grows with the margin y f for a margin loss, and falls with f for a residual loss.
        side = np.array([1.0, -1.0])[:, None] * samples.sign
        return samples.mean(np.where(side * (argument - samples.turn) < 0, 1.0, 0.0))

    return np.stack(
        [
            fresh.mean(loss.function.value(fresh.argument)),
            fitted.mean(loss.function.value(point)),
            wrong(fresh, fresh.argument),
            wrong(fitted, point),
        ]
    )


def penalty_averages(
    penalty: Penalty, field: Array, power: Array, curvature: Array, ridge: float, width: float
) -> PenaltyAverages:
    """Average over a Gaussian field the weight ``argmin_b (ridge/N) r(sqrt(N) b) + C b^2/2 - h b``.

    Docs, "Convex losses", equation (P5).

    Mean and variance of the field h, its `power`, and the curvature ``C`` have shape (groups,). The penalty's strength
    is the ridge, and N the width.
    """
    function, root = penalty.function, math.sqrt(width)
    step = ridge / curvature
    centre, spread = field * root / curvature, np.sqrt(power) * root / curvature
    law = centre[:, None], spread[:, None]
    z, weight = _rule(
        _standardised(function.breakpoints(step), *law), _standardised(function.singular_points(step), *law)
    )
    envelope = function.proximal(centre[:, None] + spread[:, None] * z, step[:, None])
    weights = envelope.point / root
    # A group that is all but switched off, or that no kink of the penalty ever meets, must not divide by zero.
    blocked = np.maximum((weight * step[:, None] * envelope.curvature).sum(axis=1), 1e-12)
    free = np.maximum((weight * (1 - step[:, None] * envelope.curvature)).sum(axis=1), 1e-12)
    response = free / curvature
    mean = (weight * weights).sum(axis=1)
    return PenaltyAverages(
        stiffness=curvature * blocked / free,
        offset=mean - response * field,
        excess=np.maximum((weight * (weights - mean[:, None]) ** 2).sum(axis=1) - response**2 * power, 0.0),
        value=(weight * function.value(envelope.point)).sum(axis=1),
        active=(weight * (envelope.point != 0)).sum(axis=1),
    )
