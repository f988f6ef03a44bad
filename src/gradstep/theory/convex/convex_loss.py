r"""Any convex loss and penalty of the readout fit, at every step size, readout law and size.

The readout minimises

.. math:: \sum_\mu \ell(y_\mu, f(x_\mu)) + \frac\Lambda N\sum_i r(\sqrt N\,b_i),\qquad
          f(x)=\sum_i b_i\,\sigma(\langle w_i,x\rangle).

Given the projection :math:`\kappa` of a fresh input on the spike, and its coordinate t along the part of the teacher's
direction orthogonal to the spike, the output is Gaussian, :math:`\omega = M(\kappa) + A(\kappa)\,t + s(\kappa)\,\xi`.
On a training sample it is the proximal point of the loss at :math:`\omega` with step :math:`V(\kappa)`, the leverage.
Where features bend along the teacher too, they are resolved along both directions: then the output is a function of
:math:`\kappa` and t, and the label is known up to its noise.
The derivatives of the loss's Moreau envelope act on every weight as a field, which is Gaussian over the neurons of a
group, and the weight is the proximal point of the penalty at its field. The bulk is a Gaussian matrix, so that the
neurons are coupled through a few scalars only for every separable penalty; the l1 norm needs no approximation.

Each sweep replaces loss and penalty by the quadratic ones with the same averages, whose equations are the linear ones
of :mod:`gradstep.theory.equivalent.uniform`; Anderson's method accelerates the sweeps. For the square loss and the
ridge penalty the first sweep is exact.

References
----------
.. [1] H. Cui, L. Pesce, Y. Dandi, F. Krzakala, Y. M. Lu, L. Zdeborova, B. Loureiro, "Asymptotics of feature learning in
       two-layer networks after one gradient-step", ICML 2024. Appendix C.

The paper treats a constant readout in the proportional limit and leaves the penalty's Moreau envelope as an
optimisation over all neurons, (97); its reduction to scalars, finite sizes and other readouts are derivations of this
project.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from gradstep.convex import Loss, Penalty
from gradstep.convex import loss as parse_loss
from gradstep.convex import penalty as parse_penalty
from gradstep.errors import InvalidInput, NotConverged, within_range
from gradstep.gaussian import hermite_rule, smoothed
from gradstep.labels import Channel, Labels, labels_of
from gradstep.problem import Problem
from gradstep.theory.arguments import check_labels, checked_refine
from gradstep.theory.convex.proximal import (
    LabelsAtNodes,
    LossAverages,
    OutputLaw,
    PenaltyAverages,
    bend_length,
    loss_averages,
    mean_losses,
    penalty_averages,
)
from gradstep.theory.equivalent.along_rest import Overlaps
from gradstep.theory.equivalent.features import ConditionalFeatures
from gradstep.theory.equivalent.tables import SteppedNetwork, stepped_networks
from gradstep.theory.equivalent.uniform import WeightOffset, solve
from gradstep.theory.models import BulkModel, RowLaw, check_models, models_for
from gradstep.theory.neurons.groups import Groups
from gradstep.theory.prediction import mean_curve, mean_of
from gradstep.theory.step.own_output import output_constants
from gradstep.theory.together import result_of
from gradstep.threads import one_thread

__all__ = ["ConvexPrediction", "convex_prediction"]

Array = NDArray[np.float64]

TOLERANCE = 1e-9
"""Largest residual of the equations that is ever returned."""

#: Residual at which Anderson's method ends at once, and the most sweeps of an attempt with it.
_GOAL, _SWEEPS_OF_ATTEMPT = 1e-11, 50
#: Anderson's method: sweeps that it remembers, its longest step, and the growth of the residual that makes it go back.
_MEMORY, _LARGEST_MOVE, _GROWTH = 8, 2.0, 10.0
#: Plain sweeps: the most of them, and the least part of one that is taken.
_PLAIN_SWEEPS, _LEAST_SHARE = 200, 0.1
#: When a plain sweep changes outputs by less than the first of these, relative to the largest, Anderson's method is
#: tried again; if it still does not end, then below the second.
_NEAR = (0.03, 0.003)
#: The ridge from which solutions are followed, over the width times the mean square of the features; the first and the
#: least stride in its logarithm; and by how much strides grow after one of fewer sweeps than the last number.
_STRONG, _STRIDE, _LEAST_STRIDE, _LONGER, _FEW_SWEEPS = 0.01, 1.0, 0.01, 1.5, 20
#: Nodes of a row's projection for a penalty other than a ridge.
_PROJECTION_NODES = 9
#: Smallest curvature of the loss's envelope relative to the largest, below which a sample does not pull, and in units
#: of the inverse leverage, below which the loss is a straight line wherever the outputs are.
_LEAST_CURVATURE = 1e-12
#: If all weights are zero, so are outputs and leverages. The equations divide by these, and take this number instead.
_NEAR_ZERO = 1e-10
#: Least response of a training output to the output without it: below it a sample is interpolated.
_LEAST_FREEDOM = 1e-13
#: Where nodes are farther from each other than the first, in units of the lengths over which the loss bends, there are
#: to be more of them, if by more than a factor of the second, or of the third where there are two directions and time
#: grows with the square. Within the fourth, in standard deviations, a kink is seen. The last is the most nodes.
_DISTANCE, _WORTH_WHILE, _WORTH_WHILE_IN_PLANE, _REACH, _MOST_NODES = 1.0, 1.1, 1.5, 7.5, 600
_RIDGE = parse_penalty("ridge")


@dataclass(frozen=True)
class ConvexPrediction:
    r"""The predicted results of a fit with a convex loss and penalty.

    Docs, "Convex losses", equation (P8).

    Attributes
    ----------
    test_error : float
        :math:`E(\hat f-E[y|x])^2`, for real labels the package's test error without label noise.
    test_loss : float
        :math:`E\,\ell(y,\hat f)` on fresh labels, the generalisation loss.
    classification_error : float
        Probability that the sign of the output is not the class of a fresh sample; nan for real labels.
    train_error : float
        :math:`\frac1n\sum_\mu\ell(y_\mu,\hat f_\mu)`; for the square loss the mean squared residual.
    train_loss : float
        The minimum of the objective divided by n: ``train_error`` plus the penalty.
    train_classification_error : float
        Share of the training samples on the wrong side; nan for real labels.
    readout_norm : float
        :math:`|b|^2`, of the readout on the raw features (times N in the proportional limit).
    active_fraction : float
        Share of the weights that are not zero: one unless the penalty has a kink at zero.
    kappa, learned : ndarray, shape (nodes,)
        Projections on the spike, and the mean output given them, also over a second direction that is resolved.
    residual : float
        Largest relative residual of the equations, at most 1e-9.
    sweeps : int
        How often the averages were taken.
    """

    test_error: float
    test_loss: float
    classification_error: float
    train_error: float
    train_loss: float
    train_classification_error: float
    readout_norm: float
    active_fraction: float
    kappa: Array
    learned: Array
    residual: float
    sweeps: int


@one_thread()
@within_range("the prediction")
def convex_prediction(
    problem: Problem,
    *,
    loss: str | Loss = "square",
    penalty: str | Penalty = "ridge",
    channel: Channel = "real",
    flip: float = 0.0,
    rows: RowLaw | None = None,
    bulk: BulkModel | None = None,
    refine: int = 1,
) -> ConvexPrediction:
    r"""Predict the fit of the readout with a convex loss and penalty.

    All results are means over draws, also over the constant of an initial output of order one, as in
    :func:`gradstep.predict`.

    Docs, "Convex losses", equation (P1).

    Parameters
    ----------
    problem : Problem
        Sizes, functions, step and readout law; ``ridge`` is the strength :math:`\Lambda` of the penalty.
    loss : str or Loss
        See :func:`gradstep.convex.loss`.
    penalty : str or Penalty
        See :func:`gradstep.convex.penalty`: :math:`(\Lambda/N)\sum_i r(\sqrt N b_i)`.
    channel : {"real", "sign", "logistic"}
        Real labels or classes, see :func:`gradstep.labels.labels_of`; the gradient step sees the same labels.
    flip : float
        Share of the classes that are wrong.
    rows : {"network", "isotropic"}, optional
        As in :func:`gradstep.predict`: rows of the real network (default), or of the spiked random features model of
        Cui et al. 2024.
    bulk : {"structured", "isotropic"}, optional
        As in :func:`gradstep.predict`: directions of the rows off the spike as the step's samples make them (default
        with ``rows="network"``), or all alike (default otherwise).
    refine : int
        Multiplies the number of nodes of kappa.

    Returns
    -------
    ConvexPrediction

    Raises
    ------
    InvalidInput
        A margin loss with real labels; labels that are all zero; settings without a theory, as in
        :func:`gradstep.predict`.
    NotConverged
        If the residual stays above 1e-9.

    Notes
    -----
    scikit-learn's estimators, without intercept, on raw features: ``LogisticRegression(C=1/(2*ridge))``;
    ``LinearSVC(loss="squared_hinge", C=1/(2*ridge))``; ``Ridge(alpha=ridge)``;
    ``Lasso(alpha=ridge/(2*n*sqrt(width)))``; ``ElasticNet`` with ``alpha*l1_ratio`` as for the Lasso times the share
    of l1 and ``alpha*(1-l1_ratio)`` equal to ``ridge*(1-share)/n``. ``SGDClassifier(loss="modified_huber",
    alpha=8*ridge/n)`` has four times ``smooth_hinge(2)``. ``HuberRegressor`` estimates the scale of the
    residuals too; at its estimate ``scale_`` its weights are those of ``huber(epsilon*scale_)`` with
    ``ridge = alpha*scale_``.

    A penalty with a kink at zero may switch off all weights; then the prediction is that of the zero output. Where it
    leaves only a few (`active_fraction` times the width), these differ between draws and the results are rough: with
    five of 256 and the hinge loss, networks had a sixth more test error.

    Examples
    --------
    >>> import gradstep as gs
    >>> problem = gs.Problem.cui2024(alpha=2.0, alpha0=2.0, eta_tilde=1.0, lam=0.1, teacher="linear")
    >>> result = convex_prediction(problem, loss="logistic", channel="sign")
    >>> 0.1 < result.classification_error < 0.2
    True
    """
    chosen, priced = parse_loss(loss), parse_penalty(penalty)
    labels = labels_of(problem, channel, flip)
    if chosen.kind == "margin" and not labels.binary:
        raise InvalidInput("loss", chosen.name, "a residual loss with channel='real'")
    check_models(rows, bulk)
    refine = checked_refine(refine)
    law, kind = models_for(rows, bulk)
    finer = problem.readout.kind == "vocabulary" and not _is_ridge(priced)
    stepped = problem.replace(teacher=labels.mean, noise=labels.noise)
    check_labels(stepped)

    def solved(constant: float | None, nodes: float) -> list[tuple[float, SteppedNetwork, tuple[_State, float, int]]]:
        networks = stepped_networks(
            stepped, law, kind, refine, constant,
            fold=not finer, any_loss=True, regrouped=_finer if finer else None, plane=law == "network",
            classes=labels.binary, finer=nodes,
        )  # fmt: skip
        return [(part, network, _solve(network, labels, chosen, priced)) for part, network in result_of(networks)]

    parts = []
    for share, constant in output_constants(stepped, refine):
        found = solved(constant, 1.0)
        needed = max(_missing_nodes(network, labels, chosen, state.output) for _, network, (state, *_) in found)
        if needed > 1:
            found = solved(constant, needed)
        parts += [(share * part, _result(network, labels, chosen, priced, *each)) for part, network, each in found]
    return _mean(parts)


def _mean(parts: Sequence[tuple[float, ConvexPrediction]]) -> ConvexPrediction:
    """Return the mean of predictions, each with its probability; the curve is at the nodes of the middle one."""
    if len(parts) == 1:
        return parts[0][1]
    means = (f.name for f in fields(ConvexPrediction) if f.name not in ("kappa", "learned", "residual", "sweeps"))
    mean = mean_of(parts, means, ("residual", "sweeps"))
    return replace(mean, learned=mean_curve([(share, p.kappa, p.learned) for share, p in parts], mean.kappa))


def _finer(groups: Groups) -> Groups:
    """Return nine Gaussian nodes in a row's projection for every three.

    A ridge depends on the variance of the projections only, which three nodes have. Other penalties depend on the whole
    law of the field on a weight: with three nodes the l1 penalty errs by up to 1e-3, with nine by less than 1e-7.
    """
    z, _ = hermite_rule(3)
    nodes, weights = hermite_rule(_PROJECTION_NODES)
    # Columns have three entries for each value of the readout: the values at z of a parabola.
    to_nodes = (np.vander(nodes, 3) @ np.linalg.inv(np.vander(z, 3))).T
    columns = {f.name: getattr(groups, f.name).reshape(-1, 3) for f in fields(groups)}
    finer = {name: (column @ to_nodes).ravel() for name, column in columns.items()}
    finer["weight"] = (columns["weight"].sum(axis=1)[:, None] * weights).ravel()
    finer["variance"] = np.maximum(finer["variance"], 0.1 * groups.variance.min())
    return Groups(**finer)


def _missing_nodes(network: SteppedNetwork, labels: Labels, loss: Loss, output: OutputLaw) -> float:
    """Return how many times as many nodes the loss needs as there are: one if these are enough.

    The nodes resolve features and labels. But the pull of a loss bends where the residual, or the margin, passes a
    kink, over its spread given the node. If labels vary much along the spike and little else does, this is a shorter
    length than that over which features vary.

    Docs, "Convex losses", equation (P4b).
    """
    features = network.tables.features
    if labels.binary:
        turn = 1 if loss.kind == "residual" else 0
        means, variance = [turn - output.mean, output.mean - turn], output.slope**2 + output.variance
    else:
        hidden = features.teacher_square - features.teacher_mean**2 - features.teacher_slope**2
        means = [features.teacher_mean - output.mean]
        missed = np.maximum(hidden, 0.0) + (features.teacher_slope - output.slope) ** 2
        variance = output.variance + labels.noise**2 + missed
    length = bend_length(loss, output, variance)
    if not np.isfinite(length).all():
        return 1.0
    distance = _distances(features, means[0], length)
    bends = np.ones_like(distance, dtype=bool)
    # The pull has the kinks of the envelope, and the loss on fresh samples its own.
    own = (loss.function.breakpoints(leverage) for leverage in (output.leverage, 0 * output.leverage))
    if (kinks := np.concatenate([*own], axis=-1)).shape[-1]:
        # A kink may be passed between two nodes.
        reach = (_REACH + distance) * length
        bends = np.any([np.abs(kinks - mean[:, None]).min(axis=1) < reach for mean in means], axis=0)
    root_mean_square = math.sqrt(float(features.weight @ np.where(bends, distance, 0.0) ** 2))
    in_plane, nodes = network.tables.in_plane, len(features.kappa)
    needed = root_mean_square / _DISTANCE
    if needed < (_WORTH_WHILE_IN_PLANE if in_plane else _WORTH_WHILE):
        return 1.0
    return max(min(needed, math.sqrt(_MOST_NODES / nodes) if in_plane else _MOST_NODES / nodes), 1.0)


def _distances(features: ConditionalFeatures, values: Array, length: Array) -> Array:
    """Return the distance of the nodes in units of the lengths over which averages of these values bend.

    Like a feature of this slope, values that change by a `length` bend over one of `kappa`. In the plane this is the
    larger of the distances along the spike, where values are averaged over the other coordinate, and along that one.
    """

    def along(place: Array, values: Array, length: Array) -> Array:
        if len(place) < 2:
            return np.zeros_like(place)
        slope = np.gradient(values, place) / length
        return np.asarray(np.gradient(place) * np.sqrt(1 + 2.5 * slope**2))

    first = features.first
    ends = [*first[1:], len(features.kappa)]
    averages = (features.along_spike(each)[0] for each in (values, length))
    spike = np.repeat(along(features.kappa[first], *averages), np.diff([*first, len(features.kappa)]))
    if not features.rest.any():
        return spike
    parts = [slice(start, end) for start, end in zip(first, ends, strict=True)]
    rest = [along(features.rest[part], values[part], length[part]) for part in parts]
    return np.maximum(spike, np.concatenate(rest))


@dataclass(frozen=True)
class _State:
    """The unknowns of the sweeps: the law of the output, and that of the fields on the weights of each group."""

    output: OutputLaw
    field: Array
    power: Array
    curvature: Array
    readout_norm: float


#: A sweep: it returns the state after it, plain and packed.
_Image = Callable[[_State], tuple[_State, Array]]


def _sweep(network: SteppedNetwork, averages: LossAverages, output: OutputLaw, quadratic: PenaltyAverages) -> _State:
    """Solve the problem whose loss and penalty are quadratic, with the averages given.

    Docs, "Convex losses", equations (P6) and (P7).
    """
    # The quadratic loss gain/2 (target - w)^2 has this pull, curvature and power at every node of kappa.
    least = np.maximum(_LEAST_CURVATURE * averages.curvature.max(), _LEAST_CURVATURE / output.leverage)
    curvature = np.maximum(averages.curvature, least)
    gain = curvature / np.maximum(averages.free, _LEAST_FREEDOM)
    target = output.mean + averages.pull / curvature
    target_slope = averages.slope / curvature
    square = (
        averages.power / curvature**2 + 2 * (target * output.mean + target_slope * output.slope) - _mean_square(output)
    )
    # Features in units where loss and penalty have curvature one.
    root, scale, own = np.sqrt(gain), np.sqrt(quadratic.stiffness), network.tables.features
    features = replace(
        own,
        mean=root * own.mean / scale[:, None],
        slope=root * own.slope / scale[:, None],
        variance=gain * own.variance / quadratic.stiffness[:, None],
        teacher_mean=root * target,
        teacher_slope=root * target_slope,
        teacher_square=gain * square,
        length_slope=root[: own.length_slope.shape[1]] * own.length_slope / scale[:, None],
        higher=root * own.higher / scale[:, None],
    )
    sizes, tables = network.sizes, replace(network.tables, features=features).shared
    weight_offset = WeightOffset(
        *(part[None] for part in (scale * quadratic.offset, quadratic.stiffness * quadratic.excess))
    )
    solution = solve(
        tables,
        noise=np.zeros(1),
        dimension=np.array([sizes.d]),
        width=np.array([sizes.width]),
        samples=np.array([sizes.n]),
        ridge=np.ones(1),
        weight_offset=weight_offset,
    )
    point = solution.point
    # What the samples add to a neuron's own stiffness: the difference would lose it beside a strong penalty.
    added = point.load[0] / point.density[0]
    neurons, inertia = sizes.width * network.tables.groups.weight, 1 + added
    follows = solution.weight_field[0] / np.sqrt(neurons * inertia) - weight_offset.mean[0]
    fluctuations = solution.fluctuations
    assert fluctuations is not None
    mean, slope = solution.learned[0] / root, solution.rest_slope[0] / root
    return _State(
        output=replace(
            output,
            mean=mean,
            slope=slope,
            variance=fluctuations.output[0] / gain,
            leverage=point.leverage[0] / gain,
        ),
        field=inertia * follows * scale,
        power=inertia**2 * fluctuations.weight[0] * quadratic.stiffness,
        curvature=quadratic.stiffness * added,
        readout_norm=float((solution.readout_power[0] / quadratic.stiffness).sum()),
    )


def _pack(state: _State, unit: float, *, fields: bool) -> Array:
    """Return the state as one vector of comparable, unbounded numbers; with or without the fields on the weights."""
    output = state.output
    parts = [output.mean / unit, output.slope / unit, np.log(output.variance), np.log(output.leverage)]
    if fields:
        # On one scale for all: the power of a field that a penalty holds down may vanish.
        parts += [state.field / np.sqrt(state.power.max()), np.log(state.power), np.log(state.curvature)]
    return np.concatenate(parts)


def _unpack(vector: Array, like: _State, unit: float) -> _State:
    nodes, groups = len(like.output.kappa), len(like.field)
    cuts = np.cumsum([nodes] * 4 + [groups] * 2)
    mean, slope, variance, leverage, field, power, curvature = np.split(vector, cuts)
    output = replace(
        like.output, mean=unit * mean, slope=unit * slope, variance=np.exp(variance), leverage=np.exp(leverage)
    )
    if not len(field):
        return replace(like, output=output)
    return replace(
        like, output=output, field=field * np.exp(power.max() / 2), power=np.exp(power), curvature=np.exp(curvature)
    )


def _solve(network: SteppedNetwork, labels: Labels, loss: Loss, penalty: Penalty) -> tuple[_State, float, int]:
    """Iterate the sweep with Anderson's acceleration; return the state, its residual and the number of sweeps."""
    unit = math.sqrt(float(smoothed(labels.link, 0.0, 1.0).second_moment) + labels.noise**2)
    features, in_plane = network.tables.features, network.tables.in_plane
    # A ridge needs no fields, and those of the many groups in a plane, which are nearly alike, have fewer digits.
    fields = not (in_plane and _is_ridge(penalty))
    ones, kappa, alignment, known = np.ones_like(features.kappa), features.kappa, network.step.resolved.alignment, None
    overlap = network.tables.bulk.overlap
    if 0 < overlap < 1:
        # Together both coordinates are the projection on one direction: that of the teacher in their plane.
        overlaps = Overlaps.of(alignment, overlap)
        alignment = math.hypot(overlaps.spike, overlaps.second)
        kappa = (overlaps.spike * kappa + overlaps.second * features.rest) / alignment
    elif in_plane:
        known = LabelsAtNodes(features.teacher_mean, features.teacher_square - features.teacher_mean**2)
    output = OutputLaw(kappa, 0 * ones, 0 * ones, unit**2 * ones, ones, alignment, known)
    none = np.zeros_like(network.tables.groups.weight)
    guess = _State(output, none, none, none, math.nan)

    def image_of(network: SteppedNetwork) -> _Image:
        def image(state: _State) -> tuple[_State, Array]:
            """Return the state after a sweep, and packed; nan where there is none."""
            try:
                with np.errstate(all="ignore"):
                    effective = _ridge(network) if state is guess else _penalty(network, penalty, state)
                    mapped = _sweep(network, loss_averages(labels, loss, state.output), state.output, effective)
                    return mapped, _pack(mapped, unit, fields=fields)
            except (np.linalg.LinAlgError, NotConverged):
                return state, np.full(4 * len(ones) + 3 * len(none) * fields, np.nan)

        return image

    def with_ridge(ridge: float) -> _Image:
        return image_of(replace(network, sizes=network.sizes._replace(ridge=ridge)))

    if not _is_ridge(penalty) and (nothing := _without_weights(network, labels, loss, penalty, output)):
        return nothing, 0.0, 1
    state, best, sweeps = _attempts(image_of(network), guess, unit, _NEAR)
    if state is None and _is_ridge(penalty):
        square = float(network.tables.groups.weight @ _mean_square(features) @ features.weight)
        strong = max(_STRONG * network.sizes.width * square, network.sizes.ridge)
        state, followed, more = _followed(with_ridge, guess, unit, strong, network.sizes.ridge, fields=fields)
        best, sweeps = min(best, followed), sweeps + more
    if state is None:
        advice = "Change the ridge: a penalty that switches off all neurons but those the spike pulls is the hardest."
        raise NotConverged("the fixed point of a convex loss", best, TOLERANCE, advice)
    return state, best, sweeps


