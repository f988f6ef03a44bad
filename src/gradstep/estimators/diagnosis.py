"""Diagnose a fit: what the step did on the data, what theory says about these sizes, and what might be changed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gradstep.errors import GradstepError
from gradstep.estimators.assumptions import broken_by_columns, broken_by_errors
from gradstep.estimators.comparison import Compared, Gains, compare_moves
from gradstep.estimators.index import Index, agreement_of_halves, find_index, implied_alignment
from gradstep.estimators.learned import Learned
from gradstep.estimators.link import Bins, Link, binned, fit_link, normal_scores
from gradstep.estimators.metric import Metric, measure
from gradstep.estimators.moves import Move, gradient_on
from gradstep.estimators.parameters import Settings, random_source
from gradstep.estimators.refits import Model
from gradstep.estimators.rows import Sample, Training
from gradstep.estimators.score_curve import ScoreCurve
from gradstep.estimators.spectrum import Spectrum, spectrum_of
from gradstep.estimators.step_choice import StepErrors
from gradstep.estimators.table import observations
from gradstep.estimators.theory import Theory, theory_of
from gradstep.simulation.ridge import OutOfRange

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from gradstep.estimators.readout import OneStepReadout

__all__ = ["Diagnosis", "diagnose"]

Host = NDArray[np.float64]

#: Rows of the learning curve of a diagnosis at most, and its penalties relative to that of the fit.
_SHORT_ROWS = 1024
_SHORT_PATH = np.array([0.2, 1.0, 5.0])
#: Variances of standardised targets that are smaller are rounding.
_ROUNDING = 1e-20


@dataclass(frozen=True, eq=False, repr=False)
class Diagnosis(Gains):
    """The effect of one step on a table of data. All errors are mean squares in units of the variance of the targets.

    The targets of a classifier are the codes +1 and -1 of its classes. Gains are those of R^2.

    Parameters
    ----------
    rows, inputs, width : int
        Rows looked at, inputs that vary (one, if none does), neurons.
    eta, damping, step_scale, ridge : float
        As fitted; `step_scale` is the change of the pre-activations by gradient steps, relative to what they were.
    rounds : int
        Rounds that drew the first layer again; zero after a gradient step.
    taken : Move
        The move of the fit as one of those compared in `steps`.
    steps : StepErrors
        Leave-one-out errors of steps of several scales and this damping, and of rounds where the fit took them, on
        `compared_width` neurons; no row is scored with a step that has seen it.
    compared_width : int
    halves : float
        Correlation between the projections of the inputs on the leading directions of two steps, each on one half of
        its rows, from three ways to halve them; what two random directions have by chance is subtracted. After rounds,
        that of the fitted networks' directions.
    alignment : float
        The correlation ``sqrt(2 halves / (1 + halves))`` that it implies between the projection on the direction of a
        step on all of its rows and that of a step on infinitely many (Spearman and Brown).
    spectrum : Spectrum
    index : ndarray, shape (inputs of the first layer,)
        The direction of the standardised inputs along which networks fitted after the step vary most: the leading
        direction of their average gradient outer product, scaled to projections of variance one. In the coordinates of
        the columns of `weights_`. Zero for networks that are constant.
    index_alignment : float
        The correlation between the projection on it and on that of a network fitted to infinitely many rows, which the
        agreement of networks fitted to halves of the rows implies.
    single_index, network : float
        Shares of the variance of all outputs that functions of the projection on the index explain, one an output, and
        that the network with the step explains by its leave-one-out error. NaN for constant targets.
    combination : ndarray, shape (outputs,)
        The combination of standardised outputs, of norm one, that moved the neurons along the step's leading direction.
    link : Link
        This combination along the index, every row on the index of a network that has not seen it; a function of the
        normal scores of the projections (the increasing map that makes them Gaussian, as the index of the theory is).
    bins : Bins
        The same combination of the targets and of the fitted network's outputs along the index.
    learned : Learned
        Directions and columns along which the fitted network varies.
    importance_errors : ndarray, shape (columns of the table,)
        Standard errors of ``learned.importances``, from refits without each quarter of the rows (jackknife).
    curve : ScoreCurve or None
        What the fitted model would score with the rows of the readout that were looked at, and with twice as many. None
        where the table does not tell.
    theory : Theory or None
        For the combination. None where `theory_note` says why there is none: too few rows, columns that are no
        isotropic Gaussian ones, or errors measured here that are not those of the theory.
    theory_note : str
        How the network of the theory differs from the one fitted, or why there is no theory.
    accuracy : Gains or None
        Gains in the share of right classes; None for a regressor.
    """

    rows: int
    inputs: int
    width: int
    eta: float
    damping: float
    rounds: int
    taken: Move
    step_scale: float
    ridge: float
    steps: StepErrors
    compared_width: int
    halves: float
    alignment: float
    spectrum: Spectrum
    index: Host
    index_alignment: float
    single_index: float
    network: float
    combination: Host
    link: Link
    bins: Bins
    learned: Learned
    importance_errors: Host
    curve: ScoreCurve | None
    theory: Theory | None
    theory_note: str
    accuracy: Gains | None = None

    def __repr__(self) -> str:
        from gradstep.estimators.diagnosis_text import describe

        return describe(self)

    def _repr_html_(self) -> str:
        from gradstep.estimators.diagnosis_text import describe_html

        return describe_html(self)

    def plot(self, *, ax: Any = None) -> Figure:
        """Draw the spectrum, the function along the direction, and the errors against the size of the step.

        They are drawn in an array `ax` of three of Matplotlib's axes, by default in a new figure.
        """
        from gradstep.estimators.figures import draw_diagnosis
        from gradstep.picture import offer

        return offer(draw_diagnosis(self, ax))


def diagnose(fit: OneStepReadout, training: Training, sample: Sample, outputs: Host) -> Diagnosis:
    """Measure everything a `Diagnosis` holds on a sample of a table that the fit has read.

    The fitted network has `outputs`, shape (n, k), on the sample, standardised like its targets.
    """
    if not np.isfinite(outputs).all():
        raise OutOfRange
    curve, random = _short_curve(fit, training), random_source(fit.random_state)
    metric = measure(sample)

    def step(rows: NDArray[np.bool_]) -> Host:
        """Return the damped gradient of the initial network on those of some rows that are the step's.

        It is damped by the inputs of these rows. Those of all rows would do for the gradient of all: that of a part has
        noise which only its own second moment takes away.
        """
        own = sample.step_rows & rows
        gradient = gradient_on(fit._initial, sample, own)
        if math.isinf(fit.damping_) or not own.any():
            return gradient
        return measure(replace(sample, step_rows=own)).damped(gradient, fit.damping_)

    everything = metric.damped(gradient_on(fit._initial, sample, sample.step_rows), fit.damping_)
    compared = compare_moves(fit, training, sample, metric, everything, random)
    one = _indexed(fit, sample, metric, compared, step, everything)
    along = _along(one, sample, outputs)
    theory, note = _checked_theory(fit, training.settings, sample, one, along)
    return Diagnosis(
        rows=len(sample.z),
        inputs=fit.standardisation_.dimension,
        width=fit._initial.width,
        eta=fit.eta_,
        damping=fit.damping_,
        rounds=fit.rounds_,
        taken=compared.taken,
        step_scale=compared.scale,
        ridge=fit.ridge_,
        steps=compared.steps,
        compared_width=compared.draws[0].width,
        **vars(compared.gains),
        halves=one.halves,
        alignment=implied_alignment(one.halves),
        spectrum=spectrum_of(fit, sample, metric, training.settings.n_steps, random),
        index=one.index.direction,
        index_alignment=one.index.alignment,
        single_index=1 - along.unexplained / along.variance if along.varies else math.nan,
        network=1 - compared.error / along.variance if along.varies else math.nan,
        combination=one.combination,
        link=along.link,
        bins=along.bins,
        learned=fit.learned_,
        importance_errors=_jackknife(one.index.variations, fit.learned_),
        curve=curve,
        theory=theory,
        theory_note=note,
        accuracy=compared.accuracy,
    )


def _short_curve(fit: OneStepReadout, training: Training) -> ScoreCurve | None:
    """Return a curve of two sizes and few penalties; None where there is no estimate."""
    model = Model.of(fit, training, _SHORT_ROWS)
    rows = int(model.sample.fit_rows.sum())
    try:
        return model.curve(n=[rows, 2 * rows], ridge=model.middle * _SHORT_PATH)
    except (GradstepError, OutOfRange):
        return None


@dataclass(frozen=True, eq=False)
class _Indexed:
    """The index of the fitted network, with the combination (k,) of outputs that it is about and its values (n,)."""

    index: Index
    halves: float
    combination: Host
    target: Host


def _indexed(
    fit: OneStepReadout,
    sample: Sample,
    metric: Metric,
    compared: Compared,
    step: Callable[[NDArray[np.bool_]], Host],
    everything: Host,
) -> _Indexed:
    """Find the index, and how far halves of the rows agree on the direction of the fit."""
    initial = fit._initial
    change = fit._layer.weights - initial.weights if fit.eta_ else everything
    combination = _combination(initial.readout, metric.leading(change if np.any(change) else everything)[1])
    target = sample.y @ combination
    index = find_index(compared.draws, sample, metric, compared.taken, compared.n_steps, compared.penalty, target)
    if fit.rounds_:
        halves = index.halves
    elif np.any(everything):
        noise = metric.noise(fit.damping_)
        halves = agreement_of_halves(sample, lambda _, rows: metric.leading(step(rows))[0], noise)
    else:  # a gradient of nothing has no direction to agree on
        halves = 0.0
    return _Indexed(index, halves, combination, target)


@dataclass(frozen=True, eq=False)
class _Along:
    """The rows of the fit along the index.

    `size` is the standard deviation of the combination of targets, `variance` the sum of those of all targets, and
    `unexplained` what functions of the index leave of it.
    """

    link: Link
    bins: Bins
    size: float
    variance: float
    unexplained: float

    @property
    def varies(self) -> bool:
        return self.variance > _ROUNDING


def _along(one: _Indexed, sample: Sample, outputs: Host) -> _Along:
    rows = sample.fit_rows
    y, w, target = sample.y[rows], sample.weights[rows], one.target[rows]
    kappa = normal_scores(one.index.projections[rows], w)
    size = math.sqrt(_variances(target[:, None], w)[0]) or 1.0
    several = observations(sample.copies.group[rows].astype(np.uint64), y)
    link = fit_link(kappa, target / size, w, several)
    if y.shape[1] == 1:  # the target is its own combination, up to its sign
        unexplained = (size * link.noise) ** 2
    else:
        unexplained = sum(fit_link(kappa, output, w, several).noise ** 2 for output in y.T)
    bins = binned(kappa, target / size, outputs[rows] @ one.combination / size, w, several)
    return _Along(link, bins, size, float(_variances(y, w).sum()), unexplained)


def _jackknife(variations: Host, learned: Learned) -> Host:
    """Return standard errors of the importances from those of fits without one part of the rows each."""
    shares = np.array([replace(learned, variation=variation).importances for variation in variations])
    return np.asarray(np.sqrt((len(shares) - 1) * np.var(shares, axis=0)))


def _combination(readout: Host, side: Host) -> Host:
    """Return the combination of outputs, of norm one, behind the neurons' side of a direction."""
    combination = np.linalg.lstsq(readout, side, rcond=None)[0]
    combination /= np.linalg.norm(combination) or 1.0
    return np.asarray(combination * np.sign(combination[np.argmax(np.abs(combination))] or 1.0))


def _variances(values: Host, weights: Host) -> Host:
    share = weights / weights.sum()
    return np.asarray(share @ (values - share @ values) ** 2)


def _checked_theory(
    fit: OneStepReadout, settings: Settings, sample: Sample, one: _Indexed, along: _Along
) -> tuple[Theory | None, str]:
    """Return the theory, or None and what columns or errors say against it."""
    broken = broken_by_columns(sample)
    theory, note = theory_of(fit, settings, along.link, one.index.blur, broken)
    if theory is not None:
        rows = sample.fit_rows
        squares = (one.target[rows] - one.index.outputs[rows] @ one.combination) ** 2 / along.size**2
        if broken := broken_by_errors(theory.unexplained[1], squares, sample.weights[rows], sample.copies.group[rows]):
            return None, broken
    return theory, note
