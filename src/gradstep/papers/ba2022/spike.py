r"""The rank-one gradient of Proposition 2 and the outlier of :math:`W_1` for :math:`\eta=\Theta(1)`.

Parameters, and the errors raised, are those of :mod:`gradstep.papers.ba2022.risk`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradstep.checks import nonnegative, positive
from gradstep.gaussian.functions import ScalarFunction
from gradstep.papers.ba2022.coefficients import coefficients
from gradstep.papers.ba2022.risk import rotated_neuron, theta_squared

__all__ = ["Outlier", "outlier", "spiked_law", "theta"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Outlier:
    r"""Leading singular triple of the first layer :math:`W_1\in\mathbb R^{d\times N}` after a small step.

    Attributes
    ----------
    threshold : ndarray
        Learning rate :math:`\eta_c=\psi_2^{1/4}/(|\mu_1|\theta)` above which a singular value leaves the bulk;
        infinite for an activation without a linear part.
    singular_value : ndarray
        The largest singular value; :math:`1+\sqrt{\psi_2}` below the threshold.
    gradient_overlap, teacher_overlap : ndarray
        Squared cosine of the left singular vector with the gradient :math:`X^\top y` and with the teacher's
        :math:`\beta_*`.
    readout_overlap : ndarray
        Squared cosine of the right singular vector with the readout :math:`a`.
    """

    threshold: Array
    singular_value: Array
    gradient_overlap: Array
    teacher_overlap: Array
    readout_overlap: Array


def theta(
    sigma_star: str | ScalarFunction, *, psi1: ArrayLike, sigma_eps: ArrayLike = 0.0, centred: bool = True
) -> Array:
    r"""Limit of :math:`|X^\top y|/n`, so that :math:`\sqrt N|G_0|\to|\mu_1|\theta` (Proposition 2).

    The teacher is `centred` as in :func:`~gradstep.papers.ba2022.coefficients`.
    """
    return np.asarray(np.sqrt(theta_squared(coefficients(sigma_star, sigma_star, centred=centred), psi1, sigma_eps)))


def spiked_law(
    *,
    eta: ArrayLike,
    psi2: ArrayLike,
    mu1: ArrayLike,
    mu1_star: ArrayLike,
    theta2: ArrayLike,
    N: ArrayLike | None = None,
) -> Outlier:
    r"""Outlier of the first layer after one small step (spiked Marchenko-Pastur law).

    The linear coefficients of the activation and of the teacher are ``mu1`` and ``mu1_star``, and ``theta2``
    is :math:`\theta^2`, positive. The width ``N`` is for the finite-width correction, which does not move
    ``threshold``.

    Docs, "Spectra", equation (Z9).

    Notes
    -----
    :math:`W_1W_1^\top` is a Wishart matrix without one of its neurons, plus :math:`vv^\top` with
    :math:`|v|^2=V=\omega+\eta^2\mu_1^2\theta^2`. For :math:`(V-1)^2>\psi_2` the largest eigenvalue is
    :math:`V(1+\psi_2/(V-1))`.
    """
    psi2, eta, mu1_squared, theta2, mu1_star = np.broadcast_arrays(
        positive("psi2", psi2), nonnegative("eta", eta), np.square(mu1), positive("theta2", theta2), mu1_star
    )
    step_variance = eta**2 * mu1_squared * theta2
    total = rotated_neuron(eta, mu1_squared, theta2, N)
    excess = total - 1
    emerged = (excess > 0) & (excess**2 > psi2)
    safe = np.where(emerged, excess, 1.0)
    with np.errstate(divide="ignore"):
        threshold = psi2**0.25 / np.sqrt(mu1_squared * theta2)
    gradient_overlap = np.where(emerged, step_variance / total * (1 - psi2 / safe**2), 0.0)
    return Outlier(
        threshold=np.asarray(threshold),
        singular_value=np.where(emerged, np.sqrt(np.where(emerged, total, 1.0) * (1 + psi2 / safe)), 1 + np.sqrt(psi2)),
        gradient_overlap=gradient_overlap,
        teacher_overlap=np.asarray(gradient_overlap * mu1_star**2 / theta2),
        readout_overlap=np.where(emerged, (safe**2 - psi2) / (safe * (psi2 + safe)), 0.0),
    )


def outlier(
    sigma: str | ScalarFunction,
    sigma_star: str | ScalarFunction,
    *,
    eta: ArrayLike,
    psi1: ArrayLike,
    psi2: ArrayLike,
    sigma_eps: ArrayLike = 0.0,
    N: ArrayLike | None = None,
    centred: bool = True,
) -> Outlier:
    """Largest singular value of :math:`W_1` and the overlaps of its singular vectors.

    The step is as in :func:`~gradstep.papers.ba2022.R_1`. Raises `InvalidInput` on an argument out of range, a function
    that is unknown, or an activation with jumps.

    Docs, "Spectra", equation (Z9).
    """
    values = coefficients(sigma, sigma_star, centred=centred)
    values.check_step()
    theta2 = theta_squared(values, psi1, sigma_eps)
    return spiked_law(eta=eta, psi2=psi2, mu1=values.mu1, mu1_star=values.mu1_star, theta2=theta2, N=N)