def _mean_square(law: OutputLaw | ConditionalFeatures) -> Array:
    """Return the mean square, given kappa, of outputs or features that have a mean, a slope and a variance there."""
    return np.asarray(law.mean**2 + law.slope**2 + law.variance)


def _followed(
    with_ridge: Callable[[float], _Image], guess: _State, unit: float, strong: float, ridge: float, *, fields: bool
) -> tuple[_State | None, float, int]:
    """Follow the solution from a strong ridge to the wanted one; what is returned is as in `_accelerated`.

    Where samples can hardly be separated, or just not, readouts of the weakest ridges are by far the largest, and no
    first guess is near. But in the logarithm of the ridge they are smooth: three known solutions tell the next one.
    """
    state, best, sweeps = _accelerated(with_ridge(strong), guess, unit, _SWEEPS_OF_ATTEMPT)
    if state is None:
        return None, best, sweeps
    last, stride, end = math.log(strong), _STRIDE, math.log(ridge)
    known = [(last, _pack(state, unit, fields=fields))]
    while last > end:
        place = max(last - stride, end)
        start = _unpack(_extrapolated(known, place), state, unit)
        found, best, more = _attempts(with_ridge(math.exp(place)), start, unit, _NEAR[-1:])
        sweeps += more
        if found is None:
            stride /= 2
            if stride < _LEAST_STRIDE:
                return None, best, sweeps
            continue
        state, last = found, place
        known = [*known[-2:], (place, _pack(state, unit, fields=fields))]
        stride *= _LONGER if more < _FEW_SWEEPS else 1.0
    return state, best, sweeps


