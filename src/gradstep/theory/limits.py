"""Predictions in the proportional limit by the closed equations of the papers, where they cover a problem."""

from __future__ import annotations

import math

from gradstep.problem import Problem
from gradstep.theory.large_step import large_step
from gradstep.theory.prediction import Prediction
from gradstep.theory.small_step import small_step_of

__all__ = ["limiting_prediction"]


def limiting_prediction(problem: Problem) -> Prediction | None:
    """Return the papers' limit for a problem with ``d = inf``, or None where they have none.

    Notes
    -----
    Ba et al. 2022, Theorem 5, for a step of order one, an odd activation and any readout law of mean square one;
    Cui et al. 2024, Result 3.3, for ``eta = c * width**0.5`` and a constant readout (any activation).
    """
    if problem.output_scale != "1/N":
        return None
    still = problem.eta.coefficient == 0
    odd = problem.activation.parity == "odd"
    if (still or problem.eta.exponent == 0) and odd and problem.readout.second_moment == 1:
        return _small(problem)
    if problem.eta.exponent == 0.5 and not still and problem.readout.values == (1.0,):
        return _large(problem)
    return None


def _step_ratio(problem: Problem) -> float:
    return math.inf if problem.n_step == math.inf else problem.ratio("n_step")


def _small(problem: Problem) -> Prediction:
    result = small_step_of(
        problem.activation,
        problem.teacher,
        sample_ratio=problem.ratio("n"),
        width_ratio=problem.ratio("width"),
        penalty=problem.ratio("ridge") / problem.ratio("n"),
        step_size=problem.eta.coefficient,
        noise=problem.noise,
        step_sample_ratio=_step_ratio(problem),
    )
    return Prediction(
        problem=problem,
        method="small step, proportional limit",
        test_error=float(result.test_error),
        train_error=float(result.train_error),
        train_loss=float(result.train_loss),
        alignment=float(result.alignment),
        spike_strength=float(result.spike_strength),
        bulk_variance=1.0,
        degrees_of_freedom=float(result.initial.degrees_of_freedom_per_sample) * problem.ratio("n"),
        residual=float(result.initial.residual),
        iterations=0,
    )


def _large(problem: Problem) -> Prediction:
    width = problem.ratio("width")
    penalty = problem.ratio("ridge") / width
    result = large_step(
        problem.activation,
        problem.teacher,
        step_size=problem.eta.coefficient,
        step_sample_ratio=_step_ratio(problem),
        sample_ratio=problem.ratio("n"),
        width_ratio=width,
        penalty=penalty,
        noise=problem.noise,
    )
    return Prediction(
        problem=problem,
        method="large step, proportional limit",
        test_error=float(result.test_error),
        train_error=float(result.train_error),
        train_loss=float(result.train_loss),
        alignment=float(result.spike.alignment),
        # Every neuron moves by a finite amount: the norm of the whole spike grows like sqrt(N).
        spike_strength=math.inf if result.spike.strength else 0.0,
        bulk_variance=float(result.spike.bulk_variance),
        degrees_of_freedom=width * (1 - penalty * float(result.readout_response)),
        residual=float(result.residual),
        iterations=0,
    )
