"""The training error against the teacher itself, from the one on noisy labels."""

from __future__ import annotations

from gradstep.problem import Problem

__all__ = ["noiseless_training_error"]


def noiseless_training_error(problem: Problem, train_error: float, degrees_of_freedom: float) -> float:
    r"""Return the mean square of teacher less network on the samples of the fit, in expectation over their noise.

    A fit with hat matrix :math:`H` leaves the residual :math:`(1-H)(f^*+\epsilon)`, whose mean product with the noise
    is :math:`\sigma^2(1-\operatorname{tr}H/n)`. Without the noise the error therefore is
    :math:`E_{\text{train}}-\sigma^2(1-2\operatorname{tr}H/n)`. The identity holds for every drawn network, too: with
    its own training error and degrees of freedom the expectation is the same.

    Parameters
    ----------
    problem : Problem
    train_error : float
        Mean square on the labels with their noise.
    degrees_of_freedom : float
        Trace of the hat matrix; per dimension in the proportional limit.
    """
    samples = problem.ratio("n") if problem.is_limit else problem.real_sizes().n
    return train_error - problem.noise**2 * (1 - 2 * degrees_of_freedom / samples)