def _extrapolated(known: Sequence[tuple[float, Array]], place: float) -> Array:
    """Return the value at a place of the polynomial through all known places and values."""
    places = np.array([each for each, _ in known])
    weights = [np.prod((place - np.delete(places, k)) / (x - np.delete(places, k))) for k, x in enumerate(places)]
    return np.asarray(np.tensordot(weights, [value for _, value in known], 1))


def _attempts(image: _Image, start: _State, unit: float, near: Sequence[float]) -> tuple[_State | None, float, int]:
    """Try Anderson's method; if it does not end, try it again after plain sweeps, once for each number in `near`.

    Outputs may be far larger than labels, as they are where samples can be separated. Long steps towards them lead
    nowhere. Plain sweeps come first there, until one changes outputs by less than the number.

    What is returned is as in `_accelerated`.
    """
    state, best, sweeps = _accelerated(image, start, unit, _SWEEPS_OF_ATTEMPT)
    for change in near:
        if state is not None:
            break
        start, plain = _plain_sweeps(image, start, unit, change)
        state, best, more = _accelerated(image, start, unit, _SWEEPS_OF_ATTEMPT)
        sweeps += plain + more
    return state, best, sweeps


def _plain_sweeps(image: _Image, start: _State, unit: float, near: float) -> tuple[_State, int]:
    """Return a state that a sweep changes by less than `near`, or else the last one, and the number of sweeps.

    Only a share of each change is taken. It is one at first, and is halved whenever a change points against the one
    before, as where sweeps go back and forth.
    """
    state, vector = image(start)
    last, share, sweeps, found = np.zeros_like(vector), 1.0, 1, start
    while sweeps < _PLAIN_SWEEPS:
        gap, sweeps = image(state)[1] - vector, sweeps + 1
        if not np.isfinite(gap).all():
            break
        found, output = state, state.output
        scale = math.sqrt(float(_mean_square(output).max())) / unit
        # Outputs are compared with the largest of them; the rest of the vector consists of logarithms.
        change = np.concatenate([gap[: 2 * len(output.mean)] / max(scale, 1.0), gap[2 * len(output.mean) :]])
        if np.abs(change).max() < near:
            break
        if change @ last < 0:
            share = max(share / 2, _LEAST_SHARE)
        last = change
        vector = vector + share * gap
        state = _unpack(vector, state, unit)
    return found, sweeps


