"""The real network with any convex loss and penalty of the readout fit, and with labels that are classes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gradstep.checks import integer
from gradstep.convex import Loss, Penalty
from gradstep.convex import loss as parse_loss
from gradstep.convex import penalty as parse_penalty
from gradstep.errors import InvalidInput
from gradstep.labels import Channel, labels_of
from gradstep.problem import Problem
from gradstep.simulation.arguments import MOST_TEST_SAMPLES, chosen_seeds, threads_of
from gradstep.simulation.measurement import Measurement
from gradstep.simulation.network import Network
from gradstep.simulation.streams import Purpose, normal_blocks
from gradstep.versions import versions

__all__ = ["convex_measurement"]

_CONVENTION = "sum of the losses plus (ridge/N) sum r(sqrt(N) b) on raw features b; train_error is the mean loss"


def convex_measurement(
    problem: Problem,
    seeds: int | Sequence[int],
    *,
    loss: str | Loss = "square",
    penalty: str | Penalty = "ridge",
    channel: Channel = "real",
    flip: float = 0.0,
    test_samples: int = 20_000,
    tolerance: float = 1e-5,
) -> Measurement:
    """Measure the real network: random weights, one gradient step, the readout fitted with a convex loss.

    Parameters
    ----------
    problem : Problem
        Problem whose sizes are all finite; its ``ridge`` is the strength of the penalty.
    seeds : int or sequence of int
        The number of seeds, or the seeds themselves; each draws the same weights and inputs as in
        :func:`gradstep.simulate`.
    loss, penalty, channel, flip
        As in :func:`gradstep.theory.convex.convex_loss.convex_prediction`.
    test_samples : int
        Number of fresh inputs for the test loss and the classification error.
    tolerance : float
        Tolerance of the fit, see :func:`gradstep.simulation.convex_fit.fit_convex`.

    Returns
    -------
    Measurement
        ``test_error`` (exact expectation over inputs), ``test_loss``, ``classification_error``, ``train_error``,
        ``train_loss``, ``train_classification_error`` and ``active_fraction``, defined as in
        :class:`gradstep.theory.convex.convex_loss.ConvexPrediction`.

    Raises
    ------
    InvalidInput
        If a size is infinite, if a seed or a number is not one, or if a margin loss is given real labels.
    NotConverged
        If a fit does not converge.
    """
    chosen, regulariser = parse_loss(loss), parse_penalty(penalty)
    labels = labels_of(problem, channel, flip)
    if chosen.kind == "margin" and not labels.binary:
        raise InvalidInput("loss", chosen.name, "a residual loss with channel='real'")
    numbers, fresh = chosen_seeds(seeds), integer("test_samples", test_samples, 1, MOST_TEST_SAMPLES)
    each = [_measured(Network(problem, seed, labels=labels), chosen, regulariser, fresh, tolerance) for seed in numbers]
    return Measurement(
        problem=problem,
        seeds=numbers,
        ridge=problem.sizes.ridge,
        values={name: np.array([one[name] for one in each]) for name in each[0]},
        versions=versions(),
        convention=_CONVENTION,
    )


def _measured(network: Network, loss: Loss, penalty: Penalty, test_samples: int, tolerance: float) -> dict[str, float]:
    labels, binary = network.labels, network.labels.binary
    fit = network.fit_convex(loss=loss, penalty=penalty, tolerance=tolerance)
    losses, wrong = [], []
    with threads_of(network.problem):
        inputs, given = network.fit_data()
        train_wrong = given * (network.features(inputs) @ fit.readout) < 0
        for block in normal_blocks(network.seed, Purpose.TEST_INPUTS, test_samples, inputs.shape[1] + 1):
            x = network.law.times_root(block[:, :-1])
            fresh = labels.draw(network.law.teacher_input(labels.mean, x), block[:, -1])
            outputs = network.features(x) @ fit.readout
            losses.append(loss.value(fresh, outputs))
            wrong.append(fresh * outputs < 0)
    return {
        "test_error": float(network.risk(fit.readout).test_error),
        "test_loss": float(np.concatenate(losses).mean()),
        "classification_error": float(np.concatenate(wrong).mean()) if binary else math.nan,
        "train_error": fit.train_error,
        "train_loss": fit.train_loss,
        "train_classification_error": float(train_wrong.mean()) if binary else math.nan,
        "active_fraction": float(np.mean(fit.readout != 0)),
    }
