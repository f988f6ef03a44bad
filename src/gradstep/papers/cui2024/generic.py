"""Any convex loss and penalty: appendix C, equations (82) and (116) to (120), in the proportional limit."""

from __future__ import annotations

import math
from collections.abc import Mapping

from gradstep.convex import Loss, Penalty
from gradstep.gaussian.functions import ScalarFunction
from gradstep.labels import Channel
from gradstep.problem import Problem
from gradstep.theory.convex_loss import ConvexPrediction, convex_prediction

__all__ = ["generic_errors"]


def generic_errors(
    sigma: str | ScalarFunction,
    sigma_star: str | ScalarFunction,
    *,
    eta_tilde: float,
    alpha0: float,
    alpha: float,
    lam: float,
    beta: float = 1.0,
    sigma_eps: float = 0.0,
    loss: str | Loss = "square",
    penalty: str | Penalty = "ridge",
    channel: Channel = "real",
    flip: float = 0.0,
    readout: str | Mapping[float, float] = "constant",
) -> ConvexPrediction:
    r"""Errors of the minimiser of :math:`\sum_\mu\ell(y_\mu,f_a(x_\mu))+\lambda\sum_i r(a_i)` over the readout.

    Parameters
    ----------
    sigma, sigma_star : str or ScalarFunction
        Activation and teacher.
    eta_tilde, alpha0, alpha, lam, beta, sigma_eps : float
        As in :func:`~gradstep.papers.cui2024.summary_statistics`.
    loss, penalty : str, Loss or Penalty
        :math:`\ell` and :math:`r`, see :mod:`gradstep.convex`; ``"square"`` and ``"ridge"`` are those of (4).
    channel, flip
        Real labels or classes, see :func:`gradstep.labels.labels_of`: the noisy targets of C.8.
    readout : str or mapping
        ``"constant"``, or the finite vocabulary of appendix D.

    Returns
    -------
    ConvexPrediction

    Notes
    -----
    The paper's (97) minimises over all N weights at once. For a separable penalty and Gaussian rows of the bulk it
    reduces to one weight in a Gaussian field (this project). The model is the paper's, spiked random features; for the
    network itself see :func:`~gradstep.theory.convex_loss.convex_prediction`. The overlap :math:`\theta` is kept at
    its limit, as in :func:`~gradstep.papers.cui2024.summary_statistics`.
    """
    problem = Problem.cui2024(
        alpha=alpha,
        alpha0=alpha0,
        beta=beta,
        eta_tilde=eta_tilde,
        lam=lam,
        d=math.inf,
        activation=sigma,
        teacher=sigma_star,
        noise=sigma_eps,
        readout=readout,
    )
    return convex_prediction(
        problem, loss=loss, penalty=penalty, channel=channel, flip=flip, rows="isotropic", bulk="isotropic"
    )