def _without_weights(
    network: SteppedNetwork, labels: Labels, loss: Loss, penalty: Penalty, output: OutputLaw
) -> _State | None:
    """Return the state in which all weights are zero, if that is the solution; otherwise none.

    A convex problem has one solution, so that fields of a zero output which pull no weight over the penalty's kink
    decide it. Sweeps do not end there: every one of them makes the outputs smaller still.
    """
    nothing, none = 0 * output.kappa, np.zeros_like(network.tables.groups.weight)
    variance, leverage = nothing + _NEAR_ZERO**2, nothing + _NEAR_ZERO
    unmoved = replace(output, mean=nothing, slope=nothing, variance=variance, leverage=leverage)
    held = PenaltyAverages(none + 1 / _NEAR_ZERO, none, none, none, none)
    state = _sweep(network, loss_averages(labels, loss, unmoved), unmoved, held)
    active = network.sizes.width * float(network.tables.groups.weight @ _penalty(network, penalty, state).active)
    return replace(state, output=unmoved, readout_norm=0.0) if active <= TOLERANCE else None


def _accelerated(image: _Image, start: _State, unit: float, most: int) -> tuple[_State | None, float, int]:
    """Iterate sweeps with Anderson's acceleration.

    Return the state, its residual and the number of sweeps, at most `most`; no state if the residual stays too large.

    `unit` is the unit of packed outputs.
    """
    state, vector = image(start)
    best, best_vector, best_gap, best_sweep, damping = math.inf, vector, np.zeros_like(vector), 0, 1.0
    solution = None
    points: list[Array] = []
    gaps: list[Array] = []
    for sweep in range(1, most + 1):
        mapped, packed = image(state)
        with np.errstate(invalid="ignore"):
            gap = packed - vector
        residual = float(np.abs(gap).max()) if np.isfinite(gap).all() else math.inf
        if residual <= _GOAL or (residual <= TOLERANCE and sweep > best_sweep + _MEMORY):
            return mapped, residual, sweep
        if sweep == 1 and residual == math.inf:
            break
        if residual == math.inf or residual > _GROWTH * best:
            # Go back to the best point and leave it with smaller steps.
            damping /= 2
            points, gaps = [], []
            vector = best_vector + damping * best_gap
        else:
            if residual < 0.5 * best:
                best_sweep = sweep
            if residual < best:
                best, best_vector, best_gap = residual, vector, gap
                solution = mapped if residual <= TOLERANCE else None
            points, gaps = [*points[-_MEMORY:], vector], [*gaps[-_MEMORY:], gap]
            move = gap
            if len(gaps) > 1:
                moves, changes = np.diff(points, axis=0).T, np.diff(gaps, axis=0).T
                move = gap - (moves + changes) @ np.linalg.lstsq(changes, gap, rcond=1e-12)[0]
            vector = vector + np.clip(damping * move, -_LARGEST_MOVE, _LARGEST_MOVE)
            damping = min(1.0, 1.5 * damping)
        state = _unpack(vector, state, unit)
    # Rounding may move the last residuals to either side of the tolerance.
    return solution, best, sweep


