r"""The kernels of section 3.1 that learn a linear function only, and their risk in the proportional limit.

Ridge regression with the neural tangent kernel at initialisation, an inner-product kernel or a distance kernel is
equivalent to linear ridge regression on the inputs: the kernel matrix is :math:`\alpha XX^\top/d+\gamma I` up to a
constant, with a linear part :math:`\alpha` and an implicit penalty :math:`\gamma` (El Karoui 2010; Montanari and Zhong
2020; Bartlett, Montanari and Rakhlin 2021). The conjugate kernel is :func:`~gradstep.papers.ba2022.R_0`. The closed
forms of the risks are those of linear ridge regression; Proposition 1 bounds all of them from below. Functions raise
`InvalidInput` on an argument out of range, and on a function that is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gradstep.checks import nonnegative, positive
from gradstep.errors import InvalidInput
from gradstep.gaussian.functions import ScalarFunction, scalar_function
from gradstep.gaussian.moments import moments
from gradstep.papers.ba2022.coefficients import coefficients

__all__ = [
    "R_NTK",
    "LinearEquivalent",
    "R_ker",
    "R_linear",
    "distance_kernel",
    "inner_product_kernel",
    "kernel_ridge_penalty",
    "tangent_kernel",
]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class LinearEquivalent:
    r"""Equivalent of a kernel matrix in the proportional limit: :math:`\alpha XX^\top/d+\gamma I`, up to a constant.

    Attributes
    ----------
    linear : float
        :math:`\alpha`, positive.
    diagonal : float
        :math:`\gamma`: the implicit penalty.
    """

    linear: float
    diagonal: float

    def __post_init__(self) -> None:
        if not (np.isfinite(self.linear) and self.linear > 0):
            raise InvalidInput("linear", self.linear, "finite and > 0: a kernel with a linear part")
        if not (np.isfinite(self.diagonal) and self.diagonal >= 0):
            raise InvalidInput("diagonal", self.diagonal, "finite and >= 0, as for any positive definite kernel")


def inner_product_kernel(g0: float, g1: float, slope0: float) -> LinearEquivalent:
    r"""Equivalent of :math:`k(x,y)=g(\langle x,y\rangle/d)`: :math:`\alpha=g'(0)`, :math:`\gamma=g(1)-g(0)-g'(0)`.

    The arguments are :math:`g(0)`, :math:`g(1)` and :math:`g'(0)`.
    """
    return LinearEquivalent(slope0, g1 - g0 - slope0)


def distance_kernel(g0: float, g2: float, slope2: float) -> LinearEquivalent:
    r"""Equivalent of :math:`k(x,y)=g(|x-y|^2/d)`: :math:`\alpha=-2g'(2)`, :math:`\gamma=g(0)-g(2)+2g'(2)`.

    The arguments are :math:`g(0)`, :math:`g(2)` and :math:`g'(2)`, which is negative.
    """
    return LinearEquivalent(-2 * slope2, g0 - g2 + 2 * slope2)


def tangent_kernel(sigma: str | ScalarFunction) -> LinearEquivalent:
    r"""Equivalent of the tangent kernel of (3.1): :math:`\alpha=\mu_1^2`, :math:`\gamma=E\sigma'^2-\mu_1^2`.

    The activation is continuous.
    """
    values = moments(scalar_function(sigma))
    return LinearEquivalent(values.derivative_mean**2, values.derivative_variance)


def kernel_ridge_penalty(lam: ArrayLike, n: ArrayLike, *, published: bool = False) -> Array:
    r"""Penalty that the estimator (3.2) adds to the diagonal of the kernel matrix.

    The minimiser of the objective of (3.2) is :math:`k(x,X)^\top(K+n\lambda I)^{-1}y`. The paper writes
    :math:`(K+\lambda I)^{-1}`, which belongs to a sum of squares instead of their mean.

    With `published` it is :math:`\lambda` itself, as the paper's closed form has it.
    """
    return nonnegative("lam", lam) * (1.0 if published else positive("n", n))


def R_linear(
    sigma_star: str | ScalarFunction,
    *,
    penalty: ArrayLike,
    psi1: ArrayLike,
    sigma_eps: ArrayLike = 0.0,
) -> Array:
    r"""Risk of ridge regression on the inputs, :math:`\min_b\frac1n|y-Xb|^2+\ell|b|^2`.

    The teacher's mean is subtracted. At a penalty :math:`\ell` of zero there have to be more samples than dimensions.
    The risk does not include the label noise. Raises `InvalidInput` if an argument is out of range, or the penalty is
    zero with no more samples than dimensions.

    Docs, "Random features", equation (R7).

    Notes
    -----
    With :math:`S=\mu_2^{*2}+\sigma_\epsilon^2` and the effective ridge :math:`k(1-\psi_1^{-1}/(1+k))=\ell`,

    .. math:: R=\frac{\mu_1^{*2}k^2/(1+k)^2+S}{1-\psi_1^{-1}/(1+k)^2}-\sigma_\epsilon^2 .
    """
    values = coefficients("linear", sigma_star)
    ridge, noise = nonnegative("penalty", penalty), nonnegative("sigma_eps", sigma_eps)
    ratio = 1 / positive("psi1", psi1)
    if not ((ridge > 0) | (ratio < 1)).all():
        raise InvalidInput("penalty", penalty, "> 0 unless psi1 > 1")
    half = (1 - ridge - ratio) / 2
    root = np.sqrt(half**2 + ridge)
    # The positive root of k^2 + 2 half k - ridge, without cancellation on either side.
    k = np.where(half > 0, ridge / (root + np.abs(half)), root + np.abs(half))
    bias = values.mu1_star**2 * k**2 / (1 + k) ** 2
    return np.asarray((bias + values.unlearned + noise**2) / (1 - ratio / (1 + k) ** 2) - noise**2)


def R_ker(
    kernel: LinearEquivalent,
    sigma_star: str | ScalarFunction,
    *,
    ridge: ArrayLike,
    psi1: ArrayLike,
    sigma_eps: ArrayLike = 0.0,
) -> Array:
    r"""Risk :math:`\mathcal R_{ker}` of kernel ridge regression (3.2) with a centred teacher.

    The kernel is one of :func:`inner_product_kernel` or :func:`distance_kernel`. The penalty ``ridge`` is added to the
    kernel matrix, see :func:`kernel_ridge_penalty`, and the others are as in :func:`R_linear`.
    """
    penalty = (nonnegative("ridge", ridge) + kernel.diagonal) / (kernel.linear * positive("psi1", psi1))
    return R_linear(sigma_star, penalty=penalty, psi1=psi1, sigma_eps=sigma_eps)


def R_NTK(
    sigma: str | ScalarFunction,
    sigma_star: str | ScalarFunction,
    *,
    lam: ArrayLike,
    psi1: ArrayLike,
    psi2: ArrayLike,
    sigma_eps: ArrayLike = 0.0,
) -> Array:
    r"""Risk :math:`\mathcal R_{NTK}(\lambda)` of ridge regression on the tangent features of (3.1).

    The penalty :math:`(\lambda/N)|a|^2` of (3.1) adds :math:`\lambda n/N` to the kernel matrix.

    The teacher is centred, and the others are as in :func:`~gradstep.papers.ba2022.R_0`.
    """
    ridge = nonnegative("lam", lam) * positive("psi1", psi1) / positive("psi2", psi2)
    return R_ker(tangent_kernel(sigma), sigma_star, ridge=ridge, psi1=psi1, sigma_eps=sigma_eps)
