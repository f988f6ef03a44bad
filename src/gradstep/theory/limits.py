"""Predictions in the proportional limit by the closed equations of the papers, where they cover a problem."""

from __future__ import annotations

import math

from gradstep.gaussian import is_continuous, moments
from gradstep.problem import Problem
from gradstep.theory.large_step import large_step
from gradstep.theory.prediction import Prediction
from gradstep.theory.small_step import gradient_norm_squared, small_step_of

__all__ = ["limiting_prediction"]


def limiting_prediction(problem: Problem) -> Prediction | None:
    """Return the papers' limit for a problem with ``d = inf``, or None where they have none.

    Notes
    -----
    Ba et al. 2022, Theorem 5, for a step of order one, an odd activation and any readout law of mean square one;
    Cui et al. 2024, Result 3.3, for ``eta = c * width**0.5`` and a constant readout (any activation). Both for a step
    along ``E z sigma``, which is that of the network but for activations with jumps.
    """
    if problem.output_scale != "1/N":
        return None
    still = problem.eta.coefficient == 0
    if not still and not is_continuous(problem.activation):
        return None
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


def _alignment(problem: Problem) -> float:
    """Return the alignment of the gradient, ``E z y / |g|``; that of a spike has the sign of ``E sigma'`` too."""
    student, teacher = moments(problem.activation), moments(problem.teacher)
    residual = teacher.second_moment - 2 * teacher.mean * student.mean + student.mean**2 + problem.noise**2
    norm = math.sqrt(float(gradient_norm_squared(teacher.linear, residual, _step_ratio(problem))))
    return teacher.linear / norm if norm else 0.0


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
        alignment=_alignment(problem),
        # Every neuron moves by a finite amount: the norm of the whole spike grows like sqrt(N).
        spike_strength=math.inf if result.spike.strength else 0.0,
        bulk_variance=float(result.spike.bulk_variance),
        degrees_of_freedom=width * (1 - penalty * float(result.readout_response)),
        residual=float(result.residual),
        iterations=0,
    )