def _is_ridge(penalty: Penalty) -> bool:
    return penalty.function == _RIDGE.function


def _ridge(network: SteppedNetwork) -> PenaltyAverages:
    """Return the averages of a ridge, which is its own quadratic penalty; its value follows from the readout norm."""
    none = np.zeros_like(network.tables.groups.weight)
    return PenaltyAverages(none + 2 * network.sizes.ridge, none, none, none, none + 1)


def _penalty(network: SteppedNetwork, penalty: Penalty, state: _State) -> PenaltyAverages:
    if _is_ridge(penalty):
        return _ridge(network)
    return penalty_averages(
        penalty, state.field, state.power, state.curvature, network.sizes.ridge, network.sizes.width
    )


def _result(
    network: SteppedNetwork, labels: Labels, loss: Loss, penalty: Penalty, state: _State, residual: float, sweeps: int
) -> ConvexPrediction:
    output = state.output
    losses, priced = mean_losses(labels, loss, output), _penalty(network, penalty, state)
    target = network.tables.features
    missed = target.teacher_square - target.teacher_mean**2 - target.teacher_slope**2
    error = (target.teacher_mean - output.mean) ** 2 + (target.teacher_slope - output.slope) ** 2
    error += missed + output.variance
    share = network.tables.groups.weight
    cost = state.readout_norm if _is_ridge(penalty) else float(share @ priced.value)
    train_error = float(target.weight @ losses.train)
    return ConvexPrediction(
        test_error=float(target.weight @ error),
        test_loss=float(target.weight @ losses.test),
        classification_error=float(target.weight @ losses.test_wrong),
        train_error=train_error,
        train_loss=train_error + network.sizes.ridge / network.sizes.n * cost,
        train_classification_error=float(target.weight @ losses.train_wrong),
        readout_norm=state.readout_norm,
        active_fraction=float(share @ priced.active),
        kappa=target.kappa[target.first],
        learned=target.along_spike(output.mean)[0],
        residual=residual,
        sweeps=sweeps,
    )
